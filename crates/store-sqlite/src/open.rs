//! Opening a data folder: lock, connections, version check, migrations.

use std::io;
use std::path::Path;
use std::time::Instant;

use longhaul_store::StoreError;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool};

use crate::error::store_error;
use crate::lock::{ExclusiveFolderLock, check_regular};
use crate::read_only::schema;
use crate::{durable, marker};

pub(crate) static MIGRATOR: Migrator = sqlx::migrate!();

pub(crate) const FILE_NAME: &str = "longhaul.db";

/// The first version whose WAL survives a race of a checkpoint with a writer.
const OLDEST_SQLITE: [u32; 3] = [3, 51, 3];

/// The page size of a new database, in bytes. A transaction writes each touched page as a whole, for a few
/// hundred new bytes. With pages of 1 KiB a short message writes half as much as with 2 KiB. Reading 50 MB takes
/// 65 ms instead of 35 ms, a small part of the decoding time (docs/decisions/0051). An existing database keeps
/// the old page size.
const PAGE_BYTES: u32 = 1024;

/// The number of WAL pages before SQLite moves the pages into the database: 2 MiB.
const CHECKPOINT_PAGES: &str = "2048";

/// The maximum size of the WAL after a checkpoint, in bytes.
const WAL_LIMIT_BYTES: &str = "67108864";

pub(crate) const READERS: u32 = 3;

/// The maximum lead of a reader's thread over the caller, in rows.
pub(crate) const BUFFERED_ROWS: usize = 256;

/// The number of prepared statements per connection: two for each possible number of events in one `INSERT` of
/// the writer, and room for all other statements.
const CACHED_STATEMENTS: usize = 256;

/// The connections of a folder opened for writing.
pub(crate) struct SqliteConnections {
    pub(crate) lock: ExclusiveFolderLock,
    pub(crate) writer: SqliteConnection,
    pub(crate) readers: SqlitePool,
}

/// Opens `folder`, creates missing files and brings an older schema up to date.
pub(crate) async fn open(folder: &Path) -> Result<SqliteConnections, StoreError> {
    create(folder).map_err(|error| StoreError::Storage(format!("{}: {error}", folder.display())))?;
    // Nothing in the folder may be read before the lock is held: another process may be writing there.
    let lock = ExclusiveFolderLock::take(folder).await?;
    let file = folder.join(FILE_NAME);
    check_files(&file)?;
    marker::check(folder, &file)?;
    durable::prepare(folder, &file).await.map_err(|error| StoreError::Storage(error.to_string()))?;
    let begun = Instant::now();
    let (writer, readers) = connect(&file).await.map_err(|error| named(error, &file))?;
    tracing::info!(
        database = %file.display(),
        bytes = std::fs::metadata(&file).map_or(0, |known| known.len()),
        schema = newest_schema(),
        elapsed_ms = begun.elapsed().as_millis() as u64,
        "the database is open and its schema is up to date"
    );
    // The marker comes last. A crash before it leaves a folder whose next start is a first start.
    marker::set(folder);
    Ok(SqliteConnections { lock, writer, readers })
}

