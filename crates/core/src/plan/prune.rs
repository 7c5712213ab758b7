//! Pruning: old tool results become placeholders with a handle, without a model call.

use super::{CompactionPolicy, Plan, PlanContext, PlanTrigger, is_clearable, threshold_at};
use crate::budget::Budget;
use crate::estimate::TokensByScript;
use crate::event::{EditKind, ViewEdit};
use crate::history::{History, ViewItemKind};
use crate::meter;
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
    let threshold = threshold_at(history, fixed_tokens, budget, policy, now.bound());
    let trigger = PlanTrigger::Routine;
    clear_by(&PlanContext::new(history, fixed_tokens, *budget, policy, &trigger, now, threshold), rule)
}

/// Returns the edit of a client's rule; `None` if the rule clears nothing, or less than its minimum.
fn clear_by(context: &PlanContext<'_>, rule: &ResultClearing) -> Option<ViewEdit> {
    let view = context.history.view();
    let end = context.units.protected_from(ProtectionLevel::Step, 1);
    let results = context.units.iter().enumerate().flat_map(|(index, unit)| {
        // An undo has pinned the unit, and a client's rule must not take away again what a user has put back.
        let may_go = index < end && !unit.pinned;
        let results = unit.items.clone().filter(|at| matches!(view[*at].kind, ViewItemKind::Result { .. }));
        results.map(move |at| (at, may_go))
    });
    let results: Vec<(usize, bool)> = results.collect();
    let old = &results[..results.len().saturating_sub(rule.keep_results)];
    let clearable = old.iter().filter(|(at, may_go)| {
        *may_go && is_clearable(&view[*at].kind, &rule.excluded_tools) && context.saves_tokens(*at)
    });
    let marked: Vec<usize> = clearable.map(|(at, _)| *at).collect();
    let saved: u64 = marked.iter().map(|at| context.worth_clearing(*at)).sum();
    (!marked.is_empty() && saved >= rule.minimum_tokens).then(|| clear_marked(context, &marked))
}

/// Returns the edit that turns the `marked` results into placeholders.
fn clear_marked(context: &PlanContext<'_>, marked: &[usize]) -> ViewEdit {
    let after = context.reading(|_| true, marked, TokensByScript::default());
    let less = context.now.total.saturating_sub(after.total);
    let why = format!("{} old tool results pruned, about {less} tokens saved", marked.len());
    context.view_edit(context.placeholders(marked), EditKind::Prune, "prune", &after, context.messages(), why)
}

/// Returns an edit that clears old tool results, if that alone gets under the trigger.
pub(super) fn prune(context: &PlanContext<'_>) -> Option<Plan> {
    if context.before < context.threshold_tokens || !context.policy.strategy.prunes_first() {
        return None;
    }
    let protection =
        if turns_are_too_much(context) { ProtectionLevel::Steps } else { ProtectionLevel::Turns };
    prune_within(context, protection)
}

/// Returns whether the protected turns alone reach the trigger, such as one long turn of many steps.
fn turns_are_too_much(context: &PlanContext<'_>) -> bool {
    let older =
        context.units.before_cut(context.units.protected_from(ProtectionLevel::Turns, PROTECTED_TURNS));
    context.after(&older, TokensByScript::default()).bound() >= context.threshold_tokens
}

/// Returns the edit that clears old results outside the protected part; `None` if too little would be saved.
fn prune_within(context: &PlanContext<'_>, protection: ProtectionLevel) -> Option<Plan> {
    let marked = context.clearable(context.units.protected_from(protection, PROTECTED_TURNS));
    let nothing_dropped = vec![false; context.units.len()];
    if !context.stays_below(&nothing_dropped, &marked, 0, context.threshold_tokens.min(context.before)) {
        return None;
    }
    let usable = context.budget.usable;
    let saved: u64 = marked.iter().map(|at| context.worth_clearing(*at)).sum();
    // Every edit voids the provider's prompt cache behind its first change, so a small saving does not pay.
    if marked.is_empty() || saved <= context.policy.prune.minimum_tokens.min(usable / 10) {
        return None;
    }
    Some(Plan::Edit(Box::new(clear_marked(context, &marked))))
}
