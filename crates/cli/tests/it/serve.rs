//! `longhaul serve`: one line when it is ready, a token, a message, and an end that leaves nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};

use serde_json::Value;

use crate::bench::{Bench, given, signal, write_closed};
use crate::fake::{Fake, Say};

/// One request; status and body.
pub(crate) fn ask(address: &str, method: &str, path: &str, token: &str, body: &str) -> (u16, Value) {
    ask_as(address, address, method, path, token, body)
}

/// What a plain GET answers that is no JSON.
pub(crate) fn ask_text(address: &str, path: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The same, under the name of another host.
fn ask_as(address: &str, host: &str, method: &str, path: &str, token: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[test]
fn it_serves_behind_its_token_and_ends_when_told() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("Served.")]);
    let mut server =
        bench.with(&fake, &["serve", "--addr", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").unwrap().to_owned();
    let token = token(&bench);

    assert_eq!(ask(&address, "GET", "/healthz", "", "").0, 200);
    assert_eq!(ask(&address, "GET", "/api/sessions", "wrong", "").0, 401);
    let (status, sent) = ask(&address, "POST", "/api/message", &token, r#"{"content":"hello"}"#);
    assert_eq!(status, 200, "{sent}");
    assert_eq!(sent["ok"], true);
    let path = format!("/api/sessions/{}", sent["sessionId"].as_str().unwrap());
    crate::bench::until("the answer is there", || {
        let (_, messages) = ask(&address, "GET", &format!("{path}/messages"), &token, "");
        messages.to_string().contains("Served.")
    });
    end(&mut server);
    let mut said = String::new();
    server.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let file = bench.data().join("token");
    assert!(said.contains(file.to_str().unwrap()) && !said.contains(&token), "where it is, not what: {said}");
}

#[test]
fn a_named_server_that_is_dead_is_said() {
    let bench = Bench::new();
    let dead = ["--base-url", "http://127.0.0.1:9/v1", "--model", "m", "serve", "--addr", "127.0.0.1:0"];
    let (mut server, _address, mut said) = start(bench.command(dead));
    let told = line_with(&mut said, "does not answer");
    assert!(told.contains("http://127.0.0.1:9/v1") && told.contains("requests wait for it"), "{told}");
    end(&mut server);
}

/// A server, its address, and what it says on standard error, line by line.
pub(crate) fn start(mut command: std::process::Command) -> (Child, String, BufReader<ChildStderr>) {
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let address = address(&mut server);
    let said = BufReader::new(server.stderr.take().unwrap());
    (server, address, said)
}

/// Waits until a server says that it is ready.
fn address(server: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{line:?}")).to_owned()
}

/// The token that a server made for itself.
pub(crate) fn token(bench: &Bench) -> String {
    std::fs::read_to_string(bench.data().join("token")).unwrap().trim().to_owned()
}

/// Tells it to end, and waits until it has.
pub(crate) fn end(server: &mut Child) {
    signal(server, "TERM");
    assert!(server.wait().unwrap().success());
}

#[test]
fn a_second_start_waits_for_the_first_that_is_ending() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Held(Box::leak("word ".repeat(60).into_boxed_str()))]);
    let (mut first, address, _said) = start(bench.with(&fake, &["serve", "--addr", "127.0.0.1:0"]));
    let token = token(&bench);
    let refused = bench.run(&["--provider", "scripted", "chat"]).exits(1);
    assert!(refused.err.contains("its page"), "{}", refused.err);
    assert!(refused.err.contains("longhaul --data-dir DIR chat"), "{}", refused.err);
    assert!(refused.err.contains("reading works"), "{}", refused.err);
    assert_eq!(ask(&address, "POST", "/api/message", &token, r#"{"content":"talk"}"#).0, 200);
    crate::bench::until("the answer comes", || !fake.asked().is_empty());
    signal(&first, "TERM");
    crate::bench::until("the server ends", || ask(&address, "GET", "/readyz", "", "").0 == 503);
    let mut second = bench.with(&fake, &["serve", "--addr", "127.0.0.1:0"]).spawn().unwrap();
    let mut said = BufReader::new(second.stderr.take().unwrap());
    assert!(line_with(&mut said, "is shutting down").contains("waiting for it"));
    // Its address comes when the first server has ended: until then the first one's answer is written.
    fake.go_on();
    let again = self::address(&mut second);
    assert!(first.wait().unwrap().success());
    let sessions = ask(&again, "GET", "/api/sessions", &token, "").1;
    let id = sessions["sessions"][0]["id"].as_str().unwrap();
    let said = ask(&again, "GET", &format!("/api/sessions/{id}/messages"), &token, "").1.to_string();
    assert_eq!(said.matches("word").count(), 60, "the answer was finished: {said}");
    end(&mut second);
}

/// The first line with `word`.
fn line_with(said: &mut BufReader<ChildStderr>, word: &str) -> String {
    let mut line = String::new();
    while said.read_line(&mut line).unwrap() > 0 {
        if line.contains(word) {
            return line;
        }
        line.clear();
    }
    panic!("no line has {word}");
}

/// The head of an answer to a plain GET.
fn head(address: &str, path: &str, cookie: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().0.to_owned()
}

#[test]
fn the_opening_link_that_is_printed_opens_once_and_its_cookie_outlives_the_server() {
    let bench = Bench::new();
    let serve = || bench.command(["--provider", "scripted", "serve", "--addr", "127.0.0.1:0"]);
    let (mut server, address, mut said) = start(serve());
    let link = line_with(&mut said, "/open/");
    let path =
        link.split_whitespace().find_map(|word| word.strip_prefix(&format!("http://{address}"))).unwrap();
    let opened = head(&address, path, "");
    assert!(opened.starts_with("HTTP/1.1 303") && opened.contains("location: ../\r\n"), "{opened}");
    let cookie = opened.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap().to_owned();
    assert!(head(&address, "/api/sessions", &cookie).starts_with("HTTP/1.1 200"));
    assert!(head(&address, path, "").contains("location: ../#opening-link-spent"));
    end(&mut server);

    let (mut server, again, _said) = start(serve());
    let port = |address: &str| address.rsplit_once(':').unwrap().1.to_owned();
    let cookie = cookie.replace(&port(&address), &port(&again));
    assert!(head(&again, "/api/sessions", &cookie).starts_with("HTTP/1.1 200"), "its value is of the token");
    end(&mut server);
}

#[test]
fn the_demo_ends_its_turns_whatever_its_window_forgets() {
    let bench = Bench::new();
    for name in 0..14 {
        let text = format!("Part {name} says very little about anything, at some length.\n").repeat(150);
        bench.write(&format!("part{name}.md"), &text);
    }
    let (mut server, address, _said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    let token = token(&bench);
    let prompt = "Read the files of this folder one after the other and say what each is for.";
    let mut body = serde_json::json!({ "content": prompt });
    let mut path = String::new();
    for turn in 0..7 {
        let (status, sent) = ask(&address, "POST", "/api/message", &token, &body.to_string());
        assert_eq!(status, 200, "{sent}");
        body["sessionId"] = sent["sessionId"].clone();
        path = format!("/api/sessions/{}", sent["sessionId"].as_str().unwrap());
        crate::bench::until("it rests", || ask(&address, "GET", &path, &token, "").1["status"] == "idle");
        let (_, shown) = ask(&address, "GET", &path, &token, "");
        assert_eq!(shown["lastFinishReason"], "stop", "turn {turn}: {shown}");
    }
    let (_, shown) = ask(&address, "GET", &path, &token, "");
    assert!(shown["compactionCount"].as_u64().unwrap() > 2, "{shown}");
    end(&mut server);
}

#[test]
fn without_any_model_the_demo_answers_and_says_so() {
    let bench = Bench::new();
    for name in ["one.md", "two.md", "three.md"] {
        bench.write(name, &"A line of some length that says very little about anything.\n".repeat(40));
    }
    // A model server of this machine would be found; where one answers there is nothing to show.
    let doctor = bench.run(&["doctor"]).out;
    let is_alone = doctor.lines().any(|line| line.starts_with("would use") && line.contains("the demo's"));
    assert!(is_alone, "a model server runs on this machine:\n{doctor}");
    let (mut server, address, mut said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    line_with(&mut said, "demo");
    let token = token(&bench);
    let (_, models) = ask(&address, "GET", "/api/models", &token, "");
    assert_eq!((&models["demo"], &models["current"]["model"]), (&Value::from(true), &Value::from("demo")));
    let (_, sent) = ask(&address, "POST", "/api/message", &token, r#"{"content":"hello"}"#);
    let path = format!("/api/sessions/{}", sent["sessionId"].as_str().unwrap());
    crate::bench::until("it has read files", || {
        let (_, messages) = ask(&address, "GET", &format!("{path}/messages"), &token, "");
        let text = messages.to_string();
        text.contains("one.md") && text.contains("scripted model")
    });
    // What is read beside it has the window of that model.
    let (_, shown) = ask(&address, "GET", &format!("{path}/context"), &token, "");
    let beside: Value = serde_json::from_str(&bench.run(&["context", "--json"]).exits(0).out).unwrap();
    let status = crate::mcp_server::status(bench.command(["mcp"]));
    assert_eq!(shown["window"], 16_000, "{shown}");
    for other in [&beside, &status] {
        for field in ["window", "outputReserve", "total"] {
            assert_eq!(other[field], shown[field], "{field} of {other}");
        }
    }
    end(&mut server);
}

#[test]
fn a_key_of_the_environment_is_found_and_said_as_the_doctor_says_it() {
    let bench = Bench::new();
    bench.write("longhaul.yml", "retry: { patience: 0s, streamAttempts: 0 }\n");
    let doctor = bench.run(&["doctor"]).out;
    let is_alone = doctor.lines().any(|line| line.starts_with("would use") && line.contains("the demo's"));
    assert!(is_alone, "a model server runs on this machine:\n{doctor}");
    // Nothing leaves this machine: no proxy listens there.
    let with_key = |args: &[&str]| {
        let mut command = bench.command(args);
        command.env("ANTHROPIC_API_KEY", "the-secret").env("HTTPS_PROXY", "http://127.0.0.1:9");
        command
    };
    let doctor = given(with_key(&["doctor"]).output().unwrap()).exits(0).out;
    let fact =
        |name: &str| doctor.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    let (used, key) = (fact("would use"), fact("key"));
    assert!(used.starts_with("claude-") && used.ends_with(" at https://api.anthropic.com/v1"), "{doctor}");
    assert_eq!(key, "ANTHROPIC_API_KEY is set");

    let (mut server, address, mut said) = start(with_key(&["serve", "--addr", "127.0.0.1:0"]));
    let line = line_with(&mut said, "model ");
    assert_eq!(line.trim(), format!("model  {used} ({key})"));
    let terms = line_with(&mut said, "per million tokens by list");
    assert!(terms.trim().starts_with('$') && terms.contains("--model NAME"), "{terms}");
    let (_, models) = ask(&address, "GET", "/api/models", &token(&bench), "");
    let current = models["current"]["model"].as_str().unwrap();
    assert!(models["demo"] == false && used.starts_with(current), "{models}");
    end(&mut server);

    let run = given(with_key(&["run", "hello"]).output().unwrap()).exits(1);
    let told = format!("no model was chosen; {used} ({key}) is used, {}", terms.trim());
    assert!(run.err.contains(&told), "{}", run.err);
    let other = given(with_key(&["--model", "gpt-4o", "run", "hello"]).output().unwrap()).exits(2);
    assert!(other.err.contains("none for gpt-4o in OPENAI_API_KEY"), "{}", other.err);
    assert!(!format!("{doctor}{line}{run:?}{other:?}").contains("the-secret"));
}

#[test]
fn a_client_that_asks_too_often_is_told_when_to_ask_again() {
    let bench = Bench::new();
    bench.write("longhaul.yml", "model: { provider: scripted }\nserver: { rateLimit: 2/h }\n");
    let (mut server, address, _said) = start(bench.command(["serve", "--addr", "127.0.0.1:0"]));
    let token = token(&bench);
    let list = || ask(&address, "GET", "/api/sessions", &token, "");
    assert_eq!((list().0, list().0), (200, 200));
    let (status, problem) = list();
    assert_eq!((status, &problem["code"]), (429, &Value::from("rate-limit-exceeded")), "{problem}");
    let mut stream = TcpStream::connect(&address).unwrap();
    let asked = format!(
        "GET /api/sessions HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(asked.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let head = answer.to_lowercase();
    let wait = head.split("retry-after: ").nth(1).unwrap_or_else(|| panic!("{answer}"));
    let seconds: u64 = wait.split("\r\n").next().unwrap().parse().unwrap();
    assert!((1_700..=1_800).contains(&seconds), "one of two an hour: {seconds}");
    assert_eq!(ask(&address, "GET", "/healthz", "", "").0, 200, "health is not counted");
    end(&mut server);
}

#[test]
fn without_a_command_it_serves() {
    let bench = Bench::new();
    let file = bench.write("own.yml", "model: { provider: scripted }\nserver: { addr: '127.0.0.1:0' }\n");
    let (mut server, address, mut said) = start(bench.command(["--config", file.to_str().unwrap()]));
    line_with(&mut said, "/open/");
    assert!(head(&address, "/", "").starts_with("HTTP/1.1 200"));
    end(&mut server);
}

#[test]
fn the_options_of_serve_hold_without_a_command_and_before_another_they_are_refused() {
    let bench = Bench::new();
    let (mut server, address, mut said) =
        start(bench.command(["--provider", "scripted", "--addr", "127.0.0.1:0"]));
    line_with(&mut said, "/open/");
    assert!(head(&address, "/", "").starts_with("HTTP/1.1 200"));
    end(&mut server);
    for command in ["serve", "doctor"] {
        let refused = bench.run(&["--addr", "127.0.0.1:0", command]).exits(2);
        assert!(refused.err.contains("longhaul serve --addr"), "{}", refused.err);
    }
}

#[test]
fn a_second_one_says_where_the_first_is() {
    let bench = Bench::new();
    let scripted = ["--provider", "scripted"];
    let (mut server, address, _said) =
        start(bench.command(scripted.iter().chain(&["serve", "--addr", "127.0.0.1:0"])));
    // What opens an address: it writes down which.
    let opener = bench.work().join("bin");
    std::fs::create_dir(&opener).unwrap();
    let script =
        bench.write("bin/xdg-open", &format!("#!/bin/sh\nprintf %s \"$1\" >'{}/opened'\n", opener.display()));
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    for second in [&["--addr", "127.0.0.1:0"][..], &["serve"], &["run", "hello"]] {
        let mut command = bench.command(scripted.iter().chain(second));
        command.env("PATH", format!("{}:/usr/bin:/bin", opener.display())).env("DISPLAY", ":77");
        let refused = given(command.output().unwrap()).exits(1);
        let token = bench.data().join("token");
        for told in [&format!("http://{address}\n"), token.to_str().unwrap(), "--data-dir"] {
            assert!(refused.err.contains(told), "{told} is not in {}", refused.err);
        }
        let names_the_api = refused.err.contains(&format!("POST http://{address}/api/message"));
        assert_eq!(names_the_api, second.contains(&"run"), "{}", refused.err);
    }
    // The demo needs no session of the server, so it keeps its own elsewhere.
    let demo = bench.run(&["demo", "--fast"]).exits(0);
    let kept = bench.data().join("demo");
    assert!(demo.out.contains(&format!("--data-dir {}", kept.display())), "{}", demo.out);
    assert!(kept.join("longhaul.db").exists());
    let opened = opener.join("opened");
    crate::bench::until("the page is opened", || {
        std::fs::read_to_string(&opened).is_ok_and(|page| page == format!("http://{address}"))
    });
    // Another data folder, the same port.
    let other = Bench::new();
    let refused = other.run(&["--provider", "scripted", "serve", "--addr", &address]).exits(1);
    let port = format!("{address} is in use by another longhaul, whose page is http://{address}: ");
    let hint = ["serve --addr 127.0.0.1:", "`, or as server.addr in longhaul.yml"];
    assert!(refused.err.contains(&port), "{}", refused.err);
    assert!(hint.iter().all(|words| refused.err.contains(words)), "{}", refused.err);
    end(&mut server);
    assert!(!crate::bench::names(&bench.data()).contains(&"serving.json".to_owned()));

    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stranger.local_addr().unwrap().to_string();
    let refused = other.run(&["--provider", "scripted", "serve", "--addr", &address]).exits(1);
    assert!(refused.err.contains(&format!("{address} is in use by another program: ")), "{}", refused.err);
}

#[test]
fn what_runs_when_it_is_told_to_end_finishes_and_what_waits_is_there_the_next_time() {
    let bench = Bench::new();
    let serve = || bench.command(["--provider", "scripted", "serve", "--addr", "127.0.0.1:0"]);
    let (mut server, address, mut said) = start(serve());
    line_with(&mut said, "token");
    let token = token(&bench);
    let words = "word ".repeat(150);
    let body = serde_json::json!({ "content": words }).to_string();
    let (_, sent) = ask(&address, "POST", "/api/message", &token, &body);
    let path = format!("/api/sessions/{}", sent["sessionId"].as_str().unwrap());
    crate::bench::until("it answers", || ask(&address, "GET", &path, &token, "").1["status"] == "streaming");
    signal(&server, "TERM");
    line_with(&mut said, "may finish");
    assert_eq!(ask(&address, "GET", "/readyz", "", "").0, 503);
    assert_eq!(ask(&address, "POST", "/api/message", &token, r#"{"content":"new"}"#).0, 503);
    assert!(server.wait().unwrap().success());

    let (mut server, address, _said) = start(serve());
    let (_, messages) = ask(&address, "GET", &format!("{path}/messages"), &token, "");
    let answer = &messages["messages"][1];
    assert_eq!(answer["parts"][0]["text"], format!("You said: {}", words.trim()), "it is whole");
    assert!(answer.get("interrupted").is_none());
    end(&mut server);
}

/// The text of an answer as whoever watches its session hears it.
struct Heard(BufReader<TcpStream>);

impl Heard {
    fn of(address: &str, path: &str, token: &str) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET {path}/events HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n"
        )
        .unwrap();
        Self(BufReader::new(stream))
    }

    /// The next piece; `None` at the end.
    fn next(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.0.read_line(&mut line).unwrap_or(0) > 0 {
            let event: Value = line
                .strip_prefix("data: ")
                .and_then(|data| serde_json::from_str(data).ok())
                .unwrap_or_default();
            if event["name"] == "llm:chunk" && event["chunkType"] == "text" {
                return event["content"].as_str().map(str::to_owned);
            }
            line.clear();
        }
        None
    }
}

#[test]
fn a_second_signal_ends_it_at_once_and_nothing_that_waits_or_was_heard_is_lost() {
    let bench = Bench::new();
    let serve = || bench.command(["--provider", "scripted", "serve", "--addr", "127.0.0.1:0"]);
    let (mut server, address, mut said) = start(serve());
    line_with(&mut said, "token");
    let token = token(&bench);
    let (_, created) = ask(&address, "POST", "/api/sessions", &token, "{}");
    let session = created["id"].as_str().unwrap();
    let path = format!("/api/sessions/{session}");
    let mut heard = Heard::of(&address, &path, &token);
    let say = |content: &str| {
        let body = serde_json::json!({ "sessionId": session, "content": content }).to_string();
        ask(&address, "POST", "/api/message", &token, &body).1
    };
    assert_eq!(say(&"word ".repeat(20_000))["queued"], false);
    // A busy machine may take its time until the model says something.
    let mut text = heard.next().expect("the answer begins");
    assert_eq!(say("later")["queued"], true);
    signal(&server, "TERM");
    line_with(&mut said, "may finish");
    end(&mut server);
    text.extend(std::iter::from_fn(|| heard.next()));

    let (mut server, address, _said) = start(serve());
    let (_, queue) = ask(&address, "GET", &format!("/api/message/queue?sessionId={session}"), &token, "");
    assert_eq!(queue["entries"][0]["parts"][0]["text"], "later", "{queue}");
    let (_, messages) = ask(&address, "GET", &format!("{path}/messages"), &token, "");
    let answer = &messages["messages"][1];
    let kept = answer["parts"][0]["text"].as_str().unwrap_or_else(|| panic!("no answer: {answer}"));
    assert!(text.starts_with("You said: word") && kept.starts_with(&text), "heard {text:?}, kept {kept:?}");
    assert_eq!(answer["interrupted"], "cancelled");
    end(&mut server);
}

#[test]
fn beyond_this_machine_it_wants_a_token_file() {
    let refused = Bench::new().run(&["--provider", "scripted", "serve", "--addr", "0.0.0.0:0"]).exits(2);
    assert!(refused.err.contains("--token-file"), "{}", refused.err);
}

#[test]
fn the_agent_file_says_where_it_listens_and_whom_it_answers() {
    let bench = Bench::new();
    let token = "a token of my own, long enough".replace(' ', "-");
    let folder = bench.data().parent().unwrap().to_owned();
    write_closed(&folder.join("token.txt"), &token);
    let file = bench.write(
        "longhaul.yml",
        "model: { provider: scripted }
server: { addr: '127.0.0.1:1', tokenFile: ../token.txt, allowedHosts: [box.lan], allowedOrigins: ['https://page.example'], maxBodyBytes: 2048 }
",
    );
    let config = file.to_str().unwrap();
    // The command line wins: nobody may listen at port 1.
    let args = ["--config", config, "serve", "--addr", "127.0.0.1:0"];
    let mut server = bench.command(args).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").unwrap().to_owned();
    let list = |host| ask_as(&address, host, "GET", "/api/sessions", &token, "").0;
    assert_eq!((list("box.lan"), list("other.lan")), (200, 403));
    let large = format!(r#"{{"content":"{}"}}"#, "x".repeat(4_096));
    assert_eq!(ask(&address, "POST", "/api/message", &token, &large).0, 413);
    assert!(!bench.data().join("token").exists(), "it needs no token of its own");
    end(&mut server);
}

#[test]
fn a_file_that_was_merely_found_does_not_open_the_server() {
    let bench = Bench::new();
    for (server, why) in [
        ("addr: '0.0.0.0:0', tokenFile: ../token.txt", "lets other machines reach the server"),
        ("tokenFile: ../token.txt", "takes the server's token from"),
        ("allowedHosts: [evil.example]", "answer to the name evil.example"),
        ("keepSessions: 1s", "has old sessions deleted"),
        ("allowedOrigins: ['https://evil.example']", "pages of https://evil.example"),
    ] {
        bench.write("longhaul.yml", &format!("model: {{ provider: scripted }}\nserver: {{ {server} }}\n"));
        let refused = bench.run(&["serve", "--addr", "127.0.0.1:0"]).exits(2);
        assert!(refused.err.contains(why), "{}", refused.err);
    }
    bench.write("longhaul.yml", "server: { db: 'postgres://me:secret@db/longhaul' }\n");
    let later = bench.run(&["serve"]).exits(2);
    assert!(
        later.err.contains("`longhaul serve --db postgres://…`") && !later.err.contains("secret"),
        "{}",
        later.err
    );
}
