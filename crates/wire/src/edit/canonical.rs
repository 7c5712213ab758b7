//! The canonical form of a JSON text: the same for every client's way of writing JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::ephemeral::{CACHE_MARKS, is_volatile, without_notices};

/// A JSON value, text borrowed where it has no escapes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JsonNode<'a> {
    /// `null`.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number.
    Number(serde_json::Number),
    /// A string.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<JsonNode<'a>>),
    /// An object, its fields in order.
    Object(Vec<(Cow<'a, str>, JsonNode<'a>)>),
}

impl<'a> JsonNode<'a> {
    /// Parses a text. `None` if it is not JSON.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns the string, if the value is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns a field, if the value is an object that has it.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            // JSON readers take the last of repeated keys.
            Self::Object(fields) => fields.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns a field to change, if the value is an object that has it.
    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Self> {
        match self {
            Self::Object(fields) => {
                fields.iter_mut().rev().find(|(key, _)| key == name).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// Removes a field.
    pub(crate) fn remove(&mut self, name: &str) {
        if let Self::Object(fields) = self {
            // All of them: a repeated key would come to light otherwise.
            fields.retain(|(key, _)| key != name);
        }
    }

    /// Creates a content block: an object of type `kind` with one field of text.
    pub(crate) fn block(kind: &'static str, text: Cow<'a, str>) -> Self {
        Self::Object(vec![
            (Cow::Borrowed("type"), Self::Text(Cow::Borrowed(kind))),
            (Cow::Borrowed("text"), Self::Text(text)),
        ])
    }

    /// Writes the value without whitespace, fields sorted by name; fields of the same name keep their order.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Self::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Self::Text(text) => write_text(text, out),
            Self::List(list) => {
                out.push(b'[');
                for (index, node) in list.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    node.write(out);
                }
                out.push(b']');
            }
            Self::Object(fields) => {
                let mut sorted: Vec<_> = fields.iter().collect();
                // The sort is stable, so the last of repeated keys stays the last one.
                sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
                out.push(b'{');
                for (index, (key, value)) in sorted.into_iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_text(key, out);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    // The length replaces the quotes, because no escape has to be written then.
    out.extend_from_slice(text.len().to_string().as_bytes());
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
}

/// Turns content into an equivalent list of blocks: a string becomes one block of type `kind`. Cache marks,
/// notices and volatile blocks are removed, and text blocks that are empty then.
pub(crate) fn settle_content(content: &mut JsonNode<'_>, kind: &'static str) {
    if let JsonNode::Text(text) = content {
        *content = JsonNode::List(vec![JsonNode::block(kind, std::mem::take(text))]);
    }
    let JsonNode::List(blocks) = content else { return };
    for block in blocks.iter_mut() {
        for mark in CACHE_MARKS {
            block.remove(mark);
        }
        if let Some(JsonNode::Text(text)) = block.get_mut("text")
            && let Some(clean) = without_notices(text)
        {
            *text = Cow::Owned(clean);
        }
    }
    // After the notices are removed, because a block may be empty only then.
    blocks.retain(|block| match block.get("text").and_then(JsonNode::as_text) {
        Some(text) => !text.is_empty() && !is_volatile(text),
        None => true,
    });
}

impl<'de> Deserialize<'de> for JsonNode<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonNodeVisitor)
    }
}

struct JsonNodeVisitor;

impl<'de> Visitor<'de> for JsonNodeVisitor {
    type Value = JsonNode<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(JsonNode::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(JsonNode::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(JsonNode::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(JsonNode::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        // JSON has no infinite number, so the parser never passes one and the fallback is not taken.
        Ok(serde_json::Number::from_f64(value).map_or(JsonNode::Null, JsonNode::Number))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(JsonNode::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(JsonNode::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = seq.next_element()? {
            list.push(node);
        }
        Ok(JsonNode::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<JsonNodeKey<'de>>()? {
            fields.push((key.0, map.next_value()?));
        }
        Ok(JsonNode::Object(fields))
    }
}

#[derive(serde::Deserialize)]
#[serde(transparent)]
struct JsonNodeKey<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        JsonNode::parse(text).unwrap().write(&mut out);
        out
    }

    #[test]
    fn spelling_does_not_matter_and_content_does() {
        let one = form(r#"{"b":[1, 2.50,null,true],"a":"x\u0041\n"}"#);
        assert_eq!(one, form("{ \"a\" : \"xA\\n\",\n\"b\":[1,2.5,null,true] }"));
        for other in [
            r#"{"b":[1, 2.50,null,false],"a":"x\u0041\n"}"#,
            r#"{"b":[1, 2.51,null,true],"a":"x\u0041\n"}"#,
            r#"{"b":[1, 2.50,null,true],"a":"xA"}"#,
            r#"{"b":[2.50, 1,null,true],"a":"xA\n"}"#,
        ] {
            assert_ne!(one, form(other), "{other}");
        }
        assert_ne!(form(r#"["a","b"]"#), form(r#"["a\",1\"b"]"#), "no text can pretend to be two");
    }

    #[test]
    fn content_is_the_same_with_and_without_marks() {
        let settled = |text: &str| {
            let mut node = JsonNode::parse(text).unwrap();
            settle_content(&mut node, "text");
            let mut out = Vec::new();
            node.write(&mut out);
            out
        };
        let plain = settled(r#""hello""#);
        assert_eq!(
            plain,
            settled(r#"[{"type":"text","text":"hello","cache_control":{"type":"ephemeral"}}]"#)
        );
        let attributed =
            r#"[{"type":"text","text":"x-anthropic-billing-header: cch=1"},{"text":"hello","type":"text"}]"#;
        assert_eq!(plain, settled(attributed));
        assert_eq!(plain, settled(r#""✅ Context compacted, continuing…\nhello""#));
        assert_ne!(plain, settled(r#""hello!""#));
    }
}
