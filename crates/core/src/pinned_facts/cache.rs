//! Cache of pinned facts: a new extraction continues the longest cached one that is its beginning.
//!
//! A compaction covers all messages of the previous one and some more. Without the cache each compaction would read the
//! whole log again.

use std::ops::Range;
use std::sync::Arc;

use super::PinnedFacts;
use crate::derived_cache::DerivedCache;
use crate::history::LogEntry;
use crate::parallel;
use crate::retention_report::facts::text_bytes;
use crate::stop_flag::StopFlag;

/// The text that is read between two looks at the stop flag, in bytes: some hundredths of a second of work.
const BATCH_BYTES: usize = 2 * parallel::LEAST_BYTES;

/// The most extractions kept: two parts of the log, each with the beginning that ends at the newest typed message. A
/// plan asks for the part that its strategy drops, and sometimes for the part that the last resort drops.
const MAX_LEDGERS: usize = 4;

/// The newest extractions of pinned facts of one session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PinnedFactsCache(DerivedCache<Vec<CachedPinnedFacts>>);

/// Pinned facts and their messages.
#[derive(Clone, Debug)]
struct CachedPinnedFacts {
    /// The messages, as ascending ranges of indices with gaps between them.
    read: Vec<Range<usize>>,
    ledger: Arc<PinnedFacts>,
}

impl PinnedFactsCache {
    /// Returns the pinned facts of the messages at the `wanted` indices, given as ascending ranges. The newest messages
    /// are missing if `stop_flag` is raised meanwhile.
    pub(crate) fn ledger(
        &self,
        entries: &[LogEntry],
        wanted: impl IntoIterator<Item = Range<usize>>,
        has_recall: bool,
        stop_flag: &StopFlag,
    ) -> Arc<PinnedFacts> {
        let wanted = joined(wanted);
        let mut ledgers = self.0.lock();
        let best = ledgers.iter().enumerate().filter(|(_, known)| is_beginning(&known.read, &wanted));
        let best = best.max_by_key(|(_, known)| count(&known.read)).map(|(at, _)| at);
        // The entry goes to the end of the list, as the one that was used last.
        let mut known = match best.map(|at| ledgers.remove(at)) {
            Some(known) => known,
            None => {
                CachedPinnedFacts { read: Vec::new(), ledger: Arc::new(PinnedFacts::for_model(has_recall)) }
            }
        };
        let first = wanted.get(..1).unwrap_or_default();
        if wanted.len() > 1 && known.read != *first && is_beginning(&known.read, first) {
            // The gap is a message that must stay for now. Once a later part includes it, facts that skipped it are no
            // beginning of that part any more, but facts up to the gap are.
            known.extend(entries, first, stop_flag);
            ledgers.push(known.clone());
        }
        known.extend(entries, &wanted, stop_flag);
        let ledger = Arc::clone(&known.ledger);
        ledgers.push(known);
        // The list is in order of use, so the front has the entries that no plan asked for lately.
        let excess = ledgers.len().saturating_sub(MAX_LEDGERS);
        ledgers.drain(..excess);
        ledger
    }
}

impl CachedPinnedFacts {
    /// Reads the rest of `wanted` until `stop_flag` is raised. The messages read so far are a beginning of `wanted`.
    fn extend(&mut self, entries: &[LogEntry], wanted: &[Range<usize>], stop_flag: &StopFlag) {
        let end = self.read.last().map_or(0, |range| range.end);
        let rest =
            wanted.iter().map(|range| range.start.max(end)..range.end).filter(|range| !range.is_empty());
        let mut rest = rest.peekable();
        if rest.peek().is_none() {
            return;
        }
        // A plan may still hold the facts of before, which then get a copy of their own.
        let ledger = Arc::make_mut(&mut self.ledger);
        for range in rest {
            let mut left = entries.get(range.clone()).unwrap_or_default();
            let mut at = range.start;
            while !left.is_empty() {
                if stop_flag.is_raised() {
                    // The range read so far is recorded exactly, so that the next call continues here.
                    self.read = beginning(wanted, at);
                    return;
                }
                let (batch, later) = left.split_at(batch_len(left));
                ledger.extend_all(batch);
                at += batch.len();
                left = later;
            }
        }
        self.read = wanted.to_vec();
    }
}

/// Returns the number of messages that are read between two looks at the stop flag; at least one.
fn batch_len(entries: &[LogEntry]) -> usize {
    let mut bytes = 0;
    let batch = entries.iter().take_while(|entry| {
        let is_wanted = bytes < BATCH_BYTES;
        bytes += text_bytes(&entry.message);
        is_wanted
    });
    batch.count()
}

/// Returns the ranges without empty ones, with adjacent ranges joined.
fn joined(ranges: impl IntoIterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match joined.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => joined.push(range),
        }
    }
    joined
}

/// Returns the part of some ascending ranges that comes before `end`.
fn beginning(ranges: &[Range<usize>], end: usize) -> Vec<Range<usize>> {
    let cut = ranges.iter().map(|range| range.start..range.end.min(end));
    cut.filter(|range| !range.is_empty()).collect()
}

/// Returns whether `whole` begins with all of `part`.
fn is_beginning(part: &[Range<usize>], whole: &[Range<usize>]) -> bool {
    let Some((last, before)) = part.split_last() else { return true };
    let Some(same) = whole.get(..before.len()) else { return false };
    let next = whole.get(before.len());
    same == before && next.is_some_and(|range| range.start == last.start && last.end <= range.end)
}

