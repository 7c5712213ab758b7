//! The encoder from the parts of an assistant message to the parts of a `model` content in the next request.

use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Message, ModelOrigin, Part, RawJson, ToolCall, given_arguments};

use crate::raw_json::{self, RawObject, quote};
use crate::{ProviderError, UNSUPPORTED};

/// Returns the parts of an assistant message, in order.
///
/// Content of `target` is sent back byte for byte. Content of another model is sent as text and function calls.
/// Its reasoning and its own blocks are left out, and so are thoughts without signature.
///
/// # Errors
/// `invalid-request` if a part has no place here, or if a call's arguments are no JSON object.
pub fn encode_parts(message: &Message, target: &ModelOrigin) -> Result<Vec<RawJson>, ProviderError> {
    let own = raw_json::is_own(message, target);
    let parts = message.parts.iter().map(|part| match raw_json::native(part).filter(|_| own) {
        Some(native) => Ok(Some(native.clone())),
        None => neutral(part, own),
    });
    parts.filter_map(Result::transpose).collect()
}

fn neutral(part: &Part, own: bool) -> Result<Option<RawJson>, ProviderError> {
    match part {
        Part::Text(text) if text.text.is_empty() => Ok(None),
        Part::Text(text) => Ok(Some(RawJson(format!(r#"{{"text":{}}}"#, quote(&text.text))))),
        Part::ToolCall(call) => function_call(call, own).map(Some),
        // Google takes thoughts back only by their signature, and other wires' blocks mean nothing here.
        Part::Reasoning(_) | Part::Opaque(_) => Ok(None),
        Part::Image(_) | Part::File(_) => Ok(Some(RawJson(format!(r#"{{"text":"{UNSUPPORTED}"}}"#)))),
        _ => Err(raw_json::misplaced(part)),
    }
}

/// Returns a function call. An id is sent only if this provider gave it: Gemini does not need ours.
fn function_call(call: &ToolCall, own: bool) -> Result<RawJson, ProviderError> {
    let args = given_arguments(&call.arguments);
    if RawObject::parse(args).is_none() {
        let message = format!("the arguments of call `{}` are not a JSON object", call.call_id);
        return Err(ProviderError::new(ErrorCode::InvalidRequest, message));
    }
    let id = call.provider_id.as_deref().filter(|_| own);
    let id = id.map(|id| format!(r#""id":{},"#, quote(id))).unwrap_or_default();
    let name = quote(&call.name);
    Ok(RawJson(format!(r#"{{"functionCall":{{{id}"name":{name},"args":{args}}}}}"#)))
}
