//! Pieces of streaming answers.

use async_trait::async_trait;
use longhaul_store::{Chunk, Lease, StoreError};
use sqlx::SqliteConnection;

use super::Write;
use super::batch::Batch;
use crate::error::Failure;
use crate::key::to_db;

/// [`Store::put_chunk`](longhaul_store::Store::put_chunk).
pub(crate) struct Put {
    pub(crate) lease: Lease,
    pub(crate) chunk: Chunk,
}

#[async_trait]
impl Write for Put {
    type Answer = ();

    async fn apply(&self, batch: &mut Batch<'_>) -> Result<(), Failure> {
        let no = batch.leases.check(&self.lease)?.no;
        let Chunk { step, index, body } = &self.chunk;
        let index = to_db(*index);
        let put = sqlx::query!(
            "INSERT INTO chunk (session_no, step, idx, body) SELECT ?1, ?2, ?3, ?4
             WHERE ?3 = (SELECT coalesce(max(idx) + 1, 0) FROM chunk WHERE session_no = ?1 AND step = ?2)",
            no,
            step,
            index,
            body
        )
        .execute(batch.db().await?)
        .await?;
        if put.rows_affected() == 0 {
            return Err(StoreError::Conflict(format!("piece {index} is not the next of step {step}")).into());
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.chunk.body.len()
    }
}

/// Drops the pieces of a step that is settled.
pub(super) async fn drop_step(db: &mut SqliteConnection, no: i64, step: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM chunk WHERE session_no = ? AND step = ?", no, step).execute(db).await?;
    Ok(())
}
