//! The chat on a terminal that can be drawn on, as a person sees it.

mod tty;

use serde_json::json;

use crate::bench::{Bench, signal, until};
use crate::compacting::imported;
use crate::fake::{Fake, Say};
use tty::Tty;

/// What a model writes of the imported conversation.
const SUMMARY: &str = "## Goal\nKnow the parts.\n## Done\nThe first parts were described one after the other, each with \
    its number and what it is for: marker-0 in src/part0.rs, marker-1 in src/part1.rs, and so on.\n## Next steps\nGo on with the parts that were not \
    described yet.";

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const ESCAPE: &str = "\u{1b}";
const UP: &str = "\u{1b}[A";
const ALT_ENTER: &str = "\u{1b}\r";
const IDLE: &str = "› Message, or / for commands";
const BUSY: &str = "› Message will be queued…";

const WORDS: &str =
    "a1 b2 c3 d4 e5 f6 g7 h8 i9 j10 k11 l12 m13 n14 o15 p16 q17 r18 s19 t20 u21 v22 w23 x24 y25 z26";

fn chat(bench: &Bench, fake: &Fake, columns: u16, rows: u16) -> Tty {
    let tty = Tty::start(&bench.with(fake, &["chat"]), columns, rows);
    tty.until_it_shows("›");
    tty
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

#[test]
fn an_answer_streams_and_what_is_typed_meanwhile_queues_and_can_be_changed() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Held(WORDS), Say::Text("Second.")]);
    let mut tty = chat(&bench, &fake, 80, 24);
    tty.enter("hello");
    tty.until_it_shows("writing");
    tty.until_it_shows("▍");
    tty.enter("and more");
    tty.until_it_shows("  queued  1 and more");
    tty.press(UP);
    tty.until_it_shows("change 1 › and more");
    tty.enter(" of it");
    tty.until_it_shows("  queued  1 and more of it");
    fake.go_on();
    tty.until_it_shows("agent  Second.");
    tty.until_it_shows(IDLE);
    let screen = tty.screen();
    assert!(!screen.contains("queued") && !screen.contains('▍'), "{screen}");
    let at = |text: &str| screen.find(text).unwrap_or_else(|| panic!("no {text:?} in\n{screen}"));
    assert!(at("you    hello") < at("agent  a1 b2") && at("z26") < at("you    and more of it"));
    assert_eq!(count(&screen, "agent  "), 2, "{screen}");
    assert!(fake.asked()[1].to_string().contains("and more of it"));
    tty.press(CTRL_D);
    assert_eq!(tty.end().code(), Some(0));
}

#[test]
fn a_run_is_cancelled_and_what_waits_is_resumed() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Stall("Thinking about it "), Say::Stall("Again "), Say::Text("Good.")]);
    let mut tty = chat(&bench, &fake, 80, 24);
    tty.enter("think");
    tty.until_it_shows("agent  Thinking about");
    tty.enter("later");
    tty.until_it_shows("queued  1 later");
    tty.press(ESCAPE);
    tty.until_it_shows("─ cancelled · everything so far is kept");
    tty.until_it_shows("Message, or /retry to go on with what waits");
    tty.enter("/retry");
    tty.until_it_shows("you    later");
    tty.until_it_shows(BUSY);
    // Sooner, Ctrl-C would be the second of two, and leave.
    std::thread::sleep(std::time::Duration::from_secs(2));
    tty.press(CTRL_C);
    tty.until("it is cancelled again", |screen| count(screen, "─ cancelled") == 2);
    tty.leave();
    let shown = bench.run(&["sessions", "show", "last"]).exits(0).out;
    assert!(shown.contains("Thinking about it") && shown.contains("later"), "{shown}");
}

