//! Reader and writer of messages in the format of OpenAI's Chat Completions.

use serde_json::{Value, json};

use super::blocks::{media, opaque, read_content, string, text_of, write_content};
use super::own::FittableContent;
use crate::message::{Message, Part, ReasoningPart, Role, ToolCall, ToolResult, ToolStatus};

/// The id of calls and results in the older format `function_call`, which has one call per answer and no ids.
const FUNCTION_CALL_ID: &str = "function_call";

/// Reads a message.
pub(super) fn read_message(message: &Value) -> FittableContent {
    let (role, parts) = match message["role"].as_str() {
        Some("system" | "developer") => return FittableContent::Instructions(text_of(&message["content"])),
        Some("assistant") => (Role::Assistant, answer_parts(message)),
        Some("tool") => (Role::Tool, vec![result_part(message, &string(&message["tool_call_id"]))]),
        Some("function") => (Role::Tool, vec![result_part(message, FUNCTION_CALL_ID)]),
        _ => (Role::User, read_content(&message["content"], read_block)),
    };
    FittableContent::Messages(vec![Message { id: "".into(), role, parts, origin: None }])
}

/// Writes the message that shows `shown` in the place of `original`, or an extract if there is no original.
pub(super) fn write_message(shown: &[Message], original: Option<&Value>) -> Value {
    let parts: Vec<Part> = shown.iter().flat_map(|message| message.parts.iter().cloned()).collect();
    let Some(original) = original else {
        return json!({"role": "user", "content": parts.iter().filter_map(Part::as_text).collect::<String>()});
    };
    let mut message = original.clone();
    let mut parts = match parts.first() {
        Some(Part::ToolResult(result)) => result.content.clone(),
        _ => parts,
    };
    // Calls and reasoning have fields of their own, which the copy of the original keeps.
    parts.retain(|part| !matches!(part, Part::ToolCall(_) | Part::Reasoning(_)));
    let content = write_content(&parts, &original["content"], read_block, &|_| None);
    if let Some(fields) = message.as_object_mut() {
        fields.insert("content".to_owned(), content);
    }
    message
}

/// Returns the parts of an answer: reasoning, content, refusal and calls.
fn answer_parts(message: &Value) -> Vec<Part> {
    // Servers of open models write the reasoning under one of these names.
    let reasoning = ["reasoning_content", "reasoning"].iter().find_map(|name| message[*name].as_str());
    let reasoning =
        reasoning.map(|text| Part::Reasoning(ReasoningPart { text: text.to_owned(), native: None }));
    let refusal = message["refusal"].as_str().map(Part::text);
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls = calls.map(|call| call_part(call, string(&call["id"])));
    let function = message.get("function_call").filter(|call| call.is_object());
    let function = function.map(|call| call_part(&json!({"function": call}), FUNCTION_CALL_ID.to_owned()));
    let content = read_content(&message["content"], read_block);
    reasoning.into_iter().chain(content).chain(refusal).chain(calls).chain(function).collect()
}

/// Reads a call of a function or of a custom tool. The input of a custom tool is a text.
fn call_part(call: &Value, id: String) -> Part {
    let (name, arguments) = match call.get("custom") {
        Some(custom) => (string(&custom["name"]), string(&custom["input"])),
        None => (string(&call["function"]["name"]), string(&call["function"]["arguments"])),
    };
    Part::ToolCall(ToolCall { call_id: id.into(), name, arguments, provider_id: None, native: None })
}

fn result_part(message: &Value, id: &str) -> Part {
    let content = read_content(&message["content"], read_block);
    // The format has no field for a failed call.
    Part::ToolResult(ToolResult {
        call_id: id.into(),
        status: ToolStatus::Completed,
        content,
        truncated: None,
    })
}

fn read_block(block: &Value) -> Part {
    match block["type"].as_str() {
        Some("text") => Part::text(string(&block["text"])),
        Some("refusal") => Part::text(string(&block["refusal"])),
        Some("image_url") => Part::Image(media("image/*", &string(&block["image_url"]["url"]))),
        Some("input_audio") => Part::File(media("audio/*", &string(&block["input_audio"]["data"]))),
        Some("file") => Part::File(media("application/octet-stream", &string(&block["file"]["file_data"]))),
        _ => opaque(block),
    }
}
