use std::process::Stdio;

use serde_json::{Value, json};

use crate::bench::{Bench, fed, given, is_running, names, signal, until};
use crate::fake::{Fake, Say};

#[test]
fn the_answer_is_the_only_thing_on_standard_output() {
    let bench = Bench::new();
    bench.write("notes.md", "the word is heron\n");
    let fake =
        Fake::start([Say::Call("read", json!({ "path": "notes.md" })), Say::Text("The word is heron.")]);
    let given = bench.run_with(&fake, &["run", "What is the word?"]).exits(0);
    assert_eq!(given.out, "The word is heron.\n");
    assert!(given.err.contains("▸ read notes.md") && given.err.contains("1 line"), "{}", given.err);
    assert!(given.err.contains("2 steps") && !given.err.contains('\u{1b}'), "{}", given.err);
    let asked = fake.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[1].to_string().contains("heron"), "the result went back: {}", asked[1]);
}

#[test]
fn the_prompt_may_come_by_pipe_and_the_session_go_on() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("one"), Say::Text("two"), Say::Text("three")]);
    fed(bench.with(&fake, &["run"]), "from a pipe\n").exits(0);
    fed(bench.with(&fake, &["run", "--session", "last", "-"]), "and again\n").exits(0);
    let last = fake.asked().pop().unwrap();
    let users: Vec<&str> = texts(&last, "user");
    assert_eq!(users, ["from a pipe", "and again"]);
    let list: Value = serde_json::from_str(&bench.run(&["sessions", "list", "--json"]).exits(0).out).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(list[0]["title"], "from a pipe");
    fed(bench.with(&fake, &["run"]), "  \n").exits(2);
}

#[test]
fn what_is_piped_in_stands_behind_the_prompt() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("one"), Say::Text("two")]);
    fed(bench.with(&fake, &["run", "review this"]), "-a\n+b\n").exits(0);
    let asked = fake.asked().pop().unwrap();
    assert_eq!(texts(&asked, "user"), ["review this\n\n<stdin>\n-a\n+b\n</stdin>"]);
    fed(bench.with(&fake, &["run", "nothing is there"]), "").exits(0);
    assert_eq!(texts(&fake.asked().pop().unwrap(), "user"), ["nothing is there"]);
}

fn texts<'a>(request: &'a Value, role: &str) -> Vec<&'a str> {
    let messages = request["messages"].as_array().unwrap().iter();
    messages
        .filter(|message| message["role"] == role)
        .map(|message| message["content"].as_str().unwrap())
        .collect()
}

#[test]
fn json_is_one_event_a_line_with_the_names_of_the_api() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Call("ls", json!({ "path": "." })), Say::Text("Done it.")]);
    let given = bench.run_with(&fake, &["run", "--json", "look"]).exits(0);
    let events: Vec<Value> = given.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["name"].as_str().unwrap()).collect();
    for name in [
        "message:queued",
        "message:dequeued",
        "message:added",
        "run:started",
        "llm:thinking",
        "llm:chunk",
        "llm:tool-call",
        "tool:started",
        "llm:tool-result",
        "llm:response",
        "context:usage",
        "run:complete",
    ] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    let streamed: String = events
        .iter()
        .filter(|event| event["name"] == "llm:chunk")
        .map(|event| event["content"].as_str().unwrap())
        .collect();
    assert_eq!(streamed, "I look. Done it.");
    let end = events.last().unwrap();
    assert_eq!((&end["name"], &end["finishReason"]), (&json!("run:complete"), &json!("stop")));
    let seqs: Vec<u64> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert!(seqs.is_sorted(), "{seqs:?}");
}

#[test]
fn what_needs_a_person_is_denied_unless_allowed_beforehand() {
    let bench = Bench::new();
    let fake = Fake::start([write_call(), Say::Text("I may not."), write_call(), Say::Text("I did.")]);
    let denied = bench.run_with(&fake, &["run", "make a file"]).exits(0);
    assert!(denied.err.contains("denied · --yes allows it"), "{}", denied.err);
    assert!(names(&bench.work()).is_empty());
    let told = fake.asked()[1].to_string();
    assert!(told.contains("Not run") && told.contains("--yes"), "the model is told why: {told}");
    bench.run_with(&fake, &["run", "--yes", "make a file"]).exits(0);
    assert_eq!(names(&bench.work()), ["made.txt"]);
}

