//! `adaptive`: the oldest part makes way for a ledger and a short summary when that pays, down to a low target, so that
//! the next time is far off. Where clearing old tool results is enough for the target, nothing else goes.

use super::{Choice, Instead, Line, Outlook, Protection, Strategy};
use crate::budget::Trigger;
use crate::plan::{EditCost, Scene};

/// Our own way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    /// What an edit brings the request down to, as a share of the usable room, at most.
    pub low_target: f64,
    /// The newest part that stays in a large window where prices are known, in tokens: more would be read again and
    /// again for little.
    pub tail_tokens: u64,
    /// The most that the ledger may have, in tokens; at most an eighth of the usable room.
    pub ledger_tokens: u64,
    /// Turns in which nothing is cleared and of which nothing goes.
    pub preserve_last_n_turns: usize,
    /// The most that a summary may have, in tokens.
    pub max_summary_tokens: u64,
    /// Whether a summary is written ahead, while work goes on.
    pub background: bool,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            low_target: 0.4,
            tail_tokens: 12_000,
            ledger_tokens: 8_000,
            preserve_last_n_turns: 2,
            max_summary_tokens: 500,
            background: true,
        }
    }
}

impl Strategy for Adaptive {
    fn name(&self) -> &str {
        "adaptive"
    }

    fn trigger(&self) -> Trigger {
        Trigger::Planner
    }

    fn prunes_first(&self) -> bool {
        false
    }

    /// Where the next edit pays: where the view has grown, since the last, by what costs least in the long run; where
    /// the cache is cold, earlier. Without prices only the room counts.
    fn line(&self, outlook: &Outlook<'_>) -> Line {
        let usable = outlook.usable_tokens;
        let Some(prices) = outlook.prices else {
            return Line { tokens: usable, why: "the room is full".to_owned() };
        };
        let target = self.target(outlook.fixed_tokens, usable, true);
        let settled = outlook.settled_tokens.unwrap_or(target);
        let edit =
            EditCost { rewritten: settled.saturating_sub(outlook.fixed_tokens), ..EditCost::default() };
        let growth = prices.best_growth(&edit, outlook.fixed_tokens, outlook.growth_tokens);
        let pays = settled.saturating_add(growth).max(target + usable / 10);
        let cold = target + usable / 8;
        match (outlook.cache_is_cold, pays) {
            (true, pays) if cold < pays.min(usable) => {
                Line { tokens: cold, why: "the cache is cold".to_owned() }
            }
            (_, pays) if pays < usable => {
                Line { tokens: pays, why: "the next edit pays from here on".to_owned() }
            }
            _ => Line { tokens: usable, why: "the room is full".to_owned() },
        }
    }

    fn choose(&self, scene: &Scene<'_>, protection: Protection) -> Option<Choice> {
        let target = self.target_in(scene);
        let end = scene.kept_whole_from(protection, self.preserve_last_n_turns);
        let clearable = scene.clearable(end);
        if let Some(choice) = self.cleared_only(scene, &clearable, target) {
            return Some(choice);
        }
        self.shortened(scene, clearable, end, target)
    }

    fn waits(&self) -> bool {
        !self.background
    }

    fn ahead(&self, scene: &Scene<'_>) -> Option<Choice> {
        if !self.background {
            return None;
        }
        let choice = self.choose(scene, Protection::Turns)?;
        choice.gone.contains(&true).then_some(choice)
    }
}

impl Adaptive {
    /// Where an edit ends: at the low share of the room; where tokens cost money, earlier in a large one.
    fn target(&self, fixed: u64, usable: u64, priced: bool) -> u64 {
        let low = (usable as f64 * self.low_target) as u64;
        let least = fixed + usable.saturating_sub(fixed) / 6;
        let cheap = fixed + self.tail_tokens + self.ledger_tokens.min(usable / 8) + self.max_summary_tokens;
        let low = if priced { low.min(cheap) } else { low };
        low.max(least)
    }

    /// The low target, or what is clearly below a trigger that is lower than usual.
    fn target_in(&self, scene: &Scene<'_>) -> u64 {
        let clearly_below = scene.trigger.saturating_sub(scene.budget.progress()).max(scene.trigger / 2);
        self.target(scene.fixed_tokens(), scene.budget.usable, scene.is_priced()).min(clearly_below)
    }

    /// The fewest of the oldest results without which the request is under the target.
    fn cleared_only(&self, scene: &Scene<'_>, clearable: &[usize], target: u64) -> Option<Choice> {
        let nothing = vec![false; scene.units.len()];
        let count = smallest(clearable.len(), |count| {
            scene.after_choice(&nothing, &clearable[..count], 0).bound() < target
        })?;
        Some(Choice { cleared: clearable[..count].to_vec(), ..Choice::new(nothing, Instead::Note) })
    }

    /// All of the old results, and the fewest of the oldest units without which the request is under the target, or
    /// as many as may go.
    fn shortened(&self, scene: &Scene<'_>, cleared: Vec<usize>, end: usize, target: u64) -> Option<Choice> {
        let ledger_tokens = self.ledger_tokens.min(scene.budget.usable / 8);
        let tokens = self.max_summary_tokens.min(scene.budget.usable / 8).min(scene.budget.reserve);
        let added = ledger_tokens + tokens;
        let fits = |cut: usize| scene.after_choice(&scene.before_cut(cut), &cleared, added).bound() < target;
        let cut = smallest(end, fits).unwrap_or(end);
        let instead = Instead::Ledger { ledger_tokens, tokens };
        (cut > 0).then(|| Choice { cleared, ..Choice::new(scene.before_cut(cut), instead) })
    }
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
