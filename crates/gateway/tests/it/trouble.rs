//! Bad requests and bad upstreams: a clear error in the caller's words, and nothing that hangs.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use longhaul_gateway::{Config, Upstream};
use longhaul_providers::connect::Kind;
use serde_json::{Value, json};

use crate::upstream::*;

fn error(body: &[u8]) -> Value {
    let value: Value = serde_json::from_slice(body).unwrap();
    assert!(value["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{value}");
    value["error"].clone()
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_and_not_sent() {
    let server = Server::start(|_, _| Does::Json(200, said("hi", 9, 1))).await;
    let gateway = server.gateway(8_000);
    let big = "[".repeat(100_000);
    for (body_text, param) in [
        ("", Value::Null),
        ("not json", Value::Null),
        ("[]", Value::Null),
        ("{\"model\":\"m\"", Value::Null),
        ("{\"messages\":[]}", json!("model")),
        ("{\"model\":7,\"messages\":[]}", json!("model")),
        ("{\"model\":\"m\",\"messages\":{}}", json!("messages")),
        ("{\"model\":\"m\",\"messages\":[1]}", json!("messages[0]")),
        ("{\"model\":\"m\",\"messages\":[{\"role\":\"robot\",\"content\":\"\"}]}", json!("messages[0].role")),
        ("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":7}]}", json!("messages[0].content")),
        (&format!("{{\"model\":\"m\",\"messages\":{big}}}"), Value::Null),
    ] {
        let reply = gateway.answer(chat(body_text.to_owned())).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{}", &body_text[..body_text.len().min(80)]);
        let error = error(&body(reply).await);
        assert_eq!((&error["type"], &error["param"]), (&json!("invalid_request_error"), &param), "{error}");
    }
    assert!(server.sent().is_empty());
}

#[tokio::test]
async fn odd_histories_are_the_upstreams_to_judge() {
    let server = Server::start(|_, _| Does::Json(200, said("hi", 9, 1))).await;
    let gateway = server.gateway(8_000);
    for messages in [
        vec![],
        vec![json!({ "role": "tool", "tool_call_id": "nobody", "content": "orphan" })],
        vec![assistant("first"), assistant("second")],
        vec![user(""), json!({ "role": "assistant", "content": null })],
    ] {
        let asked = request(&messages, false);
        assert_eq!(gateway.answer(chat(asked.clone())).await.status, StatusCode::OK);
        assert_eq!(server.sent().last().unwrap().body, asked);
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let server = Server::start(|_, _| Does::Json(200, said("hi", 9, 1))).await;
    let config = Config { max_body_bytes: 1_000, ..Config::new(vec![server.upstream(8_000)]) };
    let reply = gateway(config).answer(chat(request(&[user(words(400, 1))], false))).await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
    error(&body(reply).await);
}

#[tokio::test]
async fn the_upstreams_own_errors_pass() {
    for status in [400, 401, 404, 422, 429, 500] {
        let said = json!({ "error": { "message": format!("no {status}"), "type": "odd" } });
        let script = said.clone();
        let server = Server::start(move |_, _| Does::Json(status, script.clone())).await;
        let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], true))).await;
        assert_eq!(reply.status.as_u16(), status);
        assert_eq!(body_json(reply).await, said);
        assert_eq!(server.sent().len(), 1, "{status} is not tried again");
    }
}

#[tokio::test]
async fn what_is_for_a_moment_only_is_tried_again() {
    let server = Server::start(|number, _| match number {
        0 => Does::Json(503, json!({ "error": { "message": "loading" } })),
        _ => Does::Json(200, said("hi", 9, 1)),
    })
    .await;
    let reply = server.gateway(8_000).answer(chat(request(&[user("hi")], false))).await;
    assert_eq!((reply.status, server.sent().len()), (StatusCode::OK, 2));
}

fn nowhere() -> Upstream {
    let mut upstream = Upstream::new("down", Kind::OpenAiCompatible, "http://127.0.0.1:9/v1");
    upstream.endpoint.declared.window = Some(8_000);
    (upstream.endpoint.declared.tools, upstream.endpoint.declared.images) = (Some(true), Some(true));
    upstream
}

