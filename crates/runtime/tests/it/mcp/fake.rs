//! An MCP server over HTTP, in this process: it can be cut off and brought back.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, StatusCode};
use axum::routing::{any, post};
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::SCHEMA;

/// What every request must carry.
pub(super) const TOKEN: &str = "Bearer s3cret-token-1234";

/// A request as it came.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// A server on loopback, in a runtime of its own.
pub(super) struct FakeMcpServer {
    runtime: Option<tokio::runtime::Runtime>,
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    told: Mutex<Told>,
    notices: broadcast::Sender<String>,
    elsewhere: Mutex<String>,
}

#[derive(Default)]
struct Told {
    seen: Vec<Seen>,
    sessions: usize,
    changed: bool,
    /// What calls are answered with instead of an answer: status, content type and body.
    calls: Option<(u16, &'static str, String)>,
    /// The results of requests for tools, in turn; the last is repeated.
    lists: Vec<String>,
    /// What requests of an unknown session are answered with instead of 404.
    unknown_session: Option<(u16, String)>,
    knows_no_session: bool,
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap()
    }
}

impl FakeMcpServer {
    pub(super) fn start() -> Self {
        let shared =
            Shared { told: Mutex::default(), notices: broadcast::channel(16).0, elsewhere: Mutex::default() };
        let mut fake = Self { runtime: None, address: ([127, 0, 0, 1], 0).into(), shared: Arc::new(shared) };
        fake.come_back();
        fake
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Where `/moved` leads.
    pub(super) fn leads_to(&self, url: String) {
        *self.shared.elsewhere.lock().unwrap() = url;
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.shared.told().seen.clone()
    }

    /// Requests of one JSON-RPC method.
    pub(super) fn asked(&self, method: &str) -> Vec<Seen> {
        let is_it = |seen: &Seen| {
            serde_json::from_str::<Value>(&seen.body).is_ok_and(|message| message["method"] == method)
        };
        self.seen().into_iter().filter(is_it).collect()
    }

    /// Forgets its session: the next request with it is answered with 404.
    pub(super) fn forget_session(&self) {
        // The valid session is named after the counter, so a jump makes the client's session unknown.
        self.shared.told().sessions += 100;
    }

    /// Answers every call so. `{id}` in the body stands for the request's id.
    pub(super) fn answers_calls_with(&self, status: u16, content_type: &'static str, body: &str) {
        self.shared.told().calls = Some((status, content_type, body.to_owned()));
    }

    /// Answers requests for tools with these results in turn, and repeats the last.
    pub(super) fn answers_lists_with(&self, results: &[&str]) {
        self.shared.told().lists = results.iter().map(|result| (*result).to_owned()).collect();
    }

    /// Answers requests of an unknown session so, instead of with 404.
    pub(super) fn answers_unknown_sessions_with(&self, status: u16, body: &str) {
        self.shared.told().unknown_session = Some((status, body.to_owned()));
    }

    /// Forgets every session as soon as it has begun.
    pub(super) fn know_no_session(&self) {
        self.shared.told().knows_no_session = true;
    }

    /// Changes its tools without a word.
    pub(super) fn change(&self) {
        let mut told = self.shared.told();
        told.changed = !told.changed;
    }

    /// Breaks every connection and takes no more.
    pub(super) fn go_away(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The end of a separate runtime breaks all connections at once, as the end of a process does.
            runtime.shutdown_background();
        }
    }

    /// Listens, at the same address as before.
    pub(super) fn come_back(&mut self) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let app = Router::new()
            .route("/mcp", any(answer))
            .route("/mcp/", post(|| async { (StatusCode::TEMPORARY_REDIRECT, [("location", "/mcp")]) }))
            .route("/moved", post(moved))
            .with_state(Arc::clone(&self.shared));
        let (bound, address) = std::sync::mpsc::channel();
        let wanted = self.address;
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::bind(wanted).await.unwrap();
            // The port is known only after the bind, and is kept for the next `come_back`.
            bound.send(listener.local_addr().unwrap()).unwrap();
            axum::serve(listener, app).await.unwrap();
        });
        self.address = address.recv().unwrap();
        self.runtime = Some(runtime);
    }
}

impl Drop for FakeMcpServer {
    fn drop(&mut self) {
        self.go_away();
    }
}

async fn moved(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let to = shared.elsewhere.lock().unwrap().clone();
    Response::builder().status(307).header("location", to).body(Body::empty()).unwrap()
}

fn plain(status: u16, body: impl Into<Body>) -> Response<Body> {
    Response::builder().status(status).header("content-type", "text/plain").body(body.into()).unwrap()
}

fn as_json(id: &Value, result: &str) -> Response<Body> {
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    Response::builder().header("content-type", "application/json").body(body.into()).unwrap()
}

