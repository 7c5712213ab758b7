//! The model call of a step: start, answer and failures.

use super::loop_state::{AppendContinuation, LoopState, RunPhase};
use super::session::SessionState;
use super::{ModelCallFailure, RunEffect, omitting, pausing, server_wait, unnamed_refusal};
use crate::attempt::MAX_LENGTH_RETRIES;
use crate::deferral::{CALL, SEARCH};
use crate::error::ErrorCode;
use crate::event::{ErrorInfo, EventBody, PartialAnswerReason, RunEnd, StepKind};
use crate::history::ViewItemKind;
use crate::ids::{CallId, StepId};
use crate::message::{Message, ModelAnswer, ModelStopReason, Part, Role, ToolCall};
use crate::refusal::{PartRefusal, RefusedPartKind};
use crate::usage::Usage;

/// The most tool calls of one answer. Providers allow some dozens, so an answer with more is broken.
const MAX_CALLS: usize = 256;

/// Calls the model for a step whose start is durable.
pub(super) fn call_model(state: &mut LoopState, step: StepId, out: &mut Vec<RunEffect>) {
    if state.stop.is_some() {
        // The cancel came while the start of the step was being stored.
        return stopped(state, Vec::new(), None, out);
    }
    let calling = state.session.history.open_run().and_then(|run| run.calling.as_ref());
    let Some(start) = calling else { return };
    let tools = start.purpose == StepKind::Main && state.session.settings.model.tools;
    let max_output_tokens = start.max_output_tokens;
    let pause_at_tokens =
        if start.purpose == StepKind::Main { pausing::pause_at(&state.session) } else { None };
    state.phase = RunPhase::Calling { step: step.clone(), began: false };
    out.push(RunEffect::CallModel { step, tools, max_output_tokens, pause_at_tokens });
}

/// Handles a complete answer: stores the answer, or treats an unusable one as a failure.
pub(super) fn handle_answer(state: &mut LoopState, answer: ModelAnswer, out: &mut Vec<RunEffect>) {
    let RunPhase::Calling { step, .. } = &state.phase else { return };
    let step = step.clone();
    let calls = answer.parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count();
    // Refused before anything is stored. The log must hold no call that never gets a result.
    if calls > MAX_CALLS {
        let message =
            format!("the model asked for {calls} tools in one answer; {MAX_CALLS} are the most that run");
        let failure = ModelCallFailure::new(ErrorCode::ThirdParty, message, false);
        return handle_failure(state, ModelCallFailure { usage: answer.usage, ..failure }, answer.parts, out);
    }
    let parts = pausing::without_repetition(&state.session, answer.parts);
    let parts = named_calls(&state.session, &step, parts);
    let is_at_limit = answer.finish == ModelStopReason::Length;
    if is_at_limit {
        // Behind a planned pause there is room for the whole call, so the model writes it again.
        let whole = without_cut_call(&parts);
        if pausing::ended_at_our_limit(&state.session, &whole) {
            return pausing::paused(state, whole, answer.usage, out);
        }
    }
    // An empty rest shows that the paused answer was complete.
    let is_whole = state.session.history.is_paused() && answer.finish != ModelStopReason::ContentFilter;
    if !says_something(&parts) && answer.finish != ModelStopReason::Length && !is_whole {
        let failure = match answer.finish {
            ModelStopReason::ContentFilter => filtered_answer_failure(),
            _ => ModelCallFailure::new(ErrorCode::ThirdParty, empty_answer(&parts), true),
        };
        let failure = ModelCallFailure { usage: answer.usage, ..failure };
        let is_silent = failure.retryable && !parts.iter().any(is_readable_reasoning);
        // A broken stream before says nothing about the model, which may have an answer.
        if is_silent && state.step.empty_answers > 0 && follows_tools(&state.session) {
            return end_without_words(state, &step, &failure, out);
        }
        state.step.empty_answers += u32::from(is_silent);
        return match failure.retryable && state.stop.is_none() {
            true => server_wait::answer_broke(state, &step, failure, Vec::new(), out),
            false => handle_failure(state, failure, parts, out),
        };
    }
    let estimated_input = state.session.estimated_input();
    let events = vec![
        assistant(&state.session, &step, parts, answer.finish, None),
        EventBody::StepFinished {
            step_id: step.clone(),
            usage: answer.usage,
            estimated_input,
            envelope: answer.envelope,
        },
    ];
    state.phase = RunPhase::Storing;
    state.append_with(
        events,
        Vec::new(),
        vec![step],
        AppendContinuation::AfterAnswer { finish: answer.finish },
        out,
    );
}

