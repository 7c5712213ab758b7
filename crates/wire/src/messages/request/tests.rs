//! The fields of a body, and the helpers of the tests.

mod properties;
mod turns;

use bytes::Bytes;
use longhaul_core::message::{
    BlobRef, MediaPart, Message, ModelOrigin, OpaquePart, Part, RawJson, ReasoningPart, Role, ToolCall,
    ToolResult, ToolSpec, ToolStatus,
};
use serde_json::{Value, json};

use super::super::{API, MessagesConfig};
use super::*;
use crate::ModelSettings;

fn config() -> MessagesConfig {
    let mut config =
        MessagesConfig { settings: ModelSettings::new("anthropic", "claude"), ..MessagesConfig::default() };
    config.cache = PromptCacheTtl::Off;
    config
}

fn own() -> ModelOrigin {
    ModelOrigin { provider: "anthropic".into(), api: API.into(), model: "claude".into() }
}

fn foreign() -> ModelOrigin {
    ModelOrigin { provider: "openai".into(), api: "openai-responses".into(), model: "gpt".into() }
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

fn result_of(call_id: &str, status: ToolStatus, content: Vec<Part>) -> Message {
    let result = ToolResult { call_id: call_id.into(), status, content, truncated: None };
    Message { id: "t".into(), role: Role::Tool, parts: vec![Part::ToolResult(result)], origin: None }
}

fn result(call_id: &str, content: Vec<Part>) -> Message {
    result_of(call_id, ToolStatus::Completed, content)
}

fn media(hash: &str, media_type: &str) -> MediaPart {
    let blob = BlobRef { hash: hash.into(), bytes: 3 };
    MediaPart { blob, media_type: media_type.into(), name: Some("n".into()), width: None, height: None }
}

fn thinking(text: &str) -> Part {
    let native = format!(r#"{{"type":"thinking","thinking":"{text}","signature":"c2ln"}}"#);
    Part::Reasoning(ReasoningPart { text: text.into(), native: Some(RawJson(native)) })
}

fn opaque(kind: &str, json: &str) -> Part {
    Part::Opaque(OpaquePart { kind: kind.into(), native: RawJson(json.into()) })
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: "does it".into(),
        parameters: RawJson(r#"{"type":"object", "b":1e3,"a":1}"#.into()),
        read_only: true,
        poll: false,
        source: "builtin".into(),
    }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let media = [("png", "abc"), ("pdf", "%PDF"), ("txt", "plain words"), ("blank", " \n"), ("bin", "\u{1}")];
    let media = media.map(|(hash, bytes)| (hash.to_owned(), Bytes::from_static(bytes.as_bytes())));
    ModelRequest { messages, media: media.into(), ..ModelRequest::default() }
}

fn text_of(request: &ModelRequest, config: &MessagesConfig) -> String {
    String::from_utf8(encode(request, config).unwrap().to_vec()).unwrap()
}

fn body(request: &ModelRequest, config: &MessagesConfig) -> Value {
    serde_json::from_str(&text_of(request, config)).unwrap()
}

fn turns(messages: Vec<Message>) -> Vec<Value> {
    body(&request(messages), &config())["messages"].as_array().unwrap().clone()
}

#[test]
fn the_whole_body_in_its_order() {
    let mut request = request(vec![user("hi")]);
    request.system = "be brief".into();
    request.max_output_tokens = Some(100);
    request.tools = vec![tool("read"), tool("write")];
    request.tool_choice = ToolChoice::Named("read".into());
    let mut config = config();
    config.cache = PromptCacheTtl::OneHour;
    config.settings.body.insert("temperature".into(), json!(0));
    config.settings.body.insert("thinking".into(), json!({"type": "adaptive"}));
    let expected = concat!(
        r#"{"model":"claude","temperature":0,"tools":[{"name":"read","description":"does it","input_schema":"#,
        r#"{"type":"object", "b":1e3,"a":1}},{"name":"write","description":"does it","input_schema":"#,
        r#"{"type":"object", "b":1e3,"a":1},"cache_control":{"type":"ephemeral","ttl":"1h"}}],"system":"#,
        r#"[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral","ttl":"1h"}}],"stream":true,"#,
        r#""messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral","#,
        r#""ttl":"1h"}}]}],"thinking":{"type":"adaptive"},"tool_choice":{"type":"tool","name":"read"},"#,
        r#""max_tokens":100}"#
    );
    assert_eq!(text_of(&request, &config), expected);
    assert_eq!(text_of(&request, &config), expected, "equal requests, equal bytes");
}

#[test]
fn a_choice_is_made_beside_tools_only() {
    let choice = |tools: Vec<ToolSpec>, tool_choice: ToolChoice| {
        body(&ModelRequest { tools, tool_choice, ..request(vec![user("x")]) }, &config())["tool_choice"]
            .clone()
    };
    assert_eq!(choice(vec![tool("a")], ToolChoice::Auto), Value::Null);
    assert_eq!(choice(vec![tool("a")], ToolChoice::None), json!({"type": "none"}));
    assert_eq!(choice(vec![tool("a")], ToolChoice::Required), json!({"type": "any"}));
    assert_eq!(choice(Vec::new(), ToolChoice::Required), Value::Null);
}

#[test]
fn a_conversation_with_calls_has_tools_even_if_none_may_be_used() {
    let list = vec![
        user("x"),
        assistant(vec![call("c1", None, "{}"), call("c2", None, "{}")], own()),
        result("c1", vec![]),
        result("c2", vec![]),
    ];
    let body = body(&request(list), &config());
    assert_eq!(body["tools"], json!([{"name": "read", "input_schema": {"type": "object"}}]));
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
}

#[test]
fn marks_stand_at_the_end_of_what_is_kept_and_are_never_more_than_four() {
    let mut messages = vec![user("1")];
    for at in ["c1", "c2", "c3"] {
        messages.push(assistant(vec![call(at, None, "{}")], own()));
        messages.push(result(at, vec![Part::text(at)]));
    }
    let request = ModelRequest { system: "s".into(), tools: vec![tool("a"), tool("b")], ..request(messages) };
    let mut config = config();
    config.cache = PromptCacheTtl::FiveMinutes;
    let marked = body(&request, &config);
    let mark = json!({"type": "ephemeral"});
    assert_eq!((&marked["tools"][1]["cache_control"], &marked["system"][0]["cache_control"]), (&mark, &mark));
    let ends: Vec<bool> =
        [0, 2, 4, 6].map(|at| marked["messages"][at]["content"][0]["cache_control"] == mark).to_vec();
    assert_eq!(ends, [false, false, true, true]);
    assert_eq!(marked.to_string().matches("cache_control").count(), 4);
    config.settings.body.insert("cache_control".into(), json!({"type": "ephemeral"}));
    assert_eq!(text_of(&request, &config).matches("cache_control").count(), 1, "the user's own way wins");
}

#[test]
fn marks_ask_for_an_hour_where_pauses_are_long() {
    let five = json!({"type": "ephemeral"});
    let hour = json!({"type": "ephemeral", "ttl": "1h"});
    for (cache, long_pauses, mark) in [
        (PromptCacheTtl::Auto, false, &five),
        (PromptCacheTtl::Auto, true, &hour),
        (PromptCacheTtl::FiveMinutes, true, &five),
        (PromptCacheTtl::OneHour, false, &hour),
        (PromptCacheTtl::Off, true, &Value::Null),
    ] {
        let config = MessagesConfig { cache, ..config() };
        let request = ModelRequest { long_pauses, ..request(vec![user("hi")]) };
        let body = body(&request, &config);
        assert_eq!(&body["messages"][0]["content"][0]["cache_control"], mark, "{cache:?} {long_pauses}");
    }
}

#[test]
fn configured_fields_win_and_null_removes() {
    let mut config = config();
    for (name, value) in [
        ("max_tokens", json!(7)),
        ("messages", json!("mine")),
        ("system", json!("mine")),
        ("stream", json!(false)),
        ("tools", json!([{"type": "web_search_20250305", "name": "web_search"}])),
        ("tool_choice", Value::Null),
    ] {
        config.settings.body.insert(name.into(), value);
    }
    let request = ModelRequest {
        tools: vec![tool("a")],
        tool_choice: ToolChoice::None,
        max_output_tokens: Some(100),
        ..request(vec![user("hi")])
    };
    let body = body(&request, &config);
    assert_eq!(
        (&body["max_tokens"], &body["stream"], &body["tool_choice"]),
        (&json!(7), &json!(true), &Value::Null)
    );
    assert_eq!(body["tools"][0]["name"], "web_search");
    assert!(body["messages"].is_array() && body.get("system").is_none());
}

#[test]
fn an_output_limit_is_always_given() {
    let limit = |request: &ModelRequest, config: &MessagesConfig| {
        body(request, config)["max_tokens"].as_u64().unwrap()
    };
    let mut config = config();
    let asked = ModelRequest { max_output_tokens: Some(2_000), ..request(vec![user("x")]) };
    assert_eq!(limit(&request(vec![user("x")]), &config), 4_096);
    assert_eq!(limit(&asked, &config), 2_000);
    config.settings.declared.max_output = Some(64_000);
    assert_eq!(limit(&request(vec![user("x")]), &config), 64_000);
    config.settings.body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": 2_000}));
    assert_eq!(limit(&asked, &config), 4_000, "a budget must stay below the limit");
    config.settings.body.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": 1_999}));
    assert_eq!(limit(&asked, &config), 2_000);
}

fn with_thinking(thinking: Value) -> MessagesConfig {
    let mut config = config();
    config.settings.body.insert("thinking".into(), thinking);
    config
}

#[test]
fn a_fixed_budget_is_left_out_where_the_api_refuses_it() {
    let budget = || json!({"type": "enabled", "budget_tokens": 1024});
    let thinks = |messages: Vec<Message>, tool_choice: ToolChoice, thinking: Value| {
        let request = ModelRequest { tools: vec![tool("read")], tool_choice, ..request(messages) };
        body(&request, &with_thinking(thinking)).get("thinking").is_some()
    };
    let going_on = |first: Vec<Part>, origin: ModelOrigin| {
        vec![
            user("x"),
            assistant(first, origin),
            result("c1", vec![]),
            assistant(vec![call("c2", None, "{}")], own()),
            result("c2", vec![]),
        ]
    };
    let with_reasoning = || vec![thinking("Hm"), call("c1", None, "{}")];
    assert!(thinks(vec![user("x")], ToolChoice::Auto, budget()));
    assert!(!thinks(vec![user("x")], ToolChoice::Required, budget()));
    assert!(thinks(vec![user("x")], ToolChoice::Required, json!({"type": "adaptive"})));
    assert!(thinks(going_on(with_reasoning(), own()), ToolChoice::Auto, budget()), "the first answer has it");
    assert!(!thinks(going_on(with_reasoning(), foreign()), ToolChoice::Auto, budget()), "it stayed behind");
    assert!(!thinks(going_on(vec![call("c1", None, "{}")], own()), ToolChoice::Auto, budget()));
    let mut over = going_on(with_reasoning(), foreign());
    over.extend([assistant(vec![Part::text("done")], foreign()), user("y")]);
    assert!(thinks(over, ToolChoice::Auto, budget()), "a new turn begins anew");
    let mut queued = going_on(with_reasoning(), foreign());
    queued.push(user("by the way"));
    assert!(!thinks(queued, ToolChoice::Auto, budget()), "a message among the results begins none");
}

#[test]
fn stale_reasoning_is_dropped_by_the_server_or_if_it_cannot_by_us() {
    let list = || vec![user("x"), assistant(vec![thinking("Hm"), Part::text("so")], own()), user("y")];
    let sent = |config: &MessagesConfig| -> Value {
        serde_json::from_slice(&call_body(&request(list()), config, StaleReasoningPolicy::Drop)).unwrap()
    };
    let dropping = json!({"prefix_mismatch_behavior": "drop_block"});
    let plain = sent(&config());
    assert_eq!(plain["thinking"], json!({"type": "adaptive", "block_binding": dropping}));
    assert_eq!(plain["messages"][1]["content"][0]["type"], "thinking");
    let configured = sent(&with_thinking(json!({"type": "adaptive", "display": "summarized"})));
    assert_eq!(configured["thinking"]["display"], "summarized");
    assert_eq!(configured["thinking"]["block_binding"], dropping);
    let own_wish = json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}});
    assert_eq!(sent(&with_thinking(own_wish.clone()))["thinking"], own_wish);
    for off in [Value::Null, json!({"type": "disabled"})] {
        let silent = sent(&with_thinking(off.clone()));
        assert_eq!(silent["messages"][1]["content"], json!([{"type": "text", "text": "so"}]), "{off}");
        assert_eq!(silent["thinking"], off);
    }
}

