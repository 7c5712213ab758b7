//! Full-text search over a session's messages: which of them a query means, and the passage to show.
//!
//! An [`Index`] is built once and extended as messages come; it holds no text. A search goes in two steps, so that texts
//! may lie elsewhere: [`Index::candidates`] finds the few messages worth a closer look by the words they hold (BM25:
//! Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009), [`closely`] ranks them by their best lines.
//! [`search`] does both.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

mod passages;
mod terms;
pub mod tool;

use passages::{Lines, passages};
use terms::{query_words, terms_of};

/// Messages whose lines are looked at one by one.
pub const CLOSELY_RANKED: usize = 16;

/// However little room there is, passages are made for so many tokens.
const LEAST_ROOM: usize = 200;

/// How much a search shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Hits at most.
    pub hits: usize,
    /// Characters of the best hit's passages: mostly it is the message that is meant, and what is needed of it stands
    /// beside the words that found it.
    pub best_chars: usize,
    /// Characters of the passages of any other hit.
    pub other_chars: usize,
}

impl Extent {
    /// So many hits, with passages as long as they usually need be.
    pub fn of(hits: usize) -> Self {
        Self { hits, best_chars: 4_000, other_chars: 1_500 }
    }

    /// So many hits, with passages of which five take no more than about half of a room of so many tokens.
    pub fn in_room(hits: usize, tokens: u64) -> Self {
        let chars = usize::try_from(tokens).unwrap_or(usize::MAX).max(LEAST_ROOM);
        let usual = Self::of(hits);
        Self {
            best_chars: (chars / 5 * 4).min(usual.best_chars),
            other_chars: (chars / 10 * 3).min(usual.other_chars),
            ..usual
        }
    }
}

/// What a message weighs that its reader is shown in full anyway: the question itself would else be the best hit.
pub const SHOWN_WEIGHT: f64 = 0.2;

/// How soon more of the same word stops to count.
const SATURATION: f64 = 1.2;

/// How much a long message is held back, 0 to 1. Tool output is long because there is much in it, not because it repeats
/// itself: less than the usual 0.75.
const LENGTH_SHARE: f64 = 0.4;

/// Longer words that begin with a word of the query count half, so many at most.
const LONGER_WORDS: usize = 32;

/// Words that hold an unknown word of the query somewhere, so many at most.
const HOLDING_WORDS: usize = 64;

/// Words of a query that are looked for, the first in their order: nobody means more.
const MOST_WORDS: usize = 64;

/// Words and their pieces.
const MOST_TERMS: usize = 256;

/// Unknown words that are looked for within all words: each costs a look at every word there is.
const MOST_LOOKED_INTO: usize = 8;

/// Which words stand in which texts.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// For each word the texts that hold it, in order.
    terms: BTreeMap<Box<str>, Vec<Posting>>,
    /// Words in all texts up to and including each.
    lengths: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Posting {
    text: u32,
    count: u32,
}

/// A text that may be meant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its number in the index.
    pub at: usize,
    /// The higher the better.
    pub score: f64,
    /// What the caller said it weighs.
    pub weight: f64,
}

/// A passage that answers a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The number of its text in the index.
    pub at: usize,
    /// The higher the better.
    pub score: f64,
    /// The passages around its best lines: all of a short text.
    pub snippet: String,
}

/// A query, with what each of its words is worth.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    words: Vec<String>,
    weights: Vec<f64>,
    /// Unknown words that are looked for within words.
    unknown: BTreeSet<String>,
    phrase: String,
}

