//! Answers that would run into the end of the window: the stream is stopped in time, room is made, and the answer goes
//! on.
//!
//! Only models that continue the end of a request can be paused.

use super::calling::says_something;
use super::loop_state::{AppendContinuation, LoopState, RunPhase, StepGuards};
use super::session::SessionState;
use super::{ModelCallFailure, RunEffect, calling};
use crate::budget::{Budget, DEFAULT_MAX_OUTPUT};
use crate::error::ErrorCode;
use crate::event::{ErrorInfo, EventBody, PartialAnswerReason};
use crate::message::{ModelStopReason, Part};
use crate::plan;
use crate::usage::Usage;

/// The most pauses of one answer.
#[doc(hidden)]
// A pause costs a compaction. After three, the answer runs to the real limit and ends with `length` (decision 0018).
pub const MAX_PAUSES: u32 = 3;

/// The share of the window at which an answer is paused, input and output together, in percent.
// The gateway stops answers at the same share (`exchange/flow/pause.rs`). See decision 0018.
const PAUSE_PERCENT: u64 = 90;

/// The least share of the window that an answer must be able to write before a pause, in percent. The limit for the
/// provider lies as far beyond the pause, so that the provider does not end the answer first.
const LEAST_PERCENT: u64 = 5;

/// The least length of a beginning that counts as a repetition, in bytes. Shorter ones may be equal by chance.
const LEAST_REPEATED_BYTES: usize = 64;

/// The share of the window that a limit leaves unused, in percent. Many providers refuse a request whose limit does not
/// fit beside its input, and count the marks between messages a little differently.
const SPARE_PERCENT: u64 = 2;

/// Handles a call that was paused: the text is stored, room is made, and the answer goes on.
pub(super) fn paused(
    state: &mut LoopState,
    partial: Vec<Part>,
    usage: Option<Usage>,
    out: &mut Vec<RunEffect>,
) {
    let RunPhase::Calling { step, .. } = &state.phase else { return };
    let step = step.clone();
    if state.stop.is_some() {
        return calling::stopped(state, partial, usage, out);
    }
    let partial = without_repetition(&state.session, partial);
    // Servers continue text only. A cut in reasoning or after a tool call leaves nothing to continue (decision
    // 0018).
    if !ends_in_text(&partial) || !says_something(&partial) {
        let message = "the call was paused where it cannot go on";
        return calling::handle_failure(
            state,
            ModelCallFailure::new(ErrorCode::Interrupted, message, false),
            partial,
            out,
        );
    }
    let events = vec![
        calling::assistant(
            &state.session,
            &step,
            partial,
            ModelStopReason::Other,
            Some(PartialAnswerReason::Paused),
        ),
        EventBody::StepFinished {
            step_id: step.clone(),
            usage,
            estimated_input: state.session.estimated_input(),
            envelope: None,
        },
    ];
    // The rest of the answer is a step of its own, for which room may be made once more.
    state.step = StepGuards::default();
    state.phase = RunPhase::Storing;
    state.append_with(events, Vec::new(), vec![step], AppendContinuation::Prepare, out);
}

/// Returns the limit of the next answer, in tokens: the reserve, or the estimated rest of the window. An answer
/// that can go on after a pause has the model's own limit, less the text that it has already.
pub(super) fn output_limit(session: &SessionState) -> u64 {
    let Budget { window, reserve, .. } = session.budget();
    let left = window.saturating_sub(likely_input(session));
    let usual = reserve.min(left).max(16);
    if !session.can_go_on() {
        return usual;
    }
    // The reserve is a quarter of a small window and would end every answer before room is needed (decision 0018).
    let beyond = match pause_at(session) {
        Some(at) => at + window * LEAST_PERCENT / 100,
        None => left.saturating_sub(window * SPARE_PERCENT / 100).max(usual),
    };
    most_output(session).min(beyond).max(16)
}

/// Returns the probable input of the next request, in tokens. The own count decides where the planner does not
/// believe the meter.
fn likely_input(session: &SessionState) -> u64 {
    let bound = session.meter().bound();
    let fixed_tokens = session.settings.fixed.tokens_of(&session.history);
    let counted = fixed_tokens.saturating_add(session.history.view_tokens());
    let own = counted.saturating_add(counted / 10);
    let usable = session.budget().usable;
    if bound > usable && own < usable { own } else { bound }
}

