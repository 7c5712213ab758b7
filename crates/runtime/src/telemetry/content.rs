//! The content of messages as the conventions define it: messages of parts, as JSON. Only captured on request.

use longhaul_core::message::{MediaPart, Message, ModelAnswer, Part, Role};
use serde_json::{Value, json};

/// The maximum size of one text, in bytes.
const MAX_TEXT_BYTES: usize = 32 << 10;

/// The maximum size of one call's messages, in bytes, because spans wait in memory for their collector. The newest
/// stay.
const MAX_MESSAGES_BYTES: usize = 256 << 10;

/// Returns the value of `gen_ai.system_instructions`.
pub(super) fn instructions(system: &str) -> String {
    json!([{ "type": "text", "content": clipped(system) }]).to_string()
}

/// Returns the value of `gen_ai.input.messages`: the newest messages, as many as there is room for.
pub(super) fn messages<'a>(all: impl DoubleEndedIterator<Item = &'a Message>) -> String {
    let mut newest = Vec::new();
    let mut bytes = 0;
    // The newest messages explain the answer best, so the oldest ones make room.
    for message in all.rev() {
        let text = json!({ "role": role(message.role), "parts": parts(&message.parts) }).to_string();
        bytes += text.len();
        // The newest message is included in any case, even if it exceeds the limit alone.
        if bytes > MAX_MESSAGES_BYTES && !newest.is_empty() {
            break;
        }
        newest.push(text);
    }
    newest.reverse();
    format!("[{}]", newest.join(","))
}

/// Returns the value of `gen_ai.output.messages`.
pub(super) fn answer(answer: &ModelAnswer) -> String {
    json!([{ "role": "assistant", "parts": parts(&answer.parts) }]).to_string()
}

/// Returns the text of a tool's result.
pub(super) fn result(content: &[Part]) -> String {
    clipped(&content.iter().filter_map(Part::as_text).collect::<String>())
}

/// Returns a text, clipped to the maximum size.
pub(super) fn clipped(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    match text.len() - end {
        0 => text.to_owned(),
        more => format!("{} [{more} more bytes]", &text[..end]),
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn parts(parts: &[Part]) -> Vec<Value> {
    parts.iter().map(part).collect()
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "text", "content": clipped(&text.text) }),
        Part::Reasoning(reasoning) => json!({ "type": "reasoning", "content": clipped(&reasoning.text) }),
        Part::ToolCall(call) => json!({
            "type": "tool_call",
            "id": call.call_id,
            "name": call.name,
            "arguments": clipped(&call.arguments),
        }),
        Part::ToolResult(answer) => json!({
            "type": "tool_call_response",
            "id": answer.call_id,
            "response": result(&answer.content),
        }),
        Part::Image(media) => file(media, "image"),
        Part::File(media) => file(media, "document"),
        Part::Opaque(opaque) => json!({ "type": opaque.kind }),
        _ => json!({ "type": "other" }),
    }
}

/// Returns the name of a file instead of its bytes.
fn file(media: &MediaPart, modality: &str) -> Value {
    json!({
        "type": "file",
        "modality": modality,
        "mime_type": media.media_type,
        "file_id": media.blob.hash,
    })
}

#[cfg(test)]
mod tests;
