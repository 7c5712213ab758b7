//! The writer of Responses answers.

use crate::ModelEvent;
use bytes::Bytes;
use longhaul_core::message::{ModelAnswer, ModelStopReason, Part};
use longhaul_core::usage::Usage;
use serde_json::{Value, json};

use super::{
    ResponseHead, ResponseWriter, StreamedByteCounts, StreamedToolCall, call_id, grow, unsaid_calls,
};
use crate::edit::{GatewayError, PartialResponse, WireCodec as _};
use crate::responses::edit::ResponsesCodec;

/// A stream of items, one after another.
#[derive(Debug)]
pub(crate) struct ResponsesResponseWriter {
    head: ResponseHead,
    begun: bool,
    number: u64,
    /// The items that are done.
    items: Vec<Value>,
    open: Option<OpenResponsesItem>,
    calls: Vec<StreamedToolCall>,
    said: StreamedByteCounts,
    usage: Option<Usage>,
}

/// The item that is being written.
#[derive(Debug)]
struct OpenResponsesItem {
    kind: ResponsesItemKind,
    id: String,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponsesItemKind {
    Text,
    Reasoning,
    /// The call at that place.
    Call(usize),
}

impl ResponsesResponseWriter {
    /// Creates the writer of one answer.
    pub(crate) fn new(head: ResponseHead) -> Self {
        let (items, calls, said) = (Vec::new(), Vec::new(), StreamedByteCounts::default());
        Self { head, begun: false, number: 0, items, open: None, calls, said, usage: None }
    }

    fn write(&mut self, mut data: Value, out: &mut Vec<u8>) {
        // Every event has the next number, whatever its type, as OpenAI's own events do.
        data["sequence_number"] = self.number.into();
        self.number += 1;
        let name = data.get("type").and_then(Value::as_str).unwrap_or_default();
        out.extend_from_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let started = response(&self.head, "in_progress", &[], None);
        self.write(json!({ "type": "response.created", "response": started }), out);
        self.write(json!({ "type": "response.in_progress", "response": started }), out);
    }

    /// Writes an event about the open item's only part.
    fn part(&mut self, kind: &str, index_name: &str, more: &Value, out: &mut Vec<u8>) {
        let Some(open) = &self.open else { return };
        let mut data = json!({ "type": kind, "item_id": open.id, "output_index": self.items.len() });
        if !index_name.is_empty() {
            // Each item has a single part here, so its index is always 0.
            data[index_name] = 0.into();
        }
        for (name, value) in more.as_object().into_iter().flatten() {
            data[name] = value.clone();
        }
        self.write(data, out);
    }

    fn open(&mut self, kind: ResponsesItemKind, out: &mut Vec<u8>) {
        self.close(out);
        self.begin(out);
        let prefix = match kind {
            ResponsesItemKind::Text => "msg",
            ResponsesItemKind::Reasoning => "rs",
            ResponsesItemKind::Call(_) => "fc",
        };
        let id = format!("{prefix}_{}_{}", self.head.id, self.items.len());
        let open = OpenResponsesItem { kind, id, text: String::new() };
        let item = self.item(&open, "in_progress");
        self.open = Some(open);
        self.write(
            json!({ "type": "response.output_item.added", "output_index": self.items.len(), "item": item }),
            out,
        );
        match kind {
            ResponsesItemKind::Text => {
                let part = json!({ "type": "output_text", "text": "", "annotations": [], "logprobs": [] });
                self.part("response.content_part.added", "content_index", &json!({ "part": part }), out);
            }
            ResponsesItemKind::Reasoning => {
                let part = json!({ "part": { "type": "summary_text", "text": "" } });
                self.part("response.reasoning_summary_part.added", "summary_index", &part, out);
            }
            ResponsesItemKind::Call(_) => {}
        }
    }

