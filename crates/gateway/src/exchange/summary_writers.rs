//! The memory of summary writers, over all conversations: their successes and failures, and answers in prose where
//! the pruning agent needs JSON. Such a writer is no pruning agent for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use longhaul_core::history::SummaryWriterRecord;

/// The maximum number of remembered writers.
const MAX_WRITERS: usize = 256;

/// The record of each writer by its name.
#[derive(Default)]
pub(crate) struct WriterRecords(Mutex<BTreeMap<String, SummaryWriterRecord>>);

impl WriterRecords {
    /// Updates the record of a writer. At the limit all others are forgotten: their names come from clients.
    pub(super) fn note(&self, writer: &str, change: impl FnOnce(&mut SummaryWriterRecord)) {
        let mut writers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if writers.len() >= MAX_WRITERS && !writers.contains_key(writer) {
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

/// The strategy whose writer answers in JSON.
pub(super) const PRUNING_AGENT: &str = "pruning-agent";

/// The time for which a writer is remembered, in seconds. Another model may be served under its name later.
const WHILE_SECS: u64 = 3_600;

/// The time of each writer's last prose answer, in seconds since 1970.
#[derive(Default)]
pub(crate) struct JsonSupport {
    writers: Mutex<BTreeMap<String, u64>>,
}

impl JsonSupport {
    pub(super) fn add(&self, writer: String, now: u64) {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        // Names of writers come from clients' models, so the map is bounded.
        writers.retain(|_, at| is_recent(*at, now));
        let oldest = writers.iter().min_by_key(|(_, at)| **at).map(|(writer, _)| writer.clone());
        if let Some(oldest) = oldest.filter(|_| writers.len() >= MAX_WRITERS) {
            writers.remove(&oldest);
        }
        writers.insert(writer, now);
    }

    pub(super) fn has(&self, writer: &str, now: u64) -> bool {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.get(writer).is_some_and(|at| is_recent(*at, now))
    }
}

/// Returns whether `at` is recent. A clock set back does not prolong the wait.
fn is_recent(at: u64, now: u64) -> bool {
    at <= now && now - at < WHILE_SECS
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
        assert!(writers.0.lock().unwrap().len() <= MAX_WRITERS);
    }

    #[test]
    fn a_writer_is_remembered_for_an_hour_and_no_more_than_so_many_are() {
        let prose = JsonSupport::default();
        prose.add("a".to_owned(), 1_000);
        assert!(prose.has("a", 1_000) && prose.has("a", 4_599) && !prose.has("b", 1_000));
        assert!(!prose.has("a", 4_600) && !prose.has("a", 999));
        for at in 0..=MAX_WRITERS as u64 {
            prose.add(format!("w{at}"), 2_000 + at);
        }
        assert_eq!(prose.writers.lock().unwrap().len(), MAX_WRITERS);
        assert!(!prose.has("w0", 2_300) && prose.has("w1", 2_300), "the oldest gives way");
    }
}
