//! Repetition of failed model calls: outages of the server, and answers that break off.
//!
//! An outage (no connection, 429, 5xx) leaves the step open. The loop waits until [`RetryPolicy::patience_ms`] ends. An
//! answer that breaks off ends its step: the next attempt continues the text, if the model can, or asks again. At most
//! [`RetryPolicy::stream_attempts`] answers of one step may break off. A refusal without any reason is repeated once.
//!
//! [`RetryPolicy::patience_ms`]: crate::attempt::RetryPolicy::patience_ms
//! [`RetryPolicy::stream_attempts`]: crate::attempt::RetryPolicy::stream_attempts

use super::calling::{says_something, step_failed};
use super::loop_state::{AppendContinuation, LoopState, RunPhase};
use super::pausing::ends_in_text;
use super::{ModelCallFailure, RunEffect, RunNotice, RunTimer, calling, pausing};
use crate::attempt::{BrokenAnswer, BrokenAnswerAction};
use crate::error::ErrorCode;
use crate::event::{EventBody, NoteReason, PartialAnswerReason};
use crate::ids::StepId;
use crate::message::{Message, ModelStopReason, Part};
use crate::time_text::{format_duration, format_utc};

/// A wait for the next attempt of a model call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerWait {
    /// The kind of failure.
    pub reason: WaitReason,
    /// The code of the newest failure.
    pub code: ErrorCode,
    /// The newest failure, in words.
    pub message: String,
    /// The number of the attempt that comes, from 1 for the first repetition.
    pub attempt: u32,
    /// The wait from now, in milliseconds.
    pub after_ms: u64,
}

/// The reason why a model call is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WaitReason {
    /// The server cannot be reached, or answers with an error of its own.
    Outage,
    /// The server wants fewer requests.
    RateLimit,
    /// The answer broke off, or was empty.
    BrokenAnswer,
    /// The server refused the request without a reason. It is repeated once.
    Refusal,
}

impl WaitReason {
    /// Returns the stable text, for example `rate-limit`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Outage => "outage",
            Self::RateLimit => "rate-limit",
            Self::BrokenAnswer => "broken-answer",
            Self::Refusal => "refusal",
        }
    }
}

/// Handles the first event of an answer, which ends an outage.
pub(super) fn model_began(state: &mut LoopState, out: &mut Vec<RunEffect>) {
    let RunPhase::Calling { began, .. } = &mut state.phase else { return };
    *began = true;
    state.step.end_outage(out);
}

/// Handles a call that failed before the answer began and may succeed later.
pub(super) fn server_failed(
    state: &mut LoopState,
    step: &StepId,
    failure: ModelCallFailure,
    out: &mut Vec<RunEffect>,
) {
    let retry = state.session.settings.retry;
    if retry.patience_ms == Some(0) {
        return calling::end_with_failure(state, step, failure, Vec::new(), out);
    }
    // The wait is known to outlast the patience, so people hear of it at once.
    if let Some(asked_ms) =
        retry.patience_ms.and_then(|most_ms| failure.retry_after_ms.filter(|asked_ms| *asked_ms > most_ms))
    {
        let message = format!(
            "{}; the server asks to be asked again in {} (at {}), later than `retry.patience` waits",
            failure.message,
            format_duration(asked_ms),
            format_utc(state.now.saturating_add(asked_ms), state.now),
        );
        return calling::end_with_failure(
            state,
            step,
            ModelCallFailure { message, ..failure },
            Vec::new(),
            out,
        );
    }
    if state.step.patience_is_over {
        return give_up_waiting(state, Some(step.clone()), failure.code, failure.message, failure.usage, out);
    }
    // The patience counts from the first failure, not from each attempt.
    if let Some(after_ms) = retry.patience_ms.filter(|_| state.step.outage_attempts == 0) {
        out.push(RunEffect::StartTimer { timer: RunTimer::Patience, after_ms });
    }
    // No event is stored for an attempt: the outage of a night would fill the log (decision 0044).
    state.step.outage_attempts += 1;
    let attempt = state.step.outage_attempts;
    let wait = ServerWait {
        reason: match failure.code {
            ErrorCode::RateLimitExceeded => WaitReason::RateLimit,
            _ => WaitReason::Outage,
        },
        code: failure.code,
        message: failure.message,
        attempt,
        after_ms: retry.delay_ms(attempt, failure.retry_after_ms),
    };
    begin_wait(state, Some(step.clone()), wait, out);
}

