//! Read access to the data folder. It also works beside a chat or a server, without write permission, and on a
//! full disk.

use std::sync::Arc;

use longhaul::config::{AgentConfig, ModelConfig, ProviderKind};
use longhaul::config_agent::{self, McpFailurePolicy};
use longhaul::session::{Runtime, whole_log};
use longhaul_core::history::History;
use longhaul_core::message::ModelOrigin;
use longhaul_store::{BlobStore, MemoryPrefixCache, MemoryStore, SessionRecord, StoreError};
use longhaul_store_sqlite::SqliteStore;

use crate::agent_file::ResolvedConfig;
use crate::assemble::{self, ToolApprovalMode};
use crate::data::{self, DataStores};
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, Outcome};
use crate::{agent_file, session_lookup};

/// Opens the data folder for reading. A missing folder holds no session, and is not made.
///
/// # Errors
/// The folder cannot be read, or a newer version wrote it.
pub(super) async fn open(place: &CliEnvironment, max_blob_bytes: u64) -> Outcome<DataStores> {
    let folder = &place.data_dir;
    data::check_readable(folder)?;
    let store = match SqliteStore::open_to_read(folder).await {
        Ok(store) => store,
        // An empty store in memory makes a first use of a command like any other.
        Err(StoreError::NotFound(_)) => {
            let blobs = BlobStore::in_memory(max_blob_bytes);
            return Ok(DataStores {
                store: Arc::new(MemoryStore::new()),
                memo: Arc::new(MemoryPrefixCache::default()),
                blobs,
                nodes: None,
                upkeep: None,
            });
        }
        // No process of this version has the folder, so it can be migrated on the way.
        Err(StoreError::Outdated(_)) => return data::open(place, max_blob_bytes).await,
        Err(error) => return Err(CommandError::from(error)),
    };
    let folder = folder.join("blobs");
    // A local blob store would make its folder, and reading must not write.
    let blobs = if folder.is_dir() {
        BlobStore::local_to_read(&folder, max_blob_bytes)?
    } else {
        BlobStore::in_memory(max_blob_bytes)
    };
    let memo = Arc::new(MemoryPrefixCache::default());
    Ok(DataStores { store: Arc::new(store), memo, blobs, nodes: None, upkeep: None })
}

/// Opens the named session under the configured agent, on the session's own model unless the command line
/// names one. An unreachable server of models or tools is no obstacle.
///
/// # Errors
/// The errors of [`open`]. Also if no session, or several, are meant.
pub(super) async fn session(place: &CliEnvironment, meant: &str) -> Outcome<(Runtime, SessionRecord)> {
    let loaded = agent_file::load(place)?;
    let data = open(place, loaded.config.blobs.max_bytes).await?;
    with_agent(place, loaded, data, meant).await
}

/// Opens the session in a folder that this process claims, for commands that change a session but ask no
/// model.
///
/// # Errors
/// The errors of [`data::open`]. Also if no session, or several, are meant.
pub(super) async fn session_to_change(
    place: &CliEnvironment,
    meant: &str,
) -> Outcome<(Runtime, SessionRecord)> {
    let loaded = agent_file::load(place)?;
    let data = data::open(place, loaded.config.blobs.max_bytes).await?;
    with_agent(place, loaded, data, meant).await
}

async fn with_agent(
    place: &CliEnvironment,
    mut loaded: ResolvedConfig,
    data: DataStores,
    meant: &str,
) -> Outcome<(Runtime, SessionRecord)> {
    let record = session_lookup::session(place, &data.store, meant).await?;
    let history = History::fold(&whole_log(&data.store, &record.id).await?)?;
    if let Some(own) = history.model().filter(|_| place.overrides.model.is_none()) {
        talk_to(place, &mut loaded.config.model, own);
    }
    // A missing server of tools must not keep anybody from reading a session.
    let mut agent =
        assemble::agent(place, &loaded.config, ToolApprovalMode::Nobody, McpFailurePolicy::Warn).await?;
    let is_scripted = loaded.config.model.provider == ProviderKind::Scripted;
    if is_scripted
        && history.window().is_some()
        && config_agent::declared_limits(&loaded.config).window.is_none()
    {
        // A scripted model has no server that states its window. The window of the newest call counts.
        agent.limits.window = None;
    }
    Ok((Runtime::new(agent, data.store, data.blobs), record))
}

/// Makes a configuration name a session's model: the counter and the calibrations depend on its name. A log
/// does not have the server's address. A model of another provider is looked for at that provider's usual
/// address, unless the key for it is missing.
fn talk_to(place: &CliEnvironment, model: &mut ModelConfig, own: &ModelOrigin) {
    if model.name != own.model {
        // The limits were declared for the configured model, not for the session's.
        (model.context_window, model.max_output_tokens) = (None, None);
        model.name.clone_from(&own.model);
    }
    let overrides = &place.overrides;
    let named = overrides.provider.is_some() || overrides.base_url.is_some();
    let provider = ProviderKind::from_name(&own.provider).filter(|provider| *provider != model.provider);
    // A server that the person names on the command line counts, whatever the log says.
    let Some(provider) = provider.filter(|_| !named) else { return };
    let other = ModelConfig { provider, base_url: provider.base_url().to_owned(), ..model.clone() };
    if assemble::check_key(place, &other).is_ok() {
        *model = other;
    }
}

/// Opens the data folder for a command that needs no configuration.
///
/// # Errors
/// The errors of [`open`].
pub(super) async fn usual(place: &CliEnvironment) -> Outcome<DataStores> {
    open(place, AgentConfig::default().blobs.max_bytes).await
}
