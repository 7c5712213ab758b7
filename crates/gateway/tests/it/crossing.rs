//! A client of one dialect before an upstream of another.

use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::message::Finish;
use longhaul_gateway::wire::{Dialect, Event, Events, Wire};
use longhaul_gateway::{Call, Config};
use serde_json::{Value, json};

use crate::shortening::{is_summary_request, pruned};
use crate::upstream::*;

fn messages_call(body: &Value) -> Call {
    Call { dialect: Dialect::Messages, ..chat(body.to_string()) }
}

fn seen(out: &[u8]) -> longhaul_gateway::wire::Seen {
    let mut watcher = longhaul_gateway::wire::messages::Messages.watcher();
    let mut events = Events::default();
    events.feed(out.to_vec().into());
    while let Some(raw) = events.next_event() {
        watcher.read(&Event::parse(&raw));
    }
    watcher.seen().clone()
}

#[tokio::test]
async fn a_client_of_messages_is_answered_by_chat_completions() {
    let server =
        Server::start(|_, _| Does::Events(streamed("a", "hello there", Some((90, 3))), Duration::ZERO)).await;
    let gateway = server.gateway(8_000);
    let mut asked = json!({
        "model": "m", "max_tokens": 100, "system": "be brief",
        "tools": [{ "name": "ls", "description": "lists", "input_schema": { "type": "object" } }],
        "tool_choice": { "type": "any" },
        "messages": [
            user("hi"),
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "t1", "name": "ls", "input": {} }] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "t1", "content": "files" },
                { "type": "text", "text": "and?" }] },
        ],
    });
    let reply = gateway.answer(messages_call(&asked)).await;
    assert_eq!(reply.status, StatusCode::OK);
    let answer = body_json(reply).await;
    assert_eq!((&answer["type"], &answer["content"][0]["text"]), (&json!("message"), &json!("hello there")));
    assert_eq!((&answer["stop_reason"], &answer["usage"]["input_tokens"]), (&json!("end_turn"), &json!(90)));
    let sent = server.sent()[0].json();
    let roles: Vec<&str> =
        sent["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "user"]);
    assert_eq!(sent["messages"][3]["content"], "files");
    assert_eq!(
        (&sent["tool_choice"], &sent["tools"][0]["function"]["name"]),
        (&json!("required"), &json!("ls"))
    );
    asked["stream"] = json!(true);
    let reply = gateway.answer(messages_call(&asked)).await;
    assert_eq!(header(&reply, "content-type"), "text/event-stream");
    let seen = seen(&body(reply).await);
    assert_eq!((seen.text.as_str(), seen.finish, seen.over), ("hello there", Some(Finish::Stop), true));
}

#[tokio::test]
async fn it_is_shortened_too() {
    let server = Server::start(|_, body| match is_summary_request(body) {
        true => pruned(),
        false => Does::Events(streamed("a", "fine", Some((900, 3))), Duration::ZERO),
    })
    .await;
    let messages: Vec<Value> = (0..30)
        .map(|at| if at % 2 == 0 { user(words(90, at)) } else { assistant(words(90, at)) })
        .chain([user("go on")])
        .collect();
    let asked = json!({ "model": "m", "max_tokens": 100, "messages": messages });
    let reply = server.gateway(3_000).answer(messages_call(&asked)).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-action")), (StatusCode::OK, "compacted"));
    let sent = server.sent().last().unwrap().messages();
    assert!(sent.len() < 20 && sent[0]["content"].to_string().contains("[SUMMARY]"), "{sent:?}");
}

#[tokio::test]
async fn what_cannot_be_said_there_and_what_fails_there_is_an_error_in_the_callers_words() {
    let server = Server::start(|_, _| Does::Json(401, json!({ "error": { "message": "bad key" } }))).await;
    let gateway = gateway(Config::new(vec![server.upstream(8_000)]));
    let image =
        json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AAAA" } });
    let picture =
        json!({ "model": "m", "max_tokens": 9, "messages": [{ "role": "user", "content": [image] }] });
    let reply = gateway.answer(messages_call(&picture)).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    let error = body_json(reply).await;
    assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("invalid_request_error")));
    assert!(server.sent().is_empty());
    let plain = json!({ "model": "m", "max_tokens": 9, "messages": [user("hi")] });
    let reply = gateway.answer(messages_call(&plain)).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
    assert_eq!(body_json(reply).await["error"]["type"], "authentication_error");
}

#[tokio::test]
async fn an_upstream_that_speaks_the_callers_dialect_is_sent_the_callers_bytes() {
    for (dialect, path) in [(Dialect::Messages, "/v1/messages"), (Dialect::Responses, "/v1/responses")] {
        let server = Server::start(|_, body| match is_summary_request(body) {
            true => pruned(),
            false => Does::Json(400, json!({ "error": { "message": "whatever" } })),
        })
        .await;
        let mut upstream = server.upstream(3_000);
        upstream.dialects.push(dialect);
        let gateway = gateway(Config::new(vec![upstream]));
        let list = if dialect == Dialect::Messages { "messages" } else { "input" };
        let ask = |messages: Vec<Value>| {
            let body = json!({ "model": "m", "max_tokens": 100, list: messages }).to_string();
            (body.clone(), gateway.answer(Call { dialect, ..chat(body) }))
        };
        let (body, reply) = ask(vec![user("hi")]);
        reply.await;
        assert_eq!((server.sent()[0].path.as_str(), &server.sent()[0].body[..]), (path, body.as_bytes()));
        let long = (0..30).map(|at| if at % 2 == 0 { user(words(90, at)) } else { assistant(words(90, at)) });
        let (_, reply) = ask(long.chain([user("go on")]).collect());
        assert_eq!(header(&reply.await, "x-longhaul-action"), "compacted");
        let sent = server.sent().last().unwrap().json();
        let items = sent[list].as_array().unwrap();
        assert!(items.len() < 20 && items[0].to_string().contains("[SUMMARY]"), "{items:?}");
        assert!(items.last().unwrap().to_string().contains("go on"));
    }
}

#[tokio::test]
async fn what_a_server_is_to_remember_is_refused_by_name() {
    let server = Server::start(|_, _| Does::Events(streamed("a", "yes", None), Duration::ZERO)).await;
    let gateway = server.gateway(8_000);
    let call = |more: &str| {
        let body = format!(r#"{{"model":"m","input":"who am I?",{more}}}"#);
        Call { dialect: Dialect::Responses, ..chat(body) }
    };
    for name in ["previous_response_id", "conversation"] {
        let reply = gateway.answer(call(&format!(r#""{name}":"resp_1""#))).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
        assert_eq!(body_json(reply).await["error"]["param"], name);
    }
    assert!(server.sent().is_empty());
    let reply = gateway.answer(call(r#""previous_response_id":null"#)).await;
    assert_eq!(reply.status, StatusCode::OK);
}
