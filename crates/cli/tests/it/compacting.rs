//! What a person is told of a compaction.

use serde_json::{Value, json};

use crate::bench::{Bench, fed};
use crate::chat::Terminal;
use crate::fake::{Fake, Say};

const SUMMARY: &str = "## Goal\nKnow the parts.\n## Done\nThe first parts were described one after the other, each with \
    its number and what it is for: marker-0 in src/part0.rs, marker-1 in src/part1.rs, and so on.\n## Next steps\nGo on with the parts that were not \
    described yet.";

/// A session of `turns` turns, of about 600 tokens each.
pub(crate) fn imported(bench: &Bench, turns: usize) -> String {
    let mut messages = Vec::new();
    for turn in 0..turns {
        messages.push(json!({ "role": "user", "content": format!("What is in part {turn}?") }));
        let filling: String = (0..60).map(|word| format!("filler{word} of part {turn}, ")).collect();
        let answer = format!("In part {turn} there is marker-{turn}. {filling}");
        messages.push(json!({ "role": "assistant", "content": answer }));
    }
    let file = bench.write("recorded.json", &Value::from(messages).to_string());
    bench.run(&["sessions", "import", file.to_str().unwrap()]).exits(0).out.trim().to_owned()
}

#[test]
fn what_asks_no_model_needs_none() {
    let bench = Bench::new();
    let id = imported(&bench, 12);
    for strategy in ["truncation", "middle-removal", "importance"] {
        let by = ["compact", &id, "--strategy", strategy, "--instructions", "mind the parts"];
        let given = bench.run(&[&by[..], &["--dry-run"]].concat()).exits(0).out;
        assert!(given.contains("the instructions would not be used"), "{strategy}: {given}");
        let given = bench.run(&by).exits(0).out;
        if !given.starts_with("nothing to compact") {
            assert!(
                given.starts_with("left out ") && given.contains(&format!("tokens · {strategy} · ")),
                "{given}"
            );
            assert!(given.contains("the instructions were not used: no model wrote a summary\n"), "{given}");
            bench.run(&["undo", &id]).exits(0);
        }
    }
    let given = bench.run(&["compact", &id, "--strategy", "summarization"]).exits(2);
    assert!(given.err.contains("there is no model to talk to yet"), "{}", given.err);
    bench.write("longhaul.yml", "context: { compression: { strategy: truncation } }");
    let log = bench.run(&["sessions", "export", &id]).exits(0).out;
    assert!(!log.contains("model-switched"), "nobody is talked to");
    assert!(bench.run(&["compact", &id]).exits(0).out.starts_with("left out "));
}

#[test]
fn instructions_that_are_too_long_are_refused() {
    let bench = Bench::new();
    let id = imported(&bench, 12);
    let long = "x".repeat(5_000);
    let said = "the instructions have 5,000 characters: at most 4,000 are taken";
    for dry in [&["--dry-run"][..], &[]] {
        let given = bench.run(&[&["compact", &id, "--instructions", &long], dry].concat()).exits(2);
        assert!(given.err.contains(said), "{}", given.err);
    }
    let fake = Fake::start([]);
    let input = format!("/compact {long}\n/preview {long}\n");
    let given = fed(bench.with(&fake, &["chat", "-c"]), &input).exits(0);
    assert_eq!(given.err.matches(said).count(), 2, "{}", given.err);
    assert!(fake.asked().is_empty());
}

