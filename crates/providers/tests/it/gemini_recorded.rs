//! Every recorded answer of Gemini decodes, however the network cuts the body, and goes back unchanged.

pub(crate) mod cuts;
pub(crate) mod described;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Message, ModelAnswer, Part, Role, ToolResult, ToolStatus};
use longhaul_providers::gemini::{BASE_URL, GeminiProvider, GeminiStreamDecoder};
use longhaul_providers::{ModelEndpoint, ModelEvent, ModelRequest, Provider, ProviderError, sse};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::fixtures::{self, streams};

use self::cuts::{check_every_cut, cut};
use self::described::described;

/// A body for a client to read, as bytes.
pub(crate) struct Recorded {
    pub(crate) file: String,
    pub(crate) body: Vec<u8>,
}

impl Recorded {
    pub(crate) fn is_streamed(&self) -> bool {
        self.body.starts_with(b"data:")
    }

    /// `true` if the answer ends with a call unreadable to Google.
    fn is_spoilt(&self) -> bool {
        String::from_utf8_lossy(&self.body).contains("MALFORMED_FUNCTION_CALL")
    }
}

const INTERACTIONS: &str = "the Interactions API is another wire";

/// Every file of Google's without an answer of the Gemini wire, with the reason.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("0xPlaygrounds__rig/cached_content_matrix~edge_double_delete.yaml", "makes and deletes cached content"),
    ("0xPlaygrounds__rig/cached_content_matrix~edge_expiry_in_the_past.yaml", "makes cached content"),
    ("0xPlaygrounds__rig/error_envelope~nonexistent_model_error_preserves_status_and_body.yaml", "HTTP 404"),
    ("0xPlaygrounds__rig/interactions_api~followup_with_previous_interaction_id.yaml", INTERACTIONS),
    ("0xPlaygrounds__rig/models~list_models_rejected_key_reports_api_error_with_context.yaml", "HTTP 400"),
    (
        "0xPlaygrounds__rig/response_identity~provider_error_keeps_transport_shape_and_none_id.yaml",
        "HTTP 404",
    ),
    ("vercel__ai/basic.chunks.txt", INTERACTIONS),
    ("vercel__ai/multi-turn-stateful-turn1.json", INTERACTIONS),
    ("vercel__ai/multi-turn-stateless-turn1.chunks.txt", INTERACTIONS),
];

/// Every answer, and every unusable end.
fn recorded_and_spoilt(test: &str) -> Option<&'static (Vec<Recorded>, Vec<Recorded>)> {
    static ALL: OnceLock<(Vec<Recorded>, Vec<Recorded>)> = OnceLock::new();
    let root = streams(test)?;
    Some(ALL.get_or_init(|| read(&root).into_iter().partition(|one| !one.is_spoilt())))
}

fn recorded(test: &str) -> Option<&'static [Recorded]> {
    recorded_and_spoilt(test).map(|(answers, _)| answers.as_slice())
}

fn read(root: &Path) -> Vec<Recorded> {
    let cassettes = fixtures::cassettes(root).into_iter();
    let mut all: Vec<_> = cassettes
        .filter(|exchange| exchange.path.ends_with("enerateContent") && exchange.status < 300)
        .map(|exchange| Recorded { body: exchange.body.into_bytes(), file: exchange.file })
        .collect();
    for file in fixtures::files(root).into_iter().filter(|file| !file.ends_with(".yaml")) {
        let text = std::fs::read_to_string(root.join(&file)).unwrap();
        let bodies = match text.trim_start() {
            chunks if chunks.starts_with("{\"candidates\"") => {
                vec![framed(chunks.lines().map(str::to_owned))]
            }
            whole if whole.starts_with("{\n  \"candidates\"") => vec![whole.to_owned()],
            calls if calls.starts_with("{\"method\"") => calls.lines().filter_map(call).collect(),
            _ => continue,
        };
        all.extend(bodies.into_iter().map(|body| Recorded { file: file.clone(), body: body.into_bytes() }));
    }
    all.sort_by(|a, b| a.file.cmp(&b.file));
    all
}

