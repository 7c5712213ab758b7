//! The meaning of a log: a [`History`] is folded from events and never edited otherwise.
//!
//! A history holds the *view*, the messages that the model is shown. Beside the view stand the facts that the loop
//! must remember across a crash: the open run and step, the calls without an outcome, the meter's anchor. Folding one
//! more event costs the work for that event alone. Edits of the view are the exception: each edit rebuilds the view.

use std::sync::Arc;

use crate::error::ErrorCode;
use crate::estimate::MessageTokenCounter;
use crate::event::{
    EditKind, Event, EventBody, NoteReason, OmittedPart, PartialAnswerReason, StepStart, ViewEdit,
    ViewOperation,
};
use crate::ids::{CallId, EditId, Seq};
use crate::message::{Message, ModelOrigin, Part, ToolResult, ToolStatus};
use crate::meter;
use crate::orders::StandingOrders;
use crate::pinned_facts::PinnedFactsCache;
use crate::plan::is_imported_summary;
use crate::retention::user_text::UserTextCache;
use crate::stop_flag::StopFlag;
use crate::usage::Usage;

mod limits;
mod log;
mod meter_state;
mod model_state;
mod omissions;
mod pairing;
mod reading;
mod run_state;
mod summaries;
mod view;

pub use omissions::OmissionState;
pub use pairing::request_messages;
pub use run_state::{OpenRun, OpenToolCall, RecentToolCall};
pub(crate) use summaries::SUMMARY_FAILURES;
pub use summaries::SummaryWriterRecord;
#[cfg(test)]
pub(crate) use view::cleared_groups;
pub use view::{LogEntry, LogEntryKind, ViewItem, ViewItemKind, ViewUnit, ViewUnitKind, join, units};
pub(crate) use view::{
    ResultPlaceholder, cleared_groups_beside, cut_groups, hash as hash_of, is_object, merged, span,
};

use limits::LimitState;
use log::SessionLog;
use meter_state::{AnsweredStep, MeterState, ServerCount};
use model_state::ModelState;
use omissions::Omissions;
use run_state::RunState;
use summaries::CompactionRecord;
use view::SessionView;

/// Text that the model sees in place of a cleared tool result, with the handle behind.
#[doc(hidden)]
pub const CLEARED: &str = "[Old tool result content cleared]";

/// Number of the newest tool calls that loop detection compares.
pub(crate) const LOOP_WINDOW: usize = 10;

/// The number of tokens from which on a reported usage is nonsense, because no call is so long.
const NO_CALLS_TOKENS: u64 = 1 << 32;

/// The state of a session that follows from its log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    log: SessionLog,
    view: SessionView,
    omissions: Omissions,
    compaction: CompactionRecord,
    run_state: RunState,
    model_state: ModelState,
    meter: MeterState,
    limits: LimitState,
    /// `true` if the model has no tool `recall`.
    without_recall: bool,
    /// `true` once a tool result was truncated before the model was shown the result.
    has_truncated: bool,
    cumulative: Usage,
    title: Option<String>,
    orders: StandingOrders,
    /// The positions of a client's system messages in the middle of the conversation, in ascending order.
    system_messages: Vec<Seq>,
    /// The positions of summaries of messages that the log does not have, in ascending order.
    imported_summaries: Vec<Seq>,
    ledgers: PinnedFactsCache,
    user_texts: UserTextCache,
    stop_flag: StopFlag,
}

/// An edit of the view, with the edit's present effect.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ViewEditState {
    /// The edit as the log stores it.
    pub edit: Arc<ViewEdit>,
    /// The position of the edit's event in the log.
    pub seq: Seq,
    /// `true` until the edit is undone.
    pub active: bool,
    /// `true` if automatic compaction may cover the edit's ranges again after an undo.
    pub released: bool,
}

/// The reason why a log cannot be folded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryFoldError {
    /// The event's position does not follow the newest position.
    #[error("event {found} follows event {last}")]
    Gap {
        /// The newest position so far.
        last: Seq,
        /// The position of the refused event.
        found: Seq,
    },
    /// The event was written by a newer build.
    #[error("event {seq} has format {format}; this build reads up to {}", crate::event::FORMAT)]
    Newer {
        /// The event's position.
        seq: Seq,
        /// The event's format.
        format: u16,
    },
}

