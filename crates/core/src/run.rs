//! The loop as a pure state machine: [`Run::handle`] takes what happened and answers with what to do.
//!
//! One `Run` serves one session. Everything that must survive a crash is in its [`History`]; the rest (the
//! phase, what is in flight) is rebuilt by [`Run::new`] and an [`Input::Recover`]. The driver above does the
//! effects and feeds the outcomes back; it decides nothing.
//!
//! A step, in the order of the functions below: take the queue, plan, call the model, store its answer, run
//! its tools, and again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::budget::{ASSUMED_WINDOW, Budget};
use crate::event::{ErrorInfo, EventBody, RunEnd, ViewEdit};
use crate::history::History;
use crate::ids::{CallId, EditId, Millis, Seq, StepId};
use crate::message::Finish;
use crate::meter;
use crate::plan::{self, Occasion, Plan, SummaryDraft};
use crate::strategy::Line;

mod ahead;
mod calling;
mod compacting;
mod count;
mod effect;
mod hook;
mod input;
mod matching;
mod omitting;
mod orders;
mod pausing;
mod recalling;
mod recover;
mod settings;
mod tools;
mod turns;
mod waiting;

pub use effect::{AppendId, CompactionOutcome, Effect, Notice, Timer};
pub use hook::{PreCompact, PreCompactAnswer};
pub use input::{Failure, Input};
pub use matching::{Matching, MatchingRule};
pub use pausing::MAX_PAUSES;
pub use settings::{Approval, BeforeRecall, Counting, Fixed, Model, Recovery, Settings, ToolRule};
pub use waiting::{ServerWait, WaitReason};

use ahead::Candidate;
use tools::ToolPhase;

/// How long the recovery step after a time-out may take.
pub const RECOVERY_STEP_MS: u64 = 60_000;

/// The loop of one session.
#[derive(Clone, Debug)]
pub struct Run {
    settings: Arc<Settings>,
    history: History,
    phase: Phase,
    stop: Option<Stop>,
    step: StepGuards,
    pending: BTreeMap<AppendId, Then>,
    next_append: u64,
    next_task: u64,
    /// A summary that is written ahead.
    candidate: Option<Candidate>,
    /// What summaries used that were not committed.
    unstored: Vec<crate::usage::Usage>,
    /// What is recorded between two steps.
    soon: Vec<EventBody>,
    woken: bool,
    resuming: bool,
    /// When the newest event was appended: as near to now as the loop needs to know.
    now: Millis,
}

/// Where the loop is.
#[derive(Clone, Debug, PartialEq)]
enum Phase {
    Idle,
    ReadingQueue,
    /// The server counts; what comes then.
    Counting(Next),
    /// An append is in flight, nothing else.
    Storing,
    Calling {
        step: StepId,
        began: bool,
    },
    /// The next attempt is waited for.
    Waiting {
        /// The step that it repeats; `None` if it is a new step.
        step: Option<StepId>,
        /// The failure, and how long the wait is.
        wait: ServerWait,
    },
    /// A hook is asked about a compaction.
    Asking {
        task: u64,
        plan: Box<Plan>,
        occasion: Occasion,
    },
    Summarising {
        task: u64,
        draft: Box<SummaryDraft>,
        occasion: Occasion,
    },
    Tools(ToolPhase),
}

/// What a person who watches wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nothing is going on.
    Idle,
    /// The model is being called.
    Streaming,
    /// Tools are running.
    ExecutingTools,
    /// A person is asked.
    WaitingApproval,
    /// A summary is being written.
    Compacting,
    /// The model's server does not answer; the next attempt is waited for.
    WaitingForServer,
    /// The session waits for a person after repeated failures.
    Parked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Cancelled,
    Timeout,
}

/// What may happen once per step only.
#[derive(Clone, Debug, Default, PartialEq)]
struct StepGuards {
    compacted: bool,
    /// How often the server refused the request as too long.
    overflows: u32,
    /// How the provider said that the request is too long.
    refusal: Option<String>,
    /// The view that the server was asked to count.
    counted: Option<Seq>,
    /// Attempts that failed in the present outage.
    outage_attempts: u32,
    /// Set when `retry.patience` has ended: the attempt on its way is the last one.
    patience_is_over: bool,
    /// How often an answer of this step broke off.
    broken_answers: u32,
    /// How often this step was made again without parts that its server refused.
    omissions: u32,
    /// What was left out of it on a guess that nothing has confirmed yet.
    guess: Option<EditId>,
}

