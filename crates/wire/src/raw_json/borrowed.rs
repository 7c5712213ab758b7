//! Borrowed views of JSON texts: fields and elements with their own bytes. Bytes that are not read stay
//! unchanged.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::quote;

/// Returns the fields of an object in order, each value with its own bytes. `None` if the text is no object.
pub fn fields(object: &str) -> Option<Vec<(Cow<'_, str>, &str)>> {
    let mut deserializer = serde_json::Deserializer::from_str(object);
    let fields = deserializer.deserialize_map(BorrowedFieldsVisitor).ok()?;
    deserializer.end().ok()?;
    Some(fields)
}

/// Returns the elements of a list with their own bytes. `None` if the text is no list.
pub fn elements(list: &str) -> Option<Vec<&str>> {
    let elements: Vec<&RawValue> = serde_json::from_str(list).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// Decodes a JSON string. `None` if the text is no string.
pub fn string(text: &str) -> Option<String> {
    serde_json::from_str(text).ok()
}

/// Returns the last field of that name: JSON readers take the last of repeated fields.
pub fn field<'a>(fields: &[(Cow<'_, str>, &'a str)], name: &str) -> Option<&'a str> {
    fields.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value)
}

/// Returns the text of the last field of that name. `None` if there is none or it is no string.
pub fn text_field(fields: &[(Cow<'_, str>, &str)], name: &str) -> Option<String> {
    field(fields, name).and_then(string)
}

/// Returns the range of `part`, a slice of `whole`, in it.
pub fn place(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}

/// Returns an object with one field set: its value is replaced, or the field is appended. All other bytes stay.
pub fn with_field(object: &str, name: &str, value: &str) -> Option<String> {
    let fields = fields(object)?;
    let mut changed = String::with_capacity(object.len() + name.len() + value.len() + 8);
    // The value is replaced in place, because a second field of one name would depend on the reader.
    if let Some(old) = field(&fields, name) {
        let at = place(object, old);
        changed.push_str(&object[..at.start]);
        changed.push_str(value);
        changed.push_str(&object[at.end..]);
        return Some(changed);
    }
    // The text is one whole object, so its last brace is the closing one.
    let end = object.rfind('}')?;
    changed.push_str(object[..end].trim_end());
    if !fields.is_empty() {
        changed.push(',');
    }
    changed.push_str(&quote(name));
    changed.push(':');
    changed.push_str(value);
    changed.push_str(&object[end..]);
    Some(changed)
}

struct BorrowedFieldsVisitor;

impl<'a> Visitor<'a> for BorrowedFieldsVisitor {
    type Value = Vec<(Cow<'a, str>, &'a str)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        // A list keeps the order and doubled keys. Both matter where a request goes out with the client's bytes.
        while let Some(key) = map.next_key::<BorrowedFieldName<'a>>()? {
            fields.push((key.0, map.next_value::<&'a RawValue>()?.get()));
        }
        Ok(fields)
    }
}

/// A key: borrowed unless it has escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct BorrowedFieldName<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_they_stand() {
        let object = r#"{ "a" : 1.0e2, "\u0062":[1, 2] ,"a":"x"}"#;
        let fields = fields(object).unwrap();
        let names: Vec<&str> = fields.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["a", "b", "a"]);
        assert_eq!(field(&fields, "a"), Some("\"x\""));
        let list = field(&fields, "b").unwrap();
        assert_eq!(&object[place(object, list)], "[1, 2]");
        assert_eq!(elements(list).unwrap(), ["1", "2"]);
        assert_eq!(elements("{}"), None);
        assert!(super::fields("[]").is_none() && super::fields("{} x").is_none());
    }

    #[test]
    fn a_field_is_set_and_nothing_else_changes() {
        let set = |object| with_field(object, "n", "1").unwrap();
        assert_eq!(set(r#"{"a":1.0, "n" : [2] ,"b":3}"#), r#"{"a":1.0, "n" : 1 ,"b":3}"#);
        assert_eq!(set(r#"{"a":"}" }"#), r#"{"a":"}","n":1}"#);
        assert_eq!(set("{ }"), r#"{"n":1}"#);
        assert_eq!(with_field("[]", "n", "1"), None);
    }
}
