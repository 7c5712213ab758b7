//! Errors in the form that OpenAI's two wires share.

use serde_json::{Value, json};

use super::{GatewayError, GatewayErrorKind};

/// Returns an error as the body of an answer.
pub(crate) fn body(fault: &GatewayError) -> Value {
    let (kind, code) = (error_type(fault), fault.kind.code());
    json!({ "error": { "message": fault.message, "type": kind, "param": fault.param, "code": code } })
}

/// Returns the type of an error.
fn error_type(fault: &GatewayError) -> &'static str {
    match fault.kind {
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
        GatewayErrorKind::Billing => "insufficient_quota",
        GatewayErrorKind::RateLimit => "rate_limit_error",
        // A conflict, for example: the status is the upstream's own.
        GatewayErrorKind::Upstream if fault.status.is_client_error() => "invalid_request_error",
        GatewayErrorKind::Unreachable
        | GatewayErrorKind::Timeout
        | GatewayErrorKind::Overloaded
        | GatewayErrorKind::Upstream
        | GatewayErrorKind::Unavailable
        | GatewayErrorKind::Internal => "server_error",
    }
}

/// Returns the code of a failed response. OpenAI's list has one code for servers, one for limits, and one for requests
/// (`ResponseError` of its SDKs). Codex also knows the codes of an overflow and of a used-up quota, and repeats a
/// request after every code that it does not know.
pub(crate) fn failed_response_code(fault: &GatewayError) -> &'static str {
    match fault.kind {
        GatewayErrorKind::RateLimit | GatewayErrorKind::Billing | GatewayErrorKind::ContextOverflow => {
            fault.kind.code()
        }
        _ if error_type(fault) == "invalid_request_error" => "invalid_prompt",
        _ => "server_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_a_published_type_and_a_failed_response_a_published_code() {
        for (kind, named, code) in [
            (GatewayErrorKind::Invalid, "invalid_request_error", "invalid_prompt"),
            (GatewayErrorKind::DoesNotFit, "invalid_request_error", "invalid_prompt"),
            (GatewayErrorKind::ContextOverflow, "invalid_request_error", "context_length_exceeded"),
            (GatewayErrorKind::Auth, "invalid_request_error", "invalid_prompt"),
            (GatewayErrorKind::Billing, "insufficient_quota", "insufficient_quota"),
            (GatewayErrorKind::RateLimit, "rate_limit_error", "rate_limit_exceeded"),
            (GatewayErrorKind::Overloaded, "server_error", "server_error"),
            (GatewayErrorKind::Unreachable, "server_error", "server_error"),
            (GatewayErrorKind::Timeout, "server_error", "server_error"),
        ] {
            let fault = GatewayError::new(kind, "no");
            assert_eq!((error_type(&fault), failed_response_code(&fault)), (named, code), "{kind:?}");
            assert_eq!(body(&fault)["error"]["type"], named, "{kind:?}");
        }
    }
}
