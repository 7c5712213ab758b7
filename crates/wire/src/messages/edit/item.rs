//! The content of a message of a request.

use longhaul_core::ids::CallId;
use longhaul_core::message::{OpaquePart, Part, RawJson, ReasoningPart, ToolCall, given_arguments};
use longhaul_core::plan::MARK;

use super::text;
use crate::edit::{ItemSegment, ParseError, ephemeral, media};
use crate::raw_json::{elements, field, fields, string, text_field};

/// The beginnings of untyped texts with the user's role, as sent by clients (Claude Code, seen 2026-05).
pub const NOTES: [&str; 6] = [
    "<system-reminder>",
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>",
    "<command-name>",
    "This session is being continued from a previous conversation",
];

/// A block of content, with the fields for readers.
pub(super) struct BorrowedMessagesBlock<'a> {
    pub(super) raw: &'a str,
    pub(super) kind: String,
    pub(super) fields: Vec<(std::borrow::Cow<'a, str>, &'a str)>,
}

impl<'a> BorrowedMessagesBlock<'a> {
    pub(super) fn read(raw: &'a str) -> Option<Self> {
        let fields = fields(raw)?;
        let kind = string(field(&fields, "type")?)?;
        Some(Self { raw, kind, fields })
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        field(&self.fields, name).and_then(string)
    }

    /// Returns the block with the request's bytes.
    fn native(&self) -> RawJson {
        RawJson(self.raw.to_owned())
    }

    pub(super) fn is_result(&self) -> bool {
        self.kind == "tool_result"
    }

    /// Reports whether the block is a segment of its own in a message of this role: a result, or a readable summary of
    /// all earlier messages.
    pub(super) fn is_apart(&self, role: &str) -> bool {
        match role {
            "user" => self.is_result(),
            "assistant" => compaction_summary(self).is_some(),
            _ => false,
        }
    }

    /// Reports whether the block is text to a reader, or nothing at all.
    pub(super) fn is_text(&self) -> bool {
        matches!(part(self, false, ""), Ok(None | Some(Part::Text(_))))
    }
}

/// A message's content: blocks or a text.
pub(super) enum BorrowedMessagesContent<'a> {
    Text(String),
    Blocks(Vec<BorrowedMessagesBlock<'a>>),
}

fn message_error(index: usize, what: &str) -> ParseError {
    ParseError::field(format!("messages[{index}]"), what)
}

/// A parsed message.
pub(super) struct BorrowedMessagesItem<'a> {
    pub(super) role: String,
    /// The JSON of the content, with the item's bytes.
    pub(super) raw_content: &'a str,
    pub(super) content: BorrowedMessagesContent<'a>,
}

impl<'a> BorrowedMessagesItem<'a> {
    /// # Errors
    /// [`ParseError`] for other JSON than a message.
    pub(super) fn read(item: &'a str, index: usize) -> Result<Self, ParseError> {
        let fields = fields(item).ok_or_else(|| message_error(index, "a message must be an object"))?;
        let role = field(&fields, "role")
            .and_then(string)
            .ok_or_else(|| message_error(index, "`role` is missing"))?;
        if !matches!(role.as_str(), "user" | "assistant" | "system") {
            return Err(message_error(index, &format!("unknown role `{role}`")));
        }
        let raw_content =
            field(&fields, "content").ok_or_else(|| message_error(index, "`content` is missing"))?;
        let content = match string(raw_content) {
            Some(text) => BorrowedMessagesContent::Text(text),
            None => {
                let blocks = elements(raw_content);
                let blocks =
                    blocks.ok_or_else(|| message_error(index, "`content` must be a string or a list"))?;
                let blocks = blocks.into_iter().enumerate().map(|(at, block)| {
                    BorrowedMessagesBlock::read(block).ok_or_else(|| {
                        let place = format!("messages[{index}].content[{at}]");
                        ParseError::field(place, "a block must be an object with a `type`")
                    })
                });
                BorrowedMessagesContent::Blocks(blocks.collect::<Result<_, _>>()?)
            }
        };
        Ok(Self { role, raw_content, content })
    }
}

