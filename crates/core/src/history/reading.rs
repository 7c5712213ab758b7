//! What follows from a log, for everyone who asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    History, LogEntry, LogEntryKind, OpenRun, OpenToolCall, RecentToolCall, UndoError, ViewEditState,
    ViewItem, ViewItemKind, join, view,
};
use crate::estimate::{CountAccuracy, MessageTokenCounter, TokensByScript};
use crate::event::{Event, EventBody, ModelChoice, PartialAnswerReason, RunEnd};
use crate::ids::{EditId, LogHandle, LogRange, Millis, Seq};
use crate::message::{Message, ModelOrigin, Role};
use crate::meter::{CountAttribution, TokenCalibration, UsageAnchor};
use crate::orders::{StandingOrder, StandingOrders};
use crate::pinned_facts::PinnedFacts;
use crate::retention::user_text::UserText;
use crate::stop_flag::StopFlag;
use crate::usage::Usage;

/// Tokens of framing that an exact count may miss: this many, and one part in `UNEXPLAINED_SHARE` of the report.
const UNEXPLAINED_TOKENS: u64 = 64;
const UNEXPLAINED_SHARE: u64 = 20;

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
    pub fn view_groups(&self) -> &TokensByScript {
        &self.view_groups
    }

    /// Estimated tokens of that part of the view which the anchor's call has already counted, by the kind of writing.
    pub fn kept_groups(&self) -> &TokensByScript {
        &self.kept_groups
    }

    /// What counts the messages.
    pub fn counter(&self) -> &MessageTokenCounter {
        &self.counter
    }

    /// Returns whether the model has the tool `recall`, which returns what went by its handle.
    pub fn has_recall(&self) -> bool {
        !self.without_recall
    }

    /// Returns whether the next request offers the tool `recall`: once anything of the session was pruned,
    /// truncated or compacted, and from then on, whatever is undone later. Forks and restarted sessions follow from
    /// their logs.
    pub fn offers_recall(&self) -> bool {
        self.has_recall() && (self.has_truncated || !self.edits.is_empty())
    }

    /// Estimated tokens of the view as it would be if it had never been edited, by the kind of writing.
    pub fn unedited_groups(&self) -> TokensByScript {
        let mut newer = None;
        let mut sum = TokensByScript::default();
        // The last piece of an answer has those before it in it.
        for entry in self.entries.iter().rev() {
            if let Some(groups) = entry.shown_groups().filter(|_| newer != Some(entry.begins)) {
                sum += groups;
                newer = Some(entry.begins);
            }
        }
        sum
    }

    /// What the provider's reports have shown of the model's vocabulary.
    pub fn calibration(&self) -> &TokenCalibration {
        &self.calibration
    }

    /// Every message ever, in log order.
    pub fn entries(&self) -> &[LogEntry] {
        &self.entries
    }

    /// The message stored at `seq`.
    pub fn entry(&self, seq: Seq) -> Option<&LogEntry> {
        self.entries.binary_search_by_key(&seq, |entry| entry.seq).ok().map(|at| &self.entries[at])
    }

    /// Returns the ledger of all messages in some ranges of the log, given in ascending order.
    pub(crate) fn ledger_of(&self, ranges: impl IntoIterator<Item = LogRange>) -> Arc<PinnedFacts> {
        let spans = ranges.into_iter().map(|range| view::span(&self.entries, range));
        self.ledgers.ledger(&self.entries, spans, self.has_recall(), &self.stop_flag)
    }

    /// Returns what the user typed in everything that `handles` lead to, in ranked pieces.
    pub(crate) fn user_text_of(&self, handles: &[LogHandle]) -> Arc<UserText> {
        self.user_texts.text(self, handles)
    }

    /// Returns the flag that ends computations over this history early.
    pub fn stop_flag(&self) -> &StopFlag {
        &self.stop_flag
    }

    /// Takes another history's flag.
    #[must_use]
    pub(crate) fn with_stop_flag(self, stop_flag: StopFlag) -> Self {
        Self { stop_flag, ..self }
    }

    /// The edits of the view, oldest first.
    pub fn edits(&self) -> &[ViewEditState] {
        &self.edits
    }

    /// The run that was begun and not finished.
    pub fn open_run(&self) -> Option<&OpenRun> {
        self.run.as_ref()
    }

    /// The calls without an outcome, in call order.
    pub fn open_calls(&self) -> &[OpenToolCall] {
        &self.calls
    }

    /// The newest tool calls with an outcome, oldest first.
    pub fn recent_calls(&self) -> impl Iterator<Item = &RecentToolCall> {
        self.recent_calls.iter()
    }

    /// The newest count a provider gave for this view.
    pub fn anchor(&self) -> Option<&UsageAnchor> {
        self.anchor.as_ref()
    }

    /// Returns whether the server's usage reports are set aside, because several in a row could not be true:
    /// nothing rests on them then.
    pub fn usage_is_unreliable(&self) -> bool {
        self.usage_is_unreliable
    }

    /// Returns whether the server has once reported more than the call before: its reports follow the requests.
    pub fn reports_grow(&self) -> bool {
        self.reports_grow
    }

    /// Returns whether the provider's newest report differs from our own exact count of the same request by more than
    /// framing and a hidden prompt can explain: the tokenizer is then not the model's.
    pub fn is_count_contradicted(&self) -> bool {
        let Some(anchor) = self.anchor.as_ref().filter(|_| self.counter.kind() == CountAccuracy::Exact)
        else {
            return false;
        };
        let reported = anchor.input.saturating_add(anchor.output);
        let counted = anchor.fixed.saturating_add(anchor.view_tokens).saturating_add(self.overhead_tokens());
        reported.abs_diff(counted) > UNEXPLAINED_TOKENS + reported / UNEXPLAINED_SHARE
    }

    /// How the anchor's count is shared out among what it has counted.
    pub(crate) fn apportionment(&self) -> Option<&CountAttribution> {
        self.apportionment.as_ref()
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

    /// Returns whether nobody is to be asked for a summary for now, because that has failed again and again.
    pub fn summaries_rest(&self) -> bool {
        self.summaries.writer.is_suspended()
    }

    /// How often in a row a summary has failed.
    pub(crate) fn failed_summaries(&self) -> u32 {
        self.summaries.failures()
    }

    /// Returns whether the provider's cache, which forgets after `life_ms`, has forgotten the last request by the
    /// time of the newest event; or there was none with this model.
    pub fn is_cold(&self, life_ms: Millis) -> bool {
        self.last_call_at.is_none_or(|at| self.now.saturating_sub(at) > life_ms)
    }

    /// The model of the newest step or switch.
    pub fn model(&self) -> Option<&ModelOrigin> {
        self.model.as_ref()
    }

    /// Which agent and model the session was given; the default is the usual ones.
    pub fn choice(&self) -> &ModelChoice {
        &self.choice
    }

    /// Returns the hash of the tools that the newest step was sent; `None` if there were none, or since another agent or
    /// model was chosen.
    pub fn newest_tools_hash(&self) -> Option<&str> {
        self.tools_hash.as_deref()
    }

    /// Returns whether the next step is the first since the model was switched.
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

    /// The standing orders that hold, oldest first.
    pub fn orders(&self) -> impl Iterator<Item = &StandingOrder> {
        self.orders.active()
    }

    /// All standing orders, those that do not hold any more among them.
    pub fn all_orders(&self) -> &StandingOrders {
        &self.orders
    }

    /// Estimated tokens of the standing orders that hold, as lists show them.
    pub fn order_tokens(&self) -> u64 {
        self.orders.active().map(|order| self.counter.text(&order.line())).sum()
    }

    /// The newest message of a person that has this text in it, case and spacing aside.
    pub fn said_in(&self, text: &str) -> Option<Seq> {
        let key = crate::orders::key(text);
        let typed = self.entries.iter().rev().filter(|entry| entry.kind == LogEntryKind::Typed);
        let mut said = typed.filter(|entry| crate::orders::key(&entry.message.text()).contains(&key));
        said.next().map(|entry| entry.seq)
    }

    /// How the newest finished run ended.
    pub fn last_end(&self) -> Option<RunEnd> {
        self.last_end
    }

    /// Ranges that an undo brought back and that automatic compaction leaves alone.
    pub fn pinned(&self) -> Vec<LogRange> {
        let undone = self.edits.iter().filter(|state| !state.active && !state.released);
        undone.flat_map(|state| state.edit.ops.iter().map(crate::event::ViewOperation::range)).collect()
    }

    /// Returns whether `edit_id`, an edit of the view or an omission, can be undone now.
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn check_undo(&self, edit_id: &EditId) -> Result<(), UndoError> {
        if self.omissions.iter().any(|omission| omission.active && omission.id == *edit_id) {
            return Ok(());
        }
        let at = self
            .edits
            .iter()
            .position(|state| state.active && state.edit.id == *edit_id)
            .ok_or_else(|| UndoError::NotFound(edit_id.clone()))?;
        let touches = |state: &ViewEditState| {
            state
                .edit
                .ops
                .iter()
                .any(|op| self.edits[at].edit.ops.iter().any(|mine| mine.range().overlaps(&op.range())))
        };
        match self.edits[at + 1..].iter().find(|state| state.active && touches(state)) {
            Some(by) => Err(UndoError::BuiltOn { edit: edit_id.clone(), by: by.edit.id.clone() }),
            None => Ok(()),
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
        self.view.iter().rposition(|item| item.kind == ViewItemKind::Typed)
    }

    /// What the model has been told last is an answer of its own: there is nothing to reply to.
    pub fn is_answered(&self) -> bool {
        self.view.last().is_none_or(|item| item.message.role == Role::Assistant)
    }

    /// Returns whether the view ends with the beginning of an answer that we stopped to make room: the next goes on
    /// with it.
    pub fn is_paused(&self) -> bool {
        self.paused().is_some()
    }

    /// Returns whether the view ends with the beginning of an answer whose stream broke off.
    pub fn is_broken_off(&self) -> bool {
        self.paused().is_some_and(|piece| self.broken_piece == Some(piece.seq))
    }

    /// Returns whether the present model's server has refused to go on with an answer that was paused.
    pub fn refused_to_go_on(&self) -> bool {
        self.refused_to_go_on
    }

    /// How often the newest answer was paused.
    pub fn pauses(&self) -> u32 {
        self.entries.last().map_or(0, |entry| entry.pauses)
    }

    /// An answer from where it began up to `piece`, as it was stored.
    pub fn whole(&self, piece: &LogEntry) -> Message {
        let counts = |entry: &&LogEntry| {
            entry.seq == piece.seq || entry.kind != LogEntryKind::Assistant(Some(PartialAnswerReason::Lost))
        };
        let first = self.entries.partition_point(|entry| entry.seq < piece.begins);
        let pieces = self.entries[first..].iter().take_while(|entry| entry.seq <= piece.seq).filter(counts);
        let whole =
            pieces.map(|entry| Message::clone(&entry.message)).reduce(|whole, piece| join(&whole, &piece));
        whole.unwrap_or_else(|| Message::clone(&piece.message))
    }

    /// Returns whether the answer that `piece` belongs to goes on in a later one that counts.
    pub fn is_continued(&self, piece: &LogEntry) -> bool {
        let after = self.entries.partition_point(|entry| entry.seq <= piece.seq);
        let goes_on = |entry: &&LogEntry| entry.goes_on() && entry.begins == piece.begins;
        let mut more = self.entries[after..].iter().take_while(goes_on);
        piece.kind == LogEntryKind::Assistant(Some(PartialAnswerReason::Paused))
            && more.any(|entry| entry.kind != LogEntryKind::Assistant(Some(PartialAnswerReason::Lost)))
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
