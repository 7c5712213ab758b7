//! Answers that are longer than the window of their model arrive whole, however the model counts tokens.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::message::ModelStopReason;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::{AdaptiveStrategy, TruncationStrategy};
use longhaul_gateway::{GatewayOptions, UpstreamOptions};
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{begun, call, conversation, events, list, read, text_of, upstream as speaking};
use crate::upstream::*;

/// The model's window in its own tokens.
const WINDOW: usize = 2_400;

/// How a model counts: tokens of a text.
pub(crate) type Count = fn(&str) -> usize;

const COUNTS: [(&str, Count); 4] = [
    ("a token for four bytes", |text| text.len().div_ceil(4)),
    ("a token for two bytes", |text| text.len().div_ceil(2)),
    ("a token for six bytes", |text| text.len().div_ceil(6)),
    ("a token a word", |text| text.split(' ').count()),
];

pub(crate) fn numbered_lines(count: usize) -> String {
    let lines: Vec<String> =
        (1..=count).map(|number| format!("{number}. item {number} of the long list")).collect();
    lines.join("\n")
}

/// What the model would say next, behind the end of its answer that it is shown.
fn rest_of<'t>(text: &'t str, shown: &str) -> &'t str {
    let at = text.find(shown).expect("it is shown what it has said");
    &text[at + shown.len()..]
}

/// Turns the end of an answer into one for its length.
fn for_length(dialect: Dialect, mut events: Vec<String>, reports: bool) -> Vec<String> {
    for event in &mut events {
        *event = match dialect {
            Dialect::Chat => event.replace("\"finish_reason\":\"stop\"", "\"finish_reason\":\"length\""),
            Dialect::Messages => event.replace("\"end_turn\"", "\"max_tokens\""),
            Dialect::Responses => event.replace("response.completed", "response.incomplete").replace(
                "\"status\":\"completed\"",
                "\"incomplete_details\":{\"reason\":\"max_output_tokens\"},\"status\":\"incomplete\"",
            ),
        };
    }
    without_usage(events, reports)
}

fn without_usage(mut events: Vec<String>, reports: bool) -> Vec<String> {
    if !reports {
        events.retain(|event| !event.contains("\"prompt_tokens\""));
    }
    events
}

async fn model(dialect: Dialect, text: String, count: Count, reports: bool) -> ScriptedUpstream {
    model_with(WINDOW, dialect, text, count, reports).await
}

/// A model that writes `text` as far as its window has room, and refuses what does not fit.
pub(crate) async fn model_with(
    window: usize,
    dialect: Dialect,
    text: String,
    count: Count,
    reports: bool,
) -> ScriptedUpstream {
    start_upstream(move |number, body| {
        let items = body[list(dialect)].as_array().unwrap();
        let input: usize = items.iter().map(|item| count(&text_of(item)) + 4).sum();
        if input + 16 > window {
            let message = format!("the request exceeds the available context size: {input} tokens, {window}");
            let error =
                json!({ "error": { "message": message, "code": 400, "type": "exceed_context_size_error" } });
            return UpstreamAnswer::Json(400, error);
        }
        let rest = rest_of(&text, &begun(dialect, body).0);
        let room = window - input;
        let mut end = 0;
        for word in rest.split_inclusive([' ', '\n']) {
            if count(&rest[..end + word.len()]) > room {
                break;
            }
            end += word.len();
        }
        let (part, is_cut) = (rest[..end].trim_end(), end < rest.len());
        let all = events(dialect, &format!("id{number}"), part, (input as u64, count(part) as u64));
        UpstreamAnswer::Events(
            if is_cut { for_length(dialect, all, reports) } else { without_usage(all, reports) },
            Duration::ZERO,
        )
    })
    .await
}

pub(crate) fn gateway_of(upstream: UpstreamOptions, adaptive: bool) -> longhaul_gateway::Gateway {
    let policy = match adaptive {
        true => CompactionPolicy::new(Arc::new(AdaptiveStrategy::default())),
        false => CompactionPolicy::new(Arc::new(TruncationStrategy::default())),
    };
    gateway(GatewayOptions { policy, waits_for_summaries: false, attempts: 1, ..waiting(vec![upstream]) })
}

