use std::collections::BTreeMap;

use longhaul_core::message::{
    BlobRef, MediaPart, Message, ModelOrigin, Part, RawJson, ReasoningPart, ToolCall, ToolResult, ToolStatus,
};
use proptest::prelude::*;
use serde_json::json;

use super::super::API;
use super::*;

const NATIVE: &str =
    r#"{"id":"call_ab","function":{"index":0,"name":"read","arguments":{"n": 1.50,"\u0061":1e3}}}"#;

fn settings() -> ModelSettings {
    ModelSettings::new("ollama", "qwen3:4b")
}

fn assistant(model: &str, parts: Vec<Part>) -> Message {
    let origin = ModelOrigin { provider: "ollama".into(), api: API.into(), model: model.into() };
    Message { id: "a".into(), role: Role::Assistant, parts, origin: Some(origin) }
}

fn user(parts: Vec<Part>) -> Message {
    Message::user("u", parts)
}

fn thought(text: &str) -> Part {
    Part::Reasoning(ReasoningPart { text: text.into(), native: None })
}

fn call(call_id: &str, provider_id: Option<&str>, arguments: &str, native: Option<&str>) -> Part {
    Part::ToolCall(ToolCall {
        call_id: call_id.into(),
        name: "read".into(),
        arguments: arguments.into(),
        provider_id: provider_id.map(str::to_owned),
        native: native.map(|json| RawJson(json.into())),
    })
}

fn result(call_id: &str, status: ToolStatus, content: Vec<Part>) -> Message {
    let result = ToolResult { call_id: call_id.into(), status, content, truncated: None };
    Message { id: "t".into(), role: Role::Tool, parts: vec![Part::ToolResult(result)], origin: None }
}

fn image(hash: &str) -> Part {
    let blob = BlobRef { hash: hash.into(), bytes: 3 };
    Part::Image(MediaPart { blob, media_type: "image/png".into(), name: None, width: None, height: None })
}

