//! Errors as OpenAI says them.

use bytes::Bytes;
use serde_json::json;

use super::super::{Fault, FaultKind};

pub(super) fn body(fault: &Fault) -> Bytes {
    let kind = match fault.kind {
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
    };
    let (code, param) = (fault.kind.code(), fault.param.as_deref());
    json!({ "error": { "message": fault.message, "type": kind, "param": param, "code": code } })
        .to_string()
        .into()
}

/// In a stream: the error as data, and nothing that would call the answer complete but its end.
pub(super) fn event(fault: &Fault) -> Bytes {
    let mut out = b"data: ".to_vec();
    out.extend_from_slice(&body(fault));
    out.extend_from_slice(b"\n\ndata: [DONE]\n\n");
    out.into()
}
