use longhaul_core::message::{
    BlobRef, MediaPart, Message, OpaquePart, Part, RawJson, ReasoningPart, Role, TextPart, ToolCall,
    ToolResult, ToolSpec, ToolStatus,
};

use super::*;

fn settings() -> ModelSettings {
    ModelSettings::new("openai", "gpt-5")
}

fn own() -> ModelOrigin {
    origin(&settings())
}

fn foreign() -> ModelOrigin {
    ModelOrigin { provider: "anthropic".into(), api: "anthropic-messages".into(), model: "claude".into() }
}

fn user(text: &str) -> Message {
    Message::user("u", vec![Part::text(text)])
}

fn assistant(parts: Vec<Part>, origin: ModelOrigin) -> Message {
    Message { id: "a".into(), role: Role::Assistant, parts, origin: Some(origin) }
}

fn native(json: &str) -> Option<RawJson> {
    Some(RawJson(json.to_owned()))
}

// The escape and the number show that an item keeps its bytes.
const REASONING: &str =
    r#"{"id":"rs_1","type":"reasoning","encrypted_content":"gAAA\u003d","summary":[], "n":1.50}"#;
const SUMMARY: &str = r#"{"id":"rs_2","type":"reasoning","summary":[{"type":"summary_text","text":"One"}]}"#;
// A server of an open model sends the reasoning itself, and leaves the encrypted field empty.
const READABLE: &str = r#"{"id":"rs_3","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":""}"#;
const SAID: &str = r#"{"id":"msg_1","type":"message","role":"assistant","status":"completed","phase":"commentary","content":[{"type":"output_text","text":"Hi"}]}"#;
const CALL: &str =
    r#"{"id":"fc_1","type":"function_call","arguments":"{\"n\": 1.50}","call_id":"call_1","name":"read"}"#;
const CUSTOM: &str =
    r#"{"id":"ct_1","type":"custom_tool_call","call_id":"call_2","name":"patch","input":"***"}"#;
const SEARCH: &str = r#"{"id":"ws_1","type":"web_search_call","status":"completed","action":{"q":"x"}}"#;

fn thought(json: &str) -> Part {
    Part::Reasoning(ReasoningPart { text: String::new(), native: native(json) })
}

fn text(json: &str) -> Part {
    Part::Text(TextPart { text: "Hi".into(), native: native(json) })
}

fn call(id: &str, provider_id: &str, json: Option<&str>) -> Part {
    Part::ToolCall(ToolCall {
        call_id: id.into(),
        name: "read".into(),
        arguments: r#"{"n": 1.50}"#.into(),
        provider_id: Some(provider_id.into()),
        native: json.and_then(native),
    })
}

fn result(id: &str, status: ToolStatus, content: Vec<Part>) -> Message {
    let result = ToolResult { call_id: id.into(), status, content, truncated: None };
    Message { id: "t".into(), role: Role::Tool, parts: vec![Part::ToolResult(result)], origin: None }
}

fn media(hash: &str, media_type: &str, name: Option<&str>) -> MediaPart {
    let blob = BlobRef { hash: hash.into(), bytes: 3 };
    MediaPart {
        blob,
        media_type: media_type.into(),
        name: name.map(str::to_owned),
        width: None,
        height: None,
    }
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: "reads".into(),
        parameters: RawJson(r#"{"type":"object", "b":1e3}"#.into()),
        read_only: true,
        poll: false,
        source: "builtin".into(),
    }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let media = [("png".to_owned(), Bytes::from_static(b"abc"))];
    let media = media.into_iter().chain([("pdf".to_owned(), Bytes::from_static(b"def"))]).collect();
    ModelRequest { system: "be brief".into(), messages, media, ..ModelRequest::default() }
}

fn sent(messages: Vec<Message>) -> String {
    String::from_utf8(encode(&request(messages), &settings()).unwrap().to_vec()).unwrap()
}

fn body(request: &ModelRequest, settings: &ModelSettings) -> Value {
    serde_json::from_slice(&encode(request, settings).unwrap()).unwrap()
}

fn input(messages: Vec<Message>) -> Vec<Value> {
    body(&request(messages), &settings())["input"].as_array().unwrap().clone()
}

