//! A prefix cache in a database: a lookup only reads, and the next write records the found entries.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use longhaul_core::event::ViewEdit;

use super::{PrefixCache, PrefixCacheHit, PrefixCacheKey, PrefixCacheLimits, decode_edits, encode_edits};
use crate::StoreError;

/// The number of found keys to write without waiting for the next put.
const NOTED_KEYS: usize = 512;

/// A store of prefix cache entries as rows.
#[async_trait]
pub trait PrefixCacheRows: Send + Sync {
    /// Returns the known entries of `keys`, in the order of `keys`: the index of the key, and the body.
    ///
    /// # Errors
    /// [`StoreError::Storage`]; [`StoreError::Closed`].
    async fn remembered(&self, keys: &[PrefixCacheKey]) -> Result<Vec<(usize, String)>, StoreError>;

    /// Records the use of the entries `found` in order, puts `entry` behind `found`, and evicts the entries
    /// beyond `limits`.
    ///
    /// # Errors
    /// [`StoreError::Storage`]; [`StoreError::ReadOnly`]; [`StoreError::Closed`].
    async fn remember(
        &self,
        found: Vec<PrefixCacheKey>,
        entry: Option<(PrefixCacheKey, String)>,
        limits: PrefixCacheLimits,
    ) -> Result<(), StoreError>;
}

/// A prefix cache in a store. Once the store is closed, every call fails.
///
/// The entries of the last finds are evicted last, as far as their use was noted. Uses are noted together with
/// the next put. A crash may lose the newest notes, never an entry.
#[derive(Debug)]
pub struct DatabasePrefixCache<S> {
    store: Arc<S>,
    limits: PrefixCacheLimits,
    found: Mutex<Vec<PrefixCacheKey>>,
}

impl<S: PrefixCacheRows> DatabasePrefixCache<S> {
    /// Creates the cache in `store`. Entries beyond `limits` are evicted at the next [`PrefixCache::put`].
    pub fn new(store: Arc<S>, limits: PrefixCacheLimits) -> Self {
        Self { store, limits, found: Mutex::default() }
    }

    /// Notes the use of `key`. Returns all notes if a write is due.
    fn note(&self, key: PrefixCacheKey) -> Option<Vec<PrefixCacheKey>> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        // A growing conversation finds the same prefix with every request. Repetitions do not change the order.
        if found.last() != Some(&key) {
            found.push(key);
        }
        // Conversations that only find and never store would otherwise let the list grow.
        (found.len() >= NOTED_KEYS).then(|| std::mem::take(&mut *found))
    }

    /// Notes the use of `key`, and writes all notes to the store if a write is due.
    async fn use_of(&self, key: PrefixCacheKey) {
        if let Some(found) = self.note(key)
            && let Err(error) = self.store.remember(found, None, self.limits).await
        {
            // The caller has its entry. A lost note only makes the order of eviction less exact.
            tracing::debug!(%error, "which entries of the memo are in use was not noted");
        }
    }

    /// Stores a body, unless the body alone exceeds the limit.
    async fn put_body(&self, key: PrefixCacheKey, body: String) -> Result<(), StoreError> {
        // Such an entry would evict all others, and then itself.
        if body.len() > self.limits.bytes {
            tracing::debug!(
                ?key,
                bytes = body.len(),
                limit = self.limits.bytes,
                "too large for the prefix cache"
            );
            return Ok(());
        }
        // The notes leave the list before the write. If the write fails they are lost, which only blurs the order of
        // eviction.
        let found = std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner));
        self.store.remember(found, Some((key, body)), self.limits).await
    }
}

#[async_trait]
impl<S: PrefixCacheRows> PrefixCache for DatabasePrefixCache<S> {
    async fn find(&self, keys: &[PrefixCacheKey]) -> Result<Option<PrefixCacheHit>, StoreError> {
        if keys.is_empty() {
            return Ok(None);
        }
        for (index, body) in self.store.remembered(keys).await? {
            let Some(key) = keys.get(index) else { continue };
            // An entry of another version cannot be read. An entry for a shorter prefix may still be of use.
            let Some(edits) = decode_edits(key, &body) else { continue };
            self.use_of(*key).await;
            return Ok(Some(PrefixCacheHit { index, edits }));
        }
        Ok(None)
    }

    async fn put(&self, key: PrefixCacheKey, edits: &[ViewEdit]) -> Result<(), StoreError> {
        self.put_body(key, encode_edits(edits)?).await
    }

    async fn find_text(&self, key: &PrefixCacheKey) -> Result<Option<String>, StoreError> {
        let known = self.store.remembered(std::slice::from_ref(key)).await?;
        let Some((_, text)) = known.into_iter().next() else { return Ok(None) };
        self.use_of(*key).await;
        Ok(Some(text))
    }

    async fn put_text(&self, key: PrefixCacheKey, text: &str) -> Result<(), StoreError> {
        self.put_body(key, text.to_owned()).await
    }
}
