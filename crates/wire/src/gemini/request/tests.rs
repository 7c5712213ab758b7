use std::collections::BTreeMap;

use longhaul_core::message::{
    BlobRef, MediaPart, Message, ModelOrigin, Part, RawJson, ReasoningPart, Role, TextPart, ToolCall,
    ToolResult, ToolStatus,
};
use proptest::prelude::*;

use super::super::API;
use super::*;

const THIRD: &str = "gemini-3-pro-preview";
const SECOND: &str = "gemini-2.5-flash";

const SIGNED_CALL: &str = r#"{"functionCall":{"id":"fc-1","name":"read","args":{"n": 1.50,"\u0061":1e3}},"thoughtSignature":"c2ln+/=="}"#;
const SECOND_CALL: &str = r#"{"functionCall":{"name":"look","args":{}}}"#;
const SIGNED_TEXT: &str = r#"{"text":"","thoughtSignature":"dGV4dA=="}"#;

fn settings(model: &str) -> ModelSettings {
    ModelSettings::new("gemini", model)
}

fn assistant(model: &str, parts: Vec<Part>) -> Message {
    let origin = ModelOrigin { provider: "gemini".into(), api: API.into(), model: model.into() };
    Message { id: "a".into(), role: Role::Assistant, parts, origin: Some(origin) }
}

fn user(parts: Vec<Part>) -> Message {
    Message::user("u", parts)
}

fn call(call_id: &str, name: &str, arguments: &str, native: Option<(&str, Option<&str>)>) -> Part {
    Part::ToolCall(ToolCall {
        call_id: call_id.into(),
        name: name.into(),
        arguments: arguments.into(),
        provider_id: native.and_then(|(_, id)| id).map(str::to_owned),
        native: native.map(|(json, _)| RawJson(json.into())),
    })
}

fn result(call_id: &str, status: ToolStatus, content: Vec<Part>) -> Message {
    let result = ToolResult { call_id: call_id.into(), status, content, truncated: None };
    Message { id: "t".into(), role: Role::Tool, parts: vec![Part::ToolResult(result)], origin: None }
}

fn media(hash: &str, media_type: &str) -> MediaPart {
    let blob = BlobRef { hash: hash.into(), bytes: 3 };
    MediaPart { blob, media_type: media_type.into(), name: None, width: None, height: None }
}

fn image(hash: &str) -> Part {
    Part::Image(media(hash, "image/png"))
}

fn tool(name: &str, schema: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("{name}s"),
        parameters: RawJson(schema.into()),
        read_only: true,
        poll: false,
        source: "builtin".into(),
    }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let media: BTreeMap<_, _> = [("png".to_owned(), Bytes::from_static(b"abc"))].into();
    ModelRequest { system: "be brief".into(), messages, media, ..ModelRequest::default() }
}

