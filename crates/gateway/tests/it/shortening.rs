//! What does not fit is made to fit, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::{MiddleRemovalStrategy, TruncationStrategy};
use longhaul_gateway::{
    ClientRequest, CompactionSetup, Gateway, GatewayDependencies, GatewayOptions, UpstreamOptions,
};
use longhaul_providers::connect::Kind;
use longhaul_store::prefix_cache::MemoryPrefixCache;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::model::call;
use crate::upstream::*;

/// Whether a summary is asked for.
pub(crate) fn is_summary_request(body: &Value) -> bool {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let last = messages.last().map(|message| message["content"].to_string()).unwrap_or_default();
    last.contains("You prune the history") || last.contains("The conversation is about to be shortened")
}

/// A summary that names what these conversations are about.
pub(crate) fn spoke_of(what: &str) -> String {
    let topics: Vec<String> = (0..40).step_by(4).map(|at| format!("topic{at}")).collect();
    format!(
        "They spoke of {what}. Goal: stones, rivers, paper, clouds and a letter, one after the \
         other. Done: {}.",
        topics.join(",")
    )
}

/// A pruning agent that lets everything go.
pub(crate) fn pruned() -> UpstreamAnswer {
    let text = json!({ "prunedConversation": [], "summary": spoke_of("stones") }).to_string();
    UpstreamAnswer::Events(streamed("s", &text, Some((100, 20))), Duration::ZERO)
}

/// Words of everything that is sent: a token each, nearly.
fn size(body: &Value) -> u64 {
    body["messages"]
        .as_array()
        .unwrap()
        .iter()
        // Eight more for the framing of a message.
        .map(|message| message.to_string().split(' ').count() as u64 + 8)
        .sum()
}

/// A model with a window, which counts what it is sent.
async fn model(window: u64) -> ScriptedUpstream {
    start_upstream(move |number, body| {
        if is_summary_request(body) {
            return pruned();
        }
        match size(body) {
            size if size > window => {
                let message = format!(
                    "This model's maximum context length is {window} tokens. However, your messages resulted in {size} tokens."
                );
                UpstreamAnswer::Json(400, json!({ "error": { "message": message, "code": "context_length_exceeded" } }))
            }
            size => UpstreamAnswer::Json(200, said(&format!("answer {number} {}", words(40, number)), size, 50)),
        }
    })
    .await
}

/// Requests for summaries; none is ever made twice.
fn summaries(server: &ScriptedUpstream) -> usize {
    let asked: Vec<_> = server.summary_requests().into_iter().map(|sent| sent.body).collect();
    let different: std::collections::BTreeSet<_> = asked.iter().collect();
    assert_eq!(different.len(), asked.len(), "the same summary is asked for once");
    asked.len()
}

/// A client that knows nothing of windows.
struct Client {
    messages: Vec<Value>,
}

impl Client {
    fn new() -> Self {
        Self { messages: vec![json!({ "role": "system", "content": "You are brief." })] }
    }

    /// One turn; the header that says what was done.
    async fn turn(&mut self, gateway: &Gateway, says: String) -> String {
        self.messages.push(user(says));
        let reply = gateway.answer(chat(request(&self.messages, false))).await;
        assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.headers);
        let action = header(&reply, "x-longhaul-action").to_owned();
        let answer = body_json(reply).await;
        self.messages.push(answer["choices"][0]["message"].clone());
        action
    }
}

