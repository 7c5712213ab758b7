//! The parser of a stream as it passes.

use std::borrow::Cow;

use longhaul_core::message::ModelStopReason;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::edit::{PartialResponse, PartialToolCall, SseEvent, StreamParser, StreamPosition};
use crate::server_error::error_in_place_of_answer;
use crate::usage::{chat_usage, llama_cpp_timings};
use crate::{MAX_TOOL_CALLS, finish};

/// A chunk of a stream, or a whole answer. Fields of unexpected types are ignored.
#[derive(Default, Deserialize)]
pub(super) struct ChatStreamChunk<'a> {
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    object: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<ChatStreamChoice<'a>>>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    timings: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct ChatStreamChoice<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<ChatStreamDelta<'a>>,
    #[serde(borrow, default)]
    message: Option<ChatStreamDelta<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct ChatStreamDelta<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<ChatStreamToolCall<'a>>>,
    #[serde(borrow, default)]
    images: Option<&'a RawValue>,
    #[serde(borrow, default)]
    audio: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChatStreamToolCall<'a> {
    #[serde(default)]
    index: Option<usize>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    function: Option<ChatStreamFunctionCall<'a>>,
}

#[derive(Deserialize)]
struct ChatStreamFunctionCall<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// Reports whether the value of `error` means a failure.
fn says_error(value: &str) -> bool {
    // Some servers send an empty value of `error` with every chunk.
    !matches!(value, "null" | "false" | "0" | "\"\"" | "{}")
}

/// Returns the text of a string; `None` for other values.
fn text<'a>(raw: Option<&'a RawValue>) -> Option<Cow<'a, str>> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Text<'t>(#[serde(borrow)] Cow<'t, str>);
    // Some servers send a number or a list here. Such content passes, and is not read.
    let text: Text<'a> = serde_json::from_str(raw?.get()).ok()?;
    (!text.0.is_empty()).then_some(text.0)
}

/// Returns the text of all blocks of one kind in a list of content (Mistral). `None` for other values.
fn listed<'a>(raw: Option<&'a RawValue>, kind: &str) -> Option<Cow<'a, str>> {
    let raw = raw.map(RawValue::get).filter(|raw| raw.starts_with('['))?;
    let blocks: Vec<Value> = serde_json::from_str(raw).ok()?;
    let texts = blocks.iter().map(|block| match block.get("type").and_then(Value::as_str) {
        Some(named) if named != kind => String::new(),
        None if kind != "text" => String::new(),
        _ => joined_text(block.get(kind).unwrap_or(block)),
    });
    let all: String = texts.collect();
    (!all.is_empty()).then_some(Cow::Owned(all))
}

/// Returns a text, or the joined texts of a list of blocks: Mistral nests the text of a thinking block.
fn joined_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block.get("text")).map(joined_text).collect()
        }
        _ => String::new(),
    }
}

/// Returns the arguments as the model wrote them; some servers send the object itself instead of its text.
fn arguments(raw: Option<&RawValue>) -> Cow<'_, str> {
    match raw.map(RawValue::get) {
        Some(object) if object.starts_with('{') => object.into(),
        _ => text(raw).unwrap_or_default(),
    }
}

impl ChatStreamChunk<'_> {
    /// Returns the finish reason of the first choice if it names the server's own failure.
    pub(super) fn failure(&self) -> Option<&str> {
        let first = self.choices.iter().flatten().find(|choice| choice.is_first())?;
        first.finish_reason.as_deref().filter(|reason| finish::is_failure(reason))
    }
}

impl<'a> ChatStreamChoice<'a> {
    fn is_first(&self) -> bool {
        self.index.unwrap_or_default() == 0
    }

    /// Returns the delta; the whole message if there is no delta.
    fn said(&self) -> Option<&ChatStreamDelta<'a>> {
        self.delta.as_ref().or(self.message.as_ref())
    }

    /// Returns the error at the end of the choice (OpenRouter): in the choice, the delta or the message.
    fn error(&self) -> Option<&'a RawValue> {
        let held = [&self.delta, &self.message].into_iter().flatten().filter_map(|held| held.error);
        self.error.into_iter().chain(held).find(|error| says_error(error.get()))
    }

    fn finish(&self) -> Option<ModelStopReason> {
        // Some servers send an empty reason in every chunk before the end.
        let reason = self.finish_reason.as_deref().filter(|reason| !reason.is_empty())?;
        Some(finish::finish_of_reason(reason).unwrap_or(ModelStopReason::Other))
    }
}

impl<'a> ChatStreamDelta<'a> {
    fn text(&self) -> Option<Cow<'a, str>> {
        text(self.content).or_else(|| listed(self.content, "text")).or_else(|| text(self.refusal))
    }

    /// Reports whether the choice has a picture or sound.
    fn has_other(&self) -> bool {
        let media = [self.images, self.audio].into_iter().flatten();
        media.map(RawValue::get).any(|raw| raw != "null" && raw != "[]")
    }

    fn reasoning(&self) -> Option<Cow<'a, str>> {
        let named = text(self.reasoning_content).or_else(|| text(self.reasoning));
        named.or_else(|| listed(self.content, "thinking"))
    }
}

/// A parser of a single stream.
#[derive(Debug, Default)]
pub struct ChatStreamParser {
    seen: PartialResponse,
    /// The server's index of each call.
    indices: Vec<usize>,
}

