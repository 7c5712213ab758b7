//! What an agent file that was merely found may do, and what a folder may hold in the place of a file.

use std::process::Command;

use crate::bench::{Bench, given};
use crate::fake::{Fake, Say};

#[test]
fn a_found_file_sends_the_conversation_to_nobody_else() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("one")]);
    for (model, address) in [
        ("name: m, base_url: 'http://nowhere.invalid/v1'", "http://nowhere.invalid/v1"),
        ("name: m, base_url: 'http://localhost.nowhere.invalid/v1'", "http://localhost.nowhere.invalid/v1"),
        ("name: m, provider: anthropic", "https://api.anthropic.com"),
    ] {
        bench.write("longhaul.yml", &format!("model: {{ {model} }}\n"));
        let refused = bench.run(&["run", "hi"]).exits(2);
        let why = format!("sends the conversation to {address}");
        assert!(refused.err.contains(&why) && refused.err.contains("--config"), "{}", refused.err);
    }
    bench.write("longhaul.yml", &format!("model: {{ name: fake-1, base_url: '{}' }}\n", fake.url()));
    bench.run(&["run", "hi"]).exits(0);
}

#[test]
fn an_address_of_a_found_file_counts_once_it_was_named_and_not_over_the_command_lines() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("one"), Say::Text("two")]);
    let file = "retry: { patience: 0s, streamAttempts: 0 }\nmodel: { name: m, base_url: 'http://nowhere.invalid/v1' }\n";
    let path = bench.write("longhaul.yml", file);
    bench.run_with(&fake, &["run", "hi"]).exits(0);
    bench.run(&["run", "hi"]).exits(2);
    bench.run_with(&fake, &["--config", path.to_str().unwrap(), "run", "hi"]).exits(0);
    // Trusted now: it is tried, and nobody is there.
    bench.run(&["run", "hi"]).exits(1);
    bench.write("longhaul.yml", &format!("{file}# changed\n"));
    let changed = bench.run(&["run", "hi"]).exits(2);
    assert!(changed.err.contains("it has changed since you trusted it"), "{}", changed.err);
    std::fs::create_dir(bench.work().join("elsewhere")).unwrap();
    bench.write("elsewhere/longhaul.yml", &format!("{file}# new\n"));
    let mut command = bench.command(["run", "hi"]);
    let new = given(command.current_dir(bench.work().join("elsewhere")).output().unwrap()).exits(2);
    assert!(new.err.contains("you have not said that you trust it"), "{}", new.err);
    let doctor = bench.run(&["doctor"]).exits(2);
    assert!(doctor.out.contains("is not trusted") && !doctor.out.contains("mistakes"), "{}", doctor.out);
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_not_waited_for() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("one")]);
    for name in ["prompt.md", "tokenizer.json"] {
        assert!(Command::new("mkfifo").arg(bench.work().join(name)).status().unwrap().success());
    }
    for text in ["systemPrompt: { file: prompt.md }", "context: { tokenCounter: tokenizer.json }"] {
        bench.write("longhaul.yml", text);
        let refused = bench.run_with(&fake, &["run", "hi"]).exits(2);
        assert!(refused.err.contains("it is no regular file"), "{}", refused.err);
    }
    std::fs::remove_file(bench.work().join("longhaul.yml")).unwrap();
    bench.run(&["sessions", "list"]).exits(0);
    assert!(Command::new("mkfifo").arg(bench.data().join("calibration.json")).status().unwrap().success());
    bench.run_with(&fake, &["run", "hi"]).exits(0);
}

#[test]
fn what_a_killed_process_left_half_written_is_removed_at_the_next_start() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("one"), Say::Text("two")]);
    bench.run_with(&fake, &["run", "hi"]).exits(0);
    let folder = bench.data().join("blobs/blob/ab");
    std::fs::create_dir_all(&folder).unwrap();
    let hash = format!("ab{}", "0".repeat(62));
    let (staged, whole) = (folder.join(format!("{hash}#1")), folder.join(&hash));
    std::fs::write(&staged, "half").unwrap();
    std::fs::write(&whole, "whole").unwrap();
    bench.run_with(&fake, &["run", "hi"]).exits(0);
    assert!(!staged.exists() && whole.exists());
}

#[test]
fn a_found_file_asks_no_hook_until_it_was_named() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("one"), Say::Text("two")]);
    let remote = "{ url: 'http://me:s3cret@127.0.0.1:9/h?k=s3cret' }";
    bench.write("longhaul.yml", &format!("hooks: {{ preToolUse: {remote} }}\n"));
    let refused = bench.run_with(&fake, &["run", "hi"]).exits(2);
    assert!(refused.err.contains("asks http://127.0.0.1:9 as the hook `preToolUse`"), "{}", refused.err);
    assert!(!refused.err.contains("s3cret"), "{}", refused.err);
    let file = "hooks: { userPromptSubmit: { command: 'touch was-here; grep -q bad && exit 2; true' } }\n";
    let path = bench.write("longhaul.yml", file);
    let refused = bench.run_with(&fake, &["run", "hi"]).exits(2);
    let why = "runs the command `touch was-here; grep -q bad && exit 2; true` as the hook `userPromptSubmit`";
    assert!(refused.err.contains(why), "{}", refused.err);
    assert!(!bench.work().join("was-here").exists());
    bench.run_with(&fake, &["--config", path.to_str().unwrap(), "run", "hi"]).exits(0);
    assert!(bench.work().join("was-here").exists());
    // Trusted now, and heard.
    let blocked = bench.run_with(&fake, &["run", "something bad"]).exits(1);
    assert!(blocked.err.contains("refused by the userPromptSubmit hook"), "{}", blocked.err);
    bench.run_with(&fake, &["run", "hi"]).exits(0);
}
