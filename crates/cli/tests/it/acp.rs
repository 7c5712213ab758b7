//! `longhaul acp`: under the official client, and line by line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::{Bench, given, is_running, names, signal, until};
use crate::fake::{Fake, Say};
use crate::node::{check, node};

/// A picture of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn read(path: &str) -> Say {
    Say::Call("read", json!({ "path": path }))
}

/// The command of an agent as an editor starts it. Folders as the system names them: an editor's are so.
fn agent(bench: &Bench, fake: &Fake) -> Command {
    let mut command = bench.with(fake, &["acp"]);
    command.current_dir(bench.work().canonicalize().unwrap());
    command
}

#[test]
fn a_turn_and_its_history_under_the_official_client() {
    let Some(node) = node("a_turn_and_its_history_under_the_official_client") else { return };
    let bench = Bench::new();
    let fake =
        Fake::start([read("notes.txt"), Say::Text("The port is 8080."), Say::Text("You are welcome.")]);
    let image = || json!({ "image": PIXEL });
    let done = check(&node, &["acp.mjs", "turn"], &agent(&bench, &fake), image());
    let asked = fake.asked()[0]["messages"].as_array().unwrap().last().unwrap().to_string();
    for expected in ["Compare `src/a b.rs` with this:", "src/a b.rs#L1-2", "fn main() {}", PIXEL] {
        assert!(asked.contains(expected), "{expected}: {asked}");
    }
    let mut more = image();
    more["session"] = done["sessionId"].clone();
    check(&node, &["acp.mjs", "load"], &agent(&bench, &fake), more);
    let again = fake.asked().last().unwrap()["messages"].to_string();
    assert!(again.contains("The port is 8080.") && again.contains("Thanks"), "{again}");
}

#[test]
fn a_person_at_the_official_client_allows_and_rejects() {
    let Some(node) = node("a_person_at_the_official_client_allows_and_rejects") else { return };
    let bench = Bench::new();
    let fake = Fake::start([
        write_call("after\n"),
        Say::Text("Changed."),
        write_call("again\n"),
        Say::Text("I may not."),
        write_call("again\n"),
        Say::Text("I may not."),
    ]);
    check(&node, &["acp.mjs", "permit"], &agent(&bench, &fake), json!({}));
    let told = fake.asked()[3]["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(told.contains("Not run"), "the model is told: {told}");
}

fn write_call(text: &str) -> Say {
    Say::Call("write", json!({ "path": "old.txt", "content": text }))
}

#[test]
fn a_cancel_at_the_official_client_keeps_what_was_said() {
    let Some(node) = node("a_cancel_at_the_official_client_keeps_what_was_said") else { return };
    let bench = Bench::new();
    // An unusual number, by which the process is found among those of the machine.
    let sleep = json!({ "command": "sleep 7393" });
    let fake =
        Fake::start([Say::Stall("The beginning of a long "), Say::Call("bash", sleep), Say::Text("Yes.")]);
    check(&node, &["acp.mjs", "cancel"], &agent(&bench, &fake), json!({}));
    let shown = bench.run(&["sessions", "show", "last"]).exits(0).out;
    assert!(shown.contains("The beginning of a long") && shown.contains("still there?"), "{shown}");
    assert!(!is_running("7393"));
}

#[test]
fn room_is_made_as_far_as_the_official_client_can_show_it() {
    let Some(node) = node("room_is_made_as_far_as_the_official_client_can_show_it") else { return };
    for shows in [
        json!({ "shows": { "compaction": {}, "notices": {} } }),
        json!({ "shows": { "notices": {} } }),
        json!({}),
    ] {
        let bench = Bench::new();
        let talk = || Say::Text("So it is.");
        let summary = Say::Text(
            "## Goal\nTalk at length, in many words of no great weight: one, two, three and four were said.\n## Done\nEach was \
             answered with: so it is.\n## State\nthe ports are kept: 8080 and 8081, as the user asked for in this conversation",
        );
        let fake = Fake::start([talk(), talk(), talk(), talk(), summary]);
        check(&node, &["acp.mjs", "compact"], &agent(&bench, &fake), shows);
        assert!(fake.asked()[4].to_string().contains("mind the ports"), "{}", fake.asked()[4]);
    }
}

#[test]
fn turns_end_for_a_reason_that_the_official_client_knows() {
    let Some(node) = node("turns_end_for_a_reason_that_the_official_client_knows") else { return };
    let bench = Bench::new();
    bench.write("longhaul.yml", "run: { maxSteps: 1 }");
    let fake = Fake::start([
        Say::Cut("Half an answer"),
        Say::Call("ls", json!({})),
        Say::Withheld("I will not"),
        Say::Refuse(401, "Incorrect API key provided"),
    ]);
    check(&node, &["acp.mjs", "ends"], &agent(&bench, &fake), json!({}));
}

#[test]
fn each_session_of_the_official_client_works_in_its_own_folder() {
    let Some(node) = node("each_session_of_the_official_client_works_in_its_own_folder") else { return };
    let (bench, other) = (Bench::new(), tempfile::tempdir().unwrap());
    let other_folder = other.path().canonicalize().unwrap();
    let fake = Fake::start([read("who.txt"), Say::Text("a"), read("who.txt"), Say::Text("b")]);
    let more = json!({ "other": other_folder.to_str().unwrap() });
    check(&node, &["acp.mjs", "folders"], &agent(&bench, &fake), more);
}

#[test]
fn a_message_of_the_official_client_enters_a_running_turn() {
    let Some(node) = node("a_message_of_the_official_client_enters_a_running_turn") else { return };
    let bench = Bench::new();
    let write = Say::Call("write", json!({ "path": "a.txt", "content": "a" }));
    let fake = Fake::start([write, Say::Text("Both done.")]);
    check(&node, &["acp.mjs", "steer"], &agent(&bench, &fake), json!({}));
    let asked = fake.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[1]["messages"].to_string().contains("call it b.txt"), "{}", asked[1]);
}

