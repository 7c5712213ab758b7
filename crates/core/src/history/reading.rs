//! Getters of [`History`]: the facts of a session that follow from its log.

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

/// Tokens of framing and hidden prompt that an exact count may lack, beside one part in [`UNEXPLAINED_SHARE`] of the
/// report.
const UNEXPLAINED_TOKENS: u64 = 64;
/// Divisor of a report: the quotient may be missing from an exact count.
const UNEXPLAINED_SHARE: u64 = 20;

/// Getters, and previews of further events.
impl History {
    /// Returns the newest position.
    pub fn last_seq(&self) -> Seq {
        self.last_seq
    }

    /// Returns the messages that the model is shown, in order.
    pub fn view(&self) -> &[ViewItem] {
        &self.view
    }

    /// Returns the position of the newest event that changed the view.
    pub fn view_changed_at(&self) -> Seq {
        self.view_changed_at
    }

    /// Returns the estimated tokens of the view, without system prompt and tools.
    pub fn view_tokens(&self) -> u64 {
        self.view_groups.total()
    }

    /// Returns [`view_tokens`](Self::view_tokens) by the kind of writing.
    pub fn view_groups(&self) -> &TokensByScript {
        &self.view_groups
    }

    /// Returns the estimated tokens, by the kind of writing, of the part of the view that the anchor's call has
    /// counted.
    pub fn kept_groups(&self) -> &TokensByScript {
        &self.kept_groups
    }

    /// Returns the counter of the history's messages.
    pub fn counter(&self) -> &MessageTokenCounter {
        &self.counter
    }

    /// Returns whether the model has the tool `recall`, which returns content that left the view.
    pub fn has_recall(&self) -> bool {
        !self.without_recall
    }

    /// Returns whether the next request offers the tool `recall`. The offer begins once content of the session was
    /// pruned, truncated or compacted, and an undo does not end the offer. Forks and restarted sessions follow from
    /// their logs.
    pub fn offers_recall(&self) -> bool {
        // An offer that came and went with each edit would break the provider's prompt cache each time.
        self.has_recall() && (self.has_truncated || !self.edits.is_empty())
    }

    /// Returns the estimated tokens, by the kind of writing, of the view without any edit.
    pub fn unedited_groups(&self) -> TokensByScript {
        let mut newer = None;
        let mut sum = TokensByScript::default();
        // Backwards, because the last piece of an answer holds the earlier pieces too.
        for entry in self.entries.iter().rev() {
            if let Some(groups) = entry.shown_groups().filter(|_| newer != Some(entry.begins)) {
                sum += groups;
                newer = Some(entry.begins);
            }
        }
        sum
    }

    /// Returns the calibration of the estimate by the provider's reports.
    pub fn calibration(&self) -> &TokenCalibration {
        &self.calibration
    }

    /// Returns all messages of the log, in log order.
    pub fn entries(&self) -> &[LogEntry] {
        &self.entries
    }

    /// Returns the message that is stored at `seq`.
    pub fn entry(&self, seq: Seq) -> Option<&LogEntry> {
        self.entries.binary_search_by_key(&seq, |entry| entry.seq).ok().map(|at| &self.entries[at])
    }

    /// Returns the ledger of all messages in `ranges` of the log, which are in ascending order.
    pub(crate) fn ledger_of(&self, ranges: impl IntoIterator<Item = LogRange>) -> Arc<PinnedFacts> {
        let spans = ranges.into_iter().map(|range| view::span(&self.entries, range));
        self.ledgers.ledger(&self.entries, spans, self.has_recall(), &self.stop_flag)
    }

    /// Returns the user's typed text behind `handles`, in ranked pieces.
    pub(crate) fn user_text_of(&self, handles: &[LogHandle]) -> Arc<UserText> {
        self.user_texts.text(self, handles)
    }

    /// Returns the flag that ends computations over this history early.
    pub fn stop_flag(&self) -> &StopFlag {
        &self.stop_flag
    }

