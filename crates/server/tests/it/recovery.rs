//! Restarts over the same data: at rest, in mid-answer, in mid-tool.

use longhaul_core::run::RunRecovery;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedFault};
use serde_json::json;

use crate::test_server::{TestServer, slowly};

/// Long enough for what would begin by itself.
const QUIET: std::time::Duration = std::time::Duration::from_millis(500);

#[tokio::test]
async fn a_session_at_rest_is_as_it_was() {
    let data = tempfile::tempdir().unwrap();
    let world = TestServer::over(data.path(), ModelScript::always("Yes."), |_| {}).await;
    let session = world.session().await;
    world.say(&session, "hello").await;
    world.until(&session, "idle").await;
    let before = (world.said(&session).await, world.get(&format!("/api/sessions/{session}")).await);
    world.crash();
    let world = TestServer::over(data.path(), ModelScript::always("Yes."), |_| {}).await;
    let mut after = (world.said(&session).await, world.get(&format!("/api/sessions/{session}")).await);
    // Each world has a workspace of its own, and the second one says so.
    let warning = after.1.as_object_mut().and_then(|session| session.remove("folderWarning"));
    assert!(warning.is_some_and(|warning| warning.to_string().contains("was begun in")));
    assert_eq!(after, before);
    world.say(&session, "still there?").await;
    world.until(&session, "idle").await;
    assert_eq!(world.said(&session).await.len(), 4);
    world.end().await;
}

#[tokio::test]
async fn what_was_streaming_is_kept_and_watchers_go_on() {
    let data = tempfile::tempdir().unwrap();
    let world =
        TestServer::over(data.path(), ModelScript::always(slowly(&"word ".repeat(500))), |_| {}).await;
    let session = world.session().await;
    let mut events = world.events(&session, Some(0)).await;
    world.say(&session, "talk").await;
    let mut after = 0;
    for _ in 0..25 {
        after = events.until("llm:chunk").await.iter().filter_map(|frame| frame.id).fold(after, u64::max);
    }
    let waiting = world.say(&session, "this waits").await;
    assert_eq!(waiting["position"], 1);
    world.crash();

    let world = TestServer::over(data.path(), ModelScript::always("Fresh."), |_| {}).await;
    let mut events = world.events(&session, Some(after)).await;
    let missed = events.until("queue:snapshot").await;
    let told: Vec<&str> = missed.iter().map(|frame| frame.name.as_str()).collect();
    assert_eq!(told, ["message:added", "llm:error", "run:complete", "queue:snapshot"]);
    assert!(missed[0].data["parts"][0]["text"].as_str().unwrap().starts_with("word word"));
    assert_eq!(missed[1].data["code"], "interrupted");
    assert_eq!(missed[3].data["entries"][0]["parts"][0]["text"], "this waits");
    let shown = world.get(&format!("/api/sessions/{session}")).await;
    assert_eq!(
        (&shown["lastFinishReason"], &shown["lastError"]["code"]),
        (&json!("error"), &json!("interrupted"))
    );
    let listed = world.get("/api/sessions").await["sessions"][0].clone();
    assert_eq!(listed["lastFinishReason"], "error", "the list tells a failed session from one at rest");
    assert_eq!(listed["lastError"], shown["lastError"]);
    world.post(&format!("/api/sessions/{session}/resume"), json!({})).await;
    world.until(&session, "idle").await;
    let said = world.said(&session).await;
    assert_eq!(said.iter().filter(|(_, text)| text == "this waits").count(), 1);
    assert_eq!(said.last().unwrap().1, "Fresh.");
    let listed = world.get("/api/sessions").await["sessions"][0].clone();
    assert_eq!(
        (&listed["lastFinishReason"], &listed["lastError"]),
        (&json!("stop"), &serde_json::Value::Null)
    );
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    assert_eq!(page["messages"][1]["interrupted"], "lost");
    assert_eq!(page["messages"][1]["error"]["code"], "interrupted", "why it was cut off");
    assert_eq!(page["messages"][3]["error"], serde_json::Value::Null, "a whole answer has no error");
    let [end] = &page["runEnds"].as_array().unwrap()[..] else { panic!("{page}") };
    assert_eq!(
        (&end["finishReason"], &end["error"]["code"]),
        (&json!("error"), &json!("interrupted")),
        "a later run hides no earlier failure"
    );
    assert_eq!(world.model.invalid_requests(), 0);
    world.end().await;
}

