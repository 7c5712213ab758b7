//! The lookup of a request's conversation in cache and memo, and the storing of its edits for later requests.

use std::sync::Arc;

use longhaul_core::event::ViewEdit;
use longhaul_core::message::ModelOrigin;
use longhaul_core::plan::{Plan, PlanTrigger};
use longhaul_store::memo::{PrefixCacheHit, PrefixCacheKey, PrefixCacheScope};
use tokio::sync::MutexGuard;

use super::context_management::ContextManagement;
use super::conversation::{
    ConversationItems, ConversationState, GatewayConversation, ItemDigest, ItemNames, chain,
};
use super::log::ConversationLog;
use super::{UpstreamAttempt, fallback_summary, render_ops};
use longhaul_wire::edit::GatewayError;

/// The version of all policy inputs that no other part of the memo's key contains.
const POLICY_VERSION: &str = "gateway-2";

/// The maximum number of prefixes in one lookup, the longest ones.
pub(super) const MAX_KEYS: usize = 4_096;

impl UpstreamAttempt {
    pub(super) async fn find_conversation(&self) -> Result<Arc<GatewayConversation>, GatewayError> {
        let (exchange, scope) = (&self.exchange, self.scope());
        let mut names = ItemNames::new(exchange.wire, &exchange.envelope);
        let conversations = &exchange.inner.conversations;
        conversations.recall(&scope, &mut names);
        let new_bytes = names.new_bytes();
        let find = || conversations.find(&scope, &mut names, || self.new_state());
        Ok(self.work_on(new_bytes, find).await?)
    }

    /// Returns the number of bytes of the request that the state does not know yet.
    pub(super) fn new_bytes(&self, state: &ConversationState) -> usize {
        let envelope = &self.exchange.envelope;
        let fixed = self.fixed_texts();
        let is_counted = state.fixed.as_ref().is_some_and(|(known, _)| fixed.iter().eq(known.iter()));
        let fixed_bytes = if is_counted { 0 } else { fixed.iter().map(|text| text.len()).sum() };
        envelope.bytes_from(state.log.items) + fixed_bytes
    }

    /// Returns system prompt and tools as they are written.
    fn fixed_texts(&self) -> [&str; 2] {
        let envelope = &self.exchange.envelope;
        let places = [&envelope.system_at, &envelope.tools_at];
        places.map(|at| at.as_ref().map(|at| envelope.text(at)).unwrap_or_default())
    }

    pub(super) fn known(&self) -> Result<ConversationItems, GatewayError> {
        let envelope = &self.exchange.envelope;
        let names = ItemNames::new(self.exchange.wire, envelope).all()?;
        Ok(ConversationItems { request: Arc::clone(envelope), names })
    }

    pub(super) fn new_state(&self) -> ConversationState {
        let origin = self.target.origin();
        let counter = (self.exchange.inner.parts.counter)(&origin);
        // The client's opaque items belong to its own API, not to this upstream's.
        let api = self.exchange.wire.dialect().as_str().to_owned();
        ConversationState::new(
            counter,
            ModelOrigin { provider: "client".to_owned(), api, ..origin },
            self.has_recall(),
        )
    }

    /// Returns whether the model has the tool `recall` in this conversation. Only then do placeholders name a handle.
    pub(super) fn has_recall(&self) -> bool {
        self.may_recall()
    }

