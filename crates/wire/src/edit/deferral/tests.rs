use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::chat::edit::ChatCodec;
use crate::edit::WireCodec;
use crate::messages::edit::MessagesCodec;
use crate::responses::edit::ResponsesCodec;

const WINDOW: u64 = 32_000;

fn schema(at: usize) -> Value {
    let field = |field: usize| {
        (
            format!("field_{at}_{field}"),
            json!({ "type": "string", "description": "A field of the record, in plain words, as the archive wants it." }),
        )
    };
    json!({ "type": "object", "properties": (0..9).map(field).collect::<serde_json::Map<_, _>>() })
}

fn tool(dialect: Dialect, name: &str, description: &str, schema: &Value) -> Value {
    match dialect {
        Dialect::Chat => {
            json!({ "type": "function", "function": { "name": name, "description": description, "parameters": schema } })
        }
        Dialect::Responses => {
            json!({ "type": "function", "name": name, "description": description, "parameters": schema, "strict": false })
        }
        Dialect::Messages => json!({ "name": name, "description": description, "input_schema": schema }),
    }
}

/// `read` and `bash`, a tool for weather, and 117 large ones of a server.
fn tools(dialect: Dialect) -> Vec<Value> {
    let small = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let city =
        json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let mut tools = vec![tool(dialect, "mcp__weather__forecast", "The weather of a city.", &city)];
    tools.extend(
        (0..117)
            .map(|at| tool(dialect, &format!("mcp__archive__record_{at}"), "Reads a record.", &schema(at))),
    );
    tools.push(tool(dialect, "read", "Reads a file.", &small));
    tools.push(tool(dialect, "bash", "Runs a command.", &small));
    tools
}

fn deferral(dialect: Dialect) -> Arc<ToolDeferral> {
    let list = Value::from(tools(dialect)).to_string();
    Arc::new(ToolDeferral::decide(dialect, &list, None, WINDOW, true).unwrap())
}

fn wire(dialect: Dialect) -> &'static dyn WireCodec {
    match dialect {
        Dialect::Chat => &ChatCodec,
        Dialect::Responses => &ResponsesCodec,
        Dialect::Messages => &MessagesCodec,
    }
}

fn names(dialect: Dialect, request: &Value) -> Vec<String> {
    let name = |tool: &Value| match dialect {
        Dialect::Chat => tool["function"]["name"].clone(),
        _ => tool["name"].clone(),
    };
    request["tools"].as_array().unwrap().iter().map(|tool| name(tool).as_str().unwrap().to_owned()).collect()
}

const ALL: [Dialect; 3] = [Dialect::Chat, Dialect::Responses, Dialect::Messages];

/// A request with a call of a deferred tool and a call of a kept tool, in the client's words.
fn request(dialect: Dialect) -> Value {
    let tools = Value::from(tools(dialect));
    match dialect {
        Dialect::Chat => json!({ "model": "m", "tools": tools, "messages": [
            { "role": "user", "content": "Go." },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "a", "type": "function", "function": { "name": "mcp__archive__record_90", "arguments": "{\"field_90_1\": \"x\"}" } },
                { "id": "b", "type": "function", "function": { "name": "read", "arguments": "{\"path\":\"p\"}" } } ] },
            { "role": "tool", "tool_call_id": "a", "content": "1" },
            { "role": "tool", "tool_call_id": "b", "content": "2" } ] }),
        Dialect::Responses => json!({ "model": "m", "tools": tools, "input": [
            { "type": "message", "role": "user", "content": "Go." },
            { "type": "function_call", "call_id": "a", "name": "mcp__archive__record_90", "arguments": "{\"field_90_1\": \"x\"}" },
            { "type": "function_call", "call_id": "b", "name": "read", "arguments": "{\"path\":\"p\"}" },
            { "type": "function_call_output", "call_id": "a", "output": "1" },
            { "type": "function_call_output", "call_id": "b", "output": "2" } ] }),
        Dialect::Messages => json!({ "model": "m", "max_tokens": 9, "tools": tools, "messages": [
            { "role": "user", "content": "Go." },
            { "role": "assistant", "content": [
                { "type": "tool_use", "id": "a", "name": "mcp__archive__record_90", "input": { "field_90_1": "x" } },
                { "type": "tool_use", "id": "b", "name": "read", "input": { "path": "p" } } ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "a", "content": "1" },
                { "type": "tool_result", "tool_use_id": "b", "content": "2" } ] } ] }),
    }
}