/// Handles a failed call: makes room, leaves a part out, waits, or ends the run.
pub(super) fn handle_failure(
    state: &mut LoopState,
    failure: ModelCallFailure,
    partial: Vec<Part>,
    out: &mut Vec<RunEffect>,
) {
    let RunPhase::Calling { step, began } = &state.phase else { return };
    let (step, began) = (step.clone(), *began);
    if state.stop.is_some() {
        // A call that is being stopped often fails. The stop is the cause.
        return stopped(state, partial, failure.usage, out);
    }
    if unnamed_refusal::may_pass(state, &failure, &partial) {
        return server_wait::repeat_refused(state, &step, failure, out);
    }
    // A refusal for length comes before all others: room can be made, and no part has to leave the view for good.
    if failure.code == ErrorCode::ContextOverflow {
        return overflowed(state, &step, failure, partial, out);
    }
    // A server that refuses to continue a broken answer is asked in words, by a note in the next request.
    let refuses_rest = failure.code == ErrorCode::InvalidRequest && state.session.history.is_broken_off();
    if refuses_rest || failure.refuses_tools && state.session.goes_on_without_tools() {
        let mut events = lost(&state.session, &step, partial);
        events.push(step_failed(&step, &failure));
        state.phase = RunPhase::Storing;
        return state.append_with(events, Vec::new(), vec![step], AppendContinuation::Boundary, out);
    }
    // A server that has written a part of the answer has taken the request, so the fault lies in the answer.
    let is_about_answer = says_something(&partial)
        && failure.code == ErrorCode::InvalidRequest
        && !failure.refusal.as_ref().is_some_and(|refusal| refusal.is_specific());
    if failure.is_bad_sample || is_about_answer {
        return server_wait::answer_broke(state, &step, failure, partial, out);
    }
    if let Some(reason) = unnamed_refusal::overflow_reason(state, &failure, &partial) {
        return overflowed(state, &step, unnamed_refusal::as_overflow(failure, &reason), partial, out);
    }
    if omitting::leave_out(state, &step, &failure, &partial, out) {
        return;
    }
    if failure.retryable {
        // Signs of life are no first event. A server that breaks off behind them is not out, either.
        return match began || failure.broke_off || says_something(&partial) {
            true => server_wait::answer_broke(state, &step, failure, partial, out),
            false => server_wait::server_failed(state, &step, failure, out),
        };
    }
    end_with_failure(state, &step, failure, partial, out);
}

/// Ends the run with the failure of the step. The part of the answer that arrived is kept for people.
pub(super) fn end_with_failure(
    state: &mut LoopState,
    step: &StepId,
    failure: ModelCallFailure,
    partial: Vec<Part>,
    out: &mut Vec<RunEffect>,
) {
    // The server refuses the rest of a paused answer, so the stored piece is an answer that was cut short.
    let is_cut_short = state.session.history.is_paused() && !failure.retryable && is_servers_no(failure.code);
    let end = if is_cut_short { RunEnd::Length } else { RunEnd::Error };
    let mut events = lost(&state.session, step, partial);
    events.push(step_failed(step, &failure));
    events.extend(state.step.take_back_guess());
    let message = match is_cut_short {
        true => format!("the answer could not go on where it was paused: {}", failure.message),
        false => failure.message,
    };
    let error = Some(ErrorInfo { code: failure.code, message });
    state.phase = RunPhase::Storing;
    state.append_with(events, Vec::new(), vec![step.clone()], AppendContinuation::Finish { end, error }, out);
}

/// Handles a refusal for length. A partial answer to the cut request is kept for people only.
fn overflowed(
    state: &mut LoopState,
    step: &StepId,
    failure: ModelCallFailure,
    partial: Vec<Part>,
    out: &mut Vec<RunEffect>,
) {
    let mut events = lost(&state.session, step, partial);
    events.push(step_failed(step, &failure));
    // The length is the likelier reason now, so the part that was left out on a guess comes back.
    if failure.refusal.is_some() {
        events.extend(state.step.take_back_guess());
    }
    let error = ErrorInfo { code: failure.code, message: failure.message };
    // The words are repeated if the run ends, because they name the server's own numbers.
    state.step.refusal = Some(error.message.clone());
    let calling = state.session.history.open_run().and_then(|run| run.calling.as_ref());
    state.step.refused_output = calling.map(|start| start.max_output_tokens);
    state.phase = RunPhase::Storing;
    state.step.overflows += 1;
    let is_spent = state.step.overflows > MAX_LENGTH_RETRIES;
    if is_spent || !state.session.settings.policy.enabled {
        let message = match state.session.settings.policy.enabled {
            true => format!(
                "{}; it was made smaller {MAX_LENGTH_RETRIES} times, to {} tokens by our count, and was refused \
                 each time",
                error.message,
                state.session.meter().total
            ),
            false => format!("{} (compaction is off; one on request makes room)", error.message),
        };
        let error = ErrorInfo { code: error.code, message };
        let then = AppendContinuation::Finish { end: RunEnd::Error, error: Some(error) };
        return state.append_with(events, Vec::new(), vec![step.clone()], then, out);
    }
    state.append_with(events, Vec::new(), vec![step.clone()], AppendContinuation::AfterOverflow, out);
}

