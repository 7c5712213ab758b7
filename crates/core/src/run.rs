//! The loop as a pure state machine: [`Run::handle`] takes an input and returns the effects to perform.
//!
//! One `Run` serves one session. Everything that must survive a crash is in its [`History`]. The rest (the
//! phase, the requests in flight) is rebuilt by [`Run::new`] and a [`RunLoopInput::Recover`]. The driver
//! performs the effects and feeds the outcomes back. It never chooses the next step.
//!
//! A step runs in this order: take the queue, plan, call the model, store its answer, run its tools, repeat.

use std::sync::Arc;

use crate::budget::Budget;
use crate::error::ErrorCode;
use crate::event::{EventBody, RunEnd};
use crate::history::History;
use crate::ids::OrderId;
use crate::message::ModelStopReason;
use crate::meter::MeterReading;
use crate::orders::StandingOrderError;
use crate::plan::{Plan, PlanTrigger};
use crate::queue::QueuedMessage;
use crate::stop_flag::StopFlag;
use crate::strategy::TriggerThreshold;

mod argument_rules;
mod background_summary;
mod calling;
mod compactor;
mod effect;
mod hook;
mod input;
mod loop_state;
mod omitting;
mod orders;
mod pausing;
mod recalling;
mod recover;
mod repeating;
mod server_wait;
mod session;
mod settings;
mod shell_commands;
mod tools;
mod turns;
mod unnamed_refusal;

pub use argument_rules::{ArgumentRule, ArgumentRules};
pub use effect::{AppendId, CompactionOutcome, RunEffect, RunNotice, RunTimer};
pub use hook::{PreCompactInput, PreCompactOutput};
pub use input::{ModelCallFailure, RunLoopInput};
pub use pausing::MAX_PAUSES;
pub use server_wait::{ServerWait, WaitReason};
pub use settings::{
    PrefixBeforeRecall, RequestPrefix, RunRecovery, RunSettings, ServerCountPolicy, SessionModel,
    ToolApproval, ToolRule,
};

use compactor::Compactor;
use loop_state::{AppendContinuation, CountContinuation, LoopState, RunPhase, RunStopCause, StepGuards};
use session::SessionState;

/// The most time of the recovery step after a time-out, in milliseconds.
pub(crate) const RECOVERY_STEP_MS: u64 = 60_000;

/// The state of a session, for people who watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

impl RunStatus {
    /// Returns the status's stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Streaming => "streaming",
            Self::ExecutingTools => "executing_tools",
            Self::WaitingApproval => "waiting_approval",
            Self::Compacting => "compacting",
            Self::WaitingForServer => "waiting_for_server",
            Self::Parked => "parked",
        }
    }
}

/// The loop of one session.
// The parts are layers, and no part knows a part above it. `SessionState` answers questions about settings and history.
// `LoopState` appends events and reaches boundaries: the moments between two steps. The modules `calling`,
// `server_wait`, `repeating`, `pausing`, `omitting`, `unnamed_refusal`, `tools`, `orders` and `recover` hold the
// transitions of one concern each, as functions over a `LoopState`. `Compactor` makes room. Only `Run` knows all of
// them: it takes the inputs, and hands over between concerns when an append is durable.
#[derive(Clone, Debug)]
pub struct Run {
    state: LoopState,
    compactor: Compactor,
}

impl Run {
    /// Creates the loop of a session with that history, at rest. If the history has an open run, send
    /// [`RunLoopInput::Recover`] first.
    pub fn new(settings: Arc<RunSettings>, history: History) -> Self {
        let state = LoopState::new(SessionState { settings, history });
        Self { state, compactor: Compactor::default() }
    }

