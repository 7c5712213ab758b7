//! The memo's rows in the store's database.

use async_trait::async_trait;
use longhaul_store::memo::{MemoRows, StoredMemo};
use longhaul_store::{MemoKey, MemoLimits, StoreError};

use crate::calls::memo::{Put, Remembered};
use crate::store::PostgresStore;

/// View edits remembered in the store's database, by all nodes together: what one of them finds is noted when that one
/// puts something.
pub type PostgresMemo = StoredMemo<PostgresStore>;

#[async_trait]
impl MemoRows for PostgresStore {
    async fn remembered(&self, keys: &[MemoKey]) -> Result<Vec<(usize, String)>, StoreError> {
        let asked = Remembered { keys: keys.iter().map(|key| key.as_bytes().to_vec()).collect() };
        self.database().make(&asked).await
    }

    async fn remember(
        &self,
        found: Vec<MemoKey>,
        entry: Option<(MemoKey, String)>,
        limits: MemoLimits,
    ) -> Result<(), StoreError> {
        self.database().make(&Put { found, entry, limits }).await
    }
}
