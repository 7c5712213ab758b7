//! Answers that break off, say an error in their middle, or say things oddly: what the client has of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use longhaul_gateway::{GatewayOptions, UpstreamOptions};
use longhaul_providers::connect::Kind;
use longhaul_providers::http::Secret;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::upstream::*;

fn delta(delta: &Value) -> String {
    raw_delta(&delta.to_string())
}

fn raw_delta(delta: &str) -> String {
    format!(
        "data: {{\"id\":\"a\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n"
    )
}

fn role() -> String {
    delta(&json!({ "role": "assistant", "content": "" }))
}

fn end(reason: &str) -> String {
    let choice = json!({ "index": 0, "delta": {}, "finish_reason": reason });
    format!("data: {}\n\n", json!({ "id": "a", "choices": [choice] }))
}

const DONE: &str = "data: [DONE]\n\n";

fn failure(code: u16) -> String {
    format!("data: {}\n\n", json!({ "error": { "message": "the engine is gone", "code": code } }))
}

/// What a client that wants it whole has of these events.
async fn whole(events: &[String]) -> (StatusCode, Value) {
    let events = events.to_vec();
    let server = start_upstream(move |_, _| UpstreamAnswer::Events(events.clone(), Duration::ZERO)).await;
    let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], false))).await;
    (reply.status, body_json(reply).await)
}

#[tokio::test]
async fn an_error_in_the_middle_is_no_answer() {
    for (code, status) in [(500, 502), (429, 429), (401, 401)] {
        for begun in [vec![role()], vec![role(), delta(&json!({ "content": "half" }))]] {
            // Some servers close the stream properly even after an error.
            for last in [None, Some(DONE.to_owned())] {
                let events: Vec<String> = begun.iter().cloned().chain([failure(code)]).chain(last).collect();
                let (found, answer) = whole(&events).await;
                assert_eq!(found.as_u16(), status, "{answer}");
                assert_eq!(answer["error"]["message"], "the engine is gone", "{answer}");
                assert!(answer.get("choices").is_none(), "{answer}");
            }
        }
    }
}

#[tokio::test]
async fn an_error_of_which_no_client_would_read_is_told() {
    let said =
        "error: {\"code\":500,\"message\":\"the slot is gone\",\"type\":\"server_error\"}\n\n".to_owned();
    let events = vec![role(), delta(&json!({ "content": "half" })), said];
    let (status, answer) = whole(&events).await;
    assert_eq!((status, &answer["error"]["message"]), (StatusCode::BAD_GATEWAY, &json!("the slot is gone")));
    let server = start_upstream(move |_, _| UpstreamAnswer::Events(events.clone(), Duration::ZERO)).await;
    for prefill in [false, true] {
        let mut upstream = server.upstream(8_000);
        upstream.endpoint.declared.prefill = Some(prefill);
        let reply = gateway(waiting(vec![upstream])).answer(chat(request(&[user("hi")], true))).await;
        let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
        assert_eq!(out.matches("data: {\"error\":").count(), 1, "{out}");
        assert!(out.ends_with(DONE) && !out.contains("\"length\""), "{out}");
    }
}

#[tokio::test]
async fn a_key_that_an_error_in_a_stream_repeats_is_hidden() {
    let secret = "sk-of-the-upstream";
    let error = json!({ "error": { "message": format!("the key {secret} is refused"), "code": 401 } });
    let half = vec![role(), delta(&json!({ "content": "half" })), format!("data: {error}\n\n")];
    // As the first event the error takes another way through the gateway.
    let first = vec![format!("data: {error}\n\n")];
    for events in [half, first] {
        let server = start_upstream(move |_, _| UpstreamAnswer::Events(events.clone(), Duration::ZERO)).await;
        for prefill in [false, true] {
            let mut upstream = server.upstream(8_000);
            upstream.endpoint.declared.prefill = Some(prefill);
            upstream.endpoint.api_key = Some(Secret::new(secret));
            let reply = gateway(waiting(vec![upstream])).answer(chat(request(&[user("hi")], true))).await;
            let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
            assert!(out.contains("is refused") && !out.contains(secret), "{out}");
        }
    }
}

