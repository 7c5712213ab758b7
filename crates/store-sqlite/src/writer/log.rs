//! Appending to a log.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::event::{Event, EventBody};
use longhaul_core::ids::{Millis, Seq};
use longhaul_core::message::BlobRef;
use longhaul_store::{Lease, LogAppend, SessionRecordChange, StoreError, blob_refs};
use sqlx::SqliteConnection;

use super::SqliteWriteOperation;
use super::batch::{SqliteLeasedSession, SqliteWriteBatch};
use super::inbox;
use crate::error::SqliteWriteError;
use crate::key::{advance, to_db};

/// Events in their stored form, with their changes to other tables. The caller's task encodes events, because the
/// writer's task serves all sessions.
pub(super) struct SqliteEncodedEvents {
    pub(super) bodies: Vec<(Millis, Arc<str>)>,
    pub(super) change: SessionRecordChange,
    /// The named blobs, each with the index of the naming event.
    blobs: Vec<(u64, BlobRef)>,
}

impl SqliteEncodedEvents {
    pub(super) fn new<'e>(
        events: impl Iterator<Item = (Millis, &'e EventBody)> + Clone,
    ) -> Result<Self, StoreError> {
        let bodies = events
            .clone()
            .map(|(at, event)| Ok((at, Arc::from(Event::encode_body(event)?))))
            .collect::<Result<_, serde_json::Error>>()
            .map_err(|error| StoreError::Storage(error.to_string()))?;
        let blobs = (0..)
            .zip(events.clone())
            .flat_map(|(index, (_, event))| {
                blob_refs(event).into_iter().map(move |blob| (index, blob.clone()))
            })
            .collect();
        Ok(Self { bodies, blobs, change: SessionRecordChange::of(events.map(|(_, event)| event)) })
    }

    pub(super) fn bytes(&self) -> usize {
        self.bodies.iter().map(|(_, body)| body.len()).sum()
    }

    /// Stores the blobs named by the events. The first event has position `first`.
    pub(super) async fn name_blobs(
        &self,
        batch: &mut SqliteWriteBatch<'_>,
        no: i64,
        first: Seq,
    ) -> Result<(), sqlx::Error> {
        for (index, blob) in &self.blobs {
            let (hash, bytes, seq) = (&blob.hash, to_db(blob.bytes), to_db(first + index));
            // A conflict is no error: a blob keeps the position of the first event that names it.
            sqlx::query!(
                "INSERT INTO blob_ref (session_no, hash, bytes, first_seq) VALUES (?, ?, ?, ?)
                 ON CONFLICT DO NOTHING",
                no,
                hash,
                bytes,
                seq
            )
            .execute(batch.db().await?)
            .await?;
        }
        Ok(())
    }
}

/// [`Store::append`](longhaul_store::Store::append). The answer is the position of the first event.
pub(crate) struct SqliteEventAppend {
    lease: Lease,
    at: Millis,
    events: SqliteEncodedEvents,
    takes: String,
    take_count: usize,
    settles: Vec<String>,
}

impl SqliteEventAppend {
    pub(crate) fn new(lease: &Lease, append: &LogAppend) -> Result<Self, StoreError> {
        Ok(Self {
            lease: lease.clone(),
            at: append.at,
            events: SqliteEncodedEvents::new(append.events.iter().map(|event| (append.at, event)))?,
            takes: inbox::id_list(&append.takes)?,
            take_count: append.takes.len(),
            settles: append.settles.clone(),
        })
    }

    fn stage(&self, batch: &mut SqliteWriteBatch<'_>, held: SqliteLeasedSession, last_seq: Seq) {
        let id = &self.lease.session_id;
        batch.stage_events(held.no, held.last_seq + 1, held.epoch, self.events.bodies.iter().cloned());
        batch.stage_growth(held.no, last_seq, self.at, &self.events.change);
        batch.leases.set(id, Some(SqliteLeasedSession { last_seq, ..held }));
        batch.news.grown.push((id.clone(), last_seq));
    }
}

#[async_trait]
impl SqliteWriteOperation for SqliteEventAppend {
    type Answer = Seq;

    async fn apply(&self, batch: &mut SqliteWriteBatch<'_>) -> Result<Seq, SqliteWriteError> {
        let held = batch.leases.check(&self.lease)?;
        let last_seq = advance(held.last_seq, self.events.bodies.len())?;
        // A message that no longer waits refuses the append. The refusal must come before anything is written.
        if self.take_count > 0 {
            inbox::mark_taken(batch.db().await?, held.no, &self.takes, self.take_count).await?;
        }
        for step in &self.settles {
            super::chunk::drop_step(batch, held.no, step).await?;
        }
        self.events.name_blobs(batch, held.no, held.last_seq + 1).await?;
        if let Some(title) = &self.events.change.title {
            rename(batch.db().await?, held.no, title).await?;
        }
        // An append may only take or settle. Then the log does not grow, and watchers need no notice.
        if last_seq > held.last_seq {
            self.stage(batch, held, last_seq);
        }
        Ok(held.last_seq + 1)
    }

    fn bytes(&self) -> usize {
        self.events.bytes()
    }
}

async fn rename(db: &mut SqliteConnection, no: i64, title: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("UPDATE session SET title = ? WHERE no = ?", title, no).execute(db).await?;
    Ok(())
}
