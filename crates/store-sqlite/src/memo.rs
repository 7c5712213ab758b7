//! The memo's rows in the store's file.

use async_trait::async_trait;
use longhaul_store::memo::{MemoRows, StoredMemo};
use longhaul_store::{MemoKey, MemoLimits, StoreError};

use crate::store::SqliteStore;
use crate::writer::memo::Put;

/// View edits remembered in the store's file.
pub type SqliteMemo = StoredMemo<SqliteStore>;

#[async_trait]
impl MemoRows for SqliteStore {
    async fn remembered(&self, keys: &[MemoKey]) -> Result<Vec<(usize, String)>, StoreError> {
        self.reader().remembered(keys).await
    }

    async fn remember(
        &self,
        found: Vec<MemoKey>,
        entry: Option<(MemoKey, String)>,
        limits: MemoLimits,
    ) -> Result<(), StoreError> {
        self.writer()?.submit(Put { found, entry, limits }).await
    }
}
