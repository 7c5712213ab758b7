//! The data folder, only to be read: also beside a chat or a server, where nothing can be written, on a full disk.

use std::sync::Arc;

use longhaul::config::{Config, ModelConfig, ProviderKind};
use longhaul::session::{Runtime, whole_log};
use longhaul_core::history::History;
use longhaul_core::message::Origin;
use longhaul_store::{Blobs, MemoryMemo, MemoryStore, SessionRecord, StoreError};
use longhaul_store_sqlite::SqliteStore;

use crate::agent_file::Loaded;
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
            return Ok(Data {
                store: Arc::new(MemoryStore::new()),
                memo: Arc::new(MemoryMemo::default()),
                blobs,
                nodes: None,
                upkeep: None,
            });
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
    let memo = Arc::new(MemoryMemo::default());
    Ok(Data { store: Arc::new(store), memo, blobs, nodes: None, upkeep: None })
}

/// The session that is meant, and the configured agent to look at it with, on the session's own model unless the
/// command line names one. A server of models or tools that is not there is no obstacle.
///
/// # Errors
/// As [`open`]; no session, or several, are meant.
pub(super) async fn session(place: &Place, meant: &str) -> Outcome<(Runtime, SessionRecord)> {
    let loaded = agent_file::load(place)?;
    let data = open(place, loaded.config.blobs.max_bytes).await?;
    with_agent(place, loaded, data, meant).await
}

/// The same in a folder that is this process's: for what changes a session, but asks no model.
///
/// # Errors
/// As [`data::open`]; no session, or several, are meant.
pub(super) async fn session_to_change(place: &Place, meant: &str) -> Outcome<(Runtime, SessionRecord)> {
    let loaded = agent_file::load(place)?;
    let data = data::open(place, loaded.config.blobs.max_bytes).await?;
    with_agent(place, loaded, data, meant).await
}

async fn with_agent(
    place: &Place,
    mut loaded: Loaded,
    data: Data,
    meant: &str,
) -> Outcome<(Runtime, SessionRecord)> {
    let record = lookup::session(place, &data.store, meant).await?;
    let history = History::fold(&whole_log(&data.store, &record.id).await?)?;
    if let Some(own) = history.model().filter(|_| place.overrides.model.is_none()) {
        talk_to(place, &mut loaded.config.model, own);
    }
    let mut agent = assemble::agent(place, &loaded.config, Asking::Nobody, Missing::Told).await?;
    let is_scripted = loaded.config.model.provider == ProviderKind::Scripted;
    if is_scripted && history.window().is_some() && assemble::declared(&loaded.config).window.is_none() {
        // No server says it, and each script has its own: that of the newest call holds.
        agent.limits.window = None;
    }
    Ok((Runtime::new(agent, data.store, data.blobs), record))
}

/// Has a configuration name a session's model: who counts, and what earlier sessions have shown, goes by its name. A
/// log does not say where the server is: that of another provider is looked for where that provider usually is, unless
/// it would not answer for want of a key.
fn talk_to(place: &Place, model: &mut ModelConfig, own: &Origin) {
    if model.name != own.model {
        // Declared beside the name of another one.
        (model.context_window, model.max_output_tokens) = (None, None);
        model.name.clone_from(&own.model);
    }
    let overrides = &place.overrides;
    let named = overrides.provider.is_some() || overrides.base_url.is_some();
    let provider = ProviderKind::from_name(&own.provider).filter(|provider| *provider != model.provider);
    let Some(provider) = provider.filter(|_| !named) else { return };
    let other = ModelConfig { provider, base_url: provider.base_url().to_owned(), ..model.clone() };
    if assemble::check_key(place, &other).is_ok() {
        *model = other;
    }
}

/// The data folder for a command that needs no configuration.
///
/// # Errors
/// As [`open`].
pub(super) async fn usual(place: &Place) -> Outcome<Data> {
    open(place, Config::default().blobs.max_bytes).await
}
