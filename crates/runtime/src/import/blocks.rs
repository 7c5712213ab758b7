//! Content blocks of the formats derived from the Anthropic and OpenAI wire formats.

use longhaul_core::ids::CallId;
use longhaul_core::message::{OpaquePart, Part, RawJson, ReasoningPart, TextPart, ToolCall, ToolStatus};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::ImportPosition;
use super::item::ImportedToolResult;
use super::sink::ImportSink;

#[derive(Deserialize)]
struct ForeignContentBlock<'a> {
    r#type: String,
    text: Option<String>,
    refusal: Option<String>,
    thinking: Option<String>,
    #[serde(alias = "thinkingSignature")]
    signature: Option<String>,
    #[serde(rename = "textSignature")]
    text_signature: Option<String>,
    #[serde(rename = "thoughtSignature")]
    thought_signature: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(rename = "partialJson", borrow)]
    partial_json: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    redacted: Option<bool>,
    data: Option<String>,
    #[serde(rename = "mimeType")]
    mime_type: Option<String>,
    image_url: Option<ForeignImageUrl>,
    #[serde(borrow)]
    image: Option<&'a RawValue>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    #[serde(borrow)]
    title: Option<&'a RawValue>,
    file: Option<ForeignFileData>,
}

/// The source of an Anthropic block's content.
#[derive(Deserialize)]
struct ForeignBlockSource {
    r#type: String,
    media_type: Option<String>,
    data: Option<String>,
    url: Option<String>,
}

/// A tool's answer in a user message.
#[derive(Deserialize)]
struct ForeignToolResultBlock<'a> {
    r#type: String,
    tool_use_id: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    is_error: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ForeignImageUrl {
    Bare(String),
    Object { url: String },
}

#[derive(Deserialize)]
struct ForeignFileData {
    filename: Option<String>,
    file_data: Option<String>,
}

/// The author of a list of blocks. An assistant's unknown blocks are kept unchanged and others are described in words:
/// only an assistant's own provider can understand them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockAuthor {
    Assistant,
    Other,
}

/// Returns the parts of a `content` field: a text, a list of blocks, or nothing.
pub(super) fn parts(
    content: Option<&RawValue>,
    speaker: BlockAuthor,
    place: ImportPosition,
    sink: &mut ImportSink,
) -> Vec<Part> {
    let Some(content) = content.map(RawValue::get) else { return Vec::new() };
    if content == "null" {
        return Vec::new();
    }
    if let Ok(text) = serde_json::from_str::<String>(content) {
        return if text.is_empty() { Vec::new() } else { vec![Part::text(text)] };
    }
    match serde_json::from_str::<Vec<&RawValue>>(content) {
        Ok(blocks) => blocks.into_iter().filter_map(|block| part(block, speaker, place, sink)).collect(),
        Err(_) => unknown(content, "content", speaker, place, sink).into_iter().collect(),
    }
}

/// Splits a user's content into the answers of tools and the other parts.
pub(super) fn user_parts(
    content: Option<&RawValue>,
    place: ImportPosition,
    sink: &mut ImportSink,
) -> (Vec<ImportedToolResult>, Vec<Part>) {
    let blocks = content.and_then(|raw| serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok());
    let Some(blocks) = blocks else { return (Vec::new(), parts(content, BlockAuthor::Other, place, sink)) };
    let (mut answers, mut rest) = (Vec::new(), Vec::new());
    for block in blocks {
        match serde_json::from_str::<ForeignToolResultBlock<'_>>(block.get()) {
            Ok(result) if result.r#type == "tool_result" => answers.push(ImportedToolResult {
                content: parts(result.content, BlockAuthor::Other, place, sink),
                call: result.tool_use_id,
                tool: None,
                status: if result.is_error == Some(true) { ToolStatus::Error } else { ToolStatus::Completed },
            }),
            _ => rest.extend(part(block, BlockAuthor::Other, place, sink)),
        }
    }
    (answers, rest)
}

/// Returns arguments as written by the model: JSON text, or the JSON itself byte for byte.
pub(super) fn arguments(raw: Option<&RawValue>) -> String {
    // A call without arguments is one with an empty object for every provider.
    let raw = raw.map_or("{}", RawValue::get);
    serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned())
}

fn whole(raw: &RawValue) -> RawJson {
    RawJson(raw.get().to_owned())
}

