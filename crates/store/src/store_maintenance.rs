//! Periodic maintenance of a store: expired sessions and unnamed blobs are deleted.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ids::{Millis, SessionId};

use crate::{ReferencedBlobs, StoreError};

/// The maintenance operations of a store, beside [`Store`](crate::Store). Object-safe.
#[async_trait]
pub trait StoreMaintenance: Send + Sync {
    /// Returns all blobs named by a log or a waiting message at one moment.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn named_blobs(&self) -> Result<ReferencedBlobs, StoreError>;

    /// Returns sessions at rest whose log last grew before `before`, the oldest first, at most `limit`. A
    /// session is not at rest if a run is open, a message waits, a person is waited for, or a process has the
    /// session open.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn at_rest_before(&self, before: Millis, limit: usize) -> Result<Vec<SessionId>, StoreError>;

    /// Deletes a session if [`StoreMaintenance::at_rest_before`] would return the session now. Returns `true` if
    /// the session was deleted.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn delete_at_rest(&self, id: &SessionId, before: Millis) -> Result<bool, StoreError>;

    /// Takes the lock for maintenance. One process on the store has the lock until the drop; `None` if another
    /// process has the lock. The lock only saves work: two processes at once do no harm.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn turn(&self) -> Result<Option<MaintenanceLock>, StoreError>;
}

/// The lock of the maintaining process.
pub struct MaintenanceLock(
    #[expect(dead_code, reason = "it is there to be dropped")] Option<Box<dyn Any + Send>>,
);

impl MaintenanceLock {
    /// Creates the lock of a process alone on the store.
    pub fn unshared() -> Self {
        Self(None)
    }

    /// Creates a lock with the lifetime of `held`.
    pub fn with_guard(held: impl Any + Send) -> Self {
        Self(Some(Box::new(held)))
    }
}

impl fmt::Debug for MaintenanceLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MaintenanceLock")
    }
}

/// Shared access to a store's upkeep.
pub type SharedUpkeep = Arc<dyn StoreMaintenance>;

#[cfg(test)]
mod tests {
    use super::MaintenanceLock;

    #[test]
    fn a_lock_names_its_type_in_debug_output() {
        assert_eq!(format!("{:?}", MaintenanceLock::unshared()), "MaintenanceLock");
    }
}
