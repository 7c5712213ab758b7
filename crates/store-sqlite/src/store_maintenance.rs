//! The maintenance of the store: blobs named by events, and expired sessions.

use async_trait::async_trait;
use futures_util::TryStreamExt;
use longhaul_core::ids::{Millis, SessionId};
use longhaul_store::{MaintenanceLock, ReferencedBlobs, StoreError, StoreMaintenance, decode_queued};
use sqlx::SqliteConnection;

use crate::error::store_error;
use crate::key::{limit_to_db, to_db};
use crate::store::SqliteStore;
use crate::writer::session::SqliteIdleSessionDeletion;

#[async_trait]
impl StoreMaintenance for SqliteStore {
    async fn named_blobs(&self) -> Result<ReferencedBlobs, StoreError> {
        // Logs and queue come from one snapshot. A message that moves from the queue to the log between two reads
        // would be in neither, and its blobs would be removed.
        let mut all = self.reader().pool().begin().await.map_err(|error| store_error(&error))?;
        let mut named = ReferencedBlobs::default();
        for body in named_by_logs(&mut all, &mut named).await.map_err(|error| store_error(&error))? {
            let (parts, _) = decode_queued(&body)
                .map_err(|error| StoreError::Corrupt(format!("a queued message: {error}")))?;
            named.add_parts(&parts);
        }
        Ok(named)
    }

    async fn at_rest_before(&self, before: Millis, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        // The hour only bounds the search, because the index has no finer time. `updated_ms` decides.
        let (before, limit) = (to_db(before), limit_to_db(limit));
        let ids = sqlx::query_scalar!(
            "SELECT id FROM session
             WHERE changed_hour <= ?1 / 3600000 AND updated_ms < ?1 AND running = 0 AND parked = 0 AND owner IS NULL
               AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.id > no << 32 | settled_messages
                                   AND inbox.id <= no << 32 | 4294967295 AND state = 0)
             ORDER BY changed_hour, updated_ms, no LIMIT ?2",
            before,
            limit
        )
        .fetch_all(self.reader().pool())
        .await
        .map_err(|error| store_error(&error))?;
        Ok(ids.into_iter().map(SessionId::from).collect())
    }

    async fn delete_at_rest(&self, id: &SessionId, before: Millis) -> Result<bool, StoreError> {
        self.writer()?.submit(SqliteIdleSessionDeletion { id: id.clone(), before }).await
    }

    async fn turn(&self) -> Result<Option<MaintenanceLock>, StoreError> {
        // The folder belongs to this process, so no other process can hold the lock for maintenance.
        self.writer()?;
        Ok(Some(MaintenanceLock::unshared()))
    }
}

/// Adds the blobs named by logs, and returns the stored forms of the waiting messages.
async fn named_by_logs(
    db: &mut SqliteConnection,
    named: &mut ReferencedBlobs,
) -> Result<Vec<String>, sqlx::Error> {
    let mut hashes = sqlx::query_scalar!("SELECT hash FROM blob_ref").fetch(&mut *db);
    while let Some(hash) = hashes.try_next().await? {
        named.add(&hash);
    }
    // The stream borrows the connection, which the next query needs.
    drop(hashes);
    sqlx::query_scalar!("SELECT body FROM inbox WHERE state = 0").fetch_all(db).await
}
