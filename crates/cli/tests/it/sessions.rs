use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::bench::{Bench, fed, given, signal};
use crate::chat::Terminal;
use crate::fake::{Fake, Say};

/// What a model writes of the imported conversation.
const SUMMARY: &str = "## Goal\nKnow the parts.\n## Done\nThe first parts were described one after the other, each with \
    its number and what it is for: marker-0 in src/part0.rs, marker-1 in src/part1.rs, and so on.\n## Next steps\nGo on with the parts that were not \
    described yet.";

/// A recorded conversation of `turns` turns.
fn recorded(turns: usize) -> String {
    let mut messages = Vec::new();
    for turn in 0..turns {
        messages
            .push(json!({ "role": "user", "content": format!("Question {turn}: what is in part {turn}?") }));
        let mut answer = format!("In part {turn} there is marker-{turn}. It is in src/part{turn}.rs. ");
        for word in 0..60 {
            write!(answer, "filler{word} of part {turn}, ").unwrap();
        }
        messages.push(json!({ "role": "assistant", "content": answer }));
    }
    Value::from(messages).to_string()
}

fn imported(bench: &Bench, turns: usize) -> String {
    let file = bench.write("recorded.json", &recorded(turns));
    let given = bench.run(&["sessions", "import", file.to_str().unwrap()]).exits(0);
    given.out.trim().to_owned()
}

#[test]
fn a_recorded_conversation_is_imported_shown_and_found_again() {
    let bench = Bench::new();
    let id = imported(&bench, 8);
    let list = bench.run(&["sessions", "list"]).exits(0).out;
    assert!(list.starts_with(&id[..8]) && list.contains("Question 0: what is in part 0?"), "{list}");
    let shown = bench.run(&["sessions", "show", &id[..10]]).exits(0).out;
    assert!(shown.contains("you    Question 7: what is in part 7?") && shown.contains("marker-7"), "{shown}");
    let found = bench.run(&["recall", "last", "marker-3"]).exits(0).out;
    let handle = found.lines().find(|line| line.contains("lh:")).unwrap();
    let handle = handle.split(['<', '>', ' ']).find(|word| word.starts_with("lh:")).unwrap();
    let exact = bench.run(&["recall", "last", handle]).exits(0).out;
    assert!(
        exact.starts_with("In part 3 there is marker-3. It is in src/part3.rs. filler0 of part 3, "),
        "{exact}"
    );
    let nothing = bench.run(&["recall", "last", "no-such-word"]).exits(1);
    assert!(nothing.out.is_empty() && nothing.err.contains("nothing in this session matches"), "{nothing:?}");
    bench.run(&["recall", "last", "lh:999"]).exits(1);
}

#[test]
fn several_files_and_a_pipe_are_imported_and_a_bad_one_is_named() {
    let bench = Bench::new();
    let good = bench.write("good.json", &recorded(1));
    let bad = bench.write("bad.txt", "not a conversation");
    let two = json!([
        { "task_id": 0, "reward": 1.0, "traj": [{ "role": "user", "content": "one" }, { "role": "assistant", "content": "1" }] },
        { "task_id": 1, "reward": 0.0, "traj": [{ "role": "user", "content": "two" }, { "role": "assistant", "content": "2" }] },
    ]);
    let args = ["sessions", "import", good.to_str().unwrap(), bad.to_str().unwrap(), "-"];
    let given = fed(bench.command(args), two.to_string()).exits(1);
    assert_eq!(given.out.lines().count(), 3, "{given:?}");
    assert!(
        given.err.contains("bad.txt: unknown format") && given.err.contains("1 of 3 files"),
        "{}",
        given.err
    );
    let list: Value = serde_json::from_str(&bench.run(&["sessions", "list", "--json"]).exits(0).out).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 3);
}

#[test]
fn an_export_comes_back_as_it_was() {
    let bench = Bench::new();
    let id = imported(&bench, 3);
    let exported = bench.run(&["sessions", "export", &id]).exits(0).out;
    let file = bench.work().join("copy.jsonl");
    bench.run(&["sessions", "export", &id, file.to_str().unwrap()]).exits(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), exported);
    let refused = bench.run(&["sessions", "export", &id, file.to_str().unwrap()]).exits(1);
    assert!(refused.err.contains("exists already; --force overwrites it"), "{}", refused.err);
    bench.run(&["sessions", "export", "--force", &id, file.to_str().unwrap()]).exits(0);
    let copy = bench.run(&["sessions", "import", file.to_str().unwrap()]).exits(0).out;
    let again = bench.run(&["sessions", "export", copy.trim()]).exits(0).out;
    assert_eq!(lines_after_head(&again), lines_after_head(&exported));
    let markdown = bench.run(&["sessions", "export", "--markdown", &id]).exits(0).out;
    assert!(markdown.contains("## User") && markdown.contains("marker-2"), "{markdown}");
}