/// The agent, line by line.
struct Wire {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    number: u64,
}

impl Wire {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (line, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().for_each(|read| _ = line.send(read.unwrap())));
        let input = child.stdin.take();
        Self { child, input, lines, number: 0 }
    }

    fn put(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line: nothing but the protocol comes on it.
    #[track_caller]
    fn line(&self) -> Value {
        let line = self.lines.recv_timeout(Duration::from_secs(20)).unwrap();
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no protocol: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// The next line that is as wanted.
    #[track_caller]
    fn seek(&self, mut is_meant: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let message = self.line();
            if is_meant(&message) {
                return message;
            }
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.number += 1;
        let id = self.number;
        self.put(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id
    }

    #[track_caller]
    fn answer(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.seek(|message| message["id"] == id)
    }

    fn begin(&mut self, bench: &Bench) -> String {
        let about = self.answer("initialize", json!({ "protocolVersion": 1 }));
        assert_eq!(about["result"]["protocolVersion"], 1, "{about}");
        let made = self.answer("session/new", json!({ "cwd": bench.work(), "mcpServers": [] }));
        made["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.ask("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
    }

    /// The editor leaves.
    fn leave(mut self) -> crate::bench::Given {
        drop(self.input.take());
        given(self.child.wait_with_output().unwrap())
    }
}

#[test]
fn nothing_but_the_protocol_is_on_its_output() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("Hello there.")]);
    // With many log lines: none of them may get among the protocol's.
    let mut wire = Wire::start(agent(&bench, &fake).env("LONGHAUL_LOG", "debug"));
    let session = wire.begin(&bench);
    // JSON-RPC has -32700 for what is no JSON, and -32601 for an unknown method.
    wire.put("this is no JSON");
    assert_eq!(wire.seek(|message| message.get("error").is_some())["error"]["code"], -32700);
    assert_eq!(wire.answer("session/dance", json!({}))["error"]["code"], -32601);
    let id = wire.prompt(&session, "hi");
    let mut said = String::new();
    let ended = wire.seek(|message| {
        let update = &message["params"]["update"];
        if update["sessionUpdate"] == "agent_message_chunk" {
            said.push_str(update["content"]["text"].as_str().unwrap());
        }
        message["id"] == id
    });
    assert_eq!((said.as_str(), &ended["result"]["stopReason"]), ("Hello there.", &json!("end_turn")));
    wire.leave().exits(0);
}

#[test]
fn an_editor_that_leaves_in_mid_answer_loses_nothing() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Stall("The beginning of a long ")]);
    let mut wire = Wire::start(&mut agent(&bench, &fake));
    let session = wire.begin(&bench);
    wire.prompt(&session, "tell me");
    wire.seek(|message| message["params"]["update"]["content"]["text"] == "long ");
    wire.leave().exits(0);
    let shown = bench.run(&["sessions", "show", &session]).exits(0).out;
    assert!(shown.contains("The beginning of a long") && shown.contains("(cut off here)"), "{shown}");
}

