//! Export and import of whole sessions.

use async_trait::async_trait;
use longhaul_core::ids::{Seq, SessionId};
use longhaul_core::message::BlobRef;
use longhaul_store::transfer::{
    EventCopy, IdempotentRequestCopy, InboxEntryCopy, InboxEntryState, PrefixCacheEntryCopy, SessionCopy,
    SessionTransfer,
};
use longhaul_store::{AnswerChunk, PrefixCacheKey, StoreError, event_checksum};
use sqlx::{Connection, PgConnection};

use crate::error::{PostgresOperationError, not_found};
use crate::operation::{PostgresOperation, call_name};
use crate::operations::read::check;
use crate::store::PostgresStore;
use crate::text::{from_db, text_from_db, text_to_db, to_db};

#[async_trait]
impl SessionTransfer for PostgresStore {
    async fn created(&self) -> Result<Vec<SessionId>, StoreError> {
        self.database().run_operation(&PostgresCreationOrderQuery).await
    }

    async fn export(&self, id: &SessionId) -> Result<SessionCopy, StoreError> {
        self.database().run_operation(&PostgresSessionExport { id: id.clone() }).await
    }

    async fn import(&self, copy: &SessionCopy) -> Result<(), StoreError> {
        copy.check()?;
        tracing::debug!(session = %copy.id, events = copy.events.len(), inbox = copy.inbox.len(), "a session is imported");
        self.database().run_operation(&PostgresSessionImport { copy, made_by: call_name() }).await
    }

    async fn export_memo(&self) -> Result<Vec<PrefixCacheEntryCopy>, StoreError> {
        self.database().run_operation(&PostgresPrefixCacheExport).await
    }

    async fn import_memo(&self, entries: &[PrefixCacheEntryCopy]) -> Result<(), StoreError> {
        tracing::debug!(entries = entries.len(), "entries of the prefix cache are imported");
        self.database().run_operation(&PostgresPrefixCacheImport { entries }).await
    }
}

struct PostgresCreationOrderQuery;

#[async_trait]
impl PostgresOperation for PostgresCreationOrderQuery {
    type Answer = Vec<SessionId>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Vec<SessionId>, PostgresOperationError> {
        let ids = sqlx::query_scalar!("SELECT id FROM session ORDER BY no").fetch_all(db).await?;
        Ok(ids.into_iter().map(|id| text_from_db(id).into()).collect())
    }
}

struct PostgresSessionExport {
    id: SessionId,
}

#[async_trait]
impl PostgresOperation for PostgresSessionExport {
    type Answer = SessionCopy;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<SessionCopy, PostgresOperationError> {
        // A repeatable read is one snapshot. Parts read one by one could belong to different moments.
        let mut all = db.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let session = sqlx::query!(
            "SELECT no, title, created_ms, updated_ms, running, parked, epoch FROM session WHERE id = $1",
            &*text_to_db(self.id.as_str())
        )
        .fetch_optional(&mut *all)
        .await?
        .ok_or_else(|| not_found(&self.id))?;
        let copy = SessionCopy {
            id: self.id.clone(),
            title: session.title.map(text_from_db),
            created_at: from_db(session.created_ms),
            updated_at: from_db(session.updated_ms),
            running: session.running,
            parked: session.parked,
            epoch: from_db(session.epoch),
            events: events(&mut all, &self.id, session.no).await?,
            inbox: inbox(&mut all, session.no).await?,
            requests: requests(&mut all, session.no).await?,
            chunks: chunks(&mut all, session.no).await?,
            blobs: blobs(&mut all, session.no).await?,
        };
        all.commit().await?;
        Ok(copy)
    }
}

/// Returns the events, and refuses damaged ones: a copy would vouch for the damage.
async fn events(
    db: &mut PgConnection,
    session: &SessionId,
    no: i64,
) -> Result<Vec<EventCopy>, PostgresOperationError> {
    let rows = sqlx::query!(
        "SELECT seq, format, epoch, at_ms, body, checksum FROM event WHERE session_no = $1 ORDER BY seq",
        no
    )
    .fetch_all(db)
    .await?;
    let events = rows.into_iter().map(|row| {
        let (seq, at) = (from_db(row.seq), from_db(row.at_ms));
        check(session, seq, row.checksum, event_checksum(row.format.into(), at, row.body.as_bytes()))?;
        Ok(EventCopy {
            seq,
            // A format beyond the range comes from no known version. The greatest number is refused wherever it is
            // read.
            format: u16::try_from(row.format).unwrap_or(u16::MAX),
            epoch: from_db(row.epoch),
            at,
            body: row.body,
        })
    });
    events.collect()
}

