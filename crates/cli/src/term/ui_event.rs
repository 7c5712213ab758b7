//! The events worth showing. They come from announcements while they happen, and from stored events afterwards.

use longhaul::api_events::ApiEvent;
use longhaul::clock::now_ms;
use longhaul_core::event::{EditKind, EditReason, Event, EventBody, PartialAnswerReason, ViewEdit};
use longhaul_core::ids::Seq;
use longhaul_core::message::{Message, Part, ToolResult};
use longhaul_core::plan::LONG_MESSAGE;
use longhaul_core::truncate::shown_content;
use serde_json::Value;

use crate::removed_messages::RemovedMessages;

use super::human::short;

/// An event worth showing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UiEvent {
    /// A message was accepted and waits or enters.
    Queued { position: u64 },
    /// Queued messages enter the conversation; the message itself follows.
    Dequeued { count: u64 },
    /// A message of a person, or of the runtime in a person's place.
    User { text: String },
    /// The runtime added a note for the model.
    Note { text: String },
    /// A run began.
    RunStarted,
    /// The next text of the answer.
    Text(String),
    /// The next text of the reasoning.
    Reasoning,
    /// The next text of a tool call's arguments.
    ToolInput { tool: String },
    /// The beginning of an answer is stored, and the answer continues.
    Piece { text: String },
    /// An answer, or the end of one, is stored.
    Answer { text: String, cut: bool },
    /// The model asks for a tool.
    Call(ToolCallInfo),
    /// A tool begins.
    Started { id: String },
    /// A tool ended.
    Ended(ToolResultInfo),
    /// A person is asked.
    Asked { approval_id: String, call: ToolCallInfo },
    /// The question is answered.
    Decided { approval_id: String },
    /// A summary is being written, or an extract made in its place.
    Compacting { is_extract: bool },
    /// Messages became a summary or a note.
    Compacted(ViewEditInfo),
    /// Tool results became placeholders.
    Cleared(ViewEditInfo),
    /// A compaction got no summary.
    CompactionFailed { reason: String },
    /// The model's server refuses a part of the conversation, which is left out from here on.
    Omitted { id: String, reason: String },
    /// A compaction, a prune or an omission was undone.
    Restored { id: String },
    /// The call will be repeated.
    Retrying { message: String, attempt: u64, after_ms: u64 },
    /// The session talks to another model.
    Switched { model: String },
    /// The meter has moved.
    Usage,
    /// A run ended.
    RunEnded(RunEndInfo),
    /// The session needs a person.
    Parked { reason: String },
    /// The session is lost to this process.
    Broken { message: String },
}

/// A tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolCallInfo {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) arguments: String,
}

/// A finished tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolResultInfo {
    pub(crate) id: String,
    /// `completed`, `error`, `cancelled` or `interrupted`.
    pub(crate) status: String,
    pub(crate) text: String,
    pub(crate) media: usize,
    /// Characters left out and characters in all, if it was too long.
    pub(crate) truncated: Option<(u64, u64)>,
}

/// The possibility to undo an edit of the view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum UndoOption {
    /// The log was not looked at, so no undo is offered.
    #[default]
    Unknown,
    /// The edit can be undone. It is the newest, so it need not be named.
    Newest,
    /// The edit can be undone by its name.
    Named,
    /// The edit can be undone only after another.
    After(String),
    /// The edit cannot be undone, for this reason.
    Refused(&'static str),
}

/// An edit that made the view shorter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ViewEditInfo {
    pub(crate) id: String,
    /// The strategy that made the edit: not always the configured one.
    pub(crate) strategy: String,
    /// Removed messages and summaries of earlier ones, or tool results.
    pub(crate) gone: RemovedMessages,
    pub(crate) before_tokens: u64,
    pub(crate) after_tokens: u64,
    /// `true` if extracts stand where a model would have written.
    pub(crate) is_extract: bool,
    /// `true` if the newest message is shown by its beginning and its end.
    pub(crate) is_message_cut: bool,
    pub(crate) undo: UndoOption,
    /// The reason for the edit, in words.
    pub(crate) why: String,
}

/// A finished run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunEndInfo {
    /// `stop`, `cancelled`, `error` …
    pub(crate) end: String,
    pub(crate) steps: u64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    /// Code and message.
    pub(crate) error: Option<(String, String)>,
}

