//! Parts that an upstream refuses: the client gets an answer and is told, and they are not sent again.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use longhaul_core::attempt::RetryPolicy;
use longhaul_core::message::ModelStopReason;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::strategy::TruncationStrategy;
use longhaul_gateway::{ClientRequest, GatewayOptions};
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{events, read, upstream as speaking};
use crate::upstream::*;

const DIALECTS: [Dialect; 3] = [Dialect::Chat, Dialect::Messages, Dialect::Responses];

/// Two pictures that differ in their last bytes; the upstream refuses the first only.
const BROKEN: &str = "iVBORw0KGgpicm9rZW4gb25l";
const GOOD: &str = "iVBORw0KGgpzb3VuZCBvbmUh";

/// An upstream of Chat Completions that names the place of a picture which it refuses.
async fn particular() -> ScriptedUpstream {
    start_upstream(|_, body| {
        let messages = body["messages"].as_array().unwrap();
        let refused = messages.iter().enumerate().find_map(|(number, message)| {
            let parts = message["content"].as_array()?;
            let place = parts.iter().position(|part| part.to_string().contains(BROKEN))?;
            Some(format!("messages.{number}.content.{place}"))
        });
        match refused {
            Some(place) => {
                let words = format!("{place}: Could not process image");
                UpstreamAnswer::Json(
                    400,
                    json!({ "error": { "message": words, "type": "invalid_request_error" } }),
                )
            }
            None if body["stream"] == true => {
                UpstreamAnswer::Events(streamed("a", "it is a dog", Some((20, 4))), Duration::ZERO)
            }
            None => UpstreamAnswer::Json(200, said("it is a dog", 20, 4)),
        }
    })
    .await
}

fn text(dialect: Dialect, said: &str) -> Value {
    json!({ "type": if dialect == Dialect::Responses { "input_text" } else { "text" }, "text": said })
}

fn picture(dialect: Dialect, data: &str) -> Value {
    let address = format!("data:image/png;base64,{data}");
    match dialect {
        Dialect::Chat => json!({ "type": "image_url", "image_url": { "url": address } }),
        Dialect::Messages => json!({
            "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": data },
        }),
        Dialect::Responses => json!({ "type": "input_image", "image_url": address }),
    }
}

fn call(dialect: Dialect, items: &[Value], stream: bool) -> ClientRequest {
    let mut body = json!({ "model": "m", "stream": stream });
    body[crate::model::list(dialect)] = json!(items);
    if dialect == Dialect::Messages {
        body["max_tokens"] = json!(500);
    }
    ClientRequest { dialect, ..chat(body.to_string()) }
}

