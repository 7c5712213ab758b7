//! What a log means: [`History`] is folded from events and never edited otherwise.
//!
//! It holds the *view* (what the model is shown) and the few facts that the loop must remember across a
//! crash: the open run and step, the calls without an outcome, the meter's anchor. Folding one more event
//! costs what that event adds, except for edits of the view, which rebuild it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::ErrorCode;
use crate::estimate::{MessageTokenCounter, TokensByScript};
use crate::event::{
    EditKind, Event, EventBody, ModelChoice, NoteReason, PartialAnswerReason, RunEnd, StepKind, StepStart,
    ViewEdit, ViewOperation,
};
use crate::ids::{ApprovalId, CallId, EditId, LogRange, Millis, RunId, Seq, StepId};
use crate::message::{Message, ModelOrigin, Part, ToolCall, ToolResult, ToolStatus};
use crate::meter::{CountAttribution, TokenCalibration, UsageAnchor};
use crate::orders::StandingOrders;
use crate::pinned_facts::PinnedFactsCache;
use crate::retention::user_text::UserTextCache;
use crate::stop_flag::StopFlag;
use crate::usage::Usage;

mod omissions;
mod pairing;
mod reading;
mod reports;
mod summaries;
mod view;

pub use omissions::OmissionState;
pub use pairing::request_messages;
use reports::{CountOffset, CountedView, EstimateDeviation};
use summaries::LoggedWriterRecord;
pub(crate) use summaries::SUMMARY_FAILURES;
pub use summaries::SummaryWriterRecord;
#[cfg(test)]
pub(crate) use view::cleared_groups;
pub use view::{LogEntry, LogEntryKind, ViewItem, ViewItemKind, ViewUnit, ViewUnitKind, join, units};
pub(crate) use view::{ResultPlaceholder, cleared_groups_beside, hash as hash_of, is_object, merged, span};

/// Text shown to the model where a tool result was cleared; the handle follows it.
pub const CLEARED: &str = "[Old tool result content cleared]";

/// How many of the newest tool calls loop detection looks at.
pub const LOOP_WINDOW: usize = 10;

/// Everything that follows from a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    counter: MessageTokenCounter,
    /// The model has no tool `recall`.
    without_recall: bool,
    /// Whether a message was ever cut before it was shown.
    has_truncated: bool,
    calibration: TokenCalibration,
    last_seq: Seq,
    entries: Vec<LogEntry>,
    view: Vec<ViewItem>,
    view_groups: TokensByScript,
    view_changed_at: Seq,
    edits: Vec<ViewEditState>,
    omissions: Vec<OmissionState>,
    run: Option<OpenRun>,
    calls: Vec<OpenToolCall>,
    recent_calls: VecDeque<RecentToolCall>,
    anchor: Option<UsageAnchor>,
    /// The view that the anchor's call was sent.
    sent: Option<SentView>,
    /// What the newest step has said.
    answered: Option<AnsweredStep>,
    kept_groups: TokensByScript,
    /// What the view held that the anchor's call has counted, and how the count is shared out among it.
    anchor_groups: TokensByScript,
    apportionment: Option<CountAttribution>,
    overhead_tokens: Option<u64>,
    errors_per_mille: VecDeque<i64>,
    last_error_per_mille: Option<i64>,
    /// What the newest report missed the estimate by.
    last_miss: Option<EstimateDeviation>,
    /// What the server has counted and not yet been sent, and what it was sent.
    counted: Option<CountedView>,
    counted_call: Option<CountedView>,
    count_offset: CountOffset,
    /// Reports in a row that could not be true.
    false_reports: u32,
    usage_is_unreliable: bool,
    reports_grow: bool,
    largest_call: u64,
    window: Option<u64>,
    learned_window: Option<LearnedWindow>,
    cumulative: Usage,
    compactions: u64,
    settled_tokens: Option<u64>,
    /// Tokens of the view right after it was last edited.
    edited_tokens: Option<u64>,
    calls_since_edit: u32,
    summaries: LoggedWriterRecord,
    /// The model's server would not go on with an answer that was paused.
    refused_to_go_on: bool,
    /// The newest piece of an answer that broke off and is in view.
    broken_piece: Option<Seq>,
    last_call_at: Option<Millis>,
    now: Millis,
    model: Option<ModelOrigin>,
    choice: ModelChoice,
    /// The hash of the tools of the newest step; `None` before the first of an agent or model that was chosen.
    tools_hash: Option<String>,
    /// Whether no step was begun since the model was switched.
    switched: bool,
    recoveries: u32,
    parked: Option<String>,
    title: Option<String>,
    orders: StandingOrders,
    last_end: Option<RunEnd>,
    ledgers: PinnedFactsCache,
    user_texts: UserTextCache,
    stop_flag: StopFlag,
}

