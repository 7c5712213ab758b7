//! The hook that is asked before a compaction.

use super::background_summary::PrecomputeStage;
use super::{AppendContinuation, CompactionOutcome, Run, RunEffect, RunPhase, RunTimer};
use crate::budget::Budget;
use crate::error::ErrorCode;
use crate::event::{EditKind, EditReason, EventBody, ViewEdit};
use crate::history::History;
use crate::ids::LogHandle;
use crate::plan::{self, Plan, PlanTrigger, SummaryDraft};

/// The input of a PreCompact hook. All sizes are in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreCompactInput {
    /// The name of the strategy that planned the compaction.
    pub strategy: String,
    /// `true` if a user asked for the compaction.
    pub manual: bool,
    /// The cause of the compaction.
    pub reason: EditReason,
    /// The size of the next request without the compaction.
    pub current_tokens: u64,
    /// The size below which the request must stay.
    pub target_tokens: u64,
    /// The number of messages in the view.
    pub message_count: u64,
    /// The number of messages that the compaction drops.
    pub messages_gone: u64,
    /// The handles of the dropped messages.
    pub what_goes: Vec<LogHandle>,
    /// The user's instructions for the summary.
    pub custom_instructions: Option<String>,
    /// The most that the summary may have; 0 where none is written.
    pub limit_tokens: u64,
    /// The time that the hook may take, in milliseconds.
    pub deadline_ms: u64,
}

impl PreCompactInput {
    /// Describes the compaction that `plan` is. `current_tokens` and `message_count` describe the view before
    /// the compaction.
    pub fn new(plan: &Plan, manual: bool, current_tokens: u64, message_count: u64, deadline_ms: u64) -> Self {
        let (reason, target_tokens, messages_gone, handles, instructions) = match plan {
            Plan::Summarise(draft) => {
                let (count, handles) = draft.what_goes();
                let instructions = draft.instructions().map(str::to_owned);
                (
                    draft.reason(),
                    // A compaction on request may begin below the trigger. Then the size before is the limit.
                    draft.trigger_tokens().min(draft.original_tokens()),
                    count,
                    handles,
                    instructions,
                )
            }
            Plan::Edit(edit) => {
                let count = (edit.original_messages + 1).saturating_sub(edit.compressed_messages);
                let handles = edit.ops.iter().map(|op| LogHandle(op.range())).collect();
                (edit.reason, edit.trigger_tokens.min(edit.original_tokens), count, handles, None)
            }
            Plan::Fits | Plan::DoesNotFit(_) => (EditReason::TokenLimit, 0, 0, Vec::new(), None),
        };
        let (strategy, limit_tokens) = match plan {
            Plan::Summarise(draft) => (draft.strategy().to_owned(), draft.limit_tokens()),
            Plan::Edit(edit) => (edit.strategy.clone(), 0),
            Plan::Fits | Plan::DoesNotFit(_) => (String::new(), 0),
        };
        Self {
            strategy,
            manual,
            reason,
            current_tokens,
            target_tokens,
            message_count,
            messages_gone,
            what_goes: handles,
            custom_instructions: instructions,
            limit_tokens,
            deadline_ms,
        }
    }
}

/// The answer of a PreCompact hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreCompactOutput {
    /// `true` cancels the compaction. If the request could not be sent otherwise, messages are left out instead.
    pub cancel: bool,
    /// The reason of the cancellation, for people.
    pub reason: Option<String>,
    /// The hook's instructions for the summary.
    pub custom_instructions: Option<String>,
    /// A summary that the hook supplies.
    pub custom_summary: Option<String>,
}

impl PreCompactOutput {
    /// Applies the answer to the draft of a summary. Returns whether the draft now holds the hook's own summary, so
    /// that no model is asked. Instructions too long for the window and a summary that does not fit are ignored, and
    /// the compaction's reason says so.
    pub fn apply(&self, draft: &mut SummaryDraft, history: &History, budget: &Budget) -> bool {
        if let Some(text) = filled(self.custom_instructions.as_deref()) {
            match check_instructions(text, history, budget) {
                Ok(()) => draft.instruct(text),
                Err(why) => draft.say(&format!("a hook's instructions were not used: {why}")),
            }
        }
        let Some(text) = filled(self.custom_summary.as_deref()) else { return false };
        match draft.given(text, history) {
            Ok(given) => {
                *draft = given;
                true
            }
            Err(why) => {
                draft.say(&format!("the summary of a hook or strategy was not used: {why}"));
                false
            }
        }
    }

