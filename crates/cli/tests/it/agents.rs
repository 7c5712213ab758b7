//! `agents:` in the agent file and the settings above it, in the server.

use std::io::{BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr};

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::fake::{Fake, Say};

/// The server of an agent file.
struct AgentFileServer {
    child: Child,
    address: String,
    log: BufReader<ChildStderr>,
    token: String,
}

impl AgentFileServer {
    fn start(bench: &Bench, file: &Path) -> Self {
        let args = ["--config", file.to_str().unwrap(), "serve", "--addr", "127.0.0.1:0"];
        let (child, address, log) = crate::serve::start(bench.command(args));
        Self { child, address, log, token: crate::serve::token(bench) }
    }

    fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        crate::serve::ask(&self.address, method, path, &self.token, &body)
    }

    fn answer_to(&self, session: &str) -> String {
        let path = format!("/api/sessions/{session}");
        crate::bench::until("it rests", || self.ask("GET", &path, Value::Null).1["status"] == "idle");
        let (_, page) = self.ask("GET", &format!("{path}/messages"), Value::Null);
        let newest = page["messages"].as_array().unwrap().last().unwrap().clone();
        newest["parts"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Ends it, and gives what it has said.
    fn end(mut self) -> String {
        crate::serve::end(&mut self.child);
        let mut said = String::new();
        self.log.read_to_string(&mut said).unwrap();
        said
    }
}

#[test]
fn agents_of_the_file_answer_and_those_that_cannot_say_why() {
    let bench = Bench::new();
    let (big, small) = (Fake::start([Say::Text("I am big.")]), Fake::start([Say::Text("I am small.")]));
    bench.write(
        "helper.yml",
        &format!(
            "systemPrompt: {{ file: role.md }}\nmodel: {{ name: fake-1, base_url: '{}' }}\n",
            small.url()
        ),
    );
    bench.write("role.md", "You are the helper.");
    let file = bench.write(
        "longhaul.yml",
        &format!(
            "name: main
systemPrompt: You are the main one.
model: {{ name: fake-1, base_url: '{}' }}
agents:
  helper: ./helper.yml
  lost: {{ model: {{ provider: openai, name: gpt-x }} }}
",
            big.url()
        ),
    );
    let server = AgentFileServer::start(&bench, &file);
    let (_, listed) = server.ask("GET", "/api/agents", Value::Null);
    let agents: Vec<_> = listed["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| (agent["name"].clone(), agent["model"].clone(), agent["usable"].clone()))
        .collect();
    let expected = [("main", "fake-1", true), ("helper", "fake-1", true), ("lost", "gpt-x", false)];
    assert_eq!(agents, expected.map(|(name, model, usable)| (json!(name), json!(model), json!(usable))));
    assert!(listed["agents"][2]["why"].as_str().unwrap().contains("needs a key"), "{listed}");
    let (_, sent) =
        server.ask("POST", "/api/message", json!({ "agent": "helper", "content": "Who are you?" }));
    let session = sent["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(server.answer_to(&session), "I am small.");
    assert!(small.asked()[0].to_string().contains("You are the helper."));
    assert!(big.asked().is_empty(), "{:?}", big.asked());

    // Another model of the usual agent's server, by its list.
    let path = format!("/api/sessions/{session}/llm");
    assert_eq!(server.ask("POST", &path, json!({ "model": "nobody-has-it" })).0, 400);
    let (status, switched) = server.ask("POST", &path, json!({ "agent": "main", "model": "talker-1" }));
    assert_eq!((status, &switched["model"]["model"]), (200, &json!("talker-1")), "{switched}");
    server.ask("POST", "/api/message", json!({ "sessionId": session, "content": "And you?" }));
    assert_eq!(server.answer_to(&session), "I am big.");
    assert_eq!(big.asked()[0]["model"], "talker-1");
    server.end();

    let server = AgentFileServer::start(&bench, &file);
    server.ask("POST", "/api/message", json!({ "sessionId": session, "content": "Still?" }));
    server.answer_to(&session);
    assert_eq!(big.asked()[1]["model"], "talker-1", "also after a restart");
    server.end();
}

#[test]
fn what_is_wrong_in_an_agent_is_told_with_file_and_line() {
    let bench = Bench::new();
    bench.write("broken.yml", "run:\n  maxSteeps: 4\n");
    bench.write("nested.yml", "agents: { deeper: ./x.yml }\n");
    for (agents, expected) in [
        ("  a: ./broken.yml\n", "broken.yml:2:3: unknown key `maxSteeps`"),
        ("  a: ./nested.yml\n", "nested.yml:1:11: `agents` stands in the main file only"),
        ("  a: ./missing.yml\n", "longhaul.yml:3: ./missing.yml, the file of `agents.a`, cannot be read"),
        ("  a: { run: { maxSteps: 0 } }\n", "longhaul.yml:3:25: `agents.a.run.maxSteps`"),
    ] {
        let file =
            bench.write("longhaul.yml", &format!("model: {{ provider: scripted }}\nagents:\n{agents}"));
        let refused = bench.run(&["--config", file.to_str().unwrap(), "serve"]).exits(2);
        assert!(refused.err.contains(expected), "{}", refused.err);
    }
}

/// What a found file may not do by itself its agents may not do either.
#[test]
fn an_agent_of_a_found_file_is_trusted_no_more_than_the_file() {
    let bench = Bench::new();
    let outside = bench.work().join("../outside.yml");
    std::fs::write(&outside, "run: { maxSteps: 3 }").unwrap();
    bench.write("hooked.yml", "hooks: { preToolUse: { command: ./spy } }");
    for (agent, expected) in [
        ("{ hooks: { preToolUse: { command: ./spy } } }", "runs the command `./spy`"),
        ("{ approvals: { rules: [{ tool: bash, decision: allow }] } }", "run without asking"),
        ("{ model: { name: m, base_url: 'https://stranger.example/v1' } }", "stranger.example"),
        ("{ systemPrompt: { file: /etc/hostname } }", "/etc/hostname"),
        ("../outside.yml", "reads ../outside.yml as an agent"),
        ("./hooked.yml", "runs the command `./spy`"),
    ] {
        bench.write("longhaul.yml", &format!("model: {{ provider: scripted }}\nagents: {{ a: {agent} }}\n"));
        let refused =
            bench.run(&["--base-url", "http://localhost:9/v1", "--provider", "scripted", "serve"]).exits(2);
        assert!(refused.err.contains(expected), "{agent}: {}", refused.err);
    }
}

#[test]
fn settings_stand_above_the_file_and_outlive_the_server() {
    let bench = Bench::new();
    let big = Fake::start([]);
    let file = bench.write("longhaul.yml", &format!(
        "model: {{ name: fake-1, base_url: '{}' }}\ncontext: {{ compression: {{ strategy: truncation }} }}\n", big.url()));
    let server = AgentFileServer::start(&bench, &file);
    let (_, before) = server.ask("GET", "/api/settings", Value::Null);
    assert_eq!(
        (&before["strategy"], &before["sources"]["strategy"]),
        (&json!("truncation"), &json!("agent-file"))
    );
    assert_eq!(before["sources"]["trigger"], "default");
    assert!(before["allowed"]["pruningAgent"].to_string().contains("talker-1"), "{before}");
    let change =
        json!({ "strategy": "pruning-agent", "pruningAgent": "talker-1", "trigger": { "percentage": 0.5 } });
    assert_eq!(server.ask("PUT", "/api/settings", change).0, 200);
    assert_eq!(
        server.ask("PUT", "/api/settings", json!({ "strategy": "truncation", "pruningAgent": "no-such" })).0,
        400
    );
    let kept = bench.data().join("settings.json");
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    let said = server.end();
    assert!(!said.contains("settings"), "there were none when it began: {said}");

    let server = AgentFileServer::start(&bench, &file);
    let (_, after) = server.ask("GET", "/api/settings", Value::Null);
    assert_eq!(
        (&after["strategy"], &after["sources"]["strategy"]),
        (&json!("pruning-agent"), &json!("settings"))
    );
    assert_eq!((&after["pruningAgent"], &after["trigger"]["percentage"]), (&json!("talker-1"), &json!(0.5)));
    let said = server.end();
    let line = said.lines().find(|line| line.contains("settings.json")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("above the agent file: strategy, trigger, pruningAgent"), "{line}");

    std::fs::write(&kept, "{\"strategy\": 7}").unwrap();
    let server = AgentFileServer::start(&bench, &file);
    assert_eq!(server.ask("GET", "/api/settings", Value::Null).1, before);
    let said = server.end();
    assert!(said.contains("settings.json is damaged, and not used: `strategy` must be one of"), "{said}");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "{\"strategy\": 7}", "it is not deleted");
}
