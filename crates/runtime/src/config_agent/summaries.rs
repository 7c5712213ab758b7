//! The configured model for summaries.

use longhaul_core::budget::ASSUMED_WINDOW;
use longhaul_core::plan::SummaryWriterModel;
use longhaul_providers::{DeclaredLimits, SharedProvider};

use super::{declared_limits, listed_limits};
use crate::agent::SummaryModel;
use crate::config::{AgentConfig, AgentSource, ModelConfig, StrategyKind, SummaryWriter};

/// Returns the planner's facts about the summary writer, and the writer itself if it is another model. `connect`
/// connects to that model, with the limits that the configuration declares for it. The model's server is asked for its
/// limits.
///
/// # Errors
/// The error of `connect`.
pub async fn summary_writer<E>(
    config: &AgentConfig,
    connect: impl FnOnce(&ModelConfig, DeclaredLimits) -> Result<SharedProvider, E>,
) -> Result<(SummaryWriterModel, Option<SummaryModel>), E> {
    let (model, declared) = match configured_writer(config).1 {
        SummaryWriter::Same => return Ok((SummaryWriterModel::Session, None)),
        SummaryWriter::Extract => return Ok((SummaryWriterModel::Nobody, None)),
        SummaryWriter::Model(name) => find_model(config, name),
        SummaryWriter::Own(model) => {
            let listed = listed_limits(config, &model.name);
            let declared = DeclaredLimits {
                window: model.context_window.or(listed.window),
                max_output: model.max_output_tokens.or(listed.max_output),
                ..listed
            };
            (*model, declared)
        }
    };
    tracing::debug!(model = %model.name, provider = model.provider.as_str(), "another model writes summaries");
    let other = connect(&model, declared)?;
    let limits = other.limits().await;
    // The summary model may have another window than the session's, and pieces are cut for this one.
    let window = declared.window.or(limits.window).unwrap_or(ASSUMED_WINDOW);
    let max_output = declared.max_output.or(limits.max_output);
    Ok((SummaryWriterModel::Other { window, max_output }, Some(SummaryModel(other))))
}

/// Returns the key that names the summary writer.
pub(crate) fn summary_writer_key(config: &AgentConfig) -> &'static str {
    configured_writer(config).0
}

/// Returns the model of another agent by its name, with that agent's provider, server and key, or another model of the
/// same server.
fn find_model(config: &AgentConfig, name: String) -> (ModelConfig, DeclaredLimits) {
    match config.agents.get(&name) {
        Some(AgentSource::Here(agent)) => (agent.model.clone(), declared_limits(agent)),
        _ => {
            let declared = listed_limits(config, &name);
            (ModelConfig { name, ..config.model.clone() }, declared)
        }
    }
}

/// Returns the configured writer and its key. `pruning_agent` counts only with its own strategy; `summarize_with` may
/// be set beside it.
fn configured_writer(config: &AgentConfig) -> (&'static str, SummaryWriter) {
    let context = &config.context;
    match (context.compression.strategy, &context.pruning_agent) {
        (StrategyKind::PruningAgent, Some(name)) => {
            ("context.pruningAgent", SummaryWriter::Model(name.clone()))
        }
        _ => {
            ("context.compression.options.summarizeWith", context.compression.options.summarize_with.clone())
        }
    }
}
