//! The MCP servers of a configuration, in a build without the feature `mcp`: none can be started.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::McpServerConfig;
use crate::sandbox::Sandbox;
use crate::tools::ToolSet;
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
    /// The program has no MCP client.
    #[error(
        "this program is built without the feature `mcp` of the crate `longhaul`: enable it, or remove the servers"
    )]
    NotBuilt,
}

/// Refuses a configuration with MCP servers.
///
/// # Errors
/// [`McpSetupError::NotBuilt`] if a server is needed.
#[expect(clippy::unused_async, reason = "callers await it in either build")]
pub async fn add_mcp_servers(
    servers: &BTreeMap<String, McpServerConfig>,
    workspace: Workspace,
    _: &Arc<Sandbox>,
    _: &mut ToolSet,
    on_failure: McpFailurePolicy,
) -> Result<Workspace, McpSetupError> {
    if servers.is_empty() {
        return Ok(workspace);
    }
    if on_failure == McpFailurePolicy::Refuse {
        return Err(McpSetupError::NotBuilt);
    }
    tracing::warn!("{}; the agent does without its tools", McpSetupError::NotBuilt);
    Ok(workspace)
}
