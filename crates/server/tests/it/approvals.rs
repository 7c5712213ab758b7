//! Questions whether a tool may run.

use longhaul_core::run::Approval;
use longhaul_providers::scripted::{Script, ScriptedAnswer};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::world::{World, expect};

async fn asking() -> World {
    let script = Script::closure(|request: &longhaul_providers::Request, _| {
        let answered = request.messages.last().unwrap().role == longhaul_core::message::Role::Tool;
        if answered {
            ScriptedAnswer::text("Understood.")
        } else {
            ScriptedAnswer::text("May I?").call("write", r#"{"path":"a.txt","content":"hello"}"#)
        }
    });
    World::with(script, |agent| agent.rules.default_approval = Approval::Ask, |_| {}).await
}

#[tokio::test]
async fn an_approval_is_allowed() {
    let world = asking().await;
    let session = world.session().await;
    let mut events = world.events(&session, None).await;
    world.say(&session, "write it").await;
    let asked = events.until("tool:approval-request").await.pop().unwrap().data;
    assert_eq!(asked["toolName"], "write");
    world.until(&session, "waiting_approval").await;
    let pending = world.get("/api/approvals").await;
    let first = &pending["approvals"][0];
    assert_eq!((&first["sessionId"], &first["approvalId"]), (&json!(session), &asked["approvalId"]));
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
async fn one_name_in_two_sessions_needs_the_session() {
    let world = asking().await;
    let (one, two) = (world.session().await, world.session().await);
    for session in [&one, &two] {
        world.say(session, "write it").await;
        world.until(session, "waiting_approval").await;
    }
    let pending = world.get("/api/approvals").await;
    assert_eq!(pending["approvals"].as_array().unwrap().len(), 2);
    assert_eq!(pending["approvals"][0]["approvalId"], pending["approvals"][1]["approvalId"]);
    let path = format!("/api/approvals/{}", pending["approvals"][0]["approvalId"].as_str().unwrap());
    let unclear =
        world.request(Method::POST, &path).json(&json!({ "decision": "allow" })).send().await.unwrap();
    assert_eq!(expect(unclear, StatusCode::CONFLICT).await["code"], "conflict");
    world.post(&path, json!({ "decision": "deny", "sessionId": two })).await;
    world.until(&two, "idle").await;
    assert_eq!(world.get("/api/approvals").await["approvals"][0]["sessionId"], json!(one));
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
