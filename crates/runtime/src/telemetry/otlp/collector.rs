//! The shutdown of a collector's providers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;

use super::post::CollectorClient;

/// The maximum time for sending the data that still wait at the end.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// A collector, and the providers that send to it alone.
#[derive(Debug)]
pub(in crate::telemetry) struct OtlpCollector {
    pub(in crate::telemetry) tracers: SdkTracerProvider,
    pub(in crate::telemetry) meters: SdkMeterProvider,
    pub(super) post: Arc<CollectorClient>,
}

impl OtlpCollector {
    /// Sends the waiting data of both kinds at once, on blocking threads because the SDK blocks.
    pub(in crate::telemetry) async fn close(self) {
        let Self { tracers, meters, post } = self;
        let began = Instant::now();
        // A shutdown blocks its thread until the last batch is sent. Both run at once, so that they share the time
        // limit.
        let spans = tokio::task::spawn_blocking(move || tracers.shutdown_with_timeout(CLOSE_WITHIN));
        let metrics = tokio::task::spawn_blocking(move || meters.shutdown_with_timeout(CLOSE_WITHIN));
        let both = async { tokio::join!(spans, metrics) };
        match tokio::time::timeout(CLOSE_WITHIN, both).await {
            Ok((Ok(Ok(())), Ok(Ok(())))) => return,
            outcome => tracing::debug!(?outcome, "not all telemetry was sent"),
        }
        // The SDK reports a timeout only as text. Earlier failures have been logged already.
        if began.elapsed() >= CLOSE_WITHIN {
            post.complain(format_args!("no answer within {} s", CLOSE_WITHIN.as_secs()));
        }
    }
}
