//! The tools of a step: their order, and the record of each call before and after it runs.

use super::{AppendContinuation, Run, RunEffect, RunEnd, RunPhase, RunStopCause, RunTimer};
use crate::event::{EventBody, NoteReason};
use crate::history::closing_result;
use crate::ids::{ApprovalId, CallId};
use crate::message::{Message, Part, ToolCall, ToolResult, ToolStatus};
use crate::plan;
use crate::run::{ToolApproval, ToolRule};
use crate::truncate::TextLimit;

/// The most times that a call may give the same result among the newest ten calls.
const REPEATS_ALLOWED: usize = 3;

/// The default limit of a tool's output, in characters.
const MAX_OUTPUT_CHARS: u64 = 120_000;

/// The factor by which a new text may exceed its estimate: the expected p99 error of the structured estimator.
const NEW_TEXT_ERROR: f64 = 1.1;

/// The calls of one step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StepToolCalls {
    calls: Vec<ToolCallState>,
}

#[derive(Clone, Debug, PartialEq)]
struct ToolCallState {
    call: ToolCall,
    at: ToolCallPhase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolCallPhase {
    Waiting,
    Asking,
    Starting,
    Running,
    Storing,
    Done,
}

impl StepToolCalls {
    pub(super) fn is_asking(&self) -> bool {
        self.calls.iter().any(|state| state.at == ToolCallPhase::Asking)
            // A session whose tools still run is not waiting for a person.
            && !self.calls.iter().any(|state| state.at == ToolCallPhase::Running)
    }

    fn state_mut(&mut self, id: &CallId) -> Option<&mut ToolCallState> {
        self.calls.iter_mut().find(|state| state.call.call_id == *id)
    }

    fn is_done(&self) -> bool {
        self.calls.iter().all(|state| state.at == ToolCallPhase::Done)
    }

    fn is_quiet(&self) -> bool {
        !self.calls.iter().any(|state| {
            matches!(state.at, ToolCallPhase::Starting | ToolCallPhase::Running | ToolCallPhase::Storing)
        })
    }
}

impl Run {
    /// Starts the tools that the newest answer calls.
    pub(super) fn start_tools(&mut self, out: &mut Vec<RunEffect>) {
        let calls: Vec<ToolCallState> = self
            .history
            .open_calls()
            .iter()
            .map(|open| ToolCallState { call: open.call.clone(), at: ToolCallPhase::Waiting })
            .collect();
        self.phase = RunPhase::Tools(StepToolCalls { calls });
        self.advance_tools(out);
    }

    /// Returns the most tokens that the result of a call that starts now may add to the view.
    ///
    /// The room beside the smallest possible request is divided over the calls of the step that have no result yet.
    /// Older messages make way before the next request, so their size is not subtracted. Earlier results of the step
    /// are.
    fn room_per_call(&self, open_calls: u64) -> u64 {
        let usable = self.budget().usable;
        // A result that is cut to its room brings `recall` with it.
        let fixed_tokens = self.settings.fixed.tokens;
        let room = usable.saturating_sub(plan::least_bound(&self.history, fixed_tokens));
        // The estimate of new text may be too low by its expected error, and by the model's dearest kind of script.
        let dearest = self.history.calibration().ratios().largest().max(1.0);
        let room = (room as f64 / (dearest * NEW_TEXT_ERROR)) as u64;
        (room / open_calls.max(1)).max(64)
    }

    /// Returns the facts about a tool.
    fn rule(&self, tool: &str) -> ToolRule {
        // An unknown tool is run too, because only its result tells the model that the tool does not exist.
        self.settings.tools.get(tool).cloned().unwrap_or(ToolRule {
            read_only: true,
            poll: false,
            approval: ToolApproval::Allow,
            max_output_chars: MAX_OUTPUT_CHARS,
        })
    }

    /// Starts every call that may start now.
    pub(super) fn advance_tools(&mut self, out: &mut Vec<RunEffect>) {
        if self.stop.is_some() {
            return self.stop_when_quiet(out);
        }
        let RunPhase::Tools(tools) = &self.phase else { return };
        if tools.is_done() {
            return self.after_tools(out);
        }
        let ready: Vec<ToolCall> = (0..tools.calls.len())
            .filter(|at| tools.calls[*at].at == ToolCallPhase::Waiting && self.may_start(&tools.calls, *at))
            .map(|at| tools.calls[at].call.clone())
            .collect();
        for call in ready {
            self.start_call(call, out);
        }
    }

