//! The nodes: the living ones, the owners of sessions, and the sessions without an owner.

use std::time::Duration;

use async_trait::async_trait;
use longhaul_core::ids::SessionId;
use longhaul_store::{BootId, ClusterNode, StoreError};
use sqlx::{Connection, PgConnection};

use crate::error::{PostgresOperationError, not_found};
use crate::operation::PostgresOperation;
use crate::text::{count_from_db, from_db, limit_to_db, text_from_db, text_to_db};

/// Makes the process a node. An earlier life of the node ends at once.
pub(crate) struct PostgresNodeJoin {
    pub(crate) boot: BootId,
    pub(crate) before: Option<BootId>,
    pub(crate) address: Option<String>,
    pub(crate) token_digest: Option<String>,
    pub(crate) ttl: Duration,
}

impl PostgresNodeJoin {
    /// Refuses to join while a node with another token lives.
    ///
    /// # Errors
    /// [`StoreError::OtherToken`], until the other nodes have ended.
    async fn check_token(&self, db: &mut PgConnection) -> Result<(), PostgresOperationError> {
        // Two nodes that join at the same time would not see each other's uncommitted rows. The lock makes the
        // second one wait for the first.
        sqlx::query!(
            "SELECT pg_advisory_xact_lock(
                 hashtextextended('longhaul: nodes join', current_schema()::regnamespace::oid::bigint))"
        )
        .execute(&mut *db)
        .await?;
        let other = sqlx::query_scalar!(
            r#"SELECT coalesce(address, boot_id) AS "node!" FROM node
               WHERE lease_until > clock_timestamp() AND token_digest <> $1
                 AND boot_id <> $2 AND boot_id IS DISTINCT FROM $3
               ORDER BY since LIMIT 1"#,
            self.token_digest,
            self.boot.as_str(),
            self.before.as_ref().map(BootId::as_str)
        )
        .fetch_optional(db)
        .await?;
        match other.map(text_from_db) {
            Some(node) => Err(StoreError::OtherToken(node).into()),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl PostgresOperation for PostgresNodeJoin {
    type Answer = ();

    async fn run_once(&self, db: &mut PgConnection, _again: bool) -> Result<(), PostgresOperationError> {
        let address = self.address.as_deref().map(text_to_db);
        let mut all = db.begin().await?;
        if self.token_digest.is_some()
            && let Err(refused) = self.check_token(&mut all).await
        {
            // A dropped transaction is rolled back only when its connection is used next. Until then the lock would
            // keep other nodes from joining.
            all.rollback().await?;
            return Err(refused);
        }
        // If the answer of an earlier attempt was lost, the row is here already, and only its lease is extended.
        sqlx::query!(
            "INSERT INTO node (boot_id, address, token_digest, since, lease_until)
             VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp() + make_interval(secs => $4))
             ON CONFLICT (boot_id) DO UPDATE SET lease_until = excluded.lease_until",
            self.boot.as_str(),
            address.as_deref(),
            self.token_digest,
            self.ttl.as_secs_f64()
        )
        .execute(&mut *all)
        .await?;
        sqlx::query!(
            "DELETE FROM node WHERE boot_id = $1 OR lease_until < clock_timestamp() - interval '1 hour'",
            self.before.as_ref().map(BootId::as_str)
        )
        .execute(&mut *all)
        .await?;
        all.commit().await?;
        Ok(())
    }
}

/// Renews the lease. The answer is `false` if the lease has run out: such a lease is not revived.
pub(crate) struct PostgresNodeRenewal {
    pub(crate) boot: BootId,
    pub(crate) ttl: Duration,
}

#[async_trait]
impl PostgresOperation for PostgresNodeRenewal {
    type Answer = bool;

