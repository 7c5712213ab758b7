//! `/v1` of the real binary: whom it answers, and what comes through.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::bench::Bench;
use crate::fake::{Fake, Say};
use crate::serve::{end, start, token};

/// A request as the lines of its head and a body; the whole answer.
fn post(address: &str, path: &str, head: &[&str], body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let (length, lines) = (body.len(), head.join("\r\n"));
    let gap = if head.is_empty() { "" } else { "\r\n" };
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\nconnection: close\r\n{lines}{gap}\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap()
}

const CHAT: &str = "/v1/chat/completions";
const BODY: &str =
    r#"{"model":"fake-1","stream":true, "messages":[{"role":"user","content":"hello"}],"seed":1.50}"#;

#[test]
fn programs_of_this_machine_are_answered_and_foreign_pages_are_not() {
    let (bench, fake) = (Bench::new(), Fake::start([Say::Text("Through and through.")]));
    let (mut server, address, _said) = start(bench.with(&fake, &["serve", "--addr", "127.0.0.1:0"]));

    let answer = post(&address, CHAT, &["authorization: Bearer whatever"], BODY);
    assert_eq!(status(&answer), "200", "{answer}");
    assert!(answer.contains("Through") && answer.contains("[DONE]"), "{answer}");
    assert!(answer.contains("x-longhaul-action: none"), "{answer}");
    let asked = fake.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0], serde_json::from_str::<serde_json::Value>(BODY).unwrap(), "as it was sent");
    assert!(fake.authorisations().is_empty(), "the caller's key is not passed on");

    for (head, code) in
        [("origin: http://evil.example", "invalid_api_key"), ("origin: null", "invalid_api_key")]
    {
        let answer = post(&address, CHAT, &[head], BODY);
        assert_eq!(status(&answer), "403", "{answer}");
        assert!(answer.contains(code) && answer.contains(r#""error""#), "in the dialect: {answer}");
    }
    let answer = post(&address, CHAT, &["x-forwarded-for: 203.0.113.9"], BODY);
    assert_eq!(status(&answer), "401", "a proxy asks for somebody else: {answer}");
    let answer = post(&address, "/v1/embeddings", &[], "{}");
    assert!(status(&answer) == "404" && answer.contains(r#"{"error""#), "in the dialect: {answer}");
    assert_eq!(status(&post(&address, "/api/message", &[], "{}")), "401", "only the gateway is open");
    assert_eq!(fake.asked().len(), 1);
    end(&mut server);
}

#[test]
fn it_can_ask_for_the_token_as_a_key() {
    let (bench, fake) = (Bench::new(), Fake::start([]));
    let url = fake.url();
    let file = format!(
        "model: {{ name: fake-1, base_url: \"{url}\" }}\ngateway: {{ auth: token, credentials: forward }}\n"
    );
    bench.write("longhaul.yml", &file);
    let (mut server, address, _said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    let token = token(&bench);

    assert_eq!(status(&post(&address, CHAT, &[], BODY)), "401");
    assert_eq!(status(&post(&address, CHAT, &["authorization: Bearer wrong"], BODY)), "401");
    assert!(fake.asked().is_empty());
    assert_eq!(status(&post(&address, CHAT, &[&format!("authorization: Bearer {token}")], BODY)), "200");
    let answer = post(
        &address,
        "/v1/messages",
        &[&format!("x-api-key: {token}")],
        r#"{"model":"fake-1","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}"#,
    );
    assert!(status(&answer) == "200" && answer.contains("end_turn"), "another dialect: {answer}");
    assert_eq!(fake.asked().len(), 2);
    assert!(fake.authorisations().is_empty(), "the token stays here: {:?}", fake.authorisations());
    end(&mut server);
}
