//! Pieces of streaming answers.

use super::{ConformanceSetup, append, conflict, fenced, note};
use crate::{AnswerChunk, Lease, LogAppend, SharedStore, StoreError};

fn chunk(step: &str, index: u64) -> AnswerChunk {
    AnswerChunk { step: step.to_owned(), index, body: format!("{step} {index} é🦀\0\"") }
}

async fn put(setup: &ConformanceSetup, lease: &Lease, step: &str, index: u64) -> Result<(), StoreError> {
    setup.store.put_chunk(lease, chunk(step, index)).await
}

/// Pieces come back step by step, in their order.
pub async fn chunks_are_kept_in_order(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    // Two answers stream at the same time. Beyond ten, a text order would put 10 before 2.
    for index in 0..12 {
        put(&setup, &lease, "z-first", index).await.unwrap();
        put(&setup, &lease, "a-second", index).await.unwrap();
    }
    let expected: Vec<AnswerChunk> =
        ["z-first", "a-second"].iter().flat_map(|step| (0..12).map(|index| chunk(step, index))).collect();
    assert_eq!(setup.store.chunks(&setup.id).await.unwrap(), expected);
}

/// The append that settles a step drops its chunks, and no others.
pub async fn settled_chunks_are_dropped(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    for step in ["a", "b", "c"] {
        put(&setup, &lease, step, 0).await.unwrap();
    }
    // A step without chunks is settled too: its answer may have come in one piece.
    let settles = vec!["a".to_owned(), "c".to_owned(), "unknown".to_owned()];
    setup.store.append(&lease, LogAppend { settles, ..append(vec![note("done")]) }).await.unwrap();
    assert_eq!(setup.store.chunks(&setup.id).await.unwrap(), [chunk("b", 0)]);
}

/// A chunk out of order is refused. The stored chunks have no holes and no repeats.
pub async fn only_the_next_chunk_is_kept(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    assert!(conflict(&put(&setup, &lease, "a", 1).await));
    put(&setup, &lease, "a", 0).await.unwrap();
    assert!(conflict(&put(&setup, &lease, "a", 0).await));
    assert!(conflict(&put(&setup, &lease, "a", 2).await));
    put(&setup, &lease, "a", 1).await.unwrap();
    let settles = vec!["a".to_owned()];
    setup.store.append(&lease, LogAppend { settles, ..append(vec![note("done")]) }).await.unwrap();
    assert!(conflict(&put(&setup, &lease, "a", 2).await), "a late piece of a settled step");
    assert_eq!(setup.store.chunks(&setup.id).await.unwrap(), []);
}

/// Only the newest lease can store chunks.
pub async fn chunks_are_fenced(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let old = setup.claim().await;
    put(&setup, &old, "a", 0).await.unwrap();
    // The second claim stands for another process that has taken the session over.
    let new = setup.claim().await;
    assert!(fenced(&put(&setup, &old, "a", 1).await, &setup.id));
    put(&setup, &new, "a", 1).await.unwrap();
    assert_eq!(setup.store.chunks(&setup.id).await.unwrap(), [chunk("a", 0), chunk("a", 1)]);
}