fn part(raw: &RawValue, speaker: BlockAuthor, place: ImportPosition, sink: &mut ImportSink) -> Option<Part> {
    let Ok(block) = serde_json::from_str::<ForeignContentBlock<'_>>(raw.get()) else {
        return unknown(raw.get(), "block", speaker, place, sink);
    };
    match (block.r#type.as_str(), speaker) {
        ("text" | "input_text" | "output_text", _) => {
            // A signature belongs to the exact bytes of a block: the block is kept beside its text.
            let proven = speaker == BlockAuthor::Assistant && has(&block.text_signature);
            let text = block.text.unwrap_or_default();
            (proven || !text.is_empty())
                .then(|| Part::Text(TextPart { text, native: proven.then(|| whole(raw)) }))
        }
        ("refusal", BlockAuthor::Assistant) => block.refusal.map(Part::text),
        ("thinking", BlockAuthor::Assistant) => {
            let proven = has(&block.signature);
            let text = block.thinking.unwrap_or_default();
            (proven || !text.is_empty())
                .then(|| Part::Reasoning(ReasoningPart { text, native: proven.then(|| whole(raw)) }))
        }
        // Redacted thinking has no readable text, but its provider wants the block back unchanged.
        ("redacted_thinking", BlockAuthor::Assistant) => {
            Some(Part::Reasoning(ReasoningPart { text: String::new(), native: Some(whole(raw)) }))
        }
        ("reasoning", BlockAuthor::Assistant) if block.reasoning.is_some() => {
            let redacted = block.redacted == Some(true);
            let proven = redacted || has(&block.signature);
            // Redacted reasoning is encrypted data, not text.
            let text = block.reasoning.filter(|_| !redacted).and_then(string).unwrap_or_default();
            (proven || !text.is_empty())
                .then(|| Part::Reasoning(ReasoningPart { text, native: proven.then(|| whole(raw)) }))
        }
        ("toolCall" | "tool_use", BlockAuthor::Assistant) => call(block, raw, place, sink),
        ("image" | "document", _) if block.source.is_some() => {
            let source =
                block.source.and_then(|raw| serde_json::from_str::<ForeignBlockSource>(raw.get()).ok());
            match source {
                Some(source) => Some(sourced(source, block.title.and_then(string), place, sink)),
                None => unknown(raw.get(), &block.r#type, speaker, place, sink),
            }
        }
        ("image", _) if block.data.is_some() => {
            let media_type = block.mime_type.unwrap_or_else(|| "image/png".to_owned());
            Some(sink.media(place, &media_type, None, &block.data.unwrap_or_default()))
        }
        ("image", _) if block.image.is_some() => {
            Some(linked(&block.image.and_then(string).unwrap_or_default(), None, place, sink))
        }
        ("image_url", _) => block.image_url.map(|image| match image {
            ForeignImageUrl::Bare(url) | ForeignImageUrl::Object { url } => linked(&url, None, place, sink),
        }),
        ("file", _) => {
            let file = block.file.unwrap_or(ForeignFileData { filename: None, file_data: None });
            Some(linked(&file.file_data.unwrap_or_default(), file.filename, place, sink))
        }
        _ => unknown(raw.get(), &block.r#type, speaker, place, sink),
    }
}

/// Returns the text of a JSON string.
fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn has(text: &Option<String>) -> bool {
    text.as_deref().is_some_and(|text| !text.is_empty())
}

/// Returns the part of a call; `None` for a call cut off in writing.
fn call(
    block: ForeignContentBlock<'_>,
    raw: &RawValue,
    place: ImportPosition,
    sink: &mut ImportSink,
) -> Option<Part> {
    let name = block.name.unwrap_or_default();
    if block.partial_json.is_some_and(|partial| partial.get() != "null") {
        sink.warn(place, format!("a call of `{name}` that was cut off while it was written was left out"));
        return None;
    }
    let proven = has(&block.thought_signature);
    Some(Part::ToolCall(ToolCall {
        // The id is assigned when the log is made, because recorded ids may repeat.
        call_id: CallId::new(""),
        name,
        arguments: arguments(block.arguments.or(block.input)),
        provider_id: block.id,
        native: proven.then(|| RawJson(raw.get().to_owned())),
    }))
}

fn sourced(
    source: ForeignBlockSource,
    title: Option<String>,
    place: ImportPosition,
    sink: &mut ImportSink,
) -> Part {
    match source.r#type.as_str() {
        "base64" => {
            let media_type = source.media_type.as_deref().unwrap_or("application/octet-stream");
            sink.media(place, media_type, title, &source.data.unwrap_or_default())
        }
        "text" => Part::text(source.data.unwrap_or_default()),
        other => linked(source.url.as_deref().unwrap_or(other), title, place, sink),
    }
}

/// Returns the content behind an address: a data URL is content, any other address stays an address.
fn linked(url: &str, name: Option<String>, place: ImportPosition, sink: &mut ImportSink) -> Part {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    if let Some((media_type, base64)) = data {
        // A data URL may have parameters behind the type, such as a character set.
        let media_type = media_type.split(';').next().unwrap_or_default();
        return sink.media(place, media_type, name, base64);
    }
    // A link is not followed: an import opens no connection and no other file.
    let shown: String = url.chars().take(200).collect();
    sink.warn(place, "content that the file only links to was replaced by its address");
    Part::text(format!("[content: {}]", name.as_deref().unwrap_or(&shown)))
}

fn unknown(
    raw: &str,
    kind: &str,
    speaker: BlockAuthor,
    place: ImportPosition,
    sink: &mut ImportSink,
) -> Option<Part> {
    let kind: String = kind.chars().take(60).collect();
    if speaker == BlockAuthor::Assistant {
        return Some(Part::Opaque(OpaquePart { kind, native: RawJson(raw.to_owned()) }));
    }
    sink.warn(place, format!("content of unknown kind `{kind}` was left out"));
    Some(Part::text(format!("[unsupported content: {kind}]")))
}
