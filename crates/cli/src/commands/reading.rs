//! The data folder, only to be read: also beside a chat or a server, where nothing can be written, on a full disk.

use std::sync::Arc;

use longhaul::config::Config;
use longhaul::session::Runtime;
use longhaul_store::{Blobs, MemoryStore, SessionRecord, StoreError};
use longhaul_store_sqlite::SqliteStore;

use crate::assemble::{self, Asking, Missing};
use crate::data::{self, Data};
use crate::failure::{Failure, Outcome};
use crate::place::Place;
use crate::{agent_file, lookup};

/// Opens what there is. A folder that does not exist holds no session, and is not made.
///
/// # Errors
/// The folder cannot be read, or a newer version wrote it.
pub(super) async fn open(place: &Place, max_blob_bytes: u64) -> Outcome<Data> {
    let folder = &place.data_dir;
    let store = match SqliteStore::open_to_read(folder).await {
        Ok(store) => store,
        Err(StoreError::NotFound(_)) => {
            let blobs = Blobs::in_memory(max_blob_bytes);
            return Ok(Data { store: Arc::new(MemoryStore::new()), blobs });
        }
        // Nobody of this version has it: it is brought up to date on the way.
        Err(StoreError::Outdated(_)) => return data::open(place, max_blob_bytes).await,
        Err(error) => return Err(Failure::from(error)),
    };
    let folder = folder.join("blobs");
    let blobs = match folder.is_dir() {
        true => Blobs::local(&folder, max_blob_bytes)?,
        false => Blobs::in_memory(max_blob_bytes),
    };
    Ok(Data { store: Arc::new(store), blobs })
}

/// The session that is meant, and the configured agent to look at it with. A server of models or tools that is not
/// there is no obstacle.
///
/// # Errors
/// As [`open`]; no session, or several, are meant.
pub(super) async fn session(place: &Place, meant: &str) -> Outcome<(Runtime, SessionRecord)> {
    let loaded = agent_file::load(place)?;
    let data = open(place, loaded.config.blobs.max_bytes).await?;
    let record = lookup::session(&data.store, meant).await?;
    let agent = assemble::agent(place, &loaded.config, Asking::Nobody, Missing::Told).await?;
    Ok((Runtime::new(agent, data.store, data.blobs), record))
}

/// The data folder for a command that needs no configuration.
///
/// # Errors
/// As [`open`].
pub(super) async fn usual(place: &Place) -> Outcome<Data> {
    open(place, Config::default().blobs.max_bytes).await
}
