//! The tools of MCP servers: programs started for the agent (stdio) and servers that already run (streamable HTTP).
//!
//! The crate `rmcp` speaks the protocol. This module adds the guarantees that `rmcp` does not give:
//!
//! - A program runs confined and dies with its process group.
//! - Schemas, arguments and answers keep their bytes (`wire`).
//! - The tool list that the model was shown at the start stays the same, whatever the server reports later
//!   (`tool_list`).
//! - A server that dies is started again (`server`).

mod connection;
mod http;
mod lenient_parse;
mod name;
mod named_files;
mod result;
mod secrets;
mod server;
mod stdio;
mod structured;
mod tool;
mod tool_list;
mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use self::connection::McpEndpoint;
use self::named_files::{CommandFileDigests, CommandFiles, does_more};
use self::secrets::McpSecrets;
use self::server::McpServerState;
use self::tool::McpTool;
use crate::sandbox::{IsolatedHome, Sandbox};
use crate::tools::Tool;

pub use self::tool_list::ToolListChange;
pub use crate::config::{
    McpCommand, McpHttpEndpoint, McpServerConfig, McpToolFilter, McpTransport, is_server_name,
};

/// The folder and sandbox that servers are started with, and the time that a start may take.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct McpLaunchOptions {
    /// The folder that programs are started in: the workspace.
    pub directory: PathBuf,
    /// The sandbox that confines the programs.
    pub sandbox: Arc<Sandbox>,
    /// The maximum duration of a start, tool list included. Some programs are downloaded first.
    pub start_timeout: Duration,
}

impl McpLaunchOptions {
    /// Makes options with a start timeout of one minute.
    pub fn new(directory: impl Into<PathBuf>, sandbox: Arc<Sandbox>) -> Self {
        Self { directory: directory.into(), sandbox, start_timeout: Duration::from_secs(60) }
    }
}

/// The failure to start or reach a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the MCP server `{server}` could not be started: {why}")]
#[non_exhaustive]
pub struct McpError {
    /// The server's name.
    pub server: String,
    /// True if the configuration says that the agent works without this server.
    pub optional: bool,
    /// The cause, for a person. The text may quote the program's standard error.
    pub why: String,
}

/// The MCP servers of one agent. They run until the last of their tools is dropped, or until [`close`](Self::close).
#[derive(Clone, Debug, Default)]
pub struct McpServers {
    servers: Vec<Arc<McpServerState>>,
    tools: Vec<Arc<McpTool>>,
}

impl McpServers {
    /// Starts all servers at once and lists their tools. Servers that fail to start are returned as errors beside the
    /// others. The caller decides whether the agent works without them.
    pub async fn start(
        configs: &BTreeMap<String, McpServerConfig>,
        place: &McpLaunchOptions,
    ) -> (Self, Vec<McpError>) {
        let starts = configs.iter().map(|(name, config)| async move {
            let starting = start(name, config, place);
            let started = match config.optional.then_some(config.timeout) {
                // An agent waits for an optional server's start no longer than for one of the server's calls.
                Some(limit) => timeout(limit, starting)
                    .await
                    .unwrap_or_else(|_| Err(format!("it did not answer within {} s", limit.as_secs_f32()))),
                None => starting.await,
            };
            match started {
                Ok(server) => Ok((server, &config.tools)),
                Err(why) => {
                    tracing::info!(server = %name, optional = config.optional, why, "an MCP server did not start");
                    Err(McpError { server: name.clone(), optional: config.optional, why })
                }
            }
        });
        let (mut all, mut errors) = (Self::default(), Vec::new());
        // The servers start side by side, so that the agent waits only for the slowest.
        for started in join_all(starts).await {
            match started {
                Ok((server, filter)) => all.add(Arc::new(server), filter),
                Err(error) => errors.push(error),
            }
        }
        tracing::info!(
            servers = all.servers.len(),
            tools = all.tools.len(),
            failed = errors.len(),
            "the MCP servers were started"
        );
        (all, errors)
    }

