//! Sessions in a folder: SQLite, with pictures, files and long outputs beside it.

use std::path::PathBuf;
use std::sync::Arc;

use longhaul_store::{BlobStore, SharedStore, StoreError};
use longhaul_store_sqlite::SqliteStore;

use super::builder::MAX_BLOB_BYTES;
use super::{AgentBuilder, BuildError};

/// The folder of an embedded store.
#[derive(Debug)]
pub(super) struct SqliteFolder(PathBuf);

impl SqliteFolder {
    /// Opens the folder, which is created if missing.
    pub(super) async fn open(self) -> Result<(SharedStore, BlobStore), BuildError> {
        let Self(folder) = self;
        let store: SharedStore = Arc::new(SqliteStore::open(&folder).await?);
        // The command keeps the blobs at the same place, so both can open one folder.
        let blobs = BlobStore::local(&folder.join("blobs"), MAX_BLOB_BYTES)
            .map_err(|error| StoreError::Storage(error.to_string()))?;
        // The store holds the lock on the folder, so the writers of half-written files have ended.
        match blobs.sweep().await {
            Ok(0) => {}
            Ok(swept) => {
                tracing::debug!(swept, "half-written blobs of a process that was killed are removed")
            }
            Err(error) => {
                tracing::warn!("half-written blobs of an ended process could not be removed: {error}")
            }
        }
        Ok((store, blobs))
    }
}

impl AgentBuilder {
    /// Sets the folder that sessions are kept in, with their pictures, files and long outputs. The folder is created if
    /// missing. It belongs to one process at a time, and [`Runtime::close`](crate::Runtime::close) releases it. It must
    /// not be on a network file system. The data folder of the command `longhaul` is such a folder.
    ///
    /// ```no_run
    /// use longhaul::prelude::*;
    ///
    /// # async fn example(builder: AgentBuilder) -> Result<(), Box<dyn std::error::Error>> {
    /// let agent = builder.sqlite("sessions").build().await?;
    /// let id = agent.session().await?.id().clone();
    /// // The next start of the program opens the conversation again.
    /// let session = agent.open(&id).await?;
    /// # Ok(()) }
    /// ```
    pub fn sqlite(self, folder: impl Into<PathBuf>) -> Self {
        self.sqlite_folder(SqliteFolder(folder.into()))
    }
}
