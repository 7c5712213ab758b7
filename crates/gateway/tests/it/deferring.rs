//! A client with 120 tools before a window of 32K tokens: the model gets a few of them and finds the others. The client
//! sees calls of its own tools and nothing else.

use std::time::Duration;

use longhaul_core::estimate::text_tokens;
use longhaul_core::message::ModelStopReason;
use longhaul_gateway::{ClientRequest, Gateway, GatewayOptions, ToolDeferralMode, UpstreamOptions};
use longhaul_providers::connect::Kind;
use longhaul_wire::edit::Dialect;
use serde_json::{Map, Value, json};

use crate::model::{call, list, upstream};
use crate::recall::{had, model, sent, whole};
use crate::steps::{DIALECTS, check, resent, results, step, tools};
use crate::upstream::*;

const WINDOW: u64 = 32_000;

const TOOLS: usize = 120;

/// A tool in the middle of the list.
const NAME: &str = "mcp__archive__record_90";

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

/// 120 tools of about 33,000 tokens: two of the client's own, and those of a server.
fn many_tools(dialect: Dialect) -> Vec<Value> {
    let path = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let field = |at: usize, field: usize| {
        let text =
            format!("Field number {field} of the record, as the back office wants it, in plain words.");
        (format!("field_{at}_{field}"), json!({ "type": "string", "description": text }))
    };
    let record = |at: usize| {
        let fields: Map<String, Value> = (0..9).map(|number| field(at, number)).collect();
        let schema = json!({ "type": "object", "properties": fields });
        tool(
            dialect,
            &format!("mcp__archive__record_{at}"),
            &format!("Works on record {at} of the archive."),
            &schema,
        )
    };
    let own =
        [tool(dialect, "read", "Reads a file.", &path), tool(dialect, "bash", "Runs a command.", &path)];
    own.into_iter().chain((2..TOOLS).map(record)).collect()
}

fn asked(dialect: Dialect, items: &[Value], stream: bool, change: impl FnOnce(&mut Value)) -> ClientRequest {
    let request = call(dialect, items, stream);
    let mut body: Value = serde_json::from_slice(&request.body).unwrap();
    body["tools"] = many_tools(dialect).into();
    if dialect == Dialect::Messages {
        body["max_tokens"] = json!(1_000);
    }
    change(&mut body);
    ClientRequest { body: body.to_string().into(), ..request }
}

fn request(dialect: Dialect, items: &[Value], stream: bool) -> ClientRequest {
    asked(dialect, items, stream, |_| {})
}

fn before(server: &ScriptedUpstream, dialect: Dialect) -> Gateway {
    gateway(GatewayOptions::new(vec![upstream(server, dialect, WINDOW, false)]))
}

/// An upstream that other dialects are translated for.
fn elsewhere(server: &ScriptedUpstream, speaks: Dialect) -> UpstreamOptions {
    let kind = if speaks == Dialect::Messages { Kind::Anthropic } else { Kind::OpenAiCompatible };
    let mut upstream = UpstreamOptions::new("up", kind, server.url("/v1"));
    upstream.endpoint.declared.window = Some(WINDOW);
    upstream.dialects = vec![speaks];
    upstream.finds_dialects = false;
    upstream
}

fn through(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

fn search(words: &str) -> Value {
    json!({ "query": words })
}

/// The calls of a request: tool and arguments.
fn calls(dialect: Dialect, request: &Value) -> Vec<(String, Value)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let parsed = |value: &Value| serde_json::from_str(value.as_str().unwrap()).unwrap();
    let mut all = Vec::new();
    for item in request[list(dialect)].as_array().unwrap() {
        if item["type"] == "function_call" {
            all.push((text(&item["name"]), parsed(&item["arguments"])));
        }
        for call in item["tool_calls"].as_array().into_iter().flatten() {
            all.push((text(&call["function"]["name"]), parsed(&call["function"]["arguments"])));
        }
        let blocks = item["content"].as_array().into_iter().flatten();
        let uses = blocks.filter(|block| block["type"] == "tool_use");
        all.extend(uses.map(|block| (text(&block["name"]), block["input"].clone())));
    }
    all
}

