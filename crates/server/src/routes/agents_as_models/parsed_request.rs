//! The request of a client to an agent: the newest message, and the client's copy of the history.

use longhaul_wire::edit::{Dialect, GatewayError, GatewayErrorKind};
use serde_json::{Map, Value, json};

use crate::routes::ui_stream::media;

/// A parsed request, independent of its dialect.
#[derive(Debug, Default)]
pub(super) struct ParsedAgentRequest {
    pub(super) stream: bool,
    /// Set if the stream is to contain usage (Chat Completions).
    pub(super) include_usage: bool,
    /// The name of the continued answer (Responses).
    pub(super) previous: Option<String>,
    /// The messages before the newest one.
    pub(super) history: Vec<HistoryMessage>,
    /// The newest message, as parts of the server's own API.
    pub(super) newest: Vec<Value>,
    /// The fields without meaning for an agent.
    pub(super) ignored: Vec<String>,
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HistorySpeaker {
    User,
    Model,
    /// A tool, or a model message with tool calls.
    Tool,
}

/// One message of a history.
#[derive(Debug)]
pub(super) struct HistoryMessage {
    pub(super) by: HistorySpeaker,
    /// The parts in the form of the server's own API.
    pub(super) parts: Vec<Value>,
    /// The message in the form of Chat Completions.
    message: Value,
}

/// Parses a request.
///
/// # Errors
/// [`GatewayError`] naming the field not honoured by an agent.
pub(super) fn read(dialect: Dialect, body: &[u8]) -> Result<ParsedAgentRequest, GatewayError> {
    let body: Map<String, Value> = serde_json::from_slice(body).map_err(|error| {
        GatewayError::new(GatewayErrorKind::Invalid, format!("the request is not a JSON object: {error}"))
    })?;
    // A field that would change the answer is refused first, whatever the messages are.
    refuse(&body)?;
    let stream = match body.get("stream") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(stream)) => *stream,
        Some(_) => return Err(bad("stream", "`stream` must be true or false")),
    };
    let list = if dialect == Dialect::Responses { "input" } else { "messages" };
    let mut asked = ParsedAgentRequest {
        stream,
        include_usage: body.get("stream_options").is_some_and(|options| options["include_usage"] == true),
        previous: text_field(&body, "previous_response_id").filter(|_| dialect == Dialect::Responses),
        ignored: ignored(&body, list),
        ..ParsedAgentRequest::default()
    };
    let mut spoken = Vec::new();
    match body.get(list) {
        Some(Value::String(text)) if dialect == Dialect::Responses => {
            spoken.push(HistoryMessage::of(HistorySpeaker::User, vec![text_part(text)]));
        }
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let place = format!("{list}[{index}]");
                // An agent has a system prompt of its own, which a client cannot replace.
                if matches!(item["role"].as_str(), Some("system" | "developer")) {
                    asked.ignored.push(place);
                } else {
                    spoken.extend(item_of(item, &place)?);
                }
            }
        }
        _ if dialect == Dialect::Responses => return Err(bad(list, "`input` must be a string or a list")),
        _ => return Err(bad(list, &format!("`{list}` must be a list"))),
    }
    // A client may send several user messages in a row. All of them since the model's last turn are new.
    let begin = spoken.iter().rposition(|spoken| spoken.by != HistorySpeaker::User).map_or(0, |at| at + 1);
    asked.newest = spoken.split_off(begin).into_iter().flat_map(|spoken| spoken.parts).collect();
    asked.history = spoken;
    if asked.newest.is_empty() {
        let message = "the last message must be a user's: the agent's tools run on the server";
        return Err(bad(list, message));
    }
    // A history beside the name could contradict the session's own.
    if asked.previous.is_some() && !asked.history.is_empty() {
        let message = "with `previous_response_id` only user messages are accepted";
        return Err(bad(list, message));
    }
    Ok(asked)
}

impl ParsedAgentRequest {
    /// Returns the history in the form for an import.
    pub(super) fn history_json(&self) -> Vec<u8> {
        let messages: Vec<&Value> = self.history.iter().map(|spoken| &spoken.message).collect();
        json!({ "messages": messages }).to_string().into_bytes()
    }

    /// Returns the first message of the conversation.
    pub(super) fn beginning(&self) -> &[Value] {
        let first = self.history.iter().find(|spoken| spoken.by == HistorySpeaker::User);
        first.map_or(self.newest.as_slice(), |spoken| spoken.parts.as_slice())
    }
}

