//! A router's reasoning details: entries that come in pieces, of which the signed ones must be sent back.

use longhaul_core::message::RawJson;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::response;

/// Fields that grow from piece to piece.
const GROWING: &[&str] = &["text", "summary", "data"];

/// The entries so far.
#[derive(Debug, Default)]
pub(super) struct Details(Vec<Map<String, Value>>);

impl Details {
    /// Takes the entries of one delta.
    pub(super) fn add(&mut self, raw: &RawValue) {
        let entries: Vec<Map<String, Value>> = serde_json::from_str(raw.get()).unwrap_or_default();
        entries.into_iter().for_each(|entry| self.add_one(entry));
    }

    /// The entries as they go back, if one of them proves anything.
    pub(super) fn native(&self) -> Option<RawJson> {
        let json = serde_json::json!({ "reasoning_details": self.0 }).to_string();
        let details: response::Details<'_> = serde_json::from_str(&json).ok()?;
        details.are_proven().then_some(RawJson(json))
    }

    fn add_one(&mut self, entry: Map<String, Value>) {
        match self.0.last_mut().filter(|last| continues(last, &entry)) {
            Some(last) => entry.into_iter().for_each(|(key, value)| grow(last, key, value)),
            None => self.0.push(entry),
        }
    }
}

/// Pieces of one entry share its index and type, and do not have different ids.
fn continues(last: &Map<String, Value>, next: &Map<String, Value>) -> bool {
    let same = |key: &str| last.get(key) == next.get(key);
    let given = |entry: &Map<String, Value>, key: &str| entry.get(key).is_some_and(|value| !value.is_null());
    given(next, "index")
        && same("index")
        && same("type")
        && (!given(last, "id") || !given(next, "id") || same("id"))
}

fn grow(entry: &mut Map<String, Value>, key: String, value: Value) {
    match (entry.get_mut(&key), value) {
        (_, Value::Null) => {}
        (Some(Value::String(text)), Value::String(more)) if GROWING.contains(&key.as_str()) => {
            text.push_str(&more)
        }
        (_, value) => {
            entry.insert(key, value);
        }
    }
}
