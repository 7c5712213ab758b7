//! The conversation as input items.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::ids::CallId;
use longhaul_core::message::{
    MediaPart, Message, ModelOrigin, Part, RawJson, Role, ToolCall, ToolResult, ToolStatus,
};
use serde_json::json;
use serde_json::value::RawValue;

use super::ResponsesAdaptations;
use super::encode::{call_name, function_call, message_item, neutral};
use crate::chat::request::{data_url, invalid, no_words};
use crate::raw_json::{self, RawObject, quote};
use crate::{ModelRequest, ProviderError, UNSUPPORTED};

/// The longest id of a call that OpenAI takes, in bytes (error `string_above_max_length`).
const MAX_CALL_ID_BYTES: usize = 64;

/// Returns all items, in order.
///
/// # Errors
/// `invalid-request` for a tool result whose call is not in the request, and for an assistant message with a part
/// that it cannot hold.
pub(super) fn encode(
    request: &ModelRequest,
    target: &ModelOrigin,
    is_stored: bool,
    adaptations: ResponsesAdaptations,
) -> Result<Vec<Box<RawValue>>, ProviderError> {
    let mut writer = ResponsesInputEncoder {
        request,
        target,
        is_stored,
        omits_reasoning: adaptations.omits_reasoning,
        items: Vec::new(),
        calls: BTreeMap::new(),
        used: BTreeSet::new(),
    };
    for message in &request.messages {
        match message.role {
            Role::Assistant => writer.assistant(message)?,
            Role::User | Role::Tool => writer.user_or_tool(message)?,
        }
    }
    writer.items.iter().map(|item| raw_json::value(item.as_str()).ok_or_else(|| no_json(item))).collect()
}

fn no_json(item: &RawJson) -> ProviderError {
    let quote: String = item.as_str().chars().take(200).collect();
    invalid(format!("an item of the model is not JSON: {quote}"))
}

struct ResponsesInputEncoder<'a> {
    request: &'a ModelRequest,
    target: &'a ModelOrigin,
    /// `true` if the provider stores output, and recognises an item by the id.
    is_stored: bool,
    /// `true` if the server takes no reasoning items.
    omits_reasoning: bool,
    items: Vec<RawJson>,
    calls: BTreeMap<&'a CallId, ResponsesCallId>,
    used: BTreeSet<String>,
}

/// The id of a call on this wire.
struct ResponsesCallId {
    id: String,
    /// `true` if the call's result is that of a custom tool.
    is_custom: bool,
}

/// The kind of an item, as far as rules depend on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResponsesInputKind {
    Reasoning,
    Other,
}

impl<'a> ResponsesInputEncoder<'a> {
    /// Writes the items of an answer. The server knows an unstored item by the item's content only. Reasoning without
    /// content refers to nothing and is left out. The ids of neighbouring items are left out too, because such ids
    /// would require the reasoning. Reasoning at the very end, from a cut answer, is refused too.
    fn assistant(&mut self, message: &'a Message) -> Result<(), ProviderError> {
        let own = raw_json::is_own(message, self.target);
        let is_lost = |part: &Part| match self.omits_reasoning {
            true => matches!(part, Part::Reasoning(_)),
            false => !self.is_stored && is_stored_reasoning(part),
        };
        let lost: Vec<bool> = message.parts.iter().map(|part| own && is_lost(part)).collect();
        let loses = lost.contains(&true);
        let mut items = Vec::new();
        for (part, _) in message.parts.iter().zip(lost).filter(|(_, is_lost)| !is_lost) {
            let item = match (part, raw_json::native(part).filter(|_| own)) {
                (Part::ToolCall(call), _) => Some(self.call(call, own)),
                (_, Some(native)) => Some(native.clone()),
                (part, None) => neutral(part, own)?,
            };
            let kind = if matches!(part, Part::Reasoning(_)) {
                ResponsesInputKind::Reasoning
            } else {
                ResponsesInputKind::Other
            };
            items.extend(item.map(|item| (kind, if loses { without_id(&item) } else { item })));
        }
        let followed =
            // OpenAI refuses reasoning without an item behind it, so trailing reasoning is cut off.
            items.iter().rposition(|(kind, _)| *kind == ResponsesInputKind::Other).map_or(0, |last| last + 1);
        self.items.extend(items.into_iter().take(followed).map(|(_, item)| item));
        Ok(())
    }

    /// Writes a call under the provider's id, unless an earlier call of the request has the same id.
    fn call(&mut self, call: &'a ToolCall, own: bool) -> RawJson {
        let native = call.native.as_ref().filter(|_| own);
        let object = native.and_then(|native| RawObject::parse(native.as_str()));
        let given = call_name(call, own);
        // Local servers repeat their ids from answer to answer.
        let is_free = (1..=MAX_CALL_ID_BYTES).contains(&given.len()) && !self.used.contains(given);
        let id = if is_free { given } else { call.call_id.as_str() };
        let is_custom =
            object.as_ref().and_then(|object| object.text("type")).as_deref() == Some("custom_tool_call");
        self.used.insert(id.to_owned());
        self.calls.insert(&call.call_id, ResponsesCallId { id: id.to_owned(), is_custom });
        match (native, object) {
            (Some(native), _) if is_free => native.clone(),
            // Only the id changes; the provider's other fields stay as they were.
            (Some(_), Some(mut object)) => {
                object.set_text("call_id", id);
                object.to_json()
            }
            _ => function_call(call, id),
        }
    }

