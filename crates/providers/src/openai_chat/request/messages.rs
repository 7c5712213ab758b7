//! The conversation, message by message.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::ids::CallId;
use longhaul_core::message::{
    Media, Message, Origin, Part, Reasoning, Role, ToolCall, ToolResult, ToolStatus,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::{API, Config};
use super::{UNSUPPORTED, data_url, fields, invalid};
use crate::Retention;
use crate::{ProviderError, Request};

/// Longer names of calls are refused by OpenAI.
const MAX_CALL_ID_BYTES: usize = 40;

/// A message as it is written.
#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum Written<'a> {
    System { content: &'a str },
    User { content: Content<'a> },
    Assistant(Assistant<'a>),
    Tool { tool_call_id: String, content: String },
}

/// Text alone is a string; every server takes that.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(Cow<'a, str>),
    Items(Vec<Item<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Debug, Serialize)]
pub(super) struct ImageUrl {
    url: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Assistant<'a> {
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Debug, Serialize)]
struct Call<'a> {
    id: String,
    r#type: &'static str,
    function: Called<'a>,
    /// What the server put beside the call and wants back, for example a thought signature.
    #[serde(flatten)]
    extra: BTreeMap<String, Box<RawValue>>,
}

#[derive(Debug, Serialize)]
struct Called<'a> {
    name: &'a str,
    arguments: Cow<'a, str>,
}

/// All messages, the system prompt first.
///
/// # Errors
/// `invalid-request` for a tool result whose call is not in the request.
pub(super) fn encode<'a>(
    request: &'a Request,
    config: &'a Config,
) -> Result<Vec<Written<'a>>, ProviderError> {
    let mut writer = Writer::new(request, config);
    for (index, message) in request.messages.iter().enumerate() {
        match message.role {
            Role::Assistant => writer.assistant(message, index),
            Role::User | Role::Tool => writer.user_or_tool(message)?,
        }
    }
    writer.flush();
    Ok(writer.written)
}

struct Writer<'a> {
    request: &'a Request,
    config: &'a Config,
    written: Vec<Written<'a>>,
    /// What the next user message begins with: pictures that tools gave. They wait until all results of the
    /// step are written, since nothing may stand between those.
    waiting: Vec<Item<'a>>,
    /// Our names of the calls so far, with the names they were given on this wire.
    calls: BTreeMap<&'a CallId, (String, &'a str)>,
    used: BTreeSet<String>,
    /// Messages from here on belong to the turn that is going on.
    turn_start: usize,
}

impl<'a> Writer<'a> {
    fn new(request: &'a Request, config: &'a Config) -> Self {
        let system = (!request.system.is_empty()).then_some(Written::System { content: &request.system });
        let last_user = request.messages.iter().rposition(|message| message.role == Role::User);
        Self {
            request,
            config,
            written: system.into_iter().collect(),
            waiting: Vec::new(),
            calls: BTreeMap::new(),
            used: BTreeSet::new(),
            turn_start: last_user.unwrap_or_default(),
        }
    }

    fn user_or_tool(&mut self, message: &'a Message) -> Result<(), ProviderError> {
        for part in &message.parts {
            match part {
                Part::ToolResult(result) => self.tool_result(result)?,
                part => self.waiting_part(part),
            }
        }
        if message.role == Role::User {
            self.flush();
        }
        Ok(())
    }

