//! Recursive normalization of a schema: references are inlined, types are added, other dialects become JSON Schema.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::keywords::{KeywordRole, KeywordValue, has_role, value_of};
use super::{Object, ToolSchemaError, kind_of, nothing};

/// The number of schemas after which references are no longer inlined. A chain of schemas that each refer to the next
/// one twice would otherwise grow exponentially.
const MAX_SCHEMAS: usize = 2_000;

/// The depth at which a reference is no longer inlined.
const MAX_DEPTH: usize = 24;

/// Returns the schema with every reference inlined, and with a type wherever one follows from other keywords.
///
/// # Errors
/// [`ToolSchemaError`] if a part of the schema is no schema, or a reference leads nowhere.
pub(super) fn inlined(root: &Value) -> Result<Value, ToolSchemaError> {
    SchemaWalker { root, open: Vec::new(), schemas: 0 }.schema(root, "the root", 0)
}

/// The state of a walk through a schema.
struct SchemaWalker<'a> {
    root: &'a Value,
    /// The references that are being inlined, outermost first.
    open: Vec<String>,
    /// The number of schemas walked so far.
    schemas: usize,
}

impl SchemaWalker<'_> {
    fn schema(&mut self, value: &Value, place: &str, depth: usize) -> Result<Value, ToolSchemaError> {
        self.schemas += 1;
        match value {
            Value::Bool(true) => Ok(json!({})),
            Value::Bool(false) => Ok(nothing()),
            // PHP writes an empty object as `[]`, and serializers write `null` for a schema that was not set.
            Value::Array(items) if items.is_empty() => Ok(json!({})),
            Value::Null => Ok(json!({})),
            Value::Object(fields) => self.object(fields, depth),
            // Hand-written tools have this shorthand: `"count": "integer"`.
            Value::String(name) => match (types(value), name.trim()) {
                (Some(types), _) => Ok(json!({ "type": types })),
                (None, "" | "any" | "true") => Ok(json!({})),
                (None, "false") => Ok(nothing()),
                (None, words) => Ok(json!({ "description": words })),
            },
            other => Err(ToolSchemaError::NoSchema {
                found: kind_of(other),
                place: place.chars().take(80).collect(),
            }),
        }
    }

    fn object(&mut self, fields: &Object, depth: usize) -> Result<Value, ToolSchemaError> {
        let reference =
            ["$ref", "$dynamicRef", "$recursiveRef"].iter().find_map(|key| fields.get(*key)?.as_str());
        if let Some(reference) = reference {
            return self.referred(reference, fields, depth);
        }
        let mut out = Object::new();
        for (key, value) in fields {
            if let Some((key, value)) = self.field(key, value, depth)? {
                out.insert(key, value);
            }
        }
        lift_required(fields, &mut out);
        move_exclusive_bounds(fields, &mut out);
        add_type(&mut out);
        // The OpenAI APIs refuse an array without `items`.
        if has_type(&out, "array") && !out.contains_key("items") {
            out.insert("items".to_owned(), json!({}));
        }
        Ok(Value::Object(out))
    }

    /// Returns a normalized keyword with the value; `None` for a keyword that is left out.
    fn field(
        &mut self,
        key: &str,
        value: &Value,
        depth: usize,
    ) -> Result<Option<(String, Value)>, ToolSchemaError> {
        let kind = value_of(key);
        let kept = match (key, value) {
            _ if has_role(key, KeywordRole::ResolvedByInlining) => return Ok(None),
            // Serializers write `null` for every keyword that was not set. Only these two keywords can mean it.
            (_, Value::Null) if !matches!(key, "default" | "const") => return Ok(None),
            // Providers accept booleans here, and OpenAI's strict mode demands `false`.
            ("additionalProperties" | "unevaluatedProperties", Value::Bool(_)) => value.clone(),
            ("additionalProperties" | "unevaluatedProperties", Value::String(word))
                if matches!(word.as_str(), "true" | "false") =>
            {
                Value::Bool(word == "true")
            }
            ("properties", Value::Array(none)) if none.is_empty() => json!({}),
            // `not` of an empty schema would allow nothing, and the others say nothing.
            _ if is_empty_list(value) && has_role(key, KeywordRole::RefusesEmptyList) => return Ok(None),
            (_, Value::Bool(_)) if kind == KeywordValue::Number => return Ok(None),
            (_, Value::String(written)) if kind == KeywordValue::Number => match written.trim().parse() {
                Ok(number) => Value::Number(number),
                Err(_) => return Ok(None),
            },
            // Providers refuse a description that is no text.
            _ if has_role(key, KeywordRole::TextOnly) && !value.is_string() => return Ok(None),
            // Older drafts describe tuples by a list of `items`, which providers refuse.
            ("items", Value::Array(items)) => self.one_of_items(items, depth)?,
            ("additionalItems", _) => return Ok(None),
            ("type", _) => match types(value) {
                Some(types) => types,
                None => return Ok(None),
            },
            ("required", Value::Array(names)) => {
                let names: Vec<Value> = names.iter().filter(|name| name.is_string()).cloned().collect();
                Value::Array(names)
            }
            ("required", Value::Object(names))
                if !names.is_empty() && names.values().all(Value::is_string) =>
            {
                Value::Array(php_list_members(names))
            }
            // The third draft has `required: true` within the property; `lift_required` moves it to the parent.
            ("required", _) => return Ok(None),
            // An empty list allows no value at all, which no tool means.
            ("enum", Value::Array(values)) if values.is_empty() => return Ok(None),
            ("enum", Value::Object(values)) if values.is_empty() => return Ok(None),
            ("enum", Value::Object(values)) => Value::Array(php_list_members(values)),
            ("enum", Value::String(_) | Value::Number(_) | Value::Bool(_)) => json!([value]),
            (_, Value::Object(fields)) if kind == KeywordValue::SchemaMap => self.map(key, fields, depth)?,
            (_, Value::Array(members)) if kind == KeywordValue::SchemaList => {
                match self.list(key, members, depth)? {
                    Some(members) => members,
                    None => return Ok(None),
                }
            }
            (_, Value::Object(members)) if kind == KeywordValue::SchemaList => {
                // A single schema stands in the place of the list, or an object in the place of PHP's array.
                let members =
                    if has_list_keys(members) { php_list_members(members) } else { vec![value.clone()] };
                match self.list(key, &members, depth)? {
                    Some(members) => members,
                    None => return Ok(None),
                }
            }
            _ => match kind {
                KeywordValue::Schema | KeywordValue::SchemaList | KeywordValue::SchemaMap => {
                    self.schema(value, key, depth + 1)?
                }
                KeywordValue::Number | KeywordValue::Other => value.clone(),
            },
        };
        Ok(Some((key.to_owned(), kept)))
    }

    fn map(&mut self, key: &str, fields: &Object, depth: usize) -> Result<Value, ToolSchemaError> {
        let mut out = Object::new();
        for (name, value) in fields {
            // A forbidden property is left out, because the model needs only those that it may give.
            if !(key == "properties" && *value == Value::Bool(false)) {
                out.insert(name.clone(), self.schema(value, name, depth + 1)?);
            }
        }
        Ok(Value::Object(out))
    }

    /// Returns the members of a list, without the impossible ones of a union; `None` if none is left.
    fn list(&mut self, key: &str, members: &[Value], depth: usize) -> Result<Option<Value>, ToolSchemaError> {
        let is_union = matches!(key, "anyOf" | "oneOf");
        let possible = members.iter().filter(|member| !(is_union && matches!(member, Value::Bool(false))));
        let members: Result<Vec<Value>, ToolSchemaError> = possible
            .map(|member| match member {
                // The author of a union means the value `null` and not any value.
                Value::Null if is_union => Ok(json!({ "type": "null" })),
                member => self.schema(member, key, depth + 1),
            })
            .collect();
        Ok(Some(members?).filter(|members| !members.is_empty()).map(Value::Array))
    }

    /// Returns one schema for the items of a tuple: any of the different members.
    fn one_of_items(&mut self, items: &[Value], depth: usize) -> Result<Value, ToolSchemaError> {
        let mut kinds: Vec<Value> = Vec::new();
        for item in items {
            let item = self.schema(item, "items", depth + 1)?;
            if !kinds.contains(&item) {
                kinds.push(item);
            }
        }
        Ok(match kinds.len() {
            0 => json!({}),
            1 => kinds.remove(0),
            _ => json!({ "anyOf": kinds }),
        })
    }

    /// Returns the schema that a reference leads to, with the keywords beside the reference.
    ///
    /// A reference to a schema that is being inlined would never end. An outline with the type replaces it.
    fn referred(&mut self, reference: &str, fields: &Object, depth: usize) -> Result<Value, ToolSchemaError> {
        let target = find(self.root, reference)
            .ok_or_else(|| ToolSchemaError::DeadReference(reference.chars().take(80).collect()))?;
        let is_endless = self.open.iter().any(|open| open == reference);
        let mut out = if is_endless || self.schemas > MAX_SCHEMAS || depth > MAX_DEPTH {
            outline(self.root, target)
        } else {
            self.open.push(reference.to_owned());
            let put = self.schema(target, reference, depth + 1);
            self.open.pop();
            put?
        };
        let beside = fields
            .iter()
            .filter(|(key, _)| !is_reference(key) && !has_role(key, KeywordRole::ResolvedByInlining));
        let (words, rules): (Object, Object) = beside
            .map(|(key, value)| (key.clone(), value.clone()))
            .partition(|(key, _)| has_role(key, KeywordRole::Annotation));
        // Older drafts ignore keywords beside a reference; newer ones demand both, as `allOf` does.
        if !rules.is_empty() {
            let rules = self.object(&rules, depth)?;
            out = json!({ "allOf": [out, rules] });
        }
        if let Value::Object(out) = &mut out {
            out.extend(words);
        }
        Ok(out)
    }
}

