//! The settings that may be changed while agents run: a few scalars, kept in a file. They override the agent file.

mod agent_overrides;
mod file;
#[cfg(test)]
mod tests;

use longhaul_core::budget::StrategyTrigger;
use longhaul_core::strategy;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

pub(crate) use self::agent_overrides::AgentOverrides;
pub use self::file::{ConfiguredKeys, SettingsFile};
use crate::config::TriggerConfig;

/// The value of `pruningAgent` for the session's own model.
#[doc(hidden)]
pub const SAME_AGENT: &str = "__same__";
/// The value of `summarizeWith` for the session's own model.
#[doc(hidden)]
pub const SAME_MODEL: &str = "same";
/// The value of `summarizeWith` for no model: extracts are made by program.
#[doc(hidden)]
pub const EXTRACT: &str = "extract";

/// The maximum length of a name, in characters.
const NAME_CHARS: usize = 200;

/// The changed settings. `None` leaves a setting to the agent file.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SettingsOverrides {
    /// The strategy's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// The condition under which the strategy acts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<TriggerChoice>,
    /// The pruner, if the strategy is `pruning-agent`: [`SAME_AGENT`], an agent or a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruning_agent: Option<String>,
    /// True if a compaction restores omitted parts that the conversation mentions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_recall: Option<bool>,
    /// The writer of summaries under the other strategies: [`SAME_MODEL`], [`EXTRACT`] or a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summarize_with: Option<String>,
}

/// The condition under which a strategy acts.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum TriggerChoice {
    /// The strategy's own condition.
    None,
    /// A share of the window, above 0 and at most 1.
    Percentage(f64),
    /// A number of tokens.
    TriggerTokens(u64),
    /// The moment at which the usable room is full.
    Overflow,
    /// A request by the user, or a full usable room.
    Manual,
    /// The strategy's judgement that acting pays; only `adaptive` supports this trigger.
    Planner,
}

/// The reason that a change is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {why}")]
#[non_exhaustive]
pub struct SettingRefusal {
    /// The setting.
    pub field: String,
    /// The values that the setting accepts.
    pub why: String,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingSource {
    /// The built-in default: neither the agent file nor the settings name the value.
    Default,
    /// The agent file.
    AgentFile,
    /// The settings.
    Settings,
}

/// The settings in force, each with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveSettings {
    /// The strategy's name.
    pub strategy: (String, SettingSource),
    /// The condition under which the strategy acts; `None` is the strategy's own.
    pub trigger: (Option<StrategyTrigger>, SettingSource),
    /// The pruner.
    pub pruning_agent: (String, SettingSource),
    /// True if a compaction restores omitted parts that the conversation mentions.
    pub auto_recall: (bool, SettingSource),
    /// The writer of summaries.
    pub summarize_with: (String, SettingSource),
}