#[test]
fn what_runs_in_two_folders_is_kept_when_the_editor_leaves() {
    let (bench, other) = (Bench::new(), tempfile::tempdir().unwrap());
    let fake = Fake::start([stall(), stall()]);
    let mut wire = Wire::start(&mut agent(&bench, &fake));
    let first = wire.begin(&bench);
    let made = wire.answer("session/new", json!({ "cwd": other.path(), "mcpServers": [] }));
    let second = made["result"]["sessionId"].as_str().unwrap().to_owned();
    for session in [&first, &second] {
        wire.prompt(session, "tell me");
        wire.seek(|message| {
            let params = &message["params"];
            params["sessionId"] == **session && params["update"]["content"]["text"] == "long "
        });
    }
    let left = wire.leave().exits(0);
    assert_eq!(left.err, "", "nothing went wrong on the way out");
    for session in [&first, &second] {
        let shown = bench.run(&["sessions", "show", session]).exits(0).out;
        assert!(shown.contains("The beginning of a long") && shown.contains("(cut off here)"), "{shown}");
    }
}

fn stall() -> Say {
    Say::Stall("The beginning of a long ")
}

#[test]
fn an_end_in_mid_tool_leaves_no_process_behind() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Call("bash", json!({ "command": "sleep 7394" }))]);
    let mut command = agent(&bench, &fake);
    let mut wire = Wire::start(command.arg("--yes"));
    let session = wire.begin(&bench);
    wire.prompt(&session, "wait");
    until("it sleeps", || is_running("7394"));
    signal(&wire.child, "TERM");
    assert_eq!(wire.child.wait().unwrap().code(), Some(130));
    assert!(!is_running("7394"));
    assert!(bench.run(&["sessions", "show", &session]).exits(0).out.contains("wait"));
}

#[test]
fn the_edits_of_the_view_are_listed_behind_a_slash() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("hello")]);
    let mut wire = Wire::start(&mut agent(&bench, &fake));
    let session = wire.begin(&bench);
    let id = wire.prompt(&session, "/compactions");
    let mut told = String::new();
    wire.seek(|message| {
        told.push_str(&message.to_string());
        message["id"] == id
    });
    assert!(told.contains("nothing was compacted or pruned"), "{told}");
    assert!(told.contains("\"compactions\""), "it is offered: {told}");
    assert_eq!(fake.asked().len(), 0, "no model was asked");
    wire.leave().exits(0);
}

#[test]
fn a_session_in_which_nothing_was_said_is_not_kept() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let mut wire = Wire::start(&mut agent(&bench, &fake));
    wire.begin(&bench);
    wire.leave().exits(0);
    assert_eq!(bench.run(&["sessions", "list", "--json"]).exits(0).out.trim(), "[]");
}

#[test]
fn a_data_folder_in_use_is_said_to_the_editor() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let mut first = Wire::start(&mut agent(&bench, &fake));
    first.begin(&bench);
    let mut second = Wire::start(&mut agent(&bench, &fake));
    second.answer("initialize", json!({ "protocolVersion": 1 }));
    let refused = second.answer("session/new", json!({ "cwd": bench.work(), "mcpServers": [] }));
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("in use by another longhaul"), "{refused}");
    let told = second.leave().exits(0);
    assert!(!told.err.contains("WARN"), "what the editor is answered is not logged as well: {}", told.err);
    first.leave().exits(0);
}

#[test]
fn the_agent_file_of_the_sessions_folder_counts_and_must_be_trusted() {
    let (bench, other) = (Bench::new(), tempfile::tempdir().unwrap());
    let fake = Fake::start([Say::Text("ok")]);
    std::fs::write(other.path().join("longhaul.yml"), "systemPrompt: Speak in rhymes.").unwrap();
    let mut wire = Wire::start(&mut agent(&bench, &fake));
    wire.answer("initialize", json!({ "protocolVersion": 1 }));
    let new = |wire: &mut Wire| wire.answer("session/new", json!({ "cwd": other.path(), "mcpServers": [] }));
    let session = new(&mut wire)["result"]["sessionId"].as_str().unwrap().to_owned();
    let id = wire.prompt(&session, "hi");
    wire.seek(|message| message["id"] == id);
    assert!(fake.asked()[0]["messages"][0].to_string().contains("Speak in rhymes."), "{}", fake.asked()[0]);
    wire.leave().exits(0);

    let hooks = "hooks: { preToolUse: { command: 'touch ran' } }";
    std::fs::write(other.path().join("longhaul.yml"), hooks).unwrap();
    let mut wire = Wire::start(&mut agent(&bench, &fake));
    wire.answer("initialize", json!({ "protocolVersion": 1 }));
    let refused = new(&mut wire);
    assert!(refused["error"]["message"].as_str().unwrap().contains("trust"), "{refused}");
    wire.leave().exits(0);
    assert_eq!(names(other.path()), ["longhaul.yml"]);
}
