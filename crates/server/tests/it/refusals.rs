//! Bad input at every route: a clear problem, nothing lost, nothing leaked.

use longhaul_providers::scripted::ModelScript;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::test_server::{PATIENCE, TOKEN, TestServer};

/// Every route that needs the token, with `SESSION` where the id of one goes.
const ROUTES: [(&str, &str); 44] = [
    ("GET", "/api/sessions/SESSION/orders"),
    ("POST", "/api/sessions/SESSION/orders"),
    ("PATCH", "/api/sessions/SESSION/orders/o1"),
    ("DELETE", "/api/sessions/SESSION/orders/o1"),
    ("POST", "/api/ui/chat"),
    ("GET", "/api/ui/chat/c1/stream"),
    ("POST", "/api/ag-ui"),
    ("POST", "/api/message"),
    ("GET", "/api/message/queue?sessionId=SESSION"),
    ("DELETE", "/api/message/queue?sessionId=SESSION"),
    ("PATCH", "/api/message/queue/q1"),
    ("DELETE", "/api/message/queue/q1"),
    ("POST", "/api/sessions"),
    ("GET", "/api/sessions"),
    ("GET", "/api/sessions/SESSION"),
    ("DELETE", "/api/sessions/SESSION"),
    ("PATCH", "/api/sessions/SESSION"),
    ("GET", "/api/sessions/SESSION/messages"),
    ("GET", "/api/sessions/SESSION/context"),
    ("GET", "/api/sessions/SESSION/events"),
    ("POST", "/api/sessions/SESSION/cancel"),
    ("POST", "/api/sessions/SESSION/resume"),
    ("POST", "/api/sessions/SESSION/retry"),
    ("POST", "/api/sessions/SESSION/compact"),
    ("GET", "/api/sessions/SESSION/compactions"),
    ("POST", "/api/sessions/SESSION/compactions/e1/undo"),
    ("POST", "/api/sessions/SESSION/compactions/e1/release"),
    ("POST", "/api/sessions/SESSION/fork"),
    ("POST", "/api/sessions/SESSION/llm"),
    ("GET", "/api/sessions/SESSION/recall?query=x"),
    ("GET", "/api/sessions/SESSION/export"),
    ("POST", "/api/sessions/SESSION/blobs"),
    ("GET", "/api/sessions/SESSION/blobs/HASH"),
    ("GET", "/api/models"),
    ("GET", "/openapi.json"),
    ("GET", "/metrics"),
    ("GET", "/api/agents"),
    ("GET", "/api/settings"),
    ("PUT", "/api/settings"),
    ("GET", "/api/search?q=x"),
    ("POST", "/api/render"),
    ("GET", "/api/approvals"),
    ("POST", "/api/approvals/a1"),
    ("GET", "/no/such/route"),
];

/// Those that need none.
const WITHOUT_TOKEN: [&str; 7] =
    ["/", "/web/{*path}", "/open/{key}", "/api/login", "/api/logout", "/healthz", "/readyz"];

/// Those that take a body: anything, or JSON.
fn takes_body((method, path): &&(&str, &str)) -> bool {
    ["POST", "PATCH", "PUT"].contains(method) && !path.contains("compactions")
}

/// Those that take an `Idempotency-Key`.
fn takes_key((method, path): &&(&str, &str)) -> bool {
    *method == "POST" && !path.ends_with("blobs") && *path != "/api/render"
}

const HASH: &str = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";

/// One request by hand: what the wire carries is what is written here.
pub(crate) async fn raw(
    world: &TestServer,
    head: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> (u16, String, Value) {
    let mut socket = TcpStream::connect(world.address).await.unwrap();
    let mut request = format!("{head} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    socket.write_all(request.as_bytes()).await.unwrap();
    socket.write_all(body).await.unwrap();
    let mut answer = Vec::new();
    if let Err(error) = socket.read_to_end(&mut answer).await {
        // A body that nobody reads may end in a reset, once the answer is there.
        assert!(!answer.is_empty(), "{head}: {error}");
    }
    let text = String::from_utf8(answer).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), serde_json::from_str(body).unwrap_or(Value::Null))
}

