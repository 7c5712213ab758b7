//! The record of the model that writes summaries: after repeated failures the model is not asked for a while.

use crate::event::ViewEdit;
use crate::ids::Seq;

/// Number of failures in a row after which requests for summaries are suspended.
pub(crate) const SUMMARY_FAILURES: u32 = 3;

/// Number of compactions without a summary model in the first suspension. Each further failure doubles the number.
// A writer that cannot summarise costs each compaction its time-out, so it rests for 7 of them, then 14, 28 (decision
// 0048).
const SUMMARY_REST: u32 = 7;

/// The recent successes and failures of the model that writes summaries.
///
/// ```
/// use longhaul_core::history::SummaryWriterRecord;
/// let mut writer = SummaryWriterRecord::default();
/// (0..3).for_each(|_| writer.failed());
/// assert!(writer.is_suspended());
/// writer.record_summary();
/// assert!(!writer.is_suspended());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub struct SummaryWriterRecord {
    /// Number of failures since the newest summary.
    failures: u32,
    /// Number of compactions without the model since the newest failure.
    without: u32,
}

impl SummaryWriterRecord {
    /// Records a request that gave no summary.
    pub fn failed(&mut self) {
        *self = Self { failures: self.failures.saturating_add(1), without: 0 };
    }

    /// Records a summary that the model wrote.
    pub fn record_summary(&mut self) {
        *self = Self::default();
    }

    /// Records a compaction without the model.
    pub fn record_skipped_compaction(&mut self) {
        self.without = self.without.saturating_add(1);
    }

    /// Returns whether the model is not asked for now. A suspension lasts 7 compactions after the third failure, then
    /// 14, 28 and so on.
    pub fn is_suspended(&self) -> bool {
        let beyond = self.failures.checked_sub(SUMMARY_FAILURES);
        // The exponent is capped: a shift by 32 or more would overflow.
        beyond.is_some_and(|beyond| self.without < SUMMARY_REST << beyond.min(8))
    }
}

/// The record of the summary model that follows from the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LoggedWriterRecord {
    pub(super) writer: SummaryWriterRecord,
    /// The position of the newest failure in the log.
    failed_at: Seq,
}

impl LoggedWriterRecord {
    /// Records the compaction `edit` that was committed at `at`.
    pub(super) fn committed(&mut self, at: Seq, edit: &ViewEdit) {
        match (&edit.usage, self.writer.failures) {
            (_, 0) => {}
            // This extract stands for the summary that has just failed. Failure and extract are one attempt.
            _ if at == self.failed_at + 1 => {}
            (Some(_), _) => *self = Self::default(),
            (None, _) => self.writer.record_skipped_compaction(),
        }
    }

    pub(super) fn failed(&mut self, at: Seq) {
        self.writer.failed();
        self.failed_at = at;
    }

    /// Returns the number of failures in a row.
    pub(super) fn failures(&self) -> u32 {
        self.writer.failures
    }
}

/// The compactions of a session, with their outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CompactionRecord {
    /// The number of committed compactions, without prunes.
    pub(super) compactions: u64,
    /// Tokens of the view right after the newest compaction, or at the newest attempt that failed.
    pub(super) settled_tokens: Option<u64>,
    /// Tokens of the view right after the newest edit.
    pub(super) edited_tokens: Option<u64>,
    /// The number of answered calls since the newest edit.
    pub(super) calls_since_edit: u32,
    pub(super) summaries: LoggedWriterRecord,
}

impl CompactionRecord {
    /// Records the compaction `edit` that was committed at `seq`.
    pub(super) fn note_compaction(&mut self, seq: Seq, edit: &ViewEdit) {
        self.compactions += 1;
        self.summaries.committed(seq, edit);
    }

    /// Records an edit or undo that left `view_tokens` in the view.
    pub(super) fn note_edited(&mut self, view_tokens: u64) {
        self.edited_tokens = Some(view_tokens);
        self.calls_since_edit = 0;
    }

    /// Forgets all facts about the model that was switched away.
    pub(super) fn forget_model(&mut self) {
        self.settled_tokens = None;
        self.summaries = LoggedWriterRecord::default();
    }
}
