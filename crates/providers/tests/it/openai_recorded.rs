//! Every recorded answer of the two wires of OpenAI decodes, however the network cuts the body, and goes back
//! unchanged.

mod reading;
mod second_turn;
mod unsupported;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{ModelAnswer, Part};
use longhaul_providers::openai_chat::stream::ChatStreamDecoder as ChatDecoder;
use longhaul_providers::openai_responses::ResponsesStreamDecoder as ResponsesDecoder;
use longhaul_providers::{ModelEvent, ProviderError, sse};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::gemini_recorded::Outcome;
use crate::gemini_recorded::cuts::cut;
use crate::gemini_recorded::described::described;

use self::reading::{One, Wire, recorded};

/// An answer with a provider's error in the middle, and a recording whose first and last line lack their closing
/// brace.
const FAILS: &[(&str, ErrorCode)] = &[
    ("test_tool_use_failed_error_streaming", ErrorCode::ThirdParty),
    ("openai/vercel__ai/parallel-tool-call-wrapper.1.chunks.txt", ErrorCode::TruncatedStream),
];

/// The data of the events of a body in the given pieces.
fn payloads(pieces: Vec<Bytes>) -> Vec<String> {
    let events = sse::events(futures_util::stream::iter(pieces.into_iter().map(Ok)));
    let events: Vec<_> = events.collect().now_or_never().unwrap();
    events.into_iter().map(|event| event.unwrap().data.into_owned()).collect()
}

fn decode(wire: Wire, payloads: &[String]) -> Outcome {
    macro_rules! read {
        ($decoder:ty) => {{
            let mut decoder = <$decoder>::default();
            let mut events = Vec::new();
            for payload in payloads {
                events.extend(decoder.push(payload)?);
            }
            Ok((events, decoder.finish()?))
        }};
    }
    match wire {
        Wire::Chat => read!(ChatDecoder),
        Wire::Responses => read!(ResponsesDecoder),
    }
}

/// All complete answers, decoded.
fn answers(all: &'static [One]) -> impl Iterator<Item = (&'static One, ModelAnswer)> {
    all.iter().filter_map(|one| Some((one, one.decoded().ok()?.1)))
}

fn calls(answer: &ModelAnswer) -> impl Iterator<Item = &longhaul_core::message::ToolCall> {
    answer.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    })
}

/// Files of a provider; answers, streams among them, those with usage, calls, reasoning, errors.
type Row<'a> = (BTreeSet<&'a str>, [usize; 6]);

#[test]
fn every_answer_decodes_or_fails_as_it_should() {
    let Some(all) = recorded("every_answer_decodes_or_fails_as_it_should") else { return };
    let mut table: BTreeMap<(&str, Wire), Row<'_>> = BTreeMap::new();
    let mut failed = BTreeSet::new();
    for one in all {
        let expected = FAILS.iter().find(|(name, _)| one.file().contains(name));
        let provider = one.file().split('/').next().unwrap();
        let (files, row) = table.entry((provider, one.wire)).or_default();
        files.insert(one.file());
        row[0] += 1;
        row[1] += usize::from(one.is_streamed());
        match (one.decoded(), expected) {
            (Err(ProviderError { code, .. }), Some((name, expected))) if code == *expected => {
                failed.insert(*name);
                row[5] += 1;
            }
            (Err(error), _) => panic!("{}: {error:?}", one.file()),
            (Ok((events, answer)), _) => {
                row[2] += usize::from(answer.usage.is_some());
                row[3] += calls(&answer).count();
                row[4] += answer.parts.iter().filter(|part| matches!(part, Part::Reasoning(_))).count();
                assert!(answer.envelope.is_some(), "{}: no envelope", one.file());
                deltas_say_the_answer(one, &events, &answer);
            }
        }
    }
    println!("{:<20} wire      files answers streams usage calls reasoning errors", "provider");
    for ((provider, wire), (files, [answers, streams, usage, calls, reasoning, errors])) in &table {
        let (wire, files) = (format!("{wire:?}"), files.len());
        println!(
            "{provider:<20} {wire:<9} {files:>5} {answers:>7} {streams:>7} {usage:>5} {calls:>5} {reasoning:>9} {errors:>6}"
        );
    }
    let of = |wire| all.iter().filter(|one| one.wire == wire && one.is_streamed()).count();
    assert!(of(Wire::Chat) >= 70 && of(Wire::Responses) >= 30, "{} {}", of(Wire::Chat), of(Wire::Responses));
    assert_eq!(failed.len(), FAILS.len(), "{failed:?}");
}

