//! The signals that nodes send to the owner of a session.

use async_trait::async_trait;
use longhaul_core::ids::SessionId;
use longhaul_store::SessionSignal;
use sqlx::PgConnection;

use crate::error::{PostgresOperationError, not_found};
use crate::leased_session::{PostgresLeasedWrite, PostgresWriteContext, PostgresWriteStatus};
use crate::operation::PostgresOperation;
use crate::text::{from_db, text_from_db, text_to_db};

/// [`ClusterStore::signal`](longhaul_store::ClusterStore::signal). The answer is the session's number.
pub(crate) struct PostgresSignalInsert {
    pub(crate) id: SessionId,
    pub(crate) body: String,
    pub(crate) sent_by: String,
}

#[async_trait]
impl PostgresOperation for PostgresSignalInsert {
    type Answer = i64;

    async fn run_once(&self, db: &mut PgConnection, _again: bool) -> Result<i64, PostgresOperationError> {
        // A repeated attempt finds its own row by `sent_by`. The count of mail may then rise twice, and the owner
        // looks once too often.
        let no = sqlx::query_scalar!(
            r#"WITH addressed AS (
                   UPDATE session SET mail = mail + 1 WHERE id = $1 RETURNING no
               ), sent AS (
                   INSERT INTO signal (session_no, sent_by, body) SELECT no, $2, $3 FROM addressed
                   ON CONFLICT (sent_by) DO NOTHING
               )
               SELECT no AS "no!" FROM addressed"#,
            &*text_to_db(self.id.as_str()),
            self.sent_by,
            &*text_to_db(&self.body)
        )
        .fetch_optional(db)
        .await?;
        no.ok_or_else(|| not_found(&self.id).into())
    }
}

struct PostgresSignalRow {
    no: i64,
    body: String,
}

impl From<PostgresSignalRow> for SessionSignal {
    fn from(row: PostgresSignalRow) -> Self {
        Self { no: from_db(row.no), body: text_from_db(row.body) }
    }
}

/// [`ClusterStore::signals`](longhaul_store::ClusterStore::signals).
pub(crate) struct PostgresSignalsQuery {
    pub(crate) id: SessionId,
}

#[async_trait]
impl PostgresOperation for PostgresSignalsQuery {
    type Answer = Vec<SessionSignal>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Vec<SessionSignal>, PostgresOperationError> {
        // The outer join gives one empty row for a session without signals. No row means no session.
        let rows = sqlx::query!(
            r#"SELECT signal.no AS "no?", body AS "body?"
               FROM session LEFT JOIN signal ON session_no = session.no AND taken_epoch IS NULL
               WHERE id = $1 ORDER BY signal.no"#,
            &*text_to_db(self.id.as_str())
        )
        .fetch_all(db)
        .await?;
        if rows.is_empty() {
            return Err(not_found(&self.id).into());
        }
        let signals = rows
            .into_iter()
            .filter_map(|row| Some(PostgresSignalRow { no: row.no?, body: row.body? }.into()));
        Ok(signals.collect())
    }
}

/// [`ClusterStore::take_signals`](longhaul_store::ClusterStore::take_signals).
pub(crate) struct PostgresSignalsTake;

#[async_trait]
impl PostgresLeasedWrite for PostgresSignalsTake {
    type Answer = Vec<SessionSignal>;

    async fn write(
        &self,
        db: &mut PgConnection,
        place: &PostgresWriteContext,
        _again: bool,
    ) -> Result<Vec<SessionSignal>, PostgresOperationError> {
        // Signals that an earlier write took are dropped if that write was answered. If its answer was lost,
        // they are taken again.
        let held = sqlx::query_scalar!(
            r#"WITH held AS (
                   UPDATE session SET writes = $5
                   WHERE no = $1 AND owner = $2 AND epoch = $3 AND writes = $4 RETURNING no
               ), dropped AS (
                   DELETE FROM signal
                   WHERE session_no = (SELECT no FROM held) AND taken_epoch IS NOT NULL
                     AND NOT (taken_epoch = $3 AND taken_write = ANY($6::bigint[]))
               ), taken AS (
                   UPDATE signal SET taken_epoch = $3, taken_write = $5
                   WHERE session_no = (SELECT no FROM held)
                     AND (taken_epoch IS NULL OR taken_epoch = $3 AND taken_write = ANY($6::bigint[]))
               )
               SELECT no AS "no!" FROM held"#,
            place.no,
            place.boot.as_str(),
            place.epoch,
            place.old,
            place.new,
            &place.lost
        )
        .fetch_optional(&mut *db)
        .await?;
        if held.is_none()
            && !matches!(place.check_write_status(&mut *db).await?, PostgresWriteStatus::Done { .. })
        {
            return Err(place.fenced().into());
        }
        let rows = sqlx::query_as!(
            PostgresSignalRow,
            "SELECT no, body FROM signal
             WHERE session_no = $1 AND taken_epoch = $2 AND taken_write = $3 ORDER BY no",
            place.no,
            place.epoch,
            place.new
        )
        .fetch_all(db)
        .await?;
        Ok(rows.into_iter().map(SessionSignal::from).collect())
    }
}
