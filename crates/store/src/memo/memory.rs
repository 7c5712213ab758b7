//! A memo that lives as long as the process.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use longhaul_core::event::ViewEdit;

use super::{Found, Memo, MemoKey, MemoLimits, encode_edits};
use crate::StoreError;

/// Keeps everything in memory.
#[derive(Debug)]
pub struct MemoryMemo {
    limits: MemoLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<MemoKey, Entry>,
    /// The keys, the least recently used first.
    by_use: BTreeMap<u64, MemoKey>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    kept: Kept,
    bytes: usize,
    used: u64,
}

#[derive(Clone, Debug)]
enum Kept {
    Edits(Vec<ViewEdit>),
    Text(String),
}

impl MemoryMemo {
    /// An empty memo.
    pub fn new(limits: MemoLimits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryMemo {
    fn default() -> Self {
        Self::new(MemoLimits::default())
    }
}

impl State {
    fn find(&mut self, key: &MemoKey) -> Option<Kept> {
        let entry = self.entries.get_mut(key)?;
        self.by_use.remove(&entry.used);
        self.uses += 1;
        entry.used = self.uses;
        self.by_use.insert(self.uses, *key);
        Some(entry.kept.clone())
    }

    fn put(&mut self, key: MemoKey, kept: Kept, bytes: usize) {
        self.remove(&key);
        self.uses += 1;
        self.by_use.insert(self.uses, key);
        self.entries.insert(key, Entry { kept, bytes, used: self.uses });
        self.bytes += bytes;
    }

    fn remove(&mut self, key: &MemoKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }

    fn shrink(&mut self, limits: MemoLimits) {
        while self.entries.len() > limits.entries || self.bytes > limits.bytes {
            let Some((_, oldest)) = self.by_use.first_key_value() else { return };
            let oldest = *oldest;
            self.remove(&oldest);
        }
    }
}

#[async_trait]
impl Memo for MemoryMemo {
    async fn find(&self, keys: &[MemoKey]) -> Result<Option<Found>, StoreError> {
        let mut state = self.state();
        let hit = keys.iter().enumerate().find_map(|(index, key)| match state.find(key)? {
            Kept::Edits(edits) => Some(Found { index, edits }),
            Kept::Text(_) => None,
        });
        Ok(hit)
    }

    async fn put(&self, key: MemoKey, edits: &[ViewEdit]) -> Result<(), StoreError> {
        let bytes = encode_edits(edits)?.len();
        if bytes <= self.limits.bytes {
            let mut state = self.state();
            state.put(key, Kept::Edits(edits.to_vec()), bytes);
            state.shrink(self.limits);
        }
        Ok(())
    }

    async fn find_text(&self, key: &MemoKey) -> Result<Option<String>, StoreError> {
        match self.state().find(key) {
            Some(Kept::Text(text)) => Ok(Some(text)),
            Some(Kept::Edits(_)) | None => Ok(None),
        }
    }

    async fn put_text(&self, key: MemoKey, text: &str) -> Result<(), StoreError> {
        if text.len() <= self.limits.bytes {
            let mut state = self.state();
            state.put(key, Kept::Text(text.to_owned()), text.len());
            state.shrink(self.limits);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::MemoryMemo;
    use crate::memo::{Memo, MemoLimits};

    async fn memo(limits: MemoLimits) -> (Arc<dyn Memo>, ()) {
        (Arc::new(MemoryMemo::new(limits)), ())
    }

    crate::memo_conformance!(memo);
}
