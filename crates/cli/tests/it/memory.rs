//! What a session costs a server in memory, measured from outside: the real process, its resident set.
//!
//! `just memory` prints the figures of docs/benchmarks.md.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::fake::{Fake, Say};

/// What an idle session may cost, in bytes.
const MOST_IDLE_BYTES: u64 = 50 << 10;

/// Turns of the sessions that are measured.
const TURNS: usize = 10;

/// How long a session stays open that nobody uses, and some more.
const UNTIL_EVICTED: Duration = Duration::from_secs(75);

struct MeasuredServer {
    bench: Bench,
    child: Child,
    url: String,
    token: String,
    client: Client,
}

impl MeasuredServer {
    fn start() -> Self {
        Self::start_with(Bench::new(), &["--provider", "scripted"])
    }

    fn start_with(bench: Bench, model: &[&str]) -> Self {
        let serve = ["serve", "--addr", "127.0.0.1:0"];
        let mut child = bench.command(model.iter().chain(&serve)).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let token = std::fs::read_to_string(bench.data().join("token")).unwrap().trim().to_owned();
        let client = Client::builder().no_proxy().build().unwrap();
        Self { bench, child, url: line.trim().to_owned(), token, client }
    }

    async fn request(&self, method: Method, path: &str, body: Option<Value>) -> Response {
        let request = self.client.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token);
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer
    }

    async fn get(&self, path: &str) -> Value {
        self.request(Method::GET, path, None).await.json().await.unwrap()
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.request(Method::POST, path, Some(body)).await.json().await.unwrap()
    }

    async fn until_idle(&self, session: &str) {
        while self.get(&format!("/api/sessions/{session}")).await["status"] != "idle" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A session of ten turns, each a question and an answer of a few hundred characters.
    async fn talk(&self) -> String {
        let session = self.post("/api/sessions", json!({})).await["id"].as_str().unwrap().to_owned();
        for turn in 0..TURNS {
            let content = format!("Turn {turn}. {}", "What do you think of that, and why? ".repeat(10));
            self.post("/api/message", json!({ "sessionId": session, "content": content })).await;
            self.until_idle(&session).await;
        }
        session
    }

    /// So many more sessions of the same history. All of them are open then, and idle.
    async fn copies(&self, session: &str, count: usize) -> Vec<String> {
        let mut ids = Vec::with_capacity(count);
        for _ in 0..count {
            let copy = self.post(&format!("/api/sessions/{session}/fork"), json!({})).await;
            ids.push(copy["id"].as_str().unwrap().to_owned());
        }
        ids
    }

    /// A connection that reads the session's events for as long as it is polled.
    async fn watch(&self, session: &str) -> impl Future<Output = ()> + Send + 'static {
        let answer = self.request(Method::GET, &format!("/api/sessions/{session}/events"), None).await;
        let mut pieces = answer.bytes_stream();
        async move { while pieces.next().await.is_some() {} }
    }

    /// One figure of the process, in bytes.
    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let kilobytes: u64 = line.trim_matches([':', '\t', ' ']).split(' ').next().unwrap().parse().unwrap();
        kilobytes << 10
    }

    fn resident(&self) -> u64 {
        self.status("VmRSS")
    }

    /// Seconds of processor time so far.
    fn processor(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // Behind the name, which may hold anything: the 12th and 13th field, in hundredths of a second.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11..13].iter().map(|field| field.parse::<f64>().unwrap() / 100.0).sum()
    }
}

impl Drop for MeasuredServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The folder goes after the process.
        let _ = &self.bench;
    }
}

fn each(before: u64, after: u64, count: usize) -> u64 {
    after.saturating_sub(before) / count as u64
}

fn kilobytes(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

#[tokio::test]
async fn an_idle_session_costs_little() {
    const COUNT: usize = 500;
    let server = MeasuredServer::start();
    let session = server.talk().await;
    // Until the allocator, the caches and the pools have what they need.
    server.copies(&session, 200).await;
    let before = server.resident();
    server.copies(&session, COUNT).await;
    let cost = each(before, server.resident(), COUNT);
    eprintln!("{:.1} KB per idle session of {TURNS} turns", kilobytes(cost));
    assert!(cost <= MOST_IDLE_BYTES, "{cost} bytes for each of {COUNT} idle sessions");
}

#[tokio::test]
async fn a_large_body_is_refused_without_being_kept() {
    let server = MeasuredServer::start();
    let body = vec![b' '; 100 << 20];
    let before = server.status("VmHWM");
    let refused = (0..4).map(|_| async {
        let url = format!("{}/api/message", server.url);
        let request = server.client.post(url).bearer_auth(&server.token).body(body.clone());
        request.header("content-type", "application/json").send().await.unwrap().status().as_u16()
    });
    assert_eq!(join_all(refused).await, [413; 4]);
    let grown = server.status("VmHWM") - before;
    assert!(grown < 32 << 20, "400 MB of refused bodies took {grown} bytes");
}

/// The size of the answer of the next test, and what the process may keep of it.
const LARGE_ANSWER_BYTES: usize = 25 << 20;
const KEPT_BYTES: u64 = 100 << 20;

/// Text without a repetition, which would be stopped.
fn large_answer() -> &'static str {
    let mut text = String::with_capacity(LARGE_ANSWER_BYTES + 64);
    let mut number = 1_u64;
    while text.len() < LARGE_ANSWER_BYTES {
        // Long words: the model of these tests streams a word at a time.
        for _ in 0..100 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(&format!("{number:x}"));
        }
        text.push(' ');
    }
    text.leak()
}

