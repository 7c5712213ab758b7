//! Whether a request that was not answered is sent again to the same server.

use std::time::Duration;

use http::StatusCode;
use tokio::time::sleep;

/// How soon a line breaks that the upstream had closed before the request was on it: nothing can have been done for it.
const STALE_LINE: Duration = Duration::from_secs(1);

/// How long the first of further tries waits.
const BEFORE_NEXT_TRY: Duration = Duration::from_millis(200);

/// How one try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptFailure {
    /// It did not arrive.
    Unreached,
    /// The line broke so long after it was sent, without an answer.
    BrokenOff(Duration),
    /// The upstream says that this is for a moment only.
    Busy,
    /// It was answered, or would not be.
    Finally,
}

impl AttemptFailure {
    pub(super) fn of_status(status: StatusCode) -> Self {
        match status {
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

    /// Returns whether there is another try, which comes after a wait. What the upstream may have read and did not
    /// answer is sent once more at most: the line may have been an old one that it was just closing.
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
        self.wait *= 3;
        true
    }
}
