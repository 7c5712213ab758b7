//! The client's tools before a model's server of another dialect: schemas that everybody takes, the client's own names
//! in the calls, arguments where there are none.

use std::time::Duration;

use axum::http::StatusCode;
use longhaul_gateway::{ClientRequest, GatewayOptions, GatewayReply, UpstreamOptions};
use longhaul_providers::connect::Kind;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{call, read};
use crate::upstream::*;

/// How a client speaks, and how its model's server does.
const PAIRS: [(Dialect, Dialect); 4] = [
    (Dialect::Messages, Dialect::Chat),
    (Dialect::Responses, Dialect::Chat),
    (Dialect::Chat, Dialect::Messages),
    (Dialect::Responses, Dialect::Messages),
];

/// A request of a client with these tools: name and schema, if they have one.
fn asking(dialect: Dialect, tools: &[(&str, Option<Value>)], stream: bool) -> ClientRequest {
    let mut asked = call(dialect, &[user("go")], stream);
    let mut body: Value = serde_json::from_slice(&asked.body).unwrap();
    let tool = |(name, schema): &(&str, Option<Value>)| {
        let key = if dialect == Dialect::Messages { "input_schema" } else { "parameters" };
        let mut tool = json!({ "name": name, "description": "d" });
        if let Some(schema) = schema {
            tool[key] = schema.clone();
        }
        match dialect {
            Dialect::Chat => json!({ "type": "function", "function": tool }),
            Dialect::Responses => {
                tool["type"] = "function".into();
                tool
            }
            Dialect::Messages => tool,
        }
    };
    body["tools"] = tools.iter().map(tool).collect();
    asked.body = body.to_string().into();
    asked
}

/// What a model's server answers: a call of the tool with these arguments, in pieces, or without any if there is none.
fn calling(speaks: Dialect, tool: &str, pieces: &[Value]) -> UpstreamAnswer {
    let events: Vec<Value> = match speaks {
        Dialect::Messages => {
            let delta = |piece: &Value| json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "input_json_delta", "partial_json": piece } });
            let begin = [
                json!({ "type": "message_start", "message": { "id": "a", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": { "input_tokens": 9, "output_tokens": 1 } } }),
                json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "tool_use", "id": "c1", "name": tool, "input": {} } }),
            ];
            let end = [
                json!({ "type": "content_block_stop", "index": 0 }),
                json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 5 } }),
                json!({ "type": "message_stop" }),
            ];
            begin.into_iter().chain(pieces.iter().map(delta)).chain(end).collect()
        }
        _ => {
            let chunk = |delta: Value, finish: Value| json!({ "id": "a", "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
            let piece = |piece: &Value| {
                chunk(
                    json!({ "tool_calls": [{ "index": 0, "function": { "arguments": piece } }] }),
                    Value::Null,
                )
            };
            let begin = chunk(
                json!({ "tool_calls": [{ "index": 0, "id": "c1", "type": "function", "function": { "name": tool } }] }),
                Value::Null,
            );
            let end = chunk(json!({}), "tool_calls".into());
            [begin].into_iter().chain(pieces.iter().map(piece)).chain([end]).collect()
        }
    };
    let mut events: Vec<String> = events
        .iter()
        .map(|event| match event["type"].as_str() {
            Some(name) => format!("event: {name}\ndata: {event}\n\n"),
            None => format!("data: {event}\n\n"),
        })
        .collect();
    if speaks != Dialect::Messages {
        events.push("data: [DONE]\n\n".to_owned());
    }
    UpstreamAnswer::Events(events, Duration::ZERO)
}

fn config(server: &ScriptedUpstream, speaks: Dialect) -> GatewayOptions {
    let kind = if speaks == Dialect::Messages { Kind::Anthropic } else { Kind::OpenAiCompatible };
    let mut upstream = UpstreamOptions::new("up", kind, server.url("/v1"));
    upstream.endpoint.declared = server.upstream(100_000).endpoint.declared;
    waiting(vec![upstream])
}

/// The tools that a model's server was told of, by name.
fn told(speaks: Dialect, sent: &ReceivedRequest) -> Vec<(String, Value)> {
    let tools = sent.json()["tools"].as_array().cloned().unwrap_or_default();
    let tool = |tool: Value| match speaks {
        Dialect::Messages => (tool["name"].as_str().unwrap().to_owned(), tool["input_schema"].clone()),
        _ => (tool["function"]["name"].as_str().unwrap().to_owned(), tool["function"]["parameters"].clone()),
    };
    tools.into_iter().map(tool).collect()
}

/// The arguments of the only call, as the client reads them.
async fn arguments(asks: Dialect, reply: GatewayReply, stream: bool) -> String {
    assert_eq!(reply.status, StatusCode::OK);
    let out = body(reply).await;
    if stream {
        let (seen, _) = read(asks, &out);
        assert_eq!(seen.calls.len(), 1, "{}", String::from_utf8_lossy(&out));
        return seen.calls[0].arguments.clone();
    }
    let answer: Value = serde_json::from_slice(&out).unwrap();
    match asks {
        Dialect::Chat => answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
            .as_str()
            .unwrap()
            .to_owned(),
        Dialect::Messages => answer["content"][0]["input"].to_string(),
        Dialect::Responses => answer["output"][0]["arguments"].as_str().unwrap().to_owned(),
    }
}

