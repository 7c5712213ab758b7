use longhaul_core::message::{ModelStopReason, Part};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::edit::{
    AnswerPrefill, GatewayErrorKind, RenderOp, SegmentEdit, SseEvent, SseReader, StreamPosition,
};

fn request(messages: Value) -> RequestEnvelope {
    let body = format!(
        "{{ \"model\":\"m\", \"temperature\": 1.0e0,\n  \"messages\" : {messages} , \"stream\": true, \"x\":[1,  2]}}"
    );
    ChatCodec.parse_request(body.into()).unwrap()
}

fn conversation() -> Value {
    json!([
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{\"a\":1}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "files"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": [{"type": "text", "text": "three"}]},
    ])
}

fn rendered(envelope: &RequestEnvelope, edited: &RequestEdit) -> (String, Value) {
    let bytes = ChatCodec.render_request(envelope, edited).unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let value = serde_json::from_str(&text).unwrap();
    (text, value)
}

#[test]
fn the_envelope_says_where_things_stand() {
    let envelope = request(conversation());
    assert_eq!((envelope.model.as_str(), envelope.stream, envelope.items.len()), ("m", true, 6));
    assert_eq!(envelope.text(envelope.model_at.as_ref().unwrap()), "\"m\"");
    assert!(envelope.item(3).contains("files"));
    for (body, param) in [
        ("{\"model\":\"m\"}", Some("messages")),
        ("{\"model\":\"m\",\"messages\":\"x\"}", Some("messages")),
        ("{\"model\":1,\"messages\":[]}", Some("model")),
        ("{\"model\":\"m\",\"messages\":[],\"stream\":\"yes\"}", Some("stream")),
        ("{\"model\":\"m\",\"messages\":[],\"max_tokens\":\"many\"}", Some("max_tokens")),
        ("[]", None),
        ("{\"model\":\"m\"", None),
        ("", None),
    ] {
        let bad = ChatCodec.parse_request(Bytes::from(body)).unwrap_err();
        assert_eq!(bad.param.as_deref(), param, "{body}");
    }
    let unnamed = ChatCodec.parse_request(Bytes::from_static(br#"{"messages":[],"seed":1.50}"#)).unwrap();
    assert_eq!((unnamed.model.as_str(), &unnamed.model_at), ("", &None));
    let named = ChatCodec
        .render_request(&unnamed, &RequestEdit { model: Some("m".to_owned()), ..RequestEdit::default() })
        .unwrap();
    assert_eq!(named, r#"{"messages":[],"seed":1.50,"model":"m"}"#);
}

#[test]
fn messages_are_read_as_what_they_say() {
    let items: Vec<String> = conversation().as_array().unwrap().iter().map(Value::to_string).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let pieces: Vec<ItemSegment> = ChatCodec.parse_segments(&items, 0).unwrap().concat();
    assert_eq!(pieces[0], ItemSegment::System(vec![Part::text("be brief")]));
    assert_eq!(pieces[1], ItemSegment::Typed(vec![Part::text("one")]));
    let ItemSegment::Assistant(parts) = &pieces[2] else { panic!("{pieces:?}") };
    let Part::ToolCall(call) = &parts[0] else { panic!("{parts:?}") };
    assert_eq!(
        (call.call_id.as_str(), call.name.as_str(), call.arguments.as_str()),
        ("c1", "ls", "{\"a\":1}")
    );
    assert_eq!(
        pieces[3],
        ItemSegment::Result { call: "c1".to_owned(), failed: false, content: vec![Part::text("files")] }
    );
    assert_eq!(pieces[5], ItemSegment::Typed(vec![Part::text("three")]));
    let summary = ChatCodec.parse_segments(&[r#"{"role":"user","content":"[SUMMARY] of 3"}"#], 0).unwrap();
    assert!(matches!(summary[0][0], ItemSegment::Note(_)));
    for (bad, param) in [
        ("1", "messages[7]"),
        (r#"{"role":"robot","content":"x"}"#, "messages[7].role"),
        (r#"{"role":"user","content":5}"#, "messages[7].content"),
    ] {
        assert_eq!(ChatCodec.parse_segments(&[bad], 7).unwrap_err().param.as_deref(), Some(param), "{bad}");
    }
    let both = r#"{"role":"assistant","content":"x","reasoning":"r","reasoning_content":"r"}"#;
    assert!(ChatCodec.parse_segments(&[both], 0).is_ok());
}

#[test]
fn nothing_changed_is_the_same_bytes() {
    let envelope = request(conversation());
    assert_eq!(ChatCodec.render_request(&envelope, &RequestEdit::default()).unwrap(), envelope.bytes);
    let steps = Some(vec![RenderOp::Keep(0..2), RenderOp::Keep(2..6)]);
    assert_eq!(
        ChatCodec.render_request(&envelope, &RequestEdit { steps, ..RequestEdit::default() }).unwrap(),
        envelope.bytes
    );
}

#[test]
fn only_what_changes_changes() {
    let envelope = request(conversation());
    let edited = RequestEdit {
        model: Some("other".to_owned()),
        max_output: Some(7),
        steps: Some(vec![
            RenderOp::Keep(0..3),
            RenderOp::Change { item: 3, fates: vec![SegmentEdit::Show("[gone]".to_owned())] },
            RenderOp::Keep(4..6),
        ]),
        ..RequestEdit::default()
    };
    let (text, value) = rendered(&envelope, &edited);
    assert_eq!(value["messages"][3], json!({"role": "tool", "tool_call_id": "c1", "content": "[gone]"}));
    assert_eq!((&value["model"], &value["max_tokens"]), (&json!("other"), &json!(7)));
    let original = String::from_utf8(envelope.bytes.to_vec()).unwrap();
    let restored =
        text.replace("\"other\"", "\"m\"").replace("[gone]", "files").replace(",\"max_tokens\":7", "");
    assert_eq!(restored, original);
}

#[test]
fn answers_between_which_a_question_went_are_one() {
    let said = |role: &str, content: &str| json!({ "role": role, "content": content });
    let call = json!({ "role": "assistant", "content": "then", "tool_calls": [
        { "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } },
    ] });
    let result = json!({ "role": "tool", "tool_call_id": "c", "content": "r" });
    let list = json!([
        said("user", "a"),
        said("assistant", "first"),
        said("user", "b"),
        call,
        result,
        said("assistant", "last"),
        said("user", "c")
    ]);
    let envelope = request(list.clone());
    let left = |steps| {
        let (_, value) = rendered(&envelope, &RequestEdit { steps: Some(steps), ..RequestEdit::default() });
        value["messages"].as_array().unwrap().clone()
    };
    let joined = left(vec![RenderOp::Keep(0..2), RenderOp::Keep(3..7)]);
    assert_eq!(joined.len(), 5);
    assert_eq!(joined[1]["content"], "first\n\nthen");
    assert_eq!(joined[1]["tool_calls"], list[3]["tool_calls"]);
    assert_eq!(joined[2..], list.as_array().unwrap()[4..]);
    // One that called waits for its result, and stays.
    assert_eq!(left(vec![RenderOp::Keep(0..1), RenderOp::Keep(3..7)])[1], list[3]);
}

#[test]
fn what_we_say_finds_its_place() {
    let envelope = request(conversation());
    let contents = |steps| {
        let (_, value) = rendered(&envelope, &RequestEdit { steps: Some(steps), ..RequestEdit::default() });
        let messages = value["messages"].as_array().unwrap().clone();
        let line = |m: &Value| format!("{}:{}", m["role"].as_str().unwrap(), m["content"]);
        messages.iter().map(line).collect::<Vec<_>>()
    };
    let say = || RenderOp::Say("[SUMMARY] s".to_owned());
    assert_eq!(
        contents(vec![RenderOp::Keep(0..1), say(), RenderOp::Keep(5..6)]),
        [
            "system:\"be brief\"",
            r#"user:[{"text":"[SUMMARY] s","type":"text"},{"type":"text","text":"three"}]"#
        ]
        .map(|line| line
            .replace(r#"{"text":"[SUMMARY] s","type":"text"}"#, r#"{"type":"text","text":"[SUMMARY] s"}"#))
    );
    assert_eq!(
        contents(vec![RenderOp::Keep(0..2), say(), RenderOp::Keep(4..5)]),
        ["system:\"be brief\"", "user:\"one\\n\\n[SUMMARY] s\"", "assistant:\"two\""]
    );
    assert_eq!(
        contents(vec![RenderOp::Keep(0..1), say(), RenderOp::Keep(4..6)])[1..3],
        ["user:\"[SUMMARY] s\"", "assistant:\"two\""]
    );
    let edited = RequestEdit {
        prefill: Some(AnswerPrefill { text: "I be".to_owned(), must_be_told: true }),
        include_usage: true,
        stream: Some(false),
        ..RequestEdit::default()
    };
    let (_, value) = rendered(&envelope, &edited);
    assert_eq!(value["messages"][6], json!({"role": "assistant", "content": "I be"}));
    assert_eq!(
        (&value["continue_final_message"], &value["stream_options"], &value["stream"]),
        (&json!(true), &json!({"include_usage": true}), &json!(false))
    );
}

fn chunk(id: &str, delta: Value, finish: Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    let chunk =
        json!({"id": id, "object": "chat.completion.chunk", "created": 5, "model": "m", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

/// A stream of `text`, a few characters at a time.
fn stream(id: &str, text: &str, step: usize, input: u64) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut events = vec![chunk(id, json!({"role": "assistant", "content": ""}), Value::Null)];
    for piece in chars.chunks(step) {
        let piece: String = piece.iter().collect();
        events.push(chunk(id, json!({ "content": piece }), Value::Null));
    }
    events.push(chunk(id, json!({}), json!("stop")));
    let usage = json!({"prompt_tokens": input, "completion_tokens": 40, "total_tokens": input + 40});
    events.push(format!(
        "data: {}\n\n",
        json!({"id": id, "object": "chat.completion.chunk", "created": 5, "model": "m", "choices": [], "usage": usage})
    ));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn read(out: &[u8]) -> (PartialResponse, Vec<Value>) {
    let mut watcher = ChatStreamParser::default();
    let mut events = SseReader::default();
    events.feed(Bytes::copy_from_slice(out));
    let mut chunks = Vec::new();
    while let Some(raw) = events.next_event() {
        let event = SseEvent::parse(&raw);
        watcher.read(&event);
        chunks.extend(serde_json::from_str::<Value>(&event.data));
    }
    assert!(events.take_rest().is_empty());
    (watcher.seen().clone(), chunks)
}

#[test]
fn one_stream_passes_as_it_came() {
    let events = stream("a", "hello there", 3, 10);
    let mut splice = ChatStreamMerger::default();
    let mut out = Vec::new();
    events.iter().for_each(|event| splice.pass_event(event.as_bytes(), &mut out));
    assert!(!String::from_utf8_lossy(&out).contains("[DONE]"), "the end is held back");
    splice.end(0, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), events.concat());
}

#[test]
fn what_one_choice_says_beside_another_s_end_comes_once() {
    let chunk = |choices: Value| format!("data: {}\n\n", json!({ "id": "a", "choices": choices }));
    let choice = |index: u64, text: &str, finish: Value| {
        let logprobs = json!({ "content": [{ "token": text, "logprob": -0.1 }] });
        json!({ "index": index, "delta": { "content": text }, "logprobs": logprobs, "finish_reason": finish })
    };
    let mut splice = ChatStreamMerger::default();
    let mut out = Vec::new();
    for choices in [
        json!([choice(0, "one", Value::Null), choice(1, "uno", Value::Null)]),
        json!([choice(0, " end", json!("stop")), choice(1, " dos", Value::Null)]),
        json!([{ "index": 0, "delta": {}, "finish_reason": "stop" }, choice(1, " tres", Value::Null)]),
        json!([choice(1, "", json!("length"))]),
    ] {
        splice.pass_event(chunk(choices).as_bytes(), &mut out);
    }
    splice.end(0, &mut out);
    let (_, chunks) = read(&out);
    let of = |index: u64| {
        chunks
            .iter()
            .flat_map(|chunk| chunk["choices"].as_array().unwrap())
            .filter(move |choice| choice["index"] == index)
    };
    let said = |index| of(index).filter_map(|choice| choice["delta"]["content"].as_str()).collect::<String>();
    let ends = |index| of(index).filter_map(|choice| choice["finish_reason"].as_str()).next_back();
    let tokens = |index| {
        let of_choices = of(index).filter_map(|choice| choice["logprobs"]["content"].as_array());
        of_choices.flatten().filter_map(|of| of["token"].as_str()).collect::<String>()
    };
    assert_eq!((said(0).as_str(), said(1).as_str()), ("one end", "uno dos tres"));
    assert_eq!([tokens(0), tokens(1)], ["one end", "uno dos tres"], "the probabilities of each token once");
    assert_eq!((ends(0), ends(1)), (Some("stop"), Some("length")));
}

#[test]
fn an_answer_that_was_left_ends_for_its_length() {
    let mut splice = ChatStreamMerger::default();
    let mut out = Vec::new();
    stream("a", "hello there", 3, 10)[..3]
        .iter()
        .for_each(|event| splice.pass_event(event.as_bytes(), &mut out));
    splice.end(2, &mut out);
    let (seen, _) = read(&out);
    assert_eq!((seen.text.as_str(), seen.finish, seen.over), ("hello ", Some(ModelStopReason::Length), true));
}

#[test]
fn calls_are_numbered_on_and_where_a_stream_is_shows() {
    let call = |index: u64, id: &str| json!({"tool_calls": [{"index": index, "id": id, "function": {"name": "f", "arguments": "{\"x\":"}}]});
    let mut splice = ChatStreamMerger::default();
    let mut out = Vec::new();
    splice.pass_event(chunk("a", json!({"reasoning_content": "hm"}), Value::Null).as_bytes(), &mut out);
    assert_eq!(splice.seen().position, StreamPosition::Reasoning);
    splice.pass_event(chunk("a", json!({"content": "text"}), Value::Null).as_bytes(), &mut out);
    assert_eq!(splice.seen().position, StreamPosition::Text);
    splice.begin_next_stream("text");
    splice.pass_event(chunk("b", call(0, "c1"), Value::Null).as_bytes(), &mut out);
    splice.pass_event(chunk("b", call(1, "c2"), Value::Null).as_bytes(), &mut out);
    splice.pass_event(chunk("b", json!({"content": "late"}), json!("tool_calls")).as_bytes(), &mut out);
    assert_eq!(splice.seen().position, StreamPosition::Call);
    splice.end(0, &mut out);
    let (seen, _) = read(&out);
    assert_eq!(seen.calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["c1", "c2"]);
    assert_eq!((seen.text.as_str(), seen.finish), ("textlate", Some(ModelStopReason::ToolCalls)));
}

#[test]
fn a_whole_answer_and_a_stream_say_the_same() {
    let mut events: Vec<Bytes> = stream("a", "hello there", 3, 10).into_iter().map(Bytes::from).collect();
    let whole = ChatCodec.collect_answer(&events).unwrap();
    let seen = ChatCodec.parse_answer(&whole).unwrap();
    assert_eq!((seen.text.as_str(), seen.finish), ("hello there", Some(ModelStopReason::Stop)));
    assert_eq!(seen.usage.unwrap().input_tokens, 10);
    events.truncate(4);
    assert_eq!(ChatCodec.collect_answer(&events), None, "half an answer is none");
    assert!(ChatCodec.parse_answer(b"{\"error\":{}}").is_none());
}

#[test]
fn the_marker_of_the_end_alone_shows_that_an_answer_is_whole() {
    let call = |arguments: &str| json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": arguments}}]});
    let finish = |delta: Value, is_done: bool| {
        let mut splice = ChatStreamMerger::default();
        let mut out = Vec::new();
        splice.pass_event(chunk("a", delta, Value::Null).as_bytes(), &mut out);
        if is_done {
            splice.pass_event(b"data: [DONE]\n\n", &mut out);
        }
        splice.end(0, &mut out);
        read(&out).0.finish
    };
    assert_eq!(finish(json!({"content": "abc"}), true), Some(ModelStopReason::Stop));
    assert_eq!(finish(json!({"content": "abc"}), false), Some(ModelStopReason::Length));
    assert_eq!(finish(call("{}"), true), Some(ModelStopReason::ToolCalls));
    assert_eq!(finish(call("{\"x\":"), true), Some(ModelStopReason::Length), "half a call must not run");
}

#[test]
fn a_collected_answer_keeps_lists_of_content_and_gives_each_call_an_id() {
    let list = json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "abc"}]});
    let calls = json!({"tool_calls": [
        {"index": 0, "function": {"name": "f", "arguments": "{}"}},
        {"index": 1, "id": "k", "function": {"name": "f", "arguments": "{}"}},
        {"index": 2, "id": "k", "function": {"name": "f", "arguments": "{}"}},
    ]});
    let events = [
        chunk("a", list, Value::Null),
        chunk("a", calls, Value::Null),
        chunk("a", json!({}), json!("tool_calls")),
    ];
    let events: Vec<Bytes> = events.into_iter().map(Bytes::from).collect();
    let whole: Value = serde_json::from_slice(&ChatCodec.collect_answer(&events).unwrap()).unwrap();
    let message = &whole["choices"][0]["message"];
    assert_eq!((&message["content"], &message["reasoning_content"]), (&json!("abc"), &json!("hm")));
    let ids: Vec<&str> =
        message["tool_calls"].as_array().unwrap().iter().map(|call| call["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["call_a_0", "k", "call_a_2"]);
}

#[test]
fn an_error_in_place_of_an_answer_is_seen_in_every_dialect() {
    let codecs: [&dyn WireCodec; 3] =
        [&ChatCodec, &crate::messages::edit::MessagesCodec, &crate::responses::edit::ResponsesCodec];
    for codec in codecs {
        for (data, is_error) in [
            (r#"{"detail":"Not authenticated"}"#, true),
            (r#"{"code":500,"msg":"busy"}"#, true),
            (r#"{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}"#, true),
            (r#"{"base_resp":{"status_code":0,"status_msg":""}}"#, false),
            (r#"{"choices":[],"usage":{"prompt_tokens":1}}"#, false),
            (r#"{"type":"ping"}"#, false),
        ] {
            let mut parser = codec.stream_parser();
            parser.read(&SseEvent::parse(format!("data: {data}\n\n").as_bytes()));
            assert_eq!(parser.seen().error.is_some(), is_error, "{:?}: {data}", codec.dialect());
        }
    }
}

#[test]
fn errors_have_openais_shape() {
    let fault = GatewayError::new(GatewayErrorKind::ContextOverflow, "too long");
    let value: Value = serde_json::from_slice(&ChatCodec.error_body(&fault)).unwrap();
    let expected = json!({"message": "too long", "type": "invalid_request_error", "param": null,
        "code": "context_length_exceeded"});
    assert_eq!(value["error"], expected);
    let (seen, _) = read(&ChatCodec.error_event(&fault));
    assert!(seen.error.is_some() && seen.over);
}

#[test]
fn habits_of_clients_do_not_change_the_name_of_a_message() {
    let form = |item: &str| {
        let mut out = Vec::new();
        ChatCodec.write_canonical_item(item, 0, &mut out).unwrap();
        out
    };
    let plain = form(r#"{"role":"user","content":"hi"}"#);
    for same in [
        r#"{ "content":"hi", "role":"user" }"#,
        r#"{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}"#,
        r#"{"role":"user","content":"h\u0069","name":null,"annotations":[]}"#,
    ] {
        assert_eq!(form(same), plain, "{same}");
    }
    assert_ne!(form(r#"{"role":"user","content":"ho"}"#), plain);
    assert_ne!(form(r#"{"role":"assistant","content":"hi"}"#), plain);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Wherever a stream is left, and however often: a single answer, nothing twice, nothing missing. The server goes
    /// on exactly at the prefill's end; some servers repeat the prefill first.
    #[test]
    fn an_answer_of_several_streams_is_one(
        text in "[a-zé€😀 \n\"\\\\]{60,200}",
        cuts in proptest::collection::vec(1_usize..60, 1..4),
        steps in proptest::collection::vec(1_usize..9, 4),
        echoes: bool,
    ) {
        let mut splice = ChatStreamMerger::default();
        let mut out = Vec::new();
        for (at, cut) in cuts.iter().enumerate() {
            let said = splice.seen().text.clone();
            let can_echo = said.len() >= 32 && said.trim_end() == said;
            let rest = if echoes && at > 0 && can_echo { text.clone() } else { text[said.trim_end().len()..].to_owned() };
            let events = stream(&format!("id{at}"), &rest, steps[at], 100 + at as u64);
            // A stream is left before its end: at least the finish, the usage and the end are missing.
            let most = (events.len() - 4).max(1);
            events[..(*cut).min(most)].iter().for_each(|event| splice.pass_event(event.as_bytes(), &mut out));
            let said = splice.seen().text.clone();
            prop_assert!(text.starts_with(&said), "{said:?} of {text:?}");
            splice.begin_next_stream(&said);
        }
        let said = splice.seen().text.clone();
        for event in stream("last", &text[said.trim_end().len()..], steps[3], 900) {
            splice.pass_event(event.as_bytes(), &mut out);
        }
        splice.end(77, &mut out);
        let (seen, chunks) = read(&out);
        prop_assert_eq!(&seen.text, &text);
        prop_assert_eq!(seen.finish, Some(ModelStopReason::Stop));
        let usage = seen.usage.unwrap();
        prop_assert_eq!((usage.input_tokens, usage.output_tokens), (900, 117));
        prop_assert!(chunks.iter().all(|chunk| chunk["id"] == "id0"));
        let roles = chunks.iter().filter(|chunk| chunk["choices"][0]["delta"]["role"].is_string()).count();
        prop_assert_eq!(roles, 1);
        let ends = chunks.iter().filter(|chunk| chunk["choices"][0]["finish_reason"].is_string()).count();
        prop_assert_eq!(ends, 1);
        prop_assert_eq!(String::from_utf8_lossy(&out).matches("[DONE]").count(), 1);
    }

    #[test]
    fn whatever_is_kept_whole_is_the_same_bytes(
        contents in proptest::collection::vec("\\PC{0,40}", 1..8),
        gap in "[ \n\t]{0,3}",
        cut in 0_usize..8,
    ) {
        let messages: Vec<String> = contents.iter()
            .map(|text| format!("{gap}{{\"role\":{gap}\"user\",\"content\":{}{gap}}}{gap}", Value::from(text.as_str())))
            .collect();
        let body = format!("{{\"messages\":[{}]{gap},{gap}\"model\":\"m\"}}", messages.join(","));
        let envelope = ChatCodec.parse_request(Bytes::from(body.clone())).unwrap();
        let cut = cut.min(contents.len());
        let steps = Some(vec![RenderOp::Keep(0..cut), RenderOp::Keep(cut..contents.len())]);
        let bytes = ChatCodec.render_request(&envelope, &RequestEdit { steps, ..RequestEdit::default() }).unwrap();
        prop_assert_eq!(bytes, body.as_bytes());
    }
}
