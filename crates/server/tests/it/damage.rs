//! What the server still says when its store is damaged or cannot be written.

use std::path::Path;

use longhaul_providers::scripted::{ModelScript, ScriptedAnswer};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::test_server::{READ_ONLY, TestServer, expect};

/// A session with three questions and their answers, over data that no process has any more.
async fn left(folder: &Path, script: ModelScript) -> String {
    let world = TestServer::over(folder, script, |_| {}).await;
    let session = world.session().await;
    for at in 1..=3 {
        world.say(&session, &format!("question {at}?")).await;
        world.until(&session, "idle").await;
    }
    world.end().await;
    session
}

/// Flips a bit wherever the database has that text.
fn flip(folder: &Path, text: &str) {
    let file = folder.join("longhaul.db");
    let mut bytes = std::fs::read(&file).unwrap();
    // Pages that were split still have old copies.
    let places: Vec<usize> =
        (0..bytes.len()).filter(|place| bytes[*place..].starts_with(text.as_bytes())).collect();
    assert!(!places.is_empty(), "the database has no such text");
    places.iter().for_each(|place| bytes[*place] ^= 1);
    std::fs::write(&file, bytes).unwrap();
}

fn texts(page: &Value) -> Vec<&str> {
    page["messages"].as_array().unwrap().iter().map(|one| one["parts"][0]["text"].as_str().unwrap()).collect()
}

/// The messages around a damaged event are shown, the session is listed and exported without it, and what needs the
/// whole log says which event it is.
#[tokio::test]
async fn a_damaged_event_is_named_and_the_rest_is_shown() {
    let data = tempfile::tempdir().unwrap();
    let session = left(data.path(), ModelScript::always("An answer.")).await;
    flip(data.path(), "question 2?");
    let world = TestServer::over(data.path(), ModelScript::always("More."), |_| {}).await;
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    assert_eq!(texts(&page), ["question 1?", "An answer.", "An answer.", "question 3?", "An answer."]);
    let [damaged] = &page["damaged"].as_array().unwrap()[..] else { panic!("{page}") };
    let newest = world.get(&format!("/api/sessions/{session}/messages?before=9999&limit=2")).await;
    assert_eq!((texts(&newest), &newest["damaged"]), (vec!["question 3?", "An answer."], &Value::Null));

    let words = format!("Event {damaged} of this session is damaged");
    let refused =
        world.request(Method::GET, &format!("/api/sessions/{session}/context")).send().await.unwrap();
    let refused = expect(refused, StatusCode::INTERNAL_SERVER_ERROR).await;
    assert!(refused["detail"].as_str().unwrap().starts_with(&words), "{refused}");
    let shown = world.get(&format!("/api/sessions/{session}")).await;
    assert_eq!((&shown["damaged"], &shown["title"]), (&json!([damaged]), &Value::Null));
    assert_eq!((&shown["status"], &shown["lastFinishReason"]), (&json!("idle"), &json!("stop")));
    assert_eq!(shown["error"], json!({ "code": "storage", "message": refused["detail"] }));
    assert!(shown["tokenUsage"]["totalTokens"].as_u64().unwrap() > 0, "the first answer's: {shown}");
    let sent = json!({ "sessionId": session, "content": "more" });
    let sent = world.request(Method::POST, "/api/message").json(&sent).send().await.unwrap();
    let sent = expect(sent, StatusCode::INTERNAL_SERVER_ERROR).await;
    assert!(sent["detail"].as_str().unwrap().starts_with(&words), "{sent}");
    let listed = world.get("/api/sessions").await;
    assert_eq!(
        (&listed["sessions"][0]["id"], &listed["sessions"][0]["lastFinishReason"]),
        (&json!(session), &json!("stop"))
    );
    let found = world.get("/api/search?q=question").await;
    assert_eq!((found["hits"].as_array().unwrap().len(), &found["complete"]), (2, &json!(false)));

    let exported =
        world.request(Method::GET, &format!("/api/sessions/{session}/export")).send().await.unwrap();
    assert_eq!(exported.headers()["x-longhaul-damaged-events"], damaged.to_string());
    let exported = exported.text().await.unwrap();
    assert!(exported.contains("question 1?") && exported.contains("question 3?"), "{exported}");
    world.end().await;
}

