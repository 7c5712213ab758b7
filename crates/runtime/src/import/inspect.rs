//! Evaluation logs of Inspect: each sample has messages and the events of a run.
//!
//! A long text may stand under `attachments` with a reference in the text's place. Times, usage and tool schemas are in
//! the events.

use std::borrow::Cow;
use std::collections::HashMap;

use longhaul_core::ids::{CallId, Millis};
use longhaul_core::message::{ModelOrigin, ModelStopReason, Part, RawJson, ToolCall, ToolStatus};
use longhaul_core::usage::Usage;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::blocks::{BlockAuthor, arguments, parts};
use super::item::{ImportItem, ImportItemKind, ImportedAnswer, ImportedToolResult};
use super::openai::{ChatMessagesImporter, list_text};
use super::{ImportError, ImportFormat, ImportPosition, ImportedSession, raw_identifier, time, unreadable};

/// The maximum total of insertions of a sample's texts: a small file must not fill the memory.
const MAX_REPEATS: usize = 16;

#[derive(Deserialize)]
struct InspectLog<'a> {
    eval: InspectEval,
    #[serde(borrow)]
    samples: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct InspectEval {
    task: String,
}

#[derive(Deserialize)]
#[serde(expecting = "a sample")]
struct InspectSample<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    epoch: Option<&'a RawValue>,
    #[serde(borrow, default)]
    messages: Vec<&'a RawValue>,
    #[serde(borrow)]
    events: Option<Vec<&'a RawValue>>,
    /// Texts as JSON, by their hash.
    #[serde(borrow)]
    attachments: Option<HashMap<String, &'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(expecting = "a message")]
struct InspectMessage<'a> {
    id: Option<String>,
    role: String,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<InspectToolCall<'a>>>,
    #[serde(borrow)]
    tool_call_id: Option<&'a RawValue>,
    function: Option<String>,
    error: Option<InspectToolError>,
    model: Option<String>,
}

/// The fields in common with a Chat Completions message.
#[derive(Serialize)]
struct InspectChatFields<'a> {
    role: &'a str,
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct InspectToolCall<'a> {
    id: Option<String>,
    function: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct InspectToolError {
    message: Option<String>,
}

#[derive(Deserialize)]
struct InspectEvent<'a> {
    event: String,
    timestamp: Option<String>,
    completed: Option<String>,
    /// The call of a tool event.
    id: Option<String>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<InspectModelOutput<'a>>,
}

#[derive(Deserialize)]
struct InspectModelOutput<'a> {
    choices: Vec<InspectChoice>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct InspectChoice {
    message: InspectMessageId,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct InspectMessageId {
    id: Option<String>,
}

#[derive(Deserialize)]
struct InspectUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    total_tokens: Option<u64>,
    input_tokens_cache_read: Option<u64>,
    input_tokens_cache_write: Option<u64>,
    reasoning_tokens: Option<u64>,
}

pub(super) fn fits(bytes: &[u8]) -> bool {
    serde_json::from_slice::<InspectLog<'_>>(bytes).is_ok()
}

pub(super) fn read(bytes: &[u8], at: Millis) -> Result<Vec<ImportedSession>, ImportError> {
    let log: InspectLog<'_> = serde_json::from_slice(bytes).map_err(unreadable(ImportPosition::Run(0, 0)))?;
    let mut sessions = Vec::new();
    let mut empty = 0;
    for (number, raw) in (1..).zip(log.samples.unwrap_or_default()) {
        let sample: InspectSample<'_> =
            serde_json::from_str(raw.get()).map_err(unreadable(ImportPosition::Run(number, 0)))?;
        match conversation(number, &sample, &log.eval.task, empty, at) {
            // A sample that was not run must not cost the others.
            Err(ImportError::Empty) => empty += 1,
            read => {
                sessions.push(read?);
                empty = 0;
            }
        }
    }
    if sessions.is_empty() { Err(ImportError::Empty) } else { Ok(sessions) }
}

/// Reads the conversation of a sample; `empty` samples precede it.
fn conversation(
    number: usize,
    sample: &InspectSample<'_>,
    task: &str,
    empty: usize,
    at: Millis,
) -> Result<ImportedSession, ImportError> {
    let mut reader = InspectImporter {
        list: ChatMessagesImporter::new(None),
        course: InspectTimeline::of(sample.events.as_deref().unwrap_or_default()),
        attachments: InspectAttachments::of(sample.attachments.as_ref()),
    };
    if empty > 0 {
        reader.list.sink.warn(None, format!("samples without messages: {empty} left out before this one"));
    }
    for (index, message) in sample.messages.iter().enumerate() {
        reader.message(ImportPosition::Run(number, index + 1), message)?;
    }
    let title =
        format!("{task}, sample {}, epoch {}", raw_identifier(sample.id), raw_identifier(sample.epoch));
    reader.finish(at, title)
}

