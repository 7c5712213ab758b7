//! The caches of conversations and of parsed requests. Conversations go by their last use. A request that extends an
//! earlier one is parsed only from the earlier end on.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

use super::conversation::{ConversationItems, ConversationState, GatewayConversation, ItemDigest, ItemNames};
use longhaul_wire::edit::{ParseError, RequestEnvelope, WireCodec};

/// The shared properties of one conversation's requests beside their items: caller, upstream, model, policy.
pub(super) type ConversationScope = [u8; 32];

/// The name of a conversation's beginning.
pub(super) type ConversationKey = [u8; 32];

/// A cheap fingerprint of a request's beginning. Requests with equal fingerprints are compared.
type RequestFingerprint = [u8; 32];

/// The number of bytes at each end of an item for the fingerprint.
const EDGE_BYTES: usize = 64;

/// The number of remembered fingerprints for each conversation in the cache.
const STARTS_OF_ONE: usize = 4;

pub(crate) struct ConversationCache {
    max_entries: usize,
    max_bytes: usize,
    entries: Mutex<ConversationEntries>,
}

#[derive(Default)]
struct ConversationEntries {
    by_head: HashMap<ConversationKey, Vec<ConversationEntry>>,
    /// The entries by their last use, the oldest first, with their keys.
    by_use: BTreeMap<u64, ConversationKey>,
    /// The newest conversation with the same beginning, as written.
    by_start: HashMap<RequestFingerprint, Weak<GatewayConversation>>,
    uses: u64,
    count: usize,
    bytes: usize,
}

struct ConversationEntry {
    conversation: Arc<GatewayConversation>,
    used: u64,
    bytes: usize,
}

impl ConversationCache {
    pub(crate) fn new(max_entries: usize, max_bytes: usize) -> Self {
        Self { max_entries: max_entries.max(1), max_bytes, entries: Mutex::default() }
    }

    /// Returns the request's cached conversation, updated to the request; otherwise a new one.
    ///
    /// # Errors
    /// [`ParseError`] if an item is no JSON of the dialect.
    pub(super) fn find(
        &self,
        scope: &ConversationScope,
        names: &mut ItemNames<'_>,
        new: impl FnOnce() -> ConversationState,
    ) -> Result<Arc<GatewayConversation>, ParseError> {
        let envelope = names.envelope();
        // Without items there is nothing by which a later request could find the conversation.
        if names.len() == 0 {
            let known = ConversationItems { request: Arc::clone(envelope), names: Vec::new() };
            return Ok(Arc::new(GatewayConversation::new(known, new())));
        }
        let first = names.get(0)?;
        let second = if names.len() == 1 { None } else { Some(names.get(1)?) };
        // The first item is often a system prompt that all conversations share. The second tells them apart.
        let short = head(scope, &first, None);
        let long = second.map(|second| head(scope, &first, Some(&second)));
        let heads = [long, Some(short)];
        // Items are parsed before the cache is locked, so that other requests need not wait.
        for candidate in self.candidates(&heads) {
            names.extend(&candidate.known())?;
        }
        let known = ConversationItems { request: Arc::clone(envelope), names: names.all()? };
        let starts = starts(scope, envelope);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        // The longer name comes first, because it belongs to fewer conversations.
        for head in heads.iter().flatten() {
            if found.is_none() {
                found = entries.take(head, names)?;
            }
        }
        let conversation = match found {
            Some(found) => {
                *found.known() = known;
                found
            }
            None => Arc::new(GatewayConversation::new(known, new())),
        };
        entries.begin(&starts, &conversation, self.max_entries);
        // Under the longer name as soon as there is one, so that conversations with one system prompt stay apart.
        entries.put(long.unwrap_or(short), &conversation);
        // Sized after it is in the map, because a new entry counts as empty.
        entries.update_entry_size(&conversation, conversation.bytes(), self.max_bytes);
        entries.evict_least_recent(self.max_entries, self.max_bytes);
        Ok(conversation)
    }

    /// Names the items that a cached conversation has in the same bytes. The cost is that of a comparison.
    pub(super) fn recall(&self, scope: &ConversationScope, names: &mut ItemNames<'_>) {
        let starts = starts(scope, names.envelope());
        // The lock ends with this block, because the comparison below may take long.
        let alike: Vec<Arc<GatewayConversation>> = {
            let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            starts.iter().filter_map(|start| entries.by_start.get(start)?.upgrade()).collect()
        };
        // Compared after the lock is released: comparing long requests takes time.
        alike.iter().for_each(|conversation| names.recall_all(&conversation.known()));
        let Some(first) = names.made(0) else { return };
        let heads =
            [names.made(1).map(|second| head(scope, &first, Some(&second))), Some(head(scope, &first, None))];
        for candidate in self.candidates(&heads) {
            names.recall(&candidate.known(), 0);
        }
    }

