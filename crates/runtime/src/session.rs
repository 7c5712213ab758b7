//! Sessions as a program uses them: [`Runtime`] opens them, [`Session`] is a handle to one.

mod cluster;
mod error;
mod log;
mod new_message;
mod orders;
mod overrides;
pub(crate) mod registry;
mod runtime;
mod submit;
#[cfg(test)]
mod tests;
mod turn;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use longhaul_core::event::{ErrorInfo, Event, EventBody, RunEnd};
use longhaul_core::ids::{ApprovalId, EditId, Millis, QueueId, Seq, SessionId};
use longhaul_core::message::Part;
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::plan::Plan;
use longhaul_core::queue::QueuedMessage;
use longhaul_core::retention_report::RetentionReport;
use longhaul_core::run::{CompactionOutcome, Run, RunLoopInput, RunStatus};
use longhaul_store::NewQueuedMessage;
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

pub(crate) use self::cluster::{CancelCutoff, OwnerMessage};
pub use self::error::SessionError;
pub(crate) use self::log::folded;
pub use self::log::whole_log;
pub use self::new_message::NewMessage;
pub use self::orders::PinOutcome;
pub use self::overrides::{SettingsError, SwitchOutcome};
pub use self::runtime::{IDLE, Runtime};
pub use self::turn::{Turn, TurnError, TurnOutput};
use crate::api_events::{self, ApiEvent};
use crate::clock::now_ms;
use crate::compaction::CompactionPreview;
use crate::context::ContextReport;
use crate::driver::{
    AgentBinding, DriverMessage, QueueChange, RecordMaker, SessionCommand, SharedSessionState,
    SharedStrategy, release, undo,
};
use crate::event_bus::{EventReceiver, EventSubscription, MissedEvents};

/// A handle to an open session. Cheap to clone; dropping it stops nothing, and as long as there is one the
/// session stays open.
#[derive(Clone)]
pub struct Session {
    shared: Arc<SharedSessionState>,
    /// One for each handle and each watcher.
    in_use: Arc<()>,
}

/// The answer to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendReceipt {
    /// Its name.
    pub id: QueueId,
    /// Whether it waits for a busy session.
    pub queued: bool,
    /// Its place among those that wait, from 1.
    pub position: usize,
}

/// What a cancel met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelPoint {
    /// The model was answering and had said something: that is kept.
    PartialAssistant,
    /// Tools were running: each open call got a result.
    ToolsInProgress,
    /// Something that leaves no trace: a count, a compaction, the step from one call to the next, a model that had said
    /// nothing yet.
    BetweenCalls,
    /// Nothing was going on.
    Idle,
}

/// What a resume met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeOutcome {
    /// A run has begun: with what waited, or with what was left unanswered.
    Begun,
    /// A run was going on already.
    Busy,
    /// Nothing waits, and the newest message has its answer, be it a cancelled one.
    NothingToDo,
}

/// How a session came to rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOutcome {
    /// How its newest run ended, if one ran since it was opened.
    pub end: Option<RunEnd>,
    /// The error it ended with.
    pub error: Option<ErrorInfo>,
}

impl Session {
    pub(crate) fn new(shared: Arc<SharedSessionState>) -> Self {
        Self { shared, in_use: Arc::default() }
    }

    /// Who answers in it.
    pub(crate) fn agent_binding(&self) -> AgentBinding {
        self.shared.agent_binding()
    }

    /// Its name.
    pub fn id(&self) -> &SessionId {
        &self.shared.session_id
    }

    /// Sends a message. It is durable when this answers; a busy session takes it at its next step.
    ///
    /// # Errors
    /// [`SessionError::Refused`] by a hook; [`SessionError::Conflict`] if the session's agent is not there;
    /// [`SessionError::Store`], above all
    /// [`StoreError::QueueFull`](longhaul_store::StoreError::QueueFull).
    pub async fn send(&self, parts: Vec<Part>) -> Result<SendReceipt, SessionError> {
        self.send_keyed(parts, None).await
    }

