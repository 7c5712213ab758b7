//! What must hold after every event, in every request, and whenever the session is at rest.

use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EditKind, EditReason, Event, EventBody, NoteReason, RunEnd, StepKind, ViewEdit};
use longhaul_core::history::{History, request_messages};
use longhaul_core::ids::StepId;
use longhaul_core::message::{Message, ToolCall};
use longhaul_core::meter;
use longhaul_core::run::{MAX_PAUSES, Run, RunLoopInput, RunStatus};

use super::model::Course;
use super::world::SimulatedRun;
use crate::{handles, validity};

/// Requests are smaller than this when the newest message and the fixed part alone are well inside the window.
const NEVER_TOO_LONG_PERCENT: u64 = 40;

impl SimulatedRun {
    /// Before `event` is stored.
    pub(crate) fn check_event(&mut self, event: &Event) {
        let history = &self.mirror;
        match &event.body {
            EventBody::MessagesTaken { .. } | EventBody::StepStarted(_) | EventBody::NoteAdded { .. } => {
                assert_eq!(history.open_calls(), [], "{:?} amid open calls", event.body);
            }
            EventBody::ToolStarted { call_id } => {
                let open = history.open_calls().iter().find(|open| open.call.call_id == *call_id);
                assert!(open.is_some_and(|open| !open.started), "{call_id} starts twice or is not open");
            }
            EventBody::ToolFinished { result } => {
                let open = history.open_calls().iter().any(|open| open.call.call_id == result.call_id);
                assert!(open, "a second result of {}", result.call_id);
            }
            EventBody::RunStarted { .. } => assert!(history.open_run().is_none(), "a run in a run"),
            EventBody::RunFinished { .. } => {
                assert!(history.open_run().is_some(), "no run to finish");
                assert_eq!(history.open_calls(), [], "a run ends with open calls");
            }
            _ => {}
        }
        self.count_event(event);
    }

    fn count_event(&mut self, event: &Event) {
        match &event.body {
            EventBody::StepStarted(start) => {
                self.guards.calls_in_step = 0;
                self.guards.summaries_in_step = 0;
                self.stats.recovery_steps += u64::from(start.purpose == StepKind::Recovery);
                let run = self.mirror.open_run().expect("a step of a run");
                // A request that is too long is made smaller five times, each a step; the recovery step is another, and
                // so is each piece of an answer.
                let pieces = if self.settings.model.prefill { MAX_PAUSES + 1 } else { 1 };
                let most = self.settings.max_steps * 6 * pieces + 2;
                assert!(
                    run.steps < most,
                    "{} steps begun, {} allowed",
                    run.steps + 1,
                    self.settings.max_steps
                );
            }
            EventBody::StepFinished { .. } => {
                self.stats.recovered_overflows += u64::from(self.guards.overflows_in_step > 0);
                self.guards.edits_in_step = 0;
                self.guards.overflows_in_step = 0;
            }
            EventBody::StepFailed { code: ErrorCode::ContextOverflow, .. } => {
                self.guards.overflows_in_step += 1;
                self.guards.edits_in_step = 0;
                assert!(self.guards.overflows_in_step <= 6, "more than five retries in one step");
            }
            EventBody::NoteAdded { why: NoteReason::Loop, .. } => self.stats.loops += 1,
            EventBody::NoteAdded { why: NoteReason::Orders, .. } => self.stats.orders_told += 1,
            EventBody::NoteAdded { why: NoteReason::TimeUp, .. } => {
                self.guards.edits_in_step = 0;
                self.guards.overflows_in_step = 0;
            }
            EventBody::Parked { .. } => self.stats.parked += 1,
            EventBody::RunFinished { reason, error, .. } => {
                self.guards.summaries_in_step = 0;
                self.guards.edits_in_step = 0;
                self.guards.overflows_in_step = 0;
                self.count_end(*reason, error.as_ref().map(|error| error.code));
            }
            _ => {}
        }
    }

    fn count_end(&mut self, end: RunEnd, error: Option<ErrorCode>) {
        let stats = &mut self.stats;
        match end {
            RunEnd::Stop => stats.ended_stop += 1,
            RunEnd::MaxSteps => stats.ended_max_steps += 1,
            RunEnd::Cancelled => stats.ended_cancelled += 1,
            RunEnd::Timeout => stats.ended_timeout += 1,
            RunEnd::LoopDetected => stats.ended_loop += 1,
            RunEnd::Length if error == Some(ErrorCode::MaxCompactions) => stats.ended_max_compactions += 1,
            RunEnd::Length => stats.ended_length += 1,
            RunEnd::Error if error == Some(ErrorCode::ContextOverflow) => stats.ended_overflow += 1,
            RunEnd::Error => stats.ended_error += 1,
            other => panic!("{other:?}"),
        }
        let has_code =
            end == RunEnd::Error || error == Some(ErrorCode::MaxCompactions) && end == RunEnd::Length;
        assert_eq!(has_code, error.is_some(), "an error has a code, nothing else but spent pauses has");
        if error == Some(ErrorCode::ContextOverflow) {
            self.check_overflow_end();
        }
    }

