use proptest::prelude::*;

use super::keywords::{KeywordValue, names_with, value_of};
use super::*;

fn of(schema: &str) -> Value {
    serde_json::from_str(normalize(Some(schema)).unwrap().schema.as_str()).unwrap()
}

fn refused(schema: &str) -> String {
    normalize(Some(schema)).unwrap_err().to_string()
}

#[test]
fn a_schema_that_everybody_takes_keeps_its_bytes() {
    for schema in [
        r#"{ "type":"object",  "properties":{"n":{"type":"number","maximum":1.0e3}, "big":{"const":12345678901234567890123}},"a":1,"a":2 }"#,
        r#"{"type":"object","properties":{"x":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["x"],"additionalProperties":false}"#,
        r#"{"type":"object","properties":{"any":{}, "list":{"type":"array","items":{}}}}"#,
    ] {
        let normalized = normalize(Some(schema)).unwrap();
        assert_eq!(normalized.schema.as_str(), schema);
        assert!(normalized.names.is_empty());
    }
}

#[test]
fn a_tool_without_a_schema_takes_no_arguments() {
    let empty = json!({ "type": "object", "properties": {} });
    for schema in
        [None, Some(""), Some(" "), Some("null"), Some("{}"), Some("true"), Some(r#"{"type":"object"}"#)]
    {
        let normalized = normalize(schema).unwrap();
        let value: Value = serde_json::from_str(normalized.schema.as_str()).unwrap();
        assert_eq!(value, empty, "{schema:?}");
    }
    assert_eq!(of(r#"{"type":"object","properties":null,"required":null}"#), empty);
}

#[test]
fn a_union_at_the_root_becomes_properties_and_a_sentence() {
    let any = of(
        r#"{"type":"object","anyOf":[{"type":"object","properties":{"content":{"type":"string"}},"required":["content"]},
            {"type":"object","properties":{"url":{"type":"string"}},"required":["url"]}]}"#,
    );
    let text = json!({ "type": "string" });
    assert_eq!(
        any,
        json!({ "type": "object", "properties": { "content": text, "url": text },
            "description": "At least one of these is required: `content`; `url`." })
    );
    let one = of(
        r#"{"oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"string"}},"required":["kind","x"]},
            {"properties":{"kind":{"const":"b"},"x":{"type":"number"},"y":{}},"required":["kind","y"]},{"type":"null"}]}"#,
    );
    assert_eq!(
        one,
        json!({ "type": "object", "required": ["kind"],
            "properties": { "kind": { "enum": ["a", "b"] },
                "x": { "anyOf": [{ "type": "string" }, { "type": "number" }] }, "y": {} },
            "description": "Exactly one of these is required: `x`; `y`." })
    );
    let all =
        of(r##"{"allOf":[{"$ref":"#/$defs/base"},{"properties":{"b":{"type":"string"}},"required":["b"]}],
            "$defs":{"base":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}}"##);
    assert_eq!(
        all,
        json!({ "type": "object", "required": ["a", "b"],
            "properties": { "a": { "type": "integer" }, "b": text } })
    );
    let conditional = of(r#"{"type":"object","properties":{"a":{"type":"string"}},"if":{"required":["a"]},
            "then":{"properties":{"b":{"type":"string"}},"required":["b"]},"not":{"required":["c"]}}"#);
    assert_eq!(conditional, json!({ "type": "object", "properties": { "a": text, "b": text } }));
    let needs = of(
        r#"{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}"#,
    );
    assert_eq!(needs["properties"], json!({ "a": text, "b": text }));
    assert_eq!(needs["description"], "At least one of these is required: `a`; `b`.");
}