/// What comes after a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Plan,
    Call,
}

/// What comes after an append.
#[derive(Clone, Debug, PartialEq)]
enum Then {
    Begun,
    Boundary,
    Prepare,
    StartStep,
    Counted(Next),
    CallModel { step: StepId },
    AfterAnswer { finish: Finish },
    AfterOverflow,
    Wait(ServerWait),
    RunTool(CallId),
    AskApproval(CallId),
    ToolStored(CallId),
    Decided(CallId),
    ActOn { plan: Box<Plan>, occasion: Occasion },
    Finish { end: RunEnd, error: Option<ErrorInfo> },
    Ended(RunEnd),
    Compacted(Box<ViewEdit>),
    Recovered,
    Recorded,
    OrdersStored,
}

impl Run {
    /// The loop of a session with that history, at rest. If the history has an open run, send
    /// [`Input::Recover`] first.
    pub fn new(settings: Arc<Settings>, history: History) -> Self {
        Self {
            settings,
            history,
            phase: Phase::Idle,
            stop: None,
            step: StepGuards::default(),
            pending: BTreeMap::new(),
            next_append: 0,
            next_task: 0,
            candidate: None,
            unstored: Vec::new(),
            soon: Vec::new(),
            woken: false,
            resuming: false,
            now: 0,
        }
    }

    /// The session.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// What the user chose.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Changes what the user chose, from the next decision on.
    pub fn configure(&mut self, settings: Arc<Settings>) {
        self.settings = settings;
    }

    /// Takes the same history, counted by another counter.
    pub fn recount(&mut self, history: History) -> Vec<Effect> {
        debug_assert_eq!(history.last_seq(), self.history.last_seq());
        let mut effects = Vec::new();
        // It was measured by the other.
        self.drop_candidate(&mut effects);
        self.history = history.with_stop_flag(self.history.stop_flag().clone());
        effects
    }

    /// Returns whether nothing is going on.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// What is going on.
    pub fn status(&self) -> Status {
        match &self.phase {
            Phase::Idle if self.history.parked().is_some() => Status::Parked,
            Phase::Idle => Status::Idle,
            Phase::Summarising { .. } | Phase::Asking { .. } => Status::Compacting,
            Phase::Tools(tools) if tools.is_asking() => Status::WaitingApproval,
            Phase::Tools(_) => Status::ExecutingTools,
            Phase::Waiting { .. } => Status::WaitingForServer,
            _ => Status::Streaming,
        }
    }

    /// Returns whether an answer of the model is awaited, so that a cancel may cut it.
    pub fn is_answering(&self) -> bool {
        matches!(self.phase, Phase::Calling { .. })
    }

    /// The room of a model call.
    pub fn budget(&self) -> Budget {
        let model = &self.settings.model;
        let known = model.window.or(self.history.window());
        let window = known.into_iter().chain(self.learned_window()).min().unwrap_or(ASSUMED_WINDOW);
        Budget::new(window, model.max_output)
    }

    /// The window that a refusal named, in this session or an earlier one, if no call has shown that it was wrong.
    pub fn learned_window(&self) -> Option<u64> {
        let model = &self.settings.model;
        let remembered = model.remembered_window.filter(|window| self.history.largest_call() <= *window);
        self.history.learned_window(model.window).or(remembered)
    }

    /// The meter for the next request.
    pub fn meter(&self) -> meter::Reading {
        meter::read(&self.history, self.settings.fixed.tokens_of(&self.history))
    }

    /// Where the policy acts now.
    pub fn line(&self) -> Line {
        let fixed_tokens = self.settings.fixed.tokens_of(&self.history);
        plan::line(&self.history, fixed_tokens, &self.budget(), &self.settings.policy)
    }

    /// What a compaction on request would do, without doing it.
    pub fn preview(&self, instructions: Option<String>) -> Plan {
        self.plan(&Occasion::Requested { instructions })
    }

    /// Takes what happened, answers what to do.
    pub fn handle(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.dispatch(input, &mut effects);
        effects
    }

