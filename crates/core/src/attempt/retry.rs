//! Limits and delays for the retry of failed model calls.

/// The limits for the retry of failed model calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The time for which an outage of the server is waited out, in milliseconds. `None` waits without end, 0 does not
    /// wait.
    pub patience_ms: Option<u64>,
    /// The longest wait between two attempts, in milliseconds, unless the server asks for more.
    pub max_delay_ms: u64,
    /// The number of times that one answer is asked for again or continued after it broke off.
    pub stream_attempts: u32,
}

/// The limit of the growing wait for servers that ask for less, in milliseconds. `Retry-After: 0` and dates in the past
/// would cause thousands of requests a second.
const MIN_ASKED_MS: u64 = 5_000;

/// The longest wait before an attempt, in milliseconds. A wrong clock of the server must not stop a run for days.
const MAX_ASKED_MS: u64 = 24 * 3_600_000;

impl Default for RetryPolicy {
    /// Creates the default policy: 30 minutes for an outage, at most a minute between attempts, five broken answers.
    fn default() -> Self {
        Self { patience_ms: Some(30 * 60_000), max_delay_ms: 60_000, stream_attempts: 5 }
    }
}

impl RetryPolicy {
    /// Returns the wait before an attempt, in milliseconds: the wait that the server asked for, or 1 s, 2 s, 4 s … up
    /// to the longest wait. Attempts are counted from 1. If the server asks for less, the growing wait counts up to 5
    /// s. No wait is longer than a day.
    pub fn delay_ms(&self, attempt: u32, asked_ms: Option<u64>) -> u64 {
        // No jitter: the loop has no randomness, and the waits of sessions begin at different moments anyway.
        let backoff = 1_000_u64.saturating_mul(1 << attempt.saturating_sub(1).min(20)).min(self.max_delay_ms);
        asked_ms.map_or(backoff, |asked_ms| asked_ms.max(backoff.min(MIN_ASKED_MS)).min(MAX_ASKED_MS))
    }
}
