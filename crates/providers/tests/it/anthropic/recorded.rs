//! Every recorded answer of the Messages API decodes, however the network cuts the body, and goes back unchanged.

mod fixture;
mod second_turn;

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::FutureExt;
use longhaul_providers::anthropic::MessagesStreamDecoder;
use longhaul_providers::sse;
use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, TestRunner};

use super::*;
use fixture::{Recording, recorded};

type Decoded = Result<(Vec<ModelEvent>, ModelAnswer), ProviderError>;

/// Decodes a body in the given pieces.
fn decode(pieces: Vec<Bytes>) -> Decoded {
    let first = pieces.iter().find_map(|piece| piece.trim_ascii_start().first().copied());
    let mut decoder = MessagesStreamDecoder::default();
    let mut events = Vec::new();
    if first == Some(b'{') {
        events.extend(decoder.push(std::str::from_utf8(&pieces.concat()).unwrap())?);
        return decoder.finish().map(|answer| (events, answer));
    }
    let mut arriving = sse::events(futures_util::stream::iter(pieces.into_iter().map(Ok)));
    // All pieces are there: nothing is waited for.
    while let Some(event) = arriving.next().now_or_never().unwrap() {
        events.extend(decoder.push(&event?.data)?);
    }
    decoder.finish().map(|answer| (events, answer))
}

fn whole(body: &[u8]) -> Decoded {
    decode(vec![Bytes::copy_from_slice(body)])
}

