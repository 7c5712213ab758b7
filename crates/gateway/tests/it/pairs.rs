//! What is the same whatever a client speaks and whatever its model's server does: every pair, streamed and whole.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::TruncationStrategy;
use longhaul_gateway::{Gateway, GatewayOptions, GatewayReply, UpstreamOptions};
use longhaul_providers::connect::Kind;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{call, conversation, events, read, text_of, totals};
use crate::upstream::*;

const ALL: [Dialect; 3] = [Dialect::Chat, Dialect::Messages, Dialect::Responses];

/// The window that nobody states: 32,000 are assumed.
const REAL_WINDOW: u64 = 6_000;

/// Between two events that do not come in one piece.
const APART: Duration = Duration::from_millis(15);

/// How a client speaks, how its model's server does, and whether the client wants a stream.
fn cases() -> impl Iterator<Item = (Dialect, Dialect, bool)> {
    let pairs = ALL.into_iter().flat_map(|asks| ALL.map(|speaks| (asks, speaks)));
    pairs.flat_map(|(asks, speaks)| [true, false].map(|stream| (asks, speaks, stream)))
}

fn crossing() -> impl Iterator<Item = (Dialect, Dialect, bool)> {
    cases().filter(|(asks, speaks, _)| asks != speaks)
}

/// Before a server that speaks one dialect and says nothing of its window.
fn gateway_at(server: &ScriptedUpstream, speaks: Dialect) -> Gateway {
    let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    gateway(GatewayOptions { policy, ..waiting(vec![upstream_at(server, speaks)]) })
}

fn upstream_at(server: &ScriptedUpstream, speaks: Dialect) -> UpstreamOptions {
    let kind = match speaks {
        Dialect::Chat => Kind::OpenAiCompatible,
        Dialect::Messages => Kind::Anthropic,
        Dialect::Responses => Kind::OpenAi,
    };
    let mut upstream = UpstreamOptions::new("up", kind, server.url("/v1"));
    upstream.dialects = vec![speaks];
    upstream.finds_dialects = false;
    upstream
}

