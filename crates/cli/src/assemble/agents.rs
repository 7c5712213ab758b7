//! The agents of a configuration: the main one and the others.

use std::sync::{Arc, Mutex, PoisonError};

use longhaul::agent::{Agent, ServedModel};
use longhaul::agents::{AgentRegistry, BoxFuture, ModelDirectory};
use longhaul::calibration::CalibrationStore;
use longhaul::config::{AgentConfig, AgentSource, ModelConfig, ProviderKind};
use longhaul::config_agent::{self, McpFailurePolicy};
use longhaul_providers::catalog_provider;

use super::{ToolApprovalMode, check_key, counting, provider};
use crate::agent_file::ResolvedConfig;
use crate::environment::CliEnvironment;
use crate::failure::Outcome;
use crate::model_discovery::{self, ServerProbeResult};

/// Makes the agents beside `own`. An unusable agent stays in the registry, with the reason.
pub(crate) async fn agents(
    place: &CliEnvironment,
    config: &AgentConfig,
    own: Agent,
    asking: ToolApprovalMode,
) -> AgentRegistry {
    let calibrations = Arc::clone(&own.calibrations);
    let mut agents = AgentRegistry::new(&config.name, own);
    for (name, source) in &config.agents {
        // `agent_file` has read the files of agents together with the file that names them.
        let AgentSource::Here(other) = source else { continue };
        let made = made(place, &beside(config, name, other), asking)
            .await
            // All agents share one file of calibrations. Two stores of it would overwrite each other.
            .map(|agent| Agent { calibrations: Arc::new(agent.calibrations.beside(&calibrations)), ..agent });
        agents = agents.with(
            name,
            &other.model.name,
            made.map_err(|failure| {
                tracing::warn!("the agent {name} cannot be used: {}", failure.message());
                failure.message().to_owned()
            }),
        );
    }
    // The scripted model has no server that could list others.
    if config.model.provider == ProviderKind::Scripted {
        return agents;
    }
    let listed = ConfiguredServerModels {
        place: place.clone(),
        config: config.clone(),
        calibrations,
        last_list: Mutex::default(),
    };
    agents.with_models(Arc::new(listed))
}

/// Returns an agent's configuration with the others beside it. The agent's tools must not see the keys of the
/// others, and one of them may prune for it.
fn beside(main: &AgentConfig, name: &str, agent: &AgentConfig) -> AgentConfig {
    let mut others = main.agents.clone();
    others.remove(name);
    let own = AgentConfig { agents: Default::default(), ..main.clone() };
    others.insert(main.name.clone(), AgentSource::Here(Box::new(own)));
    AgentConfig { name: name.to_owned(), agents: others, ..agent.clone() }
}

async fn made(place: &CliEnvironment, config: &AgentConfig, asking: ToolApprovalMode) -> Outcome<Agent> {
    // As in the main file: an agent that says nothing of its model gets the model that is found.
    let says_model = config.model != AgentConfig::default().model;
    let loaded = ResolvedConfig {
        config: config.clone(),
        file: None,
        names_a_server: says_model,
        names_a_model: says_model,
        held: Vec::new(),
    };
    let config = model_discovery::complete(place, loaded).await?.config;
    check_key(place, &config.model)?;
    // Boxed: it is deep, and one agent is made after another.
    Box::pin(super::agent(place, &config, asking, McpFailurePolicy::Refuse)).await
}

/// The models of the server of a configuration.
struct ConfiguredServerModels {
    place: CliEnvironment,
    config: AgentConfig,
    calibrations: Arc<CalibrationStore>,
    /// The models in the server's last answer.
    last_list: Mutex<Vec<String>>,
}

impl ModelDirectory for ConfiguredServerModels {
    fn list(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async {
            let answer = model_discovery::ask(&self.place, &self.config.model).await;
            // The lock is taken after the question, so none is held across the wait.
            let mut last_list = self.last_list.lock().unwrap_or_else(PoisonError::into_inner);
            match answer {
                ServerProbeResult::Models(models) => last_list.clone_from(&models),
                // A server that is away for a while still has its models when it is back.
                ServerProbeResult::Other(_) | ServerProbeResult::Silent | ServerProbeResult::Unasked => {
                    let declared = self.config.models.keys().filter(|name| !last_list.contains(name));
                    return last_list.iter().chain(declared).cloned().collect();
                }
            }
            last_list.clone()
        })
    }

    fn serve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<ServedModel, String>> {
        Box::pin(async move { self.served(name).await.map_err(|failure| failure.message().to_owned()) })
    }
}

impl ConfiguredServerModels {
    /// Returns another model of the server. Limits declared beside `model.name` hold for the named model only.
    async fn served(&self, name: &str) -> Outcome<ServedModel> {
        let (name, own) = (name.to_owned(), self.config.model.clone());
        // A declared window belongs to the named model. Another model of the server may have a smaller one.
        let model = ModelConfig { name, context_window: None, max_output_tokens: None, ..own };
        let config = AgentConfig { model, ..self.config.clone() };
        let (place, model) = (&self.place, &config.model);
        let base = provider(place, model, config_agent::listed_limits(&config, &model.name))?;
        let provider = catalog_provider::with_catalog_limits(base, &model.base_url);
        let counts = counting::counts(place, &config, &provider.origin()).await?;
        Ok(ServedModel {
            limits: provider.limits().await,
            counter: counts.counter,
            counting: counts.counting,
            calibrations: Arc::clone(&self.calibrations),
            prices: config_agent::model_prices(&config),
            provider,
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const LIST: &str = r#"{"object":"list","data":[{"id":"served","object":"model"}]}"#;

    #[tokio::test]
    async fn a_server_that_is_away_still_has_its_models() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let model = format!(
            "{{ provider: openai-compatible, name: own, base_url: 'http://{address}/v1', timeout: 2s }}"
        );
        let file = format!("model: {model}\nmodels: {{ declared: {{ window: 9000 }} }}");
        let place = CliEnvironment::default();
        let calibrations = Arc::new(counting::calibrations(&place, "http://nobody"));
        let config = AgentConfig::parse(&file, "test").unwrap();
        let listed = ConfiguredServerModels { place, config, calibrations, last_list: Mutex::default() };
        let serving = tokio::spawn(async move {
            let (mut caller, _) = server.accept().await.unwrap();
            let mut request = [0; 4_096];
            let _ = caller.read(&mut request).await.unwrap();
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length";
            let answer = format!("{head}: {}\r\n\r\n{LIST}", LIST.len());
            caller.write_all(answer.as_bytes()).await.unwrap();
        });
        assert_eq!(listed.list().await, ["served"]);
        serving.await.unwrap();
        assert_eq!(listed.list().await, ["served", "declared"], "it does not answer any more");
    }
}
