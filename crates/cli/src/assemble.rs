//! An agent of a configuration and a place.

mod agents;
pub(crate) mod counting;
mod echo;
mod gateway;
mod hooks;
mod keyless;
mod missing_keys;
mod policy;
mod prompt;
mod rules;
mod servers;
mod telemetry;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use longhaul::agent::Agent;
use longhaul::config::{
    AgentConfig, AgentSource, FirstByteTimeout, ModelConfig, ModelLimits, ReasoningRetention,
};
use longhaul::sandbox::{Confinement, Sandbox, SandboxPolicy};
use longhaul::telemetry::Telemetry;
use longhaul::tools::{ToolLimits, ToolSet};
use longhaul::workspace::Workspace;
use longhaul_core::message::ModelOrigin;
use longhaul_providers::connect::{Kind, connect};
use longhaul_providers::http::{HttpTimeouts, NetworkVariables, Secret};
use longhaul_providers::{DeclaredLimits, Limits, ModelEndpoint, ReasoningScope, SharedProvider, catalogued};
use reqwest::Url;

use crate::agent_file;
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, Outcome};
use crate::term::out;

pub(crate) use agents::agents;
pub(crate) use gateway::{gateway, upstream_key};
pub(crate) use missing_keys::unset_keys;
pub(crate) use policy::{policy, rates};
pub(crate) use servers::McpFailurePolicy;
pub(crate) use telemetry::telemetry;

/// The treatment of a tool call that needs a person's approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolApprovalMode {
    /// A person is asked.
    Person,
    /// A front end that can ask nobody: calls that need an approval are denied.
    Nobody,
    /// The call was allowed beforehand.
    Allowed,
}

/// Makes the agent. Asks the server for its limits, and MCP servers for their tools.
///
/// # Errors
/// Usage, for a server or workspace that cannot be used. An MCP server that cannot be started, unless `missing`
/// says otherwise.
pub(crate) async fn agent(
    place: &CliEnvironment,
    config: &AgentConfig,
    asking: ToolApprovalMode,
    missing: McpFailurePolicy,
) -> Outcome<Agent> {
    let base = provider(place, &config.model, declared(config))?;
    let provider = catalogued::with_catalog_limits(base, &config.model.base_url);
    let limits = provider.limits().await;
    let counts = counting::counts(place, config, &provider.origin()).await?;
    let protected = protected(place);
    let workspace =
        Workspace::new(&place.workspace, &protected)?.with_agent_files(&agent_file::in_use(place));
    let sandbox = Arc::new(sandbox(place, config)?);
    let workspace = servers::closed(workspace, config, &sandbox);
    say(&sandbox);
    let mut tools =
        ToolSet::builtin().choose_builtin(config.tools.enabled.as_deref(), &config.tools.disabled);
    servers::add(&mut tools, config, &workspace, &sandbox, missing).await?;
    let mut rules = rules::rules(config, &tools, asking);
    (rules.policy.writer, rules.summariser) = writer::writer(place, config).await?;
    let hooks = hooks::hooks(&config.hooks, &workspace, &sandbox)?;
    Ok(Agent {
        system: prompt::system(config, &workspace, limits.window, &counts.counter),
        provider,
        limits,
        counter: counts.counter,
        counting: counts.counting,
        calibrations: counts.calibrations,
        tools,
        sandbox,
        workspace: Arc::new(workspace),
        tool_limits: tool_limits(config),
        rules,
        hooks,
        telemetry: Telemetry::default(),
    })
}

/// Returns the server's own limits of the model, without declared ones and without the catalogue. The first
/// value names the model.
///
/// # Errors
/// Usage, for a server that cannot be used.
pub(crate) async fn said(place: &CliEnvironment, model: &ModelConfig) -> Outcome<(ModelOrigin, Limits)> {
    let provider = provider(place, model, DeclaredLimits::default())?;
    Ok((provider.origin(), provider.limits().await))
}

