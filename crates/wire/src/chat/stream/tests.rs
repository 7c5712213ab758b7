use longhaul_core::message::{ModelAnswer, Part, RawJson, ReasoningPart, ToolCall};
use serde_json::json;

use super::*;

fn decode(payloads: &[&str]) -> Result<(Vec<ModelEvent>, ModelAnswer), ProviderError> {
    let mut decoder = ChatStreamDecoder::default();
    let mut events = Vec::new();
    for payload in payloads {
        events.extend(decoder.push(payload)?);
    }
    decoder.finish().map(|answer| (events, answer))
}

fn delta(delta: serde_json::Value) -> String {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}).to_string()
}

fn finish(reason: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

fn answer(payloads: &[String]) -> ModelAnswer {
    decode(&payloads.iter().map(String::as_str).collect::<Vec<_>>()).unwrap().1
}

fn calls(answer: &ModelAnswer) -> Vec<ToolCall> {
    answer
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some(call.clone()),
            _ => None,
        })
        .collect()
}

fn names_and_arguments(answer: &ModelAnswer) -> Vec<(String, String)> {
    calls(answer).into_iter().map(|call| (call.name, call.arguments)).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned())).collect()
}

#[test]
fn one_delta_may_hold_everything() {
    let everything = delta(json!({
        "reasoning_content": "think", "content": "say",
        "tool_calls": [
            {"index": 0, "id": "a", "function": {"name": "x", "arguments": "{}"}},
            {"index": 1, "id": "b", "function": {"name": "y", "arguments": "{\"k\":1}"}},
        ],
    }));
    let (events, answer) = decode(&[&everything, &finish("tool_calls"), "[DONE]"]).unwrap();
    let done = events.iter().filter_map(|event| match event {
        ModelEvent::PartDone(part) => Some(part.clone()),
        _ => None,
    });
    assert_eq!(done.collect::<Vec<_>>(), answer.parts);
    assert_eq!(answer.parts[0], Part::Reasoning(ReasoningPart { text: "think".into(), native: None }));
    assert_eq!(answer.parts[1], Part::text("say"));
    assert_eq!(names_and_arguments(&answer), pairs(&[("x", "{}"), ("y", "{\"k\":1}")]));
    assert_eq!(calls(&answer)[1].provider_id.as_deref(), Some("b"));
    assert_eq!(answer.finish, ModelStopReason::ToolCalls);
}

#[test]
fn both_names_of_reasoning_are_known_and_not_doubled() {
    let answer = answer(&[
        delta(json!({"reasoning": "a", "reasoning_content": ""})),
        // A server in the middle of a change of names sends both fields with the same text.
        delta(json!({"reasoning": "b", "reasoning_content": "b"})),
        delta(json!({"reasoning": null, "reasoning_content": "c"})),
        finish("stop"),
    ]);
    assert_eq!(answer.parts, [Part::Reasoning(ReasoningPart { text: "abc".into(), native: None })]);
}

#[test]
fn content_may_be_a_list_of_blocks() {
    let answer = answer(&[
        // Mistral's form of reasoning, and its references between two texts.
        delta(json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]})),
        delta(
            json!({"content": [{"type": "text", "text": "4"}, {"reference_ids": [1], "type": "reference"}]}),
        ),
        delta(json!({"content": "!"})),
        finish("stop"),
    ]);
    let reference = OpaquePart {
        kind: "reference".into(),
        native: RawJson(r#"{"reference_ids":[1],"type":"reference"}"#.into()),
    };
    assert_eq!(answer.parts[1..], [Part::text("4"), Part::Opaque(reference), Part::text("!")]);
}

