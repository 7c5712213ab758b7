//! Extracts in the place of summaries: the causes, and the attempts to write the summary after all.

use serde::{Deserialize, Serialize};

use crate::error::ErrorCode;

/// The reason why there is no summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingSummaryCause {
    /// The writer was unreachable or gave no answer.
    Away,
    /// The writer's answer was no valid summary, or the request was refused.
    Rejected,
    /// The writer was not asked, because the request did not wait.
    NotYetAsked,
}

impl MissingSummaryCause {
    /// Returns the cause's stable name, for logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::Rejected => "rejected",
            Self::NotYetAsked => "not-yet-asked",
        }
    }

    /// Returns the cause of a failed call: `Away` if the failure may pass by itself.
    pub fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::RateLimitExceeded
            | ErrorCode::Timeout
            | ErrorCode::ThirdParty
            | ErrorCode::Network
            | ErrorCode::TruncatedStream => Self::Away,
            _ => Self::Rejected,
        }
    }

    /// Returns whether the missing summary speaks against its writer. A failure to reach the writer does not.
    pub fn counts_against_writer(self) -> bool {
        self == Self::Rejected
    }
}

/// The history of attempts to replace an extract by a summary.
///
/// ```
/// use longhaul_core::shortening::{FallbackSummary, MissingSummaryCause};
/// let extract = FallbackSummary::new(MissingSummaryCause::NotYetAsked, 1_000);
/// assert!(extract.is_due(1_000));
/// // The wait after a failure grows with each one: 30 s, 60 s, …, 900 s.
/// assert!(!extract.failed(MissingSummaryCause::Away, 1_000).is_due(1_029));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackSummary {
    /// The number of failed attempts.
    tries: u32,
    /// The number of answers without a valid summary.
    rejected: u32,
    /// The time of the next attempt, in seconds since 1970.
    again_at: u64,
}

/// The wait before the first new attempt, in seconds. The wait doubles with each attempt.
// Decision 0035. The request that found the attempt due is not kept waiting, so the first wait may be short.
const FIRST_WAIT_SECS: u64 = 15;

/// The longest wait between attempts, in seconds.
// A model that is away is tried without end, so the wait must stop growing (decision 0035).
const MAX_WAIT_SECS: u64 = 900;

/// The number of invalid summaries after which the extract stays. The model has shown that it cannot summarise this
/// prefix, and each attempt costs a call.
const MAX_REJECTED: u32 = 3;

impl FallbackSummary {
    /// Creates the history of an extract made at `now`, in seconds since 1970.
    pub fn new(cause: MissingSummaryCause, now: u64) -> Self {
        let rejected = u32::from(cause == MissingSummaryCause::Rejected);
        // A writer that was not asked has not failed, so its first attempt is due at once.
        let wait = if cause == MissingSummaryCause::NotYetAsked { 0 } else { FIRST_WAIT_SECS };
        Self { tries: 0, rejected, again_at: now.saturating_add(wait) }
    }

    /// Returns the history after another failed attempt at `now`, in seconds since 1970.
    #[must_use]
    pub fn failed(self, cause: MissingSummaryCause, now: u64) -> Self {
        let tries = self.tries.saturating_add(1);
        // The exponent is bounded, because a shift by 64 or more overflows.
        let wait = FIRST_WAIT_SECS.saturating_mul(1 << tries.min(16)).min(MAX_WAIT_SECS);
        let rejected = self.rejected.saturating_add(u32::from(cause == MissingSummaryCause::Rejected));
        Self { tries, rejected, again_at: now.saturating_add(wait) }
    }

    /// Returns whether the summary will be tried again at all.
    pub fn is_pending(&self) -> bool {
        self.rejected < MAX_REJECTED
    }

    /// Returns whether the summary is to be tried at `now`, in seconds since 1970. A clock set back cannot prolong the
    /// wait.
    pub fn is_due(&self, now: u64) -> bool {
        // A time beyond the longest wait can only come from a clock that was set back.
        let is_later = now < self.again_at && self.again_at <= now.saturating_add(MAX_WAIT_SECS);
        self.is_pending() && !is_later
    }

    /// Merges the history of the same extract elsewhere.
    pub fn merge_state(&mut self, other: &Self) {
        // The larger figure is the later one: attempts are never taken back.
        self.tries = self.tries.max(other.tries);
        self.rejected = self.rejected.max(other.rejected);
        self.again_at = self.again_at.max(other.again_at);
    }
}

/// The frequency of a conversation's compactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionPace {
    /// The number of items at the newest compaction.
    items: usize,
    /// The number of extracts since a summary was last wanted.
    extracts: u32,
}

/// The smallest number of items (three steps of an agent) for which a summary saves more than it costs.
const SHORT_LIVED_ITEMS: usize = 6;

/// The number of successive extracts after which a summary is written anyway.
const MAX_EXTRACTS: u32 = 3;

impl CompactionPace {
    /// Returns whether a summary is to follow an extract that was made without a wait, at this number of items.
    /// `writer_rests` tells whether the writer is left alone.
    pub fn wants_summary(&mut self, writer_rests: bool, items: usize) -> bool {
        // A writer at rest must not change the count: the next extract is judged by those that could be replaced.
        !writer_rests && self.is_worth_a_summary(items)
    }

    fn is_worth_a_summary(&mut self, items: usize) -> bool {
        // A view that fills up again within a few steps would replace the summary before it has paid off.
        let is_short_lived = self.items > 0 && items < self.items + SHORT_LIVED_ITEMS;
        let is_worth = !is_short_lived || self.extracts >= MAX_EXTRACTS;
        *self = Self { items, extracts: if is_worth { 0 } else { self.extracts + 1 } };
        is_worth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_is_away_is_asked_ever_more_rarely_and_never_given_up() {
        let mut extract = FallbackSummary::new(MissingSummaryCause::Away, 1_000);
        let mut now = 1_000;
        let mut waits = Vec::new();
        for _ in 0..9 {
            let from = now;
            while !extract.is_due(now) {
                now += 1;
            }
            waits.push(now - from);
            extract = extract.failed(MissingSummaryCause::Away, now);
        }
        assert_eq!(waits, [15, 30, 60, 120, 240, 480, 900, 900, 900]);
        assert!(extract.is_due(3), "a clock that was put back");
    }

    #[test]
    fn a_summary_that_nobody_was_asked_for_is_due_at_once() {
        let extract = FallbackSummary::new(MissingSummaryCause::NotYetAsked, 1_000);
        assert!(extract.is_due(1_000) && !extract.failed(MissingSummaryCause::Away, 1_000).is_due(1_029));
    }

    #[test]
    fn after_three_invalid_summaries_the_extract_stays() {
        let mut extract = FallbackSummary::new(MissingSummaryCause::Rejected, 0);
        for now in [100, 200] {
            assert!(extract.is_due(now));
            extract = extract.failed(MissingSummaryCause::Rejected, now);
        }
        assert!(!extract.is_pending() && !extract.is_due(1 << 40));
    }

    #[test]
    fn where_each_request_needs_room_every_fourth_extract_gets_a_summary() {
        let mut pace = CompactionPace::default();
        let worth: Vec<bool> = (1..=10).map(|step| pace.wants_summary(false, 20 + 2 * step)).collect();
        assert_eq!(worth, [true, false, false, false, true, false, false, false, true, false]);
        assert!(
            !pace.wants_summary(true, 60) && pace.wants_summary(false, 60),
            "this one stands for a while"
        );
    }
}
