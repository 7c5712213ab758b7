//! The event stream of one watcher of one session: first the stored events after its position, then the answer in
//! flight, then all new events.
//!
//! A watcher pulls events. The server keeps only the watcher's place in the bounded, shared list of recent
//! events. A watcher finds missed events there after a reconnect; after a longer absence the watcher reads the
//! log, page by page. Events lost for good are reported by `stream:gap`. If events are unavailable only for
//! now, the stream ends, and a watcher misses nothing after a reconnect.
//!
//! Each frame is serialised once for all watchers. A client that does not read holds a bounded number of bytes
//! and is not woken. Such a client delays no run, and gets the rest later.

mod backpressure;
mod frame;
mod position;
mod reading;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use longhaul::api_events::ApiEvent;
use longhaul::event_bus::{EventReceiver, EventSubscription, RecvError, SharedEvent};
use longhaul::session::Session;
use longhaul_core::ids::Seq;
use serde_json::{Value, json};

use self::backpressure::ConnectionBackpressure;
use self::frame::{HEARTBEAT, frame, with_id};
pub(crate) use self::position::SsePosition;
pub(crate) use self::reading::LogReaderRegistry;
use self::reading::{PAGE_BYTES, SharedLogReader};
use crate::app::AppState;
use crate::counters;
use crate::routes::queue_entries;

/// The number of recent events per lookup.
const RECENT_EVENTS: usize = 8;

/// A watcher of a session.
pub(crate) struct SseWatcher {
    app: AppState,
    session: Session,
    announcements: EventReceiver,
    /// The newest position up to which everything was sent.
    after: Seq,
    /// The number of announcements sent of the next event.
    begun: (Seq, usize),
    stage: SseWatcherStage,
    ready: VecDeque<Arc<SharedEvent>>,
    /// The guard for the watcher in the count of watchers.
    _stream: counters::OpenStreamGuard,
}

/// The next task of a watcher.
enum SseWatcherStage {
    /// The watcher needs the stored events up to a position. Meanwhile nothing of the answer in flight is kept.
    Behind {
        until: Seq,
        reading: Option<Arc<SharedLogReader>>,
    },
    /// The watcher's position is ahead of the process.
    Ahead {
        told: Seq,
        in_flight: Option<Arc<SharedEvent>>,
    },
    /// The watcher needs the answer in flight and the queue.
    Arrives(Option<Arc<SharedEvent>>),
    Listens,
}

impl SseWatcher {
    /// Creates a watcher for everything behind `after`; `None`: from now on.
    pub(crate) fn new(app: AppState, session: Session, after: Option<Seq>) -> Self {
        Self::behind(app, session, after.map(SsePosition::from))
    }

    /// Creates a watcher at a position, possibly inside an event.
    pub(crate) fn behind(app: AppState, session: Session, position: Option<SsePosition>) -> Self {
        // Subscribed before anything is read, so that no event falls between the log and the subscription.
        let EventSubscription { announcements, told, in_flight } = session.subscribe();
        // Without a position a watcher wants only what is new.
        let SsePosition { after, begun } = position.unwrap_or_else(|| told.into());
        let mut watcher = Self {
            _stream: app.config().counters.stream(),
            app,
            session,
            announcements,
            after,
            begun,
            stage: SseWatcherStage::Listens,
            ready: VecDeque::new(),
        };
        watcher.take_place(told, in_flight);
        watcher
    }

    /// Returns the frames with heartbeats, up to the end of the session or the server.
    pub(crate) fn frames(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        let heartbeat = self.app.config().heartbeat;
        with_heartbeats(self.events().map(|event| event.written(frame)), heartbeat)
    }

    /// Returns the watcher's events.
    pub(crate) fn events(self) -> impl Stream<Item = Arc<SharedEvent>> {
        futures_util::stream::unfold(self, async |mut watcher| {
            let event = watcher.next().await?;
            Some((event, watcher))
        })
    }