    fn dispatch(&mut self, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Wake => self.wake(out),
            Input::Resume => {
                self.resuming = self.is_idle();
                self.wake(out);
            }
            Input::QueueRead(queued) => self.queue_read(&queued, out),
            Input::Appended { id, events } => self.appended(id, &events, out),
            Input::QueueChanged { id } => {
                self.pending.remove(&id);
                if !self.stop_at_boundary(out) {
                    self.read_queue(out);
                }
            }
            Input::Counted(tokens) => self.counted(tokens, out),
            Input::ModelBegan => self.model_began(out),
            Input::ModelAnswered(answer) => self.answered(answer, out),
            Input::ModelFailed { failure, partial } => self.failed(failure, partial, out),
            Input::ModelStopped { partial, usage } => {
                if let Phase::Calling { .. } = self.phase {
                    self.stopped(partial, usage, out);
                }
            }
            Input::ModelPaused { partial, usage } => self.paused(partial, usage, out),
            Input::Summarised { task, answer } => self.summarised(task, answer, out),
            Input::PreCompactAnswered { task, answer } => self.hook_answered(task, answer, out),
            Input::ToolEnded(result) => self.tool_ended(result, out),
            Input::PinEnded { result, request } => self.pin_ended(result, &request, out),
            Input::Decided { approval_id, allowed, reason } => {
                self.decided(&approval_id, allowed, reason, out);
            }
            Input::TimerFired(timer) => self.timer_fired(timer, out),
            Input::RetryNow => self.retry_now(out),
            Input::Cancel => self.interrupt(Stop::Cancelled, out),
            Input::Compact { instructions } => self.compact(Occasion::Requested { instructions }, out),
            Input::Record(events) => {
                if self.is_idle() {
                    self.append(events, Then::Recorded, out);
                }
            }
            Input::RecordOrders(events) => self.record_orders(events, out),
            Input::RecordSoon(events) => {
                self.soon.extend(events);
                self.record_if_idle(out);
                self.leave_wait(out);
            }
            Input::Recover { partial } => self.recover(partial, out),
        }
    }

    /// Hands events to the store; `then` follows when they are durable.
    fn append(&mut self, events: Vec<EventBody>, then: Then, out: &mut Vec<Effect>) {
        self.append_with(events, Vec::new(), Vec::new(), then, out);
    }

    fn append_with(
        &mut self,
        events: Vec<EventBody>,
        takes: Vec<crate::ids::QueueId>,
        settles: Vec<StepId>,
        then: Then,
        out: &mut Vec<Effect>,
    ) {
        let id = AppendId(self.next_append);
        self.next_append += 1;
        self.pending.insert(id, then);
        out.push(Effect::Append { id, events, takes, settles });
    }

    fn appended(&mut self, id: AppendId, events: &[crate::event::Event], out: &mut Vec<Effect>) {
        for event in events {
            // The store numbers events without gaps, and this is its only writer.
            let folded = self.history.apply(event);
            self.now = event.at;
            debug_assert_eq!(folded, Ok(()));
        }
        match self.pending.remove(&id) {
            Some(then) => self.go_on(then, out),
            None => debug_assert!(false, "an append that nobody asked for"),
        }
    }

    fn go_on(&mut self, then: Then, out: &mut Vec<Effect>) {
        match then {
            Then::Begun => {
                self.start_run_timer(out);
                self.prepare(out);
            }
            Then::Boundary => self.boundary(out),
            Then::Prepare => self.prepare(out),
            Then::StartStep => self.start_step(out),
            Then::Counted(next) => self.after_count(next, out),
            Then::CallModel { step } => self.call_model(step, out),
            Then::AfterAnswer { finish } => self.after_answer(finish, out),
            Then::AfterOverflow => self.after_overflow(out),
            Then::Wait(wait) => self.begin_wait(None, wait, out),
            Then::RunTool(call) => self.run_tool(&call, out),
            Then::AskApproval(call) => self.ask(&call, out),
            Then::ToolStored(call) => self.tool_stored(&call, out),
            Then::Decided(call) => self.decision_stored(&call, out),
            Then::ActOn { plan, occasion } => {
                if !self.stop_at_boundary(out) {
                    self.act_on(*plan, occasion, out);
                }
            }
            Then::Finish { end, error } => self.finish(end, error, out),
            Then::Ended(end) => self.ended(end, out),
            Then::Compacted(edit) => {
                self.step = StepGuards::default();
                out.push(Effect::CompactionDone(CompactionOutcome::Committed(edit)));
                self.idle(out);
            }
            Then::Recovered => self.after_recovery(out),
            Then::Recorded if self.is_idle() && self.pending.is_empty() => self.wake_if_asked(out),
            Then::Recorded => {}
            Then::OrdersStored => self.orders_stored(out),
        }
    }

    /// The next position of the log: what ids of single-flight events are made of.
    fn next_seq(&self) -> Seq {
        self.history.last_seq() + 1
    }
}

#[cfg(test)]
mod tests;
