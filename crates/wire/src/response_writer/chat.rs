//! The writer of Chat Completions answers.

use crate::ModelEvent;
use bytes::Bytes;
use longhaul_core::message::{ModelAnswer, ModelStopReason, Part};
use longhaul_core::usage::Usage;
use serde_json::{Value, json};

use super::{ResponseHead, ResponseWriter, StreamedByteCounts, call_id, calls};
use crate::chat::edit::ChatCodec;
use crate::edit::{GatewayError, WireCodec as _};

/// A stream of chunks.
#[derive(Debug)]
pub(crate) struct ChatResponseWriter {
    head: ResponseHead,
    begun: bool,
    /// The client's indices of the model's calls, by the model's index, and the number of argument bytes that
    /// were sent.
    calls: Vec<(usize, usize)>,
    said: StreamedByteCounts,
    usage: Option<Usage>,
}

impl ChatResponseWriter {
    /// Creates the writer of one answer.
    pub(crate) fn new(head: ResponseHead) -> Self {
        Self { head, begun: false, calls: Vec::new(), said: StreamedByteCounts::default(), usage: None }
    }

    fn chunk(&mut self, delta: &Value, finish: Option<&str>, out: &mut Vec<u8>) {
        if !self.begun {
            self.begun = true;
            // OpenAI's streams begin with the role and an empty text.
            self.choice(&json!({ "role": "assistant", "content": "" }), None, out);
        }
        self.choice(delta, finish, out);
    }

    fn choice(&self, delta: &Value, finish: Option<&str>, out: &mut Vec<u8>) {
        let choices = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        self.write(&choices, None, out);
    }

    fn write(&self, choices: &Value, usage: Option<&Value>, out: &mut Vec<u8>) {
        let mut chunk = json!({
            "id": format!("chatcmpl-{}", self.head.id),
            "object": "chat.completion.chunk",
            "created": self.head.created,
            "model": self.head.model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage.clone();
        }
        out.extend_from_slice(format!("data: {chunk}\n\n").as_bytes());
    }

    fn call(&mut self, index: usize, name: Option<&str>, delta: &str, out: &mut Vec<u8>) {
        let known = self.calls.iter().position(|(theirs, _)| *theirs == index);
        let place = known.unwrap_or(self.calls.len());
        if known.is_none() {
            self.calls.push((index, 0));
            let function = json!({ "name": name.unwrap_or_default(), "arguments": "" });
            let id = call_id("call", &self.head, place, None);
            let call = json!({ "index": place, "id": id, "type": "function", "function": function });
            self.chunk(&json!({ "tool_calls": [call] }), None, out);
        }
        if !delta.is_empty() {
            if let Some((_, sent_bytes)) = self.calls.get_mut(place) {
                *sent_bytes += delta.len();
            }
            let call = json!({ "index": place, "function": { "arguments": delta } });
            self.chunk(&json!({ "tool_calls": [call] }), None, out);
        }
    }

    fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        self.said.text_bytes += text.len();
        self.chunk(&json!({ "content": text }), None, out);
    }

    fn reasoning(&mut self, text: &str, out: &mut Vec<u8>) {
        self.said.reasoning_bytes += text.len();
        // The field of DeepSeek, vLLM and others: OpenAI's own API has none for reasoning.
        self.chunk(&json!({ "reasoning_content": text }), None, out);
    }

    fn finish(&mut self, answer: &ModelAnswer, out: &mut Vec<u8>) {
        if let Some(rest) = self.said.unsaid_reasoning(answer) {
            self.reasoning(&rest, out);
        }
        if let Some(rest) = self.said.unsaid_text(answer) {
            self.text(&rest, out);
        }
        for (index, call) in calls(answer).enumerate() {
            // A call without arguments may have had no event of its own.
            let sent_bytes =
                self.calls.iter().find(|(theirs, _)| *theirs == index).map_or(0, |(_, sent)| *sent);
            let rest = call.arguments.get(sent_bytes..).unwrap_or_default().to_owned();
            self.call(index, Some(&call.name), &rest, out);
        }
        self.chunk(&json!({}), Some(reason(answer.finish)), out);
        let used = answer.usage.as_ref().or(self.usage.as_ref()).map(usage);
        if let Some(usage) = used.filter(|_| self.head.include_usage) {
            // OpenAI reports usage in a chunk without choices, behind the finish.
            self.write(&json!([]), Some(&usage), out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

impl ResponseWriter for ChatResponseWriter {
    fn event(&mut self, event: &ModelEvent, out: &mut Vec<u8>) {
        match event {
            ModelEvent::Text(text) => self.text(text, out),
            ModelEvent::Reasoning(text) => self.reasoning(text, out),
            ModelEvent::ToolInput { index, name, delta } => self.call(*index, name.as_deref(), delta, out),
            ModelEvent::PartDone(_) => {}
            ModelEvent::Usage(usage) => self.usage = Some(usage.clone()),
            ModelEvent::Finished(answer) => self.finish(answer, out),
        }
    }

    fn write_error(&mut self, fault: &GatewayError, out: &mut Vec<u8>) {
        out.extend_from_slice(&ChatCodec.error_event(fault));
    }
}

/// Returns the answer as one object.
pub(crate) fn whole(head: &ResponseHead, answer: &ModelAnswer) -> Bytes {
    let text: String = answer.parts.iter().filter_map(Part::as_text).collect();
    let reasoning = StreamedByteCounts::default().unsaid_reasoning(answer);
    let calls: Vec<Value> = calls(answer)
        .enumerate()
        .map(|(index, call)| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": call_id("call", head, index, Some(call)), "type": "function", "function": function })
        })
        .collect();
    let mut message = json!({ "role": "assistant", "content": text });
    if text.is_empty() && !calls.is_empty() {
        // OpenAI writes `null` where a message has only calls.
        message["content"] = Value::Null;
    }
    if let Some(reasoning) = reasoning {
        message["reasoning_content"] = reasoning.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choice = json!({ "index": 0, "message": message, "finish_reason": reason(answer.finish) });
    let mut body = json!({
        "id": format!("chatcmpl-{}", head.id),
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": [choice],
    });
    if let Some(used) = &answer.usage {
        body["usage"] = usage(used);
    }
    body.to_string().into()
}

fn reason(finish: ModelStopReason) -> &'static str {
    match finish {
        ModelStopReason::ToolCalls => "tool_calls",
        ModelStopReason::Length => "length",
        ModelStopReason::ContentFilter => "content_filter",
        _ => "stop",
    }
}

fn usage(used: &Usage) -> Value {
    json!({
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.total_tokens(),
        "prompt_tokens_details": { "cached_tokens": used.cache_read_tokens },
        "completion_tokens_details": { "reasoning_tokens": used.reasoning_tokens },
    })
}