#[tokio::test]
async fn an_error_stands_by_itself_behind_an_event_without_its_end() {
    for tail in ["", "\n", "\r\n"] {
        let last = delta(&json!({ "content": "half" })).trim_end().to_owned() + tail;
        let events = vec![role(), last];
        let server = start_upstream(move |_, _| UpstreamAnswer::Events(events.clone(), Duration::ZERO)).await;
        let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], true))).await;
        let out = String::from_utf8(body(reply).await.to_vec()).unwrap().replace("\r\n", "\n");
        let data = |event: &str| event.trim().strip_prefix("data: ").map(str::to_owned);
        let said: Vec<String> = out.split("\n\n").filter_map(data).filter(|data| data != "[DONE]").collect();
        let read: Vec<Value> = said.iter().map(|data| serde_json::from_str(data).unwrap()).collect();
        assert_eq!(read[1]["choices"][0]["delta"]["content"], "half", "{out}");
        assert!(read[2]["error"]["message"].as_str().unwrap().contains("ended before"), "{out}");
    }
}

#[tokio::test]
async fn nothing_but_the_closing_event_is_no_answer() {
    for events in [vec![DONE.to_owned()], vec![role(), DONE.to_owned()], vec![role()]] {
        let (status, answer) = whole(&events).await;
        assert_eq!(status, StatusCode::BAD_GATEWAY, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("ended before its answer did"), "{message}");
    }
}

#[tokio::test]
async fn what_fails_before_its_first_word_is_asked_for_elsewhere() {
    let beginnings: [UpstreamAnswer; 5] = [
        UpstreamAnswer::Breaks(Vec::new()),
        UpstreamAnswer::Breaks(vec![role()]),
        UpstreamAnswer::Events(vec![role()], Duration::ZERO),
        UpstreamAnswer::Events(vec![failure(503)], Duration::ZERO),
        UpstreamAnswer::Events(vec![role(), failure(429), DONE.to_owned()], Duration::ZERO),
    ];
    for (number, does) in beginnings.into_iter().enumerate() {
        for stream in [true, false] {
            let (does, fine) = (again(&does), streamed("b", "all fine", None));
            let first = start_upstream(move |_, _| again(&does)).await;
            let second =
                start_upstream(move |_, _| UpstreamAnswer::Events(fine.clone(), Duration::ZERO)).await;
            let upstreams = vec![
                first.upstream(8_000),
                UpstreamOptions { name: "second".into(), ..second.upstream(8_000) },
            ];
            let gateway = gateway(waiting(upstreams));
            let reply = gateway.answer(chat(request(&[user("hi")], stream))).await;
            let name = header(&reply, "x-longhaul-upstream").to_owned();
            assert_eq!((reply.status, name.as_str()), (StatusCode::OK, "second"), "{number} {stream}");
            let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
            assert!(out.contains("fine") && !out.contains("error"), "{number}: {out}");
        }
    }
}

fn again(does: &UpstreamAnswer) -> UpstreamAnswer {
    match does {
        UpstreamAnswer::Breaks(events) => UpstreamAnswer::Breaks(events.clone()),
        UpstreamAnswer::Events(events, gap) => UpstreamAnswer::Events(events.clone(), *gap),
        _ => unreachable!("no other is used"),
    }
}

#[tokio::test]
async fn an_error_that_all_of_them_begin_with_is_the_last_ones() {
    let events = vec![failure(503), DONE.to_owned()];
    let script = events.clone();
    let server = start_upstream(move |_, _| UpstreamAnswer::Events(script.clone(), Duration::ZERO)).await;
    let upstreams =
        vec![server.upstream(8_000), UpstreamOptions { name: "second".into(), ..server.upstream(8_000) }];
    let reply = gateway(waiting(upstreams)).answer(chat(request(&[user("hi")], true))).await;
    assert_eq!(header(&reply, "x-longhaul-upstream"), "second");
    assert_eq!(body(reply).await, events.concat());
    assert_eq!(server.received().len(), 2);
}

/// An upstream that reads requests and hangs up after a while; how many it has read.
async fn hangs_up_after(wait: Duration) -> (UpstreamOptions, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let asked = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let mut read = vec![0; 1 << 16];
                let length = stream.read(&mut read).await.unwrap_or(0);
                // Questions about the server's kind are no requests to a model.
                if read[..length].starts_with(b"POST") {
                    counted.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(wait).await;
                }
                let _ = stream.shutdown().await;
            });
        }
    });
    let mut upstream = UpstreamOptions::new("rude", Kind::OpenAiCompatible, url);
    upstream.endpoint.declared.window = Some(8_000);
    (upstream.endpoint.declared.tools, upstream.endpoint.declared.images) = (Some(true), Some(true));
    (upstream, asked)
}

