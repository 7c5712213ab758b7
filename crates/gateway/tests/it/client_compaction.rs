//! Clients that ask for a compaction in a protocol of their own.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::TruncationStrategy;
use longhaul_gateway::{ClientRequest, GatewayOptions};
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{events, upstream};
use crate::shortening::{is_summary_request, pruned};
use crate::upstream::*;

fn call(input: &Value, stream: bool) -> ClientRequest {
    let body = json!({ "model": "m", "stream": stream, "input": input }).to_string();
    ClientRequest { dialect: Dialect::Responses, ..chat(body) }
}

async fn server() -> ScriptedUpstream {
    start_upstream(|_, body| match is_summary_request(body) {
        true => pruned(),
        false => UpstreamAnswer::Events(streamed("a", "fine", None), Duration::ZERO),
    })
    .await
}

fn long_input() -> Vec<Value> {
    (0..30)
        .map(|at| if at % 2 == 0 { user(words(90, at)) } else { assistant(words(90, at)) })
        .chain([user("go on"), json!({ "type": "compaction_trigger" })])
        .collect()
}

#[tokio::test]
async fn a_compaction_trigger_is_answered_with_one_item_that_is_opened_when_it_comes_back() {
    let server = server().await;
    let gateway = server.gateway(100_000);
    let reply = gateway.answer(call(&json!(long_input()), false)).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "compacted"));
    let answer = body_json(reply).await;
    assert_eq!((&answer["object"], &answer["status"]), (&json!("response"), &json!("completed")));
    let [item] = answer["output"].as_array().unwrap().as_slice() else { panic!("{answer}") };
    assert_eq!(item["type"], "compaction");
    // Nobody but the writer of summaries was asked.
    assert!(server.main_requests().is_empty());

    let again = gateway.answer(call(&json!([item, user("next")]), false)).await;
    assert_eq!((again.status, header(&again, "x-longhaul-action")), (StatusCode::OK, "none"));
    let sent = server.received().last().unwrap().messages();
    let all = json!(sent).to_string();
    assert!(
        all.contains("[SUMMARY]") && all.contains("go on") && !all.contains("longhaul-compaction"),
        "{all}"
    );
    assert_eq!(sent.last().unwrap()["content"], "go on\n\nnext");
}

#[tokio::test]
async fn a_compaction_is_streamed_as_codex_reads_it() {
    let server = server().await;
    let gateway = server.gateway(100_000);
    let reply = gateway.answer(call(&json!(long_input()), true)).await;
    assert_eq!(header(&reply, "content-type"), "text/event-stream");
    let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
    let events: Vec<Value> = out
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let done: Vec<_> = events.iter().filter(|event| event["type"] == "response.output_item.done").collect();
    assert_eq!((done.len(), &done[0]["item"]["type"]), (1, &json!("compaction")));
    let end = events.last().unwrap();
    assert_eq!(
        (&end["type"], &end["response"]["output"][0]),
        (&json!("response.completed"), &done[0]["item"])
    );
    assert!(end["response"]["usage"]["total_tokens"].as_u64().unwrap() > 0, "{end}");
}

#[tokio::test]
async fn sealed_items_of_others_and_damaged_ones_are_refused() {
    let server = server().await;
    let gateway = server.gateway(100_000);
    for (content, says) in [("gAAAA", "`compaction`"), ("longhaul-compaction-1.QQ", "damaged")] {
        let item = json!({ "type": "compaction", "encrypted_content": content });
        let reply = gateway.answer(call(&json!([item, user("next")]), false)).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
        let refusal = body_json(reply).await;
        assert!(refusal["error"]["message"].as_str().unwrap().contains(says), "{refusal}");
    }
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn orders_and_facts_in_a_compaction_block_survive_the_next_compaction() {
    const SECTIONS: &str = "Standing orders, in force until they are removed:\n- o1: Never push to main.\n\n\
        What the user said, oldest first; later words win:\n[1] Port the parser to Rust.\n\nGoal: the port 4711.";
    // With the first line of a summary of ours, and as another program would write it.
    for content in [format!("[SUMMARY] of 9 earlier messages.\n\n{SECTIONS}"), SECTIONS.to_owned()] {
        for speaks in [Dialect::Chat, Dialect::Messages] {
            let server = start_upstream(move |number, _| {
                let events = events(speaks, &format!("id{number}"), "fine", (900, 3));
                UpstreamAnswer::Events(events, Duration::ZERO)
            })
            .await;
            let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
            let upstream = upstream(&server, speaks, 4_000, false);
            let gateway = gateway(GatewayOptions { policy, ..waiting(vec![upstream]) });
            let block = json!({ "type": "compaction", "content": content });
            let text = json!({ "type": "text", "text": "I go on with it." });
            let mut messages = vec![user("hi"), json!({ "role": "assistant", "content": [block, text] })];
            messages.extend((0..40).map(|at| match at % 2 {
                0 => user(words(120, at)),
                _ => assistant(words(120, at)),
            }));
            messages.push(user("go on"));
            let body_text = json!({ "model": "m", "max_tokens": 300, "messages": messages }).to_string();
            let reply = gateway.answer(ClientRequest { dialect: Dialect::Messages, ..chat(body_text) }).await;
            assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "compacted"));
            body(reply).await;
            let sent = server.received().last().unwrap().json()["messages"].to_string();
            assert!(!sent.contains("I go on with it."), "{speaks:?}: it is left out: {sent}");
            for kept in ["Never push to main.", "the port 4711"] {
                assert_eq!(sent.matches(kept).count(), 1, "{speaks:?}: {kept}: {sent}");
            }
        }
    }
}
