//! The queue: accepted once, changed while waiting, taken exactly once.

use std::sync::Arc;

use longhaul_core::message::Part;
use longhaul_core::queue::QueuedMessage;

use super::{
    ConformanceSetup, NOW, accepted, append, conflict, message, metadata, metadata_text, new_session,
    not_found, note,
};
use crate::{LogAppend, NewQueuedMessage, SharedStore, StoreError};

fn taking(ids: &[&str]) -> LogAppend {
    let takes = ids.iter().map(|id| (*id).into()).collect();
    LogAppend { takes, ..append(vec![note("taken")]) }
}

/// Messages wait in the order of their arrival. The position counts from 1 at the oldest message.
pub async fn queued_messages_have_positions(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    // Not in the order of the alphabet: a store must not sort by its ids.
    for (position, id) in (1..).zip(["c", "a", "b"]) {
        assert_eq!(setup.enqueue(id, None).await, accepted(id, position, false));
    }
    let queue = setup.store.queue(&setup.id).await.unwrap();
    let expected =
        ["c", "a", "b"].map(|id| QueuedMessage::new(id, NOW, vec![Part::text(format!("text of {id}"))]));
    assert_eq!(queue, expected);
    // The oldest message leaves, so the position of the next one counts those that still wait.
    let lease = setup.claim().await;
    setup.store.append(&lease, taking(&["c"])).await.unwrap();
    assert_eq!(setup.enqueue("d", None).await, accepted("d", 3, false));
}

/// A repeated key is answered with the first message, in whatever state.
pub async fn a_repeated_key_adds_nothing(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    for (id, key) in [("a", "ka"), ("b", "kb"), ("c", "kc")] {
        setup.enqueue(id, Some(key)).await.unwrap();
    }
    assert_eq!(setup.enqueue("x", Some("kb")).await, accepted("b", 2, true));
    // The sender repeats a message whose answer was lost. It must hear of the first one, although the queue is full.
    let full = setup.store.enqueue(&setup.id, message("x", Some("kb"), 1)).await;
    assert_eq!(full, accepted("b", 2, true), "a full queue refuses only what is new");
    let lease = setup.claim().await;
    setup.store.append(&lease, taking(&["a"])).await.unwrap();
    setup.store.remove_queued(&setup.id, &"b".into()).await.unwrap();
    assert_eq!(setup.enqueue("x", Some("ka")).await, accepted("a", 0, true), "taken");
    assert_eq!(setup.enqueue("x", Some("kb")).await, accepted("b", 0, true), "removed");
    assert_eq!(setup.enqueue("x", Some("kc")).await, accepted("c", 1, true));
    assert_eq!(setup.waiting().await, ["c".into()]);
}

/// Two sessions may be given the same key and the same message id.
pub async fn keys_belong_to_their_session(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    setup.store.create(new_session("other", NOW)).await.unwrap();
    assert_eq!(setup.enqueue("a", Some("k")).await, accepted("a", 1, false));
    let other = setup.store.enqueue(&"other".into(), message("a", Some("k"), 100)).await;
    assert_eq!(other, accepted("a", 1, false));
}

/// The number of waiting messages never exceeds the limit, also when many arrive at once.
pub async fn the_queue_has_a_limit(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let comers = (0..20).map(|n| {
        let (store, id) = (Arc::clone(&setup.store), setup.id.clone());
        // Counting and adding are two steps. Done apart, several senders at once would pass the limit.
        tokio::spawn(async move { store.enqueue(&id, message(&format!("q{n}"), None, 5)).await })
    });
    let mut positions = Vec::new();
    for comer in comers.collect::<Vec<_>>() {
        match comer.await.unwrap() {
            Ok(accepted) => positions.push(accepted.position),
            Err(error) => assert_eq!(error, StoreError::QueueFull(5)),
        }
    }
    positions.sort_unstable();
    assert_eq!(positions, [1, 2, 3, 4, 5]);
    let first = setup.waiting().await[0].clone();
    setup.store.remove_queued(&setup.id, &first).await.unwrap();
    let again = setup.store.enqueue(&setup.id, message("again", None, 5)).await;
    assert_eq!(again, accepted("again", 5, false));
}

