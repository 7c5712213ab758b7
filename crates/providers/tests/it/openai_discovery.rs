//! A running server's description of itself: the family, the window, and the server's count of a request.

use longhaul_testkit::{ReceivedRequest, ScriptedUpstream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{BlobRef, MediaPart, Message, Part, RawJson, ToolSpec};
use longhaul_providers::openai_chat::{OpenAiChatConfig, OpenAiChatProvider};
use longhaul_providers::openai_responses::OpenAiResponsesProvider;
use longhaul_providers::{
    FeatureSupport, LimitSource, Limits, ModelEndpoint, ModelRequest, Provider, ReasoningScope,
};
use serde_json::{Value, json};

use crate::answers::answer;

fn page(body: Value) -> Response<Body> {
    answer(200, "application/json", body.to_string())
}

fn nothing() -> Response<Body> {
    answer(404, "application/json", r#"{"error":"no such page"}"#)
}

fn props(window: u64) -> Response<Body> {
    page(json!({
        "default_generation_settings": {"n_ctx": window},
        "modalities": {"vision": false},
        "chat_template_caps": {"supports_tools": true},
    }))
}

/// A model whose server is asked again each time.
fn model(fake: &ScriptedUpstream) -> OpenAiChatProvider {
    let mut config = OpenAiChatConfig::new(fake.url("/v1"), "m");
    // Without this setting the facts of the first question would answer the next ones.
    config.reread_after = Duration::ZERO;
    OpenAiChatProvider::new(config).unwrap()
}

fn request() -> ModelRequest {
    ModelRequest {
        system: "be brief".into(),
        messages: vec![Message::user("u", vec![Part::text("hi")])],
        tools: vec![ToolSpec {
            name: "read".into(),
            description: "reads".into(),
            parameters: RawJson(r#"{"type":"object"}"#.into()),
            read_only: true,
            poll: false,
            source: "builtin".into(),
        }],
        ..ModelRequest::default()
    }
}

fn paths(fake: &ScriptedUpstream) -> Vec<String> {
    let mut paths: Vec<String> = fake.received().iter().map(|asked| asked.path.clone()).collect();
    paths.sort();
    paths
}

#[tokio::test]
async fn limits_come_from_the_running_server() {
    let fake = ScriptedUpstream::start(|asked| match asked.path.as_str() {
        "/props" => props(4096),
        // The wrong number shows which of the two pages was believed.
        "/v1/models" => page(json!({"data": [{"id": "m", "meta": {"n_ctx": 9999}}]})),
        _ => nothing(),
    })
    .await;
    let provider = model(&fake);
    assert_eq!(provider.family().name, "compatible", "nobody was asked yet");
    let expected = Limits {
        tools: FeatureSupport::Yes,
        images: FeatureSupport::No,
        prefill: FeatureSupport::Yes,
        reasoning: Some(ReasoningScope::Turn),
        ..Limits::from_window(Some(4096), LimitSource::Server)
    };
    assert_eq!((provider.limits().await, provider.family().name), (expected, "llama.cpp"));

    let mut declared = OpenAiChatConfig::new(fake.url("/v1"), "m");
    declared.endpoint.declared.window = Some(1000);
    let limits = OpenAiChatProvider::new(declared).unwrap().limits().await;
    assert_eq!((limits.window, limits.source), (Some(1000), LimitSource::Declared));
    assert_eq!(limits.images, FeatureSupport::No);

    let silent = ScriptedUpstream::start(|_| nothing()).await;
    let limits = model(&silent).limits().await;
    assert_eq!((limits.window, limits.source), (None, LimitSource::Unknown));
}

#[tokio::test]
async fn a_reload_with_another_window_is_noticed() {
    let window = Arc::new(AtomicU64::new(4096));
    let loaded = window.clone();
    let fake =
        ScriptedUpstream::start(move |asked| match (asked.path.as_str(), loaded.load(Ordering::SeqCst)) {
            ("/props", 0) => {
                // llama.cpp answers like this while it loads a model.
                answer(503, "application/json", r#"{"error":{"message":"Loading model","code":503}}"#)
            }
            ("/props", window) => props(window),
            ("/v1/models", _) => page(json!({"data": [{"id": "m", "owned_by": "llamacpp", "meta": null}]})),
            _ => nothing(),
        })
        .await;
    let provider = model(&fake);
    assert_eq!(provider.limits().await.window, Some(4096));
    window.store(0, Ordering::SeqCst);
    assert_eq!(provider.limits().await.window, Some(4096), "a server that is loading is what it was");
    window.store(8192, Ordering::SeqCst);
    let limits = provider.limits().await;
    assert_eq!((limits.window, limits.source), (Some(8192), LimitSource::Server));
}

#[tokio::test]
async fn another_server_in_its_place_is_noticed() {
    let vllm = Arc::new(AtomicUsize::new(0));
    let now = vllm.clone();
    let fake =
        ScriptedUpstream::start(move |asked| match (asked.path.as_str(), now.load(Ordering::SeqCst)) {
            ("/props", 0) => props(4096),
            ("/v1/models", 1) => {
                page(json!({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 16384}]}))
            }
            _ => nothing(),
        })
        .await;
    let provider = model(&fake);
    assert_eq!(provider.limits().await.window, Some(4096));
    vllm.store(1, Ordering::SeqCst);
    assert_eq!((provider.limits().await.window, provider.family().name), (Some(16384), "vllm"));
}

#[tokio::test]
async fn limits_are_cheap_to_ask_again() {
    let fake =
        ScriptedUpstream::start(|asked| if asked.path == "/props" { props(4096) } else { nothing() }).await;
    let mut config = OpenAiChatConfig::new(fake.url("/v1"), "m");
    config.reread_after = Duration::from_secs(3600);
    let provider = OpenAiChatProvider::new(config).unwrap();
    for _ in 0..10 {
        assert_eq!(provider.limits().await.window, Some(4096));
    }
    let all = ["/api/ps", "/api/v0/models", "/api/v1/models", "/props", "/v1/models"];
    assert_eq!(paths(&fake), all, "each page once");

    let provider = model(&fake);
    provider.limits().await;
    let before = fake.received().len();
    provider.limits().await;
    let again: Vec<String> = fake.received()[before..].iter().map(|asked| asked.path.clone()).collect();
    assert_eq!(again, ["/props"], "a server that is known is asked for its own page only");
}

#[tokio::test]
async fn a_server_that_does_not_answer_costs_a_few_seconds_at_most() {
    // The system accepts the connection, and nobody ever answers.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = OpenAiChatConfig::new(format!("http://{}/v1", listener.local_addr().unwrap()), "m");
    let begun = Instant::now();
    let limits = OpenAiChatProvider::new(config).unwrap().limits().await;
    assert_eq!(limits.window, None);
    // All pages are asked at once, so their waits do not add up. The bound leaves room for a busy machine.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop(listener);
}

#[tokio::test]
async fn a_server_known_by_its_host_is_asked_for_its_list_only() {
    let fake = ScriptedUpstream::start(|asked| match asked.path.as_str() {
        "/v1/models" => page(json!({"data": [{"id": "m", "context_length": 200_000}]})),
        _ => nothing(),
    })
    .await;
    let mut config = OpenAiChatConfig::new(fake.url("/v1"), "m");
    config.family = Some(longhaul_providers::openai_chat::ServerFamily::OPENROUTER);
    assert_eq!(OpenAiChatProvider::new(config).unwrap().limits().await.window, Some(200_000));
    assert_eq!(paths(&fake), ["/v1/models"]);
}

#[tokio::test]
async fn llama_cpp_counts_the_request_as_it_is_sent() {
    let fake = ScriptedUpstream::start(|asked| match asked.path.as_str() {
        "/props" => props(4096),
        "/apply-template" => page(json!({"prompt": "<s>be brief</s>"})),
        // llama.cpp gives numbers, or objects if the pieces are asked for.
        "/tokenize" => page(json!({"tokens": [1, 2, 3, {"id": 4, "piece": "x"}]})),
        _ => nothing(),
    })
    .await;
    let provider = model(&fake);
    assert_eq!(provider.count(&request()).await, Ok(Some(4)));
    let asked = fake.received();
    let body = |path: &str| asked.iter().find(|asked| asked.path == path).unwrap().body.clone();
    assert_eq!(
        body("/apply-template"),
        provider.render(&request()).unwrap(),
        "the same bytes, tools included"
    );
    let tokenize: Value = serde_json::from_slice(&body("/tokenize")).unwrap();
    let expected =
        json!({"model": "m", "content": "<s>be brief</s>", "add_special": true, "parse_special": true});
    assert_eq!(tokenize, expected);
    let pages = asked.iter().filter(|asked| asked.path == "/props").count();
    provider.count(&request()).await.unwrap();
    assert_eq!(
        fake.received().iter().filter(|asked| asked.path == "/props").count(),
        pages,
        "it is known now"
    );
}

#[tokio::test]
async fn vllm_counts_messages_and_tools() {
    let fake = ScriptedUpstream::start(|asked| match asked.path.as_str() {
        "/v1/models" => page(json!({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 16384}]})),
        "/tokenize" => page(json!({"count": 42, "max_model_len": 16384, "tokens": [1]})),
        _ => nothing(),
    })
    .await;
    let mut config = OpenAiChatConfig::new(fake.url("/v1"), "m");
    // A field without influence on the prompt is no part of a count.
    config.endpoint.body.insert("temperature".into(), json!(0));
    config.endpoint.body.insert("chat_template_kwargs".into(), json!({"enable_thinking": false}));
    let provider = OpenAiChatProvider::new(config).unwrap();
    assert_eq!(provider.count(&request()).await, Ok(Some(42)));
    let asked = fake.received().into_iter().find(|asked| asked.path == "/tokenize").unwrap();
    let body: Value = serde_json::from_slice(&asked.body).unwrap();
    let fields: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["model", "chat_template_kwargs", "tools", "messages"]);
}

