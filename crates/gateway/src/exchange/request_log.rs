//! The log of a request for operators, at `info`: arrival, decisions with their reasons, and cost. Lines contain names
//! and figures, but never the text of a conversation.

use std::sync::atomic::{AtomicU64, Ordering};

use longhaul_wire::edit::GatewayError;
use tracing::Span;

use super::prepare::OutboundRequest;
use super::{Exchange, UpstreamAttempt};

/// The counter that numbers the requests of this process.
static NEWEST: AtomicU64 = AtomicU64::new(0);

impl Exchange {
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

    fn duration_ms(&self) -> u64 {
        u64::try_from(self.received_at.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl UpstreamAttempt {
    /// Logs the request that an upstream gets in place of the client's, with the reason.
    pub(super) fn log_outbound(&self, prepared: &OutboundRequest) {
        tracing::info!(
            upstream = self.target.server.upstream.name,
            action = prepared.report.action.as_str(),
            tokens_before = prepared.report.before,
            tokens_after = prepared.report.after,
            window = self.window.tokens,
            why = prepared.report.why,
            "the upstream is asked"
        );
    }

    /// Logs the end of an answer, with the cost of all its calls.
    pub(super) fn log_end(&self, is_whole: bool) {
        let cost = self.totals.cost();
        tracing::info!(
            upstream = self.target.server.upstream.name,
            is_whole,
            calls = cost.calls,
            input_tokens = cost.input_tokens,
            output_tokens = cost.output_tokens,
            is_estimated = cost.is_estimated,
            restarts = cost.restarts,
            omitted = self.omissions.count(),
            duration_ms = self.exchange.duration_ms(),
            "the answer ended"
        );
    }
}
