//! An agent of a configuration and a place.

mod agents;
pub(crate) mod counting;
mod echo;
mod gateway;
mod keyless;
mod missing_keys;
mod prompt;
mod telemetry;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use longhaul::agent::{Agent, AgentRules};
use longhaul::config::{AgentConfig, AgentSource, ModelConfig};
use longhaul::config_agent::{self, McpFailurePolicy};
use longhaul::sandbox::{Confinement, Sandbox, SandboxPolicy};
use longhaul::telemetry::Telemetry;
use longhaul::tools::ToolSet;
use longhaul::workspace::Workspace;
use longhaul_core::message::ModelOrigin;
use longhaul_core::run::ToolApproval;
use longhaul_providers::connect::{Kind, connect};
use longhaul_providers::http::{NetworkVariables, Secret};
use longhaul_providers::{DeclaredLimits, Limits, ModelEndpoint, SharedProvider, catalog_provider};
use reqwest::Url;

use crate::agent_file;
use crate::environment::CliEnvironment;
use crate::failure::{CommandError, Outcome};
use crate::term::out;

pub(crate) use agents::agents;
pub(crate) use gateway::{gateway, upstream_key};
pub(crate) use missing_keys::{unset_keys, unset_model_key};
pub(crate) use telemetry::telemetry;

/// The reason for refusing a tool call if no person can be asked.
const NO_PERSON: &str = "it needs a person's approval and no person can be asked here; the person can run this \
                         with --yes, or allow the tool under approvals.rules in longhaul.yml";

/// The reason for refusing a command line that a rule may forbid, if no person can be asked.
const UNCLEAR_COMMAND: &str = "its text does not show which commands it runs, a rule under approvals.rules may forbid \
                               them, and no person can be asked here; write the commands out, without variables";

/// The treatment of a tool call that needs a person's approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolApprovalMode {
    /// A person is asked.
    Person,
    /// A front end without a person to ask: calls in need of an approval are denied.
    Nobody,
    /// The call was allowed beforehand. A person is asked where a command may be one that a rule forbids.
    Allowed,
    /// The call was allowed beforehand, in a front end without a person to ask: a command that a rule may forbid is
    /// denied.
    AllowedUnattended,
}

impl ToolApprovalMode {
    /// Returns the rule for tool calls that need an approval.
    fn default_approval(self) -> ToolApproval {
        match self {
            Self::Person => ToolApproval::Ask,
            Self::Nobody => ToolApproval::Deny(NO_PERSON.to_owned()),
            Self::Allowed | Self::AllowedUnattended => ToolApproval::Allow,
        }
    }

    /// Returns the rule for commands whose text does not show whether a rule fits them.
    fn unclear_approval(self) -> ToolApproval {
        match self {
            Self::Person | Self::Allowed => ToolApproval::Ask,
            Self::Nobody | Self::AllowedUnattended => ToolApproval::Deny(UNCLEAR_COMMAND.to_owned()),
        }
    }

    /// Returns the rules of runs in this mode. The tools are those that approvals can name.
    fn agent_rules(self, config: &AgentConfig, tools: &ToolSet) -> AgentRules {
        let mut rules = config_agent::agent_rules(config, tools, self.default_approval());
        rules.unclear_approval = self.unclear_approval();
        rules
    }
}

/// Makes the agent. Asks the server for its limits, and MCP servers for their tools.
///
/// # Errors
/// Usage, for an unusable server or workspace. An MCP server that cannot be started, unless `missing`
/// says otherwise.
pub(crate) async fn agent(
    place: &CliEnvironment,
    config: &AgentConfig,
    asking: ToolApprovalMode,
    missing: McpFailurePolicy,
) -> Outcome<Agent> {
    // Declared limits go into the provider, and the catalogue around it: declared, then the server's, then the
    // catalogue's.
    let base = provider(place, &config.model, config_agent::declared_limits(config))?;
    let provider = catalog_provider::with_catalog_limits(base, &config.model.base_url);
    let limits = provider.limits().await;
    tracing::debug!(
        provider = config.model.provider.as_str(),
        model = %config.model.name,
        window = limits.window,
        source = %limits.source,
        "the limits of the model were looked up"
    );
    let counts = counting::counts(place, config, &provider.origin()).await?;
    let protected = protected(place);
    let workspace =
        Workspace::new(&place.workspace, &protected)?.with_agent_files(&agent_file::in_use(place));
    let sandbox = Arc::new(sandbox(place, config)?);
    say(&sandbox);
    let mut tools =
        ToolSet::builtin().choose_builtin(config.tools.enabled.as_deref(), &config.tools.disabled);
    let servers = &config.mcp_servers;
    let workspace = config_agent::add_mcp_servers(servers, workspace, &sandbox, &mut tools, missing).await?;
    // The rules come after the MCP servers, because approvals can name the tools of these servers.
    let mut rules = asking.agent_rules(config, &tools);
    (rules.policy.writer, rules.summariser) = writer::writer(place, config).await?;
    tracing::debug!(
        strategy = rules.policy.strategy.name(),
        enabled = rules.policy.enabled,
        counter = counts.counter.name(),
        tools = tools.specs().len(),
        "the agent is set up"
    );
    let hooks = config_agent::hook_set(&config.hooks, &workspace, &sandbox)
        .map_err(|error| CommandError::usage(error.to_string()))?;
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
        tool_limits: config_agent::tool_limits(config),
        rules,
        hooks,
        telemetry: Telemetry::default(),
    })
}