/// As many lines as fill so many windows.
fn text_of_windows(windows: usize, count: Count) -> String {
    let line = count("1000. item 1000 of the long list\n");
    numbered_lines(WINDOW * windows / line)
}

async fn arrives(dialect: Dialect, name: &str, count: Count, reports: bool, stream: bool, items: &[Value]) {
    let text = text_of_windows(4, count);
    let server = model(dialect, text.clone(), count, reports).await;
    let gateway = gateway_of(speaking(&server, dialect, WINDOW as u64, true), true);
    let out = body(gateway.answer(call(dialect, items, stream)).await).await;
    let case = format!("{dialect:?}, {name}, reports: {reports}, stream: {stream}");
    let said = String::from_utf8_lossy(&out);
    match stream {
        true => {
            let (seen, _) = read(dialect, &out);
            assert!(
                seen.text == text,
                "{case}: {} of {} bytes, {:?}, {:?}, {} requests",
                seen.text.len(),
                text.len(),
                seen.finish,
                seen.error,
                server.received().len()
            );
            assert_eq!(seen.finish, Some(ModelStopReason::Stop), "{case}");
        }
        false => assert!(said.contains(&json!(text).to_string()), "{case}: {said}"),
    }
    assert!(server.received().len() > 2, "{case}: it had to go on");
}

#[tokio::test]
async fn a_numbered_answer_of_four_windows_arrives_whole() {
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        for (name, count) in COUNTS {
            for stream in [true, false] {
                arrives(dialect, name, count, true, stream, &[user("write the list")]).await;
            }
        }
    }
}

#[tokio::test]
async fn it_arrives_whole_where_the_model_reports_nothing() {
    for (name, count) in COUNTS {
        arrives(Dialect::Chat, name, count, false, true, &[user("write the list")]).await;
    }
}

#[tokio::test]
async fn a_long_conversation_before_it_is_shortened_first() {
    for (name, count) in COUNTS {
        arrives(Dialect::Chat, name, count, true, true, &conversation(3)).await;
    }
}

#[tokio::test]
async fn it_arrives_whole_on_another_wire() {
    for (of_client, of_upstream) in [(Dialect::Messages, Dialect::Chat), (Dialect::Chat, Dialect::Messages)] {
        for (name, count) in COUNTS {
            let text = text_of_windows(4, count);
            let server = model(of_upstream, text.clone(), count, true).await;
            let upstream = crate::across::upstream(&server, of_upstream, WINDOW as u64, true);
            let out =
                body(gateway_of(upstream, false).answer(call(of_client, &[user("write")], true)).await).await;
            let (seen, _) = read(of_client, &out);
            let case = format!("{of_client:?} to {of_upstream:?}, {name}");
            assert!(
                seen.text == text,
                "{case}: {} of {} bytes, {:?} {:?}",
                seen.text.len(),
                text.len(),
                seen.finish,
                seen.error
            );
        }
    }
}

#[tokio::test]
async fn a_server_that_refuses_more_than_its_share_is_asked_for_less_and_less() {
    // Its window is less than half of what is stated, its error has no figures, and it counts a tenth more than we do.
    for (strategy, adaptive) in [("truncation", false), ("adaptive", true)] {
        for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
            let server = start_upstream(move |number, body| {
                let items = body[list(dialect)].as_array().unwrap();
                let input: usize = items.iter().map(|item| text_of(item).len() * 11 / 40 + 4).sum();
                match input > 1_600 {
                    true => UpstreamAnswer::Json(400, json!({ "error": { "message": "prompt is too long", "type": "invalid_request_error" } })),
                    false => UpstreamAnswer::Events(events(dialect, &format!("id{number}"), "fine", (input as u64, 2)), Duration::ZERO),
                }
            })
            .await;
            let gateway = gateway_of(speaking(&server, dialect, 8_000, false), adaptive);
            let out = body(gateway.answer(call(dialect, &conversation(36), true)).await).await;
            let (seen, _) = read(dialect, &out);
            let case = format!("{dialect:?}, {strategy}, {} requests", server.received().len());
            assert_eq!(seen.text, "fine", "{case}: {}", String::from_utf8_lossy(&out));
            assert!((2..=6).contains(&server.received().len()), "{case}");
        }
    }
}