/// What the client is told.
fn said_in(dialect: Dialect, stream: bool, out: &[u8]) -> String {
    if stream {
        return read(dialect, out).0.text;
    }
    let answer: Value = serde_json::from_slice(out).unwrap();
    let said = match dialect {
        Dialect::Chat => &answer["choices"][0]["message"]["content"],
        Dialect::Messages => &answer["content"][0]["text"],
        Dialect::Responses => &answer["output"][0]["content"][0]["text"],
    };
    said.as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_refused_picture_does_not_end_a_conversation() {
    for dialect in DIALECTS {
        for stream in [false, true] {
            let server = particular().await;
            let gateway = server.gateway(20_000);
            let content = json!([text(dialect, "see"), picture(dialect, BROKEN), picture(dialect, GOOD)]);
            let mut items = vec![json!({ "role": "user", "content": content })];
            let reply = gateway.answer(call(dialect, &items, stream)).await;
            let case = format!("{dialect:?}, streamed: {stream}");
            assert_eq!(reply.status, StatusCode::OK, "{case}");
            assert_eq!(header(&reply, "x-longhaul-omitted"), "1", "{case}");
            assert_eq!(said_in(dialect, stream, &body(reply).await), "it is a dog", "{case}");
            let sent = server.received();
            assert_eq!(sent.len(), 2, "{case}: refused once, then answered");
            let again = String::from_utf8_lossy(&sent[1].body).into_owned();
            assert!(
                again.contains("Left out: a picture") && again.contains("Could not process image"),
                "{case}: {again}"
            );
            assert!(again.contains(GOOD), "{case}: only the one that is named goes");

            // The client sends its whole history again.
            items.extend([assistant("it is a dog"), user("and its name?")]);
            let reply = gateway.answer(call(dialect, &items, stream)).await;
            assert_eq!((reply.status, header(&reply, "x-longhaul-omitted")), (StatusCode::OK, "1"), "{case}");
            body(reply).await;
            let sent = server.received();
            assert_eq!(sent.len(), 3, "{case}: it is not refused a second time");
            let next = String::from_utf8_lossy(&sent[2].body).into_owned();
            assert!(!next.contains(BROKEN) && next.contains(GOOD), "{case}: {next}");
        }
    }
}

#[tokio::test]
async fn whoever_sends_nothing_refused_is_told_of_nothing() {
    let server = particular().await;
    let gateway = server.gateway(20_000);
    for dialect in DIALECTS {
        let content = json!([text(dialect, "see"), picture(dialect, GOOD)]);
        let items = [json!({ "role": "user", "content": content })];
        let reply = gateway.answer(call(dialect, &items, false)).await;
        assert_eq!((reply.status, header(&reply, "x-longhaul-omitted")), (StatusCode::OK, ""), "{dialect:?}");
    }
}

/// A server that refuses requests which contain `poison`, with this error.
async fn refusing(dialect: Dialect, poison: &'static str, error: &'static str) -> ScriptedUpstream {
    start_upstream(move |number, body| match body.to_string().contains(poison) {
        true => UpstreamAnswer::Json(
            400,
            json!({ "error": { "message": error, "type": "invalid_request_error" } }),
        ),
        false => UpstreamAnswer::Events(
            events(dialect, &format!("id{number}"), "it goes on", (40, 3)),
            Duration::ZERO,
        ),
    })
    .await
}

/// A conversation with reasoning, a call and its result, and the tools of the request.
fn worked(dialect: Dialect) -> (Vec<Value>, Value) {
    let schema = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } } });
    match dialect {
        Dialect::Chat => {
            let function = json!({ "name": "read", "arguments": "{}" });
            let calls = json!([{ "id": "c1", "type": "function", "function": function }]);
            let tool = |name: &str| json!({ "type": "function", "function": { "name": name, "parameters": schema(name) } });
            let items = vec![
                user("go"),
                json!({ "role": "assistant", "content": null, "reasoning_content": "old thoughts", "tool_calls": calls }),
                json!({ "role": "tool", "tool_call_id": "c1", "content": "forbidden words" }),
            ];
            (items, json!([tool("read"), tool("odd")]))
        }
        Dialect::Messages => {
            let thought =
                json!({ "type": "thinking", "thinking": "old thoughts", "signature": "sig-of-another" });
            let call = json!({ "type": "tool_use", "id": "c1", "name": "read", "input": {} });
            let result = json!({ "type": "tool_result", "tool_use_id": "c1", "content": "forbidden words" });
            let tool = |name: &str| json!({ "name": name, "input_schema": schema(name) });
            let items = vec![
                user("go"),
                json!({ "role": "assistant", "content": [thought, call] }),
                json!({ "role": "user", "content": [result] }),
            ];
            (items, json!([tool("read"), tool("odd")]))
        }
        Dialect::Responses => {
            let tool = |name: &str| json!({ "type": "function", "name": name, "parameters": schema(name) });
            let items = vec![
                user("go"),
                json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "old thoughts" }),
                json!({ "type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}" }),
                json!({ "type": "function_call_output", "call_id": "c1", "output": "forbidden words" }),
            ];
            (items, json!([tool("read"), tool("odd")]))
        }
    }
}

