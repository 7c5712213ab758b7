//! The content of one item of a request.

use std::borrow::Cow;

use longhaul_core::ids::CallId;
use longhaul_core::message::{OpaquePart, Part, RawJson, ReasoningPart, ToolCall, given_arguments};
use longhaul_core::plan::MARK;

use super::namespaces::flat_name;
use crate::edit::{ItemSegment, ParseError, ephemeral, media};
use crate::raw_json::{elements, field, fields, quote, string, text_field};

/// The beginnings of texts that clients send with the user's role although no person typed them (Codex, seen
/// 2026-05).
const NOTES: [&str; 4] =
    ["<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>"];

/// A parsed item.
pub(super) struct BorrowedResponsesItem<'a> {
    /// The item's type; `message` if it has none.
    pub(super) kind: String,
    pub(super) role: Option<String>,
    pub(super) fields: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> BorrowedResponsesItem<'a> {
    /// # Errors
    /// [`ParseError`] if it is no item.
    pub(super) fn read(item: &'a str, index: usize) -> Result<Self, ParseError> {
        let fields = fields(item)
            .ok_or_else(|| ParseError::field(format!("input[{index}]"), "an item must be an object"))?;
        let (kind, role) = (text_field(&fields, "type"), text_field(&fields, "role"));
        let kind = match (kind, &role) {
            (Some(kind), _) => kind,
            // OpenAI takes messages without a type.
            (None, Some(_)) => "message".to_owned(),
            (None, None) => return Err(ParseError::field(format!("input[{index}]"), "`type` is missing")),
        };
        Ok(Self { kind, role, fields })
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        field(&self.fields, name).and_then(string)
    }

    /// Reports whether the item answers a call.
    pub(super) fn is_result(&self) -> bool {
        // By its ending, so that results of tools that are not known here count too.
        self.kind.ends_with("_call_output")
    }
}

/// Returns the one segment of an item. `None` if the item has no content.
///
/// # Errors
/// [`ParseError`] if it is no item.
pub(super) fn piece(raw: &str, index: usize) -> Result<Option<ItemSegment>, ParseError> {
    // An input that is only a text has no item.
    if let Some(said) = string(raw) {
        return Ok(text(said).map(|part| ItemSegment::Typed(vec![part])));
    }
    let item = BorrowedResponsesItem::read(raw, index)?;
    let place = format!("input[{index}]");
    if item.is_result() {
        return result(&item, &place).map(Some);
    }
    let part = match item.kind.as_str() {
        "message" => return message(&item, &place),
        "reasoning" => {
            Part::Reasoning(ReasoningPart { text: reasoning(&item), native: Some(RawJson(raw.to_owned())) })
        }
        "function_call" => Part::ToolCall(call(&item, "arguments", &place)?),
        "custom_tool_call" => Part::ToolCall(call(&item, "input", &place)?),
        // Calls of built-in tools that the client runs (`local_shell_call`) have no name: their type names the
        // tool.
        kind if kind.ends_with("_call") && item.text("call_id").is_some() => {
            let id = item.text("call_id").unwrap_or_default();
            Part::ToolCall(ToolCall {
                call_id: CallId::new(id.as_str()),
                name: kind.trim_end_matches("_call").to_owned(),
                arguments: field(&item.fields, "action").unwrap_or("{}").to_owned(),
                provider_id: Some(id),
                native: Some(RawJson(raw.to_owned())),
            })
        }
        kind => Part::Opaque(OpaquePart { kind: kind.to_owned(), native: RawJson(raw.to_owned()) }),
    };
    Ok(Some(ItemSegment::Assistant(vec![part])))
}

fn text(text: String) -> Option<Part> {
    // Notices that this gateway wrote into an earlier answer must not reach the model.
    let text = ephemeral::without_notices(&text).unwrap_or(text);
    (!text.is_empty()).then(|| Part::text(text))
}

fn message(item: &BorrowedResponsesItem<'_>, place: &str) -> Result<Option<ItemSegment>, ParseError> {
    let role = item.role.as_deref().ok_or_else(|| ParseError::field(place, "`role` is missing"))?;
    let content =
        field(&item.fields, "content").ok_or_else(|| ParseError::field(place, "`content` is missing"))?;
    let parts = content_parts(content, place)?;
    if parts.is_empty() {
        return Ok(None);
    }
    Ok(Some(match role {
        "assistant" => ItemSegment::Assistant(parts),
        "system" | "developer" => ItemSegment::System(parts),
        // All parts, since a person may type below a client's note.
        "user" if parts.iter().all(is_note) => ItemSegment::Note(parts),
        "user" => ItemSegment::Typed(parts),
        other => return Err(ParseError::field(place, format!("unknown role `{other}`"))),
    }))
}

