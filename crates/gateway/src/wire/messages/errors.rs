//! Errors as Anthropic words them.

use serde_json::json;

use crate::wire::{Fault, FaultKind};

/// What Anthropic's own overflow begins with: clients look for it.
const TOO_LONG: &str = "prompt is too long";

/// The dialect's name of a kind of error.
pub fn kind_of(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Invalid
        | FaultKind::ContextOverflow
        | FaultKind::DoesNotFit
        | FaultKind::NoSuchAnswer
        | FaultKind::WrongMethod
        | FaultKind::Unsupported => "invalid_request_error",
        FaultKind::Auth => "authentication_error",
        FaultKind::Forbidden => "permission_error",
        FaultKind::NotFound | FaultKind::Absent | FaultKind::NoSuchPath => "not_found_error",
        FaultKind::TooLarge => "request_too_large",
        FaultKind::RateLimit => "rate_limit_error",
        FaultKind::Timeout | FaultKind::TooSlow => "timeout_error",
        FaultKind::Unreachable | FaultKind::Upstream | FaultKind::Unavailable | FaultKind::Internal => {
            "api_error"
        }
    }
}

/// An error as JSON text.
pub(super) fn body(fault: &Fault) -> String {
    let field = fault.param.as_ref().map(|param| format!("{param}: ")).unwrap_or_default();
    let overflow = fault.kind == FaultKind::ContextOverflow && !fault.message.contains(TOO_LONG);
    let known = if overflow { format!("{TOO_LONG}: ") } else { String::new() };
    let message = format!("{known}{field}{}", fault.message);
    json!({
        "type": "error",
        "error": { "type": kind_of(fault.kind), "message": message },
        "request_id": null,
    })
    .to_string()
}
