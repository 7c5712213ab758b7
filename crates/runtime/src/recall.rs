//! `recall`: returns the exact original of a message that was pruned, truncated or compacted, by handle, by range of a
//! handle, or by a search over the session's log.
//!
//! A handle is a position in this session's log and is resolved only here. Text that merely looks like a handle reaches
//! nothing outside the session.

use longhaul_core::history::{History, LogEntry, ViewItemKind};
use longhaul_core::ids::Seq;
use longhaul_core::message::Part;
use longhaul_core::recall::tool::{
    RecallRequest, extent, is_own, nothing_found, push_plain, span_text, speaker, wrong_handle,
};
use longhaul_core::recall::{SHOWN_WEIGHT, SearchIndex, closely};
use longhaul_core::truncate::TextLimit;
use longhaul_store::BlobStore;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use longhaul_core::recall::tool::plain_text;
pub use longhaul_core::recall::tool::{DEFAULT_HITS, NAME, RecallSnippet, hits_text as as_text, spec};

/// The messages open to recall: every message of a session.
#[derive(Clone, Debug)]
pub struct RecallSource {
    entries: Vec<LogEntry>,
    /// The messages in full view of the model, which a search ranks last.
    shown: BTreeSet<Seq>,
    index: SharedSearchIndex,
}

/// The index of the words in a session's searched messages. The index is kept beside a session and only extended, so a
/// search costs only the messages since the last one.
#[derive(Clone, Debug, Default)]
pub struct SharedSearchIndex(Arc<Mutex<SearchIndex>>);

/// The number of messages indexed before a search yields to other tasks and can be cancelled.
const SLICE_MESSAGES: usize = 64;

impl SharedSearchIndex {
    fn lock(&self) -> MutexGuard<'_, SearchIndex> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the entries since the last search. An unreadable message is not found.
    async fn extend(&self, entries: &[LogEntry], blobs: &BlobStore) {
        loop {
            // The lock is not held while blobs are read, because another search would block its thread on the lock.
            let known = self.lock().len();
            let new = entries.iter().skip(known).take(SLICE_MESSAGES);
            let mut texts = Vec::new();
            for entry in new {
                texts.push(original(entry, blobs).await.unwrap_or_default());
            }
            if texts.is_empty() {
                return;
            }
            {
                let mut index = self.lock();
                // Another search may have added some of them meanwhile.
                let taken = index.len() - known;
                texts.iter().skip(taken).for_each(|text| _ = index.add(text));
            }
            // A cancelled search ends here, and other tasks of this thread can run.
            tokio::task::yield_now().await;
        }
    }
}

impl RecallSource {
    /// Makes a source of a session's current messages, with an empty index.
    pub fn of(history: &History) -> Self {
        Self::with(history, SharedSearchIndex::default())
    }

    /// Makes a source of a session's current messages, with the session's index.
    pub fn with(history: &History, index: SharedSearchIndex) -> Self {
        let whole = history.view().iter().filter(|item| {
            !matches!(
                item.kind,
                ViewItemKind::Summary(_)
                    | ViewItemKind::Removed(_)
                    | ViewItemKind::Result { cleared: Some(_), .. }
            )
        });
        let shown = whole.map(|item| item.range.from).filter(|seq| !is_truncated(history, *seq)).collect();
        Self { entries: history.entries().to_vec(), shown, index }
    }

    fn out_of_view(&self) -> impl Iterator<Item = Seq> {
        let away = self.entries.iter().filter(|entry| !self.shown.contains(&entry.seq) && !is_own(entry));
        away.map(|entry| entry.seq)
    }
}

fn is_truncated(history: &History, seq: Seq) -> bool {
    let parts = history.entry(seq).map_or(&[][..], |entry| &entry.message.parts);
    parts.iter().any(|part| matches!(part, Part::ToolResult(result) if result.truncated.is_some()))
}

/// Answers a call with a text or the reason for a failure.
///
/// # Errors
/// A sentence for the model.
pub async fn recall(
    arguments: &str,
    source: &RecallSource,
    blobs: &BlobStore,
    limit: &TextLimit,
) -> Result<String, String> {
    match RecallRequest::read(arguments)? {
        RecallRequest::Span { handle, span, range } => {
            let mut found = Vec::new();
            for entry in
                source.entries.iter().filter(|entry| span.is_some_and(|span| span.contains(entry.seq)))
            {
                found.push(RecallSnippet {
                    seq: entry.seq,
                    speaker: speaker(entry),
                    snippet: original(entry, blobs).await?,
                });
            }
            tracing::debug!(
                messages = found.len(),
                bytes = found.iter().map(|found| found.snippet.len()).sum::<usize>(),
                "the model recalls a span"
            );
            if found.is_empty() {
                return Err(wrong_handle(&handle, span, source.out_of_view()));
            }
            span_text(&handle, range, &found, limit)
        }
        RecallRequest::Words { query, hits } => {
            let found = search(&query, hits, source, blobs, limit).await;
            tracing::debug!(
                searched = source.entries.len(),
                shown = source.shown.len(),
                wanted = hits,
                found = found.len(),
                "the model searches the session"
            );
            Ok(if found.is_empty() { nothing_found(&query) } else { as_text(&found, limit) })
        }
    }
}

/// Returns a stored message as text, byte for byte in the case of text, with a truncated output in full.
async fn original(entry: &LogEntry, blobs: &BlobStore) -> Result<String, String> {
    let mut text = String::new();
    for part in &entry.message.parts {
        match part {
            Part::ToolResult(result) => match &result.truncated {
                Some(truncation) => {
                    let bytes =
                        blobs.get(&truncation.blob).await.map_err(|error| format!("recall: {error}"))?;
                    text.push_str(&String::from_utf8_lossy(&bytes));
                }
                None => result.content.iter().for_each(|part| push_plain(&mut text, part)),
            },
            part => push_plain(&mut text, part),
        }
    }
    Ok(text)
}

/// Returns the passages for a query, the best first: at most `hits`, all within `limit`.
pub async fn search(
    query: &str,
    hits: usize,
    source: &RecallSource,
    blobs: &BlobStore,
    limit: &TextLimit,
) -> Vec<RecallSnippet> {
    source.index.extend(&source.entries, blobs).await;
    // The block ends the lock: reading blobs below takes time, and other searches need the index.
    let (asked, candidates) = {
        let index = source.index.lock();
        let asked = index.query(query, source.entries.len());
        let most = extent(hits, limit).closely_ranked();
        let candidates = index.best_candidates(&asked, source.entries.len(), most, |at| source.weight(at));
        (asked, candidates)
    };
    let mut texts = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        texts.push((candidate, original(&source.entries[candidate.at], blobs).await.unwrap_or_default()));
    }
    let ranked = closely(&asked, texts, extent(hits, limit));
    let hits = ranked.into_iter().map(|found| {
        let entry = &source.entries[found.at];
        RecallSnippet { seq: entry.seq, speaker: speaker(entry), snippet: found.snippet }
    });
    hits.collect()
}

impl RecallSource {
    /// Returns the factor by which the rank of an entry is multiplied.
    fn weight(&self, at: usize) -> f64 {
        match self.entries.get(at) {
            // The answers of `recall` itself repeat other messages and would only crowd them out.
            Some(entry) if is_own(entry) => 0.0,
            Some(entry) if self.shown.contains(&entry.seq) => SHOWN_WEIGHT,
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests;