#[test]
fn a_tool_runs_after_a_yes_and_not_after_a_no() {
    let bench = Bench::new();
    bench.write("notes.txt", "one\ntwo\n");
    let fake = Fake::start([
        Say::Call("edit", json!({ "path": "notes.txt", "old": "one\ntwo", "new": "three" })),
        Say::Call("bash", json!({ "command": "until [ -e go ]; do sleep 0.1; done; touch made" })),
        Say::Text("Done."),
    ]);
    let mut tty = chat(&bench, &fake, 80, 24);
    tty.enter("change it");
    tty.until_it_shows("edit? y/n/a ›");
    let screen = tty.screen();
    assert!(
        screen.contains("? edit wants to run\n    notes.txt\n    - one\n    - two\n    + three\n"),
        "{screen}"
    );
    assert!(screen.contains("waits for you"), "{screen}");
    tty.enter("perhaps");
    tty.until_it_shows("a or all, then Enter");
    tty.enter("n use the other file");
    tty.until_it_shows("bash? y/n/a ›");
    assert_eq!(std::fs::read_to_string(bench.work().join("notes.txt")).unwrap(), "one\ntwo\n");
    assert!(fake.asked()[1].to_string().contains("use the other file"), "{}", fake.asked()[1]);
    assert!(tty.screen().contains("    until [ -e go ]; do sleep 0.1; done; touch made"), "{}", tty.screen());
    assert!(tty.screen().contains("▸ edit notes.txt"), "{}", tty.screen());
    tty.enter("y");
    tty.until_it_shows("▸ bash until [ -e go ]; do sleep 0.1; done; touch made");
    tty.until_it_shows("running");
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    bench.write("go", "");
    tty.until_it_shows("agent  Done.");
    assert!(bench.work().join("made").exists());
    let screen = tty.screen();
    let seconds = screen.split("done · ").nth(1).and_then(|rest| rest.split(" s").next()?.parse().ok());
    assert!(seconds.is_some_and(|seconds: u32| seconds >= 1), "{screen}");
    assert!(!screen.contains("running"), "{screen}");
    assert_eq!(count(&screen, "▸ bash"), 1, "the running row became the permanent one: {screen}");
}

#[test]
fn what_is_being_typed_stays_while_an_answer_comes_in() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Held("one two three four five six seven eight nine ten eleven twelve")]);
    let mut tty = chat(&bench, &fake, 80, 24);
    tty.enter("go");
    tty.until_it_shows("writing");
    tty.press("yes, and");
    tty.until_it_shows("› yes, and");
    fake.go_on();
    tty.until_it_shows("twelve");
    tty.enter(" more");
    until("it is sent", || fake.asked().len() == 2);
    assert!(fake.asked()[1].to_string().contains("yes, and more"));
}

#[test]
fn a_compaction_leaves_a_row_and_is_undone() {
    let bench = Bench::new();
    imported(&bench, 12);
    let fake = Fake::start([Say::Text(SUMMARY)]);
    for (columns, rows) in [(80, 24), (40, 12)] {
        let mut tty = Tty::start(&bench.with(&fake, &["chat", "-c"]), columns, rows);
        tty.until_it_shows("›");
        tty.enter("/compact");
        tty.until("the row", |screen| {
            screen.contains("─ compacted ")
                && screen.lines().any(|line| line.ends_with("all recoverable · /undo"))
        });
        tty.enter("/undo");
        tty.until("it is undone", |screen| screen.contains("─ undone "));
        assert!(tty.everything().contains("─ compacted "), "it stays: {}", tty.everything());
        tty.press(CTRL_D);
        assert_eq!(tty.end().code(), Some(0));
    }
}

#[test]
fn the_context_is_printed_to_be_copied() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let mut tty = chat(&bench, &fake, 80, 40);
    tty.press("/cont");
    tty.until_it_shows("› /context");
    tty.press("\r");
    tty.until_it_shows("context of fake-1");
    tty.until_it_shows("all calls together");
    let bytes = String::from_utf8(tty.bytes()).unwrap();
    let row = bytes.lines().find(|line| line.contains("system prompt")).unwrap();
    assert_eq!(row.trim_end_matches('\r'), row.trim_end(), "no blanks at its end: {row:?}");
    assert!(!row.contains('\u{1b}'), "no paint: {row:?}");
}

#[test]
fn a_terminal_that_changes_its_size_in_mid_stream_shows_everything_once() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Slow(WORDS), Say::Slow(WORDS)]);
    let mut tty = chat(&bench, &fake, 90, 30);
    for turn in 1..=2 {
        tty.enter("go");
        tty.until("it is asked", |_| fake.asked().len() == turn);
        for (columns, rows) in [(60, 20), (40, 12), (90, 30), (50, 16), (30, 30)] {
            tty.resize(columns, rows);
            std::thread::sleep(std::time::Duration::from_millis(250));
        }
        tty.until("it is over", |screen| count(screen, "z26") == turn && screen.contains("› Message, or"));
    }
    let screen = tty.screen();
    assert_eq!(count(&screen, "/16K"), 1, "one meter: {screen}");
    assert_eq!(count(&screen, "›"), 1, "one input: {screen}");
    assert!(!screen.contains('▍') && !screen.contains("writing"), "{screen}");
    let everything = tty.everything();
    for word in WORDS.split(' ') {
        let seen = everything.split_whitespace().filter(|other| *other == word).count();
        assert_eq!(seen, 2, "{word} in\n{everything}");
    }
}

