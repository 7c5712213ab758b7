//! An answer as parts of the AI SDK's UI message stream.

use serde_json::{Value, json};

use crate::dialect::{Act, Dialect, End, Outcome, Voice, data, text_of};

/// What is said where a tool gave nothing to read.
const NO_WORDS: &str = "The tool failed.";

/// Writes the parts.
#[derive(Debug)]
pub(crate) struct Parts {
    session: String,
}

impl Parts {
    /// Of an answer in that session.
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

impl Dialect for Parts {
    fn write(&mut self, act: Act, out: &mut String) {
        let part = match act {
            Act::Begins { name } => self.begins(name),
            // Its beginning stands in the part of the message that the reader has.
            Act::StepBegins { again: true, .. } => return,
            Act::StepBegins { .. } => json!({ "type": "start-step" }),
            Act::StepEnds { .. } => json!({ "type": "finish-step" }),
            Act::VoiceBegins { voice, part } => json!({ "type": kind(voice, "start"), "id": part }),
            Act::Says { voice, part, text } => {
                json!({ "type": kind(voice, "delta"), "id": part, "delta": text })
            }
            Act::VoiceEnds { voice, part } => json!({ "type": kind(voice, "end"), "id": part }),
            Act::CallBegins { call, tool, .. } => of_tool("tool-input-start", &call, Some(&tool)),
            Act::CallWrites { call, text } => {
                json!({ "type": "tool-input-delta", "toolCallId": call, "inputTextDelta": text })
            }
            Act::CallReady { call, tool, arguments } => {
                let mut part = of_tool("tool-input-available", &call, Some(&tool));
                part["input"] = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
                part
            }
            Act::CallDropped { call, tool, arguments } => {
                let mut part = of_tool("tool-input-error", &call, Some(&tool));
                part["input"] = arguments.into();
                part["errorText"] = "The call was never finished.".into();
                part
            }
            Act::Asks { call, approval } => {
                json!({ "type": "tool-approval-request", "approvalId": approval, "toolCallId": call })
            }
            Act::Result { call, outcome, content } => result(&call, outcome, content),
            Act::Progress { call, text, offset } => {
                let progress = json!({ "toolCallId": call, "text": text, "offset": offset });
                json!({ "type": "data-tool-output", "data": progress, "transient": true })
            }
            Act::Meter(meter) => json!({ "type": "data-context", "id": "context", "data": meter }),
            Act::Edit { kind, number, state } => {
                json!({ "type": format!("data-{kind}"), "id": format!("{kind}-{number}"), "data": state })
            }
            Act::Queue { ids, own } => {
                let queue = json!({ "count": ids.len(), "ids": ids, "position": own });
                json!({ "type": "data-queue", "data": queue, "transient": true })
            }
            Act::Notice(notice) => json!({ "type": "data-notice", "data": notice, "transient": true }),
            Act::Ends(end) => return ends(end, out),
        };
        data(&part, out);
    }
}

fn kind(voice: Voice, what: &str) -> String {
    match voice {
        Voice::Text => format!("text-{what}"),
        Voice::Reasoning => format!("reasoning-{what}"),
    }
}

/// Tools run here, and no client knows them beforehand.
fn of_tool(kind: &str, call: &str, tool: Option<&str>) -> Value {
    let mut part = json!({ "type": kind, "toolCallId": call, "dynamic": true, "providerExecuted": true });
    if let Some(tool) = tool {
        part["toolName"] = tool.into();
    }
    part
}

fn result(call: &str, outcome: Outcome, content: Vec<Value>) -> Value {
    match outcome {
        Outcome::Denied => json!({ "type": "tool-output-denied", "toolCallId": call }),
        Outcome::Failed => {
            let text = text_of(&content);
            let mut part = of_tool("tool-output-error", call, None);
            part["errorText"] = if text.is_empty() { NO_WORDS.into() } else { text.into() };
            part
        }
        Outcome::Done => {
            let is_text = content.iter().all(|part| part["type"] == "text");
            let mut part = of_tool("tool-output-available", call, None);
            part["output"] = if is_text { text_of(&content).into() } else { content.into() };
            part
        }
    }
}

fn ends(end: End, out: &mut String) {
    match end {
        End::Complete { run } if run["finishReason"] == "cancelled" => {
            data(&json!({ "type": "message-metadata", "messageMetadata": run }), out);
            data(&json!({ "type": "abort", "reason": "cancelled" }), out);
        }
        End::Complete { run } => {
            let reason = match run["finishReason"].as_str() {
                Some("stop") => "stop",
                Some("length") => "length",
                _ => "other",
            };
            data(&json!({ "type": "finish", "finishReason": reason, "messageMetadata": run }), out);
        }
        End::Asks(_) => data(&json!({ "type": "finish", "finishReason": "tool-calls" }), out),
        End::Waits { message } => {
            let notice = json!({ "event": "message:waits", "error": message });
            data(&json!({ "type": "data-notice", "data": notice, "transient": true }), out);
            data(&json!({ "type": "finish", "finishReason": "other" }), out);
        }
        End::Failed { code, message } => {
            data(&json!({ "type": "error", "errorText": format!("{message} ({code})") }), out);
            data(&json!({ "type": "finish", "finishReason": "error" }), out);
        }
    }
    out.push_str("data: [DONE]\n\n");
}
