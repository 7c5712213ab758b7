//! The storage interface of the runtime, in the words of the domain.
//!
//! A back-end implements [`Store`] and passes the conformance suite. A back-end promises:
//! - an acknowledged call is on disk (fsync before the answer), all of it or nothing;
//! - `seq` counts 1, 2, 3 … per session, in commit order, so that "everything after seq N" misses nothing;
//! - only the holder of the newest [`Lease`] of a session appends to its log (fencing by epoch);
//! - a queued message enters the log exactly once.

pub mod blobs;
mod checksum;
pub mod conformance;
mod durable;
mod error;
mod inbox;
mod memory;
mod nodes;
pub mod prefix_cache;
mod request;
mod session;
mod store_maintenance;
#[doc(hidden)]
pub mod transfer;
mod watchers;

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::event::Event;
use longhaul_core::ids::{QueueId, Seq, SessionId};
use longhaul_core::message::{BlobRef, Part};
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::queue::QueuedMessage;
use tokio::sync::watch;

pub use crate::blobs::{
    BlobError, BlobStore, BlobSweepReport, ReferencedBlobs, UNTOUCHED, blob_hashes, blob_refs,
};
pub use crate::checksum::event_checksum;
pub use crate::durable::flush_folder;
pub use crate::error::StoreError;
pub use crate::inbox::{EnqueueReceipt, NewQueuedMessage, decode_queued, encode_queued};
pub use crate::memory::MemoryStore;
pub use crate::nodes::{
    BootId, ClusterNode, ClusterStore, NodeStatus, SessionChangePublisher, SessionChangeReceiver,
    SessionSignal, SharedNodes,
};
pub use crate::prefix_cache::{
    MemoryPrefixCache, PrefixCache, PrefixCacheKey, PrefixCacheLimits, PrefixCacheScope,
};
pub use crate::request::{IdempotentRequest, NewIdempotentRequest};
pub use crate::session::{
    AnswerChunk, Lease, LogAppend, NewSession, SessionCounts, SessionRecord, SessionRecordChange,
    UndamagedEvents, ViewChangeKind,
};
pub use crate::store_maintenance::{MaintenanceLock, SharedUpkeep, StoreMaintenance};
#[doc(hidden)]
pub use crate::transfer::{SessionCopy, SessionTransfer};
pub use crate::watchers::{PendingWatch, SessionWatchers};

/// The store of sessions. Object-safe; one instance serves all sessions of a process.
#[async_trait]
pub trait Store: Send + Sync {
    /// Creates a session whose log holds `events` (never empty; the first is `SessionStarted`).
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the id is taken, or if there are no events.
    async fn create(&self, session: NewSession) -> Result<SessionRecord, StoreError>;

    /// Returns one session.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn session(&self, id: &SessionId) -> Result<SessionRecord, StoreError>;

    /// Returns all sessions, the most recently changed first.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn sessions(&self, limit: usize) -> Result<Vec<SessionRecord>, StoreError>;

    /// Deletes a session with its log, queue and blob references.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Busy`] while a lease is held.
    async fn delete(&self, id: &SessionId) -> Result<(), StoreError>;

    /// Makes the caller the session's only writer: older leases are void from here on.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Elsewhere`] while another living node has the session.
    async fn claim(&self, id: &SessionId, owner: &str) -> Result<Lease, StoreError>;

    /// Gives the session up: the lease is void from here on. A void lease is no error.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn release(&self, lease: &Lease) -> Result<(), StoreError>;

    /// Appends events, in order, all or none, durably. Returns the events with their positions.
    ///
    /// In the same transaction the streamed chunks of the steps in `append.settles` are deleted, and the queue
    /// entries in `append.takes` marked as taken.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the lease is void; [`StoreError::Conflict`] if a queue entry in `takes` is
    /// gone or already taken (nothing is appended then).
    async fn append(&self, lease: &Lease, append: LogAppend) -> Result<Vec<Event>, StoreError>;

