use longhaul_core::error::ErrorCode;
use longhaul_core::message::{
    Message, ModelAnswer, ModelOrigin, ModelStopReason, OpaquePart, Part, RawJson, ReasoningPart, Role,
    TextPart, ToolCall,
};

use super::*;
use crate::{ModelEvent, ProviderError};

fn read(payloads: &[&str]) -> Result<(Vec<ModelEvent>, ModelAnswer), ProviderError> {
    let mut decoder = ResponsesStreamDecoder::default();
    let mut events = Vec::new();
    for payload in payloads {
        events.extend(decoder.push(payload)?);
    }
    Ok((events, decoder.finish()?))
}

fn origin(model: &str) -> ModelOrigin {
    ModelOrigin { provider: "openai".into(), api: API.into(), model: model.into() }
}

fn encode(parts: Vec<Part>, target: &str) -> Vec<String> {
    let message = Message { id: "m".into(), role: Role::Assistant, parts, origin: Some(origin("a")) };
    encode_parts(&message, &origin(target)).unwrap().into_iter().map(|item| item.0).collect()
}

const REASONING: &str = r#"{"id":"rs_1","type":"reasoning","encrypted_content":"gAAA-done","summary":[{"type":"summary_text","text":"One"},{"type":"summary_text","text":"Two"}]}"#;
const CALL: &str = r#"{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"n\": 1.50}","call_id":"call_1","name":"read"}"#;
const CUSTOM: &str =
    r#"{"id":"ct_1","type":"custom_tool_call","call_id":"call_2","name":"patch","input":"*** \"x\""}"#;
const SEARCH: &str = r#"{"id":"ws_1","type":"web_search_call","status":"completed","action":{"q":"x"}}"#;
const MESSAGE: &str = r#"{"id":"msg_1","type":"message","status":"completed","phase":"commentary","role":"assistant","content":[{"type":"output_text","text":"Hi","annotations":[]},{"type":"refusal","refusal":" no"}]}"#;

