//! Takes values out of the tree, checks each against its key, and remembers what was wrong.

mod agents;
mod compression;
mod hooks;
mod mcp;
mod models;
mod server;
mod tools;
mod upstreams;

use std::collections::BTreeMap;
use std::time::Duration;

use super::duration;
use super::error::{Problem, ProblemKind};
use super::keys::{self, Kind};
use super::model::{ApprovalRule, Decision, FirstByteTimeout, SystemPrompt, TokenCounter};
use super::nearest::nearest;
use super::node::{Entry, Node, Place, Value, clip};

const DURATION: &str = "a duration such as 500ms, 60s, 10m, 2h or 90d";

/// Reads one file. A value that is wrong is reported and stands as its default until [`Reader::finish`].
pub(super) struct Reader<'a> {
    root: &'a Node,
    problems: Vec<Problem>,
    /// Whether it is an agent of another file.
    is_inner: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(root: &'a Node) -> Self {
        Self { root, problems: Vec::new(), is_inner: false }
    }

    /// Everything that was wrong, in the order of the file.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        self.section("", self.root);
        for key in keys::KEYS.iter().filter(|key| matches!(key.kind, Kind::Later)) {
            self.later(key.path, key.default);
        }
        self.problems.sort_by_key(|problem| (problem.line, problem.column));
        self.problems
    }

    pub(super) fn flag(&mut self, path: &str) -> bool {
        let default = default(path) == "true";
        self.read(path, "true or false", |node| match node.value {
            Value::Flag(flag) => Some(flag),
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
            Some(Kind::Count { min, max }) => (*min, *max),
            _ => (1, u64::MAX),
        };
        self.read(path, &format!("a whole number from {min} to {max}"), |node| whole(node, min, max))
    }

    /// `None` is `auto`.
    pub(super) fn count_or_auto(&mut self, path: &str) -> Option<u64> {
        let expected = "auto or a whole number of tokens above 0";
        self.read(path, expected, |node| match &node.value {
            Value::Text(text) if text == "auto" => Some(None),
            _ => whole(node, 1, u64::MAX).map(Some),
        })
        .flatten()
    }

    /// `None` is `none`.
    pub(super) fn count_or_none(&mut self, path: &str) -> Option<u64> {
        let (min, max) = match keys::at(path).map(|key| &key.kind) {
            Some(Kind::CountOrNone { min, max }) => (*min, *max),
            _ => (1, u64::MAX),
        };
        let expected = format!("a whole number from {min} to {max}, or none");
        let given = self.read(path, &expected, |node| match node.word().as_deref() {
            Some("none") => Some(None),
            _ => whole(node, min, max).map(Some),
        });
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
            Value::Null => Some(None),
            Value::Text(word) if word == "none" => Some(None),
            _ => text(node).filter(|text| is_url(text)).map(Some),
        })
        .flatten()
    }

    /// The variable's name. What is there instead may be the key itself: it is not quoted in the message.
    pub(super) fn env_name(&mut self, path: &str) -> Option<String> {
        let node = self.find(path)?;
        match text(node) {
            Some(name) if name == "none" => None,
            None if matches!(node.value, Value::Null) => None,
            Some(name) if is_env_name(&name) => Some(name),
            _ => {
                let expected = "the name of an environment variable (letters, digits and _)".to_owned();
                let found = "this value (a key itself never stands in the file)".to_owned();
                self.problem(node.at, path, ProblemKind::BadValue { expected, found });
                None
            }
        }
    }

    pub(super) fn prompt(&mut self, path: &str) -> SystemPrompt {
        let file = |node: &Node| match node.entries() {
            [Entry { key, node, .. }] if key == "file" => text(node).filter(|path| !path.is_empty()),
            _ => None,
        };
        self.read(path, "a text or { file: PATH }", |node| match &node.value {
            Value::Map(_) => file(node).map(SystemPrompt::File),
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
        let optional = matches!(keys::at(path).map(|key| &key.kind), Some(Kind::Time { optional: true }));
        let expected = format!("{DURATION}{}", if optional { ", or none" } else { "" });
        let none = |node: &Node| optional && node.word().as_deref() == Some("none");
        let given = self.read(path, &expected, |node| match none(node) {
            true => Some(None),
            false => time(node).map(Some),
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
            Value::Null => Some(Vec::new()),
            Value::List(items) => items.iter().map(text).collect(),
            _ => None,
        })
        .unwrap_or_default()
    }

    pub(super) fn texts(&mut self, path: &str) -> BTreeMap<String, String> {
        let pairs = |node: &Node| {
            node.entries().iter().map(|entry| Some((entry.key.clone(), text(&entry.node)?))).collect()
        };
        self.read(path, "texts by name, NAME: TEXT", |node| is_map(node).then(|| pairs(node)).flatten())
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
            Value::Null => Vec::new(),
            Value::List(items) => items
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

    fn rule(&mut self, node: &Node, path: &str) -> Option<ApprovalRule> {
        if !matches!(node.value, Value::Map(_)) {
            self.bad(node, path, "{ tool: GLOB, decision: allow|ask|deny }");
            return None;
        }
        self.only(node, path, &["tool", "match", "decision"], &[]);
        for key in ["tool", "decision"].iter().filter(|key| node.get(key).is_none()) {
            self.problem(node.at, path, ProblemKind::Conflict(format!("needs `{key}`")));
        }
        let glob = |node: &Node| text(node).filter(|glob| globset::Glob::new(glob).is_ok());
        let tool = self.inner(node, path, "tool", "a tool's name or a glob over names", glob);
        let expected = "patterns by argument, { ARGUMENT: PATTERN }";
        let matching = self.inner(node, path, "match", expected, |node| {
            let pairs = node.entries().iter().map(|entry| Some((entry.key.clone(), text(&entry.node)?)));
            (!node.entries().is_empty()).then(|| pairs.collect())?
        });
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
        let empty = matches!(node.value, Value::Null);
        if empty || node.word().as_deref() == default {
            return;
        }
        self.problem(node.at, path, ProblemKind::NotYet { what: format!("`{path}`") });
    }

    /// Reports keys that no section has.
    fn section(&mut self, path: &str, node: &Node) {
        if !is_map(node) {
            return self.bad(node, path, "a group of keys");
        }
        for entry in node.entries() {
            let inner = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
            if path == "tools" && tools::is_mcp_tool(&entry.key) {
                // `output_limits` checks it.
            } else if !keys::children(path).contains(&entry.key.as_str()) {
                self.unknown(entry, path, &keys::children(path));
            } else if keys::at(&inner).is_none() {
                self.section(&inner, &entry.node);
            }
        }
    }

    fn unknown(&mut self, entry: &Entry, section: &str, valid: &[&str]) {
        let inner = if section.is_empty() { entry.key.clone() } else { format!("{section}.{}", entry.key) };
        let elsewhere = || {
            let last = |path: &'static str| path.rsplit('.').next() == Some(entry.key.as_str());
            keys::KEYS.iter().map(|key| key.path).find(|path| last(path))
        };
        let nearest = nearest(&entry.key, valid.iter().copied()).or_else(elsewhere).map(str::to_owned);
        let kind = ProblemKind::UnknownKey {
            key: clip(&entry.key),
            section: section.to_owned(),
            nearest,
            valid: valid.iter().map(|key| (*key).to_owned()).collect(),
        };
        self.problem(entry.at, &inner, kind);
    }

    /// Reports keys of an inner group that are neither valid nor of a later version.
    fn only(&mut self, node: &Node, path: &str, valid: &[&str], later: &[&str]) {
        for entry in node.entries() {
            if later.contains(&entry.key.as_str()) {
                let what = format!("`{path}.{}`", entry.key);
                self.problem(entry.at, &format!("{path}.{}", entry.key), ProblemKind::NotYet { what });
            } else if !valid.contains(&entry.key.as_str()) {
                self.unknown(entry, path, valid);
            }
        }
    }

    /// The group at a path; an absent or empty one is `None`.
    fn group(&mut self, path: &str) -> Option<&'a Node> {
        let node = self.find(path)?;
        match &node.value {
            Value::Map(_) => Some(node),
            Value::Null => None,
            _ => {
                self.bad(node, path, "a group of keys");
                None
            }
        }
    }

    fn inner<T>(
        &mut self,
        node: &Node,
        path: &str,
        key: &str,
        expected: &str,
        take: impl Fn(&Node) -> Option<T>,
    ) -> Option<T> {
        let found = node.get(key)?;
        let value = take(found);
        if value.is_none() {
            self.bad(found, &format!("{path}.{key}"), expected);
        }
        value
    }

    fn read<T>(&mut self, path: &str, expected: &str, take: impl Fn(&Node) -> Option<T>) -> Option<T> {
        let node = self.find(path)?;
        let value = take(node);
        if value.is_none() {
            self.bad(node, path, expected);
        }
        value
    }

    /// Returns whether the file says it.
    pub(super) fn has(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    fn find(&self, path: &str) -> Option<&'a Node> {
        path.split('.').try_fold(self.root, |node, key| node.get(key))
    }

    fn conflict<T>(&mut self, node: &Node, path: &str, message: &str) -> Option<T> {
        self.problem(node.at, path, ProblemKind::Conflict(message.to_owned()));
        None
    }

    fn bad(&mut self, node: &Node, path: &str, expected: &str) {
        let secret = path == "model.headers" || path.ends_with(".base_url");
        let found = match (&node.value, expected.contains("text")) {
            (Value::Text(_), _) if secret => "this text".to_owned(),
            (Value::Map(_), _) if secret => "a group with other values".to_owned(),
            (Value::Whole(_) | Value::Decimal(_) | Value::Flag(_), true)
                if !expected.starts_with("a list") =>
            {
                format!("{} (put it in quotes)", node.describe())
            }
            (Value::Map(_) | Value::List(_) | Value::Null, _) => node.describe(),
            _ if expected.starts_with("a list") => format!("{}, which is not a list", node.describe()),
            _ => node.describe(),
        };
        let path = if path.is_empty() { "the file" } else { path };
        self.problem(node.at, path, ProblemKind::BadValue { expected: expected.to_owned(), found });
    }

    fn problem(&mut self, at: Place, path: &str, kind: ProblemKind) {
        self.problems.push(Problem { line: at.line, column: at.column, path: path.to_owned(), kind });
    }
}

/// What may be said of the wait for the first byte.
const FIRST_BYTE: &str = "auto, none, or a length of time such as 90s or 10m";

fn first_byte(node: &Node) -> Option<FirstByteTimeout> {
    match node.word().as_deref() {
        Some("auto") => Some(FirstByteTimeout::Auto),
        Some("none") => Some(FirstByteTimeout::Unlimited),
        _ => time(node).map(FirstByteTimeout::After),
    }
}

fn time(node: &Node) -> Option<Duration> {
    text(node).and_then(|text| duration::parse(&text))
}

fn default(path: &str) -> &'static str {
    keys::at(path).and_then(|key| key.default).unwrap_or_default()
}

