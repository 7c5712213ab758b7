use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::bench::{Bench, Given, fed, until};
use crate::compacting::imported;
use crate::fake::{Fake, Say};

#[test]
fn through_a_pipe_each_line_is_a_turn() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("First answer."), Say::Text("Second answer.")]);
    let input = "one\n\n/context\ntwo\n/nonsense\n/export chat.md\n/quit\nthree\n";
    let given = fed(bench.with(&fake, &["chat"]), input).exits(0);
    let at = |text: &str| given.out.find(text).unwrap_or_else(|| panic!("no {text:?} in {}", given.out));
    assert!(at("you    one") < at("agent  First answer.") && at("First answer.") < at("system prompt"));
    assert!(at("system prompt") < at("you    two") && at("you    two") < at("agent  Second answer."));
    assert!(given.err.contains("there is no /nonsense") && !given.out.contains("three"), "{given:?}");
    assert!(!given.out.contains('\u{1b}'), "no colours into a pipe");
    assert!(std::fs::read_to_string(bench.work().join("chat.md")).unwrap().contains("Second answer."));
    let again = fed(bench.with(&fake, &["chat", "-c"]), "").exits(0);
    assert!(again.err.contains("Second answer."), "it goes on where it was: {}", again.err);
}

#[test]
fn a_chat_in_which_nothing_was_said_leaves_no_session() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    fed(bench.with(&fake, &["chat"]), "/help\n").exits(0);
    assert_eq!(bench.run(&["sessions", "list"]).exits(0).out, "");
}

/// A command on a terminal of its own, 80 by 24.
pub(crate) struct Terminal {
    pub(crate) child: std::process::Child,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// A chat line by line; `None` where there is no `script` to make a terminal with.
    fn start(bench: &Bench, fake: &Fake) -> Option<Self> {
        Self::of(bench, &bench.with(fake, &["chat", "--plain"]))
    }

