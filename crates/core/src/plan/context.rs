//! One pass of planning: the view in units, the effect of each selection, and the check before a commit.

use std::cell::{Cell, RefCell};

use super::draft::SummaryDraft;
use super::earlier_summary::{EarlierSummary, with_less_earlier};
use super::imported_summary::standing_orders;
use super::truncation::LastResortPlanner;
use super::unit_tokens::UnitTokens;
use super::view_units::ViewUnits;
use super::{
    CompactionPolicy, Plan, PlanTrigger, TokenPrices, documents, draft, overflow_targets, pause_target, prune,
};
use crate::budget::Budget;
use crate::estimate::TokensByScript;
use crate::event::ViewEdit;
use crate::history::{History, LogEntry, LogEntryKind};
use crate::ids::{LogHandle, Seq};
use crate::meter::MeterReading;
use crate::retention::system_messages::{SystemMessages, WINDOW_SHARE, system_message_list};
use crate::retention::user_text::user_room;
use crate::strategy::{CompactionSelection, ProtectionLevel, TriggerThreshold, UnitReplacement};

/// One pass of planning: the view in units, and the size of the request after each selection.
pub struct PlanContext<'a> {
    /// The session.
    pub history: &'a History,
    /// The session's view in units.
    pub units: ViewUnits,
    /// The room of the model call.
    pub budget: Budget,
    /// The size that the request must stay below, in tokens.
    pub threshold_tokens: u64,
    /// The size of the present request with the expected error, in tokens.
    pub before: u64,
    pub(super) now: MeterReading,
    pub(super) threshold: TriggerThreshold,
    pub(super) fixed_tokens: u64,
    pub(super) policy: &'a CompactionPolicy,
    pub(super) trigger: &'a PlanTrigger,
    /// The tokens of each unit. The size of every possible view is a sum of these.
    pub(super) unit_tokens: Vec<UnitTokens>,
    /// The position of the log up to which the meter's anchor has counted the view.
    pub(super) anchored: Seq,
    /// The objection of the strategy's own check to an edit.
    // A cell, because strategies and checks only read the context.
    pub(super) complaint: RefCell<Option<String>>,
    /// The most tokens of an earlier summary that an edit keeps.
    // A cell too: plans with less and less room are tried on one context.
    pub(super) earlier_tokens: Cell<u64>,
    /// The most tokens that an edit takes to quote system messages.
    pub(super) system_message_tokens: Cell<u64>,
}

impl<'a> PlanContext<'a> {
    pub(super) fn new(
        history: &'a History,
        fixed_tokens: u64,
        budget: Budget,
        policy: &'a CompactionPolicy,
        trigger: &'a PlanTrigger,
        now: MeterReading,
        threshold: TriggerThreshold,
    ) -> Self {
        let before = now.bound();
        let threshold_tokens = match trigger {
            PlanTrigger::Overflow => overflow_targets(before, &budget).next().unwrap_or(before),
            PlanTrigger::Pause => pause_target(&budget),
            _ => threshold.tokens,
        };
        // An undo pins the restored range against automatic compaction. A user's request or a full window overrides the
        // pin.
        let forced = *trigger != PlanTrigger::Routine || before > budget.usable;
        let pinned = if forced { Vec::new() } else { history.pinned() };
        let units = ViewUnits::new(history.view(), &pinned);
        let anchored = history.anchor().map_or(0, |anchor| anchor.seq);
        // The tokens of each unit are summed once, because strategies weigh hundreds of selections.
        let unit_tokens =
            units.iter().map(|unit| UnitTokens::of(&history.view()[unit.items.clone()], anchored)).collect();
        Self {
            history,
            units,
            unit_tokens,
            anchored,
            budget,
            threshold_tokens,
            before,
            now,
            threshold,
            fixed_tokens,
            policy,
            trigger,
            complaint: RefCell::default(),
            earlier_tokens: Cell::new(u64::MAX),
            system_message_tokens: Cell::new(budget.window / WINDOW_SHARE),
        }
    }

