//! Steps of a model with tool calls, in any dialect, and what a strict server makes of a request.

use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{list, text_of};

pub(crate) const DIALECTS: [Dialect; 3] = [Dialect::Chat, Dialect::Messages, Dialect::Responses];

/// A call: id, tool, arguments.
pub(crate) type ClientRequest<'a> = (&'a str, &'a str, Value);

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

/// The events of a step that says a text and then calls tools.
pub(crate) fn step(
    dialect: Dialect,
    id: &str,
    text: &str,
    calls: &[ClientRequest<'_>],
    usage: (u64, u64),
) -> Vec<String> {
    match dialect {
        Dialect::Chat => of_chat(id, text, calls, usage),
        Dialect::Messages => of_messages(id, text, calls, usage),
        Dialect::Responses => of_responses(id, text, calls, usage),
    }
}

/// Arguments in two pieces.
fn halves(arguments: &Value) -> [String; 2] {
    let text = arguments.to_string();
    let (first, second) = text.split_at(text.len() / 2);
    [first.to_owned(), second.to_owned()]
}

fn of_chat(id: &str, text: &str, calls: &[ClientRequest<'_>], (input, output): (u64, u64)) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        let chunk = json!({ "id": id, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    let mut all = vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)];
    if !text.is_empty() {
        all.push(chunk(json!({ "content": text }), Value::Null));
    }
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        let begun = json!({ "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": "" } });
        all.push(chunk(json!({ "tool_calls": [begun] }), Value::Null));
        all.extend(halves(arguments).map(|half| {
            let more = json!({ "index": index, "function": { "arguments": half } });
            chunk(json!({ "tool_calls": [more] }), Value::Null)
        }));
    }
    all.push(chunk(json!({}), json!(if calls.is_empty() { "stop" } else { "tool_calls" })));
    let usage =
        json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output });
    all.push(format!("data: {}\n\n", json!({ "id": id, "choices": [], "usage": usage })));
    all.push("data: [DONE]\n\n".to_owned());
    all
}

