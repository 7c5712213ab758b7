//! The driver of a session owns the loop and the lease, does the loop's effects, and feeds the outcomes back. A driver
//! decides nothing: [`Run::handle`] decides the next step.
//!
//! The driver owns everything that it starts (model call, tools, timers): those end with the driver, by return, error
//! or panic.

mod agent_binding;
mod command;
mod compact;
mod count;
mod deferred;
mod limits;
mod media;
mod model;
mod orders;
mod session_log;
mod silent_truncation;
mod stream_pause;
mod tool;

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt;
use longhaul_core::event::{Event, EventBody, RunEnd};
use longhaul_core::ids::{ApprovalId, EditId, QueueId, SessionId};
use longhaul_core::message::ToolCall;
use longhaul_core::retention_report::RetentionReport;
use longhaul_core::run::{
    AppendId, CompactionOutcome, ModelCallFailure, Run, RunEffect, RunLoopInput, RunNotice, RunSettings,
    RunStatus, RunTimer, ServerWait,
};
use longhaul_core::stop_flag::StopFlag;
use longhaul_providers::{LimitSource, Limits};
use longhaul_store::{BlobStore, Lease, LogAppend, SharedStore, StoreError};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{MutexGuard, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::agent_binding::AgentBinding;
use self::command::PendingCancel;
pub(crate) use self::command::{
    QueueChange, RecordMaker, SessionCommand, SharedStrategy, preview, release, undo,
};
use self::deferred::{DeferredAppend, FoldedEvent};
pub(crate) use self::media::CheckedPictureCache;
pub(crate) use self::orders::OrderChange;
use crate::agent::Agent;
use crate::api_events::{
    ApiEvent, EventContext, ViewBeforeEdit, call_arguments, is_compaction, of_event, of_notice, run_around,
};
use crate::clock::now_ms;
use crate::event_bus::EventBus;
use crate::hooks::{ApprovalDecision, ApprovalRequest};
use crate::recall::SharedSearchIndex;
use crate::session::RunOutcome;
use crate::session::registry::SessionEntry;
use crate::telemetry::SessionTrace;

/// A message to a driver.
pub(crate) enum DriverMessage {
    /// Something that the loop waits for. Boxed: a queue of messages has room for many, and every open session
    /// has one.
    Input(Box<RunLoopInput>),
    /// The limits that the server reports for its model now.
    Limits(Limits),
    /// A command of somebody.
    Command(SessionCommand),
}

impl From<RunLoopInput> for DriverMessage {
    fn from(input: RunLoopInput) -> Self {
        Self::Input(Box::new(input))
    }
}

/// The state that a driver shares with its session's handles.
pub(crate) struct SharedSessionState {
    pub(crate) session_id: SessionId,
    pub(crate) store: SharedStore,
    pub(crate) blobs: BlobStore,
    pub(crate) feed: Arc<EventBus>,
    pub(crate) status: watch::Sender<RunStatus>,
    pub(crate) inbox: mpsc::UnboundedSender<DriverMessage>,
    pub(crate) seat: RwLock<AgentBinding>,
    /// Cancelled when this process may have lost the session to another one.
    pub(crate) lost: CancellationToken,
    /// The time of the next request to an unreachable model server, while the driver waits for it.
    pub(crate) next_attempt_at: AtomicU64,
    /// The pictures that were checked before they were sent.
    pub(crate) pictures: CheckedPictureCache,
    /// Ends the computations of the driver early once a cancel is on its way.
    pub(crate) stop_flag: StopFlag,
    /// The retention report of the newest compaction that this driver committed, by its edit.
    pub(crate) survival: Mutex<Option<(EditId, RetentionReport)>>,
}

pub(crate) struct SessionDriver {
    run: Run,
    agent: Arc<Agent>,
    shared: Arc<SharedSessionState>,
    lease: Lease,
    messages: mpsc::UnboundedReceiver<DriverMessage>,
    work: VecDeque<RunEffect>,
    /// An answer that is written together with the events that follow from it.
    deferred: Option<DeferredAppend>,
    tasks: JoinSet<()>,
    model_stop: CancellationToken,
    /// The summary that is written ahead: its task, and the token that stops it.
    ahead: Option<(u64, CancellationToken)>,
    counting_rests: count::CountBackoff,
    /// The words of the session, once the model has searched it.
    searched: SharedSearchIndex,
    tools_stop: CancellationToken,
    timers: BTreeMap<RunTimer, AbortHandle>,
    approvals: BTreeMap<ApprovalId, AbortHandle>,
    waiting: Vec<oneshot::Sender<RunOutcome>>,
    /// The cancels that wait until the current run has ended.
    cancelled: Vec<PendingCancel>,
    /// True if a run has ended since the status was published.
    has_ended: bool,
    compacting: Option<oneshot::Sender<CompactionOutcome>>,
    /// The settings to go back to after a compaction by another strategy.
    usual: Option<Arc<RunSettings>>,
    /// The agent of each switch that is not stored yet.
    coming: VecDeque<Arc<Agent>>,
    last_end: RunOutcome,
    closing: Option<oneshot::Sender<()>>,
    /// True if the run stays open for the next process when the session is closed.
    leaves_open: bool,
    /// The time at which the server was asked for its limits.
    asked_at: Option<Instant>,
    /// True if the newest answer was taken for an overflow.
    doubted: bool,
    /// The number of answers that were taken for an overflow.
    doubts: u32,
    told_of_cut: bool,
    told_of_usage: bool,
    trace: SessionTrace,
    log: session_log::OperatorLog,
    /// The queued messages that other nodes need not announce again: the session was woken for them, or they wait since
    /// a cancel or a crash. `None` without other nodes.
    heard: Option<HashSet<QueueId>>,
    /// True if the server's counts regularly leave something out.
    counts_are_partial: bool,
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
            run,
            agent,
            trace: SessionTrace::new(shared.session_id.clone()),
            log: session_log::OperatorLog::default(),
            shared,
            lease,
            messages,
            work: VecDeque::new(),
            deferred: None,
            tasks: JoinSet::new(),
            model_stop: CancellationToken::new(),
            ahead: None,
            counting_rests: count::CountBackoff::default(),
            searched: SharedSearchIndex::default(),
            tools_stop: CancellationToken::new(),
            timers: BTreeMap::new(),
            approvals: BTreeMap::new(),
            waiting: Vec::new(),
            cancelled: Vec::new(),
            has_ended: false,
            compacting: None,
            usual: None,
            coming: VecDeque::new(),
            last_end: RunOutcome::default(),
            closing: None,
            leaves_open: false,
            asked_at: None,
            doubted: false,
            doubts: 0,
            told_of_cut: false,
            told_of_usage: false,
            heard: None,
            counts_are_partial: false,
        }
    }

    /// Drives the session until it is closed, its storage fails, or nobody has used it for `idle`. A command that is
    /// still unanswered then is answered by the drop of its sender.
    ///
    /// The session is free to be opened again only when everything that was started here has ended.
    pub(crate) async fn drive(mut self: Box<Self>, slot: &SessionEntry, idle: Duration) {
        let lost = self.shared.lost.clone();
        // A caller that opens the session during the shutdown waits at the gate.
        let _gate = tokio::select! {
            biased;
            // The loss of the lease ends every wait: a store that does not answer must not keep tools running.
            () = lost.cancelled() => {
                self.give_up(&StoreError::Fenced(self.shared.session_id.clone()));
                None
            }
            gate = self.run_until_closed(slot, idle) => gate,
        };
        self.tools_stop.cancel();
        self.model_stop.cancel();
        // The lease is released only after the tasks: a tool of this process must not write while the next owner works.
        self.tasks.shutdown().await;
        self.shared.feed.end();
        self.abandon().await;
    }

    /// Gives the lease back, unasked or at the end.
    pub(crate) async fn abandon(&mut self) {
        if let Err(error) = self.shared.store.release(&self.lease).await {
            tracing::warn!(session = %self.shared.session_id, %error, "the session was not released");
        }
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
            self.publish();
            if self.closing.is_some() && (self.run.is_idle() || self.leaves_open) {
                return None;
            }
        }
    }

    async fn handle(&mut self, message: DriverMessage) -> Result<(), StoreError> {
        match message {
            DriverMessage::Limits(limits) => {
                self.take_limits(limits);
                Ok(())
            }
            DriverMessage::Input(input) => {
                self.look_at_server(&input);
                self.learn_tool_support(&input);
                let input = self.learn_media_limits(*input);
                let input = self.detect_truncation(input);
                self.process_input(input).await
            }
            DriverMessage::Command(command) => self.command(command).await,
        }
    }

    /// Returns the next message; `None` if none came for `idle` while no run was open.
    async fn next(&mut self, idle: Duration) -> Option<DriverMessage> {
        if self.run.is_idle() {
            // A run that waits for its model or its tools gets no message for long, so only a rest has a time limit.
            return tokio::time::timeout(idle, self.messages.recv()).await.ok().flatten();
        }
        self.messages.recv().await
    }

    /// Leaves a session that nobody uses: its entry is then vacant, and the entry's gate is locked. A session that only
    /// has watchers keeps fewer recent announcements.
    fn vacate_if_unused<'a>(&self, slot: &'a SessionEntry) -> Option<MutexGuard<'a, ()>> {
        // A locked gate means that a caller opens or deletes this session: a delete waits for this driver in turn.
        let gate = slot.gate.try_lock().ok()?;
        let is_quiet = || self.messages.is_empty() && self.shared.status.receiver_count() == 0;
        if slot.vacate(is_quiet) {
            return Some(gate);
        }
        self.shared.feed.rest();
        None
    }

    /// Stops the session after storage failed or another process took it over: no further event may be written in its
    /// name.
    fn give_up(&mut self, error: &StoreError) {
        tracing::error!(session = %self.shared.session_id, %error, "the session stops");
        let payload =
            serde_json::json!({ "error": error.to_string(), "code": "storage", "recoverable": false });
        self.publish_event(ApiEvent::passing("llm:error", &self.shared.session_id, payload));
        self.shared.status.send_replace(RunStatus::Idle);
    }

    fn publish(&mut self) {
        let status = self.run.status();
        self.shared.status.send_if_modified(|old| std::mem::replace(old, status) != status);
        // A queued message may begin the next run within the same input. The status then never shows a rest, and a
        // cancel would wait for that run, too.
        if std::mem::take(&mut self.has_ended) || self.run.is_idle() {
            for cancel in std::mem::take(&mut self.cancelled) {
                let met = self.cancel_met(&cancel);
                let _ = cancel.reply.send(met);
            }
        }
        if self.run.is_idle() {
            for reply in self.waiting.drain(..) {
                let _ = reply.send(self.last_end.clone());
            }
        }
    }

    /// Publishes the time of the next attempt for those who look at the session during the wait.
    fn note_wait(&self, wait: &ServerWait) {
        let next_attempt_at = now_ms().saturating_add(wait.after_ms);
        let (session, attempt) = (self.shared.session_id.as_str(), wait.attempt);
        tracing::info!(
            session,
            attempt,
            after_ms = wait.after_ms,
            reason = wait.reason.as_str(),
            error = wait.message,
            "the model call failed and will be made again"
        );
        self.shared.next_attempt_at.store(next_attempt_at, Ordering::Relaxed);
    }

    fn publish_event(&self, announcement: ApiEvent) {
        self.shared.feed.publish_passing(announcement);
    }

    /// Gives the loop an input and does everything that follows from it at once.
    async fn process_input(&mut self, input: RunLoopInput) -> Result<(), StoreError> {
        self.step_run(input);
        while let Some(effect) = self.work.pop_front() {
            if !deferred::may_precede(&effect) {
                self.write_deferred().await?;
            }
            self.perform(effect).await?;
        }
        self.write_deferred().await
    }

    /// Does an effect, with one function per kind. An effect that ends at once is answered at once.
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
                    None => self.shared.store.queue(&self.shared.session_id).await?,
                };
                self.step_run(RunLoopInput::QueueRead(waiting));
            }
            RunEffect::Count { tools } => self.count(tools),
            RunEffect::CallModel { step, tools, max_output_tokens, pause_at_tokens } => {
                self.call_model(step, tools, max_output_tokens, pause_at_tokens);
            }
            RunEffect::Summarise { task, ahead, request } => self.summarise(task, ahead, request),
            RunEffect::StopSummary { task } => {
                // A newer background summary may have taken the place of the one that is to stop.
                if let Some((_, stop)) = self.ahead.take_if(|(ahead, _)| *ahead == task) {
                    stop.cancel();
                }
            }
            RunEffect::AskPreCompact { task, ask } => self.ask_pre_compact(task, *ask),
            RunEffect::StopModel => self.model_stop.cancel(),
            RunEffect::RunTool { call, limit } => self.run_tool(call, limit),
            RunEffect::StopTools => self.tools_stop.cancel(),
            RunEffect::AskApproval { approval_id, call } => self.await_approval(approval_id, &call),
            RunEffect::StartTimer { timer, after_ms } => self.start_timer(timer, after_ms),
            RunEffect::StopTimer { timer } => self.stop_timer(timer),
            RunEffect::Notice(notice) => {
                if let RunNotice::Waiting(wait) = &notice {
                    self.note_wait(wait);
                }
                self.publish_event(of_notice(&self.shared.session_id, &notice));
            }
            RunEffect::CompactionDone(outcome) => {
                // The settings go back before the reply, so that the next command of the caller finds them.
                if let Some(usual) = self.usual.take() {
                    self.run.configure(usual);
                }
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
        self.trace.observe_input(&input, &self.run, &self.agent);
        let effects = compute_in_place(&mut self.run, |run| run.handle(input));
        self.trace.observe_effects(&effects, &self.run, &self.agent);
        self.work.extend(effects);
    }

    /// Folds stored events, then announces them.
    fn committed(&mut self, id: AppendId, events: Vec<Event>) {
        let folded = self.fold(id, events);
        self.publish_folded_events(folded);
    }

    /// Folds events, and makes the announcements that follow once they are durable.
    fn fold(&mut self, id: AppendId, events: Vec<Event>) -> Vec<FoldedEvent> {
        let mut open = self.run.history().open_run().cloned();
        // Measuring the view costs a pass over the session, so it is done for compactions only.
        let before =
            events.iter().any(is_compaction).then(|| compute_in_place(&self.run, ViewBeforeEdit::of));
        self.step_run(RunLoopInput::Appended { id, events: events.clone() });
        let survival = before.and_then(|before| compute_in_place(&self.run, |run| before.survival(run)));
        if let (Some(survival), Some(edit)) = (&survival, self.run.history().edits().last()) {
            let newest = (edit.edit.id.clone(), survival.clone());
            *self.shared.survival.lock().unwrap_or_else(PoisonError::into_inner) = Some(newest);
        }
        let mut folded = Vec::with_capacity(events.len());
        for event in events {
            open = run_around(open, &event, self.run.history());
            let around = EventContext { run: &self.run, open: open.as_ref(), survival: survival.as_ref() };
            let announcements = of_event(&self.shared.session_id, &event, &around);
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
            self.log_estimate(&event.body);
            if matches!(event.body, EventBody::StepFinished { .. }) {
                self.publish_unreliable_usage();
            }
            if let EventBody::RunFinished { reason, error, .. } = &event.body {
                self.last_end = RunOutcome { end: Some(*reason), error: error.clone() };
            }
            self.shared.feed.publish_stored(event.seq, announcements, settles(&event.body));
            self.publish_omitted_media(&event.body);
        }
    }

    /// Logs the error of the estimate of a call's input, in tokens, once for each call with a usage report.
    fn log_estimate(&self, event: &EventBody) {
        let EventBody::StepFinished { step_id, usage: Some(usage), estimated_input, .. } = event else {
            return;
        };
        let (estimated, actual) = (*estimated_input, usage.input_tokens);
        // A server that reports no usage would look like an estimate that is wrong by all its tokens.
        if actual == 0 {
            return;
        }
        let error = estimated as i64 - actual as i64;
        let error_percent = (error as f64 * 10_000.0 / actual as f64).round() / 100.0;
        let session = self.shared.session_id.as_str();
        let step = step_id.as_str();
        tracing::info!(session, step, estimated, actual, error, error_percent, "input estimated");
    }

    fn run_ended(&mut self, end: RunEnd) {
        self.last_end.end = Some(end);
        self.has_ended = true;
        let model = self.agent.provider.origin();
        let history = self.run.history();
        self.agent.calibrations.learn(&model, history.counter().name(), history.calibration());
        let learned = self.run.learned_window();
        let is_known = matches!(self.agent.limits.source, LimitSource::Declared | LimitSource::Server);
        // A session that learned nothing must not delete what other sessions learned.
        if !is_known && learned != self.run.settings().model.remembered_window {
            self.agent.calibrations.learn_window(&model, learned);
        }
        // A cancelled token stays cancelled, and the tools of the next run need one of their own.
        self.tools_stop = CancellationToken::new();
        // An answer to a question of the ended run must not reach the next run.
        for (_, handle) in std::mem::take(&mut self.approvals) {
            handle.abort();
        }
        // A `JoinSet` keeps ended tasks until they are joined.
        while self.tasks.try_join_next().is_some() {}
    }

    fn start_timer(&mut self, timer: RunTimer, after_ms: u64) {
        let inbox = self.shared.inbox.clone();
        let handle = self.tasks.spawn(async move {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            let _ = inbox.send(DriverMessage::from(RunLoopInput::TimerFired(timer)));
        });
        if let Some(old) = self.timers.insert(timer, handle) {
            old.abort();
        }
    }

    fn stop_timer(&mut self, timer: RunTimer) {
        if let Some(handle) = self.timers.remove(&timer) {
            handle.abort();
        }
    }

    /// Asks the program's own handler about an announced question. The answer is no if nobody answers in time.
    fn await_approval(&mut self, approval_id: ApprovalId, call: &ToolCall) {
        let inbox = self.shared.inbox.clone();
        let timeout = self.agent.rules.approval_timeout;
        let deciding = self.decide_approval(&approval_id, call);
        let id = approval_id.clone();
        let handle = self.tasks.spawn(async move {
            let time_is_up = async {
                match timeout {
                    Some(time) => tokio::time::sleep(time).await,
                    None => std::future::pending().await,
                }
            };
            let decision = tokio::select! {
                decision = deciding => decision,
                () = time_is_up => ApprovalDecision::deny("nobody answered in time"),
            };
            let (allowed, reason) = match decision {
                ApprovalDecision::Allow => (true, None),
                ApprovalDecision::Deny { reason } => (false, Some(reason)),
            };
            // The decision takes the way of a person's answer, so that the first of the two counts and the second is
            // ignored.
            let (reply, _) = oneshot::channel();
            let decide = SessionCommand::Decide { approval_id: id, allowed, reason, reply };
            let _ = inbox.send(DriverMessage::Command(decide));
        });
        self.approvals.insert(approval_id, handle);
    }

    /// Returns the decision of the program's handler; the future never ends if there is no handler.
    fn decide_approval(
        &self,
        approval_id: &ApprovalId,
        call: &ToolCall,
    ) -> impl Future<Output = ApprovalDecision> + Send + 'static {
        let handler = self.agent.hooks.approval_handler().cloned();
        let request = ApprovalRequest {
            session_id: self.shared.session_id.clone(),
            approval_id: approval_id.clone(),
            call_id: call.call_id.clone(),
            tool_name: call.name.clone(),
            arguments: call_arguments(call),
            arguments_text: call.arguments.clone(),
        };
        async move {
            let Some(handler) = handler else { return std::future::pending().await };
            // The handler is code of the host. A panic would end this task, and the call would wait for an answer for
            // ever.
            let deciding = AssertUnwindSafe(async { handler.decide(request).await }).catch_unwind();
            deciding.await.unwrap_or_else(|_| {
                tracing::error!("the approval handler panicked; the call is denied");
                ApprovalDecision::deny("the approval handler failed")
            })
        }
    }
}