#[tokio::test]
async fn a_conversation_of_many_windows_meets_no_error() {
    let server = model(3_000).await;
    let gateway = server.gateway(3_000);
    let mut client = Client::new();
    let mut actions = Vec::new();
    for turn in 0..60 {
        let says = format!("turn {turn}: {}", words(150, turn));
        actions.push(client.turn(&gateway, says.clone()).await);
        let sent = server.main_requests().last().unwrap().messages();
        assert!(
            sent.last().unwrap()["content"].as_str().unwrap().ends_with(&says),
            "the newest message is intact"
        );
        assert_eq!(sent[0], client.messages[0], "the system prompt stays");
        let roles: Vec<String> =
            sent.iter().skip(1).map(|m| m["role"].as_str().unwrap().to_owned()).collect();
        assert!(
            roles.chunks(2).all(|pair| pair[0] == "user" && pair.get(1).is_none_or(|r| r == "assistant")),
            "{roles:?}"
        );
    }
    let sent = server.main_requests();
    assert_eq!(sent.len(), 60, "nothing was refused, nothing was sent twice");
    let compactions = actions.iter().filter(|action| *action == "compacted").count();
    // Half of all words are the user's: a quarter of the room quotes them.
    assert!((3..20).contains(&compactions), "{actions:?}");
    assert!(summaries(&server) >= compactions);
    assert_eq!(actions[0], "none");
    // Between two compactions the upstream's prompt cache is of use.
    let cached = sent.windows(2).filter(|pair| {
        let (old, new) = (pair[0].messages(), pair[1].messages());
        new.len() > old.len() && new[..old.len()] == old[..]
    });
    assert_eq!(cached.count(), 59 - compactions);
}

#[tokio::test]
async fn what_was_decided_outlives_the_process() {
    let server = model(3_000).await;
    let memo = Arc::new(MemoryPrefixCache::default());
    let start = || {
        let parts = GatewayDependencies { memo: memo.clone(), ..GatewayDependencies::default() };
        Gateway::new(waiting(vec![server.upstream(3_000)]), parts).unwrap()
    };
    let mut client = Client::new();
    let first = start();
    let mut turn = 0;
    while client.turn(&first, words(150, turn)).await != "compacted" {
        turn += 1;
    }
    let asked = summaries(&server);
    let before = server.main_requests().last().unwrap().messages();
    let action = client.turn(&start(), "and now?".to_owned()).await;
    assert_eq!(
        (action.as_str(), summaries(&server)),
        ("remembered", asked),
        "another process, the same memory"
    );
    let after = server.main_requests().last().unwrap().messages();
    assert_eq!(after[..before.len()], before[..], "the same bytes before what is new");
    let mut other = chat(request(&client.messages[..client.messages.len() - 1], false));
    other.headers.insert("authorization", "Bearer somebody-else".parse().unwrap());
    let action = header(&start().answer(other).await, "x-longhaul-action").to_owned();
    assert_eq!(action, "compacted", "nobody meets another's summary");
}

#[tokio::test]
async fn two_requests_with_one_prefix_make_one_summary() {
    let server = model(3_000).await;
    let gateway = server.gateway(3_000);
    let messages = long();
    let ask = || gateway.answer(chat(request(&messages, false)));
    // At the same time, so that the first summary is still being written when the others need it.
    let (one, two, three) = tokio::join!(ask(), ask(), ask());
    for reply in [one, two, three] {
        assert_eq!(reply.status, StatusCode::OK);
    }
    assert!(summaries(&server) > 0);
    let sent = server.main_requests();
    assert!(sent.iter().all(|request| request.body == sent[0].body));
}

