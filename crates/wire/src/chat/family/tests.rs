//! Each row: the signs of the family, and the changes in a request.

use bytes::Bytes;
use longhaul_core::message::{
    BlobRef, MediaPart, Message, ModelOrigin, OpaquePart, Part, RawJson, ReasoningPart, Role, ToolCall,
    ToolResult, ToolSpec, ToolStatus,
};
use serde_json::{Value, json};

use super::*;
use crate::chat::{API, request};
use crate::{DeclaredLimits, ModelRequest, ModelSettings, ToolChoice};

fn origin() -> ModelOrigin {
    ModelOrigin { provider: "p".into(), api: API.into(), model: "m".into() }
}

fn assistant(parts: Vec<Part>) -> Message {
    Message { id: "a".into(), role: Role::Assistant, parts, origin: Some(origin()) }
}

fn call(id: &str, provider_id: &str) -> Part {
    Part::ToolCall(ToolCall {
        call_id: id.into(),
        name: "read".into(),
        arguments: "{}".into(),
        provider_id: Some(provider_id.into()),
        native: None,
    })
}

fn result(id: &str) -> Message {
    let result = ToolResult {
        call_id: id.into(),
        status: ToolStatus::Completed,
        content: vec![Part::text("data")],
        truncated: None,
    };
    Message { id: "t".into(), role: Role::Tool, parts: vec![Part::ToolResult(result)], origin: None }
}

fn thinking(text: &str) -> Part {
    Part::Reasoning(ReasoningPart { text: text.into(), native: None })
}

fn pdf() -> Part {
    let blob = BlobRef { hash: "pdf".into(), bytes: 3 };
    let name = Some("a.pdf".into());
    Part::File(MediaPart { blob, media_type: "application/pdf".into(), name, width: None, height: None })
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: RawJson("{}".into()),
        read_only: true,
        poll: false,
        source: "builtin".into(),
    }
}

fn user(parts: Vec<Part>) -> Message {
    Message::user("u", parts)
}

fn body(family: &ServerFamily, messages: Vec<Message>) -> Value {
    let request = ModelRequest {
        messages,
        tools: vec![tool("read"), tool("write")],
        tool_choice: ToolChoice::Named("read".into()),
        max_output_tokens: Some(9),
        media: [("pdf".to_owned(), Bytes::from_static(b"abc"))].into(),
        ..ModelRequest::default()
    };
    let settings = ModelSettings::new("p", "m");
    serde_json::from_slice(&request::encode(&request, &settings, family).unwrap()).unwrap()
}

fn hi() -> Vec<Message> {
    vec![user(vec![Part::text("hi")])]
}

/// A step with reasoning and a call, the result, and the user's next message.
fn step() -> Vec<Message> {
    vec![
        user(vec![Part::text("1")]),
        assistant(vec![thinking("hm"), call("0198f3a2-long-name", "call_abc")]),
        result("0198f3a2-long-name"),
    ]
}

fn reasoning_of(family: &ServerFamily) -> Value {
    body(family, step())["messages"][1].clone()
}

fn named(family: &str) -> &'static ServerFamily {
    ServerFamily::ALL.iter().find(|row| row.name == family).unwrap()
}

#[test]
fn hosts_tell_the_family_and_only_whole_ones() {
    for (url, family) in [
        ("https://api.openai.com/v1", Some("openai")),
        ("https://eu.api.openai.com/v1", Some("openai")),
        ("https://mine.openai.azure.com/openai/v1", Some("openai")),
        ("https://api.deepseek.com", Some("deepseek")),
        ("https://api.moonshot.cn/v1", Some("moonshot")),
        ("https://api.groq.com/openai/v1", Some("groq")),
        ("https://api.mistral.ai/v1", Some("mistral")),
        ("https://codestral.mistral.ai/v1", Some("mistral")),
        ("https://api.x.ai/v1", Some("xai")),
        ("https://openrouter.ai/api/v1", Some("openrouter")),
        ("http://localhost:8080/v1", None),
        // Other hosts with the same letters at their end or at their beginning.
        ("https://notopenrouter.ai/api/v1", None),
        ("https://openrouter.ai.example.com/v1", None),
        ("no url", None),
    ] {
        assert_eq!(ServerFamily::at(url).map(|family| family.name), family, "{url}");
    }
}