    /// Returns an item with the content so far.
    fn item(&self, open: &OpenResponsesItem, status: &str) -> Value {
        // An item that has just begun is announced without content.
        let done = status != "in_progress";
        match open.kind {
            ResponsesItemKind::Text => message(&open.id, done.then_some(open.text.as_str()), status),
            ResponsesItemKind::Reasoning => reasoning(&open.id, done.then_some(open.text.as_str())),
            ResponsesItemKind::Call(place) => {
                let name = self.calls.get(place).map(|call| call.name.as_str()).unwrap_or_default();
                let call = call_id("call", &self.head, place, None);
                called(&self.head, &open.id, &call, name, &open.text, status)
            }
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let Some(open) = &self.open else { return };
        // Cloned, because writing the events needs the whole writer.
        let (text, item) = (open.text.clone(), self.item(open, "completed"));
        match open.kind {
            ResponsesItemKind::Text => {
                self.part(
                    "response.output_text.done",
                    "content_index",
                    &json!({ "text": text, "logprobs": [] }),
                    out,
                );
                let part = json!({ "part": item["content"][0] });
                self.part("response.content_part.done", "content_index", &part, out);
            }
            ResponsesItemKind::Reasoning => {
                self.part(
                    "response.reasoning_summary_text.done",
                    "summary_index",
                    &json!({ "text": text }),
                    out,
                );
                let part = json!({ "part": item["summary"][0] });
                self.part("response.reasoning_summary_part.done", "summary_index", &part, out);
            }
            ResponsesItemKind::Call(_) if item["type"] == "custom_tool_call" => {
                let input = json!({ "input": item["input"] });
                self.part("response.custom_tool_call_input.done", "", &input, out);
            }
            ResponsesItemKind::Call(_) => {
                self.part("response.function_call_arguments.done", "", &json!({ "arguments": text }), out);
            }
        }
        self.write(
            json!({ "type": "response.output_item.done", "output_index": self.items.len(), "item": item }),
            out,
        );
        self.items.push(item);
        self.open = None;
    }

    /// Writes more of a text or of reasoning.
    fn say(&mut self, kind: ResponsesItemKind, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.flush_calls(out);
            self.open(kind, out);
        }
        if let Some(open) = &mut self.open {
            open.text.push_str(text);
        }
        if kind == ResponsesItemKind::Text {
            self.said.text_bytes += text.len();
            let more = json!({ "delta": text, "logprobs": [] });
            self.part("response.output_text.delta", "content_index", &more, out);
        } else {
            self.said.reasoning_bytes += text.len();
            self.part(
                "response.reasoning_summary_text.delta",
                "summary_index",
                &json!({ "delta": text }),
                out,
            );
        }
    }

    fn call(&mut self, index: usize, name: Option<&str>, delta: &str, out: &mut Vec<u8>) {
        let place = grow(&mut self.calls, index, name, delta);
        let waits = self
            .open
            .as_ref()
            .is_some_and(|open| matches!(open.kind, ResponsesItemKind::Call(open) if open != place));
        if !waits {
            self.advance(place, out);
        }
    }

    /// Writes the waiting pieces of a call.
    fn advance(&mut self, place: usize, out: &mut Vec<u8>) {
        let is_open = self.open.as_ref().is_some_and(|open| open.kind == ResponsesItemKind::Call(place));
        // An item that is done cannot be opened again, so late pieces of its call are lost.
        let Some(call) = self.calls.get_mut(place).filter(|call| is_open || !call.begun) else { return };
        let more = std::mem::take(&mut call.waiting);
        call.sent_bytes += more.len();
        let is_custom = self.head.custom_tools.contains(&call.name);
        if !std::mem::replace(&mut call.begun, true) {
            self.open(ResponsesItemKind::Call(place), out);
        }
        if let Some(open) = &mut self.open {
            open.text.push_str(&more);
        }
        // A custom tool's input is a text inside the JSON arguments. It can be decoded only from complete JSON.
        if !more.is_empty() && !is_custom {
            self.part("response.function_call_arguments.delta", "", &json!({ "delta": more }), out);
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
        // An item that is closed cannot be opened again. So an open call gets its rest before anything else.
        let calls_first =
            self.open.as_ref().is_some_and(|open| matches!(open.kind, ResponsesItemKind::Call(_)));
        if calls_first {
            self.rest_of_calls(answer, out);
        }
        if let Some(rest) = self.said.unsaid_reasoning(answer) {
            self.say(ResponsesItemKind::Reasoning, &rest, out);
        }
        if let Some(rest) = self.said.unsaid_text(answer) {
            self.say(ResponsesItemKind::Text, &rest, out);
        }
        if !calls_first {
            self.rest_of_calls(answer, out);
        }
        self.flush_calls(out);
        self.close(out);
        let (status, kind) = match status(answer.finish) {
            "completed" => ("completed", "response.completed"),
            other => (other, "response.incomplete"),
        };
        let mut whole =
            response(&self.head, status, &self.items, answer.usage.as_ref().or(self.usage.as_ref()));
        whole["incomplete_details"] = details(answer.finish);
        self.write(json!({ "type": kind, "response": whole }), out);
    }
}

impl ResponseWriter for ResponsesResponseWriter {
    fn event(&mut self, event: &ModelEvent, out: &mut Vec<u8>) {
        match event {
            ModelEvent::Text(text) => self.say(ResponsesItemKind::Text, text, out),
            ModelEvent::Reasoning(text) => self.say(ResponsesItemKind::Reasoning, text, out),
            ModelEvent::ToolInput { index, name, delta } => self.call(*index, name.as_deref(), delta, out),
            ModelEvent::PartDone(_) => {}
            ModelEvent::Usage(usage) => self.usage = Some(usage.clone()),
            ModelEvent::Finished(answer) => self.finish(answer, out),
        }
    }

