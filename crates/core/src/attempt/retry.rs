//! Limits and delays of failed model calls that are made again.

/// The limits within which failed model calls are made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How long an outage of the server is waited out, in milliseconds; `None` waits for as long as it takes, 0 does
    /// not wait.
    pub patience_ms: Option<u64>,
    /// The longest wait between two attempts, in milliseconds, unless the server asks for more.
    pub max_delay_ms: u64,
    /// The number of times that one answer is asked for again after it broke off.
    pub stream_attempts: u32,
}

/// The wait that grows up to here where a server asks for less, in milliseconds: `Retry-After: 0` and dates in the past
/// would make a loop of thousands of requests a second.
const MIN_ASKED_MS: u64 = 5_000;

impl Default for RetryPolicy {
    /// Outages are waited out for 30 minutes, with at most a minute between attempts; five broken answers are repeated.
    fn default() -> Self {
        Self { patience_ms: Some(30 * 60_000), max_delay_ms: 60_000, stream_attempts: 5 }
    }
}

impl RetryPolicy {
    /// Returns the wait before an attempt, in milliseconds: what the server asked for, or 1 s, 2 s, 4 s … up to the
    /// longest wait. Attempts are counted from 1. A server that asks for no wait at all is not believed.
    pub fn delay_ms(&self, attempt: u32, asked_ms: Option<u64>) -> u64 {
        let backoff = 1_000_u64.saturating_mul(1 << attempt.saturating_sub(1).min(20)).min(self.max_delay_ms);
        asked_ms.map_or(backoff, |asked_ms| asked_ms.max(backoff.min(MIN_ASKED_MS)))
    }
}
