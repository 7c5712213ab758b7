//! The content of one message.

use std::borrow::Cow;

use longhaul_core::message::{OpaquePart, Part, RawJson, ReasoningPart, ToolCall, ToolSpec, given_arguments};
use longhaul_core::plan::MARK;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::edit::canonical::{JsonNode, settle_content};
use crate::edit::ephemeral::{CACHE_MARKS, without_notices};
use crate::edit::{ItemSegment, ParseError, media};

#[derive(Deserialize)]
#[serde(expecting = "a message")]
struct ClientChatMessage<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<ClientChatToolCall<'a>>>,
    #[serde(borrow, default)]
    function_call: Option<ClientChatFunctionCall<'a>>,
    #[serde(borrow, default)]
    tool_call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ClientChatToolCall<'a> {
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    function: Option<ClientChatFunctionCall<'a>>,
    #[serde(borrow, default)]
    custom: Option<ClientChatFunctionCall<'a>>,
}

#[derive(Deserialize)]
struct ClientChatFunctionCall<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default, alias = "input")]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ClientChatPart<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    refusal: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    image_url: Option<&'a RawValue>,
    #[serde(borrow, default)]
    file: Option<ClientChatFile<'a>>,
}

#[derive(Deserialize)]
struct ClientChatFile<'a> {
    #[serde(borrow, default)]
    filename: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    file_data: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    file_id: Option<Cow<'a, str>>,
}

impl ClientChatFile<'_> {
    fn part(self) -> Option<Part> {
        let name = self.filename.map(Cow::into_owned);
        match (self.file_data, self.file_id) {
            (Some(data), _) => media::part_from_url(&data, PDF, name),
            (None, Some(id)) => Some(media::linked(PDF, name, &id)),
            (None, None) => None,
        }
    }
}

/// The media type of a file without a stated type.
const PDF: &str = "application/pdf";

#[derive(Deserialize)]
struct ClientChatImageUrl<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
}

#[derive(Deserialize)]
struct ClientChatTool<'a> {
    #[serde(borrow, default)]
    function: Option<ClientChatFunction<'a>>,
    #[serde(borrow, default)]
    custom: Option<ClientChatFunction<'a>>,
}

#[derive(Deserialize)]
struct ClientChatFunction<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    description: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
}

pub(super) fn unreadable(index: usize, error: &serde_json::Error) -> ParseError {
    ParseError::field(format!("messages[{index}]"), format!("messages[{index}] is not a message: {error}"))
}

pub(super) fn piece(item: &str, index: usize) -> Result<ItemSegment, ParseError> {
    let message: ClientChatMessage<'_> =
        serde_json::from_str(item).map_err(|error| unreadable(index, &error))?;
    let parts = content(message.content, index)?;
    Ok(match &*message.role {
        "system" | "developer" => ItemSegment::System(parts),
        "user" => said_by_user(parts),
        "assistant" => ItemSegment::Assistant(answer_parts(message, parts)),
        "tool" | "function" => ItemSegment::Result {
            // The deprecated role `function` names its function instead of a call.
            call: message.tool_call_id.or(message.name).unwrap_or_default().into_owned(),
            // This dialect has no mark for a failed call.
            failed: false,
            content: parts,
        },
        role => {
            // A broken client may send a whole text as the role. The error must stay readable.
            let role: String = role.chars().take(40).collect();
            return Err(ParseError::field(
                format!("messages[{index}].role"),
                format!(
                    "messages[{index}].role is `{role}`; it must be one of system, developer, user, assistant, tool"
                ),
            ));
        }
    })
}

/// Returns a user message as a segment. Summaries and reminders have the user's role too, but no person typed them.
fn said_by_user(parts: Vec<Part>) -> ItemSegment {
    // A client sends the gateway's summaries back like any message of the user.
    let is_ours = parts.first().and_then(Part::as_text).is_some_and(|text| text.starts_with(MARK));
    // With another part beside it a summary is a part of what the person sent.
    let is_note = is_ours && parts.len() == 1 || !parts.is_empty() && parts.iter().all(is_reminder);
    if is_note { ItemSegment::Note(parts) } else { ItemSegment::Typed(parts) }
}

/// Reports whether a part is a reminder, added to a person's message by Claude Code.
fn is_reminder(part: &Part) -> bool {
    let text = part.as_text().unwrap_or_default().trim();
    text.starts_with("<system-reminder>") && text.ends_with("</system-reminder>")
}

