//! An agent of a configuration and a place.

mod echo;
mod policy;
mod prompt;
mod rules;

use std::path::PathBuf;
use std::sync::Arc;

use longhaul::agent::Agent;
use longhaul::config::{Config, ModelConfig, ProviderKind};
use longhaul::sandbox::{Sandbox, SandboxPolicy};
use longhaul::tools::{ToolLimits, ToolSet};
use longhaul::workspace::Workspace;
use longhaul_core::estimate::Counter;
use longhaul_providers::http::Secret;
use longhaul_providers::openai_chat::{Config as ChatConfig, OpenAiChat};
use longhaul_providers::{Declared, Limits, SharedProvider};

use crate::failure::{Failure, Outcome};
use crate::place::Place;

/// Where OpenAI's own models are.
const OPENAI: &str = "https://api.openai.com/";

/// The variable its key is usually in.
const OPENAI_KEY: &str = "OPENAI_API_KEY";

/// What happens to a tool call that a person would be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// A person is asked.
    Person,
    /// Nobody is there: it is denied.
    Nobody,
    /// It was allowed beforehand.
    Allowed,
}

/// Makes the agent; asks the server for its limits.
///
/// # Errors
/// Usage, for a server or workspace that cannot be used.
pub(crate) async fn agent(place: &Place, config: &Config, asking: Asking) -> Outcome<Agent> {
    let provider = provider(place, &config.model, declared(config))?;
    let limits = provider.limits().await;
    let protected = protected(place);
    let workspace = Workspace::new(&place.workspace, &protected)?;
    let tools = ToolSet::builtin();
    let rules = rules::rules(config, &tools, asking);
    Ok(Agent {
        system: prompt::system(config, &workspace),
        provider,
        limits,
        counter: Counter::default(),
        tools,
        sandbox: Arc::new(sandbox(place, config)?),
        workspace: Arc::new(workspace),
        tool_limits: tool_limits(config),
        rules,
    })
}

/// What is known of the model's limits; asks the server.
///
/// # Errors
/// Usage, for a server that cannot be used.
pub(crate) async fn limits(place: &Place, config: &Config) -> Outcome<Limits> {
    Ok(provider(place, &config.model, declared(config))?.limits().await)
}

/// What confines the agent's commands.
///
/// # Errors
/// The scratch folder cannot be made.
pub(crate) fn sandbox(place: &Place, config: &Config) -> Outcome<Sandbox> {
    let mut policy = SandboxPolicy::new(&place.workspace, &place.scratch);
    policy.protected = protected(place);
    policy.home.clone_from(&place.home);
    policy.environment.clone_from(&place.environment);
    policy.secret = config.model.api_key_env.iter().cloned().chain([OPENAI_KEY.to_owned()]).collect();
    Ok(Sandbox::new(policy)?)
}

/// What tools never see: the sessions, and the person's own configuration, which may hold keys.
fn protected(place: &Place) -> Vec<PathBuf> {
    let own = place.config_dir.iter().filter(|folder| folder.exists());
    own.chain([&place.data_dir]).cloned().collect()
}

fn tool_limits(config: &Config) -> ToolLimits {
    ToolLimits {
        read_max_lines: config.tools.read_max_lines,
        read_max_line_chars: config.tools.read_max_line_length,
        grep_max_matches: config.tools.grep_max_matches,
        bash_timeout: config.tools.bash_timeout,
        // The outcome's own lines come on top.
        capture_bytes: usize::try_from(config.blobs.max_bytes)
            .unwrap_or(usize::MAX)
            .saturating_sub(64 * 1024)
            .max(1),
        ..ToolLimits::default()
    }
}

/// What a person declared of the model: beside it, or in the list of models.
fn declared(config: &Config) -> Declared {
    let listed = config.models.get(&config.model.name).copied().unwrap_or_default();
    Declared {
        window: config.model.context_window.or(listed.window),
        max_output: config.model.max_output_tokens.or(listed.max_output),
        tools: None,
        images: None,
    }
}

fn provider(place: &Place, model: &ModelConfig, declared: Declared) -> Outcome<SharedProvider> {
    if model.provider == ProviderKind::Scripted {
        return Ok(Arc::new(echo::model(declared.window, declared.max_output)));
    }
    let mut chat = ChatConfig::new(&model.base_url, &model.name);
    chat.provider = model.provider.as_str().to_owned();
    chat.api_key = key_variable(place, model).and_then(|name| place.variable(name)).map(Secret::new);
    chat.headers =
        model.headers.iter().map(|(name, value)| (name.clone(), Secret::new(value.clone()))).collect();
    chat.body = model.body.clone();
    chat.declared = declared;
    let client = OpenAiChat::new(chat).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Arc::new(client))
}

/// The variable that the key is taken from, if it is set: the one that the configuration names, or OpenAI's usual
/// one for OpenAI's own server.
pub(crate) fn key_variable<'a>(place: &Place, model: &'a ModelConfig) -> Option<&'a str> {
    let usual = model.base_url.starts_with(OPENAI).then_some(OPENAI_KEY);
    let names = model.api_key_env.as_deref().into_iter().chain(usual);
    names.into_iter().find(|name| place.variable(name).is_some())
}
