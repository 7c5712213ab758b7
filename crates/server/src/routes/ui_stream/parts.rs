//! The events of an answer as parts of the AI SDK's UI message stream.

use longhaul_core::event::RunEnd;
use longhaul_core::message::Part;
use serde_json::{Value, json};

use crate::ui_protocol::{
    UiProtocol, UiStreamEnd, UiStreamEvent, UiTextKind, UiToolOutcome, data, edit_name, text_of,
};

/// The text for a tool's failure without readable output.
const NO_WORDS: &str = "The tool failed.";

/// A writer of stream parts.
#[derive(Debug)]
pub(crate) struct UiPartWriter {
    session: String,
}

impl UiPartWriter {
    /// Creates a writer for an answer in the session.
    pub(crate) fn of(session: &str) -> Self {
        Self { session: session.to_owned() }
    }

    fn begins(&self, name: Option<String>) -> Value {
        let mut part = json!({ "type": "start", "messageMetadata": { "sessionId": self.session } });
        if let Some(name) = name {
            part["messageId"] = name.into();
        }
        part
    }
}

impl UiProtocol for UiPartWriter {
    fn write(&mut self, act: UiStreamEvent, out: &mut String) {
        let part = match act {
            UiStreamEvent::Begins { name } => self.begins(name),
            // The reader has the beginning of this step in an earlier part of the message.
            UiStreamEvent::StepBegins { again: true, .. } => return,
            UiStreamEvent::StepBegins { .. } => json!({ "type": "start-step" }),
            UiStreamEvent::StepEnds { .. } => json!({ "type": "finish-step" }),
            UiStreamEvent::VoiceBegins { voice, part } => json!({ "type": kind(voice, "start"), "id": part }),
            UiStreamEvent::Says { voice, part, text } => {
                json!({ "type": kind(voice, "delta"), "id": part, "delta": text })
            }
            UiStreamEvent::VoiceEnds { voice, part } => json!({ "type": kind(voice, "end"), "id": part }),
            UiStreamEvent::CallBegins { call, tool, .. } => of_tool("tool-input-start", &call, Some(&tool)),
            UiStreamEvent::CallWrites { call, text } => {
                json!({ "type": "tool-input-delta", "toolCallId": call, "inputTextDelta": text })
            }
            UiStreamEvent::CallReady { call, tool, arguments } => {
                let mut part = of_tool("tool-input-available", &call, Some(&tool));
                // Models write invalid JSON at times. The front end shows the text then.
                part["input"] = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
                part
            }
            UiStreamEvent::CallDropped { call, tool, arguments } => {
                let mut part = of_tool("tool-input-error", &call, Some(&tool));
                part["input"] = arguments.into();
                part["errorText"] = "The call was never finished.".into();
                part
            }
            UiStreamEvent::Asks { call, approval } => {
                json!({ "type": "tool-approval-request", "approvalId": approval, "toolCallId": call })
            }
            UiStreamEvent::Result { call, outcome, content } => result(&call, outcome, &content),
            UiStreamEvent::Progress { call, text, offset } => {
                // Transient parts do not become part of the message, which gets the whole result later.
                let progress = json!({ "toolCallId": call, "text": text, "offset": offset });
                json!({ "type": "data-tool-output", "data": progress, "transient": true })
            }
            UiStreamEvent::Meter(meter) => json!({ "type": "data-context", "id": "context", "data": meter }),
            UiStreamEvent::Edit { kind, number, data, .. } => {
                let kind = edit_name(kind);
                json!({ "type": format!("data-{kind}"), "id": format!("{kind}-{number}"), "data": data })
            }
            UiStreamEvent::Queue { ids, own } => {
                let queue = json!({ "count": ids.len(), "ids": ids, "position": own });
                json!({ "type": "data-queue", "data": queue, "transient": true })
            }
            UiStreamEvent::Notice(notice) => {
                json!({ "type": "data-notice", "data": notice, "transient": true })
            }
            UiStreamEvent::Ends(end) => return ends(end, out),
        };
        data(&part, out);
    }
}

fn kind(voice: UiTextKind, what: &str) -> String {
    match voice {
        UiTextKind::Text => format!("text-{what}"),
        UiTextKind::Reasoning => format!("reasoning-{what}"),
    }
}

/// Returns a tool part. The tools run on the server, unknown to clients in advance.
fn of_tool(kind: &str, call: &str, tool: Option<&str>) -> Value {
    // `dynamic` is for tools without a type in the client. `providerExecuted` keeps the SDK from running them.
    let mut part = json!({ "type": kind, "toolCallId": call, "dynamic": true, "providerExecuted": true });
    if let Some(tool) = tool {
        part["toolName"] = tool.into();
    }
    part
}

fn result(call: &str, outcome: UiToolOutcome, content: &[Part]) -> Value {
    match outcome {
        UiToolOutcome::Denied => json!({ "type": "tool-output-denied", "toolCallId": call }),
        UiToolOutcome::Failed => {
            let text = text_of(content);
            let mut part = of_tool("tool-output-error", call, None);
            part["errorText"] = if text.is_empty() { NO_WORDS.into() } else { text.into() };
            part
        }
        UiToolOutcome::Done => {
            let is_text = content.iter().all(|part| matches!(part, Part::Text(_)));
            let mut part = of_tool("tool-output-available", call, None);
            // Plain text is shown as it is. A list would be shown as JSON.
            part["output"] = if is_text { text_of(content).into() } else { json!(content) };
            part
        }
    }
}

fn ends(end: UiStreamEnd, out: &mut String) {
    match end {
        UiStreamEnd::Complete(run) if run.end == RunEnd::Cancelled => {
            // `abort` carries no metadata, so a part of its own comes before it.
            data(&json!({ "type": "message-metadata", "messageMetadata": run.to_json() }), out);
            data(&json!({ "type": "abort", "reason": "cancelled" }), out);
        }
        UiStreamEnd::Complete(run) => {
            // The SDK has no words for our other reasons. The metadata has the exact one.
            let reason = match run.end {
                RunEnd::Stop => "stop",
                RunEnd::Length => "length",
                _ => "other",
            };
            data(&json!({ "type": "finish", "finishReason": reason, "messageMetadata": run.to_json() }), out);
        }
        UiStreamEnd::Asks(_) => data(&json!({ "type": "finish", "finishReason": "tool-calls" }), out),
        UiStreamEnd::Waits { message } => {
            let notice = json!({ "event": "message:waits", "error": message });
            data(&json!({ "type": "data-notice", "data": notice, "transient": true }), out);
            data(&json!({ "type": "finish", "finishReason": "other" }), out);
        }
        UiStreamEnd::Failed { code, message } => {
            data(&json!({ "type": "error", "errorText": format!("{message} ({code})") }), out);
            data(&json!({ "type": "finish", "finishReason": "error" }), out);
        }
    }
    out.push_str("data: [DONE]\n\n");
}
