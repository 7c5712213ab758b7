use crate::ToolChoice;
use bytes::Bytes;
use longhaul_core::message::{ModelStopReason, Part};

use super::ResponsesCodec;
use crate::edit::{
    AnswerPrefill, GatewayError, GatewayErrorKind, ItemSegment, PartialResponse, RenderOp, RequestEdit,
    RequestEnvelope, SegmentEdit, StreamPosition, WireCodec,
};
use crate::sse::{SseEvent, SseReader};

mod edits;
mod joints;
mod recorded;

fn envelope(request: &str) -> RequestEnvelope {
    ResponsesCodec.parse_request(Bytes::copy_from_slice(request.as_bytes())).unwrap()
}

fn piece(item: &str) -> Option<ItemSegment> {
    ResponsesCodec.parse_segments(&[item], 0).unwrap().remove(0).pop()
}

fn text(text: &str) -> Vec<Part> {
    vec![Part::text(text)]
}

#[test]
fn an_item_is_one_piece() {
    assert_eq!(piece("\"hi\""), Some(ItemSegment::Typed(text("hi"))));
    assert_eq!(piece(r#"{"role":"user","content":"hi"}"#), Some(ItemSegment::Typed(text("hi"))));
    assert_eq!(
        piece(r#"{"type":"message","role":"developer","content":[{"type":"input_text","text":"be"}]}"#),
        Some(ItemSegment::System(text("be")))
    );
    let context = r#"{"role":"user","content":[{"type":"input_text","text":"<environment_context>x"}]}"#;
    assert!(matches!(piece(context), Some(ItemSegment::Note(_))));
    let call = r#"{"type":"function_call","call_id":"c","name":"ls","arguments":"{\"a\": 1.0}","id":"fc"}"#;
    let Some(ItemSegment::Assistant(parts)) = piece(call) else { panic!() };
    let [Part::ToolCall(call)] = &parts[..] else { panic!() };
    assert_eq!((call.call_id.as_str(), call.arguments.as_str()), ("c", "{\"a\": 1.0}"));
    let custom = r#"{"type":"custom_tool_call","call_id":"c","name":"patch","input":"*** \"x\""}"#;
    let Some(ItemSegment::Assistant(parts)) = piece(custom) else { panic!() };
    assert!(matches!(&parts[..], [Part::ToolCall(call)] if call.arguments == r#"{"input":"*** \"x\""}"#));
    for (output, content) in [
        (r#""done""#, text("done")),
        (r#"[{"type":"input_text","text":"done"}]"#, text("done")),
        ("null", Vec::new()),
    ] {
        let item = format!(r#"{{"type":"function_call_output","call_id":"c","output":{output}}}"#);
        assert_eq!(piece(&item), Some(ItemSegment::Result { call: "c".to_owned(), failed: false, content }));
    }
    let reasoning = r#"{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"a"}],"encrypted_content":"x"}"#;
    let Some(ItemSegment::Assistant(parts)) = piece(reasoning) else { panic!() };
    assert!(matches!(&parts[..], [Part::Reasoning(said)] if said.text == "a" && said.native.is_some()));
    let other = r#"{"type":"item_reference","id":"x"}"#;
    assert!(
        matches!(piece(other), Some(ItemSegment::Assistant(parts)) if matches!(parts[0], Part::Opaque(_)))
    );
    assert_eq!(piece(r#"{"role":"user","content":""}"#), None);
}

#[test]
fn an_item_that_is_none_is_named() {
    for item in [
        "1",
        "{}",
        r#"{"role":"robot","content":"x"}"#,
        r#"{"role":"user"}"#,
        r#"{"type":"function_call","call_id":"c"}"#,
        r#"{"type":"function_call_output","output":"x"}"#,
    ] {
        let bad = ResponsesCodec.parse_segments(&[item], 3).unwrap_err();
        assert_eq!(bad.param.as_deref(), Some("input[3]"), "{item}: {bad}");
    }
    for request in [r#"{"model":"m"}"#, r#"{"model":"m","input":1}"#, r#"{"model":1,"input":[]}"#] {
        assert!(
            ResponsesCodec.parse_request(Bytes::copy_from_slice(request.as_bytes())).is_err(),
            "{request}"
        );
    }
}

#[test]
fn instructions_and_tools_are_fixed() {
    let request = r#"{"model":"m","input":"x","instructions":"s","tools":[
        {"type":"function","name":"ls","description":"d","parameters":{ "type":"object"}},{"type":"web_search"}]}"#;
    let fixed = ResponsesCodec.fixed_content(&envelope(request)).unwrap();
    assert_eq!((fixed.system.as_str(), fixed.tools.len()), ("s", 2));
    assert_eq!(fixed.tools[0].parameters.as_str(), r#"{ "type":"object"}"#);
    assert_eq!(fixed.tools[1].name, "web_search");
    assert!(
        ResponsesCodec.fixed_content(&envelope(r#"{"model":"m","input":"x","instructions":1}"#)).is_err()
    );
}

#[test]
fn an_item_keeps_its_name_when_it_is_sent_again() {
    let form = |item: &str| {
        let mut out = Vec::new();
        ResponsesCodec.write_canonical_item(item, 0, &mut out).unwrap();
        out
    };
    let said = form(r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}"#);
    for again in [
        "\"x\"",
        r#"{"role":"user","content":"x"}"#,
        r#"{"content":"x","role":"user","id":"m","status":"completed"}"#,
    ] {
        assert_eq!(said, form(again), "{again}");
    }
    let answer = form(
        r#"{"type":"message","role":"assistant","id":"msg","status":"completed",
        "content":[{"type":"output_text","text":"x","annotations":[],"logprobs":[]}]}"#,
    );
    assert_eq!(answer, form(r#"{"role":"assistant","content":"x"}"#));
    assert_ne!(said, answer);
    let call = |arguments: &str| {
        form(&format!(r#"{{"type":"function_call","call_id":"c","name":"n","arguments":"{arguments}"}}"#))
    };
    assert_ne!(call("{}"), call("{ }"), "what the model wrote is a text");
}

#[test]
fn a_choice_of_tools_is_read() {
    let choice = |choice: &str| {
        let request = format!(r#"{{"model":"m","input":[],"tool_choice":{choice}}}"#);
        super::tool_choice(&envelope(&request))
    };
    for (said, meant) in [
        ("\"auto\"", ToolChoice::Auto),
        ("\"required\"", ToolChoice::Required),
        ("\"none\"", ToolChoice::None),
        (r#"{"type":"function","name":"ls"}"#, ToolChoice::Named("ls".to_owned())),
    ] {
        assert_eq!(choice(said), Ok(meant), "{said}");
    }
    for bad in ["\"some\"", r#"{"type":"web_search"}"#, r#"{"type":"function"}"#] {
        assert_eq!(choice(bad).unwrap_err().param.as_deref(), Some("tool_choice"), "{bad}");
    }
}

#[test]
fn a_tool_that_takes_text_is_known() {
    let request = r#"{"model":"m","input":[],"tools":[{"type":"function","name":"ls"},
        {"type":"custom","name":"patch","description":"d","format":{"type":"grammar","definition":"start: x"}}]}"#;
    let envelope = envelope(request);
    assert_eq!(super::custom_tools(&envelope), ["patch"]);
    let tools = ResponsesCodec.fixed_content(&envelope).unwrap().tools;
    assert_eq!(tools[1].description, "d\n\nstart: x");
    assert!(tools[1].parameters.as_str().contains("\"input\""));
}

#[test]
fn errors_are_worded_as_clients_expect_them() {
    let fault = GatewayError {
        param: Some("input".to_owned()),
        ..GatewayError::new(GatewayErrorKind::ContextOverflow, "too long")
    };
    let body: serde_json::Value = serde_json::from_slice(&ResponsesCodec.error_body(&fault)).unwrap();
    assert_eq!(body["error"]["code"], "context_length_exceeded");
    assert_eq!(body["error"]["param"], "input");
    let stream = ResponsesCodec.error_event(&fault);
    let mut watcher = ResponsesCodec.stream_parser();
    let mut events = SseReader::default();
    events.feed(stream);
    let mut names = Vec::new();
    while let Some(raw) = events.next_event() {
        names.push(SseEvent::parse(&raw).name.unwrap().into_owned());
        watcher.read(&SseEvent::parse(&raw));
    }
    assert_eq!(names, ["error", "response.failed"]);
    assert!(watcher.seen().error.as_deref().unwrap().contains("context_length_exceeded"));
    assert!(watcher.seen().over && watcher.seen().finish.is_none());
}
