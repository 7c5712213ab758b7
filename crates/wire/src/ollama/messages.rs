//! The encoder of the conversation, message by message.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhaul_core::ids::CallId;
use longhaul_core::message::{
    MediaPart, Message, ModelOrigin, Part, Role, ToolCall, ToolResult, ToolStatus, given_arguments,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::API;
use super::request::invalid;
use crate::raw_json::{self, RawObject};
use crate::{ModelRequest, ModelSettings, ProviderError, UNSUPPORTED};

/// A message in the request.
#[derive(Debug, Default, Serialize)]
pub(super) struct OllamaRequestMessage<'a> {
    role: &'static str,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<OllamaRequestToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum OllamaRequestToolCall<'a> {
    /// The call with Ollama's bytes.
    Native(&'a RawValue),
    Ours {
        id: &'a str,
        function: OllamaRequestFunctionCall<'a>,
    },
}

#[derive(Debug, Serialize)]
struct OllamaRequestFunctionCall<'a> {
    name: &'a str,
    arguments: &'a RawValue,
}

/// Returns all messages, the system prompt first.
///
/// # Errors
/// `invalid-request` for a tool result without a call in the request, and for a call without a JSON object as
/// arguments.
pub(super) fn encode<'a>(
    request: &'a ModelRequest,
    settings: &'a ModelSettings,
) -> Result<Vec<OllamaRequestMessage<'a>>, ProviderError> {
    let mut writer = OllamaInputEncoder::new(request, settings);
    for (index, message) in request.messages.iter().enumerate() {
        match message.role {
            Role::Assistant => writer.assistant(message, index)?,
            Role::User | Role::Tool => writer.user_or_tool(message)?,
        }
    }
    writer.flush();
    Ok(writer.written)
}

struct OllamaInputEncoder<'a> {
    request: &'a ModelRequest,
    target: ModelOrigin,
    written: Vec<OllamaRequestMessage<'a>>,
    /// The content of the next user message, with pictures from tools. The content waits until all results of the
    /// step are written, because no other message may stand between results.
    waiting: Option<OllamaRequestMessage<'a>>,
    /// The ids of the calls so far in Ollama's API, and the calls' tools.
    calls: BTreeMap<&'a CallId, (Option<&'a str>, &'a str)>,
    /// The index of the first message of the current turn.
    turn_start: usize,
}

impl<'a> OllamaInputEncoder<'a> {
    fn new(request: &'a ModelRequest, settings: &ModelSettings) -> Self {
        let system = OllamaRequestMessage {
            role: "system",
            content: request.system.clone(),
            ..OllamaRequestMessage::default()
        };
        // Templates count the turn from the last user message; results of tools do not start one.
        let last_user = request.messages.iter().rposition(|message| message.role == Role::User);
        Self {
            request,
            target: settings.origin(API),
            // An empty system message would replace the system prompt in the model's own Modelfile.
            written: (!request.system.is_empty()).then_some(system).into_iter().collect(),
            waiting: None,
            calls: BTreeMap::new(),
            turn_start: last_user.unwrap_or_default(),
        }
    }

    fn user_or_tool(&mut self, message: &'a Message) -> Result<(), ProviderError> {
        for part in &message.parts {
            match part {
                Part::ToolResult(result) => self.tool_result(result)?,
                Part::Text(text) => self.waiting().content.push_str(&text.text),
                Part::Image(media) => self.waiting_image(media),
                _ => self.waiting().content.push_str(UNSUPPORTED),
            }
        }
        // A tool message does not flush: more results may follow, and nothing may stand between them.
        if message.role == Role::User {
            self.flush();
        }
        Ok(())
    }