#[tokio::test]
async fn who_does_not_count_says_so() {
    let plain = ScriptedUpstream::start(|_| nothing()).await;
    assert_eq!(model(&plain).count(&request()).await, Ok(None), "nobody knows the server");

    let without =
        ScriptedUpstream::start(|asked| if asked.path == "/props" { props(4096) } else { nothing() }).await;
    assert_eq!(model(&without).count(&request()).await, Ok(None), "its pages are not there");

    let mut pictured = request();
    let blob = BlobRef { hash: "png".into(), bytes: 3 };
    let media = MediaPart { blob, media_type: "image/png".into(), name: None, width: None, height: None };
    pictured.messages[0].parts.push(Part::Image(media));
    assert_eq!(model(&without).count(&pictured).await, Ok(None));
    pictured.media.insert("png".into(), Bytes::from_static(b"abc"));
    assert_eq!(model(&without).count(&pictured).await, Ok(None), "only the model can count a picture");
    let templates = without.received().iter().filter(|asked| asked.path == "/apply-template").count();
    assert_eq!(templates, 2, "of the three only those without a picture were asked");
}

#[tokio::test]
async fn counts_that_fail_are_errors() {
    let says = Arc::new(Mutex::new((500, r#"{"error":{"message":"boom","type":"server_error"}}"#)));
    let now = says.clone();
    let fake = ScriptedUpstream::start(move |asked: &ReceivedRequest| {
        let (status, body) = *now.lock().unwrap();
        if asked.path == "/props" { props(4096) } else { answer(status, "application/json", body) }
    })
    .await;
    let provider = model(&fake);
    let error = provider.count(&request()).await.unwrap_err();
    assert_eq!((error.code, error.status, error.retryable), (ErrorCode::ThirdParty, Some(500), true));
    *says.lock().unwrap() = (200, r#"{"no":"prompt"}"#);
    let error = provider.count(&request()).await.unwrap_err();
    assert_eq!((error.code, error.body.as_deref()), (ErrorCode::ThirdParty, Some(r#"{"no":"prompt"}"#)));
}

#[tokio::test]
async fn responses_are_counted_by_their_own_page() {
    let fake = ScriptedUpstream::start(|asked| match asked.path.as_str() {
        "/v1/responses/input_tokens" => page(json!({"object": "response.input_tokens", "input_tokens": 77})),
        _ => nothing(),
    })
    .await;
    let mut endpoint = ModelEndpoint::new("openai", fake.url("/v1"), "gpt-5");
    endpoint.body.insert("reasoning".into(), json!({"effort": "low"}));
    // OpenAI's counting page does not list this field.
    endpoint.body.insert("temperature".into(), json!(1));
    let provider = OpenAiResponsesProvider::new(endpoint).unwrap();
    assert_eq!(provider.count(&request()).await, Ok(Some(77)));
    let body: Value = serde_json::from_slice(&fake.received()[0].body).unwrap();
    let fields: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["model", "reasoning", "tools", "instructions", "input"]);

    let without = ScriptedUpstream::start(|_| nothing()).await;
    let provider =
        OpenAiResponsesProvider::new(ModelEndpoint::new("openai", without.url("/v1"), "m")).unwrap();
    assert_eq!(provider.count(&request()).await, Ok(None));
}
