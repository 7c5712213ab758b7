//! The memo's face: a look is a read, and what it found is noted with the next write.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use longhaul_core::event::ViewEdit;
use longhaul_store::memo::{Found, decode_edits, encode_edits};
use longhaul_store::{Memo, MemoKey, MemoLimits, StoreError};

use crate::calls::memo::{Put, Remembered};
use crate::store::PostgresStore;

/// Keys found since the last write, at most: then they are written by themselves.
const NOTED_KEYS: usize = 512;

/// View edits remembered in the store's database, by all nodes together.
///
/// What was found last is the last to give way, as far as the node that found it has noted that: it does so with what
/// it puts. Lives as long as its store: after [`Store::close`](longhaul_store::Store::close) it fails.
#[derive(Debug)]
pub struct PostgresMemo {
    store: Arc<PostgresStore>,
    limits: MemoLimits,
    found: Mutex<Vec<MemoKey>>,
}

impl PostgresMemo {
    /// The memo in `store`. What is beyond `limits` gives way at the next [`Memo::put`].
    pub fn new(store: Arc<PostgresStore>, limits: MemoLimits) -> Self {
        Self { store, limits, found: Mutex::default() }
    }

    /// Notes that `key` was used. Answers with all notes if they are due to be written.
    fn note(&self, key: MemoKey) -> Option<Vec<MemoKey>> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.last() != Some(&key) {
            found.push(key);
        }
        (found.len() >= NOTED_KEYS).then(|| std::mem::take(&mut *found))
    }

    /// Notes that `key` was used, in the store too if that is due.
    async fn use_of(&self, key: MemoKey) {
        if let Some(found) = self.note(key)
            && let Err(error) = self.write(found, None).await
        {
            tracing::debug!(%error, "which entries of the memo are in use was not noted");
        }
    }

    fn noted(&self) -> Vec<MemoKey> {
        std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn write(&self, found: Vec<MemoKey>, entry: Option<(MemoKey, String)>) -> Result<(), StoreError> {
        self.store.database().make(&Put { found, entry, limits: self.limits }).await
    }
}

#[async_trait]
impl Memo for PostgresMemo {
    async fn find(&self, keys: &[MemoKey]) -> Result<Option<Found>, StoreError> {
        if keys.is_empty() {
            return Ok(None);
        }
        let asked = Remembered { keys: keys.iter().map(|key| key.as_bytes().to_vec()).collect() };
        for (index, body) in self.store.database().make(&asked).await? {
            let Some(key) = keys.get(index) else { continue };
            let Some(edits) = decode_edits(key, &body) else { continue };
            self.use_of(*key).await;
            return Ok(Some(Found { index, edits }));
        }
        Ok(None)
    }

    async fn put(&self, key: MemoKey, edits: &[ViewEdit]) -> Result<(), StoreError> {
        let body = encode_edits(edits)?;
        if body.len() > self.limits.bytes {
            return Ok(());
        }
        self.write(self.noted(), Some((key, body))).await
    }

    async fn find_text(&self, key: &MemoKey) -> Result<Option<String>, StoreError> {
        let known = self.store.database().make(&Remembered { keys: vec![key.as_bytes().to_vec()] }).await?;
        let Some((_, text)) = known.into_iter().next() else { return Ok(None) };
        self.use_of(*key).await;
        Ok(Some(text))
    }

    async fn put_text(&self, key: MemoKey, text: &str) -> Result<(), StoreError> {
        if text.len() > self.limits.bytes {
            return Ok(());
        }
        self.write(self.noted(), Some((key, text.to_owned()))).await
    }
}
