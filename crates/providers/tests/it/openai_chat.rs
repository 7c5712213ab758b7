//! The Chat Completions client against real sockets.

use longhaul_testkit::{ReceivedRequest, ScriptedUpstream};
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use futures_util::StreamExt;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{ModelStopReason, Part};
use longhaul_providers::http::Secret;
use longhaul_providers::openai_chat::{OpenAiChatConfig, OpenAiChatProvider};
use longhaul_providers::{ModelEvent, Provider, ProviderError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use crate::answers::{End, answer, stream, whole_then_silence};
use crate::wire::{self, Outcome, finished, hi as request, patient};

const KEY: &str = "sk-very-secret-0123456789";

const HELLO: &[&str] = &[
    ": connected\n\n",
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}]}\n\n",
    // The network cuts this stream inside the name of a field.
    "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\nda",
    "ta: {\"choices\":[{\"delta\":{\"content\":\"lo\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n",
    "data: [DONE]\n\n",
];

fn config(fake: &ScriptedUpstream) -> OpenAiChatConfig {
    let mut config = OpenAiChatConfig::new(fake.url("/v1"), "m");
    config.endpoint.api_key = Some(Secret::new(KEY));
    config.endpoint.timeouts = patient();
    config
}

async fn call(config: OpenAiChatConfig) -> Outcome {
    wire::call(&OpenAiChatProvider::new(config).unwrap(), request()).await
}

async fn against<F>(reply: F) -> Outcome
where
    F: Fn(&ReceivedRequest) -> Response<Body> + Clone + Send + Sync + 'static,
{
    let fake = ScriptedUpstream::start(reply).await;
    call(config(&fake)).await
}

async fn refused(status: u16, content_type: &'static str, body: &'static str) -> ProviderError {
    let (events, error) = against(move |_| answer(status, content_type, body)).await;
    assert_eq!(events, []);
    error.unwrap()
}

#[tokio::test]
async fn an_answer_streams_and_the_request_is_what_render_says() {
    let fake = ScriptedUpstream::start(|_| stream(HELLO, End::Whole)).await;
    let mut config = config(&fake);
    config.endpoint.headers = vec![("x-title".to_owned(), "longhaul".into())];
    let sent = OpenAiChatProvider::new(config.clone()).unwrap().render(&request()).unwrap();
    let (events, error) = call(config).await;
    assert_eq!(error, None);
    assert_eq!(events[..2], [ModelEvent::Text("Hel".into()), ModelEvent::Text("lo".into())]);
    let answer = finished((events, None));
    assert_eq!((answer.parts, answer.finish), (vec![Part::text("Hello")], ModelStopReason::Stop));
    assert_eq!(answer.usage.unwrap().input_tokens, 7);
    let asked = &fake.received()[0];
    assert_eq!(asked.path, "/v1/chat/completions");
    assert_eq!(asked.body, sent);
    assert_eq!(asked.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(asked.headers["x-title"], "longhaul");
    assert_eq!(asked.headers["content-type"], "application/json");
}

#[tokio::test]
async fn too_many_requests_say_how_long_to_wait() {
    let (_, error) = against(|_| {
        let mut response = answer(429, "application/json", r#"{"error":{"message":"slow down"}}"#);
        response.headers_mut().insert("retry-after", "17".parse().unwrap());
        response
    })
    .await;
    let error = error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::RateLimitExceeded, true));
    assert_eq!(error.retry_after, Some(Duration::from_secs(17)));
    assert_eq!(error.message, "slow down (HTTP 429)");
}

#[tokio::test]
async fn overflow_has_both_numbers() {
    let body = r#"{"error":{"code":400,"message":"request (4031 tokens) exceeds the available context size (2048 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":4031,"n_ctx":2048}}"#;
    let error = refused(400, "application/json", body).await;
    assert_eq!((error.code, error.retryable), (ErrorCode::ContextOverflow, false));
    assert_eq!((error.used_tokens, error.limit_tokens), (Some(4031), Some(2048)));
    assert_eq!((error.status, error.body.as_deref()), (Some(400), Some(body)));
}

