//! An answer with too many tool calls is given up while streaming, over every wire.

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt;
use longhaul_core::error::ErrorCode;
use longhaul_providers::connect::Kind;
use longhaul_providers::{ModelEvent, ProviderError};
use longhaul_wire::{AnswerTooLarge, MAX_TOOL_CALLS};
use serde_json::{Value, json};

use crate::answers::answer;
use crate::unreadable::against;
use crate::wire::{Outcome, finished};

const KINDS: [Kind; 5] = [Kind::OpenAiCompatible, Kind::OpenAi, Kind::Anthropic, Kind::Gemini, Kind::Ollama];

const FLOOD: usize = 32_000;

/// The call of number `index`, in the form of a whole answer.
fn whole_call(kind: Kind, number: usize) -> Value {
    let id = format!("call-{number}");
    match kind {
        Kind::OpenAi => json!({
            "type": "function_call", "id": format!("item-{number}"), "call_id": id, "name": "bash",
            "arguments": "{\"command\":\"true\"}", "status": "completed",
        }),
        Kind::Anthropic => {
            json!({ "type": "tool_use", "id": id, "name": "bash", "input": { "command": "true" } })
        }
        Kind::Gemini => json!({ "functionCall": { "name": "bash", "args": { "command": "true" } } }),
        Kind::Ollama => json!({ "function": { "name": "bash", "arguments": { "command": "true" } } }),
        _ => json!({
            "id": id, "type": "function", "function": { "name": "bash", "arguments": "{\"command\":\"true\"}" },
        }),
    }
}

/// The payloads of a streamed call of number `index`.
fn streamed_call(kind: Kind, number: usize) -> Vec<Value> {
    let call = whole_call(kind, number);
    match kind {
        Kind::OpenAi => vec![
            json!({ "type": "response.output_item.added", "output_index": number, "item": call }),
            json!({ "type": "response.output_item.done", "output_index": number, "item": call }),
        ],
        Kind::Anthropic => vec![
            json!({ "type": "content_block_start", "index": number, "content_block": call }),
            json!({ "type": "content_block_stop", "index": number }),
        ],
        Kind::Gemini => vec![json!({ "candidates": [{ "content": { "parts": [call] } }] })],
        Kind::Ollama => vec![json!({ "message": { "tool_calls": [call] }, "done": false })],
        _ => {
            let mut call = call;
            call["index"] = number.into();
            vec![json!({ "choices": [{ "delta": { "tool_calls": [call] } }] })]
        }
    }
}

/// The end of a streamed answer with calls.
fn streamed_end(kind: Kind) -> Value {
    match kind {
        Kind::OpenAi => json!({ "type": "response.completed", "response": { "status": "completed" } }),
        Kind::Anthropic => json!({ "type": "message_stop" }),
        Kind::Gemini => json!({ "candidates": [{ "finishReason": "STOP" }] }),
        Kind::Ollama => json!({ "message": {}, "done": true, "done_reason": "stop" }),
        _ => json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] }),
    }
}

fn whole_answer(kind: Kind, calls: usize) -> Value {
    let calls: Vec<Value> = (0..calls).map(|number| whole_call(kind, number)).collect();
    match kind {
        Kind::OpenAi => json!({ "object": "response", "status": "completed", "output": calls }),
        Kind::Anthropic => json!({ "type": "message", "content": calls, "stop_reason": "tool_use" }),
        Kind::Gemini => {
            json!({ "candidates": [{ "content": { "parts": calls }, "finishReason": "STOP" }] })
        }
        Kind::Ollama => json!({ "message": { "tool_calls": calls }, "done": true, "done_reason": "stop" }),
        _ => json!({ "choices": [{ "message": { "tool_calls": calls }, "finish_reason": "tool_calls" }] }),
    }
}

fn framed(kind: Kind, payload: &Value) -> Bytes {
    Bytes::from(if kind == Kind::Ollama { format!("{payload}\n") } else { format!("data: {payload}\n\n") })
}

/// A stream of `calls` calls; then its end, or nothing for ever.
async fn streamed(kind: Kind, calls: usize, ends: bool) -> Outcome {
    against(kind, move |_| {
        let payloads = (0..calls).flat_map(move |number| streamed_call(kind, number));
        let chunks =
            payloads.chain(ends.then(|| streamed_end(kind))).map(move |payload| framed(kind, &payload));
        let chunks = futures_util::stream::iter(chunks.map(Ok::<_, std::io::Error>));
        let body = match ends {
            true => Body::from_stream(chunks),
            false => Body::from_stream(chunks.chain(futures_util::stream::pending())),
        };
        answer(200, "text/event-stream", body)
    })
    .await
}

async fn whole(kind: Kind, calls: usize) -> Outcome {
    let body = whole_answer(kind, calls).to_string();
    against(kind, move |_| answer(200, "application/json", body.clone())).await
}

/// The number of calls shown to a viewer.
fn begun_calls(events: &[ModelEvent]) -> usize {
    let indexes = events.iter().filter_map(|event| match event {
        ModelEvent::ToolInput { index, .. } => Some(*index),
        _ => None,
    });
    indexes.max().map_or(0, |last| last + 1)
}

fn is_too_many(error: Option<&ProviderError>) -> bool {
    let expected = AnswerTooLarge::ToolCalls.to_string();
    error.is_some_and(|error| {
        error.code == ErrorCode::ThirdParty && error.message == expected && !error.retryable
    })
}

#[tokio::test]
async fn a_flood_of_calls_is_refused_in_mid_stream() {
    for kind in KINDS {
        // It never ends: whoever does not stop it waits for its rest.
        let (events, error) = streamed(kind, FLOOD, false).await;
        assert!(is_too_many(error.as_ref()), "{kind:?}: {error:?}");
        assert_eq!(begun_calls(&events), MAX_TOOL_CALLS, "{kind:?}: what came before is delivered");
    }
}

#[tokio::test]
async fn a_whole_answer_with_a_flood_of_calls_is_refused() {
    for kind in KINDS {
        let (events, error) = whole(kind, FLOOD).await;
        assert!(is_too_many(error.as_ref()), "{kind:?}: {error:?}");
        assert_eq!(begun_calls(&events), 0, "{kind:?}");
    }
}

#[tokio::test]
async fn as_many_calls_as_are_allowed_are_taken() {
    for kind in KINDS {
        for outcome in [streamed(kind, MAX_TOOL_CALLS, true).await, whole(kind, MAX_TOOL_CALLS).await] {
            assert_eq!(finished(outcome).parts.len(), MAX_TOOL_CALLS, "{kind:?}");
        }
    }
}