    /// Returns the events after position `after` (0: from the start), at most `limit`, in order.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Damaged`] with the first unreadable event.
    async fn read(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Event>, StoreError>;

    /// Returns the newest `limit` events, in order.
    ///
    /// # Errors
    /// The errors of [`Store::read`].
    async fn tail(&self, id: &SessionId, limit: usize) -> Result<Vec<Event>, StoreError>;

    /// Reads events like [`Store::read`], but leaves out damaged ones. `limit` counts positions, damaged ones
    /// included.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Storage`].
    async fn read_undamaged(
        &self,
        id: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<UndamagedEvents, StoreError> {
        let mut found = UndamagedEvents::default();
        let end = after.saturating_add(u64::try_from(limit).unwrap_or(u64::MAX));
        let mut next = after;
        loop {
            match self.read(id, next, count_between(next, end)).await {
                Ok(events) => {
                    found.events.extend(events);
                    return Ok(found);
                }
                // A back-end that names a position before `next` would keep this loop going for ever.
                Err(StoreError::Damaged { seq, .. }) if seq > next => {
                    found.events.extend(self.read(id, next, count_between(next, seq - 1)).await?);
                    found.damaged.push(seq);
                    next = seq;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the view-changing events of one kind after position `after`, at most `limit`, in order. Damaged
    /// events are left out.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Storage`].
    async fn view_changes(
        &self,
        id: &SessionId,
        kind: ViewChangeKind,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        // A back-end with an index does better.
        let mut found = Vec::new();
        let (mut next, last) = (after, self.session(id).await?.last_seq);
        while next < last && found.len() < limit {
            let page = self.read_undamaged(id, next, SCANNED_EVENTS).await?;
            found.extend(page.events.into_iter().filter(|event| kind.is_kind_of(&event.body)));
            next = next.saturating_add(SCANNED_EVENTS as u64);
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Returns whether writes can be expected to work now. Cheap; after a failed write the store may try another.
    ///
    /// # Errors
    /// The reason for failing writes: [`StoreError::Storage`] with a full or failed disk,
    /// [`StoreError::ReadOnly`].
    async fn check_writable(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns counts over all sessions.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn session_counts(&self) -> Result<SessionCounts, StoreError> {
        // A database overrides this with a faster query. The limit fits its signed integers.
        let records = self.sessions(usize::MAX >> 1).await?;
        Ok(SessionCounts {
            sessions: records.len() as u64,
            parked: records.iter().filter(|record| record.parked).count() as u64,
            queued: records.iter().map(|record| record.queued as u64).sum(),
        })
    }

    /// Accepts a message for later, durably. Anyone may; no lease is needed. The same `client_key` again answers
    /// with the first acceptance and adds nothing, also when the message was taken or removed since.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::QueueFull`] if `queue_limit` messages wait already;
    /// [`StoreError::Conflict`] if another waiting message of the session has the same id. No id may be given
    /// twice; a store need not notice an id of a message that no longer waits.
    async fn enqueue(&self, id: &SessionId, message: NewQueuedMessage) -> Result<EnqueueReceipt, StoreError>;

    /// Returns the waiting messages, oldest first.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn queue(&self, id: &SessionId) -> Result<Vec<QueuedMessage>, StoreError>;

    /// Replaces the parts and the metadata of a waiting message.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it does not wait (any more).
    async fn edit_queued(
        &self,
        id: &SessionId,
        entry: &QueueId,
        parts: Vec<Part>,
        metadata: Option<MessageMetadata>,
    ) -> Result<(), StoreError>;

    /// Removes a waiting message.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it does not wait (any more).
    async fn remove_queued(&self, id: &SessionId, entry: &QueueId) -> Result<(), StoreError>;

    /// Removes all waiting messages and returns their ids.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn clear_queue(&self, id: &SessionId) -> Result<Vec<QueueId>, StoreError>;

    /// Records the arrival of a request durably, before any work for the request is done. No lease is needed. A
    /// repeated `key` changes nothing, and is answered with the state of the first request.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn begin_request(
        &self,
        id: &SessionId,
        request: NewIdempotentRequest,
    ) -> Result<IdempotentRequest, StoreError>;

    /// Stores the answer to a request. `None` forgets the request: the sender may send the request again as if
    /// for the first time. An unknown request is no error.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such session.
    async fn answer_request(
        &self,
        id: &SessionId,
        key: &str,
        answer: Option<String>,
    ) -> Result<(), StoreError>;

    /// Stores a piece of a streaming answer. The pieces of one step are numbered 0, 1, 2 … and only appended. An
    /// acknowledged piece is durable.
    ///
    /// # Errors
    /// [`StoreError::Fenced`]; [`StoreError::Conflict`] if the piece is not the next of the step (a piece was
    /// lost, came twice, or the step is settled). The stored pieces have no gap.
    async fn put_chunk(&self, lease: &Lease, chunk: AnswerChunk) -> Result<(), StoreError>;

    /// Returns the pieces of unsettled steps: step by step in order of their start, each in order.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn chunks(&self, id: &SessionId) -> Result<Vec<AnswerChunk>, StoreError>;

    /// Returns the blobs named by the session's log, each once. The session may read no others.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn blobs(&self, id: &SessionId) -> Result<Vec<BlobRef>, StoreError>;

    /// Returns a receiver of the position of the newest event, and of every later one (only the newest, if
    /// several arrive at once). The receiver ends when the session is deleted or the store closed.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    async fn watch(&self, id: &SessionId) -> Result<watch::Receiver<Seq>, StoreError>;

    /// Finishes all accepted calls and releases the files. Later calls fail.
    async fn close(&self);
}

/// The number of events in one read of a scan without an index.
const SCANNED_EVENTS: usize = 1_000;

fn count_between(after: Seq, last: Seq) -> usize {
    usize::try_from(last.saturating_sub(after)).unwrap_or(usize::MAX)
}

/// A shared store.
pub type SharedStore = Arc<dyn Store>;
