//! A check of JSON values against a JSON Schema, as far as Longhaul's own schemas go.

use serde_json::{Map, Value};

/// A document with schemas that refer to each other by `#/…`.
#[derive(Clone, Copy, Debug)]
pub struct SchemaDocument<'a>(pub &'a Value);

impl<'a> SchemaDocument<'a> {
    /// Checks a value against a schema of the document.
    ///
    /// # Errors
    /// The first difference, behind the path to it.
    pub fn check(self, schema: &Value, value: &Value) -> Result<(), String> {
        self.check_at(schema, value, "")
    }

    /// Returns the schema behind a reference.
    ///
    /// # Panics
    /// If the reference leads nowhere.
    pub fn resolve(self, reference: &str) -> &'a Value {
        reference
            .strip_prefix('#')
            .and_then(|pointer| self.0.pointer(pointer))
            .unwrap_or_else(|| panic!("{reference} leads nowhere"))
    }

    fn check_at(self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        if let Some(reference) = schema["$ref"].as_str() {
            self.check_at(self.resolve(reference), value, at)?;
        }
        if let Some(all) = schema["allOf"].as_array() {
            all.iter().try_for_each(|one| self.check_at(one, value, at))?;
        }
        for key in ["oneOf", "anyOf"] {
            if let Some(some) = schema[key].as_array() {
                let found: Vec<_> = some.iter().map(|one| self.check_at(one, value, at)).collect();
                if found.iter().all(Result::is_err) {
                    let why: Vec<String> = found.into_iter().filter_map(Result::err).collect();
                    return Err(format!("{at}: {}", why.join(" or ")));
                }
            }
        }
        if schema["enum"].as_array().is_some_and(|known| !known.contains(value)) {
            return Err(format!("{at}: {value} is none of {}", schema["enum"]));
        }
        if schema.get("const").is_some_and(|only| only != value) {
            return Err(format!("{at}: {value} is not {}", schema["const"]));
        }
        let kinds = schema_kinds(schema);
        if !kinds.is_empty() && !kinds.iter().any(|kind| is_of_kind(kind, value)) {
            return Err(format!("{at}: {value} is no {}", kinds.join(" or ")));
        }
        if let Some(items) = value.as_array() {
            items.iter().enumerate().try_for_each(|(index, item)| {
                self.check_at(&schema["items"], item, &format!("{at}[{index}]"))
            })?;
        }
        value.as_object().map_or(Ok(()), |object| self.check_object(schema, object, at))
    }

    fn check_object(self, schema: &Value, object: &Map<String, Value>, at: &str) -> Result<(), String> {
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(missing) = required.into_iter().find(|key| !object.contains_key(*key)) {
            return Err(format!("{at}: {missing} is missing"));
        }
        for (key, value) in object {
            let path = format!("{at}.{key}");
            match (schema["properties"].get(key), &schema["additionalProperties"]) {
                (Some(property), _) => self.check_at(property, value, &path)?,
                (None, Value::Bool(false)) => return Err(format!("{at}: {key} is not described")),
                (None, of_others @ Value::Object(_)) => self.check_at(of_others, value, &path)?,
                (None, _) => {}
            }
        }
        Ok(())
    }
}

/// Returns the JSON types that a schema allows; none for a schema of any type.
pub fn schema_kinds(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn is_of_kind(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_check_sees_what_is_wrong() {
        let schema = json!({
            "type": "object", "required": ["a"], "additionalProperties": false,
            "properties": { "a": { "type": "integer" }, "b": { "enum": ["x"] }, "c": { "const": "y" } },
        });
        let nothing = Value::Null;
        let document = SchemaDocument(&nothing);
        assert!(document.check(&schema, &json!({ "a": 1, "b": "x", "c": "y" })).is_ok());
        for wrong in [
            json!({}),
            json!({ "a": "1" }),
            json!({ "a": 1, "b": "y" }),
            json!({ "a": 1, "c": "x" }),
            json!({ "a": 1, "d": 1 }),
            json!([]),
        ] {
            assert!(document.check(&schema, &wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_reference_is_followed_beside_other_rules() {
        let definitions = json!({ "$defs": { "A": { "type": "object", "required": ["a"] } } });
        let schema = json!({ "$ref": "#/$defs/A", "required": ["b"] });
        let document = SchemaDocument(&definitions);
        assert_eq!(document.check(&schema, &json!({ "a": 1, "b": 1 })), Ok(()));
        assert_eq!(document.check(&schema, &json!({ "b": 1 })), Err(": a is missing".to_owned()));
        assert_eq!(document.check(&schema, &json!({ "a": 1 })), Err(": b is missing".to_owned()));
    }
}
