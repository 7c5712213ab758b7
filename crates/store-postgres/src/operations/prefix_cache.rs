//! Reads and writes entries of the prefix cache, and evicts the least recently used.

use async_trait::async_trait;
use longhaul_store::{PrefixCacheKey, PrefixCacheLimits};
use sqlx::{Connection, PgConnection};

use crate::error::PostgresOperationError;
use crate::operation::PostgresOperation;
use crate::text::{count_from_db, limit_to_db};

/// The query for the entries of keys. Its rows are the index and the body of each known key, in order.
pub(crate) struct PostgresPrefixCacheQuery {
    pub(crate) keys: Vec<Vec<u8>>,
}

#[async_trait]
impl PostgresOperation for PostgresPrefixCacheQuery {
    type Answer = Vec<(usize, String)>;

    async fn run_once(
        &self,
        db: &mut PgConnection,
        _again: bool,
    ) -> Result<Vec<(usize, String)>, PostgresOperationError> {
        let rows = sqlx::query!(
            r#"SELECT asked.place AS "place!", memo.body
               FROM unnest($1::bytea[]) WITH ORDINALITY AS asked (key, place)
               JOIN memo ON memo.key = asked.key ORDER BY asked.place"#,
            &self.keys
        )
        .fetch_all(db)
        .await?;
        Ok(rows.into_iter().map(|row| (count_from_db(row.place - 1), row.body)).collect())
    }
}

/// [`PrefixCache::put`](longhaul_store::PrefixCache::put), with the found keys since the last put.
pub(crate) struct PostgresPrefixCacheInsert {
    /// The found keys, the oldest first.
    pub(crate) found: Vec<PrefixCacheKey>,
    /// The entry to store. `None` if only the found keys are recorded.
    pub(crate) entry: Option<(PrefixCacheKey, String)>,
    pub(crate) limits: PrefixCacheLimits,
}

#[async_trait]
impl PostgresOperation for PostgresPrefixCacheInsert {
    type Answer = ();

    async fn run_once(&self, db: &mut PgConnection, _again: bool) -> Result<(), PostgresOperationError> {
        let mut all = db.begin().await?;
        lock(&mut all).await?;
        self.touch(&mut all).await?;
        if let Some((key, body)) = &self.entry {
            insert(&mut all, key, body).await?;
            self.shrink(&mut all).await?;
        }
        all.commit().await?;
        Ok(())
    }
}

/// Locks the cache for one writing node. Two writing nodes at once would each miss the other's entry and exceed
/// the limits together.
pub(crate) async fn lock(db: &mut PgConnection) -> Result<(), sqlx::Error> {
    // Advisory locks belong to the whole database. The table's oid makes this one a lock of its schema.
    sqlx::query!(r#"SELECT pg_advisory_xact_lock('memo'::regclass::oid::bigint) AS "locked: ()""#)
        .fetch_one(db)
        .await?;
    Ok(())
}

/// Remembers an entry as the most recently used.
pub(crate) async fn insert(
    db: &mut PgConnection,
    key: &PrefixCacheKey,
    body: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "INSERT INTO memo (key, used, bytes, body)
         VALUES ($1, (SELECT coalesce(max(used), 0) + 1 FROM memo), $2, $3)
         ON CONFLICT (key) DO UPDATE SET used = excluded.used, bytes = excluded.bytes, body = excluded.body",
        key.as_bytes().as_slice(),
        limit_to_db(body.len()),
        body
    )
    .execute(db)
    .await?;
    Ok(())
}

impl PostgresPrefixCacheInsert {
    async fn touch(&self, db: &mut PgConnection) -> Result<(), sqlx::Error> {
        if self.found.is_empty() {
            return Ok(());
        }
        // A key may be noted several times. Its last use counts, hence `max(place)`.
        let found: Vec<Vec<u8>> = self.found.iter().map(|key| key.as_bytes().to_vec()).collect();
        sqlx::query!(
            "UPDATE memo SET used = newest.used + found.place
             FROM (SELECT coalesce(max(used), 0) AS used FROM memo) AS newest,
                  (SELECT key, max(place) AS place
                   FROM unnest($1::bytea[]) WITH ORDINALITY AS one (key, place) GROUP BY key) AS found
             WHERE memo.key = found.key",
            &found
        )
        .execute(db)
        .await?;
        Ok(())
    }

    async fn shrink(&self, db: &mut PgConnection) -> Result<(), sqlx::Error> {
        sqlx::query!(
            "DELETE FROM memo WHERE no IN (
                 SELECT no FROM (
                     SELECT no, row_number() OVER newer AS place, sum(bytes) OVER newer AS total FROM memo
                     WINDOW newer AS (ORDER BY used DESC, no DESC ROWS UNBOUNDED PRECEDING)
                 ) AS ranked WHERE place > $1 OR total > $2::bigint
             )",
            limit_to_db(self.limits.entries),
            limit_to_db(self.limits.bytes)
        )
        .execute(db)
        .await?;
        Ok(())
    }
}
