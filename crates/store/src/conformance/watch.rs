//! Watching a log grow.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::ids::Seq;
use tokio::sync::watch::Receiver;
use tokio::time::timeout;

use super::{ConformanceSetup, append, note};
use crate::SharedStore;

/// A limit longer than any wait here. A missed change fails the test instead of hanging it.
const PATIENCE: Duration = Duration::from_secs(20);

async fn next(watch: &mut Receiver<Seq>) -> Seq {
    timeout(PATIENCE, watch.changed()).await.unwrap().unwrap();
    *watch.borrow_and_update()
}

async fn ends(watch: &mut Receiver<Seq>) -> bool {
    timeout(PATIENCE, watch.changed()).await.unwrap().is_err()
}

/// A watch has the newest position at once.
pub async fn a_watch_starts_at_the_newest(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    assert_eq!(*setup.store.watch(&setup.id).await.unwrap().borrow(), 1);
    setup.store.append(&lease, append(vec![note("a"), note("b")])).await.unwrap();
    let watch = setup.store.watch(&setup.id).await.unwrap();
    assert_eq!(*watch.borrow(), 3);
    assert!(!watch.has_changed().unwrap());
}

/// All watchers see every append. An announced event can be read.
pub async fn a_watch_sees_the_newest(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    let mut watches =
        [setup.store.watch(&setup.id).await.unwrap(), setup.store.watch(&setup.id).await.unwrap()];
    for seq in [2, 3, 4] {
        setup.store.append(&lease, append(vec![note("a")])).await.unwrap();
        for watch in &mut watches {
            assert_eq!(next(watch).await, seq);
        }
        assert_eq!(setup.store.tail(&setup.id, 1).await.unwrap()[0].seq, seq);
    }
}

/// However appending and watching interleave, the watcher arrives at the last position.
pub async fn a_watch_misses_nothing(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    let writing = Arc::clone(&setup.store);
    let writer = tokio::spawn(async move {
        for _ in 0..60 {
            writing.append(&lease, append(vec![note("a")])).await.unwrap();
        }
    });
    let mut seen = 0;
    while seen < 61 {
        let mut watch = setup.store.watch(&setup.id).await.unwrap();
        let now = *watch.borrow_and_update();
        let newer = if now < 61 { next(&mut watch).await } else { now };
        assert!(seen <= now && now <= newer, "{seen} {now} {newer}");
        let read = setup.store.tail(&setup.id, 1).await.unwrap()[0].seq;
        assert!(read >= newer, "what was announced can be read");
        seen = newer;
    }
    writer.await.unwrap();
}

/// A session's watches end when the session is deleted.
pub async fn a_watch_ends_with_its_session(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let mut watch = setup.store.watch(&setup.id).await.unwrap();
    setup.store.delete(&setup.id).await.unwrap();
    assert!(ends(&mut watch).await);
}

/// All watches end when the store is closed.
pub async fn a_watch_ends_with_the_store(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let mut watch = setup.store.watch(&setup.id).await.unwrap();
    setup.store.close().await;
    assert!(ends(&mut watch).await);
}