/// Returns whether the request that was refused for its length fits with a shorter answer alone. That loses nothing, so it
/// is tried before the conversation is shortened, once for each step.
pub(super) fn may_lower_output(state: &LoopState) -> bool {
    let session = &state.session;
    let Some(refused) = state.step.refused_output.filter(|_| !state.step.has_lowered_output) else {
        return false;
    };
    let (input, budget) = (session.meter().bound(), session.budget());
    // Without a limit in the server's words the window is as wrong as before, and so is a new limit of the answer.
    let is_told = session.learned_window().is_some();
    let explains_refusal = input.saturating_add(refused) > budget.window;
    is_told && explains_refusal && input <= budget.usable && pausing::output_limit(session) < refused
}

/// Handles the end of a call that this program stopped. The part of the answer that arrived stays in the view.
pub(super) fn stopped(
    state: &mut LoopState,
    partial: Vec<Part>,
    usage: Option<Usage>,
    out: &mut Vec<RunEffect>,
) {
    let calling = state.session.history.open_run().and_then(|run| run.calling.as_ref());
    let Some(step) = calling.map(|start| start.step_id.clone()) else { return };
    let mut events = Vec::new();
    // The stop may have cut the last call in two, as an output limit does. Nothing answers a call after a stop.
    let partial = without_cut_call(&named_calls(&state.session, &step, partial));
    if shows_something(&partial) {
        events.push(assistant(
            &state.session,
            &step,
            partial,
            ModelStopReason::Other,
            Some(PartialAnswerReason::Cancelled),
        ));
    }
    events.push(match usage {
        // A report shows that the server has read the whole request, so the meter may learn from the call.
        Some(usage) => EventBody::StepFinished {
            step_id: step.clone(),
            usage: Some(usage),
            estimated_input: state.session.estimated_input(),
            envelope: None,
        },
        None => {
            step_failed(&step, &ModelCallFailure::new(ErrorCode::Interrupted, "the call was stopped", false))
        }
    });
    state.phase = RunPhase::Storing;
    state.append_with(events, Vec::new(), vec![step], AppendContinuation::Boundary, out);
}

/// Creates the event that adds an answer to the view.
pub(super) fn assistant(
    session: &SessionState,
    step: &StepId,
    parts: Vec<Part>,
    finish: ModelStopReason,
    cut: Option<PartialAnswerReason>,
) -> EventBody {
    let message = Message {
        id: format!("m-{step}").into(),
        role: Role::Assistant,
        parts,
        origin: Some(session.settings.model.origin.clone()),
    };
    EventBody::AssistantAdded { step_id: step.clone(), message, finish, cut }
}

/// Returns the parts without the last call if the call's arguments are no whole JSON object.
fn without_cut_call(parts: &[Part]) -> Vec<Part> {
    let last_call = parts.iter().rposition(|part| matches!(part, Part::ToolCall(_)));
    let whole = parts.iter().enumerate().filter(|(at, part)| {
        Some(*at) != last_call
            || !matches!(part, Part::ToolCall(call) if !crate::history::is_object(&call.arguments))
    });
    whole.map(|(_, part)| part.clone()).collect()
}

/// Returns the failure of an answer that a filter has withheld as a whole. The filter has judged it by what the model has
/// read, so the newest content is suspected.
fn filtered_answer_failure() -> ModelCallFailure {
    let refusal = PartRefusal { kind: Some(RefusedPartKind::Content), ..PartRefusal::default() };
    ModelCallFailure {
        refusal: Some(Box::new(refusal)),
        ..ModelCallFailure::new(ErrorCode::Refused, "the provider's filter withheld the answer", false)
    }
}

