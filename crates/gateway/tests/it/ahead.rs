//! No request waits for a summary: it is written between the requests, before it is needed where there is time for that,
//! and in the client's own bytes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use longhaul_gateway::{CredentialSource, Gateway, GatewayDependencies, GatewayOptions};
use longhaul_providers::http::Secret;
use longhaul_store::prefix_cache::MemoryPrefixCache;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::shortening::is_summary_request;
use crate::upstream::*;

const WINDOW: u64 = 32_000;

/// What a model writes that is asked to summarise one of these conversations.
fn summary_of(body: &Value) -> String {
    let sent = body["messages"].to_string();
    let topics = (0..200).filter(|at| sent.contains(&format!("topic{at} "))).step_by(3);
    let done: Vec<String> = topics.map(|at| format!("- topic{at}: the {}", words(7, at))).collect();
    format!(
        "Goal: words about stones, rivers, paper, clouds and a letter.\nDone: the summary has reached\n{}\n\
         Next steps: go on with the next topic.",
        done.join("\n")
    )
}

/// A model that writes its summaries only once it is let.
async fn model(may_summarise: watch::Receiver<bool>) -> ScriptedUpstream {
    start_upstream(move |number, body| {
        if is_summary_request(body) {
            let text = streamed("s", &summary_of(body), Some((20_000, 60)));
            return UpstreamAnswer::When(
                may_summarise.clone(),
                Box::new(UpstreamAnswer::Events(text, Duration::ZERO)),
            );
        }
        let mut answer = said(&format!("answer {number}"), 0, 0);
        answer.as_object_mut().unwrap().remove("usage");
        UpstreamAnswer::Json(200, answer)
    })
    .await
}

/// So many messages of about 500 tokens, and a question.
fn long(messages: usize) -> Vec<Value> {
    let says = |at: usize| format!("topic{at} {}", words(490, at));
    let message = |at: usize| if at.is_multiple_of(2) { user(says(at)) } else { assistant(says(at)) };
    (0..messages).map(message).chain([user("go on")]).collect()
}

struct Turn {
    action: String,
    reason: String,
    after: u64,
}

/// Sends the conversation, and adds the answer and another message of about 500 tokens.
async fn turn(gateway: &Gateway, messages: &mut Vec<Value>) -> Turn {
    let reply = gateway.answer(chat(request(messages, false))).await;
    assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.headers);
    let said = |name: &str| reply.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let turn = Turn {
        action: said("x-longhaul-action"),
        reason: said("x-longhaul-reason"),
        after: said("x-longhaul-tokens-after").parse().unwrap(),
    };
    messages.push(body_json(reply).await["choices"][0]["message"].clone());
    messages.push(user(format!("topic{} {}", messages.len(), words(490, messages.len()))));
    turn
}

/// What the model was sent last for an answer.
fn newest(server: &ScriptedUpstream) -> String {
    server.main_requests().pop().unwrap().json()["messages"].to_string()
}

#[tokio::test]
async fn a_request_that_is_too_long_goes_out_at_once_and_gets_its_summary_later() {
    let (let_it, may_summarise) = watch::channel(false);
    let server = model(may_summarise).await;
    let gateway = gateway(GatewayOptions::new(vec![server.upstream(WINDOW)]));
    let mut messages = long(80);
    let begun = Instant::now();
    let first = turn(&gateway, &mut messages).await;
    // The summary is not written yet, and would be waited for for minutes.
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(first.action, "compacted");
    assert!(first.reason.contains("a summary is written beside the requests"), "{}", first.reason);
    // While it is written the extract stays, and nobody asks for another.
    for _ in 0..2 {
        assert_eq!(turn(&gateway, &mut messages).await.action, "remembered");
    }
    assert_eq!(server.summary_requests().len(), 1);
    assert!(!newest(&server).contains("the summary has reached"));
    let_it.send(true).unwrap();
    gateway.settle().await;
    let swapped = turn(&gateway, &mut messages).await;
    assert_eq!(swapped.action, "compacted");
    assert!(swapped.reason.contains("an extract stood in its place"), "{}", swapped.reason);
    assert!(newest(&server).contains("the summary has reached"));
    // It was longer than the window: it was read in pieces.
    assert!((2..=3).contains(&server.summary_requests().len()), "{}", server.summary_requests().len());
}

