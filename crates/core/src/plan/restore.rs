//! The return of dropped content into the room that a selection leaves unused.

use super::unit_tokens::UnitTokens;
use super::{PlanContext, is_clearable};
use crate::estimate::TokensByScript;
use crate::strategy::CompactionSelection;

/// The most that one more handle adds to a note, in tokens.
const HANDLE_TOKENS: u64 = 16;

/// The most that other numbers add to a note, in tokens.
const NUMBER_TOKENS: u64 = 4;

/// A selection whose dropped content comes back piece by piece.
struct SelectionRestorer<'a> {
    context: &'a PlanContext<'a>,
    selection: &'a mut CompactionSelection,
    /// The tokens of the request after the selection.
    sum: UnitTokens,
    /// The size, without the expected error, from which on nothing more has to come back, in tokens.
    least: u64,
    /// The size that the request stays below, in tokens.
    most: u64,
}

/// Takes dropped and cleared content back into the view until the request has `least` tokens, or as much as
/// fits below `most`. Results come back first, newest first. Then come units from the newest end, units
/// from the oldest end, and any other unit that fits. A step that does not fit comes back without the
/// largest results.
pub(crate) fn restore_until_budget(
    context: &PlanContext<'_>,
    selection: &mut CompactionSelection,
    least: u64,
    most: u64,
) {
    let mut left = usize::MAX;
    loop {
        let dropped: Vec<usize> =
            (0..selection.dropped.len()).filter(|unit| selection.dropped[*unit]).collect();
        // Every unit that comes back shortens the note, which may make room for one more.
        if dropped.len() >= left {
            return;
        }
        left = dropped.len();
        let mut sum = context.sum_of(|unit| !selection.dropped[unit], &selection.cleared);
        if left > 0 {
            sum.new += context.cost(context.note(&selection.dropped));
        }
        let mut refill = SelectionRestorer { context, selection, sum, least, most };
        refill.restore();
        // Units at either end of a gap add no handle to the note; a unit in the middle splits a range and adds one.
        let from_end = dropped.iter().rev().take_while(|unit| !refill.is_enough() && refill.take(**unit, 0));
        let dropped = &dropped[..dropped.len() - from_end.count()];
        let from_start = dropped.iter().take_while(|unit| !refill.is_used() && refill.take(**unit, 0));
        for unit in dropped[from_start.count()..].iter().rev() {
            if refill.is_used() {
                break;
            }
            refill.take(*unit, HANDLE_TOKENS);
        }
        selection.cleared.sort_unstable();
    }
}

/// Takes dropped units back, newest first, as many as fit below `most` tokens.
pub(super) fn refill_newest(context: &PlanContext<'_>, selection: &mut CompactionSelection, most: u64) {
    let mut sum = context.sum_of(|unit| !selection.dropped[unit], &selection.cleared);
    sum.new += context.cost(context.note(&selection.dropped));
    let mut refill = SelectionRestorer { context, selection, sum, least: most, most };
    // From the newest on: what is near the end is most likely needed again.
    for unit in (0..context.units.len()).rev() {
        if refill.selection.dropped[unit] {
            refill.take(unit, HANDLE_TOKENS);
        }
    }
    selection.cleared.sort_unstable();
}

impl SelectionRestorer<'_> {
    /// Returns whether a request of this sum stays below the limit.
    fn fits(&self, sum: &UnitTokens) -> bool {
        self.context.meter_of(sum).bound() + NUMBER_TOKENS < self.most
    }

    /// Returns whether the request has reached the least size by the meter's total.
    fn is_enough(&self) -> bool {
        self.context.meter_of(&self.sum).total >= self.least
    }

    /// Returns whether the request has reached the least size by the meter's bound. Then no unit comes back out
    /// of order.
    fn is_used(&self) -> bool {
        self.context.meter_of(&self.sum).bound() >= self.least
    }

    /// Restores cleared results, newest first, until the request has the least size.
    fn restore(&mut self) {
        for at in (0..self.selection.cleared.len()).rev() {
            if self.is_enough() {
                return;
            }
            let mut sum = self.sum;
            let item = self.selection.cleared[at];
            let placeholder = self.context.placeholder_groups(item);
            sum.restore(&self.context.history.view()[item], &placeholder, self.context.anchored);
            if self.fits(&sum) {
                self.sum = sum;
                self.selection.cleared.remove(at);
            }
        }
    }

    /// Takes one unit back, without the largest results if need be. Returns `false` if the unit does not fit.
    fn take(&mut self, unit: usize, note: u64) -> bool {
        let mut sum = self.sum;
        sum.add(&self.context.unit_tokens[unit]);
        sum.new += TokensByScript::of(note);
        let view = self.context.history.view();
        let protected = &self.context.policy.prune.protected_tools;
        let mut results: Vec<usize> = self.context.units[unit].items.clone().collect();
        results.retain(|at| is_clearable(&view[*at].kind, protected) && self.context.saves_tokens(*at));
        // The largest results go first, so that the fewest become placeholders.
        results.sort_by_key(|at| self.context.worth_clearing(*at));
        let mut cleared = Vec::new();
        while !self.fits(&sum) {
            let Some(largest) = results.pop() else { return false };
            sum.clear(&view[largest], &self.context.placeholder_groups(largest), self.context.anchored);
            cleared.push(largest);
        }
        self.sum = sum;
        self.selection.dropped[unit] = false;
        self.selection.cleared.extend(cleared);
        true
    }
}