fn write_call() -> Say {
    Say::Call("write", json!({ "path": "made.txt", "content": "x" }))
}

#[test]
fn an_error_is_one_line_says_what_is_kept_and_exits_with_1() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Refuse(401, "Incorrect API key provided")]);
    let given = bench.run_with(&fake, &["run", "hello"]).exits(1);
    assert_eq!(given.out, "");
    assert!(
        given.err.contains("✗ ") && given.err.contains("(auth)") && given.err.contains("kept"),
        "{}",
        given.err
    );
    assert!(bench.run(&["sessions", "show", "last"]).exits(0).out.contains("you    hello"));
}

#[test]
fn a_missing_model_is_told_with_the_models_of_the_server() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Refuse(404, "The model `talker-2` does not exist.")]);
    let given = bench.run(&["--base-url", &fake.url(), "--model", "talker-2", "run", "hello"]).exits(1);
    // The lines of a message are as long as the terminal is wide.
    let said = given.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("lists no model talker-2: did you mean talker-1?"), "{said}");
}

#[test]
fn the_key_is_taken_from_the_variable_that_is_named_and_never_shown_to_tools() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Call("bash", json!({ "command": "env" })), Say::Text("ok")]);
    let file = format!("model: {{ base_url: '{}', name: fake-1, api_key_env: MY_KEY }}", fake.url());
    let path = bench.write("longhaul.yml", &file);
    let mut command =
        bench.command(["--config", path.to_str().unwrap(), "run", "--yes", "show the environment"]);
    let given =
        given(command.env("MY_KEY", "sk-very-secret-1").env("OPENAI_API_KEY", "sk-other").output().unwrap())
            .exits(0);
    assert_eq!(fake.authorisations(), ["Bearer sk-very-secret-1", "Bearer sk-very-secret-1"]);
    let all = format!("{}{}{}", fake.asked()[1], given.out, given.err);
    assert!(!all.contains("sk-very-secret-1") && !all.contains("sk-other"), "{all}");
    assert!(all.contains("PATH="), "the command did run: {all}");
}

#[test]
fn a_key_that_is_not_set_is_named_with_its_file() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("ok")]);
    let file = format!("model: {{ base_url: '{}', name: fake-1, api_key_env: MY_KEY }}", fake.url());
    let path = bench.write("longhaul.yml", &file);
    let given = bench.run(&["--config", path.to_str().unwrap(), "run", "hello"]).exits(0);
    assert!(given.err.contains("MY_KEY, which api_key_env names for model in "), "{}", given.err);
    assert!(given.err.contains("longhaul.yml, is not set: no key is sent"), "{}", given.err);
}

#[test]
fn openais_usual_key_goes_to_nobody_else() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("ok")]);
    let mut command = bench.with(&fake, &["run", "hello"]);
    given(command.env("OPENAI_API_KEY", "sk-other").output().unwrap()).exits(0);
    assert_eq!(fake.authorisations(), Vec::<String>::new());
}

#[test]
fn an_interrupt_keeps_what_was_said() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Stall("The beginning of a tale of kingfishers ")]);
    let child = bench.with(&fake, &["run", "tell me"]).spawn().unwrap();
    until("its last word is there", || bench.has_stored("kingfishers"));
    signal(&child, "INT");
    let given = given(child.wait_with_output().unwrap()).exits(130);
    assert!(given.err.contains("cancelled · everything so far is kept"), "{}", given.err);
    assert!(given.err.contains("kept in session ") && given.err.contains(" run --session last \"…\""));
    assert_eq!(given.out, "The beginning of a tale of kingfishers \n", "what was answered is data");
    let shown = bench.run(&["sessions", "show", "last"]).exits(0).out;
    assert!(shown.contains("tale of kingfishers\n") && shown.contains("(cut off here)"), "{shown}");
}

