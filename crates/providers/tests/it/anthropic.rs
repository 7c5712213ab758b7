//! The client of Anthropic's Messages API against real sockets.

mod hazards;
mod recorded;
mod requests;

use longhaul_testkit::{ReceivedRequest, ScriptedUpstream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use futures_util::StreamExt;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{
    BlobRef, MediaPart, Message, ModelAnswer, ModelOrigin, ModelStopReason, Part, RawJson, ReasoningPart,
    Role, ToolCall, ToolResult, ToolStatus,
};
use longhaul_providers::anthropic::{API, AnthropicConfig, AnthropicProvider, VERSION};
use longhaul_providers::http::Secret;
use longhaul_providers::{
    FeatureSupport, LimitSource, Limits, ModelEvent, ModelRequest, Provider, ProviderError,
};
use longhaul_wire::overflow::{AnsweredRequestTokens, SuspectedOverflow, suspect};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::answers::{End, answer, stream, whole_then_silence};
use crate::wire::{Outcome, call, finished, patient};

const KEY: &str = "sk-ant-very-secret-0123456789";

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"m\",\"stop_reason\":null,\"usage\":{\"input_tokens\":7,\"cache_read_input_tokens\":100,\"cache_creation_input_tokens\":20,\"output_tokens\":1}}}\n\n";
const OPEN: &str = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n";
const HEL: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hel\"}}\n\n";
const LO: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"lo\"}}\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n";
const END: &str = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":12}}\n\n";
const STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
const HELLO: &[&str] = &[START, OPEN, HEL, LO, END, STOP];

fn config(fake: &ScriptedUpstream) -> AnthropicConfig {
    let mut config = AnthropicConfig::new(fake.url("/v1"), "m");
    config.endpoint.api_key = Some(Secret::new(KEY));
    config.endpoint.timeouts = patient();
    config
}

fn user(text: &str) -> Message {
    Message::user("u", vec![Part::text(text)])
}

fn request() -> ModelRequest {
    ModelRequest { system: "be brief".into(), messages: vec![user("hi")], ..ModelRequest::default() }
}

/// A message of the model in [`config`].
fn written(parts: Vec<Part>) -> Message {
    let origin = ModelOrigin { provider: "anthropic".into(), api: API.into(), model: "m".into() };
    Message { id: "a".into(), role: Role::Assistant, parts, origin: Some(origin) }
}

fn result(call_id: &str, status: ToolStatus, content: Vec<Part>) -> Message {
    let result = ToolResult { call_id: call_id.into(), status, content, truncated: None };
    Message { id: "t".into(), role: Role::Tool, parts: vec![Part::ToolResult(result)], origin: None }
}

async fn against<F>(reply: F) -> Outcome
where
    F: Fn(&ReceivedRequest) -> Response<Body> + Clone + Send + Sync + 'static,
{
    let fake = ScriptedUpstream::start(reply).await;
    call(&AnthropicProvider::new(config(&fake)).unwrap(), request()).await
}

async fn refused(status: u16, body: &'static str) -> ProviderError {
    let (events, error) = against(move |_| answer(status, "application/json", body)).await;
    assert_eq!(events, []);
    error.unwrap()
}

/// A stream open until the client goes, and the signal of the client's disconnect.
fn open_stream(
    pieces: &'static [&'static str],
) -> (impl Fn(&ReceivedRequest) -> Response<Body> + Clone, oneshot::Receiver<()>) {
    let (hold, gone) = oneshot::channel();
    let hold = Arc::new(Mutex::new(Some(hold)));
    (move |_: &ReceivedRequest| whole_then_silence(pieces, hold.lock().unwrap().take().unwrap()), gone)
}

