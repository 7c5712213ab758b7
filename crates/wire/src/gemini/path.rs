//! Arguments that arrive field by field, each with the JSON path (`$.a.b[0]`) of its place.

use serde_json::{Map, Value};

use crate::raw_json::RawObject;

/// A JSON value that grows.
#[derive(Debug)]
pub(super) struct GeminiArgumentsBuilder(Value);

impl Default for GeminiArgumentsBuilder {
    fn default() -> Self {
        Self(Value::Object(Map::new()))
    }
}

impl GeminiArgumentsBuilder {
    /// Adds one entry of `partialArgs`. Strings are appended to the present value, other values replace it. An
    /// entry without a readable path is left out.
    pub(super) fn add(&mut self, entry: &RawObject) {
        let Some(steps) = entry.text("jsonPath").and_then(|path| steps(&path)) else { return };
        let Some(piece) = piece(entry) else { return };
        let Some(place) = steps.iter().try_fold(&mut self.0, |at, step| step.enter(at)) else { return };
        match (place, piece) {
            // Google streams a long string in several entries with the same path.
            (Value::String(text), Value::String(more)) => text.push_str(&more),
            (place, piece) => *place = piece,
        }
    }

    /// Returns the value as JSON.
    pub(super) fn to_json(&self) -> String {
        self.0.to_string()
    }
}

fn piece(entry: &RawObject) -> Option<Value> {
    // `nullValue` is an enum with a single value, so its presence is enough.
    parsed(entry, "stringValue")
        .or_else(|| parsed(entry, "numberValue"))
        .or_else(|| parsed(entry, "boolValue"))
        .or_else(|| entry.get("nullValue").map(|_| Value::Null))
}

fn parsed(entry: &RawObject, key: &str) -> Option<Value> {
    entry.get(key).and_then(|raw| serde_json::from_str(raw).ok())
}

#[derive(Debug, PartialEq)]
enum JsonPathStep {
    Field(String),
    Place(usize),
}

/// The largest index of a list, beyond the lists of any model: a wrong index must not fill the memory.
const MAX_PLACES: usize = 100_000;

impl JsonPathStep {
    fn enter<'a>(&self, at: &'a mut Value) -> Option<&'a mut Value> {
        match self {
            Self::Field(name) => {
                if !at.is_object() {
                    *at = Value::Object(Map::new());
                }
                Some(at.as_object_mut()?.entry(name).or_insert(Value::Null))
            }
            Self::Place(place) => {
                if !at.is_array() {
                    *at = Value::Array(Vec::new());
                }
                let list = at.as_array_mut()?;
                if list.len() <= *place {
                    list.resize(*place + 1, Value::Null);
                }
                list.get_mut(*place)
            }
        }
    }
}

/// Returns the steps of a path; `None` if it has another form.
fn steps(path: &str) -> Option<Vec<JsonPathStep>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let step;
        (step, rest) = match rest.strip_prefix('[') {
            Some(inner) => bracket(inner)?,
            None => dotted(rest.strip_prefix('.')?)?,
        };
        steps.push(step);
    }
    Some(steps)
}

fn dotted(rest: &str) -> Option<(JsonPathStep, &str)> {
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    (!name.is_empty()).then(|| (JsonPathStep::Field(name.to_owned()), rest))
}

fn bracket(inner: &str) -> Option<(JsonPathStep, &str)> {
    for quote in ['\'', '"'] {
        if let Some(quoted) = inner.strip_prefix(quote) {
            let (name, rest) = quoted.split_once(quote)?;
            return Some((JsonPathStep::Field(name.to_owned()), rest.strip_prefix(']')?));
        }
    }
    let (place, rest) = inner.split_once(']')?;
    let place = place.parse().ok().filter(|place| *place < MAX_PLACES)?;
    Some((JsonPathStep::Place(place), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(entries: &[&str]) -> String {
        let mut value = GeminiArgumentsBuilder::default();
        for entry in entries {
            value.add(&RawObject::parse(entry).unwrap());
        }
        value.to_json()
    }

    #[test]
    fn values_grow_where_their_paths_say() {
        let entries = [
            r#"{"jsonPath":"$.city","stringValue":"Bos"}"#,
            r#"{"jsonPath":"$.city","stringValue":"ton"}"#,
            r#"{"jsonPath":"$.days[1].hot","boolValue":true}"#,
            r#"{"jsonPath":"$['odd name'].n","numberValue":3}"#,
            r#"{"jsonPath":"$.none","nullValue":null}"#,
        ];
        assert_eq!(
            grown(&entries),
            r#"{"city":"Boston","days":[null,{"hot":true}],"odd name":{"n":3},"none":null}"#
        );
    }

    #[test]
    fn unreadable_paths_are_left_out() {
        for path in ["city", "$..a", "$.a[x]", "$[99999999999]", "$['a", "$.a["] {
            assert_eq!(grown(&[&format!(r#"{{"jsonPath":"{path}","stringValue":"x"}}"#)]), "{}", "{path}");
        }
    }
}
