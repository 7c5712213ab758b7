//! What the server has against a request under `/v1`, in the words of those who ask there; and bodies that nobody reads.

use longhaul_providers::scripted::ModelScript;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::test_server::{PATIENCE, TOKEN, TestServer};

/// A request with the token, or with further headers alone; its status and body.
async fn asked(
    world: &TestServer,
    head: &str,
    headers: &[(&str, &str)],
    body: &'static [u8],
) -> (StatusCode, Value) {
    let (method, path) = head.split_once(' ').unwrap();
    let url = format!("http://{}{path}", world.address);
    let mut request = world.client.request(method.parse().unwrap(), url).body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.unwrap();
    (answer.status(), answer.json().await.unwrap())
}

/// A request with these headers; the status that it gets, the error's type, and its code where the dialect has one.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], u16, &'a str, &'a str);

#[tokio::test]
async fn every_dialect_is_told_in_its_words_what_is_wrong() {
    let world = TestServer::new(ModelScript::always("never")).await;
    let bearer = format!("Bearer {TOKEN}");
    let token = ("authorization", bearer.as_str());
    let coded = ("content-encoding", "gzip");
    let foreign = ("origin", "http://evil.example");
    let cases: [Case<'_>; 9] = [
        ("POST /v1/audio/speech", &[token], 404, "invalid_request_error", "unknown_url"),
        ("POST /v1/responses/x/cancel", &[token], 404, "invalid_request_error", "unknown_url"),
        ("POST /v1/messages/batches", &[token], 404, "not_found_error", ""),
        ("GET /v1/chat/completions", &[token], 405, "invalid_request_error", "method_not_supported"),
        ("POST /v1/chat/completions", &[], 401, "invalid_request_error", "invalid_api_key"),
        ("POST /v1/messages", &[], 401, "authentication_error", ""),
        ("POST /v1/responses", &[token, foreign], 403, "invalid_request_error", "permission_denied"),
        ("POST /v1/messages", &[token, foreign], 403, "permission_error", ""),
        (
            "POST /v1/chat/completions",
            &[token, coded],
            415,
            "invalid_request_error",
            "unsupported_media_type",
        ),
    ];
    for (head, headers, status, kind, code) in cases {
        let (found, body) = asked(&world, head, headers, b"{}").await;
        let error = &body["error"];
        assert_eq!((found.as_u16(), error["type"].as_str()), (status, Some(kind)), "{head}: {body}");
        if code.is_empty() {
            assert_eq!(body["type"], "error", "{head}: {body}");
        } else {
            assert_eq!(error["code"], code, "{head}: {body}");
        }
    }
    let (status, body) = asked(&world, "GET /v1/models/nobody", &[token], b"").await;
    assert_eq!((status.as_u16(), &body["error"]["code"]), (404, &json!("model_not_found")), "{body}");
    let (status, body) = asked(&world, "GET /v1/models/%ff", &[token], b"").await;
    assert_eq!((status.as_u16(), &body["error"]["code"]), (400, &json!("invalid_request")), "{body}");
    let (_, body) = asked(&world, "POST /v1/messages", &[token, coded], &[0x1f, 0x8b, 8, 0]).await;
    assert!(body["error"]["message"].as_str().unwrap().contains("Content-Encoding: gzip"), "{body}");
    // One that says that it is not coded is read.
    let (_, body) =
        asked(&world, "POST /v1/messages", &[token, ("content-encoding", "identity")], b"[").await;
    assert!(!body["error"]["message"].as_str().unwrap().contains("Content-Encoding"), "{body}");
}

#[tokio::test]
async fn a_base_url_without_v1_or_with_two_is_told_so() {
    let world = TestServer::new(ModelScript::always("never")).await;
    let bearer = format!("Bearer {TOKEN}");
    let token = ("authorization", bearer.as_str());
    let lacks = "The base URL lacks /v1: the path here is /v1/";
    let twice = "The base URL has /v1 once too often: the path here is /v1/";
    let cases: [Case<'_>; 5] = [
        ("POST /chat/completions", &[], 401, lacks, "chat/completions."),
        ("POST /chat/completions", &[token], 404, lacks, "chat/completions."),
        ("POST /messages", &[token], 404, lacks, "messages."),
        ("POST /v1/v1/messages", &[token], 404, twice, "messages."),
        ("POST /v1/v1/responses", &[token], 404, twice, "responses."),
    ];
    for (head, headers, status, hint, path) in cases {
        let (found, body) = asked(&world, head, headers, b"{}").await;
        let message = body["error"]["message"].as_str().unwrap();
        assert_eq!(found.as_u16(), status, "{head}: {body}");
        assert!(message.ends_with(&format!("{hint}{path}")), "{head}: {message}");
        assert_eq!(body["type"] == "error", head.ends_with("messages"), "{head}: {body}");
    }
    let (_, body) = asked(&world, "POST /v1/audio/speech", &[token], b"{}").await;
    assert!(!body.to_string().contains("base URL"), "{body}");
}

