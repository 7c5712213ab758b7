//! The ends of runs beside the messages of a page, and answers that broke off.

use longhaul_core::attempt::RetryPolicy;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedFault, ScriptedProvider};
use serde_json::{Value, json};

use crate::test_server::TestServer;

async fn messages(world: &TestServer, session: &str, query: &str) -> Value {
    world.get(&format!("/api/sessions/{session}/messages{query}")).await
}

fn codes(page: &Value) -> Vec<String> {
    let ends = page["runEnds"].as_array().cloned().unwrap_or_default();
    ends.iter().map(|end| end["error"]["code"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn told(world: &TestServer, session: &str, text: &str) {
    world.say(session, text).await;
    world.until(session, "idle").await;
}

#[tokio::test]
async fn each_failed_run_is_told_on_one_page() {
    let answers = [
        ScriptedAnswer::text("never").fail(ScriptedFault::status(401)),
        ScriptedAnswer::text("One."),
        ScriptedAnswer::text("never").fail(ScriptedFault::status(400)),
        ScriptedAnswer::text("Two."),
    ];
    let world = TestServer::new(ModelScript::turns(answers)).await;
    let session = world.session().await;
    for text in ["first", "second", "third", "fourth"] {
        told(&world, &session, text).await;
    }
    let whole = messages(&world, &session, "").await;
    assert_eq!(codes(&whole), ["auth", "invalid-request"], "a run with an answer is not told: {whole}");
    let ends = whole["runEnds"].as_array().unwrap();
    assert!(ends.iter().all(|end| end["finishReason"] == "error" && end["runId"].is_string()), "{whole}");
    assert!(ends[0]["seq"].as_u64() > whole["messages"][0]["seq"].as_u64());
    assert!(ends[0]["seq"].as_u64() < whole["messages"][1]["seq"].as_u64());

    let (mut forwards, mut after) = (Vec::new(), json!(0));
    while !after.is_null() {
        let page = messages(&world, &session, &format!("?after={after}&limit=1")).await;
        forwards.extend(codes(&page));
        after = page["after"].clone();
    }
    assert_eq!(forwards, ["auth", "invalid-request"]);
    let (mut backwards, mut before) = (Vec::new(), json!(u32::MAX));
    while !before.is_null() {
        let page = messages(&world, &session, &format!("?before={before}&limit=1")).await;
        backwards.extend(codes(&page));
        before = page["before"].clone();
    }
    assert_eq!(backwards, ["invalid-request", "auth"]);
    world.end().await;
}

#[tokio::test]
async fn an_attempt_to_continue_an_answer_names_it_and_repeats_none_of_it() {
    // The last attempt of a step is lost, and the retry of the run continues the piece before.
    let broken =
        |text: &str| ScriptedAnswer::text(text).fail(ScriptedFault::Disconnect { after: usize::MAX });
    let answers = [broken("One"), broken(" tw"), ScriptedAnswer::text(" two.")];
    let model = ScriptedProvider::new(ModelScript::turns(answers)).with_prefill();
    let retry = RetryPolicy { max_delay_ms: 1, stream_attempts: 1, ..RetryPolicy::default() };
    let world = TestServer::of_agent(model, move |agent| agent.rules.retry = retry).await;
    let session = world.session().await;
    told(&world, &session, "count").await;
    let failed = messages(&world, &session, "").await;
    let shown = failed["messages"].as_array().unwrap();
    let texts: Vec<&Value> = shown.iter().map(|message| &message["parts"][0]["text"]).collect();
    assert_eq!(texts, ["count", "One", " tw"], "{failed}");
    assert_eq!((&shown[1]["interrupted"], &shown[2]["interrupted"]), (&json!("paused"), &json!("lost")));
    assert_eq!(shown[2]["continues"], shown[1]["id"]);
    assert!(shown[1]["error"]["code"].is_string(), "the reason of the break: {failed}");
    world.post(&format!("/api/sessions/{session}/resume"), json!({})).await;
    world.until(&session, "idle").await;
    let whole = messages(&world, &session, "").await;
    let shown = whole["messages"].as_array().unwrap();
    let texts: Vec<&Value> = shown.iter().map(|message| &message["parts"][0]["text"]).collect();
    assert_eq!(texts, ["count", " tw", "One two."], "{whole}");
    assert_eq!(shown[1]["continues"], shown[2]["id"]);
    world.end().await;
}
