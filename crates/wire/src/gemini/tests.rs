use longhaul_core::error::ErrorCode;
use longhaul_core::message::{
    Message, ModelAnswer, ModelOrigin, ModelStopReason, OpaquePart, Part, RawJson, ReasoningPart, Role,
    TextPart, ToolCall,
};

use super::*;
use crate::{ModelEvent, ProviderError};

fn read(payloads: &[&str]) -> Result<(Vec<ModelEvent>, ModelAnswer), ProviderError> {
    let mut decoder = GeminiStreamDecoder::default();
    let mut events = Vec::new();
    for payload in payloads {
        events.extend(decoder.push(payload)?);
    }
    Ok((events, decoder.finish()?))
}

fn chunk(parts: &str) -> String {
    format!(r#"{{"candidates":[{{"content":{{"parts":[{parts}],"role":"model"}},"index":0}}]}}"#)
}

fn last(parts: &str, reason: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{parts}]}},"finishReason":"{reason}"}}],"usageMetadata":{{"promptTokenCount":29,"candidatesTokenCount":15,"thoughtsTokenCount":804,"cachedContentTokenCount":11}}}}"#
    )
}

fn read_all(payloads: &[String]) -> Result<(Vec<ModelEvent>, ModelAnswer), ProviderError> {
    read(&payloads.iter().map(String::as_str).collect::<Vec<_>>())
}

fn origin(model: &str) -> ModelOrigin {
    ModelOrigin { provider: "gemini".into(), api: API.into(), model: model.into() }
}

fn encode(parts: Vec<Part>, target: &str) -> Vec<String> {
    let message = Message { id: "m".into(), role: Role::Assistant, parts, origin: Some(origin("a")) };
    encode_parts(&message, &origin(target)).unwrap().into_iter().map(|part| part.0).collect()
}

const SIGNED: &str = r#"{"text":"","thoughtSignature":"c2ln+/="}"#;
const CALL: &str = r#"{"functionCall":{"name":"read","args":{"n": 1.50}},"thoughtSignature":"Y2FsbA=="}"#;
const SECOND: &str = r#"{"functionCall":{"id":"fc-2","name":"list"}}"#;
const CODE: &str = r#"{"executableCode":{"language":"PYTHON","code":"1"},"thoughtSignature":"eA=="}"#;

