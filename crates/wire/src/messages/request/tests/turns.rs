//! The conversation in a body.

use super::*;

#[test]
fn results_open_the_user_turn_and_everything_between_two_answers_is_one_turn() {
    let list = turns(vec![
        user("x"),
        assistant(vec![call("c1", None, "{}"), call("c2", None, "{}")], own()),
        result("c1", vec![Part::text("one")]),
        Message { role: Role::Tool, ..user("a word beside") },
        result("c2", vec![Part::text("two")]),
        Message::user("u", vec![Part::text("and"), Part::text("\n\n"), Part::text("more")]),
        assistant(vec![Part::text("  ")], foreign()),
        user("go"),
    ]);
    let expected = json!([
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "one"}]},
        {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "two"}]},
        {"type": "text", "text": "a word beside"},
        {"type": "text", "text": "and\n\nmore"},
        {"type": "text", "text": "go"},
    ]);
    assert_eq!((list.len(), &list[2]["content"]), (3, &expected));
}

#[test]
fn two_answers_in_a_row_are_one_turn() {
    let list = turns(vec![
        user("x"),
        assistant(vec![Part::text("one")], own()),
        assistant(vec![Part::text("two")], foreign()),
        user("y"),
    ]);
    assert_eq!(list[1]["content"], json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]));
}

#[test]
fn a_message_that_ends_the_request_is_gone_on_with_and_has_no_blank_at_its_end() {
    let list =
        turns(vec![user("x"), assistant(vec![Part::text("a \n"), Part::text("The answer is \n")], own())]);
    let expected = json!([{"type": "text", "text": "a \n"}, {"type": "text", "text": "The answer is"}]);
    assert_eq!(list[1], json!({"role": "assistant", "content": expected}));
}

#[test]
fn media_go_as_the_api_takes_them() {
    let parts = vec![
        Part::Image(media("png", "image/png")),
        Part::Image(media("png", "image/jpg")),
        Part::File(media("pdf", "application/pdf")),
        Part::File(media("txt", "text/markdown; charset=utf-8")),
    ];
    let shown = turns(vec![Message::user("u", parts.clone())])[0]["content"].clone();
    let expected = json!([
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "YWJj"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "YWJj"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
         "title": "n"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain words"},
         "title": "n"},
    ]);
    assert_eq!(shown, expected);
    let calls = vec![user("x"), assistant(vec![call("c1", None, "{}")], own()), result("c1", parts)];
    assert_eq!(turns(calls)[2]["content"][0]["content"], expected, "also in a tool's result");
}

#[test]
fn what_the_model_cannot_take_is_said_in_words() {
    let unsupported = json!([{"type": "text", "text": "[unsupported content]"}]);
    for part in [
        Part::Image(media("png", "image/svg+xml")),
        Part::Image(media("missing", "image/png")),
        Part::File(media("blank", "text/plain")),
        Part::File(media("bin", "application/zip")),
        opaque("odd", "{}"),
        Part::text(" \n"),
    ] {
        assert_eq!(
            turns(vec![Message::user("u", vec![part.clone()])])[0]["content"],
            unsupported,
            "{part:?}"
        );
    }
    let mut blind = config();
    blind.settings.declared.images = Some(false);
    let parts = vec![
        Part::Image(media("png", "image/png")),
        Part::File(media("pdf", "application/pdf")),
        Part::File(media("txt", "text/plain")),
    ];
    let shown = body(&request(vec![Message::user("u", parts)]), &blind)["messages"][0]["content"].clone();
    assert_eq!(shown[0]["text"], "[unsupported content][unsupported content]");
    assert_eq!(shown[1]["type"], "document", "words need no eyes");
    let list =
        turns(vec![user("x"), assistant(vec![Part::Image(media("png", "image/png"))], own()), user("y")]);
    assert_eq!(list[1]["content"], unsupported, "an assistant cannot show a picture here");
}

#[test]
fn a_tool_that_failed_says_so() {
    let shown = |status: ToolStatus, content: Vec<Part>| {
        let list =
            vec![user("x"), assistant(vec![call("c1", None, "{}")], own()), result_of("c1", status, content)];
        turns(list)[2]["content"][0].clone()
    };
    let named = |content: Value| json!({"type": "tool_result", "tool_use_id": "c1", "content": content, "is_error": true});
    assert_eq!(
        shown(ToolStatus::Error, vec![Part::text("no file")]),
        named(json!([{"type": "text", "text": "no file"}]))
    );
    for (status, words) in [
        (ToolStatus::Error, "[the tool failed without a message]"),
        (ToolStatus::Cancelled, "[cancelled]"),
        (ToolStatus::Interrupted, "[interrupted, outcome unknown]"),
    ] {
        assert_eq!(shown(status, vec![Part::text("\n")]), named(json!([{"type": "text", "text": words}])));
    }
    let silent = json!({"type": "tool_result", "tool_use_id": "c1"});
    assert_eq!(shown(ToolStatus::Completed, Vec::new()), silent);
}

#[test]
fn a_result_without_call_is_refused() {
    let error = encode(&request(vec![user("x"), result("c9", vec![])]), &config()).unwrap_err();
    assert_eq!((error.code, error.message.contains("c9")), (ErrorCode::InvalidRequest, true));
}