#[test]
fn the_whole_body_in_its_order() {
    let mut request = request(vec![user("hi")]);
    request.max_output_tokens = Some(100);
    request.tools = vec![tool("read")];
    request.tool_choice = ToolChoice::Named("read".into());
    let mut settings = settings();
    settings.body.insert("reasoning".into(), json!({"effort": "low"}));
    let bytes = encode(&request, &settings).unwrap();
    assert_eq!(
        std::str::from_utf8(&bytes).unwrap(),
        concat!(
            r#"{"model":"gpt-5","reasoning":{"effort":"low"},"tools":[{"type":"function","name":"read","#,
            r#""description":"reads","parameters":{"type":"object", "b":1e3},"strict":false}],"stream":true,"#,
            r#""store":false,"include":["reasoning.encrypted_content"],"instructions":"be brief","#,
            r#""input":[{"type":"message","role":"user","content":"hi"}],"#,
            r#""tool_choice":{"type":"function","name":"read"},"max_output_tokens":100}"#,
        )
    );
    assert_eq!(encode(&request, &settings).unwrap(), bytes, "equal requests, equal bytes");
    let counted = countable(&bytes).unwrap();
    assert_eq!(
        std::str::from_utf8(&counted).unwrap(),
        concat!(
            r#"{"model":"gpt-5","reasoning":{"effort":"low"},"tools":[{"type":"function","name":"read","#,
            r#""description":"reads","parameters":{"type":"object", "b":1e3},"strict":false}],"#,
            r#""instructions":"be brief","input":[{"type":"message","role":"user","content":"hi"}],"#,
            r#""tool_choice":{"type":"function","name":"read"}}"#,
        )
    );
}

#[test]
fn a_longer_conversation_begins_with_the_same_bytes() {
    let mut list = vec![
        user("look"),
        assistant(vec![thought(REASONING), call("c1", "call_1", Some(CALL))], own()),
        result("c1", ToolStatus::Completed, vec![Part::Image(media("png", "image/png", None))]),
    ];
    let short = sent(list.clone());
    list.push(assistant(vec![Part::text("seen")], own()));
    list.push(user("go on"));
    let long = sent(list);
    assert_eq!(short[..short.len() - "]}".len()], long[..short.len() - "]}".len()]);
}