#[test]
fn an_answer_of_a_killed_process_is_shown_before_anybody_repairs_it() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Stall("The beginning of a tale of kingfishers ")]);
    let mut child = bench.with(&fake, &["run", "tell me"]).stderr(Stdio::null()).spawn().unwrap();
    until("its last word is there", || bench.has_stored("kingfishers"));
    signal(&child, "KILL");
    child.wait().unwrap();
    let shown = bench.run(&["sessions", "show", "last"]).exits(0).out;
    assert!(shown.contains("tale of kingfishers"), "{shown}");
    assert!(shown.contains("(not finished: the process ended)"), "{shown}");
}

#[test]
fn an_interrupt_leaves_no_process_behind() {
    let bench = Bench::new();
    let command = "sleep 7391 & sleep 7392";
    let fake = Fake::start([Say::Call("bash", json!({ "command": command }))]);
    let child = bench.with(&fake, &["run", "--yes", "wait"]).stdout(Stdio::null()).spawn().unwrap();
    until("both sleep", || is_running("7391") && is_running("7392"));
    signal(&child, "INT");
    let given = given(child.wait_with_output().unwrap()).exits(130);
    assert!(!is_running("7391") && !is_running("7392"));
    assert!(given.err.contains("cancelled"), "{}", given.err);
}

#[test]
fn a_session_goes_on_with_another_model() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("one"), Say::Text("two")]);
    bench.run_with(&fake, &["run", "first"]).exits(0);
    let url = fake.url();
    let other = ["--base-url", &url, "--model", "fake-2", "run", "--session", "last", "second"];
    let given = bench.run(&other).exits(0);
    assert_eq!(given.out, "two\n");
    assert!(given.err.contains("the model is fake-2 from here on"), "{}", given.err);
    assert_eq!(fake.asked()[1]["model"], "fake-2");
    assert_eq!(texts(&fake.asked()[1], "user"), ["first", "second"]);
}

#[test]
fn notes_of_the_workspace_reach_the_model() {
    let bench = Bench::new();
    bench.write("AGENTS.md", "Always answer in rhymes.\n");
    let fake = Fake::start([Say::Text("fine")]);
    bench.run_with(&fake, &["run", "hello"]).exits(0);
    let system = fake.asked()[0]["messages"][0].to_string();
    assert!(system.contains("rhymes") && system.contains("Look before you change"), "{system}");
    assert!(!system.contains("recall"), "a tool that is not there yet: {system}");
}

#[test]
fn a_small_window_has_room_for_the_conversation() {
    let bench = Bench::new();
    bench.write("AGENTS.md", &"Always answer in rhymes, whatever is asked.\n".repeat(1_000));
    let fake = Fake::start([Say::Text("fine")]);
    bench.write(
        "longhaul.yml",
        &format!(
            "model: {{ name: fake-1, base_url: \"{}\", context_window: 4096 }}\ntools: {{ disabled: [write], read: {{ maxOutputChars: 2000 }} }}\n",
            fake.url()
        ),
    );
    bench.run(&["run", "hello"]).exits(0);
    let request = &fake.asked()[0];
    let system = request["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("rhymes") && system.contains("[AGENTS.md goes on]"), "{system}");
    assert!(system.len() < 4_000, "{}", system.len());
    let tools = request["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect();
    assert_eq!(names, ["read", "bash", "edit", "grep"]);
    assert!(request["tools"].to_string().len() < 1_500, "{}", request["tools"]);
}

#[test]
fn notes_that_lead_out_of_the_workspace_are_not_read() {
    let bench = Bench::new();
    let outside = bench.work().parent().unwrap().join("secret");
    std::fs::write(&outside, "a secret of the home folder").unwrap();
    std::os::unix::fs::symlink(&outside, bench.work().join("AGENTS.md")).unwrap();
    let fake = Fake::start([Say::Text("fine")]);
    let given = bench.run_with(&fake, &["run", "hello"]).exits(0);
    assert!(!fake.asked()[0].to_string().contains("secret of the home"));
    assert!(given.err.contains("AGENTS.md is not used"), "{}", given.err);
}

#[test]
fn an_answer_that_was_cut_is_printed_and_exits_with_1() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Cut("Half an answer"), Say::Refuse(401, "Incorrect API key provided")]);
    let given = bench.run_with(&fake, &["run", "tell me"]).exits(1);
    assert_eq!(given.out, "Half an answer\n");
    assert!(given.err.contains("the answer reached its length limit"), "{}", given.err);
    let next = bench.run_with(&fake, &["run", "--session", "last", "go on"]).exits(1);
    assert_eq!(next.out, "", "an earlier answer is no answer to this");
}