    /// Writes what waits as one user message.
    fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let mut items = std::mem::take(&mut self.waiting);
        let content = match items.as_mut_slice() {
            [Item::Text { text }] => Content::Text(std::mem::take(text)),
            _ => Content::Items(items),
        };
        self.written.push(Written::User { content });
    }

    fn waiting_part(&mut self, part: &'a Part) {
        match part {
            Part::Text(text) => self.waiting_text(Cow::Borrowed(&text.text)),
            Part::Image(media) => self.waiting_image(media),
            _ => self.waiting_text(Cow::Borrowed(UNSUPPORTED)),
        }
    }

    /// Neighbouring texts are one item: servers differ in how they join several.
    fn waiting_text(&mut self, text: Cow<'a, str>) {
        if let Some(Item::Text { text: before }) = self.waiting.last_mut() {
            before.to_mut().push_str(&text);
        } else {
            self.waiting.push(Item::Text { text });
        }
    }

    fn waiting_image(&mut self, media: &Media) {
        match data_url(media, self.request) {
            Some(url) => self.waiting.push(Item::ImageUrl { image_url: ImageUrl { url } }),
            None => self.waiting_text(Cow::Borrowed(UNSUPPORTED)),
        }
    }

    fn tool_result(&mut self, result: &'a ToolResult) -> Result<(), ProviderError> {
        let Some((tool_call_id, tool)) = self.calls.get(&result.call_id).cloned() else {
            return Err(invalid(format!("the result of call `{}` has no call before it", result.call_id)));
        };
        let mut content = String::new();
        for part in &result.content {
            match part {
                Part::Text(text) => content.push_str(&text.text),
                Part::Image(media) if self.request.media.contains_key(&media.blob.hash) => {
                    content.push_str("[the image follows in the next user message]");
                    self.waiting_text(Cow::Owned(format!(
                        "Image given by tool call {tool_call_id} ({tool}):"
                    )));
                    self.waiting_image(media);
                }
                _ => content.push_str(UNSUPPORTED),
            }
        }
        if content.is_empty() && result.status != ToolStatus::Completed {
            content.push_str(no_words(result.status));
        }
        self.written.push(Written::Tool { tool_call_id, content });
        Ok(())
    }

    fn assistant(&mut self, message: &'a Message, index: usize) {
        self.flush();
        let own = message.origin.as_ref().is_some_and(|origin| self.is_own(origin));
        let with_reasoning = match self.config.send_reasoning {
            Retention::Never => false,
            Retention::Turn => index > self.turn_start,
            Retention::Always => true,
        };
        let tool_calls: Vec<_> = message.tool_calls().map(|call| self.call(call, own)).collect();
        let content = spoken(message, !tool_calls.is_empty());
        self.written.push(Written::Assistant(Assistant {
            content,
            reasoning_content: with_reasoning.then(|| reasoning_text(message)).flatten(),
            reasoning_details: own.then(|| proven_reasoning(message)).flatten(),
            tool_calls,
        }));
    }

    fn is_own(&self, origin: &Origin) -> bool {
        origin.api == API && origin.provider == self.config.provider && origin.model == self.config.model
    }

    fn call(&mut self, call: &'a ToolCall, own: bool) -> Call<'a> {
        let id = self.name_call(call);
        let native = call.native.as_ref().filter(|_| own).and_then(fields).unwrap_or_default();
        let function = Called { name: &call.name, arguments: arguments(&call.arguments) };
        Call { id, r#type: "function", function, extra: native }
    }

    /// The provider's own name of the call, unless an earlier call of this request has it: local servers
    /// repeat theirs.
    fn name_call(&mut self, call: &'a ToolCall) -> String {
        let given = call.provider_id.as_deref().filter(|id| (1..=MAX_CALL_ID_BYTES).contains(&id.len()));
        let free = given.filter(|id| !self.used.contains(*id)).unwrap_or(call.call_id.as_str());
        self.used.insert(free.to_owned());
        self.calls.insert(&call.call_id, (free.to_owned(), call.name.as_str()));
        free.to_owned()
    }
}

/// The assistant's text. `null` beside calls if there is none; never an empty message.
fn spoken(message: &Message, has_calls: bool) -> Option<String> {
    let text = message.text();
    let lost =
        || message.parts.iter().any(|part| matches!(part, Part::Image(_) | Part::File(_) | Part::Opaque(_)));
    match (text.is_empty(), has_calls) {
        (false, _) => Some(text),
        (true, true) => None,
        (true, false) if lost() => Some(UNSUPPORTED.to_owned()),
        (true, false) => Some(String::new()),
    }
}

fn reasonings(message: &Message) -> impl Iterator<Item = &Reasoning> {
    message.parts.iter().filter_map(|part| match part {
        Part::Reasoning(reasoning) => Some(reasoning),
        _ => None,
    })
}

fn reasoning_text(message: &Message) -> Option<String> {
    let text: String = reasonings(message).map(|reasoning| reasoning.text.as_str()).collect();
    (!text.is_empty()).then_some(text)
}

/// The details that a router asks back, if they prove anything; else they are only text.
fn proven_reasoning(message: &Message) -> Option<&RawValue> {
    reasonings(message).find_map(|reasoning| {
        let native: super::super::response::Details<'_> =
            serde_json::from_str(reasoning.native.as_ref()?.as_str()).ok()?;
        native.are_proven().then_some(native.reasoning_details)
    })
}

/// Exactly the model's bytes, as long as they are JSON. Servers parse them again and refuse the whole
/// conversation if they are not: those are wrapped, so that the model still sees what it wrote.
fn arguments(arguments: &str) -> Cow<'_, str> {
    if arguments.trim().is_empty() {
        return Cow::Borrowed("{}");
    }
    match serde_json::from_str::<&RawValue>(arguments) {
        Ok(_) => Cow::Borrowed(arguments),
        Err(_) => Cow::Owned(serde_json::json!({ "invalid_json": arguments }).to_string()),
    }
}

fn no_words(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Completed => "",
        ToolStatus::Error => "[the tool failed without a message]",
        ToolStatus::Cancelled => "[cancelled]",
        ToolStatus::Interrupted => "[interrupted, outcome unknown]",
    }
}