#[test]
fn a_summary_that_failed_is_told_with_its_reason() {
    let bench = Bench::new();
    let id = imported(&bench, 12);
    let fake = Fake::start([
        Say::Cut("## Goal\nKnow"),
        Say::Cut("## Goal\nKnow"),
        Say::Cut("## Goal\nKnow"),
        Say::Cut("## Goal\nKnow"),
    ]);
    let given = bench.run_with(&fake, &["compact", &id, "--instructions", "mind the parts"]).exits(0).out;
    let lines: Vec<&str> = given.lines().collect();
    assert!(lines[0].contains("an extract without a model"), "{given}");
    assert!(
        lines[1].starts_with("no summary: ") && lines[1].ends_with("; an extract stands in its place"),
        "{given}"
    );
    assert_eq!(lines[2], "the instructions were not used: no model wrote a summary");
    let listed = bench.run(&["compactions", &id]).exits(0).out;
    assert!(listed.contains(" out, for summaries that were not used\n"), "the cost is told: {listed}");
    assert!(!listed.contains("no model call"), "{listed}");
    bench.run(&["undo", &id]).exits(0);
    let given = fed(bench.with(&fake, &["chat", "-c"]), "/compact mind the parts\n").exits(0).out;
    let why = lines[1].split("; an extract").next().unwrap();
    assert!(given.contains(&format!("─ {why}\n─ compacted 20 messages · ")), "{given}");
    assert!(given.contains(" · adaptive, without a model · "), "{given}");
    assert!(given.contains("the instructions were not used"), "{given}");
    assert_eq!(fake.asked().len(), 4, "each is asked for once more");
    let shown = bench.run(&["sessions", "show", &id]).exits(0).out;
    assert!(shown.contains(&format!("─ {why}\n")), "{shown}");
}

#[test]
fn who_waits_for_a_summary_is_told_so_and_a_pipe_is_not() {
    let bench = Bench::new();
    let id = imported(&bench, 12);
    let waiting = "compacting … a summary is being written";
    let fake = Fake::start([Say::Text(SUMMARY), Say::Text(SUMMARY), Say::Text(SUMMARY)]);
    let given = bench.run_with(&fake, &["compact", &id]).exits(0);
    assert!(!given.out.contains(waiting) && given.err.is_empty(), "{given:?}");
    bench.run(&["undo", &id]).exits(0);
    let given = fed(bench.with(&fake, &["chat", "-c"]), "/compact\n/undo\n").exits(0);
    assert!(!given.out.contains(waiting), "{}", given.out);
    let Some(mut terminal) = Terminal::of(&bench, &bench.with(&fake, &["compact", &id])) else {
        println!("skipped: the terminal of who_waits_for_a_summary_… needs /usr/bin/script");
        return;
    };
    terminal.until_it_shows(waiting);
    terminal.until_it_shows("undo with: ");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_notice_offers_no_undo_that_would_be_refused() {
    let bench = Bench::new();
    // The model's window is 16,000.
    let id = imported(&bench, 40);
    let fake = Fake::start([Say::Text(SUMMARY), Say::Text(SUMMARY)]);
    let given = fed(bench.with(&fake, &["chat", "-c"]), "/compact\n/undo\n/show\n").exits(0);
    let notice = given.out.lines().find(|line| line.contains("compacted ")).unwrap();
    assert!(notice.ends_with(" · adaptive · recall finds all · no room to undo"), "{notice}");
    assert_eq!(given.out.matches("no room to undo").count(), 2, "{}", given.out);
    assert!(given.err.contains("is not undone: the request would then have"), "{}", given.err);
    let second = imported(&bench, 40);
    let given = bench.run_with(&fake, &["compact", &second]).exits(0).out;
    let last = given.lines().last().unwrap();
    assert!(last.starts_with("it cannot be undone: "), "{given}");
    assert_ne!(id, second);
}

#[test]
fn only_compactions_that_hold_are_counted() {
    let bench = Bench::new();
    let id = imported(&bench, 12);
    let told = || {
        let table = bench.run(&["context", &id]).exits(0).out;
        table.lines().find(|line| line.contains("  compacted ")).map(|line| line.trim().to_owned())
    };
    assert_eq!(told(), None);
    bench.run(&["compact", &id, "--strategy", "truncation"]).exits(0);
    assert_eq!(told().as_deref(), Some("compacted           14 messages in 1 compaction"));
    bench.run(&["undo", &id]).exits(0);
    assert_eq!(told().as_deref(), Some("compacted           nothing: 1 compaction undone"));
    let fake = Fake::start([]);
    let given = fed(bench.with(&fake, &["chat", "-c"]), "/context\n").exits(0).out;
    assert!(given.contains("nothing: 1 compaction undone"), "{given}");
}

#[test]
fn a_trigger_that_cannot_be_got_under_is_named_with_its_line() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let file = |tokens: u64| {
        let text = format!("context:\n  compression:\n    trigger: {{ triggerTokens: {tokens} }}\n");
        bench.write("longhaul.yml", &text);
        bench.run_with(&fake, &["run", "hello"])
    };
    let refused = file(1).exits(2).err;
    assert!(refused.contains("longhaul.yml:3:31: ") && refused.contains("256 or more, not 1"), "{refused}");
    let warned = file(300).exits(0).err;
    assert!(warned.contains("longhaul.yml:3: triggerTokens is 300, but system prompt and tools"), "{warned}");
    let fine = file(9_000).exits(0).err;
    assert!(!fine.contains("triggerTokens"), "{fine}");
}

