//! Every recorded answer goes through the wire and back.

use std::collections::BTreeMap;

use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Message, ModelAnswer, ModelOrigin, Part, RawJson, Role};
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::{RecordedAnswer, RecordedWire, RecordingSet, all};
use crate::sse::{SseEvent, SseReader};
use crate::{ModelEvent, ProviderError, gemini, messages, raw_json, responses};

type Decoded = Result<(Vec<ModelEvent>, ModelAnswer), ProviderError>;

macro_rules! decode {
    ($decoder:ty, $payloads:expr) => {{
        let mut decoder = <$decoder>::default();
        let mut events = Vec::new();
        for payload in $payloads {
            events.extend(decoder.push(payload)?);
        }
        Ok((events, decoder.finish()?))
    }};
}

fn decode<S: AsRef<str>>(wire: RecordedWire, payloads: &[S]) -> Decoded {
    let payloads = payloads.iter().map(AsRef::as_ref);
    match wire {
        RecordedWire::Anthropic => decode!(messages::MessagesStreamDecoder, payloads),
        RecordedWire::Responses => decode!(responses::ResponsesStreamDecoder, payloads),
        RecordedWire::Gemini => decode!(gemini::GeminiStreamDecoder, payloads),
    }
}

fn encode(wire: RecordedWire, message: &Message, target: &ModelOrigin) -> Vec<RawJson> {
    let encoded = match wire {
        RecordedWire::Anthropic => messages::encode_parts(message, target),
        RecordedWire::Responses => responses::encode_parts(message, target),
        RecordedWire::Gemini => gemini::encode_parts(message, target),
    };
    encoded.unwrap()
}

fn origin(name: &str) -> ModelOrigin {
    ModelOrigin { provider: name.into(), api: name.into(), model: name.into() }
}

fn message(answer: &ModelAnswer) -> Message {
    Message {
        id: "m".into(),
        role: Role::Assistant,
        parts: answer.parts.clone(),
        origin: Some(origin("here")),
    }
}

/// Recordings with an expected error at the end.
const FAILS: &[(&str, ErrorCode)] = &[
    // Its first and last line lack their closing brace.
    ("openai/vercel__ai/parallel-tool-call-wrapper.1.chunks.txt", ErrorCode::TruncatedStream),
    // One of its answers is a call that Google could not read.
    ("google-gemini__gemini-cli/context-compress-interactive.compress.responses", ErrorCode::ThirdParty),
];

/// Streams with other content than their answer.
const UNLIKE_THEIR_ANSWER: &[&str] = &[
    // A gateway began twice: what was shown of the void attempt cannot be taken back.
    "spliced-message-start.chunks.txt",
    // Whoever recorded it left most deltas out.
    "openai-phase.1.chunks.txt",
];

fn expected_failure(recording: &RecordedAnswer) -> Option<ErrorCode> {
    FAILS.iter().find(|(file, _)| recording.file.ends_with(file)).map(|(_, code)| *code)
}

