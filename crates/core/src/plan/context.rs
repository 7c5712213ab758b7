//! One pass of planning: the view in units, what each choice would lead to, and what may be committed.

use std::cell::{Cell, RefCell};

use super::draft::SummaryDraft;
use super::unit_tokens::UnitTokens;
use super::{CompactionPolicy, Plan, PlanTrigger, TokenPrices, draft, overflow_targets, pause_target};
use crate::budget::Budget;
use crate::estimate::TokensByScript;
use crate::event::ViewEdit;
use crate::history::{History, LogEntry, LogEntryKind, ViewUnit, ViewUnitKind, units};
use crate::ids::{LogHandle, Seq};
use crate::meter::MeterReading;
use crate::retention::user_text::user_room;
use crate::strategy::{CompactionSelection, ProtectionLevel, TriggerThreshold, UnitReplacement};

/// One pass of planning: the view in units, and what each choice would lead to.
pub struct PlanContext<'a> {
    /// The session.
    pub history: &'a History,
    /// Its view in units.
    pub units: Vec<ViewUnit>,
    /// The room.
    pub budget: Budget,
    /// What the request must stay below, in tokens.
    pub trigger: u64,
    /// What the request has now (bound), in tokens.
    pub before: u64,
    pub(super) now: MeterReading,
    pub(super) line: TriggerThreshold,
    pub(super) fixed_tokens: u64,
    pub(super) policy: &'a CompactionPolicy,
    pub(super) occasion: &'a PlanTrigger,
    pub(super) newest_typed: Option<usize>,
    /// What each unit has: every question of what an edit would leave is a sum of these.
    pub(super) shares: Vec<UnitTokens>,
    /// The view up to this position is in the anchor's count.
    pub(super) anchored: Seq,
    /// What the strategy's own check said of an edit.
    pub(super) complaint: RefCell<Option<String>>,
    /// The most of an earlier summary that an edit carries on, in tokens.
    pub(super) earlier_tokens: Cell<u64>,
}

impl<'a> PlanContext<'a> {
    pub(super) fn new(
        history: &'a History,
        fixed_tokens: u64,
        budget: Budget,
        policy: &'a CompactionPolicy,
        occasion: &'a PlanTrigger,
        now: MeterReading,
        line: TriggerThreshold,
    ) -> Self {
        let before = now.bound();
        let trigger = match occasion {
            PlanTrigger::Overflow => overflow_targets(before, &budget).next().unwrap_or(before),
            PlanTrigger::Pause => pause_target(&budget),
            _ => line.tokens,
        };
        let forced = *occasion != PlanTrigger::Routine || before > budget.usable;
        let pinned = if forced { Vec::new() } else { history.pinned() };
        let units = units(history.view(), &pinned);
        let anchored = history.anchor().map_or(0, |anchor| anchor.seq);
        let shares =
            units.iter().map(|unit| UnitTokens::of(&history.view()[unit.items.clone()], anchored)).collect();
        let newest_typed = units.iter().rposition(|unit| unit.kind == ViewUnitKind::Typed);
        Self {
            history,
            units,
            shares,
            anchored,
            budget,
            trigger,
            before,
            now,
            line,
            fixed_tokens,
            policy,
            occasion,
            newest_typed,
            complaint: RefCell::default(),
            earlier_tokens: Cell::new(u64::MAX),
        }
    }

    /// Returns what makes a refused request smaller: the first target that can be reached counts.
    pub(super) fn after_refusal(mut self) -> Plan {
        let mut plan = Plan::Fits;
        for target in overflow_targets(self.before, &self.budget) {
            self.trigger = target;
            plan = self.prune().or_else(|| self.compact()).unwrap_or_else(|| self.last_resort());
            if !matches!(plan, Plan::Fits | Plan::DoesNotFit(_)) {
                break;
            }
        }
        plan
    }

    /// Returns whether tokens cost something, as far as is known.
    pub fn is_priced(&self) -> bool {
        self.policy.prices.as_ref().is_some_and(TokenPrices::are_known)
    }

    /// Returns whether a person asked for it.
    pub fn is_requested(&self) -> bool {
        matches!(self.occasion, PlanTrigger::Requested { .. })
    }

    /// System prompt and tools, in tokens.
    pub fn fixed_tokens(&self) -> u64 {
        self.fixed_tokens
    }

    /// The request as it is by our own count, whatever was reported, in tokens.
    pub(super) fn counted(&self) -> u64 {
        let all = *self.history.view_groups() + TokensByScript::of(self.fixed_tokens);
        self.history.calibration().ratios().apply(&all)
    }