/// Returns the members of a list that PHP wrote as an object: an array with a gap in its keys becomes `{"0":…,"2":…}`.
fn php_list_members(fields: &Object) -> Vec<Value> {
    fields.values().cloned().collect()
}

fn has_list_keys(fields: &Object) -> bool {
    fields.keys().all(|key| key.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn is_reference(key: &str) -> bool {
    matches!(key, "$ref" | "$dynamicRef" | "$recursiveRef")
}

/// Returns the schema that a reference leads to: `#`, a JSON pointer within the schema, or the name of an anchor.
fn find<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    // A reference may begin with the schema's own address in front of the fragment.
    let id = ["$id", "id"].iter().find_map(|key| root.get(*key)?.as_str()).unwrap_or_default();
    let local = match reference.strip_prefix(id.trim_end_matches('#')) {
        Some(local) if !id.is_empty() => local,
        _ => reference,
    };
    let fragment = if local.is_empty() { "" } else { local.strip_prefix('#')? };
    let fragment = unescaped(fragment);
    match fragment.as_str() {
        "" => Some(root),
        pointer if pointer.starts_with('/') => root.pointer(pointer),
        anchor => anchored(root, anchor),
    }
}

/// Returns a fragment with all percent escapes resolved.
fn unescaped(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = if *first == b'%' { escaped_byte(after) } else { None };
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the byte that two hexadecimal digits at the beginning of `digits` stand for.
fn escaped_byte(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits.get(..2)?).ok()?, 16).ok()
}

