//! Settings in the form `key=value` or `key: value`, with the latest value of each.
//!
//! Only people and the model introduce keys. Tool output can update a known key, unless a person gave its value.

use super::bounded_fact_map::BoundedFactMap;
use super::line;
use crate::ids::Seq;

/// The most settings kept.
const MAX_ITEMS: usize = 256;

const MAX_KEY_BYTES: usize = 48;
const MAX_VALUE_BYTES: usize = 96;

/// The part of one text that is searched, in bytes.
const MAX_READ_BYTES: usize = 32 << 10;

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueSource {
    Typed,
    Model,
    Tool,
}

/// A key with values.
#[derive(Clone, Debug, PartialEq)]
struct TrackedSetting {
    key: String,
    /// The value that a person typed last.
    typed: Option<String>,
    /// The newer value that the model or a tool gave, if any.
    later: Option<String>,
    /// The message that introduced the key.
    first: Seq,
    /// `true` if a later message mentions the key too.
    again: bool,
}

/// The settings, in the order of their newest values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SettingTracker(BoundedFactMap<TrackedSetting>);

impl Default for SettingTracker {
    fn default() -> Self {
        Self(BoundedFactMap::new(MAX_ITEMS))
    }
}

impl SettingTracker {
    /// Records the settings in a text of the message at `at`.
    pub(super) fn read(&mut self, at: Seq, source: ValueSource, text: &str) {
        // Tool output introduces no key, so without known keys there is nothing to update in it.
        if source == ValueSource::Tool && self.0.is_empty() {
            return;
        }
        let mut in_code = false;
        for line in line::head(text, MAX_READ_BYTES).lines() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            }
            // `key: 1` is everywhere in tool output (YAML, JSON, logs), and code of the model is full of assignments.
            if source != ValueSource::Tool
                && !in_code
                && let Some((key, value)) = colon(line)
            {
                self.set(at, source, key, value);
            }
            if line.contains('=') && !(in_code && source == ValueSource::Model) {
                equals(line).for_each(|(key, value)| self.set(at, source, key, value));
            }
        }
    }

    fn set(&mut self, at: Seq, source: ValueSource, key: &str, value: &str) {
        // `--port=1` on a command line and `Port: 1` in a sentence are one setting.
        let name = key.trim_start_matches('-').to_lowercase();
        let known = self.0.get(&name);
        let is_typed = known.is_some_and(|known| known.typed.is_some());
        // Tool output is untrusted material, and must not replace the value that a person gave.
        if source == ValueSource::Tool && (known.is_none() || is_typed) {
            return;
        }
        let (first, again) =
            known.map_or((at, false), |known| (known.first, known.again || known.first != at));
        let holds = known.and_then(|known| known.later.as_deref().or(known.typed.as_deref()));
        // A repeated value keeps its place in the order. A person's repetition confirms the value and makes it typed.
        if holds == Some(value) && source != ValueSource::Typed {
            if let Some(known) = self.0.get_mut(&name) {
                known.again = again;
            }
            return;
        }
        let before = known.and_then(|known| known.typed.clone());
        let value = value.to_owned();
        let (typed, later) = match source {
            ValueSource::Typed => (Some(value), None),
            ValueSource::Model | ValueSource::Tool if before.as_ref() == Some(&value) => (before, None),
            ValueSource::Model | ValueSource::Tool => (before, Some(value)),
        };
        let key = key.trim_start_matches('-').to_owned();
        self.0.put(&name, TrackedSetting { key, typed, later, first, again });
    }

    /// Returns the settings as items of a list, the newest first.
    pub(super) fn latest(&self) -> impl Iterator<Item = String> {
        // A key that the model mentions in one message only is part of an explanation more often than a setting.
        let shown = self.0.iter().rev().filter(|(_, setting)| setting.again || setting.typed.is_some());
        shown.map(|(_, setting)| {
            let key = line::single_line(&setting.key, MAX_KEY_BYTES);
            match (&setting.typed, &setting.later) {
                (Some(typed), Some(later)) => {
                    format!("{key} = {} (the user said {})", quoted(later), quoted(typed))
                }
                (Some(typed), None) => format!("{key} = {} (the user's)", quoted(typed)),
                (None, later) => format!("{key} = {}", quoted(later.as_deref().unwrap_or_default())),
            }
        })
    }

    /// Returns the number of settings that were removed because there were too many.
    pub(super) fn evicted(&self) -> u64 {
        self.0.evicted()
    }
}

fn quoted(value: &str) -> String {
    line::quoted(value, MAX_VALUE_BYTES)
}

/// Returns whether a line is one setting: `key: value` or `key = value`.
pub(super) fn states_value(line: &str) -> bool {
    colon(line).is_some() || (line.contains('=') && equals(line).next().is_some())
}

/// Returns the settings of the forms `key=12` and `--key=12` in a line. The value has a digit or is a switch.
fn equals(line: &str) -> impl Iterator<Item = (&str, &str)> {
    super::names::words(line).filter_map(|word| {
        let (key, value) = word.split_once('=')?;
        let value = value.trim_end_matches(['.', ':', '!', '?']);
        let is_switch = matches!(value, "true" | "false" | "on" | "off" | "yes" | "no");
        // Without a digit or a switch, `key=word` is code or prose more often than a setting.
        let is_value = value.bytes().any(|byte| byte.is_ascii_digit()) || is_switch;
        (is_key(key) && is_value && is_plain(value) && value.len() <= MAX_VALUE_BYTES).then_some((key, value))
    })
}

fn is_plain(value: &str) -> bool {
    value.chars().all(|char| char.is_alphanumeric() || " ._-+:%/$€#@".contains(char))
}

fn is_key(key: &str) -> bool {
    let first = key.trim_start_matches('-').bytes().next();
    (2..=MAX_KEY_BYTES).contains(&key.len())
        && first.is_some_and(|byte| byte.is_ascii_alphabetic())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Returns the setting of a line `key: value`. The key has at most three words, the value at most four and a digit.
fn colon(line: &str) -> Option<(&str, &str)> {
    let line = line.trim().trim_start_matches(['-', '*', ' ']);
    let (key, value) = line.split_once(": ")?;
    let (key, value) = (key.trim_matches('*'), value.trim().trim_matches(['*', '`']).trim_end_matches('.'));
    let is_name = key.chars().all(|char| char.is_alphanumeric() || " _-./".contains(char));
    let fits = (2..=MAX_KEY_BYTES).contains(&key.len()) && (1..=MAX_VALUE_BYTES).contains(&value.len());
    let is_short = key.split(' ').count() <= 3 && value.split(' ').count() <= 4;
    let starts = key.starts_with(char::is_alphabetic);
    // "FACT: the port is 8080" is a sentence with a label. "PORT: 8080" is a setting.
    let is_label = value.contains(' ') && key.chars().all(|char| char.is_uppercase() || char == ' ');
    let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
    (fits && is_short && starts && has_digit && is_plain(value) && is_name && !is_label)
        .then_some((key, value))
}
