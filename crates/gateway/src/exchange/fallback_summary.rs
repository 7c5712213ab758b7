//! An extract in the place of a summary. It serves a request that could not wait; a later request tries the summary
//! again.

use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EditKind, EditReason, ViewEdit};
use serde::{Deserialize, Serialize};

/// The reason why there is no summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingSummaryCause {
    /// The writer was unreachable or gave no answer.
    Away,
    /// The writer's answer was no valid summary, or the request was refused.
    Rejected,
    /// The writer was not asked, because the request did not wait.
    NotYetAsked,
}

impl MissingSummaryCause {
    /// Returns the cause of a failed call: `Away` if the failure may pass by itself.
    pub(super) fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::RateLimitExceeded
            | ErrorCode::Timeout
            | ErrorCode::ThirdParty
            | ErrorCode::Network
            | ErrorCode::TruncatedStream => Self::Away,
            _ => Self::Rejected,
        }
    }
}

/// The history of attempts to replace an extract by a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FallbackSummary {
    /// The number of failed attempts.
    tries: u32,
    /// The number of answers without a valid summary.
    rejected: u32,
    /// The time of the next attempt, in seconds since 1970.
    again_at: u64,
}

/// The wait before the first new attempt, in seconds. The wait doubles with each attempt.
const FIRST_WAIT_SECS: u64 = 15;

/// The longest wait between attempts, in seconds.
const LONGEST_WAIT_SECS: u64 = 900;

/// The number of invalid summaries after which the extract stays. The model has shown that it cannot summarise this
/// prefix, and each attempt makes a client wait.
const MOST_REJECTED: u32 = 3;

impl FallbackSummary {
    pub(super) fn new(cause: MissingSummaryCause, now: u64) -> Self {
        let rejected = u32::from(cause == MissingSummaryCause::Rejected);
        // A writer that was not asked has not failed, so its first attempt is due at once.
        let wait = if cause == MissingSummaryCause::NotYetAsked { 0 } else { FIRST_WAIT_SECS };
        Self { tries: 0, rejected, again_at: now.saturating_add(wait) }
    }

    /// Returns the history after another failed attempt.
    pub(super) fn failed(self, cause: MissingSummaryCause, now: u64) -> Self {
        let tries = self.tries.saturating_add(1);
        // The exponent is bounded, because a shift by 64 or more overflows.
        let wait = FIRST_WAIT_SECS.saturating_mul(1 << tries.min(16)).min(LONGEST_WAIT_SECS);
        let rejected = self.rejected.saturating_add(u32::from(cause == MissingSummaryCause::Rejected));
        Self { tries, rejected, again_at: now.saturating_add(wait) }
    }

    /// Returns whether the summary will be tried again at all.
    pub(super) fn is_pending(&self) -> bool {
        self.rejected < MOST_REJECTED
    }

    /// Returns whether the summary is to be tried now. A clock set back cannot prolong the wait.
    pub(super) fn is_due(&self, now: u64) -> bool {
        // A time beyond the longest wait can only come from a clock that was set back.
        let is_later = now < self.again_at && self.again_at <= now.saturating_add(LONGEST_WAIT_SECS);
        self.is_pending() && !is_later
    }

    /// Merges the history of the same extract elsewhere.
    pub(super) fn merge_state(&mut self, other: &Self) {
        // The larger figure is the later one: attempts are never taken back.
        self.tries = self.tries.max(other.tries);
        self.rejected = self.rejected.max(other.rejected);
        self.again_at = self.again_at.max(other.again_at);
    }
}

/// An edit, with the history of its summary if the edit holds an extract.
pub(super) type DecidedEdit = (ViewEdit, Option<FallbackSummary>);

/// The strategy name of an extra entry, as a mark for fallback summaries among the edits before the entry. The
/// memo stores only edits.
const NAME: &str = "stopgap";

/// Returns the edits in the form of the memo.
pub(super) fn to_memo(edits: Vec<DecidedEdit>) -> Vec<ViewEdit> {
    let (mut kept, stopgaps): (Vec<ViewEdit>, Vec<Option<FallbackSummary>>) = edits.into_iter().unzip();
    if stopgaps.iter().any(Option::is_some) {
        // Serialising numbers cannot fail.
        kept.push(said(serde_json::to_string(&stopgaps).unwrap_or_default()));
    }
    kept
}

/// Returns the edits of a memo entry.
pub(super) fn from_memo(mut edits: Vec<ViewEdit>) -> Vec<DecidedEdit> {
    // The entry is the last one. Edits without an extract have none.
    let said = edits.pop_if(|edit| edit.strategy == NAME && edit.ops.is_empty());
    let stopgaps = said.and_then(|said| serde_json::from_str::<Vec<Option<FallbackSummary>>>(&said.why).ok());
    let mut stopgaps = stopgaps.unwrap_or_default().into_iter();
    edits.into_iter().map(|edit| (edit, stopgaps.next().flatten())).collect()
}

fn said(why: String) -> ViewEdit {
    ViewEdit {
        id: NAME.into(),
        base_view_hash: String::new(),
        ops: Vec::new(),
        kind: EditKind::Prune,
        strategy: NAME.to_owned(),
        reason: EditReason::TokenLimit,
        trigger_tokens: 0,
        original_tokens: 0,
        compressed_tokens: 0,
        original_bound: 0,
        compressed_bound: 0,
        original_messages: 0,
        compressed_messages: 0,
        why,
        usage: None,
        summary: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_away_is_asked_ever_more_rarely_and_never_given_up() {
        let mut stopgap = FallbackSummary::new(MissingSummaryCause::Away, 1_000);
        let mut now = 1_000;
        let mut waits = Vec::new();
        for _ in 0..9 {
            let from = now;
            while !stopgap.is_due(now) {
                now += 1;
            }
            waits.push(now - from);
            stopgap = stopgap.failed(MissingSummaryCause::Away, now);
        }
        assert_eq!(waits, [15, 30, 60, 120, 240, 480, 900, 900, 900]);
        assert!(stopgap.is_due(3), "a clock that was put back");
    }

    #[test]
    fn what_nobody_was_asked_for_is_due_at_once() {
        let stopgap = FallbackSummary::new(MissingSummaryCause::NotYetAsked, 1_000);
        assert!(stopgap.is_due(1_000) && !stopgap.failed(MissingSummaryCause::Away, 1_000).is_due(1_029));
    }

    #[test]
    fn what_is_no_summary_three_times_is_left_at_that() {
        let mut stopgap = FallbackSummary::new(MissingSummaryCause::Rejected, 0);
        for now in [100, 200] {
            assert!(stopgap.is_due(now));
            stopgap = stopgap.failed(MissingSummaryCause::Rejected, now);
        }
        assert!(!stopgap.is_pending() && !stopgap.is_due(1 << 40));
    }

    #[test]
    fn a_memo_keeps_them_beside_their_edits() {
        let edits = |marks: [Option<FallbackSummary>; 2]| {
            let edit = |id: &str| ViewEdit { id: id.into(), strategy: "s".to_owned(), ..said(String::new()) };
            vec![(edit("a"), marks[0]), (edit("b"), marks[1])]
        };
        let stopgap = FallbackSummary::new(MissingSummaryCause::Away, 7);
        for marks in [[None, None], [None, Some(stopgap)], [Some(stopgap), None]] {
            assert_eq!(from_memo(to_memo(edits(marks))), edits(marks));
        }
        assert_eq!(to_memo(edits([None, None])).len(), 2, "as it ever was");
    }
}
