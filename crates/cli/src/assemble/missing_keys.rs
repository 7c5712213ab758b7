//! Unset variables with which the file names a key.

use std::path::Path;

use longhaul::config::{AgentSource, ModelConfig};

use super::{gateway::as_model, key_variable};
use crate::agent_file::{self, ResolvedConfig};
use crate::environment::{AGENT_FILE, CliEnvironment};

/// Returns one line for each configured key that is not set: of the model, of other agents and of upstreams.
pub(crate) fn unset_keys(place: &CliEnvironment, loaded: &ResolvedConfig) -> Vec<String> {
    let config = &loaded.config;
    let agents = config.agents.iter().filter_map(|(name, agent)| {
        let AgentSource::Here(agent) = agent else { return None };
        let file = loaded.file.as_deref().map(|main| agent_file::file_of_agent(main, name));
        unset(place, &format!("the agent {name}"), file.as_deref(), &agent.model)
    });
    let upstreams = config.gateway.upstreams.iter().filter_map(|listed| {
        let whose = format!("the upstream {}", listed.name);
        unset(place, &whose, loaded.file.as_deref(), &as_model(listed))
    });
    unset_model_key(place, loaded).into_iter().chain(agents).chain(upstreams).collect()
}

/// Returns a line if the configured model's key is not set.
pub(crate) fn unset_model_key(place: &CliEnvironment, loaded: &ResolvedConfig) -> Option<String> {
    unset(place, "model", loaded.file.as_deref(), &loaded.config.model)
}

fn unset(place: &CliEnvironment, whose: &str, file: Option<&Path>, model: &ModelConfig) -> Option<String> {
    let named = model.api_key_env.as_ref()?;
    let instead = match key_variable(place, model) {
        Some(other) if other == named => return None,
        Some(other) => format!("{other} is used"),
        None => "no key is sent".to_owned(),
    };
    let file = file.map_or_else(|| AGENT_FILE.to_owned(), |file| place.shown(file));
    Some(format!("{named}, which api_key_env names for {whose} in {file}, is not set: {instead}"))
}
