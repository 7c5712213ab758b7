//! The decoder from the payloads of a stream to the events of one model call.

use std::collections::BTreeMap;

use longhaul_core::error::ErrorCode;
use longhaul_core::message::{ModelAnswer, ModelStopReason, Part, RawJson};
use longhaul_core::usage::Usage;

use super::item::PartialResponsesItem;
use crate::StreamDecoder;
use crate::raw_json::{self, RawObject};
use crate::server_error;
use crate::usage::responses_usage;
use crate::{AnswerSize, ModelEvent, ProviderError, finish};

/// Fields of a response that are kept elsewhere, or that only repeat the request at length.
const LEFT_OUT: &[&str] = &[
    "object",
    "output",
    "output_text",
    "usage",
    "error",
    "instructions",
    "input",
    "tools",
    "text",
    "metadata",
];

/// A decoder of one response, payload by payload.
#[derive(Debug, Default)]
pub struct ResponsesStreamDecoder {
    /// The output items by their index in the output.
    items: BTreeMap<u64, PartialResponsesItem>,
    /// The first index of each item's id.
    places: BTreeMap<String, u64>,
    size: AnswerSize,
    usage: Option<Usage>,
    finish: Option<ModelStopReason>,
    /// The fields of the closing copy about the response as a whole.
    envelope: Option<RawJson>,
}

impl ResponsesStreamDecoder {
    /// Takes the data of one event, or a whole response that was not streamed.
    ///
    /// # Errors
    /// The provider's error, with the code that it names; `third-party` for data that is no JSON object;
    /// `truncated-stream` for JSON that stops in the middle.
    pub fn push(&mut self, payload: &str) -> Result<Vec<ModelEvent>, ProviderError> {
        let payload = payload.trim();
        if payload.is_empty() || payload == "[DONE]" {
            return Ok(Vec::new());
        }
        let event: RawObject = serde_json::from_str(payload)
            .map_err(|error| self.with_usage(raw_json::unreadable(payload, &error)))?;
        match event.text("type").as_deref() {
            Some("response.output_item.added") => self.added(&event).map_err(|error| self.with_usage(error)),
            Some("response.output_item.done") => self.done(&event).map_err(|error| self.with_usage(error)),
            Some("response.output_text.delta" | "response.refusal.delta") => Ok(self.text(&event)),
            Some("response.reasoning_summary_part.added") => Ok(self.next_summary(&event)),
            Some("response.reasoning_summary_text.delta" | "response.reasoning_text.delta") => {
                Ok(self.reasoning(&event))
            }
            Some("response.function_call_arguments.delta" | "response.custom_tool_call_input.delta") => {
                Ok(self.arguments(&event))
            }
            Some("response.completed" | "response.incomplete" | "response.failed" | "response.cancelled") => {
                self.close(event.get("response").unwrap_or("{}"))
            }
            Some("error") => Err(self.with_usage(server_error::from_answer(payload))),
            // A server that does not stream sends the whole response.
            None if event.text("object").as_deref() == Some("response") => self.close(payload),
            None if event.get("error").is_some() => Err(self.with_usage(server_error::from_answer(payload))),
            None => match server_error::error_in_place_of_answer(payload) {
                Some(error) => Err(self.with_usage(error)),
                None => Ok(Vec::new()),
            },
            Some(_) => Ok(Vec::new()),
        }
    }

    /// Reports whether nothing more can follow.
    pub fn is_closed(&self) -> bool {
        self.finish.is_some()
    }

    /// Returns the answer.
    ///
    /// # Errors
    /// `truncated-stream` if the closing event did not come; `refused` if a filter withheld the answer. The error
    /// contains the usage.
    pub fn finish(self) -> Result<ModelAnswer, ProviderError> {
        let Some(finish) = self.finish else { return Err(self.with_usage(raw_json::truncated())) };
        if finish == ModelStopReason::ContentFilter {
            return Err(self.with_usage(filter_error(self.envelope.as_ref())));
        }
        let parts: Vec<Part> = self.items.values().filter_map(PartialResponsesItem::part).collect();
        let calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
        // The wire knows only "completed", so calls and refusals are found in the items.
        let finish = match finish {
            ModelStopReason::Stop if calls => ModelStopReason::ToolCalls,
            ModelStopReason::Stop if self.items.values().any(PartialResponsesItem::refuses) => {
                ModelStopReason::ContentFilter
            }
            finish => finish,
        };
        Ok(ModelAnswer { parts, finish, usage: self.usage, envelope: self.envelope })
    }

