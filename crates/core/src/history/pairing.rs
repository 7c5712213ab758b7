//! The projection of the view into a request that every provider accepts.

use super::{ViewItem, closing_result};
use crate::message::{Message, Part, Role, TextPart, ToolCall, ToolResult, ToolStatus};

/// Returns the messages of a request for a view.
///
/// Adjacent user messages are merged, and a user message comes first. Every call has its result in call order, and no
/// result lacks its call. The view of a whole session needs no repair. A foreign or damaged view is repaired here, in
/// the request only.
pub fn request_messages(view: &[ViewItem]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::with_capacity(view.len());
    let mut at = 0;
    while at < view.len() {
        let item = &view[at];
        at += 1;
        match item.message.role {
            Role::User => push_user(&mut messages, &item.message),
            // A result that does not follow its step has no call. Providers refuse such a message.
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
        // Some providers refuse a conversation that begins with an assistant message.
        None => messages.push(Message::user("opening", vec![Part::text("[The conversation goes on here.]")])),
        // Two answers stand in a row if the first was cut off. Both become one message.
        Some(last) if last.role == Role::Assistant => {
            if last.origin != assistant.origin {
                // A message has one origin, here the newer. Native items of the older model would be sent to the
                // wrong provider.
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

/// Returns a part in the form that any provider accepts. Reasoning and opaque blocks are left out, because they have
/// no meaning without their native item.
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
        // Providers refuse a call without a result.
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