    /// Returns the plan for a smaller request after a refusal, by the first reachable target.
    pub(super) fn after_refusal(mut self) -> Plan {
        let mut plan = Plan::Fits;
        for target in overflow_targets(self.before, &self.budget) {
            self.threshold_tokens = target;
            plan = prune::prune(&self)
                .or_else(|| self.compact())
                .unwrap_or_else(|| LastResortPlanner::new(&self).plan());
            if !matches!(plan, Plan::Fits | Plan::DoesNotFit(_)) {
                break;
            }
        }
        plan
    }

    /// Returns whether the model has known prices above zero.
    pub fn is_priced(&self) -> bool {
        self.policy.prices.as_ref().is_some_and(TokenPrices::are_known)
    }

    /// Returns whether a user asked for the compaction.
    pub fn is_requested(&self) -> bool {
        matches!(self.trigger, PlanTrigger::Requested { .. })
    }

    /// Returns the size below which documents of the user may stay beside a summary: half of the room beside system
    /// prompt and tools. In tokens of the request.
    pub fn document_target(&self) -> u64 {
        documents::half_of_room(self.fixed_tokens, self.threshold_tokens)
    }

    /// Takes the dropped documents of the user back into a selection, the newest first, as far as the request stays
    /// below `target` tokens. Those that do not fit whole are cut to their beginning and end.
    pub fn keep_documents(&self, selection: &mut CompactionSelection, target: u64) {
        documents::keep_documents(self, selection, target);
    }

    /// Returns the size of system prompt and tools after an edit, in estimated tokens.
    pub fn fixed_tokens(&self) -> u64 {
        self.fixed_tokens
    }

    /// Returns the size of the present request by this crate's own count alone, in tokens. Reports of the provider do
    /// not enter.
    pub(super) fn counted(&self) -> u64 {
        let all = *self.history.view_groups() + TokensByScript::of(self.fixed_tokens);
        self.history.calibration().ratios().apply(&all)
    }

    /// Returns the meter's reading for a view without the `dropped` units and with `added` tokens more.
    pub fn after(&self, dropped: &[bool], added: TokensByScript) -> MeterReading {
        self.reading(|unit| !dropped[unit], &[], added)
    }

    /// Returns the bound of the request with a note in place of the `dropped` units, in tokens.
    pub fn without(&self, dropped: &[bool]) -> u64 {
        let beside =
            EarlierSummary::in_units(self, dropped).shown_tokens() + self.quoted_system_tokens(dropped);
        self.after(dropped, TokensByScript::of(draft::HEADER_TOKENS + beside)).bound()
    }

    /// Returns whether the request without the `dropped` units, with `added` tokens more, stays under the trigger.
    pub fn would_fit(&self, dropped: &[bool], added: u64) -> bool {
        let added = added + draft::HEADER_TOKENS + self.quoted_system_tokens(dropped);
        self.after(dropped, TokensByScript::of(added)).bound() < self.threshold_tokens
    }

    /// Returns the estimated tokens that quotes of the system messages in the `dropped` units take.
    pub(super) fn quoted_system_tokens(&self, dropped: &[bool]) -> u64 {
        // Strategies weigh hundreds of selections, and few conversations have such messages.
        if self.history.system_messages().is_empty() {
            return 0;
        }
        let messages = SystemMessages::of(self.history, &self.handles(dropped));
        messages.tokens(self.system_message_tokens.get())
    }

    /// Returns the standing orders and the system messages in the `dropped` units, as every replacement shows them.
    pub(super) fn standing_text(&self, dropped: &[bool]) -> String {
        let mut text = standing_orders(self.history);
        if !self.history.system_messages().is_empty() {
            let most = self.system_message_tokens.get();
            let messages = system_message_list(self.history, &self.handles(dropped), most);
            if !text.is_empty() && !messages.is_empty() {
                text.push('\n');
            }
            text.push_str(&messages);
        }
        text
    }

    /// Returns the meter's reading for a view without the `dropped` units. The `cleared` results are placeholders, and
    /// `added` tokens come on top.
    pub fn after_dropping(&self, dropped: &[bool], cleared: &[usize], added: u64) -> MeterReading {
        self.reading(|unit| !dropped[unit], cleared, TokensByScript::of(added))
    }

