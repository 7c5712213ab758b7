//! Errors as OpenAI words them in this dialect.

use serde_json::{Value, json};

use crate::wire::{Fault, FaultKind, Seen};

fn kind_of(kind: FaultKind) -> &'static str {
    match kind {
        // OpenAI says so of a wrong key too.
        FaultKind::Invalid
        | FaultKind::ContextOverflow
        | FaultKind::DoesNotFit
        | FaultKind::Auth
        | FaultKind::Forbidden
        | FaultKind::NotFound
        | FaultKind::Absent
        | FaultKind::NoSuchPath
        | FaultKind::WrongMethod
        | FaultKind::Unsupported
        | FaultKind::NoSuchAnswer
        | FaultKind::TooLarge
        | FaultKind::TooSlow => "invalid_request_error",
        FaultKind::RateLimit => "rate_limit_error",
        FaultKind::Unreachable
        | FaultKind::Timeout
        | FaultKind::Upstream
        | FaultKind::Unavailable
        | FaultKind::Internal => "server_error",
    }
}

/// An error as JSON text.
pub(super) fn body(fault: &Fault) -> String {
    let (kind, code) = (kind_of(fault.kind), fault.kind.code());
    json!({ "error": { "message": fault.message, "type": kind, "param": fault.param, "code": code } })
        .to_string()
}

/// Inside a stream: the error, and the response as one that failed, by the name and number that it has there. Clients
/// look for the one or the other.
pub(super) fn events(fault: &Fault, seen: &Seen) -> String {
    let (code, message) = (fault.kind.code(), fault.message.as_str());
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
    let event = |name: &str, data: &Value| format!("event: {name}\ndata: {data}\n\n");
    event("error", &error) + &event("response.failed", &failed)
}
