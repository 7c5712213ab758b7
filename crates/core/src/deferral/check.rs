//! Check of arguments against the schema of their tool. The errors are written for the model, which can correct the
//! call.
//!
//! The check covers the keywords of a call's shape: `type`, `required`, `properties`, `additionalProperties`, `items`,
//! `enum`, `const` and unions. Other keywords are left to the tool's owner, who checks the call as well.

use serde_json::{Map, Value};

/// The maximum depth of a schema that is checked.
const MAX_DEPTH: usize = 24;

/// The length after which a quoted list of allowed values is cut, in characters.
const MAX_QUOTED_CHARS: usize = 200;

/// Checks arguments against a schema. An unreadable schema allows all arguments.
///
/// # Errors
/// A description of the first mistake, with the place in the arguments.
pub(crate) fn check_arguments(schema: &str, arguments: &str) -> Result<(), String> {
    let Ok(schema) = serde_json::from_str::<Value>(schema) else { return Ok(()) };
    let arguments = serde_json::from_str::<Value>(arguments).map_err(|error| format!("no JSON: {error}"))?;
    check(&schema, &arguments, "", 0)
}

fn check(schema: &Value, value: &Value, place: &str, depth: usize) -> Result<(), String> {
    let Value::Object(schema) = schema else { return Ok(()) };
    // Parts behind a reference or deeper are not checked: in doubt the call goes to the tool's owner.
    if depth > MAX_DEPTH || schema.contains_key("$ref") {
        return Ok(());
    }
    check_type(schema, value, place)?;
    check_choice(schema, value, place)?;
    check_unions(schema, value, place, depth)?;
    match value {
        Value::Object(fields) => check_fields(schema, fields, place, depth),
        Value::Array(items) => match schema.get("items") {
            Some(each) => items
                .iter()
                .enumerate()
                .try_for_each(|(at, item)| check(each, item, &format!("{place}[{at}]"), depth + 1)),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn check_type(schema: &Map<String, Value>, value: &Value, place: &str) -> Result<(), String> {
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => return Ok(()),
    };
    // OpenAPI's dialect marks values that may be null this way and not by a second type.
    let is_nullable = schema.get("nullable") == Some(&Value::Bool(true)) && value.is_null();
    if is_nullable || types.is_empty() || types.iter().any(|name| is_of(value, name)) {
        return Ok(());
    }
    let wanted: Vec<&str> = types.iter().map(|name| in_words(name)).collect();
    Err(format!("{} must be {}, not {}", at(place), wanted.join(" or "), kind_of(value)))
}

fn check_choice(schema: &Map<String, Value>, value: &Value, place: &str) -> Result<(), String> {
    match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(allowed)), _) if !allowed.contains(value) => {
            Err(format!("{} must be one of {}", at(place), quote(&Value::from(allowed.clone()))))
        }
        (_, Some(only)) if only != value => Err(format!("{} must be {}", at(place), quote(only))),
        _ => Ok(()),
    }
}

fn quote(allowed: &Value) -> String {
    allowed.to_string().chars().take(MAX_QUOTED_CHARS).collect()
}

fn check_unions(schema: &Map<String, Value>, value: &Value, place: &str, depth: usize) -> Result<(), String> {
    if let Some(Value::Array(all)) = schema.get("allOf") {
        all.iter().try_for_each(|one| check(one, value, place, depth + 1))?;
    }
    for keyword in ["anyOf", "oneOf"] {
        let Some(Value::Array(choices)) = schema.get(keyword) else { continue };
        let mut tried = choices.iter().map(|one| check(one, value, place, depth + 1));
        let Some(first) = tried.next() else { continue };
        // `oneOf` is checked like `anyOf`: the tool's owner finds a second match. The error of the first member is
        // enough.
        if first.is_err() && !tried.any(|result| result.is_ok()) {
            return first;
        }
    }
    Ok(())
}

fn check_fields(
    schema: &Map<String, Value>,
    fields: &Map<String, Value>,
    place: &str,
    depth: usize,
) -> Result<(), String> {
    let required = schema.get("required").and_then(Value::as_array);
    let missing = required.into_iter().flatten().filter_map(Value::as_str);
    if let Some(name) = missing.into_iter().find(|name| !fields.contains_key(*name)) {
        return Err(format!("`{}` is missing", joined(place, name)));
    }
    let known = schema.get("properties").and_then(Value::as_object);
    let has_patterns = schema.contains_key("patternProperties");
    for (name, value) in fields {
        let place = joined(place, name);
        // No patterns are matched here, so that properties which a pattern may describe are not checked.
        match (known.and_then(|known| known.get(name)), schema.get("additionalProperties")) {
            (Some(schema), _) => check(schema, value, &place, depth + 1)?,
            (None, Some(Value::Bool(false))) if !has_patterns => {
                return Err(format!("`{place}` is no argument"));
            }
            (None, Some(others)) if !has_patterns => check(others, value, &place, depth + 1)?,
            _ => {}
        }
    }
    Ok(())
}

fn joined(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

fn at(place: &str) -> String {
    if place.is_empty() { "the arguments".to_owned() } else { format!("`{place}`") }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        // JSON Schema counts 1.0 as an integer.
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        // A foreign schema may have a type that JSON Schema does not know, which must not refuse every call.
        _ => true,
    }
}

fn in_words(name: &str) -> &str {
    match name {
        "boolean" => "true or false",
        "integer" => "an integer",
        "number" => "a number",
        "string" => "a text",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}

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
mod tests {
    use super::*;

    #[test]
    fn the_first_mistake_is_named_with_its_place() {
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
        assert_eq!(check_arguments(schema, r#"{"n":3}"#), Ok(()));
        let mistake = "`n` must be an integer, not a text".to_owned();
        assert_eq!(check_arguments(schema, r#"{"n":"x"}"#), Err(mistake));
        assert_eq!(check_arguments(schema, "{}"), Err("`n` is missing".to_owned()));
    }
}