#[test]
fn pieces_of_calls_find_their_call() {
    let piece = |index: Option<i64>, id: Option<&str>, name: Option<&str>, arguments: &str| {
        let mut call = json!({"function": {"arguments": arguments}});
        if let Some(index) = index {
            call["index"] = json!(index);
        }
        if let Some(id) = id {
            call["id"] = json!(id);
        }
        if let Some(name) = name {
            call["function"]["name"] = json!(name);
        }
        delta(json!({"tool_calls": [call]}))
    };
    let table = [
        // the ordinary way, interleaved
        (
            vec![
                piece(Some(0), Some("a"), Some("x"), ""),
                piece(Some(1), Some("b"), Some("y"), "{"),
                piece(Some(0), None, None, "{}"),
                piece(Some(1), None, None, "}"),
            ],
            pairs(&[("x", "{}"), ("y", "{}")]),
        ),
        // a new id at the same index is a new call
        (
            vec![
                piece(Some(0), Some("a"), Some("x"), "{}"),
                piece(Some(0), Some("b"), Some("y"), "{}"),
                piece(Some(0), None, None, " "),
            ],
            pairs(&[("x", "{}"), ("y", "{} ")]),
        ),
        // id and name repeated in every piece
        (
            vec![piece(Some(0), Some("a"), Some("x"), "{\"k\""), piece(Some(0), Some("a"), Some("x"), ":1}")],
            pairs(&[("x", "{\"k\":1}")]),
        ),
        // no index
        (
            vec![
                piece(None, Some("a"), Some("x"), "{"),
                piece(None, None, None, "}"),
                piece(None, Some("b"), Some("y"), "{}"),
            ],
            pairs(&[("x", "{}"), ("y", "{}")]),
        ),
        // neither index nor id
        (
            vec![
                piece(None, None, Some("x"), "{}"),
                piece(None, None, Some("y"), "{"),
                piece(None, None, None, "}"),
            ],
            pairs(&[("x", "{}"), ("y", "{}")]),
        ),
        // one index for all, no ids
        (
            vec![piece(Some(0), Some(""), Some("x"), "{}"), piece(Some(0), Some(""), Some("x"), "{}")],
            pairs(&[("x", "{}"), ("x", "{}")]),
        ),
        // an index that begins at 1
        (
            vec![piece(Some(1), Some("a"), Some("x"), ""), piece(Some(1), None, None, "{}")],
            pairs(&[("x", "{}")]),
        ),
    ];
    for (mut payloads, expected) in table {
        payloads.push(finish("tool_calls"));
        assert_eq!(names_and_arguments(&answer(&payloads)), expected, "{payloads:?}");
    }
}

#[test]
fn arguments_given_as_an_object_become_their_text() {
    let answer = answer(&[
        // The odd blank and the order of the keys show that the object keeps its bytes.
        r#"{"choices":[{"delta":{"tool_calls":[{"id":7,"function":{"name":"x","arguments":{"b": 1.0, "a":2}}}]}}]}"#.to_owned(),
        finish("stop"),
    ]);
    assert_eq!(names_and_arguments(&answer), pairs(&[("x", r#"{"b": 1.0, "a":2}"#)]));
    assert_eq!(calls(&answer)[0].provider_id.as_deref(), Some("7"));
    assert_eq!(answer.finish, ModelStopReason::ToolCalls, "calls decide, not the careless `stop`");
}

#[test]
fn a_call_in_the_deprecated_form_is_a_call() {
    let call = |fields: serde_json::Value| delta(serde_json::json!({ "function_call": fields }));
    let whole = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":null,"function_call":{"name":"read","arguments":"{\"path\":\"a\"}"}},"finish_reason":"function_call"}]}"#;
    for payloads in [
        vec![whole.to_owned()],
        vec![
            call(serde_json::json!({ "name": "read", "arguments": "" })),
            call(serde_json::json!({ "arguments": "{\"path\":" })),
            call(serde_json::json!({ "arguments": "\"a\"}" })),
            finish("function_call"),
        ],
        vec![
            call(serde_json::json!({ "name": "read", "arguments": "{\"path\":" })),
            call(serde_json::json!({ "name": "read", "arguments": "\"a\"}" })),
            call(serde_json::json!(null)),
            finish("stop"),
        ],
        // Some servers write the call in both forms.
        vec![
            delta(serde_json::json!({
                "function_call": { "name": "read", "arguments": "{\"path\":\"a\"}" },
                "tool_calls": [{ "index": 0, "id": "c", "function": { "name": "read", "arguments": "{\"path\":\"a\"}" } }],
            })),
            call(serde_json::json!({ "name": "read", "arguments": "{\"path\":\"a\"}" })),
            finish("tool_calls"),
        ],
    ] {
        let found = answer(&payloads);
        assert_eq!(names_and_arguments(&found), pairs(&[("read", "{\"path\":\"a\"}")]), "{payloads:?}");
        assert_eq!(found.finish, ModelStopReason::ToolCalls, "{payloads:?}");
        assert!(!calls(&found)[0].call_id.as_str().is_empty(), "the result needs an id");
    }
    let none = answer(&[delta(serde_json::json!({ "content": "Hi", "function_call": {} })), finish("stop")]);
    assert!(calls(&none).is_empty(), "{none:?}");
}