    /// Updates the size of a conversation. A conversation above the size of the whole cache is evicted, and the
    /// next request is read anew.
    pub(super) fn update_size(&self, conversation: &Arc<GatewayConversation>) {
        let bytes = conversation.bytes();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.update_entry_size(conversation, bytes, self.max_bytes);
        entries.evict_least_recent(self.max_entries, self.max_bytes);
    }

    fn candidates(&self, heads: &[Option<ConversationKey>]) -> Vec<Arc<GatewayConversation>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = heads.iter().flatten().filter_map(|head| entries.by_head.get(head));
        lists.flatten().map(|entry| Arc::clone(&entry.conversation)).collect()
    }
}

impl ConversationEntries {
    /// Takes out the longest conversation at the start of the request.
    fn take(
        &mut self,
        head: &ConversationKey,
        names: &mut ItemNames<'_>,
    ) -> Result<Option<Arc<GatewayConversation>>, ParseError> {
        let Some(list) = self.by_head.get(head) else { return Ok(None) };
        let mut best: Option<(usize, usize)> = None;
        for (at, entry) in list.iter().enumerate() {
            let known = entry.conversation.known();
            let length = known.request.items.len();
            // A shorter conversation than the best one cannot win, so its items are not compared.
            if best.is_none_or(|(_, longest)| length > longest) && names.extend(&known)? {
                best = Some((at, length));
            }
        }
        let used = best.and_then(|(at, _)| list.get(at)).map(|entry| entry.used);
        Ok(used.and_then(|used| self.remove(head, used)))
    }

    fn put(&mut self, head: ConversationKey, conversation: &Arc<GatewayConversation>) {
        self.uses += 1;
        self.count += 1;
        let used = self.uses;
        // The number finds the entry again from the conversation, without a search through all entries.
        conversation.used.store(used, Ordering::Relaxed);
        self.by_use.insert(used, head);
        let entry = ConversationEntry { conversation: Arc::clone(conversation), used, bytes: 0 };
        self.by_head.entry(head).or_default().push(entry);
    }

    /// Updates the size of an entry in the cache. An entry above the size of the whole cache is removed.
    fn update_entry_size(&mut self, conversation: &GatewayConversation, bytes: usize, max_bytes: usize) {
        let used = conversation.used.load(Ordering::Relaxed);
        // The conversation may have been evicted meanwhile. Its size does not matter then.
        let Some(head) = self.by_use.get(&used).copied() else { return };
        let mut list = self.by_head.get_mut(&head).into_iter().flatten();
        let Some(entry) = list.find(|entry| entry.used == used) else { return };
        // The sum comes first: unsigned numbers must not pass below zero.
        self.bytes = self.bytes + bytes - std::mem::replace(&mut entry.bytes, bytes);
        if bytes > max_bytes {
            tracing::info!(bytes, most = max_bytes, "a conversation is too large to be kept ready");
            self.remove(&head, used);
        }
    }

    fn begin(
        &mut self,
        starts: &[RequestFingerprint],
        conversation: &Arc<GatewayConversation>,
        max_entries: usize,
    ) {
        if self.by_start.len() >= STARTS_OF_ONE * max_entries {
            self.by_start.retain(|_, begun| begun.strong_count() > 0);
        }
        if self.by_start.len() >= STARTS_OF_ONE * max_entries {
            // Losing the fingerprints costs one full parse for each conversation.
            self.by_start.clear();
        }
        self.by_start.extend(starts.iter().map(|start| (*start, Arc::downgrade(conversation))));
    }

    /// Evicts the least recently used conversations until there is room.
    fn evict_least_recent(&mut self, max_entries: usize, max_bytes: usize) {
        while self.count > max_entries || self.bytes > max_bytes {
            let Some((used, head)) = self.by_use.pop_first() else { return };
            tracing::debug!(
                conversations = self.count,
                bytes = self.bytes,
                max_conversations = max_entries,
                max_bytes,
                "the least recently used conversation is no longer kept ready"
            );
            self.remove(&head, used);
        }
    }

    /// Removes an entry and returns its conversation.
    fn remove(&mut self, head: &ConversationKey, used: u64) -> Option<Arc<GatewayConversation>> {
        self.by_use.remove(&used);
        let list = self.by_head.get_mut(head)?;
        // The order within a list does not matter: uses are ordered in `by_use`.
        let entry = list.swap_remove(list.iter().position(|entry| entry.used == used)?);
        if list.is_empty() {
            self.by_head.remove(head);
        }
        self.count -= 1;
        self.bytes -= entry.bytes;
        Some(entry.conversation)
    }
}

