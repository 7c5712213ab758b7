//! A query against an index: the terms, with the spellings and the worth of each.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use rust_stemmers::Stemmer;

use super::language::{SearchLanguage, languages_of};
use super::terms::{query_words, terms_of};
use super::{SearchIndex, rarity};

/// The largest number of longer words that begin with a word of the query. Each counts half.
const LONGER_WORDS: usize = 32;

/// The largest number of words that hold an unknown word of the query within.
const HOLDING_WORDS: usize = 64;

/// The largest number of words of a query that are searched, the first in their order. Real queries are shorter.
pub(super) const MOST_WORDS: usize = 64;

/// The largest number of words and pieces of words that are searched.
pub(super) const MOST_TERMS: usize = 256;

/// The largest number of unknown words that are searched within all words. Each costs a look at every word of the
/// index.
pub(super) const MOST_LOOKED_INTO: usize = 8;

/// The largest number of words of the index that are stemmed for one word of a query.
const MOST_STEMMED: usize = 4_096;

/// The smallest number of letters that all forms of a word share.
const SHORTEST_ROOT: usize = 3;

/// The worth of a function word relative to other words. The share is not 0, because a query may consist of function
/// words.
const FUNCTION_WORD_SHARE: f64 = 0.1;

/// The count of a spelling that is probably, but not surely, the word that is meant.
const LIKELY_SHARE: f64 = 0.5;

/// A query, with the worth of each word.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchQuery {
    /// The beginnings that all forms of a word share, with the word's worth. Lines are searched for these roots.
    pub(super) roots: Vec<(String, f64)>,
    /// The terms for which the index is searched.
    pub(super) terms: Vec<QueryTerm>,
    /// The whole query in lower case, if the query has several words.
    pub(super) phrase: Option<String>,
    /// The words of time in the query's language, if the query asks for a time.
    pub(super) time_words: Vec<&'static str>,
}

/// A word of a query, or a piece of a word.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct QueryTerm {
    pub(super) text: String,
    pub(super) worth: f64,
    /// The words of the index that stand for the term, with the count of an occurrence of each.
    pub(super) spellings: BTreeMap<Box<str>, f64>,
    /// `true` if the index was searched for words that hold the term within.
    pub(super) is_looked_into: bool,
    pub(super) is_function_word: bool,
}

impl SearchQuery {
    /// Returns whether no text has any of the query's words.
    pub fn is_hopeless(&self) -> bool {
        self.roots.iter().all(|(_, worth)| *worth == 0.0)
    }

    /// Removes function words from the roots if other words say more: function words stand on nearly every line.
    fn drop_function_words(&mut self) {
        if self.terms.iter().any(|term| !term.is_function_word && term.worth > 0.0) {
            let function_words = self.terms.iter().filter(|term| term.is_function_word);
            let dropped: BTreeSet<&str> = function_words.map(|term| term.text.as_str()).collect();
            self.roots.retain(|(root, _)| !dropped.contains(root.as_str()));
        }
    }
}

impl SearchIndex {
    /// Reads a query against the first `within` texts.
    pub fn query(&self, query: &str, within: usize) -> SearchQuery {
        // Later texts count as absent, so that the answer is the same once the index has grown.
        let texts = within.min(self.len());
        let words = query_words(query, MOST_WORDS);
        let speech = QueryStemmers::of(&words);
        let phrase = (words.len() > 1).then(|| query.trim().to_lowercase());
        let mut asked =
            SearchQuery { phrase, time_words: speech.time_words(&words), ..SearchQuery::default() };
        let mut stems = BTreeSet::new();
        for text in with_pieces(&words) {
            let is_word = words.contains(&text);
            let is_function_word = speech.has_function_word(&text);
            let forms = if is_word && !is_function_word { speech.forms(&text) } else { None };
            // Two forms of one word ask for the same thing: the second would count the word twice.
            if forms.as_ref().is_some_and(|forms| !stems.insert(forms.key().to_owned())) {
                continue;
            }
            let root = forms.as_ref().map_or(&text, |forms| &forms.root).clone();
            let mut term = QueryTerm { text, is_function_word, ..QueryTerm::default() };
            self.spell(&mut term, forms.as_ref());
            let looked_into = asked.terms.iter().filter(|term| term.is_looked_into).count();
            // Only unknown words: known words have spellings, and this search reads every word of the index.
            if term.spellings.is_empty() && looked_into < MOST_LOOKED_INTO {
                self.look_into_words(&mut term);
            }
            let share = if is_function_word { FUNCTION_WORD_SHARE } else { 1.0 };
            term.worth = share * rarity(texts, self.holding(&term, texts).len());
            if is_word {
                asked.roots.push((root, term.worth));
            }
            asked.terms.push(term);
        }
        asked.drop_function_words();
        asked
    }

    /// Adds the words of the index that equal the term, begin with the term or have its stem.
    fn spell(&self, term: &mut QueryTerm, forms: Option<&WordForms<'_>>) {
        if term.is_function_word {
            // Function words are searched as they are: `in` would otherwise find every word that begins with these
            // letters.
            term.spellings.extend(
                self.terms.contains_key(term.text.as_str()).then(|| (term.text.as_str().into(), 1.0)),
            );
            return;
        }
        let longer = self.beginning_with(&term.text).take(LONGER_WORDS);
        term.spellings = longer.map(|word| (word.clone(), likely_share(**word == *term.text))).collect();
        let Some(forms) = forms else { return };
        for word in self.beginning_with(&forms.root).take(MOST_STEMMED) {
            if let Some(count) = forms.count(word) {
                let spelling = term.spellings.entry(word.clone()).or_insert(count);
                *spelling = spelling.max(count);
            }
        }
    }

