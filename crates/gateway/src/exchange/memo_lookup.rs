//! The lookup of a request's conversation in cache and memo, the storing of its edits for later requests, and the
//! queue for summaries of conversations with one beginning.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use longhaul_core::event::{EditKind, EditReason, ViewEdit};
use longhaul_core::shortening::FallbackSummary;
use longhaul_store::prefix_cache::{PrefixCacheHit, PrefixCacheKey, PrefixCacheScope};
use tokio::sync::{MutexGuard, OwnedMutexGuard};

use super::cache::{self, ConversationKey};
use super::context_management::ContextManagement;
use super::conversation::{ConversationState, GatewayConversation, ItemDigest, ItemNames, chain};
use super::log::ConversationLog;
use super::prepare::OutboundRequest;
use super::targeted_request::TargetedRequest;
use longhaul_wire::edit::GatewayError;

/// The version of all policy inputs that no other part of the memo's key contains.
const POLICY_VERSION: &str = "gateway-2";

/// The part of the policy's name for summaries written ahead of need.
const AHEAD: &str = "ahead-1";

/// The maximum number of prefixes in one lookup, the longest ones.
pub(super) const MAX_KEYS: usize = 4_096;

/// The conversation of a request, and the names under which the memo stores its edits.
#[derive(Clone)]
pub(super) struct ConversationMemo {
    pub(super) request: Arc<TargetedRequest>,
    /// The conversation, once found.
    pub(super) conversation: Option<Arc<GatewayConversation>>,
    /// The scope, computed when first needed: a request uses the scope several times, and formatting and
    /// hashing have a cost.
    scope: OnceLock<[u8; 32]>,
}

impl ConversationMemo {
    /// Creates the memo of a request whose conversation is not found yet.
    pub(super) fn new(request: Arc<TargetedRequest>) -> Self {
        Self { request, conversation: None, scope: OnceLock::new() }
    }

    /// Returns whether another request has stored the summary, or has just failed to get one.
    pub(super) async fn is_settled_elsewhere(&self) -> bool {
        let chain = self.request.work(|| chain(&self.names(usize::MAX))).await;
        // The longest prefixes are the likeliest to have edits, so a limited look-up begins with them.
        let keys: Vec<_> = chain.iter().rev().take(MAX_KEYS).map(|name| self.memo_key(name)).collect();
        let now = (self.request.proxied.inner.parts.now)();
        // A memo that cannot be read counts as empty: the summary is then written here.
        let found = self.request.proxied.inner.parts.memo.find(&keys).await.ok().flatten();
        found.is_some_and(|found| {
            let edits = from_memo(found.edits);
            !edits.iter().any(|(_, stopgap)| stopgap.is_some_and(|stopgap| stopgap.is_due(now)))
        })
    }

    /// Returns the conversation that the request continues, or a new one.
    ///
    /// # Errors
    /// [`GatewayError`] if an item cannot be read.
    pub(super) async fn find_conversation(&self) -> Result<Arc<GatewayConversation>, GatewayError> {
        let (exchange, scope) = (&self.request.proxied, self.scope());
        let mut names = ItemNames::new(exchange.wire, &exchange.envelope);
        let conversations = &exchange.inner.conversations;
        // Known names come first: items with equal bytes need neither a parse nor a hash.
        conversations.recall(&scope, &mut names);
        let new_bytes = names.new_bytes();
        let found = self.request.work_on(new_bytes, || {
            conversations.find(&scope, &mut names, || self.request.reader().new_state())
        });
        Ok(found.await?)
    }

    /// Returns a hash of caller, upstream, model, dialect and policy: the scope of a conversation.
    pub(super) fn scope(&self) -> [u8; 32] {
        *self.scope.get_or_init(|| self.hash_scope())
    }