#[test]
fn references_are_put_in_place_and_circles_end() {
    let schema = of(r##"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object",
            "properties":{"at":{"$ref":"#/definitions/po~1int","description":"where"},"list":{"$ref":"#/$defs/tree"},"self":{"$ref":"#"},
                "odd":{"$ref":"#/$defs/a%20b"}, "named":{"$ref":"#here"}},
            "definitions":{"po/int":{"type":"object","description":"a point","properties":{"x":{"type":"number"}}}},
            "$defs":{"tree":{"type":"object","description":"a tree","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/tree"}}}},
                "a b":{"type":"string"},"n":{"$anchor":"here","type":"boolean"}}}"##);
    let properties = &schema["properties"];
    let point =
        json!({ "type": "object", "description": "where", "properties": { "x": { "type": "number" } } });
    assert_eq!(properties["at"], point);
    let again = json!({ "type": "object", "description": "a tree" });
    assert_eq!(properties["list"]["properties"]["children"], json!({ "type": "array", "items": again }));
    assert_eq!(
        (&properties["odd"]["type"], &properties["named"]["type"]),
        (&"string".into(), &"boolean".into())
    );
    assert!(!schema.to_string().contains('$'), "{schema}");
    // Each level refers to the next twice: put in place, they would be 2^40 schemas.
    let levels = (0..40).map(|level| {
        let next = level + 1;
        format!(r##""l{level}":{{"properties":{{"a":{{"$ref":"#/$defs/l{next}"}},"b":{{"$ref":"#/$defs/l{next}"}}}}}}"##)
    });
    let levels = levels.collect::<Vec<_>>().join(",");
    let wide = format!(r##"{{"$ref":"#/$defs/l0","$defs":{{{levels},"l40":{{"type":"string"}}}}}}"##);
    assert!(normalize(Some(&wide)).unwrap().schema.as_str().len() < 500_000);
    for endless in [
        r##"{"$ref":"#"}"##,
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##,
    ] {
        assert_eq!(of(endless), json!({ "type": "object", "properties": {} }));
    }
}

#[test]
fn types_follow_from_what_else_is_said() {
    let schema = of(
        r#"{"properties":{"o":{"properties":{"a":true,"b":false}},"l":{"items":{"type":"STRING"}},"bare":{"type":"array"},
            "tuple":{"type":"array","items":[{"type":"string"},{"type":"number"}],"additionalItems":false},
            "e":{"enum":["x","y"]},"none":{"enum":[]},"many":{"type":["String","null"]},"short":"int","odd":{"type":"date"},
            "old":{"type":"string","required":true}}}"#,
    );
    let text = json!({ "type": "string" });
    assert_eq!(
        schema,
        json!({ "type": "object", "required": ["old"], "properties": {
            "o": { "type": "object", "properties": { "a": {} } },
            "l": { "type": "array", "items": text },
            "bare": { "type": "array", "items": {} },
            "tuple": { "type": "array", "items": { "anyOf": [text, { "type": "number" }] } },
            "e": { "type": "string", "enum": ["x", "y"] },
            "none": {},
            "many": { "type": ["string", "null"] },
            "short": { "type": "integer" },
            "odd": {},
            "old": text,
        } })
    );
    let required = of(r#"{"type":["object","null"],"required":["a"]}"#);
    assert_eq!(required, json!({ "type": "object", "required": ["a"], "properties": { "a": {} } }));
}

