//! The shapes of an answer. Only the used fields are described here. Missing, additional and differently typed fields
//! are no errors.

use std::borrow::Cow;

use longhaul_core::message::{OpaquePart, RawJson};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::ProviderError;
use crate::raw_json::{self, RawObject};

/// A chunk of a stream, or a whole answer.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ChatResponseChunk<'a> {
    #[serde(borrow, default)]
    pub(super) choices: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
}

impl ChatResponseChunk<'_> {
    /// Reports whether the chunk is an error: some servers put the error's fields into the chunk itself.
    pub(super) fn is_error(&self) -> bool {
        // vLLM sends `{"object":"error","message":…}` without a field `error`.
        let named = self.object.is_some_and(|object| object.get() == "\"error\"");
        self.error.is_some() || (named && self.choices.is_none())
    }
}

/// A value with an optional error beside the content.
#[derive(Deserialize)]
struct ChatErrorHolder<'a> {
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Reports whether the value of `error` means a failure.
fn says_error(value: &str) -> bool {
    !matches!(value, "null" | "false" | "0" | "\"\"")
        // Some servers send an empty `error` in a chunk that has not failed.
        && RawObject::parse(value).is_none_or(|it| it.fields().count() > 0)
}

#[derive(Debug, Deserialize)]
pub(super) struct ChatResponseChoice<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content_filter_results: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl<'a> ChatResponseChoice<'a> {
    /// Reports whether the choice is ours. The request asks for a single choice; of several the first is ours.
    pub(super) fn is_first(&self) -> bool {
        self.index.unwrap_or_default() == 0
    }

    /// Returns the error at the end of the choice (OpenRouter): in the choice, the delta or the message.
    pub(super) fn error(&self) -> Option<&'a str> {
        let held = [self.delta, self.message].into_iter().flatten();
        let held = held.filter_map(|raw| serde_json::from_str::<ChatErrorHolder<'a>>(raw.get()).ok()?.error);
        self.error.into_iter().chain(held).map(RawValue::get).find(|error| says_error(error))
    }

    /// Returns the kinds of content held back by a filter (Azure).
    pub(super) fn filtered(&self) -> Vec<String> {
        let results = self.content_filter_results.and_then(|raw| RawObject::parse(raw.get()));
        let results = results.unwrap_or_default();
        let held = results.fields().filter(|(_, result)| {
            RawObject::parse(result).is_some_and(|result| result.get("filtered") == Some("true"))
        });
        held.map(|(kind, _)| kind.to_owned()).collect()
    }

    /// Returns the new content. A whole message counts only if nothing was streamed before: some servers repeat
    /// the text so far beside each delta.
    ///
    /// # Errors
    /// `third-party` if the content is no object.
    pub(super) fn delta(&self, streamed: bool) -> Result<Option<ChatResponseDelta<'a>>, ProviderError> {
        // A server that answers a streaming request with a whole answer sends `message` and no `delta`.
        let whole = self.message.filter(|_| !streamed);
        self.delta.or(whole).map_or(Ok(None), |raw| raw_json::content("delta", raw.get()))
    }
}

/// The content of a message, whole or a piece.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ChatResponseDelta<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<&'a RawValue>,
    /// The only call of an answer, in the deprecated form without an id. Some compatible servers still write it.
    #[serde(borrow, default)]
    function_call: Option<&'a RawValue>,
}

/// A piece of an answer, in the order of display.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatResponsePart {
    Reasoning(String),
    Text(String),
    /// A block of another kind, whole.
    Opaque(OpaquePart),
}

impl ChatResponsePart {
    fn says_nothing(&self) -> bool {
        matches!(self, Self::Reasoning(text) | Self::Text(text) if text.is_empty())
    }
}

impl<'a> ChatResponseDelta<'a> {
    /// Returns the pieces of the delta, reasoning first: a delta may hold reasoning beside the following text. Under
    /// both field names the reasoning is the same text.
    ///
    /// # Errors
    /// `third-party` for unreadable content.
    pub(super) fn pieces(&self) -> Result<Vec<ChatResponsePart>, ProviderError> {
        let mut pieces = Vec::new();
        let reasoning = [self.reasoning_content, self.reasoning].into_iter().flatten().map(text_of);
        pieces.extend(reasoning.filter(|text| !text.is_empty()).take(1).map(ChatResponsePart::Reasoning));
        // OpenAI streams a refusal in a field of its own. To the user it is text like any other.
        for spoken in [self.content, self.refusal].into_iter().flatten() {
            spoken_pieces(spoken, &mut pieces)?;
        }
        // Many servers send an empty text with every chunk, and an empty piece would begin a part.
        pieces.retain(|piece| !piece.says_nothing());
        Ok(pieces)
    }

    /// Reports whether the model refuses, in the field `refusal`.
    pub(super) fn refuses(&self) -> bool {
        self.refusal.is_some_and(|words| !text_of(words).is_empty())
    }