    pub(crate) fn of(bench: &Bench, command: &Command) -> Option<Self> {
        if !std::path::Path::new("/usr/bin/script").exists() {
            return None;
        }
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line: Vec<String> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
        let line = format!("stty rows 24 cols 80; exec {}", line.join(" "));
        let mut script = Command::new("/usr/bin/script");
        script.args(["-qefc", &line, "/dev/null"]).current_dir(bench.work());
        script
            .env_clear()
            .envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))))
            .env("TERM", "xterm");
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut out, sink) = (child.stdout.take().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut buffer) {
                sink.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Some(Self { child, shown })
    }

    fn press(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// As a person types: one line after the other.
    pub(crate) fn type_line(&mut self, line: &str) {
        self.press(&format!("{line}\r"));
        std::thread::sleep(std::time::Duration::from_millis(120));
    }

    /// Presses Ctrl-C until the chat ends: one may come too late to count as the second of two.
    fn leave(&mut self) -> std::process::ExitStatus {
        let mut status = None;
        until("the chat is left", || {
            std::thread::sleep(std::time::Duration::from_millis(200));
            // Nobody reads it any more if the chat has just ended.
            let _ = self.child.stdin.as_mut().unwrap().write_all(b"\x03");
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    fn shows(&self, text: &str) -> bool {
        self.shown().contains(text)
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    #[track_caller]
    pub(crate) fn until_it_shows(&self, text: &str) {
        until(text, || self.shows(text));
    }
}

#[test]
fn at_a_terminal_a_no_is_told_with_its_reason_and_the_queue_can_be_changed() {
    let bench = Bench::new();
    let fake = Fake::start([
        Say::Call("bash", json!({ "command": "touch made" })),
        Say::Stall("Thinking "),
        Say::Text("Understood."),
    ]);
    let Some(mut terminal) = Terminal::start(&bench, &fake) else {
        println!("skipped: at_a_terminal_a_no_is_told_… needs /usr/bin/script");
        return;
    };
    terminal.until_it_shows("› ");
    terminal.type_line("make it");
    terminal.until_it_shows("bash? y/n/a");
    terminal.type_line("perhaps");
    terminal.until_it_shows("a or all, then Enter");
    terminal.type_line("n use the other folder");
    until("the model is asked again", || fake.asked().len() == 2);
    assert!(fake.asked()[1].to_string().contains("use the other folder"), "{}", fake.asked()[1]);
    terminal.type_line("first thing");
    terminal.until_it_shows("queued 1");
    terminal.type_line("second thing");
    terminal.until_it_shows("queued 2");
    terminal.type_line("/queue edit 2 changed thing");
    terminal.until_it_shows("changed 2");
    terminal.type_line("/queue remove 1");
    terminal.until_it_shows("removed 1");
    terminal.press("\u{3}");
    terminal.until_it_shows("cancelled · everything so far is kept");
    terminal.type_line("/retry");
    until("the queue is taken", || fake.asked().len() == 3);
    let last = fake.asked().pop().unwrap().to_string();
    assert!(
        last.contains("changed thing") && !last.contains("first thing") && !last.contains("second thing"),
        "{last}"
    );
    // Lines that come at once are a paste: one message, sent by Enter.
    terminal.until_it_shows("Understood.");
    terminal.press("pasted one\rpasted two\r");
    terminal.until_it_shows("2 lines pasted");
    assert_eq!(fake.asked().len(), 3, "nothing is sent yet");
    terminal.type_line("");
    until("the paste is sent", || fake.asked().len() == 4);
    assert!(fake.asked()[3].to_string().contains("pasted one\\npasted two"), "{}", fake.asked()[3]);
    assert!(!bench.work().join("made").exists());
    terminal.press("\u{4}");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
}

#[test]
fn at_a_terminal_tools_are_asked_for_and_messages_queue() {
    let bench = Bench::new();
    let fake = Fake::start([
        Say::Call(
            "bash",
            json!({ "command": "touch begun; until [ -e go ]; do sleep 0.1; done; touch made" }),
        ),
        Say::Text("Both are done."),
        Say::Stall("A long story of herons and more "),
    ]);
    let Some(mut terminal) = Terminal::start(&bench, &fake) else {
        println!("skipped: at_a_terminal_tools_are_asked_for_and_messages_queue needs /usr/bin/script");
        return;
    };
    terminal.until_it_shows("› ");
    terminal.press("make it\r");
    terminal.until_it_shows("bash? y/n/a");
    assert!(!bench.work().join("made").exists(), "nothing runs before the answer");
    terminal.press("y\r");
    until("it runs", || bench.work().join("begun").exists());
    terminal.press("and this too\r");
    terminal.until_it_shows("queued 1");
    bench.write("go", "");
    // Words are drawn one by one.
    terminal.until_it_shows("done.");
    assert!(bench.work().join("made").exists());
    assert!(fake.asked()[1].to_string().contains("and this too"), "it entered at the next step");
    terminal.press("tell me a story\r");
    until("the model is asked again", || fake.asked().len() == 3);
    terminal.until_it_shows("herons");
    terminal.press("\u{3}");
    terminal.until_it_shows("cancelled · everything so far is kept");
    assert_eq!(terminal.leave().code(), Some(0));
    let shown = bench.run(&["sessions", "show", "last"]).exits(0).out;
    assert!(shown.contains("A long story") && shown.contains("and this too"), "{shown}");
}

#[test]
fn at_a_terminal_a_message_in_between_does_not_chop_the_answer() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Flowing("word "), Say::Text("Second.")]);
    let Some(mut terminal) = Terminal::start(&bench, &fake) else {
        println!("skipped: at_a_terminal_a_message_in_between_… needs /usr/bin/script");
        return;
    };
    terminal.until_it_shows("› ");
    terminal.press("hello\r");
    terminal.until_it_shows("writing");
    terminal.type_line("and more");
    // A pause of the answer would let the note in between, so the answer flows until the message waits.
    terminal.until_it_shows("writing · queue 1");
    fake.go_on();
    terminal.until_it_shows("Second.");
    let shown = terminal.shown();
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("no {text:?} in {shown}"));
    assert!(at("queued 1 ·") < at("Second."), "it was taken while the answer came");
    // Answers are labelled once each, so that none goes on under a label of its own.
    assert_eq!(shown.matches("agent").count(), 2, "{shown}");
    terminal.press("\u{4}");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
}