/// Returns the segments of a message: a segment for each result or compaction, in order, then a segment for all other
/// content.
///
/// # Errors
/// [`ParseError`] for other JSON than a message.
pub(super) fn segments(item: &str, index: usize) -> Result<Vec<ItemSegment>, ParseError> {
    let item = BorrowedMessagesItem::read(item, index)?;
    let blocks = match item.content {
        BorrowedMessagesContent::Text(said) => {
            let parts: Vec<Part> = text(said).into_iter().collect();
            return Ok(parts_segment(&item.role, parts).into_iter().collect());
        }
        BorrowedMessagesContent::Blocks(blocks) => blocks,
    };
    let (mut pieces, mut parts) = (Vec::new(), Vec::new());
    for (at, block) in blocks.iter().enumerate() {
        let place = format!("messages[{index}].content[{at}]");
        // Each result can be pruned by itself, so it is a segment of its own.
        match block.is_apart(&item.role) {
            true if block.is_result() => pieces.push(result(block, &place)?),
            true => pieces
                .extend(compaction_summary(block).map(|said| ItemSegment::Summary(vec![Part::text(said)]))),
            false => parts.extend(part(block, item.role == "assistant", &place)?),
        }
    }
    // The API demands results before all other content, so the segments keep that order.
    pieces.extend(parts_segment(&item.role, parts));
    Ok(pieces)
}

/// Returns the segment of a message's parts; `None` if there are no parts.
fn parts_segment(role: &str, parts: Vec<Part>) -> Option<ItemSegment> {
    if parts.is_empty() {
        return None;
    }
    Some(match role {
        "assistant" => ItemSegment::Assistant(parts),
        "system" => ItemSegment::System(parts),
        // With one part that a person typed, the whole message counts as typed.
        _ if parts.iter().all(is_note) => ItemSegment::Note(parts),
        _ => ItemSegment::Typed(parts),
    })
}

fn is_note(part: &Part) -> bool {
    let said = part.as_text().map(str::trim_start);
    said.is_some_and(|text| text.starts_with(MARK) || NOTES.iter().any(|note| text.starts_with(note)))
}

fn result(block: &BorrowedMessagesBlock<'_>, place: &str) -> Result<ItemSegment, ParseError> {
    let call = block.text("tool_use_id");
    let call = call.ok_or_else(|| ParseError::field(place, "`tool_use_id` is missing"))?;
    // A field that is absent means success.
    let failed = field(&block.fields, "is_error") == Some("true");
    let content = match field(&block.fields, "content") {
        None | Some("null") => Vec::new(),
        Some(raw) => match (string(raw), elements(raw)) {
            (Some(said), _) => text(said).into_iter().collect(),
            (None, Some(blocks)) => {
                let mut content = Vec::new();
                for raw in blocks {
                    let block = BorrowedMessagesBlock::read(raw)
                        .ok_or_else(|| ParseError::field(place, "`content` has a block that is none"))?;
                    content.extend(part(&block, false, place)?);
                }
                content
            }
            (None, None) => return Err(ParseError::field(place, "`content` must be a string or a list")),
        },
    };
    Ok(ItemSegment::Result { call, failed, content })
}