#[test]
fn a_schema_that_is_no_json_is_refused_by_name() {
    let mut request = request(vec![user("x")]);
    request.tools = vec![ToolSpec { parameters: RawJson("{".into()), ..tool("odd") }];
    assert!(encode(&request, &config()).unwrap_err().message.contains("`odd`"));
}

#[test]
fn arguments_keep_their_bytes_and_what_is_none_stays_readable() {
    let odd = "{ \"a\" : 1.0,\n\t\"a\":\"\\u00e9\" }";
    let half = r#"{"a":"\ud83d"}"#;
    let wrapped = r#"{"invalid_json":"{\"a\":\"\\ud83d\"}"}"#;
    for (written, sent) in [
        (odd, odd),
        (" {\"a\":1}\n", "{\"a\":1}"),
        ("", "{}"),
        ("[1]", r#"{"invalid_json":"[1]"}"#),
        ("{\"a\":", r#"{"invalid_json":"{\"a\":"}"#),
        (half, wrapped),
    ] {
        let list =
            vec![user("x"), assistant(vec![call("c1", Some("t1"), written)], own()), result("c1", vec![])];
        let expected = format!(r#"{{"type":"tool_use","id":"t1","name":"read","input":{sent}}}"#);
        let text = text_of(&request(list), &config());
        assert!(text.contains(&expected), "{written}: {text}");
        serde_json::from_str::<Value>(&text).unwrap();
    }
}

#[test]
fn a_call_with_more_than_the_usual_goes_back_whole_unless_its_name_is_taken() {
    let native =
        r#"{"caller":{"type":"direct"},"id":"t1","input":{ "a":1.0},"name":"read","type":"tool_use"}"#;
    let direct = |call_id: &str| {
        let mut part = call(call_id, Some("t1"), "{ \"a\":1.0}");
        if let Part::ToolCall(call) = &mut part {
            call.native = Some(RawJson(native.into()));
        }
        part
    };
    let list = vec![
        user("x"),
        assistant(vec![direct("c1")], own()),
        result("c1", vec![]),
        assistant(vec![direct("c2")], own()),
        result("c2", vec![]),
    ];
    let text = text_of(&request(list.clone()), &config());
    assert!(text.contains(native), "{text}");
    assert!(text.contains(&native.replace("t1", "c2")), "{text}");
    let ids: Vec<_> = turns(list).iter().map(|turn| turn["content"][0]["tool_use_id"].clone()).collect();
    assert_eq!(ids, [Value::Null, Value::Null, json!("t1"), Value::Null, json!("c2")]);
}

#[test]
fn reasoning_goes_to_the_model_that_wrote_it_and_to_no_other() {
    let parts = || {
        let redacted = r#"{"type":"redacted_thinking","data":"ZGF0YQ=="}"#;
        vec![
            thinking("Hm"),
            Part::Reasoning(ReasoningPart { text: String::new(), native: Some(RawJson(redacted.into())) }),
            Part::Reasoning(ReasoningPart { text: "cut off".into(), native: None }),
            Part::text("so"),
        ]
    };
    let list = turns(vec![user("x"), assistant(parts(), own()), user("y")]);
    let expected = json!([
        {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
        {"type": "text", "text": "so"},
    ]);
    assert_eq!(list[1]["content"], expected);
    let list = turns(vec![user("x"), assistant(parts(), foreign()), user("y")]);
    assert_eq!(list[1]["content"], json!([{"type": "text", "text": "so"}]));
    let list = turns(vec![user("x"), assistant(vec![thinking("Hm")], foreign()), user("y")]);
    assert_eq!(list.len(), 1, "nothing is left of the answer, and the user speaks once");
}

#[test]
fn a_call_of_the_servers_own_tools_needs_its_result() {
    let server =
        |id: &str| opaque("server_tool_use", &format!(r#"{{"type":"server_tool_use","id":"{id}"}}"#));
    let found = r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}"#;
    let answer = vec![server("s1"), opaque("web_search_tool_result", found), server("s2"), Part::text("cut")];
    let kinds = |list: Vec<Message>| {
        let turn = turns(list)[1]["content"].clone();
        turn.as_array()
            .unwrap()
            .iter()
            .map(|block| block["type"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let whole = ["server_tool_use", "web_search_tool_result", "server_tool_use", "text"];
    let paused = vec![user("x"), assistant(answer.clone(), own())];
    assert_eq!(kinds(paused), whole, "a paused turn goes back as it is");
    let cut = vec![user("x"), assistant(answer, own()), user("y")];
    assert_eq!(kinds(cut), ["server_tool_use", "web_search_tool_result", "text"]);

    let inside = r#"{"type":"tool_use","id":"t1","name":"read","input":{},"caller":{"type":"code_execution_20260120","tool_id":"s1"}}"#;
    let mut ours = call("c1", Some("t1"), "{}");
    if let Part::ToolCall(call) = &mut ours {
        call.native = Some(RawJson(inside.into()));
    }
    let list = vec![user("x"), assistant(vec![server("s1"), ours], own()), result("c1", vec![])];
    assert_eq!(kinds(list), ["server_tool_use", "tool_use"], "its result comes later");
}
