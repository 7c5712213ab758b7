//! Creating and deleting sessions.

use async_trait::async_trait;
use longhaul_core::ids::{Millis, SessionId};
use longhaul_store::{NewSession, SessionRecord, StoreError};

use super::SqliteWriteOperation;
use super::batch::SqliteWriteBatch;
use super::log::SqliteEncodedEvents;
use crate::error::SqliteWriteError;
use crate::key::{advance, event_id, last_event_id, to_db};

/// [`Store::create`](longhaul_store::Store::create).
pub(crate) struct SqliteSessionCreation {
    id: SessionId,
    title: Option<String>,
    at: Millis,
    events: SqliteEncodedEvents,
}

impl SqliteSessionCreation {
    pub(crate) fn new(new: &NewSession) -> Result<Self, StoreError> {
        if new.events.is_empty() {
            return Err(StoreError::Conflict(format!("session {} has no first event", new.id)));
        }
        let events = SqliteEncodedEvents::new(new.events.iter().map(|(at, event)| (*at, event)))?;
        let title = events.change.title.clone().or_else(|| new.title.clone());
        Ok(Self { id: new.id.clone(), title, at: new.at, events })
    }

    /// Returns the record of the new session.
    pub(crate) fn record(&self) -> SessionRecord {
        SessionRecord {
            id: self.id.clone(),
            title: self.title.clone(),
            created_at: self.at,
            updated_at: self.at,
            last_seq: self.events.bodies.len() as u64,
            queued: 0,
            running: self.running(),
            parked: self.parked(),
        }
    }

    fn running(&self) -> bool {
        self.events.change.running.unwrap_or(false)
    }

    fn parked(&self) -> bool {
        self.events.change.parked.unwrap_or(false)
    }
}

#[async_trait]
impl SqliteWriteOperation for SqliteSessionCreation {
    type Answer = ();

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), SqliteWriteError> {
        let (id, at) = (self.id.as_str(), to_db(self.at));
        let (running, parked) = (i64::from(self.running()), i64::from(self.parked()));
        let last_seq = to_db(advance(0, self.events.bodies.len())?);
        let no = sqlx::query_scalar!(
            r#"INSERT INTO session (id, title, created_ms, updated_ms, changed_hour, last_seq, running, parked)
               VALUES (?1, ?2, ?3, ?3, ?3 / 3600000, ?4, ?5, ?6)
               ON CONFLICT (id) DO NOTHING RETURNING no AS "no!""#,
            id,
            self.title,
            at,
            last_seq,
            running,
            parked
        )
        .fetch_optional(batch.db().await?)
        .await?
        // A conflict gives no row and no error. An error of the database would undo the other requests of the
        // transaction too.
        .ok_or_else(|| StoreError::Conflict(format!("session {id} exists")))?;
        self.events.name_blobs(batch, no, 1).await?;
        // The first events are written without a lease, so their epoch is 0.
        batch.stage_events(no, 1, 0, self.events.bodies.iter().cloned());
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.events.bytes()
    }
}

/// [`Store::delete`](longhaul_store::Store::delete).
pub(crate) struct SqliteSessionDeletion {
    pub(crate) id: SessionId,
}

#[async_trait]
impl SqliteWriteOperation for SqliteSessionDeletion {
    type Answer = ();

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<(), SqliteWriteError> {
        if batch.leases.is_held(&self.id) {
            return Err(StoreError::Busy(self.id.clone()).into());
        }
        let no = batch.session_no(&self.id).await?;
        // Staged rows of this session must be in the tables before they can be deleted.
        batch.flush().await?;
        remove(batch, &self.id, no).await
    }
}

async fn remove(batch: &mut SqliteWriteBatch<'_>, id: &SessionId, no: i64) -> Result<(), SqliteWriteError> {
    let (first, last) = (event_id(no, 0), last_event_id(no));
    // Events and messages have packed keys, which no foreign key can follow. So they are deleted here.
    sqlx::query!("DELETE FROM event WHERE id BETWEEN ? AND ?", first, last)
        .execute(batch.db().await?)
        .await?;
    sqlx::query!("DELETE FROM inbox WHERE id BETWEEN ? AND ?", first, last)
        .execute(batch.db().await?)
        .await?;
    super::chunk::drop_session(batch, no).await?;
    // Requests and blob references go with the row (`ON DELETE CASCADE`).
    sqlx::query!("DELETE FROM session WHERE no = ?", no).execute(batch.db().await?).await?;
    batch.news.deleted.push(id.clone());
    Ok(())
}

/// [`StoreMaintenance::delete_at_rest`](longhaul_store::StoreMaintenance::delete_at_rest).
pub(crate) struct SqliteIdleSessionDeletion {
    pub(crate) id: SessionId,
    pub(crate) before: Millis,
}

#[async_trait]
impl SqliteWriteOperation for SqliteIdleSessionDeletion {
    type Answer = bool;

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<bool, SqliteWriteError> {
        if batch.leases.is_held(&self.id) {
            return Ok(false);
        }
        batch.flush().await?;
        let (id, before) = (self.id.as_str(), to_db(self.before));
        // A message may have come, or a run begun, since the caller listed the session.
        let resting = sqlx::query_scalar!(
            r#"SELECT no AS "no!" FROM session
               WHERE id = ? AND updated_ms < ? AND running = 0 AND parked = 0
                 AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.id > no << 32 | settled_messages
                                   AND inbox.id <= no << 32 | 4294967295 AND state = 0)"#,
            id,
            before
        )
        .fetch_optional(batch.db().await?)
        .await?;
        match resting {
            Some(no) => remove(batch, &self.id, no).await.map(|()| true),
            None => Ok(false),
        }
    }
}
