//! `previous_response_id` where the model's server keeps no answers.

use std::time::Duration;

use axum::http::StatusCode;
use longhaul_gateway::{ClientRequest, Gateway, GatewayOptions, UpstreamOptions};
use longhaul_providers::connect::Kind;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{events, upstream};
use crate::upstream::*;

fn call(body: &Value) -> ClientRequest {
    ClientRequest { dialect: Dialect::Responses, ..chat(body.to_string()) }
}

/// One request and its answer's id and text, streamed or whole.
async fn ask(gateway: &Gateway, body: Value) -> (String, String) {
    let reply = gateway.answer(call(&body)).await;
    assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.headers);
    let response = match body["stream"] == true {
        true => {
            let out = crate::upstream::body(reply).await;
            let (_, events) = crate::model::read(Dialect::Responses, &out);
            events.last().unwrap()["response"].clone()
        }
        false => body_json(reply).await,
    };
    let text = response["output"][0]["content"][0]["text"].as_str().unwrap().to_owned();
    (response["id"].as_str().unwrap().to_owned(), text)
}

/// What of a request was said, by whom.
fn said_in(sent: &ReceivedRequest, list: &str) -> Vec<(String, String)> {
    let items = sent.json()[list].as_array().unwrap().clone();
    let one = |item: &Value| (item["role"].as_str().unwrap().to_owned(), crate::model::text_of(item));
    items.iter().map(one).collect()
}

fn expected() -> Vec<(String, String)> {
    [
        ("user", "I am Ada."),
        ("assistant", "answer 0"),
        ("user", "And this is Bob."),
        ("assistant", "answer 1"),
        ("user", "Who are we?"),
    ]
    .map(|(role, text)| (role.to_owned(), text.to_owned()))
    .to_vec()
}

/// A client that sends only what is new.
async fn three_turns(gateway: &Gateway, streams: bool) {
    let (first, _) = ask(gateway, json!({ "model": "m", "stream": streams, "input": "I am Ada." })).await;
    let input = json!([{ "role": "user", "content": "And this is Bob." }]);
    let body = json!({ "model": "m", "stream": streams, "input": input, "previous_response_id": first });
    let (second, _) = ask(gateway, body).await;
    let body = json!({ "model": "m", "stream": streams, "previous_response_id": second, "input": "Who are we?", "metadata": { "k": "v" } });
    ask(gateway, body).await;
}

#[tokio::test]
async fn a_server_of_chat_is_sent_the_whole_conversation() {
    for streams in [false, true] {
        let server = start_upstream(|number, _| {
            UpstreamAnswer::Events(streamed("a", &format!("answer {number}"), Some((9, 2))), Duration::ZERO)
        })
        .await;
        three_turns(&server.gateway(8_000), streams).await;
        assert_eq!(said_in(&server.received()[2], "messages"), expected(), "streams: {streams}");
    }
}

#[tokio::test]
async fn a_server_of_responses_that_keeps_nothing_is_too() {
    for streams in [false, true] {
        let server = start_upstream(move |number, body| {
            let (id, text) = (format!("resp_{number}"), format!("answer {number}"));
            let events = events(Dialect::Responses, &id, &text, (9, 2));
            match body["stream"] == true {
                true => UpstreamAnswer::Events(events, Duration::ZERO),
                false => {
                    let last = events.last().unwrap().split_once("data: ").unwrap().1;
                    let last: Value = serde_json::from_str(last.trim()).unwrap();
                    UpstreamAnswer::Json(200, last["response"].clone())
                }
            }
        })
        .await;
        let gateway = gateway(waiting(vec![upstream(&server, Dialect::Responses, 8_000, false)]));
        three_turns(&gateway, streams).await;
        let sent = server.received().pop().unwrap();
        assert_eq!(said_in(&sent, "input"), expected(), "streams: {streams}");
        let sent = sent.json();
        assert!(sent.get("previous_response_id").is_none(), "{sent}");
        assert_eq!(sent["metadata"]["k"], "v");
    }
}

#[tokio::test]
async fn what_goes_on_from_one_answer_may_branch() {
    let server = start_upstream(|number, _| {
        UpstreamAnswer::Events(streamed("a", &format!("answer {number}"), Some((9, 2))), Duration::ZERO)
    })
    .await;
    let gateway = server.gateway(8_000);
    let (first, _) = ask(&gateway, json!({ "model": "m", "input": "one" })).await;
    for branch in ["two", "three"] {
        ask(&gateway, json!({ "model": "m", "input": branch, "previous_response_id": first })).await;
        let said = said_in(&server.received().pop().unwrap(), "messages");
        assert_eq!(
            said.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
            ["one", "answer 0", branch]
        );
    }
}

