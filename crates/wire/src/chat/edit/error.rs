//! Errors as OpenAI says them.

use bytes::Bytes;
use serde_json::json;

use crate::edit::{GatewayError, GatewayErrorKind};

pub(super) fn body(fault: &GatewayError) -> Bytes {
    let kind = match fault.kind {
        // OpenAI says so of a wrong key too.
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
    };
    let (code, param) = (fault.kind.code(), fault.param.as_deref());
    json!({ "error": { "message": fault.message, "type": kind, "param": param, "code": code } })
        .to_string()
        .into()
}

/// In a stream: the error as data, and nothing that would call the answer complete but its end.
pub(super) fn event(fault: &GatewayError) -> Bytes {
    let mut out = b"data: ".to_vec();
    out.extend_from_slice(&body(fault));
    out.extend_from_slice(b"\n\ndata: [DONE]\n\n");
    out.into()
}
