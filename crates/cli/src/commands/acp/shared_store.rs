//! One store for several runtimes. The store outlives each of them.

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

/// A handle to a shared store. Closing the handle leaves the store open.
pub(super) struct SharedStoreHandle(pub(super) SharedStore);

#[async_trait]
impl Store for SharedStoreHandle {
    async fn create(&self, session: NewSession) -> Result<SessionRecord, StoreError> {
        self.0.create(session).await
    }

    async fn session(&self, id: &SessionId) -> Result<SessionRecord, StoreError> {
        self.0.session(id).await
    }

    async fn sessions(&self, limit: usize) -> Result<Vec<SessionRecord>, StoreError> {
        self.0.sessions(limit).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        self.0.delete(id).await
    }

    async fn claim(&self, id: &SessionId, owner: &str) -> Result<Lease, StoreError> {
        self.0.claim(id, owner).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.0.release(lease).await
    }

    async fn append(&self, lease: &Lease, append: LogAppend) -> Result<Vec<Event>, StoreError> {
        self.0.append(lease, append).await
    }

    async fn read(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.0.read(id, after, limit).await
    }

    async fn tail(&self, id: &SessionId, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.0.tail(id, limit).await
    }

    // Default methods of the trait are forwarded too: a default would hide what the inner store does better or refuses.

    async fn read_undamaged(
        &self,
        id: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<UndamagedEvents, StoreError> {
        self.0.read_undamaged(id, after, limit).await
    }

    async fn view_changes(
        &self,
        id: &SessionId,
        kind: ViewChangeKind,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        self.0.view_changes(id, kind, after, limit).await
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        self.0.check_writable().await
    }

    async fn session_counts(&self) -> Result<SessionCounts, StoreError> {
        self.0.session_counts().await
    }

    async fn enqueue(&self, id: &SessionId, message: NewQueuedMessage) -> Result<EnqueueReceipt, StoreError> {
        self.0.enqueue(id, message).await
    }

    async fn queue(&self, id: &SessionId) -> Result<Vec<QueuedMessage>, StoreError> {
        self.0.queue(id).await
    }

    async fn edit_queued(
        &self,
        id: &SessionId,
        entry: &QueueId,
        parts: Vec<Part>,
        metadata: Option<MessageMetadata>,
    ) -> Result<(), StoreError> {
        self.0.edit_queued(id, entry, parts, metadata).await
    }

    async fn remove_queued(&self, id: &SessionId, entry: &QueueId) -> Result<(), StoreError> {
        self.0.remove_queued(id, entry).await
    }

    async fn clear_queue(&self, id: &SessionId) -> Result<Vec<QueueId>, StoreError> {
        self.0.clear_queue(id).await
    }

    async fn begin_request(
        &self,
        id: &SessionId,
        request: NewIdempotentRequest,
    ) -> Result<IdempotentRequest, StoreError> {
        self.0.begin_request(id, request).await
    }

    async fn answer_request(
        &self,
        id: &SessionId,
        key: &str,
        answer: Option<String>,
    ) -> Result<(), StoreError> {
        self.0.answer_request(id, key, answer).await
    }

    async fn put_chunk(&self, lease: &Lease, chunk: AnswerChunk) -> Result<(), StoreError> {
        self.0.put_chunk(lease, chunk).await
    }

    async fn chunks(&self, id: &SessionId) -> Result<Vec<AnswerChunk>, StoreError> {
        self.0.chunks(id).await
    }

    async fn blobs(&self, id: &SessionId) -> Result<Vec<BlobRef>, StoreError> {
        self.0.blobs(id).await
    }

    async fn watch(&self, id: &SessionId) -> Result<watch::Receiver<Seq>, StoreError> {
        self.0.watch(id).await
    }

    /// Does nothing: other runtimes still need the store.
    async fn close(&self) {}
}

#[cfg(test)]
mod tests {
    use longhaul_core::event::EventBody;
    use longhaul_store_sqlite::SqliteStore;

    use super::*;

    fn session(id: &str) -> NewSession {
        let started =
            EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
        NewSession { id: id.into(), title: None, at: 1, events: vec![(1, started)] }
    }

    #[tokio::test]
    async fn one_who_leaves_takes_the_store_from_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let store: SharedStore = std::sync::Arc::new(SqliteStore::open(folder.path()).await.unwrap());
        let (one, other) = (SharedStoreHandle(store.clone()), SharedStoreHandle(store.clone()));
        one.close().await;
        other.create(session("a")).await.unwrap();
        assert_eq!(one.sessions(1).await.unwrap().len(), 1, "nor from itself: it is the owner's to close");
        store.close().await;
        assert!(other.create(session("b")).await.is_err());
    }

    #[tokio::test]
    async fn a_handle_hides_no_refusal_of_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).await.unwrap();
        store.create(session("a")).await.unwrap();
        store.close().await;
        let store: SharedStore = std::sync::Arc::new(SqliteStore::open_to_read(folder.path()).await.unwrap());
        let handle = SharedStoreHandle(store.clone());
        assert!(handle.check_writable().await.is_err(), "the store can only be read");
        assert_eq!(handle.session_counts().await.unwrap().sessions, 1);
        assert_eq!(handle.read_undamaged(&"a".into(), 0, 10).await.unwrap().events.len(), 1);
        store.close().await;
    }
}
