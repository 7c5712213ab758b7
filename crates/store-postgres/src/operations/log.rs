//! Appending to a log.

use async_trait::async_trait;
use longhaul_core::event::FORMAT;
use longhaul_core::ids::Seq;
use longhaul_store::{LogAppend, StoreError};
use sqlx::PgConnection;

use crate::encoded::PostgresEncodedEvents;
use crate::error::PostgresOperationError;
use crate::leased_session::{PostgresLeasedWrite, PostgresWriteContext, PostgresWriteStatus};
use crate::text::{from_db, limit_to_db, text_to_db, to_db};

/// [`Store::append`](longhaul_store::Store::append). The answer is the position of the first event.
pub(crate) struct PostgresEventAppend {
    at: i64,
    events: PostgresEncodedEvents,
    title: Option<String>,
    takes: Vec<String>,
    settles: Vec<String>,
}

/// The statement's row: the earlier end of the log if the statement did anything, and the number of waiting
/// entries.
struct PostgresAppendRow {
    before: Option<i64>,
    waiting: i64,
}

impl PostgresEventAppend {
    pub(crate) fn new(append: &LogAppend) -> Result<Self, StoreError> {
        let events = PostgresEncodedEvents::new(append.events.iter().map(|event| (append.at, event)))?;
        Ok(Self {
            at: to_db(append.at),
            title: events.change.title.as_deref().map(|title| text_to_db(title).into_owned()),
            events,
            takes: append.takes.iter().map(|id| text_to_db(id.as_str()).into_owned()).collect(),
            settles: append.settles.iter().map(|step| text_to_db(step).into_owned()).collect(),
        })
    }

    /// Appends in one statement. So the session's row is never locked during a wait for this node. Entries of the
    /// queue are locked before the session. Other code that locks both does so under the session's lock alone.
    async fn append(
        &self,
        db: &mut PgConnection,
        place: &PostgresWriteContext,
    ) -> Result<PostgresAppendRow, sqlx::Error> {
        // If an entry no longer waits, or the lease is void, `held` is empty and the other parts of the statement
        // do nothing.
        sqlx::query_as!(
            PostgresAppendRow,
            r#"WITH waiting AS MATERIALIZED (
                   SELECT no FROM inbox
                   WHERE session_no = $1 AND queue_id = ANY($10::text[]) AND state = 0
                   ORDER BY no FOR UPDATE
               ), held AS (
                   UPDATE session
                   SET writes = $5, last_seq = last_seq + $6,
                       updated_ms = CASE WHEN $6 > 0 THEN $7 ELSE updated_ms END,
                       title = coalesce($12, title), running = coalesce($13, running), parked = coalesce($14, parked)
                   WHERE no = $1 AND owner = $2 AND epoch = $3 AND writes = $4
                     AND (SELECT count(*) FROM waiting) = $11
                   RETURNING last_seq - $6 AS before
               ), logged AS (
                   INSERT INTO event (session_no, seq, format, epoch, at_ms, body, checksum)
                   SELECT $1, held.before + new.place, $8, $3, $7, new.body, new.checksum
                   FROM held, unnest($9::text[], $19::bigint[]) WITH ORDINALITY AS new (body, checksum, place)
               ), taken AS (
                   UPDATE inbox SET state = 1, body = '[]'
                   WHERE no IN (SELECT no FROM waiting) AND EXISTS (SELECT FROM held)
               ), settled AS (
                   DELETE FROM chunk
                   WHERE session_no = $1 AND step = ANY($15::text[]) AND EXISTS (SELECT FROM held)
               ), named AS (
                   INSERT INTO blob_ref (session_no, hash, bytes, first_seq)
                   SELECT $1, blob.hash, blob.bytes, held.before + blob.place
                   FROM held, unnest($16::text[], $17::bigint[], $18::bigint[]) AS blob (hash, bytes, place)
                   ON CONFLICT DO NOTHING
               )
               SELECT (SELECT before FROM held) AS before, (SELECT count(*) FROM waiting) AS "waiting!""#,
            place.no,
            place.boot.as_str(),
            place.epoch,
            place.old,
            place.new,
            self.events.count(),
            self.at,
            i32::from(FORMAT),
            &self.events.bodies,
            &self.takes,
            limit_to_db(self.takes.len()),
            self.title,
            self.events.change.running,
            self.events.change.parked,
            &self.settles,
            &self.events.hashes,
            &self.events.sizes,
            &self.events.places,
            &self.events.checksums,
        )
        .fetch_one(db)
        .await
    }
}

#[async_trait]
impl PostgresLeasedWrite for PostgresEventAppend {
    type Answer = Seq;

    async fn write(
        &self,
        db: &mut PgConnection,
        place: &PostgresWriteContext,
        _again: bool,
    ) -> Result<Seq, PostgresOperationError> {
        let outcome = self.append(&mut *db, place).await?;
        // The position follows from the same statement that wrote the events, so nothing can come in between.
        if let Some(before) = outcome.before {
            return Ok(from_db(before + 1));
        }
        // Nothing was done now. An earlier attempt may have done it, and only its answer was lost.
        match place.check_write_status(db).await? {
            PostgresWriteStatus::Done { last_seq } => Ok(from_db(last_seq - self.events.count() + 1)),
            // The lease holds and the row is unchanged, so only the queue can have refused the append.
            PostgresWriteStatus::Before if outcome.waiting != limit_to_db(self.takes.len()) => {
                Err(StoreError::Conflict(format!("not all of the queued messages {:?} wait", self.takes))
                    .into())
            }
            PostgresWriteStatus::Before | PostgresWriteStatus::Void => Err(place.fenced().into()),
        }
    }
}