    fn waiting(&mut self) -> &mut OllamaRequestMessage<'a> {
        self.waiting
            .get_or_insert_with(|| OllamaRequestMessage { role: "user", ..OllamaRequestMessage::default() })
    }

    fn waiting_image(&mut self, media: &MediaPart) {
        // Ollama fetches no links: a picture comes with its bytes or not at all.
        let image = self.request.media.get(&media.blob.hash).map(|bytes| STANDARD.encode(bytes));
        match image {
            Some(image) => self.waiting().images.push(image),
            None => self.waiting().content.push_str(UNSUPPORTED),
        }
    }

    /// Writes the waiting content as a single user message.
    fn flush(&mut self) {
        self.written.extend(self.waiting.take());
    }

    fn tool_result(&mut self, result: &'a ToolResult) -> Result<(), ProviderError> {
        let Some((tool_call_id, tool)) = self.calls.get(&result.call_id).copied() else {
            return Err(invalid(format!("the result of call `{}` has no call before it", result.call_id)));
        };
        let mut content = String::new();
        for part in &result.content {
            match part {
                Part::Text(text) => content.push_str(&text.text),
                Part::Image(media) if self.request.media.contains_key(&media.blob.hash) => {
                    content.push_str("[the image follows in the next user message]");
                    // A tool message takes text only, so its picture follows in a user message.
                    self.waiting().content.push_str(&format!("[image given by {tool}]"));
                    self.waiting_image(media);
                }
                _ => content.push_str(UNSUPPORTED),
            }
        }
        if content.is_empty() {
            content.push_str(no_words(result.status));
        }
        self.written.push(OllamaRequestMessage {
            role: "tool",
            content,
            tool_name: Some(tool),
            tool_call_id,
            ..OllamaRequestMessage::default()
        });
        Ok(())
    }

    /// Writes an assistant message. Thinking is sent back only to its own model, and only in the current turn:
    /// templates drop the thinking of earlier turns.
    fn assistant(&mut self, message: &'a Message, index: usize) -> Result<(), ProviderError> {
        self.flush();
        let own = raw_json::is_own(message, &self.target);
        let mut written = OllamaRequestMessage { role: "assistant", ..OllamaRequestMessage::default() };
        for part in &message.parts {
            match part {
                Part::Text(text) => written.content.push_str(&text.text),
                Part::Reasoning(reasoning) if own && index > self.turn_start => {
                    written.thinking.get_or_insert_default().push_str(&reasoning.text);
                }
                Part::Reasoning(_) | Part::Opaque(_) => {}
                Part::ToolCall(call) => written.tool_calls.push(self.call(call, own)?),
                Part::Image(_) | Part::File(_) => written.content.push_str(UNSUPPORTED),
                _ => return Err(raw_json::misplaced(part)),
            }
        }
        self.written.push(written);
        Ok(())
    }

    /// Returns Ollama's own call unchanged, or another model's call with our id, repeated by the result.
    fn call(&mut self, call: &'a ToolCall, own: bool) -> Result<OllamaRequestToolCall<'a>, ProviderError> {
        // The original bytes may have fields that this encoder does not know, such as a call's index.
        let native =
            call.native.as_ref().filter(|_| own).and_then(|raw| serde_json::from_str(raw.as_str()).ok());
        if let Some(native) = native {
            self.calls.insert(&call.call_id, (call.provider_id.as_deref(), &call.name));
            return Ok(OllamaRequestToolCall::Native(native));
        }
        let id = call.call_id.as_str();
        self.calls.insert(&call.call_id, (Some(id), &call.name));
        // A model may call a tool without arguments by an empty text, which is no JSON.
        let given = given_arguments(&call.arguments);
        // Ollama parses arguments into an object, and refuses the whole request if they are none.
        let arguments = RawObject::parse(given).and(serde_json::from_str(given).ok());
        let arguments = arguments
            .ok_or_else(|| invalid(format!("the arguments of call `{id}` are not a JSON object")))?;
        Ok(OllamaRequestToolCall::Ours {
            id,
            function: OllamaRequestFunctionCall { name: &call.name, arguments },
        })
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
