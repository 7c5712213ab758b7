//! Recall where something is amiss: ids that servers repeat or leave out, arguments that are no JSON, upstreams that fail
//! between two steps, calls that are cut off, handles of others.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::message::ModelStopReason;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{call, list, read, text_of};
use crate::recall::{SECRET, conversation, had, handle, injecting, look_up, model, sent, whole};
use crate::steps::{DIALECTS, acts, check, resent, results, step};
use crate::upstream::*;

/// The ids of a request's calls.
fn call_ids(dialect: Dialect, request: &Value) -> Vec<String> {
    let acts = acts(dialect, request);
    acts.iter().filter_map(|act| act.strip_prefix("call ")).map(str::to_owned).collect()
}

/// The arguments of a request's newest call, as the dialect has them.
fn newest_arguments(dialect: Dialect, request: &Value) -> Value {
    let items = request[list(dialect)].as_array().unwrap();
    let of_item = |item: &Value| match dialect {
        Dialect::Chat => item["tool_calls"].get(0).map(|call| call["function"]["arguments"].clone()),
        Dialect::Responses => item.get("arguments").cloned(),
        Dialect::Messages => {
            let blocks = item["content"].as_array().cloned().unwrap_or_default();
            blocks.iter().find_map(|block| block.get("input").cloned())
        }
    };
    items.iter().rev().find_map(of_item).unwrap()
}

/// What a dialect writes for no arguments.
fn nothing(dialect: Dialect) -> Value {
    if dialect == Dialect::Messages { json!({}) } else { json!("{}") }
}

#[tokio::test]
async fn calls_that_a_server_gives_one_name_or_none_get_names_of_their_own() {
    for dialect in DIALECTS {
        for ids in [["c", "c"], ["", ""], ["old", "c"]] {
            let server = model(move |number, body| {
                let calls = ids.map(|id| (id, "recall", look_up(body)));
                match number {
                    0 | 1 => step(dialect, "a", "", &calls, (2_000, 10)),
                    _ => step(dialect, "b", "Done.", &[], (2_500, 5)),
                }
            })
            .await;
            let mut messages = conversation();
            messages.extend(resent(dialect, "", &[("old", "read", json!({}))], "the file"));
            body(injecting(&server, dialect).answer(call(dialect, &messages, true)).await).await;
            let requests = sent(&server);
            assert_eq!(requests.len(), 3);
            requests.iter().for_each(|request| check(dialect, request));
            let named = call_ids(dialect, &requests[2]);
            let distinct: BTreeSet<&String> = named.iter().collect();
            assert_eq!((named.len(), distinct.len()), (5, 5), "{dialect:?} {ids:?}: {named:?}");
            assert!(named.iter().all(|id| !id.is_empty()), "{named:?}");
            assert_eq!(named[0], "old", "the client's stays");
            let found = results(dialect, &requests[2]);
            assert_eq!(found.iter().filter(|found| found.contains(SECRET)).count(), 4, "{found:?}");
            let items = |at: usize| requests[at][list(dialect)].as_array().unwrap().clone();
            assert_eq!(items(2)[..items(1).len()], items(1)[..], "and keep them");
        }
    }
}

#[tokio::test]
async fn a_hidden_call_with_the_name_of_the_clients_gets_another_when_it_is_put_back() {
    for dialect in DIALECTS {
        for hidden in ["c1", ""] {
            let server = model(move |number, body| match number {
                0 => {
                    let calls = [("c1", "read", json!({})), (hidden, "recall", look_up(body))];
                    step(dialect, "a", "", &calls, (2_000, 10))
                }
                _ => step(dialect, "b", "Done.", &[], (2_500, 5)),
            })
            .await;
            let (gateway, mut messages) = (injecting(&server, dialect), conversation());
            let had = had(dialect, gateway.answer(call(dialect, &messages, true)).await, true).await;
            assert_eq!(had.calls, ["c1 read {}"]);
            messages.extend(resent(dialect, "", &[("c1", "read", json!({}))], "the file"));
            body(gateway.answer(call(dialect, &messages, true)).await).await;
            let next = sent(&server).pop().unwrap();
            check(dialect, &next);
            let named = call_ids(dialect, &next);
            assert_eq!((named.len(), named[0].as_str()), (2, "c1"), "{named:?}");
            assert!(!["", "c1"].contains(&named[1].as_str()), "{named:?}");
            assert!(results(dialect, &next).iter().any(|result| result.contains(SECRET)));
        }
    }
}

