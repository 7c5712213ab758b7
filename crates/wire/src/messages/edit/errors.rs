//! Errors in Anthropic's form.

use http::StatusCode;
use serde_json::json;

use crate::edit::{GatewayError, GatewayErrorKind};

/// The beginning of Anthropic's own overflow message, a text for clients to search.
const TOO_LONG: &str = "prompt is too long";

/// Returns the dialect's type of an error. The list is that of Anthropic's documentation.
fn error_type(fault: &GatewayError) -> &'static str {
    match fault.kind {
        GatewayErrorKind::Invalid
        | GatewayErrorKind::ContextOverflow
        | GatewayErrorKind::DoesNotFit
        | GatewayErrorKind::NoSuchAnswer
        | GatewayErrorKind::WrongMethod
        | GatewayErrorKind::Unsupported => "invalid_request_error",
        GatewayErrorKind::Auth => "authentication_error",
        GatewayErrorKind::Billing => "billing_error",
        GatewayErrorKind::Forbidden => "permission_error",
        GatewayErrorKind::NotFound | GatewayErrorKind::Absent | GatewayErrorKind::NoSuchPath => {
            "not_found_error"
        }
        GatewayErrorKind::TooLarge => "request_too_large",
        GatewayErrorKind::RateLimit => "rate_limit_error",
        GatewayErrorKind::Timeout | GatewayErrorKind::TooSlow => "timeout_error",
        GatewayErrorKind::Overloaded => "overloaded_error",
        GatewayErrorKind::Upstream if fault.status == StatusCode::GATEWAY_TIMEOUT => "timeout_error",
        // Anthropic uses this type for all further statuses of this class.
        GatewayErrorKind::Upstream if fault.status.is_client_error() => "invalid_request_error",
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
        "error": { "type": error_type(fault), "message": message },
        "request_id": null,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_anthropics_type_for_its_kind() {
        for (kind, named) in [
            (GatewayErrorKind::Invalid, "invalid_request_error"),
            (GatewayErrorKind::Auth, "authentication_error"),
            (GatewayErrorKind::Billing, "billing_error"),
            (GatewayErrorKind::Forbidden, "permission_error"),
            (GatewayErrorKind::NotFound, "not_found_error"),
            (GatewayErrorKind::TooLarge, "request_too_large"),
            (GatewayErrorKind::RateLimit, "rate_limit_error"),
            (GatewayErrorKind::Internal, "api_error"),
            (GatewayErrorKind::Timeout, "timeout_error"),
            (GatewayErrorKind::Overloaded, "overloaded_error"),
        ] {
            assert_eq!(error_type(&GatewayError::new(kind, "no")), named, "{kind:?}");
        }
    }
}
