//! Reads of a log. One result row carries many events, because each row wakes two threads.

use futures_util::TryStreamExt;
use longhaul_core::event::{Event, FORMAT};
use longhaul_core::ids::{Seq, SessionId};
use longhaul_store::{StoreError, ViewChangeKind, event_checksum};

use super::{SqliteReader, not_found};
use crate::error::store_error;
use crate::key::{event_id, from_db, last_event_id, limit_to_db, seq_of};

/// The maximum number of small events in one row.
const ROW_EVENTS: i64 = 64;

/// The maximum size of the bodies in a row of several events, in bytes.
const ROW_BYTES: i64 = 1 << 20;

/// The separator between the events of a row: `char(30)`. JSON never contains this character.
const BETWEEN: u8 = 0x1e;

/// The placeholder for a missing checksum.
const NO_CHECKSUM: &str = "-";

/// The key of a session's log and the newest position.
struct SqliteLogExtent {
    no: i64,
    last_seq: i64,
}

/// The stored form of an event. A damaged body need not be UTF-8.
pub(crate) struct SqliteEventRow<'a> {
    pub(crate) id: i64,
    pub(crate) format: i64,
    pub(crate) at_ms: i64,
    /// The checksum of the event. `None` if an earlier version wrote the event.
    pub(crate) checksum: Option<i64>,
    pub(crate) body: &'a [u8],
}

impl SqliteReader {
    pub(crate) async fn events(
        &self,
        id: &SessionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let place = self.log_extent(id).await?;
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        self.read_range(id, place.no, after, from_db(place.last_seq).min(after.saturating_add(limit))).await
    }

    pub(crate) async fn tail(&self, id: &SessionId, limit: usize) -> Result<Vec<Event>, StoreError> {
        let place = self.log_extent(id).await?;
        let (last, limit) = (from_db(place.last_seq), u64::try_from(limit).unwrap_or(u64::MAX));
        self.read_range(id, place.no, last.saturating_sub(limit), last).await
    }

