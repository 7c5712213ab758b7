//! An answer that outgrows its window goes on in the same stream.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::message::ModelStopReason;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::TruncationStrategy;
use longhaul_gateway::{Gateway, GatewayOptions, MidstreamMode};
use longhaul_wire::chat::edit::{ChatCodec, ChatStreamParser};
use longhaul_wire::edit::{Dialect, PartialResponse, SseEvent, SseReader, StreamParser, WireCodec};
use serde_json::{Value, json};

use crate::model::{begun, call, conversation, events_with_blanks_behind, rest, upstream as speaking};
use crate::shortening::{is_summary_request, pruned};
use crate::upstream::*;

const WINDOW: u64 = 4_000;

/// A model that says `text`, and goes on with an answer that was begun.
async fn model(text: String) -> ScriptedUpstream {
    start_upstream(move |number, body| {
        if is_summary_request(body) {
            return pruned();
        }
        let rest = rest(Dialect::Chat, body, &text);
        UpstreamAnswer::Events(streamed(&format!("id{number}"), rest, Some((500, 50))), Duration::ZERO)
    })
    .await
}

fn gateway_with(server: &ScriptedUpstream, prefill: bool, midstream: MidstreamMode) -> Gateway {
    let mut upstream = server.upstream(WINDOW);
    upstream.endpoint.declared.prefill = Some(prefill);
    gateway(GatewayOptions { midstream, ..waiting(vec![upstream]) })
}

fn messages() -> Vec<Value> {
    (0..12)
        .map(|at| if at % 2 == 0 { user(words(125, at)) } else { assistant(words(125, at)) })
        .chain([user("tell me all")])
        .collect()
}

fn read(out: &[u8]) -> (PartialResponse, Vec<Value>) {
    let mut watcher = ChatStreamParser::default();
    let mut events = SseReader::default();
    events.feed(out.to_vec().into());
    let mut chunks = Vec::new();
    while let Some(raw) = events.next_event() {
        let event = SseEvent::parse(&raw);
        watcher.read(&event);
        chunks.extend(serde_json::from_str::<Value>(&event.data));
    }
    (watcher.seen().clone(), chunks)
}

#[tokio::test]
async fn it_is_stopped_room_is_made_and_it_goes_on() {
    let text = words(2_700, 3);
    let server = model(text.clone()).await;
    let reply =
        gateway_with(&server, true, MidstreamMode::Exact).answer(chat(request(&messages(), true))).await;
    assert_eq!(reply.status, StatusCode::OK);
    let out = body(reply).await;
    let (seen, chunks) = read(&out);
    assert_eq!(seen.text, text);
    assert_eq!((seen.finish, seen.over), (Some(ModelStopReason::Stop), true));
    let ids: Vec<&Value> = chunks.iter().map(|chunk| &chunk["id"]).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "one id");
    let roles = chunks.iter().filter(|chunk| chunk["choices"][0]["delta"]["role"].is_string()).count();
    let ends = chunks.iter().filter(|chunk| chunk["choices"][0]["finish_reason"].is_string()).count();
    assert_eq!((roles, ends), (1, 1));
    let said = String::from_utf8_lossy(&out);
    assert!(said.contains(": ⚙️ Compacting conversation history…\n\n"));
    assert!(said.contains(": ✅ Context compacted, continuing…\n\n"));
    let mains = server.main_requests();
    assert_eq!(mains[0].body, request(&messages(), true));
    assert!(mains.len() >= 2);
    let resumed = mains[1].messages();
    assert_eq!(resumed.last().unwrap()["role"], "assistant");
    assert!(resumed[0]["content"].as_str().unwrap().starts_with("[SUMMARY]"), "{}", resumed[0]);
    assert!(resumed.len() < messages().len());
    let usage = seen.usage.unwrap();
    assert!(
        usage.input_tokens == 500 && usage.output_tokens > 2_000,
        "input of the last call, output of all: {usage:?}"
    );
}

