//! The encoder of a model's message as content blocks.

use std::borrow::Cow;

use longhaul_core::message::{Message, ModelOrigin, Part, RawJson, ReasoningPart, ToolCall, given_arguments};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::names::MessagesCallIdMap;
use super::{invalid, raw};
use crate::raw_json::{self as somebody, RawObject};
use crate::{ProviderError, UNSUPPORTED};

/// A content block of an assistant message.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum MessagesAssistantBlock<'a> {
    /// The block with the model's bytes.
    Kept(&'a RawValue),
    /// The block with the model's bytes, except for the id, or for arguments refused by the API.
    Mended(Box<RawValue>),
    Told(TranslatedAssistantBlock<'a>),
}

impl MessagesAssistantBlock<'_> {
    /// Returns the text of a block of nothing but text.
    pub(super) fn plain_text(&self) -> Option<String> {
        match self {
            Self::Told(TranslatedAssistantBlock::Text { text }) => Some(text.clone().into_owned()),
            Self::Kept(block) => {
                let block = RawObject::parse(block.get())?;
                block.text("text").filter(|_| block.text("type").as_deref() == Some("text"))
            }
            Self::Told(TranslatedAssistantBlock::ToolUse { .. }) | Self::Mended(_) => None,
        }
    }
}

/// A block made from a neutral part.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum TranslatedAssistantBlock<'a> {
    Text { text: Cow<'a, str> },
    ToolUse { id: String, name: &'a str, input: Cow<'a, RawValue> },
}

/// The options for writing an assistant message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AssistantEncodeOptions {
    /// `true` for a message of the target model.
    pub(super) own: bool,
    /// `true` if the model is to continue the message.
    pub(super) last: bool,
    /// `true` if the message's reasoning is left out although the reasoning is the model's own.
    pub(super) without_reasoning: bool,
}

/// Returns the content blocks of an assistant message, in order.
///
/// Content of `target` is sent back byte for byte. Content of another model is sent as text and tool calls, without
/// reasoning and native blocks. Other arguments than JSON objects are wrapped in an object.
///
/// # Errors
/// `invalid-request` for a tool result: tool results have no place here.
pub fn encode_parts(message: &Message, target: &ModelOrigin) -> Result<Vec<RawJson>, ProviderError> {
    let manner = AssistantEncodeOptions {
        own: somebody::is_own(message, target),
        ..AssistantEncodeOptions::default()
    };
    let said = blocks(message.parts.iter(), manner, &mut MessagesCallIdMap::default())?;
    let written = said.iter().map(|block| serde_json::to_string(block).map(RawJson));
    written.collect::<Result<_, _>>().map_err(|error| invalid(format!("a block is not JSON: {error}")))
}

/// Returns the content blocks of `parts`.
///
/// # Errors
/// As [`encode_parts`].
pub(super) fn blocks<'a>(
    parts: impl Iterator<Item = &'a Part>,
    manner: AssistantEncodeOptions,
    names: &mut MessagesCallIdMap<'a>,
) -> Result<Vec<MessagesAssistantBlock<'a>>, ProviderError> {
    let mut parts = parts.peekable();
    let mut said = Vec::new();
    while let Some(part) = parts.next() {
        let open = manner.last && parts.peek().is_none();
        said.extend(block(part, manner, open, names)?);
    }
    Ok(said)
}

/// Returns the block of a part. `open` is `true` if the model is to continue the block.
fn block<'a>(
    part: &'a Part,
    manner: AssistantEncodeOptions,
    open: bool,
    names: &mut MessagesCallIdMap<'a>,
) -> Result<Option<MessagesAssistantBlock<'a>>, ProviderError> {
    Ok(match part {
        // The API refuses blank text blocks, even its own.
        Part::Text(text) if text.text.trim().is_empty() => None,
        Part::Text(text) => Some(
            own_native(part, manner, &["text"])
                .map_or_else(|| text_block(&text.text, open), MessagesAssistantBlock::Kept),
        ),
        Part::Reasoning(_) if manner.without_reasoning => None,
        Part::Reasoning(reasoning) => own_reasoning(reasoning, manner.own).map(MessagesAssistantBlock::Kept),
        Part::Opaque(_) => own_native(part, manner, &[]).map(MessagesAssistantBlock::Kept),
        Part::ToolCall(call) => {
            Some(tool_use(call, own_native(part, manner, &["tool_use"]), manner.own, names))
        }
        // The API takes media from users and tools only.
        Part::Image(_) | Part::File(_) => Some(text_block(UNSUPPORTED, false)),
        _ => return Err(somebody::misplaced(part)),
    })
}

