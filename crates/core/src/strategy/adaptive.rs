//! `adaptive`: the oldest part makes way for a ledger and a short summary when that pays, down to a low target, so that
//! the next time is far off. Where clearing old tool results is enough for the target, nothing else goes.

use super::{
    CompactionSelection, CompactionStrategy, ProtectionLevel, ThresholdInput, TriggerThreshold,
    UnitReplacement,
};
use crate::budget::StrategyTrigger;
use crate::plan::{EditCost, PlanContext, TokenPrices};

/// A summary is no longer than one part in so many of what it stands for.
const RATIO: u64 = 8;

/// No summary says anything in fewer tokens.
const LEAST_TOKENS: u64 = 100;

/// What has fewer tokens is not worth a model call: there the ledger stands alone, with the last words of what went.
const LEAST_WORTH_TOKENS: u64 = 4_000;

/// About what the order to write a summary has, in tokens.
const ORDER_TOKENS: u64 = 200;

/// Our own way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveStrategy {
    /// What an edit brings the request down to, as a share of the usable room, at most.
    pub low_target: f64,
    /// The newest part that stays in a large window where prices are known, in tokens: more would be read again and
    /// again for little.
    pub tail_tokens: u64,
    /// The most that the ledger may have, in tokens; at most an eighth of the usable room.
    pub ledger_tokens: u64,
    /// Turns in which nothing is cleared and of which nothing goes.
    pub preserve_last_n_turns: usize,
    /// The most that a summary may have, in tokens; at most a sixth of the usable room and the output reserve.
    pub max_summary_tokens: u64,
    /// Whether a summary is written ahead, while work goes on.
    pub background: bool,
}

