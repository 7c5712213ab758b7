//! The queue: accepting, changing and taking messages.

use async_trait::async_trait;
use longhaul_core::ids::{Millis, QueueId, SessionId};
use longhaul_core::message::Part;
use longhaul_core::metadata::MessageMetadata;
use longhaul_store::{EnqueueReceipt, NewQueuedMessage, StoreError, encode_queued};
use sqlx::SqliteConnection;

use super::SqliteWriteOperation;
use super::batch::SqliteWriteBatch;
use crate::error::SqliteWriteError;
use crate::key::{count_from_db, last_event_id, to_db};

/// The stored state of a message in the log.
const TAKEN: i64 = 1;
const REMOVED: i64 = 2;

/// [`Store::enqueue`](longhaul_store::Store::enqueue).
pub(crate) struct SqliteEnqueue {
    session: SessionId,
    id: QueueId,
    client_key: Option<String>,
    at: Millis,
    body: String,
    queue_limit: usize,
}

impl SqliteEnqueue {
    pub(crate) fn new(session: &SessionId, new: NewQueuedMessage) -> Result<Self, StoreError> {
        Ok(Self {
            session: session.clone(),
            body: encode_queued(&new.parts, new.metadata.as_ref())?,
            id: new.id,
            client_key: new.client_key,
            at: new.at,
            queue_limit: new.queue_limit,
        })
    }

    /// Returns the receipt of the message accepted earlier under the same key.
    async fn known(&self, db: &mut SqliteConnection, no: i64) -> Result<Option<EnqueueReceipt>, sqlx::Error> {
        let Some(key) = &self.client_key else { return Ok(None) };
        // `id >> 32` must be the same expression as in the index `inbox_key`. A message that no longer waits has
        // position 0, because the inner query then matches no row.
        let first = sqlx::query!(
            r#"SELECT queue_id, (SELECT count(*) FROM inbox AS waiting
                   WHERE waiting.id > (SELECT no << 32 | settled_messages FROM session WHERE no = ?1)
                     AND waiting.id <= inbox.id AND waiting.state = 0 AND inbox.state = 0) AS "position!: i64"
               FROM inbox WHERE client_key = ?2 AND id >> 32 = ?1"#,
            no,
            key
        )
        .fetch_optional(db)
        .await?;
        Ok(first.map(|first| EnqueueReceipt {
            id: first.queue_id.into(),
            position: count_from_db(first.position),
            repeated: true,
        }))
    }

    /// Inserts the message behind all others of the session.
    async fn insert(&self, db: &mut SqliteConnection, no: i64) -> Result<(), SqliteWriteError> {
        let (id, at, last) = (self.id.as_str(), to_db(self.at), last_event_id(no));
        // Only waiting messages are searched for the same id, because a settled message has no index. Ids are fresh
        // UUIDs, so a repetition of a settled one does not occur (docs/decisions/0051).
        let inserted = sqlx::query!(
            "INSERT INTO inbox (id, queue_id, client_key, queued_ms, body)
             SELECT coalesce((SELECT max(id) FROM inbox WHERE id BETWEEN ?1 << 32 AND ?2), ?1 << 32) + 1,
                    ?3, ?4, ?5, ?6
             WHERE NOT EXISTS (SELECT 1 FROM inbox
                 WHERE id > (SELECT no << 32 | settled_messages FROM session WHERE no = ?1) AND id <= ?2
                   AND queue_id = ?3)",
            no,
            last,
            id,
            self.client_key,
            at,
            self.body
        )
        .execute(db)
        .await?;
        if inserted.rows_affected() == 0 {
            return Err(StoreError::Conflict(format!("queued message {id} exists")).into());
        }
        Ok(())
    }
}

#[async_trait]
impl SqliteWriteOperation for SqliteEnqueue {
    type Answer = EnqueueReceipt;

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<EnqueueReceipt, SqliteWriteError> {
        let no = batch.session_no(&self.session).await?;
        // The key comes before the limit: a repetition of an accepted message succeeds although the queue is full
        // by now.
        if let Some(first) = self.known(batch.db().await?, no).await? {
            return Ok(first);
        }
        // Counted inside the transaction: of two senders at the limit, only the first finds room.
        let waiting = count_waiting(batch.db().await?, no).await?;
        if waiting >= self.queue_limit {
            return Err(StoreError::QueueFull(waiting).into());
        }
        self.insert(batch.db().await?, no).await?;
        Ok(EnqueueReceipt { id: self.id.clone(), position: waiting + 1, repeated: false })
    }

    fn bytes(&self) -> usize {
        self.body.len()
    }
}

async fn count_waiting(db: &mut SqliteConnection, no: i64) -> Result<usize, sqlx::Error> {
    let last = last_event_id(no);
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!: i64" FROM inbox
           WHERE id > (SELECT no << 32 | settled_messages FROM session WHERE no = ?1) AND id <= ?2 AND state = 0"#,
        no,
        last
    )
    .fetch_one(db)
    .await?;
    Ok(count_from_db(count))
}

/// [`Store::edit_queued`](longhaul_store::Store::edit_queued).
pub(crate) struct SqliteQueueEdit {
    id: SessionId,
    entry: QueueId,
    body: String,
}

