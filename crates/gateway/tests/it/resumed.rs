//! What the next process makes of a conversation that the last one has known: the same.

use std::sync::Arc;

use axum::http::StatusCode;
use bytes::Bytes;
use longhaul_gateway::{Gateway, GatewayDependencies};
use longhaul_store::prefix_cache::MemoryPrefixCache;
use serde_json::Value;

use crate::shortening::{is_summary_request, pruned};
use crate::upstream::*;

/// When a new process takes over.
#[derive(Clone, Copy, PartialEq)]
enum Restarts {
    Never,
    Once,
    /// Before every turn, once the window is a third full.
    Always,
}

/// Tokens of a server that counts `percent` for every hundred words.
fn counted(text: &str, percent: u64) -> u64 {
    text.split(' ').count() as u64 * percent / 100 + 4
}

fn whole(body: &Value, percent: u64) -> u64 {
    body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| counted(&message["content"].to_string(), percent))
        .sum()
}

/// A server that reports what it has counted, and says the same to the same request.
async fn server(percent: u64) -> ScriptedUpstream {
    start_upstream(move |_, body| {
        if is_summary_request(body) {
            return pruned();
        }
        let text = words(30, body["messages"].as_array().unwrap().len());
        UpstreamAnswer::Json(200, said(&text, whole(body, percent), counted(&text, percent)))
    })
    .await
}

/// What a conversation of so many turns has the server sent, with a caller of its own.
async fn sent(server: &ScriptedUpstream, strategy: &str, restarts: Restarts) -> Vec<Bytes> {
    let memo: Arc<MemoryPrefixCache> = Arc::default();
    let process = || {
        let parts = GatewayDependencies { memo: memo.clone(), ..GatewayDependencies::default() };
        Gateway::new(waiting(vec![server.upstream(4_000)]), parts).unwrap()
    };
    let before = server.received().len();
    let (mut gateway, mut messages) = (process(), Vec::new());
    for turn in 0..50 {
        if restarts == Restarts::Always && turn > 9 || restarts == Restarts::Once && turn == 27 {
            gateway = process();
        }
        messages.push(user(format!("topic{turn} {}", words(150 + 31 * (turn % 5), turn))));
        let mut call = chat(request(&messages, false));
        call.headers.insert("x-longhaul-strategy", strategy.parse().unwrap());
        let reply = gateway.answer(call).await;
        assert_eq!(reply.status, StatusCode::OK, "{strategy} {turn}: {:?}", reply.headers);
        messages.push(body_json(reply).await["choices"][0]["message"].clone());
    }
    server.received().split_off(before).into_iter().map(|sent| sent.body).collect()
}

#[tokio::test]
async fn a_restart_changes_no_byte_of_what_is_sent() {
    for percent in [70, 100, 150] {
        let server = server(percent).await;
        for strategy in ["middle-removal", "truncation", "pruning-agent", "reactive-overflow"] {
            let expected = sent(&server, strategy, Restarts::Never).await;
            let shortened = expected.windows(2).filter(|pair| pair[1].len() < pair[0].len()).count();
            assert!(shortened > 1, "{strategy}: {shortened}");
            for restarts in [Restarts::Once, Restarts::Always] {
                let found = sent(&server, strategy, restarts).await;
                let first = expected.iter().zip(&found).position(|(expected, found)| expected != found);
                assert_eq!((first, found.len()), (None, expected.len()), "{strategy} at {percent} %");
            }
        }
    }
}
