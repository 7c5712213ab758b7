//! The plan before a step, and the compactions that follow from it.

use super::{
    AppendContinuation, CompactionOutcome, CountContinuation, ModelCallFailure, Run, RunEffect, RunNotice,
    RunPhase, RunStopCause, RunTimer, hook,
};
use crate::budget::ASSUMED_WINDOW;
use crate::error::ErrorCode;
use crate::event::{ErrorInfo, EventBody, ViewEdit};
use crate::history::SUMMARY_FAILURES;
use crate::message::ModelAnswer;
use crate::plan::{self, CompactionPolicy, ContextOverflow, Plan, PlanTrigger, SummaryDraft};

impl Run {
    /// Returns the plan for the next request.
    pub(super) fn plan(&self, occasion: &PlanTrigger) -> Plan {
        let settings = &self.settings;
        let (fixed, budget) = (settings.fixed.planned(&self.history), self.budget());
        // A user's instructions are not in the background summary, so a compaction on request does not use it.
        let ready = self.coming().filter(|_| matches!(occasion, PlanTrigger::Routine | PlanTrigger::Pause));
        if *occasion == PlanTrigger::Routine && self.may_ask_again() {
            // The refusal that named the window may have been wrong, so a message is tried whole before it is cut.
            let policy = CompactionPolicy { cuts_user_messages: false, ..settings.policy.clone() };
            return plan::plan_with(&self.history, fixed, &budget, &policy, occasion, ready);
        }
        plan::plan_with(&self.history, fixed, &budget, &settings.policy, occasion, ready)
    }

    /// Makes the view ready for the next step: notes, the server's count, a finished summary, then the plan.
    pub(super) fn prepare(&mut self, out: &mut Vec<RunEffect>) {
        if self.stop_at_boundary(out) {
            return;
        }
        if self.note_broken_answer(out) || self.note_orders(out) {
            return;
        }
        // One compaction a step: only a call can show how large the edited view is.
        if self.step.compacted {
            return self.start_step(out);
        }
        if self.count_first(CountContinuation::Plan, out) {
            return;
        }
        let is_paused = self.history.is_paused();
        if !is_paused && self.swap_extract(out) {
            return;
        }
        let occasion = if is_paused { PlanTrigger::Pause } else { PlanTrigger::Routine };
        let plan = self.plan(&occasion);
        if self.stop_if_flagged(out) {
            return;
        }
        match plan {
            Plan::Fits => self.start_step(out),
            Plan::Summarise(_) | Plan::Edit(_) if !is_paused && self.can_go_on_without() => {
                self.start_step(out);
            }
            other => self.act_on(other, occasion, out),
        }
    }

    /// Ends the present work if a cancel is on its way. Results that were computed meanwhile may be incomplete and are
    /// dropped.
    fn stop_if_flagged(&mut self, out: &mut Vec<RunEffect>) -> bool {
        let is_flagged = self.history.stop_flag().is_raised();
        if is_flagged {
            self.history.stop_flag().heed();
            self.woken = false;
            self.stop = Some(RunStopCause::Cancelled);
            self.phase = RunPhase::Storing;
            self.boundary_or_idle(out);
        }
        is_flagged
    }

    /// Asks the hook about a plan, and carries out the plan if no answer is needed.
    pub(super) fn act_on(&mut self, plan: Plan, occasion: PlanTrigger, out: &mut Vec<RunEffect>) {
        if self.stop_if_flagged(out) {
            return;
        }
        if let Some(plan) = self.ask_hook(plan, &occasion, out) {
            self.carry_out(plan, occasion, out);
        }
    }

