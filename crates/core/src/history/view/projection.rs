//! The projection of log entries and edits into a view.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{LogEntry, ResultExcerpt, ViewItem};
use crate::estimate::MessageTokenCounter;
use crate::event::ViewOperation;
use crate::history::ViewEditState;
use crate::ids::{CallId, EditId, LogRange, Seq};
use crate::message::{Part, Role};

/// Projects entries and active edits into a view, oldest edit first. Items whose form has not changed keep their
/// `since`.
pub(in crate::history) fn rebuild(
    entries: &[LogEntry],
    edits: &[ViewEditState],
    old: &[ViewItem],
    now: Seq,
    counter: &MessageTokenCounter,
    has_recall: bool,
) -> Vec<ViewItem> {
    let mut slots: Vec<Option<ViewItem>> = entries.iter().map(ViewItem::of).collect();
    for (at, entry) in
        entries.iter().enumerate().filter(|(_, entry)| entry.goes_on() && entry.shown.is_some())
    {
        // The newest piece holds the text of the earlier pieces.
        let first = entries.partition_point(|other| other.seq < entry.begins);
        slots[first..at].fill(None);
    }
    let mut projection = ViewProjection { entries, counter, has_recall, slots, replacements: Vec::new() };
    for state in edits.iter().filter(|state| state.active) {
        // Before the operations: an operation removes the older replacements whose ranges the edit takes over.
        let covers = covers(entries, &state.edit.ops, &projection.replacements);
        for op in &state.edit.ops {
            projection.apply(op, &state.edit.id, &covers);
        }
    }
    let mut view = in_order(entries, projection.slots, projection.replacements);
    // A map and no binary search, because results stand in the order of their calls, not of the log.
    let old: BTreeMap<LogRange, &ViewItem> = old.iter().map(|item| (item.range, item)).collect();
    for item in &mut view {
        let before = old
            .get(&item.range)
            .filter(|before| before.kind == item.kind && before.omission == item.omission);
        item.since = before.map_or(now, |before| before.since);
    }
    view
}

/// Returns the ranges that an edit removes, with the ranges behind the summaries and notes that the edit removes.
fn covers(entries: &[LogEntry], ops: &[ViewOperation], replacements: &[ViewItem]) -> Vec<LogRange> {
    let removed =
        ops.iter().filter(|op| !matches!(op, ViewOperation::Placeholder { .. })).map(ViewOperation::range);
    let mut covers: Vec<LogRange> = removed.collect();
    for item in replacements {
        if covers.iter().any(|range| range.contains(item.range.from)) {
            covers.extend(&item.covers);
        }
    }
    merged(entries, covers)
}

/// Returns the same messages in as few ascending ranges as possible. Ranges without a message between them become one
/// range.
pub(crate) fn merged(entries: &[LogEntry], mut ranges: Vec<LogRange>) -> Vec<LogRange> {
    ranges.sort_unstable();
    let mut merged: Vec<LogRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut().filter(|last| are_adjacent(entries, **last, range)) {
            Some(last) => last.to = last.to.max(range.to),
            None => merged.push(range),
        }
    }
    merged
}

/// Returns whether two ascending ranges overlap or have no message between them.
fn are_adjacent(entries: &[LogEntry], first: LogRange, second: LogRange) -> bool {
    // Positions without a message hold other events, and a handle may span them.
    let between = LogRange { from: first.to.saturating_add(1), to: second.from.saturating_sub(1) };
    second.from <= between.from || span(entries, between).is_empty()
}

/// Entries on their way into the view.
struct ViewProjection<'a> {
    entries: &'a [LogEntry],
    counter: &'a MessageTokenCounter,
    has_recall: bool,
    /// The item of each entry, if the entry is shown.
    slots: Vec<Option<ViewItem>>,
    /// The summaries and notes that stand for ranges.
    replacements: Vec<ViewItem>,
}

impl ViewProjection<'_> {
    fn apply(&mut self, op: &ViewOperation, edit: &EditId, covers: &[LogRange]) {
        let range = op.range();
        let span = span(self.entries, range);
        if let ViewOperation::Placeholder { excerpt, cut, .. } = op {
            return self.clear(span, edit, ResultExcerpt { text: excerpt, cut: *cut });
        }
        self.slots[span].fill(None);
        // A newer edit may cover an older summary. Only the newer replacement is shown then.
        self.replacements.retain(|item| !range.contains(item.range.from));
        if let ViewOperation::Replace { parts, summary, .. } = op {
            let covers = covers.to_vec();
            let item = ViewItem::replacement(edit, range, parts, *summary, covers, self.counter);
            self.replacements.push(item);
        }
    }

    fn clear(&mut self, span: Range<usize>, edit: &EditId, excerpt: ResultExcerpt<'_>) {
        for at in span {
            // A message that an earlier edit removed must not come back as a placeholder.
            if self.slots[at].is_some() {
                let entry = &self.entries[at];
                let cleared = ViewItem::cleared(entry, edit, excerpt, self.counter, self.has_recall);
                self.slots[at] = cleared.or_else(|| self.slots[at].take());
            }
        }
    }
}

/// Returns the indices of a range's entries.
pub(crate) fn span(entries: &[LogEntry], range: LogRange) -> Range<usize> {
    let start = entries.partition_point(|entry| entry.seq < range.from);
    let end = entries.partition_point(|entry| entry.seq <= range.to);
    start..end.max(start)
}

/// Returns the view in log order, with results in the order of their calls.
fn in_order(
    entries: &[LogEntry],
    slots: Vec<Option<ViewItem>>,
    mut replacements: Vec<ViewItem>,
) -> Vec<ViewItem> {
    replacements.sort_by_key(|item| item.range.from);
    let mut replacements = replacements.into_iter().peekable();
    let mut view: Vec<ViewItem> = Vec::with_capacity(entries.len());
    for (entry, slot) in entries.iter().zip(slots) {
        while let Some(item) = replacements.next_if(|item| item.range.from <= entry.seq) {
            view.push(item);
        }
        let Some(item) = slot else { continue };
        match result_call(&item).map(|id| result_position(&view, id)) {
            Some(at) => view.insert(at, item),
            None => view.push(item),
        }
    }
    view.extend(replacements);
    view
}

fn result_call(item: &ViewItem) -> Option<&CallId> {
    match item.message.parts.first() {
        Some(Part::ToolResult(result)) => Some(&result.call_id),
        _ => None,
    }
}

/// Returns the index for the result of `call_id`: behind the results of earlier calls of the newest step.
pub(in crate::history) fn result_position(view: &[ViewItem], call_id: &CallId) -> usize {
    let Some(step) = view.iter().rposition(|item| item.message.role != Role::Tool) else {
        return view.len();
    };
    let calls: Vec<&CallId> = view[step].message.tool_calls().map(|call| &call.call_id).collect();
    let rank = call_rank(&calls, call_id);
    let earlier = view[step + 1..]
        .iter()
        .take_while(|item| result_call(item).is_some_and(|other| call_rank(&calls, other) < rank));
    step + 1 + earlier.count()
}

/// Returns the index of a call among the calls of a step. Unknown calls come last.
fn call_rank(calls: &[&CallId], call_id: &CallId) -> usize {
    calls.iter().position(|call| *call == call_id).unwrap_or(usize::MAX)
}
