//! Room that a choice leaves unused: what it left out comes back as far as it fits.

use super::unit_tokens::UnitTokens;
use super::{PlanContext, is_clearable};
use crate::estimate::TokensByScript;
use crate::strategy::CompactionSelection;

/// What a further handle adds to a note, in tokens.
const HANDLE_TOKENS: u64 = 16;

/// What other numbers may add to a note, in tokens.
const NUMBER_TOKENS: u64 = 4;

/// A choice as it is refilled.
struct SelectionRestorer<'a> {
    scene: &'a PlanContext<'a>,
    choice: &'a mut CompactionSelection,
    /// What the request would have.
    sum: UnitTokens,
    /// The request has so many tokens then, without the expected error: enough.
    least: u64,
    /// It stays below.
    most: u64,
}

impl PlanContext<'_> {
    /// Takes back what `choice` clears or leaves out until the request has `least` tokens, or as much as fits below
    /// `most`: results, newest first; then units from the newest end, then from the oldest, then whatever fits. A step
    /// that does not fit comes back without its largest results.
    pub(crate) fn restore_until_budget(&self, choice: &mut CompactionSelection, least: u64, most: u64) {
        let mut left = usize::MAX;
        loop {
            let gone: Vec<usize> = (0..choice.gone.len()).filter(|unit| choice.gone[*unit]).collect();
            // What comes back makes the note shorter: then there may be room for more.
            if gone.len() >= left {
                return;
            }
            left = gone.len();
            let mut sum = self.sum_of(|unit| !choice.gone[unit], &choice.cleared);
            if left > 0 {
                sum.new += self.cost(self.note(&choice.gone));
            }
            let mut refill = SelectionRestorer { scene: self, choice, sum, least, most };
            refill.restore();
            let from_end = gone.iter().rev().take_while(|unit| !refill.is_enough() && refill.take(**unit, 0));
            let gone = &gone[..gone.len() - from_end.count()];
            let from_start = gone.iter().take_while(|unit| !refill.is_used() && refill.take(**unit, 0));
            for unit in gone[from_start.count()..].iter().rev() {
                if refill.is_used() {
                    break;
                }
                refill.take(*unit, HANDLE_TOKENS);
            }
            choice.cleared.sort_unstable();
        }
    }

    /// Takes back what `choice` leaves out, newest first, whatever fits below `most` tokens.
    pub(super) fn refill_newest(&self, choice: &mut CompactionSelection, most: u64) {
        let mut sum = self.sum_of(|unit| !choice.gone[unit], &choice.cleared);
        sum.new += self.cost(self.note(&choice.gone));
        let mut refill = SelectionRestorer { scene: self, choice, sum, least: most, most };
        for unit in (0..self.units.len()).rev() {
            if refill.choice.gone[unit] {
                refill.take(unit, HANDLE_TOKENS);
            }
        }
        choice.cleared.sort_unstable();
    }

    /// Returns whether clearing `marked` saves more than the least that is worth it.
    pub(crate) fn is_worth_clearing(&self, marked: &[usize]) -> bool {
        let saved: u64 = marked.iter().map(|at| self.worth_clearing(*at)).sum();
        saved > self.policy.prune.minimum_tokens.min(self.budget.usable / 10)
    }
}

impl SelectionRestorer<'_> {
    fn fits(&self, sum: &UnitTokens) -> bool {
        self.scene.meter_of(sum).bound() + NUMBER_TOKENS < self.most
    }

    fn is_enough(&self) -> bool {
        self.scene.meter_of(&self.sum).total >= self.least
    }

    /// The same with the expected error: then nothing is taken back out of its place.
    fn is_used(&self) -> bool {
        self.scene.meter_of(&self.sum).bound() >= self.least
    }

    /// Takes back what is cleared.
    fn restore(&mut self) {
        for at in (0..self.choice.cleared.len()).rev() {
            if self.is_enough() {
                return;
            }
            let mut sum = self.sum;
            let item = self.choice.cleared[at];
            let placeholder = self.scene.placeholder_groups(item);
            sum.restore(&self.scene.history.view()[item], &placeholder, self.scene.anchored);
            if self.fits(&sum) {
                self.sum = sum;
                self.choice.cleared.remove(at);
            }
        }
    }

    /// Takes one unit back; `false` if it does not fit.
    fn take(&mut self, unit: usize, note: u64) -> bool {
        let mut sum = self.sum;
        sum.add(&self.scene.shares[unit]);
        sum.new += TokensByScript::of(note);
        let view = self.scene.history.view();
        let protected = &self.scene.policy.prune.protected_tools;
        let mut results: Vec<usize> = self.scene.units[unit].items.clone().collect();
        results.retain(|at| is_clearable(&view[*at].kind, protected) && self.scene.worth_clearing(*at) > 0);
        results.sort_by_key(|at| self.scene.worth_clearing(*at));
        let mut cleared = Vec::new();
        while !self.fits(&sum) {
            let Some(largest) = results.pop() else { return false };
            sum.clear(&view[largest], &self.scene.placeholder_groups(largest), self.scene.anchored);
            cleared.push(largest);
        }
        self.sum = sum;
        self.choice.gone[unit] = false;
        self.choice.cleared.extend(cleared);
        true
    }
}
