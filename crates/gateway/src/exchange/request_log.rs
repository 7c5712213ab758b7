//! The log of a request for operators, at `info`: arrival, decisions with their reasons, and cost. Lines contain names
//! and figures, but never the text of a conversation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use longhaul_wire::edit::GatewayError;
use tracing::Span;

use super::ProxiedRequest;

/// The counter for numbering the requests of the process.
static NEWEST: AtomicU64 = AtomicU64::new(0);

impl ProxiedRequest {
    /// Returns the span of every log line about this request.
    pub(super) fn span(&self) -> Span {
        let number = NEWEST.fetch_add(1, Ordering::Relaxed) + 1;
        tracing::info_span!("request", number, model = self.envelope.model)
    }

    /// Logs the arrival of a request.
    pub(super) fn log_arrival(&self) {
        tracing::info!(
            wire = self.wire.dialect().as_str(),
            bytes = self.envelope.bytes.len(),
            items = self.envelope.items.len(),
            stream = self.envelope.stream,
            max_output = self.envelope.max_output,
            upstreams = self.targets.len(),
            "a request came"
        );
    }

    /// Logs the error that a request got instead of an answer.
    pub(super) fn log_failure(&self, fault: &GatewayError) {
        let (status, duration_ms) = (fault.status.as_u16(), self.duration_ms());
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

    pub(super) fn duration_ms(&self) -> u64 {
        whole_ms(self.received_at.elapsed())
    }
}

/// Returns a duration in milliseconds for a log line.
pub(super) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
