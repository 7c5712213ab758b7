//! YAML as a tree in which every key and value knows its place.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::error::{Problem, ProblemKind};

/// How deep a file may be nested. Reading calls itself for each level, on the stack of whoever reads.
const DEEPEST: usize = 32;

/// Values that come by aliases, at most: a file of a few lines may stand for millions.
const MOST_REPEATED: usize = 20_000;

/// A place in the file: line and column, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) value: Value,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Flag(bool),
    Whole(i128),
    Decimal(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) at: Place,
    pub(super) node: Node,
}

/// Reads one YAML document.
pub(super) fn parse(text: &str) -> Result<Node, Box<Problem>> {
    let budget = serde_saphyr::budget! { max_depth: DEEPEST, flow_nesting_limit: DEEPEST };
    let alias_limits = serde_saphyr::alias_limits! { max_total_replayed_events: MOST_REPEATED };
    let options =
        serde_saphyr::options! { strict_booleans: true, budget: budget, alias_limits: alias_limits };
    serde_saphyr::from_str_with_options::<Spanned<Value>>(text, options).map(Node::from).map_err(syntax)
}

fn syntax(error: serde_saphyr::Error) -> Box<Problem> {
    let at = error.location().map(place).unwrap_or(Place { line: 1, column: 1 });
    let message = error.without_snippet().to_string();
    let place_in_words = format!(" at line {}, column {}", at.line, at.column);
    let message = message.strip_suffix(&place_in_words).unwrap_or(&message);
    // The parser's hint names an option of its own API.
    let message = message.split_once(", set DuplicateKeyPolicy").map_or(message, |(plain, _)| plain);
    let kind = ProblemKind::Syntax(message.to_owned());
    Box::new(Problem { line: at.line, column: at.column, path: String::new(), kind })
}

fn place(location: serde_saphyr::Location) -> Place {
    Place { line: location.line(), column: location.column() }
}

impl From<Spanned<Value>> for Node {
    fn from(spanned: Spanned<Value>) -> Self {
        Self { at: place(spanned.referenced), value: spanned.value }
    }
}

impl Node {
    /// A file without keys.
    pub(super) fn empty() -> Self {
        Self { at: Place { line: 1, column: 1 }, value: Value::Null }
    }

    /// Its entries; none for a value that is no map.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The value under a key.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The value as a word, for choices: `auto`, `true`, `12`.
    pub(super) fn word(&self) -> Option<String> {
        match &self.value {
            Value::Flag(flag) => Some(flag.to_string()),
            Value::Whole(number) => Some(number.to_string()),
            Value::Decimal(number) => Some(number.to_string()),
            Value::Text(text) => Some(text.clone()),
            Value::Null => Some("none".to_owned()),
            Value::List(items) if items.is_empty() => Some("[]".to_owned()),
            Value::Map(entries) if entries.is_empty() => Some("{}".to_owned()),
            Value::List(_) | Value::Map(_) => None,
        }
    }

    /// What is there, for a message: short, and with the kind where the kind is the point.
    pub(super) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Flag(flag) => flag.to_string(),
            Value::Whole(number) => number.to_string(),
            Value::Decimal(number) => number.to_string(),
            Value::Text(text) => format!("`{}`", clip(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a group of keys".to_owned(),
        }
    }

    /// The same value in JSON; a number JSON has no form for becomes null.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Flag(flag) => (*flag).into(),
            Value::Whole(number) => whole(*number),
            Value::Decimal(number) => (*number).into(),
            Value::Text(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Node::to_json).collect(),
            Value::Map(entries) => {
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

/// At most 40 characters of a text.
pub(super) fn clip(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Whole(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Whole(number.into()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Value, E> {
        Ok(Value::Whole(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Decimal(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Value>>()? {
            list.push(item.into());
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = items.next_key::<Spanned<String>>()? {
            let node = items.next_value::<Spanned<Value>>()?.into();
            map.push(Entry { at: place(key.referenced), key: key.value, node });
        }
        Ok(Value::Map(map))
    }
}
