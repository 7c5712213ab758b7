//! Reads of the store. Each call sees everything committed before.

use async_trait::async_trait;
use longhaul_core::event::{Event, FORMAT};
use longhaul_core::ids::{Seq, SessionId};
use longhaul_core::message::BlobRef;
use longhaul_core::queue::QueuedMessage;
use longhaul_store::{
    AnswerChunk, SessionCounts, SessionRecord, StoreError, ViewChangeKind, decode_queued, event_checksum,
};
use sqlx::PgConnection;

use crate::error::{PostgresOperationError, not_found};
use crate::operation::PostgresOperation;
use crate::text::{count_from_db, from_db, limit_to_db, text_from_db, text_to_db, to_db};

/// [`Store::session`](longhaul_store::Store::session).
pub(crate) struct PostgresSessionQuery {
    pub(crate) id: SessionId,
}

/// [`Store::sessions`](longhaul_store::Store::sessions).
pub(crate) struct PostgresSessionListQuery {
    pub(crate) limit: usize,
}

/// The query for the number of a session and the end of the log.
pub(crate) struct PostgresLogExtentQuery {
    pub(crate) id: SessionId,
}

/// [`Store::read`](longhaul_store::Store::read).
pub(crate) struct PostgresEventsQuery {
    pub(crate) id: SessionId,
    pub(crate) after: Seq,
    pub(crate) limit: usize,
}

/// [`Store::view_changes`](longhaul_store::Store::view_changes).
pub(crate) struct PostgresViewChangesQuery {
    pub(crate) id: SessionId,
    pub(crate) kind: ViewChangeKind,
    pub(crate) after: Seq,
    pub(crate) limit: usize,
}

/// [`Store::session_counts`](longhaul_store::Store::session_counts).
pub(crate) struct PostgresSessionCountsQuery;

/// [`Store::queue`](longhaul_store::Store::queue).
pub(crate) struct PostgresQueueQuery {
    pub(crate) id: SessionId,
}

/// [`Store::chunks`](longhaul_store::Store::chunks).
pub(crate) struct PostgresChunksQuery {
    pub(crate) id: SessionId,
}

/// [`Store::blobs`](longhaul_store::Store::blobs).
pub(crate) struct PostgresBlobsQuery {
    pub(crate) id: SessionId,
}

struct PostgresSessionRow {
    id: String,
    title: Option<String>,
    created_ms: i64,
    updated_ms: i64,
    last_seq: i64,
    running: bool,
    parked: bool,
    queued: i64,
}

/// The stored form of an event.
pub(crate) struct PostgresEventRow {
    seq: i64,
    format: i32,
    at_ms: i64,
    body: String,
    checksum: Option<i64>,
}

#[async_trait]
impl PostgresOperation for PostgresSessionQuery {
    type Answer = SessionRecord;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<SessionRecord, PostgresOperationError> {
        let row = sqlx::query_as!(
            PostgresSessionRow,
            r#"SELECT id, title, created_ms, updated_ms, last_seq, running, parked,
                      (SELECT count(*) FROM inbox WHERE session_no = session.no AND state = 0) AS "queued!"
               FROM session WHERE id = $1"#,
            &*text_to_db(self.id.as_str())
        )
        .fetch_optional(db)
        .await?;
        row.map(PostgresSessionRow::into_record).ok_or_else(|| not_found(&self.id).into())
    }
}

#[async_trait]
impl PostgresOperation for PostgresSessionListQuery {
    type Answer = Vec<SessionRecord>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Vec<SessionRecord>, PostgresOperationError> {
        let rows = sqlx::query_as!(
            PostgresSessionRow,
            r#"SELECT id, title, created_ms, updated_ms, last_seq, running, parked,
                      (SELECT count(*) FROM inbox WHERE session_no = session.no AND state = 0) AS "queued!"
               FROM session ORDER BY updated_ms DESC, no DESC LIMIT $1"#,
            limit_to_db(self.limit)
        )
        .fetch_all(db)
        .await?;
        Ok(rows.into_iter().map(PostgresSessionRow::into_record).collect())
    }
}

#[async_trait]
impl PostgresOperation for PostgresLogExtentQuery {
    type Answer = (i64, Seq);

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<(i64, Seq), PostgresOperationError> {
        let row =
            sqlx::query!("SELECT no, last_seq FROM session WHERE id = $1", &*text_to_db(self.id.as_str()))
                .fetch_optional(db)
                .await?;
        row.map(|row| (row.no, from_db(row.last_seq))).ok_or_else(|| not_found(&self.id).into())
    }
}

