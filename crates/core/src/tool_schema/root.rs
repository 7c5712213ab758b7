//! Flattening of a schema's root to one object without unions.

use serde_json::{Value, json};

use super::keywords::{KeywordRole, has_role};
use super::walk::has_type;
use super::{Object, ToolSchemaError};

/// Returns the schema as one object. A union becomes optional properties, and a sentence names those that belong
/// together.
///
/// # Errors
/// [`ToolSchemaError::NoObject`] if no object satisfies the schema.
pub(super) fn flattened(schema: Value) -> Result<Value, ToolSchemaError> {
    let Value::Object(mut root) = schema else { return Err(ToolSchemaError::NoObject) };
    let FlatObjectSchema { mut properties, required, notes } =
        flat(&root).ok_or(ToolSchemaError::NoObject)?;
    // The properties that these keywords describe are kept.
    root.retain(|key, _| !has_role(key, KeywordRole::RefusedAtRoot));
    root.insert("type".to_owned(), "object".into());
    for name in &required {
        // Gemini's API refuses a required property that is not described.
        properties.entry(name.as_str()).or_insert_with(|| json!({}));
    }
    root.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() || root.contains_key("required") {
        root.insert("required".to_owned(), json!(required));
    }
    if !notes.is_empty() {
        let words = root.get("description").and_then(Value::as_str).unwrap_or_default();
        let words: Vec<&str> = [words]
            .into_iter()
            .filter(|words| !words.is_empty())
            .chain(notes.iter().map(String::as_str))
            .collect();
        root.insert("description".to_owned(), words.join(" ").into());
    }
    Ok(Value::Object(root))
}

/// The properties that a schema describes for an object.
#[derive(Default)]
struct FlatObjectSchema {
    properties: Object,
    required: Vec<String>,
    /// Sentences for the description, about properties that are required together.
    notes: Vec<String>,
}

/// Returns the properties that a schema describes for an object; `None` if no object satisfies the schema.
fn flat(schema: &Object) -> Option<FlatObjectSchema> {
    if !may_be_object(schema) {
        return None;
    }
    let mut flat = FlatObjectSchema::default();
    if let Some(Value::Object(properties)) = schema.get("properties") {
        flat.properties = properties.clone();
    }
    flat.require(
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str),
    );
    for member in members(schema, "allOf") {
        let member = self::flat(member.as_object()?)?;
        for (name, property) in member.properties {
            flat.also(name, property);
        }
        flat.require(member.required.iter().map(String::as_str));
        // A union within `allOf` is lost at the root as well, so its sentence comes along.
        flat.notes.extend(member.notes);
    }
    for key in ["anyOf", "oneOf"] {
        if schema.contains_key(key) {
            flat.add_union(members(schema, key), key == "oneOf")?;
        }
    }
    // Whether a condition holds is known only at a call, so its properties become optional ones.
    let dependent = schema.get("dependentSchemas").and_then(Value::as_object);
    let conditional = ["then", "else"].iter().filter_map(|key| schema.get(*key));
    let conditional = conditional.chain(dependent.into_iter().flat_map(Object::values));
    for FlatObjectSchema { properties, .. } in
        conditional.filter_map(|schema| self::flat(schema.as_object()?))
    {
        for (name, property) in properties {
            flat.properties.entry(name).or_insert(property);
        }
    }
    Some(flat)
}

/// Returns whether an object can satisfy a schema, as far as its keywords at the root tell.
fn may_be_object(schema: &Object) -> bool {
    let is_object =
        |values: &Value| values.as_array().is_some_and(|values| values.iter().any(Value::is_object));
    (!schema.contains_key("type") || has_type(schema, "object"))
        && schema.get("const").is_none_or(Value::is_object)
        && schema.get("enum").is_none_or(is_object)
        && schema.get("not").is_none_or(|not| not.as_object().is_none_or(|not| !not.is_empty()))
}

fn members<'a>(schema: &'a Object, key: &str) -> &'a [Value] {
    schema.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