#[test]
fn what_is_not_known_is_asked_for_nothing_special() {
    let body = body(&ServerFamily::COMPATIBLE, hi());
    let names: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["model", "tools", "stream", "stream_options", "messages", "tool_choice", "max_tokens"]
    );
}

#[test]
fn what_the_user_knows_better_wins() {
    let declared = DeclaredLimits {
        images: Some(true),
        files: Some(false),
        prefill: Some(true),
        reasoning: Some(ReasoningScope::Turn),
        ..DeclaredLimits::default()
    };
    let family = ServerFamily::DEEPSEEK.declared(&declared);
    let known = family.abilities();
    assert_eq!(
        (known.images, known.files, known.prefill),
        (FeatureSupport::Yes, FeatureSupport::No, FeatureSupport::Yes)
    );
    assert_eq!((family.replay, known.reasoning), (ReasoningReplay::Turn, Some(ReasoningScope::Turn)));
    assert_eq!(ServerFamily::MISTRAL.declared(&DeclaredLimits::default()), ServerFamily::MISTRAL);
}

#[test]
fn openai() {
    let family = named("openai");
    let body = body(family, vec![user(vec![pdf()])]);
    assert_eq!((&body["max_completion_tokens"], body.get("max_tokens")), (&json!(9), None));
    let file = json!({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,YWJj"}});
    assert_eq!(body["messages"][0]["content"], json!([file]));
    assert_eq!(family.abilities().prefill, FeatureSupport::No);
    assert!(reasoning_of(family).get("reasoning_content").is_none());
}

#[test]
fn deepseek() {
    let family = named("deepseek");
    let mut list = step();
    list.extend([assistant(vec![thinking("so"), Part::text("a")]), user(vec![Part::text("2")])]);
    list.push(assistant(vec![thinking("no tools here"), Part::text("b")]));
    list.push(user(vec![Part::text("3")]));
    let body = body(family, list);
    let shown: Vec<&Value> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message.get("reasoning_content"))
        .collect();
    assert_eq!(shown, ["hm", "so"], "of the turn with tools, in every later request");
    let abilities = family.abilities();
    assert_eq!((abilities.reasoning, abilities.images), (Some(ReasoningScope::Always), FeatureSupport::No));
    let blob = BlobRef { hash: "pdf".into(), bytes: 3 };
    let image = MediaPart { blob, media_type: "image/png".into(), name: None, width: None, height: None };
    let body = self::body(family, vec![user(vec![Part::Image(image), pdf()])]);
    assert_eq!(body["messages"][0]["content"], "[unsupported content][unsupported content]");
}

#[test]
fn moonshot() {
    let family = named("moonshot");
    assert_eq!(reasoning_of(family)["reasoning_content"], "hm");
    let foreign =
        body(family, vec![user(vec![Part::text("1")]), assistant(vec![call("a", "b")]), result("a")]);
    assert_eq!(foreign["messages"][1]["reasoning_content"], "", "a call never goes without the field");
}

#[test]
fn groq() {
    let family = named("groq");
    let written = reasoning_of(family);
    assert_eq!((&written["reasoning"], written.get("reasoning_content")), (&json!("hm"), None));
    assert_eq!(body(family, hi())["max_completion_tokens"], 9);
}

#[test]
fn mistral() {
    let family = named("mistral");
    let mut list = step();
    list.push(user(vec![Part::text("2"), pdf()]));
    let native = RawJson(r#"{"type":"reference", "reference_ids":[1]}"#.into());
    let reference = Part::Opaque(OpaquePart { kind: "reference".into(), native });
    list.push(assistant(vec![Part::text("see"), reference, Part::text(".")]));
    let body = body(family, list);
    assert!(body.get("stream_options").is_none() && body.get("max_tokens").is_some());
    let messages = &body["messages"];
    // Mistral takes its reasoning back only as a block of the content.
    let think = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]);
    assert_eq!(messages[1]["content"], think);
    let id = messages[1]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    assert_eq!(messages[2]["tool_call_id"], id);
    assert_eq!(messages[3]["role"], "assistant", "no user message after a tool's result");
    let url = "data:application/pdf;base64,YWJj";
    let document = json!({"type": "document_url", "document_url": url, "document_name": "a.pdf"});
    assert_eq!(messages[4]["content"][1], document);
    assert_eq!(messages[5]["content"][1], json!({"type": "reference", "reference_ids": [1]}));
    assert_eq!(messages[5]["prefix"], true);
    assert!(messages[1].get("prefix").is_none());
}

