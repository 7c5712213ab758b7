//! Chunks of streaming answers.
//!
//! The table is a log without an index: chunks of all sessions lie in the order of their arrival, so one commit
//! writes a few full pages. [`SqliteChunkCounts`] has the facts that an index would have. A settled step gets a
//! marker. The chunks of several settled steps are deleted together later, so a page is rewritten once, and not
//! for each step with a chunk there.

use std::collections::BTreeMap;

use async_trait::async_trait;
use longhaul_store::{AnswerChunk, Lease, StoreError};
use sqlx::SqliteConnection;

use super::SqliteWriteOperation;
use super::batch::SqliteWriteBatch;
use crate::error::SqliteWriteError;
use crate::key::to_db;

/// The index of the marker of a settled step.
const SETTLED: i64 = -1;

/// The allowed number of rows of settled steps. If the live steps have more rows, as many rows of settled steps
/// may stay.
const MAX_SETTLED_ROWS: i64 = 256;

/// The counters of the chunk table, without the text of the chunks.
#[derive(Debug, Default)]
pub(crate) struct SqliteChunkCounts {
    /// `true` if the other fields are known. After a failed transaction the counts are read again.
    known: bool,
    /// The number of chunks of each unsettled step, by session and step.
    live: BTreeMap<(i64, String), i64>,
    live_rows: i64,
    settled_rows: i64,
}

impl SqliteChunkCounts {
    /// Forgets all counts. The next use reads the table again.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    async fn read(db: &mut SqliteConnection) -> Result<Self, sqlx::Error> {
        let rows = sqlx::query!(
            r#"SELECT session_no AS "session_no!", step AS "step!", count(*) AS "rows!: i64", min(idx) AS "first!: i64"
               FROM chunk GROUP BY session_no, step"#
        )
        .fetch_all(db)
        .await?;
        let mut steps = Self { known: true, ..Self::default() };
        for row in rows {
            // The marker has the least index of its step, so the minimum tells whether the step is settled.
            if row.first == SETTLED {
                steps.settled_rows += row.rows;
            } else {
                steps.live_rows += row.rows;
                steps.live.insert((row.session_no, row.step), row.rows);
            }
        }
        Ok(steps)
    }

    fn next_index(&self, no: i64, step: &str) -> i64 {
        self.live.get(&(no, step.to_owned())).copied().unwrap_or(0)
    }

    fn add_chunk(&mut self, no: i64, step: &str) {
        *self.live.entry((no, step.to_owned())).or_default() += 1;
        self.live_rows += 1;
    }

    /// Settles a step; returns whether the step had chunks.
    fn settle(&mut self, no: i64, step: &str) -> bool {
        let Some(rows) = self.live.remove(&(no, step.to_owned())) else { return false };
        self.live_rows -= rows;
        // The marker is a row of the settled step too.
        self.settled_rows += rows + 1;
        true
    }

    fn is_sweep_due(&self) -> bool {
        self.settled_rows > self.live_rows.max(MAX_SETTLED_ROWS)
    }
}

/// [`Store::put_chunk`](longhaul_store::Store::put_chunk).
pub(crate) struct SqliteChunkInsert {
    pub(crate) lease: Lease,
    pub(crate) chunk: AnswerChunk,
}

#[async_trait]
impl SqliteWriteOperation for SqliteChunkInsert {
    type Answer = ();

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), SqliteWriteError> {
        let no = batch.leases.check(&self.lease)?.no;
        let AnswerChunk { step, index, body } = &self.chunk;
        let index = to_db(*index);
        know_steps(batch).await?;
        if index != batch.leases.steps.next_index(no, step) {
            return Err(StoreError::Conflict(format!("chunk {index} is not the next of step {step}")).into());
        }
        batch.stage_chunk(no, step, index, body);
        batch.leases.steps.add_chunk(no, step);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.chunk.body.len()
    }
}

/// Reads the steps with chunks, unless known.
async fn know_steps(batch: &mut SqliteWriteBatch<'_>) -> Result<(), sqlx::Error> {
    if !batch.leases.steps.known {
        // Staged chunks must be in the table before the table is counted.
        batch.flush().await?;
        batch.leases.steps = SqliteChunkCounts::read(batch.db().await?).await?;
    }
    Ok(())
}

/// Drops the chunks of a settled step.
pub(super) async fn drop_step(
    batch: &mut SqliteWriteBatch<'_>,
    no: i64,
    step: &str,
) -> Result<(), sqlx::Error> {
    know_steps(batch).await?;
    if batch.leases.steps.settle(no, step) {
        batch.stage_chunk(no, step, SETTLED, "");
    }
    if batch.leases.steps.is_sweep_due() {
        sweep(batch).await?;
    }
    Ok(())
}

/// Deletes the rows of all settled steps.
async fn sweep(batch: &mut SqliteWriteBatch<'_>) -> Result<(), sqlx::Error> {
    batch.flush().await?;
    let swept = sqlx::query!(
        "DELETE FROM chunk WHERE (session_no, step) IN (SELECT session_no, step FROM chunk WHERE idx = -1)"
    )
    .execute(batch.db().await?)
    .await?;
    tracing::debug!(rows = swept.rows_affected(), "the chunks of settled steps were deleted");
    // If the transaction fails later, `undo` forgets the counts, and the next use reads them again.
    batch.leases.steps.settled_rows = 0;
    Ok(())
}

/// Deletes all chunks of a session.
pub(super) async fn drop_session(batch: &mut SqliteWriteBatch<'_>, no: i64) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM chunk WHERE session_no = ?", no).execute(batch.db().await?).await?;
    // Rows of settled steps are only counted over all sessions, so the session's share cannot be subtracted.
    batch.leases.steps.forget();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{MAX_SETTLED_ROWS, SqliteChunkCounts};

    #[test]
    fn settled_rows_are_swept_once_they_are_more_than_the_live_ones() {
        let mut steps = SqliteChunkCounts { known: true, ..SqliteChunkCounts::default() };
        for _ in 0..MAX_SETTLED_ROWS {
            steps.add_chunk(1, "a");
        }
        for _ in 0..1_000 {
            steps.add_chunk(2, "b");
        }
        assert!(steps.settle(1, "a") && !steps.settle(1, "a"));
        assert!(!steps.is_sweep_due(), "{steps:?}");
        assert!(steps.settle(2, "b"));
        assert!(steps.is_sweep_due(), "{steps:?}");
    }
}
