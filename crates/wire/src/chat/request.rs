//! The encoder from a [`ModelRequest`] to the bytes of a call.
//!
//! Equal requests give equal bytes, and a continued conversation begins with the same bytes. The stable parts (model,
//! options, tools) come before the messages; the variable parts (the choice of a tool, the output limit) come after
//! the messages.

mod ids;
mod message_schema;
mod messages;
mod reasoning;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{MediaPart, RawJson, Role, ToolSpec, ToolStatus};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::family::{OutputLimitField, PrefillSupport, ServerFamily};
use crate::request_body::RequestBody;
use crate::{ModelRequest, ModelSettings, ProviderError, ToolChoice};

/// Returns the body of the request, in the form of `family`.
///
/// # Errors
/// `invalid-request` if a tool's schema is no JSON, or a tool result answers no call of this request.
pub fn encode(
    request: &ModelRequest,
    settings: &ModelSettings,
    family: &ServerFamily,
) -> Result<Bytes, ProviderError> {
    let settings = &*settings.with_fields(&request.fields);
    let declared = &settings.body;
    let mut body = RequestBody::default();
    body.put("model", &settings.model)?;
    // Fields that a person declares come early, because they are the same in every request.
    body.put_declared(declared, &["model", "messages", "stream"])?;
    put_fields(&mut body, declared, family.fields)?;
    if !request.tools.is_empty() {
        body.put_unless(declared, "tools", &tools(request, family)?)?;
    }
    // A person may ask for whole answers, for a server that cannot stream.
    let streams = family.streams && declared.get("stream") != Some(&Value::Bool(false));
    body.put("stream", &streams)?;
    if streams && family.asks_for_usage {
        body.put_unless(declared, "stream_options", &json!({"include_usage": true}))?;
    }
    body.put("messages", &messages::encode(request, settings, family)?)?;
    // These fields change from request to request, so they stand behind the messages and keep the prefix cache
    // intact.
    if let (PrefillSupport::Fields(fields), true) = (family.prefill, is_prefilled(request)) {
        put_fields(&mut body, declared, fields)?;
    }
    if let Some(choice) = choice(request, family) {
        body.put_unless(declared, "tool_choice", &choice)?;
    }
    if let Some(limit) = request.max_output_tokens {
        let name = match family.output_limit {
            OutputLimitField::MaxTokens => "max_tokens",
            OutputLimitField::MaxCompletionTokens => "max_completion_tokens",
        };
        body.put_unless(declared, name, &limit)?;
    }
    if let Some(key) = request.cache_key.as_ref().filter(|_| settings.takes_cache_key) {
        body.put_unless(declared, "prompt_cache_key", key)?;
    }
    Ok(body.finish())
}

fn put_fields(
    body: &mut RequestBody,
    declared: &Map<String, Value>,
    fields: &[(&str, &str)],
) -> Result<(), ProviderError> {
    // A declared field of the same name wins over the family's.
    fields.iter().try_for_each(|(name, json)| match serde_json::from_str::<&RawValue>(json) {
        Ok(value) => body.put_unless(declared, name, value),
        Err(error) => Err(invalid(format!("field `{name}` is not JSON: {error}"))),
    })
}

/// Reports whether the model is to continue an answer.
pub(super) fn is_prefilled(request: &ModelRequest) -> bool {
    request.messages.last().is_some_and(|message| message.role == Role::Assistant)
}

#[derive(Serialize)]
struct ChatRequestTool<'a> {
    r#type: &'static str,
    function: ChatRequestFunction<'a>,
}

#[derive(Serialize)]
struct ChatRequestFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

fn tools<'a>(
    request: &'a ModelRequest,
    family: &ServerFamily,
) -> Result<Vec<ChatRequestTool<'a>>, ProviderError> {
    // A server that cannot be told the tool's name is offered that tool alone, and told to call one.
    let alone = match &request.tool_choice {
        ToolChoice::Named(name) if !family.names_tools => Some(name),
        _ => None,
    };
    let listed = request.tools.iter().filter(|spec| alone.is_none_or(|name| *name == spec.name));
    listed
        .map(|spec| {
            let parameters = schema(spec)?;
            let function =
                ChatRequestFunction { name: &spec.name, description: &spec.description, parameters };
            Ok(ChatRequestTool { r#type: "function", function })
        })
        .collect()
}

/// Returns a tool's schema, to be embedded byte for byte.
///
/// # Errors
/// `invalid-request` if the schema is no JSON.
pub(crate) fn schema(spec: &ToolSpec) -> Result<&RawValue, ProviderError> {
    serde_json::from_str(spec.parameters.as_str())
        .map_err(|_| invalid(format!("the schema of tool `{}` is not JSON", spec.name)))
}

fn choice(request: &ModelRequest, family: &ServerFamily) -> Option<Value> {
    match &request.tool_choice {
        // OpenAI refuses `tool_choice` without `tools`.
        _ if request.tools.is_empty() => None,
        // Without the field every server lets the model choose.
        ToolChoice::Auto => None,
        ToolChoice::None => Some("none".into()),
        ToolChoice::Named(name) if family.names_tools => {
            Some(json!({"type": "function", "function": {"name": name}}))
        }
        ToolChoice::Required | ToolChoice::Named(_) => Some("required".into()),
    }
}

/// Returns the fields of a foreign JSON object; `None` for other JSON.
fn fields(json: &RawJson) -> Option<BTreeMap<String, Box<RawValue>>> {
    serde_json::from_str(json.as_str()).ok()
}

/// Returns a picture or a file as a data URL, or the address for the server to fetch; `None` if the request has
/// neither.
pub(crate) fn data_url(media: &MediaPart, request: &ModelRequest) -> Option<String> {
    // With the bytes the server needs no download.
    let Some(bytes) = request.media.get(&media.blob.hash) else {
        return request.links.get(&media.blob.hash).cloned();
    };
    Some(format!("data:{};base64,{}", media.media_type, STANDARD.encode(bytes)))
}

/// Returns the text in place of a result without text.
pub(crate) fn no_words(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Completed => "",
        // This wire has no mark for a failed call, so the text has to say it.
        ToolStatus::Error => "[the tool failed without a message]",
        ToolStatus::Cancelled => "[cancelled]",
        ToolStatus::Interrupted => "[interrupted, outcome unknown]",
    }
}

pub(crate) fn invalid(message: String) -> ProviderError {
    ProviderError::new(ErrorCode::InvalidRequest, message)
}

#[cfg(test)]
mod tests;
