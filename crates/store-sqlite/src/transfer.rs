//! Export and import of whole sessions.

use async_trait::async_trait;
use longhaul_core::ids::{Seq, SessionId};
use longhaul_core::message::BlobRef;
use longhaul_store::transfer::{
    EventCopy, IdempotentRequestCopy, InboxEntryCopy, InboxEntryState, PrefixCacheEntryCopy, SessionCopy,
    SessionTransfer,
};
use longhaul_store::{AnswerChunk, PrefixCacheKey, StoreError};
use sqlx::SqliteConnection;

use crate::error::store_error;
use crate::key::{event_id, from_db, last_event_id, seq_of};
use crate::reader::log::{SqliteEventRow, damaged};
use crate::store::SqliteStore;
use crate::writer::transfer::{SqlitePrefixCacheImport, SqliteSessionImport};

#[async_trait]
impl SessionTransfer for SqliteStore {
    async fn created(&self) -> Result<Vec<SessionId>, StoreError> {
        let ids = sqlx::query_scalar!("SELECT id FROM session ORDER BY no")
            .fetch_all(self.reader().pool())
            .await
            .map_err(|error| store_error(&error))?;
        Ok(ids.into_iter().map(SessionId::from).collect())
    }

    async fn export(&self, id: &SessionId) -> Result<SessionCopy, StoreError> {
        // One transaction is one snapshot. Parts read one by one could belong to different moments.
        let mut all = self.reader().pool().begin().await.map_err(|error| store_error(&error))?;
        export(&mut all, id).await
    }

    async fn import(&self, copy: &SessionCopy) -> Result<(), StoreError> {
        copy.check()?;
        tracing::debug!(session = %copy.id, events = copy.events.len(), inbox = copy.inbox.len(), "a session is imported");
        self.writer()?.submit(SqliteSessionImport { copy: copy.clone() }).await
    }

    async fn export_memo(&self) -> Result<Vec<PrefixCacheEntryCopy>, StoreError> {
        let rows = sqlx::query!("SELECT key, body FROM memo ORDER BY used, no")
            .fetch_all(self.reader().pool())
            .await
            .map_err(|error| store_error(&error))?;
        let entries = rows.into_iter().filter_map(|row| {
            Some(PrefixCacheEntryCopy {
                // A CHECK of the table holds keys to 32 bytes, so no entry is dropped here.
                key: PrefixCacheKey::from_bytes(row.key.try_into().ok()?),
                body: row.body,
            })
        });
        Ok(entries.collect())
    }

    async fn import_memo(&self, entries: &[PrefixCacheEntryCopy]) -> Result<(), StoreError> {
        tracing::debug!(entries = entries.len(), "entries of the prefix cache are imported");
        self.writer()?.submit(SqlitePrefixCacheImport { entries: entries.to_vec() }).await
    }
}

async fn export(db: &mut SqliteConnection, id: &SessionId) -> Result<SessionCopy, StoreError> {
    let name = id.as_str();
    let session = sqlx::query!(
        r#"SELECT no AS "no!", title, created_ms, updated_ms, running, parked, epoch
           FROM session WHERE id = ?"#,
        name
    )
    .fetch_optional(&mut *db)
    .await
    .map_err(|error| store_error(&error))?
    .ok_or_else(|| StoreError::NotFound(format!("session {id}")))?;
    Ok(SessionCopy {
        id: id.clone(),
        title: session.title,
        created_at: from_db(session.created_ms),
        updated_at: from_db(session.updated_ms),
        running: session.running != 0,
        parked: session.parked != 0,
        epoch: from_db(session.epoch),
        events: events(db, id, session.no).await?,
        inbox: inbox(db, session.no).await.map_err(|error| store_error(&error))?,
        requests: requests(db, session.no).await.map_err(|error| store_error(&error))?,
        chunks: chunks(db, session.no).await.map_err(|error| store_error(&error))?,
        blobs: blobs(db, session.no).await.map_err(|error| store_error(&error))?,
    })
}

