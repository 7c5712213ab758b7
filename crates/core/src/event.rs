//! The events that a session's log stores.
//!
//! The log of a session is a list of [`Event`]s and the only truth about the session.
//! [`History`](crate::history) is folded from the log. Events are never edited and never deleted. Every stored
//! event carries its [`FORMAT`], and formats of earlier versions stay readable.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::ErrorCode;
use crate::ids::{
    ApprovalId, CallId, EditId, LogRange, Millis, OrderId, QueueId, RunId, Seq, SessionId, StepId,
};
use crate::message::{
    BlobRef, Message, ModelOrigin, ModelStopReason, Part, RawJson, ToolResult, collect_blobs,
};
use crate::metadata::MessageMetadata;
use crate::orders::OrderSource;
use crate::usage::Usage;

/// The version of the stored format that this build writes.
pub const FORMAT: u16 = 1;

/// One stored fact of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The event's position in the log: 1, 2, 3 … without gaps.
    pub seq: Seq,
    /// The time of the append, in milliseconds since the Unix epoch.
    pub at: Millis,
    /// The format in which the event was written.
    pub format: u16,
    /// The fact that the event records.
    pub body: EventBody,
}

/// The facts that an event can record.
// A field that is newer than its event has `serde(default)`, so that earlier logs stay readable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum EventBody {
    /// The session began. Always the first event of a log.
    SessionStarted {
        /// The session's title, if one was given.
        title: Option<String>,
        /// The session it was forked from, and the last position that both share.
        forked_from: Option<ForkOrigin>,
        /// The file format from which the session was imported.
        imported_from: Option<String>,
        /// The workspace's folder in which the session began; `None` for an import, and in logs of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
    },
    /// Queued messages entered the conversation as one user message.
    MessagesTaken {
        /// The message.
        message: Message,
        /// The queue entries that form the message, oldest first; empty for imported messages.
        taken: Vec<QueueId>,
        /// The entries that form the message; `None` for a single entry.
        coalesced: Option<CoalescedMessages>,
        /// The metadata that a client sent along with the only entry. The metadata of several entries is in
        /// `coalesced`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<MessageMetadata>,
    },
    /// The runtime added a note for the model: a message with the user's role that no person typed.
    NoteAdded {
        /// The message.
        message: Message,
        /// The reason of the note.
        why: NoteReason,
    },
    /// A run began.
    RunStarted {
        /// The run's name.
        run_id: RunId,
    },
    /// The server has counted the input of the next request.
    InputCounted {
        /// The input of the request, in tokens.
        tokens: u64,
        /// The estimated tokens of system prompt and tools in the input.
        fixed_tokens: u64,
    },
    /// A model call is about to be made.
    // Boxed, as `ViewEdited` is, because the largest variant sets the size of every event.
    StepStarted(Box<StepStart>),
    /// The model answered, wholly or in part.
    AssistantAdded {
        /// The step that made the answer.
        step_id: StepId,
        /// The message.
        message: Message,
        /// The reason why the model stopped.
        finish: ModelStopReason,
        /// The reason of a cut; `None` for a whole answer.
        cut: Option<PartialAnswerReason>,
    },
    /// The model call of a step is over and gave an answer.
    StepFinished {
        /// The step.
        step_id: StepId,
        /// The usage that the provider reported; `None` if the provider reported nothing.
        usage: Option<Usage>,
        /// The input that the meter had expected, in tokens.
        estimated_input: u64,
        /// The provider's data on the answer as a whole, if there was any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        envelope: Option<RawJson>,
    },
    /// The model call of a step gave no answer.
    StepFailed {
        /// The step.
        step_id: StepId,
        /// The error, as a caller decides on it.
        code: ErrorCode,
        /// The error in words.
        message: String,
        /// Input tokens that the provider's error named, if it did.
        used_tokens: Option<u64>,
        /// The limit that the provider's error named, if it did: the window, learned.
        limit_tokens: Option<u64>,
        /// The usage that the provider reported in spite of the failure, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// `true` if neither time nor a shorter request helps, as with a wrong address or an account without credit.
        /// Logs of earlier versions say `false` of every failure.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_permanent: bool,
    },
    /// A tool is about to run. The event is stored before the tool's side effect.
    ToolStarted {
        /// The call.
        call_id: CallId,
    },
    /// A tool call ended, with or without success.
    ToolFinished {
        /// The outcome of the call, with the content.
        result: ToolResult,
    },
    /// A person is asked whether a tool may run.
    ApprovalRequested {
        /// The question.
        approval_id: ApprovalId,
        /// The call that the question is about.
        call_id: CallId,
    },
    /// The question was answered, by a person, a rule or a clock.
    ApprovalResolved {
        /// The question.
        approval_id: ApprovalId,
        /// The call that the question is about.
        call_id: CallId,
        /// The decision: `true` if the tool may run.
        allowed: bool,
        /// The reason of a refusal, for the model.
        reason: Option<String>,
    },
    /// The view changed: messages were pruned or compacted. The log keeps them.
    ViewEdited(Box<ViewEdit>),
    /// An edit of the view, or an omission of refused parts, was undone.
    ViewRestored {
        /// The edit or omission.
        edit_id: EditId,
    },
    /// Parts of the conversation are hidden from the model because its server refuses them. The log keeps the parts.
    /// [`EventBody::ViewRestored`] puts them back.
    PartsOmitted {
        /// The omission's name, for an undo by the user.
        edit_id: EditId,
        /// The parts that are left out.
        parts: Vec<OmittedPart>,
        /// The server's words.
        reason: String,
    },
    /// The range of an undone edit may be compacted automatically again.
    RangeReleased {
        /// The undone edit.
        edit_id: EditId,
    },
    /// A compaction was tried and not committed.
    CompactionFailed {
        /// The strategy that tried.
        strategy: String,
        /// The error, as a caller decides on it.
        code: ErrorCode,
        /// The error in words.
        reason: String,
        /// The usage of the attempt, if a model was called.
        usage: Option<Usage>,
    },
    /// The session talks to another model from here on.
    ModelSwitched {
        /// The model.
        to: ModelOrigin,
        /// The choice of a user or client; `None` if only the model of the session's agent changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        choice: Option<ModelChoice>,
    },
    /// A run ended and the session is idle.
    RunFinished {
        /// The run.
        run_id: RunId,
        /// The reason why the run ended.
        reason: RunEnd,
        /// The error of the run, if there was one.
        error: Option<ErrorInfo>,
    },
    /// The process that ran the session ended in the middle of a run, and another process took over.
    Recovered {
        /// The state that was found, in words.
        cause: String,
        /// The number of recoveries since the last completed step, including this one.
        attempts: u32,
    },
    /// The session waits for a person: automatic recovery was tried as often as is useful.
    Parked {
        /// The reason of the pause and the way to resume, in words.
        reason: String,
    },
    /// The session got another title.
    TitleSet {
        /// The title.
        title: String,
    },
    /// An instruction holds from here on, beyond the next answer.
    OrderPinned {
        /// The order's name.
        order_id: OrderId,
        /// The order's text, as given.
        text: String,
        /// The author of the order.
        source: OrderSource,
        /// The message that gave the order, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Seq>,
        /// The order that this order replaces.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<OrderId>,
    },
    /// A standing order has another text.
    OrderEdited {
        /// The order.
        order_id: OrderId,
        /// The order's text from here on.
        text: String,
    },
    /// A standing order does not hold any more.
    OrderRemoved {
        /// The order.
        order_id: OrderId,
    },
}

