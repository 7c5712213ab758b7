//! Normalization of the schemas of foreign tools (MCP servers, clients of the gateway) for every provider.
//!
//! Providers refuse a whole request because of one tool's schema. The OpenAI APIs demand `"type": "object"` at
//! the root without `oneOf`, `anyOf`, `allOf`, `enum` or `not` beside the type. The APIs also demand
//! `properties` in the root object and
//! `items` in every array. Anthropic's API refuses unions at the root too, and property names other than
//! `[a-zA-Z0-9_.-]{1,64}`. Smaller servers resolve no `$ref`. [`normalize`] removes all of these. A schema without them
//! stays byte for byte as it was written.

mod keywords;
mod names;
mod root;
mod walk;

use serde_json::{Map, Value, json};

use crate::message::RawJson;

pub use self::names::PropertyNames;

/// A schema that every provider accepts, and the property names that were changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalizedSchema {
    /// The schema, for the model.
    pub schema: RawJson,
    /// The changed property names. The tool's owner knows only the old ones.
    pub names: PropertyNames,
}

/// Reasons why a tool cannot be offered to a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolSchemaError {
    /// The schema is no JSON, or is nested too deeply for JSON parsers.
    #[error("its schema is not readable JSON: {0}")]
    Unreadable(String),
    /// A list, a number or a text stands in the place of a schema.
    #[error("its schema has {found} at {place}, where a schema must be")]
    NoSchema {
        /// The kind of value.
        found: &'static str,
        /// The keyword or property that holds the value.
        place: String,
    },
    /// The arguments of a call cannot be an object.
    #[error("its schema does not describe an object")]
    NoObject,
    /// A reference leads out of the schema, or to no part of it.
    #[error("its schema refers to `{0}`, which is not in it")]
    DeadReference(String),
}

/// Returns the schema of a tool in a form that every provider accepts. `None` and `null` stand for a tool without
/// arguments.
///
/// A schema that needs no change keeps its bytes. The function is idempotent: results need no change.
///
/// # Errors
/// [`ToolSchemaError`] if the schema cannot be brought into such a form. Only that tool must then be left out.
///
/// ```
/// use longhaul_core::tool_schema::normalize;
/// let union = r#"{"anyOf": [{"properties": {"url": {"type": "string"}}, "required": ["url"]},
///                           {"properties": {"$path": {"type": "string"}}, "required": ["$path"]}]}"#;
/// let normalized = normalize(Some(union)).unwrap();
/// assert!(normalized.schema.as_str().contains(r#""type":"object""#));
/// assert_eq!(normalized.names.restore(r#"{"path": "a"}"#), r#"{"$path":"a"}"#);
/// ```
pub fn normalize(schema: Option<&str>) -> Result<NormalizedSchema, ToolSchemaError> {
    let written = schema.map(str::trim).filter(|text| !matches!(*text, "" | "null"));
    let written = written.unwrap_or(r#"{"type":"object","properties":{}}"#);
    let value: Value =
        serde_json::from_str(written).map_err(|error| ToolSchemaError::Unreadable(error.to_string()))?;
    // References go first, because the later steps must see the schemas behind them.
    let mut inlined = walk::inlined(&value)?;
    let names = names::renamed(&mut inlined);
    let normalized = root::flattened(inlined)?;
    // Values are compared and not texts, so that a schema with other spacing or escapes keeps its bytes.
    let schema = if normalized == value { written.to_owned() } else { normalized.to_string() };
    Ok(NormalizedSchema { schema: RawJson(schema), names })
}

type Object = Map<String, Value>;

/// Returns the schema that no value satisfies, as an object. Some providers refuse the boolean `false` for it.
fn nothing() -> Value {
    json!({ "not": {} })
}

/// Returns the kind of a JSON value in words, for error messages.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
