//! `agents`: more agents, by name.

use std::collections::BTreeMap;

use super::super::agents::AgentSource;
use super::super::section;
use super::{ConfigEntry, ConfigProblem, ConfigProblemKind, ConfigReader, ConfigValue, text};

/// Characters of an agent's name at most.
const NAME_CHARS: usize = 64;

const EXPECTED: &str = "the path of an agent file, or the keys of one";

/// Returns the agents beside the one of that name, which is the file's own.
pub(in crate::config) fn agents(
    reader: &mut ConfigReader<'_>,
    path: &str,
    own: &str,
) -> BTreeMap<String, AgentSource> {
    let Some(node) = reader.group(path) else { return BTreeMap::new() };
    if let Some(first) = node.entries().first().filter(|_| reader.is_inner) {
        let message = "stands in the main file only: an agent of it has none of its own";
        reader.problem(first.at, path, ConfigProblemKind::Conflict(message.to_owned()));
        return BTreeMap::new();
    }
    node.entries().iter().filter_map(|entry| agent(reader, entry, path, own)).collect()
}

fn agent(
    reader: &mut ConfigReader<'_>,
    entry: &ConfigEntry,
    path: &str,
    own: &str,
) -> Option<(String, AgentSource)> {
    let (name, path) = (entry.key.clone(), format!("{path}.{}", entry.key));
    let wrong = if name == own {
        Some("has the name of the file's own agent (`name`)".to_owned())
    } else if !is_name(&name) {
        Some(format!("is not a name: 1 to {NAME_CHARS} letters, digits, `-`, `_` and `.`, and not __same__"))
    } else {
        None
    };
    if let Some(wrong) = wrong {
        reader.problem(entry.at, &path, ConfigProblemKind::Conflict(wrong));
        return None;
    }
    let source = match &entry.node.value {
        ConfigValue::Map(_) => {
            let mut inner = ConfigReader::of_agent(&entry.node);
            let config = section::config(&mut inner);
            let problems = inner.finish().into_iter().map(|problem| inside(&path, problem));
            reader.problems.extend(problems);
            Some(AgentSource::Here(Box::new(config)))
        }
        _ => text(&entry.node).filter(|file| !file.trim().is_empty()).map(AgentSource::File),
    };
    if source.is_none() {
        reader.bad(&entry.node, &path, EXPECTED);
    }
    source.map(|source| (name, source))
}

fn is_name(name: &str) -> bool {
    (1..=NAME_CHARS).contains(&name.chars().count())
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && name != "__same__"
}

fn inner_path(outer: &str, inner: &str) -> String {
    if inner.is_empty() { outer.to_owned() } else { format!("{outer}.{inner}") }
}

/// Converts a problem of an inner agent to a problem of the whole file.
fn inside(path: &str, problem: ConfigProblem) -> ConfigProblem {
    let kind = match problem.kind {
        ConfigProblemKind::UnknownKey { key, section, nearest, valid } => {
            ConfigProblemKind::UnknownKey { key, section: inner_path(path, &section), nearest, valid }
        }
        other => other,
    };
    ConfigProblem { path: inner_path(path, &problem.path), kind, ..problem }
}
