//! The parser of a passing stream of the dialect.

use std::borrow::Cow;

use longhaul_core::message::ModelStopReason;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::item::BorrowedMessagesBlock;
use crate::edit::{PartialResponse, PartialToolCall, StreamParser, StreamPosition, error_in_answer};
use crate::finish::{failed_for, finish_of_reason, is_failure};
use crate::raw_json::RawObject;
use crate::raw_json::{elements, field, fields, text_field};
use crate::sse::SseEvent;
use crate::usage::MessagesUsage;

/// The fields of an event for readers.
#[derive(Deserialize)]
pub(super) struct MessagesStreamEvent<'a> {
    #[serde(borrow)]
    pub(super) r#type: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) index: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message: Option<MessageStartPayload<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Option<ContentBlockStartPayload<'a>>,
    #[serde(borrow)]
    pub(super) delta: Option<MessagesStreamDelta<'a>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
}

/// The fields of `message_start`.
#[derive(Deserialize)]
pub(super) struct MessageStartPayload<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

/// The fields of `content_block_start`.
#[derive(Deserialize)]
pub(super) struct ContentBlockStartPayload<'a> {
    #[serde(borrow)]
    pub(super) r#type: Cow<'a, str>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    thinking: Option<Cow<'a, str>>,
}

/// The fields of a delta.
#[derive(Deserialize)]
pub(super) struct MessagesStreamDelta<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow)]
    partial_json: Option<Cow<'a, str>>,
    #[serde(borrow)]
    stop_reason: Option<Cow<'a, str>>,
}

impl<'a> MessagesStreamEvent<'a> {
    /// Parses an event; `None` for an event outside of the dialect.
    pub(super) fn read(data: &'a str) -> Option<Self> {
        serde_json::from_str(data).ok()
    }

    /// Returns the index of the event's block.
    pub(super) fn block(&self) -> Option<u64> {
        self.index?.get().parse().ok()
    }
}

/// A parser of a single stream.
#[derive(Debug, Default)]
pub(super) struct MessagesStreamParser {
    seen: PartialResponse,
    usage: MessagesUsage,
    /// `true` once a call was begun: the answer cannot be continued after a call.
    called: bool,
}

impl StreamParser for MessagesStreamParser {
    fn read(&mut self, event: &SseEvent<'_>) {
        let payload = MessagesStreamEvent::read(&event.data);
        // Anthropic's errors have their type in the data. Some other servers only name the event.
        if event.is_error() || payload.as_ref().is_some_and(|payload| payload.r#type == "error") {
            self.fail(&event.data);
        }
        match payload {
            Some(payload) => self.take(&payload),
            // A server may send its error in a shape of its own in place of the answer.
            None if error_in_answer(&event.data).is_some() => self.fail(&event.data),
            None => {}
        }
    }

    fn seen(&self) -> &PartialResponse {
        &self.seen
    }
}