    /// Carries out a plan that no hook has to decide any more.
    pub(super) fn carry_out(&mut self, plan: Plan, occasion: PlanTrigger, out: &mut Vec<RunEffect>) {
        if self.stop_if_flagged(out) {
            return;
        }
        match plan {
            Plan::Fits => self.nothing_to_do(&occasion, out),
            Plan::Edit(edit) if self.became(&edit) && self.committable_summary().is_none() => {
                self.commit(*edit, &occasion, out)
            }
            Plan::Edit(edit) => match self.failed_ahead() {
                Some(problem) => {
                    let failed = self.failure(&edit.strategy, problem);
                    self.after_failure(failed, Plan::Edit(edit), &occasion, out);
                }
                None => self.commit(*edit, &occasion, out),
            },
            Plan::Summarise(draft) if self.may_wait(&occasion) => self.ask_for_summary(draft, occasion, out),
            Plan::Summarise(draft) => {
                let problem = self.failed_ahead();
                self.commit_extract(&draft, &occasion, problem, out);
            }
            Plan::DoesNotFit(misfit) => self.does_not_fit(misfit, &occasion, out),
        }
    }

    /// Returns whether the next step may wait for a summary.
    fn may_wait(&self, occasion: &PlanTrigger) -> bool {
        let waits = self.settings.policy.strategy.waits() && !self.history.summaries_rest();
        waits || matches!(occasion, PlanTrigger::Requested { .. })
    }

    /// Handles a plan that changes nothing.
    pub(super) fn nothing_to_do(&mut self, occasion: &PlanTrigger, out: &mut Vec<RunEffect>) {
        match occasion {
            PlanTrigger::Requested { .. } => {
                out.push(RunEffect::CompactionDone(CompactionOutcome::NothingToDo));
                self.idle(out);
            }
            PlanTrigger::Overflow => {
                let message = format!("{}; nothing can be left out", self.refusal());
                self.fail(ErrorCode::ContextOverflow, message, out);
            }
            PlanTrigger::Routine | PlanTrigger::Pause => self.start_step(out),
        }
    }

    /// Handles a plan that found no way to make the request fit.
    pub(super) fn does_not_fit(
        &mut self,
        misfit: ContextOverflow,
        occasion: &PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) {
        if let PlanTrigger::Requested { .. } = occasion {
            out.push(RunEffect::CompactionDone(CompactionOutcome::Refused(misfit.to_string())));
            return self.idle(out);
        }
        // The rest of a paused answer may be short enough for the window as it is.
        let may_go_on = *occasion == PlanTrigger::Pause && self.fits_the_window();
        if may_go_on || *occasion == PlanTrigger::Routine && self.may_ask_again() {
            return self.start_step(out);
        }
        let message = match occasion {
            PlanTrigger::Overflow if misfit.needed_tokens <= misfit.usable_tokens => {
                let (needed, usable) = (misfit.needed_tokens, misfit.usable_tokens);
                format!(
                    "{}; nothing more can be left out, and by our count it fits: up to {needed} of {usable} tokens",
                    self.refusal()
                )
            }
            PlanTrigger::Overflow => format!("{}; {misfit}", self.refusal()),
            _ => misfit.to_string(),
        };
        self.fail(ErrorCode::ContextOverflow, message, out);
    }

    /// Returns the refusal of the newest request, in words.
    fn refusal(&self) -> String {
        let said = self.step.refusal.as_deref().unwrap_or("the request is too long");
        format!("the provider refused the request: {}", said.trim_end_matches('.'))
    }

    /// Returns whether the known window is larger than one that a refusal named, and this run has made no step yet. A
    /// refusal may have been wrong, and must not end a session.
    fn may_ask_again(&self) -> bool {
        let known = self.settings.model.window.or(self.history.window()).unwrap_or(ASSUMED_WINDOW);
        let asked = self.history.open_run().is_some_and(|run| run.steps > 0);
        !asked && self.budget().window < known
    }

    /// Stores an edit of the view.
    pub(super) fn commit(&mut self, edit: ViewEdit, occasion: &PlanTrigger, out: &mut Vec<RunEffect>) {
        self.commit_with(Vec::new(), edit, occasion, out);
    }