    async fn run_once(&self, db: &mut PgConnection, _again: bool) -> Result<bool, PostgresOperationError> {
        // A lease that has run out is not revived: another node may have claimed the sessions since.
        let renewed = sqlx::query!(
            "UPDATE node SET lease_until = clock_timestamp() + make_interval(secs => $2)
             WHERE boot_id = $1 AND lease_until > clock_timestamp()",
            self.boot.as_str(),
            self.ttl.as_secs_f64()
        )
        .execute(db)
        .await?;
        Ok(renewed.rows_affected() > 0)
    }
}

/// Ends the lease: the node's sessions are free.
pub(crate) struct PostgresNodeRemoval {
    pub(crate) boot: BootId,
}

#[async_trait]
impl PostgresOperation for PostgresNodeRemoval {
    type Answer = ();

    async fn run_once(&self, db: &mut PgConnection, _again: bool) -> Result<(), PostgresOperationError> {
        sqlx::query!("DELETE FROM node WHERE boot_id = $1", self.boot.as_str()).execute(db).await?;
        Ok(())
    }
}

struct PostgresNodeRow {
    boot_id: String,
    address: Option<String>,
    since_ms: i64,
    sessions: i64,
}

impl From<PostgresNodeRow> for ClusterNode {
    fn from(row: PostgresNodeRow) -> Self {
        Self {
            boot_id: BootId::new(row.boot_id),
            address: row.address.map(text_from_db),
            since: from_db(row.since_ms),
            sessions: count_from_db(row.sessions),
        }
    }
}

/// [`ClusterStore::nodes`](longhaul_store::ClusterStore::nodes).
pub(crate) struct PostgresLiveNodesQuery;

#[async_trait]
impl PostgresOperation for PostgresLiveNodesQuery {
    type Answer = Vec<ClusterNode>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Vec<ClusterNode>, PostgresOperationError> {
        let rows = sqlx::query_as!(
            PostgresNodeRow,
            r#"SELECT boot_id, address, (extract(epoch FROM since) * 1000)::bigint AS "since_ms!",
                      (SELECT count(*) FROM session WHERE owner = boot_id) AS "sessions!"
               FROM node WHERE lease_until > clock_timestamp() ORDER BY since, boot_id"#
        )
        .fetch_all(db)
        .await?;
        Ok(rows.into_iter().map(ClusterNode::from).collect())
    }
}

/// [`ClusterStore::living_owner`](longhaul_store::ClusterStore::living_owner).
pub(crate) struct PostgresOwnerQuery {
    pub(crate) id: SessionId,
}

#[async_trait]
impl PostgresOperation for PostgresOwnerQuery {
    type Answer = Option<ClusterNode>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Option<ClusterNode>, PostgresOperationError> {
        let owner =
            sqlx::query_scalar!("SELECT owner FROM session WHERE id = $1", &*text_to_db(self.id.as_str()))
                .fetch_optional(&mut *db)
                .await?
                .ok_or_else(|| not_found(&self.id))?;
        let row = sqlx::query_as!(
            PostgresNodeRow,
            r#"SELECT boot_id, address, (extract(epoch FROM since) * 1000)::bigint AS "since_ms!",
                      (SELECT count(*) FROM session WHERE owner = boot_id) AS "sessions!"
               FROM node WHERE boot_id = $1 AND lease_until > clock_timestamp()"#,
            owner
        )
        .fetch_optional(db)
        .await?;
        Ok(row.map(ClusterNode::from))
    }
}

/// [`ClusterStore::orphans`](longhaul_store::ClusterStore::orphans).
pub(crate) struct PostgresOrphansQuery {
    pub(crate) limit: usize,
    /// `true` if messages from before a cancel or a crash count.
    pub(crate) waiting: bool,
    /// The seed of the order. Two nodes that ask at the same time then begin with different sessions.
    pub(crate) seed: i64,
}

#[async_trait]
impl PostgresOperation for PostgresOrphansQuery {
    type Answer = Vec<SessionId>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Vec<SessionId>, PostgresOperationError> {
        // Both halves of the UNION have a partial index (`session_running`, `inbox_waiting`): sessions at rest
        // are not read.
        let ids = sqlx::query_scalar!(
            "SELECT id FROM session
             WHERE no IN (SELECT no FROM session WHERE running UNION SELECT session_no FROM inbox WHERE state = 0)
               AND (running OR NOT parked AND ($3 OR EXISTS (
                   SELECT FROM inbox
                   WHERE session_no = session.no AND state = 0 AND queued_ms >= session.updated_ms)))
               AND NOT EXISTS (SELECT FROM node WHERE boot_id = session.owner AND lease_until > clock_timestamp())
             ORDER BY hashtextextended(id, $1) LIMIT $2",
            self.seed,
            limit_to_db(self.limit),
            self.waiting
        )
        .fetch_all(db)
        .await?;
        Ok(ids.into_iter().map(|id| text_from_db(id).into()).collect())
    }
}

/// [`ClusterStore::next_lease_end`](longhaul_store::ClusterStore::next_lease_end).
pub(crate) struct PostgresNextLeaseEndQuery {
    /// The asking node.
    pub(crate) boot: BootId,
}

#[async_trait]
impl PostgresOperation for PostgresNextLeaseEndQuery {
    type Answer = Option<Duration>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Option<Duration>, PostgresOperationError> {
        let left = sqlx::query_scalar!(
            r#"SELECT extract(epoch FROM min(lease_until) - clock_timestamp())::float8 AS "left?"
               FROM node WHERE boot_id <> $1 AND lease_until > clock_timestamp()"#,
            self.boot.as_str()
        )
        .fetch_one(db)
        .await?;
        // A lease that ended while the query ran gives a negative time.
        Ok(left.map(|left| Duration::try_from_secs_f64(left).unwrap_or_default()))
    }
}

/// The query that asks whether the database started less than `ttl` ago. Living nodes may then not have returned
/// to the database yet.
pub(crate) struct PostgresRecentStartQuery {
    pub(crate) ttl: Duration,
}

#[async_trait]
impl PostgresOperation for PostgresRecentStartQuery {
    type Answer = bool;

