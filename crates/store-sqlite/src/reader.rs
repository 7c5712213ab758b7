//! Reads of the store. Each call sees everything committed before.

use longhaul_core::ids::{Seq, SessionId};
use longhaul_core::message::BlobRef;
use longhaul_core::queue::QueuedMessage;
use longhaul_store::{AnswerChunk, PrefixCacheKey, SessionCounts, SessionRecord, StoreError, decode_queued};
use sqlx::SqlitePool;

use crate::error::store_error;
use crate::key::{count_from_db, from_db, last_event_id, limit_to_db};
use crate::writer::prefix_cache::keys_to_db;

pub(crate) mod log;

/// The reading connections.
#[derive(Clone, Debug)]
pub(crate) struct SqliteReader {
    pool: SqlitePool,
}

struct SqliteSessionRow {
    id: String,
    title: Option<String>,
    created_ms: i64,
    updated_ms: i64,
    last_seq: i64,
    running: i64,
    parked: i64,
    queued: i64,
}

impl SqliteReader {
    pub(crate) fn new(pool: SqlitePool) -> Self {
        Self { pool }
    }

    pub(crate) fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    pub(crate) async fn record(&self, id: &SessionId) -> Result<SessionRecord, StoreError> {
        let name = id.as_str();
        // The upper half of an inbox id is the session's number. Messages up to `settled_messages` no longer
        // wait, so the count skips them.
        let row = sqlx::query_as!(
            SqliteSessionRow,
            r#"SELECT id, title, created_ms, updated_ms, last_seq, running, parked,
                      (SELECT count(*) FROM inbox
                       WHERE inbox.id > no << 32 | settled_messages AND inbox.id <= no << 32 | 4294967295
                         AND state = 0) AS "queued!: i64"
               FROM session WHERE id = ?"#,
            name
        )
        .fetch_optional(&self.pool)
        .await
        .map_err(|error| store_error(&error))?;
        row.map(SqliteSessionRow::into_record).ok_or_else(|| not_found(id))
    }

    pub(crate) async fn records(&self, limit: usize) -> Result<Vec<SessionRecord>, StoreError> {
        let limit = limit_to_db(limit);
        // The index covers the hour only, because it is then written once an hour for each session
        // (docs/decisions/0051). The sessions of one hour are sorted by the exact time.
        let rows = sqlx::query_as!(
            SqliteSessionRow,
            r#"SELECT id, title, created_ms, updated_ms, last_seq, running, parked,
                      (SELECT count(*) FROM inbox
                       WHERE inbox.id > no << 32 | settled_messages AND inbox.id <= no << 32 | 4294967295
                         AND state = 0) AS "queued!: i64"
               FROM session ORDER BY changed_hour DESC, updated_ms DESC, no DESC LIMIT ?"#,
            limit
        )
        .fetch_all(&self.pool)
        .await
        .map_err(|error| store_error(&error))?;
        Ok(rows.into_iter().map(SqliteSessionRow::into_record).collect())
    }

    pub(crate) async fn counts(&self) -> Result<SessionCounts, StoreError> {
        let row = sqlx::query!(
            r#"SELECT count(*) AS "sessions!: i64", count(*) FILTER (WHERE parked) AS "parked!: i64",
                      (SELECT count(*) FROM session AS waited JOIN inbox
                         ON inbox.id > waited.no << 32 | waited.settled_messages
                        AND inbox.id <= waited.no << 32 | 4294967295 AND inbox.state = 0) AS "queued!: i64"
               FROM session"#
        )
        .fetch_one(&self.pool)
        .await
        .map_err(|error| store_error(&error))?;
        let (sessions, parked, queued) = (from_db(row.sessions), from_db(row.parked), from_db(row.queued));
        Ok(SessionCounts { sessions, parked, queued })
    }