    /// Returns the notice to people about a compaction that the hook cancelled.
    pub fn cancellation(&self) -> String {
        match filled(self.reason.as_deref()) {
            Some(why) => format!("a hook cancelled the compaction: {why}"),
            None => "a hook cancelled the compaction".to_owned(),
        }
    }
}

/// Checks that instructions for a summary take no more than an eighth of the usable window.
///
/// # Errors
/// A text with the size and the limit.
pub(super) fn check_instructions(text: &str, history: &History, budget: &Budget) -> Result<(), String> {
    let limit = budget.usable / 8;
    let tokens = history.counter().text_counter().groups(text).total();
    if tokens > limit {
        return Err(format!(
            "the instructions have about {tokens} tokens; {limit} are the most for this window"
        ));
    }
    Ok(())
}

impl Run {
    /// Asks the hook about a compaction, if there is a hook. Returns `None` once the hook is asked.
    pub(super) fn ask_hook(
        &mut self,
        plan: Plan,
        occasion: &PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) -> Option<Plan> {
        let is_compaction = match &plan {
            Plan::Edit(edit) => edit.kind == EditKind::Compaction,
            Plan::Summarise(_) => true,
            Plan::Fits | Plan::DoesNotFit(_) => false,
        };
        // The hook was already asked about a background summary when its draft was made.
        let asked = matches!(&plan, Plan::Edit(edit) if self.became(edit));
        let Some(deadline_ms) = self.settings.pre_compact_ms.filter(|_| is_compaction && !asked) else {
            return Some(plan);
        };
        let manual = matches!(occasion, PlanTrigger::Requested { .. });
        let ask = self.pre_compact_of(&plan, manual, deadline_ms);
        let task = self.new_task();
        self.phase = RunPhase::Asking { task, plan: Box::new(plan), occasion: occasion.clone() };
        out.push(RunEffect::AskPreCompact { task, ask: Box::new(ask) });
        out.push(RunEffect::StartTimer { timer: RunTimer::Hook, after_ms: deadline_ms });
        None
    }

    /// Returns the input of the hook for a plan.
    pub(super) fn pre_compact_of(&self, plan: &Plan, manual: bool, deadline_ms: u64) -> PreCompactInput {
        let message_count = self.history.view().len() as u64;
        PreCompactInput::new(plan, manual, self.meter().total, message_count, deadline_ms)
    }

    /// Handles the hook's answer; `None` if the hook failed.
    pub(super) fn hook_answered(
        &mut self,
        task: u64,
        answer: Option<PreCompactOutput>,
        out: &mut Vec<RunEffect>,
    ) {
        // A hook that fails must not keep a session from going on.
        let answer = answer.unwrap_or_default();
        let is_ahead = |run: &Self| {
            run.candidate
                .as_ref()
                .is_some_and(|found| found.task == task && found.stage == PrecomputeStage::Asking)
        };
        if is_ahead(self) {
            return self.hook_answered_ahead(answer, out);
        }
        match std::mem::replace(&mut self.phase, RunPhase::Storing) {
            RunPhase::Asking { task: asked, plan, occasion } if asked == task => {
                out.push(RunEffect::StopTimer { timer: RunTimer::Hook });
                self.after_hook(*plan, occasion, answer, out);
            }
            other => self.phase = other,
        }
    }

    /// Handles the hook's answer about a background summary.
    fn hook_answered_ahead(&mut self, answer: PreCompactOutput, out: &mut Vec<RunEffect>) {
        if answer.cancel {
            return self.void_candidate(out);
        }
        let budget = self.budget();
        if let Some(candidate) = &mut self.candidate {
            answer.apply(&mut candidate.draft, &self.history, &budget);
        }
        self.write_ahead(out);
    }