    fn user_or_tool(&mut self, message: &'a Message) -> Result<(), ProviderError> {
        let mut content = Vec::new();
        for part in &message.parts {
            match part {
                Part::ToolResult(result) => self.tool_result(result)?,
                part => self.content(part, &mut content),
            }
        }
        if !content.is_empty() {
            self.items.push(message_item("user", &written(&content)));
        }
        Ok(())
    }

    fn tool_result(&mut self, result: &ToolResult) -> Result<(), ProviderError> {
        let Some(named) = self.calls.get(&result.call_id) else {
            return Err(invalid(format!("the result of call `{}` has no call before it", result.call_id)));
        };
        let kind = if named.is_custom { "custom_tool_call_output" } else { "function_call_output" };
        let mut content = Vec::new();
        for part in &result.content {
            self.content(part, &mut content);
        }
        // A result without text would not tell the model that the tool has failed.
        if content.is_empty() && result.status != ToolStatus::Completed {
            content.push(ResponsesInputContent::Text(no_words(result.status).to_owned()));
        }
        let (id, output) = (quote(&named.id), written(&content));
        self.items.push(RawJson(format!(r#"{{"type":"{kind}","call_id":{id},"output":{output}}}"#)));
        Ok(())
    }

    /// Adds a part of a user message or a tool's result. Neighbouring texts are one.
    fn content(&self, part: &Part, content: &mut Vec<ResponsesInputContent>) {
        let more = match part {
            Part::Text(text) => ResponsesInputContent::Text(text.text.clone()),
            Part::Image(media) => self.media(media, false),
            Part::File(media) => self.media(media, true),
            _ => ResponsesInputContent::Text(UNSUPPORTED.to_owned()),
        };
        match (content.last_mut(), more) {
            (Some(ResponsesInputContent::Text(before)), ResponsesInputContent::Text(text)) => {
                before.push_str(&text)
            }
            (_, more) => content.push(more),
        }
    }

    fn media(&self, media: &MediaPart, is_file: bool) -> ResponsesInputContent {
        let Some(url) = data_url(media, self.request) else {
            return ResponsesInputContent::Text(UNSUPPORTED.to_owned());
        };
        if !is_file {
            return ResponsesInputContent::Item(json!({"type": "input_image", "image_url": url}).to_string());
        }
        // OpenAI has one field for a file's bytes and another one for its address.
        if self.request.links.contains_key(&media.blob.hash) {
            return ResponsesInputContent::Item(json!({"type": "input_file", "file_url": url}).to_string());
        }
        // OpenAI takes a file's bytes only together with a name.
        let name = media.name.as_deref().unwrap_or("document.pdf");
        ResponsesInputContent::Item(
            json!({"type": "input_file", "filename": name, "file_data": url}).to_string(),
        )
    }
}

/// A part of a user message or of a tool's result.
enum ResponsesInputContent {
    Text(String),
    /// An item, as JSON.
    Item(String),
}

/// Returns content as JSON: a string for text alone, else a list.
fn written(content: &[ResponsesInputContent]) -> String {
    match content {
        [] => quote(""),
        // A plain string is the older form, which every server takes.
        [ResponsesInputContent::Text(text)] => quote(text),
        several => {
            let items: Vec<String> = several
                .iter()
                .map(|piece| match piece {
                    ResponsesInputContent::Text(text) => {
                        format!(r#"{{"type":"input_text","text":{}}}"#, quote(text))
                    }
                    ResponsesInputContent::Item(item) => item.clone(),
                })
                .collect();
            format!("[{}]", items.join(","))
        }
    }
}

/// Reports whether a part is reasoning whose content only OpenAI's storage has.
fn is_stored_reasoning(part: &Part) -> bool {
    matches!(part, Part::Reasoning(_)) && raw_json::native(part).is_some_and(|native| !holds_itself(native))
}

/// Reports whether reasoning can be sent back by its content: encrypted at OpenAI, readable at servers of open
/// models.
fn holds_itself(native: &RawJson) -> bool {
    let Some(item) = RawObject::parse(native.as_str()) else { return false };
    item.text("encrypted_content").is_some_and(|content| !content.is_empty())
        || !item.list("content").is_empty()
}

/// Returns an item without its id; all its other bytes stay.
fn without_id(item: &RawJson) -> RawJson {
    let Some(object) = RawObject::parse(item.as_str()) else { return item.clone() };
    let mut bare = RawObject::default();
    for (name, value) in object.fields().filter(|(name, _)| *name != "id") {
        if let Some(value) = raw_json::value(value) {
            bare.set(name, value);
        }
    }
    bare.to_json()
}
