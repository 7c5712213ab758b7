//! The folder of an embedded store without the feature `sqlite`: an empty type, because there is none.

use longhaul_store::{BlobStore, SharedStore};

use super::BuildError;

/// The folder, of which no value exists.
#[derive(Debug)]
pub(super) enum SqliteFolder {}

impl SqliteFolder {
    pub(super) async fn open(self) -> Result<(SharedStore, BlobStore), BuildError> {
        match self {}
    }
}
