//! Full-text search over a session's messages: which of them a query means, and the passage to show.
//!
//! An [`SearchIndex`] is built once and extended as messages come; it holds no text. A search goes in two steps, so that texts
//! may lie elsewhere: [`SearchIndex::candidates`] finds the few messages worth a closer look by the words they hold (BM25:
//! Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009), [`closely`] ranks them by their best lines.
//! [`search`] does both.

use std::collections::BTreeMap;

mod language;
mod passages;
mod query;
mod score;
mod terms;
pub mod tool;

use passages::{ScoredLines, passages};
pub use query::SearchQuery;
use terms::{is_question, label_words, terms_of};

/// Messages whose lines are looked at one by one, unless more are asked for.
pub const CLOSELY_RANKED: usize = 16;

/// However little room there is, passages are made for so many tokens.
const LEAST_ROOM: usize = 200;

/// How much a search shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchLimits {
    /// Hits at most.
    pub hits: usize,
    /// Characters of the best hit's passages: mostly it is the message that is meant, and what is needed of it stands
    /// beside the words that found it.
    pub best_chars: usize,
    /// Characters of the passages of any other hit.
    pub other_chars: usize,
}

impl SearchLimits {
    /// So many hits, with passages as long as they usually need be.
    pub fn of(hits: usize) -> Self {
        Self { hits, best_chars: 4_000, other_chars: 1_500 }
    }

    /// How many messages are looked at line by line to find the hits.
    pub fn closely_ranked(&self) -> usize {
        CLOSELY_RANKED.max(self.hits.saturating_add(self.hits / 2))
    }

    /// So many hits, with passages that take no more than about half of a room of so many tokens.
    pub fn in_room(hits: usize, tokens: u64) -> Self {
        let chars = usize::try_from(tokens).unwrap_or(usize::MAX).max(LEAST_ROOM);
        let usual = Self::of(hits);
        let others = hits.saturating_sub(1).max(4);
        Self {
            best_chars: (chars / 5 * 4).min(usual.best_chars),
            other_chars: (chars / 10 * 12 / others).min(usual.other_chars),
            ..usual
        }
    }
}

/// What a text is worth whose words of the query stand on many lines, beside one that has them all on one line.
const SCATTERED_SHARE: f64 = 0.75;

/// What a message weighs that its reader is shown in full anyway: the question itself would else be the best hit.
pub const SHOWN_WEIGHT: f64 = 0.2;

/// Begins the term of a word that labels its text. No word begins so.
const LABEL: char = ':';

/// Which words stand in which texts.
#[derive(Clone, Debug, Default)]
pub struct SearchIndex {
    /// For each word the texts that hold it, in order.
    terms: BTreeMap<Box<str>, Vec<IndexPosting>>,
    /// Words in all texts up to and including each.
    lengths: Vec<u64>,
    /// Whether each text asks something.
    questions: Vec<bool>,
    /// Whether a text says nothing about those beside it.
    is_of_separate_texts: bool,
}

#[derive(Clone, Copy, Debug)]
struct IndexPosting {
    text: u32,
    count: u32,
}

/// A text that may be meant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchCandidate {
    /// Its number in the index.
    pub at: usize,
    /// The higher the better.
    pub score: f64,
    /// What the caller said it weighs.
    pub weight: f64,
}

/// A passage that answers a query.
#[derive(Clone, Debug, PartialEq)]
pub struct PassageHit {
    /// The number of its text in the index.
    pub at: usize,
    /// The higher the better.
    pub score: f64,
    /// The passages around its best lines: all of a short text.
    pub snippet: String,
}

impl SearchIndex {
    /// Returns an empty index of texts that are no conversation: none counts for the words of its neighbours.
    pub fn of_separate_texts() -> Self {
        Self { is_of_separate_texts: true, ..Self::default() }
    }

    /// Takes one more text; its number is how many there were.
    pub fn add(&mut self, text: &str) -> usize {
        let at = self.lengths.len();
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        terms_of(text, |term| match counts.get_mut(term) {
            Some(count) => *count += 1,
            None => _ = counts.insert(term.to_owned(), 1),
        });
        let length: u64 = counts.values().map(|count| u64::from(*count)).sum();
        for (term, count) in counts {
            self.terms.entry(term.into()).or_default().push(IndexPosting { text: at as u32, count });
        }
        for word in label_words(text) {
            self.terms
                .entry(format!("{LABEL}{word}").into())
                .or_default()
                .push(IndexPosting { text: at as u32, count: 1 });
        }
        self.lengths.push(self.lengths.last().unwrap_or(&0) + length);
        self.questions.push(is_question(text, length));
        at
    }

