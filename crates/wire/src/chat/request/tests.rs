use bytes::Bytes;
use longhaul_core::message::{
    BlobRef, MediaPart, Message, ModelOrigin, OpaquePart, Part, RawJson, ReasoningPart, Role, ToolCall,
    ToolResult, ToolSpec, ToolStatus,
};
use serde_json::{Value, json};

use super::super::family::ReasoningReplay;
use super::super::{API, RequestAdaptations};
use super::*;

fn settings() -> ModelSettings {
    ModelSettings::new("openai-compatible", "qwen")
}

const PLAIN: &ServerFamily = &ServerFamily::COMPATIBLE;

fn own() -> ModelOrigin {
    ModelOrigin { provider: "openai-compatible".into(), api: API.into(), model: "qwen".into() }
}

fn foreign() -> ModelOrigin {
    ModelOrigin { provider: "anthropic".into(), api: "anthropic".into(), model: "claude".into() }
}

fn user(text: &str) -> Message {
    Message::user("u", vec![Part::text(text)])
}

fn assistant(parts: Vec<Part>, origin: ModelOrigin) -> Message {
    Message { id: "a".into(), role: Role::Assistant, parts, origin: Some(origin) }
}

fn call(call_id: &str, provider_id: Option<&str>, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        call_id: call_id.into(),
        name: "read".into(),
        arguments: arguments.into(),
        provider_id: provider_id.map(str::to_owned),
        native: None,
    })
}

fn result(call_id: &str, content: Vec<Part>) -> Message {
    let result =
        ToolResult { call_id: call_id.into(), status: ToolStatus::Completed, content, truncated: None };
    Message { id: "t".into(), role: Role::Tool, parts: vec![Part::ToolResult(result)], origin: None }
}

fn image(hash: &str) -> Part {
    let blob = BlobRef { hash: hash.into(), bytes: 3 };
    Part::Image(MediaPart { blob, media_type: "image/png".into(), name: None, width: None, height: None })
}

fn reasoning(text: &str, native: Option<&str>) -> Part {
    Part::Reasoning(ReasoningPart { text: text.into(), native: native.map(|json| RawJson(json.into())) })
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let media = [("png".to_owned(), Bytes::from_static(b"abc"))].into();
    ModelRequest { system: "be brief".into(), messages, media, ..ModelRequest::default() }
}

fn body_for(family: &ServerFamily, request: &ModelRequest) -> Value {
    serde_json::from_slice(&encode(request, &settings(), family).unwrap()).unwrap()
}

fn messages_for(family: &ServerFamily, list: Vec<Message>) -> Vec<Value> {
    body_for(family, &request(list))["messages"].as_array().unwrap().clone()
}

fn messages(list: Vec<Message>) -> Vec<Value> {
    messages_for(PLAIN, list)
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: "reads".into(),
        // The blank, the number and the order of the fields show that a schema keeps its bytes.
        parameters: RawJson(r#"{"type":"object", "b":1e3,"a":1}"#.into()),
        read_only: true,
        poll: false,
        source: "builtin".into(),
    }
}

#[test]
fn the_whole_body_in_its_order() {
    let mut request = request(vec![user("hi")]);
    request.max_output_tokens = Some(100);
    request.tools = vec![tool("read")];
    request.tool_choice = ToolChoice::Named("read".into());
    let mut settings = settings();
    settings.body.insert("temperature".into(), json!(0));
    let bytes = encode(&request, &settings, PLAIN).unwrap();
    assert_eq!(
        std::str::from_utf8(&bytes).unwrap(),
        concat!(
            r#"{"model":"qwen","temperature":0,"tools":[{"type":"function","function":{"name":"read","description":"#,
            r#""reads","parameters":{"type":"object", "b":1e3,"a":1}}}],"stream":true,"stream_options":"#,
            r#"{"include_usage":true},"messages":[{"role":"system","content":"be brief"},{"role":"user","#,
            r#""content":"hi"}],"tool_choice":{"type":"function","function":{"name":"read"}},"max_tokens":100}"#
        )
    );
    assert_eq!(encode(&request, &settings, PLAIN).unwrap(), bytes, "equal requests, equal bytes");
}

