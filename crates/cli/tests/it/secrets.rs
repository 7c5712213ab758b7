//! What nobody may read: planted wherever the server is given a secret, provoked wherever it may slip out, and looked
//! for in everything that it wrote, answered and sent.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use longhaul_testkit::ScriptedUpstream;
use serde_json::{Value, json};

use crate::bench::{Bench, signal, until};
use crate::fake::{Fake, Say};
use crate::serve::ask;
use crate::telemetry::{collected, start_collector};

const KEY: &str = "planted-api-key-7f3a91";
const MODEL_HEADER: &str = "planted-model-header-7f3a92";
const HOOK_ADDRESS: &str = "planted-hook-address-7f3a93";
const HOOK_COMMAND: &str = "planted-hook-command-7f3a94";
const MCP_VARIABLE: &str = "planted-mcp-variable-7f3a95";
const MCP_ADDRESS: &str = "planted-mcp-address-7f3a96";
const MCP_HEADER: &str = "planted-mcp-header-7f3a97";
const OTHER_VARIABLE: &str = "planted-other-variable-7f3a98";
const WRONG_TOKEN: &str = "planted-wrong-token-7f3a99";
const CLIENT_KEY: &str = "planted-client-key-7f3a9a";
const CLIENT_OTHER_KEY: &str = "planted-client-other-key-7f3a9b";