/// Makes a refused request once more, unchanged, after the shortest wait.
pub(super) fn repeat_refused(
    state: &mut LoopState,
    step: &StepId,
    failure: ModelCallFailure,
    out: &mut Vec<RunEffect>,
) {
    state.step.has_repeated_refused = true;
    let wait = ServerWait {
        reason: WaitReason::Refusal,
        code: failure.code,
        message: failure.message,
        attempt: 1,
        after_ms: state.session.settings.retry.delay_ms(1, failure.retry_after_ms),
    };
    begin_wait(state, Some(step.clone()), wait, out);
}

/// Handles an answer that broke off, or that was empty. People still see the part that arrived. A model that can
/// continue its own text does so; otherwise the text leaves the view.
pub(super) fn answer_broke(
    state: &mut LoopState,
    step: &StepId,
    failure: ModelCallFailure,
    partial: Vec<Part>,
    out: &mut Vec<RunEffect>,
) {
    state.step.end_outage(out);
    let retry = state.session.settings.retry;
    let partial = pausing::without_repetition(&state.session, partial);
    let broken = BrokenAnswer {
        broke_before: state.step.broken_answers,
        ends_in_text: ends_in_text(&partial) && says_something(&partial),
        can_continue: state.session.can_go_on(),
        // The log keeps the part that arrived for people, so the view can do without it.
        can_take_back: true,
    };
    // A number limits broken answers, not the patience: a server that always breaks off is not out, and would
    // be asked for ever (decision 0044).
    let after = broken.next(retry.stream_attempts);
    if after == BrokenAnswerAction::GiveUp {
        let times = state.step.broken_answers + 1;
        let message = match times {
            1 => failure.message,
            _ => format!("{} ({times} answers in a row broke off or were empty)", failure.message),
        };
        return calling::end_with_failure(state, step, ModelCallFailure { message, ..failure }, partial, out);
    }
    state.step.broken_answers += 1;
    let attempt = state.step.broken_answers;
    let wait = ServerWait {
        reason: WaitReason::BrokenAnswer,
        code: failure.code,
        message: failure.message.clone(),
        attempt,
        after_ms: retry.delay_ms(attempt, failure.retry_after_ms),
    };
    let mut events = match after {
        BrokenAnswerAction::Continue => {
            vec![calling::assistant(
                &state.session,
                step,
                partial,
                ModelStopReason::Other,
                Some(PartialAnswerReason::Paused),
            )]
        }
        BrokenAnswerAction::AskAgain | BrokenAnswerAction::GiveUp => {
            calling::lost(&state.session, step, partial)
        }
    };
    events.push(step_failed(step, &failure));
    state.phase = RunPhase::Storing;
    state.append_with(events, Vec::new(), vec![step.clone()], AppendContinuation::Wait(wait), out);
}

/// Tells a model of a broken answer if the text cannot be continued: another model has taken over, or the
/// server refuses to. Returns whether a note was needed.
pub(super) fn note_broken_answer(state: &mut LoopState, out: &mut Vec<RunEffect>) -> bool {
    if !state.session.history.is_broken_off() || state.session.can_go_on() {
        return false;
    }
    let id = format!("m{}", state.session.next_seq());
    let text = "[The answer above broke off because the connection failed. Go on exactly where it stopped, and \
                repeat nothing.]";
    let message = Message::user(id, vec![Part::text(text)]);
    state.phase = RunPhase::Storing;
    state.append(
        vec![EventBody::NoteAdded { message, why: NoteReason::BrokenOff }],
        AppendContinuation::Prepare,
        out,
    );
    true
}

