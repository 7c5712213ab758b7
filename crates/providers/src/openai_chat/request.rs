//! From a [`Request`] to the bytes that are sent.
//!
//! Equal requests give equal bytes, and a request that continues another begins with the same bytes: what
//! stays (model, options, tools) comes before the messages, what may change (the output limit) after them.

mod messages;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Media, RawJson, ToolSpec};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Config, OutputLimit};
use crate::body::Body;
use crate::{ProviderError, Request};

/// Stands where the model is not shown something it cannot take.
pub(super) const UNSUPPORTED: &str = "[unsupported content]";

/// The body of the request.
///
/// # Errors
/// `invalid-request` if a tool's schema is no JSON, or a tool result answers no call of this request.
pub fn encode(request: &Request, config: &Config) -> Result<Bytes, ProviderError> {
    let mut body = Body::default();
    body.put("model", &config.model)?;
    body.put_declared(&config.body, &["model", "messages", "stream"])?;
    if !request.tools.is_empty() {
        body.put_unless(&config.body, "tools", &tools(&request.tools)?)?;
    }
    body.put("stream", &true)?;
    body.put_unless(&config.body, "stream_options", &json!({"include_usage": true}))?;
    body.put("messages", &messages::encode(request, config)?)?;
    if let Some(limit) = request.max_output_tokens {
        let name = match config.output_limit {
            OutputLimit::MaxTokens => "max_tokens",
            OutputLimit::MaxCompletionTokens => "max_completion_tokens",
        };
        body.put_unless(&config.body, name, &limit)?;
    }
    Ok(body.finish())
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

fn tools(specs: &[ToolSpec]) -> Result<Vec<Tool<'_>>, ProviderError> {
    specs
        .iter()
        .map(|spec| {
            let parameters = raw(&spec.parameters)
                .ok_or_else(|| invalid(format!("the schema of tool `{}` is no JSON", spec.name)))?;
            let function = Function { name: &spec.name, description: &spec.description, parameters };
            Ok(Tool { r#type: "function", function })
        })
        .collect()
}

/// Somebody's JSON, to be embedded byte for byte.
fn raw(json: &RawJson) -> Option<&RawValue> {
    serde_json::from_str(json.as_str()).ok()
}

/// The fields of somebody's JSON object, if it is one.
fn fields(json: &RawJson) -> Option<BTreeMap<String, Box<RawValue>>> {
    serde_json::from_str(json.as_str()).ok()
}

/// A picture as a data URL; nothing if its bytes did not come with the request.
fn data_url(media: &Media, request: &Request) -> Option<String> {
    let bytes = request.media.get(&media.blob.hash)?;
    Some(format!("data:{};base64,{}", media.media_type, STANDARD.encode(bytes)))
}

fn invalid(message: String) -> ProviderError {
    ProviderError::new(ErrorCode::InvalidRequest, message)
}

#[cfg(test)]
mod tests;
