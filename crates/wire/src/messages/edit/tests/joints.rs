//! An answer of several streams, cut anywhere. The upstream is scripted and goes on exactly, so only the merger is
//! tested.

use super::*;

fn event(name: &str, data: &serde_json::Value) -> Vec<u8> {
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}

fn delta(index: u64, text: &str) -> Vec<u8> {
    let delta = serde_json::json!({"type": "text_delta", "text": text});
    event(
        "content_block_delta",
        &serde_json::json!({"type": "content_block_delta", "index": index, "delta": delta}),
    )
}

/// An upstream with the answer `text`, in pieces of `sizes` characters.
struct Upstream {
    text: String,
    sizes: Vec<usize>,
    thinks: bool,
    calls: bool,
    repeats: bool,
}

impl Upstream {
    fn segments(&self, text: &str) -> Vec<String> {
        let mut letters = text.chars().peekable();
        let mut pieces = Vec::new();
        for size in self.sizes.iter().cycle() {
            if letters.peek().is_none() {
                break;
            }
            pieces.push(letters.by_ref().take(*size).collect());
        }
        pieces
    }

    /// The stream after `said`: the events, `before` of them ahead of the text's events.
    fn stream(&self, number: u64, said: &str) -> (Vec<Vec<u8>>, usize) {
        let sent = said.trim_end();
        let rest = &self.text[sent.len()..];
        let text = if self.repeats { format!("{sent}{rest}") } else { rest.to_owned() };
        let text = if self.repeats && said.len() < 64 { rest.to_owned() } else { text };
        let usage = serde_json::json!({"input_tokens": 100 + number, "output_tokens": 1});
        let message = serde_json::json!({"type": "message", "id": format!("msg_{number}"), "role": "assistant",
            "model": "m", "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage});
        let mut events =
            vec![event("message_start", &serde_json::json!({"type": "message_start", "message": message}))];
        let mut index = 0;
        let block = |index: u64, block: serde_json::Value| {
            let data =
                serde_json::json!({"type": "content_block_start", "index": index, "content_block": block});
            event("content_block_start", &data)
        };
        let stop = |index: u64| {
            event("content_block_stop", &serde_json::json!({"type": "content_block_stop", "index": index}))
        };
        if self.thinks && number == 0 {
            events.push(block(0, serde_json::json!({"type": "thinking", "thinking": "", "signature": ""})));
            let thought = serde_json::json!({"type": "thinking_delta", "thinking": "hm"});
            let data = serde_json::json!({"type": "content_block_delta", "index": 0, "delta": thought});
            events.extend([event("content_block_delta", &data), stop(0)]);
            index = 1;
        }
        events.push(block(index, serde_json::json!({"type": "text", "text": ""})));
        events.push(event("ping", &serde_json::json!({"type": "ping"})));
        let before = events.len();
        events.extend(self.segments(&text).iter().map(|piece| delta(index, piece)));
        events.push(stop(index));
        if self.calls {
            let call = serde_json::json!({"type": "tool_use", "id": "t", "name": "ls", "input": {}});
            events.push(block(index + 1, call));
            for json in ["{\"a\":", "1}"] {
                let delta = serde_json::json!({"type": "input_json_delta", "partial_json": json});
                let data =
                    serde_json::json!({"type": "content_block_delta", "index": index + 1, "delta": delta});
                events.push(event("content_block_delta", &data));
            }
            events.push(stop(index + 1));
        }
        let reason = if self.calls { "tool_use" } else { "end_turn" };
        let end = serde_json::json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": 10}});
        events.push(event("message_delta", &end));
        events.push(event("message_stop", &serde_json::json!({"type": "message_stop"})));
        (events, before)
    }
}

/// A strict client's view of a stream; panics at an unreadable event.
#[derive(Debug, Default, PartialEq)]
struct Client {
    id: String,
    text: String,
    input: String,
    kinds: Vec<String>,
    reason: String,
    usage: serde_json::Value,
}

impl Client {
    fn read(stream: &[u8]) -> Self {
        let mut events = SseReader::default();
        events.feed(Bytes::copy_from_slice(stream));
        let mut client = Self::default();
        let (mut open, mut over) = (None, false);
        while let Some(raw) = events.next_event() {
            let event = SseEvent::parse(&raw);
            let data: serde_json::Value = serde_json::from_str(&event.data).unwrap();
            assert_eq!(event.name.as_deref(), data["type"].as_str());
            assert!(!over, "after the end: {data}");
            assert!(
                !client.id.is_empty() || event.name.as_deref() == Some("message_start"),
                "before the start: {data}"
            );
            let index = data["index"].as_u64();
            match event.name.as_deref().unwrap() {
                "message_start" => {
                    assert!(client.id.is_empty(), "a second start");
                    client.id = data["message"]["id"].as_str().unwrap().to_owned();
                }
                "content_block_start" => {
                    assert_eq!((open, index), (None, Some(client.kinds.len() as u64)), "{data}");
                    open = index;
                    client.kinds.push(data["content_block"]["type"].as_str().unwrap().to_owned());
                }
                "content_block_delta" => {
                    assert!(open.is_some() && open == index, "{data}");
                    client.text.push_str(data["delta"]["text"].as_str().unwrap_or_default());
                    client.input.push_str(data["delta"]["partial_json"].as_str().unwrap_or_default());
                }
                "content_block_stop" => {
                    assert!(open.is_some() && open == index, "{data}");
                    open = None;
                }
                "message_delta" => {
                    assert!(open.is_none() && client.reason.is_empty(), "{data}");
                    client.reason = data["delta"]["stop_reason"].as_str().unwrap().to_owned();
                    client.usage = data["usage"].clone();
                }
                "message_stop" => {
                    assert!(!client.reason.is_empty());
                    over = true;
                }
                "ping" => {}
                other => panic!("{other}"),
            }
        }
        assert!(over && events.take_rest().is_empty(), "the stream has no end");
        client
    }
}

/// Joins the streams of an upstream, each left after so many pieces of text.
fn join(upstream: &Upstream, cuts: &[usize]) -> (Vec<u8>, u64, PartialResponse) {
    let mut joint = MessagesCodec.stream_merger();
    let mut out = Vec::new();
    let mut restarts = 0;
    let mut said = String::new();
    for cut in cuts.iter().map(Some).chain([None]) {
        let (events, before) = upstream.stream(restarts, &said);
        let texts = events.iter().filter(|event| event.windows(10).any(|at| at == b"text_delta")).count();
        let cut = cut.map(|cut| before + (*cut % (texts + 1)));
        for event in &events[..cut.unwrap_or(events.len())] {
            joint.pass_event(event, &mut out);
        }
        if cut.is_some() {
            restarts += 1;
            said.clone_from(&joint.seen().text);
            joint.begin_next_stream(&said);
        }
    }
    joint.end(7 * restarts, &mut out);
    (out, restarts, joint.seen().clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn an_answer_that_was_cut_is_the_answer(
        text in "[a-zé🦀 \n\"\\\\]{1,120}",
        sizes in prop::collection::vec(1usize..9, 1..5),
        cuts in prop::collection::vec(0usize..64, 0..4),
        thinks in any::<bool>(),
        calls in any::<bool>(),
        repeats in any::<bool>(),
    ) {
        let upstream = Upstream { text: text.clone(), sizes, thinks, calls, repeats };
        let (out, restarts, seen) = join(&upstream, &cuts);
        let client = Client::read(&out);
        prop_assert_eq!(&client.text, &text);
        prop_assert_eq!(&seen.text, &text);
        prop_assert_eq!(client.id.as_str(), "msg_0");
        prop_assert_eq!(client.input.as_str(), if calls { "{\"a\":1}" } else { "" });
        prop_assert_eq!(client.reason.as_str(), if calls { "tool_use" } else { "end_turn" });
        prop_assert_eq!(client.kinds.iter().filter(|kind| *kind == "text").count(), 1);
        prop_assert_eq!(client.usage["output_tokens"].as_u64(), Some(10 + 7 * restarts));
        if restarts > 0 {
            prop_assert_eq!(client.usage["input_tokens"].as_u64(), Some(100 + restarts));
        }
        let collected = MessagesCodec.collect_answer(&cut_up(&out)).unwrap();
        let collected = MessagesCodec.parse_answer(&collected).unwrap();
        prop_assert_eq!(&collected.text, &text);
        prop_assert_eq!(collected.calls.len(), usize::from(calls));
        prop_assert_eq!(collected.finish, seen.finish);
    }
}

fn cut_up(stream: &[u8]) -> Vec<Bytes> {
    let mut events = SseReader::default();
    events.feed(Bytes::copy_from_slice(stream));
    std::iter::from_fn(|| events.next_event()).collect()
}

#[test]
fn an_answer_that_was_not_cut_is_untouched() {
    let upstream = Upstream {
        text: "Hello world".to_owned(),
        sizes: vec![3],
        thinks: true,
        calls: true,
        repeats: false,
    };
    let (out, _, _) = join(&upstream, &[]);
    assert_eq!(out, upstream.stream(0, "").0.concat());
}

#[test]
fn an_answer_that_is_given_up_ends_at_its_limit() {
    let upstream = Upstream {
        text: "Hello world".to_owned(),
        sizes: vec![3],
        thinks: false,
        calls: false,
        repeats: false,
    };
    let mut joint = MessagesCodec.stream_merger();
    let mut out = Vec::new();
    let (events, before) = upstream.stream(0, "");
    events[..before + 2].iter().for_each(|event| joint.pass_event(event, &mut out));
    assert_eq!(joint.seen().position, StreamPosition::Text);
    joint.begin_next_stream("Hello ");
    joint.end(5, &mut out);
    let client = Client::read(&out);
    assert_eq!((client.text.as_str(), client.reason.as_str()), ("Hello ", "max_tokens"));
    assert_eq!(client.usage["output_tokens"], 5);
    assert_eq!(joint.seen().finish, Some(ModelStopReason::Length));
    let mut nothing = Vec::new();
    MessagesCodec.stream_merger().end(0, &mut nothing);
    assert!(nothing.is_empty());
}

#[test]
fn an_upstream_that_ended_early_is_continued_in_the_same_block() {
    let upstream = Upstream {
        text: "Hello world".to_owned(),
        sizes: vec![3],
        thinks: false,
        calls: false,
        repeats: false,
    };
    let short = Upstream { text: "Hello ".to_owned(), ..upstream };
    let mut joint = MessagesCodec.stream_merger();
    let mut out = Vec::new();
    short.stream(0, "").0.iter().for_each(|event| joint.pass_event(event, &mut out));
    joint.begin_next_stream("Hello ");
    let upstream = Upstream { text: "Hello world".to_owned(), ..short };
    upstream.stream(1, "Hello ").0.iter().for_each(|event| joint.pass_event(event, &mut out));
    joint.end(10, &mut out);
    let client = Client::read(&out);
    assert_eq!((client.text.as_str(), client.kinds.len()), ("Hello world", 1));
}

#[test]
fn a_model_that_thinks_again_opens_a_block() {
    let upstream = Upstream {
        text: "Hello world".to_owned(),
        sizes: vec![3],
        thinks: true,
        calls: false,
        repeats: false,
    };
    let mut joint = MessagesCodec.stream_merger();
    let mut out = Vec::new();
    let (events, before) = upstream.stream(0, "");
    events[..before + 2].iter().for_each(|event| joint.pass_event(event, &mut out));
    joint.begin_next_stream("Hello ");
    let again = Upstream { text: "world".to_owned(), ..upstream };
    again.stream(0, "").0.iter().for_each(|event| joint.pass_event(event, &mut out));
    joint.end(3, &mut out);
    let client = Client::read(&out);
    assert_eq!(client.text, "Hello world");
    assert_eq!(client.kinds, ["thinking", "text", "thinking", "text"]);
}
