//! A model server over HTTP with a test's answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Response};
use bytes::Bytes;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A request that a [`ScriptedUpstream`] has received.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// The number of requests before this one.
    pub number: usize,
    /// The method.
    pub method: Method,
    /// The path, without the query.
    pub path: String,
    /// The query, without its question mark; empty if there is none.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl ReceivedRequest {
    /// Returns the body as JSON, or `null` if it is not.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the `messages` of the body.
    ///
    /// # Panics
    /// If there are none.
    pub fn messages(&self) -> Vec<Value> {
        self.json()["messages"].as_array().expect("messages in the request").clone()
    }
}

/// The answer of a [`ScriptedUpstream`] to a request.
pub enum UpstreamAnswer {
    /// A whole body of JSON with this status.
    Json(u16, Value),
    /// A whole body with this status and media type.
    Text(u16, &'static str, String),
    /// A stream of events, with a pause before each.
    Events(Vec<String>, Duration),
    /// A stream of events after which the connection breaks.
    Breaks(Vec<String>),
    /// A stream of events after which nothing follows; it does not end.
    Stalls(Vec<String>),
    /// A stream of the first events, and of the others as soon as the test sets the value.
    Held(Vec<String>, watch::Receiver<bool>, Vec<String>),
    /// A stream of the first events again and again, with a pause before each, until the test sets the value, and of the
    /// others then.
    Repeats(Vec<String>, Duration, watch::Receiver<bool>, Vec<String>),
    /// Nothing, until the client leaves.
    Hangs,
    /// A whole body with this status and these headers.
    Head(u16, Vec<(&'static str, String)>, Bytes),
    /// A stream of the first event and then of the second without end, with a pause before each of these.
    Endless(String, Bytes, Duration),
    /// Another answer after a while.
    After(Duration, Box<UpstreamAnswer>),
    /// Another answer as soon as the test sets the value.
    When(watch::Receiver<bool>, Box<UpstreamAnswer>),
    /// Any other answer. The lock makes a body that no two threads may read at once part of a shared script.
    Response(Mutex<Response<Body>>),
}

impl From<Response<Body>> for UpstreamAnswer {
    fn from(response: Response<Body>) -> Self {
        Self::Response(Mutex::new(response))
    }
}

impl UpstreamAnswer {
    async fn into_response(self) -> Response<Body> {
        match self {
            Self::Json(status, value) => {
                let response = Response::builder().status(status).header("content-type", "application/json");
                response.header("x-request-id", "r1").body(Body::from(value.to_string())).unwrap()
            }
            Self::Text(status, media_type, text) => {
                let response = Response::builder().status(status).header("content-type", media_type);
                response.body(Body::from(text)).unwrap()
            }
            Self::Events(events, pause) => {
                let paced = chunks(events).then(move |event| async move {
                    if !pause.is_zero() {
                        tokio::time::sleep(pause).await;
                    }
                    event
                });
                event_stream(Body::from_stream(paced))
            }
            Self::Breaks(events) => {
                let broken = futures_util::stream::once(async {
                    // The events before must leave before the connection breaks, or they would be lost with it.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Err(std::io::Error::other("broken on purpose"))
                });
                event_stream(Body::from_stream(chunks(events).chain(broken)))
            }
            Self::Stalls(events) => {
                event_stream(Body::from_stream(chunks(events).chain(futures_util::stream::pending())))
            }
            Self::Held(first, is_due, rest) => {
                let rest = wait_until_set(is_due).map(|()| chunks(rest)).flatten_stream();
                event_stream(Body::from_stream(chunks(first).chain(rest)))
            }
            Self::Repeats(events, pause, is_due, rest) => {
                let repeated = futures_util::stream::iter(events).cycle().then(move |event| async move {
                    tokio::time::sleep(pause).await;
                    Ok(Bytes::from(event))
                });
                let repeated = repeated.take_until(wait_until_set(is_due));
                event_stream(Body::from_stream(repeated.chain(chunks(rest))))
            }
            Self::Hangs => std::future::pending().await,
            Self::Head(status, headers, body) => {
                let response = Response::builder().status(status);
                let response =
                    headers.into_iter().fold(response, |all, (name, value)| all.header(name, value));
                response.body(Body::from(body)).unwrap()
            }
            Self::Endless(first, more, pause) => {
                let more = futures_util::stream::repeat(more).then(move |more| async move {
                    tokio::time::sleep(pause).await;
                    Ok(more)
                });
                event_stream(Body::from_stream(chunks(vec![first]).chain(more)))
            }
            Self::When(is_due, answer) => {
                wait_until_set(is_due).await;
                Box::pin(answer.into_response()).await
            }
            Self::After(time, answer) => {
                tokio::time::sleep(time).await;
                Box::pin(answer.into_response()).await
            }
            Self::Response(response) => response.into_inner().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

async fn wait_until_set(mut is_due: watch::Receiver<bool>) {
    // A test that has ended sets nothing more, and its client has left.
    let _is_over = is_due.wait_for(|is_due| *is_due).await.is_err();
}

fn chunks(events: Vec<String>) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send {
    futures_util::stream::iter(events.into_iter().map(|event| Ok(Bytes::from(event))))
}

fn event_stream(body: Body) -> Response<Body> {
    Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
}

type ReceivedLog = Arc<Mutex<Vec<ReceivedRequest>>>;

/// A model server with a test's answers, which ends when the value is dropped.
pub struct ScriptedUpstream {
    address: String,
    received: ReceivedLog,
    task: JoinHandle<()>,
    /// The runtime of the task, for a test without one of its own. It ends with this value.
    own_runtime: Option<tokio::runtime::Runtime>,
}

impl ScriptedUpstream {
    /// Starts a server on this machine that answers every request with what `script` returns for it.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start<A: Into<UpstreamAnswer>>(
        script: impl Fn(&ReceivedRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        Self::start_beside(|_| None, script).await
    }

    /// Starts a server like [`Self::start`] with pages: a `GET` of a path for which `page` returns an answer gets it, and
    /// is neither numbered nor kept.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start_beside<A: Into<UpstreamAnswer>>(
        page: impl Fn(&str) -> Option<UpstreamAnswer> + Send + Sync + 'static,
        script: impl Fn(&ReceivedRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        let received = ReceivedLog::default();
        let (log, page, script) = (Arc::clone(&received), Arc::new(page), Arc::new(script));
        let app = Router::new().fallback(move |request: Request| {
            let (log, page, script) = (Arc::clone(&log), Arc::clone(&page), Arc::clone(&script));
            async move {
                let page = (request.method() == Method::GET).then(|| page(request.uri().path())).flatten();
                if let Some(page) = page {
                    return page.into_response().await;
                }
                match receive(request, &log).await {
                    Some(request) => script(&request).into().into_response().await,
                    // The client has left in the middle of its request.
                    None => Response::new(Body::empty()),
                }
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        // The task never ends by itself; `Drop` aborts it.
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, received, task, own_runtime: None }
    }

    /// Starts a server like [`Self::start`] that says nothing of itself: every `GET` gets 404.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start_without_pages<A: Into<UpstreamAnswer>>(
        script: impl Fn(&ReceivedRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        Self::start_beside(|_| Some(UpstreamAnswer::Json(404, Value::Null)), script).await
    }

    /// Starts a server in a runtime of its own, for a test without one: `start` is one of the functions above.
    ///
    /// # Panics
    /// If no port is free, or within an asynchronous task.
    pub fn start_detached(start: impl Future<Output = Self>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut upstream = runtime.block_on(start);
        upstream.own_runtime = Some(runtime);
        upstream
    }

    /// Returns the address of a path, as `http://127.0.0.1:PORT/path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns all requests so far, in the order of their arrival.
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ScriptedUpstream {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(runtime) = self.own_runtime.take() {
            // A stalled answer would hold up a runtime that waits for its tasks.
            runtime.shutdown_background();
        }
    }
}

/// Reads a request and logs it; `None` if it did not come whole.
async fn receive(request: Request, log: &Mutex<Vec<ReceivedRequest>>) -> Option<ReceivedRequest> {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.ok()?;
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    let request = ReceivedRequest {
        // The number is taken under the lock, because requests may come at the same time.
        number: log.len(),
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body,
    };
    log.push(request.clone());
    Some(request)
}
