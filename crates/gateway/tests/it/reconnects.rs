//! An upstream that breaks off in its answer: the answer goes on in another stream, or fails clearly.

use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::attempt::RetryPolicy;
use longhaul_core::message::ModelStopReason;
use longhaul_gateway::{Gateway, GatewayOptions, MidstreamMode, UpstreamOptions};
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{begun, call, events, numbered, read, totals, upstream as speaking};
use crate::recall::{had, sent, whole};
use crate::upstream::*;

const DIALECTS: [Dialect; 3] = [Dialect::Chat, Dialect::Messages, Dialect::Responses];

/// A policy that does not make a test wait.
const QUICK: RetryPolicy = RetryPolicy { patience_ms: Some(2_000), max_delay_ms: 10, stream_attempts: 5 };

fn gateway_with(upstream: UpstreamOptions, retry: RetryPolicy) -> Gateway {
    gateway(GatewayOptions { retry, attempts: 1, ..waiting(vec![upstream]) })
}

/// The events of an answer up to the middle of its text.
fn broken(dialect: Dialect, id: &str, rest: &str, kept: usize) -> UpstreamAnswer {
    let mut all = events(dialect, id, rest, (40, 300));
    all.truncate(kept);
    UpstreamAnswer::Breaks(all)
}

/// A model that goes on with what it is sent, and breaks off in its first `breaks` answers.
async fn breaking(dialect: Dialect, text: String, breaks: usize) -> ScriptedUpstream {
    start_upstream(move |number, body| {
        let rest =
            text.strip_prefix(&begun(dialect, body).0).expect("it goes on where it broke off").to_owned();
        match number < breaks {
            true => broken(dialect, &format!("id{number}"), &rest, 12),
            false => UpstreamAnswer::Events(
                events(dialect, &format!("id{number}"), rest.trim_end(), (40, 300)),
                Duration::ZERO,
            ),
        }
    })
    .await
}