    async fn next(&mut self) -> Option<Arc<SharedEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match std::mem::replace(&mut self.stage, SseWatcherStage::Listens) {
                // While old events were sent, new ones have come. The new subscription tells how far there is to go.
                SseWatcherStage::Behind { until, .. } if self.after >= until => self.attend(),
                SseWatcherStage::Behind { until, reading } => self.catch_up(until, reading).await?,
                SseWatcherStage::Ahead { told, in_flight } => self.go_back(told, in_flight).await?,
                SseWatcherStage::Arrives(in_flight) => self.arrive(in_flight).await,
                SseWatcherStage::Listens => self.listen().await?,
            }
        }
    }

    /// Subscribes to new events. Older ones are caught up first.
    fn attend(&mut self) {
        let EventSubscription { announcements, told, in_flight } = self.session.subscribe();
        self.announcements = announcements;
        self.take_place(told, in_flight);
    }

    fn take_place(&mut self, told: Seq, in_flight: Option<Arc<SharedEvent>>) {
        self.stage = match self.newest().cmp(&told) {
            Ordering::Greater => SseWatcherStage::Ahead { told, in_flight },
            _ if self.after < told => SseWatcherStage::Behind { until: told, reading: None },
            _ => SseWatcherStage::Arrives(in_flight),
        };
    }

    /// Returns the newest event sent in whole or in part.
    fn newest(&self) -> Seq {
        self.after.max(self.begun.0)
    }

    /// Handles a position ahead of this process. The position belongs to another log, or to a later state than
    /// a restored one. `None` if the process is behind: others have continued the session during a stop of the
    /// process.
    async fn go_back(&mut self, told: Seq, in_flight: Option<Arc<SharedEvent>>) -> Option<()> {
        let record = self.app.runtime().store().session(self.session.id()).await.ok()?;
        // Ending the stream makes the client reconnect, perhaps to the node that has the session now.
        if record.last_seq >= self.newest() {
            return None;
        }
        tracing::info!(
            session = %self.session.id(),
            position = self.newest(),
            last = told,
            "a watcher is ahead of the log, which was restored or is another one: it is told of a gap"
        );
        self.gap(told, self.newest());
        (self.after, self.begun) = (told, (0, 0));
        self.stage = SseWatcherStage::Arrives(in_flight);
        Some(())
    }

    fn gap(&mut self, from: Seq, to: Seq) {
        let gap = ApiEvent::passing("stream:gap", self.session.id(), json!({ "from": from, "to": to }));
        self.ready.push_back(SharedEvent::new(gap));
    }

    /// Sends the next events, from memory or from the log. `None` if the log cannot be read now.
    async fn catch_up(&mut self, until: Seq, reading: Option<Arc<SharedLogReader>>) -> Option<()> {
        // Memory comes first: a read of the log must fold all earlier events.
        if let Some(recent) = self.session.missed_events(self.after, until, RECENT_EVENTS) {
            self.tell(&recent.announcements, recent.until);
            self.stage = SseWatcherStage::Behind { until, reading };
            return Some(());
        }
        let reading = reading.unwrap_or_else(|| self.app.readings().of(self.session.id()));
        match reading.page(&self.app, self.session.id(), self.after, until).await {
            Ok(page) => self.tell(&page.events, page.until),
            // Unavailable for now: the stream ends, and the client comes back with its position.
            Err(problem) if problem.status() == StatusCode::SERVICE_UNAVAILABLE => return None,
            Err(problem) => {
                tracing::warn!(session = %self.session.id(), ?problem, "missed events could not be sent to \
                                                                        a watcher");
                self.gap(self.after + 1, until);
                self.after = until;
            }
        }
        // The reader is kept by its watchers. Dropping it between two pages would lose the replays.
        self.stage = SseWatcherStage::Behind { until, reading: Some(reading) };
        Some(())
    }

    /// Sends the events behind the watcher's position. After the events nothing is missing up to `until`.
    fn tell(&mut self, events: &[Arc<SharedEvent>], until: Seq) {
        let mut bytes = 0;
        for event in events.chunk_by(|one, next| one.seq == next.seq) {
            let Some(seq) = event[0].seq else { continue };
            // Watchers share pages, so a page may begin before this one's position.
            if seq <= self.after {
                continue;
            }
            // A watcher far behind gets the rest in the next round, so that no queue holds a whole log.
            if bytes >= PAGE_BYTES {
                return;
            }
            for told in event.iter().skip(self.given_of(seq)) {
                bytes += told.written(frame).len();
                self.ready.push_back(Arc::clone(told));
            }
            self.after = seq;
        }
        self.after = until;
    }

    /// Returns the number of announcements sent of the event at `seq`.
    fn given_of(&self, seq: Seq) -> usize {
        if self.begun.0 == seq { self.begun.1 } else { 0 }
    }

    async fn arrive(&mut self, in_flight: Option<Arc<SharedEvent>>) {
        self.ready.extend(in_flight);
        let entries = match self.session.queue().await {
            Ok(queue) => queue_entries(&queue),
            // A stopped session has no queue. `listen` then ends the stream.
            Err(_) => Value::Array(Vec::new()),
        };
        let queue = ApiEvent::passing("queue:snapshot", self.session.id(), json!({ "entries": entries }));
        let queue = SharedEvent::new(queue);
        // With this position a watcher that leaves now can return to its place. The frame is written here, because
        // only this watcher has the position.
        queue.written(|queue| with_id(queue, Some(self.after.to_string())));
        self.ready.push_back(queue);
    }

    /// Waits for the next announcement. `None` if there will be none.
    async fn listen(&mut self) -> Option<()> {
        // Biased, so that announcements before the end are sent before the stream ends.
        let told = tokio::select! {
            biased;
            told = self.announcements.recv() => told,
            () = self.session.stopped() => return None,
            () = self.app.closing().cancelled() => return None,
        };
        match told {
            Ok(told) => {
                self.note(&told);
                self.ready.push_back(told);
            }
            // The watcher fell behind the shared list. The log has what it missed.
            Err(RecvError::Lagged(_)) => self.attend(),
            Err(RecvError::Closed) => return None,
        }
        Some(())
    }

    /// Updates the position for an announcement.
    fn note(&mut self, announcement: &ApiEvent) {
        let Some(seq) = announcement.seq else { return };
        // One event of the log may give several announcements, and a client may leave between two of them.
        self.begun = (seq, self.given_of(seq) + 1);
        if announcement.ends_event {
            self.after = seq;
        }
    }
}

/// Returns the frames for a connection with a bounded buffer, and heartbeats while there are none.
pub(crate) fn with_heartbeats(
    frames: impl Stream<Item = Bytes>,
    heartbeat: Duration,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let begun = (Box::pin(frames), Arc::new(ConnectionBackpressure::default()));
    futures_util::stream::unfold(begun, move |(mut frames, held)| async move {
        // The room comes before the next frame: a client that does not read is then not woken by events.
        held.room().await;
        let frame = tokio::select! {
            biased;
            frame = frames.next() => frame?,
            () = tokio::time::sleep(heartbeat) => HEARTBEAT,
        };
        Some((Ok(held.count(frame)), (frames, held)))
    })
}
