//! A model that streams one text in any dialect, and goes on with an answer that a request ends with.

use longhaul_gateway::{ClientRequest, UpstreamOptions};
use longhaul_wire::edit::{Dialect, GO_ON, PartialResponse, SseEvent, SseReader, WireCodec};
use longhaul_wire::{chat, messages, responses};
use serde_json::{Value, json};

use crate::upstream::{
    GatewayUpstream as _, ScriptedUpstream, assistant, chat as chat_call, streamed, user, words,
};

/// The list of items of a dialect.
pub(crate) fn list(dialect: Dialect) -> &'static str {
    if dialect == Dialect::Responses { "input" } else { "messages" }
}

/// What is said in an item.
pub(crate) fn text_of(item: &Value) -> String {
    match &item["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// The answer that a request has begun, and whether the model was asked in words to go on with it.
pub(crate) fn begun(dialect: Dialect, request: &Value) -> (String, bool) {
    let items = request[list(dialect)].as_array().unwrap();
    let asks = items.last().is_some_and(|item| text_of(item) == GO_ON);
    let last = &items[items.len() - 1 - usize::from(asks)];
    let said = if last["role"] == "assistant" { text_of(last) } else { String::new() };
    (said, asks)
}

/// What of `text` comes next, behind what a request shows of it: its beginning, or its end behind a note that says how
/// much is left out.
///
/// # Panics
/// If the request shows something else.
pub(crate) fn rest<'t>(dialect: Dialect, request: &Value, text: &'t str) -> &'t str {
    let (shown, _) = begun(dialect, request);
    let items = request[list(dialect)].as_array().unwrap();
    let left_out = items.iter().find_map(|item| {
        let said = text_of(item);
        let count = said.split_once("room for. Its first ")?.1.split_once(" characters")?.0.to_owned();
        Some(count.parse::<usize>().unwrap())
    });
    let from = left_out.map_or(0, |chars| text.char_indices().nth(chars).unwrap().0);
    text[from..].strip_prefix(shown.as_str()).expect("it goes on where it was stopped")
}

/// The events of a streamed answer.
pub(crate) fn events(dialect: Dialect, id: &str, text: &str, usage: (u64, u64)) -> Vec<String> {
    match dialect {
        Dialect::Chat => streamed(id, text, Some(usage)),
        Dialect::Messages => of_messages(id, &pieces(text), usage),
        Dialect::Responses => of_responses(id, &pieces(text), usage),
    }
}

/// The same, each piece one word with the blank after it.
pub(crate) fn events_with_blanks_behind(
    dialect: Dialect,
    id: &str,
    text: &str,
    (input, output): (u64, u64),
) -> Vec<String> {
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        format!("data: {}\n\n", json!({ "id": id, "object": "chat.completion.chunk", "choices": [choice] }))
    };
    match dialect {
        Dialect::Chat => {
            let usage = json!({ "prompt_tokens": input, "completion_tokens": output });
            let texts = words.iter().map(|word| chunk(json!({ "content": word }), Value::Null));
            let role = chunk(json!({ "role": "assistant", "content": "" }), Value::Null);
            let end = chunk(json!({}), json!("stop"));
            let usage = format!("data: {}\n\n", json!({ "id": id, "choices": [], "usage": usage }));
            [role].into_iter().chain(texts).chain([end, usage, "data: [DONE]\n\n".to_owned()]).collect()
        }
        Dialect::Messages => of_messages(id, &words, (input, output)),
        Dialect::Responses => of_responses(id, &words, (input, output)),
    }
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

/// Four words at a time, with the blank before them.
fn pieces(text: &str) -> Vec<&str> {
    let blanks = text.match_indices(' ').map(|(at, _)| at).filter(|at| *at > 0);
    let starts: Vec<usize> = [0].into_iter().chain(blanks.skip(3).step_by(4)).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(from, to)| &text[*from..to]).collect()
}

fn of_messages(id: &str, pieces: &[&str], (input, output): (u64, u64)) -> Vec<String> {
    let usage = json!({ "input_tokens": input, "output_tokens": 1 });
    let start = json!({ "type": "message", "id": id, "role": "assistant", "model": "m", "content": [], "usage": usage });
    let delta = |text| json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } });
    let mut all = vec![
        event(&json!({ "type": "message_start", "message": start })),
        event(
            &json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        ),
    ];
    all.extend(pieces.iter().map(|piece| event(&delta(*piece))));
    all.push(event(&json!({ "type": "content_block_stop", "index": 0 })));
    let end = json!({ "stop_reason": "end_turn", "stop_sequence": null });
    all.push(event(&json!({ "type": "message_delta", "delta": end, "usage": { "output_tokens": output } })));
    all.push(event(&json!({ "type": "message_stop" })));
    all
}

