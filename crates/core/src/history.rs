//! The meaning of a log: a [`History`] is folded from events and never edited otherwise.
//!
//! A history holds the *view*, the messages that the model is shown. Beside the view stand the facts that the loop
//! must remember across a crash: the open run and step, the calls without an outcome, the meter's anchor. Folding one
//! more event costs the work for that event alone. Edits of the view are the exception: each edit rebuilds the view.

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

/// Text that the model sees in place of a cleared tool result, with the handle behind.
pub const CLEARED: &str = "[Old tool result content cleared]";

/// Number of the newest tool calls that loop detection compares.
pub const LOOP_WINDOW: usize = 10;

/// The state of a session that follows from its log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    counter: MessageTokenCounter,
    /// `true` if the model has no tool `recall`.
    without_recall: bool,
    /// `true` once a tool result was truncated before the model was shown the result.
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
    /// The view that the anchor's call carried.
    sent: Option<SentView>,
    /// The answer of the newest step.
    answered: Option<AnsweredStep>,
    /// The part of the present view that the anchor's call has counted.
    kept_groups: TokensByScript,
    /// The view's tokens at the anchor's call.
    anchor_groups: TokensByScript,
    /// The share of each kind of content in the anchor's count.
    apportionment: Option<CountAttribution>,
    overhead_tokens: Option<u64>,
    errors_per_mille: VecDeque<i64>,
    last_error_per_mille: Option<i64>,
    /// The newest report's distance from the estimate.
    last_miss: Option<EstimateDeviation>,
    /// The server's count of the view for the next call.
    counted: Option<CountedView>,
    /// The server's count of the view that the open call carries.
    counted_call: Option<CountedView>,
    /// The usual difference between the server's reports and the server's counts.
    count_offset: CountOffset,
    /// Number of implausible usage reports in a row.
    false_reports: u32,
    usage_is_unreliable: bool,
    reports_grow: bool,
    largest_call: u64,
    window: Option<u64>,
    learned_window: Option<LearnedWindow>,
    cumulative: Usage,
    compactions: u64,
    settled_tokens: Option<u64>,
    /// Tokens of the view right after the newest edit.
    edited_tokens: Option<u64>,
    calls_since_edit: u32,
    summaries: LoggedWriterRecord,
    /// `true` if the model's server has refused to continue a paused answer.
    refused_to_go_on: bool,
    /// Position of the newest piece in view whose stream broke off.
    broken_piece: Option<Seq>,
    last_call_at: Option<Millis>,
    now: Millis,
    model: Option<ModelOrigin>,
    choice: ModelChoice,
    /// The hash of the newest step's tools. `None` before the first step of a newly chosen agent or model.
    tools_hash: Option<String>,
    /// `true` from a switch of the model to the next step.
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

/// A run without an end in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRun {
    /// The run's name.
    pub id: RunId,
    /// The time at which the run began.
    pub started_at: Millis,
    /// Number of steps begun so far.
    pub steps: u32,
    /// The step whose model call has no outcome yet.
    pub calling: Option<StepStart>,
    /// `true` once a note has told the model about its repetition.
    pub warned_of_loop: bool,
    /// `true` once a note has told the model that the run's time is over. One step without tools is left then.
    pub time_is_up: bool,
    /// `true` once the run's last step without tools was begun.
    pub recovering: bool,
    /// The usage of all steps of the run.
    pub usage: Usage,
    /// The time since which an approval is awaited, if any is.
    pub waiting_since: Option<Millis>,
    /// Time that earlier approvals took, in milliseconds.
    pub waited_ms: Millis,
}

/// A tool call without an outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenToolCall {
    /// The call as the model wrote it.
    pub call: ToolCall,
    /// `true` once the call's start was stored. The side effect may have happened then.
    pub started: bool,
    /// The approval request that has no answer yet.
    pub approval: Option<ApprovalId>,
    /// The answer to the approval request: the permission, and the reason of a refusal.
    pub allowed: Option<(bool, Option<String>)>,
}

/// The view that a call carried.
#[derive(Clone, Debug, PartialEq)]
struct SentView {
    /// The position at which the view ended, exclusive.
    before: Seq,
    hash: String,
}

/// The answer of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AnsweredStep {
    seq: Seq,
    /// Tokens that the answer, or the piece of an answer, added to the view.
    groups: TokensByScript,
}

