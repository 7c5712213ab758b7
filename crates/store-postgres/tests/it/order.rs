//! Ten thousand events come back in the order in which they were appended.

use longhaul_store::Store;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::place::Place;
use crate::{append_of, begin, note, notes};

const EVENTS: usize = 10_000;

async fn append_in(sizes: &[usize]) {
    let Some(place) = Place::new().await else { return };
    let store = place.open().await;
    let lease = begin(&store, "s").await;
    let mut sizes = sizes.iter().cycle();
    let mut next = 0;
    while next < EVENTS {
        let end = EVENTS.min(next + sizes.next().unwrap());
        let events = (next..end).map(|number| note(&number.to_string())).collect();
        let answer = store.append(&lease, append_of(events)).await.unwrap();
        assert!(answer.iter().zip(next as u64 + 2..).all(|(event, seq)| event.seq == seq));
        next = end;
    }
    let expected: Vec<String> = (0..EVENTS).map(|number| number.to_string()).collect();
    assert_eq!(notes(&store, "s").await, expected);
    let mut paged = Vec::new();
    while paged.len() <= EVENTS {
        let page = store.read(&"s".into(), paged.len() as u64, 777).await.unwrap();
        paged.extend(page.into_iter().map(|event| event.seq));
    }
    assert!(paged.iter().zip(1..).all(|(seq, expected)| *seq == expected));
    store.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ten_thousand_events_keep_their_order(sizes in vec(1..300_usize, 1..10)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(append_in(&sizes));
    }
}
