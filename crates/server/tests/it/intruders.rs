//! Those who may not ask, at every address that the description has, and what tries to become a header.

use longhaul_providers::scripted::ModelScript;
use reqwest::Method;
use serde_json::{Value, json};

use crate::refusals::{check, raw};
use crate::test_server::{TOKEN, TestServer};

/// What answers without the token.
const OPEN: [&str; 7] =
    ["/healthz", "/readyz", "/", "/web/{path}", "/open/{key}", "/api/login", "/api/logout"];

/// Those that answer under any name, and say nothing.
const HEALTH: [&str; 2] = ["/healthz", "/readyz"];

/// What the description says of one operation.
struct Operation {
    path: String,
    /// As a request begins: `GET /api/sessions`.
    head: String,
    wants_token: bool,
}

fn operations() -> Vec<Operation> {
    let document: Value = serde_json::from_str(longhaul_server::openapi()).unwrap();
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let address: Vec<&str> =
            path.split('/').map(|word| if word.starts_with('{') { "x1" } else { word }).collect();
        for (method, operation) in item.as_object().unwrap() {
            all.push(Operation {
                path: path.clone(),
                head: format!("{} {}", method.to_uppercase(), address.join("/")),
                wants_token: operation["security"].as_array().is_some_and(|ways| !ways.is_empty()),
            });
        }
    }
    assert!(all.len() > 30);
    all
}

async fn world() -> TestServer {
    TestServer::new(ModelScript::always("Yes.")).await
}

/// The cookie of the page, for a server that is asked as `localhost`.
async fn cookie(world: &TestServer) -> String {
    let body = json!({ "token": TOKEN }).to_string();
    let (_, head, _) = raw(world, "POST /api/login", &[("Host", "localhost")], body.as_bytes()).await;
    let line = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    line.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn every_described_operation_wants_the_token() {
    let world = world().await;
    let (longer, shorter) = (format!("Bearer {TOKEN}x"), format!("Bearer {}", &TOKEN[1..]));
    let (as_cookie, basic) = (format!("longhaul={TOKEN}"), format!("Basic {TOKEN}"));
    for Operation { path, head, wants_token } in operations() {
        assert_eq!(wants_token, !OPEN.contains(&path.as_str()), "{head} is described otherwise");
        if !wants_token {
            continue;
        }
        for shown in [
            None,
            Some(("Authorization", longer.as_str())),
            Some(("Authorization", shorter.as_str())),
            Some(("Authorization", basic.as_str())),
            Some(("Authorization", "Bearer ")),
            Some(("Authorization", TOKEN)),
            Some(("Cookie", as_cookie.as_str())),
            Some(("Cookie", "longhaul=")),
            Some(("X-Api-Key", TOKEN)),
        ] {
            let headers: Vec<_> = [("Host", "localhost")].into_iter().chain(shown).collect();
            check(&format!("{head} {shown:?}"), 401, &raw(&world, &head, &headers, b"{}").await);
        }
        // A token in an address would end in logs and histories, so it must not count there.
        let in_address = format!("{head}?token={}", TOKEN.replace(' ', "%20"));
        check(&in_address, 401, &raw(&world, &in_address, &[("Host", "localhost")], b"{}").await);
    }
}

#[tokio::test]
async fn no_described_operation_answers_under_a_rebound_name_or_to_a_foreign_page() {
    let world = world().await;
    let bearer = format!("Bearer {TOKEN}");
    for Operation { path, head, .. } in operations() {
        if HEALTH.contains(&path.as_str()) {
            continue;
        }
        // A page can point its own name at this machine. The token is right here, and the name alone must refuse.
        for host in
            ["rebound.example", "localhost.rebound.example", "127.0.0.1.rebound.example:4400", "10.0.0.7"]
        {
            let headers = [("Host", host), ("Authorization", bearer.as_str())];
            check(&format!("{head} as {host}"), 403, &raw(&world, &head, &headers, b"{}").await);
        }
        for origin in ["https://evil.example", "http://localhost:1", "https://localhost.evil.example", "null"]
        {
            let headers = [("Host", "localhost"), ("Authorization", &bearer), ("Origin", origin)];
            check(&format!("{head} from {origin}"), 403, &raw(&world, &head, &headers, b"{}").await);
        }
    }
}

/// What a browser sends for any page without asking before: forms, and reading.
#[tokio::test]
async fn what_browsers_send_for_foreign_pages_does_nothing() {
    let world = world().await;
    let session = world.session().await;
    let cookie = cookie(&world).await;
    let body = json!({ "sessionId": session, "content": "sent by a page", "title": "Taken" }).to_string();
    let foreign: [&[(&str, &str)]; 5] = [
        &[("Origin", "https://evil.example")],
        &[("Origin", "null")],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Sec-Fetch-Site", "same-site"), ("Origin", "http://localhost:1")],
        &[],
    ];
    for Operation { head, wants_token, .. } in operations() {
        let head = head.replace("/x1", &format!("/{session}"));
        if !wants_token || head.starts_with("GET") {
            continue;
        }
        // Browsers send these three for any page without a preflight.
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
            for signs in foreign {
                let mut headers = vec![("Host", "localhost"), ("Cookie", &cookie), ("Content-Type", kind)];
                headers.extend_from_slice(signs);
                let what = format!("{head} {kind} {signs:?}");
                check(&what, 403, &raw(&world, &head, &headers, body.as_bytes()).await);
            }
        }
    }
    let events = format!("GET /api/sessions/{session}/events?after=0");
    for signs in &foreign[..4] {
        let mut headers = vec![("Host", "localhost"), ("Cookie", &cookie), ("Accept", "text/event-stream")];
        headers.extend_from_slice(signs);
        check(&format!("{events} {signs:?}"), 403, &raw(&world, &events, &headers, b"").await);
    }
    let shown = world.get(&format!("/api/sessions/{session}")).await;
    assert_eq!((&shown["title"], &shown["lastSeq"]), (&Value::Null, &json!(1)), "nothing was done");
    assert_eq!(world.get("/api/sessions").await["sessions"].as_array().unwrap().len(), 1);
}

