//! A model server that outlives the agent's process: it streams as slowly as it is told, asks for tools, and
//! checks every request it gets.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::Response;
use axum::routing::{get, post};
use futures_util::{Stream, StreamExt};
use longhaul_core::plan::ORDER_START;
use longhaul_testkit::chat;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::wire;

/// What the model is asked.
pub(crate) struct Asked {
    /// How many were asked before.
    pub(crate) number: u64,
    /// Messages in the request.
    pub(crate) messages: usize,
    /// The last user message.
    pub(crate) topic: String,
    /// Whether a summary is wanted.
    pub(crate) summary: bool,
    /// Whether the request ends with the results of tools.
    pub(crate) after_tools: bool,
}

/// What it says.
#[derive(Default)]
pub(crate) struct Say {
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    /// How long it takes between two words.
    pub(crate) pace: Duration,
    /// Done before the end of the answer is sent.
    pub(crate) before_end: Option<Box<dyn FnOnce() + Send>>,
    /// Stops for ever before the end.
    pub(crate) stalls: bool,
    /// Fails instead.
    pub(crate) fails: Option<Fails>,
}

/// How a model's server fails.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fails {
    /// Answers with this status.
    With(u16),
    /// Never answers.
    Never,
    /// The connection breaks in the middle of the answer.
    Breaks,
    /// The answer ends in the middle, as if that were its end.
    Ends,
}

/// A tool that it asks for.
pub(crate) enum Call {
    /// A command. Each `@` in it becomes the name of the call, which it has to leave in the workspace.
    Bash(String),
    Write,
    Read(&'static str),
}

/// A call that was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) id: String,
    /// Whether it writes its name into the workspace.
    pub(crate) marks: bool,
}

type Script = dyn Fn(&Asked) -> Say + Send + Sync;

struct Shared {
    script: Box<Script>,
    asked: AtomicU64,
    called: AtomicU64,
    /// Requests that break a rule.
    complaints: Mutex<Vec<String>>,
    made: Mutex<Vec<Made>>,
    /// The calls whose results each request had, with how far the trace had come.
    heard: Mutex<Vec<(u64, Vec<String>)>>,
    position: Mutex<Box<dyn Fn() -> u64 + Send>>,
    summaries: AtomicU64,
    hurries: AtomicBool,
}

/// The server; it ends with this value.
pub(crate) struct Model {
    pub(crate) url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Drop for Model {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Model {
    pub(crate) async fn start(script: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared {
            script: Box::new(script),
            asked: AtomicU64::new(0),
            called: AtomicU64::new(0),
            complaints: Mutex::default(),
            made: Mutex::default(),
            heard: Mutex::default(),
            position: Mutex::new(Box::new(|| 0)),
            summaries: AtomicU64::new(0),
            hurries: AtomicBool::new(false),
        });
        let models = Json(json!({ "data": [{ "id": "fake-1" }] }));
        let app = axum::Router::new()
            .route("/v1/models", get(async move || models))
            .route("/v1/chat/completions", post(complete))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, shared, task }
    }

    /// What was wrong with the requests so far.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.shared.complaints.lock().unwrap().clone()
    }

    /// The calls it made so far.
    pub(crate) fn made(&self) -> Vec<Made> {
        self.shared.made.lock().unwrap().clone()
    }

    /// From now on it answers at once and asks for nothing.
    pub(crate) fn hurry(&self) {
        self.shared.hurries.store(true, Ordering::Relaxed);
    }

    /// Notes for each request how far the trace had come.
    pub(crate) fn note_position(&self, position: impl Fn() -> u64 + Send + 'static) {
        *self.shared.position.lock().unwrap() = Box::new(position);
    }

    /// The calls whose results each request had, with how far the trace had come.
    pub(crate) fn heard(&self) -> Vec<(u64, Vec<String>)> {
        self.shared.heard.lock().unwrap().clone()
    }

    /// How often it was asked for a summary.
    pub(crate) fn summaries(&self) -> u64 {
        self.shared.summaries.load(Ordering::Relaxed)
    }
}

