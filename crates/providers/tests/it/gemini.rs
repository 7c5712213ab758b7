//! The Gemini client against real sockets.

mod hazards;

use axum::body::Body;
use axum::http::Response;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Message, ModelStopReason, Part, Role, ToolCall, ToolResult, ToolStatus};
use longhaul_providers::gemini::{API, GeminiProvider};
use longhaul_providers::http::Secret;
use longhaul_providers::{
    FeatureSupport, LimitSource, ModelEndpoint, ModelEvent, ModelRequest, Provider, ReasoningScope,
};
use longhaul_testkit::{ReceivedRequest, ScriptedUpstream};

use crate::answers::{End, answer, stream};
use crate::wire::{Outcome, call, finished, hi as request, patient};

const KEY: &str = "AIza-very-secret-0123456789";

const HELLO: &[&str] = &[
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hel\"}],\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":7,\"candidatesTokenCount\":1},\"modelVersion\":\"m-1\",\"responseId\":\"r\"}\r\n\r\nda",
    "ta: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"lo\"}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}]}\r\n\r\n",
    "data: {\"usageMetadata\":{\"promptTokenCount\":9,\"candidatesTokenCount\":2,\"thoughtsTokenCount\":5},\"responseId\":\"r\"}\r\n\r\n",
];

fn endpoint(fake: &ScriptedUpstream) -> ModelEndpoint {
    let mut endpoint = ModelEndpoint::new("gemini", fake.url("/v1beta"), "gemini-2.5-flash");
    endpoint.api_key = Some(Secret::new(KEY));
    endpoint.timeouts = patient();
    endpoint
}

async fn against<F>(reply: F) -> Outcome
where
    F: Fn(&ReceivedRequest) -> Response<Body> + Clone + Send + Sync + 'static,
{
    let fake = ScriptedUpstream::start(reply).await;
    call(&GeminiProvider::new(endpoint(&fake)).unwrap(), request()).await
}

fn data(chunk: &str) -> String {
    format!("data: {chunk}\r\n\r\n")
}

#[tokio::test]
async fn an_answer_streams() {
    let (events, error) = against(|_| stream(HELLO, End::Whole)).await;
    assert_eq!(events[0], ModelEvent::Text("Hel".into()));
    let answer = finished((events, error));
    assert_eq!((answer.parts, answer.finish), (vec![Part::text("Hello")], ModelStopReason::Stop));
    let usage = answer.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.reasoning_tokens), (9, 7, 5));
    let envelope = r#"{"modelVersion":"m-1","responseId":"r","finishReason":"STOP"}"#;
    assert_eq!(answer.envelope.unwrap().as_str(), envelope);
}

#[tokio::test]
async fn the_key_shows_in_no_error() {
    let leak = format!(
        r#"{{"error":{{"code":400,"message":"API key {KEY} not valid","status":"INVALID_ARGUMENT","details":[{{"reason":"API_KEY_INVALID"}}]}}}}"#
    );
    let fake = ScriptedUpstream::start(move |_| answer(400, "application/json", leak.clone())).await;
    let provider = GeminiProvider::new(endpoint(&fake)).unwrap();
    let (_, error) = call(&provider, request()).await;
    let error = error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::Auth, false));
    let counted = provider.count(&request()).await.unwrap_err();
    for shown in [format!("{error:?}"), format!("{counted:?}"), format!("{provider:?}")] {
        assert!(!shown.contains("very-secret"), "{shown}");
    }
}

