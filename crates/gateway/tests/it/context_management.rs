//! `context_management`: for an upstream that does not know it, the gateway does what the client asks its provider for.

use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::budget::StrategyTrigger;
use longhaul_gateway::{ClientRequest, GatewayOptions, UpstreamOptions};
use longhaul_providers::connect::Kind;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::crossing::messages_call;
use crate::shortening::{is_summary_request, pruned};
use crate::upstream::*;

/// A Messages request with so many tool steps; the first one is by the tool `plan`.
fn steps(count: usize, edits: Option<Value>, stream: bool) -> Value {
    let mut messages = vec![json!({ "role": "user", "content": "read all files" })];
    for at in 0..count {
        let id = format!("t{at}");
        let name = if at == 0 { "plan" } else { "read" };
        messages.push(json!({ "role": "assistant", "content": [
            { "type": "tool_use", "id": id, "name": name, "input": { "file": at } }] }));
        let text = format!("{} middle{at}. {}", words(200, at), words(200, at));
        messages.push(json!({ "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": id, "content": text }] }));
    }
    let mut body = json!({ "model": "m", "max_tokens": 100, "stream": stream, "messages": messages });
    if let Some(edits) = edits {
        body["context_management"] = json!({ "edits": edits });
    }
    body
}

fn clearing() -> Value {
    json!([{
        "type": "clear_tool_uses_20250919", "trigger": { "type": "tool_uses", "value": 5 },
        "keep": { "type": "tool_uses", "value": 2 }, "exclude_tools": ["plan"],
    }])
}

/// The results that a request carries whole: a placeholder may show their beginning and their end.
fn whole_results(sent: &ReceivedRequest) -> Vec<usize> {
    let text = sent.json().to_string();
    (0..20).filter(|at| text.contains(&format!("middle{at}."))).collect()
}

/// An answer of a server that speaks Messages.
fn native_answer(stream: bool) -> UpstreamAnswer {
    let message = json!({ "id": "msg", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "usage": { "input_tokens": 10, "output_tokens": 1 } });
    if !stream {
        let mut whole = message;
        whole["content"] = json!([{ "type": "text", "text": "fine" }]);
        whole["stop_reason"] = json!("end_turn");
        return UpstreamAnswer::Json(200, whole);
    }
    let events = [
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "fine" } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 1 } }),
        json!({ "type": "message_stop" }),
    ];
    let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    UpstreamAnswer::Events(events.iter().map(event).collect(), Duration::ZERO)
}

/// The `context_management` of an answer, whole or streamed.
async fn reported(reply: longhaul_gateway::GatewayReply, stream: bool) -> Value {
    let bytes = body(reply).await;
    if !stream {
        return serde_json::from_slice::<Value>(&bytes).unwrap()["context_management"].take();
    }
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    let mut delta = events.into_iter().find(|event| event["type"] == "message_delta").unwrap();
    delta["context_management"].take()
}

#[tokio::test]
async fn old_tool_results_are_cleared_as_the_client_asks() {
    for (speaks_messages, stream) in [(false, false), (false, true), (true, false), (true, true)] {
        let server = start_upstream(move |_, _| match speaks_messages {
            true => native_answer(stream),
            false => UpstreamAnswer::Events(streamed("a", "fine", None), Duration::ZERO),
        })
        .await;
        let mut upstream = server.upstream(100_000);
        if speaks_messages {
            upstream.dialects.push(Dialect::Messages);
        }
        let gateway = gateway(waiting(vec![upstream]));
        let ask =
            |count: usize, edits: Option<Value>| gateway.answer(messages_call(&steps(count, edits, stream)));
        let case = format!("native {speaks_messages}, stream {stream}");

        let few = ask(4, Some(clearing())).await;
        assert_eq!((few.status, header(&few, "x-longhaul-action")), (StatusCode::OK, "none"), "{case}");
        assert_eq!(reported(few, stream).await, json!({ "applied_edits": [] }), "{case}");

        let many = ask(6, Some(clearing())).await;
        assert_eq!(header(&many, "x-longhaul-action"), "pruned", "{case}");
        let told = reported(many, stream).await;
        let edit = &told["applied_edits"][0];
        assert_eq!(
            (&edit["type"], &edit["cleared_tool_uses"]),
            (&json!("clear_tool_uses_20250919"), &json!(3)),
            "{case}"
        );
        assert!(edit["cleared_input_tokens"].as_u64().unwrap() > 300, "{case}: {told}");
        assert_eq!(whole_results(server.received().last().unwrap()), [0, 4, 5], "{case}");

        // The clearing stays, and the next one waits for its trigger: the upstream's cache keeps its prefix.
        let next = ask(7, Some(clearing())).await;
        assert_eq!(header(&next, "x-longhaul-action"), "remembered", "{case}");
        assert_eq!(reported(next, stream).await["applied_edits"][0]["cleared_tool_uses"], 3, "{case}");
        assert_eq!(whole_results(server.received().last().unwrap()), [0, 4, 5, 6], "{case}");

        // A request without the field is another view of the conversation.
        let without = ask(6, None).await;
        assert_eq!(header(&without, "x-longhaul-action"), "none", "{case}");
        assert_eq!(reported(without, stream).await, Value::Null, "{case}");
        assert_eq!(whole_results(server.received().last().unwrap()), [0, 1, 2, 3, 4, 5], "{case}");
    }
}