#[test]
fn a_longer_conversation_begins_with_the_same_bytes() {
    let mut list = vec![
        user("look"),
        assistant(vec![call("c1", Some("x"), "{ }"), call("c2", Some("x"), "{}")], own()),
        result("c1", vec![image("png")]),
        result("c2", vec![Part::text("two")]),
    ];
    let short = encode(&request(list.clone()), &settings(), PLAIN).unwrap();
    list.push(assistant(vec![Part::text("seen")], own()));
    list.push(user("go on"));
    let long = encode(&request(list), &settings(), PLAIN).unwrap();
    // The short request ends with the brackets of the list and of the body, and the longer list goes on before them.
    let end = short.len() - "]}".len();
    assert_eq!(short[..end], long[..end]);
}

#[test]
fn the_form_that_a_server_demands() {
    let call = assistant(vec![call("c", Some("p"), "{}")], own());
    let demanded = RequestAdaptations {
        replays_tool_turns: true,
        system_in_user: true,
        content_is_text: true,
        answers_whole: true,
        signs_calls: true,
    };
    let mut asked = request(vec![user("hi"), call, result("c", vec![Part::text("data")])]);
    asked.system = "Be brief.".into();
    let bytes = encode(&asked, &settings(), &demanded.apply(*PLAIN)).unwrap();
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[0], json!({ "role": "user", "content": "Be brief.\n\nhi" }));
    assert_eq!((&messages[1]["content"], &messages[1]["reasoning_content"]), (&json!(""), &json!("")));
    let signature = &messages[1]["tool_calls"][0]["extra_content"]["google"]["thought_signature"];
    assert_eq!(signature, "skip_thought_signature_validator");
    assert_eq!((&body["stream"], body.get("stream_options")), (&json!(false), None));
}

#[test]
fn configured_fields_win_and_null_removes() {
    let mut settings = settings();
    settings.body.insert("stream_options".into(), Value::Null);
    settings.body.insert("max_completion_tokens".into(), json!(7));
    // The conversation is the only field that a configuration cannot replace.
    settings.body.insert("messages".into(), json!("mine"));
    settings.body.insert("stream".into(), json!(false));
    let mut request = request(vec![user("hi")]);
    request.max_output_tokens = Some(100);
    let bytes = encode(&request, &settings, &ServerFamily::OPENAI).unwrap();
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(body["max_completion_tokens"], 7);
    assert_eq!(body["stream"], false, "for servers that cannot stream");
    assert!(body.get("stream_options").is_none() && body.get("max_tokens").is_none());
    assert!(body["messages"].is_array());
}

#[test]
fn text_alone_is_a_string_and_images_make_a_list() {
    let list = messages(vec![Message::user("u", vec![Part::text("a"), Part::text("b")])]);
    assert_eq!(list[1], json!({"role": "user", "content": "ab"}));
    let list = messages(vec![Message::user("u", vec![Part::text("see"), image("png"), image("missing")])]);
    let url = "data:image/png;base64,YWJj";
    assert_eq!(
        list[1]["content"],
        json!([{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}},
               {"type": "text", "text": "[unsupported content]"}])
    );
}

#[test]
fn arguments_keep_their_bytes() {
    // A repeated key, odd blanks and an escape: a parse and a second writing would change all three.
    let odd = "{ \"a\" : 1.0,\n\t\"a\":\"\\u00e9\" }";
    let list = messages(vec![user("x"), assistant(vec![call("c1", Some("p1"), odd)], own())]);
    let expected = json!([{"id": "p1", "type": "function", "function": {"name": "read", "arguments": odd}}]);
    assert_eq!(list[2], json!({"role": "assistant", "content": null, "tool_calls": expected}));
}

