//! View edits that are remembered in the store's database.

use std::sync::Arc;

use longhaul_store::prefix_cache::conformance::{edit, key};
use longhaul_store::{MemoryPrefixCache, PrefixCache, PrefixCacheLimits, Store, StoreError};
use longhaul_store_postgres::PostgresPrefixCache;

use crate::place::Place;

async fn memo(limits: PrefixCacheLimits) -> (Arc<dyn PrefixCache>, Option<Place>) {
    match Place::new().await {
        Some(place) => (Arc::new(in_place(&place, limits).await), Some(place)),
        None => (Arc::new(MemoryPrefixCache::new(limits)), None),
    }
}

longhaul_store::memo_conformance!(memo);

async fn in_place(place: &Place, limits: PrefixCacheLimits) -> PostgresPrefixCache {
    PostgresPrefixCache::new(Arc::new(place.open().await), limits)
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_share_what_is_remembered_and_its_limits() {
    let Some(place) = Place::new().await else { return };
    let limits = PrefixCacheLimits { entries: 3, bytes: 1_000_000 };
    let (here, there) = (in_place(&place, limits).await, in_place(&place, limits).await);
    let puts: Vec<_> = (0..12).map(|number| (number, if number % 2 == 0 { &here } else { &there })).collect();
    let edits = [edit("x")];
    futures_util::future::join_all(puts.iter().map(|(number, memo)| memo.put(key(*number), &edits))).await;
    let mut known = 0;
    for number in 0..12 {
        let found = there.find(&[key(number)]).await.unwrap();
        assert_eq!(found.is_some(), here.find(&[key(number)]).await.unwrap().is_some());
        known += usize::from(found.is_some());
    }
    assert_eq!(known, 3);
}

#[tokio::test]
async fn a_closed_store_remembers_nothing_more() {
    let Some(place) = Place::new().await else { return };
    let store = Arc::new(place.open().await);
    let memo = PostgresPrefixCache::new(Arc::clone(&store), PrefixCacheLimits::default());
    store.close().await;
    assert_eq!(memo.put(key(1), &[]).await, Err(StoreError::Closed));
    assert_eq!(memo.find(&[key(1)]).await, Err(StoreError::Closed));
}
