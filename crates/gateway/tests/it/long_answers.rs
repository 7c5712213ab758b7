//! Answers that are longer than the window of their model arrive whole, however the model counts tokens.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::message::ModelStopReason;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::{AdaptiveStrategy, TruncationStrategy};
use longhaul_gateway::{GatewayOptions, UpstreamOptions};
use longhaul_wire::edit::{AnswerEvents, Dialect, SseReader};
use serde_json::{Value, json};

use crate::model::{begun, call, conversation, events, list, read, text_of, upstream as speaking};
use crate::recall::{had, whole, wire};
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
        match written(window, dialect, &text, (count, reports), number, body) {
            Ok(events) => UpstreamAnswer::Events(events, Duration::ZERO),
            Err(refusal) => UpstreamAnswer::Json(400, refusal),
        }
    })
    .await
}

/// Returns the part of `text` for which the model's window has room, or the refusal of a request that does not fit.
fn written(
    window: usize,
    dialect: Dialect,
    text: &str,
    (count, reports): (Count, bool),
    number: usize,
    body: &Value,
) -> Result<Vec<String>, Value> {
    let items = body[list(dialect)].as_array().unwrap();
    let input: usize = items.iter().map(|item| count(&text_of(item)) + 4).sum();
    if input + 16 > window {
        let message = format!("the request exceeds the available context size: {input} tokens, {window}");
        return Err(
            json!({ "error": { "message": message, "code": 400, "type": "exceed_context_size_error" } }),
        );
    }
    let rest = rest_of(text, &begun(dialect, body).0);
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
    Ok(if is_cut { for_length(dialect, all, reports) } else { without_usage(all, reports) })
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

#[test]
fn an_answer_in_one_piece_is_the_same_as_a_stream() {
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        let UpstreamAnswer::Json(_, answer) =
            whole(dialect, events(dialect, "a", &numbered_lines(9), (40, 90)))
        else {
            panic!("no answer in one piece")
        };
        let (codec, body) = (wire(dialect), answer.to_string());
        let AnswerEvents { content, end } = codec.write_answer_events(body.as_bytes()).unwrap();
        let (mut merger, mut out) = (codec.stream_merger(), Vec::new());
        content.iter().chain(&end).for_each(|raw| merger.pass_event(raw, &mut out));
        merger.end(0, &mut out);
        let mut reader = SseReader::default();
        reader.feed(out.into());
        let merged: Vec<_> = std::iter::from_fn(|| reader.next_event()).collect();
        let again: Value = serde_json::from_slice(&codec.collect_answer(&merged).unwrap()).unwrap();
        assert_eq!(again, answer, "{dialect:?}");
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_that_fills_the_window_goes_on() {
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        for (name, count) in COUNTS {
            let text = text_of_windows(3, count);
            let said = text.clone();
            // Its first answer is in one piece, whatever it is asked for.
            let server = start_upstream(move |number, body| {
                match written(WINDOW, dialect, &said, (count, true), number, body) {
                    Ok(events) if number == 0 => whole(dialect, events),
                    Ok(events) => UpstreamAnswer::Events(events, Duration::ZERO),
                    Err(refusal) => UpstreamAnswer::Json(400, refusal),
                }
            })
            .await;
            let gateway = gateway_of(speaking(&server, dialect, WINDOW as u64, true), true);
            let reply = gateway.answer(call(dialect, &[user("write the list")], false)).await;
            let case = format!("{dialect:?}, {name}");
            assert_eq!(header(&reply, "content-type"), "application/json", "{case}");
            let had = had(dialect, reply, false).await;
            assert!(had.text == text, "{case}: {} of {} bytes: {}", had.text.len(), text.len(), had.all);
            assert_eq!(had.finish, Some(ModelStopReason::Stop), "{case}");
            assert!(had.all.contains("id0") && !had.all.contains("id1"), "{case}: one name: {}", had.all);
            assert!(server.received().len() > 2, "{case}: it had to go on");
        }
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_that_ends_at_the_clients_limit_stays_as_it_is() {
    let answer = |tokens: u64| {
        let mut answer = said(&numbered_lines(20), 20, tokens);
        answer["choices"][0]["finish_reason"] = json!("length");
        answer
    };
    let whole = answer(140);
    let server = start_upstream(move |_, _| UpstreamAnswer::Json(200, whole.clone())).await;
    let gateway = gateway_of(speaking(&server, Dialect::Chat, WINDOW as u64, true), true);
    let mut asked: Value = serde_json::from_slice(&request(&[user("write the list")], false)).unwrap();
    asked["max_tokens"] = json!(140);
    let reply = gateway.answer(chat(asked.to_string())).await;
    assert_eq!(body_json(reply).await, answer(140));
    assert_eq!(server.received().len(), 1);
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
    for (of_client, of_upstream) in [
        (Dialect::Messages, Dialect::Chat),
        (Dialect::Responses, Dialect::Chat),
        (Dialect::Chat, Dialect::Messages),
    ] {
        for (name, count) in COUNTS {
            for stream in [true, false] {
                let text = text_of_windows(4, count);
                let server = model(of_upstream, text.clone(), count, true).await;
                let upstream = crate::across::upstream(&server, of_upstream, WINDOW as u64, true);
                let asked = call(of_client, &[user("write")], stream);
                let had = had(of_client, gateway_of(upstream, false).answer(asked).await, stream).await;
                let case = format!("{of_client:?} to {of_upstream:?}, {name}, stream: {stream}");
                assert!(had.text == text, "{case}: {} of {} bytes: {}", had.text.len(), text.len(), had.all);
                assert_eq!(had.finish, Some(ModelStopReason::Stop), "{case}");
            }
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
