//! Answers with an unreadable or oversized part: no content is lost in silence, over every wire.

use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::Part;
use longhaul_providers::connect::{Kind, connect};
use longhaul_providers::http::Secret;
use longhaul_providers::{ModelEndpoint, ModelEvent};
use longhaul_testkit::{ReceivedRequest, ScriptedUpstream};
use serde_json::Value;

use crate::answers::{End, answer, stream};
use crate::wire::{Outcome, call, finished, hi, patient};

pub(crate) async fn against<F>(kind: Kind, reply: F) -> Outcome
where
    F: Fn(&ReceivedRequest) -> Response<Body> + Clone + Send + Sync + 'static,
{
    let fake = ScriptedUpstream::start(reply).await;
    let mut endpoint = ModelEndpoint::new(kind.as_str(), fake.url("/v1"), "m");
    endpoint.timeouts = patient();
    endpoint.api_key = Some(Secret::new("sk-very-secret-0123456789"));
    call(connect(kind, endpoint).unwrap().as_ref(), hi()).await
}

/// Pieces of text, or of a call's arguments, in the form of each wire: already escaped for JSON.
fn told(kind: Kind, pieces: &[&str], as_arguments: bool) -> Vec<String> {
    let mut payloads: Vec<String> = match (kind, as_arguments) {
        (Kind::Anthropic, false) => vec![
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#.into(),
        ],
        (Kind::Anthropic, true) => vec![
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"x","input":{}}}"#.into(),
        ],
        (Kind::OpenAi, false) => vec![
            r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"m","type":"message"}}"#.into(),
        ],
        (Kind::OpenAi, true) => vec![
            r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"m","type":"function_call","call_id":"c","name":"x"}}"#.into(),
        ],
        _ => Vec::new(),
    };
    payloads.extend(pieces.iter().map(|piece| match (kind, as_arguments) {
        (Kind::Anthropic, false) => {
            format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{piece}"}}}}"#)
        }
        (Kind::Anthropic, true) => format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"input_json_delta","partial_json":"{piece}"}}}}"#
        ),
        (Kind::OpenAi, false) => {
            format!(r#"{{"type":"response.output_text.delta","output_index":0,"delta":"{piece}"}}"#)
        }
        (Kind::OpenAi, true) => {
            format!(r#"{{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{piece}"}}"#)
        }
        // The arguments of Gemini and Ollama come as an object in one event, so there are no pieces of them here.
        (Kind::Gemini, _) => {
            format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{piece}"}}]}}}}]}}"#)
        }
        (Kind::Ollama, _) => format!(r#"{{"message":{{"content":"{piece}"}},"done":false}}"#),
        (Kind::OpenAiCompatible, false) => {
            format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{piece}"}}}}]}}"#)
        }
        (Kind::OpenAiCompatible, true) => format!(
            r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"c","function":{{"name":"x","arguments":"{piece}"}}}}]}}}}]}}"#
        ),
    }));
    payloads.extend(end(kind).iter().map(|payload| (*payload).to_owned()));
    payloads
}

fn end(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Anthropic => &[
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
            r#"{"type":"message_stop"}"#,
        ],
        Kind::OpenAi => &[r#"{"type":"response.completed","response":{"status":"completed"}}"#],
        Kind::Gemini => &[r#"{"candidates":[{"finishReason":"STOP"}]}"#],
        Kind::Ollama => &[r#"{"message":{},"done":true,"done_reason":"stop"}"#],
        Kind::OpenAiCompatible => &[r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#, "[DONE]"],
    }
}

async fn streamed(kind: Kind, payloads: &[String]) -> Outcome {
    let framed = |payload: &String| match kind {
        Kind::Ollama => format!("{payload}\n"),
        _ => format!("data: {payload}\n\n"),
    };
    let pieces: Vec<String> = payloads.iter().map(framed).collect();
    against(kind, move |_| stream(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), End::Whole)).await
}

fn shown(events: &[ModelEvent]) -> String {
    let text =
        |event: &ModelEvent| if let ModelEvent::Text(text) = event { text.clone() } else { String::new() };
    events.iter().map(text).collect()
}

#[tokio::test]
async fn text_is_kept_where_a_character_is_cut_in_two() {
    for kind in Kind::ALL {
        // A pair over two events, a high half that stays alone, a low half that stays alone, and a half at the very
        // end.
        let cut = told(kind, &["file-A \\ud83d", "\\ude00 file-B \\ud83d", "and \\udc00 C\\ud83d"], false);
        let outcome = streamed(kind, &cut).await;
        let expected = "file-A 😀 file-B \u{fffd}and \u{fffd} C\u{fffd}";
        assert_eq!(shown(&outcome.0), expected, "{kind:?}: as it streams");
        assert_eq!(finished(outcome).parts, [Part::text(expected)], "{kind:?}");
    }
}

#[tokio::test]
async fn arguments_are_kept_where_a_character_is_cut_in_two() {
    for kind in [Kind::OpenAiCompatible, Kind::OpenAi, Kind::Anthropic] {
        let cut = told(kind, &[r#"{\"c\":\"one \ud83d"#, r#"\ude00 two \udc00\"}"#], true);
        let found = finished(streamed(kind, &cut).await);
        let Part::ToolCall(call) = &found.parts[0] else { panic!("{kind:?}: {found:?}") };
        assert_eq!(call.arguments, "{\"c\":\"one 😀 two \u{fffd}\"}", "{kind:?}");
    }
    let whole = [
        (
            Kind::Gemini,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"x","args":{"c":"\ud83d!"}}}]}}]}"#,
        ),
        (
            Kind::Ollama,
            r#"{"message":{"tool_calls":[{"function":{"name":"x","arguments":{"c":"\ud83d!"}}}]}}"#,
        ),
    ];
    for (kind, payload) in whole {
        let payloads: Vec<String> =
            [payload].iter().chain(end(kind)).map(|payload| (*payload).to_owned()).collect();
        let found = finished(streamed(kind, &payloads).await);
        let Part::ToolCall(call) = &found.parts[0] else { panic!("{kind:?}: {found:?}") };
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
        assert_eq!(arguments["c"], "\u{fffd}!", "{kind:?}");
    }
}

