//! The writer of Messages answers.

use crate::ModelEvent;
use bytes::Bytes;
use longhaul_core::message::{ModelAnswer, ModelStopReason, Part};
use longhaul_core::usage::Usage;
use serde_json::{Value, json};

use super::{
    ResponseHead, ResponseWriter, StreamedByteCounts, StreamedToolCall, arguments_object, call_id, grow,
    unsaid_calls,
};
use crate::edit::{GatewayError, WireCodec as _};
use crate::messages::edit::MessagesCodec;

/// A stream of blocks, one after another.
#[derive(Debug)]
pub(crate) struct MessagesResponseWriter {
    head: ResponseHead,
    begun: bool,
    /// The number of blocks that were begun.
    blocks: u64,
    open: Option<MessagesBlockKind>,
    calls: Vec<StreamedToolCall>,
    said: StreamedByteCounts,
    usage: Option<Usage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessagesBlockKind {
    Text,
    Thinking,
    /// The call of that index.
    Call(usize),
}

impl MessagesResponseWriter {
    /// Creates the writer of one answer.
    pub(crate) fn new(head: ResponseHead) -> Self {
        let (calls, said) = (Vec::new(), StreamedByteCounts::default());
        Self { head, begun: false, blocks: 0, open: None, calls, said, usage: None }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        // Written with the first content, so that a failure before it leaves no message that was begun.
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let usage = json!({ "input_tokens": self.head.input_tokens, "output_tokens": 0 });
        let message = json!({
            "id": format!("msg_{}", self.head.id),
            "type": "message",
            "role": "assistant",
            "model": self.head.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": usage,
        });
        write(&json!({ "type": "message_start", "message": message }), out);
    }

    fn open(&mut self, kind: MessagesBlockKind, block: &Value, out: &mut Vec<u8>) {
        // The blocks of this dialect come one after another.
        self.close(out);
        self.begin(out);
        self.open = Some(kind);
        self.blocks += 1;
        write(
            &json!({ "type": "content_block_start", "index": self.blocks - 1, "content_block": block }),
            out,
        );
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.open.take().is_some() {
            write(&json!({ "type": "content_block_stop", "index": self.blocks - 1 }), out);
        }
    }

    fn delta(&self, delta: &Value, out: &mut Vec<u8>) {
        write(
            &json!({ "type": "content_block_delta", "index": self.blocks.saturating_sub(1), "delta": delta }),
            out,
        );
    }

    fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        // An empty piece would open a block for nothing.
        if text.is_empty() {
            return;
        }
        self.said.text_bytes += text.len();
        if self.open != Some(MessagesBlockKind::Text) {
            // Waiting calls come first, because the model wrote them before this text.
            self.flush_calls(out);
            self.open(MessagesBlockKind::Text, &json!({ "type": "text", "text": "" }), out);
        }
        self.delta(&json!({ "type": "text_delta", "text": text }), out);
    }

    fn thinking(&mut self, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        self.said.reasoning_bytes += text.len();
        if self.open != Some(MessagesBlockKind::Thinking) {
            self.flush_calls(out);
            self.open(
                MessagesBlockKind::Thinking,
                // No signature of Anthropic's exists for another model's thinking, but the block's form has the
                // field.
                &json!({ "type": "thinking", "thinking": "", "signature": "" }),
                out,
            );
        }
        self.delta(&json!({ "type": "thinking_delta", "thinking": text }), out);
    }

    fn call(&mut self, index: usize, name: Option<&str>, delta: &str, out: &mut Vec<u8>) {
        let place = grow(&mut self.calls, index, name, delta);
        // Blocks come one after another. The pieces of another call wait until the open one is closed.
        if !matches!(self.open, Some(MessagesBlockKind::Call(open)) if open != place) {
            self.advance(place, out);
        }
    }

    /// Writes the waiting pieces of a call.
    fn advance(&mut self, place: usize, out: &mut Vec<u8>) {
        let is_open = self.open == Some(MessagesBlockKind::Call(place));
        // A block that is closed cannot be opened again, so late pieces of its call are lost.
        let Some(call) = self.calls.get_mut(place).filter(|call| is_open || !call.begun) else { return };
        let more = std::mem::take(&mut call.waiting);
        call.sent_bytes += more.len();
        if !std::mem::replace(&mut call.begun, true) {
            let (id, name) = (call_id("toolu", &self.head, place, None), call.name.clone());
            let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
            self.open(MessagesBlockKind::Call(place), &block, out);
        }
        if !more.is_empty() {
            self.delta(&json!({ "type": "input_json_delta", "partial_json": more }), out);
        }
    }

