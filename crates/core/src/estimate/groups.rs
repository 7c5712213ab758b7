//! Tokens by the kind of writing.
//!
//! Vocabularies differ by kind of writing, not by one factor: one vocabulary has a token for each digit, another
//! twice as many for Chinese. The groups are few enough to be learned from a session's own usage, and enough to
//! follow a change of content.
//!
//! Two counts stand beside the tokens of the eleven groups. Both cost nothing in the estimate, but may cost tokens on
//! a server. Bytes matter to vocabularies of bytes or of equal pieces, and messages have template marks that are not
//! published.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// Estimated tokens by kind of writing, with the counts of bytes and messages.
///
/// The first five kinds are words; words glued to others, in capitals or behind a mark; marks; blanks and line ends;
/// digits. Then come scripts: Chinese characters; kana and hangul; Latin letters outside ASCII; Greek, Cyrillic and
/// Caucasian; Semitic, Indic and South-East Asian. Symbols and the rest are the last kind. Bytes of text and messages
/// follow; these two counts are no tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokensByScript([u32; TokensByScript::COUNT]);

impl TokensByScript {
    /// Number of the kinds of writing.
    pub const KINDS: usize = 11;

    /// Number of the kinds of writing, bytes and messages together.
    pub const COUNT: usize = Self::KINDS + 2;

    /// Index of the bytes.
    const BYTES: usize = Self::KINDS;

    /// Index of the messages.
    const MESSAGES: usize = Self::KINDS + 1;

    /// Returns `tokens` in the first group, words.
    pub fn of(tokens: u64) -> Self {
        let mut groups = Self::default();
        groups.0[0] = bounded(tokens);
        groups
    }

    /// Returns the tokens by kind of writing of a text with `bytes` bytes.
    pub fn of_kinds(tokens: [u64; Self::KINDS], bytes: u64) -> Self {
        let mut groups = Self::default();
        for (mine, tokens) in groups.0.iter_mut().zip(tokens) {
            *mine = bounded(tokens);
        }
        groups.0[Self::BYTES] = bounded(bytes);
        groups
    }

    /// Returns `tokens` of framing around `messages` messages.
    pub fn of_framing(tokens: u64, messages: u64) -> Self {
        let mut groups = Self::of(tokens);
        groups.0[Self::MESSAGES] = bounded(messages);
        groups
    }

    /// Returns the tokens of all kinds together.
    pub fn total(&self) -> u64 {
        self.0[..Self::KINDS].iter().map(|tokens| u64::from(*tokens)).sum()
    }

    /// Returns the bytes of the texts, as far as the counter has counted bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.0[Self::BYTES])
    }

    /// Returns the number of messages; each tool result counts as a message.
    pub fn messages(&self) -> u64 {
        u64::from(self.0[Self::MESSAGES])
    }

    /// Returns the difference to `other`, group by group, at least 0.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = self.0;
        for (mine, gone) in left.iter_mut().zip(other.0) {
            *mine = mine.saturating_sub(gone);
        }
        Self(left)
    }

    /// Returns the weighted sum of all counts.
    pub fn dot(&self, weights: &[f64; Self::COUNT]) -> f64 {
        self.0.iter().zip(weights).map(|(tokens, weight)| f64::from(*tokens) * weight).sum()
    }

    /// Returns the counts as floating-point numbers.
    pub fn as_floats(&self) -> [f64; Self::COUNT] {
        self.0.map(f64::from)
    }
}

/// Returns a count in 32 bits. No request has more tokens: the largest windows are a thousandth of the limit.
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