#[tokio::test]
async fn a_model_finds_a_tool_among_120_and_the_client_sees_its_call() {
    for dialect in DIALECTS {
        for stream in [true, false] {
            let server = model(move |number, _| match number {
                0 => step(dialect, "a", "", &[("c1", "tool_search", search("record 90"))], (5_000, 20)),
                1 => {
                    let arguments = through(NAME, json!({ "field_90_1": "ä \"x\"" }));
                    step(dialect, "b", "I have it.", &[("c2", "tool_call", arguments)], (6_000, 30))
                }
                _ => step(dialect, "c", "Done.", &[], (6_500, 5)),
            })
            .await;
            let gateway = before(&server, dialect);
            let mut items = vec![user("Work on record 90.")];
            let reply = gateway.answer(request(dialect, &items, stream)).await;
            let deferred = header(&reply, "x-longhaul-deferred-tools").to_owned();
            assert!(deferred.ends_with(" of 120") && deferred.len() > 8, "{deferred}");
            let had = had(dialect, reply, stream).await;
            let arguments = json!({ "field_90_1": "ä \"x\"" });
            assert_eq!(had.calls, [format!("c2 {NAME} {arguments}")], "{dialect:?} {stream}");
            assert_eq!((had.text.as_str(), had.finish), ("I have it.", Some(ModelStopReason::ToolCalls)));
            for ours in ["tool_search", "\"tool_call\""] {
                assert!(!had.all.contains(ours), "{dialect:?} {stream}: {}", had.all);
            }

            // The client sends its own call back: upstream it is again what the model said.
            items.extend(resent(dialect, "I have it.", &[("c2", NAME, arguments.clone())], "the record"));
            let reply = gateway.answer(request(dialect, &items, stream)).await;
            assert_eq!(header(&reply, "x-longhaul-deferred-tools"), deferred);
            body(reply).await;
            let sent = sent(&server);
            assert_eq!(sent.len(), 3);
            sent.iter().for_each(|request| check(dialect, request));
            assert!(results(dialect, &sent[1])[0].contains(NAME), "{}", sent[1]);
            assert!(results(dialect, &sent[1])[0].contains("field_90_8"), "its schema");
            assert_eq!(
                calls(dialect, &sent[2]),
                [
                    ("tool_search".to_owned(), search("record 90")),
                    ("tool_call".to_owned(), through(NAME, arguments)),
                ],
                "{dialect:?} {stream}"
            );
            let items = |at: usize| sent[at][list(dialect)].as_array().unwrap().clone();
            for (before, after) in [(0, 1), (1, 2)] {
                assert_eq!(sent[after]["tools"], sent[before]["tools"], "the upstream's cache stays warm");
                assert_eq!(items(after)[..items(before).len()], items(before)[..], "{dialect:?} {stream}");
            }
            let told = text_tokens(&sent[0]["tools"].to_string());
            assert!(told < WINDOW / 5, "{told} tokens of tools");
            let names = tools(&sent[0]);
            assert_eq!((names[0].as_str(), names[1].as_str()), ("read", "bash"), "the client's own stay");
            assert_eq!(names[names.len() - 2..], ["tool_search", "tool_call"]);
        }
    }
}