fn count(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(Range::len).sum()
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range of messages is a list of ranges too")]
mod tests {
    use super::*;
    use crate::event::{Event, EventBody, FORMAT};
    use crate::history::History;
    use crate::message::{Message, Part};

    fn history(messages: u64) -> History {
        let said = (1..=messages).map(|seq| {
            let text = format!("Set limit_{seq}={seq}41 and look at src/part_{seq}.rs and src/all.rs.");
            let message = Message::user(format!("m{seq}"), vec![Part::text(text)]);
            let body = EventBody::message_taken(message);
            Event { seq, at: seq, format: FORMAT, body }
        });
        History::fold(&said.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_cached_ledger_is_the_one_that_is_read_at_once() {
        let history = history(40);
        let cache = PinnedFactsCache::default();
        for wanted in [
            vec![0..9],
            vec![0..9, 9..14],
            vec![0..20],
            vec![0..20, 21..30],
            vec![0..35],
            vec![3..8],
            vec![0..8],
            vec![0..5, 6..12, 14..40],
            vec![0..40],
            vec![],
        ] {
            let cached = cache.ledger(history.entries(), wanted.clone(), true, &StopFlag::default());
            let read = PinnedFacts::read(wanted.iter().flat_map(|range| &history.entries()[range.clone()]));
            assert_eq!(*cached, read, "{wanted:?}");
        }
    }

    #[test]
    fn only_what_is_new_is_read() {
        let history = history(40);
        let cache = PinnedFactsCache::default();
        cache.ledger(history.entries(), [0..20, 21..30], true, &StopFlag::default());
        let read: Vec<usize> =
            cache.0.lock().iter().map(|known| known.read.last().map_or(0, |range| range.end)).collect();
        assert_eq!(read, [20, 30]);
        cache.ledger(history.entries(), [0..35], true, &StopFlag::default());
        let read: Vec<Vec<Range<usize>>> = cache.0.lock().iter().map(|known| known.read.clone()).collect();
        assert_eq!(read, [vec![0..20, 21..30], vec![0..35]], "the gap was closed from the shorter one");
    }

    #[test]
    fn a_copy_of_a_session_goes_its_own_way() {
        let mut one = history(10);
        let cache = PinnedFactsCache::default();
        cache.ledger(one.entries(), [0..10], true, &StopFlag::default());
        let copied = cache.clone();
        let message = Message::user("m11", vec![Part::text("- [ ] only in one of them")]);
        let body = EventBody::message_taken(message);
        one.apply(&Event { seq: 11, at: 11, format: FORMAT, body }).unwrap();
        assert_eq!(cache.ledger(one.entries(), [0..11], true, &StopFlag::default()).open_todos().count(), 1);
        let other = history(11);
        assert_eq!(
            copied.ledger(other.entries(), [0..11], true, &StopFlag::default()).open_todos().count(),
            0
        );
    }

    #[test]
    fn a_long_log_gives_the_ledger_of_a_reading_message_by_message() {
        // Several batches, of which most are read by two threads.
        let said = (1..=600).map(|seq| {
            let lines = (0..60).map(|line| {
                format!("src/part_{seq}/file_{}.rs has item_{} and limit={seq}\n", line % 7, seq * line)
            });
            let message = Message::user(format!("m{seq}"), vec![Part::text(lines.collect::<String>())]);
            let body = EventBody::message_taken(message);
            Event { seq, at: seq, format: FORMAT, body }
        });
        let history = History::fold(&said.collect::<Vec<_>>()).unwrap();
        let bytes: usize = history.entries().iter().map(|entry| text_bytes(&entry.message)).sum();
        assert!(bytes > 3 * BATCH_BYTES, "{bytes}");
        let cached = PinnedFactsCache::default().ledger(
            history.entries(),
            [0..200, 203..600],
            true,
            &StopFlag::default(),
        );
        let entries = history.entries();
        assert_eq!(*cached, PinnedFacts::read(entries[..200].iter().chain(&entries[203..])));
    }

    #[test]
    fn a_stopped_ledger_goes_on_where_it_was_stopped() {
        let history = history(40);
        let (cache, stop_flag) = (PinnedFactsCache::default(), StopFlag::default());
        cache.ledger(history.entries(), [0..12, 13..20], true, &stop_flag);
        stop_flag.raise();
        let stopped = cache.ledger(history.entries(), [0..12, 13..40], true, &stop_flag);
        let entries = history.entries();
        assert_eq!(*stopped, PinnedFacts::read(entries[0..12].iter().chain(&entries[13..20])));
        assert_eq!(cache.0.lock().last().map(|known| known.read.clone()), Some(vec![0..12, 13..20]));
        stop_flag.heed();
        let whole = cache.ledger(history.entries(), [0..12, 13..40], true, &stop_flag);
        assert_eq!(*whole, PinnedFacts::read(entries[0..12].iter().chain(&entries[13..40])));
    }

    proptest::proptest! {
        #[test]
        fn cached_and_stopped_ledgers_are_those_of_a_single_reading(
            asked in proptest::collection::vec((0..30_usize, 0..4_usize, 0..30_usize, proptest::bool::ANY), 1..12),
        ) {
            let history = history(30);
            let cache = PinnedFactsCache::default();
            for (end, gap, more, is_stopped) in asked {
                let from = (end + gap).min(30);
                let wanted = vec![0..end, from..(from + more).min(30)];
                let stop_flag = StopFlag::default();
                if is_stopped {
                    stop_flag.raise();
                }
                let cached = cache.ledger(history.entries(), wanted.clone(), true, &stop_flag);
                let read = PinnedFacts::read(wanted.iter().flat_map(|range| &history.entries()[range.clone()]));
                proptest::prop_assert!(is_stopped || *cached == read, "{wanted:?}");
            }
        }
    }
}
