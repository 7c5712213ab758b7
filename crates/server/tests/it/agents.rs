//! Agents: listed, chosen for new sessions, kept.

use std::sync::Arc;

use longhaul::agent::Agent;
use longhaul::agents::AgentRegistry;
use longhaul::testing::TemporaryFolder;
use longhaul_providers::scripted::{ModelScript, ScriptedProvider};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::test_server::{TestServer, expect};

pub(crate) const WINDOW: u64 = 4_000;

/// The usual agent, one with another model, and one that cannot be used.
pub(crate) fn three(usual: Agent) -> AgentRegistry {
    let small =
        Arc::new(ScriptedProvider::new(ModelScript::always("I am small.")).model("tiny").window(WINDOW));
    let mut helper = Agent { provider: small, ..usual.clone() };
    helper.limits.window = Some(WINDOW);
    AgentRegistry::new("main", usual).with("helper", "tiny", Ok(helper)).with(
        "lost",
        "none",
        Err("it needs a key".to_owned()),
    )
}

pub(crate) async fn newest(world: &TestServer, session: &str) -> String {
    world.said(session).await.pop().unwrap().1
}

async fn refused(world: &TestServer, path: &str, body: Value, status: StatusCode) -> Value {
    expect(world.request(Method::POST, path).json(&body).send().await.unwrap(), status).await
}

#[tokio::test]
async fn agents_are_listed_and_chosen_for_new_sessions() {
    let data = TemporaryFolder::new().unwrap();
    let world = TestServer::among(Some(data.path()), ModelScript::always("I am big."), three).await;
    let listed = json!({ "agents": [
        { "name": "main", "model": "scripted", "isDefault": true, "usable": true },
        { "name": "helper", "model": "tiny", "isDefault": false, "usable": true },
        { "name": "lost", "model": "none", "isDefault": false, "usable": false, "why": "it needs a key" },
    ] });
    assert_eq!(world.get("/api/agents").await, listed);

    let made = world.post("/api/sessions", json!({ "agent": "helper" })).await;
    assert_eq!((&made["model"]["model"], &made["agent"]), (&json!("tiny"), &json!("helper")));
    assert_eq!(world.post("/api/sessions", json!({})).await["agent"], "main", "the usual one");
    let session = made["id"].as_str().unwrap().to_owned();
    world.say(&session, "Who are you?").await;
    world.until(&session, "idle").await;
    assert_eq!(newest(&world, &session).await, "I am small.");
    assert_eq!(world.get(&format!("/api/sessions/{session}/context")).await["window"], WINDOW);

    let sent = world.post("/api/message", json!({ "agent": "helper", "content": "Who are you?" })).await;
    let other = sent["sessionId"].as_str().unwrap().to_owned();
    world.until(&other, "idle").await;
    assert_eq!(newest(&world, &other).await, "I am small.");
    world.end().await;

    let world = TestServer::among(Some(data.path()), ModelScript::always("I am big."), three).await;
    world.say(&session, "And now?").await;
    world.until(&session, "idle").await;
    assert_eq!(newest(&world, &session).await, "I am small.", "also after a restart");
    world.end().await;

    let world = TestServer::over(data.path(), ModelScript::always("I am big."), |_| {}).await;
    world.say(&session, "And now?").await;
    world.until(&session, "idle").await;
    assert_eq!(
        newest(&world, &session).await,
        "I am big.",
        "where there is only one agent it has all sessions"
    );
    world.end().await;

    let alone = |usual| AgentRegistry::new("main", usual);
    let world = TestServer::among(Some(data.path()), ModelScript::always("I am big."), alone).await;
    let lost = refused(
        &world,
        "/api/message",
        json!({ "sessionId": session, "content": "Hm?" }),
        StatusCode::CONFLICT,
    )
    .await;
    assert!(lost["detail"].as_str().unwrap().contains("`helper`"), "{lost}");
    assert_eq!(world.get(&format!("/api/sessions/{session}")).await["status"], "idle");
}

#[tokio::test]
async fn an_agent_that_is_not_there_makes_no_session() {
    let world = TestServer::among(None, ModelScript::always("I am big."), three).await;
    let session = world.session().await;
    for (path, body, status) in [
        ("/api/sessions", json!({ "agent": "nobody" }), StatusCode::BAD_REQUEST),
        ("/api/sessions", json!({ "agent": "lost" }), StatusCode::CONFLICT),
        ("/api/message", json!({ "agent": "nobody", "content": "Hm?" }), StatusCode::BAD_REQUEST),
        (
            "/api/message",
            json!({ "agent": "helper", "sessionId": session, "content": "Hm?" }),
            StatusCode::BAD_REQUEST,
        ),
    ] {
        let problem = refused(&world, path, body, status).await;
        assert!(problem["detail"].as_str().unwrap().contains("agent"), "{problem}");
    }
    assert_eq!(world.get("/api/sessions").await["sessions"].as_array().unwrap().len(), 1);
}

/// The same key makes the same session, with the same agent.
#[tokio::test]
async fn a_key_belongs_to_the_agent_too() {
    let world = TestServer::among(None, ModelScript::always("I am big."), three).await;
    let make = |agent: Value| {
        world
            .request(Method::POST, "/api/sessions")
            .header("idempotency-key", "k")
            .json(&json!({ "agent": agent }))
            .send()
    };
    let first = expect(make(json!("helper")).await.unwrap(), StatusCode::CREATED).await;
    let again = expect(make(json!("helper")).await.unwrap(), StatusCode::CREATED).await;
    assert_eq!(first["id"], again["id"]);
    expect(make(json!("main")).await.unwrap(), StatusCode::UNPROCESSABLE_ENTITY).await;
    let send = |agent: Value| {
        let body = json!({ "content": "hi", "agent": agent });
        world.request(Method::POST, "/api/message").header("idempotency-key", "m").json(&body).send()
    };
    let first = expect(send(Value::Null).await.unwrap(), StatusCode::OK).await;
    assert_eq!(
        expect(send(Value::Null).await.unwrap(), StatusCode::OK).await["sessionId"],
        first["sessionId"]
    );
    expect(send(json!("helper")).await.unwrap(), StatusCode::UNPROCESSABLE_ENTITY).await;
}
