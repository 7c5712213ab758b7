//! The encoder from a [`ModelRequest`] to the bytes of a call.
//!
//! Equal requests give equal bytes, and a continued conversation begins with the same bytes. The stable parts (model,
//! fields, tools) come before the messages; the variable part (the output limit) comes after the messages.

use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Role, ToolSpec};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::messages;
use crate::request_body::RequestBody;
use crate::{ModelRequest, ModelSettings, ProviderError, ToolChoice};

/// The fields that no configuration replaces, and `options`, which is merged with it.
const OURS: &[&str] = &["model", "messages", "stream", "options"];

/// Returns the body of a call, with the loaded `window` in tokens, if one is known.
///
/// With `truncate` and `shift` switched off nothing is cut. A request beyond the window is refused, and an answer
/// ends at the window's end. Ollama has both fields since 0.12.6; older servers ignore both and cut silently.
///
/// # Errors
/// `invalid-request` if a tool's schema is no JSON, a call's arguments are no JSON object, or a tool result
/// answers no call of this request. The same error if a tool call is required: Ollama has no field for that.
pub fn encode(
    request: &ModelRequest,
    settings: &ModelSettings,
    window: Option<u64>,
) -> Result<Bytes, ProviderError> {
    let settings = &*settings.with_fields(&request.fields);
    // Thinking comes before an answer. So a thinking model can continue an answer only with thinking off.
    let goes_on = request.messages.last().is_some_and(|last| last.role == Role::Assistant);
    let mut body = RequestBody::default();
    body.put("model", &settings.model)?;
    // A configured `think` must not stand beside ours, or the body would have the field twice.
    let ours: Vec<&str> = OURS.iter().copied().chain(goes_on.then_some("think")).collect();
    body.put_declared(&settings.body, &ours)?;
    let tools = offered(request)?;
    if !tools.is_empty() {
        body.put_unless(&settings.body, "tools", &tools)?;
    }
    put_stream(&mut body, settings, true)?;
    body.put("messages", &messages::encode(request, settings)?)?;
    if goes_on {
        body.put("think", &false)?;
    }
    put_options(&mut body, settings, window, request.max_output_tokens)?;
    Ok(body.finish())
}

/// Returns the body that only loads the model, with the options of a call. With other options the call would load
/// the model again.
///
/// # Errors
/// As [`encode`].
#[doc(hidden)]
pub fn encode_load(settings: &ModelSettings, window: Option<u64>) -> Result<Bytes, ProviderError> {
    let mut body = RequestBody::default();
    body.put("model", &settings.model)?;
    if let Some(keep_alive) = settings.body.get("keep_alive").filter(|value| !value.is_null()) {
        body.put("keep_alive", keep_alive)?;
    }
    // Not streamed: the single answer comes when the model is loaded.
    put_stream(&mut body, settings, false)?;
    // Without messages Ollama only loads the model, and answers with the reason `load`.
    body.put("messages", &[(); 0])?;
    // No output limit is needed: it is no option of loading, so it does not reload the model.
    put_options(&mut body, settings, window, None)?;
    Ok(body.finish())
}

fn put_stream(body: &mut RequestBody, settings: &ModelSettings, stream: bool) -> Result<(), ProviderError> {
    body.put("stream", &stream)?;
    body.put_unless(&settings.body, "truncate", &false)?;
    body.put_unless(&settings.body, "shift", &false)
}

/// Adds the configured options, and ours where they have none. `null` removes one option, or all of them.
fn put_options(
    body: &mut RequestBody,
    settings: &ModelSettings,
    window: Option<u64>,
    limit: Option<u64>,
) -> Result<(), ProviderError> {
    let mut options = match settings.body.get("options") {
        Some(Value::Object(options)) => options.clone(),
        // `null`, or another value that is no object, means: send no options.
        Some(_) => return Ok(()),
        None => Map::new(),
    };
    for (name, tokens) in [("num_ctx", settings.declared.window.or(window)), ("num_predict", limit)] {
        if let Some(tokens) = tokens {
            // A configured option wins over ours.
            options.entry(name).or_insert_with(|| tokens.into());
        }
    }
    options.retain(|_, value| !value.is_null());
    if options.is_empty() { Ok(()) } else { body.put("options", &options) }
}

#[derive(Serialize)]
struct OllamaRequestTool<'a> {
    r#type: &'static str,
    function: OllamaRequestFunction<'a>,
}

#[derive(Serialize)]
struct OllamaRequestFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

/// Returns the tools for the model. A model that must not call tools gets none, because Ollama has no other way
/// to forbid calls.
fn offered(request: &ModelRequest) -> Result<Vec<OllamaRequestTool<'_>>, ProviderError> {
    match &request.tool_choice {
        ToolChoice::None => Ok(Vec::new()),
        ToolChoice::Auto => request.tools.iter().map(tool).collect(),
        ToolChoice::Required | ToolChoice::Named(_) => {
            Err(invalid("Ollama has no way to make a model call a tool".to_owned()))
        }
    }
}

fn tool(spec: &ToolSpec) -> Result<OllamaRequestTool<'_>, ProviderError> {
    let parameters = serde_json::from_str(spec.parameters.as_str())
        // The schema may be a server's, and long. The name of the tool is enough to find it.
        .map_err(|_| invalid(format!("the schema of tool `{}` is not JSON", spec.name)))?;
    let function = OllamaRequestFunction { name: &spec.name, description: &spec.description, parameters };
    Ok(OllamaRequestTool { r#type: "function", function })
}

pub(super) fn invalid(message: String) -> ProviderError {
    ProviderError::new(ErrorCode::InvalidRequest, message)
}

#[cfg(test)]
mod tests;
