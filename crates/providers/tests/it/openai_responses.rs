//! The Responses client against real sockets.

use longhaul_testkit::{ReceivedRequest, ScriptedUpstream};
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use futures_util::StreamExt;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::ModelStopReason;
use longhaul_providers::http::Secret;
use longhaul_providers::openai_responses::OpenAiResponsesProvider;
use longhaul_providers::{ModelEndpoint, ModelEvent, Provider};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::answers::{End, answer, stream};
use crate::wire::{self, Outcome, finished, hi as request, patient};

const KEY: &str = "sk-very-secret-0123456789";

const HELLO: &[&str] = &[
    ": connected\n\n",
    "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\"}}\n\n",
    "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"id\":\"msg_1\",\"type\":\"message\",\"content\":[]}}\n\n",
    "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"Hel\"}\n\nda",
    "ta: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"lo\"}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"id\":\"msg_1\",\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hello\"}]}}\n\n",
    "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"status\":\"completed\",\"model\":\"gpt-5-2025\",\"service_tier\":\"default\",\"output\":[],\"instructions\":\"be brief\",\"usage\":{\"input_tokens\":70,\"input_tokens_details\":{\"cached_tokens\":64},\"output_tokens\":9,\"output_tokens_details\":{\"reasoning_tokens\":7},\"total_tokens\":79}}}\n\n",
];

fn endpoint(fake: &ScriptedUpstream) -> ModelEndpoint {
    let mut endpoint = ModelEndpoint::new("openai", fake.url("/v1"), "gpt-5");
    endpoint.api_key = Some(Secret::new(KEY));
    endpoint.timeouts = patient();
    endpoint
}

async fn call(endpoint: ModelEndpoint) -> Outcome {
    wire::call(&OpenAiResponsesProvider::new(endpoint).unwrap(), request()).await
}

async fn against<F>(reply: F) -> Outcome
where
    F: Fn(&ReceivedRequest) -> Response<Body> + Clone + Send + Sync + 'static,
{
    let fake = ScriptedUpstream::start(reply).await;
    call(endpoint(&fake)).await
}

#[tokio::test]
async fn a_response_streams_and_the_request_is_what_render_says() {
    let fake = ScriptedUpstream::start(|_| stream(HELLO, End::Whole)).await;
    let sent = OpenAiResponsesProvider::new(endpoint(&fake)).unwrap().render(&request()).unwrap();
    let (events, error) = call(endpoint(&fake)).await;
    assert_eq!(error, None);
    assert_eq!(events[..2], [ModelEvent::Text("Hel".into()), ModelEvent::Text("lo".into())]);
    let answer = finished((events, None));
    assert_eq!((answer.finish, answer.parts[0].as_text()), (ModelStopReason::Stop, Some("Hello")));
    let usage = answer.usage.unwrap();
    let counted = (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens, usage.reasoning_tokens);
    assert_eq!(counted, (70, 64, 9, 7), "what was cached is part of the input");
    let envelope = r#"{"id":"resp_1","status":"completed","model":"gpt-5-2025","service_tier":"default"}"#;
    assert_eq!(answer.envelope.unwrap().as_str(), envelope);
    let asked = &fake.received()[0];
    assert_eq!((asked.path.as_str(), &asked.body), ("/v1/responses", &sent));
    assert_eq!(asked.headers["authorization"], format!("Bearer {KEY}"));
    let body: Value = serde_json::from_slice(&sent).unwrap();
    assert_eq!((&body["store"], &body["stream"]), (&Value::Bool(false), &Value::Bool(true)));
}

#[tokio::test]
async fn a_response_that_is_not_streamed_is_taken() {
    let body = r#"{"object":"response","id":"resp_2","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"id":"msg_1","type":"message","content":[{"type":"output_text","text":"Hi"}]}],"usage":{"input_tokens":3,"output_tokens":1}}"#;
    let answer = finished(against(move |_| self::answer(200, "application/json", body)).await);
    assert_eq!((answer.finish, answer.parts[0].as_text()), (ModelStopReason::Length, Some("Hi")));
    let envelope =
        r#"{"id":"resp_2","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}"#;
    assert_eq!(answer.envelope.unwrap().as_str(), envelope);
}

