//! Clients that ask for a compaction in a protocol of their own.

use std::time::Duration;

use axum::http::StatusCode;
use longhaul_gateway::ClientRequest;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

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
