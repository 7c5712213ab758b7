//! The limits on silence in the body of an answer, before and after the first content.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::HttpTimeouts;

/// The longest silence of an answer. The reader of the answer and the stream of bytes share the value.
#[derive(Clone, Debug)]
pub(crate) struct BodyIdleTimeout {
    timeouts: HttpTimeouts,
    has_begun: Arc<AtomicBool>,
}

impl BodyIdleTimeout {
    /// Creates the limit of an answer without content so far.
    pub(super) fn before_start(timeouts: HttpTimeouts) -> Self {
        Self { timeouts, has_begun: Arc::new(AtomicBool::new(false)) }
    }

    /// Creates the limit of a body without a model's answer.
    pub(super) fn after_start(timeouts: HttpTimeouts) -> Self {
        Self { timeouts, has_begun: Arc::new(AtomicBool::new(true)) }
    }

    /// Records the first content of the answer.
    pub(super) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Reports whether the answer has had content.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Returns the longest silence from now.
    pub(super) fn limit(&self) -> Duration {
        if self.has_begun() { self.timeouts.idle } else { self.timeouts.first_byte_limit() }
    }
}
