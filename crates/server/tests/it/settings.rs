//! Settings: a few scalars, checked, and followed by the next decision.

use longhaul_providers::scripted::ModelScript;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::test_server::{TestServer, expect};

async fn put(world: &TestServer, change: Value, status: StatusCode) -> Value {
    let request = world.request(Method::PUT, "/api/settings").json(&change);
    expect(request.send().await.unwrap(), status).await
}

#[tokio::test]
async fn settings_are_changed_and_given_back() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let before = world.get("/api/settings").await;
    assert_eq!((&before["sources"]["strategy"], &before["autoRecall"]), (&json!("default"), &json!(false)));
    let session = world.session().await;
    let change = json!({ "strategy": "truncation", "trigger": { "type": "threshold", "percentage": 0.25 }, "autoRecall": true });
    let changed = put(&world, change, StatusCode::OK).await;
    assert_eq!(
        (&changed["strategy"], &changed["sources"]["strategy"]),
        (&json!("truncation"), &json!("settings"))
    );
    assert_eq!((&changed["trigger"]["percentage"], &changed["autoRecall"]), (&json!(0.25), &json!(true)));
    assert_eq!(changed, world.get("/api/settings").await);
    let context = world.get(&format!("/api/sessions/{session}/context")).await;
    let thresholds = context["thresholds"].as_array().unwrap();
    let trigger = thresholds.iter().find(|threshold| threshold["name"] == "truncation").unwrap();
    let (window, tokens) = (context["window"].as_u64().unwrap(), trigger["tokens"].as_u64().unwrap());
    assert!(tokens <= window / 4 && tokens > window / 8, "an open session follows: {tokens} of {window}");
    let allowed = &changed["allowed"];
    assert_eq!(allowed["strategy"], changed["strategies"]);
    assert_eq!(
        allowed["pruningAgent"][0],
        json!({ "value": "__same__", "label": "Same as current agent (default)" })
    );
    assert_eq!(allowed["pruningAgent"][1], json!({ "value": "default", "label": "default (scripted)" }));
    let pruned =
        put(&world, json!({ "pruningAgent": "default", "summarizeWith": "extract" }), StatusCode::OK).await;
    assert_eq!(
        (&pruned["pruningAgent"], &pruned["strategy"]),
        (&json!("default"), &json!("truncation")),
        "the rest stays"
    );
    put(&world, json!({ "pruningAgent": null, "summarizeWith": null }), StatusCode::OK).await;
    let back =
        put(&world, json!({ "strategy": null, "trigger": null, "autoRecall": null }), StatusCode::OK).await;
    assert_eq!(back, before);
}

#[tokio::test]
async fn every_trigger_that_may_be_chosen_is_taken_and_no_other_is() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    put(&world, json!({ "strategy": "adaptive" }), StatusCode::OK).await;
    let allowed = world.get("/api/settings").await["allowed"]["trigger"].clone();
    let choices = [
        ("none", json!("none")),
        ("percentage", json!({ "percentage": 0.5 })),
        ("triggerTokens", json!({ "triggerTokens": 5_000 })),
        ("overflow", json!({ "type": "overflow" })),
        ("planner", json!({ "type": "planner" })),
        ("manual", json!({ "type": "manual" })),
    ];
    assert_eq!(allowed, json!(choices.each_ref().map(|(name, _)| *name)));
    for (name, choice) in choices {
        let holds = put(&world, json!({ "trigger": choice }), StatusCode::OK).await["trigger"].clone();
        let told = match name {
            "none" => holds.is_null(),
            "percentage" | "triggerTokens" => holds[name] == choice[name],
            _ => holds["type"] == name,
        };
        assert!(told, "{name}: {holds}");
    }
}

#[tokio::test]
async fn nothing_else_can_be_set() {
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let before = world.get("/api/settings").await;
    // Hooks run commands, a base URL receives conversations and keys, and rules allow tools: these are the agent
    // file's alone.
    for wrong in [
        json!({ "strategy": "magic" }),
        json!({ "strategy": 4 }),
        json!({ "trigger": { "percentage": 0 } }),
        json!({ "trigger": { "percentage": 1.5 } }),
        json!({ "trigger": { "type": "other", "percentage": 0.5 } }),
        json!({ "trigger": 0.5 }),
        json!({ "pruningAgent": "nobody" }),
        json!({ "autoRecall": "yes" }),
        json!({ "hooks": { "preToolUse": { "command": "rm" } } }),
        json!({ "model": { "base_url": "http://evil.example" } }),
        json!({ "approvals": { "rules": [] } }),
        json!({ "strategy": "truncation", "api_key_env": "KEY" }),
    ] {
        let problem = put(&world, wrong.clone(), StatusCode::BAD_REQUEST).await;
        assert_eq!(problem["code"], "invalid-request", "{wrong}");
        let named = wrong
            .as_object()
            .unwrap()
            .keys()
            .any(|field| problem["detail"].as_str().unwrap().starts_with(&format!("`{field}")));
        assert!(named, "{problem}");
    }
    assert_eq!(world.get("/api/settings").await, before, "all or nothing");
}
