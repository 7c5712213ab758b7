//! An OTLP collector behind HTTP (protobuf), reached with the HTTP client that the library has anyway.

mod collector;
mod post;

use std::sync::Arc;

use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{
    MetricExporter, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use reqwest::Url;

pub(super) use self::collector::OtlpCollector;
use self::post::{CollectorClient, SharedCollectorClient};
use super::export::{ContentCapture, TelemetryExporter};

/// The number of spans that may wait for their collector. A span with content has up to about 300 KiB.
const WAITING_SPANS: usize = 2_048;
const WAITING_SPANS_WITH_CONTENT: usize = 128;

/// The program's identity in the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceIdentity {
    /// `service.name`, unless `OTEL_SERVICE_NAME` overrides it.
    pub name: String,
    /// `service.version`.
    pub version: String,
}

/// The reason that telemetry cannot be sent to a collector.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// The address is unusable.
    #[error("{0} is not an http:// or https:// address of a collector, or has more than a path")]
    Address(String),
    /// No tokio runtime is running.
    #[error("telemetry needs a running tokio runtime")]
    NoRuntime,
    /// The exporter refuses its settings.
    #[error("the exporter cannot be made: {0}")]
    Exporter(String),
}

/// Returns whether the paths of the signals can be appended to an address: nothing may stand after its own path.
fn is_collector_address(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.query().is_none()
        && url.fragment().is_none()
}

pub(super) fn connect(
    url: &str,
    service: &ServiceIdentity,
    content: ContentCapture,
) -> Result<TelemetryExporter, OtlpError> {
    let base = Url::parse(url).ok().filter(is_collector_address);
    let base = base.ok_or_else(|| OtlpError::Address(url.to_owned()))?;
    // The SDK exports from threads of its own, on which the HTTP client would find no runtime.
    let runtime = tokio::runtime::Handle::try_current().map_err(|_| OtlpError::NoRuntime)?;
    let post = Arc::new(
        CollectorClient::new(&base, runtime).map_err(|error| OtlpError::Exporter(error.to_string()))?,
    );
    let resource = resource(service);
    let tracers = SdkTracerProvider::builder()
        .with_resource(resource.clone())
        .with_span_processor(spans(&base, Arc::clone(&post), content)?)
        .build();
    let metrics = MetricExporter::builder()
        .with_http()
        .with_http_client(SharedCollectorClient(Arc::clone(&post)))
        .with_endpoint(signal(&base, "v1/metrics"))
        .with_protocol(Protocol::HttpBinary)
        .build()
        .map_err(refused)?;
    let meters = SdkMeterProvider::builder().with_resource(resource).with_periodic_exporter(metrics).build();
    Ok(TelemetryExporter::owning(OtlpCollector { tracers, meters, post }, content))
}

/// Makes a processor that never delays the end of a span: a full queue drops spans.
fn spans(
    base: &Url,
    post: Arc<CollectorClient>,
    content: ContentCapture,
) -> Result<BatchSpanProcessor, OtlpError> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(SharedCollectorClient(post))
        .with_endpoint(signal(base, "v1/traces"))
        .with_protocol(Protocol::HttpBinary)
        .build()
        .map_err(refused)?;
    let waiting = match content {
        ContentCapture::LeftOut => WAITING_SPANS,
        ContentCapture::Included => WAITING_SPANS_WITH_CONTENT,
    };
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(waiting)
        // A batch must fit in the queue, or the queue would drop spans before the batch is full.
        .with_max_export_batch_size(waiting.min(512))
        .build();
    Ok(BatchSpanProcessor::builder(exporter).with_batch_config(batches).build())
}

/// Returns the address for one kind of data.
fn signal(base: &Url, path: &str) -> String {
    format!("{}/{path}", base.as_str().trim_end_matches('/'))
}

fn resource(service: &ServiceIdentity) -> Resource {
    // The SDK reads `OTEL_SERVICE_NAME` itself, and an operator's name takes precedence over ours.
    let found = Resource::builder().build();
    let name = found.get(&Key::new("service.name")).map(|name| name.to_string());
    let is_named = name.is_some_and(|name| !name.starts_with("unknown_service"));
    let mut resource =
        Resource::builder().with_attribute(KeyValue::new("service.version", service.version.clone()));
    if !is_named {
        resource = resource.with_service_name(service.name.clone());
    }
    resource.build()
}

fn refused(error: impl std::fmt::Display) -> OtlpError {
    OtlpError::Exporter(error.to_string())
}

#[cfg(test)]
mod tests;
