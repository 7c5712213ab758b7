//! The implementation of `Store`: reads go to the readers, writes to the writer's task.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::event::{Event, FORMAT};
use longhaul_core::ids::{QueueId, Seq, SessionId};
use longhaul_core::message::{BlobRef, Part};
use longhaul_core::metadata::MessageMetadata;
use longhaul_core::queue::QueuedMessage;
use longhaul_store::{
    AnswerChunk, EnqueueReceipt, IdempotentRequest, Lease, LogAppend, NewIdempotentRequest, NewQueuedMessage,
    NewSession, SessionCounts, SessionRecord, SessionWatchers, Store, StoreError, ViewChangeKind,
};
use tokio::sync::watch;

use crate::lock::{self, ExclusiveFolderLock, SharedFolderLock};
use crate::open::{SqliteConnections, open};
use crate::read_only::{self, SqliteReadConnections};
use crate::reader::SqliteReader;
use crate::writer::SqliteWriter;
use crate::writer::{chunk, inbox, lease, log, request, session};

/// Sessions in one SQLite file of a data folder.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), longhaul_store::StoreError> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path();
/// use longhaul_store::Store;
/// let store = longhaul_store_sqlite::SqliteStore::open(folder).await?;
/// assert!(store.sessions(10).await?.is_empty());
/// store.close().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct SqliteStore {
    folder: PathBuf,
    reader: SqliteReader,
    /// None if the folder is only read.
    writer: Option<SqliteWriter>,
    watchers: Arc<SessionWatchers>,
    /// The reason for reading only, although the folder was to be opened for writing.
    unwritable: Option<StoreError>,
    /// The lock of some read-only stores.
    _free: Option<SharedFolderLock>,
}

/// The lock of a data folder, with or without a database. The folder belongs to the process until the guard is
/// dropped.
#[derive(Debug)]
pub struct DataFolderGuard {
    _lock: ExclusiveFolderLock,
}

impl SqliteStore {
    /// Opens the store in `folder`, and creates a missing folder or database. The folder belongs to the process
    /// until the store is closed.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another process has the folder; [`StoreError::Corrupt`] if the file is not a
    /// database; [`StoreError::Storage`] if the database cannot be used or was written by a newer version.
    pub async fn open(folder: &Path) -> Result<Self, StoreError> {
        let SqliteConnections { lock, writer, readers } = open(folder).await?;
        let watchers = Arc::new(SessionWatchers::default());
        let writer = SqliteWriter::spawn(writer, lock, Arc::clone(&watchers));
        let reader = SqliteReader::new(readers);
        let folder = folder.to_owned();
        Ok(Self { folder, reader, writer: Some(writer), watchers, unwritable: None, _free: None })
    }

    /// Opens the store in `folder` for reading only, also beside the owner of the folder, in a read-only folder,
    /// and on a full disk. Every read sees everything committed before. Nothing is created, locked, brought up to
    /// date or put right; every other call, watching included, answers [`StoreError::ReadOnly`].
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no database; [`StoreError::Outdated`] if an older version wrote the
    /// database; [`StoreError::Corrupt`] if the file is not a database; [`StoreError::Storage`] if the file
    /// cannot be read or was written by a newer version.
    pub async fn open_to_read(folder: &Path) -> Result<Self, StoreError> {
        let SqliteReadConnections { readers, free } = read_only::open(folder).await?;
        let reader = SqliteReader::new(readers);
        let folder = folder.to_owned();
        Ok(Self { folder, reader, writer: None, watchers: Arc::default(), unwritable: None, _free: free })
    }

