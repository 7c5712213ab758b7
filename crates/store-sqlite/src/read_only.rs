//! Opens a data folder for reading beside a writer: nothing is locked, migrated or repaired.

use std::path::{Path, PathBuf};

use longhaul_store::StoreError;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{ConnectOptions, SqliteConnection};

use crate::error::{is_about_surroundings, store_error};
use crate::lock::{SharedFolderLock, check_file, lock_against_writers};
use crate::marker;
use crate::open::{
    BUFFERED_ROWS, FILE_NAME, READERS, check_files, check_version, named, newer, newest_schema,
};

/// The connections of a folder opened for reading only.
pub(crate) struct SqliteReadConnections {
    pub(crate) readers: SqlitePool,
    /// The lock against writers while the file is read without the log.
    pub(crate) free: Option<SharedFolderLock>,
}

/// Opens the database in `folder` for reading.
pub(crate) async fn open(folder: &Path) -> Result<SqliteReadConnections, StoreError> {
    let file = folder.join(FILE_NAME);
    marker::check(folder, &file)?;
    if !file.exists() {
        return Err(StoreError::NotFound(format!("database {}", file.display())));
    }
    check_files(&file)?;
    check_file(folder)?;
    connect(folder, &file).await.map_err(|error| named(error, &file))
}

async fn connect(folder: &Path, file: &Path) -> Result<SqliteReadConnections, StoreError> {
    match readers(options(file)).await {
        Ok(readers) => return checked(SqliteReadConnections { readers, free: None }).await,
        // A WAL with content holds writes that the database file lacks. Without the WAL they would seem never to
        // have been.
        Err(error) if !(is_about_surroundings(&error) && is_whole(file)) => return Err(store_error(&error)),
        Err(error) => {
            tracing::debug!(%error, "the folder cannot be written: the database is read without its log, which is empty");
        }
    }
    // SQLite needs a `-shm` file even to read a WAL database, and cannot make one here. `immutable` needs no such
    // file but does not notice a writer, so a shared lock keeps writers away.
    let free = lock_against_writers(folder).ok_or_else(|| {
        StoreError::Storage("it cannot be read now: a process is just beginning to write".to_owned())
    })?;
    let readers = readers(options(file).immutable(true)).await.map_err(|error| store_error(&error))?;
    checked(SqliteReadConnections { readers, free: Some(free) }).await
}

fn options(file: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
        .read_only(true)
        .pragma("query_only", "ON")
        .row_buffer_size(BUFFERED_ROWS)
        .disable_statement_logging()
}

/// Returns whether the WAL is missing or empty. Then the last process has ended cleanly, and the database file
/// holds everything.
fn is_whole(file: &Path) -> bool {
    let log = PathBuf::from(format!("{}-wal", file.display()));
    std::fs::metadata(log).map_or(true, |log| log.len() == 0)
}

/// Opens connections and reads once, because SQLite opens the files only at the first read.
async fn readers(options: SqliteConnectOptions) -> Result<SqlitePool, sqlx::Error> {
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        // A connection to a file does not go stale, as in `open`.
        .test_before_acquire(false)
        .connect_with(options)
        .await?;
    let read: Result<i64, _> =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_schema").fetch_one(&readers).await;
    match read {
        Ok(_) => Ok(readers),
        Err(error) => {
            readers.close().await;
            Err(error)
        }
    }
}

async fn checked(readable: SqliteReadConnections) -> Result<SqliteReadConnections, StoreError> {
    let check = async {
        let mut db = readable.readers.acquire().await.map_err(|error| store_error(&error))?;
        check_version(&mut db).await?;
        check_schema(&mut db).await
    };
    match check.await {
        Ok(()) => Ok(readable),
        Err(error) => {
            readable.readers.close().await;
            Err(error)
        }
    }
}

async fn check_schema(db: &mut SqliteConnection) -> Result<(), StoreError> {
    let known = newest_schema();
    match schema(db).await.map_err(|error| store_error(&error))? {
        found if found > known => Err(newer(found)),
        found if found < known => Err(StoreError::Outdated(format!(
            "the data folder was written by an older version (its schema is {found}, this version reads {known}): \
             opening it for writing brings it up to date"
        ))),
        _ => Ok(()),
    }
}

/// Returns the newest completed migration, or 0 for none.
pub(crate) async fn schema(db: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let tables: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name = '_sqlx_migrations'")
            .fetch_one(&mut *db)
            .await?;
    // The table is made by the first migration. An empty database has none.
    if tables == 0 {
        return Ok(0);
    }
    sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success")
        .fetch_one(db)
        .await
}
