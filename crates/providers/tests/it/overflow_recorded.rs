//! Recorded errors of every wire: the overflows among them are recognised, the others never.

use longhaul_core::estimate::text_tokens;
use longhaul_core::message::{ModelAnswer, ModelStopReason, Part};
use longhaul_core::usage::Usage;
use longhaul_providers::LimitSource;
use longhaul_wire::overflow::{
    AnsweredRequestTokens, ReportedOverflow, SuspectedOverflow, recognise, suspect,
};
use serde_json::Value;

use crate::fixtures::{self, streams};

#[test]
fn recorded_errors_are_told_apart() {
    let Some(root) = streams("recorded_errors_are_told_apart") else { return };
    let mut errors: Vec<_> = fixtures::cassettes(&root)
        .into_iter()
        .filter(|exchange| exchange.status >= 400)
        .map(|exchange| (exchange.file, exchange.status, exchange.body))
        .collect();
    let (overflows, others): (Vec<_>, Vec<_>) =
        errors.drain(..).partition(|(file, ..)| file.contains("context_overflow"));
    // A wrong path would find no recordings and pass.
    assert!(others.len() >= 40, "{} recorded errors", others.len());
    for (file, status, body) in &others {
        assert_eq!(recognise(Some(*status), body), None, "{file}: {status} {body}");
        // Inside a stream the same errors come without a status.
        assert_eq!(recognise(None, body), None, "{file} without its status: {body}");
    }
    let expected = ReportedOverflow { used_tokens: Some(2009), limit_tokens: Some(512) };
    assert!(!overflows.is_empty());
    for (file, status, body) in &overflows {
        assert_eq!(recognise(Some(*status), body), Some(expected), "{file}");
    }
    println!("{} recorded errors, {} overflows, 0 false", others.len() + overflows.len(), overflows.len());
}

#[test]
fn the_running_llama_server_is_understood() {
    let Some(root) = streams("the_running_llama_server_is_understood") else { return };
    let read = |name: &str| {
        std::fs::read_to_string(root.join("llamacpp/live-xllamacpp").join(format!("{name}.response.json")))
            .unwrap()
    };
    let expected = ReportedOverflow { used_tokens: Some(7010), limit_tokens: Some(4096) };
    for name in ["overflow_chat", "overflow_chat_stream", "overflow_messages", "overflow_responses"] {
        assert_eq!(recognise(Some(400), &read(name)), Some(expected), "{name}");
    }
    for name in ["bad_json", "bad_messages"] {
        assert_eq!(recognise(Some(400), &read(name)), None, "{name}");
    }
    assert_eq!(recognise(Some(404), &read("not_found")), None);
}

/// No successful answer may look like an error either, nor any event of a stream.
#[test]
fn good_answers_are_no_overflow() {
    let Some(root) = streams("good_answers_are_no_overflow") else { return };
    let good = fixtures::cassettes(&root).into_iter().filter(|exchange| exchange.status < 300);
    let mut payloads = 0;
    for exchange in good {
        for payload in payloads_of(&exchange.body) {
            payloads += 1;
            assert_eq!(recognise(None, payload), None, "{} ({})", exchange.file, exchange.provider());
        }
    }
    let is_text =
        |name: &&String| !name.ends_with(".yaml") && !name.ends_with(".md") && !name.contains("overflow");
    for name in fixtures::files(&root).iter().filter(is_text) {
        let Ok(text) = std::fs::read_to_string(root.join(name)) else { continue };
        for payload in payloads_of(&text) {
            payloads += 1;
            assert_eq!(recognise(None, payload), None, "{name}");
        }
    }
    // A wrong path would find no payloads and pass.
    assert!(payloads >= 8_000, "{payloads} payloads");
    println!("{payloads} recorded payloads, 0 taken for an overflow");
}

/// The JSON payloads of a body: the whole, or the lines, or the events of the stream.
fn payloads_of(body: &str) -> Vec<&str> {
    if serde_json::from_str::<Value>(body).is_ok() {
        return vec![body];
    }
    let data = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    data.filter(|line| line.starts_with(['{', '['])).collect()
}

/// A llama-server with a full window in the middle of an answer.
#[test]
fn a_window_that_filled_up_is_suspected() {
    let Some(root) = streams("a_window_that_filled_up_is_suspected") else { return };
    let text =
        std::fs::read_to_string(root.join("llamacpp/live-xllamacpp/ctx_hit_midstream.response.sse")).unwrap();
    let chunks: Vec<Value> =
        payloads_of(&text).into_iter().filter_map(|one| serde_json::from_str(one).ok()).collect();
    assert!(chunks.iter().any(|chunk| chunk["choices"][0]["finish_reason"] == "length"));
    let usage = chunks.iter().find_map(|chunk| chunk.get("usage")).unwrap();
    let (input, output) =
        (usage["prompt_tokens"].as_u64().unwrap(), usage["completion_tokens"].as_u64().unwrap());
    let answer = answer(ModelStopReason::Length, input, output);
    let sent = AnsweredRequestTokens {
        estimated: input,
        window: Some(4096),
        source: LimitSource::Server,
        ..AnsweredRequestTokens::default()
    };
    assert_eq!(suspect(&sent, &answer), Some(SuspectedOverflow::WindowFull { total: Some(4096) }));
    let roomy = AnsweredRequestTokens { window: Some(8192), ..sent };
    assert_eq!(suspect(&roomy, &answer), None);
}

