//! The encoder from a [`ModelRequest`] to the bytes of a call.
//!
//! Equal requests give equal bytes. A continued conversation begins with the same bytes, but for the cache marks. The
//! stable parts (model, options, tools, system prompt) come before the messages; the variable parts (thinking, the
//! choice of tools, the output limit) come after the messages. The order matters beyond cost: newer models refuse
//! their own signed reasoning after a change of earlier content.

mod assistant;
mod names;
mod server_tools;
mod thinking;
mod turns;
mod user;

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{MessagesConfig, PromptCacheTtl};
use crate::request_body::RequestBody;
use crate::{ModelRequest, ProviderError, ToolChoice};

pub use assistant::encode_parts;

/// The output limit without a source: the API demands a limit, and `MAX_TOKENS` is the smallest of any model, in
/// tokens.
pub const MAX_TOKENS: u64 = 4_096;

/// The schema of a tool with only a known name.
const ANY_INPUT: &str = r#"{"type":"object"}"#;

/// Fields out of a configuration's reach, and `thinking`, a field with a special place.
const OURS: &[&str] = &["model", "system", "messages", "stream", "thinking"];

/// Configured fields accepted by the counting endpoint too; the endpoint refuses all others. Source:
/// `MessageCountTokensParams` of Anthropic's SDK for Python, 2.12.0.
const COUNTED: &[&str] = &[
    "billing_policy",
    "cache_control",
    "compaction",
    "context_management",
    "mcp_servers",
    "output_config",
    "speed",
    "tool_choice",
    "tools",
];

/// The instruction to the server about reasoning signed before an edit of the conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StaleReasoningPolicy {
    /// No instruction: the server follows the rules of the model and the account.
    #[default]
    Unsaid,
    /// The server is asked to leave stale reasoning out, instead of refusing the request.
    Drop,
}

/// Returns the body of a streamed call.
///
/// # Errors
/// `invalid-request` if a tool's schema is no JSON, a tool result answers no call of this request, or an
/// assistant message holds a tool result.
pub fn encode(request: &ModelRequest, config: &MessagesConfig) -> Result<Bytes, ProviderError> {
    call(request, config, StaleReasoningPolicy::Unsaid)
}

/// Returns the body of a streamed call.
///
/// # Errors
/// As [`encode`].
#[doc(hidden)]
pub fn call(
    request: &ModelRequest,
    config: &MessagesConfig,
    stale: StaleReasoningPolicy,
) -> Result<Bytes, ProviderError> {
    // Few requests have fields of their own, so the settings are seldom copied.
    if request.fields.is_empty() {
        return write(request, config, stale, &config.settings.body, true);
    }
    let settings = config.settings.with_fields(&request.fields).into_owned();
    let config = MessagesConfig { settings, ..config.clone() };
    write(request, &config, stale, &config.settings.body, true)
}

/// Returns the body for counting the call's input tokens.
///
/// # Errors
/// As [`encode`].
#[doc(hidden)]
pub fn count(
    request: &ModelRequest,
    config: &MessagesConfig,
    stale: StaleReasoningPolicy,
) -> Result<Bytes, ProviderError> {
    let configured = config.settings.body.iter();
    let counted = configured.filter(|(name, _)| COUNTED.contains(&name.as_str()));
    let counted = counted.map(|(name, value)| (name.clone(), value.clone())).collect();
    write(request, config, stale, &counted, false)
}

fn write(
    request: &ModelRequest,
    config: &MessagesConfig,
    stale: StaleReasoningPolicy,
    declared: &Map<String, Value>,
    answer: bool,
) -> Result<Bytes, ProviderError> {
    let mark = MessagesCacheControl::of(request, config);
    let tools = tools(request, mark)?;
    let mut body = RequestBody::default();
    body.put("model", &config.settings.model)?;
    body.put_declared(declared, OURS)?;
    if !tools.is_empty() {
        body.put_unless(declared, "tools", &tools)?;
    }
    // The API refuses blank text blocks.
    let has_system = !request.system.trim().is_empty();
    if has_system && config.adaptations.has_plain_texts {
        body.put("system", &request.system)?;
    } else if has_system {
        body.put("system", &[user::MessagesUserBlock::text(Cow::Borrowed(&request.system)).marked(mark)])?;
    }
    if answer {
        body.put("stream", &true)?;
    }
    body.put("messages", &turns::encode(request, config, stale, mark)?)?;
    let thinking = thinking::of(request, config, stale);
    if let Some(thinking) = &thinking {
        body.put("thinking", thinking)?;
    }
    if let Some(choice) = MessagesToolChoice::of(request, &tools) {
        body.put_unless(declared, "tool_choice", &choice)?;
    }
    if answer {
        body.put_unless(declared, "max_tokens", &max_tokens(request, config, thinking.as_ref()))?;
    }
    Ok(body.finish())
}

