//! The first request of a conversation that fits in any case is sent before it is read.

use std::time::Duration;

use axum::http::StatusCode;
use longhaul_gateway::{Gateway, GatewayReply};
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::long_answers::{gateway_of, model_with, numbered_lines};
use crate::model::{call, read, upstream as speaking};
use crate::shortening::{is_summary_request, pruned};
use crate::upstream::*;

/// A conversation of about 24 KB.
fn long_conversation(seed: usize) -> Vec<Value> {
    (0..8)
        .map(|at| match at % 2 {
            0 => user(format!("conversation {seed}: {}", words(500, at))),
            _ => assistant(words(500, at)),
        })
        .chain([user("go on")])
        .collect()
}

fn was_unread(reply: &GatewayReply) -> bool {
    header(reply, "x-longhaul-reason").contains("counted after it was sent")
        && header(reply, "x-longhaul-tokens-before").is_empty()
}

async fn ask(gateway: &Gateway, messages: &[Value], stream: bool) -> GatewayReply {
    gateway.answer(chat(request(messages, stream))).await
}

#[tokio::test]
async fn it_is_counted_after_it_was_sent() {
    for stream in [false, true] {
        let server = start_upstream(move |_, _| match stream {
            true => UpstreamAnswer::Events(streamed("a", "fine", Some((4_444, 5))), Duration::ZERO),
            false => UpstreamAnswer::Json(200, said("fine", 4_444, 5)),
        })
        .await;
        let gateway = server.gateway(200_000);
        let mut messages = long_conversation(0);
        let body_sent = request(&messages, stream);
        let first = ask(&gateway, &messages, stream).await;
        assert_eq!((first.status, was_unread(&first)), (StatusCode::OK, true), "{:?}", first.headers);
        let text = String::from_utf8(body(first).await.to_vec()).unwrap();
        assert!(text.contains("fine"), "{text}");
        assert_eq!(server.received()[0].body, body_sent, "the client's bytes");
        gateway.settle().await;

        // The server's count of the first request is known when its answer comes back.
        messages.extend([assistant("fine"), user("and now?")]);
        let second = ask(&gateway, &messages, stream).await;
        let before: u64 = header(&second, "x-longhaul-tokens-before").parse().unwrap();
        assert!((4_444..4_500).contains(&before), "stream {stream}: {before}");
    }
}

#[tokio::test]
async fn a_refusal_for_length_is_answered_as_for_every_other_request() {
    let server = start_upstream(|number, body| match (is_summary_request(body), number) {
        (true, _) => pruned(),
        (false, 0) => UpstreamAnswer::Json(
            400,
            json!({ "error": { "message": "This model's maximum context length is 3000 tokens. However, your messages \
                resulted in 4444 tokens.", "code": "context_length_exceeded" } }),
        ),
        (false, _) => UpstreamAnswer::Json(200, said("fine", 1_000, 5)),
    })
    .await;
    let gateway = server.gateway(200_000);
    let reply = ask(&gateway, &long_conversation(0), false).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "compacted"));
    assert!(!header(&reply, "x-longhaul-tokens-before").is_empty());
}

#[tokio::test]
async fn an_answer_that_was_written_from_too_little_is_judged_by_the_count() {
    // The server has read 300 of about 4,000 tokens, or reports nothing, or says nothing.
    for answer in [said("fine", 300, 5), said("fine", 0, 0), said("", 4_444, 0)] {
        let server = start_upstream(move |_, _| UpstreamAnswer::Json(200, answer.clone())).await;
        let reply = ask(&server.gateway(200_000), &long_conversation(0), false).await;
        let before: u64 = header(&reply, "x-longhaul-tokens-before").parse().unwrap();
        assert!(before > 3_000 && !was_unread(&reply), "{:?}", reply.headers);
    }
}

#[tokio::test]
async fn other_requests_are_read_first() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("fine", 4_444, 5))).await;
    let short = vec![user("hello")];
    let picture = |at: usize| {
        let part = json!({ "type": "image_url", "image_url": { "url": "https://example.com/a.png" } });
        let mut messages = long_conversation(at);
        messages.push(json!({ "role": "user", "content": [part] }));
        messages
    };
    // Too near the trigger for its length, too short, with a picture; and where nobody states the window.
    for (window, messages) in
        [(20_000, long_conversation(1)), (200_000, short), (200_000, picture(2)), (0, long_conversation(3))]
    {
        let gateway = if window == 0 { server.unstated_gateway() } else { server.gateway(window) };
        let reply = ask(&gateway, &messages, false).await;
        assert!(!was_unread(&reply), "{window}: {:?}", reply.headers);
        assert!(!header(&reply, "x-longhaul-tokens-before").is_empty(), "{window}");
    }
    // A conversation that is known is read from its end on, which costs nothing.
    let gateway = server.gateway(200_000);
    let messages = long_conversation(4);
    assert!(was_unread(&ask(&gateway, &messages, false).await));
    gateway.settle().await;
    assert!(!was_unread(&ask(&gateway, &messages, false).await));
}

#[tokio::test]
async fn its_answer_may_be_longer_than_the_window() {
    let window = 24_000;
    let count = |text: &str| text.len().div_ceil(4);
    let text = numbered_lines(2 * window * 4 / 32);
    for stream in [true, false] {
        let server = model_with(window, Dialect::Chat, text.clone(), count, true).await;
        let gateway = gateway_of(speaking(&server, Dialect::Chat, window as u64, true), true);
        let mut messages = vec![user(words(2_700, 0))];
        messages.extend([assistant("Yes."), user("write the list")]);
        let reply = gateway.answer(call(Dialect::Chat, &messages, stream)).await;
        let is_early = was_unread(&reply);
        let out = body(reply).await;
        match stream {
            true => {
                assert!(is_early);
                assert_eq!(read(Dialect::Chat, &out).0.text, text);
            }
            false => {
                let answer: Value = serde_json::from_slice(&out).unwrap();
                assert_eq!(answer["choices"][0]["message"]["content"], text.as_str());
            }
        }
        assert!(server.received().len() > 2, "it had to go on");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_nothing_behind() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Events(streamed("a", "fine", None), Duration::from_millis(50)))
            .await;
    let gateway = server.gateway(200_000);
    for seed in 0..20 {
        let reply = ask(&gateway, &long_conversation(seed), true).await;
        assert!(was_unread(&reply));
        drop(reply);
    }
    // The gateway still answers, and the same conversations are read like every other.
    let reply = ask(&gateway, &long_conversation(0), true).await;
    assert_eq!(reply.status, StatusCode::OK);
}