fn whole() -> Vec<String> {
    vec![
        chunk(r#"{"text":"Let me ","thought":true}"#),
        chunk(r#"{"text":"think","thought":true},{"text":"Hel"}"#),
        chunk(r#"{"text":"lo"}"#),
        chunk(SIGNED),
        chunk(CODE),
        last(&format!("{CALL},{SECOND}"), "STOP"),
    ]
}

#[test]
fn chunks_of_plain_text_are_one_part_and_signed_parts_stay_apart() {
    let (events, answer) = read_all(&whole()).unwrap();
    let native = |part: &str| Some(RawJson(part.to_owned()));
    let call = |id: &str, provider: Option<&str>, name: &str, arguments: &str, part: &str| {
        Part::ToolCall(ToolCall {
            call_id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            provider_id: provider.map(Into::into),
            native: native(part),
        })
    };
    let expected = [
        Part::Reasoning(ReasoningPart { text: "Let me think".into(), native: None }),
        Part::text("Hello"),
        Part::Text(TextPart { text: String::new(), native: native(SIGNED) }),
        Part::Opaque(OpaquePart { kind: "executableCode".into(), native: RawJson(CODE.into()) }),
        call("call_0", None, "read", r#"{"n": 1.50}"#, CALL),
        call("fc-2", Some("fc-2"), "list", "{}", SECOND),
    ];
    assert_eq!(answer.parts, expected);
    assert_eq!(answer.finish, ModelStopReason::ToolCalls);
    let done = events.iter().filter(|event| matches!(event, ModelEvent::PartDone(_))).count();
    assert_eq!(done, expected.len());
}

#[test]
fn parts_go_back_as_they_came() {
    let (_, answer) = read_all(&whole()).unwrap();
    assert_eq!(encode(answer.parts.clone(), "a"), [r#"{"text":"Hello"}"#, SIGNED, CODE, CALL, SECOND]);
    let foreign = [
        r#"{"text":"Hello"}"#,
        r#"{"functionCall":{"name":"read","args":{"n": 1.50}}}"#,
        r#"{"functionCall":{"name":"list","args":{}}}"#,
    ];
    assert_eq!(encode(answer.parts, "b"), foreign);
}

#[test]
fn thoughts_count_as_output() {
    let usage = read_all(&whole()).unwrap().1.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens, usage.cache_read_tokens),
        (29, 819, 804, 11)
    );
}

#[test]
fn a_part_of_an_answer_has_no_count() {
    let counted = |chunk: String| {
        chunk.replacen('{', r#"{"usageMetadata":{"promptTokenCount":29,"candidatesTokenCount":1},"#, 1)
    };
    let begun = counted(chunk(r#"{"text":"Hel"}"#));
    let mut decoder = GeminiStreamDecoder::default();
    assert_eq!(decoder.push(&begun).unwrap(), [ModelEvent::Text("Hel".into())]);
    assert_eq!((crate::StreamDecoder::usage(&decoder), decoder.finish().unwrap_err().usage), (None, None));
    let silent = r#"{"candidates":[{"finishReason":"STOP"}]}"#;
    assert_eq!(read(&[&begun, silent]).unwrap().1.usage, None, "the count was one of a part");
    let (events, answer) = read(&[&begun, &last("", "STOP")]).unwrap();
    let reported = events
        .into_iter()
        .find_map(|event| if let ModelEvent::Usage(usage) = event { Some(usage) } else { None });
    assert_eq!(reported, answer.usage);
    assert_eq!(reported.unwrap().output_tokens, 819);
}

#[test]
fn arguments_that_come_in_pieces_are_put_together() {
    let pieces = [
        chunk(r#"{"functionCall":{"name":"weather","willContinue":true},"thoughtSignature":"c2ln"}"#),
        chunk(
            r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.city","stringValue":"Bos","willContinue":true}],"willContinue":true}}"#,
        ),
        chunk(
            r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.city","stringValue":"ton"}],"willContinue":true}}"#,
        ),
        chunk(r#"{"functionCall":{}}"#),
    ];
    let (_, answer) = read_all(&[pieces.as_slice(), &[last("", "STOP")]].concat()).unwrap();
    let [Part::ToolCall(call)] = answer.parts.as_slice() else { panic!("{:?}", answer.parts) };
    assert_eq!(call.arguments, r#"{"city":"Boston"}"#);
    let native = r#"{"functionCall":{"name":"weather","args":{"city":"Boston"}},"thoughtSignature":"c2ln"}"#;
    assert_eq!(encode(answer.parts, "a"), [native]);
    let (_, cut) = read_all(&[&pieces[..2], &[last("", "MAX_TOKENS")]].concat()).unwrap();
    let [Part::ToolCall(call)] = cut.parts.as_slice() else { panic!("{:?}", cut.parts) };
    assert_eq!(
        (call.arguments.as_str(), call.native.is_none(), cut.finish),
        (r#"{"city":"Bos"}"#, true, ModelStopReason::Length)
    );
}

#[test]
fn endings() {
    let finish = |reason: &str| read(&[&last(r#"{"text":"x"}"#, reason)]).unwrap().1.finish;
    assert_eq!((finish("STOP"), finish("MAX_TOKENS")), (ModelStopReason::Stop, ModelStopReason::Length));
    assert_eq!((finish("OTHER"), finish("A_NEW_REASON")), (ModelStopReason::Other, ModelStopReason::Other));
    let error = |reason: &str| read(&[&last(r#"{"text":"x"}"#, reason)]).unwrap_err();
    for reason in missing_answer::FILTERS {
        let error = error(reason);
        assert_eq!((error.code, error.retryable), (ErrorCode::Refused, false), "{reason}");
        assert!(error.message.contains(reason), "{error}");
    }
    for reason in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"] {
        let error = error(reason);
        assert_eq!((error.code, error.retryable), (ErrorCode::ThirdParty, true), "{reason}");
    }
    assert_eq!(read(&[&chunk(r#"{"text":"x"}"#)]).unwrap_err().code, ErrorCode::TruncatedStream);
    let error = r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#;
    let error = read(&[&chunk(r#"{"text":"x"}"#), error]).unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::ThirdParty, true));
}

#[test]
fn only_the_first_candidate_is_read() {
    let other = r#"{"candidates":[{"content":{"parts":[{"text":"no"}]},"index":1}]}"#;
    assert_eq!(read(&[other, &last(r#"{"text":"yes"}"#, "STOP")]).unwrap().1.parts, [Part::text("yes")]);
}
