//! Requests with changes.

use super::*;

const REQUEST: &str = r#"{"model":"old","input" : [ {"role":"user","content":"one"},
  {"type":"reasoning","id":"rs","summary":[],"encrypted_content":"e"} ,
  {"type":"function_call","call_id":"c","name":"n","arguments":"{}"},
  {"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"long"}] , "more" : 1.0},
  {"type":"message","role":"assistant","content":[{"type":"output_text","text":"two"}]} ], "x":1e2 }"#;

fn render(request: &str, edited: &RequestEdit) -> String {
    let bytes = ResponsesCodec.render_request(&envelope(request), edited).unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn steps(steps: Vec<RenderOp>) -> RequestEdit {
    RequestEdit { steps: Some(steps), ..RequestEdit::default() }
}

fn input(rendered: &str) -> Vec<serde_json::Value> {
    let request: serde_json::Value = serde_json::from_str(rendered).unwrap();
    request["input"].as_array().unwrap().clone()
}

#[test]
fn without_changes_it_is_the_request() {
    let text = r#"{"input": "one\u0041", "model":"m"}"#;
    for (request, items) in [(REQUEST, 5), (text, 1)] {
        assert_eq!(render(request, &RequestEdit::default()), request);
        assert_eq!(render(request, &steps(vec![RenderOp::Keep(0..items)])), request);
    }
    assert_eq!(render(REQUEST, &steps(vec![RenderOp::Keep(0..2), RenderOp::Keep(2..5)])), REQUEST);
}

#[test]
fn what_stands_before_the_first_change_is_the_client_s() {
    let shown = RenderOp::Change { item: 3, fates: vec![SegmentEdit::Show("gone".to_owned())] };
    let rendered = render(REQUEST, &steps(vec![RenderOp::Keep(0..3), shown, RenderOp::Keep(4..5)]));
    assert_eq!(rendered, REQUEST.replace(r#"[{"type":"input_text","text":"long"}]"#, "\"gone\""));
    let rendered = render(REQUEST, &steps(vec![RenderOp::Say("sum".to_owned()), RenderOp::Keep(4..5)]));
    let items = input(&rendered);
    assert_eq!((items[0]["role"].as_str(), items[1]["role"].as_str()), (Some("user"), Some("assistant")));
    assert_eq!(items[0]["content"][0]["text"], "sum");
    let dropped = RenderOp::Change { item: 4, fates: vec![SegmentEdit::Drop] };
    assert_eq!(input(&render(REQUEST, &steps(vec![RenderOp::Keep(0..4), dropped]))).len(), 4);
    for bad in [RenderOp::Keep(0..6), RenderOp::Change { item: 5, fates: vec![] }] {
        assert!(ResponsesCodec.render_request(&envelope(REQUEST), &steps(vec![bad])).is_err());
    }
    let shown = RenderOp::Change { item: 1, fates: vec![SegmentEdit::Show("x".to_owned())] };
    assert!(
        ResponsesCodec.render_request(&envelope(REQUEST), &steps(vec![shown])).is_err(),
        "reasoning is no text"
    );
}

#[test]
fn scalars_change_their_own_bytes() {
    let edited = RequestEdit { model: Some("new".to_owned()), max_output: Some(5), ..RequestEdit::default() };
    let expected = REQUEST.replace("\"old\"", "\"new\"").replace("1e2 }", "1e2 ,\"max_output_tokens\":5}");
    assert_eq!(render(REQUEST, &edited), expected);
}

#[test]
fn a_text_becomes_items_when_something_is_added() {
    let request = r#"{"model":"m","input":"hi \"you\""}"#;
    let prefill = AnswerPrefill { text: "Once ".to_owned(), must_be_told: false };
    let begun = input(&render(request, &RequestEdit { prefill: Some(prefill), ..RequestEdit::default() }));
    assert_eq!(begun[0]["content"][0]["text"], "hi \"you\"");
    assert_eq!(
        (begun[1]["role"].as_str(), begun[1]["content"][0]["text"].as_str()),
        (Some("assistant"), Some("Once "))
    );
    let said = input(&render(request, &steps(vec![RenderOp::Say("sum".to_owned()), RenderOp::Keep(0..1)])));
    assert_eq!((said[0]["content"][0]["text"].as_str(), said.len()), (Some("sum"), 2));
}
