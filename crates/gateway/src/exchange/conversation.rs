//! A conversation repeated by a client in each request: known items, and the gateway's log of the items.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::message::{ModelOrigin, Part};
use longhaul_core::shortening::CompactionPace;
use tokio::sync::OwnedMutexGuard;

use super::background_summary::BackgroundSummary;
use super::log::ConversationLog;
use longhaul_wire::edit::{ItemSegment, ParseError, RequestEnvelope, WireCodec};

/// The name of an item: a hash of its canonical form.
pub(super) type ItemDigest = [u8; 32];

/// The memory of an unparsed item beside its bytes, in bytes: range and name.
const ITEM_BYTES: usize = 48;

/// The memory of a message beside its texts, in bytes: entry, view item, names. Measured.
const MESSAGE_BYTES: usize = 700;

/// The memory of a message part beside its text, in bytes. Measured.
// The cache of conversations is bounded by bytes, and most parts are short texts whose frame counts more than their
// content.
const PART_BYTES: usize = 150;

/// One conversation.
pub(super) struct GatewayConversation {
    /// The memory of the messages beside the newest request, in bytes.
    messages_bytes: AtomicUsize,
    /// The number of the newest use, as the conversation's key in the cache.
    pub(super) used: AtomicU64,
    known: Mutex<ConversationItems>,
    /// The gateway's log of the conversation. The lock is held while a request is prepared, so that requests with a
    /// shared prefix write one summary.
    pub(super) state: Arc<tokio::sync::Mutex<ConversationState>>,
    /// The summary written between requests.
    background_summary: Mutex<BackgroundSummary>,
}

/// The items of the newest request.
pub(super) struct ConversationItems {
    pub(super) request: Arc<RequestEnvelope>,
    pub(super) names: Vec<ItemDigest>,
}

/// The gateway's log and counts of a conversation.
#[derive(Clone)]
pub(super) struct ConversationState {
    pub(super) log: ConversationLog,
    /// The system prompt and tools of the last count, as written, and their tokens.
    pub(super) fixed: Option<([String; 2], u64)>,
    /// The items with notices of the gateway.
    pub(super) items_with_notices: Vec<usize>,
    /// The number of parts in all items.
    parts: usize,
    /// Set until the first request of the conversation is prepared.
    pub(super) is_new: bool,
    /// The edits made in the middle of the newest answer, for requests with the complete answer.
    pub(super) mid_answer_log: Option<MidAnswerLog>,
    /// The reason of a summary written ahead of need.
    pub(super) pending_summary_reason: Option<String>,
    /// The recent frequency of compactions.
    pub(super) pace: CompactionPace,
}

/// A log edited in the middle of an answer.
#[derive(Clone)]
pub(super) struct MidAnswerLog {
    pub(super) log: Arc<ConversationLog>,
    /// The answer's text at that time.
    pub(super) said: String,
}

impl MidAnswerLog {
    /// Returns whether the items behind the first `items` are the answer for which the log was edited.
    fn goes_on_with(&self, items: usize, next: &[Vec<ItemSegment>]) -> bool {
        let answer = next.iter().flatten().map_while(|piece| match piece {
            ItemSegment::Assistant(parts) => Some(parts),
            _ => None,
        });
        // Clients may store an answer in several parts, so the texts are compared as one.
        let texts: String = answer.flatten().filter_map(Part::as_text).collect();
        // Some clients trim an answer before they send it back.
        self.log.items == items && texts.contains(self.said.trim())
    }
}

impl ConversationState {
    pub(super) fn new(counter: MessageTokenCounter, origin: ModelOrigin, has_recall: bool) -> Self {
        let log = ConversationLog::new(counter, origin, has_recall);
        Self {
            log,
            fixed: None,
            items_with_notices: Vec::new(),
            parts: 0,
            is_new: true,
            mid_answer_log: None,
            pending_summary_reason: None,
            pace: CompactionPace::default(),
        }
    }

    /// Returns the state for an answer in progress, with `log` if the answer already had edits of its own.
    pub(super) fn midway_of(&self, log: Option<&ConversationLog>) -> Self {
        // The conversation keeps its own state, because the client may never send this answer back.
        Self { log: log.unwrap_or(&self.log).clone(), mid_answer_log: None, ..self.clone() }
    }

    /// Adopts the edits from the middle of an answer if `next` is the same answer. Returns whether edits were
    /// adopted.
    pub(super) fn take_midway(&mut self, next: &[Vec<ItemSegment>]) -> bool {
        let items = self.log.items;
        let midway = self.mid_answer_log.take().filter(|midway| midway.goes_on_with(items, next));
        let Some(midway) = midway else { return false };
        // The log is large and mostly has no other owner by now. Then it is moved.
        self.log = Arc::unwrap_or_clone(midway.log);
        true
    }

    /// Counts the parts of items before their addition.
    pub(super) fn count(&mut self, pieces: &[Vec<ItemSegment>]) {
        self.parts += pieces.iter().flatten().map(part_count).sum::<usize>();
    }
}

/// Returns the number of a segment's parts. A result is a part by itself.
fn part_count(piece: &ItemSegment) -> usize {
    match piece {
        ItemSegment::System(parts)
        | ItemSegment::Typed(parts)
        | ItemSegment::Note(parts)
        | ItemSegment::Summary(parts)
        | ItemSegment::Assistant(parts) => parts.len(),
        ItemSegment::Result { content, .. } => 1 + content.len(),
    }
}