/// The step with arguments that end in the middle.
fn with_broken_arguments(dialect: Dialect, calls: &[crate::steps::ClientRequest<'_>]) -> Vec<String> {
    let events = step(dialect, "a", "", calls, (2_000, 10));
    events.into_iter().map(|event| event.replace(r#"en\":1}"#, "en")).collect()
}

#[tokio::test]
async fn arguments_that_are_no_object_go_back_as_none_and_the_model_is_told() {
    for dialect in DIALECTS {
        for arguments in [json!({ "broken": 1 }), json!("vault"), json!([1])] {
            let said = arguments.clone();
            let server = model(move |number, _| match number {
                0 => with_broken_arguments(dialect, &[("c1", "recall", said.clone())]),
                _ => step(dialect, "b", "Done.", &[], (2_500, 5)),
            })
            .await;
            let reply = injecting(&server, dialect).answer(call(dialect, &conversation(), true)).await;
            let had = had(dialect, reply, true).await;
            assert_eq!(
                (had.text.as_str(), had.finish),
                ("Done.", Some(ModelStopReason::Stop)),
                "{dialect:?} {arguments}"
            );
            let next = sent(&server).pop().unwrap();
            check(dialect, &next);
            assert_eq!(newest_arguments(dialect, &next), nothing(dialect), "{arguments}");
            let told = results(dialect, &next).pop().unwrap();
            assert!(told.contains("no JSON object") && told.contains("`{}`"), "{told}");
        }
    }
}

#[tokio::test]
async fn broken_arguments_beside_a_call_of_the_clients_are_put_back_as_none() {
    for dialect in DIALECTS {
        let server = model(move |number, _| match number {
            0 => {
                let calls = [("c1", "recall", json!({ "broken": 1 })), ("c2", "read", json!({}))];
                with_broken_arguments(dialect, &calls)
            }
            _ => step(dialect, "b", "Done.", &[], (2_500, 5)),
        })
        .await;
        let (gateway, mut messages) = (injecting(&server, dialect), conversation());
        let had = had(dialect, gateway.answer(call(dialect, &messages, true)).await, true).await;
        assert_eq!(had.calls, ["c2 read {}"]);
        messages.extend(resent(dialect, "", &[("c2", "read", json!({}))], "the file"));
        body(gateway.answer(call(dialect, &messages, true)).await).await;
        let next = sent(&server).pop().unwrap();
        check(dialect, &next);
        assert_eq!(call_ids(dialect, &next), ["c1", "c2"]);
        assert_eq!(newest_arguments(dialect, &next), nothing(dialect));
        assert!(results(dialect, &next)[0].contains("no JSON object"));
    }
}

/// Of a server that streams the client has the words of hidden steps before those of the step itself, of another it has
/// not: what looks like them is the step's own.
#[tokio::test]
async fn a_step_that_begins_like_a_hidden_one_keeps_its_beginning() {
    const SAID: &str = "Let me look.";
    for dialect in DIALECTS {
        for streams in [true, false] {
            for own in [SAID, "Let me look. It is in the file."] {
                let server = start_upstream(move |number, body| {
                    let events = match number {
                        0 => step(dialect, "a", SAID, &[("c1", "recall", look_up(body))], (2_000, 10)),
                        1 => step(dialect, "b", own, &[("c2", "read", json!({}))], (2_100, 10)),
                        _ => step(dialect, "c", "Done.", &[], (2_200, 10)),
                    };
                    if streams {
                        UpstreamAnswer::Events(events, Duration::ZERO)
                    } else {
                        whole(dialect, events)
                    }
                })
                .await;
                let (gateway, mut messages) = (injecting(&server, dialect), conversation());
                let first = gateway.answer(call(dialect, &messages, streams)).await;
                let text = had(dialect, first, streams).await.text;
                let case = format!("{dialect:?} {streams}: {text}");
                assert_eq!(text.matches(SAID).count(), 1 + usize::from(streams), "{case}");
                messages.extend(resent(dialect, &text, &[("c2", "read", json!({}))], "the file"));
                body(gateway.answer(call(dialect, &messages, streams)).await).await;
                let next = sent(&server).pop().unwrap();
                check(dialect, &next);
                assert_eq!(call_ids(dialect, &next), ["c1", "c2"], "{case}");
                let said: Vec<String> = texts(dialect, &next);
                assert_eq!(said[said.len() - 2..], [SAID, own], "{case}");
            }
        }
    }
}

/// What the model has said in a request's steps that have text.
fn texts(dialect: Dialect, request: &Value) -> Vec<String> {
    let items = request[list(dialect)].as_array().unwrap().iter();
    let by_model = items.filter(|item| item["role"] == "assistant");
    by_model.map(text_of).filter(|text| !text.is_empty()).collect()
}

/// How an upstream fails between two steps.
fn fails(dialect: Dialect, how: &str) -> UpstreamAnswer {
    let error = json!({ "type": "error", "error": { "type": "some_error", "message": "not now" } });
    match how {
        "busy" => {
            let headers =
                vec![("retry-after", "7".to_owned()), ("content-type", "application/json".to_owned())];
            UpstreamAnswer::Head(429, headers, error.to_string().into())
        }
        "fails" => UpstreamAnswer::Json(500, error),
        _ => {
            let mut events = step(dialect, "b", "So it is", &[], (2_500, 5));
            let said = events.iter().position(|event| event.contains("So it is")).unwrap();
            events.truncate(said + 1);
            UpstreamAnswer::Breaks(events)
        }
    }
}

#[tokio::test]
async fn an_upstream_that_fails_between_two_steps_ends_the_stream_with_an_error() {
    for dialect in DIALECTS {
        for how in ["busy", "fails", "breaks"] {
            let server = start_upstream(move |number, body| match number {
                0 => {
                    let calls = [("c1", "recall", look_up(body))];
                    UpstreamAnswer::Events(step(dialect, "a", "Let me look.", &calls, (9, 2)), Duration::ZERO)
                }
                _ => fails(dialect, how),
            })
            .await;
            let reply = injecting(&server, dialect).answer(call(dialect, &conversation(), true)).await;
            let out = body(reply).await;
            let (seen, events) = read(dialect, &out);
            let all = String::from_utf8_lossy(&out);
            let error = seen.error.unwrap_or_else(|| panic!("{how}: {all}"));
            let said = if how == "breaks" { "So it is" } else { "" };
            let gap = if dialect == Dialect::Chat && !said.is_empty() { "\n\n" } else { "" };
            assert_eq!((seen.text, seen.calls.len()), (format!("Let me look.{gap}{said}"), 0), "{how}");
            assert!(!all.contains("No answer"), "{all}");
            if how == "busy" {
                assert!(error.contains("rate_limit"), "{error}");
            }
            let ends = |event: &Value| {
                event["choices"][0]["finish_reason"].is_string()
                    || ["message_stop", "response.completed"].contains(&event["type"].as_str().unwrap_or(""))
            };
            assert!(!events.iter().any(ends), "it has no good end: {all}");
            assert_eq!(server.received().len(), 2);
        }
    }
}

#[tokio::test]
async fn an_upstream_that_fails_between_two_steps_is_an_error_for_who_waits_for_the_whole() {
    for dialect in DIALECTS {
        for streams in [true, false] {
            for how in ["busy", "fails", "breaks"] {
                let server = start_upstream(move |number, body| {
                    let asks =
                        || step(dialect, "a", "Let me look.", &[("c1", "recall", look_up(body))], (9, 2));
                    match (number, streams) {
                        (0, true) => UpstreamAnswer::Events(asks(), Duration::ZERO),
                        (0, false) => whole(dialect, asks()),
                        _ => fails(dialect, how),
                    }
                })
                .await;
                let reply = injecting(&server, dialect).answer(call(dialect, &conversation(), false)).await;
                let (status, wait) = (reply.status, header(&reply, "retry-after").to_owned());
                let said = body_json(reply).await;
                let case = format!("{dialect:?} {how} {streams}: {said}");
                match how {
                    "busy" => {
                        assert_eq!((status, wait.as_str()), (StatusCode::TOO_MANY_REQUESTS, "7"), "{case}")
                    }
                    "fails" => assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{case}"),
                    _ => assert_eq!(status, StatusCode::BAD_GATEWAY, "{case}"),
                }
                assert!(said["error"].is_object(), "{case}");
                assert_eq!(server.received().len(), 2, "{case}");
            }
        }
    }
}

/// The same events, stopped by an output limit in the middle of the newest call.
fn cut(dialect: Dialect, events: Vec<String>) -> Vec<String> {
    let ends = |event: &String| {
        ["\"delta\":{},\"finish_reason\"", "message_delta", "response.completed", "\"usage\":{\"completion"]
            .iter()
            .any(|end| event.contains(end))
            || event.contains("message_stop")
            || event.contains("[DONE]")
    };
    let begun = events.iter().position(|event| event.contains("\"recall\"")).unwrap();
    let is_shown = |at: usize, event: &String| at <= begun + 1 || ends(event);
    let kept = events.into_iter().enumerate().filter(|(at, event)| is_shown(*at, event));
    kept.map(|(_, event)| {
        if dialect == Dialect::Responses && event.contains("response.completed") {
            let data = event.split_once("data: ").unwrap().1;
            let mut data: Value = serde_json::from_str(data.trim()).unwrap();
            data["type"] = json!("response.incomplete");
            data["response"]["status"] = json!("incomplete");
            data["response"]["incomplete_details"] = json!({ "reason": "max_output_tokens" });
            return format!("event: response.incomplete\ndata: {data}\n\n");
        }
        event
            .replace("\"finish_reason\":\"tool_calls\"", "\"finish_reason\":\"length\"")
            .replace("\"stop_reason\":\"tool_use\"", "\"stop_reason\":\"max_tokens\"")
    })
    .collect()
}

#[tokio::test]
async fn a_step_that_ends_in_the_middle_of_a_hidden_call_ends_the_answer() {
    for dialect in DIALECTS {
        for (stream, streams) in [(true, true), (false, true), (false, false)] {
            for (text, has_theirs) in [("Let me look.", false), ("", false), ("", true)] {
                let server = start_upstream(move |_, body| {
                    let theirs = ("c0", "read", json!({ "a": 1 }));
                    let hidden = ("c1", "recall", look_up(body));
                    let calls = if has_theirs { vec![theirs, hidden] } else { vec![hidden] };
                    let events = cut(dialect, step(dialect, "a", text, &calls, (9, 2)));
                    if streams {
                        UpstreamAnswer::Events(events, Duration::ZERO)
                    } else {
                        whole(dialect, events)
                    }
                })
                .await;
                let reply = injecting(&server, dialect).answer(call(dialect, &conversation(), stream)).await;
                let had = had(dialect, reply, stream).await;
                let case = format!("{dialect:?} {stream} {streams} {text} {has_theirs}: {}", had.all);
                assert_eq!(server.received().len(), 1, "{case}");
                assert_eq!(had.finish, Some(ModelStopReason::Length), "{case}");
                assert!(!had.all.contains("\"recall\""), "{case}");
                let expected = match (text, has_theirs) {
                    ("", false) => "(No answer",
                    (text, _) => text,
                };
                assert!(had.text.starts_with(expected), "{case}");
                assert_eq!(had.text.contains("No answer"), expected == "(No answer", "{case}");
                assert_eq!(had.calls.len(), usize::from(has_theirs), "{case}");
            }
        }
    }
}

/// A conversation as long, of other words, without the secret.
fn another() -> Vec<Value> {
    let message = |at: usize| match at % 2 {
        0 => user(format!("<{at}> {}", words(150, at + 3))),
        _ => assistant(format!("<{at}> {}", words(150, at + 3))),
    };
    (0..26).map(message).chain([user("How does the vault open?")]).collect()
}

#[tokio::test]
async fn what_others_have_said_is_not_found() {
    for dialect in DIALECTS {
        let server = model(move |_, body| {
            if !results(dialect, body).is_empty() {
                return step(dialect, "b", "Done.", &[], (0, 0));
            }
            let calls = [
                ("c1", "recall", json!({ "handle": handle(body), "range": "0-300" })),
                ("c2", "recall", json!({ "handle": "lh:2", "range": "0-300" })),
                ("c3", "recall", json!({ "query": "heron-4711 vault opens" })),
                ("c4", "recall", json!({ "handle": "lh:99999" })),
            ];
            step(dialect, "a", "", &calls, (0, 0))
        })
        .await;
        let gateway = injecting(&server, dialect);
        body(gateway.answer(call(dialect, &conversation(), true)).await).await;
        body(gateway.answer(call(dialect, &another(), true)).await).await;
        let sent = sent(&server);
        let (own, other) = (results(dialect, &sent[1]), results(dialect, &sent[3]));
        assert!(own[0].contains(SECRET) && own[2].contains("heron"), "{own:?}");
        assert!(!sent[3].to_string().contains(SECRET));
        assert!(other[0].contains("<0> "), "the same handle is another's there: {other:?}");
        assert!(other.iter().all(|told| !told.contains("Mind that")), "{other:?}");
        assert!(own[3].starts_with("recall:") && other[3].starts_with("recall:"), "{other:?}");
    }
}

#[tokio::test]
async fn who_asks_with_another_key_gets_nothing_back_that_was_kept() {
    for dialect in DIALECTS {
        for is_same in [true, false] {
            let server = model(move |number, body| match number {
                0 => {
                    let calls = [("c1", "read", json!({})), ("c2", "recall", look_up(body))];
                    step(dialect, "a", "", &calls, (2_000, 10))
                }
                _ => step(dialect, "b", "Done.", &[], (2_500, 5)),
            })
            .await;
            let (gateway, mut messages) = (injecting(&server, dialect), conversation());
            body(gateway.answer(call(dialect, &messages, true)).await).await;
            messages.extend(resent(dialect, "", &[("c1", "read", json!({}))], "the file"));
            let mut asked = call(dialect, &messages, true);
            if !is_same {
                asked.headers.insert("authorization", "Bearer another".parse().unwrap());
            }
            body(gateway.answer(asked).await).await;
            let next = sent(&server).pop().unwrap();
            check(dialect, &next);
            let expected: &[&str] = if is_same { &["c1", "c2"] } else { &["c1"] };
            assert_eq!(call_ids(dialect, &next), expected, "{dialect:?}");
        }
    }
}

/// What looks like our words and is a person's is not touched, whatever is edited and however often.
#[tokio::test]
async fn handles_that_a_person_has_written_stay_as_they_are() {
    let dialect = Dialect::Chat;
    let quoted = "[2 earlier messages were removed here to make room: lh:900-901]";
    let server = model(move |_, _| step(dialect, "a", "fine", &[], (0, 0))).await;
    let gateway = injecting(&server, dialect);
    let (mut messages, mut edits) = (Vec::new(), 0);
    for turn in 0..40 {
        messages.push(user(format!("{}\n{quoted}", words(100, turn))));
        let reply = gateway.answer(call(dialect, &messages, true)).await;
        edits += usize::from(matches!(header(&reply, "x-longhaul-action"), "pruned" | "compacted"));
        body(reply).await;
        messages.push(assistant(quoted));
        let request = sent(&server).pop().unwrap();
        let items = request["messages"].as_array().unwrap();
        let newest = items.last().unwrap()["content"].as_str().unwrap();
        assert!(newest.ends_with(quoted), "{newest}");
        let said = request["messages"].to_string();
        assert_eq!(said.matches("lh:9").count(), said.matches("lh:900-901").count(), "turn {turn}");
    }
    assert!(edits > 1, "{edits}");
}
