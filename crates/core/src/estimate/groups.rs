//! Tokens by the kind of writing they stand for.
//!
//! Vocabularies differ by kind of writing, not by one factor: one spends a token on each digit, another twice as many
//! on Chinese. Four groups are few enough to be learned from a session's own usage (tokenizers differ by at most a
//! quarter within a group on recorded work) and enough to follow a change of content.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// Tokens in four groups: words, blanks and marks; digits and pieces glued together (base64, hashes, identifiers);
/// Chinese, Japanese and Korean; all other scripts and symbols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Groups(pub [u64; 4]);

impl Groups {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// All in the first group.
    pub fn of(tokens: u64) -> Self {
        Self([tokens, 0, 0, 0])
    }

    /// All of them together.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, tokens| sum.saturating_add(*tokens))
    }

    /// What is here and not in `other`, group by group.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = self.0;
        for (mine, gone) in left.iter_mut().zip(other.0) {
            *mine = mine.saturating_sub(gone);
        }
        Self(left)
    }

    /// The weighted sum.
    pub fn dot(&self, weights: &[f64; 4]) -> f64 {
        self.0.iter().zip(weights).map(|(tokens, weight)| *tokens as f64 * weight).sum()
    }
}

impl Add for Groups {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl AddAssign for Groups {
    fn add_assign(&mut self, other: Self) {
        for (mine, more) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(more);
        }
    }
}

impl Sum for Groups {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| sum + one)
    }
}
