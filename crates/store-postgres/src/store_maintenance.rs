//! The maintenance of the store, by one node at a time.

use async_trait::async_trait;
use longhaul_core::ids::{Millis, SessionId};
use longhaul_store::{MaintenanceLock, ReferencedBlobs, StoreError, StoreMaintenance};

use crate::error::store_error;
use crate::operations::store_maintenance::{
    PostgresIdleSessionDeletion, PostgresIdleSessionsQuery, PostgresReferencedBlobsQuery, take_turn,
};
use crate::store::PostgresStore;

#[async_trait]
impl StoreMaintenance for PostgresStore {
    async fn named_blobs(&self) -> Result<ReferencedBlobs, StoreError> {
        self.database().run_operation(&PostgresReferencedBlobsQuery).await
    }

    async fn at_rest_before(&self, before: Millis, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        self.database().run_operation(&PostgresIdleSessionsQuery { before, limit }).await
    }

    async fn delete_at_rest(&self, id: &SessionId, before: Millis) -> Result<bool, StoreError> {
        let deletion = PostgresIdleSessionDeletion::new(id.clone(), before);
        let deleted = self.database().run_operation(&deletion).await?;
        tracing::debug!(session = %id, before, deleted = deleted.is_some(), "a session at rest was to be deleted");
        deleted.iter().for_each(|no| self.gone(*no, id));
        Ok(deleted.is_some())
    }

    async fn turn(&self) -> Result<Option<MaintenanceLock>, StoreError> {
        let db = self.database().pool().acquire().await.map_err(|error| store_error(&error))?;
        // The lock belongs to a connection and lasts until that connection is closed. A connection of the pool
        // would keep the lock after its return.
        let mut db = db.detach();
        let taken = take_turn(&mut db).await.map_err(|error| store_error(&error))?;
        tracing::debug!(taken, "the lock for maintenance was asked for");
        Ok(taken.then(|| MaintenanceLock::with_guard(db)))
    }
}