#[tokio::test]
async fn what_was_made_in_the_middle_holds_for_the_next_request() {
    let text = words(2_400, 3);
    let server = model(text.clone()).await;
    let gateway = gateway_with(&server, true, MidstreamMode::Exact);
    let (seen, _) = read(&body(gateway.answer(chat(request(&messages(), true))).await).await);
    let before = server.summary_requests().len();
    assert!(before > 0);
    let mut more = messages();
    more.extend([assistant(seen.text), user("thanks")]);
    let reply = gateway.answer(chat(request(&more, true))).await;
    assert_ne!(header(&reply, "x-longhaul-action"), "none");
    let sent = server.received().last().unwrap().messages();
    // The answer fills the window: a note alone has room beside it.
    let first = sent[0]["content"].as_str().unwrap();
    assert!(
        first.starts_with("[SUMMARY]") || first.starts_with("[12 earlier messages were removed"),
        "{first}"
    );
    assert_eq!(sent.last().unwrap(), &user("thanks"));
}

#[tokio::test]
async fn a_client_that_wants_it_whole_gets_it_whole() {
    let text = words(2_700, 3);
    let server = model(text.clone()).await;
    let reply =
        gateway_with(&server, true, MidstreamMode::Exact).answer(chat(request(&messages(), false))).await;
    assert_eq!(header(&reply, "content-type"), "application/json");
    assert_eq!(header(&reply, "x-longhaul-action"), "compacted", "what was left out in its middle");
    let out = body(reply).await;
    let seen = ChatCodec.parse_answer(&out).unwrap();
    assert_eq!((seen.text.as_str(), seen.finish), (text.as_str(), Some(ModelStopReason::Stop)));
    assert_eq!(server.received()[0].json()["stream"], json!(true));
    assert_eq!(server.received()[0].json()["stream_options"], json!({ "include_usage": true }));
}

#[tokio::test]
async fn where_it_cannot_go_on_it_is_left_alone() {
    let text = words(2_700, 3);
    for (prefill, midstream) in [(false, MidstreamMode::Exact), (true, MidstreamMode::Off)] {
        let server = model(text.clone()).await;
        let reply = gateway_with(&server, prefill, midstream).answer(chat(request(&messages(), true))).await;
        let out = body(reply).await;
        assert_eq!(out, streamed("id0", &text, Some((500, 50))).concat());
        assert_eq!(server.received().len(), 1);
    }
}

#[tokio::test]
async fn an_upstream_that_will_not_go_on_ends_the_answer_for_its_length() {
    let text = words(2_700, 3);
    let said = text.clone();
    let server = start_upstream(move |_, body| {
        if is_summary_request(body) {
            return pruned();
        }
        match body["messages"].as_array().unwrap().last().unwrap()["role"] == "assistant" {
            true => UpstreamAnswer::Json(400, json!({ "error": { "message": "prefill is not supported" } })),
            false => UpstreamAnswer::Events(streamed("a", &said, None), Duration::ZERO),
        }
    })
    .await;
    let reply =
        gateway_with(&server, true, MidstreamMode::Exact).answer(chat(request(&messages(), true))).await;
    let (seen, _) = read(&body(reply).await);
    assert!(text.starts_with(&seen.text) && seen.text.len() > 5_000);
    assert_eq!((seen.finish, seen.over), (Some(ModelStopReason::Length), true));
}

#[tokio::test]
async fn what_is_left_of_the_clients_limit_is_never_nothing() {
    let text = words(2_700, 3);
    let server = model(text.clone()).await;
    let gateway = gateway_with(&server, true, MidstreamMode::Exact);
    // A server that does not keep to the limit: by our count more was said than the client wants.
    let asked = json!({ "model": "m", "messages": messages(), "stream": true, "max_tokens": 1_200 });
    let (seen, _) = read(&body(gateway.answer(chat(asked.to_string())).await).await);
    assert!(text.starts_with(&seen.text) && seen.text.len() > 5_000);
    assert_eq!((seen.finish, seen.over), (Some(ModelStopReason::Length), true));
    assert_eq!(server.main_requests().len(), 1, "it is not asked to say nothing more");
}

