//! How long a server may keep the line alive and say nothing.

use std::time::Duration;

use longhaul_core::error::ErrorCode;
use tokio::time::{Instant, timeout_at};

use super::Timeouts;
use crate::ProviderError;

/// What is left of the patience with one answer.
#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    until: Instant,
}

impl Patience {
    /// As long as for the status line: a server may say with comments, too, that it still reads the prompt.
    pub(super) fn new(timeouts: Timeouts) -> Self {
        let limit = timeouts.header.max(timeouts.idle);
        Self { limit, until: Instant::now() + limit }
    }

    /// Something was said.
    pub(super) fn renew(&mut self) {
        self.until = Instant::now() + self.limit;
    }

    /// Waits for what comes next.
    ///
    /// # Errors
    /// `timeout` if nothing was said for too long.
    pub(super) async fn wait<T>(&self, next: impl Future<Output = T>) -> Result<T, ProviderError> {
        timeout_at(self.until, next).await.map_err(|_| {
            let message = format!(
                "the answer stalled: nothing but comments and pings for {} ms",
                self.limit.as_millis()
            );
            ProviderError::new(ErrorCode::Timeout, message)
        })
    }
}
