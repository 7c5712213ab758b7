//! Errors in OpenAI's form.

use bytes::Bytes;
use serde_json::json;

use crate::edit::{GatewayError, GatewayErrorKind};

pub(super) fn body(fault: &GatewayError) -> Bytes {
    let kind = match fault.kind {
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
    };
    let (code, param) = (fault.kind.code(), fault.param.as_deref());
    json!({ "error": { "message": fault.message, "type": kind, "param": param, "code": code } })
        .to_string()
        .into()
}

/// Returns an error inside a stream: the error as data, then `[DONE]`, and no chunk to complete the answer.
pub(super) fn event(fault: &GatewayError) -> Bytes {
    let mut out = b"data: ".to_vec();
    out.extend_from_slice(&body(fault));
    out.extend_from_slice(b"\n\ndata: [DONE]\n\n");
    out.into()
}
