use longhaul_core::error::ErrorCode;
use longhaul_core::message::{
    Message, ModelAnswer, ModelOrigin, ModelStopReason, OpaquePart, Part, RawJson, ReasoningPart, Role,
    TextPart, ToolCall,
};

use super::*;
use crate::{ModelEvent, ProviderError};

const START: &str = r#"{"type":"message_start","message":{"usage":{"input_tokens":69,"cache_read_input_tokens":2048,"cache_creation_input_tokens":120,"output_tokens":1}}}"#;
const END: &str = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":153,"output_tokens_details":{"thinking_tokens":77}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn read(payloads: &[&str]) -> Result<(Vec<ModelEvent>, ModelAnswer), ProviderError> {
    let mut decoder = MessagesStreamDecoder::default();
    let mut events = Vec::new();
    for payload in payloads {
        events.extend(decoder.push(payload)?);
    }
    Ok((events, decoder.finish()?))
}

fn origin(model: &str) -> ModelOrigin {
    ModelOrigin { provider: "anthropic".into(), api: API.into(), model: model.into() }
}

fn message(parts: Vec<Part>) -> Message {
    Message { id: "m".into(), role: Role::Assistant, parts, origin: Some(origin("a")) }
}

fn encode(parts: Vec<Part>, target: &str) -> Vec<String> {
    encode_parts(&message(parts), &origin(target)).unwrap().into_iter().map(|block| block.0).collect()
}

/// Every kind of block, interleaved, with the wire's other events.
fn interleaved() -> Vec<&'static str> {
    vec![
        START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm "}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"yes"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln+/="}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"ZGF0YQ=="}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"","citations":[]}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"See"}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"type":"web","n":1.0}}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"new_kind","id":7,"deep":{"x":1e2}}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"new_delta","note":"a","deep":[1]}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"new_delta","note":"b"}}"#,
        r#"{"type":"content_block_stop","index":3}"#,
        r#"{"type":"content_block_start","index":4,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_stop","index":4}"#,
        r#"{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"toolu_1","name":"read","input":{}}}"#,
        r#"{"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":"{\"n\": 1.50,"}}"#,
        r#"{"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":" \"t\":\"\\u00e9\"}"}}"#,
        r#"{"type":"content_block_stop","index":5}"#,
        r#"{"type":"new_event","x":1}"#,
        END,
        STOP,
    ]
}