fn cut(body: &[u8], mut places: Vec<usize>) -> Vec<Bytes> {
    places.extend([0, body.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| Bytes::copy_from_slice(&body[pair[0]..pair[1]])).collect()
}

fn kinds(answer: &ModelAnswer) -> [usize; 4] {
    let mut found = [0; 4];
    for part in &answer.parts {
        match part {
            Part::Text(_) => found[0] += 1,
            Part::Reasoning(_) => found[1] += 1,
            Part::ToolCall(_) => found[2] += 1,
            _ => found[3] += 1,
        }
    }
    found
}

#[test]
fn every_recording_decodes_and_every_other_is_named() {
    let Some(recorded) = recorded("every_recording_decodes_and_every_other_is_named") else { return };
    let mut table: BTreeMap<&str, [usize; 8]> = BTreeMap::new();
    for recording in &recorded.answers {
        let (events, answer) =
            whole(&recording.body).unwrap_or_else(|error| panic!("{}: {error:?}", recording.file));
        let row = table.entry(recording.provider()).or_default();
        row[0] += 1;
        row[1] += usize::from(recording.is_streamed());
        row[2] += usize::from(answer.usage.is_some());
        row.iter_mut().skip(3).zip(kinds(&answer)).for_each(|(sum, more)| *sum += more);
        deltas_agree(recording, &events, &answer);
    }
    for (file, ..) in &recorded.errors {
        table.entry(file.split('/').next().unwrap()).or_default()[7] += 1;
    }
    println!("{:<12} answers streams usage texts reasoning calls opaque refusals", "provider");
    for (provider, [answers, streams, usage, texts, reasoning, calls, opaque, errors]) in &table {
        println!(
            "{provider:<12} {answers:>7} {streams:>7} {usage:>5} {texts:>5} {reasoning:>9} {calls:>5} {opaque:>6} {errors:>8}"
        );
    }
    for (file, reason) in &recorded.others {
        println!("not this wire: {file}: {reason}");
    }
    let sum = |column: usize| table.values().map(|row| row[column]).sum::<usize>();
    assert!(sum(0) >= 50 && sum(1) >= 15 && sum(7) >= 8, "{table:?}");
    assert_eq!(sum(0), sum(2), "every answer says what it used");
}

/// Checks that the streamed content equals the answer's content.
fn deltas_agree(recording: &Recording, events: &[ModelEvent], answer: &ModelAnswer) {
    let (mut text, mut inputs) = (String::new(), BTreeMap::<usize, String>::new());
    for event in events {
        match event {
            ModelEvent::Text(more) => text.push_str(more),
            ModelEvent::ToolInput { index, delta, .. } => inputs.entry(*index).or_default().push_str(delta),
            _ => {}
        }
    }
    // A gateway began twice: what was shown of the void attempt cannot be taken back.
    if recording.is_streamed() && !recording.file.ends_with("spliced-message-start.chunks.txt") {
        let said: String = answer.parts.iter().filter_map(Part::as_text).collect();
        let arguments: Vec<&str> = calls(answer).map(|call| call.arguments.as_str()).collect();
        assert_eq!(said, text, "{}", recording.file);
        assert_eq!(arguments, inputs.values().collect::<Vec<_>>(), "{}", recording.file);
    }
}

fn calls(answer: &ModelAnswer) -> impl Iterator<Item = &ToolCall> {
    answer.parts.iter().filter_map(|part| if let Part::ToolCall(call) = part { Some(call) } else { None })
}

#[test]
fn recorded_refusals_are_told_apart() {
    let Some(recorded) = recorded("recorded_refusals_are_told_apart") else { return };
    for (file, status, body) in recorded.errors {
        let shown = body.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (_, error) = runtime.block_on(against(move |_| answer(status, "application/json", body.clone())));
        let error = error.unwrap();
        let expected = match status {
            401 => ErrorCode::Auth,
            404 => ErrorCode::NotFound,
            400 if file.contains("overflow_messages") => ErrorCode::ContextOverflow,
            400 => ErrorCode::InvalidRequest,
            other => panic!("{file}: {other}"),
        };
        assert_eq!((error.code, error.retryable, error.body), (expected, false, Some(shown)), "{file}");
    }
}

#[test]
fn where_the_network_cuts_makes_no_difference() {
    let Some(recorded) = recorded("where_the_network_cuts_makes_no_difference") else { return };
    let mut cuts = 0;
    for recording in recorded.answers.iter().filter(|recording| recording.is_streamed()) {
        let lines = std::str::from_utf8(&recording.body).unwrap();
        for body in [lines.to_owned(), lines.replace('\n', "\r\n")] {
            let body = body.as_bytes();
            let expected = whole(body).unwrap();
            let single = body.iter().map(|byte| Bytes::copy_from_slice(&[*byte])).collect();
            assert_eq!(decode(single).unwrap(), expected, "{}: byte by byte", recording.file);
            for place in 0..=body.len() {
                assert_eq!(
                    decode(cut(body, vec![place])).unwrap(),
                    expected,
                    "{}: cut at {place}",
                    recording.file
                );
            }
            cuts += body.len();
            let places = prop::collection::vec(0..=body.len(), 1..40);
            let mut runner =
                TestRunner::new(Runs { cases: 24, failure_persistence: None, ..Runs::default() });
            let result = runner.run(&places, |places| {
                prop_assert_eq!(&decode(cut(body, places)).unwrap(), &expected);
                Ok(())
            });
            result.unwrap_or_else(|error| panic!("{}: {error}", recording.file));
        }
    }
    println!("{cuts} single cuts");
    assert!(cuts > 50_000, "{cuts} single cuts");
}

#[test]
fn every_stream_cut_short_is_an_error_with_its_usage() {
    let Some(recorded) = recorded("every_stream_cut_short_is_an_error_with_its_usage") else { return };
    for recording in recorded.answers.iter().filter(|recording| recording.is_streamed()) {
        let body = std::str::from_utf8(&recording.body).unwrap().trim_ascii_end();
        // The event with the stop reason ends the answer, and only `message_stop` follows it.
        let last_event = body.rfind("message_delta").unwrap();
        // Half a character at the end is an error too, but not yet this one.
        for end in (0..last_event).step_by(7).filter(|end| body.is_char_boundary(*end)) {
            let body = body.as_bytes();
            let error = whole(&body[..end]).unwrap_err();
            assert_eq!(error.code, ErrorCode::TruncatedStream, "{} after {end}", recording.file);
            let started = body[..end].windows(3).any(|three| three == b"}}\n");
            assert!(!started || error.usage.is_some(), "{} after {end}", recording.file);
        }
    }
}

/// A line for an answer: stop reason, usage and parts.
fn line(recording: &Recording, answer: &ModelAnswer) -> String {
    let usage = answer.usage.as_ref().unwrap();
    let parts: Vec<String> = answer.parts.iter().map(describe).collect();
    let envelope: Value = serde_json::from_str(answer.envelope.as_ref().unwrap().as_str()).unwrap();
    let more = envelope.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
    let more: Vec<&str> = more.map(|(key, _)| key.as_str()).filter(|key| !USUAL.contains(key)).collect();
    format!(
        "{}\n    {:?} ({}) in {} (read {}, written {}) out {} (reasoning {}) envelope +{:?}\n    {}\n",
        recording.file,
        answer.finish,
        envelope["stop_reason"].as_str().unwrap(),
        usage.input_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
        more,
        parts.join("\n    "),
    )
}

/// Fields of every envelope.
const USUAL: &[&str] = &["id", "type", "role", "model", "stop_reason"];

fn describe(part: &Part) -> String {
    let native = |native: &Option<RawJson>| native.as_ref().map_or(0, |json| json.as_str().len());
    match part {
        Part::Text(text) => {
            format!("text {} characters, own {} bytes", text.text.chars().count(), native(&text.native))
        }
        Part::Reasoning(ReasoningPart { text, native: own }) => {
            format!("reasoning {} characters, own {} bytes", text.chars().count(), native(own))
        }
        Part::ToolCall(call) => format!(
            "call {} with {} bytes, own {} bytes",
            call.name,
            call.arguments.len(),
            native(&call.native)
        ),
        Part::Opaque(block) => format!("{} of {} bytes", block.kind, block.native.as_str().len()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn golden_results() {
    let Some(recorded) = recorded("golden_results") else { return };
    let lines = recorded.answers.iter().map(|recording| line(recording, &whole(&recording.body).unwrap().1));
    insta::assert_snapshot!(lines.collect::<String>());
}