/// Waits before an attempt: a repetition of `step`, or a new step.
pub(super) fn begin_wait(
    state: &mut LoopState,
    step: Option<StepId>,
    wait: ServerWait,
    out: &mut Vec<RunEffect>,
) {
    // A stop may have come while the failed step was being stored.
    if state.stop.is_some() {
        return state.reach_step_boundary(out);
    }
    out.push(RunEffect::Notice(RunNotice::Waiting(wait.clone())));
    out.push(RunEffect::StartTimer { timer: RunTimer::Retry, after_ms: wait.after_ms });
    state.phase = RunPhase::Waiting { step, wait };
    // Another model may have been chosen meanwhile, and the next attempt must use that model.
    if !state.soon.is_empty() {
        leave_wait(state, out);
    }
}

/// Makes the attempt after the wait.
pub(super) fn try_again(state: &mut LoopState, out: &mut Vec<RunEffect>) {
    let RunPhase::Waiting { step, .. } = &state.phase else { return };
    match step.clone() {
        Some(step) => calling::call_model(state, step, out),
        None => state.reach_step_boundary(out),
    }
}

/// Makes the attempt at once, if the loop waits for one.
pub(super) fn retry_now(state: &mut LoopState, out: &mut Vec<RunEffect>) {
    if state.waiting().is_some() {
        out.push(RunEffect::StopTimer { timer: RunTimer::Retry });
        try_again(state, out);
    }
}

/// Ends a wait because of a decision that the next attempt must know, such as another model.
pub(super) fn leave_wait(state: &mut LoopState, out: &mut Vec<RunEffect>) {
    if state.waiting().is_some() {
        stop_waiting(state, out);
    }
}

/// Ends a wait without an attempt.
pub(super) fn stop_waiting(state: &mut LoopState, out: &mut Vec<RunEffect>) {
    let RunPhase::Waiting { step, .. } = &state.phase else { return };
    let is_open = step.is_some();
    out.push(RunEffect::StopTimer { timer: RunTimer::Retry });
    state.step.end_outage(out);
    match is_open {
        true => calling::stopped(state, Vec::new(), None, out),
        false => state.reach_step_boundary(out),
    }
}

/// Handles the end of the patience with an outage. An attempt in flight is the last one.
pub(super) fn patience_ended(state: &mut LoopState, out: &mut Vec<RunEffect>) {
    if state.step.outage_attempts == 0 {
        return;
    }
    state.step.patience_is_over = true;
    if let RunPhase::Waiting { step, wait } = &state.phase
        // Broken answers and bare refusals have limits of their own.
        && !matches!(wait.reason, WaitReason::BrokenAnswer | WaitReason::Refusal)
    {
        let (step, wait) = (step.clone(), wait.clone());
        out.push(RunEffect::StopTimer { timer: RunTimer::Retry });
        give_up_waiting(state, step, wait.code, wait.message, None, out);
    }
}

/// Ends the run because the server did not answer in time.
fn give_up_waiting(
    state: &mut LoopState,
    step: Option<StepId>,
    code: ErrorCode,
    said: String,
    usage: Option<crate::usage::Usage>,
    out: &mut Vec<RunEffect>,
) {
    let patience = state.session.settings.retry.patience_ms.map(format_duration).unwrap_or_default();
    let attempts = match state.step.outage_attempts {
        1 => "1 attempt".to_owned(),
        attempts => format!("{attempts} attempts"),
    };
    let message = format!(
        "{said}; {attempts} in {patience} failed (`retry.patience`). The conversation is kept: send a message or \
         resume to go on"
    );
    let failure = ModelCallFailure { usage, ..ModelCallFailure::new(code, message, true) };
    match step {
        Some(step) => calling::end_with_failure(state, &step, failure, Vec::new(), out),
        None => state.fail(failure.code, failure.message, out),
    }
}
