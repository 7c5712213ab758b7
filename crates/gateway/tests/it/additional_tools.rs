//! Tools that a client adds in the middle of a conversation, or has its provider find.

use std::time::Duration;

use axum::http::StatusCode;
use longhaul_gateway::{ClientRequest, GatewayOptions, UpstreamOptions};
use longhaul_providers::connect::Kind;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::crossing::messages_call;
use crate::upstream::*;

fn function(name: &str) -> Value {
    json!({ "type": "function", "name": name, "description": "d", "parameters": { "type": "object",
        "properties": { "path": { "type": "string" } } } })
}

/// A request in which Codex adds a group of tools behind the first message.
fn request_with_added_tools() -> Value {
    json!({ "model": "m", "input": [
        user("look at the file"),
        { "type": "additional_tools", "role": "developer", "tools": [
            { "type": "namespace", "name": "mcp__files__", "description": "files", "tools": [function("read")] },
            function("exec") ] },
        user("now"),
    ], "tools": [function("exec")] })
}

fn responses_call(body: &Value) -> ClientRequest {
    ClientRequest { dialect: Dialect::Responses, ..chat(body.to_string()) }
}

#[tokio::test]
async fn added_tools_join_the_list_and_calls_of_them_come_back_as_the_client_knows_them() {
    let server = start_upstream(|_, _| {
        let call = json!({ "id": "c1", "type": "function", "index": 0,
            "function": { "name": "mcp__files__read", "arguments": "{\"path\":\"a\"}" } });
        UpstreamAnswer::Json(
            200,
            json!({ "id": "a", "object": "chat.completion", "choices": [{ "index": 0, "finish_reason": "tool_calls",
                "message": { "role": "assistant", "content": null, "tool_calls": [call] } }],
                "usage": { "prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 55 } }),
        )
    })
    .await;
    let gateway = server.gateway(100_000);
    let reply = gateway.answer(responses_call(&request_with_added_tools())).await;
    assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.headers);
    assert_eq!(header(&reply, "x-longhaul-ignored"), "");
    let answer = body_json(reply).await;
    let call =
        answer["output"].as_array().unwrap().iter().find(|item| item["type"] == "function_call").unwrap();
    assert_eq!((&call["namespace"], &call["name"]), (&json!("mcp__files__"), &json!("read")), "{answer}");

    let sent = server.received()[0].json();
    let tools = sent["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].clone());
    assert_eq!(tools.collect::<Vec<_>>(), [json!("exec"), json!("mcp__files__read")], "each once");
    assert!(!sent.to_string().contains("additional_tools"), "{sent}");
    assert_eq!(sent["messages"], json!([user("look at the file\n\nnow")]));
}

#[tokio::test]
async fn the_providers_own_server_gets_the_item() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Json(400, json!({ "error": { "message": "whatever" } }))).await;
    let mut upstream = UpstreamOptions::new("up", Kind::OpenAi, server.url("/v1"));
    upstream.endpoint.declared.window = Some(200_000);
    let gateway = gateway(GatewayOptions { attempts: 1, ..waiting(vec![upstream]) });
    let body = request_with_added_tools();
    gateway.answer(responses_call(&body)).await;
    let sent = server.received()[0].json();
    assert_eq!((&sent["input"], &sent["tools"]), (&body["input"], &body["tools"]));
}

/// A Messages request with 60 tools of a server that the client has its provider find, and one of its own.
fn request_with_deferred_tools() -> Value {
    let found = |at: usize| {
        let field = format!("Field of the record {at}, as the back office wants it. {}", words(60, at));
        json!({ "name": format!("mcp__archive__record_{at}"), "description": format!("Works on record {at}."),
            "defer_loading": true,
            "input_schema": { "type": "object", "properties": { "a": { "type": "string", "description": field } } } })
    };
    let own = json!({ "name": "read", "description": "Reads a file.", "input_schema": { "type": "object" } });
    let search = json!({ "type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25" });
    let tools: Vec<Value> = [search, own].into_iter().chain((0..60).map(found)).collect();
    json!({ "model": "m", "max_tokens": 500, "messages": [user("Work on record 7.")], "tools": tools })
}

#[tokio::test]
async fn tools_that_a_client_has_deferred_are_found_here_where_the_upstream_has_no_search() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Events(streamed("a", "fine", None), Duration::ZERO)).await;
    let gateway = server.gateway(16_000);
    let reply = gateway.answer(messages_call(&request_with_deferred_tools())).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(header(&reply, "x-longhaul-deferred-tools"), "60 of 61");
    let sent = server.received()[0].json();
    let tools = sent["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].clone());
    assert_eq!(tools.collect::<Vec<_>>(), [json!("read"), json!("tool_search"), json!("tool_call")]);

    // Anthropic's own server finds them itself.
    let server =
        start_upstream(|_, _| UpstreamAnswer::Json(400, json!({ "error": { "message": "whatever" } }))).await;
    let mut upstream = UpstreamOptions::new("up", Kind::Anthropic, server.url("/v1"));
    upstream.endpoint.declared.window = Some(16_000);
    let gateway = self::gateway(GatewayOptions { attempts: 1, ..waiting(vec![upstream]) });
    let body = request_with_deferred_tools();
    gateway.answer(messages_call(&body)).await;
    assert_eq!(server.received()[0].body, body.to_string());
}
