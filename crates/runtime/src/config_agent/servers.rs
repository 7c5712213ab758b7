//! The MCP servers of a configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::McpServerConfig;
use crate::mcp::{self, McpError, McpLaunchOptions, McpServers};
use crate::sandbox::Sandbox;
use crate::tools::{DuplicateTool, ToolSet};
use crate::workspace::Workspace;

/// The consequence of a failed start of an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McpFailurePolicy {
    /// The agent does not start, unless the server is optional.
    Refuse,
    /// The agent starts without the server, and the log has a warning.
    Warn,
}

/// The configured MCP servers cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpSetupError {
    /// Required servers did not start.
    #[error("{}\n(`optional: true` beside a server lets the agent start without it)", joined(.0))]
    NotStarted(Vec<McpError>),
    /// A tool of a server has the name of another tool.
    #[error(transparent)]
    Tool(#[from] DuplicateTool),
}

fn joined(errors: &[McpError]) -> String {
    errors.iter().map(McpError::to_string).collect::<Vec<_>>().join("\n")
}

/// Starts the configured MCP servers and adds their tools to `tools`. Returns the workspace in which tools do not
/// change the files of programs that may do more than commands.
///
/// All servers start at once. An optional server is waited for no longer than its `timeoutMs`.
///
/// # Errors
/// [`McpSetupError`]. The servers that did start are stopped.
pub async fn add_mcp_servers(
    servers: &BTreeMap<String, McpServerConfig>,
    workspace: Workspace,
    sandbox: &Arc<Sandbox>,
    tools: &mut ToolSet,
    on_failure: McpFailurePolicy,
) -> Result<Workspace, McpSetupError> {
    let place = McpLaunchOptions::new(workspace.root(), Arc::clone(sandbox));
    let exposed = mcp::exposed_files(servers, &place);
    let files: Vec<_> = exposed.into_iter().map(|(_, file)| file).collect();
    let workspace = workspace.with_mcp_programs(&files);
    // Boxed: the future is large, and callers await it inside their own.
    let (started, errors) = Box::pin(McpServers::start(servers, &place)).await;
    let is_needed = |error: &McpError| on_failure == McpFailurePolicy::Refuse && !error.optional;
    let (needed, missing): (Vec<_>, Vec<_>) = errors.into_iter().partition(is_needed);
    if !needed.is_empty() {
        started.close().await;
        return Err(McpSetupError::NotStarted(needed));
    }
    for error in missing {
        tracing::warn!("{error}; the agent does without its tools");
    }
    let listed = started.tools();
    tracing::debug!(servers = servers.len(), tools = listed.len(), "MCP servers are started");
    listed.into_iter().try_for_each(|tool| tools.add(tool))?;
    Ok(workspace)
}
