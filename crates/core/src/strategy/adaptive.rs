//! `adaptive`: the oldest part is replaced by pinned facts and a short summary when that pays.
//!
//! An edit goes down to a low target, so that the next one is far off. Where clearing old tool results is enough for
//! the target, no message is dropped.

use super::{
    CompactionSelection, CompactionStrategy, ProtectionLevel, ThresholdInput, TriggerThreshold,
    UnitReplacement, smallest,
};
use crate::budget::StrategyTrigger;
use crate::plan::{EditCost, PlanContext, TokenPrices};

/// The most of a summary's length: one part in so many of the replaced text.
// Decision 0019: a summary is written only of what is at least eight times as long.
const RATIO: u64 = 8;

/// The least room of a summary, in tokens.
const MIN_TOKENS: u64 = 100;

/// The size from which on a dropped part is worth a model call, in tokens. Below it the pinned facts stand with the
/// last words.
// Chosen on recorded conversations of customer support (decision 0019).
const MIN_WORTH_TOKENS: u64 = 4_000;

/// The approximate size of the order to write a summary, in tokens.
const ORDER_TOKENS: u64 = 200;

/// The default strategy, which edits the view where an edit pays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveStrategy {
    /// The share of the usable room to which an edit brings the request at most.
    pub low_target: f64,
    /// The newest part that stays in a large window where prices are known, in tokens. A larger part would be read
    /// again and again for little.
    pub tail_tokens: u64,
    /// The most tokens of pinned facts, and at most an eighth of the usable room.
    pub ledger_tokens: u64,
    /// The number of newest turns that stay whole.
    pub preserve_last_n_turns: usize,
    /// The most tokens of a summary, and at most a sixth of the usable room and the output reserve.
    pub max_summary_tokens: u64,
    /// `true` if summaries are written in the background.
    pub background: bool,
}

impl Default for AdaptiveStrategy {
    fn default() -> Self {
        Self {
            // Chosen by replays of recorded sessions (decision 0019).
            low_target: 0.4,
            tail_tokens: 6_000,
            ledger_tokens: 8_000,
            preserve_last_n_turns: 2,
            max_summary_tokens: 1_500,
            background: true,
        }
    }
}

impl CompactionStrategy for AdaptiveStrategy {
    fn name(&self) -> &str {
        "adaptive"
    }

    fn trigger(&self) -> StrategyTrigger {
        StrategyTrigger::Planner
    }

    fn prunes_first(&self) -> bool {
        false
    }

    /// Returns the size at which the next edit pays: since the last edit the view has grown by the cheapest amount in
    /// the long run. With a cold cache an edit pays earlier. Without prices only the room counts.
    fn threshold(&self, input: &ThresholdInput<'_>) -> TriggerThreshold {
        let usable = input.usable_tokens;
        let Some(prices) = input.prices else {
            return TriggerThreshold { tokens: usable, why: "the room is full".to_owned() };
        };
        let target = self.target(input.fixed_tokens, usable, true);
        let settled = input.settled_tokens.unwrap_or(target);
        let edit = self.next_edit(input, settled, prices);
        let growth = prices.best_growth(&edit, input.fixed_tokens, input.growth_tokens);
        let pays = settled.saturating_add(growth).max(target + usable / 10);
        // A cold cache is rewritten in any case, so an edit costs nothing extra. Below this size it would save too
        // little.
        let cold = target + usable / 8;
        match (input.cache_is_cold, pays) {
            (true, pays) if cold < pays.min(usable) => {
                TriggerThreshold { tokens: cold, why: "the cache is cold".to_owned() }
            }
            (_, pays) if pays < usable => {
                TriggerThreshold { tokens: pays, why: "the next edit pays from here on".to_owned() }
            }
            _ => TriggerThreshold { tokens: usable, why: "the room is full".to_owned() },
        }
    }

    fn choose(&self, context: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection> {
        self.below(self.target_in(context), 0, context, protection)
    }

    fn waits_for_summary(&self) -> bool {
        !self.background
    }

    fn background_selection(&self, context: &PlanContext<'_>) -> Option<CompactionSelection> {
        if !self.background {
            return None;
        }
        // The background summary is committed at the threshold, when the view has grown that far.
        let growth = context.threshold_tokens.saturating_sub(context.before);
        let selection = self.below(self.target_in(context), growth, context, ProtectionLevel::Turns)?;
        // Clearing results takes no model call, so nothing has to be prepared.
        selection.dropped.contains(&true).then_some(selection)
    }
}

impl AdaptiveStrategy {
    /// Selects units so that the view has less than `target` tokens after a growth of `growth` tokens. Clearing alone
    /// is preferred if it puts the next edit far off.
    fn below(
        &self,
        target: u64,
        growth: u64,
        context: &PlanContext<'_>,
        protection: ProtectionLevel,
    ) -> Option<CompactionSelection> {
        let end = context.kept_whole_from(protection, self.preserve_last_n_turns);
        let clearable = if context.is_priced() {
            context.clearable_beyond(end, self.tail_tokens)
        } else {
            context.clearable(end)
        };
        let enough = if context.is_requested() {
            target
        } else {
            target.max(cleared_target(context.fixed_tokens(), context.budget.usable))
        };
        if let Some(selection) = self.cleared_only(context, &clearable, enough.saturating_sub(growth)) {
            return Some(selection);
        }
        // A document in the view is paid for in each request, so prices lower its room.
        let documents = if context.is_priced() { target } else { enough };
        let documents = documents.min(context.document_target()).saturating_sub(growth);
        self.shortened(context, clearable, end, target.saturating_sub(growth), documents)
    }

