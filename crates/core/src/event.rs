//! Everything that is ever stored.
//!
//! The log of a session is a list of [`Event`]s and the only truth about it; [`History`](crate::history)
//! is folded from it. Events are never edited and never deleted. Every stored event carries its
//! [`FORMAT`]; formats of earlier versions stay readable.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::ErrorCode;
use crate::ids::{
    ApprovalId, CallId, EditId, LogRange, Millis, OrderId, QueueId, RunId, Seq, SessionId, StepId,
};
use crate::message::{Message, ModelOrigin, ModelStopReason, Part, RawJson, ToolResult};
use crate::metadata::MessageMetadata;
use crate::orders::OrderSource;
use crate::usage::Usage;

/// Version of the stored format that this build writes.
pub const FORMAT: u16 = 1;

/// One stored fact of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its position in the log: 1, 2, 3 … without gaps.
    pub seq: Seq,
    /// When it was appended, milliseconds since the Unix epoch.
    pub at: Millis,
    /// The format it was written in.
    pub format: u16,
    /// What happened.
    pub body: EventBody,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum EventBody {
    /// The session began. Always the first event of a log.
    SessionStarted {
        /// Its title, if one was given.
        title: Option<String>,
        /// The session it was forked from, and the last position they share.
        forked_from: Option<ForkOrigin>,
        /// The file format it was imported from.
        imported_from: Option<String>,
    },
    /// Queued messages entered the conversation as one user message.
    MessagesTaken {
        /// The message.
        message: Message,
        /// The queue entries it is made of, oldest first; empty for imported messages.
        taken: Vec<QueueId>,
        /// Present when more than one entry was taken.
        coalesced: Option<CoalescedMessages>,
        /// The metadata that a client sent along with the only entry. That of several is in `coalesced`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<MessageMetadata>,
    },
    /// The runtime told the model something. A user-role message that nobody typed.
    NoteAdded {
        /// The message.
        message: Message,
        /// Why.
        why: NoteReason,
    },
    /// A run began.
    RunStarted {
        /// Its name.
        run_id: RunId,
    },
    /// The server has counted the next request.
    InputCounted {
        /// Its input, in tokens.
        tokens: u64,
        /// Estimated tokens of system prompt and tools in it.
        fixed_tokens: u64,
    },
    /// A model call is about to be made.
    StepStarted(Box<StepStart>),
    /// The model answered, wholly or in part.
    AssistantAdded {
        /// The step that made it.
        step_id: StepId,
        /// The message.
        message: Message,
        /// Why the model stopped.
        finish: ModelStopReason,
        /// Set when the answer was cut off.
        cut: Option<PartialAnswerReason>,
    },
    /// The model call of a step is over and gave an answer.
    StepFinished {
        /// The step.
        step_id: StepId,
        /// What the provider reported; `None` if it reported nothing.
        usage: Option<Usage>,
        /// What the meter had expected the input to be, in tokens.
        estimated_input: u64,
        /// What the provider said of the answer as a whole, if it said anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        envelope: Option<RawJson>,
    },
    /// The model call of a step gave no answer.
    StepFailed {
        /// The step.
        step_id: StepId,
        /// What went wrong, as a caller decides on it.
        code: ErrorCode,
        /// What went wrong, in words.
        message: String,
        /// Input tokens that the provider's error named, if it did.
        used_tokens: Option<u64>,
        /// The limit that the provider's error named, if it did: the window, learned.
        limit_tokens: Option<u64>,
        /// What the provider reported all the same, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// A tool is about to run. Stored before its side effect.
    ToolStarted {
        /// The call.
        call_id: CallId,
    },
    /// A tool call ended, one way or another.
    ToolFinished {
        /// How, and with what.
        result: ToolResult,
    },
    /// A person is asked whether a tool may run.
    ApprovalRequested {
        /// The question.
        approval_id: ApprovalId,
        /// The call it is about.
        call_id: CallId,
    },
    /// The question was answered, by a person, a rule or a clock.
    ApprovalResolved {
        /// The question.
        approval_id: ApprovalId,
        /// The call it is about.
        call_id: CallId,
        /// Whether the tool may run.
        allowed: bool,
        /// Why not, for the model.
        reason: Option<String>,
    },
    /// The view changed: messages were pruned or compacted. The log keeps them.
    ViewEdited(Box<ViewEdit>),
    /// An edit of the view, or an omission of refused parts, was undone.
    ViewRestored {
        /// The edit or omission.
        edit_id: EditId,
    },
    /// Parts of the conversation that the model's server refuses are not shown to the model any more. The log keeps
    /// them. [`EventBody::ViewRestored`] puts them back.
    PartsOmitted {
        /// The omission's name, by which it is undone.
        edit_id: EditId,
        /// The parts that are left out.
        parts: Vec<OmittedPart>,
        /// The server's words.
        reason: String,
    },
    /// What an undone edit had covered may be compacted automatically again.
    RangeReleased {
        /// The undone edit.
        edit_id: EditId,
    },
    /// A compaction was tried and not committed.
    CompactionFailed {
        /// The strategy that tried.
        strategy: String,
        /// What went wrong, as a caller decides on it.
        code: ErrorCode,
        /// What went wrong, in words.
        reason: String,
        /// What it cost, if a model was called.
        usage: Option<Usage>,
    },
    /// The session talks to another model from here on.
    ModelSwitched {
        /// The model.
        to: ModelOrigin,
        /// What somebody chose; `None` if the session's agent merely has another model now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        choice: Option<ModelChoice>,
    },
    /// A run ended and the session is idle.
    RunFinished {
        /// The run.
        run_id: RunId,
        /// Why it ended.
        reason: RunEnd,
        /// Present when it ended with an error.
        error: Option<ErrorInfo>,
    },
    /// The process that ran the session had ended without finishing; this one took over.
    Recovered {
        /// What was found, in words.
        cause: String,
        /// Recoveries since the last completed step, this one included.
        attempts: u32,
    },
    /// The session waits for a person: automatic recovery was tried as often as is useful.
    Parked {
        /// Why, and how to go on.
        reason: String,
    },
    /// The session got another title.
    TitleSet {
        /// The title.
        title: String,
    },
    /// An instruction holds from here on, beyond the next answer.
    OrderPinned {
        /// Its name.
        order_id: OrderId,
        /// Its text, as it was given.
        text: String,
        /// Who made it.
        source: OrderSource,
        /// The message it was said in, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Seq>,
        /// The order that it takes the place of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<OrderId>,
    },
    /// A standing order has another text.
    OrderEdited {
        /// The order.
        order_id: OrderId,
        /// Its text from here on.
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
}

/// Where a forked session comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkOrigin {
    /// The session it was forked from.
    pub session_id: SessionId,
    /// The last event they share.
    pub at_seq: Seq,
}

/// Whose agent a session has, and which model, by names that whoever runs the session knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelChoice {
    /// The agent; `None` is the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model; `None` is the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// How several queued messages became one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CoalescedMessages {
    /// How many.
    pub message_count: usize,
    /// Which, oldest first.
    pub original_messages: Vec<QueueId>,
    /// When the oldest was queued.
    pub first_queued_at: Millis,
    /// When the newest was queued.
    pub last_queued_at: Millis,
    /// The metadata of those that have any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub original_metadata: BTreeMap<QueueId, MessageMetadata>,
}

