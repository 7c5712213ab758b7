//! Idempotent requests: their senders may repeat them.

use async_trait::async_trait;
use longhaul_core::ids::SessionId;
use longhaul_store::{IdempotentRequest, NewIdempotentRequest};
use sqlx::PgConnection;

use crate::error::{PostgresOperationError, not_found};
use crate::operation::PostgresOperation;
use crate::text::{from_db, text_from_db, text_to_db, to_db};

/// [`Store::begin_request`](longhaul_store::Store::begin_request).
pub(crate) struct PostgresRequestBegin {
    pub(crate) id: SessionId,
    pub(crate) request: NewIdempotentRequest,
    pub(crate) begun_by: String,
}

struct PostgresRequestRow {
    begun_by: String,
    what: String,
    since_seq: i64,
    answer: Option<String>,
}

#[async_trait]
impl PostgresOperation for PostgresRequestBegin {
    type Answer = IdempotentRequest;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<IdempotentRequest, PostgresOperationError> {
        loop {
            let known = sqlx::query!(
                r#"SELECT request.begun_by AS "begun_by?", what AS "what?", since_seq AS "since_seq?", answer
                   FROM session LEFT JOIN request ON session_no = no AND key = $2
                   WHERE id = $1"#,
                &*text_to_db(self.id.as_str()),
                &*text_to_db(&self.request.key)
            )
            .fetch_optional(&mut *db)
            .await?
            .ok_or_else(|| not_found(&self.id))?;
            if let (Some(begun_by), Some(what), Some(since_seq)) =
                (known.begun_by, known.what, known.since_seq)
            {
                return Ok(self.known(PostgresRequestRow {
                    begun_by,
                    what,
                    since_seq,
                    answer: known.answer,
                }));
            }
            if let Some(first) = self.insert(&mut *db).await? {
                return Ok(first);
            }
            // Between the two statements another call stored the request, or the session was deleted. The next
            // round finds out which.
        }
    }
}

impl PostgresRequestBegin {
    async fn insert(&self, db: &mut PgConnection) -> Result<Option<IdempotentRequest>, sqlx::Error> {
        let since = sqlx::query_scalar!(
            r#"INSERT INTO request (session_no, key, begun_by, what, since_seq, at_ms)
               SELECT no, $2, $3, $4, last_seq, $5 FROM session WHERE id = $1
               ON CONFLICT (session_no, key) DO NOTHING RETURNING since_seq"#,
            &*text_to_db(self.id.as_str()),
            &*text_to_db(&self.request.key),
            self.begun_by,
            &*text_to_db(&self.request.what),
            to_db(self.request.at)
        )
        .fetch_optional(db)
        .await?;
        Ok(since.map(|since| IdempotentRequest {
            what: self.request.what.clone(),
            since: from_db(since),
            repeated: false,
            answer: None,
        }))
    }

    fn known(&self, known: PostgresRequestRow) -> IdempotentRequest {
        IdempotentRequest {
            what: text_from_db(known.what),
            since: from_db(known.since_seq),
            repeated: known.begun_by != self.begun_by,
            answer: known.answer.map(text_from_db),
        }
    }
}

/// [`Store::answer_request`](longhaul_store::Store::answer_request).
pub(crate) struct PostgresRequestAnswer {
    pub(crate) id: SessionId,
    pub(crate) key: String,
    pub(crate) answer: Option<String>,
}

#[async_trait]
impl PostgresOperation for PostgresRequestAnswer {
    type Answer = ();

    async fn run_once(&self, db: &mut PgConnection, _again: bool) -> Result<(), PostgresOperationError> {
        let (id, key) = (text_to_db(self.id.as_str()), text_to_db(&self.key));
        let no = sqlx::query_scalar!("SELECT no FROM session WHERE id = $1", &*id)
            .fetch_optional(&mut *db)
            .await?
            .ok_or_else(|| not_found(&self.id))?;
        match self.answer.as_deref().map(text_to_db) {
            Some(answer) => {
                sqlx::query!(
                    "UPDATE request SET answer = $3 WHERE session_no = $1 AND key = $2",
                    no,
                    &*key,
                    &*answer
                )
                .execute(db)
                .await?
            }
            None => {
                sqlx::query!("DELETE FROM request WHERE session_no = $1 AND key = $2", no, &*key)
                    .execute(db)
                    .await?
            }
        };
        Ok(())
    }
}