/// Whether an answer is a problem document that says nothing about the inside.
pub(crate) fn check(what: &str, expected: u16, (status, head, body): &(u16, String, Value)) {
    assert_eq!(*status, expected, "{what}: {body}");
    assert!(head.to_lowercase().contains("content-type: application/problem+json"), "{what}: {head}");
    assert_eq!(body["status"], expected, "{what}");
    for field in ["type", "title", "detail", "code"] {
        assert!(body[field].as_str().is_some_and(|text| !text.is_empty()), "{what}: {field} in {body}");
    }
    let text = body.to_string();
    for secret in [TOKEN, "/tmp", "sqlite", ".rs", "panicked"] {
        assert!(!text.contains(secret), "{what} tells {secret}: {text}");
    }
}

struct Site {
    world: TestServer,
    session: String,
    bearer: String,
}

async fn site() -> Site {
    let config = |config: &mut longhaul_server::HttpServerConfig| config.max_body_bytes = 1 << 20;
    let world = TestServer::with(ModelScript::always("Yes."), |_| {}, config).await;
    let session = world.session().await;
    world.say(&session, "hello").await;
    world.until(&session, "idle").await;
    Site { world, session, bearer: format!("Bearer {TOKEN}") }
}

impl Site {
    fn route(&self, method: &str, path: &str, session: &str) -> String {
        format!("{method} {}", path.replace("SESSION", session).replace("HASH", HASH))
    }

    async fn ask(&self, head: &str, more: &[(&str, &str)], body: &[u8]) -> (u16, String, Value) {
        let mut headers = vec![("Host", "localhost"), ("Authorization", self.bearer.as_str())];
        headers.extend_from_slice(more);
        raw(&self.world, head, &headers, body).await
    }

