//! The queries for blobs named by events and for expired sessions.

use std::sync::OnceLock;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use longhaul_core::ids::{Millis, SessionId};
use longhaul_store::{ReferencedBlobs, StoreError, decode_queued};
use sqlx::{Connection, PgConnection};

use crate::error::PostgresOperationError;
use crate::operation::PostgresOperation;
use crate::operations::session::remove;
use crate::text::{limit_to_db, text_from_db, text_to_db, to_db};

/// [`StoreMaintenance::named_blobs`](longhaul_store::StoreMaintenance::named_blobs).
pub(crate) struct PostgresReferencedBlobsQuery;

#[async_trait]
impl PostgresOperation for PostgresReferencedBlobsQuery {
    type Answer = ReferencedBlobs;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<ReferencedBlobs, PostgresOperationError> {
        let mut named = ReferencedBlobs::default();
        // The queue is read before the logs: a message that is taken in between is then in a log.
        for body in sqlx::query_scalar!("SELECT body FROM inbox WHERE state = 0").fetch_all(&mut *db).await? {
            let (parts, _) = decode_queued(&body)
                .map_err(|error| StoreError::Corrupt(format!("a queued message: {error}")))?;
            named.add_parts(&parts);
        }
        // One statement sees one snapshot. Two could miss a fork before it is made and its origin after it is
        // deleted.
        let mut hashes = sqlx::query_scalar!("SELECT hash FROM blob_ref").fetch(db);
        while let Some(hash) = hashes.try_next().await? {
            named.add(&hash);
        }
        drop(hashes);
        Ok(named)
    }
}

/// [`StoreMaintenance::at_rest_before`](longhaul_store::StoreMaintenance::at_rest_before).
pub(crate) struct PostgresIdleSessionsQuery {
    pub(crate) before: Millis,
    pub(crate) limit: usize,
}

#[async_trait]
impl PostgresOperation for PostgresIdleSessionsQuery {
    type Answer = Vec<SessionId>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Vec<SessionId>, PostgresOperationError> {
        let ids = sqlx::query_scalar!(
            "SELECT id FROM session
             WHERE updated_ms < $1 AND NOT running AND NOT parked
               AND NOT EXISTS (SELECT FROM inbox WHERE session_no = session.no AND state = 0)
               AND NOT EXISTS (SELECT FROM node WHERE boot_id = session.owner AND lease_until > clock_timestamp())
             ORDER BY updated_ms, no LIMIT $2",
            to_db(self.before),
            limit_to_db(self.limit)
        )
        .fetch_all(db)
        .await?;
        Ok(ids.into_iter().map(|id| text_from_db(id).into()).collect())
    }
}

/// [`StoreMaintenance::delete_at_rest`](longhaul_store::StoreMaintenance::delete_at_rest). Returns the number
/// of the deleted session.
pub(crate) struct PostgresIdleSessionDeletion {
    id: SessionId,
    before: Millis,
    /// The number of the session whose deletion was about to be committed.
    committing: OnceLock<i64>,
}

impl PostgresIdleSessionDeletion {
    pub(crate) fn new(id: SessionId, before: Millis) -> Self {
        Self { id, before, committing: OnceLock::new() }
    }
}

#[async_trait]
impl PostgresOperation for PostgresIdleSessionDeletion {
    type Answer = Option<i64>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        again: bool,
    ) -> Result<Option<i64>, PostgresOperationError> {
        let mut all = db.begin().await?;
        // The lock comes first. The next statement then sees everything that was written before it.
        let no = sqlx::query_scalar!(
            "SELECT no FROM session WHERE id = $1 FOR UPDATE",
            &*text_to_db(self.id.as_str())
        )
        .fetch_optional(&mut *all)
        .await?;
        let Some(no) = no else {
            // The answer to a commit can be lost. If an earlier attempt was about to delete the session and the
            // session is gone, that attempt deleted it.
            return Ok(self.committing.get().copied().filter(|_| again));
        };
        let rests = sqlx::query_scalar!(
            r#"SELECT updated_ms < $2 AND NOT running AND NOT parked
                      AND NOT EXISTS (SELECT FROM inbox WHERE session_no = session.no AND state = 0)
                      AND NOT EXISTS (
                          SELECT FROM node WHERE boot_id = session.owner AND lease_until > clock_timestamp()
                      ) AS "rests!"
               FROM session WHERE no = $1"#,
            no,
            to_db(self.before)
        )
        .fetch_one(&mut *all)
        .await?;
        if !rests {
            return Ok(None);
        }
        remove(&mut all, no).await?;
        // A repeated attempt finds the number that the first one set.
        let _ = self.committing.set(no);
        all.commit().await?;
        Ok(Some(no))
    }
}

/// Takes the lock for maintenance on the connection. Returns `false` if another connection has the lock.
///
/// # Errors
/// The errors of the database.
pub(crate) async fn take_turn(db: &mut PgConnection) -> Result<bool, sqlx::Error> {
    // Advisory locks belong to the whole database, which may hold a store in each of several schemas.
    sqlx::query_scalar!(
        r#"SELECT pg_try_advisory_lock(hashtextextended('longhaul upkeep ' || current_schema(), 0)) AS "taken!""#
    )
    .fetch_one(db)
    .await
}
