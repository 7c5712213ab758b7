//! Addresses without an API: the second attempt, and the error.

use axum::body::Body;
use axum::http::Response;
use longhaul_core::error::ErrorCode;
use longhaul_providers::connect::{Kind, connect};
use longhaul_providers::{ModelEndpoint, ModelEvent, SharedProvider};
use longhaul_testkit::{ReceivedRequest, ScriptedUpstream};

use crate::answers::answer;
use crate::wire::{call, finished, hi, patient};

/// The wires whose paths begin with `/v1` at their makers.
const VERSIONED: [Kind; 4] = [Kind::OpenAi, Kind::OpenAiCompatible, Kind::Anthropic, Kind::Gemini];

fn version(kind: Kind) -> &'static str {
    kind.path_version().unwrap()
}

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
        Kind::Gemini => {
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"here"}]},"finishReason":"STOP"}]}"#
        }
        _ => r#"{"choices":[{"index":0,"message":{"content":"here"},"finish_reason":"stop"}]}"#,
    }
}

fn posts(asked: &[ReceivedRequest]) -> Vec<String> {
    asked.iter().filter(|asked| !asked.body.is_empty()).map(|asked| asked.path.clone()).collect()
}

#[tokio::test]
async fn an_api_below_its_version_is_found_and_kept_to() {
    for kind in VERSIONED {
        for number in 0..elsewhere().len() {
            let fake = ScriptedUpstream::start(move |asked| {
                match asked.path.starts_with(&format!("/proxy/{}/", version(kind))) {
                    true => answer(200, "application/json", whole(kind)),
                    false => elsewhere().into_iter().nth(number).unwrap(),
                }
            })
            .await;
            let provider = client(kind, fake.url("/proxy/"));
            for _ in 0..2 {
                let answer = finished(call(provider.as_ref(), hi()).await);
                assert_eq!(answer.parts[0].as_text(), Some("here"), "{kind:?}");
            }
            let paths = posts(&fake.received());
            assert_eq!(paths.len(), 3, "{kind:?}: {paths:?}");
            assert!(
                !paths[0].contains("/v1") && paths[1..].iter().all(|path| path.contains("/v1")),
                "{paths:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_path_of_an_operation_in_the_base_url_is_left_out() {
    for kind in Kind::ALL {
        let pasted: &[&str] = match kind {
            Kind::OpenAi => &["/v1/responses", "/v1/responses/", "/responses"],
            Kind::OpenAiCompatible => &["/v1/chat/completions", "/chat/completions", "/v1/embeddings"],
            Kind::Anthropic => &["/v1/messages", "/messages"],
            Kind::Gemini => &["/v1beta/models/m:generateContent", "/v1beta/models"],
            Kind::Ollama => &["/api/chat", "/api/generate/", "/v1/chat/completions"],
        };
        let answered = if kind == Kind::Ollama {
            r#"{"message":{"role":"assistant","content":"here"},"done":true,"done_reason":"stop"}"#
        } else {
            whole(kind)
        };
        for path in pasted {
            let fake = ScriptedUpstream::start(move |asked| match asked.path.as_str() {
                "/v1/responses"
                | "/v1/chat/completions"
                | "/v1/messages"
                | "/api/chat"
                | "/v1beta/models/m:streamGenerateContent" => answer(200, "application/json", answered),
                _ => answer(404, "text/plain", "404 page not found"),
            })
            .await;
            let answer = finished(call(client(kind, fake.url(path)).as_ref(), hi()).await);
            assert_eq!(answer.parts[0].as_text(), Some("here"), "{path}");
        }
    }
}

#[tokio::test]
async fn a_model_that_is_missing_below_the_version_is_the_error() {
    let fake = ScriptedUpstream::start(|asked| match asked.path.starts_with("/v1beta/") {
        true => answer(
            404,
            "application/json",
            r#"{"error":{"code":404,"message":"models/m is not found for API version v1beta","status":"NOT_FOUND"}}"#,
        ),
        false => answer(404, "text/html", "<html>Error 404 (Not Found)!!1</html>"),
    })
    .await;
    let (_, error) = call(client(Kind::Gemini, fake.url("")).as_ref(), hi()).await;
    let error = error.unwrap();
    assert!(error.message.contains("models/m is not found") && !error.message.contains("tried"), "{error:?}");
}

#[tokio::test]
async fn a_refusal_below_the_version_is_the_answer() {
    let fake = ScriptedUpstream::start(|asked| match asked.path.starts_with("/v1/") {
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
            let fake = ScriptedUpstream::start(move |_| elsewhere().into_iter().nth(number).unwrap()).await;
            let (_, error) = call(client(kind, fake.url("")).as_ref(), hi()).await;
            let error = error.unwrap();
            let tried = format!("{} was tried too", fake.url(&format!("/{}", version(kind))));
            assert!(!error.retryable && error.message.contains(&tried), "{kind:?}: {error:?}");
            // A base URL with its version is asked there and nowhere else.
            let fake = ScriptedUpstream::start(move |_| elsewhere().into_iter().nth(number).unwrap()).await;
            let (_, error) = call(client(kind, fake.url("/v1")).as_ref(), hi()).await;
            assert!(!error.unwrap().message.contains("tried"), "{kind:?}");
            assert_eq!(posts(&fake.received()).len(), 1, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_web_page_in_place_of_an_answer_is_no_outage() {
    for kind in Kind::ALL {
        for page in [PAGE.to_owned(), format!("\u{feff}\n {PAGE}"), PAGE.to_lowercase()] {
            let fake = ScriptedUpstream::start(move |_| answer(200, "text/event-stream", page.clone())).await;
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
        let fake = ScriptedUpstream::start(move |_| answer(200, "text/event-stream", stream.clone())).await;
        let (events, error) = call(client(Kind::OpenAiCompatible, fake.url("/v1")).as_ref(), hi()).await;
        let error = error.unwrap();
        assert_eq!((error.code, error.message.as_str()), (code, "Overloaded XYZ"), "{end}");
        assert_eq!(error.usage.map(|usage| usage.input_tokens), Some(7), "{end}");
        assert_eq!(events[0], ModelEvent::Text("Half of an ans".to_owned()), "{end}");
        let whole = format!("{{\"choices\":[{end}]}}");
        let fake = ScriptedUpstream::start(move |_| answer(200, "application/json", whole.clone())).await;
        let (_, error) = call(client(Kind::OpenAiCompatible, fake.url("/v1")).as_ref(), hi()).await;
        assert_eq!(error.unwrap().message, "Overloaded XYZ", "{end}, not streamed");
    }
    for none in ["null", "{}", "\"\"", "false"] {
        let end = format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"x\"}},\"finish_reason\":\"stop\",\"error\":{none}}}]}}\n\n"
        );
        let fake = ScriptedUpstream::start(move |_| answer(200, "text/event-stream", end.clone())).await;
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
            let fake = ScriptedUpstream::start(move |_| answer(200, "text/event-stream", stream)).await;
            let (events, error) = call(client(kind, fake.url("/v1")).as_ref(), hi()).await;
            let error = error.unwrap_or_else(|| panic!("{kind:?} {events:?}"));
            assert_eq!((error.code, error.retryable), (ErrorCode::TruncatedStream, true), "{kind:?}");
            assert!(error.message.contains("ended its answer early"), "{kind:?}: {}", error.message);
        }
    }
}
