//! Servers over streamable HTTP.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use axum::http::Method;
use longhaul::config::{McpHttpEndpoint, McpServerConfig, McpTransport};
use longhaul::tools::ToolInput;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::fake::{FakeMcpServer, TOKEN};
use super::{Place, Running, SCHEMA, server, until};

fn at(url: String, token: &str) -> McpServerConfig {
    let headers = BTreeMap::from([("Authorization".to_owned(), token.to_owned())]);
    server(McpTransport::Http(McpHttpEndpoint { url, headers }))
}

async fn connected(fake: &FakeMcpServer) -> (Place, Running) {
    let place = Place::new();
    let running = place.start(at(fake.url("/mcp?key=s3cret"), TOKEN)).await.unwrap();
    (place, running)
}

#[tokio::test]
async fn bytes_pass_in_both_directions_and_every_request_has_the_headers() {
    let fake = FakeMcpServer::start();
    let (_place, running) = connected(&fake).await;
    let spec = running.tool("echo").spec();
    assert_eq!((spec.parameters.as_str(), spec.source.as_str()), (SCHEMA, "t"));
    let body = running.ok("echo", r#"{"n": 1.10, "n":2e0}"#).await;
    assert!(body.contains(r#""arguments":{"n": 1.10, "n":2e0}"#), "{body}");
    assert_eq!(running.ok("stream", "{}").await, r#"{"price": 1.10}"#);
    let seen = fake.seen();
    assert!(seen.iter().all(|request| request.header("authorization") == Some(TOKEN)), "{seen:?}");
    let call = &fake.asked("tools/call")[0];
    assert_eq!(call.header("mcp-session-id"), Some("session-1"));
    assert_eq!(call.header("mcp-protocol-version"), Some("2025-06-18"));
    assert_eq!(call.header("accept"), Some("text/event-stream, application/json"));
    running.servers.close().await;
    assert!(fake.seen().iter().any(|request| request.method == Method::DELETE), "the session is ended");
}

#[tokio::test]
async fn a_token_that_is_refused_is_told_without_it() {
    let fake = FakeMcpServer::start();
    let config = at(fake.url("/mcp?key=s3cret-key"), "Bearer s3cret-wrong-one");
    let error = Place::new().start(config).await.err().unwrap().to_string();
    assert!(error.contains("`t` could not be started") && error.contains("HTTP 401"), "{error}");
    assert!(error.contains("[redacted]") && !error.contains("s3cret"), "{error}");
    let error = Place::new().start(at(fake.url("/mcp"), "two\nlines")).await.err().unwrap().to_string();
    assert!(error.contains("the header `Authorization` cannot be sent") && !error.contains("two"), "{error}");
}

#[tokio::test]
async fn a_secret_that_a_server_repeats_is_not_shown() {
    let fake = FakeMcpServer::start();
    let (_place, running) = connected(&fake).await;
    let seen = running.ok("mirror", "{}").await;
    assert_eq!(seen, "[redacted] [redacted]\n{\"sent\":\"[redacted]\",\"by\":\"mirror\"}");
}

#[tokio::test]
async fn an_answer_that_is_hard_to_read_is_read_or_told_at_once() {
    let fake = FakeMcpServer::start();
    let (_place, running) = connected(&fake).await;
    for tool in ["half", "half-stream"] {
        assert_eq!(running.ok(tool, "{}").await, r#""\ud800""#, "{tool}");
    }
    let told = running.fails("broken-stream", "{}").await;
    assert!(told.contains("the answer cannot be read: it is not JSON that can be used"), "{told}");
}

#[tokio::test]
async fn a_cancelled_call_is_called_off() {
    let fake = FakeMcpServer::start();
    let (_place, running) = connected(&fake).await;
    let cancel = CancellationToken::new();
    let (context, mut watching) = running.context(&cancel);
    let tool = running.tool("wait");
    let call = tokio::spawn(async move { tool.run(ToolInput::new(json!({}), context)).await });
    assert_eq!(watching.recv().await.unwrap().text, "[1]\n");
    cancel.cancel();
    let output = call.await.unwrap();
    assert!(output.cancelled, "{output:?}");
    until("the server to hear of it", || !fake.asked("notifications/cancelled").is_empty()).await;
    running.ok("echo", "{}").await;
}

#[tokio::test]
async fn a_refusal_is_told_as_one() {
    let fake = FakeMcpServer::start();
    let (_place, running) = connected(&fake).await;
    let told = running.fails("fail", "{}").await;
    assert!(told.contains("answered HTTP 500: out of order") && told.contains("effect is unknown"), "{told}");
    assert!(!told.contains("key="), "{told}");
}

#[tokio::test]
async fn a_server_that_goes_away_and_comes_back() {
    let mut fake = FakeMcpServer::start();
    let (_place, running) = connected(&fake).await;
    let (context, mut watching) = running.context(&CancellationToken::new());
    let tool = running.tool("wait");
    let call = tokio::spawn(async move { tool.run(ToolInput::new(json!({}), context)).await });
    watching.recv().await.unwrap();
    fake.go_away();
    let lost = call.await.unwrap().as_text();
    assert!(lost.contains("lost in the middle of the call") && lost.contains("effect is unknown"), "{lost}");
    let mut away = running.fails("echo", "{}").await;
    // A connection that was still open may break under the next call, which then cannot know whether it was made.
    if away.contains("lost in the middle of the call") {
        away = running.fails("echo", "{}").await;
    }
    assert!(away.contains("the call was not made") && away.contains("cannot be reached"), "{away}");
    assert!(!away.contains("key="), "{away}");
    fake.come_back();
    running.ok("echo", "{}").await;
}

#[tokio::test]
async fn a_session_that_is_forgotten_is_begun_again_and_its_tools_compared() {
    let fake = FakeMcpServer::start();
    let (_place, running) = connected(&fake).await;
    fake.forget_session();
    fake.change();
    running.ok("echo", "{}").await;
    assert_eq!(fake.asked("initialize").len(), 2);
    until("the tools to be compared", || !running.servers.changes().is_empty()).await;
    assert_eq!(running.servers.changes()[0].added, ["t__extra"]);
}

/// Makes a call that fails at once: no server that answers is waited for.
async fn fails_at_once(running: &Running) -> String {
    let begun = Instant::now();
    let told = running.fails("echo", "{}").await;
    assert!(begun.elapsed() < Duration::from_secs(20), "{told}");
    told
}

#[tokio::test]
async fn an_answer_for_another_request_ends_the_call_with_the_servers_words() {
    const JSON: &str = "application/json";
    const EVENTS: &str = "text/event-stream";
    let error = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"Out of order"}}}}"#)
    };
    let event = |message: String| format!("data: {message}\n\n");
    let fake = FakeMcpServer::start();
    let (_place, running) = connected(&fake).await;
    for (status, kind, body) in [
        (400, JSON, error("null")),
        (400, JSON, error("{id}")),
        (400, JSON, error("99999")),
        (400, JSON, error("\"server-error\"")),
        (422, JSON, error("null")),
        (500, JSON, error("null")),
        (500, JSON, error("99999")),
        (503, "text/plain", "Out of order".to_owned()),
        (200, JSON, error("null")),
        (200, JSON, error("99999")),
        (200, EVENTS, event(error("null"))),
        (200, EVENTS, event(error("99999"))),
    ] {
        fake.answers_calls_with(status, kind, &body);
        let told = fails_at_once(&running).await;
        assert!(told.contains("Out of order"), "{status} {kind} {body}: {told}");
    }
    let other = r#"{"jsonrpc":"2.0","id":99999,"result":{"content":[]}}"#.to_owned();
    for (kind, body) in [
        (JSON, other.clone()),
        (EVENTS, event(other)),
        (JSON, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#.to_owned()),
        (JSON, String::new()),
        (EVENTS, String::new()),
    ] {
        fake.answers_calls_with(200, kind, &body);
        fails_at_once(&running).await;
    }
    fake.answers_calls_with(200, JSON, r#"{"jsonrpc":"2.0","id":"{id}","result":{"content":[]}}"#);
    running.ok("echo", "{}").await;
    assert_eq!(fake.asked("initialize").len(), 1);
}

#[tokio::test]
async fn an_answer_without_a_body_ends_the_call() {
    let fake = FakeMcpServer::start();
    let (_place, running) = connected(&fake).await;
    for status in [200, 202, 204] {
        fake.answers_calls_with(status, "application/json", "");
        let told = fails_at_once(&running).await;
        assert!(told.contains(&format!("HTTP {status} without a body")), "{told}");
    }
    // Some servers send the answer with the wrong status.
    fake.answers_calls_with(
        202,
        "application/json",
        r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[]}}"#,
    );
    running.ok("echo", "{}").await;
    for result in ["null", r#"{"content":null}"#] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{{id}},"result":{result}}}"#);
        fake.answers_calls_with(200, "application/json", &body);
        assert_eq!(running.ok("echo", "{}").await, "", "{result}");
    }
    let body = r#"{"jsonrpc":"2.0","id":{id},"result":null,"error":{"code":-3,"message":"Out of order"}}"#;
    fake.answers_calls_with(200, "application/json", body);
    assert!(fails_at_once(&running).await.contains("Out of order"));
}

