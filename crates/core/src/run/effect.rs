//! The effects that the driver performs for the loop.

use super::hook::PreCompactInput;
use super::server_wait::ServerWait;
use crate::event::{EditReason, EventBody, RunEnd, ViewEdit};
use crate::ids::{ApprovalId, QueueId, StepId};
use crate::message::ToolCall;
use crate::plan::SummaryRequest;
use crate::truncate::TextLimit;

/// The name of an append until the events are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppendId(pub u64);

/// One effect to perform. Several effects may be in flight.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEffect {
    /// Append these events durably, in one transaction with the queue entries that they take. Then answer `Appended`,
    /// or `QueueChanged` if an entry is gone.
    Append {
        /// The append's name.
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
    /// Have the server count the request for the session's view; answer `Counted`.
    Count {
        /// `true` if the model may call tools. The request carries the tools either way, if the model takes any.
        tools: bool,
    },
    /// Call the model with the session's view; answer `ModelBegan` once and then `ModelAnswered`, `ModelFailed`,
    /// `ModelRepeated` or, where the call may pause, `ModelPaused`. If the view ends with an answer, the model
    /// continues that answer word for word.
    CallModel {
        /// The step.
        step: StepId,
        /// `true` if the model may call tools. The request carries the tools either way, if the model takes any: the
        /// request keeps its beginning, and some providers refuse calls in a conversation without tools.
        tools: bool,
        /// The limit of the answer.
        max_output_tokens: u64,
        /// The size, by our count, at which to stop the text of the answer. The call never stops before there is text,
        /// inside reasoning, or once a tool was asked for.
        pause_at_tokens: Option<u64>,
    },
    /// Call the summariser; answer `Summarised` with the same task.
    Summarise {
        /// The task's name.
        task: u64,
        /// `true` if work continues meanwhile: then [`StopModel`](Self::StopModel) does not concern the summary.
        ahead: bool,
        /// The request for the summary.
        request: SummaryRequest,
    },
    /// Stop a background summary, without a wait for the answer.
    StopSummary {
        /// The task of the summary.
        task: u64,
    },
    /// Ask the hook about a compaction; answer `PreCompactAnswered` with the same task.
    AskPreCompact {
        /// The task's name.
        task: u64,
        /// The input of the hook.
        ask: Box<PreCompactInput>,
    },
    /// Stop the model call in flight. Answer `ModelStopped`, `Summarised` with an error for a summary, or `Counted`
    /// without a count for a count. If the call has just ended by itself, its own answer counts.
    StopModel,
    /// Run a tool; answer `ToolEnded`.
    RunTool {
        /// The call.
        call: ToolCall,
        /// The limit of the output that the model may be shown.
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
    /// Start a timer and answer `TimerFired` after this time. The same timer again replaces the earlier one.
    StartTimer {
        /// The timer.
        timer: RunTimer,
        /// The delay from now, in milliseconds.
        after_ms: u64,
    },
    /// The timer is not needed any more.
    StopTimer {
        /// The timer.
        timer: RunTimer,
    },
    /// Notify watchers; nothing is stored.
    Notice(RunNotice),
    /// A compaction on request is over.
    CompactionDone(CompactionOutcome),
    /// The run is over, the end is stored, and the session is idle.
    RunEnded(RunEnd),
    /// There was nothing to do.
    Rested,
}

/// A timer of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
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
    /// The wait for a background summary, or for the hook's answer about the summary.
    Ahead,
}

/// A notice to watchers that is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunNotice {
    /// A summary is being written.
    Compacting {
        /// The strategy that compacts.
        strategy: String,
        /// The cause of the compaction.
        reason: EditReason,
        /// The trigger that fired, in tokens.
        trigger_tokens: u64,
    },
    /// The call failed, and the loop will repeat the call.
    Waiting(ServerWait),
}

/// The outcome of a compaction on request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CompactionOutcome {
    /// The compaction is stored.
    Committed(Box<ViewEdit>),
    /// Nothing can be dropped, or nothing would be gained.
    NothingToDo,
    /// The compaction cannot be done now, for the given reason.
    Refused(String),
}
