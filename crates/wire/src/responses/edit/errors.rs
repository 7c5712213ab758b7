//! Errors in OpenAI's form for this dialect.

use serde_json::{Value, json};

use crate::edit::{GatewayError, PartialResponse, openai_error};

/// Returns an error as JSON text.
pub(super) fn body(fault: &GatewayError) -> String {
    openai_error::body(fault).to_string()
}

/// Returns the error as events of a stream: an error event, and the failed response with the stream's id and
/// event numbers. Some clients look for the one, some for the other.
pub(super) fn events(fault: &GatewayError, seen: &PartialResponse) -> String {
    let (code, message) = (fault.kind.code(), fault.message.as_str());
    // The numbers go on after the newest one that the client has seen.
    let number = seen.number.map_or(0, |newest| newest + 1);
    let error = json!({
        "type": "error", "code": code, "message": message, "param": fault.param, "sequence_number": number,
    });
    let failed = json!({
        "type": "response.failed",
        "sequence_number": number + 1,
        "response": {
            "id": seen.id.as_deref().unwrap_or("resp_failed"),
            "object": "response",
            "status": "failed",
            "error": { "code": openai_error::failed_response_code(fault), "message": message },
            "incomplete_details": null,
            "output": [],
            "usage": null,
        },
    });
    sse_event("error", &error) + &sse_event("response.failed", &failed)
}

fn sse_event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
