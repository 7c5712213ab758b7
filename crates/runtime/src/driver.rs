//! One driver per session: it owns the loop and the lease, does the loop's effects, and feeds the outcomes
//! back. It decides nothing; what happens next is [`Run::handle`]'s word.
//!
//! Everything it starts (model call, tools, timers) it owns: when the driver ends, by return, error or panic,
//! they end with it.

mod model;
mod tool;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use longhaul_core::event::{Event, EventBody, RunEnd};
use longhaul_core::ids::{ApprovalId, EditId, QueueId, SessionId};
use longhaul_core::message::Part;
use longhaul_core::plan::Plan;
use longhaul_core::run::{AppendId, CompactionOutcome, Effect, Failure, Input, Run, Settings, Status, Timer};
use longhaul_core::strategy::Strategy;
use longhaul_store::{Append, Blobs, Lease, SharedStore, StoreError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::announce::{Announcement, Around, of_event, of_notice, run_around, shown, survival_of};
use crate::clock::now_ms;
use crate::context::{ContextReport, report};
use crate::feed::Feed;
use crate::session::{CancelledAt, SessionError, Settled};

/// What reaches a driver.
pub(crate) enum Message {
    /// Something that the loop waits for.
    Input(Input),
    /// Something that somebody asks for.
    Command(Command),
}

/// What somebody asks of a session.
pub(crate) enum Command {
    Cancel {
        reply: oneshot::Sender<CancelledAt>,
    },
    WhenIdle {
        reply: oneshot::Sender<Settled>,
    },
    Compact {
        strategy: Option<SharedStrategy>,
        instructions: Option<String>,
        reply: oneshot::Sender<CompactionOutcome>,
    },
    Queue {
        change: QueueChange,
        reply: oneshot::Sender<Result<Vec<QueueId>, StoreError>>,
    },
    Record {
        make: RecordMaker,
        reply: oneshot::Sender<Result<Vec<Event>, SessionError>>,
    },
    Look {
        look: Box<dyn FnOnce(&Run) + Send>,
    },
    Context {
        reply: oneshot::Sender<ContextReport>,
    },
    Decide {
        approval_id: ApprovalId,
        allowed: bool,
        reason: Option<String>,
        reply: oneshot::Sender<bool>,
    },
    Close {
        reply: oneshot::Sender<()>,
    },
}

/// A strategy that any session may use.
pub(crate) type SharedStrategy = Arc<dyn Strategy>;

/// What becomes of messages that wait. Done between two of the loop's decisions, never while it takes them.
pub(crate) enum QueueChange {
    Edit { id: QueueId, parts: Vec<Part> },
    Remove { id: QueueId },
    Clear,
}

/// Makes the events of a change that is allowed only in rest, or says why it is not.
pub(crate) type RecordMaker = Box<dyn FnOnce(&Run) -> Result<Vec<EventBody>, SessionError> + Send>;

/// What a driver shares with its session's handles.
pub(crate) struct Shared {
    pub(crate) session_id: SessionId,
    pub(crate) store: SharedStore,
    pub(crate) blobs: Blobs,
    pub(crate) feed: Feed,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) inbox: mpsc::UnboundedSender<Message>,
}

pub(crate) struct Driver {
    run: Run,
    agent: Arc<Agent>,
    shared: Arc<Shared>,
    lease: Lease,
    messages: mpsc::UnboundedReceiver<Message>,
    work: VecDeque<Effect>,
    tasks: JoinSet<()>,
    model_stop: CancellationToken,
    tools_stop: CancellationToken,
    timers: BTreeMap<Timer, AbortHandle>,
    approvals: BTreeMap<ApprovalId, AbortHandle>,
    waiting: Vec<oneshot::Sender<Settled>>,
    compacting: Option<oneshot::Sender<CompactionOutcome>>,
    /// The settings to go back to after a compaction by another strategy.
    usual: Option<Arc<Settings>>,
    last_end: Settled,
    closing: Option<oneshot::Sender<()>>,
}

impl Driver {
    pub(crate) fn new(
        run: Run,
        agent: Arc<Agent>,
        shared: Arc<Shared>,
        lease: Lease,
        messages: mpsc::UnboundedReceiver<Message>,
    ) -> Self {
        Self {
            run,
            agent,
            shared,
            lease,
            messages,
            work: VecDeque::new(),
            tasks: JoinSet::new(),
            model_stop: CancellationToken::new(),
            tools_stop: CancellationToken::new(),
            timers: BTreeMap::new(),
            approvals: BTreeMap::new(),
            waiting: Vec::new(),
            compacting: None,
            usual: None,
            last_end: Settled::default(),
            closing: None,
        }
    }