/// Answers with an end at the requested output limit.
#[test]
fn recorded_ends_for_length_are_not_suspected() {
    let Some(root) = streams("recorded_ends_for_length_are_not_suspected") else { return };
    let mut ends = 0;
    for exchange in fixtures::cassettes(&root) {
        for payload in payloads_of(&exchange.body) {
            let Ok(payload) = serde_json::from_str::<Value>(payload) else { continue };
            let Some((input, output)) = length_end(&payload) else { continue };
            ends += 1;
            let sent = AnsweredRequestTokens {
                estimated: input,
                max_output: Some(output),
                ..AnsweredRequestTokens::default()
            };
            let known = AnsweredRequestTokens { window: Some(32_768), source: LimitSource::Server, ..sent };
            for sent in [sent, known] {
                assert_eq!(
                    suspect(&sent, &answer(ModelStopReason::Length, input, output)),
                    None,
                    "{}",
                    exchange.file
                );
            }
        }
    }
    assert!(ends >= 10, "{ends} ends for length");
}

/// Input and output tokens of a chat completion with the stop reason `length`.
fn length_end(payload: &Value) -> Option<(u64, u64)> {
    let length = payload.pointer("/choices/0/finish_reason")? == "length";
    let usage = |key: &str| payload.pointer(&format!("/usage/{key}"))?.as_u64();
    length.then_some(()).and_then(|()| Some((usage("prompt_tokens")?, usage("completion_tokens")?)))
}

/// 471 calls of a long session, with the provider's counts. No call was cut; any cut would have shown.
#[test]
fn the_usages_of_a_real_session_are_not_suspected() {
    let Some(calls) = real_session("the_usages_of_a_real_session_are_not_suspected") else { return };
    assert!(calls.len() >= 400, "{} calls", calls.len());
    let mut caught = 0;
    for call in &calls {
        let declared =
            AnsweredRequestTokens { window: Some(200_000), source: LimitSource::Declared, ..call.sent };
        let from_scratch = AnsweredRequestTokens { counted_before: 0, estimated: call.whole, ..call.sent };
        let answer = answer(call.finish, call.input, call.output);
        for sent in [call.sent, declared, from_scratch] {
            assert_eq!(suspect(&sent, &answer), None, "{call:?}");
        }
        caught += usize::from(is_caught(call));
    }
    let cut = calls.iter().filter(|call| call.input > 8_192).count();
    println!("{} calls, 0 suspected; {caught} of {cut} caught had 4,096 tokens been kept", calls.len());
    assert_eq!(caught, cut);
}

fn is_caught(call: &Call) -> bool {
    let kept = answer(call.finish, 4_096, call.output);
    call.input > 8_192
        && matches!(suspect(&call.sent, &kept), Some(SuspectedOverflow::SilentlyTruncated { .. }))
}

fn answer(finish: ModelStopReason, input_tokens: u64, output_tokens: u64) -> ModelAnswer {
    let usage = Usage { input_tokens, output_tokens, ..Usage::default() };
    ModelAnswer { parts: vec![Part::text("…")], finish, usage: Some(usage), envelope: None }
}

/// A counted call, and the counts known before the call.
#[derive(Debug)]
struct Call {
    sent: AnsweredRequestTokens,
    /// Estimate of everything since the start or the last compaction.
    whole: u64,
    input: u64,
    output: u64,
    finish: ModelStopReason,
}

/// The calls after another call in the same view.
fn real_session(test: &str) -> Option<Vec<Call>> {
    let trajectories = streams(test)?.with_file_name("trajectories");
    let text =
        std::fs::read_to_string(trajectories.join("badlogic__pi-mono/before-compaction.jsonl")).unwrap();
    let mut calls = Vec::new();
    let (mut last, mut new, mut whole) = (None, 0, 0);
    for entry in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if entry["type"] == "compaction" {
            (last, new, whole) = (None, 0, 0);
        }
        let message = &entry["message"];
        let estimate = text_tokens(&words(&message["content"]));
        let usage = |key: &str| message["usage"][key].as_u64().unwrap_or(0);
        let input = usage("input") + usage("cacheRead") + usage("cacheWrite");
        if message["role"] == "assistant" && input > 0 {
            let finish = if message["stopReason"] == "toolUse" {
                ModelStopReason::ToolCalls
            } else {
                ModelStopReason::Stop
            };
            if let Some(counted_before) = last {
                let sent = AnsweredRequestTokens {
                    counted_before,
                    estimated: new,
                    max_output: Some(32_000),
                    ..AnsweredRequestTokens::default()
                };
                calls.push(Call { sent, whole, input, output: usage("output"), finish });
            }
            (last, new) = (Some(input + usage("output")), 0);
        } else {
            new += estimate;
        }
        whole += estimate;
    }
    Some(calls)
}

/// Everything a message says, as text.
fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words).collect(),
        Value::Object(block) => {
            ["text", "thinking", "arguments"].iter().filter_map(|key| block.get(*key)).map(words).collect()
        }
        other => other.to_string(),
    }
}