/// Returns a block as a part. `None` if the block has no content.
fn part(block: &BorrowedMessagesBlock<'_>, by_model: bool, place: &str) -> Result<Option<Part>, ParseError> {
    Ok(match block.kind.as_str() {
        "text" => {
            let said = block.text("text").ok_or_else(|| ParseError::field(place, "`text` is missing"))?;
            // A block that changes with every request is no part of the conversation.
            if ephemeral::is_volatile(&said) { None } else { text(said) }
        }
        "thinking" if by_model => {
            let text = block.text("thinking").unwrap_or_default();
            Some(Part::Reasoning(ReasoningPart { text, native: Some(block.native()) }))
        }
        "redacted_thinking" if by_model => {
            Some(Part::Reasoning(ReasoningPart { text: String::new(), native: Some(block.native()) }))
        }
        "tool_use" if by_model => {
            let id = block.text("id").ok_or_else(|| ParseError::field(place, "`id` is missing"))?;
            Some(Part::ToolCall(ToolCall {
                call_id: CallId::new(id.as_str()),
                name: block.text("name").ok_or_else(|| ParseError::field(place, "`name` is missing"))?,
                arguments: given_arguments(field(&block.fields, "input").unwrap_or_default()).to_owned(),
                provider_id: Some(id),
                native: None,
            }))
        }
        "image" | "document" => Some(sourced(block, place)?),
        "search_result" if !by_model => Some(match search_result_text(block) {
            Some(text) => Part::text(text),
            None => Part::Opaque(OpaquePart { kind: block.kind.clone(), native: block.native() }),
        }),
        kind => Some(Part::Opaque(OpaquePart { kind: kind.to_owned(), native: block.native() })),
    })
}

/// The first line of a summary in a `compaction` block, behind [`MARK`]. In another wire the block becomes a message of
/// the user, and no person wrote it.
const COMPACTED: &str = "of the conversation so far, by the server that its client used before:";

/// Returns the summary in a `compaction` block, below a first line that says what it is. `None` for other blocks, and for
/// summaries readable only to Anthropic. Source: `BetaCompactionBlockParam` of Anthropic's SDK for Python.
fn compaction_summary(block: &BorrowedMessagesBlock<'_>) -> Option<String> {
    let summary = (block.kind == "compaction").then(|| block.text("content")).flatten()?;
    let is_marked = summary.trim_start().starts_with(MARK);
    let said = if is_marked { summary.clone() } else { format!("{MARK} {COMPACTED}\n\n{summary}") };
    (!summary.trim().is_empty()).then_some(said)
}

/// Returns title, source and texts of a `search_result` block, a line each. `None` for other blocks, and where no text
/// can be read.
/// Source: `SearchResultBlockParam` of Anthropic's SDK for Python.
fn search_result_text(block: &BorrowedMessagesBlock<'_>) -> Option<String> {
    let content = (block.kind == "search_result").then(|| field(&block.fields, "content")).flatten()?;
    let texts = elements(content)?.into_iter().map(|raw| BorrowedMessagesBlock::read(raw)?.text("text"));
    // One unreadable block makes the whole result opaque: a part of a result would look complete.
    let texts = texts.collect::<Option<Vec<_>>>().filter(|texts| !texts.is_empty())?;
    let heading = ["title", "source"].into_iter().filter_map(|name| block.text(name));
    Some(heading.chain(texts).collect::<Vec<_>>().join("\n"))
}

/// Returns a picture or a file: bytes, a text, or an address.
fn sourced(block: &BorrowedMessagesBlock<'_>, place: &str) -> Result<Part, ParseError> {
    let source = field(&block.fields, "source")
        .and_then(fields)
        .ok_or_else(|| ParseError::field(place, "`source` is missing"))?;
    // A source by address or by file id states no media type.
    let default = if block.kind == "image" { "image/png" } else { "application/pdf" };
    let media_type = text_field(&source, "media_type").unwrap_or_else(|| default.to_owned());
    let title = block.text("title");
    match (text_field(&source, "type").as_deref(), text_field(&source, "data")) {
        (Some("base64"), Some(data)) => media::encoded(&media_type, title, &data)
            .ok_or_else(|| ParseError::field(place, "`data` is not base64")),
        (Some("text"), Some(data)) => Ok(Part::text(data)),
        _ => match text_field(&source, "url").or_else(|| text_field(&source, "file_id")) {
            Some(address) => Ok(media::linked(&media_type, title, &address)),
            None => {
                let native = block.native();
                Ok(Part::Opaque(OpaquePart { kind: block.kind.clone(), native }))
            }
        },
    }
}
