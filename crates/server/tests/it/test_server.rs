//! A server in a runtime of its own, so that it can die like a process; a client; a reader of events.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use longhaul::agent::Agent;
use longhaul::agents::AgentRegistry;
use longhaul::session::Runtime;
use longhaul::testing::{self, TemporaryFolder};
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_server::{AccessToken, AppState, HttpServerConfig, serve};
use longhaul_store::{BlobStore, MemoryStore, SharedStore};
use longhaul_store_sqlite::SqliteStore;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::described;

pub(crate) const TOKEN: &str = "a token that is long enough";

/// Nothing outgrows it.
const WINDOW: u64 = 4_000_000;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Numbers that repeat for a seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

pub(crate) struct TestServer {
    pub(crate) app: AppState,
    pub(crate) model: Arc<ScriptedProvider>,
    pub(crate) address: SocketAddr,
    pub(crate) client: reqwest::Client,
    pub(crate) folder: TemporaryFolder,
    machine: Option<tokio::runtime::Runtime>,
    stop: Option<oneshot::Sender<()>>,
}

/// In a folder in which this file is, nothing is written.
pub(crate) const READ_ONLY: &str = "only-read-this";

async fn storage(data: Option<PathBuf>) -> (SharedStore, BlobStore) {
    let Some(folder) = data else { return (Arc::new(MemoryStore::new()), BlobStore::in_memory(64 << 20)) };
    let store = match folder.join(READ_ONLY).exists() {
        true => SqliteStore::open_to_read(&folder).await.unwrap(),
        false => SqliteStore::open(&folder).await.unwrap(),
    };
    (Arc::new(store), BlobStore::local(&folder.join("blobs"), 64 << 20).unwrap())
}

/// A script whose every answer is slow enough to be caught in the act.
pub(crate) fn slowly(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text).pace(Duration::from_millis(20))
}

/// The arguments of a command that runs until [`TestServer::go`].
pub(crate) const UNTIL_GO: &str = r#"{"command":"until [ -e go ]; do sleep 0.02; done"}"#;

impl TestServer {
    pub(crate) async fn new(script: ModelScript) -> Self {
        Self::with(script, |_| {}, |_| {}).await
    }

    pub(crate) async fn with(
        script: ModelScript,
        agent: impl FnOnce(&mut Agent) + Send + 'static,
        config: impl FnOnce(&mut HttpServerConfig) + Send + 'static,
    ) -> Self {
        Self::start(ScriptedProvider::new(script).window(WINDOW), None, agent, config).await
    }

    /// With a model of the test's own.
    pub(crate) async fn of(model: ScriptedProvider) -> Self {
        Self::start(model, None, |_| {}, |_| {}).await
    }

    /// With a model and rules of the test's own.
    pub(crate) async fn of_agent(
        model: ScriptedProvider,
        agent: impl FnOnce(&mut Agent) + Send + 'static,
    ) -> Self {
        Self::start(model, None, agent, |_| {}).await
    }

    /// Over the data in `folder`, as a new process would.
    pub(crate) async fn over(
        folder: &Path,
        script: ModelScript,
        agent: impl FnOnce(&mut Agent) + Send + 'static,
    ) -> Self {
        Self::start(ScriptedProvider::new(script).window(WINDOW), Some(folder.to_owned()), agent, |_| {})
            .await
    }

    /// Its model's agent among others; over the data in `folder`, if one is named.
    pub(crate) async fn among(
        folder: Option<&Path>,
        script: ModelScript,
        gather: impl FnOnce(Agent) -> AgentRegistry + Send + 'static,
    ) -> Self {
        let model = ScriptedProvider::new(script).window(WINDOW);
        Self::start_with(model, folder.map(Path::to_owned), |_| {}, |_| {}, gather).await
    }

