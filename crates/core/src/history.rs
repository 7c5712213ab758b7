//! What a log means: [`History`] is folded from events and never edited otherwise.
//!
//! It holds the *view* (what the model is shown) and the few facts that the loop must remember across a
//! crash: the open run and step, the calls without an outcome, the meter's anchor. Folding one more event
//! costs what that event adds, except for edits of the view, which rebuild it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::error::ErrorCode;
use crate::estimate::{Counter, Groups};
use crate::event::{
    Cut, EditKind, Event, EventBody, ModelChoice, NoteReason, RunEnd, StepKind, StepStart, ViewEdit,
};
use crate::ids::{ApprovalId, CallId, EditId, LogRange, Millis, RunId, Seq};
use crate::message::{Message, Origin, Part, Role, ToolCall, ToolResult, ToolStatus};
use crate::meter::{Anchor, Calibration};
use crate::usage::Usage;

mod pairing;
mod reports;
mod view;

pub use pairing::request_messages;
#[cfg(test)]
pub(crate) use view::cleared_groups;
pub use view::{Entry, EntryKind, ItemKind, Unit, UnitKind, ViewItem, join, units};
pub(crate) use view::{hash as hash_of, is_object, merged};

/// Text shown to the model where a tool result was cleared; the handle follows it.
pub const CLEARED: &str = "[Old tool result content cleared]";

/// After so many failures in a row nobody is asked for a summary for a while.
pub(crate) const SUMMARY_FAILURES: u32 = 3;

/// Compactions that do without then, at first.
const SUMMARY_REST: u32 = 7;

/// How many of the newest tool calls loop detection looks at.
pub const LOOP_WINDOW: usize = 10;

/// Everything that follows from a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    counter: Counter,
    calibration: Calibration,
    last_seq: Seq,
    entries: Vec<Entry>,
    view: Vec<ViewItem>,
    view_groups: Groups,
    view_changed_at: Seq,
    edits: Vec<EditState>,
    run: Option<OpenRun>,
    calls: Vec<OpenCall>,
    recent_calls: VecDeque<RecentCall>,
    anchor: Option<Anchor>,
    /// The view that the anchor's call was sent.
    sent: Option<Sent>,
    /// What the newest step has said.
    answered: Option<Answered>,
    kept_groups: Groups,
    overhead_tokens: Option<u64>,
    errors_per_mille: VecDeque<i64>,
    last_error_per_mille: Option<i64>,
    largest_call: u64,
    window: Option<u64>,
    learned_window: Option<Learned>,
    cumulative: Usage,
    compactions: u64,
    settled_tokens: Option<u64>,
    /// Tokens of the view right after it was last edited.
    edited_tokens: Option<u64>,
    calls_since_edit: u32,
    summaries: Summaries,
    last_call_at: Option<Millis>,
    now: Millis,
    model: Option<Origin>,
    choice: ModelChoice,
    /// Whether no step was begun since the model was switched.
    switched: bool,
    recoveries: u32,
    parked: Option<String>,
    title: Option<String>,
    last_end: Option<RunEnd>,
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
pub struct OpenCall {
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
struct Sent {
    /// It ended before this position.
    before: Seq,
    hash: String,
}

/// What a step has said.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Answered {
    seq: Seq,
    /// What it added to the view: the answer, or a piece of one.
    groups: Groups,
}

impl Sent {
    /// Whether the view is again, up to there, what it was then: after an undo the count stands.
    fn is_shown_by(&self, view: &[ViewItem]) -> bool {
        self.hash == view::hash(view.iter().filter(|item| item.range.to < self.before))
    }
}

/// A window that a provider's error named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Learned {
    limit: u64,
    /// What was declared or discovered at that time.
    known: Option<u64>,
}

/// How the model that writes summaries has done lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Summaries {
    /// Failures since one was written.
    failed: u32,
    /// Where the newest failure is stored.
    failed_at: Seq,
    /// Compactions since then that did without.
    without: u32,
}

impl Summaries {
    /// What a compaction did about it: after a failure there is one without a model, that is still the same.
    fn committed(&mut self, at: Seq, edit: &ViewEdit) {
        match (&edit.usage, self.failed) {
            (_, 0) => {}
            _ if at == self.failed_at + 1 => {}
            (Some(_), _) => *self = Self::default(),
            (None, _) => self.without += 1,
        }
    }

