//! The decision to send an unanswered request again to the same server.

use std::time::Duration;

use http::StatusCode;
use tokio::time::sleep;

/// The time within which a stale pooled connection breaks. The upstream had closed it before, so the request was not
/// processed.
const STALE_LINE: Duration = Duration::from_secs(1);

/// The wait before the first new try.
const BEFORE_NEXT_TRY: Duration = Duration::from_millis(200);

/// The outcome of a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptFailure {
    /// The request did not arrive.
    Unreached,
    /// The connection broke this long after the request was sent, without an answer.
    BrokenOff(Duration),
    /// The upstream is busy for the moment.
    Busy,
    /// The request was answered, or another try would fail, too.
    Finally,
}

impl AttemptFailure {
    pub(super) fn of_status(status: StatusCode) -> Self {
        match status {
            // A status 429 is left to the next upstream, or to the client with its `Retry-After`.
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => Self::Busy,
            _ => Self::Finally,
        }
    }
}

/// The tries of one request.
#[derive(Debug)]
pub(super) struct RetryState {
    left: u32,
    wait: Duration,
    may_be_stale: bool,
}

impl RetryState {
    pub(super) fn new(most: u32) -> Self {
        Self { left: most.max(1) - 1, wait: BEFORE_NEXT_TRY, may_be_stale: true }
    }

    /// Waits and returns `true` if the request is to be sent again. A request that the upstream may have read is
    /// repeated only once: the connection may have been a stale one.
    pub(super) async fn again(&mut self, failed: AttemptFailure) -> bool {
        let again = match failed {
            AttemptFailure::Unreached | AttemptFailure::Busy => true,
            AttemptFailure::BrokenOff(after) => std::mem::take(&mut self.may_be_stale) && after < STALE_LINE,
            AttemptFailure::Finally => false,
        };
        if !again || self.left == 0 {
            return false;
        }
        self.left -= 1;
        sleep(self.wait).await;
        // The waits are 0.2, 0.6 and 1.8 s: long enough for a restart of a proxy, short enough for a client.
        self.wait *= 3;
        true
    }
}
