use longhaul_core::error::ErrorCode;

use super::*;

fn read(lines: &[&str]) -> Result<(Vec<ModelEvent>, ModelAnswer), ProviderError> {
    let mut decoder = OllamaStreamDecoder::default();
    let mut events = Vec::new();
    for line in lines {
        events.extend(decoder.push(line)?);
    }
    Ok((events, decoder.finish()?))
}

fn line(message: &str) -> String {
    format!(r#"{{"model":"m","created_at":"t","message":{{"role":"assistant",{message}}},"done":false}}"#)
}

fn last(reason: &str, counts: &str) -> String {
    format!(
        r#"{{"model":"m","created_at":"t","message":{{"role":"assistant","content":""}},"done":true{reason}{counts}}}"#
    )
}

const STOP: &str = r#","done_reason":"stop""#;
const COUNTS: &str = r#","total_duration":9,"prompt_eval_count":26,"eval_count":298,"eval_duration":7"#;

fn answer(lines: &[String]) -> ModelAnswer {
    read(&lines.iter().map(String::as_str).collect::<Vec<_>>()).unwrap().1
}

#[test]
fn thinking_text_and_calls_are_parts_in_order() {
    let call = r#"{"id":"call_1","function":{"index":0,"name":"read","arguments":{"n": 1.50}}}"#;
    let nameless = r#"{"function":{"name":"list"}}"#;
    let lines = [
        line(r#""content":"","thinking":"Let me""#),
        line(r#""content":"Hel","thinking":"…""#),
        line(&format!(r#""content":"lo","tool_calls":[{call},{nameless}]"#)),
        last(STOP, COUNTS),
    ];
    let (events, answer) = read(&lines.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let tool = |id: &str, provider: Option<&str>, name: &str, arguments: &str, native: &str| {
        Part::ToolCall(ToolCall {
            call_id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            provider_id: provider.map(Into::into),
            native: Some(RawJson(native.into())),
        })
    };
    let expected = [
        Part::Reasoning(ReasoningPart { text: "Let me…".into(), native: None }),
        Part::text("Hello"),
        tool("call_1", Some("call_1"), "read", r#"{"n": 1.50}"#, call),
        tool("call_1", None, "list", "{}", nameless),
    ];
    assert_eq!(answer.parts, expected);
    assert_eq!(answer.finish, ModelStopReason::ToolCalls);
    let done: Vec<&Part> = events
        .iter()
        .filter_map(|event| if let ModelEvent::PartDone(part) = event { Some(part) } else { None })
        .collect();
    assert_eq!(done, expected.iter().collect::<Vec<_>>());
}

#[test]
fn counts_and_the_closing_line_are_kept() {
    let answer = answer(&[line(r#""content":"x""#), last(STOP, COUNTS)]);
    let usage = answer.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (26, 298));
    let raw = r#"{"total_duration":9,"prompt_eval_count":26,"eval_count":298,"eval_duration":7}"#;
    assert_eq!(usage.raw.unwrap().as_str(), raw);
    let envelope = r#"{"model":"m","created_at":"t","done":true,"done_reason":"stop","total_duration":9,"prompt_eval_count":26,"eval_count":298,"eval_duration":7}"#;
    assert_eq!(answer.envelope.unwrap().as_str(), envelope);
}

#[test]
fn a_prompt_without_a_count_has_none() {
    for counts in [r#","eval_count":298"#, r#","prompt_eval_count":0,"eval_count":298"#] {
        assert_eq!(answer(&[last(STOP, counts)]).usage, None, "{counts}");
    }
}

#[test]
fn endings() {
    let finish = |reason: &str| answer(&[line(r#""content":"x""#), last(reason, "")]).finish;
    assert_eq!((finish(STOP), finish("")), (ModelStopReason::Stop, ModelStopReason::Stop));
    assert_eq!(finish(r#","done_reason":"length""#), ModelStopReason::Length);
    assert_eq!(finish(r#","done_reason":"load""#), ModelStopReason::Other);
    assert_eq!(finish(r#","done_reason":"tool_calls""#), ModelStopReason::Other, "there is no call");
    let call = line(r#""content":"","tool_calls":[{"function":{"name":"a","arguments":{}}}]"#);
    assert_eq!(answer(&[call, last(r#","done_reason":"length""#, "")]).finish, ModelStopReason::Length);
    let error = read(&[&line(r#""content":"x""#)]).unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::TruncatedStream, true));
}

#[test]
fn an_ending_that_is_none_of_the_models_is_an_error_with_its_usage() {
    for (reason, code, words) in [
        ("content_filter", ErrorCode::Refused, "a filter withheld the answer (content_filter)"),
        ("safety", ErrorCode::Refused, "a filter withheld the answer (safety)"),
        ("error", ErrorCode::ThirdParty, "the server failed inside its answer (error)"),
    ] {
        let end = last(&format!(r#","done_reason":"{reason}""#), COUNTS);
        let error = read(&[&line(r#""content":"x""#), &end]).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (code, words));
        assert_eq!(error.usage.unwrap().input_tokens, 26, "{reason}: it has cost something");
        assert!(error.body.unwrap().contains(reason), "the closing line is kept");
    }
}

#[test]
fn arguments_that_are_null_go_back_as_the_object_they_were_taken_for() {
    let call = r#"{"id":"c","x":1.0,"function":{"name":"list","arguments":null,"y":2}}"#;
    let answer = answer(&[line(&format!(r#""content":"","tool_calls":[{call}]"#)), last(STOP, "")]);
    let [Part::ToolCall(found)] = answer.parts.as_slice() else { panic!("{:?}", answer.parts) };
    let native = r#"{"id":"c","x":1.0,"function":{"name":"list","arguments":{},"y":2}}"#;
    assert_eq!((found.arguments.as_str(), found.native.as_ref().unwrap().as_str()), ("{}", native));
}

#[test]
fn errors_come_in_band() {
    let crashed =
        r#"{"error":"model runner has unexpectedly stopped, this may be due to resource limitations"}"#;
    let error = read(&[&line(r#""content":"x""#), crashed]).unwrap_err();
    assert_eq!(
        (error.code, error.retryable, error.body.as_deref()),
        (ErrorCode::ThirdParty, true, Some(crashed))
    );
    let full = r#"{"error":"the prompt is longer than the context length currently available to the model"}"#;
    assert_eq!(read(&[full]).unwrap_err().code, ErrorCode::ContextOverflow);
    assert_eq!(read(&["{\"message\":"]).unwrap_err().code, ErrorCode::TruncatedStream);
    assert_eq!(read(&["nonsense"]).unwrap_err().code, ErrorCode::ThirdParty);
}

#[test]
fn quoted_arguments_are_unquoted() {
    let call = r#"{"function":{"name":"read","arguments":"{\"n\": 1.50}"}}"#;
    let answer = answer(&[line(&format!(r#""content":"","tool_calls":[{call}]"#)), last(STOP, "")]);
    let [Part::ToolCall(call)] = answer.parts.as_slice() else { panic!("{:?}", answer.parts) };
    assert_eq!((call.arguments.as_str(), &call.native), (r#"{"n": 1.50}"#, &None));
}

#[test]
fn unknown_fields_are_let_pass() {
    let odd = r#"{"message":{"role":"assistant","content":"x","images":null,"new":[1]},"logprobs":[],"done":false}"#;
    let whole = r#"{"message":{"role":"assistant","content":"y","tool_calls":null},"done":true,"done_reason":"stop"}"#;
    assert_eq!(read(&[odd, "", whole]).unwrap().1.parts, [Part::text("xy")]);
}