impl EventBody {
    /// Returns the event of a user message that never waited in a queue: an imported one.
    pub fn message_taken(message: Message) -> Self {
        Self::MessagesTaken { message, taken: Vec::new(), coalesced: None, metadata: None }
    }

    /// Returns all blobs that the event names, in the order of appearance. A blob may appear more than once.
    pub fn blob_refs(&self) -> Vec<&BlobRef> {
        let mut named = Vec::new();
        // Every kind is listed, so that a new kind does not compile until its author has looked for its blobs.
        match self {
            Self::MessagesTaken { message, .. }
            | Self::NoteAdded { message, .. }
            | Self::AssistantAdded { message, .. } => collect_blobs(&message.parts, &mut named),
            Self::ToolFinished { result } => result.collect_blobs(&mut named),
            Self::ViewEdited(edit) => {
                for op in &edit.ops {
                    if let ViewOperation::Replace { parts, .. } = op {
                        // A replacement can quote parts with media.
                        collect_blobs(parts, &mut named);
                    }
                }
            }
            Self::SessionStarted { .. }
            | Self::RunStarted { .. }
            | Self::InputCounted { .. }
            | Self::StepStarted(_)
            | Self::StepFinished { .. }
            | Self::StepFailed { .. }
            | Self::ToolStarted { .. }
            | Self::ApprovalRequested { .. }
            | Self::ApprovalResolved { .. }
            | Self::ViewRestored { .. }
            | Self::PartsOmitted { .. }
            | Self::RangeReleased { .. }
            | Self::CompactionFailed { .. }
            | Self::ModelSwitched { .. }
            | Self::RunFinished { .. }
            | Self::Recovered { .. }
            | Self::Parked { .. }
            | Self::TitleSet { .. }
            | Self::OrderPinned { .. }
            | Self::OrderEdited { .. }
            | Self::OrderRemoved { .. } => {}
        }
        named
    }
}

