//! The exporter without the feature `telemetry`: an empty type, because nothing is exported.

use super::call::ModelCallMetrics;
use super::span::{AttributeValue, OperationKind};

/// The exporter, of which no value exists.
#[derive(Debug)]
pub(super) enum TelemetryExporter {}

/// An exported span, of which no value exists.
#[derive(Clone, Debug)]
pub(super) enum ExportedSpan {}

impl TelemetryExporter {
    pub(super) fn begin(
        &self,
        _: String,
        _: OperationKind,
        _: &str,
        _: Option<&ExportedSpan>,
    ) -> ExportedSpan {
        match *self {}
    }

    pub(super) fn wants_content(&self) -> bool {
        match *self {}
    }

    pub(super) fn count_call(&self, _: &ModelCallMetrics<'_>) {
        match *self {}
    }

    pub(super) fn count_tool(&self, _: Option<&str>, _: &str, _: f64, _: Option<&str>) {
        match *self {}
    }

    pub(super) fn count_run(&self, _: Option<&str>, _: f64, _: u64, _: u64, _: Option<&str>) {
        match *self {}
    }

    pub(super) async fn close(&self) {
        match *self {}
    }
}

impl ExportedSpan {
    pub(super) fn set(&self, _: &'static str, _: AttributeValue) {
        match *self {}
    }

    pub(super) fn fail(&self) {
        match *self {}
    }

    pub(super) fn end(&self) {
        match *self {}
    }
}

/// Returns the future unchanged.
pub(super) fn within<F: Future>(_: Option<ExportedSpan>, work: F) -> F {
    work
}