#[async_trait]
impl PostgresOperation for PostgresEventsQuery {
    type Answer = Vec<PostgresEventRow>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Vec<PostgresEventRow>, PostgresOperationError> {
        // The outer join gives one empty row for a session without further events. No row means no session.
        let rows = sqlx::query!(
            r#"SELECT found.seq AS "seq?", found.format AS "format?", found.at_ms AS "at_ms?", found.body AS "body?",
                      found.checksum AS "checksum?"
               FROM session LEFT JOIN LATERAL (
                   SELECT seq, format, at_ms, body, checksum FROM event
                   WHERE session_no = session.no AND seq > $2 ORDER BY seq LIMIT $3
               ) AS found ON true
               WHERE session.id = $1 ORDER BY found.seq"#,
            &*text_to_db(self.id.as_str()),
            to_db(self.after),
            limit_to_db(self.limit)
        )
        .fetch_all(db)
        .await?;
        if rows.is_empty() {
            return Err(not_found(&self.id).into());
        }
        let events = rows.into_iter().filter_map(|row| {
            let (seq, format, at_ms, body) = (row.seq?, row.format?, row.at_ms?, row.body?);
            Some(PostgresEventRow { seq, format, at_ms, body, checksum: row.checksum })
        });
        Ok(events.collect())
    }
}

#[async_trait]
impl PostgresOperation for PostgresQueueQuery {
    type Answer = Vec<QueuedMessage>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Vec<QueuedMessage>, PostgresOperationError> {
        let no = session_no(&mut *db, &self.id).await?;
        let rows = sqlx::query!(
            "SELECT queue_id, queued_ms, body FROM inbox WHERE session_no = $1 AND state = 0 ORDER BY inbox.no",
            no
        )
        .fetch_all(db)
        .await?;
        rows.into_iter()
            .map(|row| {
                let (parts, metadata) = decode_queued(&row.body).map_err(|error| {
                    StoreError::Corrupt(format!("queued message {}: {error}", row.queue_id))
                })?;
                let id = text_from_db(row.queue_id).into();
                Ok(QueuedMessage { id, queued_at: from_db(row.queued_ms), parts, metadata })
            })
            .collect()
    }
}

#[async_trait]
impl PostgresOperation for PostgresChunksQuery {
    type Answer = Vec<AnswerChunk>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Vec<AnswerChunk>, PostgresOperationError> {
        let no = session_no(&mut *db, &self.id).await?;
        let rows = sqlx::query!(
            "SELECT step, idx, body FROM chunk WHERE session_no = $1
             ORDER BY min(no) OVER (PARTITION BY step), idx",
            no
        )
        .fetch_all(db)
        .await?;
        let chunks = rows.into_iter().map(|row| AnswerChunk {
            step: text_from_db(row.step),
            index: from_db(row.idx),
            body: text_from_db(row.body),
        });
        Ok(chunks.collect())
    }
}

#[async_trait]
impl PostgresOperation for PostgresBlobsQuery {
    type Answer = Vec<BlobRef>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Vec<BlobRef>, PostgresOperationError> {
        let no = session_no(&mut *db, &self.id).await?;
        let rows = sqlx::query!(
            "SELECT hash, bytes FROM blob_ref WHERE session_no = $1 ORDER BY first_seq, hash",
            no
        )
        .fetch_all(db)
        .await?;
        let blobs =
            rows.into_iter().map(|row| BlobRef { hash: text_from_db(row.hash), bytes: from_db(row.bytes) });
        Ok(blobs.collect())
    }
}

