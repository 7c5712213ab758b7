//! `longhaul wrap` of the real binary: what is printed, written, put back, and started.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use longhaul_testkit::{ScriptedUpstream, UpstreamAnswer};
use serde_json::json;

use crate::bench::{Bench, fed, names};

const CLAUDE: &[&str] = &["--model", "m1", "wrap", "claude"];

fn with<'a>(args: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [args, more].concat()
}

#[test]
fn files_are_changed_with_consent_only_and_put_back() {
    let bench = Bench::new();
    let folder = bench.work().parent().unwrap().join("home/.claude");
    let path = folder.join("settings.json");
    fs::create_dir(&folder).unwrap();
    let old = "{\"theme\": \"dark\",\n \"env\": {\"MINE\": \"1\"}}\n";
    fs::write(&path, old).unwrap();

    let printed = bench.run(CLAUDE).exits(0);
    let next = "Type the lines in a shell. Or put the settings into ~/.claude/settings.json, or run again with \
                --write, and start claude.\n";
    assert!(printed.err.contains(next), "{}", printed.err);
    let printed = printed.out;
    assert!(printed.contains("export ANTHROPIC_BASE_URL=http://127.0.0.1:4400\n"), "{printed}");
    let unwritten = bench.run(&with(CLAUDE, &["--yes"])).exits(2);
    assert!(unwritten.err.contains("add --write"), "{}", unwritten.err);
    let refused = bench.run(&with(CLAUDE, &["--write"])).exits(2);
    assert!(refused.err.contains("--yes"), "{}", refused.err);
    assert_eq!(fs::read_to_string(&path).unwrap(), old);

    bench.run(&with(CLAUDE, &["--write", "--yes"])).exits(0);
    let read = || serde_json::from_str::<serde_json::Value>(&fs::read_to_string(&path).unwrap()).unwrap();
    let new = read();
    assert_eq!((&new["theme"], &new["env"]["MINE"]), (&"dark".into(), &"1".into()));
    assert_eq!(new["env"]["ANTHROPIC_MODEL"], "m1");
    let copy = folder.join("settings.json.before-longhaul");
    assert_eq!(fs::read_to_string(&copy).unwrap(), old);

    let again = bench.run(&with(CLAUDE, &["--write"])).exits(0);
    assert!(again.err.contains("already"), "{}", again.err);
    bench.run(&with(&["--model", "m2", "wrap", "claude"], &["--write", "--yes"])).exits(0);
    assert_eq!(read()["env"]["ANTHROPIC_MODEL"], "m2");
    assert_eq!(fs::read_to_string(&copy).unwrap(), old, "the copy is of what a person wrote");
    assert_eq!(names(&folder).len(), 2);

    bench.run(&["wrap", "claude", "--undo", "--yes"]).exits(0);
    assert_eq!(fs::read_to_string(&path).unwrap(), old);
    assert_eq!(names(&folder), ["settings.json"]);
    let nothing = bench.run(&["wrap", "claude", "--undo"]).exits(0);
    assert!(nothing.err.contains("nothing was written"), "{}", nothing.err);
}

