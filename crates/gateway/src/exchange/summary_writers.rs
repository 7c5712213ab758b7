//! The records of all summary writers, over all conversations. After repeated failures a writer is left alone
//! for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use longhaul_core::history::SummaryWriterRecord;

/// The maximum number of remembered writers.
const MOST_WRITERS: usize = 256;

/// The record of each writer by its name.
#[derive(Default)]
pub(crate) struct WriterRecords(Mutex<BTreeMap<String, SummaryWriterRecord>>);

impl WriterRecords {
    /// Updates the record of a writer. At the limit all others are forgotten: their names come from clients.
    pub(super) fn note(&self, writer: &str, change: impl FnOnce(&mut SummaryWriterRecord)) {
        let mut writers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if writers.len() >= MOST_WRITERS && !writers.contains_key(writer) {
            writers.clear();
        }
        change(writers.entry(writer.to_owned()).or_default());
    }

    /// Returns whether a writer is left alone.
    pub(super) fn rests(&self, writer: &str) -> bool {
        let writers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writers.get(writer).is_some_and(SummaryWriterRecord::is_suspended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_writer_has_a_record_and_there_are_not_too_many() {
        let writers = WriterRecords::default();
        (0..3).for_each(|_| writers.note("a", SummaryWriterRecord::failed));
        writers.note("b", SummaryWriterRecord::failed);
        assert!(writers.rests("a") && !writers.rests("b") && !writers.rests("c"));
        (0..7).for_each(|_| writers.note("a", SummaryWriterRecord::record_skipped_compaction));
        assert!(!writers.rests("a"), "it is tried again");
        (0..1_000).for_each(|at| writers.note(&at.to_string(), SummaryWriterRecord::failed));
        assert!(writers.0.lock().unwrap().len() <= MOST_WRITERS);
    }
}
