//! The driver of a session owns the loop and the lease, does the loop's effects, and feeds the outcomes back.
//! [`Run::handle`] decides the next step.
//!
//! The driver interprets some outcomes before the loop sees them. It learns the limits and abilities of the model from
//! the errors of the server (`limits`). An answer to a request that the server cut in silence reaches the loop as an
//! overflow (`silent_truncation`).
//!
//! The driver owns all started work (model call, tools, timers). This work ends with the driver, by return, error or
//! panic.

mod agent_binding;
mod approvals;
mod command;
mod compact;
mod context;
mod count;
mod deferred;
mod limits;
mod media;
mod model;
mod orders;
mod session_log;
mod silent_truncation;
mod snapshot;
mod stream_pause;
mod timers;
mod tool;
mod waiters;

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use longhaul_core::event::{Event, EventBody, RunEnd};
use longhaul_core::ids::{EditId, QueueId, SessionId};
use longhaul_core::retention_report::RetentionReport;
use longhaul_core::run::{
    AppendId, CompactionOutcome, ModelCallFailure, Run, RunEffect, RunLoopInput, RunNotice, RunStatus,
    ServerWait,
};
use longhaul_core::stop_flag::StopFlag;
use longhaul_providers::Limits;
use longhaul_store::{BlobStore, Lease, LogAppend, SharedStore, StoreError};
use tokio::sync::{MutexGuard, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

pub(crate) use self::agent_binding::AgentBinding;
use self::approvals::PendingApprovals;
pub(crate) use self::command::{
    QueueChange, RecordMaker, SessionCommand, SharedStrategy, preview, release, undo,
};
use self::context::DriverContext;
use self::deferred::{DeferredAppend, FoldedEvent};
use self::limits::LimitsProbe;
pub(crate) use self::media::CheckedPictureCache;
use self::model::ModelCalls;
pub(crate) use self::orders::OrderChange;
use self::session_log::OperatorLog;
use self::silent_truncation::TruncationDetector;
pub(crate) use self::snapshot::SnapshotSlot;
use self::timers::RunTimers;
use self::tool::ToolCalls;
use self::waiters::RunWaiters;
use crate::agent::Agent;
use crate::api_events::{
    ApiEvent, EventContext, ViewBeforeEdit, is_compaction, of_event, of_notice, run_around,
};
use crate::clock::now_ms;
use crate::event_bus::EventBus;
use crate::recall::SharedSearchIndex;
use crate::session::RunOutcome;
use crate::session::registry::SessionEntry;

/// A message to a driver.
pub(crate) enum DriverMessage {
    /// An input of the loop. Boxed: every open session has a queue with room for many messages.
    Input(Box<RunLoopInput>),
    /// The server's present limits for the model.
    Limits(Limits),
    /// A command of a caller.
    Command(SessionCommand),
}

impl From<RunLoopInput> for DriverMessage {
    fn from(input: RunLoopInput) -> Self {
        Self::Input(Box::new(input))
    }
}

/// The state shared by a driver and the session's handles.
pub(crate) struct SharedSessionState {
    pub(crate) session_id: SessionId,
    pub(crate) store: SharedStore,
    pub(crate) blobs: BlobStore,
    pub(crate) bus: Arc<EventBus>,
    pub(crate) status: watch::Sender<RunStatus>,
    pub(crate) inbox: mpsc::UnboundedSender<DriverMessage>,
    pub(crate) binding: RwLock<AgentBinding>,
    /// Cancelled when this process may have lost the session to another one.
    pub(crate) lost: CancellationToken,
    /// The time of the next request to an unreachable model server, while the driver waits for it.
    pub(crate) next_attempt_at: AtomicU64,
    /// The pictures checked before sending.
    pub(crate) pictures: CheckedPictureCache,
    /// Ends the computations of the driver early once a cancel is under way.
    pub(crate) stop_flag: StopFlag,
    /// The retention report of this driver's newest committed compaction, by edit.
    pub(crate) survival: Mutex<Option<(EditId, RetentionReport)>>,
    /// The words of the session, once it was searched, by the model or by a person.
    pub(crate) search_index: SharedSearchIndex,
    /// The run for readers while the driver computes.
    pub(crate) snapshots: SnapshotSlot,
}

/// The loop of one session: the run, the concerns for the run's effects, and the waiting callers.
pub(crate) struct SessionDriver {
    context: DriverContext,
    messages: mpsc::UnboundedReceiver<DriverMessage>,
    work: VecDeque<RunEffect>,
    /// An answer to be written together with the following events.
    deferred: Option<DeferredAppend>,
    model_calls: ModelCalls,
    tool_calls: ToolCalls,
    timers: RunTimers,
    approvals: PendingApprovals,
    waiters: RunWaiters,
    compacting: Option<oneshot::Sender<CompactionOutcome>>,
    /// The agent of each switch not yet stored.
    pending_switches: VecDeque<Arc<Agent>>,
    closing: Option<oneshot::Sender<()>>,
    /// True if the run stays open for the next process when the session is closed.
    leaves_open: bool,
    limits_probe: LimitsProbe,
    truncation: TruncationDetector,
    log: OperatorLog,
    /// The queued messages for which news of other nodes starts no run: messages with an earlier wake, and messages
    /// left waiting by a cancel or a crash. `None` without other nodes.
    announced: Option<HashSet<QueueId>>,
}

impl SessionDriver {
    pub(crate) fn new(
        run: Run,
        agent: Arc<Agent>,
        shared: Arc<SharedSessionState>,
        lease: Lease,
        messages: mpsc::UnboundedReceiver<DriverMessage>,
    ) -> Self {
        Self {
            context: DriverContext::new(run, agent, shared, lease),
            messages,
            work: VecDeque::new(),
            deferred: None,
            model_calls: ModelCalls::default(),
            tool_calls: ToolCalls::default(),
            timers: RunTimers::default(),
            approvals: PendingApprovals::default(),
            waiters: RunWaiters::default(),
            compacting: None,
            pending_switches: VecDeque::new(),
            closing: None,
            leaves_open: false,
            limits_probe: LimitsProbe::default(),
            truncation: TruncationDetector::default(),
            log: OperatorLog::default(),
            announced: None,
        }
    }

    /// Drives the session until the session is closed, the storage fails, or the session was not used for `idle`. A
    /// command still unanswered then is answered by the drop of the sender.
    ///
    /// The session can be opened again only after all started work has ended.
    pub(crate) async fn drive(mut self: Box<Self>, slot: &SessionEntry, idle: Duration) {
        let lost = self.context.shared.lost.clone();
        // A caller that opens the session during the shutdown waits at the gate.
        let _gate = tokio::select! {
            biased;
            // The loss of the lease ends every wait: a store that does not answer must not keep tools running.
            () = lost.cancelled() => {
                self.give_up(&StoreError::Fenced(self.context.shared.session_id.clone()));
                None
            }
            gate = self.run_until_closed(slot, idle) => gate,
        };
        // The tokens come first, because they also reach blocking threads, which an abort of the tasks cannot stop.
        self.tool_calls.stop();
        self.model_calls.stop();
        // The lease is released only after the tasks: a tool of this process must not write while the next owner works.
        self.context.tasks.shutdown().await;
        // The bus ends after the tasks, so that no announcement of a task follows the end.
        self.context.shared.bus.end();
        self.abandon().await;
    }

    /// Gives the lease back, unasked or at the end.
    pub(crate) async fn abandon(&mut self) {
        if let Err(error) = self.context.shared.store.release(&self.context.lease).await {
            tracing::warn!(session = %self.context.shared.session_id, %error, "the session was not released");
        }
        // The caller of `close` hears last: the session may be opened elsewhere at once, so the lease must be free by
        // then.
        if let Some(reply) = self.closing.take() {
            let _ = reply.send(());
        }
    }

    async fn run_until_closed<'a>(
        &mut self,
        slot: &'a SessionEntry,
        idle: Duration,
    ) -> Option<MutexGuard<'a, ()>> {
        loop {
            let Some(message) = self.next(idle).await else {
                match self.vacate_if_unused(slot) {
                    Some(gate) => return Some(gate),
                    None => continue,
                }
            };
            // The future is boxed so that an idle session does not keep the memory of an active one.
            if let Err(error) = Box::pin(self.handle(message)).await {
                self.give_up(&error);
                return None;
            }
            self.context.has_recovered = true;
            // The status is published once per message and not per effect: watchers do not see the states in between.
            self.publish_status();
            // A close waits for the rest: the input that cancels the run was handled, but tools may still be ending.
            if self.closing.is_some() && (self.context.run.is_idle() || self.leaves_open) {
                return None;
            }
        }
    }

    async fn handle(&mut self, message: DriverMessage) -> Result<(), StoreError> {
        match message {
            DriverMessage::Limits(limits) => {
                limits::adopt_limits(&mut self.context, limits);
                Ok(())
            }
            DriverMessage::Input(input) => {
                self.limits_probe.ask_at_start(&mut self.context, &input);
                // Errors teach the limits before the loop sees them: the loop's next request is planned with the
                // learned limits.
                limits::learn_tool_support(&mut self.context, &input);
                let input = limits::learn_media_limits(&self.context, *input);
                let input = limits::learn_output_limit(&mut self.context, input);
                let input = limits::learn_refused_parameter(&self.context, input);
                // An answer to a silently cut request must become an overflow before the loop can store it as an
                // answer.
                let input = self.truncation.check(&self.context, input);
                self.process_input(input).await
            }
            DriverMessage::Command(command) => self.command(command).await,
        }
    }

    /// Returns the next message; `None` if none came for `idle` while no run was open.
    async fn next(&mut self, idle: Duration) -> Option<DriverMessage> {
        if self.context.run.is_idle() {
            // A run that waits for its model or its tools gets no message for long, so only a rest has a time limit.
            return tokio::time::timeout(idle, self.messages.recv()).await.ok().flatten();
        }
        self.messages.recv().await
    }

    /// Leaves an unused session: the entry is then vacant, and the entry's gate is locked. A session with watchers only
    /// keeps fewer recent announcements.
    fn vacate_if_unused<'a>(&self, slot: &'a SessionEntry) -> Option<MutexGuard<'a, ()>> {
        // A locked gate means that a caller opens or deletes this session: a delete waits for this driver in turn.
        let gate = slot.gate.try_lock().ok()?;
        if slot.vacate(|| self.messages.is_empty() && self.context.shared.status.receiver_count() == 0) {
            tracing::debug!("nobody uses the session, and it is closed");
            return Some(gate);
        }
        self.context.shared.bus.rest();
        None
    }

    /// Stops the session after storage failed or another process took the session over: no further event may be
    /// written.
    fn give_up(&mut self, error: &StoreError) {
        tracing::error!(
            session = %self.context.shared.session_id,
            %error,
            open_tasks = self.context.tasks.len(),
            "the session stops: its storage failed or another process owns it"
        );
        let payload =
            serde_json::json!({ "error": error.to_string(), "code": "storage", "recoverable": false });
        let shared = &self.context.shared;
        // The error is only announced: nothing may be written to the log any more.
        shared.bus.publish_passing(ApiEvent::passing("llm:error", &shared.session_id, payload));
        // Watchers of the status would otherwise wait for the end of a run that this process no longer drives.
        shared.status.send_replace(RunStatus::Idle);
    }

    /// Publishes the status, and answers the callers who wait for a status.
    fn publish_status(&mut self) {
        let status = self.context.run.status();
        self.context.shared.status.send_if_modified(|old| std::mem::replace(old, status) != status);
        self.waiters.answer(&self.context.run);
    }

    /// Publishes the time of the next attempt for readers of the session during the wait.
    fn note_wait(&self, wait: &ServerWait) {
        let next_attempt_at = now_ms().saturating_add(wait.after_ms);
        let (session, attempt) = (self.context.shared.session_id.as_str(), wait.attempt);
        tracing::info!(
            session,
            attempt,
            after_ms = wait.after_ms,
            reason = wait.reason.as_str(),
            error = wait.message,
            "the model call failed and will be made again"
        );
        self.context.shared.next_attempt_at.store(next_attempt_at, Ordering::Relaxed);
    }

    /// Gives the loop an input and performs all resulting effects at once.
    async fn process_input(&mut self, input: RunLoopInput) -> Result<(), StoreError> {
        self.step_run(input);
        // Performing an effect may queue others (an append leads to the next step), so a queue replaces recursion.
        while let Some(effect) = self.work.pop_front() {
            // A tool, a model call or a reply must not precede the events that caused it: after a crash the log would
            // not know of it.
            if !deferred::may_precede(&effect) {
                self.write_deferred().await?;
            }
            self.perform(effect).await?;
        }
        self.write_deferred().await
    }

    /// Does an effect, with one function per kind. An immediate effect is answered at once.
    async fn perform(&mut self, effect: RunEffect) -> Result<(), StoreError> {
        match effect {
            RunEffect::Append { id, events, takes, settles } => {
                let settles = settles.iter().map(|step| step.as_str().to_owned()).collect();
                self.append(id, LogAppend { at: now_ms(), events, takes, settles }).await?;
            }
            RunEffect::ReadQueue => {
                // A closing session takes no more messages: the next owner takes the queued ones.
                let waiting = match self.closing {
                    Some(_) => Vec::new(),
                    None => self.context.shared.store.queue(&self.context.shared.session_id).await?,
                };
                self.step_run(RunLoopInput::QueueRead(waiting));
            }
            RunEffect::Count { tools } => self.model_calls.start_count(&mut self.context, tools),
            RunEffect::CallModel { step, tools, max_output_tokens, pause_at_tokens } => {
                let context = &mut self.context;
                self.model_calls.start_step(context, step, tools, max_output_tokens, pause_at_tokens);
            }
            RunEffect::Summarise { task, ahead, request } => {
                self.model_calls.start_summary(&mut self.context, task, ahead, request);
            }
            RunEffect::StopSummary { task } => self.model_calls.stop_background_summary(task),
            RunEffect::AskPreCompact { task, ask } => {
                compact::ask_pre_compact(&mut self.context, task, *ask);
            }
            RunEffect::StopModel => self.model_calls.stop(),
            RunEffect::RunTool { call, limit } => self.tool_calls.start(&mut self.context, call, limit),
            RunEffect::StopTools => self.tool_calls.stop(),
            RunEffect::AskApproval { approval_id, call } => {
                self.approvals.ask(&mut self.context, approval_id, &call);
            }
            RunEffect::StartTimer { timer, after_ms } => {
                self.timers.start(&mut self.context, timer, after_ms);
            }
            RunEffect::StopTimer { timer } => self.timers.stop(timer),
            RunEffect::Notice(notice) => {
                if let RunNotice::Waiting(wait) = &notice {
                    self.note_wait(wait);
                }
                self.context.publish(of_notice(self.context.session_id(), &notice));
            }
            RunEffect::CompactionDone(outcome) => {
                // The settings go back before the reply, so that the next command of the caller finds them.
                self.context.restore_settings();
                if let Some(reply) = self.compacting.take() {
                    let _ = reply.send(outcome);
                }
            }
            RunEffect::RunEnded(end) => self.run_ended(end),
            RunEffect::Rested => {}
        }
        Ok(())
    }

    fn step_run(&mut self, input: RunLoopInput) {
        // All telemetry hangs on this function, because every input and every effect passes it (decision 0015).
        let context = &mut self.context;
        context.trace.observe_input(&input, &context.run, &context.agent);
        let effects = context.compute_in_place(|run| run.handle(input));
        context.trace.observe_effects(&effects, &context.run, &context.agent);
        self.work.extend(effects);
    }

    /// Folds and then announces stored events.
    fn committed(&mut self, id: AppendId, events: Vec<Event>) {
        let folded = self.fold(id, events);
        self.publish_folded_events(folded);
    }

    /// Folds events, and makes the announcements for the time after the write.
    fn fold(&mut self, id: AppendId, events: Vec<Event>) -> Vec<FoldedEvent> {
        // The run is read before the fold: an event that ends a run still belongs to that run.
        let mut open = self.context.run.history().open_run().cloned();
        // Measuring the view costs a pass over the session, so it is done for compactions only.
        let before = events
            .iter()
            .any(is_compaction)
            .then(|| self.context.compute_in_place(|run| ViewBeforeEdit::of(run)));
        self.step_run(RunLoopInput::Appended { id, events: events.clone() });
        let survival = before.and_then(|before| self.context.compute_in_place(|run| before.survival(run)));
        if let (Some(survival), Some(edit)) = (&survival, self.context.run.history().edits().last()) {
            let newest = (edit.edit.id.clone(), survival.clone());
            *self.context.shared.survival.lock().unwrap_or_else(PoisonError::into_inner) = Some(newest);
        }
        let mut folded = Vec::with_capacity(events.len());
        for event in events {
            open = run_around(open, &event, self.context.run.history());
            let around =
                EventContext { run: &self.context.run, open: open.as_ref(), survival: survival.as_ref() };
            let announcements = of_event(&self.context.shared.session_id, &event, &around);
            if let EventBody::RunFinished { .. } = event.body {
                open = None;
            }
            folded.push(FoldedEvent { event, announcements });
        }
        folded
    }

    fn publish_folded_events(&mut self, folded: Vec<FoldedEvent>) {
        for FoldedEvent { event, announcements } in folded {
            self.log.log_event(&event);
            session_log::log_estimate(self.context.session_id(), &event.body);
            if matches!(event.body, EventBody::StepFinished { .. }) {
                // The history judges a usage report when it folds the event, so the verdict exists only now.
                self.truncation.publish_unreliable_usage(&self.context);
            }
            if let EventBody::RunFinished { reason, error, .. } = &event.body {
                self.waiters.last_end = RunOutcome { end: Some(*reason), error: error.clone() };
            }
            self.context.shared.bus.publish_stored(event.seq, announcements, settles(&event.body));
            media::publish_omitted_media(&self.context, &event.body);
        }
    }

    fn run_ended(&mut self, end: RunEnd) {
        self.waiters.last_end.end = Some(end);
        self.waiters.has_ended = true;
        limits::remember_model(&self.context);
        self.tool_calls.renew_stop();
        self.approvals.withdraw_all();
        // A `JoinSet` keeps ended tasks until they are joined.
        while self.context.tasks.try_join_next().is_some() {}
    }
}

/// Returns whether an event ends the answer in flight.
fn settles(event: &EventBody) -> bool {
    matches!(
        event,
        EventBody::AssistantAdded { .. } | EventBody::StepFinished { .. } | EventBody::StepFailed { .. }
    )
}

/// Returns whether an event is a person's choice of another model.
fn is_choice(event: &EventBody) -> bool {
    matches!(event, EventBody::ModelSwitched { choice: Some(_), .. })
}

/// Returns a provider's error in the loop's form.
pub(crate) fn failure(error: longhaul_providers::ProviderError) -> ModelCallFailure {
    ModelCallFailure {
        code: error.code,
        message: error.message,
        retryable: error.retryable,
        retry_after_ms: error.retry_after.map(|time| time.as_millis() as u64),
        broke_off: error.broke_off,
        gives_no_reason: error.gives_no_reason,
        is_bad_sample: error.is_bad_sample,
        refuses_tools: error.refuses_tools,
        refused_parameter: error.refused_parameter,
        output_limit: error.output_limit,
        refusal: error.refusal,
        used_tokens: error.used_tokens,
        limit_tokens: error.limit_tokens,
        usage: error.usage,
    }
}