    fn failed(&mut self, at: Seq) {
        *self = Self { failed: self.failed.saturating_add(1), failed_at: at, without: 0 };
    }

    /// From the third failure on it rests for 7 compactions, then for 14, 28 and so on.
    fn rest(&self) -> bool {
        let beyond = self.failed.checked_sub(SUMMARY_FAILURES);
        beyond.is_some_and(|beyond| self.without < SUMMARY_REST << beyond.min(8))
    }
}

/// A tool call with an outcome, as loop detection remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentCall {
    /// Equal for equal tool, arguments, status and content.
    pub signature: u64,
    /// The tool.
    pub tool: String,
}

/// An edit of the view and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct EditState {
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
pub enum FoldError {
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

impl History {
    /// An empty history, whose messages will be counted by `counter`.
    pub fn new(counter: Counter) -> Self {
        let calibration = Calibration::new(counter.prior());
        Self { counter, calibration, ..Self::default() }
    }

    /// Folds a whole log, counted by the structured estimate.
    ///
    /// # Errors
    /// [`FoldError`] at the first event that does not follow.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<Self, FoldError> {
        Self::fold_with(Counter::default(), events)
    }

    /// Folds a whole log, counted by `counter`.
    ///
    /// # Errors
    /// [`FoldError`] at the first event that does not follow.
    pub fn fold_with<'a>(
        counter: Counter,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<Self, FoldError> {
        let mut history = Self::new(counter);
        for event in events {
            history.apply(event)?;
        }
        Ok(history)
    }