impl HistoryMessage {
    fn of(by: HistorySpeaker, parts: Vec<Value>) -> Self {
        let role = if by == HistorySpeaker::User { "user" } else { "assistant" };
        let content: Vec<Value> = parts.iter().map(chat_part).collect();
        let message = json!({ "role": role, "content": content });
        Self { by, parts, message }
    }

    fn of_tool(message: Value) -> Self {
        Self { by: HistorySpeaker::Tool, parts: Vec::new(), message }
    }
}

/// A test whether the value of a field would change the answer.
type FieldTest = fn(&Value) -> bool;

/// Refuses unsupported fields with an effect on the answer.
fn refuse(body: &Map<String, Value>) -> Result<(), GatewayError> {
    const REFUSED: [(&str, FieldTest); 12] = [
        ("n", |n| n.as_u64().is_some_and(|n| n > 1)),
        ("response_format", has_form),
        ("text.format", |text| has_form(&text["format"])),
        ("output_config.format", |config| has_form(&config["format"])),
        ("logprobs", |asked| *asked == true),
        ("audio", |audio| !audio.is_null()),
        ("tool_choice", must_call),
        ("stop", |stop| !stop.is_null()),
        ("stop_sequences", |list| list.as_array().is_some_and(|list| !list.is_empty())),
        ("background", |asked| *asked == true),
        ("prompt", |prompt| !prompt.is_null()),
        ("conversation", |conversation| !conversation.is_null()),
    ];
    for (field, is_refused) in REFUSED {
        // A path names its outer field first.
        let outer = field.split('.').next().unwrap_or(field);
        if body.get(outer).is_some_and(is_refused) {
            return Err(bad(field, &format!("`{field}` is not supported for an agent")));
        }
    }
    Ok(())
}

fn has_form(form: &Value) -> bool {
    !form["type"].is_null() && form["type"] != "text"
}

fn must_call(choice: &Value) -> bool {
    choice.as_str() == Some("required")
        || choice["type"].as_str().is_some_and(|kind| !matches!(kind, "auto" | "none"))
}

/// Returns the ignored fields.
fn ignored(body: &Map<String, Value>, list: &str) -> Vec<String> {
    let read = ["model", "stream", "stream_options", "previous_response_id", "n", list];
    let left_out = body.iter().filter(|(name, value)| {
        !read.contains(&name.as_str()) && !value.is_null() && is_header_word(name) && !is_default(name, value)
    });
    // The names go into a header, whose length proxies limit.
    left_out.take(32).map(|(name, _)| name.clone()).collect()
}

/// Reports whether a name can stand in a header with names between commas.
fn is_header_word(name: &str) -> bool {
    name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
}

fn is_default(name: &str, value: &Value) -> bool {
    match name {
        "tool_choice" => *value == "auto" || *value == "none",
        "text" | "response_format" => value.as_object().is_some_and(|form| form.len() <= 1),
        _ => false,
    }
}

fn text_field(body: &Map<String, Value>, name: &str) -> Option<String> {
    body.get(name)?.as_str().map(str::to_owned)
}

fn item_of(item: &Value, place: &str) -> Result<Vec<HistoryMessage>, GatewayError> {
    match item["type"].as_str() {
        Some("function_call") => {
            return Ok(vec![HistoryMessage::of_tool(call(item, "call_id", &item["arguments"]))]);
        }
        Some("function_call_output") => {
            return Ok(vec![HistoryMessage::of_tool(result(&item["call_id"], &item["output"]))]);
        }
        // Reasoning of an earlier answer is no part of the conversation that names the turn.
        Some("reasoning") => return Ok(Vec::new()),
        None | Some("message") => {}
        Some(kind) => return Err(bad(place, &format!("{place}: an agent cannot take `{kind}`"))),
    }
    match item["role"].as_str() {
        Some("tool") => Ok(vec![HistoryMessage::of_tool(item.clone())]),
        Some("assistant") if item["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty()) => {
            Ok(vec![HistoryMessage::of_tool(item.clone())])
        }
        Some("assistant") => content(HistorySpeaker::Model, item, place),
        Some("user") => content(HistorySpeaker::User, item, place),
        _ => Err(bad(place, &format!("{place} has no role that is known"))),
    }
}