/// The calls of a request: names and arguments.
fn calls(dialect: Dialect, request: &Value) -> Vec<(String, Value)> {
    let text = |value: &Value| serde_json::from_str::<Value>(value.as_str().unwrap()).unwrap();
    let call = |name: &Value, arguments: Value| (name.as_str().unwrap().to_owned(), arguments);
    match dialect {
        Dialect::Chat => request["messages"][1]["tool_calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| call(&one["function"]["name"], text(&one["function"]["arguments"])))
            .collect(),
        Dialect::Responses => request["input"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|item| item["type"] == "function_call")
            .map(|one| call(&one["name"], text(&one["arguments"])))
            .collect(),
        Dialect::Messages => request["messages"][1]["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| call(&one["name"], one["input"].clone()))
            .collect(),
    }
}

#[test]
fn a_request_lists_what_there_is_room_for_and_two_for_the_others() {
    for dialect in ALL {
        let deferral = deferral(dialect);
        let body = request(dialect).to_string();
        let envelope = wire(dialect).parse_request(Bytes::from(body.clone())).unwrap();
        let shorter = deferral.shorten_request(&envelope);
        let shorter: Value = serde_json::from_slice(&shorter).unwrap();
        let listed = names(dialect, &shorter);
        assert_eq!(listed[listed.len() - 4..], ["read", "bash", "tool_search", "tool_call"], "{dialect:?}");
        assert_eq!(listed[0], "mcp__weather__forecast", "in the client's order: {dialect:?}");
        assert_eq!(deferral.total(), 120);
        assert_eq!(deferral.deferred().len() + listed.len() - 2, 120);
        let tokens = longhaul_core::estimate::text_tokens(&shorter["tools"].to_string());
        assert!(tokens < WINDOW / 5, "{tokens} tokens of tools: {dialect:?}");
        assert_eq!(
            calls(dialect, &shorter),
            [
                (
                    CALL.to_owned(),
                    json!({ "name": "mcp__archive__record_90", "arguments": { "field_90_1": "x" } })
                ),
                ("read".to_owned(), json!({ "path": "p" })),
            ],
            "{dialect:?}"
        );
    }
}

#[test]
fn the_list_depends_on_tools_and_window_alone() {
    let list = Value::from(tools(Dialect::Chat)).to_string();
    let decide = |forced, window| ToolDeferral::decide(Dialect::Chat, &list, forced, window, true);
    assert_eq!(decide(None, WINDOW).unwrap().list, decide(None, WINDOW).unwrap().list);
    assert!(decide(None, 1_000_000).is_none(), "they take less than a quarter");
    let forced = decide(Some("mcp__archive__record_90"), WINDOW).unwrap();
    assert!(forced.is_listed("mcp__archive__record_90") && !forced.is_listed("mcp__archive__record_91"));
    assert_eq!(
        forced.listed.len(),
        decide(None, WINDOW).unwrap().listed.len() + 1,
        "the others stay as they are"
    );
}

#[test]
fn a_client_with_a_search_of_its_own_is_left_alone() {
    let with = |tool: Value| {
        let list: Vec<Value> = tools(Dialect::Messages).into_iter().chain([tool]).collect();
        ToolDeferral::decide(Dialect::Messages, &Value::from(list).to_string(), None, WINDOW, true)
    };
    let empty = json!({ "type": "object" });
    assert!(with(tool(Dialect::Messages, "other", "", &empty)).is_some());
    assert!(with(tool(Dialect::Messages, "tool_search", "", &empty)).is_none());
    assert!(with(json!({ "type": "tool_search_tool_bm25_20251119", "name": "search" })).is_none());
    assert!(with(json!({ "name": "x", "input_schema": {}, "defer_loading": true })).is_none());
    let server_side = with(json!({ "type": "web_search_20250305", "name": "web_search" })).unwrap();
    assert!(server_side.list.contains("web_search_20250305"), "a tool of the model's server stays");
}

#[test]
fn the_mark_of_the_cache_moves_to_what_ends_the_list_now() {
    let mut list = tools(Dialect::Messages);
    list[100]["cache_control"] = json!({ "type": "ephemeral" });
    let deferral =
        ToolDeferral::decide(Dialect::Messages, &Value::from(list).to_string(), None, WINDOW, true).unwrap();
    let sent: Value = serde_json::from_str(&deferral.list).unwrap();
    let last = sent.as_array().unwrap().last().unwrap();
    assert_eq!((&last["name"], &last["cache_control"]["type"]), (&json!(CALL), &json!("ephemeral")));
}

/// The model's call, with arguments in pieces.
const ARGUMENTS: &str = r#"{"name":"mcp__archive__record_90","arguments":{"field_90_1": "ä \"x\""}}"#;

/// A stream: text, a call of `read`, a call through `tool_call`, an unresolvable call.
fn stream(dialect: Dialect) -> String {
    let (head, tail) = ARGUMENTS.split_at(31);
    let data = |value: Value| match dialect {
        Dialect::Chat => format!("data: {value}\n\n"),
        _ => format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap()),
    };
    let events: Vec<Value> = match dialect {
        Dialect::Chat => {
            let chunk = |delta: Value, end: Value| json!({ "id": "i", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": end }] });
            let piece = |index: u64, id: Option<&str>, name: Option<&str>, arguments: &str| {
                let mut piece = json!({ "index": index, "function": { "arguments": arguments } });
                if let (Some(id), Some(name)) = (id, name) {
                    piece["id"] = id.into();
                    piece["type"] = "function".into();
                    piece["function"]["name"] = name.into();
                }
                chunk(json!({ "tool_calls": [piece] }), Value::Null)
            };
            vec![
                chunk(json!({ "role": "assistant", "content": "Hm." }), Value::Null),
                piece(0, Some("r"), Some("read"), ""),
                piece(0, None, None, r#"{"path":"p"}"#),
                piece(1, Some("c"), Some(CALL), ""),
                piece(1, None, None, head),
                piece(1, None, None, tail),
                piece(2, Some("w"), Some(CALL), r#"{"name":"nobody"}"#),
                chunk(json!({}), json!("tool_calls")),
            ]
        }
        Dialect::Messages => {
            let start = |index: u64, id: &str, name: &str| json!({ "type": "content_block_start", "index": index, "content_block": { "type": "tool_use", "id": id, "name": name, "input": {} } });
            let delta = |index: u64, json: &str| json!({ "type": "content_block_delta", "index": index, "delta": { "type": "input_json_delta", "partial_json": json } });
            let stop = |index: u64| json!({ "type": "content_block_stop", "index": index });
            vec![
                json!({ "type": "message_start", "message": { "id": "m", "role": "assistant", "content": [] } }),
                start(0, "r", "read"),
                delta(0, r#"{"path":"p"}"#),
                stop(0),
                start(1, "c", CALL),
                delta(1, head),
                json!({ "type": "ping" }),
                delta(1, tail),
                stop(1),
                start(2, "w", CALL),
                delta(2, r#"{"name":"nobody"}"#),
                stop(2),
                json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }),
                json!({ "type": "message_stop" }),
            ]
        }
        Dialect::Responses => {
            let item = |id: &str, name: &str, arguments: &str| json!({ "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments });
            let of = |index: u64, id: &str, name: &str, pieces: &[&str]| {
                let whole = pieces.concat();
                let mut events = vec![
                    json!({ "type": "response.output_item.added", "output_index": index, "item": item(id, name, "") }),
                ];
                events.extend(pieces.iter().map(|piece| json!({ "type": "response.function_call_arguments.delta", "output_index": index, "item_id": format!("fc_{id}"), "delta": piece })));
                events.push(json!({ "type": "response.function_call_arguments.done", "output_index": index, "item_id": format!("fc_{id}"), "arguments": whole }));
                events.push(json!({ "type": "response.output_item.done", "output_index": index, "item": item(id, name, &whole) }));
                events
            };
            let mut events =
                vec![json!({ "type": "response.created", "response": { "id": "x", "output": [] } })];
            events.extend(of(0, "r", "read", &[r#"{"path":"p"}"#]));
            events.extend(of(1, "c", CALL, &[head, tail]));
            events.extend(of(2, "w", CALL, &[r#"{"name":"nobody"}"#]));
            let output = json!([
                item("r", "read", r#"{"path":"p"}"#),
                item("c", CALL, ARGUMENTS),
                item("w", CALL, r#"{"name":"nobody"}"#)
            ]);
            events.push(json!({ "type": "response.completed", "response": { "id": "x", "status": "completed", "output": output } }));
            events
        }
    };
    let events: String = events.into_iter().map(data).collect();
    if dialect == Dialect::Chat { format!("{events}data: [DONE]\n\n") } else { events }
}

fn passed(dialect: Dialect, stream: &str, chunk: usize) -> String {
    let mut unwrapper = CallUnwrapper::new(deferral(dialect));
    let mut out = Vec::new();
    for piece in stream.as_bytes().chunks(chunk) {
        out.extend_from_slice(&unwrapper.take(Bytes::copy_from_slice(piece)));
    }
    out.extend_from_slice(&unwrapper.rest());
    String::from_utf8(out).unwrap()
}

#[test]
fn a_stream_calls_the_clients_own_tool_and_says_the_rest_as_it_came() {
    let arguments = r#"{"field_90_1": "ä \"x\""}"#;
    for dialect in ALL {
        let came = stream(dialect);
        let whole = passed(dialect, &came, came.len());
        for chunk in [1, 7, 200] {
            assert_eq!(passed(dialect, &came, chunk), whole, "{dialect:?} {chunk}");
        }
        let mut parser = wire(dialect).stream_parser();
        let mut reader = crate::edit::SseReader::default();
        reader.feed(Bytes::from(whole.clone()));
        while let Some(raw) = reader.next_event() {
            parser.read(&crate::edit::SseEvent::parse(&raw));
        }
        let seen: Vec<(&str, &str, &str)> = parser
            .seen()
            .calls
            .iter()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                ("r", "read", r#"{"path":"p"}"#),
                ("c", "mcp__archive__record_90", arguments),
                ("w", CALL, r#"{"name":"nobody"}"#),
            ],
            "{dialect:?}\n{whole}"
        );
        // Up to the call that is held back nothing differs.
        let begins = came.find(CALL).unwrap();
        let same = came[..begins].rfind("\n\n").unwrap() + 2;
        assert_eq!(&whole[..same], &came[..same], "{dialect:?}");
        assert!(!whole.contains("is_ours"), "{whole}");
    }
}

#[test]
fn a_stream_without_such_calls_keeps_its_bytes() {
    for dialect in ALL {
        let came = stream(dialect).replace(CALL, "bash");
        assert_eq!(passed(dialect, &came, 13), came, "{dialect:?}");
    }
}

#[test]
fn a_chunk_without_a_reason_to_end_lets_the_call_out_before_the_stream_is_over() {
    let came = stream(Dialect::Chat).replace(r#""finish_reason":"tool_calls""#, r#""finish_reason":null"#);
    let passed = passed(Dialect::Chat, &came, 50);
    assert!(passed.contains("mcp__archive__record_90") && passed.ends_with("data: [DONE]\n\n"), "{passed}");
    assert!(passed.contains(r#""model":"m""#), "{passed}");
}

#[test]
fn a_stream_that_makes_no_sense_passes() {
    let odd = [
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":5},"x",{"index":0,"function":{"name":"tool_call"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":"tool_call"}]},"finish_reason":"tool_calls"}]}"#,
        r#"{"choices":[{"delta":7}],"x":"\"tool_calls\""}"#,
        r#"{"choices":7,"x":"\"tool_calls\""}"#,
        r#"{"type":"content_block_start","index":0,"content_block":"tool_call"}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"tool_call","input":[]}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":["tool_call"]}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"response.output_item.added","item":"tool_call"}"#,
        r#"{"type":"response.output_item.added","item":{"type":"function_call","name":"tool_call"}}"#,
        r#"{"type":"response.function_call_arguments.done","arguments":{"a":"tool_call"}}"#,
        r#"{"type":"response.output_item.done","item":{"type":"function_call","name":"tool_call","arguments":5}}"#,
        r#"{"type":"response.completed","response":{"output":["tool_call",{"type":"function_call","name":"tool_call"}]}}"#,
        "tool_call",
        "[\"tool_call\"]",
        "\"tool_calls\"",
        "",
    ];
    for dialect in ALL {
        for (from, to) in (0..odd.len()).flat_map(|from| (from..=odd.len()).map(move |to| (from, to))) {
            let came: String = odd[from..to].iter().map(|data| format!("data: {data}\n\n")).collect();
            passed(dialect, &came, 40);
        }
    }
}

#[test]
fn what_is_held_back_is_known() {
    let mut unwrapper = CallUnwrapper::new(deferral(Dialect::Messages));
    let begun = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"tool_call","input":{}}}"#;
    let more =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"x"}}"#;
    for data in [begun, more, more] {
        assert!(unwrapper.take(Bytes::from(format!("data: {data}\n\n"))).is_empty());
    }
    assert!(unwrapper.held_bytes() > begun.len() + 2 * more.len());
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    assert!(!unwrapper.take(Bytes::from(format!("data: {stop}\n\ndata: half"))).is_empty());
    assert_eq!(unwrapper.held_bytes(), "data: half".len());
}

#[test]
fn a_whole_answer_calls_the_clients_own_tool() {
    let item = |name: &str, arguments: &str| json!({ "type": "function_call", "call_id": "c", "name": name, "arguments": arguments });
    let call = |name: &str, arguments: &str| json!({ "id": "c", "type": "function", "function": { "name": name, "arguments": arguments } });
    let chat = |calls: Value| json!({ "choices": [{ "index": 0, "message": { "role": "assistant", "tool_calls": calls } }] });
    let block = |name: &str, input: &str| json!({ "type": "tool_use", "id": "c", "name": name, "input": serde_json::from_str::<Value>(input).unwrap() });
    let (inner, other) = (r#"{"field_90_1": "ä \"x\""}"#, r#"{"path":"p"}"#);
    let read = format!(r#"{{"name":"read","arguments":{other}}}"#);
    let named = "mcp__archive__record_90";
    for (dialect, came, made) in [
        (
            Dialect::Chat,
            chat(json!([call(CALL, ARGUMENTS), call(CALL, &read)])),
            chat(json!([call(named, inner), call("read", other)])),
        ),
        (
            Dialect::Responses,
            json!({ "output": [item(CALL, ARGUMENTS)] }),
            json!({ "output": [item(named, inner)] }),
        ),
        (
            Dialect::Messages,
            json!({ "content": [block(CALL, ARGUMENTS)] }),
            json!({ "content": [block(named, inner)] }),
        ),
    ] {
        let unwrapped = deferral(dialect).unwrap_answer(came.to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&unwrapped).unwrap(), made, "{dialect:?}");
        assert!(deferral(dialect).unwrap_answer(&unwrapped).is_none(), "nothing is left: {dialect:?}");
    }
}

#[test]
fn tools_of_a_namespace_are_called_by_their_own_names() {
    let members: Vec<Value> =
        (0..118).map(|at| tool(Dialect::Responses, &format!("record_{at}"), "Reads.", &schema(at))).collect();
    let namespace =
        json!({ "type": "namespace", "name": "mcp__archive__", "description": "Records.", "tools": members });
    let list = json!([tool(Dialect::Responses, "shell", "Runs.", &json!({ "type": "object" })), namespace])
        .to_string();
    let deferral = ToolDeferral::decide(Dialect::Responses, &list, None, WINDOW, true).unwrap();
    assert_eq!((deferral.deferred().len(), deferral.total()), (118, 119));
    let own = json!({ "type": "function_call", "call_id": "c", "name": "record_7", "arguments": r#"{"field_7_1":"x"}"#, "namespace": "mcp__archive__" });
    let body =
        json!({ "model": "m", "tools": serde_json::from_str::<Value>(&list).unwrap(), "input": [own] })
            .to_string();
    let sent = deferral.shorten_request(&ResponsesCodec.parse_request(Bytes::from(body)).unwrap());
    let sent: Value = serde_json::from_slice(&sent).unwrap();
    let arguments = r#"{"name":"mcp__archive__record_7","arguments":{"field_7_1":"x"}}"#;
    assert_eq!(
        sent["input"][0],
        json!({ "type": "function_call", "call_id": "c", "name": CALL, "arguments": arguments })
    );
    let answer = json!({ "output": [sent["input"][0]] }).to_string();
    let back: Value = serde_json::from_slice(&deferral.unwrap_answer(answer.as_bytes()).unwrap()).unwrap();
    assert_eq!(back["output"][0], own);
}