#[tokio::test]
async fn an_odd_list_of_tools_drops_no_server() {
    let names = async |lists: &[&str]| {
        let fake = FakeMcpServer::start();
        fake.answers_lists_with(lists);
        let place = Place::new();
        let started = place.start(at(fake.url("/mcp"), TOKEN));
        let running = tokio::time::timeout(Duration::from_secs(30), started).await.unwrap().unwrap();
        running.servers.tools().iter().map(|tool| tool.spec().name).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    for empty in ["null", r#"{"tools":null}"#, "{}"] {
        assert_eq!(names(&[empty]).await, none, "{empty}");
    }
    let page = r#"{"tools":[{"name":"a","inputSchema":[]}],"nextCursor":"same"}"#;
    assert_eq!(names(&[page]).await, ["t__a"]);
    let other = r#"{"tools":[{"name":"b"}],"nextCursor":"next"}"#;
    assert_eq!(names(&[page, other]).await, ["t__a", "t__b"]);
    let long = "x".repeat(90);
    let odd = format!(
        r#"{{"tools":[{{"name":"read file"}},{{"name":"read.file"}},{{"name":"{long}"}},{{"name":"b"}},{{"name":"b","description":"2"}},{{"name":""}},null]}}"#
    );
    let odd = names(&[&odd]).await;
    assert_eq!(odd.len(), 4, "{odd:?}");
    let is_accepted = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    assert!(odd.iter().all(|name| name.len() <= 64 && name.chars().all(is_accepted)), "{odd:?}");
}

#[tokio::test]
async fn a_session_that_the_server_no_longer_knows_is_begun_again_once() {
    let error = |message: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32000,"message":"{message}"}}}}"#)
    };
    for (status, body) in [
        (400, error("Bad Request: No valid session ID provided")),
        (400, error("Bad Request: Server not initialized")),
        (404, error("Session not found")),
        (500, error("Unknown session")),
        (400, "Invalid session".to_owned()),
    ] {
        let fake = FakeMcpServer::start();
        let (_place, running) = connected(&fake).await;
        fake.answers_unknown_sessions_with(status, &body);
        fake.forget_session();
        running.ok("echo", "{}").await;
        assert_eq!(fake.asked("initialize").len(), 2, "{status} {body}");
        fake.know_no_session();
        let told = fails_at_once(&running).await;
        assert!(told.contains("ession") || told.contains("not initialized"), "{status} {body}: {told}");
        assert_eq!(fake.asked("initialize").len(), 3, "{status} {body}");
    }
}

