//! The background summary, which a model writes while work goes on and which is committed between two steps.

use super::loop_state::{AppendContinuation, LoopState, RunPhase};
use super::{ModelCallFailure, PreCompactOutput, RunEffect, RunTimer, hook};
use crate::error::ErrorCode;
use crate::event::{ErrorInfo, EventBody, ViewEdit};
use crate::history::{SUMMARY_FAILURES, ViewItem};
use crate::ids::EditId;
use crate::message::{ModelAnswer, Role};
use crate::plan::{self, Plan, SummaryDraft};
use crate::shortening::BackgroundConditions;
use crate::usage::Usage;

/// A compaction in preparation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PrecomputedSummary {
    pub(super) task: u64,
    pub(super) draft: Box<SummaryDraft>,
    pub(super) stage: PrecomputeStage,
    /// The failure that prevented the summary.
    pub(super) problem: Option<ErrorInfo>,
    /// The edit whose extract stands in place of the unfinished summary.
    pub(super) stand_in: Option<EditId>,
}

impl PrecomputedSummary {
    /// Returns whether the summary still fits that view.
    fn is_about(&self, view: &[ViewItem]) -> bool {
        match &self.stand_in {
            Some(edit) => self.stage != PrecomputeStage::Void && self.draft.is_stood_in_by(edit, view),
            None => self.draft.is_about(view),
        }
    }
}

/// The progress of a background summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrecomputeStage {
    /// A hook decides whether the compaction may happen.
    Asking,
    /// A model writes the summary.
    Writing,
    /// The summary can be committed.
    Ready,
    /// The summary failed or was forbidden. The value is kept until its messages change, so that not every step tries
    /// again.
    Void,
}

/// The background summary of a session, and the usage that no event holds yet.
#[derive(Clone, Debug, Default)]
pub(super) struct BackgroundSummariser {
    pub(super) candidate: Option<PrecomputedSummary>,
    /// The usage of summaries that were not committed.
    pub(super) unstored: Vec<Usage>,
}

impl BackgroundSummariser {
    /// Returns whether a hook is asked about the background summary now.
    pub(super) fn is_asking(&self) -> bool {
        self.asking_task().is_some()
    }

    /// Returns the task of the hook that is asked about the background summary now.
    pub(super) fn asking_task(&self) -> Option<u64> {
        let candidate = self.candidate.as_ref()?;
        (candidate.stage == PrecomputeStage::Asking).then_some(candidate.task)
    }

