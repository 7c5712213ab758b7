//! Lists of Chat Completions messages.

use longhaul_core::ids::{CallId, Millis};
use longhaul_core::message::{
    ModelOrigin, ModelStopReason, Part, RawJson, ReasoningPart, ToolCall, ToolStatus,
};
use longhaul_core::usage::Usage;
use longhaul_wire::usage::chat_usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::assemble::{ImportMetadata, assemble};
use super::blocks::{BlockAuthor, arguments, parts, user_parts};
use super::item::{ImportItem, ImportItemKind, ImportedAnswer, ImportedToolResult};
use super::sink::ImportSink;
use super::{ImportError, ImportFormat, ImportPosition, ImportedSession, time, unreadable};

/// A request, or a request together with its response.
#[derive(Default, Deserialize)]
struct LoggedChatRequest<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    /// The messages with calls and results, if `messages` has only text forms.
    #[serde(borrow)]
    raw_messages: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    kwargs: Option<&'a RawValue>,
    model: Option<String>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
}

/// Settings of a request, logged beside the messages.
#[derive(Deserialize)]
struct LoggedChatSettings<'a> {
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct LoggedChatResponse<'a> {
    model: Option<String>,
    #[serde(borrow)]
    created: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Vec<LoggedChatChoice<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct LoggedChatChoice<'a> {
    #[serde(borrow)]
    message: &'a RawValue,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "a message")]
struct LoggedChatMessage<'a> {
    role: String,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    #[serde(borrow)]
    reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<LoggedChatToolCall<'a>>>,
    #[serde(borrow)]
    function_call: Option<LoggedChatFunction<'a>>,
    tool_call_id: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct LoggedChatToolCall<'a> {
    id: Option<String>,
    #[serde(borrow)]
    function: Option<LoggedChatFunction<'a>>,
    #[serde(borrow)]
    custom: Option<LoggedChatFunction<'a>>,
}

#[derive(Deserialize)]
struct LoggedChatFunction<'a> {
    #[serde(default)]
    name: String,
    #[serde(borrow, alias = "input")]
    arguments: Option<&'a RawValue>,
}

pub(super) fn fits(bytes: &[u8]) -> bool {
    serde_json::from_slice::<LoggedChatRequest<'_>>(bytes).is_ok()
}

pub(super) fn read(bytes: &[u8], at: Millis) -> Result<ImportedSession, ImportError> {
    let whole = unreadable(ImportPosition::Message(0));
    let request = if bytes.first() == Some(&b'[') {
        LoggedChatRequest {
            messages: serde_json::from_slice(bytes).map_err(not_messages)?,
            ..LoggedChatRequest::default()
        }
    } else {
        serde_json::from_slice::<LoggedChatRequest<'_>>(bytes).map_err(whole)?
    };
    let mut list = ChatMessagesImporter::new(request.model.clone());
    list.tools = tools(&request);
    let messages = structured(&request, &mut list.sink);
    for (index, message) in messages.iter().enumerate() {
        list.add(ImportPosition::Message(index + 1), message)?;
    }
    let place = ImportPosition::Message(messages.len() + 1);
    match request.response.map(|raw| serde_json::from_str::<Option<LoggedChatResponse<'_>>>(raw.get())) {
        None | Some(Ok(None)) => {}
        Some(Ok(Some(response))) => {
            let at = request.timestamp.and_then(time::recorded);
            list.add_response(place, at, response)?;
        }
        Some(Err(_)) => list.sink.warn(place, "a response of unknown form was left out"),
    }
    list.finish(ImportFormat::OpenaiMessages, at, None)
}

/// Returns the messages, with real calls and results where the log has both forms.
fn structured<'a>(request: &LoggedChatRequest<'a>, sink: &mut ImportSink) -> Vec<&'a RawValue> {
    let raw = request.raw_messages.and_then(|raw| serde_json::from_str::<Vec<&'a RawValue>>(raw.get()).ok());
    let Some(raw) = raw.filter(|raw| !raw.is_empty()) else { return request.messages.clone() };
    sink.warn(
        None,
        "the tools, calls and results went out as text; they are shown as they were before that, and the \
         reported usage is that of the text",
    );
    raw
}

