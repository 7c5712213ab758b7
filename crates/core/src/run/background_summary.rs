//! A summary that is written ahead, while work goes on, and committed between two steps when its time has come.

use super::{AppendContinuation, ModelCallFailure, Run, RunEffect, RunPhase, RunTimer};
use crate::error::ErrorCode;
use crate::event::{ErrorInfo, EventBody, ViewEdit};
use crate::history::ViewItem;
use crate::ids::EditId;
use crate::message::{ModelAnswer, Role};
use crate::plan::{self, Plan, SummaryDraft};
use crate::usage::Usage;

/// A compaction that may come.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PrecomputedSummary {
    pub(super) task: u64,
    pub(super) draft: Box<SummaryDraft>,
    pub(super) stage: PrecomputeStage,
    /// What kept it from being written.
    pub(super) problem: Option<ErrorInfo>,
    /// The edit whose extract stands in its place until it is written.
    pub(super) stand_in: Option<EditId>,
}

impl PrecomputedSummary {
    /// Returns whether it can still be committed to that view.
    fn is_about(&self, view: &[ViewItem]) -> bool {
        match &self.stand_in {
            Some(edit) => self.stage != PrecomputeStage::Void && self.draft.is_stood_in_by(edit, view),
            None => self.draft.is_about(view),
        }
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrecomputeStage {
    /// A hook is asked whether it may be.
    Asking,
    /// A model writes it.
    Writing,
    /// It can be committed.
    Ready,
    /// It failed or was forbidden. Kept until its subject has changed, so that it is not tried at every step.
    Void,
}

impl Run {
    /// Begins a summary ahead if the view is near the line. Asked when a model has answered: until the tools are done
    /// or a person types, its server has nothing else to do.
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
            // The draft may lack something.
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

    fn ask_ahead(&mut self, task: u64, deadline_ms: u64, out: &mut Vec<RunEffect>) {
        let Some(candidate) = &self.candidate else { return };
        let ask = self.pre_compact_of(&Plan::Summarise(candidate.draft.clone()), false, deadline_ms);
        out.push(RunEffect::AskPreCompact { task, ask: Box::new(ask) });
        out.push(RunEffect::StartTimer { timer: RunTimer::Ahead, after_ms: deadline_ms });
    }

    /// The next request for it, or what is ready.
    pub(super) fn write_ahead(&mut self, out: &mut Vec<RunEffect>) {
        let budget = self.budget();
        let shown = self.history.view();
        // The newest step has no results yet: the request ends before it.
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
                    // Its ledgers may lack something.
                    self.drop_candidate(out);
                }
            }
        }
    }

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

    /// The extract stays. That no summary came is stored as soon as no step is going on.
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

    /// Puts a summary that came late in the place of its extract; `false` if there is none.
    pub(super) fn swap_extract(&mut self, out: &mut Vec<RunEffect>) -> bool {
        let Some(candidate) = &self.candidate else { return false };
        let Some(stand_in) =
            candidate.stand_in.as_ref().filter(|_| candidate.stage == PrecomputeStage::Ready)
        else {
            return false;
        };
        let (settings, budget) = (&self.settings, self.budget());
        let (fixed, policy) = (settings.fixed.tokens, &settings.policy);
        let edit = plan::swap(&self.history, fixed, &budget, policy, &candidate.draft, stand_in);
        if self.history.stop_flag().is_raised() {
            // The edit may lack something. The plan that follows ends the run.
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

    /// The candidate whose extract may be committed now: it is ready, or on its way.
    pub(super) fn coming(&self) -> Option<&SummaryDraft> {
        let candidate = self.candidate.as_ref().filter(|candidate| candidate.stand_in.is_none())?;
        matches!(candidate.stage, PrecomputeStage::Ready | PrecomputeStage::Writing)
            .then_some(&*candidate.draft)
    }

    /// Returns whether an edit is what became of the candidate; if that is on its way, the edit stands in for it.
    pub(super) fn became(&self, edit: &ViewEdit) -> bool {
        self.coming().is_some_and(|draft| draft.became(edit))
    }

    /// Why the summary that was to be written ahead is not there: told once.
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

    /// It will not come, and is not tried again as long as nothing has changed.
    pub(super) fn void_candidate(&mut self, out: &mut Vec<RunEffect>) {
        if let Some(candidate) = &mut self.candidate {
            if candidate.stage == PrecomputeStage::Writing {
                out.push(RunEffect::StopSummary { task: candidate.task });
            }
            candidate.stage = PrecomputeStage::Void;
            out.push(RunEffect::StopTimer { timer: RunTimer::Ahead });
        }
    }

    /// It takes too long.
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

    /// The view is another now, or the compaction is done.
    pub(super) fn drop_candidate(&mut self, out: &mut Vec<RunEffect>) {
        self.void_candidate(out);
        if let Some(candidate) = self.candidate.take() {
            self.unstored.extend(candidate.draft.usage().cloned());
        }
    }

    /// What summaries used that nobody stored yet: it goes with the next compaction.
    pub(super) fn take_unstored(&mut self) -> Option<Usage> {
        self.unstored.drain(..).reduce(|mut sum, usage| {
            sum.add(&usage);
            sum
        })
    }

    /// The candidate, if it can be committed.
    pub(super) fn committable_summary(&self) -> Option<&SummaryDraft> {
        let candidate = self.candidate.as_ref().filter(|candidate| candidate.stand_in.is_none())?;
        (candidate.stage == PrecomputeStage::Ready).then_some(&*candidate.draft)
    }

    /// Returns whether a summary is on its way and there is room to go on without it.
    pub(super) fn can_go_on_without(&self) -> bool {
        let on_its_way = self.candidate.as_ref().is_some_and(|candidate| {
            candidate.stand_in.is_none()
                && matches!(candidate.stage, PrecomputeStage::Asking | PrecomputeStage::Writing)
        });
        on_its_way && self.meter().bound() <= self.budget().usable
    }

    pub(super) fn new_task(&mut self) -> u64 {
        self.next_task += 1;
        self.next_task
    }
}
