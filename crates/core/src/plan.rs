//! What to do about a conversation that fills its window: nothing, prune, compact, or say what does not fit.
//!
//! [`plan`] is a function of values: equal inputs give equal plans. It never edits; it answers with the
//! [`ViewEdit`] to commit, or with the summary that is needed first. Every edit it proposes leaves a smaller,
//! valid view under the trigger that fired, keeps the newest typed message verbatim and every call with its
//! result, and names the handle of everything that goes.

use std::sync::Arc;

use crate::budget::{Budget, Trigger};
use crate::estimate::Groups;
use crate::event::{EditKind, EditReason, ViewEdit, ViewOp};
use crate::history::{History, ItemKind, Unit, UnitKind, units};
use crate::ids::Handle;
use crate::message::{Message, Part, Role};
use crate::meter::{self, Reading};
use crate::strategy::{Choice, Protection, Strategy};

mod extract;
mod prune;
mod summary;
mod truncation;

pub(crate) use summary::without_summary;
pub use summary::{MARK, ORDER_START, Rejected, SummaryDraft, SummaryForm};

/// What the user chose about context.
#[derive(Clone)]
pub struct Policy {
    /// `false`: count and show only; a full window is then an error.
    pub enabled: bool,
    /// How to compact.
    pub strategy: Arc<dyn Strategy>,
    /// When, if not when the strategy says.
    pub trigger: Option<Trigger>,
    /// What pruning leaves alone.
    pub prune: PruneOptions,
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policy")
            .field("enabled", &self.enabled)
            .field("strategy", &self.strategy.name())
            .field("trigger", &self.trigger)
            .field("prune", &self.prune)
            .finish()
    }
}

/// What pruning leaves alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PruneOptions {
    /// The newest tool output that is never cleared, in tokens; at most a quarter of the usable room.
    pub protect_tokens: u64,
    /// The least worth clearing, in tokens net of placeholders; at most a tenth of the usable room.
    pub minimum_tokens: u64,
    /// Tools whose results are never cleared.
    pub protected_tools: Vec<String>,
}

impl Default for PruneOptions {
    fn default() -> Self {
        Self { protect_tokens: 40_000, minimum_tokens: 20_000, protected_tools: Vec::new() }
    }
}

/// Why a plan is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// Before a step: act only if the trigger is reached.
    Routine,
    /// The provider refused the request for its length.
    Overflow,
    /// Somebody asked for a compaction.
    Requested {
        /// What the summary should mind, in their words.
        instructions: Option<String>,
    },
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Send the view as it is.
    Fits,
    /// Commit this edit, then send.
    Edit(Box<ViewEdit>),
    /// Have a summary written, then finish the draft.
    Summarise(Box<SummaryDraft>),
    /// Nothing that may be left out is left.
    DoesNotFit(Misfit),
}

/// What does not fit, in tokens (bounds: with the expected error).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the request does not fit: system prompt and tools take {fixed_tokens} tokens, with the newest message up to \
     {needed_tokens} are needed, {usable_tokens} are usable of a window of {window_tokens}"
)]
pub struct Misfit {
    /// System prompt and tools.
    pub fixed_tokens: u64,
    /// The least that a request needs.
    pub needed_tokens: u64,
    /// What a request may have.
    pub usable_tokens: u64,
    /// The window.
    pub window_tokens: u64,
}

/// Decides what to do before the next request.
pub fn plan(
    history: &History,
    fixed_tokens: u64,
    budget: &Budget,
    policy: &Policy,
    occasion: &Occasion,
) -> Plan {
    let now = meter::read(history, fixed_tokens);
    let bound = now.bound();
    if *occasion == Occasion::Routine && (!policy.enabled || bound < trigger(budget, policy)) {
        return Plan::Fits;
    }
    let scene = Scene::new(history, fixed_tokens, *budget, policy, occasion, now);
    if *occasion == Occasion::Routine && scene.no_progress() {
        return if bound <= budget.usable { Plan::Fits } else { scene.last_resort() };
    }
    scene.prune().or_else(|| scene.compact()).unwrap_or_else(|| scene.last_resort())
}

