//! The decision to send an unanswered request again to the same server.

/// The time within which a stale pooled connection breaks, in milliseconds. The server had closed it before, so the
/// request was not processed.
const STALE_CONNECTION_MS: u64 = 1_000;

/// The wait before the first new try, in milliseconds.
const FIRST_WAIT_MS: u64 = 200;

/// The way in which a try ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum SendOutcome {
    /// The request did not arrive.
    Unreached,
    /// The connection broke without an answer.
    BrokenOff {
        /// The time from sending to the break, in milliseconds.
        after_ms: u64,
    },
    /// The server is busy for the moment.
    Busy,
    /// The request was answered, or another try would fail, too.
    Final,
}

/// The tries of one request.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct SendTries {
    left: u32,
    wait_ms: u64,
    may_be_stale: bool,
}

impl SendTries {
    /// Creates the state before the first of at most `max_tries` tries.
    pub fn new(max_tries: u32) -> Self {
        Self { left: max_tries.max(1) - 1, wait_ms: FIRST_WAIT_MS, may_be_stale: true }
    }

    /// Returns the wait before the next try in milliseconds; `None` if the request is not sent again.
    ///
    /// A request that the server may have read is repeated only once: the connection may have been a stale one.
    pub fn next_wait_ms(&mut self, outcome: SendOutcome) -> Option<u64> {
        let again = match outcome {
            SendOutcome::Unreached | SendOutcome::Busy => true,
            SendOutcome::BrokenOff { after_ms } => {
                std::mem::take(&mut self.may_be_stale) && after_ms < STALE_CONNECTION_MS
            }
            SendOutcome::Final => false,
        };
        if !again || self.left == 0 {
            return None;
        }
        // A busy server would otherwise hold a request as long as it stays busy.
        self.left -= 1;
        // The waits are 0.2, 0.6 and 1.8 s: long enough for a restart of a proxy, short enough for a client.
        let wait_ms = self.wait_ms;
        self.wait_ms *= 3;
        Some(wait_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_did_not_arrive_is_sent_again_with_growing_waits() {
        let mut tries = SendTries::new(4);
        let waits: Vec<Option<u64>> = (0..4).map(|_| tries.next_wait_ms(SendOutcome::Unreached)).collect();
        assert_eq!(waits, [Some(200), Some(600), Some(1_800), None]);
        assert_eq!(SendTries::new(0).next_wait_ms(SendOutcome::Busy), None, "the first try is the only one");
    }

    #[test]
    fn a_request_that_may_have_been_read_is_sent_again_once_and_only_at_once() {
        let mut tries = SendTries::new(9);
        assert_eq!(tries.next_wait_ms(SendOutcome::BrokenOff { after_ms: 999 }), Some(200));
        assert_eq!(tries.next_wait_ms(SendOutcome::BrokenOff { after_ms: 5 }), None);
        assert_eq!(SendTries::new(9).next_wait_ms(SendOutcome::BrokenOff { after_ms: 1_000 }), None);
        assert_eq!(SendTries::new(9).next_wait_ms(SendOutcome::Final), None);
    }
}
