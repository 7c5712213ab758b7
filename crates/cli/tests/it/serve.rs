//! `longhaul serve`: one line when it is ready, a token, a message, and an end that leaves nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::Value;

use crate::bench::{Bench, signal};
use crate::fake::{Fake, Say};

/// One request; status and body.
fn ask(address: &str, method: &str, path: &str, token: &str, body: &str) -> (u16, Value) {
    ask_as(address, address, method, path, token, body)
}

/// The same, under the name of another host.
fn ask_as(address: &str, host: &str, method: &str, path: &str, token: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[test]
fn it_serves_behind_its_token_and_ends_when_told() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("Served.")]);
    let mut server =
        bench.with(&fake, &["serve", "--addr", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").unwrap().to_owned();
    let token = std::fs::read_to_string(bench.data().join("token")).unwrap();
    let token = token.trim();

    assert_eq!(ask(&address, "GET", "/healthz", "", "").0, 200);
    assert_eq!(ask(&address, "GET", "/api/sessions", "wrong", "").0, 401);
    let (status, sent) = ask(&address, "POST", "/api/message", token, r#"{"content":"hello"}"#);
    assert_eq!(status, 200, "{sent}");
    assert_eq!(sent["ok"], true);
    let path = format!("/api/sessions/{}", sent["sessionId"].as_str().unwrap());
    crate::bench::until("the answer is there", || {
        let (_, messages) = ask(&address, "GET", &format!("{path}/messages"), token, "");
        messages.to_string().contains("Served.")
    });
    signal(&server, "TERM");
    assert!(server.wait().unwrap().success());
    let mut said = String::new();
    server.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let file = bench.data().join("token");
    assert!(said.contains(file.to_str().unwrap()) && !said.contains(token), "where it is, not what: {said}");
}

#[test]
fn beyond_this_machine_it_wants_a_token_file() {
    let refused = Bench::new().run(&["--provider", "scripted", "serve", "--addr", "0.0.0.0:0"]).exits(2);
    assert!(refused.err.contains("--token-file"), "{}", refused.err);
}

#[test]
fn the_agent_file_says_where_it_listens_and_whom_it_answers() {
    let bench = Bench::new();
    let token = "a token of my own, long enough".replace(' ', "-");
    let folder = bench.data().parent().unwrap().to_owned();
    std::fs::write(folder.join("token.txt"), &token).unwrap();
    let file = bench.write(
        "longhaul.yml",
        "model: { provider: scripted }
server: { addr: '127.0.0.1:1', tokenFile: ../token.txt, allowedHosts: [box.lan], allowedOrigins: ['https://page.example'], maxBodyBytes: 2048 }
",
    );
    let config = file.to_str().unwrap();
    // The command line wins: nobody may listen at port 1.
    let args = ["--config", config, "serve", "--addr", "127.0.0.1:0"];
    let mut server = bench.command(args).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").unwrap().to_owned();
    let list = |host| ask_as(&address, host, "GET", "/api/sessions", &token, "").0;
    assert_eq!((list("box.lan"), list("other.lan")), (200, 403));
    let large = format!(r#"{{"content":"{}"}}"#, "x".repeat(4_096));
    assert_eq!(ask(&address, "POST", "/api/message", &token, &large).0, 413);
    assert!(!bench.data().join("token").exists(), "it needs no token of its own");
    signal(&server, "TERM");
    assert!(server.wait().unwrap().success());
}

#[test]
fn a_file_that_was_merely_found_does_not_open_the_server() {
    let bench = Bench::new();
    for (server, why) in [
        ("addr: '0.0.0.0:0', tokenFile: ../token.txt", "lets other machines reach the server"),
        ("tokenFile: ../token.txt", "takes the server's token from"),
        ("allowedHosts: [evil.example]", "answer to the name evil.example"),
        ("allowedOrigins: ['https://evil.example']", "pages of https://evil.example"),
    ] {
        bench.write("longhaul.yml", &format!("model: {{ provider: scripted }}\nserver: {{ {server} }}\n"));
        let refused = bench.run(&["serve", "--addr", "127.0.0.1:0"]).exits(2);
        assert!(refused.err.contains(why), "{}", refused.err);
    }
    bench.write("longhaul.yml", "server: { db: 'postgres://me:secret@db/longhaul' }\n");
    let later = bench.run(&["serve"]).exits(2);
    assert!(later.err.contains("not available yet") && !later.err.contains("secret"), "{}", later.err);
}
