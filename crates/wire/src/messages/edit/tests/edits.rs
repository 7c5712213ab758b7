//! Requests with changes.

use super::*;

const REQUEST: &str = r#"{ "messages" : [
    {"role":"user","content":"one"} ,
    {"role":"assistant","content":[{"type":"text","text":"two"},{"type":"tool_use","id":"a","name":"n","input":{}},{"type":"tool_use","id":"b","name":"n","input":{}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error" : true,"content":"long"},{"type":"tool_result","tool_use_id":"b","content":"long"},{"type":"text","text":"three"}]},
    {"role":"assistant","content":"four"},
    {"role":"user","content":"five"}
], "model":"old","max_tokens" : 1e3 ,"future":1.50,"future":"twice"}  "#;

fn render(edited: &RequestEdit) -> String {
    let bytes = MessagesCodec.render_request(&envelope(REQUEST), edited).unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn steps(steps: Vec<RenderOp>) -> RequestEdit {
    RequestEdit { steps: Some(steps), ..RequestEdit::default() }
}

/// The messages of a rendered request, as JSON.
fn messages(rendered: &str) -> Vec<serde_json::Value> {
    let request: serde_json::Value = serde_json::from_str(rendered).unwrap();
    request["messages"].as_array().unwrap().clone()
}

#[test]
fn without_changes_it_is_the_request() {
    assert_eq!(render(&RequestEdit::default()), REQUEST);
    assert_eq!(render(&steps(vec![RenderOp::Keep(0..5)])), REQUEST);
    assert_eq!(render(&steps(vec![RenderOp::Keep(0..2), RenderOp::Keep(2..5)])), REQUEST);
    let kept =
        RenderOp::Change { item: 2, fates: vec![SegmentEdit::Keep, SegmentEdit::Keep, SegmentEdit::Keep] };
    assert_eq!(
        messages(&render(&steps(vec![RenderOp::Keep(0..2), kept, RenderOp::Keep(3..5)]))),
        messages(REQUEST)
    );
}

#[test]
fn scalars_change_their_own_bytes() {
    let edited = RequestEdit {
        model: Some("new \"one\"".to_owned()),
        max_output: Some(7),
        stream: Some(true),
        include_usage: true,
        ..RequestEdit::default()
    };
    let expected = REQUEST
        .replace("\"old\"", r#""new \"one\"""#)
        .replace("1e3", "7")
        .replace("\"twice\"}", "\"twice\",\"stream\":true}");
    assert_eq!(render(&edited), expected);
}

#[test]
fn what_stands_before_the_first_change_is_the_client_s() {
    let fates = vec![SegmentEdit::Show("[gone]".to_owned()), SegmentEdit::Keep, SegmentEdit::Keep];
    let rendered =
        render(&steps(vec![RenderOp::Keep(0..2), RenderOp::Change { item: 2, fates }, RenderOp::Keep(3..5)]));
    let expected = REQUEST.replacen(r#"true,"content":"long""#, r#"true,"content":"[gone]""#, 1);
    assert_eq!(rendered, expected, "one result is shown otherwise and nothing else differs");
    let fates = vec![SegmentEdit::Drop, SegmentEdit::Keep, SegmentEdit::Show("short".to_owned())];
    let rendered = render(&steps(vec![RenderOp::Change { item: 2, fates }, RenderOp::Keep(3..5)]));
    let left = messages(&rendered);
    assert_eq!(left[0]["content"].as_array().unwrap().len(), 2);
    assert_eq!(left[0]["content"][0]["tool_use_id"], "b");
    assert_eq!(left[0]["content"][1]["text"], "short");
    assert!(rendered.ends_with(&REQUEST[REQUEST.find(r#"{"role":"assistant","content":"four""#).unwrap()..]));
}

#[test]
fn what_we_say_joins_the_message_of_a_person() {
    let say = || RenderOp::Say("summary".to_owned());
    let roles = |rendered: &str| -> Vec<String> {
        messages(rendered).iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
    };
    let before_user = render(&steps(vec![say(), RenderOp::Keep(4..5)]));
    assert_eq!(roles(&before_user), ["user"]);
    assert_eq!(messages(&before_user)[0]["content"][0]["text"], "summary");
    assert_eq!(messages(&before_user)[0]["content"][1]["text"], "five");
    let before_assistant = render(&steps(vec![say(), say(), RenderOp::Keep(3..5)]));
    assert_eq!(roles(&before_assistant), ["user", "assistant", "user"]);
    assert_eq!(messages(&before_assistant)[0]["content"].as_array().unwrap().len(), 2);
    let between = render(&steps(vec![RenderOp::Keep(0..1), say(), RenderOp::Keep(3..5)]));
    assert_eq!(roles(&between), ["user", "assistant", "user"]);
    assert_eq!(messages(&between)[0]["content"][0]["text"], "one");
    assert_eq!(messages(&between)[0]["content"][1]["text"], "summary");
    let after = render(&steps(vec![RenderOp::Keep(0..5), say()]));
    assert_eq!(messages(&after)[4]["content"][1]["text"], "summary");
    assert!(after.starts_with(&REQUEST[..REQUEST.find(r#"{"role":"user","content":"five""#).unwrap()]));
    let results = render(&steps(vec![RenderOp::Keep(0..2), say(), RenderOp::Keep(2..5)]));
    let kinds: Vec<_> = messages(&results)[2]["content"].as_array().unwrap().clone();
    assert_eq!(kinds[2]["text"], "summary", "results come first: {kinds:?}");
    assert_eq!(kinds[3]["text"], "three");
}

#[test]
fn answers_between_which_a_question_went_are_one() {
    let left = |list: &str, gone: usize| {
        let envelope = with_items(list);
        let edited = steps(vec![RenderOp::Keep(0..gone), RenderOp::Keep(gone + 1..envelope.items.len())]);
        let rendered = MessagesCodec.render_request(&envelope, &edited).unwrap();
        messages(std::str::from_utf8(&rendered).unwrap())
    };
    let joined = left(
        r#"[{"role":"user","content":"a"},
            {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"first"}]},
            {"role":"user","content":"b"},
            {"role":"assistant","content":[{"type":"text","text":"then"},{"type":"tool_use","id":"c","name":"n","input":{}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}]"#,
        2,
    );
    let kinds: Vec<_> = joined[1]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["thinking", "text", "text", "tool_use"], "{joined:?}");
    assert_eq!((joined.len(), joined[2]["role"].as_str()), (3, Some("user")));
    let plain = left(
        r#"[{"role":"user","content":"a"},{"role":"assistant","content":"first"},
            {"role":"user","content":"b"},{"role":"assistant","content":"last"},{"role":"user","content":"c"}]"#,
        2,
    );
    let texts = |at: usize| plain[1]["content"][at]["text"].as_str();
    assert_eq!((texts(0), texts(1), plain.len()), (Some("first"), Some("last"), 3));
    // Reasoning stays at the beginning of its message.
    let thinks = r#"[{"role":"user","content":"a"},{"role":"assistant","content":"first"},
        {"role":"user","content":"b"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"last"}]}]"#;
    assert_eq!(left(thinks, 2).len(), 3);
    // One that calls is followed by its result, and two that the client has side by side stay two.
    let calls = r#"[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"n","input":{}}]},
        {"role":"user","content":"b"},{"role":"assistant","content":"last"},{"role":"assistant","content":"more"}]"#;
    assert_eq!(left(calls, 2).len(), 4);
}

#[test]
fn an_answer_is_begun() {
    let edited = |text: &str, must_be_told| RequestEdit {
        prefill: Some(AnswerPrefill { text: text.to_owned(), must_be_told }),
        ..RequestEdit::default()
    };
    let begun = render(&edited("Once \n", false));
    let last = messages(&begun).pop().unwrap();
    assert_eq!((last["role"].as_str(), last["content"].as_str()), (Some("assistant"), Some("Once")));
    assert!(!begun.contains("continue_final_message"));
    assert!(render(&edited("Once", true)).contains(r#""continue_final_message":true"#));
    assert_eq!(render(&edited(" \n", false)), REQUEST, "nothing is begun");
    for content in [r#""I say:""#, r#"[{"type":"text","text":"I say:"}]"#] {
        let own = with_items(&format!(
            r#"[{{"role":"user","content":"x"}},{{"role":"assistant","content":{content}}}]"#
        ));
        let rendered = MessagesCodec.render_request(&own, &edited(" Once", false)).unwrap();
        let last = messages(std::str::from_utf8(&rendered).unwrap()).pop().unwrap();
        let said = last["content"].as_str().or(last["content"][0]["text"].as_str());
        assert_eq!(said, Some("I say: Once"), "{content}");
    }
}

#[test]
fn a_change_that_does_not_fit_is_refused() {
    for bad in [
        RenderOp::Keep(0..6),
        RenderOp::Change { item: 0, fates: vec![] },
        RenderOp::Change { item: 2, fates: vec![SegmentEdit::Keep] },
        RenderOp::Change { item: 2, fates: vec![SegmentEdit::Keep; 4] },
        RenderOp::Change { item: 9, fates: vec![SegmentEdit::Keep] },
    ] {
        assert!(
            MessagesCodec.render_request(&envelope(REQUEST), &steps(vec![bad.clone()])).is_err(),
            "{bad:?}"
        );
    }
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        "-?[1-9][0-9]{0,20}(\\.[0-9]{1,4})?(e[1-9])?",
        any::<String>().prop_map(|text| crate::raw_json::quote(&text)),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|list| format!("[{}]", list.join(" , "))),
            prop::collection::vec(("[a-z]{1,5}", inner), 0..4).prop_map(|fields| {
                let fields: Vec<_> =
                    fields.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
                format!("{{ {} }}", fields.join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn keeping_all_is_the_identity(
        others in prop::collection::vec(("x[a-z]{1,5}", json()), 0..4),
        items in prop::collection::vec((any::<bool>(), any::<String>(), json(), "[ \n\t]{0,3}"), 0..6),
        cuts in prop::collection::vec(0usize..7, 0..3),
    ) {
        let items: Vec<String> = items
            .into_iter()
            .map(|(user, text, more, gap)| {
                let role = if user { "user" } else { "assistant" };
                let text = crate::raw_json::quote(&text);
                format!(r#"{gap}{{"role":"{role}",{gap}"content":{text},"more":{more}}}{gap}"#)
            })
            .collect();
        let others: String = others.iter().map(|(key, value)| format!("\"{key}\" : {value}, ")).collect();
        let request = format!(r#" {{{others}"model":"m","messages": [{}]}}"#, items.join(","));
        let envelope = envelope(&request);
        let mut bounds: Vec<usize> = cuts.into_iter().map(|cut| cut.min(items.len())).collect();
        bounds.extend([0, items.len()]);
        bounds.sort_unstable();
        let kept = bounds.windows(2).map(|pair| RenderOp::Keep(pair[0]..pair[1])).collect();
        for edited in [RequestEdit::default(), steps(kept)] {
            let rendered = MessagesCodec.render_request(&envelope, &edited).unwrap();
            prop_assert_eq!(std::str::from_utf8(&rendered).unwrap(), request.as_str());
        }
    }
}

#[test]
fn instructions_in_the_midst_stay_behind_a_person() {
    let envelope = with_items(
        r#"[{"role":"user","content":"one"},{"role":"system","content":"mode A"},{"role":"assistant","content":"two"},{"role":"user","content":"three"},{"role":"system","content":"mode B"},{"role":"assistant","content":"four"},{"role":"user","content":"five"}]"#,
    );
    let roles = |steps: Vec<RenderOp>| -> Vec<String> {
        let edited = RequestEdit { steps: Some(steps), ..RequestEdit::default() };
        let rendered = MessagesCodec.render_request(&envelope, &edited).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&rendered).unwrap();
        let line = |message: &serde_json::Value| {
            let role = &message["role"].as_str().unwrap()[..1];
            match message["content"].as_str() {
                Some(text) => format!("{role}:{text}"),
                None => {
                    let texts = message["content"].as_array().unwrap().iter();
                    let texts: Vec<&str> = texts.map(|block| block["text"].as_str().unwrap()).collect();
                    format!("{role}:{}", texts.join("+"))
                }
            }
        };
        value["messages"].as_array().unwrap().iter().map(line).collect()
    };
    let say = || RenderOp::Say("note".to_owned());
    // Between two that become one: behind both, before the answer.
    assert_eq!(
        roles(vec![RenderOp::Keep(0..2), say(), RenderOp::Keep(3..7)]),
        ["u:one+note+three", "s:mode A", "s:mode B", "a:four", "u:five"]
    );
    // Before a person: behind.
    assert_eq!(
        roles(vec![say(), RenderOp::Keep(1..2), RenderOp::Keep(3..7)]),
        ["u:note+three", "s:mode A", "s:mode B", "a:four", "u:five"]
    );
    assert_eq!(roles(vec![RenderOp::Keep(0..7)]).len(), 7, "what the client has sent stays as it is");
    assert_eq!(roles(vec![RenderOp::Keep(0..2), say()]), ["u:one+note", "s:mode A"]);
}