    fn write_error(&mut self, fault: &GatewayError, out: &mut Vec<u8>) {
        // The failed response has the id and the numbers of the stream, so that clients relate it to the answer.
        let id = Some(format!("resp_{}", self.head.id));
        let seen = PartialResponse { id, number: self.number.checked_sub(1), ..PartialResponse::default() };
        out.extend_from_slice(&ResponsesCodec.error_event_after(fault, &seen));
    }
}

/// Returns the answer as one object.
pub(crate) fn whole(head: &ResponseHead, answer: &ModelAnswer) -> Bytes {
    let mut items = Vec::new();
    let mut calls = 0;
    for part in &answer.parts {
        let place = items.len();
        match part {
            Part::Text(text) if !text.text.is_empty() => {
                items.push(message(&format!("msg_{}_{place}", head.id), Some(&text.text), "completed"));
            }
            Part::Reasoning(said) if !said.text.is_empty() => {
                items.push(reasoning(&format!("rs_{}_{place}", head.id), Some(&said.text)));
            }
            Part::ToolCall(call) => {
                let (id, name) =
                    (format!("fc_{}_{place}", head.id), call_id("call", head, calls, Some(call)));
                items.push(called(head, &id, &name, &call.name, &call.arguments, "completed"));
                calls += 1;
            }
            _ => {}
        }
    }
    let mut whole = response(head, status(answer.finish), &items, answer.usage.as_ref());
    whole["incomplete_details"] = details(answer.finish);
    whole.to_string().into()
}

fn message(id: &str, text: Option<&str>, status: &str) -> Value {
    let content: Vec<Value> = text
        .into_iter()
        .map(|text| json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }))
        .collect();
    json!({ "type": "message", "id": id, "role": "assistant", "status": status, "content": content })
}

fn reasoning(id: &str, text: Option<&str>) -> Value {
    let summary: Vec<Value> =
        text.into_iter().map(|text| json!({ "type": "summary_text", "text": text })).collect();
    json!({ "type": "reasoning", "id": id, "summary": summary })
}

fn called(head: &ResponseHead, id: &str, call: &str, name: &str, arguments: &str, status: &str) -> Value {
    let mut item = if head.custom_tools.iter().any(|custom| custom == name) {
        let object = serde_json::from_str::<Value>(arguments).unwrap_or_default();
        // A model that ignored the schema has meant the arguments' text itself.
        let input = object.get("input").and_then(Value::as_str).unwrap_or(arguments);
        json!({ "type": "custom_tool_call", "id": id, "call_id": call, "name": name, "input": input, "status": status })
    } else {
        json!({ "type": "function_call", "id": id, "call_id": call, "name": name,
            "arguments": arguments, "status": status })
    };
    // The upstream knows the flat name only; the client expects its own pair.
    if let Some(own) = head.namespaced_tools.get(name) {
        item["name"] = own.name.as_str().into();
        item["namespace"] = own.namespace.as_str().into();
    }
    item
}

fn status(finish: ModelStopReason) -> &'static str {
    match finish {
        ModelStopReason::Length | ModelStopReason::ContentFilter => "incomplete",
        _ => "completed",
    }
}

fn details(finish: ModelStopReason) -> Value {
    match finish {
        ModelStopReason::Length => json!({ "reason": "max_output_tokens" }),
        ModelStopReason::ContentFilter => json!({ "reason": "content_filter" }),
        _ => Value::Null,
    }
}

fn response(head: &ResponseHead, status: &str, items: &[Value], used: Option<&Usage>) -> Value {
    json!({
        "id": format!("resp_{}", head.id),
        "object": "response",
        "created_at": head.created,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "model": head.model,
        "output": items,
        "parallel_tool_calls": true,
        "usage": used.map(usage),
    })
}

fn usage(used: &Usage) -> Value {
    json!({
        "input_tokens": used.input_tokens,
        "input_tokens_details": { "cached_tokens": used.cache_read_tokens },
        "output_tokens": used.output_tokens,
        "output_tokens_details": { "reasoning_tokens": used.reasoning_tokens },
        "total_tokens": used.total_tokens(),
    })
}
