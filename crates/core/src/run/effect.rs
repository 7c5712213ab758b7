//! What the driver does for the loop.

use super::hook::PreCompactInput;
use super::waiting::ServerWait;
use crate::event::{EditReason, EventBody, RunEnd, ViewEdit};
use crate::ids::{ApprovalId, QueueId, StepId};
use crate::message::ToolCall;
use crate::plan::SummaryRequest;
use crate::truncate::TextLimit;

/// Names an append until it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppendId(pub u64);

/// One thing to do. Several may be in flight.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEffect {
    /// Append these events durably, in one transaction with the queue entries they take; then answer
    /// `Appended`, or `QueueChanged` if an entry is gone.
    Append {
        /// Names it.
        id: AppendId,
        /// The events.
        events: Vec<EventBody>,
        /// Queue entries that the events take.
        takes: Vec<QueueId>,
        /// Steps whose streamed chunks are superfluous from then on.
        settles: Vec<StepId>,
    },
    /// Read the waiting messages; answer `QueueRead`.
    ReadQueue,
    /// Have the server count the request that the session's view makes; answer `Counted`.
    Count {
        /// Whether the model may call tools; they are in it either way, if the model takes any.
        tools: bool,
    },
    /// Call the model with the session's view; answer `ModelBegan` once and then `ModelAnswered`, `ModelFailed` or,
    /// where it may pause, `ModelPaused`. A view that ends with an answer is to be gone on with, word for word.
    CallModel {
        /// The step.
        step: StepId,
        /// Whether the model may call tools; they are sent either way, if the model takes any: the request keeps
        /// its beginning, and some providers refuse calls in a conversation without tools.
        tools: bool,
        /// The answer's limit.
        max_output_tokens: u64,
        /// Stop it when the text that came has so many tokens by our count, but never before there is text, inside
        /// reasoning, or once a tool was asked for.
        pause_at_tokens: Option<u64>,
    },
    /// Call the summariser; answer `Summarised` with the same task.
    Summarise {
        /// Names it.
        task: u64,
        /// Whether work goes on meanwhile: then [`StopModel`](Self::StopModel) does not concern it.
        ahead: bool,
        /// What it is asked.
        request: SummaryRequest,
    },
    /// Stop a summary that is written ahead; its answer is not waited for.
    StopSummary {
        /// Which.
        task: u64,
    },
    /// Ask the hook about a compaction; answer `PreCompactAnswered` with the same task.
    AskPreCompact {
        /// Names it.
        task: u64,
        /// What it is told.
        ask: Box<PreCompactInput>,
    },
    /// Stop the model call in flight; answer `ModelStopped`, `Summarised` with an error for a summary, `Counted`
    /// without a count for a count. If it has just ended by itself its own answer stands.
    StopModel,
    /// Run a tool; answer `ToolEnded`.
    RunTool {
        /// The call.
        call: ToolCall,
        /// What of its output the model may be shown.
        limit: TextLimit,
    },
    /// Tell running tools to stop; each still answers `ToolEnded`.
    StopTools,
    /// Ask a person; answer `Decided`.
    AskApproval {
        /// The question.
        approval_id: ApprovalId,
        /// The call.
        call: ToolCall,
    },
    /// Answer `TimerFired` after this time. The same timer again replaces it.
    StartTimer {
        /// Which.
        timer: RunTimer,
        /// When, from now.
        after_ms: u64,
    },
    /// The timer is not needed any more.
    StopTimer {
        /// Which.
        timer: RunTimer,
    },
    /// Tell watchers; nothing is stored.
    Notice(RunNotice),
    /// A compaction on request is over.
    CompactionDone(CompactionOutcome),
    /// The run is over, its end is stored, the session idle.
    RunEnded(RunEnd),
    /// There was nothing to do.
    Rested,
}

/// A clock that the loop waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunTimer {
    /// The run's time.
    Run,
    /// The recovery step's time.
    RecoveryStep,
    /// The wait before the next attempt.
    Retry,
    /// The end of [`RetryPolicy::patience_ms`](crate::attempt::RetryPolicy::patience_ms).
    Patience,
    /// The wait for a summary.
    Summary,
    /// The wait for a hook.
    Hook,
    /// The wait for a summary that is written ahead, or for the hook that is asked about it.
    Ahead,
}

/// What watchers are told in passing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunNotice {
    /// A summary is being written.
    Compacting {
        /// By which strategy.
        strategy: String,
        /// Why.
        reason: EditReason,
        /// The trigger that fired, in tokens.
        trigger_tokens: u64,
    },
    /// The call failed and will be made again.
    Waiting(ServerWait),
}

/// How a compaction on request ended.
#[derive(Clone, Debug, PartialEq)]
pub enum CompactionOutcome {
    /// It is stored.
    Committed(Box<ViewEdit>),
    /// Nothing can be left out, or nothing would be gained.
    NothingToDo,
    /// It cannot be done now.
    Refused(String),
}
