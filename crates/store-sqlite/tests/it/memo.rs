//! View edits that are remembered in the store's file.

use std::path::Path;
use std::sync::Arc;

use longhaul_store::prefix_cache::conformance::{edit, key};
use longhaul_store::{PrefixCache, PrefixCacheLimits, Store, StoreError};
use longhaul_store_sqlite::{SqlitePrefixCache, SqliteStore};
use tempfile::TempDir;

use super::{database, open};

async fn memo(limits: PrefixCacheLimits) -> (Arc<dyn PrefixCache>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let memo = in_folder(folder.path(), limits).await.1;
    (Arc::new(memo), folder)
}

longhaul_store::memo_conformance!(memo);

async fn in_folder(folder: &Path, limits: PrefixCacheLimits) -> (Arc<SqliteStore>, SqlitePrefixCache) {
    let store = Arc::new(open(folder).await);
    (Arc::clone(&store), SqlitePrefixCache::new(store, limits))
}

async fn knows(memo: &SqlitePrefixCache, number: u32) -> bool {
    memo.find(&[key(number)]).await.unwrap().is_some()
}

#[tokio::test]
async fn what_is_remembered_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let (store, memo) = in_folder(folder.path(), PrefixCacheLimits::default()).await;
    for number in 1..=3 {
        memo.put(key(number), &[edit("kept"), edit("in order")]).await.unwrap();
    }
    store.close().await;
    drop((store, memo));
    let (store, memo) = in_folder(folder.path(), PrefixCacheLimits { entries: 2, bytes: 1_000_000 }).await;
    let found = memo.find(&[key(8), key(1)]).await.unwrap().unwrap();
    assert_eq!((found.index, found.edits), (1, vec![edit("kept"), edit("in order")]));
    memo.put(key(4), &[]).await.unwrap();
    assert!(knows(&memo, 1).await && knows(&memo, 4).await, "use counts across restarts");
    assert!(!knows(&memo, 2).await && !knows(&memo, 3).await, "smaller limits hold for what is there");
    store.close().await;
}

#[tokio::test]
async fn a_closed_store_remembers_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let (store, memo) = in_folder(folder.path(), PrefixCacheLimits::default()).await;
    store.close().await;
    assert_eq!(memo.put(key(1), &[]).await, Err(StoreError::Closed));
    assert_eq!(memo.find(&[key(1)]).await, Err(StoreError::Closed));
}

#[tokio::test]
async fn who_only_reads_finds_and_does_not_put() {
    let folder = tempfile::tempdir().unwrap();
    let (store, memo) = in_folder(folder.path(), PrefixCacheLimits::default()).await;
    memo.put(key(1), &[edit("x")]).await.unwrap();
    let reading = Arc::new(SqliteStore::open_to_read(folder.path()).await.unwrap());
    let beside = SqlitePrefixCache::new(Arc::clone(&reading), PrefixCacheLimits::default());
    for _ in 0..1_200 {
        assert!(knows(&beside, 1).await);
    }
    assert_eq!(beside.put(key(2), &[]).await, Err(StoreError::ReadOnly));
    reading.close().await;
    store.close().await;
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let (store, memo) = in_folder(folder.path(), PrefixCacheLimits::default()).await;
    memo.put(key(1), &[edit("shorter prefix")]).await.unwrap();
    memo.put(key(2), &[edit("longer prefix")]).await.unwrap();
    store.close().await;
    drop((store, memo));
    let mut db = database(folder.path()).await;
    let broken = "UPDATE memo SET body = '[{' WHERE no = (SELECT max(no) FROM memo)";
    sqlx::query(broken).execute(&mut db).await.unwrap();
    sqlx::Connection::close(db).await.unwrap();
    let (store, memo) = in_folder(folder.path(), PrefixCacheLimits::default()).await;
    let found = memo.find(&[key(2), key(1)]).await.unwrap().unwrap();
    assert_eq!((found.index, found.edits), (1, vec![edit("shorter prefix")]));
    memo.put(key(2), &[edit("again")]).await.unwrap();
    assert!(knows(&memo, 2).await);
    store.close().await;
}

#[tokio::test]
async fn no_look_and_no_eviction_reads_all_bodies() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).await.close().await;
    let mut db = database(folder.path()).await;
    for (query, expected) in [
        (
            "SELECT asked.key, body FROM json_each('[]') AS asked JOIN memo ON memo.key = unhex(asked.value)",
            "SEARCH memo USING INDEX sqlite_autoindex_memo_1 (key=?)",
        ),
        (
            "SELECT no, sum(bytes) OVER (ORDER BY used DESC, no DESC) FROM memo",
            "SCAN memo USING COVERING INDEX memo_used",
        ),
        ("SELECT max(used) FROM memo", "SEARCH memo USING COVERING INDEX memo_used"),
    ] {
        let plan: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {query}")))
                .fetch_all(&mut db)
                .await
                .unwrap();
        assert!(plan.iter().any(|(_, _, _, step)| step == expected), "{query}: {plan:?}");
    }
    sqlx::Connection::close(db).await.unwrap();
}
