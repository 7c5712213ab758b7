//! Pieces of streaming answers.

use async_trait::async_trait;
use longhaul_store::{Chunk, Lease, StoreError};

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
        let next = match batch.leases.next_piece(no, step) {
            Some(next) => next,
            None => stored_pieces(batch, no, step).await?,
        };
        if index != next {
            return Err(StoreError::Conflict(format!("piece {index} is not the next of step {step}")).into());
        }
        batch.stage_piece(no, step, index, body);
        batch.leases.set_next_piece(no, Some((step, next + 1)));
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.chunk.body.len()
    }
}

/// The index of the first piece that is not stored.
async fn stored_pieces(batch: &mut Batch<'_>, no: i64, step: &str) -> Result<i64, sqlx::Error> {
    batch.flush().await?;
    sqlx::query_scalar!(
        r#"SELECT coalesce(max(idx) + 1, 0) AS "next!: i64" FROM chunk WHERE session_no = ? AND step = ?"#,
        no,
        step
    )
    .fetch_one(batch.db().await?)
    .await
}

/// Drops the pieces of a step that is settled.
pub(super) async fn drop_step(batch: &mut Batch<'_>, no: i64, step: &str) -> Result<(), sqlx::Error> {
    batch.flush().await?;
    batch.leases.set_next_piece(no, None);
    sqlx::query!("DELETE FROM chunk WHERE session_no = ? AND step = ?", no, step)
        .execute(batch.db().await?)
        .await?;
    Ok(())
}