async fn complete(State(shared): State<Arc<Shared>>, body: Bytes) -> Response<Body> {
    let request: Value = serde_json::from_slice(&body).unwrap();
    let position = (shared.position.lock().unwrap())();
    shared.heard.lock().unwrap().push((position, wire::answered(&request)));
    if let Err(why) = wire::check(&request) {
        shared.complaints.lock().unwrap().push(format!("{why}\n{request}"));
    }
    let topic = wire::last_user_text(&request);
    let messages = request["messages"].as_array().unwrap();
    let asked = Asked {
        number: shared.asked.fetch_add(1, Ordering::Relaxed),
        messages: messages.len(),
        summary: topic.contains(ORDER_START),
        after_tools: messages.last().is_some_and(|last| last["role"] == "tool"),
        topic,
    };
    if asked.summary {
        shared.summaries.fetch_add(1, Ordering::Relaxed);
    }
    let say = if shared.hurries.load(Ordering::Relaxed) {
        Say { text: "Done. ".to_owned(), ..Say::default() }
    } else {
        (shared.script)(&asked)
    };
    let fails = say.fails;
    match fails {
        Some(Fails::With(status)) => {
            let why = json!({ "error": { "message": "on purpose", "type": "server_error" } });
            return Response::builder().status(status).body(Body::from(why.to_string())).unwrap();
        }
        Some(Fails::Never) => std::future::pending().await,
        Some(Fails::Breaks | Fails::Ends) | None => {}
    }
    // Calls come behind the text: one that is cut short has none.
    let most = if fails.is_some() { 1 + say.text.split(' ').count() / 2 } else { usize::MAX };
    let pieces = answer(&shared, say, body.len() as u64 / 4).take(most);
    let broken = matches!(fails, Some(Fails::Breaks));
    let broken = futures_util::stream::iter(broken.then(|| Err(std::io::Error::other("broken"))));
    let body = Body::from_stream(pieces.map(|piece| piece.map_err(|never| match never {})).chain(broken));
    Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
}

fn answer(shared: &Shared, say: Say, tokens: u64) -> impl Stream<Item = Result<Bytes, Infallible>> + use<> {
    let Say { text, calls, pace, before_end, stalls, .. } = say;
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let mut deltas: Vec<Value> = text.split_inclusive(' ').map(|word| json!({ "content": word })).collect();
    for (index, call) in calls.into_iter().enumerate() {
        let mut call = written(shared, call);
        call["index"] = index.into();
        deltas.push(json!({ "tool_calls": [call] }));
    }
    let words = futures_util::stream::iter(deltas).then(move |delta| async move {
        // Even the shortest sleep takes a millisecond.
        if !pace.is_zero() {
            tokio::time::sleep(pace).await;
        }
        chat::delta_event("x", &delta)
    });
    let end = futures_util::stream::once(async move {
        if stalls {
            std::future::pending::<()>().await;
        }
        if let Some(before_end) = before_end {
            before_end();
        }
        chat::finish_event("x", finish) + &chat::usage_event("x", tokens, 20) + chat::DONE_EVENT
    });
    words.chain(end).map(|text| Ok(Bytes::from(text)))
}

fn written(shared: &Shared, call: Call) -> Value {
    let id = format!("call-{}", shared.called.fetch_add(1, Ordering::Relaxed));
    let marks = matches!(call, Call::Bash(_));
    shared.made.lock().unwrap().push(Made { id: id.clone(), marks });
    let (name, arguments) = match call {
        Call::Bash(command) => ("bash", json!({ "command": command.replace('@', &id) })),
        Call::Write => ("write", json!({ "path": format!("{id}.txt"), "content": format!("by {id}\n") })),
        Call::Read(path) => ("read", json!({ "path": path })),
    };
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments.to_string() } })
}
