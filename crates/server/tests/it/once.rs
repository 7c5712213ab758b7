//! `Idempotency-Key`: what was done once is answered the same again, and not done again.

use std::time::Duration;

use longhaul_core::run::ToolApproval;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, is_summary_request};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::test_server::{TestServer, expect, slowly};

async fn keyed(world: &TestServer, path: &str, key: &str, body: Value) -> (StatusCode, Value) {
    let request = world.request(Method::POST, path).header("idempotency-key", key).json(&body);
    let answer = request.send().await.unwrap();
    (answer.status(), answer.json().await.unwrap())
}

/// The answer, which must be a success.
async fn done(world: &TestServer, path: &str, key: &str, body: Value) -> Value {
    let (status, answer) = keyed(world, path, key, body).await;
    assert!(status.is_success(), "{path}: {answer}");
    answer
}

fn prose(seed: u64) -> String {
    (0..300).map(|at| format!("w{} ", (seed * 7_919 + at * 104_729) % 99_991)).collect()
}

fn talkative() -> ModelScript {
    ModelScript::closure(|request: &longhaul_providers::ModelRequest, index| {
        (!is_summary_request(request)).then(|| ScriptedAnswer::text(prose(index)))
    })
}

async fn talk(world: &TestServer, session: &str, turns: usize) {
    for turn in 0..turns {
        world.say(session, &format!("turn {turn}")).await;
        world.until(session, "idle").await;
    }
}

async fn compactions(world: &TestServer, path: &str) -> usize {
    world.get(&format!("{path}/compactions")).await["compactions"].as_array().unwrap().len()
}

#[tokio::test]
async fn compactions_and_undos_are_done_once_also_after_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let world = TestServer::over(data.path(), talkative(), |_| {}).await;
    let session = world.session().await;
    talk(&world, &session, 6).await;
    let path = format!("/api/sessions/{session}");
    let (compact, mind) = (format!("{path}/compact"), json!({ "instructions": "mind the words" }));
    let made = done(&world, &compact, "c1", mind.clone()).await;
    assert_eq!(made["compacted"], true);
    talk(&world, &session, 3).await;
    assert_eq!(done(&world, &compact, "c1", mind.clone()).await, made);
    assert_eq!(compactions(&world, &path).await, 1);
    let (status, other) = keyed(&world, &compact, "c1", json!({})).await;
    assert_eq!((status.as_u16(), &other["code"]), (422, &json!("invalid-request")), "another request");

    let undo = format!("{path}/compactions/{}/undo", made["compaction"]["id"].as_str().unwrap());
    let undone = done(&world, &undo, "u1", json!({})).await;
    assert_eq!(done(&world, &undo, "u1", json!({})).await, undone);
    let (status, _) = keyed(&world, &undo, "u2", json!({})).await;
    assert_eq!(status, StatusCode::CONFLICT, "without its key it has been undone");
    let release = undo.replace("/undo", "/release");
    let released = done(&world, &release, "r1", json!({})).await;
    assert_eq!(done(&world, &release, "r1", json!({})).await, released);
    world.crash();

    let world = TestServer::over(data.path(), talkative(), |_| {}).await;
    assert_eq!(done(&world, &compact, "c1", mind).await, made);
    assert_eq!(done(&world, &undo, "u1", json!({})).await, undone);
    assert_eq!(done(&world, &release, "r1", json!({})).await, released);
    assert_eq!(compactions(&world, &path).await, 1);
    world.end().await;
}

#[tokio::test]
async fn of_two_that_come_at_once_one_is_done_and_both_hear_of_it() {
    let world = TestServer::new(talkative()).await;
    let session = world.session().await;
    talk(&world, &session, 6).await;
    let path = format!("/api/sessions/{session}");
    let compact = format!("{path}/compact");
    let (one, other) =
        tokio::join!(done(&world, &compact, "same", json!({})), done(&world, &compact, "same", json!({})));
    assert_eq!((&one["compacted"], &one), (&json!(true), &other));
    assert_eq!(compactions(&world, &path).await, 1);
}

