//! The loop as a pure state machine: [`Run::handle`] takes an input and returns the effects to perform.
//!
//! One `Run` serves one session. Everything that must survive a crash is in its [`History`]. The rest (the phase, the
//! requests in flight) is rebuilt by [`Run::new`] and an [`RunLoopInput::Recover`]. The driver performs the effects and
//! feeds the outcomes back; it decides nothing.
//!
//! A step runs in the order of the functions below: take the queue, plan, call the model, store its answer, run its
//! tools, repeat.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::budget::{ASSUMED_WINDOW, Budget};
use crate::event::{ErrorInfo, EventBody, RunEnd, ViewEdit};
use crate::history::History;
use crate::ids::{CallId, EditId, Millis, Seq, StepId};
use crate::message::ModelStopReason;
use crate::meter;
use crate::plan::{self, Plan, PlanTrigger, SummaryDraft};
use crate::strategy::TriggerThreshold;

mod background_summary;
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

pub use effect::{AppendId, CompactionOutcome, RunEffect, RunNotice, RunTimer};
pub use hook::{PreCompactInput, PreCompactOutput};
pub use input::{ModelCallFailure, RunLoopInput};
pub use matching::{ArgumentRule, ArgumentRules};
pub use pausing::MAX_PAUSES;
pub use settings::{
    PrefixBeforeRecall, RequestPrefix, RunRecovery, RunSettings, ServerCountPolicy, SessionModel,
    ToolApproval, ToolRule,
};
pub use waiting::{ServerWait, WaitReason};

use background_summary::PrecomputedSummary;
use tools::StepToolCalls;

/// The most time of the recovery step after a time-out, in milliseconds.
pub const RECOVERY_STEP_MS: u64 = 60_000;

/// The loop of one session.
#[derive(Clone, Debug)]
pub struct Run {
    settings: Arc<RunSettings>,
    history: History,
    phase: RunPhase,
    stop: Option<RunStopCause>,
    step: StepGuards,
    pending: BTreeMap<AppendId, AppendContinuation>,
    next_append: u64,
    next_task: u64,
    /// A background summary.
    candidate: Option<PrecomputedSummary>,
    /// The usage of summaries that were not committed.
    unstored: Vec<crate::usage::Usage>,
    /// Events that are recorded between two steps.
    soon: Vec<EventBody>,
    woken: bool,
    resuming: bool,
    /// The time of the newest event's append: as near to now as the loop needs to know.
    now: Millis,
}

/// The phase of the loop.
#[derive(Clone, Debug, PartialEq)]
enum RunPhase {
    Idle,
    ReadingQueue,
    /// The server counts; the continuation follows.
    Counting(CountContinuation),
    /// An append is in flight, and nothing else.
    Storing,
    Calling {
        step: StepId,
        began: bool,
    },
    /// The loop waits for the next attempt.
    Waiting {
        /// The step that the attempt repeats; `None` if the attempt is a new step.
        step: Option<StepId>,
        /// The failure, and the length of the wait.
        wait: ServerWait,
    },
    /// A hook is asked about a compaction.
    Asking {
        task: u64,
        plan: Box<Plan>,
        occasion: PlanTrigger,
    },
    Summarising {
        task: u64,
        draft: Box<SummaryDraft>,
        occasion: PlanTrigger,
    },
    Tools(StepToolCalls),
}

/// The state of a session, for people who watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
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
    /// The model's server does not answer; the loop waits for the next attempt.
    WaitingForServer,
    /// The session waits for a person after repeated failures.
    Parked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunStopCause {
    Cancelled,
    Timeout,
}

/// Guards against repetition: actions that may happen only once per step.
#[derive(Clone, Debug, Default, PartialEq)]
struct StepGuards {
    compacted: bool,
    /// The number of times that the server refused the request as too long.
    overflows: u32,
    /// The provider's words when the request was too long.
    refusal: Option<String>,
    /// The view that the server was asked to count.
    counted: Option<Seq>,
    /// Attempts that failed in the present outage.
    outage_attempts: u32,
    /// Set when `retry.patience` has ended: the attempt on its way is the last one.
    patience_is_over: bool,
    /// The number of times that an answer of this step broke off.
    broken_answers: u32,
    /// The number of times that this step was repeated without parts that its server refused.
    omissions: u32,
    /// The omission that was made on a guess and is not confirmed yet.
    guess: Option<EditId>,
}

/// The continuation after a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountContinuation {
    Plan,
    Call,
}

/// The continuation after an append.
#[derive(Clone, Debug, PartialEq)]
enum AppendContinuation {
    Begun,
    Boundary,
    Prepare,
    StartStep,
    Counted(CountContinuation),
    CallModel { step: StepId },
    AfterAnswer { finish: ModelStopReason },
    AfterOverflow,
    Wait(ServerWait),
    RunTool(CallId),
    AskApproval(CallId),
    ToolStored(CallId),
    Decided(CallId),
    ActOn { plan: Box<Plan>, occasion: PlanTrigger },
    Finish { end: RunEnd, error: Option<ErrorInfo> },
    Ended(RunEnd),
    Compacted(Box<ViewEdit>),
    Recovered,
    Recorded,
    OrdersStored,
}

