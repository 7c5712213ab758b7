//! The summaries begun ahead of need. Some clients change the end of their history with each request, so that
//! each request begins a conversation of its own. All together get one summary for each edit of their common
//! beginning.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The time after which another summary is begun, in seconds: another conversation may begin in the same way.
const AGAIN_AFTER_SECS: u64 = 600;

/// The maximum number of remembered beginnings.
const MOST_BEGINNINGS: usize = 4_096;

#[derive(Clone, Copy)]
struct SummaryStartRecord {
    edits: usize,
    at: u64,
}

impl SummaryStartRecord {
    fn is_recent(&self, now: u64) -> bool {
        self.at <= now && now - self.at < AGAIN_AFTER_SECS
    }
}

/// The newest summary begun ahead of need, by the beginning of its conversation.
#[derive(Default)]
pub(crate) struct SummaryStarts(Mutex<BTreeMap<[u8; 32], SummaryStartRecord>>);

impl SummaryStarts {
    /// Records the start of a summary for a conversation with that beginning and number of edits. Returns whether the
    /// summary may start. `now` is in seconds since 1970.
    pub(super) fn begin(&self, head: [u8; 32], edits: usize, now: u64) -> bool {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_done = begun.get(&head).is_some_and(|newest| edits <= newest.edits && newest.is_recent(now));
        if is_done {
            return false;
        }
        if begun.len() >= MOST_BEGINNINGS {
            begun.retain(|_, newest| newest.is_recent(now));
        }
        if begun.len() >= MOST_BEGINNINGS {
            // A forgotten start costs one more summary.
            begun.clear();
        }
        begun.insert(head, SummaryStartRecord { edits, at: now });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_begun_for_each_edit_of_a_beginning() {
        let begun = SummaryStarts::default();
        let head = [7; 32];
        assert!(
            begun.begin(head, 0, 1_000) && !begun.begin(head, 0, 1_001) && begun.begin([8; 32], 0, 1_001)
        );
        assert!(begun.begin(head, 1, 1_002) && !begun.begin(head, 1, 1_003), "the view was shortened since");
        assert!(!begun.begin(head, 0, 1_003), "a branch from before that");
        assert!(
            begun.begin(head, 1, 1_602) && begun.begin(head, 1, 5),
            "after ten minutes, or by another clock"
        );
        (0..10_000_u32).for_each(|at| {
            let mut other = [0; 32];
            other[..4].copy_from_slice(&at.to_le_bytes());
            begun.begin(other, 0, 6);
        });
        assert!(begun.0.lock().unwrap().len() <= MOST_BEGINNINGS);
    }
}