#[test]
fn several_handles_are_answered_together() {
    let bench = Bench::new();
    let id = imported(&bench, 4);
    let found = bench.run(&["recall", &id, "marker-2"]).exits(0).out;
    let handle = found.split(['<', '>', ' ', '\n']).find(|word| word.starts_with("lh:")).unwrap();
    let one = bench.run(&["recall", &id, handle]).exits(0).out;
    for pasted in [vec![format!("lh:2 {handle}")], vec!["lh:2,".to_owned(), handle.to_owned()]] {
        let words: Vec<&str> = pasted.iter().map(String::as_str).collect();
        let both = bench.run(&[&["recall", &id][..], &words].concat()).exits(0).out;
        let first = "── lh:2\nWhat is in part 0?\n\n";
        assert_eq!(both, format!("{first}── {handle}\n{}\n\n", one.trim_end_matches('\n')));
    }
    let missing = bench.run(&["recall", &id, "lh:2 lh:999"]).exits(1);
    assert!(missing.err.contains("nothing is stored under lh:999"), "{}", missing.err);
}

#[test]
fn a_list_that_leaves_sessions_out_says_so() {
    let bench = Bench::new();
    (0..3).for_each(|_| drop(imported(&bench, 1)));
    for json in [&["--json"][..], &[]] {
        let given = bench.run(&[&["sessions", "list", "-n", "2"], json].concat()).exits(0);
        assert_eq!(given.err, "2 of 3 sessions, the newest; --limit COUNT shows more\n");
        assert_eq!(bench.run(&[&["sessions", "list"], json].concat()).exits(0).err, "");
    }
    assert_eq!(bench.run(&["sessions", "list", "-n", "2"]).exits(0).out.lines().count(), 2);
}

#[test]
fn an_extract_that_no_model_wrote_is_called_one() {
    let bench = Bench::new();
    imported(&bench, 12);
    bench.write("longhaul.yml", "context: { compression: { options: { summarizeWith: extract } } }");
    let fake = Fake::start([]);
    let given = fed(bench.with(&fake, &["chat", "-c"]), "/compact\n").exits(0).out;
    assert!(given.contains(" · adaptive, without a model · "), "{given}");
    let shown = bench.run(&["sessions", "show", "last"]).exits(0).out;
    assert!(shown.contains(" · adaptive, without a model · "), "{shown}");
}

#[test]
fn the_undo_that_is_offered_works_as_it_is_pasted() {
    let bench = Bench::new();
    let id = imported(&bench, 12);
    let given = bench.run(&["compact", &id, "--strategy", "truncation"]).exits(0).out;
    let command = given.lines().find_map(|line| line.strip_prefix("undo with: longhaul ")).unwrap();
    let line = format!("{} {command}", env!("CARGO_BIN_EXE_longhaul"));
    let mut shell = std::process::Command::new("/bin/sh");
    let undone = shell.env_clear().env("HOME", "/nowhere").current_dir("/").args(["-c", &line]).output();
    let undone = undone.unwrap();
    assert!(undone.status.success(), "{line}: {undone:?}");
    assert!(String::from_utf8_lossy(&undone.stdout).starts_with("undone "), "{undone:?}");
}

