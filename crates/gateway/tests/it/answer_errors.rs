//! Errors of an upstream as a client of each dialect has them: their statuses, their form, and what is asked again.

use std::time::Duration;

use axum::http::StatusCode;
use longhaul_core::attempt::RetryPolicy;
use longhaul_gateway::{GatewayOptions, GatewayReply, RelayEndpoint, UpstreamOptions};
use longhaul_providers::connect::Kind;
use longhaul_wire::edit::Dialect;
use serde_json::{Value, json};

use crate::model::{call, events, numbered, read, upstream as speaking};
use crate::recall::{had, whole};
use crate::upstream::*;

const DIALECTS: [Dialect; 3] = [Dialect::Chat, Dialect::Messages, Dialect::Responses];

/// How a client speaks, and how its model's server does.
const ROUTES: [(Dialect, Dialect); 6] = [
    (Dialect::Chat, Dialect::Chat),
    (Dialect::Messages, Dialect::Messages),
    (Dialect::Responses, Dialect::Responses),
    (Dialect::Messages, Dialect::Chat),
    (Dialect::Responses, Dialect::Chat),
    (Dialect::Chat, Dialect::Messages),
];

/// A policy that does not make a test wait.
const QUICK: RetryPolicy = RetryPolicy { patience_ms: Some(2_000), max_delay_ms: 10, stream_attempts: 2 };

fn upstream(server: &ScriptedUpstream, (asks, speaks): (Dialect, Dialect)) -> UpstreamOptions {
    match asks == speaks {
        true => speaking(server, speaks, 8_000, false),
        false => crate::across::upstream(server, speaks, 8_000, false),
    }
}

fn options(upstream: UpstreamOptions, retry: RetryPolicy) -> GatewayOptions {
    GatewayOptions { retry, attempts: 1, ..waiting(vec![upstream]) }
}

fn error_object(kind: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": format!("no {kind} today") } })
}

fn error_event(kind: &str) -> String {
    format!("event: error\ndata: {}\n\n", error_object(kind))
}

/// Returns the parts of an error that a client of the dialect reads, after a check of its form.
fn checked(dialect: Dialect, error: &Value) -> (String, String) {
    let text =
        |name: &str| error["error"][name].as_str().unwrap_or_else(|| panic!("{name}: {error}")).to_owned();
    if dialect == Dialect::Messages {
        assert_eq!(error["type"], "error", "{error}");
    }
    assert!(!text("message").is_empty(), "{error}");
    (text("type"), text("message"))
}

async fn error_of(dialect: Dialect, reply: GatewayReply) -> (StatusCode, String, String) {
    let status = reply.status;
    assert_eq!(header(&reply, "content-type"), "application/json");
    let (kind, message) = checked(dialect, &body_json(reply).await);
    (status, kind, message)
}

#[tokio::test]
async fn an_error_in_the_answers_place_is_asked_about_again() {
    for route in ROUTES {
        for (stream, is_event) in [(false, false), (false, true), (true, false), (true, true)] {
            let text = numbered(40);
            let said = text.clone();
            let server = start_upstream(move |number, body| {
                let answer = events(route.1, &format!("id{number}"), &said, (40, 60));
                match (number, body["stream"] == true) {
                    (0, _) if is_event => {
                        UpstreamAnswer::Events(vec![error_event("overloaded_error")], Duration::ZERO)
                    }
                    (0, _) => UpstreamAnswer::Json(200, error_object("overloaded_error")),
                    (_, true) => UpstreamAnswer::Events(answer, Duration::ZERO),
                    (_, false) => whole(route.1, answer),
                }
            })
            .await;
            let gateway = gateway(options(upstream(&server, route), QUICK));
            let reply = gateway.answer(call(route.0, &[user("tell me all")], stream)).await;
            let had = had(route.0, reply, stream).await;
            let case = format!("{route:?}, stream: {stream}, event: {is_event}: {}", had.all);
            assert!(had.text == text && !had.all.contains("today"), "{case}");
            assert_eq!(server.received().len(), 2, "{case}");
        }
    }
}

#[tokio::test]
async fn half_an_answer_and_an_error_are_no_answer_for_a_client_that_waits() {
    for route in ROUTES {
        let text = numbered(80);
        let said = text.clone();
        let server = start_upstream(move |number, body| {
            let mut answer = events(route.1, &format!("id{number}"), &said, (40, 60));
            match (number, body["stream"] == true) {
                (0, _) => {
                    answer.truncate(9);
                    answer.push(error_event("overloaded_error"));
                    UpstreamAnswer::Events(answer, Duration::ZERO)
                }
                (_, true) => UpstreamAnswer::Events(answer, Duration::ZERO),
                (_, false) => whole(route.1, answer),
            }
        })
        .await;
        let gateway = gateway(options(upstream(&server, route), QUICK));
        let reply = gateway.answer(call(route.0, &[user("tell me all")], false)).await;
        let had = had(route.0, reply, false).await;
        assert!(had.text == text && !had.all.contains("today"), "{route:?}: {}", had.all);
        assert_eq!(server.received().len(), 2, "{route:?}");
    }
}