/// Why the runtime told the model something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteReason {
    /// The same call gave the same result too often.
    Loop,
    /// The run's time is over: state where you stand.
    TimeUp,
    /// Part of an imported conversation.
    Imported,
    /// What a compaction left out and is spoken of now.
    Recalled,
    /// Standing orders were pinned, changed or removed since the model was last told of them.
    Orders,
    /// The answer before broke off, and the model cannot simply continue its text.
    BrokenOff,
}

/// What a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepKind {
    /// The work.
    Main,
    /// The one step after a run's time-out, in which no tool may be called.
    Recovery,
}

/// What is sent in a step, in figures and hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepStart {
    /// The step.
    pub step_id: StepId,
    /// The run it belongs to.
    pub run_id: RunId,
    /// What it is for.
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
    /// What the meter expects the input to be, in tokens.
    pub estimated_input: u64,
    /// The output limit sent, in tokens.
    pub max_output_tokens: u64,
    /// The window as it was declared or discovered, in tokens; `None` if it was only assumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_tokens: Option<u64>,
}

/// Why an answer is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartialAnswerReason {
    /// The run was cancelled: the model sees the text that was there.
    Cancelled,
    /// The stream failed or the process ended: shown to people only.
    Lost,
    /// The answer goes on in the next one that is added, word for word: we stopped it to make room, or its stream broke
    /// off (then [`EventBody::StepFailed`] follows).
    Paused,
}

