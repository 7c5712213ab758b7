//! An answer as events of AG-UI.

use serde_json::{Value, json};

use crate::dialect::{Act, Asked, Dialect, End, Voice, data, text_of};

/// Writes the events.
#[derive(Debug)]
pub(crate) struct Events {
    thread: String,
    run: String,
    /// Whether the client's state is an object, so that something can be added; `None`: it has none yet.
    takes_state: Option<bool>,
}

impl Events {
    /// Of that run, as the client calls it, which has that state.
    pub(crate) fn of(thread: &str, run: &str, state: &Value) -> Self {
        let takes_state = (!state.is_null()).then(|| state.is_object());
        Self { thread: thread.to_owned(), run: run.to_owned(), takes_state }
    }

    fn meter(&mut self, meter: Value) -> Value {
        let ours = json!({ "context": meter });
        match self.takes_state.replace(self.takes_state.unwrap_or(true)) {
            None => json!({ "type": "STATE_SNAPSHOT", "snapshot": { "longhaul": ours } }),
            Some(true) => {
                let patch = json!([{ "op": "add", "path": "/longhaul", "value": ours }]);
                json!({ "type": "STATE_DELTA", "delta": patch })
            }
            Some(false) => custom("context", ours["context"].clone()),
        }
    }

    fn ends(&self, end: End) -> Value {
        let mut event = json!({ "type": "RUN_FINISHED", "threadId": self.thread, "runId": self.run });
        match end {
            End::Complete { run } => {
                let outcome = if run["finishReason"] == "cancelled" { "cancelled" } else { "success" };
                event["outcome"] = json!({ "type": outcome });
                if let Some(usage) = usage(&run["usage"]) {
                    event["usage"] = json!([usage]);
                }
                event["result"] = run;
            }
            End::Asks(asked) => {
                let interrupts: Vec<Value> = asked.iter().map(interrupt).collect();
                event["outcome"] = json!({ "type": "interrupt", "interrupts": interrupts });
            }
            End::Waits { message } => {
                return json!({ "type": "RUN_ERROR", "message": message, "code": "conflict" });
            }
            End::Failed { code, message } => {
                return json!({ "type": "RUN_ERROR", "message": message, "code": code });
            }
        }
        event
    }
}

impl Dialect for Events {
    fn write(&mut self, act: Act, out: &mut String) {
        let event = match act {
            Act::Begins { .. } => {
                json!({ "type": "RUN_STARTED", "threadId": self.thread, "runId": self.run })
            }
            Act::StepBegins { step, .. } => json!({ "type": "STEP_STARTED", "stepName": step }),
            Act::StepEnds { step } => json!({ "type": "STEP_FINISHED", "stepName": step }),
            Act::VoiceBegins { voice: Voice::Text, part } => {
                json!({ "type": "TEXT_MESSAGE_START", "messageId": part, "role": "assistant" })
            }
            Act::VoiceBegins { voice: Voice::Reasoning, part } => {
                data(&json!({ "type": "REASONING_START", "messageId": part }), out);
                json!({ "type": "REASONING_MESSAGE_START", "messageId": part, "role": "reasoning" })
            }
            Act::Says { voice, part, text } => {
                let kind = match voice {
                    Voice::Text => "TEXT_MESSAGE_CONTENT",
                    Voice::Reasoning => "REASONING_MESSAGE_CONTENT",
                };
                json!({ "type": kind, "messageId": part, "delta": text })
            }
            Act::VoiceEnds { voice: Voice::Text, part } => {
                json!({ "type": "TEXT_MESSAGE_END", "messageId": part })
            }
            Act::VoiceEnds { voice: Voice::Reasoning, part } => {
                data(&json!({ "type": "REASONING_MESSAGE_END", "messageId": part }), out);
                json!({ "type": "REASONING_END", "messageId": part })
            }
            Act::CallBegins { call, tool, beside } => {
                json!({ "type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": tool, "parentMessageId": beside })
            }
            Act::CallWrites { call, text } => {
                json!({ "type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": text })
            }
            Act::CallReady { call, .. } => json!({ "type": "TOOL_CALL_END", "toolCallId": call }),
            Act::CallDropped { call, .. } => {
                data(&json!({ "type": "TOOL_CALL_END", "toolCallId": call }), out);
                result(&call, "[The call was never finished.]")
            }
            Act::Result { call, content, .. } => result(&call, &text_of(&content)),
            // It is told with the end of the run.
            Act::Asks { .. } => return,
            Act::Progress { call, text, offset } => {
                custom("tool-output", json!({ "toolCallId": call, "text": text, "offset": offset }))
            }
            Act::Meter(meter) => self.meter(meter),
            Act::Edit { kind, number, state } => {
                let id = format!("{}.{kind}-{number}", self.run);
                json!({ "type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": format!("longhaul.{kind}"), "content": state })
            }
            Act::Queue { ids, own } => {
                custom("queue", json!({ "count": ids.len(), "ids": ids, "position": own }))
            }
            Act::Notice(notice) => custom("notice", notice),
            Act::Ends(end) => self.ends(end),
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

fn interrupt(asked: &Asked) -> Value {
    json!({
        "id": asked.approval, "reason": "tool_call", "toolCallId": asked.call,
        "message": format!("May `{}` run?", asked.tool),
        "responseSchema": {
            "type": "object", "required": ["approved"],
            "properties": { "approved": { "type": "boolean" }, "reason": { "type": "string" } },
        },
    })
}

fn usage(usage: &Value) -> Option<Value> {
    usage.as_object()?;
    Some(json!({
        "inputTokens": usage["inputTokens"], "outputTokens": usage["outputTokens"],
        "totalTokens": usage["totalTokens"], "reasoningTokens": usage["reasoningTokens"],
        "cachedInputTokens": usage["cacheReadTokens"], "cacheWriteInputTokens": usage["cacheWriteTokens"],
    }))
}
