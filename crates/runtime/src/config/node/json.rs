//! The reader of agent files without the Cargo feature `yaml`: a file is JSON, which is YAML too.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::super::error::{ConfigProblem, ConfigProblemKind};
use super::{ConfigEntry, ConfigNode, ConfigPosition, ConfigValue, DEEPEST};

/// Reads one JSON document.
pub(in super::super) fn parse(text: &str) -> Result<ConfigNode, Box<ConfigProblem>> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => read_node(text, raw.get(), 0),
        // The list of keys has defaults that are words, such as `auto`.
        Err(_) if is_plain_word(text) => {
            Ok(ConfigNode { at: place(text, text), value: ConfigValue::Text(text.to_owned()) })
        }
        Err(error) => {
            let at = ConfigPosition { line: error.line() as u64, column: error.column() as u64 };
            Err(syntax(at, format!("{error} (without the Cargo feature `yaml`, a file is JSON)")))
        }
    }
}

/// Reads the value whose text is `value`, a part of `whole`.
fn read_node(whole: &str, value: &str, depth: usize) -> Result<ConfigNode, Box<ConfigProblem>> {
    let at = place(whole, value);
    if depth > DEEPEST {
        return Err(syntax(at, format!("nested more than {DEEPEST} levels deep")));
    }
    let value = match value.as_bytes().first() {
        Some(b'{') => {
            let RawEntries(entries) = deserialize_at(value, at)?;
            let entries = entries.into_iter().map(|(key, value)| read_entry(whole, key, value, depth + 1));
            ConfigValue::Map(entries.collect::<Result<_, _>>()?)
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = deserialize_at(value, at)?;
            let items = items.into_iter().map(|item| read_node(whole, item.get(), depth + 1));
            ConfigValue::List(items.collect::<Result<_, _>>()?)
        }
        Some(b'"') => ConfigValue::Text(deserialize_at(value, at)?),
        Some(b't' | b'f') => ConfigValue::Flag(value == "true"),
        Some(b'n') | None => ConfigValue::Null,
        Some(_) => match value.parse() {
            Ok(number) => ConfigValue::Whole(number),
            Err(_) => ConfigValue::Decimal(deserialize_at(value, at)?),
        },
    };
    Ok(ConfigNode { at, value })
}

/// Reads an entry of a mapping, whose value is a part of `whole`.
fn read_entry(
    whole: &str,
    key: String,
    value: &RawValue,
    depth: usize,
) -> Result<ConfigEntry, Box<ConfigProblem>> {
    let node = read_node(whole, value.get(), depth)?;
    Ok(ConfigEntry { key, at: node.at, node })
}

/// Reads JSON that stands at a place of the file. An error names that place.
fn deserialize_at<'t, T: Deserialize<'t>>(
    text: &'t str,
    at: ConfigPosition,
) -> Result<T, Box<ConfigProblem>> {
    serde_json::from_str(text).map_err(|error| syntax(at, error.to_string()))
}

fn is_plain_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
}

/// Returns the place of `part`, which is a slice of `whole`.
fn place(whole: &str, part: &str) -> ConfigPosition {
    let offset = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    let before = whole.get(..offset).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    ConfigPosition {
        line: before.matches('\n').count() as u64 + 1,
        column: before[line_start..].chars().count() as u64 + 1,
    }
}

fn syntax(at: ConfigPosition, message: String) -> Box<ConfigProblem> {
    let kind = ConfigProblemKind::Syntax(message);
    Box::new(ConfigProblem { line: at.line, column: at.column, path: String::new(), kind })
}

/// The entries of an object in their order, each key once.
struct RawEntries<'t>(Vec<(String, &'t RawValue)>);

impl<'de> Deserialize<'de> for RawEntries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RawEntriesVisitor)
    }
}

struct RawEntriesVisitor;

impl<'de> Visitor<'de> for RawEntriesVisitor {
    type Value = RawEntries<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<RawEntries<'de>, A::Error> {
        let mut entries: Vec<(String, &RawValue)> = Vec::new();
        while let Some((key, value)) = items.next_entry::<String, &RawValue>()? {
            if entries.iter().any(|(known, _)| *known == key) {
                return Err(A::Error::custom(format!("duplicate key `{key}`")));
            }
            entries.push((key, value));
        }
        Ok(RawEntries(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "{\n  \"run\": { \"maxSteps\": 7, \"share\": 0.5 },\n  \"tools\": [true, null, \"a\\u0062\"]\n}";

    #[test]
    fn json_has_the_values_that_yaml_has() {
        let node = parse(FILE).unwrap();
        let value: serde_json::Value = serde_json::from_str(FILE).unwrap();
        assert_eq!(node.to_json(), value);
        let steps = node.get("run").unwrap().get("max_steps").unwrap();
        assert_eq!(steps.at, ConfigPosition { line: 2, column: 24 });
    }

    /// Returns the line and the column at which a file is refused.
    fn refusal_place(text: &str) -> (u64, u64) {
        let problem = parse(text).unwrap_err();
        (problem.line, problem.column)
    }

    #[test]
    fn what_is_no_json_is_refused_at_its_place() {
        assert_eq!(refusal_place("run:\n  maxSteps: 7"), (1, 1));
        assert_eq!(refusal_place("{\n  \"run\": 1,\n}"), (3, 1));
        assert_eq!(refusal_place("{ \"a\": { \"b\": 1, \"b\": 2 } }"), (1, 8));
        let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
        assert_eq!(refusal_place(&deep), (1, 34));
    }

    #[test]
    fn a_default_may_be_a_plain_word() {
        assert_eq!(parse("auto").unwrap().word().as_deref(), Some("auto"));
        assert_eq!(parse("10m").unwrap().word().as_deref(), Some("10m"));
        assert_eq!(parse("12").unwrap().word().as_deref(), Some("12"));
    }
}