/// Returns the schema that has an anchor.
fn anchored<'a>(value: &'a Value, anchor: &str) -> Option<&'a Value> {
    let mut anchors = ["$anchor", "$dynamicAnchor"].iter().filter_map(|key| value.get(*key)?.as_str());
    if anchors.any(|own| own == anchor) {
        return Some(value);
    }
    match value {
        Value::Object(fields) => fields.values().find_map(|value| anchored(value, anchor)),
        Value::Array(items) => items.iter().find_map(|value| anchored(value, anchor)),
        _ => None,
    }
}

/// Returns the outline of a schema that is not inlined: type and description.
fn outline(root: &Value, target: &Value) -> Value {
    // A chain of references may be a circle, so each is followed once.
    let (mut target, mut seen) = (target, BTreeSet::new());
    while let Some(reference) = target.get("$ref").and_then(Value::as_str) {
        match find(root, reference).filter(|_| seen.insert(reference)) {
            Some(next) => target = next,
            None => break,
        }
    }
    let Value::Object(fields) = target else { return json!({}) };
    let mut out = Object::new();
    out.extend(fields.get("type").and_then(types).map(|types| ("type".to_owned(), types)));
    if !out.contains_key("type") && fields.get("properties").is_some_and(Value::is_object) {
        out.insert("type".to_owned(), "object".into());
    }
    if has_type(&out, "array") {
        out.insert("items".to_owned(), json!({}));
    }
    let words = fields.get("description").filter(|words| words.is_string()).cloned();
    out.extend(words.map(|words| ("description".to_owned(), words)));
    Value::Object(out)
}