    /// Returns whether a call may start. Read-only calls wait for earlier calls that change something. Other calls wait
    /// for every earlier call.
    fn may_start(&self, calls: &[ToolCallState], at: usize) -> bool {
        let is_read_only = |state: &ToolCallState| self.rule(&state.call.name).read_only;
        let mut earlier = calls[..at].iter().filter(|state| state.at != ToolCallPhase::Done);
        match self.settings.parallel_tools {
            Some(true) => true,
            Some(false) => earlier.next().is_none(),
            None if is_read_only(&calls[at]) => earlier.all(is_read_only),
            None => earlier.next().is_none(),
        }
    }

    /// Starts a call, asks a person about it, or refuses it.
    fn start_call(&mut self, call: ToolCall, out: &mut Vec<RunEffect>) {
        // A stored decision holds after a crash too, and the person is not asked again.
        let answer = self.history.open_calls().iter().find(|open| open.call.call_id == call.call_id);
        let approval = match answer.and_then(|open| open.allowed.clone()) {
            Some((true, _)) => ToolApproval::Allow,
            Some((false, reason)) => {
                ToolApproval::Deny(reason.unwrap_or_else(|| "a person said no".to_owned()))
            }
            None => self.rule(&call.name).approval,
        };
        let approval = match approval {
            ToolApproval::Matching(matching) => matching.decide(&call.arguments),
            approval => approval,
        };
        let id = call.call_id;
        match approval {
            ToolApproval::Allow => {
                self.mark(&id, ToolCallPhase::Starting);
                self.append(
                    vec![EventBody::ToolStarted { call_id: id.clone() }],
                    AppendContinuation::RunTool(id),
                    out,
                );
            }
            ToolApproval::Ask | ToolApproval::Matching(_) => {
                self.mark(&id, ToolCallPhase::Asking);
                let approval_id = approval_id(&id);
                let asked = EventBody::ApprovalRequested { approval_id, call_id: id.clone() };
                self.append(vec![asked], AppendContinuation::AskApproval(id), out);
            }
            ToolApproval::Deny(reason) => {
                let text = format!("[Not run: {reason}]");
                self.store_result(closing_result(&id, ToolStatus::Cancelled, &text), out);
            }
        }
    }

    /// Sets the phase of a call.
    fn mark(&mut self, id: &CallId, at: ToolCallPhase) {
        if let RunPhase::Tools(tools) = &mut self.phase
            && let Some(state) = tools.state_mut(id)
        {
            state.at = at;
        }
    }

    /// Runs a tool whose start is durable, so that a crash cannot hide a side effect.
    pub(super) fn run_tool(&mut self, id: &CallId, out: &mut Vec<RunEffect>) {
        if self.stop.is_some() {
            let text = "[Cancelled before it ran.]";
            return self.store_result(closing_result(id, ToolStatus::Cancelled, text), out);
        }
        let RunPhase::Tools(tools) = &self.phase else { return };
        let open_calls = tools.calls.iter().filter(|state| state.at != ToolCallPhase::Done).count() as u64;
        let max_tokens = self.room_per_call(open_calls);
        let RunPhase::Tools(tools) = &mut self.phase else { return };
        let Some(state) = tools.state_mut(id) else { return };
        state.at = ToolCallPhase::Running;
        let call = state.call.clone();
        let max_chars = self.rule(&call.name).max_output_chars;
        out.push(RunEffect::RunTool { call, limit: TextLimit { max_chars, max_tokens } });
    }

    /// Asks a person about a call.
    pub(super) fn ask(&mut self, id: &CallId, out: &mut Vec<RunEffect>) {
        if self.stop.is_some() {
            return self.stop_when_quiet(out);
        }
        if self.settings.timeout_ms.is_some() {
            // The time that a person takes is not part of the run's time.
            out.push(RunEffect::StopTimer { timer: RunTimer::Run });
        }
        let RunPhase::Tools(tools) = &mut self.phase else { return };
        let Some(state) = tools.state_mut(id) else { return };
        out.push(RunEffect::AskApproval { approval_id: approval_id(id), call: state.call.clone() });
    }

    /// Stores a person's decision about a call. Decisions about closed or decided calls are ignored.
    pub(super) fn handle_approval_decision(
        &mut self,
        approval_id: &ApprovalId,
        allowed: bool,
        reason: Option<String>,
        out: &mut Vec<RunEffect>,
    ) {
        let open = self.history.open_calls().iter().find(|open| open.approval.as_ref() == Some(approval_id));
        let Some(call_id) = open.map(|open| open.call.call_id.clone()) else { return };
        let RunPhase::Tools(tools) = &mut self.phase else { return };
        let Some(state) = tools.state_mut(&call_id).filter(|state| state.at == ToolCallPhase::Asking) else {
            return;
        };
        // Nothing may start the call or ask again until the decision is durable.
        state.at = ToolCallPhase::Storing;
        let approval_id = approval_id.clone();
        let resolved = EventBody::ApprovalResolved { approval_id, call_id: call_id.clone(), allowed, reason };
        self.append(vec![resolved], AppendContinuation::Decided(call_id), out);
    }

