//! The tools of a step: the order of the calls, and the record of each call before and after the run.

use super::loop_state::{AppendContinuation, LoopState, RunPhase, RunStopCause};
use super::session::SessionState;
use super::{RunEffect, RunTimer, ToolApproval, ToolRule};
use crate::event::{EventBody, NoteReason, RunEnd};
use crate::history::closing_result;
use crate::ids::{ApprovalId, CallId};
use crate::message::{Message, ModelStopReason, Part, ToolCall, ToolResult, ToolStatus};
use crate::plan;
use crate::truncate::TextLimit;

/// The most times that a call may give the same result among the newest ten calls.
const REPEATS_ALLOWED: usize = 3;

/// The default limit of a tool's output, in characters.
const MAX_OUTPUT_CHARS: u64 = 120_000;

/// The result of a call in the middle of which the answer reached its output limit.
const CUT_CALL: &str = "[Not run: the answer reached its output limit in the middle of this call. Make the call again with \
                        less in it, for example write a long file in several parts.]";

/// The factor by which a new text may exceed its estimate: the expected p99 error of the structured estimator.
const NEW_TEXT_ERROR: f64 = 1.1;

/// The calls of one step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StepToolCalls {
    calls: Vec<ToolCallState>,
    /// The call in the middle of which the answer reached its output limit.
    cut: Option<CallId>,
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

    fn is_running(&self, id: &CallId) -> bool {
        let found = self.calls.iter().find(|state| state.call.call_id == *id);
        found.is_some_and(|state| state.at == ToolCallPhase::Running)
    }

    /// Returns the number of calls whose result is not stored yet.
    fn open_calls(&self) -> u64 {
        self.calls.iter().filter(|state| state.at != ToolCallPhase::Done).count() as u64
    }

    /// Returns the calls that may start now, in call order.
    fn ready_calls(&self, session: &SessionState) -> Vec<ToolCall> {
        (0..self.calls.len())
            .filter(|at| self.calls[*at].at == ToolCallPhase::Waiting && self.may_start(session, *at))
            .map(|at| self.calls[at].call.clone())
            .collect()
    }

    /// Returns whether a call may start. Read-only calls wait for earlier calls that change something. Other calls wait
    /// for every earlier call.
    fn may_start(&self, session: &SessionState, at: usize) -> bool {
        let is_read_only = |state: &ToolCallState| rule(session, &state.call.name).read_only;
        let mut earlier = self.calls[..at].iter().filter(|state| state.at != ToolCallPhase::Done);
        match session.settings.parallel_tools {
            Some(true) => true,
            Some(false) => earlier.next().is_none(),
            None if is_read_only(&self.calls[at]) => earlier.all(is_read_only),
            None => earlier.next().is_none(),
        }
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

/// Starts the tools that the newest answer calls. `finish` is the reason for the end of the answer.
pub(super) fn start_tools(state: &mut LoopState, finish: ModelStopReason, out: &mut Vec<RunEffect>) {
    // The calls come from the history and not from the answer, because after a crash there is only the history.
    let calls: Vec<ToolCallState> = state
        .session
        .history
        .open_calls()
        .iter()
        .map(|open| ToolCallState { call: open.call.clone(), at: ToolCallPhase::Waiting })
        .collect();
    // Only the last call can be the one in which the answer reached its limit.
    let at_limit = calls.last().filter(|_| finish == ModelStopReason::Length);
    let cut = at_limit.filter(|last| !crate::history::is_object(&last.call.arguments));
    let cut = cut.map(|last| last.call.call_id.clone());
    state.phase = RunPhase::Tools(StepToolCalls { calls, cut });
    advance_tools(state, out);
}

/// Starts every call that may start now.
fn advance_tools(state: &mut LoopState, out: &mut Vec<RunEffect>) {
    if state.stop.is_some() {
        return stop_when_quiet(state, out);
    }
    let RunPhase::Tools(tools) = &state.phase else { return };
    if tools.is_done() {
        return after_tools(state, out);
    }
    for call in tools.ready_calls(&state.session) {
        start_call(state, call, out);
    }
}

/// Starts or refuses a call, or asks a person for permission.
fn start_call(state: &mut LoopState, call: ToolCall, out: &mut Vec<RunEffect>) {
    if let RunPhase::Tools(tools) = &state.phase
        && tools.cut.as_ref() == Some(&call.call_id)
    {
        // Without a result the model would not know that it called, and would make the same call again.
        let result = closing_result(&call.call_id, ToolStatus::Error, CUT_CALL);
        return store_result(state, result, out);
    }
    // A stored decision holds after a crash too, and the person is not asked again.
    let answer = state.session.history.open_calls().iter().find(|open| open.call.call_id == call.call_id);
    let approval = match answer.and_then(|open| open.allowed.clone()) {
        Some((true, _)) => ToolApproval::Allow,
        Some((false, reason)) => ToolApproval::Deny(reason.unwrap_or_else(|| "a person said no".to_owned())),
        None => rule(&state.session, &call.name).approval,
    };
    let approval = match approval {
        ToolApproval::Matching(matching) => matching.decide(&call.arguments),
        approval => approval,
    };
    let id = call.call_id;
    match approval {
        ToolApproval::Allow => {
            mark(state, &id, ToolCallPhase::Starting);
            state.append(
                vec![EventBody::ToolStarted { call_id: id.clone() }],
                AppendContinuation::RunTool(id),
                out,
            );
        }
        ToolApproval::Ask | ToolApproval::Matching(_) => {
            mark(state, &id, ToolCallPhase::Asking);
            let approval_id = approval_id(&id);
            let asked = EventBody::ApprovalRequested { approval_id, call_id: id.clone() };
            state.append(vec![asked], AppendContinuation::AskApproval(id), out);
        }
        ToolApproval::Deny(reason) => {
            let text = format!("[Not run: {reason}]");
            store_result(state, closing_result(&id, ToolStatus::Cancelled, &text), out);
        }
    }
}

/// Sets the phase of a call.
fn mark(state: &mut LoopState, id: &CallId, at: ToolCallPhase) {
    if let RunPhase::Tools(tools) = &mut state.phase
        && let Some(tracked) = tools.state_mut(id)
    {
        tracked.at = at;
    }
}

/// Runs a tool whose start is durable, so that a crash cannot hide a side effect.
pub(super) fn run_tool(state: &mut LoopState, id: &CallId, out: &mut Vec<RunEffect>) {
    if state.stop.is_some() {
        let text = "[Cancelled before it ran.]";
        return store_result(state, closing_result(id, ToolStatus::Cancelled, text), out);
    }
    let RunPhase::Tools(tools) = &state.phase else { return };
    let max_tokens = room_per_call(&state.session, tools.open_calls());
    let RunPhase::Tools(tools) = &mut state.phase else { return };
    let Some(tracked) = tools.state_mut(id) else { return };
    tracked.at = ToolCallPhase::Running;
    let call = tracked.call.clone();
    let max_chars = rule(&state.session, &call.name).max_output_chars;
    out.push(RunEffect::RunTool { call, limit: TextLimit { max_chars, max_tokens } });
}

/// Asks a person about a call.
pub(super) fn ask_approval(state: &mut LoopState, id: &CallId, out: &mut Vec<RunEffect>) {
    if state.stop.is_some() {
        return stop_when_quiet(state, out);
    }
    if state.session.settings.timeout_ms.is_some() {
        // The time that a person takes is not part of the run's time.
        out.push(RunEffect::StopTimer { timer: RunTimer::Run });
    }
    let RunPhase::Tools(tools) = &mut state.phase else { return };
    let Some(tracked) = tools.state_mut(id) else { return };
    out.push(RunEffect::AskApproval { approval_id: approval_id(id), call: tracked.call.clone() });
}

/// Stores a person's decision about a call. Decisions about closed or decided calls are ignored.
pub(super) fn handle_approval_decision(
    state: &mut LoopState,
    approval_id: &ApprovalId,
    allowed: bool,
    reason: Option<String>,
    out: &mut Vec<RunEffect>,
) {
    let open =
        state.session.history.open_calls().iter().find(|open| open.approval.as_ref() == Some(approval_id));
    let Some(call_id) = open.map(|open| open.call.call_id.clone()) else { return };
    let RunPhase::Tools(tools) = &mut state.phase else { return };
    let Some(tracked) = tools.state_mut(&call_id).filter(|state| state.at == ToolCallPhase::Asking) else {
        return;
    };
    // Nothing may start the call or ask again until the decision is durable.
    tracked.at = ToolCallPhase::Storing;
    let approval_id = approval_id.clone();
    let resolved = EventBody::ApprovalResolved { approval_id, call_id: call_id.clone(), allowed, reason };
    state.append(vec![resolved], AppendContinuation::Decided(call_id), out);
}

/// Continues with a call after the decision is stored.
pub(super) fn decision_stored(state: &mut LoopState, id: &CallId, out: &mut Vec<RunEffect>) {
    mark(state, id, ToolCallPhase::Waiting);
    // The run's time goes on only once no other question is open.
    if state.session.history.open_run().is_some_and(|run| run.waiting_since.is_none()) {
        state.start_run_timer(out);
    }
    advance_tools(state, out);
}

/// Handles the end of a tool.
pub(super) fn tool_ended(state: &mut LoopState, result: ToolResult, out: &mut Vec<RunEffect>) {
    tool_ended_with(state, Vec::new(), result, out);
}

/// Handles the end of a tool. `events` are stored in one append with the result, or not at all.
pub(super) fn tool_ended_with(
    state: &mut LoopState,
    events: Vec<EventBody>,
    result: ToolResult,
    out: &mut Vec<RunEffect>,
) {
    let RunPhase::Tools(tools) = &state.phase else { return };
    if tools.is_running(&result.call_id) {
        store_result_with(state, events, result, out);
    }
}

/// Stores the result of a call.
fn store_result(state: &mut LoopState, result: ToolResult, out: &mut Vec<RunEffect>) {
    store_result_with(state, Vec::new(), result, out);
}

fn store_result_with(
    state: &mut LoopState,
    mut events: Vec<EventBody>,
    result: ToolResult,
    out: &mut Vec<RunEffect>,
) {
    let id = result.call_id.clone();
    mark(state, &id, ToolCallPhase::Storing);
    events.push(EventBody::ToolFinished { result });
    state.append(events, AppendContinuation::ToolStored(id), out);
}

/// Continues after a result is stored.
pub(super) fn tool_stored(state: &mut LoopState, id: &CallId, out: &mut Vec<RunEffect>) {
    mark(state, id, ToolCallPhase::Done);
    advance_tools(state, out);
}

/// Continues after all results are stored, and warns the model of a loop.
fn after_tools(state: &mut LoopState, out: &mut Vec<RunEffect>) {
    state.phase = RunPhase::Storing;
    if !is_looping(&state.session) {
        return state.reach_step_boundary(out);
    }
    // The model repeats itself in spite of a warning.
    if state.session.history.open_run().is_some_and(|run| run.warned_of_loop) {
        return state.finish(RunEnd::LoopDetected, None, out);
    }
    let text = "[The same tool call has given the same result several times. Repeating it will not help: \
                try something else, or say what stands in the way.]";
    let message = Message::user(format!("m{}", state.session.next_seq()), vec![Part::text(text)]);
    state.append(
        vec![EventBody::NoteAdded { message, why: NoteReason::Loop }],
        AppendContinuation::Boundary,
        out,
    );
}

/// Stops running tools and starts no others.
pub(super) fn stop_tools(state: &mut LoopState, out: &mut Vec<RunEffect>) {
    let RunPhase::Tools(tools) = &state.phase else { return };
    if tools.calls.iter().any(|tracked| tracked.at == ToolCallPhase::Running) {
        out.push(RunEffect::StopTools);
    }
    stop_when_quiet(state, out);
}

/// Ends the run or begins the recovery step, once no tool runs and no append is in flight.
pub(super) fn stop_when_quiet(state: &mut LoopState, out: &mut Vec<RunEffect>) {
    let RunPhase::Tools(tools) = &state.phase else { return };
    if !tools.is_quiet() || !state.pending.is_empty() {
        return;
    }
    match state.stop {
        Some(RunStopCause::Timeout) => state.begin_recovery_step(out),
        _ => state.finish(RunEnd::Cancelled, None, out),
    }
}

/// Returns the most tokens that the result of a call that starts now may add to the view.
///
/// The room beside the smallest possible request is divided over the calls of the step that have no result yet.
/// Older messages make way before the next request, so their size is not subtracted. Earlier results of the step
/// are.
fn room_per_call(session: &SessionState, open_calls: u64) -> u64 {
    let usable = session.budget().usable;
    // A result that is cut to its room brings `recall` with it.
    let fixed_tokens = session.settings.fixed.tokens;
    let room = usable.saturating_sub(plan::least_bound(&session.history, fixed_tokens));
    // The estimate of new text may be too low by its expected error, and by the model's dearest kind of script.
    let dearest = session.history.calibration().ratios().largest().max(1.0);
    let room = (room as f64 / (dearest * NEW_TEXT_ERROR)) as u64;
    (room / open_calls.max(1)).max(64)
}

/// Returns the facts about a tool.
fn rule(session: &SessionState, tool: &str) -> ToolRule {
    // An unknown tool is run too, because only its result tells the model that the tool does not exist.
    session.settings.tools.get(tool).cloned().unwrap_or(ToolRule {
        read_only: true,
        poll: false,
        approval: ToolApproval::Allow,
        max_output_chars: MAX_OUTPUT_CHARS,
    })
}

/// Returns whether a call has given the same result too often. Calls of polling tools do not count.
fn is_looping(session: &SessionState) -> bool {
    let recent: Vec<_> =
        session.history.recent_calls().filter(|call| !rule(session, &call.tool).poll).collect();
    recent
        .iter()
        .any(|call| recent.iter().filter(|other| other.signature == call.signature).count() > REPEATS_ALLOWED)
}

/// Returns the name of the question about a call.
fn approval_id(call: &CallId) -> ApprovalId {
    ApprovalId::new(format!("a-{call}"))
}