    fn hash_scope(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("longhaul 2026 gateway conversation");
        let dialect = self.request.proxied.wire.dialect().as_str();
        for part in [
            &self.request.target.server.upstream.name,
            &self.request.target.model,
            dialect,
            &self.policy_name(),
        ] {
            // The lengths keep two lists of names with the same letters apart.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        // Conversations of different callers stay apart, even with equal bytes.
        hasher.update(&self.request.proxied.caller);
        *hasher.finalize().as_bytes()
    }

    /// Returns a name that differs for policies that lead to different views.
    pub(super) fn policy_name(&self) -> String {
        let asked = self.request.proxied.overrides.trigger;
        // With `recall` the view has other texts, so its edits must not be found by requests without the tool.
        let recall = if self.request.reader().has_recall() { "/recall" } else { "" };
        let wishes =
            self.request.context_management().map(ContextManagement::policy_name).unwrap_or_default();
        format!("{POLICY_VERSION}/{}/{asked:?}{recall}{wishes}", self.request.strategy_name())
    }

    /// Returns the names of the request's first items.
    pub(super) fn names(&self, items: usize) -> Vec<ItemDigest> {
        let items = items.min(self.request.proxied.envelope.items.len());
        self.conversation.as_ref().map(|conversation| conversation.names(items)).unwrap_or_default()
    }

    /// Returns the request's log with the edits stored for its longest prefix. Edits that hide the messages to
    /// be answered are skipped: the client has gone back to a point before such edits.
    pub(super) async fn found(
        &self,
        keys: &[PrefixCacheKey],
        items: usize,
    ) -> Result<Option<ConversationLog>, GatewayError> {
        let mut from = 0;
        while from < keys.len() {
            let found = match self.request.proxied.inner.parts.memo.find(&keys[from..]).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%error, "what was decided for earlier requests cannot be read");
                    None
                }
            };
            let Some(PrefixCacheHit { edits, index }) = found else { return Ok(None) };
            // Keys are in reverse order: the first one names the whole request.
            let last = items - 1 - from - index;
            let Some(log) = self.request.work(|| self.request.reader().log_with(edits, last)).await? else {
                return Ok(None);
            };
            if log.shows_newest() {
                return Ok(Some(log));
            }
            tracing::debug!(item = last, "stored edits hide the newest message and are not used");
            // A shorter prefix may have edits that fit the earlier point of the conversation.
            from += index + 1;
        }
        Ok(None)
    }

    /// Returns the key of the edits in force for a prefix.
    pub(super) fn memo_key(&self, prefix: &[u8; 32]) -> PrefixCacheKey {
        self.key_of_policy(&self.policy_name(), prefix)
    }

    /// Returns the key of a summary written ahead of need. It does not take the place of the edits in force: until the
    /// view is full a restart must not change it.
    pub(super) fn ahead_key(&self, prefix: &[u8; 32]) -> PrefixCacheKey {
        self.key_of_policy(&format!("{AHEAD}/{}", self.policy_name()), prefix)
    }

    fn key_of_policy(&self, policy: &str, prefix: &[u8; 32]) -> PrefixCacheKey {
        let upstream = format!("{}/{}", self.request.target.server.upstream.name, self.request.target.model);
        let scope =
            PrefixCacheScope { credential: &self.request.proxied.caller, upstream: &upstream, policy };
        PrefixCacheKey::new(&scope, prefix)
    }

    /// Stores the edits in the memo under the last touched item. `before` is the last item of the earlier
    /// edits. If `before` is later, the edits are stored there, too, because the longest prefix is found first.
    pub(super) async fn keep(&self, log: &ConversationLog, before: Option<usize>) {
        let Some((edits, item)) = log.portable() else { return };
        let edits = to_memo(edits);
        let before = before.filter(|before| *before > item);
        let chain = self.request.work(|| chain(&self.names(before.unwrap_or(item) + 1))).await;
        tracing::debug!(
            edits = edits.len(),
            item,
            "the edits of a conversation are stored for later requests"
        );
        for at in [Some(item), before].into_iter().flatten() {
            let Some(prefix) = chain.get(at) else { continue };
            self.put(self.memo_key(prefix), &edits).await;
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
        let chain = self.request.work(|| chain(&conversation.names(item + 1))).await;
        if let Some(prefix) = chain.get(item) {
            self.put(self.memo_key(prefix), &to_memo(edits)).await;
        }
    }

    /// Stores a summary written ahead of need, with the edits before it, until the view is full.
    pub(super) async fn keep_ahead(&self, log: &ConversationLog) {
        let Some((edits, item)) = log.portable() else { return };
        let chain = self.request.work(|| chain(&self.names(item + 1))).await;
        if let Some(prefix) = chain.get(item) {
            self.put(self.ahead_key(prefix), &to_memo(edits)).await;
        }
    }

    /// Returns whether a summary written ahead of need is stored for the conversation with so many edits. Another process
    /// may have written it, or this one before a restart.
    pub(super) async fn has_summary_ahead(&self, edits: usize) -> bool {
        let chain = self.request.work(|| chain(&self.names(usize::MAX))).await;
        let keys: Vec<_> = chain.iter().rev().take(MAX_KEYS).map(|name| self.ahead_key(name)).collect();
        let found = self.request.proxied.inner.parts.memo.find(&keys).await.ok().flatten();
        found.is_some_and(|found| from_memo(found.edits).len() > edits)
    }

    /// Stores edits under a key. A failure is logged: the request does not depend on the memo.
    async fn put(&self, key: PrefixCacheKey, edits: &[ViewEdit]) {
        if let Err(error) = self.request.proxied.inner.parts.memo.put(key, edits).await {
            tracing::warn!(%error, "what was decided cannot be remembered");
        }
    }

    /// Returns the conversation's state if still owned by the request.
    pub(super) async fn state<'c>(
        &self,
        conversation: &'c GatewayConversation,
        items: usize,
    ) -> Option<MutexGuard<'c, ConversationState>> {
        let state = conversation.state.lock().await;
        // Another request may have extended the conversation while this one was at the upstream.
        (state.log.items == items).then_some(state)
    }

    /// Waits until no other conversation with the same beginning is writing a summary. Such a summary may serve
    /// both.
    pub(super) async fn turn(&self) -> OwnedMutexGuard<()> {
        self.request.proxied.inner.single_flight.wait(self.beginning()).await
    }

    /// Returns the name of the conversation's beginning.
    pub(super) fn beginning(&self) -> [u8; 32] {
        // The first two items identify a conversation: the first is often a system prompt shared by all.
        let names = self.names(2);
        let first = names.first().copied().unwrap_or_default();
        cache::head(&self.scope(), &first, names.get(1))
    }

    /// Records the upstream's count of the input of a stream that was left.
    pub(super) async fn count_left(&self, left: &OutboundRequest, tokens: u64) {
        let Some(conversation) = &self.conversation else { return };
        if let Some(mut state) = self.state(conversation, left.items).await {
            state.log.count(tokens, &left.start);
        }
    }
}