#[tokio::test]
async fn a_whole_answer_with_half_a_character_is_kept() {
    let body = r#"{"choices":[{"message":{"content":"a \ud83d b"},"finish_reason":"stop"}]}"#;
    let outcome = against(Kind::OpenAiCompatible, move |_| answer(200, "application/json", body)).await;
    assert_eq!(finished(outcome).parts, [Part::text("a \u{fffd} b")]);
}

/// (wire, an event whose content nobody can read)
const GARBAGE: &[(Kind, &str)] = &[
    (Kind::OpenAiCompatible, r#"{"choices":7}"#),
    (Kind::OpenAiCompatible, r#"{"choices":[7]}"#),
    (Kind::OpenAiCompatible, r#"{"choices":[{"index":"0","delta":{"content":"lost"}}]}"#),
    (Kind::OpenAiCompatible, r#"{"choices":[{"delta":"lost"}]}"#),
    (Kind::OpenAiCompatible, r#"{"choices":[{"delta":{"content":{"value":"lost"}}}]}"#),
    (Kind::OpenAiCompatible, r#"{"choices":[{"delta":{"content":[{"value":"lost"}]}}]}"#),
    (Kind::OpenAiCompatible, r#"{"choices":[{"delta":{"tool_calls":"lost"}}]}"#),
    (Kind::OpenAiCompatible, r#"{"choices":[{"delta":{"tool_calls":[{"index":"0","function":{}}]}}]}"#),
    (Kind::Anthropic, r#"{"type":"content_block_start","index":0,"content_block":"lost"}"#),
    (Kind::Anthropic, r#"{"type":"content_block_delta","index":0,"delta":"lost"}"#),
    (
        Kind::Anthropic,
        r#"{"type":"content_block_delta","index":9,"delta":{"type":"text_delta","text":"lost"}}"#,
    ),
    (Kind::Anthropic, r#"{"type":"message","content":"lost"}"#),
    (Kind::Gemini, r#"{"candidates":"lost"}"#),
    (Kind::Gemini, r#"{"candidates":["lost"]}"#),
    (Kind::Gemini, r#"{"candidates":[{"content":"lost"}]}"#),
    (Kind::Gemini, r#"{"candidates":[{"content":{"parts":["lost"]}}]}"#),
    (Kind::Ollama, r#"{"message":"lost"}"#),
    (Kind::Ollama, r#"{"message":{"content":["lost"]}}"#),
    (Kind::Ollama, r#"{"message":{"tool_calls":["lost"]}}"#),
    (Kind::OpenAi, r#"{"type":"response.output_item.done","item":"lost"}"#),
    (Kind::OpenAi, r#"{"type":"response.completed","response":"lost"}"#),
    (Kind::OpenAi, r#"{"type":"response.completed","response":{"status":"completed","output":["lost"]}}"#),
];

#[tokio::test]
async fn content_that_nobody_can_read_is_an_error() {
    for (kind, garbage) in GARBAGE {
        let payloads: Vec<String> =
            [garbage].into_iter().chain(end(*kind)).map(|payload| (*payload).to_owned()).collect();
        let (_, error) = streamed(*kind, &payloads).await;
        let error = error.unwrap_or_else(|| panic!("{kind:?}: {garbage} was passed over"));
        assert_eq!(error.code, ErrorCode::ThirdParty, "{kind:?}: {garbage}");
        assert!(error.message.starts_with("the stream holds an unreadable `"), "{kind:?}: {error}");
    }
}

#[tokio::test]
async fn what_says_nothing_is_let_pass() {
    for (kind, nothing) in [
        (Kind::Anthropic, r#"{"type": "ping"}"#),
        (Kind::Anthropic, r#"{"type":"brand_new","x":1}"#),
        // An empty value of the wrong type is how some servers write absent content.
        (Kind::OpenAiCompatible, r#"{"choices":[{"delta":{"content":null,"tool_calls":{}}}]}"#),
        (Kind::Gemini, r#"{"candidates":[],"brandNew":1}"#),
        (Kind::Ollama, r#"{"model":"m","done":false}"#),
        (Kind::OpenAi, r#"{"type":"response.in_progress","response":{}}"#),
    ] {
        let mut payloads = told(kind, &["a"], false);
        payloads.insert(0, nothing.to_owned());
        assert_eq!(finished(streamed(kind, &payloads).await).parts, [Part::text("a")], "{kind:?}");
    }
}

/// A body of `count` equal chunks.
fn flood(chunk: &Bytes, count: usize) -> Response<Body> {
    let chunks = std::iter::repeat_n(chunk.clone(), count).map(Ok::<_, std::io::Error>);
    answer(200, "text/event-stream", Body::from_stream(futures_util::stream::iter(chunks)))
}

#[tokio::test]
async fn an_answer_that_says_too_much_is_given_up() {
    let mebibyte = "x".repeat(1 << 20);
    let event = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{mebibyte}\"}}}}]}}\n\n");
    let event = Bytes::from(event);
    let (events, error) = against(Kind::OpenAiCompatible, move |_| flood(&event, 40)).await;
    let error = error.unwrap();
    assert_eq!(
        (error.code, error.message.as_str(), error.retryable),
        (ErrorCode::ThirdParty, "what the answer says was given up after 32 MiB", false)
    );
    assert_eq!(shown(&events).len(), 32 << 20, "what was said until then is delivered");
}

#[tokio::test]
async fn an_event_that_does_not_end_is_given_up() {
    let mebibyte = Bytes::from("x".repeat(1 << 20));
    for (kind, start, limit) in [
        (Kind::OpenAiCompatible, "data: ", 16),
        (Kind::Ollama, "{\"a\":\"", 16),
        // Gemini sends a picture in one event, so its limit is higher.
        (Kind::Gemini, "data: ", 64),
    ] {
        let chunk = mebibyte.clone();
        let (_, error) = against(kind, move |_| {
            let rest = std::iter::repeat_n(chunk.clone(), limit + 4);
            let chunks = std::iter::once(Bytes::from(start)).chain(rest).map(Ok::<_, std::io::Error>);
            answer(200, "text/event-stream", Body::from_stream(futures_util::stream::iter(chunks)))
        })
        .await;
        let error = error.unwrap();
        assert_eq!(
            error.message,
            format!("one event of the answer was given up after {limit} MiB"),
            "{kind:?}"
        );
        assert!(!error.retryable, "{kind:?}: it would be as long again");
    }
}

#[tokio::test]
async fn a_redirect_is_named_and_not_followed() {
    // 303 would turn the call into a GET, and each of the five may take the key elsewhere.
    for status in [301, 302, 303, 307, 308] {
        let elsewhere = ScriptedUpstream::start(|_| answer(200, "application/json", "{}")).await;
        let target = elsewhere.url("/stolen?key=1");
        let (_, error) = against(Kind::OpenAiCompatible, move |_| {
            let mut response = answer(status, "text/html", "");
            response.headers_mut().insert("location", target.parse().unwrap());
            response
        })
        .await;
        let error = error.unwrap();
        let words = format!(
            "the server redirects to {}; redirects are not followed, so that the key is not sent elsewhere: set \
             `base_url` to the server that answers (HTTP {status})",
            elsewhere.url("")
        );
        assert_eq!((error.code, error.message), (ErrorCode::ThirdParty, words));
        assert!(!error.retryable && elsewhere.received().is_empty(), "{status}");
    }
    let (_, error) = against(Kind::Ollama, |_| {
        let mut response = answer(308, "text/html", "");
        response.headers_mut().insert("location", "/other".parse().unwrap());
        response
    })
    .await;
    let message = error.unwrap().message;
    assert!(message.starts_with("the server redirects to another path of http://127.0.0.1:"), "{message}");
}