fn call_body(request: &ModelRequest, config: &MessagesConfig, stale: StaleReasoningPolicy) -> Bytes {
    super::call(request, config, stale).unwrap()
}

#[test]
fn a_count_reads_what_a_call_reads() {
    let mut config = with_thinking(json!({"type": "adaptive"}));
    config.settings.body.insert("temperature".into(), json!(0));
    config.settings.body.insert("context_management".into(), json!({"edits": []}));
    let request = ModelRequest { system: "s".into(), tools: vec![tool("a")], ..request(vec![user("x")]) };
    let counted: Value =
        serde_json::from_slice(&count(&request, &config, StaleReasoningPolicy::Unsaid).unwrap()).unwrap();
    let mut called = body(&request, &config);
    for name in ["stream", "max_tokens", "temperature"] {
        assert!(called.as_object_mut().unwrap().remove(name).is_some(), "{name}");
    }
    assert_eq!(counted, called);
}

#[test]
fn a_server_that_demands_plain_texts_gets_no_lists_of_text_blocks() {
    let mut config = config();
    config.cache = PromptCacheTtl::FiveMinutes;
    config.adaptations.has_plain_texts = true;
    let mut request = request(vec![
        user("hi"),
        assistant(vec![Part::text("let me see"), call("c", Some("p"), "{}")], own()),
        result("c", vec![Part::text("data")]),
        assistant(vec![Part::text("seen")], own()),
        Message::user("u", vec![Part::text("and this?"), Part::Image(media("png", "image/png"))]),
    ]);
    request.system = "be brief".into();
    let body = body(&request, &config);
    assert_eq!(body["system"], "be brief");
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[0], json!({ "role": "user", "content": "hi" }));
    assert_eq!(
        messages[2]["content"],
        json!([{ "type": "tool_result", "tool_use_id": "p", "content": "data" }])
    );
    assert_eq!(messages[3], json!({ "role": "assistant", "content": "seen" }));
    assert_eq!(messages[1]["content"].as_array().map(Vec::len), Some(2), "a call needs a block");
    assert_eq!(messages[4]["content"].as_array().map(Vec::len), Some(2), "a picture needs a block");
}
