//! The hook that a message passes before it is queued.

use longhaul_core::message::Part;

use super::{Session, SessionError};
use crate::hooks::{HookEvent, UserPromptSubmitAsk, marked};

/// The longest reason that is passed on, in characters.
const MAX_REASON_CHARS: usize = 4_000;

impl Session {
    /// The message with what the hook adds to it.
    ///
    /// # Errors
    /// [`SessionError::Refused`].
    pub(super) async fn submitted(&self, mut parts: Vec<Part>) -> Result<Vec<Part>, SessionError> {
        let hooks = self.seat().agent.hooks.clone();
        if !hooks.has(HookEvent::UserPromptSubmit) {
            return Ok(parts);
        }
        let texts: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
        let ask = UserPromptSubmitAsk { session_id: self.id().clone(), prompt: texts.join("\n") };
        let answer = hooks.user_prompt_submit(ask).await.unwrap_or_default();
        if answer.block {
            let reason = answer.reason.unwrap_or_default();
            return Err(SessionError::Refused(reason.trim().chars().take(MAX_REASON_CHARS).collect()));
        }
        if let Some(words) = answer.added_context.filter(|words| !words.trim().is_empty()) {
            parts.push(Part::text(marked(HookEvent::UserPromptSubmit, &words)));
        }
        Ok(parts)
    }
}
