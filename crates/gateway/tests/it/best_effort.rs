//! Where a model cannot go on by itself it is asked to, and what it repeats is left out.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::message::ModelStopReason;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::TruncationStrategy;
use longhaul_gateway::{Gateway, GatewayOptions, GatewayReply, MidstreamMode};
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{
    begun, call, conversation, events, events_with_blanks_behind, numbered, read, rest, totals, upstream,
};
use crate::upstream::*;

const DIALECTS: [Dialect; 3] = [Dialect::Chat, Dialect::Messages, Dialect::Responses];

/// How the model goes on: what it says again, of what it had said.
type Again = fn(&str, usize) -> &str;

fn nothing(_: &str, _: usize) -> &str {
    ""
}

fn everything(said: &str, _: usize) -> &str {
    said
}

fn the_end(said: &str, at: usize) -> &str {
    &said[said.len().saturating_sub(at * 13 % 200)..]
}

/// A model that says `text`. Asked to go on it says something again, and without a blank if that is nothing.
async fn model(dialect: Dialect, text: String, again: Again) -> ScriptedUpstream {
    start_upstream(move |number, body| {
        let (said, asks) = begun(dialect, body);
        assert_eq!(asks, !said.is_empty(), "it is asked in words");
        let rest = rest(dialect, body, &text);
        let again = again(&said, number);
        let rest = if again.is_empty() { rest.trim_start() } else { rest };
        let events = events(dialect, &format!("id{number}"), &format!("{again}{rest}"), (300, 20));
        UpstreamAnswer::Events(events, Duration::ZERO)
    })
    .await
}