#[tokio::test]
async fn an_answer_that_breaks_off_goes_on_where_it_was() {
    for dialect in DIALECTS {
        for stream in [true, false] {
            let text = numbered(200);
            let server = breaking(dialect, text.clone(), 3).await;
            let gateway = gateway_with(speaking(&server, dialect, 8_000, true), QUICK);
            let mut asked = call(dialect, &[user("tell me all")], stream);
            if !stream {
                // Whoever wants it whole is sent it in one piece unless it may outgrow the window.
                let mut fields: Value = serde_json::from_slice(&asked.body).unwrap();
                let name = if dialect == Dialect::Responses { "max_output_tokens" } else { "max_tokens" };
                fields[name] = json!(7_900);
                asked.body = fields.to_string().into();
            }
            let reply = gateway.answer(asked).await;
            let (status, out) = (reply.status, body(reply).await);
            let case = format!("{dialect:?}, stream: {stream}: {}", String::from_utf8_lossy(&out));
            assert_eq!((status, server.received().len()), (StatusCode::OK, 4), "{case}");
            let prefilled =
                server.received().iter().filter(|sent| !begun(dialect, &sent.json()).0.is_empty()).count();
            assert_eq!(prefilled, 3, "{case}");
            if stream {
                let (seen, events) = read(dialect, &out);
                assert!(
                    seen.text == text && seen.finish == Some(ModelStopReason::Stop) && seen.error.is_none(),
                    "{case}"
                );
                let total = totals(&events);
                assert_eq!((&total["calls"], &total["restarts"]), (&json!(4), &json!(0)), "{case}");
            } else {
                assert!(case.contains(&text), "{case}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_on_another_wire_goes_on_too() {
    for (of_client, of_upstream) in [
        (Dialect::Chat, Dialect::Messages),
        (Dialect::Messages, Dialect::Chat),
        (Dialect::Responses, Dialect::Chat),
    ] {
        for stream in [true, false] {
            let text = numbered(200);
            let server = breaking(of_upstream, text.clone(), 2).await;
            let gateway = gateway_with(crate::across::upstream(&server, of_upstream, 8_000, true), QUICK);
            let reply = gateway.answer(call(of_client, &[user("tell me all")], stream)).await;
            let had = had(of_client, reply, stream).await;
            let case = format!("{of_client:?}, stream: {stream}: {}", had.all);
            assert!(had.text == text && had.finish == Some(ModelStopReason::Stop), "{case}");
            let sent = sent(&server);
            let prefilled = sent.iter().filter(|sent| !begun(of_upstream, sent).0.is_empty()).count();
            assert_eq!((sent.len(), prefilled), (3, 2), "{case}");
        }
    }
}

/// An answer in one piece whose server failed behind `text`. Without an error it only lacks its reason to stop.
fn failed(dialect: Dialect, text: &str, says_error: bool) -> Value {
    let error = json!({ "code": "server_error", "message": "the engine is gone" });
    let mut answer = match dialect {
        Dialect::Chat => json!({ "id": "a", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{ "index": 0, "message": { "role": "assistant", "content": text }, "finish_reason": "error" }] }),
        Dialect::Messages => json!({ "type": "message", "id": "a", "role": "assistant", "model": "m",
            "content": [{ "type": "text", "text": text }], "stop_reason": null, "stop_sequence": null,
            "usage": { "input_tokens": 40, "output_tokens": 9 } }),
        Dialect::Responses => {
            let part = json!({ "type": "output_text", "text": text, "annotations": [] });
            json!({ "id": "a", "object": "response", "status": "failed", "model": "m", "output": [
                { "type": "message", "id": "i", "role": "assistant", "status": "incomplete", "content": [part] }] })
        }
    };
    if says_error {
        answer["error"] = error;
    }
    answer
}

#[tokio::test]
async fn an_answer_in_one_piece_whose_server_failed_goes_on_or_is_asked_for_again() {
    let text = numbered(200);
    let half = &text[..text[..600].rfind(' ').unwrap()];
    for dialect in DIALECTS {
        for (prefill, begun_text, says_error) in [
            (true, half, true),
            (true, half, false),
            (false, half, true),
            (true, "", true),
            (false, "", false),
        ] {
            let (said, first) = (text.clone(), failed(dialect, begun_text, says_error));
            let server = start_upstream(move |number, body| {
                let rest = said.strip_prefix(&begun(dialect, body).0).expect("it goes on where it broke off");
                let events = events(dialect, &format!("id{number}"), rest, (40, 300));
                match (number, body["stream"] == true) {
                    (0, _) => UpstreamAnswer::Json(200, first.clone()),
                    (_, true) => UpstreamAnswer::Events(events, Duration::ZERO),
                    (_, false) => whole(dialect, events),
                }
            })
            .await;
            let gateway = gateway_with(speaking(&server, dialect, 8_000, prefill), QUICK);
            let mut asked = call(dialect, &[user("tell me all")], false);
            if dialect == Dialect::Messages {
                // With a limit beyond its window it would be asked for a stream.
                let mut fields: Value = serde_json::from_slice(&asked.body).unwrap();
                fields["max_tokens"] = json!(4_000);
                asked.body = fields.to_string().into();
            }
            let had = had(dialect, gateway.answer(asked).await, false).await;
            let case = format!("{dialect:?}, prefill: {prefill}, {says_error}, {begun_text:.9}: {}", had.all);
            assert!(had.text == text && had.finish == Some(ModelStopReason::Stop), "{case}");
            assert!(!had.all.contains("the engine is gone"), "{case}");
            let sent = sent(&server);
            assert_eq!(sent.len(), 2, "{case}");
            let goes_on = prefill && !begun_text.is_empty();
            assert_eq!(!begun(dialect, &sent[1]).0.is_empty(), goes_on, "{case}");
        }
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_that_fails_each_time_is_an_error() {
    for dialect in DIALECTS {
        let server =
            start_upstream(move |_, _| UpstreamAnswer::Json(200, failed(dialect, "half", true))).await;
        let retry = RetryPolicy { stream_attempts: 2, ..QUICK };
        let gateway = gateway_with(speaking(&server, dialect, 8_000, false), retry);
        let reply = gateway.answer(call(dialect, &[user("tell me all")], false)).await;
        assert_eq!(reply.status, StatusCode::BAD_GATEWAY, "{dialect:?}");
        assert!(body_json(reply).await.to_string().contains("the engine is gone"), "{dialect:?}");
        assert_eq!(server.received().len(), 3, "{dialect:?}");
    }
}

#[tokio::test]
async fn a_server_that_restarts_in_the_middle_costs_a_pause() {
    let text = numbered(200);
    let said = text.clone();
    let server = start_upstream(move |number, body| match number {
        0 => broken(Dialect::Chat, "a", &said, 12),
        1..=3 => UpstreamAnswer::Json(503, json!({ "error": { "message": "Loading model", "code": 503 } })),
        _ => {
            let rest = said.strip_prefix(&begun(Dialect::Chat, body).0).unwrap();
            UpstreamAnswer::Events(streamed("b", rest, Some((40, 300))), Duration::ZERO)
        }
    })
    .await;
    let gateway = gateway_with(speaking(&server, Dialect::Chat, 8_000, true), QUICK);
    let out = body(gateway.answer(call(Dialect::Chat, &[user("tell me all")], true)).await).await;
    let (seen, _) = read(Dialect::Chat, &out);
    assert!(seen.text == text && seen.error.is_none(), "{}", String::from_utf8_lossy(&out));
    assert!(
        String::from_utf8_lossy(&out).contains(": the upstream broke off"),
        "the client is told why it waits"
    );
}

#[tokio::test]
async fn an_error_in_the_middle_that_may_pass_is_not_the_end() {
    let text = numbered(120);
    for (error, passes) in [
        (json!({ "message": "the engine is gone", "code": 500 }), true),
        (json!({ "message": "too many requests", "code": 429 }), true),
        (json!({ "message": "invalid api key", "code": 401 }), false),
    ] {
        let said = text.clone();
        let event = format!("data: {}\n\n", json!({ "error": error }));
        let server = start_upstream(move |number, body| {
            let rest = said.strip_prefix(&begun(Dialect::Chat, body).0).unwrap();
            let mut all = streamed("a", rest, Some((40, 300)));
            if number == 0 {
                all.truncate(8);
                all.push(event.clone());
            }
            UpstreamAnswer::Events(all, Duration::ZERO)
        })
        .await;
        let gateway = gateway_with(speaking(&server, Dialect::Chat, 8_000, true), QUICK);
        let out = body(gateway.answer(call(Dialect::Chat, &[user("tell me all")], true)).await).await;
        let (seen, _) = read(Dialect::Chat, &out);
        assert_eq!((seen.text == text, seen.error.is_none()), (passes, passes), "{error}");
        assert_eq!(server.received().len(), 1 + usize::from(passes), "{error}");
    }
}

#[tokio::test]
async fn what_breaks_before_its_first_word_is_asked_for_again() {
    for dialect in DIALECTS {
        // The first events have no text.
        for kept in 0..if dialect == Dialect::Chat { 2 } else { 3 } {
            for stream in [true, false] {
                let text = numbered(40);
                let said = text.clone();
                let server = start_upstream(move |number, _| match number {
                    0 => broken(dialect, "a", &said, kept),
                    _ => UpstreamAnswer::Events(events(dialect, "b", &said, (40, 60)), Duration::ZERO),
                })
                .await;
                let gateway = gateway_with(speaking(&server, dialect, 8_000, false), QUICK);
                let out = body(gateway.answer(call(dialect, &[user("tell me all")], stream)).await).await;
                let said = String::from_utf8_lossy(&out);
                let case = format!("{dialect:?}, {kept} events, stream: {stream}: {said}");
                match stream {
                    true => {
                        let (seen, _) = read(dialect, &out);
                        assert!(seen.text == text && seen.finish == Some(ModelStopReason::Stop), "{case}");
                    }
                    false => assert!(said.contains(&text), "{case}"),
                }
                assert_eq!(server.received().len(), 2, "{case}");
            }
        }
    }
}

#[tokio::test]
async fn what_cannot_go_on_fails_once_and_says_why() {
    let text = numbered(120);
    let off = MidstreamMode::Off;
    for (case, prefill, midstream, retry, requests) in [
        ("the model cannot continue", false, MidstreamMode::Exact, QUICK, 1),
        ("nobody wants it", true, off, QUICK, 1),
        ("no attempts", true, MidstreamMode::Exact, RetryPolicy { stream_attempts: 0, ..QUICK }, 1),
        ("it never ends", true, MidstreamMode::Exact, RetryPolicy { stream_attempts: 2, ..QUICK }, 3),
    ] {
        let server = breaking(Dialect::Chat, text.clone(), usize::MAX).await;
        let config = waiting(vec![speaking(&server, Dialect::Chat, 8_000, prefill)]);
        let gateway = gateway(GatewayOptions { retry, attempts: 1, midstream, ..config });
        let out = body(gateway.answer(call(Dialect::Chat, &[user("tell me all")], true)).await).await;
        let (seen, _) = read(Dialect::Chat, &out);
        let error = seen.error.unwrap_or_default();
        assert!(error.contains("broke off"), "{case}: {error}");
        assert!(text.starts_with(&seen.text) && !seen.text.is_empty(), "{case}: nothing is said twice");
        assert_eq!(server.received().len(), requests, "{case}");
    }
}

#[tokio::test]
async fn a_call_that_breaks_off_is_not_made_up() {
    let delta = |delta: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": null });
        format!("data: {}\n\n", json!({ "id": "a", "choices": [choice] }))
    };
    let function = json!({ "name": "write", "arguments": "{\"path\":" });
    let call_begun = json!([{ "index": 0, "id": "c1", "type": "function", "function": function }]);
    let events = vec![
        delta(json!({ "role": "assistant", "content": "I write it." })),
        delta(json!({ "tool_calls": call_begun })),
    ];
    let server = start_upstream(move |_, _| UpstreamAnswer::Breaks(events.clone())).await;
    let gateway = gateway_with(speaking(&server, Dialect::Chat, 8_000, true), QUICK);
    let out = body(gateway.answer(call(Dialect::Chat, &[user("write it")], true)).await).await;
    let (seen, _) = read(Dialect::Chat, &out);
    assert!(seen.error.is_some() && seen.finish.is_none(), "{}", String::from_utf8_lossy(&out));
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_server_that_refuses_to_go_on_ends_with_the_first_error() {
    let text = numbered(120);
    let server = start_upstream(move |number, _| match number {
        0 => broken(Dialect::Chat, "a", &text, 8),
        _ => {
            UpstreamAnswer::Json(400, json!({ "error": { "message": "assistant message must not be last" } }))
        }
    })
    .await;
    let gateway = gateway_with(speaking(&server, Dialect::Chat, 8_000, true), QUICK);
    let out = body(gateway.answer(call(Dialect::Chat, &[user("tell me all")], true)).await).await;
    let (seen, _) = read(Dialect::Chat, &out);
    assert!(seen.error.unwrap().contains("broke off") && seen.finish.is_none());
    assert_eq!(server.received().len(), 2);
}