#[tokio::test]
async fn an_error_that_stays_is_told_after_the_last_attempt() {
    for route in ROUTES {
        for stream in [false, true] {
            let server =
                start_upstream(|_, _| UpstreamAnswer::Json(200, error_object("rate_limit_error"))).await;
            let gateway = gateway(options(upstream(&server, route), QUICK));
            let reply = gateway.answer(call(route.0, &[user("hi")], stream)).await;
            let (status, kind, message) = error_of(route.0, reply).await;
            assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{route:?}");
            assert!(kind == "rate_limit_error" && message.contains("today"), "{route:?}: {kind} {message}");
            assert_eq!(server.received().len(), 3, "{route:?}");
        }
    }
}

#[tokio::test]
async fn an_error_with_the_status_of_a_success_has_its_own() {
    // The type, and the statuses for clients of Anthropic's and of OpenAI's API.
    let kinds = [
        ("invalid_request_error", 400, 400),
        ("authentication_error", 401, 401),
        ("billing_error", 402, 429),
        ("permission_error", 403, 403),
        ("not_found_error", 404, 404),
        ("rate_limit_error", 429, 429),
        ("api_error", 502, 502),
        ("overloaded_error", 529, 503),
    ];
    for route in ROUTES {
        for (kind, anthropic, openai) in kinds {
            let server = start_upstream(move |_, _| UpstreamAnswer::Json(200, error_object(kind))).await;
            let retry = RetryPolicy { stream_attempts: 0, ..QUICK };
            let gateway = gateway(options(upstream(&server, route), retry));
            for stream in [false, true] {
                let reply = gateway.answer(call(route.0, &[user("hi")], stream)).await;
                let (status, named, message) = error_of(route.0, reply).await;
                let is_anthropic = route.0 == Dialect::Messages;
                let expected = if is_anthropic { anthropic } else { openai };
                assert_eq!(status.as_u16(), expected, "{route:?} {kind}: {message}");
                assert!(message.contains(&format!("no {kind} today")), "{route:?}: {message}");
                assert!(!is_anthropic || named == kind, "{route:?} {kind}: {named}");
            }
        }
    }
}

#[tokio::test]
async fn errors_of_other_shapes_with_status_200_are_read_too() {
    for (said, expected) in [
        (json!({ "detail": "Not authenticated" }), 401),
        (json!({ "base_resp": { "status_code": 1002, "status_msg": "slow down" } }), 429),
        (json!([{ "error": { "code": 400, "message": "bad", "status": "INVALID_ARGUMENT" } }]), 400),
        (json!({ "object": "error", "message": "no such model", "type": "NotFoundError", "code": 404 }), 404),
    ] {
        for dialect in DIALECTS {
            let answer = said.clone();
            let server = start_upstream(move |_, _| UpstreamAnswer::Json(200, answer.clone())).await;
            let retry = RetryPolicy { stream_attempts: 0, ..QUICK };
            let gateway = gateway(options(speaking(&server, dialect, 8_000, false), retry));
            let reply = gateway.answer(call(dialect, &[user("hi")], false)).await;
            let (status, ..) = error_of(dialect, reply).await;
            assert_eq!(status.as_u16(), expected, "{dialect:?}: {said}");
        }
    }
}