fn as_events(events: impl stream::Stream<Item = String> + Send + 'static) -> Response<Body> {
    let bytes = events.map(|data| Ok::<_, Infallible>(Bytes::from(format!("data: {data}\r\n\r\n"))));
    Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(bytes)).unwrap()
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    headers: HeaderMap,
    body: String,
) -> Response<Body> {
    let given = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    shared.told().seen.push(Seen { method: method.clone(), headers: headers.clone(), body: body.clone() });
    if given.as_deref() != Some(TOKEN) {
        return plain(401, format!("this is no token of ours: {}", given.unwrap_or_default()));
    }
    let message: Value = serde_json::from_str(&body).unwrap_or_default();
    if message["method"] == "initialize" {
        return initialize(&shared, &message["id"]);
    }
    let current = format!("session-{}", shared.told().sessions);
    let is_other = headers.get("mcp-session-id").is_none_or(|session| session.to_str().unwrap() != current);
    if is_other || (shared.told().knows_no_session && message["method"] == "tools/call") {
        let (status, body) = shared.told().unknown_session.clone().unwrap_or((404, "no such session".into()));
        let kind = if body.starts_with('{') { "application/json" } else { "text/plain" };
        return Response::builder().status(status).header("content-type", kind).body(body.into()).unwrap();
    }
    match method {
        Method::GET => notices(&shared),
        Method::DELETE => plain(200, ""),
        _ => asked(&shared, &message, body),
    }
}

fn initialize(shared: &Shared, id: &Value) -> Response<Body> {
    let mut told = shared.told();
    told.sessions += 1;
    let result = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": { "tools": { "listChanged": true } },
        "serverInfo": { "name": "fake", "version": "1" },
    });
    let mut response = as_json(id, &result.to_string());
    let session = format!("session-{}", told.sessions).parse().unwrap();
    response.headers_mut().insert("mcp-session-id", session);
    response
}

fn notices(shared: &Shared) -> Response<Body> {
    let heard = stream::unfold(shared.notices.subscribe(), |mut notices| async move {
        Some((notices.recv().await.ok()?, notices))
    });
    as_events(heard)
}

fn asked(shared: &Shared, message: &Value, body: String) -> Response<Body> {
    let id = &message["id"];
    let whole = |result: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] }).to_string();
    let instead = shared.told().calls.clone().filter(|_| message["method"] == "tools/call");
    if let Some((status, kind, body)) = instead {
        let body = body.replace("{id}", &id.to_string());
        return Response::builder().status(status).header("content-type", kind).body(body.into()).unwrap();
    }
    match (message["method"].as_str().unwrap_or_default(), message["params"]["name"].as_str()) {
        ("tools/list", _) if !shared.told().lists.is_empty() => {
            let mut told = shared.told();
            let is_last = told.lists.len() == 1;
            let result = if is_last { told.lists[0].clone() } else { told.lists.remove(0) };
            as_json(id, &result)
        }
        ("tools/list", _) => {
            let tools = tools(shared.told().changed);
            as_events(stream::iter([whole(&format!(r#"{{"tools":[{}]}}"#, tools.join(",")))]))
        }
        ("tools/call", Some("echo")) => as_json(id, &text(&body)),
        ("tools/call", Some("mirror")) => {
            // The letters of JSON's own are as good as any others.
            let escaped = TOKEN.replace('s', "\\u0073");
            let content = format!(r#"{{"type":"text","text":"{TOKEN} {escaped}"}}"#);
            as_json(
                id,
                &format!(
                    r#"{{"content":[{content}],"structuredContent":{{"sent":"{TOKEN}","by":"mirror"}}}}"#
                ),
            )
        }
        ("tools/call", Some("half")) => as_json(id, r#"{"structuredContent":"\ud800"}"#),
        ("tools/call", Some("half-stream")) => {
            as_events(stream::iter([whole(r#"{"structuredContent":"\ud800"}"#)]))
        }
        ("tools/call", Some("broken-stream")) => as_events(stream::iter([whole("NaN")])),
        ("tools/call", Some("stream")) => {
            let event = whole(r#"{"structuredContent":{"price": 1.10}}"#);
            as_events(stream::iter([progress(message), event]))
        }
        ("tools/call", Some("wait")) => as_events(stream::iter([progress(message)]).chain(stream::pending())),
        ("tools/call", Some("fail")) => plain(500, "out of order"),
        ("tools/call", Some("change")) => {
            let mut told = shared.told();
            told.changed = !told.changed;
            let notice = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
            shared.notices.send(notice.to_string()).unwrap();
            as_json(id, &text("changed"))
        }
        _ => plain(202, ""),
    }
}

fn progress(message: &Value) -> String {
    let token = &message["params"]["_meta"]["progressToken"];
    let params = json!({ "progressToken": token, "progress": 1 });
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }).to_string()
}

fn tools(changed: bool) -> Vec<String> {
    let mut names =
        vec!["echo", "stream", "wait", "fail", "change", "mirror", "half", "half-stream", "broken-stream"];
    if changed {
        names.push("extra");
    }
    names.iter().map(|name| format!(r#"{{"name":"{name}","inputSchema":{SCHEMA}}}"#)).collect()
}
