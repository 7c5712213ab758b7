//! Who answers in a session, switched.

use longhaul_providers::scripted::{ModelScript, ScriptedAnswer};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::agents::{WINDOW, newest, three};
use crate::test_server::{TestServer, UNTIL_GO, expect};

async fn switch(world: &TestServer, session: &str, to: Value, status: StatusCode) -> Value {
    let request = world.request(Method::POST, &format!("/api/sessions/{session}/llm")).json(&to);
    expect(request.send().await.unwrap(), status).await
}

#[tokio::test]
async fn a_session_is_switched_and_keeps_its_history() {
    let world = TestServer::among(None, ModelScript::always("I am big."), three).await;
    let session = world.session().await;
    world.say(&session, "Who are you?").await;
    world.until(&session, "idle").await;
    let mut events = world.events(&session, None).await;
    let switched = switch(&world, &session, json!({ "agent": "helper" }), StatusCode::OK).await;
    assert_eq!((&switched["when"], &switched["model"]["model"]), (&json!("now"), &json!("tiny")));
    let told = events.until("llm:switched").await.pop().unwrap().data;
    assert_eq!((&told["newConfig"]["model"], &told["historyRetained"]), (&json!("tiny"), &json!(true)));
    assert_eq!(world.get(&format!("/api/sessions/{session}/context")).await["window"], WINDOW);
    assert_eq!(
        switch(&world, &session, json!({ "agent": "helper" }), StatusCode::OK).await["when"],
        "already"
    );
    world.say(&session, "And you?").await;
    world.until(&session, "idle").await;
    assert_eq!(newest(&world, &session).await, "I am small.");
    assert_eq!(world.said(&session).await.len(), 4);
    let back = switch(&world, &session, json!({ "agent": "main", "model": "tiny" }), StatusCode::OK).await;
    assert_eq!(back["model"]["model"], "tiny", "the usual agent, with the model of another");
}

#[tokio::test]
async fn a_busy_session_is_switched_at_its_next_step() {
    let script = ModelScript::turns([ScriptedAnswer::text("Wait.").call("bash", UNTIL_GO)]);
    let world = TestServer::among(None, script, three).await;
    let session = world.session().await;
    world.say(&session, "Do it.").await;
    world.until(&session, "executing_tools").await;
    let switched = switch(&world, &session, json!({ "model": "tiny" }), StatusCode::OK).await;
    assert_eq!((&switched["when"], &switched["model"]["model"]), (&json!("next-step"), &json!("scripted")));
    world.go();
    world.until(&session, "idle").await;
    assert_eq!(newest(&world, &session).await, "I am small.");
}

#[tokio::test]
async fn only_what_is_configured_can_be_named() {
    let world = TestServer::among(None, ModelScript::always("I am big."), three).await;
    let session = world.session().await;
    for (to, status) in [
        (json!({}), StatusCode::BAD_REQUEST),
        (json!({ "agent": "nobody" }), StatusCode::BAD_REQUEST),
        (json!({ "agent": "lost" }), StatusCode::CONFLICT),
        (json!({ "model": "gpt-unlisted" }), StatusCode::BAD_REQUEST),
        (json!({ "model": "tiny", "base_url": "http://stranger.example" }), StatusCode::BAD_REQUEST),
        (json!({ "model": "tiny", "api_key_env": "KEY" }), StatusCode::BAD_REQUEST),
    ] {
        switch(&world, &session, to, status).await;
    }
    assert_eq!(world.get(&format!("/api/sessions/{session}")).await["lastSeq"], 1);
    let gone = world.request(Method::POST, "/api/sessions/nobody/llm").json(&json!({ "agent": "main" }));
    expect(gone.send().await.unwrap(), StatusCode::NOT_FOUND).await;
}
