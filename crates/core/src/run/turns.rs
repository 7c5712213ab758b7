//! The beginning of a run, the queue, the boundary between two steps, and the end.

use super::loop_state::{AppendContinuation, LoopState, RunPhase, RunStopCause, StepGuards};
use super::session::SessionState;
use super::{CompactionOutcome, RECOVERY_STEP_MS, RunEffect, RunRecovery, RunTimer, orders};
use crate::error::ErrorCode;
use crate::event::{ErrorInfo, EventBody, NoteReason, RunEnd};
use crate::history::closing_result;
use crate::message::{Message, Part, ToolStatus};
use crate::queue::{QueuedMessage, coalesce};

impl LoopState {
    /// Ends the present work if a cancel is on its way. Results that were computed meanwhile may be incomplete and are
    /// dropped.
    pub(super) fn stop_if_flagged(&mut self, out: &mut Vec<RunEffect>) -> bool {
        let is_flagged = self.session.history.stop_flag().is_raised();
        if is_flagged {
            self.session.history.stop_flag().heed();
            // A wake from before the cancel must not start the next run. The message itself keeps waiting.
            self.woken = false;
            self.stop = Some(RunStopCause::Cancelled);
            self.phase = RunPhase::Storing;
            self.boundary_or_idle(out);
        }
        is_flagged
    }

    /// Ends a compaction: at the boundary of the open run, or at rest.
    pub(super) fn boundary_or_idle(&mut self, out: &mut Vec<RunEffect>) {
        if self.session.history.open_run().is_some() {
            return self.reach_step_boundary(out);
        }
        out.push(RunEffect::CompactionDone(CompactionOutcome::Refused("cancelled".to_owned())));
        self.idle(out);
    }

    /// Reads the queue now if the session is at rest, else after the present work.
    pub(super) fn wake(&mut self, out: &mut Vec<RunEffect>) {
        if self.is_at_rest() {
            self.read_queue(out);
        } else {
            self.woken = true;
        }
    }

    /// Reads the queue.
    pub(super) fn read_queue(&mut self, out: &mut Vec<RunEffect>) {
        self.phase = RunPhase::ReadingQueue;
        self.woken = false;
        out.push(RunEffect::ReadQueue);
    }

    /// Returns the session to rest, unless a message came after the queue was read.
    pub(super) fn rest(&mut self, out: &mut Vec<RunEffect>) {
        self.phase = RunPhase::Idle;
        self.resuming = false;
        out.push(RunEffect::Rested);
        self.wake_if_asked(out);
    }

    /// Stores the start of a run, with the messages that wait.
    pub(super) fn begin(&mut self, queued: &[QueuedMessage], out: &mut Vec<RunEffect>) {
        self.resuming = false;
        // A stop that found no run to end must not end this one.
        self.stop = None;
        let run_id = format!("r{}", self.session.next_seq()).into();
        let started = vec![EventBody::RunStarted { run_id }];
        if queued.is_empty() {
            self.phase = RunPhase::Storing;
            self.append(started, AppendContinuation::Begun, out);
        } else {
            self.take(queued, started, AppendContinuation::Begun, out);
        }
    }

    /// Starts the timer for the rest of the run's time. A recovered run does not get the full time again.
    pub(super) fn start_run_timer(&self, out: &mut Vec<RunEffect>) {
        if let (Some(timeout_ms), Some(run)) =
            (self.session.settings.timeout_ms, self.session.history.open_run())
        {
            let spent_ms = self.now.saturating_sub(run.started_at).saturating_sub(run.waited_ms);
            let after_ms = timeout_ms.saturating_sub(spent_ms);
            out.push(RunEffect::StartTimer { timer: RunTimer::Run, after_ms });
        }
    }

    /// Stores the waiting messages as one message of the user.
    pub(super) fn take(
        &mut self,
        queued: &[QueuedMessage],
        mut events: Vec<EventBody>,
        then: AppendContinuation,
        out: &mut Vec<RunEffect>,
    ) {
        let (parts, coalesced) = coalesce(queued);
        // Changes of orders came before the message, so the model hears of them first.
        events.extend(orders::order_note(&self.session, events.len()));
        let taken: Vec<_> = queued.iter().map(|entry| entry.id.clone()).collect();
        let id = match taken.as_slice() {
            [only] => only.as_str().into(),
            // The id names the position of the message, and the events before it are stored in the same append.
            _ => crate::ids::MessageId::new(format!("m{}", self.session.next_seq() + events.len() as u64)),
        };
        let message = Message::user(id, parts);
        let metadata = match queued {
            // Metadata belongs to one message of a client. A message made of several has none.
            [only] => only.metadata.clone(),
            _ => None,
        };
        events.push(EventBody::MessagesTaken { message, taken: taken.clone(), coalesced, metadata });
        self.phase = RunPhase::Storing;
        self.append_with(events, taken, Vec::new(), then, out);
    }

    /// Handles the boundary between two steps, where a run may end.
    pub(super) fn reach_step_boundary(&mut self, out: &mut Vec<RunEffect>) {
        if self.stop_at_boundary(out) {
            return;
        }
        let run = self.session.history.open_run();
        if run.is_some_and(|run| run.recovering) {
            return self.finish(RunEnd::Timeout, None, out);
        }
        if run.is_some_and(|run| run.steps >= self.session.settings.max_steps) && self.session.owes_answer() {
            return self.finish(RunEnd::MaxSteps, None, out);
        }
        // The events come before the queue: a message that is read now must find the model that was chosen before it.
        if !self.soon.is_empty() {
            self.phase = RunPhase::Storing;
            return self.record_soon(AppendContinuation::Boundary, out);
        }
        self.read_queue(out);
    }

