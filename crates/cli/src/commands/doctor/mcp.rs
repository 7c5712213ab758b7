//! Checks of the configured MCP servers: each is started, and its tools are counted.

use std::sync::Arc;

use longhaul::config::AgentConfig;
use longhaul::mcp::{McpLaunchOptions, McpServers, exposed_files};
use longhaul::sandbox::Sandbox;

use crate::environment::CliEnvironment;
use crate::term::style::TextPainter;
use crate::term::text::visible;

/// Returns a line for each server, label and fact. The servers are started as `run` would start them, and
/// ended again.
pub(super) async fn facts(
    place: &CliEnvironment,
    config: &AgentConfig,
    sandbox: &Arc<Sandbox>,
    style: TextPainter,
) -> Vec<(&'static str, String)> {
    let at = McpLaunchOptions::new(&place.workspace, Arc::clone(sandbox));
    // Boxed: the future of starting programs is large.
    let (servers, errors) = Box::pin(McpServers::start(&config.mcp_servers, &at)).await;
    let sources: Vec<String> = servers.tools().iter().map(|tool| tool.spec().source).collect();
    let described = config.mcp_servers.keys().map(|name| {
        let fact = match errors.iter().find(|error| error.server == *name) {
            // A program's error has several lines, and a fact is one row.
            Some(error) => style.red(&error.why.lines().map(visible).collect::<Vec<_>>().join(" ")),
            None => count(sources.iter().filter(|source| *source == name).count()),
        };
        ("mcp server", format!("{name} · {fact}"))
    });
    let exposed = exposed_files(&config.mcp_servers, &at).into_iter().map(|(name, file)| {
        let fact = format!(
            "{} of the MCP program {}, which may do more than commands: they can change it, and that holds from the \
             next start of longhaul: keep it outside the folders they may change",
            visible(&place.shown(&file)),
            visible(&name),
        );
        ("not guarded", style.amber(&fact))
    });
    let facts = described.chain(exposed).collect();
    servers.close().await;
    facts
}

fn count(tools: usize) -> String {
    match tools {
        1 => "1 tool".to_owned(),
        many => format!("{many} tools"),
    }
}
