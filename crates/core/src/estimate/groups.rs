//! Tokens by the kind of writing they stand for.
//!
//! Vocabularies differ by kind of writing, not by one factor: one spends a token on each digit, another twice as many on
//! Chinese. The groups are few enough to be learned from a session's own usage and enough to follow a change of content.
//! Beside the tokens of eleven groups stand two counts that are worth nothing by the estimate and something to a server:
//! bytes, by which vocabularies of bytes or of equal pieces spend, and messages, whose marks nobody has published.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// Estimated tokens by kind of writing, and what else a server may charge for.
///
/// The kinds, in their order: words; words glued to others, in capitals or behind a mark; marks; blanks and line ends; digits;
/// Chinese characters; kana and hangul; Latin letters outside ASCII; Greek, Cyrillic and Caucasian; Semitic, Indic and South-East
/// Asian; symbols and the rest. Then bytes of text and messages, which are no tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokensByScript([u32; TokensByScript::COUNT]);

impl TokensByScript {
    /// How many kinds of writing there are.
    pub const KINDS: usize = 11;

    /// The kinds of writing, bytes and messages together.
    pub const COUNT: usize = Self::KINDS + 2;

    /// Where the bytes stand.
    const BYTES: usize = Self::KINDS;

    /// Where the messages stand.
    const MESSAGES: usize = Self::KINDS + 1;

    /// All in the first group, words.
    pub fn of(tokens: u64) -> Self {
        let mut groups = Self::default();
        groups.0[0] = bounded(tokens);
        groups
    }

    /// Tokens by kind of writing, of a text that has so many bytes.
    pub fn of_kinds(tokens: [u64; Self::KINDS], bytes: u64) -> Self {
        let mut groups = Self::default();
        for (mine, tokens) in groups.0.iter_mut().zip(tokens) {
            *mine = bounded(tokens);
        }
        groups.0[Self::BYTES] = bounded(bytes);
        groups
    }

    /// So many tokens around so many messages.
    pub fn of_framing(tokens: u64, messages: u64) -> Self {
        let mut groups = Self::of(tokens);
        groups.0[Self::MESSAGES] = bounded(messages);
        groups
    }

    /// The tokens of all kinds together.
    pub fn total(&self) -> u64 {
        self.0[..Self::KINDS].iter().map(|tokens| u64::from(*tokens)).sum()
    }

    /// Bytes of the texts, as far as the counter has said.
    pub fn bytes(&self) -> u64 {
        u64::from(self.0[Self::BYTES])
    }

    /// Messages, a tool result being one of its own.
    pub fn messages(&self) -> u64 {
        u64::from(self.0[Self::MESSAGES])
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
    pub fn dot(&self, weights: &[f64; Self::COUNT]) -> f64 {
        self.0.iter().zip(weights).map(|(tokens, weight)| f64::from(*tokens) * weight).sum()
    }

    /// The groups as numbers to reckon with.
    pub fn as_floats(&self) -> [f64; Self::COUNT] {
        self.0.map(f64::from)
    }
}

/// No request has more: the largest windows are a thousandth of it.
fn bounded(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Add for TokensByScript {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl AddAssign for TokensByScript {
    fn add_assign(&mut self, other: Self) {
        for (mine, more) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(more);
        }
    }
}

impl Sum for TokensByScript {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| sum + one)
    }
}