/// Turns a recording with an event per line into a body of events.
fn framed(chunks: impl Iterator<Item = String>) -> String {
    chunks.filter(|chunk| !chunk.trim().is_empty()).map(|chunk| format!("data: {chunk}\r\n\r\n")).collect()
}

/// A recording with a call per line: method and chunks.
fn call(line: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Call {
        method: String,
        response: Box<RawValue>,
    }
    let Call { method, response } = serde_json::from_str(line).ok()?;
    match method.as_str() {
        "generateContentStream" => {
            let chunks: Vec<Box<RawValue>> = serde_json::from_str(response.get()).unwrap();
            Some(framed(chunks.iter().map(|chunk| chunk.get().to_owned())))
        }
        "generateContent" => Some(response.get().to_owned()),
        _ => None,
    }
}

pub(crate) type Outcome = Result<(Vec<ModelEvent>, ModelAnswer), ProviderError>;

/// The events of a body in the given pieces.
fn payloads(pieces: Vec<Bytes>) -> Vec<String> {
    let events = sse::events(futures_util::stream::iter(pieces.into_iter().map(Ok)));
    let events: Vec<_> = events.collect().now_or_never().unwrap();
    events.into_iter().map(|event| event.unwrap().data.into_owned()).collect()
}

fn decode(payloads: &[String]) -> Outcome {
    let mut decoder = GeminiStreamDecoder::default();
    let mut events = Vec::new();
    for payload in payloads {
        events.extend(decoder.push(payload)?);
    }
    Ok((events, decoder.finish()?))
}

fn outcome(recorded: &Recorded) -> Outcome {
    let payloads = if recorded.is_streamed() {
        payloads(vec![Bytes::copy_from_slice(&recorded.body)])
    } else {
        vec![String::from_utf8(recorded.body.clone()).unwrap()]
    };
    decode(&payloads)
}

fn decoded(recorded: &Recorded) -> (Vec<ModelEvent>, ModelAnswer) {
    outcome(recorded).unwrap_or_else(|error| panic!("{}: {error:?}", recorded.file))
}

#[test]
fn a_call_that_could_not_be_read_is_an_error_that_may_pass() {
    let Some((_, spoilt)) = recorded_and_spoilt("a_call_that_could_not_be_read_is_an_error_that_may_pass")
    else {
        return;
    };
    assert!(!spoilt.is_empty());
    for one in spoilt {
        let error = outcome(one).unwrap_err();
        let words = "the model's tool call could not be read (MALFORMED_FUNCTION_CALL)";
        assert_eq!((error.code, error.retryable), (ErrorCode::ThirdParty, true), "{}", one.file);
        assert_eq!(error.message, words, "{}", one.file);
        assert_eq!(error.usage.unwrap().input_tokens, 12_282, "{}", one.file);
    }
}

#[test]
fn every_gemini_answer_decodes_or_is_named() {
    let test = "every_gemini_answer_decodes_or_is_named";
    let (Some(all), Some(root)) = (recorded(test), streams(test)) else { return };
    let mut table: BTreeMap<String, (BTreeSet<&str>, [usize; 5])> = BTreeMap::new();
    for one in all {
        let (_, answer) = decoded(one);
        let source: Vec<&str> = one.file.split('/').take(2).collect();
        let (files, row) = table.entry(source.join("/")).or_default();
        files.insert(&one.file);
        row[usize::from(!one.is_streamed())] += 1;
        row[2] += usize::from(answer.usage.is_some());
        row[3] += answer.parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count();
        row[4] += usize::from(String::from_utf8_lossy(&one.body).contains("\"thoughtSignature\""));
    }
    println!("{:<32} files streams whole usage calls signed", "source");
    for (source, (files, [streams, whole, usage, calls, signed])) in &table {
        println!("{source:<32} {:>5} {streams:>7} {whole:>5} {usage:>5} {calls:>5} {signed:>6}", files.len());
    }
    for (file, reason) in UNSUPPORTED {
        println!("unsupported: google/{file}: {reason}");
    }
    let with_answer: BTreeSet<&str> = all.iter().map(|one| one.file.as_str()).collect();
    let files = fixtures::files(&root);
    let without: Vec<&str> = files
        .iter()
        .filter(|file| !with_answer.contains(file.as_str()))
        .filter_map(|file| file.strip_prefix("google/"))
        .collect();
    assert_eq!(without, UNSUPPORTED.iter().map(|(file, _)| *file).collect::<Vec<_>>());
    let streamed = all.iter().filter(|one| one.is_streamed()).count();
    assert!(streamed >= 90 && all.len() - streamed >= 40, "{streamed} of {} streamed", all.len());
}

