//! A transaction of several writes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use longhaul_core::event::FORMAT;
use longhaul_core::ids::{Millis, Seq, SessionId};
use longhaul_store::{Lease, SessionRecordChange, SessionWatchers, StoreError, event_checksum};
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::chunk::SqliteChunkCounts;
use crate::error::SqliteWriteError;
use crate::key::{event_id, to_db};

/// The maximum number of events in one `INSERT`. Each event takes six parameters.
const INSERT_ROWS: usize = 64;

/// The batch of one transaction's requests. Events, changed session rows and chunks of answers are gathered.
/// Everything else is written at once, through [`SqliteWriteBatch::db`].
///
/// The connection has a thread of its own, and a call to the thread costs as much as the statement. Gathered rows
/// are therefore written together with `BEGIN` and `COMMIT`: a transaction of appends alone is one call.
pub(crate) struct SqliteWriteBatch<'w> {
    connection: &'w mut SqliteConnection,
    begun: bool,
    pub(crate) leases: &'w mut SqliteLeaseTable,
    pub(crate) news: SqliteCommitNotices,
    rows: Vec<SqliteEventInsert>,
    grown: BTreeMap<i64, SqliteSessionUpdate>,
    /// Session, step, index and text of chunks.
    chunks: Vec<(i64, String, i64, String)>,
}

/// An event to insert.
struct SqliteEventInsert {
    id: i64,
    epoch: i64,
    at: Millis,
    body: Arc<str>,
}

/// The change of a session's row in the transaction.
struct SqliteSessionUpdate {
    last_seq: Seq,
    at: Millis,
    running: Option<bool>,
    parked: Option<bool>,
}

/// The notices for watchers after the commit.
#[derive(Debug, Default)]
pub(crate) struct SqliteCommitNotices {
    pub(crate) grown: Vec<(SessionId, Seq)>,
    pub(crate) deleted: Vec<SessionId>,
}

impl SqliteCommitNotices {
    pub(crate) fn notify_watchers(self, watchers: &SessionWatchers) {
        for (id, seq) in &self.grown {
            watchers.publish(id, *seq);
        }
        for id in &self.deleted {
            watchers.end(id);
        }
    }
}

impl<'w> SqliteWriteBatch<'w> {
    pub(crate) fn new(connection: &'w mut SqliteConnection, leases: &'w mut SqliteLeaseTable) -> Self {
        let (news, rows, grown) = (SqliteCommitNotices::default(), Vec::new(), BTreeMap::new());
        Self { connection, begun: false, leases, news, rows, grown, chunks: Vec::new() }
    }

    /// Returns the connection, inside the transaction.
    pub(crate) async fn db(&mut self) -> Result<&mut SqliteConnection, sqlx::Error> {
        if !self.begun {
            sqlx::query("BEGIN IMMEDIATE").execute(&mut *self.connection).await?;
            self.begun = true;
        }
        Ok(self.connection)
    }

    /// Stages events for the positions from `first`.
    pub(crate) fn stage_events(
        &mut self,
        no: i64,
        first: Seq,
        epoch: i64,
        events: impl IntoIterator<Item = (Millis, Arc<str>)>,
    ) {
        let rows = (first..).zip(events).map(|(seq, (at, body))| SqliteEventInsert {
            id: event_id(no, seq),
            epoch,
            at,
            body,
        });
        self.rows.extend(rows);
    }

    /// Stages the change of a session's row. A later change of the same transaction wins, field by field.
    pub(crate) fn stage_growth(&mut self, no: i64, last_seq: Seq, at: Millis, change: &SessionRecordChange) {
        let earlier = self.grown.get(&no).map(|grown| (grown.running, grown.parked)).unwrap_or_default();
        let (running, parked) = (change.running.or(earlier.0), change.parked.or(earlier.1));
        self.grown.insert(no, SqliteSessionUpdate { last_seq, at, running, parked });
    }

    /// Stages the next chunk of a step's answer.
    pub(crate) fn stage_chunk(&mut self, no: i64, step: &str, index: i64, body: &str) {
        self.chunks.push((no, step.to_owned(), index, body.to_owned()));
    }

    /// Writes all staged rows. A request that reads session rows calls this method first.
    pub(crate) async fn flush(&mut self) -> Result<(), sqlx::Error> {
        self.write_staged("").await
    }

    /// Writes all staged rows, and commits the transaction.
    pub(crate) async fn commit(mut self) -> Result<SqliteCommitNotices, sqlx::Error> {
        self.write_staged("COMMIT").await?;
        Ok(self.news)
    }

    async fn write_staged(&mut self, end: &'static str) -> Result<(), sqlx::Error> {
        let rows = std::mem::take(&mut self.rows);
        // The last rows go into the same call as the end of the transaction.
        let (early, last) = rows.split_at(rows.len().saturating_sub(INSERT_ROWS));
        for rows in early.chunks(INSERT_ROWS) {
            let mut insert = QueryBuilder::new("");
            push_insert(&mut insert, rows);
            insert.build().execute(self.db().await?).await?;
        }
        if !self.begun && last.is_empty() && self.grown.is_empty() && self.chunks.is_empty() {
            return Ok(());
        }
        let mut query = QueryBuilder::new(if self.begun { "" } else { "BEGIN IMMEDIATE;" });
        push_insert(&mut query, last);
        push_update(&mut query, &std::mem::take(&mut self.grown))?;
        push_chunks(&mut query, &std::mem::take(&mut self.chunks))?;
        query.push(end);
        self.begun = true;
        query.build().execute(&mut *self.connection).await?;
        Ok(())
    }