#[tokio::test]
async fn branches_of_one_history_share_their_summary() {
    let branch = |at: usize| {
        let mut messages = long();
        messages.push(assistant("and now?"));
        messages.push(user(format!("this is branch {at}")));
        messages
    };
    let alone = model(3_000).await;
    assert_eq!(alone.gateway(3_000).answer(chat(request(&branch(0), false))).await.status, StatusCode::OK);
    let server = model(3_000).await;
    let gateway = server.gateway(3_000);
    let asked = (0..8).map(|at| {
        let gateway = gateway.clone();
        async move { gateway.answer(chat(request(&branch(at), false))).await }
    });
    let replies = futures_util::future::join_all(asked).await;
    assert!(replies.iter().all(|reply| reply.status == StatusCode::OK));
    assert_eq!(summaries(&server), summaries(&alone), "eight branches, one summary");
    let mut newest: Vec<String> = server
        .main_requests()
        .iter()
        .map(|sent| sent.messages().last().unwrap()["content"].to_string())
        .collect();
    newest.sort();
    let expected: Vec<String> = (0..8).map(|at| format!("\"this is branch {at}\"")).collect();
    assert_eq!(newest, expected, "each is asked what it asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_that_overtake_each_other_stay_apart() {
    for dialect in [Dialect::Chat, Dialect::Messages] {
        let server = start_upstream(|_, body| match is_summary_request(body) {
            true => UpstreamAnswer::After(Duration::from_millis(20), Box::new(pruned())),
            false => UpstreamAnswer::Json(200, said("fine", 500, 2)),
        })
        .await;
        for round in 0..20 {
            let gateway = server.gateway(3_000);
            let grown = |by: usize| {
                let more = (0..by).flat_map(|at| [assistant(format!("yes {at}")), user(format!("and {at}"))]);
                let first = user(format!("round {round}"));
                [first].into_iter().chain(long().into_iter().skip(1)).chain(more).collect::<Vec<_>>()
            };
            let before = server.received().len();
            // One has a summary made; the others wait for the same conversation, or have gone on with it.
            let ask = |by: usize| {
                let body = json!({ "model": "m", "max_tokens": 50, "messages": grown(by) }).to_string();
                let gateway = gateway.clone();
                tokio::spawn(async move { gateway.answer(ClientRequest { dialect, ..chat(body) }).await })
            };
            let replies = futures_util::future::join_all([ask(0), ask(1), ask(2), ask(3)]).await;
            for reply in replies {
                assert_eq!(reply.unwrap().status, StatusCode::OK, "{dialect:?}");
            }
            let sent = server.received().split_off(before);
            let mains = sent.iter().filter(|sent| !is_summary_request(&sent.json()));
            let mut ends: Vec<String> = mains
                .map(|sent| {
                    let text = sent.messages().last().unwrap()["content"].as_str().unwrap().to_owned();
                    assert!(!text.contains("recall"), "no tool that is not there: {text}");
                    // A summary may stand in the same message.
                    text.rsplit("\n\n").next().unwrap().to_owned()
                })
                .collect();
            ends.sort();
            assert_eq!(ends, ["and 0", "and 1", "and 2", "go on"], "{dialect:?} {round}");
        }
    }
}

#[tokio::test]
async fn a_refusal_is_mended_although_another_request_has_gone_on() {
    let (refuses, may_refuse) = watch::channel(false);
    let server = start_upstream(move |number, body| {
        if is_summary_request(body) {
            return pruned();
        }
        let message = "This model's maximum context length is 2000 tokens. However, your messages resulted in 2900 tokens.";
        let refused = json!({ "error": { "message": message, "code": "context_length_exceeded" } });
        match number {
            0 => UpstreamAnswer::When(may_refuse.clone(), Box::new(UpstreamAnswer::Json(400, refused))),
            _ => UpstreamAnswer::Json(200, said("fine", 500, 2)),
        }
    })
    .await;
    let gateway = server.gateway(8_000);
    let first = gateway.answer(chat(request(&long(), false)));
    let grown: Vec<Value> = long().into_iter().chain([assistant("yes"), user("and on")]).collect();
    let second = async {
        while server.received().is_empty() {
            tokio::task::yield_now().await;
        }
        let reply = gateway.answer(chat(request(&grown, false))).await;
        refuses.send(true).unwrap();
        reply
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((second.status, first.status), (StatusCode::OK, StatusCode::OK));
    assert_eq!(header(&first, "x-longhaul-action"), "compacted");
    let again = server.main_requests().last().unwrap().messages();
    assert_eq!(again.last().unwrap(), &user("go on"), "nothing of the other's");
}

#[tokio::test]
async fn calls_keep_their_results() {
    let server = model(3_000).await;
    let gateway = server.gateway(3_000);
    let mut messages = vec![user("look around")];
    for at in 0..40 {
        // Every call has the same name: local servers do that.
        let calls = json!([{ "id": "call_0", "type": "function",
            "function": { "name": "read", "arguments": format!("{{\"at\":{at}}}") } }]);
        messages.push(json!({ "role": "assistant", "content": null, "tool_calls": calls }));
        messages.push(json!({ "role": "tool", "tool_call_id": "call_0", "content": words(120, at) }));
        let reply = gateway.answer(chat(request(&messages, false))).await;
        assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.headers);
        let sent = server.main_requests().last().unwrap().messages();
        assert_eq!(sent.last(), messages.last(), "the newest result is intact");
        let first = sent[0]["content"].as_str().unwrap();
        assert!(sent[0]["role"] == "user" && first.contains("look around"), "{first}");
        for (at, message) in sent.iter().enumerate() {
            let calls = |message: &Value| message["tool_calls"].is_array();
            let (is_call, is_result) = (calls(message), message["role"] == "tool");
            assert!(
                !is_call || sent.get(at + 1).is_some_and(|next| next["role"] == "tool"),
                "a call without result"
            );
            assert!(!is_result || at > 0 && calls(&sent[at - 1]), "a result without call");
        }
    }
    assert_eq!(server.main_requests().len(), 40);
    assert!(summaries(&server) > 0);
}

#[tokio::test]
async fn a_refusal_teaches_the_window() {
    let server = model(2_000).await;
    // Declared too large: the server knows better.
    let gateway = server.gateway(8_000);
    let messages = long();
    let reply = gateway.answer(chat(request(&messages, false))).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "compacted"));
    assert_eq!(header(&reply, "x-longhaul-window"), "2000 (learned)");
    let sent = server.main_requests();
    assert_eq!(sent.len(), 2, "refused once, sent once more");
    assert_eq!(sent[0].body, request(&messages, false));
    assert!(size(&sent[1].json()) < 2_000);
    let more: Vec<Value> = messages.iter().cloned().chain([assistant("yes"), user("and on")]).collect();
    let reply = gateway.answer(chat(request(&more, false))).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(server.main_requests().len(), 3, "the next is not refused");
}