#[tokio::test]
async fn a_step_may_search_and_call_tools_of_every_kind() {
    for dialect in DIALECTS {
        for stream in [true, false] {
            let server = model(move |number, _| match number {
                0 => {
                    let calls = [
                        ("c1", "read", json!({ "path": "p" })),
                        ("c2", "tool_search", search("record 7")),
                        ("c3", "tool_call", through(NAME, json!({}))),
                        ("c4", "tool_call", through("bash", json!({ "path": "ls" }))),
                    ];
                    step(dialect, "a", "All.", &calls, (5_000, 40))
                }
                _ => step(dialect, "b", "Done.", &[], (6_000, 5)),
            })
            .await;
            let gateway = before(&server, dialect);
            let mut items = vec![user("Go.")];
            let had = had(dialect, gateway.answer(request(dialect, &items, stream)).await, stream).await;
            let shown = [
                ("c1", "read", json!({ "path": "p" })),
                ("c3", NAME, json!({})),
                ("c4", "bash", json!({ "path": "ls" })),
            ];
            let expected: Vec<String> =
                shown.iter().map(|(id, name, arguments)| format!("{id} {name} {arguments}")).collect();
            assert_eq!(had.calls, expected, "{dialect:?} {stream}");
            items.extend(resent(dialect, "All.", &shown, "ok"));
            body(gateway.answer(request(dialect, &items, stream)).await).await;
            let next = sent(&server).pop().unwrap();
            check(dialect, &next);
            let names: Vec<String> = calls(dialect, &next).into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, ["read", "tool_search", "tool_call", "bash"], "{dialect:?} {stream}");
        }
    }
}

#[tokio::test]
async fn a_call_that_makes_none_is_answered_here_with_the_reason() {
    for dialect in DIALECTS {
        for stream in [true, false] {
            let server = model(move |number, _| match number {
                0 => {
                    let wrong = through(NAME, json!({ "field_90_1": 7 }));
                    step(dialect, "a", "", &[("c1", "tool_call", wrong)], (5_000, 20))
                }
                1 => {
                    step(dialect, "b", "", &[("c2", "tool_call", through("nobody", json!({})))], (5_200, 20))
                }
                _ => step(dialect, "c", "I cannot.", &[], (5_300, 5)),
            })
            .await;
            let reply = before(&server, dialect).answer(request(dialect, &[user("Go.")], stream)).await;
            let had = had(dialect, reply, stream).await;
            assert_eq!(
                (had.text.as_str(), had.calls.len(), had.finish),
                ("I cannot.", 0, Some(ModelStopReason::Stop))
            );
            let sent = sent(&server);
            let told = results(dialect, &sent[2]);
            assert!(
                told[0].contains("`field_90_1` must be a text") && told[0].contains("field_90_8"),
                "{told:?}"
            );
            assert!(told[1].contains("no tool named `nobody`"), "{told:?}");
        }
    }
}

#[tokio::test]
async fn an_upstream_that_answers_whole_is_understood() {
    for dialect in DIALECTS {
        let server = start_upstream(move |number, _| match number {
            0 => whole(
                dialect,
                step(dialect, "a", "", &[("c1", "tool_search", search("record 90"))], (5_000, 20)),
            ),
            _ => {
                let arguments = through(NAME, json!({ "field_90_1": "x" }));
                whole(dialect, step(dialect, "b", "Now.", &[("c2", "tool_call", arguments)], (6_000, 30)))
            }
        })
        .await;
        let reply = before(&server, dialect).answer(request(dialect, &[user("Go.")], false)).await;
        let had = had(dialect, reply, false).await;
        assert_eq!(had.calls, [format!("c2 {NAME} {{\"field_90_1\":\"x\"}}")], "{dialect:?}");
        assert_eq!(sent(&server).len(), 2);
    }
}

#[tokio::test]
async fn an_upstream_of_another_dialect_gets_the_same() {
    for (client, server_dialect) in [
        (Dialect::Chat, Dialect::Messages),
        (Dialect::Messages, Dialect::Chat),
        (Dialect::Responses, Dialect::Chat),
    ] {
        for stream in [true, false] {
            let server = model(move |number, _| match number {
                0 => {
                    step(server_dialect, "a", "", &[("c1", "tool_search", search("record 90"))], (5_000, 20))
                }
                1 => {
                    let arguments = through(NAME, json!({ "field_90_1": "x" }));
                    step(server_dialect, "b", "", &[("c2", "tool_call", arguments)], (6_000, 30))
                }
                _ => step(server_dialect, "c", "Done.", &[], (6_500, 5)),
            })
            .await;
            let gateway = gateway(GatewayOptions::new(vec![elsewhere(&server, server_dialect)]));
            let mut items = vec![user("Go.")];
            let had = had(client, gateway.answer(request(client, &items, stream)).await, stream).await;
            let [only] = &had.calls[..] else { panic!("{client:?} {stream}: {:?} {}", had.calls, had.all) };
            assert!(only.ends_with(&format!(" {NAME} {{\"field_90_1\":\"x\"}}")), "{only}");
            let id = only.split(' ').next().unwrap();
            items.extend(resent(client, "", &[(id, NAME, json!({ "field_90_1": "x" }))], "the record"));
            body(gateway.answer(request(client, &items, stream)).await).await;
            let sent = sent(&server);
            assert_eq!(sent[2]["tools"], sent[0]["tools"]);
            let newest = calls(server_dialect, &sent[2]).pop().unwrap();
            assert_eq!(newest, ("tool_call".to_owned(), through(NAME, json!({ "field_90_1": "x" }))));
        }
    }
}