    /// Returns the history with another stop flag.
    #[must_use]
    pub(crate) fn with_stop_flag(self, stop_flag: StopFlag) -> Self {
        Self { stop_flag, ..self }
    }

    /// Returns the edits of the view, oldest first.
    pub fn edits(&self) -> &[ViewEditState] {
        &self.edits
    }

    /// Returns the run that has no end in the log yet.
    pub fn open_run(&self) -> Option<&OpenRun> {
        self.run.as_ref()
    }

    /// Returns the calls without an outcome, in call order.
    pub fn open_calls(&self) -> &[OpenToolCall] {
        &self.calls
    }

    /// Returns the newest finished tool calls, oldest first.
    pub fn recent_calls(&self) -> impl Iterator<Item = &RecentToolCall> {
        self.recent_calls.iter()
    }

    /// Returns the provider's newest count of the view.
    pub fn anchor(&self) -> Option<&UsageAnchor> {
        self.anchor.as_ref()
    }

    /// Returns whether the server's usage reports are ignored, because several reports in a row were implausible.
    pub fn usage_is_unreliable(&self) -> bool {
        self.usage_is_unreliable
    }

    /// Returns whether the server has once reported more input than for the call before. Such reports follow the
    /// requests.
    pub fn reports_grow(&self) -> bool {
        self.reports_grow
    }

    /// Returns whether the provider's newest report contradicts the exact count of the same request. Framing and a
    /// hidden prompt cannot explain the difference then: the tokenizer is not the model's.
    pub fn is_count_contradicted(&self) -> bool {
        // An estimate is expected to differ from a report. Only an exact count can be contradicted.
        let Some(anchor) = self.anchor.as_ref().filter(|_| self.counter.kind() == CountAccuracy::Exact)
        else {
            return false;
        };
        let reported = anchor.input.saturating_add(anchor.output);
        let counted = anchor.fixed.saturating_add(anchor.view_tokens).saturating_add(self.overhead_tokens());
        reported.abs_diff(counted) > UNEXPLAINED_TOKENS + reported / UNEXPLAINED_SHARE
    }

    /// Returns the attribution of the anchor's count to the parts of the request.
    pub(crate) fn apportionment(&self) -> Option<&CountAttribution> {
        self.apportionment.as_ref()
    }

    /// Returns the tokens that every request of the session carries beyond our count, as the first call showed. Chat
    /// templates and hidden prompts cause this overhead.
    pub fn overhead_tokens(&self) -> u64 {
        self.overhead_tokens.unwrap_or(0)
    }