#[tokio::test]
async fn an_optional_server_is_waited_for_no_longer_than_for_a_call() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let mut config = at(url, TOKEN);
    config.timeout = Duration::from_millis(300);
    config.optional = true;
    let begun = Instant::now();
    let error = Place::new().start(config).await.err().unwrap();
    assert!(error.optional && error.why.contains("within 0.3 s"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20), "it was waited for longer");
}

#[tokio::test]
async fn a_list_that_changes_is_told_over_the_stream_of_notices() {
    let fake = FakeMcpServer::start();
    let (_place, running) = connected(&fake).await;
    // A notice that is sent before the client listens would be lost.
    until("the stream", || fake.seen().iter().any(|request| request.method == Method::GET)).await;
    running.ok("change", "{}").await;
    until("the change to be noticed", || !running.servers.changes().is_empty()).await;
    assert_eq!(running.servers.tools().len(), 9, "the model's list stays");
}

#[tokio::test]
async fn a_redirect_is_followed_within_one_server_only() {
    let (fake, other) = (FakeMcpServer::start(), FakeMcpServer::start());
    fake.leads_to(other.url("/mcp"));
    let place = Place::new();
    place.start(at(fake.url("/mcp/"), TOKEN)).await.unwrap().ok("echo", "{}").await;
    let error = place.start(at(fake.url("/moved"), TOKEN)).await.err().unwrap().to_string();
    assert!(error.contains("HTTP 307"), "{error}");
    assert!(other.seen().is_empty(), "the headers went to somebody else");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_that_says_where() {
    let mut fake = FakeMcpServer::start();
    let url = fake.url("/mcp?key=s3cret");
    fake.go_away();
    let error = Place::new().start(at(url, TOKEN)).await.err().unwrap().to_string();
    assert!(error.contains("http://127.0.0.1:") && error.contains("cannot be reached"), "{error}");
    assert!(!error.contains("s3cret"), "{error}");
}