/// A damaged event belongs to one page of messages, also where it is the first or the last message of all.
#[tokio::test]
async fn damage_at_the_ends_of_a_log_is_named_too() {
    for needle in ["question 1?", "last words"] {
        let data = tempfile::tempdir().unwrap();
        let script =
            ModelScript::turns(["first words", "more words", "last words"].map(ScriptedAnswer::text));
        let session = left(data.path(), script).await;
        flip(data.path(), needle);
        let world = TestServer::over(data.path(), ModelScript::always("More."), |_| {}).await;
        let path = format!("/api/sessions/{session}/messages");
        let all = world.get(&path).await;
        let damaged = all["damaged"].as_array().cloned().unwrap_or_default();
        assert_eq!((all["messages"].as_array().unwrap().len(), damaged.len()), (5, 1), "{needle}: {all}");
        for (direction, from) in [("after", 0), ("before", 9_999)] {
            let (mut named, mut at) = (Vec::new(), json!(from));
            while !at.is_null() {
                let page = world.get(&format!("{path}?limit=1&{direction}={at}")).await;
                named.extend(page["damaged"].as_array().cloned().unwrap_or_default());
                at = page[direction].clone();
            }
            assert_eq!(named, damaged, "{needle}, {direction}");
        }
        world.end().await;
    }
}

/// Where nothing can be written, sessions are shown, searched and exported, and the server says that it is not ready.
#[tokio::test]
async fn a_store_that_cannot_be_written_is_read() {
    let data = tempfile::tempdir().unwrap();
    let session = left(data.path(), ModelScript::always("An answer.")).await;
    std::fs::write(data.path().join(READ_ONLY), "").unwrap();
    let world = TestServer::over(data.path(), ModelScript::always("More."), |_| {}).await;
    let shown = world.get(&format!("/api/sessions/{session}")).await;
    assert_eq!((&shown["status"], &shown["lastFinishReason"]), (&json!("idle"), &json!("stop")));
    assert!(shown["tokenUsage"]["totalTokens"].as_u64().unwrap() > 0, "{shown}");
    assert_eq!(texts(&world.get(&format!("/api/sessions/{session}/messages")).await).len(), 6);
    assert!(world.get(&format!("/api/sessions/{session}/context")).await["total"].as_u64().unwrap() > 0);
    assert_eq!(world.get(&format!("/api/sessions/{session}/compactions")).await["compactions"], json!([]));
    let recalled = world.get(&format!("/api/sessions/{session}/recall?query=question")).await;
    assert!(recalled["text"].as_str().unwrap().contains("question"), "{recalled}");
    assert_eq!(world.get("/api/search?q=answer").await["hits"].as_array().unwrap().len(), 3);
    let exported =
        world.request(Method::GET, &format!("/api/sessions/{session}/export")).send().await.unwrap();
    assert_eq!(exported.status(), StatusCode::OK);

    let ready = world.request(Method::GET, "/readyz").send().await.unwrap();
    let ready = expect(ready, StatusCode::SERVICE_UNAVAILABLE).await;
    assert!(ready["detail"].as_str().unwrap().contains("only be read"), "{ready}");
    expect(world.request(Method::GET, "/healthz").send().await.unwrap(), StatusCode::OK).await;
    let said = json!({ "sessionId": session, "content": "more" });
    let refused = world.request(Method::POST, "/api/message").json(&said).send().await.unwrap();
    expect(refused, StatusCode::SERVICE_UNAVAILABLE).await;
    world.end().await;
}