#[tokio::test]
async fn reasoning_results_and_tools_that_are_refused_do_not_end_a_conversation() {
    let cases = [
        (
            "old thoughts",
            "Invalid `signature` in `thinking` block",
            "invalid_encrypted_content: could not be verified",
        ),
        (
            "forbidden words",
            "Output blocked by content filtering policy",
            "Output blocked by content filtering policy",
        ),
        (
            "\"odd\"",
            "Invalid schema for function 'odd': not supported",
            "Invalid schema for function 'odd': not supported",
        ),
    ];
    for dialect in DIALECTS {
        for (poison, of_messages, of_others) in cases {
            let error = if dialect == Dialect::Messages { of_messages } else { of_others };
            let server = refusing(dialect, poison, error).await;
            let gateway = gateway(waiting(vec![speaking(&server, dialect, 20_000, false)]));
            let (mut items, tools) = worked(dialect);
            for round in 0..2 {
                let mut asked = crate::model::call(dialect, &items, true);
                let mut fields: Value = serde_json::from_slice(&asked.body).unwrap();
                fields["tools"] = tools.clone();
                asked.body = fields.to_string().into();
                let reply = gateway.answer(asked).await;
                let omitted = header(&reply, "x-longhaul-omitted").to_owned();
                let out = body(reply).await;
                let case = format!("{dialect:?}, {poison}, round {round}: {}", String::from_utf8_lossy(&out));
                assert_eq!(read(dialect, &out).0.text, "it goes on", "{case}");
                assert_eq!(omitted, "1", "{case}");
                items.extend([assistant("it goes on"), user("more")]);
            }
            assert_eq!(server.received().len(), 3, "{dialect:?}, {poison}: refused once");
        }
    }
}

#[tokio::test]
async fn what_a_person_has_written_is_not_left_out() {
    for dialect in DIALECTS {
        let server = refusing(dialect, "forbidden", "Output blocked by content filtering policy").await;
        let gateway = gateway(waiting(vec![speaking(&server, dialect, 20_000, false)]));
        let reply = gateway.answer(crate::model::call(dialect, &[user("forbidden")], true)).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{dialect:?}");
        assert_eq!(server.received().len(), 1, "{dialect:?}");
    }
}

#[tokio::test]
async fn two_bad_results_that_the_error_does_not_name_are_left_out_together() {
    for dialect in [Dialect::Chat, Dialect::Responses] {
        let server = refusing(dialect, "forbidden", "Bad Request").await;
        let gateway = gateway(waiting(vec![speaking(&server, dialect, 20_000, false)]));
        let mut items = worked(dialect).0;
        let again = items[1..].to_vec();
        let renamed = serde_json::to_string(&again).unwrap().replace("c1", "c2").replace("rs_1", "rs_2");
        // Equal results count as one part.
        let renamed = renamed.replace("forbidden words", "forbidden numbers");
        // Two calls of one answer, and both results behind it.
        let (calls, results): (Vec<Value>, Vec<Value>) = again
            .into_iter()
            .chain(serde_json::from_str::<Vec<Value>>(&renamed).unwrap())
            .partition(|item| !item.to_string().contains("forbidden"));
        items.truncate(1);
        items.extend(calls.into_iter().chain(results));
        let reply = gateway.answer(crate::model::call(dialect, &items, true)).await;
        assert_eq!(reply.status, StatusCode::OK, "{dialect:?}");
        assert_eq!(header(&reply, "x-longhaul-omitted"), "2", "{dialect:?}");
        let out = body(reply).await;
        assert_eq!(read(dialect, &out).0.text, "it goes on", "{dialect:?}");
        assert_eq!(server.received().len(), 4, "{dialect:?}: unchanged, the newest result alone, then both");
    }
}

/// Words of a refusal that no table knows.
const UNKNOWN_WORDS: &str = "kérés elutasítva";