    async fn run_once(&self, db: &mut PgConnection, _again: bool) -> Result<bool, PostgresOperationError> {
        let young = sqlx::query_scalar!(
            r#"SELECT pg_postmaster_start_time() > clock_timestamp() - make_interval(secs => $1) AS "young!""#,
            self.ttl.as_secs_f64()
        )
        .fetch_one(db)
        .await?;
        Ok(young)
    }
}

/// The query for the ends of logs and the counts of mail for their owners, for a node that may have missed news.
pub(crate) struct PostgresMissedNewsQuery {
    pub(crate) sessions: Vec<i64>,
}

/// The newest state of one session.
pub(crate) struct PostgresSessionHeadRow {
    pub(crate) no: i64,
    pub(crate) last_seq: i64,
    pub(crate) mail: i64,
}

#[async_trait]
impl PostgresOperation for PostgresMissedNewsQuery {
    type Answer = Vec<PostgresSessionHeadRow>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Vec<PostgresSessionHeadRow>, PostgresOperationError> {
        let rows = sqlx::query_as!(
            PostgresSessionHeadRow,
            "SELECT no, last_seq, mail FROM session WHERE no = ANY($1::bigint[])",
            &self.sessions
        )
        .fetch_all(db)
        .await?;
        Ok(rows)
    }
}

/// The command that notifies the other nodes.
pub(crate) struct PostgresNotifyCommand {
    pub(crate) channel: String,
    pub(crate) payload: String,
}

#[async_trait]
impl PostgresOperation for PostgresNotifyCommand {
    type Answer = ();

    async fn run_once(&self, db: &mut PgConnection, _again: bool) -> Result<(), PostgresOperationError> {
        sqlx::query!("SELECT pg_notify($1, $2)", self.channel, self.payload).execute(db).await?;
        Ok(())
    }
}