#[test]
fn calls_cut_by_the_output_limit_keep_what_was_there() {
    let open = delta(
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"path\":\"/tm"}}]}),
    );
    let (events, answer) = decode(&[&open, &finish("length")]).unwrap();
    assert_eq!(names_and_arguments(&answer), pairs(&[("x", "{\"path\":\"/tm")]));
    assert_eq!(answer.finish, ModelStopReason::Length);
    assert!(!events.iter().any(|event| matches!(event, ModelEvent::PartDone(_))), "it is not whole");
}

#[test]
fn a_call_without_arguments_is_done_when_the_model_is() {
    let call =
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "x", "arguments": ""}}]}));
    let (events, answer) = decode(&[&call, &finish("tool_calls")]).unwrap();
    assert!(events.contains(&ModelEvent::PartDone(answer.parts[0].clone())), "{events:?}");
    assert_eq!(names_and_arguments(&answer), pairs(&[("x", "")]));
}

#[test]
fn usage_may_come_after_the_reason_and_replaces_what_came_before() {
    let early =
        r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}"#;
    let late = r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":9, "x":1.50},"timings":{"cache_n":3}}"#;
    let (events, answer) = decode(&[early, &finish("stop"), late, "[DONE]"]).unwrap();
    let usage = answer.usage.unwrap();
    let told = events.into_iter().filter(|event| matches!(event, ModelEvent::Usage(_)));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [ModelEvent::Usage(usage.clone())],
        "a part of an answer has no count"
    );
    assert_eq!((usage.input_tokens, usage.output_tokens), (5, 9));
    assert_eq!(usage.raw.unwrap().as_str(), r#"{"prompt_tokens":5,"completion_tokens":9, "x":1.50}"#);
}