    /// Returns the meter's reading for the view after a selection, with `added` tokens on top.
    pub(super) fn after_selection(
        &self,
        selection: &CompactionSelection,
        added: TokensByScript,
    ) -> MeterReading {
        if selection.shortened.is_empty() {
            return self.reading(|unit| !selection.dropped[unit], &selection.cleared, added);
        }
        // A message has no placeholder, so it counts as cleared to nothing, and its excerpt is added.
        let shortened = selection.shortened.iter();
        let mut marked: Vec<usize> =
            selection.cleared.iter().copied().chain(shortened.clone().map(|m| m.item)).collect();
        marked.sort_unstable();
        let excerpts: TokensByScript = shortened.map(|message| message.tokens).sum();
        self.reading(|unit| !selection.dropped[unit], &marked, added + excerpts)
    }

    /// Returns the most tokens that quotes from the user's `dropped` messages may take beside `floor_bound` tokens of
    /// other content.
    pub(super) fn user_text_bound(&self, dropped: &[bool], floor_bound: u64) -> u64 {
        let limit = self.threshold_tokens.min(self.before);
        let most = user_room(limit.saturating_sub(floor_bound), limit, self.policy.user_text_share, 0);
        let handles = self.handles(dropped);
        let typed = self.history.entries().iter().filter(|entry| entry.kind == LogEntryKind::Typed);
        let dropped = typed.filter(|entry| handles.iter().any(|LogHandle(range)| range.contains(entry.seq)));
        let tokens: u64 = dropped.map(LogEntry::tokens).sum();
        // The quotes are not chosen yet. They cannot be longer than the messages.
        tokens.min(most)
    }

    /// Returns the plan of the strategy's first acceptable selection, from the widest protection to the narrowest.
    pub(super) fn compact(&self) -> Option<Plan> {
        ProtectionLevel::ALL.into_iter().find_map(|protection| {
            let selection = self.policy.strategy.choose(self, protection)?;
            self.accept(selection)
        })
    }

    /// Returns another edit of a view that has hardly grown and is full all the same. An edit with room for growth is
    /// preferred, because the next one is not due at once. Otherwise any edit that fits is taken.
    pub(super) fn plan_repeated_edit(mut self) -> Plan {
        let fired = self.threshold_tokens;
        self.threshold_tokens = fired.min(self.budget.usable - self.budget.progress());
        if let Some(plan) = self
            .compact_without_model()
            .or_else(|| LastResortPlanner::new(&self).plan_beside_facts(usize::MAX))
        {
            return plan;
        }
        // No edit leaves that much room, so any edit below the trigger that fired is better than none.
        self.threshold_tokens = fired;
        let most =
            LastResortPlanner::new(&self).plan_beside_facts(1).or_else(|| self.compact_without_model());
        most.unwrap_or_else(|| LastResortPlanner::new(&self).plan())
    }

    /// Returns the strategy's plan with an extract in place of any summary. The strategy chooses better than the last
    /// resort does.
    pub(super) fn compact_without_model(&self) -> Option<Plan> {
        ProtectionLevel::ALL.into_iter().find_map(|protection| {
            let selection = self.policy.strategy.choose(self, protection)?;
            self.accept(CompactionSelection {
                replacement: selection.replacement.without_model(),
                ..selection
            })
        })
    }

    /// Returns the plan for a selection, or `None` if even an empty replacement would stay above the trigger.
    pub(super) fn accept(&self, mut selection: CompactionSelection) -> Option<Plan> {
        // Strategies are foreign code too, so the guarantees for the newest messages are enforced here.
        self.protect(&mut selection.dropped);
        self.spare_unread(&mut selection);
        if !selection.dropped.contains(&true) {
            let edit = self.clearing(&selection)?;
            return self.may_commit(&edit).then(|| Plan::Edit(Box::new(edit)));
        }
        // The clears follow the units: `protect` and `spare_unread` may have taken units out of the selection.
        self.drop_redundant_clears(&mut selection);
        if selection.replacement == UnitReplacement::Note {
            let edit = with_less_earlier(self, || {
                let edit = self.removal_by(&selection, self.policy.strategy.name());
                self.may_commit(&edit).then_some(edit)
            })?;
            return Some(Plan::Edit(Box::new(edit)));
        }
        let draft = SummaryDraft::new(self, &selection)?;
        if !matches!(selection.replacement, UnitReplacement::Extract { .. }) {
            return Some(Plan::Summarise(Box::new(draft)));
        }
        let edit = draft.finish_extractive(self.history).ok()?;
        self.may_commit(&edit).then(|| Plan::Edit(Box::new(edit)))
    }