#[tokio::test]
async fn a_failing_server_may_be_asked_again() {
    let error =
        refused(500, "application/json", r#"{"error":{"message":"boom","type":"server_error"}}"#).await;
    assert_eq!((error.code, error.retryable, error.status), (ErrorCode::ThirdParty, true, Some(500)));
}

#[tokio::test]
async fn pages_and_garbage_are_no_answers() {
    // Proxies and company networks answer with a page to sign in, with any status.
    let page = "<!doctype html><title>Sign in</title>";
    let error = refused(502, "text/html", page).await;
    assert_eq!((error.code, error.retryable), (ErrorCode::ThirdParty, true));
    assert_eq!(error.body.as_deref(), Some(page));
    let error = refused(200, "text/html", page).await;
    assert_eq!(error.code, ErrorCode::ThirdParty);
    assert!(error.message.contains("not an answer of a model"), "{error}");
    let error = refused(200, "text/event-stream", "\u{1}\u{2} nonsense").await;
    assert_eq!(error.code, ErrorCode::ThirdParty);
    let error = refused(200, "application/json", "{\"choices\":").await;
    assert_eq!(error.code, ErrorCode::TruncatedStream);
    let error = refused(200, "text/event-stream", "").await;
    assert_eq!(error.code, ErrorCode::TruncatedStream);
    let (_, error) = against(|_| stream(&["data: {]\n\n"], End::Whole)).await;
    assert_eq!(error.unwrap().code, ErrorCode::ThirdParty);
}

#[tokio::test]
async fn a_whole_answer_without_content_is_an_empty_answer() {
    for body in [r#"{"id":"a","choices":[]}"#, r#"{"id":"a","object":"chat.completion","model":"m"}"#] {
        let found = finished(against(move |_| answer(200, "application/json", body)).await);
        assert!(found.parts.is_empty(), "{body}: {found:?}");
    }
    let error = refused(200, "application/json", r#"{"status":"ok"}"#).await;
    assert!(error.message.contains(r#"held nothing that a model writes: {"status":"ok"}"#), "{error}");
    assert!(error.broke_off, "asked for a few times, not until the patience ends: {error:?}");
}

#[tokio::test]
async fn an_empty_404_names_the_address_and_its_key() {
    let error = refused(404, "text/plain", "").await;
    assert_eq!((error.code, error.retryable), (ErrorCode::NotFound, false));
    let message = &error.message;
    assert!(
        message.contains("/v1/chat/completions was asked") && message.contains("`model.base_url`"),
        "{message}"
    );
}

#[tokio::test]
async fn the_body_of_an_error_is_cut_at_64_kib() {
    let (_, error) = against(|_| answer(400, "text/plain", "x".repeat(200_000))).await;
    assert_eq!(error.unwrap().body.unwrap().len(), 64 << 10);
}

#[tokio::test]
async fn a_connection_that_breaks_keeps_what_was_there() {
    let (events, error) = against(|_| stream(&HELLO[..4], End::Broken)).await;
    assert_eq!(events.len(), 2);
    let error = error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::Network, true));
}

#[tokio::test]
async fn a_stream_without_an_end_is_truncated() {
    let (events, error) = against(|_| stream(&HELLO[..4], End::Whole)).await;
    assert_eq!(events.len(), 2);
    assert_eq!(error.unwrap().code, ErrorCode::TruncatedStream);
}

#[tokio::test]
async fn an_answer_that_is_whole_survives_a_connection_that_breaks_after_it() {
    // The stop reason has come, so only the usage is lost with the connection.
    let answer = finished(against(|_| stream(&HELLO[..5], End::Broken)).await);
    assert_eq!((answer.parts, answer.usage), (vec![Part::text("Hello")], None));
}

#[tokio::test]
async fn the_last_event_needs_no_empty_line() {
    let answer = finished(against(|_| stream(&[HELLO[2], HELLO[3], "data: [DONE]"], End::Whole)).await);
    assert_eq!((answer.parts, answer.finish), (vec![Part::text("Hello")], ModelStopReason::Other));
}

#[tokio::test]
async fn a_stall_ends_after_the_idle_time() {
    let (hold, _gone) = oneshot::channel();
    let hold = std::sync::Arc::new(std::sync::Mutex::new(Some(hold)));
    let fake = ScriptedUpstream::start(move |_| {
        whole_then_silence(&HELLO[..4], hold.lock().unwrap().take().unwrap())
    })
    .await;
    let mut config = config(&fake);
    // Long enough for a busy machine to hand over what was sent before the stall.
    config.endpoint.timeouts.idle = Duration::from_secs(2);
    let (events, error) = call(config).await;
    assert_eq!(events.len(), 2);
    let error = error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::Timeout, true));
    assert_eq!(error.message, "the answer stalled: no data for 2 s");
}

#[tokio::test]
async fn a_server_that_takes_the_request_and_says_nothing_is_late() {
    // The system accepts connections for a listener, so a client connects here and never gets an answer.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = OpenAiChatConfig::new(format!("http://{}/v1", listener.local_addr().unwrap()), "m");
    config.endpoint.timeouts.first_byte = Some(Duration::from_millis(150));
    let (_, error) = call(config).await;
    let error = error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::Timeout, false), "it may still read the prompt");
    assert!(error.message.contains("sent no answer for 150 ms"), "{error}");
    assert!(error.message.contains("`model.timeout`"), "the error names the key: {error}");
    drop(listener);
}