    /// Stores an edit of the view behind other events.
    pub(super) fn commit_with(
        &mut self,
        mut events: Vec<EventBody>,
        mut edit: ViewEdit,
        occasion: &PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) {
        if self.stop_if_flagged(out) {
            return;
        }
        // The background summary is in the edit, or does not fit the view any more.
        let is_ready = self.committable_summary().is_some();
        let is_requested = matches!(occasion, PlanTrigger::Requested { .. });
        match (self.became(&edit), &mut self.candidate) {
            (true, Some(candidate)) if !is_ready && !is_requested => {
                candidate.stand_in = Some(edit.id.clone())
            }
            (true, _) if is_ready => self.candidate = None,
            _ => self.drop_candidate(out),
        }
        if let Some(usage) = self.take_unstored() {
            edit.usage.get_or_insert_default().add(&usage);
        }
        self.step.compacted = true;
        self.phase = RunPhase::Storing;
        let then = match occasion {
            PlanTrigger::Requested { .. } => AppendContinuation::Compacted(Box::new(edit.clone())),
            _ => AppendContinuation::StartStep,
        };
        // Nothing follows a compaction of a session at rest, so no note recalls anything for it.
        let note = match occasion {
            PlanTrigger::Requested { .. } => None,
            // A note must not stand between two pieces of one answer.
            _ if self.history.is_paused() => None,
            _ if events.is_empty() => self.recalled(&edit),
            _ => None,
        };
        events.push(EventBody::ViewEdited(Box::new(edit)));
        events.extend(note);
        self.append(events, then, out);
    }

    /// Tells watchers about a compaction, and asks for its summary.
    pub(super) fn ask_for_summary(
        &mut self,
        draft: Box<SummaryDraft>,
        occasion: PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) {
        out.push(RunEffect::Notice(RunNotice::Compacting {
            strategy: draft.strategy().to_owned(),
            reason: draft.reason(),
            trigger_tokens: draft.trigger_tokens(),
        }));
        self.ask_on(draft, occasion, out);
    }

    /// Sends the request for the next piece of the summary, or continues if no piece is left.
    fn ask_on(&mut self, mut draft: Box<SummaryDraft>, occasion: PlanTrigger, out: &mut Vec<RunEffect>) {
        let budget = self.budget();
        let shown = self.history.view();
        // A paused answer is no part of the summary, so the request ends in front of it.
        let end = shown.len() - usize::from(self.history.is_paused());
        let Some(request) = draft.request(&shown[..end], &budget) else {
            return self.finish_summary(draft, &occasion, out);
        };
        let task = self.new_task();
        self.phase = RunPhase::Summarising { task, draft, occasion };
        out.push(RunEffect::Summarise { task, ahead: false, request });
        let after_ms = self.settings.policy.summary_timeout_ms;
        out.push(RunEffect::StartTimer { timer: RunTimer::Summary, after_ms });
    }

    /// Handles an answer to a request for a summary.
    pub(super) fn summarised(
        &mut self,
        task: u64,
        answer: Result<ModelAnswer, ModelCallFailure>,
        out: &mut Vec<RunEffect>,
    ) {
        if self.candidate.as_ref().is_some_and(|candidate| candidate.task == task) {
            return self.summarised_ahead(answer, out);
        }
        let (mut draft, occasion) = match std::mem::replace(&mut self.phase, RunPhase::Storing) {
            RunPhase::Summarising { task: asked, draft, occasion } if asked == task => (draft, occasion),
            // A late answer to a summary that was given up changes nothing.
            other => {
                self.phase = other;
                return;
            }
        };
        out.push(RunEffect::StopTimer { timer: RunTimer::Summary });
        if self.stop.is_some() {
            return self.boundary_or_idle(out);
        }
        let problem = match answer {
            Ok(answer) => match draft.take(answer) {
                Ok(()) => return self.ask_on(draft, occasion, out),
                Err(rejected) => ErrorInfo { code: ErrorCode::ThirdParty, message: rejected.to_string() },
            },
            Err(failure) => {
                if let Some(usage) = failure.usage {
                    draft.spend(usage);
                }
                ErrorInfo { code: failure.code, message: failure.message }
            }
        };
        self.commit_extract(&draft, &occasion, Some(problem), out);
    }

