//! What may go, what is named, and whose turn it is.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::message::Part;
use longhaul_store::{NewQueuedMessage, Store, StoreError, StoreMaintenance, conformance};
use tokio::task::JoinSet;

use crate::place::Place;
use crate::{create, until};

#[tokio::test]
async fn it_is_kept_up() {
    let (Some(one), Some(other)) = (Place::new().await, Place::new().await) else { return };
    conformance::blobs_are_named_by_logs_and_by_what_waits(Arc::new(one.open().await)).await;
    conformance::only_old_sessions_at_rest_may_go(Arc::new(other.open().await)).await;
}

#[tokio::test]
async fn one_node_at_a_time_has_the_turn() {
    let (Some(place), Some(elsewhere)) = (Place::new().await, Place::new().await) else { return };
    let (one, other, third) = (place.open().await, place.open().await, elsewhere.open().await);
    let turn = one.turn().await.unwrap().unwrap();
    assert!(other.turn().await.unwrap().is_none());
    assert!(third.turn().await.unwrap().is_some(), "another schema has its own");
    drop(turn);
    until("the turn is free", async || other.turn().await.unwrap().is_some()).await;
    for store in [one, other, third] {
        store.close().await;
    }
}

/// Of a message that comes and a session that goes one is first: no message is accepted and lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_said_in_the_moment_of_deletion_is_refused_or_kept() {
    let Some(place) = Place::new().await else { return };
    let (one, other) = (Arc::new(place.open().await), Arc::new(place.open().await));
    for round in 0..40_u64 {
        let id = format!("s{round}");
        create(&one, &id).await;
        let mut racing = JoinSet::new();
        let (sender, session) = (Arc::clone(&other), id.clone());
        racing.spawn(async move {
            tokio::time::sleep(Duration::from_micros(round * 50)).await;
            let parts = vec![Part::text("hello")];
            let message = NewQueuedMessage::new("q", 1, parts, 10);
            sender.enqueue(&session.into(), message).await.map(|_| ())
        });
        let deleted = one.delete_at_rest(&id.as_str().into(), u64::MAX >> 1).await.unwrap();
        let said = racing.join_next().await.unwrap().unwrap();
        match said {
            Ok(()) => assert!(!deleted, "round {round}: accepted and lost"),
            Err(error) => assert!(deleted && matches!(error, StoreError::NotFound(_)), "{error}"),
        }
    }
    one.close().await;
    other.close().await;
}
