//! The export of spans and metrics to OpenTelemetry.

use std::sync::Mutex;

use futures_util::future::{Either, FutureExt as _};
use opentelemetry::baggage::BaggageExt as _;
use opentelemetry::context::FutureExt as _;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::{
    SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Array, Context, InstrumentationScope, KeyValue, StringValue};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use super::call::ModelCallMetrics;
use super::metrics::MetricInstruments;
use super::names;
use super::otlp::OtlpCollector;
use super::span::{AttributeValue, OperationKind};

/// The capture of content in spans: prompts, answers, arguments and results of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContentCapture {
    /// No content.
    #[default]
    LeftOut,
    /// Content, clipped to 32 KiB of a text and to the newest 256 KiB of a call's messages.
    Included,
}

/// The exporter of spans and metrics.
#[derive(Debug)]
pub(super) struct TelemetryExporter {
    tracer: SdkTracer,
    instruments: MetricInstruments,
    content: ContentCapture,
    /// The collector, if this exporter has to shut it down.
    own: Mutex<Option<OtlpCollector>>,
}

/// An exported span, in its context with baggage and parents.
#[derive(Clone, Debug)]
pub(super) struct ExportedSpan(Context);

impl TelemetryExporter {
    pub(super) fn new(
        tracers: &SdkTracerProvider,
        meters: &SdkMeterProvider,
        content: ContentCapture,
    ) -> Self {
        let scope = InstrumentationScope::builder("longhaul").with_version(env!("CARGO_PKG_VERSION")).build();
        Self {
            tracer: tracers.tracer_with_scope(scope.clone()),
            instruments: MetricInstruments::new(&meters.meter_with_scope(scope)),
            content,
            own: Mutex::new(None),
        }
    }

    /// Makes an exporter to a collector whose providers end with the exporter.
    pub(super) fn owning(collector: OtlpCollector, content: ContentCapture) -> Self {
        let exporting = Self::new(&collector.tracers, &collector.meters, content);
        Self { own: Mutex::new(Some(collector)), ..exporting }
    }

    pub(super) fn begin(
        &self,
        name: String,
        kind: OperationKind,
        session_id: &str,
        parent: Option<&ExportedSpan>,
    ) -> ExportedSpan {
        // The session is in the baggage, so that spans of tools and clients can carry its id.
        let above = match parent {
            Some(ExportedSpan(context)) => context.clone(),
            None => Context::new().with_baggage([KeyValue::new(names::SESSION, session_id.to_owned())]),
        };
        let kind = if kind.is_client() { SpanKind::Client } else { SpanKind::Internal };
        let span = SpanBuilder::from_name(name).with_kind(kind);
        let span = self.tracer.build_with_context(span, &above);
        ExportedSpan(above.with_span(span))
    }

    pub(super) fn wants_content(&self) -> bool {
        self.content == ContentCapture::Included
    }

    pub(super) fn count_call(&self, figures: &ModelCallMetrics<'_>) {
        self.instruments.call(figures);
    }

    pub(super) fn count_tool(&self, agent: Option<&str>, name: &str, seconds: f64, error: Option<&str>) {
        self.instruments.tool(agent, name, seconds, error);
    }

    pub(super) fn count_run(
        &self,
        agent: Option<&str>,
        seconds: f64,
        calls: u64,
        tools: u64,
        error: Option<&str>,
    ) {
        self.instruments.run(agent, seconds, calls, tools, error);
    }

    /// Sends the data that still wait, if the collector is our own.
    pub(super) async fn close(&self) {
        // The collector moves out of the lock, which must not be held across an await. A second close finds nothing.
        let own = self.own.lock().ok().and_then(|mut own| own.take());
        if let Some(collector) = own {
            collector.close().await;
        }
    }
}

impl ExportedSpan {
    pub(super) fn set(&self, name: &'static str, value: AttributeValue) {
        self.0.span().set_attribute(KeyValue::new(name, exported(value)));
    }

    /// Marks the span as failed. The text of an error may quote content, so only the error's class is exported.
    pub(super) fn fail(&self) {
        self.0.span().set_status(Status::error(""));
    }

    pub(super) fn end(&self) {
        self.0.span().end();
    }
}

fn exported(value: AttributeValue) -> opentelemetry::Value {
    match value {
        AttributeValue::Text(text) => text.into(),
        AttributeValue::Words(words) => {
            opentelemetry::Value::Array(Array::String(words.into_iter().map(StringValue::from).collect()))
        }
        // OpenTelemetry has no unsigned integers.
        AttributeValue::Count(count) => i64::try_from(count).unwrap_or(i64::MAX).into(),
        AttributeValue::Flag(flag) => flag.into(),
        AttributeValue::Seconds(seconds) => seconds.into(),
    }
}

/// Runs a future in the context of a span.
pub(super) fn within<F: Future>(exported: Option<ExportedSpan>, work: F) -> impl Future<Output = F::Output> {
    match exported {
        Some(ExportedSpan(context)) => Either::Left(work.with_context(context)),
        None => work.right_future(),
    }
}
