//! The whole log of a session: read page by page, and folded on another thread, so counting blocks no async task.

use std::panic::resume_unwind;

use longhaul_core::event::{Event, EventBody, ModelChoice};
use longhaul_core::history::{History, HistoryFoldError};
use longhaul_core::ids::{Millis, Seq, SessionId};
use longhaul_store::{SharedStore, StoreError};
use tokio::task::{JoinHandle, spawn_blocking};

use super::SessionError;
use super::runtime::RuntimeInner;
use crate::driver::AgentBinding;

#[cfg(test)]
mod tests;

/// The number of events per read from the store.
const PAGE: usize = 2_000;

/// The history that a log folds to, the agent of its session, and the facts of the log that no history keeps.
pub(super) struct LoadedSession {
    pub(super) facts: LogFacts,
    pub(super) binding: AgentBinding,
    pub(super) history: History,
}

/// The facts of a log that are needed to open its session, beside the history.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LogFacts {
    /// The number of events.
    pub(super) events: usize,
    /// The time of the newest event; 0 for an empty log.
    pub(super) last_at: Millis,
    /// The agent or model that was chosen last.
    choice: Option<ModelChoice>,
}

/// Reads the whole log of a session.
///
/// # Errors
/// The errors of the store.
#[doc(hidden)]
pub async fn whole_log(store: &SharedStore, id: &SessionId) -> Result<Vec<Event>, StoreError> {
    let mut pages = LogPageReader::of(store, id);
    let mut log = pages.next().await?;
    while !pages.ended {
        log.extend(pages.next().await?);
    }
    Ok(log)
}

/// Folds a log into an agent's empty `history`. The messages move from the log to the history.
///
/// # Errors
/// [`SessionError::Log`]; [`SessionError::Stopped`] while the process ends.
pub(crate) async fn folded(
    id: &SessionId,
    history: History,
    log: Vec<Event>,
) -> Result<History, SessionError> {
    HistoryFoldTask::begin(history, log).end(id).await
}

/// Folds a log as [`folded`] does, and returns the history and the log.
///
/// # Errors
/// The errors of [`folded`].
pub(super) async fn folded_beside(
    id: &SessionId,
    history: History,
    log: Vec<Event>,
) -> Result<(History, Vec<Event>), SessionError> {
    HistoryFoldTask::begin_beside(history, log).end(id).await
}

/// Returns the agent or model that was chosen last.
pub(super) fn newest_choice(log: &[Event]) -> Option<&ModelChoice> {
    log.iter().rev().find_map(|event| match &event.body {
        EventBody::ModelSwitched { choice: Some(choice), .. } => Some(choice),
        _ => None,
    })
}

impl LogFacts {
    /// Adds the facts of the next page.
    fn add_page(&mut self, page: &[Event]) {
        self.events += page.len();
        self.last_at = page.last().map_or(self.last_at, |event| event.at);
        if let Some(choice) = newest_choice(page) {
            self.choice = Some(choice.clone());
        }
    }
}

impl RuntimeInner {
    /// Reads a session that is to be opened. Each page is folded while the next one is read, and only the history keeps
    /// its messages: a log in memory would double the memory of a session.
    ///
    /// The agent of the first page counts the tokens. If a later page chooses an agent that counts differently, the log
    /// is read and folded again.
    ///
    /// # Errors
    /// [`SessionError::Store`]; [`SessionError::Log`].
    pub(super) async fn read(&self, id: &SessionId) -> Result<LoadedSession, SessionError> {
        let mut pages = LogPageReader::of(&self.store, id);
        let page = pages.next().await?;
        // Most sessions never switch, so the agent of the first page is nearly always the right one.
        let begun = newest_choice(&page).cloned();
        let mut binding = self.resolve_agent_binding(begun.as_ref()).await;
        let (mut history, facts) = pages.fold(page, binding.agent.new_history()).await?;
        if facts.choice != begun {
            tracing::debug!(session = %id, "the session switched to another agent or model after its first page");
            binding = self.resolve_agent_binding(facts.choice.as_ref()).await;
            if !binding.agent.reads_as(&history) {
                tracing::debug!(session = %id, events = facts.events, "another tokenizer counts the log: it is read again");
                // The first history is dropped before, so that memory never holds two.
                history = binding.agent.new_history();
                let mut pages = LogPageReader::of(&self.store, id);
                let page = pages.next().await?;
                (history, _) = pages.fold(page, history).await?;
            }
        }
        binding.warn(id);
        Ok(LoadedSession { facts, binding, history })
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

    /// Folds `page` and all pages behind it, each while the next one is read.
    async fn fold(
        &mut self,
        mut page: Vec<Event>,
        mut history: History,
    ) -> Result<(History, LogFacts), SessionError> {
        let mut facts = LogFacts::default();
        loop {
            facts.add_page(&page);
            let folding = HistoryFoldTask::begin(history, page);
            if self.ended {
                return Ok((folding.end(self.id).await?, facts));
            }
            page = self.next().await?;
            history = folding.end(self.id).await?;
        }
    }
}

/// Events that are being folded on a thread of their own.
struct HistoryFoldTask<T>(JoinHandle<Result<T, HistoryFoldError>>);

impl HistoryFoldTask<History> {
    fn begin(mut history: History, events: Vec<Event>) -> Self {
        Self(spawn_blocking(move || {
            events.into_iter().try_for_each(|event| history.apply_owned(event))?;
            Ok(history)
        }))
    }
}

impl HistoryFoldTask<(History, Vec<Event>)> {
    fn begin_beside(mut history: History, events: Vec<Event>) -> Self {
        Self(spawn_blocking(move || {
            events.iter().try_for_each(|event| history.apply(event))?;
            Ok((history, events))
        }))
    }
}

impl<T> HistoryFoldTask<T> {
    async fn end(self, id: &SessionId) -> Result<T, SessionError> {
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
