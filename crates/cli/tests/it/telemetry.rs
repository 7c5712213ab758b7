//! Spans and metrics on their way from the real binary to a collector.

use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{OriginalUri, State};
use axum::routing::post;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::bench::Bench;
use crate::fake::{Fake, Say};

type Received = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A collector that keeps what it is sent; it ends with this value.
pub(crate) struct Collector {
    pub(crate) address: String,
    received: Received,
    _runtime: Runtime,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let received = Received::default();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let app = axum::Router::new().route("/v1/{kind}", post(receive)).with_state(Arc::clone(&received));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        runtime.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, received, _runtime: runtime }
    }

    /// Everything that was sent there, as text: names stand in it as they are.
    pub(crate) fn heard(&self, path: &str) -> String {
        let received = self.received.lock().unwrap();
        let bodies = received.iter().filter(|(to, _)| to == path);
        bodies.map(|(_, body)| String::from_utf8_lossy(body).into_owned()).collect()
    }
}

async fn receive(State(received): State<Received>, OriginalUri(uri): OriginalUri, body: Bytes) {
    received.lock().unwrap().push((uri.path().to_owned(), body.to_vec()));
}

fn says() -> [Say; 2] {
    [Say::Call("read", json!({ "path": "notes.md" })), Say::Text("It is a kingfisher.")]
}

#[test]
fn a_short_run_is_told_before_the_program_ends() {
    let bench = Bench::new();
    bench.write("notes.md", "the word is heron\n");
    let collector = Collector::start();
    let file = format!("name: scribe\ntelemetry: {{ otlp: 'http://{}' }}\n", collector.address);
    bench.write("longhaul.yml", &file);
    bench.run_with(&Fake::start(says()), &["run", "What is the word?"]).exits(0);
    let spans = collector.heard("/v1/traces");
    for name in ["invoke_agent scribe", "chat fake-1", "execute_tool read", "gen_ai.usage.input_tokens"] {
        assert!(spans.contains(name), "{name} is missing in {spans:?}");
    }
    let metrics = collector.heard("/v1/metrics");
    for name in ["gen_ai.client.inference.duration", "gen_ai.execute_tool.duration"] {
        assert!(metrics.contains(name), "{name} is missing in {metrics:?}");
    }
    for said in ["What is the word?", "heron", "kingfisher", "notes.md"] {
        assert!(!spans.contains(said) && !metrics.contains(said), "{said} was told");
    }
}

#[test]
fn what_was_said_is_told_where_the_file_says_so() {
    let bench = Bench::new();
    bench.write("notes.md", "the word is heron\n");
    let collector = Collector::start();
    let file = format!("telemetry: {{ otlp: 'http://{}', content: true }}\n", collector.address);
    bench.write("longhaul.yml", &file);
    bench.run_with(&Fake::start(says()), &["--config", "longhaul.yml", "run", "What is the word?"]).exits(0);
    let spans = collector.heard("/v1/traces");
    for said in ["What is the word?", "heron", "kingfisher", "notes.md"] {
        assert!(spans.contains(said), "{said} is missing in {spans:?}");
    }
}

#[test]
fn a_collector_that_is_not_there_changes_nothing_but_one_line() {
    let bench = Bench::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    bench.write("longhaul.yml", &format!("telemetry: {{ otlp: 'http://127.0.0.1:{port}' }}\n"));
    let given = bench.run_with(&Fake::start([Say::Text("Here.")]), &["run", "Where?"]).exits(0);
    assert_eq!(given.out, "Here.\n");
    assert_eq!(given.err.matches("telemetry does not reach").count(), 1, "{}", given.err);
}

#[test]
fn a_found_file_needs_trust_to_tell_strangers() {
    let bench = Bench::new();
    bench.write("longhaul.yml", "telemetry: { otlp: 'http://collector.example:4318' }\n");
    let refused = bench.run_with(&Fake::start([Say::Text("Here.")]), &["run", "Where?"]).exits(2);
    assert!(
        refused.err.contains("tells http://collector.example:4318 what the agent does"),
        "{}",
        refused.err
    );
}