/// What the gateway is asked by clients that bring keys of their own, and how the model's server answers.
fn of_clients() -> Vec<(&'static str, String, Value, Say)> {
    let bearer = || format!("authorization: Bearer {CLIENT_KEY}\r\n");
    let other = || format!("x-api-key: {CLIENT_OTHER_KEY}\r\nanthropic-version: 2023-06-01\r\n");
    let said = |more: Value| {
        let mut body =
            json!({ "model": "fake-1", "messages": [{ "role": "user", "content": "through the gateway" }] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let responses = json!({ "model": "fake-1", "input": "through the gateway" });
    vec![
        ("POST /v1/chat/completions", bearer(), said(json!({})), Say::Refuse(401, ECHO)),
        ("POST /v1/chat/completions", bearer(), said(json!({ "stream": true })), Say::Refuse(400, ECHO)),
        (
            "POST /v1/chat/completions",
            bearer(),
            said(json!({ "stream": true })),
            Say::Text("It went through."),
        ),
        ("POST /v1/responses", bearer(), responses, Say::Refuse(403, ECHO)),
        ("POST /v1/messages", other(), said(json!({ "max_tokens": 16 })), Say::Refuse(401, ECHO)),
        (
            "POST /v1/messages",
            other(),
            said(json!({ "max_tokens": 16, "stream": true })),
            Say::Refuse(400, ECHO),
        ),
    ]
}

/// What servers say that repeat what they were sent.
const ECHO: &str = "Incorrect API key provided: planted-api-key-7f3a91 (authorization: Bearer planted-api-key-7f3a91, \
                    x-extra-key: planted-model-header-7f3a92)";

/// Everything with a secret in it; the model server repeats them in its errors, the tool looks for them.
fn file(fake: &Fake, collector: &ScriptedUpstream) -> String {
    let (url, otlp) = (fake.url(), collector.url(""));
    format!(
        "name: planted
model:
  name: fake-1
  base_url: '{url}'
  api_key_env: PLANTED_KEY
  headers: {{ x-extra-key: {MODEL_HEADER} }}
retry: {{ patience: 200ms, maxDelay: 100ms, streamAttempts: 0 }}
hooks:
  preToolUse: {{ url: '{url}/hook?key={HOOK_ADDRESS}' }}
  postToolUse: {{ url: 'http://127.0.0.1:9/{HOOK_ADDRESS}' }}
  userPromptSubmit: {{ command: 'TOKEN={HOOK_COMMAND}; echo $TOKEN >&2; exit 1' }}
mcpServers:
  loud: {{ command: /bin/sh, args: ['-c', 'echo it has $MCP_TOKEN >&2; echo $MCP_TOKEN; exit 3'], env: {{ MCP_TOKEN: {MCP_VARIABLE} }}, optional: true }}
  far: {{ url: '{url}/mcp?api_key={MCP_ADDRESS}', headers: {{ authorization: 'Bearer {MCP_HEADER}' }}, optional: true }}
telemetry: {{ otlp: '{otlp}', content: true }}
agents:
  other: {{ model: {{ name: fake-1, base_url: '{url}', api_key_env: NOT_THERE, headers: {{ x-extra-key: {MODEL_HEADER} }} }} }}
"
    )
}

/// A request as it is written, and all that comes back. A stream of a session's events does not end: it is read until
/// nothing comes for a while.
fn exchange(address: &str, head: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let is_endless = head.contains("/events");
    stream.set_read_timeout(Some(Duration::from_secs(if is_endless { 3 } else { 30 }))).unwrap();
    let length = body.len();
    write!(stream, "{head} HTTP/1.1\r\nhost: {address}\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}").unwrap();
    let mut answer = Vec::new();
    let end = stream.read_to_end(&mut answer);
    assert!(is_endless || end.is_ok(), "{head}: {end:?}");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Every answer to a GET that the description has, about `session`.
fn everything_answered(address: &str, token: &str, session: &str) -> BTreeMap<String, String> {
    let (_, description) = ask(address, "GET", "/openapi.json", token, "");
    let bearer = format!("authorization: Bearer {token}\r\n");
    let mut answers = BTreeMap::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        if item.get("get").is_none() {
            continue;
        }
        let path = path.replace("{id}", session).replace("{path}", "index.html").replace("{key}", "none");
        let asked: &[&str] = match path.rsplit('/').next().unwrap() {
            "events" => &["?after=0"],
            "export" => &["?format=jsonl", "?format=markdown"],
            "queue" => &["?sessionId=SESSION"],
            "search" => &["?q=key", "?q=planted"],
            "recall" => &["?query=planted%20key"],
            "messages" => &["?render=html"],
            _ => &[""],
        };
        for query in asked {
            let head = format!("GET {path}{}", query.replace("SESSION", session));
            answers.insert(head.clone(), exchange(address, &head, &bearer, ""));
        }
    }
    answers
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap_or_default();
            found.insert(path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    found
}

/// The session of a message, at rest again.
fn say(address: &str, token: &str, session: Option<&str>, content: &str) -> String {
    let (status, sent) = ask(
        address,
        "POST",
        "/api/message",
        token,
        &json!({ "sessionId": session, "content": content }).to_string(),
    );
    assert_eq!(status, 200, "{sent}");
    let session = sent["sessionId"].as_str().unwrap().to_owned();
    until("it rests", || {
        ask(address, "GET", &format!("/api/sessions/{session}"), token, "").1["status"] == "idle"
    });
    session
}

#[test]
fn no_secret_is_in_any_log_file_event_answer_or_export() {
    let bench = Bench::new();
    // The server's environment holds the keys, and `/proc` shows the environment of every process of the same
    // user.
    let snoop = "env; cat /proc/$PPID/environ; cat /proc/*/environ; echo done";
    let own = [
        Say::Refuse(401, ECHO),
        Say::Refuse(500, ECHO),
        Say::Refuse(429, ECHO),
        Say::Refuse(400, ECHO),
        Say::Call("bash", json!({ "command": snoop })),
        Say::Text("There was nothing."),
    ];
    let (clients, says): (Vec<_>, Vec<_>) =
        of_clients().into_iter().map(|(head, headers, body, say)| ((head, headers, body), say)).unzip();
    let fake = Fake::start(own.into_iter().chain(says));
    let collector = start_collector();
    let place = bench.write("planted.yml", &file(&fake, &collector));
    let mut command =
        bench.command(["--config", place.to_str().unwrap(), "serve", "--addr", "127.0.0.1:0", "--yes"]);
    command.env("PLANTED_KEY", KEY).env("OTHER_SECRET_TOKEN", OTHER_VARIABLE).env("LONGHAUL_LOG", "trace");
    let mut server = command.spawn().unwrap();
    let mut stderr = server.stderr.take().unwrap();
    let log = std::thread::spawn(move || {
        let mut log = Vec::new();
        stderr.read_to_end(&mut log).unwrap();
        String::from_utf8_lossy(&log).into_owned()
    });
    let mut stdout = BufReader::new(server.stdout.take().unwrap());
    let mut out = String::new();
    stdout.read_line(&mut out).unwrap();
    let address = out.trim().strip_prefix("http://").unwrap().to_owned();
    let token = std::fs::read_to_string(bench.data().join("token")).unwrap().trim().to_owned();

    let login = exchange(&address, "POST /api/login", "", &json!({ "token": token }).to_string());
    let cookie = login.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap().to_owned();
    let cookie_value = cookie.split_once('=').unwrap().1.to_owned();
    let session = say(&address, &token, None, "refused");
    for words in ["fails and is refused", "refused once more", "look around"] {
        say(&address, &token, Some(&session), words);
    }
    let mut answers = everything_answered(&address, &token, &session);
    for (head, headers, body) in [
        ("GET /api/sessions", format!("authorization: Bearer {WRONG_TOKEN}\r\n"), ""),
        ("GET /api/models", format!("cookie: {cookie}\r\n"), ""),
        ("POST /api/sessions", format!("cookie: {cookie}\r\norigin: http://evil.example\r\n"), "{}"),
        ("POST /api/login", String::new(), "{\"token\":\"planted-wrong-token-7f3a99\"}"),
        ("POST /api/logout", format!("cookie: {cookie}\r\n"), ""),
        ("POST /api/sessions", format!("authorization: Bearer {token}\r\n"), "{\"agent\":\"other\"}"),
    ] {
        answers.insert(format!("{head} {body}"), exchange(&address, head, &headers, body));
    }
    let told_of_sessions = fake.asked().len();
    for (at, (head, headers, body)) in clients.iter().enumerate() {
        let answer = exchange(&address, head, headers, &body.to_string());
        answers.insert(format!("{head} {at}"), answer);
    }
    for (head, headers) in [
        ("GET /v1/models", format!("authorization: Bearer {CLIENT_KEY}\r\n")),
        ("POST /v1/embeddings", format!("authorization: Bearer {CLIENT_KEY}\r\n")),
        ("POST /v1/messages/count_tokens", format!("x-api-key: {CLIENT_OTHER_KEY}\r\n")),
        ("GET /metrics", format!("authorization: Bearer {token}\r\n")),
    ] {
        let body =
            json!({ "model": "fake-1", "messages": [{ "role": "user", "content": "count" }] }).to_string();
        let body = if head.starts_with("POST") { body.as_str() } else { "" };
        let answer = exchange(&address, head, &headers, body);
        answers.insert(format!("{head} of a client"), answer);
    }
    signal(&server, "TERM");
    assert!(server.wait().unwrap().success());
    stdout.read_to_string(&mut out).unwrap();
    answers.insert("standard output".to_owned(), out);
    answers.insert("the log".to_owned(), log.join().unwrap());
    answers.insert("spans".to_owned(), collected(&collector, "/v1/traces"));
    answers.insert("metrics".to_owned(), collected(&collector, "/v1/metrics"));
    answers.extend(files(&bench.data()).into_iter().filter(|(path, _)| !path.ends_with("/token")));

    // All of it was there to slip out, and where it would be was looked at.
    assert!(fake.authorisations().iter().all(|sent| sent == &format!("Bearer {KEY}")));
    assert_eq!(told_of_sessions, 6, "{:?}", answers["the log"]);
    let through = fake.asked().split_off(told_of_sessions);
    assert!(through.len() >= clients.len(), "{answers:?}");
    assert!(through.iter().all(|asked| asked.to_string().contains("through the gateway")), "{through:?}");
    let seen = |what: &str, word: &str| {
        answers.iter().any(|(name, text)| name.starts_with(what) && text.contains(word))
    };
    for (what, word) in [
        ("the log", "TRACE"),
        ("the log", "hook"),
        ("the log", "loud"),
        ("the log", "far"),
        ("spans", "look around"),
        (&format!("GET /api/sessions/{session}/events"), "[redacted]"),
        (&format!("GET /api/sessions/{session}/events"), "llm:tool-result"),
        (&format!("GET /api/sessions/{session}/export?format=jsonl"), "look around"),
        ("GET /metrics", "longhaul"),
        ("GET /openapi.json", "3.1"),
        ("GET /api/agents", "other"),
        ("POST /v1/chat/completions 0", "Incorrect API key"),
        ("POST /v1/chat/completions 1", "Incorrect API key"),
        ("POST /v1/chat/completions 2", "through."),
        ("POST /v1/responses 3", "Incorrect API key"),
        ("POST /v1/messages 4", "Incorrect API key"),
        ("POST /v1/messages 5", "Incorrect API key"),
        ("GET /v1/models of a client", "fake-1"),
        ("POST /v1/messages/count_tokens of a client", "input_tokens"),
    ] {
        let of = || answers.iter().filter(|(name, _)| name.starts_with(what)).collect::<Vec<_>>();
        assert!(seen(what, word), "{word} is not in {what}: {:.2000?} of {:?}", of(), answers.keys());
    }
    let planted = [
        KEY,
        MODEL_HEADER,
        HOOK_ADDRESS,
        HOOK_COMMAND,
        MCP_VARIABLE,
        MCP_ADDRESS,
        MCP_HEADER,
        OTHER_VARIABLE,
        WRONG_TOKEN,
        CLIENT_KEY,
        CLIENT_OTHER_KEY,
        token.as_str(),
        cookie_value.as_str(),
    ];
    let mut slipped = Vec::new();
    for (name, text) in &answers {
        for secret in planted.iter().filter(|secret| text.contains(**secret)) {
            let at = text.find(secret).unwrap();
            let around: String =
                text[..at].chars().rev().take(160).collect::<Vec<_>>().into_iter().rev().collect();
            slipped.push(format!("{secret} in {name}: …{around}"));
        }
    }
    assert!(slipped.is_empty(), "{slipped:#?}");
}