impl Run {
    /// Creates the loop of a session with that history, at rest. If the history has an open run, send
    /// [`RunLoopInput::Recover`] first.
    pub fn new(settings: Arc<RunSettings>, history: History) -> Self {
        Self {
            settings,
            history,
            phase: RunPhase::Idle,
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

    /// Returns the session's history.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Arc<RunSettings> {
        &self.settings
    }

    /// Changes the settings, from the next decision on.
    pub fn configure(&mut self, settings: Arc<RunSettings>) {
        self.settings = settings;
    }

    /// Replaces the history by the same history with another counter's counts.
    pub fn recount(&mut self, history: History) -> Vec<RunEffect> {
        debug_assert_eq!(history.last_seq(), self.history.last_seq());
        let mut effects = Vec::new();
        // The draft's sizes come from the other counter.
        self.drop_candidate(&mut effects);
        self.history = history.with_stop_flag(self.history.stop_flag().clone());
        effects
    }

    /// Returns whether the loop is idle.
    pub fn is_idle(&self) -> bool {
        self.phase == RunPhase::Idle
    }

    /// Returns the loop's state.
    pub fn status(&self) -> RunStatus {
        match &self.phase {
            RunPhase::Idle if self.history.parked().is_some() => RunStatus::Parked,
            RunPhase::Idle => RunStatus::Idle,
            RunPhase::Summarising { .. } | RunPhase::Asking { .. } => RunStatus::Compacting,
            RunPhase::Tools(tools) if tools.is_asking() => RunStatus::WaitingApproval,
            RunPhase::Tools(_) => RunStatus::ExecutingTools,
            RunPhase::Waiting { .. } => RunStatus::WaitingForServer,
            _ => RunStatus::Streaming,
        }
    }

    /// Returns whether the loop awaits an answer of the model, so that a cancel may cut it.
    pub fn is_answering(&self) -> bool {
        matches!(self.phase, RunPhase::Calling { .. })
    }

    /// Returns the room of a model call.
    pub fn budget(&self) -> Budget {
        let model = &self.settings.model;
        let known = model.window.or(self.history.window());
        // A refusal corrects even a declared window: every step would be refused first otherwise (decision 0005).
        let window = known.into_iter().chain(self.learned_window()).min().unwrap_or(ASSUMED_WINDOW);
        Budget::new(window, model.max_output)
    }

    /// Returns the window that a refusal named, in this session or an earlier one, unless a call has disproved it.
    pub fn learned_window(&self) -> Option<u64> {
        let model = &self.settings.model;
        let remembered = model.remembered_window.filter(|window| self.history.largest_call() <= *window);
        self.history.learned_window(model.window).or(remembered)
    }

    /// Returns the meter's reading for the next request.
    pub fn meter(&self) -> meter::MeterReading {
        meter::read(&self.history, self.settings.fixed.tokens_of(&self.history))
    }

    /// Returns the policy's present threshold.
    pub fn line(&self) -> TriggerThreshold {
        let fixed_tokens = self.settings.fixed.tokens_of(&self.history);
        plan::line(&self.history, fixed_tokens, &self.budget(), &self.settings.policy)
    }

    /// Returns the plan of a compaction on request, without acting on it.
    pub fn preview(&self, instructions: Option<String>) -> Plan {
        self.plan(&PlanTrigger::Requested { instructions })
    }

    /// Takes an input and returns the effects to perform.
    pub fn handle(&mut self, input: RunLoopInput) -> Vec<RunEffect> {
        let mut effects = Vec::new();
        self.dispatch(input, &mut effects);
        effects
    }

    fn dispatch(&mut self, input: RunLoopInput, out: &mut Vec<RunEffect>) {
        match input {
            RunLoopInput::Wake => self.wake(out),
            RunLoopInput::Resume => {
                // A run that goes on needs no resume, and the wish must not outlive that run.
                self.resuming = self.is_idle();
                self.wake(out);
            }
            RunLoopInput::QueueRead(queued) => self.queue_read(&queued, out),
            RunLoopInput::Appended { id, events } => self.appended(id, &events, out),
            RunLoopInput::QueueChanged { id } => {
                // A waiting message was edited or removed between reading and storing, so the whole queue is read
                // again.
                self.pending.remove(&id);
                if !self.stop_at_boundary(out) {
                    self.read_queue(out);
                }
            }
            RunLoopInput::Counted(tokens) => self.counted(tokens, out),
            RunLoopInput::ModelBegan => self.model_began(out),
            RunLoopInput::ModelAnswered(answer) => self.answered(answer, out),
            RunLoopInput::ModelFailed { failure, partial } => self.failed(failure, partial, out),
            RunLoopInput::ModelStopped { partial, usage } => {
                // The call may have ended by itself before the stop reached it.
                if let RunPhase::Calling { .. } = self.phase {
                    self.stopped(partial, usage, out);
                }
            }
            RunLoopInput::ModelPaused { partial, usage } => self.paused(partial, usage, out),
            RunLoopInput::Summarised { task, answer } => self.summarised(task, answer, out),
            RunLoopInput::PreCompactAnswered { task, answer } => self.hook_answered(task, answer, out),
            RunLoopInput::ToolEnded(result) => self.tool_ended(result, out),
            RunLoopInput::PinEnded { result, request } => self.pin_ended(result, &request, out),
            RunLoopInput::Decided { approval_id, allowed, reason } => {
                self.handle_approval_decision(&approval_id, allowed, reason, out);
            }
            RunLoopInput::TimerFired(timer) => self.timer_fired(timer, out),
            RunLoopInput::RetryNow => self.retry_now(out),
            RunLoopInput::Cancel => self.interrupt(RunStopCause::Cancelled, out),
            RunLoopInput::Compact { instructions } => {
                self.compact(PlanTrigger::Requested { instructions }, out)
            }
            // Such facts may change the view, which an open step relies on.
            RunLoopInput::Record(events) => {
                if self.is_idle() {
                    self.append(events, AppendContinuation::Recorded, out);
                }
            }
            RunLoopInput::RecordOrders(events) => self.record_orders(events, out),
            RunLoopInput::RecordSoon(events) => {
                self.soon.extend(events);
                self.record_if_idle(out);
                self.leave_wait(out);
            }
            RunLoopInput::Recover { partial } => self.recover(partial, out),
        }
    }

    /// Hands events to the store; `then` follows when they are durable.
    fn append(&mut self, events: Vec<EventBody>, then: AppendContinuation, out: &mut Vec<RunEffect>) {
        self.append_with(events, Vec::new(), Vec::new(), then, out);
    }

    fn append_with(
        &mut self,
        events: Vec<EventBody>,
        takes: Vec<crate::ids::QueueId>,
        settles: Vec<StepId>,
        then: AppendContinuation,
        out: &mut Vec<RunEffect>,
    ) {
        let id = AppendId(self.next_append);
        self.next_append += 1;
        self.pending.insert(id, then);
        out.push(RunEffect::Append { id, events, takes, settles });
    }

    fn appended(&mut self, id: AppendId, events: &[crate::event::Event], out: &mut Vec<RunEffect>) {
        for event in events {
            // The store numbers events without gaps, and this is its only writer.
            let folded = self.history.apply(event);
            self.now = event.at;
            debug_assert_eq!(folded, Ok(()));
        }
        match self.pending.remove(&id) {
            Some(then) => self.continue_after_append(then, out),
            None => debug_assert!(false, "an append that nobody asked for"),
        }
    }

    fn continue_after_append(&mut self, then: AppendContinuation, out: &mut Vec<RunEffect>) {
        match then {
            AppendContinuation::Begun => {
                self.start_run_timer(out);
                self.prepare(out);
            }
            AppendContinuation::Boundary => self.reach_step_boundary(out),
            AppendContinuation::Prepare => self.prepare(out),
            AppendContinuation::StartStep => self.start_step(out),
            AppendContinuation::Counted(next) => self.after_count(next, out),
            AppendContinuation::CallModel { step } => self.call_model(step, out),
            AppendContinuation::AfterAnswer { finish } => self.after_answer(finish, out),
            AppendContinuation::AfterOverflow => self.after_overflow(out),
            AppendContinuation::Wait(wait) => self.begin_wait(None, wait, out),
            AppendContinuation::RunTool(call) => self.run_tool(&call, out),
            AppendContinuation::AskApproval(call) => self.ask(&call, out),
            AppendContinuation::ToolStored(call) => self.tool_stored(&call, out),
            AppendContinuation::Decided(call) => self.decision_stored(&call, out),
            AppendContinuation::ActOn { plan, occasion } => {
                if !self.stop_at_boundary(out) {
                    self.act_on(*plan, occasion, out);
                }
            }
            AppendContinuation::Finish { end, error } => self.finish(end, error, out),
            AppendContinuation::Ended(end) => self.ended(end, out),
            AppendContinuation::Compacted(edit) => {
                self.step = StepGuards::default();
                out.push(RunEffect::CompactionDone(CompactionOutcome::Committed(edit)));
                self.idle(out);
            }
            AppendContinuation::Recovered => self.after_recovery(out),
            AppendContinuation::Recorded if self.is_idle() && self.pending.is_empty() => {
                self.wake_if_asked(out)
            }
            // Another append is on its way, and its continuation wakes the loop.
            AppendContinuation::Recorded => {}
            AppendContinuation::OrdersStored => self.orders_stored(out),
        }
    }

    /// Returns the next position of the log, from which ids of single-flight events are made.
    fn next_seq(&self) -> Seq {
        self.history.last_seq() + 1
    }
}

#[cfg(test)]
mod tests;