fn event(data: &Value) -> String {
    match data["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

/// An answer whose stream is these events; who asked for no stream gets it whole.
fn answers(body: &Value, events: Vec<String>, whole: Value) -> UpstreamAnswer {
    match body["stream"] == true {
        true => UpstreamAnswer::Events(events, APART),
        false => UpstreamAnswer::Json(200, whole),
    }
}

/// An answer with as much text and usage as is said, and why it ended in the words of its dialect.
fn whole(dialect: Dialect, text: &str, usage: Option<(u64, u64)>, is_cut: bool) -> Value {
    let mut answer = match dialect {
        Dialect::Chat => {
            let finish = if is_cut { "length" } else { "stop" };
            let message = json!({ "role": "assistant", "content": text });
            json!({ "id": "a", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [{ "index": 0, "message": message, "finish_reason": finish }] })
        }
        Dialect::Messages => {
            let content = if text.is_empty() { json!([]) } else { json!([{ "type": "text", "text": text }]) };
            let reason = if is_cut { "max_tokens" } else { "end_turn" };
            json!({ "type": "message", "id": "a", "role": "assistant", "model": "m", "content": content,
                "stop_reason": reason, "stop_sequence": null })
        }
        Dialect::Responses => {
            let part = json!({ "type": "output_text", "text": text, "annotations": [] });
            let item = json!({ "type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [part] });
            let output = if text.is_empty() { json!([]) } else { json!([item]) };
            let (status, details) = match is_cut {
                true => ("incomplete", json!({ "reason": "max_output_tokens" })),
                false => ("completed", Value::Null),
            };
            json!({ "id": "a", "object": "response", "status": status, "model": "m", "output": output,
                "incomplete_details": details })
        }
    };
    if let Some((input, output)) = usage {
        answer["usage"] = match dialect {
            Dialect::Chat => json!({ "prompt_tokens": input, "completion_tokens": output }),
            _ => json!({ "input_tokens": input, "output_tokens": output }),
        };
    }
    answer
}

/// An answer without a word that ends for its length, as a stream.
fn empty(dialect: Dialect, input: u64) -> Vec<String> {
    let whole = whole(dialect, "", Some((input, 20)), true);
    let chunk = |delta: Value, finish: Value| json!({ "id": "a", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    let all = match dialect {
        Dialect::Chat => vec![
            chunk(json!({ "role": "assistant", "content": "" }), Value::Null),
            chunk(json!({}), json!("length")),
            json!({ "id": "a", "choices": [], "usage": whole["usage"] }),
        ],
        Dialect::Messages => vec![
            begins(dialect, input),
            json!({ "type": "message_delta", "delta": { "stop_reason": "max_tokens" }, "usage": { "output_tokens": 20 } }),
            json!({ "type": "message_stop" }),
        ],
        Dialect::Responses => {
            vec![begins(dialect, input), json!({ "type": "response.incomplete", "response": whole })]
        }
    };
    all.iter().map(event).collect()
}

/// How a stream begins before the model has said anything.
fn begins(dialect: Dialect, input: u64) -> Value {
    match dialect {
        Dialect::Chat => {
            json!({ "id": "a", "choices": [{ "index": 0, "delta": { "role": "assistant", "content": "" }, "finish_reason": null }] })
        }
        Dialect::Messages => json!({ "type": "message_start", "message": {
            "type": "message", "id": "a", "role": "assistant", "model": "m", "content": [],
            "usage": { "input_tokens": input, "output_tokens": 1 } } }),
        Dialect::Responses => json!({ "type": "response.created", "response": {
            "id": "a", "object": "response", "status": "in_progress", "model": "m", "output": [] } }),
    }
}

/// The error of a request that is too long.
fn too_long(dialect: Dialect, input: u64) -> Value {
    let message = format!(
        "This model's maximum context length is {REAL_WINDOW} tokens. However, your messages resulted in {input} tokens."
    );
    let error =
        json!({ "message": message, "type": "invalid_request_error", "code": "context_length_exceeded" });
    match dialect {
        Dialect::Chat => json!({ "error": error }),
        Dialect::Messages => {
            let message = format!("prompt is too long: {input} tokens > {REAL_WINDOW} maximum");
            json!({ "type": "error", "error": { "type": "invalid_request_error", "message": message } })
        }
        Dialect::Responses => json!({ "type": "response.failed", "response": {
            "id": "a", "object": "response", "status": "failed", "model": "m", "output": [], "error": error } }),
    }
}

/// What a request has, a token a word.
fn size(body: &Value) -> u64 {
    body.to_string().split(' ').count() as u64
}

/// The text of a reply, and what is said beside it: the usage and our totals.
async fn said_in(asks: Dialect, stream: bool, reply: GatewayReply) -> (String, Value, Value) {
    let out = body(reply).await;
    if !stream {
        let answer: Value = serde_json::from_slice(&out).unwrap();
        let text = match asks {
            Dialect::Chat => {
                answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
            }
            Dialect::Messages => text_of(&answer),
            Dialect::Responses => text_of(&answer["output"][0]),
        };
        return (text, answer["usage"].clone(), answer["x_longhaul"].clone());
    }
    let (seen, all) = read(asks, &out);
    assert_eq!(seen.error, None, "{asks:?}");
    let mut usage = all.iter().rev().map(|event| match asks {
        Dialect::Responses => event["response"]["usage"].clone(),
        _ => event["usage"].clone(),
    });
    let usage = usage.find(|usage| !usage.is_null()).unwrap_or_default();
    (seen.text, usage, totals(&all))
}

#[tokio::test]
async fn a_refusal_for_length_after_the_beginning_of_a_stream_is_shortened_for() {
    for (asks, speaks, stream) in cases() {
        let server = start_upstream(move |_, body| match size(body) {
            input if input > REAL_WINDOW && body["stream"] == true => {
                let refused = [begins(speaks, input), too_long(speaks, input)];
                UpstreamAnswer::Events(refused.iter().map(event).collect(), APART)
            }
            input if input > REAL_WINDOW => UpstreamAnswer::Json(400, too_long(speaks, input)),
            input => answers(
                body,
                events(speaks, "a", "fine and well", (input, 20)),
                whole(speaks, "fine and well", Some((input, 20)), false),
            ),
        })
        .await;
        let reply = gateway_at(&server, speaks).answer(call(asks, &conversation(56), stream)).await;
        let case = format!("{asks:?} before {speaks:?}, stream: {stream}");
        assert_eq!(reply.status, StatusCode::OK, "{case}");
        assert_eq!(header(&reply, "x-longhaul-window"), "6000 (learned)", "{case}");
        let (text, ..) = said_in(asks, stream, reply).await;
        assert_eq!((text.as_str(), server.received().len()), ("fine and well", 2), "{case}");
    }
}

#[tokio::test]
async fn an_empty_answer_to_more_than_the_window_holds_is_shortened_for() {
    for (asks, speaks, stream) in cases() {
        let server = start_upstream(move |_, body| match size(body) {
            input if input > REAL_WINDOW => {
                answers(body, empty(speaks, input), whole(speaks, "", Some((input, 20)), true))
            }
            input => answers(
                body,
                events(speaks, "a", "fine and well", (input, 20)),
                whole(speaks, "fine and well", Some((input, 20)), false),
            ),
        })
        .await;
        let reply = gateway_at(&server, speaks).answer(call(asks, &conversation(56), stream)).await;
        let case = format!("{asks:?} before {speaks:?}, stream: {stream}");
        assert_eq!(reply.status, StatusCode::OK, "{case}");
        let (text, _, total) = said_in(asks, stream, reply).await;
        assert_eq!((text.as_str(), server.received().len()), ("fine and well", 2), "{case}");
        assert_eq!(total["calls"], 2, "{case}: {total}");
        assert!(total["billed"]["input_tokens"].as_u64() > Some(REAL_WINDOW), "{case}: {total}");
    }
}

/// An answer that is a picture, sound or a search and has no word.
fn wordless(dialect: Dialect, input: u64) -> (Vec<String>, Value) {
    let mut answer = whole(dialect, "", Some((input, 20)), false);
    let mut events = vec![begins(dialect, input)];
    match dialect {
        Dialect::Chat => {
            let image =
                json!([{ "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } }]);
            answer["choices"][0]["message"]["images"] = image.clone();
            let chunk = |delta: Value, finish: Value| json!({ "id": "a", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
            events.push(chunk(json!({ "images": image }), Value::Null));
            events.push(chunk(json!({}), json!("stop")));
            events.push(json!({ "id": "a", "choices": [], "usage": answer["usage"] }));
        }
        Dialect::Messages => {
            let block = json!({ "type": "web_search_tool_result", "tool_use_id": "t", "content": [] });
            answer["content"] = json!([block]);
            events.push(json!({ "type": "content_block_start", "index": 0, "content_block": block }));
            events.push(json!({ "type": "content_block_stop", "index": 0 }));
            events.push(json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 20 } }));
            events.push(json!({ "type": "message_stop" }));
        }
        Dialect::Responses => {
            let item = json!({ "type": "image_generation_call", "id": "i", "status": "completed", "result": "AAAA" });
            answer["output"] = json!([item]);
            events.push(json!({ "type": "response.output_item.added", "output_index": 0, "item": item }));
            events.push(json!({ "type": "response.output_item.done", "output_index": 0, "item": item }));
            events.push(json!({ "type": "response.completed", "response": answer }));
        }
    }
    (events.iter().map(event).collect(), answer)
}

#[tokio::test]
async fn an_answer_without_a_word_that_is_something_else_is_the_clients() {
    for (speaks, stream) in ALL.into_iter().flat_map(|speaks| [(speaks, true), (speaks, false)]) {
        // A long request: an empty answer to it is tried again.
        for (is_something, calls) in [(true, 1), (false, 2)] {
            let server = start_upstream(move |number, body| {
                let input = size(body);
                let (events, answer) = match is_something || number > 0 {
                    true => wordless(speaks, input),
                    false => (ended_empty(speaks, input), whole(speaks, "", Some((input, 20)), false)),
                };
                answers(body, events, answer)
            })
            .await;
            let reply = gateway_at(&server, speaks).answer(call(speaks, &conversation(56), stream)).await;
            let case = format!("{speaks:?}, stream: {stream}, something: {is_something}");
            assert_eq!(reply.status, StatusCode::OK, "{case}");
            let said = String::from_utf8(body(reply).await.to_vec()).unwrap();
            assert!(said.contains("AAAA") || said.contains("web_search_tool_result"), "{case}: {said}");
            assert_eq!(server.received().len(), calls, "{case}");
        }
    }
}

/// An answer without anything that ends as if it were done.
fn ended_empty(dialect: Dialect, input: u64) -> Vec<String> {
    let done = whole(dialect, "", Some((input, 20)), false);
    let all = match dialect {
        Dialect::Chat => vec![
            begins(dialect, input),
            json!({ "id": "a", "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }),
            json!({ "id": "a", "choices": [], "usage": done["usage"] }),
        ],
        Dialect::Messages => vec![
            begins(dialect, input),
            json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 20 } }),
            json!({ "type": "message_stop" }),
        ],
        Dialect::Responses => {
            vec![begins(dialect, input), json!({ "type": "response.completed", "response": done })]
        }
    };
    all.iter().map(event).collect()
}

fn packed(name: &str, text: &str) -> Bytes {
    let packed = match name {
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish()
        }
        _ => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish()
        }
    };
    packed.unwrap().into()
}

fn coded(status: u16, kind: &str, name: &str, body: Bytes) -> UpstreamAnswer {
    let headers = vec![("content-type", kind.to_owned()), ("content-encoding", name.to_owned())];
    UpstreamAnswer::Head(status, headers, body)
}

#[tokio::test]
async fn an_answer_that_comes_coded_is_read_across_dialects() {
    for (asks, speaks, stream) in crossing() {
        for name in ["gzip", "deflate"] {
            // Servers that do not stream answer whole.
            for streams in [true, false] {
                let (kind, text) = match streams {
                    true => ("text/event-stream", events(speaks, "a", "fine and well", (90, 3)).concat()),
                    false => {
                        ("application/json", whole(speaks, "fine and well", Some((90, 3)), false).to_string())
                    }
                };
                let server = start_upstream(move |_, _| coded(200, kind, name, packed(name, &text))).await;
                let reply = gateway_at(&server, speaks).answer(call(asks, &[user("hi")], stream)).await;
                assert_eq!(reply.status, StatusCode::OK, "{asks:?} before {speaks:?}: {name}");
                assert_eq!(header(&reply, "content-encoding"), "");
                assert_eq!(said_in(asks, stream, reply).await.0, "fine and well", "{asks:?} {speaks:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_coding_that_nobody_can_read_is_named_and_not_repeated() {
    for (asks, speaks, stream) in crossing() {
        for status in [200, 400] {
            let server = start_upstream(move |_, _| {
                coded(status, "application/json", "br", Bytes::from_static(b"\x1f\x8b\x00\xffrubbish"))
            })
            .await;
            let reply = gateway_at(&server, speaks).answer(call(asks, &[user("hi")], stream)).await;
            let expected = if status == 200 { StatusCode::BAD_GATEWAY } else { StatusCode::BAD_REQUEST };
            assert_eq!(reply.status, expected, "{asks:?} before {speaks:?}");
            let said = String::from_utf8(body(reply).await.to_vec()).unwrap();
            assert!(said.contains("coded as `br`") && !said.contains("rubbish"), "{said}");
            assert_eq!(server.received().len(), 1, "it would be so again");
        }
    }
}

/// A stream as of a server that reports no usage, or not what it has read.
fn without_usage(dialect: Dialect) -> Vec<String> {
    let all = events(dialect, "a", "fine and well", (0, 0));
    let bare = |event: &String| {
        let (head, data) = event.split_once("data: ").unwrap();
        let Ok(mut data) = serde_json::from_str::<Value>(data.trim()) else { return Some(event.clone()) };
        if data["choices"] == json!([]) {
            return None;
        }
        for at in ["/message", "/response", ""] {
            if let Some(Value::Object(object)) = data.pointer_mut(at) {
                object.remove("usage");
            }
        }
        // As Messages has it even so.
        if dialect == Dialect::Messages && data["type"] == "message_delta" {
            data["usage"] = json!({ "output_tokens": 20 });
        }
        Some(format!("{head}data: {data}\n\n"))
    };
    all.iter().filter_map(bare).collect()
}

#[tokio::test]
async fn usage_that_was_not_reported_is_estimated_where_it_must_be_and_else_left_out() {
    for (asks, speaks, stream) in crossing() {
        let server =
            start_upstream(move |_, _| UpstreamAnswer::Events(without_usage(speaks), Duration::ZERO)).await;
        let gateway = gateway_at(&server, speaks);
        let mut asked: Value = serde_json::from_slice(&call(asks, &conversation(4), stream).body).unwrap();
        if asks == Dialect::Chat {
            asked["stream_options"] = json!({ "include_usage": true });
        }
        let asked = longhaul_gateway::ClientRequest { dialect: asks, ..chat(asked.to_string()) };
        let (text, usage, _) = said_in(asks, stream, gateway.answer(asked).await).await;
        assert_eq!(text, "fine and well");
        let case = format!("{asks:?} before {speaks:?}, stream: {stream}: {usage}");
        match asks {
            Dialect::Messages => {
                assert!((400..900).contains(&usage["input_tokens"].as_u64().unwrap()), "{case}");
                assert!((2..30).contains(&usage["output_tokens"].as_u64().unwrap()), "{case}");
            }
            Dialect::Chat | Dialect::Responses => assert_eq!(usage, Value::Null, "{case}"),
        }
    }
}

#[tokio::test]
async fn what_was_not_reported_is_billed_by_estimate() {
    for (asks, speaks, stream) in crossing() {
        let server = start_upstream(move |_, body| match size(body) {
            input if input > REAL_WINDOW => UpstreamAnswer::Json(400, too_long(Dialect::Chat, input)),
            _ => UpstreamAnswer::Events(without_usage(speaks), Duration::ZERO),
        })
        .await;
        let reply = gateway_at(&server, speaks).answer(call(asks, &conversation(56), stream)).await;
        let (text, _, total) = said_in(asks, stream, reply).await;
        let case = format!("{asks:?} before {speaks:?}, stream: {stream}: {total}");
        assert_eq!((text.as_str(), &total["billed"]["estimated"]), ("fine and well", &json!(true)), "{case}");
        assert_eq!(total["billed"]["input_tokens"], total["tokens_after"], "{case}");
        assert!(total["billed"]["output_tokens"].as_u64() > Some(0), "{case}");
    }
}

#[tokio::test]
async fn a_server_that_only_keeps_its_line_alive_is_given_up() {
    let ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
    let signs = [("", "\n"), ("", ": here\n\n"), (": here\n\n", ping)];
    let all = cases().flat_map(|case| signs.map(|(begun, life)| (case, begun, life)));
    let given_up = all.map(async |((asks, speaks, stream), begun, life)| {
        let server = start_upstream(move |_, _| {
            UpstreamAnswer::Endless(begun.to_owned(), Bytes::from_static(life.as_bytes()), APART)
        })
        .await;
        let gateway = impatient(&server, speaks, Duration::from_millis(400));
        let asked = async { body(gateway.answer(call(asks, &[user("hi")], stream)).await).await };
        let out = tokio::time::timeout(Duration::from_secs(20), asked).await;
        let out = out.unwrap_or_else(|_| panic!("{asks:?} to {speaks:?}, {stream}, {life:?}"));
        let out = String::from_utf8(out.to_vec()).unwrap();
        let is_timeout = out.contains("upstream_timeout") || out.contains("timeout_error");
        assert!(is_timeout, "{asks:?} to {speaks:?}, {stream}, {life:?}: {out}");
    });
    futures_util::future::join_all(given_up).await;
}

/// Gives an upstream up that says nothing for so long.
fn impatient(server: &ScriptedUpstream, speaks: Dialect, limit: Duration) -> Gateway {
    let mut upstream = upstream_at(server, speaks);
    let timeouts = &mut upstream.endpoint.timeouts;
    (timeouts.first_byte, timeouts.idle, timeouts.signs_of_life) = (Some(limit), limit, Some(limit));
    gateway(GatewayOptions { attempts: 1, ..waiting(vec![upstream]) })
}

#[tokio::test]
async fn a_model_that_thinks_unseen_is_waited_for() {
    let waited = ALL.map(async |asks| {
        let script = of_messages_thinking();
        let server = start_upstream(move |_, _| UpstreamAnswer::Events(script.clone(), APART)).await;
        // Shorter than the reasoning, and far longer than a pause between two events on a busy machine.
        let gateway = impatient(&server, Dialect::Messages, Duration::from_secs(2));
        let out = body(gateway.answer(call(asks, &[user("hi")], true)).await).await;
        assert_eq!(read(asks, &out).0.text, "done", "{asks:?}");
    });
    futures_util::future::join_all(waited).await;
}

/// An answer whose reasoning takes 2.4 s and is not shown.
fn of_messages_thinking() -> Vec<String> {
    let ping = json!({ "type": "ping" });
    let begin = |index: u64, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let stop = |index: u64| json!({ "type": "content_block_stop", "index": index });
    let mut all = vec![
        begins(Dialect::Messages, 9),
        begin(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
    ];
    all.extend(vec![ping; 160]);
    all.extend([
        stop(0),
        begin(1, json!({ "type": "text", "text": "done" })),
        stop(1),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 9 } }),
        json!({ "type": "message_stop" }),
    ]);
    all.iter().map(event).collect()
}