fn of_responses(id: &str, pieces: &[&str], (input, output): (u64, u64)) -> Vec<String> {
    let text = &pieces.concat();
    let item_id = format!("msg_{id}");
    let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
    let item = |status: &str, content: Vec<Value>| json!({ "type": "message", "id": item_id, "role": "assistant", "status": status, "content": content });
    let response = |status: &str, output_items: Vec<Value>, usage: Value| json!({ "id": id, "object": "response", "status": status, "model": "m", "output": output_items, "usage": usage });
    let about = |kind: &str, more: Value| {
        let mut data = json!({ "type": kind, "item_id": item_id, "output_index": 0, "content_index": 0 });
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        data
    };
    let mut all = vec![
        json!({ "type": "response.created", "response": response("in_progress", vec![], Value::Null) }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": item("in_progress", vec![]) }),
        about("response.content_part.added", json!({ "part": part("") })),
    ];
    all.extend(pieces.iter().map(|piece| about("response.output_text.delta", json!({ "delta": piece }))));
    all.push(about("response.output_text.done", json!({ "text": text })));
    all.push(about("response.content_part.done", json!({ "part": part(text) })));
    let whole = item("completed", vec![part(text)]);
    all.push(json!({ "type": "response.output_item.done", "output_index": 0, "item": whole }));
    let usage = json!({ "input_tokens": input, "output_tokens": output, "total_tokens": input + output });
    all.push(json!({ "type": "response.completed", "response": response("completed", vec![whole], usage) }));
    for (number, data) in all.iter_mut().enumerate() {
        data["sequence_number"] = number.into();
    }
    all.iter().map(event).collect()
}

/// An upstream of that server which speaks one dialect.
pub(crate) fn upstream(
    server: &ScriptedUpstream,
    dialect: Dialect,
    window: u64,
    prefill: bool,
) -> UpstreamOptions {
    let mut upstream = server.upstream(window);
    upstream.endpoint.declared.prefill = Some(prefill);
    upstream.dialects = vec![dialect];
    upstream.finds_dialects = false;
    upstream
}

/// A request of that dialect.
pub(crate) fn call(dialect: Dialect, items: &[Value], stream: bool) -> ClientRequest {
    let mut body = json!({ "model": "m", "stream": stream });
    body[list(dialect)] = json!(items);
    if dialect == Dialect::Messages {
        body["max_tokens"] = json!(30_000);
    }
    ClientRequest { dialect, ..chat_call(body.to_string()) }
}

/// A conversation of so many messages of 125 tokens, and a question.
pub(crate) fn conversation(messages: usize) -> Vec<Value> {
    let message = |at: usize| {
        let text = words(125, at);
        if at.is_multiple_of(2) { user(text) } else { assistant(text) }
    };
    (0..messages).map(message).chain([user("tell me all")]).collect()
}

/// What a strict client makes of a stream: what was said, and every event's data.
pub(crate) fn read(dialect: Dialect, out: &[u8]) -> (PartialResponse, Vec<Value>) {
    let mut watcher = match dialect {
        Dialect::Chat => chat::edit::ChatCodec.stream_parser(),
        Dialect::Messages => messages::edit::MessagesCodec.stream_parser(),
        Dialect::Responses => responses::edit::ResponsesCodec.stream_parser(),
    };
    let mut cut = SseReader::default();
    cut.feed(out.to_vec().into());
    let mut all = Vec::new();
    while let Some(raw) = cut.next_event() {
        let event = SseEvent::parse(&raw);
        watcher.read(&event);
        all.extend(serde_json::from_str::<Value>(&event.data));
    }
    (watcher.seen().clone(), all)
}

/// So many words, no two of them the same.
pub(crate) fn numbered(words: usize) -> String {
    (0..words).map(|at| format!("{}{at}", ["stone", "river", "paper"][at % 3])).collect::<Vec<_>>().join(" ")
}

/// What the answer took in all, as its end says.
pub(crate) fn totals(events: &[Value]) -> Value {
    let found = events.iter().rev().find_map(|event| {
        let here = event.get("x_longhaul").or(event["response"].get("x_longhaul"));
        here.cloned()
    });
    found.unwrap_or_default()
}
