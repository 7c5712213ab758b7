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
    pruner: Option<SummaryWriterSettings>,
    summariser: Option<SummaryWriterSettings>,
}

type SummaryWriterSettings = (SummaryWriterModel, Option<SummaryModel>);

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
        // The agent file has one writer for its own strategy. The setting of the other kind shows its default.
        let (mut pruning_agent, mut summarize_with) = (SAME_AGENT.to_owned(), SAME_MODEL.to_owned());
        if let Some(writer) = configured_writer(plain) {
            let own = if prunes(&plain.policy) { &mut pruning_agent } else { &mut summarize_with };
            *own = writer;
        }
        let pruning_agent = choices.pruning_agent.clone().unwrap_or(pruning_agent);
        let summarize_with = choices.summarize_with.clone().unwrap_or(summarize_with);
        EffectiveSettings {
            strategy: (
                policy.strategy.name().to_owned(),
                source(choices.strategy.is_some(), file, "context.compression.strategy"),
            ),
            trigger: (policy.trigger, source(choices.trigger.is_some(), file, "context.compression.trigger")),
            pruning_agent: (
                pruning_agent,
                source(choices.pruning_agent.is_some(), file, "context.pruningAgent"),
            ),
            auto_recall: (
                policy.auto_recall,
                source(choices.auto_recall.is_some(), file, "context.autoRecall"),
            ),
            summarize_with: (
                summarize_with,
                source(choices.summarize_with.is_some(), file, "context.compression.options.summarizeWith"),
            ),
        }
    }
}

fn prunes(policy: &CompactionPolicy) -> bool {
    policy.strategy.name() == PRUNING_AGENT
}

/// Returns the origin of a setting: the settings that people have chosen, the agent file, or the default.
fn source(is_chosen: bool, file: Option<&SettingsFile>, key: &str) -> SettingSource {
    match file {
        _ if is_chosen => SettingSource::Settings,
        Some(file) => file.beneath(key),
        None => SettingSource::Default,
    }
}

/// Returns the name of the writer that the agent file configures; `None` for the session's own agent or model.
fn configured_writer(rules: &AgentRules) -> Option<String> {
    match rules.policy.writer {
        SummaryWriterModel::Nobody => Some(EXTRACT.to_owned()),
        SummaryWriterModel::Other { .. } => rules.summariser.as_ref().map(|other| other.0.origin().model),
        _ => None,
    }
}

async fn writing(
    field: &str,
    name: Option<&str>,
    agents: &AgentRegistry,
) -> Result<Option<SummaryWriterSettings>, SettingRefusal> {
    match name {
        None => Ok(None),
        Some(SAME_AGENT) if field == "pruningAgent" => Ok(Some((SummaryWriterModel::Session, None))),
        Some(SAME_MODEL) if field == "summarizeWith" => Ok(Some((SummaryWriterModel::Session, None))),
        Some(EXTRACT) if field == "summarizeWith" => Ok(Some((SummaryWriterModel::Nobody, None))),
        Some(name) => {
            let agent = agents.usable().find(|(known, _)| *known == name && field == "pruningAgent");
            let served = match agent {
                Some((_, agent)) => agent.served(),
                None => agents.find_model(name).await.map_err(|error| SettingRefusal {
                    field: field.to_owned(),
                    why: format!("cannot be `{name}`: {error}"),
                })?,
            };
            Ok(Some(written_by(served)))
        }
    }
}

fn written_by(model: ServedModel) -> SummaryWriterSettings {
    let window = model.limits.window.unwrap_or(ASSUMED_WINDOW);
    (
        SummaryWriterModel::Other { window, max_output: model.limits.max_output },
        Some(SummaryModel(model.provider)),
    )
}
