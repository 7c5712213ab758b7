//! One session that an editor has open: its prompts, one turn after the other or into the current one, and
//! their cancellation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Lock, MutexGuard, PoisonError};

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ContentBlock, SessionInfoUpdate, SessionUpdate, StopReason};
use longhaul::session::{RunOutcome, Session, SessionError};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

use crate::commands::sessions::title_of;

use super::follower::{Connection, SessionFollower, cost};
use super::prompt::{PromptPart, given, stored};
use super::slash::{EditorCommand, offered};
use super::stop::{failed, invalid, reason, refused, remark};
use super::updates::{EditorCapabilities, remark as said, usage_of};
use super::workspace_runtimes::WorkspaceRuntime;

/// An open session.
pub(super) struct EditorSession {
    pub(super) session: Session,
    pub(super) room: Arc<WorkspaceRuntime>,
    /// The follower. The owner of its lock informs the editor.
    follower: Mutex<SessionFollower>,
    is_titled: AtomicBool,
    /// The unanswered prompts.
    tickets: Lock<Vec<CancellationToken>>,
    /// The number of cancels under way. Later prompts wait for them.
    cancels: watch::Sender<usize>,
    /// The lock during the handover of a prompt. A cancel behind the prompt must not hit the next one.
    handing: tokio::sync::Mutex<()>,
}

/// An arrived prompt. Made while messages are read in their order, so that a later cancel finds the prompt.
pub(super) struct PromptCancelHandle(CancellationToken);

impl EditorSession {
    pub(super) fn new(
        session: Session,
        room: Arc<WorkspaceRuntime>,
        is_titled: bool,
        shows: EditorCapabilities,
    ) -> Self {
        let root = room.runtime.agent().workspace.root().to_owned();
        let follower = Mutex::new(SessionFollower::new(&session, &room, root, shows));
        let (tickets, cancels) = (Lock::default(), watch::Sender::new(0));
        Self {
            session,
            room,
            follower,
            is_titled: AtomicBool::new(is_titled),
            tickets,
            cancels,
            handing: tokio::sync::Mutex::default(),
        }
    }