#[test]
fn at_a_terminal_line_feeds_and_backslashes_make_lines_of_one_message() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let Some(mut terminal) = Terminal::start(&bench, &fake) else {
        println!("skipped: at_a_terminal_line_feeds_… needs /usr/bin/script");
        return;
    };
    terminal.until_it_shows("› ");
    terminal.press("pasted one\npasted two\npasted three");
    terminal.until_it_shows("2 lines pasted");
    terminal.type_line("");
    until("the paste is sent", || fake.asked().len() == 1);
    let asked = fake.asked()[0].to_string();
    assert!(asked.contains("pasted one\\npasted two\\npasted three"), "{asked}");
    terminal.until_it_shows("all.");
    terminal.type_line("first\\");
    terminal.until_it_shows("1 line so far");
    terminal.type_line("second");
    until("both lines are sent", || fake.asked().len() == 2);
    assert!(fake.asked()[1].to_string().contains("first\\nsecond"), "{}", fake.asked()[1]);
    terminal.press("\u{4}");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
}

#[test]
fn in_a_chat_one_may_look_back() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("The heron is grey."), Say::Text("Yes.")]);
    let input =
        "what colour?\nis it so?\n/recall heron\n/recall lh:6\n/recall zebra-crossing\n/preview\n/show\n";
    let given = fed(bench.with(&fake, &["chat"]), input).exits(0);
    assert!(given.out.contains("<assistant lh:6>\nThe heron is grey."), "{}", given.out);
    let lines = given.out.lines().filter(|line| *line == "The heron is grey.").count();
    assert_eq!(lines, 2, "as a hit, and by its handle: {}", given.out);
    assert!(given.out.contains("── recalled for `heron`\n"), "{}", given.out);
    assert_eq!(
        given.out.matches("── end of what was recalled").count(),
        2,
        "a pipe is not cut: {}",
        given.out
    );
    assert!(given.err.contains("nothing in this session matches `zebra-crossing`"), "{}", given.err);
    assert!(given.out.contains("nothing was changed"), "{}", given.out);
    assert_eq!(given.out.matches("you    what colour?").count(), 2, "said, and shown again: {}", given.out);
    assert_eq!(fake.asked().len(), 2, "looking asks nobody");
}

#[test]
fn whoever_leaves_is_told_how_to_come_back() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let id = |given: &Given| {
        let (_, after) = given.err.split_once("  session ").unwrap_or_else(|| panic!("{given:?}"));
        after.split(' ').next().unwrap().to_owned()
    };
    let first = fed(bench.with(&fake, &["chat"]), "one\n").exits(0);
    let (url, data) = (fake.url(), bench.data());
    let again = format!("longhaul --data-dir {} --base-url {url} --model fake-1 chat", data.display());
    assert!(first.err.ends_with(&format!(" goes on with\n  {again} -c\n")), "{first:?}");
    let second = fed(bench.with(&fake, &["chat"]), "two\n").exits(0);
    let (first, second) = (id(&first), id(&second));
    assert_ne!(first, second);
    // The last session is another one now.
    let back = fed(bench.with(&fake, &["chat", "--session", &first]), "").exits(0);
    assert!(back.err.ends_with(&format!("  {again} --session {first}\n")), "{back:?}");
    let silent = fed(bench.with(&fake, &["chat"]), "/help\n").exits(0);
    assert!(!silent.err.contains("goes on"), "there is nothing to come back to: {silent:?}");
}

