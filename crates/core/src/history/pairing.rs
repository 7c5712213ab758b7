//! From the view to a request that every provider accepts.

use super::{ViewItem, closing_result};
use crate::message::{Message, Part, Role, TextPart, ToolCall, ToolResult, ToolStatus};

/// The messages of a request: adjacent user messages merged, every call answered in call order, no answer
/// without its call, a user message first. The view of a whole session needs no repair; a foreign or
/// damaged one gets it here, in the request only.
pub fn request_messages(view: &[ViewItem]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::with_capacity(view.len());
    let mut at = 0;
    while at < view.len() {
        let item = &view[at];
        at += 1;
        match item.message.role {
            Role::User => push_user(&mut messages, &item.message),
            Role::Tool => {}
            Role::Assistant => {
                let results = view[at..].iter().take_while(|item| item.message.role == Role::Tool).count();
                push_step(&mut messages, &item.message, &view[at..at + results]);
                at += results;
            }
        }
    }
    messages
}

fn push_user(messages: &mut Vec<Message>, message: &Message) {
    match messages.last_mut().filter(|last| last.role == Role::User) {
        Some(last) => {
            last.parts.push(Part::text("\n\n"));
            last.parts.extend(message.parts.iter().cloned());
        }
        None => messages.push(message.clone()),
    }
}

fn push_step(messages: &mut Vec<Message>, assistant: &Message, results: &[ViewItem]) {
    match messages.last_mut() {
        None => messages.push(Message::user("opening", vec![Part::text("[The conversation goes on here.]")])),
        // Two answers in a row: the first was cut off. They read as one.
        Some(last) if last.role == Role::Assistant => {
            if last.origin != assistant.origin {
                // One message has one origin: the newer. Native items of another would be foreign under it.
                last.parts = std::mem::take(&mut last.parts).into_iter().filter_map(without_native).collect();
                last.origin.clone_from(&assistant.origin);
            }
            last.parts.extend(assistant.parts.iter().cloned());
            push_results(messages, assistant, results);
            return;
        }
        Some(_) => {}
    }
    messages.push(assistant.clone());
    push_results(messages, assistant, results);
}

/// A part as any provider takes it: reasoning and what we do not model are nothing without their item.
pub(super) fn without_native(part: Part) -> Option<Part> {
    match part {
        Part::Text(text) => Some(Part::Text(TextPart { native: None, ..text })),
        Part::ToolCall(call) => Some(Part::ToolCall(ToolCall { native: None, ..call })),
        Part::Reasoning(_) | Part::Opaque(_) => None,
        other => Some(other),
    }
}

fn push_results(messages: &mut Vec<Message>, assistant: &Message, results: &[ViewItem]) {
    for call in assistant.tool_calls() {
        let given = results.iter().find_map(|item| match item.message.parts.as_slice() {
            [Part::ToolResult(result)] if result.call_id == call.call_id => Some(result.clone()),
            _ => None,
        });
        let result = given.unwrap_or_else(|| missing(&call.call_id));
        messages.push(Message {
            id: format!("result-{}", call.call_id).into(),
            role: Role::Tool,
            parts: vec![Part::ToolResult(result)],
            origin: None,
        });
    }
}

fn missing(call_id: &crate::ids::CallId) -> ToolResult {
    closing_result(
        call_id,
        ToolStatus::Interrupted,
        "[No result: the call was interrupted, its outcome is unknown.]",
    )
}
