//! Periodic maintenance of a store: expired sessions and blobs that no event names are deleted.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ids::{Millis, SessionId};

use crate::{ReferencedBlobs, StoreError};

/// The maintenance operations of a store, beside [`Store`](crate::Store). Object-safe.
#[async_trait]
pub trait StoreMaintenance: Send + Sync {
    /// All blobs that a log names, or a message that waits, as they are at one moment.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn named_blobs(&self) -> Result<ReferencedBlobs, StoreError>;

    /// Sessions at rest whose log last grew before `before`, the oldest first, at most `limit`. One is not at rest in
    /// which a run is open, a message waits, or a person is waited for, or which somebody has open.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn at_rest_before(&self, before: Millis, limit: usize) -> Result<Vec<SessionId>, StoreError>;

    /// Deletes a session, if it is one of [`StoreMaintenance::at_rest_before`] at that moment. Whether it was.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn delete_at_rest(&self, id: &SessionId, before: Millis) -> Result<bool, StoreError>;

    /// The turn to do the upkeep: of all processes on the store one has it, until it is dropped. `None`: another has.
    /// It saves work; two that do it at once do no harm.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn turn(&self) -> Result<Option<MaintenanceLock>, StoreError>;
}

/// Held by the process whose turn it is.
pub struct MaintenanceLock(
    #[expect(dead_code, reason = "it is there to be dropped")] Option<Box<dyn Any + Send>>,
);

impl MaintenanceLock {
    /// The turn of a process that has the store for itself.
    pub fn alone() -> Self {
        Self(None)
    }

    /// A turn that lasts as long as `held`.
    pub fn holding(held: impl Any + Send) -> Self {
        Self(Some(Box::new(held)))
    }
}

impl fmt::Debug for MaintenanceLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turn")
    }
}

/// Shared access to a store's upkeep.
pub type SharedUpkeep = Arc<dyn StoreMaintenance>;
