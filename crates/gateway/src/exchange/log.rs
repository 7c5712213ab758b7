//! The event log of a conversation outside any database. The log is built from the client's items in one fixed
//! way, so that equal items always get equal positions.

use std::collections::BTreeMap;

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::event::{
    Event, EventBody, FORMAT, NoteReason, PartialAnswerReason, StepKind, StepStart, ViewEdit, ViewOperation,
};
use longhaul_core::history::{History, LogEntryKind, ViewEditState};
use longhaul_core::ids::{CallId, EditId, LogRange, Seq};
use longhaul_core::message::{Message, ModelOrigin, ModelStopReason, Part, Role, ToolResult, ToolStatus};
use longhaul_core::meter;
use longhaul_core::plan::quotes_system_messages;
use longhaul_core::usage::Usage;

use super::journal::{self, JournalCount, JournalNote, JournalRefusal, JournalUsage};
use super::memo_lookup::DecidedEdit;
use super::recall;
use longhaul_core::shortening::FallbackSummary;
use longhaul_wire::edit::ItemSegment;

/// A place in the request: an item's index, and the index of a segment in the item.
pub(super) type SegmentPosition = (usize, usize);

/// A message in the history with the places of its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ItemPlacement {
    pub(super) seq: Seq,
    pub(super) pieces: Vec<SegmentPosition>,
}

/// The usage reported for a request, kept until the answer comes back in the next request.
#[derive(Clone, Debug)]
pub(super) struct ReportedUsage {
    pub(super) usage: Usage,
    pub(super) start: RequestSnapshot,
    /// The meter's estimate.
    pub(super) estimated: u64,
}

/// The figures of a request at its start.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestSnapshot {
    pub(super) view_hash: String,
    pub(super) fixed_tokens: u64,
    pub(super) window: Option<u64>,
}

/// The event log of a conversation with its history.
#[derive(Clone, Debug)]
pub(super) struct ConversationLog {
    pub(super) history: History,
    /// The messages from items, in order.
    pub(super) placed: Vec<ItemPlacement>,
    /// The positions of events without an item: edits, and reports about edits.
    non_item_positions: Vec<Seq>,
    /// The system prompts before all other items.
    pub(super) system: Vec<Part>,
    origin: ModelOrigin,
    /// The number of items read.
    pub(super) items: usize,
    /// The parts of a possibly unfinished answer, to be continued by the next item.
    answering: Option<(Vec<Part>, Vec<SegmentPosition>)>,
    /// The report about the call whose answer comes next.
    pub(super) reported: Option<ReportedUsage>,
    ends_with_answer: bool,
    /// The active edits with extracts that a summary is to replace, by position.
    fallback_summaries: BTreeMap<Seq, FallbackSummary>,
    /// The events behind the log's state beside its items.
    pub(super) notes: Vec<JournalNote>,
    /// The items that change their role in neutral form.
    pub(super) role_rewrites: RoleRewrites,
}

/// The items that become user messages when a conversation is translated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoleRewrites {
    /// A system prompt in the middle of the conversation.
    pub(super) system: bool,
    /// A result without a call.
    pub(super) result: bool,
}

/// The new items do not extend the known ones: an answer that was taken for complete continues.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HistoryMismatchError;

impl ConversationLog {
    /// Creates an empty log. With `has_recall` placeholders mention the tool `recall`.
    pub(super) fn new(counter: MessageTokenCounter, origin: ModelOrigin, has_recall: bool) -> Self {
        let history = History::new(counter);
        let mut log = Self {
            history: if has_recall { history } else { history.without_recall() },
            placed: Vec::new(),
            non_item_positions: Vec::new(),
            system: Vec::new(),
            origin,
            items: 0,
            answering: None,
            reported: None,
            ends_with_answer: false,
            fallback_summaries: BTreeMap::new(),
            notes: Vec::new(),
            role_rewrites: RoleRewrites::default(),
        };
        log.add(EventBody::SessionStarted {
            title: None,
            forked_from: None,
            imported_from: None,
            folder: None,
        });
        // The history accepts messages only within a run, so the whole conversation is one.
        log.add(EventBody::RunStarted { run_id: "r".into() });
        log
    }

