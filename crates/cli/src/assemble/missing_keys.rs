//! Variables that the file names for a key and that are not set.

use longhaul::config::{AgentConfig, AgentSource, ModelConfig};

use super::{gateway::as_model, key_variable};
use crate::environment::CliEnvironment;

/// Returns one line for each key that is configured and not set.
pub(crate) fn unset_keys(place: &CliEnvironment, config: &AgentConfig) -> Vec<String> {
    let own = ("model".to_owned(), config.model.clone());
    let agents = config.agents.iter().filter_map(|(name, agent)| match agent {
        AgentSource::Here(agent) => Some((format!("the agent {name}"), agent.model.clone())),
        AgentSource::File(_) => None,
    });
    let listed = config.gateway.upstreams.iter();
    let upstreams = listed.map(|listed| (format!("the upstream {}", listed.name), as_model(listed)));
    let all = std::iter::once(own).chain(agents).chain(upstreams);
    all.filter_map(|(whose, model)| unset(place, &whose, &model)).collect()
}

fn unset(place: &CliEnvironment, whose: &str, model: &ModelConfig) -> Option<String> {
    let named = model.api_key_env.as_ref()?;
    let instead = match key_variable(place, model) {
        Some(other) if other == named => return None,
        Some(other) => format!("{other} is used"),
        None => "no key is sent".to_owned(),
    };
    Some(format!("{named}, which api_key_env names for {whose}, is not set: {instead}"))
}
