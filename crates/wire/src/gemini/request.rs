//! The encoder from a [`ModelRequest`] to the bytes of a call.
//!
//! Equal requests give equal bytes, and a continued conversation begins with the same bytes. The stable parts
//! (instruction, options, tools) come before the contents; the variable parts (tool choice, output limit) come after
//! the contents.

use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::ToolSpec;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{GeminiAdaptations, contents};
use crate::request_body::RequestBody;
use crate::{ModelRequest, ModelSettings, ProviderError, ToolChoice};

/// The fields that no configuration replaces, and those that are merged with it.
const OURS: &[&str] =
    &["model", "systemInstruction", "contents", "toolConfig", "generationConfig", "generateContentRequest"];

/// Returns the body of `streamGenerateContent`, in the form that the server has demanded.
///
/// # Errors
/// `invalid-request` if a tool's schema is no JSON, a call's arguments are no JSON object, or a tool result
/// answers no call of this request.
pub fn encode(
    request: &ModelRequest,
    settings: &ModelSettings,
    adaptations: GeminiAdaptations,
) -> Result<Bytes, ProviderError> {
    let mut body = RequestBody::default();
    put(&mut body, request, &settings.with_fields(&request.fields), adaptations)?;
    Ok(body.finish())
}

/// Returns the body of `countTokens` for the same request: the same fields in the same order.
///
/// # Errors
/// As [`encode`].
#[doc(hidden)]
pub fn encode_count(
    request: &ModelRequest,
    settings: &ModelSettings,
    adaptations: GeminiAdaptations,
) -> Result<Bytes, ProviderError> {
    let mut counted = RequestBody::default();
    // The nested request must name the model again, although the address names it.
    counted.put("model", &resource(&settings.model))?;
    put(&mut counted, request, settings, adaptations)?;
    let counted: Box<RawValue> =
        serde_json::from_slice(&counted.finish()).map_err(|error| invalid(error.to_string()))?;
    let mut body = RequestBody::default();
    body.put("generateContentRequest", &counted)?;
    Ok(body.finish())
}

/// Returns the model's resource name: `models/NAME`, unless the name itself has a kind.
#[doc(hidden)]
pub fn resource(model: &str) -> String {
    if model.contains('/') { model.to_owned() } else { format!("models/{model}") }
}

fn put(
    body: &mut RequestBody,
    request: &ModelRequest,
    settings: &ModelSettings,
    adaptations: GeminiAdaptations,
) -> Result<(), ProviderError> {
    if !request.system.is_empty() {
        body.put("systemInstruction", &json!({"parts": [{"text": request.system}]}))?;
    }
    body.put_declared(&settings.body, OURS)?;
    if !request.tools.is_empty() {
        body.put_unless(&settings.body, "tools", &[GeminiRequestTools::new(&request.tools)?])?;
    }
    body.put("contents", &contents::encode(request, settings, adaptations)?)?;
    if let Some(choice) = tool_config(request, &settings.body) {
        body.put("toolConfig", &choice)?;
    }
    if let Some(config) = generation_config(request, &settings.body) {
        body.put("generationConfig", &config)?;
    }
    Ok(())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiRequestTools<'a> {
    function_declarations: Vec<GeminiRequestFunction<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiRequestFunction<'a> {
    name: &'a str,
    description: &'a str,
    /// The schema of the parameters. This field takes any JSON Schema unchanged; `parameters` would take only a
    /// dialect of it.
    parameters_json_schema: &'a RawValue,
}

impl<'a> GeminiRequestTools<'a> {
    fn new(specs: &'a [ToolSpec]) -> Result<Self, ProviderError> {
        let functions = specs.iter().map(|spec| {
            let parameters_json_schema = serde_json::from_str(spec.parameters.as_str())
                .map_err(|_| invalid(format!("the schema of tool `{}` is not JSON", spec.name)))?;
            Ok(GeminiRequestFunction {
                name: &spec.name,
                description: &spec.description,
                parameters_json_schema,
            })
        });
        Ok(Self { function_declarations: functions.collect::<Result<_, ProviderError>>()? })
    }
}

/// Returns the tool configuration. The demands of this request override the configured way to call tools.
fn tool_config(request: &ModelRequest, declared: &Map<String, Value>) -> Option<Value> {
    let calling = match &request.tool_choice {
        ToolChoice::Auto => None,
        _ if request.tools.is_empty() => None,
        ToolChoice::None => Some(json!({"mode": "NONE"})),
        ToolChoice::Required => Some(json!({"mode": "ANY"})),
        ToolChoice::Named(name) => Some(json!({"mode": "ANY", "allowedFunctionNames": [name]})),
    };
    let mut config = declared.get("toolConfig").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(calling) = calling {
        config.insert("functionCallingConfig".to_owned(), calling);
    }
    (!config.is_empty()).then_some(Value::Object(config))
}

/// Returns the configured options, and the output limit unless they have one. `null` asks for neither.
fn generation_config(request: &ModelRequest, declared: &Map<String, Value>) -> Option<Value> {
    let mut config = match declared.get("generationConfig") {
        Some(Value::Object(config)) => config.clone(),
        // `null` in the configuration removes the whole field, the output limit included.
        Some(_) => return None,
        None => Map::new(),
    };
    if let Some(limit) = request.max_output_tokens {
        config.entry("maxOutputTokens").or_insert_with(|| limit.into());
    }
    config.retain(|_, value| !value.is_null());
    (!config.is_empty()).then_some(Value::Object(config))
}

fn invalid(message: String) -> ProviderError {
    ProviderError::new(ErrorCode::InvalidRequest, message)
}

#[cfg(test)]
mod tests;