    /// Returns the number of a session.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub(crate) async fn session_no(&mut self, id: &SessionId) -> Result<i64, SqliteWriteError> {
        let name = id.as_str();
        let no = sqlx::query_scalar!(r#"SELECT no AS "no!" FROM session WHERE id = ?"#, name)
            .fetch_optional(self.db().await?)
            .await?;
        no.ok_or_else(|| StoreError::NotFound(format!("session {id}")).into())
    }
}

fn push_insert(query: &mut QueryBuilder<Sqlite>, rows: &[SqliteEventInsert]) {
    if rows.is_empty() {
        return;
    }
    query.push("INSERT INTO event (id, format, epoch, at_ms, body, checksum) ");
    query.push_values(rows, |mut values, row| {
        let format = i64::from(FORMAT);
        values.push_bind(row.id).push_bind(format).push_bind(row.epoch);
        values.push_bind(to_db(row.at)).push_bind(Arc::clone(&row.body));
        values.push_bind(event_checksum(format, row.at, row.body.as_bytes()));
    });
    query.push(";");
}

fn push_update(
    query: &mut QueryBuilder<Sqlite>,
    grown: &BTreeMap<i64, SqliteSessionUpdate>,
) -> Result<(), sqlx::Error> {
    if grown.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = grown
        .iter()
        .map(|(no, grown)| {
            let (running, parked) = (grown.running.map(i64::from), grown.parked.map(i64::from));
            (no, grown.last_seq, to_db(grown.at), running, parked)
        })
        .collect();
    let rows = parameter(serde_json::to_string(&rows))?;
    let numbers = parameter(serde_json::to_string(&grown.keys().collect::<Vec<_>>()))?;
    query.push(
        "UPDATE session
         SET last_seq = change.value ->> 1,
             updated_ms = change.value ->> 2,
             running = coalesce(change.value ->> 3, running),
             parked = coalesce(change.value ->> 4, parked)
         FROM json_each(",
    );
    query.push_bind(rows).push(") AS change WHERE no = change.value ->> 0;");
    // A statement of its own leaves the index alone while the hour is the same. Each commit would otherwise
    // write a page of the index too.
    query.push(
        "UPDATE session SET changed_hour = updated_ms / 3600000 WHERE no IN (SELECT value FROM json_each(",
    );
    query.push_bind(numbers).push(")) AND changed_hour <> updated_ms / 3600000;");
    Ok(())
}

fn push_chunks(
    query: &mut QueryBuilder<Sqlite>,
    chunks: &[(i64, String, i64, String)],
) -> Result<(), sqlx::Error> {
    if chunks.is_empty() {
        return Ok(());
    }
    query.push(
        "INSERT INTO chunk (session_no, step, idx, body)
         SELECT chunk.value ->> 0, chunk.value ->> 1, chunk.value ->> 2, chunk.value ->> 3 FROM json_each(",
    );
    query.push_bind(parameter(serde_json::to_string(chunks))?).push(") AS chunk;");
    Ok(())
}

/// Returns rows as one JSON parameter. So the statement is the same for every number of rows.
fn parameter(rows: serde_json::Result<String>) -> Result<String, sqlx::Error> {
    rows.map_err(|error| sqlx::Error::Encode(error.into()))
}

/// The held leases. Only the writer gives and takes leases, so the table is complete. The database holds the
/// epochs only for the time after a restart.
#[derive(Debug, Default)]
pub(crate) struct SqliteLeaseTable {
    held: HashMap<SessionId, SqliteLeasedSession>,
    /// The streaming answers.
    pub(super) steps: SqliteChunkCounts,
    /// The earlier values of the entries changed by the transaction, in order.
    before: Vec<(SessionId, Option<SqliteLeasedSession>)>,
}

/// A session with a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SqliteLeasedSession {
    pub(crate) no: i64,
    pub(crate) epoch: i64,
    pub(crate) last_seq: Seq,
}

impl SqliteLeaseTable {
    /// Returns whether the session has a valid lease.
    pub(crate) fn is_held(&self, id: &SessionId) -> bool {
        self.held.contains_key(id)
    }

    /// Returns the session, if `lease` is the valid one.
    ///
    /// # Errors
    /// [`StoreError::Fenced`].
    pub(crate) fn check(&self, lease: &Lease) -> Result<SqliteLeasedSession, StoreError> {
        let held = self.held.get(&lease.session_id).filter(|held| to_db(lease.epoch) == held.epoch);
        held.copied().ok_or_else(|| StoreError::Fenced(lease.session_id.clone()))
    }

    pub(crate) fn set(&mut self, id: &SessionId, held: Option<SqliteLeasedSession>) {
        let before = match held {
            Some(held) => self.held.insert(id.clone(), held),
            None => self.held.remove(id),
        };
        self.before.push((id.clone(), before));
    }

    /// Keeps the changes, because the transaction was committed.
    pub(crate) fn commit_changes(&mut self) {
        self.before.clear();
    }

    /// Restores the earlier state, because the transaction failed.
    pub(crate) fn undo(&mut self) {
        // The counts include chunks that were rolled back.
        self.steps.forget();
        // The newest change is undone first, so that an entry with several changes gets its oldest value back.
        for (id, before) in self.before.drain(..).rev() {
            match before {
                Some(held) => self.held.insert(id, held),
                None => self.held.remove(&id),
            };
        }
    }
}