fn done(place: u64, item: &str) -> String {
    format!(r#"{{"type":"response.output_item.done","output_index":{place},"item":{item}}}"#)
}

fn closing(status: &str, rest: &str) -> String {
    format!(r#"{{"type":"response.{status}","response":{{"status":"{status}"{rest}}}}}"#)
}

const USAGE: &str = r#","usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":8}}"#;

fn whole() -> Vec<String> {
    let closing_copy = format!(r#","output":[{}]{USAGE}"#, REASONING.replace("-done", "-completed"));
    vec![
        r#"{"type":"response.created","response":{"status":"in_progress","output":[]}}"#.into(),
        format!(r#"{{"type":"response.output_item.added","output_index":0,"item":{}}}"#, REASONING.replace("-done", "-added")),
        r#"{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0}"#.into(),
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"One"}"#.into(),
        r#"{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":1}"#.into(),
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"Two"}"#.into(),
        done(0, REASONING),
        done(1, SEARCH),
        done(2, MESSAGE),
        r#"{"type":"response.output_item.added","output_index":3,"item":{"id":"fc_1","type":"function_call","name":"read","arguments":""}}"#.into(),
        r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":"{\"n\": "}"#.into(),
        r#"{"type":"response.new_event","x":1}"#.into(),
        r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":"1.50}"}"#.into(),
        done(3, CALL),
        done(4, CUSTOM),
        closing("completed", &closing_copy),
    ]
}

fn read_all(payloads: &[String]) -> Result<(Vec<ModelEvent>, ModelAnswer), ProviderError> {
    read(&payloads.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn each_item_is_one_part() {
    let (events, answer) = read_all(&whole()).unwrap();
    let native = |item: &str| Some(RawJson(item.to_owned()));
    let expected = [
        Part::Reasoning(ReasoningPart { text: "One\n\nTwo".into(), native: native(REASONING) }),
        Part::Opaque(OpaquePart { kind: "web_search_call".into(), native: RawJson(SEARCH.into()) }),
        Part::Text(TextPart { text: "Hi no".into(), native: native(MESSAGE) }),
        Part::ToolCall(ToolCall {
            call_id: "call_1".into(),
            name: "read".into(),
            arguments: r#"{"n": 1.50}"#.into(),
            provider_id: Some("call_1".into()),
            native: native(CALL),
        }),
        Part::ToolCall(ToolCall {
            call_id: "call_2".into(),
            name: "patch".into(),
            arguments: r#"{"input":"*** \"x\""}"#.into(),
            provider_id: Some("call_2".into()),
            native: native(CUSTOM),
        }),
    ];
    assert_eq!(answer.parts, expected);
    assert_eq!(answer.finish, ModelStopReason::ToolCalls);
    let shown: String = events
        .iter()
        .filter_map(|event| if let ModelEvent::Reasoning(text) = event { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(shown, "One\n\nTwo");
    let usage = answer.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens, usage.reasoning_tokens),
        (100, 64, 20, 8)
    );
}

#[test]
fn items_go_back_as_they_were_when_done() {
    let (_, answer) = read_all(&whole()).unwrap();
    assert_eq!(encode(answer.parts.clone(), "a"), [REASONING, SEARCH, MESSAGE, CALL, CUSTOM]);
    let foreign = [
        r#"{"type":"message","role":"assistant","content":"Hi no"}"#,
        r#"{"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"n\": 1.50}"}"#,
        r#"{"type":"function_call","call_id":"call_2","name":"patch","arguments":"{\"input\":\"*** \\\"x\\\"\"}"}"#,
    ];
    assert_eq!(encode(answer.parts, "b"), foreign);
}

#[test]
fn a_response_that_hits_its_limit_keeps_its_items() {
    let added = r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"m","type":"message","content":[]}}"#;
    let delta = r#"{"type":"response.output_text.delta","output_index":0,"delta":"Half a"}"#;
    let call = r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"f","type":"function_call","call_id":"c","name":"n","arguments":""}}"#;
    let piece = r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a"}"#;
    let end =
        closing("incomplete", &format!(r#","incomplete_details":{{"reason":"max_output_tokens"}}{USAGE}"#));
    let (_, answer) = read(&[added, delta, call, piece, &end]).unwrap();
    assert_eq!(answer.finish, ModelStopReason::Length);
    assert_eq!(answer.parts[0], Part::text("Half a"));
    let Part::ToolCall(call) = &answer.parts[1] else { panic!() };
    assert_eq!((call.arguments.as_str(), call.native.is_none()), ("{\"a", true));
    let filtered = closing("incomplete", r#","incomplete_details":{"reason":"content_filter"}"#);
    assert_eq!(read(&[&filtered]).unwrap_err().code, ErrorCode::Refused);
}

#[test]
fn items_that_only_the_closing_copy_holds_are_taken() {
    let end = closing("completed", &format!(r#","output":[{REASONING},{MESSAGE}]"#));
    let (events, answer) = read(&[&done(0, REASONING), &end]).unwrap();
    assert_eq!(encode(answer.parts, "a"), [REASONING, MESSAGE]);
    assert_eq!(events.iter().filter(|event| matches!(event, ModelEvent::PartDone(_))).count(), 2);
}

#[test]
fn failures_come_under_status_200() {
    let failed = closing("failed", r#","error":{"code":"rate_limit_exceeded","message":"Slow down"}"#);
    assert_eq!(read(&[&failed]).unwrap_err().code, ErrorCode::RateLimitExceeded);
    let overflow = closing(
        "failed",
        r#","error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}"#,
    );
    assert_eq!(read(&[&overflow]).unwrap_err().code, ErrorCode::ContextOverflow);
    let silent = read(&[&closing("failed", r#","error":null,"metadata":{"about":"quota"}"#)]).unwrap_err();
    assert_eq!((silent.code, silent.retryable), (ErrorCode::ThirdParty, true));
    assert_eq!(silent.message, "the provider failed inside its answer and gave no reason");
    let error = r#"{"type":"error","code":"server_error","message":"Sorry"}"#;
    let error = read(&[error]).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::ThirdParty, "Sorry"));
    assert_eq!(read(&[&done(0, MESSAGE)]).unwrap_err().code, ErrorCode::TruncatedStream);
    assert_eq!(read(&[&closing("cancelled", "")]).unwrap_err().code, ErrorCode::ThirdParty);
}