/// Sessions with more messages than this may take noticeable time to plan.
const LONG_SESSION_MESSAGES: usize = 1_000;

/// Computes a value from a run. The other tasks of this thread move to another one first if the session is long,
/// because a plan over many megabytes must not hold up other sessions or the server.
fn compute_in_place<R: Borrow<Run>, T>(run: R, compute: impl FnOnce(R) -> T) -> T {
    let is_long = run.borrow().history().entries().len() > LONG_SESSION_MESSAGES;
    // `block_in_place` panics in a runtime of one thread.
    let has_threads =
        || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_long && has_threads() {
        return tokio::task::block_in_place(|| compute(run));
    }
    compute(run)
}

/// Returns whether the answer in flight is over with that event.
fn settles(event: &EventBody) -> bool {
    matches!(
        event,
        EventBody::AssistantAdded { .. } | EventBody::StepFinished { .. } | EventBody::StepFailed { .. }
    )
}

/// Returns whether an event is somebody's choice of another model.
fn is_choice(event: &EventBody) -> bool {
    matches!(event, EventBody::ModelSwitched { choice: Some(_), .. })
}

/// Returns a provider's error as the loop knows it.
pub(crate) fn failure(error: longhaul_providers::ProviderError) -> ModelCallFailure {
    ModelCallFailure {
        code: error.code,
        message: error.message,
        retryable: error.retryable,
        retry_after_ms: error.retry_after.map(|time| time.as_millis() as u64),
        refuses_tools: error.refuses_tools,
        refusal: error.refusal,
        used_tokens: error.used_tokens,
        limit_tokens: error.limit_tokens,
        usage: error.usage,
    }
}
