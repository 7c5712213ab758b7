//! The reader takes values out of the tree, checks each against its key, and records the problems.

mod agents;
mod compression;
mod hooks;
mod mcp;
mod models;
mod server;
mod summary_writer;
mod tools;
mod upstreams;

use std::collections::BTreeMap;
use std::time::Duration;

pub(super) use self::agents::agents;
pub(super) use self::compression::{check_options, pruning_agent, trigger};
pub(super) use self::hooks::hook;
pub(super) use self::mcp::mcp_servers;
pub(super) use self::models::models;
pub(super) use self::summary_writer::summary_writer;
pub(super) use self::tools::{builtin_tools, output_limits};
pub(super) use self::upstreams::upstreams;
use super::duration;
use super::error::{ConfigProblem, ConfigProblemKind};
use super::keys::{self, ConfigKeyKind};
use super::model::{ApprovalRule, Decision, FirstByteTimeout, SystemPrompt, TokenCounter};
use super::nearest::nearest;
use super::node::{self, ConfigEntry, ConfigNode, ConfigPosition, ConfigValue, clip};

const DURATION: &str = "a duration such as 500ms, 60s, 10m, 2h or 90d";

/// Reads one file. A value that is wrong is reported and stands as its default until [`ConfigReader::finish`].
pub(super) struct ConfigReader<'a> {
    root: &'a ConfigNode,
    problems: Vec<ConfigProblem>,
    /// True if the agent is from another file.
    is_inner: bool,
}

impl<'a> ConfigReader<'a> {
    pub(super) fn new(root: &'a ConfigNode) -> Self {
        Self { root, problems: Vec::new(), is_inner: false }
    }

    /// Everything that was wrong, in the order of the file.
    pub(super) fn finish(mut self) -> Vec<ConfigProblem> {
        self.section("", self.root);
        for key in keys::KEYS.iter().filter(|key| matches!(key.kind, ConfigKeyKind::Later)) {
            self.later(key.path, key.default);
        }
        // Problems are found in the order of the keys, and a person reads the file from top to bottom.
        self.problems.sort_by_key(|problem| (problem.line, problem.column));
        self.problems
    }

    pub(super) fn flag(&mut self, path: &str) -> bool {
        let default = default(path) == "true";
        self.read(path, "true or false", |node| match node.value {
            ConfigValue::Flag(flag) => Some(flag),
            _ => None,
        })
        .unwrap_or(default)
    }

    pub(super) fn count<T: TryFrom<u64> + Default>(&mut self, path: &str) -> T {
        let given = self.number(path).or_else(|| default(path).parse().ok());
        given.and_then(|number| T::try_from(number).ok()).unwrap_or_default()
    }

    pub(super) fn optional_count<T: TryFrom<u64>>(&mut self, path: &str) -> Option<T> {
        self.number(path).and_then(|number| T::try_from(number).ok())
    }

    fn number(&mut self, path: &str) -> Option<u64> {
        let (min, max) = match keys::at(path).map(|key| &key.kind) {
            Some(ConfigKeyKind::Count { min, max }) => (*min, *max),
            _ => (1, u64::MAX),
        };
        self.read(path, &format!("a whole number from {min} to {max}"), |node| whole(node, min, max))
    }

    /// `None` is `auto`.
    pub(super) fn count_or_auto(&mut self, path: &str) -> Option<u64> {
        let expected = "auto or a whole number of tokens above 0";
        self.read(path, expected, |node| match &node.value {
            ConfigValue::Text(text) if text == "auto" => Some(None),
            _ => whole(node, 1, u64::MAX).map(Some),
        })
        .flatten()
    }

    /// `None` is `none`.
    pub(super) fn count_or_none(&mut self, path: &str) -> Option<u64> {
        let (min, max) = match keys::at(path).map(|key| &key.kind) {
            Some(ConfigKeyKind::CountOrNone { min, max }) => (*min, *max),
            _ => (1, u64::MAX),
        };
        let expected = format!("a whole number from {min} to {max}, or none");
        let given = self.read(path, &expected, |node| match node.word().as_deref() {
            Some("none") => Some(None),
            _ => whole(node, min, max).map(Some),
        });
        // A default of `none` is no number, and stays `None`.
        given.unwrap_or_else(|| default(path).parse().ok())
    }

    pub(super) fn text(&mut self, path: &str) -> String {
        self.read(path, "a text that is not empty", |node| text(node).filter(|text| !text.trim().is_empty()))
            .unwrap_or_else(|| default(path).to_owned())
    }

