//! The MCP servers of a configuration, whose tools stand behind the agent's own.

use std::sync::Arc;

use longhaul::config::Config;
use longhaul::mcp::{self, McpError, McpPlace, McpServers};
use longhaul::sandbox::Sandbox;
use longhaul::tools::ToolSet;
use longhaul::workspace::Workspace;

use crate::failure::{Failure, Outcome};

/// What a server that cannot be started means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The agent does not start, unless the server is optional.
    Refused,
    /// The agent starts without it, and says so.
    Told,
}

/// The workspace, in which tools do not change the files of programs that may do more than commands.
pub(super) fn closed(workspace: Workspace, config: &Config, sandbox: &Arc<Sandbox>) -> Workspace {
    let place = McpPlace::new(workspace.root(), Arc::clone(sandbox));
    let exposed = mcp::exposed_files(&config.mcp_servers, &place);
    workspace.with_mcp_programs(&exposed.into_iter().map(|(_, file)| file).collect::<Vec<_>>())
}

/// Starts the servers and adds their tools.
///
/// # Errors
/// Those that are missing and needed.
pub(super) async fn add(
    tools: &mut ToolSet,
    config: &Config,
    workspace: &Workspace,
    sandbox: &Arc<Sandbox>,
    missing: Missing,
) -> Outcome<()> {
    let place = McpPlace::new(workspace.root(), Arc::clone(sandbox));
    let (servers, errors) = Box::pin(McpServers::start(&config.mcp_servers, &place)).await;
    let is_needed = |error: &&McpError| missing == Missing::Refused && !error.optional;
    let needed: Vec<String> = errors.iter().filter(is_needed).map(McpError::to_string).collect();
    if !needed.is_empty() {
        servers.close().await;
        return Err(Failure::new(format!(
            "{}\n(`optional: true` beside a server lets the agent start without it)",
            needed.join("\n")
        )));
    }
    for error in errors {
        tracing::warn!("{error}; the agent does without its tools");
    }
    for tool in servers.tools() {
        tools.add(tool)?;
    }
    Ok(())
}
