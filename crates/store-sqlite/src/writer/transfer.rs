//! Writes sessions and prefix caches of another store.

use async_trait::async_trait;
use longhaul_store::transfer::{PrefixCacheEntryCopy, SessionCopy};
use longhaul_store::{StoreError, event_checksum};
use sqlx::SqliteConnection;

use super::SqliteWriteOperation;
use super::batch::SqliteWriteBatch;
use crate::error::SqliteWriteError;
use crate::key::{advance, event_id, limit_to_db, to_db};

/// [`SessionTransfer::import`](longhaul_store::SessionTransfer::import).
pub(crate) struct SqliteSessionImport {
    pub(crate) copy: SessionCopy,
}

#[async_trait]
impl SqliteWriteOperation for SqliteSessionImport {
    type Answer = ();

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), SqliteWriteError> {
        let copy = &self.copy;
        let (id, created, updated) = (copy.id.as_str(), to_db(copy.created_at), to_db(copy.updated_at));
        let last_seq = to_db(advance(0, copy.events.len())?);
        let (running, parked, epoch) = (i64::from(copy.running), i64::from(copy.parked), to_db(copy.epoch));
        // The session gets a number of this database. The number is part of every key, so the keys of the other store
        // have no meaning here.
        let no = sqlx::query_scalar!(
            r#"INSERT INTO session (id, title, created_ms, updated_ms, changed_hour, last_seq, running, parked, epoch)
               VALUES (?1, ?2, ?3, ?4, ?4 / 3600000, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO NOTHING RETURNING no AS "no!""#,
            id,
            copy.title,
            created,
            updated,
            last_seq,
            running,
            parked,
            epoch
        )
        .fetch_optional(batch.db().await?)
        .await?
        .ok_or_else(|| StoreError::Conflict(format!("session {id} exists")))?;
        self.events(batch.db().await?, no).await?;
        self.inbox(batch.db().await?, no).await?;
        self.requests(batch.db().await?, no).await?;
        self.chunks(batch.db().await?, no).await?;
        // The chunks went past the counters, which must be read again.
        batch.leases.steps.forget();
        self.blobs(batch.db().await?, no).await?;
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.copy.events.iter().map(|event| event.body.len()).sum()
    }
}

impl SqliteSessionImport {
    async fn events(&self, db: &mut SqliteConnection, no: i64) -> Result<(), sqlx::Error> {
        for event in &self.copy.events {
            let (id, format) = (event_id(no, event.seq), i64::from(event.format));
            let (epoch, at) = (to_db(event.epoch), to_db(event.at));
            let checksum = event_checksum(format, event.at, event.body.as_bytes());
            sqlx::query!(
                "INSERT INTO event (id, format, epoch, at_ms, body, checksum) VALUES (?, ?, ?, ?, ?, ?)",
                id,
                format,
                epoch,
                at,
                event.body,
                checksum
            )
            .execute(&mut *db)
            .await?;
        }
        Ok(())
    }

    async fn inbox(&self, db: &mut SqliteConnection, no: i64) -> Result<(), sqlx::Error> {
        // Messages have keys like those of events: the session in the high bits, then the order of arrival.
        for (id, entry) in (event_id(no, 1)..).zip(&self.copy.inbox) {
            let (queue_id, at, state) = (entry.id.as_str(), to_db(entry.at), entry.state.number());
            sqlx::query!(
                "INSERT INTO inbox (id, queue_id, client_key, queued_ms, body, state) VALUES (?, ?, ?, ?, ?, ?)",
                id,
                queue_id,
                entry.client_key,
                at,
                entry.body,
                state
            )
            .execute(&mut *db)
            .await?;
        }
        Ok(())
    }

    async fn requests(&self, db: &mut SqliteConnection, no: i64) -> Result<(), sqlx::Error> {
        for request in &self.copy.requests {
            let (since, at) = (to_db(request.since), to_db(request.at));
            sqlx::query!(
                "INSERT INTO request (session_no, key, what, since_seq, at_ms, answer) VALUES (?, ?, ?, ?, ?, ?)",
                no,
                request.key,
                request.what,
                since,
                at,
                request.answer
            )
            .execute(&mut *db)
            .await?;
        }
        Ok(())
    }

    async fn chunks(&self, db: &mut SqliteConnection, no: i64) -> Result<(), sqlx::Error> {
        for chunk in &self.copy.chunks {
            let index = to_db(chunk.index);
            sqlx::query!(
                "INSERT INTO chunk (session_no, step, idx, body) VALUES (?, ?, ?, ?)",
                no,
                chunk.step,
                index,
                chunk.body
            )
            .execute(&mut *db)
            .await?;
        }
        Ok(())
    }

    async fn blobs(&self, db: &mut SqliteConnection, no: i64) -> Result<(), sqlx::Error> {
        for (blob, first_seq) in &self.copy.blobs {
            let (bytes, first_seq) = (to_db(blob.bytes), to_db(*first_seq));
            sqlx::query!(
                "INSERT INTO blob_ref (session_no, hash, bytes, first_seq) VALUES (?, ?, ?, ?)",
                no,
                blob.hash,
                bytes,
                first_seq
            )
            .execute(&mut *db)
            .await?;
        }
        Ok(())
    }
}

/// [`SessionTransfer::import_memo`](longhaul_store::SessionTransfer::import_memo).
pub(crate) struct SqlitePrefixCacheImport {
    pub(crate) entries: Vec<PrefixCacheEntryCopy>,
}

#[async_trait]
impl SqliteWriteOperation for SqlitePrefixCacheImport {
    type Answer = ();

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), SqliteWriteError> {
        for PrefixCacheEntryCopy { key, body } in &self.entries {
            let (key, bytes) = (key.as_bytes().as_slice(), limit_to_db(body.len()));
            super::prefix_cache::insert(batch.db().await?, key, bytes, body).await?;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.body.len()).sum()
    }
}
