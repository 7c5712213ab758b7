//! Pruning: old tool results become placeholders with a handle, without a model call.

use super::{Plan, PlanContext, is_clearable};
use crate::estimate::TokensByScript;
use crate::event::EditKind;
use crate::history::ViewItemKind;
use crate::meter::MeterReading;
use crate::strategy::ProtectionLevel;

/// The number of newest turns in which no result is cleared.
const PROTECTED_TURNS: usize = 2;

impl PlanContext<'_> {
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
        let after = self.cleared(|_| true, &marked, TokensByScript::default());
        let bound = after.bound();
        if bound >= self.trigger || bound >= self.before {
            return None;
        }
        let ops = self.placeholders(&marked);
        let less = self.now.total.saturating_sub(after.total);
        let why = format!("{} old tool results cleared, about {less} tokens saved", marked.len());
        let edit = self.view_edit(ops, EditKind::Prune, "prune", &after, self.messages(), why);
        Some(Plan::Edit(Box::new(edit)))
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