/// A server with an immediate status line and a long read of the prompt: comments, pings and blank lines are signs of
/// life.
#[tokio::test]
async fn signs_of_life_before_the_first_word_have_no_limit() {
    // A comment is the sign of OpenRouter, a ping that of Anthropic; other servers send blank lines.
    let signs = [": reading the prompt\n\n", "\n\n", "event: ping\ndata: {\"type\":\"ping\"}\n\n"];
    let answered = signs.map(async |sign| {
        let signs = vec![sign; 1_100];
        let fake = ScriptedUpstream::start(move |_| {
            let pieces: Vec<&str> = signs.iter().copied().chain(HELLO.iter().copied()).collect();
            stream(&pieces, End::Whole)
        })
        .await;
        let mut config = config(&fake);
        // The signs take at least 2.2 s. The limits are long enough for a pause between two pieces on a busy machine.
        let limit = Duration::from_secs(2);
        (config.endpoint.timeouts.first_byte, config.endpoint.timeouts.idle) = (Some(limit), limit);
        let begun = std::time::Instant::now();
        finished(call(config).await);
        assert!(begun.elapsed() > limit, "{sign:?}");
    });
    futures_util::future::join_all(answered).await;
}

/// The wait for the first byte is a limit also where the status line came at once.
#[tokio::test]
async fn silence_after_the_status_line_is_a_slow_start() {
    let (hold, _gone) = oneshot::channel();
    let hold = std::sync::Arc::new(std::sync::Mutex::new(Some(hold)));
    let fake =
        ScriptedUpstream::start(move |_| stream(&[], End::Silence(hold.lock().unwrap().take().unwrap())))
            .await;
    let mut config = config(&fake);
    config.endpoint.timeouts.first_byte = Some(Duration::from_millis(150));
    let (_, error) = call(config).await;
    let error = error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::Timeout, false), "{error}");
}

#[tokio::test]
async fn nobody_there_is_a_network_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (_, error) =
        // Both places of a URL that can hold a secret.
        call(OpenAiChatConfig::new(format!("http://user:pass-word-1@{address}/v1?key=abc"), "m")).await;
    let error = error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::Network, true), "it may be starting anew");
    assert!(error.message.starts_with(&format!("cannot connect to http://{address}: ")), "{error}");
    assert!(!error.message.contains("pass-word") && !error.message.contains("abc"), "{error}");
}