/// Returns the message about an answer without content.
fn empty_answer(parts: &[Part]) -> &'static str {
    match parts.iter().any(is_readable_reasoning) {
        true => "the model wrote reasoning and no answer",
        false => "the model's answer was empty",
    }
}

/// Returns whether the next answer follows the results of tools.
fn follows_tools(session: &SessionState) -> bool {
    session.history.view().last().is_some_and(|item| matches!(item.kind, ViewItemKind::Result { .. }))
}

/// Ends the run without an answer. Some models end their work so: after the last tool they have nothing to add, and asking
/// again brings another empty answer.
fn end_without_words(
    state: &mut LoopState,
    step: &StepId,
    failure: &ModelCallFailure,
    out: &mut Vec<RunEffect>,
) {
    state.phase = RunPhase::Storing;
    let then = AppendContinuation::Finish { end: RunEnd::Stop, error: None };
    state.append_with(vec![step_failed(step, failure)], Vec::new(), vec![step.clone()], then, out);
}

/// Gives every call a name of this program. All calls of the recovery step are dropped, because it has no tools.
fn named_calls(session: &SessionState, step: &StepId, parts: Vec<Part>) -> Vec<Part> {
    let recovering = session.is_time_up();
    let mut named = Vec::with_capacity(parts.len());
    for (at, part) in parts.into_iter().enumerate() {
        match part {
            Part::ToolCall(_) if recovering => {}
            Part::ToolCall(call) => {
                // The real tool stands in the log. Approvals, rules and hooks need not know of deferral (decision 0052).
                let call = match &session.settings.fixed.deferred {
                    Some(deferred) => deferred.unwrap_call(call, |name| {
                        deferred.get(name).is_none()
                            && name != CALL
                            && name != SEARCH
                            && session.settings.tools.contains_key(name)
                    }),
                    None => call,
                };
                // Local servers repeat their ids within a session, so the given id is only kept beside.
                let call_id = CallId::new(format!("c-{step}-{at}"));
                let provider_id = call.provider_id.or_else(|| {
                    let given = call.call_id.as_str();
                    (!given.is_empty()).then(|| given.to_owned())
                });
                named.push(Part::ToolCall(ToolCall { call_id, provider_id, ..call }));
            }
            other => named.push(other),
        }
    }
    named
}

/// Returns the event that keeps an unusable answer for people, without its calls: a call without a result would
/// make later requests invalid.
pub(super) fn lost(session: &SessionState, step: &StepId, partial: Vec<Part>) -> Vec<EventBody> {
    let said: Vec<Part> = partial.into_iter().filter(|part| !matches!(part, Part::ToolCall(_))).collect();
    let kept = shows_something(&said)
        .then(|| assistant(session, step, said, ModelStopReason::Other, Some(PartialAnswerReason::Lost)));
    kept.into_iter().collect()
}

/// Returns whether the error is a refusal of the server that neither time nor a user can change.
fn is_servers_no(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::InvalidRequest | ErrorCode::ThirdParty | ErrorCode::NotFound)
}

/// Creates the event of a failed step.
pub(super) fn step_failed(step: &StepId, failure: &ModelCallFailure) -> EventBody {
    EventBody::StepFailed {
        step_id: step.clone(),
        code: failure.code,
        message: failure.message.clone(),
        used_tokens: failure.used_tokens,
        limit_tokens: failure.limit_tokens,
        usage: failure.usage.clone(),
        // A compaction helps against an overflow, and the loop makes one.
        is_permanent: !failure.retryable && failure.code != ErrorCode::ContextOverflow,
    }
}

/// Returns whether parts of a cut answer have anything to read. Readable reasoning counts too, although no request
/// carries it.
fn shows_something(parts: &[Part]) -> bool {
    says_something(parts) || parts.iter().any(is_readable_reasoning)
}

fn is_readable_reasoning(part: &Part) -> bool {
    matches!(part, Part::Reasoning(reasoning) if !reasoning.text.trim().is_empty())
}

/// Returns whether parts of an answer have text or calls.
pub(super) fn has_words(parts: &[Part]) -> bool {
    parts.iter().any(|part| match part {
        Part::Text(text) => !text.text.trim().is_empty(),
        Part::ToolCall(_) => true,
        _ => false,
    })
}

/// Returns whether parts of an answer have content that a later request carries.
pub(super) fn says_something(parts: &[Part]) -> bool {
    parts.iter().any(|part| match part {
        Part::Text(text) => !text.text.trim().is_empty(),
        Part::Reasoning(reasoning) => reasoning.native.is_some(),
        _ => true,
    })
}
