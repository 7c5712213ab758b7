//! Errors as OpenAI says them.

use bytes::Bytes;
use serde_json::json;

use super::super::{Fault, FaultKind};

pub(super) fn body(fault: &Fault) -> Bytes {
    let kind = match fault.kind {
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
    };
    let code = if fault.kind == FaultKind::NotFound { "model_not_found" } else { fault.kind.code() };
    let param = fault.param.as_deref();
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
