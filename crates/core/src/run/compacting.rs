//! Planning before a step, and the compactions that follow from it.

use super::{CompactionOutcome, Effect, Failure, Next, Notice, Phase, Run, Then};
use crate::budget::ASSUMED_WINDOW;
use crate::error::ErrorCode;
use crate::event::{ErrorInfo, EventBody, ViewEdit};
use crate::message::Answer;
use crate::plan::{self, Misfit, Occasion, Plan, SummaryDraft};
use crate::usage::Usage;

impl Run {
    pub(super) fn plan(&self, occasion: &Occasion) -> Plan {
        let settings = &self.settings;
        plan::plan(&self.history, settings.fixed.tokens, &self.budget(), &settings.policy, occasion)
    }

    pub(super) fn prepare(&mut self, out: &mut Vec<Effect>) {
        if self.stop_at_boundary(out) {
            return;
        }
        if self.step.compacted {
            return self.start_step(out);
        }
        if self.count_first(Next::Plan, out) {
            return;
        }
        match self.plan(&Occasion::Routine) {
            Plan::Fits => self.start_step(out),
            other => self.act_on(other, Occasion::Routine, out),
        }
    }

    pub(super) fn act_on(&mut self, plan: Plan, occasion: Occasion, out: &mut Vec<Effect>) {
        match plan {
            Plan::Fits => self.nothing_to_do(&occasion, out),
            Plan::Edit(edit) => self.commit(*edit, &occasion, out),
            Plan::Summarise(draft) => self.ask_for_summary(draft, occasion, out),
            Plan::DoesNotFit(misfit) => self.does_not_fit(misfit, &occasion, out),
        }
    }

    pub(super) fn nothing_to_do(&mut self, occasion: &Occasion, out: &mut Vec<Effect>) {
        match occasion {
            Occasion::Requested { .. } => {
                out.push(Effect::CompactionDone(CompactionOutcome::NothingToDo));
                self.idle(out);
            }
            Occasion::Overflow => {
                let message = format!("{}; nothing can be left out", self.refusal());
                self.fail(ErrorCode::ContextOverflow, message, out);
            }
            Occasion::Routine => self.start_step(out),
        }
    }

    pub(super) fn does_not_fit(&mut self, misfit: Misfit, occasion: &Occasion, out: &mut Vec<Effect>) {
        if let Occasion::Requested { .. } = occasion {
            out.push(Effect::CompactionDone(CompactionOutcome::Refused(misfit.to_string())));
            return self.idle(out);
        }
        if *occasion == Occasion::Routine && self.may_ask_again() {
            return self.start_step(out);
        }
        let message = match occasion {
            Occasion::Overflow if misfit.needed_tokens <= misfit.usable_tokens => {
                let (needed, usable) = (misfit.needed_tokens, misfit.usable_tokens);
                format!(
                    "{}; nothing more can be left out, and by our count it fits: up to {needed} of {usable} tokens",
                    self.refusal()
                )
            }
            Occasion::Overflow => format!("{}; {misfit}", self.refusal()),
            _ => misfit.to_string(),
        };
        self.fail(ErrorCode::ContextOverflow, message, out);
    }

    fn refusal(&self) -> String {
        let said = self.step.refusal.as_deref().unwrap_or("the request is too long");
        format!("the provider refused the request: {}", said.trim_end_matches('.'))
    }

    /// Whether only a window that a refusal named stands in the way, and this run has not asked yet: a refusal may
    /// have been wrong, and a session must not end with it.
    fn may_ask_again(&self) -> bool {
        let known = self.settings.model.window.or(self.history.window()).unwrap_or(ASSUMED_WINDOW);
        let asked = self.history.open_run().is_some_and(|run| run.steps > 0);
        !asked && self.budget().window < known
    }

    pub(super) fn commit(&mut self, edit: ViewEdit, occasion: &Occasion, out: &mut Vec<Effect>) {
        self.commit_with(Vec::new(), edit, occasion, out);
    }

    pub(super) fn commit_with(
        &mut self,
        mut events: Vec<EventBody>,
        edit: ViewEdit,
        occasion: &Occasion,
        out: &mut Vec<Effect>,
    ) {
        self.step.compacted = true;
        self.phase = Phase::Storing;
        let then = match occasion {
            Occasion::Requested { .. } => Then::Compacted(Box::new(edit.clone())),
            _ => Then::StartStep,
        };
        events.push(EventBody::ViewEdited(Box::new(edit)));
        self.append(events, then, out);
    }

