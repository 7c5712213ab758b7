//! YAML as a tree in which every key and value knows its place.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::error::{ConfigProblem, ConfigProblemKind};

/// The deepest nesting that a file may have. The reader recurses for each level, on the caller's stack.
const DEEPEST: usize = 32;

/// The most values that aliases may repeat: a file of a few lines may expand to millions.
const MOST_REPEATED: usize = 20_000;

/// A place in the file: line and column, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConfigPosition {
    pub(super) line: u64,
    pub(super) column: u64,
}

/// A value and its place in the file.
#[derive(Clone, Debug)]
pub(super) struct ConfigNode {
    pub(super) at: ConfigPosition,
    pub(super) value: ConfigValue,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum ConfigValue {
    Null,
    Flag(bool),
    // Wide enough for a negative number and for every `u64`, so that a message can quote a number out of range.
    Whole(i128),
    Decimal(f64),
    Text(String),
    List(Vec<ConfigNode>),
    Map(Vec<ConfigEntry>),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct ConfigEntry {
    pub(super) key: String,
    pub(super) at: ConfigPosition,
    pub(super) node: ConfigNode,
}

/// Reads one YAML document.
pub(super) fn parse(text: &str) -> Result<ConfigNode, Box<ConfigProblem>> {
    let budget = serde_saphyr::budget! { max_depth: DEEPEST, flow_nesting_limit: DEEPEST };
    let alias_limits = serde_saphyr::alias_limits! { max_total_replayed_events: MOST_REPEATED };
    let options =
        // Without strict booleans, YAML 1.1 would read the words `on`, `off`, `yes` and `no` as flags.
        serde_saphyr::options! { strict_booleans: true, budget: budget, alias_limits: alias_limits };
    serde_saphyr::from_str_with_options::<Spanned<ConfigValue>>(text, options)
        .map(ConfigNode::from)
        .map_err(syntax)
}

fn syntax(error: serde_saphyr::Error) -> Box<ConfigProblem> {
    // Limits of the whole file, such as its aliases, are exceeded at no place of their own.
    let at = error.location().map(place).unwrap_or(ConfigPosition { line: 1, column: 1 });
    let message = error.without_snippet().to_string();
    let place_in_words = format!(" at line {}, column {}", at.line, at.column);
    let message = message.strip_suffix(&place_in_words).unwrap_or(&message);
    // The parser's hint names an option of its own API.
    let message = message.split_once(", set DuplicateKeyPolicy").map_or(message, |(plain, _)| plain);
    let kind = ConfigProblemKind::Syntax(message.to_owned());
    Box::new(ConfigProblem { line: at.line, column: at.column, path: String::new(), kind })
}

fn place(location: serde_saphyr::Location) -> ConfigPosition {
    ConfigPosition { line: location.line(), column: location.column() }
}

impl From<Spanned<ConfigValue>> for ConfigNode {
    fn from(spanned: Spanned<ConfigValue>) -> Self {
        Self { at: place(spanned.referenced), value: spanned.value }
    }
}

impl ConfigNode {
    /// Returns a file without keys.
    pub(super) fn empty() -> Self {
        Self { at: ConfigPosition { line: 1, column: 1 }, value: ConfigValue::Null }
    }

    /// Returns the map's entries; none for a value that is not a map.
    pub(super) fn entries(&self) -> &[ConfigEntry] {
        match &self.value {
            ConfigValue::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the value under a key, in either spelling.
    pub(super) fn get(&self, key: &str) -> Option<&ConfigNode> {
        self.entries().iter().find(|entry| is_spelling_of(&entry.key, key)).map(|entry| &entry.node)
    }

    /// Returns the value as a word, for choices: `auto`, `true`, `12`.
    pub(super) fn word(&self) -> Option<String> {
        match &self.value {
            ConfigValue::Flag(flag) => Some(flag.to_string()),
            ConfigValue::Whole(number) => Some(number.to_string()),
            ConfigValue::Decimal(number) => Some(number.to_string()),
            ConfigValue::Text(text) => Some(text.clone()),
            ConfigValue::Null => Some("none".to_owned()),
            ConfigValue::List(items) if items.is_empty() => Some("[]".to_owned()),
            ConfigValue::Map(entries) if entries.is_empty() => Some("{}".to_owned()),
            ConfigValue::List(_) | ConfigValue::Map(_) => None,
        }
    }

    /// Returns a short description of the value for a message, with its kind where the kind is the point.
    pub(super) fn describe(&self) -> String {
        match &self.value {
            ConfigValue::Null => "nothing".to_owned(),
            ConfigValue::Flag(flag) => flag.to_string(),
            ConfigValue::Whole(number) => number.to_string(),
            ConfigValue::Decimal(number) => number.to_string(),
            ConfigValue::Text(text) => format!("`{}`", clip(text)),
            ConfigValue::List(_) => "a list".to_owned(),
            ConfigValue::Map(_) => "a group of keys".to_owned(),
        }
    }

    /// Returns the same value in JSON; a number that JSON cannot express becomes null.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            ConfigValue::Null => serde_json::Value::Null,
            ConfigValue::Flag(flag) => (*flag).into(),
            ConfigValue::Whole(number) => whole(*number),
            ConfigValue::Decimal(number) => (*number).into(),
            ConfigValue::Text(text) => text.as_str().into(),
            ConfigValue::List(items) => items.iter().map(ConfigNode::to_json).collect(),
            ConfigValue::Map(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect()
            }
        }
    }
}

fn whole(number: i128) -> serde_json::Value {
    i64::try_from(number)
        .map(serde_json::Value::from)
        .or_else(|_| u64::try_from(number).map(serde_json::Value::from))
        .unwrap_or(serde_json::Value::Null)
}

/// Returns whether `given` is `key` in its own or in the other spelling: `maxSteps` and `max_steps` are one key.
pub(super) fn is_spelling_of(given: &str, key: &str) -> bool {
    given == key || camel_case(given) == camel_case(key)
}

/// Returns a key in camel case: `context_window` is `contextWindow`.
fn camel_case(key: &str) -> String {
    let mut words = key.split('_').filter(|word| !word.is_empty());
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (initial, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        camel.push_str(&initial.to_uppercase());
        camel.push_str(rest);
    }
    camel
}

/// Returns at most 40 characters of a text.
pub(super) fn clip(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl<'de> Deserialize<'de> for ConfigValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ConfigValueVisitor)
    }
}

struct ConfigValueVisitor;

impl<'de> Visitor<'de> for ConfigValueVisitor {
    type Value = ConfigValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Null)
    }

    fn visit_none<E>(self) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<ConfigValue, D::Error> {
        deserializer.deserialize_any(ConfigValueVisitor)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Whole(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Whole(number.into()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Whole(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Decimal(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<ConfigValue, E> {
        Ok(ConfigValue::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ConfigValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<ConfigValue>>()? {
            list.push(item.into());
        }
        Ok(ConfigValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<ConfigValue, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = items.next_key::<Spanned<String>>()? {
            let node = items.next_value::<Spanned<ConfigValue>>()?.into();
            map.push(ConfigEntry { at: place(key.referenced), key: key.value, node });
        }
        Ok(ConfigValue::Map(map))
    }
}
