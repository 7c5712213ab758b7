//! Full-text search over a session's messages: the messages that a query means, and the passages to show.
//!
//! A [`SearchIndex`] is built once, extended as messages come, and holds no text. A search has two steps, so that
//! texts may be stored elsewhere. [`SearchIndex::candidates`] finds the few messages worth a closer look by their
//! words (BM25: Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009). [`closely`] ranks the
//! candidates by their best lines. [`search`] does both.

use std::cmp::Ordering;
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

/// Number of messages that are ranked line by line, unless more are asked for.
pub const CLOSELY_RANKED: usize = 16;

/// The smallest room for which passages are made, in tokens.
const LEAST_ROOM: usize = 200;

/// The limits of the hits and passages that a search returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchLimits {
    /// The largest number of hits.
    pub hits: usize,
    /// Characters of the best hit's passages. The best hit is mostly the message that is meant, and the needed text
    /// stands beside the words that found the message.
    pub best_chars: usize,
    /// Characters of the passages of any other hit.
    pub other_chars: usize,
}

impl SearchLimits {
    /// Returns the limits for `hits` hits, with passages of the usual length.
    pub fn of(hits: usize) -> Self {
        Self { hits, best_chars: 4_000, other_chars: 1_500 }
    }

    /// Returns the number of messages that are ranked line by line to find the hits.
    pub fn closely_ranked(&self) -> usize {
        // Half as many again as the hits: the ranking by lines can bring a later candidate forward.
        CLOSELY_RANKED.max(self.hits.saturating_add(self.hits / 2))
    }

    /// Returns the limits for `hits` hits with passages that take at most about half of a room of `tokens` tokens.
    pub fn in_room(hits: usize, tokens: u64) -> Self {
        let chars = usize::try_from(tokens).unwrap_or(usize::MAX).max(LEAST_ROOM);
        let usual = Self::of(hits);
        // With few hits, another hit's passage would be longer than the best hit's.
        let others = hits.saturating_sub(1).max(4);
        Self {
            // At four characters for each token, half of the room is two characters for each token: 0.8 for the best
            // hit, 1.2 for the others.
            best_chars: (chars / 5 * 4).min(usual.best_chars),
            other_chars: (chars / 10 * 12 / others).min(usual.other_chars),
            ..usual
        }
    }
}

/// The worth of a text with the query's words on many lines, relative to a text with all of them on one line.
const SCATTERED_SHARE: f64 = 0.75;

/// The weight of a message that its reader is shown in full anyway. Without a lower weight the question itself would
/// be the best hit.
pub const SHOWN_WEIGHT: f64 = 0.2;

/// The first character of the term for a label. No word begins with this character.
const LABEL: char = ':';

/// An index of the words of texts.
#[derive(Clone, Debug, Default)]
pub struct SearchIndex {
    /// The texts that hold each word, in order.
    terms: BTreeMap<Box<str>, Vec<IndexPosting>>,
    /// The number of words in all texts up to and including each text.
    lengths: Vec<u64>,
    /// `true` for each text that asks a question.
    questions: Vec<bool>,
    /// `true` if a text says nothing about the neighbours.
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
    /// The text's number in the index.
    pub at: usize,
    /// The text's score; higher is better.
    pub score: f64,
    /// The text's weight, as set by the caller.
    pub weight: f64,
}

impl SearchCandidate {
    /// Orders the better candidate first, and the newer one among equals.
    fn best_first(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(other.at.cmp(&self.at))
    }
}

/// A text that answers a query, with the best passages.
#[derive(Clone, Debug, PartialEq)]
pub struct PassageHit {
    /// The text's number in the index.
    pub at: usize,
    /// The text's score; higher is better.
    pub score: f64,
    /// The passages around the text's best lines, or the whole of a short text.
    pub snippet: String,
}

impl SearchIndex {
    /// Returns an empty index of texts that are no conversation: no text counts for the words of its neighbours.
    pub fn of_separate_texts() -> Self {
        Self { is_of_separate_texts: true, ..Self::default() }
    }

    /// Adds a text and returns its number, which is the number of texts before.
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
        // Labels are terms of their own, because a label counts more than a mention of the same word.
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

    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Returns whether the index has no texts.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Returns how many of the first `within` texts hold `word` as a word of its own. `word` is in lower case.
    pub fn holders(&self, word: &str, within: usize) -> usize {
        self.postings(word, within).len()
    }

    /// Returns the numbers of the first `within` texts that hold `word` as a word of its own, oldest first. `word` is
    /// in lower case.
    pub fn texts_with(&self, word: &str, within: usize) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.postings(word, within).iter().map(|posting| posting.text as usize)
    }

    /// Returns the [`CLOSELY_RANKED`] best of [`Self::best_candidates`].
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
        // `lengths` are running sums, from which the mean of any beginning follows at once.
        self.lengths[at] - at.checked_sub(1).map_or(0, |before| self.lengths[before])
    }
}

fn before(postings: &[IndexPosting], texts: usize) -> &[IndexPosting] {
    &postings[..postings.partition_point(|posting| (posting.text as usize) < texts)]
}

/// Returns the worth of a word that `holders` of `texts` texts hold; 0 if no text holds the word.
fn rarity(texts: usize, holders: usize) -> f64 {
    // The `1 +` keeps the worth above zero for a word that every text has; else a query of such words would find
    // nothing.
    if holders == 0 { 0.0 } else { (1.0 + texts as f64 / holders as f64).ln() }
}

/// Ranks candidates by their texts, the best first.
///
/// Words on one line mean more than the same words scattered over the text, and the exact phrase means most of all.
/// `extent` limits the number of hits and the length of their passages.
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
            // Three times the worth of all words lets the exact phrase win over any text that has the words apart.
            candidate.score += 3.0 * candidate.weight * all;
        }
        (candidate, text)
    });
    let mut ranked: Vec<(SearchCandidate, T)> = scored.collect();
    ranked.sort_by(|(left, _), (right, _)| left.best_first(right));
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

/// Returns the best passages among the first `within` texts of an index, from texts that are at hand.
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