    /// Adds the words of the index that hold the term within.
    fn look_into_words(&self, term: &mut QueryTerm) {
        let around = self.terms.keys().filter(|word| word.contains(term.text.as_str())).take(HOLDING_WORDS);
        term.spellings = around.map(|word| (word.clone(), LIKELY_SHARE)).collect();
        term.is_looked_into = true;
    }

    /// Returns the texts among the first `texts` that hold a term, oldest first, with the number of occurrences.
    pub(super) fn holding(&self, term: &QueryTerm, texts: usize) -> Vec<(usize, f64)> {
        let mut counts = vec![0.0; texts];
        for (spelling, share) in &term.spellings {
            for posting in self.postings(spelling, texts) {
                counts[posting.text as usize] += share * f64::from(posting.count);
            }
        }
        counts.into_iter().enumerate().filter(|(_, count)| *count > 0.0).collect()
    }

    fn beginning_with<'i>(&'i self, word: &'i str) -> impl Iterator<Item = &'i Box<str>> {
        let longer = self.terms.range::<str, _>((Bound::Included(word), Bound::Unbounded));
        longer.map(|(term, _)| term).take_while(move |term| term.starts_with(word))
    }
}

/// Returns the count of a spelling that is sure or only likely to be the word that is meant.
fn likely_share(is_sure: bool) -> f64 {
    if is_sure { 1.0 } else { LIKELY_SHARE }
}

/// Returns the words and their pieces, each once, because a text with a part of a path is better than no text.
fn with_pieces(words: &BTreeSet<String>) -> BTreeSet<String> {
    let mut terms = words.clone();
    for word in words {
        terms_of(word, |term| {
            // A single word, such as a long path, can have thousands of pieces.
            if terms.len() < MOST_TERMS {
                terms.insert(term.to_owned());
            }
        });
    }
    terms
}

/// The languages of a query, with their stemmers.
struct QueryStemmers {
    languages: Vec<SearchLanguage>,
    /// Each stemmer, with the count of a word that has the same stem.
    stemmers: Vec<(Stemmer, f64)>,
}

impl QueryStemmers {
    fn of(words: &BTreeSet<String>) -> Self {
        let languages = languages_of(words.iter().map(String::as_str));
        let is_known = languages.len() < SearchLanguage::ALL.len();
        let with_stemmers = languages.iter().map(|language| {
            // A single word is most often English. A Russian word is known by its script.
            let is_likely = is_known || matches!(language, SearchLanguage::English | SearchLanguage::Russian);
            (language.stemmer(), likely_share(is_likely))
        });
        let stemmers = with_stemmers.collect();
        Self { languages, stemmers }
    }

    fn has_function_word(&self, word: &str) -> bool {
        self.languages.iter().any(|language| language.has_function_word(word))
    }

    fn time_words(&self, words: &BTreeSet<String>) -> Vec<&'static str> {
        let asked =
            self.languages.iter().filter(|language| words.iter().any(|word| language.asks_for_time(word)));
        asked.flat_map(|language| language.time_words()).collect()
    }

    /// Returns the forms of a word of letters. Names with other signs have no forms.
    fn forms(&self, word: &str) -> Option<WordForms<'_>> {
        if !word.chars().all(char::is_alphabetic) {
            return None;
        }
        let stems: Vec<(String, f64)> =
            self.stemmers.iter().map(|(stemmer, count)| (stemmer.stem(word).into_owned(), *count)).collect();
        // The root must be common to the word and to its stem in every language that the query may be in.
        let shared = stems.iter().map(|(stem, _)| common_bytes(word, stem)).min()?;
        let root = &word[..shared];
        // A shorter root would stem a large part of the index.
        root.chars().nth(SHORTEST_ROOT - 1)?;
        Some(WordForms { root: root.to_owned(), stems, stemmers: &self.stemmers })
    }
}

/// The forms of a word: all begin alike and have one stem.
struct WordForms<'s> {
    root: String,
    /// The word's stem and the count of another form, by language.
    stems: Vec<(String, f64)>,
    stemmers: &'s [(Stemmer, f64)],
}

impl WordForms<'_> {
    fn key(&self) -> &str {
        self.stems.first().map_or("", |(stem, _)| stem)
    }

    /// Returns the count of an occurrence of `word`; `None` if `word` is no form of the word.
    fn count(&self, word: &str) -> Option<f64> {
        let languages = self.stemmers.iter().zip(&self.stems);
        let same = languages.filter(|((stemmer, _), (stem, _))| stemmer.stem(word) == stem.as_str());
        same.map(|(_, (_, count))| *count).reduce(f64::max)
    }
}

/// Returns the number of bytes with which both words begin.
fn common_bytes(word: &str, stem: &str) -> usize {
    let mut pairs = word.char_indices().zip(stem.chars());
    let differing = pairs.find(|((_, one), other)| one != other);
    differing.map_or(word.len().min(stem.len()), |((at, _), _)| at)
}
