//! Whether an agent file that was merely found may do what it asks for.
//!
//! A file that lies in a folder somebody else made could start programs, send the conversation or a key to a
//! stranger's server, read any file into the prompt, or let tools run unasked. Such a file is used only after a person has named it once
//! with `--config`; its content is remembered, so a changed file has to be named again.

use std::fs;
use std::io::Write as _;
use std::path::{Component, Path};

use longhaul::config::{
    AgentSource, Config, Decision, HookTarget, McpTransport, ProviderKind, ServerConfig, SystemPrompt,
};

use crate::assemble;
use crate::data;
use crate::failure::{Failure, Outcome};
use crate::place::{Overrides, Place};

/// Where trusted contents are remembered: a line has the content's hash and that of the file's path.
const FILE: &str = "trusted";

/// Remembers a file that a person has named.
///
/// # Errors
/// The data folder cannot be written.
pub(crate) fn remember(place: &Place, file: &Path, text: &str, config: &Config) -> Outcome<()> {
    let line = format!("{} {}", hash(text.as_bytes()), hash_of_path(file));
    // With nothing on the command line: the file is named for later, too.
    if wants(place, config, &Overrides::default()).is_none()
        || known(place).lines().any(|known| known == line)
    {
        return Ok(());
    }
    data::make_private(&place.data_dir)?;
    let add = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(place.data_dir.join(FILE))?;
        writeln!(file, "{line}")
    };
    add().map_err(|error| Failure::new(format!("{} cannot be written: {error}", place.data_dir.display())))
}

/// Refuses a found file that asks for trust it was not given.
///
/// # Errors
/// Usage, with what it asks for and how to allow it.
pub(crate) fn check(place: &Place, file: &Path, text: &str, config: &Config) -> Outcome<()> {
    let wanted = wants(place, config, &place.overrides).filter(|_| !is_trusted(place, text));
    let Some(what) = wanted else { return Ok(()) };
    let why = if was_trusted(place, file) {
        "it has changed since you trusted it. Read it again"
    } else {
        "you have not said that you trust it. Read it"
    };
    let file = file.display();
    Err(Failure::untrusted(format!("{file} {what}, and {why}; then name it once: --config {file}")))
}

/// What a file asks for that a stranger's file must not have.
fn wants(place: &Place, config: &Config, overrides: &Overrides) -> Option<String> {
    if let Some(rule) = config.approvals.rules.iter().find(|rule| rule.decision == Decision::Allow) {
        return Some(format!("lets the tool `{}` run without asking", rule.tool));
    }
    if let Some((name, server)) = config.mcp_servers.iter().next() {
        return Some(match &server.transport {
            McpTransport::Command(command) => {
                format!("starts the program `{}` as the MCP server `{name}`", command.program)
            }
            McpTransport::Http(remote) => {
                format!("takes tools from {} as the MCP server `{name}`", remote.server())
            }
        });
    }
    if let Some((name, hook)) = config.hooks.iter().next() {
        return Some(match &hook.target {
            HookTarget::Command(line) => format!("runs the command `{line}` as the hook `{name}`"),
            HookTarget::Url(_) => {
                format!("asks {} as the hook `{name}`", hook.target.server().unwrap_or_default())
            }
        });
    }
    if let SystemPrompt::File(path) = &config.system_prompt
        && leaves(place, path)
    {
        return Some(format!("reads {path} into the prompt"));
    }
    if let Some(what) = config.agents.values().find_map(|agent| agent_wants(place, agent)) {
        return Some(what);
    }
    if let Some(what) = opens(&config.server) {
        return Some(what);
    }
    if let Some(url) = config.telemetry.otlp.as_deref().filter(|url| !is_local(url)) {
        return Some(format!("tells {} what the agent does", server_of(url)));
    }
    if let Some(upstream) = config.gateway.upstreams.iter().find(|upstream| !is_local(&upstream.base_url)) {
        let server = server_of(&upstream.base_url);
        return Some(match assemble::upstream_key(place, upstream) {
            Some(key) => format!("sends the key in {key} to {server}"),
            None => format!("sends conversations to {server}"),
        });
    }
    let url = remote_address(config, overrides)?;
    Some(match config.model.api_key_env.as_deref().filter(|name| place.variable(name).is_some()) {
        Some(key) => format!("sends the key in {key} to {url}"),
        None => format!("sends the conversation to {url}"),
    })
}

