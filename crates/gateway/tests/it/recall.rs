//! The tool `recall` where the gateway adds it: the model looks up what it is no longer shown, and the client sees nothing
//! of that.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::message::ModelStopReason;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::TruncationStrategy;
use longhaul_gateway::{Gateway, GatewayDependencies, GatewayOptions, GatewayReply, RecallMode};
use longhaul_store::prefix_cache::MemoryPrefixCache;
use longhaul_wire::edit::{Dialect, WireCodec};
use serde_json::{Value, json};

use crate::model::{call, list, read, totals, upstream};
use crate::steps::{DIALECTS, acts, check, resent, results, step, tools};
use crate::upstream::*;

pub(crate) const WINDOW: u64 = 4_000;

/// What only the oldest message says.
pub(crate) const SECRET: &str = "the vault opens with heron-4711";

/// The dialect.
pub(crate) fn wire(dialect: Dialect) -> &'static dyn WireCodec {
    match dialect {
        Dialect::Chat => &longhaul_wire::chat::edit::ChatCodec,
        Dialect::Messages => &longhaul_wire::messages::edit::MessagesCodec,
        Dialect::Responses => &longhaul_wire::responses::edit::ResponsesCodec,
    }
}

pub(crate) fn gateway_with(
    server: &ScriptedUpstream,
    dialect: Dialect,
    recall: RecallMode,
    parts: GatewayDependencies,
    window: u64,
) -> Gateway {
    let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    let upstreams = vec![upstream(server, dialect, window, true)];
    Gateway::new(GatewayOptions { policy, recall, ..waiting(upstreams) }, parts).unwrap()
}

pub(crate) fn injecting(server: &ScriptedUpstream, dialect: Dialect) -> Gateway {
    gateway_with(server, dialect, RecallMode::Inject, GatewayDependencies::default(), WINDOW)
}

/// A conversation that does not fit; its first message has the secret.
pub(crate) fn conversation() -> Vec<Value> {
    let message = |at: usize| match (at, at % 2) {
        (0, _) => user(format!("Mind that {SECRET}. {}", words(150, at))),
        (_, 0) => user(words(150, at)),
        _ => assistant(words(150, at)),
    };
    (0..26).map(message).chain([user("How does the vault open?")]).collect()
}

/// The handle that the request names for what was left out.
pub(crate) fn handle(request: &Value) -> String {
    let text = request.to_string();
    let (_, rest) = text.split_once("earlier messages").expect("the model is told");
    let at = rest.find("lh:").expect("a handle is named");
    rest[at..].split(|char: char| !char.is_ascii_digit() && !"lh:-".contains(char)).next().unwrap().to_owned()
}

pub(crate) fn look_up(request: &Value) -> Value {
    json!({ "handle": handle(request), "range": "0-400" })
}

/// A model that answers each of its requests by its number.
pub(crate) async fn model(
    script: impl Fn(usize, &Value) -> Vec<String> + Send + Sync + 'static,
) -> ScriptedUpstream {
    start_upstream(move |number, body| UpstreamAnswer::Events(script(number, body), Duration::ZERO)).await
}

/// A stream's events as an answer that is no stream.
pub(crate) fn whole(dialect: Dialect, events: Vec<String>) -> UpstreamAnswer {
    let events: Vec<bytes::Bytes> = events.into_iter().map(bytes::Bytes::from).collect();
    UpstreamAnswer::Json(
        200,
        serde_json::from_slice(&wire(dialect).collect_answer(&events).unwrap()).unwrap(),
    )
}

pub(crate) fn sent(server: &ScriptedUpstream) -> Vec<Value> {
    server.received().iter().map(ReceivedRequest::json).collect()
}

/// What the client has of an answer: text, calls, why it ended, and what it took.
pub(crate) struct Had {
    pub(crate) text: String,
    pub(crate) calls: Vec<String>,
    pub(crate) finish: Option<ModelStopReason>,
    pub(crate) usage: (u64, u64),
    pub(crate) totals: Value,
    pub(crate) all: String,
}

