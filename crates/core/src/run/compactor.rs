//! The plan before a step, and the compactions that follow.

use super::background_summary::BackgroundSummariser;
use super::loop_state::{AppendContinuation, CountContinuation, LoopState, RunPhase};
use super::{
    CompactionOutcome, ModelCallFailure, RunEffect, RunNotice, RunTimer, hook, omitting, orders, recalling,
    server_wait,
};
use crate::error::ErrorCode;
use crate::event::{ErrorInfo, EventBody, ViewEdit};
use crate::message::ModelAnswer;
use crate::plan::{self, CompactionPolicy, ContextOverflow, Plan, PlanTrigger, SummaryDraft};
use crate::shortening::{self, SummaryWriting};

/// The compactions of a session: their plans, hooks and summaries.
#[derive(Clone, Debug, Default)]
pub(super) struct Compactor {
    pub(super) background: BackgroundSummariser,
}

impl Compactor {
    /// Returns the plan for the next request.
    pub(super) fn plan(&self, state: &LoopState, trigger: &PlanTrigger) -> Plan {
        let settings = &state.session.settings;
        let (fixed, budget) = (settings.fixed.planned(&state.session.history), state.session.budget());
        // A user's instructions are not in the background summary, so a compaction on request does not use it.
        let ready =
            self.background.coming().filter(|_| matches!(trigger, PlanTrigger::Routine | PlanTrigger::Pause));
        if *trigger == PlanTrigger::Routine && state.session.may_ask_again() {
            // The refusal that named the window may have been wrong, so a message is tried whole before it is cut.
            let policy = CompactionPolicy { cuts_user_messages: false, ..settings.policy.clone() };
            return plan::plan_with(&state.session.history, fixed, &budget, &policy, trigger, ready);
        }
        plan::plan_with(&state.session.history, fixed, &budget, &settings.policy, trigger, ready)
    }

    /// Makes the view ready for the next step: notes, the server's count, a finished summary, then the plan.
    pub(super) fn prepare(&mut self, state: &mut LoopState, out: &mut Vec<RunEffect>) {
        if state.stop_at_boundary(out) {
            return;
        }
        if server_wait::note_broken_answer(state, out) || orders::note_orders(state, out) {
            return;
        }
        // One compaction a step: only a call can show how large the edited view is.
        if state.step.compacted {
            return state.start_step(out);
        }
        if state.count_first(CountContinuation::Plan, out) {
            return;
        }
        let is_paused = state.session.history.is_paused();
        if !is_paused && self.background.swap_extract(state, out) {
            return;
        }
        let trigger = if is_paused { PlanTrigger::Pause } else { PlanTrigger::Routine };
        let plan = self.plan(state, &trigger);
        // A raised flag ends computations early, so the plan may be incomplete.
        if state.stop_if_flagged(out) {
            return;
        }
        match plan {
            Plan::Fits => state.start_step(out),
            Plan::Summarise(_) | Plan::Edit(_) if !is_paused && self.background.can_go_on_without(state) => {
                state.start_step(out);
            }
            other => self.act_on(state, other, trigger, out),
        }
    }

    /// Asks the hook about a plan, and carries out the plan if no answer is needed.
    pub(super) fn act_on(
        &mut self,
        state: &mut LoopState,
        plan: Plan,
        trigger: PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) {
        if state.stop_if_flagged(out) {
            return;
        }
        if let Some(plan) = self.ask_hook(state, plan, &trigger, out) {
            self.carry_out(state, plan, trigger, out);
        }
    }

    /// Carries out a plan that no hook has to decide any more.
    pub(super) fn carry_out(
        &mut self,
        state: &mut LoopState,
        plan: Plan,
        trigger: PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) {
        if state.stop_if_flagged(out) {
            return;
        }
        match plan {
            Plan::Fits => nothing_to_do(state, &trigger, out),
            Plan::Edit(edit)
                if self.background.became(&edit) && self.background.committable_summary().is_none() =>
            {
                self.commit(state, *edit, &trigger, out)
            }
            Plan::Edit(edit) => match self.background.failed_ahead() {
                Some(problem) => {
                    let failed = self.background.failure(state, &edit.strategy, problem);
                    self.after_failure(state, failed, Plan::Edit(edit), &trigger, out);
                }
                None => self.commit(state, *edit, &trigger, out),
            },
            Plan::Summarise(draft) if state.session.may_wait(&trigger) => {
                self.ask_for_summary(state, draft, trigger, out)
            }
            Plan::Summarise(draft) => {
                let problem = self.background.failed_ahead();
                self.commit_extract(state, &draft, &trigger, problem, out);
            }
            Plan::DoesNotFit(misfit) => does_not_fit(state, misfit, &trigger, out),
        }
    }

    /// Stores an edit of the view.
    fn commit(
        &mut self,
        state: &mut LoopState,
        edit: ViewEdit,
        trigger: &PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) {
        self.commit_with(state, Vec::new(), edit, trigger, out);
    }

