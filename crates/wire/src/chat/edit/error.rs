//! Errors in OpenAI's form.

use bytes::Bytes;

use crate::edit::{GatewayError, openai_error};

pub(super) fn body(fault: &GatewayError) -> Bytes {
    openai_error::body(fault).to_string().into()
}

/// Returns an error inside a stream: the error as data, then `[DONE]`, and no chunk to complete the answer.
pub(super) fn event(fault: &GatewayError) -> Bytes {
    let mut out = b"data: ".to_vec();
    out.extend_from_slice(&body(fault));
    out.extend_from_slice(b"\n\ndata: [DONE]\n\n");
    out.into()
}
