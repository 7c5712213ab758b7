//! Without the feature `telemetry`: nothing is exported, and there is no value to export with.

use super::call::ModelCallMetrics;
use super::span::{AttributeValue, OperationKind};

/// What exports; there is none.
#[derive(Debug)]
pub(super) enum TelemetryExporter {}

/// A span that is exported; there is none.
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

/// Does the work as it is.
pub(super) fn within<F: Future>(_: Option<ExportedSpan>, work: F) -> F {
    work
}