    /// Returns whether `task` is the task of the background summary.
    pub(super) fn has_task(&self, task: u64) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.task == task)
    }

    /// Notes that `edit` is about to be stored: the background summary is in it, or does not fit the view any more.
    pub(super) fn note_commit(&mut self, edit: &ViewEdit, is_requested: bool, out: &mut Vec<RunEffect>) {
        let is_ready = self.committable_summary().is_some();
        match (self.became(edit), &mut self.candidate) {
            // The edit holds an extract. The summary that is still being written replaces it later.
            (true, Some(candidate)) if !is_ready && !is_requested => {
                candidate.stand_in = Some(edit.id.clone())
            }
            (true, _) if is_ready => self.candidate = None,
            // Another edit has changed the items of the draft, or follows instructions that the draft does not know.
            _ => self.drop_candidate(out),
        }
    }

    /// Begins a background summary if the view is near the threshold. The loop calls this after an answer, because the
    /// model's server is idle until the tools end or a user types.
    pub(super) fn look_ahead(&mut self, state: &mut LoopState, out: &mut Vec<RunEffect>) {
        let view = state.session.history.view();
        let is_void = |candidate: &PrecomputedSummary| !candidate.is_about(view);
        if self.candidate.as_ref().is_some_and(is_void) {
            self.drop_candidate(out);
        }
        let conditions = BackgroundConditions {
            has_summary: self.candidate.is_some(),
            // The candidate itself replaces the extract that stands in for it.
            has_extract: false,
            writer_rests: state.session.history.summaries_rest(),
            is_forbidden: state.stop.is_some() || state.session.is_time_up(),
        };
        if !conditions.allow_start() {
            return;
        }
        let settings = &state.session.settings;
        let (fixed, budget) = (settings.fixed.planned(&state.session.history), state.session.budget());
        let Some(draft) = plan::plan_in_background(&state.session.history, fixed, &budget, &settings.policy)
        else {
            return;
        };
        if state.session.history.stop_flag().is_raised() {
            // The draft may be incomplete, because the computation ended early.
            return;
        }
        let task = state.new_task();
        let stage = PrecomputeStage::Asking;
        self.candidate = Some(PrecomputedSummary { task, draft, stage, problem: None, stand_in: None });
        match state.session.settings.pre_compact_ms {
            Some(deadline_ms) => self.ask_ahead(state, task, deadline_ms, out),
            None => self.write_ahead(state, out),
        }
    }

    /// Asks the PreCompact hook about the background summary.
    fn ask_ahead(&self, state: &LoopState, task: u64, deadline_ms: u64, out: &mut Vec<RunEffect>) {
        let Some(candidate) = &self.candidate else { return };
        let ask = hook::pre_compact_of(
            &state.session,
            &Plan::Summarise(candidate.draft.clone()),
            false,
            deadline_ms,
        );
        out.push(RunEffect::AskPreCompact { task, ask: Box::new(ask) });
        out.push(RunEffect::StartTimer { timer: RunTimer::Ahead, after_ms: deadline_ms });
    }

    /// Sends the next request for the summary, or marks the summary as ready.
    fn write_ahead(&mut self, state: &LoopState, out: &mut Vec<RunEffect>) {
        let budget = state.session.budget();
        let shown = state.session.history.view();
        // The newest step has no results yet, and a call without a result makes a request invalid.
        let open = !state.session.history.open_calls().is_empty();
        let newest = shown.iter().rposition(|item| item.message.role == Role::Assistant);
        let end = newest.filter(|_| open).unwrap_or(shown.len());
        let Some(candidate) = &mut self.candidate else { return };
        match candidate.draft.request(&shown[..end], &budget) {
            Some(request) => {
                candidate.stage = PrecomputeStage::Writing;
                let task = candidate.task;
                out.push(RunEffect::Summarise { task, ahead: true, request });
                let after_ms = state.session.settings.policy.summary_timeout_ms;
                // The timer starts again for each piece, as for a summary that the loop waits for.
                out.push(RunEffect::StartTimer { timer: RunTimer::Ahead, after_ms });
            }
            None => {
                candidate.draft.make_ledgers(&state.session.history);
                candidate.stage =
                    if candidate.draft.is_written() { PrecomputeStage::Ready } else { PrecomputeStage::Void };
                out.push(RunEffect::StopTimer { timer: RunTimer::Ahead });
                if state.session.history.stop_flag().is_raised() {
                    // The pinned facts may be incomplete, because the computation ended early.
                    self.drop_candidate(out);
                }
            }
        }
    }

    /// Handles the answer to a request for the background summary.
    pub(super) fn summarised_ahead(
        &mut self,
        state: &mut LoopState,
        answer: Result<ModelAnswer, ModelCallFailure>,
        out: &mut Vec<RunEffect>,
    ) {
        let Some(candidate) =
            self.candidate.as_mut().filter(|candidate| candidate.stage == PrecomputeStage::Writing)
        else {
            return;
        };
        candidate.problem = match answer {
            Ok(answer) => match candidate.draft.take(answer) {
                // The text to summarise is not in the view any more, so a refused answer cannot be asked for again.
                Ok(()) if candidate.stand_in.is_some() && candidate.draft.needs_view() => Some(ErrorInfo {
                    code: ErrorCode::ThirdParty,
                    message: "the model's answer was rejected as a summary, and an extract stands in its place by now"
                        .to_owned(),
                }),
                Ok(()) => return self.write_ahead(state, out),
                Err(rejected) => {
                    Some(ErrorInfo { code: ErrorCode::ThirdParty, message: rejected.to_string() })
                }
            },
            Err(failure) => {
                // A failed call was paid for too.
                if let Some(usage) = failure.usage {
                    candidate.draft.spend(usage);
                }
                Some(ErrorInfo { code: failure.code, message: failure.message })
            }
        };
        if candidate.stand_in.is_some() {
            return self.fail_swap(state, out);
        }
        self.void_candidate(out);
    }

    /// Keeps the extract. The failure is stored as soon as no step is open.
    fn fail_swap(&mut self, state: &mut LoopState, out: &mut Vec<RunEffect>) {
        self.void_candidate(out);
        let Some(mut candidate) = self.candidate.take() else { return };
        self.unstored.extend(candidate.draft.take_usage());
        if let Some(problem) = candidate.problem {
            let failed = self.failure(state, candidate.draft.strategy(), problem);
            // The step that is open now relies on the view, so the event waits for the boundary.
            state.soon.push(failed);
            state.record_if_idle(out);
        }
    }

    /// Replaces an extract by the finished summary. Returns `false` if there is no extract to replace.
    pub(super) fn swap_extract(&mut self, state: &mut LoopState, out: &mut Vec<RunEffect>) -> bool {
        let Some(candidate) = &self.candidate else { return false };
        let Some(stand_in) =
            candidate.stand_in.as_ref().filter(|_| candidate.stage == PrecomputeStage::Ready)
        else {
            return false;
        };
        let (settings, budget) = (&state.session.settings, state.session.budget());
        // The extract was an edit, so every request carries `recall` by now.
        let (fixed, policy) = (settings.fixed.tokens, &settings.policy);
        let edit = plan::swap(&state.session.history, fixed, &budget, policy, &candidate.draft, stand_in);
        if state.session.history.stop_flag().is_raised() {
            // The edit may be incomplete. The plan that follows sees the flag and ends the run.
            return false;
        }
        let Some(mut edit) = edit else {
            self.drop_candidate(out);
            return false;
        };
        self.candidate = None;
        if let Some(usage) = self.take_unstored() {
            edit.usage.get_or_insert_default().add(&usage);
        }
        state.step.compacted = true;
        state.phase = RunPhase::Storing;
        state.append(vec![EventBody::ViewEdited(Box::new(edit))], AppendContinuation::StartStep, out);
        true
    }

    /// Returns the draft that may be committed now, if the summary is ready or being written.
    pub(super) fn coming(&self) -> Option<&SummaryDraft> {
        let candidate = self.candidate.as_ref().filter(|candidate| candidate.stand_in.is_none())?;
        matches!(candidate.stage, PrecomputeStage::Ready | PrecomputeStage::Writing)
            .then_some(&*candidate.draft)
    }

    /// Returns whether an edit came from the background summary. If the summary is still being written, the edit holds
    /// its extract.
    pub(super) fn became(&self, edit: &ViewEdit) -> bool {
        self.coming().is_some_and(|draft| draft.became(edit))
    }

    /// Returns the reason why the background summary is missing, once.
    pub(super) fn failed_ahead(&mut self) -> Option<ErrorInfo> {
        let candidate = self.candidate.as_mut()?;
        let is_late = candidate.stage == PrecomputeStage::Writing && candidate.stand_in.is_none();
        let problem = candidate.problem.take().or_else(|| is_late.then(late_problem))?;
        self.unstored.extend(candidate.draft.take_usage());
        Some(problem)
    }

    /// Gives up the background summary. No new attempt begins as long as the summary's messages are unchanged.
    fn void_candidate(&mut self, out: &mut Vec<RunEffect>) {
        if let Some(candidate) = &mut self.candidate {
            if candidate.stage == PrecomputeStage::Writing {
                out.push(RunEffect::StopSummary { task: candidate.task });
            }
            candidate.stage = PrecomputeStage::Void;
            out.push(RunEffect::StopTimer { timer: RunTimer::Ahead });
        }
    }

    /// Gives up a background summary that takes too long.
    pub(super) fn void_unfinished(&mut self, state: &mut LoopState, out: &mut Vec<RunEffect>) {
        let message = state.session.late_summary();
        if let Some(candidate) =
            self.candidate.as_mut().filter(|candidate| candidate.stage == PrecomputeStage::Writing)
        {
            candidate.problem = Some(ErrorInfo { code: ErrorCode::Timeout, message });
            match candidate.stand_in {
                Some(_) => self.fail_swap(state, out),
                None => self.void_candidate(out),
            }
        }
    }

    /// Drops the background summary, because the view has changed or the compaction is done. The usage is kept.
    pub(super) fn drop_candidate(&mut self, out: &mut Vec<RunEffect>) {
        self.void_candidate(out);
        if let Some(candidate) = self.candidate.take() {
            self.unstored.extend(candidate.draft.usage().cloned());
        }
    }

    /// Returns the usage of summaries that no event holds yet. The next event about a compaction stores this usage.
    pub(super) fn take_unstored(&mut self) -> Option<Usage> {
        self.unstored.drain(..).reduce(|mut sum, usage| {
            sum.add(&usage);
            sum
        })
    }

    /// Returns the draft of the background summary if it is ready.
    pub(super) fn committable_summary(&self) -> Option<&SummaryDraft> {
        let candidate = self.candidate.as_ref().filter(|candidate| candidate.stand_in.is_none())?;
        (candidate.stage == PrecomputeStage::Ready).then_some(&*candidate.draft)
    }

    /// Returns whether a summary is being written and the room suffices without it.
    pub(super) fn can_go_on_without(&self, state: &LoopState) -> bool {
        let on_its_way = self.candidate.as_ref().is_some_and(|candidate| {
            candidate.stand_in.is_none()
                && matches!(candidate.stage, PrecomputeStage::Asking | PrecomputeStage::Writing)
        });
        on_its_way && state.session.meter().bound() <= state.session.budget().usable
    }

    /// Creates the event of a failed summary.
    pub(super) fn failure(&mut self, state: &LoopState, strategy: &str, problem: ErrorInfo) -> EventBody {
        let failures = state.session.history.failed_summaries() + 1;
        let rest = match failures >= SUMMARY_FAILURES {
            true => format!("; it failed {failures} times in a row, and the next compactions do without"),
            false => String::new(),
        };
        EventBody::CompactionFailed {
            strategy: strategy.to_owned(),
            code: problem.code,
            reason: format!("{}{rest}", problem.message),
            usage: self.take_unstored(),
        }
    }

    /// Handles the hook's answer about a background summary.
    pub(super) fn hook_answered_ahead(
        &mut self,
        state: &mut LoopState,
        answer: PreCompactOutput,
        out: &mut Vec<RunEffect>,
    ) {
        if answer.cancel {
            return self.void_candidate(out);
        }
        let budget = state.session.budget();
        if let Some(candidate) = &mut self.candidate {
            answer.apply(&mut candidate.draft, &state.session.history, &budget);
        }
        self.write_ahead(state, out);
    }
}

/// Returns the problem of a summary that is still being written when the room is needed.
fn late_problem() -> ErrorInfo {
    let message = "the summary was not ready when the room was needed".to_owned();
    ErrorInfo { code: ErrorCode::Timeout, message }
}