#[tokio::test]
async fn a_status_has_the_type_that_anthropic_gives_it() {
    for (status, kind) in [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (409, "invalid_request_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ] {
        let refusal = json!({ "error": { "message": "not this time" } });
        let at_once = refusal.clone();
        let server = start_upstream(move |_, _| UpstreamAnswer::Json(status, at_once.clone())).await;
        let routes = [(Dialect::Messages, Dialect::Chat), (Dialect::Messages, Dialect::Messages)];
        for route in routes {
            let gateway = gateway(options(upstream(&server, route), QUICK));
            let reply = gateway.answer(call(route.0, &[user("hi")], false)).await;
            let (found, named, message) = error_of(route.0, reply).await;
            assert_eq!((found.as_u16(), named.as_str()), (status, kind), "{route:?}: {message}");
        }
        // An error behind the status line has the same type.
        let server = start_upstream(move |_, _| {
            let late = UpstreamAnswer::Json(status, refusal.clone());
            UpstreamAnswer::After(Duration::from_millis(150), Box::new(late))
        })
        .await;
        let route = (Dialect::Messages, Dialect::Chat);
        let keep_alive = Duration::from_millis(20);
        let config = GatewayOptions { keep_alive, ..options(upstream(&server, route), QUICK) };
        let reply = gateway(config).answer(call(route.0, &[user("hi")], true)).await;
        assert_eq!(reply.status, StatusCode::OK);
        let (seen, all) = read(route.0, &body(reply).await);
        assert!(seen.error.is_some(), "{status}");
        assert_eq!(checked(route.0, all.last().unwrap()).0, kind, "{status}");
    }
}

#[tokio::test]
async fn an_error_event_that_no_client_of_the_dialect_reads_is_told_in_its_form() {
    for dialect in DIALECTS {
        let server = start_upstream(move |_, _| {
            let mut answer = events(dialect, "a", &numbered(40), (40, 60));
            answer.truncate(6);
            let foreign = json!({ "error": { "message": "the engine is gone" } });
            answer.push(format!("data: {foreign}\n\n"));
            UpstreamAnswer::Events(answer, Duration::ZERO)
        })
        .await;
        let retry = RetryPolicy { stream_attempts: 0, ..QUICK };
        let gateway = gateway(options(speaking(&server, dialect, 8_000, false), retry));
        let reply = gateway.answer(call(dialect, &[user("hi")], true)).await;
        let out = String::from_utf8(body(reply).await.to_vec()).unwrap();
        let told = match dialect {
            Dialect::Chat => "data: {\"error\":",
            Dialect::Messages => "event: error\ndata: {",
            Dialect::Responses => "event: response.failed\ndata: {",
        };
        assert_eq!(out.matches(told).count(), 1, "{dialect:?}: {out}");
        assert!(out.contains("the engine is gone"), "{dialect:?}: {out}");
    }
}

fn nowhere(kind: Kind) -> UpstreamOptions {
    // Nothing listens at port 9 (discard), so a connection is refused at once.
    let mut upstream = UpstreamOptions::new("down", kind, "http://127.0.0.1:9/v1");
    upstream.endpoint.declared.window = Some(8_000);
    (upstream.endpoint.declared.tools, upstream.endpoint.declared.images) = (Some(true), Some(true));
    upstream
}

#[tokio::test]
async fn every_client_reads_the_common_failures() {
    for stream in [false, true] {
        for dialect in DIALECTS {
            for kind in [Kind::OpenAiCompatible, Kind::Anthropic] {
                let reply =
                    gateway(options(nowhere(kind), QUICK)).answer(call(dialect, &[user("hi")], stream)).await;
                let (status, _, message) = error_of(dialect, reply).await;
                assert_eq!(status, StatusCode::BAD_GATEWAY, "{dialect:?} {kind:?}: {message}");
            }
        }
        for route in ROUTES {
            let server = start_upstream(|number, _| match number {
                0 => UpstreamAnswer::Json(401, json!({ "detail": "Unauthorized" })),
                1 => UpstreamAnswer::Head(
                    429,
                    vec![("content-type", "application/json".to_owned()), ("retry-after", "7".to_owned())],
                    "{\"detail\":\"slow down\"}".into(),
                ),
                _ => unreachable!("the third request is not sent"),
            })
            .await;
            let gateway = gateway(options(upstream(&server, route), QUICK));
            let reply = gateway.answer(call(route.0, &[user("hi")], stream)).await;
            let (status, _, message) = error_of(route.0, reply).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{route:?}: {message}");
            assert!(message.contains("Unauthorized"), "{route:?}: {message}");
            let reply = gateway.answer(call(route.0, &[user("hi")], stream)).await;
            assert_eq!(header(&reply, "retry-after"), "7", "{route:?}");
            let (status, kind, message) = error_of(route.0, reply).await;
            assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{route:?}: {message}");
            assert!(
                kind == "rate_limit_error" && message.contains("slow down"),
                "{route:?}: {kind} {message}"
            );
            // The window cannot hold it, and nothing can be left out.
            let long = if route.0 == Dialect::Responses { "instructions" } else { "system" };
            let mut asked = call(route.0, &[user("hi")], stream);
            let mut fields: Value = serde_json::from_slice(&asked.body).unwrap();
            match route.0 {
                Dialect::Chat => {
                    let system = json!({ "role": "system", "content": words(9_000, 1) });
                    fields["messages"] = json!([system, user("hi")]);
                }
                _ => fields[long] = json!(words(9_000, 1)),
            }
            asked.body = fields.to_string().into();
            let (status, kind, message) = error_of(route.0, gateway.answer(asked).await).await;
            assert_eq!(
                (status.as_u16(), kind.as_str()),
                (400, "invalid_request_error"),
                "{route:?}: {message}"
            );
            assert_eq!(server.received().len(), 2, "{route:?}");
        }
    }
}

#[tokio::test]
async fn errors_of_relayed_requests_have_openais_form() {
    let server = start_upstream(|_, _| {
        UpstreamAnswer::Head(429, vec![("retry-after", "3".to_owned())], "{\"detail\":\"slow down\"}".into())
    })
    .await;
    let gateway = gateway(options(server.upstream(8_000), QUICK));
    for path in [RelayEndpoint::Embeddings, RelayEndpoint::Completions] {
        let reply = gateway.relay_request(path, chat(r#"{"model":"m","input":"a"}"#)).await;
        assert_eq!(header(&reply, "retry-after"), "3");
        let (status, kind, message) = error_of(Dialect::Chat, reply).await;
        assert_eq!((status.as_u16(), kind.as_str()), (429, "rate_limit_error"), "{message}");
        assert_eq!(message, "slow down");
    }
}