#[tokio::test]
async fn an_answer_that_is_not_known_is_named() {
    let server =
        start_upstream(|_, _| UpstreamAnswer::Events(streamed("a", "yes", Some((9, 2))), Duration::ZERO))
            .await;
    let gateway = server.gateway(8_000);
    let (kept, _) = ask(&gateway, json!({ "model": "m", "input": "hi" })).await;
    let (unkept, _) = ask(&gateway, json!({ "model": "m", "input": "hi", "store": false })).await;
    let before = server.received().len();
    let mut other = call(&json!({ "model": "m", "input": "and?", "previous_response_id": kept }));
    other.headers.insert("authorization", "Bearer somebody-else".parse().unwrap());
    let calls = [
        call(&json!({ "model": "m", "input": "and?", "previous_response_id": "resp_unknown" })),
        call(&json!({ "model": "m", "input": "and?", "previous_response_id": unkept })),
        other,
    ];
    for call in calls {
        let reply = gateway.answer(call).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
        let error = body_json(reply).await["error"].clone();
        assert_eq!(error["code"], "previous_response_not_found", "{error}");
        assert_eq!(
            (&error["type"], &error["param"]),
            (&json!("invalid_request_error"), &json!("previous_response_id"))
        );
        assert!(
            error["message"].as_str().unwrap().starts_with("Previous response with id 'resp_"),
            "{error}"
        );
    }
    assert_eq!(server.received().len(), before, "none of them was sent");
}

#[tokio::test]
async fn a_conversation_of_openais_is_refused_by_every_other_server() {
    for speaks in [Dialect::Responses, Dialect::Chat] {
        let server =
            start_upstream(|_, _| UpstreamAnswer::Events(streamed("a", "yes", Some((9, 2))), Duration::ZERO))
                .await;
        let gateway = gateway(waiting(vec![upstream(&server, speaks, 8_000, false)]));
        let reply =
            gateway.answer(call(&json!({ "model": "m", "input": "hi", "conversation": "conv_1" }))).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{speaks:?}");
        let error = body_json(reply).await["error"].clone();
        assert_eq!(
            (&error["type"], &error["param"]),
            (&json!("invalid_request_error"), &json!("conversation"))
        );
        assert!(
            error["message"].as_str().unwrap().starts_with("`conversation` cannot be followed"),
            "{error}"
        );
        assert!(server.received().is_empty(), "it was not sent");
    }
}

#[tokio::test]
async fn openais_own_server_keeps_its_answers_itself() {
    let server = start_upstream(|_, _| {
        UpstreamAnswer::Json(
            200,
            json!({ "id": "resp_9", "object": "response", "status": "completed", "output": [] }),
        )
    })
    .await;
    let mut upstream = UpstreamOptions::new("openai", Kind::OpenAi, server.url("/v1"));
    upstream.endpoint.declared = server.upstream(8_000).endpoint.declared;
    let gateway = gateway(waiting(vec![upstream]));
    let body = json!({ "model": "m", "input": "and?", "previous_response_id": "resp_theirs" });
    gateway.answer(call(&body)).await;
    assert_eq!(server.received()[0].body, body.to_string().as_bytes());
}

#[tokio::test]
async fn what_openai_keeps_goes_to_nobody_else() {
    let answer = json!({ "id": "resp_9", "object": "response", "status": "completed", "output": [] });
    for (status, is_first) in [(200, true), (200, false), (503, true), (503, false)] {
        let answer = answer.clone();
        let openai = start_upstream(move |_, _| UpstreamAnswer::Json(status, answer.clone())).await;
        let other = start_upstream(|_, _| {
            UpstreamAnswer::Json(
                200,
                json!({ "id": "r", "object": "response", "status": "completed", "output": [] }),
            )
        })
        .await;
        let mut own = UpstreamOptions::new("openai", Kind::OpenAi, openai.url("/v1"));
        own.endpoint.declared = openai.upstream(8_000).endpoint.declared;
        let others = [Dialect::Responses, Dialect::Chat].map(|speaks| upstream(&other, speaks, 8_000, false));
        let mut upstreams = others.to_vec();
        upstreams.insert(if is_first { 0 } else { 2 }, own);
        let gateway = gateway(GatewayOptions { attempts: 1, ..waiting(upstreams) });
        for (name, value) in
            [("conversation", json!({ "id": "conv_1" })), ("previous_response_id", json!("resp_1"))]
        {
            let mut body = json!({ "model": "m", "input": "and?" });
            body[name] = value;
            let reply = gateway.answer(call(&body)).await;
            assert_eq!((reply.status.as_u16(), header(&reply, "x-longhaul-upstream")), (status, "openai"));
            assert_eq!(
                openai.received().last().unwrap().body,
                body.to_string().as_bytes(),
                "as it was written"
            );
            assert!(other.received().is_empty(), "{name}");
        }
        if !is_first {
            gateway.answer(call(&json!({ "model": "m", "input": "hi" }))).await;
            assert_eq!(other.received().len(), 1, "what is whole goes to anybody");
        }
    }
}