#[tokio::test]
async fn the_newest_step_is_never_cleared() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Events(streamed("a", "fine", None), Duration::ZERO)).await;
    let gateway = server.gateway(100_000);
    let all = json!([{ "type": "clear_tool_uses_20250919", "trigger": { "type": "input_tokens", "value": 1 },
        "keep": { "type": "tool_uses", "value": 0 } }]);
    gateway.answer(messages_call(&steps(3, Some(all), false))).await;
    assert_eq!(whole_results(&server.received()[0]), [2]);
    // Less than is worth a new prefix stays.
    let worthless = json!([{ "type": "clear_tool_uses_20250919", "trigger": { "type": "input_tokens", "value": 1 },
        "clear_at_least": { "type": "input_tokens", "value": 5_000 } }]);
    gateway.answer(messages_call(&steps(6, Some(worthless), false))).await;
    assert_eq!(whole_results(&server.received()[1]), [0, 1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn the_providers_own_server_gets_the_clients_bytes() {
    let server = start_upstream(|_, _| native_answer(false)).await;
    let mut upstream = UpstreamOptions::new("up", Kind::Anthropic, server.url("/v1"));
    upstream.endpoint.declared.window = Some(200_000);
    let gateway = gateway(waiting(vec![upstream]));
    let body = steps(8, Some(clearing()), false);
    let reply = gateway.answer(messages_call(&body)).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "none"));
    assert_eq!(reported(reply, false).await, Value::Null);
    assert_eq!(server.received()[0].body, body.to_string());
}

#[tokio::test]
async fn a_client_may_have_its_conversation_compacted_early() {
    let server = start_upstream(|_, body| match is_summary_request(body) {
        true => pruned(),
        false => UpstreamAnswer::Events(streamed("a", "fine", None), Duration::ZERO),
    })
    .await;
    let long: Vec<Value> = (0..30)
        .map(|at| if at % 2 == 0 { user(words(90, at)) } else { assistant(words(90, at)) })
        .chain([user("go on")])
        .collect();
    let wish = |dialect: Dialect, tokens: u64| match dialect {
        Dialect::Responses => json!([{ "type": "compaction", "compact_threshold": tokens }]),
        _ => json!({ "edits": [{ "type": "compact_20260112",
            "trigger": { "type": "input_tokens", "value": tokens } }] }),
    };
    let operators = |trigger: Option<StrategyTrigger>| {
        let mut options = waiting(vec![server.upstream(100_000)]);
        options.policy.trigger = trigger;
        gateway(GatewayOptions { ..options })
    };
    for dialect in [Dialect::Responses, Dialect::Messages] {
        let list = if dialect == Dialect::Messages { "messages" } else { "input" };
        for (wanted, configured, action) in [
            (2_000, None, "compacted"),
            (50_000, None, "none"),
            // The operator's limit holds where it is lower.
            (50_000, Some(StrategyTrigger::Tokens(2_000)), "compacted"),
            (2_000, Some(StrategyTrigger::Tokens(50_000)), "compacted"),
        ] {
            let body = json!({ "model": "m", "max_tokens": 100, list: long,
                "context_management": wish(dialect, wanted) });
            let gateway = operators(configured);
            let reply = gateway.answer(ClientRequest { dialect, ..chat(body.to_string()) }).await;
            let found = (reply.status, header(&reply, "x-longhaul-action"));
            assert_eq!(found, (StatusCode::OK, action), "{dialect:?}, {wanted}, {configured:?}");
        }
    }
}

#[tokio::test]
async fn wishes_that_cannot_be_read_are_refused_and_those_not_carried_out_are_named() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Events(streamed("a", "fine", None), Duration::ZERO)).await;
    let gateway = server.gateway(100_000);
    for (edits, param) in [
        (json!("all"), "context_management"),
        (json!([{ "type": "clear_tool_uses_20250919", "trigger": 5 }]), "context_management.edits[0]"),
        (
            json!([{ "type": "clear_tool_uses_20250919", "trigger": { "type": "words", "value": 1 } }]),
            "context_management.edits[0]",
        ),
        (
            json!([{ "type": "clear_tool_uses_20250919", "keep": { "type": "tool_uses", "value": -1 } }]),
            "context_management.edits[0]",
        ),
    ] {
        let reply = gateway.answer(messages_call(&steps(1, Some(edits), false))).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
        let refusal = body_json(reply).await;
        assert!(refusal["error"]["message"].as_str().unwrap().contains(param), "{refusal}");
        assert!(!refusal.to_string().contains("struct"), "{refusal}");
    }
    for odd in [json!("x"), json!(5), json!([]), json!({ "edits": [{}] }), json!({ "edits": [5] })] {
        let mut body = steps(1, None, false);
        body["context_management"] = odd;
        assert_eq!(gateway.answer(messages_call(&body)).await.status, StatusCode::BAD_REQUEST, "{body}");
    }
    assert!(server.received().is_empty());
    let edits = json!([
        { "type": "clear_thinking_20251015", "keep": "all" },
        { "type": "clear_tool_uses_20250919", "clear_tool_inputs": true },
    ]);
    let reply = gateway.answer(messages_call(&steps(1, Some(edits), false))).await;
    let ignored = header(&reply, "x-longhaul-ignored");
    assert!(
        ignored.contains("context_management.edits[0] (clear_thinking_20251015)")
            && ignored.contains("context_management.edits[1].clear_tool_inputs"),
        "{ignored}"
    );
}