/// The number before a word, in the first line that holds both words.
fn figure(text: &str, line: &str, word: &str) -> u64 {
    let found =
        text.lines().find(|it| it.contains(line) && it.contains(word)).unwrap_or_else(|| panic!("{text}"));
    let before = found.split(word).next().unwrap().trim();
    before.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{found}"))
}

#[test]
fn the_messages_of_all_compactions_add_up() {
    let bench = Bench::new();
    let id = imported(&bench, 40);
    let mut sum = 0;
    for strategy in ["importance", "truncation"] {
        let given = bench.run(&["compact", &id, "--strategy", strategy]).exits(0).out;
        assert!(
            given.starts_with("left out ") && !given.contains("left out, no model"),
            "counted once: {given}"
        );
        sum += figure(&given, "left out", " messages");
    }
    let table = bench.run(&["context", &id]).exits(0).out;
    assert_eq!(figure(&table, "compacted", " messages in 2 compactions"), sum, "{table}");
    let shown = bench.run(&["sessions", "show", &id]).exits(0).out;
    let rows: Vec<&str> = shown.lines().filter(|line| line.starts_with("─ left out ")).collect();
    assert_eq!(rows.iter().map(|row| figure(row, "left out", " messages")).sum::<u64>(), sum, "{rows:?}");
    assert!(
        rows[1].contains(" and 1 earlier note · ") && rows[1].contains(" · all recoverable · longhaul "),
        "{rows:?}"
    );
    assert!(rows[1].contains(&format!(" undo {id} e")), "{rows:?}");
    assert!(shown.contains("  why: it was asked for; no model call"), "{shown}");
    let listed = bench.run(&["compactions", &id]).exits(0).out;
    for told in [
        "importance",
        "truncation",
        "  why       it was asked for; no model call",
        "  cost      no model call",
        "  undo      longhaul ",
    ] {
        assert!(listed.contains(told), "{told}: {listed}");
    }
    let edits: serde_json::Value =
        serde_json::from_str(&bench.run(&["compactions", &id, "--json"]).exits(0).out).unwrap();
    assert_eq!(edits.as_array().unwrap().len(), 2, "{edits}");
    assert_eq!((&edits[1]["strategy"], &edits[1]["active"]), (&json!("truncation"), &json!(true)), "{edits}");
    assert_eq!(bench.run(&["orders", &id, "--json"]).exits(0).out, "[]\n");
    let fake = Fake::start([]);
    let chat = fed(bench.with(&fake, &["chat", "-c"]), "/compactions\n").exits(0).out;
    assert!(chat.contains(" · truncation · left out ") && chat.contains("  undo      "), "{chat}");
}

#[test]
fn a_refused_undo_names_all_that_must_be_undone_first() {
    let bench = Bench::new();
    let id = imported(&bench, 40);
    let ids = ["importance", "truncation"].map(|strategy| {
        let given = bench.run(&["compact", &id, "--strategy", strategy]).exits(0).out;
        given.trim_end().rsplit(' ').next().unwrap().to_owned()
    });
    let refused = bench.run(&["undo", &id, &ids[0]]).exits(1).err;
    assert!(refused.contains(&format!("undo {} first, then {}", ids[1], ids[0])), "{refused}");
    for id_of_edit in [&ids[1], &ids[0]] {
        bench.run(&["undo", &id, id_of_edit]).exits(0);
    }
    let fake = Fake::start([]);
    let small = imported(&bench, 12);
    bench.run(&["compact", &small, "--strategy", "truncation"]).exits(0);
    let chat = fed(bench.with(&fake, &["chat", "-c"]), "/undo\n").exits(0).out;
    assert!(chat.lines().any(|line| line.contains(" → ") && line.ends_with(" tokens")), "{chat}");
}

