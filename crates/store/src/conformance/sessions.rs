//! Sessions as a whole.

use longhaul_core::event::EventBody;
use longhaul_core::ids::SessionId;
use longhaul_core::message::{Message, Part};

use super::{
    ConformanceSetup, NOW, append, conflict, message, new_session, not_found, note, run_finished, started,
    titled,
};
use crate::{LogAppend, NewSession, SessionCounts, SessionRecord, SharedStore, StoreError};

/// A session is found unchanged after the creation.
pub async fn created_sessions_are_found(store: SharedStore) {
    // Any text may be an id: none may become a path, or lose a character on its way.
    let id = SessionId::from("Ünïcode/\u{202e} id 🦀");
    let events = vec![(NOW - 5, started()), (NOW - 4, note("a"))];
    let new = NewSession { id: id.clone(), title: Some("A title".into()), at: NOW, events };
    let record = store.create(new).await.unwrap();
    let expected = SessionRecord {
        id: id.clone(),
        title: Some("A title".into()),
        created_at: NOW,
        updated_at: NOW,
        last_seq: 2,
        queued: 0,
        running: false,
        parked: false,
    };
    assert_eq!(record, expected);
    assert_eq!(store.session(&id).await.unwrap(), expected);
    let events = store.read(&id, 0, 10).await.unwrap();
    // An import keeps the times of its events. Only the record has the time of the creation.
    assert_eq!(events.iter().map(|event| event.at).collect::<Vec<_>>(), [NOW - 5, NOW - 4]);
}

/// An id is used once. The first session with the id stays unchanged.
pub async fn a_taken_id_is_a_conflict(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let again = NewSession { title: Some("other".into()), ..new_session("s", NOW + 1) };
    assert!(conflict(&setup.store.create(again).await));
    let record = setup.store.session(&setup.id).await.unwrap();
    assert_eq!((record.title, record.created_at, record.last_seq), (None, NOW, 1));
}

/// A session without a first event is refused.
pub async fn a_log_is_never_empty(store: SharedStore) {
    let empty = NewSession { events: Vec::new(), ..new_session("s", NOW) };
    assert!(conflict(&store.create(empty).await));
    assert_eq!(store.sessions(10).await.unwrap(), []);
}

/// Every call about an unknown session fails with "not found".
pub async fn unknown_sessions_are_not_found(store: SharedStore) {
    let id = SessionId::from("nobody");
    // An empty answer would look like a session without messages.
    assert!(not_found(&store.session(&id).await));
    assert!(not_found(&store.delete(&id).await));
    assert!(not_found(&store.claim(&id, "owner").await));
    assert!(not_found(&store.read(&id, 0, 1).await));
    assert!(not_found(&store.tail(&id, 1).await));
    assert!(not_found(&store.enqueue(&id, message("q", None, 1)).await));
    assert!(not_found(&store.queue(&id).await));
    assert!(not_found(&store.edit_queued(&id, &"q".into(), Vec::new(), None).await));
    assert!(not_found(&store.remove_queued(&id, &"q".into()).await));
    assert!(not_found(&store.clear_queue(&id).await));
    assert!(not_found(&store.chunks(&id).await));
    assert!(not_found(&store.blobs(&id).await));
    assert!(not_found(&store.watch(&id).await));
}

/// Sessions are listed by their last change, newest first; among equals the newer session is first.
pub async fn the_last_changed_session_comes_first(store: SharedStore) {
    // Two sessions share a time, as sessions do that one import makes.
    for (id, at) in [("a", NOW), ("b", NOW + 2), ("c", NOW + 1), ("d", NOW + 1)] {
        store.create(new_session(id, at)).await.unwrap();
    }
    assert_eq!(listed(&store, 10).await, ["b", "d", "c", "a"]);
    let lease = store.claim(&"a".into(), "owner").await.unwrap();
    assert_eq!(listed(&store, 10).await, ["b", "d", "c", "a"], "a claim changes no log");
    let later = LogAppend { at: NOW + 3, events: vec![note("x")], ..LogAppend::default() };
    store.append(&lease, later).await.unwrap();
    assert_eq!(listed(&store, 2).await, ["a", "b"]);
    // Some databases read a limit of 0 as no limit.
    assert_eq!(listed(&store, 0).await, [""; 0]);
}

async fn listed(store: &SharedStore, limit: usize) -> Vec<String> {
    let sessions = store.sessions(limit).await.unwrap();
    sessions.into_iter().map(|session| session.id.as_str().to_owned()).collect()
}

/// Title, `running`, position, time and queue length of the record follow the log and the queue.
pub async fn the_record_follows_the_log(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    let begun = EventBody::RunStarted { run_id: "r".into() };
    let steps: [(EventBody, Option<&str>, bool); 5] = [
        (begun.clone(), None, true),
        (titled("one \"quoted\" 🦀"), Some("one \"quoted\" 🦀"), true),
        (run_finished(), Some("one \"quoted\" 🦀"), false),
        (note("n"), Some("one \"quoted\" 🦀"), false),
        (titled(""), Some(""), false),
    ];
    for (seq, (event, title, running)) in (2..).zip(steps) {
        let at = NOW + seq;
        setup
            .store
            .append(&lease, LogAppend { at, events: vec![event], ..LogAppend::default() })
            .await
            .unwrap();
        let record = setup.store.session(&setup.id).await.unwrap();
        assert_eq!((record.last_seq, record.updated_at), (seq, at));
        assert_eq!((record.title.as_deref(), record.running), (title, running));
    }
    // Of several changes in one append the last one holds.
    setup.store.append(&lease, append(vec![run_finished(), begun])).await.unwrap();
    setup.enqueue("q", None).await.unwrap();
    let record = setup.store.session(&setup.id).await.unwrap();
    assert_eq!((record.running, record.queued), (true, 1));
    assert_eq!(setup.store.sessions(1).await.unwrap(), [record]);
}

