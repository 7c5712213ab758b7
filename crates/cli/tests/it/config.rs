use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::bench::{Bench, given, until};
use crate::fake::{Fake, Say};

#[test]
fn a_mistake_in_the_file_is_named_with_its_place() {
    let bench = Bench::new();
    bench.write("longhaul.yml", "run:\n  maxSteeps: 7\n");
    let given = bench.run(&["run", "hello"]).exits(2);
    assert!(
        given.err.contains("longhaul.yml:2:3: unknown key `maxSteeps` in `run`: did you mean `maxSteps`?"),
        "{}",
        given.err
    );
    assert_eq!(given.out, "");
    bench.run(&["--config", "missing.yml", "run", "hello"]).exits(2);
}

#[test]
fn bad_usage_exits_with_2() {
    let bench = Bench::new();
    for args in [
        &["no-such-command"][..],
        &["run", "--no-such-option"],
        &["--provider", "nobody", "run", "x"],
        &["--workspace", "missing", "run", "x"],
        &["--base-url", "ftp://x", "--model", "m", "run", "x"],
        &["sessions"],
    ] {
        let given = bench.run(args).exits(2);
        assert!(given.out.is_empty() && !given.err.is_empty(), "{args:?}: {given:?}");
    }
}

#[test]
fn the_command_line_wins_over_the_file() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("hello")]);
    bench.write(
        "longhaul.yml",
        "systemPrompt: Be a pirate.\nmodel: { name: other, base_url: 'http://127.0.0.1:9/v1' }\n",
    );
    bench.run_with(&fake, &["run", "hello"]).exits(0);
    let asked = &fake.asked()[0];
    assert_eq!(asked["model"], "fake-1");
    assert_eq!(asked["messages"][0]["content"], "Be a pirate.");
}

#[test]
fn a_hosted_provider_needs_a_model_and_another_provider_another_address() {
    let bench = Bench::new();
    for provider in ["openai", "anthropic", "gemini"] {
        let given = bench.run(&["--provider", provider, "run", "hello"]).exits(2);
        assert!(
            given.err.contains(&format!("--provider {provider} needs a model: --model NAME")),
            "{}",
            given.err
        );
    }
    // The address of the file is not that of the other provider: nothing is sent there.
    let fake = Fake::start([Say::Text("hello")]);
    bench.write(
        "longhaul.yml",
        &format!(
            "retry: {{ patience: 0s, streamAttempts: 0 }}\nmodel: {{ name: m, base_url: '{}' }}",
            fake.url()
        ),
    );
    bench.run(&["--provider", "ollama", "run", "hello"]).exits(1);
    assert!(fake.asked().is_empty());
}

#[test]
fn the_system_prompt_may_be_a_file_beside_the_agent_file() {
    let bench = Bench::new();
    std::fs::create_dir(bench.work().join("agents")).unwrap();
    bench.write("agents/prompt.md", "From a file.");
    bench.write("agents/one.yml", "systemPrompt: { file: prompt.md }");
    let fake = Fake::start([Say::Text("hello")]);
    bench.run_with(&fake, &["--config", "agents/one.yml", "run", "hello"]).exits(0);
    assert_eq!(fake.asked()[0]["messages"][0]["content"], "From a file.");
}

#[test]
fn the_first_model_of_a_server_is_taken_when_none_is_named() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Text("hello")]);
    bench.run(&["--base-url", &fake.url(), "run", "hello"]).exits(0);
    assert_eq!(fake.asked()[0]["model"], "fake-1");
}

#[test]
fn rules_of_the_file_allow_and_deny() {
    let bench = Bench::new();
    let fake = Fake::start([
        Say::Call("write", json!({ "path": "made.txt", "content": "x" })),
        Say::Call("bash", json!({ "command": "touch by-bash" })),
        Say::Text("done"),
    ]);
    let rules = "approvals: { rules: [{ tool: write, decision: allow }, { tool: bash, decision: deny }] }";
    bench.write("rules.yml", rules);
    let given = bench.run_with(&fake, &["--config", "rules.yml", "run", "--yes", "work"]).exits(0);
    assert!(bench.work().join("made.txt").exists() && !bench.work().join("by-bash").exists());
    assert!(given.err.contains("▸ bash touch by-bash") && given.err.contains("denied"), "{}", given.err);
}

