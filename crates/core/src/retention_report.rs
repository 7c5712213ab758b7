//! The survival report of a compaction: which facts of the messages that go away are still there, and who can
//! get the others back.
//!
//! Facts are found by program, in one pass and without a model, so the report is the same every time. It says
//! what is *present*, which is more than what a model will make use of.

pub mod facts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::memo::LazyValue;
use crate::message::{Message, Part};
use crate::stop_flag::StopFlag;
use crate::text_table::TextTable;
use facts::ClassifiedFacts;

/// The facts of each class, by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetentionReport {
    /// One tally for each class that had facts: `userConstraints`, `decisions`, `paths`, `identifiers`,
    /// `errorLines`, `numbers`.
    pub classes: BTreeMap<String, RetentionTally>,
}

/// The numbers of facts. Each fact is counted once, in the best column that it reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetentionTally {
    /// Still in the view, letter for letter (runs of blanks count as one).
    pub verbatim: u64,
    /// Not in the view, but the model has a handle that returns it.
    pub recoverable_by_model: u64,
    /// Not in the view; a person finds it in the log.
    pub recoverable_by_user: u64,
    /// Nowhere.
    pub lost: u64,
}

impl RetentionTally {
    /// All facts of the class.
    pub fn total(&self) -> u64 {
        self.verbatim + self.recoverable_by_model + self.recoverable_by_user + self.lost
    }
}

/// The party that can get back content that left the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecoveryAccess {
    /// The model, by a handle it is shown.
    Model,
    /// A person, from the log.
    User,
    /// No party: there is no log.
    Nobody,
}

/// Reports on the facts of `before`, the messages that go away. `after_text` is all text of the new view. The log
/// keeps everything, so nothing is lost: without visible handles it is the user who can recover it.
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

/// [`survey`] of messages among which are summaries: what `folded`, the originals behind them, say counts as far as it
/// stands in them.
pub fn survey_folded(before: &[&Message], folded: &[&Message], after_text: &str) -> RetentionReport {
    let sentences: Vec<SentenceFacts> = folded.iter().map(|message| SentenceFacts::of(message)).collect();
    let sentences: Vec<&SentenceFacts> = sentences.iter().collect();
    survey_sentences(before, &sentences, after_text, &StopFlag::default()).unwrap_or_default()
}

/// [`survey_folded`] with the sentences of the originals as they were found before; `None` once `stop_flag` is raised.
pub fn survey_sentences(
    before: &[&Message],
    folded: &[&SentenceFacts],
    after_text: &str,
    stop_flag: &StopFlag,
) -> Option<RetentionReport> {
    let mut facts = ClassifiedFacts::default();
    if folded.iter().any(|message| !message.0.is_empty()) {
        let shown: String =
            before.iter().flat_map(|message| message.parts.iter().filter_map(Part::as_text)).collect();
        let single_spaced = facts::single_spaced(&shown);
        let shown = IndexedView::of_sentences(&single_spaced);
        let sentences = folded.iter().flat_map(|message| &message.0);
        for (class, sentence) in sentences.filter(|(_, sentence)| shown.has_sentence(sentence)) {
            facts.add_found(class, sentence);
        }
    }
    tallied(before, facts, after_text, RecoveryAccess::Model, stop_flag)
}

/// [`survey`] for a history that is not a session's: who can reach what left the view is given.
pub fn survey_within(before: &[&Message], after_text: &str, reach: RecoveryAccess) -> RetentionReport {
    tallied(before, ClassifiedFacts::default(), after_text, reach, &StopFlag::default()).unwrap_or_default()
}

fn tallied(
    before: &[&Message],
    mut facts: ClassifiedFacts,
    after_text: &str,
    reach: RecoveryAccess,
    stop_flag: &StopFlag,
) -> Option<RetentionReport> {
    for message in before {
        if stop_flag.is_raised() {
            return None;
        }
        facts.read(message);
    }
    let single_spaced = facts::single_spaced(after_text);
    let after = IndexedView::read(after_text, &single_spaced);
    let mut report = RetentionReport::default();
    for (class, items) in facts.sentences {
        let verbatim = items.iter().filter(|item| after.has_sentence(item)).count();
        report.add(class, items.len(), verbatim, reach);
    }
    for (class, items) in facts.words {
        // The new view is short, and what it replaces may have millions of words.
        let verbatim = after.words.iter().filter(|word| items.contains(word.as_str())).count();
        report.add(class, items.len(), verbatim, reach);
    }
    Some(report)
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

/// The [`SentenceFacts`] of a stored message, found when they are first asked for. Clones share them, so that a
/// session's next report reads only what was said since the last one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SharedSentences(Arc<LazyValue<SentenceFacts>>);

impl SharedSentences {
    /// Returns the sentences of the message that they belong to.
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

/// The most places of the view that are compared with a sentence. A place begins with the first two words of the sentence.
const MAX_PLACES: usize = 64;

/// The new view, made ready for looking things up.
struct IndexedView<'a> {
    words: BTreeSet<String>,
    text: &'a str,
    /// The places at which each pair of words begins.
    places: TextTable<(&'a str, &'a str), Vec<usize>>,
}

impl<'a> IndexedView<'a> {
    /// Makes a text ready for looking for sentences only.
    fn of_sentences(single_spaced: &'a str) -> Self {
        let mut places: TextTable<_, Vec<usize>> = TextTable::default();
        for (at, pair) in facts::word_pairs(single_spaced) {
            let known = places.entry(pair).or_default();
            if known.len() < MAX_PLACES {
                known.push(at);
            }
        }
        Self { words: BTreeSet::new(), text: single_spaced, places }
    }

    fn read(text: &str, single_spaced: &'a str) -> Self {
        Self { words: facts::all_words(text), ..Self::of_sentences(single_spaced) }
    }

    fn has_sentence(&self, sentence: &str) -> bool {
        let Some((_, pair)) = facts::word_pairs(sentence).next() else { return self.text.contains(sentence) };
        let stands_at = |at: &usize| self.text.get(*at..).is_some_and(|rest| rest.starts_with(sentence));
        self.places.get(&pair).is_some_and(|places| places.iter().any(stands_at))
    }
}

#[cfg(test)]
mod tests;