#[test]
fn pastes_of_every_kind_are_one_message() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let mut tty = chat(&bench, &fake, 80, 24);
    let large: String = (0..60).map(|line| format!("line {line}\r")).collect();
    tty.press(&format!("see \u{1b}[200~{large}\u{1b}[201~"));
    tty.until_it_shows("› see [60 lines pasted]");
    assert!(fake.asked().is_empty(), "nothing is sent yet");
    tty.press("\r");
    until("it is sent", || fake.asked().len() == 1);
    assert!(fake.asked()[0].to_string().contains("see line 0\\nline 1\\n"), "{}", fake.asked()[0]);
    tty.until_it_shows(IDLE);
    // A terminal that marks none.
    tty.press("first of them\rsecond of them\r");
    tty.until_it_shows("› first of them\n  second of them");
    assert_eq!(fake.asked().len(), 1, "nothing is sent yet");
    tty.press(ALT_ENTER);
    tty.press("third\\");
    tty.enter("");
    tty.enter("fourth");
    until("it is sent", || fake.asked().len() == 2);
    let sent = fake.asked()[1].to_string();
    assert!(sent.contains("first of them\\nsecond of them\\nthird\\nfourth\""), "{sent}");
}

#[test]
fn without_colour_and_without_unicode_it_works_as_well() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Call("bash", json!({ "command": "echo hi" })), Say::Text("Done – née.")]);
    let mut command = bench.with(&fake, &["chat"]);
    command.env("LANG", "C").env("NO_COLOR", "1");
    let mut tty = Tty::start(&command, 40, 12);
    tty.until_it_shows("> Message, or / for commands");
    tty.enter("go");
    tty.until_it_shows("bash? y/n/a > ");
    tty.enter("a");
    tty.until_it_shows("agent  Done - n?e.");
    tty.press(CTRL_D);
    tty.end();
    let mut bytes = tty.bytes();
    let end = bytes.windows(8).rposition(|it| it == b"\x1b[?2004l").unwrap();
    bytes.truncate(end);
    assert!(bytes.is_ascii(), "{}", String::from_utf8_lossy(&bytes));
    let text = String::from_utf8(bytes).unwrap();
    for code in ["1", "2", "31", "33", "36"] {
        assert!(!text.contains(&format!("\u{1b}[{code}m")), "{text}");
    }
    assert!(!tty.screen().contains("~ %"), "{}", tty.screen());
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("One."), Say::Stall("Two ")]);
    for ending in ["end", "twice", "TERM", "HUP", "failure"] {
        let mut tty = chat(&bench, &fake, 80, 24);
        assert!(!tty.is_cooked() && tty.marks_pastes(), "{ending}");
        match ending {
            "end" => {
                tty.enter("hello");
                tty.until_it_shows("One.");
                tty.until_it_shows(IDLE);
                tty.press(CTRL_D);
            }
            "twice" => {
                tty.enter("hello");
                tty.until_it_shows("Two");
                tty.leave();
            }
            "failure" => tty.enter("/sessions nonsense"),
            name => signal(&tty.child, name),
        }
        if ending == "failure" {
            tty.until_it_shows("✗");
            tty.press(CTRL_D);
        }
        let code = tty.end().code();
        let expected = if matches!(ending, "end" | "failure") { Some(0) } else { Some(130) };
        assert!(code == expected || ending == "twice", "{ending}: {code:?}");
        assert!(tty.is_cooked() && !tty.marks_pastes() && !tty.is_cursor_hidden(), "{ending}");
        let screen = tty.screen();
        assert!(
            !screen.contains(IDLE) && !screen.contains(BUSY) && !screen.contains("/16K"),
            "no live row is left: {ending}\n{screen}"
        );
        if ending == "end" {
            assert!(screen.contains("agent  One.\n  session "), "{screen}");
        }
    }
}

#[test]
fn somebody_goes_to_another_session_and_takes_the_screen_along() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("One.")]);
    let mut tty = chat(&bench, &fake, 80, 24);
    tty.enter("hello");
    tty.until_it_shows("One.");
    tty.until_it_shows(IDLE);
    tty.enter("/fork");
    tty.until("the copy is opened", |screen| count(screen, "longhaul ·") == 2);
    tty.until_it_shows(IDLE);
    let screen = tty.screen();
    assert_eq!(count(&screen, "/16K"), 1, "{screen}");
    // What was said there comes back with the up key.
    tty.press(UP);
    tty.until_it_shows("› hello");
    tty.press(CTRL_C);
    tty.until_it_shows(IDLE);
    tty.press(CTRL_D);
    assert_eq!(tty.end().code(), Some(0));
}

