//! Questions whether a tool may run.

use longhaul_core::run::ToolApproval;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::test_server::{TestServer, expect};

async fn asking() -> TestServer {
    let script = ModelScript::closure(|request: &longhaul_providers::ModelRequest, _| {
        let answered = request.messages.last().unwrap().role == longhaul_core::message::Role::Tool;
        if answered {
            ScriptedAnswer::text("Understood.")
        } else {
            ScriptedAnswer::text("May I?").call("write", r#"{"path":"a.txt","content":"hello"}"#)
        }
    });
    TestServer::with(script, |agent| agent.rules.default_approval = ToolApproval::Ask, |_| {}).await
}

#[tokio::test]
async fn an_approval_is_allowed() {
    let world = asking().await;
    let session = world.session().await;
    let mut events = world.events(&session, None).await;
    world.say(&session, "write it").await;
    let mut told = events.until("tool:approval-request").await;
    let asked = told.pop().unwrap().data;
    assert_eq!(asked["toolName"], "write");
    let called =
        told.into_iter().map(|event| event.data).find(|event| event["name"] == "llm:tool-call").unwrap();
    for event in [&called, &asked] {
        assert_eq!(event["args"]["content"], "hello", "{event}");
        let text: serde_json::Value = serde_json::from_str(event["argsText"].as_str().unwrap()).unwrap();
        assert_eq!(text, event["args"], "{event}");
    }
    world.until(&session, "waiting_approval").await;
    let pending = world.get("/api/approvals").await;
    let first = &pending["approvals"][0];
    assert_eq!((&first["sessionId"], &first["approvalId"]), (&json!(session), &asked["approvalId"]));
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    for call in [first, &page["messages"][1]["toolCalls"][0]] {
        assert_eq!((&call["args"], &call["argsText"]), (&asked["args"], &asked["argsText"]), "{call}");
    }
    let path = format!("/api/approvals/{}", asked["approvalId"].as_str().unwrap());
    world.post(&path, json!({ "decision": "allow" })).await;
    world.until(&session, "idle").await;
    assert_eq!(std::fs::read_to_string(world.folder.path().join("a.txt")).unwrap(), "hello");
    let again =
        world.request(Method::POST, &path).json(&json!({ "decision": "allow" })).send().await.unwrap();
    assert_eq!(expect(again, StatusCode::NOT_FOUND).await["code"], "not-found");
    assert_eq!(world.get("/api/approvals").await["approvals"], json!([]));
}

#[tokio::test]
async fn an_approval_is_denied_with_a_reason() {
    let world = asking().await;
    let session = world.session().await;
    world.say(&session, "write it").await;
    world.until(&session, "waiting_approval").await;
    let pending = world.get(&format!("/api/approvals?sessionId={session}")).await;
    let path = format!("/api/approvals/{}", pending["approvals"][0]["approvalId"].as_str().unwrap());
    world.post(&path, json!({ "decision": "deny", "reason": "not on a Friday" })).await;
    world.until(&session, "idle").await;
    assert!(!world.folder.path().join("a.txt").exists());
    let said = world.said(&session).await;
    assert!(said[2].1.contains("not on a Friday"), "{said:?}");
    assert_eq!(said[3].1, "Understood.");
}

#[tokio::test]
async fn a_question_has_a_name_beyond_its_session_and_one_within() {
    let world = asking().await;
    let sessions = [world.session().await, world.session().await, world.session().await];
    for session in &sessions {
        world.say(session, "write it").await;
        world.until(session, "waiting_approval").await;
    }
    let pending = world.get("/api/approvals").await;
    let name = |session: &str| {
        let mut waiting = pending["approvals"].as_array().unwrap().iter();
        let found = waiting.find(|one| one["sessionId"] == session).unwrap();
        found["approvalId"].as_str().unwrap().to_owned()
    };
    let own = name(&sessions[0]).rsplit_once(':').unwrap().1.to_owned();
    let allow = json!({ "decision": "allow" });
    let unclear = world.request(Method::POST, &format!("/api/approvals/{own}")).json(&allow);
    let unclear = unclear.send().await.unwrap();
    assert_eq!(
        expect(unclear, StatusCode::CONFLICT).await["code"],
        "conflict",
        "three sessions ask under it"
    );

    // By the whole name; by the session and the short one; by the short one, once only one is left.
    let whole = format!("/api/approvals/{}", name(&sessions[0]));
    assert_eq!(world.post(&whole, allow.clone()).await["sessionId"], json!(sessions[0]));
    let short = format!("/api/approvals/{own}");
    world.post(&short, json!({ "decision": "deny", "sessionId": sessions[1] })).await;
    for session in &sessions[..2] {
        world.until(session, "idle").await;
    }
    let elsewhere = json!({ "decision": "allow", "sessionId": sessions[1] });
    let third = format!("/api/approvals/{}", name(&sessions[2]));
    let crossed = world.request(Method::POST, &third).json(&elsewhere).send().await.unwrap();
    expect(crossed, StatusCode::NOT_FOUND).await;
    assert_eq!(world.post(&short, allow).await["approvalId"], json!(name(&sessions[2])));
    world.until(&sessions[2], "idle").await;
    assert_eq!(world.get("/api/approvals").await["approvals"], json!([]));
}

#[tokio::test]
async fn cancelling_answers_the_question() {
    let world = asking().await;
    let session = world.session().await;
    world.say(&session, "write it").await;
    world.until(&session, "waiting_approval").await;
    let met = world.post(&format!("/api/sessions/{session}/cancel"), json!({})).await;
    assert_eq!(met["persisted"], "tools_in_progress");
    assert_eq!(world.get("/api/approvals").await["approvals"], json!([]));
}