#[test]
fn mistral_keeps_its_own_ids_and_tells_the_others_apart() {
    // Two hundred derived ids of nine letters must not collide.
    let ids: Vec<(String, &str)> = (0..200).map(|n| (format!("session-call-{n}"), "same_for_all")).collect();
    let calls = ids.iter().map(|(id, given)| call(id, given)).chain([call("x", "AbC123xyZ")]).collect();
    let mut list = vec![user(vec![Part::text("1")]), assistant(calls)];
    list.extend(ids.iter().map(|(id, _)| result(id)).chain([result("x")]));
    let body = body(named("mistral"), list);
    let calls = body["messages"][1]["tool_calls"].as_array().unwrap();
    let names: std::collections::BTreeSet<&str> =
        calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 201);
    assert!(names.iter().all(|name| name.len() == 9));
    assert_eq!(calls[200]["id"], "AbC123xyZ");
}

#[test]
fn xai() {
    let family = named("xai");
    assert!(reasoning_of(family).get("reasoning_content").is_none());
    assert_eq!(body(family, hi())["max_completion_tokens"], 9);
}

#[test]
fn openrouter() {
    let family = named("openrouter");
    // These details have no signature. Only OpenRouter gets such details back.
    let native = RawJson(r#"{"reasoning_details":[{"type":"reasoning.text", "text":"hm"}]}"#.into());
    let thought = Part::Reasoning(ReasoningPart { text: "hm".into(), native: Some(native) });
    let body = body(
        family,
        vec![user(vec![Part::text("1")]), assistant(vec![thought, Part::text("a")]), user(vec![pdf()])],
    );
    assert!(body.get("stream_options").is_none());
    assert_eq!(body["messages"][1]["reasoning_details"], json!([{"type": "reasoning.text", "text": "hm"}]));
    assert_eq!(body["messages"][2]["content"][0]["type"], "file");
    assert_eq!(family.abilities().reasoning, Some(ReasoningScope::Always));
}

#[test]
fn vllm() {
    let family = named("vllm");
    assert_eq!(reasoning_of(family)["reasoning"], "hm");
    let mut list = hi();
    assert!(body(family, list.clone()).get("continue_final_message").is_none());
    list.push(assistant(vec![Part::text("I be")]));
    let body = body(family, list);
    assert_eq!(
        (&body["continue_final_message"], &body["add_generation_prompt"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(
        (family.counter, family.abilities().prefill),
        (Some(TokenCountEndpoint::Tokenize), FeatureSupport::Yes)
    );
}

#[test]
fn llama_cpp() {
    let family = named("llama.cpp");
    assert_eq!(reasoning_of(family)["reasoning_content"], "hm");
    let mut list = hi();
    assert_eq!(body(family, list.clone())["reasoning_format"], "deepseek");
    list.push(assistant(vec![Part::text("I be")]));
    assert_eq!(body(family, list)["chat_template_kwargs"], json!({"enable_thinking": false}));
    assert_eq!(family.counter, Some(TokenCountEndpoint::ApplyTemplate));
}

#[test]
fn lm_studio() {
    let body = body(named("LM Studio"), hi());
    // LM Studio takes only a word, so the named tool is listed alone.
    assert_eq!(body["tool_choice"], "required");
    assert_eq!(body["tools"].as_array().unwrap().len(), 1, "only the one that was named");
    assert_eq!(body["tools"][0]["function"]["name"], "read");
}

#[test]
fn ollama() {
    assert_eq!(named("ollama").abilities().prefill, FeatureSupport::Yes);
}

#[test]
fn every_row_has_a_test_and_its_fields_are_json() {
    let tested = [
        "openai",
        "deepseek",
        "moonshot",
        "groq",
        "mistral",
        "xai",
        "openrouter",
        "vllm",
        "llama.cpp",
        "LM Studio",
        "ollama",
    ];
    assert_eq!(ServerFamily::ALL.iter().map(|row| row.name).collect::<Vec<_>>(), tested);
    for family in ServerFamily::ALL {
        let prefill = if let PrefillSupport::Fields(fields) = family.prefill { fields } else { &[] };
        for (name, json) in family.fields.iter().chain(prefill) {
            assert!(serde_json::from_str::<Value>(json).is_ok(), "{}: {name}", family.name);
        }
    }
}
