//! Refusals that name neither a part nor a limit: some pass, and some are taken for an overflow.
//!
//! Many proxies answer with a bare "Bad Request" in passing. Such a refusal is no reason to change the conversation, so
//! the request is made once more first.
//!
//! Some servers refuse a request that is too long in words that no table knows. Such a refusal looks like that of a bad
//! part, and one tool result after the other would be left out. The sizes of the session's requests tell the two apart:
//! a request that is too long is larger than every request that the server has accepted.

use super::calling::says_something;
use super::loop_state::LoopState;
use super::{ModelCallFailure, omitting};
use crate::attempt::{BareRefusal, MAX_LENGTH_RETRIES, UnnamedRefusal};
use crate::error::ErrorCode;
use crate::message::Part;
use crate::plan::{Plan, PlanTrigger};

/// Returns whether the refused request is made once more, unchanged. Only a refusal without any reason may pass, and one
/// repetition for each step tells.
pub(super) fn may_pass(state: &LoopState, failure: &ModelCallFailure, partial: &[Part]) -> bool {
    let refusal = BareRefusal {
        gives_no_reason: failure.gives_no_reason,
        names_part: failure.refusal.as_ref().is_some_and(|part| part.is_specific() || part.is_remedied),
        has_answer: says_something(partial),
        was_repeated: state.step.has_repeated_refused,
    };
    refusal.may_pass(state.session.settings.retry.patience_ms)
}

/// Returns the reason why a refusal without a name is taken for an overflow; `None` if it is not.
///
/// The request must be larger than the largest accepted one, and it must be possible to make it smaller. A refusal without
/// any reason is suspected of the length at once if the request nearly fills the window. Of the others, the first
/// refusal leaves out the likeliest part, because a bad part is the more frequent cause. A later one of the same
/// words is taken for an overflow. So is one that came although a part was left out, or that leaves no part to suspect,
/// if the request has clearly grown.
pub(super) fn overflow_reason(
    state: &LoopState,
    failure: &ModelCallFailure,
    partial: &[Part],
) -> Option<String> {
    let session = &state.session;
    let refusal = failure.refusal.as_deref()?;
    let is_unnamed =
        failure.code == ErrorCode::InvalidRequest && !refusal.is_specific() && !refusal.is_remedied;
    let may_shrink = session.settings.policy.enabled && state.step.overflows < MAX_LENGTH_RETRIES;
    // A server that has begun to answer has taken the length. A paused answer is refused for another reason.
    if !is_unnamed || !may_shrink || says_something(partial) || session.history.is_paused() {
        return None;
    }
    let sizes = UnnamedRefusal {
        refused_tokens: session.estimated_input(),
        accepted_tokens: session.history.largest_accepted_input(),
        window_tokens: session.budget().window,
        gives_no_reason: failure.gives_no_reason,
    };
    let fills_window = sizes.may_fill_window();
    let is_likely = if fills_window {
        true
    } else if state.step.omissions > 0 || !omitting::has_suspects(state, refusal) {
        sizes.has_clearly_grown()
    } else {
        sizes.has_grown() && was_refused_before(state, &failure.message)
    };
    if !is_likely || !matches!(session.plan_without_summary(&PlanTrigger::Overflow), Plan::Edit(_)) {
        return None;
    }
    Some(match fills_window {
        true => format!(
            "The server gives no reason. The request has {} of the window's {} tokens by our count, so it may be too \
             long",
            sizes.refused_tokens, sizes.window_tokens
        ),
        false => "The server names neither a part nor a limit. It has accepted smaller requests of this session, so \
                  the request is taken for too long"
            .to_owned(),
    })
}

/// Returns the failure as an overflow, in words for people.
pub(super) fn as_overflow(failure: ModelCallFailure, reason: &str) -> ModelCallFailure {
    let message = format!("{}. {reason}", failure.message.trim_end_matches('.'));
    ModelCallFailure { code: ErrorCode::ContextOverflow, message, retryable: false, ..failure }
}

/// Returns whether parts were left out before after a refusal in the same words. Numbers do not count, because they
/// name a request or a time.
fn was_refused_before(state: &LoopState, message: &str) -> bool {
    let mut omissions = state.session.history.omissions().iter();
    omissions.any(|omission| letters(&omission.reason).eq(letters(message)))
}

fn letters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| c.is_alphabetic())
}