#[tokio::test]
async fn a_summary_is_ready_when_the_view_is_full() {
    let (let_it, may_summarise) = watch::channel(true);
    let server = model(may_summarise).await;
    let gateway = gateway(GatewayOptions::new(vec![server.upstream(WINDOW)]));
    let mut messages = long(24);
    let mut compacted = 0;
    for _ in 0..90 {
        let asked = server.summary_requests().len();
        let turn = turn(&gateway, &mut messages).await;
        assert!(turn.after < WINDOW, "{}", turn.after);
        if turn.action == "compacted" {
            compacted += 1;
            assert!(turn.reason.contains("it was written ahead"), "{}", turn.reason);
            assert!(newest(&server).contains("the summary has reached"));
            assert_eq!(server.summary_requests().len(), asked, "none was asked for within the request");
        }
        gateway.settle().await;
    }
    assert!(compacted >= 3, "{compacted}");
    let asked = server.summary_requests().len();
    assert!((compacted..=compacted + 1).contains(&asked), "{asked} summaries, {compacted} used");
    drop(let_it);
}

/// A summary that waits for a full view is not in force, so a restart changes no byte, and does not lose it either.
#[tokio::test]
async fn a_restart_changes_nothing_while_a_summary_waits() {
    let (_let_it, may_summarise) = watch::channel(true);
    let server = model(may_summarise).await;
    let memo: Arc<MemoryPrefixCache> = Arc::default();
    let gateway = || {
        let parts = GatewayDependencies { memo: memo.clone(), ..GatewayDependencies::default() };
        Gateway::new(GatewayOptions::new(vec![server.upstream(WINDOW)]), parts).unwrap()
    };
    let mut messages = long(24);
    let mut running = gateway();
    for _ in 0..90 {
        let asked = server.summary_requests().len();
        turn(&running, &mut messages).await;
        running.settle().await;
        if server.summary_requests().len() > asked {
            break;
        }
    }
    assert_eq!(server.summary_requests().len(), 1);
    let before = newest(&server);
    running = gateway();
    assert_ne!(turn(&running, &mut messages).await.action, "compacted");
    running.settle().await;
    let after = newest(&server);
    assert!(after.starts_with(before.trim_end_matches(']')), "the prompt cache of the upstream is lost");
    assert_eq!(server.summary_requests().len(), 1, "the summary is still there");
    for _ in 0..20 {
        let asked = server.summary_requests().len();
        if turn(&running, &mut messages).await.action != "none" {
            assert!(newest(&server).contains("the summary has reached"));
            assert_eq!(asked, 1, "it was written before the restart");
            return;
        }
        running.settle().await;
    }
    panic!("the view was never full");
}

