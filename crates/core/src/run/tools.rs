//! The tools of a step: what may run when, and the record of each before and after.

use super::{AppendContinuation, Run, RunEffect, RunEnd, RunPhase, RunStopCause, RunTimer};
use crate::event::{EventBody, NoteReason};
use crate::history::closing_result;
use crate::ids::{ApprovalId, CallId};
use crate::message::{Message, Part, ToolCall, ToolResult, ToolStatus};
use crate::plan;
use crate::run::{ToolApproval, ToolRule};
use crate::truncate::TextLimit;

/// How often the same call may give the same result among the newest ten.
const REPEATS_ALLOWED: usize = 3;

/// Default limit of a tool's output, in characters.
const MAX_OUTPUT_CHARS: u64 = 120_000;

/// How much larger a new text may be than its estimate: the expected p99 error of the structured estimator.
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

    /// Returns what the result of a call that starts now may add to the view, in tokens: the room beside what no plan
    /// can leave out, divided over the calls of the step that have no result yet. Older messages make way for it before
    /// the next request, so what they take is not subtracted. What earlier results of the step took is.
    fn room_per_call(&self, open_calls: u64) -> u64 {
        let usable = self.budget().usable;
        // A result that is cut to its room brings `recall` with it.
        let fixed_tokens = self.settings.fixed.tokens;
        let room = usable.saturating_sub(plan::least_bound(&self.history, fixed_tokens));
        // The estimate of new text may be low by its expected error, and by what the model's vocabulary spends more.
        let dearest = self.history.calibration().ratios().largest().max(1.0);
        let room = (room as f64 / (dearest * NEW_TEXT_ERROR)) as u64;
        (room / open_calls.max(1)).max(64)
    }

    fn rule(&self, tool: &str) -> ToolRule {
        // A tool nobody knows is "run" too: its result says so to the model.
        self.settings.tools.get(tool).cloned().unwrap_or(ToolRule {
            read_only: true,
            poll: false,
            approval: ToolApproval::Allow,
            max_output_chars: MAX_OUTPUT_CHARS,
        })
    }

    /// Starts every call whose turn has come.
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

    /// Read-only calls wait for earlier calls that change something; those wait for every earlier call.
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

    fn start_call(&mut self, call: ToolCall, out: &mut Vec<RunEffect>) {
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

    fn mark(&mut self, id: &CallId, at: ToolCallPhase) {
        if let RunPhase::Tools(tools) = &mut self.phase
            && let Some(state) = tools.state_mut(id)
        {
            state.at = at;
        }
    }

    /// The start is durable: now the side effect may happen.
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

    pub(super) fn ask(&mut self, id: &CallId, out: &mut Vec<RunEffect>) {
        if self.stop.is_some() {
            return self.stop_when_quiet(out);
        }
        if self.settings.timeout_ms.is_some() {
            // A person's time is not the run's.
            out.push(RunEffect::StopTimer { timer: RunTimer::Run });
        }
        let RunPhase::Tools(tools) = &mut self.phase else { return };
        let Some(state) = tools.state_mut(id) else { return };
        out.push(RunEffect::AskApproval { approval_id: approval_id(id), call: state.call.clone() });
    }

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
        // Until the answer is durable nothing may start the call, or ask again.
        state.at = ToolCallPhase::Storing;
        let approval_id = approval_id.clone();
        let resolved = EventBody::ApprovalResolved { approval_id, call_id: call_id.clone(), allowed, reason };
        self.append(vec![resolved], AppendContinuation::Decided(call_id), out);
    }

    pub(super) fn decision_stored(&mut self, id: &CallId, out: &mut Vec<RunEffect>) {
        self.mark(id, ToolCallPhase::Waiting);
        if self.history.open_run().is_some_and(|run| run.waiting_since.is_none()) {
            self.start_run_timer(out);
        }
        self.advance_tools(out);
    }

    pub(super) fn tool_ended(&mut self, result: ToolResult, out: &mut Vec<RunEffect>) {
        self.tool_ended_with(Vec::new(), result, out);
    }

    /// A tool has ended, and `events` are stored with its result or not at all.
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

    pub(super) fn tool_stored(&mut self, id: &CallId, out: &mut Vec<RunEffect>) {
        self.mark(id, ToolCallPhase::Done);
        self.advance_tools(out);
    }

    fn after_tools(&mut self, out: &mut Vec<RunEffect>) {
        self.phase = RunPhase::Storing;
        if !self.is_looping() {
            return self.reach_step_boundary(out);
        }
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

    fn is_looping(&self) -> bool {
        let recent: Vec<_> = self.history.recent_calls().filter(|call| !self.rule(&call.tool).poll).collect();
        recent.iter().any(|call| {
            recent.iter().filter(|other| other.signature == call.signature).count() > REPEATS_ALLOWED
        })
    }

    pub(super) fn stop_tools(&mut self, out: &mut Vec<RunEffect>) {
        let RunPhase::Tools(tools) = &self.phase else { return };
        if tools.calls.iter().any(|state| state.at == ToolCallPhase::Running) {
            out.push(RunEffect::StopTools);
        }
        self.stop_when_quiet(out);
    }

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

fn approval_id(call: &CallId) -> ApprovalId {
    ApprovalId::new(format!("a-{call}"))
}