fn good(recorded: &RecordingSet) -> Vec<(&RecordedAnswer, Vec<ModelEvent>, ModelAnswer)> {
    let mut answers = Vec::new();
    let mut failures = Vec::new();
    for recording in &recorded.answers {
        match decode(recording.wire, &recording.payloads) {
            Ok((events, answer)) => answers.push((recording, events, answer)),
            Err(error) if expected_failure(recording) == Some(error.code) => {}
            Err(error) => failures.push(format!("{}: {} {error}", recording.file, error.code)),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    answers
}

#[test]
fn every_recording_decodes() {
    let Some(recorded) = all("every_recording_decodes") else { return };
    let mut counts: BTreeMap<(String, RecordedWire, bool), usize> = BTreeMap::new();
    for (recording, ..) in good(&recorded) {
        let provider = recording.file.split('/').next().unwrap().to_owned();
        *counts.entry((provider, recording.wire, recording.streamed)).or_default() += 1;
    }
    for (file, code) in FAILS {
        let mut of_file = recorded.answers.iter().filter(|recording| recording.file.ends_with(file));
        let fails = |recording: &RecordedAnswer| {
            decode(recording.wire, &recording.payloads).is_err_and(|error| error.code == *code)
        };
        assert!(of_file.any(fails), "{file}");
        println!("fails as it should: {file} ({code})");
    }
    for ((provider, wire, streamed), count) in &counts {
        println!("{provider:18} {wire:?} {}: {count}", if *streamed { "streamed" } else { "whole" });
    }
    for skipped in &recorded.skipped {
        println!("skipped: {}: {}", skipped.file, skipped.reason);
    }
    let streams = |wire| {
        counts.iter().filter(|((_, of, streamed), _)| *of == wire && *streamed).map(|(_, n)| n).sum::<usize>()
    };
    assert!(
        streams(RecordedWire::Anthropic) >= 10
            && streams(RecordedWire::Responses) >= 30
            && streams(RecordedWire::Gemini) >= 30
    );
}

#[test]
fn parts_survive_storage() {
    let Some(recorded) = all("parts_survive_storage") else { return };
    for (recording, _, answer) in good(&recorded) {
        let message = message(&answer);
        let stored = serde_json::to_string(&message).unwrap();
        let back: Message = serde_json::from_str(&stored).unwrap();
        assert_eq!(back, message, "{}", recording.file);
        let stored = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<ModelAnswer>(&stored).unwrap(), answer, "{}", recording.file);
    }
}

#[test]
fn events_agree_with_the_answer() {
    let Some(recorded) = all("events_agree_with_the_answer") else { return };
    for (recording, events, answer) in good(&recorded) {
        if UNLIKE_THEIR_ANSWER.iter().any(|file| recording.file.ends_with(file)) {
            continue;
        }
        let done: Vec<&Part> = events
            .iter()
            .filter_map(|event| match event {
                ModelEvent::PartDone(part) => Some(part),
                _ => None,
            })
            .collect();
        assert_eq!(done, answer.parts.iter().collect::<Vec<_>>(), "{}", recording.file);
        let arguments = |parts: &[Part]| -> Vec<String> {
            parts
                .iter()
                .filter_map(
                    |part| if let Part::ToolCall(call) = part { Some(call.arguments.clone()) } else { None },
                )
                .collect()
        };
        if recording.streamed {
            assert_eq!(shown(&events, false), said(&answer, false), "text of {}", recording.file);
            assert_eq!(shown(&events, true), said(&answer, true), "reasoning of {}", recording.file);
            assert_eq!(inputs(&events), arguments(&answer.parts), "arguments of {}", recording.file);
        }
    }
}

fn shown(events: &[ModelEvent], reasoning: bool) -> String {
    let texts = events.iter().filter_map(|event| match event {
        ModelEvent::Text(text) if !reasoning => Some(text.as_str()),
        ModelEvent::Reasoning(text) if reasoning => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn said(answer: &ModelAnswer, reasoning: bool) -> String {
    let texts = answer.parts.iter().filter_map(|part| match part {
        Part::Text(text) if !reasoning => Some(text.text.as_str()),
        Part::Reasoning(part) if reasoning => Some(part.text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn inputs(events: &[ModelEvent]) -> Vec<String> {
    let mut inputs: BTreeMap<usize, String> = BTreeMap::new();
    for event in events {
        if let ModelEvent::ToolInput { index, delta, .. } = event {
            inputs.entry(*index).or_default().push_str(delta);
        }
    }
    inputs.into_values().collect()
}

/// Returns the items for the provider's next request, assembled without the decoders.
fn expected_items(recording: &RecordedAnswer) -> Vec<Value> {
    let payloads =
        recording.payloads.iter().filter_map(|payload| serde_json::from_str::<Value>(payload).ok());
    let payloads: Vec<Value> = payloads.collect();
    match (recording.wire, recording.streamed) {
        (RecordedWire::Anthropic, true) => anthropic_blocks(&payloads),
        (RecordedWire::Anthropic, false) => payloads[0]["content"].as_array().unwrap().clone(),
        (RecordedWire::Responses, true) => response_items(&payloads),
        (RecordedWire::Responses, false) => payloads[0]["output"].as_array().unwrap().clone(),
        (RecordedWire::Gemini, _) => {
            let parts =
                payloads.iter().filter_map(|chunk| chunk["candidates"][0]["content"]["parts"].as_array());
            parts.flatten().cloned().collect()
        }
    }
}

fn anthropic_blocks(payloads: &[Value]) -> Vec<Value> {
    let mut blocks: BTreeMap<u64, Value> = BTreeMap::new();
    let mut inputs: BTreeMap<u64, String> = BTreeMap::new();
    for event in payloads {
        let index = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str().unwrap() {
            "message_start" => (blocks, inputs) = Default::default(),
            "content_block_start" => {
                blocks.insert(index, event["content_block"].clone());
            }
            "content_block_delta" => match event["delta"]["type"].as_str().unwrap() {
                "input_json_delta" => {
                    inputs
                        .entry(index)
                        .or_default()
                        .push_str(event["delta"]["partial_json"].as_str().unwrap());
                }
                "citations_delta" => {
                    let block = blocks.get_mut(&index).unwrap();
                    block["citations"].as_array_mut().unwrap().push(event["delta"]["citation"].clone());
                }
                kind => {
                    let key = match kind {
                        "text_delta" => "text",
                        "thinking_delta" => "thinking",
                        "signature_delta" => "signature",
                        "compaction_delta" => "content",
                        other => panic!("the test knows no {other}"),
                    };
                    let old = blocks[&index][key].as_str().unwrap_or_default().to_owned();
                    let new = old + event["delta"][key].as_str().unwrap_or_default();
                    blocks.get_mut(&index).unwrap()[key] = new.into();
                }
            },
            _ => {}
        }
    }
    for (index, input) in inputs.iter().filter(|(_, input)| !input.is_empty()) {
        blocks.get_mut(index).unwrap()["input"] = serde_json::from_str(input).unwrap_or(Value::Null);
    }
    blocks.into_values().collect()
}

fn response_items(payloads: &[Value]) -> Vec<Value> {
    let done = payloads.iter().filter(|event| event["type"] == "response.output_item.done");
    let mut items: Vec<Value> = done.map(|event| event["item"].clone()).collect();
    let closing = payloads
        .iter()
        .find_map(|event| event["response"]["output"].as_array().filter(|output| !output.is_empty()));
    for item in closing.into_iter().flatten() {
        if !items.iter().any(|known| known["id"] == item["id"]) {
            items.push(item.clone());
        }
    }
    items
}

/// Reports whether an item has content for the next request.
fn matters(item: &Value) -> bool {
    let empty = |value: &Value| value.is_null() || value == "" || value == &Value::Array(Vec::new());
    match item["type"].as_str() {
        Some("text") => !empty(&item["text"]),
        Some("thinking") => !empty(&item["signature"]),
        Some("message") => item["content"]
            .as_array()
            .is_some_and(|parts| !parts.iter().all(|part| empty(&part["text"]) && empty(&part["refusal"]))),
        _ => true,
    }
}

/// Returns an item without empty fields.
fn bare(item: &Value) -> Value {
    match item {
        Value::Object(fields) => {
            let says = |value: &Value| !value.is_null() && value != &Value::Array(Vec::new());
            Value::Object(
                fields
                    .iter()
                    .filter(|(_, value)| says(value))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

#[test]
fn anthropic_and_responses_get_their_items_back() {
    let Some(recorded) = all("anthropic_and_responses_get_their_items_back") else { return };
    let mut compared = 0;
    for (recording, _, answer) in good(&recorded) {
        if recording.wire == RecordedWire::Gemini {
            continue;
        }
        let sent = encode(recording.wire, &message(&answer), &origin("here"));
        let sent: Vec<Value> =
            sent.iter().map(|item| bare(&serde_json::from_str(item.as_str()).unwrap())).collect();
        let expected: Vec<Value> =
            expected_items(recording).iter().filter(|item| matters(item)).map(bare).collect();
        assert_eq!(sent, expected, "{}", recording.file);
        compared += sent.len();
    }
    assert!(compared > 100, "{compared} items");
}

/// Bytes, not only values: items of the Responses API are told whole, arguments of all wires too.
#[test]
fn bytes_are_not_touched() {
    let Some(recorded) = all("bytes_are_not_touched") else { return };
    for (recording, _, answer) in good(&recorded) {
        let heard = recording.payloads.concat();
        let assembled = recording.wire == RecordedWire::Anthropic && recording.streamed;
        for part in answer.parts.iter().filter(|_| !assembled) {
            let partial = heard.contains("\"partialArgs\"") && matches!(part, Part::ToolCall(_));
            if let Some(native) = raw_json::native(part).filter(|_| !partial) {
                assert!(heard.contains(native.as_str()), "{}: {native:?}", recording.file);
            }
        }
        if assembled {
            argument_pieces(recording, &answer);
        }
    }
}

fn argument_pieces(recording: &RecordedAnswer, answer: &ModelAnswer) {
    let mut pieces: BTreeMap<u64, String> = BTreeMap::new();
    let mut tools: Vec<u64> = Vec::new();
    for payload in recording.payloads.iter().filter_map(|payload| serde_json::from_str::<Value>(payload).ok())
    {
        let index = payload["index"].as_u64().unwrap_or_default();
        if payload["type"] == "message_start" {
            (pieces, tools) = Default::default();
        }
        if payload["content_block"]["type"] == "tool_use" {
            tools.push(index);
        }
        if let Some(piece) = payload["delta"]["partial_json"].as_str() {
            pieces.entry(index).or_default().push_str(piece);
        }
    }
    let calls = answer
        .parts
        .iter()
        .filter_map(|part| if let Part::ToolCall(call) = part { Some(call) } else { None });
    for (call, index) in calls.zip(tools) {
        let whole = pieces.get(&index).filter(|piece| !piece.is_empty()).map_or("{}", String::as_str);
        assert_eq!(call.arguments, whole, "{}", recording.file);
    }
}

#[test]
fn gemini_gets_signatures_and_calls_back() {
    let Some(recorded) = all("gemini_gets_signatures_and_calls_back") else { return };
    let (mut signatures, mut calls) = (0, 0);
    for (recording, _, answer) in good(&recorded) {
        if recording.wire != RecordedWire::Gemini {
            continue;
        }
        let sent = encode(recording.wire, &message(&answer), &origin("here"));
        let sent: Vec<Value> = sent.iter().map(|part| serde_json::from_str(part.as_str()).unwrap()).collect();
        let heard = expected_items(recording);
        let signed = |parts: &[Value]| -> Vec<Value> {
            parts.iter().filter(|part| part.get("thoughtSignature").is_some()).map(signed_part).collect()
        };
        assert_eq!(signed(&sent), signed(&heard), "{}", recording.file);
        let plain = |parts: &[Value]| -> String {
            parts
                .iter()
                .filter(|part| part["thought"] != true)
                .filter_map(|part| part["text"].as_str())
                .collect()
        };
        assert_eq!(plain(&sent), plain(&heard), "{}", recording.file);
        if !recording.payloads.concat().contains("partialArgs") {
            let other = |parts: &[Value]| -> Vec<Value> {
                parts.iter().filter(|part| part.get("text").is_none()).cloned().collect()
            };
            assert_eq!(other(&sent), other(&heard), "{}", recording.file);
            calls += other(&sent).len();
        }
        signatures += signed(&sent).len();
    }
    assert!(signatures > 10 && calls > 10, "{signatures} signatures, {calls} calls");
}

/// A signed part, without arguments: the arguments may be from pieces.
fn signed_part(part: &Value) -> Value {
    let mut bare = Map::new();
    for (key, value) in part.as_object().unwrap() {
        let value = if key == "functionCall" { value["name"].clone() } else { value.clone() };
        bare.insert(key.clone(), value);
    }
    Value::Object(bare)
}

#[test]
fn other_models_get_text_and_calls_only() {
    let Some(recorded) = all("other_models_get_text_and_calls_only") else { return };
    for (recording, _, answer) in good(&recorded) {
        let message = message(&answer);
        let broken = message.tool_calls().any(|call| raw_json::RawObject::parse(&call.arguments).is_none());
        for wire in [RecordedWire::Anthropic, RecordedWire::Responses, RecordedWire::Gemini] {
            if broken {
                continue;
            }
            for item in encode(wire, &message, &origin("elsewhere")) {
                assert!(serde_json::from_str::<Value>(item.as_str()).is_ok());
                for secret in [
                    "\"signature\"",
                    "\"thoughtSignature\"",
                    "\"encrypted_content\"",
                    "\"redacted_thinking\"",
                ] {
                    let text = message
                        .parts
                        .iter()
                        .any(|part| part.as_text().is_some_and(|text| text.contains(secret)));
                    assert!(text || !item.as_str().contains(secret), "{}: {item:?}", recording.file);
                }
            }
        }
    }
}

#[test]
fn every_stream_cut_short_is_an_error() {
    let Some(recorded) = all("every_stream_cut_short_is_an_error") else { return };
    let mut cuts = 0;
    for (recording, ..) in good(&recorded).iter().filter(|(recording, ..)| recording.streamed) {
        let whole = |n: &usize| decode(recording.wire, &recording.payloads[..*n]).is_ok();
        let lengths: Vec<usize> = (0..=recording.payloads.len()).collect();
        let shortest = lengths.partition_point(|n| !whole(n));
        for end in (0..shortest).step_by(shortest.div_ceil(40)) {
            let error = decode(recording.wire, &recording.payloads[..end]).unwrap_err();
            assert_eq!(error.code, ErrorCode::TruncatedStream, "{} after {end}", recording.file);
            cuts += 1;
        }
        let rest: Vec<&str> = recording.payloads[shortest..].iter().map(|payload| payload.as_str()).collect();
        // An answer is whole behind its stop reason. Only the closing event may be missing.
        let closes = |payload: &&str| *payload == "[DONE]" || payload.contains(r#""type":"message_stop""#);
        let late = recording.wire == RecordedWire::Gemini || rest.iter().all(closes);
        assert!(late, "{} closes {} payloads early", recording.file, rest.len());
    }
    assert!(cuts > 500, "{cuts} cuts");
}

#[test]
fn an_event_cut_short_is_an_error() {
    let Some(recorded) = all("an_event_cut_short_is_an_error") else { return };
    for (recording, ..) in good(&recorded).iter().filter(|(recording, ..)| recording.streamed) {
        let mut payloads = recording.payloads.clone();
        payloads.retain(|payload| payload != "[DONE]");
        let last = payloads.pop().unwrap();
        let half = last.char_indices().nth(last.chars().count() / 2).unwrap().0;
        payloads.push(last[..half].to_owned());
        let result = decode(recording.wire, &payloads);
        let settled = recording.wire == RecordedWire::Gemini
            && decode(recording.wire, &payloads[..payloads.len() - 1]).is_ok();
        assert!(
            settled || result.is_err_and(|error| error.code == ErrorCode::TruncatedStream),
            "{}",
            recording.file
        );
    }
}

fn body(recording: &RecordedAnswer) -> Vec<u8> {
    recording
        .payloads
        .iter()
        .map(|payload| format!("event: x\r\ndata: {payload}\r\n\r\n"))
        .collect::<String>()
        .into_bytes()
}

/// The payloads of a body in pieces.
fn reassemble(pieces: Vec<Vec<u8>>) -> Vec<String> {
    let mut reader = SseReader::default();
    let mut payloads = Vec::new();
    for piece in pieces {
        reader.feed(Bytes::from(piece));
        while let Some(raw) = reader.next_event() {
            payloads.push(SseEvent::parse(&raw).data.into_owned());
        }
    }
    assert!(reader.take_rest().is_empty(), "every event has its empty line");
    payloads
}

#[test]
fn where_the_network_cuts_makes_no_difference() {
    let Some(recorded) = all("where_the_network_cuts_makes_no_difference") else { return };
    for (recording, events, answer) in good(&recorded).iter().filter(|(recording, ..)| recording.streamed) {
        for size in [7, 1_000] {
            let pieces = body(recording).chunks(size).map(<[u8]>::to_vec).collect();
            let (again, same) = decode(recording.wire, &reassemble(pieces)).unwrap();
            assert_eq!((&again, &same), (events, answer), "{}", recording.file);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_cut_gives_the_same_answer(cuts in prop::collection::vec(0usize..6_000, 0..30)) {
        for (wire, payloads) in SAMPLES {
            let body = payloads.iter().map(|payload| format!("data: {payload}\n\n")).collect::<String>().into_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % body.len()).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| body[pair[0]..pair[1]].to_vec()).collect();
            prop_assert_eq!(decode(*wire, &reassemble(pieces)), decode(*wire, payloads));
        }
    }

    #[test]
    fn no_payload_makes_a_decoder_panic(at in any::<prop::sample::Index>(), from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>()) {
        for (wire, payloads) in SAMPLES {
            let mut payloads: Vec<String> = payloads.iter().map(|payload| (*payload).to_owned()).collect();
            let at = at.index(payloads.len());
            let victim: Vec<char> = payloads[at].chars().collect();
            let (from, to) = (from.index(victim.len()), to.index(victim.len()));
            payloads[at] = victim[..from.min(to)].iter().chain(&victim[from.max(to)..]).collect();
            if let Ok((_, answer)) = decode(*wire, &payloads) {
                let stored = serde_json::to_string(&answer).unwrap();
                prop_assert_eq!(serde_json::from_str::<ModelAnswer>(&stored).unwrap(), answer);
            }
        }
    }
}

const SAMPLES: &[(RecordedWire, &[&str])] = &[
    (
        RecordedWire::Anthropic,
        &[
            r#"{"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Größe 你好"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"n","input":{}}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\": 1.0}"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}"#,
            r#"{"type":"message_stop"}"#,
        ],
    ),
    (
        RecordedWire::Responses,
        &[
            r#"{"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}}"#,
            r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"m","type":"message","content":[]}}"#,
            r#"{"type":"response.output_text.delta","output_index":0,"item_id":"m","delta":"Größe 你好"}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"m","type":"message","content":[{"type":"output_text","text":"Größe 你好"}]}}"#,
            r#"{"type":"response.completed","response":{"id":"r","status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":4}}}"#,
        ],
    ),
    (
        RecordedWire::Gemini,
        &[
            r#"{"candidates":[{"content":{"parts":[{"text":"Größe ","thought":true}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"你好"},{"text":"","thoughtSignature":"c2ln"}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"n","args":{"a": 1.0}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3}}"#,
        ],
    ),
];