#[tokio::test]
async fn what_cannot_fit_is_refused_with_numbers() {
    let server = model(2_000).await;
    let gateway = server.gateway(2_000);
    let system = json!({ "role": "system", "content": words(3_000, 1) });
    let reply = gateway.answer(chat(request(&[system, user("go on")], false))).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    let error = body_json(reply).await["error"].clone();
    assert_eq!(error["code"], "prompt_does_not_fit");
    assert!(error["message"].as_str().unwrap().contains("(window 2,000, "), "{error}");
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn no_summary_is_asked_for_where_none_could_get_below_the_line() {
    let server = model(4_096).await;
    let gateway = server.gateway(4_096);
    let older = (0..6).map(|at| if at % 2 == 0 { user(words(90, at)) } else { assistant(words(90, at)) });
    let messages: Vec<Value> = older.chain([user(words(2_400, 1))]).collect();
    let reply = gateway.answer(chat(request(&messages, false))).await;
    let why = header(&reply, "x-longhaul-reason").to_owned();
    assert_eq!((reply.status, summaries(&server)), (StatusCode::OK, 0), "{why}");
    assert!(why.contains("no model call"), "{why}");
}

#[tokio::test]
async fn a_caller_may_decide_otherwise() {
    let server = model(100_000).await;
    let gateway = server.gateway(3_000);
    let messages = long();
    let with = |name: &'static str, value: &'static str| {
        let mut call = chat(request(&messages, false));
        call.headers.insert(name, value.parse().unwrap());
        gateway.answer(call)
    };
    let off = with("x-longhaul-compress", "off").await;
    assert_eq!(header(&off, "x-longhaul-action"), "none");
    assert_eq!(server.received()[0].body, request(&messages, false));
    let other = with("x-longhaul-strategy", "truncation").await;
    assert_eq!(header(&other, "x-longhaul-action"), "compacted");
    assert_eq!(summaries(&server), 0, "truncation asks nobody");
    let low = with("x-longhaul-trigger", "700").await;
    assert!(header(&low, "x-longhaul-tokens-after").parse::<u64>().unwrap() < 700);
    let bad = with("x-longhaul-strategy", "magic").await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_summary_that_is_refused_teaches_the_window() {
    let server = start_upstream(|_, body| {
        if is_summary_request(body) {
            let message = "This model's maximum context length is 2800 tokens. However, your messages resulted in 2900 tokens.";
            return UpstreamAnswer::Json(400, json!({ "error": { "message": message, "code": "context_length_exceeded" } }));
        }
        UpstreamAnswer::Json(200, said("fine", size(body), 5))
    })
    .await;
    let gateway = server.gateway(3_000);
    let reply = gateway.answer(chat(request(&long(), false))).await;
    assert_eq!(header(&reply, "x-longhaul-action"), "compacted", "an extract stands in its place");
    let reply = gateway.answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(header(&reply, "x-longhaul-window"), "2800 (learned)");
}

#[tokio::test]
async fn a_summariser_that_fails_stops_nobody() {
    let server = start_upstream(|_, body| {
        if is_summary_request(body) {
            return UpstreamAnswer::Json(500, json!({ "error": "no" }));
        }
        UpstreamAnswer::Json(200, said("fine", size(body), 5))
    })
    .await;
    let messages = long();
    let reply = server.gateway(3_000).answer(chat(request(&messages, false))).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "compacted"));
    assert!(size(&server.main_requests()[0].json()) < 2_400);
}

