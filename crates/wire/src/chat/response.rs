//! The shapes of an answer. Whatever a server leaves out, adds, or types differently is let pass: only what
//! is read is described here.

use std::borrow::Cow;

use longhaul_core::message::{OpaquePart, RawJson};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::ProviderError;
use crate::raw_json::{self, RawObject};

/// One chunk of a stream, or a whole answer.
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
    /// Some servers put the error's fields into the chunk itself.
    pub(super) fn is_error(&self) -> bool {
        let named = self.object.is_some_and(|object| object.get() == "\"error\"");
        self.error.is_some() || (named && self.choices.is_none())
    }
}

/// What may hold an error beside its content.
#[derive(Deserialize)]
struct ChatErrorHolder<'a> {
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Returns whether the value of `error` says that something failed.
fn says_error(value: &str) -> bool {
    !matches!(value, "null" | "false" | "0" | "\"\"")
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
    /// We ask for one choice; of several the first is ours.
    pub(super) fn is_first(&self) -> bool {
        self.index.unwrap_or_default() == 0
    }

    /// The error that ended the choice (OpenRouter): of the choice itself, or inside its delta or message.
    pub(super) fn error(&self) -> Option<&'a str> {
        let held = [self.delta, self.message].into_iter().flatten();
        let held = held.filter_map(|raw| serde_json::from_str::<ChatErrorHolder<'a>>(raw.get()).ok()?.error);
        self.error.into_iter().chain(held).map(RawValue::get).find(|error| says_error(error))
    }

    /// What a filter found (Azure): the kinds that it held back.
    pub(super) fn filtered(&self) -> Vec<String> {
        let results = self.content_filter_results.and_then(|raw| RawObject::parse(raw.get()));
        let results = results.unwrap_or_default();
        let held = results.fields().filter(|(_, result)| {
            RawObject::parse(result).is_some_and(|result| result.get("filtered") == Some("true"))
        });
        held.map(|(kind, _)| kind.to_owned()).collect()
    }

    /// What is new. A whole message counts only where nothing was streamed before: some servers repeat the
    /// text so far beside each delta.
    ///
    /// # Errors
    /// `third-party` if it is no object.
    pub(super) fn delta(&self, streamed: bool) -> Result<Option<ChatResponseDelta<'a>>, ProviderError> {
        let whole = self.message.filter(|_| !streamed);
        self.delta.or(whole).map_or(Ok(None), |raw| raw_json::content("delta", raw.get()))
    }
}

/// What a message or a piece of it may hold.
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
}

/// A piece of an answer, in the order in which it is shown.
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
    /// Reasoning first: one delta may hold it beside the text that follows it. Where it comes under both
    /// names it is the same text.
    ///
    /// # Errors
    /// `third-party` for content that nobody can read.
    pub(super) fn pieces(&self) -> Result<Vec<ChatResponsePart>, ProviderError> {
        let mut pieces = Vec::new();
        let reasoning = [self.reasoning_content, self.reasoning].into_iter().flatten().map(text_of);
        pieces.extend(reasoning.filter(|text| !text.is_empty()).take(1).map(ChatResponsePart::Reasoning));
        for spoken in [self.content, self.refusal].into_iter().flatten() {
            spoken_pieces(spoken, &mut pieces)?;
        }
        pieces.retain(|piece| !piece.says_nothing());
        Ok(pieces)
    }

    /// Returns whether the model says here, in words of its own, that it will not answer.
    pub(super) fn refuses(&self) -> bool {
        self.refusal.is_some_and(|words| !text_of(words).is_empty())
    }

    /// # Errors
    /// `third-party` for calls that nobody can read.
    pub(super) fn tool_calls(&self) -> Result<Vec<ChatResponseToolCall<'a>>, ProviderError> {
        let calls: Vec<&'a RawValue> = content("tool_calls", self.tool_calls)?;
        let read = |raw: &'a RawValue| {
            serde_json::from_str(raw.get()).map_err(|_| raw_json::garbled("tool_calls", raw.get()))
        };
        calls.into_iter().map(read).collect()
    }
}

/// A string, or nothing readable.
fn text_of(raw: &RawValue) -> String {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// A field that holds content; nothing if it is missing or says nothing.
///
/// # Errors
/// `third-party` for what nobody can read.
pub(super) fn content<'a, T: Deserialize<'a> + Default>(
    key: &str,
    field: Option<&'a RawValue>,
) -> Result<T, ProviderError> {
    Ok(field.map_or(Ok(None), |raw| raw_json::content(key, raw.get()))?.unwrap_or_default())
}

/// `content` is a string, or a list of blocks (Mistral) of which some are reasoning.
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
    let unreadable = || raw_json::garbled("content", raw.get());
    let block: Value = serde_json::from_str(raw.get()).map_err(|_| unreadable())?;
    if let Value::String(text) = block {
        return Ok(Some(ChatResponsePart::Text(text)));
    }
    let kind = block.get("type").and_then(Value::as_str);
    Ok(match kind.or(block.get("text").map(|_| "text")).ok_or_else(unreadable)? {
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
    /// Kept beside the call and sent back: Gemini's compatible API signs its calls there.
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

impl ChatResponseToolCall<'_> {
    /// The provider's name of the call; `None` where it is empty.
    pub(super) fn id(&self) -> Option<String> {
        let raw = self.id?;
        let id = if raw.get().starts_with('"') { text_of(raw) } else { raw.get().to_owned() };
        (!id.is_empty()).then_some(id)
    }

    pub(super) fn name(&self) -> Option<String> {
        let name = text_of(self.function.as_ref()?.name?);
        (!name.is_empty()).then_some(name)
    }

    /// As the model wrote them; some servers send the object itself instead of its text.
    pub(super) fn arguments(&self) -> String {
        let Some(raw) = self.function.as_ref().and_then(|function| function.arguments) else {
            return String::new();
        };
        if raw.get().starts_with('"') { text_of(raw) } else { raw.get().to_owned() }
    }
}

/// What a router gave with its reasoning, as it is kept in a part's `native`.
#[derive(Debug, Deserialize)]
pub(super) struct NativeReasoningDetails<'a> {
    #[serde(borrow)]
    pub(super) reasoning_details: &'a RawValue,
}

impl NativeReasoningDetails<'_> {
    /// Returns whether one of them is signed or encrypted.
    pub(super) fn are_proven(&self) -> bool {
        let entries: Vec<Value> = serde_json::from_str(self.reasoning_details.get()).unwrap_or_default();
        let has = |entry: &Value, key: &str| {
            entry.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
        };
        entries.iter().any(|entry| has(entry, "signature") || has(entry, "data"))
    }
}
