//! Reader and writer of messages in the format of Anthropic's Messages API.

use serde_json::{Value, json};

use super::blocks::{media, opaque, read_content, string, text_of, write_content};
use super::own::FittableContent;
use crate::message::{Message, Part, RawJson, ReasoningPart, Role, ToolCall, ToolResult, ToolStatus};

/// Reads a message. A user's message may have several tool results and text behind them: each result becomes a message.
pub(super) fn read_message(message: &Value) -> FittableContent {
    let content = &message["content"];
    match message["role"].as_str() {
        Some("system") => return FittableContent::Instructions(text_of(content)),
        Some("assistant") => {
            return FittableContent::Messages(vec![message_of(
                Role::Assistant,
                read_content(content, read_block),
            )]);
        }
        _ => {}
    }
    // The API demands results before text, so the order of the groups is right for every accepted request.
    let (results, said): (Vec<Part>, Vec<Part>) =
        read_content(content, read_block).into_iter().partition(|part| matches!(part, Part::ToolResult(_)));
    let said = (results.is_empty() || !said.is_empty()).then(|| message_of(Role::User, said));
    let results = results.into_iter().map(|result| message_of(Role::Tool, vec![result]));
    FittableContent::Messages(results.chain(said).collect())
}

fn message_of(role: Role, parts: Vec<Part>) -> Message {
    Message { id: "".into(), role, parts, origin: None }
}

/// Writes the message that shows `shown` in the place of `original`, or an extract if there is no original.
pub(super) fn write_message(shown: &[Message], original: Option<&Value>) -> Value {
    let parts: Vec<Part> = shown.iter().flat_map(|message| message.parts.iter().cloned()).collect();
    let Some(original) = original else {
        return json!({"role": "user", "content": parts.iter().filter_map(Part::as_text).collect::<String>()});
    };
    // A copy keeps the fields that this module does not read.
    let mut message = original.clone();
    if let Some(fields) = message.as_object_mut() {
        fields.insert("content".to_owned(), write_blocks(&parts, &original["content"]));
    }
    message
}

/// Returns a content that shows `parts`. A result that is shown in part keeps the other fields of its block, such as
/// `cache_control`.
fn write_blocks(parts: &[Part], content: &Value) -> Value {
    write_content(parts, content, read_block, &|part| match part {
        Part::ToolResult(result) => result_block(result, content),
        _ => None,
    })
}

/// Returns the block of a result in `content`, with the content that is shown.
fn result_block(result: &ToolResult, content: &Value) -> Option<Value> {
    let mut blocks = content.as_array()?.iter();
    let block = blocks.find(|block| {
        block["type"] == "tool_result" && block["tool_use_id"].as_str() == Some(result.call_id.as_str())
    });
    let mut block = block?.clone();
    block["content"] = write_content(&result.content, &block["content"], read_block, &|_| None);
    Some(block)
}

fn read_block(block: &Value) -> Part {
    match block["type"].as_str() {
        Some("text") => Part::text(string(&block["text"])),
        Some("tool_use") => Part::ToolCall(ToolCall {
            call_id: string(&block["id"]).into(),
            name: string(&block["name"]),
            arguments: block["input"].to_string(),
            provider_id: None,
            native: None,
        }),
        Some("tool_result") => Part::ToolResult(ToolResult {
            call_id: string(&block["tool_use_id"]).into(),
            status: if block["is_error"] == true { ToolStatus::Error } else { ToolStatus::Completed },
            content: read_content(&block["content"], read_block),
            truncated: None,
        }),
        // The signature is not read, because a block that stays is a copy of the given one.
        Some("thinking") => Part::Reasoning(ReasoningPart { text: string(&block["thinking"]), native: None }),
        Some("redacted_thinking") => {
            let native = Some(RawJson(string(&block["data"])));
            Part::Reasoning(ReasoningPart { text: String::new(), native })
        }
        Some("image") => Part::Image(source_media(block)),
        Some("document") if block["source"]["type"] == "base64" => Part::File(source_media(block)),
        _ => opaque(block),
    }
}

fn source_media(block: &Value) -> crate::message::MediaPart {
    let source = &block["source"];
    let data = ["data", "url", "file_id"].iter().find_map(|name| source[*name].as_str());
    media(source["media_type"].as_str().unwrap_or("image/*"), data.unwrap_or_default())
}
