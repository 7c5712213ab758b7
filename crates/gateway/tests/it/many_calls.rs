//! An answer with a flood of tool calls: it is given up at the limit, while it streams.

use std::time::{Duration, Instant};

use longhaul_gateway::{GatewayOptions, UpstreamOptions};
use longhaul_providers::connect::Kind;
use longhaul_wire::edit::Dialect;
use longhaul_wire::{MAX_ARGUMENT_BYTES, MAX_TOOL_CALLS};
use serde_json::{Value, json};

use crate::model::{call, read};
use crate::upstream::*;

/// So many calls, more than a model writes into one window.
const CALLS: usize = 5_000;

fn event(data: &Value) -> String {
    match data["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

/// The answer of a model in a loop.
fn flood(speaks: Dialect, calls: usize) -> Vec<String> {
    let mut events: Vec<Value> = Vec::new();
    match speaks {
        Dialect::Chat => {
            let chunk = |delta: Value, finish: Value| json!({ "id": "a", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
            events.extend((0..calls).map(|at| {
                let function = json!({ "name": "ls", "arguments": "{}" });
                let call =
                    json!({ "index": at, "id": format!("c{at}"), "type": "function", "function": function });
                chunk(json!({ "tool_calls": [call] }), Value::Null)
            }));
            events.push(chunk(json!({}), "tool_calls".into()));
        }
        _ => {
            events.push(json!({ "type": "message_start", "message": { "id": "a", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": { "input_tokens": 9, "output_tokens": 1 } } }));
            for at in 0..calls {
                events.push(json!({ "type": "content_block_start", "index": at, "content_block": { "type": "tool_use", "id": format!("c{at}"), "name": "ls", "input": {} } }));
                events.push(json!({ "type": "content_block_stop", "index": at }));
            }
            events.push(json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 5 } }));
            events.push(json!({ "type": "message_stop" }));
        }
    }
    let mut events: Vec<String> = events.iter().map(event).collect();
    if speaks == Dialect::Chat {
        events.push("data: [DONE]\n\n".to_owned());
    }
    events
}

fn config(server: &ScriptedUpstream, speaks: Dialect) -> GatewayOptions {
    let kind = if speaks == Dialect::Messages { Kind::Anthropic } else { Kind::OpenAiCompatible };
    let mut upstream = UpstreamOptions::new("up", kind, server.url("/v1"));
    upstream.endpoint.declared = server.upstream(100_000).endpoint.declared;
    waiting(vec![upstream])
}

#[tokio::test]
async fn a_flood_of_calls_is_given_up_at_the_limit() {
    for (asks, speaks) in [
        (Dialect::Chat, Dialect::Chat),
        (Dialect::Messages, Dialect::Messages),
        (Dialect::Messages, Dialect::Chat),
        (Dialect::Responses, Dialect::Chat),
    ] {
        let server =
            start_upstream(move |_, _| UpstreamAnswer::Events(flood(speaks, CALLS), Duration::ZERO)).await;
        for stream in [true, false] {
            let begun = Instant::now();
            let reply = gateway(config(&server, speaks)).answer(call(asks, &[user("go")], stream)).await;
            let out = body(reply).await;
            assert!(begun.elapsed() < Duration::from_secs(20), "{asks:?} {speaks:?} {stream}");
            let text = String::from_utf8_lossy(&out);
            assert!(
                text.contains(&format!("more than {MAX_TOOL_CALLS} tools at once")),
                "{asks:?} {speaks:?} {stream}: {}",
                &text[text.len().saturating_sub(300)..]
            );
            if stream {
                let (seen, _) = read(asks, &out);
                assert!(seen.calls.len() <= MAX_TOOL_CALLS, "{} calls", seen.calls.len());
                assert!(seen.error.is_some(), "{asks:?} {speaks:?}");
            }
        }
    }
}

#[tokio::test]
async fn as_many_calls_as_allowed_pass() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Events(flood(Dialect::Chat, MAX_TOOL_CALLS), Duration::ZERO))
            .await;
    let reply =
        gateway(config(&server, Dialect::Chat)).answer(call(Dialect::Chat, &[user("go")], true)).await;
    let (seen, _) = read(Dialect::Chat, &body(reply).await);
    assert_eq!((seen.calls.len(), seen.error, seen.over), (MAX_TOOL_CALLS, None, true));
}

/// An answer with one call, whose arguments have `bytes` bytes and come in pieces of 1 MiB.
fn long_call(speaks: Dialect, bytes: usize) -> Vec<String> {
    let arguments = format!("{{\"text\":\"{}\"}}", "x".repeat(bytes - 11));
    assert_eq!(arguments.len(), bytes);
    let pieces: Vec<&str> =
        arguments.as_bytes().chunks(1 << 20).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
    let mut events: Vec<Value> = Vec::new();
    if speaks == Dialect::Chat {
        let chunk = |delta: Value, finish: Value| json!({ "id": "a", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
        let call = |fields: Value| chunk(json!({ "tool_calls": [fields] }), Value::Null);
        events.push(call(json!({ "index": 0, "id": "c0", "type": "function", "function": { "name": "write", "arguments": "" } })));
        events.extend(
            pieces.iter().map(|piece| call(json!({ "index": 0, "function": { "arguments": piece } }))),
        );
        events.push(chunk(json!({}), "tool_calls".into()));
    } else {
        events.push(json!({ "type": "message_start", "message": { "id": "a", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": { "input_tokens": 9, "output_tokens": 1 } } }));
        events.push(json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "tool_use", "id": "c0", "name": "write", "input": {} } }));
        events.extend(pieces.iter().map(|piece| json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "input_json_delta", "partial_json": piece } })));
        events.push(json!({ "type": "content_block_stop", "index": 0 }));
        events.push(json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 5 } }));
        events.push(json!({ "type": "message_stop" }));
    }
    let mut events: Vec<String> = events.iter().map(event).collect();
    if speaks == Dialect::Chat {
        events.push("data: [DONE]\n\n".to_owned());
    }
    events
}

#[tokio::test]
async fn arguments_of_one_call_are_given_up_beyond_8_mib() {
    for (asks, speaks) in [
        (Dialect::Chat, Dialect::Chat),
        (Dialect::Messages, Dialect::Messages),
        (Dialect::Messages, Dialect::Chat),
        (Dialect::Responses, Dialect::Chat),
    ] {
        for (bytes, is_allowed) in [(MAX_ARGUMENT_BYTES, true), (MAX_ARGUMENT_BYTES + 1, false)] {
            let server =
                start_upstream(move |_, _| UpstreamAnswer::Events(long_call(speaks, bytes), Duration::ZERO))
                    .await;
            for stream in [true, false] {
                let case = format!("{asks:?} of {speaks:?}, streamed: {stream}, {bytes} bytes");
                let reply = gateway(config(&server, speaks)).answer(call(asks, &[user("go")], stream)).await;
                let out = body(reply).await;
                let text = String::from_utf8_lossy(&out);
                let is_refused = text.contains("8 MiB");
                assert_eq!(is_refused, !is_allowed, "{case}: {}", &text[text.len().saturating_sub(300)..]);
                // A client must not run a call whose end it has not seen.
                let ends = [
                    "\"finish_reason\":\"tool_calls\"",
                    "\"stop_reason\":\"tool_use\"",
                    "response.completed",
                ];
                if stream {
                    let is_over = ends.iter().any(|end| text.contains(end));
                    assert_eq!(is_over, is_allowed, "{case}");
                }
            }
        }
    }
}
