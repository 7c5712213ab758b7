//! The section `context.compression`: the options that one strategy has and another has not.

use super::super::keys::{self, SAME_MODEL};
use super::super::model::{StrategyKind, TriggerConfig};
use super::super::node::{self, is_spelling_of};
use super::{ConfigNode, ConfigProblemKind, ConfigReader, amount, choose, whole};

pub(super) const SHARE: &str = "above 0 and at most 1";

/// Refuses options that belong to other strategies, unless their value is the default anyway.
pub(in crate::config) fn check_options(reader: &mut ConfigReader<'_>, strategy: StrategyKind) {
    let Some(options) = reader.find("context.compression.options") else { return };
    for entry in options.entries() {
        let known = keys::OPTIONS.iter().find(|(option, _)| is_spelling_of(&entry.key, option));
        let Some((option, owners)) = known else { continue };
        let path = format!("context.compression.options.{option}");
        // The reference file lists the options of all strategies with their defaults, and must parse.
        if !owners.contains(&strategy) && !says_default(&path, &entry.node) {
            let message = format!("is an option of {}, not of {}", listed(owners), strategy.as_str());
            reader.problem(entry.at, &path, ConfigProblemKind::Conflict(message));
        }
    }
}

/// Reads a trigger. `strategy` is `None` if the file names an unknown one.
pub(in crate::config) fn trigger(
    reader: &mut ConfigReader<'_>,
    path: &str,
    strategy: Option<StrategyKind>,
) -> Option<TriggerConfig> {
    let node = reader.group(path)?;
    reader.only(node, path, &["type", "percentage", "triggerTokens"], &[]);
    let kind = node.get("type").map_or_else(|| Some("threshold".to_owned()), ConfigNode::word)?;
    let share = reader.inner(node, path, "percentage", SHARE, share);
    let expected = format!("a whole number, {} or more", TriggerConfig::LEAST_TOKENS);
    let tokens = reader.inner(node, path, "triggerTokens", &expected, |node| {
        whole(node, TriggerConfig::LEAST_TOKENS, u64::MAX)
    });
    let figures = ["percentage", "triggerTokens"].iter().filter(|key| node.get(key).is_some()).count();
    match (kind.as_str(), figures) {
        ("threshold", 1) => share.map(TriggerConfig::Share).or(tokens.map(TriggerConfig::Tokens)),
        ("overflow", 0) => Some(TriggerConfig::Overflow),
        ("manual", 0) => Some(TriggerConfig::Manual),
        ("planner", 0) => match strategy.filter(|strategy| *strategy != StrategyKind::Adaptive) {
            None => Some(TriggerConfig::Planner),
            Some(other) => {
                let message = format!("has type planner only with adaptive, not with {}", other.as_str());
                reader.conflict(node, path, &message)
            }
        },
        ("threshold", _) => reader.conflict(node, path, "needs one of percentage and triggerTokens"),
        ("overflow" | "manual" | "planner", _) => {
            reader.conflict(node, path, "has percentage or triggerTokens only with type threshold")
        }
        (word, _) => {
            let at = node.get("type").map_or(node.at, |node| node.at);
            let kind = choose(path, word, TriggerConfig::NAMES, &[]);
            reader.problem(at, &format!("{path}.type"), kind);
            None
        }
    }
}

/// Returns the pruning agent's model; `None` is the session's own. Only one strategy has an agent.
pub(in crate::config) fn pruning_agent(
    reader: &mut ConfigReader<'_>,
    path: &str,
    strategy: Option<StrategyKind>,
) -> Option<String> {
    let named = Some(reader.text(path)).filter(|name| name != SAME_MODEL)?;
    if strategy.is_some_and(|strategy| strategy != StrategyKind::PruningAgent) {
        let at = reader.find(path).map(|node| node.at).unwrap_or_default();
        let what = format!("`{path}` with another strategy than pruning-agent");
        reader.problem(at, path, ConfigProblemKind::NotYet { what });
    }
    Some(named)
}

pub(super) fn share(node: &ConfigNode) -> Option<f64> {
    amount(node).filter(|share| *share > 0.0 && *share <= 1.0)
}

/// Returns whether a value is the key's default, however it is written: `1` and `1.0` are one number.
fn says_default(path: &str, node: &ConfigNode) -> bool {
    let default = keys::at(path).and_then(|key| key.default).and_then(|text| node::parse(text).ok());
    default.is_some_and(|default| default.word() == node.word())
}

/// `a`, `a and b`, `a, b and c`.
fn listed(owners: &[StrategyKind]) -> String {
    let names: Vec<&str> = owners.iter().map(|owner| owner.as_str()).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}
