//! What a person is told of a compaction.

use serde_json::{Value, json};

use crate::bench::{Bench, fed};
use crate::chat::Terminal;
use crate::fake::{Fake, Say};

const SUMMARY: &str = "## Goal\nKnow the parts.\n## Done\nThe first parts were described.";

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
    let fake = Fake::start([Say::Cut("## Goal\nKnow"), Say::Cut("## Goal\nKnow")]);
    let given = bench.run_with(&fake, &["compact", &id, "--instructions", "mind the parts"]).exits(0).out;
    let lines: Vec<&str> = given.lines().collect();
    assert!(lines[0].contains("an extract without a model"), "{given}");
    assert!(
        lines[1].starts_with("no summary: ") && lines[1].ends_with("; an extract stands in its place"),
        "{given}"
    );
    assert_eq!(lines[2], "the instructions were not used: no model wrote a summary");
    bench.run(&["undo", &id]).exits(0);
    let given = fed(bench.with(&fake, &["chat", "-c"]), "/compact mind the parts\n").exits(0).out;
    let why = lines[1].split("; an extract").next().unwrap();
    assert!(given.contains(&format!("─ {why}\n─ compacted 20 messages · ")), "{given}");
    assert!(given.contains(" · an extract by adaptive · "), "{given}");
    assert!(given.contains("the instructions were not used"), "{given}");
    assert_eq!(fake.asked().len(), 2);
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
    assert!(notice.ends_with(" · adaptive · no room to undo"), "{notice}");
    assert_eq!(given.out.matches("no room to undo").count(), 2, "{}", given.out);
    assert!(given.err.contains("without it the request would have"), "{}", given.err);
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
    assert_eq!(told().as_deref(), Some("compacted             14 messages in 1 compaction"));
    bench.run(&["undo", &id]).exits(0);
    assert_eq!(told().as_deref(), Some("compacted             nothing: 1 compaction undone"));
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
    assert!(given.contains(" · an extract by adaptive · "), "{given}");
    let shown = bench.run(&["sessions", "show", "last"]).exits(0).out;
    assert!(shown.contains(" · an extract by adaptive · "), "{shown}");
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
