//! The form of a stored message that requests carry: valid calls, truncation markers, whole answers.

use std::sync::Arc;

use super::LogEntryKind;
use crate::estimate::{MessageTokenCounter, TokensByScript};
use crate::event::PartialAnswerReason;
use crate::history::pairing::without_native;
use crate::ids::Seq;
use crate::message::{Message, Part, ReasoningPart, Role, TextPart, ToolCall, ToolResult};
use crate::truncate;

/// Returns a stored message in the form that the model sees: with truncation markers, without half-received parts,
/// and behind the piece `before`.
pub(super) fn to_sent_form(
    seq: Seq,
    message: &Arc<Message>,
    kind: &LogEntryKind,
    before: Option<&Message>,
) -> Option<Arc<Message>> {
    let parts: Vec<Part> = match kind {
        LogEntryKind::Assistant(Some(PartialAnswerReason::Lost)) => return None,
        LogEntryKind::Assistant(Some(PartialAnswerReason::Paused)) => {
            message.parts.iter().map(without_end).collect()
        }
        LogEntryKind::Assistant(Some(PartialAnswerReason::Cancelled)) => {
            // Blank text is dropped unless the answer continues: a pause leaves the blank between two words to the
            // next piece.
            let kept = message.parts.iter().filter(|part| before.is_some() || !is_blank(part));
            let kept: Vec<Part> = kept.filter_map(kept_when_cancelled).collect();
            if before.is_none() && kept.iter().all(|part| matches!(part, Part::Reasoning(_))) {
                // Reasoning alone is no answer: only people are shown it.
                return None;
            }
            kept
        }
        LogEntryKind::Assistant(None) => message.parts.iter().map(valid_call).collect(),
        LogEntryKind::Result { .. } => message.parts.iter().map(|part| with_marker(part, seq)).collect(),
        LogEntryKind::Typed | LogEntryKind::Note => {
            return says_something(&message.parts).then(|| Arc::clone(message));
        }
    };
    if let Some(before) = before {
        return Some(Arc::new(joined(before, message, parts)));
    }
    says_something(&parts).then(|| {
        // Most messages are shown as they are stored, so both forms share one allocation.
        if parts == message.parts {
            return Arc::clone(message);
        }
        let Message { id, role, origin, .. } = &**message;
        Arc::new(Message { id: id.clone(), role: *role, parts, origin: origin.clone() })
    })
}

fn is_blank(part: &Part) -> bool {
    part.as_text().is_some_and(|text| text.trim().is_empty())
}

fn says_something(parts: &[Part]) -> bool {
    parts.iter().any(|part| match part {
        Part::Text(text) => !text.text.is_empty(),
        Part::Reasoning(reasoning) => reasoning.native.is_some(),
        _ => true,
    })
}

/// Returns one answer of two pieces, without any text between them.
fn joined(before: &Message, piece: &Message, more: Vec<Part>) -> Message {
    let mut parts = before.parts.clone();
    if before.origin != piece.origin {
        // The new origin may be another provider, which refuses foreign native items.
        parts = parts.into_iter().filter_map(without_native).collect();
    }
    for part in more {
        match (parts.last_mut(), part) {
            // A native item holds the text of one half only.
            (Some(Part::Text(last)), Part::Text(next)) => {
                last.text.push_str(&next.text);
                last.native = None;
            }
            (_, part) => parts.push(part),
        }
    }
    Message { id: before.id.clone(), role: Role::Assistant, parts, origin: piece.origin.clone() }
}

/// Returns a paused answer and the piece that continues the answer as one message, in the stored form, for people.
#[doc(hidden)]
pub fn join(paused: &Message, piece: &Message) -> Message {
    joined(paused, piece, piece.parts.clone())
}

/// Returns a part of a paused answer. Text loses its native item, because the text continues in another item.
fn without_end(part: &Part) -> Part {
    match part {
        Part::Text(text) => Part::text(text.text.clone()),
        other => valid_call(other),
    }
}

/// Returns the part of a cancelled answer that stays. Partial text stays without a native item, which was never
/// completed. Reasoning stays only with its native item.
fn kept_when_cancelled(part: &Part) -> Option<Part> {
    match part {
        Part::Text(text) => Some(Part::Text(TextPart { text: text.text.clone(), native: None })),
        Part::Reasoning(ReasoningPart { native: None, .. }) => None,
        other => Some(valid_call(other)),
    }
}

/// Returns a call in a form that providers accept. Arguments that are no JSON object are quoted, and an invalid name
/// is mended. Otherwise every later request would be invalid.
fn valid_call(part: &Part) -> Part {
    let Part::ToolCall(call) = part else { return part.clone() };
    match (is_object(&call.arguments), valid_name(&call.name)) {
        (true, None) => part.clone(),
        (true, Some(name)) => Part::ToolCall(ToolCall { name, native: None, ..call.clone() }),
        (false, name) => {
            // Valid JSON that still shows the model its own mistake. The native item has the invalid arguments too,
            // so it goes.
            let arguments = serde_json::json!({ "invalid_arguments": call.arguments }).to_string();
            let name = name.unwrap_or_else(|| call.name.clone());
            Part::ToolCall(ToolCall { name, arguments, native: None, ..call.clone() })
        }
    }
}

/// Returns the valid form of a tool's name; `None` if the name is valid. Providers accept `[a-zA-Z0-9_-]{1,64}`.
fn valid_name(name: &str) -> Option<String> {
    if (1..=64).contains(&name.len()) && name.chars().all(is_name_char) {
        return None;
    }
    let mended: String = name.chars().take(64).map(|c| if is_name_char(c) { c } else { '_' }).collect();
    Some(if mended.is_empty() { "unnamed".to_owned() } else { mended })
}

/// Returns whether every provider accepts `c` in the name of a tool.
fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Returns whether a text is one JSON object.
pub(crate) fn is_object(text: &str) -> bool {
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).is_ok()
}

fn with_marker(part: &Part, seq: Seq) -> Part {
    match part {
        Part::ToolResult(result) if result.truncated.is_some() => {
            let content = truncate::shown_content(result, seq);
            Part::ToolResult(ToolResult { content, truncated: None, ..result.clone() })
        }
        other => other.clone(),
    }
}

/// Returns the tokens of a message in a request. Reasoning without a native item is not sent.
pub(crate) fn sent_groups(message: &Message, counter: &MessageTokenCounter) -> TokensByScript {
    counter.message_groups(message).without(&unsent_reasoning(message, counter))
}

/// Returns the tokens of reasoning that no request carries.
pub(in crate::history) fn unsent_reasoning(
    message: &Message,
    counter: &MessageTokenCounter,
) -> TokensByScript {
    let unsent = message
        .parts
        .iter()
        .filter(|part| matches!(part, Part::Reasoning(ReasoningPart { native: None, .. })));
    unsent.map(|part| counter.part_groups(part)).sum()
}

/// Returns the bytes of a message's native items, which carry content that we cannot read.
pub(in crate::history) fn native_bytes(message: &Message) -> u64 {
    let natives = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => text.native.as_ref(),
        Part::Reasoning(reasoning) => reasoning.native.as_ref(),
        Part::ToolCall(call) => call.native.as_ref(),
        Part::Opaque(opaque) => Some(&opaque.native),
        Part::Image(_) | Part::File(_) | Part::ToolResult(_) => None,
    });
    natives.map(|native| native.as_str().len() as u64).sum()
}
