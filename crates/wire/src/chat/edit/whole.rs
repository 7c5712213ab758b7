//! Answers that are no streams.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::stream_parser::{ChatStreamChunk, ChatStreamParser};
use crate::edit::{AnswerEvents, PartialResponse, SseEvent, StreamParser};
use crate::finish::failed_for;

/// Parses a whole answer.
pub(super) fn read(body: &[u8]) -> Option<PartialResponse> {
    let text = std::str::from_utf8(body).ok()?;
    let chunk: ChatStreamChunk<'_> = serde_json::from_str(text).ok()?;
    // An error has no choices and is no answer.
    chunk.choices.as_ref()?;
    let mut watcher = ChatStreamParser::default();
    watcher.take(&chunk, text);
    let mut seen = watcher.seen().clone();
    // Some servers give no reason. Then content alone shows that the answer is whole.
    seen.over = seen.finish.is_some() || !seen.is_empty();
    if let Some(reason) = chunk.failure() {
        (seen.finish, seen.error) = (None, Some(seen.error.unwrap_or_else(|| failed_for(reason))));
    }
    Some(seen)
}

/// Returns a whole answer as the events of a stream: a chunk with all content, and the end.
pub(super) fn events(body: &[u8]) -> Option<AnswerEvents> {
    let Ok(Value::Object(mut content)) = serde_json::from_slice(body) else { return None };
    content.insert("object".to_owned(), "chat.completion.chunk".into());
    let mut end = content.clone();
    // The usage counts the whole answer, so it belongs to the end. An error is no content.
    for field in ["usage", "timings", "error"] {
        content.remove(field);
    }
    for choice in content.get_mut("choices")?.as_array_mut()?.iter_mut().filter_map(Value::as_object_mut) {
        let mut message = choice.remove("message").unwrap_or_default();
        if let Some(message) = message.as_object_mut() {
            message.remove("error");
        }
        choice.remove("error");
        choice.insert("delta".to_owned(), message);
        choice.insert("finish_reason".to_owned(), Value::Null);
    }
    for choice in end.get_mut("choices")?.as_array_mut()?.iter_mut().filter_map(Value::as_object_mut) {
        // The probabilities belong to the text, which is in the first chunk.
        ["message", "logprobs"].into_iter().for_each(|field| _ = choice.remove(field));
        choice.insert("delta".to_owned(), json!({}));
    }
    let [content, end] = [content, end].map(|chunk| format!("data: {}\n\n", Value::Object(chunk)).into());
    Some(AnswerEvents { content: vec![content], end: vec![end, Bytes::from_static(b"data: [DONE]\n\n")] })
}

/// Returns the whole answer of a stream's events.
pub(super) fn collect(events: &[Bytes]) -> Option<Bytes> {
    let mut watcher = ChatStreamParser::default();
    let (mut answer, mut more) = (Map::new(), Map::new());
    let mut reason = Value::Null;
    for raw in events {
        let event = SseEvent::parse(raw);
        watcher.read(&event);
        let Ok(Value::Object(fields)) = serde_json::from_str(&event.data) else { continue };
        for (key, value) in fields {
            match key.as_str() {
                "choices" => {
                    let choice = value.get(0).cloned().unwrap_or_default();
                    if choice["finish_reason"].is_string() {
                        reason = choice["finish_reason"].clone();
                    }
                    keep_details(&choice["delta"], &mut more);
                }
                // With `include_usage`, OpenAI sends `usage: null` in every chunk before the report.
                "usage" if value.is_null() => {}
                // A chunk's `object` is `chat.completion.chunk`, but the whole answer is a `chat.completion`.
                "object" => {}
                _ => {
                    answer.insert(key, value);
                }
            }
        }
    }
    let seen = watcher.seen();
    // Without a stop reason the stream was cut, and a piece must not pass for a whole answer.
    seen.finish?;
    let content = if seen.text.is_empty() { Value::Null } else { seen.text.as_str().into() };
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    message.insert("content".to_owned(), content);
    if !seen.reasoning.is_empty() {
        // Reasoning that was streamed as `reasoning` gets the more common name here.
        message.insert("reasoning_content".to_owned(), seen.reasoning.as_str().into());
    }
    if !seen.calls.is_empty() {
        let calls = seen.calls.iter().zip(unique_ids(seen)).map(|(call, id)| {
            json!({ "id": id, "type": "function",
                "function": { "name": call.name, "arguments": call.arguments } })
        });
        message.insert("tool_calls".to_owned(), calls.collect());
    }
    message.extend(more);
    answer.insert("object".to_owned(), "chat.completion".into());
    let choice = json!({ "index": 0, "message": message, "finish_reason": reason });
    answer.insert("choices".to_owned(), json!([choice]));
    Some(Value::Object(answer).to_string().into())
}

/// Returns an id for each call. Some servers send calls without ids, or with one id for all, and a result must refer to
/// one call.
fn unique_ids(seen: &PartialResponse) -> Vec<String> {
    let mut ids: Vec<String> = Vec::with_capacity(seen.calls.len());
    for (index, call) in seen.calls.iter().enumerate() {
        let is_own = !call.id.is_empty() && !ids.contains(&call.id);
        let id = if is_own { call.id.clone() } else { unused_id(seen, index, &ids) };
        ids.push(id);
    }
    ids
}

/// Returns an id that no call of the answer has. The answer's own id makes it unique in the conversation.
fn unused_id(seen: &PartialResponse, index: usize, ids: &[String]) -> String {
    let answer = seen.id.as_deref().map(|id| format!("{id}_")).unwrap_or_default();
    let is_unused = |id: &String| !ids.contains(id) && seen.calls.iter().all(|call| call.id != *id);
    let mut candidates = (index..).map(|number| format!("call_{answer}{number}"));
    candidates.find(is_unused).unwrap_or_default()
}

/// Keeps fields of deltas outside of [`PartialResponse`]: lists grow, and of other values the newest wins.
fn keep_details(delta: &Value, more: &mut Map<String, Value>) {
    const KNOWN: [&str; 6] = ["role", "content", "reasoning_content", "reasoning", "tool_calls", "refusal"];
    for (key, value) in delta.as_object().into_iter().flatten() {
        if KNOWN.contains(&key.as_str()) || value.is_null() {
            continue;
        }
        match (more.get_mut(key), value) {
            (Some(Value::Array(list)), Value::Array(added)) => list.extend(added.iter().cloned()),
            _ => {
                more.insert(key.clone(), value.clone());
            }
        }
    }
}
