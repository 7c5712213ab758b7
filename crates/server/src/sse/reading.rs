//! The log for watchers after a long absence.
//!
//! The meaning of an event depends on all events before it. A reader of the log therefore needs an
//! [`EventReplay`], as large as the session. The watchers of one session read one after another, find the pages
//! read by others, and share a few replays.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use longhaul::api_events::EventReplay;
use longhaul::event_bus::SharedEvent;
use longhaul_core::ids::{Seq, SessionId};

use super::frame::frame;
use crate::app::AppState;
use crate::problem::ApiProblem;

/// The number of events per read: events only folded, and events sent.
const PASSED_EVENTS: usize = 64;
const TOLD_EVENTS: usize = 8;

/// The size of a full page, in bytes of events and frames. The event across the limit is the last one of its page.
pub(super) const PAGE_BYTES: usize = 64 << 10;

/// The pages and replays kept for a session with readers.
const PAGES: usize = 16;
pub(super) const REPLAYS: usize = 4;

/// The sessions with readers.
#[derive(Debug, Default)]
pub(crate) struct LogReaderRegistry(Mutex<HashMap<SessionId, Weak<SharedLogReader>>>);

/// The log of one session, kept as long as there is a reader.
#[derive(Debug, Default)]
pub(crate) struct SharedLogReader(tokio::sync::Mutex<LogReaderCache>);

/// The pages and replays, the most recently used last.
#[derive(Debug, Default)]
struct LogReaderCache {
    pages: VecDeque<Arc<SseEventPage>>,
    replays: VecDeque<EventReplay>,
}

/// Some events of the log, in order.
#[derive(Debug)]
pub(crate) struct SseEventPage {
    after: Seq,
    /// The position of the last event.
    pub(super) until: Seq,
    pub(super) events: Vec<Arc<SharedEvent>>,
}

impl LogReaderRegistry {
    /// Returns the session's reader, shared by all watchers.
    pub(crate) fn of(&self, session: &SessionId) -> Arc<SharedLogReader> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reading) = all.get(session).and_then(Weak::upgrade) {
            return reading;
        }
        // Cleaned up here, where the map would grow.
        all.retain(|_, reading| reading.strong_count() > 0);
        let reading = Arc::default();
        all.insert(session.clone(), Arc::downgrade(&reading));
        reading
    }
}

impl SharedLogReader {
    /// Returns a page with the event after `after`. The log has events up to `until` at least.
    ///
    /// # Errors
    /// The store's; `internal` if the log is shorter or cannot be folded.
    pub(super) async fn page(
        &self,
        app: &AppState,
        session: &SessionId,
        after: Seq,
        until: Seq,
    ) -> Result<Arc<SseEventPage>, ApiProblem> {
        // The lock is held while the log is read, so that waiting watchers find this page instead of reading it again.
        let mut desk = self.0.lock().await;
        if let Some(page) = desk.page(after) {
            return Ok(page);
        }
        let mut replay = desk.replay(after).unwrap_or_else(|| app.runtime().replay(session));
        while replay.seq() < after {
            pass(app, session, &mut replay, after).await?;
        }
        let page = Arc::new(read(app, session, &mut replay, until).await?);
        desk.store_page(replay, Arc::clone(&page));
        Ok(page)
    }

    #[cfg(test)]
    pub(super) async fn replays(&self) -> usize {
        self.0.lock().await.replays.len()
    }
}

impl LogReaderCache {
    fn page(&mut self, after: Seq) -> Option<Arc<SseEventPage>> {
        let at = self.pages.iter().position(|page| page.after <= after && after < page.until)?;
        let page = self.pages.remove(at)?;
        // The used page goes to the end, because the front is dropped first.
        self.pages.push_back(Arc::clone(&page));
        Some(page)
    }

    /// Returns the closest replay before `after`.
    fn replay(&mut self, after: Seq) -> Option<EventReplay> {
        let before = self.replays.iter().enumerate().filter(|(_, replay)| replay.seq() <= after);
        let (at, _) = before.max_by_key(|(_, replay)| replay.seq())?;
        // The replay is taken out, because it moves on with the next page.
        self.replays.remove(at)
    }

    fn store_page(&mut self, replay: EventReplay, page: Arc<SseEventPage>) {
        self.replays.push_back(replay);
        self.pages.push_back(page);
        // A replay is as large as the session, so only a few are kept.
        self.replays.drain(..self.replays.len().saturating_sub(REPLAYS));
        self.pages.drain(..self.pages.len().saturating_sub(PAGES));
    }
}

/// Folds the next events up to `until`.
async fn pass(
    app: &AppState,
    session: &SessionId,
    replay: &mut EventReplay,
    until: Seq,
) -> Result<(), ApiProblem> {
    let at = replay.seq();
    let limit = PASSED_EVENTS.min(usize::try_from(until - at).unwrap_or(PASSED_EVENTS));
    let events = app.runtime().store().read(session, at, limit).await?;
    // The caller knows that the log is longer. Without an error it would ask for ever.
    if events.is_empty() {
        return Err(ApiProblem::internal());
    }
    events.iter().try_for_each(|event| replay.skip_event(event)).map_err(|_| ApiProblem::internal())
}

/// Reads up to a full page or the position `until` of the log.
async fn read(
    app: &AppState,
    session: &SessionId,
    replay: &mut EventReplay,
    until: Seq,
) -> Result<SseEventPage, ApiProblem> {
    let after = replay.seq();
    let mut page = Vec::new();
    let mut bytes = 0;
    while replay.seq() < until && bytes < PAGE_BYTES {
        let at = replay.seq();
        let limit = TOLD_EVENTS.min(usize::try_from(until - at).unwrap_or(TOLD_EVENTS));
        let events = app.runtime().store().read(session, at, limit).await?;
        if events.is_empty() {
            return Err(ApiProblem::internal());
        }
        for event in events {
            let announcements = replay.take(&event).map_err(|_| ApiProblem::internal())?;
            for announcement in announcements.into_iter().map(SharedEvent::new) {
                // A page holds an event twice: as values, and as a frame of about the same size.
                bytes += 2 * announcement.written(frame).len();
                page.push(announcement);
            }
            if bytes >= PAGE_BYTES {
                // The rest of the read is thrown away. The replay stands at the last event of the page.
                break;
            }
        }
    }
    Ok(SseEventPage { after, until: replay.seq(), events: page })
}
