//! Renaming of property names that a provider refuses: `$filter`, `@type`, `filter[name]`, and names of more than 64
//! characters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Object;
use super::keywords::{KeywordValue, value_of};

/// The longest name that Anthropic's API accepts, in characters.
const MAX_CHARS: usize = 64;

/// The length of the hash in a name that was cut, in hexadecimal digits.
const HASH_CHARS: usize = 6;

/// The property names of one tool that were changed for the model, by their place in the arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PropertyNames {
    /// The tool's own name of each changed property of the object.
    own: BTreeMap<String, String>,
    /// The changes within the properties of the object, by the names that the model knows.
    within: BTreeMap<String, PropertyNames>,
    /// The changes within the items of the list.
    items: Option<Box<PropertyNames>>,
    /// The changes within properties that the schema does not name.
    others: Option<Box<PropertyNames>>,
}

impl PropertyNames {
    /// Returns whether every name is the tool's own.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns a call's arguments with the tool's own names. Values keep their bytes, and text that is no JSON is
    /// returned unchanged.
    pub fn restore(&self, arguments: &str) -> String {
        if self.is_empty() {
            return arguments.to_owned();
        }
        self.restored(arguments).unwrap_or_else(|| arguments.to_owned())
    }

    fn restored(&self, written: &str) -> Option<String> {
        match written.trim_start().as_bytes().first()? {
            b'{' => {
                let fields: RawFieldList = serde_json::from_str(written).ok()?;
                let fields = fields.0.iter().map(|(name, value)| self.restored_field(name, value.get()));
                Some(format!("{{{}}}", fields.collect::<Vec<_>>().join(",")))
            }
            b'[' => {
                let inner = self.items.as_ref()?;
                let items: Vec<&RawValue> = serde_json::from_str(written).ok()?;
                let items = items.iter().map(|item| inner.restore(item.get()));
                Some(format!("[{}]", items.collect::<Vec<_>>().join(",")))
            }
            _ => None,
        }
    }

    fn restored_field(&self, name: &str, value: &str) -> String {
        let inner = self.within.get(name).or(self.others.as_deref());
        let value = inner.map_or_else(|| value.to_owned(), |inner| inner.restore(value));
        let name = self.own.get(name).map_or(name, String::as_str);
        format!("{}:{value}", Value::from(name))
    }

    /// Adds the changes of another schema for the same value.
    fn merge(&mut self, other: Self) {
        self.own.extend(other.own);
        for (name, inner) in other.within {
            self.within.entry(name).or_default().merge(inner);
        }
        for (mine, theirs) in [(&mut self.items, other.items), (&mut self.others, other.others)] {
            if let Some(theirs) = theirs {
                mine.get_or_insert_default().merge(*theirs);
            }
        }
    }
}

/// The fields of an object in order, with unparsed values.
struct RawFieldList(Vec<(String, Box<RawValue>)>);