#[test]
fn empty_lists_and_nulls_of_serializers_are_read_as_they_are_meant() {
    let nothing = json!({ "type": "object", "properties": {} });
    for empty in [
        "[]",
        r#""""#,
        r#"{"properties":[]}"#,
        r#"{"type":"object","properties":[],"required":{}}"#,
        r#"{"type":"object","properties":null,"required":null,"$defs":[],"definitions":null}"#,
        r#"{"type":null,"anyOf":null,"oneOf":[],"allOf":{},"not":[],"enum":null,"patternProperties":[]}"#,
        r#"{"type":"","description":null,"title":[],"dependentRequired":[],"if":[],"$ref":null}"#,
        r#"{"type":"any"}"#,
        r#"{"type":"dict"}"#,
    ] {
        assert_eq!(of(empty), nothing, "{empty}");
    }
    let property =
        |schema: &str| of(&format!(r#"{{"properties":{{"a":{schema}}}}}"#))["properties"]["a"].clone();
    for (written, meant) in [
        ("null", json!({})),
        ("[]", json!({})),
        (r#""any""#, json!({})),
        (r#""the name of a file""#, json!({ "description": "the name of a file" })),
        (r#""int|null""#, json!({ "type": ["integer", "null"] })),
        (r#"{"type":"list","items":[]}"#, json!({ "type": "array", "items": {} })),
        (r#"{"type":"array","items":null}"#, json!({ "type": "array", "items": {} })),
        (r#"{"type":"string","enum":null}"#, json!({ "type": "string" })),
        (r#"{"enum":{"0":"x","2":"y"}}"#, json!({ "enum": ["x", "y"], "type": "string" })),
        (r#"{"enum":"x"}"#, json!({ "enum": ["x"], "type": "string" })),
        (r#"{"type":"float","minimum":null,"maximum":"7"}"#, json!({ "type": "number", "maximum": 7 })),
        (
            r#"{"type":"int","minimum":1,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false}"#,
            json!({ "type": "integer", "maximum": 9, "exclusiveMinimum": 1 }),
        ),
        (r#"{"type":"bool","default":null}"#, json!({ "type": "boolean", "default": null })),
        (
            r#"{"anyOf":[{"type":"str"},null]}"#,
            json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }),
        ),
        (r#"{"anyOf":{"type":"str"}}"#, json!({ "anyOf": [{ "type": "string" }] })),
        (r#"{"anyOf":{"1":{"type":"str"}}}"#, json!({ "anyOf": [{ "type": "string" }] })),
        (
            r#"{"type":"object","additionalProperties":[]}"#,
            json!({ "type": "object", "additionalProperties": {} }),
        ),
        (
            r#"{"type":"dict","additionalProperties":"false"}"#,
            json!({ "type": "object", "additionalProperties": false }),
        ),
    ] {
        assert_eq!(property(written), meant, "{written}");
    }
    let gap = of(r#"{"properties":{"a":"str","b":{"type":"str","required":true}},"required":{"0":"a"}}"#);
    assert_eq!(gap["required"], json!(["a", "b"]));
}

#[test]
fn names_that_a_provider_refuses_are_changed_and_restored() {
    let long = "x".repeat(80);
    let normalized = normalize(Some(&format!(
        r##"{{"type":"object","required":["$filter"],"properties":{{"$filter":{{"type":"string"}},"filter":{{"type":"string"}},
            "@odata.type":{{"type":"string"}},"{long}":{{"type":"string"}},"":{{"type":"string"}},
            "list":{{"type":"array","items":{{"type":"object","properties":{{"$top":{{"type":"integer"}}}}}}}},
            "free":{{"type":"object","additionalProperties":{{"anyOf":[{{"type":"object","properties":{{"a b":{{}}}}}}]}}}}}}}}"##
    )))
    .unwrap();
    let schema: Value = serde_json::from_str(normalized.schema.as_str()).unwrap();
    let names: Vec<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let cut = names[3];
    assert_eq!(names, ["filter_2", "filter", "odata.type", cut, "_", "list", "free"]);
    assert!(cut.len() == 64 && cut.starts_with("xxx"), "{cut}");
    assert_eq!(schema["required"], json!(["filter_2"]));
    let written = format!(
        r#"{{"filter_2": "a", "filter":"b","odata.type":1.10,"{cut}":12345678901234567890123,"_":"\u00e9","list":[{{"top":1,"filter_2":0}}],"free":{{"top":{{"a_b":2}}}}}}"#
    );
    assert_eq!(
        normalized.names.restore(&written),
        format!(
            r#"{{"$filter":"a","filter":"b","@odata.type":1.10,"{long}":12345678901234567890123,"":"\u00e9","list":[{{"$top":1,"filter_2":0}}],"free":{{"top":{{"a b":2}}}}}}"#
        )
    );
    for kept in ["[]", "no JSON", ""] {
        assert_eq!(normalized.names.restore(kept), kept);
    }
}

#[test]
fn what_is_no_schema_of_arguments_is_refused_in_words() {
    assert!(refused("{").starts_with("its schema is not readable JSON"));
    assert!(
        refused(&format!("{}1{}", "[".repeat(500), "]".repeat(500)))
            .starts_with("its schema is not readable")
    );
    for no_object in [
        "false",
        r#"{"type":"string"}"#,
        r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
        r#"{"enum":[1]}"#,
    ] {
        assert_eq!(refused(no_object), "its schema does not describe an object", "{no_object}");
    }
    for (schema, words) in [
        ("3", "its schema has a number at the root, where a schema must be"),
        ("[1]", "its schema has a list at the root, where a schema must be"),
        (r#"{"properties":[1]}"#, "its schema has a list at properties, where a schema must be"),
        (r#"{"properties":{"a":7}}"#, "its schema has a number at a, where a schema must be"),
        (r##"{"properties":{"a":{"$ref":"#/gone"}}}"##, "its schema refers to `#/gone`, which is not in it"),
        (r#"{"$ref":"https://x/y.json"}"#, "its schema refers to `https://x/y.json`, which is not in it"),
    ] {
        assert_eq!(refused(schema), words);
    }
}

/// Schemas as servers write them, and as they should not.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!(false)),
        Just(Value::Null),
        Just(json!({ "type": "string" })),
        Just(json!({ "type": ["object", "null"] })),
        Just(json!({ "type": "ARRAY" })),
        Just(json!({ "const": 1 })),
        Just(json!({ "enum": ["a", 1] })),
        Just(json!({ "required": ["$a", "b"] })),
        prop::sample::select(vec!["#", "#/$defs/d", "#/$defs/e", "#/properties/$a", "#/gone"])
            .prop_map(|reference| json!({ "$ref": reference, "description": "d" })),
    ];
    leaf.prop_recursive(5, 60, 4, |inner| {
        let named = |key: &'static str, inner: BoxedStrategy<Value>| {
            prop::collection::vec(
                (prop::sample::select(vec!["$a", "a", "b", "c d", "properties"]), inner),
                0..4,
            )
            .prop_map(move |fields| {
                let fields: Object =
                    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                json!({ key: fields })
            })
        };
        let one = (prop::sample::select(names_with(KeywordValue::Schema)), inner.clone())
            .prop_map(|(key, value)| json!({ key: value }));
        let list = (
            prop::sample::select(names_with(KeywordValue::SchemaList)),
            prop::collection::vec(inner.clone(), 0..3),
        )
            .prop_map(|(key, values)| json!({ key: values }));
        let field = prop_oneof![
            named("properties", inner.clone().boxed()),
            named("$defs", inner.clone().boxed()),
            named("patternProperties", inner.clone().boxed()),
            one,
            list,
            inner.clone(),
        ];
        prop::collection::vec(field, 1..4).prop_map(|fields| {
            let fields = fields.into_iter().filter_map(|field| match field {
                Value::Object(fields) => Some(fields),
                _ => None,
            });
            Value::Object(fields.flatten().collect())
        })
    })
}

/// The keywords that no provider takes, at any depth.
fn faults(value: &Value, faults: &mut Vec<String>) {
    let Value::Object(fields) = value else { return faults.push(format!("no schema: {value}")) };
    if fields.contains_key("$ref") {
        faults.push("a reference".to_owned());
    }
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("additionalProperties" | "unevaluatedProperties", Value::Bool(_)) => {}
            ("properties", Value::Object(inner)) => {
                let bad = inner.keys().filter(|name| {
                    let is_known = name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
                    name.is_empty() || !is_known
                });
                faults.extend(bad.map(|name| format!("the name {name}")));
                inner.values().for_each(|schema| self::faults(schema, faults));
            }
            (key, Value::Object(inner)) if value_of(key) == KeywordValue::SchemaMap => {
                inner.values().for_each(|schema| self::faults(schema, faults));
            }
            (key, Value::Array(inner)) if value_of(key) == KeywordValue::SchemaList => {
                inner.iter().for_each(|schema| self::faults(schema, faults));
            }
            (key, value) if value_of(key) == KeywordValue::Schema => self::faults(value, faults),
            _ => {}
        }
    }
    if walk::has_type(fields, "array") && !fields.contains_key("items") {
        faults.push("a list of nothing".to_owned());
    }
}

proptest! {
    #[test]
    fn every_schema_is_accepted_everywhere_or_refused(schema in schemas()) {
        let Ok(normalized) = normalize(Some(&schema.to_string())) else { return Ok(()) };
        let value: Value = serde_json::from_str(normalized.schema.as_str()).unwrap();
        prop_assert_eq!(&value["type"], "object");
        prop_assert!(value["properties"].is_object());
        for key in ["anyOf", "oneOf", "allOf", "not", "enum", "const"] {
            prop_assert!(value.get(key).is_none(), "{} in {}", key, value);
        }
        let mut found = Vec::new();
        faults(&value, &mut found);
        prop_assert!(found.is_empty(), "{:?} in {}", found, value);
        for name in value["required"].as_array().into_iter().flatten() {
            prop_assert!(value["properties"].get(name.as_str().unwrap()).is_some(), "{}", value);
        }
        let again = normalize(Some(normalized.schema.as_str())).unwrap();
        prop_assert_eq!(again.schema.as_str(), normalized.schema.as_str());
        prop_assert!(again.names.is_empty());
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = normalize(Some(&text));
    }

    #[test]
    fn renamed_arguments_come_back(name in "[$@a-c \\[\\]é]{0,4}", other in "[$@a-c \\[\\]é]{0,4}", number in any::<i64>()) {
        let schema = json!({ "type": "object", "properties": {
            name.as_str(): { "type": "integer" },
            "in": { "type": "object", "properties": { other.as_str(): { "type": "integer" } } },
        } });
        let normalized = normalize(Some(&schema.to_string())).unwrap();
        let shown: Value = serde_json::from_str(normalized.schema.as_str()).unwrap();
        let outer: Vec<&String> = shown["properties"].as_object().unwrap().keys().filter(|key| *key != "in").collect();
        let inner = shown["properties"]["in"]["properties"].as_object().unwrap().keys().next().unwrap();
        let written = json!({ outer[0].as_str(): number, "in": { inner.as_str(): number } });
        let restored: Value = serde_json::from_str(&normalized.names.restore(&written.to_string())).unwrap();
        prop_assert_eq!(restored, json!({ name.as_str(): number, "in": { other.as_str(): number } }));
    }
}
