//! Requests that their senders may repeat.

use async_trait::async_trait;
use longhaul_core::ids::SessionId;
use longhaul_store::{NewRequest, Request};

use super::Write;
use super::batch::Batch;
use crate::error::Failure;
use crate::key::{from_db, to_db};

/// [`Store::begin_request`](longhaul_store::Store::begin_request).
pub(crate) struct Begin {
    pub(crate) id: SessionId,
    pub(crate) request: NewRequest,
}

#[async_trait]
impl Write for Begin {
    type Answer = Request;

    async fn apply(&self, batch: &mut Batch<'_>) -> Result<Request, Failure> {
        let no = batch.session_no(&self.id).await?;
        let NewRequest { key, what, at } = &self.request;
        let known = sqlx::query!(
            "SELECT what, since_seq, answer FROM request WHERE session_no = ? AND key = ?",
            no,
            key
        )
        .fetch_optional(batch.db().await?)
        .await?;
        if let Some(known) = known {
            let since = from_db(known.since_seq);
            return Ok(Request { what: known.what, since, repeated: true, answer: known.answer });
        }
        // What the same transaction appends before has come before.
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
        Ok(Request { what: what.clone(), since: from_db(since), repeated: false, answer: None })
    }

    fn bytes(&self) -> usize {
        self.request.what.len()
    }
}

/// [`Store::answer_request`](longhaul_store::Store::answer_request).
pub(crate) struct Answer {
    pub(crate) id: SessionId,
    pub(crate) key: String,
    pub(crate) answer: Option<String>,
}

#[async_trait]
impl Write for Answer {
    type Answer = ();

    async fn apply(&self, batch: &mut Batch<'_>) -> Result<(), Failure> {
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
