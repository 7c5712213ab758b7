use crate::ToolChoice;
use bytes::Bytes;
use longhaul_core::message::{ModelStopReason, Part};
use proptest::prelude::*;

use super::MessagesCodec;
use crate::edit::{
    AnswerPrefill, GatewayError, GatewayErrorKind, ItemSegment, PromptCacheTtl, RenderOp, RequestEdit,
    SegmentEdit, StreamPosition, WireCodec,
};
use crate::edit::{PartialResponse, RequestEnvelope};
use crate::sse::{SseEvent, SseReader};

mod edits;
mod joints;
mod recorded;

fn envelope(request: &str) -> RequestEnvelope {
    MessagesCodec.parse_request(Bytes::copy_from_slice(request.as_bytes())).unwrap()
}

fn with_items(items: &str) -> RequestEnvelope {
    envelope(&format!(r#"{{"model":"m","max_tokens":9,"messages":{items}}}"#))
}

fn segments(item: &str) -> Vec<ItemSegment> {
    MessagesCodec.parse_segments(&[item], 0).unwrap().remove(0)
}

fn text(text: &str) -> Vec<Part> {
    vec![Part::text(text)]
}

#[test]
fn a_cache_mark_stands_beside_the_items() {
    let asked = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    for (life, mark) in [
        (PromptCacheTtl::FiveMinutes, r#"{"type":"ephemeral"}"#),
        (PromptCacheTtl::OneHour, r#"{"type":"ephemeral","ttl":"1h"}"#),
    ] {
        let edit = RequestEdit { cache_mark: Some(life), ..RequestEdit::default() };
        let sent = MessagesCodec.render_request(&envelope(asked), &edit).unwrap();
        let open = asked.strip_suffix('}').unwrap();
        assert_eq!(std::str::from_utf8(&sent).unwrap(), format!(r#"{open},"cache_control":{mark}}}"#));
    }
}

#[test]
fn a_message_is_what_its_blocks_are() {
    assert_eq!(segments(r#"{"role":"user","content":"hi"}"#), [ItemSegment::Typed(text("hi"))]);
    assert_eq!(segments(r#"{"role":"user","content":""}"#), []);
    assert_eq!(
        segments(r#"{"role":"system","content":"be brief"}"#),
        [ItemSegment::System(text("be brief"))]
    );
    let reminder =
        r#"{"role":"user","content":[{"type":"text","text":"<system-reminder>\nx</system-reminder>"}]}"#;
    assert!(matches!(segments(reminder)[..], [ItemSegment::Note(_)]));
    let mixed = r#"{"role":"user","content":[
        {"type":"tool_result","tool_use_id":"a","content":"one"},
        {"type":"text","text":"and now?"},
        {"type":"tool_result","tool_use_id":"b","is_error":true,"content":[{"type":"text","text":"two"}]}]}"#;
    let result =
        |call: &str, failed, said| ItemSegment::Result { call: call.to_owned(), failed, content: text(said) };
    assert_eq!(
        segments(mixed),
        [result("a", false, "one"), result("b", true, "two"), ItemSegment::Typed(text("and now?"))]
    );
    let answer = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
        {"type":"text","text":"so"},{"type":"tool_use","id":"t1","name":"ls","input":{"a": 1.0}},
        {"type":"server_tool_use","id":"s","name":"web","input":{}}]}"#;
    let [ItemSegment::Assistant(parts)] = &segments(answer)[..] else { panic!() };
    let [Part::Reasoning(thought), Part::Text(said), Part::ToolCall(call), Part::Opaque(other)] = &parts[..]
    else {
        panic!("{parts:?}")
    };
    assert_eq!((thought.text.as_str(), said.text.as_str()), ("hm", "so"));
    assert!(thought.native.as_ref().unwrap().as_str().contains("\"signature\":\"s\""));
    assert_eq!((call.call_id.as_str(), call.arguments.as_str()), ("t1", r#"{"a": 1.0}"#));
    assert_eq!(other.kind, "server_tool_use");
}

#[test]
fn a_search_result_in_a_tool_result_is_text() {
    let found = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[
        {"type":"search_result","source":"https://x.test","title":"Rain","citations":{"enabled":true},
         "content":[{"type":"text","text":"9 mm"},{"type":"text","text":"on Monday"}]}]}]}"#;
    let content = text("Rain\nhttps://x.test\n9 mm\non Monday");
    assert_eq!(segments(found), [ItemSegment::Result { call: "a".into(), failed: false, content }]);
}

#[test]
fn a_readable_compaction_block_is_a_summary() {
    let block = r#"{"role":"assistant","content":[
        {"type":"compaction","content":"So far: the port is 4711."},{"type":"text","text":"And now?"}]}"#;
    let found = segments(block);
    let [ItemSegment::Summary(summary), ItemSegment::Assistant(said)] = &found[..] else {
        panic!("{found:?}")
    };
    let summary = summary[0].as_text().unwrap();
    assert!(summary.starts_with(longhaul_core::plan::MARK), "{summary}");
    assert!(summary.ends_with("\n\nSo far: the port is 4711."), "{summary}");
    assert_eq!(*said, text("And now?"));
    // A summary of ours has such a line already.
    let ours = r#"{"role":"assistant","content":[{"type":"compaction","content":"[SUMMARY] of 9 earlier messages."}]}"#;
    assert_eq!(segments(ours), [ItemSegment::Summary(text("[SUMMARY] of 9 earlier messages."))]);
}

/// Neither block is guessed at: the upstream's own server may read both.
#[test]
fn blocks_without_readable_text_stay_opaque() {
    let opaque = |role: &str, block: &str| {
        let item = format!(r#"{{"role":"{role}","content":[{block}]}}"#);
        let found = segments(&item);
        let [ItemSegment::Assistant(parts) | ItemSegment::Typed(parts)] = &found[..] else {
            panic!("{found:?}")
        };
        matches!(&parts[..], [Part::Opaque(own)] if own.native.as_str() == block)
    };
    for block in [
        r#"{"type":"compaction","content":null,"encrypted_content":"QQ=="}"#,
        r#"{"type":"compaction","content":" "}"#,
        r#"{"type":"compaction","content":[7]}"#,
        r#"{"type":"compaction"}"#,
    ] {
        assert!(opaque("assistant", block), "{block}");
    }
    for block in [
        r#"{"type":"search_result","source":"s","title":"t"}"#,
        r#"{"type":"search_result","source":"s","title":"t","content":[]}"#,
        r#"{"type":"search_result","source":"s","title":"t","content":"no list"}"#,
        r#"{"type":"search_result","source":"s","title":"t","content":[{"type":"image"}]}"#,
        r#"{"type":"compaction","content":"A client's word is no model's."}"#,
    ] {
        assert!(opaque("user", block), "{block}");
    }
}

proptest! {
    /// Any content of such blocks is read or left alone.
    #[test]
    fn no_block_content_panics(
        kind in prop_oneof![Just("search_result"), Just("compaction")],
        role in prop_oneof![Just("user"), Just("assistant")],
        content in prop_oneof![
            Just("null".to_owned()), Just("{}".to_owned()), Just("[[]]".to_owned()), Just("[null]".to_owned()),
            ".*".prop_map(|text| crate::raw_json::quote(&text)),
            ".*".prop_map(|text| format!(r#"[{{"type":"text","text":{}}}]"#, crate::raw_json::quote(&text))),
        ],
    ) {
        let item = format!(r#"{{"role":"{role}","content":[{{"type":"{kind}","content":{content}}}]}}"#);
        prop_assert!(MessagesCodec.parse_segments(&[&item], 0).is_ok());
    }
}

#[test]
fn a_message_that_is_none_is_named() {
    for (item, param) in [
        ("1", "messages[3]"),
        (r#"{"content":"x"}"#, "messages[3]"),
        (r#"{"role":"robot","content":"x"}"#, "messages[3]"),
        (r#"{"role":"user","content":7}"#, "messages[3]"),
        (r#"{"role":"user","content":["x"]}"#, "messages[3].content[0]"),
        (r#"{"role":"user","content":[{"type":"tool_result"}]}"#, "messages[3].content[0]"),
        (r#"{"role":"assistant","content":[{"type":"tool_use","name":"x"}]}"#, "messages[3].content[0]"),
        (
            r#"{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"?"}}]}"#,
            "messages[3].content[0]",
        ),
    ] {
        let bad = MessagesCodec.parse_segments(&[item], 3).unwrap_err();
        assert_eq!(bad.param.as_deref(), Some(param), "{item}: {bad}");
    }
    for request in ["", "[]", "{}", r#"{"model":"m","messages":"x"}"#, r#"{"model":1,"messages":[]}"#] {
        assert!(
            MessagesCodec.parse_request(Bytes::copy_from_slice(request.as_bytes())).is_err(),
            "{request}"
        );
    }
}

#[test]
fn system_and_tools_are_fixed() {
    let request = r#"{"model":"m","messages":[],"system":[{"type":"text","text":"a"},{"type":"text","text":"b"}],
        "tools":[{"name":"ls","description":"lists","input_schema":{"type" : "object"}},
                 {"type":"web_search_20250305","name":"web_search"}]}"#;
    let fixed = MessagesCodec.fixed_content(&envelope(request)).unwrap();
    assert_eq!(fixed.system, "a\n\nb");
    assert_eq!(fixed.tools[0].parameters.as_str(), r#"{"type" : "object"}"#);
    assert_eq!((fixed.tools[0].description.as_str(), fixed.tools[1].name.as_str()), ("lists", "web_search"));
    let attributed = r#"{"model":"m","messages":[],"system":[
        {"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.1; cch=00000;"},{"type":"text","text":"a"}]}"#;
    assert_eq!(
        MessagesCodec.fixed_content(&envelope(attributed)).unwrap().system,
        "a",
        "it is another with every request"
    );
    let plain = envelope(r#"{"model":"m","messages":[],"system":"s","tools":[]}"#);
    assert_eq!(MessagesCodec.fixed_content(&plain).unwrap().system, "s");
    assert!(MessagesCodec.fixed_content(&envelope(r#"{"model":"m","messages":[],"tools":{}}"#)).is_err());
}

#[test]
fn a_message_keeps_its_name_when_it_is_sent_again() {
    let form = |item: &str| {
        let mut out = Vec::new();
        MessagesCodec.write_canonical_item(item, 0, &mut out).unwrap();
        out
    };
    let first = form(r#"{"role":"user","content":"list the files"}"#);
    for again in [
        r#"{ "content" : [ {"text":"list the files","type":"text"} ], "role":"user" }"#,
        r#"{"role":"user","content":[{"type":"text","text":"list the files","cache_control":{"type":"ephemeral"}}]}"#,
    ] {
        assert_eq!(first, form(again), "{again}");
    }
    assert_ne!(first, form(r#"{"role":"assistant","content":"list the files"}"#));
    let result = |block: &str| form(&format!(r#"{{"role":"user","content":[{block}]}}"#));
    assert_eq!(
        result(r#"{"type":"tool_result","tool_use_id":"a","content":"x"}"#),
        result(
            r#"{"tool_use_id":"a","cache_control":{"type":"ephemeral","ttl":"1h"},"type":"tool_result",
            "content":[{"type":"text","text":"x"}]}"#
        )
    );
    let call = |input: &str| {
        form(&format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"a","name":"n","input":{input}}}]}}"#
        ))
    };
    assert_ne!(call(r#"{"cache_control":1}"#), call("{}"), "arguments are no marks");
}

#[test]
fn a_choice_of_tools_is_read() {
    let choice = |choice: &str| {
        let request = format!(r#"{{"model":"m","messages":[],"tool_choice":{choice}}}"#);
        super::tool_choice(&envelope(&request))
    };
    for (said, meant) in [
        ("null", ToolChoice::Auto),
        (r#"{"type":"auto","disable_parallel_tool_use":true}"#, ToolChoice::Auto),
        (r#"{"type":"any"}"#, ToolChoice::Required),
        (r#"{"type":"none"}"#, ToolChoice::None),
        (r#"{"type":"tool","name":"ls"}"#, ToolChoice::Named("ls".to_owned())),
    ] {
        assert_eq!(choice(said), Ok(meant), "{said}");
    }
    for bad in ["\"auto\"", r#"{"type":"tool"}"#, r#"{"type":"some"}"#] {
        assert_eq!(choice(bad).unwrap_err().param.as_deref(), Some("tool_choice"), "{bad}");
    }
}

#[test]
fn errors_are_worded_as_clients_expect_them() {
    let fault = GatewayError::new(GatewayErrorKind::ContextOverflow, "9000 tokens > 4096 maximum");
    let body = MessagesCodec.error_body(&fault);
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["type"], "error");
    assert_eq!(body["error"]["type"], "invalid_request_error");
    assert_eq!(body["error"]["message"], "prompt is too long: 9000 tokens > 4096 maximum");
    let event = MessagesCodec.error_event(&GatewayError::new(GatewayErrorKind::Unreachable, "gone"));
    let event = SseEvent::parse(&event);
    assert_eq!(event.name.as_deref(), Some("error"));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&event.data).unwrap()["error"]["type"], "api_error");
}