    /// Everything is as it was, and works.
    async fn is_whole(&self) {
        assert_eq!(self.world.said(&self.session).await.len(), 2);
        let shown = self.world.get(&format!("/api/sessions/{}", self.session)).await;
        assert_eq!((&shown["status"], &shown["queued"]), (&json!("idle"), &json!(0)));
        assert_eq!(self.world.get("/api/sessions").await["sessions"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn without_the_token_nothing_answers_but_the_health_checks() {
    let site = site().await;
    for (method, path) in ROUTES {
        let head = site.route(method, path, &site.session);
        for bearer in [None, Some("Bearer wrong"), Some("Basic YTpi"), Some("Bearer")] {
            let mut headers = vec![("Host", "localhost")];
            headers.extend(bearer.map(|bearer| ("Authorization", bearer)));
            let answer = raw(&site.world, &head, &headers, b"{}").await;
            check(&head, 401, &answer);
            assert!(answer.1.to_lowercase().contains("www-authenticate: bearer"), "{head}");
        }
    }
    for path in ["/healthz", "/readyz"] {
        let (status, _, body) = raw(&site.world, &format!("GET {path}"), &[("Host", "10.0.0.7")], b"").await;
        assert_eq!((status, body.as_object().unwrap().len()), (200, 1), "{body}");
    }
    site.is_whole().await;
}

#[tokio::test]
async fn foreign_names_and_pages_are_refused() {
    let site = site().await;
    for (method, path) in ROUTES {
        let head = site.route(method, path, &site.session);
        let foreign = [("Host", "rebound.example"), ("Authorization", site.bearer.as_str())];
        check(&head, 403, &raw(&site.world, &head, &foreign, b"{}").await);
        check(&head, 403, &site.ask(&head, &[("Origin", "https://evil.example")], b"{}").await);
        check(&head, 403, &site.ask(&head, &[("Origin", "null")], b"{}").await);
    }
    site.is_whole().await;
}

#[tokio::test]
async fn unknown_names_are_not_found() {
    let site = site().await;
    for (method, path) in ROUTES.iter().filter(|(_, path)| path.contains("SESSION")) {
        // Ids become keys of the store and parts of names: no id may lead to a file or into a statement.
        for id in ["no-such-session", "..%2F..%2Fetc%2Fpasswd", "%00", "a%20b", "'%20OR%201=1--"] {
            let head = site.route(method, path, id);
            let body: &[u8] = if *method == "PATCH" { br#"{"title":"x"}"# } else { b"" };
            let body: &[u8] = if path.ends_with("llm") { br#"{"model":"x"}"# } else { body };
            let body: &[u8] = if path.contains("/orders") { br#"{"text":"x"}"# } else { body };
            let body: &[u8] = if path.ends_with("blobs") { b"content" } else { body };
            check(&head, 404, &site.ask(&head, &[], body).await);
        }
        let head = site.route(method, path, "%ff%fe");
        let answer = site.ask(&head, &[], b"").await;
        check(&head, 400, &answer);
    }
    for head in [
        "GET /no/such/route",
        "GET /other",
        "GET /web",
        "GET /open",
        "GET /api",
        "GET /api/sessions/../../etc/passwd",
    ] {
        check(head, 404, &site.ask(head, &[], b"").await);
    }
    let known = &site.session;
    for head in [
        format!("POST /api/sessions/{known}/compactions/e999/undo"),
        format!("POST /api/sessions/{known}/compactions/..%2F..%2F/release"),
        format!("GET /api/sessions/{known}/blobs/{HASH}"),
        format!("GET /api/sessions/{known}/blobs/..%2F..%2Flonghaul.db"),
        "DELETE /api/message/queue/none".to_owned(),
    ] {
        check(&head, 404, &site.ask(&head, &[], b"").await);
    }
    let patch = site.ask("PATCH /api/message/queue/none", &[], br#"{"content":"x"}"#).await;
    check("PATCH queue", 404, &patch);
    let message = br#"{"sessionId":"none","content":"x"}"#;
    check("message", 404, &site.ask("POST /api/message", &[], message).await);
    check("approval", 404, &site.ask("POST /api/approvals/none", &[], br#"{"decision":"deny"}"#).await);
    check("method", 405, &site.ask("PUT /api/sessions", &[], b"{}").await);
    site.is_whole().await;
}

/// Bodies that no route takes.
fn nonsense() -> Vec<&'static [u8]> {
    vec![
        b"{",
        b"[]",
        b"3",
        b"\"text\"",
        b"null",
        b"\xff\xfe{}",
        b"{\"content\":\"\xc3\x28\"}",
        b"{\"title\":\"\xff\"}",
        deep().leak(),
    ]
}

/// A field in which nothing but lists is.
fn deep() -> Vec<u8> {
    // A parser that calls itself for each level would overflow its stack.
    format!("{{\"content\":{}{},\"title\":\"x\"}}", "[".repeat(10_000), "]".repeat(10_000)).into_bytes()
}

#[tokio::test]
async fn wrong_bodies_are_invalid() {
    let site = site().await;
    let json = [("Content-Type", "application/json")];
    for (method, path) in ROUTES.iter().filter(takes_body).filter(|(_, path)| !path.ends_with("blobs")) {
        let head = site.route(method, path, &site.session);
        for body in nonsense() {
            let answer = site.ask(&head, &json, body).await;
            check(&format!("{head} {:.200}", String::from_utf8_lossy(body)), 400, &answer);
        }
        check(&head, 415, &site.ask(&head, &[("Content-Type", "text/plain")], b"{}").await);
    }
    let session = &site.session;
    let wrong: [(String, Value); 30] = [
        ("POST /api/message".into(), json!({})),
        ("POST /api/message".into(), json!({ "content": 3 })),
        ("POST /api/message".into(), json!({ "content": "" })),
        ("POST /api/message".into(), json!({ "content": " \n" })),
        ("POST /api/message".into(), json!({ "content": "\u{200b}" })),
        ("POST /api/message".into(), json!({ "content": [{ "type": "text", "text": "\u{feff} \u{2060}" }] })),
        ("POST /api/sessions".into(), json!({ "title": "\u{200b}" })),
        ("POST /api/message".into(), json!({ "content": [] })),
        ("POST /api/message".into(), json!({ "content": [{ "type": "text" }] })),
        ("POST /api/message".into(), json!({ "content": [{ "type": "tool-call", "name": "bash" }] })),
        ("POST /api/message".into(), json!({ "content": [{ "type": "image" }] })),
        (
            "POST /api/message".into(),
            json!({ "content": [{ "type": "image", "data": "!", "mediaType": "image/png" }] }),
        ),
        (
            "POST /api/message".into(),
            json!({ "content": [{ "type": "image", "data": "aGk=", "mediaType": "a b" }] }),
        ),
        ("POST /api/message".into(), json!({ "content": [{ "type": "image", "data": "aGk=" }] })),
        // A GIF of 65,535 pixels squared in 13 bytes.
        (
            "POST /api/message".into(),
            json!({ "content": [{ "type": "image", "data": "R0lGODlh/////wAAAA==", "mediaType": "image/gif" }] }),
        ),
        ("POST /api/message".into(), json!({ "sessionId": 4, "content": "x" })),
        ("POST /api/message".into(), json!({ "content": "x", "session": "y" })),
        ("POST /api/sessions".into(), json!({ "title": 4 })),
        ("POST /api/sessions".into(), json!({ "title": "" })),
        ("POST /api/sessions".into(), json!({ "name": "x" })),
        (format!("PATCH /api/sessions/{session}"), json!({ "title": "a\u{0}b" })),
        (format!("PATCH /api/sessions/{session}"), json!({ "title": "x".repeat(201) })),
        (format!("POST /api/sessions/{session}/cancel"), json!({ "clearQueue": "yes" })),
        (format!("POST /api/sessions/{session}/cancel"), json!({ "clearQue": true })),
        (format!("POST /api/sessions/{session}/compact"), json!({ "strategy": "magic" })),
        (format!("POST /api/sessions/{session}/compact"), json!({ "dryRun": 1 })),
        (format!("POST /api/sessions/{session}/compact"), json!({ "instructions": "x".repeat(20_001) })),
        (format!("POST /api/sessions/{session}/fork"), json!({ "atSeq": -1 })),
        ("POST /api/approvals/a".into(), json!({ "decision": "maybe" })),
        ("POST /api/approvals/a".into(), json!({ "decision": "deny", "reason": "x".repeat(2_001) })),
    ];
    for (head, body) in wrong {
        // A message without a session would begin one: nothing may be left of it.
        let mut body = body;
        if head.ends_with("message") && body.get("sessionId").is_none() {
            body["sessionId"] = json!(session);
        }
        let what = format!("{head} {body}").chars().take(200).collect::<String>();
        check(&what, 400, &site.ask(&head, &json, body.to_string().as_bytes()).await);
    }
    site.is_whole().await;
}

#[tokio::test]
async fn wrong_addresses_and_headers_are_invalid() {
    let site = site().await;
    let session = &site.session;
    for head in [
        "GET /api/message/queue".to_owned(),
        "DELETE /api/message/queue".to_owned(),
        "GET /api/sessions?limit=many".to_owned(),
        "GET /api/sessions?limit=-1".to_owned(),
        "GET /api/sessions?limit=0".to_owned(),
        format!("GET /api/sessions/{session}/messages?limit=0"),
        format!("GET /api/sessions/{session}/messages?after=x"),
        format!("GET /api/sessions/{session}/messages?after=1&before=2"),
        format!("GET /api/sessions/{session}/events?after=x"),
        format!("GET /api/sessions/{session}/export?format=exe"),
        format!("GET /api/sessions/{session}/recall"),
        format!("GET /api/sessions/{session}/recall?query=%ff%fe"),
        "GET /api/message/queue?sessionId=%ff".to_owned(),
        "GET /api/search".to_owned(),
        "GET /api/search?q=%20".to_owned(),
        "GET /api/search?q=x&limit=0".to_owned(),
        "GET /api/search?q=x&limit=101".to_owned(),
        format!("POST /api/sessions/{session}/blobs"),
    ] {
        check(&head, 400, &site.ask(&head, &[], b"").await);
    }
    let events = format!("GET /api/sessions/{session}/events");
    // The second number counts announcements from 1, and there is no event 0.
    for id in ["x", "1.", "1.0", "0.1", "1.1.1", "1.x"] {
        check("Last-Event-ID", 400, &site.ask(&events, &[("Last-Event-ID", id)], b"").await);
    }
    let long = "k".repeat(256);
    for (method, path) in ROUTES.iter().filter(takes_key) {
        let head = site.route(method, path, session);
        for key in ["", long.as_str(), "caf\u{e9}"] {
            let answer = site.ask(&head, &[("Idempotency-Key", key)], b"").await;
            check(&format!("{head}, key {key}"), 400, &answer);
            assert!(answer.2["detail"].as_str().unwrap().contains("Idempotency-Key"), "{head}: {}", answer.2);
        }
    }
    site.is_whole().await;
}

#[tokio::test]
async fn a_body_that_is_announced_as_too_large_is_refused_before_it_is_sent() {
    let site = site().await;
    for (method, path) in ROUTES.iter().filter(takes_body) {
        let head = site.route(method, path, &site.session);
        let mut socket = TcpStream::connect(site.world.address).await.unwrap();
        let request = format!(
            "{head} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\nContent-Type: application/json\r\n\
             Content-Length: 104857600\r\nExpect: 100-continue\r\n\r\n",
            site.bearer
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        let answered = tokio::time::timeout(PATIENCE, socket.read_exact(&mut answer)).await;
        answered.unwrap_or_else(|_| panic!("{head}: nothing is answered")).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 413", "{head}");
    }
    site.is_whole().await;
}

/// The routes as the source has them, each with its methods, beside those that this file asks.
#[test]
fn every_route_is_asked() {
    let source = include_str!("../../src/routes.rs");
    let (top, below) = source.split_once("fn of_session()").unwrap();
    let mut known = 0;
    for (prefix, lines) in [("", top), ("/api/sessions/{id}", below)] {
        for line in lines.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")) {
            let (path, rest) = line.split_once('"').unwrap();
            let path = format!("{prefix}{path}");
            for method in ["get", "post", "patch", "put", "delete"] {
                let has = rest.contains(&format!(" {method}(")) || rest.contains(&format!(".{method}("));
                if has && !WITHOUT_TOKEN.contains(&path.as_str()) {
                    known += 1;
                    let method = method.to_uppercase();
                    let is_asked = ROUTES.iter().any(|(asked, at)| *asked == method && fits(&path, at));
                    assert!(is_asked, "{method} {path} is not among ROUTES");
                }
            }
        }
    }
    assert_eq!(known + 1, ROUTES.len(), "one of ROUTES exists nowhere, all others do");
}

/// Whether an address is one of a route.
fn fits(route: &str, address: &str) -> bool {
    let address = address.split('?').next().unwrap_or_default();
    let (route, address) = (route.split('/'), address.split('/'));
    route.clone().count() == address.clone().count()
        && route.zip(address).all(|(one, other)| one.starts_with('{') || one == other)
}

#[tokio::test]
async fn large_bodies_are_refused_and_their_senders_hear_it() {
    let site = site().await;
    let session = &site.session;
    let body = json!({ "sessionId": session, "content": "x".repeat(100 << 20) }).to_string();
    for path in [
        "/api/message".to_owned(),
        format!("/api/sessions/{session}/blobs"),
        format!("/api/sessions/{session}/cancel"),
    ] {
        let answer = site.world.request(Method::POST, &path).body(body.clone()).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE, "{path}");
        assert_eq!(answer.json::<Value>().await.unwrap()["code"], "invalid-request");
    }
    // Nobody said how long it would be.
    let pieces = futures_util::stream::iter((0..40).map(|_| Ok::<_, std::io::Error>(vec![b' '; 1 << 20])));
    let request = site.world.request(Method::POST, "/api/message").body(reqwest::Body::wrap_stream(pieces));
    assert_eq!(request.send().await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
    site.is_whole().await;
}
