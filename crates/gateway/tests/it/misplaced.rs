//! Upstreams whose base URL is not where their API is, and answers that are none: what is tried, and what is said.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use longhaul_gateway::{ClientRequest, UpstreamOptions};
use longhaul_providers::connect::Kind;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::upstream::*;

const PAGE: &str = "<!doctype html><title>Box</title><p>Welcome";

/// Starts a server whose API is below `/v1` only.
async fn start_below_v1(elsewhere: fn() -> Response<Body>) -> ScriptedUpstream {
    let script = move |request: &ReceivedRequest| match request.path.starts_with("/v1/") {
        true => UpstreamAnswer::Json(200, said("here", 9, 1)),
        false => elsewhere().into(),
    };
    ScriptedUpstream::start_without_pages(script).await
}

fn json_response(status: u16, value: &Value) -> Response<Body> {
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Body::from(value.to_string())).unwrap()
}

#[tokio::test]
async fn an_api_below_v1_is_found_and_kept_to() {
    let elsewhere: [fn() -> Response<Body>; 4] = [
        || Response::builder().status(404).body(Body::from("404 page not found")).unwrap(),
        || Response::builder().status(405).body(Body::empty()).unwrap(),
        || {
            Response::builder()
                .header("content-type", "text/html; charset=utf-8")
                .body(Body::from(PAGE))
                .unwrap()
        },
        || json_response(200, &json!({ "error": "Unexpected endpoint or method. (POST /chat/completions)" })),
    ];
    for elsewhere in elsewhere {
        let server = start_below_v1(elsewhere).await;
        let gateway =
            gateway(waiting(vec![UpstreamOptions::new("up", Kind::OpenAiCompatible, server.url(""))]));
        for _ in 0..2 {
            let reply = gateway.answer(chat(request(&[user("hi")], false))).await;
            assert_eq!(reply.status, StatusCode::OK);
            assert_eq!(body_json(reply).await["choices"][0]["message"]["content"], "here");
        }
        let paths: Vec<String> = server.received().into_iter().map(|request| request.path).collect();
        assert_eq!(paths, ["/chat/completions", "/v1/chat/completions", "/v1/chat/completions"]);
    }
}

/// A short answer is read whole to see whether it only says that the path is missing.
#[tokio::test]
async fn a_short_answer_that_breaks_off_is_asked_for_again() {
    let server = ScriptedUpstream::start_without_pages({
        let asked = AtomicUsize::new(0);
        move |_: &ReceivedRequest| match asked.fetch_add(1, Ordering::SeqCst) {
            0 => {
                let pieces = [Ok("{\"id\": \"a\", "), Err(std::io::Error::other("broken on purpose"))];
                let response = Response::builder()
                    .header("content-type", "application/json")
                    .header("content-length", 400);
                let body = Body::from_stream(futures_util::stream::iter(pieces));
                UpstreamAnswer::from(response.body(body).unwrap())
            }
            _ => UpstreamAnswer::Json(200, said("here", 9, 1)),
        }
    })
    .await;
    let gateway = gateway(waiting(vec![UpstreamOptions::new("up", Kind::OpenAiCompatible, server.url(""))]));
    let reply = gateway.answer(chat(request(&[user("hi")], false))).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(body_json(reply).await["choices"][0]["message"]["content"], "here");
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn a_web_page_in_place_of_an_answer_names_the_address() {
    let server = start_upstream(|_, _| UpstreamAnswer::Text(200, "text/html", PAGE.to_owned())).await;
    let page = async |call: ClientRequest| {
        let reply = server.gateway(8_000).answer(call).await;
        (reply.status, String::from_utf8(body(reply).await.to_vec()).unwrap())
    };
    for stream in [true, false] {
        for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Messages] {
            let (status, said) = page(asked(dialect, stream)).await;
            assert!(status.is_client_error() || status == StatusCode::BAD_GATEWAY, "{dialect:?}: {status}");
            assert!(said.contains("web page") && said.contains(&server.url("")), "{dialect:?}: {said}");
        }
    }
}

/// The same question in each dialect.
fn asked(dialect: Dialect, stream: bool) -> ClientRequest {
    let body = match dialect {
        Dialect::Responses => json!({ "model": "m", "input": "hi", "stream": stream }),
        _ => json!({ "model": "m", "max_tokens": 100, "messages": [user("hi")], "stream": stream }),
    };
    ClientRequest { dialect, ..chat(body.to_string()) }
}

#[tokio::test]
async fn a_stream_of_only_its_closing_event_is_an_error_in_every_dialect() {
    for done in ["data: [DONE]\n\n", "data: [DONE]"] {
        let server =
            start_upstream(move |_, _| UpstreamAnswer::Events(vec![done.to_owned()], Duration::ZERO)).await;
        for stream in [true, false] {
            for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Messages] {
                let reply = server.gateway(8_000).answer(asked(dialect, stream)).await;
                let status = reply.status;
                let said = String::from_utf8(body(reply).await.to_vec()).unwrap();
                assert_eq!(status, StatusCode::BAD_GATEWAY, "{dialect:?} {stream}: {said}");
                assert!(said.contains("ended"), "{dialect:?} {stream}: {said}");
            }
        }
    }
}

#[tokio::test]
async fn an_error_of_the_choice_is_told_in_every_dialect() {
    let chunk = |choice: &Value| format!("data: {}\n\n", json!({ "id": "c1", "choices": [choice] }));
    let begun = chunk(
        &json!({ "index": 0, "delta": { "role": "assistant", "content": "Half of an ans" }, "finish_reason": null }),
    );
    let error = json!({ "code": 502, "message": "Overloaded XYZ" });
    for end in [
        json!({ "index": 0, "delta": { "content": "" }, "finish_reason": "error", "error": error }),
        json!({ "index": 0, "delta": { "error": error }, "finish_reason": "stop" }),
    ] {
        let events = vec![begun.clone(), chunk(&end), "data: [DONE]\n\n".to_owned()];
        let server = start_upstream(move |_, _| UpstreamAnswer::Events(events.clone(), Duration::ZERO)).await;
        for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Messages] {
            let reply = server.gateway(8_000).answer(asked(dialect, false)).await;
            let status = reply.status;
            let answer = body_json(reply).await;
            assert!(status.is_server_error(), "{dialect:?}: {status} {answer}");
            assert_eq!(answer["error"]["message"], "Overloaded XYZ", "{dialect:?}: {answer}");
            let reply = server.gateway(8_000).answer(asked(dialect, true)).await;
            let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
            assert!(out.contains("Half of an ans") && out.contains("Overloaded XYZ"), "{dialect:?}: {out}");
            assert!(
                !out.contains("\"end_turn\"") && !out.contains("response.completed"),
                "{dialect:?}: {out}"
            );
        }
    }
}

#[tokio::test]
async fn an_error_of_the_choice_is_no_whole_answer() {
    let choice = json!({
        "index": 0, "message": { "role": "assistant", "content": null }, "finish_reason": null,
        "error": { "code": 429, "message": "Slow down XYZ" },
    });
    let answer = json!({ "id": "c1", "object": "chat.completion", "choices": [choice] });
    let server = start_upstream(move |_, _| UpstreamAnswer::Json(200, answer.clone())).await;
    for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Messages] {
        let reply = server.gateway(8_000).answer(asked(dialect, false)).await;
        let status = reply.status;
        let answer = body_json(reply).await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{dialect:?}: {answer}");
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(said.starts_with("Slow down XYZ"), "{dialect:?}: {said}");
    }
}