fn is_note(part: &Part) -> bool {
    let said = part.as_text().map(str::trim_start);
    said.is_some_and(|text| text.starts_with(MARK) || NOTES.iter().any(|note| text.starts_with(note)))
}

/// Returns the parts of content, which is a text or a list of blocks.
fn content_parts(raw: &str, place: &str) -> Result<Vec<Part>, ParseError> {
    if let Some(said) = string(raw) {
        return Ok(text(said).into_iter().collect());
    }
    let blocks =
        elements(raw).ok_or_else(|| ParseError::field(place, "`content` must be a string or a list"))?;
    let mut parts = Vec::new();
    for (at, block) in blocks.into_iter().enumerate() {
        parts.extend(part(block, &format!("{place}.content[{at}]"))?);
    }
    Ok(parts)
}

fn part(raw: &str, place: &str) -> Result<Option<Part>, ParseError> {
    let block = fields(raw).ok_or_else(|| ParseError::field(place, "a block must be an object"))?;
    let kind = text_field(&block, "type").ok_or_else(|| ParseError::field(place, "`type` is missing"))?;
    Ok(match kind.as_str() {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
            text(text_field(&block, "text").ok_or_else(|| ParseError::field(place, "`text` is missing"))?)
        }
        "refusal" => text_field(&block, "refusal").and_then(text),
        "input_image" | "computer_screenshot" => match text_field(&block, "image_url") {
            Some(url) => Some(
                media::part_from_url(&url, "image/png", None)
                    .ok_or_else(|| ParseError::field(place, "`image_url` is unreadable"))?,
            ),
            None => {
                // The bytes are at the server, so only the reference can be kept.
                Some(media::linked("image/png", None, &text_field(&block, "file_id").unwrap_or_default()))
            }
        },
        "input_file" => {
            let name = text_field(&block, "filename");
            match text_field(&block, "file_data") {
                Some(data) => Some(
                    media::part_from_url(&data, "application/pdf", name)
                        .ok_or_else(|| ParseError::field(place, "`file_data` is unreadable"))?,
                ),
                None => {
                    let address = text_field(&block, "file_id")
                        .or_else(|| text_field(&block, "file_url"))
                        .unwrap_or_default();
                    Some(media::linked("application/pdf", name, &address))
                }
            }
        }
        // A block of an unknown kind is passed on unchanged.
        _ => Some(Part::Opaque(OpaquePart { kind, native: RawJson(raw.to_owned()) })),
    })
}

fn result(item: &BorrowedResponsesItem<'_>, place: &str) -> Result<ItemSegment, ParseError> {
    let call = item.text("call_id").ok_or_else(|| ParseError::field(place, "`call_id` is missing"))?;
    let content = match field(&item.fields, "output") {
        None | Some("null") => Vec::new(),
        // The output of a computer call is a single block without a list.
        Some(raw) if raw.starts_with('{') => part(raw, place)?.into_iter().collect(),
        Some(raw) => content_parts(raw, place)?,
    };
    Ok(ItemSegment::Result { call, failed: item.text("status").as_deref() == Some("failed"), content })
}

/// Returns a call with its arguments as the model wrote them; a custom tool's input is a text instead of JSON.
fn call(item: &BorrowedResponsesItem<'_>, arguments: &str, place: &str) -> Result<ToolCall, ParseError> {
    let id = item.text("call_id").ok_or_else(|| missing_field(place, "call_id"))?;
    let name = item.text("name").ok_or_else(|| missing_field(place, "name"))?;
    let said = item.text(arguments).unwrap_or_default();
    // A custom tool's input is free text and must not be repaired as JSON.
    let said = if arguments == "input" { said } else { given_arguments(&said).to_owned() };
    Ok(ToolCall {
        call_id: CallId::new(id.as_str()),
        name: match item.text("namespace") {
            Some(namespace) => flat_name(&namespace, &name),
            None => name,
        },
        arguments: if arguments == "input" { format!("{{\"input\":{}}}", quote(&said)) } else { said },
        provider_id: Some(id),
        native: None,
    })
}

fn missing_field(place: &str, name: &str) -> ParseError {
    ParseError::field(place, format!("`{name}` is missing"))
}

/// Returns the readable part of a model's reasoning.
pub(super) fn reasoning(item: &BorrowedResponsesItem<'_>) -> String {
    // The content is what the model thought; the summary is only a report of it.
    let (content, summary) = (part_texts(item, "content"), part_texts(item, "summary"));
    if content.is_empty() { summary.join("\n\n") } else { content.join("") }
}

/// Returns the texts of the parts in the list `name`.
fn part_texts(item: &BorrowedResponsesItem<'_>, name: &str) -> Vec<String> {
    let list = field(&item.fields, name).and_then(elements).unwrap_or_default();
    list.into_iter().filter_map(|part| text_field(&fields(part)?, "text")).collect()
}