#[tokio::test]
async fn a_forced_tool_is_listed_and_the_others_stay_as_they_are() {
    for dialect in DIALECTS {
        let server = model(move |_, _| step(dialect, "a", "Hello.", &[], (5_000, 5))).await;
        let gateway = before(&server, dialect);
        let choice = match dialect {
            Dialect::Chat => json!({ "type": "function", "function": { "name": NAME } }),
            Dialect::Responses => json!({ "type": "function", "name": NAME }),
            Dialect::Messages => json!({ "type": "tool", "name": NAME }),
        };
        let forced = asked(dialect, &[user("Go.")], true, |body| body["tool_choice"] = choice.clone());
        body(gateway.answer(forced).await).await;
        body(gateway.answer(request(dialect, &[user("Go.")], true)).await).await;
        let sent = sent(&server);
        let (forced, usual) = (tools(&sent[0]), tools(&sent[1]));
        assert!(forced.contains(&NAME.to_owned()) && !usual.contains(&NAME.to_owned()), "{dialect:?}");
        assert_eq!(forced.len(), usual.len() + 1);
        assert_eq!(sent[0]["tool_choice"], choice);
    }
}

#[tokio::test]
async fn tools_that_have_room_pass_as_they_are() {
    for dialect in DIALECTS {
        let server = model(move |_, _| step(dialect, "a", "Hello.", &[], (40_000, 5))).await;
        let roomy = gateway(GatewayOptions::new(vec![upstream(&server, dialect, 200_000, false)]));
        let off = GatewayOptions {
            defer_tools: ToolDeferralMode::Off,
            ..GatewayOptions::new(vec![upstream(&server, dialect, 100_000, false)])
        };
        for gateway in [roomy, gateway(off)] {
            let asked = request(dialect, &[user("Go.")], true);
            let bytes = asked.body.clone();
            let reply = gateway.answer(asked).await;
            assert_eq!(header(&reply, "x-longhaul-deferred-tools"), "");
            body(reply).await;
            assert_eq!(server.received().pop().unwrap().body, bytes, "{dialect:?}");
        }
    }
}

#[tokio::test]
async fn a_model_that_only_searches_is_told_that_it_is_enough() {
    for dialect in DIALECTS {
        let server = model(move |number, request| match tools(request).is_empty() || forbids(request) {
            true => step(dialect, "z", "Enough.", &[], (9_000, 5)),
            false => {
                let id = format!("c{number}");
                step(dialect, "a", "", &[(&id, "tool_search", search("record"))], (5_000, 20))
            }
        })
        .await;
        let reply = before(&server, dialect).answer(request(dialect, &[user("Go.")], true)).await;
        let had = had(dialect, reply, true).await;
        assert_eq!((had.text.as_str(), had.calls.len()), ("Enough.", 0), "{dialect:?}");
        let sent = sent(&server);
        assert!(sent.len() < 10, "{}", sent.len());
        let told = results(dialect, sent.last().unwrap());
        assert!(told.iter().any(|result| result.starts_with("tool_search: no more")), "{told:?}");
    }
}

fn forbids(request: &Value) -> bool {
    request["tool_choice"] == "none" || request["tool_choice"]["type"] == "none"
}