/// Streams with other content than their answer: the recording lacks most deltas.
const UNLIKE_THEIR_ANSWER: &[&str] = &["openai-phase.1.chunks.txt"];

fn deltas_say_the_answer(one: &One, events: &[ModelEvent], answer: &ModelAnswer) {
    if !one.is_streamed() || UNLIKE_THEIR_ANSWER.iter().any(|file| one.file().ends_with(file)) {
        return;
    }
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
    assert_eq!(said, text, "{}", one.file());
    let shown: Vec<String> = inputs.into_values().collect();
    let ours: Vec<&str> = calls(answer).map(|call| call.arguments.as_str()).collect();
    if one.wire == Wire::Chat {
        assert_eq!(ours, shown, "{}", one.file());
    } else {
        assert_eq!(ours.len(), shown.len(), "{}", one.file());
    }
}

#[test]
fn openai_golden_results() {
    let Some(all) = recorded("openai_golden_results") else { return };
    for (name, wire) in [("golden_chat", Wire::Chat), ("golden_responses", Wire::Responses)] {
        let of_wire = answers(all).filter(|(one, _)| one.wire == wire);
        let golden: Vec<String> = of_wire.map(|(one, answer)| described(&one.recorded, &answer)).collect();
        insta::assert_snapshot!(name, golden.join("\n"));
    }
}

/// Bodies up to this size are cut at every place, longer ones at many.
const EVERY_CUT_BYTES: usize = 3_000;

#[test]
fn where_the_network_cuts_makes_no_difference_to_openai() {
    let Some(all) = recorded("where_the_network_cuts_makes_no_difference_to_openai") else { return };
    let mut everywhere = 0;
    for one in all.iter().filter(|one| one.is_streamed()) {
        let (body, whole) = (&one.recorded.body, one.payloads());
        let check = |places: Vec<usize>| payloads(cut(body, places)) == whole;
        assert!(check((0..body.len()).collect()), "{} in single bytes", one.file());
        if body.len() <= EVERY_CUT_BYTES {
            everywhere += 1;
            assert!((0..=body.len()).all(|place| check(vec![place])), "{}", one.file());
        }
        let cuts = prop::collection::vec(0..=body.len(), 1..40);
        let config = Config { cases: 12, failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&cuts, |places| {
                prop_assert_eq!(&decode(one.wire, &payloads(cut(body, places))), &one.decoded());
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{}: {error}", one.file()));
    }
    println!("{everywhere} streams were cut at every place");
    assert!(everywhere >= 10, "{everywhere}");
}

#[test]
fn every_stream_cut_short_is_truncated() {
    let Some(all) = recorded("every_stream_cut_short_is_truncated") else { return };
    let mut cuts = 0;
    for (one, _) in answers(all).filter(|(one, _)| one.is_streamed()) {
        let payloads = one.payloads();
        let lengths: Vec<usize> = (0..=payloads.len()).collect();
        let shortest = lengths.partition_point(|n| decode(one.wire, &payloads[..*n]).is_err());
        for end in (0..shortest).step_by(shortest.div_ceil(30)) {
            let error = decode(one.wire, &payloads[..end]).unwrap_err();
            assert_eq!(error.code, ErrorCode::TruncatedStream, "{} after {end}", one.file());
            cuts += 1;
        }
    }
    assert!(cuts > 1_000, "{cuts} cuts");
}

#[test]
fn decoding_survives_a_cut_at_every_single_byte() {
    let body = concat!(
        ": ping\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"é€😀\",\"reasoning\":\"…\"}}]}\r\n\r\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\",\"arguments\":\"{}\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\ndata: [DONE]",
    )
    .as_bytes();
    let whole = decode(Wire::Chat, &payloads(vec![Bytes::copy_from_slice(body)])).unwrap();
    assert_eq!(whole.1.parts.len(), 3);
    for place in 0..=body.len() {
        assert_eq!(decode(Wire::Chat, &payloads(cut(body, vec![place]))).unwrap(), whole, "cut at {place}");
    }
}