#[tokio::test]
async fn a_function_without_parameters_takes_none() {
    let empty = json!({ "type": "object", "properties": {} });
    for (asks, speaks) in PAIRS {
        for schema in [None, Some(Value::Null), Some(json!({}))] {
            let server = start_upstream(move |_, _| calling(speaks, "f", &["{}".into()])).await;
            let gateway = gateway(config(&server, speaks));
            let reply = gateway.answer(asking(asks, &[("f", schema.clone())], true)).await;
            assert_eq!(arguments(asks, reply, true).await, "{}", "{asks:?} {speaks:?}");
            assert_eq!(
                told(speaks, &server.received()[0]),
                [("f".to_owned(), empty.clone())],
                "{asks:?} {schema:?}"
            );
        }
    }
}

#[tokio::test]
async fn schemas_are_normalised_and_the_client_reads_its_own_names() {
    let schema = json!({ "anyOf": [
        { "properties": { "$filter": { "$ref": "#/$defs/text" } }, "required": ["$filter"] },
        { "properties": { "id": { "type": "integer" } }, "required": ["id"] },
    ], "$defs": { "text": { "type": "string" } } });
    for (asks, speaks) in PAIRS {
        for stream in [true, false] {
            let pieces = ["{\"fil", "ter\": \"x\",", "\"id\":1.0}"].map(Value::from);
            let server = start_upstream(move |_, _| calling(speaks, "find", &pieces)).await;
            let gateway = gateway(config(&server, speaks));
            let tools = [("find", Some(schema.clone())), ("bad", Some(json!({ "type": "string" })))];
            let reply = gateway.answer(asking(asks, &tools, stream)).await;
            assert_eq!(header(&reply, "x-longhaul-ignored"), "tools (bad)", "{asks:?} {speaks:?}");
            let read: Value = serde_json::from_str(&arguments(asks, reply, stream).await).unwrap();
            assert_eq!(read, json!({ "$filter": "x", "id": 1.0 }), "{asks:?} {speaks:?}");
            let told = told(speaks, &server.received()[0]);
            let [(name, told)] = &told[..] else { panic!("{told:?}") };
            assert_eq!(name, "find");
            assert_eq!(told["type"], "object");
            assert_eq!(
                told["properties"],
                json!({ "filter": { "type": "string" }, "id": { "type": "integer" } })
            );
        }
    }
}

