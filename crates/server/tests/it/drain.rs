//! The end: what runs may finish, nothing new begins, nothing is lost.

use std::time::Duration;

use longhaul::agent::Agent;
use longhaul_core::run::ToolApproval;
use longhaul_gateway::{Gateway, GatewayDependencies, GatewayOptions, UpstreamOptions};
use longhaul_providers::connect::Kind;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer};
use longhaul_server::HttpServerConfig;
use longhaul_testkit::{ReceivedRequest, ScriptedUpstream, UpstreamAnswer, chat};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::test_server::{PATIENCE, TestServer, expect, slowly};

async fn status(world: &TestServer, method: Method, path: &str, body: Value) -> StatusCode {
    let answer = world.request(method, path).json(&body).send().await.unwrap();
    let status = answer.status();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let problem = expect(answer, status).await;
        assert_eq!(problem["code"], "interrupted", "{path}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.contains("is shutting down") && detail.contains("Start it again with `longhaul`"),
            "{detail}"
        );
    }
    status
}

#[tokio::test]
async fn what_runs_finishes_and_nothing_begins() {
    // Slow enough to be still running when the drain begins, and short enough to end within its patience.
    let world = TestServer::new(ModelScript::turns([slowly(&"word ".repeat(150))])).await;
    let session = world.session().await;
    world.say(&session, "go").await;
    world.until(&session, "streaming").await;
    let app = world.app.clone();
    let drained = tokio::spawn(async move { app.drain(PATIENCE).await });
    // The drain runs beside this test: only after this loop is it sure to have begun.
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
    assert_eq!(said[1].1.trim_end(), "word ".repeat(150).trim_end(), "it was not cut");
}

#[tokio::test]
async fn patience_ends() {
    // Far longer than the drain's patience below.
    let world = TestServer::new(ModelScript::turns([slowly(&"word ".repeat(5_000))])).await;
    let session = world.session().await;
    world.say(&session, "go").await;
    world.until(&session, "streaming").await;
    tokio::time::timeout(PATIENCE, world.app.drain(Duration::from_millis(50))).await.unwrap();
    let shown = world.get(&format!("/api/sessions/{session}")).await;
    assert_eq!(shown["status"], "streaming", "the caller decides what comes then");
}

#[tokio::test]
async fn an_open_question_is_withdrawn_at_once() {
    let asking = ScriptedAnswer::text("May I?").call("write", r#"{"path":"a.txt","content":"hello"}"#);
    let ask = |agent: &mut Agent| agent.rules.default_approval = ToolApproval::Ask;
    let world = TestServer::with(ModelScript::turns([asking]), ask, |_| {}).await;
    let session = world.session().await;
    world.say(&session, "write it").await;
    world.until(&session, "waiting_approval").await;
    assert_eq!(world.app.open_questions(), 1);
    // Longer than this test may take, so that only the withdrawal can end the drain.
    tokio::time::timeout(PATIENCE, world.app.drain(PATIENCE * 10)).await.unwrap();
    let shown = world.get(&format!("/api/sessions/{session}")).await;
    assert_eq!((&shown["status"], &shown["lastFinishReason"]), (&json!("idle"), &json!("cancelled")));
    let page = world.get(&format!("/api/sessions/{session}/messages")).await;
    assert_eq!(page["messages"][1]["toolCalls"][0]["status"], "cancelled", "{page}");
    assert!(!world.folder.path().join("a.txt").exists());
    world.end().await;
}

/// A model server that begins an answer, and ends it when `goes_on` says so.
async fn model_server(goes_on: watch::Receiver<bool>) -> ScriptedUpstream {
    let said = |text: &str| chat::delta_event("a1", &json!({ "content": text }));
    let script = move |_: &ReceivedRequest| {
        let end = vec![said(" and the end."), chat::DONE_EVENT.to_owned()];
        UpstreamAnswer::Held(vec![said("The beginning"), said(", the middle")], goes_on.clone(), end)
    };
    ScriptedUpstream::start_without_pages(script).await
}

fn gateway(url: &str) -> Gateway {
    let mut upstream = UpstreamOptions::new("up", Kind::OpenAiCompatible, url);
    upstream.endpoint.declared.window = Some(8_000);
    Gateway::new(GatewayOptions::new(vec![upstream]), GatewayDependencies::default()).unwrap()
}

#[tokio::test]
async fn an_answer_of_the_gateway_comes_to_its_end_and_none_begins() {
    let (go_on, goes_on) = watch::channel(false);
    let model = model_server(goes_on).await;
    let gateway = gateway(&model.url("/v1"));
    let set = move |config: &mut HttpServerConfig| config.gateway = Some(gateway);
    let world = TestServer::with(ModelScript::always("never"), |_| {}, set).await;
    let ask = || {
        let body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "go" }] });
        world.request(Method::POST, "/v1/chat/completions").json(&body).send()
    };
    let mut answer = ask().await.unwrap();
    let mut said = String::from_utf8(answer.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(said.contains("The beginning"), "{said}");

    let app = world.app.clone();
    let mut drained = tokio::spawn(async move { app.drain(PATIENCE).await });
    // The drain runs beside this test, so its beginning is waited for.
    while status(&world, Method::GET, "/readyz", json!({})).await == StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let refused = ask().await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let refused: Value = refused.json().await.unwrap();
    assert_eq!(refused["error"]["code"], "unavailable", "{refused}");
    // By reference, so that a time-out does not end the drain.
    let waits = tokio::time::timeout(Duration::from_millis(200), &mut drained).await;
    assert!(waits.is_err(), "the end waits for the answer");

    // Only now may the answer end. Before, nothing but a cut could have ended the drain.
    go_on.send(true).unwrap();
    said.push_str(&answer.text().await.unwrap());
    assert!(said.contains(" and the end.") && said.ends_with("data: [DONE]\n\n"), "{said}");
    tokio::time::timeout(PATIENCE, drained).await.unwrap().unwrap();
    world.end().await;
}
