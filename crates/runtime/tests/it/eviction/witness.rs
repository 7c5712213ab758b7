//! A store that takes its time and sees who writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use async_trait::async_trait;
use longhaul_core::event::Event;
use longhaul_core::ids::{QueueId, Seq, SessionId};
use longhaul_core::message::{BlobRef, Part};
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::queue::QueuedMessage;
use longhaul_store::{
    AnswerChunk, EnqueueReceipt, IdempotentRequest, Lease, LogAppend, MemoryStore, NewIdempotentRequest,
    NewQueuedMessage, NewSession, SessionRecord, Store, StoreError,
};
use tokio::sync::watch;

/// Numbers that repeat for a seed.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The low bits of such a generator repeat soon, so only the high ones are used.
        (self.0 >> 33) % most
    }
}

/// Lets others go first at every turn, and remembers what must never happen.
pub(crate) struct Witness {
    store: MemoryStore,
    seen: Mutex<Seen>,
    withheld: watch::Sender<BTreeSet<SessionId>>,
}

struct Seen {
    dice: Dice,
    held: BTreeMap<SessionId, u64>,
    claims: usize,
    wrongs: Vec<String>,
}

impl Witness {
    pub(crate) fn new(seed: u64) -> Self {
        let seen = Seen { dice: Dice::new(seed), held: BTreeMap::new(), claims: 0, wrongs: Vec::new() };
        Self { store: MemoryStore::new(), seen: Mutex::new(seen), withheld: watch::Sender::default() }
    }

    /// What must never happen and did.
    pub(crate) fn wrongs(&self) -> Vec<String> {
        self.seen.lock().unwrap().wrongs.clone()
    }

    /// These, and no others, are given to nobody for now: who wants one waits, and so does who has sent it something.
    pub(crate) fn withhold(&self, ids: &[&SessionId]) {
        self.withheld.send_replace(ids.iter().copied().cloned().collect());
    }

    /// Waits until somebody waits for a session.
    pub(crate) async fn somebody_waits(&self) {
        // Who waits is subscribed to the list, so a receiver shows a waiting caller.
        while self.withheld.receiver_count() == 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Whether somebody has the session.
    pub(crate) fn is_held(&self, id: &SessionId) -> bool {
        self.seen.lock().unwrap().held.contains_key(id)
    }

    /// How often a session was opened.
    pub(crate) fn claims(&self) -> usize {
        self.seen.lock().unwrap().claims
    }

    async fn given(&self, id: &SessionId) {
        let _ = self.withheld.subscribe().wait_for(|withheld| !withheld.contains(id)).await;
    }

    async fn dawdle(&self) {
        // Yields around every call widen the races between callers, drivers and the store.
        let turns = self.seen.lock().unwrap().dice.below(4);
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl Store for Witness {
    async fn claim(&self, id: &SessionId, owner: &str) -> Result<Lease, StoreError> {
        self.dawdle().await;
        self.given(id).await;
        let lease = self.store.claim(id, owner).await?;
        {
            let mut seen = self.seen.lock().unwrap();
            seen.claims += 1;
            // A granted claim of a session whose lease is held means two drivers at once.
            if let Some(epoch) = seen.held.insert(id.clone(), lease.epoch) {
                seen.wrongs.push(format!("{id} was claimed while the lease {epoch} was held"));
            }
        }
        self.dawdle().await;
        Ok(lease)
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.dawdle().await;
        {
            let mut seen = self.seen.lock().unwrap();
            // Noted before the store frees the lease, because the next claim may be granted at once.
            if seen.held.get(&lease.session_id) == Some(&lease.epoch) {
                seen.held.remove(&lease.session_id);
            }
        }
        self.store.release(lease).await
    }

    async fn append(&self, lease: &Lease, append: LogAppend) -> Result<Vec<Event>, StoreError> {
        self.dawdle().await;
        let appended = self.store.append(lease, append).await;
        // A fenced append means that a driver went on after another had taken its session.
        if let Err(error @ StoreError::Fenced(_)) = &appended {
            self.seen.lock().unwrap().wrongs.push(error.to_string());
        }
        self.dawdle().await;
        appended
    }

    async fn enqueue(&self, id: &SessionId, message: NewQueuedMessage) -> Result<EnqueueReceipt, StoreError> {
        self.dawdle().await;
        let accepted = self.store.enqueue(id, message).await;
        self.dawdle().await;
        self.given(id).await;
        accepted
    }

    async fn create(&self, session: NewSession) -> Result<SessionRecord, StoreError> {
        self.store.create(session).await
    }

    async fn session(&self, id: &SessionId) -> Result<SessionRecord, StoreError> {
        self.store.session(id).await
    }

    async fn sessions(&self, limit: usize) -> Result<Vec<SessionRecord>, StoreError> {
        self.store.sessions(limit).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        self.store.delete(id).await
    }

    async fn read(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.dawdle().await;
        self.store.read(id, after, limit).await
    }

    async fn tail(&self, id: &SessionId, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.store.tail(id, limit).await
    }

    async fn queue(&self, id: &SessionId) -> Result<Vec<QueuedMessage>, StoreError> {
        self.dawdle().await;
        self.store.queue(id).await
    }

    async fn edit_queued(
        &self,
        id: &SessionId,
        entry: &QueueId,
        parts: Vec<Part>,
        metadata: Option<MessageMetadata>,
    ) -> Result<(), StoreError> {
        self.store.edit_queued(id, entry, parts, metadata).await
    }

    async fn remove_queued(&self, id: &SessionId, entry: &QueueId) -> Result<(), StoreError> {
        self.store.remove_queued(id, entry).await
    }

    async fn clear_queue(&self, id: &SessionId) -> Result<Vec<QueueId>, StoreError> {
        self.store.clear_queue(id).await
    }

    async fn begin_request(
        &self,
        id: &SessionId,
        request: NewIdempotentRequest,
    ) -> Result<IdempotentRequest, StoreError> {
        self.store.begin_request(id, request).await
    }

    async fn answer_request(
        &self,
        id: &SessionId,
        key: &str,
        answer: Option<String>,
    ) -> Result<(), StoreError> {
        self.store.answer_request(id, key, answer).await
    }

    /// Fails now and then, before it has done anything.
    async fn put_chunk(&self, lease: &Lease, chunk: AnswerChunk) -> Result<(), StoreError> {
        self.dawdle().await;
        if self.seen.lock().unwrap().dice.below(2) == 0 {
            return Err(StoreError::Storage("for a moment".to_owned()));
        }
        let stored = self.store.put_chunk(lease, chunk).await;
        // After a failed write the driver must use the same index again. A conflict shows a gap or a repetition.
        if let Err(StoreError::Conflict(conflict)) = &stored {
            self.seen.lock().unwrap().wrongs.push(conflict.clone());
        }
        stored
    }

    async fn chunks(&self, id: &SessionId) -> Result<Vec<AnswerChunk>, StoreError> {
        self.store.chunks(id).await
    }

    async fn blobs(&self, id: &SessionId) -> Result<Vec<BlobRef>, StoreError> {
        self.store.blobs(id).await
    }

    async fn watch(&self, id: &SessionId) -> Result<watch::Receiver<Seq>, StoreError> {
        self.store.watch(id).await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