#[tokio::test]
async fn an_error_inside_the_stream_ends_it() {
    let error = "data: {\"error\":{\"code\":502,\"message\":\"Provider disconnected\"}}\n\n";
    let (events, found) = against(move |_| stream(&[HELLO[2], HELLO[3], error], End::Whole)).await;
    assert_eq!(events.len(), 2);
    let found = found.unwrap();
    assert_eq!(
        (found.code, found.status, found.message.as_str()),
        (ErrorCode::ThirdParty, None, "Provider disconnected")
    );

    // LM Studio names the event and sends a sentence instead of an object.
    let named = "event: error\ndata: Context size has been exceeded.\n\n";
    let (_, found) = against(move |_| stream(&[named], End::Whole)).await;
    assert_eq!(found.unwrap().code, ErrorCode::ContextOverflow);
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_is_taken() {
    let body = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi","tool_calls":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    // Some servers keep the connection alive with empty lines before the answer.
    let whole = finished(against(move |_| answer(200, "application/json", format!("\n\n{body}"))).await);
    assert_eq!(whole.parts, [Part::text("Hi")]);
    assert_eq!(whole.usage.unwrap().input_tokens, 3);
    let (events, error) = against(|_| answer(200, "text/event-stream", r#"{"error":"model crashed"}"#)).await;
    assert_eq!((events.len(), error.unwrap().code), (0, ErrorCode::ThirdParty));
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let (hold, gone) = oneshot::channel();
    let hold = std::sync::Arc::new(std::sync::Mutex::new(Some(hold)));
    let fake = ScriptedUpstream::start(move |_| {
        stream(&HELLO[..4], End::Silence(hold.lock().unwrap().take().unwrap()))
    })
    .await;
    let provider = OpenAiChatProvider::new(config(&fake)).unwrap();
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
        let body = serde_json::json!({"error": {"message": format!("wrong key {echo}"), "type": "invalid_request_error"}});
        answer(401, "application/json", body.to_string())
    })
    .await;
    let config = config(&fake);
    let provider = OpenAiChatProvider::new(config.clone()).unwrap();
    let error = provider.call(request()).await.err().unwrap();
    assert_eq!(error.code, ErrorCode::Auth);
    assert_eq!(error.message, "wrong key [redacted] (HTTP 401); a key was sent, as `authorization`");
    // The debug form of a configuration must not show secrets of its URL either.
    let odd = OpenAiChatConfig::new("http://me:very-secret@localhost/v1?key=very-secret", "m");
    let shown =
        r#"ModelEndpoint { provider: "openai-compatible", server: "http://localhost", model: "m", .. }"#;
    assert_eq!(format!("{:?}", odd.endpoint), shown);
    assert!(!format!("{odd:?}").contains("very-secret"), "{odd:?}");
    for shown in [format!("{error:?}"), format!("{error}"), format!("{config:?}"), format!("{provider:?}")] {
        assert!(!shown.contains("very-secret"), "{shown}");
    }
    let leak = format!("data: {{\"error\":\"your key {KEY} is blocked\"}}\n\n");
    let fake = ScriptedUpstream::start(move |_| stream(&[&leak], End::Whole)).await;
    let (_, error) = call(self::config(&fake)).await;
    assert!(!format!("{error:?}").contains("very-secret"), "{error:?}");
}

#[tokio::test]
async fn wrong_addresses_and_headers_are_refused_at_once() {
    for url in ["localhost:1234", "ftp://x/v1", "not a url"] {
        let error = OpenAiChatProvider::new(OpenAiChatConfig::new(url, "m")).err().unwrap();
        assert_eq!(error.code, ErrorCode::InvalidRequest, "{url}");
    }
    let mut config = OpenAiChatConfig::new("http://localhost:1/v1", "m");
    config.endpoint.headers = vec![("x-odd".to_owned(), Secret::new("line\nbreak"))];
    let error = OpenAiChatProvider::new(config).err().unwrap();
    assert_eq!(error.message, "header `x-odd` cannot be sent");
}

#[tokio::test]
async fn a_query_in_the_base_url_stays() {
    let fake = ScriptedUpstream::start(|_| stream(HELLO, End::Whole)).await;
    let mut config = config(&fake);
    // Azure's addresses have the version of the API in a query.
    config.endpoint.base_url = fake.url("/deployments/x/?api-version=1");
    finished(call(config).await);
    assert_eq!(fake.received()[0].path, "/deployments/x/chat/completions");
}

/// llama.cpp promises to keep a connection and closes the connection after a stream: the next request over it is
/// lost.
#[tokio::test]
async fn no_request_goes_over_a_connection_that_may_be_closed() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut connections = Vec::new();
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            read_request(&mut connection).await;
            let body = HELLO.concat();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: keep-alive\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            connection.write_all((head + &body).as_bytes()).await.unwrap();
            // Kept open, so that only the client can decide not to use it again.
            connections.push(connection);
        }
    });
    let provider = OpenAiChatProvider::new(OpenAiChatConfig::new(url, "m")).unwrap();
    for _ in 0..3 {
        let call = tokio::time::timeout(Duration::from_secs(20), provider.call(request()));
        let mut events = call.await.unwrap().unwrap();
        while let Some(event) = events.next().await {
            event.unwrap();
        }
    }
    server.abort();
}

async fn read_request(connection: &mut tokio::net::TcpStream) {
    let mut read = Vec::new();
    // The request's body is one object, so its last byte is a brace.
    while !read.ends_with(b"}") {
        let mut more = [0; 4096];
        let bytes = connection.read(&mut more).await.unwrap();
        assert!(bytes > 0, "the client went away");
        read.extend_from_slice(&more[..bytes]);
    }
}

#[tokio::test]
async fn empty_arguments_are_an_object() {
    // Servers write a call without arguments in all of these forms.
    for arguments in [r#""""#, "null", r#"" \n ""#, r#""null""#, r#"{}"#, r#""{}""#] {
        let piece = format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":{{\"name\":\"ls\",\"arguments\":{arguments}}}}}]}}}}]}}\n\n"
        );
        let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
        let outcome = against(move |_| answer(200, "text/event-stream", format!("{piece}{end}"))).await;
        let shown: String = outcome
            .0
            .iter()
            .filter_map(|event| match event {
                ModelEvent::ToolInput { delta, .. } => Some(delta.as_str()),
                _ => None,
            })
            .collect();
        assert!(matches!(shown.as_str(), "" | "{}"), "{arguments}: {shown}");
        let answer = finished(outcome);
        let [Part::ToolCall(call)] = &answer.parts[..] else { panic!("{answer:?}") };
        assert_eq!(call.arguments, "{}", "{arguments}");
    }
}
