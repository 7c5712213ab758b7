//! The queue: accepting and changing messages. [Appends](super::log) take the messages.

use async_trait::async_trait;
use longhaul_core::ids::{Millis, QueueId, SessionId};
use longhaul_core::message::Part;
use longhaul_core::metadata::MessageMetadata;
use longhaul_store::{EnqueueReceipt, NewQueuedMessage, StoreError, encode_queued};
use sqlx::{Connection, PgConnection};

use crate::error::{PostgresOperationError, not_found};
use crate::operation::{PostgresOperation, call_name};
use crate::text::{count_from_db, text_from_db, text_to_db, to_db};

/// [`Store::enqueue`](longhaul_store::Store::enqueue). The answer has the session's number too.
pub(crate) struct PostgresEnqueue {
    session: SessionId,
    id: QueueId,
    client_key: Option<String>,
    at: Millis,
    body: String,
    queue_limit: usize,
    made_by: String,
}

impl PostgresEnqueue {
    pub(crate) fn new(session: &SessionId, new: NewQueuedMessage) -> Result<Self, StoreError> {
        Ok(Self {
            session: session.clone(),
            body: encode_queued(&new.parts, new.metadata.as_ref())?,
            id: new.id,
            client_key: new.client_key.map(|key| text_to_db(&key).into_owned()),
            at: new.at,
            queue_limit: new.queue_limit,
            made_by: call_name(),
        })
    }

    /// Returns the receipt of the message under the same key: an earlier call's, or the call's own after a lost
    /// answer.
    async fn known(&self, db: &mut PgConnection, no: i64) -> Result<Option<EnqueueReceipt>, sqlx::Error> {
        let first = sqlx::query!(
            r#"SELECT queue_id, made_by, (SELECT count(*) FROM inbox AS waiting
                   WHERE waiting.session_no = $1 AND waiting.state = 0
                     AND inbox.state = 0 AND waiting.no <= inbox.no) AS "position!"
               FROM inbox WHERE session_no = $1 AND (client_key = $2 OR queue_id = $3 AND made_by = $4)"#,
            no,
            self.client_key,
            &*text_to_db(self.id.as_str()),
            self.made_by
        )
        .fetch_optional(db)
        .await?;
        Ok(first.map(|first| EnqueueReceipt {
            id: text_from_db(first.queue_id).into(),
            position: count_from_db(first.position),
            // A second attempt of the same call is no repetition for its caller, who has had no answer yet.
            repeated: first.made_by != self.made_by,
        }))
    }

    async fn insert(&self, db: &mut PgConnection, no: i64) -> Result<(), PostgresOperationError> {
        let inserted = sqlx::query!(
            "INSERT INTO inbox (session_no, queue_id, client_key, queued_ms, body, made_by)
             VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (session_no, queue_id) DO NOTHING",
            no,
            &*text_to_db(self.id.as_str()),
            self.client_key,
            to_db(self.at),
            self.body,
            self.made_by
        )
        .execute(db)
        .await?;
        if inserted.rows_affected() == 0 {
            return Err(StoreError::Conflict(format!("queued message {} exists", self.id)).into());
        }
        Ok(())
    }
}

#[async_trait]
impl PostgresOperation for PostgresEnqueue {
    type Answer = (EnqueueReceipt, i64);

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<(EnqueueReceipt, i64), PostgresOperationError> {
        let mut all = db.begin().await?;
        // The lock comes first, so that the later statements see all earlier messages.
        let no = sqlx::query_scalar!(
            "UPDATE session SET mail = mail + 1 WHERE id = $1 RETURNING no",
            &*text_to_db(self.session.as_str())
        )
        .fetch_optional(&mut *all)
        .await?
        .ok_or_else(|| not_found(&self.session))?;
        if let Some(first) = self.known(&mut all, no).await? {
            // The transaction is rolled back: nothing has changed for the owner, so its count of mail must not either.
            return Ok((first, no));
        }
        // The row of the session is locked, so no other sender counts or adds until this one has done both.
        let waiting = count_waiting(&mut all, no).await?;
        if waiting >= self.queue_limit {
            return Err(StoreError::QueueFull(waiting).into());
        }
        self.insert(&mut all, no).await?;
        all.commit().await?;
        Ok((EnqueueReceipt { id: self.id.clone(), position: waiting + 1, repeated: false }, no))
    }
}

async fn count_waiting(db: &mut PgConnection, no: i64) -> Result<usize, sqlx::Error> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM inbox WHERE session_no = $1 AND state = 0"#,
        no
    )
    .fetch_one(db)
    .await?;
    Ok(count_from_db(count))
}

