//! Errors as OpenAI words them in this dialect.

use serde_json::{Value, json};

use crate::wire::{Fault, FaultKind};

fn kind_of(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Invalid
        | FaultKind::ContextOverflow
        | FaultKind::DoesNotFit
        | FaultKind::NotFound
        | FaultKind::NoSuchAnswer
        | FaultKind::TooLarge => "invalid_request_error",
        FaultKind::Auth => "authentication_error",
        FaultKind::RateLimit => "rate_limit_error",
        FaultKind::Unreachable | FaultKind::Timeout | FaultKind::Upstream | FaultKind::Internal => {
            "server_error"
        }
    }
}

/// An error as JSON text.
pub(super) fn body(fault: &Fault) -> String {
    let (kind, code) = (kind_of(fault.kind), fault.kind.code());
    json!({ "error": { "message": fault.message, "type": kind, "param": fault.param, "code": code } })
        .to_string()
}

/// Inside a stream: the error, and the response as one that failed. Clients look for the one or the other.
pub(super) fn events(fault: &Fault) -> String {
    let (code, message) = (fault.kind.code(), fault.message.as_str());
    let error = json!({ "type": "error", "code": code, "message": message, "param": fault.param });
    let failed = json!({
        "type": "response.failed",
        "response": {
            "id": "resp_failed",
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
