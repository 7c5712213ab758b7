//! The log of a request for operators, at `info`: arrival, decisions with their reasons, and cost. Lines contain names
//! and figures, but never the text of a conversation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use longhaul_wire::edit::GatewayError;
use tracing::Span;

use super::ProxiedRequest;

/// The counter for numbering the requests of the process.
static NEWEST: AtomicU64 = AtomicU64::new(0);

/// Returns the span of every log line about this request.
pub(super) fn span(request: &ProxiedRequest) -> Span {
    let number = NEWEST.fetch_add(1, Ordering::Relaxed) + 1;
    tracing::info_span!("request", number, model = request.envelope.model)
}

/// Logs the arrival of a request.
pub(super) fn log_arrival(request: &ProxiedRequest) {
    tracing::info!(
        wire = request.wire.dialect().as_str(),
        bytes = request.envelope.bytes.len(),
        items = request.envelope.items.len(),
        stream = request.envelope.stream,
        max_output = request.envelope.max_output,
        upstreams = request.targets.len(),
        "a request came"
    );
}

/// Logs the error that a request got instead of an answer.
pub(super) fn log_failure(request: &ProxiedRequest, fault: &GatewayError) {
    let (status, duration_ms) = (fault.status.as_u16(), duration_ms(request));
    match fault.status.is_server_error() {
        true => {
            tracing::warn!(status, kind = ?fault.kind, duration_ms, "a request failed: {}", fault.message)
        }
        // A client's own mistake is no fault of the gateway, so it is not logged as a warning.
        false => {
            tracing::info!(status, kind = ?fault.kind, duration_ms, "a request failed: {}", fault.message)
        }
    }
}

/// Returns the milliseconds since the request came.
pub(super) fn duration_ms(request: &ProxiedRequest) -> u64 {
    whole_ms(request.received_at.elapsed())
}

/// Returns a duration in milliseconds for a log line.
pub(super) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
