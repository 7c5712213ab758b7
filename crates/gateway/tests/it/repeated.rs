//! The same question asked again: what went out for it goes out again, and what was counted of it holds.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::TruncationStrategy;
use longhaul_gateway::{Gateway, GatewayDependencies, GatewayOptions, GatewayReply, MidstreamMode};
use longhaul_store::prefix_cache::MemoryPrefixCache;
use longhaul_wire::edit::Dialect;
use serde_json::Value;

use crate::model::{begun, call, conversation, events, list, numbered, read, totals, upstream};
use crate::upstream::*;

const DIALECTS: [Dialect; 3] = [Dialect::Chat, Dialect::Messages, Dialect::Responses];

/// A model that says `text`, goes on with it when asked to, and reports so much of what it has read.
async fn model(dialect: Dialect, text: String, input: u64) -> ScriptedUpstream {
    start_upstream(move |number, body| {
        let (said, _) = begun(dialect, body);
        let rest = text.strip_prefix(&said).unwrap_or("You are welcome.");
        UpstreamAnswer::Events(events(dialect, &format!("id{number}"), rest, (input, 20)), Duration::ZERO)
    })
    .await
}

fn gateway_at(server: &ScriptedUpstream, dialect: Dialect, window: u64) -> Gateway {
    let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    let upstream = upstream(server, dialect, window, false);
    gateway(GatewayOptions { policy, midstream: MidstreamMode::BestEffort, ..waiting(vec![upstream]) })
}

fn last(server: &ScriptedUpstream) -> Value {
    server.received().last().unwrap().json()
}

fn before(reply: &GatewayReply) -> u64 {
    header(reply, "x-longhaul-tokens-before").parse().unwrap()
}

#[tokio::test]
async fn what_was_left_out_in_mid_answer_is_left_out_only_behind_that_answer() {
    for dialect in DIALECTS {
        let server = model(dialect, numbered(420), 0).await;
        let gateway = gateway_at(&server, dialect, 2_000);
        let question = conversation(8);
        let has_all = |body: &Value| {
            let items = body[list(dialect)].to_string();
            question.iter().all(|item| items.contains(item["content"].as_str().unwrap()))
        };
        let (seen, _) = read(dialect, &body(gateway.answer(call(dialect, &question, true)).await).await);
        assert_eq!(seen.text, numbered(420), "{dialect:?}");
        let first = server.received();
        assert!(first.len() > 1, "it was stopped");
        assert!(has_all(&first[0].json()));
        for sent in &first[1..] {
            let shown = sent.json()[list(dialect)].to_string();
            assert!(!has_all(&sent.json()) && shown.contains("tell me all"), "{dialect:?}: {shown}");
        }
        // The same question, while nothing came behind it.
        let reply = gateway.answer(call(dialect, &question, true)).await;
        assert_eq!(header(&reply, "x-longhaul-action"), "none", "{dialect:?}");
        body(reply).await;
        let again = server.received();
        assert_eq!(again[first.len()].body, first[0].body, "{dialect:?}");
        assert_eq!(again.len(), 2 * first.len(), "it is stopped where it was");
        // Behind the answer what was decided holds.
        let mut more = question.clone();
        more.extend([assistant(seen.text), user("thanks")]);
        let reply = gateway.answer(call(dialect, &more, true)).await;
        assert_eq!(header(&reply, "x-longhaul-action"), "remembered", "{dialect:?}: {:?}", reply.headers);
        body(reply).await;
        assert!(!has_all(&last(&server)), "{dialect:?}");
        // And the question alone is whole still.
        let sent = server.received().len();
        body(gateway.answer(call(dialect, &question, true)).await).await;
        assert_eq!(server.received()[sent].body, first[0].body, "{dialect:?}");
    }
}