fn long() -> Vec<Value> {
    (0..30)
        .map(|at| if at % 2 == 0 { user(words(90, at)) } else { assistant(words(90, at)) })
        .chain([user("go on")])
        .collect()
}

#[tokio::test]
async fn a_server_that_cuts_in_silence_is_found_out() {
    let server = start_upstream(|_, body| {
        if is_summary_request(body) {
            return pruned();
        }
        // As servers do that drop what is too much: half of the window is left, and nobody is told.
        let size = size(body);
        UpstreamAnswer::Json(200, said("fine", if size > 2_000 { 1_010 } else { size }, 5))
    })
    .await;
    let gateway = server.unstated_gateway();
    let reply = gateway.answer(chat(request(&long(), false))).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "compacted"));
    let why = header(&reply, "x-longhaul-reason").to_owned();
    assert!(why.starts_with("the upstream has read only 1010 of about "), "{why:?}");
    let sent = server.main_requests();
    assert_eq!(sent.len(), 2, "what was answered to half a request is asked again");
    assert!(size(&sent[1].json()) < 1_010);
    // A small report is no reason to doubt a window that was stated.
    let reply = server.gateway(8_000).answer(chat(request(&long(), false))).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "none"));
    assert_eq!(server.main_requests().len(), 3);
}

#[tokio::test]
async fn an_answer_to_what_cannot_be_shorter_is_handed_over_with_a_warning() {
    let server = start_upstream(|_, _| UpstreamAnswer::Json(200, said("fine", 1_100, 5))).await;
    let gateway = server.unstated_gateway();
    let alone = [user(words(3_000, 1))];
    let more = [user(words(3_000, 1)), assistant("fine"), user(words(3_000, 2))];
    for (dialect, items) in
        [(Dialect::Chat, &alone[..]), (Dialect::Chat, &more), (Dialect::Responses, &alone)]
    {
        let reply = gateway.answer(call(dialect, items, false)).await;
        assert_eq!(reply.status, StatusCode::OK);
        let why = header(&reply, "x-longhaul-reason").to_owned();
        assert!(why.starts_with("the upstream has read 1100 of about "), "{dialect:?}: {why:?}");
        assert!(body_json(reply).await.to_string().contains("fine"));
    }
    assert_eq!(server.main_requests().len(), 3, "none is asked again");

    // No window is learned from it.
    for _ in 0..2 {
        let reply = gateway.answer(chat(request(&alone, false))).await;
        assert_eq!(reply.status, StatusCode::OK);
        assert!(header(&reply, "x-longhaul-window").starts_with("32000 (assumed"));
    }
}

