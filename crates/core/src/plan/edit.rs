//! The edits that selections lead to, and their reasons in words.

use super::earlier_summary::{EarlierSummary, SHORTENED};
use super::{EditCost, PlanContext, PlanTrigger, messages_in_words, named};
use crate::estimate::TokensByScript;
use crate::event::{EditKind, EditReason, ViewEdit, ViewOperation};
use crate::ids::LogHandle;
use crate::message::{Message, Part};
use crate::meter::MeterReading;
use crate::strategy::{CompactionSelection, UnitReplacement};

impl PlanContext<'_> {
    /// Returns an edit that only clears tool results; `None` if the selection clears none.
    pub(super) fn clearing(&self, selection: &CompactionSelection) -> Option<ViewEdit> {
        if selection.cleared.is_empty() && selection.shortened.is_empty() {
            return None;
        }
        let after = self.after_selection(selection, TokensByScript::default());
        let saved = self.now.total.saturating_sub(after.total);
        let ops = self.ops_in_place(selection);
        let what = match selection.cleared.len() {
            0 => format!("{}, about {saved} tokens saved", shortened_in_words(selection)),
            count if selection.shortened.is_empty() => {
                format!("{count} old tool results pruned, about {saved} tokens saved")
            }
            count => {
                let shortened = shortened_in_words(selection);
                format!("{count} old tool results pruned, {shortened}, about {saved} tokens saved")
            }
        };
        let why = self.reasoned(what, &selection.why, &after, self.first_touched(selection), 0.0);
        let name = self.policy.strategy.name();
        Some(self.view_edit(ops, EditKind::Prune, name, &after, self.messages(), why))
    }

    /// Returns the operations that leave messages in their place: placeholders of results, and shortened messages.
    pub(super) fn ops_in_place(&self, selection: &CompactionSelection) -> Vec<ViewOperation> {
        let mut ops = self.placeholders(&selection.cleared);
        ops.extend(selection.shortened.iter().map(|message| {
            let seq = self.history.view()[message.item].range.to;
            ViewOperation::Placeholder { seq, excerpt: message.excerpt.clone(), cut: true }
        }));
        ops
    }

    /// Returns the operations that replace results by placeholders, for indices into the view.
    pub(super) fn placeholders(&self, cleared: &[usize]) -> Vec<ViewOperation> {
        let view = self.history.view();
        let placeholders = cleared.iter().map(|at| {
            let (seq, excerpt) = (view[*at].range.from, self.cleared_form(*at).excerpt.clone());
            ViewOperation::Placeholder { seq, excerpt, cut: false }
        });
        placeholders.collect()
    }

    /// Returns an edit that removes the `dropped` units and leaves a note with their handles.
    pub(super) fn removal(&self, dropped: &[bool], strategy: &str) -> ViewEdit {
        self.removal_by(&CompactionSelection::new(dropped.to_vec(), UnitReplacement::Note), strategy)
    }

    /// Returns an edit that replaces the units of a selection by a note.
    pub(super) fn removal_by(&self, selection: &CompactionSelection, strategy: &str) -> ViewEdit {
        self.removal_with(selection, strategy, self.note(&selection.dropped))
    }

    /// Returns an edit that replaces the units of a selection by `parts`.
    pub(super) fn removal_with(
        &self,
        selection: &CompactionSelection,
        strategy: &str,
        parts: Vec<Part>,
    ) -> ViewEdit {
        let dropped = &selection.dropped;
        let count = self.units.messages_in(dropped);
        let originals = self.originals_in(dropped);
        let after = self.after_selection(selection, self.cost(parts.clone()));
        let mut parts = Some(parts);
        // One note stands for all gaps: it takes the place of the first, and the others leave nothing.
        let ops = self.units.runs(dropped).into_iter().map(|range| match parts.take() {
            Some(parts) => ViewOperation::Replace { range, parts, summary: false },
            None => ViewOperation::Drop { range },
        });
        let ops = ops.chain(self.ops_in_place(selection)).collect();
        let mut what = format!("{} left out, no model call", messages_in_words(originals));
        if !selection.shortened.is_empty() {
            what.push_str(&format!("; {}", shortened_in_words(selection)));
        }
        let chosen = self.policy.strategy.name();
        if strategy != chosen {
            what.push_str(&format!("; `{chosen}` alone makes too little room now"));
        }
        if EarlierSummary::in_units(self, dropped).is_shortened() {
            what.push_str(SHORTENED);
        }
        let why = self.reasoned(what, &selection.why, &after, self.first_touched(selection), 0.0);
        // The note is a message too.
        let kept = self.messages() - count + 1;
        self.view_edit(ops, EditKind::Compaction, strategy, &after, kept, why)
    }

    /// Returns the note in place of the `dropped` units: the number of removed messages, their handles, the standing
    /// orders and the removed system messages.
    pub(super) fn note(&self, dropped: &[bool]) -> Vec<Part> {
        let count = self.originals_in(dropped);
        let how = if self.history.has_recall() {
            format!(": {}", named(&self.handles(dropped)))
        } else {
            ".".to_owned()
        };
        let mut text = format!("[{count} earlier messages were removed here to make room{how}]");
        // The orders themselves may be in the removed messages, so every replacement lists them whole. A system message
        // binds the model as much, wherever it stood.
        let orders = self.standing_text(dropped);
        if !orders.is_empty() {
            text.push_str(&format!("\n\n{}", orders.trim_end()));
        }
        let mut note = vec![Part::text(text)];
        let earlier = EarlierSummary::in_units(self, dropped).block(self.history.counter());
        if !earlier.is_empty() {
            note.push(Part::text(format!("\n\n{earlier}")));
        }
        note
    }

    /// Returns the first item of the view that a selection changes. The provider's cache holds up to this item.
    pub(super) fn first_touched(&self, selection: &CompactionSelection) -> usize {
        let unit =
            selection.dropped.iter().position(|dropped| *dropped).map(|unit| self.units[unit].items.start);
        let shortened = selection.shortened.iter().map(|message| message.item).min();
        unit.into_iter()
            .chain(selection.cleared.first().copied())
            .chain(shortened)
            .min()
            .unwrap_or(self.history.view().len())
    }

    /// Returns the reason of an edit in words: the action, the threshold, and the cost where prices are known.
    pub(super) fn reasoned(
        &self,
        what: String,
        why: &str,
        after: &MeterReading,
        first: usize,
        making: f64,
    ) -> String {
        let mut words = what;
        // A user who asks for a compaction knows why: the threshold was not the cause.
        let reason = if self.is_requested() { "" } else { self.threshold.why.as_str() };
        for more in [reason, why] {
            if !more.is_empty() {
                words.push_str(&format!("; {more}"));
            }
        }
        if let Some(prices) = self.policy.prices.as_ref().filter(|prices| prices.are_known()) {
            // The provider's cache holds up to the first change. All tokens behind it are sent at full price.
            let untouched: u64 = self.history.view()[..first].iter().map(|item| item.tokens).sum();
            let rewritten = after.total.saturating_sub(self.fixed_tokens + untouched);
            let removed = self.now.total.saturating_sub(after.total);
            let warm = !self.history.is_cold(prices.cache_life_ms);
            let cost = EditCost { rewritten, removed, making };
            words.push_str(&format!("; {}", prices.in_words(&cost, warm)));
        }
        if let Some(complaint) = self.complaint.borrow().as_ref() {
            words.push_str(&format!("; the strategy's own check refused another edit: {complaint}"));
        }
        words
    }

    /// Creates an edit of the present view, with the sizes before and after.
    pub(super) fn view_edit(
        &self,
        ops: Vec<ViewOperation>,
        kind: EditKind,
        strategy: &str,
        after: &MeterReading,
        compressed_messages: u64,
        why: String,
    ) -> ViewEdit {
        // After a switch the smaller window of the new model is the cause, although the threshold fired.
        let reason = match self.trigger {
            PlanTrigger::Routine | PlanTrigger::Pause if self.history.is_switched() => {
                EditReason::ModelSwitch
            }
            PlanTrigger::Routine | PlanTrigger::Pause => EditReason::TokenLimit,
            PlanTrigger::Overflow => EditReason::OverflowError,
            PlanTrigger::Requested { .. } => EditReason::Requested,
        };
        ViewEdit {
            // Ids come from log positions, because equal inputs must give equal outputs.
            id: format!("e{}", self.history.last_seq() + 1).into(),
            base_view_hash: self.history.view_hash(),
            ops,
            kind,
            strategy: strategy.to_owned(),
            reason,
            trigger_tokens: self.threshold_tokens,
            original_tokens: self.now.total,
            compressed_tokens: after.total,
            original_bound: self.before,
            compressed_bound: after.bound(),
            original_messages: self.messages(),
            compressed_messages,
            why,
            usage: None,
            summary: None,
        }
    }

    /// Returns the size of a user message with these parts.
    pub(super) fn cost(&self, parts: Vec<Part>) -> TokensByScript {
        self.history.counter().message_groups(&Message::user("", parts))
    }

    /// Returns the handles of all original messages behind the `dropped` units, also of those that summaries and notes
    /// stand for.
    pub(super) fn handles(&self, dropped: &[bool]) -> Vec<LogHandle> {
        let mut ranges = self.units.runs(dropped);
        for unit in self.units.flagged(dropped) {
            ranges.extend(self.history.view()[unit.items.clone()].iter().flat_map(|item| &item.covers));
        }
        crate::history::merged(self.history.entries(), ranges).into_iter().map(LogHandle).collect()
    }

    /// Returns the number of messages in the view.
    pub(super) fn messages(&self) -> u64 {
        self.history.view().len() as u64
    }

    /// Returns the number of original messages behind the `dropped` units. A summary or a note counts for every message
    /// that it stands for.
    fn originals_in(&self, dropped: &[bool]) -> u64 {
        let items = self.units.flagged(dropped).flat_map(|unit| &self.history.view()[unit.items.clone()]);
        let originals = items.map(|item| {
            let entries = self.history.entries();
            let covered = item.covers.iter().map(|range| crate::history::span(entries, *range).len());
            // An item without entries of the log, such as a note, is one message to the reader.
            covered.sum::<usize>().max(1) as u64
        });
        originals.sum()
    }
}

/// Returns the number of shortened messages in words.
pub(super) fn shortened_in_words(selection: &CompactionSelection) -> String {
    let count = selection.shortened.len() as u64;
    format!("{} of the user cut to the beginning and the end", messages_in_words(count))
}