    /// A run may end for want of room only if there is none.
    fn check_overflow_end(&self) {
        let policy = &self.settings.policy;
        let window = self.run.budget().window;
        // An error without numbers, from a window that nobody knows, gives nothing to aim at.
        let knows = self.settings.model.window == Some(self.truth.window);
        if !policy.enabled || !knows || self.truth.strict_output {
            return;
        }
        let typed = self.mirror.newest_typed().map_or(0, |at| self.mirror.view()[at].tokens);
        let paused =
            self.mirror.view().last().filter(|_| self.mirror.is_paused()).map_or(0, |item| item.tokens);
        let needed = self.settings.fixed.tokens + typed + paused;
        let little = window * NEVER_TOO_LONG_PERCENT / 100;
        assert!(needed + 1_000 > little, "{needed} tokens are needed of {window}");
    }

    /// After an edit was stored.
    pub(crate) fn check_edit(&mut self, before: &History, event: &Event) {
        let EventBody::ViewEdited(edit) = &event.body else { return };
        self.guards.edits_in_step += u32::from(edit.reason != EditReason::Requested);
        assert!(self.guards.edits_in_step <= 1, "two edits in one step without an overflow between");
        self.guards.summaries_in_step = 0;
        let fixed = &self.settings.fixed;
        let bound = |history: &History| meter::read(history, fixed.tokens_of(history)).bound();
        let (was, is) = (bound(before), bound(&self.mirror));
        assert_eq!(edit.base_view_hash, before.view_hash(), "planned for another view");
        self.check_typed_cut(before, edit);
        // A summary that takes the place of its extract may be longer than that; it stays below the line all the same.
        let is_swap = edit.why.contains("an extract stood in its place until now");
        assert!(is_swap || edit.compressed_bound < edit.original_bound, "{edit:?}");
        assert!(is_swap || is < was, "the view grew from {was} to {is}: {edit:?}");
        let limit = edit.trigger_tokens.max(self.run.budget().usable);
        let limit = if edit.compressed_bound < edit.trigger_tokens { edit.trigger_tokens } else { limit };
        assert!(is < limit, "{is} is not under {limit}: {edit:?}");
        assert_eq!(edit.original_bound, was);
        assert_eq!(edit.compressed_messages, self.mirror.view().len() as u64, "{edit:?}");
        match edit.kind {
            EditKind::Prune => self.stats.prunes += 1,
            EditKind::Compaction => self.stats.compactions += 1,
        }
        self.stats.model_summaries +=
            u64::from(edit.why.contains("by the model") || edit.why.contains("summary"));
        self.stats.pruned_by_agents += u64::from(edit.why.contains("pruned by an agent"));
        self.stats.written_ahead += u64::from(edit.why.contains("written ahead"));
        self.stats.extracts += u64::from(edit.why.contains("extract"));
        self.stats.last_resorts += u64::from(edit.why.contains("no model call"));
        handles::check(&self.mirror);
    }

    /// The newest message is cut only if it leaves no room beside the fixed part, or was refused.
    fn check_typed_cut(&self, before: &History, edit: &ViewEdit) {
        let Some(item) = before.newest_typed().map(|at| &before.view()[at]) else { return };
        if validity::cuts(edit, item.range.to) {
            let needed = self.settings.fixed.tokens + item.tokens;
            let little = self.run.budget().window * NEVER_TOO_LONG_PERCENT / 100;
            let was_refused = edit.reason == EditReason::OverflowError;
            assert!(
                was_refused || needed + 1_000 > little,
                "{needed} tokens were cut for {little}: {edit:?}"
            );
        }
    }

    /// Before the model is called.
    pub(crate) fn check_request(&mut self, messages: &[Message], step: &StepId) {
        self.stats.requests += 1;
        self.guards.calls_in_step += 1;
        if let (true, Some(patience_ms)) = (self.guards.calls_in_step > 1, self.settings.retry.patience_ms) {
            let waited_ms = self.clock - self.guards.outage_since;
            assert!(waited_ms <= patience_ms, "{step} is tried again after {waited_ms} ms of {patience_ms}");
        }
        let goes_on = self.run.history().is_paused();
        let is_valid = if goes_on { validity::check_prefill } else { validity::check };
        if let Err(why) = is_valid(messages) {
            panic!("invalid request in {step}: {why}\n{messages:#?}");
        }
        let history = self.run.history();
        let start = history.open_run().and_then(|run| run.calling.as_ref()).expect("a stored start");
        assert_eq!(start.step_id, *step);
        assert_eq!(start.view_hash, history.view_hash(), "another view than was stored");
        assert!(validity::holds_newest_typed(messages, history), "the newest message is not shown");
    }

