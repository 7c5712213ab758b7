//! The encoder of the conversation, message by message.

use std::borrow::Cow;

use longhaul_core::message::{
    MediaPart, Message, ModelOrigin, OpaquePart, Part, Role, ToolCall, ToolResult, ToolStatus,
    given_arguments,
};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::super::API;
use super::super::family::{DocumentSupport, PrefillSupport, ReasoningPlace, ServerFamily};
use super::ids::ChatCallIdMap;
use super::message_schema::{
    ChatAssistantMessage, ChatRequestContent, ChatRequestFile, ChatRequestFunctionCall, ChatRequestImageUrl,
    ChatRequestMessage, ChatRequestPart, ChatRequestThinkingText, ChatRequestToolCall,
};
use super::reasoning::{self, ReasoningReplayMask};
use super::{data_url, fields, invalid, is_prefilled, no_words};
use crate::gemini::NO_SIGNATURE;
use crate::{ModelRequest, ModelSettings, ProviderError, UNSUPPORTED};

/// The field of a call that holds Google's thought signature
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>, OpenAI compatibility).
const SIGNED_CONTENT: &str = "extra_content";

/// The assistant message between a tool's result and a user message, for servers of strict order.
const BRIDGE: &str = "Understood.";

/// The media type of documents for servers.
const PDF: &str = "application/pdf";

/// Returns all messages, the system prompt first.
///
/// # Errors
/// `invalid-request` for a tool result without a call in the request.
pub(super) fn encode<'a>(
    request: &'a ModelRequest,
    settings: &'a ModelSettings,
    family: &'a ServerFamily,
) -> Result<Vec<ChatRequestMessage<'a>>, ProviderError> {
    let mut writer = ChatInputEncoder::new(request, settings, family);
    for (index, message) in request.messages.iter().enumerate() {
        match message.role {
            Role::Assistant => writer.assistant(message, index),
            Role::User | Role::Tool => writer.user_or_tool(message)?,
        }
    }
    // Pictures of the last results wait for a user message that does not come, so they get one here.
    writer.flush();
    writer.mark_prefix();
    Ok(writer.written)
}

struct ChatInputEncoder<'a> {
    request: &'a ModelRequest,
    settings: &'a ModelSettings,
    family: &'a ServerFamily,
    written: Vec<ChatRequestMessage<'a>>,
    /// The beginning of the next user message: pictures from tools. Pictures wait until all results of the step are
    /// written, because no other message may stand between results.
    waiting: Vec<ChatRequestPart<'a>>,
    calls: ChatCallIdMap<'a>,
    shown: ReasoningReplayMask,
}

impl<'a> ChatInputEncoder<'a> {
    fn new(request: &'a ModelRequest, settings: &'a ModelSettings, family: &'a ServerFamily) -> Self {
        let has_system = !request.system.is_empty();
        let in_user = has_system && family.system_in_user;
        let system =
            (has_system && !in_user).then_some(ChatRequestMessage::System { content: &request.system });
        let opening =
            in_user.then(|| ChatRequestPart::Text { text: Cow::Owned(format!("{}\n\n", request.system)) });
        Self {
            request,
            settings,
            family,
            written: system.into_iter().collect(),
            waiting: opening.into_iter().collect(),
            calls: ChatCallIdMap::new(family.call_ids),
            shown: ReasoningReplayMask::new(&request.messages, family.replay),
        }
    }

    fn user_or_tool(&mut self, message: &'a Message) -> Result<(), ProviderError> {
        for part in &message.parts {
            match part {
                Part::ToolResult(result) => self.tool_result(result)?,
                part => self.waiting_part(part),
            }
        }
        // After a tool's message further results of the step may follow, so the pictures wait on.
        if message.role == Role::User {
            self.flush();
        }
        Ok(())
    }