    pub(super) fn url(&mut self, path: &str) -> Option<String> {
        let expected = "an address that begins with http:// or https://";
        self.read(path, expected, |node| text(node).filter(|text| is_url(text)))
    }

    /// `None` is `none`.
    pub(super) fn optional_url(&mut self, path: &str) -> Option<String> {
        let expected = "an address that begins with http:// or https://, or none";
        self.read(path, expected, |node| match &node.value {
            ConfigValue::Null => Some(None),
            ConfigValue::Text(word) if word == "none" => Some(None),
            _ => text(node).filter(|text| is_url(text)).map(Some),
        })
        .flatten()
    }

    /// Returns the variable's name. What is there instead may be the key itself: it is not quoted in the message.
    pub(super) fn env_name(&mut self, path: &str) -> Option<String> {
        let node = self.find(path)?;
        match text(node) {
            Some(name) if name == "none" => None,
            None if matches!(node.value, ConfigValue::Null) => None,
            Some(name) if is_env_name(&name) => Some(name),
            _ => {
                let expected = "the name of an environment variable (letters, digits and _)".to_owned();
                let found = "this value (a key itself never stands in the file)".to_owned();
                self.problem(node.at, path, ConfigProblemKind::BadValue { expected, found });
                None
            }
        }
    }

    pub(super) fn prompt(&mut self, path: &str) -> SystemPrompt {
        self.read(path, "a text or { file: PATH }", |node| match (&node.value, node.entries()) {
            (ConfigValue::Map(_), [ConfigEntry { key, node, .. }]) if key == "file" => {
                text(node).filter(|path| !path.is_empty()).map(SystemPrompt::File)
            }
            (ConfigValue::Map(_), _) => None,
            _ => text(node).map(SystemPrompt::Text),
        })
        .unwrap_or_else(|| SystemPrompt::Text(String::new()))
    }

    /// `from_name` knows the words of this version; `fallback` stands in for a wrong one.
    pub(super) fn choice<T>(&mut self, path: &str, from_name: impl Fn(&str) -> Option<T>, fallback: T) -> T {
        let Some(node) = self.find(path) else { return from_name(default(path)).unwrap_or(fallback) };
        let word = node.word().unwrap_or_else(|| node.describe());
        from_name(&word).unwrap_or_else(|| {
            let kind = wrong_word(path, &word);
            self.problem(node.at, path, kind);
            fallback
        })
    }

    pub(super) fn time(&mut self, path: &str) -> Option<Duration> {
        let optional =
            matches!(keys::at(path).map(|key| &key.kind), Some(ConfigKeyKind::Time { optional: true }));
        let expected = format!("{DURATION}{}", if optional { ", or none" } else { "" });
        let given = self.read(path, &expected, |node| match node.word().as_deref() {
            Some("none") if optional => Some(None),
            _ => time(node).map(Some),
        });
        given.unwrap_or_else(|| duration::parse(default(path)))
    }

    /// `None` is `none`.
    pub(super) fn patience(&mut self, path: &str) -> Option<Duration> {
        let expected = format!("{DURATION}, 0s, or none");
        let given = self.read(path, &expected, |node| match node.word().as_deref() {
            Some("none") => Some(None),
            _ => text(node).and_then(|text| duration::parse_any(&text)).map(Some),
        });
        given.unwrap_or_else(|| duration::parse(default(path)))
    }

    pub(super) fn first_byte_timeout(&mut self, path: &str) -> FirstByteTimeout {
        self.read(path, FIRST_BYTE, first_byte).unwrap_or_default()
    }

    pub(super) fn names(&mut self, path: &str) -> Vec<String> {
        self.read(path, "a list of texts", |node| match &node.value {
            ConfigValue::Null => Some(Vec::new()),
            ConfigValue::List(items) => items.iter().map(text).collect(),
            _ => None,
        })
        .unwrap_or_default()
    }

    pub(super) fn texts(&mut self, path: &str) -> BTreeMap<String, String> {
        self.read(path, "texts by name, NAME: TEXT", |node| {
            let pairs = node.entries().iter().map(|entry| Some((entry.key.clone(), text(&entry.node)?)));
            is_map(node).then(|| pairs.collect())?
        })
        .unwrap_or_default()
    }