async fn inbox(db: &mut PgConnection, no: i64) -> Result<Vec<InboxEntryCopy>, sqlx::Error> {
    let rows = sqlx::query!(
        "SELECT queue_id, client_key, queued_ms, body, state FROM inbox WHERE session_no = $1 ORDER BY inbox.no",
        no
    )
    .fetch_all(db)
    .await?;
    let entries = rows.into_iter().map(|row| InboxEntryCopy {
        id: text_from_db(row.queue_id).into(),
        client_key: row.client_key.map(text_from_db),
        at: from_db(row.queued_ms),
        body: row.body,
        state: InboxEntryState::of(row.state.into()),
    });
    Ok(entries.collect())
}

async fn requests(db: &mut PgConnection, no: i64) -> Result<Vec<IdempotentRequestCopy>, sqlx::Error> {
    let rows = sqlx::query!(
        "SELECT key, what, since_seq, at_ms, answer FROM request WHERE session_no = $1 ORDER BY key",
        no
    )
    .fetch_all(db)
    .await?;
    let requests = rows.into_iter().map(|row| IdempotentRequestCopy {
        key: text_from_db(row.key),
        what: text_from_db(row.what),
        since: from_db(row.since_seq),
        at: from_db(row.at_ms),
        answer: row.answer.map(text_from_db),
    });
    let mut requests: Vec<IdempotentRequestCopy> = requests.collect();
    // PostgreSQL sorts by its collation, and the escapes change the order too. Copies must be equal in every store.
    requests.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok(requests)
}

async fn chunks(db: &mut PgConnection, no: i64) -> Result<Vec<AnswerChunk>, sqlx::Error> {
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

async fn blobs(db: &mut PgConnection, no: i64) -> Result<Vec<(BlobRef, Seq)>, sqlx::Error> {
    let rows = sqlx::query!(
        "SELECT hash, bytes, first_seq FROM blob_ref WHERE session_no = $1 ORDER BY first_seq, hash",
        no
    )
    .fetch_all(db)
    .await?;
    let blobs = rows.into_iter().map(|row| {
        (BlobRef { hash: text_from_db(row.hash), bytes: from_db(row.bytes) }, from_db(row.first_seq))
    });
    Ok(blobs.collect())
}

struct PostgresSessionImport<'c> {
    copy: &'c SessionCopy,
    made_by: String,
}

#[async_trait]
impl PostgresOperation for PostgresSessionImport<'_> {
    type Answer = ();

    async fn run_once(&self, db: &mut PgConnection, again: bool) -> Result<(), PostgresOperationError> {
        let mut all = db.begin().await?;
        let Some(no) = self.session(&mut all).await? else {
            let id = &self.copy.id;
            let made_by =
                sqlx::query_scalar!("SELECT made_by FROM session WHERE id = $1", &*text_to_db(id.as_str()))
                    .fetch_optional(&mut *all)
                    .await?;
            // An earlier attempt of this call made the session, and its answer was lost.
            if again && made_by.as_deref() == Some(&self.made_by) {
                return Ok(());
            }
            return Err(StoreError::Conflict(format!("session {id} exists")).into());
        };
        self.events(&mut all, no).await?;
        self.inbox(&mut all, no).await?;
        self.requests(&mut all, no).await?;
        self.chunks(&mut all, no).await?;
        self.blobs(&mut all, no).await?;
        all.commit().await?;
        Ok(())
    }
}

fn event_column(events: &[EventCopy], field: fn(&EventCopy) -> i64) -> Vec<i64> {
    events.iter().map(field).collect()
}

