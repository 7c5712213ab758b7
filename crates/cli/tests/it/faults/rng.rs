//! SplitMix64 (Steele, Lea, Flood 2014): a few lines, equal on every machine.

/// A seeded source of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A source that depends on what it is for, and not on what was drawn before.
    pub(crate) fn of(seed: u64, purpose: impl std::hash::Hash) -> Self {
        // Not random: `DefaultHasher::new` has fixed keys.
        let mut hasher = std::hash::DefaultHasher::new();
        std::hash::Hash::hash(&(seed, purpose), &mut hasher);
        Self(std::hash::Hasher::finish(&hasher))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}