/// A run that was begun and not finished.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRun {
    /// Its name.
    pub id: RunId,
    /// When it began.
    pub started_at: Millis,
    /// Steps begun so far.
    pub steps: u32,
    /// The step whose model call has no outcome yet.
    pub calling: Option<StepStart>,
    /// Whether the model was told that it repeats itself.
    pub warned_of_loop: bool,
    /// Whether the model was told that the run's time is over: one step without tools is left.
    pub time_is_up: bool,
    /// Whether that step was begun.
    pub recovering: bool,
    /// What all its steps used.
    pub usage: Usage,
    /// Since when a person is asked, if one is.
    pub waiting_since: Option<Millis>,
    /// How long people were waited for, until then.
    pub waited_ms: Millis,
}

/// A tool call without an outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenToolCall {
    /// The call.
    pub call: ToolCall,
    /// Whether its start was stored: then its side effect may have happened.
    pub started: bool,
    /// The unanswered question whether it may run.
    pub approval: Option<ApprovalId>,
    /// The answer: whether it may run, and why not.
    pub allowed: Option<(bool, Option<String>)>,
}

/// The view that a call was sent.
#[derive(Clone, Debug, PartialEq)]
struct SentView {
    /// It ended before this position.
    before: Seq,
    hash: String,
}

/// What a step has said.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AnsweredStep {
    seq: Seq,
    /// What it added to the view: the answer, or a piece of one.
    groups: TokensByScript,
}

impl SentView {
    /// Returns whether the view is again, up to there, what it was then: after an undo the count stands.
    fn is_shown_by(&self, view: &[ViewItem]) -> bool {
        self.hash == view::hash(view.iter().filter(|item| item.range.to < self.before))
    }
}

/// A window that a provider's error named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LearnedWindow {
    limit: u64,
    /// What was declared or discovered at that time.
    known: Option<u64>,
}

/// A tool call with an outcome, as loop detection remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentToolCall {
    /// Equal for equal tool, arguments, status and content.
    pub signature: u64,
    /// The tool.
    pub tool: String,
}

/// An edit of the view and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewEditState {
    /// The edit.
    pub edit: Arc<ViewEdit>,
    /// Position of its event.
    pub seq: Seq,
    /// Whether it applies; `false` once undone.
    pub active: bool,
    /// Whether what it covered may be compacted automatically again after an undo.
    pub released: bool,
}

/// Why a log cannot be folded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryFoldError {
    /// Positions must follow each other.
    #[error("event {found} follows event {last}")]
    Gap {
        /// The newest position so far.
        last: Seq,
        /// The position that came.
        found: Seq,
    },
    /// The event was written by a newer build.
    #[error("event {seq} has format {format}; this build reads up to {}", crate::event::FORMAT)]
    Newer {
        /// Its position.
        seq: Seq,
        /// Its format.
        format: u16,
    },
}

