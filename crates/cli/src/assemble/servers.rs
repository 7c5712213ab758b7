//! The MCP servers of a configuration. Their tools follow the agent's own.

use std::sync::Arc;

use longhaul::config::AgentConfig;
use longhaul::mcp::{self, McpError, McpLaunchOptions, McpServers};
use longhaul::sandbox::Sandbox;
use longhaul::tools::ToolSet;
use longhaul::workspace::Workspace;

use crate::failure::{CommandError, Outcome};

/// The consequence of a failed start of an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum McpFailurePolicy {
    /// The agent does not start, unless the server is optional.
    Refused,
    /// The agent starts without the server and logs its absence.
    Told,
}

/// Returns the workspace, in which tools do not change the files of programs that may do more than commands.
pub(super) fn closed(workspace: Workspace, config: &AgentConfig, sandbox: &Arc<Sandbox>) -> Workspace {
    let place = McpLaunchOptions::new(workspace.root(), Arc::clone(sandbox));
    let exposed = mcp::exposed_files(&config.mcp_servers, &place);
    workspace.with_mcp_programs(&exposed.into_iter().map(|(_, file)| file).collect::<Vec<_>>())
}

/// Starts the servers and adds their tools.
///
/// # Errors
/// The errors of required servers that do not start.
pub(super) async fn add(
    tools: &mut ToolSet,
    config: &AgentConfig,
    workspace: &Workspace,
    sandbox: &Arc<Sandbox>,
    missing: McpFailurePolicy,
) -> Outcome<()> {
    let place = McpLaunchOptions::new(workspace.root(), Arc::clone(sandbox));
    let (servers, errors) = Box::pin(McpServers::start(&config.mcp_servers, &place)).await;
    let needed: Vec<String> = errors
        .iter()
        .filter(|error| missing == McpFailurePolicy::Refused && !error.optional)
        .map(McpError::to_string)
        .collect();
    if !needed.is_empty() {
        servers.close().await;
        return Err(CommandError::new(format!(
            "{}\n(`optional: true` beside a server lets the agent start without it)",
            needed.join("\n")
        )));
    }
    for error in errors {
        tracing::warn!("{error}; the agent does without its tools");
    }
    let listed = servers.tools();
    tracing::debug!(servers = config.mcp_servers.len(), tools = listed.len(), "MCP servers are started");
    for tool in listed {
        tools.add(tool)?;
    }
    Ok(())
}
