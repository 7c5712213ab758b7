//! The state of the loop: the phase, the appends in flight, and the events and wishes that wait for a boundary.

use std::collections::BTreeMap;

use super::session::SessionState;
use super::tools::StepToolCalls;
use super::{AppendId, RunEffect, RunTimer, ServerWait, pausing};
use crate::event::{ErrorInfo, EventBody, RunEnd, StepKind, StepStart, ViewEdit};
use crate::ids::{CallId, EditId, Millis, Seq, StepId};
use crate::message::ModelStopReason;
use crate::plan::{Plan, PlanTrigger};
use crate::shortening::SummaryWriting;

/// The state of the loop, without the compactions.
#[derive(Clone, Debug)]
pub(super) struct LoopState {
    /// The settings and the history.
    pub(super) session: SessionState,
    pub(super) phase: RunPhase,
    /// The stop that waits for the next boundary.
    pub(super) stop: Option<RunStopCause>,
    pub(super) step: StepGuards,
    /// The continuation of each append in flight.
    pub(super) pending: BTreeMap<AppendId, AppendContinuation>,
    next_append: u64,
    next_task: u64,
    /// Events that are recorded between two steps.
    pub(super) soon: Vec<EventBody>,
    /// `true` if a message was queued during the present work.
    pub(super) woken: bool,
    /// `true` if a user has asked to resume a session at rest.
    pub(super) resuming: bool,
    /// The time of the newest event's append: as near to now as the loop needs to know.
    pub(super) now: Millis,
}

/// The phase of the loop.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RunPhase {
    Idle,
    ReadingQueue,
    /// The server counts; the continuation follows.
    Counting(CountContinuation),
    /// An append is in flight, and nothing else.
    Storing,
    Calling {
        step: StepId,
        began: bool,
    },
    /// The loop waits for the next attempt.
    Waiting {
        /// The step that the attempt repeats; `None` if the attempt is a new step.
        step: Option<StepId>,
        /// The failure, and the length of the wait.
        wait: ServerWait,
    },
    /// A hook is asked about a compaction.
    Asking {
        task: u64,
        plan: Box<Plan>,
        trigger: PlanTrigger,
    },
    Summarising {
        task: u64,
        writing: Box<SummaryWriting>,
        trigger: PlanTrigger,
    },
    Tools(StepToolCalls),
}

/// The cause of a stop that is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunStopCause {
    Cancelled,
    Timeout,
}

/// Guards against repetition: actions that may happen only once per step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StepGuards {
    pub(super) compacted: bool,
    /// The number of times that the server refused the request as too long.
    pub(super) overflows: u32,
    /// The provider's words when the request was too long.
    pub(super) refusal: Option<String>,
    /// The output limit of the request that was refused as too long, in tokens.
    pub(super) refused_output: Option<u64>,
    /// Set once the unchanged view was sent again with a lower output limit.
    pub(super) has_lowered_output: bool,
    /// The view that the server was asked to count.
    pub(super) counted: Option<Seq>,
    /// Attempts that failed in the present outage.
    pub(super) outage_attempts: u32,
    /// Set when `retry.patience` has ended: the attempt in flight is the last one.
    pub(super) patience_is_over: bool,
    /// The number of broken answers of the step.
    pub(super) broken_answers: u32,
    /// The number of empty answers among them.
    pub(super) empty_answers: u32,
    /// The number of repetitions of the step without parts that the server refused.
    pub(super) omissions: u32,
    /// The number of repetitions of the step in a form that a refusal has taught.
    pub(super) remedies: u32,
    /// The omission that was made on a guess and is not confirmed yet.
    pub(super) guess: Option<EditId>,
    /// Set once the unchanged request was made again after a refusal that gave no reason.
    pub(super) has_repeated_refused: bool,
}

/// The continuation after a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountContinuation {
    Plan,
    Call,
}

/// The continuation after an append.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AppendContinuation {
    Begun,
    Boundary,
    Prepare,
    StartStep,
    Counted(CountContinuation),
    CallModel { step: StepId },
    AfterAnswer { finish: ModelStopReason },
    AfterOverflow,
    Wait(ServerWait),
    RunTool(CallId),
    AskApproval(CallId),
    ToolStored(CallId),
    Decided(CallId),
    ActOn { plan: Box<Plan>, trigger: PlanTrigger },
    Compact(PlanTrigger),
    Finish { end: RunEnd, error: Option<ErrorInfo> },
    Ended(RunEnd),
    Compacted(Box<ViewEdit>),
    Recovered,
    Recorded,
    OrdersStored,
}

impl LoopState {
    /// Returns the state of a loop at rest.
    pub(super) fn new(session: SessionState) -> Self {
        Self {
            session,
            phase: RunPhase::Idle,
            stop: None,
            step: StepGuards::default(),
            pending: BTreeMap::new(),
            next_append: 0,
            next_task: 0,
            soon: Vec::new(),
            woken: false,
            resuming: false,
            now: 0,
        }
    }

