//! Spans and metrics of runs, in the names of OpenTelemetry's conventions for generative AI.
//!
//! What is measured is read off the loop itself: every operation begins with an [`RunEffect`] and ends with an
//! [`RunLoopInput`] or an append, and both pass through one place of the driver. `SessionTrace` watches that place; nothing
//! else in the runtime knows of telemetry.
//!
//! Spans always go to `tracing` (level INFO, target `longhaul`), where nothing is made of them unless somebody
//! listens. With the cargo feature `telemetry` they go to OpenTelemetry too, with metrics, and can be sent to a
//! collector by OTLP. What was said is in neither, unless it is asked for.
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

/// Where an agent's spans and metrics go. By default only to `tracing`.
#[derive(Clone, Debug, Default)]
pub struct Telemetry {
    /// The agent's name in spans and metrics.
    agent: Option<Arc<str>>,
    exporting: Option<Arc<TelemetryExporter>>,
}

impl Telemetry {
    /// The same for an agent of that name.
    #[must_use]
    pub fn named(mut self, agent: &str) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Sends what is still waiting, and sends nothing any more after that. Takes two seconds at most; what a
    /// collector has not taken by then is lost. Providers that were handed in are their owner's to shut down.
    pub(crate) async fn close(&self) {
        if let Some(exporting) = &self.exporting {
            exporting.close().await;
        }
    }
}

#[cfg(feature = "telemetry")]
impl Telemetry {
    /// Spans and metrics also go to these providers.
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

    /// Spans and metrics also go to the collector at `url`, as OTLP over HTTP (protobuf): `http://host:4318`, to
    /// which `/v1/traces` and `/v1/metrics` are added. Nothing waits for it; one that cannot be reached is a
    /// warning, once. Needs a running tokio runtime.
    ///
    /// The OpenTelemetry SDK reads its own variables: `OTEL_EXPORTER_OTLP_HEADERS` (a collector's key),
    /// `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*`.
    ///
    /// # Errors
    /// [`OtlpError`] for an address that cannot be used.
    pub fn otlp(url: &str, service: &ServiceIdentity, content: ContentCapture) -> Result<Self, OtlpError> {
        let exporting = otlp::connect(url, service, content)?;
        Ok(Self { agent: None, exporting: Some(Arc::new(exporting)) })
    }
}
