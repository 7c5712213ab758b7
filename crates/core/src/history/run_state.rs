//! The run: the step in progress, the tool calls without an outcome, and the end.

use std::collections::VecDeque;

use super::{LOOP_WINDOW, view};
use crate::event::{ErrorInfo, NoteReason, RunEnd, StepKind, StepStart};
use crate::ids::{ApprovalId, CallId, Millis, RunId};
use crate::message::{Message, ToolCall, ToolResult};
use crate::usage::Usage;

/// A run without an end in the log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OpenRun {
    /// The run's name.
    pub id: RunId,
    /// The time at which the run began.
    pub started_at: Millis,
    /// Number of steps begun so far.
    pub steps: u32,
    /// The step whose model call has no outcome yet.
    pub calling: Option<StepStart>,
    /// `true` once a note has told the model about the repetition.
    pub warned_of_loop: bool,
    /// `true` once a note has told the model that the run's time is over. One step without tools is left then.
    pub time_is_up: bool,
    /// `true` once the run's last step without tools was begun.
    pub recovering: bool,
    /// The usage of all steps of the run.
    pub usage: Usage,
    /// The time since which an approval is awaited, if any is.
    pub waiting_since: Option<Millis>,
    /// Time that earlier approvals took, in milliseconds.
    pub waited_ms: Millis,
}

/// A tool call without an outcome.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OpenToolCall {
    /// The call as the model wrote it.
    pub call: ToolCall,
    /// `true` once the call's start was stored. The side effect may have happened then.
    pub started: bool,
    /// The approval request that has no answer yet.
    pub approval: Option<ApprovalId>,
    /// The answer to the approval request: the permission, and the reason of a refusal.
    pub allowed: Option<(bool, Option<String>)>,
}

/// A finished tool call, in the form that loop detection remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecentToolCall {
    /// A hash that is equal for equal tools, arguments, statuses and contents.
    pub signature: u64,
    /// The tool's name.
    pub tool: String,
}

/// The open run, and the session's memory of the newest run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RunState {
    /// The run that has no end in the log yet.
    pub(super) open: Option<OpenRun>,
    /// The calls without an outcome, in call order.
    pub(super) open_calls: Vec<OpenToolCall>,
    /// The newest finished calls, oldest first.
    pub(super) recent_calls: VecDeque<RecentToolCall>,
    pub(super) last_end: Option<RunEnd>,
    /// The error of the newest finished run.
    pub(super) last_error: Option<ErrorInfo>,
    /// The number of recoveries since the last completed step.
    pub(super) recoveries: u32,
    /// The reason why the session waits for a person.
    pub(super) parked: Option<String>,
}

impl RunState {
    /// Begins a run.
    pub(super) fn begin_run(&mut self, run_id: &RunId, at: Millis) {
        self.last_end = None;
        self.last_error = None;
        self.parked = None;
        // A loop is a loop within one run: a new order may ask for the same calls again.
        self.recent_calls.clear();
        self.open = Some(OpenRun {
            id: run_id.clone(),
            started_at: at,
            steps: 0,
            calling: None,
            warned_of_loop: false,
            time_is_up: false,
            recovering: false,
            usage: Usage::default(),
            waiting_since: None,
            waited_ms: 0,
        });
    }

    /// Begins a step of the open run.
    pub(super) fn begin_step(&mut self, start: &StepStart) {
        if let Some(run) = &mut self.open {
            run.steps += 1;
            run.recovering |= start.purpose == StepKind::Recovery;
            run.calling = Some(start.clone());
        }
    }

    /// Returns the start of the step whose call has just ended.
    pub(super) fn end_call(&mut self) -> Option<StepStart> {
        self.open.as_mut().and_then(|run| run.calling.take())
    }

    /// Takes back a step whose call failed on its way. The call is made again, and a bad connection must not use up the
    /// steps of a run.
    pub(super) fn take_back_step(&mut self) {
        if let Some(run) = &mut self.open {
            run.steps = run.steps.saturating_sub(1);
        }
    }

    /// Begins the wait for an approval of a call.
    pub(super) fn begin_waiting(&mut self, call_id: &CallId, approval_id: &ApprovalId, at: Millis) {
        if let Some(run) = &mut self.open {
            // A step can ask about several calls at once. The wait counts once, from the first question on.
            run.waiting_since = run.waiting_since.or(Some(at));
        }
        if let Some(call) = self.open_call_mut(call_id) {
            call.approval = Some(approval_id.clone());
        }
    }

    /// Ends the wait once no call needs an approval: time spent on people does not count as the run's time.
    pub(super) fn end_waiting(&mut self, at: Millis) {
        let asking = self.open_calls.iter().any(|open| open.approval.is_some());
        if let Some(run) = self.open.as_mut().filter(|_| !asking) {
            let since = run.waiting_since.take();
            run.waited_ms += since.map_or(0, |since| at.saturating_sub(since));
        }
    }

    /// Folds a note that concerns the run.
    pub(super) fn note_said(&mut self, why: NoteReason) {
        let Some(run) = &mut self.open else { return };
        match why {
            NoteReason::Loop => {
                run.warned_of_loop = true;
                // The model gets another chance after the warning: only repetitions after the note end the run.
                self.recent_calls.clear();
            }
            NoteReason::TimeUp => run.time_is_up = true,
            NoteReason::Imported
            | NoteReason::ImportedSummary
            | NoteReason::SystemMessage
            | NoteReason::Recalled
            | NoteReason::Orders
            | NoteReason::BrokenOff => {}
        }
    }

    /// Adds the calls of an answer, which have no outcome yet.
    pub(super) fn add_calls(&mut self, message: &Message) {
        self.open_calls.extend(message.tool_calls().map(|call| OpenToolCall {
            call: call.clone(),
            started: false,
            approval: None,
            allowed: None,
        }));
    }

    /// Closes the call of a result; `None` if no such call is open.
    pub(super) fn close_call(&mut self, result: &ToolResult) -> Option<ToolCall> {
        let open = self.open_calls.iter().position(|open| open.call.call_id == result.call_id)?;
        let call = self.open_calls.remove(open).call;
        self.remember_call(&call, result);
        Some(call)
    }

    fn remember_call(&mut self, call: &ToolCall, result: &ToolResult) {
        if self.recent_calls.len() == LOOP_WINDOW {
            self.recent_calls.pop_front();
        }
        let signature = view::call_signature(call, result);
        self.recent_calls.push_back(RecentToolCall { signature, tool: call.name.clone() });
    }

    /// Returns the open call `id`.
    pub(super) fn open_call_mut(&mut self, id: &CallId) -> Option<&mut OpenToolCall> {
        self.open_calls.iter_mut().find(|open| open.call.call_id == *id)
    }
}
