//! Sessions for programs: [`Runtime`] opens sessions, and a [`Session`] is a handle to an open session.

mod cluster;
mod error;
mod folder;
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
use longhaul_core::message::{ModelOrigin, Part};
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::plan::Plan;
use longhaul_core::queue::QueuedMessage;
use longhaul_core::retention_report::RetentionReport;
use longhaul_core::run::{CompactionOutcome, Run, RunLoopInput, RunStatus};
use longhaul_store::{NewQueuedMessage, SharedNodes};
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

pub(crate) use self::cluster::{CancelCutoff, OwnerMessage};
pub use self::error::SessionError;
pub use self::folder::MovedSession;
pub(crate) use self::log::folded;
pub use self::log::whole_log;
pub use self::new_message::NewMessage;
pub use self::orders::PinOutcome;
pub use self::overrides::{SettingsError, SwitchOutcome};
#[doc(hidden)]
pub use self::runtime::positions_at_rest;
pub use self::runtime::{IDLE, Runtime};
use self::submit::ask_submit_hook;
pub use self::turn::{Turn, TurnError, TurnOutput};
use crate::api_events::{self, ApiEvent};
use crate::clock::now_ms;
use crate::compaction::CompactionPreview;
use crate::context::{self, ContextReport};
use crate::driver::{
    AgentBinding, DriverMessage, QueueChange, RecordMaker, SessionCommand, SharedSessionState,
    SharedStrategy, release, undo,
};
use crate::event_bus::{EventReceiver, EventSubscription, MissedEvents};
use crate::recall::RecallSource;

/// A handle to an open session. Cloning is cheap, and dropping a handle stops nothing. The session stays open as long
/// as a handle exists.
#[derive(Clone)]
pub struct Session {
    shared: Arc<SharedSessionState>,
    /// A reference for each handle and each watcher; the count tells whether the session is in use.
    in_use: Arc<()>,
}

/// The answer to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendReceipt {
    /// The message's id in the queue.
    pub id: QueueId,
    /// True if the message waits for a busy session.
    pub queued: bool,
    /// The position among the waiting messages, from 1.
    pub position: usize,
}

/// The work interrupted by a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelPoint {
    /// The model's partial answer, which is kept.
    PartialAssistant,
    /// Running tools; each open call got a result.
    ToolsInProgress,
    /// Work without a trace: a count, a compaction, the step from call to call, or a model before the first output.
    BetweenCalls,
    /// No work at all.
    Idle,
}

/// The effect of a resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeOutcome {
    /// A run has begun, with waiting messages or with an unanswered message.
    Begun,
    /// A run was in progress already.
    Busy,
    /// No message waits, and the newest has an answer, even a cancelled one.
    NothingToDo,
}

/// The way in which a session came to rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOutcome {
    /// The end of the newest run, if a run took place since the session was opened.
    pub end: Option<RunEnd>,
    /// The error at the end of the run.
    pub error: Option<ErrorInfo>,
}

impl Session {
    pub(crate) fn new(shared: Arc<SharedSessionState>) -> Self {
        Self { shared, in_use: Arc::default() }
    }

    /// Returns the session's answering agent.
    pub(crate) fn agent_binding(&self) -> AgentBinding {
        self.shared.agent_binding()
    }

    /// Returns the session's id.
    pub fn id(&self) -> &SessionId {
        &self.shared.session_id
    }

    /// Sends a message. The message is durable when the future resolves, and a busy session takes the message at the
    /// next step.
    ///
    /// # Errors
    /// [`SessionError::Refused`] by a hook; [`SessionError::Conflict`] if the session's agent is unavailable;
    /// [`SessionError::Store`], above all [`StoreError::QueueFull`](longhaul_store::StoreError::QueueFull).
    pub async fn send(&self, parts: Vec<Part>) -> Result<SendReceipt, SessionError> {
        self.send_keyed(parts, None).await
    }