    fn added(&mut self, event: &RawObject) -> Result<Vec<ModelEvent>, ProviderError> {
        let Some(head) = event.object("item") else { return Ok(Vec::new()) };
        let place = event.number("output_index").unwrap_or_else(|| self.next_place());
        let begin = self.insert(place, head)?;
        Ok(begin.into_iter().collect())
    }

    fn insert(&mut self, place: u64, head: RawObject) -> Result<Option<ModelEvent>, ProviderError> {
        let mut item = PartialResponsesItem::new(head);
        let begin = if item.is_call() {
            let index = self.size.add_call()?;
            item.call = Some(index);
            Some(ModelEvent::ToolInput { index, name: item.head().text("name"), delta: String::new() })
        } else {
            self.size.add_part()?;
            None
        };
        self.note_place(item.id(), place);
        self.items.insert(place, item);
        Ok(begin)
    }

    fn note_place(&mut self, id: Option<String>, place: u64) {
        if let Some(id) = id {
            let known = self.places.entry(id).or_insert(place);
            *known = place.min(*known);
        }
    }

    fn done(&mut self, event: &RawObject) -> Result<Vec<ModelEvent>, ProviderError> {
        let (Some(native), Some(head)) = (event.get("item"), event.content("item")?) else {
            return Ok(Vec::new());
        };
        let head: RawObject = head;
        let place = self.place(event).or_else(|| self.place_of_id(head.text("id").as_deref()));
        let place = place.or(event.number("output_index")).unwrap_or_else(|| self.next_place());
        self.settle(place, native, head)
    }

    /// Completes the item at `place`.
    fn settle(
        &mut self,
        place: u64,
        native: &str,
        head: RawObject,
    ) -> Result<Vec<ModelEvent>, ProviderError> {
        let mut events = Vec::new();
        match self.items.get(&place) {
            None => events.extend(self.insert(place, head)?),
            // A second copy of a finished item is one more event, so it counts against the limit again.
            Some(item) if item.is_done() => self.size.add_part()?,
            Some(_) => {}
        }
        if let Some(item) = self.items.get_mut(&place) {
            item.done(native);
            events.extend(item.unsaid());
            events.extend(item.part().map(ModelEvent::PartDone));
            let id = item.id();
            self.note_place(id, place);
        }
        Ok(events)
    }

    fn text(&mut self, event: &RawObject) -> Vec<ModelEvent> {
        self.stream(event, |_, delta| Some(ModelEvent::Text(delta)))
    }

    fn reasoning(&mut self, event: &RawObject) -> Vec<ModelEvent> {
        self.stream(event, |_, delta| Some(ModelEvent::Reasoning(delta)))
    }

    fn arguments(&mut self, event: &RawObject) -> Vec<ModelEvent> {
        self.stream(event, |item, delta| {
            item.call.map(|index| ModelEvent::ToolInput { index, name: None, delta })
        })
    }

    /// Begins the next summary: summaries are paragraphs of one text.
    fn next_summary(&mut self, event: &RawObject) -> Vec<ModelEvent> {
        // The first summary follows nothing, so it needs no gap.
        if event.number("summary_index").unwrap_or_default() == 0 {
            return Vec::new();
        }
        let mut pause = event.clone();
        pause.set_text("delta", "\n\n");
        self.reasoning(&pause)
    }

    fn stream(
        &mut self,
        event: &RawObject,
        show: impl FnOnce(&PartialResponsesItem, String) -> Option<ModelEvent>,
    ) -> Vec<ModelEvent> {
        let Some(delta) = event.text("delta").filter(|delta| !delta.is_empty()) else { return Vec::new() };
        // A piece of an item that never began has no place, and the closing copy has its text anyway.
        let Some(item) = self.place(event).and_then(|place| self.items.get_mut(&place)) else {
            return Vec::new();
        };
        item.streamed.push_str(&delta);
        show(item, delta).into_iter().collect()
    }

    /// Returns the index of the item that an event is about.
    fn place(&self, event: &RawObject) -> Option<u64> {
        // llama.cpp gives no indices, so its events find their item by its id.
        let place = event.number("output_index").filter(|place| self.items.contains_key(place));
        place.or_else(|| self.place_of_id(event.text("item_id").as_deref()))
    }

    fn place_of_id(&self, id: Option<&str>) -> Option<u64> {
        self.places.get(id?).copied()
    }