    /// Returns the session's history.
    pub fn history(&self) -> &History {
        &self.state.session.history
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Arc<RunSettings> {
        &self.state.session.settings
    }

    /// Changes the settings, from the next decision on.
    pub fn configure(&mut self, settings: Arc<RunSettings>) {
        self.state.session.settings = settings;
    }

    /// Replaces the history by the same history with another counter's counts.
    pub fn recount(&mut self, history: History) -> Vec<RunEffect> {
        debug_assert_eq!(history.last_seq(), self.state.session.history.last_seq());
        let mut effects = Vec::new();
        // The draft's sizes come from the other counter.
        self.compactor.background.drop_candidate(&mut effects);
        self.state.session.history = history.with_stop_flag(self.state.session.history.stop_flag().clone());
        effects
    }

    /// Returns a copy for reads beside the loop. A cancel does not end computations over the copy: only a reader
    /// waits for them, and the loop lowers its flag without regard to them. The copy shares all messages.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        let mut copy = self.clone();
        copy.state.session.history = copy.state.session.history.with_stop_flag(StopFlag::default());
        copy
    }

    /// Returns whether the loop is idle.
    pub fn is_idle(&self) -> bool {
        self.state.is_idle()
    }

    /// Returns the wait for the model's server, if there is one now.
    pub fn waiting(&self) -> Option<&ServerWait> {
        self.state.waiting()
    }