    /// Opens the store in `folder`, or for reading only if the disk is full or cannot be written. Then every
    /// write fails with the reason, and so does [`check_writable`](Store::check_writable). The next start tries
    /// again.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), if the existing data cannot be read either.
    pub async fn open_or_read(folder: &Path) -> Result<Self, StoreError> {
        match Self::open(folder).await {
            // Only `Storage` may be the fault of a full or read-only disk. A folder in use and a damaged database
            // are reported.
            Err(StoreError::Storage(why)) => match Self::open_to_read(folder).await {
                Ok(store) => {
                    let reason =
                        unwritable_reason(folder).map(|reason| format!("{reason}: ")).unwrap_or_default();
                    let why = format!("{reason}{why}; sessions can only be read until the next start");
                    tracing::info!(folder = %folder.display(), why, "the store is open for reading only");
                    Ok(Self { unwritable: Some(StoreError::Storage(why)), ..store })
                }
                // The second error only follows from the first, which names the cause.
                Err(_) => Err(StoreError::Storage(why)),
            },
            opened => opened,
        }
    }

    /// Returns whether there is a database in `folder`.
    pub fn is_at(folder: &Path) -> bool {
        folder.join(crate::open::FILE_NAME).exists()
    }

    /// Locks `folder`, without a database, for the process until the guard is dropped.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), if another process has the folder.
    pub async fn lock_folder(folder: &Path) -> Result<DataFolderGuard, StoreError> {
        Ok(DataFolderGuard { _lock: ExclusiveFolderLock::take(folder).await? })
    }

    /// Returns whether a process has `folder` now.
    pub fn is_in_use(folder: &Path) -> bool {
        lock::is_taken(folder)
    }

    pub(crate) fn reader(&self) -> &SqliteReader {
        &self.reader
    }

    pub(crate) fn writer(&self) -> Result<&SqliteWriter, StoreError> {
        self.writer.as_ref().ok_or_else(|| self.unwritable.clone().unwrap_or(StoreError::ReadOnly))
    }
}

/// The free space below which a disk counts as full, in bytes. Opening a database takes a part of the space.
#[cfg(unix)]
const MIN_FREE_BYTES: u64 = 1 << 18;

/// Returns the reason for an unwritable `folder`, as far as the file system says.
#[cfg(unix)]
fn unwritable_reason(folder: &Path) -> Option<&'static str> {
    use rustix::fs::StatVfsMountFlags;
    let known = rustix::fs::statvfs(folder).ok()?;
    if known.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Some("the file system is read-only");
    }
    // `f_bavail` leaves out the blocks that are reserved for root, which this process cannot use.
    (known.f_bavail.saturating_mul(known.f_frsize) < MIN_FREE_BYTES).then_some("the disk is full")
}

#[cfg(not(unix))]
fn unwritable_reason(_folder: &Path) -> Option<&'static str> {
    None
}

#[async_trait]
impl Store for SqliteStore {
    async fn create(&self, session: NewSession) -> Result<SessionRecord, StoreError> {
        let write = session::SqliteSessionCreation::new(&session)?;
        // The record follows from the request, so no read has to wait for the write.
        let record = write.record();
        self.writer()?.submit(write).await?;
        Ok(record)
    }

    async fn session(&self, id: &SessionId) -> Result<SessionRecord, StoreError> {
        self.reader.record(id).await
    }

    async fn sessions(&self, limit: usize) -> Result<Vec<SessionRecord>, StoreError> {
        self.reader.records(limit).await
    }