    /// Gives up a summary that takes too long.
    pub(super) fn summary_is_late(&mut self, out: &mut Vec<RunEffect>) {
        let RunPhase::Summarising { task, .. } = self.phase else { return };
        out.push(RunEffect::StopModel);
        let message = self.late_summary();
        self.summarised(task, Err(ModelCallFailure::new(ErrorCode::Timeout, message, false)), out);
    }

    /// Returns the failure of a late summary, in words.
    pub(super) fn late_summary(&self) -> String {
        let after = self.settings.policy.summary_timeout_ms / 1_000;
        format!("the summary did not come within {after} s")
    }

    /// Commits the edit of a draft whose texts are complete.
    pub(super) fn finish_summary(
        &mut self,
        draft: Box<SummaryDraft>,
        occasion: &PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) {
        let checked = draft.finish(&self.history).map_err(|rejected| rejected.to_string());
        let validate =
            |edit: ViewEdit| self.settings.policy.strategy.validate(&self.history, &edit).map(|()| edit);
        match checked.and_then(validate) {
            Ok(edit) => self.commit(edit, occasion, out),
            Err(message) => {
                let problem = ErrorInfo { code: ErrorCode::ThirdParty, message };
                self.commit_extract(&draft, occasion, Some(problem), out);
            }
        }
    }

    /// Commits an extract in place of a missing summary; else a truncation, or the overflow error.
    pub(super) fn commit_extract(
        &mut self,
        draft: &SummaryDraft,
        occasion: &PlanTrigger,
        problem: Option<ErrorInfo>,
        out: &mut Vec<RunEffect>,
    ) {
        let plan = match draft.finish_extractive(&self.history) {
            // The usage goes into one event, either the failure or the edit.
            Ok(edit) => Plan::Edit(Box::new(ViewEdit { usage: None, ..edit })),
            Err(_) => self.plan_without_summary(occasion),
        };
        if self.stop_if_flagged(out) {
            return;
        }
        self.unstored.extend(draft.usage().cloned());
        match problem {
            None => self.carry_out(plan, occasion.clone(), out),
            Some(problem) => {
                let failed = self.failure(draft.strategy(), problem);
                self.after_failure(failed, plan, occasion, out);
            }
        }
    }

    /// Creates the event of a failed summary.
    pub(super) fn failure(&mut self, strategy: &str, problem: ErrorInfo) -> EventBody {
        let failures = self.history.failed_summaries() + 1;
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

    /// Returns the plan for the case that no summary can be had.
    pub(super) fn plan_without_summary(&self, occasion: &PlanTrigger) -> Plan {
        let settings = &self.settings;
        let (fixed, budget) = (settings.fixed.planned(&self.history), self.budget());
        plan::without_summary(&self.history, fixed, &budget, &settings.policy, occasion)
    }

    /// Handles a request for a compaction. Only a session at rest accepts one.
    pub(super) fn compact(&mut self, occasion: PlanTrigger, out: &mut Vec<RunEffect>) {
        if !self.is_idle() || !self.pending.is_empty() {
            out.push(RunEffect::CompactionDone(CompactionOutcome::Refused("the session is busy".to_owned())));
            return;
        }
        if let PlanTrigger::Requested { instructions: Some(text) } = &occasion
            && let Err(refused) = self.check_instructions(text)
        {
            out.push(RunEffect::CompactionDone(CompactionOutcome::Refused(refused)));
            return;
        }
        self.phase = RunPhase::Storing;
        let plan = self.plan(&occasion);
        self.act_on(plan, occasion, out);
    }

    /// Checks that a user's instructions leave room in the request for the summary, which carries both.
    pub(super) fn check_instructions(&self, text: &str) -> Result<(), String> {
        hook::check_instructions(text, &self.history, &self.budget())
    }

    /// Ends a compaction: at the boundary of the open run, or at rest.
    pub(super) fn boundary_or_idle(&mut self, out: &mut Vec<RunEffect>) {
        if self.history.open_run().is_some() {
            return self.reach_step_boundary(out);
        }
        out.push(RunEffect::CompactionDone(CompactionOutcome::Refused("cancelled".to_owned())));
        self.idle(out);
    }
}