/// Returns the part with the server's bytes, if the part's kind is among `kinds`.
fn own_native<'a>(part: &'a Part, manner: AssistantEncodeOptions, kinds: &[&str]) -> Option<&'a RawValue> {
    somebody::native(part).filter(|_| manner.own).and_then(|native| native_block(native, kinds))
}

/// Returns a text block. The API refuses a request with a blank at the end.
fn text_block(text: &str, open: bool) -> MessagesAssistantBlock<'_> {
    let text = if open { text.trim_end() } else { text };
    MessagesAssistantBlock::Told(TranslatedAssistantBlock::Text { text: Cow::Borrowed(text) })
}

/// Returns the reasoning block for the reasoning's own model.
pub(super) fn own_reasoning(reasoning: &ReasoningPart, own: bool) -> Option<&RawValue> {
    native_block(reasoning.native.as_ref().filter(|_| own)?, &["thinking", "redacted_thinking"])
}

/// Returns the bytes of a block of the Messages API, of any of `kinds`; of any kind if `kinds` is empty.
fn native_block<'a>(native: &'a RawJson, kinds: &[&str]) -> Option<&'a RawValue> {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
    }
    // Native items of another wire may be in the log. They are encoded from their neutral part.
    let typed: Typed<'_> = serde_json::from_str(native.as_str()).ok()?;
    let known = kinds.is_empty() || kinds.contains(&typed.r#type.as_ref());
    known.then(|| raw(native.as_str())).flatten()
}

fn tool_use<'a>(
    call: &'a ToolCall,
    native: Option<&'a RawValue>,
    own: bool,
    names: &mut MessagesCallIdMap<'a>,
) -> MessagesAssistantBlock<'a> {
    let id = names.assign_id(call, own);
    let input = input(&call.arguments);
    let Some(native) = native else {
        return MessagesAssistantBlock::Told(TranslatedAssistantBlock::ToolUse {
            id,
            name: &call.name,
            input,
        });
    };
    match mended(native, &id, &input) {
        Some(mended) => MessagesAssistantBlock::Mended(mended),
        None => MessagesAssistantBlock::Kept(native),
    }
}

/// Returns the block with `id` and `input`; `None` if nothing changes.
fn mended(native: &RawValue, id: &str, input: &RawValue) -> Option<Box<RawValue>> {
    let mut block = RawObject::parse(native.get())?;
    if block.text("id").as_deref() == Some(id) && block.get("input") == Some(input.get()) {
        return None;
    }
    block.set_text("id", id);
    block.set("input", input.to_owned());
    somebody::value(block.to_json().as_str())
}

/// Returns exactly the model's bytes of a JSON object. The API refuses other arguments, together with the whole
/// conversation. Such arguments are wrapped: the model still sees its own text.
fn input(arguments: &str) -> Cow<'_, RawValue> {
    let written = given_arguments(arguments);
    match raw(written).filter(|json| is_sound_object(json.get())) {
        Some(json) => Cow::Borrowed(json),
        None => Cow::Owned(wrapped(arguments)),
    }
}

fn wrapped(arguments: &str) -> Box<RawValue> {
    let wrapped = serde_json::json!({ "invalid_json": arguments });
    serde_json::value::to_raw_value(&wrapped).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Reports whether arguments are an object without a lone surrogate half. An escaped half is JSON to some parsers
/// and not to the API's.
fn is_sound_object(json: &str) -> bool {
    RawObject::parse(json).is_some()
        && (!json.contains("\\u") || serde_json::from_str::<serde_json::Value>(json).is_ok())
}
