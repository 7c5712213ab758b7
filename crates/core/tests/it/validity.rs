//! What every provider demands of a request.

use std::collections::BTreeSet;

use longhaul_core::event::{ViewEdit, ViewOperation};
use longhaul_core::history::{History, LogEntryKind};
use longhaul_core::ids::Seq;
use longhaul_core::message::{Message, Part, Role};
use longhaul_core::truncate::MARKER;

/// Why a provider would refuse these messages, if it would.
pub(crate) fn check(messages: &[Message]) -> Result<(), String> {
    if messages.last().is_some_and(|last| last.role == Role::Assistant) {
        return Err("an assistant message closes the request".to_owned());
    }
    check_prefill(messages)
}

/// The same where a model is to go on with its answer.
pub(crate) fn check_prefill(messages: &[Message]) -> Result<(), String> {
    let first = messages.first().ok_or("no message at all")?;
    if first.role != Role::User {
        return Err(format!("a {:?} message opens the request", first.role));
    }
    let mut calls = BTreeSet::new();
    let mut owed: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        check_content(at, message)?;
        if message.role == Role::Tool {
            check_result(at, message, &mut owed)?;
            continue;
        }
        if !owed.is_empty() {
            return Err(format!("message {at} comes before the results of {owed:?}"));
        }
        if at > 0 && messages[at - 1].role == message.role {
            return Err(format!("messages {} and {at} are both {:?}", at - 1, message.role));
        }
        for call in message.tool_calls() {
            if !calls.insert(call.call_id.as_str()) {
                return Err(format!("call {} is there twice", call.call_id));
            }
            let object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&call.arguments);
            object.map_err(|error| format!("arguments of {}: {error}", call.call_id))?;
            owed.push(call.call_id.as_str());
        }
    }
    if owed.is_empty() { Ok(()) } else { Err(format!("no results of {owed:?}")) }
}

fn check_result<'a>(at: usize, message: &'a Message, owed: &mut Vec<&'a str>) -> Result<(), String> {
    let [Part::ToolResult(result)] = message.parts.as_slice() else {
        return Err(format!("tool message {at} is not one result"));
    };
    if owed.first() != Some(&result.call_id.as_str()) {
        return Err(format!("message {at} answers {}, owed is {owed:?}", result.call_id));
    }
    owed.remove(0);
    Ok(())
}

fn check_content(at: usize, message: &Message) -> Result<(), String> {
    let says_something = message.parts.iter().any(|part| match part {
        Part::Text(text) => !text.text.is_empty(),
        Part::Reasoning(reasoning) => reasoning.native.is_some(),
        _ => true,
    });
    if !says_something {
        return Err(format!("{:?} message {at} is empty", message.role));
    }
    let in_place = message.parts.iter().all(|part| match part {
        Part::Text(_) | Part::Opaque(_) => message.role != Role::Tool,
        Part::Image(_) | Part::File(_) => message.role == Role::User,
        Part::ToolCall(_) | Part::Reasoning(_) => message.role == Role::Assistant,
        Part::ToolResult(result) => message.role == Role::Tool && result.truncated.is_none(),
        _ => false,
    });
    if in_place { Ok(()) } else { Err(format!("{:?} message {at} has a part of another role", message.role)) }
}

/// Whether `parts` stand in the messages as they are, in order, side by side in one user message.
pub(crate) fn holds_verbatim(messages: &[Message], parts: &[Part]) -> bool {
    let users = messages.iter().filter(|message| message.role == Role::User);
    users.into_iter().any(|message| message.parts.windows(parts.len()).any(|window| window == parts))
}

/// Whether the newest typed message stands in a request as it is or, if an edit has cut it, by a beginning and an end of its
/// text around the marker, with its pictures and files.
pub(crate) fn holds_newest_typed(messages: &[Message], history: &History) -> bool {
    let Some(entry) = history.entries().iter().rfind(|entry| entry.kind == LogEntryKind::Typed) else {
        return true;
    };
    if !history.edits().iter().any(|state| state.active && cuts(&state.edit, entry.seq)) {
        return holds_verbatim(messages, &entry.message.parts);
    }
    let texts: Vec<&str> = entry.message.parts.iter().filter_map(Part::as_text).collect();
    let text = texts.join("\n");
    let others: Vec<&Part> = entry.message.parts.iter().filter(|part| part.as_text().is_none()).collect();
    let is_cut = |shown: &str| {
        let Some((head, rest)) = shown.split_once(MARKER) else { return false };
        let tail = rest.split_once('\n').map_or("", |(_, tail)| tail);
        let head = head.trim_end_matches('\n');
        head.len() + tail.len() > 0 && text.starts_with(head) && text.ends_with(tail)
    };
    let users = messages.iter().filter(|message| message.role == Role::User);
    users.into_iter().any(|message| {
        message.parts.iter().filter_map(Part::as_text).any(is_cut)
            && others.iter().all(|part| message.parts.contains(part))
    })
}

/// Whether an edit shows the message at `seq` by its beginning and its end.
pub(crate) fn cuts(edit: &ViewEdit, seq: Seq) -> bool {
    edit.ops
        .iter()
        .any(|op| matches!(op, ViewOperation::Placeholder { seq: cut, cut: true, .. } if *cut == seq))
}