    /// Stores an edit of the view behind other events.
    pub(super) fn commit_with(
        &mut self,
        state: &mut LoopState,
        mut events: Vec<EventBody>,
        mut edit: ViewEdit,
        trigger: &PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) {
        if state.stop_if_flagged(out) {
            return;
        }
        let is_requested = matches!(trigger, PlanTrigger::Requested { .. });
        self.background.note_commit(&edit, is_requested, out);
        if let Some(usage) = self.background.take_unstored() {
            edit.usage.get_or_insert_default().add(&usage);
        }
        state.step.compacted = true;
        state.phase = RunPhase::Storing;
        let then = match trigger {
            PlanTrigger::Requested { .. } => AppendContinuation::Compacted(Box::new(edit.clone())),
            _ => AppendContinuation::StartStep,
        };
        // Nothing follows a compaction of a session at rest, so no note recalls anything for it.
        let note = match trigger {
            PlanTrigger::Requested { .. } => None,
            // A note must not stand between two pieces of one answer.
            _ if state.session.history.is_paused() => None,
            _ if events.is_empty() => recalling::recalled(&state.session, &edit),
            _ => None,
        };
        events.push(EventBody::ViewEdited(Box::new(edit)));
        events.extend(note);
        state.append(events, then, out);
    }

    /// Tells watchers about a compaction, and asks for the summary.
    fn ask_for_summary(
        &mut self,
        state: &mut LoopState,
        draft: Box<SummaryDraft>,
        trigger: PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) {
        out.push(RunEffect::Notice(RunNotice::Compacting {
            strategy: draft.strategy().to_owned(),
            reason: draft.reason(),
            trigger_tokens: draft.trigger_tokens(),
        }));
        let writing = Box::new(SummaryWriting::new(*draft, state.session.budget()));
        self.ask_on(state, writing, trigger, out);
    }

    /// Sends the request for the next piece of the summary, or continues if no piece is left.
    fn ask_on(
        &mut self,
        state: &mut LoopState,
        mut writing: Box<SummaryWriting>,
        trigger: PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) {
        let Some(request) = writing.next_request(&state.session.history) else {
            return self.finish_summary(state, Box::new(writing.into_draft()), &trigger, out);
        };
        let task = state.new_task();
        state.phase = RunPhase::Summarising { task, writing, trigger };
        out.push(RunEffect::Summarise { task, ahead: false, request });
        // Each piece has the whole time: a summary of many pieces may take longer than one call.
        let after_ms = state.session.settings.policy.summary_timeout_ms;
        out.push(RunEffect::StartTimer { timer: RunTimer::Summary, after_ms });
    }

    /// Handles an answer to a request for a summary.
    pub(super) fn summarised(
        &mut self,
        state: &mut LoopState,
        task: u64,
        answer: Result<ModelAnswer, ModelCallFailure>,
        out: &mut Vec<RunEffect>,
    ) {
        if self.background.has_task(task) {
            return self.background.summarised_ahead(state, answer, out);
        }
        // Taken out, so that the writing can change without a copy. The phase is put back if the answer is not meant
        // for it.
        let (mut writing, trigger) = match std::mem::replace(&mut state.phase, RunPhase::Storing) {
            RunPhase::Summarising { task: asked, writing, trigger } if asked == task => (writing, trigger),
            // A late answer to a summary that was given up changes nothing.
            other => {
                state.phase = other;
                return;
            }
        };
        out.push(RunEffect::StopTimer { timer: RunTimer::Summary });
        if state.stop.is_some() {
            return state.boundary_or_idle(out);
        }
        let problem = match answer {
            Ok(answer) => match writing.draft_mut().take(answer) {
                Ok(()) => return self.ask_on(state, writing, trigger, out),
                Err(rejected) => ErrorInfo { code: ErrorCode::ThirdParty, message: rejected.to_string() },
            },
            Err(failure) => {
                if let Some(usage) = failure.usage {
                    writing.draft_mut().spend(usage);
                }
                if writing.restart_smaller(failure.code, failure.limit_tokens).is_some() {
                    return self.ask_on(state, writing, trigger, out);
                }
                ErrorInfo { code: failure.code, message: failure.message }
            }
        };
        self.commit_extract(state, writing.draft(), &trigger, Some(problem), out);
    }

    /// Gives up a summary that takes too long.
    pub(super) fn summary_is_late(&mut self, state: &mut LoopState, out: &mut Vec<RunEffect>) {
        let RunPhase::Summarising { task, .. } = state.phase else { return };
        // The answer may still arrive. `summarised` ignores it, because no phase asks for its task any more.
        out.push(RunEffect::StopModel);
        let message = state.session.late_summary();
        self.summarised(state, task, Err(ModelCallFailure::new(ErrorCode::Timeout, message, false)), out);
    }