    /// Its model's agent among others, served in another way.
    pub(crate) async fn serving(
        script: ModelScript,
        gather: impl FnOnce(Agent) -> AgentRegistry + Send + 'static,
        config: impl FnOnce(&mut HttpServerConfig) + Send + 'static,
    ) -> Self {
        let model = ScriptedProvider::new(script).window(WINDOW);
        Self::start_with(model, None, |_| {}, config, gather).await
    }

    async fn start(
        model: ScriptedProvider,
        data: Option<PathBuf>,
        change: impl FnOnce(&mut Agent) + Send + 'static,
        configure: impl FnOnce(&mut HttpServerConfig) + Send + 'static,
    ) -> Self {
        Self::start_with(model, data, change, configure, AgentRegistry::only).await
    }

    async fn start_with(
        model: ScriptedProvider,
        data: Option<PathBuf>,
        change: impl FnOnce(&mut Agent) + Send + 'static,
        configure: impl FnOnce(&mut HttpServerConfig) + Send + 'static,
        gather: impl FnOnce(Agent) -> AgentRegistry + Send + 'static,
    ) -> Self {
        let machine =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let model = Arc::new(model.keep_requests());
        let provider = model.clone();
        // Not in this runtime: what is started here belongs to that machine.
        let (machine, (app, listener, folder)) = tokio::task::spawn_blocking(move || {
            let started = machine.block_on(async {
                let folder = TemporaryFolder::new().unwrap();
                let mut agent = testing::agent(provider, &folder).await.unwrap();
                change(&mut agent);
                let (store, blobs) = storage(data).await;
                let mut config = HttpServerConfig::new(AccessToken::new(TOKEN));
                configure(&mut config);
                let store = config.counters.watching(store);
                let app = AppState::new(Runtime::of(gather(agent), store, blobs), config);
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                (app, listener, folder)
            });
            (machine, started)
        })
        .await
        .unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        machine.spawn(serve(listener, app.clone(), async move { drop(stopped.await) }));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { app, model, address, client, folder, machine: Some(machine), stop: Some(stop) }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("http://{}{path}", self.address));
        request.bearer_auth(TOKEN).timeout(PATIENCE)
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        expect(self.request(Method::GET, path).send().await.unwrap(), StatusCode::OK).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.request(Method::POST, path).json(&body).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{path}: {}", answer.text().await.unwrap());
        let value = answer.json().await.unwrap();
        described::answer(path, status.as_u16(), &value);
        value
    }

    pub(crate) async fn session(&self) -> String {
        self.post("/api/sessions", json!({})).await["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn say(&self, session: &str, text: &str) -> Value {
        self.post("/api/message", json!({ "sessionId": session, "content": text })).await
    }

    pub(crate) fn go(&self) {
        std::fs::write(self.folder.path().join("go"), "").unwrap();
    }

    pub(crate) async fn until(&self, session: &str, status: &str) {
        let seen = async {
            while self.get(&format!("/api/sessions/{session}")).await["status"] != status {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, seen).await.unwrap_or_else(|_| panic!("{session} was never {status}"));
    }

    /// All messages of a session as role and text.
    pub(crate) async fn said(&self, session: &str) -> Vec<(String, String)> {
        let page = self.get(&format!("/api/sessions/{session}/messages?limit=500")).await;
        let text = |part: &Value| match part["type"].as_str() {
            Some("tool-result") => part["content"][0]["text"].as_str().unwrap_or_default().to_owned(),
            _ => part["text"].as_str().unwrap_or_default().to_owned(),
        };
        let messages = page["messages"].as_array().unwrap().iter();
        let shown = messages.map(|message| {
            let parts = message["parts"].as_array().unwrap().iter();
            (message["role"].as_str().unwrap().to_owned(), parts.map(text).collect())
        });
        shown.collect()
    }

    pub(crate) async fn events(&self, session: &str, after: Option<u64>) -> Events {
        let query = after.map(|after| format!("?after={after}")).unwrap_or_default();
        let path = format!("/api/sessions/{session}/events{query}");
        let request = self.client.get(format!("http://{}{path}", self.address)).bearer_auth(TOKEN);
        Events::of(request.send().await.unwrap())
    }

    /// The events behind the one with that `id`.
    pub(crate) async fn events_behind(&self, session: &str, id: &str) -> Events {
        let url = format!("http://{}/api/sessions/{session}/events", self.address);
        let request = self.client.get(url).bearer_auth(TOKEN).header("last-event-id", id);
        Events::of(request.send().await.unwrap())
    }

    /// Ends in order.
    pub(crate) async fn end(mut self) {
        drop(self.stop.take());
        self.app.close().await;
    }

    /// Dies in the middle of whatever it does.
    pub(crate) fn crash(mut self) {
        if let Some(machine) = self.machine.take() {
            machine.shutdown_background();
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // A plain drop of a runtime waits for its tasks, and panics within another runtime.
        if let Some(machine) = self.machine.take() {
            machine.shutdown_background();
        }
    }
}

pub(crate) async fn expect(answer: Response, status: StatusCode) -> Value {
    let (found, url) = (answer.status(), answer.url().clone());
    let text = answer.text().await.unwrap();
    assert_eq!(found, status, "{url}: {text}");
    let value = serde_json::from_str(&text).unwrap();
    described::answer(url.path(), status.as_u16(), &value);
    value
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// As it came.
    pub(crate) place: Option<String>,
    /// The same, if it is that of a whole stored event.
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// A stream of events.
pub(crate) struct Events {
    body: BoxStream<'static, Option<Bytes>>,
    text: Vec<u8>,
    ready: VecDeque<Frame>,
}

impl Events {
    pub(crate) fn of(answer: Response) -> Self {
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self { body: answer.bytes_stream().map(Result::ok).boxed(), text: Vec::new(), ready: VecDeque::new() }
    }

    /// What comes over a connection whose request was written by hand, chunk by chunk.
    pub(crate) fn of_socket(socket: TcpStream) -> Self {
        let chunks = futures_util::stream::unfold(BufReader::new(socket), async |mut socket| {
            let chunk = chunk(&mut socket).await?;
            Some((Some(chunk), socket))
        });
        Self { body: chunks.boxed(), text: Vec::new(), ready: VecDeque::new() }
    }

    /// The next event; `None` when the stream is over.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            let piece =
                tokio::time::timeout(PATIENCE, self.body.next()).await.expect("no event in time")??;
            // Bytes, not text: a piece may end amid a character.
            self.text.extend_from_slice(&piece);
            while let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.text.drain(..end + 2).collect();
                self.ready.extend(frame(std::str::from_utf8(&block).unwrap()));
            }
        }
    }

    /// Everything up to and with the first event of that name.
    pub(crate) async fn until(&mut self, name: &str) -> Vec<Frame> {
        let mut seen = Vec::new();
        while let Some(frame) = self.next().await {
            let found = frame.name == name;
            seen.push(frame);
            if found {
                return seen;
            }
        }
        panic!("the stream ended without {name}: {seen:?}");
    }
}

/// The next chunk of a body; before the first one the head is passed over.
async fn chunk(socket: &mut BufReader<TcpStream>) -> Option<Bytes> {
    let mut line = String::new();
    loop {
        line.clear();
        socket.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        let Ok(length) = usize::from_str_radix(line.trim(), 16) else { continue };
        let mut piece = vec![0; length + 2];
        socket.read_exact(&mut piece).await.ok()?;
        piece.truncate(length);
        return (length > 0).then(|| piece.into());
    }
}

fn frame(block: &str) -> Option<Frame> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let data = serde_json::from_str(field("data")?).unwrap();
    described::event(&data);
    Some(Frame {
        place: field("id").map(str::to_owned),
        id: field("id").and_then(|id| id.parse().ok()),
        name: field("event").unwrap().to_owned(),
        data,
    })
}