/// The reason why an undo is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// No active edit or omission has the name.
    #[error("no active edit {0}")]
    NotFound(EditId),
    /// A later edit covers the same range and must be undone first.
    #[error("edit {by} was built on {edit}: undo {by} first")]
    BuiltOn {
        /// The edit to undo.
        edit: EditId,
        /// The later edit.
        by: EditId,
    },
}

/// Returns whether a failure belongs to the connection or the server, so that the call is repeated.
fn is_transport_failure(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::Network | ErrorCode::TruncatedStream | ErrorCode::Timeout | ErrorCode::ThirdParty
    )
}

impl History {
    /// Returns an empty history that counts messages with `counter`.
    pub fn new(counter: MessageTokenCounter) -> Self {
        Self { meter: MeterState::new(counter), ..Self::default() }
    }

    /// Returns the history for a model that has no tool `recall`: placeholders and summaries name no handles then.
    /// Call this function before the first event is folded.
    #[must_use]
    pub fn without_recall(self) -> Self {
        Self {
            without_recall: true,
            // Cached texts name handles, so nothing that was cached before may stay.
            ledgers: PinnedFactsCache::default(),
            user_texts: UserTextCache::default(),
            ..self
        }
    }

    /// Folds a whole log, with tokens counted by the structured estimate.
    ///
    /// # Errors
    /// [`HistoryFoldError`] at the first event that does not follow the event before, or has a newer format.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<Self, HistoryFoldError> {
        Self::fold_with(MessageTokenCounter::default(), events)
    }

    /// Folds a whole log, with tokens counted by `counter`.
    ///
    /// # Errors
    /// [`HistoryFoldError`] at the first event that does not follow the event before, or has a newer format.
    pub fn fold_with<'a>(
        counter: MessageTokenCounter,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<Self, HistoryFoldError> {
        let mut history = Self::new(counter);
        for event in events {
            history.apply(event)?;
        }
        Ok(history)
    }

    /// Folds one more event.
    ///
    /// # Errors
    /// [`HistoryFoldError`] if the event does not follow the newest event, or has a newer format. The history is
    /// unchanged then.
    pub fn apply(&mut self, event: &Event) -> Result<(), HistoryFoldError> {
        self.advance(event)?;
        self.fold_body(event);
        Ok(())
    }

    /// Folds one more event, as [`apply`](Self::apply) does, and keeps the event's message without a copy.
    ///
    /// # Errors
    /// The errors of [`apply`](Self::apply).
    pub fn apply_owned(&mut self, event: Event) -> Result<(), HistoryFoldError> {
        self.advance(&event)?;
        let seq = event.seq;
        // These variants hold nearly all bytes of a log.
        match event.body {
            EventBody::MessagesTaken { message, .. } => self.add_typed(seq, message),
            EventBody::NoteAdded { message, why } => self.add_note(seq, message, why),
            EventBody::AssistantAdded { message, cut, .. } => self.add_assistant(seq, message, cut),
            EventBody::ToolFinished { result } => self.add_result(seq, result),
            body => self.fold_body(&Event { body, ..event }),
        }
        Ok(())
    }

    /// Takes the position and the time of the next event.
    fn advance(&mut self, event: &Event) -> Result<(), HistoryFoldError> {
        if event.seq != self.log.last_seq + 1 {
            return Err(HistoryFoldError::Gap { last: self.log.last_seq, found: event.seq });
        }
        if event.format > crate::event::FORMAT {
            return Err(HistoryFoldError::Newer { seq: event.seq, format: event.format });
        }
        self.log.last_seq = event.seq;
        // A clock can be set back between two events. The log's time never goes back.
        self.log.now = self.log.now.max(event.at);
        Ok(())
    }

    fn fold_body(&mut self, event: &Event) {
        match &event.body {
            EventBody::SessionStarted { title, .. } => self.title.clone_from(title),
            EventBody::TitleSet { title } => self.title = Some(title.clone()),
            EventBody::MessagesTaken { message, .. } => self.add_typed(event.seq, message.clone()),
            EventBody::NoteAdded { message, why } => self.add_note(event.seq, message.clone(), *why),
            EventBody::RunStarted { run_id } => {
                self.run_state.begin_run(run_id, event.at);
            }
            EventBody::InputCounted { tokens, fixed_tokens } => self.count(*tokens, *fixed_tokens),
            EventBody::StepStarted(start) => {
                self.model_state.request_pauses.add_request(event.at);
                self.begin_step(start);
            }
            EventBody::AssistantAdded { message, cut, .. } => {
                self.add_assistant(event.seq, message.clone(), *cut);
            }
            EventBody::StepFinished { usage, estimated_input, .. } => {
                self.compaction.calls_since_edit += 1;
                self.model_state.last_call_at = Some(event.at);
                self.finish_step(usage.as_ref(), *estimated_input);
            }
            EventBody::StepFailed { step_id, used_tokens, limit_tokens, usage, code, .. } => {
                self.log.mark_broken_answer(step_id);
                if is_transport_failure(*code) {
                    self.run_state.take_back_step();
                }
                // Some servers refuse a request that ends with an assistant message. The same request would be
                // refused again.
                self.model_state.refused_to_go_on |= *code == ErrorCode::InvalidRequest && self.is_paused();
                self.add_usage(usage.as_ref());
                self.fail_step(*used_tokens, *limit_tokens);
            }
            EventBody::ToolStarted { call_id } => {
                if let Some(call) = self.run_state.open_call_mut(call_id) {
                    call.started = true;
                }
            }
            EventBody::ToolFinished { result } => self.add_result(event.seq, result.clone()),
            EventBody::ApprovalRequested { approval_id, call_id } => {
                self.run_state.begin_waiting(call_id, approval_id, event.at);
            }
            EventBody::ApprovalResolved { call_id, allowed, reason, .. } => {
                if let Some(call) = self.run_state.open_call_mut(call_id) {
                    call.approval = None;
                    call.allowed = Some((*allowed, reason.clone()));
                }
                self.run_state.end_waiting(event.at);
            }
            EventBody::ViewEdited(edit) => self.add_edit(event.seq, edit),
            EventBody::ViewRestored { edit_id } => self.restore(event.seq, edit_id),
            EventBody::PartsOmitted { edit_id, parts, reason } => {
                self.omissions.add(event.seq, edit_id, parts, reason);
                self.show_again(event.seq, parts);
            }
            EventBody::RangeReleased { edit_id } => {
                for state in self.view.edits.iter_mut().filter(|state| state.edit.id == *edit_id) {
                    state.released = true;
                }
            }
            EventBody::CompactionFailed { usage, code, .. } => {
                self.compaction.settled_tokens = Some(self.view.tokens());
                // A hook that forbids a compaction says nothing about the model that would have written the summary.
                if *code != ErrorCode::Refused || usage.is_some() {
                    self.compaction.summaries.failed(event.seq);
                }
                if let Some(usage) = usage {
                    self.cumulative.add(usage);
                }
            }
            EventBody::ModelSwitched { to, choice } => {
                // Another agent can have other tools under the same model.
                if let Some(choice) = choice {
                    self.model_state.tools_hash = None;
                    self.model_state.choice.clone_from(choice);
                }
                self.switch(to);
            }
            EventBody::RunFinished { reason, error, .. } => {
                self.run_state.open = None;
                self.run_state.last_end = Some(*reason);
                self.run_state.last_error.clone_from(error);
            }
            EventBody::Recovered { attempts, .. } => self.run_state.recoveries = *attempts,
            EventBody::Parked { reason } => self.run_state.parked = Some(reason.clone()),
            EventBody::OrderPinned { order_id, text, source, from, replaces } => {
                self.orders.pin(event.seq, (order_id, text), (*source, *from), replaces.as_ref());
            }
            EventBody::OrderEdited { order_id, text } => self.orders.edit(order_id, text),
            EventBody::OrderRemoved { order_id } => self.orders.remove(order_id),
        }
    }

    /// Folds the server's own count of the next request.
    fn count(&mut self, counted: u64, fixed_tokens: u64) {
        let Some(tokens) = self.meter.corrected_count(counted, fixed_tokens, &self.view) else { return };
        // Read before the fold, which moves the anchor that the meter counts from.
        let expected = meter::read(self, fixed_tokens).total;
        let count = ServerCount { counted, tokens, expected, fixed_tokens };
        self.meter.fold_count(&count, self.log.last_seq, &self.view);
    }

    fn finish_step(&mut self, usage: Option<&Usage>, estimated: u64) {
        let start = self.run_state.end_call();
        self.run_state.recoveries = 0;
        self.add_usage(usage);
        if let Some(start) = &start {
            self.limits.note_accepted(start.estimated_input);
        }
        let (Some(usage), Some(start)) = (usage, start) else { return };
        // A call that was answered was not longer than the window.
        if self.meter.fold_report(usage, estimated, &start, &self.log, &self.view) {
            self.limits.note_call(usage);
        }
    }

    fn add_usage(&mut self, usage: Option<&Usage>) {
        let Some(usage) = usage.filter(|usage| usage.total_tokens() < NO_CALLS_TOKENS) else { return };
        self.cumulative.add(usage);
        if let Some(run) = &mut self.run_state.open {
            run.usage.add(usage);
        }
    }

    /// Folds a failed step.
    fn fail_step(&mut self, used: Option<u64>, limit: Option<u64>) {
        let Some(start) = self.run_state.end_call() else { return };
        self.limits.note_refusal(limit, start.window_tokens);
        self.meter.fold_refusal(used, start, self.log.last_seq, &self.view);
    }

    fn push_message(&mut self, seq: Seq, mut message: Message, kind: LogEntryKind) {
        // A decoded list has room for four parts, and most messages have one.
        message.parts.shrink_to_fit();
        let paused = match kind {
            LogEntryKind::Assistant(_) => self.paused_piece(),
            _ => None,
        };
        let entry = LogEntry::new(seq, message, kind, paused, &self.meter.counter, self.has_recall());
        if let Some(item) = ViewItem::of(&entry) {
            // The log has pieces, the view has one message: the newest piece shows the whole answer.
            let before = if entry.goes_on() { self.view.items.pop() } else { None };
            let before = before.map(|before| before.groups).unwrap_or_default();
            self.view.groups = self.view.groups.without(&before) + item.groups;
            self.view.changed_at = seq;
            if item.kind == ViewItemKind::Assistant {
                self.meter.answered = Some(AnsweredStep { seq, groups: item.groups.without(&before) });
            }
            self.view.items.push(item);
        }
        self.log.entries.push(entry);
    }

    fn add_typed(&mut self, seq: Seq, message: Message) {
        self.run_state.parked = None;
        if is_imported_summary(&message, None) {
            self.imported_summaries.push(seq);
        }
        self.push_message(seq, message, LogEntryKind::Typed);
    }

    fn add_note(&mut self, seq: Seq, message: Message, why: NoteReason) {
        self.run_state.note_said(why);
        if why == NoteReason::Orders {
            self.orders.note_told();
        }
        if why == NoteReason::SystemMessage {
            self.system_messages.push(seq);
        }
        if is_imported_summary(&message, Some(why)) {
            self.imported_summaries.push(seq);
        }
        self.push_message(seq, message, LogEntryKind::Note);
    }

    fn add_assistant(&mut self, seq: Seq, message: Message, cut: Option<PartialAnswerReason>) {
        if cut != Some(PartialAnswerReason::Lost) {
            self.run_state.add_calls(&message);
        }
        self.push_message(seq, message, LogEntryKind::Assistant(cut));
    }

    /// Adds a result to the view, at the call's place among the calls of the step.
    fn add_result(&mut self, seq: Seq, mut result: ToolResult) {
        // A call has one result. A repeated result, or a result without a call, would make every later request
        // invalid.
        let Some(call) = self.run_state.close_call(&result) else { return };
        let call_id = result.call_id.clone();
        self.has_truncated |= result.truncated.is_some();
        result.content.shrink_to_fit();
        let message = view::result_message(seq, result);
        let kind = LogEntryKind::Result { tool: call.name };
        let entry = LogEntry::new(seq, message, kind, None, &self.meter.counter, self.has_recall());
        if let Some(item) = ViewItem::of(&entry) {
            self.view.groups += item.groups;
            self.view.changed_at = seq;
            let at = view::result_position(&self.view.items, &call_id);
            self.view.items.insert(at, item);
        }
        self.log.entries.push(entry);
    }

    fn begin_step(&mut self, start: &StepStart) {
        self.model_state.begin_step(start);
        self.limits.window = start.window_tokens.or(self.limits.window);
        self.meter.begin_step(start, self.view.changed_at);
        self.run_state.begin_step(start);
    }

    fn switch(&mut self, to: &ModelOrigin) {
        self.model_state.switch(to);
        // Tokenizer, server, window and prompt cache are another model's from here on.
        self.meter.forget_model();
        self.limits = LimitState::default();
        self.compaction.forget_model();
    }

    fn add_edit(&mut self, seq: Seq, edit: &ViewEdit) {
        let has_cut = edit.ops.iter().any(|op| matches!(op, ViewOperation::Placeholder { cut: true, .. }));
        if edit.kind == EditKind::Compaction {
            self.compaction.note_compaction(seq, edit);
        }
        if let Some(usage) = &edit.usage {
            self.cumulative.add(usage);
        }
        let edit = Arc::new(edit.clone());
        let kind = edit.kind;
        self.view.edits.push(ViewEditState { edit, seq, active: true, released: false });
        self.rebuild(seq);
        self.compaction.note_edited(self.view.tokens());
        // A plan cuts messages only where nothing else helps: a cut leaves as little to be done as a compaction.
        if kind == EditKind::Compaction || has_cut {
            self.compaction.settled_tokens = Some(self.view.tokens());
        }
    }

    fn restore(&mut self, seq: Seq, id: &EditId) {
        if let Some(parts) = self.omissions.undo(id) {
            return self.show_again(seq, &parts);
        }
        for state in self.view.edits.iter_mut().filter(|state| state.edit.id == *id) {
            state.active = false;
        }
        self.rebuild(seq);
        self.compaction.note_edited(self.view.tokens());
        self.compaction.settled_tokens = None;
    }

    /// Builds the messages of `parts` again under the active omissions, and then the view.
    fn show_again(&mut self, seq: Seq, parts: &[OmittedPart]) {
        for part in parts {
            let OmittedPart::Part { seq: at, .. } = part else { continue };
            self.log.show_entry_again(*at, &self.omissions, &self.meter.counter);
        }
        self.rebuild(seq);
        self.compaction.note_edited(self.view.tokens());
        // The view has another size now: a compaction that failed before may succeed.
        self.compaction.settled_tokens = None;
    }

    fn rebuild(&mut self, seq: Seq) {
        let has_recall = self.has_recall();
        self.view.items = view::rebuild(
            &self.log.entries,
            &self.view.edits,
            &self.view.items,
            seq,
            &self.meter.counter,
            has_recall,
        );
        self.view.changed_at = seq;
        let anchored = self.meter.anchor.as_ref().map_or(0, |anchor| anchor.seq);
        if let Some(sent) = self.meter.sent.as_ref().filter(|sent| sent.is_shown_by(&self.view.items)) {
            let answer = |item: &ViewItem| item.kind == ViewItemKind::Assistant && item.range.to <= anchored;
            // The provider has counted exactly these messages: after an undo the count stands again, without an
            // estimate.
            for item in self.view.items.iter_mut().filter(|item| item.range.to < sent.before || answer(item))
            {
                item.since = item.since.min(anchored);
            }
        }
        self.view.groups = self.view.items.iter().map(|item| item.groups).sum();
        self.meter.kept_groups =
            self.view.items.iter().filter(|item| item.since <= anchored).map(|item| item.groups).sum();
    }
}

/// Returns the result that the model is told for a call that never ran, or whose outcome is unknown.
#[doc(hidden)]
pub fn closing_result(call_id: &CallId, status: ToolStatus, text: &str) -> ToolResult {
    ToolResult { call_id: call_id.clone(), status, content: vec![Part::text(text)], truncated: None }
}

#[cfg(test)]
mod tests;
