//! Opening a database: connections, required settings, migrations.

use std::str::FromStr;
use std::time::{Duration, Instant};

use longhaul_store::StoreError;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool};

use crate::error::{is_transient, store_error};
use crate::options::PostgresOptions;
use crate::trust::ConnectionTrust;

static MIGRATOR: Migrator = sqlx::migrate!();

/// The oldest tested version of PostgreSQL, as a server version number.
const OLDEST: i32 = 150_000;

/// The maximum time of one statement.
const STATEMENT_TIMEOUT: &str = "30s";

/// The maximum wait of a statement for a lock.
const LOCK_TIMEOUT: &str = "10s";

/// The maximum wait of a claim for the lock of a session. Then the claim frees its connection and tries again.
const CLAIM_LOCK_TIMEOUT: &str = "50ms";

/// The maximum wait of an open transaction for this process. A stopped process must not keep others from a
/// session. Shorter than a lease.
const IDLE_IN_TRANSACTION_TIMEOUT: &str = "5s";

/// The maximum wait for a connection before the call is repeated.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum wait of a starting node for the migration by another node.
const MIGRATION_TIMEOUT: &str = "120s";

/// The connections of a node.
pub(crate) struct PostgresConnections {
    /// The pool for reading and writing.
    pub(crate) work: PgPool,
    /// The pool for claims of sessions. The sessions of a dead node must not wait behind everything else on
    /// this node.
    pub(crate) claims: PgPool,
    /// The pool for the lease. No other call uses the pool, so a renewal never waits.
    pub(crate) lease: PgPool,
    /// The pool for sending news, and for looking for missed news.
    pub(crate) news: PgPool,
    /// The pool for hearing news.
    pub(crate) ear: PgPool,
    /// The notification channel of the database and schema.
    pub(crate) channel: String,
    /// The trust in connections for work, for claims and for sending news: stale ones are not used.
    pub(crate) trust: ConnectionTrust,
}

/// Connects to the database at `url` and brings the schema up to date.
pub(crate) async fn open(url: &str, options: &PostgresOptions) -> Result<PostgresConnections, StoreError> {
    if let Some(problem) = options.problem() {
        return Err(StoreError::Storage(problem.to_owned()));
    }
    let (connect, begun) = (connect_options(url)?, Instant::now());
    let mut first = connect.connect().await.map_err(|error| unconnected(&error))?;
    check(&mut first).await?;
    migrate(connect.clone()).await?;
    let channel = channel(&mut first).await?;
    if let Err(error) = first.close().await {
        tracing::debug!(%error, "a connection was not closed cleanly");
    }
    tracing::info!(
        host = connect.get_host(),
        database = connect.get_database(),
        channel,
        connections = options.connections,
        ttl = ?options.ttl,
        elapsed_ms = begun.elapsed().as_millis() as u64,
        "the database is open and its schema is up to date"
    );
    let trust = ConnectionTrust::default();
    // A claim that waits for a stopped node's lock would hold one of the two connections for ten seconds.
    let impatient = connect.clone().options([("lock_timeout", CLAIM_LOCK_TIMEOUT)]);
    Ok(PostgresConnections {
        work: trusted_pool_options(options.connections, &trust).connect_lazy_with(connect.clone()),
        claims: trusted_pool_options(2, &trust).connect_lazy_with(impatient),
        // The lease and the ear need no trust: a renewal replaces its connection after a failure, and the
        // listener connects again with each change of the node's status.
        lease: pool_options(1).connect_lazy_with(connect.clone()),
        news: trusted_pool_options(2, &trust).connect_lazy_with(connect.clone()),
        ear: pool_options(1).connect_lazy_with(connect),
        channel,
        trust,
    })
}

fn pool_options(size: u32) -> PgPoolOptions {
    // The pool's own test has no time limit: a dead connection would block the caller there.
    PgPoolOptions::new().max_connections(size).acquire_timeout(ACQUIRE_TIMEOUT).test_before_acquire(false)
}

/// Returns the options of a pool whose connections are all covered by `trust`.
fn trusted_pool_options(size: u32, trust: &ConnectionTrust) -> PgPoolOptions {
    let trust = trust.clone();
    pool_options(size).before_acquire(move |_, known| {
        let covered = trust.covers(known.age);
        Box::pin(async move { Ok(covered) })
    })
}

