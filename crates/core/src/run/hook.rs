//! The hook that is asked before a compaction.

use super::compactor::Compactor;
use super::loop_state::{AppendContinuation, LoopState, RunPhase};
use super::session::SessionState;
use super::{CompactionOutcome, RunEffect, RunTimer};
use crate::budget::Budget;
use crate::error::ErrorCode;
use crate::event::{EditReason, EventBody, ViewEdit};
use crate::history::History;
use crate::ids::LogHandle;
use crate::plan::{self, Plan, PlanTrigger, SummaryDraft};
use crate::shortening::{self, CancelledCompaction, PlanKind};
use crate::truncate::grouped;

/// The input of a PreCompact hook. All sizes are in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    pub dropped_messages: u64,
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
        let (reason, target_tokens, dropped_messages, handles, instructions) = match plan {
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
            dropped_messages,
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

impl Compactor {
    /// Asks the hook about a compaction, if there is a hook. Returns `None` once the hook is asked.
    pub(super) fn ask_hook(
        &mut self,
        state: &mut LoopState,
        plan: Plan,
        trigger: &PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) -> Option<Plan> {
        let is_compaction = PlanKind::of(&plan).is_compaction();
        // The hook was already asked about a background summary when its draft was made.
        let asked = matches!(&plan, Plan::Edit(edit) if self.background.became(edit));
        let Some(deadline_ms) = state.session.settings.pre_compact_ms.filter(|_| is_compaction && !asked)
        else {
            return Some(plan);
        };
        let manual = matches!(trigger, PlanTrigger::Requested { .. });
        let ask = pre_compact_of(&state.session, &plan, manual, deadline_ms);
        let task = state.new_task();
        state.phase = RunPhase::Asking { task, plan: Box::new(plan), trigger: trigger.clone() };
        out.push(RunEffect::AskPreCompact { task, ask: Box::new(ask) });
        out.push(RunEffect::StartTimer { timer: RunTimer::Hook, after_ms: deadline_ms });
        None
    }

    /// Handles the hook's answer; `None` if the hook failed.
    pub(super) fn hook_answered(
        &mut self,
        state: &mut LoopState,
        task: u64,
        answer: Option<PreCompactOutput>,
        out: &mut Vec<RunEffect>,
    ) {
        // A hook that fails must not keep a session from going on.
        let answer = answer.unwrap_or_default();
        if self.background.asking_task() == Some(task) {
            return self.background.hook_answered_ahead(state, answer, out);
        }
        // Taken out, so that the plan can change without a copy. The phase is put back if the answer is not meant for
        // it.
        match std::mem::replace(&mut state.phase, RunPhase::Storing) {
            RunPhase::Asking { task: asked, plan, trigger } if asked == task => {
                out.push(RunEffect::StopTimer { timer: RunTimer::Hook });
                self.after_hook(state, *plan, trigger, answer, out);
            }
            // A late answer to a question that was given up changes nothing.
            other => state.phase = other,
        }
    }

    /// Continues a compaction after the hook's answer.
    fn after_hook(
        &mut self,
        state: &mut LoopState,
        plan: Plan,
        trigger: PlanTrigger,
        answer: PreCompactOutput,
        out: &mut Vec<RunEffect>,
    ) {
        if state.stop.is_some() {
            return state.boundary_or_idle(out);
        }
        if answer.cancel {
            return self.hook_cancelled(state, &trigger, answer.cancellation(), out);
        }
        let mut draft = match plan {
            Plan::Summarise(draft) => draft,
            Plan::Edit(edit) if filled(answer.custom_summary.as_deref()).is_some() => {
                return self.summary_for(state, *edit, trigger, &answer, out);
            }
            plan => return self.carry_out(state, plan, trigger, out),
        };
        if answer.apply(&mut draft, &state.session.history, &state.session.budget()) {
            return self.finish_summary(state, draft, &trigger, out);
        }
        self.carry_out(state, Plan::Summarise(draft), trigger, out);
    }

    /// Replaces the extract of an edit by a hook's summary. No model would have been asked for this edit.
    fn summary_for(
        &mut self,
        state: &mut LoopState,
        mut edit: ViewEdit,
        trigger: PlanTrigger,
        answer: &PreCompactOutput,
        out: &mut Vec<RunEffect>,
    ) {
        let (settings, budget) = (&state.session.settings, state.session.budget());
        let fixed = settings.fixed.planned(&state.session.history);
        let draft = plan::extract_draft(&state.session.history, fixed, &budget, &settings.policy, &trigger);
        if let Some(mut draft) = draft.filter(|draft| draft.became(&edit))
            && answer.apply(&mut draft, &state.session.history, &budget)
        {
            return self.finish_summary(state, Box::new(draft), &trigger, out);
        }
        edit.why.push_str("; a hook's summary was not used: it does not fit here");
        self.carry_out(state, Plan::Edit(Box::new(edit)), trigger, out);
    }

    /// Handles a hook's cancellation. A hook may prevent a compaction, but must not keep a request from fitting.
    fn hook_cancelled(
        &mut self,
        state: &mut LoopState,
        trigger: &PlanTrigger,
        said: String,
        out: &mut Vec<RunEffect>,
    ) {
        let fits = match shortening::after_cancellation(trigger, || state.session.fits_the_window()) {
            CancelledCompaction::Refuse => {
                out.push(RunEffect::CompactionDone(CompactionOutcome::Refused(said)));
                return state.idle(out);
            }
            CancelledCompaction::Leave => true,
            CancelledCompaction::DropMessages => false,
        };
        let failed = EventBody::CompactionFailed {
            strategy: state.session.settings.policy.strategy.name().to_owned(),
            code: ErrorCode::Refused,
            reason: match fits {
                true => said,
                false => format!("{said}; messages are left out, since the request does not fit"),
            },
            usage: self.background.take_unstored(),
        };
        let plan = if fits { Plan::Fits } else { state.session.plan_without_summary(trigger) };
        self.after_failure(state, failed, plan, trigger, out);
    }

    /// Handles a hook that takes too long. `ahead` tells whether the hook was asked about a background summary.
    pub(super) fn hook_is_late(&mut self, state: &mut LoopState, ahead: bool, out: &mut Vec<RunEffect>) {
        let task = match &state.phase {
            _ if ahead => self.background.asking_task(),
            RunPhase::Asking { task, .. } => Some(*task),
            _ => None,
        };
        if let Some(task) = task {
            self.hook_answered(state, task, None, out);
        }
    }

    /// Resumes after a compaction that did not happen: stores `failed`, then acts on `plan`.
    pub(super) fn after_failure(
        &mut self,
        state: &mut LoopState,
        failed: EventBody,
        plan: Plan,
        trigger: &PlanTrigger,
        out: &mut Vec<RunEffect>,
    ) {
        state.phase = RunPhase::Storing;
        match plan {
            Plan::Edit(edit) => {
                // The failure takes the next position of the log, and the edit's name is made of its own position.
                let id = format!("e{}", state.session.next_seq() + 1).into();
                let why = format!("{}{}", edit.why, failed_cost(&failed));
                let edit = ViewEdit { id, why, ..*edit };
                self.commit_with(state, vec![failed], edit, trigger, out);
            }
            plan => {
                let then = AppendContinuation::ActOn { plan: Box::new(plan), trigger: trigger.clone() };
                state.append(vec![failed], then, out);
            }
        }
    }
}

/// Returns the cost of the summaries in a failure, as an addition to the reason of the edit that follows. Empty if no
/// server has reported tokens.
// The tokens are stored with the failure, so the edit alone looked as if no model had been asked.
fn failed_cost(failed: &EventBody) -> String {
    let EventBody::CompactionFailed { usage: Some(usage), .. } = failed else { return String::new() };
    format!(
        "; summaries that were not used cost {} input and {} output tokens",
        grouped(usage.input_tokens),
        grouped(usage.output_tokens)
    )
}

/// Returns the input of the hook for a plan.
pub(super) fn pre_compact_of(
    session: &SessionState,
    plan: &Plan,
    manual: bool,
    deadline_ms: u64,
) -> PreCompactInput {
    let message_count = session.history.view().len() as u64;
    PreCompactInput::new(plan, manual, session.meter().total, message_count, deadline_ms)
}

fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.trim().is_empty())
}
