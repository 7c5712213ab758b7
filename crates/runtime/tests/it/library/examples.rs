//! The examples run: each is a program of its own, and says what its first lines promise.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use longhaul::testing::TemporaryFolder;
use longhaul_testkit::{ScriptedUpstream, UpstreamAnswer, chat};

/// The output of an example. `cargo test` builds them beside the tests.
fn output(example: &str) -> String {
    output_with(example, &[])
}

/// The output of an example with arguments.
fn output_with(example: &str, arguments: &[&str]) -> String {
    let folder: PathBuf = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples");
    let program = folder.join(example);
    assert!(program.is_file(), "{} is not built; `cargo test -p longhaul` builds it", program.display());
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{example}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn chat() {
    let said = output("chat");
    assert!(
        said.starts_with("It is what a model can read at once.\n") && said.ends_with(" tokens\n"),
        "{said}"
    );
}

#[test]
fn tools() {
    let said = output("tools");
    assert!(said.contains("add {\"numbers\":[1,2,39]}\n  42\n"), "{said}");
    assert!(said.contains("2 bytes were sent to ada@example.com"), "{said}");
    assert!(!said.contains("sent to everybody") && said.contains("mail goes to Ada only"), "{said}");
    assert!(said.ends_with("Ada knows that it is 42.\n"), "{said}");
}

#[test]
fn strategy() {
    let said = output("strategy");
    assert!(!said.is_empty() && said.lines().all(|line| line.starts_with("newest-turns: ")), "{said}");
}

#[test]
fn hook() {
    let said = output("hook");
    let cancelled = said.find("not compacted: ").unwrap();
    assert!(said.find("compacted: ").is_some_and(|_| said.contains("\ncompacted: ")), "{said}");
    assert!(cancelled < said.find("\ncompacted: ").unwrap(), "{said}");
}

#[test]
fn counter() {
    assert!(output("counter").contains("the question: 9 tokens"), "{}", output("counter"));
}

#[test]
fn fit() {
    let said = output("fit");
    assert!(said.starts_with("100 messages became ") && said.ends_with(" are left out\n"), "{said}");
}

#[test]
fn fit_json() {
    let said = output("fit_json");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(
        lines[0].starts_with("OpenAI: 241 messages became ") && lines[0].ends_with("outputs are cleared"),
        "{said}"
    );
    assert!(lines[1].starts_with("Anthropic: 121 messages became "), "{said}");
    assert!(lines[2].ends_with("the first are by [\"longhaul\", \"ada\"]"), "{said}");
}

#[test]
fn limits() {
    let said = output("limits");
    assert!(said.starts_with("held off at "), "{said}");
    assert!(said.matches("tokens became").count() >= 3, "{said}");
    let tokens = said.rsplit("the largest call had ").next().unwrap().split(' ').next().unwrap();
    assert!(tokens.parse::<u64>().unwrap() < 8_000, "{said}");
    assert!(said.ends_with("of 8000 tokens\n"), "{said}");
}

#[test]
fn replay() {
    let said = output("replay");
    assert!(said.contains(": truncation, ") && said.contains(" events; the model is shown "), "{said}");
}

#[test]
fn provider() {
    assert_eq!(output("provider"), "Who is there? Who is there?\n");
}

#[test]
fn async_strategy() {
    let said = output("async_strategy");
    assert!(said.starts_with("second-model: "), "{said}");
    assert!(said.ends_with("The user asks for the value again and again.\n"), "{said}");
}

/// A model server whose every answer is "Because it is."
fn model_server() -> ScriptedUpstream {
    let events =
        || UpstreamAnswer::Events(chat::stream("a1", "Because it is.", Some((12, 3))), Duration::ZERO);
    ScriptedUpstream::start_detached(ScriptedUpstream::start_without_pages(move |_| events()))
}

#[test]
fn config_file() {
    let (server, folder) = (model_server(), TemporaryFolder::new().unwrap());
    let path = folder.path().join("longhaul.yml");
    let model = format!("{{ provider: openai-compatible, name: m, base_url: '{}' }}", server.url("/v1"));
    std::fs::write(&path, format!("model: {model}\nsystemPrompt: Be brief.")).unwrap();
    assert_eq!(output_with("config_file", &[path.to_str().unwrap(), "sk-1"]), "Because it is.\n");
    let received = server.received();
    assert!(received.iter().any(|request| request.json()["messages"][0]["content"] == "Be brief."));
}

/// The example `chat` talks to a model server that is named on the command line.
#[test]
fn chat_with_a_model_server() {
    let server = model_server();
    let said = output_with("chat", &[&server.url("/v1"), "m"]);
    assert_eq!(said, "Because it is.\n15 tokens\n");
}
