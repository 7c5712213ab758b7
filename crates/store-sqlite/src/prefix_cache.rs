//! The prefix cache's rows in the store's file.

use async_trait::async_trait;
use longhaul_store::prefix_cache::{DatabasePrefixCache, PrefixCacheRows};
use longhaul_store::{PrefixCacheKey, PrefixCacheLimits, StoreError};

use crate::store::SqliteStore;
use crate::writer::prefix_cache::SqlitePrefixCacheInsert;

/// The prefix cache in the store's file.
pub type SqlitePrefixCache = DatabasePrefixCache<SqliteStore>;

#[async_trait]
impl PrefixCacheRows for SqliteStore {
    async fn remembered(&self, keys: &[PrefixCacheKey]) -> Result<Vec<(usize, String)>, StoreError> {
        self.reader().remembered(keys).await
    }

    async fn remember(
        &self,
        found: Vec<PrefixCacheKey>,
        entry: Option<(PrefixCacheKey, String)>,
        limits: PrefixCacheLimits,
    ) -> Result<(), StoreError> {
        self.writer()?.submit(SqlitePrefixCacheInsert { found, entry, limits }).await
    }
}