#[tokio::test]
async fn what_a_crash_has_cut_off_is_done_when_it_is_asked_again() {
    let data = tempfile::tempdir().unwrap();
    let never = ModelScript::closure(|request: &longhaul_providers::ModelRequest, index| {
        let answer = ScriptedAnswer::text(prose(index));
        if is_summary_request(request) { answer.pace(Duration::from_secs(60)) } else { answer }
    });
    let world = TestServer::over(data.path(), never, |_| {}).await;
    let session = world.session().await;
    talk(&world, &session, 6).await;
    let path = format!("/api/sessions/{session}");
    let compact = format!("{path}/compact");
    tokio::select! {
        _ = keyed(&world, &compact, "c1", json!({})) => panic!("the summary is never written"),
        () = world.until(&session, "compacting") => {}
    }
    world.crash();

    let world = TestServer::over(data.path(), talkative(), |_| {}).await;
    assert_eq!(compactions(&world, &path).await, 0);
    let made = done(&world, &compact, "c1", json!({})).await;
    assert_eq!(made["compacted"], true);
    assert_eq!(done(&world, &compact, "c1", json!({})).await, made);
    assert_eq!(compactions(&world, &path).await, 1);
    world.end().await;
}

#[tokio::test]
async fn what_was_refused_may_come_again() {
    let world =
        TestServer::new(ModelScript::turns([slowly(&"word ".repeat(2_000)), ScriptedAnswer::text("Yes.")]))
            .await;
    let session = world.session().await;
    world.say(&session, "talk").await;
    world.until(&session, "streaming").await;
    let compact = format!("/api/sessions/{session}/compact");
    let (status, refused) = keyed(&world, &compact, "c1", json!({})).await;
    assert_eq!((status, &refused["code"]), (StatusCode::CONFLICT, &json!("conflict")));
    world.post(&format!("/api/sessions/{session}/cancel"), json!({})).await;
    world.until(&session, "idle").await;
    assert_eq!(done(&world, &compact, "c1", json!({})).await["compacted"], false);
}

#[tokio::test]
async fn a_repeated_resume_and_a_repeated_cancel_touch_no_later_run() {
    let script = ModelScript::always(slowly(&"word ".repeat(2_000)));
    let world = TestServer::new(script).await;
    let session = world.session().await;
    let path = format!("/api/sessions/{session}");
    let (resume, cancel) = (format!("{path}/resume"), format!("{path}/cancel"));
    world.say(&session, "talk").await;
    world.until(&session, "streaming").await;
    world.say(&session, "and this").await;
    let cancelled = done(&world, &cancel, "x1", json!({})).await;
    assert_eq!(cancelled["cancelled"], true);
    let resumed = done(&world, &resume, "r1", json!({})).await;
    assert_eq!(resumed["resumed"], true, "{resumed}");
    world.until(&session, "streaming").await;
    assert_eq!(done(&world, &cancel, "x1", json!({})).await, cancelled, "a late repetition");
    assert_eq!(world.get(&path).await["status"], "streaming", "the new run goes on");
    world.say(&session, "and that").await;
    world.post(&cancel, json!({})).await;
    assert_eq!(done(&world, &resume, "r1", json!({})).await, resumed);
    let shown = world.get(&path).await;
    assert_eq!((&shown["status"], &shown["queued"]), (&json!("idle"), &json!(1)), "nothing was begun");
}