    /// Appends an event. Events built here always fit the history.
    fn add(&mut self, body: EventBody) -> Seq {
        let seq = self.history.last_seq() + 1;
        // Time must not enter the log: equal items give equal logs in every process.
        let folded = self.history.apply(&Event { seq, at: 0, format: FORMAT, body });
        debug_assert!(folded.is_ok(), "{folded:?}");
        seq
    }

    /// Adds items to the log.
    pub(super) fn feed(&mut self, items: Vec<Vec<ItemSegment>>) -> Result<(), HistoryMismatchError> {
        let first = items.first().and_then(|pieces| pieces.first());
        // Clients send an answer in several items, and may add one after the log has closed the answer.
        if self.ends_with_answer && matches!(first, Some(ItemSegment::Assistant(_))) {
            return Err(HistoryMismatchError);
        }
        if !matches!(first, Some(ItemSegment::Assistant(_))) {
            // The count comes before the new items change the view that was counted.
            self.count_reported(items.is_empty());
        }
        for pieces in items {
            for (at, piece) in pieces.into_iter().enumerate() {
                self.piece(piece, (self.items, at));
            }
            self.items += 1;
        }
        self.settle();
        Ok(())
    }

    fn piece(&mut self, piece: ItemSegment, place: SegmentPosition) {
        if let ItemSegment::Assistant(parts) = piece {
            let (said, places) = self.answering.get_or_insert_default();
            said.extend(parts);
            places.push(place);
            return;
        }
        self.settle();
        self.ends_with_answer = false;
        match piece {
            // A system prompt in the middle keeps its place. In front it would change what came before.
            ItemSegment::System(parts) if self.placed.is_empty() => self.system.extend(parts),
            ItemSegment::System(parts) => {
                self.role_rewrites.system = true;
                self.note(parts, NoteReason::SystemMessage, place);
            }
            ItemSegment::Note(parts) => self.foreign_note(parts, NoteReason::Imported, place),
            ItemSegment::Summary(parts) => self.foreign_note(parts, NoteReason::ImportedSummary, place),
            ItemSegment::Typed(parts) => {
                let message = self.message(Role::User, parts);
                let taken = EventBody::message_taken(message);
                self.place(taken, vec![place]);
            }
            ItemSegment::Result { call, failed, content } => self.result(&call, failed, content, place),
            ItemSegment::Assistant(_) => {}
        }
    }

    fn message(&self, role: Role, parts: Vec<Part>) -> Message {
        let id = format!("m{}", self.history.last_seq() + 1).into();
        let origin = (role == Role::Assistant).then(|| self.origin.clone());
        Message { id, role, parts, origin }
    }

    fn place(&mut self, body: EventBody, pieces: Vec<SegmentPosition>) {
        let seq = self.add(body);
        self.placed.push(ItemPlacement { seq, pieces });
    }

    fn note(&mut self, parts: Vec<Part>, why: NoteReason, place: SegmentPosition) {
        let message = self.message(Role::User, parts);
        self.place(EventBody::NoteAdded { message, why }, vec![place]);
    }

    /// Adds a note of the client's. A client that compacts by itself sends the summary back. The system messages in it stay
    /// in force.
    fn foreign_note(&mut self, parts: Vec<Part>, why: NoteReason, place: SegmentPosition) {
        let is_quote = parts.iter().filter_map(Part::as_text).any(quotes_system_messages);
        self.note(parts, if is_quote { NoteReason::SystemMessage } else { why }, place);
    }

    /// Adds the result of an open call. Of calls with the same id the newest step counts, and in that step the first
    /// call. A result without an open call becomes a note.
    fn result(&mut self, call: &str, failed: bool, content: Vec<Part>, place: SegmentPosition) {
        let open = self.history.open_calls().iter().map(|open| &open.call);
        let named: Vec<_> = open.filter(|open| open.provider_id.as_deref() == Some(call)).collect();
        let newest = named.last().and_then(|call| step_of_call(&call.call_id));
        let first = named.iter().find(|call| step_of_call(&call.call_id) == newest);
        let Some(call_id) = first.map(|call| call.call_id.clone()) else {
            self.role_rewrites.result = true;
            return self.note(content, NoteReason::Imported, place);
        };
        let status = if failed { ToolStatus::Error } else { ToolStatus::Completed };
        let result = ToolResult { call_id, status, content, truncated: None };
        self.place(EventBody::ToolFinished { result }, vec![place]);
    }