/// Two turns of `THIRD` with a turn of another model in between.
fn conversation() -> Vec<Message> {
    let thought = Part::Reasoning(ReasoningPart { text: "hm".into(), native: None });
    let signed = Part::Text(TextPart { text: String::new(), native: Some(RawJson(SIGNED_TEXT.into())) });
    vec![
        user(vec![Part::text("look at "), image("png"), Part::File(media("png", "application/pdf"))]),
        assistant(
            THIRD,
            vec![
                thought.clone(),
                Part::text("I will."),
                signed,
                call("c1", "read", r#"{"n": 1.50,"\u0061":1e3}"#, Some((SIGNED_CALL, Some("fc-1")))),
                call("c2", "look", "{}", Some((SECOND_CALL, None))),
            ],
        ),
        result("c1", ToolStatus::Completed, vec![Part::text("12 lines")]),
        result("c2", ToolStatus::Error, vec![Part::text("half of it"), image("png")]),
        assistant(THIRD, vec![Part::text("Done.")]),
        user(vec![Part::text("and now?")]),
        assistant(
            "another",
            vec![thought, call("c3", "read", r#"{"n": 2.0}"#, Some((SIGNED_CALL, Some("toolu"))))],
        ),
        result("c3", ToolStatus::Interrupted, vec![]),
    ]
}

fn text(request: &ModelRequest, settings: &ModelSettings) -> String {
    String::from_utf8(encode(request, settings, GeminiAdaptations::default()).unwrap().to_vec()).unwrap()
}

fn pretty(request: &ModelRequest, settings: &ModelSettings) -> String {
    let value: Value = serde_json::from_str(&text(request, settings)).unwrap();
    serde_json::to_string_pretty(&value).unwrap()
}

fn contents(model: &str, messages: Vec<Message>) -> Value {
    let body: Value = serde_json::from_str(&text(&request(messages), &settings(model))).unwrap();
    body["contents"].clone()
}

#[test]
fn the_whole_body() {
    let mut request = request(conversation());
    request.tools = vec![tool("read", r#"{"type":"object","properties":{"n":{"type":["number","null"]}}}"#)];
    request.tool_choice = ToolChoice::Required;
    request.max_output_tokens = Some(500);
    let mut third = settings(THIRD);
    third.body.insert("safetySettings".into(), json!([]));
    third.body.insert("generationConfig".into(), json!({"thinkingConfig": {"includeThoughts": true}}));
    insta::assert_snapshot!("third_generation", pretty(&request, &third));
    request.tools.clear();
    request.max_output_tokens = None;
    insta::assert_snapshot!("second_generation", pretty(&request, &settings(SECOND)));
}

#[test]
fn bytes_of_schemas_arguments_and_signatures_stay() {
    let schema = r#"{"type":"object", "b":1e3,"\u0061":1.50}"#;
    let mut request = request(conversation());
    request.tools = vec![tool("read", schema)];
    let body = text(&request, &settings(THIRD));
    for bytes in [schema, SIGNED_CALL, SECOND_CALL, SIGNED_TEXT, r#""args":{"n": 2.0}"#] {
        assert!(body.contains(bytes), "{bytes} in {body}");
    }
}

#[test]
fn a_longer_conversation_begins_with_the_same_bytes() {
    let settings = settings(THIRD);
    let whole = text(&request(conversation()), &settings);
    assert_eq!(whole, text(&request(conversation()), &settings), "equal requests, equal bytes");
    for end in [1, 4, 5, 6] {
        let begun = text(&request(conversation()[..end].to_vec()), &settings);
        let stays = begun.strip_suffix("]}").unwrap();
        assert!(whole.starts_with(stays), "{end} messages: {stays}");
    }
}

/// Any steps of any turns: text, thoughts, and the result of each call.
fn any_conversation() -> impl Strategy<Value = Vec<Message>> {
    let step = (".{0,12}", prop::collection::vec(".{0,12}", 0..3), any::<bool>());
    let turn = (".{1,12}", prop::collection::vec(step, 1..4), prop::sample::select(vec![THIRD, "another"]));
    prop::collection::vec(turn, 1..4).prop_map(|turns| {
        let mut messages = Vec::new();
        for (asked, steps, model) in turns {
            messages.push(user(vec![Part::text(asked), image("png")]));
            for (said, results, signed) in steps {
                let ids: Vec<String> =
                    (0..results.len()).map(|index| format!("c{}-{index}", messages.len())).collect();
                let native = signed.then_some((SIGNED_CALL, Some("fc-1")));
                let calls = ids.iter().map(|id| call(id, "read", "{}", native));
                messages.push(assistant(model, [Part::text(said)].into_iter().chain(calls).collect()));
                let given = ids.iter().zip(results);
                messages.extend(
                    given.map(|(id, given)| result(id, ToolStatus::Completed, vec![Part::text(given)])),
                );
            }
        }
        messages
    })
}

proptest! {
    #[test]
    fn every_conversation_that_goes_on_keeps_its_bytes(messages in any_conversation()) {
        let settings = settings(THIRD);
        let whole = text(&request(messages.clone()), &settings);
        for end in 1..messages.len() {
            if messages[end].role != Role::Tool {
                let begun = text(&request(messages[..end].to_vec()), &settings);
                prop_assert!(whole.starts_with(begun.strip_suffix("]}").unwrap()), "{} messages", end);
            }
        }
    }
}

#[test]
fn a_count_is_asked_with_the_same_fields() {
    let mut request = request(conversation());
    request.tools = vec![tool("read", "{}")];
    request.max_output_tokens = Some(5);
    let counted = String::from_utf8(
        encode_count(&request, &settings(SECOND), GeminiAdaptations::default()).unwrap().to_vec(),
    )
    .unwrap();
    let sent = text(&request, &settings(SECOND));
    let expected =
        format!(r#"{{"generateContentRequest":{{"model":"models/gemini-2.5-flash",{}}}"#, &sent[1..]);
    assert_eq!(counted, expected);
}

#[test]
fn a_choice_of_tools_stands_over_the_configured_one() {
    let mut request = request(vec![user(vec![Part::text("hi")])]);
    request.tools = vec![tool("read", "{}")];
    let mut settings = settings(SECOND);
    let config = |request: &ModelRequest, settings: &ModelSettings| -> Value {
        serde_json::from_str::<Value>(&text(request, settings)).unwrap()["toolConfig"].clone()
    };
    assert_eq!(config(&request, &settings), Value::Null);
    let validated = json!({"functionCallingConfig": {"mode": "VALIDATED"}, "retrievalConfig": {}});
    settings.body.insert("toolConfig".into(), validated.clone());
    assert_eq!(config(&request, &settings), validated);
    for (choice, calling) in [
        (ToolChoice::None, json!({"mode": "NONE"})),
        (ToolChoice::Required, json!({"mode": "ANY"})),
        (ToolChoice::Named("read".into()), json!({"mode": "ANY", "allowedFunctionNames": ["read"]})),
    ] {
        request.tool_choice = choice;
        let found = config(&request, &settings);
        assert_eq!(found, json!({"functionCallingConfig": calling, "retrievalConfig": {}}));
    }
}

#[test]
fn configured_fields_are_over_ours_but_the_conversation_stays() {
    let mut request = request(vec![user(vec![Part::text("hi")])]);
    request.max_output_tokens = Some(10);
    request.tools = vec![tool("read", "{}")];
    let mut settings = settings(SECOND);
    for (name, value) in [
        ("contents", json!([])),
        ("systemInstruction", json!({})),
        ("model", json!("x")),
        ("tools", json!([{"googleSearch": {}}])),
        ("generationConfig", json!({"maxOutputTokens": 99, "temperature": 0})),
    ] {
        settings.body.insert(name.into(), value);
    }
    let expected = concat!(
        r#"{"systemInstruction":{"parts":[{"text":"be brief"}]},"tools":[{"googleSearch":{}}],"#,
        r#""contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":99,"temperature":0}}"#
    );
    assert_eq!(text(&request, &settings), expected);
    settings.body = [("generationConfig".to_owned(), Value::Null)].into_iter().collect();
    assert!(!text(&request, &settings).contains("generationConfig"));
    settings.body.insert("generationConfig".into(), json!({"maxOutputTokens": null}));
    assert!(!text(&request, &settings).contains("generationConfig"));
}

#[test]
fn an_unsigned_first_call_is_marked_where_signatures_are_checked() {
    let calls = || {
        vec![
            user(vec![Part::text("hi")]),
            assistant("another", vec![call("a", "read", "{}", None), call("b", "read", "{}", None)]),
            result("a", ToolStatus::Completed, vec![Part::text("x")]),
            result("b", ToolStatus::Completed, vec![Part::text("y")]),
        ]
    };
    let unsigned = json!({"functionCall": {"name": "read", "args": {}}});
    let mut marked = unsigned.clone();
    marked["thoughtSignature"] = "skip_thought_signature_validator".into();
    assert_eq!(contents(SECOND, calls())[1]["parts"], json!([unsigned, unsigned]));
    for model in [THIRD, "models/gemini-3.1-flash", "gemini-12-x"] {
        assert_eq!(contents(model, calls())[1]["parts"], json!([marked, unsigned]), "{model}");
    }
    assert_eq!(contents("gemma-3-27b-it", calls())[1]["parts"], json!([unsigned, unsigned]));
}

#[test]
fn every_unsigned_call_is_marked_for_a_server_that_has_demanded_signatures() {
    let demanded = GeminiAdaptations { signs_calls: true };
    let signed = call("a", "read", "{}", Some((SIGNED_CALL, Some("fc-1"))));
    let messages = vec![
        user(vec![Part::text("hi")]),
        assistant("gemini-flash-latest", vec![signed, call("b", "look", "{}", None)]),
        result("a", ToolStatus::Completed, vec![Part::text("x")]),
        result("b", ToolStatus::Completed, vec![Part::text("y")]),
    ];
    let body = encode(&request(messages), &settings("gemini-flash-latest"), demanded).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let parts = &body["contents"][1]["parts"];
    assert_eq!(parts[0]["thoughtSignature"], "c2ln+/==", "a signature of the model's own stays");
    assert_eq!(parts[1]["thoughtSignature"], "skip_thought_signature_validator");
}

#[test]
fn what_cannot_be_shown_is_said() {
    let unsupported = json!({"text": "[unsupported content]"});
    let parts = contents(
        SECOND,
        vec![user(vec![
            Part::Image(media("png", "image/gif")),
            Part::Image(media("png", "image/jpg")),
            Part::File(media("png", "application/zip")),
            Part::File(media("png", "text/x-rust")),
            image("lost"),
        ])],
    )[0]["parts"]
        .clone();
    let inline = |kind: &str| json!({"inlineData": {"mimeType": kind, "data": "YWJj"}});
    let expected = [&unsupported, &inline("image/jpeg"), &unsupported, &inline("text/plain"), &unsupported];
    assert_eq!(parts, json!(expected));
}

#[test]
fn nobody_is_given_an_empty_content() {
    let thought =
        Part::Reasoning(ReasoningPart { text: "hm".into(), native: Some(RawJson(SIGNED_TEXT.into())) });
    let messages =
        vec![user(vec![Part::text("hi")]), assistant("another", vec![thought]), user(vec![Part::text("ho")])];
    let expected = json!([
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "user", "parts": [{"text": "ho"}]}
    ]);
    assert_eq!(contents(SECOND, messages), expected);
}

#[test]
fn what_no_request_can_hold_is_refused() {
    let refused = |messages: Vec<Message>| {
        let error = encode(&request(messages), &settings(SECOND), GeminiAdaptations::default()).unwrap_err();
        (error.code, error.message)
    };
    let (code, message) = refused(vec![result("c9", ToolStatus::Completed, vec![])]);
    assert_eq!(
        (code, message.as_str()),
        (ErrorCode::InvalidRequest, "the result of call `c9` has no call before it")
    );
    let (_, message) = refused(vec![assistant(SECOND, vec![call("c1", "x", "[1]", None)])]);
    assert_eq!(message, "the arguments of call `c1` are not a JSON object");
    let mut wrong = request(Vec::new());
    wrong.tools = vec![tool("read", "{")];
    assert_eq!(
        encode(&wrong, &settings(SECOND), GeminiAdaptations::default()).unwrap_err().message,
        "the schema of tool `read` is not JSON"
    );
}