/// When the policy acts, in tokens.
fn trigger(budget: &Budget, policy: &Policy) -> u64 {
    budget.trigger(policy.trigger.unwrap_or_else(|| policy.strategy.trigger()))
}

/// The provider says it is too long although we may count less: aim clearly below either.
fn overflow_target(bound: u64, budget: &Budget) -> u64 {
    budget.usable.min(bound.saturating_sub(bound / 10))
}

/// One pass of planning: the view in units, and what each choice would lead to.
pub struct Scene<'a> {
    /// The session.
    pub history: &'a History,
    /// Its view in units.
    pub units: Vec<Unit>,
    /// The room.
    pub budget: Budget,
    /// What the request must stay below, in tokens.
    pub trigger: u64,
    /// What the request has now (bound), in tokens.
    pub before: u64,
    now: Reading,
    fixed_tokens: u64,
    policy: &'a Policy,
    occasion: &'a Occasion,
    newest_typed: Option<usize>,
}

impl<'a> Scene<'a> {
    fn new(
        history: &'a History,
        fixed_tokens: u64,
        budget: Budget,
        policy: &'a Policy,
        occasion: &'a Occasion,
        now: Reading,
    ) -> Self {
        let before = now.bound();
        let trigger = match occasion {
            Occasion::Overflow => overflow_target(before, &budget),
            _ => trigger(&budget, policy),
        };
        let forced = *occasion != Occasion::Routine || before > budget.usable;
        let pinned = if forced { Vec::new() } else { history.pinned() };
        let units = units(history.view(), &pinned);
        let newest_typed = units.iter().rposition(|unit| unit.kind == UnitKind::Typed);
        Self { history, units, budget, trigger, before, now, fixed_tokens, policy, occasion, newest_typed }
    }

    /// The unit of the newest message that a person typed: always kept.
    pub fn newest_typed(&self) -> Option<usize> {
        self.newest_typed
    }

    /// The meter as it would read without the `gone` units and with `added` tokens more.
    pub fn after(&self, gone: &[bool], added: Groups) -> Reading {
        self.reading(|unit| !gone[unit], |_| None, added)
    }

    /// The meter as it would read with some units shown, some items changed to another size.
    fn reading(
        &self,
        shown: impl Fn(usize) -> bool,
        resized: impl Fn(usize) -> Option<Groups>,
        added: Groups,
    ) -> Reading {
        let anchored = self.history.anchor().map_or(0, |anchor| anchor.seq);
        let view = self.history.view();
        let (mut kept, mut new) = (Groups::default(), added);
        for unit in (0..self.units.len()).filter(|at| shown(*at)) {
            for at in self.units[unit].items.clone() {
                match resized(at) {
                    Some(groups) => new += groups,
                    None if view[at].since <= anchored => kept += view[at].groups,
                    None => new += view[at].groups,
                }
            }
        }
        meter::of_parts(self.history, self.fixed_tokens, &kept, &new)
    }

    /// An edit is worth nothing before the view has grown: this is what stops endless compaction.
    fn no_progress(&self) -> bool {
        self.history
            .settled_tokens()
            .is_some_and(|settled| self.history.view_tokens() < settled + self.budget.progress())
    }

    /// Asks the strategy, first with its own protection, then with the tight one.
    fn compact(&self) -> Option<Plan> {
        [Protection::Turns, Protection::Steps].into_iter().find_map(|protection| {
            let choice = self.policy.strategy.choose(self, protection)?;
            self.accept(choice)
        })
    }

    /// The floor check: what cannot get under the trigger is not started.
    fn accept(&self, choice: Choice) -> Option<Plan> {
        let Choice { mut gone, summary_tokens } = choice;
        self.protect(&mut gone);
        if !gone.contains(&true) {
            return None;
        }
        let Some(limit) = summary_tokens else {
            let edit = self.removal(&gone, self.policy.strategy.name());
            return self.is_progress(&edit).then(|| Plan::Edit(Box::new(edit)));
        };
        let limit = limit.min(self.budget.usable / 6).min(self.budget.reserve);
        let limit = self.summary_limit(&gone, limit)?;
        Some(Plan::Summarise(Box::new(SummaryDraft::new(self, gone, limit))))
    }

