//! The parser of a passing stream of the dialect.

use std::borrow::Cow;

use longhaul_core::message::ModelStopReason;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::item::BorrowedResponsesItem;
use crate::edit::{PartialResponse, PartialToolCall, StreamParser, StreamPosition, error_in_answer};
use crate::raw_json::{field, fields, string, text_field};
use crate::sse::SseEvent;
use crate::usage::responses_usage;

/// The fields of an event that a reader needs.
#[derive(Deserialize)]
pub(super) struct ResponsesStreamEvent<'a> {
    #[serde(borrow)]
    pub(super) r#type: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) response: Option<&'a RawValue>,
    pub(super) output_index: Option<u64>,
    pub(super) sequence_number: Option<u64>,
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) delta: Option<&'a RawValue>,
}

impl<'a> ResponsesStreamEvent<'a> {
    /// Parses an event; `None` if it is no event of this dialect.
    pub(super) fn read(data: &'a str) -> Option<Self> {
        serde_json::from_str(data).ok()
    }

    /// Returns the event's piece of text.
    pub(super) fn text(&self) -> Option<Cow<'a, str>> {
        // A text without escapes is borrowed: most pieces of an answer need no copy.
        serde_json::from_str::<BorrowedJsonString<'a>>(self.delta?.get()).ok().map(|text| text.0)
    }

    /// Reports whether the event ends the response.
    pub(super) fn is_end(&self) -> bool {
        let ends = ["response.completed", "response.incomplete", "response.failed", "response.cancelled"];
        ends.contains(&self.r#type.as_ref())
    }
}

#[derive(Deserialize)]
#[serde(transparent)]
struct BorrowedJsonString<'a>(#[serde(borrow)] Cow<'a, str>);

/// A parser of one stream.
#[derive(Debug, Default)]
pub(super) struct ResponsesStreamParser {
    seen: PartialResponse,
    /// `true` once a call was begun: the answer cannot be continued after a call.
    called: bool,
}

/// Reports whether an error event has a form that this dialect does not have.
pub(super) fn is_foreign_error(event: &SseEvent<'_>) -> bool {
    event.is_error()
        && ResponsesStreamEvent::read(&event.data).is_none_or(|payload| payload.r#type != "error")
}

impl StreamParser for ResponsesStreamParser {
    fn read(&mut self, event: &SseEvent<'_>) {
        if is_foreign_error(event) {
            self.seen.error = Some(event.data.to_string());
        } else if let Some(payload) = ResponsesStreamEvent::read(&event.data) {
            self.take(&payload, &event.data);
        } else if error_in_answer(&event.data).is_some() {
            // A server may send its error in a shape of its own in place of the answer.
            self.seen.error = Some(event.data.to_string());
        }
    }

    fn seen(&self) -> &PartialResponse {
        &self.seen
    }
}

impl ResponsesStreamParser {
    /// Takes a parsed event.
    pub(super) fn take(&mut self, payload: &ResponsesStreamEvent<'_>, data: &str) {
        self.seen.number = payload.sequence_number.or(self.seen.number);
        match payload.r#type.as_ref() {
            "response.created" | "response.in_progress" => {
                let id = payload.response.and_then(|raw| string(field(&fields(raw.get())?, "id")?));
                // A later stream of the same answer has another id. The client knows the first one.
                self.seen.id = self.seen.id.take().or(id);
            }
            "response.output_item.added" => self.begin(payload.item.map(RawValue::get)),
            "response.output_text.delta" | "response.refusal.delta" => {
                self.text(&payload.text().unwrap_or_default());
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.seen.reasoning.push_str(&payload.text().unwrap_or_default());
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                // The newest call: this dialect writes one item after another.
                if let (Some(call), Some(more)) = (self.seen.calls.last_mut(), payload.text()) {
                    call.arguments.push_str(&more);
                }
            }
            "response.output_item.done" => self.done(payload.item.map(RawValue::get)),
            "error" => self.seen.error = Some(data.to_owned()),
            _ if payload.is_end() => self.end(payload.response.map(RawValue::get), data),
            _ => {}
        }
    }

    /// Appends text, whatever event brought it.
    pub(super) fn text(&mut self, text: &str) {
        self.seen.text.push_str(text);
        self.seen.position = if self.called { StreamPosition::Call } else { StreamPosition::Text };
    }

    /// Records the number of the last event that the client was sent.
    pub(super) fn sent(&mut self, number: Option<u64>) {
        self.seen.number = number.or(self.seen.number);
    }

    /// Begins a new stream of the same answer.
    pub(super) fn go_on(&mut self) {
        self.seen.finish = None;
        self.seen.over = false;
        self.seen.usage = None;
    }

    fn begin(&mut self, item: Option<&str>) {
        let Some(item) = item.and_then(|item| BorrowedResponsesItem::read(item, 0).ok()) else { return };
        match item.kind.as_str() {
            // No text yet, but the position is that of a text from now on.
            "message" => self.text(""),
            "reasoning" => self.seen.position = StreamPosition::Reasoning,
            kind => {
                self.called = true;
                if kind == "function_call" || kind == "custom_tool_call" {
                    let (id, name) =
                        (item.text("call_id").unwrap_or_default(), item.text("name").unwrap_or_default());
                    self.seen.calls.push(PartialToolCall { id, name, arguments: String::new() });
                } else {
                    self.seen.has_other = true;
                }
            }
        }
        if self.called {
            self.seen.position = StreamPosition::Call;
        }
    }

    /// Takes a finished item: some servers send arguments only here.
    fn done(&mut self, item: Option<&str>) {
        // Between two items nothing is open.
        if !self.called {
            self.seen.position = StreamPosition::Nothing;
        }
        let Some(item) = item.and_then(|item| BorrowedResponsesItem::read(item, 0).ok()) else { return };
        let said = item.text("arguments").or_else(|| item.text("input"));
        if let (Some(id), Some(said)) = (item.text("call_id"), said)
            // The finished item has the whole arguments, so they replace the pieces instead of following them.
            && let Some(call) = self.seen.calls.iter_mut().find(|call| call.id == id)
        {
            call.arguments = said;
        }
    }

    fn end(&mut self, response: Option<&str>, data: &str) {
        self.seen.over = true;
        let Some(said) = response.and_then(fields) else { return };
        let status = text_field(&said, "status").unwrap_or_default();
        let error = field(&said, "error").filter(|error| *error != "null");
        if status == "failed" || error.is_some() {
            self.seen.error = Some(data.to_owned());
        }
        let called = !self.seen.calls.is_empty();
        self.seen.finish = finish(&status, field(&said, "incomplete_details"), called);
        self.seen.usage = field(&said, "usage").and_then(responses_usage).or(self.seen.usage.take());
    }
}

/// Returns the stop reason. `None` if the response failed.
pub(super) fn finish(status: &str, details: Option<&str>, called: bool) -> Option<ModelStopReason> {
    let reason = details.and_then(fields).and_then(|said| string(field(&said, "reason")?));
    match (status, reason.as_deref()) {
        // This dialect has no status for an answer that ends with calls.
        ("completed", _) => Some(if called { ModelStopReason::ToolCalls } else { ModelStopReason::Stop }),
        ("incomplete", Some("content_filter")) => Some(ModelStopReason::ContentFilter),
        ("incomplete", _) => Some(ModelStopReason::Length),
        _ => None,
    }
}