impl Default for AdaptiveStrategy {
    fn default() -> Self {
        Self {
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

    /// Where the next edit pays: where the view has grown, since the last, by what costs least in the long run; where
    /// the cache is cold, earlier. Without prices only the room counts.
    fn line(&self, outlook: &ThresholdInput<'_>) -> TriggerThreshold {
        let usable = outlook.usable_tokens;
        let Some(prices) = outlook.prices else {
            return TriggerThreshold { tokens: usable, why: "the room is full".to_owned() };
        };
        let target = self.target(outlook.fixed_tokens, usable, true);
        let settled = outlook.settled_tokens.unwrap_or(target);
        let edit = self.next_edit(outlook, settled, prices);
        let growth = prices.best_growth(&edit, outlook.fixed_tokens, outlook.growth_tokens);
        let pays = settled.saturating_add(growth).max(target + usable / 10);
        let cold = target + usable / 8;
        match (outlook.cache_is_cold, pays) {
            (true, pays) if cold < pays.min(usable) => {
                TriggerThreshold { tokens: cold, why: "the cache is cold".to_owned() }
            }
            (_, pays) if pays < usable => {
                TriggerThreshold { tokens: pays, why: "the next edit pays from here on".to_owned() }
            }
            _ => TriggerThreshold { tokens: usable, why: "the room is full".to_owned() },
        }
    }

    fn choose(&self, scene: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection> {
        self.below(self.target_in(scene), 0, scene, protection)
    }

    fn waits(&self) -> bool {
        !self.background
    }

    fn ahead(&self, scene: &PlanContext<'_>) -> Option<CompactionSelection> {
        if !self.background {
            return None;
        }
        // It is committed at the line, when the view has grown so far.
        let growth = scene.trigger.saturating_sub(scene.before);
        let choice = self.below(self.target_in(scene), growth, scene, ProtectionLevel::Turns)?;
        choice.gone.contains(&true).then_some(choice)
    }
}

impl AdaptiveStrategy {
    /// Chooses what goes so that the view, once it has grown by `growth` tokens, has less than `target` tokens, or so that
    /// clearing alone puts the next edit far off.
    fn below(
        &self,
        target: u64,
        growth: u64,
        scene: &PlanContext<'_>,
        protection: ProtectionLevel,
    ) -> Option<CompactionSelection> {
        let end = scene.kept_whole_from(protection, self.preserve_last_n_turns);
        let clearable = match scene.is_priced() {
            true => scene.clearable_beyond(end, self.tail_tokens),
            false => scene.clearable(end),
        };
        let enough = match scene.is_requested() {
            true => target,
            false => target.max(cleared_target(scene.fixed_tokens(), scene.budget.usable)),
        };
        if let Some(choice) = self.cleared_only(scene, &clearable, enough.saturating_sub(growth)) {
            return Some(choice);
        }
        self.shortened(scene, clearable, end, target.saturating_sub(growth))
    }

    /// What the next edit will cost: while clearing results is enough, the newest results are sent anew and nobody
    /// writes; later a summary is written, and all that stays is sent anew.
    fn next_edit(&self, outlook: &ThresholdInput<'_>, settled: u64, prices: &TokenPrices) -> EditCost {
        let shown = settled.saturating_sub(outlook.fixed_tokens);
        if settled < cleared_target(outlook.fixed_tokens, outlook.usable_tokens) {
            let tail = self.tail_tokens.min(outlook.usable_tokens / 4);
            return EditCost { rewritten: shown.min(tail + tail / 4), ..EditCost::default() };
        }
        let making = prices.riding(settled, ORDER_TOKENS, self.max_summary_tokens, true);
        EditCost { rewritten: shown, making, ..EditCost::default() }
    }

    /// Where an edit ends: at the low share of the room; where tokens cost money, earlier in a large one.
    fn target(&self, fixed: u64, usable: u64, priced: bool) -> u64 {
        let low = (usable as f64 * self.low_target) as u64;
        let share = if priced { 8 } else { 6 };
        let least = fixed + usable.saturating_sub(fixed) / share;
        let cheap = fixed + self.tail_tokens + self.ledger_tokens.min(usable / 8) + self.max_summary_tokens;
        let low = if priced { low.min(cheap) } else { low };
        low.max(least)
    }

    /// The low target, or what is clearly below a trigger that is lower than usual. Who asks for a compaction gets one
    /// of all that may go.
    fn target_in(&self, scene: &PlanContext<'_>) -> u64 {
        if scene.is_requested() {
            return 0;
        }
        let clearly_below = scene.trigger.saturating_sub(scene.budget.progress()).max(scene.trigger / 2);
        self.target(scene.fixed_tokens(), scene.budget.usable, scene.is_priced()).min(clearly_below)
    }

    /// All old results at once, if the request is under the target without them: each time that some are cleared the
    /// newest ones are sent anew, so fewer at a time cost more.
    fn cleared_only(
        &self,
        scene: &PlanContext<'_>,
        clearable: &[usize],
        target: u64,
    ) -> Option<CompactionSelection> {
        let nothing = vec![false; scene.units.len()];
        let is_enough = scene.after_choice(&nothing, clearable, 0).bound() < target;
        let choice = CompactionSelection {
            cleared: clearable.to_vec(),
            ..CompactionSelection::new(nothing, UnitReplacement::Note)
        };
        (!clearable.is_empty() && is_enough).then_some(choice)
    }

    /// All of the old results, and the fewest of the oldest units without which the request is under the target, or
    /// as many as may go.
    fn shortened(
        &self,
        scene: &PlanContext<'_>,
        cleared: Vec<usize>,
        end: usize,
        target: u64,
    ) -> Option<CompactionSelection> {
        let ledger_tokens = self.ledger_tokens.min(scene.budget.usable / 8);
        let tokens = self.max_summary_tokens.min(scene.budget.usable / 6).min(scene.budget.reserve);
        let added = ledger_tokens + tokens;
        let fits = |cut: usize| scene.after_choice(&scene.before_cut(cut), &cleared, added).bound() < target;
        let cut = smallest(end, fits).unwrap_or(end);
        let gone = scene.before_cut(cut);
        let going = scene.before.saturating_sub(scene.after_choice(&gone, &[], 0).bound());
        let tokens = tokens.min(going / RATIO).max(LEAST_TOKENS);
        let worth = scene.is_requested() || going >= LEAST_WORTH_TOKENS;
        let instead = if worth {
            UnitReplacement::Ledger { ledger_tokens, tokens }
        } else {
            UnitReplacement::Extract { ledger_tokens, tokens }
        };
        (cut > 0).then(|| CompactionSelection { cleared, ..CompactionSelection::new(gone, instead) })
    }
}

/// Clearing results is enough if it leaves half of the room that can be had, in tokens of the request.
fn cleared_target(fixed_tokens: u64, usable_tokens: u64) -> u64 {
    fixed_tokens + usable_tokens.saturating_sub(fixed_tokens) / 2
}

/// The smallest of `1..=most` for which a condition holds that holds for all larger ones.
fn smallest(most: usize, holds: impl Fn(usize) -> bool) -> Option<usize> {
    if most == 0 || !holds(most) {
        return None;
    }
    let (mut low, mut high) = (1, most);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    Some(low)
}