#[tokio::test]
async fn a_server_that_counts_something_else_is_asked_again_only_once() {
    let server = start_upstream(|_, body| match is_summary_request(body) {
        true => pruned(),
        // What it had in its cache is no input to it.
        false => UpstreamAnswer::Json(200, said("fine", size(body) * 2 / 5, 5)),
    })
    .await;
    let stated = server.gateway(8_000).answer(chat(request(&long(), false))).await;
    assert_eq!(
        (stated.status, server.main_requests().len()),
        (StatusCode::OK, 1),
        "a stated window is not doubted"
    );
    let gateway = server.unstated_gateway();
    let first = gateway.answer(chat(request(&long(), false))).await;
    assert_eq!((first.status, server.main_requests().len()), (StatusCode::OK, 3));
    let others: Vec<Value> = [user("another")].into_iter().chain(long().into_iter().skip(1)).collect();
    let second = gateway.answer(chat(request(&others, false))).await;
    assert_eq!(
        (second.status, header(&second, "x-longhaul-action")),
        (StatusCode::OK, "none"),
        "{:?} {:?}",
        first.headers,
        second.headers
    );
    assert_eq!(server.main_requests().len(), 4);
}

#[tokio::test]
async fn a_server_that_counts_something_else_keeps_the_window_that_it_has() {
    for stream in [false, true] {
        let server = start_upstream(move |_, body| match (is_summary_request(body), stream) {
            (true, _) => pruned(),
            (false, false) => UpstreamAnswer::Json(200, said("fine", size(body) * 2 / 5, 5)),
            (false, true) => {
                UpstreamAnswer::Events(streamed("s1", "fine", Some((size(body) * 2 / 5, 5))), Duration::ZERO)
            }
        })
        .await;
        let unstated = UpstreamOptions::new("up", Kind::OpenAiCompatible, server.url("/v1"));
        let gateway = gateway(waiting(vec![unstated]));
        let talk = |turns: usize| -> Vec<Value> {
            let turn = |n: usize| [user(words(800, n)), assistant("fine")];
            (0..turns).flat_map(turn).chain([user("go on")]).collect()
        };
        let mut windows = Vec::new();
        for turns in 8..16 {
            let reply = gateway.answer(chat(request(&talk(turns), stream))).await;
            assert_eq!(reply.status, StatusCode::OK);
            windows.push(header(&reply, "x-longhaul-window").to_owned());
            body(reply).await;
        }
        let last = windows.last().unwrap();
        assert!(last.starts_with("32000 (assumed"), "{stream}: {windows:?}");
    }
}

#[tokio::test]
async fn a_refusal_may_come_in_a_stream() {
    let server = start_upstream(|_, body| {
        if is_summary_request(body) {
            return pruned();
        }
        if size(body) <= 2_000 {
            return UpstreamAnswer::Events(streamed("a", "fine", None), Duration::ZERO);
        }
        let message = "This model's maximum context length is 2000 tokens. However, your messages resulted in 2900 tokens.";
        let error = json!({ "error": { "message": message, "code": "context_length_exceeded" } });
        UpstreamAnswer::Events(vec![format!("data: {error}\n\n"), "data: [DONE]\n\n".to_owned()], Duration::ZERO)
    })
    .await;
    let reply = server.gateway(8_000).answer(chat(request(&long(), true))).await;
    assert_eq!(header(&reply, "x-longhaul-action"), "compacted");
    let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
    assert!(out.contains("fine") && !out.contains("error"), "{out}");
    assert_eq!(server.main_requests().len(), 2);
}