fn content(by: HistorySpeaker, item: &Value, place: &str) -> Result<Vec<HistoryMessage>, GatewayError> {
    let mut spoken = Vec::new();
    let mut parts = Vec::new();
    match &item["content"] {
        Value::String(text) => parts.push(text_part(text)),
        Value::Null => {}
        Value::Array(blocks) => {
            for block in blocks {
                match block["type"].as_str() {
                    Some("tool_use") => {
                        // The import reads Chat Completions, where arguments are a JSON text.
                        let arguments = Value::String(block["input"].to_string());
                        spoken.push(HistoryMessage::of_tool(call(block, "id", &arguments)));
                    }
                    Some("tool_result") => {
                        spoken
                            .push(HistoryMessage::of_tool(result(&block["tool_use_id"], &block["content"])));
                    }
                    _ => parts.extend(part(block, place)?),
                }
            }
        }
        _ => return Err(bad(place, &format!("{place}: `content` is a text or a list"))),
    }
    if !parts.is_empty() {
        spoken.push(HistoryMessage::of(by, parts));
    }
    Ok(spoken)
}

/// Returns a content block as a part of the server's own API; `None` for reasoning, not read by agents.
fn part(block: &Value, place: &str) -> Result<Option<Value>, GatewayError> {
    let kind = block["type"].as_str().unwrap_or_default();
    Ok(match kind {
        "text" | "input_text" | "output_text" => Some(text_part(block["text"].as_str().unwrap_or_default())),
        "refusal" => Some(text_part(block["refusal"].as_str().unwrap_or_default())),
        "thinking" | "redacted_thinking" | "reasoning" => None,
        "image_url" => {
            let url = block["image_url"]["url"].as_str().or(block["image_url"].as_str());
            Some(brought(url, None, place)?)
        }
        "input_image" => Some(brought(block["image_url"].as_str(), None, place)?),
        "file" => {
            Some(brought(block["file"]["file_data"].as_str(), block["file"]["filename"].as_str(), place)?)
        }
        "input_file" => Some(brought(block["file_data"].as_str(), block["filename"].as_str(), place)?),
        "image" | "document" => {
            let source = &block["source"];
            match (source["type"].as_str(), source["media_type"].as_str(), source["data"].as_str()) {
                (Some("base64"), Some(kind), Some(data)) => Some(media(kind, data, block["title"].as_str())),
                (Some("text"), _, Some(text)) => Some(text_part(text)),
                _ => return Err(not_brought(place)),
            }
        }
        _ => return Err(bad(place, &format!("{place}: an agent cannot take `{kind}`"))),
    })
}

fn brought(url: Option<&str>, name: Option<&str>, place: &str) -> Result<Value, GatewayError> {
    // An address is never fetched: the server may reach hosts that the client cannot.
    let rest = url.and_then(|url| url.strip_prefix("data:")).and_then(|rest| rest.split_once(";base64,"));
    let (kind, data) = rest.ok_or_else(|| not_brought(place))?;
    Ok(media(kind, data, name))
}

fn not_brought(place: &str) -> GatewayError {
    bad(
        place,
        &format!("{place}: pictures and files must come in base64, because the server fetches no address"),
    )
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn chat_part(part: &Value) -> Value {
    match part["type"].as_str() {
        Some("image") => json!({ "type": "image_url", "image_url": { "url": data_url(part) } }),
        Some("file") => {
            json!({ "type": "file", "file": { "file_data": data_url(part), "filename": part["name"] } })
        }
        _ => part.clone(),
    }
}

fn data_url(part: &Value) -> String {
    let kind = part["mediaType"].as_str().unwrap_or_default();
    format!("data:{kind};base64,{}", part["data"].as_str().unwrap_or_default())
}

fn call(item: &Value, id: &str, arguments: &Value) -> Value {
    let function = json!({ "name": item["name"], "arguments": arguments });
    let call = json!({ "id": item[id], "type": "function", "function": function });
    json!({ "role": "assistant", "content": null, "tool_calls": [call] })
}

fn result(call: &Value, content: &Value) -> Value {
    let text = match content {
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            Value::String(texts.collect::<Vec<_>>().join("\n"))
        }
        Value::Null => Value::String(String::new()),
        content => content.clone(),
    };
    json!({ "role": "tool", "tool_call_id": call, "content": text })
}

fn bad(field: &str, message: &str) -> GatewayError {
    GatewayError { param: Some(field.to_owned()), ..GatewayError::new(GatewayErrorKind::Invalid, message) }
}