#[tokio::test]
async fn the_same_request_reads_what_its_server_has_counted_and_a_branch_too() {
    for dialect in DIALECTS {
        let server = model(dialect, "Yes.".to_owned(), 1_050).await;
        let (memo, question) = (Arc::<MemoryPrefixCache>::default(), conversation(6));
        let process = || {
            let parts = GatewayDependencies { memo: memo.clone(), ..GatewayDependencies::default() };
            Gateway::new(waiting(vec![upstream(&server, dialect, 3_000, false)]), parts).unwrap()
        };
        let gateway = process();
        let reply = gateway.answer(call(dialect, &question, true)).await;
        assert_ne!(before(&reply), 1_050, "it is estimated");
        body(reply).await;
        for _ in 0..3 {
            let reply = gateway.answer(call(dialect, &question, true)).await;
            assert_eq!(before(&reply), 1_050, "{dialect:?}");
            body(reply).await;
        }
        let reply = gateway.answer(call(dialect, &[&question[..], &[user("more")]].concat(), true)).await;
        assert!((1_051..1_070).contains(&before(&reply)), "{dialect:?}: {}", before(&reply));
        body(reply).await;
        let reply = process().answer(call(dialect, &[&question[..], &[user("more")]].concat(), true)).await;
        assert!((1_050..1_070).contains(&before(&reply)), "{dialect:?}, after a restart: {}", before(&reply));
        body(reply).await;
    }
}

#[tokio::test]
async fn an_answer_is_stopped_where_the_window_ends_by_the_servers_own_count() {
    let dialect = Dialect::Messages;
    let server = model(dialect, numbered(500), 900).await;
    let gateway = gateway_at(&server, dialect, 1_500);
    let question = conversation(3);
    body(gateway.answer(call(dialect, &question, true)).await).await;
    let said = begun(dialect, &server.received()[1].json()).0;
    // By our estimate of the question there would be room for more than twice as many.
    let words = said.split(' ').count();
    assert!((50..230).contains(&words), "{words} words");
    let reply = gateway.answer(call(dialect, &question, true)).await;
    assert_eq!(before(&reply), 900, "what the stream said that was left");
    body(reply).await;
}

#[tokio::test]
async fn a_stream_that_reports_nothing_is_billed_by_our_count() {
    let text = numbered(200);
    let server = start_upstream(move |number, _| {
        UpstreamAnswer::Events(streamed(&format!("id{number}"), &text, None), Duration::ZERO)
    })
    .await;
    let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    let config = GatewayOptions { policy, ..waiting(vec![server.upstream(1_500)]) };
    let reply = gateway(config).answer(call(Dialect::Chat, &conversation(14), true)).await;
    let input: u64 = header(&reply, "x-longhaul-tokens-after").parse().unwrap();
    let total = totals(&read(Dialect::Chat, &body(reply).await).1);
    let billed = &total["billed"];
    assert_eq!((&total["calls"], &billed["estimated"]), (&1.into(), &true.into()), "{total}");
    assert_eq!(billed["input_tokens"], input, "{total}");
    assert!(billed["output_tokens"].as_u64().unwrap() > 200, "{total}");
}

#[tokio::test]
async fn a_trigger_below_what_must_stay_is_told_of() {
    let server = model(Dialect::Chat, "Yes.".to_owned(), 0).await;
    let gateway = server.gateway(16_000);
    for trigger in ["256", "0.0000001"] {
        let mut asked = call(Dialect::Chat, &[user(words(900, 5))], true);
        asked.headers.insert("x-longhaul-strategy", "proactive-threshold".parse().unwrap());
        asked.headers.insert("x-longhaul-trigger", trigger.parse().unwrap());
        let reply = gateway.answer(asked).await;
        assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "none"));
        let reason = header(&reply, "x-longhaul-reason");
        assert!(reason.starts_with("not shortened: the request has up to "), "{trigger}: {reason}");
        body(reply).await;
    }
    let reply = gateway.answer(call(Dialect::Chat, &[user("hello")], true)).await;
    assert_eq!(header(&reply, "x-longhaul-reason"), "", "there is nothing to say");
}