impl SentView {
    /// Returns whether `view` up to the call's position equals the view that was sent. After an undo the count holds
    /// again.
    fn is_shown_by(&self, view: &[ViewItem]) -> bool {
        self.hash == view::hash(view.iter().filter(|item| item.range.to < self.before))
    }
}

/// A window size that a provider's error named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LearnedWindow {
    limit: u64,
    /// The declared or discovered window at the time of the error.
    known: Option<u64>,
}

/// A finished tool call, in the form that loop detection remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentToolCall {
    /// A hash that is equal for equal tools, arguments, statuses and contents.
    pub signature: u64,
    /// The tool's name.
    pub tool: String,
}

/// An edit of the view, with the edit's present effect.
#[derive(Clone, Debug, PartialEq)]
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
        let calibration = match counter.prior() {
            Some(prior) => TokenCalibration::new(prior.clone()),
            None => TokenCalibration::unknown(counter.kind()),
        };
        Self { counter, calibration, ..Self::default() }
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
        if event.seq != self.last_seq + 1 {
            return Err(HistoryFoldError::Gap { last: self.last_seq, found: event.seq });
        }
        if event.format > crate::event::FORMAT {
            return Err(HistoryFoldError::Newer { seq: event.seq, format: event.format });
        }
        self.last_seq = event.seq;
        // A clock can be set back between two events. The log's time never goes back.
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
                // A loop is a loop within one run: a new order may ask for the same calls again.
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
                // Some servers refuse a request that ends with an assistant message. The same request would be
                // refused again.
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
                    // A step can ask about several calls at once. The wait counts once, from the first question on.
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
                // A hook that forbids a compaction says nothing about the model that would have written the summary.
                if *code != ErrorCode::Refused || usage.is_some() {
                    self.summaries.failed(event.seq);
                }
                if let Some(usage) = usage {
                    self.cumulative.add(usage);
                }
            }
            EventBody::ModelSwitched { to, choice } => {
                // Another agent can have other tools under the same model.
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

    /// Ends the wait once no call needs an approval: time spent on people does not count as the run's time.
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
                // The model gets another chance after the warning: only repetitions after the note end the run.
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
            // The log has pieces, the view has one message: the newest piece shows the whole answer.
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

    /// Marks the newest piece as broken off if the failed step wrote the piece. A broken piece does not count as a
    /// pause, because no room was made.
    fn mark_broken_answer(&mut self, step: &StepId) {
        let broken = LogEntryKind::Assistant(Some(PartialAnswerReason::Paused));
        if let Some(entry) = self.entries.last_mut()
            && entry.kind == broken
            // The step that writes a message gives the message its id: `m-` and the step's own id.
            && entry.message.id.as_str().strip_prefix("m-") == Some(step.as_str())
        {
            entry.pauses = entry.pauses.saturating_sub(1);
            self.broken_piece = Some(entry.seq);
        }
    }

    /// Returns the paused answer that the next answer continues.
    fn paused(&self) -> Option<&LogEntry> {
        let newest = self
            .entries
            .iter()
            // The model never saw a lost answer, so the model continues the piece before that answer.
            .rfind(|entry| entry.kind != LogEntryKind::Assistant(Some(PartialAnswerReason::Lost)))?;
        // An edit may have removed the piece, or a note may stand behind. The model has nothing to continue then.
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

    /// Adds a result to the view, at the place of its call among the calls of the step.
    fn add_result(&mut self, seq: Seq, result: &ToolResult) {
        // A call has one result. A repeated result, or a result without a call, would make every later request
        // invalid.
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
        // A count of another view, or of other tools, is not a count of the request that goes out now.
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
        // Tokenizer, server, window and prompt cache are another model's from here on.
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
        // A plan cuts messages only where nothing else helps: a cut leaves as little to be done as a compaction.
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
            // The provider has counted exactly these messages: after an undo the count stands again, without an
            // estimate.
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

/// Returns the result that the model is told for a call that never ran, or whose outcome is unknown.
pub fn closing_result(call_id: &CallId, status: ToolStatus, text: &str) -> ToolResult {
    ToolResult { call_id: call_id.clone(), status, content: vec![Part::text(text)], truncated: None }
}

#[cfg(test)]
mod tests;