/// Returns the events, and refuses damaged ones: a copy would vouch for the damage.
async fn events(
    db: &mut SqliteConnection,
    session: &SessionId,
    no: i64,
) -> Result<Vec<EventCopy>, StoreError> {
    let (first, last) = (event_id(no, 0), last_event_id(no));
    let rows = sqlx::query!(
        r#"SELECT id AS "id!", format, epoch, at_ms, checksum, CAST(body AS BLOB) AS "body!: Vec<u8>"
           FROM event WHERE id BETWEEN ? AND ? ORDER BY id"#,
        first,
        last
    )
    .fetch_all(db)
    .await
    .map_err(|error| store_error(&error))?;
    let events = rows.into_iter().map(|row| {
        let seq = seq_of(row.id);
        let (id, format, at_ms, checksum) = (row.id, row.format, row.at_ms, row.checksum);
        let stored = SqliteEventRow { id, format, at_ms, checksum, body: &row.body };
        stored.check().map_err(|why| damaged(session, seq, why))?;
        Ok(EventCopy {
            seq,
            // A format beyond the range comes from no known version. The greatest number is refused wherever it
            // is read.
            format: u16::try_from(format).unwrap_or(u16::MAX),
            epoch: from_db(row.epoch),
            at: from_db(at_ms),
            body: String::from_utf8(row.body).map_err(|error| damaged(session, seq, error.to_string()))?,
        })
    });
    events.collect()
}

async fn inbox(db: &mut SqliteConnection, no: i64) -> Result<Vec<InboxEntryCopy>, sqlx::Error> {
    let (first, last) = (event_id(no, 0), last_event_id(no));
    let rows = sqlx::query!(
        "SELECT queue_id, client_key, queued_ms, body, state FROM inbox WHERE id BETWEEN ? AND ? ORDER BY id",
        first,
        last
    )
    .fetch_all(db)
    .await?;
    let entries = rows.into_iter().map(|row| InboxEntryCopy {
        id: row.queue_id.into(),
        client_key: row.client_key,
        at: from_db(row.queued_ms),
        body: row.body,
        state: InboxEntryState::of(row.state),
    });
    Ok(entries.collect())
}

async fn requests(db: &mut SqliteConnection, no: i64) -> Result<Vec<IdempotentRequestCopy>, sqlx::Error> {
    let rows = sqlx::query!(
        "SELECT key, what, since_seq, at_ms, answer FROM request WHERE session_no = ? ORDER BY key",
        no
    )
    .fetch_all(db)
    .await?;
    let requests = rows.into_iter().map(|row| IdempotentRequestCopy {
        key: row.key,
        what: row.what,
        since: from_db(row.since_seq),
        at: from_db(row.at_ms),
        answer: row.answer,
    });
    Ok(requests.collect())
}

async fn chunks(db: &mut SqliteConnection, no: i64) -> Result<Vec<AnswerChunk>, sqlx::Error> {
    let rows = sqlx::query!(
        "SELECT step, idx, body FROM chunk WHERE session_no = ?1
                 AND step NOT IN (SELECT step FROM chunk WHERE session_no = ?1 AND idx = -1)
         ORDER BY (SELECT first.id FROM chunk AS first
                   WHERE first.session_no = ?1 AND first.step = chunk.step AND first.idx = 0), idx",
        no
    )
    .fetch_all(db)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| AnswerChunk { step: row.step, index: from_db(row.idx), body: row.body })
        .collect())
}

async fn blobs(db: &mut SqliteConnection, no: i64) -> Result<Vec<(BlobRef, Seq)>, sqlx::Error> {
    let rows = sqlx::query!(
        "SELECT hash, bytes, first_seq FROM blob_ref WHERE session_no = ? ORDER BY first_seq, hash",
        no
    )
    .fetch_all(db)
    .await?;
    let blobs = rows
        .into_iter()
        .map(|row| (BlobRef { hash: row.hash, bytes: from_db(row.bytes) }, from_db(row.first_seq)));
    Ok(blobs.collect())
}
