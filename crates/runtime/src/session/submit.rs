//! The hook on messages before queueing.

use longhaul_core::ids::SessionId;
use longhaul_core::message::Part;

use super::SessionError;
use crate::agent::Agent;
use crate::hooks::{HookEvent, UserPromptSubmitRequest, marked};

/// The maximum length of a hook's reason, in characters.
const MAX_REASON_CHARS: usize = 4_000;

/// Asks the hook `userPromptSubmit` about a message, and returns the message's parts with the hook's addition.
///
/// # Errors
/// [`SessionError::Refused`].
pub(super) async fn ask_submit_hook(
    agent: &Agent,
    session_id: &SessionId,
    mut parts: Vec<Part>,
) -> Result<Vec<Part>, SessionError> {
    if !agent.hooks.has(HookEvent::UserPromptSubmit) {
        return Ok(parts);
    }
    let hooks = agent.hooks.clone();
    let texts: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
    let ask = UserPromptSubmitRequest { session_id: session_id.clone(), prompt: texts.join("\n") };
    // A hook without an answer is ignored by design: a hook is no lock, and a broken one must not stop the session.
    let answer = hooks.user_prompt_submit(ask).await.unwrap_or_default();
    if answer.block {
        tracing::info!(session = %session_id, parts = parts.len(), "a hook refused a message");
        let reason = answer.reason.unwrap_or_default();
        return Err(SessionError::Refused(reason.trim().chars().take(MAX_REASON_CHARS).collect()));
    }
    if let Some(words) = answer.added_context.filter(|words| !words.trim().is_empty()) {
        tracing::debug!(session = %session_id, chars = words.chars().count(), "a hook added text to a message");
        parts.push(Part::text(marked(HookEvent::UserPromptSubmit, &words)));
    }
    Ok(parts)
}
