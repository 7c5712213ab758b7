//! Hidden calls in Chat Completions.

use std::collections::VecDeque;

use bytes::Bytes;
use longhaul_core::message::ToolSpec;
use serde_json::{Value, json};

use crate::edit::hidden::{
    AnsweredToolCall, HiddenCallReplay, ModelStep, object, strip_shown_texts, take_message,
};
use crate::edit::insertion::MessageListEntry;
use crate::edit::{PartialToolCall, RequestEnvelope};
use crate::raw_json::{elements, field, fields, quote, string, text_field, with_field};

/// Returns the tool as Chat Completions writes tools.
pub(super) fn tool(spec: &ToolSpec) -> String {
    format!(
        r#"{{"type":"function","function":{{"name":{},"description":{},"parameters":{}}}}}"#,
        quote(&spec.name),
        quote(&spec.description),
        spec.parameters.as_str()
    )
}

/// Returns the model's message in a whole answer.
pub(super) fn step(answer: &[u8]) -> Option<ModelStep> {
    let answer = fields(std::str::from_utf8(answer).ok()?)?;
    let choices = elements(field(&answer, "choices")?)?;
    let choice = fields(choices.first()?)?;
    let message = field(&choice, "message")?;
    let said = fields(message)?;
    let calls = field(&said, "tool_calls").and_then(elements).unwrap_or_default();
    Some(ModelStep { items: vec![message.to_owned()], calls: calls.into_iter().filter_map(call).collect() })
}

fn call(raw: &str) -> Option<PartialToolCall> {
    let said = fields(raw)?;
    let function = fields(field(&said, "function")?)?;
    // Some servers send the arguments' object itself instead of its text.
    let arguments = field(&function, "arguments").unwrap_or("\"\"");
    Some(PartialToolCall {
        id: id_of(raw).unwrap_or_default(),
        name: string(field(&function, "name")?)?,
        arguments: string(arguments).unwrap_or_else(|| arguments.to_owned()),
    })
}

/// Returns the model's message with the ids and arguments of `calls` in place of the message's own.
pub(super) fn with_calls_of(
    message: &str,
    calls: &mut dyn Iterator<Item = &PartialToolCall>,
) -> Option<String> {
    let shown = elements(field(&fields(message)?, "tool_calls")?)?;
    let mut all = Vec::with_capacity(shown.len());
    for raw in shown {
        // `step` has left out calls that cannot be read, so such a call takes no entry of `calls`.
        let Some(given) = call(raw).and_then(|_| calls.next()) else {
            all.push(raw.to_owned());
            continue;
        };
        let function = field(&fields(raw)?, "function")?.to_owned();
        let function = with_field(&function, "arguments", &quote(object(&given.arguments)))?;
        let raw = with_field(raw, "id", &quote(&given.id))?;
        all.push(with_field(&raw, "function", &function)?);
    }
    with_field(message, "tool_calls", &format!("[{}]", all.join(",")))
}

fn id_of(call: &str) -> Option<String> {
    string(field(&fields(call)?, "id")?)
}

/// Returns the messages with the results of calls.
pub(super) fn results(answered: &[AnsweredToolCall]) -> Vec<String> {
    answered
        .iter()
        .map(|one| json!({ "role": "tool", "tool_call_id": one.call.id, "content": one.result }).to_string())
        .collect()
}

/// Returns an answer without the calls of a tool.
pub(super) fn without_calls(answer: &[u8], tool: &str) -> Option<Bytes> {
    // Parsed and written again, because a whole answer has to change in its middle.
    let mut answer: Value = serde_json::from_slice(answer).ok()?;
    let message = answer.get_mut("choices")?.get_mut(0)?.get_mut("message")?.as_object_mut()?;
    let calls = message.get_mut("tool_calls")?.as_array_mut()?;
    calls.retain(|call| call["function"]["name"] != tool);
    // OpenAI refuses a message with an empty list of calls, and the client sends this message back.
    if calls.is_empty() {
        message.remove("tool_calls");
    }
    Some(answer.to_string().into())
}

/// Returns a message with `text` before the message's own text.
pub(super) fn with_text_before(message: &str, text: &str) -> Option<String> {
    let own = field(&fields(message)?, "content").and_then(string).unwrap_or_default();
    with_field(message, "content", &quote(&format!("{text}{own}")))
}

/// Puts the calls back, with the results behind the calls.
pub(super) fn replay(
    envelope: &RequestEnvelope,
    slots: &mut Vec<MessageListEntry>,
    replays: &[HiddenCallReplay],
) {
    for replay in replays {
        // The edit may have dropped the step. Its hidden calls have no place then.
        let Some((at, message)) = take_message(envelope, slots, replay.at) else { continue };
        let Some(message) = with_calls(&message, replay) else { continue };
        let answered: Vec<AnsweredToolCall> =
            replay.hidden.iter().map(|(_, answered)| answered.clone()).collect();
        let behind = results(&answered).into_iter().map(MessageListEntry::Own);
        let before = replay.rounds.iter().cloned().map(MessageListEntry::Own);
        let all = before.chain([MessageListEntry::Change(replay.at, message)]).chain(behind);
        slots.splice(at..=at, all.collect::<Vec<_>>());
    }
}

fn with_calls(message: &str, replay: &HiddenCallReplay) -> Option<String> {
    let said = fields(message)?;
    let shown = elements(field(&said, "tool_calls")?)?;
    let ids: Vec<String> = shown.iter().map(|call| id_of(call).unwrap_or_default()).collect();
    // A client may have edited its history. Other ids mean another step, which must stay unchanged.
    let is_one = replay.has_shown_calls(&ids) && field(&said, "role").and_then(string)? == "assistant";
    let shown = shown.into_iter().map(|call| (true, call.to_owned())).collect();
    let calls = replay.with_hidden_calls(shown, |call| {
        let function = json!({ "name": call.name, "arguments": object(&call.arguments) });
        json!({ "id": call.id, "type": "function", "function": function }).to_string()
    });
    if !is_one {
        return None;
    }
    let message = without_rounds(message, replay.shown_rounds()).unwrap_or_else(|| message.to_owned());
    with_field(&message, "tool_calls", &format!("[{}]", calls.join(",")))
}

/// Returns the text of a message's field, unless it is blank.
fn text_of(message: &str, name: &str) -> Option<String> {
    text_field(&fields(message)?, name).filter(|text| !text.trim().is_empty())
}

/// Returns the client's copy of a step without the text of earlier steps of the same answer. The client has a single
/// message for all steps.
fn without_rounds(message: &str, rounds: &[String]) -> Option<String> {
    let mut changed = None;
    for name in ["content", "reasoning_content", "reasoning"] {
        let by_model = rounds.iter().filter(|raw| text_of(raw, "role").as_deref() == Some("assistant"));
        let mut said: VecDeque<String> = by_model.filter_map(|raw| text_of(raw, name)).collect();
        let now = changed.as_deref().unwrap_or(message);
        let Some(text) = text_of(now, name) else { continue };
        let Some(rest) = strip_shown_texts(&text, &mut said) else { continue };
        // Beside calls a missing text is `null`, as in the requests that we write ourselves.
        let rest = if rest.is_empty() { "null".to_owned() } else { quote(rest) };
        changed = Some(with_field(now, name, &rest)?);
    }
    changed
}