impl SqliteQueueEdit {
    pub(crate) fn new(
        id: &SessionId,
        entry: &QueueId,
        parts: &[Part],
        metadata: Option<&MessageMetadata>,
    ) -> Result<Self, StoreError> {
        Ok(Self { id: id.clone(), entry: entry.clone(), body: encode_queued(parts, metadata)? })
    }
}

#[async_trait]
impl SqliteWriteOperation for SqliteQueueEdit {
    type Answer = ();

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), SqliteWriteError> {
        let no = batch.session_no(&self.id).await?;
        let (entry, last) = (self.entry.as_str(), last_event_id(no));
        let edited = sqlx::query!(
            "UPDATE inbox SET body = ?3
             WHERE id > (SELECT no << 32 | settled_messages FROM session WHERE no = ?1) AND id <= ?2 AND state = 0
               AND queue_id = ?4",
            no,
            last,
            self.body,
            entry
        )
        .execute(batch.db().await?)
        .await?;
        found(edited.rows_affected(), entry)
    }

    fn bytes(&self) -> usize {
        self.body.len()
    }
}

/// [`Store::remove_queued`](longhaul_store::Store::remove_queued).
pub(crate) struct SqliteQueueRemoval {
    pub(crate) id: SessionId,
    pub(crate) entry: QueueId,
}

#[async_trait]
impl SqliteWriteOperation for SqliteQueueRemoval {
    type Answer = ();

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), SqliteWriteError> {
        let no = batch.session_no(&self.id).await?;
        let entry = self.entry.as_str();
        let ids = id_list(std::slice::from_ref(&self.entry))?;
        let removed = settle(batch.db().await?, no, &ids, REMOVED).await?;
        found(removed, entry)
    }
}

/// [`Store::clear_queue`](longhaul_store::Store::clear_queue).
pub(crate) struct SqliteQueueClearing {
    pub(crate) id: SessionId,
}

#[async_trait]
impl SqliteWriteOperation for SqliteQueueClearing {
    type Answer = Vec<QueueId>;

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<Vec<QueueId>, SqliteWriteError> {
        let no = batch.session_no(&self.id).await?;
        let last = last_event_id(no);
        let ids = sqlx::query_scalar!(
            "SELECT queue_id FROM inbox
             WHERE id > (SELECT no << 32 | settled_messages FROM session WHERE no = ?1) AND id <= ?2 AND state = 0
             ORDER BY id",
            no,
            last
        )
        .fetch_all(batch.db().await?)
        .await?;
        let ids: Vec<QueueId> = ids.into_iter().map(QueueId::from).collect();
        settle(batch.db().await?, no, &id_list(&ids)?, REMOVED).await?;
        Ok(ids)
    }
}

/// Marks waiting messages as taken: all `count` of the list, or none.
///
/// # Errors
/// [`StoreError::Conflict`] if a message does not wait, or is listed twice.
pub(super) async fn mark_taken(
    db: &mut SqliteConnection,
    no: i64,
    ids: &str,
    count: usize,
) -> Result<(), SqliteWriteError> {
    let last = last_event_id(no);
    let waiting = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!: i64" FROM inbox
           WHERE id > (SELECT no << 32 | settled_messages FROM session WHERE no = ?1) AND id <= ?2 AND state = 0
             AND queue_id IN (SELECT value FROM json_each(?3))"#,
        no,
        last,
        ids
    )
    .fetch_one(&mut *db)
    .await?;
    // An id that is listed twice is found once, so the count differs then too.
    if count_from_db(waiting) != count {
        return Err(StoreError::Conflict(format!("not all of the queued messages {ids} wait")).into());
    }
    settle(db, no, ids, TAKEN).await?;
    Ok(())
}

/// Gives the waiting messages among `ids` another state. Returns the number of changed messages.
async fn settle(db: &mut SqliteConnection, no: i64, ids: &str, state: i64) -> Result<u64, sqlx::Error> {
    let last = last_event_id(no);
    // The row stays, so that a repetition of its `client_key` is recognised. Its content is in the log or not
    // wanted.
    let settled = sqlx::query!(
        "UPDATE inbox SET state = ?4, body = '[]'
         WHERE id > (SELECT no << 32 | settled_messages FROM session WHERE no = ?1) AND id <= ?2 AND state = 0
           AND queue_id IN (SELECT value FROM json_each(?3))",
        no,
        last,
        ids,
        state
    )
    .execute(&mut *db)
    .await?;
    // Queries start at this mark instead of skipping all settled messages, which may be thousands.
    sqlx::query!(
        "UPDATE session SET settled_messages = coalesce(
             (SELECT min(id) - 1 FROM inbox WHERE id > ?1 << 32 | settled_messages AND id <= ?2 AND state = 0),
             (SELECT max(id) FROM inbox WHERE id BETWEEN ?1 << 32 AND ?2), 0) & 4294967295
         WHERE no = ?1",
        no,
        last
    )
    .execute(db)
    .await?;
    Ok(settled.rows_affected())
}

/// Returns ids as the JSON list for [`take`].
pub(super) fn id_list(ids: &[QueueId]) -> Result<String, StoreError> {
    serde_json::to_string(ids).map_err(|error| StoreError::Storage(error.to_string()))
}

fn found(rows: u64, entry: &str) -> Result<(), SqliteWriteError> {
    if rows == 0 { Err(StoreError::NotFound(format!("waiting message {entry}")).into()) } else { Ok(()) }
}
