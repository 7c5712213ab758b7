//! Decides on the demands of an agent file that was merely found.
//!
//! A file in a stranger's folder could start programs, send the conversation or a key to a stranger's server,
//! read any file into the prompt, or let tools run unasked. Such a file is used only after a person has named
//! it once with `--config`. Its content is remembered, so a changed file has to be named again. Settings that
//! the person's own file closes stay closed in any case ([`AgentConfig::restricted_by`]).

use std::fs;
use std::io::Write as _;
use std::path::{Component, Path};

use longhaul::config::{
    AgentConfig, AgentSource, Decision, GatewayConfig, GatewayCredentials, HookTarget, McpTransport,
    ModelConfig, ProviderKind, SandboxConfig, ServerConfig, SummaryWriter, SystemPrompt, TelemetryConfig,
    TokenCounter, UpstreamConfig, UserConfigFile,
};
pub(crate) use longhaul::config_agent::is_this_machine as is_local;
use longhaul::io_error::io_error_text;
use longhaul::sandbox::ChildLimits;

use crate::assemble;
use crate::data;
use crate::environment::{CliEnvironment, CommandLineOverrides};
use crate::failure::{CommandError, Outcome};
use crate::term::exact::exact;

/// The file of trusted contents: a line has the hashes of the content and of the file's path.
const FILE: &str = "trusted";

/// Remembers a file named by a person.
///
/// # Errors
/// The data folder cannot be written.
pub(crate) fn remember(
    place: &CliEnvironment,
    file: &Path,
    text: &str,
    config: &AgentConfig,
    own: Option<&UserConfigFile>,
) -> Outcome<()> {
    // The path is only for the message that a trusted file has changed.
    let line = format!("{} {}", hash(text.as_bytes()), hash_of_path(file));
    // Judged without the command line, because later calls may use the file without the same options.
    if describe_trust_request(place, config, &CommandLineOverrides::default(), own).is_none()
        || known(place).lines().any(|known| known == line)
    {
        return Ok(());
    }
    // The folder may not exist yet, and other users must not read the list of trusted files.
    data::make_private(&place.data_dir)?;
    tracing::info!(file = %file.display(), "the agent file is trusted from now on, because it was named");
    append_line(&place.data_dir.join(FILE), &line).map_err(|error| {
        CommandError::new(format!(
            "{} cannot be written: {}",
            place.data_dir.display(),
            io_error_text(&error)
        ))
    })
}

fn append_line(path: &Path, line: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{line}")
}

/// Refuses a found file with demands beyond the given trust.
///
/// # Errors
/// Usage, with the file's demands and the way to allow them.
pub(crate) fn check(
    place: &CliEnvironment,
    file: &Path,
    text: &str,
    config: &AgentConfig,
    own: Option<&UserConfigFile>,
) -> Outcome<()> {
    let wanted =
        describe_trust_request(place, config, &place.overrides, own).filter(|_| !is_trusted(place, text));
    let Some(what) = wanted else { return Ok(()) };
    tracing::debug!(file = %file.display(), "the agent file that was found is refused until it is trusted");
    let why = if was_trusted(place, file) {
        "it has changed since you trusted it. Read it again"
    } else {
        "you have not said that you trust it. Read it"
    };
    // The description quotes the file, which must not hide anything from the person who decides.
    let (file, what) = (file.display(), exact(&what));
    Err(CommandError::untrusted(format!("{file} {what}, and {why}; then name it once: --config {file}")))
}

/// Returns the demands of a file that are forbidden to a stranger's file. `own` is the person's own file.
/// Sections are taken apart by name: a new key does not compile until its author has decided what a stranger's
/// file may do with it.
fn describe_trust_request(
    place: &CliEnvironment,
    config: &AgentConfig,
    overrides: &CommandLineOverrides,
    own: Option<&UserConfigFile>,
) -> Option<String> {
    let AgentConfig {
        // The keys below ask for nothing: they only say how the conversation is kept, counted and repeated,
        // and what the closures of the person's own file narrow (`AgentConfig::restricted_by`).
        name: _,
        retry: _,
        models: _,
        run: _,
        tools: _,
        blobs: _,
        system_prompt,
        model,
        context,
        hooks,
        sandbox,
        approvals,
        mcp_servers,
        gateway,
        server,
        telemetry,
        agents,
    } = config;
    if let Some(rule) = approvals.rules.iter().find(|rule| rule.decision == Decision::Allow) {
        return Some(format!("lets the tool `{}` run without asking", rule.tool));
    }
    if let Some((name, server)) = mcp_servers.iter().next() {
        return Some(match &server.transport {
            McpTransport::Command(command) => {
                format!("starts the program `{}` as the MCP server `{name}`", command.program)
            }
            McpTransport::Http(remote) => {
                format!("takes tools from {} as the MCP server `{name}`", remote.server())
            }
        });
    }
    if let Some((name, hook)) = hooks.iter().next() {
        return Some(match &hook.target {
            HookTarget::Command(line) => format!("runs the command `{line}` as the hook `{name}`"),
            HookTarget::Url(_) => {
                format!("asks {} as the hook `{name}`", hook.target.server().unwrap_or_default())
            }
        });
    }
    if let SystemPrompt::File(path) = system_prompt
        && is_outside_workspace(place, path)
    {
        return Some(format!("reads {path} into the prompt"));
    }
    if let TokenCounter::File(path) = &context.token_counter
        && is_outside_workspace(place, &path.to_string_lossy())
    {
        return Some(format!("reads {} as a tokenizer", path.display()));
    }
    if let Some(what) = agents.values().find_map(|agent| agent_wants(place, agent, own)) {
        return Some(what);
    }
    if let SummaryWriter::Own(writer) = &context.compression.options.summarize_with
        && let Some(what) = sends_to_summary_writer(place, writer, own)
    {
        return Some(what);
    }
    describe_raised_limit(sandbox)
        .or_else(|| describe_server_exposure(server))
        .or_else(|| describe_telemetry_target(telemetry))
        .or_else(|| passes_on(place, gateway, own))
        .or_else(|| sends(place, model, overrides, own))
}

