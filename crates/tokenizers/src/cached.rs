//! Counts by content, so that a block is counted once.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::estimate::{CountAccuracy, TextCounter, TokensByScript};

/// The default number of counts that are kept. An entry takes about 100 bytes.
const ENTRIES: usize = 1 << 16;

/// The length up to which counting costs no more than a lookup, in bytes.
const SHORT_BYTES: usize = 48;

/// The key of a text: the first half of its BLAKE3 hash. A caller that keeps the key beside its block need not
/// read the block again to ask for its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentKey(u128);

impl ContentKey {
    /// Returns the key of `text`.
    pub fn of(text: &str) -> Self {
        let hash = blake3::hash(text.as_bytes());
        let mut half = [0; 16];
        half.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
        Self(u128::from_le_bytes(half))
    }
}

/// A counter that remembers its counts by content. Each counter has a memory of its own, so that counts of two
/// encodings cannot mix.
#[derive(Debug)]
pub struct CachedCounter<C> {
    counter: C,
    counts: Mutex<TokenCountCache>,
}

impl<C: TextCounter> CachedCounter<C> {
    /// Creates a counter that remembers 65,536 blocks.
    pub fn new(counter: C) -> Self {
        Self::with_entries(counter, ENTRIES)
    }

    /// Creates a counter that remembers at most `entries` blocks, and at least the half that was used last.
    pub fn with_entries(counter: C, entries: usize) -> Self {
        Self { counter, counts: Mutex::new(TokenCountCache::new(entries)) }
    }

    /// Returns the tokens of a text with a known key, by group. `text` is read only if its count is not
    /// remembered.
    ///
    /// A conversation of a million tokens in blocks of 4 KiB, with their keys at hand, is counted again with one
    /// new block in less than 100 µs (`benches/count.rs`).
    pub fn groups_for_key(&self, key: ContentKey, text: &str) -> TokensByScript {
        // The lock is not held while counting: two threads may both count a new block, which is cheaper than waiting.
        if let Some(groups) = self.counts().get(key) {
            return groups;
        }
        let groups = self.counter.groups(text);
        self.counts().insert(key, groups);
        groups
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.counts().clear();
    }

    /// Returns the number of remembered counts.
    pub fn len(&self) -> usize {
        self.counts().len()
    }

    /// Reports whether no count is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn counts(&self) -> MutexGuard<'_, TokenCountCache> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: TextCounter> TextCounter for CachedCounter<C> {
    fn groups(&self, text: &str) -> TokensByScript {
        if text.len() < SHORT_BYTES {
            return self.counter.groups(text);
        }
        self.groups_for_key(ContentKey::of(text), text)
    }

    fn name(&self) -> &str {
        self.counter.name()
    }

    fn kind(&self) -> CountAccuracy {
        self.counter.kind()
    }
}

type CountsByContent = HashMap<u128, TokensByScript, BuildHasherDefault<ContentKeyHasher>>;

/// A cache in two halves. When the young half is full, it becomes the old one; counts of the former old half are
/// forgotten unless they were used since.
#[derive(Debug)]
struct TokenCountCache {
    young: CountsByContent,
    old: CountsByContent,
    half: usize,
}

impl TokenCountCache {
    fn new(entries: usize) -> Self {
        Self {
            young: CountsByContent::default(),
            old: CountsByContent::default(),
            half: (entries / 2).max(1),
        }
    }

    fn get(&mut self, key: ContentKey) -> Option<TokensByScript> {
        if let Some(groups) = self.young.get(&key.0) {
            return Some(*groups);
        }
        // A count that is used moves to the young half, and so survives the next change of halves.
        let groups = self.old.remove(&key.0)?;
        self.insert(key, groups);
        Some(groups)
    }

    fn insert(&mut self, key: ContentKey, groups: TokensByScript) {
        if self.young.len() >= self.half {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key.0, groups);
    }

    fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

/// A hasher for keys that are hashes already: the lower half of the key is the hash.
#[derive(Default)]
struct ContentKeyHasher(u64);

impl Hasher for ContentKeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // A `u128` key calls `write_u128` only. The trait demands this method all the same.
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}