/// The record shows a parked session until the next message or run.
pub async fn the_record_says_what_is_parked(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    let parked = EventBody::Parked { reason: "again and again".to_owned() };
    let taken = EventBody::message_taken(Message::user("m", vec![Part::text("go on")]));
    let begun = EventBody::RunStarted { run_id: "r".into() };
    for (events, is_parked) in [
        (vec![run_finished(), parked.clone()], true),
        (vec![titled("still")], true),
        (vec![taken], false),
        (vec![parked.clone(), begun.clone()], false),
        (vec![begun, run_finished(), parked.clone()], true),
    ] {
        setup.store.append(&lease, append(events)).await.unwrap();
        assert_eq!(setup.store.session(&setup.id).await.unwrap().parked, is_parked);
    }
    assert!(setup.store.sessions(1).await.unwrap()[0].parked);
    // A fork is created with all its events at once, and its record follows from them.
    let events = vec![(NOW, started()), (NOW, parked)];
    let copied = NewSession { id: "copy".into(), title: None, at: NOW, events };
    assert!(setup.store.create(copied).await.unwrap().parked);
    assert!(setup.store.session(&"copy".into()).await.unwrap().parked);
}

/// A deleted session is gone with log, queue and chunks; the id is free again, and so are the others.
pub async fn a_deleted_session_is_gone(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let store = &setup.store;
    store.create(new_session("other", NOW)).await.unwrap();
    let lease = setup.claim().await;
    store.append(&lease, append(vec![note("x")])).await.unwrap();
    let chunk = crate::AnswerChunk { step: "step".into(), index: 0, body: "x".into() };
    store.put_chunk(&lease, chunk).await.unwrap();
    setup.enqueue("q", Some("key")).await.unwrap();
    // A leased session is not deleted.
    store.release(&lease).await.unwrap();
    store.delete(&setup.id).await.unwrap();
    assert!(not_found(&store.session(&setup.id).await));
    assert!(not_found(&store.read(&setup.id, 0, 1).await));
    // The new session has the old name. Rows that the deletion left behind would show up in it.
    store.create(new_session("s", NOW)).await.unwrap();
    assert_eq!(setup.log().await, [started()]);
    assert_eq!(store.queue(&setup.id).await.unwrap(), []);
    assert_eq!(store.chunks(&setup.id).await.unwrap(), []);
    assert_eq!(setup.enqueue("q", Some("key")).await, super::accepted("q", 1, false));
    assert_eq!(store.session(&"other".into()).await.unwrap().last_seq, 1);
}

/// A session in use is not deleted.
pub async fn a_leased_session_is_not_deleted(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    assert_eq!(setup.store.delete(&setup.id).await, Err(StoreError::Busy(setup.id.clone())));
    // The refused deletion has not ended the lease either.
    setup.store.append(&lease, append(vec![note("still here")])).await.unwrap();
    setup.store.release(&lease).await.unwrap();
    setup.store.delete(&setup.id).await.unwrap();
}

/// After closing, every call fails with `Closed`; closing again is harmless.
pub async fn a_closed_store_refuses(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    let store = &setup.store;
    // A signal handler and the normal end may both close the store.
    store.close().await;
    store.close().await;
    assert_eq!(store.create(new_session("t", NOW)).await, Err(StoreError::Closed));
    assert_eq!(store.session(&setup.id).await, Err(StoreError::Closed));
    assert_eq!(store.sessions(1).await, Err(StoreError::Closed));
    assert_eq!(store.append(&lease, append(vec![note("x")])).await, Err(StoreError::Closed));
    assert_eq!(store.read(&setup.id, 0, 1).await, Err(StoreError::Closed));
    assert_eq!(setup.enqueue("q", None).await, Err(StoreError::Closed));
    assert_eq!(store.watch(&setup.id).await.map(|_| ()), Err(StoreError::Closed));
}

/// Sessions are counted: all, the parked ones, and the waiting messages in any of them.
pub async fn sessions_are_counted(store: SharedStore) {
    assert_eq!(store.session_counts().await.unwrap(), SessionCounts::default());
    let setup = ConformanceSetup::new(store).await;
    for id in ["a", "b"] {
        setup.store.create(new_session(id, NOW)).await.unwrap();
    }
    let lease = setup.claim().await;
    let parked = EventBody::Parked { reason: "r".into() };
    setup.store.append(&lease, append(vec![parked])).await.unwrap();
    for queued in ["q1", "q2", "q3"] {
        setup.enqueue(queued, None).await.unwrap();
    }
    setup.store.enqueue(&"a".into(), message("q4", None, 9)).await.unwrap();
    setup.store.remove_queued(&setup.id, &"q2".into()).await.unwrap();
    let counts = SessionCounts { sessions: 3, parked: 1, queued: 3 };
    assert_eq!(setup.store.session_counts().await.unwrap(), counts);
}
