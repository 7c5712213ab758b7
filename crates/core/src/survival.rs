//! The survival report of a compaction: which facts of the messages that go away are still there, and who can
//! get the others back.
//!
//! Facts are found by program, in one pass and without a model, so the report is the same every time. It says
//! what is *present*, which is more than what a model will make use of.

pub mod facts;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::message::{Message, Part};
use facts::Facts;

/// How the facts of each class fared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Survival {
    /// One tally for each class that had facts: `userConstraints`, `decisions`, `paths`, `identifiers`,
    /// `errorLines`, `numbers`.
    pub classes: BTreeMap<String, Tally>,
}

/// How many facts, each counted once, in the best column it reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Still in the view, letter for letter (runs of blanks count as one).
    pub verbatim: u64,
    /// Not in the view, but the model has a handle that returns it.
    pub recoverable_by_model: u64,
    /// Not in the view; a person finds it in the log.
    pub recoverable_by_user: u64,
    /// Nowhere.
    pub lost: u64,
}

impl Tally {
    /// All facts of the class.
    pub fn total(&self) -> u64 {
        self.verbatim + self.recoverable_by_model + self.recoverable_by_user + self.lost
    }
}

/// Who can get back what left the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// The model, by a handle it is shown.
    Model,
    /// A person, from the log.
    User,
    /// Nobody: there is no log.
    Nobody,
}

/// Reports on the facts of `before`, the messages that go away. `after_text` is all text of the new view. The log
/// keeps everything, so nothing is lost: without visible handles it is the user who can recover it.
///
/// ```
/// use longhaul_core::message::{Message, Part};
/// let typed = Message::user("m1", vec![Part::text("Never touch src/main.rs.")]);
/// let report = longhaul_core::survival::survey(&[&typed], "Files: src/main.rs", true);
/// assert_eq!(report.classes["paths"].verbatim, 1);
/// assert_eq!(report.classes["userConstraints"].recoverable_by_model, 1);
/// ```
pub fn survey(before: &[&Message], after_text: &str, handles_visible: bool) -> Survival {
    survey_within(before, after_text, if handles_visible { Reach::Model } else { Reach::User })
}

/// [`survey`] of messages among which are summaries: what `folded`, the originals behind them, say counts as far as it
/// stands in them.
pub fn survey_folded(before: &[&Message], folded: &[&Message], after_text: &str) -> Survival {
    let mut facts = Facts::default();
    folded.iter().for_each(|message| facts.read_sentences(message));
    let shown: String =
        before.iter().flat_map(|message| message.parts.iter().filter_map(Part::as_text)).collect();
    let single_spaced = facts::single_spaced(&shown);
    let shown = After::read(&shown, &single_spaced);
    facts.sentences.values_mut().for_each(|items| items.retain(|item| shown.has_sentence(item)));
    facts.sentences.retain(|_, items| !items.is_empty());
    tallied(before, facts, after_text, Reach::Model)
}

/// [`survey`] for a history that is not a session's: who can reach what left the view is given.
pub fn survey_within(before: &[&Message], after_text: &str, reach: Reach) -> Survival {
    tallied(before, Facts::default(), after_text, reach)
}

fn tallied(before: &[&Message], mut facts: Facts, after_text: &str, reach: Reach) -> Survival {
    for message in before {
        facts.read(message);
    }
    let single_spaced = facts::single_spaced(after_text);
    let after = After::read(after_text, &single_spaced);
    let mut report = Survival::default();
    for (class, items) in facts.sentences {
        report.add(class, &items, reach, |item| after.has_sentence(item));
    }
    for (class, items) in facts.words {
        report.add(class, &items, reach, |item| after.words.contains(item));
    }
    report
}

impl Survival {
    fn add(&mut self, class: &str, items: &BTreeSet<String>, reach: Reach, is_there: impl Fn(&str) -> bool) {
        let verbatim = items.iter().filter(|item| is_there(item)).count() as u64;
        let gone = items.len() as u64 - verbatim;
        let mut tally = Tally { verbatim, ..Tally::default() };
        match reach {
            Reach::Model => tally.recoverable_by_model = gone,
            Reach::User => tally.recoverable_by_user = gone,
            Reach::Nobody => tally.lost = gone,
        }
        self.classes.insert(class.to_owned(), tally);
    }
}

/// How many places of the view are compared with a sentence: those that begin with its first two words.
const MAX_PLACES: usize = 64;

/// The new view, made ready for looking things up.
struct After<'a> {
    words: BTreeSet<String>,
    text: &'a str,
    /// Where each pair of words begins.
    places: BTreeMap<(&'a str, &'a str), Vec<usize>>,
}

impl<'a> After<'a> {
    fn read(text: &str, single_spaced: &'a str) -> Self {
        let mut places: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (at, pair) in facts::word_pairs(single_spaced) {
            let known = places.entry(pair).or_default();
            if known.len() < MAX_PLACES {
                known.push(at);
            }
        }
        Self { words: facts::all_words(text), text: single_spaced, places }
    }

    fn has_sentence(&self, sentence: &str) -> bool {
        let Some((_, pair)) = facts::word_pairs(sentence).next() else { return self.text.contains(sentence) };
        let stands_at = |at: &usize| self.text.get(*at..).is_some_and(|rest| rest.starts_with(sentence));
        self.places.get(&pair).is_some_and(|places| places.iter().any(stands_at))
    }
}

#[cfg(test)]
mod tests;
