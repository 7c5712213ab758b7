//! The memo's face: a look is a read, and what it found is noted with the next write.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use longhaul_core::event::ViewEdit;
use longhaul_store::memo::{Found, decode_edits, encode_edits};
use longhaul_store::{Memo, MemoKey, MemoLimits, StoreError};

use crate::store::SqliteStore;
use crate::writer::memo::Put;

/// Keys found since the last write, at most: then they are written by themselves.
const NOTED_KEYS: usize = 512;

/// View edits remembered in the store's file.
///
/// What was found last is the last to give way; after a crash the newest of these notes may be missing, never an
/// entry. Lives as long as its store: after [`Store::close`](longhaul_store::Store::close) it fails.
#[derive(Debug)]
pub struct SqliteMemo {
    store: Arc<SqliteStore>,
    limits: MemoLimits,
    found: Mutex<Vec<MemoKey>>,
}

impl SqliteMemo {
    /// The memo in `store`. What is beyond `limits` gives way at the next [`Memo::put`].
    pub fn new(store: Arc<SqliteStore>, limits: MemoLimits) -> Self {
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
        self.store.writer()?.submit(Put { found, entry, limits: self.limits }).await
    }
}

#[async_trait]
impl Memo for SqliteMemo {
    async fn find(&self, keys: &[MemoKey]) -> Result<Option<Found>, StoreError> {
        if keys.is_empty() {
            return Ok(None);
        }
        for (index, body) in self.store.reader().remembered(keys).await? {
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
        let known = self.store.reader().remembered(std::slice::from_ref(key)).await?;
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