    /// Folds one more event.
    ///
    /// # Errors
    /// [`FoldError`] if it does not follow; nothing has changed then.
    pub fn apply(&mut self, event: &Event) -> Result<(), FoldError> {
        if event.seq != self.last_seq + 1 {
            return Err(FoldError::Gap { last: self.last_seq, found: event.seq });
        }
        if event.format > crate::event::FORMAT {
            return Err(FoldError::Newer { seq: event.seq, format: event.format });
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
                self.push_message(event.seq, message, EntryKind::Typed);
            }
            EventBody::NoteAdded { message, why } => {
                self.note_said(*why);
                self.push_message(event.seq, message, EntryKind::Note);
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
            EventBody::StepFailed { used_tokens, limit_tokens, usage, .. } => {
                self.spent(usage.as_ref());
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
            NoteReason::Imported | NoteReason::Recalled => {}
        }
    }

    fn push_message(&mut self, seq: Seq, message: &Message, kind: EntryKind) {
        let paused = match kind {
            EntryKind::Assistant(_) => self.paused(),
            _ => None,
        };
        let entry = Entry::new(seq, message.clone(), kind, paused, &self.counter);
        if let Some(item) = ViewItem::of(&entry) {
            let before = if entry.goes_on() { self.view.pop() } else { None };
            let before = before.map(|before| before.groups).unwrap_or_default();
            self.view_groups = self.view_groups.without(&before) + item.groups;
            self.view_changed_at = seq;
            if item.kind == ItemKind::Assistant {
                self.answered = Some(Answered { seq, groups: item.groups.without(&before) });
            }
            self.view.push(item);
        }
        self.entries.push(entry);
    }

    /// The answer that was paused and goes on with the next.
    fn paused(&self) -> Option<&Entry> {
        let newest =
            self.entries.iter().rfind(|entry| entry.kind != EntryKind::Assistant(Some(Cut::Lost)))?;
        let shown = self.view.last().is_some_and(|item| {
            item.kind == ItemKind::Assistant
                && item.range == (LogRange { from: newest.begins, to: newest.seq })
        });
        (shown && newest.kind == EntryKind::Assistant(Some(Cut::Paused))).then_some(newest)
    }

    fn add_assistant(&mut self, seq: Seq, message: &Message, cut: Option<Cut>) {
        if cut != Some(Cut::Lost) {
            self.calls.extend(message.tool_calls().map(|call| OpenCall {
                call: call.clone(),
                started: false,
                approval: None,
                allowed: None,
            }));
        }
        self.push_message(seq, message, EntryKind::Assistant(cut));
    }

    /// A result stands in the view where its call stands among the calls of its step.
    fn add_result(&mut self, seq: Seq, result: &ToolResult) {
        let Some(open) = self.calls.iter().position(|open| open.call.call_id == result.call_id) else {
            return;
        };
        let call = self.calls.remove(open).call;
        self.remember_call(&call, result);
        let message = view::result_message(seq, result.clone());
        let kind = EntryKind::Result { tool: call.name };
        let entry = Entry::new(seq, message, kind, None, &self.counter);
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
        self.recent_calls.push_back(RecentCall { signature, tool: call.name.clone() });
    }

    fn begin_step(&mut self, start: &StepStart) {
        self.model = Some(start.model.clone());
        self.switched = false;
        self.window = start.window_tokens.or(self.window);
        self.answered = None;
        if let Some(run) = &mut self.run {
            run.steps += 1;
            run.recovering |= start.purpose == StepKind::Recovery;
            run.calling = Some(start.clone());
        }
    }

    fn switch(&mut self, to: &Origin) {
        self.switched |= self.model.as_ref().is_some_and(|model| model != to);
        self.model = Some(to.clone());
        self.anchor = None;
        self.sent = None;
        self.calibration = Calibration::default();
        self.overhead_tokens = None;
        self.errors_per_mille.clear();
        self.last_error_per_mille = None;
        self.largest_call = 0;
        self.learned_window = None;
        self.window = None;
        self.settled_tokens = None;
        self.summaries = Summaries::default();
        self.last_call_at = None;
        self.forget_weights();
        self.kept_groups = Groups::default();
    }

    fn add_edit(&mut self, seq: Seq, edit: &ViewEdit) {
        if edit.kind == EditKind::Compaction {
            self.compactions += 1;
            self.summaries.committed(seq, edit);
        }
        if let Some(usage) = &edit.usage {
            self.cumulative.add(usage);
        }
        let edit = Arc::new(edit.clone());
        let kind = edit.kind;
        self.edits.push(EditState { edit, seq, active: true, released: false });
        self.rebuild(seq);
        self.note_edited();
        if kind == EditKind::Compaction {
            self.settled_tokens = Some(self.view_tokens());
        }
    }

    fn note_edited(&mut self) {
        self.edited_tokens = Some(self.view_tokens());
        self.calls_since_edit = 0;
    }

    fn restore(&mut self, seq: Seq, id: &EditId) {
        for state in self.edits.iter_mut().filter(|state| state.edit.id == *id) {
            state.active = false;
        }
        self.rebuild(seq);
        self.note_edited();
        self.settled_tokens = None;
    }

    fn rebuild(&mut self, seq: Seq) {
        self.view = view::rebuild(&self.entries, &self.edits, &self.view, seq, &self.counter);
        self.view_changed_at = seq;
        let anchored = self.anchor.as_ref().map_or(0, |anchor| anchor.seq);
        if let Some(sent) = self.sent.as_ref().filter(|sent| sent.is_shown_by(&self.view)) {
            let answer = |item: &ViewItem| item.kind == ItemKind::Assistant && item.range.to <= anchored;
            for item in self.view.iter_mut().filter(|item| item.range.to < sent.before || answer(item)) {
                item.since = item.since.min(anchored);
            }
        }
        self.weigh_again(anchored);
        self.kept_groups =
            self.view.iter().filter(|item| item.since <= anchored).map(|item| item.groups).sum();
    }

    fn open_call_mut(&mut self, id: &CallId) -> Option<&mut OpenCall> {
        self.calls.iter_mut().find(|open| open.call.call_id == *id)
    }
}

/// What follows from the log.
impl History {
    /// The newest position.
    pub fn last_seq(&self) -> Seq {
        self.last_seq
    }

    /// What the model is shown, in order.
    pub fn view(&self) -> &[ViewItem] {
        &self.view
    }

    /// Position of the newest event that changed the view.
    pub fn view_changed_at(&self) -> Seq {
        self.view_changed_at
    }

    /// Estimated tokens of the view, without system prompt and tools.
    pub fn view_tokens(&self) -> u64 {
        self.view_groups.total()
    }

    /// [`view_tokens`](Self::view_tokens) by the kind of writing.
    pub fn view_groups(&self) -> &Groups {
        &self.view_groups
    }

    /// Estimated tokens of that part of the view which the anchor's call has already counted, by the kind of writing.
    pub fn kept_groups(&self) -> &Groups {
        &self.kept_groups
    }

    /// What counts the messages.
    pub fn counter(&self) -> &Counter {
        &self.counter
    }

    /// What the provider's reports have shown of the model's vocabulary.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// Every message ever, in log order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The message stored at `seq`.
    pub fn entry(&self, seq: Seq) -> Option<&Entry> {
        self.entries.binary_search_by_key(&seq, |entry| entry.seq).ok().map(|at| &self.entries[at])
    }