#[tokio::test]
async fn an_upstream_that_is_down_is_named_and_another_takes_its_place() {
    let alone = gateway(Config::new(vec![nowhere()]));
    let reply = alone.answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(reply.status, StatusCode::BAD_GATEWAY);
    let said_error = error(&body(reply).await);
    assert!(said_error["message"].as_str().unwrap().contains("`down` cannot be reached"), "{said_error}");
    let server = Server::start(|_, _| Does::Json(200, said("hi", 9, 1))).await;
    let both = gateway(Config::new(vec![nowhere(), server.upstream(8_000)]));
    let reply = both.answer(chat(request(&[user("hi")], false))).await;
    assert_eq!((reply.status, header(&reply, "x-longhaul-upstream")), (StatusCode::OK, "up"));
}

#[tokio::test]
async fn an_upstream_that_hangs_is_given_up() {
    let server = Server::start(|_, _| Does::Hangs).await;
    let mut upstream = server.upstream(8_000);
    upstream.endpoint.timeouts.header = Duration::from_millis(200);
    let config = Config::new(vec![upstream]);
    let reply = gateway(config).answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(reply.status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(error(&body(reply).await)["code"], "upstream_timeout");
}

#[tokio::test]
async fn a_stream_that_is_long_in_coming_begins_with_comments() {
    let events = streamed("a", "hello you", None);
    let script = events.clone();
    let server = Server::start(move |_, _| {
        Does::After(Duration::from_millis(300), Box::new(Does::Events(script.clone(), Duration::ZERO)))
    })
    .await;
    let config =
        Config { keep_alive: Duration::from_millis(50), ..Config::new(vec![server.upstream(8_000)]) };
    let asked = Instant::now();
    let reply = gateway(config).answer(chat(request(&[user("hi")], true))).await;
    assert!(asked.elapsed() < Duration::from_millis(250), "the client hears something at once");
    assert_eq!((reply.status, header(&reply, "content-type")), (StatusCode::OK, "text/event-stream"));
    let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
    assert!(out.starts_with(": keep-alive\n\n: keep-alive\n\n"), "{out}");
    assert_eq!(out.replace(": keep-alive\n\n", ""), events.concat());
}

#[tokio::test]
async fn errors_after_that_stand_in_the_stream() {
    let server = Server::start(|_, _| {
        let refused = Does::Json(401, json!({ "error": { "message": "bad key" } }));
        Does::After(Duration::from_millis(150), Box::new(refused))
    })
    .await;
    let config =
        Config { keep_alive: Duration::from_millis(50), ..Config::new(vec![server.upstream(8_000)]) };
    let reply = gateway(config).answer(chat(request(&[user("hi")], true))).await;
    let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
    let last = out.rsplit(": keep-alive\n\n").next().unwrap();
    assert!(last.starts_with("data: {\"error\":") && last.contains("bad key"), "{out}");
    assert!(last.ends_with("data: [DONE]\n\n"));
}

#[tokio::test]
async fn a_stream_that_breaks_or_stalls_or_just_ends_says_so() {
    let begun: Vec<String> = streamed("a", "hello you there", None).into_iter().take(3).collect();
    let half = begun.concat() + "data: {\"id\":\"a\",\"cho";
    for kind in 0..3 {
        let (events, half) = (begun.clone(), half.clone());
        let server = Server::start(move |_, _| match kind {
            0 => Does::Breaks(vec![half.clone()]),
            1 => Does::Stalls(events.clone()),
            _ => Does::Events(events.clone(), Duration::ZERO),
        })
        .await;
        for prefill in [false, true] {
            let mut upstream = server.upstream(8_000);
            upstream.endpoint.declared.prefill = Some(prefill);
            upstream.endpoint.timeouts.idle = Duration::from_millis(200);
            let config = Config { keep_alive: Duration::from_secs(1), ..Config::new(vec![upstream]) };
            let reply = gateway(config).answer(chat(request(&[user("hi")], true))).await;
            let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
            assert!(out.starts_with(&begun.concat()), "{kind}: {out}");
            let last = out.rsplit("\n\n").find(|event| event.contains("error")).unwrap();
            assert!(last.starts_with("data: {\"error\":"), "{kind} {prefill}: {out}");
        }
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_pass_or_are_named() {
    let server = Server::start(|number, _| match number % 2 {
        0 => Does::Text(200, "text/html", "<html>hello</html>".to_owned()),
        _ => Does::Text(200, "application/json", "{\"half\":".to_owned()),
    })
    .await;
    let gateway = server.gateway(8_000);
    for _ in 0..2 {
        let reply = gateway.answer(chat(request(&[user("hi")], false))).await;
        assert_eq!(reply.status, StatusCode::BAD_GATEWAY);
        assert_eq!(error(&body(reply).await)["code"], "upstream_error");
    }
}