/// Builds the sandbox for the agent's commands.
///
/// # Errors
/// The scratch folder cannot be made.
pub(crate) fn sandbox(place: &CliEnvironment, config: &AgentConfig) -> Outcome<Sandbox> {
    let mut policy = SandboxPolicy::new(&place.workspace, &place.scratch);
    policy.protected = protected(place);
    policy.agent_files = agent_file::in_use(place);
    policy.home.clone_from(&place.home);
    policy.environment.clone_from(&place.environment);
    (policy.network, policy.limits) = (config.sandbox.network, config.sandbox.limits);
    // A command of one agent must not see the key of any other agent or upstream either.
    let usual_keys = Kind::all_key_variables().map(str::to_owned);
    let beside = config.agents.values().filter_map(|agent| match agent {
        AgentSource::Here(agent) => agent.model.api_key_env.clone(),
        AgentSource::File(_) => None,
    });
    let upstreams = config.gateway.upstreams.iter().filter_map(|upstream| upstream.api_key_env.clone());
    policy.secret =
        config.model.api_key_env.iter().cloned().chain(beside).chain(upstreams).chain(usual_keys).collect();
    Ok(Sandbox::new(policy)?)
}

/// Logs the confinement of commands, as a warning if there is none.
fn say(sandbox: &Sandbox) {
    let (status, report) = (sandbox.status(), sandbox.report());
    if matches!(status.confinement, Confinement::None { .. }) {
        tracing::warn!("commands are {status}: {}", report.open.join("; "));
    } else {
        tracing::info!(limits = %report.limits, network = ?report.network, "commands are {status}; not guarded: {}", report.open.join("; "));
    }
}

/// Says which agent files commands can change, if there are any: in a line each.
pub(crate) fn say_exposed(place: &CliEnvironment, sandbox: &Sandbox) {
    for file in &sandbox.report().agent_files {
        out::told(&format!(
            "note   commands can change the agent file {}, and that holds from the next start: keep it outside \
             the workspace, and name it with --config\n",
            place.shown(file)
        ));
    }
}

/// Returns the paths that tools never see: the sessions, and the person's own configuration, which may hold
/// keys.
fn protected(place: &CliEnvironment) -> Vec<PathBuf> {
    let own = place.config_dir.iter().filter(|folder| folder.exists());
    own.chain([&place.data_dir]).cloned().collect()
}

fn tool_limits(config: &AgentConfig) -> ToolLimits {
    ToolLimits {
        read_max_lines: config.tools.read_max_lines,
        read_max_line_chars: config.tools.read_max_line_length,
        grep_max_matches: config.tools.grep_max_matches,
        bash_timeout: config.tools.bash_timeout,
        // A captured output is stored as a blob together with the lines that the tool adds about its end.
        capture_bytes: usize::try_from(config.blobs.max_bytes)
            .unwrap_or(usize::MAX)
            .saturating_sub(64 * 1024)
            .max(1),
        ..ToolLimits::default()
    }
}

/// Returns the limits that a person declared for the model: beside the model, or in the list of models.
pub(crate) fn declared(config: &AgentConfig) -> DeclaredLimits {
    let listed = listed(config, &config.model.name);
    DeclaredLimits {
        window: config.model.context_window.or(listed.window),
        max_output: config.model.max_output_tokens.or(listed.max_output),
        ..listed
    }
}

/// Returns the limits that the list of models declares for one model.
pub(crate) fn listed(config: &AgentConfig, model: &str) -> DeclaredLimits {
    declared_from_limits(&config.models.get(model).copied().unwrap_or_default())
}

/// Converts limits of the configuration into the providers' type.
fn declared_from_limits(listed: &ModelLimits) -> DeclaredLimits {
    let retention = |kept| match kept {
        ReasoningRetention::Never => ReasoningScope::Never,
        ReasoningRetention::Turn => ReasoningScope::Turn,
        ReasoningRetention::Always => ReasoningScope::Always,
    };
    DeclaredLimits {
        window: listed.window,
        max_output: listed.max_output,
        tools: listed.tools,
        images: listed.images,
        files: listed.files,
        prefill: listed.prefill,
        reasoning: listed.reasoning_retention.map(retention),
    }
}

/// Returns the waits of the server at `base_url`.
fn timeouts(base_url: &str, first_byte: FirstByteTimeout) -> HttpTimeouts {
    let usual = HttpTimeouts::for_server(base_url);
    match first_byte {
        FirstByteTimeout::Auto => usual,
        FirstByteTimeout::Unlimited => HttpTimeouts { first_byte: None, ..usual },
        FirstByteTimeout::After(limit) => HttpTimeouts { first_byte: Some(limit), ..usual },
    }
}