#[test]
fn usage_means_the_same_for_every_server() {
    // (object, input, output, reasoning, read, written)
    let table = [
        (
            r#"{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":15}}"#,
            100,
            20,
            15,
            60,
            0,
        ),
        (
            // DeepSeek names what was read from the cache and what was not.
            r#"{"prompt_tokens":100,"completion_tokens":20,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}"#,
            100,
            20,
            0,
            64,
            0,
        ),
        (
            // xAI counts reasoning beside the completion: 12 + 1 + 290 = 303.
            r#"{"prompt_tokens":12,"completion_tokens":1,"total_tokens":303,"completion_tokens_details":{"reasoning_tokens":290}}"#,
            12,
            291,
            290,
            0,
            0,
        ),
        (
            r#"{"prompt_tokens":30,"completion_tokens":5,"total_tokens":45,"reasoning_tokens":10}"#,
            30,
            15,
            10,
            0,
            0,
        ),
        (
            r#"{"prompt_tokens":30,"completion_tokens":5,"prompt_tokens_details":null,"completion_tokens_details":null}"#,
            30,
            5,
            0,
            0,
            0,
        ),
        (
            r#"{"prompt_tokens":30,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":9}}"#,
            30,
            5,
            0,
            2,
            9,
        ),
    ];
    for (raw, input, output, reasoning, read, written) in table {
        let usage = answer(&[format!(r#"{{"choices":[],"usage":{raw}}}"#), finish("stop")]).usage.unwrap();
        let seen = (
            usage.input_tokens,
            usage.output_tokens,
            usage.reasoning_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
        );
        assert_eq!(seen, (input, output, reasoning, read, written), "{raw}");
        assert_eq!(usage.raw.unwrap().as_str(), raw);
    }
}

#[test]
fn endings_are_told_apart() {
    let text = delta(json!({"content": "a"}));
    let open_call =
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{"}}]}));
    let code =
        |payloads: &[&str]| decode(payloads).map(|(_, answer)| answer.finish).map_err(|error| error.code);
    assert_eq!(code(&[&text]), Err(ErrorCode::TruncatedStream));
    assert_eq!(code(&[]), Err(ErrorCode::TruncatedStream));
    assert_eq!(code(&[&text, "{\"choices\":[{\"del"]), Err(ErrorCode::TruncatedStream));
    assert_eq!(code(&[&open_call, "[DONE]"]), Err(ErrorCode::TruncatedStream));
    // Some servers give no stop reason. The marker alone shows that the text is whole.
    assert_eq!(code(&[&text, "[DONE]"]), Ok(ModelStopReason::Other));
    assert_eq!(code(&["[DONE]"]), Err(ErrorCode::TruncatedStream), "nothing was answered");
    assert_eq!(code(&[&delta(json!({"content": ""})), "[DONE]"]), Err(ErrorCode::TruncatedStream));
    assert_eq!(
        code(&[&finish("stop"), "[DONE]"]),
        Ok(ModelStopReason::Stop),
        "an empty answer is the loop's to judge"
    );
    assert_eq!(code(&[&text, &finish("stop")]), Ok(ModelStopReason::Stop));
    assert_eq!(code(&[&text, &finish("model_length")]), Ok(ModelStopReason::Length));
    assert_eq!(code(&[&text, &finish("content_filter")]), Err(ErrorCode::Refused));
    assert_eq!(code(&[&text, &finish("tool_calls")]), Ok(ModelStopReason::Other), "no calls came");
    assert_eq!(code(&[&text, &finish("odd")]), Ok(ModelStopReason::Other));
    assert_eq!(code(&[&text, &finish("error")]), Err(ErrorCode::ThirdParty));
    assert_eq!(code(&[&text, "<html>"]), Err(ErrorCode::ThirdParty));
}

#[test]
fn errors_inside_the_stream_keep_what_was_used() {
    let counted =
        r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}"#;
    let table = [
        (
            r#"{"error":{"message":"m","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":4}}"#,
            ErrorCode::ContextOverflow,
        ),
        (r#"{"error":"The model has crashed"}"#, ErrorCode::ThirdParty),
        (
            r#"{"object":"error","message":"no","type":"invalid_request_error","code":400}"#,
            ErrorCode::InvalidRequest,
        ),
        (
            r#"[{"error":{"code":429,"message":"Resource exhausted","status":"RESOURCE_EXHAUSTED"}}]"#,
            ErrorCode::RateLimitExceeded,
        ),
    ];
    for (payload, code) in table {
        let error = decode(&[counted, payload]).unwrap_err();
        assert_eq!(error.code, code, "{payload}");
        assert_eq!(error.usage.unwrap().input_tokens, 5);
    }
}

#[test]
fn what_is_not_known_is_let_pass() {
    let (_, answer) = decode(&[
        "",
        r#"{"id":"x","choices":null,"usage":null,"error":null,"service_tier":"y"}"#,
        r#"{"choices":[{"delta":null},{"index":1,"delta":{"content":"other choice"}}]}"#,
        r#"{"choices":[{"delta":{"content":{},"tool_calls":{},"role":[]}}]}"#,
        r#"{"choices":{}}"#,
        // A server that repeats the text so far beside each delta: the repetition must not be shown.
        r#"{"choices":[{"delta":{"content":"a","annotations":[]},"message":{"content":"all of it"}}]}"#,
        r#"{"choices":[{"message":{"content":"all of it"},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ])
    .unwrap();
    assert_eq!(answer.parts, [Part::text("a")]);
}

#[test]
fn an_error_in_place_of_an_answer_is_no_early_end() {
    for (payload, code) in [
        (
            r#"{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"},"choices":null}"#,
            ErrorCode::Auth,
        ),
        (r#"{"detail":"Not authenticated"}"#, ErrorCode::Auth),
        (r#"{"code":500,"msg":"busy"}"#, ErrorCode::ThirdParty),
        (r#"{"error":"boom"}"#, ErrorCode::ThirdParty),
    ] {
        assert_eq!(decode(&[payload]).unwrap_err().code, code, "{payload}");
    }
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1},"base_resp":{"status_code":0,"status_msg":""}}"#;
    let (_, answer) = decode(&[&delta(json!({"content": "a"})), &finish("stop"), usage]).unwrap();
    assert_eq!(answer.parts, [Part::text("a")]);
}

#[test]
fn a_lone_half_of_a_character_in_arguments_is_replaced() {
    let call = delta(json!({"tool_calls": [{"index": 0, "id": "a",
        "function": {"name": "x", "arguments": "{\"k\":\"x\\ud83d\"}"}}]}));
    let answer = answer(&[call, finish("tool_calls")]);
    assert_eq!(names_and_arguments(&answer), pairs(&[("x", "{\"k\":\"x\\ufffd\"}")]));
    let whole = delta(json!({"tool_calls": [{"index": 0, "id": "a",
        "function": {"name": "x", "arguments": "{\"k\":\"\\ud83d\\ude00\"}"}}]}));
    let answer = self::answer(&[whole, finish("tool_calls")]);
    assert_eq!(names_and_arguments(&answer), pairs(&[("x", "{\"k\":\"\\ud83d\\ude00\"}")]));
}

fn detail(entry: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{"reasoning_details":[{entry}]}},"finish_reason":null}}]}}"#)
}

fn native(part: &Part) -> &str {
    let Part::Reasoning(ReasoningPart { native: Some(native), .. }) = part else { panic!("{part:?}") };
    native.as_str()
}

#[test]
fn details_are_put_together_and_keep_their_bytes() {
    let answer = answer(&[
        delta(json!({"reasoning": "ab"})),
        detail(r#"{"type":"reasoning.text","index":0,"text":"a"}"#),
        detail(r#"{"type":"reasoning.text","index":0,"text":"b","signature":null}"#),
        detail(r#"{"type":"reasoning.text","index":0,"signature":"c2ln"}"#),
        // An entry in one piece keeps its escape and its number.
        detail(r#"{"type":"reasoning.encrypted","index":1,"data":"\u0078","n":1.50}"#),
        finish("stop"),
    ]);
    let expected = concat!(
        r#"{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"ab","signature":"c2ln"},"#,
        r#"{"type":"reasoning.encrypted","index":1,"data":"\u0078","n":1.50}]}"#,
    );
    assert_eq!(native(&answer.parts[0]), expected);
}

#[test]
fn details_without_readable_reasoning_are_a_part_and_empty_ones_are_none() {
    let lone = answer(&[detail(r#"{"type":"reasoning.encrypted","data":"x"}"#), finish("stop")]);
    assert_eq!(
        native(&lone.parts[0]),
        r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}"#
    );
    let empty = answer(&[detail(r#"{"type":"reasoning.text","text":""}"#), finish("stop")]);
    assert_eq!(empty.parts, []);
}

#[test]
fn the_envelope_holds_what_was_said_of_the_whole() {
    let answer = answer(&[
        r#"{"id":"c-1","object":"chat.completion.chunk","created":1.0,"model":"m-2025","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"obfuscation":"xx"}"#.to_owned(),
        r#"{"id":"c-1","created":9,"model":"other","choices":[{"index":0,"delta":{"content":"b"}}]}"#.to_owned(),
        r#"{"id":"c-1","model":"m-2025","system_fingerprint":"fp","choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"end_turn","logprobs":null}]}"#.to_owned(),
        r#"{"id":"c-1","choices":[],"usage":{"prompt_tokens":1},"timings":{"prompt_ms":1.50},"provider":"P"}"#.to_owned(),
        "[DONE]".to_owned(),
    ]);
    let expected = concat!(
        r#"{"id":"c-1","created":1.0,"model":"m-2025","system_fingerprint":"fp","finish_reason":"stop","#,
        r#""native_finish_reason":"end_turn","timings":{"prompt_ms":1.50},"provider":"P"}"#
    );
    assert_eq!(answer.envelope.unwrap().as_str(), expected);
}

/// A server with a repeated name in each piece and without ids: the completeness of a call decides about the place of
/// a piece, and must be known without reading the whole call again.
#[test]
fn each_byte_of_arguments_is_looked_at_once() {
    let piece = |text: &str| {
        delta(json!({"tool_calls": [{"index": 0, "function": {"name": "write", "arguments": text}}]}))
    };
    let mut decoder = ChatStreamDecoder::default();
    decoder.push(&piece("{\"a\":\"")).unwrap();
    for _ in 0..32_000 {
        decoder.push(&piece("x")).unwrap();
    }
    decoder.push(&piece("\"}")).unwrap();
    // A second look at earlier bytes would make the work grow with the square of the length.
    assert_eq!(decoder.calls.scanned_bytes(), 6 + 32_000 + 2);
    decoder.push(&finish("tool_calls")).unwrap();
    let answer = decoder.finish().unwrap();
    assert_eq!(calls(&answer).first().map(|call| call.arguments.len()), Some(6 + 32_000 + 2));
    assert_eq!(calls(&answer).len(), 1);
}

#[test]
fn a_part_that_was_reported_is_not_looked_at_again() {
    let mut decoder = ChatStreamDecoder::default();
    for number in 0..crate::MAX_TOOL_CALLS {
        let call = json!({"index": number, "id": format!("c{number}"), "function": {"name": "ls", "arguments": "{}"}});
        decoder.push(&delta(json!({"tool_calls": [call]}))).unwrap();
        assert_eq!(decoder.open, [number], "only the newest may still grow");
    }
}

#[test]
fn a_name_without_end_is_given_up() {
    let mut decoder = ChatStreamDecoder::default();
    let mut pieces = 0;
    let error = loop {
        pieces += 1;
        let name = format!("{pieces}-{}", "x".repeat(100));
        if let Err(error) =
            decoder.push(&delta(json!({"tool_calls": [{"index": 0, "function": {"name": name}}]})))
        {
            break error;
        }
        assert!(pieces < 100, "never given up");
    };
    assert_eq!((error.message, error.retryable), (crate::AnswerTooLarge::ToolName.to_string(), false));
}