    /// Writes the calls that waited for another.
    fn flush_calls(&mut self, out: &mut Vec<u8>) {
        for place in 0..self.calls.len() {
            if self.calls.get(place).is_some_and(|call| !call.begun) {
                self.advance(place, out);
            }
        }
    }

    fn rest_of_calls(&mut self, answer: &ModelAnswer, out: &mut Vec<u8>) {
        for (index, name, rest) in unsaid_calls(&self.calls, answer) {
            self.call(index, Some(&name), &rest, out);
        }
    }

    fn finish(&mut self, answer: &ModelAnswer, out: &mut Vec<u8>) {
        self.begin(out);
        // A block that is closed cannot be opened again. So an open call gets its rest before anything else.
        let calls_first = matches!(self.open, Some(MessagesBlockKind::Call(_)));
        if calls_first {
            self.rest_of_calls(answer, out);
        }
        if let Some(rest) = self.said.unsaid_reasoning(answer) {
            self.thinking(&rest, out);
        }
        if let Some(rest) = self.said.unsaid_text(answer) {
            self.text(&rest, out);
        }
        if !calls_first {
            self.rest_of_calls(answer, out);
        }
        self.flush_calls(out);
        self.close(out);
        let used = answer
            .usage
            .as_ref()
            .or(self.usage.as_ref())
            .map_or_else(|| json!({ "input_tokens": self.head.input_tokens, "output_tokens": 0 }), usage);
        let delta = json!({ "stop_reason": reason(answer.finish), "stop_sequence": null });
        write(&json!({ "type": "message_delta", "delta": delta, "usage": used }), out);
        write(&json!({ "type": "message_stop" }), out);
    }
}

impl ResponseWriter for MessagesResponseWriter {
    fn event(&mut self, event: &ModelEvent, out: &mut Vec<u8>) {
        match event {
            ModelEvent::Text(text) => self.text(text, out),
            ModelEvent::Reasoning(text) => self.thinking(text, out),
            ModelEvent::ToolInput { index, name, delta } => self.call(*index, name.as_deref(), delta, out),
            // Its content was in the pieces before it.
            ModelEvent::PartDone(_) => {}
            ModelEvent::Usage(usage) => self.usage = Some(usage.clone()),
            ModelEvent::Finished(answer) => self.finish(answer, out),
        }
    }

    fn write_error(&mut self, fault: &GatewayError, out: &mut Vec<u8>) {
        out.extend_from_slice(&MessagesCodec.error_event(fault));
    }
}

fn write(data: &Value, out: &mut Vec<u8>) {
    let name = data.get("type").and_then(Value::as_str).unwrap_or_default();
    out.extend_from_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
}

/// Returns the answer as one object.
pub(crate) fn whole(head: &ResponseHead, answer: &ModelAnswer) -> Bytes {
    let mut content = Vec::new();
    let mut called = 0;
    for part in &answer.parts {
        match part {
            Part::Text(text) if !text.text.is_empty() => {
                content.push(json!({ "type": "text", "text": text.text }));
            }
            Part::Reasoning(reasoning) if !reasoning.text.is_empty() => {
                content.push(json!({ "type": "thinking", "thinking": reasoning.text, "signature": "" }));
            }
            Part::ToolCall(call) => {
                let id = call_id("toolu", head, called, Some(call));
                called += 1;
                let input = arguments_object(&call.arguments);
                content.push(json!({ "type": "tool_use", "id": id, "name": call.name, "input": input }));
            }
            _ => {}
        }
    }
    let none = Usage::default();
    json!({
        "id": format!("msg_{}", head.id),
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": content,
        "stop_reason": reason(answer.finish),
        "stop_sequence": null,
        "usage": usage(answer.usage.as_ref().unwrap_or(&none)),
    })
    .to_string()
    .into()
}

fn reason(finish: ModelStopReason) -> &'static str {
    match finish {
        ModelStopReason::ToolCalls => "tool_use",
        ModelStopReason::Length => "max_tokens",
        ModelStopReason::ContentFilter => "refusal",
        _ => "end_turn",
    }
}

/// Returns the usage. Anthropic counts cache reads and cache writes beside the input, not as part of it.
fn usage(used: &Usage) -> Value {
    let cached = used.cache_read_tokens.saturating_add(used.cache_write_tokens);
    json!({
        "input_tokens": used.input_tokens.saturating_sub(cached),
        "cache_creation_input_tokens": used.cache_write_tokens,
        "cache_read_input_tokens": used.cache_read_tokens,
        "output_tokens": used.output_tokens,
    })
}
