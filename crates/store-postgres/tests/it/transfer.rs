//! Whole sessions between the embedded store and the shared one.

use std::sync::Arc;

use longhaul_core::event::EventBody;
use longhaul_core::message::{BlobRef, MediaPart, Message, Part};
use longhaul_core::metadata::MessageMetadata;
use longhaul_store::prefix_cache::conformance::{edit, key};
use longhaul_store::transfer::{SessionCopy, SessionTransfer, transfer_session};
use longhaul_store::{
    AnswerChunk, Lease, LogAppend, NewIdempotentRequest, NewQueuedMessage, NewSession, PrefixCache,
    PrefixCacheLimits, Store, StoreError,
};
use longhaul_store_postgres::PostgresPrefixCache;
use longhaul_store_sqlite::{SqlitePrefixCache, SqliteStore};
use serde_json::json;

use crate::place::Place;
use crate::{append_of, note, notes, run_started, started};

fn picture(name: &str) -> EventBody {
    let blob = BlobRef { hash: name.repeat(64), bytes: 7 };
    let media = MediaPart { blob, media_type: "image/png".into(), name: None, width: None, height: None };
    note_of(Part::Image(media))
}

fn note_of(part: Part) -> EventBody {
    EventBody::message_taken(Message::user("m", vec![part]))
}

/// A session with everything that a session can have.
async fn fill(store: &dyn Store, id: &str) -> Lease {
    let id = id.into();
    let events = vec![(1, started()), (2, picture("a"))];
    store.create(NewSession { id, title: Some("t\0itle".into()), at: 3, events }).await.unwrap();
    let id = &"s 🦀\0".into();
    let first = store.claim(id, "first").await.unwrap();
    store.append(&first, append_of(vec![run_started(), note("é\0\""), picture("b")])).await.unwrap();
    let lease = store.claim(id, "second").await.unwrap();
    for (name, key) in [("q1", Some("k\0")), ("q2", None), ("q3", Some("k3")), ("q4", None)] {
        let client_key = key.map(str::to_owned);
        let parts = vec![Part::text(format!("text of {name}"))];
        let metadata = key.and_then(|key| MessageMetadata::try_from(json!({ "z": key, "a": 1 })).ok());
        let new = NewQueuedMessage { client_key, metadata, ..NewQueuedMessage::new(name, 4, parts, 9) };
        store.enqueue(id, new).await.unwrap();
    }
    store.remove_queued(id, &"q2".into()).await.unwrap();
    for (step, index) in [("z", 0), ("a", 0), ("z", 1)] {
        let chunk = AnswerChunk { step: step.into(), index, body: "\0piece".into() };
        store.put_chunk(&lease, chunk).await.unwrap();
    }
    let takes = vec!["q1".into()];
    let append = LogAppend {
        at: 77,
        events: (0..1_200).map(|n| note(&n.to_string())).collect(),
        takes,
        settles: vec![],
    };
    store.append(&lease, append).await.unwrap();
    for (key, answer) in [("b", Some("yes\0")), ("A", None), ("é", Some(""))] {
        let request = NewIdempotentRequest { key: key.into(), what: "what".into(), at: 5 };
        store.begin_request(id, request).await.unwrap();
        if let Some(answer) = answer {
            store.answer_request(id, key, Some(answer.into())).await.unwrap();
        }
    }
    lease
}

const ID: &str = "s 🦀\0";

/// What a copy must have, so that equal digests show something.
fn assert_full(copy: &SessionCopy) {
    assert_eq!((copy.events.len(), copy.inbox.len(), copy.requests.len()), (1_205, 4, 3));
    assert_eq!((copy.chunks.len(), copy.blobs.len()), (3, 2));
    assert_eq!(copy.blobs[1].1, 5);
    assert!(copy.events[4].epoch > 0 && copy.events[5].epoch > copy.events[4].epoch);
    assert_eq!(copy.events[1].epoch, 0);
    assert_eq!((copy.events[1].at, copy.events[5].at), (2, 77));
}

