//! The reader of agent files in YAML.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::super::error::{ConfigProblem, ConfigProblemKind};
use super::{ConfigEntry, ConfigNode, ConfigPosition, ConfigValue, DEEPEST};

/// The most values that aliases may repeat: a file of a few lines may expand to millions.
const MOST_REPEATED: usize = 20_000;

/// Reads one YAML document.
pub(in super::super) fn parse(text: &str) -> Result<ConfigNode, Box<ConfigProblem>> {
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