    /// Sends a message with a key of the caller's. Sending the same key again adds nothing, but hooks run each time.
    ///
    /// # Errors
    /// The errors of [`Session::send`].
    pub async fn send_keyed(
        &self,
        parts: Vec<Part>,
        key: Option<String>,
    ) -> Result<SendReceipt, SessionError> {
        self.send_message(NewMessage { key, ..NewMessage::new(parts) }).await
    }

    /// Sends a message with parts, key and metadata.
    ///
    /// # Errors
    /// The errors of [`Session::send`].
    pub async fn send_message(&self, message: NewMessage) -> Result<SendReceipt, SessionError> {
        let binding = self.agent_binding();
        // Refused before the message is stored, because a session without its agent could not answer.
        binding.check()?;
        // The hook runs before the status is set, because the session stays at rest while the hook decides.
        let parts = ask_submit_hook(&self.agent_binding().agent, self.id(), message.parts).await?;
        // Of several messages that arrive at once at a resting session, exactly one finds it at rest.
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
            ..NewQueuedMessage::new(id, now_ms(), parts, binding.agent.rules.queue_limit)
        };
        let accepted = match self.shared.store.enqueue(self.id(), message).await {
            Ok(accepted) => accepted,
            Err(error) => {
                // The status was set for a message that was not stored. The driver knows the true status.
                self.publish_status();
                return Err(error.into());
            }
        };
        // A repeated key was announced when it came first.
        if !accepted.repeated {
            let payload = serde_json::json!({ "id": accepted.id, "position": accepted.position });
            self.shared.bus.publish_passing(ApiEvent::passing("message:queued", self.id(), payload));
        }
        // Position 0 is a repeated message that the session has taken already. There is nothing to wake for, so the
        // status that was set above must be taken back.
        if accepted.position > 0 {
            // The message is accepted even if the session has just been closed; it then waits in the queue.
            let _ = self.send_input(RunLoopInput::Wake);
        } else {
            self.publish_status();
        }
        Ok(SendReceipt { id: accepted.id, queued: busy, position: accepted.position })
    }

    /// Sends a text and waits until the session has come to rest.
    ///
    /// # Errors
    /// The errors of [`Session::send`].
    pub async fn ask(&self, text: &str) -> Result<RunOutcome, SessionError> {
        self.send(vec![Part::text(text)]).await?;
        self.settled().await
    }

    /// Waits until the session is at rest and returns the end of the newest run.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn settled(&self) -> Result<RunOutcome, SessionError> {
        self.request(|reply| SessionCommand::WhenIdle { reply }).await
    }

    /// Continues with waiting messages or with an unanswered message, and returns whether there were any.
    ///
    /// # Errors
    /// [`SessionError::Conflict`] if the session's agent is unavailable; [`SessionError::Stopped`].
    pub async fn resume(&self) -> Result<ResumeOutcome, SessionError> {
        self.agent_binding().check()?;
        self.request(|reply| SessionCommand::Resume { reply }).await
    }

    /// Makes the next attempt at once if the session waits for the model's server, and returns whether the session
    /// waited.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn retry_now(&self) -> Result<bool, SessionError> {
        self.request(|reply| SessionCommand::RetryNow { reply }).await
    }

    /// Returns the time of the next attempt to reach the model's server, in milliseconds since 1970. The value is valid
    /// only while the session waits for the server ([`RunStatus::WaitingForServer`]).
    pub fn next_attempt_at(&self) -> Millis {
        self.shared.next_attempt_at.load(Ordering::Relaxed)
    }

    /// Takes messages left waiting by a crash or a cancel, if the agent's rules require no person
    /// ([`RunRecovery::Continue`](longhaul_core::run::RunRecovery)). In a parked session the messages keep waiting.
    #[doc(hidden)]
    pub fn take_up(&self) {
        self.command(SessionCommand::TakeUp);
    }

    /// Cancels the current work, waits for the end, and returns the kind of work. Queued messages stay unless
    /// `clear_queue`.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn cancel(&self, clear_queue: bool) -> Result<CancelPoint, SessionError> {
        if clear_queue {
            // The queue is cleared first: otherwise the loop would begin the next run with it as soon as this one ends.
            self.clear_queue().await?;
        }
        // A computation of the driver must end before the driver can read the command.
        self.shared.stop_flag.raise();
        self.request(|reply| SessionCommand::Cancel { reply }).await
    }

    /// Returns whether the driver is busy with a long computation, so that readers get a snapshot.
    #[cfg(test)]
    pub(crate) fn is_computing(&self) -> bool {
        self.shared.snapshot().is_some()
    }

    /// Returns the announcements from now on.
    #[doc(hidden)]
    pub fn watch(&self) -> EventReceiver {
        self.subscribe().announcements
    }

    /// Returns the announcements from now on and the state before, for a watcher that comes late or returns.
    #[doc(hidden)]
    pub fn subscribe(&self) -> EventSubscription {
        self.shared.bus.subscribe(Arc::clone(&self.in_use))
    }

    /// Returns the announcements of the events after `after` up to `until`, for the first `events` events. The result
    /// is `None` if the events are no longer in memory and the log must be read.
    #[doc(hidden)]
    pub fn missed_events(&self, after: Seq, until: Seq, events: usize) -> Option<MissedEvents> {
        self.shared.bus.missed_events(after, until, events)
    }

    /// Resolves when the session has stopped: closed, deleted, or after a failure of the storage.
    pub async fn stopped(&self) {
        // The driver owns the receiver, so a closed inbox means that the driver has ended.
        self.shared.inbox.closed().await;
    }

    /// Returns a receiver of the session's status, now and later.
    pub fn status(&self) -> watch::Receiver<RunStatus> {
        self.shared.status.subscribe()
    }

    /// Returns the waiting messages, oldest first.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn queue(&self) -> Result<Vec<QueuedMessage>, SessionError> {
        Ok(self.shared.store.queue(self.id()).await?)
    }

    /// Changes the parts of a waiting message, without a change of metadata.
    ///
    /// # Errors
    /// [`SessionError::Refused`] by a hook; the message then waits unchanged. [`SessionError::Store`] (not found) if
    /// the message does not wait (any more).
    pub async fn edit_queued(&self, id: QueueId, parts: Vec<Part>) -> Result<(), SessionError> {
        self.edit_queued_message(id, parts, None).await
    }

    /// Changes a waiting message. Without `metadata` the old metadata stays.
    ///
    /// # Errors
    /// The errors of [`Session::edit_queued`].
    pub async fn edit_queued_message(
        &self,
        id: QueueId,
        parts: Vec<Part>,
        metadata: Option<MessageMetadata>,
    ) -> Result<(), SessionError> {
        // An edited message is checked like a new one: an edit must not bypass the hook.
        let parts = ask_submit_hook(&self.agent_binding().agent, self.id(), parts).await?;
        self.change_queue(QueueChange::Edit { id, parts, metadata }).await.map(drop)
    }

    /// Removes a waiting message.
    ///
    /// # Errors
    /// [`SessionError::Store`] (not found) if the message does not wait (any more).
    pub async fn remove_queued(&self, id: QueueId) -> Result<(), SessionError> {
        self.change_queue(QueueChange::Remove { id }).await.map(drop)
    }

    /// Removes all waiting messages and returns their ids.
    ///
    /// # Errors
    /// [`SessionError::Store`].
    pub async fn clear_queue(&self) -> Result<Vec<QueueId>, SessionError> {
        self.change_queue(QueueChange::Clear).await
    }

    async fn change_queue(&self, change: QueueChange) -> Result<Vec<QueueId>, SessionError> {
        Ok(self.request(|reply| SessionCommand::Queue { change, reply }).await??)
    }

    /// Returns the retention report of a compaction, if no compaction since the session was opened is newer.
    /// [`compaction::survival`](crate::compaction::survival) reads the log for any other.
    #[doc(hidden)]
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

    /// Compacts now with the given or the configured strategy.
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

    /// Returns the edit of a [`Session::compact_by`] now, and the view after the edit.
    ///
    /// # Errors
    /// [`SessionError::Busy`] if a cancel arrived meanwhile; [`SessionError::Stopped`].
    #[doc(hidden)]
    pub async fn preview_by(
        &self,
        strategy: Option<SharedStrategy>,
        instructions: Option<String>,
    ) -> Result<CompactionPreview, SessionError> {
        self.compute_from_run(|run| unless_stopped(run, CompactionPreview::of(run, strategy, instructions)))
            .await?
    }

    /// Returns the plan of a [`Session::compact`] now.
    ///
    /// # Errors
    /// [`SessionError::Busy`] if a cancel arrived meanwhile; [`SessionError::Stopped`].
    pub async fn preview(&self) -> Result<Plan, SessionError> {
        self.compute_from_run(|run| unless_stopped(run, run.preview(None))).await?
    }

    /// Undoes a compaction or a prune.
    ///
    /// # Errors
    /// [`SessionError::NotFound`]; [`SessionError::AlreadyUndone`]; [`SessionError::Conflict`] if a later edit builds
    /// on this edit; [`SessionError::DoesNotFit`]; [`SessionError::Busy`].
    pub async fn undo(&self, edit_id: EditId) -> Result<(), SessionError> {
        self.record(Box::new(move |run| undo(run, &edit_id))).await.map(drop)
    }

    /// Allows automatic compaction again for the messages restored by an undo.
    ///
    /// # Errors
    /// [`SessionError::NotFound`]; [`SessionError::NotUndone`]; [`SessionError::AlreadyReleased`];
    /// [`SessionError::Busy`].
    pub async fn release(&self, edit_id: EditId) -> Result<(), SessionError> {
        self.record(Box::new(move |run| release(run, edit_id))).await.map(drop)
    }

    /// Records a switch to this runtime's model, if the session's newest model is another, and returns whether a switch
    /// was recorded.
    ///
    /// # Errors
    /// [`SessionError::Busy`].
    pub async fn adopt_model(&self) -> Result<bool, SessionError> {
        let Some(to) = self.inspect_run_in_order(differing_model).await? else { return Ok(false) };
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

    /// Returns the use of the window.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn context(&self) -> Result<ContextReport, SessionError> {
        if let Some((snapshot, _)) = self.shared.snapshot() {
            return snapshot.read(|seen| context::of(&seen.run, &seen.agent)).await;
        }
        self.request(|reply| SessionCommand::Context { reply }).await
    }

    /// Decides an approval, by the id from an announcement or from the log. The result is `false` if no call waits for
    /// the approval (any more).
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    pub async fn decide(
        &self,
        approval_id: ApprovalId,
        allowed: bool,
        reason: Option<String>,
    ) -> Result<bool, SessionError> {
        // Watchers see ids that are unique across sessions; the log has ids of this session alone.
        let approval_id = api_events::own_approval(self.id(), &approval_id);
        self.request(|reply| SessionCommand::Decide { approval_id, allowed, reason, reply }).await
    }

    /// Runs a function on the loop's state between two of its decisions. During a long decision, such as a compaction
    /// of a long session, the function sees the state before that decision.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    #[doc(hidden)]
    pub async fn inspect_run<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Run) -> T + Send + 'static,
    ) -> Result<T, SessionError> {
        self.inspect_run_and_status(move |run, _| look(run)).await
    }

    /// Runs a function as [`Session::inspect_run`] does, with the session's status. During a long decision that status
    /// is newer than [`Run::status`]: a message may have begun a run meanwhile.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    #[doc(hidden)]
    pub async fn inspect_run_and_status<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Run, RunStatus) -> T + Send + 'static,
    ) -> Result<T, SessionError> {
        match self.shared.snapshot() {
            Some((snapshot, status)) => snapshot.read(move |seen| look(&seen.run, status)).await,
            None => self.inspect_run_in_order(|run| look(run, run.status())).await,
        }
    }

    /// Runs a function on the loop's state after everything that the session was given before. The function waits for a
    /// long decision to end, unlike that of [`Session::inspect_run`].
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    #[doc(hidden)]
    pub async fn inspect_run_in_order<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Run) -> T + Send + 'static,
    ) -> Result<T, SessionError> {
        self.request(|reply| SessionCommand::Look {
            look: Box::new(move |run| {
                // Runs inside the driver. A caller that has left must not end the driver.
                let _ = reply.send(look(run));
            }),
        })
        .await
    }

    /// Runs a long computation on the loop's state. Others can read the session meanwhile.
    async fn compute_from_run<T: Send + 'static>(
        &self,
        compute: impl FnOnce(&Run) -> T + Send + 'static,
    ) -> Result<T, SessionError> {
        if let Some((snapshot, _)) = self.shared.snapshot() {
            return snapshot.read(move |seen| compute(&seen.run)).await;
        }
        self.request(|reply| SessionCommand::Compute {
            compute: Box::new(move |run| {
                let _ = reply.send(compute(run));
            }),
        })
        .await
    }

    /// Returns the session's messages for a search or a recall, with the index that all searches of the session share: a
    /// search reads only the messages since the last one.
    ///
    /// # Errors
    /// [`SessionError::Stopped`].
    #[doc(hidden)]
    pub async fn recall_source(&self) -> Result<RecallSource, SessionError> {
        let index = self.shared.search_index.clone();
        self.inspect_run(move |run| RecallSource::with(run.history(), index)).await
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
        // A driver that ends drops the commands without an answer, and their senders with them.
        answer.await.map_err(|_| SessionError::Stopped)
    }

    pub(crate) fn send_input(&self, input: RunLoopInput) -> Result<(), SessionError> {
        self.shared.inbox.send(input.into()).map_err(|_| SessionError::Stopped)
    }

    /// Makes the driver publish the status again.
    fn publish_status(&self) {
        // A driver that has ended publishes nothing, and no work is in progress then.
        let _ =
            self.shared.inbox.send(DriverMessage::Command(SessionCommand::Look { look: Box::new(|_| ()) }));
    }

    fn is_closed(&self) -> bool {
        self.shared.inbox.is_closed()
    }

    /// Reports whether no other handle or watcher exists. Messages of earlier handles have arrived.
    fn is_only_handle(&mut self) -> bool {
        // `get_mut` and not `strong_count`: only `get_mut` is ordered after the last use of the other handles, so that
        // their messages have arrived.
        Arc::get_mut(&mut self.in_use).is_some()
    }

    async fn close(&self) {
        // A computation over a long log would otherwise delay the close by seconds.
        self.shared.stop_flag.raise();
        // An error means that the session has stopped already, which is what the caller wants.
        let _ = self.request(|reply| SessionCommand::Close { reply }).await;
    }

    /// Closes a session at rest, and returns whether the session is closed now.
    async fn close_at_rest(&self) -> bool {
        self.request(|reply| SessionCommand::CloseAtRest { reply }).await.is_ok() || self.is_closed()
    }

    /// Makes the driver read other nodes' messages for the session since the time `since`.
    fn hear(&self, nodes: &SharedNodes, since: Millis) {
        self.command(SessionCommand::HearNodes { nodes: Arc::clone(nodes), since });
    }

    /// Closes the session at the next rest, so another node can open the session.
    async fn give_away(&self) {
        // A stopped session has no owner. In a session that has come to rest, work may begin at that moment.
        while self.settled().await.is_ok() && !self.close_at_rest().await {}
    }

    fn command(&self, command: SessionCommand) {
        // A driver that has ended ignores commands.
        let _ = self.shared.inbox.send(DriverMessage::Command(command));
    }
}

/// Returns a computed value, unless a cancel has ended the computation early.
fn unless_stopped<T>(run: &Run, computed: T) -> Result<T, SessionError> {
    if run.history().stop_flag().is_raised() { Err(SessionError::Busy) } else { Ok(computed) }
}

/// Returns the runtime's model if another model has answered last. A session without an answer needs no switch, because
/// each step names the model.
fn differing_model(run: &Run) -> Option<ModelOrigin> {
    let to = &run.settings().model.origin;
    run.history().model().is_some_and(|model| model != to).then(|| to.clone())
}