#[test]
fn what_the_client_has_added_since_stays() {
    let bench = Bench::new();
    let folder = bench.work().parent().unwrap().join("home/.config/opencode");
    let path = folder.join("opencode.json");
    fs::create_dir_all(&folder).unwrap();
    fs::write(&path, r#"{"model":"mine","provider":{"other":{}}}"#).unwrap();
    bench.run(&["--model", "m1", "wrap", "opencode", "--write", "--yes"]).exits(0);
    let written = fs::read_to_string(&path).unwrap();
    fs::write(&path, written.replacen('{', r#"{"$schema":"s","#, 1)).unwrap();
    bench.run(&["wrap", "opencode", "--undo"]).exits(0);
    let left: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(left, serde_json::json!({ "$schema": "s", "model": "mine", "provider": { "other": {} } }));
    assert_eq!(names(&folder), ["opencode.json"]);
}

#[test]
fn what_was_changed_since_is_left_alone() {
    let bench = Bench::new();
    let path = bench.work().parent().unwrap().join("home/.codex/config.toml");
    bench.run(&["--model", "m1", "wrap", "codex", "--write", "--yes"]).exits(0);
    let written = fs::read_to_string(&path).unwrap();
    assert!(written.contains("[model_providers.longhaul]") && !written.contains("env_key"), "{written}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&path, format!("{written}# mine\n")).unwrap();
    let refused = bench.run(&["wrap", "codex", "--undo"]).exits(1);
    assert!(refused.err.contains("changed since"), "{}", refused.err);
    fs::write(&path, &written).unwrap();
    bench.run(&["wrap", "codex", "--undo"]).exits(0);
    assert!(!path.exists());
    // No TOML: a change could lose what a person wrote.
    fs::write(&path, "model = [").unwrap();
    let refused = bench.run(&["--model", "m1", "wrap", "codex", "--write", "--yes"]).exits(1);
    assert!(refused.err.contains("left alone"), "{}", refused.err);
    assert_eq!(fs::read_to_string(&path).unwrap(), "model = [");
}

#[test]
fn a_client_is_started_so() {
    let bench = Bench::new();
    let args = ["--model", "m1", "wrap", "openai", "--at", "http://127.0.0.1:9/v1", "--run", "--"];
    let script = "echo $OPENAI_BASE_URL $OPENAI_API_KEY; cat; exit 7";
    let given = fed(bench.command(with(&args, &["sh", "-c", script])), "in and out").exits(7);
    assert_eq!(given.out, "http://127.0.0.1:9/v1 none\nin and out");
    let missing = bench.run(&with(&["--model", "m1", "wrap", "claude", "--run"], &[])).exits(1);
    assert!(missing.err.contains("claude cannot be started"), "{}", missing.err);
    let unnamed = bench.run(&["wrap", "openai", "--at", "http://127.0.0.1:9"]).exits(2);
    assert!(unnamed.err.contains("--model NAME"), "{}", unnamed.err);
}

#[test]
fn the_token_is_named_and_not_printed() {
    let bench = Bench::new();
    bench.write("longhaul.yml", "model: { name: m1 }\ngateway: { auth: token }\n");
    fs::create_dir(bench.data()).unwrap();
    fs::write(bench.data().join("token"), "s3cret\n").unwrap();
    for client in ["codex", "opencode", "openai", "cline", "mini", "claude", "qwen", "aider"] {
        let given = bench.run(&["wrap", client]).exits(0);
        assert!(!given.out.contains("s3cret"), "{client}: {}", given.out);
        assert!(given.out.contains("/token"), "{client}: {}", given.out);
    }
}

/// Starts a gateway that answers everything with this status.
fn start_gateway(status: u16) -> ScriptedUpstream {
    let always = ScriptedUpstream::start(move |_| UpstreamAnswer::Json(status, json!({})));
    ScriptedUpstream::start_detached(always)
}

#[test]
fn a_gateway_that_wants_a_token_is_found_out() {
    let bench = Bench::new();
    let gateways = [200, 401].map(start_gateway);
    let [open, closed] = gateways.each_ref().map(|gateway| gateway.url(""));
    let wrap = |model: &str, at: &str| bench.run(&["--model", model, "wrap", "openai", "--at", at]).exits(0);
    assert!(wrap("m1", &open).out.contains("OPENAI_API_KEY=none"));
    for (model, at) in [("m1", &closed), ("agent/default", &open)] {
        let said = wrap(model, at);
        assert!(said.out.contains("OPENAI_API_KEY=\"$(cat ") && said.out.contains("/token"), "{}", said.out);
    }
    assert!(wrap("m1", &closed).err.contains("does not take the token in"));
    let unnamed = |at: &str| bench.run(&["wrap", "openai", "--at", at]).exits(2).err;
    assert!(unnamed(&closed).contains("wants another token"), "{}", unnamed(&closed));
    assert!(unnamed(&open).contains("does not say which models there are"), "{}", unnamed(&open));
    let nowhere = unnamed("http://127.0.0.1:9");
    assert!(
        nowhere.contains(
            "http://127.0.0.1:9 cannot be reached: start `longhaul serve`, or name the model, --model NAME"
        ),
        "{nowhere}"
    );
}