fn lines_after_head(text: &str) -> Vec<String> {
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn outputs_that_were_cut_travel_with_an_export() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Call("bash", json!({ "command": "seq 1 20000" })), Say::Text("long")]);
    let events = bench.run_with(&fake, &["run", "--json", "--yes", "count"]).exits(0).out;
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let result = events.iter().find(|event| event["name"] == "llm:tool-result").unwrap();
    assert_eq!(result["truncated"], true);
    let handle = format!("lh:{}", result["seq"]);
    let file = bench.work().join("a.jsonl");
    bench.run(&["sessions", "export", "last", file.to_str().unwrap()]).exits(0);
    bench.run(&["sessions", "delete", "--yes", "last"]).exits(0);
    std::fs::remove_dir_all(bench.data()).unwrap();
    bench.run(&["sessions", "import", file.to_str().unwrap()]).exits(0);
    let found = bench.run(&["recall", "last", &handle]).exits(0).out;
    assert!(found.starts_with("1\n2\n3\n") && found.contains("\n20000\n"), "{} bytes", found.len());
}

#[test]
fn a_session_is_forked_and_deleted() {
    let bench = Bench::new();
    let id = imported(&bench, 3);
    let fork = bench.run(&["sessions", "fork", &id, "--at", "3"]).exits(0).out;
    let shown = bench.run(&["sessions", "show", fork.trim()]).exits(0).out;
    assert!(shown.contains("marker-0") && !shown.contains("marker-1"), "{shown}");
    bench.run(&["sessions", "fork", &id, "999"]).exits(1);
    bench.run(&["sessions", "delete", "--yes", &id]).exits(0);
    bench.run(&["sessions", "show", &id]).exits(1);
    bench.run(&["sessions", "show", fork.trim()]).exits(0);
}