    async fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        self.writer()?.submit(session::SqliteSessionDeletion { id: id.clone() }).await?;
        tracing::debug!(session = %id, "the session was deleted");
        Ok(())
    }

    async fn claim(&self, id: &SessionId, owner: &str) -> Result<Lease, StoreError> {
        let claim = lease::SqliteLeaseClaim { id: id.clone(), owner: owner.to_owned() };
        let lease = self.writer()?.submit(claim).await?;
        tracing::debug!(session = %id, epoch = lease.epoch, owner, "the session was claimed");
        Ok(lease)
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.writer()?.submit(lease::SqliteLeaseRelease { lease: lease.clone() }).await?;
        tracing::debug!(session = %lease.session_id, epoch = lease.epoch, "the session was released");
        Ok(())
    }

    async fn append(&self, lease: &Lease, append: LogAppend) -> Result<Vec<Event>, StoreError> {
        let first = self.writer()?.submit(log::SqliteEventAppend::new(lease, &append)?).await?;
        let at = append.at;
        // The events are those of the caller. Only their positions come from the database.
        Ok((first..).zip(append.events).map(|(seq, body)| Event { seq, at, format: FORMAT, body }).collect())
    }

    async fn read(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.reader.events(id, after, limit).await
    }

    async fn tail(&self, id: &SessionId, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.reader.tail(id, limit).await
    }

    async fn view_changes(
        &self,
        id: &SessionId,
        kind: ViewChangeKind,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        self.reader.view_changes(id, kind, after, limit).await
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        let writer = self.writer()?;
        // The log's file may have room for a little more, but a store that fails at its next larger write is of no use.
        match unwritable_reason(&self.folder) {
            Some(reason) => {
                tracing::debug!(folder = %self.folder.display(), reason, "writes cannot be expected to work");
                Err(StoreError::Storage(reason.to_owned()))
            }
            None => writer.check().await,
        }
    }

    async fn session_counts(&self) -> Result<SessionCounts, StoreError> {
        self.reader.counts().await
    }

    async fn enqueue(&self, id: &SessionId, message: NewQueuedMessage) -> Result<EnqueueReceipt, StoreError> {
        self.writer()?.submit(inbox::SqliteEnqueue::new(id, message)?).await
    }

    async fn queue(&self, id: &SessionId) -> Result<Vec<QueuedMessage>, StoreError> {
        self.reader.queue(id).await
    }

    async fn edit_queued(
        &self,
        id: &SessionId,
        entry: &QueueId,
        parts: Vec<Part>,
        metadata: Option<MessageMetadata>,
    ) -> Result<(), StoreError> {
        self.writer()?.submit(inbox::SqliteQueueEdit::new(id, entry, &parts, metadata.as_ref())?).await
    }

    async fn remove_queued(&self, id: &SessionId, entry: &QueueId) -> Result<(), StoreError> {
        self.writer()?.submit(inbox::SqliteQueueRemoval { id: id.clone(), entry: entry.clone() }).await
    }

    async fn clear_queue(&self, id: &SessionId) -> Result<Vec<QueueId>, StoreError> {
        self.writer()?.submit(inbox::SqliteQueueClearing { id: id.clone() }).await
    }

    async fn begin_request(
        &self,
        id: &SessionId,
        request: NewIdempotentRequest,
    ) -> Result<IdempotentRequest, StoreError> {
        self.writer()?.submit(request::SqliteRequestBegin { id: id.clone(), request }).await
    }

    async fn answer_request(
        &self,
        id: &SessionId,
        key: &str,
        answer: Option<String>,
    ) -> Result<(), StoreError> {
        self.writer()?
            .submit(request::SqliteRequestAnswer { id: id.clone(), key: key.to_owned(), answer })
            .await
    }

    async fn put_chunk(&self, lease: &Lease, chunk: AnswerChunk) -> Result<(), StoreError> {
        self.writer()?.submit(chunk::SqliteChunkInsert { lease: lease.clone(), chunk }).await
    }

    async fn chunks(&self, id: &SessionId) -> Result<Vec<AnswerChunk>, StoreError> {
        self.reader.chunks(id).await
    }

    async fn blobs(&self, id: &SessionId) -> Result<Vec<BlobRef>, StoreError> {
        self.reader.blobs(id).await
    }

    async fn watch(&self, id: &SessionId) -> Result<watch::Receiver<Seq>, StoreError> {
        // A read-only store does not notice the writes of others.
        self.writer()?;
        // The watch begins before the position is read, so a commit in between is published to it.
        let watched = self.watchers.watch(id);
        Ok(watched.from(self.reader.last_seq(id).await?))
    }

    async fn close(&self) {
        // Readers first: the last connection to close empties the WAL into the file.
        self.reader.close().await;
        if let Some(writer) = &self.writer {
            writer.close().await;
        }
        self.watchers.end_all();
    }
}