fn wrong_word(path: &str, word: &str) -> ProblemKind {
    let (now, later) = match keys::at(path).map(|key| &key.kind) {
        Some(Kind::Choice { now, later }) => (*now, *later),
        Some(Kind::Counter) => (TokenCounter::NAMES, &[][..]),
        _ => (&[][..], &[][..]),
    };
    choose(path, word, now, later)
}

fn choose(path: &str, word: &str, now: &[&str], later: &[&str]) -> ProblemKind {
    if later.contains(&word) {
        return ProblemKind::NotYet { what: format!("`{path}: {word}`") };
    }
    ProblemKind::NotAChoice {
        value: clip(word),
        nearest: nearest(word, now.iter().copied()).map(str::to_owned),
        valid: now.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn whole(node: &Node, min: u64, max: u64) -> Option<u64> {
    match node.value {
        Value::Whole(number) => u64::try_from(number).ok().filter(|number| (min..=max).contains(number)),
        _ => None,
    }
}

/// A number, 0 or more.
fn amount(node: &Node) -> Option<f64> {
    let amount = match node.value {
        Value::Whole(number) => number as f64,
        Value::Decimal(number) => number,
        _ => return None,
    };
    (amount.is_finite() && amount >= 0.0).then_some(amount)
}

fn text(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}

fn is_map(node: &Node) -> bool {
    matches!(node.value, Value::Map(_) | Value::Null)
}

fn is_url(text: &str) -> bool {
    let rest = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    rest.is_some_and(|rest| !rest.is_empty())
}

fn is_env_name(name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.len() <= 128 && name.chars().all(part) && name.starts_with(|c: char| !c.is_ascii_digit())
}