#[tokio::test]
async fn an_overflow_may_come_with_the_status_of_another_error() {
    for (status, error) in [
        (500, json!({ "error": "context length exceeded" })),
        (502, json!({ "error": { "message": "m", "code": "context_length_exceeded" } })),
        (503, json!({ "error": { "message": "prompt exceeds context window 4096" } })),
        (499, json!({ "error": { "message": "context overflow" } })),
        (400, json!({ "error": { "message": "max_tokens must be at least 1, got -4904." } })),
    ] {
        let server = start_upstream(move |_, body| {
            if is_summary_request(body) {
                return pruned();
            }
            match size(body) <= 2_000 {
                true => UpstreamAnswer::Json(200, said("fine", 1_500, 1)),
                false => UpstreamAnswer::Json(status, error.clone()),
            }
        })
        .await;
        let reply = server.gateway(8_000).answer(chat(request(&long(), false))).await;
        let action = header(&reply, "x-longhaul-action");
        assert_eq!((reply.status, action), (StatusCode::OK, "compacted"), "{status}");
        let sent = server.main_requests();
        assert!(sent[0].body != sent[1].body, "{status}: the same request is not sent again");
    }
}

#[tokio::test]
async fn the_client_hears_something_while_a_summary_is_written() {
    let (writes, may_write) = watch::channel(false);
    let server = start_upstream(move |_, body| match is_summary_request(body) {
        true => UpstreamAnswer::When(may_write.clone(), Box::new(pruned())),
        false => UpstreamAnswer::Events(streamed("a", "fine", None), Duration::ZERO),
    })
    .await;
    let config =
        GatewayOptions { keep_alive: Duration::from_millis(40), ..waiting(vec![server.upstream(3_000)]) };
    let mut reply = gateway(config).answer(chat(request(&long(), true))).await;
    let kept_alive = beginning(&mut reply, 2).await;
    writes.send(true).unwrap();
    let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
    assert_eq!(kept_alive, ": keep-alive\n\n: keep-alive\n\n");
    assert!(out.contains("fine"), "{out}");
}

#[tokio::test]
async fn an_answer_that_may_be_too_long_is_asked_to_be_shorter() {
    let server = start_upstream(|_, asked| match asked["max_tokens"].as_u64() {
        Some(most) if 3_023 + most > 5_600 => {
            let message = format!("input length and `max_tokens` exceed context limit: 3023 + {most} > 5600");
            UpstreamAnswer::Json(400, json!({ "error": { "message": message } }))
        }
        _ => UpstreamAnswer::Json(200, said("short, then", 3_023, 3)),
    })
    .await;
    let mut asked: Value = serde_json::from_slice(&request(&[user(words(2_000, 1))], false)).unwrap();
    asked["max_tokens"] = json!(3_200);
    let reply = server.gateway(56_000).answer(chat(asked.to_string())).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.headers["x-longhaul-action"], "none", "nothing is left out");
    let sent: Vec<Value> = server.received().iter().map(ReceivedRequest::json).collect();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1]["messages"], sent[0]["messages"]);
    assert_eq!(sent[1]["max_tokens"], 5_600 - 3_023 - 56);
}

