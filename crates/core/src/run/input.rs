//! The inputs of the loop, which the driver sends.

use super::{AppendId, PreCompactOutput, RunTimer};
use crate::error::ErrorCode;
use crate::event::{Event, EventBody};
use crate::ids::ApprovalId;
use crate::message::{ModelAnswer, Part, ToolResult};
use crate::orders::tool::PinArguments;
use crate::queue::QueuedMessage;
use crate::refusal::PartRefusal;
use crate::repetition::Repetition;
use crate::usage::Usage;

/// One input of the loop.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RunLoopInput {
    /// A message was queued.
    Wake,
    /// A user asks to resume, with the waiting messages or with the unanswered ones.
    Resume,
    /// The waiting messages, oldest first.
    QueueRead(Vec<QueuedMessage>),
    /// The events are durable.
    Appended {
        /// The append's name.
        id: AppendId,
        /// The events as stored.
        events: Vec<Event>,
    },
    /// Nothing was appended: a queue entry was edited away in between.
    QueueChanged {
        /// The append's name.
        id: AppendId,
    },
    /// The server's count of the next request, in tokens; `None` without a count.
    Counted(Option<u64>),
    /// The first event of the answer has arrived.
    ModelBegan,
    /// The model has answered.
    ModelAnswered(ModelAnswer),
    /// The model call failed.
    ModelFailed {
        /// The failure.
        failure: ModelCallFailure,
        /// The parts that arrived before the failure.
        partial: Vec<Part>,
    },
    /// The model call was stopped as asked.
    ModelStopped {
        /// The parts that arrived before the stop: text in any state, reasoning and calls only if complete.
        partial: Vec<Part>,
        /// The usage, if the provider had reported it.
        usage: Option<Usage>,
    },
    /// The model call was stopped at the requested pause.
    ModelPaused {
        /// The parts that arrived before the pause. The last part is text, and more is to follow.
        partial: Vec<Part>,
        /// The usage, if the provider had reported it.
        usage: Option<Usage>,
    },
    /// The model call was stopped, because the answer repeated one passage without end.
    ModelRepeated {
        /// The repetition at the end of the answer.
        repetition: Repetition,
        /// The parts that arrived before the stop.
        partial: Vec<Part>,
        /// The usage, if the provider had reported it.
        usage: Option<Usage>,
    },
    /// The summariser has answered, failed, or was stopped.
    Summarised {
        /// The task of the request.
        task: u64,
        /// The answer or the failure.
        answer: Result<ModelAnswer, ModelCallFailure>,
    },
    /// The hook that was asked about a compaction has answered; `None` if the hook failed or was late.
    PreCompactAnswered {
        /// The task of the question.
        task: u64,
        /// The hook's answer.
        answer: Option<PreCompactOutput>,
    },
    /// A tool has ended.
    ToolEnded(ToolResult),
    /// A call of `pin` has passed all hooks. The loop decides the call's result.
    PinEnded {
        /// The call's result; the first part of its content is a placeholder for the answer.
        result: ToolResult,
        /// The change of standing orders that the call asks for.
        request: PinArguments,
    },
    /// An approval was decided.
    Decided {
        /// The approval's name.
        approval_id: ApprovalId,
        /// The decision: `true` if the tool may run.
        allowed: bool,
        /// The reason of a refusal, for the model.
        reason: Option<String>,
    },
    /// A timer has run down.
    TimerFired(RunTimer),
    /// A user asks for the next attempt at once, while the loop waits for a server.
    RetryNow,
    /// A user cancels the run.
    Cancel,
    /// A user asks for a compaction.
    Compact {
        /// The user's instructions for the summary.
        instructions: Option<String>,
    },
    /// Store these facts (title, undo, release, switch). Only while idle.
    Record(Vec<EventBody>),
    /// Store these changes of standing orders at once, even during a step: the view stays unchanged.
    RecordOrders(Vec<EventBody>),
    /// Store these facts (a switch) as soon as no step is open: at once while idle, else before the next step.
    RecordSoon(Vec<EventBody>),
    /// The process that ran the open run is gone.
    Recover {
        /// The persisted text of the answer that was streaming.
        partial: Option<String>,
    },
}

/// A failed model call.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCallFailure {
    /// The error, as a caller decides on it.
    pub code: ErrorCode,
    /// The error in words.
    pub message: String,
    /// `true` if the same request may succeed later.
    pub retryable: bool,
    /// The wait that the provider asked for, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// `true` if the server had begun to answer, and the answer broke off or held nothing.
    pub broke_off: bool,
    /// `true` for a refusal without any reason, as many proxies make in passing. The same request may succeed.
    pub gives_no_reason: bool,
    /// `true` if the error is about the text that the model wrote, so that the same request may succeed at once.
    pub is_bad_sample: bool,
    /// `true` if the server says that the model takes no tools.
    pub refuses_tools: bool,
    /// The parameter of the request that the error refuses by name.
    pub refused_parameter: Option<String>,
    /// The model's own output limit in tokens, if the error refuses a higher one.
    pub output_limit: Option<u64>,
    /// The part that the error refers to, if the same request would be refused again.
    pub refusal: Option<Box<PartRefusal>>,
    /// Input tokens that the error named.
    pub used_tokens: Option<u64>,
    /// The limit that the error named.
    pub limit_tokens: Option<u64>,
    /// The usage that the provider reported in spite of the failure.
    pub usage: Option<Usage>,
}

impl ModelCallFailure {
    /// Creates a failure without details.
    pub fn new(code: ErrorCode, message: impl Into<String>, retryable: bool) -> Self {
        Self {
            code,
            message: message.into(),
            retryable,
            retry_after_ms: None,
            broke_off: false,
            gives_no_reason: false,
            is_bad_sample: false,
            refuses_tools: false,
            refused_parameter: None,
            output_limit: None,
            refusal: None,
            used_tokens: None,
            limit_tokens: None,
            usage: None,
        }
    }
}
