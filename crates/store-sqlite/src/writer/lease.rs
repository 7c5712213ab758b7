//! Giving and taking the right to append.

use async_trait::async_trait;
use longhaul_core::ids::SessionId;
use longhaul_store::{Lease, StoreError};

use super::Write;
use super::batch::{Batch, Held};
use crate::error::Failure;
use crate::key::from_db;

/// [`Store::claim`](longhaul_store::Store::claim).
pub(crate) struct Claim {
    pub(crate) id: SessionId,
    pub(crate) owner: String,
}

#[async_trait]
impl Write for Claim {
    type Answer = Lease;

    async fn apply(&self, batch: &mut Batch<'_>) -> Result<Lease, Failure> {
        batch.flush().await?;
        let id = self.id.as_str();
        // Epochs begin at `no << 32`: no lease fits a later session of the same name.
        let row = sqlx::query!(
            r#"UPDATE session SET owner = ?, epoch = max(epoch, no << 32) + 1 WHERE id = ?
               RETURNING no AS "no!", epoch AS "epoch!", last_seq AS "last_seq!""#,
            self.owner,
            id
        )
        .fetch_optional(batch.db().await?)
        .await?
        .ok_or_else(|| StoreError::NotFound(format!("session {id}")))?;
        let held = Held { no: row.no, epoch: row.epoch, last_seq: from_db(row.last_seq) };
        batch.leases.set(&self.id, Some(held));
        Ok(Lease { session_id: self.id.clone(), epoch: from_db(row.epoch) })
    }
}

/// [`Store::release`](longhaul_store::Store::release).
pub(crate) struct Release {
    pub(crate) lease: Lease,
}

#[async_trait]
impl Write for Release {
    type Answer = ();

    async fn apply(&self, batch: &mut Batch<'_>) -> Result<(), Failure> {
        let Ok(held) = batch.leases.check(&self.lease) else { return Ok(()) };
        batch.flush().await?;
        sqlx::query!("UPDATE session SET owner = NULL WHERE no = ?", held.no)
            .execute(batch.db().await?)
            .await?;
        batch.leases.set(&self.lease.session_id, None);
        Ok(())
    }
}
