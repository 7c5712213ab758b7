//! The limit on a server with a live connection and no content.

use std::time::Duration;

use longhaul_core::error::ErrorCode;
use tokio::time::{Instant, timeout_at};

use super::body_idle_timeout::BodyIdleTimeout;
use super::{HttpTimeouts, in_words};
use crate::ProviderError;

/// The time that this limit ends after the limit on silence, where both are equally long. A silent server meets the
/// limit on silence first, so that the error does not speak of pings that never came.
const AFTER_SILENCE: Duration = Duration::from_millis(500);

/// The deadlines of an answer. Before the first content, comments and pings are signs of a server at work on the
/// prompt. Such signs have a separate limit, or none.
#[derive(Debug)]
pub(super) struct ProgressDeadline {
    /// The longest wait between two pieces of content.
    idle: Duration,
    /// The limit in force; `None` if signs of life before the first content have no limit.
    limit: Option<StallLimit>,
    silence: BodyIdleTimeout,
}

/// A length of time and the moment of the end.
#[derive(Clone, Copy, Debug)]
struct StallLimit {
    length: Duration,
    until: Instant,
}

impl StallLimit {
    fn from_now(length: Duration) -> Self {
        Self { length, until: Instant::now() + length + AFTER_SILENCE }
    }
}

impl ProgressDeadline {
    /// Creates the deadlines of an answer without content so far.
    pub(super) fn new(timeouts: HttpTimeouts, silence: BodyIdleTimeout) -> Self {
        let limit = timeouts.signs_of_life.map(StallLimit::from_now);
        Self { idle: timeouts.idle, limit, silence }
    }

    /// Records data other than a sign of life.
    pub(super) fn extend_deadline(&mut self) {
        // Before the first content only `signs_of_life` limits the wait.
        if self.silence.has_begun() {
            self.limit = Some(StallLimit::from_now(self.idle));
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
        let Some(StallLimit { length, until }) = self.limit else { return Ok(next.await) };
        timeout_at(until, next).await.map_err(|_| {
            tracing::debug!(
                limit_ms = length.as_millis() as u64,
                has_content = self.silence.has_begun(),
                "the answer is given up: nothing but comments and pings came"
            );
            let limit = in_words(length);
            let message = format!("the answer stalled: nothing but comments and pings for {limit}");
            ProviderError::new(ErrorCode::Timeout, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_error_names_the_limit_in_force() {
        let timeouts = HttpTimeouts {
            idle: Duration::from_millis(30),
            signs_of_life: Some(Duration::from_millis(20)),
            ..HttpTimeouts::default()
        };
        let mut deadline = ProgressDeadline::new(timeouts, BodyIdleTimeout::before_start(timeouts));
        let error = deadline.wait(std::future::pending::<()>()).await.unwrap_err();
        assert!(error.message.ends_with("for 20 ms"), "before the first content: {error}");
        deadline.begin();
        let error = deadline.wait(std::future::pending::<()>()).await.unwrap_err();
        assert!(error.message.ends_with("for 30 ms"), "after it: {error}");
    }
}
