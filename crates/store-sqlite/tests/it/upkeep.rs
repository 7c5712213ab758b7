//! What may go, and what is named.

use std::sync::Arc;

use longhaul_store::{StoreError, StoreMaintenance, conformance};
use longhaul_store_sqlite::SqliteStore;

use crate::open;

#[tokio::test]
async fn it_is_kept_up() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    conformance::blobs_are_named_by_logs_and_by_what_waits(Arc::new(open(folders[0].path()).await)).await;
    conformance::only_old_sessions_at_rest_may_go(Arc::new(open(folders[1].path()).await)).await;
}

#[tokio::test]
async fn who_only_reads_has_no_turn() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    assert!(store.turn().await.unwrap().is_some());
    let reading = SqliteStore::open_to_read(folder.path()).await.unwrap();
    assert_eq!(reading.turn().await.unwrap_err(), StoreError::ReadOnly);
}