impl PostgresSessionImport<'_> {
    async fn session(&self, db: &mut PgConnection) -> Result<Option<i64>, sqlx::Error> {
        let title = self.copy.title.as_deref().map(text_to_db);
        sqlx::query_scalar!(
            "INSERT INTO session (id, made_by, title, created_ms, updated_ms, last_seq, running, parked, epoch)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING RETURNING no",
            &*text_to_db(self.copy.id.as_str()),
            self.made_by,
            title.as_deref(),
            to_db(self.copy.created_at),
            to_db(self.copy.updated_at),
            to_db(self.copy.events.len() as u64),
            self.copy.running,
            self.copy.parked,
            to_db(self.copy.epoch)
        )
        .fetch_optional(db)
        .await
    }

    async fn events(&self, db: &mut PgConnection, no: i64) -> Result<(), sqlx::Error> {
        // A log may have tens of megabytes, which would be one message to the server and one copy in memory.
        for events in self.copy.events.chunks(500) {
            let bodies: Vec<String> = events.iter().map(|event| event.body.clone()).collect();
            sqlx::query!(
                "INSERT INTO event (session_no, seq, format, epoch, at_ms, body, checksum)
                 SELECT $1, seq, format::integer, epoch, at_ms, body, checksum
                 FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[])
                      AS event (seq, format, epoch, at_ms, body, checksum)",
                no,
                &event_column(events, |event| to_db(event.seq)),
                &event_column(events, |event| event.format.into()),
                &event_column(events, |event| to_db(event.epoch)),
                &event_column(events, |event| to_db(event.at)),
                &bodies,
                &event_column(events, |event| {
                    event_checksum(event.format.into(), event.at, event.body.as_bytes())
                })
            )
            .execute(&mut *db)
            .await?;
        }
        Ok(())
    }

    async fn inbox(&self, db: &mut PgConnection, no: i64) -> Result<(), sqlx::Error> {
        for entry in &self.copy.inbox {
            let client_key = entry.client_key.as_deref().map(text_to_db);
            sqlx::query!(
                "INSERT INTO inbox (session_no, queue_id, client_key, made_by, queued_ms, body, state)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
                no,
                &*text_to_db(entry.id.as_str()),
                client_key.as_deref(),
                self.made_by,
                to_db(entry.at),
                entry.body,
                entry.state.number()
            )
            .execute(&mut *db)
            .await?;
        }
        Ok(())
    }

    async fn requests(&self, db: &mut PgConnection, no: i64) -> Result<(), sqlx::Error> {
        for request in &self.copy.requests {
            let answer = request.answer.as_deref().map(text_to_db);
            sqlx::query!(
                "INSERT INTO request (session_no, key, begun_by, what, since_seq, at_ms, answer)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
                no,
                &*text_to_db(&request.key),
                self.made_by,
                &*text_to_db(&request.what),
                to_db(request.since),
                to_db(request.at),
                answer.as_deref()
            )
            .execute(&mut *db)
            .await?;
        }
        Ok(())
    }

    async fn chunks(&self, db: &mut PgConnection, no: i64) -> Result<(), sqlx::Error> {
        for chunk in &self.copy.chunks {
            sqlx::query!(
                "INSERT INTO chunk (session_no, step, idx, body) VALUES ($1, $2, $3, $4)",
                no,
                &*text_to_db(&chunk.step),
                to_db(chunk.index),
                &*text_to_db(&chunk.body)
            )
            .execute(&mut *db)
            .await?;
        }
        Ok(())
    }

    async fn blobs(&self, db: &mut PgConnection, no: i64) -> Result<(), sqlx::Error> {
        for (blob, first_seq) in &self.copy.blobs {
            sqlx::query!(
                "INSERT INTO blob_ref (session_no, hash, bytes, first_seq) VALUES ($1, $2, $3, $4)",
                no,
                &*text_to_db(&blob.hash),
                to_db(blob.bytes),
                to_db(*first_seq)
            )
            .execute(&mut *db)
            .await?;
        }
        Ok(())
    }
}

struct PostgresPrefixCacheExport;

#[async_trait]
impl PostgresOperation for PostgresPrefixCacheExport {
    type Answer = Vec<PrefixCacheEntryCopy>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Vec<PrefixCacheEntryCopy>, PostgresOperationError> {
        let rows = sqlx::query!("SELECT key, body FROM memo ORDER BY used, no").fetch_all(db).await?;
        let entries = rows.into_iter().filter_map(|row| {
            Some(PrefixCacheEntryCopy {
                // A key of another length is of no version known here. The entry would never be found.
                key: PrefixCacheKey::from_bytes(row.key.try_into().ok()?),
                body: row.body,
            })
        });
        Ok(entries.collect())
    }
}

struct PostgresPrefixCacheImport<'c> {
    entries: &'c [PrefixCacheEntryCopy],
}

#[async_trait]
impl PostgresOperation for PostgresPrefixCacheImport<'_> {
    type Answer = ();

    async fn run_once(&self, db: &mut PgConnection, _again: bool) -> Result<(), PostgresOperationError> {
        let mut all = db.begin().await?;
        // Without the lock, a node that evicts at the same time would count the entries without these.
        crate::operations::prefix_cache::lock(&mut all).await?;
        for PrefixCacheEntryCopy { key, body } in self.entries {
            crate::operations::prefix_cache::insert(&mut all, key, body).await?;
        }
        all.commit().await?;
        Ok(())
    }
}