/// Returns the first limit of commands above its default in a file.
fn describe_raised_limit(sandbox: &SandboxConfig) -> Option<String> {
    // The network is open by default.
    let SandboxConfig { network: _, limits } = sandbox;
    let ChildLimits { cpu_seconds, memory_bytes, file_bytes, processes, open_files } = *limits;
    let usual = ChildLimits::default();
    let all = [
        ("cpuSeconds", cpu_seconds, usual.cpu_seconds),
        ("memoryBytes", memory_bytes, usual.memory_bytes),
        ("fileBytes", file_bytes, usual.file_bytes),
        ("processes", processes, usual.processes),
        ("openFiles", open_files, usual.open_files),
    ];
    let is_above =
        // No limit is the highest one.
        |limit: Option<u64>, usual: Option<u64>| limit.unwrap_or(u64::MAX) > usual.unwrap_or(u64::MAX);
    let (name, ..) = all.into_iter().find(|(_, limit, usual)| is_above(*limit, *usual))?;
    Some(format!("raises the limit sandbox.limits.{name} of commands"))
}

/// Returns the telemetry receiver for a file's reports of the agent's work.
fn describe_telemetry_target(telemetry: &TelemetryConfig) -> Option<String> {
    let TelemetryConfig { otlp, content } = telemetry;
    let url = otlp.as_deref()?;
    if *content {
        Some(format!("sends the conversation to the collector {}", server_of(url)))
    } else if is_local(url) {
        None
    } else {
        Some(format!("tells {} what the agent does", server_of(url)))
    }
}

/// Returns the server to which the gateway of a file passes conversations and keys.
fn passes_on(
    place: &CliEnvironment,
    gateway: &GatewayConfig,
    own: Option<&UserConfigFile>,
) -> Option<String> {
    let GatewayConfig {
        upstreams,
        midstream: _,
        notices_in_text: _,
        recall: _,
        defer_tools: _,
        auth: _,
        credentials,
    } = gateway;
    let is_own =
        |upstream: &UpstreamConfig| own.is_some_and(|own| own.config.gateway.upstreams.contains(upstream));
    let names_servers =
        own.is_some_and(|own| own.names_a_model() || !own.config.gateway.upstreams.is_empty());
    let asked = upstreams.iter().filter(|upstream| !is_own(upstream)).find_map(|upstream| {
        let server = server_of(&upstream.base_url);
        match (assemble::upstream_key(place, upstream), is_local(&upstream.base_url)) {
            (Some(key), _) => Some(format!("sends the key in {key} to {server}")),
            (None, false) => Some(format!("sends conversations to {server}")),
            (None, true) => names_servers
                .then(|| format!("sends conversations to {server}, which is not in your own file")),
        }
    });
    asked.or_else(|| {
        (*credentials == GatewayCredentials::Forward)
            .then(|| "shows the keys of the gateway's clients to the model's server".to_owned())
    })
}