#[test]
fn a_terminal_that_moves_no_cursor_has_the_plain_chat() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let mut dumb = bench.with(&fake, &["chat"]);
    dumb.env("TERM", "dumb");
    let mut plain = Tty::start(&dumb, 80, 24);
    plain.until_it_shows("/help shows the commands");
    plain.enter("hello");
    plain.until_it_shows("agent  That was all.");
    assert!(!plain.bytes().contains(&0x1b), "{}", plain.screen());
    plain.press(CTRL_D);
    plain.end();
    let lines = Tty::start(&bench.with(&fake, &["chat", "--plain"]), 80, 24);
    lines.until_it_shows("› ");
    assert!(!String::from_utf8_lossy(&lines.bytes()).contains("\u{1b}[?2026h"), "nothing is redrawn");
}

/// Lines that the terminal had to break, though all of their words would have fitted between breaks. Commands are left
/// to it: they are to be copied.
fn broken_by_the_terminal(tty: &Tty, columns: usize) -> Vec<String> {
    let text = String::from_utf8(tty.bytes()).unwrap();
    let plain: String = text
        .split('\u{1b}')
        .enumerate()
        .map(|(at, piece)| match at {
            0 => piece,
            _ => piece.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).get(1..).unwrap_or_default(),
        })
        .collect();
    plain
        .lines()
        .filter(|line| {
            let is_command = line.trim_start().starts_with("longhaul --");
            let longest = line.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
            !is_command && line.trim_end().chars().count() > columns && longest < columns / 2
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn in_a_narrow_terminal_no_line_breaks_within_a_word() {
    let bench = Bench::new();
    for name in ["one", "two", "three", "four", "five", "six", "seven"] {
        let lines =
            (0..60).map(|at| format!("Line {at} of {name}.md says very little about anything at all.\n"));
        bench.write(&format!("{name}.md"), &lines.collect::<String>());
    }
    for (args, told) in [
        (&["doctor"][..], "would use"),
        (&["demo", "--fast"], "came back right"),
        (&["context"], "output reserve"),
        (&["sessions", "show", "last"], "read"),
    ] {
        let mut tty = Tty::start(&bench.command(args), 45, 40);
        assert_eq!(tty.end().code(), Some(0), "{args:?}: {}", tty.everything());
        let everything = tty.everything().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(everything.contains(told), "{args:?}: {everything}");
        assert_eq!(broken_by_the_terminal(&tty, 45), [""; 0], "{args:?}");
    }
    let fake =
        Fake::start([Say::Text("One answer, with many words in it, so that it takes more than one row.")]);
    for args in [&["chat"][..], &["chat", "--plain"]] {
        let mut tty = Tty::start(&bench.with(&fake, args), 45, 40);
        tty.until_it_shows("›");
        tty.enter("/context");
        tty.until_it_shows("output reserve");
        // What is redrawn is no line; what went up is there to be read.
        let rows = tty.everything();
        let cut = rows.lines().filter(|row| row.trim_end().chars().count() == 45);
        assert_eq!(cut.collect::<Vec<_>>(), [""; 0], "{args:?}:\n{rows}");
        assert!(
            rows.lines().any(|row| row.trim_end().ends_with(" %") && row.contains("output reserve")),
            "{rows}"
        );
        tty.press(CTRL_D);
        tty.end();
    }
}

/// A session of tmux on a socket of its own; it ends with this value.
struct Tmux {
    socket: std::path::PathBuf,
}

impl Tmux {
    fn run(&self, args: &[&str]) -> String {
        let mut tmux = std::process::Command::new("/usr/bin/tmux");
        let tmux = tmux.arg("-S").arg(&self.socket).args(["-f", "/dev/null"]).args(args);
        let given = tmux.output().unwrap();
        assert!(given.status.success(), "{args:?}: {}", String::from_utf8_lossy(&given.stderr));
        String::from_utf8(given.stdout).unwrap()
    }

    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        until(what, || {
            screen = self.run(&["capture-pane", "-p"]);
            is_so(&screen)
        });
        screen
    }
}

impl Tmux {
    /// The program that the shell in it waits for.
    fn child(&self) -> Foreign {
        let shell = self.run(&["display-message", "-p", "#{pane_pid}"]);
        Foreign(stdout("pgrep", &["-P", shell.trim()]))
    }

    /// Until all that was written is there.
    fn until_it_rests(&self) {
        let all = || self.run(&["capture-pane", "-p", "-S", "-"]);
        let (mut last, mut looks) = (all(), 0);
        until("nothing comes any more", || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let now = all();
            looks = if now == last { looks + 1 } else { 0 };
            last = now;
            looks == 4
        });
    }

    /// Rows and columns, as the program in it is told.
    fn size(&self) -> String {
        stdout("stty", &["-F", self.run(&["display-message", "-p", "#{pane_tty}"]).trim(), "size"])
    }
}