/// Two messages of a session cannot have one id.
pub async fn a_taken_queue_id_is_a_conflict(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    setup.enqueue("a", Some("k")).await.unwrap();
    // A message without the first one's key is another message, which would be taken in its place.
    assert!(conflict(&setup.enqueue("a", None).await));
    assert!(conflict(&setup.enqueue("a", Some("other")).await));
    assert_eq!(setup.waiting().await, ["a".into()]);
}

/// An edited message keeps its place and has the new text. A settled message is not found.
pub async fn waiting_messages_can_be_edited(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    setup.enqueue("a", None).await.unwrap();
    setup.enqueue("b", None).await.unwrap();
    // PostgreSQL's texts hold no U+0000, and quotes break careless SQL and JSON.
    let parts = vec![Part::text("new"), Part::text("é\0\"")];
    setup.store.edit_queued(&setup.id, &"a".into(), parts.clone(), None).await.unwrap();
    let queue = setup.store.queue(&setup.id).await.unwrap();
    assert_eq!(queue[0], QueuedMessage::new("a", NOW, parts.clone()));
    let lease = setup.claim().await;
    setup.store.append(&lease, taking(&["a"])).await.unwrap();
    assert!(not_found(&setup.store.edit_queued(&setup.id, &"a".into(), parts.clone(), None).await));
    assert!(not_found(&setup.store.edit_queued(&setup.id, &"never".into(), parts, None).await));
}

/// A message's metadata waits with the message, also while others change. An edit says whether the metadata
/// stays.
pub async fn metadata_waits_with_its_message(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    for (id, with) in [("a", true), ("b", false), ("c", true)] {
        let metadata = with.then(|| metadata(id));
        let new = NewQueuedMessage { metadata, ..message(id, Some(id), 100) };
        setup.store.enqueue(&setup.id, new).await.unwrap();
    }
    let [of_a, of_c] = ["a", "c"].map(|id| metadata_text(Some(&metadata(id))));
    assert_eq!(waiting_metadata(&setup).await, [&of_a, "null", &of_c]);
    // The repetition brings metadata where the first message had none.
    let again = NewQueuedMessage { metadata: Some(metadata("other")), ..message("x", Some("b"), 100) };
    assert_eq!(setup.store.enqueue(&setup.id, again).await, accepted("b", 2, true));
    assert_eq!(waiting_metadata(&setup).await, [&of_a, "null", &of_c], "a repeated key changes nothing");
    let parts = vec![Part::text("new")];
    for (id, with) in [("a", false), ("b", true)] {
        let metadata = with.then(|| metadata(id));
        setup.store.edit_queued(&setup.id, &id.into(), parts.clone(), metadata).await.unwrap();
    }
    let of_b = metadata_text(Some(&metadata("b")));
    assert_eq!(waiting_metadata(&setup).await, ["null", &of_b, &of_c]);
    let texts = setup.store.queue(&setup.id).await.unwrap().into_iter().map(|one| one.parts);
    assert_eq!(texts.collect::<Vec<_>>(), [parts.clone(), parts, vec![Part::text("text of c")]]);
    let lease = setup.claim().await;
    setup.store.append(&lease, taking(&["a", "b"])).await.unwrap();
    assert_eq!(waiting_metadata(&setup).await, [of_c]);
}

async fn waiting_metadata(setup: &ConformanceSetup) -> Vec<String> {
    let queue = setup.store.queue(&setup.id).await.unwrap();
    queue.iter().map(|one| metadata_text(one.metadata.as_ref())).collect()
}