#[tokio::test]
async fn what_an_upstream_has_read_is_not_sent_again_and_again() {
    // What breaks at once may have been an old line: once more. What took its time has been worked on.
    for (wait, most) in [(Duration::ZERO, 2), (Duration::from_millis(1_200), 1)] {
        let (upstream, asked) = hangs_up_after(wait).await;
        let gateway = gateway(GatewayOptions { attempts: 5, ..waiting(vec![upstream]) });
        let reply = gateway.answer(chat(request(&[user("hi")], false))).await;
        assert_eq!(reply.status, StatusCode::BAD_GATEWAY);
        assert_eq!(asked.load(Ordering::SeqCst), most);
    }
}

#[tokio::test]
async fn an_answer_that_is_whole_does_not_wait_for_the_line_to_close() {
    let said = delta(&json!({ "content": "all of it" }));
    // Without the closing event, usage is waited for for 5 s. The line itself may be silent for 60 s.
    for (last, is_whole) in [(vec![end("stop"), DONE.to_owned()], true), (vec![end("stop")], false)] {
        let events: Vec<String> = [role(), said.clone()].into_iter().chain(last).collect();
        let server = start_upstream(move |_, _| UpstreamAnswer::Stalls(events.clone())).await;
        let mut upstream = server.upstream(8_000);
        // An idle time-out would end the wait too, so it is out of reach here.
        upstream.endpoint.timeouts.idle = Duration::from_secs(60);
        let gateway = gateway(waiting(vec![upstream]));
        for stream in [false, true] {
            let mut fastest = Duration::MAX;
            // A busy machine may take long once. What waits for the usage takes 5 s each time.
            for _ in 0..3 {
                let begun = Instant::now();
                let ask = async { body(gateway.answer(chat(request(&[user("hi")], stream))).await).await };
                let out = tokio::time::timeout(Duration::from_secs(40), ask).await.expect("it ends");
                fastest = fastest.min(begun.elapsed());
                let out = String::from_utf8(out.to_vec()).unwrap();
                assert!(out.contains("all of it") && !out.contains("error"), "{out}");
                if !is_whole || fastest < Duration::from_secs(4) {
                    break;
                }
            }
            assert!(!is_whole || fastest < Duration::from_secs(4), "{fastest:?}");
        }
    }
}

#[tokio::test]
async fn several_choices_end_with_the_last_of_them() {
    let other = |text: &str, finish: Value| {
        let choice = json!({ "index": 1, "delta": { "content": text }, "finish_reason": finish });
        format!("data: {}\n\n", json!({ "id": "a", "choices": [choice] }))
    };
    let begun = [role(), other("b", Value::Null), delta(&json!({ "content": "a" })), end("stop")];
    let events: Vec<String> = begun
        .into_iter()
        .chain([other("c", Value::Null), other("", json!("stop")), DONE.to_owned()])
        .collect();
    let script = events.clone();
    let server = start_upstream(move |_, _| {
        let (first, last) = script.split_at(4);
        let first = first.concat();
        UpstreamAnswer::Events(
            [first].into_iter().chain(last.iter().cloned()).collect(),
            Duration::from_millis(1_800),
        )
    })
    .await;
    let mut asked: Value = serde_json::from_slice(&request(&[user("hi")], true)).unwrap();
    asked["n"] = json!(2);
    let reply = server.gateway(8_000).answer(chat(asked.to_string())).await;
    assert_eq!(body(reply).await, events.concat());
}

#[tokio::test]
async fn characters_that_are_cut_in_two_are_whole_again() {
    let events = [
        role(),
        raw_delta(r#"{"content":"a\ud83d"}"#),
        raw_delta(r#"{"content":"\ude00b"}"#),
        raw_delta(r#"{"content":"\ud83d alone"}"#),
        end("stop"),
        DONE.to_owned(),
    ];
    let (status, answer) = whole(&events).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["choices"][0]["message"]["content"], "a\u{1F600}b\u{FFFD} alone", "{answer}");
}

#[tokio::test]
async fn bytes_that_are_no_text_lose_nothing_else() {
    let mut out = [role(), delta(&json!({ "content": "before " }))].concat().into_bytes();
    let mut broken = delta(&json!({ "content": "mid#dle" })).into_bytes();
    let at = broken.iter().position(|byte| *byte == b'#').unwrap();
    // This byte occurs in no valid UTF-8.
    broken[at] = 0xFF;
    out.extend(broken);
    out.extend([end("stop"), DONE.to_owned()].concat().bytes());
    let head = vec![("content-type", "text/event-stream".to_owned())];
    let server =
        start_upstream(move |_, _| UpstreamAnswer::Head(200, head.clone(), out.clone().into())).await;
    let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], false))).await;
    let answer = body_json(reply).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "before mid\u{FFFD}dle", "{answer}");
}