/// Refuses a pipe or a folder at the database path: SQLite would wait for a pipe. A link to a file is allowed.
///
/// # Errors
/// [`StoreError::Storage`].
pub(crate) fn check_files(database: &Path) -> Result<(), StoreError> {
    for ending in ["", "-wal", "-shm"] {
        let mut path = database.as_os_str().to_owned();
        path.push(ending);
        let known = match std::fs::metadata(&path) {
            Ok(known) => check_regular(&known),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        known.map_err(|error| StoreError::Storage(format!("{}: {error}", Path::new(&path).display())))?;
    }
    Ok(())
}

async fn connect(file: &Path) -> Result<(SqliteConnection, SqlitePool), StoreError> {
    let options = options(file);
    let mut writer =
        options.clone().create_if_missing(true).connect().await.map_err(|error| store_error(&error))?;
    // The version comes before the migration, because an SQLite that may corrupt its WAL must not write.
    check_version(&mut writer).await?;
    // Migrations come before the leases: a new database has no table of sessions yet.
    migrate(&mut writer).await?;
    void_leases(&mut writer).await?;
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        // A connection to a file does not go stale. A test would wake the connection's thread once more for each read.
        .test_before_acquire(false)
        // All writes go through the one writer. A reader that writes by mistake fails at once instead of waiting for
        // the writer's lock.
        .connect_with(options.pragma("query_only", "ON").row_buffer_size(BUFFERED_ROWS))
        .await
        .map_err(|error| store_error(&error))?;
    Ok((writer, readers))
}

/// Adds the file to an error.
pub(crate) fn named(error: StoreError, file: &Path) -> StoreError {
    let file = file.display();
    match error {
        StoreError::Corrupt(why) => StoreError::Corrupt(format!("{file}: {why}")),
        StoreError::Storage(why) => StoreError::Storage(format!("{file}: {why}")),
        other => other,
    }
}

#[cfg(unix)]
fn create(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    // Other users of the machine must not read the conversations.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn create(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)
}

fn options(file: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
        .page_size(PAGE_BYTES)
        .journal_mode(SqliteJournalMode::Wal)
        // `NORMAL` does not flush a commit in WAL mode: a power cut could then lose events that were acknowledged.
        .synchronous(SqliteSynchronous::Full)
        // Each connection has to ask for foreign keys. Without them a deleted session would leave its requests
        // and blob references behind.
        .foreign_keys(true)
        // macOS: flush the drive's cache too. Elsewhere these do nothing.
        .pragma("fullfsync", "ON")
        .pragma("checkpoint_fullfsync", "ON")
        .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        // SQLite reuses the WAL and never shortens it by itself. Without the limit, one large import would occupy its
        // size on the disk for ever.
        .pragma("journal_size_limit", WAL_LIMIT_BYTES)
        .statement_cache_capacity(CACHED_STATEMENTS)
        .disable_statement_logging()
}

pub(crate) async fn check_version(db: &mut SqliteConnection) -> Result<(), StoreError> {
    let version: String = sqlx::query_scalar("SELECT sqlite_version()")
        .fetch_one(db)
        .await
        .map_err(|error| store_error(&error))?;
    if is_new_enough(&version) {
        return Ok(());
    }
    let [major, minor, patch] = OLDEST_SQLITE;
    Err(StoreError::Storage(format!("SQLite {major}.{minor}.{patch} or newer is needed, this is {version}")))
}

fn is_new_enough(version: &str) -> bool {
    let numbers: Vec<u32> = version.split('.').map(|number| number.parse().unwrap_or(0)).collect();
    // A slice is less than a longer one that it begins: `3.51` counts as older than `3.51.3`.
    numbers.as_slice() >= OLDEST_SQLITE.as_slice()
}

/// Runs all migrations in one transaction: each by itself would be flushed twice.
async fn migrate(db: &mut SqliteConnection) -> Result<(), StoreError> {
    let (begun, before) = (Instant::now(), schema(db).await.map_err(|error| store_error(&error))?);
    let mut all = db.begin().await.map_err(|error| store_error(&error))?;
    MIGRATOR.run(&mut *all).await.map_err(|error| match error {
        // sqlx calls a migration "missing" if it was done and this program does not know it.
        MigrateError::VersionMissing(version) | MigrateError::VersionTooNew(version, _) => newer(version),
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => store_error(&error),
        other => StoreError::Storage(format!("the data folder's schema is not as expected: {other}")),
    })?;
    all.commit().await.map_err(|error| store_error(&error))?;
    let (to, elapsed_ms) = (newest_schema(), begun.elapsed().as_millis() as u64);
    match before {
        0 => tracing::debug!(to, elapsed_ms, "the tables of a new database were made"),
        from if from < to => tracing::info!(from, to, elapsed_ms, "an older schema was brought up to date"),
        _ => {}
    }
    Ok(())
}

/// Returns the newest schema known to the program.
pub(crate) fn newest_schema() -> i64 {
    MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or_default()
}

pub(crate) fn newer(schema: i64) -> StoreError {
    StoreError::Storage(format!(
        "the data folder was written by a newer version (its schema {schema} is unknown here; this version knows \
         up to {})",
        newest_schema()
    ))
}

/// Voids all leases. Their holders have ended, because the present process has the lock.
async fn void_leases(db: &mut SqliteConnection) -> Result<(), StoreError> {
    let voided = sqlx::query!("UPDATE session SET owner = NULL WHERE owner IS NOT NULL")
        .execute(db)
        .await
        .map_err(|error| store_error(&error))?;
    if voided.rows_affected() > 0 {
        tracing::info!(
            sessions = voided.rows_affected(),
            "the last process ended without releasing its sessions: their leases are void"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sqlx::Row;

    use super::{is_new_enough, open};

    #[tokio::test]
    async fn connections_are_as_durable_as_promised() {
        let folder = tempfile::tempdir().unwrap();
        let mut opened = open(folder.path()).await.unwrap();
        let mut setting = async |pragma: &'static str| -> String {
            // Not every pragma has a table of its own.
            let row = sqlx::query(sqlx::AssertSqlSafe(format!("PRAGMA {pragma}")));
            let row = row.fetch_one(&mut opened.writer).await.unwrap();
            row.try_get::<String, _>(0)
                .or_else(|_| row.try_get::<i64, _>(0).map(|it| it.to_string()))
                .unwrap()
        };
        assert_eq!(setting("journal_mode").await, "wal");
        assert_eq!(setting("synchronous").await, "2", "FULL");
        assert_eq!(setting("page_size").await, "1024");
        assert_eq!(setting("wal_autocheckpoint").await, "2048");
        assert_eq!(setting("foreign_keys").await, "1");
        assert_eq!(setting("fullfsync").await, "1");
        assert_eq!(setting("checkpoint_fullfsync").await, "1");
        let written = sqlx::query("DELETE FROM session").execute(&opened.readers).await;
        assert!(written.is_err(), "readers only read");
    }

    #[tokio::test]
    async fn no_query_reads_a_whole_table_to_sort_or_search_it() {
        let folder = tempfile::tempdir().unwrap();
        let opened = open(folder.path()).await.unwrap();
        for (query, index) in [
            ("SELECT * FROM session ORDER BY changed_hour DESC", "session_changed"),
            ("SELECT * FROM inbox WHERE id > 1 AND id <= 2 AND state = 0 ORDER BY id", "PRIMARY KEY"),
            ("SELECT * FROM inbox WHERE client_key = 'a' AND id >> 32 = 1", "inbox_key"),
            ("SELECT * FROM event WHERE id > 1 AND id <= 2 ORDER BY id LIMIT 3", "PRIMARY KEY"),
        ] {
            let plan: Vec<(i64, i64, i64, String)> =
                sqlx::query_as(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {query}")))
                    .fetch_all(&opened.readers)
                    .await
                    .unwrap();
            let steps: Vec<&str> = plan.iter().map(|(_, _, _, step)| step.as_str()).collect();
            assert!(steps.len() == 1 && steps[0].contains(index), "{query}: {steps:?}");
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        for version in ["3.51.3", "3.51.10", "3.52.0", "4.0.0"] {
            assert!(is_new_enough(version), "{version}");
        }
        for version in ["3.51.2", "3.9.9", "2.99.99", "3.51", "nonsense"] {
            assert!(!is_new_enough(version), "{version}");
        }
    }
}