impl StreamParser for ChatStreamParser {
    fn read(&mut self, event: &SseEvent<'_>) {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.seen.over = true;
        } else if event.is_error() {
            self.seen.error = Some(data.to_owned());
        } else if !data.is_empty() {
            match serde_json::from_str::<ChatStreamChunk<'_>>(data) {
                Ok(chunk) => self.take(&chunk, data),
                // Gemini's compatible API wraps an error in a list, which is no chunk.
                Err(_) if data.starts_with('[') || data.contains("\"error\"") => {
                    self.seen.error = Some(data.to_owned());
                }
                // A passing stream is not judged here: the client gets every byte of it, read or not.
                Err(_) => {}
            }
        }
    }

    fn seen(&self) -> &PartialResponse {
        &self.seen
    }
}

impl ChatStreamParser {
    /// Takes a parsed chunk.
    pub(super) fn take(&mut self, chunk: &ChatStreamChunk<'_>, data: &str) {
        // vLLM's errors have the `object` `error` and no list of choices.
        let is_error = chunk.object.as_deref() == Some("error") && chunk.choices.is_none();
        let says_nothing = chunk.choices.as_ref().is_none_or(Vec::is_empty);
        // A server may send its error in a shape of its own in place of the answer.
        let is_foreign_error = says_nothing && error_in_place_of_answer(data).is_some();
        if is_error || is_foreign_error || chunk.error.is_some_and(|error| error.get() != "null") {
            self.seen.error = Some(data.to_owned());
        }
        if self.seen.id.is_none() {
            self.seen.id = chunk.id.as_deref().map(str::to_owned);
        }
        let choices = chunk.choices.iter().flatten();
        self.seen.has_other |=
            choices.clone().filter_map(ChatStreamChoice::said).any(ChatStreamDelta::has_other);
        // An answer with several choices cannot be continued: only the first one is followed.
        let others = choices.clone().filter(|choice| !choice.is_first()).filter_map(ChatStreamChoice::said);
        self.seen.has_other |= others.filter_map(ChatStreamDelta::text).any(|text| !text.is_empty());
        for choice in choices.filter(|choice| choice.is_first()) {
            if let Some(delta) = choice.said() {
                self.grow(delta);
            }
            match choice.error() {
                // A failed answer has no end of its own, whatever its finish reason says.
                Some(error) => self.seen.error = Some(error.get().to_owned()),
                None => self.seen.finish = choice.finish().or(self.seen.finish),
            }
        }
        if let Some(reported) = chunk
            .usage
            .and_then(|raw| chat_usage(raw.get()))
            // llama.cpp streams `usage` only on request, but ends every answer with `timings`.
            .or_else(|| chunk.timings.and_then(|raw| llama_cpp_timings(raw.get())))
        {
            self.seen.usage = Some(reported);
        }
    }

    fn grow(&mut self, delta: &ChatStreamDelta<'_>) {
        if let Some(text) = delta.reasoning() {
            self.seen.reasoning.push_str(&text);
            self.go_to(StreamPosition::Reasoning);
        }
        if let Some(text) = delta.text() {
            self.text(&text);
        }
        for piece in delta.tool_calls.iter().flatten() {
            self.call(piece);
        }
    }

    /// Appends text of any event.
    pub(super) fn text(&mut self, text: &str) {
        self.seen.text.push_str(text);
        self.go_to(StreamPosition::Text);
    }

    /// Records the stream's position: an answer cannot be continued after a call.
    fn go_to(&mut self, inside: StreamPosition) {
        if self.seen.position != StreamPosition::Call {
            self.seen.position = inside;
        }
    }

    fn call(&mut self, piece: &ChatStreamToolCall<'_>) {
        self.seen.position = StreamPosition::Call;
        let id = piece.id.as_deref().unwrap_or_default();
        let newest = self.seen.calls.last().map(|call| call.id.as_str()).unwrap_or_default();
        // Some servers give no index: a new id is a new call.
        let index = piece.index.unwrap_or_else(|| {
            // A piece without an id continues the newest call.
            let is_new = self.indices.is_empty() || !id.is_empty() && id != newest;
            if is_new { self.indices.len() } else { self.indices.len() - 1 }
        });
        // Pieces nearly always belong to the newest call, so the search begins there.
        let at = match self.indices.iter().rposition(|known| *known == index) {
            Some(at) => at,
            // Who reads the stream refuses the answer then, so the further calls need no memory.
            None if self.indices.len() > MAX_TOOL_CALLS => return,
            None => {
                self.indices.push(index);
                self.seen.calls.push(PartialToolCall { id: id.to_owned(), ..PartialToolCall::default() });
                self.indices.len() - 1
            }
        };
        let (Some(call), Some(function)) = (self.seen.calls.get_mut(at), &piece.function) else { return };
        // Some servers send the name in parts, some all of it with every piece.
        let more = function.name.as_deref().unwrap_or_default();
        // The name is complete once arguments come, so later repetitions of it are ignored.
        if call.arguments.is_empty() && more != call.name {
            call.name.push_str(more);
        }
        call.arguments.push_str(&arguments(function.arguments));
    }

    /// Begins a new stream of the same answer.
    pub(super) fn go_on(&mut self) {
        self.seen.finish = None;
        self.seen.usage = None;
        self.seen.over = false;
        self.seen.error = None;
    }

    /// Returns the number of calls so far. Calls keep their indices; the next stream's calls come later.
    pub(super) fn calls(&self) -> usize {
        self.indices.iter().map(|index| index + 1).max().unwrap_or(0)
    }
}
