//! What the description of the API says, held against what is answered: every answer and every event that the other
//! tests see passes through here.

use std::sync::LazyLock;

use longhaul::SessionEvent;
use longhaul::api_events::ApiEvent;
use longhaul_testkit::{SchemaDocument, schema_kinds};
use serde_json::{Map, Value};

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(longhaul_server::openapi()).unwrap());

/// All routes, as `get /path`.
fn routes() -> Vec<String> {
    let paths = DOCUMENT["paths"].as_object().unwrap().iter();
    let of_path = |(path, item): (&String, &Value)| {
        let methods = item.as_object().unwrap().keys().map(|method| format!("{method} {path}"));
        methods.collect::<Vec<_>>()
    };
    let mut all: Vec<String> = paths.flat_map(of_path).collect();
    all.sort();
    all
}

/// The operations at an address; of two paths that fit, the one that names more.
fn operations(address: &str) -> Option<&'static Map<String, Value>> {
    let address = address.split('?').next().unwrap();
    let fits = |path: &str| {
        let (path, address): (Vec<&str>, Vec<&str>) =
            (path.split('/').collect(), address.split('/').collect());
        path.len() == address.len()
            && path.iter().zip(&address).all(|(one, other)| one.starts_with('{') || one == other)
    };
    let paths = DOCUMENT["paths"].as_object().unwrap().iter().filter(|(path, _)| fits(path));
    let (_, item) = paths.min_by_key(|(path, _)| path.matches('{').count())?;
    item.as_object()
}

/// Fails if an answer of that status and shape is described for no method at that address.
pub(crate) fn answer(address: &str, status: u16, value: &Value) {
    let Some(operations) = operations(address) else {
        assert_eq!(status, 404, "{address} is not described");
        return;
    };
    let mut why = Vec::new();
    for (method, operation) in operations {
        let described = &operation["responses"][status.to_string()];
        let Some(content) = described["content"].as_object() else {
            why.push(format!("{method}: {status} is not described"));
            continue;
        };
        let schema = &content.values().next().unwrap()["schema"];
        match check(schema, value) {
            Ok(()) => return,
            Err(error) => why.push(format!("{method}: {error}")),
        }
    }
    // Methods that a route does not have are described nowhere.
    assert!(status == 405, "{address} answers {status} {value}: {why:?}");
}

/// The described events: the reference to the schema of each name.
fn described_events() -> &'static Map<String, Value> {
    DOCUMENT["components"]["schemas"]["Event"]["discriminator"]["mapping"].as_object().unwrap()
}

/// Fails if an event is not as described, or has no type.
pub(crate) fn event(value: &Value) {
    let name = value["name"].as_str().unwrap();
    let described = described_events().get_key_value(name);
    let (name, reference) = described.unwrap_or_else(|| panic!("{name} is not described"));
    if let Err(why) = check(resolve(reference.as_str().unwrap()), value) {
        panic!("{name} is not as described: {why}: {value}");
    }
    let typed = SessionEvent::from_announcement(&ApiEvent::passing(name, &"s".into(), value.clone()));
    assert!(!matches!(typed, Some(SessionEvent::Other { .. })), "{name} has no type: {value}");
}

fn resolve(reference: &str) -> &'static Value {
    SchemaDocument(&DOCUMENT).resolve(reference)
}

fn check(schema: &Value, value: &Value) -> Result<(), String> {
    SchemaDocument(&DOCUMENT).check(schema, value)
}

/// Returns a value as described. A whole one has everything; the other has only what it must have, and `null` and empty
/// lists where it may.
fn example(schema: &Value, is_whole: bool) -> Value {
    if let Some(reference) = schema["$ref"].as_str() {
        return example(resolve(reference), is_whole);
    }
    if let Some(known) = schema["enum"].as_array() {
        return known[0].clone();
    }
    // `null` is described as the last of several.
    if let Some(some) = schema["oneOf"].as_array() {
        return example(if is_whole { &some[0] } else { &some[some.len() - 1] }, is_whole);
    }
    let kinds = schema_kinds(schema);
    match *(if is_whole { kinds.first() } else { kinds.last() }).unwrap_or(&"null") {
        "object" => {
            let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
            let fields = schema["properties"].as_object().into_iter().flatten();
            let fields = fields.filter(|(key, _)| is_whole || required.contains(&Value::from(key.as_str())));
            fields.map(|(key, schema)| (key.clone(), example(schema, is_whole))).collect()
        }
        "array" if is_whole => vec![example(&schema["items"], is_whole)].into(),
        "array" => Value::Array(Vec::new()),
        "string" => "text".into(),
        "integer" | "number" => 1.into(),
        "boolean" => true.into(),
        _ => Value::Null,
    }
}

/// The types of the library can hold whatever the description allows.
#[test]
fn every_described_event_has_a_type() {
    for reference in described_events().values() {
        let schema = resolve(reference.as_str().unwrap());
        for is_whole in [true, false] {
            event(&example(schema, is_whole));
        }
    }
}

/// Returns the words that a schema allows, sorted.
fn words(schema: &Value) -> Vec<&str> {
    let listed = schema["enum"].as_array().into_iter().flatten();
    let each = schema["oneOf"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|one| one.get("const").into_iter().chain(one["enum"].as_array().into_iter().flatten()));
    let mut words: Vec<&str> = listed.chain(each).map(|word| word.as_str().unwrap()).collect();
    words.sort_unstable();
    words
}

/// The words of the description are those of the types in [`SessionEvent`].
#[test]
fn events_have_the_words_of_the_library() {
    let schema = SessionEvent::json_schema();
    let described = |name: &str| words(&DOCUMENT["components"]["schemas"][name]);
    let typed = |name: &str| words(&schema["$defs"][name]);
    for (name, of_library) in [
        ("Cut", "PartialAnswerReason"),
        ("EditReason", "EditReason"),
        ("FinishReason", "RunEnd"),
        ("Outcome", "ToolStatus"),
        ("Role", "Role"),
        ("Source", "MessageSource"),
    ] {
        assert!(!typed(of_library).is_empty(), "{of_library} is not in the schema");
        assert_eq!(described(name), typed(of_library), "{name}");
    }
    // The API has some codes more.
    let codes = described("ProblemCode");
    assert!(typed("ErrorCode").iter().all(|code| codes.contains(code)), "{codes:?}");
}

/// The description that is committed is the one that is made.
#[test]
fn the_committed_description_is_the_newest() {
    let committed = include_str!("../../../../docs/openapi.json");
    assert!(
        committed == longhaul_server::openapi(),
        "make it again: cargo run -p longhaul-server --example openapi > docs/openapi.json"
    );
}

/// The description has every route, and no other.
#[test]
fn every_route_is_described() {
    let source = include_str!("../../src/routes.rs");
    let (top, below) = source.split_once("fn of_session()").unwrap();
    let mut known = Vec::new();
    for (prefix, lines) in [("", top), ("/api/sessions/{id}", below)] {
        for line in lines.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")) {
            let (path, rest) = line.split_once('"').unwrap();
            for method in ["get", "post", "patch", "put", "delete"] {
                if rest.contains(&format!(" {method}(")) || rest.contains(&format!(".{method}(")) {
                    // OpenAPI has no parameters that span several segments.
                    known.push(format!("{method} {prefix}{}", path.replace("{*", "{")));
                }
            }
        }
    }
    known.sort();
    assert_eq!(routes(), known);
}