#[test]
fn a_rule_for_an_unknown_tool_or_argument_is_refused() {
    let bench = Bench::new();
    for (rule, expected) in [
        ("{ tool: bsh, decision: deny }", "`approvals.rules[0].tool` cannot be `bsh`: did you mean `bash`?"),
        (
            "{ tool: bash, match: { comand: 'echo*' }, decision: deny }",
            "unknown key `comand` in `approvals.rules[0].match`: did you mean `command`?",
        ),
    ] {
        bench.write("rules.yml", &format!("approvals:\n  rules:\n    - {rule}\n"));
        let given = bench.run(&["--config", "rules.yml", "--provider", "scripted", "run", "hello"]).exits(2);
        assert!(given.err.contains("rules.yml:3:") && given.err.contains(expected), "{}", given.err);
    }
    bench.write(
        "rules.yml",
        "approvals: { rules: [{ tool: files__read, match: { any: '*' }, decision: allow }] }",
    );
    bench.run(&["--config", "rules.yml", "--provider", "scripted", "run", "hello"]).exits(0);
}

#[test]
fn a_command_that_a_rule_may_forbid_is_denied_at_once_without_a_person() {
    let rules = "approvals: { rules: [{ tool: bash, match: { command: 'git push*' }, decision: deny }, { tool: bash, decision: allow }] }";
    for args in
        [&["--config", "rules.yml", "run", "work"][..], &["--config", "rules.yml", "run", "--yes", "work"]]
    {
        let bench = Bench::new();
        let fake = Fake::start([
            Say::Call("bash", json!({ "command": "touch a; git $X" })),
            Say::Call("bash", json!({ "command": "touch b" })),
            Say::Text("done"),
        ]);
        bench.write("rules.yml", rules);
        let begun = std::time::Instant::now();
        let given = bench.run_with(&fake, args).exits(0);
        // A question that nobody answers would wait for ten minutes.
        assert!(begun.elapsed() < std::time::Duration::from_secs(300), "{:?}", begun.elapsed());
        assert!(given.err.contains("denied"), "{}", given.err);
        let told = fake.asked()[1].to_string();
        assert!(told.contains("Not run") && told.contains("does not show which commands"), "{told}");
        assert!(!told.contains("no answer came in time"), "{told}");
        assert!(!bench.work().join("a").exists() && bench.work().join("b").exists());
    }
}

