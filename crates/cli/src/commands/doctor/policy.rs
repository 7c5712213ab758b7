//! The permissions of the agent's commands and MCP programs on this machine.

use std::path::PathBuf;

use longhaul::config::{AgentConfig, McpTransport};
use longhaul::sandbox::{NetworkAccess, SandboxReport};

use crate::environment::CliEnvironment;
use crate::term::style::TextPainter;
use crate::term::text::visible;

/// Paths of a list that are named; others are counted.
const NAMED: usize = 12;

/// Returns a line for each permission, label and fact.
pub(super) fn facts(
    place: &CliEnvironment,
    config: &AgentConfig,
    report: &SandboxReport,
    style: TextPainter,
) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    for (what, list) in
        [("may change", &report.write), ("may read", &report.read), ("closed", &report.closed)]
    {
        if !list.is_empty() {
            facts.push((what, shown_paths(place, list)));
        }
    }
    facts.push(("network", network(config, report.network)));
    facts.push(("limits", format!("{} (each process)", report.limits)));
    facts.extend(report.open.iter().map(|open| ("not guarded", style.amber(open))));
    facts
}

fn shown_paths(place: &CliEnvironment, paths: &[PathBuf]) -> String {
    let mut named: Vec<String> = paths.iter().take(NAMED).map(|path| visible(&place.shown(path))).collect();
    if paths.len() > NAMED {
        named.push(format!("{} more", paths.len() - NAMED));
    }
    named.join(", ")
}

fn network(config: &AgentConfig, network: NetworkAccess) -> String {
    let said = match network {
        NetworkAccess::Open => "open to commands",
        NetworkAccess::Denied => "closed to commands: they can make no socket",
    };
    let others = config.mcp_servers.iter().filter_map(|(name, server)| match &server.transport {
        McpTransport::Command(command) => {
            let own = command.network.filter(|own| *own != network)?;
            let word = if own == NetworkAccess::Open { "open" } else { "closed" };
            Some(format!("; {word} to the MCP server {}", visible(name)))
        }
        McpTransport::Http(_) => None,
    });
    others.fold(said.to_owned(), |said, other| said + &other)
}