    /// What a summary of the `gone` units may have, at most `limit`: less where less fits under the trigger, `None`
    /// where it would be too little to say anything.
    fn summary_limit(&self, gone: &[bool], limit: u64) -> Option<u64> {
        let ceiling = self.trigger.min(self.before);
        let fits =
            |limit: u64| self.after(gone, Groups::of(limit + summary::HEADER_TOKENS)).bound() < ceiling;
        std::iter::successors(Some(limit), |limit| Some(limit * 3 / 4))
            .take_while(|tried| *tried >= summary::LEAST_TOKENS.min(limit))
            .find(|limit| fits(*limit))
    }

    fn protect(&self, gone: &mut [bool]) {
        for (at, unit) in self.units.iter().enumerate() {
            if unit.pinned || Some(at) == self.newest_typed {
                gone[at] = false;
            }
        }
    }

    /// Whether committing `edit` leaves a smaller view under the trigger.
    fn is_progress(&self, edit: &ViewEdit) -> bool {
        edit.compressed_bound < self.trigger && edit.compressed_bound < self.before
    }

    /// An edit that removes the `gone` units and leaves a note with their handles.
    fn removal(&self, gone: &[bool], strategy: &str) -> ViewEdit {
        let count = self.messages_in(gone);
        let note = format!(
            "[{count} earlier messages were removed here to make room. The tool `recall` with handle {} returns them.]",
            named(&self.handles(gone))
        );
        let why = format!("{count} messages left out, no model call");
        self.edit(gone, vec![Part::text(note)], false, strategy, why)
    }

    /// The edit that shows `parts` in place of the `gone` units.
    fn edit(&self, gone: &[bool], parts: Vec<Part>, summary: bool, strategy: &str, why: String) -> ViewEdit {
        let after = self.after(gone, self.cost(parts.clone()));
        let mut parts = Some(parts);
        let ops = self.runs(gone).into_iter().map(|range| match parts.take() {
            Some(parts) => ViewOp::Replace { range, parts, summary },
            None => ViewOp::Drop { range },
        });
        let ops = ops.collect();
        let kept = self.messages() - self.messages_in(gone) + 1;
        self.view_edit(ops, EditKind::Compaction, strategy, &after, kept, why)
    }

    fn view_edit(
        &self,
        ops: Vec<ViewOp>,
        kind: EditKind,
        strategy: &str,
        after: &Reading,
        compressed_messages: u64,
        why: String,
    ) -> ViewEdit {
        let reason = match self.occasion {
            Occasion::Routine => EditReason::TokenLimit,
            Occasion::Overflow => EditReason::OverflowError,
            Occasion::Requested { .. } => EditReason::Requested,
        };
        ViewEdit {
            id: format!("e{}", self.history.last_seq() + 1).into(),
            base_view_hash: self.history.view_hash(),
            ops,
            kind,
            strategy: strategy.to_owned(),
            reason,
            trigger_tokens: self.trigger,
            original_tokens: self.now.total,
            compressed_tokens: after.total,
            original_bound: self.before,
            compressed_bound: after.bound(),
            original_messages: self.messages(),
            compressed_messages,
            why,
            usage: None,
        }
    }

    /// What a message with these parts costs.
    fn cost(&self, parts: Vec<Part>) -> Groups {
        self.history.counter().message_groups(&Message::user("", parts))
    }

    /// Maximal runs of `gone` units, as ranges of the log.
    fn runs(&self, gone: &[bool]) -> Vec<crate::ids::LogRange> {
        let mut runs: Vec<crate::ids::LogRange> = Vec::new();
        let mut open = false;
        for (unit, gone) in self.units.iter().zip(gone) {
            match runs.last_mut() {
                Some(run) if *gone && open => run.to = unit.range.to,
                _ if *gone => runs.push(unit.range),
                _ => {}
            }
            open = *gone;
        }
        runs
    }

