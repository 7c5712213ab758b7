//! The hook that runs on a message before the message is queued.

use longhaul_core::ids::{QueueId, SessionId};
use longhaul_core::message::Part;
use longhaul_store::{EnqueueReceipt, NewQueuedMessage};
use uuid::Uuid;

use super::{NewMessage, Runtime, Session, SessionError};
use crate::agent::Agent;
use crate::clock::now_ms;
use crate::hooks::{HookEvent, UserPromptSubmitRequest, marked};

/// The maximum length of a hook's reason, in characters.
const MAX_REASON_CHARS: usize = 4_000;

impl Session {
    /// Returns the message's parts with the hook's addition.
    ///
    /// # Errors
    /// [`SessionError::Refused`].
    pub(super) async fn submitted(&self, parts: Vec<Part>) -> Result<Vec<Part>, SessionError> {
        submitted(&self.agent_binding().agent, self.id(), parts).await
    }
}

impl Runtime {
    /// Leaves a message in the queue of a session that another process owns. The message follows the rules of the
    /// session's agent, as this process knows it.
    ///
    /// # Errors
    /// The errors of [`Session::send`].
    pub async fn leave_message(
        &self,
        id: &SessionId,
        message: NewMessage,
    ) -> Result<EnqueueReceipt, SessionError> {
        let seat = self.read_agent_binding(id).await?;
        seat.check()?;
        let parts = submitted(&seat.agent, id, message.parts).await?;
        let queue_id = QueueId::new(Uuid::now_v7().to_string());
        let message = NewQueuedMessage {
            client_key: message.key,
            metadata: message.metadata,
            ..NewQueuedMessage::new(queue_id, now_ms(), parts, seat.agent.rules.queue_limit)
        };
        Ok(self.store().enqueue(id, message).await?)
    }
}

async fn submitted(
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
        let reason = answer.reason.unwrap_or_default();
        return Err(SessionError::Refused(reason.trim().chars().take(MAX_REASON_CHARS).collect()));
    }
    if let Some(words) = answer.added_context.filter(|words| !words.trim().is_empty()) {
        parts.push(Part::text(marked(HookEvent::UserPromptSubmit, &words)));
    }
    Ok(parts)
}