/// As it stands in an address, and in a text.
const BREAK: &str = "%0d%0aevil:%20yes%0d%0a%0d%0a";
const BROKEN: &str = "x\r\nevil: yes\r\n\r\n<p>";

async fn ask(world: &TestServer, head: &str, body: &Value) -> (u16, String, Value) {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("Host", "localhost"), ("Authorization", &bearer), ("Content-Type", "application/json")];
    let answer = raw(world, head, &headers, body.to_string().as_bytes()).await;
    let is_clean = answer.1.lines().all(|line| !line.to_lowercase().starts_with("evil"));
    assert!(is_clean && answer.0 < 500, "{head}: {}", answer.1);
    answer
}

#[tokio::test]
async fn nothing_that_is_sent_breaks_out_of_a_header() {
    let world = world().await;
    for Operation { path, head, .. } in operations() {
        let head = head.replace("/x1", &format!("/{BREAK}"));
        if path.ends_with("/events") {
            continue;
        }
        for head in
            [head.clone(), format!("{head}?{BREAK}={BREAK}&sessionId={BREAK}&name={BREAK}&format={BREAK}")]
        {
            ask(&world, &head, &json!({})).await;
        }
    }
    let media = |kind: &str, name: &str| json!({ "content": [{ "type": "file", "data": "aGk=", "mediaType": kind, "name": name }] });
    for (head, body) in [
        ("POST /api/sessions", json!({ "title": BROKEN })),
        ("POST /api/message", media(BROKEN, "a.txt")),
        ("POST /api/message", media("text/plain\r\nevil: yes", "a.txt")),
        ("POST /api/message", media("text/plain", BROKEN)),
        ("POST /api/message", media("text/plain", "a\u{85}b")),
    ] {
        check(&format!("{head} {body}"), 400, &ask(&world, head, &body).await);
    }
    // Taken as words: the first message's are the title.
    for words in [BROKEN, "\"; filename=\"evil.exe\"; x=\"", "a\u{2028}evil: yes", "ünïcode 📎.md"] {
        let sent = ask(&world, "POST /api/message", &json!({ "content": words })).await.2;
        let session = sent["sessionId"].as_str().unwrap();
        world.until(session, "idle").await;
        for (format, ending) in [("markdown", "md"), ("jsonl", "jsonl")] {
            let path = format!("/api/sessions/{session}/export?format={format}");
            let file = world.request(Method::GET, &path).send().await.unwrap();
            let expected = format!("attachment; filename=\"{session}.{ending}\"");
            assert_eq!(file.headers()["content-disposition"], expected.as_str(), "{words:?}");
            assert!(!file.headers().contains_key("evil"));
        }
    }
}