impl Index {
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
            self.terms.entry(term.into()).or_default().push(Posting { text: at as u32, count });
        }
        self.lengths.push(self.lengths.last().unwrap_or(&0) + length);
        at
    }

    /// How many texts it has.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// How many of the first `within` texts hold `word`, written small, as a word of its own.
    pub fn holders(&self, word: &str, within: usize) -> usize {
        self.terms.get(word).map_or(0, |postings| before(postings, within).len())
    }

    /// Which of the first `within` texts hold `word`, written small, as a word of its own; oldest first.
    pub fn texts_with(&self, word: &str, within: usize) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let postings = self.terms.get(word).map_or(&[][..], |postings| before(postings, within));
        postings.iter().map(|posting| posting.text as usize)
    }

    /// Reads a query against the first `within` texts.
    pub fn query(&self, query: &str, within: usize) -> Query {
        let words: Vec<String> = query_words(query, MOST_WORDS).into_iter().collect();
        let texts = within.min(self.len());
        let mut asked = Query { words, phrase: query.trim().to_lowercase(), ..Query::default() };
        let unknown = asked.terms().into_iter().filter(|term| self.beginning_with(term).next().is_none());
        asked.unknown = unknown.take(MOST_LOOKED_INTO).collect();
        let worth = |word: &String| rarity(texts, self.holding(word, texts, &asked).len());
        asked.weights = asked.words.iter().map(worth).collect();
        asked
    }

    /// Which of the first `within` texts hold most of the query's words, rare words counting more: best first, the
    /// newest first among equals, at most [`CLOSELY_RANKED`]. `weight` is what a text is worth to the caller, usually 1.
    pub fn candidates(&self, query: &Query, within: usize, weight: impl Fn(usize) -> f64) -> Vec<Candidate> {
        let texts = within.min(self.len());
        let mut scores = vec![0.0; texts];
        let usual = texts.checked_sub(1).map_or(0, |last| self.lengths[last]) as f64 / texts.max(1) as f64;
        for term in query.terms() {
            let holding = self.holding(&term, texts, query);
            let worth = rarity(texts, holding.len());
            for (at, count) in holding {
                let length = self.length(at) as f64 / usual.max(1.0);
                let damping = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * length);
                scores[at] += worth * count * (SATURATION + 1.0) / (count + damping);
            }
        }
        let found = scores.into_iter().enumerate().filter(|(_, score)| *score > 0.0);
        let mut found: Vec<Candidate> = found
            .map(|(at, score)| (at, score, weight(at)))
            .filter(|(_, _, weight)| *weight > 0.0)
            .map(|(at, score, weight)| Candidate { at, score: score * weight, weight })
            .collect();
        let better = |left: &Candidate, right: &Candidate| {
            right.score.total_cmp(&left.score).then(right.at.cmp(&left.at))
        };
        if found.len() > CLOSELY_RANKED {
            found.select_nth_unstable_by(CLOSELY_RANKED, better);
            found.truncate(CLOSELY_RANKED);
        }
        found.sort_unstable_by(better);
        found
    }

    /// The texts among the first `texts` that hold a word, and how often; longer words that begin with it count half.
    /// A word that is nowhere by itself is looked for within words.
    fn holding(&self, word: &str, texts: usize, query: &Query) -> Vec<(usize, f64)> {
        let mut counts = vec![0.0; texts];
        for (term, postings) in self.beginning_with(word).take(LONGER_WORDS) {
            add_all(&mut counts, postings, if **term == *word { 1.0 } else { 0.5 });
        }
        if query.unknown.contains(word) {
            let around = self.terms.iter().filter(|(term, _)| term.contains(word));
            for (_, postings) in around.take(HOLDING_WORDS) {
                add_all(&mut counts, postings, 0.5);
            }
        }
        counts.into_iter().enumerate().filter(|(_, count)| *count > 0.0).collect()
    }

    fn beginning_with<'i>(&'i self, word: &'i str) -> impl Iterator<Item = (&'i Box<str>, &'i Vec<Posting>)> {
        let longer = self.terms.range::<str, _>((Bound::Included(word), Bound::Unbounded));
        longer.take_while(move |(term, _)| term.starts_with(word))
    }

    fn length(&self, at: usize) -> u64 {
        self.lengths[at] - at.checked_sub(1).map_or(0, |before| self.lengths[before])
    }
}

fn add_all(counts: &mut [f64], postings: &[Posting], share: f64) {
    for posting in before(postings, counts.len()) {
        counts[posting.text as usize] += share * f64::from(posting.count);
    }
}

fn before(postings: &[Posting], texts: usize) -> &[Posting] {
    &postings[..postings.partition_point(|posting| (posting.text as usize) < texts)]
}

/// What a word is worth that `holders` of `texts` hold: nothing if nobody does.
fn rarity(texts: usize, holders: usize) -> f64 {
    if holders == 0 { 0.0 } else { (1.0 + texts as f64 / holders as f64).ln() }
}

impl Query {
    /// Whether no text has any of its words.
    pub fn is_hopeless(&self) -> bool {
        self.weights.iter().all(|weight| *weight == 0.0)
    }

    /// Its words and what they are made of: part of a path is better than nothing.
    fn terms(&self) -> BTreeSet<String> {
        let mut terms: BTreeSet<String> = self.words.iter().cloned().collect();
        for word in &self.words {
            terms_of(word, |term| {
                if terms.len() < MOST_TERMS {
                    terms.insert(term.to_owned());
                }
            });
        }
        terms
    }
}

/// Ranks candidates by their texts, the best first: words on one line mean more than the same words here and
/// there, the very words in their order mean most of all. `extent` says how many there are and how much of each.
pub fn closely<T: AsRef<str>>(
    query: &Query,
    candidates: impl IntoIterator<Item = (Candidate, T)>,
    extent: Extent,
) -> Vec<Hit> {
    let all: f64 = query.weights.iter().sum();
    let scored = candidates.into_iter().map(|(mut candidate, text)| {
        let lines = Lines::of(text.as_ref(), query);
        candidate.score += 2.0 * candidate.weight * lines.best_worth();
        if query.words.len() > 1 && lines.has(&query.phrase) {
            candidate.score += 3.0 * candidate.weight * all;
        }
        (candidate, text)
    });
    let mut ranked: Vec<(Candidate, T)> = scored.collect();
    ranked.sort_by(|(left, _), (right, _)| right.score.total_cmp(&left.score).then(right.at.cmp(&left.at)));
    let best = ranked.into_iter().take(extent.hits).enumerate();
    best.map(|(rank, (candidate, text))| {
        let chars = if rank == 0 { extent.best_chars } else { extent.other_chars };
        Hit { at: candidate.at, score: candidate.score, snippet: passages(text.as_ref(), query, chars) }
    })
    .collect()
}

/// The best passages among the first `within` texts of an index whose texts are at hand.
///
/// ```
/// use longhaul_core::recall::{Extent, Index, search};
/// let texts = ["the port is 8080", "nothing here", "a port of call"];
/// let mut index = Index::default();
/// texts.iter().for_each(|text| _ = index.add(text));
/// let hits = search(&index, "which port 8080", texts.len(), Extent::of(2), |_| 1.0, |at| texts[at]);
/// assert_eq!(hits[0].snippet, "the port is 8080");
/// ```
pub fn search<'t>(
    index: &Index,
    query: &str,
    within: usize,
    extent: Extent,
    weight: impl Fn(usize) -> f64,
    text: impl Fn(usize) -> &'t str,
) -> Vec<Hit> {
    let query = index.query(query, within);
    let candidates = index.candidates(&query, within, weight);
    closely(&query, candidates.into_iter().map(|found| (found, text(found.at))), extent)
}

#[cfg(test)]
mod tests;