#[test]
fn a_model_without_tools_is_told_of_once() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("hello"), Say::Text("hello"), Say::Text("hello")]);
    let url = fake.url();
    let talker = ["--base-url", url.as_str(), "--model", "talker-1"];
    let with = |args: &[&'static str]| bench.command(talker.iter().chain(args));
    let run = given(with(&["run", "hello"]).output().unwrap()).exits(0);
    assert_eq!((run.out.as_str(), run.err.matches("takes no tools").count()), ("hello\n", 1), "{}", run.err);
    assert!(fake.asked()[0].get("tools").is_none(), "{}", fake.asked()[0]);
    let chat = fed(with(&["chat"]), "hello\n").exits(0);
    assert_eq!(chat.err.matches("takes no tools").count(), 1, "{}", chat.err);
    let doctor = given(with(&["doctor"]).output().unwrap()).exits(0);
    assert!(doctor.out.contains("takes no tools"), "{}", doctor.out);
    let able = bench.run_with(&fake, &["run", "hello"]).exits(0);
    assert!(!able.err.contains("takes no tools"), "{}", able.err);
}

#[test]
fn each_call_logs_once_how_good_its_estimate_was() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Call("ls", json!({ "path": "." })), Say::Text("Done.")]);
    let mut command = bench.with(&fake, &["run", "look"]);
    let given = given(command.env("LONGHAUL_LOG", "info").output().unwrap()).exits(0);
    let lines: Vec<&str> = given.err.lines().filter(|line| line.contains("estimated=")).collect();
    assert_eq!(lines.len(), 2, "{}", given.err);
    for line in lines {
        assert!(line.contains("INFO"), "{line}");
        let figure = |name: &str| -> f64 {
            let word = line.split_whitespace().find_map(|word| word.strip_prefix(name));
            word.unwrap_or_else(|| panic!("no {name} in {line}")).parse().unwrap()
        };
        let (estimated, actual, error) = (figure("estimated="), figure("actual="), figure("error="));
        assert!(estimated > 0.0 && actual > 0.0 && error == estimated - actual, "{line}");
        assert!((figure("error_percent=") - error * 100.0 / actual).abs() < 0.01, "{line}");
    }
    let quiet = bench.run_with(&fake, &["run", "look"]).exits(0);
    assert!(!quiet.err.contains("estimated="), "{}", quiet.err);
}

#[test]
fn a_log_level_that_is_none_is_told_of() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("Done."), Say::Text("Done.")]);
    let with = |level: &str| {
        given(bench.with(&fake, &["run", "hello"]).env("LONGHAUL_LOG", level).output().unwrap())
    };
    let wrong = with("longhaul=loud").exits(0);
    assert!(wrong.err.contains("LONGHAUL_LOG is not understood"), "{}", wrong.err);
    let right = with("longhaul=error").exits(0);
    assert!(!right.err.contains("LONGHAUL_LOG"), "{}", right.err);
}

#[test]
fn an_address_without_its_scheme_is_answered_with_one() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let url = fake.url();
    let bare = url.trim_start_matches("http://").trim_end_matches("/v1");
    let given = bench.run(&["--base-url", bare, "--model", "fake-1", "run", "hello"]).exits(2);
    assert!(given.err.contains(&format!("did you mean {url} ?")), "{}", given.err);
}