    pub(crate) async fn last_seq(&self, id: &SessionId) -> Result<Seq, StoreError> {
        let name = id.as_str();
        let last = sqlx::query_scalar!("SELECT last_seq FROM session WHERE id = ?", name)
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| store_error(&error))?;
        last.map(from_db).ok_or_else(|| not_found(id))
    }

    pub(crate) async fn queue(&self, id: &SessionId) -> Result<Vec<QueuedMessage>, StoreError> {
        let no = self.session_no(id).await?;
        let last = last_event_id(no);
        let rows = sqlx::query!(
            r#"SELECT queue_id, queued_ms, body FROM inbox
               WHERE id > (SELECT no << 32 | settled_messages FROM session WHERE no = ?1) AND id <= ?2
                 AND state = 0 ORDER BY id"#,
            no,
            last
        )
        .fetch_all(&self.pool)
        .await
        .map_err(|error| store_error(&error))?;
        rows.into_iter()
            .map(|row| {
                let (parts, metadata) = decode_queued(&row.body)
                    .map_err(|error| corrupt(format!("queued message {}: {error}", row.queue_id)))?;
                Ok(QueuedMessage {
                    id: row.queue_id.into(),
                    queued_at: from_db(row.queued_ms),
                    parts,
                    metadata,
                })
            })
            .collect()
    }

    pub(crate) async fn chunks(&self, id: &SessionId) -> Result<Vec<AnswerChunk>, StoreError> {
        let no = self.session_no(id).await?;
        // A row with index -1 marks a settled step, whose rows are deleted later. The first row of a step
        // gives the order in which the steps began.
        let rows = sqlx::query!(
            r#"SELECT step, idx, body FROM chunk WHERE session_no = ?1
                 AND step NOT IN (SELECT step FROM chunk WHERE session_no = ?1 AND idx = -1)
               ORDER BY (SELECT first.id FROM chunk AS first
                         WHERE first.session_no = ?1 AND first.step = chunk.step AND first.idx = 0), idx"#,
            no
        )
        .fetch_all(&self.pool)
        .await
        .map_err(|error| store_error(&error))?;
        Ok(rows
            .into_iter()
            .map(|row| AnswerChunk { step: row.step, index: from_db(row.idx), body: row.body })
            .collect())
    }

    pub(crate) async fn blobs(&self, id: &SessionId) -> Result<Vec<BlobRef>, StoreError> {
        let no = self.session_no(id).await?;
        let rows = sqlx::query!(
            "SELECT hash, bytes FROM blob_ref WHERE session_no = ? ORDER BY first_seq, hash",
            no
        )
        .fetch_all(&self.pool)
        .await
        .map_err(|error| store_error(&error))?;
        Ok(rows.into_iter().map(|row| BlobRef { hash: row.hash, bytes: from_db(row.bytes) }).collect())
    }

    /// Returns the known entries of `keys`, in order: the index of the key, and the body.
    pub(crate) async fn remembered(
        &self,
        keys: &[PrefixCacheKey],
    ) -> Result<Vec<(usize, String)>, StoreError> {
        // One JSON parameter keeps the statement the same for every number of keys, so that it is prepared once.
        // JSON has no bytes, hence `unhex`.
        let keys = keys_to_db(keys).map_err(|error| StoreError::Storage(error.to_string()))?;
        let rows = sqlx::query!(
            r#"SELECT asked.key + 0 AS "place!: i64", memo.body FROM json_each(?) AS asked
               JOIN memo ON memo.key = unhex(asked.value) ORDER BY asked.key"#,
            keys
        )
        .fetch_all(&self.pool)
        .await
        .map_err(|error| store_error(&error))?;
        Ok(rows.into_iter().map(|row| (count_from_db(row.place), row.body)).collect())
    }

    async fn session_no(&self, id: &SessionId) -> Result<i64, StoreError> {
        let name = id.as_str();
        sqlx::query_scalar!(r#"SELECT no AS "no!" FROM session WHERE id = ?"#, name)
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| store_error(&error))?
            .ok_or_else(|| not_found(id))
    }
}

impl SqliteSessionRow {
    fn into_record(self) -> SessionRecord {
        SessionRecord {
            id: self.id.into(),
            title: self.title,
            created_at: from_db(self.created_ms),
            updated_at: from_db(self.updated_ms),
            last_seq: from_db(self.last_seq),
            queued: count_from_db(self.queued),
            running: self.running != 0,
            parked: self.parked != 0,
        }
    }
}

fn not_found(id: &SessionId) -> StoreError {
    StoreError::NotFound(format!("session {id}"))
}

fn corrupt(what: String) -> StoreError {
    StoreError::Corrupt(what)
}
