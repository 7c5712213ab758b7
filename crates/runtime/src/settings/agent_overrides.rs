//! Agents under the settings that override their files.

use longhaul_core::budget::{ASSUMED_WINDOW, StrategyTrigger};
use longhaul_core::plan::{CompactionPolicy, SummaryWriterModel};

use super::{
    EXTRACT, EffectiveSettings, SAME_AGENT, SAME_MODEL, SettingRefusal, SettingSource, SettingsFile,
    SettingsOverrides,
};
use crate::agent::{Agent, AgentRules, ServedModel, SummaryModel};
use crate::agents::AgentRegistry;
use crate::compaction;

/// The strategy whose model has a setting of its own.
const PRUNING_AGENT: &str = "pruning-agent";

/// The changed settings, with the models that they name.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentOverrides {
    pub(crate) choices: SettingsOverrides,
    pruner: Option<Writing>,
    summariser: Option<Writing>,
}

type Writing = (SummaryWriterModel, Option<SummaryModel>);

impl AgentOverrides {
    /// Resolves the models that the settings name.
    ///
    /// # Errors
    /// [`SettingRefusal`], with the setting whose model cannot be called.
    pub(crate) async fn of(
        choices: SettingsOverrides,
        agents: &AgentRegistry,
    ) -> Result<Self, SettingRefusal> {
        let pruner = writing("pruningAgent", choices.pruning_agent.as_deref(), agents).await?;
        let summariser = writing("summarizeWith", choices.summarize_with.as_deref(), agents).await?;
        Ok(Self { choices, pruner, summariser })
    }

    /// Applies the settings to an agent as configured.
    pub(crate) fn agent(&self, plain: Agent) -> Agent {
        let mut agent = plain;
        (agent.rules.policy, agent.rules.summariser) = self.policy(&agent.rules);
        agent
    }

    /// Returns the compaction policy and the summary model of configured rules under these settings.
    pub(crate) fn policy(&self, plain: &AgentRules) -> (CompactionPolicy, Option<SummaryModel>) {
        self.context(&plain.policy, plain.summariser.as_ref())
    }

    /// Returns a policy and its summary model under these settings.
    pub(crate) fn context(
        &self,
        plain: &CompactionPolicy,
        summariser: Option<&SummaryModel>,
    ) -> (CompactionPolicy, Option<SummaryModel>) {
        let mut policy = plain.clone();
        let chosen = self.choices.strategy.as_deref();
        if let Some(strategy) = chosen.and_then(|name| compaction::strategy(plain, name)) {
            policy.strategy = strategy;
        }
        match self.choices.trigger {
            Some(chosen) => policy.trigger = chosen.trigger(),
            // Only the agent file's own strategy has the planner.
            None if policy.strategy.name() != plain.strategy.name() => {
                policy.trigger = policy.trigger.filter(|trigger| *trigger != StrategyTrigger::Planner);
            }
            None => {}
        }
        policy.auto_recall = self.choices.auto_recall.unwrap_or(policy.auto_recall);
        // The writer belongs to the kind of strategy: a pruning agent's model does not write summaries, and the other
        // way round.
        let prunes = |policy: &CompactionPolicy| policy.strategy.name() == PRUNING_AGENT;
        let named = if prunes(&policy) { &self.pruner } else { &self.summariser };
        let (writer, summariser) = match named {
            Some(named) => named.clone(),
            None if prunes(&policy) == prunes(plain) => (policy.writer, summariser.cloned()),
            None => (SummaryWriterModel::Session, None),
        };
        policy.writer = writer;
        (policy, summariser)
    }

    /// Returns the settings in force for an agent's rules, each with its origin.
    pub(crate) fn holding(&self, plain: &AgentRules, file: Option<&SettingsFile>) -> EffectiveSettings {
        let (policy, _) = self.policy(plain);
        let choices = &self.choices;
        let from = |is_chosen: bool, key: &str| match file {
            _ if is_chosen => SettingSource::Settings,
            Some(file) => file.beneath(key),
            None => SettingSource::Default,
        };
        // The agent file has one writer for its own strategy. The setting of the other kind shows its default.
        let prunes = plain.policy.strategy.name() == PRUNING_AGENT;
        let configured = |is_asked: bool, same: &str| match plain.policy.writer {
            SummaryWriterModel::Nobody if is_asked => EXTRACT.to_owned(),
            SummaryWriterModel::Other { .. } if is_asked => {
                plain.summariser.as_ref().map_or_else(|| same.to_owned(), |other| other.0.origin().model)
            }
            _ => same.to_owned(),
        };
        let pruning_agent = choices.pruning_agent.clone().unwrap_or_else(|| configured(prunes, SAME_AGENT));
        let summarize_with =
            choices.summarize_with.clone().unwrap_or_else(|| configured(!prunes, SAME_MODEL));
        EffectiveSettings {
            strategy: (
                policy.strategy.name().to_owned(),
                from(choices.strategy.is_some(), "context.compression.strategy"),
            ),
            trigger: (policy.trigger, from(choices.trigger.is_some(), "context.compression.trigger")),
            pruning_agent: (pruning_agent, from(choices.pruning_agent.is_some(), "context.pruningAgent")),
            auto_recall: (policy.auto_recall, from(choices.auto_recall.is_some(), "context.autoRecall")),
            summarize_with: (
                summarize_with,
                from(choices.summarize_with.is_some(), "context.compression.options.summarizeWith"),
            ),
        }
    }
}

async fn writing(
    field: &str,
    name: Option<&str>,
    agents: &AgentRegistry,
) -> Result<Option<Writing>, SettingRefusal> {
    let refused = |why: String| SettingRefusal { field: field.to_owned(), why };
    match name {
        None => Ok(None),
        Some(SAME_AGENT) if field == "pruningAgent" => Ok(Some((SummaryWriterModel::Session, None))),
        Some(SAME_MODEL) if field == "summarizeWith" => Ok(Some((SummaryWriterModel::Session, None))),
        Some(EXTRACT) if field == "summarizeWith" => Ok(Some((SummaryWriterModel::Nobody, None))),
        Some(name) => {
            let agent = agents.usable().find(|(known, _)| *known == name && field == "pruningAgent");
            let served = match agent {
                Some((_, agent)) => agent.served(),
                None => agents
                    .find_model(name)
                    .await
                    .map_err(|error| refused(format!("cannot be `{name}`: {error}")))?,
            };
            Ok(Some(written_by(served)))
        }
    }
}

fn written_by(model: ServedModel) -> Writing {
    let window = model.limits.window.unwrap_or(ASSUMED_WINDOW);
    (
        SummaryWriterModel::Other { window, max_output: model.limits.max_output },
        Some(SummaryModel(model.provider)),
    )
}