#[test]
fn gemini_golden_results() {
    let Some(all) = recorded("gemini_golden_results") else { return };
    let golden: Vec<String> = all.iter().map(|one| described(one, &decoded(one).1)).collect();
    insta::assert_snapshot!(golden.join("\n"));
}

/// Counts missing from the closing chunk, and so from the chunk's own total.
const TOTAL_LEFT_OUT: &[&str] = &["context-compress-interactive.compress.responses"];

#[test]
fn counts_add_up_to_the_total_that_was_reported() {
    let Some(all) = recorded("counts_add_up_to_the_total_that_was_reported") else { return };
    let mut checked = 0;
    for one in all {
        let Some(usage) = decoded(one).1.usage else { continue };
        let raw: Value = serde_json::from_str(usage.raw.as_ref().unwrap().as_str()).unwrap();
        let Some(total) = raw["totalTokenCount"].as_u64() else { continue };
        if usage.total_tokens() != total {
            assert!(TOTAL_LEFT_OUT.iter().any(|file| one.file.ends_with(file)), "{}: {raw}", one.file);
            continue;
        }
        checked += 1;
    }
    assert!(checked > 100, "{checked} totals");
}

/// The content of an answer and of the calls' results in the next request.
fn second_turn(provider: &GeminiProvider, answer: &ModelAnswer) -> String {
    let mut messages = vec![Message::user("u", vec![Part::text("begin")])];
    let origin = Some(provider.origin());
    messages.push(Message { id: "a".into(), role: Role::Assistant, parts: answer.parts.clone(), origin });
    for call in messages[1].tool_calls().cloned().collect::<Vec<_>>() {
        let content = vec![Part::text(format!("result of {}", call.name))];
        let result =
            ToolResult { call_id: call.call_id, status: ToolStatus::Completed, content, truncated: None };
        let parts = vec![Part::ToolResult(result)];
        messages.push(Message { id: "t".into(), role: Role::Tool, parts, origin: None });
    }
    messages.push(Message::user("u2", vec![Part::text("go on")]));
    let request = ModelRequest { messages, ..ModelRequest::default() };
    String::from_utf8(provider.render(&request).unwrap().to_vec()).unwrap()
}

/// The parts of an answer as sent, read without the decoder.
fn heard(recorded: &Recorded) -> Vec<Value> {
    let body = String::from_utf8(recorded.body.clone()).unwrap();
    let chunks: Vec<Value> = match recorded.is_streamed() {
        true => body
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect(),
        false => vec![serde_json::from_str(&body).unwrap()],
    };
    let parts = chunks.iter().filter_map(|chunk| chunk["candidates"][0]["content"]["parts"].as_array());
    parts.flatten().cloned().collect()
}

