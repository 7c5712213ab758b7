//! The reading of the client's items into a log of the conversation.

use std::sync::Arc;

use longhaul_core::event::ViewEdit;
use longhaul_core::history::request_messages;
use longhaul_core::message::{Message, ModelOrigin, Role};
use longhaul_wire::edit::{GatewayError, RenderOp};

use super::conversation::{ConversationItems, ConversationState, ItemNames};
use super::log::ConversationLog;
use super::prepare::{NeutralConversation, neutral_conversation};
use super::recall::RecallRounds;
use super::targeted_request::TargetedRequest;
use super::{memo_lookup, render_ops};

/// A reader of the items of one request.
pub(super) struct ItemReader<'a> {
    pub(super) request: &'a TargetedRequest,
}

impl ItemReader<'_> {
    /// Returns the number of bytes of the request beyond the known state.
    pub(super) fn new_bytes(&self, state: &ConversationState) -> usize {
        let envelope = &self.request.proxied.envelope;
        let fixed = self.request.fixed_texts();
        // Counting the tools again takes most of the time of a short request, and they rarely change.
        let is_counted = state.fixed.as_ref().is_some_and(|(known, _)| fixed.iter().eq(known.iter()));
        let fixed_bytes = if is_counted { 0 } else { fixed.iter().map(|text| text.len()).sum() };
        envelope.bytes_from(state.log.items) + fixed_bytes
    }

    /// Returns all items of the request with their names.
    ///
    /// # Errors
    /// [`GatewayError`] if an item cannot be read.
    pub(super) fn known(&self) -> Result<ConversationItems, GatewayError> {
        let envelope = &self.request.proxied.envelope;
        let names = ItemNames::new(self.request.proxied.wire, envelope).all()?;
        Ok(ConversationItems { request: Arc::clone(envelope), names })
    }

    /// Returns the state of a conversation without items.
    pub(super) fn new_state(&self) -> ConversationState {
        let origin = self.request.target.origin();
        let counter = (self.request.proxied.inner.parts.counter)(&origin);
        // The client's opaque items belong to its own API, not to this upstream's.
        let api = self.request.proxied.wire.dialect().as_str().to_owned();
        ConversationState::new(
            counter,
            ModelOrigin { provider: "client".to_owned(), api, ..origin },
            self.has_recall(),
        )
    }

    /// Returns whether the model has the tool `recall` in this conversation. Only then do placeholders name a handle.
    pub(super) fn has_recall(&self) -> bool {
        self.request.tools().may_recall()
    }

    /// Adds the request's new items. Returns whether edits from the middle of an answer came with them.
    pub(super) fn append_new_items(&self, state: &mut ConversationState) -> Result<bool, GatewayError> {
        let (wire, envelope) = (self.request.proxied.wire, &self.request.proxied.envelope);
        let (from, to) = (state.log.items, envelope.items.len());
        let mut took = false;
        // The same request again: a report may now count as the size of the view.
        if from == to && state.log.feed(Vec::new()).is_err() {
            return Ok(false);
        }
        if from < to {
            let items: Vec<&str> = (from..to).map(|index| envelope.item(index)).collect();
            let pieces = wire.parse_segments(&items, from)?;
            state.count(&pieces);
            took = state.take_midway(&pieces);
            if state.log.feed(pieces).is_err() {
                // The client's answer goes on where the log took it for complete, so the log is read anew.
                *state = self.new_state();
                return self.append_new_items(state);
            }
            let noticed = (from..to).filter(|index| render_ops::without_notices(envelope, *index).is_some());
            state.items_with_notices.extend(noticed);
        }
        self.count_fixed(state)?;
        Ok(took)
    }

    /// Counts system prompt and tools after a change.
    fn count_fixed(&self, state: &mut ConversationState) -> Result<(), GatewayError> {
        let raw = self.request.fixed_texts();
        if state.fixed.as_ref().is_some_and(|(known, _)| raw.iter().eq(known.iter())) {
            return Ok(());
        }
        let fixed = self.request.proxied.wire.fixed_content(&self.request.proxied.envelope)?;
        let counter = state.log.history.counter();
        // System messages among the items precede the view and are in none of its counts.
        let head: u64 = state.log.system.iter().map(|part| counter.part(part)).sum();
        let tools: u64 = fixed.tools.iter().map(|tool| counter.tool(tool)).sum();
        let tokens = head + counter.text(&fixed.system) + tools + counter.framing().reply;
        state.fixed = Some((raw.map(str::to_owned), tokens));
        Ok(())
    }

    /// Returns the request's log with edits made when `last` was the last item; `None` if the edits do not
    /// apply.
    pub(super) fn log_with(
        &self,
        edits: Vec<ViewEdit>,
        last: usize,
    ) -> Result<Option<ConversationLog>, GatewayError> {
        let envelope = &self.request.proxied.envelope;
        let items: Vec<&str> = (0..envelope.items.len()).map(|index| envelope.item(index)).collect();
        let mut pieces = self.request.proxied.wire.parse_segments(&items, 0)?;
        // The edits are committed where they were made, so that later positions come out as before.
        let rest = pieces.split_off(last + 1);
        let mut log = self.new_state().log;
        let follows = log.feed(pieces).is_ok();
        memo_lookup::from_memo(edits).into_iter().for_each(|(edit, stopgap)| log.commit(edit, stopgap));
        Ok((follows && log.feed(rest).is_ok()).then_some(log))
    }

    /// Returns the client's items without the gateway's notices; `None` if no item has one.
    pub(super) fn cleaned(&self) -> Option<Vec<RenderOp>> {
        let envelope = &self.request.proxied.envelope;
        render_ops::clean(None, &render_ops::items_with_notices(envelope), envelope)
    }

    /// Returns the request's own items in neutral form, without a conversation.
    ///
    /// # Errors
    /// [`GatewayError`] if an item cannot be read.
    pub(super) fn said_alone(&self) -> Result<NeutralConversation, GatewayError> {
        let mut state = self.new_state();
        self.append_new_items(&mut state)?;
        Ok(neutral_conversation(&state.log))
    }

    /// Returns the hidden steps as neutral messages, for an upstream of another dialect.
    ///
    /// # Errors
    /// [`GatewayError`] if an item cannot be read.
    pub(super) fn neutral_rounds(&self, rounds: &RecallRounds) -> Result<Vec<Message>, GatewayError> {
        self.neutral_items(&rounds.items)
    }

    /// Returns items of hidden steps as neutral messages.
    ///
    /// # Errors
    /// [`GatewayError`] if an item cannot be read.
    pub(super) fn neutral_items(&self, items: &[String]) -> Result<Vec<Message>, GatewayError> {
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let pieces =
            self.request.proxied.wire.parse_segments(&items, self.request.proxied.envelope.items.len())?;
        let mut log = self.new_state().log;
        // An empty log accepts any items.
        let _ = log.feed(pieces);
        let mut messages = request_messages(log.history.view());
        // These messages follow the request, so the opening user message that the log adds is not needed.
        if messages.first().is_some_and(|first| first.role == Role::User) {
            messages.remove(0);
        }
        Ok(messages)
    }
}
