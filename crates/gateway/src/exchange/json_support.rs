//! Who writes prose where a pruning agent is to answer in JSON: it is not asked as one again for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use longhaul_core::history::SummaryWriterRecord;
use longhaul_core::plan::{CompactionPolicy, SummaryRejection};
use longhaul_core::strategy::AdaptiveStrategy;

use super::UpstreamAttempt;

/// The strategy whose writer answers in JSON.
pub(super) const PRUNING_AGENT: &str = "pruning-agent";

/// For so long, in seconds: another model may be served by that name then.
const WHILE_SECS: u64 = 3_600;

/// Writers that are remembered, at most.
const MOST_WRITERS: usize = 256;

/// When each writer answered so, in seconds since 1970.
#[derive(Default)]
pub(crate) struct JsonSupport {
    writers: Mutex<BTreeMap<String, u64>>,
}

impl JsonSupport {
    fn add(&self, writer: String, now: u64) {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.retain(|_, at| is_recent(*at, now));
        let oldest = writers.iter().min_by_key(|(_, at)| **at).map(|(writer, _)| writer.clone());
        if let Some(oldest) = oldest.filter(|_| writers.len() >= MOST_WRITERS) {
            writers.remove(&oldest);
        }
        writers.insert(writer, now);
    }

    fn has(&self, writer: &str, now: u64) -> bool {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.get(writer).is_some_and(|at| is_recent(*at, now))
    }
}

/// A clock that was put back makes nobody wait longer.
fn is_recent(at: u64, now: u64) -> bool {
    at <= now && now - at < WHILE_SECS
}

impl UpstreamAttempt {
    /// The strategy by the name under which conversations are kept, whatever stands in for it.
    pub(super) fn strategy_name(&self) -> &str {
        let configured = &self.compaction_setup.policy;
        self.exchange.overrides.strategy.as_deref().unwrap_or_else(|| configured.strategy.name())
    }

    /// The policy as it can be carried out: `adaptive` takes summaries in prose. Who asks for the pruning agent by a header
    /// gets it.
    pub(super) fn able(&self, policy: CompactionPolicy) -> CompactionPolicy {
        let inner = &self.exchange.inner;
        let is_unable = || inner.json_support.has(&self.writer(), (inner.parts.now)());
        let is_ours = self.exchange.overrides.strategy.is_none();
        match policy.strategy.name() == PRUNING_AGENT && is_ours && is_unable() {
            true => CompactionPolicy { strategy: std::sync::Arc::new(AdaptiveStrategy::default()), ..policy },
            false => policy,
        }
    }

    /// What is wrong with an answer says whether its writer can be a pruning agent.
    pub(super) fn heed_rejection(&self, rejected: &SummaryRejection) {
        let inner = &self.exchange.inner;
        if self.policy.strategy.name() == PRUNING_AGENT && rejected.is_other_form() {
            let writer = self.writer();
            tracing::warn!(writer, "no pruning agent: `adaptive` stands in for it for an hour");
            inner.json_support.add(writer, (inner.parts.now)());
        }
    }

    /// Returns whether the writer of summaries is left alone for now.
    pub(super) fn writer_rests(&self) -> bool {
        self.exchange.inner.writers.rests(&self.writer())
    }

    /// Remembers how the writer of summaries has done.
    pub(super) fn note_writer(&self, change: impl FnOnce(&mut SummaryWriterRecord)) {
        self.exchange.inner.writers.note(&self.writer(), change);
    }

    /// Who writes the summaries.
    fn writer(&self) -> String {
        match &self.compaction_setup.summariser {
            Some(other) => {
                let origin = other.origin();
                format!("{}/{}", origin.provider, origin.model)
            }
            None => format!("{}/{}", self.target.server.upstream.name, self.target.model),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_remembered_for_an_hour_and_no_more_than_so_many_are() {
        let prose = JsonSupport::default();
        prose.add("a".to_owned(), 1_000);
        assert!(prose.has("a", 1_000) && prose.has("a", 4_599) && !prose.has("b", 1_000));
        assert!(!prose.has("a", 4_600) && !prose.has("a", 999));
        for at in 0..=MOST_WRITERS as u64 {
            prose.add(format!("w{at}"), 2_000 + at);
        }
        assert_eq!(prose.writers.lock().unwrap().len(), MOST_WRITERS);
        assert!(!prose.has("w0", 2_300) && prose.has("w1", 2_300), "the oldest gives way");
    }
}