fn tool(schema: &str) -> ToolSpec {
    ToolSpec {
        name: "read".into(),
        description: "reads".into(),
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

/// A turn of our model, a turn of another model, and an unfinished turn of ours.
fn conversation() -> Vec<Message> {
    vec![
        user(vec![Part::text("look at "), image("png"), Part::text("this")]),
        assistant("qwen3:4b", vec![thought("hm"), Part::text("I see.")]),
        user(vec![Part::text("and now?")]),
        assistant("another", vec![thought("secret"), call("c1", Some("toolu"), r#"{"n": 2.0}"#, Some("{}"))]),
        result("c1", ToolStatus::Error, vec![]),
        assistant(
            "qwen3:4b",
            vec![
                thought("so"),
                call("c2", Some("call_ab"), r#"{"n": 1.50,"\u0061":1e3}"#, Some(NATIVE)),
                call("c3", None, "{}", None),
            ],
        ),
        result("c2", ToolStatus::Completed, vec![Part::text("12 lines")]),
        result("c3", ToolStatus::Completed, vec![image("png"), image("lost")]),
    ]
}

fn text(request: &ModelRequest, settings: &ModelSettings, window: Option<u64>) -> String {
    String::from_utf8(encode(request, settings, window).unwrap().to_vec()).unwrap()
}

fn body(request: &ModelRequest, settings: &ModelSettings, window: Option<u64>) -> Value {
    serde_json::from_str(&text(request, settings, window)).unwrap()
}

#[test]
fn the_whole_body() {
    let mut request = request(conversation());
    request.tools = vec![tool(r#"{"type":"object","properties":{}}"#)];
    request.max_output_tokens = Some(500);
    let mut settings = settings();
    settings.body.insert("think".into(), json!("high"));
    settings.body.insert("options".into(), json!({"temperature": 0}));
    let body = body(&request, &settings, Some(8192));
    insta::assert_snapshot!(serde_json::to_string_pretty(&body).unwrap());
}

#[test]
fn bytes_of_schemas_and_arguments_stay() {
    let schema = r#"{"type":"object", "b":1e3,"\u0061":1.50}"#;
    let mut request = request(conversation());
    request.tools = vec![tool(schema)];
    let body = text(&request, &settings(), None);
    for bytes in [schema, NATIVE, r#""arguments":{"n": 2.0}"#] {
        assert!(body.contains(bytes), "{bytes} in {body}");
    }
}

#[test]
fn a_longer_conversation_begins_with_the_same_bytes() {
    let whole = text(&request(conversation()), &settings(), None);
    assert_eq!(whole, text(&request(conversation()), &settings(), None), "equal requests, equal bytes");
    for end in [3, 5] {
        let begun = text(&request(conversation()[..end].to_vec()), &settings(), None);
        let stays = begun.strip_suffix("]}").unwrap();
        assert!(whole.starts_with(stays), "{end} messages: {stays}");
    }
}

proptest! {
    /// Thinking is left out of earlier turns, so only the steps of the same turn keep their bytes.
    #[test]
    fn every_turn_that_goes_on_keeps_its_bytes(steps in prop::collection::vec((".{0,12}", ".{0,12}", prop::collection::vec(".{0,12}", 1..3)), 1..6)) {
        let mut messages = conversation()[..2].to_vec();
        messages.push(user(vec![Part::text("and now?")]));
        for (said, reasoned, results) in steps {
            let ids: Vec<String> = (0..results.len()).map(|index| format!("c{}-{index}", messages.len())).collect();
            let calls = ids.iter().map(|id| call(id, None, "{}", None));
            let parts = [thought(&reasoned), Part::text(said)].into_iter().chain(calls).collect();
            messages.push(assistant("qwen3:4b", parts));
            let given = ids.iter().zip(results);
            messages.extend(given.map(|(id, given)| result(id, ToolStatus::Completed, vec![Part::text(given)])));
        }
        let whole = text(&request(messages.clone()), &settings(), None);
        for end in 3..messages.len() {
            if messages[end].role == Role::Assistant {
                let begun = text(&request(messages[..end].to_vec()), &settings(), None);
                prop_assert!(whole.starts_with(begun.strip_suffix("]}").unwrap()), "{} messages", end);
            }
        }
    }
}

#[test]
fn nothing_may_be_cut_and_the_window_is_asked_for() {
    let mut request = request(vec![user(vec![Part::text("hi")])]);
    let mut settings = settings();
    let unknown = body(&request, &settings, None);
    assert_eq!((&unknown["truncate"], &unknown["shift"]), (&json!(false), &json!(false)));
    assert_eq!(unknown["options"], Value::Null, "what nobody knows is not asked for");
    assert_eq!(body(&request, &settings, Some(8192))["options"], json!({"num_ctx": 8192}));
    settings.declared.window = Some(20_000);
    request.max_output_tokens = Some(7);
    let declared = json!({"num_ctx": 20_000, "num_predict": 7});
    assert_eq!(body(&request, &settings, Some(8192))["options"], declared);
    settings.body.insert("options".into(), json!({"num_ctx": 9, "num_predict": null, "seed": 1}));
    assert_eq!(body(&request, &settings, Some(8192))["options"], json!({"num_ctx": 9, "seed": 1}));
    settings.body.insert("options".into(), Value::Null);
    settings.body.insert("shift".into(), Value::Null);
    let none = body(&request, &settings, Some(8192));
    assert_eq!((&none["options"], &none["shift"]), (&Value::Null, &Value::Null));
}

#[test]
fn loading_uses_the_options_of_a_call() {
    let mut settings = settings();
    settings.body.insert("keep_alive".into(), json!("30m"));
    settings.body.insert("format".into(), json!("json"));
    let load = encode_load(&settings, Some(8192)).unwrap();
    assert_eq!(
        std::str::from_utf8(&load).unwrap(),
        concat!(
            r#"{"model":"qwen3:4b","keep_alive":"30m","stream":false,"truncate":false,"shift":false,"#,
            r#""messages":[],"options":{"num_ctx":8192}}"#
        )
    );
}

#[test]
fn an_answer_that_was_begun_is_not_thought_about_again() {
    let mut settings = settings();
    settings.body.insert("think".into(), json!(true));
    let asked = vec![user(vec![Part::text("hi")])];
    assert_eq!(body(&request(asked.clone()), &settings, None)["think"], json!(true));
    let begun = [asked, vec![assistant("qwen3:4b", vec![Part::text("Well, ")])]].concat();
    assert_eq!(body(&request(begun), &settings, None)["think"], json!(false));
}

#[test]
fn no_tools_are_shown_to_a_model_that_must_not_call_any() {
    let mut request = request(vec![user(vec![Part::text("hi")])]);
    request.tools = vec![tool("{}")];
    request.tool_choice = ToolChoice::None;
    assert_eq!(body(&request, &settings(), None)["tools"], Value::Null);
    for choice in [ToolChoice::Required, ToolChoice::Named("read".into())] {
        request.tool_choice = choice;
        assert_eq!(encode(&request, &settings(), None).unwrap_err().code, ErrorCode::InvalidRequest);
    }
}

#[test]
fn the_conversation_cannot_be_replaced() {
    let mut settings = settings();
    for (name, value) in [("messages", json!([])), ("model", json!("x")), ("stream", json!(false))] {
        settings.body.insert(name.into(), value);
    }
    let body = text(&request(vec![user(vec![Part::text("hi")])]), &settings, None);
    assert_eq!(
        body,
        concat!(
            r#"{"model":"qwen3:4b","stream":true,"truncate":false,"shift":false,"messages":"#,
            r#"[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]}"#
        )
    );
}

#[test]
fn what_no_request_can_hold_is_refused() {
    let refused = |messages: Vec<Message>| encode(&request(messages), &settings(), None).unwrap_err().message;
    let lone = refused(vec![result("c9", ToolStatus::Completed, vec![])]);
    assert_eq!(lone, "the result of call `c9` has no call before it");
    let odd = refused(vec![assistant("qwen3:4b", vec![call("c1", None, "[1]", None)])]);
    assert_eq!(odd, "the arguments of call `c1` are not a JSON object");
    let mut wrong = request(Vec::new());
    wrong.tools = vec![tool("{")];
    assert_eq!(
        encode(&wrong, &settings(), None).unwrap_err().message,
        "the schema of tool `read` is not JSON"
    );
}
