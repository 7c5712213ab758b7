//! Creating and deleting sessions.

use async_trait::async_trait;
use longhaul_core::ids::{Millis, SessionId};
use longhaul_store::{NewSession, SessionRecord, StoreError};
use sqlx::{Connection, PgConnection};

use crate::encoded::PostgresEncodedEvents;
use crate::error::{PostgresOperationError, not_found};
use crate::operation::{PostgresOperation, call_name};
use crate::text::{text_to_db, to_db};

/// [`Store::create`](longhaul_store::Store::create).
pub(crate) struct PostgresSessionCreation {
    id: SessionId,
    title: Option<String>,
    at: Millis,
    events: PostgresEncodedEvents,
    made_by: String,
}

impl PostgresSessionCreation {
    pub(crate) fn new(new: &NewSession) -> Result<Self, StoreError> {
        if new.events.is_empty() {
            return Err(StoreError::Conflict(format!("session {} has no first event", new.id)));
        }
        let events = PostgresEncodedEvents::new(new.events.iter().map(|(at, event)| (*at, event)))?;
        let title = events.change.title.clone().or_else(|| new.title.clone());
        Ok(Self { id: new.id.clone(), title, at: new.at, events, made_by: call_name() })
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
            running: self.events.change.running.unwrap_or(false),
            parked: self.events.change.parked.unwrap_or(false),
        }
    }

    async fn insert(&self, db: &mut PgConnection) -> Result<bool, sqlx::Error> {
        let record = self.record();
        let title = self.title.as_deref().map(text_to_db);
        let inserted = sqlx::query_scalar!(
            r#"WITH made AS (
                   INSERT INTO session (id, title, created_ms, updated_ms, last_seq, running, parked, made_by)
                   VALUES ($1, $2, $3, $3, $4, $5, $6, $7)
                   ON CONFLICT (id) DO NOTHING RETURNING no
               ), logged AS (
                   INSERT INTO event (session_no, seq, format, epoch, at_ms, body, checksum)
                   SELECT made.no, new.place, $8, 0, new.at_ms, new.body, new.checksum
                   FROM made, unnest($9::bigint[], $10::text[], $14::bigint[])
                        WITH ORDINALITY AS new (at_ms, body, checksum, place)
               ), named AS (
                   INSERT INTO blob_ref (session_no, hash, bytes, first_seq)
                   SELECT made.no, blob.hash, blob.bytes, blob.place
                   FROM made, unnest($11::text[], $12::bigint[], $13::bigint[]) AS blob (hash, bytes, place)
                   ON CONFLICT DO NOTHING
               )
               SELECT no AS "no!" FROM made"#,
            &*text_to_db(self.id.as_str()),
            title.as_deref(),
            to_db(self.at),
            self.events.count(),
            record.running,
            record.parked,
            self.made_by,
            i32::from(longhaul_core::event::FORMAT),
            &self.events.times,
            &self.events.bodies,
            &self.events.hashes,
            &self.events.sizes,
            &self.events.places,
            &self.events.checksums,
        )
        .fetch_optional(db)
        .await?;
        Ok(inserted.is_some())
    }

    /// Reports whether an earlier attempt of the call made the existing session.
    async fn is_mine(&self, db: &mut PgConnection) -> Result<bool, sqlx::Error> {
        // The name of the call is in the row, so a lost answer can be told from a taken id.
        let maker =
            sqlx::query_scalar!("SELECT made_by FROM session WHERE id = $1", &*text_to_db(self.id.as_str()))
                .fetch_optional(db)
                .await?;
        Ok(maker.as_deref() == Some(&self.made_by))
    }
}

#[async_trait]
impl PostgresOperation for PostgresSessionCreation {
    type Answer = ();

    async fn run_once(&self, db: &mut PgConnection, again: bool) -> Result<(), PostgresOperationError> {
        // Only a second attempt may find a row of its own.
        if self.insert(db).await? || again && self.is_mine(db).await? {
            return Ok(());
        }
        Err(StoreError::Conflict(format!("session {} exists", self.id)).into())
    }
}

/// [`Store::delete`](longhaul_store::Store::delete) of a session that was there.
pub(crate) struct PostgresSessionDeletion {
    pub(crate) id: SessionId,
    pub(crate) no: i64,
}

#[async_trait]
impl PostgresOperation for PostgresSessionDeletion {
    type Answer = ();

    async fn run_once(&self, db: &mut PgConnection, again: bool) -> Result<(), PostgresOperationError> {
        let mut all = db.begin().await?;
        // The lock comes first. The next statement then sees everything that was appended before it.
        let held = sqlx::query_scalar!(
            r#"SELECT EXISTS (
                   SELECT FROM node WHERE boot_id = session.owner AND lease_until > clock_timestamp()
               ) AS "held!"
               FROM session WHERE no = $1 FOR UPDATE"#,
            self.no
        )
        .fetch_optional(&mut *all)
        .await?;
        match held {
            Some(true) => return Err(StoreError::Busy(self.id.clone()).into()),
            Some(false) => {}
            // The caller has found the session before, so an earlier attempt of this call deleted it.
            None if again => return Ok(()),
            None => return Err(not_found(&self.id).into()),
        }
        // By number: the id may belong to a later session when this attempt repeats an earlier one.
        remove(&mut all, self.no).await?;
        all.commit().await?;
        Ok(())
    }
}

/// Removes the session of a number. The row is locked already.
///
/// # Errors
/// The errors of the database.
pub(crate) async fn remove(db: &mut PgConnection, no: i64) -> Result<(), sqlx::Error> {
    // Events and pieces have no foreign key to the session. The rows of all other tables go with the session's
    // row.
    sqlx::query!("DELETE FROM event WHERE session_no = $1", no).execute(&mut *db).await?;
    sqlx::query!("DELETE FROM chunk WHERE session_no = $1", no).execute(&mut *db).await?;
    sqlx::query!("DELETE FROM session WHERE no = $1", no).execute(db).await?;
    Ok(())
}