/// The origin of a forked session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkOrigin {
    /// The session from which the fork was made.
    pub session_id: SessionId,
    /// The last event that both sessions share.
    pub at_seq: Seq,
}

/// The agent and the model of a session, by their configured names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelChoice {
    /// The agent's name; `None` for the default agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model's name; `None` for the agent's own model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// The queued messages that became one message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CoalescedMessages {
    /// The number of queued messages.
    pub message_count: usize,
    /// The queue entries of those messages, oldest first.
    pub original_messages: Vec<QueueId>,
    /// The time at which the oldest was queued.
    pub first_queued_at: Millis,
    /// The time at which the newest was queued.
    pub last_queued_at: Millis,
    /// The metadata of each queued message that has any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub original_metadata: BTreeMap<QueueId, MessageMetadata>,
}

/// The reason of a note to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NoteReason {
    /// Too many repetitions of one call with one result, or of one passage in an answer.
    Loop,
    /// The run's time is over: the model must report its state.
    TimeUp,
    /// Part of an imported conversation.
    Imported,
    /// A summary of messages that the log does not have, in a form that only a program writes: a client has received it
    /// from another server and sends it back.
    ImportedSummary,
    /// A system or developer message of a client in the middle of a conversation, or a summary that a client sends back
    /// and that quotes such messages. Every shortened view quotes them.
    SystemMessage,
    /// The newest message mentions passages that a compaction removed, and the note shows them again.
    Recalled,
    /// Standing orders were pinned, changed or removed since the model was last informed.
    Orders,
    /// The previous answer broke off, and the model cannot simply continue its text.
    BrokenOff,
}

/// The purpose of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StepKind {
    /// The work.
    Main,
    /// The one step after a run's time-out, in which no tool may be called.
    Recovery,
}

/// The request of a step, in figures and hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepStart {
    /// The step.
    pub step_id: StepId,
    /// The run to which the step belongs.
    pub run_id: RunId,
    /// The purpose of the step.
    pub purpose: StepKind,
    /// The model that is called.
    pub model: ModelOrigin,
    /// Hash of the system prompt.
    pub system_hash: String,
    /// Hash of the tools sent; of nothing if none were.
    pub tools_hash: String,
    /// Hash of the view sent.
    pub view_hash: String,
    /// Estimated tokens of system prompt and tools together.
    pub fixed_tokens: u64,
    /// The input that the meter expects, in tokens.
    pub estimated_input: u64,
    /// The output limit sent, in tokens.
    pub max_output_tokens: u64,
    /// The declared or discovered window, in tokens; `None` for an assumed window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_tokens: Option<u64>,
}

/// The reason why an answer is incomplete.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PartialAnswerReason {
    /// The run was cancelled. The model sees the text so far.
    Cancelled,
    /// The stream failed, the process ended, or the answer repeated itself without end. Only people see the text so
    /// far.
    Lost,
    /// The next answer continues this one word for word. Either the loop stopped the answer to make room, or the
    /// stream broke off (then [`EventBody::StepFailed`] follows).
    Paused,
}

/// An edit of the view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewEdit {
    /// The edit's name.
    pub id: EditId,
    /// The hash of the view for which the edit was planned.
    pub base_view_hash: String,
    /// The changes of the view.
    pub ops: Vec<ViewOperation>,
    /// The kind of the edit. Stored under another name, because `kind` is the event's own field.
    #[serde(rename = "editKind")]
    pub kind: EditKind,
    /// The strategy that planned the edit, for example `reactive-overflow`.
    pub strategy: String,
    /// The cause of the edit.
    pub reason: EditReason,
    /// The threshold that was reached, in tokens.
    pub trigger_tokens: u64,
    /// The tokens of the whole request before the edit, by the meter.
    pub original_tokens: u64,
    /// The tokens of the whole request after the edit, by the meter (an estimate).
    pub compressed_tokens: u64,
    /// `original_tokens` with the expected error: the value that was compared with the trigger.
    // Logs of earlier versions have no bounds.
    #[serde(default)]
    pub original_bound: u64,
    /// `compressed_tokens` with the expected error: the value that was compared with the trigger.
    #[serde(default)]
    pub compressed_bound: u64,
    /// The number of messages in the view before the edit.
    pub original_messages: u64,
    /// The number of messages in the view after the edit.
    pub compressed_messages: u64,
    /// The reason for the selection, in words.
    pub why: String,
    /// The usage of the summary, if a model wrote one.
    pub usage: Option<Usage>,
    /// The outcome of the check of the model's answers, if a model was asked for a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<SummaryCheck>,
}

