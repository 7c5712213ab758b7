//! A runtime for each workspace of an editor, over one data folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as Lock, MutexGuard, PoisonError};
use std::time::Duration;

use agent_client_protocol::v1::schema::McpServer;
use futures_util::future::join_all;
use longhaul::config::{
    AgentConfig, McpCommand, McpHttpEndpoint, McpServerConfig, McpToolFilter, McpTransport, is_server_name,
};
use longhaul::config_agent::{self, McpFailurePolicy};
use longhaul::session::Runtime;
use longhaul_core::ids::SessionId;
use longhaul_providers::FeatureSupport;
use longhaul_store::{BlobStore, SessionRecord, SharedStore};
use longhaul_wire::catalog;
use tokio::sync::Mutex;

use crate::assemble::{self, ToolApprovalMode};
use crate::environment::{AGENT_FILE, CliEnvironment};
use crate::failure::{CommandError, Outcome};
use crate::session_lookup::ALL;
use crate::{agent_file, data, hosted_providers, model_discovery};

use super::folders::SessionFolderIndex;
use super::shared_store::SharedStoreHandle;

/// The maximum time of one call of a server that the editor names, equal to that of the agent file's servers.
const CALL: Duration = Duration::from_secs(120);

/// The MCP servers named by an editor for a session.
pub(super) type Servers = BTreeMap<String, McpServerConfig>;

/// The registry of all workspaces.
pub(super) struct WorkspaceRegistry {
    place: CliEnvironment,
    asking: ToolApprovalMode,
    /// The data folder, or the reason that it cannot be used. An editor that wants a session gets this
    /// reason.
    store: Result<SharedStore, String>,
    folders: Lock<SessionFolderIndex>,
    rooms: Mutex<Vec<Arc<WorkspaceRuntime>>>,
}

/// The runtime of one workspace, with the servers that the editor gave it.
pub(super) struct WorkspaceRuntime {
    pub(super) folder: PathBuf,
    pub(super) runtime: Runtime,
    servers: Servers,
}

impl WorkspaceRegistry {
    /// Creates an empty registry over the data folder of an environment.
    pub(super) async fn over(place: &CliEnvironment, asking: ToolApprovalMode) -> Self {
        let opened = data::open(place, AgentConfig::default().blobs.max_bytes).await;
        let store = opened.map(|data| data.store).map_err(|failure| failure.message().to_owned());
        let folders = Lock::new(SessionFolderIndex::load(&place.data_dir));
        Self { place: place.clone(), asking, store, folders, rooms: Mutex::default() }
    }

    fn store(&self) -> Outcome<&SharedStore> {
        self.store.as_ref().map_err(CommandError::new)
    }

    /// Returns the runtime of a workspace.
    ///
    /// # Errors
    /// The folder does not exist; its agent file, its model or the data folder is unusable.
    pub(super) async fn get_or_start_runtime(
        &self,
        folder: &Path,
        servers: Servers,
    ) -> Outcome<Arc<WorkspaceRuntime>> {
        if !folder.is_absolute() || !folder.is_dir() {
            return Err(CommandError::usage(format!(
                "{} is not a folder that can be worked in",
                folder.display()
            )));
        }
        // The lock is held while the workspace is set up. Otherwise two sessions that open one folder at once
        // would each start its servers.
        let mut rooms = self.rooms.lock().await;
        // Servers that the editor names are part of the key: two sessions of one folder may bring different ones.
        let known = rooms.iter().find(|room| room.folder == folder && room.servers == servers);
        if let Some(room) = known {
            return Ok(Arc::clone(room));
        }
        let room = Arc::new(Box::pin(self.start_runtime(folder, servers)).await?);
        rooms.push(Arc::clone(&room));
        Ok(room)
    }

    async fn start_runtime(&self, folder: &Path, servers: Servers) -> Outcome<WorkspaceRuntime> {
        let store: SharedStore = Arc::new(SharedStoreHandle(Arc::clone(self.store()?)));
        // Everything is looked for as if the command had been called in that folder, trust in its file included.
        let place = self.place_in(folder);
        let loaded = agent_file::load(&place)?;
        let loaded = model_discovery::complete(&place, loaded).await?;
        hosted_providers::log_choice(&loaded);
        let mut config = loaded.config;
        assemble::check_key(&place, &config.model)?;
        let blobs = BlobStore::local(&place.data_dir.join("blobs"), config.blobs.max_bytes)?;
        // After the file's own servers: of two servers with one name the editor's is used.
        config.mcp_servers.extend(servers.clone());
        let mut agent = assemble::agent(&place, &config, self.asking, McpFailurePolicy::Refuse).await?;
        agent.telemetry = assemble::telemetry(&config)?;
        tracing::debug!(folder = %folder.display(), servers = servers.len(), "an agent is started for an editor's folder");
        let runtime = Runtime::new(agent, store, blobs);
        Ok(WorkspaceRuntime { folder: folder.to_owned(), runtime, servers })
    }

    /// Returns the environment as if the command had been called in that folder.
    fn place_in(&self, folder: &Path) -> CliEnvironment {
        let own = self.place.config_dir.as_ref().map(|own| own.join(AGENT_FILE));
        CliEnvironment {
            workspace: folder.to_owned(),
            usual_configs: [Some(folder.join(AGENT_FILE)), own].into_iter().flatten().collect(),
            ..self.place.clone()
        }
    }

