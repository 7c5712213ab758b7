//! Errors in OpenAI's form for this dialect.

use serde_json::{Value, json};

use crate::edit::{GatewayError, GatewayErrorKind, PartialResponse};

fn kind_of(kind: GatewayErrorKind) -> &'static str {
    match kind {
        // OpenAI answers a wrong key with this type too.
        GatewayErrorKind::Invalid
        | GatewayErrorKind::ContextOverflow
        | GatewayErrorKind::DoesNotFit
        | GatewayErrorKind::Auth
        | GatewayErrorKind::Forbidden
        | GatewayErrorKind::NotFound
        | GatewayErrorKind::Absent
        | GatewayErrorKind::NoSuchPath
        | GatewayErrorKind::WrongMethod
        | GatewayErrorKind::Unsupported
        | GatewayErrorKind::NoSuchAnswer
        | GatewayErrorKind::TooLarge
        | GatewayErrorKind::TooSlow => "invalid_request_error",
        GatewayErrorKind::RateLimit => "rate_limit_error",
        GatewayErrorKind::Unreachable
        | GatewayErrorKind::Timeout
        | GatewayErrorKind::Upstream
        | GatewayErrorKind::Unavailable
        | GatewayErrorKind::Internal => "server_error",
    }
}

/// Returns an error as JSON text.
pub(super) fn body(fault: &GatewayError) -> String {
    let (kind, code) = (kind_of(fault.kind), fault.kind.code());
    json!({ "error": { "message": fault.message, "type": kind, "param": fault.param, "code": code } })
        .to_string()
}

/// Returns the error as events of a stream: an error event, and the failed response with the stream's id and
/// event numbers. Some clients look for the one, some for the other.
pub(super) fn events(fault: &GatewayError, seen: &PartialResponse) -> String {
    let (code, message) = (fault.kind.code(), fault.message.as_str());
    // The numbers go on after the newest one that the client has seen.
    let number = seen.number.map_or(0, |newest| newest + 1);
    let error = json!({
        "type": "error", "code": code, "message": message, "param": fault.param, "sequence_number": number,
    });
    let failed = json!({
        "type": "response.failed",
        "sequence_number": number + 1,
        "response": {
            "id": seen.id.as_deref().unwrap_or("resp_failed"),
            "object": "response",
            "status": "failed",
            "error": { "code": code, "message": message },
            "incomplete_details": null,
            "output": [],
            "usage": null,
        },
    });
    sse_event("error", &error) + &sse_event("response.failed", &failed)
}

fn sse_event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