/// Returns the tokens that the model may still write of the answer.
fn most_output(session: &SessionState) -> u64 {
    let said =
        session.history.view().last().filter(|_| session.history.is_paused()).map_or(0, |item| item.tokens);
    session.settings.model.max_output.unwrap_or(DEFAULT_MAX_OUTPUT).saturating_sub(said)
}

/// Returns the output tokens at which the next call pauses. `None` if the model cannot continue, if the answer ends
/// before the window does, or if a pause gains nothing.
pub(super) fn pause_at(session: &SessionState) -> Option<u64> {
    // Pauses count for one answer, and a new answer begins at none.
    let paused = if session.history.is_paused() { session.history.pauses() } else { 0 };
    let is_off = !session.can_go_on() || !session.settings.policy.enabled || session.is_time_up();
    if is_off || paused >= MAX_PAUSES || !has_room_to_make(session) {
        return None;
    }
    let window = session.budget().window;
    let bound = session.meter().bound();
    let ends_before = bound.saturating_add(most_output(session)) <= window;
    let at = (window * PAUSE_PERCENT / 100).saturating_sub(bound);
    let is_worth_it = at >= (window * LEAST_PERCENT / 100).max(1) && can_make_room(session, at);
    (!ends_before && is_worth_it).then_some(at)
}

/// Returns whether the part that must stay, with `said` tokens more, leaves room for the rest of the answer.
fn can_make_room(session: &SessionState, said: u64) -> bool {
    let stays = session.settings.fixed.tokens + session.history.overhead_tokens() + must_stay(session) + said;
    stays < plan::pause_target(&session.budget())
}

/// Returns the size of the newest typed message and of a paused answer, in tokens.
fn must_stay(session: &SessionState) -> u64 {
    let view = session.history.view();
    let typed = session.history.newest_typed().map_or(0, |at| view[at].tokens);
    let said = view.last().filter(|_| session.history.is_paused()).map_or(0, |item| item.tokens);
    typed + said
}

/// Returns the parts of a continued answer without the beginning that some servers repeat.
pub(super) fn without_repetition(session: &SessionState, mut parts: Vec<Part>) -> Vec<Part> {
    // Some servers repeat a text that the request ends with, although they were to continue it.
    let said = session.history.view().last().filter(|_| session.history.is_paused());
    let said = said.map(|item| item.message.text()).unwrap_or_default();
    let again = parts.iter_mut().find_map(|part| match part {
        Part::Text(text) if said.len() >= LEAST_REPEATED_BYTES => Some(text),
        _ => None,
    });
    if let Some(text) = again
        && let Some(more) = text.text.strip_prefix(said.as_str())
    {
        text.text = more.to_owned();
        // The provider's item still holds the whole text.
        text.native = None;
    }
    parts
}

/// Returns whether the answer ended at a limit that this program set, behind a planned pause.
pub(super) fn ended_at_our_limit(session: &SessionState, parts: &[Part]) -> bool {
    let calling = session.history.open_run().and_then(|run| run.calling.as_ref());
    let is_ours = calling.is_some_and(|start| start.max_output_tokens < most_output(session));
    is_ours && pause_at(session).is_some() && ends_in_text(parts)
}

/// Returns whether a compaction would find enough to drop beside the part that must stay.
fn has_room_to_make(session: &SessionState) -> bool {
    session.history.view_tokens().saturating_sub(must_stay(session)) > session.budget().progress()
}

/// Returns the error of an answer that reached the limit although room was made several times.
pub(super) fn pauses_are_spent(session: &SessionState) -> Option<ErrorInfo> {
    let message = format!(
        "the answer is longer than the window has room for, although room was made {MAX_PAUSES} times"
    );
    (session.history.pauses() >= MAX_PAUSES).then_some(ErrorInfo { code: ErrorCode::MaxCompactions, message })
}

/// Returns whether an answer can be continued: the answer ends in text and calls no tool.
pub(super) fn ends_in_text(parts: &[Part]) -> bool {
    parts.last().is_some_and(|part| part.as_text().is_some()) && !parts.iter().any(is_call)
}

fn is_call(part: &Part) -> bool {
    matches!(part, Part::ToolCall(_))
}