fn gateway_at(server: &ScriptedUpstream, dialect: Dialect, window: u64) -> Gateway {
    let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    let upstream = upstream(server, dialect, window, false);
    gateway(GatewayOptions { policy, midstream: MidstreamMode::BestEffort, ..waiting(vec![upstream]) })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_model_repeats_is_there_once_and_the_answer_is_called_approximate() {
    for dialect in DIALECTS {
        for again in [nothing as Again, everything, the_end] {
            for case in 0..12 {
                let text = numbered(500 + case * 31);
                let server = model(dialect, text.clone(), again).await;
                let gateway = gateway_at(&server, dialect, 1_300 + case as u64 * 29);
                let reply = gateway.answer(call(dialect, &conversation(6), true)).await;
                assert_eq!(reply.status, StatusCode::OK);
                assert_eq!(header(&reply, "x-longhaul-midstream"), "approximate");
                let (seen, events) = read(dialect, &body(reply).await);
                assert_eq!(
                    (seen.text, seen.finish),
                    (text, Some(ModelStopReason::Stop)),
                    "{dialect:?}, case {case}"
                );
                let total = totals(&events);
                assert!(total["restarts"].as_u64() > Some(0), "{total}");
                assert_eq!(total["approximate"], true, "{total}");
            }
        }
    }
}

/// What a model says that only repeats something of what it had said.
type Repetition = fn(&str) -> &str;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_only_repeats_adds_nothing_and_the_answer_ends_as_one_that_was_cut() {
    let repetitions: [(&str, Repetition); 5] = [
        ("the end", |said| said[said.len() - 200..].trim_end()),
        ("much of the end", |said| said[said.len() - 2_000..].trim()),
        ("all", |said| said.trim_end()),
        ("the beginning", |said| &said[..900]),
        ("a piece", |said| &said[700..1_400]),
    ];
    for dialect in DIALECTS {
        for (name, repetition) in repetitions {
            let text = numbered(500);
            let server = start_upstream(move |number, body| {
                let (said, _) = begun(dialect, body);
                let again = if said.is_empty() { text.clone() } else { repetition(&said).to_owned() };
                let events = events_with_blanks_behind(dialect, &format!("id{number}"), &again, (300, 20));
                UpstreamAnswer::Events(events, Duration::ZERO)
            })
            .await;
            for stream in [true, false] {
                let before = server.received().len();
                let gateway = gateway_at(&server, dialect, 1_300);
                let out = body(gateway.answer(call(dialect, &conversation(6), stream)).await).await;
                let sent: Vec<Value> =
                    server.received()[before..].iter().map(ReceivedRequest::json).collect();
                assert_eq!(sent.len(), 2, "it was stopped once");
                let said = begun(dialect, &sent[1]).0;
                assert!(said.len() > 2_400, "{}", said.len());
                if !stream {
                    let shown = String::from_utf8_lossy(&out);
                    assert_eq!(shown.matches(&said[said.len() - 100..]).count(), 1, "{dialect:?}, {name}");
                    continue;
                }
                let (seen, _) = read(dialect, &out);
                assert_eq!(seen.text.trim_end(), said.trim_end(), "{dialect:?}, {name}");
                assert_eq!(seen.finish, Some(ModelStopReason::Length), "{dialect:?}, {name}");
            }
        }
    }
}

#[tokio::test]
async fn a_whole_answer_is_labelled_too() {
    let text = numbered(500);
    let server = model(Dialect::Chat, text.clone(), the_end).await;
    let reply =
        gateway_at(&server, Dialect::Chat, 1_300).answer(call(Dialect::Chat, &conversation(6), false)).await;
    assert_eq!(header(&reply, "x-longhaul-midstream"), "approximate");
    let answer = body_json(reply).await;
    assert_eq!(answer["choices"][0]["message"]["content"], text);
    assert_eq!(answer["x_longhaul"]["approximate"], true);
}

#[tokio::test]
async fn exact_and_off_ask_nobody_in_words() {
    for midstream in [MidstreamMode::Exact, MidstreamMode::Off] {
        let server = model(Dialect::Chat, numbered(500), nothing).await;
        let config =
            GatewayOptions { midstream, ..waiting(vec![upstream(&server, Dialect::Chat, 1_300, false)]) };
        let reply = gateway(config).answer(call(Dialect::Chat, &conversation(2), true)).await;
        assert_eq!(header(&reply, "x-longhaul-midstream"), "");
        let (seen, _) = read(Dialect::Chat, &body(reply).await);
        assert_eq!((seen.text, server.received().len()), (numbered(500), 1));
    }
}

#[tokio::test]
async fn who_can_go_on_exactly_is_not_asked_in_words() {
    let text = numbered(500);
    let said = text.clone();
    let server = start_upstream(move |number, body| {
        let (begun, asks) = begun(Dialect::Chat, body);
        assert!(!asks);
        UpstreamAnswer::Events(
            streamed(&format!("id{number}"), said.strip_prefix(&begun).unwrap(), None),
            Duration::ZERO,
        )
    })
    .await;
    let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    let upstream = upstream(&server, Dialect::Chat, 1_300, true);
    let config = GatewayOptions { policy, midstream: MidstreamMode::BestEffort, ..waiting(vec![upstream]) };
    let reply = gateway(config).answer(call(Dialect::Chat, &conversation(6), true)).await;
    assert_eq!(header(&reply, "x-longhaul-midstream"), "");
    let (seen, events) = read(Dialect::Chat, &body(reply).await);
    assert_eq!(seen.text, text);
    assert!(totals(&events).get("approximate").is_none());
}

#[tokio::test]
async fn an_answer_that_must_be_json_is_not_begun_anew() {
    let server = model(Dialect::Chat, numbered(500), nothing).await;
    let mut asked: Value = serde_json::from_slice(&call(Dialect::Chat, &conversation(2), true).body).unwrap();
    asked["response_format"] = json!({ "type": "json_object" });
    let reply: GatewayReply = gateway_at(&server, Dialect::Chat, 1_300).answer(chat(asked.to_string())).await;
    assert_eq!(header(&reply, "x-longhaul-midstream"), "");
    let (seen, _) = read(Dialect::Chat, &body(reply).await);
    assert_eq!((seen.text, server.received().len()), (numbered(500), 1));
}
