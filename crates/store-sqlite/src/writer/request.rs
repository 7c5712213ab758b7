//! Idempotent requests: their senders may repeat them.

use async_trait::async_trait;
use longhaul_core::ids::SessionId;
use longhaul_store::{IdempotentRequest, NewIdempotentRequest};

use super::SqliteWriteOperation;
use super::batch::SqliteWriteBatch;
use crate::error::SqliteWriteError;
use crate::key::{from_db, to_db};

/// [`Store::begin_request`](longhaul_store::Store::begin_request).
pub(crate) struct SqliteRequestBegin {
    pub(crate) id: SessionId,
    pub(crate) request: NewIdempotentRequest,
}

#[async_trait]
impl SqliteWriteOperation for SqliteRequestBegin {
    type Answer = IdempotentRequest;

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<IdempotentRequest, SqliteWriteError> {
        let no = batch.session_no(&self.id).await?;
        let NewIdempotentRequest { key, what, at } = &self.request;
        // The search comes before the insert, in one transaction: of two equal requests the second finds the first.
        let known = sqlx::query!(
            "SELECT what, since_seq, answer FROM request WHERE session_no = ? AND key = ?",
            no,
            key
        )
        .fetch_optional(batch.db().await?)
        .await?;
        if let Some(known) = known {
            let since = from_db(known.since_seq);
            return Ok(IdempotentRequest { what: known.what, since, repeated: true, answer: known.answer });
        }
        // Events that the same transaction appends earlier must count in the request's position.
        batch.flush().await?;
        let at = to_db(*at);
        let since = sqlx::query_scalar!(
            r#"INSERT INTO request (session_no, key, what, since_seq, at_ms)
               SELECT no, ?2, ?3, last_seq, ?4 FROM session WHERE no = ?1
               RETURNING since_seq AS "since_seq!: i64""#,
            no,
            key,
            what,
            at
        )
        .fetch_one(batch.db().await?)
        .await?;
        Ok(IdempotentRequest { what: what.clone(), since: from_db(since), repeated: false, answer: None })
    }

    fn bytes(&self) -> usize {
        self.request.what.len()
    }
}

/// [`Store::answer_request`](longhaul_store::Store::answer_request).
pub(crate) struct SqliteRequestAnswer {
    pub(crate) id: SessionId,
    pub(crate) key: String,
    pub(crate) answer: Option<String>,
}

#[async_trait]
impl SqliteWriteOperation for SqliteRequestAnswer {
    type Answer = ();

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), SqliteWriteError> {
        let no = batch.session_no(&self.id).await?;
        let db = batch.db().await?;
        match &self.answer {
            Some(answer) => {
                sqlx::query!(
                    "UPDATE request SET answer = ? WHERE session_no = ? AND key = ?",
                    answer,
                    no,
                    self.key
                )
                .execute(db)
                .await?
            }
            None => {
                sqlx::query!("DELETE FROM request WHERE session_no = ? AND key = ?", no, self.key)
                    .execute(db)
                    .await?
            }
        };
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.answer.as_ref().map_or(0, String::len)
    }
}
