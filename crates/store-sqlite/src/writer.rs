//! The one writer: a task with the only writing connection.
//!
//! A caller sends a request and waits. The task takes all waiting requests into one transaction and answers after
//! `COMMIT`. No timer is needed: while one transaction is flushed, the next one's requests gather. A refused
//! request ([`SqliteWriteError::Refused`]) has changed nothing and does not concern the neighbours. The requests
//! of a failed transaction are repeated one by one, so a bad request fails alone.

mod batch;
pub(crate) mod chunk;
pub(crate) mod inbox;
pub(crate) mod lease;
pub(crate) mod log;
pub(crate) mod prefix_cache;
pub(crate) mod request;
pub(crate) mod session;
pub(crate) mod transfer;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use longhaul_store::{SessionWatchers, StoreError};
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use self::batch::{SqliteCommitNotices, SqliteLeaseTable, SqliteWriteBatch};
use crate::error::{SqliteErrorSeverity, SqliteWriteError, severity, store_error};
use crate::lock::ExclusiveFolderLock;

/// The maximum number of requests in one transaction.
const BATCH_REQUESTS: usize = 512;

/// The content size of a full transaction, in bytes. A single larger request has a transaction of its own.
const BATCH_BYTES: usize = 8 << 20;

/// The maximum number of waiting requests. Further senders wait for room.
const WAITING_REQUESTS: usize = 1024;

/// The number of bytes in the write of a probe.
const PROBE_BYTES: usize = 16 << 10;

/// A write operation.
#[async_trait]
pub(crate) trait SqliteWriteOperation: Send + Sync + 'static {
    /// The type of the caller's answer.
    type Answer: Send + 'static;

    /// Performs the write, or refuses before anything is changed. Called again if the transaction fails.
    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<Self::Answer, SqliteWriteError>;

    /// Returns the size of the operation's content, in bytes.
    fn bytes(&self) -> usize {
        0
    }
}

/// A handle to the writer's task.
#[derive(Debug)]
pub(crate) struct SqliteWriter {
    requests: mpsc::Sender<SqliteWriterMessage>,
    /// The writer task. Every `close` locks the handle and waits for the end of the task.
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    failure: Arc<LastWriteError>,
}

/// The error of the newest write, if the next write may fail too.
#[derive(Debug, Default)]
struct LastWriteError(Mutex<Option<StoreError>>);

impl LastWriteError {
    fn set(&self, failure: Option<StoreError>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    fn get(&self) -> Option<StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A write that changes nothing and needs room all the same.
struct SqliteSpaceProbe;

#[async_trait]
impl SqliteWriteOperation for SqliteSpaceProbe {
    type Answer = ();

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), SqliteWriteError> {
        // The probe is larger than what the last block of a file may have left on a full disk. Its row is deleted
        // with the settled chunks. No session has the number 0, and the index -1 marks a settled step: no reader
        // ever sees the row.
        sqlx::query("DELETE FROM chunk WHERE session_no = 0").execute(batch.db().await?).await?;
        sqlx::query("INSERT INTO chunk (session_no, step, idx, body) VALUES (0, '', -1, ?)")
            .bind(" ".repeat(PROBE_BYTES))
            .execute(batch.db().await?)
            .await?;
        Ok(())
    }
}

enum SqliteWriterMessage {
    Write(Box<dyn SqliteWriteRequest>),
    Close,
}

impl SqliteWriter {
    /// Starts the task. The task holds `lock` until the connection is closed.
    pub(crate) fn spawn(
        db: SqliteConnection,
        lock: ExclusiveFolderLock,
        watchers: Arc<SessionWatchers>,
    ) -> Self {
        let (requests, waiting) = mpsc::channel(WAITING_REQUESTS);
        let failure = Arc::<LastWriteError>::default();
        let last_failure = Arc::clone(&failure);
        let desk = SqliteWriterTask {
            db,
            watchers,
            leases: SqliteLeaseTable::default(),
            poisoned: None,
            last_failure,
        };
        let task = tokio::spawn(async move {
            desk.serve(waiting).await;
            // Only now may another process have the folder: the end of `serve` still moves the WAL into the
            // database.
            drop(lock);
        });
        Self { requests, task: tokio::sync::Mutex::new(Some(task)), failure }
    }

