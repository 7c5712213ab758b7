//! Reading a log: many events a row, since each row wakes two threads.

use futures_util::TryStreamExt;
use longhaul_core::event::{Event, FORMAT};
use longhaul_core::ids::{Seq, SessionId};
use longhaul_store::StoreError;

use super::{Reader, corrupt, not_found};
use crate::error::store_error;
use crate::key::{event_id, from_db, seq_of};

/// How many events come in one row, unless they are large.
const ROW_EVENTS: i64 = 64;

/// Events whose bodies come to more bytes than this come one by one.
const ROW_BYTES: i64 = 1 << 20;

/// Stands between the events of a row: `char(30)`, which JSON has in no place.
const BETWEEN: char = '\u{1e}';

/// Where a log is, and how far it goes.
struct Place {
    no: i64,
    last_seq: i64,
}

impl Reader {
    pub(crate) async fn events(
        &self,
        id: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let place = self.place(id).await?;
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        self.span(id, place.no, after, from_db(place.last_seq).min(after.saturating_add(limit))).await
    }

    pub(crate) async fn tail(&self, id: &SessionId, limit: usize) -> Result<Vec<Event>, StoreError> {
        let place = self.place(id).await?;
        let (last, limit) = (from_db(place.last_seq), u64::try_from(limit).unwrap_or(u64::MAX));
        self.span(id, place.no, last.saturating_sub(limit), last).await
    }

    async fn place(&self, id: &SessionId) -> Result<Place, StoreError> {
        let name = id.as_str();
        sqlx::query_as!(Place, r#"SELECT no AS "no!", last_seq FROM session WHERE id = ?"#, name)
            .fetch_optional(self.pool())
            .await
            .map_err(|error| store_error(&error))?
            .ok_or_else(|| not_found(id))
    }

    /// The events after `after` up to `last`, which were written.
    async fn span(&self, id: &SessionId, no: i64, after: Seq, last: Seq) -> Result<Vec<Event>, StoreError> {
        let mut events = Vec::new();
        if after >= last {
            return Ok(events);
        }
        let (from, to) = (event_id(no, after + 1), event_id(no, last));
        let mut rows = sqlx::query_scalar!(
            r#"WITH RECURSIVE part (first, last) AS (
                   SELECT ?1, min(?1 + ?3 - 1, ?2)
                   UNION ALL
                   SELECT last + 1, min(last + ?3, ?2) FROM part WHERE last < ?2)
               SELECT CASE WHEN single.id IS NULL
                   THEN (SELECT group_concat(id || ' ' || format || ' ' || at_ms || ' ' || body, char(30))
                         FROM event WHERE id BETWEEN first AND last)
                   ELSE single.id || ' ' || single.format || ' ' || single.at_ms || ' ' || single.body
                   END AS "events: String"
               FROM part LEFT JOIN event AS single ON single.id BETWEEN first AND
                   iif((SELECT total(octet_length(body)) FROM event WHERE id BETWEEN first AND last) <= ?4, 0, last)"#,
            from,
            to,
            ROW_EVENTS,
            ROW_BYTES,
        )
        .fetch(self.pool());
        let mut expected = after + 1;
        while let Some(row) = rows.try_next().await.map_err(|error| store_error(&error))? {
            for event in row.iter().flat_map(|row| row.split(BETWEEN)) {
                events.push(decode(id, expected, event)?);
                expected += 1;
                // Decoding megabytes must not keep other tasks from running.
                tokio::task::consume_budget().await;
            }
        }
        drop(rows);
        if expected <= last {
            // The database says nothing of a page that has become another one. A session that was deleted meanwhile is
            // not found.
            self.place(id).await?;
            return Err(corrupt(format!("event {expected} of session {id} is missing: {last} were written")));
        }
        Ok(events)
    }
}

/// One event: key, format, time, body.
fn decode(session: &SessionId, expected: Seq, event: &str) -> Result<Event, StoreError> {
    let mut fields = event.splitn(4, ' ');
    let mut number = || fields.next().and_then(|field| field.parse::<i64>().ok());
    let head = (number(), number(), number());
    let ((Some(key), Some(format), Some(at_ms)), Some(body)) = (head, fields.next()) else {
        return Err(corrupt(format!("event {expected} of session {session} cannot be read")));
    };
    let seq = seq_of(key);
    if seq != expected {
        return Err(corrupt(format!("event {expected} of session {session} is missing")));
    }
    let Some(format) = u16::try_from(format).ok().filter(|format| *format <= FORMAT) else {
        return Err(corrupt(format!(
            "event {seq} of session {session} has format {format}, newer than {FORMAT}"
        )));
    };
    let body = serde_json::from_str(body)
        .map_err(|error| corrupt(format!("event {seq} of session {session}: {error}")))?;
    Ok(Event { seq, at: from_db(at_ms), format, body })
}
