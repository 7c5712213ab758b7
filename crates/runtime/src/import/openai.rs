//! Lists of Chat Completions messages.

use longhaul_core::ids::{CallId, Millis};
use longhaul_core::message::{Finish, Origin, Part, RawJson, Reasoning, ToolCall, ToolStatus};
use longhaul_core::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::assemble::{Head, assemble};
use super::blocks::{Speaker, arguments, parts};
use super::item::{Answered, Item, ItemKind, Said};
use super::sink::Sink;
use super::{Format, ImportError, Imported, Place, unreadable};

/// A request, or a request with its response beside it.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    model: Option<String>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
    model: Option<String>,
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: &'a RawValue,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(expecting = "a message")]
struct Recorded<'a> {
    role: String,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    #[serde(borrow)]
    reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<Call<'a>>>,
    #[serde(borrow)]
    function_call: Option<Function<'a>>,
    tool_call_id: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Call<'a> {
    id: Option<String>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
    #[serde(borrow)]
    custom: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(default)]
    name: String,
    #[serde(borrow, alias = "input")]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Spent {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

pub(super) fn fits(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Request<'_>>(bytes).is_ok()
}

pub(super) fn read(bytes: &[u8], at: Millis) -> Result<Imported, ImportError> {
    let whole = unreadable(Place::Message(0));
    let request = if bytes.first() == Some(&b'[') {
        Request {
            messages: serde_json::from_slice(bytes).map_err(not_messages)?,
            model: None,
            response: None,
        }
    } else {
        serde_json::from_slice(bytes).map_err(whole)?
    };
    let mut list = List::new(request.model);
    for (index, message) in request.messages.iter().enumerate() {
        list.add(Place::Message(index + 1), message)?;
    }
    if let Some(response) = request.response.and_then(|raw| serde_json::from_str(raw.get()).ok()) {
        list.add_response(Place::Message(request.messages.len() + 1), response)?;
    }
    list.finish(Format::OpenaiMessages, at, None)
}

fn not_messages(error: serde_json::Error) -> ImportError {
    ImportError::UnknownFormat(format!("not a list of messages: {error}"))
}

/// A conversation as it is read.
pub(super) struct List {
    model: Option<String>,
    system: Vec<String>,
    items: Vec<Item>,
    sink: Sink,
}

impl List {
    pub(super) fn new(model: Option<String>) -> Self {
        Self { model, system: Vec::new(), items: Vec::new(), sink: Sink::default() }
    }

    pub(super) fn add(&mut self, place: Place, raw: &RawValue) -> Result<(), ImportError> {
        let recorded: Recorded<'_> = serde_json::from_str(raw.get()).map_err(unreadable(place))?;
        let kind = match recorded.role.as_str() {
            "system" | "developer" => return self.system(place, &recorded),
            "user" => ItemKind::Typed(self.content(place, &recorded, Speaker::Other)),
            "assistant" => ItemKind::Assistant(Box::new(self.said(place, recorded))),
            "tool" | "function" => ItemKind::Result(Answered {
                content: self.content(place, &recorded, Speaker::Other),
                call: recorded.tool_call_id,
                tool: recorded.name,
                status: ToolStatus::Completed,
            }),
            other => {
                let role: String = other.chars().take(60).collect();
                self.sink.warn(place, format!("a message of unknown role `{role}` was kept as a note"));
                ItemKind::Note(self.content(place, &recorded, Speaker::Other))
            }
        };
        self.items.push(Item { place, at: None, kind });
        Ok(())
    }

    fn add_response(&mut self, place: Place, response: Response<'_>) -> Result<(), ImportError> {
        self.model = response.model.or(self.model.take());
        let Some(choice) = response.choices.first() else { return Ok(()) };
        self.add(place, choice.message)?;
        if let Some(Item { kind: ItemKind::Assistant(said), .. }) = self.items.last_mut() {
            said.usage = response.usage.and_then(usage);
            if choice.finish_reason.as_deref() == Some("length") {
                said.finish = Finish::Length;
            }
        }
        Ok(())
    }

    pub(super) fn finish(
        self,
        format: Format,
        at: Millis,
        title: Option<String>,
    ) -> Result<Imported, ImportError> {
        if self.items.is_empty() {
            return Err(ImportError::Empty);
        }
        let system_prompt = (!self.system.is_empty()).then(|| self.system.join("\n\n"));
        Ok(assemble(self.items, Head { format, at, title, system_prompt }, self.sink))
    }

    /// The system prompt comes first; what comes later under that name stands where it was said.
    fn system(&mut self, place: Place, recorded: &Recorded<'_>) -> Result<(), ImportError> {
        let parts = self.content(place, recorded, Speaker::Other);
        if self.items.is_empty() {
            self.system.push(parts.iter().filter_map(Part::as_text).collect());
        } else {
            self.sink.warn(place, "a system message in the middle was kept as a note");
            self.items.push(Item { place, at: None, kind: ItemKind::Note(parts) });
        }
        Ok(())
    }

    fn content(&mut self, place: Place, recorded: &Recorded<'_>, speaker: Speaker) -> Vec<Part> {
        parts(recorded.content, speaker, place, &mut self.sink)
    }

    fn said(&mut self, place: Place, recorded: Recorded<'_>) -> Said {
        let mut said: Vec<Part> = reasoning(&recorded).into_iter().collect();
        said.extend(self.content(place, &recorded, Speaker::Assistant));
        said.extend(recorded.refusal.filter(|text| !text.is_empty()).map(Part::text));
        let called = recorded.tool_calls.unwrap_or_default().into_iter();
        let called = called.filter_map(|call| Some((call.id, call.function.or(call.custom)?)));
        let legacy = recorded.function_call.map(|function| (None, function));
        said.extend(called.chain(legacy).map(|(id, function)| Part::ToolCall(tool_call(id, &function))));
        let calls = said.iter().any(|part| matches!(part, Part::ToolCall(_)));
        let api = "imported:openai-chat".to_owned();
        let origin = |model: &String| Origin { provider: "imported".to_owned(), api, model: model.clone() };
        Said {
            parts: said,
            origin: self.model.as_ref().map(origin),
            finish: if calls { Finish::ToolCalls } else { Finish::Stop },
            cut: None,
            usage: None,
            error: None,
        }
    }
}

fn reasoning(recorded: &Recorded<'_>) -> Option<Part> {
    let native = recorded.reasoning_details.map(RawValue::get).filter(|raw| *raw != "null" && *raw != "[]");
    let text = recorded.reasoning_content.clone().unwrap_or_default();
    let native = native.map(|raw| RawJson(raw.to_owned()));
    (!text.is_empty() || native.is_some()).then_some(Part::Reasoning(Reasoning { text, native }))
}

fn tool_call(id: Option<String>, function: &Function<'_>) -> ToolCall {
    ToolCall {
        call_id: CallId::new(""),
        name: function.name.clone(),
        arguments: arguments(function.arguments),
        provider_id: id,
        native: None,
    }
}

fn usage(raw: &RawValue) -> Option<Usage> {
    let spent: Spent = serde_json::from_str(raw.get()).ok()?;
    (spent.prompt_tokens > 0).then(|| Usage {
        input_tokens: spent.prompt_tokens,
        output_tokens: spent.completion_tokens,
        reasoning_tokens: spent
            .completion_tokens_details
            .and_then(|d| d.reasoning_tokens)
            .unwrap_or_default(),
        cache_read_tokens: spent.prompt_tokens_details.and_then(|d| d.cached_tokens).unwrap_or_default(),
        cache_write_tokens: 0,
        raw: Some(RawJson(raw.get().to_owned())),
    })
}
