//! How long the body of an answer may be silent: one limit before it says something, another one after.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::HttpTimeouts;

/// The longest silence of one answer, as its reader and its bytes share it.
#[derive(Clone, Debug)]
pub(crate) struct BodyIdleTimeout {
    timeouts: HttpTimeouts,
    has_begun: Arc<AtomicBool>,
}

impl BodyIdleTimeout {
    /// For an answer that has said nothing yet.
    pub(super) fn before_start(timeouts: HttpTimeouts) -> Self {
        Self { timeouts, has_begun: Arc::new(AtomicBool::new(false)) }
    }

    /// For a body that is no answer of a model.
    pub(super) fn after_start(timeouts: HttpTimeouts) -> Self {
        Self { timeouts, has_begun: Arc::new(AtomicBool::new(true)) }
    }

    /// Notes that the answer has said something.
    pub(super) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Returns whether the answer has said something.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Returns the longest silence from now.
    pub(super) fn limit(&self) -> Duration {
        if self.has_begun() { self.timeouts.idle } else { self.timeouts.first_byte_limit() }
    }
}