#[test]
fn a_second_turn_holds_signatures_ids_and_arguments_unchanged() {
    let Some(all) = recorded("a_second_turn_holds_signatures_ids_and_arguments_unchanged") else { return };
    let provider = GeminiProvider::new(ModelEndpoint::new("gemini", BASE_URL, "gemini-2.5-flash")).unwrap();
    let (mut signatures, mut calls) = (0, 0);
    for one in all {
        let (_, answer) = decoded(one);
        let body = String::from_utf8_lossy(&one.body);
        let in_pieces = body.contains("partialArgs");
        let sent = second_turn(&provider, &answer);
        for call in answer
            .parts
            .iter()
            .filter_map(|part| if let Part::ToolCall(call) = part { Some(call) } else { None })
        {
            let native = call.native.as_ref().unwrap().as_str();
            assert!(sent.contains(native), "{}: {native}", one.file);
            assert!(in_pieces || body.contains(native), "{}: {native}", one.file);
            calls += 1;
        }
        let contents: Value = serde_json::from_str::<Value>(&sent).unwrap()["contents"].clone();
        let heard = heard(one);
        let of = |parts: &[Value], key: &str| -> Vec<Value> {
            parts.iter().filter_map(|part| part.get(key)).cloned().collect()
        };
        let model = contents.as_array().unwrap().iter().find(|content| content["role"] == "model");
        let again: Vec<Value> =
            model.map(|model| model["parts"].as_array().unwrap().clone()).unwrap_or_default();
        assert_eq!(of(&again, "thoughtSignature"), of(&heard, "thoughtSignature"), "{}", one.file);
        signatures += of(&again, "thoughtSignature").len();
        if !in_pieces {
            assert_eq!(of(&again, "functionCall"), of(&heard, "functionCall"), "{}", one.file);
        }
        answers_match(&contents, &of(&again, "functionCall"), &one.file);
    }
    assert!(signatures >= 58 && calls >= 71, "{signatures} signatures, {calls} calls");
    println!("{signatures} signatures and {calls} calls went back unchanged");
}

/// Checks that each call is answered in order, by name, and by id if Google gave an id.
fn answers_match(contents: &Value, calls: &[Value], file: &str) {
    let answers: Vec<&Value> = contents
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|content| content["parts"].as_array().unwrap())
        .filter_map(|part| part.get("functionResponse"))
        .collect();
    assert_eq!(answers.len(), calls.len(), "{file}");
    for (answer, call) in answers.iter().zip(calls) {
        assert_eq!((answer.get("name"), answer.get("id")), (call.get("name"), call.get("id")), "{file}");
    }
}

#[test]
fn nothing_signed_goes_to_another_model() {
    let Some(all) = recorded("nothing_signed_goes_to_another_model") else { return };
    let writer = GeminiProvider::new(ModelEndpoint::new("gemini", BASE_URL, "gemini-2.5-flash")).unwrap();
    let other = GeminiProvider::new(ModelEndpoint::new("gemini", BASE_URL, "gemini-2.5-pro")).unwrap();
    for one in all {
        let (parts, origin) = (decoded(one).1.parts, Some(writer.origin()));
        let messages = vec![
            Message::user("u", vec![Part::text("begin")]),
            Message { id: "a".into(), role: Role::Assistant, parts, origin },
        ];
        let sent = other.render(&ModelRequest { messages, ..ModelRequest::default() }).unwrap();
        assert!(!String::from_utf8_lossy(&sent).contains("\"thoughtSignature\""), "{}", one.file);
    }
}

#[test]
fn gemini_streams_may_be_cut_anywhere() {
    let Some(all) = recorded("gemini_streams_may_be_cut_anywhere") else { return };
    for one in all.iter().filter(|one| one.is_streamed()) {
        let end: &[u8] =
            if one.body.windows(4).any(|four| four == b"\r\n\r\n") { b"\r\n\r\n" } else { b"\n\n" };
        check_every_cut(&one.file, &one.body, end, payloads);
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
fn a_gemini_stream_may_be_cut_inside_a_character() {
    let body = concat!(
        ": ping\r\n\r\ndata: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"…\",\"thought\":true},{\"text\":\"é€😀\"}]}}]}\r\n\r\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"x\",\"args\":{\"a\":\"你好\"}},\"thoughtSignature\":\"c2ln\"}]},\"finishReason\":\"STOP\"}]}",
    )
    .as_bytes();
    let whole = decode(&payloads(vec![Bytes::copy_from_slice(body)])).unwrap();
    assert_eq!(whole.1.parts.len(), 3);
    for place in 0..=body.len() {
        assert_eq!(decode(&payloads(cut(body, vec![place]))).unwrap(), whole, "cut at {place}");
    }
}
