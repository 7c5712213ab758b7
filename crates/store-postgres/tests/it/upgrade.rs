//! Databases of every earlier version are read and go on. `tests/fixtures/make.sh` makes one for each migration.

use longhaul_core::event::EventBody;
use longhaul_store::transfer::{PrefixCacheEntryCopy, SessionTransfer};
use longhaul_store::{ClusterStore, PrefixCacheKey, Store, StoreMaintenance, blob_hashes};

use crate::append;
use crate::place::Place;

const FIXTURES: [&str; 4] = [
    include_str!("../fixtures/schema-0001.sql"),
    include_str!("../fixtures/schema-0002.sql"),
    include_str!("../fixtures/schema-0003.sql"),
    include_str!("../fixtures/schema-0004.sql"),
];

#[test]
fn every_migration_has_a_fixture() {
    let migrations = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap();
    assert_eq!(migrations.count(), FIXTURES.len(), "tests/fixtures/make.sh makes the missing one");
}

#[tokio::test]
async fn what_earlier_versions_wrote_is_read_and_goes_on() {
    for (version, sql) in (1..).zip(FIXTURES) {
        let Some(place) = Place::new().await else { return };
        place.execute(sql).await;
        let store = place.open().await;
        assert_eq!(store.nodes().await.unwrap().len(), 1, "{version}: the node of then is gone");
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
        assert!(
            store.orphans(10, true).await.unwrap().contains(first),
            "{version}: what waits is taken over"
        );
        let before = store.session(first).await.unwrap().last_seq;
        let lease = store.claim(first, "now").await.unwrap();
        assert_eq!(store.take_signals(&lease).await.unwrap().len(), 1, "{version}");
        assert_eq!(append(&store, &lease, "goes on").await.unwrap(), before + 1, "{version}");
        let entry = PrefixCacheEntryCopy { key: PrefixCacheKey::from_bytes([7; 32]), body: "[]".into() };
        store.import_memo(std::slice::from_ref(&entry)).await.unwrap();
        assert!(store.export_memo().await.unwrap().contains(&entry), "{version}");
        // New sessions come after those of then.
        crate::create(&store, "new").await;
        assert_eq!(store.created().await.unwrap().len(), 3, "{version}");
        store.close().await;
    }
}