/// A queue for summaries: conversations with the same beginning write one at a time, because a summary may serve all
/// of them. Each beginning has a queue as long as a request waits.
#[derive(Default)]
pub(crate) struct SingleFlight {
    queues: Mutex<HashMap<ConversationKey, Weak<tokio::sync::Mutex<()>>>>,
}

impl SingleFlight {
    /// Waits until no other conversation with this beginning is writing a summary. Dropping the guard ends the turn.
    pub(super) async fn wait(&self, head: ConversationKey) -> OwnedMutexGuard<()> {
        let queue = {
            let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            // Beginnings come from clients, so unused queues are removed.
            queues.retain(|_, queue| queue.strong_count() > 0);
            let known = queues.get(&head).and_then(Weak::upgrade);
            let queue = known.unwrap_or_default();
            queues.insert(head, Arc::downgrade(&queue));
            queue
        };
        queue.lock_owned().await
    }
}

/// An edit, with the history of its summary if the edit holds an extract.
pub(super) type DecidedEdit = (ViewEdit, Option<FallbackSummary>);

/// The strategy name of an extra entry, as a mark for fallback summaries among the edits before the entry. The
/// memo stores only edits.
const EXTRACTS_NAME: &str = "stopgap";

/// Returns the edits in the form of the memo.
pub(super) fn to_memo(edits: Vec<DecidedEdit>) -> Vec<ViewEdit> {
    let (mut kept, stopgaps): (Vec<ViewEdit>, Vec<Option<FallbackSummary>>) = edits.into_iter().unzip();
    if stopgaps.iter().any(Option::is_some) {
        // Serialising numbers cannot fail.
        kept.push(extracts_entry(serde_json::to_string(&stopgaps).unwrap_or_default()));
    }
    kept
}

/// Returns the edits of a memo entry.
pub(super) fn from_memo(mut edits: Vec<ViewEdit>) -> Vec<DecidedEdit> {
    // The entry is the last one. Edits without an extract have none.
    let said = edits.pop_if(|edit| edit.strategy == EXTRACTS_NAME && edit.ops.is_empty());
    let stopgaps = said.and_then(|said| serde_json::from_str::<Vec<Option<FallbackSummary>>>(&said.why).ok());
    let mut stopgaps = stopgaps.unwrap_or_default().into_iter();
    edits.into_iter().map(|edit| (edit, stopgaps.next().flatten())).collect()
}

/// Returns the extra entry with the history of the extracts.
fn extracts_entry(why: String) -> ViewEdit {
    ViewEdit {
        id: EXTRACTS_NAME.into(),
        base_view_hash: String::new(),
        ops: Vec::new(),
        kind: EditKind::Prune,
        strategy: EXTRACTS_NAME.to_owned(),
        reason: EditReason::TokenLimit,
        trigger_tokens: 0,
        original_tokens: 0,
        compressed_tokens: 0,
        original_bound: 0,
        compressed_bound: 0,
        original_messages: 0,
        compressed_messages: 0,
        why,
        usage: None,
        summary: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::shortening::MissingSummaryCause;

    #[test]
    fn a_memo_keeps_them_beside_their_edits() {
        let edits = |marks: [Option<FallbackSummary>; 2]| {
            let edit = |id: &str| ViewEdit {
                id: id.into(),
                strategy: "s".to_owned(),
                ..extracts_entry(String::new())
            };
            vec![(edit("a"), marks[0]), (edit("b"), marks[1])]
        };
        let stopgap = FallbackSummary::new(MissingSummaryCause::Away, 7);
        for marks in [[None, None], [None, Some(stopgap)], [Some(stopgap), None]] {
            assert_eq!(from_memo(to_memo(edits(marks))), edits(marks));
        }
        assert_eq!(to_memo(edits([None, None])).len(), 2, "as it ever was");
    }
}