/// Returns the requested output limit. A thinking budget must be smaller, so a larger budget is added to the limit.
fn max_tokens(request: &ModelRequest, config: &MessagesConfig, thinking: Option<&Value>) -> u64 {
    let asked = request.max_output_tokens.or(config.settings.declared.max_output).unwrap_or(MAX_TOKENS);
    let budget = thinking.and_then(|thinking| thinking.get("budget_tokens")).and_then(Value::as_u64);
    budget.filter(|budget| *budget >= asked).map_or(asked, |budget| asked.saturating_add(budget))
}

/// A mark at the end of content for the server's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct MessagesCacheControl {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl MessagesCacheControl {
    /// Returns the mark. `None` without marks, and if the configuration sets its own: the API takes four in
    /// all.
    fn of(request: &ModelRequest, config: &MessagesConfig) -> Option<Self> {
        let is_off = config.cache == PromptCacheTtl::Off;
        let own = config.settings.body.contains_key("cache_control");
        let ttl = config.cache.field(request.long_pauses);
        (!is_off && !own).then_some(Self { r#type: "ephemeral", ttl })
    }
}

#[derive(Debug, Serialize)]
struct MessagesRequestTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<MessagesCacheControl>,
}

/// Returns the tools, the last tool with a cache mark. The API refuses a conversation with calls but without tools.
/// If the caller lists no tools, the called tools are named, and [`MessagesToolChoice`] forbids calls.
fn tools(
    request: &ModelRequest,
    mark: Option<MessagesCacheControl>,
) -> Result<Vec<MessagesRequestTool<'_>>, ProviderError> {
    let listed = request
        .tools
        .iter()
        .map(|spec| (spec.name.as_str(), spec.description.as_str(), spec.parameters.as_str()));
    let known: Vec<_> = if request.tools.is_empty() {
        // Anthropic refuses a conversation with tool calls if the request declares no tools.
        let mut seen = BTreeSet::new();
        let calls = request.messages.iter().flat_map(|message| message.tool_calls());
        let names = calls.map(|call| call.name.as_str()).filter(|name| seen.insert(*name));
        names.map(|name| (name, "", ANY_INPUT)).collect()
    } else {
        listed.collect()
    };
    let last = known.len().saturating_sub(1);
    let tools = known.into_iter().enumerate().map(|(at, (name, description, schema))| {
        let input_schema =
            raw(schema).ok_or_else(|| invalid(format!("the schema of tool `{name}` is not JSON")))?;
        Ok(MessagesRequestTool {
            name,
            description,
            input_schema,
            cache_control: mark.filter(|_| at == last),
        })
    });
    tools.collect()
}

/// The request's choice of tools: whether the model may, must or must not call one.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum MessagesToolChoice<'a> {
    None,
    Any,
    Tool { name: &'a str },
}

impl<'a> MessagesToolChoice<'a> {
    /// Returns the choice. The API takes a choice only beside tools.
    fn of(request: &'a ModelRequest, tools: &[MessagesRequestTool<'_>]) -> Option<Self> {
        match &request.tool_choice {
            _ if tools.is_empty() => None,
            // These tools are listed only because the conversation has calls of them. The model must not call
            // them.
            _ if request.tools.is_empty() => Some(Self::None),
            ToolChoice::Auto => None,
            ToolChoice::None => Some(Self::None),
            ToolChoice::Required => Some(Self::Any),
            ToolChoice::Named(name) => Some(Self::Tool { name }),
        }
    }
}

/// Returns foreign JSON, to be embedded byte for byte.
fn raw(json: &str) -> Option<&RawValue> {
    serde_json::from_str(json).ok()
}

fn invalid(message: String) -> ProviderError {
    ProviderError::new(ErrorCode::InvalidRequest, message)
}

#[cfg(test)]
mod tests;
