//! A client goes back: what was decided for a longer conversation holds only where it leaves the newest message.

use serde_json::{Value, json};

use crate::shortening::{is_summary_request, pruned};
use crate::upstream::*;

async fn server() -> ScriptedUpstream {
    start_upstream(|_, body| match is_summary_request(body) {
        true => pruned(),
        false => UpstreamAnswer::Json(200, said("fine", body.to_string().len() as u64 / 4, 9)),
    })
    .await
}

fn spoken() -> Vec<Value> {
    let turn = |at: usize| {
        let answer = format!("answer {at} {}", words(40, at + 1));
        [user(format!("question {at} {}", words(30, at))), json!({ "role": "assistant", "content": answer })]
    };
    (0..40).flat_map(turn).collect()
}

fn called() -> Vec<Value> {
    let step = |at: usize| {
        let function = json!({ "name": "read", "arguments": "{}" });
        let call = json!({ "id": format!("call_{at}"), "type": "function", "function": function });
        let result = format!("RESULT {at} {}", words(60, at));
        [
            json!({ "role": "assistant", "content": null, "tool_calls": [call] }),
            json!({ "role": "tool", "tool_call_id": format!("call_{at}"), "content": result }),
        ]
    };
    [user(format!("the only task {}", words(30, 7)))].into_iter().chain((0..40).flat_map(step)).collect()
}

/// Has a conversation grow, and goes back to each of its requests, the longest first.
async fn goes_back(strategy: &str, messages: &[Value]) {
    let server = server().await;
    let gateway = server.gateway(4_096);
    let ends: Vec<usize> = (1..=messages.len())
        .filter(|end| ["user", "tool"].contains(&messages[end - 1]["role"].as_str().unwrap()))
        .collect();
    let mut remembered = 0;
    for (round, end) in ends.iter().chain(ends.iter().rev()).enumerate() {
        let mut call = chat(request(&messages[..*end], false));
        call.headers.insert("x-longhaul-strategy", strategy.parse().unwrap());
        let reply = gateway.answer(call).await;
        assert_eq!(reply.status, 200, "{strategy}, {end} messages");
        let is_back = round >= ends.len();
        remembered += u32::from(is_back && header(&reply, "x-longhaul-action") == "remembered");
        body_json(reply).await;
        let main = server.main_requests().pop().unwrap().messages();
        let said = main.last().unwrap()["content"].as_str().unwrap_or_default();
        let newest = messages[end - 1]["content"].as_str().unwrap();
        assert!(said.ends_with(newest), "{strategy}, {end} messages, back: {is_back}: {said}");
    }
    assert!(remembered > 0, "{strategy}: what was decided is of use where it holds");
}

const STRATEGIES: [&str; 6] =
    ["pruning-agent", "adaptive", "truncation", "reactive-overflow", "middle-removal", "proactive-threshold"];

#[tokio::test]
async fn what_was_typed_last_is_sent_wherever_a_client_goes_back_to() {
    for strategy in STRATEGIES {
        goes_back(strategy, &spoken()).await;
    }
}

#[tokio::test]
async fn the_newest_result_is_sent_wherever_a_client_goes_back_to() {
    for strategy in STRATEGIES {
        goes_back(strategy, &called()).await;
    }
}