/// The first messages of a request are in the cache of its upstream: a summary request has the same, and nothing of what
/// stands behind the messages that go.
#[tokio::test]
async fn a_summary_is_asked_for_in_the_bytes_of_the_request_before() {
    for (choice, sent_choice) in [
        (json!("required"), json!("none")),
        (json!({ "type": "function", "function": { "name": "auto_fix" } }), json!("none")),
        (json!("auto"), json!("auto")),
    ] {
        let (_let_it, may_summarise) = watch::channel(true);
        let server = model(may_summarise).await;
        let gateway = gateway(GatewayOptions::new(vec![server.upstream(WINDOW)]));
        let mut messages = long(44);
        let rules =
            json!({ "role": "system", "content": [{ "type": "text", "text": "Be brief." }], "name": "s" });
        messages.insert(0, rules);
        let tools = json!([{ "type": "function", "function": {
            "name": "auto_fix", "strict": false, "parameters": { "type": "object", "properties": {} } } }]);
        let body = json!({
            "model": "m", "x_unknown": [1, 2], "tools": tools, "messages": messages, "temperature": 0.2,
            "tool_choice": choice,
        });
        let mut call = chat(body.to_string());
        call.headers.insert("idempotency-key", "k1".parse().unwrap());
        let reply = gateway.answer(call).await;
        assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "none"));
        drop(reply);
        gateway.settle().await;
        let sent = server.received();
        let [main, summary] = &sent[..] else { panic!("{} requests", sent.len()) };
        assert!(
            main.headers.contains_key("idempotency-key") && !summary.headers.contains_key("idempotency-key")
        );
        let (main, summary) = (String::from_utf8_lossy(&main.body), String::from_utf8_lossy(&summary.body));
        let same = main.bytes().zip(summary.bytes()).take_while(|(one, other)| one == other).count();
        let summary: Value = serde_json::from_str(&summary).unwrap();
        let kept = summary["messages"].as_array().unwrap().len() - 1;
        assert!(kept > 10, "{kept}");
        let newest_kept = main.find(&format!("topic{} ", kept - 2)).unwrap();
        assert!(same > newest_kept, "{same} of {newest_kept}");
        assert!(!summary["messages"].to_string().contains("go on\""), "the newest message may be taken back");
        assert_eq!((&summary["tools"], &summary["x_unknown"]), (&tools, &json!([1, 2])));
        assert_eq!(summary["tool_choice"], sent_choice, "it could not write otherwise");
        assert!(summary["max_tokens"].as_u64().unwrap() <= 2_000);
    }
}

/// Some clients end each request with a reminder that is another each time.
#[tokio::test]
async fn a_history_with_another_end_each_time_gets_no_summary_for_each_request() {
    for is_well in [true, false] {
        let server = start_upstream(move |number, body| match (is_summary_request(body), is_well) {
            (true, true) => UpstreamAnswer::Events(streamed("s", &summary_of(body), None), Duration::ZERO),
            (true, false) => UpstreamAnswer::Json(500, json!({ "error": { "message": "overloaded" } })),
            (false, _) => UpstreamAnswer::Json(200, said(&format!("answer {number}"), 0, 0)),
        })
        .await;
        let gateway = gateway(GatewayOptions::new(vec![server.upstream(WINDOW)]));
        let mut messages = long(44);
        for turn in 0..12 {
            let mut sent = messages.clone();
            sent.push(assistant("noted"));
            sent.push(user(format!("<reminder>{turn}</reminder> go on")));
            let reply = gateway.answer(chat(request(&sent, false))).await;
            assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.headers);
            drop(reply);
            gateway.settle().await;
            messages.push(assistant(format!("answer {turn}")));
            messages.push(user(format!("and {turn}?")));
        }
        let asked = server.summary_requests().len();
        assert!((1..=3).contains(&asked), "{asked}, well: {is_well}");
    }
}

/// With `credentials: forward` the gateway's own key goes out for nobody.
#[tokio::test]
async fn a_summary_for_a_caller_without_a_key_is_asked_for_without_one() {
    let (_let_it, may_summarise) = watch::channel(true);
    let server = model(may_summarise).await;
    let mut upstream = server.upstream(WINDOW);
    upstream.endpoint.api_key = Some(Secret::new("the-owners-key"));
    let config =
        GatewayOptions { credentials: CredentialSource::Forward, ..GatewayOptions::new(vec![upstream]) };
    let gateway = gateway(config);
    // Such a request is not asked for its summary in its own form.
    let body = json!({ "model": "m", "messages": long(80), "n": 2 });
    let mut call = chat(body.to_string());
    call.headers.remove("authorization");
    let reply = gateway.answer(call).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "compacted"));
    drop(reply);
    gateway.settle().await;
    let sent = server.received();
    assert!(sent.len() > 1, "a summary was asked for");
    assert!(sent.iter().all(|sent| !sent.headers.contains_key("authorization")));
}