    /// The unit of the newest message that a person typed: always kept.
    pub fn newest_typed(&self) -> Option<usize> {
        self.newest_typed
    }

    /// The meter as it would read without the `gone` units and with `added` tokens more.
    pub fn after(&self, gone: &[bool], added: TokensByScript) -> MeterReading {
        self.reading(|unit| !gone[unit], &[], added)
    }

    /// The bound of the request without the `gone` units, with a note in their place.
    pub fn without(&self, gone: &[bool]) -> u64 {
        self.after(gone, TokensByScript::of(draft::HEADER_TOKENS + self.earlier(gone).shown_tokens())).bound()
    }

    /// Returns whether the request without the `gone` units, with `added` tokens more, stays under the trigger.
    pub fn would_fit(&self, gone: &[bool], added: u64) -> bool {
        self.after(gone, TokensByScript::of(added + draft::HEADER_TOKENS)).bound() < self.trigger
    }

    /// The meter as it would read without the `gone` units, with the `cleared` results as placeholders and `added`
    /// tokens more.
    pub fn after_choice(&self, gone: &[bool], cleared: &[usize], added: u64) -> MeterReading {
        self.cleared(|unit| !gone[unit], cleared, TokensByScript::of(added))
    }

    /// The most that quotes of the user in the `gone` units may take, in tokens, beside `floor_bound` tokens of everything
    /// else.
    pub(super) fn user_text_bound(&self, gone: &[bool], floor_bound: u64) -> u64 {
        let limit = self.trigger.min(self.before);
        let most = user_room(limit.saturating_sub(floor_bound), limit, self.policy.user_text_share, 0);
        let handles = self.handles(gone);
        let is_gone = |entry: &&LogEntry| handles.iter().any(|LogHandle(range)| range.contains(entry.seq));
        let typed = self.history.entries().iter().filter(|entry| entry.kind == LogEntryKind::Typed);
        let tokens: u64 = typed.filter(is_gone).map(LogEntry::tokens).sum();
        tokens.min(most)
    }

    /// Asks the strategy, first with its own protection, then with the tight one.
    pub(super) fn compact(&self) -> Option<Plan> {
        ProtectionLevel::ALL.into_iter().find_map(|protection| {
            let choice = self.policy.strategy.choose(self, protection)?;
            self.accept(choice)
        })
    }

    /// Another edit before the view has grown, because it is full all the same: one that is worth it, so that the next is
    /// not due at once; if there is none, what there is.
    pub(super) fn again(mut self) -> Plan {
        let line = self.trigger;
        self.trigger = line.min(self.budget.usable - self.budget.progress());
        if let Some(plan) = self.at_once().or_else(|| self.beside_ledger(usize::MAX)) {
            return plan;
        }
        self.trigger = line;
        let most = self.beside_ledger(1).or_else(|| self.at_once());
        most.unwrap_or_else(|| self.last_resort())
    }

    /// What a strategy leaves out at once, an extract in its place where it wants a summary: it knows better what to
    /// keep than the last resort does.
    pub(super) fn at_once(&self) -> Option<Plan> {
        ProtectionLevel::ALL.into_iter().find_map(|protection| {
            let choice = self.policy.strategy.choose(self, protection)?;
            self.accept(CompactionSelection { instead: choice.instead.without_model(), ..choice })
        })
    }

    /// The floor check: what cannot get under the trigger is not started.
    pub(super) fn accept(&self, mut choice: CompactionSelection) -> Option<Plan> {
        self.protect(&mut choice.gone);
        self.spare_unread(&mut choice);
        if !choice.gone.contains(&true) {
            let edit = self.clearing(&choice)?;
            return self.may_commit(&edit).then(|| Plan::Edit(Box::new(edit)));
        }
        self.drop_redundant_clears(&mut choice);
        if choice.instead == UnitReplacement::Note {
            let removal = || Some(self.removal_by(&choice, self.policy.strategy.name()));
            let edit = self.with_less_earlier(|| removal().filter(|edit| self.may_commit(edit)))?;
            return Some(Plan::Edit(Box::new(edit)));
        }
        let draft = SummaryDraft::new(self, &choice)?;
        if !matches!(choice.instead, UnitReplacement::Extract { .. }) {
            return Some(Plan::Summarise(Box::new(draft)));
        }
        let edit = draft.finish_extractive(self.history).ok()?;
        self.may_commit(&edit).then(|| Plan::Edit(Box::new(edit)))
    }