#[test]
fn a_window_that_nobody_states_is_said_to_be_assumed() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let url = fake.url();
    let unlisted = ["--base-url", url.as_str(), "--model", "unheard-of"];
    let assumed = "the window of unheard-of is unknown: 32,000 tokens are assumed; set model.context_window";
    // However long the name is: lines break between words.
    let told = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let run = |args: &[&str]| bench.run(&[&unlisted, args].concat()).exits(0);
    let said = run(&["run", "hello"]);
    assert!(told(&said.err).contains(assumed) && said.out == "That was all.\n", "{said:?}");
    let events = run(&["run", "--json", "hello"]);
    assert!(told(&events.err).contains(assumed), "{events:?}");
    assert!(events.out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{events:?}");
    let chat = fed(bench.command(unlisted.iter().chain(&["chat"])), "hello\n").exits(0);
    assert_eq!(told(&chat.err).matches(assumed).count(), 1, "{chat:?}");
    bench.write("longhaul.yml", "model: { context_window: 9000 }");
    for stated in [run(&["run", "hello"]), bench.run_with(&fake, &["run", "hello"])] {
        assert!(!stated.err.contains("assumed"), "{stated:?}");
    }
}

#[test]
fn a_dead_proxy_is_named_with_its_variable() {
    let bench = Bench::new();
    bench.write("longhaul.yml", "model: { provider: openai-compatible, name: m, base_url: 'http://model.example/v1' }\nretry: { patience: 0s }\n");
    for (variable, value) in [("HTTP_PROXY", "http://me:secret@127.0.0.1:9"), ("all_proxy", "127.0.0.1:9")] {
        let given = given(
            bench
                .command(["--config", "longhaul.yml", "run", "hello"])
                .env(variable, value)
                .output()
                .unwrap(),
        )
        .exits(1);
        let said = given.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("http://127.0.0.1:9") && said.contains(&format!("`{variable}`")), "{said}");
        assert!(said.contains("http://model.example") && !said.contains("secret"), "{said}");
    }
}

#[test]
fn a_session_that_goes_on_in_another_folder_is_told_so() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("One."), Say::Text("Two."), Say::Text("Three."), Say::Text("Four.")]);
    bench.with(&fake, &["run", "hello"]).status().unwrap();
    let here = bench.run_with(&fake, &["run", "--session", "last", "again"]).exits(0);
    assert!(!here.err.contains("was begun in"), "{}", here.err);
    let elsewhere = bench.work().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let mut command = bench.with(&fake, &["run", "--session", "last", "again"]);
    let there = given(command.current_dir(&elsewhere).output().unwrap()).exits(0);
    let said = there.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("was begun in") && said.contains("--workspace"), "{said}");
    let mut command = bench.with(&fake, &["chat", "-c"]);
    command.current_dir(&elsewhere);
    let there = crate::bench::fed(command, "more\n");
    let said = format!("{}{}", there.out, there.err);
    assert!(said.contains("was begun in"), "{said}");
}

#[test]
fn the_demo_works_in_an_empty_folder() {
    let bench = Bench::new();
    let given = bench.run(&["demo", "--fast"]).exits(0);
    assert!(given.out.contains("files of its own") && given.out.contains("came back right"), "{}", given.out);
    assert_eq!(std::fs::read_dir(bench.work()).unwrap().count(), 0, "nothing is left in the folder");
    // Who names a folder means that one.
    bench.write("big.txt", "one file");
    let file = bench.run(&["demo", "--fast", "big.txt"]).exits(2);
    assert!(file.err.contains("big.txt is a file, and the demo reads a folder"), "{}", file.err);
    std::fs::remove_file(bench.work().join("big.txt")).unwrap();
    let named = bench.run(&["demo", "--fast", "."]).exits(1);
    assert!(named.err.contains("at least 6 text files"), "{}", named.err);
}

#[test]
fn a_pipe_in_another_encoding_or_with_bad_bytes_is_read() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let sent = || texts(&fake.asked().pop().unwrap(), "user").pop().unwrap().to_owned();
    let bad = fed(bench.with(&fake, &["run", "read"]), b"one\ncaf\xe9 \xff\n").exits(0);
    assert_eq!(sent(), "read\n\n<stdin>\none\ncaf\u{fffd} \u{fffd}\n</stdin>");
    let notice = "standard input has 2 bytes that are not UTF-8, the first at offset 7 (line 2, column 4)";
    assert!(bad.err.contains(notice) && !bad.out.contains("UTF-8"), "{bad:?}");
    for bytes in [&b"\xef\xbb\xbfh\xc3\xa9"[..], b"\xff\xfeh\0\xe9\0", b"\xfe\xff\0h\0\xe9"] {
        let wide = fed(bench.with(&fake, &["run"]), bytes).exits(0);
        assert_eq!(sent(), "hé", "{bytes:?}");
        assert!(!wide.err.contains("UTF"), "{wide:?}");
    }
}