impl GatewayConversation {
    pub(super) fn new(known: ConversationItems, state: ConversationState) -> Self {
        Self {
            messages_bytes: AtomicUsize::new(0),
            used: AtomicU64::new(0),
            known: Mutex::new(known),
            state: Arc::new(tokio::sync::Mutex::new(state)),
            background_summary: Mutex::default(),
        }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, ConversationItems> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn background_summary(&self) -> MutexGuard<'_, BackgroundSummary> {
        self.background_summary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state with exclusive access.
    pub(super) async fn locked(&self) -> OwnedMutexGuard<ConversationState> {
        Arc::clone(&self.state).lock_owned().await
    }

    /// Updates the measured memory of the messages.
    pub(super) fn weigh(&self, state: &ConversationState) {
        let bytes = state.log.placed.len() * MESSAGE_BYTES + state.parts * PART_BYTES;
        self.messages_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the memory of the conversation in bytes: the newest request, its texts once more as parsed, and the
    /// overhead of each message.
    pub(super) fn bytes(&self) -> usize {
        // The lock is held for the copy only: the count of the items needs none.
        let request = Arc::clone(&self.known().request);
        let items = request.items.len() * ITEM_BYTES;
        // An exact count would take as long as the reading itself.
        2 * request.bytes.len() + items + self.messages_bytes.load(Ordering::Relaxed)
    }

    /// Returns the names of its first items.
    pub(super) fn names(&self, items: usize) -> Vec<ItemDigest> {
        self.known().names.iter().take(items).copied().collect()
    }
}

/// The names of a request's items, computed when needed.
pub(super) struct ItemNames<'a> {
    wire: &'static dyn WireCodec,
    envelope: &'a Arc<RequestEnvelope>,
    names: Vec<Option<ItemDigest>>,
    form: Vec<u8>,
}

impl<'a> ItemNames<'a> {
    pub(super) fn new(wire: &'static dyn WireCodec, envelope: &'a Arc<RequestEnvelope>) -> Self {
        Self { wire, envelope, names: vec![None; envelope.items.len()], form: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn envelope(&self) -> &'a Arc<RequestEnvelope> {
        self.envelope
    }

    /// Returns the name of an item if already computed.
    pub(super) fn made(&self, index: usize) -> Option<ItemDigest> {
        self.names.get(index).copied().flatten()
    }

    /// Returns the number of bytes in items without a name.
    pub(super) fn new_bytes(&self) -> usize {
        let all = self.names.iter().zip(&self.envelope.items);
        all.filter(|(name, _)| name.is_none()).map(|(_, at)| at.len()).sum()
    }

    /// Adopts the known names of equal items, starting at `from`. Returns the index of the first different
    /// item.
    pub(super) fn recall(&mut self, known: &ConversationItems, from: usize) -> usize {
        let ours = self.envelope;
        let request = &known.request;
        let same = request.items.iter().zip(&ours.items).zip(&known.names).zip(&mut self.names);
        let is_same = |known_at: &Range<usize>, at: &Range<usize>| {
            let bytes = ours.bytes.get(at.clone());
            bytes.is_some() && request.bytes.get(known_at.clone()) == bytes
        };
        let mut next = from;
        for (((known_at, at), name), slot) in same.skip(from) {
            // A name costs the parsing of the item. Equal bytes have equal names, so they are compared first.
            if slot.map_or_else(|| !is_same(known_at, at), |slot| slot != *name) {
                break;
            }
            *slot = Some(*name);
            next += 1;
        }
        next
    }

    /// Returns the name of an item.
    ///
    /// # Errors
    /// [`ParseError`] if the item is no JSON of the dialect.
    pub(super) fn get(&mut self, index: usize) -> Result<ItemDigest, ParseError> {
        if let Some(Some(name)) = self.names.get(index) {
            return Ok(*name);
        }
        // One buffer serves all items, because a request may have thousands.
        self.form.clear();
        self.wire.write_canonical_item(self.envelope.item(index), index, &mut self.form)?;
        let name = *blake3::hash(&self.form).as_bytes();
        if let Some(slot) = self.names.get_mut(index) {
            *slot = Some(name);
        }
        Ok(name)
    }

    /// Adopts the known name of every item with equal bytes.
    pub(super) fn recall_all(&mut self, known: &ConversationItems) {
        let mut next = self.recall(known, 0);
        // Clients change single items in the middle. Those behind them are often the same.
        while next < known.request.items.len().min(self.len()) {
            next = self.recall(known, next + 1);
        }
    }

    /// Returns whether the request extends or equals the known items. Items with equal bytes are not parsed.
    pub(super) fn extend(&mut self, known: &ConversationItems) -> Result<bool, ParseError> {
        // A shorter request is another branch.
        if known.request.items.len() > self.len() {
            return Ok(false);
        }
        let mut next = self.recall(known, 0);
        while let Some(name) = known.names.get(next) {
            if self.get(next)? != *name {
                return Ok(false);
            }
            // This item is equal but written differently; later ones may have equal bytes again.
            next = self.recall(known, next + 1);
        }
        Ok(true)
    }

    /// Returns the names of all items.
    ///
    /// # Errors
    /// [`ParseError`] if an item is no JSON of the dialect.
    pub(super) fn all(&mut self) -> Result<Vec<ItemDigest>, ParseError> {
        (0..self.len()).map(|index| self.get(index)).collect()
    }
}

/// Returns the names of prefixes: for each item, the hash of all names up to it.
pub(super) fn chain(names: &[ItemDigest]) -> Vec<ItemDigest> {
    let mut chain = Vec::with_capacity(names.len());
    // A chain instead of one hash per prefix: naming all prefixes takes linear time.
    let mut newest = [0; 32];
    for name in names {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&newest);
        hasher.update(name);
        newest = *hasher.finalize().as_bytes();
        chain.push(newest);
    }
    chain
}
