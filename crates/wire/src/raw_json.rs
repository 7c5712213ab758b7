//! Foreign JSON objects, kept byte for byte: their fields in order, their values unparsed.
//!
//! A streamed item arrives in pieces and is put together here. Bytes that no piece touched stay unchanged,
//! unknown fields and duplicate keys included.

mod borrowed;

use std::fmt;

use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Message, ModelOrigin, Part, RawJson};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::ProviderError;
use crate::token_count::ReportedTokenCount;

pub use borrowed::{elements, field, fields, place, string, text_field, with_field};

/// The number of characters of an unreadable payload in an error.
const MAX_QUOTE_CHARS: usize = 200;

/// The largest number of fields of one object. A lookup searches all of them, and no provider sends a tenth as
/// many.
const MAX_FIELDS: usize = 1_024;

/// A JSON object whose values are not parsed. An object of more than 1,024 fields is refused.
#[derive(Clone, Debug, Default)]
pub struct RawObject(Vec<(String, Box<RawValue>)>);

impl RawObject {
    /// Parses `json`; `None` if `json` is no object.
    pub fn parse(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Returns the bytes of a field.
    pub fn get(&self, key: &str) -> Option<&str> {
        // JSON readers take the last of repeated keys.
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.get())
    }

    /// Returns a field that is a string.
    pub fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?).ok()
    }

    /// Returns a field that is a whole number.
    pub fn number(&self, key: &str) -> Option<u64> {
        serde_json::from_str(self.get(key)?).ok()
    }

    /// Returns a field that is a number of tokens.
    pub fn tokens(&self, key: &str) -> Option<u64> {
        ReportedTokenCount::parse(self.get(key)?).map(|count| count.0)
    }

    /// Returns a field that is an object.
    pub fn object(&self, key: &str) -> Option<Self> {
        Self::parse(self.get(key)?)
    }

    /// Returns the elements of a field that is an array.
    pub fn list(&self, key: &str) -> Vec<Box<RawValue>> {
        self.get(key).and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default()
    }

    /// Parses a field that holds content as its required type; `None` if the field is missing or empty.
    ///
    /// # Errors
    /// `third-party` for any other value: unreadable content must not be skipped.
    pub fn content<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, ProviderError> {
        self.get(key).map_or(Ok(None), |json| content(key, json))
    }

    /// Returns the elements of a field that holds content; none if the field is missing or empty.
    ///
    /// # Errors
    /// `third-party` for anything else.
    pub fn contents(&self, key: &str) -> Result<Vec<Box<RawValue>>, ProviderError> {
        Ok(self.content(key)?.unwrap_or_default())
    }

    /// Returns the fields in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.get()))
    }

    /// Sets a field in its place, or appends it. A full object takes no new field.
    pub fn set(&mut self, key: &str, value: Box<RawValue>) {
        let is_full = self.0.len() >= MAX_FIELDS;
        match self.0.iter_mut().rev().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None if !is_full => self.0.push((key.to_owned(), value)),
            None => {}
        }
    }

    /// Sets a field to a string, in its place, or appends it.
    pub fn set_text(&mut self, key: &str, text: &str) {
        if let Ok(value) = serde_json::value::to_raw_value(text) {
            self.set(key, value);
        }
    }

    /// Sets every field of `newer` that is not null.
    pub fn overwrite(&mut self, newer: &Self) {
        for (key, value) in newer.0.iter().filter(|(_, value)| value.get() != "null") {
            self.set(key, value.clone());
        }
    }

    /// Returns the object as one line.
    pub fn to_json(&self) -> RawJson {
        let mut out = String::from("{");
        for (place, (key, value)) in self.fields().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            out.push_str(&format!("{comma}{}:{value}", quote(key)));
        }
        out.push('}');
        RawJson(out)
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = RawObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    if fields.len() >= MAX_FIELDS {
                        let words = format!("an object of more than {MAX_FIELDS} fields");
                        return Err(serde::de::Error::custom(words));
                    }
                    fields.push(field);
                }
                Ok(RawObject(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Returns a text as a JSON string.
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns the text as a value, if the text is a JSON value.
pub fn value(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.to_owned()).ok()
}

/// Returns the error for a payload of another form than the wire's.
pub fn unreadable(payload: &str, error: &serde_json::Error) -> ProviderError {
    // The server or the network has cut such JSON, so another attempt may succeed.
    if error.is_eof() {
        return ProviderError::new(ErrorCode::TruncatedStream, "the stream ended inside an event");
    }
    // A payload may be megabytes long, and goes into a message for people.
    let quote: String = payload.chars().take(MAX_QUOTE_CHARS).collect();
    let message = format!("the stream has something that is not an event: {quote}");
    ProviderError { body: Some(quote), ..ProviderError::new(ErrorCode::ThirdParty, message) }
}

/// Returns the error for a content field with an unreadable value.
pub(crate) fn garbled(key: &str, json: &str) -> ProviderError {
    let quote: String = json.chars().take(MAX_QUOTE_CHARS).collect();
    let message = format!("the stream holds an unreadable `{key}`: {quote}");
    ProviderError { body: Some(quote), ..ProviderError::new(ErrorCode::ThirdParty, message) }
}

/// Parses content as its required type; `None` for an empty value of any type.
///
/// # Errors
/// `third-party` for any other value: unreadable content must not be skipped.
pub fn content<'a, T: Deserialize<'a>>(key: &str, json: &'a str) -> Result<Option<T>, ProviderError> {
    match serde_json::from_str(json) {
        Ok(content) => Ok(content),
        // Some servers write an empty value of another type for absent content.
        Err(_) if matches!(json, "{}" | "[]" | "\"\"" | "false") => Ok(None),
        Err(_) => Err(garbled(key, json)),
    }
}

/// Returns an element of a content list as an object.
///
/// # Errors
/// `third-party` if the element is no object.
pub fn element(key: &str, json: &RawValue) -> Result<RawObject, ProviderError> {
    RawObject::parse(json.get()).ok_or_else(|| garbled(key, json.get()))
}

/// Returns the error for a stream that ends too early.
pub fn truncated() -> ProviderError {
    ProviderError::new(ErrorCode::TruncatedStream, "the stream ended without its closing event")
}

/// Reports whether `target` itself wrote the message: only then are the native items sent back.
pub fn is_own(message: &Message, target: &ModelOrigin) -> bool {
    message.origin.as_ref() == Some(target)
}

/// Returns the provider's own item beside a part.
pub fn native(part: &Part) -> Option<&RawJson> {
    match part {
        Part::Text(text) => text.native.as_ref(),
        Part::Reasoning(reasoning) => reasoning.native.as_ref(),
        Part::ToolCall(call) => call.native.as_ref(),
        Part::Opaque(opaque) => Some(&opaque.native),
        _ => None,
    }
}

/// Returns the error for a part that a wire's assistant message has no place for.
pub fn misplaced(part: &Part) -> ProviderError {
    let message =
        format!("an assistant message cannot hold a part of type {}", crate::validation::type_of(part));
    ProviderError::new(ErrorCode::InvalidRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untouched_bytes_stay() {
        let json = r#"{"b":1.50,"a":"\u00e9","b":1e3,"n":null,"o":{"z" : [1, 2]}}"#;
        let mut object = RawObject::parse(json).unwrap();
        assert_eq!(object.to_json().as_str(), json);
        assert_eq!((object.text("a").unwrap().as_str(), object.get("b")), ("é", Some("1e3")));
        object.set_text("a", "x\"y");
        object.set("new", value("[ ]").unwrap());
        assert_eq!(
            object.to_json().as_str(),
            r#"{"b":1.50,"a":"x\"y","b":1e3,"n":null,"o":{"z" : [1, 2]},"new":[ ]}"#
        );
    }

    #[test]
    fn newer_fields_overwrite_unless_null() {
        let mut old = RawObject::parse(r#"{"in":10,"out":1}"#).unwrap();
        old.overwrite(&RawObject::parse(r#"{"in":null,"out":25,"more":2}"#).unwrap());
        assert_eq!(old.to_json().as_str(), r#"{"in":10,"out":25,"more":2}"#);
    }

    #[test]
    fn an_object_grows_to_its_limit_only() {
        let mut object = RawObject::default();
        for number in 0..2 * MAX_FIELDS {
            object.set(&number.to_string(), value("1").unwrap());
        }
        assert_eq!(object.fields().count(), MAX_FIELDS);
        object.set("0", value("2").unwrap());
        assert_eq!(object.get("0"), Some("2"), "what is there may change");
        let json = object.to_json().0;
        assert!(RawObject::parse(&json).is_some());
        assert!(RawObject::parse(&json.replacen('{', r#"{"more":1,"#, 1)).is_none());
    }

    #[test]
    fn what_is_no_object_is_none() {
        assert!(RawObject::parse("[1]").is_none() && RawObject::parse("{\"a\":").is_none());
    }
}
