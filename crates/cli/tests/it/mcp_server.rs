//! `longhaul mcp`: under the official client, and line by line.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::bench::{Bench, fed, given};
use crate::fake::{Fake, Say};
use crate::node::{check, node};

/// The id of the newest session.
fn newest(bench: &Bench) -> String {
    let listed: Value =
        serde_json::from_str(&bench.run(&["sessions", "list", "--json"]).exits(0).out).unwrap();
    listed[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn the_tools_under_the_official_client() {
    let Some(node) = node("the_tools_under_the_official_client") else { return };
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("Noted."), Say::Text("Noted, too.")]);
    bench.run_with(&fake, &["run", "the walrus lives in Riga"]).exits(0);
    let older = newest(&bench);
    bench.run_with(&fake, &["run", "the zebra is 47 years old"]).exits(0);
    let more = json!({ "older": older, "newer": newest(&bench) });
    check(&node, &["mcp.mjs"], &bench.with(&fake, &["mcp"]), more);
}

/// What `context_status` says of the newest session.
pub(crate) fn status(mcp: Command) -> Value {
    let call = json!({ "name": "context_status", "arguments": {} });
    answers_of(mcp, &[call])[1]["result"]["structuredContent"].clone()
}

/// What the server answers to some lines behind its introduction, by their ids.
fn answers(bench: &Bench, fake: &Fake, calls: &[Value]) -> Vec<Value> {
    answers_of(bench.with(fake, &["mcp"]), calls)
}

fn answers_of(mcp: Command, calls: &[Value]) -> Vec<Value> {
    let about = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let mut input = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about }).to_string();
    input.push_str("\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    for (id, params) in (1..).zip(calls) {
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        input.push_str(&format!("{call}\n"));
    }
    let given = fed(mcp, &input).exits(0);
    let mut lines: Vec<Value> = given
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no protocol: {line}")))
        .collect();
    // JSON-RPC lets answers come in any order.
    lines.sort_by_key(|line| line["id"].as_u64());
    lines
}

#[test]
fn what_is_asked_before_the_client_leaves_is_answered() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("Noted.")]);
    bench.run_with(&fake, &["run", "the zebra is 47 years old"]).exits(0);
    let lines = answers(
        &bench,
        &fake,
        &[call("recall", json!({ "query": "zebra" })), call("search_history", json!({}))],
    );
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[0]["result"]["serverInfo"]["name"], "longhaul");
    assert!(lines[1]["result"]["content"][0]["text"].as_str().unwrap().contains("zebra"), "{}", lines[1]);
    assert_eq!(lines[2]["result"]["isError"], true, "{}", lines[2]);
}

fn call(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

#[test]
fn reading_goes_on_beside_a_chat_and_compacting_says_why_not() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("Noted.")]);
    bench.run_with(&fake, &["run", "the zebra is 47 years old"]).exits(0);
    let mut server = bench.with(&fake, &["serve", "--addr", "127.0.0.1:0"]).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.take().unwrap()), &mut line)
        .unwrap();
    let lines = answers(
        &bench,
        &fake,
        &[call("search_history", json!({ "query": "zebra" })), call("compact", json!({}))],
    );
    crate::bench::signal(&server, "TERM");
    server.wait().unwrap();
    assert!(lines[1]["result"]["content"][0]["text"].as_str().unwrap().contains("zebra"), "{}", lines[1]);
    assert_eq!(lines[2]["result"]["isError"], true);
    assert!(lines[2].to_string().contains("in use by another longhaul"), "{}", lines[2]);
}

#[test]
fn without_a_session_it_says_so() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let status = json!({ "name": "context_status", "arguments": {} });
    let search = json!({ "name": "search_history", "arguments": { "query": "x" } });
    let lines = answers(&bench, &fake, &[status, search]);
    assert!(
        lines[1]["result"]["content"][0]["text"].as_str().unwrap().contains("no session"),
        "{}",
        lines[1]
    );
    assert!(
        lines[2]["result"]["content"][0]["text"].as_str().unwrap().contains("nothing matches"),
        "{}",
        lines[2]
    );
    assert!(!bench.data().exists(), "what only reads makes no folder");
}

#[test]
fn a_client_that_never_introduces_itself_is_an_error() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let mut child = bench.with(&fake, &["mcp"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let given = given(child.wait_with_output().unwrap()).exits(1);
    assert!(given.err.contains("sent no valid `initialize` request"), "{}", given.err);
}