#[test]
fn a_pipe_of_a_megabyte_is_truncated_at_the_source() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let lines: String =
        (0..20_000).map(|line| format!("line {line} of a log that is very long now\n")).collect();
    let long = format!("{lines}{}", "x".repeat(1_000_000 - lines.len()));
    fed(bench.with(&fake, &["run", "what is in it?"]), &long).exits(0);
    let asked = fake.asked().pop().unwrap();
    let sent = texts(&asked, "user").pop().unwrap();
    assert!(sent.starts_with("what is in it?\n\n<stdin>\nline 0 of a log"), "{}", &sent[..200]);
    assert!(sent.contains("[Output truncated - exceeded maximum length]"), "{}", sent.len());
    // 16,000 tokens are the model's window.
    assert!(sent.len() < 64_000, "{}", sent.len());
}

/// Starts a proxy that gives every request the same answer.
fn proxy(answer: &'static str) -> String {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // The beginning of the request is enough: the answer does not depend on it.
            let _ = stream.read(&mut [0; 16_384]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn a_proxy_that_answers_itself_is_named_with_its_variable() {
    let bench = Bench::new();
    let run = |variable: &str, proxy: &str, base: &str| {
        let mut command =
            bench.command(["--base-url", base, "--model", "m", "--config", "longhaul.yml", "run", "hello"]);
        given(command.env(variable, proxy).output().unwrap()).exits(1).err
    };
    bench.write("longhaul.yml", "retry: { patience: 1s }\n");
    let login =
        proxy("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let plain = run("HTTP_PROXY", &login, "http://box.example/v1");
    let tunnel = run("HTTPS_PROXY", &login, "https://box.example/v1");
    for (told, variable) in [(plain, "HTTP_PROXY"), (tunnel, "HTTPS_PROXY")] {
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        let proxy = format!("the proxy http://{login} (set by `{variable}`) wants a user and a password");
        assert!(told.contains(&proxy) && !told.contains("key"), "{told}");
    }
    let mut doctor = bench.command(["--base-url", "https://box.example/v1", "doctor"]);
    let told = given(doctor.env("HTTPS_PROXY", &login).output().unwrap()).exits(0).out;
    assert!(
        told.contains(&format!("does not answer · the proxy http://{login} (set by `HTTPS_PROXY`)")),
        "{told}"
    );
    let page = proxy(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html><title>ERROR</title></html>",
    );
    let told =
        run("http_proxy", &page, "http://box.example/v1").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains(&format!(
            "\"ERROR\" is probably the answer of the proxy http://{page} (set by `http_proxy`)"
        )),
        "{told}"
    );
}

#[test]
fn the_server_warns_of_a_session_that_began_in_another_folder() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("One.")]);
    bench.run_with(&fake, &["run", "hello"]).exits(0);
    let list: Value = serde_json::from_str(&bench.run(&["sessions", "list", "--json"]).exits(0).out).unwrap();
    let path = format!("/api/sessions/{}", list[0]["id"].as_str().unwrap());
    let elsewhere = bench.work().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    for (folder, is_other) in [(bench.work(), false), (elsewhere, true)] {
        let mut command = bench.with(&fake, &["serve", "--addr", "127.0.0.1:0"]);
        command.current_dir(&folder);
        let (mut server, address, _said) = crate::serve::start(command);
        let token = crate::serve::token(&bench);
        let shown = crate::serve::ask(&address, "GET", &path, &token, "").1;
        let resumed = crate::serve::ask(&address, "POST", &format!("{path}/resume"), &token, "{}").1;
        assert_eq!(shown["folder"], bench.work().canonicalize().unwrap().to_str().unwrap(), "{shown}");
        for answer in [shown, resumed] {
            let warning = answer["folderWarning"].as_str().unwrap_or_default();
            assert_eq!(warning.contains("was begun in"), is_other, "{answer}");
        }
        crate::serve::end(&mut server);
    }
}