/// A client whose requests are refused has nothing summarised.
#[tokio::test]
async fn nothing_is_summarised_for_requests_that_are_refused() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Json(401, json!({ "error": { "message": "no such key" } })))
            .await;
    let gateway = gateway(GatewayOptions::new(vec![server.upstream(WINDOW)]));
    let reply = gateway.answer(chat(request(&long(80), false))).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
    drop(reply);
    gateway.settle().await;
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_model_that_writes_no_summaries_is_left_alone() {
    let server = start_upstream(|number, body| match is_summary_request(body) {
        true => UpstreamAnswer::Json(200, said("Done.", 100, 2)),
        false => UpstreamAnswer::Json(200, said(&format!("answer {number}"), 0, 0)),
    })
    .await;
    // The clock stands still: how long the turns take decides nothing.
    let parts = GatewayDependencies { now: Arc::new(|| 7), ..GatewayDependencies::default() };
    let gateway = Gateway::new(GatewayOptions::new(vec![server.upstream(WINDOW)]), parts).unwrap();
    let mut messages = long(24);
    let (mut compacted, mut asked_at) = (0, Vec::new());
    for _ in 0..300 {
        let asked = server.summary_requests().len();
        let turn = turn(&gateway, &mut messages).await;
        assert!(turn.after < WINDOW, "{}", turn.after);
        compacted += u32::from(turn.action == "compacted");
        gateway.settle().await;
        if server.summary_requests().len() > asked {
            asked_at.push(compacted);
        }
        if asked_at.len() == 4 {
            break;
        }
    }
    // Ahead of the first compaction, after it and after the second; then 7 are made without it.
    assert_eq!(asked_at[..3], [0, 1, 2], "of {compacted}");
    assert!(matches!(asked_at[3..], [9 | 10]), "{asked_at:?} of {compacted}");
}

#[tokio::test]
async fn a_summary_request_that_is_refused_as_too_long_is_made_smaller() {
    // The refusal comes as a status, or inside an answer with status 200.
    for is_in_stream in [false, true] {
        let server = start_upstream(move |number, body| {
            let error =
                json!({ "error": { "message": "prompt is too long", "type": "invalid_request_error" } });
            match (is_summary_request(body), body["messages"].as_array().unwrap().len() > 1) {
                (true, true) if is_in_stream => {
                    UpstreamAnswer::Events(vec![format!("data: {error}\n\n")], Duration::ZERO)
                }
                (true, true) => UpstreamAnswer::Json(400, error),
                (true, false) => {
                    let text = streamed("s", &summary_of(body), Some((9_000, 60)));
                    UpstreamAnswer::Events(text, Duration::ZERO)
                }
                _ => {
                    let mut answer = said(&format!("answer {number}"), 0, 0);
                    answer.as_object_mut().unwrap().remove("usage");
                    UpstreamAnswer::Json(200, answer)
                }
            }
        })
        .await;
        let gateway = gateway(GatewayOptions::new(vec![server.upstream(WINDOW)]));
        let mut messages = long(46);
        turn(&gateway, &mut messages).await;
        gateway.settle().await;
        let sizes: Vec<usize> = server.summary_requests().iter().map(|sent| sent.body.len()).collect();
        let (first, others) = sizes.split_first().expect("a summary is asked for ahead of need");
        assert!(!others.is_empty(), "{is_in_stream}: {sizes:?}");
        assert!(others.iter().all(|size| *size < first * 9 / 10), "{is_in_stream}: {sizes:?}");
        for _ in 0..20 {
            if turn(&gateway, &mut messages).await.reason.contains("it was written ahead") {
                assert!(newest(&server).contains("the summary has reached"));
                break;
            }
        }
        assert!(newest(&server).contains("the summary has reached"), "{is_in_stream}: it is used");
    }
}