    /// Returns the view-changing events, by the indexes with only such events.
    pub(crate) async fn view_changes(
        &self,
        id: &SessionId,
        kind: ViewChangeKind,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let place = self.log_extent(id).await?;
        let (from, to, limit) = (event_id(place.no, after), last_event_id(place.no), limit_to_db(limit));
        // `INDEXED BY` makes the statement fail instead of scanning the whole log if the index does not fit it. The
        // `substr` must be the same expression as in the index.
        let ids = match kind {
            ViewChangeKind::Edited => {
                sqlx::query_scalar!(
                    r#"SELECT id AS "id!" FROM event INDEXED BY event_view_edited
                       WHERE substr(body, 1, 21) = '{"kind":"view-edited"' AND id > ? AND id <= ?
                       ORDER BY id LIMIT ?"#,
                    from,
                    to,
                    limit
                )
                .fetch_all(self.pool())
                .await
            }
            ViewChangeKind::Restored => {
                sqlx::query_scalar!(
                    r#"SELECT id AS "id!" FROM event INDEXED BY event_view_restored
                       WHERE substr(body, 1, 23) = '{"kind":"view-restored"' AND id > ? AND id <= ?
                       ORDER BY id LIMIT ?"#,
                    from,
                    to,
                    limit
                )
                .fetch_all(self.pool())
                .await
            }
        };
        let mut events = Vec::new();
        for event_id in ids.map_err(|error| store_error(&error))? {
            match self.read_single(id, event_id).await {
                Ok(event) => events.extend(event.filter(|event| kind.is_kind_of(&event.body))),
                Err(StoreError::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(events)
    }

    async fn log_extent(&self, id: &SessionId) -> Result<SqliteLogExtent, StoreError> {
        let name = id.as_str();
        sqlx::query_as!(SqliteLogExtent, r#"SELECT no AS "no!", last_seq FROM session WHERE id = ?"#, name)
            .fetch_optional(self.pool())
            .await
            .map_err(|error| store_error(&error))?
            .ok_or_else(|| not_found(id))
    }

    /// Returns the events after position `after` up to position `last`.
    async fn read_range(
        &self,
        id: &SessionId,
        no: i64,
        after: Seq,
        last: Seq,
    ) -> Result<Vec<Event>, StoreError> {
        match self.read_grouped(id, no, after, last).await {
            Err(StoreError::Damaged { .. } | StoreError::Corrupt(_)) => {
                self.find_damage(id, no, after, last).await
            }
            other => other,
        }
    }

    async fn read_grouped(
        &self,
        id: &SessionId,
        no: i64,
        after: Seq,
        last: Seq,
    ) -> Result<Vec<Event>, StoreError> {
        let mut events = Vec::new();
        if after >= last {
            return Ok(events);
        }
        let (from, to) = (event_id(no, after + 1), event_id(no, last));
        // `part` cuts the range into stretches of `ROW_EVENTS` positions. For a small stretch the join with
        // `single` matches nothing (`BETWEEN first AND 0`), and the CASE joins its events into one row. A stretch
        // above `ROW_BYTES` gives a row for each event, so that no row becomes much larger than its largest
        // event. The result is a BLOB, because sqlx refuses a TEXT that damage has made invalid UTF-8. A stretch
        // without any event gives NULL, which the check behind the loop notices.
        let mut rows = sqlx::query_scalar!(
            r#"WITH RECURSIVE part (first, last) AS (
                   SELECT ?1, min(?1 + ?3 - 1, ?2)
                   UNION ALL
                   SELECT last + 1, min(last + ?3, ?2) FROM part WHERE last < ?2)
               SELECT CAST(CASE WHEN single.id IS NULL
                   THEN (SELECT group_concat(id || ' ' || format || ' ' || at_ms || ' ' || coalesce(checksum, '-')
                                             || ' ' || body, char(30))
                         FROM event WHERE id BETWEEN first AND last)
                   ELSE single.id || ' ' || single.format || ' ' || single.at_ms || ' '
                        || coalesce(single.checksum, '-') || ' ' || single.body
                   END AS BLOB) AS "events: Vec<u8>"
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
            for event in row.iter().flat_map(|row| row.split(|byte| *byte == BETWEEN)) {
                let event = split_fields(event).ok_or_else(|| damaged(id, expected, "it cannot be read"))?;
                events.push(event.decode(id, expected)?);
                expected += 1;
                // Decoding megabytes must not keep other tasks from running.
                tokio::task::consume_budget().await;
            }
        }
        // The stream holds a connection, and `log_extent` needs one. If all readers waited for a second one, none would
        // go on.
        drop(rows);
        if expected <= last {
            // SQLite reports no error for a page that was replaced by another valid page. A session that was deleted
            // meanwhile must be reported as not found instead.
            self.log_extent(id).await?;
            return Err(damaged(id, expected, format!("it is missing: {last} were written")));
        }
        Ok(events)
    }

    /// Reads one event after the other. The error names the first damaged event.
    async fn find_damage(
        &self,
        id: &SessionId,
        no: i64,
        after: Seq,
        last: Seq,
    ) -> Result<Vec<Event>, StoreError> {
        let mut events = Vec::new();
        for seq in after + 1..=last {
            match self.read_single(id, event_id(no, seq)).await? {
                Some(event) => events.push(event),
                None => {
                    self.log_extent(id).await?;
                    return Err(damaged(id, seq, format!("it is missing: {last} were written")));
                }
            }
        }
        Ok(events)
    }

    async fn read_single(&self, session: &SessionId, id: i64) -> Result<Option<Event>, StoreError> {
        let seq = seq_of(id);
        let row = sqlx::query!(
            r#"SELECT format, at_ms, checksum, CAST(body AS BLOB) AS "body!: Vec<u8>" FROM event WHERE id = ?"#,
            id
        )
        .fetch_optional(self.pool())
        .await;
        match row.map_err(|error| store_error(&error)) {
            Ok(Some(row)) => {
                let (format, at_ms, checksum) = (row.format, row.at_ms, row.checksum);
                SqliteEventRow { id, format, at_ms, checksum, body: &row.body }.decode(session, seq).map(Some)
            }
            Ok(None) => Ok(None),
            // A page of the file is damaged, and with it this event and perhaps its neighbours.
            Err(StoreError::Corrupt(why)) => Err(damaged(session, seq, why)),
            Err(error) => Err(error),
        }
    }
}

/// Returns the fields of an event in a row: key, format, time, checksum, body.
fn split_fields(event: &[u8]) -> Option<SqliteEventRow<'_>> {
    let mut fields = event.splitn(5, |byte| *byte == b' ');
    let mut text = || fields.next().and_then(|field| std::str::from_utf8(field).ok());
    // Fields that cannot be read are damage, which the caller reports with the position.
    let (id, format, at_ms) = (text()?.parse().ok()?, text()?.parse().ok()?, text()?.parse().ok()?);
    let checksum = match text()? {
        NO_CHECKSUM => None,
        checksum => Some(checksum.parse().ok()?),
    };
    Some(SqliteEventRow { id, format, at_ms, checksum, body: fields.next()? })
}

impl SqliteEventRow<'_> {
    /// Returns the reason as an error if the checksum does not match.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let found = event_checksum(self.format, from_db(self.at_ms), self.body);
        match self.checksum {
            Some(checksum) if checksum != found => Err("its checksum does not match"),
            _ => Ok(()),
        }
    }

    fn decode(&self, session: &SessionId, expected: Seq) -> Result<Event, StoreError> {
        let seq = seq_of(self.id);
        // A flipped bit can change the key of an event. Then another position is empty.
        if seq != expected {
            return Err(damaged(session, expected, "it is missing"));
        }
        self.check().map_err(|why| damaged(session, seq, why))?;
        let Some(format) = u16::try_from(self.format).ok().filter(|format| *format <= FORMAT) else {
            return Err(damaged(session, seq, format!("it has format {}, newer than {FORMAT}", self.format)));
        };
        let body =
            serde_json::from_slice(self.body).map_err(|error| damaged(session, seq, error.to_string()))?;
        Ok(Event { seq, at: from_db(self.at_ms), format, body })
    }
}

pub(crate) fn damaged(session: &SessionId, seq: Seq, why: impl Into<String>) -> StoreError {
    StoreError::Damaged { session: session.clone(), seq, why: why.into() }
}