/// Reads until an answer is whole; its first line.
async fn answer(socket: &mut TcpStream) -> String {
    let mut seen = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&seen).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return head.lines().next().unwrap().to_owned();
            }
        }
        let mut piece = [0; 1_024];
        let read = tokio::time::timeout(PATIENCE, socket.read(&mut piece)).await.expect("no answer").unwrap();
        assert!(read > 0, "closed after {text:?}");
        seen.extend_from_slice(&piece[..read]);
    }
}

#[tokio::test]
async fn a_body_that_says_it_is_too_large_is_refused_before_it_comes_and_the_connection_stays() {
    // An answer that waited for the rest of a body would be waited for in vain.
    let set = move |config: &mut longhaul_server::HttpServerConfig| {
        (config.max_body_bytes, config.body_patience) = (1_000, PATIENCE * 2);
    };
    let world = TestServer::with(ModelScript::always("never"), |_| {}, set).await;
    let head = |path: &str, rest: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{rest}\r\n")
    };
    for (path, then) in
        [("/v1/chat/completions", " 404 "), ("/v1/messages", " 404 "), ("/api/message", " 400 ")]
    {
        let mut socket = TcpStream::connect(world.address).await.unwrap();
        socket.write_all(head(path, "Content-Length: 5000\r\n").as_bytes()).await.unwrap();
        assert!(answer(&mut socket).await.contains(" 413 "), "{path}: nothing of it was sent");
        // Who sends it all the same is heard out, and can go on.
        socket.write_all(&[b' '; 5_000]).await.unwrap();
        socket.write_all(head(path, "Content-Length: 2\r\n").as_bytes()).await.unwrap();
        socket.write_all(b"{}").await.unwrap();
        assert!(answer(&mut socket).await.contains(then), "{path}");
    }
    // One that does not say it is refused as soon as it is.
    let mut socket = TcpStream::connect(world.address).await.unwrap();
    let chunk = format!("800\r\n{}\r\n", " ".repeat(0x800));
    let begun = head("/v1/responses", "Transfer-Encoding: chunked\r\n") + &chunk;
    socket.write_all(begun.as_bytes()).await.unwrap();
    assert!(answer(&mut socket).await.contains(" 413 "), "its end has not come");
}

/// Base URLs with a slash at their end make two of one.
#[tokio::test]
async fn slashes_too_many_are_no_other_path() {
    let world = TestServer::new(ModelScript::always("never")).await;
    let bearer = format!("Bearer {TOKEN}");
    let token = ("authorization", bearer.as_str());
    for (path, same) in [
        ("POST /v1//chat/completions", "POST /v1/chat/completions"),
        ("POST //v1/chat/completions", "POST /v1/chat/completions"),
        ("POST /v1///chat//completions/", "POST /v1/chat/completions"),
        ("POST /v1//messages?beta=true", "POST /v1/messages?beta=true"),
        ("POST /v1//responses", "POST /v1/responses"),
        ("GET /v1//models", "GET /v1/models"),
        ("GET /v1/models/", "GET /v1/models"),
    ] {
        let (status, body) = asked(&world, path, &[token], b"{}").await;
        assert_eq!(
            (status, &body),
            (asked(&world, same, &[token], b"{}").await.0, &asked(&world, same, &[token], b"{}").await.1),
            "{path}"
        );
        assert_ne!(body["error"]["code"], "unknown_url", "{path}: {body}");
        // Nothing is open that is closed otherwise.
        let (status, _) = asked(&world, path, &[], b"{}").await;
        assert_eq!(status, asked(&world, same, &[], b"{}").await.0, "{path}");
    }
    let url = format!("http://{}//api/sessions", world.address);
    let other = world.client.get(url).bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(other.status(), StatusCode::NOT_FOUND, "only the gateway's paths are put right");
}