/// Why an undo is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UndoError {
    /// No active edit has this name.
    #[error("no active edit {0}")]
    NotFound(EditId),
    /// A later edit covers the same range and must be undone first.
    #[error("edit {by} was built on {edit}: undo {by} first")]
    BuiltOn {
        /// The edit to undo.
        edit: EditId,
        /// The edit that stands in the way.
        by: EditId,
    },
}

/// Returns whether a failure is one of the connection or the server, after which a call is made again.
fn is_transport_failure(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::Network | ErrorCode::TruncatedStream | ErrorCode::Timeout | ErrorCode::ThirdParty
    )
}

impl History {
    /// An empty history, whose messages will be counted by `counter`.
    pub fn new(counter: MessageTokenCounter) -> Self {
        let calibration = match counter.prior() {
            Some(prior) => TokenCalibration::new(prior.clone()),
            None => TokenCalibration::unknown(counter.kind()),
        };
        Self { counter, calibration, ..Self::default() }
    }

    /// The same for a model that has no tool `recall`: what stands in the place of what went names no handle then. To be
    /// said before the first event is folded.
    #[must_use]
    pub fn without_recall(self) -> Self {
        Self {
            without_recall: true,
            ledgers: PinnedFactsCache::default(),
            user_texts: UserTextCache::default(),
            ..self
        }
    }