#[tokio::test]
async fn answers_that_are_not_events_are_taken() {
    let chunk = |text: &str, end: &str| {
        format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}}{end}}}]}}"#)
    };
    let list = format!("[{},\n{}]", chunk("Hel", ""), chunk("lo", r#","finishReason":"STOP""#));
    let whole = chunk("Hello", r#","finishReason":"STOP""#);
    for body in [list, whole] {
        let found = finished(against(move |_| answer(200, "application/json", body.clone())).await);
        assert_eq!((found.parts, found.finish), (vec![Part::text("Hello")], ModelStopReason::Stop));
    }
    let (_, error) = against(|_| answer(200, "application/json", "[{\"candidates\":[")).await;
    assert_eq!(error.unwrap().code, ErrorCode::TruncatedStream);
}

#[tokio::test]
async fn limits_come_from_the_model_itself() {
    let fake = ScriptedUpstream::start(|asked| match asked.path.as_str() {
        "/v1beta/models/gemini-2.5-flash" => answer(200, "application/json", r#"{"name":"models/gemini-2.5-flash","inputTokenLimit":1048576,"outputTokenLimit":65536,"thinking":true}"#),
        _ => answer(404, "application/json", "{}"),
    })
    .await;
    let mut endpoint = endpoint(&fake);
    let limits = GeminiProvider::new(endpoint.clone()).unwrap().limits().await;
    assert_eq!((limits.window, limits.source), (Some(1_048_576), LimitSource::Server));
    assert_eq!((limits.max_output, limits.reasoning), (Some(65_536), Some(ReasoningScope::Turn)));
    assert_eq!((limits.prefill, limits.images), (FeatureSupport::No, FeatureSupport::Unknown));
    assert_eq!(fake.received()[0].headers["x-goog-api-key"], KEY);
    endpoint.declared.window = Some(50_000);
    let declared = GeminiProvider::new(endpoint.clone()).unwrap().limits().await;
    assert_eq!((declared.window, declared.source), (Some(50_000), LimitSource::Declared));
    endpoint.declared.window = None;
    endpoint.model = "unheard-of".to_owned();
    let unknown = GeminiProvider::new(endpoint).unwrap().limits().await;
    assert_eq!((unknown.window, unknown.source), (None, LimitSource::Unknown));
}

#[tokio::test]
async fn an_answer_has_its_origin() {
    let origin = GeminiProvider::new(ModelEndpoint::new("google", longhaul_providers::gemini::BASE_URL, "m"))
        .unwrap()
        .origin();
    assert_eq!((origin.provider.as_str(), origin.api.as_str(), origin.model.as_str()), ("google", API, "m"));
}

#[tokio::test]
async fn a_demand_for_signatures_changes_the_next_request() {
    const DEMAND: &str = r#"{"error":{"code":400,"message":"Function call is missing a thought_signature in functionCall parts. Additional data, function call `default_api:read`, position 2.","status":"INVALID_ARGUMENT"}}"#;
    let fake = ScriptedUpstream::start(|asked| {
        let is_signed = String::from_utf8_lossy(&asked.body).contains("skip_thought_signature_validator");
        if is_signed { stream(HELLO, End::Whole) } else { answer(400, "application/json", DEMAND) }
    })
    .await;
    let called = Part::ToolCall(ToolCall {
        call_id: "c".into(),
        name: "read".into(),
        arguments: "{}".into(),
        provider_id: None,
        native: None,
    });
    let content = vec![Part::text("42 lines")];
    let result = ToolResult { call_id: "c".into(), status: ToolStatus::Completed, content, truncated: None };
    let messages = vec![
        Message::user("u", vec![Part::text("hi")]),
        Message { id: "a".into(), role: Role::Assistant, parts: vec![called], origin: None },
        Message { id: "t".into(), role: Role::Tool, parts: vec![Part::ToolResult(result)], origin: None },
    ];
    let request = ModelRequest { messages, ..ModelRequest::default() };
    let provider = GeminiProvider::new(endpoint(&fake)).unwrap();
    let error = call(&provider, request.clone()).await.1.unwrap();
    assert!(error.refusal.is_some_and(|refusal| refusal.is_remedied), "the caller makes the request again");
    finished(call(&provider, request).await);
    assert_eq!(fake.received().len(), 2);
}