#[test]
fn the_context_is_shown_as_a_table_and_as_json() {
    let bench = Bench::new();
    imported(&bench, 6);
    let table = bench.run(&["context", "last"]).exits(0).out;
    assert!(table.contains("system prompt") && table.contains("window from"), "{table}");
    let report: Value =
        serde_json::from_str(&bench.run(&["context", "last", "--json"]).exits(0).out).unwrap();
    let tools: u64 = report["tools"].as_array().unwrap().iter().map(|share| number(&share["tokens"])).sum();
    let parts = number(&report["systemPrompt"]) + tools + number(&report["messages"]["total"]);
    assert_eq!(parts, number(&report["total"]), "parts add up: {report}");
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

#[test]
fn a_compaction_is_previewed_made_and_undone() {
    let bench = Bench::new();
    let id = imported(&bench, 12);
    let fake = Fake::start([Say::Text(SUMMARY)]);
    // Who counts, and with what experience, depends on the model.
    let context = || -> Value {
        serde_json::from_str(&bench.run_with(&fake, &["context", &id, "--json"]).exits(0).out).unwrap()
    };
    let before = context();
    let preview = bench.run(&["compact", &id, "--dry-run"]).exits(0).out;
    for expected in [
        "strategy    adaptive",
        "one model call",
        "20 messages",
        "lh:",
        "→",
        "before the summary",
        "without the summary, at least",
        "nothing was changed",
    ] {
        assert!(preview.contains(expected), "{expected}: {preview}");
    }
    assert_eq!(context(), before);
    let promised = paths(&preview);
    let done = bench.run_with(&fake, &["compact", &id, "--instructions", "mind the parts"]).exits(0).out;
    assert!(done.starts_with("compacted 20 messages · "), "{done}");
    assert!(done.contains("recoverable by the model"), "{done}");
    let kept = paths(&done);
    assert_eq!(promised.iter().sum::<u64>(), kept.iter().sum::<u64>());
    assert!(promised[0] <= kept[0] && kept[1] > 0 && kept[2..] == [0, 0], "{promised:?}, {kept:?}");
    // The command that is pasted is as long as the names in it.
    let set = done.lines().skip(1).filter(|line| !line.starts_with("undo with: longhaul --data-dir "));
    assert!(set.into_iter().all(|line| line.chars().count() <= 79), "{done}");
    assert!(fake.asked()[0].to_string().contains("mind the parts"));
    let edit = done.split_whitespace().last().unwrap();
    let after = context();
    let thousands =
        |report: &Value| format!("{:.1}K", report["total"].as_f64().unwrap() / 1_000.0).replace(".0K", "K");
    let sizes = format!("{} → {} tokens", thousands(&before), thousands(&after));
    assert!(done.contains(&sizes), "what `context` shows, {sizes}: {done}");
    assert_eq!(after["compacted"], 20, "as many as were said to go: {after}");
    assert!(after["total"].as_u64() < before["total"].as_u64() && after["compactionCount"] == 1, "{after}");
    let shown = bench.run(&["sessions", "show", &id]).exits(0).out;
    assert!(shown.contains("marker-0") && shown.contains("─ compacted 20 messages"), "{shown}");
    let undone = bench.run(&["undo", &id]).exits(0).out;
    assert!(undone.starts_with(&format!("undone {edit} · ")), "{undone}");
    // The messages are what they were; the tool `recall` came with the compaction and stays.
    let restored = context();
    assert_eq!(restored["messages"], before["messages"]);
    assert_eq!(restored["tools"], after["tools"]);
    assert!(first_tool_tokens(&before) < first_tool_tokens(&restored), "{before} {restored}");
    assert!(bench.run(&["undo", &id]).exits(1).err.contains("nothing to undo"));
    let again = bench.run(&["undo", &id, edit]).exits(1);
    assert!(again.err.contains(&format!("{edit} is already undone")), "{}", again.err);
}

fn first_tool_tokens(report: &Value) -> u64 {
    report["tools"][0]["tokens"].as_u64().unwrap()
}

/// The row of a survival report.
fn paths(report: &str) -> Vec<u64> {
    let row = report.lines().find_map(|line| line.strip_prefix("paths")).unwrap();
    row.split_whitespace().map(|number| number.replace(',', "").parse().unwrap()).collect()
}

#[test]
fn a_compaction_may_be_by_another_strategy_once() {
    let bench = Bench::new();
    let id = imported(&bench, 40);
    let preview = bench.run(&["compact", &id, "--dry-run", "--strategy", "truncation"]).exits(0).out;
    assert!(preview.starts_with("strategy    truncation\n"), "{preview}");
    assert!(preview.contains("facts kept  of what the model is shown\n"), "a plan that is sure: {preview}");
    let fake = Fake::start([]);
    let done = bench.run_with(&fake, &["compact", &id, "--strategy", "truncation"]).exits(0).out;
    assert_eq!(paths(&done), paths(&preview), "{done}");
    assert!(fake.asked().is_empty(), "no model was asked");
    bench.run(&["undo", &id]).exits(0);
    let usual = bench.run(&["compact", &id, "--dry-run"]).exits(0).out;
    assert!(usual.starts_with("strategy    adaptive\n"), "{usual}");
    for dry in [&["--dry-run"][..], &[]] {
        let wrong = bench.run(&[&["compact", &id, "--strategy", "best"], dry].concat()).exits(2).err;
        for name in longhaul_core::strategy::NAMES {
            assert!(wrong.contains(name), "{name}: {wrong}");
        }
    }
}

#[test]
fn a_summary_is_written_by_whom_the_file_names() {
    let bench = Bench::new();
    let id = imported(&bench, 12);
    let by = |context: &str| bench.write("longhaul.yml", &format!("context: {context}"));
    let compacted = |says: Vec<Say>| {
        let fake = Fake::start(says);
        bench.run_with(&fake, &["compact", &id]).exits(0);
        bench.run(&["undo", &id]).exits(0);
        fake.asked().iter().map(|asked| asked["model"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(compacted(summary()), ["fake-1"]);
    by("{ compression: { options: { summarizeWith: small } } }");
    assert_eq!(compacted(summary()), ["small"]);
    by("{ compression: { options: { summarizeWith: extract } } }");
    assert!(compacted(summary()).is_empty());
    let preview = bench.run(&["compact", &id, "--dry-run"]).exits(0).out;
    assert!(preview.contains("extracted without a model call"), "{preview}");
    let context = "{ compression: { strategy: pruning-agent }, pruningAgent: small }";
    by(&format!("{context}\nmodels: {{ small: {{ maxOutput: 16000 }} }}"));
    let pruned = r#"{ "prunedConversation": [{ "keep": 0 }], "summary": "Parts 0 to 9 were described." }"#;
    assert_eq!(compacted(vec![Say::Text(pruned)]), ["small"]);
}

fn summary() -> Vec<Say> {
    vec![Say::Text(SUMMARY)]
}

#[test]
fn tokens_say_what_kind_of_count_they_are() {
    let bench = Bench::new();
    let given =
        fed(bench.command(["tokens", "-"]), "The quick brown fox jumps over the lazy dog.\n").exits(0);
    assert!(given.out.contains("estimated, expected error up to 10 %"), "{}", given.out);
    assert!(given.out.contains("characters / 4") && given.out.contains("45  characters"), "{}", given.out);
    bench.run(&["tokens", "missing.txt"]).exits(2);
    std::fs::write(bench.work().join("wide.txt"), b"\xff\xfeh\0i\0").unwrap();
    let wide = bench.run(&["tokens", "wide.txt"]).exits(0);
    assert!(wide.out.contains(" 2  characters\n") && wide.err.is_empty(), "{wide:?}");
    std::fs::write(bench.work().join("old.txt"), b"one\nthe caf\xe9\n").unwrap();
    let old = bench.run(&["tokens", "old.txt"]).exits(0);
    assert!(
        old.err.contains("old.txt: 1 byte that is not UTF-8, at offset 11 (line 2, column 8)"),
        "{old:?}"
    );
    std::fs::write(bench.work().join("picture"), b"\x89PNG\r\n\x1a\n\0\0\0\xff\xff\xff\xff").unwrap();
    assert!(bench.run(&["tokens", "picture"]).exits(2).err.contains("this is not text"));
}

#[test]
fn an_export_may_be_piped_into_an_import() {
    let bench = Bench::new();
    imported(&bench, 1);
    let mut import = bench.command(["sessions", "import", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    // While the import waits for its input, the folder is another's.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let exported = bench.run(&["sessions", "export", "last", "-"]).exits(0).out;
    import.stdin.take().unwrap().write_all(exported.as_bytes()).unwrap();
    given(import.wait_with_output().unwrap()).exits(0);
    assert_eq!(bench.run(&["sessions", "list"]).exits(0).out.lines().count(), 2);
}

#[test]
fn a_file_that_is_no_conversation_opens_nothing() {
    let bench = Bench::new();
    let bad = bench.write("x.md", "# Notes");
    let given = bench.run(&["sessions", "import", bad.to_str().unwrap()]).exits(1);
    assert!(given.err.contains("x.md: ") && given.err.ends_with("nothing was imported\n"), "{}", given.err);
    assert!(!bench.data().exists());
}

#[test]
fn a_session_named_twice_is_deleted_once() {
    let bench = Bench::new();
    let (first, second) = (imported(&bench, 1), imported(&bench, 1));
    let given = bench.run(&["sessions", "delete", "-y", "last", "last", &second]).exits(0);
    assert_eq!(given.out, format!("deleted {second}\n"));
    bench.run(&["sessions", "delete", "-y", "last", "no-such-session"]).exits(1);
    bench.run(&["sessions", "show", &first]).exits(0);
    bench.run(&["sessions", "list", "-n", "0"]).exits(2);
}

#[test]
fn a_recalled_original_is_exact_to_the_byte() {
    let bench = Bench::new();
    for text in ["no line end", "two line ends\n\n"] {
        let file = bench.write("one.json", &json!([{ "role": "user", "content": text }]).to_string());
        bench.run(&["sessions", "import", file.to_str().unwrap()]).exits(0);
        let found = bench.run(&["recall", "last", "line"]).exits(0).out;
        let handle = found.split(['<', '>', ' ', '\n']).find(|word| word.starts_with("lh:")).unwrap();
        assert_eq!(bench.run(&["recall", "last", handle]).exits(0).out, text);
    }
}

/// Everything that only reads.
fn reading(bench: &Bench, id: &str) {
    let list = bench.run(&["sessions", "list"]).exits(0).out;
    assert!(list.contains("Question 0") && !list.contains("interrupted"), "{list}");
    for (args, expected) in [
        (&["sessions", "show", id][..], "marker-2"),
        (&["sessions", "export", id], "marker-2"),
        (&["sessions", "export", "--markdown", id], "marker-2"),
        (&["recall", id, "marker-1"], "marker-1"),
        (&["context", id], "system prompt"),
        (&["compact", "--dry-run", id], "nothing was changed"),
    ] {
        let given = bench.run(args).exits(0);
        assert!(given.out.contains(expected), "{args:?}: {given:?}");
    }
}

#[test]
fn sessions_are_read_beside_a_process_that_has_them() {
    let bench = Bench::new();
    let id = imported(&bench, 3);
    let fake = Fake::start([]);
    let mut server = bench.with(&fake, &["serve", "--addr", "127.0.0.1:0"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("http://"), "{line}");
    reading(&bench, &id);
    for args in [&["undo", &id][..], &["sessions", "delete", "-y", &id], &["sessions", "fork", &id]] {
        let given = bench.run(args).exits(1);
        assert!(given.err.contains("in use by another longhaul"), "{}", given.err);
    }
    signal(&server, "INT");
    assert_eq!(server.wait().unwrap().code(), Some(0));
    reading(&bench, &id);
}

#[test]
fn nothing_to_read_makes_no_folder() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["sessions", "list"]).exits(0).out, "");
    assert!(bench.run(&["context"]).exits(1).err.contains("no session yet"));
    assert!(!bench.data().exists());
}

/// A file system of its own for the data. Only root may make one.
#[cfg(target_os = "linux")]
struct Disk(std::path::PathBuf);

#[cfg(target_os = "linux")]
impl Disk {
    fn mount(bench: &Bench) -> Option<Self> {
        std::fs::create_dir(bench.data()).unwrap();
        let mounted = Self::tool("mount", &["-t", "tmpfs", "-o", "size=8m", "tmpfs"], &bench.data());
        mounted.then(|| Self(bench.data()))
    }

    fn tool(program: &str, args: &[&str], folder: &std::path::Path) -> bool {
        let mut tool = std::process::Command::new(program);
        tool.args(args).arg(folder).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }
}

#[cfg(target_os = "linux")]
impl Drop for Disk {
    fn drop(&mut self) {
        Self::tool("umount", &[], &self.0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn sessions_are_read_where_nothing_can_be_written() {
    let bench = Bench::new();
    let Some(disk) = Disk::mount(&bench) else {
        println!("skipped: sessions_are_read_where_… (mounting a file system needs root)");
        return;
    };
    let id = imported(&bench, 3);
    let mut rest = std::fs::File::create(disk.0.join("rest")).unwrap();
    while rest.write_all(&[0; 4096]).is_ok() {}
    drop(rest);
    reading(&bench, &id);
    assert!(Disk::tool("mount", &["-o", "remount,ro"], &disk.0));
    reading(&bench, &id);
}

#[test]
fn a_session_is_deleted_only_after_a_yes() {
    let bench = Bench::new();
    let id = imported(&bench, 1);
    let refused = bench.run(&["sessions", "delete", "last"]).exits(2);
    assert!(refused.err.contains("--yes"), "{}", refused.err);
    for (answer, expected, code) in
        [("n", "nothing was deleted", 0), ("", "nothing was deleted", 0), ("y", "deleted", 0)]
    {
        bench.run(&["sessions", "show", &id]).exits(0);
        let Some(mut terminal) = Terminal::of(&bench, &bench.command(["sessions", "delete", "last"])) else {
            println!("skipped: the question of a_session_is_deleted_… needs /usr/bin/script");
            return;
        };
        terminal.until_it_shows("delete this session for good? y/N");
        terminal.until_it_shows("Question 0: what is in part 0?");
        terminal.type_line(answer);
        terminal.until_it_shows(expected);
        assert_eq!(terminal.child.wait().unwrap().code(), Some(code));
    }
    bench.run(&["sessions", "show", &id]).exits(1);
}

#[test]
fn a_session_is_counted_as_its_own_model_counts() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("Die Antwort steht in der Datei.")]);
    let url = fake.url();
    bench.run(&["--base-url", &url, "--model", "qwen3-8b", "run", "Wo steht die Antwort?"]).exits(0);
    let context = |args: &[&str]| {
        let report = bench.run(&[args, &["context", "--json"]].concat()).exits(0).out;
        serde_json::from_str::<Value>(&report).unwrap()
    };
    let own = context(&[]);
    assert_eq!(own, context(&["--model", "qwen3-8b"]));
    let other = context(&["--model", "llama-3.1-8b"]);
    assert_ne!(own["tools"], other["tools"], "another vocabulary: {own} {other}");
    bench.write("longhaul.yml", "model: { name: llama-3.1-8b }");
    let again = context(&[]);
    assert_eq!((&own["systemPrompt"], &own["tools"]), (&again["systemPrompt"], &again["tools"]));
}

#[test]
fn a_fork_is_called_one_also_if_its_session_was_renamed() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    // A chat is named by its first message, once it is there.
    fed(bench.with(&fake, &["chat"]), "the heron\n").exits(0);
    bench.run(&["sessions", "fork", "last"]).exits(0);
    let listed: Value =
        serde_json::from_str(&bench.run(&["sessions", "list", "--json"]).exits(0).out).unwrap();
    let titles: Vec<&str> =
        listed.as_array().unwrap().iter().filter_map(|one| one["title"].as_str()).collect();
    assert_eq!(titles, ["the heron (fork)", "the heron"]);
}