    pub(super) fn ask_for_summary(
        &mut self,
        draft: Box<SummaryDraft>,
        occasion: Occasion,
        out: &mut Vec<Effect>,
    ) {
        out.push(Effect::Notice(Notice::Compacting {
            strategy: draft.strategy().to_owned(),
            reason: draft.reason(),
            trigger_tokens: draft.trigger_tokens(),
        }));
        let request = draft.request(self.history.view(), &self.budget());
        let Some((form, messages)) = request else {
            return self.without_model(&draft, &occasion, out);
        };
        let max_output_tokens = draft.limit_tokens;
        self.phase = Phase::Summarising { draft, occasion };
        out.push(Effect::Summarise { form, messages, max_output_tokens });
    }

    pub(super) fn summarised(&mut self, answer: Result<Answer, Failure>, out: &mut Vec<Effect>) {
        let Phase::Summarising { draft, occasion } = std::mem::replace(&mut self.phase, Phase::Storing)
        else {
            return;
        };
        if self.stop.is_some() {
            return self.boundary_or_idle(out);
        }
        let (usage, problem) = match answer {
            Ok(answer) => match draft.finish(&self.history.view_hash(), &answer) {
                Ok(edit) => return self.commit(edit, &occasion, out),
                Err(rejected) => {
                    (answer.usage, ErrorInfo { code: ErrorCode::ThirdParty, message: rejected.to_string() })
                }
            },
            Err(failure) => (failure.usage, ErrorInfo { code: failure.code, message: failure.message }),
        };
        self.commit_extract(&draft, &occasion, Some((usage, problem)), out);
    }

    pub(super) fn without_model(&mut self, draft: &SummaryDraft, occasion: &Occasion, out: &mut Vec<Effect>) {
        self.commit_extract(draft, occasion, None, out);
    }

    /// No usable summary: the extract; then truncation; then the error.
    pub(super) fn commit_extract(
        &mut self,
        draft: &SummaryDraft,
        occasion: &Occasion,
        failed: Option<(Option<Usage>, ErrorInfo)>,
        out: &mut Vec<Effect>,
    ) {
        let plan = match draft.finish_extractive(&self.history.view_hash()) {
            Ok(edit) => Plan::Edit(Box::new(edit)),
            Err(_) => self.plan_without_summary(occasion),
        };
        let strategy = draft.strategy().to_owned();
        let failed = failed.map(|(usage, problem)| EventBody::CompactionFailed {
            strategy,
            code: problem.code,
            reason: problem.message,
            usage,
        });
        self.phase = Phase::Storing;
        match (failed, plan) {
            (None, plan) => self.act_on(plan, occasion.clone(), out),
            (Some(failed), Plan::Edit(edit)) => {
                let id = format!("e{}", self.next_seq() + 1).into();
                self.commit_with(vec![failed], ViewEdit { id, ..*edit }, occasion, out);
            }
            (Some(failed), plan) => {
                let then = Then::ActOn { plan: Box::new(plan), occasion: occasion.clone() };
                self.append(vec![failed], then, out);
            }
        }
    }

    pub(super) fn plan_without_summary(&self, occasion: &Occasion) -> Plan {
        let settings = &self.settings;
        let budget = self.budget();
        plan::without_summary(&self.history, settings.fixed.tokens, &budget, &settings.policy, occasion)
    }

    pub(super) fn compact(&mut self, occasion: Occasion, out: &mut Vec<Effect>) {
        if !self.is_idle() || !self.pending.is_empty() {
            out.push(Effect::CompactionDone(CompactionOutcome::Refused("the session is busy".to_owned())));
            return;
        }
        self.phase = Phase::Storing;
        let plan = self.plan(&occasion);
        self.act_on(plan, occasion, out);
    }

    pub(super) fn boundary_or_idle(&mut self, out: &mut Vec<Effect>) {
        if self.history.open_run().is_some() {
            return self.boundary(out);
        }
        out.push(Effect::CompactionDone(CompactionOutcome::Refused("cancelled".to_owned())));
        self.idle(out);
    }
}
