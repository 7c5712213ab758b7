//! Pieces of streaming answers.

use async_trait::async_trait;
use longhaul_store::{AnswerChunk, StoreError};
use sqlx::PgConnection;

use crate::error::PostgresOperationError;
use crate::leased_session::{PostgresLeasedWrite, PostgresWriteContext, PostgresWriteStatus};
use crate::text::{text_to_db, to_db};

/// [`Store::put_chunk`](longhaul_store::Store::put_chunk).
pub(crate) struct PostgresChunkInsert {
    pub(crate) chunk: AnswerChunk,
}

#[async_trait]
impl PostgresLeasedWrite for PostgresChunkInsert {
    type Answer = ();

    // The index of the piece already shows whether it was stored. The session row stays unwritten, which saves a
    // new row version for each piece.
    const COUNTS: bool = false;

    async fn write(
        &self,
        db: &mut PgConnection,
        place: &PostgresWriteContext,
        again: bool,
    ) -> Result<(), PostgresOperationError> {
        let AnswerChunk { step, index, body } = &self.chunk;
        let (step, body) = (text_to_db(step), text_to_db(body));
        // The lock on the session row keeps a claim of another node from coming between the check and the insert.
        let put = sqlx::query_scalar!(
            r#"WITH held AS (
                   SELECT no FROM session WHERE no = $1 AND owner = $2 AND epoch = $3 AND writes = $4
                   FOR NO KEY UPDATE
               )
               INSERT INTO chunk (session_no, step, idx, body)
               SELECT no, $5, $6, $7 FROM held
               WHERE $6 = (SELECT coalesce(max(idx) + 1, 0) FROM chunk WHERE session_no = $1 AND step = $5)
               ON CONFLICT DO NOTHING RETURNING idx"#,
            place.no,
            place.boot.as_str(),
            place.epoch,
            place.old,
            &*step,
            to_db(*index),
            &*body
        )
        .fetch_optional(&mut *db)
        .await?;
        if put.is_some() || again && self.is_kept(&mut *db, place).await? {
            return Ok(());
        }
        match place.check_write_status(db).await? {
            PostgresWriteStatus::Void => Err(place.fenced().into()),
            _ => Err(StoreError::Conflict(format!("chunk {index} is not the next of step {step}")).into()),
        }
    }
}

impl PostgresChunkInsert {
    /// Returns whether the piece is the newest of the step. Then an earlier attempt stored the piece, and the
    /// answer was lost.
    async fn is_kept(
        &self,
        db: &mut PgConnection,
        place: &PostgresWriteContext,
    ) -> Result<bool, sqlx::Error> {
        let newest = sqlx::query!(
            "SELECT idx, body FROM chunk WHERE session_no = $1 AND step = $2 ORDER BY idx DESC LIMIT 1",
            place.no,
            &*text_to_db(&self.chunk.step)
        )
        .fetch_optional(db)
        .await?;
        Ok(newest.is_some_and(|newest| {
            newest.idx == to_db(self.chunk.index) && newest.body == *text_to_db(&self.chunk.body)
        }))
    }
}
