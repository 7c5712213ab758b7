//! Clients that are slow with what they send. Of those that do not read, `events` tells; of those that show no token,
//! `strangers`.

use std::time::{Duration, Instant};

use longhaul_providers::scripted::ModelScript;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::test_server::{PATIENCE, TOKEN, TestServer};

/// Long enough for who sends in time, on a machine with much to do; much shorter than it is by default.
const PATIENT: Duration = Duration::from_secs(5);

async fn world() -> TestServer {
    TestServer::with(ModelScript::always("Yes."), |_| {}, |config| config.body_patience = PATIENT).await
}

/// A request whose head announces `length` bytes, and the first of them.
async fn begin(world: &TestServer, path: &str, length: usize, first: &str) -> TcpStream {
    let mut socket = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{first}"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

async fn answer(mut socket: TcpStream) -> String {
    let mut answer = String::new();
    let read = tokio::time::timeout(PATIENCE, socket.read_to_string(&mut answer)).await;
    read.expect("it is never answered").unwrap();
    answer
}

#[tokio::test]
async fn a_body_that_stands_still_is_given_up_and_meanwhile_others_are_answered() {
    let world = world().await;
    let session = world.session().await;
    let below = format!("/api/sessions/{session}");
    let mut stuck = Vec::new();
    for path in [
        "/api/message".to_owned(),
        format!("{below}/cancel"),
        format!("{below}/blobs"),
        "/api/login".to_owned(),
    ] {
        for _ in 0..20 {
            stuck.push((path.clone(), begin(&world, &path, 4_000, "{\"content\":\"").await));
        }
    }
    let begun = Instant::now();
    world.say(&session, "hello").await;
    world.until(&session, "idle").await;
    assert!(begun.elapsed() < PATIENCE / 4, "others wait");
    for (path, socket) in stuck {
        let answer = answer(socket).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{path}: {answer}");
        assert!(answer.contains("\"code\":\"timeout\""), "{path}: {answer}");
    }
    assert_eq!(world.said(&session).await.len(), 2, "nothing of them was taken");
}

#[tokio::test]
async fn a_client_of_the_gateway_is_told_in_its_own_dialect() {
    let world = world().await;
    let cases = [
        ("/v1/chat/completions", r#""code":"request_timeout""#),
        ("/v1/responses", r#""code":"request_timeout""#),
        ("/v1/messages", r#""type":"error","error":{"type":"timeout_error""#),
    ];
    let told = cases.map(async |(path, says)| {
        let mut chunked = TcpStream::connect(world.address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        );
        chunked.write_all(head.as_bytes()).await.unwrap();
        for piece in ["{\"model\"", ":\"default\",", "\"messages\":["] {
            chunked.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).await.unwrap();
            tokio::time::sleep(PATIENT / 10).await;
        }
        let begun = Instant::now();
        for socket in [chunked, begin(&world, path, 4_000, "{\"model\":").await] {
            let answer = answer(socket).await;
            assert!(answer.starts_with("HTTP/1.1 408"), "{path}: {answer}");
            assert!(answer.contains(says), "{path}: {answer}");
        }
        assert!(begun.elapsed() < PATIENT * 5, "{path}");
    });
    futures_util::future::join_all(told).await;
}

#[tokio::test]
async fn a_body_that_comes_slowly_is_taken() {
    let world = world().await;
    let session = world.session().await;
    let body = format!("{{\"sessionId\":\"{session}\",\"content\":\"slow words\"}}");
    let (first, rest) = body.split_at(body.len() - 8);
    let mut socket = begin(&world, "/api/message", body.len(), first).await;
    let begun = Instant::now();
    for byte in rest.as_bytes() {
        // Each byte comes in time, and all together take longer than one wait: the limit is for each piece.
        tokio::time::sleep(PATIENT / 7).await;
        socket.write_all(&[*byte]).await.unwrap();
    }
    assert!(begun.elapsed() > PATIENT);
    let answer = answer(socket).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
