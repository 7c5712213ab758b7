//! Retention report of a compaction: the facts of removed messages that are still in the view, and the access to the
//! others.
//!
//! A program finds the facts in one pass and without a model, so equal messages give equal reports. The report counts
//! facts that are *present*. A model may use fewer of them.

pub mod facts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::derived_cache::LazyValue;
use crate::message::{Message, Part};
use crate::parallel;
use crate::stop_flag::StopFlag;
use crate::text_table::{FingerprintSet, TextTable};
use facts::{ClassifiedFacts, FactSink, text_bytes};

/// The numbers of retained, recoverable and lost facts of each class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetentionReport {
    /// One tally for each class with at least one fact: `userConstraints`, `decisions`, `paths`, `identifiers`,
    /// `errorLines`, `numbers`.
    pub classes: BTreeMap<String, RetentionTally>,
}

/// The facts of one class by their availability. Each fact is counted once, at the best availability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetentionTally {
    /// Facts in the view, letter for letter (runs of blanks count as one).
    pub verbatim: u64,
    /// Facts outside the view for which the model has a handle.
    pub recoverable_by_model: u64,
    /// Facts outside the view that a person finds in the log.
    pub recoverable_by_user: u64,
    /// Facts that are neither in the view nor in a log.
    pub lost: u64,
}

impl RetentionTally {
    /// Returns the number of all facts of the class.
    pub fn total(&self) -> u64 {
        self.verbatim + self.recoverable_by_model + self.recoverable_by_user + self.lost
    }
}

/// The party that can get back content that left the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecoveryAccess {
    /// The model, by a visible handle.
    Model,
    /// A person, from the log.
    User,
    /// No party: there is no log.
    Nobody,
}

/// Reports on the facts of `before`, the removed messages. `after_text` is all text of the new view.
///
/// The log keeps all messages, so no fact is lost. With `handles_visible` the model can recover the others, else the
/// user.
///
/// ```
/// use longhaul_core::message::{Message, Part};
/// let typed = Message::user("m1", vec![Part::text("Never touch src/main.rs.")]);
/// let report = longhaul_core::retention_report::survey(&[&typed], "Files: src/main.rs", true);
/// assert_eq!(report.classes["paths"].verbatim, 1);
/// assert_eq!(report.classes["userConstraints"].recoverable_by_model, 1);
/// ```
pub fn survey(before: &[&Message], after_text: &str, handles_visible: bool) -> RetentionReport {
    survey_within(
        before,
        after_text,
        if handles_visible { RecoveryAccess::Model } else { RecoveryAccess::User },
    )
}

/// Reports like [`survey`] on messages and summaries. Facts of `folded`, the originals behind the summaries,
/// count if the removed messages contain them.
pub fn survey_folded(before: &[&Message], folded: &[&Message], after_text: &str) -> RetentionReport {
    let sentences: Vec<SentenceFacts> = folded.iter().map(|message| SentenceFacts::of(message)).collect();
    let sentences: Vec<&SentenceFacts> = sentences.iter().collect();
    survey_sentences(before, &sentences, after_text, &StopFlag::default()).unwrap_or_default()
}

/// Reports like [`survey_folded`], with the originals' sentences extracted earlier. `None` if `stop_flag` is raised.
pub fn survey_sentences(
    before: &[&Message],
    folded: &[&SentenceFacts],
    after_text: &str,
    stop_flag: &StopFlag,
) -> Option<RetentionReport> {
    // A summary is no message of the user, so its rules would not be found. The originals show which sentences are
    // facts.
    let mut found = Vec::new();
    // Indexing the shown text is dear, and most compactions fold no summary.
    if folded.iter().any(|message| !message.0.is_empty()) {
        let shown: String =
            before.iter().flat_map(|message| message.parts.iter().filter_map(Part::as_text)).collect();
        let single_spaced = facts::single_spaced(&shown);
        let shown = IndexedView::of_sentences(&single_spaced);
        let sentences = folded.iter().flat_map(|message| &message.0);
        found.extend(sentences.filter(|(_, sentence)| shown.has_sentence(sentence)));
    }
    tallied(before, &found, after_text, RecoveryAccess::Model, stop_flag)
}

/// Reports like [`survey`] on a history without a session. `reach` is the party that can recover removed content.
pub fn survey_within(before: &[&Message], after_text: &str, reach: RecoveryAccess) -> RetentionReport {
    tallied(before, &[], after_text, reach, &StopFlag::default()).unwrap_or_default()
}

