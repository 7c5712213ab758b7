//! The score of each text for a query: by the text's own words, the words of its neighbours, and the kind of the
//! text.

use super::query::{QueryTerm, SearchQuery};
use super::{LABEL, SearchCandidate, SearchIndex};

/// The point of saturation of BM25 (`k1`): the smaller, the sooner more occurrences of one word stop to count.
const SATURATION: f64 = 0.8;

/// The share of the length in BM25 (`b`), 0 to 1. The usual share is 0.75. Tool output is long because of its
/// content, not because of repetition, so a smaller share holds long messages back less.
const LENGTH_SHARE: f64 = 0.3;

/// The shares of a word's worth that the next text and the text after next lend to a text without the word. An answer
/// seldom repeats the words of its question.
const NEIGHBOUR_SHARES: [f64; 2] = [0.5, 0.4];

/// The factor for the worth that a question lends to the text behind.
const ANSWER_SHARE: f64 = 1.3;

/// The factor for the score of a question, whose answer stands elsewhere.
const QUESTION_SHARE: f64 = 0.8;

/// The number of words up to which a text lends the full share. Longer texts are about more than one thing.
const LENDING_WORDS: f64 = 300.0;

/// The bonus of a text with a word of time, if the query asks for a time.
const TIME_BONUS: f64 = 0.2;

impl SearchIndex {
    /// Returns the `most` texts among the first `within` that hold most of the query's words, with rare words
    /// counting more.
    ///
    /// The best text comes first, and the newest first among equals. A word that a text lacks counts half if its
    /// neighbour has the word. `weight` returns a text's worth to the caller, usually 1.
    pub fn best_candidates(
        &self,
        query: &SearchQuery,
        within: usize,
        most: usize,
        weight: impl Fn(usize) -> f64,
    ) -> Vec<SearchCandidate> {
        let texts = within.min(self.len());
        let mut scores = TextScores::of(texts);
        for term in &query.terms {
            self.score_term(term, texts, &weight, &mut scores);
        }
        // Empty if the query asks for no time, so that no text gets the bonus.
        let tells_time = self.texts_with_any(&query.time_words, texts);
        let mut found = Vec::new();
        // A text without a word of its own is no hit, whatever its neighbours have lent.
        for (at, own) in scores.own.iter().enumerate().filter(|(_, own)| **own > 0.0) {
            let weight = weight(at);
            if weight > 0.0 {
                let kind = if self.questions[at] { QUESTION_SHARE } else { 1.0 };
                let time = if tells_time.get(at) == Some(&true) { 1.0 + TIME_BONUS } else { 1.0 };
                found.push(SearchCandidate {
                    at,
                    score: (own + scores.lent[at]) * kind * time * weight,
                    weight,
                });
            }
        }
        // A long session has thousands of candidates: selection is linear, and only the few best are sorted.
        if found.len() > most {
            found.select_nth_unstable_by(most, SearchCandidate::best_first);
            found.truncate(most);
        }
        found.sort_unstable_by(SearchCandidate::best_first);
        found
    }

    /// Adds a term's worth to the texts that hold the term (BM25) and to their neighbours.
    fn score_term(
        &self,
        term: &QueryTerm,
        texts: usize,
        weight: impl Fn(usize) -> f64,
        scores: &mut TextScores,
    ) {
        // `lengths` are running sums, so the last one divided by the number of texts is the mean length.
        let usual = texts.checked_sub(1).map_or(0, |last| self.lengths[last]) as f64 / texts.max(1) as f64;
        let holding = self.holding(term, texts);
        let label = format!("{LABEL}{}", term.text);
        let mut labelled =
            self.postings(&label, texts).iter().map(|posting| posting.text as usize).peekable();
        for (at, count) in &holding {
            let length = self.length(*at) as f64;
            let damping = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * length / usual.max(1.0));
            let mut worth = term.worth * count * (SATURATION + 1.0) / (count + damping);
            while labelled.next_if(|labelled| labelled < at).is_some() {}
            // A label, such as a speaker's name, says more about the whole text than a mention does.
            if labelled.peek() == Some(at) {
                worth += term.worth;
            }
            scores.own[*at] += worth;
            // Function words stand in every other text: a neighbour's function words say nothing.
            if term.is_function_word || self.is_of_separate_texts {
                continue;
            }
            // A text that the caller weighs less lends less, but no text lends more than its full share.
            let lending = (LENDING_WORDS / length.max(1.0)).min(1.0) * weight(*at).min(1.0);
            for (far, share) in (1..).zip(NEIGHBOUR_SHARES) {
                if let Some(before) = at.checked_sub(far) {
                    scores.add_neighbor_worth(before, worth * share * lending);
                }
                let answers = if far == 1 && self.questions[*at] { ANSWER_SHARE } else { 1.0 };
                scores.add_neighbor_worth(at + far, worth * share * lending * answers);
            }
        }
        scores.finish_term(holding.iter().map(|(at, _)| *at));
    }

    fn texts_with_any(&self, words: &[&str], texts: usize) -> Vec<bool> {
        if words.is_empty() {
            return Vec::new();
        }
        let mut found = vec![false; texts];
        for posting in words.iter().flat_map(|word| self.postings(word, texts)) {
            found[posting.text as usize] = true;
        }
        found
    }
}

/// The scores of texts by their own words and by the words of their neighbours.
struct TextScores {
    own: Vec<f64>,
    lent: Vec<f64>,
    /// The present term's worth to the neighbours of the texts that hold the term.
    lending: Vec<f64>,
    borrowers: Vec<usize>,
}

impl TextScores {
    fn of(texts: usize) -> Self {
        let none = vec![0.0; texts];
        Self { own: none.clone(), lent: none.clone(), lending: none, borrowers: Vec::new() }
    }

    /// Lends a term's worth to a neighbour. Of several lenders the best counts.
    fn add_neighbor_worth(&mut self, at: usize, worth: f64) {
        if let Some(lending) = self.lending.get_mut(at) {
            if *lending == 0.0 {
                self.borrowers.push(at);
            }
            *lending = lending.max(worth);
        }
    }

    /// Ends a term. Texts that hold the term themselves borrow nothing.
    fn finish_term(&mut self, holding: impl Iterator<Item = usize>) {
        holding.for_each(|at| self.lending[at] = 0.0);
        for at in self.borrowers.drain(..) {
            self.lent[at] += std::mem::take(&mut self.lending[at]);
        }
    }
}