    /// # Errors
    /// `third-party` for unreadable calls.
    pub(super) fn tool_calls(&self) -> Result<Vec<ChatResponseToolCall<'a>>, ProviderError> {
        let calls: Vec<&'a RawValue> = content("tool_calls", self.tool_calls)?;
        let calls = calls.into_iter().map(|raw| {
            serde_json::from_str(raw.get()).map_err(|_| raw_json::garbled("tool_calls", raw.get()))
        });
        calls.collect()
    }

    /// Returns the piece of a call in the deprecated form; `None` for an empty piece.
    ///
    /// # Errors
    /// `third-party` for an unreadable call.
    pub(super) fn function_call(&self) -> Result<Option<ChatResponseToolCall<'a>>, ProviderError> {
        let Some(raw) = self.function_call else { return Ok(None) };
        let function: Option<ChatResponseFunctionCall<'a>> = raw_json::content("function_call", raw.get())?;
        let call = function.map(ChatResponseToolCall::deprecated);
        // Some servers send an empty object with every chunk.
        Ok(call.filter(|call| call.name().is_some() || !call.arguments().is_empty()))
    }
}

/// Returns a string; empty for another type.
fn text_of(raw: &RawValue) -> String {
    // A field of another type holds no text. Failing for it would lose the answer.
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// Parses a field with content; the default value if the field is missing or empty.
///
/// # Errors
/// `third-party` for unreadable content.
pub(super) fn content<'a, T: Deserialize<'a> + Default>(
    key: &str,
    field: Option<&'a RawValue>,
) -> Result<T, ProviderError> {
    Ok(field.map_or(Ok(None), |raw| raw_json::content(key, raw.get()))?.unwrap_or_default())
}

/// Reads `content`: a string, or a list of blocks (Mistral), reasoning among the blocks.
fn spoken_pieces(raw: &RawValue, pieces: &mut Vec<ChatResponsePart>) -> Result<(), ProviderError> {
    if raw.get().starts_with('"') {
        pieces.push(ChatResponsePart::Text(content("content", Some(raw))?));
        return Ok(());
    }
    let blocks: Vec<&RawValue> = content("content", Some(raw))?;
    for block in blocks {
        pieces.extend(block_piece(block)?);
    }
    Ok(())
}

fn block_piece(raw: &RawValue) -> Result<Option<ChatResponsePart>, ProviderError> {
    let block: Value =
        // Content is a text in OpenAI's form, and a list of blocks on some servers, so each block is read by itself.
        serde_json::from_str(raw.get()).map_err(|_| raw_json::garbled("content", raw.get()))?;
    if let Value::String(text) = block {
        return Ok(Some(ChatResponsePart::Text(text)));
    }
    // Some servers leave the type out where the field `text` says it.
    let kind = block.get("type").and_then(Value::as_str).or(block.get("text").map(|_| "text"));
    Ok(match kind.ok_or_else(|| raw_json::garbled("content", raw.get()))? {
        "thinking" => block.get("thinking").map(|text| ChatResponsePart::Reasoning(joined(text))),
        "text" => block.get("text").map(|text| ChatResponsePart::Text(joined(text))),
        kind => Some(ChatResponsePart::Opaque(OpaquePart {
            kind: kind.to_owned(),
            native: RawJson(raw.get().to_owned()),
        })),
    })
}

fn joined(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // Mistral nests the text of a thinking block in a list of text blocks.
        Value::Array(blocks) => blocks.iter().filter_map(|block| block.get("text")).map(joined).collect(),
        _ => String::new(),
    }
}

/// A piece of a tool call.
#[derive(Debug, Deserialize)]
pub(super) struct ChatResponseToolCall<'a> {
    #[serde(default)]
    pub(super) index: Option<i64>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    function: Option<ChatResponseFunctionCall<'a>>,
    /// Additional content, kept beside the call and sent back: Gemini's compatible API signs calls there.
    #[serde(borrow, default)]
    pub(super) extra_content: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct ChatResponseFunctionCall<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

impl<'a> ChatResponseToolCall<'a> {
    /// The index of a call in the deprecated form, which has none of its own.
    pub(super) const DEPRECATED_INDEX: i64 = -1;

    fn deprecated(function: ChatResponseFunctionCall<'a>) -> Self {
        Self { index: Some(Self::DEPRECATED_INDEX), id: None, function: Some(function), extra_content: None }
    }

    /// Returns the provider's id of the call; `None` for an empty id.
    pub(super) fn id(&self) -> Option<String> {
        let raw = self.id?;
        // Some servers number their calls instead of naming them.
        let id = if raw.get().starts_with('"') { text_of(raw) } else { raw.get().to_owned() };
        (!id.is_empty()).then_some(id)
    }

    pub(super) fn name(&self) -> Option<String> {
        let name = text_of(self.function.as_ref()?.name?);
        (!name.is_empty()).then_some(name)
    }

    /// Returns the arguments as written by the model; some servers send the object instead of text.
    pub(super) fn arguments(&self) -> String {
        let Some(raw) = self.function.as_ref().and_then(|function| function.arguments) else {
            return String::new();
        };
        if raw.get().starts_with('"') { text_of(raw) } else { raw.get().to_owned() }
    }
}

/// A router's reasoning details, as a part keeps them in `native`.
#[derive(Debug, Deserialize)]
pub(super) struct NativeReasoningDetails<'a> {
    #[serde(borrow)]
    pub(super) reasoning_details: &'a RawValue,
}

impl NativeReasoningDetails<'_> {
    /// Reports whether any detail is signed or encrypted.
    pub(super) fn are_proven(&self) -> bool {
        let entries: Vec<Value> = serde_json::from_str(self.reasoning_details.get()).unwrap_or_default();
        entries.iter().any(|entry| Self::has_text(entry, "signature") || Self::has_text(entry, "data"))
    }

    fn has_text(entry: &Value, key: &str) -> bool {
        entry.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
    }
}