fn provider(
    place: &CliEnvironment,
    model: &ModelConfig,
    declared: DeclaredLimits,
) -> Outcome<SharedProvider> {
    let Some(kind) = model.provider.kind() else {
        return Ok(Arc::new(echo::model(declared.window, declared.max_output)));
    };
    let mut endpoint = ModelEndpoint::new(kind.as_str(), &model.base_url, &model.name);
    endpoint.api_key = key_variable(place, model).and_then(|name| place.variable(name)).map(Secret::new);
    endpoint.headers =
        model.headers.iter().map(|(name, value)| (name.clone(), Secret::new(value.clone()))).collect();
    endpoint.body = model.body.clone();
    endpoint.timeouts = timeouts(&model.base_url, model.timeout);
    endpoint.variables = NetworkVariables::from_environment(&place.environment);
    endpoint.declared = declared;
    let connected =
        connect(kind, endpoint).map_err(|error| match suggest_base_url(&model.base_url, kind) {
            Some(meant) => CommandError::usage(format!(
                "`{}` is no address of a server: did you mean {meant} ?",
                model.base_url
            )),
            None => CommandError::usage(error.to_string()),
        })?;
    Ok(match check_key(place, model) {
        Ok(()) => connected,
        Err(why) => Arc::new(keyless::KeylessProvider::new(connected, declared, why.message().to_owned())),
    })
}

/// Returns the address that was probably meant by one without `http://`. An address that may hold a secret is
/// not repeated.
fn suggest_base_url(base_url: &str, kind: Kind) -> Option<String> {
    let is_web = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    if base_url.contains("://")
        || base_url.contains(['@', '?'])
        || Url::parse(base_url).is_ok_and(|url| is_web(&url))
    {
        return None;
    }
    let mut url = Url::parse(&format!("http://{base_url}")).ok().filter(is_web)?;
    let own = Url::parse(kind.base_url()).ok()?;
    if url.path() == "/" {
        url.set_path(own.path());
    }
    Some(url.as_str().trim_end_matches('/').to_owned())
}

/// Returns the variable that holds the key, if the variable is set: the one that the configuration names, or
/// a usual one of the provider for its own server.
pub(crate) fn key_variable<'a>(place: &CliEnvironment, model: &'a ModelConfig) -> Option<&'a str> {
    let usual = model.provider.kind().map(|kind| kind.key_variables(&model.base_url)).unwrap_or_default();
    let names = model.api_key_env.as_deref().into_iter().chain(usual.iter().copied());
    names.into_iter().find(|name| place.variable(name).is_some())
}

/// Refuses to call a provider's own server without the key that it needs.
///
/// # Errors
/// Usage, with the variable to set.
pub(crate) fn check_key(place: &CliEnvironment, model: &ModelConfig) -> Outcome<()> {
    let Some(kind) = model.provider.kind() else { return Ok(()) };
    let usual = kind.key_variables(&model.base_url);
    let carries = |name: &str| model.headers.keys().any(|header| header.eq_ignore_ascii_case(name));
    // `key_headers` has all headers of an authorised request. The version among them is no key.
    let is_key = |name: &str| name != "anthropic-version" && carries(name);
    let by_header = || carries("authorization") || kind.key_headers("").iter().any(|(name, _)| is_key(name));
    if usual.is_empty() || key_variable(place, model).is_some() || by_header() {
        return Ok(());
    }
    let provider = kind.as_str();
    let variable = model.api_key_env.as_deref().or(usual.first().copied()).unwrap_or_default();
    Err(CommandError::usage(format!(
        "{provider} needs a key, and {variable} is not set: set it, or name another variable with model.api_key_env"
    )))
}

#[cfg(test)]
mod tests {
    use super::{Kind, suggest_base_url};

    #[test]
    fn an_address_without_its_scheme_is_guessed() {
        let chat = |url| suggest_base_url(url, Kind::OpenAiCompatible);
        assert_eq!(chat("localhost:1234").as_deref(), Some("http://localhost:1234/v1"));
        assert_eq!(chat("10.0.0.7:8000/").as_deref(), Some("http://10.0.0.7:8000/v1"));
        assert_eq!(chat("box/openai/v1/").as_deref(), Some("http://box/openai/v1"));
        assert_eq!(
            suggest_base_url("localhost:11434", Kind::Ollama).as_deref(),
            Some("http://localhost:11434")
        );
        for url in [
            "",
            "http://localhost:1234",
            "ftp://localhost",
            "two words",
            "me:secret@box:1234",
            "box?key=secret",
        ] {
            assert_eq!(chat(url), None, "{url}");
        }
    }
}