    /// The edits of the view, oldest first.
    pub fn edits(&self) -> &[EditState] {
        &self.edits
    }

    /// The run that was begun and not finished.
    pub fn open_run(&self) -> Option<&OpenRun> {
        self.run.as_ref()
    }

    /// The calls without an outcome, in call order.
    pub fn open_calls(&self) -> &[OpenCall] {
        &self.calls
    }

    /// The newest tool calls with an outcome, oldest first.
    pub fn recent_calls(&self) -> impl Iterator<Item = &RecentCall> {
        self.recent_calls.iter()
    }

    /// The newest count a provider gave for this view.
    pub fn anchor(&self) -> Option<&Anchor> {
        self.anchor.as_ref()
    }

    /// Tokens that every request of this session carries beyond what we count (chat templates, hidden
    /// prompts), as the first call showed.
    pub fn overhead_tokens(&self) -> u64 {
        self.overhead_tokens.unwrap_or(0)
    }

    /// Signed errors of the newest estimates, in thousandths of the actual input.
    pub fn errors_per_mille(&self) -> impl ExactSizeIterator<Item = i64> + '_ {
        self.errors_per_mille.iter().copied()
    }

    /// Signed error of the newest estimate, the first call's too, in thousandths of the actual input.
    pub fn last_error_per_mille(&self) -> Option<i64> {
        self.last_error_per_mille
    }

    /// The window that the newest step reckoned with, if it was known: for looking at a session without its model.
    pub fn window(&self) -> Option<u64> {
        self.window
    }

    /// The window that a provider's error named, as long as what is otherwise known of it (`known`) is what it
    /// was then: a new declaration or a reloaded server makes it void.
    pub fn learned_window(&self, known: Option<u64>) -> Option<u64> {
        let learned = self.learned_window.as_ref()?;
        (known.is_none() || known == learned.known).then_some(learned.limit)
    }

    /// The most tokens, input and output together, that the present model has reported for one call.
    pub fn largest_call(&self) -> u64 {
        self.largest_call
    }

    /// Sum of all reported usages: for display and cost only.
    pub fn cumulative_usage(&self) -> &Usage {
        &self.cumulative
    }

    /// Compactions committed so far (prunes not counted).
    pub fn compactions(&self) -> u64 {
        self.compactions
    }

    /// Tokens of the view right after the newest compaction, or when it was last tried in vain; `None` if an
    /// edit was undone or the model switched since.
    pub fn settled_tokens(&self) -> Option<u64> {
        self.settled_tokens
    }

    /// Tokens of the view right after it was last edited or restored; `None` if it never was.
    pub fn edited_tokens(&self) -> Option<u64> {
        self.edited_tokens
    }

    /// Model calls that gave an answer since then, or since the session began.
    pub fn calls_since_edit(&self) -> u32 {
        self.calls_since_edit
    }

    /// Whether nobody is to be asked for a summary for now, because that has failed again and again.
    pub fn summaries_rest(&self) -> bool {
        self.summaries.rest()
    }

    /// How often in a row a summary has failed.
    pub(crate) fn failed_summaries(&self) -> u32 {
        self.summaries.failed
    }

    /// Whether the provider's cache, which forgets after `life_ms`, has forgotten the last request by the time of the
    /// newest event; or there was none with this model.
    pub fn is_cold(&self, life_ms: Millis) -> bool {
        self.last_call_at.is_none_or(|at| self.now.saturating_sub(at) > life_ms)
    }

    /// The model of the newest step or switch.
    pub fn model(&self) -> Option<&Origin> {
        self.model.as_ref()
    }

    /// Which agent and model the session was given; the default is the usual ones.
    pub fn choice(&self) -> &ModelChoice {
        &self.choice
    }

    /// Whether the next step is the first since the model was switched.
    pub fn is_switched(&self) -> bool {
        self.switched
    }

    /// Recoveries since the last completed step.
    pub fn recoveries(&self) -> u32 {
        self.recoveries
    }

    /// Why the session waits for a person, if it does.
    pub fn parked(&self) -> Option<&str> {
        self.parked.as_deref()
    }

    /// The session's title.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// How the newest finished run ended.
    pub fn last_end(&self) -> Option<RunEnd> {
        self.last_end
    }

