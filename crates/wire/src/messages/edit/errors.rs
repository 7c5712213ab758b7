//! Errors in Anthropic's form.

use serde_json::json;

use crate::edit::{GatewayError, GatewayErrorKind};

/// The beginning of Anthropic's own overflow message, a text for clients to search.
const TOO_LONG: &str = "prompt is too long";

/// Returns the dialect's name of a kind of error.
pub fn kind_of(kind: GatewayErrorKind) -> &'static str {
    match kind {
        GatewayErrorKind::Invalid
        | GatewayErrorKind::ContextOverflow
        | GatewayErrorKind::DoesNotFit
        | GatewayErrorKind::NoSuchAnswer
        | GatewayErrorKind::WrongMethod
        | GatewayErrorKind::Unsupported => "invalid_request_error",
        GatewayErrorKind::Auth => "authentication_error",
        GatewayErrorKind::Forbidden => "permission_error",
        GatewayErrorKind::NotFound | GatewayErrorKind::Absent | GatewayErrorKind::NoSuchPath => {
            "not_found_error"
        }
        GatewayErrorKind::TooLarge => "request_too_large",
        GatewayErrorKind::RateLimit => "rate_limit_error",
        GatewayErrorKind::Timeout | GatewayErrorKind::TooSlow => "timeout_error",
        GatewayErrorKind::Unreachable
        | GatewayErrorKind::Upstream
        | GatewayErrorKind::Unavailable
        | GatewayErrorKind::Internal => "api_error",
    }
}

/// Returns an error as JSON text.
pub(super) fn body(fault: &GatewayError) -> String {
    // Anthropic's errors have no field for the parameter, so the message names it.
    let field = fault.param.as_ref().map(|param| format!("{param}: ")).unwrap_or_default();
    let overflow = fault.kind == GatewayErrorKind::ContextOverflow && !fault.message.contains(TOO_LONG);
    let known = if overflow { format!("{TOO_LONG}: ") } else { String::new() };
    let message = format!("{known}{field}{}", fault.message);
    json!({
        "type": "error",
        "error": { "type": kind_of(fault.kind), "message": message },
        "request_id": null,
    })
    .to_string()
}