    fn next_place(&self) -> u64 {
        self.items.last_key_value().map_or(0, |(place, _)| place.saturating_add(1))
    }

    /// Parses the closing copy of the response.
    fn close(&mut self, response: &str) -> Result<Vec<ModelEvent>, ProviderError> {
        let object = RawObject::parse(response)
            .ok_or_else(|| self.with_usage(raw_json::garbled("response", response)))?;
        // The closing copy may lack the usage that an earlier event had.
        self.usage = object.get("usage").and_then(responses_usage).or(self.usage.take());
        let reason = object.object("incomplete_details").and_then(|details| details.text("reason"));
        match object.text("status").as_deref() {
            Some("failed") if object.object("error").is_none() => {
                let words = "the provider failed inside its answer and gave no reason";
                let error = ProviderError::new(ErrorCode::ThirdParty, words);
                return Err(self.with_usage(error));
            }
            Some("failed") => return Err(self.with_usage(server_error::from_answer(response))),
            Some("cancelled") => {
                let error = ProviderError::new(ErrorCode::ThirdParty, "the provider cancelled the response");
                return Err(self.with_usage(error));
            }
            // Such a copy ends nothing, because the provider is still writing the answer.
            Some("queued" | "in_progress") => return Ok(Vec::new()),
            Some("incomplete") => self.finish = Some(incomplete_stop_reason(reason.as_deref())),
            _ => self.finish = Some(ModelStopReason::Stop),
        }
        self.envelope = envelope(&object);
        let mut events = self.fill(&object).map_err(|error| self.with_usage(error))?;
        events.extend(self.usage.clone().map(ModelEvent::Usage));
        Ok(events)
    }

    /// Takes items that no event finished from the closing copy.
    fn fill(&mut self, response: &RawObject) -> Result<Vec<ModelEvent>, ProviderError> {
        let mut events = Vec::new();
        for (place, native) in (0..).zip(response.contents("output")?) {
            let head = raw_json::element("output", &native)?;
            let place = self.spot(place, head.text("id").as_deref());
            // A finished item was passed on already and must not come twice.
            if !self.items.get(&place).is_some_and(PartialResponsesItem::is_done) {
                events.extend(self.settle(place, native.get(), head)?);
            }
        }
        Ok(events)
    }

    /// Returns the index for an item of the closing copy: that of its id, else its own index unless another item
    /// has it.
    fn spot(&self, place: u64, id: Option<&str>) -> u64 {
        match (self.place_of_id(id), self.items.get(&place)) {
            (Some(known), _) => known,
            (None, Some(other)) if id.is_some() && other.id().is_some() => self.next_place(),
            _ => place,
        }
    }

    fn with_usage(&self, mut error: ProviderError) -> ProviderError {
        error.usage = self.usage.clone();
        error
    }
}

impl StreamDecoder for ResponsesStreamDecoder {
    /// The largest size of one event. The closing event repeats the whole response, its pictures in base64 too.
    const MAX_EVENT_BYTES: usize = 64 << 20;

    fn push(&mut self, payload: &str) -> Result<Vec<ModelEvent>, ProviderError> {
        self.push(payload)
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    fn usage(&self) -> Option<Usage> {
        self.usage.clone()
    }

    fn finish(self) -> Result<ModelAnswer, ProviderError> {
        self.finish()
    }
}

/// Returns the fields of the response as a whole, byte for byte: id, status, model and others.
fn envelope(response: &RawObject) -> Option<RawJson> {
    let mut kept = RawObject::default();
    let said = response.fields().filter(|(name, value)| !LEFT_OUT.contains(name) && *value != "null");
    for (name, value) in said {
        if let Some(value) = raw_json::value(value) {
            kept.set(name, value);
        }
    }
    kept.fields().next().is_some().then(|| kept.to_json())
}

fn incomplete_stop_reason(reason: Option<&str>) -> ModelStopReason {
    match reason {
        Some("max_output_tokens" | "max_tokens") | None => ModelStopReason::Length,
        Some("content_filter") => ModelStopReason::ContentFilter,
        Some(_) => ModelStopReason::Other,
    }
}

/// Returns the error of an answer that a filter has cut, or withheld completely.
fn filter_error(envelope: Option<&RawJson>) -> ProviderError {
    let envelope = envelope.and_then(|said| RawObject::parse(said.as_str())).unwrap_or_default();
    let codes = ["content_filter".to_owned()];
    finish::error(ErrorCode::Refused, "the provider's filter withheld the answer", &codes, None, &envelope)
}