#[tokio::test]
async fn a_count_is_one_of_what_goes_out() {
    let server = model(|_, _| step(Dialect::Messages, "a", "Hello.", &[], (5_000, 5))).await;
    let counted = |upstream: UpstreamOptions, defer_tools| {
        let gateway = gateway(GatewayOptions { defer_tools, ..GatewayOptions::new(vec![upstream]) });
        async move {
            let reply = gateway.count_tokens(request(Dialect::Messages, &[user("Go.")], false)).await;
            body_json(reply).await["input_tokens"].as_u64().unwrap()
        }
    };
    let upstream = || upstream(&server, Dialect::Messages, WINDOW, false);
    let (deferred, whole) =
        (counted(upstream(), ToolDeferralMode::Auto).await, counted(upstream(), ToolDeferralMode::Off).await);
    assert!(deferred < 7_000 && whole > 28_000, "{deferred} {whole}");
    // The count says that it is not of the client's whole list, in the words of an answer.
    let gateway = before(&server, Dialect::Messages);
    let count = gateway.count_tokens(request(Dialect::Messages, &[user("Go.")], false)).await;
    let answer = gateway.answer(request(Dialect::Messages, &[user("Go.")], false)).await;
    let told = header(&count, "x-longhaul-deferred-tools");
    assert_eq!((header(&count, "x-longhaul-view"), told.ends_with(" of 120")), ("shortened", true), "{told}");
    assert_eq!(told, header(&answer, "x-longhaul-deferred-tools"));
}

#[tokio::test]
async fn a_client_that_goes_on_from_an_answer_by_name_has_its_own_calls_in_it() {
    let dialect = Dialect::Responses;
    for stream in [true, false] {
        let server = model(move |number, _| match number {
            0 => {
                let arguments = through(NAME, json!({ "field_90_1": "x" }));
                step(dialect, "resp_a", "", &[("c1", "tool_call", arguments)], (5_000, 20))
            }
            _ => step(dialect, "resp_b", "Done.", &[], (5_500, 5)),
        })
        .await;
        let gateway = before(&server, dialect);
        let first =
            had(dialect, gateway.answer(request(dialect, &[user("Go.")], stream)).await, stream).await;
        assert_eq!(first.calls, [format!("c1 {NAME} {{\"field_90_1\":\"x\"}}")]);
        let result = json!({ "type": "function_call_output", "call_id": "c1", "output": "the record" });
        let next = asked(dialect, &[result], stream, |body| body["previous_response_id"] = json!("resp_a"));
        let second = had(dialect, gateway.answer(next).await, stream).await;
        assert_eq!(second.text, "Done.", "{}", second.all);
        let sent = sent(&server);
        assert_eq!(sent[1]["tools"], sent[0]["tools"]);
        assert_eq!(
            calls(dialect, &sent[1]),
            [("tool_call".to_owned(), through(NAME, json!({ "field_90_1": "x" })))],
            "{stream}"
        );
    }
}

/// A slow stream whose call is held back must not be taken for a dead one.
#[tokio::test]
async fn a_call_whose_arguments_come_slowly_is_waited_for() {
    let dialect = Dialect::Chat;
    let server = start_upstream(move |_, _| {
        let arguments = through(NAME, json!({ "field_90_1": "x".repeat(200) }));
        UpstreamAnswer::Events(
            step(dialect, "a", "", &[("c1", "tool_call", arguments)], (5_000, 20)),
            Duration::from_millis(80),
        )
    })
    .await;
    let config = GatewayOptions {
        keep_alive: Duration::from_millis(50),
        ..GatewayOptions::new(vec![upstream(&server, dialect, WINDOW, false)])
    };
    let had = had(dialect, gateway(config).answer(request(dialect, &[user("Go.")], true)).await, true).await;
    assert_eq!(had.calls.len(), 1);
    assert!(had.calls[0].starts_with(&format!("c1 {NAME} ")), "{:?}", had.calls);
    assert!(had.all.contains(": keep-alive"), "the line is kept open");
}