    /// Continues with a call after its decision is stored.
    pub(super) fn decision_stored(&mut self, id: &CallId, out: &mut Vec<RunEffect>) {
        self.mark(id, ToolCallPhase::Waiting);
        // The run's time goes on only once no other question is open.
        if self.history.open_run().is_some_and(|run| run.waiting_since.is_none()) {
            self.start_run_timer(out);
        }
        self.advance_tools(out);
    }

    /// Handles the end of a tool.
    pub(super) fn tool_ended(&mut self, result: ToolResult, out: &mut Vec<RunEffect>) {
        self.tool_ended_with(Vec::new(), result, out);
    }

    /// Handles the end of a tool. `events` are stored in one append with the result, or not at all.
    pub(super) fn tool_ended_with(
        &mut self,
        events: Vec<EventBody>,
        result: ToolResult,
        out: &mut Vec<RunEffect>,
    ) {
        let RunPhase::Tools(tools) = &mut self.phase else { return };
        let running =
            tools.state_mut(&result.call_id).is_some_and(|state| state.at == ToolCallPhase::Running);
        if running {
            self.store_result_with(events, result, out);
        }
    }

    /// Stores the result of a call.
    fn store_result(&mut self, result: ToolResult, out: &mut Vec<RunEffect>) {
        self.store_result_with(Vec::new(), result, out);
    }

    fn store_result_with(
        &mut self,
        mut events: Vec<EventBody>,
        result: ToolResult,
        out: &mut Vec<RunEffect>,
    ) {
        let id = result.call_id.clone();
        self.mark(&id, ToolCallPhase::Storing);
        events.push(EventBody::ToolFinished { result });
        self.append(events, AppendContinuation::ToolStored(id), out);
    }

    /// Continues after a result is stored.
    pub(super) fn tool_stored(&mut self, id: &CallId, out: &mut Vec<RunEffect>) {
        self.mark(id, ToolCallPhase::Done);
        self.advance_tools(out);
    }

    /// Continues after all results are stored, and warns the model of a loop.
    fn after_tools(&mut self, out: &mut Vec<RunEffect>) {
        self.phase = RunPhase::Storing;
        if !self.is_looping() {
            return self.reach_step_boundary(out);
        }
        // The model repeats itself in spite of a warning.
        if self.history.open_run().is_some_and(|run| run.warned_of_loop) {
            return self.finish(RunEnd::LoopDetected, None, out);
        }
        let text = "[The same tool call has given the same result several times. Repeating it will not help: \
                    try something else, or say what stands in the way.]";
        let message = Message::user(format!("m{}", self.next_seq()), vec![Part::text(text)]);
        self.append(
            vec![EventBody::NoteAdded { message, why: NoteReason::Loop }],
            AppendContinuation::Boundary,
            out,
        );
    }

    /// Returns whether a call has given the same result too often. Calls of polling tools do not count.
    fn is_looping(&self) -> bool {
        let recent: Vec<_> = self.history.recent_calls().filter(|call| !self.rule(&call.tool).poll).collect();
        recent.iter().any(|call| {
            recent.iter().filter(|other| other.signature == call.signature).count() > REPEATS_ALLOWED
        })
    }

    /// Stops running tools and starts no others.
    pub(super) fn stop_tools(&mut self, out: &mut Vec<RunEffect>) {
        let RunPhase::Tools(tools) = &self.phase else { return };
        if tools.calls.iter().any(|state| state.at == ToolCallPhase::Running) {
            out.push(RunEffect::StopTools);
        }
        self.stop_when_quiet(out);
    }

    /// Ends the run or begins the recovery step, once no tool runs and no append is in flight.
    pub(super) fn stop_when_quiet(&mut self, out: &mut Vec<RunEffect>) {
        let RunPhase::Tools(tools) = &self.phase else { return };
        if !tools.is_quiet() || !self.pending.is_empty() {
            return;
        }
        match self.stop {
            Some(RunStopCause::Timeout) => self.begin_recovery_step(out),
            _ => self.finish(RunEnd::Cancelled, None, out),
        }
    }
}

/// Returns the name of the question about a call.
fn approval_id(call: &CallId) -> ApprovalId {
    ApprovalId::new(format!("a-{call}"))
}