pub(crate) async fn had(dialect: Dialect, reply: GatewayReply, stream: bool) -> Had {
    assert_eq!(reply.status, StatusCode::OK);
    let out = body(reply).await;
    let all = String::from_utf8(out.to_vec()).unwrap();
    let (seen, totals) = match stream {
        true => {
            let (seen, events) = read(dialect, &out);
            is_one_answer(dialect, &events);
            (seen, totals(&events))
        }
        false => {
            let whole: Value = serde_json::from_slice(&out).unwrap();
            (wire(dialect).parse_answer(&out).unwrap(), whole["x_longhaul"].clone())
        }
    };
    let usage = seen.usage.map(|usage| (usage.input_tokens, usage.output_tokens)).unwrap_or_default();
    let calls =
        seen.calls.iter().map(|call| format!("{} {} {}", call.id, call.name, call.arguments)).collect();
    Had { text: seen.text, calls, finish: seen.finish, usage, totals, all }
}

/// One name, one beginning, numbers without gaps, one end.
fn is_one_answer(dialect: Dialect, events: &[Value]) {
    let kinds = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    match dialect {
        Dialect::Chat => {
            let choices = || events.iter().filter_map(|event| event["choices"].get(0));
            assert_eq!(choices().filter(|choice| choice["delta"]["role"].is_string()).count(), 1);
            assert_eq!(choices().filter(|choice| choice["finish_reason"].is_string()).count(), 1);
            let ids: std::collections::BTreeSet<String> = events
                .iter()
                .filter(|event| event["choices"][0].is_object())
                .map(|event| event["id"].to_string())
                .collect();
            assert_eq!(ids.len(), 1, "{ids:?}");
            let begun = choices()
                .flat_map(|choice| choice["delta"]["tool_calls"].as_array().cloned().unwrap_or_default());
            let begun: Vec<u64> = begun
                .filter(|call| call["id"].is_string())
                .map(|call| call["index"].as_u64().unwrap())
                .collect();
            assert!(begun.iter().copied().eq(0..begun.len() as u64), "{begun:?}");
        }
        Dialect::Messages => {
            assert_eq!((kinds("message_start").len(), kinds("message_stop").len()), (1, 1));
            let begun: Vec<u64> =
                kinds("content_block_start").iter().map(|event| event["index"].as_u64().unwrap()).collect();
            let ended: Vec<u64> =
                kinds("content_block_stop").iter().map(|event| event["index"].as_u64().unwrap()).collect();
            assert!(begun.iter().copied().eq(0..begun.len() as u64), "{begun:?}");
            assert_eq!(begun, ended);
        }
        Dialect::Responses => {
            let numbers: Vec<u64> =
                events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
            assert_eq!(kinds("response.created").len(), 1);
            let begun: Vec<u64> = kinds("response.output_item.added")
                .iter()
                .map(|event| event["output_index"].as_u64().unwrap())
                .collect();
            assert!(begun.iter().copied().eq(0..begun.len() as u64), "{begun:?}");
            let end = events.last().unwrap();
            let done: Vec<Value> =
                kinds("response.output_item.done").iter().map(|event| event["item"].clone()).collect();
            assert_eq!(end["response"]["output"], json!(done), "the closing copy has what was shown");
            assert_eq!(end["response"]["id"], kinds("response.created")[0]["response"]["id"]);
        }
    }
}

/// The texts of several steps as the dialect puts them together.
pub(crate) fn joined(dialect: Dialect, texts: &[&str]) -> String {
    texts.join(if dialect == Dialect::Chat { "\n\n" } else { "" })
}

#[tokio::test]
async fn nothing_is_added_as_long_as_nothing_is_left_out() {
    for dialect in DIALECTS {
        for stream in [true, false] {
            let server = model(move |_, _| step(dialect, "a", "hello", &[], (9, 2))).await;
            let mut asked = call(dialect, &conversation()[..3], stream);
            let bytes = String::from_utf8(asked.body.to_vec()).unwrap().replace("30000", "300");
            asked.body = bytes.clone().into();
            let reply = injecting(&server, dialect).answer(asked).await;
            assert_eq!(header(&reply, "x-longhaul-recall"), "");
            body(reply).await;
            assert_eq!(server.received()[0].body, bytes);
        }
    }
}