    /// Closes an answer: the next item is not the model's.
    fn settle(&mut self) {
        let Some((mut parts, places)) = self.answering.take() else { return };
        let seq = self.history.last_seq();
        for (at, part) in parts.iter_mut().enumerate() {
            if let Part::ToolCall(call) = part {
                // Servers repeat their ids; a suffix with the position makes them unique.
                call.call_id = CallId::new(format!("{}#{seq}.{at}", call.call_id));
            }
        }
        let message = self.message(Role::Assistant, parts);
        let reported = self.reported.take();
        self.answer(message, None, reported.as_ref(), places);
        self.ends_with_answer = true;
    }

    fn answer(
        &mut self,
        message: Message,
        cut: Option<PartialAnswerReason>,
        reported: Option<&ReportedUsage>,
        places: Vec<SegmentPosition>,
    ) {
        let step_id: longhaul_core::ids::StepId = format!("s{}", self.history.last_seq()).into();
        // Without a report the figures are zero, and the meter estimates.
        let start = reported.map(|reported| reported.start.clone()).unwrap_or_default();
        let estimated = reported.map_or(0, |reported| reported.estimated);
        self.add(EventBody::StepStarted(Box::new(self.step(&step_id, start, estimated))));
        let finish = if message.tool_calls().next().is_some() {
            ModelStopReason::ToolCalls
        } else {
            ModelStopReason::Stop
        };
        self.place(EventBody::AssistantAdded { step_id: step_id.clone(), message, finish, cut }, places);
        self.add(EventBody::StepFinished {
            step_id,
            usage: reported.map(|reported| reported.usage.clone()),
            estimated_input: estimated,
            envelope: None,
        });
    }

    /// Returns the log with the beginning of a stopped answer appended.
    pub(super) fn paused(&self, text: &str) -> Self {
        // The log itself stays as it is: the client sends the answer back whole, and then it is read anew.
        let mut paused = self.clone();
        let message = paused.message(Role::Assistant, vec![Part::text(text)]);
        paused.answer(message, Some(PartialAnswerReason::Paused), None, Vec::new());
        paused
    }

    /// Returns whether the items end with an answer for the model to continue.
    pub(super) fn ends_with_answer(&self) -> bool {
        self.ends_with_answer
    }

    /// Records the usage that the upstream reported for the items so far.
    pub(super) fn report(&mut self, reported: ReportedUsage) {
        self.notes.push(JournalNote::Report(self.items, JournalUsage::of(&reported)));
        journal::thinned(&mut self.notes);
        self.reported = Some(reported);
    }

    /// Uses a report whose answer does not come next as a count of the view that was sent. With `is_same` no items are
    /// new, so the answer may still come, and the report is kept.
    fn count_reported(&mut self, is_same: bool) {
        let reported = if is_same { self.reported.clone() } else { self.reported.take() };
        if let Some(ReportedUsage { usage, start, .. }) = reported {
            self.count(usage.input_tokens, &start);
        }
    }

    /// Records the upstream's count of the sent view, if the view is still the same.
    pub(super) fn count(&mut self, tokens: u64, start: &RequestSnapshot) {
        // A count that the window cannot hold is a wrong report, and such a server's other reports are wrong, too.
        let is_beyond = start.window.is_some_and(|window| tokens > window);
        if is_beyond || self.history.usage_is_unreliable() {
            return;
        }
        let now = meter::read(&self.history, start.fixed_tokens);
        // A second count of the same view would only fill the journal.
        let is_known = now.estimated == 0 && now.total == tokens;
        // A count of another view would mislead the meter.
        if is_known || start.view_hash != self.history.view_hash() {
            return;
        }
        self.notes.push(JournalNote::Count(self.items, JournalCount { tokens, fixed: start.fixed_tokens }));
        journal::thinned(&mut self.notes);
        let seq = self.add(EventBody::InputCounted { tokens, fixed_tokens: start.fixed_tokens });
        self.non_item_positions.push(seq);
    }

    /// Commits an edit whose positions refer to this log.
    pub(super) fn commit(&mut self, edit: ViewEdit, stopgap: Option<FallbackSummary>) {
        self.notes.push(JournalNote::Edit(self.items));
        // An edit from another log may carry an id that exists here.
        let id = format!("e{}", self.history.last_seq() + 1).into();
        let seq = self.add(EventBody::ViewEdited(Box::new(ViewEdit { id, ..edit })));
        self.non_item_positions.push(seq);
        self.fallback_summaries.extend(stopgap.map(|stopgap| (seq, stopgap)));
    }