    /// Ranges that an undo brought back and that automatic compaction leaves alone.
    pub fn pinned(&self) -> Vec<LogRange> {
        let undone = self.edits.iter().filter(|state| !state.active && !state.released);
        undone.flat_map(|state| state.edit.ops.iter().map(crate::event::ViewOp::range)).collect()
    }

    /// Whether `edit_id` can be undone now.
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn check_undo(&self, edit_id: &EditId) -> Result<&EditState, UndoError> {
        let at = self
            .edits
            .iter()
            .position(|state| state.active && state.edit.id == *edit_id)
            .ok_or_else(|| UndoError::NotFound(edit_id.clone()))?;
        let touches = |state: &EditState| {
            state
                .edit
                .ops
                .iter()
                .any(|op| self.edits[at].edit.ops.iter().any(|mine| mine.range().overlaps(&op.range())))
        };
        match self.edits[at + 1..].iter().find(|state| state.active && touches(state)) {
            Some(by) => Err(UndoError::BuiltOn { edit: edit_id.clone(), by: by.edit.id.clone() }),
            None => Ok(&self.edits[at]),
        }
    }

    /// The history as it would be with one more event, for previews.
    pub fn with(&self, body: EventBody) -> Self {
        let mut next = self.clone();
        let event = Event { seq: self.last_seq + 1, at: 0, format: crate::event::FORMAT, body };
        next.last_seq = event.seq;
        next.fold_body(&event);
        next
    }

    /// Names the view: equal hashes mean that the model is shown the same. (The log is immutable, so
    /// positions and edits say it all.)
    pub fn view_hash(&self) -> String {
        view::hash(&self.view)
    }

    /// The newest message that a person typed, as an index into the view.
    pub fn newest_typed(&self) -> Option<usize> {
        self.view.iter().rposition(|item| item.kind == ItemKind::Typed)
    }

    /// What the model has been told last is an answer of its own: there is nothing to reply to.
    pub fn is_answered(&self) -> bool {
        self.view.last().is_none_or(|item| item.message.role == Role::Assistant)
    }

    /// Whether the view ends with the beginning of an answer that we stopped to make room: the next goes on with it.
    pub fn is_paused(&self) -> bool {
        self.paused().is_some()
    }

    /// How often the newest answer was paused.
    pub fn pauses(&self) -> u32 {
        self.entries.last().map_or(0, |entry| entry.pauses)
    }

    /// An answer from where it began up to `piece`, as it was stored.
    pub fn whole(&self, piece: &Entry) -> Message {
        let counts =
            |entry: &&Entry| entry.seq == piece.seq || entry.kind != EntryKind::Assistant(Some(Cut::Lost));
        let first = self.entries.partition_point(|entry| entry.seq < piece.begins);
        let pieces = self.entries[first..].iter().take_while(|entry| entry.seq <= piece.seq).filter(counts);
        let whole =
            pieces.map(|entry| Message::clone(&entry.message)).reduce(|whole, piece| join(&whole, &piece));
        whole.unwrap_or_else(|| Message::clone(&piece.message))
    }

    /// Whether the answer that `piece` belongs to goes on in a later one that counts.
    pub fn is_continued(&self, piece: &Entry) -> bool {
        let after = self.entries.partition_point(|entry| entry.seq <= piece.seq);
        let goes_on = |entry: &&Entry| entry.goes_on() && entry.begins == piece.begins;
        let mut more = self.entries[after..].iter().take_while(goes_on);
        piece.kind == EntryKind::Assistant(Some(Cut::Paused))
            && more.any(|entry| entry.kind != EntryKind::Assistant(Some(Cut::Lost)))
    }

    /// Sums of the view by kind of content, for the display.
    pub fn breakdown(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        for item in &self.view {
            let parts = self.counter.breakdown(&item.message);
            *sums.entry("text").or_default() += parts.text + parts.framing;
            *sums.entry("toolCalls").or_default() += parts.tool_calls;
            *sums.entry("toolResults").or_default() += parts.tool_results;
            *sums.entry("reasoning").or_default() += parts.reasoning;
            *sums.entry("media").or_default() += parts.media;
        }
        sums
    }
}

/// The outcome of a call that never ran or whose outcome is unknown, as the model is told.
pub fn closing_result(call_id: &CallId, status: ToolStatus, text: &str) -> ToolResult {
    ToolResult { call_id: call_id.clone(), status, content: vec![Part::text(text)], truncated: None }
}

#[cfg(test)]
mod tests;