/// Returns the server to which a file sends the conversation or a key. A server of this machine gets the
/// conversation without a question, unless the person's own file names another. It never gets a key: the
/// listener there may not be the model's server.
fn sends(
    place: &CliEnvironment,
    model: &ModelConfig,
    overrides: &CommandLineOverrides,
    own: Option<&UserConfigFile>,
) -> Option<String> {
    let is_own = own.is_some_and(|own| {
        let own = &own.config.model;
        (own.provider, &own.base_url, &own.api_key_env)
            == (model.provider, &model.base_url, &model.api_key_env)
    });
    // The person's own file names the same server and key, so nothing new is disclosed.
    if is_own {
        return None;
    }
    // The scripted model has no server.
    if model.provider == ProviderKind::Scripted && overrides.provider.is_none() {
        return None;
    }
    let url = used_address(model, overrides);
    // Judged before the address, because a key is disclosed to a local listener too. An unset variable
    // discloses nothing.
    if let Some(key) = model.api_key_env.as_deref().filter(|name| place.variable(name).is_some()) {
        let url = url.or(overrides.base_url.as_deref()).unwrap_or("the model's server");
        return Some(format!("sends the key in {key} to {url}"));
    }
    let url = url?;
    let usual = AgentConfig::default().model;
    let says_where = model.base_url != usual.base_url || model.provider != usual.provider;
    let names_another = says_where && own.is_some_and(UserConfigFile::names_a_model);
    if !is_local(url) {
        Some(format!("sends the conversation to {url}"))
    } else if names_another {
        Some(format!("sends the conversation to {url}, not to the server of your own file"))
    } else {
        None
    }
}

/// Returns the server to which a file sends the conversation for summaries. The command line changes nothing there.
fn sends_to_summary_writer(
    place: &CliEnvironment,
    writer: &ModelConfig,
    own: Option<&UserConfigFile>,
) -> Option<String> {
    let is_own = own.is_some_and(|own| match &own.config.context.compression.options.summarize_with {
        SummaryWriter::Own(known) => **known == *writer,
        _ => false,
    });
    if is_own { None } else { sends(place, writer, &CommandLineOverrides::default(), own) }
}

/// Returns the address in a file, or the address of the named provider, unless the command line names another.
fn used_address<'a>(model: &'a ModelConfig, overrides: &CommandLineOverrides) -> Option<&'a str> {
    let named = overrides.provider.as_deref().and_then(ProviderKind::from_name);
    let is_used = overrides.base_url.is_none() && named.is_none_or(|provider| provider == model.provider);
    (is_used && model.provider != ProviderKind::Scripted).then_some(model.base_url.as_str())
}

/// Returns the demands of a file's agent, without those of the command line. An agent in a file of its own is
/// judged by itself.
fn agent_wants(place: &CliEnvironment, agent: &AgentSource, own: Option<&UserConfigFile>) -> Option<String> {
    match agent {
        AgentSource::Here(config) => {
            describe_trust_request(place, config, &CommandLineOverrides::default(), own)
        }
        AgentSource::File(path) if is_outside_workspace(place, path) => {
            Some(format!("reads {path} as an agent"))
        }
        AgentSource::File(_) => None,
    }
}

/// Returns whether a path leads out of the workspace.
fn is_outside_workspace(place: &CliEnvironment, path: &str) -> bool {
    let inside =
        Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    !inside || !lies_in(&place.workspace, path)
}

/// Returns the settings by which a file opens the server to others, or acts on them.
fn describe_server_exposure(server: &ServerConfig) -> Option<String> {
    let ServerConfig {
        addr,
        token_file,
        allowed_hosts,
        allowed_origins,
        max_body_bytes: _,
        rate_limit: _,
        keep_sessions,
    } = server;
    if !addr.ip().is_loopback() {
        return Some(format!("lets other machines reach the server at {addr}"));
    }
    if let Some(path) = token_file {
        return Some(format!("takes the server's token from {path}"));
    }
    if keep_sessions.is_some() {
        return Some("has old sessions deleted".to_owned());
    }
    let host = allowed_hosts.first().map(|host| format!("lets the server answer to the name {host}"));
    host.or_else(|| allowed_origins.first().map(|origin| format!("lets pages of {origin} ask the server")))
}

/// Returns only the server of an address, because a password may stand before it.
pub(crate) fn server_of(url: &str) -> String {
    let url = reqwest::Url::parse(url);
    url.map_or_else(|_| "a collector".to_owned(), |url| url.origin().ascii_serialization())
}

/// Returns whether a file lies in a folder, with links followed. A missing file counts as inside: its use fails later.
fn lies_in(folder: &Path, path: &str) -> bool {
    match (folder.canonicalize(), folder.join(path).canonicalize()) {
        (Ok(folder), Ok(file)) => file.starts_with(folder),
        _ => true,
    }
}

/// Returns whether a content is trusted, in whatever file.
fn is_trusted(place: &CliEnvironment, text: &str) -> bool {
    let content = hash(text.as_bytes());
    // By content alone, so that a moved or copied file stays trusted.
    known(place).lines().any(|line| line.split(' ').next() == Some(&content))
}

/// Returns whether the file was trusted with some content.
fn was_trusted(place: &CliEnvironment, file: &Path) -> bool {
    let path = hash_of_path(file);
    known(place).lines().any(|line| line.split(' ').nth(1) == Some(&path))
}

fn known(place: &CliEnvironment) -> String {
    // A missing or unreadable list trusts nothing, which is the safe reading.
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
