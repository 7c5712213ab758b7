//! The encoder from a [`ModelRequest`] to the bytes of a call.
//!
//! Equal requests give equal bytes, and a continued conversation begins with the same bytes. The stable parts (model,
//! options, tools, instructions) come before the input; the variable parts come after the input.

use bytes::Bytes;
use longhaul_core::message::ModelOrigin;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{API, ResponsesAdaptations, input};
use crate::chat::request::schema;
use crate::request_body::{RequestBody, parse_body, pick_fields};
use crate::{ModelRequest, ModelSettings, ProviderError, ToolChoice};

/// The least output limit that OpenAI takes (error `integer_below_min_value`).
const MIN_OUTPUT_TOKENS: u64 = 16;

/// The value of `include` that makes the server return encrypted reasoning. Reasoning can be sent back by it
/// although nothing is stored.
const ENCRYPTED: &str = "reasoning.encrypted_content";

/// The beginnings of the names of OpenAI's models that do not reason. These models refuse a request for encrypted
/// reasoning ("Encrypted content is not supported with this model", pydantic/pydantic-ai#2865).
const WITHOUT_REASONING: &[&str] = &["gpt-3", "gpt-4", "chatgpt-"];

/// A part of the names of newer models that do not reason (`gpt-5-chat-latest`, pydantic/pydantic-ai#3326).
const CHAT_ONLY: &str = "-chat";

/// The fields of a request that the counting endpoint takes
/// (<https://platform.openai.com/docs/api-reference/responses/input-tokens>).
const COUNTED: &[&str] = &[
    "model",
    "instructions",
    "input",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "truncation",
    "previous_response_id",
    "conversation",
];

/// Returns the body of the request.
///
/// Tools of the configured body (built-in ones, for example) come before those of the request. Configured `include`
/// values are added to ours; other configured fields replace ours.
///
/// # Errors
/// `invalid-request` if a tool's schema is no JSON, a tool result answers no call of this request, or an
/// assistant message has a part that it cannot hold.
pub fn encode(request: &ModelRequest, settings: &ModelSettings) -> Result<Bytes, ProviderError> {
    encode_adapted(request, settings, ResponsesAdaptations::default())
}

/// Returns the body of the request in the form that the server has demanded.
///
/// # Errors
/// As [`encode`].
#[doc(hidden)]
pub fn encode_adapted(
    request: &ModelRequest,
    settings: &ModelSettings,
    adaptations: ResponsesAdaptations,
) -> Result<Bytes, ProviderError> {
    let settings = &*settings.with_fields(&request.fields);
    let declared = &settings.body;
    let is_stored = declared.get("store").and_then(Value::as_bool).unwrap_or_default();
    let mut body = RequestBody::default();
    body.put("model", &settings.model)?;
    body.put_declared(declared, &["model", "instructions", "input", "stream", "tools", "include"])?;
    // The configured tools are merged with ours, so the field is not one of the declared fields above.
    let tools = tools(request, declared, adaptations)?;
    if !tools.is_empty() {
        body.put("tools", &tools)?;
    }
    body.put("stream", &true)?;
    // The log is the only store of a conversation (decision 0013), so the provider keeps none by default.
    body.put_unless(declared, "store", &false)?;
    if let Some(include) = include(declared, &settings.model, is_stored) {
        body.put("include", &include)?;
    }
    if !request.system.is_empty() {
        body.put("instructions", &request.system)?;
    }
    body.put("input", &input::encode(request, &origin(settings), is_stored, adaptations)?)?;
    if let Some(choice) = choice(request, !tools.is_empty()) {
        body.put_unless(declared, "tool_choice", &choice)?;
    }
    if let Some(limit) = request.max_output_tokens {
        body.put_unless(declared, "max_output_tokens", &limit.max(MIN_OUTPUT_TOKENS))?;
    }
    if let Some(key) = request.cache_key.as_ref().filter(|_| settings.takes_cache_key) {
        body.put_unless(declared, "prompt_cache_key", key)?;
    }
    Ok(body.finish())
}

/// Returns the part of a body that the server counts.
///
/// # Errors
/// `invalid-request` if the body is no JSON object.
#[doc(hidden)]
pub fn countable(body: &Bytes) -> Result<Bytes, ProviderError> {
    pick_fields(&parse_body(body)?, COUNTED)
}

fn origin(settings: &ModelSettings) -> ModelOrigin {
    settings.origin(API)
}

/// A tool of ours, or one that the configuration lists.
#[derive(Serialize)]
#[serde(untagged)]
enum ResponsesRequestTool<'a> {
    Function(ResponsesRequestFunction<'a>),
    Declared(&'a Value),
}

/// A function that is not strict: a strict schema must list every property as required, which schemas of tools
/// seldom do.
#[derive(Serialize)]
struct ResponsesRequestFunction<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

fn tools<'a>(
    request: &'a ModelRequest,
    declared: &'a Map<String, Value>,
    adaptations: ResponsesAdaptations,
) -> Result<Vec<ResponsesRequestTool<'a>>, ProviderError> {
    let listed = declared.get("tools").and_then(Value::as_array).into_iter().flatten();
    let listed = listed.map(|tool| Ok(ResponsesRequestTool::Declared(tool)));
    let ours = request.tools.iter().map(|spec| {
        Ok(ResponsesRequestTool::Function(ResponsesRequestFunction {
            r#type: "function",
            name: &spec.name,
            description: &spec.description,
            parameters: schema(spec)?,
            strict: (!adaptations.omits_strict).then_some(false),
        }))
    });
    listed.chain(ours).collect()
}

/// Returns the additional content that the answer is to include. A `null` in the configuration asks for none.
fn include(declared: &Map<String, Value>, model: &str, is_stored: bool) -> Option<Vec<Value>> {
    let wanted = declared.get("include");
    if wanted.is_some_and(Value::is_null) {
        return None;
    }
    let mut include = wanted.and_then(Value::as_array).cloned().unwrap_or_default();
    if !is_stored && reasons(model) && !include.iter().any(|one| one == ENCRYPTED) {
        include.push(ENCRYPTED.into());
    }
    (!include.is_empty()).then_some(include)
}

/// Reports whether a model may return encrypted reasoning. Routers put the maker before its name, and fine-tuned
/// models begin with `ft:`.
fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    !name.contains(CHAT_ONLY) && !WITHOUT_REASONING.iter().any(|family| name.starts_with(family))
}

fn choice(request: &ModelRequest, has_tools: bool) -> Option<Value> {
    match &request.tool_choice {
        // OpenAI refuses a choice of tools in a request without tools.
        _ if !has_tools => None,
        ToolChoice::Auto => None,
        ToolChoice::None => Some("none".into()),
        ToolChoice::Required => Some("required".into()),
        ToolChoice::Named(name) => Some(json!({"type": "function", "name": name})),
    }
}

#[cfg(test)]
mod tests;
