//! Sums over the view: what the request would have without some units, and with some results as placeholders.

use super::{Scene, draft};
use crate::estimate::Groups;
use crate::history::ViewItem;
use crate::ids::Seq;
use crate::meter::{self, Reading};

/// Tokens of a part of the view: what the anchor's call has counted, and what came after.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    kept: Groups,
    pub(super) new: Groups,
}

impl Share {
    pub(super) fn of(items: &[ViewItem], anchored: Seq) -> Self {
        let mut sum = Self::default();
        for item in items {
            *sum.of_age(item, anchored) += item.groups;
        }
        sum
    }

    fn of_age(&mut self, item: &ViewItem, anchored: Seq) -> &mut Groups {
        if item.since <= anchored { &mut self.kept } else { &mut self.new }
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.kept += more.kept;
        self.new += more.new;
    }

    fn without(&self, less: &Self) -> Self {
        Self { kept: self.kept.without(&less.kept), new: self.new.without(&less.new) }
    }

    /// A placeholder becomes the result again.
    pub(super) fn restore(&mut self, item: &ViewItem, anchored: Seq) {
        self.new = self.new.without(&item.placeholder);
        *self.of_age(item, anchored) += item.groups;
    }

    /// A result among it becomes a placeholder.
    pub(super) fn clear(&mut self, item: &ViewItem, anchored: Seq) {
        let there = self.of_age(item, anchored);
        *there = there.without(&item.groups);
        self.new += item.placeholder;
    }
}

impl Scene<'_> {
    /// The meter as it would read with some units shown, and of these the `marked` results (ascending) as placeholders.
    pub(super) fn reading(&self, shown: impl Fn(usize) -> bool, marked: &[usize], added: Groups) -> Reading {
        let mut sum = self.sum_of(shown, marked);
        sum.new += added;
        self.meter_of(&sum)
    }

    pub(super) fn sum_of(&self, shown: impl Fn(usize) -> bool, marked: &[usize]) -> Share {
        let mut sum = Share::default();
        for (unit, share) in self.shares.iter().enumerate() {
            if shown(unit) {
                sum.add(share);
            }
        }
        let mut unit = 0;
        for at in marked {
            while self.units[unit].items.end <= *at {
                unit += 1;
            }
            if shown(unit) {
                sum.clear(&self.history.view()[*at], self.anchored);
            }
        }
        sum
    }

    pub(super) fn meter_of(&self, shown: &Share) -> Reading {
        meter::of_parts(self.history, self.fixed_tokens, &shown.kept, &shown.new)
    }

    /// The smallest run of units from `head` on without which the request, with a note, stays below `target` tokens.
    /// What always stays does not go with them.
    pub fn smallest_gap(&self, head: usize, target: u64) -> Option<Vec<bool>> {
        let goes = |at: usize| at >= head && !self.stays(at);
        let mut left = Share { new: Groups::of(draft::HEADER_TOKENS), ..Share::default() };
        self.shares.iter().for_each(|share| left.add(share));
        let lefts = (head..self.units.len()).map(|at| {
            if goes(at) {
                left = left.without(&self.shares[at]);
            }
            left
        });
        let lefts: Vec<Share> = lefts.collect();
        let end = head + 1 + lefts.partition_point(|left| self.meter_of(left).bound() >= target);
        (end <= self.units.len()).then(|| (0..self.units.len()).map(|at| at < end && goes(at)).collect())
    }
}