fn answer_parts(message: ClientChatMessage<'_>, spoken: Vec<Part>) -> Vec<Part> {
    // Under both of its names the reasoning is the same text, so the first one is enough.
    let thought = [message.reasoning_content, message.reasoning].into_iter().flatten();
    // A field of another type holds no text for the model and stays in the client's bytes.
    let mut thought = thought.filter_map(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let reasoning = thought.find(|text| !text.is_empty());
    let mut parts: Vec<Part> = reasoning
        .map(|text| Part::Reasoning(ReasoningPart { native: Some(RawJson(text.clone())), text }))
        .into_iter()
        .collect();
    parts.extend(spoken);
    parts.extend(message.refusal.filter(|text| !text.is_empty()).map(|text| Part::text(text.into_owned())));
    let called = message.tool_calls.unwrap_or_default().into_iter();
    let called = called.filter_map(|call| Some((call.id, call.function.or(call.custom)?)));
    // The deprecated `function_call` has no id, and its result names the function. So the name is the id.
    let legacy = message.function_call.map(|function| (Some(function.name.clone()), function));
    parts.extend(called.chain(legacy).map(|(id, function)| Part::ToolCall(tool_call(id, &function))));
    parts
}

fn tool_call(id: Option<Cow<'_, str>>, function: &ClientChatFunctionCall<'_>) -> ToolCall {
    let id = id.unwrap_or_default().into_owned();
    let arguments = function.arguments.map(RawValue::get).unwrap_or("{}");
    // Some clients send the arguments' object itself instead of its text.
    let arguments = serde_json::from_str::<String>(arguments).unwrap_or_else(|_| arguments.to_owned());
    ToolCall {
        call_id: id.as_str().into(),
        name: function.name.clone().into_owned(),
        arguments: given_arguments(&arguments).to_owned(),
        provider_id: Some(id),
        native: None,
    }
}

fn content(raw: Option<&RawValue>, index: usize) -> Result<Vec<Part>, ParseError> {
    // A message of the model with calls may have no content at all.
    let raw = raw.map(RawValue::get).unwrap_or("null");
    match raw.as_bytes().first() {
        Some(b'"') => {
            let text: String = serde_json::from_str(raw).map_err(|_| unreadable_content(index))?;
            // Notices of the gateway come back in the client's copy of an answer, but the model never wrote them.
            let text = without_notices(&text).unwrap_or(text);
            Ok(if text.is_empty() { Vec::new() } else { vec![Part::text(text)] })
        }
        Some(b'[') => {
            let blocks: Vec<&RawValue> = serde_json::from_str(raw).map_err(|_| unreadable_content(index))?;
            blocks
                .into_iter()
                .map(|block| block_part(block).ok_or_else(|| unreadable_content(index)))
                .collect()
        }
        _ if raw == "null" => Ok(Vec::new()),
        _ => Err(unreadable_content(index)),
    }
}

fn unreadable_content(index: usize) -> ParseError {
    let param = format!("messages[{index}].content");
    ParseError::field(param.clone(), format!("{param} must be a string or a list of parts"))
}

fn block_part(raw: &RawValue) -> Option<Part> {
    // Some clients put bare strings into the list of blocks.
    if raw.get().starts_with('"') {
        return serde_json::from_str::<String>(raw.get()).ok().map(Part::text);
    }
    let block: ClientChatPart<'_> = serde_json::from_str(raw.get()).ok()?;
    if let Some(text) = block.text.or(block.refusal) {
        return Some(Part::text(text.into_owned()));
    }
    let url =
        block.image_url.and_then(|image| match serde_json::from_str::<ClientChatImageUrl<'_>>(image.get()) {
            Ok(image) => Some(image.url.into_owned()),
            // A bare address, the form of the Responses API, is read too.
            Err(_) => serde_json::from_str(image.get()).ok(),
        });
    // The address does not state the format of the picture.
    let image = url.and_then(|url| media::part_from_url(&url, "image/*", None));
    let image = image.or_else(|| block.file.and_then(ClientChatFile::part));
    // Sound and blocks of an unknown type stay as they are, because the upstream may know them.
    Some(image.unwrap_or_else(|| {
        let native = RawJson(raw.get().to_owned());
        Part::Opaque(OpaquePart { kind: block.kind.into_owned(), native })
    }))
}

/// Returns the tools of a request.
pub(super) fn tools(raw: &str) -> Result<Vec<ToolSpec>, ParseError> {
    let tools: Vec<ClientChatTool<'_>> = serde_json::from_str(raw)
        .map_err(|error| ParseError::field("tools", format!("`tools` is not a list of tools: {error}")))?;
    let specs = tools.into_iter().filter_map(|tool| tool.function.or(tool.custom));
    let specs = specs.map(|spec| ToolSpec {
        name: spec.name.into_owned(),
        description: spec.description.unwrap_or_default().into_owned(),
        parameters: RawJson(spec.parameters.map(RawValue::get).unwrap_or("{}").to_owned()),
        read_only: false,
        poll: false,
        source: "client".to_owned(),
    });
    Ok(specs.collect())
}

/// Normalises the forms of different clients: content becomes blocks, and empty fields are removed.
pub(super) fn settle(item: &mut JsonNode<'_>) {
    if let Some(content) = item.get_mut("content") {
        settle_content(content, "text");
    }
    if let JsonNode::Object(fields) = item {
        fields.retain(|(key, value)| match value {
            JsonNode::Null => false,
            JsonNode::List(list) => !list.is_empty(),
            _ => !CACHE_MARKS.contains(&&**key),
        });
    }
}