#[tokio::test]
async fn the_tool_comes_with_the_first_thing_that_is_left_out_and_not_where_it_is_off() {
    for dialect in DIALECTS {
        let server = model(move |_, _| step(dialect, "a", "hello", &[], (9, 2))).await;
        let reply = injecting(&server, dialect).answer(call(dialect, &conversation(), true)).await;
        assert_eq!(header(&reply, "x-longhaul-recall"), "added");
        body(reply).await;
        let off = gateway_with(&server, dialect, RecallMode::Off, GatewayDependencies::default(), WINDOW);
        let reply = off.answer(call(dialect, &conversation(), true)).await;
        assert_eq!(header(&reply, "x-longhaul-recall"), "");
        body(reply).await;
        let sent = sent(&server);
        assert_eq!((tools(&sent[0]), tools(&sent[1])), (vec!["recall".to_owned()], vec![]));
        assert!(handle(&sent[0]).starts_with("lh:"));
        assert!(!sent[1].to_string().contains("recall"), "nobody is told of what is not there");
    }
}

#[tokio::test]
async fn what_was_left_out_is_looked_up_and_the_client_sees_one_answer() {
    for dialect in DIALECTS {
        for stream in [true, false] {
            let server = model(move |number, body| match number {
                0 => step(dialect, "first", "Let me look.", &[("c1", "recall", look_up(body))], (2_000, 30)),
                _ => step(dialect, "second", "With heron-4711.", &[], (2_300, 12)),
            })
            .await;
            let reply = injecting(&server, dialect).answer(call(dialect, &conversation(), stream)).await;
            let told = header(&reply, "x-longhaul-recalls").to_owned();
            let had = had(dialect, reply, stream).await;
            let sent = sent(&server);
            assert_eq!(sent.len(), 2);
            assert!(!sent[0].to_string().contains(SECRET), "it is not shown");
            assert!(results(dialect, &sent[1]).last().unwrap().contains(SECRET), "{}", sent[1]);
            sent.iter().for_each(|request| check(dialect, request));
            let (first, second) =
                (sent[0][list(dialect)].as_array().unwrap(), sent[1][list(dialect)].as_array().unwrap());
            assert_eq!(second[..first.len()], first[..], "the upstream's prompt cache holds");
            if stream {
                assert_eq!(had.text, joined(dialect, &["Let me look.", "With heron-4711."]));
            } else {
                assert!(
                    had.text.ends_with("With heron-4711.") && had.text.starts_with("Let me look."),
                    "{}",
                    had.text
                );
                assert_eq!(told, "1");
            }
            assert_eq!((had.calls, had.finish), (vec![], Some(ModelStopReason::Stop)));
            assert!(!had.all.contains("recall\"") && !had.all.contains("lh:"), "{}", had.all);
            assert_eq!(had.usage, (2_300, 42), "the last call's input, all output");
            assert_eq!(
                (&had.totals["recalls"], &had.totals["calls"]),
                (&json!(1), &json!(2)),
                "{}",
                had.totals
            );
            assert_eq!(had.totals["billed"]["input_tokens"], 4_300);
        }
    }
}