    /// Stores the events that wait for a boundary.
    fn record_soon(&mut self, then: AppendContinuation, out: &mut Vec<RunEffect>) {
        let soon = std::mem::take(&mut self.soon);
        self.append(soon, then, out);
    }

    /// Ends the run, or begins the recovery step, if a stop is pending. Returns whether one was.
    pub(super) fn stop_at_boundary(&mut self, out: &mut Vec<RunEffect>) -> bool {
        if self.session.history.open_run().is_none() {
            let cancelled = self.stop.take() == Some(RunStopCause::Cancelled);
            if cancelled {
                self.rest(out);
            }
            return cancelled;
        }
        match self.stop {
            None => false,
            Some(RunStopCause::Cancelled) => {
                self.finish(RunEnd::Cancelled, None, out);
                true
            }
            Some(RunStopCause::Timeout) => {
                self.begin_recovery_step(out);
                true
            }
        }
    }

    /// Begins the recovery step: the model reports its progress without tools.
    pub(super) fn begin_recovery_step(&mut self, out: &mut Vec<RunEffect>) {
        if self.session.history.open_run().is_none_or(|run| run.recovering) {
            // The time of the recovery step is over, too.
            return self.finish(RunEnd::Timeout, None, out);
        }
        self.stop = None;
        let mut events = closing_events(&self.session, "[The run's time is over; the call was stopped.]");
        let text = "[The time of this run is over. Tools are off. Say in a few lines what is done, what is not, \
                    and what comes next.]";
        let id = format!("m{}", self.session.next_seq() + events.len() as u64);
        events.push(EventBody::NoteAdded {
            message: Message::user(id, vec![Part::text(text)]),
            why: NoteReason::TimeUp,
        });
        self.phase = RunPhase::Storing;
        self.step = StepGuards::default();
        out.push(RunEffect::StartTimer { timer: RunTimer::RecoveryStep, after_ms: RECOVERY_STEP_MS });
        self.append(events, AppendContinuation::Prepare, out);
    }

    /// Stores the end of the run.
    pub(super) fn finish(&mut self, end: RunEnd, error: Option<ErrorInfo>, out: &mut Vec<RunEffect>) {
        let Some(run) = self.session.history.open_run() else { return self.idle(out) };
        let run_id = run.id.clone();
        let text = match end {
            RunEnd::Cancelled => "[Cancelled by the user before it ended.]",
            _ => "[The run ended before this call did.]",
        };
        let mut events = closing_events(&self.session, text);
        events.push(EventBody::RunFinished { run_id, reason: end, error });
        self.phase = RunPhase::Storing;
        for timer in [RunTimer::Run, RunTimer::RecoveryStep] {
            out.push(RunEffect::StopTimer { timer });
        }
        self.append(events, AppendContinuation::Ended(end), out);
    }

    /// Returns the session to rest after the end of a run is stored.
    pub(super) fn ended(&mut self, end: RunEnd, out: &mut Vec<RunEffect>) {
        if !self.soon.is_empty() {
            // The next run may begin at once, and must know these facts.
            return self.record_soon(AppendContinuation::Ended(end), out);
        }
        let cancelled = self.stop.take() == Some(RunStopCause::Cancelled) || end == RunEnd::Cancelled;
        self.phase = RunPhase::Idle;
        self.step = StepGuards::default();
        out.push(RunEffect::RunEnded(end));
        // Messages that wait start the next run, except those from before a cancel. A run that ends by itself has just
        // found the queue empty.
        let waits = cancelled && self.session.settings.recovery == RunRecovery::Rest;
        if waits || end == RunEnd::Stop {
            self.wake_if_asked(out);
        } else {
            self.read_queue(out);
        }
    }

    /// Returns the session to rest after work that was no run.
    pub(super) fn idle(&mut self, out: &mut Vec<RunEffect>) {
        self.phase = RunPhase::Idle;
        self.stop = None;
        self.wake_if_asked(out);
    }

    /// Stores events that wait for a boundary at once, if the session is at rest.
    pub(super) fn record_if_idle(&mut self, out: &mut Vec<RunEffect>) {
        if self.is_at_rest() {
            self.wake_if_asked(out);
        }
    }

    /// Stores events that wait for a boundary, or reads the queue if a message came meanwhile.
    pub(super) fn wake_if_asked(&mut self, out: &mut Vec<RunEffect>) {
        if !self.soon.is_empty() {
            self.record_soon(AppendContinuation::Recorded, out);
        } else if std::mem::take(&mut self.woken) {
            self.read_queue(out);
        }
    }

    /// Ends the run with an error.
    pub(super) fn fail(&mut self, code: ErrorCode, message: impl Into<String>, out: &mut Vec<RunEffect>) {
        let error = ErrorInfo { code, message: message.into() };
        self.finish(RunEnd::Error, Some(error), out);
    }
}

/// Returns results for every open call, because a call without a result makes later requests invalid.
fn closing_events(session: &SessionState, text: &str) -> Vec<EventBody> {
    let mut events = Vec::new();
    for open in session.history.open_calls() {
        let call_id = open.call.call_id.clone();
        // A question that stays open would wait for a person for ever.
        if let Some(approval_id) = open.approval.clone() {
            let reason = Some("the run was stopped".to_owned());
            events.push(EventBody::ApprovalResolved {
                approval_id,
                call_id: call_id.clone(),
                allowed: false,
                reason,
            });
        }
        events
            .push(EventBody::ToolFinished { result: closing_result(&call_id, ToolStatus::Cancelled, text) });
    }
    events
}
