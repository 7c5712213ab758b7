//! The background summary, which a model writes while work goes on and which is committed between two steps.

use super::{AppendContinuation, ModelCallFailure, Run, RunEffect, RunPhase, RunTimer};
use crate::error::ErrorCode;
use crate::event::{ErrorInfo, EventBody, ViewEdit};
use crate::history::ViewItem;
use crate::ids::EditId;
use crate::message::{ModelAnswer, Role};
use crate::plan::{self, Plan, SummaryDraft};
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

impl Run {
    /// Begins a background summary if the view is near the threshold. The loop calls this after an answer, because the
    /// model's server is idle until the tools end or a user types.
    pub(super) fn look_ahead(&mut self, out: &mut Vec<RunEffect>) {
        let view = self.history.view();
        let is_void = |candidate: &PrecomputedSummary| !candidate.is_about(view);
        if self.candidate.as_ref().is_some_and(is_void) {
            self.drop_candidate(out);
        }
        let rests = self.history.summaries_rest();
        if self.candidate.is_some() || self.stop.is_some() || self.is_time_up() || rests {
            return;
        }
        let settings = &self.settings;
        let (fixed, budget) = (settings.fixed.planned(&self.history), self.budget());
        let Some(draft) = plan::plan_in_background(&self.history, fixed, &budget, &settings.policy) else {
            return;
        };
        if self.history.stop_flag().is_raised() {
            // The draft may be incomplete, because the computation ended early.
            return;
        }
        let task = self.new_task();
        let stage = PrecomputeStage::Asking;
        self.candidate = Some(PrecomputedSummary { task, draft, stage, problem: None, stand_in: None });
        match self.settings.pre_compact_ms {
            Some(deadline_ms) => self.ask_ahead(task, deadline_ms, out),
            None => self.write_ahead(out),
        }
    }

    /// Asks the PreCompact hook about the background summary.
    fn ask_ahead(&mut self, task: u64, deadline_ms: u64, out: &mut Vec<RunEffect>) {
        let Some(candidate) = &self.candidate else { return };
        let ask = self.pre_compact_of(&Plan::Summarise(candidate.draft.clone()), false, deadline_ms);
        out.push(RunEffect::AskPreCompact { task, ask: Box::new(ask) });
        out.push(RunEffect::StartTimer { timer: RunTimer::Ahead, after_ms: deadline_ms });
    }

    /// Sends the next request for the summary, or marks the summary as ready.
    pub(super) fn write_ahead(&mut self, out: &mut Vec<RunEffect>) {
        let budget = self.budget();
        let shown = self.history.view();
        // The newest step has no results yet, and a call without a result makes a request invalid.
        let open = !self.history.open_calls().is_empty();
        let newest = shown.iter().rposition(|item| item.message.role == Role::Assistant);
        let end = newest.filter(|_| open).unwrap_or(shown.len());
        let Some(candidate) = &mut self.candidate else { return };
        match candidate.draft.request(&shown[..end], &budget) {
            Some(request) => {
                candidate.stage = PrecomputeStage::Writing;
                let task = candidate.task;
                out.push(RunEffect::Summarise { task, ahead: true, request });
                let after_ms = self.settings.policy.summary_timeout_ms;
                out.push(RunEffect::StartTimer { timer: RunTimer::Ahead, after_ms });
            }
            None => {
                candidate.draft.make_ledgers(&self.history);
                candidate.stage =
                    if candidate.draft.is_written() { PrecomputeStage::Ready } else { PrecomputeStage::Void };
                out.push(RunEffect::StopTimer { timer: RunTimer::Ahead });
                if self.history.stop_flag().is_raised() {
                    // The pinned facts may be incomplete, because the computation ended early.
                    self.drop_candidate(out);
                }
            }
        }
    }

    /// Handles the answer to a request for the background summary.
    pub(super) fn summarised_ahead(
        &mut self,
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
                    message: "the answer was no usable summary, and an extract stands in its place by now"
                        .to_owned(),
                }),
                Ok(()) => return self.write_ahead(out),
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
            return self.fail_swap(out);
        }
        self.void_candidate(out);
    }

    /// Keeps the extract. The failure is stored as soon as no step is open.
    fn fail_swap(&mut self, out: &mut Vec<RunEffect>) {
        self.void_candidate(out);
        let Some(mut candidate) = self.candidate.take() else { return };
        self.unstored.extend(candidate.draft.take_usage());
        if let Some(problem) = candidate.problem {
            let failed = self.failure(candidate.draft.strategy(), problem);
            self.soon.push(failed);
            self.record_if_idle(out);
        }
    }

    /// Replaces an extract by its finished summary. Returns `false` if there is none to replace.
    pub(super) fn swap_extract(&mut self, out: &mut Vec<RunEffect>) -> bool {
        let Some(candidate) = &self.candidate else { return false };
        let Some(stand_in) =
            candidate.stand_in.as_ref().filter(|_| candidate.stage == PrecomputeStage::Ready)
        else {
            return false;
        };
        let (settings, budget) = (&self.settings, self.budget());
        // The extract was an edit, so every request carries `recall` by now.
        let (fixed, policy) = (settings.fixed.tokens, &settings.policy);
        let edit = plan::swap(&self.history, fixed, &budget, policy, &candidate.draft, stand_in);
        if self.history.stop_flag().is_raised() {
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
        self.step.compacted = true;
        self.phase = RunPhase::Storing;
        self.append(vec![EventBody::ViewEdited(Box::new(edit))], AppendContinuation::StartStep, out);
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
        let late = || ErrorInfo {
            code: ErrorCode::Timeout,
            message: "the summary was not ready when the room was needed".to_owned(),
        };
        let is_late = candidate.stage == PrecomputeStage::Writing && candidate.stand_in.is_none();
        let problem = candidate.problem.take().or_else(|| is_late.then(late))?;
        self.unstored.extend(candidate.draft.take_usage());
        Some(problem)
    }

    /// Gives up the background summary. It is not tried again as long as its messages are unchanged.
    pub(super) fn void_candidate(&mut self, out: &mut Vec<RunEffect>) {
        if let Some(candidate) = &mut self.candidate {
            if candidate.stage == PrecomputeStage::Writing {
                out.push(RunEffect::StopSummary { task: candidate.task });
            }
            candidate.stage = PrecomputeStage::Void;
            out.push(RunEffect::StopTimer { timer: RunTimer::Ahead });
        }
    }

    /// Gives up a background summary that takes too long.
    pub(super) fn void_unfinished(&mut self, out: &mut Vec<RunEffect>) {
        let message = self.late_summary();
        if let Some(candidate) =
            self.candidate.as_mut().filter(|candidate| candidate.stage == PrecomputeStage::Writing)
        {
            candidate.problem = Some(ErrorInfo { code: ErrorCode::Timeout, message });
            match candidate.stand_in {
                Some(_) => self.fail_swap(out),
                None => self.void_candidate(out),
            }
        }
    }

    /// Drops the background summary, because the view has changed or the compaction is done. Its usage is kept.
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
    pub(super) fn can_go_on_without(&self) -> bool {
        let on_its_way = self.candidate.as_ref().is_some_and(|candidate| {
            candidate.stand_in.is_none()
                && matches!(candidate.stage, PrecomputeStage::Asking | PrecomputeStage::Writing)
        });
        on_its_way && self.meter().bound() <= self.budget().usable
    }

    /// Returns the name of a new task.
    pub(super) fn new_task(&mut self) -> u64 {
        self.next_task += 1;
        self.next_task
    }
}
