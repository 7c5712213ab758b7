//! Spans and metrics of runs, named by OpenTelemetry's conventions for generative AI.
//!
//! The measurements come from the loop itself. Every operation begins with an [`RunEffect`] and ends with an
//! [`RunLoopInput`] or an append, and both pass through one place of the driver. `SessionTrace` watches that place; no
//! other part of the runtime knows of telemetry.
//!
//! Spans always reach `tracing` (level INFO, target `longhaul`), where they cost nothing unless a subscriber listens.
//! With the cargo feature `telemetry`, spans and metrics reach OpenTelemetry, too, and can be sent to a collector by
//! OTLP. Both leave out the content of messages unless it is asked for.
//!
//! [`RunEffect`]: longhaul_core::run::RunEffect
//! [`RunLoopInput`]: longhaul_core::run::RunLoopInput

mod call;
mod content;
#[cfg(feature = "telemetry")]
mod export;
#[cfg(not(feature = "telemetry"))]
#[path = "telemetry/no_export.rs"]
mod export;
mod identifier;
#[cfg(feature = "telemetry")]
mod metrics;
mod names;
#[cfg(feature = "telemetry")]
mod otlp;
mod span;
mod trace;

use std::sync::Arc;

#[cfg(feature = "telemetry")]
pub use self::export::ContentCapture;
use self::export::TelemetryExporter;
#[cfg(feature = "telemetry")]
pub use self::otlp::{OtlpError, ServiceIdentity};
pub(crate) use self::trace::SessionTrace;

/// The destination of an agent's spans and metrics, by default only `tracing`.
#[derive(Clone, Debug, Default)]
pub struct Telemetry {
    /// The agent's name in spans and metrics.
    agent: Option<Arc<str>>,
    exporting: Option<Arc<TelemetryExporter>>,
}

impl Telemetry {
    /// Returns the same telemetry for a named agent.
    #[must_use]
    pub fn named(mut self, agent: &str) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Sends the data that still wait, and sends nothing more after that. The call takes two seconds at most, and drops
    /// data that a collector has not accepted by then. Providers that were handed in are their owner's to shut down.
    pub(crate) async fn close(&self) {
        if let Some(exporting) = &self.exporting {
            exporting.close().await;
        }
    }
}

#[cfg(feature = "telemetry")]
impl Telemetry {
    /// Makes telemetry that also sends spans and metrics to these providers.
    ///
    /// ```
    /// use longhaul::telemetry::{ContentCapture, Telemetry};
    /// use opentelemetry_sdk::{metrics::SdkMeterProvider, trace::SdkTracerProvider};
    ///
    /// let (tracers, meters) = (SdkTracerProvider::default(), SdkMeterProvider::default());
    /// let telemetry = Telemetry::new(&tracers, &meters, ContentCapture::LeftOut).named("reviewer");
    /// ```
    pub fn new(
        tracers: &opentelemetry_sdk::trace::SdkTracerProvider,
        meters: &opentelemetry_sdk::metrics::SdkMeterProvider,
        content: ContentCapture,
    ) -> Self {
        Self { agent: None, exporting: Some(Arc::new(TelemetryExporter::new(tracers, meters, content))) }
    }

    /// Makes telemetry that also sends spans and metrics to the collector at `url`, as OTLP over HTTP (protobuf). The
    /// paths `/v1/traces` and `/v1/metrics` are added to an address such as `http://host:4318`. Sending never delays a
    /// run, and an unreachable collector is logged as a warning once. The call needs a running tokio runtime.
    ///
    /// The OpenTelemetry SDK reads its own variables: `OTEL_EXPORTER_OTLP_HEADERS` (a collector's key),
    /// `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*`.
    ///
    /// # Errors
    /// [`OtlpError`] for an unusable address.
    pub fn otlp(url: &str, service: &ServiceIdentity, content: ContentCapture) -> Result<Self, OtlpError> {
        let exporting = otlp::connect(url, service, content)?;
        Ok(Self { agent: None, exporting: Some(Arc::new(exporting)) })
    }
}