impl UiEvent {
    /// Returns the edit in the event, if it has one.
    pub(crate) fn edit(&mut self) -> Option<&mut ViewEditInfo> {
        match self {
            Self::Compacted(shrunk) | Self::Cleared(shrunk) => Some(shrunk),
            _ => None,
        }
    }
}

/// Returns a number of an announcement; 0 if there is none.
fn number(announcement: &ApiEvent, key: &str) -> u64 {
    announcement.payload.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns the event in an announcement, if it has one to show.
pub(crate) fn event_from_announcement(announcement: &ApiEvent) -> Option<UiEvent> {
    let happening = match announcement.name {
        "message:queued" => UiEvent::Queued { position: number(announcement, "position") },
        "message:dequeued" => UiEvent::Dequeued { count: number(announcement, "count") },
        "message:added" => added(announcement)?,
        "run:started" => UiEvent::RunStarted,
        "llm:chunk" => match announcement.text("chunkType") {
            "reasoning" => UiEvent::Reasoning,
            _ => UiEvent::Text(announcement.text("content").to_owned()),
        },
        "llm:tool-input" => UiEvent::ToolInput { tool: announcement.text("toolName").to_owned() },
        "llm:tool-call" => UiEvent::Call(call(announcement)),
        "tool:started" => UiEvent::Started { id: announcement.text("callId").to_owned() },
        "llm:tool-result" => UiEvent::Ended(ended(announcement)),
        "tool:approval-request" => UiEvent::Asked {
            approval_id: announcement.text("approvalId").to_owned(),
            call: call(announcement),
        },
        "tool:approval-response" => {
            UiEvent::Decided { approval_id: announcement.text("approvalId").to_owned() }
        }
        // `undo_check::complete` finds out whether a model writes the summary.
        "context:compacting" => UiEvent::Compacting { is_extract: false },
        "context:compressed" => UiEvent::Compacted(compacted(announcement)),
        "context:pruned" => UiEvent::Cleared(shrunk(announcement, number(announcement, "prunedCount"))),
        "context:compact-failed" => {
            UiEvent::CompactionFailed { reason: announcement.text("reason").to_owned() }
        }
        "context:omitted" => UiEvent::Omitted {
            id: announcement.text("compactionId").to_owned(),
            reason: announcement.text("reason").to_owned(),
        },
        "context:restored" => UiEvent::Restored { id: announcement.text("compactionId").to_owned() },
        "context:usage" => UiEvent::Usage,
        "llm:switched" => {
            let config = announcement.payload.get("newConfig").unwrap_or(&Value::Null);
            UiEvent::Switched { model: config["model"].as_str().unwrap_or_default().to_owned() }
        }
        "llm:error" => error(announcement)?,
        "run:waiting" => waiting(announcement),
        "run:complete" => UiEvent::RunEnded(run_ended(announcement)),
        "session:parked" => UiEvent::Parked { reason: announcement.text("reason").to_owned() },
        _ => return None,
    };
    Some(happening)
}

fn added(announcement: &ApiEvent) -> Option<UiEvent> {
    let parts = announcement.payload.get("parts").cloned().unwrap_or_default();
    // A part of an unknown kind leaves the text empty, which is better than no chat.
    let parts: Vec<Part> = serde_json::from_value(parts).unwrap_or_default();
    match announcement.text("role") {
        "user" => Some(UiEvent::User { text: readable(&parts) }),
        "assistant" if announcement.payload.contains_key("paused") => {
            Some(UiEvent::Piece { text: spoken(&parts) })
        }
        "assistant" => Some(UiEvent::Answer { text: spoken(&parts), cut: false }),
        _ => None,
    }
}

fn call(announcement: &ApiEvent) -> ToolCallInfo {
    ToolCallInfo {
        id: announcement.text("callId").to_owned(),
        tool: announcement.text("toolName").to_owned(),
        arguments: announcement.text("argsText").to_owned(),
    }
}

fn ended(announcement: &ApiEvent) -> ToolResultInfo {
    let content = announcement.payload.get("sanitized").cloned().unwrap_or_default();
    let content: Vec<Part> = serde_json::from_value(content).unwrap_or_default();
    ToolResultInfo {
        id: announcement.text("callId").to_owned(),
        status: announcement.text("status").to_owned(),
        text: spoken(&content),
        media: media(&content),
        truncated: announcement
            .payload
            .get("omittedChars")
            .and_then(Value::as_u64)
            .zip(announcement.payload.get("totalChars").and_then(Value::as_u64)),
    }
}

fn compacted(announcement: &ApiEvent) -> ViewEditInfo {
    // The summary is one of the messages afterwards, and replaced none of them.
    let gone = (number(announcement, "originalMessages") + 1)
        .saturating_sub(number(announcement, "compressedMessages").max(1));
    shrunk(announcement, gone)
}

/// Returns the choice in words, without the number of messages at its beginning: callers count the messages
/// themselves.
pub(crate) fn reason(why: &str) -> &str {
    let parts = why.split_once(" left out, ").or_else(|| why.split_once(" replaced by "));
    let Some((first, rest)) = parts else { return why };
    let is_count = first.starts_with(|c: char| c.is_ascii_digit())
        && (first.ends_with(" messages") || first.ends_with(" message"));
    if is_count { rest } else { why }
}

/// Returns the cause of an edit, and the choice of strategy.
pub(crate) fn why(edit: &ViewEdit) -> String {
    let cause = match edit.reason {
        EditReason::TokenLimit => format!("the trigger was reached, {} tokens", short(edit.trigger_tokens)),
        EditReason::OverflowError => "the server said that the request was too long".to_owned(),
        EditReason::ModelSwitch => "the new model has a smaller window".to_owned(),
        EditReason::Requested => "it was asked for".to_owned(),
    };
    match reason(&edit.why) {
        "" => cause,
        choice => format!("{cause}; {choice}"),
    }
}

/// Reports whether the reason names an extract. No field of an edit says whose its summary is.
fn is_extract(why: &str) -> bool {
    why.contains("extract without a model") || why.contains("extracts without a model")
}

fn shrunk(announcement: &ApiEvent, count: u64) -> ViewEditInfo {
    ViewEditInfo {
        id: announcement.text("compactionId").to_owned(),
        strategy: announcement.text("strategy").to_owned(),
        gone: RemovedMessages::from_message_count(count),
        before_tokens: number(announcement, "originalTokens"),
        after_tokens: number(announcement, "compressedTokens"),
        is_extract: is_extract(announcement.text("costNote")),
        is_message_cut: announcement.text("costNote").starts_with(LONG_MESSAGE),
        undo: UndoOption::Unknown,
        why: reason(announcement.text("costNote")).to_owned(),
    }
}

/// Returns an error to show. A failed step is reported by the end of its run, so only a failure of the storage is
/// shown here.
fn error(announcement: &ApiEvent) -> Option<UiEvent> {
    let message = announcement.text("error").to_owned();
    (announcement.seq.is_none() && announcement.text("code") == "storage")
        .then_some(UiEvent::Broken { message })
}

/// Returns the wait before the next attempt of a model call.
fn waiting(announcement: &ApiEvent) -> UiEvent {
    let error = announcement.payload.get("lastError").unwrap_or(&Value::Null);
    UiEvent::Retrying {
        message: error["message"].as_str().unwrap_or_default().to_owned(),
        attempt: number(announcement, "attempt"),
        // The announcement has a time of day, and a row shows how long it is until then.
        after_ms: number(announcement, "nextAttemptAt").saturating_sub(now_ms()),
    }
}

fn run_ended(announcement: &ApiEvent) -> RunEndInfo {
    let usage = announcement.payload.get("usage").unwrap_or(&Value::Null);
    let error = announcement.payload.get("error").map(|error| {
        let (code, message) = (error["code"].as_str(), error["message"].as_str());
        (code.unwrap_or_default().to_owned(), message.unwrap_or_default().to_owned())
    });
    RunEndInfo {
        end: announcement.text("finishReason").to_owned(),
        steps: announcement.payload.get("steps").and_then(Value::as_u64).unwrap_or(0),
        input_tokens: usage["inputTokens"].as_u64().unwrap_or(0),
        output_tokens: usage["outputTokens"].as_u64().unwrap_or(0),
        error,
    }
}

/// Returns the events in a stored event.
pub(crate) fn events_from_log_entry(event: &Event) -> Vec<UiEvent> {
    match &event.body {
        EventBody::MessagesTaken { message, .. } => {
            // The stored event is both. Without the dequeue the transcript would show the text as a note.
            vec![UiEvent::Dequeued { count: 1 }, UiEvent::User { text: readable(&message.parts) }]
        }
        EventBody::NoteAdded { message, .. } => {
            vec![UiEvent::Note { text: readable(&message.parts) }]
        }
        EventBody::AssistantAdded { message, cut, .. } => answered(message, *cut),
        EventBody::ToolStarted { call_id } => vec![UiEvent::Started { id: call_id.to_string() }],
        EventBody::ToolFinished { result } => vec![UiEvent::Ended(finished(event.seq, result))],
        EventBody::ViewEdited(edit) => vec![edited(edit)],
        EventBody::ViewRestored { edit_id } => vec![UiEvent::Restored { id: edit_id.to_string() }],
        EventBody::PartsOmitted { edit_id, reason, .. } => {
            vec![UiEvent::Omitted { id: edit_id.to_string(), reason: reason.clone() }]
        }
        EventBody::CompactionFailed { reason, .. } => {
            vec![UiEvent::CompactionFailed { reason: reason.clone() }]
        }
        EventBody::ModelSwitched { to, .. } => vec![UiEvent::Switched { model: to.model.clone() }],
        EventBody::RunFinished { reason, error, .. } => {
            // Serialised, so that the words are those of the announcements.
            let end = serde_json::to_value(reason).unwrap_or_default();
            let error = error.as_ref().map(|error| (error.code.to_string(), error.message.clone()));
            let end = end.as_str().unwrap_or_default().to_owned();
            vec![UiEvent::RunEnded(RunEndInfo { end, error, ..RunEndInfo::default() })]
        }
        EventBody::Parked { reason } => vec![UiEvent::Parked { reason: reason.clone() }],
        _ => Vec::new(),
    }
}

fn answered(message: &Message, cut: Option<PartialAnswerReason>) -> Vec<UiEvent> {
    let text = spoken(&message.parts);
    let answer = match cut {
        Some(PartialAnswerReason::Paused) => UiEvent::Piece { text },
        cut => UiEvent::Answer { text, cut: cut.is_some() },
    };
    let calls = message.tool_calls().map(|call| {
        UiEvent::Call(ToolCallInfo {
            id: call.call_id.to_string(),
            tool: call.name.clone(),
            arguments: call.arguments.clone(),
        })
    });
    [answer].into_iter().chain(calls).collect()
}

fn finished(seq: Seq, result: &ToolResult) -> ToolResultInfo {
    let status = serde_json::to_value(result.status).unwrap_or_default();
    ToolResultInfo {
        id: result.call_id.to_string(),
        status: status.as_str().unwrap_or_default().to_owned(),
        // The shown content has the marker that says what was left out.
        text: spoken(&shown_content(result, seq)),
        media: media(&result.content),
        truncated: result.truncated.as_ref().map(|it| (it.omitted_chars, it.total_chars)),
    }
}

fn edited(edit: &ViewEdit) -> UiEvent {
    let gone = match edit.kind {
        EditKind::Prune => RemovedMessages::from_message_count(edit.ops.len() as u64),
        EditKind::Compaction => RemovedMessages::of_edit(edit),
    };
    let shrunk = ViewEditInfo {
        id: edit.id.to_string(),
        strategy: edit.strategy.clone(),
        gone,
        before_tokens: edit.original_tokens,
        after_tokens: edit.compressed_tokens,
        is_extract: is_extract(&edit.why),
        is_message_cut: edit.why.starts_with(LONG_MESSAGE),
        undo: UndoOption::Unknown,
        why: why(edit),
    };
    match edit.kind {
        EditKind::Prune => UiEvent::Cleared(shrunk),
        EditKind::Compaction => UiEvent::Compacted(shrunk),
    }
}

/// Returns all text of a message's parts.
fn spoken(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::as_text).collect()
}

/// Returns the readable text of parts, with media named at their positions.
pub(crate) fn readable(parts: &[Part]) -> String {
    let pieces = parts.iter().map(|part| match part {
        Part::Text(text) => text.text.clone(),
        Part::Image(media) | Part::File(media) => {
            format!("[{}]", media.name.as_deref().unwrap_or(&media.media_type))
        }
        _ => String::new(),
    });
    pieces.collect()
}

fn media(parts: &[Part]) -> usize {
    parts.iter().filter(|part| matches!(part, Part::Image(_) | Part::File(_))).count()
}
