//! The keywords of JSON Schema that the normalization knows, in one table.

use self::KeywordRole::{
    Annotation, BindsObject, FixesType, RefusedAtRoot, RefusesEmptyList, ResolvedByInlining, TextOnly,
};
use self::KeywordValue::{Number, Other, Schema, SchemaList, SchemaMap};

/// The kind of value that a keyword takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeywordValue {
    /// A schema.
    Schema,
    /// A list of schemas.
    SchemaList,
    /// Schemas by name.
    SchemaMap,
    /// A number that bounds a value.
    Number,
    /// A value without schemas.
    Other,
}

/// A property of a keyword that one step of the normalization depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeywordRole {
    /// The keyword only describes. Beside a reference it replaces the same keyword of the referenced schema.
    Annotation,
    /// Providers refuse any value that is no text.
    TextOnly,
    /// The keyword has no meaning once all references are inlined.
    ResolvedByInlining,
    /// PHP writes an empty object as `[]`. In the place of this keyword's value an empty schema would forbid
    /// everything or say nothing, so the keyword is left out.
    RefusesEmptyList,
    /// At least one API refuses the keyword at the root.
    RefusedAtRoot,
    /// A schema with the keyword needs no `type` beside it.
    FixesType,
    /// The keyword shows that the value is an object.
    BindsObject,
}

/// A keyword with its kind of value and its roles.
struct Keyword {
    name: &'static str,
    value: KeywordValue,
    roles: &'static [KeywordRole],
}

const fn keyword(name: &'static str, value: KeywordValue, roles: &'static [KeywordRole]) -> Keyword {
    Keyword { name, value, roles }
}

/// All keywords with a meaning for the normalization. Any other keyword is copied.
const KEYWORDS: &[Keyword] = &[
    keyword("not", Schema, &[RefusesEmptyList, RefusedAtRoot, FixesType]),
    keyword("if", Schema, &[RefusesEmptyList, RefusedAtRoot]),
    keyword("then", Schema, &[RefusesEmptyList, RefusedAtRoot]),
    keyword("else", Schema, &[RefusesEmptyList, RefusedAtRoot]),
    keyword("contains", Schema, &[RefusesEmptyList]),
    keyword("propertyNames", Schema, &[RefusesEmptyList]),
    keyword("items", Schema, &[]),
    keyword("unevaluatedItems", Schema, &[]),
    keyword("additionalProperties", Schema, &[BindsObject]),
    keyword("unevaluatedProperties", Schema, &[]),
    keyword("anyOf", SchemaList, &[RefusedAtRoot, FixesType]),
    keyword("oneOf", SchemaList, &[RefusedAtRoot, FixesType]),
    keyword("allOf", SchemaList, &[RefusedAtRoot, FixesType]),
    keyword("prefixItems", SchemaList, &[]),
    // An empty `properties` keeps its meaning, so `walk` writes it as an empty object before it reads this role.
    keyword("properties", SchemaMap, &[RefusesEmptyList, BindsObject]),
    keyword("patternProperties", SchemaMap, &[RefusesEmptyList, BindsObject]),
    keyword("dependentSchemas", SchemaMap, &[RefusesEmptyList, RefusedAtRoot]),
    keyword("dependentRequired", Other, &[RefusesEmptyList]),
    keyword("dependencies", Other, &[RefusesEmptyList]),
    keyword("required", Other, &[BindsObject]),
    keyword("type", Other, &[FixesType]),
    keyword("const", Other, &[RefusedAtRoot, FixesType]),
    keyword("enum", Other, &[RefusedAtRoot]),
    keyword("minimum", Number, &[]),
    keyword("maximum", Number, &[]),
    keyword("exclusiveMinimum", Number, &[]),
    keyword("exclusiveMaximum", Number, &[]),
    keyword("multipleOf", Number, &[]),
    keyword("minLength", Number, &[]),
    keyword("maxLength", Number, &[]),
    keyword("minItems", Number, &[]),
    keyword("maxItems", Number, &[]),
    keyword("minProperties", Number, &[]),
    keyword("maxProperties", Number, &[]),
    keyword("minContains", Number, &[]),
    keyword("maxContains", Number, &[]),
    keyword("description", Other, &[Annotation, TextOnly]),
    keyword("title", Other, &[Annotation, TextOnly]),
    keyword("default", Other, &[Annotation]),
    keyword("examples", Other, &[Annotation]),
    keyword("deprecated", Other, &[Annotation]),
    keyword("readOnly", Other, &[Annotation]),
    keyword("writeOnly", Other, &[Annotation]),
    keyword("nullable", Other, &[Annotation, RefusedAtRoot]),
    keyword("format", Other, &[TextOnly]),
    keyword("pattern", Other, &[TextOnly]),
    keyword("$schema", Other, &[ResolvedByInlining]),
    keyword("$id", Other, &[ResolvedByInlining]),
    keyword("id", Other, &[ResolvedByInlining]),
    keyword("$anchor", Other, &[ResolvedByInlining]),
    keyword("$defs", Other, &[ResolvedByInlining]),
    keyword("definitions", Other, &[ResolvedByInlining]),
    keyword("$comment", Other, &[ResolvedByInlining]),
    keyword("$vocabulary", Other, &[ResolvedByInlining]),
];

/// Returns the kind of value that a keyword takes; [`KeywordValue::Other`] for an unknown keyword.
pub(super) fn value_of(name: &str) -> KeywordValue {
    KEYWORDS.iter().find(|keyword| keyword.name == name).map_or(Other, |keyword| keyword.value)
}

/// Returns whether a keyword has a role.
pub(super) fn has_role(name: &str, role: KeywordRole) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.name == name && keyword.roles.contains(&role))
}

/// Returns the names of all keywords with one kind of value.
#[cfg(test)]
pub(super) fn names_with(value: KeywordValue) -> Vec<&'static str> {
    KEYWORDS.iter().filter(|keyword| keyword.value == value).map(|keyword| keyword.name).collect()
}
