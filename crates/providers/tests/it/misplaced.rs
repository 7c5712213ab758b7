//! Addresses without an API: the second attempt, and the error.

use axum::body::Body;
use axum::http::Response;
use longhaul_core::error::ErrorCode;
use longhaul_providers::connect::{Kind, connect};
use longhaul_providers::{ModelEndpoint, ModelEvent, SharedProvider};

use crate::fake::{Asked, Fake, answer};
use crate::wire::{call, finished, hi, patient};

/// The wires whose paths begin with `/v1` at their makers.
const VERSIONED: [Kind; 3] = [Kind::OpenAi, Kind::OpenAiCompatible, Kind::Anthropic];

const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>Sign in &mdash; Box</title></head></html>";

fn client(kind: Kind, base: String) -> SharedProvider {
    let mut endpoint = ModelEndpoint::new(kind.as_str(), base, "m");
    endpoint.timeouts = patient();
    connect(kind, endpoint).unwrap()
}

/// A server's answer at an address without an API.
fn elsewhere() -> [Response<Body>; 5] {
    [
        answer(404, "text/plain", "404 page not found"),
        answer(404, "application/json", r#"{"detail":"Not Found"}"#),
        answer(405, "text/html", "<html>no</html>"),
        answer(200, "text/html", PAGE),
        answer(200, "application/json", r#"{"error":"Unexpected endpoint or method. (POST /x)"}"#),
    ]
}

fn whole(kind: Kind) -> &'static str {
    match kind {
        Kind::Anthropic => {
            r#"{"type":"message","id":"m","content":[{"type":"text","text":"here"}],"stop_reason":"end_turn"}"#
        }
        Kind::OpenAi => {
            r#"{"object":"response","id":"r","status":"completed","output":[{"type":"message","id":"m","content":[{"type":"output_text","text":"here"}]}]}"#
        }
        _ => r#"{"choices":[{"index":0,"message":{"content":"here"},"finish_reason":"stop"}]}"#,
    }
}

fn posts(asked: &[Asked]) -> Vec<String> {
    asked.iter().filter(|asked| !asked.body.is_empty()).map(|asked| asked.path.clone()).collect()
}

#[tokio::test]
async fn an_api_below_its_version_is_found_and_kept_to() {
    for kind in VERSIONED {
        for number in 0..elsewhere().len() {
            let fake = Fake::start(move |asked| match asked.path.starts_with("/proxy/v1/") {
                true => answer(200, "application/json", whole(kind)),
                false => elsewhere().into_iter().nth(number).unwrap(),
            })
            .await;
            let provider = client(kind, fake.url("/proxy/"));
            for _ in 0..2 {
                let answer = finished(call(provider.as_ref(), hi()).await);
                assert_eq!(answer.parts[0].as_text(), Some("here"), "{kind:?}");
            }
            let paths = posts(&fake.asked());
            assert_eq!(paths.len(), 3, "{kind:?}: {paths:?}");
            assert!(
                !paths[0].contains("/v1/") && paths[1..].iter().all(|path| path.contains("/v1/")),
                "{paths:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_refusal_below_the_version_is_the_answer() {
    let fake = Fake::start(|asked| match asked.path.starts_with("/v1/") {
        true => answer(401, "application/json", r#"{"error":{"message":"no key"}}"#),
        false => answer(404, "text/plain", "404 page not found"),
    })
    .await;
    let (_, error) = call(client(Kind::OpenAiCompatible, fake.url("")).as_ref(), hi()).await;
    assert_eq!(error.unwrap().code, ErrorCode::Auth);
}

#[tokio::test]
async fn an_api_that_is_nowhere_is_said_to_have_been_looked_for() {
    for kind in VERSIONED {
        for number in 0..elsewhere().len() {
            let fake = Fake::start(move |_| elsewhere().into_iter().nth(number).unwrap()).await;
            let (_, error) = call(client(kind, fake.url("")).as_ref(), hi()).await;
            let error = error.unwrap();
            let tried = format!("{} was tried too", fake.url("/v1"));
            assert!(!error.retryable && error.message.contains(&tried), "{kind:?}: {error:?}");
            // A base URL with its version is asked there and nowhere else.
            let fake = Fake::start(move |_| elsewhere().into_iter().nth(number).unwrap()).await;
            let (_, error) = call(client(kind, fake.url("/v1")).as_ref(), hi()).await;
            assert!(!error.unwrap().message.contains("tried"), "{kind:?}");
            assert_eq!(posts(&fake.asked()).len(), 1, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_web_page_in_place_of_an_answer_is_no_outage() {
    for kind in Kind::ALL {
        for page in [PAGE.to_owned(), format!("\u{feff}\n {PAGE}"), PAGE.to_lowercase()] {
            let fake = Fake::start(move |_| answer(200, "text/event-stream", page.clone())).await;
            let (events, error) = call(client(kind, fake.url("/v1")).as_ref(), hi()).await;
            let error = error.unwrap();
            assert_eq!(events, Vec::<ModelEvent>::new());
            assert_eq!((error.code, error.retryable), (ErrorCode::ThirdParty, false), "{kind:?}: {error:?}");
            let said = error.message.to_lowercase();
            assert!(said.starts_with(&fake.url("/")), "{kind:?}: {said}");
            assert!(said.contains("web page (\"sign in") && said.contains("base_url"), "{kind:?}: {said}");
        }
    }
}

#[tokio::test]
async fn an_error_of_the_choice_is_the_error_it_is() {
    let begun = r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Half of an ans"}}]}"#;
    for (end, code) in [
        (
            r#"{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"Overloaded XYZ"}}"#,
            ErrorCode::ThirdParty,
        ),
        (
            r#"{"index":0,"delta":{"content":""},"finish_reason":null,"error":"Overloaded XYZ"}"#,
            ErrorCode::ThirdParty,
        ),
        (
            r#"{"index":0,"delta":{"error":{"code":"429","message":"Overloaded XYZ"}},"finish_reason":"stop"}"#,
            ErrorCode::RateLimitExceeded,
        ),
        (
            r#"{"index":0,"message":{"error":{"code":401,"message":"Overloaded XYZ"}},"finish_reason":"stop"}"#,
            ErrorCode::Auth,
        ),
    ] {
        let stream = format!(
            "{begun}\n\ndata: {{\"choices\":[{end}],\"usage\":{{\"prompt_tokens\":7,\"completion_tokens\":2}}}}\n\ndata: [DONE]\n\n"
        );
        let fake = Fake::start(move |_| answer(200, "text/event-stream", stream.clone())).await;
        let (events, error) = call(client(Kind::OpenAiCompatible, fake.url("/v1")).as_ref(), hi()).await;
        let error = error.unwrap();
        assert_eq!((error.code, error.message.as_str()), (code, "Overloaded XYZ"), "{end}");
        assert_eq!(error.usage.map(|usage| usage.input_tokens), Some(7), "{end}");
        assert_eq!(events[0], ModelEvent::Text("Half of an ans".to_owned()), "{end}");
        let whole = format!("{{\"choices\":[{end}]}}");
        let fake = Fake::start(move |_| answer(200, "application/json", whole.clone())).await;
        let (_, error) = call(client(Kind::OpenAiCompatible, fake.url("/v1")).as_ref(), hi()).await;
        assert_eq!(error.unwrap().message, "Overloaded XYZ", "{end}, not streamed");
    }
    for none in ["null", "{}", "\"\"", "false"] {
        let end = format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"x\"}},\"finish_reason\":\"stop\",\"error\":{none}}}]}}\n\n"
        );
        let fake = Fake::start(move |_| answer(200, "text/event-stream", end.clone())).await;
        finished(call(client(Kind::OpenAiCompatible, fake.url("/v1")).as_ref(), hi()).await);
    }
}

#[tokio::test]
async fn a_stream_of_only_its_closing_event_is_no_answer() {
    for kind in Kind::ALL {
        for stream in ["data: [DONE]\n\n", "data: [DONE]", ": ping\n\ndata: [DONE]\n\n"] {
            // Ollama's lines have no such event.
            if kind == Kind::Ollama {
                continue;
            }
            let fake = Fake::start(move |_| answer(200, "text/event-stream", stream)).await;
            let (events, error) = call(client(kind, fake.url("/v1")).as_ref(), hi()).await;
            let error = error.unwrap_or_else(|| panic!("{kind:?} {events:?}"));
            assert_eq!((error.code, error.retryable), (ErrorCode::TruncatedStream, true), "{kind:?}");
            assert!(error.message.contains("ended its answer early"), "{kind:?}: {}", error.message);
        }
    }
}
