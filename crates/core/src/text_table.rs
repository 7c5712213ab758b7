//! Hash tables for many short texts.
//!
//! The tables' hasher has no random seed, and no result depends on the order of a table: equal inputs give equal
//! outputs. A tree of texts compares about fifteen texts for each look-up, and long sessions look up millions of
//! words.

#![expect(
    clippy::disallowed_types,
    reason = "the hasher has no random seed, and no result depends on the order"
)]

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};

/// Values by text.
pub(crate) type TextTable<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// Distinct texts.
pub(crate) type TextSet = HashSet<Box<str>, BuildHasherDefault<DefaultHasher>>;

/// Distinct texts by their fingerprints of 64 bits, for counts over many more texts than fit memory.
///
/// Two texts with one fingerprint count as one. Among ten million texts, the chance of one such pair is 3 in a million.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FingerprintSet(HashSet<u64, BuildHasherDefault<FingerprintHasher>>);

impl FingerprintSet {
    /// Adds a text; returns whether it is new.
    pub(crate) fn insert(&mut self, text: &str) -> bool {
        self.0.insert(fingerprint(text))
    }

    pub(crate) fn contains(&self, text: &str) -> bool {
        self.0.contains(&fingerprint(text))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds all texts of another set.
    pub(crate) fn merge(&mut self, mut other: Self) {
        // Fewer insertions if the smaller set moves into the larger one.
        if other.0.len() > self.0.len() {
            std::mem::swap(self, &mut other);
        }
        self.0.extend(other.0);
    }
}

fn fingerprint(text: &str) -> u64 {
    let mut hasher = DefaultHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// The hasher of fingerprints, which are hashes already.
#[derive(Default)]
pub(crate) struct FingerprintHasher(u64);

impl Hasher for FingerprintHasher {
    fn write(&mut self, bytes: &[u8]) {
        // Only `write_u64` is called for a `u64`. Any other key must still give a hash.
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_counted_once_in_whichever_set() {
        let (mut one, mut other) = (FingerprintSet::default(), FingerprintSet::default());
        assert!(one.insert("a") && !one.insert("a") && one.insert("b"));
        assert!(other.insert("b") && other.insert("c") && other.insert("d"));
        one.merge(other);
        assert_eq!(one.len(), 4);
        assert!(["a", "b", "c", "d"].iter().all(|text| one.contains(text)) && !one.contains("e"));
    }
}
