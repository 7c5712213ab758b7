//! How the model that writes summaries does: one that fails again and again is left alone for a while.

use crate::event::ViewEdit;
use crate::ids::Seq;

/// After so many failures in a row nobody is asked for a summary for a while.
pub(crate) const SUMMARY_FAILURES: u32 = 3;

/// Compactions that do without then, at first.
const SUMMARY_REST: u32 = 7;

/// How the model that writes summaries has done lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summaries {
    /// Failures since one was written.
    pub(super) failed: u32,
    /// Where the newest failure is stored.
    failed_at: Seq,
    /// Compactions since then that did without.
    without: u32,
}

impl Summaries {
    /// What a compaction did about it: after a failure there is one without a model, that is still the same.
    pub(super) fn committed(&mut self, at: Seq, edit: &ViewEdit) {
        match (&edit.usage, self.failed) {
            (_, 0) => {}
            _ if at == self.failed_at + 1 => {}
            (Some(_), _) => *self = Self::default(),
            (None, _) => self.without += 1,
        }
    }

    pub(super) fn failed(&mut self, at: Seq) {
        *self = Self { failed: self.failed.saturating_add(1), failed_at: at, without: 0 };
    }

    /// From the third failure on it rests for 7 compactions, then for 14, 28 and so on.
    pub(super) fn rest(&self) -> bool {
        let beyond = self.failed.checked_sub(SUMMARY_FAILURES);
        beyond.is_some_and(|beyond| self.without < SUMMARY_REST << beyond.min(8))
    }
}