    /// Drives the session until it is closed or its storage fails. What was asked and not answered by then is
    /// answered by its sender being dropped.
    pub(crate) async fn drive(mut self) {
        while let Some(message) = self.messages.recv().await {
            let done = match message {
                Message::Input(input) => self.feed(input).await,
                Message::Command(command) => self.command(command).await,
            };
            if let Err(error) = done {
                self.give_up(&error);
                break;
            }
            self.publish();
            if self.run.is_idle()
                && let Some(reply) = self.closing.take()
            {
                let _ = self.shared.store.release(&self.lease).await;
                let _ = reply.send(());
                break;
            }
        }
        self.tools_stop.cancel();
        self.model_stop.cancel();
        self.tasks.shutdown().await;
    }

    /// Storage failed or somebody else has the session: nothing more may be done in its name.
    fn give_up(&mut self, error: &StoreError) {
        tracing::error!(session = %self.shared.session_id, %error, "the session stops");
        let payload =
            serde_json::json!({ "error": error.to_string(), "code": "storage", "recoverable": false });
        self.tell(Announcement::passing("llm:error", &self.shared.session_id, payload));
        self.shared.status.send_replace(Status::Idle);
    }

    fn publish(&mut self) {
        let status = self.run.status();
        self.shared.status.send_if_modified(|old| std::mem::replace(old, status) != status);
        if self.run.is_idle() {
            for reply in self.waiting.drain(..) {
                let _ = reply.send(self.last_end.clone());
            }
        }
    }

    fn tell(&self, announcement: Announcement) {
        self.shared.feed.tell(announcement);
    }

    /// Gives the loop an input and does everything that follows from it at once.
    async fn feed(&mut self, input: Input) -> Result<(), StoreError> {
        self.tell_run(input);
        while let Some(effect) = self.work.pop_front() {
            self.perform(effect).await?;
        }
        Ok(())
    }

    /// One function per effect. What is over at once is answered at once.
    async fn perform(&mut self, effect: Effect) -> Result<(), StoreError> {
        match effect {
            Effect::Append { id, events, takes, settles } => {
                let settles = settles.iter().map(|step| step.as_str().to_owned()).collect();
                self.append(id, Append { at: now_ms(), events, takes, settles }).await?;
            }
            Effect::ReadQueue => {
                let waiting = self.shared.store.queue(&self.shared.session_id).await?;
                self.tell_run(Input::QueueRead(waiting));
            }
            Effect::CallModel { step, tools, max_output_tokens } => {
                self.call_model(step, tools, max_output_tokens)
            }
            Effect::Summarise { form, messages, max_output_tokens } => {
                self.summarise(&form, messages, max_output_tokens);
            }
            Effect::StopModel => self.model_stop.cancel(),
            Effect::RunTool { call, limit } => self.run_tool(call, limit),
            Effect::StopTools => self.tools_stop.cancel(),
            Effect::AskApproval { approval_id, .. } => self.await_approval(approval_id),
            Effect::StartTimer { timer, after_ms } => self.start_timer(timer, after_ms),
            Effect::StopTimer { timer } => self.stop_timer(timer),
            Effect::Notice(notice) => self.tell(of_notice(&self.shared.session_id, &notice)),
            Effect::CompactionDone(outcome) => {
                if let Some(usual) = self.usual.take() {
                    self.run.configure(usual);
                }
                if let Some(reply) = self.compacting.take() {
                    let _ = reply.send(outcome);
                }
            }
            Effect::RunEnded(end) => self.run_ended(end),
            Effect::Rested => {}
        }
        Ok(())
    }

    fn tell_run(&mut self, input: Input) {
        let effects = self.run.handle(input);
        self.work.extend(effects);
    }

