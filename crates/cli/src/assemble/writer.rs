//! The configured model for summaries.

use longhaul::agent::SummaryModel;
use longhaul::config::AgentConfig;
use longhaul::config_agent;
use longhaul_core::plan::SummaryWriterModel;
use longhaul_providers::catalog_provider;

use super::provider;
use crate::environment::CliEnvironment;
use crate::failure::Outcome;

/// Returns the planner's facts about the summary writer, and the writer itself if it is another model. Asks
/// its server for its limits.
///
/// # Errors
/// Usage, for an unusable server.
pub(super) async fn writer(
    place: &CliEnvironment,
    config: &AgentConfig,
) -> Outcome<(SummaryWriterModel, Option<SummaryModel>)> {
    config_agent::summary_writer(config, |model, declared| {
        Ok(catalog_provider::with_catalog_limits(provider(place, model, declared)?, &model.base_url))
    })
    .await
}

#[cfg(test)]
mod tests {
    use longhaul_core::budget::ASSUMED_WINDOW;

    use super::*;

    /// Nothing listens at the configured address.
    async fn written_by(context: &str, models: &str) -> (SummaryWriterModel, Option<String>) {
        let model = "{ provider: openai-compatible, name: large, base_url: 'http://127.0.0.1:9/v1' }";
        let file = format!("model: {model}\ncontext: {context}\nmodels: {models}");
        let (writer, summariser) =
            writer(&CliEnvironment::default(), &AgentConfig::parse(&file, "test").unwrap()).await.unwrap();
        (writer, summariser.map(|it| it.0.origin().model))
    }

    #[tokio::test]
    async fn summaries_are_written_by_whom_the_file_names() {
        assert_eq!(written_by("{}", "{}").await, (SummaryWriterModel::Session, None));
        assert_eq!(written_by(&summarised_by("same"), "{}").await, (SummaryWriterModel::Session, None));
        assert_eq!(written_by(&summarised_by("extract"), "{}").await, (SummaryWriterModel::Nobody, None));
        let small = Some("small".to_owned());
        let assumed = SummaryWriterModel::Other { window: 32_000, max_output: None };
        assert_eq!(written_by(&summarised_by("small"), "{}").await, (assumed, small.clone()));
        // What is declared of the session's model says nothing of another.
        let models = "{ large: { window: 9000 }, small: { window: 64000, maxOutput: 3000 } }";
        let declared = SummaryWriterModel::Other { window: 64_000, max_output: Some(3_000) };
        assert_eq!(written_by(&summarised_by("small"), models).await, (declared, small));
    }

    fn summarised_by(who: &str) -> String {
        format!("{{ compression: {{ options: {{ summarizeWith: {who} }} }} }}")
    }

    #[tokio::test]
    async fn the_pruning_agent_is_named_by_its_own_key() {
        assert_eq!(written_by(&pruning_agent(""), "{}").await, (SummaryWriterModel::Session, None));
        let (writer, name) =
            written_by(&pruning_agent(", pruningAgent: small"), "{ small: { window: 8000 } }").await;
        assert_eq!(writer, SummaryWriterModel::Other { window: 8_000, max_output: None });
        assert_eq!(name.as_deref(), Some("small"));
        let file = format!(
            "model: {{ provider: scripted, name: large }}\ncontext: {}\nagents: {{ helper: {{ model: {{ name: tiny, context_window: 9000, base_url: 'http://127.0.0.1:9/v1' }} }} }}",
            pruning_agent(", pruningAgent: helper")
        );
        let config = AgentConfig::parse(&file, "test").unwrap();
        let (writer, summariser) = super::writer(&CliEnvironment::default(), &config).await.unwrap();
        assert_eq!(writer, SummaryWriterModel::Other { window: 9_000, max_output: None });
        assert_eq!(summariser.unwrap().0.origin().model, "tiny", "an agent's name stands for its model");
    }

    fn pruning_agent(named: &str) -> String {
        format!("{{ compression: {{ strategy: pruning-agent }}{named} }}")
    }

    #[tokio::test]
    async fn summaries_are_written_by_a_provider_of_its_own() {
        let file = "model: { provider: openai-compatible, name: large, base_url: 'http://127.0.0.1:9/v1' }\n\
                    context: { compression: { options: { summarizeWith: writer } } }\n\
                    agents: { writer: { model: { provider: ollama, name: tiny, context_window: 9000, base_url: 'http://127.0.0.1:7' } } }";
        let config = AgentConfig::parse(file, "test").unwrap();
        let (writer, summariser) = super::writer(&CliEnvironment::default(), &config).await.unwrap();
        assert_eq!(writer, SummaryWriterModel::Other { window: 9_000, max_output: None });
        let origin = summariser.unwrap().0.origin();
        assert_eq!((origin.provider.as_str(), origin.model.as_str()), ("ollama", "tiny"));
    }

    #[tokio::test]
    async fn a_writer_at_its_maker_s_server_is_not_asked_without_a_key() {
        let file = "context: { compression: { strategy: pruning-agent }, pruningAgent: helper }\n\
                    agents: { helper: { model: { provider: anthropic, name: claude-sonnet-4-5 } } }";
        let config = AgentConfig::parse(file, "test").unwrap();
        let (writer, summariser) = super::writer(&CliEnvironment::default(), &config).await.unwrap();
        assert!(
            matches!(writer, SummaryWriterModel::Other { window, .. } if window > ASSUMED_WINDOW),
            "of the catalogue"
        );
        let error =
            summariser.unwrap().0.call(longhaul_providers::ModelRequest::default()).await.err().unwrap();
        assert!(error.message.contains("ANTHROPIC_API_KEY is not set"), "{error}");
    }
}
