//! A store wrapper with counts of everything appended to the store.

use async_trait::async_trait;
use longhaul_core::event::Event;
use longhaul_core::ids::{QueueId, Seq, SessionId};
use longhaul_core::message::{BlobRef, Part};
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::queue::QueuedMessage;
use longhaul_store::{
    AnswerChunk, EnqueueReceipt, IdempotentRequest, Lease, LogAppend, NewIdempotentRequest, NewQueuedMessage,
    NewSession, SessionCounts, SessionRecord, SharedStore, Store, StoreError, UndamagedEvents,
    ViewChangeKind,
};
use tokio::sync::watch;

use super::ServerMetrics;

/// A store with counts of everything appended. All calls pass to the store inside.
pub(super) struct InstrumentedStore {
    store: SharedStore,
    counters: ServerMetrics,
}

impl InstrumentedStore {
    pub(super) fn new(store: SharedStore, counters: ServerMetrics) -> Self {
        Self { store, counters }
    }
}

#[async_trait]
impl Store for InstrumentedStore {
    // The events of a fork or an import are not counted: they happened in another session.
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

    async fn claim(&self, id: &SessionId, owner: &str) -> Result<Lease, StoreError> {
        self.store.claim(id, owner).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.store.release(lease).await
    }

    async fn append(&self, lease: &Lease, append: LogAppend) -> Result<Vec<Event>, StoreError> {
        // Counted after the append: a refused append changes no figure.
        let events = self.store.append(lease, append).await?;
        events.iter().for_each(|event| self.counters.event(&event.body));
        Ok(events)
    }

    async fn read(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.store.read(id, after, limit).await
    }

    async fn tail(&self, id: &SessionId, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.store.tail(id, limit).await
    }

    // The trait has bodies for this method and the next three. They are slower than the store's own.
    async fn read_undamaged(
        &self,
        id: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<UndamagedEvents, StoreError> {
        self.store.read_undamaged(id, after, limit).await
    }

    async fn view_changes(
        &self,
        id: &SessionId,
        kind: ViewChangeKind,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        self.store.view_changes(id, kind, after, limit).await
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        self.store.check_writable().await
    }

    async fn session_counts(&self) -> Result<SessionCounts, StoreError> {
        self.store.session_counts().await
    }

    async fn enqueue(&self, id: &SessionId, message: NewQueuedMessage) -> Result<EnqueueReceipt, StoreError> {
        self.store.enqueue(id, message).await
    }

    async fn queue(&self, id: &SessionId) -> Result<Vec<QueuedMessage>, StoreError> {
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

    async fn put_chunk(&self, lease: &Lease, chunk: AnswerChunk) -> Result<(), StoreError> {
        self.store.put_chunk(lease, chunk).await
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
        self.store.close().await
    }
}