#[tokio::test]
async fn reasoning_that_the_error_does_not_name_is_left_out_alone() {
    for dialect in DIALECTS {
        let server = refusing(dialect, "old thoughts", UNKNOWN_WORDS).await;
        let gateway = gateway(waiting(vec![speaking(&server, dialect, 20_000, false)]));
        let mut items = worked(dialect).0;
        for requests in [3, 4] {
            let reply = gateway.answer(crate::model::call(dialect, &items, true)).await;
            assert_eq!(
                (reply.status, header(&reply, "x-longhaul-omitted")),
                (StatusCode::OK, "1"),
                "{dialect:?}"
            );
            assert_eq!(read(dialect, &body(reply).await).0.text, "it goes on", "{dialect:?}");
            let sent = server.received();
            assert_eq!(sent.len(), requests, "{dialect:?}: the result, then the reasoning, then it is known");
            let newest = String::from_utf8_lossy(&sent[requests - 1].body).into_owned();
            assert!(newest.contains("forbidden words"), "{dialect:?}: the result is sent again: {newest}");
            items.extend([assistant("it goes on"), user("more")]);
        }
    }
}

#[tokio::test]
async fn a_foreign_tool_that_the_error_does_not_name_is_left_out() {
    for dialect in DIALECTS {
        let server = refusing(dialect, "mcp__x__odd", UNKNOWN_WORDS).await;
        let gateway = gateway(waiting(vec![speaking(&server, dialect, 20_000, false)]));
        let mut asked = crate::model::call(dialect, &[user("hi")], true);
        let mut fields: Value = serde_json::from_slice(&asked.body).unwrap();
        fields["tools"] =
            serde_json::from_str(&worked(dialect).1.to_string().replace("\"odd\"", "\"mcp__x__odd\""))
                .unwrap();
        asked.body = fields.to_string().into();
        let reply = gateway.answer(asked).await;
        assert_eq!(
            (reply.status, header(&reply, "x-longhaul-omitted")),
            (StatusCode::OK, "1"),
            "{dialect:?}"
        );
        let newest = String::from_utf8_lossy(&server.received()[1].body).into_owned();
        assert!(newest.contains("\"read\""), "{dialect:?}: the client's own tool stays: {newest}");
    }
}

#[tokio::test]
async fn a_refused_signature_of_a_call_does_not_end_a_conversation() {
    let google = json!({ "google": { "thought_signature": "sig-of-another" } });
    let function = json!({ "name": "read", "arguments": "{}" });
    let calls = json!([{ "id": "c1", "type": "function", "function": function, "extra_content": google }]);
    let items = [
        user("go"),
        json!({ "role": "assistant", "content": null, "tool_calls": calls }),
        json!({ "role": "tool", "tool_call_id": "c1", "content": "forbidden words" }),
    ];
    for (words, requests) in [("Thought signature is not valid", 2), (UNKNOWN_WORDS, 3)] {
        let server = refusing(Dialect::Chat, "sig-of-another", words).await;
        let gateway = gateway(waiting(vec![speaking(&server, Dialect::Chat, 20_000, false)]));
        let reply = gateway.answer(crate::model::call(Dialect::Chat, &items, true)).await;
        assert_eq!((reply.status, header(&reply, "x-longhaul-omitted")), (StatusCode::OK, "1"), "{words}");
        let sent = server.received();
        assert_eq!(sent.len(), requests, "{words}");
        let newest = String::from_utf8_lossy(&sent[requests - 1].body).into_owned();
        assert!(
            newest.contains("skip_thought_signature_validator") && newest.contains("forbidden words"),
            "{words}: {newest}"
        );
    }
}