fn one_tool() -> ModelScript {
    ModelScript::closure(|request: &longhaul_providers::ModelRequest, _| {
        if request.messages.last().unwrap().role == longhaul_core::message::Role::Tool {
            ScriptedAnswer::text("I see.")
        } else {
            ScriptedAnswer::text("Running.").call("bash", r#"{"command":"echo ran >> count.txt; sleep 30"}"#)
        }
    })
}

async fn crashed_in_a_tool(data: &std::path::Path) -> String {
    let world = TestServer::over(data, one_tool(), |_| {}).await;
    let session = world.session().await;
    world.say(&session, "run it").await;
    while !world.folder.path().join("count.txt").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    world.crash();
    session
}

#[tokio::test]
async fn a_tool_that_may_have_run_is_not_run_again() {
    let data = tempfile::tempdir().unwrap();
    let session = crashed_in_a_tool(data.path()).await;
    let world = TestServer::over(data.path(), one_tool(), |_| {}).await;
    world.until(&session, "idle").await;
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    assert_eq!(page["messages"][1]["toolCalls"][0]["status"], "interrupted");
    assert!(!world.folder.path().join("count.txt").exists());
    world.say(&session, "never mind").await;
    // The model answers a user message with its tool again.
    world.until(&session, "executing_tools").await;
    world.post(&format!("/api/sessions/{session}/cancel"), json!({})).await;
    assert_eq!(world.model.invalid_requests(), 0);
    world.end().await;
}

#[tokio::test]
async fn a_run_goes_on_by_itself_if_it_was_told_to() {
    let data = tempfile::tempdir().unwrap();
    let session = crashed_in_a_tool(data.path()).await;
    let continues = |agent: &mut longhaul::agent::Agent| agent.rules.recovery = RunRecovery::Continue;
    // Nobody asks for the session: the server finds it by itself.
    let world = TestServer::over(data.path(), one_tool(), continues).await;
    let seen = async {
        while world.model.log().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::test_server::PATIENCE, seen).await.expect("the run does not go on");
    world.until(&session, "idle").await;
    let said = world.said(&session).await;
    assert_eq!(said.last().unwrap().1, "I see.");
    assert!(said[2].1.contains("outcome") || said[2].1.contains("unknown"), "{said:?}");
    world.end().await;
}

/// A session at rest with a message in its queue, as the end of a server leaves one, and how many model calls there are
/// within a while after the next start.
async fn calls_for_what_waits(recovery: RunRecovery) -> usize {
    let data = tempfile::tempdir().unwrap();
    let slow = || ModelScript::always(slowly(&"word ".repeat(500)));
    let world = TestServer::over(data.path(), slow(), |_| {}).await;
    let session = world.session().await;
    world.say(&session, "talk").await;
    world.until(&session, "streaming").await;
    assert_eq!(world.say(&session, "this waits").await["position"], 1);
    world.post(&format!("/api/sessions/{session}/cancel"), json!({})).await;
    world.until(&session, "idle").await;
    world.crash();
    let world = TestServer::over(data.path(), ModelScript::always("Fresh."), move |agent| {
        agent.rules.recovery = recovery
    })
    .await;
    let seen = async {
        while world.get("/api/sessions").await["sessions"][0]["queued"] != 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        world.until(&session, "idle").await;
    };
    let waited = if recovery == RunRecovery::Continue { crate::test_server::PATIENCE } else { QUIET };
    let is_taken = tokio::time::timeout(waited, seen).await.is_ok();
    assert_eq!(is_taken, recovery == RunRecovery::Continue);
    let calls = world.model.log().len();
    world.end().await;
    calls
}

#[tokio::test]
async fn messages_that_wait_are_taken_at_the_next_start_if_it_was_told_to_go_on() {
    assert_eq!(calls_for_what_waits(RunRecovery::Continue).await, 1);
    assert_eq!(calls_for_what_waits(RunRecovery::Rest).await, 0, "they wait for a person");
}

async fn dies_in_mid_answer(data: &std::path::Path) -> TestServer {
    let continues = |agent: &mut longhaul::agent::Agent| agent.rules.recovery = RunRecovery::Continue;
    TestServer::over(data, ModelScript::always(slowly(&"word ".repeat(500))), continues).await
}

#[tokio::test]
async fn a_run_that_dies_again_and_again_is_parked_and_says_how_to_go_on() {
    let data = tempfile::tempdir().unwrap();
    let world = dies_in_mid_answer(data.path()).await;
    let session = world.session().await;
    world.say(&session, "talk").await;
    world.until(&session, "streaming").await;
    world.crash();
    for _ in 0..3 {
        let world = dies_in_mid_answer(data.path()).await;
        world.until(&session, "streaming").await;
        world.crash();
    }
    let world = dies_in_mid_answer(data.path()).await;
    world.until(&session, "parked").await;
    let shown = world.get(&format!("/api/sessions/{session}")).await;
    assert!(shown["parked"].as_str().unwrap().contains("4 times"), "{shown}");
    assert!(shown["goOn"].as_str().unwrap().contains("resume"), "{shown}");
    let mut events = world.events(&session, Some(0)).await;
    let told = events.until("session:parked").await.pop().unwrap();
    assert_eq!((&told.data["reason"], &told.data["goOn"]), (&shown["parked"], &shown["goOn"]));
    world.crash();

    // Nobody has opened it since, and it is listed as what it is.
    let world = TestServer::over(data.path(), ModelScript::always("At last."), |_| {}).await;
    let listed = world.get("/api/sessions").await;
    assert_eq!(listed["sessions"][0]["status"], "parked");
    let resumed = world.post(&format!("/api/sessions/{session}/resume"), json!({})).await;
    assert_eq!(resumed["resumed"], true, "{resumed}");
    world.until(&session, "idle").await;
    assert_eq!(world.said(&session).await.last().unwrap().1, "At last.");
    let shown = world.get(&format!("/api/sessions/{session}")).await;
    assert!(shown.get("parked").is_none() && shown.get("goOn").is_none(), "{shown}");
    assert_eq!(world.get("/api/sessions").await["sessions"][0]["status"], "idle");
    world.end().await;
}

#[tokio::test]
async fn a_run_that_waits_for_its_model_does_not_hold_up_the_end() {
    for recovery in [RunRecovery::Continue, RunRecovery::Rest] {
        let data = tempfile::tempdir().unwrap();
        let down = ModelScript::always(ScriptedAnswer::text("never").fail(ScriptedFault::status(503)));
        let world = TestServer::over(data.path(), down, move |agent| agent.rules.recovery = recovery).await;
        let session = world.session().await;
        world.say(&session, "are you there?").await;
        world.until(&session, "waiting_for_server").await;
        let began = std::time::Instant::now();
        world.app.drain(crate::test_server::PATIENCE).await;
        assert!(began.elapsed() < crate::test_server::PATIENCE / 2, "there is nothing to wait for");
        world.end().await;

        let up = ModelScript::always("I am.");
        let world = TestServer::over(data.path(), up, move |agent| agent.rules.recovery = recovery).await;
        let answered = async {
            while !world.said(&session).await.iter().any(|(_, text)| text == "I am.") {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let waited = if recovery == RunRecovery::Continue { crate::test_server::PATIENCE } else { QUIET };
        let is_answered = tokio::time::timeout(waited, answered).await.is_ok();
        assert_eq!(is_answered, recovery == RunRecovery::Continue);
        world.end().await;
    }
}