#[test]
fn arguments_that_are_no_json_stay_readable_without_breaking_the_request() {
    for (written, sent) in [("", "{}"), ("{\"a\":", r#"{"invalid_json":"{\"a\":"}"#)] {
        let list = messages(vec![user("x"), assistant(vec![call("c1", None, written)], own())]);
        assert_eq!(list[2]["tool_calls"][0]["function"]["arguments"], sent);
        assert_eq!(list[2]["tool_calls"][0]["id"], "c1");
    }
}

#[test]
fn repeated_ids_of_a_server_become_ours_in_call_and_result() {
    let list = messages(vec![
        user("x"),
        assistant(vec![call("c1", Some("same"), "{}")], own()),
        result("c1", vec![Part::text("one")]),
        // Local servers repeat an id in the next answer, or give none.
        assistant(vec![call("c2", Some("same"), "{}"), call("c3", Some(""), "{}")], own()),
        result("c2", vec![Part::text("two")]),
        result("c3", vec![]),
    ]);
    assert_eq!(list[2]["tool_calls"][0]["id"], "same");
    assert_eq!(list[3], json!({"role": "tool", "tool_call_id": "same", "content": "one"}));
    assert_eq!(
        (&list[4]["tool_calls"][0]["id"], &list[4]["tool_calls"][1]["id"]),
        (&json!("c2"), &json!("c3"))
    );
    assert_eq!(list[5]["tool_call_id"], "c2");
    assert_eq!(list[6], json!({"role": "tool", "tool_call_id": "c3", "content": ""}));
}

#[test]
fn a_result_without_call_is_refused() {
    let error = encode(&request(vec![user("x"), result("c9", vec![])]), &settings(), PLAIN).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidRequest);
    assert!(error.message.contains("c9"));
}

#[test]
fn images_of_tools_follow_after_the_last_result_and_join_the_next_user_message() {
    let list = messages(vec![
        user("x"),
        assistant(vec![call("c1", None, "{}"), call("c2", None, "{}")], own()),
        result("c1", vec![Part::text("a"), image("png")]),
        result("c2", vec![image("missing")]),
        user("and?"),
    ]);
    assert_eq!(list[3]["content"], "a[the image follows in the next user message]");
    assert_eq!(list[4]["content"], "[unsupported content]");
    assert_eq!(list[5]["role"], "user");
    assert_eq!(list[5]["content"][0]["text"], "Image given by tool call c1 (read):");
    assert_eq!(list[5]["content"][1]["type"], "image_url");
    assert_eq!(list[5]["content"][2]["text"], "and?");
    assert_eq!(list.len(), 6);
}

#[test]
fn plain_reasoning_goes_back_to_its_own_model_as_its_server_wants_it() {
    let turn = |text: &str, origin: ModelOrigin| {
        [assistant(vec![reasoning(text, None), call(text, None, "{}")], origin), result(text, vec![])]
    };
    let list: Vec<Message> = [user("1")]
        .into_iter()
        .chain(turn("old", own()))
        .chain([assistant(vec![reasoning("end", None), Part::text("a")], own()), user("2")])
        .chain([assistant(vec![reasoning("lone", None), Part::text("b")], own()), user("3")])
        .chain(turn("foreign", foreign()))
        .chain(turn("new", own()))
        .collect();
    let sent = |replay: ReasoningReplay| {
        let list = messages_for(&ServerFamily { replay, ..ServerFamily::COMPATIBLE }, list.clone());
        list.iter().filter_map(|message| message.get("reasoning_content").cloned()).collect::<Vec<_>>()
    };
    assert_eq!(sent(ReasoningReplay::Never), Vec::<Value>::new());
    assert_eq!(sent(ReasoningReplay::Turn), [json!("new")]);
    assert_eq!(sent(ReasoningReplay::ToolTurns), [json!("old"), json!("end"), json!(""), json!("new")]);
    assert_eq!(sent(ReasoningReplay::Always), [json!("old"), json!("end"), json!("lone"), json!("new")]);
}