    pub(super) fn json(&mut self, path: &str) -> serde_json::Map<String, serde_json::Value> {
        self.read(path, "values by name, NAME: VALUE", |node| match node.to_json() {
            serde_json::Value::Object(map) => Some(map),
            serde_json::Value::Null => Some(serde_json::Map::new()),
            _ => None,
        })
        .unwrap_or_default()
    }

    pub(super) fn rules(&mut self, path: &str) -> Vec<ApprovalRule> {
        let Some(node) = self.find(path) else { return Vec::new() };
        match &node.value {
            ConfigValue::Null => Vec::new(),
            ConfigValue::List(items) => items
                .iter()
                .enumerate()
                .filter_map(|(i, item)| self.rule(item, &format!("{path}[{i}]")))
                .collect(),
            _ => {
                self.bad(node, path, "a list of { tool: GLOB, decision: allow|ask|deny }");
                Vec::new()
            }
        }
    }

    fn rule(&mut self, node: &ConfigNode, path: &str) -> Option<ApprovalRule> {
        if !matches!(node.value, ConfigValue::Map(_)) {
            self.bad(node, path, "{ tool: GLOB, decision: allow|ask|deny }");
            return None;
        }
        self.only(node, path, &["tool", "match", "decision"], &[]);
        // Both are reported at once, so that a person corrects the rule once.
        for key in ["tool", "decision"].iter().filter(|key| node.get(key).is_none()) {
            self.problem(node.at, path, ConfigProblemKind::Conflict(format!("needs `{key}`")));
        }
        let tool = self.inner(node, path, "tool", "a tool's name or a glob over names", |node| {
            text(node).filter(|glob| globset::Glob::new(glob).is_ok())
        });
        let expected = "patterns by argument, { ARGUMENT: PATTERN }";
        let matching = self.inner(node, path, "match", expected, |node| {
            let pairs = node.entries().iter().map(|entry| Some((entry.key.clone(), text(&entry.node)?)));
            (!node.entries().is_empty()).then(|| pairs.collect())?
        });
        // Without its patterns the rule would hold for every call of the tool.
        if matching.is_none() && node.get("match").is_some() {
            return None;
        }
        let decision = node.get("decision")?;
        let word = decision.word().unwrap_or_else(|| decision.describe());
        let Some(known) = Decision::from_name(&word) else {
            self.problem(decision.at, &format!("{path}.decision"), choose(path, &word, Decision::NAMES, &[]));
            return None;
        };
        Some(ApprovalRule { tool: tool?, matching: matching.unwrap_or_default(), decision: known })
    }

    /// A key of a later capability: absent, its default, or refused.
    fn later(&mut self, path: &str, default: Option<&str>) {
        let Some(node) = self.find(path) else { return };
        let empty = matches!(node.value, ConfigValue::Null);
        if empty || node.word().as_deref() == default {
            return;
        }
        self.problem(node.at, path, ConfigProblemKind::NotYet { what: format!("`{path}`") });
    }

    /// Reports keys that no section has.
    fn section(&mut self, path: &str, node: &ConfigNode) {
        if !is_map(node) {
            return self.bad(node, path, "a group of keys");
        }
        let valid = keys::children(path);
        for entry in node.entries() {
            if path == "tools" && tools::is_mcp_tool(&entry.key) {
                // `output_limits` checks it.
                continue;
            }
            let Some(key) = keys::spelled(&entry.key, &valid) else {
                self.unknown(entry, path, &valid);
                continue;
            };
            let inner = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
            if keys::at(&inner).is_none() {
                self.section(&inner, &entry.node);
            }
        }
        self.twice(node, path, &valid);
    }

    /// Reports keys that a group has in both spellings: only one of them would be read.
    fn twice(&mut self, node: &ConfigNode, path: &str, valid: &[&str]) {
        for key in valid {
            let given: Vec<_> =
                node.entries().iter().filter(|entry| node::is_spelling_of(&entry.key, key)).collect();
            if let [first, second, ..] = given[..] {
                let message = format!("has `{}` and `{}`, which are one key", first.key, second.key);
                self.problem(second.at, path, ConfigProblemKind::Conflict(message));
            }
        }
    }