/// Returns the server's own limits of the model, without declared ones and without the catalogue. The first
/// value names the model.
///
/// # Errors
/// Usage, for an unusable server.
pub(crate) async fn server_limits(
    place: &CliEnvironment,
    model: &ModelConfig,
) -> Outcome<(ModelOrigin, Limits)> {
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

/// Lists the agent files that commands can change, one per line.
pub(crate) fn say_exposed(place: &CliEnvironment, sandbox: &Sandbox) {
    for file in &sandbox.report().agent_files {
        out::print_message(&format!(
            "note   commands can change the agent file {}, and that holds from the next start: keep it outside \
             the workspace, and name it with --config\n",
            place.shown(file)
        ));
    }
}

/// Returns the paths that tools never see: the sessions, and the person's own configuration, which may hold
/// keys.
fn protected(place: &CliEnvironment) -> Vec<PathBuf> {
    // A folder that does not exist has nothing to hide.
    let own = place.config_dir.iter().filter(|folder| folder.exists());
    own.chain([&place.data_dir]).cloned().collect()
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
    // A missing variable gives no key here. `check_key` below decides whether the server needs one.
    let variable = key_variable(place, model);
    endpoint.api_key = variable.and_then(|name| place.variable(name)).map(Secret::new);
    endpoint.key_variable = variable.map(str::to_owned);
    endpoint.variables = NetworkVariables::from_environment(&place.environment);
    config_agent::apply_endpoint(model, declared, &mut endpoint);
    let connected =
        // An address without a scheme is a frequent mistake, and the URL parser's own message does not name it.
        connect(kind, endpoint).map_err(|error| match suggest_base_url(&model.base_url, kind) {
            Some(meant) => CommandError::usage(format!(
                "`{}` is not the address of a server: did you mean {meant} ?",
                model.base_url
            )),
            None => CommandError::usage(error.to_string()),
        })?;
    Ok(match check_key(place, model) {
        Ok(()) => connected,
        // The agent starts all the same: its sessions can be read without a key.
        Err(why) => Arc::new(keyless::KeylessProvider::new(connected, declared, why.message().to_owned())),
    })
}

/// Returns the probable meaning of an address without `http://`. An address with a possible secret is
/// not repeated.
fn suggest_base_url(base_url: &str, kind: Kind) -> Option<String> {
    // A user and a password stand before `@`, and a query may hold a key.
    if base_url.contains("://")
        || base_url.contains(['@', '?'])
        || Url::parse(base_url).is_ok_and(|url| is_web_url(&url))
    {
        return None;
    }
    let mut url = Url::parse(&format!("http://{base_url}")).ok().filter(is_web_url)?;
    let own = Url::parse(kind.base_url()).ok()?;
    // Without a path the address lacks the version of the API, which the provider's own address has.
    if url.path() == "/" {
        url.set_path(own.path());
    }
    Some(url.as_str().trim_end_matches('/').to_owned())
}

fn is_web_url(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}

/// Returns the variable that holds the key, if the variable is set: the configured name, or
/// a usual one of the provider for its own server.
pub(crate) fn key_variable<'a>(place: &CliEnvironment, model: &'a ModelConfig) -> Option<&'a str> {
    let usual = model.provider.kind().map(|kind| kind.key_variables(&model.base_url)).unwrap_or_default();
    // The configured name comes first, and a usual name only helps if the configured one is not set.
    let names = model.api_key_env.as_deref().into_iter().chain(usual.iter().copied());
    names.into_iter().find(|name| place.variable(name).is_some())
}

/// Refuses to call a provider's own server without the needed key.
///
/// # Errors
/// Usage, with the variable to set.
pub(crate) fn check_key(place: &CliEnvironment, model: &ModelConfig) -> Outcome<()> {
    let Some(kind) = model.provider.kind() else { return Ok(()) };
    let usual = kind.key_variables(&model.base_url);
    // A server with no usual variable is not the provider's own, and it may need no key.
    if usual.is_empty() || key_variable(place, model).is_some() || has_key_header(model, kind) {
        return Ok(());
    }
    let provider = kind.as_str();
    let variable = model.api_key_env.as_deref().or(usual.first().copied()).unwrap_or_default();
    Err(CommandError::usage(format!(
        "{provider} needs a key, and {variable} is not set: set it, or name another variable with model.api_key_env"
    )))
}

/// Returns true if a configured header carries the key.
fn has_key_header(model: &ModelConfig, kind: Kind) -> bool {
    // `key_headers` has all headers of an authorised request. The version among them is no key.
    let names =
        kind.key_headers("").into_iter().map(|(name, _)| name).filter(|name| *name != "anthropic-version");
    names.chain(["authorization"]).any(|name| has_header(model, name))
}

fn has_header(model: &ModelConfig, name: &str) -> bool {
    model.headers.keys().any(|header| header.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests;