#[test]
fn at_a_terminal_nothing_is_logged_into_the_conversation_unless_asked_for() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    bench.write("AGENTS.md", &"Be brief. ".repeat(7_000));
    // What is read at each start is warned of at each start.
    let warned = |log: Option<&str>| {
        let mut command = bench.with(&fake, &["chat", "--plain"]);
        command.envs(log.map(|log| ("LONGHAUL_LOG", log)));
        let mut terminal = Terminal::of(&bench, &command)?;
        terminal.until_it_shows("› ");
        terminal.type_line("/model talker-1");
        terminal.until_it_shows("talker-1 ·");
        terminal.press("\u{4}");
        assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
        Some(terminal.shown().matches("KiB of AGENTS.md are used").count())
    };
    let (Some(usual), Some(asked)) = (warned(None), warned(Some("warn"))) else {
        println!("skipped: at_a_terminal_nothing_is_logged_… needs /usr/bin/script");
        return;
    };
    assert_eq!((usual, asked), (1, 2));
}

#[test]
fn another_model_must_be_on_the_servers_list_where_there_is_one() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let refused = fed(bench.with(&fake, &["chat"]), "/model talker-2\n/model\n").exits(0);
    assert!(refused.err.contains("lists no model talker-2: did you mean talker-1?"), "{}", refused.err);
    assert!(refused.out.contains("fake-1 · "), "the model stays: {}", refused.out);
    let taken = fed(bench.with(&fake, &["chat"]), "/model talker-1\n").exits(0);
    assert!(taken.err.contains("longhaul · talker-1 ·"), "{}", taken.err);
    assert!(!taken.err.contains("could not be checked"), "{}", taken.err);
    let (listless, all) = (format!("{}/no-list", fake.url()), ["--model", "fake-1", "chat"]);
    let command = bench.command(["--base-url", &listless].iter().chain(&all));
    let unchecked = fed(command, "/model anything\n").exits(0);
    let said = unchecked.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("longhaul · anything ·"), "{said}");
    assert!(
        said.contains("! whether there is a model anything could not be checked:")
            && said.contains("lists no models (HTTP 404)"),
        "{said}"
    );
}

#[test]
fn at_a_terminal_a_message_that_waits_after_a_cancelled_compaction_is_said_to_wait() {
    let bench = Bench::new();
    imported(&bench, 12);
    let fake = Fake::start([Say::Stall("## Goal"), Say::Text("Here I am.")]);
    let command = bench.with(&fake, &["chat", "--plain", "-c"]);
    let Some(mut terminal) = Terminal::of(&bench, &command) else {
        println!("skipped: at_a_terminal_a_message_that_waits_… needs /usr/bin/script");
        return;
    };
    terminal.until_it_shows("› ");
    terminal.type_line("/compact");
    until("a summary is asked for", || fake.asked().len() == 1);
    terminal.type_line("are you there?");
    terminal.until_it_shows("queued 1");
    terminal.press("\u{3}");
    terminal.until_it_shows("1 message waits: /resume sends it, /queue shows it");
    assert_eq!(fake.asked().len(), 1, "nothing is sent by itself");
    terminal.type_line("/resume");
    // Words are drawn one by one.
    terminal.until_it_shows("am.");
    assert!(fake.asked()[1].to_string().contains("are you there?"), "{}", fake.asked()[1]);
    terminal.press("\u{4}");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_bad_byte_in_a_piped_line_costs_no_other_line() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let given = fed(bench.with(&fake, &["chat"]), b"caf\xe9\ntwo\n").exits(0);
    let last = fake.asked().pop().unwrap().to_string();
    assert!(last.contains("\"caf\u{fffd}\"") && last.contains("\"two\""), "{last}");
    assert!(given.err.contains("line 1 of the input has 1 bad byte, from column 4 on"), "{}", given.err);
    fed(bench.with(&fake, &["chat"]), b"\xff\xfeh\0\xe9\0\r\0\n\0").exits(0);
    assert!(fake.asked().pop().unwrap().to_string().contains("\"hé\""));
}
