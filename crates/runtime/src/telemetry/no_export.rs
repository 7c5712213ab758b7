//! Without the feature `telemetry`: nothing is exported, and there is no value to export with.

use super::call::Figures;
use super::span::{Kind, Value};

/// What exports; there is none.
#[derive(Debug)]
pub(super) enum Exporting {}

/// A span that is exported; there is none.
#[derive(Clone, Debug)]
pub(super) enum Exported {}

impl Exporting {
    pub(super) fn begin(&self, _: String, _: Kind, _: &str, _: Option<&Exported>) -> Exported {
        match *self {}
    }

    pub(super) fn wants_content(&self) -> bool {
        match *self {}
    }

    pub(super) fn count_call(&self, _: &Figures<'_>) {
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

impl Exported {
    pub(super) fn set(&self, _: &'static str, _: Value) {
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
pub(super) fn within<F: Future>(_: Option<Exported>, work: F) -> F {
    work
}
