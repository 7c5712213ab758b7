//! An answer of several streams, cut anywhere. The upstream is scripted and goes on exactly, so only the merger is
//! tested.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// An upstream with the answer `text`, in pieces of `size` characters.
struct Upstream {
    text: String,
    size: usize,
    calls: bool,
    thinks: bool,
    repeats: bool,
}

impl Upstream {
    /// The stream after `said`.
    fn stream(&self, number: u64, said: &str) -> Vec<Vec<u8>> {
        let rest = &self.text[said.trim_end().len()..];
        let text = if self.repeats && said.len() >= 64 { self.text.clone() } else { rest.to_owned() };
        let response = |status: &str, output: Value, usage: Value| {
            json!({"id": format!("resp_{number}"), "object": "response", "status": status, "model": "m",
                "output": output, "usage": usage, "incomplete_details": null})
        };
        let mut data = vec![
            json!({"type": "response.created", "response": response("in_progress", json!([]), Value::Null)}),
        ];
        let mut output = Vec::new();
        if self.thinks && number == 0 {
            let item = json!({"type": "reasoning", "id": "rs", "summary": []});
            data.push(json!({"type": "response.output_item.added", "output_index": 0, "item": item}));
            data.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
            output.push(item);
        }
        let at = output.len();
        let id = format!("msg_{number}");
        let about = |mut said: Value| {
            said["item_id"] = json!(id);
            said["output_index"] = json!(at);
            said["content_index"] = json!(0);
            said
        };
        let message = |status: &str, content: Value| json!({"type": "message", "id": id, "role": "assistant", "status": status, "content": content});
        let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
        data.push(json!({"type": "response.output_item.added", "output_index": at, "item": message("in_progress", json!([]))}));
        data.push(about(json!({"type": "response.content_part.added", "part": part("")})));
        let letters: Vec<char> = text.chars().collect();
        for piece in letters.chunks(self.size) {
            let piece: String = piece.iter().collect();
            data.push(about(json!({"type": "response.output_text.delta", "delta": piece})));
        }
        data.push(about(json!({"type": "response.output_text.done", "text": text})));
        data.push(about(json!({"type": "response.content_part.done", "part": part(&text)})));
        let whole = message("completed", json!([part(&text)]));
        data.push(json!({"type": "response.output_item.done", "output_index": at, "item": whole}));
        output.push(whole);
        if self.calls {
            let call = |said: &str| json!({"type": "function_call", "id": "fc", "call_id": "c", "name": "ls", "arguments": said});
            data.push(
                json!({"type": "response.output_item.added", "output_index": at + 1, "item": call("")}),
            );
            data.push(json!({"type": "response.function_call_arguments.delta", "item_id": "fc", "output_index": at + 1, "delta": "{}"}));
            data.push(
                json!({"type": "response.output_item.done", "output_index": at + 1, "item": call("{}")}),
            );
            output.push(call("{}"));
        }
        let usage = json!({"input_tokens": 100 + number, "output_tokens": 10, "total_tokens": 110 + number});
        data.push(
            json!({"type": "response.completed", "response": response("completed", json!(output), usage)}),
        );
        let numbered = data.into_iter().enumerate().map(|(number, mut data)| {
            data["sequence_number"] = json!(number);
            format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap()).into_bytes()
        });
        numbered.collect()
    }
}

fn is_delta(event: &[u8]) -> bool {
    SseEvent::parse(event).name.as_deref() == Some("response.output_text.delta")
}

/// Joins the streams of an upstream, each left after so many pieces of text.
fn join(upstream: &Upstream, cuts: &[usize]) -> (Vec<u8>, u64, PartialResponse) {
    let mut joint = ResponsesCodec.stream_merger();
    let (mut out, mut restarts, mut said) = (Vec::new(), 0, String::new());
    for cut in cuts.iter().map(Some).chain([None]) {
        let events = upstream.stream(restarts, &said);
        let texts = events.iter().filter(|event| is_delta(event)).count();
        let is_text = |event: &Vec<u8>| {
            is_delta(event) || SseEvent::parse(event).name.as_deref() == Some("response.output_text.done")
        };
        let first = events.iter().position(is_text).unwrap();
        let kept = cut.map_or(events.len(), |cut| first + cut % (texts + 1));
        events[..kept].iter().for_each(|event| joint.pass_event(event, &mut out));
        if cut.is_some() {
            restarts += 1;
            said.clone_from(&joint.seen().text);
            joint.begin_next_stream(&said);
        }
    }
    joint.end(7 * restarts, &mut out);
    (out, restarts, joint.seen().clone())
}