/// Returns the value of `type` with JSON Schema's names; `None` without a known type.
fn types(value: &Value) -> Option<Value> {
    match value {
        // Hand-written schemas have `"string|null"`.
        Value::String(names) if names.contains('|') => type_list(names.split('|')),
        Value::String(name) => type_name(name).map(Value::from),
        Value::Array(names) => type_list(names.iter().filter_map(Value::as_str)),
        _ => None,
    }
}

/// Returns the list of the known types among `names`; `None` without one.
fn type_list<'a>(names: impl Iterator<Item = &'a str>) -> Option<Value> {
    let mut known: Vec<&str> = Vec::new();
    for name in names.filter_map(type_name) {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    (!known.is_empty()).then(|| json!(known))
}

/// Returns JSON Schema's name of a type. Gemini's dialect has capitals, and hand-written schemas have the names of
/// programming languages.
fn type_name(name: &str) -> Option<&'static str> {
    Some(match name.trim().to_ascii_lowercase().as_str() {
        "object" | "dict" | "map" | "record" | "struct" => "object",
        "array" | "list" | "tuple" | "set" => "array",
        "string" | "str" | "text" => "string",
        "number" | "float" | "double" | "decimal" => "number",
        "integer" | "int" | "long" => "integer",
        "boolean" | "bool" => "boolean",
        "null" | "none" | "nil" => "null",
        _ => return None,
    })
}

/// Adds to `required` the properties that have `required: true` themselves, as in the third draft.
fn lift_required(fields: &Object, out: &mut Object) {
    let Some(Value::Object(properties)) = fields.get("properties") else { return };
    let lifted: Vec<Value> = properties
        .iter()
        .filter(|(_, property)| property.get("required") == Some(&Value::Bool(true)))
        .map(|(name, _)| name.as_str().into())
        .collect();
    if lifted.is_empty() {
        return;
    }
    // The property may be required by the parent's own list as well.
    let required = out.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        for name in lifted {
            if !required.contains(&name) {
                required.push(name);
            }
        }
    }
}

/// Writes the fourth draft's `"minimum": 5, "exclusiveMinimum": true` as `"exclusiveMinimum": 5`.
fn move_exclusive_bounds(fields: &Object, out: &mut Object) {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if fields.get(exclusive) == Some(&Value::Bool(true))
            && let Some(number) = out.shift_remove(bound)
        {
            out.insert(exclusive.to_owned(), number);
        }
    }
}

/// Adds the type that follows from other keywords. Unions and constants need none.
fn add_type(out: &mut Object) {
    if out.keys().any(|key| has_role(key, KeywordRole::FixesType)) {
        return;
    }
    let kind = match out.get("enum") {
        Some(Value::Array(values)) => type_of_all(values),
        _ if out.keys().any(|key| has_role(key, KeywordRole::BindsObject)) => Some("object"),
        _ if out.contains_key("items") || out.contains_key("prefixItems") => Some("array"),
        _ => None,
    };
    out.extend(kind.map(|kind| ("type".to_owned(), kind.into())));
}

/// Returns the common type of all values; `None` if they differ.
fn type_of_all(values: &[Value]) -> Option<&'static str> {
    let first = scalar_type(values.first()?)?;
    values.iter().all(|value| scalar_type(value) == Some(first)).then_some(first)
}

fn scalar_type(value: &Value) -> Option<&'static str> {
    match value {
        Value::String(_) => Some("string"),
        Value::Bool(_) => Some("boolean"),
        Value::Number(number) if number.is_f64() => Some("number"),
        Value::Number(_) => Some("integer"),
        _ => None,
    }
}

/// Returns whether a schema names the type, alone or in a list.
pub(super) fn has_type(schema: &Object, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(found)) => found == name,
        Some(Value::Array(names)) => names.iter().any(|found| found == name),
        _ => false,
    }
}