    /// Returns the cost of the next edit. While clearing is enough, only the newest results are sent again. Later a
    /// summary is written, and all that stays is sent again.
    fn next_edit(&self, input: &ThresholdInput<'_>, settled: u64, prices: &TokenPrices) -> EditCost {
        let shown = settled.saturating_sub(input.fixed_tokens);
        if settled < cleared_target(input.fixed_tokens, input.usable_tokens) {
            let tail = self.tail_tokens.min(input.usable_tokens / 4);
            return EditCost { rewritten: shown.min(tail + tail / 4), ..EditCost::default() };
        }
        let making = prices.riding(settled, ORDER_TOKENS, self.max_summary_tokens, true);
        EditCost { rewritten: shown, making, ..EditCost::default() }
    }

    /// Returns the size at which an edit ends, in tokens: the low share of the room. Where tokens have a price, a large
    /// room ends lower.
    fn target(&self, fixed: u64, usable: u64, priced: bool) -> u64 {
        let low = (usable as f64 * self.low_target) as u64;
        // The eighth was chosen on the longest recorded coding session (decision 0019).
        let share = if priced { 8 } else { 6 };
        let least = fixed + usable.saturating_sub(fixed) / share;
        let cheap = fixed + self.tail_tokens + self.ledger_tokens.min(usable / 8) + self.max_summary_tokens;
        let low = if priced { low.min(cheap) } else { low };
        low.max(least)
    }

    /// Returns the low target, or less under a trigger that is lower than usual. A compaction on request drops all that
    /// may go.
    fn target_in(&self, context: &PlanContext<'_>) -> u64 {
        if context.is_requested() {
            return 0;
        }
        // The next edit would be due at once if this one ended right below the trigger.
        let clearly_below = context
            .threshold_tokens
            .saturating_sub(context.budget.progress())
            .max(context.threshold_tokens / 2);
        self.target(context.fixed_tokens(), context.budget.usable, context.is_priced()).min(clearly_below)
    }

    /// Returns a selection that clears all old results, if the request is under the target without them. Every clearing
    /// sends the newest results again, so several small ones cost more.
    fn cleared_only(
        &self,
        context: &PlanContext<'_>,
        clearable: &[usize],
        target: u64,
    ) -> Option<CompactionSelection> {
        let nothing = vec![false; context.units.len()];
        let is_enough = context.stays_below(&nothing, clearable, 0, target);
        let selection = CompactionSelection {
            cleared: clearable.to_vec(),
            ..CompactionSelection::new(nothing, UnitReplacement::Note)
        };
        (!clearable.is_empty() && is_enough).then_some(selection)
    }

    /// Returns a selection that clears all old results and drops the fewest of the oldest units that bring the request
    /// under the target, or all that may go. Documents of the user among them stay in part, as far as they fit below
    /// `documents` tokens.
    fn shortened(
        &self,
        context: &PlanContext<'_>,
        cleared: Vec<usize>,
        end: usize,
        target: u64,
        documents: u64,
    ) -> Option<CompactionSelection> {
        let ledger_tokens = self.ledger_tokens.min(context.budget.pinned_facts_tokens());
        let tokens = self.max_summary_tokens.min(context.budget.usable / 6).min(context.budget.reserve);
        let added = ledger_tokens + tokens;
        let cut = smallest(1..=end, |cut| {
            context.stays_below(&context.units.before_cut(cut), &cleared, added, target)
        });
        let cut = cut.unwrap_or(end);
        let dropped = context.units.before_cut(cut);
        let mut selection =
            CompactionSelection { cleared, ..CompactionSelection::new(dropped, UnitReplacement::Note) };
        if !context.is_requested() {
            // Facts and summary are seldom as long as they may be.
            context.keep_documents(&mut selection, documents.saturating_sub(added / 2));
        }
        let going = context.before.saturating_sub(context.after_dropping(&selection.dropped, &[], 0).bound());
        let tokens = tokens.min(going / RATIO).max(MIN_TOKENS);
        let worth = context.is_requested() || going >= MIN_WORTH_TOKENS;
        selection.replacement = if worth {
            UnitReplacement::Ledger { ledger_tokens, tokens }
        } else {
            UnitReplacement::Extract { ledger_tokens, tokens }
        };
        (cut > 0).then_some(selection)
    }
}

/// Returns the size below which clearing results is enough: half of the room beside the prefix stays free. In tokens of
/// the request.
fn cleared_target(fixed_tokens: u64, usable_tokens: u64) -> u64 {
    fixed_tokens + usable_tokens.saturating_sub(fixed_tokens) / 2
}
