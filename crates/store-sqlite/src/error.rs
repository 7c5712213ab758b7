//! The meaning of SQLite's errors for a caller, and for the store itself.

use longhaul_store::StoreError;

/// The reason for a failed write.
#[derive(Debug)]
pub(crate) enum SqliteWriteError {
    /// The write was refused before any change. Its neighbours in the transaction are not concerned.
    Refused(StoreError),
    /// The database failed; the transaction is lost.
    Database(sqlx::Error),
}

/// The consequence of a database error for later writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqliteErrorSeverity {
    /// The write failed, but others need not fail.
    Passing,
    /// There is no room on the disk: writes fail until there is.
    Full,
    /// The content of the disk is unknown: nothing may be written any more.
    Fatal,
}

impl SqliteWriteError {
    /// Creates a refusal that no caller caused.
    pub(crate) fn storage(why: impl Into<String>) -> Self {
        Self::Refused(StoreError::Storage(why.into()))
    }
}

impl From<sqlx::Error> for SqliteWriteError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<StoreError> for SqliteWriteError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<serde_json::Error> for SqliteWriteError {
    fn from(error: serde_json::Error) -> Self {
        Self::storage(error.to_string())
    }
}

// Primary result codes, from <https://www.sqlite.org/rescode.html>.
const SQLITE_READONLY: i32 = 8;
const SQLITE_IOERR: i32 = 10;
const SQLITE_CORRUPT: i32 = 11;
const SQLITE_FULL: i32 = 13;
const SQLITE_CANTOPEN: i32 = 14;
const SQLITE_NOTADB: i32 = 26;

/// Returns the consequence of an error of a write.
pub(crate) fn severity(error: &sqlx::Error) -> SqliteErrorSeverity {
    match error {
        // A connection's thread that ended leaves unknown whether its last transaction was committed.
        sqlx::Error::WorkerCrashed | sqlx::Error::Io(_) => SqliteErrorSeverity::Fatal,
        // An error without a code comes from sqlx and not from the disk, for example a value that cannot be
        // encoded.
        other => code(other).map_or(SqliteErrorSeverity::Passing, severity_of_code),
    }
}

/// Returns the consequence of a result code. Extended result codes have the primary one in their lowest byte.
fn severity_of_code(code: i32) -> SqliteErrorSeverity {
    match code & 0xff {
        SQLITE_IOERR | SQLITE_CORRUPT | SQLITE_NOTADB => SqliteErrorSeverity::Fatal,
        SQLITE_FULL => SqliteErrorSeverity::Full,
        _ => SqliteErrorSeverity::Passing,
    }
}

/// Converts the error for a caller.
pub(crate) fn store_error(error: &sqlx::Error) -> StoreError {
    if matches!(error, sqlx::Error::PoolClosed) {
        return StoreError::Closed;
    }
    match code(error).map(|code| code & 0xff) {
        Some(SQLITE_FULL) => StoreError::Storage(format!("the disk is full ({error})")),
        // SQLite's own text has a number and no reason, so the usual reason stands here.
        Some(SQLITE_CANTOPEN) => StoreError::Storage(
            "the file cannot be opened: check who may read and write it and its folder".to_owned(),
        ),
        Some(SQLITE_CORRUPT | SQLITE_NOTADB) => StoreError::Corrupt(error.to_string()),
        _ => StoreError::Storage(error.to_string()),
    }
}

/// Returns whether the error may be about the files beside the database. The database itself may be sound then.
pub(crate) fn is_about_surroundings(error: &sqlx::Error) -> bool {
    let code = code(error).map(|code| code & 0xff);
    // SQLite reports a `-shm` file that it cannot create, enlarge or map with any of these codes. Which one
    // depends on the system call that fails.
    matches!(code, Some(SQLITE_READONLY | SQLITE_IOERR | SQLITE_FULL | SQLITE_CANTOPEN))
}

fn code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{SqliteErrorSeverity, severity_of_code};

    #[test]
    fn only_errors_that_leave_the_disk_unknown_are_fatal() {
        // SQLITE_IOERR_FSYNC, SQLITE_IOERR_WRITE, SQLITE_CORRUPT, SQLITE_NOTADB
        for code in [1034, 778, 11, 26] {
            assert_eq!(severity_of_code(code), SqliteErrorSeverity::Fatal, "{code}");
        }
        // SQLITE_FULL
        assert_eq!(severity_of_code(13), SqliteErrorSeverity::Full);
        // SQLITE_CONSTRAINT_UNIQUE, SQLITE_TOOBIG, SQLITE_BUSY, SQLITE_READONLY
        for code in [2067, 18, 5, 8] {
            assert_eq!(severity_of_code(code), SqliteErrorSeverity::Passing, "{code}");
        }
    }
}