    /// Sends a write to the writer's task, and waits until the write is on disk.
    pub(crate) async fn submit<W: SqliteWriteOperation>(&self, write: W) -> Result<W::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let request = SqliteWriterMessage::Write(Box::new(PendingSqliteWrite { write, answer: None, reply }));
        // The channel is bounded: a caller waits here while the disk is slower than all callers together.
        self.requests.send(request).await.map_err(|_| StoreError::Closed)?;
        // The reply is dropped only when the task has ended with this request still in the channel.
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Returns whether writes work. After a failed write, another write is tried.
    ///
    /// # Errors
    /// The reason for failing writes.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        // Without an earlier failure nothing is tried: a health check that writes each time costs a flush each
        // time.
        match self.failure.get() {
            Some(earlier) => {
                tracing::debug!(%earlier, "the last write failed: another one is tried");
                self.submit(SqliteSpaceProbe).await
            }
            None => Ok(()),
        }
    }

    /// Waits until all accepted requests are written and the connection is closed.
    pub(crate) async fn close(&self) {
        // The message goes through the channel of the writes, so that writes before it are still done. An error
        // means that the task has ended already.
        let _ = self.requests.send(SqliteWriterMessage::Close).await;
        // Held across the wait on purpose: a second `close` must not return before the connection is closed.
        let mut task = self.task.lock().await;
        if let Some(task) = task.take()
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the writer of the store ended abnormally");
        }
    }
}

/// A write together with the waiting caller.
#[async_trait]
trait SqliteWriteRequest: Send {
    async fn apply(&mut self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), sqlx::Error>;
    fn bytes(&self) -> usize;
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct PendingSqliteWrite<W: SqliteWriteOperation> {
    write: W,
    answer: Option<Result<W::Answer, StoreError>>,
    reply: oneshot::Sender<Result<W::Answer, StoreError>>,
}

#[async_trait]
impl<W: SqliteWriteOperation> SqliteWriteRequest for PendingSqliteWrite<W> {
    async fn apply(&mut self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), sqlx::Error> {
        self.answer = match self.write.apply(batch).await {
            Ok(answer) => Some(Ok(answer)),
            Err(SqliteWriteError::Refused(error)) => Some(Err(error)),
            Err(SqliteWriteError::Database(error)) => return Err(error),
        };
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.write.bytes()
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self { answer, reply, .. } = *self;
        let answer = outcome.and_then(|()| answer.unwrap_or(Err(StoreError::Closed)));
        // The caller may have stopped waiting. The write stays written.
        let _ = reply.send(answer);
    }
}

/// The state of the writer task.
struct SqliteWriterTask {
    db: SqliteConnection,
    watchers: Arc<SessionWatchers>,
    leases: SqliteLeaseTable,
    /// Set after an error that leaves the content of the disk unknown.
    poisoned: Option<StoreError>,
    last_failure: Arc<LastWriteError>,
}

impl SqliteWriterTask {
    async fn serve(mut self, mut waiting: mpsc::Receiver<SqliteWriterMessage>) {
        // The channel ends with a `Close` message, or with the last `SqliteWriter` of a store that was not closed.
        while let Some(first) = waiting.recv().await {
            let requests = gather(first, &mut waiting);
            self.write(requests).await;
        }
        // A reader that is still open would keep the last close from the checkpoint.
        if let Err(error) = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut self.db).await {
            tracing::warn!(%error, "what was written last stays in the write-ahead log until the next start");
        }
        if let Err(error) = self.db.close().await {
            tracing::warn!(%error, "the database was not closed cleanly");
        }
        tracing::debug!("the writer of the store has ended");
    }

