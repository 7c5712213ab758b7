//! An extract that stands where a summary was wanted: it serves the request that could not wait, and a later one tries the
//! summary again.

use longhaul_core::error::ErrorCode;
use longhaul_core::event::{EditKind, EditReason, ViewEdit};
use serde::{Deserialize, Serialize};

/// Why there is no summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingSummaryCause {
    /// Who writes them could not be asked, or gave no answer.
    Away,
    /// What was answered is no summary, or the request was refused.
    Rejected,
    /// Nobody was asked yet: the request did not wait for it.
    NotYetAsked,
}

impl MissingSummaryCause {
    /// What a call that failed says: whether it may do better by itself after a while.
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

/// How the summary in the place of which an extract stands was tried so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FallbackSummary {
    /// How often it was tried again in vain.
    tries: u32,
    /// How often an answer was no summary.
    rejected: u32,
    /// When it may be tried again, in seconds since 1970.
    again_at: u64,
}

/// How long it is left alone at first, in seconds; twice as long each time, …
const FIRST_WAIT_SECS: u64 = 15;

/// … at most so long.
const LONGEST_WAIT_SECS: u64 = 900;

/// After so many answers that were no summary the extract stays: the model has shown that it cannot write one of this, and
/// each try makes somebody wait.
const MOST_REJECTED: u32 = 3;

impl FallbackSummary {
    pub(super) fn new(cause: MissingSummaryCause, now: u64) -> Self {
        let rejected = u32::from(cause == MissingSummaryCause::Rejected);
        let wait = if cause == MissingSummaryCause::NotYetAsked { 0 } else { FIRST_WAIT_SECS };
        Self { tries: 0, rejected, again_at: now.saturating_add(wait) }
    }

    /// It was tried again, in vain.
    pub(super) fn failed(self, cause: MissingSummaryCause, now: u64) -> Self {
        let tries = self.tries.saturating_add(1);
        let wait = FIRST_WAIT_SECS.saturating_mul(1 << tries.min(16)).min(LONGEST_WAIT_SECS);
        let rejected = self.rejected.saturating_add(u32::from(cause == MissingSummaryCause::Rejected));
        Self { tries, rejected, again_at: now.saturating_add(wait) }
    }

    /// Returns whether it is tried again at all.
    pub(super) fn is_pending(&self) -> bool {
        self.rejected < MOST_REJECTED
    }

    /// Returns whether it is tried again now. A clock that was put back makes nobody wait longer.
    pub(super) fn is_due(&self, now: u64) -> bool {
        let is_later = now < self.again_at && self.again_at <= now.saturating_add(LONGEST_WAIT_SECS);
        self.is_pending() && !is_later
    }

    /// What is known of it here and elsewhere.
    pub(super) fn merge_state(&mut self, other: &Self) {
        self.tries = self.tries.max(other.tries);
        self.rejected = self.rejected.max(other.rejected);
        self.again_at = self.again_at.max(other.again_at);
    }
}

/// An edit, and how the summary was tried in the place of which it has an extract.
pub(super) type DecidedEdit = (ViewEdit, Option<FallbackSummary>);

/// The strategy of an entry that says of the edits before it which are stopgaps: a memo knows edits only.
const NAME: &str = "stopgap";

/// Edits as a memo keeps them.
pub(super) fn to_memo(edits: Vec<DecidedEdit>) -> Vec<ViewEdit> {
    let (mut kept, stopgaps): (Vec<ViewEdit>, Vec<Option<FallbackSummary>>) = edits.into_iter().unzip();
    if stopgaps.iter().any(Option::is_some) {
        // Numbers always have this form.
        kept.push(said(serde_json::to_string(&stopgaps).unwrap_or_default()));
    }
    kept
}

/// Edits that a memo has kept.
pub(super) fn from_memo(mut edits: Vec<ViewEdit>) -> Vec<DecidedEdit> {
    let is_said = |edit: &ViewEdit| edit.strategy == NAME && edit.ops.is_empty();
    let said = if edits.last().is_some_and(is_said) { edits.pop() } else { None };
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
