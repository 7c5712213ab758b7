//! Giving and taking the right to append.

use async_trait::async_trait;
use longhaul_core::ids::SessionId;
use longhaul_store::{Lease, StoreError};

use super::SqliteWriteOperation;
use super::batch::{SqliteLeasedSession, SqliteWriteBatch};
use crate::error::SqliteWriteError;
use crate::key::from_db;

/// [`Store::claim`](longhaul_store::Store::claim).
pub(crate) struct SqliteLeaseClaim {
    pub(crate) id: SessionId,
    pub(crate) owner: String,
}

#[async_trait]
impl SqliteWriteOperation for SqliteLeaseClaim {
    type Answer = Lease;

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<Lease, SqliteWriteError> {
        // The statement below reads `last_seq`, which events staged in this transaction may still change.
        batch.flush().await?;
        let id = self.id.as_str();
        // Epochs begin at `no << 32`: no lease fits a later session of the same name. An earlier lease is not
        // looked at: this process alone has the folder, and the newest claim wins.
        let row = sqlx::query!(
            r#"UPDATE session SET owner = ?, epoch = max(epoch, no << 32) + 1 WHERE id = ?
               RETURNING no AS "no!", epoch AS "epoch!", last_seq AS "last_seq!""#,
            self.owner,
            id
        )
        .fetch_optional(batch.db().await?)
        .await?
        .ok_or_else(|| StoreError::NotFound(format!("session {id}")))?;
        let held = SqliteLeasedSession { no: row.no, epoch: row.epoch, last_seq: from_db(row.last_seq) };
        batch.leases.set(&self.id, Some(held));
        Ok(Lease { session_id: self.id.clone(), epoch: from_db(row.epoch) })
    }
}

/// [`Store::release`](longhaul_store::Store::release).
pub(crate) struct SqliteLeaseRelease {
    pub(crate) lease: Lease,
}

#[async_trait]
impl SqliteWriteOperation for SqliteLeaseRelease {
    type Answer = ();

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), SqliteWriteError> {
        // A void lease must not end the lease of its successor.
        let Ok(held) = batch.leases.check(&self.lease) else { return Ok(()) };
        batch.flush().await?;
        sqlx::query!("UPDATE session SET owner = NULL WHERE no = ?", held.no)
            .execute(batch.db().await?)
            .await?;
        batch.leases.set(&self.lease.session_id, None);
        Ok(())
    }
}