#[tokio::test]
async fn a_refusal_that_names_nothing_is_taken_for_an_overflow_once_the_conversation_has_grown() {
    for dialect in DIALECTS {
        let server = start_upstream(move |number, body| {
            match body[crate::model::list(dialect)].to_string().split(' ').count() {
                size if size > 2_500 => {
                    UpstreamAnswer::Json(400, json!({ "error": { "message": UNKNOWN_WORDS } }))
                }
                _ => UpstreamAnswer::Events(
                    events(dialect, &format!("id{number}"), "it goes on", (1_700, 3)),
                    Duration::ZERO,
                ),
            }
        })
        .await;
        let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
        let upstream = speaking(&server, dialect, 30_000, false);
        let gateway = gateway(GatewayOptions { policy, ..waiting(vec![upstream]) });
        let mut items = crate::model::conversation(12);
        let reply = gateway.answer(crate::model::call(dialect, &items, true)).await;
        assert_eq!(reply.status, StatusCode::OK, "{dialect:?}");
        body(reply).await;
        gateway.settle().await;
        items.push(assistant("it goes on"));
        items.extend(crate::model::conversation(16));
        let reply = gateway.answer(crate::model::call(dialect, &items, true)).await;
        let action = header(&reply, "x-longhaul-action").to_owned();
        assert_eq!((reply.status, action.as_str()), (StatusCode::OK, "compacted"), "{dialect:?}");
        assert_eq!(read(dialect, &body(reply).await).0.text, "it goes on", "{dialect:?}");
        // Nothing shows that a first request is too long.
        let strange = [user(words(3_000, 5))];
        let reply = gateway.answer(crate::model::call(dialect, &strange, true)).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{dialect:?}");
        assert!(String::from_utf8_lossy(&body(reply).await).contains(UNKNOWN_WORDS), "{dialect:?}");
    }
}

/// A call of a tool and its result, in Chat Completions.
fn step(id: &str, result: &str) -> [Value; 2] {
    let function = json!({ "name": "read", "arguments": "{}" });
    let calls = json!([{ "id": id, "type": "function", "function": function }]);
    [
        json!({ "role": "assistant", "content": null, "tool_calls": calls }),
        json!({ "role": "tool", "tool_call_id": id, "content": result }),
    ]
}

#[tokio::test]
async fn a_large_request_is_made_shorter_before_all_results_are_left_out() {
    let server = start_upstream(|number, body| match body["messages"].to_string().split(' ').count() {
        size if size > 2_500 => UpstreamAnswer::Json(400, json!({ "error": { "message": UNKNOWN_WORDS } })),
        _ => UpstreamAnswer::Events(
            events(Dialect::Chat, &format!("id{number}"), "it goes on", (1_700, 3)),
            Duration::ZERO,
        ),
    })
    .await;
    let policy = CompactionPolicy::new(Arc::new(TruncationStrategy::default()));
    let upstream = speaking(&server, Dialect::Chat, 30_000, false);
    let gateway = gateway(GatewayOptions { policy, ..waiting(vec![upstream]) });
    let mut items = Vec::new();
    for turn in 0..8 {
        items.push(user(format!("turn {turn}")));
        items.extend(step(&format!("c{turn}"), &format!("result{turn} {}", words(400, turn))));
        items.push(assistant("so it is"));
    }
    items.push(user("go"));
    items.extend(step("newest", &format!("newest {}", words(100, 3))));
    let reply = gateway.answer(crate::model::call(Dialect::Chat, &items, true)).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(header(&reply, "x-longhaul-omitted"), "", "no result is blanked");
    assert_eq!(read(Dialect::Chat, &body(reply).await).0.text, "it goes on");
    let last = String::from_utf8(server.received().last().unwrap().body.to_vec()).unwrap();
    assert!(last.contains(&words(100, 3)), "{last}");
}

#[tokio::test]
async fn a_filter_that_reacts_to_an_older_result_does_not_end_a_conversation() {
    let server = refusing(Dialect::Chat, "forbidden", "Output blocked by content filtering policy").await;
    let gateway = gateway(waiting(vec![speaking(&server, Dialect::Chat, 20_000, false)]));
    let mut items = vec![user("go")];
    items.extend(step("c1", "forbidden words"));
    items.extend(step("c2", "fine words"));
    for requests in [3, 4] {
        let reply = gateway.answer(crate::model::call(Dialect::Chat, &items, true)).await;
        assert_eq!((reply.status, header(&reply, "x-longhaul-omitted")), (StatusCode::OK, "1"));
        body(reply).await;
        let received = server.received();
        assert_eq!(received.len(), requests);
        let last = String::from_utf8(received.last().unwrap().body.to_vec()).unwrap();
        assert!(last.contains("fine words"), "the newest result comes back: {last}");
    }
}