    /// What leads to everything in the `gone` units, and to what summaries and notes among them lead to.
    fn handles(&self, gone: &[bool]) -> Vec<Handle> {
        let mut ranges = self.runs(gone);
        for (unit, _) in self.units.iter().zip(gone).filter(|(_, gone)| **gone) {
            ranges.extend(self.history.view()[unit.items.clone()].iter().flat_map(|item| &item.covers));
        }
        crate::history::merged(self.history.entries(), ranges).into_iter().map(Handle).collect()
    }

    fn messages(&self) -> u64 {
        self.history.view().len() as u64
    }

    fn messages_in(&self, gone: &[bool]) -> u64 {
        self.units.iter().zip(gone).filter(|(_, gone)| **gone).map(|(unit, _)| unit.items.len() as u64).sum()
    }

    /// Indices of the units that are steps, newest first.
    fn steps_newest_first(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.units.len()).rev().filter(|at| self.units[*at].kind == UnitKind::Step)
    }

    /// The first unit of the newest `count` turns, at least one.
    pub fn turn_start(&self, count: usize) -> usize {
        let newest = self.units.last().map_or(0, |unit| unit.turn);
        let oldest_kept = newest.saturating_sub(count.max(1) - 1);
        self.units.iter().position(|unit| unit.turn >= oldest_kept).unwrap_or(0)
    }

    /// The first unit of the newest `count` steps, with what the first of them answers.
    pub fn step_start(&self, count: usize) -> usize {
        let first = self.steps_newest_first().take(count).last().unwrap_or(self.units.len());
        let is_asked = |unit: &&Unit| matches!(unit.kind, UnitKind::Typed | UnitKind::Note);
        first - self.units[..first].iter().rev().take_while(is_asked).count()
    }

    /// The first unit that a protection keeps.
    pub fn protected_from(&self, protection: Protection, turns: usize) -> usize {
        match protection {
            Protection::Turns => self.turn_start(turns),
            Protection::Steps => self.step_start(2),
        }
    }

    /// The unit with which the newest `count` messages begin.
    pub fn newest_messages_from(&self, count: usize) -> usize {
        let first_item = self.history.view().len().saturating_sub(count);
        self.units.iter().position(|unit| unit.items.end > first_item).unwrap_or(self.units.len())
    }

    /// Where the first turn ends.
    pub fn first_turn_end(&self) -> usize {
        self.units.iter().position(|unit| unit.turn > 1).unwrap_or(self.units.len())
    }

    /// Where the first typed message ends, with what precedes it.
    pub fn first_typed_end(&self) -> usize {
        self.units.iter().position(|unit| unit.kind == UnitKind::Typed).map_or(0, |at| at + 1)
    }

    /// The smallest run of units from `head` on without which the request stays below `target` tokens.
    pub fn smallest_gap(&self, head: usize, target: u64) -> Option<Vec<bool>> {
        let gap = |end: usize| (0..self.units.len()).map(|at| (head..end).contains(&at)).collect::<Vec<_>>();
        let fits = |end: usize| self.after(&gap(end), Groups::of(summary::HEADER_TOKENS)).bound() < target;
        let (mut low, mut high) = (head + 1, self.units.len());
        if low > high || !fits(high) {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if fits(middle) { high = middle } else { low = middle + 1 }
        }
        Some(gap(low))
    }

    /// Everything before `cut` goes.
    pub fn before_cut(&self, cut: usize) -> Vec<bool> {
        (0..self.units.len()).map(|at| at < cut).collect()
    }
}

/// Handles as a person or a model reads them: `lh:3-17 or lh:20`.
fn named(handles: &[Handle]) -> String {
    handles.iter().map(Handle::to_string).collect::<Vec<_>>().join(" or ")
}

/// Whether an item is a tool result that still has its content.
fn is_clearable(kind: &ItemKind, protected: &[String]) -> bool {
    matches!(kind, ItemKind::Result { tool, cleared: None } if !protected.contains(tool))
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

#[cfg(test)]
mod tests;