#[tokio::test]
async fn wherever_the_window_ends_nothing_is_lost_or_said_twice() {
    let mut pauses = 0;
    for window in (2_600..4_600).step_by(97) {
        let text = words(2_600, window as usize);
        let server = model(text.clone()).await;
        let mut upstream = server.upstream(window);
        upstream.endpoint.declared.prefill = Some(true);
        let reply = gateway(waiting(vec![upstream])).answer(chat(request(&messages(), true))).await;
        let out = body(reply).await;
        let (seen, chunks) = read(&out);
        assert_eq!(
            (seen.text == text, seen.finish),
            (true, Some(ModelStopReason::Stop)),
            "window {window}: {}",
            seen.text
        );
        let ends = chunks.iter().filter(|chunk| chunk["choices"][0]["finish_reason"].is_string()).count();
        assert_eq!(ends, 1, "window {window}");
        pauses += String::from_utf8_lossy(&out).matches("Compacting").count();
    }
    assert!(pauses >= 5, "{pauses}");
}

/// How a server goes on with a beginning that it is sent without a blank at its end.
#[derive(Clone, Copy, Debug)]
enum GoesOn {
    /// With the blank.
    Exactly,
    /// With the next word.
    WithoutBlank,
    /// It says the beginning again.
    FromTheStart,
}

#[tokio::test]
async fn an_answer_whose_pieces_end_in_blanks_is_stopped_too() {
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        for how in [GoesOn::Exactly, GoesOn::WithoutBlank, GoesOn::FromTheStart] {
            for case in 0..6 {
                let text = words(600 + case * 61, case);
                let whole = text.clone();
                let server = start_upstream(move |number, body| {
                    let (said, _) = begun(dialect, body);
                    assert_eq!(said, said.trim_end(), "blanks at the end may be cut by a server");
                    let rest = rest(dialect, body, &whole);
                    let rest = match how {
                        GoesOn::Exactly => rest,
                        GoesOn::WithoutBlank => rest.trim_start(),
                        GoesOn::FromTheStart => &whole,
                    };
                    let id = format!("id{number}");
                    UpstreamAnswer::Events(
                        events_with_blanks_behind(dialect, &id, rest, (300, 20)),
                        Duration::ZERO,
                    )
                })
                .await;
                let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
                let upstream = speaking(&server, dialect, 1_300 + case as u64 * 53, true);
                let gateway = gateway(GatewayOptions { policy, ..waiting(vec![upstream]) });
                let out = body(gateway.answer(call(dialect, &conversation(6), true)).await).await;
                let (seen, _) = crate::model::read(dialect, &out);
                assert_eq!(
                    (seen.text, seen.finish),
                    (text, Some(ModelStopReason::Stop)),
                    "{dialect:?} {how:?} {case}"
                );
                assert!(server.received().len() > 1, "it was stopped: {dialect:?} {how:?} {case}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_finished_is_not_called_on_for_its_last_word() {
    // All of it comes in one piece that is far beyond the line: what comes next is its end.
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        let text = words(1_000, 3).replace(' ', "_");
        let said = text.clone();
        let server = start_upstream(move |number, _| {
            let id = format!("id{number}");
            UpstreamAnswer::Events(events_with_blanks_behind(dialect, &id, &said, (300, 20)), Duration::ZERO)
        })
        .await;
        let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
        let upstream = speaking(&server, dialect, 1_300, true);
        let gateway = gateway(GatewayOptions { policy, ..waiting(vec![upstream]) });
        let out = body(gateway.answer(call(dialect, &conversation(6), true)).await).await;
        let (seen, _) = crate::model::read(dialect, &out);
        assert_eq!((seen.text, seen.finish), (text, Some(ModelStopReason::Stop)), "{dialect:?}");
        assert_eq!(server.received().len(), 1, "{dialect:?}");
    }
}
