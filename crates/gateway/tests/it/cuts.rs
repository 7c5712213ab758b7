//! Answers that are stopped at random places go on in the same stream: each dialect, through the whole gateway.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use longhaul_core::message::ModelStopReason;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::TruncationStrategy;
use longhaul_gateway::{Gateway, GatewayOptions};
use longhaul_wire::edit::{Dialect, PartialResponse};
use serde_json::Value;

use crate::model::{begun, call, conversation, events, read, rest, upstream};
use crate::upstream::*;

/// Answers of a dialect (of Chat fewer: its joints are cut 1,000 times elsewhere); nearly all are stopped at least once, each at another place.
const ANSWERS: u64 = 1_000;

/// How many come at the same time.
const AT_ONCE: usize = 8;

fn text(seed: u64) -> String {
    words(500 + usize::try_from(seed * 37 % 700).unwrap(), usize::try_from(seed).unwrap())
}

/// A model whose text follows from the newest typed message, and which goes on with what was begun.
async fn model(dialect: Dialect) -> ScriptedUpstream {
    start_upstream(move |number, body| {
        let seed = body["user"].as_str().unwrap().parse().unwrap();
        let (_, asks) = begun(dialect, body);
        assert!(!asks, "it goes on by itself");
        let text = text(seed);
        let rest = rest(dialect, body, &text);
        UpstreamAnswer::Events(events(dialect, &format!("id{number}"), rest, (300, 20)), Duration::ZERO)
    })
    .await
}

/// A gateway whose window is another for every answer, so that each is stopped elsewhere.
fn gateway(server: &ScriptedUpstream, dialect: Dialect, seed: u64) -> Gateway {
    let window = 1_300 + seed * 53 % 400;
    let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    let upstream = upstream(server, dialect, window, true);
    crate::upstream::gateway(GatewayOptions { policy, ..waiting(vec![upstream]) })
}

async fn answered(server: &ScriptedUpstream, dialect: Dialect, seed: u64) -> u64 {
    let mut asked = call(dialect, &conversation(6), true);
    let mut body: Value = serde_json::from_slice(&asked.body).unwrap();
    body["user"] = seed.to_string().into();
    asked.body = body.to_string().into();
    let out = body_of(gateway(server, dialect, seed), asked).await;
    let (seen, events) = read(dialect, &out);
    assert_eq!(seen.text, text(seed), "seed {seed}");
    assert_eq!((seen.finish, seen.over), (Some(ModelStopReason::Stop), true), "seed {seed}");
    check(dialect, &seen, &events, seed);
    u64::try_from(String::from_utf8_lossy(&out).matches("⚙️ Compacting").count()).unwrap()
}

async fn body_of(gateway: Gateway, call: longhaul_gateway::ClientRequest) -> bytes::Bytes {
    body(gateway.answer(call).await).await
}

/// One id, one beginning, indices without gaps, one end.
pub(crate) fn check(dialect: Dialect, seen: &PartialResponse, events: &[Value], seed: u64) {
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    let about = |name: &str| -> Vec<u64> { events.iter().filter_map(|event| event[name].as_u64()).collect() };
    match dialect {
        Dialect::Chat => {
            let ids = events.iter().map(|event| &event["id"]);
            assert!(ids.clone().all(|id| Some(id) == ids.clone().next()), "seed {seed}");
            let said =
                |event: &Value, at: &str| event["choices"][0].pointer(at).is_some_and(Value::is_string);
            let count = |at: &str| events.iter().filter(|event| said(event, at)).count();
            assert_eq!((count("/delta/role"), count("/finish_reason")), (1, 1), "seed {seed}");
        }
        Dialect::Messages => {
            let once = [
                "message_start",
                "content_block_start",
                "content_block_stop",
                "message_delta",
                "message_stop",
            ];
            assert!(once.iter().all(|kind| of(kind) == 1), "seed {seed}");
            assert!(about("index").iter().all(|index| *index == 0), "seed {seed}");
        }
        Dialect::Responses => {
            let once = [
                "response.created",
                "response.output_item.added",
                "response.output_item.done",
                "response.completed",
            ];
            assert!(once.iter().all(|kind| of(kind) == 1), "seed {seed}");
            let numbers = about("sequence_number");
            assert!(numbers.iter().zip(0..).all(|(number, at)| *number == at), "seed {seed}: {numbers:?}");
            let last = &events.last().unwrap()["response"];
            assert_eq!(last["output"][0]["content"][0]["text"], seen.text, "seed {seed}");
            assert_eq!(last["id"], events[0]["response"]["id"], "seed {seed}");
        }
    }
}

async fn at_random_places(dialect: Dialect, answers: u64) {
    let server = Arc::new(model(dialect).await);
    let all = futures_util::stream::iter(0..answers).map(|seed| {
        let server = Arc::clone(&server);
        tokio::spawn(async move { answered(&server, dialect, seed).await })
    });
    let stops: Vec<u64> = all.buffer_unordered(AT_ONCE).map(Result::unwrap).collect().await;
    let stopped = stops.iter().filter(|stops| **stops > 0).count();
    assert!(stopped as u64 * 10 > answers * 8, "{stopped} of {answers} were stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_chat_goes_on_wherever_it_is_stopped() {
    at_random_places(Dialect::Chat, ANSWERS / 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_messages_goes_on_wherever_it_is_stopped() {
    at_random_places(Dialect::Messages, ANSWERS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_responses_goes_on_wherever_it_is_stopped() {
    at_random_places(Dialect::Responses, ANSWERS).await;
}
