//! The last resort without any model: the newest typed message and as many of the newest steps as fit; then
//! the newest step with its results cleared; then that step without what it answers; then the newest typed message
//! alone; then an error that says what does not fit.

use super::{Misfit, Occasion, Plan, Scene, is_clearable};
use crate::estimate::Groups;
use crate::event::{ViewEdit, ViewOp};

/// The name under which the last resort appears in events.
const NAME: &str = "truncation";

impl Scene<'_> {
    pub(super) fn last_resort(&self) -> Plan {
        if self.before < self.trigger {
            return Plan::Fits;
        }
        if let Some(edit) = self.ladder(self.trigger) {
            return Plan::Edit(Box::new(edit));
        }
        let usable = self.budget.usable;
        if self.before <= usable && !matches!(self.occasion, Occasion::Overflow) {
            return Plan::Fits;
        }
        match self.ladder(usable) {
            Some(edit) => Plan::Edit(Box::new(edit)),
            None if self.may_be_miscounted() => Plan::Fits,
            None => Plan::DoesNotFit(self.misfit()),
        }
    }

    /// By our own count alone it fits: then the provider's last count may be wrong, and only another call can
    /// tell. A refusal then says so with its own numbers.
    fn may_be_miscounted(&self) -> bool {
        let counted = self.fixed_tokens.saturating_add(self.history.view_tokens());
        *self.occasion == Occasion::Routine && counted.saturating_add(counted / 10) < self.budget.usable
    }

    fn ladder(&self, target: u64) -> Option<ViewEdit> {
        let fits = |edit: &ViewEdit| edit.compressed_bound < target && edit.compressed_bound < self.before;
        self.newest_steps(target)
            .filter(fits)
            .or_else(|| self.newest_step_cleared().filter(fits))
            .or_else(|| self.newest_step_alone().filter(fits))
            .or_else(|| self.typed_alone().filter(fits))
    }

    /// The largest number of newest steps, at least one, that stays below `target`.
    fn newest_steps(&self, target: u64) -> Option<ViewEdit> {
        let mut best = None;
        let mut low = 1;
        let mut high = self.steps_newest_first().count();
        while low <= high {
            let middle = low + (high - low) / 2;
            let edit = self.all_but(middle).map(|gone| self.removal(&gone, NAME));
            match edit.filter(|edit| edit.compressed_bound < target) {
                Some(edit) => {
                    best = Some(edit);
                    low = middle + 1;
                }
                None => high = middle - 1,
            }
        }
        best
    }

    /// Everything goes but the newest typed message and what follows the first of `steps` newest steps.
    fn all_but(&self, steps: usize) -> Option<Vec<bool>> {
        let mut gone = self.before_cut(self.step_start(steps));
        self.protect(&mut gone);
        gone.contains(&true).then_some(gone)
    }

    /// The newest step stays, its large results become placeholders; everything older goes.
    fn newest_step_cleared(&self) -> Option<ViewEdit> {
        let step = self.steps_newest_first().next()?;
        let view = self.history.view();
        let marked: Vec<usize> = self.units[step]
            .items
            .clone()
            .filter(|at| is_clearable(&view[*at].kind, &[]) && self.worth_clearing(*at) > 0)
            .collect();
        if marked.is_empty() {
            return None;
        }
        let (gone, mut edit) = match self.all_but(1) {
            Some(gone) => {
                let edit = self.removal(&gone, NAME);
                (gone, edit)
            }
            None => {
                let kind = crate::event::EditKind::Prune;
                let edit = self.view_edit(Vec::new(), kind, NAME, &self.now, self.messages(), String::new());
                (vec![false; self.units.len()], edit)
            }
        };
        let note = edit.ops.iter().map(|op| self.replacement(op)).sum();
        let after = self.cleared(|unit| !gone[unit], &marked, note);
        (edit.compressed_tokens, edit.compressed_bound) = (after.total, after.bound());
        edit.ops.extend(marked.iter().map(|at| ViewOp::clear(view[*at].range.from)));
        edit.why = format!("the newest step alone was too large: {} of its results cleared", marked.len());
        Some(edit)
    }

    /// Without what it answers.
    fn newest_step_alone(&self) -> Option<ViewEdit> {
        let mut gone = self.before_cut(self.steps_newest_first().next()?);
        self.protect(&mut gone);
        gone.contains(&true).then(|| self.removal(&gone, NAME))
    }

    fn typed_alone(&self) -> Option<ViewEdit> {
        let mut gone = vec![true; self.units.len()];
        self.protect(&mut gone);
        let anything = gone.contains(&true) && self.newest_typed().is_some();
        anything.then(|| self.removal(&gone, NAME))
    }

    fn misfit(&self) -> Misfit {
        let others: Vec<bool> = (0..self.units.len()).map(|at| Some(at) != self.newest_typed()).collect();
        Misfit {
            fixed_tokens: self.fixed_tokens,
            needed_tokens: self.after(&others, Groups::default()).bound(),
            usable_tokens: self.budget.usable,
            window_tokens: self.budget.window,
        }
    }

    /// Tokens of the message that an operation puts into the view.
    fn replacement(&self, op: &ViewOp) -> Groups {
        match op {
            ViewOp::Replace { parts, .. } => self.cost(parts.clone()),
            ViewOp::Drop { .. } | ViewOp::Placeholder { .. } => Groups::default(),
        }
    }
}