/// Reads a stream like a strict client; panics at an unreadable event.
fn read(stream: &[u8]) -> (Value, String) {
    let mut events = SseReader::default();
    events.feed(Bytes::copy_from_slice(stream));
    let (mut number, mut items, mut text, mut ended) = (0, Vec::<Value>::new(), String::new(), None);
    let mut open: Option<(u64, String)> = None;
    while let Some(raw) = events.next_event() {
        let event = SseEvent::parse(&raw);
        let data: Value = serde_json::from_str(&event.data).unwrap();
        assert_eq!(event.name.as_deref(), data["type"].as_str());
        assert_eq!(data["sequence_number"].as_u64(), Some(number), "{data}");
        assert!(ended.is_none(), "after the end: {data}");
        assert_eq!(event.name.as_deref() == Some("response.created"), number == 0, "{data}");
        number += 1;
        let about = (data["output_index"].as_u64(), data["item_id"].as_str());
        match event.name.as_deref().unwrap() {
            "response.output_item.added" => {
                assert!(open.is_none());
                assert_eq!(about.0, Some(items.len() as u64));
                open = Some((items.len() as u64, data["item"]["id"].as_str().unwrap().to_owned()));
            }
            "response.output_item.done" => {
                let (index, id) = open.take().unwrap();
                assert_eq!((about.0, data["item"]["id"].as_str()), (Some(index), Some(id.as_str())));
                items.push(data["item"].clone());
            }
            "response.completed" | "response.incomplete" => ended = Some(data["response"].clone()),
            "response.created" => {}
            kind => {
                let (index, id) = open.clone().unwrap();
                assert_eq!(about, (Some(index), Some(id.as_str())), "{data}");
                match kind {
                    "response.output_text.delta" => text.push_str(data["delta"].as_str().unwrap()),
                    "response.output_text.done" => assert_eq!(data["text"].as_str(), Some(text.as_str())),
                    "response.content_part.done" => {
                        assert_eq!(data["part"]["text"].as_str(), Some(text.as_str()));
                    }
                    _ => {}
                }
            }
        }
    }
    let response = ended.unwrap();
    assert_eq!(response["output"].as_array().unwrap(), &items, "the closing copy is what was streamed");
    assert!(open.is_none());
    (response, text)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn an_answer_that_was_cut_is_the_answer(
        text in "[a-zé🦀 \n\"\\\\]{0,119}[a-z]",
        size in 1usize..9,
        cuts in prop::collection::vec(0usize..64, 0..4),
        calls in any::<bool>(),
        thinks in any::<bool>(),
        repeats in any::<bool>(),
    ) {
        let upstream = Upstream { text: text.clone(), size, calls, thinks, repeats };
        let (out, restarts, seen) = join(&upstream, &cuts);
        let (response, streamed) = read(&out);
        prop_assert_eq!(&streamed, &seen.text);
        prop_assert_eq!(&streamed, &text);
        prop_assert_eq!(response["id"].as_str(), Some("resp_0"));
        prop_assert_eq!(response["output"].as_array().unwrap().len(), 1 + usize::from(calls) + usize::from(thinks));
        prop_assert_eq!(response["usage"]["output_tokens"].as_u64(), Some(10 + 7 * restarts));
        prop_assert_eq!(response["usage"]["input_tokens"].as_u64(), Some(100 + restarts));
        let whole = ResponsesCodec.parse_answer(&ResponsesCodec.collect_answer(&cut_up(&out)).unwrap()).unwrap();
        prop_assert_eq!(&whole.text, &text);
        prop_assert_eq!(whole.finish, seen.finish);
        prop_assert_eq!(seen.finish, Some(if calls { ModelStopReason::ToolCalls } else { ModelStopReason::Stop }));
        if restarts == 0 {
            prop_assert_eq!(out, upstream.stream(0, "").concat());
        }
    }
}

fn cut_up(stream: &[u8]) -> Vec<Bytes> {
    let mut events = SseReader::default();
    events.feed(Bytes::copy_from_slice(stream));
    std::iter::from_fn(|| events.next_event()).collect()
}

#[test]
fn an_answer_that_is_given_up_ends_at_its_limit() {
    let upstream =
        Upstream { text: "Hello world".to_owned(), size: 3, calls: true, thinks: true, repeats: false };
    let mut joint = ResponsesCodec.stream_merger();
    let mut out = Vec::new();
    let events = upstream.stream(0, "");
    let cut = events.iter().position(|event| is_delta(event)).unwrap() + 2;
    events[..cut].iter().for_each(|event| joint.pass_event(event, &mut out));
    assert_eq!(joint.seen().position, StreamPosition::Text);
    joint.begin_next_stream("Hello ");
    joint.end(5, &mut out);
    let (response, text) = read(&out);
    assert_eq!((text.as_str(), response["status"].as_str()), ("Hello ", Some("incomplete")));
    assert_eq!(response["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(response["output"][1]["content"][0]["text"], "Hello ");
    assert_eq!(joint.seen().finish, Some(ModelStopReason::Length));
}

#[test]
fn an_upstream_that_ended_early_is_continued_in_the_same_item() {
    let short = Upstream { text: "Hello ".to_owned(), size: 3, calls: false, thinks: false, repeats: false };
    let mut joint = ResponsesCodec.stream_merger();
    let mut out = Vec::new();
    short.stream(0, "").iter().for_each(|event| joint.pass_event(event, &mut out));
    joint.begin_next_stream("Hello ");
    let upstream = Upstream { text: "Hello world".to_owned(), ..short };
    upstream.stream(1, "Hello ").iter().for_each(|event| joint.pass_event(event, &mut out));
    joint.end(10, &mut out);
    let (response, text) = read(&out);
    assert_eq!((text.as_str(), response["output"].as_array().unwrap().len()), ("Hello world", 1));
}

#[test]
fn a_model_that_thinks_again_opens_an_item() {
    let upstream =
        Upstream { text: "Hello world".to_owned(), size: 3, calls: false, thinks: true, repeats: false };
    let mut joint = ResponsesCodec.stream_merger();
    let mut out = Vec::new();
    let events = upstream.stream(0, "");
    let cut = events.iter().position(|event| is_delta(event)).unwrap() + 2;
    events[..cut].iter().for_each(|event| joint.pass_event(event, &mut out));
    joint.begin_next_stream("Hello ");
    let again = Upstream { text: "world".to_owned(), ..upstream };
    again.stream(0, "").iter().for_each(|event| joint.pass_event(event, &mut out));
    let mut end = Vec::new();
    joint.end(3, &mut end);
    assert_eq!(joint.seen().text, "Hello world");
    let kinds: Vec<Value> = serde_json::from_slice::<Value>(
        &ResponsesCodec.collect_answer(&cut_up(&end)).unwrap(),
    )
    .unwrap()["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].clone())
        .collect();
    assert_eq!(kinds, ["reasoning", "message", "reasoning", "message"]);
}