#[tokio::test]
async fn a_model_may_look_up_several_things_and_then_call_the_clients_tool() {
    for dialect in DIALECTS {
        let server = model(move |number, body| match number {
            0 => step(dialect, "a", "", &[("c1", "recall", look_up(body))], (2_000, 10)),
            1 => step(
                dialect,
                "b",
                "Once more.",
                &[("c2", "recall", json!({ "query": "vault heron" })), ("c3", "recall", json!({}))],
                (2_100, 20),
            ),
            _ => step(dialect, "c", "Now.", &[("c4", "open", json!({ "code": 4711 }))], (2_200, 5)),
        })
        .await;
        let (gateway, mut messages) = (injecting(&server, dialect), conversation());
        let had = had(dialect, gateway.answer(call(dialect, &messages, true)).await, true).await;
        assert_eq!(had.text, joined(dialect, &["Once more.", "Now."]));
        assert_eq!(
            (had.calls, had.finish),
            (vec!["c4 open {\"code\":4711}".to_owned()], Some(ModelStopReason::ToolCalls))
        );
        let sent = sent(&server);
        sent.iter().for_each(|request| check(dialect, request));
        let told = results(dialect, &sent[2]);
        assert!(
            told[0].contains(SECRET) && told[1].contains(SECRET) && told[1].contains("<user lh:"),
            "{told:?}"
        );
        assert_eq!(told[2], "recall: give a `handle` or a `query`");
        assert_eq!(had.usage, (2_200, 35));
        // In the next request the model still knows what it has looked up.
        messages.extend(resent(dialect, &had.text, &[("c4", "open", json!({ "code": 4711 }))], "it is open"));
        body(gateway.answer(call(dialect, &messages, true)).await).await;
        let next = self::sent(&server).pop().unwrap();
        check(dialect, &next);
        let items = |request: &Value| request[list(dialect)].as_array().unwrap().clone();
        let (before, after) = (items(&sent[2]), items(&next));
        assert_eq!(after[..before.len()], before[..], "and the upstream's prompt cache holds");
        assert_eq!(results(dialect, &next).len(), 4);
    }
}

#[tokio::test]
async fn calls_of_both_in_one_step_are_put_together_again() {
    for dialect in DIALECTS {
        for stream in [true, false] {
            let server = model(move |number, body| match number {
                0 => {
                    let calls = [
                        ("c1", "read", json!({ "a": 1 })),
                        ("c2", "recall", look_up(body)),
                        ("c3", "read", json!({ "a": 2 })),
                    ];
                    step(dialect, "a", "Both.", &calls, (2_000, 10))
                }
                _ => step(dialect, "b", "Done.", &[], (2_500, 5)),
            })
            .await;
            let gateway = injecting(&server, dialect);
            let mut messages = conversation();
            let had = had(dialect, gateway.answer(call(dialect, &messages, stream)).await, stream).await;
            assert_eq!(had.calls, ["c1 read {\"a\":1}", "c3 read {\"a\":2}"]);
            assert_eq!((had.text.as_str(), had.finish), ("Both.", Some(ModelStopReason::ToolCalls)));
            let shown = [("c1", "read", json!({ "a": 1 })), ("c3", "read", json!({ "a": 2 }))];
            messages.extend(resent(dialect, "Both.", &shown, "the file"));
            body(gateway.answer(call(dialect, &messages, stream)).await).await;
            messages.extend([assistant("Done."), user("thanks")]);
            body(gateway.answer(call(dialect, &messages, stream)).await).await;
            let sent = sent(&server);
            for request in &sent[1..] {
                check(dialect, request);
                let acts = acts(dialect, request);
                let calls: Vec<&str> = acts.iter().filter_map(|act| act.strip_prefix("call ")).collect();
                assert_eq!(calls, ["c1", "c2", "c3"], "where the model had it");
                assert!(results(dialect, request).iter().any(|result| result.contains(SECRET)));
            }
            let items = |at: usize| sent[at][list(dialect)].as_array().unwrap().clone();
            assert_eq!(items(1)[..items(0).len()], items(0)[..]);
            assert_eq!(items(2)[..items(1).len()], items(1)[..], "it stays where it was put");
        }
    }
}

#[tokio::test]
async fn another_step_after_the_same_words_is_left_as_it_is() {
    for dialect in DIALECTS {
        let server = model(move |number, body| match number {
            0 => step(
                dialect,
                "a",
                "",
                &[("c1", "read", json!({})), ("c2", "recall", look_up(body))],
                (2_000, 10),
            ),
            _ => step(dialect, "b", "Done.", &[], (2_500, 5)),
        })
        .await;
        let gateway = injecting(&server, dialect);
        let mut messages = conversation();
        body(gateway.answer(call(dialect, &messages, true)).await).await;
        messages.extend(resent(dialect, "", &[("other", "read", json!({}))], "the file"));
        body(gateway.answer(call(dialect, &messages, true)).await).await;
        let sent = sent(&server);
        check(dialect, &sent[1]);
        assert!(!acts(dialect, &sent[1]).contains(&"call c2".to_owned()));
    }
}