/// Returns the tool schemas, where there are any.
fn tools(request: &LoggedChatRequest<'_>) -> Option<String> {
    let settings =
        request.kwargs.and_then(|raw| serde_json::from_str::<LoggedChatSettings<'_>>(raw.get()).ok());
    [request.tools, settings.and_then(|settings| settings.tools)].into_iter().flatten().find_map(list_text)
}

/// Returns the text of a non-empty JSON list.
pub(super) fn list_text(raw: &RawValue) -> Option<String> {
    let list = serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok()?;
    (!list.is_empty()).then(|| raw.get().to_owned())
}

fn not_messages(error: serde_json::Error) -> ImportError {
    ImportError::UnknownFormat(format!("not a list of messages: {error}"))
}

/// A conversation during reading.
pub(super) struct ChatMessagesImporter {
    model: Option<String>,
    system: Vec<String>,
    /// The tool schemas, as JSON text.
    pub(super) tools: Option<String>,
    pub(super) items: Vec<ImportItem>,
    pub(super) sink: ImportSink,
}

impl ChatMessagesImporter {
    pub(super) fn new(model: Option<String>) -> Self {
        Self { model, system: Vec::new(), tools: None, items: Vec::new(), sink: ImportSink::default() }
    }

    pub(super) fn add(&mut self, place: ImportPosition, raw: &RawValue) -> Result<(), ImportError> {
        let recorded: LoggedChatMessage<'_> = serde_json::from_str(raw.get()).map_err(unreadable(place))?;
        let kind = match recorded.role.as_str() {
            "system" | "developer" => return self.system(place, &recorded),
            "user" => return self.user(place, recorded.content),
            "assistant" => ImportItemKind::Assistant(Box::new(self.said(place, recorded))),
            // The role `function` answers the older `function_call`, and names the tool in place of a call.
            "tool" | "function" => ImportItemKind::Result(ImportedToolResult {
                content: self.content(place, &recorded, BlockAuthor::Other),
                call: recorded.tool_call_id,
                tool: recorded.name,
                status: ToolStatus::Completed,
            }),
            other => {
                let role: String = other.chars().take(60).collect();
                self.sink.warn(place, format!("a message of unknown role `{role}` was kept as a note"));
                ImportItemKind::Note(self.content(place, &recorded, BlockAuthor::Other))
            }
        };
        self.items.push(ImportItem { place, at: None, kind });
        Ok(())
    }

    fn user(&mut self, place: ImportPosition, content: Option<&RawValue>) -> Result<(), ImportError> {
        let (answers, typed) = user_parts(content, place, &mut self.sink);
        let mut kinds: Vec<ImportItemKind> = answers.into_iter().map(ImportItemKind::Result).collect();
        // A message that consists of results only was not typed.
        if kinds.is_empty() || !typed.is_empty() {
            kinds.push(ImportItemKind::Typed(typed));
        }
        self.items.extend(kinds.into_iter().map(|kind| ImportItem { place, at: None, kind }));
        Ok(())
    }

    /// Adds a logged response. `at` is the time of the log; without a logged time, the response's own time counts.
    fn add_response(
        &mut self,
        place: ImportPosition,
        at: Option<Millis>,
        response: LoggedChatResponse<'_>,
    ) -> Result<(), ImportError> {
        let at = at.or_else(|| response.created.and_then(time::recorded));
        // The response names the model that answered, which may differ from the requested one.
        self.model = response.model.or(self.model.take());
        let Some(choice) = response.choices.first() else { return Ok(()) };
        self.add(place, choice.message)?;
        if let Some(ImportItem { kind: ImportItemKind::Assistant(said), at: answered, .. }) =
            self.items.last_mut()
        {
            // Only a logged response has a time: the format gives none to messages.
            *answered = at;
            said.usage = response.usage.and_then(usage);
            if choice.finish_reason.as_deref() == Some("length") {
                said.finish = ModelStopReason::Length;
            }
        }
        Ok(())
    }

    pub(super) fn finish(
        self,
        format: ImportFormat,
        at: Millis,
        title: Option<String>,
    ) -> Result<ImportedSession, ImportError> {
        if self.items.is_empty() {
            return Err(ImportError::Empty);
        }
        let system_prompt = (!self.system.is_empty()).then(|| self.system.join("\n\n"));
        Ok(assemble(
            self.items,
            ImportMetadata { format, at, title, system_prompt, tools: self.tools },
            self.sink,
        ))
    }

    /// Keeps a system message. The first ones are the system prompt; a later system message becomes a note in place.
    fn system(&mut self, place: ImportPosition, recorded: &LoggedChatMessage<'_>) -> Result<(), ImportError> {
        let parts = self.content(place, recorded, BlockAuthor::Other);
        if self.items.is_empty() {
            self.system.push(parts.iter().filter_map(Part::as_text).collect());
        } else {
            self.sink.warn(place, "a system message in the middle was kept as a note");
            self.items.push(ImportItem { place, at: None, kind: ImportItemKind::SystemMessage(parts) });
        }
        Ok(())
    }

    fn content(
        &mut self,
        place: ImportPosition,
        recorded: &LoggedChatMessage<'_>,
        speaker: BlockAuthor,
    ) -> Vec<Part> {
        parts(recorded.content, speaker, place, &mut self.sink)
    }

    fn said(&mut self, place: ImportPosition, recorded: LoggedChatMessage<'_>) -> ImportedAnswer {
        let mut said: Vec<Part> = reasoning(&recorded).into_iter().collect();
        said.extend(self.content(place, &recorded, BlockAuthor::Assistant));
        said.extend(recorded.refusal.filter(|text| !text.is_empty()).map(Part::text));
        let called = recorded.tool_calls.unwrap_or_default().into_iter();
        let called = called.filter_map(|call| Some((call.id, call.function.or(call.custom)?)));
        let legacy = recorded.function_call.map(|function| (None, function));
        // `function_call` is the older form of one call, without an id.
        said.extend(called.chain(legacy).map(|(id, function)| Part::ToolCall(tool_call(id, &function))));
        let calls = said.iter().any(|part| matches!(part, Part::ToolCall(_)));
        let api = "imported:openai-chat".to_owned();
        let model = self.model.clone();
        ImportedAnswer {
            parts: said,
            origin: model.map(|model| ModelOrigin { provider: "imported".to_owned(), api, model }),
            finish: if calls { ModelStopReason::ToolCalls } else { ModelStopReason::Stop },
            cut: None,
            usage: None,
            error: None,
        }
    }
}

fn reasoning(recorded: &LoggedChatMessage<'_>) -> Option<Part> {
    let native = recorded.reasoning_details.map(RawValue::get).filter(|raw| *raw != "null" && *raw != "[]");
    let text = recorded.reasoning_content.clone().unwrap_or_default();
    let native = native.map(|raw| RawJson(raw.to_owned()));
    (!text.is_empty() || native.is_some()).then_some(Part::Reasoning(ReasoningPart { text, native }))
}

fn tool_call(id: Option<String>, function: &LoggedChatFunction<'_>) -> ToolCall {
    ToolCall {
        call_id: CallId::new(""),
        name: function.name.clone(),
        arguments: arguments(function.arguments),
        provider_id: id,
        native: None,
    }
}

/// Decodes recorded usage. Zeros come from programs without counts, and are no report.
fn usage(raw: &RawValue) -> Option<Usage> {
    chat_usage(raw.get()).filter(|usage| usage.input_tokens > 0)
}