/// [`Store::edit_queued`](longhaul_store::Store::edit_queued). The answer is the session's number.
pub(crate) struct PostgresQueueEdit {
    id: SessionId,
    entry: QueueId,
    body: String,
}

impl PostgresQueueEdit {
    pub(crate) fn new(
        id: &SessionId,
        entry: &QueueId,
        parts: &[Part],
        metadata: Option<&MessageMetadata>,
    ) -> Result<Self, StoreError> {
        Ok(Self { id: id.clone(), entry: entry.clone(), body: encode_queued(parts, metadata)? })
    }
}

#[async_trait]
impl PostgresOperation for PostgresQueueEdit {
    type Answer = i64;

    async fn run_once(&self, db: &mut PgConnection, _again: bool) -> Result<i64, PostgresOperationError> {
        // A repetition writes the same content again and raises the count of mail twice. The owner then looks
        // once too often.
        let edited = sqlx::query_scalar!(
            r#"WITH edited AS (
                   UPDATE inbox SET body = $3
                   WHERE session_no = (SELECT no FROM session WHERE id = $1) AND queue_id = $2 AND state = 0
                   RETURNING session_no
               )
               UPDATE session SET mail = mail + 1 WHERE no = (SELECT session_no FROM edited) RETURNING no"#,
            &*text_to_db(self.id.as_str()),
            &*text_to_db(self.entry.as_str()),
            self.body
        )
        .fetch_optional(db)
        .await?;
        edited.ok_or_else(|| does_not_wait(&self.entry))
    }
}

/// Removes one waiting message, or all. The answer has their ids, oldest first, and the session's number.
pub(crate) struct PostgresQueueRemoval {
    id: SessionId,
    entry: Option<QueueId>,
    removed_by: String,
}

impl PostgresQueueRemoval {
    /// [`Store::remove_queued`](longhaul_store::Store::remove_queued).
    pub(crate) fn one(id: &SessionId, entry: &QueueId) -> Self {
        Self { id: id.clone(), entry: Some(entry.clone()), removed_by: call_name() }
    }

    /// [`Store::clear_queue`](longhaul_store::Store::clear_queue).
    pub(crate) fn all(id: &SessionId) -> Self {
        Self { id: id.clone(), entry: None, removed_by: call_name() }
    }
}

#[async_trait]
impl PostgresOperation for PostgresQueueRemoval {
    type Answer = (Vec<QueueId>, i64);

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<(Vec<QueueId>, i64), PostgresOperationError> {
        let session = text_to_db(self.id.as_str());
        // Read first, because an unknown session is another error than a message that does not wait.
        let no = sqlx::query_scalar!("SELECT no FROM session WHERE id = $1", &*session)
            .fetch_optional(&mut *db)
            .await?
            .ok_or_else(|| not_found(&self.id))?;
        // Rows are locked in the order of their numbers, here as in an append, so that two calls cannot deadlock.
        let entry = self.entry.as_ref().map(|entry| text_to_db(entry.as_str()).into_owned());
        sqlx::query!(
            r#"WITH waiting AS MATERIALIZED (
                   SELECT no FROM inbox
                   WHERE session_no = $1 AND state = 0 AND ($2::text IS NULL OR queue_id = $2)
                   ORDER BY no FOR UPDATE
               ), removed AS (
                   UPDATE inbox SET state = 2, body = '[]', ended_by = $3 WHERE no IN (SELECT no FROM waiting)
                   RETURNING 1
               )
               UPDATE session SET mail = mail + 1 WHERE no = $1 AND EXISTS (SELECT FROM removed)"#,
            no,
            entry,
            self.removed_by
        )
        .execute(&mut *db)
        .await?;
        // Includes messages that an earlier attempt of this call removed, if its answer was lost.
        let ids = sqlx::query_scalar!(
            "SELECT queue_id FROM inbox WHERE session_no = $1 AND ended_by = $2 ORDER BY inbox.no",
            no,
            self.removed_by
        )
        .fetch_all(db)
        .await?;
        match &self.entry {
            Some(entry) if ids.is_empty() => Err(does_not_wait(entry)),
            _ => Ok((ids.into_iter().map(|id| text_from_db(id).into()).collect(), no)),
        }
    }
}

fn does_not_wait(entry: &QueueId) -> PostgresOperationError {
    StoreError::NotFound(format!("waiting message {entry}")).into()
}
