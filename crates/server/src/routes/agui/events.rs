//! The events of an answer in the AG-UI protocol.

use longhaul_core::event::RunEnd;
use longhaul_core::usage::Usage;
use serde_json::{Value, json};

use crate::ui_protocol::{
    UiApprovalRequest, UiProtocol, UiStreamEnd, UiStreamEvent, UiTextKind, data, edit_name, text_of,
};

/// A writer of AG-UI events.
#[derive(Debug)]
pub(crate) struct AgUiEventWriter {
    thread: String,
    run: String,
    /// The kind of the client's state: `true` for an object, to which a field can be added; `None` if there is no
    /// state.
    takes_state: Option<bool>,
}

impl AgUiEventWriter {
    /// Creates a writer for a run with the client's names and state.
    pub(crate) fn of(thread: &str, run: &str, state: &Value) -> Self {
        let takes_state = (!state.is_null()).then(|| state.is_object());
        Self { thread: thread.to_owned(), run: run.to_owned(), takes_state }
    }

    fn meter(&mut self, meter: Value) -> Value {
        let ours = json!({ "context": meter });
        // A snapshot would replace the client's own state, so it is sent only if there is none. From then on the state
        // is an object that can be patched.
        match self.takes_state.replace(self.takes_state.unwrap_or(true)) {
            None => json!({ "type": "STATE_SNAPSHOT", "snapshot": { "longhaul": ours } }),
            Some(true) => {
                let patch = json!([{ "op": "add", "path": "/longhaul", "value": ours }]);
                json!({ "type": "STATE_DELTA", "delta": patch })
            }
            Some(false) => custom("context", ours["context"].clone()),
        }
    }

    fn ends(&self, end: UiStreamEnd) -> Value {
        let mut event = json!({ "type": "RUN_FINISHED", "threadId": self.thread, "runId": self.run });
        match end {
            UiStreamEnd::Complete(run) => {
                let outcome = if run.end == RunEnd::Cancelled { "cancelled" } else { "success" };
                event["outcome"] = json!({ "type": outcome });
                if let Some(usage) = &run.usage {
                    event["usage"] = json!([usage_fields(usage)]);
                }
                event["result"] = run.to_json();
            }
            UiStreamEnd::Asks(asked) => {
                let interrupts: Vec<Value> = asked.iter().map(interrupt).collect();
                event["outcome"] = json!({ "type": "interrupt", "interrupts": interrupts });
            }
            UiStreamEnd::Waits { message } => {
                return json!({ "type": "RUN_ERROR", "message": message, "code": "conflict" });
            }
            UiStreamEnd::Failed { code, message } => {
                return json!({ "type": "RUN_ERROR", "message": message, "code": code });
            }
        }
        event
    }
}

impl UiProtocol for AgUiEventWriter {
    fn write(&mut self, act: UiStreamEvent, out: &mut String) {
        let event = match act {
            UiStreamEvent::Begins { .. } => {
                json!({ "type": "RUN_STARTED", "threadId": self.thread, "runId": self.run })
            }
            UiStreamEvent::StepBegins { step, .. } => json!({ "type": "STEP_STARTED", "stepName": step }),
            UiStreamEvent::StepEnds { step } => json!({ "type": "STEP_FINISHED", "stepName": step }),
            UiStreamEvent::VoiceBegins { voice: UiTextKind::Text, part } => {
                json!({ "type": "TEXT_MESSAGE_START", "messageId": part, "role": "assistant" })
            }
            UiStreamEvent::VoiceBegins { voice: UiTextKind::Reasoning, part } => {
                // AG-UI frames reasoning twice: a phase, and a message in it.
                data(&json!({ "type": "REASONING_START", "messageId": part }), out);
                json!({ "type": "REASONING_MESSAGE_START", "messageId": part, "role": "reasoning" })
            }
            UiStreamEvent::Says { voice, part, text } => {
                let kind = match voice {
                    UiTextKind::Text => "TEXT_MESSAGE_CONTENT",
                    UiTextKind::Reasoning => "REASONING_MESSAGE_CONTENT",
                };
                json!({ "type": kind, "messageId": part, "delta": text })
            }
            UiStreamEvent::VoiceEnds { voice: UiTextKind::Text, part } => {
                json!({ "type": "TEXT_MESSAGE_END", "messageId": part })
            }
            UiStreamEvent::VoiceEnds { voice: UiTextKind::Reasoning, part } => {
                data(&json!({ "type": "REASONING_MESSAGE_END", "messageId": part }), out);
                json!({ "type": "REASONING_END", "messageId": part })
            }
            UiStreamEvent::CallBegins { call, tool, beside } => {
                json!({ "type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": tool, "parentMessageId": beside })
            }
            UiStreamEvent::CallWrites { call, text } => {
                json!({ "type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": text })
            }
            UiStreamEvent::CallReady { call, .. } => json!({ "type": "TOOL_CALL_END", "toolCallId": call }),
            UiStreamEvent::CallDropped { call, .. } => {
                // AG-UI has no event for an unfinished call, so its result says that it was dropped.
                data(&json!({ "type": "TOOL_CALL_END", "toolCallId": call }), out);
                result(&call, "[The call was never finished.]")
            }
            UiStreamEvent::Result { call, content, .. } => result(&call, &text_of(&content)),
            // The approvals are sent with the end of the run.
            UiStreamEvent::Asks { .. } => return,
            UiStreamEvent::Progress { call, text, offset } => {
                custom("tool-output", json!({ "toolCallId": call, "text": text, "offset": offset }))
            }
            UiStreamEvent::Meter(meter) => self.meter(meter),
            UiStreamEvent::Edit { kind, number, data, .. } => {
                let kind = edit_name(kind);
                // With the client's run in it, since the numbers restart with each answer.
                let id = format!("{}.{kind}-{number}", self.run);
                json!({ "type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": format!("longhaul.{kind}"), "content": data })
            }
            UiStreamEvent::Queue { ids, own } => {
                custom("queue", json!({ "count": ids.len(), "ids": ids, "position": own }))
            }
            UiStreamEvent::Notice(notice) => custom("notice", notice),
            UiStreamEvent::Ends(end) => self.ends(end),
        };
        data(&event, out);
    }
}

fn custom(name: &str, value: Value) -> Value {
    json!({ "type": "CUSTOM", "name": format!("longhaul.{name}"), "value": value })
}

fn result(call: &str, content: &str) -> Value {
    json!({
        "type": "TOOL_CALL_RESULT", "messageId": format!("{call}.result"), "toolCallId": call,
        "content": content, "role": "tool",
    })
}

fn interrupt(asked: &UiApprovalRequest) -> Value {
    json!({
        "id": asked.approval, "reason": "tool_call", "toolCallId": asked.call,
        "message": format!("May `{}` run?", asked.tool),
        "responseSchema": {
            "type": "object", "required": ["approved"],
            "properties": { "approved": { "type": "boolean" }, "reason": { "type": "string" } },
        },
    })
}

/// Returns a usage report under AG-UI's names.
fn usage_fields(usage: &Usage) -> Value {
    json!({
        "inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens(), "reasoningTokens": usage.reasoning_tokens,
        "cachedInputTokens": usage.cache_read_tokens, "cacheWriteInputTokens": usage.cache_write_tokens,
    })
}
