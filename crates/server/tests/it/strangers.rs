//! Connections that have not shown the token: they take little, and do not stay.

use std::time::Duration;

use longhaul_providers::scripted::ModelScript;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::test_server::{PATIENCE, TOKEN, TestServer};

async fn connect(world: &TestServer, request: &str) -> TcpStream {
    let mut socket = TcpStream::connect(world.address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

fn with_token(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n")
}

/// What comes until the server closes.
async fn to_end(mut socket: TcpStream) -> String {
    let mut answer = Vec::new();
    // Closed with something unread, it may end with a reset.
    let _ = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut answer)).await.expect("it stays open");
    String::from_utf8(answer).unwrap()
}

/// Reads on until `word` has come.
async fn read_until(socket: &mut TcpStream, word: &str) {
    let mut seen = String::new();
    while !seen.contains(word) {
        let mut piece = [0; 4096];
        let read = tokio::time::timeout(PATIENCE, socket.read(&mut piece)).await.expect("no answer").unwrap();
        assert!(read > 0, "closed after {seen:?}");
        seen.push_str(std::str::from_utf8(&piece[..read]).unwrap());
    }
}

#[tokio::test]
async fn who_brings_no_token_in_time_is_put_out_and_who_did_stays() {
    // Long enough for the one who is known to be known in time, on a machine with much to do.
    let brief = Duration::from_secs(5);
    let world =
        TestServer::with(ModelScript::always("Yes."), |_| {}, move |config| config.first_request = brief)
            .await;
    let mut known = connect(&world, &with_token("/api/sessions")).await;
    read_until(&mut known, "sessions").await;
    // Nothing, half a head, and a head without its end: each takes a descriptor without being a request.
    let begun = ["", "GET /healthz HTTP/1.1\r\nHost: l", "POST /api/message HTTP/1.1\r\nHost: localhost\r\n"];
    let ends = begun.map(async |begun| to_end(connect(&world, begun).await).await);
    assert_eq!(futures_util::future::join_all(ends).await, [""; 3]);
    // Each of those took longer than the time that a stranger has.
    known.write_all(with_token("/api/approvals").as_bytes()).await.unwrap();
    read_until(&mut known, "approvals").await;
}

#[tokio::test]
async fn a_stranger_is_answered_once() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    for (path, status) in [("/healthz", "200"), ("/readyz", "200"), ("/api/sessions", "401")] {
        let answer =
            to_end(connect(&world, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
        assert!(answer.to_lowercase().contains("connection: close"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn strangers_are_few_and_take_no_place_from_those_who_are_in() {
    let few = |config: &mut longhaul_server::HttpServerConfig| {
        config.max_strangers = 2;
        config.first_request = PATIENCE * 10;
    };
    let world = TestServer::with(ModelScript::always("Yes."), |_| {}, few).await;
    let mut inside = Vec::new();
    for _ in 0..5 {
        let mut socket = connect(&world, &with_token("/api/sessions")).await;
        read_until(&mut socket, "sessions").await;
        inside.push(socket);
    }
    let first = connect(&world, "GET / HTTP/1.1\r\n").await;
    let second = connect(&world, "GET / HTTP/1.1\r\n").await;
    let mut third = connect(&world, &with_token("/api/sessions")).await;
    let answered = tokio::time::timeout(Duration::from_millis(300), third.read_u8()).await;
    assert!(answered.is_err(), "there is no place for it");
    for socket in &mut inside {
        socket.write_all(with_token("/api/approvals").as_bytes()).await.unwrap();
        read_until(socket, "approvals").await;
    }
    drop(first);
    read_until(&mut third, "sessions").await;
    drop(second);
}