#[async_trait]
impl PostgresOperation for PostgresViewChangesQuery {
    type Answer = Vec<Event>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Vec<Event>, PostgresOperationError> {
        let no = session_no(&mut *db, &self.id).await?;
        let (after, limit) = (to_db(self.after), limit_to_db(self.limit));
        // The partial indexes have the same `starts_with`. With another expression the whole log would be read.
        let rows = match self.kind {
            ViewChangeKind::Edited => {
                sqlx::query_as!(
                    PostgresEventRow,
                    r#"SELECT seq, format, at_ms, body, checksum FROM event
                       WHERE starts_with(body, '{"kind":"view-edited"') AND session_no = $1 AND seq > $2
                       ORDER BY seq LIMIT $3"#,
                    no,
                    after,
                    limit
                )
                .fetch_all(db)
                .await?
            }
            ViewChangeKind::Restored => {
                sqlx::query_as!(
                    PostgresEventRow,
                    r#"SELECT seq, format, at_ms, body, checksum FROM event
                       WHERE starts_with(body, '{"kind":"view-restored"') AND session_no = $1 AND seq > $2
                       ORDER BY seq LIMIT $3"#,
                    no,
                    after,
                    limit
                )
                .fetch_all(db)
                .await?
            }
        };
        let events = rows.into_iter().filter_map(|row| {
            let seq = from_db(row.seq);
            row.into_event(&self.id, seq).ok().filter(|event| self.kind.is_kind_of(&event.body))
        });
        Ok(events.collect())
    }
}

#[async_trait]
impl PostgresOperation for PostgresSessionCountsQuery {
    type Answer = SessionCounts;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<SessionCounts, PostgresOperationError> {
        let row = sqlx::query!(
            r#"SELECT count(*) AS "sessions!", count(*) FILTER (WHERE parked) AS "parked!",
                      (SELECT count(*) FROM inbox WHERE state = 0) AS "queued!"
               FROM session"#
        )
        .fetch_one(db)
        .await?;
        let (sessions, parked, queued) = (from_db(row.sessions), from_db(row.parked), from_db(row.queued));
        Ok(SessionCounts { sessions, parked, queued })
    }
}

async fn session_no(db: &mut PgConnection, id: &SessionId) -> Result<i64, PostgresOperationError> {
    let no = sqlx::query_scalar!("SELECT no FROM session WHERE id = $1", &*text_to_db(id.as_str()))
        .fetch_optional(db)
        .await?;
    no.ok_or_else(|| not_found(id).into())
}

/// Decodes the events in `rows`. The events follow `after` without a gap.
///
/// # Errors
/// [`StoreError::Damaged`].
pub(crate) async fn decode(
    session: &SessionId,
    after: Seq,
    rows: Vec<PostgresEventRow>,
) -> Result<Vec<Event>, StoreError> {
    let mut events = Vec::with_capacity(rows.len());
    for (index, row) in (1..).zip(rows) {
        events.push(row.into_event(session, after.saturating_add(index))?);
        // Decoding megabytes must not keep other tasks from running.
        tokio::task::consume_budget().await;
    }
    Ok(events)
}

impl PostgresSessionRow {
    fn into_record(self) -> SessionRecord {
        SessionRecord {
            id: text_from_db(self.id).into(),
            title: self.title.map(text_from_db),
            created_at: from_db(self.created_ms),
            updated_at: from_db(self.updated_ms),
            last_seq: from_db(self.last_seq),
            queued: count_from_db(self.queued),
            running: self.running,
            parked: self.parked,
        }
    }
}

impl PostgresEventRow {
    fn into_event(self, session: &SessionId, expected: Seq) -> Result<Event, StoreError> {
        let (seq, at) = (from_db(self.seq), from_db(self.at_ms));
        if seq != expected {
            return Err(damaged(session, expected, "it is missing"));
        }
        // The checksum comes first: a damaged number of the format must not pass for a newer format.
        check(session, seq, self.checksum, event_checksum(self.format.into(), at, self.body.as_bytes()))?;
        let format = u16::try_from(self.format).unwrap_or(u16::MAX);
        if format > FORMAT {
            return Err(damaged(session, seq, format!("it has format {}, newer than {FORMAT}", self.format)));
        }
        let body =
            serde_json::from_str(&self.body).map_err(|error| damaged(session, seq, error.to_string()))?;
        Ok(Event { seq, at, format, body })
    }
}

/// Compares the stored checksum of an event, if any, with the checksum of the event as read.
///
/// # Errors
/// [`StoreError::Damaged`].
pub(crate) fn check(
    session: &SessionId,
    seq: Seq,
    stored: Option<i64>,
    found: i64,
) -> Result<(), StoreError> {
    match stored {
        Some(stored) if stored != found => Err(damaged(session, seq, "its checksum does not match")),
        _ => Ok(()),
    }
}

fn damaged(session: &SessionId, seq: Seq, why: impl Into<String>) -> StoreError {
    StoreError::Damaged { session: session.clone(), seq, why: why.into() }
}