#[test]
fn blocks_keep_their_order_and_their_proofs() {
    let (_, answer) = read(&interleaved()).unwrap();
    let expected = [
        Part::Reasoning(ReasoningPart {
            text: "Hm yes".into(),
            native: Some(RawJson(r#"{"type":"thinking","thinking":"Hm yes","signature":"c2ln+/="}"#.into())),
        }),
        Part::Reasoning(ReasoningPart {
            text: String::new(),
            native: Some(RawJson(r#"{"type":"redacted_thinking","data":"ZGF0YQ=="}"#.into())),
        }),
        Part::Text(TextPart {
            text: "See".into(),
            native: Some(RawJson(
                r#"{"type":"text","text":"See","citations":[{"type":"web","n":1.0}]}"#.into(),
            )),
        }),
        Part::Opaque(OpaquePart {
            kind: "new_kind".into(),
            native: RawJson(r#"{"type":"new_kind","id":7,"deep":[1],"note":"ab"}"#.into()),
        }),
        Part::ToolCall(ToolCall {
            call_id: "toolu_1".into(),
            name: "read".into(),
            arguments: r#"{"n": 1.50, "t":"\u00e9"}"#.into(),
            provider_id: Some("toolu_1".into()),
            native: None,
        }),
    ];
    assert_eq!(answer.parts, expected);
    assert_eq!(answer.finish, ModelStopReason::ToolCalls);
}

#[test]
fn the_same_model_gets_every_block_back() {
    let (_, answer) = read(&interleaved()).unwrap();
    let sent = encode(answer.parts, "a");
    assert_eq!(sent.len(), 5);
    assert_eq!(sent[0], r#"{"type":"thinking","thinking":"Hm yes","signature":"c2ln+/="}"#);
    assert_eq!(
        sent[4],
        r#"{"type":"tool_use","id":"toolu_1","name":"read","input":{"n": 1.50, "t":"\u00e9"}}"#
    );
}

#[test]
fn another_model_gets_text_and_calls() {
    let (_, mut answer) = read(&interleaved()).unwrap();
    if let Some(Part::ToolCall(call)) = answer.parts.last_mut() {
        call.call_id = "ours".into();
    }
    let sent = encode(answer.parts, "b");
    let expected = [
        r#"{"type":"text","text":"See"}"#,
        r#"{"type":"tool_use","id":"ours","name":"read","input":{"n": 1.50, "t":"\u00e9"}}"#,
    ];
    assert_eq!(sent, expected);
}

#[test]
fn counts_are_snapshots() {
    let (events, answer) = read(&interleaved()).unwrap();
    let reports: Vec<(u64, u64)> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::Usage(usage) => Some((usage.input_tokens, usage.output_tokens)),
            _ => None,
        })
        .collect();
    assert_eq!(reports, [(2237, 1), (2237, 153)]);
    let usage = answer.usage.unwrap();
    assert_eq!((usage.reasoning_tokens, usage.cache_read_tokens, usage.cache_write_tokens), (77, 2048, 120));
    assert!(usage.raw.unwrap().as_str().contains(r#""input_tokens":69"#));
}

#[test]
fn a_call_cut_by_the_limit_keeps_its_pieces() {
    let open = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"write","input":{}}}"#;
    let piece = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"a"}}"#;
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}"#;
    let (events, answer) = read(&[START, open, piece, end, STOP]).unwrap();
    assert_eq!(answer.finish, ModelStopReason::Length);
    let [Part::ToolCall(call)] = answer.parts.as_slice() else { panic!("{:?}", answer.parts) };
    assert_eq!(call.arguments, "{\"path\":\"a");
    assert!(!events.iter().any(|event| matches!(event, ModelEvent::PartDone(_))));
    let expected = r#"{"type":"tool_use","id":"t","name":"write","input":{"invalid_json":"{\"path\":\"a"}}"#;
    assert_eq!(encode(answer.parts, "a"), [expected], "the model sees what it wrote, the API an object");
}

#[test]
fn reasoning_cut_off_before_its_signature_is_not_sent_back() {
    let open = r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#;
    let piece =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}"#;
    let (_, answer) = read(&[START, open, piece, STOP]).unwrap();
    assert_eq!(answer.parts, [Part::Reasoning(ReasoningPart { text: "Hm".into(), native: None })]);
    assert_eq!(encode(answer.parts, "a"), Vec::<String>::new());
    let signed =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}"#;
    let (_, answer) = read(&[START, open, signed, STOP]).unwrap();
    assert_eq!(encode(answer.parts, "a"), [r#"{"type":"thinking","thinking":"","signature":"s"}"#]);
}

#[test]
fn a_running_count_is_no_part_of_the_block_it_comes_with() {
    let open = r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#;
    let piece = r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm","estimated_tokens":50}}"#;
    let signed =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}"#;
    let (_, answer) = read(&[START, open, piece, signed, STOP]).unwrap();
    assert_eq!(encode(answer.parts, "a"), [r#"{"type":"thinking","thinking":"Hm","signature":"s"}"#]);
}

#[test]
fn counts_of_zero_say_nothing_and_smaller_ones_count() {
    let input = |end: &str| {
        let (_, answer) = read(&[START, end, STOP]).unwrap();
        let usage = answer.usage.unwrap();
        (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    };
    let zeros = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":9}}"#;
    assert_eq!(input(zeros), (2237, 2048, 9));
    let compacted = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":181,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":8}}"#;
    assert_eq!(input(compacted), (181, 0, 8));
}

#[test]
fn the_envelope_says_what_the_parts_do_not() {
    let start = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}"#;
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"\u0045ND","container":{"id":"c", "n":1.0}},"usage":{"output_tokens":2},"context_management":{"applied_edits":[]}}"#;
    let (_, answer) = read(&[start, end, STOP]).unwrap();
    let expected = r#"{"id":"msg_1","type":"message","model":"m","stop_reason":"stop_sequence","stop_sequence":"\u0045ND","container":{"id":"c", "n":1.0},"context_management":{"applied_edits":[]}}"#;
    assert_eq!(answer.envelope.unwrap().as_str(), expected);

    let whole = r#"{"id":"msg_1","type":"message","content":[{"type":"text","text":"hi"}],"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber"},"usage":{"input_tokens":1,"output_tokens":1}}"#;
    let error = read(&[whole]).unwrap_err();
    let expected = r#"{"id":"msg_1","type":"message","stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber"}}"#;
    assert_eq!((error.body.as_deref(), error.code), (Some(expected), ErrorCode::Refused));
}