/// The facts from a sample's events.
#[derive(Default)]
struct InspectTimeline<'a> {
    began: Option<Millis>,
    /// The answers by their id.
    answers: HashMap<String, InspectModelAnswer>,
    /// The time at which each call ended, by the call's id.
    calls: HashMap<String, Millis>,
    tools: Option<&'a RawValue>,
}

struct InspectModelAnswer {
    at: Option<Millis>,
    usage: Option<Usage>,
    stop: Option<String>,
}

impl<'a> InspectTimeline<'a> {
    /// Reads the events of a sample. Events of unknown form are skipped.
    fn of(events: &[&'a RawValue]) -> Self {
        let mut course = Self::default();
        for event in events.iter().filter_map(|raw| serde_json::from_str::<InspectEvent<'a>>(raw.get()).ok())
        {
            let began = event.timestamp.as_deref().and_then(time::rfc3339);
            // An answer stands in the log at its end; `timestamp` is the beginning of the event.
            let at = event.completed.as_deref().and_then(time::rfc3339).or(began);
            match event.event.as_str() {
                "sample_init" => course.began = began,
                "tool" => course.calls.extend(event.id.zip(at)),
                "model" => {
                    // The newest list counts, as it does in a session.
                    course.tools = event.tools.filter(|raw| list_text(raw).is_some()).or(course.tools);
                    course.answer(event.output, at);
                }
                _ => {}
            }
        }
        course
    }

    fn answer(&mut self, output: Option<InspectModelOutput<'_>>, at: Option<Millis>) {
        let Some(output) = output else { return };
        let usage = output.usage.and_then(usage);
        if let Some(InspectChoice { message: InspectMessageId { id: Some(id) }, stop_reason: stop }) =
            output.choices.into_iter().next()
        {
            self.answers.insert(id, InspectModelAnswer { at, usage, stop });
        }
    }
}

/// Decodes usage. Some programs count cached input in addition to the rest, some within the rest; the total tells the
/// two apart.
fn usage(raw: &RawValue) -> Option<Usage> {
    let spent: InspectUsage = serde_json::from_str(raw.get()).ok()?;
    let read = spent.input_tokens_cache_read.unwrap_or_default();
    let written = spent.input_tokens_cache_write.unwrap_or_default();
    let beside = spent.input_tokens.saturating_add(read).saturating_add(written);
    let input = match spent.total_tokens {
        Some(total) if total >= beside.saturating_add(spent.output_tokens) => beside,
        _ => spent.input_tokens,
    };
    (input > 0 || spent.output_tokens > 0).then(|| Usage {
        input_tokens: input,
        output_tokens: spent.output_tokens,
        reasoning_tokens: spent.reasoning_tokens.unwrap_or_default(),
        cache_read_tokens: read,
        cache_write_tokens: written,
        raw: Some(RawJson(raw.get().to_owned())),
    })
}

/// The texts of the sample under `attachments`.
struct InspectAttachments<'a> {
    texts: Option<&'a HashMap<String, &'a RawValue>>,
    /// The remaining bytes for insertions.
    left: usize,
}

impl<'a> InspectAttachments<'a> {
    fn of(texts: Option<&'a HashMap<String, &'a RawValue>>) -> Self {
        let bytes: usize = texts.into_iter().flat_map(HashMap::values).map(|raw| raw.get().len()).sum();
        Self { texts, left: bytes.saturating_mul(MAX_REPEATS) }
    }

    /// Returns the JSON with replaced references, and the number of unresolved references.
    fn fill<'j>(&mut self, json: &'j str) -> (Cow<'j, str>, usize) {
        const OPENING: &str = "\"attachment://";
        let mut filled = String::new();
        let (mut done, mut missing) = (0, 0);
        for (start, _) in json.match_indices(OPENING) {
            let rest = json.get(start + OPENING.len()..).unwrap_or_default();
            let Some(end) = rest.find(|c: char| !c.is_ascii_alphanumeric()) else { continue };
            let (name, after) = rest.split_at(end);
            // An escaped mark belongs to a longer text, and is no reference.
            if !after.starts_with('"') || json.get(..start).is_some_and(|before| before.ends_with('\\')) {
                continue;
            }
            let text = self.texts.and_then(|texts| texts.get(name)).map(|raw| raw.get());
            // A reference beyond the limit stays as it is, and is reported like one that has no text.
            let Some(text) = text.filter(|text| text.len() <= self.left) else {
                missing += 1;
                continue;
            };
            self.left -= text.len();
            filled.push_str(json.get(done..start).unwrap_or_default());
            filled.push_str(text);
            done = start + OPENING.len() + name.len() + 1;
        }
        if done == 0 {
            return (Cow::Borrowed(json), missing);
        }
        filled.push_str(json.get(done..).unwrap_or_default());
        (Cow::Owned(filled), missing)
    }
}