/// A removed message no longer waits. The messages behind move up.
pub async fn waiting_messages_can_be_removed(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    for id in ["a", "b", "c"] {
        setup.enqueue(id, Some(id)).await.unwrap();
    }
    setup.store.remove_queued(&setup.id, &"a".into()).await.unwrap();
    assert!(not_found(&setup.store.remove_queued(&setup.id, &"a".into()).await));
    assert!(not_found(&setup.store.remove_queued(&setup.id, &"never".into()).await));
    assert_eq!(setup.waiting().await, ["b".into(), "c".into()]);
    assert_eq!(setup.enqueue("c", Some("c")).await, accepted("c", 2, true));
}

/// Clearing removes every waiting message and returns the ids, oldest first.
pub async fn the_queue_can_be_cleared(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    // Neither in the order of the ids: the answer must be in the order of arrival.
    for id in ["b", "a", "c"] {
        setup.enqueue(id, None).await.unwrap();
    }
    let lease = setup.claim().await;
    setup.store.append(&lease, taking(&["b"])).await.unwrap();
    assert_eq!(setup.store.clear_queue(&setup.id).await.unwrap(), ["a".into(), "c".into()]);
    assert_eq!(setup.waiting().await, []);
    assert_eq!(setup.store.clear_queue(&setup.id).await.unwrap(), []);
    assert_eq!(setup.enqueue("d", None).await, accepted("d", 1, false));
}

/// A message enters the log once: a second take is a conflict, also within one call.
pub async fn a_message_is_taken_once(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    setup.enqueue("a", None).await.unwrap();
    let lease = setup.claim().await;
    // The message waits, but only one of the two takes can have it.
    assert!(conflict(&setup.store.append(&lease, taking(&["a", "a"])).await));
    setup.store.append(&lease, taking(&["a"])).await.unwrap();
    assert!(conflict(&setup.store.append(&lease, taking(&["a"])).await));
    assert_eq!(setup.log().await[1..], [note("taken")]);
    assert_eq!(setup.waiting().await, []);
}

/// A message removed in between cannot be taken, and nothing is appended.
pub async fn a_removed_message_is_not_taken(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    setup.enqueue("a", None).await.unwrap();
    let lease = setup.claim().await;
    setup.store.remove_queued(&setup.id, &"a".into()).await.unwrap();
    assert!(conflict(&setup.store.append(&lease, taking(&["a"])).await));
    assert_eq!(setup.log().await.len(), 1);
}

/// If one of several cannot be taken, the others keep waiting.
pub async fn all_messages_are_taken_or_none(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    for id in ["a", "b", "c"] {
        setup.enqueue(id, None).await.unwrap();
    }
    let lease = setup.claim().await;
    setup.store.remove_queued(&setup.id, &"b".into()).await.unwrap();
    assert!(conflict(&setup.store.append(&lease, taking(&["a", "b", "c"])).await));
    assert_eq!(setup.waiting().await, ["a".into(), "c".into()]);
    // The refused append has left no trace: both messages can be taken, in any order.
    setup.store.append(&lease, taking(&["c", "a"])).await.unwrap();
    assert_eq!(setup.waiting().await, []);
}

/// A message taken and removed at the same time is either taken or removed, never both.
pub async fn taking_and_removing_race_to_one_end(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    // One round may always have the same winner. Twenty show both.
    for round in 0..20 {
        let name = format!("q{round}");
        setup.enqueue(&name, None).await.unwrap();
        let before = setup.log().await.len();
        let (store, id, entry) = (Arc::clone(&setup.store), setup.id.clone(), name.as_str().into());
        let removing = tokio::spawn(async move { store.remove_queued(&id, &entry).await });
        let taken = setup.store.append(&lease, taking(&[&name])).await;
        let removed = removing.await.unwrap();
        assert!(taken.is_ok() != removed.is_ok(), "{taken:?} {removed:?}");
        assert_eq!(setup.log().await.len(), before + usize::from(taken.is_ok()));
    }
}

/// Any process may enqueue, also without the lease.
pub async fn enqueueing_needs_no_lease(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    assert_eq!(setup.enqueue("a", None).await, accepted("a", 1, false));
    // Held by the owner, to whom other processes leave their messages.
    let _lease = setup.claim().await;
    assert_eq!(setup.enqueue("b", None).await, accepted("b", 2, false));
}