#[tokio::test]
async fn who_has_a_tool_of_that_name_or_says_what_is_called_gets_none() {
    for dialect in DIALECTS {
        let tool = |name: &str| match dialect {
            Dialect::Chat => {
                json!({ "type": "function", "function": { "name": name, "parameters": { "type": "object" } } })
            }
            Dialect::Messages => json!({ "name": name, "input_schema": { "type": "object" } }),
            Dialect::Responses => {
                json!({ "type": "function", "name": name, "parameters": { "type": "object" } })
            }
        };
        let choice = |word: &str| match dialect {
            Dialect::Messages => json!({ "type": word.replace("required", "any") }),
            _ => json!(word),
        };
        let server = model(move |_, _| {
            step(dialect, "a", "", &[("c1", "recall", json!({ "query": "mine" }))], (9, 2))
        })
        .await;
        let gateway = injecting(&server, dialect);
        let mut said = Vec::new();
        for (fields, is_added) in [
            (json!({ "tools": [tool("recall")] }), false),
            (json!({ "tools": [tool("read")], "tool_choice": choice("none") }), false),
            (json!({ "tools": [tool("read")], "tool_choice": choice("required") }), false),
            (json!({ "tools": [], "tool_choice": choice("auto") }), true),
            (json!({ "tools": null }), true),
            (json!({ "tools": [ tool("read") , tool("write") ] }), true),
        ] {
            let mut asked = call(dialect, &conversation(), true);
            let mut request: Value = serde_json::from_slice(&asked.body).unwrap();
            request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            asked.body = serde_json::to_string_pretty(&request).unwrap().into();
            let before = server.received().len();
            let reply = gateway.answer(asked).await;
            said.push(header(&reply, "x-longhaul-recall").to_owned());
            let out = body(reply).await;
            let first = server.received()[before].json();
            let mut expected = tools(&request);
            expected.extend(is_added.then(|| "recall".to_owned()));
            assert_eq!(tools(&first), expected);
            if !is_added {
                assert_eq!(server.received().len(), before + 1, "the client's own call is the client's");
                assert_eq!(read(dialect, &out).0.calls.len(), 1);
            }
        }
        assert_eq!(said[0], "not added: the client has a tool of that name");
        assert_eq!(said[1], "not added: the request forbids tools");
        assert_eq!(said[2], "not added: the request says which tool is called");
        assert_eq!(said[3..], ["added", "added", "added"]);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_while_it_asks_shows_nothing_of_it() {
    for dialect in DIALECTS {
        let server = start_upstream(move |_, body| {
            let mut events = step(dialect, "a", "Let me look.", &[("c1", "recall", look_up(body))], (9, 2));
            let begun = events.iter().position(|event| event.contains("\"recall\"")).unwrap();
            events.truncate(begun + 2);
            UpstreamAnswer::Breaks(events)
        })
        .await;
        let reply = injecting(&server, dialect).answer(call(dialect, &conversation(), true)).await;
        let out = body(reply).await;
        let (seen, _) = read(dialect, &out);
        assert!(seen.error.is_some() && seen.calls.is_empty(), "{}", String::from_utf8_lossy(&out));
        assert_eq!(seen.text, "Let me look.");
        assert_eq!(server.received().len(), 1);
        let reply = injecting(&server, dialect).answer(call(dialect, &conversation(), false)).await;
        assert!(reply.status.is_server_error(), "{}", reply.status);
    }
}

#[tokio::test]
async fn a_call_that_the_output_limit_cuts_is_not_answered() {
    let dialect = Dialect::Chat;
    let server = model(move |_, body| {
        let events = step(dialect, "a", "Let me look.", &[("c1", "recall", look_up(body))], (9, 2));
        events
            .into_iter()
            .map(|event| event.replace("\"finish_reason\":\"tool_calls\"", "\"finish_reason\":\"length\""))
            .collect()
    })
    .await;
    let had =
        had(dialect, injecting(&server, dialect).answer(call(dialect, &conversation(), true)).await, true)
            .await;
    assert_eq!(
        (had.text.as_str(), had.calls.len(), had.finish),
        ("Let me look.", 0, Some(ModelStopReason::Length))
    );
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_server_that_refuses_the_result_is_asked_without_it_and_one_that_fails_is_told_of() {
    for (times, ends) in [(1, true), (2, false)] {
        let dialect = Dialect::Chat;
        let server = start_upstream(move |number, body| match number {
            0 => UpstreamAnswer::Events(
                step(dialect, "a", "Let me look.", &[("c1", "recall", look_up(body))], (9, 2)),
                Duration::ZERO,
            ),
            n if n <= times => {
                let message = "The prompt is too long for this model.";
                UpstreamAnswer::Json(
                    400,
                    json!({ "error": { "message": message, "code": "context_length_exceeded" } }),
                )
            }
            _ => UpstreamAnswer::Events(step(dialect, "b", "I do not know.", &[], (9, 2)), Duration::ZERO),
        })
        .await;
        let out = body(injecting(&server, dialect).answer(call(dialect, &conversation(), true)).await).await;
        let (seen, _) = read(dialect, &out);
        assert_eq!(seen.error.is_none(), ends);
        let sent = sent(&server);
        assert_eq!(sent.len(), 3);
        assert!(results(dialect, &sent[1])[0].contains(SECRET));
        assert!(
            results(dialect, &sent[2])[0].contains("there is no room"),
            "{:?}",
            results(dialect, &sent[2])
        );
        if ends {
            assert_eq!(seen.text, "Let me look.\n\nI do not know.");
        }
    }
}

#[tokio::test]
async fn a_server_that_streams_to_nobody_is_answered_too() {
    for dialect in DIALECTS {
        let answer = move |text: &str, calls: &[crate::steps::ClientRequest<'_>]| {
            whole(dialect, step(dialect, "a", text, calls, (9, 2)))
        };
        let server = start_upstream(move |number, body| match number {
            0 => answer("Let me look.", &[("c1", "recall", look_up(body))]),
            1 => answer("Both.", &[("c2", "read", json!({})), ("c3", "recall", look_up(body))]),
            _ => answer("Done.", &[]),
        })
        .await;
        let gateway = injecting(&server, dialect);
        let mut messages = conversation();
        let had = had(dialect, gateway.answer(call(dialect, &messages, false)).await, false).await;
        assert_eq!((had.text.as_str(), had.calls), ("Both.", vec!["c2 read {}".to_owned()]));
        messages.extend(resent(dialect, "Both.", &[("c2", "read", json!({}))], "the file"));
        body(gateway.answer(call(dialect, &messages, false)).await).await;
        let sent = sent(&server);
        sent.iter().for_each(|request| check(dialect, request));
        assert!(results(dialect, &sent[1])[0].contains(SECRET));
        assert!(acts(dialect, &sent[2]).contains(&"call c3".to_owned()));
    }
}

/// A handle means the same after more edits, in a conversation that is found again, and after a restart: the newest that
/// is named is what stood before the first message that is shown.
#[tokio::test]
async fn a_handle_means_the_same_for_ever() {
    let dialect = Dialect::Chat;
    let newest = |body: &Value| format!("lh:{}", handle(body).rsplit(['-', ':']).next().unwrap());
    let server = model(move |_, body| match tools(body).is_empty() || !results(dialect, body).is_empty() {
        true => step(dialect, "a", "fine", &[], (0, 0)),
        false => step(dialect, "a", "", &[("c1", "recall", json!({ "handle": newest(body) }))], (0, 0)),
    })
    .await;
    let memo = Arc::new(MemoryPrefixCache::default());
    let start = || {
        let parts = GatewayDependencies { memo: memo.clone(), ..GatewayDependencies::default() };
        gateway_with(&server, dialect, RecallMode::Inject, parts, WINDOW)
    };
    let (mut gateway, mut messages, mut edits, mut checked) = (start(), Vec::new(), 0, 0);
    for turn in 0..90 {
        messages.push(user(format!("<{}> {}", 2 * turn, words(100, turn))));
        let before = server.received().len();
        let reply = gateway.answer(call(dialect, &messages, true)).await;
        edits += usize::from(matches!(header(&reply, "x-longhaul-action"), "pruned" | "compacted"));
        body(reply).await;
        messages.push(assistant(format!("<{}> {}", 2 * turn + 1, words(60, turn))));
        let requests: Vec<Value> = server.received()[before..].iter().map(ReceivedRequest::json).collect();
        if let [first, second] = requests.as_slice() {
            let told = results(dialect, second).pop().unwrap();
            if told.contains("there is no room") {
                continue;
            }
            let text = first["messages"].to_string();
            let shown: usize = text.split_once('<').unwrap().1.split('>').next().unwrap().parse().unwrap();
            let expected = format!("<{}> ", shown - 1);
            assert!(told.starts_with(&expected), "turn {turn}: {} is {told}", newest(first));
            checked += 1;
        }
        if turn % 29 == 28 {
            gateway = start();
        }
    }
    assert!(edits > 2 && checked > 30, "{edits} edits, {checked} handles");
}

/// A gateway before a server that speaks only that dialect.
fn across(server: &ScriptedUpstream, dialect: Dialect) -> Gateway {
    let mut up = upstream(server, dialect, WINDOW, false);
    if dialect == Dialect::Messages {
        up.kind = longhaul_providers::connect::Kind::Anthropic;
    }
    let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    gateway(GatewayOptions { policy, recall: RecallMode::Inject, ..waiting(vec![up]) })
}

#[tokio::test]
async fn across_dialects_the_client_has_its_own_calls_and_the_rest_does_not_come_back() {
    for (client, upstream_dialect) in [
        (Dialect::Chat, Dialect::Messages),
        (Dialect::Messages, Dialect::Chat),
        (Dialect::Responses, Dialect::Chat),
    ] {
        for stream in [true, false] {
            let server = model(move |number, body| match number {
                0 => step(
                    upstream_dialect,
                    "a",
                    "Let me look.",
                    &[("c1", "recall", look_up(body))],
                    (2_000, 30),
                ),
                1 => {
                    let calls = [("c2", "read", json!({ "a": 1 })), ("c3", "recall", look_up(body))];
                    step(upstream_dialect, "b", "Both.", &calls, (2_300, 12))
                }
                _ => step(upstream_dialect, "c", "Done.", &[], (2_400, 12)),
            })
            .await;
            let (gateway, mut messages) = (across(&server, upstream_dialect), conversation());
            let had = had(client, gateway.answer(call(client, &messages, stream)).await, stream).await;
            assert_eq!((had.calls.len(), had.finish), (1, Some(ModelStopReason::ToolCalls)), "{}", had.all);
            let (id, said) = had.calls[0].split_once(' ').unwrap();
            assert_eq!((said, &had.totals["recalls"]), ("read {\"a\":1}", &json!(2)));
            assert_eq!(had.text, joined(client, &["Let me look.", "Both."]));
            messages.extend(resent(client, &had.text, &[(id, "read", json!({ "a": 1 }))], "the file"));
            body(gateway.answer(call(client, &messages, stream)).await).await;
            let sent = sent(&server);
            sent.iter().for_each(|request| check(upstream_dialect, request));
            assert!(sent[1].to_string().contains(SECRET));
            assert!(sent[2].to_string().contains("the file") && !sent[2].to_string().contains(SECRET));
            assert_eq!(results(upstream_dialect, &sent[2]).len(), 1);
        }
    }
}

#[tokio::test]
async fn a_client_of_another_dialect_has_it_too() {
    for (client, upstream_dialect) in [
        (Dialect::Chat, Dialect::Messages),
        (Dialect::Messages, Dialect::Chat),
        (Dialect::Responses, Dialect::Chat),
    ] {
        for stream in [true, false] {
            let server = model(move |number, body| match number {
                0 => step(
                    upstream_dialect,
                    "first",
                    "Let me look.",
                    &[("c1", "recall", look_up(body))],
                    (2_000, 30),
                ),
                _ => step(upstream_dialect, "second", "With heron-4711.", &[], (2_300, 12)),
            })
            .await;
            let gateway = across(&server, upstream_dialect);
            let reply = gateway.answer(call(client, &conversation(), stream)).await;
            let had = had(client, reply, stream).await;
            let sent = sent(&server);
            assert_eq!(sent.len(), 2, "{}", had.all);
            sent.iter().for_each(|request| check(upstream_dialect, request));
            assert!(sent[1].to_string().contains(SECRET));
            assert!(
                had.text.starts_with("Let me look.") && had.text.ends_with("With heron-4711."),
                "{}",
                had.text
            );
            assert_eq!((had.calls.len(), had.finish), (0, Some(ModelStopReason::Stop)));
        }
    }
}

/// A model that recalls, is stopped at the end of the window, and goes on: each request has what it has looked up.
#[tokio::test]
async fn an_answer_that_is_stopped_keeps_what_was_looked_up() {
    for dialect in DIALECTS {
        let long = crate::model::numbered(2_500);
        let text = long.clone();
        let server = model(move |number, body| {
            if number == 0 {
                return step(dialect, "a", "Let me look.", &[("c1", "recall", look_up(body))], (2_000, 10));
            }
            let begun = crate::model::begun(dialect, body).0;
            let rest = text.strip_prefix(begun.as_str()).expect("it goes on where it was stopped");
            crate::model::events(dialect, &format!("id{number}"), rest, (2_000, 500))
        })
        .await;
        let reply = injecting(&server, dialect).answer(call(dialect, &conversation(), true)).await;
        let had = had(dialect, reply, true).await;
        assert_eq!(had.text, joined(dialect, &["Let me look.", &long]));
        let sent = sent(&server);
        assert!(sent.len() > 2, "it was stopped");
        for request in &sent[1..] {
            check(dialect, request);
            assert!(results(dialect, request)[0].contains(SECRET));
            assert_eq!(tools(request), ["recall"]);
        }
        assert_eq!(had.totals["recalls"], 1);
        assert!(had.totals["restarts"].as_u64().unwrap() > 0);
    }
}

/// Anthropic's models refuse a step whose thinking is not what they wrote.
#[tokio::test]
async fn what_the_model_thought_before_it_asked_goes_back_as_it_was() {
    let dialect = Dialect::Messages;
    let server = model(move |number, body| {
        let mut events = match number {
            0 => step(dialect, "a", "Look.", &[("c1", "recall", look_up(body))], (9, 2)),
            _ => return step(dialect, "b", "Done.", &[], (9, 2)),
        };
        let thinking = [
            json!({ "type": "content_block_start", "index": 9, "content_block": { "type": "thinking", "thinking": "", "signature": "" } }),
            json!({ "type": "content_block_delta", "index": 9, "delta": { "type": "thinking_delta", "thinking": "hm" } }),
            json!({ "type": "content_block_delta", "index": 9, "delta": { "type": "signature_delta", "signature": "c2ln" } }),
            json!({ "type": "content_block_stop", "index": 9 }),
        ];
        let said = thinking.map(|data| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap()));
        events.splice(1..1, said);
        events
    })
    .await;
    body(injecting(&server, dialect).answer(call(dialect, &conversation(), true)).await).await;
    let sent = sent(&server);
    let messages = sent[1]["messages"].as_array().unwrap();
    let step = &messages[messages.len() - 2]["content"];
    assert_eq!(step[0], json!({ "type": "thinking", "thinking": "hm", "signature": "c2ln" }));
    assert_eq!((&step[1]["text"], &step[2]["name"]), (&json!("Look."), &json!("recall")));
}

/// What stands for a conversation goes to the client, which sends it back in place of the rest.
#[tokio::test]
async fn compacted_items_name_no_handles() {
    let dialect = Dialect::Responses;
    let server = model(move |_, _| step(dialect, "a", "hello", &[], (9, 2))).await;
    let reply = injecting(&server, dialect).compact(call(dialect, &conversation(), false)).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "compacted"));
    assert!(!String::from_utf8_lossy(&body(reply).await).contains("recall"));
}
