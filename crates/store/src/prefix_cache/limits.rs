//! The limits of a prefix cache.

/// The maximum content of a prefix cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixCacheLimits {
    /// The maximum number of entries.
    pub entries: usize,
    /// The maximum size of all entries together, in bytes of [`encode_edits`](super::encode_edits).
    pub bytes: usize,
}

impl Default for PrefixCacheLimits {
    /// Returns 10,000 prefixes and 64 MiB: a summary is a few kilobytes long.
    fn default() -> Self {
        Self { entries: 10_000, bytes: 64 << 20 }
    }
}