#[test]
fn own_items_go_back_byte_for_byte_and_in_order() {
    let search = Part::Opaque(OpaquePart { kind: "web_search_call".into(), native: RawJson(SEARCH.into()) });
    let parts = vec![
        thought(REASONING),
        search,
        text(SAID),
        call("c1", "call_1", Some(CALL)),
        call("c2", "call_2", Some(CUSTOM)),
    ];
    let list = vec![
        user("x"),
        assistant(parts, own()),
        result("c1", ToolStatus::Completed, vec![Part::text("one")]),
        result("c2", ToolStatus::Completed, vec![Part::text("two")]),
    ];
    let expected = [
        r#"{"type":"message","role":"user","content":"x"}"#,
        REASONING,
        SEARCH,
        SAID,
        CALL,
        CUSTOM,
        r#"{"type":"function_call_output","call_id":"call_1","output":"one"}"#,
        r#"{"type":"custom_tool_call_output","call_id":"call_2","output":"two"}"#,
    ];
    let bytes = sent(list.clone());
    assert!(bytes.contains(&format!(r#""input":[{}]"#, expected.join(","))), "{bytes}");
    let mut foreign = list;
    foreign[1].origin = Some(self::foreign());
    // Another provider's model gets no reasoning and no search, and custom calls become function calls.
    let items = input(foreign);
    assert_eq!(items.len(), 6, "no reasoning, no search: {items:?}");
    assert_eq!(items[1], json!({"type": "message", "role": "assistant", "content": "Hi"}));
    assert_eq!((&items[2]["type"], &items[2]["call_id"]), (&json!("function_call"), &json!("c1")));
    assert_eq!(
        (&items[3]["type"], &items[5]["type"]),
        (&json!("function_call"), &json!("function_call_output"))
    );
}

#[test]
fn reasoning_that_was_not_stored_stays_behind_with_the_ids_beside_it() {
    let parts = vec![thought(SUMMARY), text(SAID), call("c1", "call_1", Some(CALL))];
    let list = vec![user("x"), assistant(parts, own()), result("c1", ToolStatus::Completed, vec![])];
    let items = input(list.clone());
    assert_eq!(items.len(), 4);
    assert!(items[1].get("id").is_none() && items[2].get("id").is_none(), "{items:?}");
    assert!(sent(list.clone()).contains(&CALL.replace(r#""id":"fc_1","#, "")), "its other bytes stay");

    let mut storing = settings();
    storing.body.insert("store".into(), json!(true));
    let body = body(&request(list), &storing);
    assert_eq!((&body["store"], body.get("include")), (&json!(true), None));
    assert_eq!(body["input"][1]["id"], "rs_2", "a provider that keeps it knows it by its id");

    let readable = vec![user("x"), assistant(vec![thought(READABLE), text(SAID)], own())];
    assert!(sent(readable).contains(READABLE), "an open model's reasoning holds itself");
}

#[test]
fn reasoning_that_nothing_follows_is_left_out() {
    // OpenAI refuses reasoning without an item behind it.
    let list = vec![user("x"), assistant(vec![text(SAID), thought(REASONING)], own()), user("go on")];
    assert_eq!(input(list).len(), 3);
    let list = vec![user("x"), assistant(vec![thought(REASONING)], own()), user("go on")];
    assert_eq!(input(list).len(), 2);
}

#[test]
fn repeated_ids_become_ours_in_call_and_result() {
    let list = vec![
        user("x"),
        assistant(vec![call("c1", "call_1", Some(CALL))], own()),
        result("c1", ToolStatus::Completed, vec![Part::text("one")]),
        // An id that is used twice, and an id that is one byte too long for OpenAI.
        assistant(vec![call("c2", "call_1", Some(CALL)), call("c3", &"x".repeat(65), None)], own()),
        result("c2", ToolStatus::Completed, vec![Part::text("two")]),
        result("c3", ToolStatus::Cancelled, vec![]),
    ];
    let items = input(list);
    let ids: Vec<&str> = items.iter().filter_map(|item| item["call_id"].as_str()).collect();
    assert_eq!(ids, ["call_1", "call_1", "c2", "c3", "c2", "c3"]);
    assert_eq!((&items[3]["id"], &items[3]["arguments"]), (&json!("fc_1"), &json!(r#"{"n": 1.50}"#)));
    assert_eq!(items[6]["output"], "[cancelled]");
}

#[test]
fn images_and_files_go_where_they_were_given() {
    let png = || Part::Image(media("png", "image/png", None));
    let pdf = Part::File(media("pdf", "application/pdf", Some("a.pdf")));
    let given =
        vec![Part::text("a"), Part::text("b"), png(), pdf, Part::Image(media("gone", "image/png", None))];
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,YWJj"});
    let file =
        json!({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,ZGVm"});
    let words = |text: &str| json!({"type": "input_text", "text": text});
    let items = input(vec![
        Message::user("u", given),
        assistant(vec![call("c1", "call_1", Some(CALL))], own()),
        result("c1", ToolStatus::Completed, vec![png(), Part::text("seen")]),
        result("c1", ToolStatus::Completed, vec![]),
    ]);
    assert_eq!(items[0]["content"], json!([words("ab"), image, file, words("[unsupported content]")]));
    assert_eq!(items[2]["output"], json!([image, words("seen")]));
    assert_eq!(items[3]["output"], "");
}

#[test]
fn built_in_tools_stand_beside_ours() {
    let mut settings = settings();
    settings.body.insert("tools".into(), json!([{"type": "web_search"}]));
    settings.body.insert("include".into(), json!(["web_search_call.action.sources"]));
    let mut request = request(vec![user("x")]);
    request.tools = vec![tool("read")];
    let body = body(&request, &settings);
    assert_eq!(
        (&body["tools"][0]["type"], &body["tools"][1]["name"]),
        (&json!("web_search"), &json!("read"))
    );
    assert_eq!(body["include"], json!(["web_search_call.action.sources", "reasoning.encrypted_content"]));
}

#[test]
fn only_models_that_reason_are_asked_for_their_reasoning() {
    for (model, asked) in [
        ("gpt-5", true),
        ("gpt-5.1-codex", true),
        ("o4-mini", true),
        ("openai/o3", true),
        ("grok-4", true),
        ("gpt-4o", false),
        ("openai/gpt-4.1-mini", false),
        ("ft:gpt-4o-mini:me::1", false),
        // OpenAI refuses a request for encrypted reasoning from a model that does not reason.
        ("chatgpt-4o-latest", false),
        ("gpt-5-chat-latest", false),
    ] {
        let body = body(&request(vec![user("x")]), &ModelSettings::new("openai", model));
        assert_eq!(body.get("include").is_some(), asked, "{model}");
    }
    let mut silent = settings();
    silent.body.insert("include".into(), Value::Null);
    assert!(body(&request(vec![user("x")]), &silent).get("include").is_none());
}

#[test]
fn a_tool_may_be_asked_for() {
    let mut request = request(vec![user("x")]);
    request.tool_choice = ToolChoice::Required;
    assert!(body(&request, &settings()).get("tool_choice").is_none(), "there is none to choose");
    request.tools = vec![tool("a")];
    for (choice, expected) in [
        (ToolChoice::Auto, Value::Null),
        (ToolChoice::None, json!("none")),
        (ToolChoice::Required, json!("required")),
        (ToolChoice::Named("a".into()), json!({"type": "function", "name": "a"})),
    ] {
        request.tool_choice = choice;
        assert_eq!(body(&request, &settings())["tool_choice"], expected);
    }
}

#[test]
fn the_least_output_limit_is_what_the_provider_takes() {
    let mut request = request(vec![user("x")]);
    request.max_output_tokens = Some(3);
    assert_eq!(body(&request, &settings())["max_output_tokens"], 16);
}

#[test]
fn what_cannot_be_expressed_is_refused() {
    let code = |messages: Vec<Message>| encode(&request(messages), &settings()).unwrap_err().code;
    let invalid = longhaul_core::error::ErrorCode::InvalidRequest;
    assert_eq!(code(vec![user("x"), result("c9", ToolStatus::Completed, vec![])]), invalid);
    let picture = assistant(vec![Part::Image(media("png", "image/png", None))], own());
    assert_eq!(code(vec![user("x"), picture]), invalid);
    let mut odd = request(vec![user("x")]);
    odd.tools = vec![ToolSpec { parameters: RawJson("{".into()), ..tool("odd") }];
    assert!(encode(&odd, &settings()).unwrap_err().message.contains("`odd`"));
}

/// Everything a conversation may hold.
#[test]
fn a_whole_conversation() {
    let png = || Part::Image(media("png", "image/png", None));
    let pdf = Part::File(media("pdf", "application/pdf", Some("a.pdf")));
    let search = Part::Opaque(OpaquePart { kind: "web_search_call".into(), native: RawJson(SEARCH.into()) });
    let thoughts = vec![
        thought(REASONING),
        search,
        text(SAID),
        call("c1", "call_1", Some(CALL)),
        call("c2", "call_2", Some(CUSTOM)),
    ];
    let mut request = request(vec![
        Message::user("u", vec![Part::text("look at "), png(), pdf, Part::text("please")]),
        assistant(thoughts, own()),
        result("c1", ToolStatus::Completed, vec![Part::text("seen"), png()]),
        result("c2", ToolStatus::Cancelled, vec![]),
        user("and now?"),
        assistant(
            vec![thought(REASONING), Part::text("Foreign words."), call("c3", "toolu_1", None)],
            foreign(),
        ),
        result("c3", ToolStatus::Error, vec![Part::text("no such file")]),
        user("go on"),
    ]);
    request.tools = vec![tool("read")];
    request.max_output_tokens = Some(100);
    insta::assert_snapshot!(serde_json::to_string_pretty(&body(&request, &settings())).unwrap());
}

#[test]
fn a_cache_key_goes_to_servers_that_take_one_and_gives_way_to_a_configured_one() {
    let request = ModelRequest {
        messages: vec![user("hi")],
        cache_key: Some("session".to_owned()),
        ..ModelRequest::default()
    };
    let sent = |settings: &ModelSettings| {
        let body: Value = serde_json::from_slice(&encode(&request, settings).unwrap()).unwrap();
        body["prompt_cache_key"].clone()
    };
    assert_eq!(sent(&settings()), Value::Null);
    let mut taking = ModelSettings { takes_cache_key: true, ..settings() };
    assert_eq!(sent(&taking), "session");
    taking.body.insert("prompt_cache_key".to_owned(), "mine".into());
    assert_eq!(sent(&taking), "mine");
}

#[test]
fn the_form_that_a_server_demands() {
    let native = r#"{"id":"rs_1","type":"reasoning","encrypted_content":"e","summary":[]}"#;
    let reasoning =
        Part::Reasoning(ReasoningPart { text: String::new(), native: Some(RawJson(native.to_owned())) });
    let said = Part::text("said");
    let origin = ModelOrigin {
        provider: settings().provider.clone(),
        api: API.to_owned(),
        model: settings().model.clone(),
    };
    let answer =
        Message { id: "a".into(), role: Role::Assistant, parts: vec![reasoning, said], origin: Some(origin) };
    let mut request = request(vec![
        Message::user("u", vec![Part::text("hi")]),
        answer,
        Message::user("u2", vec![Part::text("on")]),
    ]);
    request.tools = vec![tool("read")];
    let plain = String::from_utf8(encode(&request, &settings()).unwrap().to_vec()).unwrap();
    assert!(plain.contains(native) && plain.contains("\"strict\":false"), "{plain}");
    let demanded = ResponsesAdaptations { omits_reasoning: true, omits_strict: true };
    let bytes = encode_adapted(&request, &settings(), demanded).unwrap();
    let adapted = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(
        !adapted.contains("rs_1") && !adapted.contains("strict") && adapted.contains("said"),
        "{adapted}"
    );
}
