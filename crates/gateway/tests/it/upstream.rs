//! An upstream that does what a test says, and keeps what it was sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use bytes::Bytes;
use futures_util::StreamExt;
use http::HeaderValue;
use longhaul_core::attempt::RetryPolicy;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::PruningAgentStrategy;
use longhaul_gateway::{
    ClientRequest, Gateway, GatewayDependencies, GatewayOptions, GatewayReply, ReplyBody, UpstreamOptions,
};
use longhaul_providers::connect::Kind;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

/// What the upstream does with a request.
pub(crate) enum Does {
    /// An answer that is no stream.
    Json(u16, Value),
    /// Anything.
    Text(u16, &'static str, String),
    /// A stream, so long between two events.
    Events(Vec<String>, Duration),
    /// A stream that breaks off after these events.
    Breaks(Vec<String>),
    /// A stream that says these events and then nothing more, nor ends.
    Stalls(Vec<String>),
    /// Nothing at all.
    Hangs,
    /// Anything, with these headers.
    Head(u16, Vec<(&'static str, String)>, Bytes),
    /// A stream that says this, and then the other for ever, so long between two.
    Endless(String, Bytes, Duration),
    /// The same, but only after a while.
    After(Duration, Box<Does>),
    /// The same, but only when the test says so.
    When(tokio::sync::watch::Receiver<bool>, Box<Does>),
}

/// What the upstream was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Sent {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn messages(&self) -> Vec<Value> {
        self.json()["messages"].as_array().unwrap().clone()
    }
}

type Script = Arc<dyn Fn(usize, &Value) -> Does + Send + Sync>;

pub(crate) struct Server {
    pub(crate) url: String,
    sent: Arc<Mutex<Vec<Sent>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// `script` is given the number of the request, from 0, and its body.
    pub(crate) async fn start(script: impl Fn(usize, &Value) -> Does + Send + Sync + 'static) -> Self {
        Self::start_with("/none", Value::Null, script).await
    }

    /// The same with a page that says what the server is.
    pub(crate) async fn start_with(
        page: &str,
        says: Value,
        script: impl Fn(usize, &Value) -> Does + Send + Sync + 'static,
    ) -> Self {
        let sent: Arc<Mutex<Vec<Sent>>> = Arc::default();
        let state: (Script, Arc<Mutex<Vec<Sent>>>) = (Arc::new(script), Arc::clone(&sent));
        let app = Router::new()
            .route(page, axum::routing::get(async move || axum::Json(says)))
            .fallback(axum::routing::get(async || StatusCode::NOT_FOUND).post(answer))
            // Long conversations exceed axum's default limit of 2 MB.
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(state);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, sent, task }
    }

    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }

    /// An upstream of this server with a declared window.
    pub(crate) fn upstream(&self, window: u64) -> UpstreamOptions {
        let mut upstream = UpstreamOptions::new("up", Kind::OpenAiCompatible, self.url.as_str());
        let declared = &mut upstream.endpoint.declared;
        (declared.window, declared.tools, declared.images) = (Some(window), Some(true), Some(true));
        // A hang fails a test sooner than after the minutes that a model may take.
        upstream.endpoint.timeouts.first_byte = Some(Duration::from_secs(30));
        upstream.endpoint.timeouts.idle = Duration::from_secs(30);
        upstream
    }

    /// A gateway before this server only.
    pub(crate) fn gateway(&self, window: u64) -> Gateway {
        gateway(waiting(vec![self.upstream(window)]))
    }

    /// The same where nobody states its window.
    pub(crate) fn unstated_gateway(&self) -> Gateway {
        let upstream = UpstreamOptions::new("up", Kind::OpenAiCompatible, self.url.as_str());
        gateway(waiting(vec![upstream]))
    }
}

/// A gateway's settings with which a request waits for the summary that it needs, written by a pruning agent: what a test
/// sees happens within the request.
pub(crate) fn waiting(upstreams: Vec<UpstreamOptions>) -> GatewayOptions {
    let policy = CompactionPolicy::new(Arc::new(PruningAgentStrategy::default()));
    // A broken answer is not asked for again unless a test says so: each wait would take seconds.
    let retry = RetryPolicy { stream_attempts: 0, ..RetryPolicy::default() };
    GatewayOptions { policy, waits_for_summaries: true, retry, ..GatewayOptions::new(upstreams) }
}

pub(crate) fn gateway(config: GatewayOptions) -> Gateway {
    Gateway::new(config, GatewayDependencies::default()).unwrap()
}

async fn answer(
    State((script, sent)): State<(Script, Arc<Mutex<Vec<Sent>>>)>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let number = {
        let mut sent = sent.lock().unwrap();
        sent.push(Sent { path: uri.path().to_owned(), headers, body });
        // The number is taken under the lock, because requests may come at the same time.
        sent.len() - 1
    };
    respond(script(number, &value)).await
}