#[tokio::test]
async fn a_session_goes_to_postgres_and_back_and_is_the_same() {
    let Some(place) = Place::new().await else { return };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let sqlite = SqliteStore::open(folders[0].path()).await.unwrap();
    let postgres = place.open().await;
    let back = SqliteStore::open(folders[1].path()).await.unwrap();
    let first = fill(&sqlite, ID).await;
    let there = transfer_session(&sqlite, &postgres, &ID.into()).await.unwrap();
    let again = transfer_session(&postgres, &back, &ID.into()).await.unwrap();
    assert_eq!(there, again);
    let copies = [
        sqlite.export(&ID.into()).await.unwrap(),
        postgres.export(&ID.into()).await.unwrap(),
        back.export(&ID.into()).await.unwrap(),
    ];
    assert_full(&copies[0]);
    assert!(copies.iter().all(|copy| *copy == copies[0]));
    for store in [&postgres as &dyn Store, &back] {
        assert_eq!(store.session(&ID.into()).await, sqlite.session(&ID.into()).await);
        assert_eq!(store.read(&ID.into(), 0, 9_999).await, sqlite.read(&ID.into(), 0, 9_999).await);
        assert_eq!(store.blobs(&ID.into()).await, sqlite.blobs(&ID.into()).await);
        // It is nobody's, and goes on where it was.
        let lease = store.claim(&ID.into(), "next").await.unwrap();
        assert!(lease.epoch > first.epoch);
        let takes = vec!["q3".into()];
        let events = store.append(&lease, LogAppend { takes, ..append_of(vec![note("on")]) }).await.unwrap();
        assert_eq!(events[0].seq, 1_206);
        let chunk = AnswerChunk { step: "z".into(), index: 2, body: "on".into() };
        store.put_chunk(&lease, chunk).await.unwrap();
    }
    assert_eq!(notes(&postgres, ID).await.len(), 1_202);
    for store in [&postgres as &dyn SessionTransfer, &back] {
        let taken = store.import(&copies[0]).await;
        assert!(matches!(taken, Err(StoreError::Conflict(_))), "{taken:?}");
    }
    for store in [&sqlite as &dyn Store, &postgres, &back] {
        store.close().await;
    }
}

#[tokio::test]
async fn what_is_not_whole_is_not_stored() {
    let Some(place) = Place::new().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let (sqlite, postgres) = (SqliteStore::open(folder.path()).await.unwrap(), place.open().await);
    fill(&sqlite, ID).await;
    let mut damaged = sqlite.export(&ID.into()).await.unwrap();
    damaged.id = "damaged".into();
    damaged.inbox.push(damaged.inbox[0].clone());
    for store in [&sqlite as &dyn SessionTransfer, &postgres] {
        assert!(matches!(store.import(&damaged).await, Err(StoreError::Storage(_))), "two of one id");
        assert!(
            matches!(store.export(&"damaged".into()).await, Err(StoreError::NotFound(_))),
            "nothing of it"
        );
    }
    damaged.events.remove(3);
    for store in [&sqlite as &dyn SessionTransfer, &postgres] {
        let gap = StoreError::Corrupt("session damaged: event 4 is missing".into());
        assert_eq!(store.import(&damaged).await, Err(gap));
    }
    sqlite.close().await;
    postgres.close().await;
}

#[tokio::test]
async fn sessions_and_memos_keep_their_order() {
    let Some(place) = Place::new().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let sqlite = Arc::new(SqliteStore::open(folder.path()).await.unwrap());
    let postgres = Arc::new(place.open().await);
    for id in ["c", "a", "b"] {
        let new = NewSession { id: id.into(), title: None, at: 1, events: vec![(1, started())] };
        sqlite.create(new).await.unwrap();
    }
    for id in sqlite.created().await.unwrap() {
        transfer_session(&*sqlite, &*postgres, &id).await.unwrap();
    }
    assert_eq!(postgres.sessions(9).await, sqlite.sessions(9).await);
    assert_eq!(postgres.created().await.unwrap(), ["c".into(), "a".into(), "b".into()]);
    let remembered = SqlitePrefixCache::new(Arc::clone(&sqlite), PrefixCacheLimits::default());
    for number in [2, 1, 3] {
        remembered.put(key(number), &[edit("x")]).await.unwrap();
    }
    let entries = sqlite.export_memo().await.unwrap();
    postgres.import_memo(&entries).await.unwrap();
    assert_eq!(postgres.export_memo().await.unwrap(), entries);
    sqlite.import_memo(&entries).await.unwrap();
    assert_eq!(sqlite.export_memo().await.unwrap(), entries);
    let limits = PrefixCacheLimits { entries: 2, ..PrefixCacheLimits::default() };
    let memo = PostgresPrefixCache::new(Arc::clone(&postgres), limits);
    memo.put(key(9), &[]).await.unwrap();
    assert!(memo.find(&[key(3)]).await.unwrap().is_some());
    assert!(memo.find(&[key(1), key(2)]).await.unwrap().is_none());
    sqlite.close().await;
    postgres.close().await;
}