    /// What the meter called safe must be.
    pub(crate) fn count_overflow(&mut self, input: u64, course: &Course) {
        self.stats.overflows += 1;
        let Err((failure, _)) = &course.end else { return };
        self.stats.overflows_without_numbers += u64::from(failure.used_tokens.is_none());
        let budget = self.run.budget();
        let reading = self.run.meter();
        if reading.bound() <= budget.usable && budget.window <= self.truth.window {
            self.stats.overflows_although_it_fit += 1;
            assert!(
                input <= self.truth.window,
                "{input} tokens in a window of {}, said {reading:?} {:?} {budget:?}",
                self.truth.window,
                self.run.history().anchor(),
            );
        }
    }

    pub(crate) fn check_tool_may_run(&mut self, call: &ToolCall) {
        let id = &call.call_id;
        let open = self.mirror.open_calls().iter().find(|open| open.call.call_id == *id);
        assert!(open.is_some_and(|open| open.started), "{id} runs without a stored start");
        assert!(self.ran.insert(id.clone()), "{id} runs twice");
        assert_ne!(call.name, "rm", "a denied tool runs");
        if call.name == "bash" {
            assert!(open.is_some_and(|open| matches!(open.allowed, Some((true, _)))), "{id} was not allowed");
        }
    }

    pub(crate) fn check_in_passing(&mut self) {
        let live = self.run.history();
        assert_eq!(live.last_seq(), self.mirror.last_seq(), "the run knows another log");
        assert_eq!(live.view_tokens(), self.mirror.view_tokens());
        assert!(live.kept_groups().total() <= live.view_tokens());
        if self.guards.handled.is_multiple_of(50) {
            assert!(*live == self.mirror, "the run holds another history");
        }
        if self.guards.handled.is_multiple_of(300) {
            self.check_fold();
        }
    }

    pub(crate) fn check_fold(&self) {
        assert!(self.refold() == self.mirror, "folding the log anew gives another history");
    }

    /// Nothing is in flight: the session is idle, and a new life of it would be the same.
    pub(crate) fn check_at_rest(&mut self) {
        assert!(self.run.is_idle(), "nothing in flight, and not idle: {:?}", self.run);
        assert!(matches!(self.run.status(), RunStatus::Idle | RunStatus::Parked));
        assert!(*self.run.history() == self.mirror, "the run holds another history");
        assert!(self.mirror.open_run().is_none(), "idle with an open run");
        assert_eq!(self.mirror.open_calls(), []);
        assert_eq!(self.compactions_asked, 0, "a compaction that nobody answered");
        let forgotten: Vec<_> = self.waiting().into_iter().filter(|(_, may_wait)| !may_wait).collect();
        assert!(forgotten.is_empty(), "messages wait although nothing was cancelled: {forgotten:?}");
        if self.guards.handled.is_multiple_of(3) {
            self.check_resumed();
        }
    }

    fn check_resumed(&mut self) {
        let mut next = Run::new(self.settings.clone(), self.refold());
        let live = &mut self.run;
        assert!(next.history() == live.history(), "folding the log anew gives another history");
        assert_eq!(next.status(), live.status());
        assert_eq!(next.meter(), live.meter());
        assert_eq!(next.budget(), live.budget());
        assert_eq!(next.preview(None), live.preview(None));
        let messages = |run: &Run| request_messages(run.history().view());
        assert_eq!(messages(&next), messages(live));
        let effects = |run: &Run| {
            let mut run = run.clone();
            let mut effects = run.handle(RunLoopInput::Resume);
            effects.extend(run.handle(RunLoopInput::QueueRead(self.queue.clone())));
            effects
        };
        // Appends are numbered from the start of a life.
        let told = |effects: Vec<longhaul_core::run::RunEffect>| -> Vec<String> {
            use longhaul_core::run::RunEffect;
            let told = effects.into_iter().map(|effect| match effect {
                RunEffect::Append { events, takes, settles, .. } => {
                    format!("{events:?} {takes:?} {settles:?}")
                }
                other => format!("{other:?}"),
            });
            told.collect()
        };
        assert_eq!(told(effects(&next)), told(effects(live)), "a new life would act otherwise");
        if self.guards.handled.is_multiple_of(5) {
            next.handle(RunLoopInput::Recover { partial: None });
            self.run = next;
        }
    }
}
