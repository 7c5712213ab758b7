//! A file as a tree in which every key and value knows its place.

#[cfg(any(test, not(feature = "yaml")))]
mod json;
#[cfg(feature = "yaml")]
mod yaml;

// Tests read JSON too, so that the build without YAML is tested with the others.
#[cfg(not(feature = "yaml"))]
pub(super) use self::json::parse;
#[cfg(feature = "yaml")]
pub(super) use self::yaml::parse;

/// The deepest nesting that a file may have. The reader recurses for each level, on the caller's stack.
const DEEPEST: usize = 32;

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