#[tokio::test]
async fn empty_arguments_reach_the_client_as_an_object() {
    for (asks, speaks) in PAIRS {
        let mut written = vec![
            vec![],
            vec!["".into()],
            vec![" \n".into()],
            vec!["nu".into(), "ll".into()],
            vec!["{}".into()],
        ];
        if speaks == Dialect::Chat {
            written.push(vec![Value::Null]);
        }
        for pieces in written {
            for stream in [true, false] {
                let said = pieces.clone();
                let server = start_upstream(move |_, _| calling(speaks, "ls", &said)).await;
                let gateway = gateway(config(&server, speaks));
                let reply = gateway.answer(asking(asks, &[("ls", None)], stream)).await;
                let read = arguments(asks, reply, stream).await;
                assert_eq!(read, "{}", "{asks:?} {speaks:?} {stream} {pieces:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_call_without_arguments_beside_another_is_not_taken_for_it() {
    let chunk = |delta: Value, finish: Value| {
        let chunk = json!({ "id": "a", "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
        format!("data: {chunk}\n\n")
    };
    let one = |index: usize, name: &str, arguments: &str| {
        chunk(
            json!({ "tool_calls": [{ "index": index, "id": format!("c{index}"), "type": "function",
            "function": { "name": name, "arguments": arguments } }] }),
            Value::Null,
        )
    };
    let events = vec![
        one(0, "ls", ""),
        one(1, "cat", "{\"p\":\"a\"}"),
        chunk(json!({}), "tool_calls".into()),
        "data: [DONE]\n\n".to_owned(),
    ];
    for asks in [Dialect::Messages, Dialect::Responses] {
        let events = events.clone();
        let server = start_upstream(move |_, _| UpstreamAnswer::Events(events.clone(), Duration::ZERO)).await;
        let reply = gateway(config(&server, Dialect::Chat))
            .answer(asking(asks, &[("ls", None), ("cat", None)], true))
            .await;
        let (seen, _) = read(asks, &body(reply).await);
        let mut calls: Vec<(&str, &str)> =
            seen.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        calls.sort_unstable();
        assert_eq!(calls, [("cat", "{\"p\":\"a\"}"), ("ls", "{}")], "{asks:?}");
    }
}

/// A request of Codex: a function beside those of an MCP server in a namespace, and an earlier call of one.
fn of_codex(stream: bool) -> ClientRequest {
    let parameters = json!({ "type": "object", "properties": { "p": { "type": "string" } } });
    let function = |name: &str| json!({ "type": "function", "name": name, "description": "d", "parameters": parameters });
    let body = json!({
        "model": "m", "stream": stream, "store": false,
        "input": [
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "read x" }] },
            { "type": "function_call", "call_id": "c0", "name": "read", "namespace": "mcp__files__", "arguments": "" },
            { "type": "function_call_output", "call_id": "c0", "output": "nothing" },
        ],
        "tools": [
            function("exec"),
            { "type": "namespace", "name": "mcp__files__", "description": "files", "tools": [function("read"), function("write")] },
        ],
    });
    ClientRequest { body: body.to_string().into(), ..call(Dialect::Responses, &[], stream) }
}

/// Many servers refuse a function without a schema, whatever their wire.
#[tokio::test]
async fn functions_without_parameters_get_an_empty_schema_at_a_server_of_the_same_dialect() {
    let schema = json!({ "type": "object", "properties": {} });
    let own = json!({ "type": "object", "properties": { "p": { "type": "string" } } });
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        let server =
            start_upstream(|_, _| UpstreamAnswer::Json(400, json!({ "error": { "message": "whatever" } })))
                .await;
        let mut config = config(&server, dialect);
        config.upstreams[0].dialects = vec![dialect];
        let asked = asking(
            dialect,
            &[("now", None), ("read", Some(own.clone())), ("none", Some(Value::Null))],
            false,
        );
        let before: Value = serde_json::from_slice(&asked.body).unwrap();
        gateway(config).answer(asked).await;
        let sent = server.received()[0].json();
        let key = if dialect == Dialect::Messages { "input_schema" } else { "parameters" };
        let schemas: Vec<Value> = sent["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(
                |tool| {
                    if dialect == Dialect::Chat { tool["function"][key].clone() } else { tool[key].clone() }
                },
            )
            .collect();
        assert_eq!(schemas, [schema.clone(), own.clone(), schema.clone()], "{dialect:?}");
        let list = if dialect == Dialect::Responses { "input" } else { "messages" };
        assert_eq!(sent[list], before[list], "{dialect:?}");
    }
}

/// Only OpenAI's own server knows namespaces: another server of the Responses API gets flat names.
#[tokio::test]
async fn tools_in_a_namespace_are_flat_for_another_server_of_the_same_dialect() {
    for stream in [true, false] {
        let server =
            start_upstream(|_, _| calling(Dialect::Chat, "mcp__files__read", &["{\"p\":\"x\"}".into()]))
                .await;
        let mut config = config(&server, Dialect::Chat);
        config.upstreams[0].dialects = vec![Dialect::Chat, Dialect::Responses];
        let reply = gateway(config).answer(of_codex(stream)).await;
        assert_eq!(reply.status, StatusCode::OK);
        let out = body(reply).await;
        let (seen, _) = read(Dialect::Responses, &out);
        if stream {
            assert_eq!(seen.calls[0].name, "read");
        }
        assert!(String::from_utf8_lossy(&out).contains("\"namespace\":\"mcp__files__\""));
        let sent = server.received()[0].json();
        assert!(!sent.to_string().contains("\"namespace\""), "{sent}");
    }
}

#[tokio::test]
async fn tools_in_a_namespace_are_flat_for_the_model_and_restored_for_the_client() {
    for speaks in [Dialect::Chat, Dialect::Messages] {
        for stream in [true, false] {
            let server =
                start_upstream(move |_, _| calling(speaks, "mcp__files__read", &["{\"p\":\"x\"}".into()]))
                    .await;
            let reply = gateway(config(&server, speaks)).answer(of_codex(stream)).await;
            assert_eq!(
                (reply.status, header(&reply, "x-longhaul-ignored")),
                (StatusCode::OK, ""),
                "{speaks:?}"
            );
            let out = body(reply).await;
            let item = match stream {
                true => {
                    let (_, all) = read(Dialect::Responses, &out);
                    let done = all.iter().find(|event| event["type"] == "response.output_item.done").unwrap();
                    let added =
                        all.iter().find(|event| event["type"] == "response.output_item.added").unwrap();
                    assert_eq!(added["item"]["namespace"], "mcp__files__", "{speaks:?}");
                    done["item"].clone()
                }
                false => serde_json::from_slice::<Value>(&out).unwrap()["output"][0].clone(),
            };
            let read = ["type", "name", "namespace", "arguments"]
                .map(|name| item[name].as_str().unwrap_or_default());
            assert_eq!(read, ["function_call", "read", "mcp__files__", "{\"p\":\"x\"}"], "{speaks:?}");
            let sent = &server.received()[0];
            let names: Vec<String> = told(speaks, sent).into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, ["exec", "mcp__files__read", "mcp__files__write"]);
            assert!(sent.json()["messages"].to_string().contains("\"mcp__files__read\""), "{}", sent.json());
        }
    }
}
