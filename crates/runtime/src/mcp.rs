//! Tools of MCP servers: programs started for the agent (stdio) and servers that are there already (streamable
//! HTTP).
//!
//! The protocol is rmcp's work. Ours is what rmcp does not promise: a program runs confined and dies with its
//! group, schemas, arguments and answers keep their bytes (`wire`), the list of tools that the model is told of
//! stays as it was at the start whatever the server says later (`tool_list`), and a server that dies is started
//! again (`server`).

mod http;
mod lenient_parse;
mod link;
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

use self::link::McpEndpoint;
use self::named_files::{CommandFileDigests, CommandFiles, does_more};
use self::secrets::McpSecrets;
use self::server::McpServerState;
use self::tool::McpTool;
use crate::config::{McpServerConfig, McpToolFilter, McpTransport};
use crate::sandbox::{IsolatedHome, Sandbox};
use crate::tools::Tool;

pub use self::name::is_server_name;
pub use self::tool_list::ToolListChange;

/// Where servers are started, and how long that may take.
#[derive(Clone, Debug)]
pub struct McpLaunchOptions {
    /// The folder programs are started in: the workspace.
    pub directory: PathBuf,
    /// What confines them.
    pub sandbox: Arc<Sandbox>,
    /// The longest start, list of tools included. Programs may have to be downloaded first.
    pub start_timeout: Duration,
}

impl McpLaunchOptions {
    /// A start may take a minute.
    pub fn new(directory: impl Into<PathBuf>, sandbox: Arc<Sandbox>) -> Self {
        Self { directory: directory.into(), sandbox, start_timeout: Duration::from_secs(60) }
    }
}

/// A server that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the MCP server `{server}` could not be started: {why}")]
pub struct McpError {
    /// Its name.
    pub server: String,
    /// Whether the configuration says that the agent can do without it.
    pub optional: bool,
    /// What went wrong, for a person: it may quote what the program wrote to standard error.
    pub why: String,
}

/// The servers of one agent. They run until the last of their tools is dropped, or until they are closed.
#[derive(Clone, Debug, Default)]
pub struct McpServers {
    servers: Vec<Arc<McpServerState>>,
    tools: Vec<Arc<McpTool>>,
}

impl McpServers {
    /// Starts all servers at once and asks for their tools. Those that cannot be started are told beside the
    /// others: whether the agent can do without them is the caller's word.
    pub async fn start(
        configs: &BTreeMap<String, McpServerConfig>,
        place: &McpLaunchOptions,
    ) -> (Self, Vec<McpError>) {
        let starts = configs.iter().map(|(name, config)| async move {
            let starting = start(name, config, place);
            let started = match config.optional.then_some(config.timeout) {
                // An agent that can do without a server does not wait for it longer than for one of its calls.
                Some(limit) => timeout(limit, starting)
                    .await
                    .unwrap_or_else(|_| Err(format!("it did not answer within {} s", limit.as_secs_f32()))),
                None => starting.await,
            };
            match started {
                Ok(server) => Ok((server, &config.tools)),
                Err(why) => Err(McpError { server: name.clone(), optional: config.optional, why }),
            }
        });
        let (mut all, mut errors) = (Self::default(), Vec::new());
        for started in join_all(starts).await {
            match started {
                Ok((server, filter)) => all.add(Arc::new(server), filter),
                Err(error) => errors.push(error),
            }
        }
        (all, errors)
    }

    /// Adds a server with those of its tools that the configuration chooses and that a model can be told of.
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

    /// The tools of all servers: by server, then by name, so that the model is told of them in the same order
    /// every time.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.tools.iter().map(|tool| -> Arc<dyn Tool> { Arc::<McpTool>::clone(tool) }).collect()
    }

    /// How what the servers offer now differs from what the model was told at the start.
    pub fn changes(&self) -> Vec<ToolListChange> {
        self.servers.iter().filter_map(|server| server.change()).collect()
    }

    /// Ends the servers: programs see their input close, then are asked to end, then are killed.
    pub async fn close(&self) {
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

/// The files of the workspace that the commands of such programs name that may do more than the agent's commands: they
/// have the network where those have none, or were given a secret. By server; links are followed.
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

/// What has to be as it is now at each start of a program, if it may do more than commands.
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
    let noting = tokio::task::spawn_blocking(move || CommandFileDigests::now(command, directory, sandbox));
    match noting.await {
        Ok(noted) => noted.map(|noted| Some(Arc::new(noted))).map_err(|refused| refused.to_string()),
        Err(_) => Err("its files could not be read".to_owned()),
    }
}
