//! The limit on a server that keeps the connection alive without content.

use std::time::Duration;

use longhaul_core::error::ErrorCode;
use tokio::time::{Instant, timeout_at};

use super::silence::BodyIdleTimeout;
use super::{HttpTimeouts, in_words};
use crate::ProviderError;

/// The deadlines of one answer. Before the first content, comments and pings are signs that the server still
/// reads the prompt. They have a limit of their own, or none.
#[derive(Debug)]
pub(super) struct ProgressDeadline {
    limit: Duration,
    until: Option<Instant>,
    silence: BodyIdleTimeout,
}

impl ProgressDeadline {
    /// Creates the deadlines of an answer without content so far.
    pub(super) fn new(timeouts: HttpTimeouts, silence: BodyIdleTimeout) -> Self {
        let until = timeouts.signs_of_life.map(|limit| Instant::now() + limit);
        Self { limit: timeouts.idle, until, silence }
    }

    /// Records data other than a sign of life.
    pub(super) fn extend_deadline(&mut self) {
        if self.silence.has_begun() {
            self.until = Some(Instant::now() + self.limit);
        }
    }

    /// Records the first content of the answer.
    pub(super) fn begin(&mut self) {
        self.silence.begin();
        self.extend_deadline();
    }

    /// Waits for `next`.
    ///
    /// # Errors
    /// `timeout` if the answer had no content for too long.
    pub(super) async fn wait<T>(&self, next: impl Future<Output = T>) -> Result<T, ProviderError> {
        let Some(until) = self.until else { return Ok(next.await) };
        timeout_at(until, next).await.map_err(|_| {
            let limit = in_words(self.limit);
            let message = format!("the answer stalled: nothing but comments and pings for {limit}");
            ProviderError::new(ErrorCode::Timeout, message)
        })
    }
}
