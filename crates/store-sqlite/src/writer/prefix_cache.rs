//! Writes entries of the prefix cache, and evicts the least recently used.

use async_trait::async_trait;
use longhaul_store::{PrefixCacheKey, PrefixCacheLimits};
use sqlx::SqliteConnection;

use super::SqliteWriteOperation;
use super::batch::SqliteWriteBatch;
use crate::error::SqliteWriteError;
use crate::key::limit_to_db;

/// [`PrefixCache::put`](longhaul_store::PrefixCache::put), with the found keys since the last put.
pub(crate) struct SqlitePrefixCacheInsert {
    /// The found keys, the oldest first.
    pub(crate) found: Vec<PrefixCacheKey>,
    /// The entry to store. `None` if only the found keys are recorded.
    pub(crate) entry: Option<(PrefixCacheKey, String)>,
    pub(crate) limits: PrefixCacheLimits,
}

#[async_trait]
impl SqliteWriteOperation for SqlitePrefixCacheInsert {
    type Answer = ();

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), SqliteWriteError> {
        self.touch(batch).await?;
        let Some((key, body)) = &self.entry else { return Ok(()) };
        let (key, bytes) = (key.as_bytes().as_slice(), limit_to_db(body.len()));
        insert(batch.db().await?, key, bytes, body).await?;
        self.shrink(batch).await
    }

    fn bytes(&self) -> usize {
        self.entry.as_ref().map_or(0, |(_, body)| body.len())
    }
}

impl SqlitePrefixCacheInsert {
    async fn touch(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), SqliteWriteError> {
        if self.found.is_empty() {
            return Ok(());
        }
        // A key may be noted several times. Its last use counts, hence `max(key)`, the index in the list.
        let found = keys_to_db(&self.found)?;
        let newest = sqlx::query_scalar!(r#"SELECT coalesce(max(used), 0) AS "used!: i64" FROM memo"#)
            .fetch_one(batch.db().await?)
            .await?;
        sqlx::query!(
            "UPDATE memo SET used = ?1 + 1 + found.place
             FROM (SELECT unhex(value) AS name, max(key) AS place FROM json_each(?2) GROUP BY value) AS found
             WHERE memo.key = found.name",
            newest,
            found
        )
        .execute(batch.db().await?)
        .await?;
        Ok(())
    }

    async fn shrink(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), SqliteWriteError> {
        // Running counts from the most recently used entry on mark all entries beyond the limits in one pass. The
        // index `memo_used` covers the query, so no body is read.
        let (entries, bytes) = (limit_to_db(self.limits.entries), limit_to_db(self.limits.bytes));
        let evicted = sqlx::query!(
            "DELETE FROM memo WHERE no IN (
                 SELECT no FROM (
                     SELECT no, row_number() OVER newer AS place, sum(bytes) OVER newer AS total FROM memo
                     WINDOW newer AS (ORDER BY used DESC, no DESC ROWS UNBOUNDED PRECEDING)
                 ) WHERE place > ?1 OR total > ?2
             )",
            entries,
            bytes
        )
        .execute(batch.db().await?)
        .await?;
        if evicted.rows_affected() > 0 {
            tracing::debug!(
                evicted = evicted.rows_affected(),
                max_entries = entries,
                max_bytes = bytes,
                "the least recently used entries of the prefix cache were evicted"
            );
        }
        Ok(())
    }
}

/// Remembers an entry as the most recently used.
pub(super) async fn insert(
    db: &mut SqliteConnection,
    key: &[u8],
    bytes: i64,
    body: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO memo (key, used, bytes, body)
             VALUES (?1, (SELECT coalesce(max(used), 0) + 1 FROM memo), ?2, ?3)
             ON CONFLICT (key) DO UPDATE SET used = excluded.used, bytes = excluded.bytes, body = excluded.body",
        key,
        bytes,
        body
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns keys as a JSON list for `json_each`, in order.
///
/// # Errors
/// None in practice: hexadecimal texts always serialise.
pub(crate) fn keys_to_db(keys: &[PrefixCacheKey]) -> Result<String, serde_json::Error> {
    let names: Vec<String> = keys.iter().map(PrefixCacheKey::to_hex).collect();
    serde_json::to_string(&names)
}