async fn respond(does: Does) -> Response<Body> {
    let stream =
        |body: Body| Response::builder().header("content-type", "text/event-stream").body(body).unwrap();
    let bytes = |events: Vec<String>| {
        futures_util::stream::iter(
            events.into_iter().map(|event| Ok::<_, std::io::Error>(Bytes::from(event))),
        )
    };
    match does {
        Does::Json(status, value) => Response::builder()
            .status(status)
            .header("content-type", "application/json")
            .header("x-request-id", "r1")
            .body(Body::from(value.to_string()))
            .unwrap(),
        Does::Text(status, kind, text) => {
            Response::builder().status(status).header("content-type", kind).body(Body::from(text)).unwrap()
        }
        Does::Events(events, gap) => {
            let slow = bytes(events).then(move |event| async move {
                if !gap.is_zero() {
                    tokio::time::sleep(gap).await;
                }
                event
            });
            stream(Body::from_stream(slow))
        }
        Does::Breaks(events) => {
            let broken = futures_util::stream::once(async {
                // The events before must have left before the connection breaks, or they would be lost with it.
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(std::io::Error::other("broken"))
            });
            stream(Body::from_stream(bytes(events).chain(broken)))
        }
        Does::Stalls(events) => {
            stream(Body::from_stream(bytes(events).chain(futures_util::stream::pending())))
        }
        Does::Hangs => std::future::pending().await,
        Does::Head(status, headers, body) => {
            let response = Response::builder().status(status);
            let response = headers.into_iter().fold(response, |all, (name, value)| all.header(name, value));
            response.body(Body::from(body)).unwrap()
        }
        Does::Endless(first, more, gap) => {
            let more = futures_util::stream::repeat(more).then(move |more| async move {
                tokio::time::sleep(gap).await;
                Ok(more)
            });
            stream(Body::from_stream(bytes(vec![first]).chain(more)))
        }
        Does::When(mut says, does) => {
            // A test that is over says nothing more.
            let _is_over = says.wait_for(|is_said| *is_said).await.is_err();
            Box::pin(respond(*does)).await
        }
        Does::After(time, does) => {
            tokio::time::sleep(time).await;
            Box::pin(respond(*does)).await
        }
    }
}

/// A call of a Chat Completions client.
pub(crate) fn chat(body: impl Into<Bytes>) -> ClientRequest {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_static("Bearer caller"));
    headers.insert("x-client", HeaderValue::from_static("c"));
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    ClientRequest { dialect: Dialect::Chat, headers, body: body.into() }
}

pub(crate) fn request(messages: &[Value], stream: bool) -> Bytes {
    json!({ "model": "m", "messages": messages, "stream": stream }).to_string().into()
}

pub(crate) fn header<'r>(reply: &'r GatewayReply, name: &str) -> &'r str {
    reply.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
}

/// All bytes of a reply.
pub(crate) async fn body(reply: GatewayReply) -> Bytes {
    match reply.body {
        ReplyBody::Whole(bytes) => bytes,
        ReplyBody::Stream(mut stream) => {
            let mut all = Vec::new();
            while let Some(bytes) = stream.next().await {
                all.extend_from_slice(&bytes.unwrap());
            }
            all.into()
        }
    }
}

/// The first pieces of a streamed reply, as one text.
pub(crate) async fn beginning(reply: &mut GatewayReply, pieces: usize) -> String {
    let ReplyBody::Stream(stream) = &mut reply.body else { panic!("no stream") };
    let mut text = String::new();
    for _ in 0..pieces {
        let piece = stream.next().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    text
}

pub(crate) async fn body_json(reply: GatewayReply) -> Value {
    serde_json::from_slice(&body(reply).await).unwrap()
}

/// An answer of the model that is no stream.
pub(crate) fn said(text: &str, input: u64, output: u64) -> Value {
    json!({
        "id": "a1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output },
    })
}

/// The events of a streamed answer, each word one.
pub(crate) fn streamed(id: &str, text: &str, usage: Option<(u64, u64)>) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        let chunk = json!({ "id": id, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    let mut events = vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)];
    let words = text.split_inclusive(' ').scan(false, |blank, word| {
        // A word has the blank before it, as models write.
        let before = if std::mem::replace(blank, word.ends_with(' ')) { " " } else { "" };
        Some(format!("{before}{}", word.trim_end_matches(' ')))
    });
    events.extend(words.map(|word| chunk(json!({ "content": word }), Value::Null)));
    events.push(chunk(json!({}), json!("stop")));
    if let Some((input, output)) = usage {
        let usage =
            json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output });
        events.push(format!("data: {}\n\n", json!({ "id": id, "choices": [], "usage": usage })));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// Text of about so many tokens.
pub(crate) fn words(tokens: usize, seed: usize) -> String {
    const WORDS: [&str; 8] = ["stone", "river", "paper", "cloud", "metal", "garden", "window", "letter"];
    let word = |at: usize| WORDS[(at * 7 + seed * 3 + at / 5) % WORDS.len()];
    (0..tokens).map(word).collect::<Vec<_>>().join(" ")
}

pub(crate) fn user(text: impl Into<String>) -> Value {
    json!({ "role": "user", "content": text.into() })
}

pub(crate) fn assistant(text: impl Into<String>) -> Value {
    json!({ "role": "assistant", "content": text.into() })
}
