//! What is known of a request's conversation, and what of it is kept for the next.

use std::sync::Arc;

use longhaul_core::event::ViewEdit;
use longhaul_core::message::ModelOrigin;
use longhaul_core::plan::{Plan, PlanTrigger};
use longhaul_store::memo::{PrefixCacheHit, PrefixCacheKey, PrefixCacheScope};
use tokio::sync::MutexGuard;

use super::conversation::{
    ConversationItems, ConversationState, GatewayConversation, ItemDigest, ItemNames, chain,
};
use super::log::ConversationLog;
use super::{UpstreamAttempt, fallback_summary, render_ops};
use longhaul_wire::edit::GatewayError;

/// Of what shaped a decision everything that is in no other part of its name.
const POLICY_VERSION: &str = "gateway-2";

/// Prefixes that are looked up at once, the longest ones.
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

    /// Bytes of the request that the state knows nothing of.
    pub(super) fn new_bytes(&self, state: &ConversationState) -> usize {
        let envelope = &self.exchange.envelope;
        let fixed = self.fixed_texts();
        let is_counted = state.fixed.as_ref().is_some_and(|(known, _)| fixed.iter().eq(known.iter()));
        let fixed_bytes = if is_counted { 0 } else { fixed.iter().map(|text| text.len()).sum() };
        envelope.bytes_from(state.log.items) + fixed_bytes
    }

    /// System prompt and tools as they are written.
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
        // What a client of another dialect calls the model's own item is none of this upstream's.
        let api = self.exchange.wire.dialect().as_str().to_owned();
        ConversationState::new(
            counter,
            ModelOrigin { provider: "client".to_owned(), api, ..origin },
            self.has_recall(),
        )
    }

    /// Returns whether the model has the tool `recall` in this request: only then does what stands in the place of
    /// what went name a handle.
    pub(super) fn has_recall(&self) -> bool {
        self.may_recall()
    }

    /// Who asks whom, and how.
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
        format!("{POLICY_VERSION}/{}/{asked:?}{recall}", self.strategy_name())
    }

    /// Adds what is new of the request. Whether what was decided in the middle of an answer came with it.
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

    /// Counts system prompt and tools, if they are others than last time.
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

    /// The names of the request's first items.
    pub(super) fn names(&self, items: usize) -> Vec<ItemDigest> {
        let items = items.min(self.exchange.envelope.items.len());
        self.conversation.as_ref().map(|conversation| conversation.names(items)).unwrap_or_default()
    }

    /// Does what the memo knows to do, if that is more than was done here. Returns whether it did.
    pub(super) async fn remember(
        &self,
        state: &mut ConversationState,
        fixed: u64,
    ) -> Result<bool, GatewayError> {
        let chain = self.work(|| chain(&self.names(usize::MAX))).await;
        let keys: Vec<PrefixCacheKey> =
            chain.iter().rev().take(MAX_KEYS).map(|name| self.memo_key(name)).collect();
        let Some(mut found) = self.found(&keys, chain.len()).await? else { return Ok(false) };
        // By the bare estimate, which both have: what the server has counted is known of one only.
        let total = |log: &ConversationLog| log.history.view_tokens();
        let (theirs, ours) = (total(&found), total(&state.log));
        let is_less = state.log.history.edits().is_empty() || theirs < ours;
        // Somebody else has got the summary that an extract stands for here.
        let is_summary = state.log.is_pending() && !found.is_pending();
        let fits = || matches!(self.plan(&found.history, fixed, &PlanTrigger::Routine), Plan::Fits);
        let takes = is_less || is_summary && self.work(fits).await;
        if takes {
            state.log = found;
        } else if theirs == ours {
            // The same extract: what was tried elsewhere is not tried here at once.
            state.log.pending().zip(found.pending()).for_each(|(own, other)| own.merge_state(other));
        }
        Ok(takes)
    }

    /// The log of the request with what was decided for the longest of its prefixes. What leaves out what the model is to
    /// answer was decided when that was not the newest: the client has gone back to it.
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

    /// The log of the request with edits that were made when `last` was the last of its items; `None` if they are none
    /// for it.
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

    /// Has the memo know what was decided; also under the item that the edits before touched last, if that is behind those
    /// that these touch: the longest prefix is found first.
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

    /// The same under an item of a later request of the conversation.
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

    /// The state of the request's conversation, if it is still this request's.
    pub(super) async fn state<'c>(
        &self,
        conversation: &'c GatewayConversation,
        items: usize,
    ) -> Option<MutexGuard<'c, ConversationState>> {
        let state = conversation.state.lock().await;
        (state.log.items == items).then_some(state)
    }
}
