//! The whole log of a session: read page by page, and folded on another thread, so counting blocks no async task.

use std::panic::resume_unwind;

use longhaul_core::event::{Event, EventBody, ModelChoice};
use longhaul_core::history::{History, HistoryFoldError};
use longhaul_core::ids::{Seq, SessionId};
use longhaul_store::{SharedStore, StoreError};
use tokio::task::{JoinHandle, spawn_blocking};

use super::SessionError;
use super::runtime::RuntimeInner;
use crate::driver::AgentBinding;

#[cfg(test)]
mod tests;

/// The number of events per read from the store.
const PAGE: usize = 2_000;

/// A log, the agent of its session, and the folded history.
pub(super) struct LoadedSession {
    pub(super) log: Vec<Event>,
    pub(super) seat: AgentBinding,
    pub(super) history: History,
}

/// Reads the whole log of a session.
///
/// # Errors
/// The errors of the store.
pub async fn whole_log(store: &SharedStore, id: &SessionId) -> Result<Vec<Event>, StoreError> {
    let mut pages = LogPageReader::of(store, id);
    let mut log = pages.next().await?;
    while !pages.ended {
        log.extend(pages.next().await?);
    }
    Ok(log)
}

/// Folds a log into an agent's empty `history`, and returns the history and the log.
///
/// # Errors
/// [`SessionError::Log`]; [`SessionError::Stopped`] while the process ends.
pub(crate) async fn folded(
    id: &SessionId,
    history: History,
    log: Vec<Event>,
) -> Result<(History, Vec<Event>), SessionError> {
    HistoryFoldTask::begin(history, log).end(id).await
}

/// Returns the last chosen agent or model.
pub(super) fn newest_choice(log: &[Event]) -> Option<&ModelChoice> {
    log.iter().rev().find_map(|event| match &event.body {
        EventBody::ModelSwitched { choice: Some(choice), .. } => Some(choice),
        _ => None,
    })
}

impl RuntimeInner {
    /// Reads a session for opening. Each page is folded while the next page is read.
    ///
    /// The agent of the first page counts the tokens. If a later page chooses an agent with another counter, the whole
    /// log is folded again at the end.
    ///
    /// # Errors
    /// [`SessionError::Store`]; [`SessionError::Log`].
    pub(super) async fn read(&self, id: &SessionId) -> Result<LoadedSession, SessionError> {
        let mut pages = LogPageReader::of(&self.store, id);
        let mut page = pages.next().await?;
        // Most sessions never switch, so the agent of the first page is nearly always the right one.
        let begun = newest_choice(&page).cloned();
        let mut seat = self.resolve_agent_binding(begun.as_ref()).await;
        let mut history = seat.agent.new_history();
        let mut log = Vec::new();
        while !pages.ended {
            let folding = HistoryFoldTask::begin(history, page);
            page = pages.next().await?;
            let (further, folded) = folding.end(id).await?;
            history = further;
            log.extend(folded);
        }
        let (mut history, last) = HistoryFoldTask::begin(history, page).end(id).await?;
        log.extend(last);
        let newest = newest_choice(&log);
        if newest != begun.as_ref() {
            tracing::debug!(session = %id, "the session switched to another agent or model after its first page");
            seat = self.resolve_agent_binding(newest).await;
            if !seat.agent.reads_as(&history) {
                tracing::debug!(session = %id, events = log.len(), "another tokenizer counts the log: it is folded again");
                (history, log) = folded(id, seat.agent.new_history(), log).await?;
            }
        }
        seat.warn(id);
        Ok(LoadedSession { log, seat, history })
    }
}

/// The reader of a log's pages.
struct LogPageReader<'a> {
    store: &'a SharedStore,
    id: &'a SessionId,
    after: Seq,
    ended: bool,
}

impl<'a> LogPageReader<'a> {
    fn of(store: &'a SharedStore, id: &'a SessionId) -> Self {
        Self { store, id, after: 0, ended: false }
    }

    /// Reads the next page. A page below the full size is the last.
    async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        let page = self.store.read(self.id, self.after, PAGE).await?;
        self.after = page.last().map_or(self.after, |event| event.seq);
        self.ended = page.len() < PAGE;
        Ok(page)
    }
}

/// A fold of events in progress, on a separate thread.
struct HistoryFoldTask(JoinHandle<Result<(History, Vec<Event>), HistoryFoldError>>);

impl HistoryFoldTask {
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
                // A panic while folding is a bug; it must not look like a stopped session.
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(SessionError::Stopped),
            },
        }
    }
}