/// Returns the reason for a missing connection. The message of PostgreSQL names the refused user, password or
/// database.
fn unconnected(error: &sqlx::Error) -> StoreError {
    match error.as_database_error() {
        Some(refused) if !is_transient(error) => {
            StoreError::Storage(format!("PostgreSQL refuses the connection: {}", refused.message()))
        }
        _ => StoreError::Storage(format!("the database is away: {error}")),
    }
}

fn connect_options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url).map_err(|error| {
        StoreError::Storage(format!("the address of the database cannot be read: {error}"))
    })?;
    if options.get_database().is_none() {
        let why = "the address of the database names none: postgres://USER@HOST/DATABASE";
        return Err(StoreError::Storage(why.to_owned()));
    }
    Ok(options
        .application_name("longhaul")
        .options([
            ("statement_timeout", STATEMENT_TIMEOUT),
            ("lock_timeout", LOCK_TIMEOUT),
            ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION_TIMEOUT),
        ])
        .disable_statement_logging())
}

/// Returns the notification channel of the schema. Channels belong to the whole database.
async fn channel(db: &mut PgConnection) -> Result<String, StoreError> {
    let schema = sqlx::query_scalar!(r#"SELECT current_schema()::regnamespace::oid::bigint AS "oid!""#)
        .fetch_one(db)
        .await
        .map_err(|error| store_error(&error))?;
    Ok(format!("longhaul_{schema}"))
}

async fn setting(db: &mut PgConnection, name: &str) -> Result<String, StoreError> {
    let value = sqlx::query_scalar!(r#"SELECT current_setting($1) AS "value!""#, name).fetch_one(db).await;
    value.map_err(|error| store_error(&error))
}

/// Refuses a database that would lose acknowledged writes, or that cannot hold every text.
async fn check(db: &mut PgConnection) -> Result<(), StoreError> {
    let version = setting(db, "server_version_num").await?;
    if version.parse::<i32>().unwrap_or(0) < OLDEST {
        let found = setting(db, "server_version").await?;
        let why = format!("PostgreSQL {} or newer is needed, this is {found}", OLDEST / 10_000);
        return Err(StoreError::Storage(why));
    }
    let encoding = setting(db, "server_encoding").await?;
    if encoding != "UTF8" {
        let why = format!("the database must have the encoding UTF8, this one has {encoding}");
        return Err(StoreError::Storage(why));
    }
    let commit = setting(db, "synchronous_commit").await?;
    // `off` acknowledges before the flush. `local` and `remote_write` do not wait until a standby has flushed.
    if !matches!(commit.as_str(), "on" | "remote_apply") {
        let why = format!(
            "synchronous_commit must be on, it is {commit}: the database would acknowledge what it may lose"
        );
        return Err(StoreError::Storage(why));
    }
    if setting(db, "fsync").await? != "on" {
        tracing::warn!("the database runs with fsync off: after a power cut, everything in it may be lost");
    }
    Ok(())
}

/// Migrates the database on one node at a time, under an advisory lock. The other nodes wait for the lock.
async fn migrate(connect: PgConnectOptions) -> Result<(), StoreError> {
    // A migration of large tables takes longer than a statement of the store may.
    let patient = [("statement_timeout", MIGRATION_TIMEOUT), ("lock_timeout", MIGRATION_TIMEOUT)];
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(connect.options(patient));
    let migrated = MIGRATOR.run(&pool).await;
    pool.close().await;
    migrated.map_err(|error| match error {
        // sqlx calls a migration "missing" if it was done and this program does not know it.
        MigrateError::VersionMissing(version) | MigrateError::VersionTooNew(version, _) => newer(version),
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => store_error(&error),
        other => StoreError::Storage(format!("the schema of the database is not as expected: {other}")),
    })
}

fn newer(schema: i64) -> StoreError {
    let newest = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or_default();
    StoreError::Storage(format!(
        "the database was written by a newer version (its schema {schema} is unknown here; this version knows up to \
         {newest})"
    ))
}