/// Counts the sentences `found` and the facts of `before` in the new view; `None` if `stop_flag` is raised.
fn tallied(
    before: &[&Message],
    found: &[&(&'static str, Box<str>)],
    after_text: &str,
    reach: RecoveryAccess,
    stop_flag: &StopFlag,
) -> Option<RetentionReport> {
    let single_spaced = facts::single_spaced(after_text);
    let after = IndexedView::read(after_text, &single_spaced);
    let mut facts = FactCounts::of(&after);
    found.iter().for_each(|(class, sentence)| facts.take_sentence(class, sentence));
    facts.read_all(before, stop_flag)?;
    // Sentences and words are looked for differently: a sentence must stand in one piece, a word anywhere.
    let mut report = RetentionReport::default();
    for (class, counts) in facts.sentences {
        report.add(class, counts.seen.len(), counts.verbatim.len(), reach);
    }
    for (class, seen) in facts.words {
        // The search goes from the new view to the facts: the view is short, and removed messages may have millions of
        // words.
        let verbatim = after.words.iter().filter(|word| seen.contains(word)).count();
        report.add(class, seen.len(), verbatim, reach);
    }
    Some(report)
}

/// The distinct facts of removed messages by class. Their texts are not kept, because those of a long session would fill
/// memory.
struct FactCounts<'v> {
    after: &'v IndexedView<'v>,
    sentences: BTreeMap<&'static str, SentenceCounts>,
    words: BTreeMap<&'static str, FingerprintSet>,
}

/// The distinct sentences of a class.
#[derive(Default)]
struct SentenceCounts {
    seen: FingerprintSet,
    /// The sentences that the new view has.
    verbatim: FingerprintSet,
}

impl<'v> FactCounts<'v> {
    fn of(after: &'v IndexedView<'v>) -> Self {
        Self { after, sentences: BTreeMap::new(), words: BTreeMap::new() }
    }

    /// Adds the facts of many messages; `None` if `stop_flag` is raised meanwhile.
    fn read_all(&mut self, messages: &[&Message], stop_flag: &StopFlag) -> Option<()> {
        let Some(middle) = parallel::middle(messages, |message| text_bytes(message)) else {
            return self.read_in_order(messages, stop_flag);
        };
        let (first, second) = messages.split_at(middle);
        let after = self.after;
        let read_second = || {
            let mut counts = FactCounts::of(after);
            counts.read_in_order(second, stop_flag).map(|()| counts)
        };
        let (second, first) = parallel::join(read_second, || self.read_in_order(first, stop_flag));
        first?;
        self.merge(second?);
        Some(())
    }

    fn merge(&mut self, other: Self) {
        for (class, counts) in other.sentences {
            let known = self.sentences.entry(class).or_default();
            known.seen.merge(counts.seen);
            known.verbatim.merge(counts.verbatim);
        }
        for (class, seen) in other.words {
            self.words.entry(class).or_default().merge(seen);
        }
    }
}

impl FactSink for FactCounts<'_> {
    fn take_sentence(&mut self, class: &'static str, sentence: &str) {
        let counts = self.sentences.entry(class).or_default();
        if counts.seen.insert(sentence) && self.after.has_sentence(sentence) {
            counts.verbatim.insert(sentence);
        }
    }

    fn take_word(&mut self, class: &'static str, word: &str) {
        self.words.entry(class).or_default().insert(word);
    }
}

/// The facts of one message that are sentences or lines, with their classes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SentenceFacts(Box<[(&'static str, Box<str>)]>);

impl SentenceFacts {
    /// Reads a message.
    pub fn of(message: &Message) -> Self {
        let mut facts = ClassifiedFacts::default();
        facts.read_sentences(message);
        let classes = facts.sentences.into_iter();
        Self(classes.flat_map(|(class, items)| items.into_iter().map(move |item| (class, item))).collect())
    }
}

/// The [`SentenceFacts`] of a stored message, extracted at the first request. Clones share the facts, so that the next
/// report of a session reads only newer messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SharedSentences(Arc<LazyValue<SentenceFacts>>);

impl SharedSentences {
    /// Returns the sentences of `message`, which must be the message that the facts belong to.
    pub(crate) fn get(&self, message: &Message) -> &SentenceFacts {
        self.0.get(|| SentenceFacts::of(message))
    }
}

impl RetentionReport {
    /// Adds a class of `total` facts, of which `verbatim` stand in the new view.
    fn add(&mut self, class: &str, total: usize, verbatim: usize, reach: RecoveryAccess) {
        let (verbatim, gone) = (verbatim as u64, (total - verbatim) as u64);
        let mut tally = RetentionTally { verbatim, ..RetentionTally::default() };
        match reach {
            RecoveryAccess::Model => tally.recoverable_by_model = gone,
            RecoveryAccess::User => tally.recoverable_by_user = gone,
            RecoveryAccess::Nobody => tally.lost = gone,
        }
        self.classes.insert(class.to_owned(), tally);
    }
}

/// The most places of the view that are compared with one sentence. Each begins with the first two words of the
/// sentence.
const MAX_PLACES: usize = 64;

/// The new view with an index for the search of sentences and words.
struct IndexedView<'a> {
    words: BTreeSet<String>,
    text: &'a str,
    /// The places at which each pair of words begins.
    places: TextTable<(&'a str, &'a str), Vec<usize>>,
}

impl<'a> IndexedView<'a> {
    /// Indexes a text for the search of sentences only.
    fn of_sentences(single_spaced: &'a str) -> Self {
        // A plain search for each of thousands of sentences would scan the whole view each time.
        let mut places: TextTable<_, Vec<usize>> = TextTable::default();
        for (at, pair) in facts::word_pairs(single_spaced) {
            let known = places.entry(pair).or_default();
            if known.len() < MAX_PLACES {
                known.push(at);
            }
        }
        Self { words: BTreeSet::new(), text: single_spaced, places }
    }

    /// Indexes a text for the search of sentences and words.
    fn read(text: &str, single_spaced: &'a str) -> Self {
        Self { words: facts::all_words(text), ..Self::of_sentences(single_spaced) }
    }

    fn has_sentence(&self, sentence: &str) -> bool {
        // A text without two words, as in scripts without blanks, has no entry in the index.
        let Some((_, pair)) = facts::word_pairs(sentence).next() else { return self.text.contains(sentence) };
        let mut places = self.places.get(&pair).into_iter().flatten();
        places.any(|at| self.text.get(*at..).is_some_and(|rest| rest.starts_with(sentence)))
    }
}

#[cfg(test)]
mod tests;
