//! Getters of [`History`]: the facts of a session that follow from its log.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    History, LogEntry, OmissionState, OpenRun, OpenToolCall, RecentToolCall, UndoError, ViewEditState,
    ViewItem, ViewItemKind, view,
};
use crate::estimate::{CountAccuracy, MessageTokenCounter, TokensByScript};
use crate::event::{ErrorInfo, Event, EventBody, ModelChoice, RunEnd};
use crate::ids::{EditId, LogHandle, LogRange, Millis, Seq};
use crate::message::{Message, ModelOrigin, Role};
use crate::meter::{CountAttribution, TokenCalibration, UsageAnchor};
use crate::orders::{StandingOrder, StandingOrders};
use crate::pinned_facts::PinnedFacts;
use crate::request_pauses::RequestPauses;
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
        self.log.last_seq
    }

    /// Returns the messages that the model is shown, in order.
    pub fn view(&self) -> &[ViewItem] {
        &self.view.items
    }

    /// Returns the position of the newest event that changed the view.
    pub fn view_changed_at(&self) -> Seq {
        self.view.changed_at
    }

    /// Returns the estimated tokens of the view, without system prompt and tools.
    pub fn view_tokens(&self) -> u64 {
        self.view.tokens()
    }

    /// Returns [`view_tokens`](Self::view_tokens) by the kind of writing.
    pub fn view_groups(&self) -> &TokensByScript {
        &self.view.groups
    }

    /// Returns the estimated tokens, by the kind of writing, of the part of the view that the anchor's call has
    /// counted.
    pub fn kept_groups(&self) -> &TokensByScript {
        &self.meter.kept_groups
    }

    /// Returns the counter of the history's messages.
    pub fn counter(&self) -> &MessageTokenCounter {
        &self.meter.counter
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
        self.has_recall() && (self.has_truncated || !self.view.edits.is_empty())
    }

    /// Returns the estimated tokens, by the kind of writing, of the view without any edit.
    pub fn unedited_groups(&self) -> TokensByScript {
        self.log.unedited_groups()
    }

    /// Returns the calibration of the estimate by the provider's reports.
    pub fn calibration(&self) -> &TokenCalibration {
        &self.meter.calibration
    }

    /// Returns all messages of the log, in log order.
    pub fn entries(&self) -> &[LogEntry] {
        &self.log.entries
    }

    /// Returns the message that is stored at `seq`.
    pub fn entry(&self, seq: Seq) -> Option<&LogEntry> {
        self.log.entry(seq)
    }

    /// Returns the ledger of all messages in `ranges` of the log, which are in ascending order.
    pub(crate) fn ledger_of(&self, ranges: impl IntoIterator<Item = LogRange>) -> Arc<PinnedFacts> {
        let spans = ranges.into_iter().map(|range| view::span(&self.log.entries, range));
        self.ledgers.ledger(&self.log.entries, spans, self.has_recall(), &self.stop_flag)
    }

    /// Returns the user's typed text behind `handles`, in ranked pieces.
    pub(crate) fn user_text_of(&self, handles: &[LogHandle]) -> Arc<UserText> {
        self.user_texts.text(self, handles)
    }

    /// Returns the positions of a client's system messages in the middle of the conversation, in ascending order.
    pub fn system_messages(&self) -> &[Seq] {
        &self.system_messages
    }

    /// Returns the positions of summaries of messages that the log does not have, in ascending order.
    pub(crate) fn imported_summaries(&self) -> &[Seq] {
        &self.imported_summaries
    }

    /// Returns the flag that ends computations over this history early.
    #[doc(hidden)]
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
        &self.view.edits
    }

    /// Returns all omissions, oldest first, with the undone ones.
    pub fn omissions(&self) -> &[OmissionState] {
        self.omissions.all()
    }

    /// Returns whether a tool is not offered because a server refuses the schema.
    pub fn omits_tool(&self, tool: &str) -> bool {
        self.omitted_tools().any(|name| name == tool)
    }

    /// Returns the names of the tools that are not offered because a server refuses their schemas.
    pub fn omitted_tools(&self) -> impl Iterator<Item = &str> {
        self.omissions.tools()
    }

    /// Returns whether an active omission leaves out part `part` of the message at `seq`. The omission `except` does
    /// not count.
    pub fn is_omitted(&self, seq: Seq, part: usize, except: Option<&EditId>) -> bool {
        self.omissions.leaves_out(seq, part, except)
    }

    /// Returns the run that has no end in the log yet.
    pub fn open_run(&self) -> Option<&OpenRun> {
        self.run_state.open.as_ref()
    }

    /// Returns the calls without an outcome, in call order.
    pub fn open_calls(&self) -> &[OpenToolCall] {
        &self.run_state.open_calls
    }

    /// Returns the newest finished tool calls, oldest first.
    pub fn recent_calls(&self) -> impl Iterator<Item = &RecentToolCall> {
        self.run_state.recent_calls.iter()
    }

    /// Returns the provider's newest count of the view.
    pub fn anchor(&self) -> Option<&UsageAnchor> {
        self.meter.anchor.as_ref()
    }

    /// Returns whether the server's usage reports are ignored, because several reports in a row were implausible.
    pub fn usage_is_unreliable(&self) -> bool {
        self.meter.usage_is_unreliable
    }

    /// Returns whether the server has once reported more input than for the call before. Such reports follow the
    /// requests.
    pub fn reports_grow(&self) -> bool {
        self.meter.reports_grow
    }

    /// Returns whether the provider's newest report contradicts the exact count of the same request. Framing and a
    /// hidden prompt cannot explain the difference then: the tokenizer is not the model's.
    pub fn is_count_contradicted(&self) -> bool {
        // An estimate is expected to differ from a report. Only an exact count can be contradicted.
        let Some(anchor) =
            self.meter.anchor.as_ref().filter(|_| self.meter.counter.kind() == CountAccuracy::Exact)
        else {
            return false;
        };
        // Counts come from servers, and a sum of two may not overflow.
        let reported = anchor.input.saturating_add(anchor.output);
        let counted = anchor.fixed.saturating_add(anchor.view_tokens).saturating_add(self.overhead_tokens());
        reported.abs_diff(counted) > UNEXPLAINED_TOKENS + reported / UNEXPLAINED_SHARE
    }

    /// Returns the attribution of the anchor's count to the parts of the request.
    pub(crate) fn apportionment(&self) -> Option<&CountAttribution> {
        self.meter.apportionment.as_ref()
    }

    /// Returns the tokens that every request of the session carries beyond our count, as the first call showed. Chat
    /// templates and hidden prompts cause this overhead.
    pub fn overhead_tokens(&self) -> u64 {
        self.meter.overhead_tokens.unwrap_or(0)
    }

    /// Returns the signed errors of the newest estimates, in thousandths of the actual input.
    pub fn errors_per_mille(&self) -> impl ExactSizeIterator<Item = i64> + '_ {
        self.meter.errors.per_mille.iter().copied()
    }

    /// Returns the signed error of the newest estimate, the first call's too, in thousandths of the actual input.
    pub fn last_error_per_mille(&self) -> Option<i64> {
        self.meter.errors.newest_per_mille
    }

    /// Returns the newest step's window in tokens, if the window was known. A session can be inspected with it when
    /// its model is absent.
    pub fn window(&self) -> Option<u64> {
        self.limits.window
    }

    /// Returns the window in tokens that a provider's error named. The window is valid while `known`, the declared or
    /// discovered window, is the same as at the time of the error. A new declaration or a reloaded server makes the
    /// learned window void.
    pub fn learned_window(&self, known: Option<u64>) -> Option<u64> {
        self.limits.learned_window(known)
    }

    /// Returns the largest number of tokens, input and output together, that the present model has reported for one
    /// call.
    pub fn largest_call(&self) -> u64 {
        self.limits.largest_call
    }

    /// Returns the largest input of a call that the present model has answered, in tokens: by our estimate, or as
    /// reported if that is more.
    pub fn largest_accepted_input(&self) -> u64 {
        self.limits.largest_input
    }

    /// Returns the sum of all reported usages, for display and cost only.
    pub fn cumulative_usage(&self) -> &Usage {
        &self.cumulative
    }

    /// Returns the number of committed compactions, without prunes.
    pub fn compactions(&self) -> u64 {
        self.compaction.compactions
    }

    /// Returns the tokens of the view right after the newest compaction, or at the newest attempt that failed. `None`
    /// if an edit was undone or the model switched since.
    pub fn settled_tokens(&self) -> Option<u64> {
        self.compaction.settled_tokens
    }

    /// Returns the tokens of the view right after the newest edit or undo; `None` before the first.
    pub fn edited_tokens(&self) -> Option<u64> {
        self.compaction.edited_tokens
    }

    /// Returns the number of answered model calls since the newest edit or undo, or since the session began.
    pub fn calls_since_edit(&self) -> u32 {
        self.compaction.calls_since_edit
    }

    /// Returns whether no model is asked for a summary for now, because too many requests in a row have failed.
    pub fn summaries_rest(&self) -> bool {
        self.compaction.summaries.writer.is_suspended()
    }

    /// Returns the number of failed summaries in a row.
    pub(crate) fn failed_summaries(&self) -> u32 {
        self.compaction.summaries.failures()
    }

    /// Returns whether the provider's prompt cache has expired, with entries that live for `life_ms` milliseconds.
    /// The time of the newest event counts as the present. Before the first call of a model the cache is cold.
    pub fn is_cold(&self, life_ms: Millis) -> bool {
        self.model_state.last_call_at.is_none_or(|at| self.log.now.saturating_sub(at) > life_ms)
    }

    /// Returns the newest pauses between the session's requests.
    #[doc(hidden)]
    pub fn request_pauses(&self) -> &RequestPauses {
        &self.model_state.request_pauses
    }

    /// Returns the model of the newest step or switch.
    pub fn model(&self) -> Option<&ModelOrigin> {
        self.model_state.newest.as_ref()
    }

    /// Returns the agent and model that were chosen for the session. The default stands for the configured agent and
    /// model.
    pub fn choice(&self) -> &ModelChoice {
        &self.model_state.choice
    }

    /// Returns the hash of the tools that the newest step carried. `None` if that step carried no tools, or if
    /// another agent or model was chosen since.
    pub fn newest_tools_hash(&self) -> Option<&str> {
        self.model_state.tools_hash.as_deref()
    }

    /// Returns whether the next step is the first after a switch of the model.
    pub fn is_switched(&self) -> bool {
        self.model_state.switched
    }

    /// Returns the number of recoveries since the last completed step.
    pub fn recoveries(&self) -> u32 {
        self.run_state.recoveries
    }

    /// Returns the reason why the session waits for a person, if the session waits.
    pub fn parked(&self) -> Option<&str> {
        self.run_state.parked.as_deref()
    }

    /// Returns the session's title.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Returns the standing orders in force, oldest first.
    pub fn orders(&self) -> impl Iterator<Item = &StandingOrder> {
        self.orders.active()
    }

    /// Returns all standing orders, in force or not.
    pub fn all_orders(&self) -> &StandingOrders {
        &self.orders
    }

    /// Returns the estimated tokens of the standing orders in force, as lists show the orders.
    pub fn order_tokens(&self) -> u64 {
        self.orders.active().map(|order| self.meter.counter.text(&order.line())).sum()
    }

    /// Returns the position of the newest typed message that contains `text`. Letter case and spacing do not matter.
    pub fn said_in(&self, text: &str) -> Option<Seq> {
        self.log.said_in(text)
    }

    /// Returns the end of the newest finished run.
    pub fn last_end(&self) -> Option<RunEnd> {
        self.run_state.last_end
    }

    /// Returns the error of the newest finished run, if it ended with one and no other run has begun.
    pub fn last_error(&self) -> Option<&ErrorInfo> {
        self.run_state.last_error.as_ref()
    }

    /// Returns the ranges that an undo brought back and that automatic compaction does not touch.
    pub fn pinned(&self) -> Vec<LogRange> {
        // The user has just refused the compaction of these ranges: only an explicit release allows another one.
        let undone = self.view.edits.iter().filter(|state| !state.active && !state.released);
        undone.flat_map(|state| state.edit.ops.iter().map(crate::event::ViewOperation::range)).collect()
    }

    /// Checks that the edit or omission `edit_id` can be undone now.
    ///
    /// # Errors
    /// [`UndoError::NotFound`] if no active edit has the id, [`UndoError::BuiltOn`] if a later edit overlaps its
    /// ranges.
    pub fn check_undo(&self, edit_id: &EditId) -> Result<(), UndoError> {
        // An omission hides parts and covers no range, so no later edit depends on an omission.
        if self.omissions.is_active(edit_id) {
            return Ok(());
        }
        let at = self
            .view
            .edits
            .iter()
            .position(|state| state.active && state.edit.id == *edit_id)
            .ok_or_else(|| UndoError::NotFound(edit_id.clone()))?;
        let touches =
            |state: &ViewEditState| {
                state.edit.ops.iter().any(|op| {
                    self.view.edits[at].edit.ops.iter().any(|mine| mine.range().overlaps(&op.range()))
                })
            };
        // The later edit was planned for a view with this edit: without the edit its ranges would no longer fit the
        // view.
        match self.view.edits[at + 1..].iter().find(|state| state.active && touches(state)) {
            Some(by) => Err(UndoError::BuiltOn { edit: edit_id.clone(), by: by.edit.id.clone() }),
            None => Ok(()),
        }
    }

    /// Returns the history with one more event, for previews.
    pub fn with(&self, body: EventBody) -> Self {
        let mut next = self.clone();
        // A preview has no time of its own, and `fold_body` does not move the history's clock.
        let event = Event { seq: self.log.last_seq + 1, at: 0, format: crate::event::FORMAT, body };
        next.log.last_seq = event.seq;
        next.fold_body(&event);
        next
    }

    /// Returns a hash of the view: equal hashes mean that the model is shown the same messages. The hash covers
    /// positions, edits and omissions, which suffice because the log is immutable.
    pub fn view_hash(&self) -> String {
        self.view.hash()
    }

    /// Returns the index into the view of the newest message that a person typed.
    pub fn newest_typed(&self) -> Option<usize> {
        self.view.items.iter().rposition(|item| item.kind == ViewItemKind::Typed)
    }

    /// Returns whether the view ends with an answer of the model, or is empty: nothing is to be answered then.
    pub fn is_answered(&self) -> bool {
        self.view.items.last().is_none_or(|item| item.message.role == Role::Assistant)
    }

    /// Returns whether the view ends with the beginning of a paused answer. The next answer continues that beginning.
    pub fn is_paused(&self) -> bool {
        self.paused_piece().is_some()
    }

    /// Returns whether the view ends with the beginning of an answer whose stream broke off.
    pub fn is_broken_off(&self) -> bool {
        self.paused_piece().is_some_and(|piece| self.log.broken_piece == Some(piece.seq))
    }

    /// Returns whether the present model's server has refused to continue a paused answer.
    pub fn refused_to_go_on(&self) -> bool {
        self.model_state.refused_to_go_on
    }

    /// Returns the paused answer that the next answer continues.
    pub(super) fn paused_piece(&self) -> Option<&LogEntry> {
        self.log.paused_piece(&self.view.items)
    }

    /// Returns the number of pauses in the newest answer.
    pub fn pauses(&self) -> u32 {
        self.log.entries.last().map_or(0, |entry| entry.pauses)
    }

    /// Returns an answer from its beginning up to `piece`, in the stored form.
    pub fn whole(&self, piece: &LogEntry) -> Message {
        self.log.whole(piece)
    }

    /// Returns whether a later piece that counts continues the answer of `piece`.
    pub fn is_continued(&self, piece: &LogEntry) -> bool {
        self.log.is_continued(piece)
    }

    /// Returns the tokens of the view by kind of content, for the display.
    pub fn breakdown(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        for item in &self.view.items {
            let parts = self.meter.counter.breakdown(&item.message);
            *sums.entry("text").or_default() += parts.text + parts.framing;
            *sums.entry("toolCalls").or_default() += parts.tool_calls;
            *sums.entry("toolResults").or_default() += parts.tool_results;
            *sums.entry("reasoning").or_default() += parts.reasoning;
            *sums.entry("media").or_default() += parts.media;
        }
        sums
    }
}