    /// Writes the waiting parts as a single user message.
    fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let mut items = std::mem::take(&mut self.waiting);
        let content = match items.as_mut_slice() {
            // A text alone is sent as a string, because not every server takes a list.
            [ChatRequestPart::Text { text }] => ChatRequestContent::Text(std::mem::take(text)),
            _ => ChatRequestContent::Items(items),
        };
        // Mistral refuses a user message directly behind a tool's result.
        if !self.family.user_after_tool
            && matches!(self.written.last(), Some(ChatRequestMessage::Tool { .. }))
        {
            self.written.push(ChatRequestMessage::Assistant(ChatAssistantMessage::word(BRIDGE)));
        }
        self.written.push(ChatRequestMessage::User { content });
    }

    fn waiting_part(&mut self, part: &'a Part) {
        match part {
            Part::Text(text) => self.waiting_text(Cow::Borrowed(&text.text)),
            Part::Image(media) | Part::File(media) => self.waiting_media(part, media),
            _ => self.waiting_text(Cow::Borrowed(UNSUPPORTED)),
        }
    }

    /// Adds a waiting text. Neighbouring texts become a single item, because servers join several items differently.
    fn waiting_text(&mut self, text: Cow<'a, str>) {
        if let Some(ChatRequestPart::Text { text: before }) = self.waiting.last_mut() {
            before.to_mut().push_str(&text);
        } else {
            self.waiting.push(ChatRequestPart::Text { text });
        }
    }

    fn waiting_media(&mut self, part: &'a Part, media: &'a MediaPart) {
        match self.media(part, media) {
            Some(item) => self.waiting.push(item),
            None => self.waiting_text(Cow::Borrowed(UNSUPPORTED)),
        }
    }

    /// Returns a picture or a document; `None` if the bytes are missing, or the server takes neither.
    fn media(&self, part: &Part, media: &'a MediaPart) -> Option<ChatRequestPart<'a>> {
        let name = media.name.as_deref();
        match (part, self.family.documents) {
            (Part::Image(_), _) if self.family.images.may() => Some(ChatRequestPart::ImageUrl {
                image_url: ChatRequestImageUrl { url: data_url(media, self.request)? },
            }),
            (Part::File(_), DocumentSupport::DocumentUrl) if media.media_type == PDF => {
                Some(ChatRequestPart::DocumentUrl {
                    document_url: data_url(media, self.request)?,
                    document_name: name,
                })
            }
            (Part::File(_), DocumentSupport::File) if media.media_type == PDF => {
                Some(ChatRequestPart::File {
                    file: ChatRequestFile {
                        filename: name.unwrap_or("document.pdf"),
                        file_data: data_url(media, self.request)?,
                    },
                })
            }
            _ => None,
        }
    }

    fn tool_result(&mut self, result: &'a ToolResult) -> Result<(), ProviderError> {
        let Some((tool_call_id, tool)) = self.calls.get(&result.call_id).cloned() else {
            return Err(invalid(format!("the result of call `{}` has no call before it", result.call_id)));
        };
        let mut content = String::new();
        for part in &result.content {
            match (part, self.media_of(part)) {
                (Part::Text(text), _) => content.push_str(&text.text),
                (_, Some(item)) => {
                    let (here, there) = match item {
                        ChatRequestPart::ImageUrl { .. } => ("image", "Image"),
                        _ => ("file", "File"),
                    };
                    content.push_str(&format!("[the {here} follows in the next user message]"));
                    // A tool message holds text only on this wire. Media follow in a user message that names
                    // their call.
                    let heading = format!("{there} given by tool call {tool_call_id} ({tool}):");
                    self.waiting_text(Cow::Owned(heading));
                    self.waiting.push(item);
                }
                _ => content.push_str(UNSUPPORTED),
            }
        }
        // This wire cannot mark a failed call. Without words the failure would look like an empty success.
        if content.is_empty() && result.status != ToolStatus::Completed {
            content.push_str(no_words(result.status));
        }
        self.written.push(ChatRequestMessage::Tool { tool_call_id, content });
        Ok(())
    }

    fn media_of(&self, part: &'a Part) -> Option<ChatRequestPart<'a>> {
        match part {
            Part::Image(media) | Part::File(media) => self.media(part, media),
            _ => None,
        }
    }

    fn assistant(&mut self, message: &'a Message, index: usize) {
        self.flush();
        let family = self.family;
        let own = message.origin.as_ref().is_some_and(|origin| self.is_own(origin));
        let tool_calls: Vec<_> = message.tool_calls().map(|call| self.call(call, own)).collect();
        let shown = self.shown.of(index);
        // Reasoning of another model would be read as this model's own.
        let plain = reasoning::plain(message, own, family.replay).filter(|_| shown);
        let blocks = (family.reasoning == ReasoningPlace::Blocks && own).then(|| blocks(message, shown));
        let content = blocks
            .flatten()
            .or_else(|| assistant_content(message, !tool_calls.is_empty() && !family.content_is_text));
        self.written.push(ChatRequestMessage::Assistant(ChatAssistantMessage {
            content,
            reasoning_content: plain.clone().filter(|_| family.reasoning == ReasoningPlace::ReasoningContent),
            reasoning: plain.filter(|_| family.reasoning == ReasoningPlace::Reasoning),
            reasoning_details: own.then(|| reasoning::details(message, family)).flatten(),
            tool_calls,
            prefix: false,
        }));
    }

    fn is_own(&self, origin: &ModelOrigin) -> bool {
        let ModelSettings { provider, model, .. } = self.settings;
        // The wire counts too: what one wire has signed another cannot verify.
        origin.api == API && origin.provider == *provider && origin.model == *model
    }

    fn call(&mut self, call: &'a ToolCall, own: bool) -> ChatRequestToolCall<'a> {
        let id = self.calls.name(call);
        // Gemini's compatible API wants its signature back. Another server may refuse the unknown field.
        let mut native = call.native.as_ref().filter(|_| own).and_then(fields).unwrap_or_default();
        if self.family.signs_calls
            && !native.contains_key(SIGNED_CONTENT)
            && let Ok(placeholder) = to_raw_value(&json!({"google": {"thought_signature": NO_SIGNATURE}}))
        {
            native.insert(SIGNED_CONTENT.to_owned(), placeholder);
        }
        let function = ChatRequestFunctionCall { name: &call.name, arguments: arguments(&call.arguments) };
        ChatRequestToolCall { id, r#type: "function", function, extra: native }
    }

    fn mark_prefix(&mut self) {
        if self.family.prefill == PrefillSupport::Prefix
            && is_prefilled(self.request)
            && let Some(ChatRequestMessage::Assistant(last)) = self.written.last_mut()
        {
            last.prefix = true;
        }
    }
}

/// Returns the assistant's text. `may_be_null` allows a message without content, which stands beside calls.
fn assistant_content<'a>(message: &'a Message, may_be_null: bool) -> Option<ChatRequestContent<'a>> {
    let text = message.text();
    if !text.is_empty() {
        return Some(ChatRequestContent::Text(Cow::Owned(text)));
    }
    if may_be_null {
        return None;
    }
    let mut parts = message.parts.iter();
    let is_lost = parts.any(|part| matches!(part, Part::Image(_) | Part::File(_) | Part::Opaque(_)));
    Some(ChatRequestContent::Text(Cow::Borrowed(if is_lost { UNSUPPORTED } else { "" })))
}

/// Returns the model's own content, block by block; `None` if plain text is equivalent.
fn blocks(message: &Message, with_reasoning: bool) -> Option<ChatRequestContent<'_>> {
    let items: Vec<ChatRequestPart<'_>> =
        message.parts.iter().filter_map(|part| block(part, with_reasoning)).collect();
    let is_plain = items.iter().all(|item| matches!(item, ChatRequestPart::Text { .. }));
    (!is_plain).then_some(ChatRequestContent::Items(items))
}

fn block(part: &Part, with_reasoning: bool) -> Option<ChatRequestPart<'_>> {
    match part {
        Part::Text(text) => Some(ChatRequestPart::Text { text: Cow::Borrowed(&text.text) }),
        Part::Reasoning(reasoning) if with_reasoning && !reasoning.text.is_empty() => {
            Some(ChatRequestPart::Thinking { thinking: [ChatRequestThinkingText { text: &reasoning.text }] })
        }
        Part::Opaque(OpaquePart { native, .. }) => {
            // A block that is no JSON would make the whole request unreadable.
            serde_json::from_str::<&RawValue>(native.as_str()).ok().map(ChatRequestPart::Native)
        }
        _ => None,
    }
}

/// Returns exactly the model's bytes, as long as they are JSON. Servers parse arguments again and refuse the whole
/// conversation for arguments other than JSON. Such arguments are wrapped: the model still sees its own text.
fn arguments(arguments: &str) -> Cow<'_, str> {
    let arguments = given_arguments(arguments);
    match serde_json::from_str::<&RawValue>(arguments) {
        Ok(_) => Cow::Borrowed(arguments),
        Err(_) => Cow::Owned(serde_json::json!({ "invalid_json": arguments }).to_string()),
    }
}