#[tokio::test]
async fn an_answer_to_a_question_is_given_once() {
    let data = tempfile::tempdir().unwrap();
    let script = || {
        ModelScript::closure(|request: &longhaul_providers::ModelRequest, _| {
            if request.messages.last().unwrap().role == longhaul_core::message::Role::Tool {
                ScriptedAnswer::text("Understood.")
            } else {
                ScriptedAnswer::text("May I?").call("write", r#"{"path":"a.txt","content":"hello"}"#)
            }
        })
    };
    let ask = |agent: &mut longhaul::agent::Agent| agent.rules.default_approval = ToolApproval::Ask;
    let world = TestServer::over(data.path(), script(), ask).await;
    let session = world.session().await;
    world.say(&session, "write it").await;
    world.until(&session, "waiting_approval").await;
    let asked = world.get("/api/approvals").await["approvals"][0]["approvalId"].clone();
    let path = format!("/api/approvals/{}", asked.as_str().unwrap());
    let allowed = done(&world, &path, "a1", json!({ "decision": "allow" })).await;
    world.until(&session, "idle").await;
    assert_eq!(done(&world, &path, "a1", json!({ "decision": "allow" })).await, allowed);
    let (status, _) = keyed(&world, &path, "a1", json!({ "decision": "deny" })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let (status, _) = keyed(&world, &path, "a2", json!({ "decision": "allow" })).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    world.crash();
    let world = TestServer::over(data.path(), script(), ask).await;
    assert_eq!(done(&world, &path, "a1", json!({ "decision": "allow" })).await, allowed);
    world.end().await;
}

#[tokio::test]
async fn a_fork_is_made_once_whatever_becomes_of_its_origin() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let session = world.session().await;
    talk(&world, &session, 1).await;
    let fork = format!("/api/sessions/{session}/fork");
    let made = done(&world, &fork, "f1", json!({})).await;
    talk(&world, &session, 1).await;
    assert_eq!(done(&world, &fork, "f1", json!({})).await, made, "the same position");
    let delete = world.request(Method::DELETE, &format!("/api/sessions/{session}"));
    expect(delete.send().await.unwrap(), StatusCode::OK).await;
    assert_eq!(done(&world, &fork, "f1", json!({})).await, made);
    let (status, _) = keyed(&world, &fork, "f2", json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn another_message_under_the_same_key_is_refused_and_not_lost_in_silence() {
    let world = TestServer::new(talkative()).await;
    let session = world.session().await;
    let message = |text: &str| json!({ "sessionId": session, "content": text });
    let first = done(&world, "/api/message", "m1", message("one")).await;
    world.until(&session, "idle").await;
    let again = done(&world, "/api/message", "m1", message("one")).await;
    assert_eq!(again["messageId"], first["messageId"]);
    let (status, refused) = keyed(&world, "/api/message", "m1", message("two")).await;
    assert_eq!((status.as_u16(), &refused["code"]), (422, &json!("invalid-request")), "{refused}");
    done(&world, "/api/message", "m2", message("two")).await;
}

#[tokio::test]
async fn a_session_and_a_fork_asked_for_otherwise_under_the_same_key_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let world = TestServer::over(data.path(), ModelScript::always("Yes."), |_| {}).await;
    let one = done(&world, "/api/sessions", "k", json!({ "title": "one" })).await;
    let again = done(&world, "/api/sessions", "k", json!({ "title": "one" })).await;
    assert_eq!((&again["id"], &again["title"]), (&one["id"], &json!("one")));
    let refused = async |world: &TestServer, path: &str, body: Value| {
        let (status, refused) = keyed(world, path, "k", body).await;
        assert_eq!(
            (status.as_u16(), &refused["code"]),
            (422, &json!("invalid-request")),
            "{path}: {refused}"
        );
    };
    refused(&world, "/api/sessions", json!({ "title": "two" })).await;
    refused(&world, "/api/sessions", json!({})).await;
    assert_eq!(world.get("/api/sessions").await["sessions"].as_array().unwrap().len(), 1);

    // The key was the server's; in the session it is free.
    let session = one["id"].as_str().unwrap();
    done(&world, "/api/message", "k", json!({ "sessionId": session, "content": "talk" })).await;
    world.until(session, "idle").await;
    let fork = format!("/api/sessions/{session}/fork");
    let made = done(&world, &fork, "k", json!({ "atSeq": 1 })).await;
    world.crash();

    let world = TestServer::over(data.path(), ModelScript::always("Yes."), |_| {}).await;
    assert_eq!(done(&world, &fork, "k", json!({ "atSeq": 1 })).await["id"], made["id"]);
    for other in [json!({}), json!({ "atSeq": 2 }), json!({ "atSeq": 1_000 })] {
        refused(&world, &fork, other).await;
    }
    refused(&world, "/api/sessions", json!({ "title": "two" })).await;
    assert_eq!(world.get("/api/sessions").await["sessions"].as_array().unwrap().len(), 2);
    world.end().await;
}

#[tokio::test]
async fn a_message_that_was_refused_may_be_put_right_under_its_key() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let session = world.session().await;
    let message = |content: Value| json!({ "sessionId": session, "content": content });
    let unknown = json!([{ "type": "file", "blob": "0".repeat(64), "mediaType": "text/plain" }]);
    let (status, refused) = keyed(&world, "/api/message", "m1", message(unknown.clone())).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{refused}");
    let sent = done(&world, "/api/message", "m1", message(json!("put right"))).await;
    world.until(&session, "idle").await;
    // What was taken keeps its key.
    let (status, _) = keyed(&world, "/api/message", "m1", message(unknown)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let again = done(&world, "/api/message", "m1", message(json!("put right"))).await;
    assert_eq!(again["messageId"], sent["messageId"]);
    assert_eq!(world.said(&session).await.len(), 2);
}
