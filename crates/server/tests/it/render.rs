//! Markdown over HTTP: bounded, and safe to show.

use longhaul_providers::scripted::ModelScript;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::test_server::{TestServer, expect};

#[tokio::test]
async fn texts_are_rendered_in_their_order() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let texts = json!({ "texts": ["*a*", "<script>alert(1)</script>", ""] });
    let answer = world.post("/api/render", texts).await;
    let expected = ["<p><em>a</em></p>\n", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n", ""];
    assert_eq!(answer, json!({ "html": expected }));
    for texts in [vec!["x"; 65], vec!["x".repeat(600_000).leak(); 2]] {
        let request = world.request(Method::POST, "/api/render").json(&json!({ "texts": texts }));
        let problem = expect(request.send().await.unwrap(), StatusCode::PAYLOAD_TOO_LARGE).await;
        assert_eq!(problem["code"], "invalid-request");
    }
}

#[tokio::test]
async fn messages_of_the_model_come_rendered_when_asked() {
    let world = TestServer::new(ModelScript::always("**Yes** ![x](https://a.example/x.png)")).await;
    let session = world.session().await;
    world.say(&session, "*hello*").await;
    world.until(&session, "idle").await;
    let path = format!("/api/sessions/{session}/messages");
    let plain = world.get(&path).await;
    assert!(plain["messages"][1]["parts"][0].get("html").is_none());
    let shown = world.get(&format!("{path}?render=html")).await;
    let html = shown["messages"][1]["parts"][0]["html"].as_str().unwrap();
    assert!(html.contains("<strong>Yes</strong>") && html.contains("blocked-image"), "{html}");
    assert!(!html.contains("<img"), "{html}");
    assert_eq!(shown["messages"][1]["parts"][0]["text"], plain["messages"][1]["parts"][0]["text"]);
    assert!(shown["messages"][0]["parts"][0].get("html").is_none(), "what a person wrote is text");
    let wrong = world.request(Method::GET, &format!("{path}?render=pdf")).send().await.unwrap();
    expect(wrong, StatusCode::BAD_REQUEST).await;
}