#[test]
fn proof_goes_back_to_the_model_that_gave_it_only() {
    let signed = r#"{"reasoning_details":[{"type":"reasoning.text","text":"t","signature":"s","n":1.50}]}"#;
    let unsigned = r#"{"reasoning_details":[{"type":"reasoning.text","text":"t"}]}"#;
    let sent = |native: &str, origin: ModelOrigin, family: &ServerFamily| {
        let message = assistant(vec![reasoning("t", Some(native)), Part::text("a")], origin);
        let bytes = encode(&request(vec![user("x"), message]), &settings(), family).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let field = |details: &str| details[1..details.len() - 1].to_owned();
    assert!(sent(signed, own(), PLAIN).contains(&field(signed)));
    assert!(sent(unsigned, own(), &ServerFamily::OPENROUTER).contains(&field(unsigned)));
    assert!(!sent(unsigned, own(), PLAIN).contains("reasoning"));
    assert!(!sent(signed, foreign(), &ServerFamily::OPENROUTER).contains("reasoning"));
}

#[test]
fn a_signed_call_goes_back_signed_to_its_own_model() {
    let signed = |origin: ModelOrigin| {
        let mut part = call("c1", None, "{}");
        if let Part::ToolCall(call) = &mut part {
            call.native = Some(RawJson(r#"{"extra_content":{"google":{"thought_signature":"abc"}}}"#.into()));
        }
        messages(vec![user("x"), assistant(vec![part], origin)])[2]["tool_calls"][0].clone()
    };
    assert_eq!(signed(own())["extra_content"]["google"]["thought_signature"], "abc");
    assert!(signed(foreign()).get("extra_content").is_none());
}

#[test]
fn blocks_of_other_wires_are_left_out_unless_nothing_else_is_there() {
    let opaque = || Part::Opaque(OpaquePart { kind: "server_tool_use".into(), native: RawJson("{}".into()) });
    let list = messages(vec![
        user("x"),
        assistant(vec![opaque(), Part::text("done")], foreign()),
        user("y"),
        assistant(vec![opaque()], foreign()),
        Message::user("u", vec![opaque()]),
    ]);
    let contents: Vec<_> = list.iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(contents, ["be brief", "x", "done", "y", "[unsupported content]", "[unsupported content]"]);
}

#[test]
fn a_schema_that_is_no_json_is_refused_by_name() {
    let mut request = request(vec![user("x")]);
    request.tools = vec![ToolSpec { parameters: RawJson("{".into()), ..tool("odd") }];
    let error = encode(&request, &settings(), PLAIN).unwrap_err();
    assert!(error.message.contains("`odd`"), "{error}");
}

#[test]
fn a_tool_may_be_asked_for() {
    let mut request = request(vec![user("x")]);
    request.tool_choice = ToolChoice::Required;
    assert!(body_for(PLAIN, &request).get("tool_choice").is_none(), "there is none to choose");
    request.tools = vec![tool("a"), tool("b")];
    for (choice, expected) in [
        (ToolChoice::Auto, Value::Null),
        (ToolChoice::None, json!("none")),
        (ToolChoice::Required, json!("required")),
        (ToolChoice::Named("b".into()), json!({"type": "function", "function": {"name": "b"}})),
    ] {
        request.tool_choice = choice;
        let body = body_for(PLAIN, &request);
        assert_eq!((&body["tool_choice"], body["tools"].as_array().unwrap().len()), (&expected, 2));
    }
}

fn file(hash: &str) -> Part {
    let Part::Image(media) = image(hash) else { unreachable!() };
    Part::File(MediaPart { media_type: "application/pdf".into(), name: Some("a.pdf".into()), ..media })
}

/// Everything a conversation may hold, in the forms of three families.
#[test]
fn a_whole_conversation() {
    let failed =
        ToolResult { call_id: "c2".into(), status: ToolStatus::Cancelled, content: vec![], truncated: None };
    let mut request = request(vec![
        Message::user("u", vec![Part::text("look at "), image("png"), file("png"), Part::text("please")]),
        assistant(
            vec![
                reasoning("hm", None),
                Part::text("I look."),
                call("c1", Some("call_1"), r#"{"path": "a", "n": 1.50}"#),
                call("c2", Some("call_2"), ""),
            ],
            own(),
        ),
        result("c1", vec![Part::text("seen"), image("png")]),
        Message { parts: vec![Part::ToolResult(failed)], ..result("c2", vec![]) },
        user("and now?"),
        assistant(vec![reasoning("mine alone", None), Part::text("Foreign words.")], foreign()),
        user("go on"),
    ]);
    request.tools = vec![tool("read")];
    request.max_output_tokens = Some(100);
    // The default row, the row with the most exceptions, and a local server.
    for family in [&ServerFamily::COMPATIBLE, &ServerFamily::MISTRAL, &ServerFamily::LLAMA_CPP] {
        let body = serde_json::to_string_pretty(&body_for(family, &request)).unwrap();
        let name = format!("conversation_{}", family.name.replace('.', "_"));
        insta::assert_snapshot!(name, body);
    }
}
