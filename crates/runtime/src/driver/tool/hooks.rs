//! The hooks around a tool: before and after a call.

use longhaul_core::message::ToolCall;
use longhaul_core::truncate::{self, TextLimit};
use serde_json::Value;

use super::ToolTask;
use crate::hooks::{HookEvent, PostToolUseRequest, PreToolUseDecision, PreToolUseRequest, marked};
use crate::tools::{ToolOutput, ToolOutputPart};

/// The maximum size of a result for a hook, in bytes.
const MAX_RESULT_BYTES: usize = 1 << 20;

/// The maximum length of a hook's addition to a result, in characters.
const MAX_ADDED_CHARS: u64 = 10_000;

/// The maximum length of a reason for the model, in characters.
const MAX_REASON_CHARS: usize = 4_000;

/// A hook's addition to a result, and the remaining room for the result.
pub(super) struct HookAddition {
    pub(super) text: Option<String>,
    pub(super) limit: TextLimit,
}

impl ToolTask {
    /// Asks the hook whether the call may run, and with which arguments.
    ///
    /// # Errors
    /// The result of a denied call.
    pub(super) async fn before(&self, call: &mut ToolCall) -> Result<(), ToolOutput> {
        let hooks = &self.agent.hooks;
        // A call with invalid arguments does not run in any case.
        let Some(args) = arguments(call).filter(|_| hooks.has(HookEvent::PreToolUse)) else { return Ok(()) };
        let ask = PreToolUseRequest {
            session_id: self.shared.session_id.clone(),
            tool_name: call.name.clone(),
            call_id: call.call_id.clone(),
            args,
        };
        // A cancel is looked at first, so that a hook cannot hold it up. A hook without an answer is ignored by design.
        let answer = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(ToolOutput::cancelled()),
            answer = hooks.pre_tool_use(ask) => answer.unwrap_or_default(),
        };
        if answer.decision == Some(PreToolUseDecision::Deny) {
            tracing::info!(tool = call.name, call = call.call_id.as_str(), "a hook denied a tool call");
            return Err(denied(answer.reason.as_deref().unwrap_or_default()));
        }
        if let Some(args) = answer.args {
            call.arguments = Value::Object(args).to_string();
            tracing::info!(
                tool = call.name,
                call = call.call_id.as_str(),
                argument_bytes = call.arguments.len(),
                "a hook replaced the arguments of a tool call"
            );
        }
        Ok(())
    }

    /// Sends the result to the hook, and returns the hook's addition.
    pub(super) async fn after(&self, call: &ToolCall, output: &ToolOutput) -> HookAddition {
        let nothing = HookAddition { text: None, limit: self.limit };
        let hooks = &self.agent.hooks;
        // A cancelled call has no result that a hook could judge, and the run should end soon.
        let is_asked = hooks.has(HookEvent::PostToolUse) && !output.cancelled;
        let Some(args) = arguments(call).filter(|_| is_asked) else { return nothing };
        let ask = PostToolUseRequest {
            session_id: self.shared.session_id.clone(),
            tool_name: call.name.clone(),
            call_id: call.call_id.clone(),
            args,
            success: !output.is_error,
            result: shown(output),
        };
        let answer = tokio::select! {
            biased;
            // A cancelled run does not wait for a hook. The result of the tool is kept without its addition.
            () = self.stop.cancelled() => return nothing,
            answer = hooks.post_tool_use(ask) => answer.unwrap_or_default(),
        };
        match answer.added_context.filter(|words| !words.trim().is_empty()) {
            Some(words) => self.added(&words),
            None => nothing,
        }
    }

    /// Limits an addition to half of the result's limit, so that both together stay within the limit.
    fn added(&self, words: &str) -> HookAddition {
        let TextLimit { max_chars, max_tokens } = self.limit;
        let half = TextLimit { max_chars: (max_chars / 2).min(MAX_ADDED_CHARS), max_tokens: max_tokens / 2 };
        let counter = &self.agent.counter;
        let kept = match truncate::truncate(words, &half, truncate::TruncationMode::Head, counter) {
            Some(cut) => format!("{}\n[{} characters are left out]", cut.kept, cut.omitted_chars),
            None => words.to_owned(),
        };
        let text = marked(HookEvent::PostToolUse, &kept);
        tracing::debug!(
            chars_given = words.chars().count(),
            chars_added = text.chars().count(),
            "a hook added text to a tool result"
        );
        let limit = TextLimit {
            max_chars: max_chars.saturating_sub(text.chars().count() as u64),
            max_tokens: max_tokens.saturating_sub(counter.text(&text)),
        };
        HookAddition { text: Some(text), limit }
    }
}

fn arguments(call: &ToolCall) -> Option<Value> {
    serde_json::from_str(&call.arguments).ok()
}

fn denied(reason: &str) -> ToolOutput {
    let reason: String = reason.trim().chars().take(MAX_REASON_CHARS).collect();
    let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    ToolOutput::error(format!("Error: the call was denied by the preToolUse hook and did not run{why}"))
}

/// Returns a result in the form for hooks.
fn shown(output: &ToolOutput) -> String {
    let pieces = output.content.iter().map(|piece| match piece {
        ToolOutputPart::Text(text) => text.clone(),
        ToolOutputPart::Media { bytes, media_type, name } => {
            let name = name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
            format!("[{media_type}{name}, {} bytes]", bytes.len())
        }
    });
    let mut text = pieces.collect::<Vec<_>>().join("\n");
    let most = text.floor_char_boundary(MAX_RESULT_BYTES);
    if most < text.len() {
        let left = text.len() - most;
        text.truncate(most);
        text.push_str(&format!("\n[{left} more bytes]"));
    }
    text
}