/// A part of a request that is left out because the model's server refuses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OmittedPart {
    /// A part of a message, or of the content of a tool result.
    Part {
        /// The position of the message.
        seq: Seq,
        /// The part's number in the message, or in the content of the result, from 0.
        part: usize,
        /// The text that the model is shown instead. Empty for none; never shown in an answer of the model.
        note: String,
    },
    /// A tool, which is not offered any more.
    Tool {
        /// The tool's name.
        name: String,
    },
}

/// The outcome of the check of a model's summary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SummaryCheck {
    /// `true` if the edit has a summary that passed the check; `false` for an extract in its place.
    pub checked: bool,
    /// The reasons why earlier answers were refused, in words, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// One change of the view, over positions of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum ViewOperation {
    /// Messages in the range are not shown.
    Drop {
        /// The range.
        range: LogRange,
    },
    /// Messages in the range are shown as one user-role message.
    Replace {
        /// The range.
        range: LogRange,
        /// The parts of that message.
        parts: Vec<Part>,
        /// `true` for a summary, `false` for a note on the removed messages.
        summary: bool,
    },
    /// A tool result is shown as a placeholder.
    Placeholder {
        /// The position of the result's [`EventBody::ToolFinished`].
        seq: Seq,
        /// The lines of the result that stay visible below the handle; empty for none.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        excerpt: String,
        /// `true` if the excerpt is the start and the end of a result that was too long to be shown whole.
        #[serde(default, skip_serializing_if = "is_false")]
        cut: bool,
    },
}

/// Returns whether a flag is not set. Unset flags are not stored, as in logs of earlier versions.
// By reference, because `skip_serializing_if` passes one.
fn is_false(flag: &bool) -> bool {
    !flag
}

impl ViewOperation {
    /// Creates the operation that clears the tool result at a position.
    pub fn clear(seq: Seq) -> Self {
        Self::Placeholder { seq, excerpt: String::new(), cut: false }
    }

    /// Returns the positions that the operation changes.
    pub fn range(&self) -> LogRange {
        match self {
            Self::Drop { range } | Self::Replace { range, .. } => *range,
            Self::Placeholder { seq, .. } => LogRange::one(*seq),
        }
    }
}

/// The kind of an edit: prune or compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EditKind {
    /// Old tool results became placeholders.
    Prune,
    /// A part of the conversation became a summary or a note.
    Compaction,
}

/// The cause of an edit.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EditReason {
    /// The meter reached the trigger.
    TokenLimit,
    /// The provider refused the request as too long.
    OverflowError,
    /// The new model's window is smaller.
    ModelSwitch,
    /// A user or client asked for the edit.
    Requested,
}

impl EditReason {
    /// Returns the reason's stable name, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TokenLimit => "token_limit",
            Self::OverflowError => "overflow_error",
            Self::ModelSwitch => "model_switch",
            Self::Requested => "requested",
        }
    }
}

/// The reason why a run ended.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RunEnd {
    /// The answer was complete, and the queue was empty.
    Stop,
    /// The step limit was reached.
    MaxSteps,
    /// A caller cancelled the run.
    Cancelled,
    /// The time limit was reached.
    Timeout,
    /// The model repeated itself and did not stop after a warning.
    LoopDetected,
    /// The model ran into the output limit.
    Length,
    /// An operation failed; the error says which.
    Error,
}

impl RunEnd {
    /// Returns the reason's stable name, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::MaxSteps => "max-steps",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::LoopDetected => "loop-detected",
            Self::Length => "length",
            Self::Error => "error",
        }
    }
}

/// An error in the form that is stored and shown.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// The error, as a caller decides on it.
    pub code: ErrorCode,
    /// The error in words.
    pub message: String,
}

impl Event {
    /// Returns the stored form of an event: one JSON object.
    ///
    /// # Errors
    /// Never in practice; [`serde_json::Error`] is passed on rather than hidden.
    pub fn encode_body(body: &EventBody) -> Result<String, serde_json::Error> {
        serde_json::to_string(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_names_are_those_of_json() {
        let ends = [
            RunEnd::Stop,
            RunEnd::MaxSteps,
            RunEnd::Cancelled,
            RunEnd::Timeout,
            RunEnd::LoopDetected,
            RunEnd::Length,
            RunEnd::Error,
        ];
        for end in ends {
            assert_eq!(serde_json::json!(end), end.as_str());
        }
        let reasons = [
            EditReason::TokenLimit,
            EditReason::OverflowError,
            EditReason::ModelSwitch,
            EditReason::Requested,
        ];
        for reason in reasons {
            assert_eq!(serde_json::json!(reason), reason.as_str());
        }
    }
}