#[tokio::test]
async fn a_result_that_is_larger_than_the_window_takes_nothing_else_with_it() {
    let server = model(8_000).await;
    let gateway = server.gateway(8_000);
    let mut messages = Vec::new();
    for turn in 0..20 {
        messages.extend([user(format!("question {turn} {}", words(40, turn))), assistant(words(40, turn))]);
    }
    messages.push(user("now read the file"));
    let function = json!({ "name": "read", "arguments": "{}" });
    let calls = json!([{ "id": "c", "type": "function", "function": function }]);
    messages.push(json!({ "role": "assistant", "content": null, "tool_calls": calls }));
    let file = format!("It begins here. {} Here it ends.", words(12_000, 5));
    messages.push(json!({ "role": "tool", "tool_call_id": "c", "content": file }));
    let reply = gateway.answer(chat(request(&messages, false))).await;
    assert_eq!(reply.status, StatusCode::OK);
    let sent = server.main_requests().last().unwrap().messages();
    assert_eq!(sent.len(), messages.len(), "all is there");
    let shown = sent.last().unwrap()["content"].as_str().unwrap();
    assert!(shown.contains("It begins here.") && shown.contains("Here it ends."), "{shown}");
    assert!(shown.contains("characters left out"), "{shown}");
    // Where the rest is too much as well, the newest of it stays.
    for turn in 0..120 {
        messages.insert(0, assistant(words(40, turn)));
        messages.insert(0, user(format!("earlier {turn} {}", words(40, turn))));
    }
    let reply = gateway.answer(chat(request(&messages, false))).await;
    assert_eq!(reply.status, StatusCode::OK);
    let sent = server.main_requests().last().unwrap().messages();
    assert!(sent.iter().any(|message| message.to_string().contains("question 19")), "{sent:?}");
    let shown = sent.last().unwrap()["content"].as_str().unwrap();
    assert!(
        shown.contains("It begins here."),
        "{shown} {:?} {}",
        header(&reply, "x-longhaul-reason"),
        sent.len()
    );
}

#[tokio::test]
async fn what_the_settings_say_holds_from_the_next_request_on() {
    let server = model(3_000).await;
    let gateway = gateway(GatewayOptions {
        policy: CompactionPolicy::new(Arc::new(TruncationStrategy::default())),
        ..waiting(vec![server.upstream(3_000)])
    });
    let chosen = Arc::new(AtomicBool::new(false));
    let is_chosen = Arc::clone(&chosen);
    gateway.follow(move |configured| match is_chosen.load(Ordering::SeqCst) {
        true => CompactionSetup {
            policy: CompactionPolicy {
                strategy: Arc::new(MiddleRemovalStrategy::default()),
                ..configured.policy.clone()
            },
            ..configured.clone()
        },
        false => configured.clone(),
    });
    let messages: Vec<Value> = (0..60).map(|at| user(format!("topic{at} {}", words(88, at)))).collect();
    let shortened = async || {
        let reply = gateway.answer(chat(request(&messages, false))).await;
        assert_eq!(header(&reply, "x-longhaul-action"), "compacted");
        drop(reply);
        server.received().pop().unwrap().messages().len()
    };
    let truncated = shortened().await;
    chosen.store(true, Ordering::SeqCst);
    assert!(shortened().await != truncated, "the other strategy leaves something else");
}

#[tokio::test]
async fn an_old_document_of_the_user_is_cut_before_it_is_dropped() {
    let server = model(8_000).await;
    let gateway = server.gateway(8_000);
    let document = format!("Here is the contract. {} That was all of it.", words(6_500, 1));
    let messages = [user(&document), assistant("I have read it."), user("What does it say of rivers?")];
    let reply = gateway.answer(chat(request(&messages, false))).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "pruned"));
    let sent = server.main_requests().last().unwrap().json();
    let shown = sent["messages"][0]["content"].as_str().unwrap();
    assert!(shown.starts_with("Here is the contract.") && shown.ends_with("That was all of it."), "{shown}");
    assert!(shown.contains("[Output truncated"), "{shown}");
    assert!((2_000..7_000).contains(&size(&sent)), "{}", size(&sent));
    assert_eq!(sent["messages"].as_array().unwrap()[1..], messages[1..], "all else is as it was");
}
