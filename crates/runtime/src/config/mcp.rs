//! MCP servers, as configured.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::sandbox::NetworkAccess;

/// One MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerConfig {
    /// The transport to the server.
    pub transport: McpTransport,
    /// The longest duration of one call.
    pub timeout: Duration,
    /// True if the agent starts without the server when the server cannot be started.
    pub optional: bool,
    /// The server's tools that the model gets.
    pub tools: McpToolFilter,
}

/// The tools of a server that a model has: `mcpServers.NAME.tools`. Names are the server's own; `*` in them stands for
/// any characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpToolFilter {
    /// The tools that the model has; all if empty.
    pub allow: Vec<String>,
    /// The tools that the model does not have, even if they are allowed.
    pub deny: Vec<String>,
}

impl McpToolFilter {
    /// Returns whether the model has the tool.
    pub fn takes(&self, tool: &str) -> bool {
        (self.allow.is_empty() || matches_any(&self.allow, tool)) && !matches_any(&self.deny, tool)
    }

    /// Returns the names that none of the tools has.
    pub fn unmatched<'a>(&'a self, tools: impl Iterator<Item = &'a str> + Clone) -> Vec<&'a str> {
        let names = self.allow.iter().chain(&self.deny).map(String::as_str);
        names.filter(|pattern| !tools.clone().any(|tool| matches(pattern, tool))).collect()
    }
}

fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, name))
}

/// Returns whether a name matches a pattern, in which `*` matches any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    let mut ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
    ends.any(|at| matches(rest, name.get(at..).unwrap_or_default()))
}

/// The transport to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpTransport {
    /// A program that is started for the agent.
    Command(McpCommand),
    /// A server that is already running.
    Http(McpHttpEndpoint),
}

/// A program to start. What is in `env` does not show when this is printed.
#[derive(Clone, PartialEq, Eq)]
pub struct McpCommand {
    /// The program: a path, or a name looked up in `PATH`.
    pub program: String,
    /// The program's arguments.
    pub args: Vec<String>,
    /// The program's environment, besides the variables that every confined child has.
    pub env: BTreeMap<String, String>,
    /// The network access of the program; `None`: as the agent's commands do.
    pub network: Option<NetworkAccess>,
}

/// A server over streamable HTTP. What is in `headers`, and of the address all but its server, does not show
/// when this is printed.
#[derive(Clone, PartialEq, Eq)]
pub struct McpHttpEndpoint {
    /// The server's address.
    pub url: String,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
}

impl McpHttpEndpoint {
    /// Scheme, host and port of the address.
    pub fn server(&self) -> String {
        server_of(&self.url)
    }
}

/// Scheme, host and port of an address.
pub(super) fn server_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // The part before `@` may be a user name and a password.
    format!("{scheme}://{}", host.rsplit('@').next().unwrap_or_default())
}

impl fmt::Debug for McpCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpCommand")
            .field("program", &self.program)
            // Arguments may hold keys too, so only their number is shown.
            .field("args", &self.args.len())
            .field("env", &self.env.keys())
            .finish()
    }
}

impl fmt::Debug for McpHttpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpHttpEndpoint")
            .field("server", &self.server())
            .field("headers", &self.headers.keys())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_chosen_by_name_and_pattern() {
        let filter = |allow: &[&str], deny: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            McpToolFilter { allow: owned(allow), deny: owned(deny) }
        };
        let tools = ["read", "read_all", "write", "delete_all"];
        let taken = |filter: &McpToolFilter| -> Vec<&str> {
            tools.into_iter().filter(|tool| filter.takes(tool)).collect()
        };
        assert_eq!(taken(&filter(&[], &[])), tools);
        assert_eq!(taken(&filter(&["read"], &[])), ["read"]);
        assert_eq!(taken(&filter(&["read*", "write"], &["*_all"])), ["read", "write"]);
        assert_eq!(taken(&filter(&[], &["*"])), [""; 0]);
        assert_eq!(filter(&["read", "raed"], &["gone*"]).unmatched(tools.into_iter()), ["raed", "gone*"]);
    }

    #[test]
    fn secrets_do_not_show() {
        let command = McpCommand {
            program: "run".into(),
            args: vec!["--key=s3cret".into()],
            env: BTreeMap::from([("NAME".to_owned(), "s3cret".to_owned())]),
            network: None,
        };
        let remote = McpHttpEndpoint {
            url: "https://u:s3cret@host:8/p?key=s3cret".into(),
            headers: BTreeMap::from([("NAME".to_owned(), "Bearer s3cret".to_owned())]),
        };
        assert_eq!(format!("{command:?}"), r#"McpCommand { program: "run", args: 1, env: ["NAME"] }"#);
        assert_eq!(
            format!("{remote:?}"),
            r#"McpHttpEndpoint { server: "https://host:8", headers: ["NAME"] }"#
        );
    }
}