    /// Adds a server with those of its tools that the configuration selects and that a model can use.
    fn add(&mut self, server: Arc<McpServerState>, filter: &McpToolFilter) {
        let name = server.name().to_owned();
        for unmatched in filter.unmatched(server.tools().iter().map(|tool| tool.own_name.as_str())) {
            tracing::warn!("mcpServers.{name}.tools names `{unmatched}`, which the server does not offer");
        }
        for listed in server.tools().iter().filter(|listed| filter.takes(&listed.own_name)) {
            match McpTool::new(Arc::clone(&server), listed.clone()) {
                Ok(tool) => self.tools.push(Arc::new(tool)),
                Err(error) => tracing::warn!(
                    "the tool `{}` of the MCP server `{name}` is left out: {error}",
                    listed.own_name
                ),
            }
        }
        self.servers.push(server);
    }

    /// Returns the tools of all servers, ordered by server and then by name. The model sees the same order every time.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.tools.iter().map(|tool| -> Arc<dyn Tool> { Arc::<McpTool>::clone(tool) }).collect()
    }

    /// Returns the differences between the servers' current tools and the tools that the model was shown at the start.
    #[doc(hidden)]
    pub fn changes(&self) -> Vec<ToolListChange> {
        self.servers.iter().filter_map(|server| server.change()).collect()
    }

    /// Stops the servers. A program first sees its input close, then is asked to end, and is finally killed.
    pub async fn close(&self) {
        tracing::debug!(servers = self.servers.len(), "the MCP servers are stopped");
        // Side by side: each program may take its last moments in full before it is killed.
        join_all(self.servers.iter().map(|server| server.close())).await;
    }
}

/// Starts or reaches one server.
async fn start(
    name: &str,
    config: &McpServerConfig,
    place: &McpLaunchOptions,
) -> Result<McpServerState, String> {
    let endpoint = McpEndpoint {
        server: name.to_owned(),
        transport: config.transport.clone(),
        directory: place.directory.clone(),
        sandbox: Arc::clone(&place.sandbox),
        secrets: Arc::new(McpSecrets::of(&config.transport)),
        noted: noted(&config.transport, place).await?,
        home: IsolatedHome::default(),
    };
    McpServerState::start(endpoint, config.timeout, place.start_timeout).await
}

/// Returns the workspace files that are named by the commands of privileged programs, by server, with links followed.
///
/// A program is privileged if it may do more than the agent's commands: the program has the network while commands have
/// none, or the configuration gave the program a secret.
#[doc(hidden)]
pub fn exposed_files(
    configs: &BTreeMap<String, McpServerConfig>,
    place: &McpLaunchOptions,
) -> Vec<(String, PathBuf)> {
    let mut exposed = Vec::new();
    for (name, config) in configs {
        if let McpTransport::Command(command) = &config.transport
            && does_more(&config.transport, &place.sandbox)
        {
            let files = CommandFiles::of(command, &place.directory, &place.sandbox);
            exposed.extend(files.inside().map(|file| (name.clone(), file.to_owned())));
        }
    }
    exposed
}

/// Takes digests of a program's files if the program may do more than commands. Each later start compares the files
/// with these digests.
async fn noted(
    transport: &McpTransport,
    place: &McpLaunchOptions,
) -> Result<Option<Arc<CommandFileDigests>>, String> {
    let McpTransport::Command(command) = transport else { return Ok(None) };
    if !does_more(transport, &place.sandbox) {
        return Ok(None);
    }
    let (command, directory, sandbox) =
        (command.clone(), place.directory.clone(), Arc::clone(&place.sandbox));
    // Hashing reads whole files, so the work runs on a blocking thread.
    let noting = tokio::task::spawn_blocking(move || CommandFileDigests::now(command, directory, sandbox));
    match noting.await {
        Ok(noted) => noted.map(|noted| Some(Arc::new(noted))).map_err(|refused| refused.to_string()),
        Err(_) => Err("its files could not be read".to_owned()),
    }
}
