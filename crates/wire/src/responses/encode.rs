//! The encoder from the parts of an assistant message to the input items of the next request.

use longhaul_core::message::{Message, ModelOrigin, Part, RawJson, ToolCall, given_arguments};

use crate::ProviderError;
use crate::raw_json::{self, quote};

/// Returns the input items of an assistant message, in order.
///
/// Content of `target` is sent back byte for byte. Content of another model is sent as messages and function
/// calls; its reasoning and its own items are left out.
///
/// # Errors
/// `invalid-request` if a part has no place here.
pub fn encode_parts(message: &Message, target: &ModelOrigin) -> Result<Vec<RawJson>, ProviderError> {
    let own = raw_json::is_own(message, target);
    let items = message.parts.iter().map(|part| match raw_json::native(part).filter(|_| own) {
        Some(native) => Ok(Some(native.clone())),
        None => neutral(part, own),
    });
    items.filter_map(Result::transpose).collect()
}

/// Returns the item for a part without an item of its own.
///
/// # Errors
/// `invalid-request` if an assistant message has no place for the part.
pub(super) fn neutral(part: &Part, own: bool) -> Result<Option<RawJson>, ProviderError> {
    match part {
        Part::Text(text) if text.text.is_empty() => Ok(None),
        Part::Text(text) => Ok(Some(message_item("assistant", &quote(&text.text)))),
        Part::ToolCall(call) => Ok(Some(function_call(call, call_name(call, own)))),
        // Reasoning of another model cannot be decrypted, and other wires' items mean nothing here.
        Part::Reasoning(_) | Part::Opaque(_) => Ok(None),
        _ => Err(raw_json::misplaced(part)),
    }
}

/// Returns the id of a call on this wire.
pub(super) fn call_name(call: &ToolCall, own: bool) -> &str {
    call.provider_id.as_deref().filter(|_| own).unwrap_or(call.call_id.as_str())
}

/// Returns a call under an id.
pub(super) fn function_call(call: &ToolCall, name: &str) -> RawJson {
    let (id, name, arguments) = (quote(name), quote(&call.name), quote(given_arguments(&call.arguments)));
    RawJson(format!(r#"{{"type":"function_call","call_id":{id},"name":{name},"arguments":{arguments}}}"#))
}

/// Returns a message; `content` is JSON. Some servers recognise a message only by its type.
pub(super) fn message_item(role: &str, content: &str) -> RawJson {
    RawJson(format!(r#"{{"type":"message","role":"{role}","content":{content}}}"#))
}