    /// Folds a whole log, counted by the structured estimate.
    ///
    /// # Errors
    /// [`HistoryFoldError`] at the first event that does not follow.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<Self, HistoryFoldError> {
        Self::fold_with(MessageTokenCounter::default(), events)
    }

    /// Folds a whole log, counted by `counter`.
    ///
    /// # Errors
    /// [`HistoryFoldError`] at the first event that does not follow.
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
    /// [`HistoryFoldError`] if it does not follow; nothing has changed then.
    pub fn apply(&mut self, event: &Event) -> Result<(), HistoryFoldError> {
        if event.seq != self.last_seq + 1 {
            return Err(HistoryFoldError::Gap { last: self.last_seq, found: event.seq });
        }
        if event.format > crate::event::FORMAT {
            return Err(HistoryFoldError::Newer { seq: event.seq, format: event.format });
        }
        self.last_seq = event.seq;
        self.now = self.now.max(event.at);
        self.fold_body(event);
        Ok(())
    }

    fn fold_body(&mut self, event: &Event) {
        match &event.body {
            EventBody::SessionStarted { title, .. } => self.title.clone_from(title),
            EventBody::TitleSet { title } => self.title = Some(title.clone()),
            EventBody::MessagesTaken { message, .. } => {
                self.parked = None;
                self.push_message(event.seq, message, LogEntryKind::Typed);
            }
            EventBody::NoteAdded { message, why } => {
                self.note_said(*why);
                if *why == NoteReason::Orders {
                    self.orders.note_told();
                }
                self.push_message(event.seq, message, LogEntryKind::Note);
            }
            EventBody::RunStarted { run_id } => {
                self.last_end = None;
                self.parked = None;
                self.recent_calls.clear();
                self.run = Some(OpenRun {
                    id: run_id.clone(),
                    started_at: event.at,
                    steps: 0,
                    calling: None,
                    warned_of_loop: false,
                    time_is_up: false,
                    recovering: false,
                    usage: Usage::default(),
                    waiting_since: None,
                    waited_ms: 0,
                });
            }
            EventBody::InputCounted { tokens, fixed_tokens } => self.count(*tokens, *fixed_tokens),
            EventBody::StepStarted(start) => self.begin_step(start),
            EventBody::AssistantAdded { message, cut, .. } => self.add_assistant(event.seq, message, *cut),
            EventBody::StepFinished { usage, estimated_input, .. } => {
                self.calls_since_edit += 1;
                self.last_call_at = Some(event.at);
                self.finish_step(usage.as_ref(), *estimated_input);
            }
            EventBody::StepFailed { step_id, used_tokens, limit_tokens, usage, code, .. } => {
                self.mark_broken_answer(step_id);
                if let (true, Some(run)) = (is_transport_failure(*code), &mut self.run) {
                    // The call is made again: a bad connection must not use up the steps of a run.
                    run.steps = run.steps.saturating_sub(1);
                }
                self.refused_to_go_on |= *code == ErrorCode::InvalidRequest && self.is_paused();
                self.add_usage(usage.as_ref());
                self.fail_step(*used_tokens, *limit_tokens);
            }
            EventBody::ToolStarted { call_id } => {
                if let Some(call) = self.open_call_mut(call_id) {
                    call.started = true;
                }
            }
            EventBody::ToolFinished { result } => self.add_result(event.seq, result),
            EventBody::ApprovalRequested { approval_id, call_id } => {
                if let Some(run) = &mut self.run {
                    run.waiting_since = run.waiting_since.or(Some(event.at));
                }
                if let Some(call) = self.open_call_mut(call_id) {
                    call.approval = Some(approval_id.clone());
                }
            }
            EventBody::ApprovalResolved { call_id, allowed, reason, .. } => {
                if let Some(call) = self.open_call_mut(call_id) {
                    call.approval = None;
                    call.allowed = Some((*allowed, reason.clone()));
                }
                self.end_waiting(event.at);
            }
            EventBody::ViewEdited(edit) => self.add_edit(event.seq, edit),
            EventBody::ViewRestored { edit_id } => self.restore(event.seq, edit_id),
            EventBody::PartsOmitted { edit_id, parts, reason } => {
                self.add_omission(event.seq, edit_id, parts, reason);
            }
            EventBody::RangeReleased { edit_id } => {
                for state in self.edits.iter_mut().filter(|state| state.edit.id == *edit_id) {
                    state.released = true;
                }
            }
            EventBody::CompactionFailed { usage, code, .. } => {
                self.settled_tokens = Some(self.view_tokens());
                // A hook that forbids a compaction says nothing of who would have written it.
                if *code != ErrorCode::Refused || usage.is_some() {
                    self.summaries.failed(event.seq);
                }
                if let Some(usage) = usage {
                    self.cumulative.add(usage);
                }
            }
            EventBody::ModelSwitched { to, choice } => {
                if let Some(choice) = choice {
                    self.tools_hash = None;
                    self.choice.clone_from(choice);
                }
                self.switch(to);
            }
            EventBody::RunFinished { reason, .. } => {
                self.run = None;
                self.last_end = Some(*reason);
            }
            EventBody::Recovered { attempts, .. } => self.recoveries = *attempts,
            EventBody::Parked { reason } => self.parked = Some(reason.clone()),
            EventBody::OrderPinned { order_id, text, source, from, replaces } => {
                self.orders.pin(event.seq, (order_id, text), (*source, *from), replaces.as_ref());
            }
            EventBody::OrderEdited { order_id, text } => self.orders.edit(order_id, text),
            EventBody::OrderRemoved { order_id } => self.orders.remove(order_id),
        }
    }

    /// Nobody is asked any more: what was waited for people is not the run's time.
    fn end_waiting(&mut self, at: Millis) {
        let asking = self.calls.iter().any(|open| open.approval.is_some());
        if let Some(run) = self.run.as_mut().filter(|_| !asking) {
            let since = run.waiting_since.take();
            run.waited_ms += since.map_or(0, |since| at.saturating_sub(since));
        }
    }

    fn note_said(&mut self, why: NoteReason) {
        let Some(run) = &mut self.run else { return };
        match why {
            NoteReason::Loop => {
                run.warned_of_loop = true;
                self.recent_calls.clear();
            }
            NoteReason::TimeUp => run.time_is_up = true,
            NoteReason::Imported | NoteReason::Recalled | NoteReason::Orders | NoteReason::BrokenOff => {}
        }
    }

    fn push_message(&mut self, seq: Seq, message: &Message, kind: LogEntryKind) {
        let paused = match kind {
            LogEntryKind::Assistant(_) => self.paused(),
            _ => None,
        };
        let entry = LogEntry::new(seq, message.clone(), kind, paused, &self.counter, self.has_recall());
        if let Some(item) = ViewItem::of(&entry) {
            let before = if entry.goes_on() { self.view.pop() } else { None };
            let before = before.map(|before| before.groups).unwrap_or_default();
            self.view_groups = self.view_groups.without(&before) + item.groups;
            self.view_changed_at = seq;
            if item.kind == ViewItemKind::Assistant {
                self.answered = Some(AnsweredStep { seq, groups: item.groups.without(&before) });
            }
            self.view.push(item);
        }
        self.entries.push(entry);
    }

    /// Marks the newest piece as broken off if its step is the one that failed. No room was made for it, so it does not
    /// count as paused.
    fn mark_broken_answer(&mut self, step: &StepId) {
        let broken = LogEntryKind::Assistant(Some(PartialAnswerReason::Paused));
        if let Some(entry) = self.entries.last_mut()
            && entry.kind == broken
            && entry.message.id.as_str().strip_prefix("m-") == Some(step.as_str())
        {
            entry.pauses = entry.pauses.saturating_sub(1);
            self.broken_piece = Some(entry.seq);
        }
    }

    /// The answer that was paused and goes on with the next.
    fn paused(&self) -> Option<&LogEntry> {
        let newest = self
            .entries
            .iter()
            .rfind(|entry| entry.kind != LogEntryKind::Assistant(Some(PartialAnswerReason::Lost)))?;
        let shown = self.view.last().is_some_and(|item| {
            item.kind == ViewItemKind::Assistant
                && item.range == (LogRange { from: newest.begins, to: newest.seq })
        });
        (shown && newest.kind == LogEntryKind::Assistant(Some(PartialAnswerReason::Paused))).then_some(newest)
    }

    fn add_assistant(&mut self, seq: Seq, message: &Message, cut: Option<PartialAnswerReason>) {
        if cut != Some(PartialAnswerReason::Lost) {
            self.calls.extend(message.tool_calls().map(|call| OpenToolCall {
                call: call.clone(),
                started: false,
                approval: None,
                allowed: None,
            }));
        }
        self.push_message(seq, message, LogEntryKind::Assistant(cut));
    }

    /// A result stands in the view where its call stands among the calls of its step.
    fn add_result(&mut self, seq: Seq, result: &ToolResult) {
        let Some(open) = self.calls.iter().position(|open| open.call.call_id == result.call_id) else {
            return;
        };
        let call = self.calls.remove(open).call;
        self.remember_call(&call, result);
        let message = view::result_message(seq, result.clone());
        let kind = LogEntryKind::Result { tool: call.name };
        let entry = LogEntry::new(seq, message, kind, None, &self.counter, self.has_recall());
        self.has_truncated |= result.truncated.is_some();
        if let Some(item) = ViewItem::of(&entry) {
            self.view_groups += item.groups;
            self.view_changed_at = seq;
            let at = view::result_position(&self.view, &result.call_id);
            self.view.insert(at, item);
        }
        self.entries.push(entry);
    }

    fn remember_call(&mut self, call: &ToolCall, result: &ToolResult) {
        if self.recent_calls.len() == LOOP_WINDOW {
            self.recent_calls.pop_front();
        }
        let signature = view::call_signature(call, result);
        self.recent_calls.push_back(RecentToolCall { signature, tool: call.name.clone() });
    }

    fn begin_step(&mut self, start: &StepStart) {
        self.model = Some(start.model.clone());
        self.switched = false;
        self.tools_hash = (!start.tools_hash.is_empty()).then(|| start.tools_hash.clone());
        self.window = start.window_tokens.or(self.window);
        self.answered = None;
        let is_sent = |view: &CountedView| {
            (view.view_changed_at, view.fixed_tokens) == (self.view_changed_at, start.fixed_tokens)
        };
        self.counted_call = self.counted.take().filter(is_sent);
        if let Some(run) = &mut self.run {
            run.steps += 1;
            run.recovering |= start.purpose == StepKind::Recovery;
            run.calling = Some(start.clone());
        }
    }

    fn switch(&mut self, to: &ModelOrigin) {
        self.switched |= self.model.as_ref().is_some_and(|model| model != to);
        self.model = Some(to.clone());
        self.anchor = None;
        self.sent = None;
        self.calibration = TokenCalibration::unknown(self.counter.kind());
        self.anchor_groups = TokensByScript::default();
        self.apportionment = None;
        self.overhead_tokens = None;
        self.errors_per_mille.clear();
        self.last_error_per_mille = None;
        self.last_miss = None;
        (self.counted, self.counted_call, self.count_offset) = (None, None, CountOffset::default());
        (self.false_reports, self.usage_is_unreliable, self.reports_grow) = (0, false, false);
        self.largest_call = 0;
        self.learned_window = None;
        self.window = None;
        self.settled_tokens = None;
        self.summaries = LoggedWriterRecord::default();
        self.refused_to_go_on = false;
        self.last_call_at = None;
        self.kept_groups = TokensByScript::default();
    }

    fn add_edit(&mut self, seq: Seq, edit: &ViewEdit) {
        let has_cut = edit.ops.iter().any(|op| matches!(op, ViewOperation::Placeholder { cut: true, .. }));
        if edit.kind == EditKind::Compaction {
            self.compactions += 1;
            self.summaries.committed(seq, edit);
        }
        if let Some(usage) = &edit.usage {
            self.cumulative.add(usage);
        }
        let edit = Arc::new(edit.clone());
        let kind = edit.kind;
        self.edits.push(ViewEditState { edit, seq, active: true, released: false });
        self.rebuild(seq);
        self.note_edited();
        // Results that are cut where nothing else helps leave no more to be done either.
        if kind == EditKind::Compaction || has_cut {
            self.settled_tokens = Some(self.view_tokens());
        }
    }

    fn note_edited(&mut self) {
        self.edited_tokens = Some(self.view_tokens());
        self.calls_since_edit = 0;
    }

    fn restore(&mut self, seq: Seq, id: &EditId) {
        if self.restore_omission(seq, id) {
            return;
        }
        for state in self.edits.iter_mut().filter(|state| state.edit.id == *id) {
            state.active = false;
        }
        self.rebuild(seq);
        self.note_edited();
        self.settled_tokens = None;
    }

    fn rebuild(&mut self, seq: Seq) {
        let has_recall = self.has_recall();
        self.view = view::rebuild(&self.entries, &self.edits, &self.view, seq, &self.counter, has_recall);
        self.view_changed_at = seq;
        let anchored = self.anchor.as_ref().map_or(0, |anchor| anchor.seq);
        if let Some(sent) = self.sent.as_ref().filter(|sent| sent.is_shown_by(&self.view)) {
            let answer = |item: &ViewItem| item.kind == ViewItemKind::Assistant && item.range.to <= anchored;
            for item in self.view.iter_mut().filter(|item| item.range.to < sent.before || answer(item)) {
                item.since = item.since.min(anchored);
            }
        }
        self.view_groups = self.view.iter().map(|item| item.groups).sum();
        self.kept_groups =
            self.view.iter().filter(|item| item.since <= anchored).map(|item| item.groups).sum();
    }

    fn open_call_mut(&mut self, id: &CallId) -> Option<&mut OpenToolCall> {
        self.calls.iter_mut().find(|open| open.call.call_id == *id)
    }
}

/// The outcome of a call that never ran or whose outcome is unknown, as the model is told.
pub fn closing_result(call_id: &CallId, status: ToolStatus, text: &str) -> ToolResult {
    ToolResult { call_id: call_id.clone(), status, content: vec![Part::text(text)], truncated: None }
}

#[cfg(test)]
mod tests;