    /// Returns the loop's state.
    pub fn status(&self) -> RunStatus {
        match &self.state.phase {
            RunPhase::Idle if self.state.session.history.parked().is_some() => RunStatus::Parked,
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
        matches!(self.state.phase, RunPhase::Calling { .. })
    }

    /// Returns the room of a model call.
    pub fn budget(&self) -> Budget {
        self.state.session.budget()
    }

    /// Returns the window that a refusal named, in this session or an earlier one, unless a call has disproved it.
    pub fn learned_window(&self) -> Option<u64> {
        self.state.session.learned_window()
    }

    /// Returns the meter's reading for the next request.
    pub fn meter(&self) -> MeterReading {
        self.state.session.meter()
    }

    /// Returns the policy's present threshold.
    pub fn threshold(&self) -> TriggerThreshold {
        self.state.session.threshold()
    }

    /// Returns the events that pin an order for a user; none if an active order says the same and replaces nothing.
    ///
    /// # Errors
    /// [`StandingOrderError`] if the text or the replaced order is not valid, or if the orders take too much of the
    /// window.
    pub fn pin_order(
        &self,
        text: &str,
        replaces: Option<OrderId>,
    ) -> Result<Vec<EventBody>, StandingOrderError> {
        orders::pin_order(&self.state.session, text, replaces)
    }

    /// Returns the events that change an order's text; none if the text is the same.
    ///
    /// # Errors
    /// [`StandingOrderError`] if the order or its text is not valid, or if the orders take too much of the window.
    pub fn edit_order(&self, order_id: &OrderId, text: &str) -> Result<Vec<EventBody>, StandingOrderError> {
        orders::edit_order(&self.state.session, order_id, text)
    }

    /// Returns the event that removes an order.
    ///
    /// # Errors
    /// [`StandingOrderError::NotFound`] or [`StandingOrderError::NotActive`] if there is no such active order.
    pub fn remove_order(&self, order_id: &OrderId) -> Result<Vec<EventBody>, StandingOrderError> {
        orders::remove_order(&self.state.session, order_id)
    }

    /// Returns the plan of a compaction on request, without acting on it.
    pub fn preview(&self, instructions: Option<String>) -> Plan {
        self.compactor.plan(&self.state, &PlanTrigger::Requested { instructions })
    }

    /// Takes an input and returns the effects to perform.
    pub fn handle(&mut self, input: RunLoopInput) -> Vec<RunEffect> {
        let mut effects = Vec::new();
        self.dispatch(input, &mut effects);
        effects
    }

    fn dispatch(&mut self, input: RunLoopInput, out: &mut Vec<RunEffect>) {
        match input {
            RunLoopInput::Wake => self.state.wake(out),
            RunLoopInput::Resume => {
                // A run that goes on needs no resume, and the wish must not outlive that run.
                self.state.resuming = self.state.is_idle();
                self.state.wake(out);
            }
            RunLoopInput::QueueRead(queued) => self.queue_read(&queued, out),
            RunLoopInput::Appended { id, events } => self.appended(id, &events, out),
            RunLoopInput::QueueChanged { id } => {
                // A waiting message was edited or removed between reading and storing, so the whole queue is read
                // again.
                self.state.pending.remove(&id);
                if !self.state.stop_at_boundary(out) {
                    self.state.read_queue(out);
                }
            }
            RunLoopInput::Counted(tokens) => self.counted(tokens, out),
            RunLoopInput::ModelBegan => server_wait::model_began(&mut self.state, out),
            RunLoopInput::ModelAnswered(answer) => calling::handle_answer(&mut self.state, answer, out),
            RunLoopInput::ModelFailed { failure, partial } => {
                calling::handle_failure(&mut self.state, failure, partial, out)
            }
            RunLoopInput::ModelStopped { partial, usage } => {
                // The call may have ended by itself before the stop reached it.
                if let RunPhase::Calling { .. } = self.state.phase {
                    calling::stopped(&mut self.state, partial, usage, out);
                }
            }
            RunLoopInput::ModelPaused { partial, usage } => {
                pausing::paused(&mut self.state, partial, usage, out)
            }
            RunLoopInput::ModelRepeated { repetition, partial, usage } => {
                repeating::repeated(&mut self.state, repetition, partial, usage, out)
            }
            RunLoopInput::Summarised { task, answer } => {
                self.compactor.summarised(&mut self.state, task, answer, out)
            }
            RunLoopInput::PreCompactAnswered { task, answer } => {
                self.compactor.hook_answered(&mut self.state, task, answer, out)
            }
            RunLoopInput::ToolEnded(result) => tools::tool_ended(&mut self.state, result, out),
            RunLoopInput::PinEnded { result, request } => {
                orders::pin_ended(&mut self.state, result, &request, out)
            }
            RunLoopInput::Decided { approval_id, allowed, reason } => {
                tools::handle_approval_decision(&mut self.state, &approval_id, allowed, reason, out);
            }
            RunLoopInput::TimerFired(timer) => self.timer_fired(timer, out),
            RunLoopInput::RetryNow => server_wait::retry_now(&mut self.state, out),
            RunLoopInput::Cancel => self.interrupt(RunStopCause::Cancelled, out),
            RunLoopInput::Compact { instructions } => {
                self.compactor.compact(&mut self.state, PlanTrigger::Requested { instructions }, out)
            }
            // Such facts may change the view, which an open step relies on.
            RunLoopInput::Record(events) => {
                if self.state.is_idle() {
                    self.state.append(events, AppendContinuation::Recorded, out);
                }
            }
            RunLoopInput::RecordOrders(events) => orders::record_orders(&mut self.state, events, out),
            RunLoopInput::RecordSoon(events) => {
                self.state.soon.extend(events);
                self.state.record_if_idle(out);
                server_wait::leave_wait(&mut self.state, out);
            }
            RunLoopInput::Recover { partial } => recover::recover(&mut self.state, partial, out),
        }
    }

    fn appended(&mut self, id: AppendId, events: &[crate::event::Event], out: &mut Vec<RunEffect>) {
        for event in events {
            // The store numbers events without gaps, and this is its only writer.
            let folded = self.state.session.history.apply(event);
            self.state.now = event.at;
            debug_assert_eq!(folded, Ok(()));
        }
        match self.state.pending.remove(&id) {
            Some(then) => self.continue_after_append(then, out),
            None => debug_assert!(false, "an append that nobody asked for"),
        }
    }

    fn continue_after_append(&mut self, then: AppendContinuation, out: &mut Vec<RunEffect>) {
        match then {
            AppendContinuation::Begun => {
                self.state.start_run_timer(out);
                self.compactor.prepare(&mut self.state, out);
            }
            AppendContinuation::Boundary => self.state.reach_step_boundary(out),
            AppendContinuation::Prepare => self.compactor.prepare(&mut self.state, out),
            AppendContinuation::StartStep => self.state.start_step(out),
            AppendContinuation::Counted(next) => self.after_count(next, out),
            AppendContinuation::CallModel { step } => calling::call_model(&mut self.state, step, out),
            AppendContinuation::AfterAnswer { finish } => self.after_answer(finish, out),
            AppendContinuation::AfterOverflow => self.after_overflow(out),
            AppendContinuation::Wait(wait) => server_wait::begin_wait(&mut self.state, None, wait, out),
            AppendContinuation::RunTool(call) => tools::run_tool(&mut self.state, &call, out),
            AppendContinuation::AskApproval(call) => tools::ask_approval(&mut self.state, &call, out),
            AppendContinuation::ToolStored(call) => tools::tool_stored(&mut self.state, &call, out),
            AppendContinuation::Decided(call) => tools::decision_stored(&mut self.state, &call, out),
            AppendContinuation::ActOn { plan, trigger } => {
                if !self.state.stop_at_boundary(out) {
                    self.compactor.act_on(&mut self.state, *plan, trigger, out);
                }
            }
            AppendContinuation::Compact(trigger) => {
                self.compactor.plan_and_act(&mut self.state, trigger, out);
            }
            AppendContinuation::Finish { end, error } => self.state.finish(end, error, out),
            AppendContinuation::Ended(end) => self.state.ended(end, out),
            AppendContinuation::Compacted(edit) => {
                self.state.step = StepGuards::default();
                out.push(RunEffect::CompactionDone(CompactionOutcome::Committed(edit)));
                self.state.idle(out);
            }
            AppendContinuation::Recovered => recover::after_recovery(&mut self.state, out),
            AppendContinuation::Recorded if self.state.is_at_rest() => self.state.wake_if_asked(out),
            // Another append is on its way, and its continuation wakes the loop.
            AppendContinuation::Recorded => {}
            AppendContinuation::OrdersStored => self.orders_stored(out),
        }
    }

    /// Continues after an answer is stored: with the tools, with the next step, or with the end of the run.
    fn after_answer(&mut self, finish: ModelStopReason, out: &mut Vec<RunEffect>) {
        self.state.step = StepGuards::default();
        if self.state.stop.is_none() {
            self.compactor.background.look_ahead(&mut self.state, out);
        }
        if !self.state.session.history.open_calls().is_empty() {
            // Calls that came whole run even if a limit ended the answer.
            return tools::start_tools(&mut self.state, finish, out);
        }
        if finish == ModelStopReason::Length && self.state.stop.is_none() && !self.state.session.is_time_up()
        {
            let error = pausing::pauses_are_spent(&self.state.session);
            return self.state.finish(RunEnd::Length, error, out);
        }
        if finish == ModelStopReason::ContentFilter && self.state.stop.is_none() {
            let message = "the model refused, or its provider withheld the rest of the answer";
            return self.state.fail(ErrorCode::Refused, message, out);
        }
        self.state.reach_step_boundary(out);
    }

    /// Asks for a shorter answer after a refusal for length, or plans a smaller request.
    fn after_overflow(&mut self, out: &mut Vec<RunEffect>) {
        if self.state.stop_at_boundary(out) {
            return;
        }
        if calling::may_lower_output(&self.state) {
            self.state.step.has_lowered_output = true;
            return self.state.start_step(out);
        }
        let plan = self.compactor.plan(&self.state, &PlanTrigger::Overflow);
        self.compactor.act_on(&mut self.state, plan, PlanTrigger::Overflow, out);
    }

    /// Handles a timer that has run down.
    fn timer_fired(&mut self, timer: RunTimer, out: &mut Vec<RunEffect>) {
        match timer {
            RunTimer::Retry => server_wait::try_again(&mut self.state, out),
            RunTimer::Patience => server_wait::patience_ended(&mut self.state, out),
            RunTimer::Run | RunTimer::RecoveryStep => self.interrupt(RunStopCause::Timeout, out),
            RunTimer::Summary => self.compactor.summary_is_late(&mut self.state, out),
            RunTimer::Hook => self.compactor.hook_is_late(&mut self.state, false, out),
            RunTimer::Ahead if self.compactor.background.is_asking() => {
                self.compactor.hook_is_late(&mut self.state, true, out);
            }
            RunTimer::Ahead => self.compactor.background.void_unfinished(&mut self.state, out),
        }
    }

    /// Stops the present work because of a cancel or a time-out.
    fn interrupt(&mut self, stop: RunStopCause, out: &mut Vec<RunEffect>) {
        let compacting = matches!(self.state.phase, RunPhase::Summarising { .. } | RunPhase::Asking { .. });
        // A cancel may arrive before the start of the run is durable, while no run is open yet.
        let beginning = matches!(self.state.phase, RunPhase::ReadingQueue | RunPhase::Storing)
            && stop == RunStopCause::Cancelled;
        if self.state.session.history.open_run().is_none() && !compacting && !beginning {
            return;
        }
        if stop == RunStopCause::Cancelled {
            // Messages that wait now stay in the queue. A message that comes later starts the next run.
            self.state.woken = false;
        }
        // A time-out must not turn a cancel into a recovery step.
        if self.state.stop == Some(RunStopCause::Cancelled) {
            return;
        }
        let repeated = self.state.stop.replace(stop).is_some();
        match &self.state.phase {
            RunPhase::Calling { .. } | RunPhase::Summarising { .. } | RunPhase::Counting(_) if !repeated => {
                out.push(RunEffect::StopModel)
            }
            RunPhase::Waiting { .. } => server_wait::stop_waiting(&mut self.state, out),
            RunPhase::Asking { .. } => {
                out.push(RunEffect::StopTimer { timer: RunTimer::Hook });
                self.state.phase = RunPhase::Storing;
                self.state.boundary_or_idle(out);
            }
            RunPhase::Tools(_) => tools::stop_tools(&mut self.state, out),
            _ => {}
        }
    }

    /// Handles the server's count; `None` if the server gave none.
    fn counted(&mut self, tokens: Option<u64>, out: &mut Vec<RunEffect>) {
        let RunPhase::Counting(next) = self.state.phase else { return };
        self.state.phase = RunPhase::Storing;
        match tokens.filter(|_| self.state.stop.is_none()) {
            Some(tokens) => {
                let fixed_tokens = self.state.session.settings.fixed.tokens_of(&self.state.session.history);
                let counted = EventBody::InputCounted { tokens, fixed_tokens };
                self.state.append(vec![counted], AppendContinuation::Counted(next), out);
            }
            None => self.after_count(next, out),
        }
    }

    /// Continues with the work that waited for the count.
    fn after_count(&mut self, next: CountContinuation, out: &mut Vec<RunEffect>) {
        match next {
            CountContinuation::Plan => self.compactor.prepare(&mut self.state, out),
            CountContinuation::Call => self.state.start_step(out),
        }
    }

    /// Continues after changes of orders are durable.
    fn orders_stored(&mut self, out: &mut Vec<RunEffect>) {
        if self.state.is_at_rest() {
            self.state.wake_if_asked(out);
        } else if self.state.stop.is_some() {
            // A stop waits until no append is in flight.
            tools::stop_when_quiet(&mut self.state, out);
        }
    }

    /// Begins, continues or ends a run with the messages that wait.
    fn queue_read(&mut self, queued: &[QueuedMessage], out: &mut Vec<RunEffect>) {
        if self.state.phase != RunPhase::ReadingQueue {
            return;
        }
        if self.state.stop_at_boundary(out) {
            return;
        }
        let waiting = !queued.is_empty();
        let unanswered = self.state.session.owes_answer();
        match self.state.session.history.open_run().map(|run| run.steps) {
            None if waiting || (self.state.resuming && unanswered) => self.state.begin(queued, out),
            None => self.state.rest(out),
            // A waiting message does not extend a run at its limit. It gets a run of its own.
            Some(steps) if steps >= self.state.session.settings.max_steps && (waiting || unanswered) => {
                self.state.finish(RunEnd::MaxSteps, None, out);
            }
            Some(_) if waiting => self.state.take(queued, Vec::new(), AppendContinuation::Prepare, out),
            Some(_) if unanswered => self.compactor.prepare(&mut self.state, out),
            Some(_) => self.state.finish(RunEnd::Stop, None, out),
        }
    }
}

#[cfg(test)]
mod tests;
