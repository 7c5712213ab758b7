//! The memory of view edits for prefixes of conversations outside sessions.
//!
//! A client that resends its whole history on every request has no session here. The edits for a prefix of such a
//! history are stored under a hash of the prefix. So no prefix is summarised twice, and the upstream's cached
//! bytes stay unchanged. The memory is a cache and not a log: unused entries are evicted, and a lost entry costs
//! a summary, never a message.
//!
//! Beside the edits the cache keeps texts under keys of another scope: the answers for such a client to continue
//! by name. A lost text costs the client a request with all of its history.

#[doc(hidden)]
pub mod conformance;
mod limits;
mod memory;
mod stored;

use std::fmt;

use async_trait::async_trait;
use longhaul_core::event::ViewEdit;

pub use self::limits::PrefixCacheLimits;
pub use self::memory::MemoryPrefixCache;
pub use self::stored::{DatabasePrefixCache, PrefixCacheRows};
use crate::StoreError;

/// Remembers view edits. Object-safe; one instance serves all conversations of a process.
///
/// A back-end passes [the conformance suite](conformance). A back-end promises:
/// - an acknowledged entry is found by every later call until eviction;
/// - the entry of the last put or find is evicted last;
/// - there are never more entries, nor more bytes in all entries, than [`PrefixCacheLimits`] allow.
#[async_trait]
pub trait PrefixCache: Send + Sync {
    /// Returns the entry of the first known key in `keys`. Callers give the longest prefix first.
    ///
    /// # Errors
    /// [`StoreError::Storage`]. An unreadable entry counts as unknown.
    async fn find(&self, keys: &[PrefixCacheKey]) -> Result<Option<PrefixCacheHit>, StoreError>;

    /// Remembers `edits`, in order, in place of the earlier entry under `key`. Edits above the limit by
    /// themselves are not remembered, and the earlier entry stays.
    ///
    /// # Errors
    /// [`StoreError::Storage`]; [`StoreError::ReadOnly`].
    async fn put(&self, key: PrefixCacheKey, edits: &[ViewEdit]) -> Result<(), StoreError>;

    /// Returns the text under `key`. Like an entry of edits, the text of the last find is evicted last.
    ///
    /// # Errors
    /// [`StoreError::Storage`].
    async fn find_text(&self, key: &PrefixCacheKey) -> Result<Option<String>, StoreError>;

    /// Stores a text without NUL in place of the earlier entry under `key`. Texts and edits share the room and
    /// are evicted alike. A text above the limit by itself is not stored, and the earlier entry stays.
    ///
    /// # Errors
    /// [`StoreError::Storage`]; [`StoreError::ReadOnly`].
    async fn put_text(&self, key: PrefixCacheKey, text: &str) -> Result<(), StoreError>;
}

/// The result of a successful lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixCacheHit {
    /// The index of the found key in `keys`.
    pub index: usize,
    /// The edits for the prefix, in order.
    pub edits: Vec<ViewEdit>,
}

/// The key of a prefix of a client's conversation with one upstream, under one policy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrefixCacheKey([u8; 32]);

/// The common properties of two conversations that may use each other's decisions.
#[derive(Clone, Copy, Debug)]
pub struct PrefixCacheScope<'a> {
    /// The hash of the caller's credential. So no caller gets another's summary.
    pub credential: &'a [u8],
    /// The upstream and the model there.
    pub upstream: &'a str,
    /// All values behind the decision: strategy, options, window, their version.
    pub policy: &'a str,
}

impl PrefixCacheKey {
    /// Creates the key of a prefix from the hash of the canonical form.
    pub fn new(scope: &PrefixCacheScope<'_>, prefix: &[u8; 32]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("longhaul 2026 memo of view edits");
        for part in [scope.credential, scope.upstream.as_bytes(), scope.policy.as_bytes(), prefix] {
            // The length before each part keeps the parts apart: no two scopes hash the same bytes.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// Creates a key from the stored form.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the stored form of the key.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the key as 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

impl fmt::Debug for PrefixCacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex()[..16])
    }
}

/// Returns the stored form of edits. The length of the form counts against [`PrefixCacheLimits::bytes`].
///
/// # Errors
/// [`StoreError::Storage`] if the edits have no such form.
#[doc(hidden)]
pub fn encode_edits(edits: &[ViewEdit]) -> Result<String, StoreError> {
    serde_json::to_string(edits).map_err(|error| StoreError::Storage(error.to_string()))
}

/// Returns the edits in the stored form `body`. Logs a warning and returns `None` for an unreadable body.
#[doc(hidden)]
pub fn decode_edits(key: &PrefixCacheKey, body: &str) -> Option<Vec<ViewEdit>> {
    let read = serde_json::from_str(body);
    read.inspect_err(|error| tracing::warn!(?key, %error, "a remembered view edit cannot be read")).ok()
}

#[cfg(test)]
mod tests {
    use super::{PrefixCacheKey, PrefixCacheScope};

    #[test]
    fn every_part_of_a_scope_makes_another_key() {
        let key = |credential: &[u8], upstream, policy, prefix| {
            PrefixCacheKey::new(&PrefixCacheScope { credential, upstream, policy }, &[prefix; 32])
        };
        let first = key(b"c", "u", "p", 1);
        assert_eq!(first, key(b"c", "u", "p", 1));
        for other in [
            key(b"d", "u", "p", 1),
            key(b"c", "v", "p", 1),
            key(b"c", "u", "q", 1),
            key(b"c", "u", "p", 2),
            key(b"cu", "", "p", 1),
            key(b"c", "up", "", 1),
        ] {
            assert_ne!(first, other);
        }
        assert_eq!(PrefixCacheKey::from_bytes(*first.as_bytes()), first);
        assert_eq!(first.to_hex().len(), 64);
    }
}
