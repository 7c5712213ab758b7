//! Error objects of servers: which bodies are one, and whose clients can read it.

use serde_json::Value;

use super::{Dialect, SseEvent};
use crate::ProviderError;
use crate::server_error::{error_in_place_of_answer, from_answer};

/// Returns the error in a body that is none of the model's answers, whatever its status says. `None` for other content.
pub fn error_in_answer(body: &str) -> Option<ProviderError> {
    let value: Value = serde_json::from_str(body).ok()?;
    // Gemini's compatible API puts the error object into a list.
    let object = value.get(0).unwrap_or(&value);
    match is_error_object(object) {
        true => Some(from_answer(body)),
        false => error_in_place_of_answer(&object.to_string()),
    }
}

/// Returns whether a JSON object is an error by its field `error`, or by its own name. Answers of the Responses wire
/// have an empty field `error`.
fn is_error_object(object: &Value) -> bool {
    object.get("error").is_some_and(says_error)
        || ["type", "object"].iter().any(|name| object.get(name).and_then(Value::as_str) == Some("error"))
}

/// Returns whether a value of `error` means a failure. Some servers send an empty value with everything.
fn says_error(error: &Value) -> bool {
    match error {
        Value::Null => false,
        Value::Bool(is_error) => *is_error,
        Value::Number(number) => number.as_u64() != Some(0),
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// Returns whether an event of a stream is an error that every client of the dialect reads as one.
pub fn is_error_event_of(dialect: Dialect, event: &SseEvent<'_>) -> bool {
    let data = serde_json::from_str::<Value>(&event.data).unwrap_or_default();
    let kind = data.get("type").and_then(Value::as_str).unwrap_or_default();
    match dialect {
        Dialect::Chat => data.get("error").is_some_and(says_error),
        // Anthropic's clients go by the name of the event.
        Dialect::Messages => event.name.as_deref() == Some("error"),
        Dialect::Responses => kind == "error" || kind.starts_with("response."),
    }
}

/// Returns whether a body is an error that every client of the dialect can read: an object `error` with a message, and at
/// Anthropic also with a type.
pub fn is_error_of(dialect: Dialect, body: &[u8]) -> bool {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return false };
    let has_text =
        |name: &str| body.pointer(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let has_type = dialect != Dialect::Messages || has_text("/error/type") && has_text("/type");
    has_text("/error/message") && has_type
}

#[cfg(test)]
mod tests {
    use longhaul_core::error::ErrorCode;

    use super::*;

    #[test]
    fn an_error_is_read_in_every_form() {
        for (body, code) in [
            (r#"{"error":{"type":"rate_limit_error","message":"slow"}}"#, ErrorCode::RateLimitExceeded),
            (r#"{"error":"Context size has been exceeded"}"#, ErrorCode::ContextOverflow),
            (r#"[{"error":{"code":401,"message":"who"}}]"#, ErrorCode::Auth),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#, ErrorCode::ThirdParty),
            (r#"{"object":"error","message":"no such model","code":404}"#, ErrorCode::NotFound),
            (r#"{"detail":"Not authenticated"}"#, ErrorCode::Auth),
            (r#"{"base_resp":{"status_code":1002,"status_msg":"slow"}}"#, ErrorCode::RateLimitExceeded),
        ] {
            assert_eq!(error_in_answer(body).map(|error| error.code), Some(code), "{body}");
        }
    }

    #[test]
    fn other_bodies_are_no_errors() {
        for body in [
            r#"{"id":"r","object":"response","error":null,"output":[]}"#,
            r#"{"choices":[],"error":{}}"#,
            r#"{"half":"#,
            "[]",
            "hello",
        ] {
            assert!(error_in_answer(body).is_none(), "{body}");
        }
    }

    #[test]
    fn a_client_reads_only_error_events_of_its_dialect() {
        let readers = |raw: &str| {
            let event = SseEvent::parse(raw.as_bytes());
            [Dialect::Chat, Dialect::Messages, Dialect::Responses]
                .map(|dialect| is_error_event_of(dialect, &event))
        };
        for (raw, expected) in [
            ("data: {\"error\":{\"message\":\"no\"}}\n\n", [true, false, false]),
            (
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"no\"}}\n\n",
                [true, true, true],
            ),
            ("event: error\ndata: {\"type\":\"error\",\"message\":\"no\"}\n\n", [false, true, true]),
            ("data: {\"type\":\"response.failed\",\"response\":{}}\n\n", [false, false, true]),
            ("data: {\"detail\":\"no\"}\n\n", [false, false, false]),
        ] {
            assert_eq!(readers(raw), expected, "{raw}");
        }
    }

    #[test]
    fn a_client_reads_only_errors_of_its_dialect() {
        let openai = br#"{"error":{"message":"no","code":1}}"#;
        let anthropic = br#"{"type":"error","error":{"type":"api_error","message":"no"}}"#;
        assert!(is_error_of(Dialect::Chat, openai) && is_error_of(Dialect::Responses, openai));
        assert!(!is_error_of(Dialect::Messages, openai));
        for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Messages] {
            assert!(is_error_of(dialect, anthropic), "{dialect:?}");
            for other in [&br#"{"error":"no"}"#[..], br#"{"detail":"no"}"#, b"<html>", br#"[{"error":{}}]"#] {
                assert!(!is_error_of(dialect, other), "{dialect:?}");
            }
        }
    }
}
