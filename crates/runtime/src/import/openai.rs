//! Lists of Chat Completions messages.

use longhaul_core::ids::{CallId, Millis};
use longhaul_core::message::{Finish, Origin, Part, RawJson, Reasoning, ToolCall, ToolStatus};
use longhaul_core::usage::Usage;
use longhaul_wire::usage::chat_usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::assemble::{Head, assemble};
use super::blocks::{Speaker, arguments, parts, user_parts};
use super::item::{Answered, Item, ItemKind, Said};
use super::sink::Sink;
use super::{Format, ImportError, Imported, Place, time, unreadable};

/// A request, or a request with its response beside it.
#[derive(Default, Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    /// The same messages with calls and results, where `messages` has them as text.
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

/// Settings of a request that a log keeps beside its messages.
#[derive(Deserialize)]
struct Settings<'a> {
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
    model: Option<String>,
    #[serde(borrow)]
    created: Option<&'a RawValue>,
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

pub(super) fn fits(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Request<'_>>(bytes).is_ok()
}

pub(super) fn read(bytes: &[u8], at: Millis) -> Result<Imported, ImportError> {
    let whole = unreadable(Place::Message(0));
    let request = if bytes.first() == Some(&b'[') {
        Request { messages: serde_json::from_slice(bytes).map_err(not_messages)?, ..Request::default() }
    } else {
        serde_json::from_slice::<Request<'_>>(bytes).map_err(whole)?
    };
    let mut list = List::new(request.model.clone());
    list.tools = tools(&request);
    let messages = structured(&request, &mut list.sink);
    for (index, message) in messages.iter().enumerate() {
        list.add(Place::Message(index + 1), message)?;
    }
    let place = Place::Message(messages.len() + 1);
    match request.response.map(|raw| serde_json::from_str::<Option<Response<'_>>>(raw.get())) {
        None | Some(Ok(None)) => {}
        Some(Ok(Some(response))) => {
            let at = request.timestamp.and_then(time::recorded);
            list.add_response(place, at, response)?;
        }
        Some(Err(_)) => list.sink.warn(place, "a response of unknown form was left out"),
    }
    list.finish(Format::OpenaiMessages, at, None)
}

/// The messages, with real calls and results where the log has both forms.
fn structured<'a>(request: &Request<'a>, sink: &mut Sink) -> Vec<&'a RawValue> {
    let raw = request.raw_messages.and_then(|raw| serde_json::from_str::<Vec<&'a RawValue>>(raw.get()).ok());
    let Some(raw) = raw.filter(|raw| !raw.is_empty()) else { return request.messages.clone() };
    sink.warn(
        None,
        "the tools, calls and results went out as text; they are shown as they were before that, and the \
         reported usage is that of the text",
    );
    raw
}

/// The tool schemas, where there are any.
fn tools(request: &Request<'_>) -> Option<String> {
    let settings = request.kwargs.and_then(|raw| serde_json::from_str::<Settings<'_>>(raw.get()).ok());
    [request.tools, settings.and_then(|settings| settings.tools)].into_iter().flatten().find_map(list_text)
}

/// The text of a JSON list that is not empty.
pub(super) fn list_text(raw: &RawValue) -> Option<String> {
    let list = serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok()?;
    (!list.is_empty()).then(|| raw.get().to_owned())
}

fn not_messages(error: serde_json::Error) -> ImportError {
    ImportError::UnknownFormat(format!("not a list of messages: {error}"))
}

/// A conversation as it is read.
pub(super) struct List {
    model: Option<String>,
    system: Vec<String>,
    /// The tool schemas, as JSON text.
    pub(super) tools: Option<String>,
    pub(super) items: Vec<Item>,
    pub(super) sink: Sink,
}

impl List {
    pub(super) fn new(model: Option<String>) -> Self {
        Self { model, system: Vec::new(), tools: None, items: Vec::new(), sink: Sink::default() }
    }

    pub(super) fn add(&mut self, place: Place, raw: &RawValue) -> Result<(), ImportError> {
        let recorded: Recorded<'_> = serde_json::from_str(raw.get()).map_err(unreadable(place))?;
        let kind = match recorded.role.as_str() {
            "system" | "developer" => return self.system(place, &recorded),
            "user" => return self.user(place, recorded.content),
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

    fn user(&mut self, place: Place, content: Option<&RawValue>) -> Result<(), ImportError> {
        let (answers, typed) = user_parts(content, place, &mut self.sink);
        let mut kinds: Vec<ItemKind> = answers.into_iter().map(ItemKind::Result).collect();
        if kinds.is_empty() || !typed.is_empty() {
            kinds.push(ItemKind::Typed(typed));
        }
        self.items.extend(kinds.into_iter().map(|kind| Item { place, at: None, kind }));
        Ok(())
    }

    /// `at` is the time of the log; without one, the response's own counts.
    fn add_response(
        &mut self,
        place: Place,
        at: Option<Millis>,
        response: Response<'_>,
    ) -> Result<(), ImportError> {
        let at = at.or_else(|| response.created.and_then(time::recorded));
        self.model = response.model.or(self.model.take());
        let Some(choice) = response.choices.first() else { return Ok(()) };
        self.add(place, choice.message)?;
        if let Some(Item { kind: ItemKind::Assistant(said), at: answered, .. }) = self.items.last_mut() {
            *answered = at;
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
        Ok(assemble(self.items, Head { format, at, title, system_prompt, tools: self.tools }, self.sink))
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

/// Decodes recorded usage. Programs that count nothing write zeros, which are no report.
fn usage(raw: &RawValue) -> Option<Usage> {
    chat_usage(raw.get()).filter(|usage| usage.input_tokens > 0)
}
