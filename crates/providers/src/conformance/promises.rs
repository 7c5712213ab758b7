//! The promises, one function each.
#![expect(clippy::unwrap_used, reason = "these are tests: a failure is their purpose")]

use std::time::Duration;

use futures_util::StreamExt as _;
use longhaul_core::error::ErrorCode;
use longhaul_core::message::{Message, ModelAnswer, ModelStopReason, Part, RawJson, ToolCall, ToolSpec};

use super::{
    ConformanceCase, ConformanceUpstream, INPUT_TOKENS, OUTPUT_TOKENS, PARTIAL_TEXT, TEXT, TOOL_CALLS,
};
use crate::{ModelEvent, ModelRequest, ProviderError};

/// The longest wait for something that must happen. No promise waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the request of every promise: a message, and the tools of [`TOOL_CALLS`].
fn request() -> ModelRequest {
    let tools = TOOL_CALLS.map(|(name, _)| ToolSpec {
        name: name.to_owned(),
        description: format!("The tool {name}."),
        parameters: RawJson(r#"{"type":"object","properties":{}}"#.to_owned()),
        read_only: true,
        poll: false,
        source: "builtin".to_owned(),
    });
    ModelRequest {
        messages: vec![Message::user("u", vec![Part::text("hi")])],
        tools: tools.to_vec(),
        ..ModelRequest::default()
    }
}

/// Returns all events of a call and the error at its end. Nothing may follow the end.
async fn call(upstream: &ConformanceUpstream) -> (Vec<ModelEvent>, Option<ProviderError>) {
    let whole = async {
        let mut stream = match upstream.provider.call(request()).await {
            Ok(stream) => stream,
            Err(error) => return (Vec::new(), Some(error)),
        };
        let mut events = Vec::new();
        while let Some(event) = stream.next().await {
            match event {
                Ok(event) => events.push(event),
                Err(error) => {
                    assert!(stream.next().await.is_none(), "an event follows the error {error}");
                    return (events, Some(error));
                }
            }
        }
        (events, None)
    };
    tokio::time::timeout(PATIENCE, whole).await.unwrap_or_else(|_| panic!("the call does not end"))
}

/// Returns the events of a call that succeeds, and its answer. The closing event is the last, and the only one.
async fn answered(upstream: &ConformanceUpstream) -> (Vec<ModelEvent>, ModelAnswer) {
    let (mut events, error) = call(upstream).await;
    assert_eq!(error, None, "the call must succeed");
    let Some(ModelEvent::Finished(answer)) = events.pop() else {
        panic!("the last event must be `Finished`; before it: {events:?}")
    };
    assert!(!has_finished(&events), "`Finished` must come once: {events:?}");
    (events, answer)
}

/// Returns the events and the error of a call that fails. Such a call has no closing event.
async fn failed(upstream: &ConformanceUpstream) -> (Vec<ModelEvent>, ProviderError) {
    let (events, error) = call(upstream).await;
    assert!(!has_finished(&events), "a failed call has no `Finished`: {events:?}");
    (events, error.unwrap_or_else(|| panic!("the call must fail")))
}

fn has_finished(events: &[ModelEvent]) -> bool {
    events.iter().any(|event| matches!(event, ModelEvent::Finished(_)))
}

fn streamed_text(events: &[ModelEvent]) -> String {
    let text = |event: &ModelEvent| match event {
        ModelEvent::Text(text) => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

fn answer_text(answer: &ModelAnswer) -> String {
    answer.parts.iter().filter_map(Part::as_text).collect()
}

/// A text arrives whole: in the events, and in the answer of the one closing event.
pub async fn a_text_arrives_whole_with_one_end(
    make: impl AsyncFn(ConformanceCase) -> Option<ConformanceUpstream>,
) {
    let Some(upstream) = make(ConformanceCase::Text).await else { return };
    let (events, answer) = answered(&upstream).await;
    assert_eq!(streamed_text(&events), TEXT, "the events have the text");
    assert_eq!(answer_text(&answer), TEXT, "the answer has the text");
    assert_eq!(answer.finish, ModelStopReason::Stop);
    let origin = upstream.provider.origin();
    assert!(!origin.provider.is_empty() && !origin.model.is_empty(), "the origin has names: {origin:?}");
}

/// The usage of the answer counts all input, cached or not, and all output.
pub async fn usage_counts_the_whole_input_and_output(
    make: impl AsyncFn(ConformanceCase) -> Option<ConformanceUpstream>,
) {
    let Some(upstream) = make(ConformanceCase::Text).await else { return };
    let (events, answer) = answered(&upstream).await;
    let usage = answer.usage.unwrap_or_else(|| panic!("the server reported usage, the answer has none"));
    assert_eq!((usage.input_tokens, usage.output_tokens), (INPUT_TOKENS, OUTPUT_TOKENS));
    let reported = events.iter().rev().find_map(|event| match event {
        ModelEvent::Usage(usage) => Some(usage),
        _ => None,
    });
    // A provider may report nothing on the way. What it reports last must be what the answer says.
    assert!(reported.is_none_or(|reported| *reported == usage), "{reported:?} against {usage:?}");
}

/// Tool calls keep their order, and their arguments keep their bytes.
pub async fn tool_calls_keep_their_order_and_their_bytes(
    make: impl AsyncFn(ConformanceCase) -> Option<ConformanceUpstream>,
) {
    let Some(upstream) = make(ConformanceCase::ToolCalls).await else { return };
    let (events, answer) = answered(&upstream).await;
    assert_eq!(answer.finish, ModelStopReason::ToolCalls);
    let calls: Vec<&ToolCall> = answer
        .parts
        .iter()
        .filter_map(|part| if let Part::ToolCall(call) = part { Some(call) } else { None })
        .collect();
    let said: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(said, TOOL_CALLS);
    assert!(calls.iter().all(|call| !call.call_id.as_str().is_empty()), "each call has an id: {calls:?}");
    assert_ne!(calls[0].call_id, calls[1].call_id, "two calls of one answer have two ids");
    for (at, (_, arguments)) in TOOL_CALLS.iter().enumerate() {
        let streamed: String = events
            .iter()
            .filter_map(|event| match event {
                ModelEvent::ToolInput { index, delta, .. } if *index == at => Some(delta.as_str()),
                _ => None,
            })
            .collect();
        // Some wires send a call in one piece; their events may leave the arguments to the finished part.
        assert!(streamed.is_empty() || streamed == *arguments, "call {at} streams {streamed:?}");
    }
    for event in &events {
        if let ModelEvent::PartDone(part) = event {
            assert!(answer.parts.contains(part), "a finished part is missing in the answer: {part:?}");
        }
    }
}

/// An answer that reaches the output limit ends with `length` and keeps its text.
pub async fn an_answer_at_the_output_limit_ends_with_length(
    make: impl AsyncFn(ConformanceCase) -> Option<ConformanceUpstream>,
) {
    let Some(upstream) = make(ConformanceCase::Length).await else { return };
    let (_, answer) = answered(&upstream).await;
    assert_eq!((answer_text(&answer).as_str(), answer.finish), (PARTIAL_TEXT, ModelStopReason::Length));
}

/// Text arrives before the answer has ended.
pub async fn text_arrives_before_the_answer_ends(
    make: impl AsyncFn(ConformanceCase) -> Option<ConformanceUpstream>,
) {
    let Some(upstream) = make(ConformanceCase::Held).await else { return };
    let mut stream = upstream.provider.call(request()).await.unwrap();
    let mut text = String::new();
    while text != PARTIAL_TEXT {
        let next = tokio::time::timeout(PATIENCE, stream.next()).await;
        let next = next.unwrap_or_else(|_| panic!("the text {PARTIAL_TEXT:?} is kept back; so far {text:?}"));
        match next.unwrap_or_else(|| panic!("the stream ends, although the server has not")) {
            Ok(ModelEvent::Text(more)) => text.push_str(&more),
            Ok(_) => {}
            Err(error) => panic!("the call fails, although the server has not: {error}"),
        }
        assert!(PARTIAL_TEXT.starts_with(&text), "{text:?}");
    }
}

/// Dropping the stream ends the call at the server.
pub async fn a_dropped_stream_ends_the_call(
    make: impl AsyncFn(ConformanceCase) -> Option<ConformanceUpstream>,
) {
    let Some(mut upstream) = make(ConformanceCase::Held).await else { return };
    let mut stream = upstream.provider.call(request()).await.unwrap();
    let first = tokio::time::timeout(PATIENCE, stream.next()).await;
    assert!(matches!(first, Ok(Some(Ok(_)))), "the call must be under way: {first:?}");
    drop(stream);
    let gone = async {
        match (upstream.disconnect.take(), &upstream.server) {
            (Some(signal), _) => signal.await,
            (None, Some(server)) => server.disconnected().await,
            (None, None) => panic!("set `server` or `disconnect` of the ConformanceUpstream for this case"),
        }
    };
    let gone = tokio::time::timeout(PATIENCE, gone).await;
    gone.unwrap_or_else(|_| panic!("the stream is dropped, and the server still has its client"));
}

/// A request larger than the window is refused as an overflow, which a repetition does not help.
pub async fn an_overflow_is_named_and_not_retryable(
    make: impl AsyncFn(ConformanceCase) -> Option<ConformanceUpstream>,
) {
    let Some(upstream) = make(ConformanceCase::Overflow).await else { return };
    let (events, error) = failed(&upstream).await;
    assert_eq!((error.code, error.retryable), (ErrorCode::ContextOverflow, false), "{error:?}");
    assert_eq!(events, [], "a refused request has no events");
}

/// Too many requests are named, may be repeated, and the wait is the server's.
pub async fn a_rate_limit_is_named_and_retryable(
    make: impl AsyncFn(ConformanceCase) -> Option<ConformanceUpstream>,
) {
    let Some(upstream) = make(ConformanceCase::RateLimit).await else { return };
    let (_, error) = failed(&upstream).await;
    assert_eq!((error.code, error.retryable), (ErrorCode::RateLimitExceeded, true), "{error:?}");
    assert_eq!(error.retry_after, Some(Duration::from_secs(2)), "{error:?}");
    // The loop decides about repetitions. A provider that repeats by itself multiplies the loop's attempts.
    if let Some(server) = &upstream.server {
        assert_eq!(server.bodies().len(), 1, "a provider makes a single call");
    }
}

/// A withheld answer is refused. The text so far stays with the caller, and a repetition does not help.
pub async fn a_withheld_answer_is_refused_and_keeps_its_text(
    make: impl AsyncFn(ConformanceCase) -> Option<ConformanceUpstream>,
) {
    let Some(upstream) = make(ConformanceCase::Withheld).await else { return };
    let (events, error) = failed(&upstream).await;
    assert_eq!((error.code, error.retryable), (ErrorCode::Refused, false), "{error:?}");
    assert_eq!(streamed_text(&events), PARTIAL_TEXT);
}

/// A stream without its closing event is an error that may be repeated, never an answer.
pub async fn a_broken_stream_is_an_error_and_keeps_its_text(
    make: impl AsyncFn(ConformanceCase) -> Option<ConformanceUpstream>,
) {
    let Some(upstream) = make(ConformanceCase::Truncated).await else { return };
    let (events, error) = failed(&upstream).await;
    // Whether the connection broke or the body merely ended is the transport's business, not the caller's.
    assert!(matches!(error.code, ErrorCode::TruncatedStream | ErrorCode::Network), "{error:?}");
    assert!(error.retryable, "{error:?}");
    assert_eq!(streamed_text(&events), PARTIAL_TEXT);
}

/// Rendering sends nothing, gives the same bytes each time, and gives the bytes that the server receives.
pub async fn rendering_is_repeatable_and_is_what_is_sent(
    make: impl AsyncFn(ConformanceCase) -> Option<ConformanceUpstream>,
) {
    let Some(upstream) = make(ConformanceCase::Text).await else { return };
    let rendered = upstream.provider.render(&request()).unwrap();
    assert_eq!(upstream.provider.render(&request()).unwrap(), rendered);
    let Some(server) = &upstream.server else { return };
    assert!(server.bodies().is_empty(), "`render` has asked the server");
    answered(&upstream).await;
    assert_eq!(server.bodies(), [rendered], "`render` gives the bytes of the call");
}
