//! The meaning of PostgreSQL's errors for a caller, and the errors worth a repetition.

use longhaul_core::ids::SessionId;
use longhaul_store::StoreError;

/// The reason for a failed call.
#[derive(Debug)]
pub(crate) enum PostgresOperationError {
    /// The call was refused, and changed nothing.
    Refused(StoreError),
    /// The database failed or cannot be reached. The outcome of the call may be unknown.
    Database(sqlx::Error),
}

impl From<sqlx::Error> for PostgresOperationError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<StoreError> for PostgresOperationError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

pub(crate) fn not_found(id: &SessionId) -> StoreError {
    StoreError::NotFound(format!("session {id}"))
}

/// Returns whether the same call may succeed later: the connection died, the database is starting, or two
/// transactions were in each other's way.
pub(crate) fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::Protocol(_) => true,
        other => code(other).is_some_and(|code| passes(&code)),
    }
}

/// Returns whether the connection can no longer be used.
pub(crate) fn is_connection_lost(error: &sqlx::Error) -> bool {
    match error {
        // Behind an answer that cannot be parsed, it is unknown where the next answer begins.
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
        other => code(other).is_some_and(|code| ends_connection(&code)),
    }
}

/// Reports whether a code ends the connection. By class: 08 connection; 57P0x shutting down, crashed,
/// starting; 25P03 idle in a transaction; 53300 too many connections.
fn ends_connection(code: &str) -> bool {
    code.starts_with("08") || code.starts_with("57P") || matches!(code, "25P03" | "53300")
}

/// Reports whether a later attempt may succeed. Besides the codes of [`ends_connection`]: serialization
/// failure, deadlock, lock not available.
fn passes(code: &str) -> bool {
    ends_connection(code) || matches!(code, "40001" | "40P01" | "55P03")
}

/// Converts the error for a caller.
pub(crate) fn store_error(error: &sqlx::Error) -> StoreError {
    if matches!(error, sqlx::Error::PoolClosed) {
        return StoreError::Closed;
    }
    match code(error).as_deref() {
        Some("53100") => StoreError::Storage(format!("the disk of the database is full ({error})")),
        Some("XX001" | "XX002") => StoreError::Corrupt(error.to_string()),
        Some(code) if passes(code) && !ends_connection(code) => {
            StoreError::Storage(format!("the database is busy: {error}"))
        }
        Some(code) if !ends_connection(code) => StoreError::Storage(error.to_string()),
        // No connection could be made in time, or none was free.
        _ if matches!(error, sqlx::Error::PoolTimedOut) => {
            StoreError::Storage(format!("the database is away, or busy: {error}"))
        }
        _ if is_transient(error) => StoreError::Storage(format!("the database is away: {error}")),
        _ => StoreError::Storage(error.to_string()),
    }
}

fn code(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::{ends_connection, passes};

    #[test]
    fn only_what_may_pass_is_repeated() {
        for code in ["08006", "57P01", "57P02", "57P03", "25P03", "53300"] {
            assert!(ends_connection(code) && passes(code), "{code}");
        }
        for code in ["40001", "40P01", "55P03"] {
            assert!(passes(code) && !ends_connection(code), "{code}");
        }
        // statement timeout, unique violation, disk full, syntax, read-only transaction
        for code in ["57014", "23505", "53100", "42601", "25006"] {
            assert!(!passes(code), "{code}");
        }
    }
}