/// Returns the fingerprints of a request's beginning: the sizes and edges of its first items, which are quick to read.
fn starts(scope: &ConversationScope, envelope: &RequestEnvelope) -> Vec<RequestFingerprint> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(scope);
    let mut starts = Vec::with_capacity(2);
    for at in envelope.items.iter().take(2) {
        let item = envelope.bytes.get(at.clone()).unwrap_or_default();
        // The length tells apart items that differ only in the middle.
        hasher.update(&(item.len() as u64).to_le_bytes());
        hasher.update(&item[..item.len().min(EDGE_BYTES)]);
        hasher.update(&item[item.len().saturating_sub(EDGE_BYTES)..]);
        starts.push(*hasher.finalize().as_bytes());
    }
    starts
}

pub(super) fn head(
    scope: &ConversationScope,
    first: &ItemDigest,
    second: Option<&ItemDigest>,
) -> ConversationKey {
    let mut hasher = blake3::Hasher::new();
    hasher.update(scope);
    hasher.update(first);
    if let Some(second) = second {
        hasher.update(second);
    }
    *hasher.finalize().as_bytes()
}

/// The length of the beginning that identifies similar requests, in bytes.
const PARSED_START_BYTES: usize = 512;

/// The maximum number of remembered requests with the same beginning, the newest ones.
const ALIKE: usize = 8;

/// The number of remembered beginnings above which unused ones are forgotten.
const STARTS: usize = 2_048;

/// A hash of the dialect, the caller and the request's beginning.
type RequestPrefixKey = [u8; 32];

/// An index of parsed requests. The conversations own the requests; the index holds weak references.
#[derive(Default)]
pub(crate) struct ParseCache(Mutex<HashMap<RequestPrefixKey, Vec<Weak<RequestEnvelope>>>>);

impl ParseCache {
    /// Parses a request.
    ///
    /// # Errors
    /// [`ParseError`] if the request is invalid in its dialect.
    pub(super) fn read(
        &self,
        wire: &dyn WireCodec,
        caller: &[u8; 32],
        bytes: Bytes,
    ) -> Result<Arc<RequestEnvelope>, ParseError> {
        Ok(self.read_noting_new(wire, caller, bytes)?.0)
    }

    /// Parses a request, and returns whether it continues none of the remembered requests.
    ///
    /// # Errors
    /// [`ParseError`] if the request is invalid in its dialect.
    pub(super) fn read_noting_new(
        &self,
        wire: &dyn WireCodec,
        caller: &[u8; 32],
        bytes: Bytes,
    ) -> Result<(Arc<RequestEnvelope>, bool), ParseError> {
        let start = start(wire, caller, &bytes);
        // The lock is free while candidates are compared: comparing long requests takes time.
        let after = self.alike(&start).iter().find_map(|known| wire.parse_continued_request(&bytes, known));
        let is_new = after.is_none();
        let envelope = Arc::new(after.map_or_else(|| wire.parse_request(bytes), Ok)?);
        self.remember(start, &envelope);
        Ok((envelope, is_new))
    }

    /// Returns the requests with this beginning, the newest first.
    fn alike(&self, start: &RequestPrefixKey) -> Vec<Arc<RequestEnvelope>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(start).into_iter().flatten().rev().filter_map(Weak::upgrade).collect()
    }

    fn remember(&self, start: RequestPrefixKey, envelope: &Arc<RequestEnvelope>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Dead entries are swept only at the limit, so most requests pay nothing for it.
        if known.len() >= STARTS {
            known.retain(|_, alike| alike.iter().any(|one| one.strong_count() > 0));
        }
        if known.len() >= STARTS {
            // Losing the index costs one full parse for each conversation.
            known.clear();
        }
        let alike = known.entry(start).or_default();
        alike.retain(|one| one.strong_count() > 0);
        if alike.len() >= ALIKE {
            // Many conversations begin with the same system prompt, and each candidate is compared.
            alike.remove(0);
        }
        alike.push(Arc::downgrade(envelope));
    }
}

fn start(wire: &dyn WireCodec, caller: &[u8; 32], bytes: &[u8]) -> RequestPrefixKey {
    let mut hasher = blake3::Hasher::new();
    hasher.update(wire.dialect().as_str().as_bytes());
    // One caller's request must not be found by another's.
    hasher.update(caller);
    // A short beginning finds candidates. Whether one is really continued is checked byte by byte.
    hasher.update(&bytes[..bytes.len().min(PARSED_START_BYTES)]);
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests;