impl MessagesStreamParser {
    /// Takes a parsed event.
    pub(super) fn take(&mut self, payload: &MessagesStreamEvent<'_>) {
        match payload.r#type.as_ref() {
            "message_start" => self.start(payload.message.as_ref()),
            "content_block_start" => self.begin(payload.content_block.as_ref()),
            "content_block_delta" => self.grow(payload.delta.as_ref()),
            // Behind a call the position stays `Call`, because the answer cannot be continued there.
            "content_block_stop" if !self.called => self.seen.position = StreamPosition::Nothing,
            "message_delta" => {
                let reason = payload.delta.as_ref().and_then(|delta| delta.stop_reason.as_deref());
                self.seen.finish = reason.map(finish).or(self.seen.finish);
                self.count(payload.usage);
            }
            "message_stop" => self.seen.over = true,
            _ => {}
        }
    }

    /// Records the stream's error.
    pub(super) fn fail(&mut self, data: &str) {
        self.seen.error = Some(data.to_owned());
    }

    /// Appends text of any event.
    pub(super) fn text(&mut self, text: &str) {
        self.seen.text.push_str(text);
        self.seen.position = StreamPosition::Text;
    }

    /// Records reported usage; the newest numbers win.
    pub(super) fn count(&mut self, usage: Option<&RawValue>) {
        if let Some(usage) = usage {
            self.record_usage(usage.get());
        }
    }

    /// Begins a new stream of the same answer, with usage in place of the last stream's usage.
    pub(super) fn go_on(&mut self) {
        self.usage = MessagesUsage::default();
        self.seen.finish = None;
        self.seen.usage = None;
        self.seen.over = false;
    }

    fn record_usage(&mut self, report: &str) {
        if let Some(report) = RawObject::parse(report) {
            self.usage.record(report);
            self.seen.usage = self.usage.usage();
        }
    }

    /// Returns the newest stream's reported usage.
    pub(super) fn usage(&self) -> &MessagesUsage {
        &self.usage
    }

    /// Takes the start of a later stream.
    pub(super) fn restart(&mut self, start: Option<&MessageStartPayload<'_>>) {
        self.count(start.and_then(|start| start.usage));
    }

    /// Takes a start. A second start in a stream is a server's new attempt and voids the first start.
    fn start(&mut self, start: Option<&MessageStartPayload<'_>>) {
        // The void attempt's text must not remain in the answer.
        *self = Self::default();
        self.seen.id = start.and_then(|start| start.id.as_deref()).map(str::to_owned);
        self.restart(start);
    }

    fn begin(&mut self, block: Option<&ContentBlockStartPayload<'_>>) {
        let Some(block) = block else { return };
        match block.r#type.as_ref() {
            "text" => self.text(block.text.as_deref().unwrap_or_default()),
            "thinking" | "redacted_thinking" => {
                self.seen.reasoning.push_str(block.thinking.as_deref().unwrap_or_default());
                self.seen.position = StreamPosition::Reasoning;
            }
            kind => {
                // Any other block, such as a server's own tool, ends the part of an answer that can be continued.
                self.called = true;
                self.seen.position = StreamPosition::Call;
                if kind == "tool_use" {
                    self.seen.calls.push(PartialToolCall {
                        id: block.id.as_deref().unwrap_or_default().to_owned(),
                        name: block.name.as_deref().unwrap_or_default().to_owned(),
                        arguments: String::new(),
                    });
                } else {
                    self.seen.has_other = true;
                }
            }
        }
        // The arms above may have moved the position, but behind a call it stays `Call`.
        if self.called {
            self.seen.position = StreamPosition::Call;
        }
    }

    fn grow(&mut self, delta: Option<&MessagesStreamDelta<'_>>) {
        let Some(delta) = delta else { return };
        if let Some(text) = delta.text.as_deref() {
            self.seen.text.push_str(text);
        }
        if let Some(thinking) = delta.thinking.as_deref() {
            self.seen.reasoning.push_str(thinking);
        }
        // Arguments come for one call at a time, so they belong to the newest.
        if let (Some(json), Some(call)) = (delta.partial_json.as_deref(), self.seen.calls.last_mut()) {
            call.arguments.push_str(json);
        }
    }
}

/// Returns the stop reason.
fn finish(reason: &str) -> ModelStopReason {
    finish_of_reason(reason).unwrap_or(ModelStopReason::Other)
}

/// Parses an unstreamed answer.
pub(super) fn whole(body: &str) -> Option<PartialResponse> {
    let said = fields(body)?;
    if text_field(&said, "type").as_deref() != Some("message") {
        return None;
    }
    let reason = text_field(&said, "stop_reason");
    // A whole answer always has a reason. Without one its server stopped in the middle.
    let over = reason.is_some();
    let mut seen = PartialResponse { id: text_field(&said, "id"), over, ..PartialResponse::default() };
    seen.finish = reason.as_deref().filter(|reason| !is_failure(reason)).map(finish);
    // Anthropic has no error in an answer; relays put that of their upstream there.
    seen.error = field(&said, "error").filter(|error| *error != "null").map(str::to_owned);
    seen.error =
        seen.error.or_else(|| reason.filter(|reason| is_failure(reason)).map(|reason| failed_for(&reason)));
    if seen.error.is_some() {
        seen.finish = None;
    }
    for block in elements(field(&said, "content")?)?.into_iter().filter_map(BorrowedMessagesBlock::read) {
        match block.kind.as_str() {
            "text" => seen.text.push_str(&block.text("text").unwrap_or_default()),
            "thinking" => seen.reasoning.push_str(&block.text("thinking").unwrap_or_default()),
            "tool_use" => {
                let arguments = field(&block.fields, "input").unwrap_or("{}").to_owned();
                let (id, name) = (block.text("id"), block.text("name"));
                seen.calls.push(PartialToolCall {
                    id: id.unwrap_or_default(),
                    name: name.unwrap_or_default(),
                    arguments,
                });
            }
            // Its content is encrypted, so there is no text to count.
            "redacted_thinking" => {}
            _ => seen.has_other = true,
        }
    }
    if let Some(usage) = field(&said, "usage") {
        let mut reported = MessagesUsage::default();
        reported.record(RawObject::parse(usage)?);
        seen.usage = reported.usage();
    }
    Some(seen)
}