    fn unknown(&mut self, entry: &ConfigEntry, section: &str, valid: &[&str]) {
        let inner = if section.is_empty() { entry.key.clone() } else { format!("{section}.{}", entry.key) };
        if let Some(instead) = keys::replacement(&inner) {
            return self.problem(
                entry.at,
                &inner,
                ConfigProblemKind::RemovedKey { instead: instead.to_owned() },
            );
        }
        // A key in the wrong section is a common mistake, and its name alone tells where it belongs.
        let elsewhere = keys::KEYS
            .iter()
            .map(|key| key.path)
            .find(|path| path.rsplit('.').next().is_some_and(|key| node::is_spelling_of(&entry.key, key)));
        let nearest = nearest(&entry.key, valid.iter().copied()).or(elsewhere).map(str::to_owned);
        let kind = ConfigProblemKind::UnknownKey {
            key: clip(&entry.key),
            section: section.to_owned(),
            nearest,
            valid: valid.iter().map(|key| (*key).to_owned()).collect(),
        };
        self.problem(entry.at, &inner, kind);
    }

    /// Reports keys of an inner group that are neither valid nor of a later version.
    fn only(&mut self, node: &ConfigNode, path: &str, valid: &[&str], later: &[&str]) {
        for entry in node.entries() {
            if keys::spelled(&entry.key, later).is_some() {
                let what = format!("`{path}.{}`", entry.key);
                self.problem(entry.at, &format!("{path}.{}", entry.key), ConfigProblemKind::NotYet { what });
            } else if keys::spelled(&entry.key, valid).is_none() {
                self.unknown(entry, path, valid);
            }
        }
        self.twice(node, path, valid);
    }

    /// Returns the group at a path; an absent or empty one is `None`.
    fn group(&mut self, path: &str) -> Option<&'a ConfigNode> {
        let node = self.find(path)?;
        match &node.value {
            ConfigValue::Map(_) => Some(node),
            ConfigValue::Null => None,
            _ => {
                self.bad(node, path, "a group of keys");
                None
            }
        }
    }

    fn inner<T>(
        &mut self,
        node: &ConfigNode,
        path: &str,
        key: &str,
        expected: &str,
        take: impl Fn(&ConfigNode) -> Option<T>,
    ) -> Option<T> {
        let found = node.get(key)?;
        let value = take(found);
        if value.is_none() {
            self.bad(found, &format!("{path}.{key}"), expected);
        }
        value
    }

    fn read<T>(&mut self, path: &str, expected: &str, take: impl Fn(&ConfigNode) -> Option<T>) -> Option<T> {
        let node = self.find(path)?;
        let value = take(node);
        if value.is_none() {
            self.bad(node, path, expected);
        }
        value
    }

    /// Reads an agent that is another file's: it has no agents of its own.
    pub(super) fn of_agent(root: &'a ConfigNode) -> Self {
        Self { is_inner: true, ..Self::new(root) }
    }

    pub(super) fn share(&mut self, path: &str) -> f64 {
        self.read(path, compression::SHARE, compression::share)
            .unwrap_or_else(|| default(path).parse().unwrap_or_default())
    }

    pub(super) fn score(&mut self, path: &str) -> f64 {
        let given = self.read(path, "a number, 0 or more", amount);
        given.unwrap_or_else(|| default(path).parse().unwrap_or_default())
    }

    /// Reads a key of a group whose values may be secrets: a problem names the key and quotes no value.
    pub(super) fn mcp_key<T>(
        &mut self,
        node: &ConfigNode,
        path: &str,
        key: &str,
        expected: &str,
        take: impl Fn(&ConfigNode) -> Option<T>,
    ) -> Option<T> {
        let found = node.get(key)?;
        let value = take(found);
        if value.is_none() {
            self.unquoted(found, &format!("{path}.{key}"), expected);
        }
        value
    }

    /// Reports a wrong value without quoting it, because the value may be a secret.
    pub(super) fn unquoted(&mut self, node: &ConfigNode, path: &str, expected: &str) {
        let found = match &node.value {
            ConfigValue::Null => "nothing",
            ConfigValue::Flag(_) => "true or false (a text needs quotes)",
            ConfigValue::Whole(_) | ConfigValue::Decimal(_) => "this number (a text needs quotes)",
            ConfigValue::Text(_) => "this text",
            ConfigValue::List(_) => "this list",
            ConfigValue::Map(_) => "this group of keys",
        };
        let kind = ConfigProblemKind::BadValue { expected: expected.to_owned(), found: found.to_owned() };
        self.problem(node.at, path, kind);
    }

    /// Returns whether the file sets the key at `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    fn find(&self, path: &str) -> Option<&'a ConfigNode> {
        path.split('.').try_fold(self.root, |node, key| node.get(key))
    }

    fn conflict<T>(&mut self, node: &ConfigNode, path: &str, message: &str) -> Option<T> {
        self.problem(node.at, path, ConfigProblemKind::Conflict(message.to_owned()));
        None
    }

    fn bad(&mut self, node: &ConfigNode, path: &str, expected: &str) {
        // Headers and addresses may hold keys: messages quote no value of theirs.
        let secret = path == "model.headers" || path.ends_with(".base_url");
        let found = match (&node.value, expected.contains("text")) {
            (ConfigValue::Text(_), _) if secret => "this text".to_owned(),
            (ConfigValue::Map(_), _) if secret => "a group with other values".to_owned(),
            (ConfigValue::Whole(_) | ConfigValue::Decimal(_) | ConfigValue::Flag(_), true)
                if !expected.starts_with("a list") =>
            {
                format!("{} (put it in quotes)", node.describe())
            }
            (ConfigValue::Map(_) | ConfigValue::List(_) | ConfigValue::Null, _) => node.describe(),
            _ if expected.starts_with("a list") => format!("{}, which is not a list", node.describe()),
            _ => node.describe(),
        };
        let path = if path.is_empty() { "the file" } else { path };
        self.problem(node.at, path, ConfigProblemKind::BadValue { expected: expected.to_owned(), found });
    }

    fn problem(&mut self, at: ConfigPosition, path: &str, kind: ConfigProblemKind) {
        self.problems.push(ConfigProblem { line: at.line, column: at.column, path: path.to_owned(), kind });
    }
}

