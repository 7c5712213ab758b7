//! A model server that says what a test tells it to.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::routing::{get, post};
use futures_util::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// One answer.
pub(crate) enum Say {
    /// Text, streamed in words.
    Text(&'static str),
    /// Reasoning, then text.
    Think(&'static str, &'static str),
    /// Text, streamed a word every 30 ms.
    Slow(&'static str),
    /// A text in pieces, whose last word comes only after [`Fake::go_on`].
    Held(&'static str),
    /// A word again and again every 30 ms, until [`Fake::go_on`].
    Flowing(&'static str),
    /// A tool call, streamed.
    Call(&'static str, Value),
    /// Text that ends at the length limit.
    Cut(&'static str),
    /// Text that ends because the rest is withheld.
    Withheld(&'static str),
    /// Text, and then nothing for ever.
    Stall(&'static str),
    /// A status and a message.
    Refuse(u16, &'static str),
}

/// An event of a stream.
type Piece = Result<Bytes, Infallible>;

struct Shared {
    says: Mutex<VecDeque<Say>>,
    asked: Mutex<Vec<Value>>,
    authorisations: Mutex<Vec<String>>,
    goes_on: watch::Sender<bool>,
}

/// The server; it ends with this value.
pub(crate) struct Fake {
    address: String,
    shared: Arc<Shared>,
    _runtime: Runtime,
}

impl Fake {
    /// Answers with `says`, one after the other, and then with "That was all."
    pub(crate) fn start(says: impl IntoIterator<Item = Say>) -> Self {
        let shared = Arc::new(Shared {
            says: Mutex::new(says.into_iter().collect()),
            asked: Mutex::default(),
            authorisations: Mutex::default(),
            goes_on: watch::Sender::new(false),
        });
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let app = axum::Router::new()
            .route(
                "/v1/models",
                get(async || {
                    Json(json!({ "data": [
                        { "id": "fake-1", "context_length": 16_000 },
                        { "id": "talker-1", "context_length": 16_000, "supported_parameters": ["seed"] },
                    ] }))
                }),
            )
            .route("/v1/chat/completions", post(complete))
            .with_state(Arc::clone(&shared));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        runtime.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, shared, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Answers with that, too, after all that it was told before.
    pub(crate) fn say(&self, more: Say) {
        self.shared.says.lock().unwrap().push_back(more);
    }

    /// Lets what is held come to its end.
    pub(crate) fn go_on(&self) {
        self.shared.goes_on.send_replace(true);
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// What the requests carried as authorisation.
    pub(crate) fn authorisations(&self) -> Vec<String> {
        self.shared.authorisations.lock().unwrap().clone()
    }
}

async fn complete(
    State(shared): State<Arc<Shared>>,
    headers: axum::http::HeaderMap,
    body: Bytes,
) -> Response<Body> {
    shared.asked.lock().unwrap().push(serde_json::from_slice(&body).unwrap_or_default());
    let authorisation = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    shared.authorisations.lock().unwrap().extend(authorisation);
    let say = shared.says.lock().unwrap().pop_front().unwrap_or(Say::Text("That was all."));
    let tokens = body.len() / 4;
    match say {
        Say::Text(text) => streamed(&words(text), Some(("stop", tokens))),
        Say::Think(reasoning, text) => {
            let mut deltas = vec![json!({ "reasoning_content": reasoning })];
            deltas.extend(words(text));
            streamed(&deltas, Some(("stop", tokens)))
        }
        Say::Slow(text) => answer(paced(stream::iter(pieces(&words(text), Some(("stop", tokens)))))),
        Say::Held(text) => {
            let mut first = words(text);
            let last = pieces(&first.split_off(first.len() - 1), Some(("stop", tokens)));
            let mut goes_on = shared.goes_on.subscribe();
            let held = stream::once(async move { goes_on.wait_for(|goes_on| *goes_on).await.map(drop) });
            let first = stream::iter(pieces(&first, None));
            answer(paced(first).chain(held.flat_map(move |_| stream::iter(last.clone()))))
        }
        Say::Flowing(word) => {
            let mut goes_on = shared.goes_on.subscribe();
            let told = async move { goes_on.wait_for(|goes_on| *goes_on).await.map(drop) };
            let again = stream::iter(pieces(&words(word), None)).cycle();
            let end = stream::iter(pieces(&[], Some(("stop", tokens))));
            answer(paced(again).take_until(told).chain(end))
        }
        Say::Cut(text) => streamed(&words(text), Some(("length", tokens))),
        Say::Withheld(text) => streamed(&words(text), Some(("content_filter", tokens))),
        Say::Stall(text) => streamed(&words(text), None),
        Say::Call(tool, arguments) => {
            let call = json!({ "index": 0, "id": format!("call_{tokens}"), "type": "function",
                "function": { "name": tool, "arguments": arguments.to_string() } });
            let deltas = [json!({ "content": "I look. " }), json!({ "tool_calls": [call] })];
            streamed(&deltas, Some(("tool_calls", tokens)))
        }
        Say::Refuse(status, message) => {
            let body = json!({ "error": { "message": message } }).to_string();
            Response::builder().status(StatusCode::from_u16(status).unwrap()).body(body.into()).unwrap()
        }
    }
}

fn words(text: &str) -> Vec<Value> {
    text.split_inclusive(' ').map(|word| json!({ "content": word })).collect()
}

/// Deltas, and the end if there is one.
fn pieces(deltas: &[Value], end: Option<(&str, usize)>) -> Vec<Piece> {
    let mut pieces: Vec<_> = deltas
        .iter()
        .map(|delta| chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]), Value::Null))
        .collect();
    if let Some((finish, tokens)) = end {
        pieces.push(chunk(json!([{ "index": 0, "delta": {}, "finish_reason": finish }]), Value::Null));
        let usage = json!({ "prompt_tokens": tokens, "completion_tokens": 10, "total_tokens": tokens + 10 });
        // OpenAI's servers send the usage in a chunk without choices, behind the last one.
        pieces.push(chunk(json!([]), usage));
        pieces.push(Ok(Bytes::from_static(b"data: [DONE]\n\n")));
    }
    pieces
}

/// A stream of deltas; without an end it stays open.
fn streamed(deltas: &[Value], end: Option<(&str, usize)>) -> Response<Body> {
    // `take(0)` ends at once; `take(1)` waits for an item that never comes.
    let silence = stream::pending().take(usize::from(end.is_none()));
    answer(stream::iter(pieces(deltas, end)).chain(silence))
}

fn paced(pieces: impl Stream<Item = Piece> + Send) -> impl Stream<Item = Piece> + Send {
    pieces.then(async |piece| {
        tokio::time::sleep(Duration::from_millis(30)).await;
        piece
    })
}

fn answer(pieces: impl Stream<Item = Piece> + Send + 'static) -> Response<Body> {
    let body = Body::from_stream(pieces);
    Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
}

fn chunk(choices: Value, usage: Value) -> Piece {
    let chunk = json!({ "id": "x", "object": "chat.completion.chunk", "model": "fake-1", "choices": choices, "usage": usage });
    Ok(Bytes::from(format!("data: {chunk}\n\n")))
}
