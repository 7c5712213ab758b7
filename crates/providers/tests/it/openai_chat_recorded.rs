//! Every recorded answer of a Chat Completions server decodes, wherever the network cuts it.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::StreamExt;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Answer, Part};
use longhaul_providers::openai_chat::stream::Decoder;
use longhaul_providers::{ModelEvent, ProviderError, sse};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

use crate::fixtures::{self, streams};

/// A body that a client would read, as bytes.
struct Recorded {
    file: String,
    body: Vec<u8>,
}

/// The one answer whose server reports an error in the middle of it.
const FAILS: &[(&str, ErrorCode)] = &[("test_tool_use_failed_error_streaming", ErrorCode::InvalidRequest)];

fn recorded(test: &str) -> Option<Vec<Recorded>> {
    let root = streams(test)?;
    let mut all: Vec<_> = fixtures::cassettes(&root)
        .into_iter()
        .filter(|exchange| exchange.path.ends_with("/chat/completions") && exchange.status < 300)
        .map(|exchange| Recorded { body: exchange.body.into_bytes(), file: exchange.file })
        .collect();
    for file in fixtures::files(&root) {
        let text = || std::fs::read_to_string(root.join(&file)).unwrap();
        let body = match file.as_str() {
            name if name.ends_with(".chunks.txt") => framed(&text()),
            name if name.ends_with(".sse") => text(),
            name if name.contains("vercel__ai") && name.ends_with(".json") => text(),
            name if name.ends_with("live-xllamacpp/chat.response.json") => text(),
            _ => continue,
        };
        if is_chat(&body) {
            all.push(Recorded { file, body: body.into_bytes() });
        }
    }
    Some(all)
}

/// One event a line, as they are recorded, becomes events as they are sent.
fn framed(lines: &str) -> String {
    lines.lines().filter(|line| !line.trim().is_empty()).map(|line| format!("data: {line}\n\n")).collect()
}

fn is_chat(body: &str) -> bool {
    let head: String = body.chars().take(4_000).filter(|letter| !letter.is_whitespace()).collect();
    head.contains("\"object\":\"chat.completion")
}

type Outcome = Result<(Vec<ModelEvent>, Answer), ProviderError>;

/// Decodes a body that arrives in the given pieces.
async fn decode(pieces: Vec<Bytes>) -> Outcome {
    let first = pieces.iter().find_map(|piece| piece.trim_ascii_start().first().copied());
    let body = futures_util::stream::iter(pieces.clone().into_iter().map(Ok));
    let mut decoder = Decoder::default();
    let mut events = Vec::new();
    if first == Some(b'{') {
        events.extend(decoder.push(std::str::from_utf8(&pieces.concat()).unwrap())?);
    } else {
        let mut arriving = sse::events(body);
        while let Some(event) = arriving.next().await {
            events.extend(decoder.push(event?.data.as_deref().unwrap_or_default())?);
        }
    }
    decoder.finish().map(|answer| (events, answer))
}

fn run(pieces: Vec<Bytes>) -> Outcome {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(decode(pieces))
}

fn cut(body: &[u8], mut places: Vec<usize>) -> Vec<Bytes> {
    places.extend([0, body.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| Bytes::copy_from_slice(&body[pair[0]..pair[1]])).collect()
}

#[test]
fn every_answer_decodes_or_fails_as_it_should() {
    let Some(all) = recorded("every_answer_decodes_or_fails_as_it_should") else { return };
    let mut table: BTreeMap<String, [usize; 6]> = BTreeMap::new();
    for Recorded { file, body } in &all {
        let expected = FAILS.iter().find(|(name, _)| file.contains(name)).map(|(_, code)| *code);
        let outcome = run(vec![Bytes::copy_from_slice(body)]);
        let row = table.entry(file.split('/').next().unwrap().to_owned()).or_default();
        row[0] += 1;
        match (outcome, expected) {
            (Err(error), Some(code)) if error.code == code => row[5] += 1,
            // Only the first exchange of that file fails.
            (Ok((events, answer)), _) => {
                row[1] += usize::from(!body.trim_ascii_start().starts_with(b"{"));
                row[2] += usize::from(answer.usage.is_some());
                row[3] += answer.parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count();
                row[4] += answer.parts.iter().filter(|part| matches!(part, Part::Reasoning(_))).count();
                check(file, &events, &answer);
            }
            (Err(error), _) => panic!("{file}: {error:?}"),
        }
    }
    println!("{:<20} answers streams usage calls reasoning errors", "provider");
    for (provider, [answers, streams, usage, calls, reasoning, errors]) in &table {
        println!("{provider:<20} {answers:>7} {streams:>7} {usage:>5} {calls:>5} {reasoning:>9} {errors:>6}");
    }
    assert!(all.len() > 150 && table.len() >= 15, "{} answers of {} providers", all.len(), table.len());
    assert_eq!(table.values().map(|row| row[5]).sum::<usize>(), FAILS.len());
}

fn arguments_of(answer: &Answer) -> Vec<String> {
    let calls = answer.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call.arguments.clone()),
        _ => None,
    });
    calls.collect()
}