    /// Sends the whole conversation so far.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(super) async fn tell_again(&self, to: &Connection) -> Result<(), Error> {
        self.follower.lock().await.tell_again(to).await
    }

    /// Sends the facts about a newly opened session to the editor.
    pub(super) async fn greet(&self, to: &Connection) {
        let follower = self.follower.lock().await;
        follower.send(to, offered());
        if self.is_titled.load(Ordering::Relaxed) {
            self.tell_meter(&follower, to).await;
        }
    }

    async fn tell_meter(&self, follower: &SessionFollower, to: &Connection) {
        if let Ok(report) = self.session.context().await {
            follower.send(to, usage_of(report.total, report.window, cost(&self.session).await));
        }
    }

    /// Registers an arrived prompt.
    pub(super) fn ticket(&self) -> PromptCancelHandle {
        let token = CancellationToken::new();
        let mut tickets = self.tickets();
        tickets.retain(|ticket| !ticket.is_cancelled());
        tickets.push(token.clone());
        PromptCancelHandle(token)
    }

    /// Cancels every prompt that has arrived, and returns when no work is left. A later prompt waits for
    /// that.
    pub(super) fn cancel(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        // Cancelled while messages are read in order: a prompt that arrives later has a ticket of its own.
        self.tickets().drain(..).for_each(|ticket| ticket.cancel());
        // Counted before the future is polled, so that a prompt behind this cancel waits for its end.
        self.cancels.send_modify(|under_way| *under_way += 1);
        let talk = Arc::clone(self);
        async move {
            if let Err(error) = talk.session.cancel(true).await {
                tracing::debug!(%error, "nothing to cancel");
            }
            talk.cancels.send_modify(|under_way| *under_way -= 1);
        }
    }

    /// Runs one turn, from a prompt to the answer, and returns the reason of its end.
    ///
    /// # Errors
    /// The fault of the prompt, or the error of the run.
    pub(super) async fn prompt(
        &self,
        to: &Connection,
        blocks: Vec<ContentBlock>,
        ticket: &PromptCancelHandle,
    ) -> Result<StopReason, Error> {
        let done = self.turn(to, blocks, ticket).await;
        self.tickets().retain(|other| !other.is_cancelled());
        // A cancel may break the turn anywhere. The protocol wants the stop reason `cancelled` then, and no error.
        if ticket.0.is_cancelled() { Ok(StopReason::Cancelled) } else { done }
    }

    async fn turn(
        &self,
        to: &Connection,
        blocks: Vec<ContentBlock>,
        ticket: &PromptCancelHandle,
    ) -> Result<StopReason, Error> {
        let given = given(blocks, &self.room.folder).map_err(invalid)?;
        // The wait fails only if the sender is gone, and `self` owns the sender.
        let _ = self.cancels.subscribe().wait_for(|under_way| *under_way == 0).await;
        // The cancel came while this prompt waited, so nothing has begun.
        if ticket.0.is_cancelled() {
            return Ok(StopReason::Cancelled);
        }
        if let Some(slash) = EditorCommand::of(&given) {
            return self.perform(to, slash).await;
        }
        let title = title(&given);
        let parts =
            stored(given, &self.room.runtime, self.session.id()).await.map_err(|failure| failed(&failure))?;
        // Set before the session is renamed, so that two prompts do not both set a title.
        if !self.is_titled.swap(true, Ordering::Relaxed) {
            self.set_session_title(to, title).await;
        }
        let handing = self.handing.lock().await;
        if ticket.0.is_cancelled() {
            return Ok(StopReason::Cancelled);
        }
        // A busy session keeps its model until its run ends. The prompt is taken all the same.
        match self.session.adopt_model().await {
            Ok(_) | Err(SessionError::Busy) => {}
            Err(error) => return Err(self.refused(&error)),
        }
        match self.session.send(parts).await {
            Ok(_) => {}
            // A refusal is an answer to the person. Another error belongs to the request.
            Err(error @ SessionError::Refused(_)) => {
                let follower = self.follower.lock().await;
                follower.send(to, said(&follower.remark_id(), &error.to_string()));
                return Ok(StopReason::Refusal);
            }
            Err(error) => return Err(self.refused(&error)),
        }
        if ticket.0.is_cancelled() {
            // The cancel may have been done before there was anything to cancel.
            let _ = self.session.cancel(true).await;
        }
        // Held until the prompt is in the session. A run may take hours, and the next prompt must be able to
        // join it.
        drop(handing);
        self.settle(to).await
    }

    async fn settle(&self, to: &Connection) -> Result<StopReason, Error> {
        let mut follower = self.follower.lock().await;
        let settled: RunOutcome =
            follower.follow(to, self.session.settled()).await.map_err(|error| self.refused(&error))?;
        if let Some(text) = remark(&settled) {
            follower.send(to, said(&follower.remark_id(), text));
        }
        reason(&settled)
    }

    async fn perform(&self, to: &Connection, slash: EditorCommand) -> Result<StopReason, Error> {
        let model = self.room.runtime.agent().provider.origin().model;
        let mut follower = self.follower.lock().await;
        let done =
            Box::pin(follower.follow(to, slash.perform(&self.room.runtime, &self.session, &model))).await;
        // A failed command is an answer in the conversation, so the editor shows it where the person looks.
        let text = done.unwrap_or_else(|failure| format!("Not done: {}", failure.message()));
        follower.send(to, said(&follower.remark_id(), &text));
        self.tell_meter(&follower, to).await;
        Ok(StopReason::EndTurn)
    }

    /// Sets a title. The title is a convenience: a busy session has none.
    async fn set_session_title(&self, to: &Connection, title: String) {
        if title.is_empty() || self.session.rename(title.clone()).await.is_err() {
            return;
        }
        let update = SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(title));
        self.follower.lock().await.send(to, update);
    }

    /// Reports whether the session has no messages.
    pub(super) async fn is_empty(&self) -> bool {
        let is_empty =
            self.session.inspect_run(|run| run.history().entries().is_empty()).await.unwrap_or(false);
        // A message may wait in the queue before it enters the history.
        is_empty && self.session.queue().await.is_ok_and(|waiting| waiting.is_empty())
    }

    fn refused(&self, error: &SessionError) -> Error {
        refused(self.session.id().as_str(), error)
    }

    /// Locks the tickets. No panic happens while the lock is held.
    fn tickets(&self) -> MutexGuard<'_, Vec<CancellationToken>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the first words of the prompt.
fn title(given: &[PromptPart]) -> String {
    let text = given.iter().find_map(|given| match given {
        PromptPart::Text(text) => Some(title_of(text)),
        PromptPart::Media { .. } => None,
    });
    text.unwrap_or_default()
}