/// An edit of the view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewEdit {
    /// Its name.
    pub id: EditId,
    /// Hash of the view it was planned for.
    pub base_view_hash: String,
    /// What changes.
    pub ops: Vec<ViewOperation>,
    /// Whether it only cleared old tool results. Stored under another name: `kind` is the event's own.
    #[serde(rename = "editKind")]
    pub kind: EditKind,
    /// The strategy that planned it, for example `reactive-overflow`.
    pub strategy: String,
    /// What made it necessary.
    pub reason: EditReason,
    /// The trigger that fired, in tokens.
    pub trigger_tokens: u64,
    /// Tokens of the whole request before, by the meter.
    pub original_tokens: u64,
    /// Tokens of the whole request after, by the meter (an estimate).
    pub compressed_tokens: u64,
    /// `original_tokens` with the expected error: what was compared with the trigger.
    #[serde(default)]
    pub original_bound: u64,
    /// `compressed_tokens` with the expected error: what was compared with the trigger.
    #[serde(default)]
    pub compressed_bound: u64,
    /// Messages in the view before.
    pub original_messages: u64,
    /// Messages in the view after.
    pub compressed_messages: u64,
    /// The choice, in words.
    pub why: String,
    /// What the summary cost, if a model wrote one.
    pub usage: Option<Usage>,
    /// How the check of the model's answers ended, if a model was asked for a summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<SummaryCheck>,
}

/// A part of a request that is left out because the model's server refuses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
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
pub struct SummaryCheck {
    /// Whether the edit has a summary that passed the check; `false` for an extract in its place.
    pub checked: bool,
    /// Why earlier answers were refused, in words, oldest first.
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
        /// That message's parts.
        parts: Vec<Part>,
        /// Whether it is a summary (else a note on what was removed).
        summary: bool,
    },
    /// A tool result is shown as a placeholder.
    Placeholder {
        /// The position of its [`EventBody::ToolFinished`].
        seq: Seq,
        /// What is shown of it all the same, below the handle; empty for nothing.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        excerpt: String,
        /// Whether the excerpt is the start and the end of the result itself, which was too long to be shown whole.
        #[serde(default, skip_serializing_if = "is_false")]
        cut: bool,
    },
}

/// Returns whether a flag is not set: then it is not stored.
fn is_false(flag: &bool) -> bool {
    !flag
}

impl ViewOperation {
    /// Clears the tool result at that position.
    pub fn clear(seq: Seq) -> Self {
        Self::Placeholder { seq, excerpt: String::new(), cut: false }
    }

    /// The positions it touches.
    pub fn range(&self) -> LogRange {
        match self {
            Self::Drop { range } | Self::Replace { range, .. } => *range,
            Self::Placeholder { seq, .. } => LogRange::one(*seq),
        }
    }
}

/// Prune or compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EditKind {
    /// Old tool results became placeholders.
    Prune,
    /// A part of the conversation became a summary or a note.
    Compaction,
}

/// What made an edit necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EditReason {
    /// The meter reached the trigger.
    TokenLimit,
    /// The provider said that the request was too long.
    OverflowError,
    /// The new model's window is smaller.
    ModelSwitch,
    /// Somebody asked for it.
    Requested,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// The model was done and the queue empty.
    Stop,
    /// The step limit was reached.
    MaxSteps,
    /// The caller cancelled.
    Cancelled,
    /// The time limit was reached.
    Timeout,
    /// The model repeated itself and did not stop when told.
    LoopDetected,
    /// The model ran into its output limit.
    Length,
    /// Something failed; see the error.
    Error,
}

/// An error as it is stored and shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// What went wrong, as a caller decides on it.
    pub code: ErrorCode,
    /// What went wrong, in words.
    pub message: String,
}

impl Event {
    /// The stored form: one JSON object.
    ///
    /// # Errors
    /// Never in practice; [`serde_json::Error`] is passed on rather than hidden.
    pub fn encode_body(body: &EventBody) -> Result<String, serde_json::Error> {
        serde_json::to_string(body)
    }
}
