//! Missing values: an answer leaves such values out and never sends `null`. A request may do either.

use std::collections::BTreeSet;

use utoipa::openapi::request_body::RequestBody;
use utoipa::openapi::schema::{ArrayItems, Schema, SchemaType, Type};
use utoipa::openapi::{OpenApi, RefOr};

use super::operations;

/// Removes `null` from optional fields in schemas outside requests.
pub(super) fn never_null(document: &mut OpenApi) {
    let given = given(document);
    let components = document.components.get_or_insert_default();
    for (name, schema) in &mut components.schemas {
        // A schema that requests share with answers keeps `null`, because a client may send it.
        if !given.contains(name) {
            whole(schema);
        }
    }
}

/// Returns the schemas in requests, including nested ones.
fn given(document: &mut OpenApi) -> BTreeSet<String> {
    let mut left = Vec::new();
    for item in document.paths.paths.values_mut() {
        for (_, operation) in operations(item) {
            if let Some(RefOr::T(RequestBody { content, .. })) = &operation.request_body {
                let contents = content.values().filter_map(|content| match content {
                    RefOr::T(content) => content.schema.as_ref(),
                    RefOr::Ref(_) => None,
                });
                contents.for_each(|schema| names(schema, &mut left));
            }
        }
    }
    let components = document.components.get_or_insert_default();
    let mut found = BTreeSet::new();
    while let Some(name) = left.pop() {
        // Schemas may refer to each other in a circle, so each is visited once.
        if let Some(schema) = components.schemas.get(&name).filter(|_| found.insert(name)) {
            names(schema, &mut left);
        }
    }
    found
}

/// Collects the schemas referenced by a schema.
fn names(schema: &RefOr<Schema>, found: &mut Vec<String>) {
    let schema = match schema {
        RefOr::Ref(reference) => {
            found.extend(reference.ref_location.rsplit('/').next().map(str::to_owned));
            return;
        }
        RefOr::T(schema) => schema,
    };
    match schema {
        Schema::Object(object) => object.properties.values().for_each(|property| names(property, found)),
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &array.items {
                names(items, found);
            }
        }
        Schema::OneOf(one) => one.items.iter().for_each(|item| names(item, found)),
        Schema::AllOf(all) => all.items.iter().for_each(|item| names(item, found)),
        Schema::AnyOf(any) => any.items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}

/// Removes `null` from a schema and everything inside.
fn whole(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else { return };
    match schema {
        Schema::Object(object) => {
            for (name, property) in &mut object.properties {
                if !object.required.contains(name) {
                    without_null(property);
                }
                whole(property);
            }
        }
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                whole(items);
            }
        }
        Schema::OneOf(one) => one.items.iter_mut().for_each(whole),
        Schema::AllOf(all) => all.items.iter_mut().for_each(whole),
        Schema::AnyOf(any) => any.items.iter_mut().for_each(whole),
        _ => {}
    }
}

/// Simplifies a parameter: present or absent, and with numbers above `int64`.
pub(super) fn plain(schema: &mut RefOr<Schema>) {
    without_null(schema);
    if let RefOr::T(Schema::Object(object)) = schema {
        // The format `int64` would make generated clients refuse positions above its range.
        object.format = None;
    }
}

fn without_null(schema: &mut RefOr<Schema>) {
    let only = match schema {
        RefOr::T(Schema::Object(object)) => {
            strip(&mut object.schema_type);
            None
        }
        RefOr::T(Schema::Array(array)) => {
            strip(&mut array.schema_type);
            None
        }
        RefOr::T(Schema::OneOf(one)) => {
            one.items.retain(|item| !is_null(item));
            let is_plain = one.items.len() == 1 && one.description.is_none();
            is_plain.then(|| one.items.pop()).flatten()
        }
        _ => None,
    };
    if let Some(only) = only {
        *schema = only;
    }
}

fn is_null(schema: &RefOr<Schema>) -> bool {
    matches!(schema, RefOr::T(Schema::Object(object)) if object.schema_type == SchemaType::Type(Type::Null))
}

fn strip(kind: &mut SchemaType) {
    if let SchemaType::Array(kinds) = kind {
        kinds.retain(|kind| *kind != Type::Null);
        if let [only] = kinds.as_slice() {
            *kind = SchemaType::Type(only.clone());
        }
    }
}