#[test]
fn memory_goes_back_after_a_large_answer() {
    // The model has a runtime of its own, which must not begin inside another one.
    let model = Fake::start([Say::Text("Ready."), Say::Text(large_answer())]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(answer_and_measure(&model));
}

/// The session stays open with its 25 MB; everything else that the answer took is given back.
async fn answer_and_measure(model: &Fake) {
    let bench = Bench::new();
    let url = model.url();
    let settings = format!("model: {{ name: fake-1, base_url: \"{url}\", context_window: 100000000 }}\n");
    let config = bench.write("large.yml", &settings);
    let server = MeasuredServer::start_with(bench, &["--config", config.to_str().unwrap()]);
    let session = server.post("/api/sessions", json!({})).await["id"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        server.post("/api/message", json!({ "sessionId": session, "content": "Go." })).await;
        server.until_idle(&session).await;
    }
    let page = server.get(&format!("/api/sessions/{session}/messages")).await;
    assert!(page["messages"][3]["parts"][0]["text"].as_str().unwrap().len() > LARGE_ANSWER_BYTES / 2);
    drop(page);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (most, kept) = (server.status("VmHWM"), server.resident());
    eprintln!("{:.0} KB at most, {:.0} KB afterwards", kilobytes(most), kilobytes(kept));
    assert!(kept < most - KEPT_BYTES, "{kept} bytes are kept of {most}");
    assert!(kept < 2 * KEPT_BYTES, "{kept} bytes are kept");
}

/// Figures for docs/benchmarks.md. Takes five minutes, most of them waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a report: `just memory`"]
async fn report_of_idle_sessions() {
    let server = MeasuredServer::start();
    let empty = server.resident();
    let session = server.talk().await;
    server.copies(&session, 200).await;
    let warm = server.resident();
    eprintln!(
        "process: {:.0} KB at the start, {:.0} KB after 200 sessions",
        kilobytes(empty),
        kilobytes(warm)
    );

    for _ in 0..1_000 {
        server.post("/api/sessions", json!({})).await;
    }
    let bare = server.resident();
    eprintln!("idle and open, without a message: {:.1} KB each", kilobytes(each(warm, bare, 1_000)));
    let idle = server.copies(&session, 2_000).await;
    let open = server.resident();
    eprintln!("idle and open, {TURNS} turns: {:.1} KB each", kilobytes(each(bare, open, idle.len())));

    // What is given up is free for others: the process keeps it, and grows only when it needs more.
    tokio::time::sleep(UNTIL_EVICTED).await;
    let evicted = server.resident();
    eprintln!("evicted: {:.0} KB in all, {:.0} KB before", kilobytes(evicted), kilobytes(open));
    let begun = Instant::now();
    for id in &idle {
        server.get(&format!("/api/sessions/{id}")).await;
    }
    let took = begun.elapsed() / idle.len() as u32;
    let again = server.resident();
    eprintln!("opened again: {took:?} and {:.1} KB more each", kilobytes(each(evicted, again, idle.len())));
    tokio::time::sleep(UNTIL_EVICTED).await;
    let evicted = server.resident();
    server.copies(&session, 2_000).await;
    tokio::time::sleep(UNTIL_EVICTED).await;
    let more = each(evicted, server.resident(), 2_000);
    eprintln!("2,000 others, made, used and evicted: {:.2} KB more each", kilobytes(more));
}

/// Figures for docs/benchmarks.md: 200 sessions that answer at once, at first unwatched, then each with a watcher.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a report: `just memory`"]
async fn report_of_streaming_sessions() {
    let server = MeasuredServer::start();
    let session = server.talk().await;
    let sessions = server.copies(&session, 200).await;
    stream_all(&server, &sessions).await;
    let before = server.resident();
    let mut watchers = tokio::task::JoinSet::new();
    for session in &sessions {
        watchers.spawn(server.watch(session).await);
    }
    let watching = each(before, server.resident(), sessions.len());
    eprintln!("a watcher of an idle session: {:.1} KB", kilobytes(watching));
    stream_all(&server, &sessions).await;
}

async fn stream_all(server: &MeasuredServer, sessions: &[String]) {
    let before = server.resident();
    let content = "Say it again, slowly, so that everybody can follow. ".repeat(40);
    let content = &content;
    join_all(sessions.iter().map(|session| async move {
        server.post("/api/message", json!({ "sessionId": session, "content": content })).await
    }))
    .await;
    let (begun, processor) = (Instant::now(), server.processor());
    let mut most = 0;
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        most = most.max(server.resident());
    }
    let load = (server.processor() - processor) / begun.elapsed().as_secs_f64();
    let streams = join_all(sessions.iter().map(|session| server.get_status(session))).await;
    let count = streams.iter().filter(|status| *status == "streaming").count();
    eprintln!(
        "{count} of {} stream: {:.1} KB each above idle, {:.1} MB in all, {:.0} % of a processor",
        sessions.len(),
        kilobytes(each(before, most, sessions.len())),
        kilobytes(most) / 1024.0,
        load * 100.0,
    );
    join_all(sessions.iter().map(|session| server.until_idle(session))).await;
}

impl MeasuredServer {
    async fn get_status(&self, session: &str) -> String {
        let shown = self.get(&format!("/api/sessions/{session}")).await;
        shown["status"].as_str().unwrap().to_owned()
    }
}
