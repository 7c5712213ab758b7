//! A client's own data that is kept with a message. The model never sees it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

/// The largest metadata of a message, in bytes of compact JSON: 16 KiB.
pub(crate) const MAX_METADATA_BYTES: usize = 16 << 10;

/// The most levels of objects and lists in a message's metadata, its own included. Readers of JSON refuse a value
/// that is nested too deeply, and stored events nest the metadata further.
pub(crate) const MAX_METADATA_DEPTH: usize = 32;

/// The metadata of a message: one JSON object that a client sent along.
///
/// ```
/// use longhaul_core::metadata::MessageMetadata;
/// let metadata = MessageMetadata::try_from(serde_json::json!({ "ticket": 7 })).unwrap();
/// assert_eq!(metadata.as_object()["ticket"], 7);
/// assert!(MessageMetadata::try_from(serde_json::json!("ticket 7")).is_err());
/// ```
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageMetadata(Map<String, Value>);

/// The reason why a value cannot be the metadata of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// The value is no object.
    #[error("`metadata` must be a JSON object, and it is {0}")]
    NotAnObject(&'static str),
    /// The object is too large.
    #[error("`metadata` may have {MAX_METADATA_BYTES} bytes of JSON at most, and it has {0}")]
    TooLarge(usize),
    /// The object is nested too deeply.
    #[error("`metadata` may have {MAX_METADATA_DEPTH} levels of objects and lists at most")]
    TooDeep,
}

impl MessageMetadata {
    /// Returns the object.
    pub fn as_object(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl TryFrom<Value> for MessageMetadata {
    type Error = MetadataError;

    fn try_from(value: Value) -> Result<Self, MetadataError> {
        // The depth comes first: writing the value as text recurses too.
        if !fits_levels(&value, MAX_METADATA_DEPTH) {
            return Err(MetadataError::TooDeep);
        }
        let bytes = value.to_string().len();
        match value {
            Value::Object(object) if bytes <= MAX_METADATA_BYTES => Ok(Self(object)),
            Value::Object(_) => Err(MetadataError::TooLarge(bytes)),
            Value::Array(_) => Err(MetadataError::NotAnObject("a list")),
            Value::String(_) => Err(MetadataError::NotAnObject("a text")),
            Value::Number(_) => Err(MetadataError::NotAnObject("a number")),
            Value::Bool(_) => Err(MetadataError::NotAnObject("a truth value")),
            Value::Null => Err(MetadataError::NotAnObject("null")),
        }
    }
}

/// Returns whether a value has at most `levels` levels of objects and lists.
fn fits_levels(value: &Value, levels: usize) -> bool {
    match value {
        Value::Object(object) => levels > 0 && object.values().all(|inner| fits_levels(inner, levels - 1)),
        Value::Array(list) => levels > 0 && list.iter().all(|inner| fits_levels(inner, levels - 1)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{MAX_METADATA_BYTES, MAX_METADATA_DEPTH, MessageMetadata, MetadataError};

    fn nested(levels: usize) -> Value {
        (1..levels).fold(json!({}), |inner, _| json!({ "a": inner }))
    }

    #[test]
    fn metadata_is_an_object() {
        for other in [json!("x"), json!([{}]), json!(1), json!(true), Value::Null] {
            let refused = MessageMetadata::try_from(other.clone());
            assert!(matches!(refused, Err(MetadataError::NotAnObject(_))), "{other}");
        }
        assert_eq!(MessageMetadata::try_from(json!({})).unwrap().as_object().len(), 0);
    }

    #[test]
    fn metadata_has_a_size_limit_in_bytes_of_compact_json() {
        fn of_bytes(bytes: usize) -> Value {
            json!({ "a": "é".repeat((bytes - r#"{"a":""}"#.len()) / 2) })
        }
        let largest = MessageMetadata::try_from(of_bytes(MAX_METADATA_BYTES)).unwrap();
        assert_eq!(serde_json::to_string(&largest).unwrap().len(), MAX_METADATA_BYTES);
        let refused = MessageMetadata::try_from(of_bytes(MAX_METADATA_BYTES + 2));
        assert_eq!(refused, Err(MetadataError::TooLarge(MAX_METADATA_BYTES + 2)));
    }

    #[test]
    fn metadata_has_a_limit_of_levels() {
        assert!(MessageMetadata::try_from(nested(MAX_METADATA_DEPTH)).is_ok());
        assert_eq!(MessageMetadata::try_from(nested(MAX_METADATA_DEPTH + 1)), Err(MetadataError::TooDeep));
        assert_eq!(MessageMetadata::try_from(nested(100)), Err(MetadataError::TooDeep));
    }

    #[test]
    fn stored_metadata_keeps_its_keys_in_order() {
        let text = r#"{"z":1,"a":{"y":[null,1.5,-3],"b":"\u0000\n"}}"#;
        let metadata: MessageMetadata = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&metadata).unwrap(), text);
    }
}