#[tokio::test]
async fn an_answer_streams_and_the_headers_are_those_of_the_api() {
    let fake = ScriptedUpstream::start(|_| stream(HELLO, End::Whole)).await;
    let mut config = config(&fake);
    config.betas = vec!["one-2026-01-01".into(), "two-2026-01-01".into()];
    config.endpoint.headers = vec![("x-title".to_owned(), "longhaul".into())];
    let (events, error) = call(&AnthropicProvider::new(config).unwrap(), request()).await;
    assert_eq!(error, None);
    let texts: Vec<_> = events.iter().filter(|event| matches!(event, ModelEvent::Text(_))).collect();
    assert_eq!(texts, [&ModelEvent::Text("Hel".into()), &ModelEvent::Text("lo".into())]);
    let answer = finished((events, None));
    assert_eq!((answer.parts, answer.finish), (vec![Part::text("Hello")], ModelStopReason::Stop));
    assert!(answer.envelope.unwrap().as_str().contains(r#""stop_reason":"end_turn""#));
    let asked = &fake.received()[0];
    assert_eq!(asked.path, "/v1/messages");
    let header = |name: &str| asked.headers.get(name).map(|value| value.to_str().unwrap());
    assert_eq!((header("x-api-key"), header("anthropic-version")), (Some(KEY), Some(VERSION)));
    assert_eq!(header("anthropic-beta"), Some("one-2026-01-01,two-2026-01-01"));
    assert_eq!((header("x-title"), header("authorization")), (Some("longhaul"), None));
    assert_eq!(header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn a_bearer_token_and_another_version_come_by_headers() {
    let fake = ScriptedUpstream::start(|_| stream(HELLO, End::Whole)).await;
    let mut config = config(&fake);
    config.endpoint.api_key = None;
    config.endpoint.headers = vec![
        ("Authorization".to_owned(), "Bearer token-0123456789".into()),
        // A configured version replaces ours whatever its letters, and is sent only once.
        ("Anthropic-Version".to_owned(), "2026-10-21".into()),
    ];
    finished(call(&AnthropicProvider::new(config).unwrap(), request()).await);
    let headers = &fake.received()[0].headers;
    assert_eq!(headers["authorization"], "Bearer token-0123456789");
    assert_eq!(headers["anthropic-version"], "2026-10-21");
    assert_eq!(headers.get_all("anthropic-version").iter().count(), 1);
    assert!(!headers.contains_key("x-api-key") && !headers.contains_key("anthropic-beta"));
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_is_taken() {
    let body = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi"},{"type":"tool_use","id":"t1","name":"read","input":{ "a":1.0}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":1}}"#;
    let whole = finished(against(move |_| answer(200, "application/json", format!("\n\n{body}"))).await);
    assert_eq!((whole.parts.len(), whole.finish), (2, ModelStopReason::ToolCalls));
    assert_eq!(whole.usage.unwrap().input_tokens, 3);
    let Part::ToolCall(call) = &whole.parts[1] else { panic!("{:?}", whole.parts) };
    assert_eq!(call.arguments, r#"{ "a":1.0}"#);
}

#[tokio::test]
async fn every_refusal_has_its_code() {
    for (status, kind, code, retryable) in [
        (400, "invalid_request_error", ErrorCode::InvalidRequest, false),
        (401, "authentication_error", ErrorCode::Auth, false),
        (402, "billing_error", ErrorCode::Auth, false),
        (403, "permission_error", ErrorCode::Auth, false),
        (404, "not_found_error", ErrorCode::NotFound, false),
        (413, "request_too_large", ErrorCode::ContextOverflow, false),
        (429, "rate_limit_error", ErrorCode::RateLimitExceeded, true),
        (500, "api_error", ErrorCode::ThirdParty, true),
        (504, "timeout_error", ErrorCode::ThirdParty, true),
        (529, "overloaded_error", ErrorCode::ThirdParty, true),
    ] {
        let body =
            json!({"type": "error", "error": {"type": kind, "message": "It is so"}, "request_id": "req_1"});
        let body = body.to_string();
        let (_, error) = against(move |_| answer(status, "application/json", body.clone())).await;
        let error = error.unwrap();
        assert_eq!((error.code, error.retryable, error.status), (code, retryable, Some(status)), "{kind}");
        // The message of an error about a payment says so first.
        assert!(error.message.contains(&format!("It is so (HTTP {status})")), "{error}");
        assert_eq!(error.message.starts_with("It is so"), kind != "billing_error", "{error}");
        assert!(error.body.unwrap().contains("req_1"));
    }
}

#[tokio::test]
async fn overflow_has_both_numbers() {
    let error = refused(400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}"#).await;
    assert_eq!((error.code, error.retryable), (ErrorCode::ContextOverflow, false));
    assert_eq!((error.used_tokens, error.limit_tokens), (Some(208_310), Some(200_000)));
    let error = refused(400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again"}}"#).await;
    assert_eq!((error.code, error.used_tokens), (ErrorCode::ContextOverflow, Some(190_000)));
    // This limit is that of the output.
    let error = refused(400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 300000 > 64000, which is the maximum allowed number of output tokens for m"}}"#).await;
    assert_eq!(error.code, ErrorCode::InvalidRequest, "a smaller conversation would not help");
}

#[tokio::test]
async fn a_full_window_looks_like_a_short_answer_and_the_envelope_tells() {
    let end = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"model_context_window_exceeded\"},\"usage\":{\"output_tokens\":2}}\n\n";
    let answer = finished(against(move |_| stream(&[START, OPEN, HEL, LO, end, STOP], End::Whole)).await);
    assert_eq!(answer.finish, ModelStopReason::Length);
    assert_eq!(
        suspect(&AnsweredRequestTokens::default(), &answer),
        Some(SuspectedOverflow::WindowFull { total: Some(129) })
    );
    let envelope: Value = serde_json::from_str(answer.envelope.unwrap().as_str()).unwrap();
    assert_eq!(envelope["stop_reason"], "model_context_window_exceeded");
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let (reply, gone) = open_stream(&[START, OPEN, HEL]);
    let fake = ScriptedUpstream::start(reply).await;
    let provider = AnthropicProvider::new(config(&fake)).unwrap();
    let mut events = provider.call(request()).await.unwrap();
    assert!(matches!(events.next().await, Some(Ok(ModelEvent::Usage(_)))));
    drop(events);
    tokio::time::timeout(Duration::from_secs(30), gone)
        .await
        .expect("the server sees that nobody listens")
        .unwrap_err();
}

#[tokio::test]
async fn limits_come_from_the_models_own_description() {
    let fake = ScriptedUpstream::start(|asked| match asked.path.as_str() {
        "/v1/models/m" => answer(200, "application/json", r#"{"type":"model","id":"m","max_input_tokens":1000000,"max_tokens":64000,"capabilities":{"image_input":{"supported":true},"pdf_input":{"supported":false}}}"#),
        _ => answer(404, "application/json", "{}"),
    })
    .await;
    let usual = || Limits {
        tools: FeatureSupport::Yes,
        images: FeatureSupport::Yes,
        files: FeatureSupport::Yes,
        ..Limits::default()
    };
    let limits = AnthropicProvider::new(config(&fake)).unwrap().limits().await;
    let described = Limits {
        max_output: Some(64_000),
        files: FeatureSupport::No,
        window: Some(1_000_000),
        source: LimitSource::Server,
        ..usual()
    };
    assert_eq!(limits, described);
    assert_eq!(fake.received()[0].headers["x-api-key"], KEY);
    let mut declared = config(&fake);
    declared.endpoint.declared.window = Some(1000);
    let limits = AnthropicProvider::new(declared).unwrap().limits().await;
    assert_eq!((limits.window, limits.source), (Some(1000), LimitSource::Declared));
    let silent =
        ScriptedUpstream::start(|_| answer(200, "application/json", r#"{"type":"model","id":"m"}"#)).await;
    assert_eq!(
        AnthropicProvider::new(config(&silent)).unwrap().limits().await,
        usual(),
        "what nobody says is unknown"
    );
}

#[tokio::test]
async fn a_name_with_a_slash_is_one_segment() {
    let fake = ScriptedUpstream::start(|_| answer(404, "application/json", "{}")).await;
    let mut config = config(&fake);
    // Routers put the maker before the model's name.
    config.endpoint.model = "anthropic/claude".into();
    AnthropicProvider::new(config).unwrap().limits().await;
    assert_eq!(fake.received()[0].path, "/v1/models/anthropic%2Fclaude");
}

const BOUND: &str = r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."}}"#;

#[tokio::test]
async fn a_refusal_of_stale_reasoning_is_learned_from() {
    let fake = ScriptedUpstream::start(|asked| {
        let dropping = String::from_utf8_lossy(&asked.body).contains("drop_block");
        if dropping { stream(HELLO, End::Whole) } else { answer(400, "application/json", BOUND) }
    })
    .await;
    let mut config = config(&fake);
    config.betas = vec!["one-2026-01-01".into()];
    let provider = AnthropicProvider::new(config).unwrap();
    let (_, error) = call(&provider, request()).await;
    let error = error.unwrap();
    assert_eq!(
        (error.code, error.retryable),
        (ErrorCode::InvalidRequest, true),
        "the same call may go well now"
    );
    let sent = provider.render(&request()).unwrap();
    finished(call(&provider.clone(), request()).await);
    let asked = fake.received();
    assert_eq!(asked[1].body, sent);
    let body: Value = serde_json::from_slice(&sent).unwrap();
    let dropping = json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}});
    assert_eq!(body["thinking"], dropping);
    assert_eq!(asked[0].headers["anthropic-beta"], "one-2026-01-01");
    assert_eq!(asked[1].headers["anthropic-beta"], "one-2026-01-01,thinking-binding-controls-2026-08-01");

    // A server that refuses even the second request must not cause an endless loop.
    let stubborn = ScriptedUpstream::start(|_| answer(400, "application/json", BOUND)).await;
    let provider = AnthropicProvider::new(self::config(&stubborn)).unwrap();
    let first = call(&provider, request()).await.1.unwrap();
    let second = call(&provider, request()).await.1.unwrap();
    assert_eq!((first.retryable, second.retryable), (true, false), "once is enough");
}

#[tokio::test]
async fn keys_never_show_and_names_of_features_do() {
    let fake = ScriptedUpstream::start(|asked| {
        let beta = asked.headers["anthropic-beta"].to_str().unwrap();
        let key = asked.headers["x-api-key"].to_str().unwrap();
        let message = format!("wrong key {key}; Unexpected value `{beta}` for the `anthropic-beta` header");
        let body = json!({"type": "error", "error": {"type": "authentication_error", "message": message}});
        answer(401, "application/json", body.to_string())
    })
    .await;
    let mut config = config(&fake);
    config.betas = vec!["one-2026-01-01".into()];
    let provider = AnthropicProvider::new(config.clone()).unwrap();
    let error = call(&provider, request()).await.1.unwrap();
    let expected = "wrong key [redacted]; Unexpected value `one-2026-01-01` for the `anthropic-beta` header (HTTP 401); a key was sent, as `x-api-key`";
    assert_eq!(error.message, expected);
    let counted = provider.count(&request()).await.unwrap_err();
    for shown in [format!("{error:?} {counted:?}"), format!("{config:?}"), format!("{provider:?}")] {
        assert!(!shown.contains("very-secret"), "{shown}");
    }
    let mut odd = config.clone();
    odd.endpoint.headers = vec![("x-odd".to_owned(), Secret::new("line\nbreak"))];
    assert_eq!(AnthropicProvider::new(odd).err().unwrap().message, "header `x-odd` cannot be sent");
    config.betas = vec!["line\nbreak".into()];
    assert_eq!(
        AnthropicProvider::new(config).err().unwrap().message,
        "header `anthropic-beta` cannot be sent"
    );
}

#[tokio::test]
async fn a_demand_for_plain_texts_changes_the_next_request() {
    const DEMAND: &str = r#"{"detail":[{"type":"string_type","loc":["body","system"],"msg":"Input should be a valid string","input":[{"type":"text","text":"be brief"}]}]}"#;
    let fake = ScriptedUpstream::start(|asked| {
        let body: Value = serde_json::from_slice(&asked.body).unwrap();
        if body["system"].is_string() {
            stream(HELLO, End::Whole)
        } else {
            answer(422, "application/json", DEMAND)
        }
    })
    .await;
    let provider = AnthropicProvider::new(config(&fake)).unwrap();
    let request = ModelRequest { system: "be brief".into(), ..request() };
    let error = call(&provider, request.clone()).await.1.unwrap();
    assert_eq!(error.message, "system: Input should be a valid string (HTTP 422)");
    assert!(error.refusal.is_some_and(|refusal| refusal.is_remedied), "the caller makes the request again");
    finished(call(&provider, request).await);
}
