//! Pruning: old tool results become placeholders with a handle, without a model call.

use super::{CompactionPolicy, Plan, PlanContext, PlanTrigger, is_clearable, line_at};
use crate::budget::Budget;
use crate::estimate::TokensByScript;
use crate::event::{EditKind, ViewEdit};
use crate::history::{History, ViewItemKind};
use crate::meter::{self, MeterReading};
use crate::strategy::ProtectionLevel;

/// The number of newest turns in which no result is cleared.
const PROTECTED_TURNS: usize = 2;

/// A client's own rule for clearing old tool results, as in Anthropic's `context_management`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct ResultClearing {
    /// The number of newest results that stay.
    pub keep_results: usize,
    /// The tools whose results always stay.
    pub excluded_tools: Vec<String>,
    /// The least that clearing must save, in tokens.
    pub minimum_tokens: u64,
}

/// Returns the edit that clears old tool results by a client's rule; `None` if the rule clears nothing. The results of
/// the newest step stay in any case, because the model has not read them yet.
#[doc(hidden)]
pub fn clear_results(
    history: &History,
    fixed_tokens: u64,
    budget: &Budget,
    policy: &CompactionPolicy,
    rule: &ResultClearing,
) -> Option<ViewEdit> {
    let now = meter::read(history, fixed_tokens);
    let line = line_at(history, fixed_tokens, budget, policy, now.bound());
    let occasion = PlanTrigger::Routine;
    PlanContext::new(history, fixed_tokens, *budget, policy, &occasion, now, line).clear_by(rule)
}

impl PlanContext<'_> {
    fn clear_by(&self, rule: &ResultClearing) -> Option<ViewEdit> {
        let view = self.history.view();
        let end = self.protected_from(ProtectionLevel::Step, 1);
        let results = self.units.iter().enumerate().flat_map(|(index, unit)| {
            // An undo has pinned the unit, and a client's rule must not take away again what a user has put back.
            let may_go = index < end && !unit.pinned;
            let results =
                unit.items.clone().filter(|at| matches!(view[*at].kind, ViewItemKind::Result { .. }));
            results.map(move |at| (at, may_go))
        });
        let results: Vec<(usize, bool)> = results.collect();
        let old = &results[..results.len().saturating_sub(rule.keep_results)];
        let clearable = old.iter().filter(|(at, may_go)| {
            *may_go && is_clearable(&view[*at].kind, &rule.excluded_tools) && self.worth_clearing(*at) > 0
        });
        let marked: Vec<usize> = clearable.map(|(at, _)| *at).collect();
        let saved: u64 = marked.iter().map(|at| self.worth_clearing(*at)).sum();
        (!marked.is_empty() && saved >= rule.minimum_tokens).then(|| self.clear_marked(&marked))
    }

    /// Returns the edit that turns the `marked` results into placeholders.
    fn clear_marked(&self, marked: &[usize]) -> ViewEdit {
        let after = self.cleared(|_| true, marked, TokensByScript::default());
        let less = self.now.total.saturating_sub(after.total);
        let why = format!("{} old tool results cleared, about {less} tokens saved", marked.len());
        self.view_edit(self.placeholders(marked), EditKind::Prune, "prune", &after, self.messages(), why)
    }

    /// Returns an edit that clears old tool results, if that alone gets under the trigger.
    pub(super) fn prune(&self) -> Option<Plan> {
        if self.before < self.trigger || !self.policy.strategy.prunes_first() {
            return None;
        }
        let protection =
            if self.turns_are_too_much() { ProtectionLevel::Steps } else { ProtectionLevel::Turns };
        self.prune_within(protection)
    }

    /// Returns whether the protected turns alone reach the trigger, such as one long turn of many steps.
    fn turns_are_too_much(&self) -> bool {
        let older = self.before_cut(self.protected_from(ProtectionLevel::Turns, PROTECTED_TURNS));
        self.after(&older, TokensByScript::default()).bound() >= self.trigger
    }

    /// Returns the edit that clears old results outside the protected part; `None` if too little would be saved.
    fn prune_within(&self, protection: ProtectionLevel) -> Option<Plan> {
        let marked = self.clearable(self.protected_from(protection, PROTECTED_TURNS));
        let usable = self.budget.usable;
        let saved: u64 = marked.iter().map(|at| self.worth_clearing(*at)).sum();
        // Every edit voids the provider's prompt cache behind its first change, so a small saving does not pay.
        if marked.is_empty() || saved <= self.policy.prune.minimum_tokens.min(usable / 10) {
            return None;
        }
        let bound = self.cleared(|_| true, &marked, TokensByScript::default()).bound();
        if bound >= self.trigger || bound >= self.before {
            return None;
        }
        Some(Plan::Edit(Box::new(self.clear_marked(&marked))))
    }

    /// Returns the results before unit `end` that lie beyond the protected amount of tool output. They are indices into
    /// the view, oldest first.
    pub fn clearable(&self, end: usize) -> Vec<usize> {
        self.clearable_beyond(end, self.policy.prune.protect_tokens)
    }

    /// Returns the results before unit `end` beyond the newest `protect_tokens` of tool output, oldest first. At most a
    /// quarter of the usable room is protected.
    pub fn clearable_beyond(&self, end: usize, protect_tokens: u64) -> Vec<usize> {
        let protect = protect_tokens.min(self.budget.usable / 4);
        let view = self.history.view();
        let mut seen = 0;
        let mut marked = Vec::new();
        for (index, unit) in self.units.iter().enumerate().rev() {
            for at in unit.items.clone().rev() {
                match &view[at].kind {
                    ViewItemKind::Summary(_) => return reversed(marked),
                    kind if is_clearable(kind, &self.policy.prune.protected_tools) => {
                        seen += view[at].tokens;
                        let worth = self.worth_clearing(at) > 0;
                        if seen > protect && index < end && worth && !unit.pinned {
                            marked.push(at);
                        }
                    }
                    _ => {}
                }
            }
        }
        reversed(marked)
    }

    /// Returns the meter's reading for a view of the `shown` units, in which the `marked` results are placeholders and
    /// which has `added` tokens more.
    pub(super) fn cleared(
        &self,
        shown: impl Fn(usize) -> bool,
        marked: &[usize],
        added: TokensByScript,
    ) -> MeterReading {
        self.reading(shown, marked, added)
    }

    /// Returns the estimated tokens that clearing the result at `at` in the view saves, net of the placeholder.
    pub(super) fn worth_clearing(&self, at: usize) -> u64 {
        let item = &self.history.view()[at];
        item.tokens.saturating_sub(self.placeholder_groups(at).total())
    }
}

fn reversed(mut marked: Vec<usize>) -> Vec<usize> {
    marked.reverse();
    marked
}
