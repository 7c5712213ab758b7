//! How the model that writes summaries does: one that fails again and again is left alone for a while.

use crate::event::ViewEdit;
use crate::ids::Seq;

/// After so many failures in a row nobody is asked for a summary for a while.
pub(crate) const SUMMARY_FAILURES: u32 = 3;

/// Compactions that do without then, at first.
const SUMMARY_REST: u32 = 7;

/// How the model that writes summaries has done lately.
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
pub struct SummaryWriterRecord {
    /// Failures since it last wrote a summary.
    failures: u32,
    /// Compactions without it since the newest failure.
    without: u32,
}

impl SummaryWriterRecord {
    /// It gave no summary.
    pub fn failed(&mut self) {
        *self = Self { failures: self.failures.saturating_add(1), without: 0 };
    }

    /// It wrote a summary.
    pub fn record_summary(&mut self) {
        *self = Self::default();
    }

    /// A compaction was made without it.
    pub fn record_skipped_compaction(&mut self) {
        self.without = self.without.saturating_add(1);
    }

    /// Returns whether it is left alone: from the third failure on for 7 compactions, then for 14, 28 and so on.
    pub fn is_suspended(&self) -> bool {
        let beyond = self.failures.checked_sub(SUMMARY_FAILURES);
        beyond.is_some_and(|beyond| self.without < SUMMARY_REST << beyond.min(8))
    }
}

/// The writer's record as a log tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LoggedWriterRecord {
    pub(super) writer: SummaryWriterRecord,
    /// Where the newest failure is stored.
    failed_at: Seq,
}

impl LoggedWriterRecord {
    /// What a compaction did about it: after a failure there is one without a model, that is still the same.
    pub(super) fn committed(&mut self, at: Seq, edit: &ViewEdit) {
        match (&edit.usage, self.writer.failures) {
            (_, 0) => {}
            _ if at == self.failed_at + 1 => {}
            (Some(_), _) => *self = Self::default(),
            (None, _) => self.writer.record_skipped_compaction(),
        }
    }

    pub(super) fn failed(&mut self, at: Seq) {
        self.writer.failed();
        self.failed_at = at;
    }

    /// How often in a row it has failed.
    pub(super) fn failures(&self) -> u32 {
        self.writer.failures
    }
}