    /// Commits the edit of a draft whose texts are complete.
    pub(super) fn finish_summary(
        &mut self,
        state: &mut LoopState,
        draft: Box<SummaryDraft>,
        trigger: &PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) {
        let strategy = &*state.session.settings.policy.strategy;
        match shortening::finish_summary(&draft, &state.session.history, strategy) {
            Ok(edit) => self.commit(state, edit, trigger, out),
            Err(problem) => {
                let problem = ErrorInfo { code: ErrorCode::ThirdParty, message: problem.to_string() };
                self.commit_extract(state, &draft, trigger, Some(problem), out);
            }
        }
    }

    /// Commits an extract in place of a missing summary; else a truncation, or the overflow error.
    fn commit_extract(
        &mut self,
        state: &mut LoopState,
        draft: &SummaryDraft,
        trigger: &PlanTrigger,
        problem: Option<ErrorInfo>,
        out: &mut Vec<RunEffect>,
    ) {
        let plan = match draft.finish_extractive(&state.session.history) {
            // The usage goes into one event, either the failure or the edit.
            Ok(edit) => Plan::Edit(Box::new(ViewEdit { usage: None, ..edit })),
            Err(_) => state.session.plan_without_summary(trigger),
        };
        if state.stop_if_flagged(out) {
            return;
        }
        // The refused summary was paid for. The next event about a compaction carries its usage.
        self.background.unstored.extend(draft.usage().cloned());
        match problem {
            None => self.carry_out(state, plan, trigger.clone(), out),
            Some(problem) => {
                let failed = self.background.failure(state, draft.strategy(), problem);
                self.after_failure(state, failed, plan, trigger, out);
            }
        }
    }

    /// Handles a request for a compaction. Only a session at rest accepts one.
    pub(super) fn compact(&mut self, state: &mut LoopState, trigger: PlanTrigger, out: &mut Vec<RunEffect>) {
        if !state.is_at_rest() {
            out.push(RunEffect::CompactionDone(CompactionOutcome::Refused("the session is busy".to_owned())));
            return;
        }
        if let PlanTrigger::Requested { instructions: Some(text) } = &trigger
            && let Err(refused) =
                hook::check_instructions(text, &state.session.history, &state.session.budget())
        {
            out.push(RunEffect::CompactionDone(CompactionOutcome::Refused(refused)));
            return;
        }
        state.phase = RunPhase::Storing;
        match omitting::omission_after_refusal(state) {
            // The plan needs the view without the refused part, so it is made once the omission is stored.
            Some(omission) => state.append(vec![omission], AppendContinuation::Compact(trigger), out),
            None => self.plan_and_act(state, trigger, out),
        }
    }

    /// Makes a plan and carries it out.
    pub(super) fn plan_and_act(
        &mut self,
        state: &mut LoopState,
        trigger: PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) {
        let plan = self.plan(state, &trigger);
        self.act_on(state, plan, trigger, out);
    }
}

/// Handles a plan that changes nothing.
fn nothing_to_do(state: &mut LoopState, trigger: &PlanTrigger, out: &mut Vec<RunEffect>) {
    match trigger {
        PlanTrigger::Requested { .. } => {
            out.push(RunEffect::CompactionDone(CompactionOutcome::NothingToDo));
            state.idle(out);
        }
        PlanTrigger::Overflow => {
            let message = format!("{}; nothing can be left out", state.step.refusal());
            state.fail(ErrorCode::ContextOverflow, message, out);
        }
        PlanTrigger::Routine | PlanTrigger::Pause => state.start_step(out),
    }
}

/// Handles a plan that found no way to make the request fit.
fn does_not_fit(
    state: &mut LoopState,
    misfit: ContextOverflow,
    trigger: &PlanTrigger,
    out: &mut Vec<RunEffect>,
) {
    if let PlanTrigger::Requested { .. } = trigger {
        out.push(RunEffect::CompactionDone(CompactionOutcome::Refused(misfit.to_string())));
        return state.idle(out);
    }
    // The rest of a paused answer may be short enough for the window as it is.
    let may_go_on = *trigger == PlanTrigger::Pause && state.session.fits_the_window();
    // A refusal may have named a wrong window, and only another answer can tell (decision 0008).
    if may_go_on || *trigger == PlanTrigger::Routine && state.session.may_ask_again() {
        return state.start_step(out);
    }
    let message = match trigger {
        PlanTrigger::Overflow if misfit.needed_tokens <= misfit.usable_tokens => {
            let (needed, usable) = (misfit.needed_tokens, misfit.usable_tokens);
            format!(
                "{}; nothing more can be left out, and by our count it fits: up to {needed} of {usable} tokens",
                state.step.refusal()
            )
        }
        PlanTrigger::Overflow => format!("{}; {misfit}", state.step.refusal()),
        _ => misfit.to_string(),
    };
    state.fail(ErrorCode::ContextOverflow, message, out);
}