#[tokio::test]
async fn refusals_are_typed() {
    let body = r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#;
    let (_, error) = against(move |_| answer(400, "application/json", body)).await;
    let error = error.unwrap();
    assert_eq!((error.code, error.status, error.retryable), (ErrorCode::ContextOverflow, Some(400), false));
    assert_eq!(error.body.as_deref(), Some(body));
    let (_, error) = against(|_| {
        let mut response = answer(429, "application/json", r#"{"error":{"message":"slow down"}}"#);
        response.headers_mut().insert("retry-after", "17".parse().unwrap());
        response
    })
    .await;
    assert_eq!(error.unwrap().retry_after, Some(Duration::from_secs(17)));
}

#[tokio::test]
async fn failures_inside_the_stream_end_it() {
    let failed = "data: {\"type\":\"response.failed\",\"response\":{\"id\":\"resp_1\",\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"Sorry\"},\"usage\":{\"input_tokens\":70,\"output_tokens\":0}}}\n\n";
    let (events, error) = against(move |_| stream(&[HELLO[2], HELLO[3], HELLO[4], failed], End::Whole)).await;
    assert_eq!(events.len(), 2);
    let error = error.unwrap();
    assert_eq!((error.code, error.retryable, error.status), (ErrorCode::ThirdParty, true, None));
    assert_eq!(error.usage.unwrap().input_tokens, 70);
    let named = "event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"Slow down\"}\n\n";
    let (_, error) = against(move |_| stream(&[HELLO[1], named], End::Whole)).await;
    assert_eq!(error.unwrap().code, ErrorCode::RateLimitExceeded);
}

#[tokio::test]
async fn a_response_without_its_closing_event_is_truncated() {
    let (events, error) = against(|_| stream(&HELLO[..6], End::Whole)).await;
    assert_eq!(events.len(), 3, "text, text, and the part that was done");
    assert_eq!(error.unwrap().code, ErrorCode::TruncatedStream);
    let (_, error) = against(|_| stream(&HELLO[..6], End::Broken)).await;
    assert_eq!(error.unwrap().code, ErrorCode::Network);
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let (hold, gone) = oneshot::channel();
    let hold = std::sync::Arc::new(std::sync::Mutex::new(Some(hold)));
    let fake = ScriptedUpstream::start(move |_| {
        stream(&HELLO[..4], End::Silence(hold.lock().unwrap().take().unwrap()))
    })
    .await;
    let provider = OpenAiResponsesProvider::new(endpoint(&fake)).unwrap();
    let mut events = provider.call(request()).await.unwrap();
    assert_eq!(events.next().await, Some(Ok(ModelEvent::Text("Hel".into()))));
    drop(events);
    let closed = tokio::time::timeout(Duration::from_secs(30), gone).await;
    assert!(closed.unwrap().is_err(), "the server's end of the stream was dropped");
}

#[tokio::test]
async fn the_key_shows_nowhere() {
    let fake = ScriptedUpstream::start(|asked| {
        let echo = asked.headers["authorization"].to_str().unwrap().to_owned();
        let body =
            serde_json::json!({"error": {"message": format!("wrong key {echo}"), "code": "invalid_api_key"}});
        answer(401, "application/json", body.to_string())
    })
    .await;
    let provider = OpenAiResponsesProvider::new(endpoint(&fake)).unwrap();
    for error in
        [provider.call(request()).await.err().unwrap(), provider.count(&request()).await.unwrap_err()]
    {
        assert_eq!(error.code, ErrorCode::Auth);
        assert!(!format!("{error:?} {error} {provider:?}").contains("very-secret"), "{error:?}");
    }
}
