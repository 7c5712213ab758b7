//! The random numbers of synthetic sessions: SplitMix64 (Steele, Lea, Flood 2014). It gives equal numbers everywhere.

/// A seeded source of numbers.
#[derive(Clone, Debug)]
pub(super) struct SeededRng(u64);

impl SeededRng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        // The modulo favours small numbers slightly, which does not matter for made-up sessions.
        self.next() % n.max(1)
    }

    /// Returns a number from `from` to `to`, both included.
    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// Returns a number from `from` to about `to`, small ones as likely as large ones by order of magnitude.
    pub(super) fn magnitude(&mut self, from: u64, to: u64) -> u64 {
        // A float has 53 bits of precision, so the other 11 would be rounded away.
        let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (from as f64 * (to as f64 / from as f64).powf(share)) as u64
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Returns an item of a list that has grown: mostly a late one, and now and then one of any age.
    pub(super) fn pick_earlier<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        // A magnitude is mostly small, so the items of the recent past come back most often.
        let back = self.magnitude(1, items.len() as u64 + 1);
        &items[items.len() - (back as usize).clamp(1, items.len())]
    }
}