    /// Returns the signed errors of the newest estimates, in thousandths of the actual input.
    pub fn errors_per_mille(&self) -> impl ExactSizeIterator<Item = i64> + '_ {
        self.errors_per_mille.iter().copied()
    }

    /// Returns the signed error of the newest estimate, the first call's too, in thousandths of the actual input.
    pub fn last_error_per_mille(&self) -> Option<i64> {
        self.last_error_per_mille
    }

    /// Returns the newest step's window in tokens, if the window was known. A session can be inspected with it when
    /// its model is absent.
    pub fn window(&self) -> Option<u64> {
        self.window
    }

    /// Returns the window in tokens that a provider's error named. The window is valid while `known`, the declared or
    /// discovered window, is the same as at the time of the error. A new declaration or a reloaded server makes the
    /// learned window void.
    pub fn learned_window(&self, known: Option<u64>) -> Option<u64> {
        let learned = self.learned_window.as_ref()?;
        (known.is_none() || known == learned.known).then_some(learned.limit)
    }

    /// Returns the largest number of tokens, input and output together, that the present model has reported for one
    /// call.
    pub fn largest_call(&self) -> u64 {
        self.largest_call
    }

    /// Returns the sum of all reported usages, for display and cost only.
    pub fn cumulative_usage(&self) -> &Usage {
        &self.cumulative
    }

    /// Returns the number of committed compactions, without prunes.
    pub fn compactions(&self) -> u64 {
        self.compactions
    }

    /// Returns the tokens of the view right after the newest compaction, or at the newest attempt that failed. `None`
    /// if an edit was undone or the model switched since.
    pub fn settled_tokens(&self) -> Option<u64> {
        self.settled_tokens
    }

    /// Returns the tokens of the view right after the newest edit or undo; `None` before the first.
    pub fn edited_tokens(&self) -> Option<u64> {
        self.edited_tokens
    }

    /// Returns the number of answered model calls since the newest edit or undo, or since the session began.
    pub fn calls_since_edit(&self) -> u32 {
        self.calls_since_edit
    }

    /// Returns whether no model is asked for a summary for now, because too many requests in a row have failed.
    pub fn summaries_rest(&self) -> bool {
        self.summaries.writer.is_suspended()
    }

    /// Returns the number of failed summaries in a row.
    pub(crate) fn failed_summaries(&self) -> u32 {
        self.summaries.failures()
    }

    /// Returns whether the provider's prompt cache has expired, with entries that live for `life_ms` milliseconds.
    /// The time of the newest event counts as the present. Before the first call of a model the cache is cold.
    pub fn is_cold(&self, life_ms: Millis) -> bool {
        self.last_call_at.is_none_or(|at| self.now.saturating_sub(at) > life_ms)
    }

    /// Returns the model of the newest step or switch.
    pub fn model(&self) -> Option<&ModelOrigin> {
        self.model.as_ref()
    }

    /// Returns the agent and model that were chosen for the session. The default stands for the configured agent and
    /// model.
    pub fn choice(&self) -> &ModelChoice {
        &self.choice
    }

    /// Returns the hash of the tools that the newest step carried. `None` if that step carried no tools, or if
    /// another agent or model was chosen since.
    pub fn newest_tools_hash(&self) -> Option<&str> {
        self.tools_hash.as_deref()
    }

    /// Returns whether the next step is the first after a switch of the model.
    pub fn is_switched(&self) -> bool {
        self.switched
    }

    /// Returns the number of recoveries since the last completed step.
    pub fn recoveries(&self) -> u32 {
        self.recoveries
    }

    /// Returns the reason why the session waits for a person, if the session waits.
    pub fn parked(&self) -> Option<&str> {
        self.parked.as_deref()
    }

    /// Returns the session's title.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Returns the standing orders in force, oldest first.
    pub fn orders(&self) -> impl Iterator<Item = &StandingOrder> {
        self.orders.active()
    }

    /// Returns all standing orders, also those that are no longer in force.
    pub fn all_orders(&self) -> &StandingOrders {
        &self.orders
    }

    /// Returns the estimated tokens of the standing orders in force, as lists show the orders.
    pub fn order_tokens(&self) -> u64 {
        self.orders.active().map(|order| self.counter.text(&order.line())).sum()
    }

    /// Returns the position of the newest typed message that contains `text`. Letter case and spacing do not matter.
    pub fn said_in(&self, text: &str) -> Option<Seq> {
        let key = crate::orders::key(text);
        let typed = self.entries.iter().rev().filter(|entry| entry.kind == LogEntryKind::Typed);
        let mut said = typed.filter(|entry| crate::orders::key(&entry.message.text()).contains(&key));
        said.next().map(|entry| entry.seq)
    }

    /// Returns the end of the newest finished run.
    pub fn last_end(&self) -> Option<RunEnd> {
        self.last_end
    }

    /// Returns the ranges that an undo brought back and that automatic compaction does not touch.
    pub fn pinned(&self) -> Vec<LogRange> {
        // The user has just refused the compaction of these ranges: only an explicit release allows another one.
        let undone = self.edits.iter().filter(|state| !state.active && !state.released);
        undone.flat_map(|state| state.edit.ops.iter().map(crate::event::ViewOperation::range)).collect()
    }

    /// Checks that the edit or omission `edit_id` can be undone now.
    ///
    /// # Errors
    /// [`UndoError::NotFound`] if no active edit has the id, [`UndoError::BuiltOn`] if a later edit overlaps its
    /// ranges.
    pub fn check_undo(&self, edit_id: &EditId) -> Result<(), UndoError> {
        // An omission hides parts and covers no range, so no later edit depends on an omission.
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
        // The later edit was planned for a view with this edit: without the edit its ranges would no longer fit the
        // view.
        match self.edits[at + 1..].iter().find(|state| state.active && touches(state)) {
            Some(by) => Err(UndoError::BuiltOn { edit: edit_id.clone(), by: by.edit.id.clone() }),
            None => Ok(()),
        }
    }

    /// Returns the history with one more event, for previews.
    pub fn with(&self, body: EventBody) -> Self {
        let mut next = self.clone();
        // A preview has no time of its own, and `fold_body` does not move the history's clock.
        let event = Event { seq: self.last_seq + 1, at: 0, format: crate::event::FORMAT, body };
        next.last_seq = event.seq;
        next.fold_body(&event);
        next
    }

    /// Returns a hash of the view: equal hashes mean that the model is shown the same messages. The hash covers
    /// positions, edits and omissions, which suffice because the log is immutable.
    pub fn view_hash(&self) -> String {
        view::hash(&self.view)
    }

    /// Returns the index into the view of the newest message that a person typed.
    pub fn newest_typed(&self) -> Option<usize> {
        self.view.iter().rposition(|item| item.kind == ViewItemKind::Typed)
    }

    /// Returns whether the view ends with an answer of the model, or is empty: nothing is to be answered then.
    pub fn is_answered(&self) -> bool {
        self.view.last().is_none_or(|item| item.message.role == Role::Assistant)
    }

    /// Returns whether the view ends with the beginning of a paused answer. The next answer continues that beginning.
    pub fn is_paused(&self) -> bool {
        self.paused().is_some()
    }

    /// Returns whether the view ends with the beginning of an answer whose stream broke off.
    pub fn is_broken_off(&self) -> bool {
        self.paused().is_some_and(|piece| self.broken_piece == Some(piece.seq))
    }

    /// Returns whether the present model's server has refused to continue a paused answer.
    pub fn refused_to_go_on(&self) -> bool {
        self.refused_to_go_on
    }

    /// Returns the number of pauses in the newest answer.
    pub fn pauses(&self) -> u32 {
        self.entries.last().map_or(0, |entry| entry.pauses)
    }

    /// Returns an answer from its beginning up to `piece`, in the stored form.
    pub fn whole(&self, piece: &LogEntry) -> Message {
        // A lost piece was replaced by the next attempt. The caller's own piece counts even if lost: people read it.
        let counts = |entry: &&LogEntry| {
            entry.seq == piece.seq || entry.kind != LogEntryKind::Assistant(Some(PartialAnswerReason::Lost))
        };
        let first = self.entries.partition_point(|entry| entry.seq < piece.begins);
        let pieces = self.entries[first..].iter().take_while(|entry| entry.seq <= piece.seq).filter(counts);
        let whole =
            pieces.map(|entry| Message::clone(&entry.message)).reduce(|whole, piece| join(&whole, &piece));
        whole.unwrap_or_else(|| Message::clone(&piece.message))
    }

    /// Returns whether a later piece that counts continues the answer of `piece`.
    pub fn is_continued(&self, piece: &LogEntry) -> bool {
        let after = self.entries.partition_point(|entry| entry.seq <= piece.seq);
        let goes_on = |entry: &&LogEntry| entry.goes_on() && entry.begins == piece.begins;
        let mut more = self.entries[after..].iter().take_while(goes_on);
        piece.kind == LogEntryKind::Assistant(Some(PartialAnswerReason::Paused))
            && more.any(|entry| entry.kind != LogEntryKind::Assistant(Some(PartialAnswerReason::Lost)))
    }

    /// Returns the tokens of the view by kind of content, for the display.
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
