//! Spans and metrics on their way from the real binary to a collector.

use longhaul_testkit::{ReceivedRequest, ScriptedUpstream, UpstreamAnswer};
use serde_json::json;

use crate::bench::Bench;
use crate::fake::{Fake, Say};

/// Starts a collector that keeps what it is sent.
pub(crate) fn start_collector() -> ScriptedUpstream {
    let taken = |_: &ReceivedRequest| UpstreamAnswer::Text(200, "application/x-protobuf", String::new());
    ScriptedUpstream::start_detached(ScriptedUpstream::start(taken))
}

/// Returns everything that a collector was sent at a path, as text: names stand in it as they are.
pub(crate) fn collected(collector: &ScriptedUpstream, path: &str) -> String {
    let received = collector.received().into_iter().filter(|request| request.path == path);
    received.map(|request| String::from_utf8_lossy(&request.body).into_owned()).collect()
}

fn says() -> [Say; 2] {
    [Say::Call("read", json!({ "path": "notes.md" })), Say::Text("It is a kingfisher.")]
}

#[test]
fn a_short_run_is_told_before_the_program_ends() {
    let bench = Bench::new();
    bench.write("notes.md", "the word is heron\n");
    let collector = start_collector();
    let file = format!("name: scribe\ntelemetry: {{ otlp: '{}' }}\n", collector.url(""));
    bench.write("longhaul.yml", &file);
    bench.run_with(&Fake::start(says()), &["run", "What is the word?"]).exits(0);
    let spans = collected(&collector, "/v1/traces");
    for name in ["invoke_agent scribe", "chat fake-1", "execute_tool read", "gen_ai.usage.input_tokens"] {
        assert!(spans.contains(name), "{name} is missing in {spans:?}");
    }
    let metrics = collected(&collector, "/v1/metrics");
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
    let collector = start_collector();
    let file = format!("telemetry: {{ otlp: '{}', content: true }}\n", collector.url(""));
    bench.write("longhaul.yml", &file);
    bench.run_with(&Fake::start(says()), &["--config", "longhaul.yml", "run", "What is the word?"]).exits(0);
    let spans = collected(&collector, "/v1/traces");
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