/// The forms that the wait for the first byte may have.
const FIRST_BYTE: &str = "auto, none, or a length of time such as 90s or 10m";

fn first_byte(node: &ConfigNode) -> Option<FirstByteTimeout> {
    match node.word().as_deref() {
        Some("auto") => Some(FirstByteTimeout::Auto),
        Some("none") => Some(FirstByteTimeout::Unlimited),
        _ => time(node).map(FirstByteTimeout::After),
    }
}

fn time(node: &ConfigNode) -> Option<Duration> {
    text(node).and_then(|text| duration::parse(&text))
}

fn default(path: &str) -> &'static str {
    keys::at(path).and_then(|key| key.default).unwrap_or_default()
}

fn wrong_word(path: &str, word: &str) -> ConfigProblemKind {
    let (now, later) = match keys::at(path).map(|key| &key.kind) {
        Some(ConfigKeyKind::Choice { now, later }) => (*now, *later),
        Some(ConfigKeyKind::Counter) => (TokenCounter::NAMES, &[][..]),
        _ => (&[][..], &[][..]),
    };
    choose(path, word, now, later)
}

fn choose(path: &str, word: &str, now: &[&str], later: &[&str]) -> ConfigProblemKind {
    if later.contains(&word) {
        return ConfigProblemKind::NotYet { what: format!("`{path}: {word}`") };
    }
    ConfigProblemKind::NotAChoice {
        value: clip(word),
        nearest: nearest(word, now.iter().copied()).map(str::to_owned),
        valid: now.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn whole(node: &ConfigNode, min: u64, max: u64) -> Option<u64> {
    match node.value {
        ConfigValue::Whole(number) => {
            u64::try_from(number).ok().filter(|number| (min..=max).contains(number))
        }
        _ => None,
    }
}

/// Returns a whole number above 0.
fn positive(node: &ConfigNode) -> Option<u64> {
    whole(node, 1, u64::MAX)
}

/// Returns a number, 0 or more.
fn amount(node: &ConfigNode) -> Option<f64> {
    let amount = match node.value {
        ConfigValue::Whole(number) => number as f64,
        ConfigValue::Decimal(number) => number,
        _ => return None,
    };
    (amount.is_finite() && amount >= 0.0).then_some(amount)
}

fn text(node: &ConfigNode) -> Option<String> {
    match &node.value {
        // A number is no text: YAML reads `1.10` as 1.1. The message asks for quotes instead.
        ConfigValue::Text(text) => Some(text.clone()),
        _ => None,
    }
}

fn is_map(node: &ConfigNode) -> bool {
    matches!(node.value, ConfigValue::Map(_) | ConfigValue::Null)
}

fn is_url(text: &str) -> bool {
    let rest = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    rest.is_some_and(|rest| !rest.is_empty())
}

fn is_env_name(name: &str) -> bool {
    // A longer text is more likely a key than the name of a variable.
    name.len() <= 128
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.starts_with(|c: char| !c.is_ascii_digit())
}