    /// Returns whether an extract is still to be replaced by a summary.
    pub(super) fn is_pending(&self) -> bool {
        self.fallback_summaries.values().any(FallbackSummary::is_pending)
    }

    /// Returns whether such a summary is to be tried now.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.fallback_summaries.values().any(|stopgap| stopgap.is_due(now))
    }

    /// Returns the summary histories of all waiting extracts.
    pub(super) fn pending(&mut self) -> impl Iterator<Item = &mut FallbackSummary> {
        self.fallback_summaries.values_mut().filter(|stopgap| stopgap.is_pending())
    }

    /// Returns the log without the extracts that wait for summaries, and without all later edits; `None` if there are
    /// no such extracts.
    pub(super) fn without_stopgaps(&self) -> Option<Self> {
        let (first, _) = self.fallback_summaries.iter().find(|(_, stopgap)| stopgap.is_pending())?;
        let edits = self.history.edits().iter();
        let undone = edits.clone().filter(|state| state.active && state.seq >= *first);
        let ids: Vec<EditId> = undone.map(|state| state.edit.id.clone()).collect();
        let mut log = self.clone();
        log.fallback_summaries.retain(|seq, _| seq < first);
        // Reports about the discarded view must not be stored; only the remaining edits stay.
        let active = edits.filter(|state| state.active && state.seq < *first);
        log.notes = active.map(|_| JournalNote::Edit(log.items)).collect();
        // Later edits build on earlier ones and are undone first. The release lets the planner edit the ranges again.
        for edit_id in ids.into_iter().rev() {
            let restored = log.add(EventBody::ViewRestored { edit_id: edit_id.clone() });
            let released = log.add(EventBody::RangeReleased { edit_id });
            log.non_item_positions.extend([restored, released]);
        }
        Some(log)
    }

    /// Records the upstream's refusal of the request for its length, with the figures of the refusal.
    pub(super) fn refused(&mut self, start: &RequestSnapshot, used: Option<u64>, limit: Option<u64>) {
        self.notes.push(JournalNote::Refusal(self.items, JournalRefusal::of(start, used, limit)));
        let step_id: longhaul_core::ids::StepId = format!("s{}", self.history.last_seq()).into();
        let begun = self.add(EventBody::StepStarted(Box::new(self.step(&step_id, start.clone(), 0))));
        let failed = self.add(EventBody::StepFailed {
            step_id,
            code: longhaul_core::error::ErrorCode::ContextOverflow,
            message: String::new(),
            used_tokens: used,
            limit_tokens: limit,
            usage: None,
            is_permanent: false,
        });
        self.non_item_positions.extend([begun, failed]);
    }

    fn step(
        &self,
        step_id: &longhaul_core::ids::StepId,
        start: RequestSnapshot,
        estimated_input: u64,
    ) -> StepStart {
        StepStart {
            step_id: step_id.clone(),
            run_id: "r".into(),
            purpose: StepKind::Main,
            model: self.origin.clone(),
            system_hash: String::new(),
            tools_hash: String::new(),
            view_hash: start.view_hash,
            fixed_tokens: start.fixed_tokens,
            estimated_input,
            max_output_tokens: 0,
            window_tokens: start.window,
        }
    }

    /// Returns the edits with positions as in a log without edits, the histories of their summaries, and the last item
    /// that an edit touches.
    pub(super) fn portable(&self) -> Option<(Vec<DecidedEdit>, usize)> {
        let edits = self.active_edits().map(|state| self.portable_edit(state)).collect();
        let ops = self.active_edits().flat_map(|state| &state.edit.ops);
        let last = ops.map(|op| op.range().to).max()?;
        Some((edits, self.item_at(last)?))
    }

    /// Returns an edit with positions as in a log without edits, and the history of its summary.
    fn portable_edit(&self, state: &ViewEditState) -> DecidedEdit {
        let edit = self.with_quoted(moved(&state.edit, |seq| self.without_edits(seq)));
        (edit, self.fallback_summaries.get(&state.seq).copied())
    }

    /// Returns the edits that shape the view.
    fn active_edits(&self) -> impl Iterator<Item = &ViewEditState> {
        self.history.edits().iter().filter(|state| state.active)
    }

    /// Returns the last item with a segment at or before a position.
    pub(super) fn item_at(&self, seq: Seq) -> Option<usize> {
        let touched = self.placed.iter().take_while(|placed| placed.seq <= seq).last()?;
        touched.pieces.last().map(|piece| piece.0)
    }

    /// Returns a placeholder's text with handles that are valid in every log of the conversation.
    pub(super) fn quoted(&self, text: String) -> String {
        match self.history.has_recall() {
            true => recall::moved(&text, |seq| self.without_edits(seq)),
            false => text,
        }
    }

    fn with_quoted(&self, edit: ViewEdit) -> ViewEdit {
        with_texts(edit, |text| self.quoted(text))
    }

    /// Returns an edit for a log without edits, mapped to the positions of this log.
    pub(super) fn placed(&self, edit: ViewEdit) -> ViewEdit {
        let edit = moved(&edit, |seq| self.with_edits(seq));
        match self.history.has_recall() {
            true => with_texts(edit, |text| recall::moved(&text, |seq| self.with_edits(seq))),
            false => edit,
        }
    }

    /// Returns whether the model is shown the messages that it must answer: the newest message with all its results,
    /// and the user's last message. An edit made for a longer conversation may leave them out.
    pub(super) fn shows_newest(&self) -> bool {
        let entries = self.history.entries();
        let newest = entries
            .iter()
            // A result belongs to the step before it, so it is not the newest message by itself.
            .rfind(|entry| matches!(entry.kind, LogEntryKind::Typed | LogEntryKind::Assistant(_)))
            .or(entries.last());
        let typed = entries.iter().rev().find(|entry| entry.kind == LogEntryKind::Typed);
        self.active_edits().flat_map(|state| &state.edit.ops).map(ViewOperation::range).all(|range| {
            let is_before = newest.is_none_or(|newest| range.to < newest.seq);
            is_before && typed.is_none_or(|typed| !(range.from..=range.to).contains(&typed.seq))
        })
    }

    /// Returns whether anything is left out of the view.
    pub(super) fn is_shortened(&self) -> bool {
        self.active_edits().next().is_some()
    }

    fn with_edits(&self, seq: Seq) -> Seq {
        self.non_item_positions.iter().fold(seq, |seq, beside| seq + Seq::from(*beside <= seq))
    }

    fn without_edits(&self, seq: Seq) -> Seq {
        seq - self.non_item_positions.iter().filter(|beside| **beside < seq).count() as Seq
    }
}

