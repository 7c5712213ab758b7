//! What the server still says when its store is damaged or cannot be written.

use std::path::Path;

use longhaul_providers::scripted::Script;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::world::{READ_ONLY, World, expect};

/// A session with three questions and their answers, over data that no process has any more.
async fn left(folder: &Path) -> String {
    let world = World::over(folder, Script::always("An answer."), |_| {}).await;
    let session = world.session().await;
    for at in 1..=3 {
        world.say(&session, &format!("question {at}?")).await;
        world.until(&session, "idle").await;
    }
    world.end().await;
    session
}

fn texts(page: &Value) -> Vec<&str> {
    page["messages"].as_array().unwrap().iter().map(|one| one["parts"][0]["text"].as_str().unwrap()).collect()
}

/// The messages around a damaged event are shown, the session is listed and exported without it, and what needs the
/// whole log says which event it is.
#[tokio::test]
async fn a_damaged_event_is_named_and_the_rest_is_shown() {
    let data = tempfile::tempdir().unwrap();
    let session = left(data.path()).await;
    let file = data.path().join("longhaul.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let needle = b"question 2?";
    // Pages that were split still have old copies.
    let places: Vec<usize> = (0..bytes.len()).filter(|place| bytes[*place..].starts_with(needle)).collect();
    assert!(!places.is_empty(), "the database has no such text");
    places.iter().for_each(|place| bytes[*place] ^= 1);
    std::fs::write(&file, bytes).unwrap();

    let world = World::over(data.path(), Script::always("More."), |_| {}).await;
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    assert_eq!(texts(&page), ["question 1?", "An answer.", "An answer.", "question 3?", "An answer."]);
    let [damaged] = &page["damaged"].as_array().unwrap()[..] else { panic!("{page}") };
    let newest = world.get(&format!("/api/sessions/{session}/messages?before=9999&limit=2")).await;
    assert_eq!((texts(&newest), &newest["damaged"]), (vec!["question 3?", "An answer."], &Value::Null));

    let shown = world.request(Method::GET, &format!("/api/sessions/{session}")).send().await.unwrap();
    let shown = expect(shown, StatusCode::INTERNAL_SERVER_ERROR).await;
    assert!(
        shown["detail"].as_str().unwrap().starts_with(&format!("Event {damaged} of this session is damaged"))
    );
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

/// Where nothing can be written, sessions are shown, searched and exported, and the server says that it is not ready.
#[tokio::test]
async fn a_store_that_cannot_be_written_is_read() {
    let data = tempfile::tempdir().unwrap();
    let session = left(data.path()).await;
    std::fs::write(data.path().join(READ_ONLY), "").unwrap();
    let world = World::over(data.path(), Script::always("More."), |_| {}).await;
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