#[test]
fn what_is_meant_as_a_handle_and_is_none_is_refused() {
    let bench = Bench::new();
    let id = imported(&bench, 12);
    for wrong in ["lh:9-5", "lh:abc", "lh:2 lh:0"] {
        let refused = bench.run(&["recall", &id, wrong]).exits(1).err;
        assert!(refused.contains("expected `lh:12` or `lh:12-40`"), "{wrong}: {refused}");
    }
    let refused = bench.run(&["recall", &id, "lh:999"]).exits(1).err;
    assert!(
        refused.contains("nothing is stored under lh:999 in this session; the nearest is lh:"),
        "{refused}"
    );
    let given = bench.run(&["compact", &id, "--strategy", "truncation"]).exits(0).out;
    let edit = given.trim_end().rsplit(' ').next().unwrap();
    let refused = bench.run(&["recall", &id, edit]).exits(1).err;
    assert!(
        refused.contains(&format!("{edit} is an edit of the view, not a handle: it covers lh:")),
        "{refused}"
    );
    let fake = Fake::start([]);
    let chat = fed(bench.with(&fake, &["chat", "-c"]), "/recall lh:9-5\n").exits(0).err;
    assert!(chat.contains("not a handle"), "{chat}");
    assert!(bench.run(&["recall", &id, "what said lh:9-5 of marker-2"]).exits(0).out.contains("marker-2"));
}

#[test]
fn what_cannot_be_undone_is_said_before() {
    let bench = Bench::new();
    let by = |turns, window: u64| {
        let id = imported(&bench, turns);
        bench.write("longhaul.yml", &format!("model: {{ name: m, context_window: {window} }}"));
        let config = bench.work().join("longhaul.yml");
        let args =
            ["--config", config.to_str().unwrap(), "compact", &id, "--strategy", "truncation", "--dry-run"];
        bench.run(&args).exits(0).out
    };
    assert!(by(40, 8_000).contains("\nit cannot be undone: the view as it is has up to "), "it does not fit");
    assert!(!by(12, 64_000).contains("cannot be undone"), "it fits");
}

#[test]
fn a_context_says_whether_and_where_room_is_made() {
    let bench = Bench::new();
    let id = imported(&bench, 12);
    let table = bench.run(&["context", &id]).exits(0).out;
    assert!(table.starts_with("context of a model without a name · "), "{table}");
    bench.write("longhaul.yml", "context: { enabled: false }");
    let table = bench.run(&["context", &id]).exits(0).out;
    assert!(table.contains("no point: compaction is off (context.enabled); `/compact` in a chat"), "{table}");
    bench.write("longhaul.yml", "model: { name: m, context_window: 16000 }\ncontext: { compression: { trigger: { triggerTokens: 50000 } } }");
    let config = bench.work().join("longhaul.yml");
    let table = bench.run(&["--config", config.to_str().unwrap(), "context", &id]).exits(0).out;
    assert!(table.contains("the window: 50,000 (312 %) is configured"), "{table}");
    assert!(table.starts_with("context of m · "), "{table}");
    assert!(table.contains("    settings of       the agent that is configured now\n"), "{table}");
}

#[test]
fn doctor_says_whether_the_command_of_a_hook_is_there() {
    let bench = Bench::new();
    bench.write("guard.sh", "exit 0");
    let doctor = |line: &str| {
        bench.write("longhaul.yml", &format!("hooks: {{ preToolUse: {{ command: \"{line}\" }} }}"));
        let config = bench.work().join("longhaul.yml");
        bench.run(&["--config", config.to_str().unwrap(), "doctor"]).exits(0).out
    };
    for (line, expected) in [
        ("sh ./guard.sh", "preToolUse · is there"),
        ("no-such-guard now", "preToolUse · there is no no-such-guard"),
        ("sh ./missing.sh", "preToolUse · there is no ./missing.sh"),
    ] {
        let told = doctor(line);
        assert!(told.contains(expected), "{line}: {told}");
    }
}
