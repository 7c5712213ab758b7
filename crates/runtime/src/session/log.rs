//! A whole log: read page by page, and folded beside the reading, where no other task waits for what is counted.

use std::panic::resume_unwind;

use longhaul_core::estimate::Counter;
use longhaul_core::event::{Event, EventBody, ModelChoice};
use longhaul_core::history::{FoldError, History};
use longhaul_core::ids::{Seq, SessionId};
use longhaul_store::{SharedStore, StoreError};
use tokio::task::{JoinHandle, spawn_blocking};

use super::SessionError;
use super::runtime::House;
use crate::driver::Seat;

#[cfg(test)]
mod tests;

/// Events read from the store at a time.
const PAGE: usize = 2_000;

/// A log, who answers in its session, and what it means to them.
pub(super) struct Opened {
    pub(super) log: Vec<Event>,
    pub(super) seat: Seat,
    pub(super) history: History,
}

/// The whole log of a session.
///
/// # Errors
/// Those of the store.
pub async fn whole_log(store: &SharedStore, id: &SessionId) -> Result<Vec<Event>, StoreError> {
    let mut pages = Pages::of(store, id);
    let mut log = pages.next().await?;
    while !pages.ended {
        log.extend(pages.next().await?);
    }
    Ok(log)
}

/// What a log means, counted by `counter`; and the log again.
///
/// # Errors
/// [`SessionError::Log`]; [`SessionError::Stopped`] as the process ends.
pub(crate) async fn folded(
    id: &SessionId,
    counter: Counter,
    log: Vec<Event>,
) -> Result<(History, Vec<Event>), SessionError> {
    Folding::begin(History::new(counter), log).end(id).await
}

/// The agent or model that was chosen last.
pub(super) fn newest_choice(log: &[Event]) -> Option<&ModelChoice> {
    log.iter().rev().find_map(|event| match &event.body {
        EventBody::ModelSwitched { choice: Some(choice), .. } => Some(choice),
        _ => None,
    })
}

impl House {
    /// Reads a session that is to be opened. Each page is folded while the next is read, as the agent counts that the first
    /// page names. If another was chosen later, who counts otherwise, all is folded again in the end.
    ///
    /// # Errors
    /// [`SessionError::Store`]; [`SessionError::Log`].
    pub(super) async fn read(&self, id: &SessionId) -> Result<Opened, SessionError> {
        let mut pages = Pages::of(&self.store, id);
        let mut page = pages.next().await?;
        let begun = newest_choice(&page).cloned();
        let mut seat = self.seat_of(begun.as_ref()).await;
        let mut history = History::new(seat.agent.calibrated_counter());
        let mut log = Vec::new();
        while !pages.ended {
            let folding = Folding::begin(history, page);
            page = pages.next().await?;
            let (further, folded) = folding.end(id).await?;
            history = further;
            log.extend(folded);
        }
        let (mut history, last) = Folding::begin(history, page).end(id).await?;
        log.extend(last);
        let newest = newest_choice(&log);
        if newest != begun.as_ref() {
            seat = self.seat_of(newest).await;
            let counter = seat.agent.calibrated_counter();
            if counter != *history.counter() {
                (history, log) = folded(id, counter, log).await?;
            }
        }
        seat.warn(id);
        Ok(Opened { log, seat, history })
    }
}

/// The pages of a log.
struct Pages<'a> {
    store: &'a SharedStore,
    id: &'a SessionId,
    after: Seq,
    ended: bool,
}

impl<'a> Pages<'a> {
    fn of(store: &'a SharedStore, id: &'a SessionId) -> Self {
        Self { store, id, after: 0, ended: false }
    }

    /// The next page. One that is not full is the last.
    async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        let page = self.store.read(self.id, self.after, PAGE).await?;
        self.after = page.last().map_or(self.after, |event| event.seq);
        self.ended = page.len() < PAGE;
        Ok(page)
    }
}

/// Events that are being folded on a thread of their own.
struct Folding(JoinHandle<Result<(History, Vec<Event>), FoldError>>);

impl Folding {
    fn begin(mut history: History, events: Vec<Event>) -> Self {
        Self(spawn_blocking(move || {
            events.iter().try_for_each(|event| history.apply(event))?;
            Ok((history, events))
        }))
    }

    async fn end(self, id: &SessionId) -> Result<(History, Vec<Event>), SessionError> {
        match self.0.await {
            Ok(folded) => folded.map_err(|error| SessionError::Log(id.clone(), error)),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(SessionError::Stopped),
            },
        }
    }
}