    /// Returns a hash of caller, upstream, model, dialect and policy: the scope of a conversation.
    pub(super) fn scope(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("longhaul 2026 gateway conversation");
        let dialect = self.exchange.wire.dialect().as_str();
        for part in [&self.target.server.upstream.name, &self.target.model, dialect, &self.policy_name()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.update(&self.exchange.caller);
        *hasher.finalize().as_bytes()
    }

    pub(super) fn policy_name(&self) -> String {
        let asked = self.exchange.overrides.trigger;
        let recall = if self.has_recall() { "/recall" } else { "" };
        let wishes = self.context_management().map(ContextManagement::policy_name).unwrap_or_default();
        format!("{POLICY_VERSION}/{}/{asked:?}{recall}{wishes}", self.strategy_name())
    }

    /// Adds the request's new items. Returns whether edits from the middle of an answer came with them.
    pub(super) fn append_new_items(&self, state: &mut ConversationState) -> Result<bool, GatewayError> {
        let (wire, envelope) = (self.exchange.wire, &self.exchange.envelope);
        let (from, to) = (state.log.items, envelope.items.len());
        let mut took = false;
        if from == to && state.log.feed(Vec::new()).is_err() {
            return Ok(false);
        }
        if from < to {
            let items: Vec<&str> = (from..to).map(|index| envelope.item(index)).collect();
            let pieces = wire.segments(&items, from)?;
            state.count(&pieces);
            took = state.take_midway(&pieces);
            if state.log.feed(pieces).is_err() {
                *state = self.new_state();
                return self.append_new_items(state);
            }
            let noticed = (from..to).filter(|index| render_ops::without_notices(envelope, *index).is_some());
            state.items_with_notices.extend(noticed);
        }
        self.count_fixed(state)?;
        Ok(took)
    }

    /// Counts system prompt and tools if they have changed.
    fn count_fixed(&self, state: &mut ConversationState) -> Result<(), GatewayError> {
        let raw = self.fixed_texts();
        if state.fixed.as_ref().is_some_and(|(known, _)| raw.iter().eq(known.iter())) {
            return Ok(());
        }
        let fixed = self.exchange.wire.fixed_content(&self.exchange.envelope)?;
        let counter = state.log.history.counter();
        let head: u64 = state.log.system.iter().map(|part| counter.part(part)).sum();
        let tools: u64 = fixed.tools.iter().map(|tool| counter.tool(tool)).sum();
        let tokens = head + counter.text(&fixed.system) + tools + counter.framing().reply;
        state.fixed = Some((raw.map(str::to_owned), tokens));
        Ok(())
    }

    /// Returns the names of the request's first items.
    pub(super) fn names(&self, items: usize) -> Vec<ItemDigest> {
        let items = items.min(self.exchange.envelope.items.len());
        self.conversation.as_ref().map(|conversation| conversation.names(items)).unwrap_or_default()
    }

    /// Adopts the memo's edits if they shorten the view more than the own ones. Returns whether they were adopted.
    pub(super) async fn remember(
        &self,
        state: &mut ConversationState,
        fixed: u64,
    ) -> Result<bool, GatewayError> {
        let chain = self.work(|| chain(&self.names(usize::MAX))).await;
        let keys: Vec<PrefixCacheKey> =
            chain.iter().rev().take(MAX_KEYS).map(|name| self.memo_key(name)).collect();
        let Some(mut found) = self.found(&keys, chain.len()).await? else { return Ok(false) };
        // Only the bare estimate is comparable: the upstream has counted at most one of the two views.
        let total = |log: &ConversationLog| log.history.view_tokens();
        let (theirs, ours) = (total(&found), total(&state.log));
        let is_less = state.log.history.edits().is_empty() || theirs < ours;
        // Another request has stored the summary for which an extract waits here.
        let is_summary = state.log.is_pending() && !found.is_pending();
        let fits = || matches!(self.plan(&found.history, fixed, &PlanTrigger::Routine), Plan::Fits);
        let takes = is_less || is_summary && self.work(fits).await;
        if takes {
            state.log = found;
        } else if theirs == ours {
            // Both views hold the same extract, so failed attempts elsewhere also delay the next one here.
            state.log.pending().zip(found.pending()).for_each(|(own, other)| own.merge_state(other));
        }
        Ok(takes)
    }

    /// Returns the request's log with the edits stored for its longest prefix. Edits that hide the messages to be
    /// answered are skipped. They were made further on, and the client has gone back since.
    async fn found(
        &self,
        keys: &[PrefixCacheKey],
        items: usize,
    ) -> Result<Option<ConversationLog>, GatewayError> {
        let mut from = 0;
        while from < keys.len() {
            let found = match self.exchange.inner.parts.memo.find(&keys[from..]).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%error, "what was decided for earlier requests cannot be read");
                    None
                }
            };
            let Some(PrefixCacheHit { edits, index }) = found else { return Ok(None) };
            let last = items - 1 - from - index;
            let Some(log) = self.work(|| self.log_with(edits, last)).await? else { return Ok(None) };
            if log.shows_newest() {
                return Ok(Some(log));
            }
            from += index + 1;
        }
        Ok(None)
    }

    /// Returns the request's log with edits that were made when `last` was its last item; `None` if they do not apply.
    fn log_with(&self, edits: Vec<ViewEdit>, last: usize) -> Result<Option<ConversationLog>, GatewayError> {
        let envelope = &self.exchange.envelope;
        let items: Vec<&str> = (0..envelope.items.len()).map(|index| envelope.item(index)).collect();
        let mut pieces = self.exchange.wire.segments(&items, 0)?;
        let rest = pieces.split_off(last + 1);
        let mut log = self.new_state().log;
        let follows = log.feed(pieces).is_ok();
        fallback_summary::from_memo(edits).into_iter().for_each(|(edit, stopgap)| log.commit(edit, stopgap));
        Ok((follows && log.feed(rest).is_ok()).then_some(log))
    }

    pub(super) fn memo_key(&self, prefix: &[u8; 32]) -> PrefixCacheKey {
        let upstream = format!("{}/{}", self.target.server.upstream.name, self.target.model);
        let policy = self.policy_name();
        let scope =
            PrefixCacheScope { credential: &self.exchange.caller, upstream: &upstream, policy: &policy };
        PrefixCacheKey::new(&scope, prefix)
    }

    /// Stores the edits in the memo under the last item that they touch. `before` is the last item of the earlier
    /// edits. If that item is later, the edits are stored there, too, because the longest prefix is found first.
    pub(super) async fn keep(&self, log: &ConversationLog, before: Option<usize>) {
        let Some((edits, item)) = log.portable() else { return };
        let edits = fallback_summary::to_memo(edits);
        let before = before.filter(|before| *before > item);
        let chain = self.work(|| chain(&self.names(before.unwrap_or(item) + 1))).await;
        for at in [Some(item), before].into_iter().flatten() {
            let Some(prefix) = chain.get(at) else { continue };
            self.put(prefix, &edits).await;
        }
    }

    /// Stores the edits under an item of a later request of the conversation.
    pub(super) async fn keep_later(
        &self,
        log: &ConversationLog,
        conversation: &GatewayConversation,
        item: usize,
    ) {
        let Some((edits, _)) = log.portable() else { return };
        let chain = self.work(|| chain(&conversation.names(item + 1))).await;
        if let Some(prefix) = chain.get(item) {
            self.put(prefix, &fallback_summary::to_memo(edits)).await;
        }
    }

    async fn put(&self, prefix: &[u8; 32], edits: &[ViewEdit]) {
        if let Err(error) = self.exchange.inner.parts.memo.put(self.memo_key(prefix), edits).await {
            tracing::warn!(%error, "what was decided cannot be remembered");
        }
    }

    /// Returns the state of the conversation if it still belongs to this request.
    pub(super) async fn state<'c>(
        &self,
        conversation: &'c GatewayConversation,
        items: usize,
    ) -> Option<MutexGuard<'c, ConversationState>> {
        let state = conversation.state.lock().await;
        (state.log.items == items).then_some(state)
    }
}
