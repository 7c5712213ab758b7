//! The events worth showing. They come from announcements while they happen, and from stored events afterwards.

use longhaul::SessionEvent;
use longhaul::api_events::ApiEvent;
use longhaul::clock::now_ms;
use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EditKind, EditReason, Event, EventBody, PartialAnswerReason, ViewEdit};
use longhaul_core::ids::Seq;
use longhaul_core::message::{Message, Part, Role, ToolResult};
use longhaul_core::plan::is_cut_of_message;
use longhaul_core::truncate::shown_content;
use serde::Serialize;

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
    Retrying { message: String, attempt: u64, after_ms: u64, limit: RetryLimit },
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

/// The limit of the repetitions of a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryLimit {
    /// The call is repeated until `retry.patience` ends.
    Patience,
    /// The call is repeated until `retry.streamAttempts` answers have broken off.
    BrokenAnswers,
    /// The call is repeated once.
    Once,
}

impl RetryLimit {
    /// Returns the limit for the reason of a wait, as the API names it.
    pub(crate) fn of(reason: &str) -> Self {
        match reason {
            "broken-answer" => Self::BrokenAnswers,
            "refusal" => Self::Once,
            _ => Self::Patience,
        }
    }
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

/// The reason for an edit without an undo: the window cannot hold what would come back.
pub(crate) const NO_ROOM: &str = "no room to undo";

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

impl ViewEditInfo {
    /// Creates the facts of an edit. `tokens` are those before and after; `note` is the choice in words.
    fn new(id: String, strategy: String, gone: u64, tokens: (u64, u64), note: &str) -> Self {
        Self {
            id,
            strategy,
            gone: RemovedMessages::from_message_count(gone),
            before_tokens: tokens.0,
            after_tokens: tokens.1,
            is_extract: is_extract(note),
            is_message_cut: is_cut_of_message(note),
            undo: UndoOption::Unknown,
            why: reason(note).to_owned(),
        }
    }
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

/// Returns the event in an announcement, if it has one to show.
pub(crate) fn event_from_announcement(announcement: &ApiEvent) -> Option<UiEvent> {
    let happening = match SessionEvent::from_announcement(announcement)? {
        SessionEvent::MessageQueued { position, .. } => UiEvent::Queued { position },
        SessionEvent::MessagesTaken { queue_ids } => UiEvent::Dequeued { count: queue_ids.len() as u64 },
        SessionEvent::MessageAdded { role, parts, interrupted, .. } => added(role, &parts, interrupted)?,
        SessionEvent::RunStarted { .. } => UiEvent::RunStarted,
        SessionEvent::TextDelta { text, .. } => UiEvent::Text(text),
        SessionEvent::ReasoningDelta { .. } => UiEvent::Reasoning,
        SessionEvent::ToolInputDelta { tool_name, .. } => {
            UiEvent::ToolInput { tool: tool_name.unwrap_or_default() }
        }
        SessionEvent::ToolCall { call_id, tool_name, arguments_text, .. } => UiEvent::Call(ToolCallInfo {
            id: call_id.to_string(),
            tool: tool_name,
            arguments: arguments_text,
        }),
        SessionEvent::ToolStarted { call_id } => UiEvent::Started { id: call_id.to_string() },
        SessionEvent::ToolResult {
            call_id,
            status,
            content,
            omitted_chars,
            total_chars,
            is_truncated,
            ..
        } => UiEvent::Ended(ToolResultInfo {
            id: call_id.to_string(),
            status: word(&status),
            text: spoken(&content),
            media: media(&content),
            truncated: is_truncated.then_some((omitted_chars, total_chars)),
        }),
        SessionEvent::ApprovalRequested { approval_id, call_id, tool_name, arguments_text, .. } => {
            let call = ToolCallInfo {
                id: call_id.to_string(),
                tool: tool_name.unwrap_or_default(),
                arguments: arguments_text.unwrap_or_default(),
            };
            UiEvent::Asked { approval_id: approval_id.to_string(), call }
        }
        SessionEvent::ApprovalResolved { approval_id, .. } => {
            UiEvent::Decided { approval_id: approval_id.to_string() }
        }
        SessionEvent::CompactionFailed { error, .. } => UiEvent::CompactionFailed { reason: error.message },
        SessionEvent::Omitted { edit_id, reason } => UiEvent::Omitted { id: edit_id.to_string(), reason },
        SessionEvent::Restored { edit_id, .. } => UiEvent::Restored { id: edit_id.to_string() },
        SessionEvent::ContextUsage { .. } => UiEvent::Usage,
        SessionEvent::ModelSwitched { to } => UiEvent::Switched { model: to.model },
        // A failed step is reported by the end of its run, so only a failure of the storage is shown here.
        SessionEvent::ModelError { error, .. }
            if announcement.seq.is_none() && error.code == ErrorCode::Storage =>
        {
            UiEvent::Broken { message: error.message }
        }
        SessionEvent::Waiting { reason, attempt, next_attempt_at, error } => UiEvent::Retrying {
            limit: RetryLimit::of(&reason),
            message: error.message,
            attempt: u64::from(attempt),
            // The announcement has a time of day, and a row shows how long it is until then.
            after_ms: next_attempt_at.saturating_sub(now_ms()),
        },
        SessionEvent::RunFinished { end, steps, usage, error, .. } => UiEvent::RunEnded(RunEndInfo {
            end: word(&end),
            steps: u64::from(steps),
            input_tokens: usage.as_ref().map_or(0, |usage| usage.input_tokens),
            output_tokens: usage.as_ref().map_or(0, |usage| usage.output_tokens),
            error: error.map(|error| (error.code.to_string(), error.message)),
        }),
        SessionEvent::Parked { reason } => UiEvent::Parked { reason },
        event => edit_of_view(event)?,
    };
    Some(happening)
}

/// Returns the event to show for a compaction or a prune.
fn edit_of_view(event: SessionEvent) -> Option<UiEvent> {
    Some(match event {
        // `undo_check::complete` finds out whether a model writes the summary.
        SessionEvent::Compacting { .. } => UiEvent::Compacting { is_extract: false },
        SessionEvent::Compacted {
            edit_id,
            strategy,
            original_tokens,
            compressed_tokens,
            original_messages,
            compressed_messages,
            note,
            ..
        } => {
            // The summary is one of the messages afterwards, and replaced none of them.
            let gone = (original_messages + 1).saturating_sub(compressed_messages.max(1));
            let tokens = (original_tokens, compressed_tokens);
            UiEvent::Compacted(ViewEditInfo::new(edit_id.to_string(), strategy, gone, tokens, &note))
        }
        SessionEvent::Pruned { edit_id, strategy, results, original_tokens, compressed_tokens, note } => {
            let tokens = (original_tokens, compressed_tokens);
            UiEvent::Cleared(ViewEditInfo::new(edit_id.to_string(), strategy, results, tokens, &note))
        }
        _ => return None,
    })
}

fn added(role: Role, parts: &[Part], interrupted: Option<PartialAnswerReason>) -> Option<UiEvent> {
    match (role, interrupted) {
        (Role::User, _) => Some(UiEvent::User { text: readable(parts) }),
        (Role::Assistant, Some(PartialAnswerReason::Paused)) => Some(UiEvent::Piece { text: spoken(parts) }),
        (Role::Assistant, _) => Some(UiEvent::Answer { text: spoken(parts), cut: false }),
        _ => None,
    }
}

/// Returns the word of a value in events, for example `completed`.
fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
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
        other => other.as_str().replace('_', " "),
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
            let error = error.as_ref().map(|error| (error.code.to_string(), error.message.clone()));
            vec![UiEvent::RunEnded(RunEndInfo { end: word(reason), error, ..RunEndInfo::default() })]
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
    ToolResultInfo {
        id: result.call_id.to_string(),
        status: word(&result.status),
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
        is_message_cut: is_cut_of_message(&edit.why),
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
