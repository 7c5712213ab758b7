use longhaul_core::message::{ModelStopReason, ReasoningPart, TextPart};
use longhaul_core::usage::Usage;
use proptest::prelude::*;

use super::*;
use crate::chat::edit::ChatCodec;
use crate::edit::{GatewayErrorKind, ItemSegment, PartialResponse, WireCodec};
use crate::messages::edit::MessagesCodec;
use crate::responses::edit::ResponsesCodec;
use crate::sse::{SseEvent, SseReader};

const ALL: [Dialect; 3] = [Dialect::Chat, Dialect::Messages, Dialect::Responses];

fn head() -> ResponseHead {
    ResponseHead {
        id: "7".to_owned(),
        model: "m".to_owned(),
        created: 5,
        input_tokens: 3,
        include_usage: true,
        custom_tools: vec!["patch".to_owned()],
        namespaced_tools: Default::default(),
    }
}

fn usage() -> Usage {
    Usage {
        input_tokens: 100,
        output_tokens: 20,
        cache_read_tokens: 60,
        cache_write_tokens: 10,
        ..Usage::default()
    }
}

fn call(name: &str, arguments: &str, id: Option<&str>) -> ToolCall {
    ToolCall {
        call_id: id.unwrap_or_default().into(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        provider_id: id.map(str::to_owned),
        native: None,
    }
}

fn answer(parts: Vec<Part>, finish: ModelStopReason) -> ModelAnswer {
    ModelAnswer { parts, finish, usage: Some(usage()), envelope: None }
}

fn input(index: usize, name: Option<&str>, delta: &str) -> ModelEvent {
    ModelEvent::ToolInput { index, name: name.map(str::to_owned), delta: delta.to_owned() }
}

/// An answer with every kind of content, and the events with two mixed calls.
fn everything() -> (Vec<ModelEvent>, ModelAnswer) {
    let answer = answer(
        vec![
            Part::Reasoning(ReasoningPart { text: "hm".to_owned(), native: None }),
            Part::Text(TextPart { text: "Hello you".to_owned(), native: None }),
            Part::ToolCall(call("ls", r#"{"a":1}"#, Some("p1"))),
            Part::ToolCall(call("cat", r#"{"b":2}"#, None)),
        ],
        ModelStopReason::ToolCalls,
    );
    let events = vec![
        ModelEvent::Reasoning("h".to_owned()),
        ModelEvent::Reasoning("m".to_owned()),
        ModelEvent::Text("Hello".to_owned()),
        ModelEvent::Text(" you".to_owned()),
        input(0, Some("ls"), "{\"a\""),
        input(1, Some("cat"), "{\"b\""),
        input(0, None, ":1}"),
        input(1, None, ":2}"),
        ModelEvent::Usage(usage()),
        ModelEvent::Finished(answer.clone()),
    ];
    (events, answer)
}

fn encode(dialect: Dialect, events: &[ModelEvent]) -> Vec<u8> {
    let mut encoder = stream(dialect, head());
    let mut out = Vec::new();
    events.iter().for_each(|event| encoder.event(event, &mut out));
    out
}

fn cut_up(stream: &[u8]) -> Vec<Bytes> {
    let mut events = SseReader::default();
    events.feed(Bytes::copy_from_slice(stream));
    let cut: Vec<Bytes> = std::iter::from_fn(|| events.next_event()).collect();
    assert!(events.take_rest().is_empty());
    cut
}

fn wire(dialect: Dialect) -> Box<dyn WireCodec> {
    match dialect {
        Dialect::Messages => Box::new(MessagesCodec),
        Dialect::Chat => Box::new(ChatCodec),
        Dialect::Responses => Box::new(ResponsesCodec),
    }
}

fn seen(dialect: Dialect, stream: &[u8]) -> PartialResponse {
    let mut watcher = wire(dialect).stream_parser();
    cut_up(stream).iter().for_each(|raw| watcher.read(&SseEvent::parse(raw)));
    watcher.seen().clone()
}

/// The content of an answer, streamed or whole.
#[derive(Debug, PartialEq)]
struct Words {
    text: String,
    reasoning: String,
    calls: Vec<(String, String)>,
    finish: Option<ModelStopReason>,
    /// Input, output, read from the cache.
    used_tokens: [u64; 3],
}

fn words(seen: &PartialResponse) -> Words {
    let used = seen.usage.clone().unwrap();
    Words {
        text: seen.text.clone(),
        reasoning: seen.reasoning.clone(),
        calls: seen.calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect(),
        finish: seen.finish,
        used_tokens: [used.input_tokens, used.output_tokens, used.cache_read_tokens],
    }
}

#[test]
fn a_stream_and_a_whole_answer_say_the_same() {
    let (events, answer) = everything();
    for dialect in ALL {
        let stream = encode(dialect, &events);
        let streamed = seen(dialect, &stream);
        assert!(streamed.over);
        let body = whole(dialect, &head(), &answer);
        let at_once = wire(dialect).parse_answer(&body).unwrap();
        assert_eq!(words(&streamed), words(&at_once), "{dialect:?}");
        let calls = [("ls", r#"{"a":1}"#), ("cat", r#"{"b":2}"#)];
        let expected = Words {
            text: "Hello you".to_owned(),
            reasoning: "hm".to_owned(),
            calls: calls.map(|(name, arguments)| (name.to_owned(), arguments.to_owned())).to_vec(),
            finish: Some(ModelStopReason::ToolCalls),
            used_tokens: [100, 20, 60],
        };
        assert_eq!(words(&streamed), expected, "{dialect:?}");
        assert_eq!(at_once.calls[0].id, "p1", "the provider's name of a call, where it is known");
        let mut ids: Vec<&str> = streamed.calls.iter().map(|call| call.id.as_str()).collect();
        ids.dedup();
        assert_eq!(ids.len(), 2);
        let collected = wire(dialect).collect_answer(&cut_up(&stream)).unwrap();
        assert_eq!(words(&wire(dialect).parse_answer(&collected).unwrap()), words(&streamed), "{dialect:?}");
    }
}

#[test]
fn what_is_said_between_the_pieces_of_calls_takes_nothing_from_them() {
    let (p, q) = (r#"{"p":"}"}"#, r#"{"q":2}"#);
    let said = |rest: &str| [ModelEvent::Text("pre".to_owned()), ModelEvent::Text(rest.to_owned())];
    for rest in ["mid", ""] {
        let [pre, mid] = said(rest);
        let parts = [Part::text(format!("pre{rest}"))].into_iter();
        let calls = [call("a", p, None), call("b", q, None)].into_iter().map(Part::ToolCall);
        let end = answer(parts.chain(calls).collect(), ModelStopReason::ToolCalls);
        let pieces = [input(0, Some("a"), &p[..6]), input(1, Some("b"), &q[..5]), input(0, None, &p[6..])];
        let last = [mid, input(1, None, &q[5..])];
        for with_end in [true, false] {
            let mut events: Vec<ModelEvent> = [pre.clone()].into_iter().chain(pieces.clone()).collect();
            // What comes last may come with the end only.
            events.extend(last.iter().take(if with_end { 1 } else { 2 }).cloned());
            events.push(ModelEvent::Finished(end.clone()));
            for dialect in ALL {
                let seen = seen(dialect, &encode(dialect, &events));
                let calls: Vec<&str> = seen.calls.iter().map(|call| call.arguments.as_str()).collect();
                assert_eq!((seen.text.as_str(), calls), (&*format!("pre{rest}"), vec![p, q]), "{dialect:?}");
            }
        }
    }
}

#[test]
fn what_a_client_sends_back_is_what_it_was_told() {
    let (_, answer) = everything();
    for dialect in ALL {
        let body: serde_json::Value = serde_json::from_slice(&whole(dialect, &head(), &answer)).unwrap();
        let items: Vec<String> = match dialect {
            Dialect::Chat => vec![body["choices"][0]["message"].to_string()],
            Dialect::Messages => {
                vec![serde_json::json!({"role": "assistant", "content": body["content"]}).to_string()]
            }
            Dialect::Responses => {
                body["output"].as_array().unwrap().iter().map(ToString::to_string).collect()
            }
        };
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let (mut text, mut called) = (String::new(), Vec::new());
        for piece in wire(dialect).parse_segments(&items, 0).unwrap().into_iter().flatten() {
            let ItemSegment::Assistant(parts) = piece else { panic!("{dialect:?}: {piece:?}") };
            text.extend(parts.iter().filter_map(Part::as_text));
            called.extend(parts.into_iter().filter_map(|part| match part {
                Part::ToolCall(call) => Some((call.provider_id.unwrap(), call.name, call.arguments)),
                _ => None,
            }));
        }
        assert_eq!(text, "Hello you", "{dialect:?}");
        let owned = |id: &str, name: &str, said: &str| (id.to_owned(), name.to_owned(), said.to_owned());
        assert_eq!(called[0], owned("p1", "ls", r#"{"a":1}"#), "{dialect:?}");
        assert_eq!((called[1].1.as_str(), called[1].2.as_str()), ("cat", r#"{"b":2}"#), "{dialect:?}");
        assert!(!called[1].0.is_empty() && called[1].0 != "p1");
    }
}

#[test]
fn what_was_not_streamed_comes_with_the_end() {
    let (_, answer) = everything();
    for dialect in ALL {
        let whole = encode(dialect, &[ModelEvent::Finished(answer.clone())]);
        let part = encode(
            dialect,
            &[
                ModelEvent::Text("Hel".to_owned()),
                input(0, Some("ls"), "{"),
                ModelEvent::Finished(answer.clone()),
            ],
        );
        for stream in [whole, part] {
            let said = words(&seen(dialect, &stream));
            assert_eq!((said.text.as_str(), said.calls.len()), ("Hello you", 2), "{dialect:?}");
            assert_eq!(said.calls[0].1, r#"{"a":1}"#, "{dialect:?}");
        }
    }
}

#[test]
fn an_empty_answer_is_one() {
    let empty = answer(Vec::new(), ModelStopReason::Stop);
    for dialect in ALL {
        let streamed = seen(dialect, &encode(dialect, &[ModelEvent::Finished(empty.clone())]));
        assert!(streamed.over && streamed.id.is_some());
        assert_eq!((streamed.text.as_str(), streamed.finish), ("", Some(ModelStopReason::Stop)));
    }
}

#[test]
fn a_failure_is_told_inside_the_stream() {
    let fault = GatewayError::new(GatewayErrorKind::Unreachable, "gone");
    for dialect in ALL {
        let mut encoder = stream(dialect, head());
        let mut out = Vec::new();
        encoder.event(&ModelEvent::Text("x".to_owned()), &mut out);
        encoder.write_error(&fault, &mut out);
        let seen = seen(dialect, &out);
        assert!(seen.error.is_some_and(|error| error.contains("gone")), "{dialect:?}");
        assert_eq!(seen.finish, None);
    }
}

#[test]
fn a_tool_that_takes_text_is_given_text() {
    let parts = vec![Part::ToolCall(call("patch", r#"{"input":"*** \"a\""}"#, Some("c")))];
    let answer = answer(parts, ModelStopReason::ToolCalls);
    let events = [
        input(0, Some("patch"), r#"{"input":"#),
        input(0, None, r#""*** \"a\""}"#),
        ModelEvent::Finished(answer.clone()),
    ];
    let streamed = seen(Dialect::Responses, &encode(Dialect::Responses, &events));
    let at_once = ResponsesCodec.parse_answer(&whole(Dialect::Responses, &head(), &answer)).unwrap();
    for seen in [streamed, at_once] {
        assert_eq!(seen.calls[0].arguments, "*** \"a\"");
    }
}

#[test]
fn arguments_that_are_no_object_are_kept() {
    assert_eq!(arguments_object("{\"a\":1}"), serde_json::json!({"a": 1}));
    assert_eq!(arguments_object(" "), serde_json::json!({}));
    assert_eq!(arguments_object("{\"a\":"), serde_json::json!({"arguments": "{\"a\":"}));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn blocks_follow_one_another(kinds in prop::collection::vec((0u8..5, "[a-z]{1,4}"), 0..20)) {
        let (mut events, mut text, mut names) = (Vec::new(), String::new(), std::collections::BTreeMap::new());
        for (kind, word) in &kinds {
            events.push(match kind {
                0 => {
                    text.push_str(word);
                    ModelEvent::Text(word.clone())
                }
                1 => ModelEvent::Reasoning(word.clone()),
                call => {
                    let index = usize::from(*call);
                    let begun = names.entry(index).or_insert_with(String::new);
                    let name = begun.is_empty().then_some("tool");
                    begun.push_str(word);
                    input(index, name, word)
                }
            });
        }
        let end = answer(vec![Part::text(text.clone())], ModelStopReason::Stop);
        events.push(ModelEvent::Finished(end));
        let stream = encode(Dialect::Messages, &events);
        let (mut open, mut blocks) = (None, 0);
        for raw in cut_up(&stream) {
            let data: serde_json::Value = serde_json::from_str(&SseEvent::parse(&raw).data).unwrap();
            let about = |kind: &str| Some((data["index"].as_u64().unwrap(), kind.to_owned()));
            match data["type"].as_str().unwrap() {
                "content_block_start" => {
                    prop_assert_eq!((&open, data["index"].as_u64()), (&None, Some(blocks)));
                    open = about(match data["content_block"]["type"].as_str().unwrap() {
                        "text" => "text_delta",
                        "thinking" => "thinking_delta",
                        _ => "input_json_delta",
                    });
                    blocks += 1;
                }
                "content_block_delta" => {
                    prop_assert_eq!(&open, &about(data["delta"]["type"].as_str().unwrap()));
                }
                "content_block_stop" => {
                    prop_assert_eq!(open.take().map(|(index, _)| index), data["index"].as_u64());
                }
                "message_delta" => prop_assert_eq!(&open, &None),
                _ => {}
            }
        }
        prop_assert_eq!(seen(Dialect::Messages, &stream).text, text);
        prop_assert_eq!(seen(Dialect::Messages, &stream).calls.len(), names.len());
    }
}