/// A process that another has started.
struct Foreign(String);

impl Foreign {
    fn signal(&self, name: &str) {
        stdout("kill", &[&format!("-{name}"), &self.0]);
    }

    /// Stops it between two frames: on a busy machine it may be stopped just before it writes one.
    fn hold(&self) {
        until("it draws nothing", || self.sleeps());
        // Not by a program, which takes longer than the next frame does.
        let pid = self.0.trim().parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    }

    /// Whether all of its threads wait for something.
    fn sleeps(&self) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.0)) else { return true };
        let state = |thread: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
            stat.rsplit_once(") ")?.1.chars().next()
        };
        threads.filter_map(state).all(|state| state == 'S')
    }
}

fn stdout(program: &str, args: &[&str]) -> String {
    let given = std::process::Command::new(program).args(args).output().unwrap();
    assert!(given.status.success(), "{program} {args:?}: {given:?}");
    String::from_utf8(given.stdout).unwrap().trim().to_owned()
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

#[test]
fn a_terminal_that_sets_its_rows_anew_keeps_no_rests() {
    if !std::path::Path::new("/usr/bin/tmux").exists() {
        eprintln!("skipped: a_terminal_that_sets_its_rows_anew_keeps_no_rests needs /usr/bin/tmux");
        return;
    }
    let bench = Bench::new();
    // The words come slowly, so that few rows are live: rows that tmux has moved into its history stay there.
    let fake = Fake::start([Say::Slow(WORDS)]);
    let command = bench.with(&fake, &["chat"]);
    let home = bench.work();
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let line =
        format!("cd '{0}'; HOME='{0}' LANG=C.UTF-8 {1}; exec sleep 60", home.display(), words.join(" "));
    let tmux = Tmux { socket: bench.data().with_file_name("tmux") };
    tmux.run(&["new-session", "-d", "-x", "80", "-y", "24", &line]);
    tmux.run(&["set", "-g", "window-size", "manual"]);
    tmux.until("it is there", |screen| screen.contains(IDLE));
    tmux.run(&["send-keys", "go", "Enter"]);
    tmux.until("it writes", |screen| screen.contains("writing"));
    tmux.run(&["send-keys", "-l", "words that are typed and take more than forty columns of the terminal"]);
    let chat = tmux.child();
    for (columns, rows) in [("60", "24"), ("40", "12"), ("70", "20"), ("45", "24"), ("80", "24")] {
        // What was drawn for the old size must not arrive after the new one: no program could take that back.
        chat.hold();
        tmux.until_it_rests();
        tmux.run(&["resize-window", "-x", columns, "-y", rows]);
        until("the chat's terminal has the size", || tmux.size() == format!("{rows} {columns}"));
        chat.signal("CONT");
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let screen = tmux.until("it is over", |screen| screen.contains("z26") && !screen.contains('▍'));
    assert_eq!(count(&screen, "/16K"), 1, "one meter: {screen}");
    assert_eq!(count(&screen, "›"), 1, "one input: {screen}");
    let all = tmux.run(&["capture-pane", "-p", "-J", "-S", "-"]);
    for word in WORDS.split(' ') {
        assert_eq!(all.split_whitespace().filter(|other| *other == word).count(), 1, "{word} in\n{all}");
    }
    tmux.run(&["send-keys", "C-c"]);
    tmux.until("what was typed is dropped", |screen| screen.contains(IDLE));
    tmux.run(&["send-keys", "C-d"]);
    let screen = tmux.until("it has ended", |screen| screen.contains("goes on"));
    assert!(!screen.contains("/16K"), "no live row is left: {screen}");
}

#[test]
fn a_chat_says_that_the_api_was_found_below_its_version() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("Hello.")]);
    let root = fake.url().trim_end_matches("/v1").to_owned();
    let file = format!("model: {{ name: fake-1, base_url: '{root}', context_window: 16000 }}\n");
    let file = bench.write("longhaul.yml", &file);
    let mut tty = Tty::start(&bench.command(["--config", file.to_str().unwrap(), "chat"]), 100, 24);
    tty.until_it_shows("›");
    tty.enter("hello");
    tty.until_it_shows("agent  Hello.");
    tty.until_it_shows(&format!("{root}/v1"));
    tty.leave();
}
