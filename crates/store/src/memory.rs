//! A store with the lifetime of the process, for tests, simulation and short runs.

mod inbox;
mod log;
mod store_maintenance;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use longhaul_core::event::Event;
use longhaul_core::ids::{QueueId, Seq, SessionId};
use longhaul_core::message::{BlobRef, Part};
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::queue::QueuedMessage;
use tokio::sync::watch;

use crate::{
    AnswerChunk, EnqueueReceipt, IdempotentRequest, Lease, LogAppend, NewIdempotentRequest, NewQueuedMessage,
    NewSession, SessionRecord, SessionWatchers, Store, StoreError,
};

use self::log::MemorySession;

/// A store in memory, with all the promises of [`Store`] but durability.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<MemoryStoreState>,
    watchers: SessionWatchers,
}

#[derive(Debug, Default)]
struct MemoryStoreState {
    sessions: HashMap<SessionId, MemorySession>,
    /// Sessions ever created: the order of sessions with the same time of change.
    created: u64,
    /// Claims ever made, over all sessions, so that no lease fits a later session of the same name.
    claims: u64,
    closed: bool,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn open(&self) -> Result<MutexGuard<'_, MemoryStoreState>, StoreError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed { Err(StoreError::Closed) } else { Ok(state) }
    }

    fn with<T>(
        &self,
        id: &SessionId,
        act: impl FnOnce(&mut MemorySession) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        act(self.open()?.find(id)?)
    }
}

impl MemoryStoreState {
    fn find(&mut self, id: &SessionId) -> Result<&mut MemorySession, StoreError> {
        self.sessions.get_mut(id).ok_or_else(|| StoreError::NotFound(format!("session {id}")))
    }

    fn leased(&mut self, lease: &Lease) -> Result<&mut MemorySession, StoreError> {
        self.sessions
            .get_mut(&lease.session_id)
            .filter(|session| session.lease == Some(lease.epoch))
            .ok_or_else(|| StoreError::Fenced(lease.session_id.clone()))
    }

    fn create(&mut self, new: NewSession) -> Result<SessionRecord, StoreError> {
        if new.events.is_empty() {
            return Err(StoreError::Conflict(format!("session {} has no first event", new.id)));
        }
        if self.sessions.contains_key(&new.id) {
            return Err(StoreError::Conflict(format!("session {} exists", new.id)));
        }
        self.created += 1;
        let session = MemorySession::new(new, self.created);
        let record = session.record();
        self.sessions.insert(record.id.clone(), session);
        Ok(record)
    }

    fn newest(&self, limit: usize) -> Vec<SessionRecord> {
        let mut sessions: Vec<&MemorySession> = self.sessions.values().collect();
        sessions.sort_unstable_by_key(|session| std::cmp::Reverse((session.updated_at, session.no)));
        sessions.into_iter().take(limit).map(MemorySession::record).collect()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn create(&self, session: NewSession) -> Result<SessionRecord, StoreError> {
        self.open()?.create(session)
    }

    async fn session(&self, id: &SessionId) -> Result<SessionRecord, StoreError> {
        self.with(id, |session| Ok(session.record()))
    }

    async fn sessions(&self, limit: usize) -> Result<Vec<SessionRecord>, StoreError> {
        Ok(self.open()?.newest(limit))
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        let mut state = self.open()?;
        // A session in use is not deleted: its loop would append to nothing.
        if state.find(id)?.lease.is_some() {
            return Err(StoreError::Busy(id.clone()));
        }
        state.sessions.remove(id);
        self.watchers.end(id);
        Ok(())
    }

    async fn claim(&self, id: &SessionId, _owner: &str) -> Result<Lease, StoreError> {
        let mut state = self.open()?;
        // The counter moves only if the session exists.
        let epoch = state.claims + 1;
        state.find(id)?.lease = Some(epoch);
        state.claims = epoch;
        Ok(Lease { session_id: id.clone(), epoch })
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        if let Ok(session) = self.open()?.leased(lease) {
            session.lease = None;
        }
        Ok(())
    }

    async fn append(&self, lease: &Lease, append: LogAppend) -> Result<Vec<Event>, StoreError> {
        let mut state = self.open()?;
        let events = state.leased(lease)?.append(append)?;
        if let Some(last) = events.last() {
            self.watchers.publish(&lease.session_id, last.seq);
        }
        Ok(events)
    }

    async fn read(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.with(id, |session| Ok(session.after(after, limit)))
    }

    async fn tail(&self, id: &SessionId, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.with(id, |session| {
            let after = session.last_seq().saturating_sub(u64::try_from(limit).unwrap_or(u64::MAX));
            Ok(session.after(after, limit))
        })
    }

    async fn enqueue(&self, id: &SessionId, message: NewQueuedMessage) -> Result<EnqueueReceipt, StoreError> {
        self.with(id, |session| session.inbox.accept(message))
    }

    async fn queue(&self, id: &SessionId) -> Result<Vec<QueuedMessage>, StoreError> {
        self.with(id, |session| Ok(session.inbox.waiting().cloned().collect()))
    }

    async fn edit_queued(
        &self,
        id: &SessionId,
        entry: &QueueId,
        parts: Vec<Part>,
        metadata: Option<MessageMetadata>,
    ) -> Result<(), StoreError> {
        self.with(id, |session| session.inbox.edit(entry, parts, metadata))
    }

    async fn remove_queued(&self, id: &SessionId, entry: &QueueId) -> Result<(), StoreError> {
        self.with(id, |session| session.inbox.remove(entry))
    }

    async fn clear_queue(&self, id: &SessionId) -> Result<Vec<QueueId>, StoreError> {
        self.with(id, |session| Ok(session.inbox.clear()))
    }

    async fn begin_request(
        &self,
        id: &SessionId,
        request: NewIdempotentRequest,
    ) -> Result<IdempotentRequest, StoreError> {
        self.with(id, |session| Ok(session.begin_request(request)))
    }

    async fn answer_request(
        &self,
        id: &SessionId,
        key: &str,
        answer: Option<String>,
    ) -> Result<(), StoreError> {
        self.with(id, |session| {
            session.answer_request(key, answer);
            Ok(())
        })
    }

    async fn put_chunk(&self, lease: &Lease, chunk: AnswerChunk) -> Result<(), StoreError> {
        self.open()?.leased(lease)?.put_chunk(chunk)
    }

    async fn chunks(&self, id: &SessionId) -> Result<Vec<AnswerChunk>, StoreError> {
        self.with(id, |session| Ok(session.chunks()))
    }

    async fn blobs(&self, id: &SessionId) -> Result<Vec<BlobRef>, StoreError> {
        self.with(id, |session| Ok(session.blobs()))
    }

    async fn watch(&self, id: &SessionId) -> Result<watch::Receiver<Seq>, StoreError> {
        let mut state = self.open()?;
        let newest = state.find(id)?.last_seq();
        // The state is still locked, so no append can come between the position and the watch.
        Ok(self.watchers.watch(id).from(newest))
    }

    async fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.watchers.end_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::MemoryStore;
    use crate::SharedStore;

    async fn store() -> (SharedStore, ()) {
        (Arc::new(MemoryStore::new()), ())
    }

    crate::conformance!(store);

    #[tokio::test]
    async fn it_is_kept_up() {
        crate::conformance::blobs_are_named_by_logs_and_by_what_waits(Arc::new(MemoryStore::new())).await;
        crate::conformance::only_old_sessions_at_rest_may_go(Arc::new(MemoryStore::new())).await;
    }
}