    async fn write(&mut self, mut requests: Vec<Box<dyn SqliteWriteRequest>>) {
        let begun = Instant::now();
        let outcome = self.attempt(&mut requests).await;
        let alone = requests.len() <= 1;
        tracing::trace!(
            requests = requests.len(),
            elapsed_ms = begun.elapsed().as_millis() as u64,
            is_written = outcome.is_ok(),
            "a batch of writes"
        );
        if let (Err(error), false) = (&outcome, alone) {
            tracing::debug!(%error, requests = requests.len(), "a batch of writes failed: each is tried by itself");
        }
        for mut request in requests {
            let outcome = match &outcome {
                // One bad request must not fail its neighbours. A request that failed alone would fail again.
                Err(_) if !alone => self.attempt(std::slice::from_mut(&mut request)).await,
                // The error is cloned, because every caller of the batch gets it as an answer.
                outcome => outcome.clone(),
            };
            request.answer(outcome);
        }
    }

    /// Writes `requests` in one transaction: all are on disk, or none.
    async fn attempt(&mut self, requests: &mut [Box<dyn SqliteWriteRequest>]) -> Result<(), StoreError> {
        if let Some(why) = &self.poisoned {
            return Err(why.clone());
        }
        if requests.is_empty() {
            return Ok(());
        }
        match self.transact(requests).await {
            Ok(news) => {
                self.last_failure.set(None);
                // Watchers are told after the commit: a reader that is woken must find the events.
                self.leases.commit_changes();
                news.notify_watchers(&self.watchers);
                Ok(())
            }
            Err(error) => Err(self.give_up(&error).await),
        }
    }

    async fn transact(
        &mut self,
        requests: &mut [Box<dyn SqliteWriteRequest>],
    ) -> Result<SqliteCommitNotices, sqlx::Error> {
        let mut batch = SqliteWriteBatch::new(&mut self.db, &mut self.leases);
        for request in requests {
            request.apply(&mut batch).await?;
        }
        batch.commit().await
    }

    async fn give_up(&mut self, error: &sqlx::Error) -> StoreError {
        self.leases.undo();
        // After some errors SQLite has rolled back by itself. Then this statement fails, which does no harm.
        let _ = sqlx::query("ROLLBACK").execute(&mut self.db).await;
        let answer = store_error(error);
        let severity = severity(error);
        tracing::debug!(%error, ?severity, "a transaction was rolled back");
        if severity != SqliteErrorSeverity::Passing {
            self.last_failure.set(Some(answer.clone()));
        }
        // After a failed fsync the system may drop the pages and report success the next time. A later commit could
        // then be acknowledged although an earlier one is lost.
        if severity == SqliteErrorSeverity::Fatal {
            tracing::error!(%error, "writing failed; nothing more is written until the next start");
            let why = format!("{error}; nothing more is written until the next start");
            self.poisoned = Some(StoreError::Storage(why));
        }
        answer
    }
}

fn gather(
    first: SqliteWriterMessage,
    waiting: &mut mpsc::Receiver<SqliteWriterMessage>,
) -> Vec<Box<dyn SqliteWriteRequest>> {
    let mut requests: Vec<Box<dyn SqliteWriteRequest>> = Vec::new();
    let mut bytes = 0;
    let mut next = Some(first);
    while let Some(message) = next {
        match message {
            SqliteWriterMessage::Write(request) => {
                bytes += request.bytes();
                requests.push(request);
            }
            // A closed channel accepts no request, but the requests in it are still received.
            SqliteWriterMessage::Close => waiting.close(),
        }
        // A transaction of unlimited size would keep its first callers waiting for all later ones.
        let room = requests.len() < BATCH_REQUESTS && bytes < BATCH_BYTES;
        next = if room { waiting.try_recv().ok() } else { None };
    }
    requests
}

#[cfg(test)]
mod tests;
