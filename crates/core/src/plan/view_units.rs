//! The view in units, and the boundaries at which strategies cut it.

use std::ops::Deref;

use crate::history::{ViewItem, ViewUnit, ViewUnitKind, units};
use crate::ids::LogRange;
use crate::strategy::ProtectionLevel;

/// The units of a view, oldest first: the messages and steps that a selection keeps or drops whole.
///
/// The list reads like a slice of [`ViewUnit`]s. Boundaries are indices of units, and a selection has one flag for each
/// unit.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewUnits {
    list: Vec<ViewUnit>,
    newest_typed: Option<usize>,
}

impl Deref for ViewUnits {
    type Target = [ViewUnit];

    fn deref(&self) -> &[ViewUnit] {
        &self.list
    }
}

impl ViewUnits {
    /// Groups the items of a view. Units in a `pinned` range are marked as pinned.
    pub(super) fn new(view: &[ViewItem], pinned: &[LogRange]) -> Self {
        let list = units(view, pinned);
        // Searched once, because every check of a selection asks for it.
        let newest_typed = list.iter().rposition(|unit| unit.kind == ViewUnitKind::Typed);
        Self { list, newest_typed }
    }

    /// Returns the unit of the newest typed message, which every edit keeps.
    pub fn newest_typed(&self) -> Option<usize> {
        self.newest_typed
    }

    /// Indices of the units that are steps, newest first.
    pub fn steps_newest_first(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).rev().filter(|at| self[*at].kind == ViewUnitKind::Step)
    }

    /// Returns the first unit of the newest `count` turns; the newest turn always counts.
    pub fn turn_start(&self, count: usize) -> usize {
        let newest = self.last().map_or(0, |unit| unit.turn);
        let oldest_kept = newest.saturating_sub(count.max(1) - 1);
        self.iter().position(|unit| unit.turn >= oldest_kept).unwrap_or(0)
    }

    /// Returns the first unit of the newest `count` steps, together with the messages that the first of these steps
    /// answers.
    pub fn step_start(&self, count: usize) -> usize {
        let first = self.steps_newest_first().take(count).last().unwrap_or(self.len());
        let before = self[..first].iter().rev();
        first
            - before.take_while(|unit| matches!(unit.kind, ViewUnitKind::Typed | ViewUnitKind::Note)).count()
    }

    /// Returns the first unit that a protection level keeps. `turns` is the number of newest turns that
    /// [`ProtectionLevel::Turns`] keeps.
    pub fn protected_from(&self, protection: ProtectionLevel, turns: usize) -> usize {
        match protection {
            ProtectionLevel::Turns => self.turn_start(turns),
            ProtectionLevel::Steps | ProtectionLevel::Step => self.step_start(protection.steps()),
        }
    }

    /// Returns the unit with which the newest messages of at most `tokens` tokens begin. The newest step is always
    /// included.
    pub fn newest_tokens_from(&self, tokens: u64) -> usize {
        let mut sum = 0;
        let newest = self.iter().rev().take_while(|unit| {
            sum += unit.tokens;
            sum <= tokens
        });
        let kept = newest.count();
        (self.len() - kept).min(self.step_start(1))
    }

    /// Returns the unit with which the newest `count` messages begin.
    pub fn newest_messages_from(&self, count: usize) -> usize {
        let messages = self.last().map_or(0, |unit| unit.items.end);
        let first_item = messages.saturating_sub(count);
        self.iter().position(|unit| unit.items.end > first_item).unwrap_or(self.len())
    }

    /// Returns the end of the first turn, as an index of units.
    pub fn first_turn_end(&self) -> usize {
        self.iter().position(|unit| unit.turn > 1).unwrap_or(self.len())
    }

    /// Returns the index behind the first typed message, or 0 if no message was typed.
    pub fn first_typed_end(&self) -> usize {
        self.iter().position(|unit| unit.kind == ViewUnitKind::Typed).map_or(0, |at| at + 1)
    }

    /// Returns a selection of all units before `cut`.
    pub fn before_cut(&self, cut: usize) -> Vec<bool> {
        (0..self.len()).map(|at| at < cut).collect()
    }

    /// Returns the unit that holds the item at `at` in the view.
    pub(super) fn unit_of_item(&self, at: usize) -> usize {
        self.partition_point(|unit| unit.items.end <= at)
    }

    /// Returns the units with a raised flag in `flags`.
    pub(super) fn flagged(&self, flags: &[bool]) -> impl Iterator<Item = &ViewUnit> {
        self.iter().zip(flags).filter(|(_, flag)| **flag).map(|(unit, _)| unit)
    }

    /// Returns the number of messages of the view in the `dropped` units.
    pub(super) fn messages_in(&self, dropped: &[bool]) -> u64 {
        self.flagged(dropped).map(|unit| unit.items.len() as u64).sum()
    }

    /// Returns maximal runs of `dropped` units as ranges of the log.
    pub(super) fn runs(&self, dropped: &[bool]) -> Vec<LogRange> {
        let mut runs: Vec<LogRange> = Vec::new();
        // Neighbours in the list may be far apart in the log, where hidden messages lie between them; a run covers
        // these too.
        let mut open = false;
        for (unit, dropped) in self.iter().zip(dropped) {
            match runs.last_mut() {
                Some(run) if *dropped && open => run.to = unit.range.to,
                _ if *dropped => runs.push(unit.range),
                _ => {}
            }
            open = *dropped;
        }
        runs
    }
}