    /// Returns the draft behind the extract that the strategy selects.
    pub(super) fn extract_draft(&self) -> Option<SummaryDraft> {
        ProtectionLevel::ALL.into_iter().find_map(|protection| {
            let mut selection = self.policy.strategy.choose(self, protection)?;
            self.protect(&mut selection.dropped);
            self.spare_unread(&mut selection);
            self.drop_redundant_clears(&mut selection);
            let is_one = matches!(selection.replacement, UnitReplacement::Extract { .. })
                && selection.dropped.contains(&true);
            is_one.then(|| SummaryDraft::new(self, &selection)).flatten()
        })
    }

    /// Returns whether a routine step comes next and the model has not answered the newest messages yet.
    pub(super) fn is_unread(&self) -> bool {
        *self.trigger == PlanTrigger::Routine && !self.history.is_answered()
    }

    /// Takes the newest unread results out of a selection: the model must see a result once before any strategy drops
    /// the result.
    pub(super) fn spare_unread(&self, selection: &mut CompactionSelection) {
        let newest = self.units.steps_newest_first().next();
        let newest =
            newest.filter(|step| self.is_unread() && LastResortPlanner::new(self).can_keep_step(*step));
        if let Some(step) = newest {
            selection.dropped[step] = false;
            let items = self.units[step].items.clone();
            // The step is shown again, and with it the whole results.
            selection.cleared.retain(|at| !items.contains(at));
        }
    }

    /// Removes results from the cleared list if the selection drops their whole unit.
    pub(super) fn drop_redundant_clears(&self, selection: &mut CompactionSelection) {
        let dropped = &selection.dropped;
        selection.cleared.retain(|at| !dropped.get(self.units.unit_of_item(*at)).copied().unwrap_or(false));
    }

    /// Removes protected units from a selection.
    pub(super) fn protect(&self, dropped: &mut [bool]) {
        for (at, dropped) in dropped.iter_mut().enumerate() {
            *dropped &= !self.is_protected(at);
        }
    }

    /// Returns whether no strategy may leave a unit out.
    pub(super) fn is_protected(&self, unit: usize) -> bool {
        // The next request ends with the paused answer, because the model continues exactly that text.
        let is_paused = unit + 1 == self.units.len() && self.history.is_paused();
        self.units[unit].pinned || Some(unit) == self.units.newest_typed() || is_paused
    }

    /// Returns whether committing `edit` leaves a smaller view under the trigger, and the strategy agrees.
    pub(super) fn may_commit(&self, edit: &ViewEdit) -> bool {
        if edit.compressed_bound >= self.threshold_tokens || edit.compressed_bound >= self.before {
            return false;
        }
        // The strategy's own check comes last, because it may fold the whole history with the edit.
        match self.policy.strategy.validate(self.history, edit) {
            Ok(()) => true,
            Err(complaint) => {
                // The edit that is made instead tells people about the objection.
                *self.complaint.borrow_mut() = Some(complaint);
                false
            }
        }
    }

    /// Returns the first unit that stays whole: that of the newest turns if these leave enough room, else that of the
    /// newest two steps.
    pub fn kept_whole_from(&self, protection: ProtectionLevel, turns: usize) -> usize {
        let kept = self.units.protected_from(protection, turns);
        let alone = self.units.before_cut(kept);
        // Turns that take two thirds of the trigger by themselves would make the next edit due soon.
        if protection == ProtectionLevel::Turns
            && self.after(&alone, TokensByScript::default()).bound() * 3 >= self.threshold_tokens * 2
        {
            return self.units.protected_from(ProtectionLevel::Steps, turns);
        }
        kept
    }

    /// Returns the first unit of the newest `count` turns; the newest turn always counts.
    pub fn turn_start(&self, count: usize) -> usize {
        self.units.turn_start(count)
    }

    /// Returns a selection of all units before `cut`.
    pub fn before_cut(&self, cut: usize) -> Vec<bool> {
        self.units.before_cut(cut)
    }
}
