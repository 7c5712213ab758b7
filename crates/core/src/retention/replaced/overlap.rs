//! The words that statements have in common, weighted by their rarity.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::comparable_statement::ComparableStatement;

/// The share of all statements beyond which a word is too common to tell a subject.
const COMMON_SHARE: f64 = 0.2;

/// The number of statements beyond which a word is too common to tell a subject.
const MAX_HOLDERS: usize = 64;

/// The statements that hold each word. Comparing all pairs of 2,000 statements would take millions of comparisons.
pub(super) struct WordIndex<'s> {
    holders: BTreeMap<&'s str, Vec<usize>>,
    statements: usize,
    /// The number of statements beyond which a word is too common to tell a subject.
    most_holders: usize,
}

impl<'s> WordIndex<'s> {
    pub(super) fn new(statements: &'s [Arc<ComparableStatement>]) -> Self {
        let mut holders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, statement) in statements.iter().enumerate() {
            for word in statement.words.iter().chain(&statement.values) {
                holders.entry(word).or_default().push(at);
            }
        }
        let most_holders = ((statements.len() as f64 * COMMON_SHARE) as usize).clamp(4, MAX_HOLDERS);
        Self { holders, statements: statements.len(), most_holders }
    }

    /// Returns the indices of the statements with a word, in order; none if the word is too common to tell a subject.
    pub(super) fn telling_holders(&self, word: &str) -> impl Iterator<Item = usize> {
        let holders = self.holders.get(word).filter(|holders| holders.len() <= self.most_holders);
        holders.into_iter().flatten().copied()
    }

    /// Returns the weight of a word: the inverse document frequency, or a small constant for a common word.
    fn weight(&self, word: &str) -> f64 {
        let count = self.holders.get(word).map_or(1, Vec::len);
        if count > self.most_holders { 0.1 } else { (1.0 + self.statements as f64 / count as f64).ln() }
    }

    /// Returns the sum of the words' weights.
    pub(super) fn total_weight<'w>(&self, words: impl IntoIterator<Item = &'w String>) -> f64 {
        words.into_iter().map(|word| self.weight(word)).sum()
    }
}

/// The words that two statements have in common, by weight.
pub(super) struct Overlap {
    pub(super) shared: f64,
    /// The number of shared terms.
    pub(super) shared_terms: usize,
    /// The number of the earlier statement's terms that the later one leaves out.
    pub(super) own_terms: usize,
    earlier_weight: f64,
    pub(super) least_weight: f64,
    most_weight: f64,
    /// `true` if the later statement has a value that the earlier one has not.
    pub(super) has_other_value: bool,
    pub(super) names_old_value: bool,
}

impl Overlap {
    pub(super) fn of(
        earlier: &ComparableStatement,
        later: &ComparableStatement,
        index: &WordIndex<'_>,
    ) -> Self {
        let (earlier_weight, later_weight) =
            (index.total_weight(&earlier.words), index.total_weight(&later.words));
        let all_shared = earlier.words.intersection(&later.words);
        // A short name tells two things apart, and is no verb and no object.
        let is_name = |term: &&String| term.chars().all(|char| char.is_ascii_uppercase());
        let (names, terms): (Vec<&String>, Vec<&String>) = all_shared.partition(is_name);
        let shared_terms = terms.len();
        Self {
            shared: index.total_weight(earlier.words.intersection(&later.words)),
            shared_terms,
            own_terms: earlier.words.len() - shared_terms - names.len(),
            earlier_weight,
            least_weight: earlier_weight.min(later_weight),
            most_weight: earlier_weight.max(later_weight),
            has_other_value: later.values.iter().any(|value| !earlier.values.contains(value)),
            names_old_value: earlier.values.iter().any(|value| later.values.contains(value)),
        }
    }

    /// Returns the share of the shorter statement.
    pub(super) fn share(&self) -> f64 {
        self.shared / self.least_weight
    }

    /// Returns the share of the earlier statement.
    pub(super) fn repeated(&self) -> f64 {
        self.shared / self.earlier_weight
    }

    /// Returns the share of the longer statement.
    pub(super) fn share_of_longer(&self) -> f64 {
        self.shared / self.most_weight
    }
}
