//! MCP servers of an agent file.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::bench::Bench;
use crate::fake::{Fake, Say};

/// A Python that confined programs can run, and the library's test server. Without a Python the test says so,
/// and fails if the environment insists.
fn server(test: &str, bench: &Bench) -> Option<PathBuf> {
    let found =
        ["/usr/bin/python3", "/usr/local/bin/python3"].into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        eprintln!("SKIPPED {test}: there is no python3 in /usr");
        assert!(std::env::var_os("LONGHAUL_REQUIRE_PYTHON").is_none(), "{test} needs python3 in /usr");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/tests/mcp_server.py");
    std::fs::copy(script, bench.work().join("server.py")).unwrap();
    found.map(PathBuf::from)
}

fn file(fake: &Fake, program: &Path, mode: &str, more: &str) -> String {
    format!(
        "model: {{ name: fake-1, base_url: \"{}\" }}\nmcpServers:\n  t: {{ command: {}, args: [server.py, {mode}]{more} }}\n",
        fake.url(),
        program.display(),
    )
}

#[test]
fn a_found_file_starts_no_server_until_it_is_named() {
    let bench = Bench::new();
    let Some(python) = server("a_found_file_starts_no_server_until_it_is_named", &bench) else { return };
    let call = Say::Call("t__echo", json!({ "n": 1 }));
    let fake = Fake::start([Say::Text("one"), call, Say::Text("two")]);
    let path = bench.write("longhaul.yml", &file(&fake, &python, "once, starts.txt", ""));
    let refused = bench.run(&["run", "hi"]).exits(2);
    assert!(
        refused.err.contains("starts the program `/usr") && refused.err.contains("MCP server `t`"),
        "{}",
        refused.err
    );
    assert!(!bench.work().join("starts.txt").exists(), "it was started");
    bench.run(&["--config", path.to_str().unwrap(), "run", "hi"]).exits(0);
    assert!(bench.work().join("starts.txt").exists());
    std::fs::remove_file(bench.work().join("starts.txt")).unwrap();
    bench.run(&["run", "--yes", "call it"]).exits(0);
    let asked = fake.asked();
    assert!(tool_names(&asked[0]).iter().any(|name| name == "t__echo"), "{:?}", tool_names(&asked[0]));
    let last = asked.last().unwrap()["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(last.contains("tools/call"), "{last}");
}

fn tool_names(request: &serde_json::Value) -> Vec<String> {
    let tools = request["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_program_that_may_do_more_than_commands_is_not_the_agents_to_change() {
    let test = "a_program_that_may_do_more_than_commands_is_not_the_agents_to_change";
    let bench = Bench::new();
    let Some(python) = server(test, &bench) else { return };
    let fake = Fake::start([rewrite_call(), Say::Text("one"), rewrite_call(), Say::Text("two")]);
    let closed = "sandbox: { network: deny }\n";
    // Commands have no network and the program has it: an agent that rewrites the program would have it too.
    let open = bench.write("open.yml", &(file(&fake, &python, "plain", ", network: allow") + closed));
    let run = |config: &Path, command: &[&str]| {
        let mut args = vec!["--config", config.to_str().unwrap()];
        args.extend(command);
        bench.run(&args)
    };
    let told = run(&open, &["doctor"]).exits(0).out;
    let says =
        |line: &&str| line.starts_with("not guarded") && line.contains("server.py of the MCP program t");
    assert_eq!(told.lines().filter(says).count(), 1, "{told}");
    run(&open, &["run", "--yes", "try"]).exits(0);
    let answer = fake.asked().pop().unwrap().to_string();
    assert!(answer.contains("`server.py` belongs to an MCP program"), "{answer}");
    let content = || std::fs::read_to_string(bench.work().join("server.py")).unwrap();
    assert_ne!(content(), "theirs\n");
    // Where the program may do no more than commands, a change of it gains nothing.
    let equal = bench.write("equal.yml", &file(&fake, &python, "plain", ""));
    let told = run(&equal, &["doctor"]).exits(0).out;
    assert_eq!(told.lines().filter(says).count(), 0, "{told}");
    run(&equal, &["run", "--yes", "try"]).exits(0);
    assert_eq!(content(), "theirs\n");
}

fn rewrite_call() -> Say {
    Say::Call("write", json!({ "path": "server.py", "content": "theirs\n" }))
}

#[test]
fn the_doctor_lists_each_server() {
    let bench = Bench::new();
    let Some(python) = server("the_doctor_lists_each_server", &bench) else { return };
    let fake = Fake::start([]);
    let broken =
        format!("  b: {{ command: {}, args: [server.py, broken], optional: true }}\n", python.display());
    // Nothing listens on port 9. The address holds a key, which no message may show.
    let remote = "  r: { url: 'http://127.0.0.1:9/mcp?key=s3cret' }\n";
    let path =
        bench.write("longhaul.yml", &(file(&fake, &python, "once, starts.txt", "") + &broken + remote));
    bench.run(&["doctor"]).exits(2);
    assert!(!bench.work().join("starts.txt").exists(), "a file that nobody trusts starts nothing");
    let text = bench.run(&["--config", path.to_str().unwrap(), "doctor"]).exits(0).out;
    let line = |name: &str| {
        let begins =
            |line: &&str| line.strip_prefix("mcp server").is_some_and(|rest| rest.trim().starts_with(name));
        text.lines().find(begins).unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
    };
    assert!(line("t ·").contains("17 tools"), "{text}");
    assert!(line("b ·").contains("exit code 7") && line("b ·").contains("no licence found"), "{text}");
    assert!(
        line("r ·").contains("http://127.0.0.1:9 cannot be reached") && !text.contains("s3cret"),
        "{text}"
    );
}

#[test]
fn a_program_that_the_sandbox_keeps_out_is_told_how_it_gets_in() {
    let bench = Bench::new();
    let test = "a_program_that_the_sandbox_keeps_out_is_told_how_it_gets_in";
    let Some(python) = server(test, &bench) else { return };
    if !bench.run(&["doctor"]).out.contains("Landlock") {
        eprintln!("SKIPPED {test}: nothing confines programs on this machine");
        return;
    }
    let fake = Fake::start([Say::Text("hello")]);
    let elsewhere = tempfile::tempdir().unwrap();
    let script = elsewhere.path().join("server.py");
    std::fs::rename(bench.work().join("server.py"), &script).unwrap();
    let text = file(&fake, &python, "plain", "").replace("server.py", script.to_str().unwrap());
    bench.write("outside.yml", &text);
    let stopped = bench.run(&["--config", "outside.yml", "run", "hi"]).exits(1);
    for expected in ["ermission denied", "the sandbox", "into the workspace", "to PATH"] {
        assert!(stopped.err.contains(expected), "{expected}: {}", stopped.err);
    }
}

#[test]
fn a_servers_tool_needs_a_rule_where_nobody_can_be_asked() {
    let bench = Bench::new();
    let Some(python) = server("a_servers_tool_needs_a_rule_where_nobody_can_be_asked", &bench) else {
        return;
    };
    let fake = Fake::start([look_call(), Say::Text("one"), look_call(), Say::Text("two")]);
    let text = file(&fake, &python, "plain", "");
    bench.write("asks.yml", &text);
    let denied = bench.run(&["--config", "asks.yml", "run", "look"]).exits(0);
    assert!(denied.err.contains("denied"), "{}", denied.err);
    bench.write(
        "allows.yml",
        &format!("{text}approvals: {{ rules: [{{ tool: 't__*', decision: allow }}] }}\n"),
    );
    bench.run(&["--config", "allows.yml", "run", "look"]).exits(0);
    let last = fake.asked().last().unwrap()["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(last.contains("seen"), "{last}");
}

fn look_call() -> Say {
    Say::Call("t__look", json!({}))
}

#[test]
fn a_server_that_does_not_start_stops_the_agent_unless_it_is_optional() {
    let bench = Bench::new();
    let test = "a_server_that_does_not_start_stops_the_agent_unless_it_is_optional";
    let Some(python) = server(test, &bench) else { return };
    let fake = Fake::start([Say::Text("hello")]);
    bench.write("needed.yml", &file(&fake, &python, "broken", ""));
    let stopped = bench.run(&["--config", "needed.yml", "run", "hi"]).exits(1);
    for expected in
        ["MCP server `t` could not be started", "exit code 7", "no licence found", "optional: true"]
    {
        assert!(stopped.err.contains(expected), "{expected}: {}", stopped.err);
    }
    assert!(fake.asked().is_empty());
    bench.write("spare.yml", &file(&fake, &python, "broken", ", optional: true"));
    let warned = bench.run(&["--config", "spare.yml", "run", "hi"]).exits(0);
    assert!(warned.err.contains("the agent does without its tools"), "{}", warned.err);
    bench.run(&["--config", "needed.yml", "context", "last"]).exits(0);
    let remote = "mcpServers: { r: { url: 'http://127.0.0.1:9/mcp?key=s3cret' } }";
    bench
        .write("remote.yml", &format!("model: {{ name: fake-1, base_url: \"{}\" }}\n{remote}\n", fake.url()));
    let stopped = bench.run(&["--config", "remote.yml", "run", "hi"]).exits(1);
    assert!(
        stopped.err.contains("`r` could not be started: http://127.0.0.1:9 cannot be reached"),
        "{}",
        stopped.err
    );
    assert!(stopped.err.lines().count() == 2 && !stopped.err.contains("s3cret"), "{}", stopped.err);
}