fn of_messages(
    id: &str,
    text: &str,
    calls: &[ClientRequest<'_>],
    (input, output): (u64, u64),
) -> Vec<String> {
    let usage = json!({ "input_tokens": input, "output_tokens": 1 });
    let start = json!({ "type": "message", "id": id, "role": "assistant", "model": "m", "content": [], "usage": usage });
    let mut all = vec![json!({ "type": "message_start", "message": start })];
    let mut block = |begun: Value, deltas: Vec<Value>| {
        let index = all.iter().filter(|event| event["type"] == "content_block_stop").count();
        all.push(json!({ "type": "content_block_start", "index": index, "content_block": begun }));
        let delta = |delta| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        all.extend(deltas.into_iter().map(delta));
        all.push(json!({ "type": "content_block_stop", "index": index }));
    };
    if !text.is_empty() {
        block(json!({ "type": "text", "text": "" }), vec![json!({ "type": "text_delta", "text": text })]);
    }
    for (id, name, arguments) in calls {
        let deltas =
            halves(arguments).map(|half| json!({ "type": "input_json_delta", "partial_json": half }));
        block(json!({ "type": "tool_use", "id": id, "name": name, "input": {} }), deltas.to_vec());
    }
    let reason = if calls.is_empty() { "end_turn" } else { "tool_use" };
    let end = json!({ "stop_reason": reason, "stop_sequence": null });
    all.push(json!({ "type": "message_delta", "delta": end, "usage": { "output_tokens": output } }));
    all.push(json!({ "type": "message_stop" }));
    all.iter().map(event).collect()
}

fn of_responses(
    id: &str,
    text: &str,
    calls: &[ClientRequest<'_>],
    (input, output): (u64, u64),
) -> Vec<String> {
    let response = |status: &str, items: Vec<Value>, usage: Value| json!({ "id": id, "object": "response", "status": status, "model": "m", "output": items, "usage": usage });
    let mut all =
        vec![json!({ "type": "response.created", "response": response("in_progress", vec![], Value::Null) })];
    let mut items = Vec::new();
    if !text.is_empty() {
        let item_id = format!("msg_{id}");
        let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
        let item = |status: &str, content: Vec<Value>| json!({ "type": "message", "id": item_id, "role": "assistant", "status": status, "content": content });
        let about = |kind: &str, name: &str, value: Value| json!({ "type": kind, "item_id": item_id, "output_index": 0, "content_index": 0, name: value });
        let whole = item("completed", vec![part(text)]);
        all.push(json!({ "type": "response.output_item.added", "output_index": 0, "item": item("in_progress", vec![]) }));
        all.push(about("response.content_part.added", "part", part("")));
        all.push(about("response.output_text.delta", "delta", json!(text)));
        all.push(about("response.output_text.done", "text", json!(text)));
        all.push(about("response.content_part.done", "part", part(text)));
        all.push(json!({ "type": "response.output_item.done", "output_index": 0, "item": whole }));
        items.push(whole);
    }
    for (call, name, arguments) in calls {
        let (index, item_id) = (items.len(), format!("fc_{call}"));
        let item = |arguments: &str, status: &str| json!({ "type": "function_call", "id": item_id, "call_id": call, "name": name, "arguments": arguments, "status": status });
        all.push(json!({ "type": "response.output_item.added", "output_index": index, "item": item("", "in_progress") }));
        all.extend(halves(arguments).map(|half| json!({ "type": "response.function_call_arguments.delta", "item_id": item_id, "output_index": index, "delta": half })));
        let whole = item(&arguments.to_string(), "completed");
        all.push(json!({ "type": "response.function_call_arguments.done", "item_id": item_id, "output_index": index, "arguments": arguments.to_string() }));
        all.push(json!({ "type": "response.output_item.done", "output_index": index, "item": whole }));
        items.push(whole);
    }
    let usage = json!({ "input_tokens": input, "output_tokens": output, "total_tokens": input + output });
    all.push(json!({ "type": "response.completed", "response": response("completed", items, usage) }));
    for (number, data) in all.iter_mut().enumerate() {
        data["sequence_number"] = number.into();
    }
    all.iter().map(event).collect()
}

/// What a request says of calls, in order: who speaks, `call ID` and `result ID` one by one.
pub(crate) fn acts(dialect: Dialect, request: &Value) -> Vec<String> {
    let mut acts = Vec::new();
    for item in request[list(dialect)].as_array().unwrap() {
        let id = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        match (dialect, item["type"].as_str()) {
            (Dialect::Responses, Some("function_call")) => {
                acts.push(format!("call {}", id(&item["call_id"])))
            }
            (Dialect::Responses, Some("function_call_output")) => {
                acts.push(format!("result {}", id(&item["call_id"])))
            }
            (Dialect::Chat, _) if item["role"] == "tool" => {
                acts.push(format!("result {}", id(&item["tool_call_id"])))
            }
            _ => {
                let blocks = item["content"].as_array().cloned().unwrap_or_default();
                let of = |kind: &str| {
                    blocks.iter().filter(|block| block["type"] == kind).cloned().collect::<Vec<_>>()
                };
                acts.extend(
                    of("tool_result").iter().map(|block| format!("result {}", id(&block["tool_use_id"]))),
                );
                let only_results = !blocks.is_empty() && of("tool_result").len() == blocks.len();
                if !only_results {
                    acts.push(id(&item["role"]));
                }
                acts.extend(of("tool_use").iter().map(|block| format!("call {}", id(&block["id"]))));
                let calls = item["tool_calls"].as_array().cloned().unwrap_or_default();
                acts.extend(calls.iter().map(|call| format!("call {}", id(&call["id"]))));
            }
        }
    }
    acts
}

/// Whether every call has its result directly behind the calls of its step, and nothing else has one; for Messages also
/// that roles alternate and results come first.
pub(crate) fn check(dialect: Dialect, request: &Value) {
    let acts = acts(dialect, request);
    let mut open: Vec<String> = Vec::new();
    let mut answering = false;
    for act in &acts {
        match act.split_once(' ') {
            Some(("call", id)) => {
                assert!(!answering || open.is_empty(), "a call between results: {acts:?}");
                answering = false;
                assert!(!open.contains(&id.to_owned()), "twice: {acts:?}");
                open.push(id.to_owned());
            }
            Some((_, id)) => {
                let at = open.iter().position(|open| open == id);
                open.remove(at.unwrap_or_else(|| panic!("a result of no call: {acts:?}")));
                answering = true;
            }
            None => assert!(open.is_empty(), "something stands between call and result: {acts:?}"),
        }
    }
    assert!(open.is_empty(), "a call without a result: {acts:?}");
    if dialect == Dialect::Messages {
        let messages = request["messages"].as_array().unwrap();
        for pair in messages.windows(2) {
            assert_ne!(pair[0]["role"], pair[1]["role"], "{acts:?}");
        }
        for message in messages {
            let kinds: Vec<bool> = message["content"]
                .as_array()
                .map(|blocks| blocks.iter().map(|block| block["type"] == "tool_result").collect())
                .unwrap_or_default();
            assert!(kinds.is_sorted_by(|a, b| a >= b), "results come first: {message}");
        }
    }
}

/// The names of a request's tools.
pub(crate) fn tools(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    let name = |tool: &Value| {
        let name = if tool["function"].is_object() { &tool["function"]["name"] } else { &tool["name"] };
        name.as_str().unwrap_or_default().to_owned()
    };
    tools.iter().map(name).collect()
}

/// The results in a request, the newest last.
pub(crate) fn results(dialect: Dialect, request: &Value) -> Vec<String> {
    let items = request[list(dialect)].as_array().unwrap().iter();
    items
        .flat_map(|item| match dialect {
            Dialect::Chat if item["role"] == "tool" => vec![text_of(item)],
            Dialect::Responses if item["type"] == "function_call_output" => {
                vec![item["output"].as_str().unwrap().to_owned()]
            }
            Dialect::Messages => {
                let blocks = item["content"].as_array().cloned().unwrap_or_default();
                let results = blocks.iter().filter(|block| block["type"] == "tool_result");
                results.map(|block| block["content"].as_str().unwrap_or_default().to_owned()).collect()
            }
            _ => Vec::new(),
        })
        .collect()
}

/// The client's step and its results, as it sends them with the next request.
pub(crate) fn resent(dialect: Dialect, text: &str, calls: &[ClientRequest<'_>], result: &str) -> Vec<Value> {
    match dialect {
        Dialect::Chat => {
            let call = |(id, name, arguments): &ClientRequest<'_>| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments.to_string() } });
            let calls_said: Vec<Value> = calls.iter().map(call).collect();
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            let step = json!({ "role": "assistant", "content": content, "tool_calls": calls_said });
            let answers =
                calls.iter().map(|(id, ..)| json!({ "role": "tool", "tool_call_id": id, "content": result }));
            [step].into_iter().chain(answers).collect()
        }
        Dialect::Messages => {
            let text = (!text.is_empty()).then(|| json!({ "type": "text", "text": text }));
            let uses = calls.iter().map(
                |(id, name, input)| json!({ "type": "tool_use", "id": id, "name": name, "input": input }),
            );
            let content: Vec<Value> = text.into_iter().chain(uses).collect();
            let answers: Vec<Value> = calls
                .iter()
                .map(|(id, ..)| json!({ "type": "tool_result", "tool_use_id": id, "content": result }))
                .collect();
            vec![
                json!({ "role": "assistant", "content": content }),
                json!({ "role": "user", "content": answers }),
            ]
        }
        Dialect::Responses => {
            let text = (!text.is_empty()).then(|| json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] }));
            let made = calls.iter().map(|(id, name, arguments)| json!({ "type": "function_call", "call_id": id, "name": name, "arguments": arguments.to_string() }));
            let answers = calls
                .iter()
                .map(|(id, ..)| json!({ "type": "function_call_output", "call_id": id, "output": result }));
            text.into_iter().chain(made).chain(answers).collect()
        }
    }
}
