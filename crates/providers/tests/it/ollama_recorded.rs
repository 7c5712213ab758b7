//! Every recorded answer of Ollama's native API decodes, however the network cuts the body, and goes back unchanged.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use longhaul_core::message::{Message, ModelAnswer, Part, Role};
use longhaul_providers::ollama::{BASE_URL, OllamaProvider, OllamaStreamDecoder};
use longhaul_providers::{ModelEndpoint, ModelEvent, ModelRequest, Provider, ndjson};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

use crate::fixtures::{self, streams};
use crate::gemini_recorded::cuts::{check_every_cut, cut};
use crate::gemini_recorded::described::described;
use crate::gemini_recorded::{Outcome, Recorded};

fn recorded(test: &str) -> Option<Vec<Recorded>> {
    let root = streams(test)?;
    let native = fixtures::cassettes(&root).into_iter().filter(|exchange| exchange.path == "/api/chat");
    Some(native.map(|exchange| Recorded { file: exchange.file, body: exchange.body.into_bytes() }).collect())
}

/// The lines of a body in the given pieces.
fn payloads(pieces: Vec<Bytes>) -> Vec<String> {
    let events = ndjson::events(futures_util::stream::iter(pieces.into_iter().map(Ok)));
    let events: Vec<_> = events.collect().now_or_never().unwrap();
    events.into_iter().map(|event| event.unwrap().data.into_owned()).collect()
}

fn decode(payloads: &[String]) -> Outcome {
    let mut decoder = OllamaStreamDecoder::default();
    let mut events = Vec::new();
    for payload in payloads {
        events.extend(decoder.push(payload)?);
    }
    Ok((events, decoder.finish()?))
}

fn decoded(recorded: &Recorded) -> (Vec<ModelEvent>, ModelAnswer) {
    let payloads = payloads(vec![Bytes::copy_from_slice(&recorded.body)]);
    decode(&payloads).unwrap_or_else(|error| panic!("{}: {error:?}", recorded.file))
}

#[test]
fn every_ollama_answer_decodes() {
    let test = "every_ollama_answer_decodes";
    let (Some(all), Some(root)) = (recorded(test), streams(test)) else { return };
    let mut table: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for one in &all {
        let (events, answer) = decoded(one);
        let row = table.entry(one.file.rsplit_once('/').unwrap().0).or_default();
        row[usize::from(payloads(vec![Bytes::copy_from_slice(&one.body)]).len() == 1)] += 1;
        row[2] += usize::from(answer.usage.is_some());
        row[3] += answer.parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count();
        let done: Vec<&Part> = events
            .iter()
            .filter_map(|event| if let ModelEvent::PartDone(part) = event { Some(part) } else { None })
            .collect();
        assert_eq!(done, answer.parts.iter().collect::<Vec<_>>(), "{}", one.file);
    }
    println!("{:<32} streams whole usage calls", "source");
    for (source, [streams, whole, usage, calls]) in &table {
        println!("{source:<32} {streams:>7} {whole:>5} {usage:>5} {calls:>5}");
    }
    let files = fixtures::files(&root).into_iter().filter(|file| file.starts_with("ollama/"));
    assert_eq!(files.collect::<Vec<_>>(), all.iter().map(|one| one.file.clone()).collect::<Vec<_>>());
}

#[test]
fn ollama_golden_results() {
    let Some(all) = recorded("ollama_golden_results") else { return };
    let golden: Vec<String> = all.iter().map(|one| described(one, &decoded(one).1)).collect();
    insta::assert_snapshot!(golden.join("\n"));
}

#[test]
fn a_second_turn_holds_calls_and_thinking_unchanged() {
    let Some(all) = recorded("a_second_turn_holds_calls_and_thinking_unchanged") else { return };
    let provider = OllamaProvider::new(ModelEndpoint::new("ollama", BASE_URL, "qwen3:4b")).unwrap();
    let mut calls = 0;
    for one in &all {
        let (_, answer) = decoded(one);
        let lines = payloads(vec![Bytes::copy_from_slice(&one.body)]);
        let heard = |key: &str| -> String {
            lines
                .iter()
                .filter_map(|line| {
                    let line: Value = serde_json::from_str(line).unwrap();
                    line["message"][key].as_str().map(str::to_owned)
                })
                .collect()
        };
        let parts = answer.parts.clone();
        let messages = vec![
            Message::user("u", vec![Part::text("begin")]),
            Message { id: "a".into(), role: Role::Assistant, parts, origin: Some(provider.origin()) },
        ];
        let sent = provider.render(&ModelRequest { messages, ..ModelRequest::default() }).unwrap();
        let sent = String::from_utf8(sent.to_vec()).unwrap();
        let message = serde_json::from_str::<Value>(&sent).unwrap()["messages"][1].clone();
        assert_eq!(message["content"].as_str().unwrap(), heard("content"), "{}", one.file);
        assert_eq!(message["thinking"].as_str().unwrap_or_default(), heard("thinking"), "{}", one.file);
        for part in &answer.parts {
            let Part::ToolCall(call) = part else { continue };
            let native = call.native.as_ref().unwrap().as_str();
            let is_heard = lines.iter().any(|line| line.contains(native));
            assert!(is_heard && sent.contains(native), "{}: {native}", one.file);
            calls += 1;
        }
    }
    assert_eq!(calls, 1);
}

#[test]
fn ollama_streams_may_be_cut_anywhere() {
    let Some(all) = recorded("ollama_streams_may_be_cut_anywhere") else { return };
    for one in &all {
        check_every_cut(&one.file, &one.body, b"\n", payloads);
        let whole = decode(&payloads(vec![Bytes::copy_from_slice(&one.body)]));
        let cuts = prop::collection::vec(0..=one.body.len(), 1..40);
        let mut runner = TestRunner::new(Config { cases: 8, failure_persistence: None, ..Config::default() });
        let result = runner.run(&cuts, |places| {
            prop_assert_eq!(&decode(&payloads(cut(&one.body, places))), &whole);
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{}: {error}", one.file));
    }
}

#[test]
fn an_ollama_stream_may_be_cut_inside_a_character() {
    let body = concat!(
        "{\"message\":{\"role\":\"assistant\",\"content\":\"é€😀\",\"thinking\":\"…\"},\"done\":false}\r\n\n",
        "{\"message\":{\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"x\",\"arguments\":{\"a\":\"你好\"}}}]},\"done\":false}\n",
        "{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":1,\"eval_count\":2}",
    )
    .as_bytes();
    let whole = decode(&payloads(vec![Bytes::copy_from_slice(body)])).unwrap();
    assert_eq!(whole.1.parts.len(), 3);
    for place in 0..=body.len() {
        assert_eq!(decode(&payloads(cut(body, vec![place]))).unwrap(), whole, "cut at {place}");
    }
}