struct InspectImporter<'a> {
    list: ChatMessagesImporter,
    course: InspectTimeline<'a>,
    attachments: InspectAttachments<'a>,
}

impl InspectImporter<'_> {
    fn message(&mut self, place: ImportPosition, raw: &RawValue) -> Result<(), ImportError> {
        let (json, missing) = self.attachments.fill(raw.get());
        if missing > 0 {
            self.list.sink.warn(place, "an attachment is not in the file; its name stands for it");
        }
        let recorded: InspectMessage<'_> = serde_json::from_str(&json).map_err(unreadable(place))?;
        let (at, kind) = match recorded.role.as_str() {
            "assistant" => self.said(place, recorded),
            "tool" => self.answered(place, recorded),
            _ => {
                let before = self.list.items.len();
                let message = InspectChatFields { role: &recorded.role, content: recorded.content };
                let message = serde_json::value::to_raw_value(&message).map_err(unreadable(place))?;
                self.list.add(place, &message)?;
                // Of these messages only the first has a known time: the beginning of the sample.
                if before == 0
                    && let Some(item) = self.list.items.first_mut()
                {
                    item.at = self.course.began;
                }
                return Ok(());
            }
        };
        self.list.items.push(ImportItem { place, at, kind });
        Ok(())
    }

    fn said(
        &mut self,
        place: ImportPosition,
        recorded: InspectMessage<'_>,
    ) -> (Option<Millis>, ImportItemKind) {
        let mut said = parts(recorded.content, BlockAuthor::Assistant, place, &mut self.list.sink);
        let calls = recorded.tool_calls.unwrap_or_default();
        let called = !calls.is_empty();
        said.extend(calls.into_iter().map(call));
        // Removed, so that the answers left at the end are those of models beside the conversation.
        let answer = recorded.id.and_then(|id| self.course.answers.remove(&id));
        let (at, usage, stop) = match answer {
            Some(answer) => (answer.at, answer.usage, answer.stop),
            None => (None, None, None),
        };
        let finish = match stop.as_deref() {
            Some("max_tokens" | "model_length") => ModelStopReason::Length,
            Some("content_filter") => ModelStopReason::ContentFilter,
            // Some providers report `stop` for an answer that calls tools.
            _ if called => ModelStopReason::ToolCalls,
            _ => ModelStopReason::Stop,
        };
        let api = "imported:inspect".to_owned();
        let origin = recorded.model.map(|model| ModelOrigin { provider: "imported".to_owned(), api, model });
        let said = ImportedAnswer { parts: said, origin, finish, cut: None, usage, error: None };
        (at, ImportItemKind::Assistant(Box::new(said)))
    }

    /// Converts the result of a call. If the call failed, the model was shown the error in place of the content.
    fn answered(
        &mut self,
        place: ImportPosition,
        recorded: InspectMessage<'_>,
    ) -> (Option<Millis>, ImportItemKind) {
        let failed = recorded.error.is_some();
        let content = match recorded.error.and_then(|error| error.message).filter(|text| !text.is_empty()) {
            Some(text) => vec![Part::text(text)],
            None => parts(recorded.content, BlockAuthor::Other, place, &mut self.list.sink),
        };
        let call = recorded.tool_call_id.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        // A result has no time of its own. The event of its call knows when it ended.
        let at = call.as_ref().and_then(|call| self.course.calls.get(call)).copied();
        let status = if failed { ToolStatus::Error } else { ToolStatus::Completed };
        (at, ImportItemKind::Result(ImportedToolResult { call, tool: recorded.function, status, content }))
    }

    fn finish(mut self, at: Millis, title: String) -> Result<ImportedSession, ImportError> {
        self.list.tools = self.course.tools.map(|tools| self.attachments.fill(tools.get()).0.into_owned());
        let elsewhere = self.course.answers.len();
        if elsewhere > 0 {
            self.list.sink.warn(
                None,
                format!("answers of models that are not among the messages: {elsewhere} left out"),
            );
        }
        self.list.finish(ImportFormat::Inspect, at, Some(title))
    }
}

fn call(call: InspectToolCall<'_>) -> Part {
    Part::ToolCall(ToolCall {
        call_id: CallId::new(""),
        name: call.function,
        arguments: arguments(call.arguments),
        provider_id: call.id,
        native: None,
    })
}