    /// The draft behind the extract that the strategy wants.
    pub(super) fn extract_draft(&self) -> Option<SummaryDraft> {
        ProtectionLevel::ALL.into_iter().find_map(|protection| {
            let mut choice = self.policy.strategy.choose(self, protection)?;
            self.protect(&mut choice.gone);
            self.spare_unread(&mut choice);
            self.drop_redundant_clears(&mut choice);
            let is_one =
                matches!(choice.instead, UnitReplacement::Extract { .. }) && choice.gone.contains(&true);
            is_one.then(|| SummaryDraft::new(self, &choice)).flatten()
        })
    }

    /// Returns whether the model has not seen the newest results, and what it is sent is up to us.
    pub(super) fn is_unread(&self) -> bool {
        *self.occasion == PlanTrigger::Routine && !self.history.is_answered()
    }

    /// What a tool has just said is for the model: no strategy takes it away.
    pub(super) fn spare_unread(&self, choice: &mut CompactionSelection) {
        let newest = self.steps_newest_first().next();
        let newest = newest.filter(|step| self.is_unread() && self.can_keep_step(*step));
        if let Some(step) = newest {
            choice.gone[step] = false;
            let items = self.units[step].items.clone();
            choice.cleared.retain(|at| !items.contains(at));
        }
    }

    /// Results that go with their units are not cleared too.
    pub(super) fn drop_redundant_clears(&self, choice: &mut CompactionSelection) {
        let goes = |at: &usize| {
            let unit = self.units.partition_point(|unit| unit.items.end <= *at);
            choice.gone.get(unit).copied().unwrap_or(false)
        };
        choice.cleared.retain(|at| !goes(at));
    }

    pub(super) fn protect(&self, gone: &mut [bool]) {
        for (at, gone) in gone.iter_mut().enumerate() {
            *gone &= !self.is_protected(at);
        }
    }

    /// Returns whether no strategy may leave a unit out.
    pub(super) fn is_protected(&self, unit: usize) -> bool {
        // What was said of an answer that goes on.
        let is_paused = unit + 1 == self.units.len() && self.history.is_paused();
        self.units[unit].pinned || Some(unit) == self.newest_typed || is_paused
    }

    /// Returns whether committing `edit` leaves a smaller view under the trigger, and the strategy agrees.
    pub(super) fn may_commit(&self, edit: &ViewEdit) -> bool {
        if edit.compressed_bound >= self.trigger || edit.compressed_bound >= self.before {
            return false;
        }
        match self.policy.strategy.validate(self.history, edit) {
            Ok(()) => true,
            Err(complaint) => {
                *self.complaint.borrow_mut() = Some(complaint);
                false
            }
        }
    }

    /// Indices of the units that are steps, newest first.
    pub(super) fn steps_newest_first(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.units.len()).rev().filter(|at| self.units[*at].kind == ViewUnitKind::Step)
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
        let is_asked = |unit: &&ViewUnit| matches!(unit.kind, ViewUnitKind::Typed | ViewUnitKind::Note);
        first - self.units[..first].iter().rev().take_while(is_asked).count()
    }

    /// The first unit that a protection keeps.
    pub fn protected_from(&self, protection: ProtectionLevel, turns: usize) -> usize {
        match protection {
            ProtectionLevel::Turns => self.turn_start(turns),
            ProtectionLevel::Steps | ProtectionLevel::Step => self.step_start(protection.steps()),
        }
    }

    /// The first unit that a protection keeps, if the newest turns leave room enough; else the newest two steps.
    pub fn kept_whole_from(&self, protection: ProtectionLevel, turns: usize) -> usize {
        let kept = self.protected_from(protection, turns);
        let alone = self.before_cut(kept);
        if protection == ProtectionLevel::Turns
            && self.after(&alone, TokensByScript::default()).bound() * 3 >= self.trigger * 2
        {
            return self.protected_from(ProtectionLevel::Steps, turns);
        }
        kept
    }

    /// The unit with which the newest messages of at most `tokens` begin, at least the newest step.
    pub fn newest_tokens_from(&self, tokens: u64) -> usize {
        let mut sum = 0;
        let fits = |unit: &&ViewUnit| {
            sum += unit.tokens;
            sum <= tokens
        };
        let kept = self.units.iter().rev().take_while(fits).count();
        (self.units.len() - kept).min(self.step_start(1))
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
        self.units.iter().position(|unit| unit.kind == ViewUnitKind::Typed).map_or(0, |at| at + 1)
    }

    /// Everything before `cut` goes.
    pub fn before_cut(&self, cut: usize) -> Vec<bool> {
        (0..self.units.len()).map(|at| at < cut).collect()
    }
}