    /// How many texts it has.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Returns whether it has none.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// How many of the first `within` texts hold `word`, written small, as a word of its own.
    pub fn holders(&self, word: &str, within: usize) -> usize {
        self.postings(word, within).len()
    }

    /// Which of the first `within` texts hold `word`, written small, as a word of its own; oldest first.
    pub fn texts_with(&self, word: &str, within: usize) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.postings(word, within).iter().map(|posting| posting.text as usize)
    }

    /// The [`CLOSELY_RANKED`] best of [`Self::best_candidates`].
    pub fn candidates(
        &self,
        query: &SearchQuery,
        within: usize,
        weight: impl Fn(usize) -> f64,
    ) -> Vec<SearchCandidate> {
        self.best_candidates(query, within, CLOSELY_RANKED, weight)
    }

    fn postings(&self, term: &str, within: usize) -> &[IndexPosting] {
        self.terms.get(term).map_or(&[][..], |postings| before(postings, within))
    }

    fn length(&self, at: usize) -> u64 {
        self.lengths[at] - at.checked_sub(1).map_or(0, |before| self.lengths[before])
    }
}

fn before(postings: &[IndexPosting], texts: usize) -> &[IndexPosting] {
    &postings[..postings.partition_point(|posting| (posting.text as usize) < texts)]
}

/// What a word is worth that `holders` of `texts` hold: nothing if nobody does.
fn rarity(texts: usize, holders: usize) -> f64 {
    if holders == 0 { 0.0 } else { (1.0 + texts as f64 / holders as f64).ln() }
}

/// Ranks candidates by their texts, the best first: words on one line mean more than the same words here and
/// there, the very words in their order mean most of all. `extent` says how many there are and how much of each.
pub fn closely<T: AsRef<str>>(
    query: &SearchQuery,
    candidates: impl IntoIterator<Item = (SearchCandidate, T)>,
    extent: SearchLimits,
) -> Vec<PassageHit> {
    let all: f64 = query.roots.iter().map(|(_, worth)| worth).sum();
    let scored = candidates.into_iter().map(|(mut candidate, text)| {
        let lines = ScoredLines::of(text.as_ref(), query);
        candidate.score *= SCATTERED_SHARE + (1.0 - SCATTERED_SHARE) * lines.closeness();
        if query.phrase.as_ref().is_some_and(|phrase| lines.has(phrase)) {
            candidate.score += 3.0 * candidate.weight * all;
        }
        (candidate, text)
    });
    let mut ranked: Vec<(SearchCandidate, T)> = scored.collect();
    ranked.sort_by(|(left, _), (right, _)| right.score.total_cmp(&left.score).then(right.at.cmp(&left.at)));
    let best = ranked.into_iter().take(extent.hits).enumerate();
    best.map(|(rank, (candidate, text))| {
        let chars = if rank == 0 { extent.best_chars } else { extent.other_chars };
        PassageHit {
            at: candidate.at,
            score: candidate.score,
            snippet: passages(text.as_ref(), query, chars),
        }
    })
    .collect()
}

/// The best passages among the first `within` texts of an index whose texts are at hand.
///
/// ```
/// use longhaul_core::recall::{SearchLimits, SearchIndex, search};
/// let texts = ["the port is 8080", "nothing here", "a port of call"];
/// let mut index = SearchIndex::default();
/// texts.iter().for_each(|text| _ = index.add(text));
/// let hits = search(&index, "which port 8080", texts.len(), SearchLimits::of(2), |_| 1.0, |at| texts[at]);
/// assert_eq!(hits[0].snippet, "the port is 8080");
/// ```
pub fn search<'t>(
    index: &SearchIndex,
    query: &str,
    within: usize,
    extent: SearchLimits,
    weight: impl Fn(usize) -> f64,
    text: impl Fn(usize) -> &'t str,
) -> Vec<PassageHit> {
    let query = index.query(query, within);
    let most = extent.closely_ranked();
    let candidates = index.best_candidates(&query, within, most, weight);
    closely(&query, candidates.into_iter().map(|found| (found, text(found.at))), extent)
}

#[cfg(test)]
mod tests;