    /// Sends a message with a key of the caller's: the same key again adds nothing. A hook is asked each time.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn send_keyed(
        &self,
        parts: Vec<Part>,
        key: Option<String>,
    ) -> Result<SendReceipt, SessionError> {
        self.send_message(NewMessage { key, ..NewMessage::new(parts) }).await
    }

    /// Sends a message with all that its sender gives it: its parts, a key, metadata.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn send_message(&self, message: NewMessage) -> Result<SendReceipt, SessionError> {
        let seat = self.agent_binding();
        seat.check()?;
        // Before anything is said of the session: it is at rest while a hook thinks.
        let parts = self.submitted(message.parts).await?;
        // Of several that come at once to a session at rest one finds it so.
        let busy = !self.shared.status.send_if_modified(|status| {
            let at_rest = matches!(status, RunStatus::Idle | RunStatus::Parked);
            if at_rest {
                *status = RunStatus::Streaming;
            }
            at_rest
        });
        let id = QueueId::new(Uuid::now_v7().to_string());
        let message = NewQueuedMessage {
            client_key: message.key,
            metadata: message.metadata,
            ..NewQueuedMessage::new(id, now_ms(), parts, seat.agent.rules.queue_limit)
        };
        let accepted = match self.shared.store.enqueue(self.id(), message).await {
            Ok(accepted) => accepted,
            Err(error) => {
                self.publish_status();
                return Err(error.into());
            }
        };
        if !accepted.repeated {
            let payload = serde_json::json!({ "id": accepted.id, "position": accepted.position });
            self.shared.feed.publish_passing(ApiEvent::passing("message:queued", self.id(), payload));
        }
        if accepted.position > 0 {
            // It is accepted, also by a session that has just been closed: it waits in the queue then.
            let _ = self.send_input(RunLoopInput::Wake);
        } else {
            self.publish_status();
        }
        Ok(SendReceipt { id: accepted.id, queued: busy, position: accepted.position })
    }

    /// Sends a text and waits until the session has come to rest.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn ask(&self, text: &str) -> Result<RunOutcome, SessionError> {
        self.send(vec![Part::text(text)]).await?;
        self.settled().await
    }

    /// Waits until nothing is going on, and says how the newest run ended.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn settled(&self) -> Result<RunOutcome, SessionError> {
        self.request(|reply| SessionCommand::WhenIdle { reply }).await
    }

    /// Goes on: with what waits, or with what was left unanswered. Says whether there was anything.
    ///
    /// # Errors
    /// [`SessionError::Conflict`] if its agent is not there; [`SessionError::Stopped`].
    pub async fn resume(&self) -> Result<ResumeOutcome, SessionError> {
        self.agent_binding().check()?;
        self.request(|reply| SessionCommand::Resume { reply }).await
    }

    /// Makes the next attempt at once, if the model's server is waited for; says whether it was.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn retry_now(&self) -> Result<bool, SessionError> {
        self.request(|reply| SessionCommand::RetryNow { reply }).await
    }

    /// Returns when the model's server is asked again, in milliseconds since 1970. It means something only while the
    /// session waits for that server ([`RunStatus::WaitingForServer`]).
    pub fn next_attempt_at(&self) -> Millis {
        self.shared.next_attempt_at.load(Ordering::Relaxed)
    }

    /// Takes up messages that wait since a crash or a cancel, if its agent's rules say that they do not wait for a person
    /// ([`RunRecovery::Continue`](longhaul_core::run::RunRecovery)). In a parked session they go on waiting.
    pub fn take_up(&self) {
        self.command(SessionCommand::TakeUp);
    }

    /// Cancels what is going on and says what that was, once it has ended. Queued messages stay unless `clear_queue`.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn cancel(&self, clear_queue: bool) -> Result<CancelPoint, SessionError> {
        if clear_queue {
            self.clear_queue().await?;
        }
        // What the driver computes ends before it can read the command.
        self.shared.stop_flag.raise();
        self.request(|reply| SessionCommand::Cancel { reply }).await
    }

    /// Announcements from now on.
    pub fn watch(&self) -> EventReceiver {
        self.subscribe().announcements
    }

    /// Announcements from now on, and what they go on from: for a watcher that comes late or comes back.
    pub fn subscribe(&self) -> EventSubscription {
        self.shared.feed.subscribe(Arc::clone(&self.in_use))
    }

    /// What the events after `after` up to `until` mean to watchers, those of the first `events` events, if it is
    /// still in memory. `None`: the log must be asked.
    pub fn missed_events(&self, after: Seq, until: Seq, events: usize) -> Option<MissedEvents> {
        self.shared.feed.missed_events(after, until, events)
    }

    /// Ends when the session has stopped: closed, deleted, or its storage failed.
    pub async fn stopped(&self) {
        self.shared.inbox.closed().await;
    }

    /// What is going on, now and later.
    pub fn status(&self) -> watch::Receiver<RunStatus> {
        self.shared.status.subscribe()
    }

    /// The waiting messages, oldest first.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn queue(&self) -> Result<Vec<QueuedMessage>, SessionError> {
        Ok(self.shared.store.queue(self.id()).await?)
    }

    /// Changes what a waiting message says. It keeps its metadata.
    ///
    /// # Errors
    /// [`SessionError::Refused`] by a hook: it waits as it was. [`SessionError::Store`] (not found) if it does not
    /// wait (any more).
    pub async fn edit_queued(&self, id: QueueId, parts: Vec<Part>) -> Result<(), SessionError> {
        self.edit_queued_message(id, parts, None).await
    }

    /// Changes a waiting message. Without `metadata` it keeps what it has.
    ///
    /// # Errors
    /// As [`Session::edit_queued`].
    pub async fn edit_queued_message(
        &self,
        id: QueueId,
        parts: Vec<Part>,
        metadata: Option<MessageMetadata>,
    ) -> Result<(), SessionError> {
        let parts = self.submitted(parts).await?;
        self.change_queue(QueueChange::Edit { id, parts, metadata }).await.map(drop)
    }

    /// Removes a waiting message.
    ///
    /// # Errors
    /// [`SessionError::Store`] (not found) if it does not wait (any more).
    pub async fn remove_queued(&self, id: QueueId) -> Result<(), SessionError> {
        self.change_queue(QueueChange::Remove { id }).await.map(drop)
    }

    /// Removes all waiting messages and says which.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn clear_queue(&self) -> Result<Vec<QueueId>, SessionError> {
        self.change_queue(QueueChange::Clear).await
    }

    async fn change_queue(&self, change: QueueChange) -> Result<Vec<QueueId>, SessionError> {
        Ok(self.request(|reply| SessionCommand::Queue { change, reply }).await??)
    }

    /// Returns what a compaction has left of the view before it, if it is the newest one that was made since the session was
    /// opened. [`compaction::survival`](crate::compaction::survival) reads the log for any other.
    pub fn newest_survival(&self, edit_id: &EditId) -> Option<RetentionReport> {
        let newest = self.shared.survival.lock().unwrap_or_else(PoisonError::into_inner);
        newest.as_ref().filter(|(id, _)| id == edit_id).map(|(_, survival)| survival.clone())
    }

    /// Compacts now.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn compact(&self, instructions: Option<String>) -> Result<CompactionOutcome, SessionError> {
        self.compact_by(None, instructions).await
    }

    /// Compacts now, by a strategy that need not be the configured one.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn compact_by(
        &self,
        strategy: Option<SharedStrategy>,
        instructions: Option<String>,
    ) -> Result<CompactionOutcome, SessionError> {
        self.request(|reply| SessionCommand::Compact { strategy, instructions, reply }).await
    }

    /// What [`Session::compact_by`] would do, and what that would leave.
    ///
    /// # Errors
    /// [`SessionError::Busy`] if a cancel came meanwhile; [`SessionError::Stopped`].
    pub async fn preview_by(
        &self,
        strategy: Option<SharedStrategy>,
        instructions: Option<String>,
    ) -> Result<CompactionPreview, SessionError> {
        self.inspect_run(|run| unless_stopped(run, CompactionPreview::of(run, strategy, instructions)))
            .await?
    }

    /// What [`Session::compact`] would do.
    ///
    /// # Errors
    /// [`SessionError::Busy`] if a cancel came meanwhile; [`SessionError::Stopped`].
    pub async fn preview(&self) -> Result<Plan, SessionError> {
        self.inspect_run(|run| unless_stopped(run, run.preview(None))).await?
    }

    /// Undoes a compaction or a prune.
    ///
    /// # Errors
    /// [`SessionError::NotFound`]; [`SessionError::AlreadyUndone`]; [`SessionError::Conflict`] if a later one was
    /// built on it; [`SessionError::DoesNotFit`]; [`SessionError::Busy`].
    pub async fn undo(&self, edit_id: EditId) -> Result<(), SessionError> {
        self.record(Box::new(move |run| undo(run, &edit_id))).await.map(drop)
    }

    /// Allows automatic compaction again for what an undo brought back.
    ///
    /// # Errors
    /// [`SessionError::NotFound`]; [`SessionError::NotUndone`]; [`SessionError::AlreadyReleased`];
    /// [`SessionError::Busy`].
    pub async fn release(&self, edit_id: EditId) -> Result<(), SessionError> {
        self.record(Box::new(move |run| release(run, edit_id))).await.map(drop)
    }

    /// Stores that the session talks to this runtime's model from here on, if its newest model was another, and
    /// says whether it was.
    ///
    /// # Errors
    /// [`SessionError::Busy`].
    pub async fn adopt_model(&self) -> Result<bool, SessionError> {
        let other = |run: &Run| {
            let to = run.settings().model.origin.clone();
            run.history().model().is_some_and(|model| *model != to).then_some(to)
        };
        let Some(to) = self.inspect_run(other).await? else { return Ok(false) };
        self.record(Box::new(move |_| Ok(vec![EventBody::ModelSwitched { to, choice: None }]))).await?;
        Ok(true)
    }

    /// Gives the session a title.
    ///
    /// # Errors
    /// [`SessionError::Busy`].
    pub async fn rename(&self, title: String) -> Result<(), SessionError> {
        self.record(Box::new(move |_| Ok(vec![EventBody::TitleSet { title }]))).await.map(drop)
    }

    /// How full the window is.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn context(&self) -> Result<ContextReport, SessionError> {
        self.request(|reply| SessionCommand::Context { reply }).await
    }

    /// Decides an approval, by the name that watchers were told or the one in the log. `false` if nobody waits
    /// for it (any more).
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn decide(
        &self,
        approval_id: ApprovalId,
        allowed: bool,
        reason: Option<String>,
    ) -> Result<bool, SessionError> {
        let approval_id = api_events::own_approval(self.id(), &approval_id);
        self.request(|reply| SessionCommand::Decide { approval_id, allowed, reason, reply }).await
    }

    /// Looks at the loop between two of its decisions.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn inspect_run<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Run) -> T + Send + 'static,
    ) -> Result<T, SessionError> {
        self.request(|reply| SessionCommand::Look {
            look: Box::new(move |run| {
                let _ = reply.send(look(run));
            }),
        })
        .await
    }

    async fn record(&self, make: RecordMaker) -> Result<Vec<Event>, SessionError> {
        self.request(|reply| SessionCommand::Record { make, reply }).await?
    }

    pub(super) async fn request<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> SessionCommand,
    ) -> Result<T, SessionError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.shared.inbox.send(DriverMessage::Command(command(reply)));
        sent.map_err(|_| SessionError::Stopped)?;
        answer.await.map_err(|_| SessionError::Stopped)
    }

    pub(crate) fn send_input(&self, input: RunLoopInput) -> Result<(), SessionError> {
        self.shared.inbox.send(input.into()).map_err(|_| SessionError::Stopped)
    }

    /// Lets the driver say again what is going on.
    fn publish_status(&self) {
        // One that has ended says nothing, and nothing goes on.
        let _ =
            self.shared.inbox.send(DriverMessage::Command(SessionCommand::Look { look: Box::new(|_| ()) }));
    }

    fn is_closed(&self) -> bool {
        self.shared.inbox.is_closed()
    }

    /// Returns whether nobody else has a handle, or watches. What others have sent before they left has arrived.
    fn is_only_handle(&mut self) -> bool {
        Arc::get_mut(&mut self.in_use).is_some()
    }

    async fn close(&self) {
        self.shared.stop_flag.raise();
        let _ = self.request(|reply| SessionCommand::Close { reply }).await;
    }

    /// Closes it if it is at rest. Whether it is closed now.
    async fn close_at_rest(&self) -> bool {
        self.request(|reply| SessionCommand::CloseAtRest { reply }).await.is_ok() || self.is_closed()
    }
}

/// Returns what was computed, unless a cancel has ended the computation early.
fn unless_stopped<T>(run: &Run, computed: T) -> Result<T, SessionError> {
    if run.history().stop_flag().is_raised() { Err(SessionError::Busy) } else { Ok(computed) }
}