#[test]
fn the_data_folder_is_private_and_belongs_to_one_process() {
    let bench = Bench::new();
    let fake = Fake::start([Say::Stall("Wait ")]);
    let mut first = bench.with(&fake, &["run", "wait"]).spawn().unwrap();
    until("the first one runs", || !fake.asked().is_empty());
    let mode = std::fs::metadata(bench.data()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let listed = bench.run(&["sessions", "list"]).exits(0).out;
    assert!(listed.contains("at work"), "reading is for everybody: {listed}");
    let second = bench.run(&["sessions", "fork", "last"]).exits(1);
    assert!(
        second.err.contains("is in use by another longhaul (process ") && second.err.lines().count() == 1,
        "{}",
        second.err
    );
    first.kill().unwrap();
    first.wait().unwrap();
    let listed = bench.run(&["sessions", "list"]).exits(0).out;
    assert!(listed.contains("interrupted"), "{listed}");
}

#[test]
fn a_run_that_was_killed_is_put_right_and_goes_on() {
    let bench = Bench::new();
    let fake =
        Fake::start([Say::Stall("The first half ends with kingfishers "), Say::Text("The second half.")]);
    let mut first = bench.with(&fake, &["run", "tell me"]).spawn().unwrap();
    until("its first half is kept", || bench.has_stored("kingfishers"));
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(bench.run(&["sessions", "list"]).exits(0).out.contains("interrupted"));
    bench.run_with(&fake, &["run", "--session", "last", "go on"]).exits(0);
    let shown = bench.run(&["sessions", "show", "last"]).exits(0).out;
    assert!(shown.contains("The first half") && shown.contains("The second half."), "{shown}");
}

#[test]
fn somebody_elses_open_folder_is_not_taken() {
    let bench = Bench::new();
    std::fs::create_dir(bench.data()).unwrap();
    std::fs::set_permissions(bench.data(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(bench.data().join("photo.jpg"), "x").unwrap();
    let conversation = bench.write("one.json", r#"[{ "role": "user", "content": "hello" }]"#);
    let import = ["sessions", "import", conversation.to_str().unwrap()];
    let mode = || std::fs::metadata(bench.data()).unwrap().permissions().mode() & 0o777;
    let given = bench.run(&import).exits(2);
    assert!(given.err.contains("--data-dir"), "{}", given.err);
    bench.run(&["sessions", "list"]).exits(0);
    assert_eq!(mode(), 0o755, "whoever only reads changes nothing");
    std::fs::remove_file(bench.data().join("photo.jpg")).unwrap();
    bench.run(&import).exits(0);
    assert_eq!(mode(), 0o700);
}

#[test]
fn the_doctor_says_what_is_here() {
    let bench = Bench::new();
    bench.write("longhaul.yml", "model: { provider: scripted, api_key_env: SOME_KEY }");
    let given =
        given(bench.command(["doctor"]).env("SOME_KEY", "sk-secret-12345").output().unwrap()).exits(0);
    for expected in ["data folder", "longhaul.yml", "scripted", "SOME_KEY is set", "sandbox"] {
        assert!(given.out.contains(expected), "{expected}: {}", given.out);
    }
    assert!(!given.out.contains("sk-secret"));
}

#[test]
fn the_doctor_asks_the_server_that_run_would_use() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let url = fake.url();
    let named = bench.run(&["--base-url", &url, "doctor"]).exits(0).out;
    assert!(
        named.contains("(named) · fake-1, talker-1") && named.contains(&format!("fake-1 at {url}")),
        "{named}"
    );
    let unlisted = bench.run(&["--base-url", &url, "--model", "other", "doctor"]).exits(0).out;
    assert!(unlisted.contains("does not list"), "{unlisted}");
    let root = url.trim_end_matches("/v1");
    for pasted in [
        root.to_owned(),
        format!("{root}/"),
        format!("{url}/chat/completions"),
        format!("{root}/v1/embeddings/"),
    ] {
        let said = bench.run(&["--base-url", &pasted, "doctor"]).exits(0).out;
        let (address, hint) = (format!("is at {url}"), "set `base_url` to it");
        assert!(
            said.contains("(named) · fake-1, talker-1") && said.contains(&address) && said.contains(hint),
            "{pasted}: {said}"
        );
        let listed = bench.run(&["--base-url", &pasted, "models"]).exits(0);
        assert!(listed.out.contains("talker-1") && listed.err.matches(hint).count() == 1, "{listed:?}");
    }
    let silent = bench.run(&["--base-url", "http://127.0.0.1:9/v1", "doctor"]).exits(0).out;
    assert!(silent.contains("127.0.0.1:9/v1 (named) · does not answer"), "{silent}");
    assert!(silent.contains("nothing: the server that is named does not answer"), "{silent}");
}

#[test]
fn a_file_may_name_the_server_that_is_also_the_default() {
    let bench = Bench::new();
    let named = [
        r#"{ name: qwen3-30b, base_url: "http://localhost:1234/v1" }"#,
        r#"{ base_url: "http://localhost:1234/v1" }"#,
    ];
    for model in named {
        bench.write("longhaul.yml", &format!("model: {model}"));
        let said = bench.run(&["doctor"]).exits(0).out;
        assert!(said.contains("localhost:1234/v1 (named)"), "{model}: {said}");
    }
    // A file that says nothing of a model has the one that is found.
    bench.write("longhaul.yml", "run: { maxSteps: 10 }");
    let said = bench.run(&["doctor"]).exits(0).out;
    assert!(!said.contains("(named)"), "{said}");
}

#[test]
fn the_help_breaks_between_words() {
    let bench = Bench::new();
    for args in [&["--help"][..], &["sessions", "export", "--help"], &["run", "--help"]] {
        let help = bench.command(args.iter()).env("COLUMNS", "80").output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    }
}

#[test]
fn a_found_file_that_asks_for_trust_is_named_once() {
    let fake = Fake::start([Say::Text("one"), Say::Text("two")]);
    let bench = Bench::new();
    let text = format!(
        "model: {{ name: fake-1, base_url: \"{}\" }}\napprovals: {{ rules: [{{ tool: bash, decision: allow }}] }}\n",
        fake.url()
    );
    let file = bench.write("longhaul.yml", &text);
    let refused = bench.run(&["run", "hi"]).exits(2);
    assert!(refused.err.contains("lets the tool `bash` run without asking"), "{}", refused.err);
    bench.run(&["--config", file.to_str().unwrap(), "run", "hi"]).exits(0);
    bench.run(&["run", "hi"]).exits(0);
    bench.write("longhaul.yml", &(text + "# changed\n"));
    bench.run(&["run", "hi"]).exits(2);
}

#[test]
fn the_file_of_a_prompt_that_is_not_there_is_named() {
    let bench = Bench::new();
    for (text, line) in
        [("systemPrompt: { file: nope.md }", 1), ("run: {}\nsystemPrompt:\n  file: nope.md\n", 3)]
    {
        bench.write("longhaul.yml", text);
        let given = bench.run(&["run", "hello"]).exits(2);
        let named = format!(
            "longhaul.yml:{line}: nope.md, the file of `systemPrompt`, cannot be read: there is no such file"
        );
        assert!(given.err.contains(&named), "{}", given.err);
    }
}

#[test]
fn a_providers_own_server_is_not_called_without_a_key() {
    let bench = Bench::new();
    for (provider, variable) in
        [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY"), ("gemini", "GEMINI_API_KEY")]
    {
        let given = bench.run(&["--provider", provider, "--model", "m", "run", "hello"]).exits(2);
        let why = format!("{provider} needs a key, and {variable} is not set");
        assert!(given.err.contains(&why) && given.err.lines().count() == 1, "{}", given.err);
    }
    let given = bench.run(&["--provider", "anthropic", "--model", "m", "doctor"]).exits(0);
    assert!(
        given.out.contains("https://api.anthropic.com/v1 (named) · not asked: the key is missing"),
        "{}",
        given.out
    );
    bench.write("longhaul.yml", "model: { api_key_env: MY_KEY }");
    let given = bench.run(&["--provider", "anthropic", "--model", "m", "run", "hello"]).exits(2);
    assert!(given.err.contains("MY_KEY is not set"), "{}", given.err);
    // Another server of the same wire may need none.
    let fake = Fake::start([]);
    bench.write("longhaul.yml", "retry: { patience: 0s, streamAttempts: 0 }");
    let given = bench.run_with(&fake, &["--provider", "openai", "run", "hello"]).exits(1);
    assert!(!given.err.contains("needs a key"), "{}", given.err);
}

#[test]
fn prompts_and_agent_files_may_be_utf_16_and_a_bad_byte_is_named_with_its_place() {
    let bench = Bench::new();
    let fake = Fake::start([]);
    let file = format!(
        "model: {{ base_url: '{}', name: fake-1 }}\nsystemPrompt: {{ file: prompt.md }}\n",
        fake.url()
    );
    let mut wide = vec![0xff, 0xfe];
    wide.extend(file.encode_utf16().flat_map(u16::to_le_bytes));
    std::fs::write(bench.work().join("longhaul.yml"), wide).unwrap();
    std::fs::write(bench.work().join("prompt.md"), b"\xfe\xff\0R\0h\0y\0m\0e\0!").unwrap();
    std::fs::write(bench.work().join("AGENTS.md"), b"Be fran\xe7ais.\n").unwrap();
    let given = bench.run(&["--config", "longhaul.yml", "run", "hello"]).exits(0);
    let system = fake.asked()[0]["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(system.starts_with("Rhyme!") && system.contains("Be fran\u{fffd}ais."), "{system}");
    assert!(given.err.contains("AGENTS.md has 1 byte that is not UTF-8, at offset 7"), "{}", given.err);
    std::fs::write(bench.work().join("prompt.md"), b"Rhyme\nin fran\xe7ais!").unwrap();
    let bad = bench.run(&["--config", "longhaul.yml", "run", "hello"]).exits(2);
    assert!(
        bad.err.contains("it has 1 byte that is not UTF-8, at offset 13 (line 2, column 8)"),
        "{}",
        bad.err
    );
}

#[test]
fn what_stands_in_the_place_of_the_agent_file_is_named() {
    let bench = Bench::new();
    let path = bench.work().join("longhaul.yml");
    std::fs::create_dir(&path).unwrap();
    let refused = bench.run(&["run", "hello"]).exits(2);
    assert!(refused.err.contains("longhaul.yml is a folder"), "{}", refused.err);
    std::fs::remove_dir(&path).unwrap();
    // The first two bytes make it UTF-16, and the rest two foreign letters.
    std::fs::write(&path, b"\xff\xfe\xfa: 3").unwrap();
    let refused = bench.run(&["run", "hello"]).exits(2);
    assert!(refused.err.contains("the file say that it is UTF-16"), "{}", refused.err);
}