    /// Returns whether the loop is idle and no append is in flight.
    pub(super) fn is_at_rest(&self) -> bool {
        self.is_idle() && self.pending.is_empty()
    }

    /// Returns the name of a new task.
    pub(super) fn new_task(&mut self) -> u64 {
        self.next_task += 1;
        self.next_task
    }

    /// Stores the start of a step, unless the run ends here or the server counts first.
    pub(super) fn start_step(&mut self, out: &mut Vec<RunEffect>) {
        if self.stop_at_boundary(out) {
            return;
        }
        // Another model, or a refusal, leaves no way to get the rest of the paused answer.
        if self.session.history.is_paused() && !self.session.can_go_on() {
            return self.finish(RunEnd::Length, None, out);
        }
        if self.count_first(CountContinuation::Call, out) {
            return;
        }
        let Some(run) = self.session.history.open_run() else { return };
        let recovering = self.session.is_time_up();
        let settings = &self.session.settings;
        let step = StepId::new(format!("s{}", self.session.next_seq()));
        let start = StepStart {
            step_id: step.clone(),
            run_id: run.id.clone(),
            purpose: if recovering { StepKind::Recovery } else { StepKind::Main },
            model: settings.model.origin.clone(),
            system_hash: settings.fixed.system_hash.clone(),
            tools_hash: match settings.model.tools {
                true => settings.fixed.tools_hash_of(&self.session.history),
                false => String::new(),
            },
            view_hash: self.session.history.view_hash(),
            fixed_tokens: settings.fixed.tokens_of(&self.session.history),
            estimated_input: self.session.meter().total,
            max_output_tokens: pausing::output_limit(&self.session),
            window_tokens: settings.model.window,
        };
        // The start is durable before the request leaves, so that a recovery finds a call that a crash
        // interrupted.
        self.phase = RunPhase::Storing;
        self.append(
            vec![EventBody::StepStarted(Box::new(start))],
            AppendContinuation::CallModel { step },
            out,
        );
    }

    /// Asks the server for a count, if the settings want a count and the view has none. `next` is the
    /// continuation. Returns whether the server is asked.
    pub(super) fn count_first(&mut self, next: CountContinuation, out: &mut Vec<RunEffect>) -> bool {
        let view = self.session.history.view_changed_at();
        // One question for each view: a server that cannot count would be asked again and again.
        if !self.session.wants_count() || self.step.counted.replace(view) == Some(view) {
            return false;
        }
        let tools = self.session.settings.model.tools && !self.session.is_time_up();
        self.phase = RunPhase::Counting(next);
        out.push(RunEffect::Count { tools });
        true
    }

    /// Returns the wait for the model's server, if there is one now.
    pub(super) fn waiting(&self) -> Option<&ServerWait> {
        match &self.phase {
            RunPhase::Waiting { wait, .. } => Some(wait),
            _ => None,
        }
    }

    /// Returns whether the loop is idle.
    pub(super) fn is_idle(&self) -> bool {
        self.phase == RunPhase::Idle
    }

    /// Hands events to the store; `then` follows when they are durable.
    pub(super) fn append(
        &mut self,
        events: Vec<EventBody>,
        then: AppendContinuation,
        out: &mut Vec<RunEffect>,
    ) {
        self.append_with(events, Vec::new(), Vec::new(), then, out);
    }

    /// Hands events to the store, in one transaction with the queue entries that they take. `settles` are the
    /// steps whose streamed chunks are superfluous then, and `then` follows.
    pub(super) fn append_with(
        &mut self,
        events: Vec<EventBody>,
        takes: Vec<crate::ids::QueueId>,
        settles: Vec<StepId>,
        then: AppendContinuation,
        out: &mut Vec<RunEffect>,
    ) {
        // Numbers are never used again, so a late answer of the store meets no other continuation.
        let id = AppendId(self.next_append);
        self.next_append += 1;
        self.pending.insert(id, then);
        out.push(RunEffect::Append { id, events, takes, settles });
    }
}

impl StepGuards {
    /// Forgets the attempts of an outage.
    pub(super) fn end_outage(&mut self, out: &mut Vec<RunEffect>) {
        self.patience_is_over = false;
        if std::mem::take(&mut self.outage_attempts) > 0 {
            out.push(RunEffect::StopTimer { timer: RunTimer::Patience });
        }
    }

    /// Returns the refusal of the newest request, in words.
    pub(super) fn refusal(&self) -> String {
        let said = self.refusal.as_deref().unwrap_or("the request is too long");
        format!("the provider refused the request: {}", said.trim_end_matches('.'))
    }

    /// Returns the event that puts back a part that was left out on a wrong guess.
    pub(super) fn take_back_guess(&mut self) -> Option<EventBody> {
        self.guess.take().map(|edit_id| EventBody::ViewRestored { edit_id })
    }
}
