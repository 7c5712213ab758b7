//! The prefix cache's rows in the store's database.

use async_trait::async_trait;
use longhaul_store::prefix_cache::{DatabasePrefixCache, PrefixCacheRows};
use longhaul_store::{PrefixCacheKey, PrefixCacheLimits, StoreError};

use crate::operations::prefix_cache::{PostgresPrefixCacheInsert, PostgresPrefixCacheQuery};
use crate::store::PostgresStore;

/// The prefix cache in the store's database, shared by all nodes. A node records finds with the next put.
pub type PostgresPrefixCache = DatabasePrefixCache<PostgresStore>;

#[async_trait]
impl PrefixCacheRows for PostgresStore {
    async fn remembered(&self, keys: &[PrefixCacheKey]) -> Result<Vec<(usize, String)>, StoreError> {
        let asked =
            PostgresPrefixCacheQuery { keys: keys.iter().map(|key| key.as_bytes().to_vec()).collect() };
        self.database().run_operation(&asked).await
    }

    async fn remember(
        &self,
        found: Vec<PrefixCacheKey>,
        entry: Option<(PrefixCacheKey, String)>,
        limits: PrefixCacheLimits,
    ) -> Result<(), StoreError> {
        self.database().run_operation(&PostgresPrefixCacheInsert { found, entry, limits }).await
    }
}