    /// Reports whether the model sees pictures, as far as that is known before an editor names its folder. A
    /// model without known facts is offered pictures.
    pub(super) async fn may_see(&self) -> bool {
        let Ok(loaded) = agent_file::load(&self.place) else { return true };
        let Ok(loaded) = model_discovery::complete(&self.place, loaded).await else { return true };
        let config = loaded.config;
        let said = match assemble::server_limits(&self.place, &config.model).await {
            Ok((_, limits)) => limits.images,
            Err(_) => FeatureSupport::Unknown,
        };
        let known = catalog::limits(&config.model.name, &config.model.base_url).images;
        FeatureSupport::from(config_agent::declared_limits(&config).images).or(said).or(known).may()
    }

    /// Returns the sessions ever opened by an editor, the newest first, with the folder of each.
    ///
    /// # Errors
    /// The data folder cannot be used.
    pub(super) async fn sessions(&self) -> Outcome<Vec<(SessionRecord, PathBuf)>> {
        let records = self.store()?.sessions(ALL).await?;
        let folders = self.folders();
        let with_folder = records.into_iter().filter_map(|record| {
            let folder = folders.of(&record.id)?.clone();
            Some((record, folder))
        });
        Ok(with_folder.collect())
    }

    /// Records the folder of a session. A failure is only logged, because the session works without the record.
    pub(super) fn record_session_folder(&self, session: &SessionId, folder: &Path) {
        if let Err(error) = self.folders().keep(session, folder) {
            tracing::warn!("the editor will not find this session in its list: {error}");
        }
    }

    /// Deletes a session that is not open.
    ///
    /// # Errors
    /// The session does not exist, or is open, or the data folder cannot be used.
    pub(super) async fn delete(&self, id: &SessionId) -> Outcome<()> {
        Ok(self.store()?.delete(id).await?)
    }

    /// Cancels all work, then closes everything, the store last.
    pub(super) async fn close(&self) {
        // Taken out of the lock, so that nothing waits for the lock while the runtimes close.
        let rooms = std::mem::take(&mut *self.rooms.lock().await);
        // The store is closed last: the runtimes still write while they end.
        join_all(rooms.iter().map(|room| room.runtime.close())).await;
        if let Ok(store) = &self.store {
            store.close().await;
        }
    }

    /// Locks the folders. No panic happens while the lock is held.
    fn folders(&self) -> MutexGuard<'_, SessionFolderIndex> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Converts an editor's MCP servers to those of an agent file. A server that cannot be started
/// is left out.
///
/// # Errors
/// A server has a transport that this agent has not announced.
pub(super) fn servers(named: Vec<McpServer>) -> Result<Servers, String> {
    let mut servers = Servers::new();
    for server in named {
        let (name, transport) = match server {
            McpServer::Stdio(server) => {
                let program = server.command.display().to_string();
                let env = server.env.into_iter().map(|variable| (variable.name, variable.value)).collect();
                (
                    server.name,
                    McpTransport::Command(McpCommand { program, args: server.args, env, network: None }),
                )
            }
            McpServer::Http(server) => {
                let headers = server.headers.into_iter().map(|header| (header.name, header.value)).collect();
                (server.name, McpTransport::Http(McpHttpEndpoint { url: server.url, headers }))
            }
            McpServer::Sse(server) => {
                return Err(format!("the MCP server {} uses SSE, which is not supported", server.name));
            }
            _ => return Err("an MCP server uses a transport that is not known".to_owned()),
        };
        // All servers are optional: an editor sends its whole list, and one that fails must not keep the session from
        // starting.
        let tools = McpToolFilter::default();
        servers
            .insert(server_name(&name), McpServerConfig { transport, timeout: CALL, optional: true, tools });
    }
    Ok(servers)
}

/// Returns a name that tools can have in front, as near as can be to the editor's.
fn server_name(name: &str) -> String {
    if is_server_name(name) {
        return name.to_owned();
    }
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    // A name that is no server name may also be empty or all signs, so the prefix makes it valid.
    let plain: String = format!("s-{}", words.collect::<Vec<_>>().join("-")).chars().take(32).collect();
    plain.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn servers_of_an_editor_are_as_those_of_a_file() {
        let named = json!([
            { "name": "files", "command": "/bin/files", "args": ["-x"], "env": [{ "name": "K", "value": "v" }] },
            { "type": "http", "name": "my notes!", "url": "https://host/mcp", "headers": [] },
        ]);
        let servers = servers(serde_json::from_value(named).unwrap()).unwrap();
        let McpTransport::Command(command) = &servers["files"].transport else { panic!("no program") };
        assert_eq!((command.program.as_str(), command.env["K"].as_str()), ("/bin/files", "v"));
        assert!(
            matches!(&servers["s-my-notes"].transport, McpTransport::Http(remote) if remote.url == "https://host/mcp")
        );
        assert!(
            servers.values().all(|server| server.optional),
            "an editor's server never keeps it from working"
        );
    }

    #[test]
    fn what_was_not_offered_is_refused() {
        let named = json!([{ "type": "sse", "name": "old", "url": "https://host/sse", "headers": [] }]);
        let refused = servers(serde_json::from_value(named).unwrap()).unwrap_err();
        assert!(refused.contains("old") && refused.contains("SSE"), "{refused}");
    }

    #[test]
    fn any_name_becomes_one_for_tools() {
        for name in ["a b", "1st", "builtin", "x__y", "ünïcode", "-", &"long ".repeat(20)] {
            assert!(is_server_name(&server_name(name)), "{name}: {}", server_name(name));
        }
    }
}