impl SettingsOverrides {
    /// Reports whether no setting was changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the names of the changed settings.
    pub fn names(&self) -> Vec<String> {
        match serde_json::to_value(self) {
            Ok(Value::Object(changed)) => changed.keys().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns these settings with a change applied. `null` gives a setting back to the agent file, and unnamed
    /// settings stay. Names of agents and models are not looked up.
    ///
    /// # Errors
    /// [`SettingRefusal`], with the first setting that is unknown or wrong.
    pub fn changed(&self, change: &Map<String, Value>) -> Result<Self, SettingRefusal> {
        let mut changed = self.clone();
        for (field, value) in change {
            match field.as_str() {
                "strategy" => changed.strategy = given(value, |value| known_strategy(field, value))?,
                "trigger" => changed.trigger = given(value, |value| trigger(field, value))?,
                "pruningAgent" => changed.pruning_agent = given(value, |value| name(field, value))?,
                "autoRecall" => changed.auto_recall = given(value, |value| flag(field, value))?,
                "summarizeWith" => changed.summarize_with = given(value, |value| name(field, value))?,
                _ => {
                    // The name comes from a request and is quoted in the answer, so it is cleaned and shortened.
                    let field: String = field.chars().filter(|c| !c.is_control()).take(60).collect();
                    return refused(&field, "is not a setting");
                }
            }
        }
        Ok(changed)
    }
}

fn given<T>(
    value: &Value,
    read: impl FnOnce(&Value) -> Result<T, SettingRefusal>,
) -> Result<Option<T>, SettingRefusal> {
    if value.is_null() { Ok(None) } else { read(value).map(Some) }
}

fn refused<T>(field: &str, why: impl Into<String>) -> Result<T, SettingRefusal> {
    Err(SettingRefusal { field: field.to_owned(), why: why.into() })
}

fn known_strategy(field: &str, value: &Value) -> Result<String, SettingRefusal> {
    match value.as_str().filter(|name| strategy::NAMES.contains(name)) {
        Some(name) => Ok(name.to_owned()),
        None => refused(field, format!("must be one of {}", strategy::NAMES.join(", "))),
    }
}

fn flag(field: &str, value: &Value) -> Result<bool, SettingRefusal> {
    value.as_bool().map_or_else(|| refused(field, "must be true or false"), Ok)
}

fn is_visible_name(name: &str) -> bool {
    !name.trim().is_empty() && name.chars().count() <= NAME_CHARS && !name.chars().any(char::is_control)
}

fn name(field: &str, value: &Value) -> Result<String, SettingRefusal> {
    match value.as_str().filter(|name| is_visible_name(name)) {
        Some(name) => Ok(name.to_owned()),
        None => refused(field, format!("must be a name of 1 to {NAME_CHARS} visible characters")),
    }
}

fn trigger(field: &str, value: &Value) -> Result<TriggerChoice, SettingRefusal> {
    let least = TriggerConfig::LEAST_TOKENS;
    let what = "must be \"none\", { percentage }, { triggerTokens } or { type }";
    if value == "none" {
        return Ok(TriggerChoice::None);
    }
    let Some(given) = value.as_object() else { return refused(field, what) };
    // The file format allows a figure without `type`, which means a threshold.
    let kind = given.get("type").map_or(Some("threshold"), Value::as_str);
    let figures: Vec<_> = given.iter().filter(|(key, _)| *key != "type").collect();
    match (kind, figures.as_slice()) {
        (Some("overflow"), []) => Ok(TriggerChoice::Overflow),
        (Some("manual"), []) => Ok(TriggerChoice::Manual),
        (Some("planner"), []) => Ok(TriggerChoice::Planner),
        (Some("threshold"), [(key, share)]) if *key == "percentage" => match share.as_f64() {
            Some(share) if share > 0.0 && share <= 1.0 => Ok(TriggerChoice::Percentage(share)),
            _ => {
                let what = format!("must be above 0 and at most 1, not {share}");
                refused(&format!("{field}.percentage"), what)
            }
        },
        (Some("threshold"), [(key, tokens)]) if *key == "triggerTokens" => match tokens.as_u64() {
            Some(tokens) if tokens >= least => Ok(TriggerChoice::TriggerTokens(tokens)),
            _ => {
                let what = format!("must be a whole number, {least} or more, not {tokens}");
                refused(&format!("{field}.triggerTokens"), what)
            }
        },
        _ => refused(field, what),
    }
}

impl TriggerChoice {
    fn trigger(self) -> Option<StrategyTrigger> {
        match self {
            Self::None => None,
            Self::Percentage(share) => Some(StrategyTrigger::Share(share)),
            Self::TriggerTokens(tokens) => Some(StrategyTrigger::Tokens(tokens)),
            Self::Overflow => Some(StrategyTrigger::Overflow),
            Self::Manual => Some(StrategyTrigger::Manual),
            Self::Planner => Some(StrategyTrigger::Planner),
        }
    }
}

impl Serialize for TriggerChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == Self::None {
            return serializer.serialize_str("none");
        }
        let mut figure = serializer.serialize_map(Some(1))?;
        match self {
            Self::None => {}
            Self::Percentage(share) => figure.serialize_entry("percentage", share)?,
            Self::TriggerTokens(tokens) => figure.serialize_entry("triggerTokens", tokens)?,
            Self::Overflow => figure.serialize_entry("type", "overflow")?,
            Self::Manual => figure.serialize_entry("type", "manual")?,
            Self::Planner => figure.serialize_entry("type", "planner")?,
        }
        figure.end()
    }
}
