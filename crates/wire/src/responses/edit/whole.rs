//! Whole answers: unstreamed answers, and the answer of a stream's events.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::item::{BorrowedResponsesItem, reasoning};
use super::stream_parser::{ResponsesStreamEvent, finish};
use crate::edit::{AnswerEvents, PartialResponse, PartialToolCall};
use crate::finish::failed_for;
use crate::raw_json::{elements, field, fields, string, text_field, with_field};
use crate::sse::SseEvent;
use crate::usage::responses_usage;

/// Parses an answer that was not streamed.
pub(super) fn answer(body: &str) -> Option<PartialResponse> {
    let said = fields(body)?;
    // Errors and other objects are no answers.
    if text_field(&said, "object").as_deref() != Some("response") {
        return None;
    }
    let mut seen = PartialResponse { id: text_field(&said, "id"), over: true, ..PartialResponse::default() };
    for item in elements(field(&said, "output")?)?
        .into_iter()
        .filter_map(|item| BorrowedResponsesItem::read(item, 0).ok())
    {
        read(&item, &mut seen);
    }
    let called = !seen.calls.is_empty();
    // Compatible servers may leave the status out of a whole answer.
    let status = text_field(&said, "status").unwrap_or_else(|| "completed".to_owned());
    seen.finish = finish(&status, field(&said, "incomplete_details"), called);
    seen.usage = field(&said, "usage").and_then(responses_usage);
    seen.error = field(&said, "error").filter(|error| *error != "null").map(|_| body.to_owned());
    if status == "failed" {
        seen.error = seen.error.or_else(|| Some(failed_for(&status)));
    }
    Some(seen)
}

/// Returns a whole answer as the events of a stream.
pub(super) fn events(body: &str) -> Option<AnswerEvents> {
    let said = fields(body)?;
    let unset = [
        ("status", "\"in_progress\""),
        ("output", "[]"),
        ("error", "null"),
        ("incomplete_details", "null"),
        ("usage", "null"),
    ];
    let begun = unset
        .into_iter()
        .try_fold(body.to_owned(), |response, (name, value)| with_field(&response, name, value))?;
    let mut written = EventList::default();
    written.write("response.created", &format!(r#""response":{begun}"#));
    for (index, item) in elements(field(&said, "output")?)?.into_iter().enumerate() {
        written.write_item(index, item)?;
    }
    let content = written.events.clone();
    let status = text_field(&said, "status").unwrap_or_else(|| "completed".to_owned());
    written.write(&format!("response.{status}"), &format!(r#""response":{body}"#));
    Some(AnswerEvents { end: written.events.split_off(content.len()), content })
}

/// The events of a whole answer, numbered from 0.
#[derive(Default)]
struct EventList {
    events: Vec<Bytes>,
}

impl EventList {
    /// Writes an event with these fields behind its type and number.
    fn write(&mut self, kind: &str, fields: &str) {
        let number = self.events.len();
        let data = format!(r#"{{"type":"{kind}","sequence_number":{number},{fields}}}"#);
        self.events.push(format!("event: {kind}\ndata: {data}\n\n").into());
    }

    /// Writes the events of an item. Only the texts of a message have events of their own.
    fn write_item(&mut self, index: usize, item: &str) -> Option<()> {
        let said = fields(item)?;
        let is_message = text_field(&said, "type").as_deref() == Some("message");
        let begun = match is_message {
            true => with_field(&with_field(item, "content", "[]")?, "status", "\"in_progress\"")?,
            false => item.to_owned(),
        };
        self.write("response.output_item.added", &format!(r#""output_index":{index},"item":{begun}"#));
        let id = field(&said, "id").unwrap_or("\"\"");
        let parts = if is_message { elements(field(&said, "content")?)? } else { Vec::new() };
        for (at, part) in parts.into_iter().enumerate() {
            self.write_part(&format!(r#""item_id":{id},"output_index":{index},"content_index":{at}"#), part)?;
        }
        self.write("response.output_item.done", &format!(r#""output_index":{index},"item":{item}"#));
        Some(())
    }

    fn write_part(&mut self, place: &str, part: &str) -> Option<()> {
        let said = fields(part)?;
        let text = field(&said, "text").filter(|text| text.starts_with('"'));
        let begun = if text.is_some() { with_field(part, "text", "\"\"")? } else { part.to_owned() };
        self.write("response.content_part.added", &format!(r#"{place},"part":{begun}"#));
        if let Some(text) = text {
            self.write("response.output_text.delta", &format!(r#"{place},"delta":{text}"#));
            self.write("response.output_text.done", &format!(r#"{place},"text":{text}"#));
        }
        self.write("response.content_part.done", &format!(r#"{place},"part":{part}"#));
        Some(())
    }
}

fn read(item: &BorrowedResponsesItem<'_>, seen: &mut PartialResponse) {
    match item.kind.as_str() {
        "message" => {
            for part in field(&item.fields, "content").and_then(elements).unwrap_or_default() {
                let Some(part) = fields(part) else { continue };
                let said = field(&part, "text").or(field(&part, "refusal")).and_then(string);
                seen.text.push_str(&said.unwrap_or_default());
            }
        }
        "reasoning" => seen.reasoning.push_str(&reasoning(item)),
        "function_call" | "custom_tool_call" => {
            let arguments = item.text("arguments").or_else(|| item.text("input")).unwrap_or_default();
            seen.calls.push(PartialToolCall {
                id: item.text("call_id").unwrap_or_default(),
                name: item.text("name").unwrap_or_default(),
                arguments,
            });
        }
        _ => seen.has_other = true,
    }
}

/// Returns the response that a stream's last event repeats as a whole. If that copy has no output, the finished
/// items are its output.
pub(super) fn collect(events: &[Bytes]) -> Option<Bytes> {
    let events: Vec<SseEvent<'_>> = events.iter().map(|raw| SseEvent::parse(raw)).collect();
    let mut items: Vec<(u64, &str)> = Vec::new();
    for event in &events {
        let Some(payload) = ResponsesStreamEvent::read(&event.data) else { continue };
        if payload.r#type == "response.output_item.done" {
            // llama.cpp gives no indices, so the order of the events counts.
            let place = payload.output_index.unwrap_or(items.len() as u64);
            items.extend(payload.item.map(|item| (place, item.get())));
        }
        let Some(response) = payload.response.filter(|_| payload.is_end()).map(RawValue::get) else {
            continue;
        };
        let output = fields(response).and_then(|said| elements(field(&said, "output")?));
        if output.is_some_and(|output| !output.is_empty()) || items.is_empty() {
            return Some(Bytes::from(response.to_owned()));
        }
        // Items may be finished in another order than that of the output.
        items.sort_by_key(|(place, _)| *place);
        return with_field(response, "output", &list(items.iter().map(|(_, item)| *item))).map(Bytes::from);
    }
    None
}

/// Returns a list of JSON texts as one JSON text.
pub(super) fn list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}