    /// Continues a compaction after the hook's answer.
    fn after_hook(
        &mut self,
        plan: Plan,
        occasion: PlanTrigger,
        answer: PreCompactOutput,
        out: &mut Vec<RunEffect>,
    ) {
        if self.stop.is_some() {
            return self.boundary_or_idle(out);
        }
        if answer.cancel {
            return self.hook_cancelled(&occasion, answer.cancellation(), out);
        }
        let mut draft = match plan {
            Plan::Summarise(draft) => draft,
            Plan::Edit(edit) if filled(answer.custom_summary.as_deref()).is_some() => {
                return self.summary_for(*edit, occasion, &answer, out);
            }
            plan => return self.carry_out(plan, occasion, out),
        };
        if answer.apply(&mut draft, &self.history, &self.budget()) {
            return self.finish_summary(draft, &occasion, out);
        }
        self.carry_out(Plan::Summarise(draft), occasion, out);
    }

    /// Replaces the extract of an edit by a hook's summary. No model would have been asked for this edit.
    fn summary_for(
        &mut self,
        mut edit: ViewEdit,
        occasion: PlanTrigger,
        answer: &PreCompactOutput,
        out: &mut Vec<RunEffect>,
    ) {
        let (settings, budget) = (&self.settings, self.budget());
        let fixed = settings.fixed.planned(&self.history);
        let draft = plan::extract_draft(&self.history, fixed, &budget, &settings.policy, &occasion);
        if let Some(mut draft) = draft.filter(|draft| draft.became(&edit))
            && answer.apply(&mut draft, &self.history, &budget)
        {
            return self.finish_summary(Box::new(draft), &occasion, out);
        }
        edit.why.push_str("; a hook's summary was not used: it does not fit here");
        self.carry_out(Plan::Edit(Box::new(edit)), occasion, out);
    }

    /// Handles a hook's cancellation. A hook may prevent a compaction, but must not keep a request from fitting.
    fn hook_cancelled(&mut self, occasion: &PlanTrigger, said: String, out: &mut Vec<RunEffect>) {
        if let PlanTrigger::Requested { .. } = occasion {
            let refused = CompactionOutcome::Refused(said);
            out.push(RunEffect::CompactionDone(refused));
            return self.idle(out);
        }
        let fits = match occasion {
            // The room that is kept for the answer may be used: the answer is shorter then, and the hook is obeyed.
            PlanTrigger::Routine | PlanTrigger::Pause => self.fits_the_window(),
            PlanTrigger::Overflow | PlanTrigger::Requested { .. } => false,
        };
        let failed = EventBody::CompactionFailed {
            strategy: self.settings.policy.strategy.name().to_owned(),
            code: ErrorCode::Refused,
            reason: match fits {
                true => said,
                false => format!("{said}; messages are left out, since the request does not fit"),
            },
            usage: self.take_unstored(),
        };
        let plan = if fits { Plan::Fits } else { self.plan_without_summary(occasion) };
        self.after_failure(failed, plan, occasion, out);
    }

    /// Handles a hook that takes too long. `ahead` tells whether the hook was asked about a background summary.
    pub(super) fn hook_is_late(&mut self, ahead: bool, out: &mut Vec<RunEffect>) {
        let task = match (&self.phase, &self.candidate) {
            (_, Some(candidate)) if ahead && candidate.stage == PrecomputeStage::Asking => candidate.task,
            (RunPhase::Asking { task, .. }, _) if !ahead => *task,
            _ => return,
        };
        self.hook_answered(task, None, out);
    }

    /// Resumes after a compaction that did not happen: stores `failed`, then acts on `plan`.
    pub(super) fn after_failure(
        &mut self,
        failed: EventBody,
        plan: Plan,
        occasion: &PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) {
        self.phase = RunPhase::Storing;
        match plan {
            Plan::Edit(edit) => {
                // The failure takes the next position of the log, and the edit's name is made of its own position.
                let id = format!("e{}", self.next_seq() + 1).into();
                let edit = crate::event::ViewEdit { id, ..*edit };
                self.commit_with(vec![failed], edit, occasion, out);
            }
            plan => {
                let then = AppendContinuation::ActOn { plan: Box::new(plan), occasion: occasion.clone() };
                self.append(vec![failed], then, out);
            }
        }
    }
}

fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.trim().is_empty())
}
