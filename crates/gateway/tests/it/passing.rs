//! What fits goes through as it is.

use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use longhaul_gateway::{Config, Credentials, Model, ReplyBody};
use longhaul_providers::Declared;
use longhaul_providers::http::Secret;
use serde_json::json;

use crate::upstream::*;

const ODD: &str = "{ \"temperature\": 1.0e0,\n\t\"model\":\"m\",\"messages\":[ {\"role\":\"user\",\"content\":\"h\\u0069\",\"x\":null} ],\"seed\":12345678901234567890, \"stream\" :true}";

#[tokio::test]
async fn a_request_arrives_byte_for_byte_and_so_does_its_answer() {
    let events = streamed("a", "hello there you", Some((9, 3)));
    let script = events.clone();
    let server = Server::start(move |_, _| Does::Events(script.clone(), Duration::from_millis(2))).await;
    let gateway = server.gateway(8_000);
    let reply = gateway.answer(chat(ODD)).await;
    assert_eq!((reply.status, header(&reply, "content-type")), (StatusCode::OK, "text/event-stream"));
    assert_eq!(header(&reply, "x-longhaul-action"), "none");
    assert_eq!(header(&reply, "x-longhaul-upstream"), "up");
    assert_eq!(header(&reply, "x-longhaul-window"), "8000 (declared)");
    assert!(matches!(reply.body, ReplyBody::Stream(_)));
    assert_eq!(body(reply).await, events.concat());
    let sent = &server.sent()[0];
    assert_eq!(sent.path, "/v1/chat/completions");
    assert_eq!(sent.body, ODD.as_bytes());
    assert_eq!(sent.headers["x-client"], "c");
    assert!(!sent.headers.contains_key("authorization"), "the caller's key is not passed on");
}

#[tokio::test]
async fn an_answer_that_is_no_stream_passes_too() {
    let server = Server::start(|_, _| Does::Json(200, said("hi", 9, 1))).await;
    let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(header(&reply, "x-request-id"), "r1");
    assert_eq!(body(reply).await, said("hi", 9, 1).to_string());
}

#[tokio::test]
async fn the_upstreams_key_or_the_callers() {
    let server = Server::start(|_, _| Does::Json(200, said("hi", 9, 1))).await;
    for (credentials, expected) in [(Credentials::Own, "Bearer own"), (Credentials::Forward, "Bearer caller")]
    {
        let mut upstream = server.upstream(8_000);
        upstream.endpoint.api_key = Some(Secret::new("own"));
        let gateway = gateway(Config { credentials, ..Config::new(vec![upstream]) });
        gateway.answer(chat(request(&[user("hi")], false))).await;
        assert_eq!(server.sent().last().unwrap().headers["authorization"], expected);
    }
}

#[tokio::test]
async fn a_model_by_another_name_changes_its_name_only() {
    let server = Server::start(|_, _| Does::Json(200, said("hi", 9, 1))).await;
    let mut upstream = server.upstream(8_000);
    upstream.models = vec![Model {
        name: "m".to_owned(),
        upstream_name: "real/model".to_owned(),
        declared: Declared::default(),
    }];
    let gateway = gateway(Config::new(vec![upstream]));
    assert_eq!(gateway.models()[0].window, Some(8_000));
    gateway.answer(chat(ODD)).await;
    let expected = ODD.replace("\"model\":\"m\"", "\"model\":\"real/model\"");
    assert_eq!(server.sent()[0].body, expected.as_bytes());
    let other =
        gateway.answer(chat(request(&[user("hi")], false).to_vec().as_slice().replacen_model())).await;
    assert_eq!(other.status, StatusCode::NOT_FOUND);
    let error = body_json(other).await;
    assert_eq!(
        (&error["error"]["code"], &error["error"]["param"]),
        (&json!("model_not_found"), &json!("model"))
    );
}

trait OtherModel {
    fn replacen_model(&self) -> Bytes;
}

impl OtherModel for [u8] {
    fn replacen_model(&self) -> Bytes {
        String::from_utf8_lossy(self).replacen("\"model\":\"m\"", "\"model\":\"unknown\"", 1).into()
    }
}

#[tokio::test]
async fn an_output_limit_beyond_the_window_is_clamped() {
    let server = Server::start(|_, _| Does::Json(200, said("hi", 9, 1))).await;
    let gateway = server.gateway(8_000);
    let body = json!({ "model": "m", "max_tokens": 9_000, "messages": [user("hi")] }).to_string();
    gateway.answer(chat(body)).await;
    let sent = server.sent()[0].json();
    let limit = sent["max_tokens"].as_u64().unwrap();
    assert!((7_900..8_000).contains(&limit), "{limit}");
    let body = json!({ "model": "m", "max_tokens": 900, "messages": [user("hi")] }).to_string();
    gateway.answer(chat(body.clone())).await;
    assert_eq!(server.sent()[1].body, body.as_bytes());
}

#[tokio::test]
async fn tokens_are_counted_without_asking_anybody() {
    let server = Server::start(|_, _| Does::Json(200, said("hi", 9, 1))).await;
    let reply = server.gateway(8_000).count_tokens(chat(request(&[user(words(100, 1))], false))).await;
    assert_eq!(header(&reply, "x-longhaul-view"), "client");
    let tokens = body_json(reply).await["input_tokens"].as_u64().unwrap();
    assert!((90..160).contains(&tokens), "{tokens}");
    assert!(server.sent().is_empty());
}

#[tokio::test]
async fn what_the_upstream_counts_is_what_the_next_request_is_measured_by() {
    let server = Server::start(|_, _| Does::Json(200, said("one two three", 700, 40))).await;
    let gateway = server.gateway(8_000);
    let mut messages = vec![user(words(200, 1))];
    let before =
        |reply: &longhaul_gateway::Reply| header(reply, "x-longhaul-tokens-before").parse::<u64>().unwrap();
    let first = gateway.answer(chat(request(&messages, false))).await;
    assert!((180..300).contains(&before(&first)), "an estimate: {}", before(&first));
    messages.extend([assistant("one two three"), user("and?")]);
    let second = gateway.answer(chat(request(&messages, false))).await;
    assert!((741..760).contains(&before(&second)), "700 and 40 and what is new: {}", before(&second));
}
