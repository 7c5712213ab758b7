//! The end: what runs may finish, nothing new begins, nothing is lost.

use std::time::Duration;

use longhaul_providers::scripted::Script;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::world::{PATIENCE, World, expect, slowly};

async fn status(world: &World, method: Method, path: &str, body: Value) -> StatusCode {
    let answer = world.request(method, path).json(&body).send().await.unwrap();
    let status = answer.status();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let problem = expect(answer, status).await;
        assert_eq!(problem["code"], "interrupted", "{path}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.contains("is ending") && detail.contains("Start it again with `longhaul`"),
            "{detail}"
        );
    }
    status
}

#[tokio::test]
async fn what_runs_finishes_and_nothing_begins() {
    let world = World::new(Script::turns([slowly(&"word ".repeat(60))])).await;
    let session = world.session().await;
    world.say(&session, "go").await;
    world.until(&session, "streaming").await;
    let app = world.app.clone();
    let drained = tokio::spawn(async move { app.drain(PATIENCE).await });
    while status(&world, Method::GET, "/readyz", json!({})).await == StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(status(&world, Method::GET, "/healthz", json!({})).await, StatusCode::OK);
    let other = format!("/api/sessions/{session}");
    for (path, body) in [
        ("/api/message".to_owned(), json!({ "sessionId": session, "content": "more" })),
        ("/api/message".to_owned(), json!({ "content": "new" })),
        ("/api/sessions".to_owned(), json!({})),
        (format!("{other}/resume"), json!({})),
        (format!("{other}/compact"), json!({})),
        (format!("{other}/fork"), json!({})),
    ] {
        let refused = status(&world, Method::POST, &path, body).await;
        assert_eq!(refused, StatusCode::SERVICE_UNAVAILABLE, "{path}");
    }
    tokio::time::timeout(PATIENCE, drained).await.unwrap().unwrap();
    let said = world.said(&session).await;
    assert_eq!(said.len(), 2);
    assert_eq!(said[1].1.trim_end(), "word ".repeat(60).trim_end(), "it was not cut");
}

#[tokio::test]
async fn patience_ends() {
    let world = World::new(Script::turns([slowly(&"word ".repeat(5_000))])).await;
    let session = world.session().await;
    world.say(&session, "go").await;
    world.until(&session, "streaming").await;
    tokio::time::timeout(PATIENCE, world.app.drain(Duration::from_millis(50))).await.unwrap();
    let shown = world.get(&format!("/api/sessions/{session}")).await;
    assert_eq!(shown["status"], "streaming", "the caller decides what comes then");
}