#[tokio::test]
async fn errors_about_the_key_the_model_or_the_account_leave_nothing_out() {
    for error in [
        "API key not valid. Please pass a valid API key.",
        "model x does not exist",
        "This organization has been disabled.",
        "User location is not supported for the API use.",
    ] {
        let server = refusing(Dialect::Chat, "go", error).await;
        let gateway = gateway(waiting(vec![speaking(&server, Dialect::Chat, 20_000, false)]));
        let items = worked(Dialect::Chat).0;
        let reply = gateway.answer(crate::model::call(Dialect::Chat, &items, true)).await;
        let omitted = header(&reply, "x-longhaul-omitted").to_owned();
        assert_eq!((reply.status, omitted.as_str()), (StatusCode::BAD_REQUEST, ""), "{error}");
        assert_eq!(server.received().len(), 1, "{error}: asked once");
    }
}

/// Lets minutes pass for the gateway.
async fn pass_minutes(minutes: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(60 * minutes)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_part_that_was_left_out_on_a_guess_is_tried_again_later() {
    let server = start_upstream(|number, _| match number {
        0 => UpstreamAnswer::Json(400, json!({ "error": { "message": UNKNOWN_WORDS } })),
        _ => UpstreamAnswer::Events(
            events(Dialect::Chat, &format!("id{number}"), "it goes on", (40, 3)),
            Duration::ZERO,
        ),
    })
    .await;
    let gateway = gateway(waiting(vec![speaking(&server, Dialect::Chat, 20_000, false)]));
    let items = worked(Dialect::Chat).0;
    for (minutes, omitted, requests) in [(0, "1", 2), (5, "1", 3), (6, "", 4)] {
        pass_minutes(minutes).await;
        let reply = gateway.answer(crate::model::call(Dialect::Chat, &items, true)).await;
        assert_eq!((reply.status, header(&reply, "x-longhaul-omitted")), (StatusCode::OK, omitted));
        body(reply).await;
        assert_eq!(server.received().len(), requests);
    }
}

#[tokio::test]
async fn a_part_that_is_refused_again_after_a_guess_is_left_out_for_good() {
    let server = refusing(Dialect::Chat, "forbidden", UNKNOWN_WORDS).await;
    let gateway = gateway(waiting(vec![speaking(&server, Dialect::Chat, 20_000, false)]));
    let mut items = worked(Dialect::Chat).0;
    for requests in [2, 4, 5] {
        let reply = gateway.answer(crate::model::call(Dialect::Chat, &items, true)).await;
        assert_eq!((reply.status, header(&reply, "x-longhaul-omitted")), (StatusCode::OK, "1"));
        body(reply).await;
        assert_eq!(server.received().len(), requests);
        // Newer results are not suspected before the old one.
        items.extend(step(&format!("after{requests}"), &format!("fine words {requests}")));
        pass_minutes(11).await;
    }
    let last = String::from_utf8(server.received().last().unwrap().body.to_vec()).unwrap();
    assert!(last.contains("fine words 2") && last.contains("fine words 4"), "{last}");
}

#[tokio::test]
async fn a_refusal_that_persists_is_passed_on_and_leaves_nothing_out_later() {
    let server = refusing(Dialect::Chat, "go", "Bad Request").await;
    let gateway = gateway(waiting(vec![speaking(&server, Dialect::Chat, 20_000, false)]));
    let ask = || gateway.answer(crate::model::call(Dialect::Chat, &worked(Dialect::Chat).0, true));
    assert_eq!(ask().await.status, StatusCode::BAD_REQUEST);
    let tries = server.received().len();
    // One repetition of the same request comes before the guesses.
    assert!((3..=5).contains(&tries), "{tries}");
    assert_eq!(ask().await.status, StatusCode::BAD_REQUEST);
    let again = String::from_utf8(server.received()[tries].body.to_vec()).unwrap();
    assert!(again.contains("forbidden words"), "a guess that did not help is not remembered: {again}");
}

/// The events of an answer that a filter withholds as a whole.
fn withheld(dialect: Dialect) -> Vec<String> {
    let mut all = events(dialect, "w", "", (40, 0));
    // Of the text nothing is left but the end.
    all.retain(|event| {
        ["content_block", "output_item", "content_part", "output_text"]
            .iter()
            .all(|kind| !event.contains(kind))
            || event.contains("response.completed")
    });
    let changed = |event: String| match dialect {
        Dialect::Chat => event.replace("\"stop\"", "\"content_filter\""),
        Dialect::Messages => event.replace("\"end_turn\"", "\"refusal\""),
        Dialect::Responses if event.contains("response.completed") => {
            let response = json!({ "id": "w", "object": "response", "status": "incomplete", "model": "m",
                "incomplete_details": { "reason": "content_filter" }, "output": [] });
            let end = json!({ "type": "response.incomplete", "response": response });
            format!("event: response.incomplete\ndata: {end}\n\n")
        }
        Dialect::Responses => event,
    };
    all.into_iter().map(changed).collect()
}

#[tokio::test]
async fn a_withheld_answer_is_asked_for_again_without_the_newest_result() {
    let translated = [
        (Dialect::Messages, Dialect::Chat),
        (Dialect::Responses, Dialect::Chat),
        (Dialect::Chat, Dialect::Messages),
    ];
    for (asks, speaks) in DIALECTS.map(|dialect| (dialect, dialect)).into_iter().chain(translated) {
        for stream in [true, false] {
            let server = start_upstream(move |number, body| {
                let events = match body.to_string().contains("forbidden") {
                    true => withheld(speaks),
                    false => events(speaks, &format!("id{number}"), "it goes on", (40, 3)),
                };
                match body["stream"] == true {
                    true => UpstreamAnswer::Events(events, Duration::ZERO),
                    false => crate::recall::whole(speaks, events),
                }
            })
            .await;
            let upstream = match asks == speaks {
                true => speaking(&server, speaks, 20_000, false),
                false => crate::across::upstream(&server, speaks, 20_000, false),
            };
            let retry = RetryPolicy { max_delay_ms: 10, ..RetryPolicy::default() };
            let gateway = gateway(GatewayOptions { retry, ..waiting(vec![upstream]) });
            let (mut items, tools) = worked(asks);
            if asks != Dialect::Messages {
                // Reasoning of another provider would be refused for itself.
                items.retain(|item| item["type"] != "reasoning");
            }
            let mut asked = call(asks, &items, stream);
            let mut fields: Value = serde_json::from_slice(&asked.body).unwrap();
            fields["tools"] = tools;
            asked.body = fields.to_string().into();
            let reply = gateway.answer(asked).await;
            let case = format!("{asks:?} to {speaks:?}, stream: {stream}");
            assert_eq!((reply.status, header(&reply, "x-longhaul-omitted")), (StatusCode::OK, "1"), "{case}");
            assert_eq!(said_in(asks, stream, &body(reply).await), "it goes on", "{case}");
            assert_eq!(server.received().len(), 2, "{case}");
        }
    }
}

#[tokio::test]
async fn a_withheld_answer_to_a_persons_words_is_passed_on() {
    for dialect in DIALECTS {
        let server =
            start_upstream(move |_, _| UpstreamAnswer::Events(withheld(dialect), Duration::ZERO)).await;
        let gateway = gateway(waiting(vec![speaking(&server, dialect, 20_000, false)]));
        let reply = gateway.answer(call(dialect, &[user("forbidden")], true)).await;
        assert_eq!(reply.status, StatusCode::OK, "{dialect:?}");
        let seen = read(dialect, &body(reply).await).0;
        assert_eq!(seen.finish, Some(ModelStopReason::ContentFilter), "{dialect:?}");
        assert_eq!(server.received().len(), 1, "{dialect:?}");
    }
}
