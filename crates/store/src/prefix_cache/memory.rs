//! A prefix cache with the lifetime of the process.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use longhaul_core::event::ViewEdit;

use super::{PrefixCache, PrefixCacheHit, PrefixCacheKey, PrefixCacheLimits, encode_edits};
use crate::StoreError;

/// A prefix cache with all entries in memory.
#[derive(Debug)]
pub struct MemoryPrefixCache {
    limits: PrefixCacheLimits,
    state: Mutex<PrefixCacheState>,
}

#[derive(Debug, Default)]
struct PrefixCacheState {
    entries: HashMap<PrefixCacheKey, PrefixCacheEntry>,
    /// The keys, the least recently used first.
    by_use: BTreeMap<u64, PrefixCacheKey>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
struct PrefixCacheEntry {
    kept: PrefixCacheValue,
    bytes: usize,
    used: u64,
}

#[derive(Clone, Debug)]
enum PrefixCacheValue {
    Edits(Vec<ViewEdit>),
    Text(String),
}

impl MemoryPrefixCache {
    /// Creates an empty cache.
    pub fn new(limits: PrefixCacheLimits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, PrefixCacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryPrefixCache {
    fn default() -> Self {
        Self::new(PrefixCacheLimits::default())
    }
}

impl PrefixCacheState {
    fn find(&mut self, key: &PrefixCacheKey) -> Option<PrefixCacheValue> {
        let entry = self.entries.get_mut(key)?;
        self.by_use.remove(&entry.used);
        self.uses += 1;
        entry.used = self.uses;
        self.by_use.insert(self.uses, *key);
        Some(entry.kept.clone())
    }

    fn put(&mut self, key: PrefixCacheKey, kept: PrefixCacheValue, bytes: usize) {
        self.remove(&key);
        self.uses += 1;
        self.by_use.insert(self.uses, key);
        self.entries.insert(key, PrefixCacheEntry { kept, bytes, used: self.uses });
        self.bytes += bytes;
    }

    fn remove(&mut self, key: &PrefixCacheKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }

    fn shrink(&mut self, limits: PrefixCacheLimits) {
        while self.entries.len() > limits.entries || self.bytes > limits.bytes {
            let Some((_, oldest)) = self.by_use.first_key_value() else { return };
            let oldest = *oldest;
            self.remove(&oldest);
        }
    }
}

#[async_trait]
impl PrefixCache for MemoryPrefixCache {
    async fn find(&self, keys: &[PrefixCacheKey]) -> Result<Option<PrefixCacheHit>, StoreError> {
        let mut state = self.state();
        let hit = keys.iter().enumerate().find_map(|(index, key)| match state.find(key)? {
            PrefixCacheValue::Edits(edits) => Some(PrefixCacheHit { index, edits }),
            PrefixCacheValue::Text(_) => None,
        });
        Ok(hit)
    }

    async fn put(&self, key: PrefixCacheKey, edits: &[ViewEdit]) -> Result<(), StoreError> {
        // Counted as a database would store the edits, so that the limits mean the same for every cache.
        let bytes = encode_edits(edits)?.len();
        if bytes <= self.limits.bytes {
            let mut state = self.state();
            state.put(key, PrefixCacheValue::Edits(edits.to_vec()), bytes);
            state.shrink(self.limits);
        }
        Ok(())
    }

    async fn find_text(&self, key: &PrefixCacheKey) -> Result<Option<String>, StoreError> {
        match self.state().find(key) {
            Some(PrefixCacheValue::Text(text)) => Ok(Some(text)),
            Some(PrefixCacheValue::Edits(_)) | None => Ok(None),
        }
    }

    async fn put_text(&self, key: PrefixCacheKey, text: &str) -> Result<(), StoreError> {
        if text.len() <= self.limits.bytes {
            let mut state = self.state();
            state.put(key, PrefixCacheValue::Text(text.to_owned()), text.len());
            state.shrink(self.limits);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::MemoryPrefixCache;
    use crate::prefix_cache::{PrefixCache, PrefixCacheLimits};

    async fn memo(limits: PrefixCacheLimits) -> (Arc<dyn PrefixCache>, ()) {
        (Arc::new(MemoryPrefixCache::new(limits)), ())
    }

    crate::memo_conformance!(memo);
}