/// What an agent of a file asks for: what the command line says is not said of it. One in a file of its own is looked
/// at by itself.
fn agent_wants(place: &Place, agent: &AgentSource) -> Option<String> {
    match agent {
        AgentSource::Here(config) => wants(place, config, &Overrides::default()),
        AgentSource::File(path) if leaves(place, path) => Some(format!("reads {path} as an agent")),
        AgentSource::File(_) => None,
    }
}

/// Whether a path leads out of the workspace.
fn leaves(place: &Place, path: &str) -> bool {
    let inside =
        Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    !inside || !lies_in(&place.workspace, path)
}

/// The address beyond this machine that a file names, or that of the provider it names, unless the command line
/// names another.
fn remote_address<'a>(config: &'a Config, overrides: &Overrides) -> Option<&'a str> {
    let model = &config.model;
    let named = overrides.provider.as_deref().and_then(ProviderKind::from_name);
    let is_used = overrides.base_url.is_none() && named.is_none_or(|provider| provider == model.provider);
    let leaves = is_used && model.provider != ProviderKind::Scripted && !is_local(&model.base_url);
    leaves.then_some(model.base_url.as_str())
}

/// How a file opens the server to others, or what it has the server do to them.
fn opens(server: &ServerConfig) -> Option<String> {
    if !server.addr.ip().is_loopback() {
        return Some(format!("lets other machines reach the server at {}", server.addr));
    }
    if let Some(path) = &server.token_file {
        return Some(format!("takes the server's token from {path}"));
    }
    if server.keep_sessions.is_some() {
        return Some("has old sessions deleted".to_owned());
    }
    let host = server.allowed_hosts.first().map(|host| format!("lets the server answer to the name {host}"));
    let origin =
        || server.allowed_origins.first().map(|origin| format!("lets pages of {origin} ask the server"));
    host.or_else(origin)
}

/// Of an address only its server: a password may stand before it.
fn server_of(url: &str) -> String {
    let url = reqwest::Url::parse(url);
    url.map_or_else(|_| "a collector".to_owned(), |url| url.origin().ascii_serialization())
}

/// As the client will read the address, not as it looks: `http://stranger\@localhost` is a stranger's.
pub(crate) fn is_local(url: &str) -> bool {
    let url = reqwest::Url::parse(url);
    url.is_ok_and(|url| matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")))
}

/// Whether a file, links followed, lies in that folder. One that is not there is missed later, by name.
fn lies_in(folder: &Path, path: &str) -> bool {
    match (folder.canonicalize(), folder.join(path).canonicalize()) {
        (Ok(folder), Ok(file)) => file.starts_with(folder),
        _ => true,
    }
}

/// Whether that content is trusted, wherever it lies.
fn is_trusted(place: &Place, text: &str) -> bool {
    let content = hash(text.as_bytes());
    known(place).lines().any(|line| line.split(' ').next() == Some(&content))
}

/// Whether the file was trusted with some content.
fn was_trusted(place: &Place, file: &Path) -> bool {
    let path = hash_of_path(file);
    known(place).lines().any(|line| line.split(' ').nth(1) == Some(&path))
}

fn known(place: &Place) -> String {
    fs::read_to_string(place.data_dir.join(FILE)).unwrap_or_default()
}

fn hash_of_path(file: &Path) -> String {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    hash(file.as_os_str().as_encoded_bytes())
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::{is_local, lies_in};

    #[test]
    fn local_is_this_machine() {
        for url in ["http://localhost:1234/v1", "http://127.0.0.1/v1", "http://[::1]:80/v1"] {
            assert!(is_local(url), "{url}");
        }
        for url in
            ["https://api.example.com/v1", "http://localhost.evil.example/", "http://127.0.0.1@evil.example/"]
        {
            assert!(!is_local(url), "{url}");
        }
        for url in
            ["http://127.0.0.2:7809\\@localhost/v1", "http://evil.example\\@[::1]/", "localhost:1234", ""]
        {
            assert!(!is_local(url), "{url}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_lies_where_it_leads() {
        let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(here.path().join("own.md"), "own").unwrap();
        std::fs::write(elsewhere.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join("secret"), here.path().join("prompt.md")).unwrap();
        assert!(lies_in(here.path(), "own.md") && lies_in(here.path(), "not there"));
        assert!(!lies_in(here.path(), "prompt.md"));
    }
}