impl FlatObjectSchema {
    fn require<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            if !self.required.iter().any(|known| known == name) {
                self.required.push(name.to_owned());
            }
        }
    }

    /// Adds a property, which must satisfy an earlier schema of the same name too.
    fn also(&mut self, name: String, property: Value) {
        match self.properties.get_mut(&name) {
            Some(known) => *known = both(known.take(), property),
            None => drop(self.properties.insert(name, property)),
        }
    }

    /// Adds the properties of a union's members; `None` if no member is an object.
    fn add_union(&mut self, members: &[Value], is_exclusive: bool) -> Option<()> {
        let members: Vec<FlatObjectSchema> =
            members.iter().filter_map(|member| flat(member.as_object()?)).collect();
        let first = members.first()?;
        // A property is required only if every member requires it, since any member may be the chosen one.
        let common: Vec<String> = first
            .required
            .iter()
            .filter(|name| members.iter().all(|member| member.required.contains(name)))
            .cloned()
            .collect();
        self.require(common.iter().map(String::as_str));
        self.notes.extend(alternatives(&members, &self.required, is_exclusive));
        let mut properties = Object::new();
        for (name, property) in members.into_iter().flat_map(|member| member.properties) {
            match properties.get_mut(&name) {
                Some(known) => *known = either(known.take(), property),
                None => drop(properties.insert(name, property)),
            }
        }
        for (name, property) in properties {
            // A property beside the union holds for every member, and takes precedence.
            self.properties.entry(name).or_insert(property);
        }
        Some(())
    }
}

/// Returns a sentence about properties that are required together. `None` unless every member of a union requires a
/// property of its own.
fn alternatives(members: &[FlatObjectSchema], required: &[String], is_exclusive: bool) -> Option<String> {
    let mut sets: Vec<String> = Vec::new();
    for member in members {
        let own = member.required.iter().filter(|name| !required.contains(name));
        let names: Vec<String> = own.map(|name| format!("`{name}`")).collect();
        let set = names.join(" and ");
        if set.is_empty() {
            return None;
        }
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
    let how_many = if is_exclusive { "Exactly one" } else { "At least one" };
    (sets.len() > 1).then(|| format!("{how_many} of these is required: {}.", sets.join("; ")))
}

/// Returns the schema of a property that satisfies both schemas.
fn both(one: Value, other: Value) -> Value {
    if one == other {
        return one;
    }
    let (Value::Object(mut fields), Value::Object(others)) = (one.clone(), other.clone()) else {
        return json!({ "allOf": [one, other] });
    };
    // Two descriptions of one property may differ in their words; the first is kept.
    let agree = others.iter().all(|(key, value)| {
        matches!(key.as_str(), "description" | "title") || fields.get(key).is_none_or(|known| known == value)
    });
    if !agree {
        return json!({ "allOf": [one, other] });
    }
    for (key, value) in others {
        fields.entry(key).or_insert(value);
    }
    Value::Object(fields)
}

/// Returns the schema of a property that satisfies one of the schemas. Values of a discriminator become one list.
fn either(one: Value, other: Value) -> Value {
    if one == other {
        return one;
    }
    if let (Some(mut values), Some(more)) = (values_of(&one), values_of(&other)) {
        for value in more {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let (Value::Object(mut fields), Value::Object(others)) = (one, other) else { return json!({}) };
        fields.shift_remove("const");
        if fields.get("type") != others.get("type") {
            fields.shift_remove("type");
        }
        fields.insert("enum".to_owned(), Value::Array(values));
        return Value::Object(fields);
    }
    // A third member extends the list of the first two instead of nesting it.
    let mut kinds = match one {
        Value::Object(mut fields) if fields.len() == 1 && fields.contains_key("anyOf") => {
            match fields.shift_remove("anyOf") {
                Some(Value::Array(kinds)) => kinds,
                other => other.into_iter().collect(),
            }
        }
        one => vec![one],
    };
    if !kinds.contains(&other) {
        kinds.push(other);
    }
    json!({ "anyOf": kinds })
}

/// Returns the values that a schema allows, if the schema lists all of them.
fn values_of(schema: &Value) -> Option<Vec<Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        _ => None,
    }
}