// A map would drop duplicate keys, and parsed values would lose the spelling of numbers and escapes.
impl<'de> Deserialize<'de> for RawFieldList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = RawFieldList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawFieldList, A::Error> {
                let mut fields = Vec::new();
                // A list and not a map, because the order of fields and doubled keys must stay.
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(RawFieldList(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// Changes the names that a provider refuses, and returns the changes. No new name occurs elsewhere in the schema.
pub(super) fn renamed(schema: &mut Value) -> PropertyNames {
    // Each old name gets one new name in the whole schema, because a union describes a property in several members.
    let mut names = BTreeSet::new();
    collect(schema, &mut names);
    let refused: Vec<String> = names.iter().filter(|name| !is_accepted(name)).cloned().collect();
    if refused.is_empty() {
        return PropertyNames::default();
    }
    let mut new_names = BTreeMap::new();
    for name in refused {
        let new = free_name(&name, &names);
        names.insert(new.clone());
        new_names.insert(name, new);
    }
    rename(schema, &new_names)
}

/// Returns whether every provider accepts the name: `[a-zA-Z0-9_.-]{1,64}`.
fn is_accepted(name: &str) -> bool {
    (1..=MAX_CHARS).contains(&name.len()) && name.chars().all(is_accepted_char)
}

fn is_accepted_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// Returns an accepted name that resembles `name` and is not taken.
fn free_name(name: &str, taken: &BTreeSet<String>) -> String {
    let chars = name.trim_start_matches(['$', '@', '#']).chars();
    let mut new: String = chars.map(|c| if is_accepted_char(c) { c } else { '_' }).collect();
    // Long names may differ only at their end, so a hash of the whole name stands for the part that is cut.
    if new.len() > MAX_CHARS {
        let hash = blake3::hash(name.as_bytes()).to_hex();
        new.truncate(MAX_CHARS - HASH_CHARS - 1);
        new = format!("{new}_{}", &hash.as_str()[..HASH_CHARS]);
    }
    if new.is_empty() {
        new.push('_');
    }
    // Another property may have the plain name already, as `$filter` beside `filter`.
    if !taken.contains(&new) {
        return new;
    }
    let stem: String = new.chars().take(MAX_CHARS - 8).collect();
    (2_u32..).map(|number| format!("{stem}_{number}")).find(|name| !taken.contains(name)).unwrap_or(new)
}

/// Adds all property names in a schema to `names`.
fn collect(schema: &Value, names: &mut BTreeSet<String>) {
    let Value::Object(fields) = schema else { return };
    if let Some(Value::Object(properties)) = fields.get("properties") {
        names.extend(properties.keys().cloned());
    }
    // A required property need not be described under `properties`.
    let required = fields.get("required").and_then(Value::as_array).into_iter().flatten();
    names.extend(required.filter_map(Value::as_str).map(str::to_owned));
    for (key, value) in fields {
        match (value_of(key), value) {
            (KeywordValue::SchemaMap, Value::Object(inner)) => {
                inner.values().for_each(|schema| collect(schema, names));
            }
            (KeywordValue::SchemaList, Value::Array(inner)) => {
                inner.iter().for_each(|schema| collect(schema, names));
            }
            (KeywordValue::Schema, Value::Object(_)) => collect(value, names),
            _ => {}
        }
    }
}

/// Changes the names in a schema and returns the changes by their place in the arguments.
fn rename(schema: &mut Value, new_names: &BTreeMap<String, String>) -> PropertyNames {
    let mut changed = PropertyNames::default();
    let Value::Object(fields) = schema else { return changed };
    for (key, value) in fields.iter_mut() {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                rename_properties(properties, new_names, &mut changed)
            }
            ("dependentSchemas", Value::Object(inner)) => {
                inner.values_mut().for_each(|schema| changed.merge(rename(schema, new_names)));
                rename_keys(inner, new_names);
            }
            ("patternProperties", Value::Object(inner)) => {
                for schema in inner.values_mut() {
                    add(&mut changed.others, rename(schema, new_names));
                }
            }
            ("required", Value::Array(names)) => rename_texts(names, new_names),
            ("dependentRequired", Value::Object(inner)) => {
                inner
                    .values_mut()
                    .filter_map(Value::as_array_mut)
                    .for_each(|names| rename_texts(names, new_names));
                rename_keys(inner, new_names);
            }
            ("items" | "unevaluatedItems" | "contains", schema) => {
                add(&mut changed.items, rename(schema, new_names));
            }
            ("additionalProperties" | "unevaluatedProperties", schema) => {
                add(&mut changed.others, rename(schema, new_names));
            }
            // `PropertyNames` has one entry for all items of a list, so the changes of all positions are merged.
            ("prefixItems", Value::Array(inner)) => {
                for schema in inner {
                    add(&mut changed.items, rename(schema, new_names));
                }
            }
            ("anyOf" | "oneOf" | "allOf", Value::Array(inner)) => {
                inner.iter_mut().for_each(|schema| changed.merge(rename(schema, new_names)));
            }
            // This schema describes names, and no place in the arguments.
            ("propertyNames", schema) => drop(rename(schema, new_names)),
            ("if" | "then" | "else" | "not", schema) => changed.merge(rename(schema, new_names)),
            _ => {}
        }
    }
    changed
}

fn rename_properties(
    properties: &mut Object,
    new_names: &BTreeMap<String, String>,
    changed: &mut PropertyNames,
) {
    for (name, schema) in properties.iter_mut() {
        let new = new_names.get(name);
        if let Some(new) = new {
            changed.own.insert(new.clone(), name.clone());
        }
        let inner = rename(schema, new_names);
        if !inner.is_empty() {
            changed.within.entry(new.unwrap_or(name).clone()).or_default().merge(inner);
        }
    }
    rename_keys(properties, new_names);
}

fn add(place: &mut Option<Box<PropertyNames>>, changed: PropertyNames) {
    if !changed.is_empty() {
        place.get_or_insert_default().merge(changed);
    }
}

fn rename_keys(fields: &mut Object, new_names: &BTreeMap<String, String>) {
    let renamed = std::mem::take(fields).into_iter();
    *fields = renamed.map(|(name, value)| (new_names.get(&name).cloned().unwrap_or(name), value)).collect();
}

fn rename_texts(names: &mut [Value], new_names: &BTreeMap<String, String>) {
    for name in names {
        if let Some(new) = name.as_str().and_then(|name| new_names.get(name)) {
            *name = new.as_str().into();
        }
    }
}
