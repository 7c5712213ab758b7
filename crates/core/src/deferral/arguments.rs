//! Lenient parser of the arguments of both tools. Small models write several forms.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::{CALL, SEARCH};
use crate::message::given_arguments;

/// The keys under which models write the name of the called tool. The first is the schema's own.
const NAME_KEYS: [&str; 3] = ["name", "tool_name", "tool"];

/// The keys under which models write the arguments of the called tool. The first is the schema's own.
const ARGUMENT_KEYS: [&str; 4] = ["arguments", "args", "parameters", "input"];

/// A call of a deferred tool as the model wrote it.
#[derive(Debug)]
pub(super) struct DeferredCallArguments {
    pub(super) name: String,
    /// The arguments: one JSON object, byte for byte.
    pub(super) arguments: String,
}

impl DeferredCallArguments {
    /// Reads the arguments of [`CALL`].
    ///
    /// # Errors
    /// A sentence for the model.
    pub(super) fn read(written: &str) -> Result<Self, String> {
        let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(given_arguments(written))
            .map_err(|error| format!("{}: {error}", wrong_shape()))?;
        let name = NAME_KEYS.iter().find_map(|key| fields.remove(*key));
        let name =
            name.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok()).ok_or_else(wrong_shape)?;
        let given = ARGUMENT_KEYS.iter().find_map(|key| fields.remove(*key));
        let arguments = match given {
            Some(raw) => object_of(raw.get()).ok_or_else(wrong_shape)?,
            // Some models write the arguments of the tool beside its name and not within an object.
            None => flat(&fields),
        };
        Ok(Self { name, arguments })
    }
}

/// Returns the answer to a call of [`CALL`] whose arguments have another shape.
fn wrong_shape() -> String {
    format!("Error: `{CALL}` takes {{\"name\": TOOL, \"arguments\": {{…}}}}")
}

/// Returns a JSON object as it was written, or the object within a JSON string.
fn object_of(raw: &str) -> Option<String> {
    // Some models encode nested arguments as a string.
    let inner = serde_json::from_str::<String>(raw).ok();
    let written = given_arguments(inner.as_deref().unwrap_or(raw)).trim();
    let is_object = matches!(serde_json::from_str::<Value>(written), Ok(Value::Object(_)));
    is_object.then(|| written.to_owned())
}

/// Returns the fields as one JSON object.
fn flat(fields: &BTreeMap<String, &RawValue>) -> String {
    // Values are copied as they were written, because parsing would change long numbers and escapes.
    let fields = fields.iter().map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), value.get()));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// Returns the arguments of [`CALL`] for a call of the tool `name`. Arguments that are no JSON become a string.
pub fn wrapped_arguments(name: &str, arguments: &str) -> String {
    let arguments = given_arguments(arguments);
    let written = match serde_json::from_str::<&RawValue>(arguments) {
        Ok(_) => arguments.to_owned(),
        Err(_) => Value::from(arguments).to_string(),
    };
    format!("{{\"name\":{},\"arguments\":{written}}}", Value::from(name))
}

/// Returns the query of a search and the wanted number of tools, if the call gives one.
///
/// # Errors
/// A sentence for the model.
pub(super) fn read_query(arguments: &str) -> Result<(String, Option<usize>), String> {
    let (query, limit) = match serde_json::from_str(given_arguments(arguments)) {
        Ok(Value::Object(fields)) => {
            // Small models invent other keys, such as `q`. The first text is the query then.
            let query = fields.get("query").or_else(|| fields.values().find(|value| value.is_string()));
            let limit =
                fields.get("limit").and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok());
            (query.and_then(Value::as_str).map(str::to_owned), limit)
        }
        Ok(Value::String(query)) => (Some(query), None),
        Ok(_) => (None, None),
        // Text that is no JSON is the query itself: some models leave the object out.
        Err(_) => (Some(arguments.to_owned()), None),
    };
    match query.filter(|query| !query.trim().is_empty()) {
        Some(query) => Ok((query, limit)),
        None => Err(format!("Error: `{SEARCH}` takes {{\"query\": WORDS}}")),
    }
}
