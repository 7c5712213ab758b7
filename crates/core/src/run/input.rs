//! What the driver tells the loop.

use super::{AppendId, PreCompactOutput, RunTimer};
use crate::error::ErrorCode;
use crate::event::{Event, EventBody};
use crate::ids::ApprovalId;
use crate::message::{ModelAnswer, Part, ToolResult};
use crate::orders::tool::PinArguments;
use crate::queue::QueuedMessage;
use crate::refusal::PartRefusal;
use crate::usage::Usage;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum RunLoopInput {
    /// A message was queued.
    Wake,
    /// Somebody asks to go on: with what waits, or with what was left unanswered.
    Resume,
    /// The waiting messages, oldest first.
    QueueRead(Vec<QueuedMessage>),
    /// The events are durable.
    Appended {
        /// Which append.
        id: AppendId,
        /// As stored.
        events: Vec<Event>,
    },
    /// Nothing was appended: a queue entry was edited away in between.
    QueueChanged {
        /// Which append.
        id: AppendId,
    },
    /// The server's count of the next request, in tokens; `None` if it gave none.
    Counted(Option<u64>),
    /// The first event of the answer has come.
    ModelBegan,
    /// The model has answered.
    ModelAnswered(ModelAnswer),
    /// The model call failed.
    ModelFailed {
        /// How.
        failure: ModelCallFailure,
        /// What had come until then.
        partial: Vec<Part>,
    },
    /// The model call was stopped as asked.
    ModelStopped {
        /// What had come until then: text as far as it was, reasoning and calls only if complete.
        partial: Vec<Part>,
        /// What was used, if the provider had said.
        usage: Option<Usage>,
    },
    /// The model call was stopped where it was asked to pause.
    ModelPaused {
        /// What had come until then. The last of it is text, and more is to follow.
        partial: Vec<Part>,
        /// What was used, if the provider had said.
        usage: Option<Usage>,
    },
    /// The summariser has answered, failed, or was stopped.
    Summarised {
        /// Which request.
        task: u64,
        /// What it said.
        answer: Result<ModelAnswer, ModelCallFailure>,
    },
    /// The hook that was asked about a compaction has answered; `None` if it failed or was late.
    PreCompactAnswered {
        /// Which question.
        task: u64,
        /// What it said.
        answer: Option<PreCompactOutput>,
    },
    /// A tool has ended.
    ToolEnded(ToolResult),
    /// A call of `pin` has passed its hooks. What it gives is decided here.
    PinEnded {
        /// Its result; the first part of its content is a placeholder for the answer.
        result: ToolResult,
        /// What it asks for.
        request: PinArguments,
    },
    /// An approval was decided.
    Decided {
        /// Which.
        approval_id: ApprovalId,
        /// Whether the tool may run.
        allowed: bool,
        /// Why not, for the model.
        reason: Option<String>,
    },
    /// A timer has run down.
    TimerFired(RunTimer),
    /// Somebody asks for the next attempt at once, while a server is waited for.
    RetryNow,
    /// Somebody cancels the run.
    Cancel,
    /// Somebody asks for a compaction.
    Compact {
        /// What the summary should mind.
        instructions: Option<String>,
    },
    /// Store these facts (title, undo, release, switch). Only while idle.
    Record(Vec<EventBody>),
    /// Store these changes of standing orders at once, whatever goes on: the view stays as it is.
    RecordOrders(Vec<EventBody>),
    /// Store these facts (a switch) as soon as no step is going on: at once while idle, else before the next step.
    RecordSoon(Vec<EventBody>),
    /// The process that ran the open run is gone.
    Recover {
        /// The text of the answer that was streaming, as far as it was persisted.
        partial: Option<String>,
    },
}

/// A failed model call.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCallFailure {
    /// What went wrong, as a caller decides on it.
    pub code: ErrorCode,
    /// What went wrong, in words.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// How long the provider asked to wait.
    pub retry_after_ms: Option<u64>,
    /// Whether the server says that the model takes no tools.
    pub refuses_tools: bool,
    /// What the error says of the part that it is about, if the same request would be refused again.
    pub refusal: Option<Box<PartRefusal>>,
    /// Input tokens that the error named.
    pub used_tokens: Option<u64>,
    /// The limit that the error named.
    pub limit_tokens: Option<u64>,
    /// What was used all the same.
    pub usage: Option<Usage>,
}

impl ModelCallFailure {
    /// A failure without details.
    pub fn new(code: ErrorCode, message: impl Into<String>, retryable: bool) -> Self {
        Self {
            code,
            message: message.into(),
            retryable,
            retry_after_ms: None,
            refuses_tools: false,
            refusal: None,
            used_tokens: None,
            limit_tokens: None,
            usage: None,
        }
    }
}
