//! What a model is told of its tools: `recall` late, small windows in few words.

use longhaul::agent::Agent;
use longhaul::testing::TemporaryFolder;
use longhaul_core::event::{EventBody, StepStart};
use longhaul_core::message::{Part, Role};
use longhaul_core::run::CompactionOutcome;
use longhaul_providers::ModelRequest;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_testkit::TestSession;

/// A folder with `small.txt`, and `big.txt`, which is longer than any output may be.
async fn world(script: ModelScript, window: u64, change: impl FnOnce(&mut Agent)) -> TestSession {
    let model = ScriptedProvider::new(script).window(window);
    let prepare = |agent: &mut Agent, folder: &TemporaryFolder| {
        std::fs::write(folder.path().join("small.txt"), "a short line\n".repeat(120)).unwrap();
        std::fs::write(folder.path().join("big.txt"), "a line that says little\n".repeat(1_000)).unwrap();
        agent.rules.max_output_chars.insert("read".to_owned(), 8_000);
        change(agent);
    };
    TestSession::with_agent(model, prepare).await
}

fn read(file: &str) -> ScriptedAnswer {
    ScriptedAnswer::text("I read.").call("read", format!(r#"{{"path":"{file}"}}"#))
}

fn offers(request: &ModelRequest) -> bool {
    request.tools.iter().any(|tool| tool.name == "recall")
}

/// All that a request says, results of tools included.
fn said(request: &ModelRequest) -> String {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let texts = parts.flat_map(|part| match part {
        Part::ToolResult(result) => result.content.iter().filter_map(Part::as_text).collect::<Vec<_>>(),
        part => part.as_text().into_iter().collect(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

async fn starts(world: &TestSession) -> Vec<StepStart> {
    let log = world.log().await;
    let starts = log.into_iter().filter_map(|event| match event.body {
        EventBody::StepStarted(start) => Some(*start),
        _ => None,
    });
    starts.collect()
}

#[tokio::test]
async fn recall_comes_with_the_first_output_that_is_cut_and_stays() {
    let script = ModelScript::turns([
        read("small.txt"),
        read("big.txt"),
        ScriptedAnswer::text("Done."),
        ScriptedAnswer::text("Still there."),
    ]);
    let world = world(script, 100_000, |_| {}).await;
    world.session.ask("Read both.").await.unwrap();
    world.session.ask("And?").await.unwrap();
    let sent = world.requests();
    assert_eq!(sent.iter().map(offers).collect::<Vec<_>>(), [false, false, true, true]);
    assert_eq!(sent[2].tools.last().unwrap().name, "recall", "what was there stands before it");
    assert_eq!(sent[2].tools[..sent[1].tools.len()], sent[1].tools[..], "nothing else changes");
    let starts = starts(&world).await;
    assert_eq!(starts[0].tools_hash, starts[1].tools_hash);
    assert_ne!(starts[1].tools_hash, starts[2].tools_hash);
    assert_eq!(starts[0].fixed_tokens, starts[1].fixed_tokens);
    let more = longhaul_core::estimate::tool_tokens(&longhaul::recall::spec());
    assert_eq!(starts[2].fixed_tokens, starts[1].fixed_tokens + more);
    // A fork, and the session after a restart.
    let last = world.session.inspect_run(|run| run.history().last_seq()).await.unwrap();
    let fork = world.runtime.fork(world.session.id(), last).await.unwrap();
    assert!(fork.inspect_run(|run| run.history().offers_recall()).await.unwrap());
    drop(fork);
    let again = ScriptedProvider::new(ModelScript::always("Yes.")).window(100_000);
    let again = world.restart(again, |_, _| {}).await;
    again.session.ask("Are you there?").await.unwrap();
    assert!(offers(&again.requests()[0]));
    let other = again.runtime.create(None).await.unwrap();
    assert!(!other.inspect_run(|run| run.history().offers_recall()).await.unwrap(), "another session");
}

#[tokio::test]
async fn a_handle_is_never_without_the_tool_nor_the_tool_without_a_handle_before() {
    let script =
        ModelScript::closure(|request: &ModelRequest, _| match request.messages.last().unwrap().role {
            Role::Tool => ScriptedAnswer::text("I have read it."),
            _ => read("small.txt"),
        });
    for window in [6_000, 12_000, 24_000] {
        let world = world(script.clone(), window, |_| {}).await;
        for _ in 0..40 {
            world.session.ask("Read on, please, and tell me what it says.").await.unwrap();
        }
        assert_eq!(world.model.invalid_requests(), 0);
        let sent = world.requests();
        let first = sent.iter().position(offers).expect("the window is small");
        assert!(first > 2, "{first}");
        for (at, request) in sent.iter().enumerate() {
            let named = said(request).contains("lh:");
            assert_eq!(offers(request), at >= first, "{window} {at}");
            assert!(!named || offers(request), "{window} {at}: a handle and no tool");
        }
        assert!(said(&sent[first]).contains("lh:"), "the tool comes with the first cut");
        // No edit was planned for a smaller request than what was sent then.
        let history = world.session.inspect_run(|run| run.history().clone()).await.unwrap();
        for state in history.edits() {
            assert!(state.edit.compressed_bound < state.edit.original_bound);
        }
        let report = world.session.context().await.unwrap();
        let parts = report.system_prompt
            + report.tools.iter().map(|share| share.tokens).sum::<u64>()
            + report.messages.total;
        assert_eq!(parts as i64 + report.framing, report.total as i64);
    }
}

#[tokio::test]
async fn recall_stays_when_what_was_cut_comes_back() {
    let world = world(ModelScript::always("A word or two, or three."), 32_000, |_| {}).await;
    for _ in 0..8 {
        world.session.ask(&"Tell me more of it. ".repeat(20)).await.unwrap();
    }
    assert!(!offers(world.requests().last().unwrap()));
    let CompactionOutcome::Committed(edit) = world.session.compact(None).await.unwrap() else {
        panic!("nothing was done")
    };
    world.session.undo(edit.id.clone()).await.unwrap();
    world.session.ask("And now?").await.unwrap();
    let last = world.requests().pop().unwrap();
    assert!(offers(&last) && !said(&last).contains("lh:"));
}

#[tokio::test]
async fn recall_answers_before_it_is_offered() {
    let script = ModelScript::turns([
        ScriptedAnswer::text("I look.").call("recall", r#"{"query":"heron"}"#),
        ScriptedAnswer::text("Done."),
    ]);
    let world = world(script, 32_000, |_| {}).await;
    world.session.ask("Where is the heron?").await.unwrap();
    let sent = world.requests();
    assert!(!offers(&sent[0]));
    assert!(!said(&sent[1]).contains("no tool named"), "{}", said(&sent[1]));
}

#[tokio::test]
async fn without_recall_no_handle_is_named() {
    let script =
        ModelScript::closure(|request: &ModelRequest, _| match request.messages.last().unwrap().role {
            Role::Tool => ScriptedAnswer::text("I have read it."),
            _ => read("small.txt"),
        });
    let turn_off = |agent: &mut Agent| {
        agent.tools = std::mem::take(&mut agent.tools).choose_builtin(None, &["recall".to_owned()]);
    };
    let world = world(script, 12_000, turn_off).await;
    for _ in 0..20 {
        world.session.ask("Read on.").await.unwrap();
    }
    let sent = world.requests();
    assert!(world.session.inspect_run(|run| run.history().edits().len()).await.unwrap() > 0);
    assert!(sent.iter().all(|request| !offers(request) && !said(request).contains("lh:")));
}

#[tokio::test]
async fn small_windows_are_told_of_few_tools_in_few_words() {
    for (window, names) in [
        (15_999, vec!["read", "bash", "edit", "write", "grep"]),
        (16_000, vec!["read", "bash", "edit", "write", "grep", "glob", "ls", "pin"]),
    ] {
        let script = ModelScript::turns([
            ScriptedAnswer::text("I look.").call("ls", "{}"),
            ScriptedAnswer::text("Done."),
        ]);
        let world = world(script, window, |_| {}).await;
        world.session.ask("What is there?").await.unwrap();
        let sent = world.requests();
        let told: Vec<&str> = sent[0].tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(told, names, "{window}");
        assert!(said(&sent[1]).contains("small.txt"), "a tool that is not offered runs nevertheless");
    }
}