    async fn append(&mut self, id: AppendId, append: Append) -> Result<(), StoreError> {
        match self.shared.store.append(&self.lease, append).await {
            Ok(events) => self.committed(id, events),
            Err(StoreError::Conflict(_)) => self.tell_run(Input::QueueChanged { id }),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Folds what is durable, then announces it.
    fn committed(&mut self, id: AppendId, events: Vec<Event>) {
        let mut open = self.run.history().open_run().cloned();
        let is_edit = events.iter().any(|event| matches!(event.body, EventBody::ViewEdited(_)));
        let before = is_edit.then(|| shown(&self.run));
        self.tell_run(Input::Appended { id, events: events.clone() });
        let survival = before.map(|before| survival_of(&before, &self.run));
        for event in &events {
            if let EventBody::RunFinished { reason, error, .. } = &event.body {
                self.last_end = Settled { end: Some(*reason), error: error.clone() };
            }
            open = run_around(open, event, self.run.history());
            let around = Around { run: &self.run, open: open.as_ref(), survival: survival.as_ref() };
            let announcements = of_event(&self.shared.session_id, event, &around);
            self.shared.feed.tell_event(event.seq, announcements, settles(&event.body));
            if let EventBody::RunFinished { .. } = event.body {
                open = None;
            }
        }
    }

    fn run_ended(&mut self, end: RunEnd) {
        self.last_end.end = Some(end);
        self.tools_stop = CancellationToken::new();
        for (_, handle) in std::mem::take(&mut self.approvals) {
            handle.abort();
        }
        while self.tasks.try_join_next().is_some() {}
    }

    async fn command(&mut self, command: Command) -> Result<(), StoreError> {
        match command {
            Command::Cancel { reply } => self.cancel(reply).await?,
            Command::WhenIdle { reply } => self.waiting.push(reply),
            Command::Compact { strategy, instructions, reply } => {
                self.compact(strategy, instructions, reply).await?;
            }
            Command::Queue { change, reply } => {
                let _ = reply.send(self.change_queue(change).await);
            }
            Command::Record { make, reply } => self.record(make, reply).await?,
            Command::Look { look } => look(&self.run),
            Command::Context { reply } => {
                let source = match (self.agent.limits.window, self.run.history().window()) {
                    (Some(_), _) => self.agent.limits.source.as_str(),
                    (None, Some(_)) => "the newest call",
                    (None, None) => "assumed",
                };
                let _ = reply.send(report(&self.run, &self.agent.fixed_share(), source));
            }
            Command::Decide { approval_id, allowed, reason, reply } => {
                let known = self.approvals.remove(&approval_id).map(|timer| timer.abort()).is_some();
                if known {
                    self.feed(Input::Decided { approval_id, allowed, reason }).await?;
                }
                let _ = reply.send(known);
            }
            Command::Close { reply } => {
                self.closing = Some(reply);
                if !self.run.is_idle() {
                    self.feed(Input::Cancel).await?;
                }
            }
        }
        Ok(())
    }

    async fn cancel(&mut self, reply: oneshot::Sender<CancelledAt>) -> Result<(), StoreError> {
        let case = match self.run.status() {
            Status::Idle | Status::Parked => CancelledAt::Idle,
            Status::ExecutingTools | Status::WaitingApproval => CancelledAt::ToolsInProgress,
            Status::Streaming | Status::Compacting => CancelledAt::PartialAssistant,
        };
        self.feed(Input::Cancel).await?;
        let _ = reply.send(case);
        Ok(())
    }

    /// One at a time: who asks while something goes on is refused, and what goes on is not disturbed.
    async fn compact(
        &mut self,
        strategy: Option<SharedStrategy>,
        instructions: Option<String>,
        reply: oneshot::Sender<CompactionOutcome>,
    ) -> Result<(), StoreError> {
        if self.compacting.is_some() || !self.run.is_idle() {
            let _ = reply.send(CompactionOutcome::Refused("the session is busy".to_owned()));
            return Ok(());
        }
        if let Some(strategy) = strategy {
            self.usual = Some(Arc::clone(self.run.settings()));
            self.run.configure(with_strategy(&self.run, strategy));
        }
        self.compacting = Some(reply);
        self.feed(Input::Compact { instructions }).await
    }

    async fn change_queue(&self, change: QueueChange) -> Result<Vec<QueueId>, StoreError> {
        let (store, session_id) = (&self.shared.store, &self.shared.session_id);
        let (name, changed) = match change {
            QueueChange::Edit { id, parts } => {
                store.edit_queued(session_id, &id, parts).await?;
                ("message:edited", vec![id])
            }
            QueueChange::Remove { id } => {
                store.remove_queued(session_id, &id).await?;
                ("message:removed", vec![id])
            }
            QueueChange::Clear => ("message:removed", store.clear_queue(session_id).await?),
        };
        for id in &changed {
            self.tell(Announcement::passing(name, session_id, serde_json::json!({ "id": id })));
        }
        Ok(changed)
    }

    async fn record(
        &mut self,
        make: RecordMaker,
        reply: oneshot::Sender<Result<Vec<Event>, SessionError>>,
    ) -> Result<(), StoreError> {
        let made = if self.run.is_idle() { make(&self.run) } else { Err(SessionError::Busy) };
        let bodies = match made {
            Ok(bodies) => bodies,
            Err(error) => {
                let _ = reply.send(Err(error));
                return Ok(());
            }
        };
        let before = self.run.history().last_seq();
        self.feed(Input::Record(bodies)).await?;
        let count = (self.run.history().last_seq() - before) as usize;
        let events = self.shared.store.tail(&self.shared.session_id, count).await?;
        let _ = reply.send(Ok(events));
        Ok(())
    }

    fn start_timer(&mut self, timer: Timer, after_ms: u64) {
        let inbox = self.shared.inbox.clone();
        let handle = self.tasks.spawn(async move {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            let _ = inbox.send(Message::Input(Input::TimerFired(timer)));
        });
        if let Some(old) = self.timers.insert(timer, handle) {
            old.abort();
        }
    }

    fn stop_timer(&mut self, timer: Timer) {
        if let Some(handle) = self.timers.remove(&timer) {
            handle.abort();
        }
    }

    /// The question has been announced; if nobody answers in time the answer is no.
    fn await_approval(&mut self, approval_id: ApprovalId) {
        let inbox = self.shared.inbox.clone();
        let timeout = self.agent.rules.approval_timeout;
        let id = approval_id.clone();
        let handle = self.tasks.spawn(async move {
            match timeout {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
            let reason = Some("nobody answered in time".to_owned());
            let (reply, _) = oneshot::channel();
            let decide = Command::Decide { approval_id: id, allowed: false, reason, reply };
            let _ = inbox.send(Message::Command(decide));
        });
        self.approvals.insert(approval_id, handle);
    }
}

/// Whether the answer in flight is over with that event.
fn settles(event: &EventBody) -> bool {
    matches!(
        event,
        EventBody::AssistantAdded { .. } | EventBody::StepFinished { .. } | EventBody::StepFailed { .. }
    )
}

/// The model may be changed for one compaction: the same settings with another strategy.
fn with_strategy(run: &Run, strategy: SharedStrategy) -> Arc<Settings> {
    let mut settings = Settings::clone(run.settings());
    settings.policy.strategy = strategy;
    Arc::new(settings)
}

/// What a compaction would do, by the configured strategy or another.
pub(crate) fn preview(run: &Run, strategy: Option<SharedStrategy>, instructions: Option<String>) -> Plan {
    let Some(strategy) = strategy else { return run.preview(instructions) };
    let mut other = run.clone();
    other.configure(with_strategy(run, strategy));
    other.preview(instructions)
}

/// A provider's error as the loop knows it.
pub(crate) fn failure(error: longhaul_providers::ProviderError) -> Failure {
    Failure {
        code: error.code,
        message: error.message,
        retryable: error.retryable,
        retry_after_ms: error.retry_after.map(|time| time.as_millis() as u64),
        used_tokens: error.used_tokens,
        limit_tokens: error.limit_tokens,
        usage: error.usage,
    }
}

/// Whether an undo of `edit_id` is allowed, and its event.
pub(crate) fn undo(run: &Run, edit_id: &EditId) -> Result<Vec<EventBody>, SessionError> {
    use longhaul_core::history::UndoError;
    run.history().check_undo(edit_id).map_err(|error| match error {
        UndoError::NotFound(id) => SessionError::NotFound(format!("compaction {id}")),
        built @ UndoError::BuiltOn { .. } => SessionError::Conflict(built.to_string()),
    })?;
    let restored = EventBody::ViewRestored { edit_id: edit_id.clone() };
    let after = run.history().with(restored.clone());
    let tokens = longhaul_core::meter::read(&after, run.settings().fixed.tokens).bound();
    let usable = run.budget().usable;
    if tokens > usable {
        return Err(SessionError::DoesNotFit { tokens, usable });
    }
    Ok(vec![restored])
}