#[test]
fn every_reason_to_stop_has_its_meaning_and_its_own_word() {
    let call = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"n","input":{}}}"#;
    let text = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"t"}}"#;
    let finish = |block: &str, reason: &str| {
        let end = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}},"usage":{{"output_tokens":9}}}}"#
        );
        let (_, answer) = read(&[START, block, &end, STOP]).unwrap();
        assert!(answer.envelope.unwrap().as_str().contains(&format!(r#""stop_reason":"{reason}""#)));
        answer.finish
    };
    for (reason, with_text, with_call) in [
        ("end_turn", ModelStopReason::Stop, ModelStopReason::ToolCalls),
        ("stop_sequence", ModelStopReason::Stop, ModelStopReason::ToolCalls),
        ("tool_use", ModelStopReason::Other, ModelStopReason::ToolCalls),
        ("max_tokens", ModelStopReason::Length, ModelStopReason::Length),
        ("model_context_window_exceeded", ModelStopReason::Length, ModelStopReason::Length),
        ("compaction", ModelStopReason::Other, ModelStopReason::Other),
        ("something_new", ModelStopReason::Other, ModelStopReason::ToolCalls),
    ] {
        assert_eq!((finish(text, reason), finish(call, reason)), (with_text, with_call), "{reason}");
    }
}

#[test]
fn a_call_without_a_name_of_its_own_gets_one() {
    let call = r#"{"content":[{"type":"tool_use","name":"a","input":{}},{"type":"tool_use","id":"","name":"b","input":{"x":1}}],"stop_reason":"tool_use"}"#;
    let (_, answer) = read(&[call]).unwrap();
    let calls = answer.parts.iter().map(|part| match part {
        Part::ToolCall(call) => (call.call_id.as_str(), call.provider_id.as_deref(), call.arguments.as_str()),
        other => panic!("{other:?}"),
    });
    assert_eq!(calls.collect::<Vec<_>>(), [("call_0", None, "{}"), ("call_1", None, r#"{"x":1}"#)]);
    assert_eq!(answer.finish, ModelStopReason::ToolCalls, "a whole answer needs no type either");
}

#[test]
fn a_second_beginning_voids_the_first() {
    let open = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"one"}}"#;
    let again = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"two"}}"#;
    let (_, answer) = read(&[START, open, START, again, STOP]).unwrap();
    assert_eq!(answer.parts, [Part::text("two")]);
}

#[test]
fn a_long_block_takes_time_in_proportion_to_its_length() {
    let mut decoder = MessagesStreamDecoder::default();
    decoder.push(START).unwrap();
    decoder
        .push(r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#)
        .unwrap();
    let piece = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"some more words of it "}}"#;
    let started = std::time::Instant::now();
    for _ in 0..100_000 {
        decoder.push(piece).unwrap();
    }
    decoder.push(STOP).unwrap();
    assert_eq!(decoder.finish().unwrap().parts[0].as_text().unwrap().len(), 2_200_000);
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn errors_inside_the_stream_keep_what_was_used() {
    let error =
        read(&[START, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#])
            .unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::ThirdParty, true));
    assert_eq!(error.usage.unwrap().input_tokens, 2237);
    assert_eq!(read(&[START, END]).unwrap_err().code, ErrorCode::TruncatedStream);
    assert_eq!(read(&[START, "{\"type\":"]).unwrap_err().code, ErrorCode::TruncatedStream);
    assert_eq!(read(&[START, "<html>"]).unwrap_err().code, ErrorCode::ThirdParty);
}

#[test]
fn a_stop_reason_behind_whole_blocks_ends_an_answer_without_its_closing_event() {
    let open = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}"#;
    let done = r#"{"type":"content_block_stop","index":0}"#;
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}"#;
    let (_, answer) = read(&[START, open, done, end]).unwrap();
    assert_eq!((answer.finish, answer.parts), (ModelStopReason::Stop, vec![Part::text("Hi")]));
    let without_reason =
        r#"{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":3}}"#;
    for cut in [vec![START, open, done], vec![START, open, end], vec![START, open, done, without_reason]] {
        assert_eq!(read(&cut).unwrap_err().code, ErrorCode::TruncatedStream, "{cut:?}");
    }
    // A second start voids the first answer, and its end too.
    assert_eq!(read(&[START, open, done, end, START]).unwrap_err().code, ErrorCode::TruncatedStream);
}

#[test]
fn what_an_assistant_message_cannot_hold_is_refused() {
    let result = longhaul_core::message::ToolResult {
        call_id: "t".into(),
        status: longhaul_core::message::ToolStatus::Completed,
        content: Vec::new(),
        truncated: None,
    };
    let error = encode_parts(&message(vec![Part::ToolResult(result)]), &origin("a")).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidRequest);
}

#[test]
fn a_block_of_another_wire_is_never_sent() {
    let native = |json: &str| Some(RawJson(json.into()));
    let foreign = vec![
        Part::Reasoning(ReasoningPart {
            text: "Hm".into(),
            native: native(r#"{"type":"reasoning","id":"rs_1"}"#),
        }),
        Part::Text(TextPart { text: "Hi".into(), native: native(r#"{"text":"Hi","thoughtSignature":"s"}"#) }),
        Part::Opaque(OpaquePart { kind: "odd".into(), native: RawJson("[1]".into()) }),
    ];
    assert_eq!(
        encode(foreign, "a"),
        [r#"{"type":"text","text":"Hi"}"#],
        "although its origin says otherwise"
    );
}