#[tokio::test]
async fn a_refusal_that_comes_late_is_shortened_for_where_the_client_wants_it_whole() {
    let refusal = json!({ "error": { "message": "prompt is too long: 9000 tokens > 4096 maximum",
        "code": "context_length_exceeded" } });
    let server = start_upstream(move |number, _| match number {
        // The refusal comes after the gateway has stopped waiting for a first error.
        0 => {
            UpstreamAnswer::Events(vec![role(), format!("data: {refusal}\n\n")], Duration::from_millis(1_400))
        }
        _ => UpstreamAnswer::Json(200, said("fine", 900, 1)),
    })
    .await;
    let mut upstream = server.upstream(8_000);
    upstream.endpoint.declared.window = Some(16_000);
    let messages: Vec<Value> = (0..12)
        .flat_map(|turn| [user(words(500, turn)), assistant(words(200, turn))])
        .chain([user("and now?")])
        .collect();
    let reply = gateway(waiting(vec![upstream])).answer(chat(request(&messages, false))).await;
    assert_eq!(reply.status, StatusCode::OK);
    let action = header(&reply, "x-longhaul-action").to_owned();
    assert!(["pruned", "compacted"].contains(&action.as_str()), "{action}");
    assert_eq!(body_json(reply).await["choices"][0]["message"]["content"], "fine");
}

#[tokio::test]
async fn names_in_parts_and_arguments_as_objects_are_read() {
    let call = |function: Value, id: Option<&str>| {
        let mut call = json!({ "index": 0, "function": function });
        if let Some(id) = id {
            call["id"] = json!(id);
        }
        delta(&json!({ "tool_calls": [call] }))
    };
    let object = json!({ "path": "a" });
    let cases = [
        vec![
            call(json!({ "name": "read" }), Some("c")),
            call(json!({ "name": "_file", "arguments": "" }), None),
            call(json!({ "arguments": "{\"path\":\"a\"}" }), None),
        ],
        vec![
            call(json!({ "name": "read_file", "arguments": "{\"path\":" }), Some("c")),
            call(json!({ "name": "read_file", "arguments": "\"a\"}" }), Some("c")),
        ],
        vec![call(json!({ "name": "read_file", "arguments": object }), Some("c"))],
    ];
    for events in cases {
        let all: Vec<String> =
            [role()].into_iter().chain(events).chain([end("tool_calls"), DONE.to_owned()]).collect();
        let (_, answer) = whole(&all).await;
        let call = &answer["choices"][0]["message"]["tool_calls"];
        assert_eq!(call.as_array().map(Vec::len), Some(1), "{answer}");
        assert_eq!((&call[0]["id"], &call[0]["function"]["name"]), (&json!("c"), &json!("read_file")));
        let arguments = call[0]["function"]["arguments"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(arguments).unwrap(), object);
        // The same for a client of another dialect, whose call is begun with its name.
        let server = start_upstream(move |_, _| UpstreamAnswer::Events(all.clone(), Duration::ZERO)).await;
        let asked = json!({ "model": "m", "max_tokens": 50, "stream": true, "messages": [user("hi")] });
        let call = longhaul_gateway::ClientRequest {
            dialect: longhaul_wire::edit::Dialect::Messages,
            ..chat(asked.to_string())
        };
        let out = String::from_utf8(body(server.gateway(8_000).answer(call).await).await.to_vec()).unwrap();
        assert_eq!(out.matches("\"name\":\"read_file\"").count(), 1, "{out}");
    }
}

#[tokio::test]
async fn very_many_fields_that_mean_nothing_elsewhere_are_read_once() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Events(streamed("a", "hi", None), Duration::ZERO)).await;
    let mut asked = json!({ "model": "m", "max_tokens": 50, "messages": [user("hi")] });
    // Quadratic work would exceed the time below many times over.
    for number in 0..200_000 {
        asked[format!("x{number}")] = json!(1);
    }
    let call = longhaul_gateway::ClientRequest {
        dialect: longhaul_wire::edit::Dialect::Messages,
        ..chat(asked.to_string())
    };
    let gateway = server.gateway(8_000);
    let reply = tokio::time::timeout(Duration::from_secs(60), gateway.answer(call)).await.expect("in time");
    assert_eq!(reply.status, StatusCode::OK);
    let ignored = header(&reply, "x-longhaul-ignored");
    assert!(ignored.ends_with("and 199960 more") && ignored.len() < 500, "{ignored}");
}