/// What the deltas said is what the answer says.
fn check(file: &str, events: &[ModelEvent], answer: &Answer) {
    let mut text = String::new();
    let mut inputs: BTreeMap<usize, String> = BTreeMap::new();
    for event in events {
        match event {
            ModelEvent::Text(more) => text.push_str(more),
            ModelEvent::ToolInput { index, delta, .. } => inputs.entry(*index).or_default().push_str(delta),
            _ => {}
        }
    }
    let said: String = answer.parts.iter().filter_map(Part::as_text).collect();
    assert_eq!(said, text, "{file}");
    assert_eq!(arguments_of(answer), inputs.into_values().collect::<Vec<_>>(), "{file}");
}

/// Read a second time by another road: the argument texts of a body, by index, without our types.
fn arguments_by_hand(body: &str) -> Vec<String> {
    let mut found: BTreeMap<u64, String> = BTreeMap::new();
    let mut take = |message: &Value| {
        for (place, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
            let index = call["index"].as_u64().unwrap_or(place as u64);
            found
                .entry(index)
                .or_default()
                .push_str(call["function"]["arguments"].as_str().unwrap_or_default());
        }
    };
    if let Ok(whole) = serde_json::from_str::<Value>(body) {
        take(&whole["choices"][0]["message"]);
    } else {
        for line in body.lines().filter_map(|line| line.strip_prefix("data:")) {
            if let Ok(chunk) = serde_json::from_str::<Value>(line) {
                take(&chunk["choices"][0]["delta"]);
            }
        }
    }
    found.into_values().collect()
}

#[test]
fn argument_bytes_are_unchanged() {
    let Some(all) = recorded("argument_bytes_are_unchanged") else { return };
    let mut calls = 0;
    for Recorded { file, body } in &all {
        let Ok((_, answer)) = run(vec![Bytes::copy_from_slice(body)]) else { continue };
        let ours = arguments_of(&answer);
        calls += ours.len();
        assert_eq!(ours, arguments_by_hand(std::str::from_utf8(body).unwrap()), "{file}");
    }
    assert!(calls > 80, "{calls} calls");
}

#[test]
fn decoding_does_not_depend_on_where_the_network_cuts() {
    let Some(all) = recorded("decoding_does_not_depend_on_where_the_network_cuts") else { return };
    for Recorded { file, body } in all.iter().filter(|one| !one.body.starts_with(b"{")) {
        let whole = run(vec![Bytes::copy_from_slice(body)]);
        let cuts = prop::collection::vec(0..=body.len(), 1..40);
        let mut runner =
            TestRunner::new(Config { cases: 12, failure_persistence: None, ..Config::default() });
        let result = runner.run(&cuts, |places| {
            prop_assert_eq!(&run(cut(body, places)), &whole);
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

#[test]
fn decoding_survives_a_cut_at_every_single_byte() {
    let body = concat!(
        ": ping\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"é€😀\",\"reasoning\":\"…\"}}]}\r\n\r\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\",\"arguments\":\"{}\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\ndata: [DONE]",
    )
    .as_bytes();
    let whole = run(vec![Bytes::copy_from_slice(body)]).unwrap();
    assert_eq!(whole.1.parts.len(), 3);
    for place in 0..=body.len() {
        assert_eq!(run(cut(body, vec![place])).unwrap(), whole, "cut at {place}");
    }
    let bytes = body.iter().map(|byte| Bytes::copy_from_slice(&[*byte])).collect();
    assert_eq!(run(bytes).unwrap(), whole);
}