/// Returns the part of a call's id that all calls of one step share. [`ConversationLog::settle`] has put the step's
/// position into the id.
fn step_of_call(call_id: &CallId) -> Option<&str> {
    call_id.as_str().rsplit_once('.').map(|(step, _)| step)
}

/// Returns an edit with its texts mapped by `to`.
fn with_texts(mut edit: ViewEdit, to: impl Fn(String) -> String) -> ViewEdit {
    for op in &mut edit.ops {
        let ViewOperation::Replace { parts, .. } = op else { continue };
        for part in parts {
            if let Some(text) = part.as_text().map(str::to_owned) {
                *part = Part::text(to(text));
            }
        }
    }
    edit
}

/// Returns an edit with its positions mapped by `to`.
fn moved(edit: &ViewEdit, to: impl Fn(Seq) -> Seq) -> ViewEdit {
    ViewEdit { ops: edit.ops.iter().map(|op| moved_operation(op, &to)).collect(), ..edit.clone() }
}

fn moved_operation(op: &ViewOperation, to: &impl Fn(Seq) -> Seq) -> ViewOperation {
    match op {
        ViewOperation::Drop { range } => ViewOperation::Drop { range: moved_range(range, to) },
        ViewOperation::Replace { range, parts, summary } => {
            ViewOperation::Replace { range: moved_range(range, to), parts: parts.clone(), summary: *summary }
        }
        ViewOperation::Placeholder { seq, excerpt, cut } => {
            ViewOperation::Placeholder { seq: to(*seq), excerpt: excerpt.clone(), cut: *cut }
        }
    }
}

fn moved_range(range: &LogRange, to: &impl Fn(Seq) -> Seq) -> LogRange {
    LogRange { from: to(range.from), to: to(range.to) }
}

#[cfg(test)]
mod tests;
