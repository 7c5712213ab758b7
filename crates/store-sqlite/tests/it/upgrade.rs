//! Data folders of every earlier version are read and go on. `tests/fixtures/make.sh` makes one for each migration.

use longhaul_core::event::EventBody;
use longhaul_store::transfer::SessionTransfer;
use longhaul_store::{LogAppend, PrefixCacheKey, Store, StoreError, StoreMaintenance, blob_hashes};
use longhaul_store_sqlite::SqliteStore;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;

use crate::{note, open};

const FIXTURES: [(i64, &str); 5] = [
    (1, include_str!("../fixtures/schema-0001.sql")),
    (2, include_str!("../fixtures/schema-0002.sql")),
    (3, include_str!("../fixtures/schema-0003.sql")),
    (4, include_str!("../fixtures/schema-0004.sql")),
    (5, include_str!("../fixtures/schema-0005.sql")),
];

async fn folder_of(sql: &'static str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file =
        SqliteConnectOptions::new().filename(folder.path().join("longhaul.db")).create_if_missing(true);
    let mut db = file.connect().await.unwrap();
    sqlx::raw_sql(sql).execute(&mut db).await.unwrap();
    folder
}

#[test]
fn every_migration_has_a_fixture() {
    let migrations = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap();
    assert_eq!(migrations.count(), FIXTURES.len(), "tests/fixtures/make.sh makes the missing one");
}

#[tokio::test]
async fn what_earlier_versions_wrote_is_read_and_goes_on() {
    for (version, sql) in FIXTURES {
        let folder = folder_of(sql).await;
        if version < FIXTURES.len() as i64 {
            let refused = SqliteStore::open_to_read(folder.path()).await.unwrap_err();
            assert!(matches!(refused, StoreError::Outdated(_)), "{version}: {refused}");
        }
        let store = open(folder.path()).await;
        let created = store.created().await.unwrap();
        assert_eq!(created.len(), 2, "{version}");
        let named = store.named_blobs().await.unwrap();
        for id in &created {
            let events = store.read(id, 0, usize::MAX).await.unwrap();
            let record = store.session(id).await.unwrap();
            assert_eq!(record.last_seq, events.len() as u64, "{version}");
            assert!(!record.running && !record.parked, "{version}: {record:?}");
            assert!(events.iter().any(|event| matches!(event.body, EventBody::RunFinished { .. })));
            let hashes: Vec<_> = events.iter().flat_map(|event| blob_hashes(&event.body)).collect();
            let known = store.blobs(id).await.unwrap();
            assert!(known.iter().all(|blob| hashes.contains(&blob.hash) && named.has(&blob.hash)));
            assert_eq!(known.is_empty(), hashes.is_empty(), "{version}");
        }
        let [first, _] = &created[..] else { panic!("{created:?}") };
        assert_eq!(store.queue(first).await.unwrap()[0].id.as_str(), "q-waits", "{version}");
        assert_eq!(store.chunks(first).await.unwrap()[0].body, "half an ans", "{version}");
        let before = store.session(first).await.unwrap().last_seq;
        // A lease of the process that wrote it is void.
        let lease = store.claim(first, "now").await.unwrap();
        let append = LogAppend { at: 1, events: vec![note("goes on")], ..LogAppend::default() };
        assert_eq!(store.append(&lease, append).await.unwrap()[0].seq, before + 1, "{version}");
        let entry = longhaul_store::transfer::PrefixCacheEntryCopy {
            key: PrefixCacheKey::from_bytes([7; 32]),
            body: "[]".into(),
        };
        store.import_memo(std::slice::from_ref(&entry)).await.unwrap();
        assert!(store.export_memo().await.unwrap().contains(&entry), "{version}");
        store.close().await;
        // A second start finds nothing more to migrate.
        open(folder.path()).await.close().await;
    }
}
