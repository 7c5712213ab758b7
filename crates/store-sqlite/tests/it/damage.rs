//! Damage is noticed and named, and the rest is still there.

use std::path::Path;

use longhaul_core::ids::{Seq, SessionId};
use longhaul_store::transfer::SessionTransfer;
use longhaul_store::{LogAppend, Store, StoreError};
use longhaul_store_sqlite::SqliteStore;

use crate::{append, begin, last_seq, note, open};

const MARKER: &str = "longhaul.db.made";

/// A closed store with two sessions: events 2 to 7 of each say `damage me N`.
async fn written(folder: &Path) {
    let store = open(folder).await;
    for id in ["s", "other"] {
        let lease = begin(&store, id).await;
        let events = (2..=7).map(|seq| note(&format!("{id}: damage me {seq}."))).collect();
        store.append(&lease, LogAppend { at: 2, events, ..LogAppend::default() }).await.unwrap();
    }
    store.close().await;
}

/// Changes one byte of what the database has of `text`, at `at` in it. Pages that were split still have old copies: they
/// are changed too.
fn change(folder: &Path, text: &str, at: usize, change: impl Fn(u8) -> u8) {
    let file = folder.join("longhaul.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let is_there = |place: &usize| bytes[*place..].starts_with(text.as_bytes());
    let places: Vec<usize> = (0..bytes.len()).filter(is_there).collect();
    assert!(!places.is_empty(), "the database has no {text}");
    for place in places {
        bytes[place + at] = change(bytes[place + at]);
    }
    std::fs::write(&file, bytes).unwrap();
}

fn seqs(found: &[longhaul_core::event::Event]) -> Vec<Seq> {
    found.iter().map(|event| event.seq).collect()
}

#[tokio::test]
async fn an_event_with_a_flipped_bit_is_named_and_the_rest_is_read() {
    // Another letter; no letter; the byte between events of a row; no character; a shorter text.
    let changes: [fn(u8) -> u8; 5] =
        [|byte| byte ^ 1, |byte| byte ^ 0x40, |_| 0x1e, |byte| byte ^ 0x80, |_| 0];
    for change_byte in changes {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path()).await;
        change(folder.path(), "s: damage me 4.", 5, change_byte);
        change(folder.path(), "s: damage me 6.", 5, change_byte);
        let store = open(folder.path()).await;
        let id = SessionId::from("s");
        for answer in [store.read(&id, 0, 10).await, store.tail(&id, 4).await, store.read(&id, 3, 1).await] {
            assert!(matches!(answer, Err(StoreError::Damaged { seq: 4, .. })), "{answer:?}");
        }
        let said = store.read(&id, 0, 10).await.unwrap_err().to_string();
        assert!(said.contains("event 4 of session s is damaged"), "{said}");
        for (after, limit, read, damaged) in [
            (0, usize::MAX, vec![1, 2, 3, 5, 7], vec![4, 6]),
            (3, 1, vec![], vec![4]),
            (4, 2, vec![5], vec![6]),
            (6, 9, vec![7], vec![]),
        ] {
            let found = store.read_undamaged(&id, after, limit).await.unwrap();
            assert_eq!((seqs(&found.events), found.damaged), (read, damaged), "after {after}, limit {limit}");
        }
        assert_eq!(last_seq(&store, "other").await, 7);
        assert_eq!(store.sessions(9).await.unwrap().len(), 2);
        assert!(
            matches!(store.export(&id).await, Err(StoreError::Damaged { seq: 4, .. })),
            "no copy vouches for it"
        );
        assert!(store.export(&"other".into()).await.is_ok());
        store.delete(&id).await.unwrap();
        store.close().await;
    }
}

#[tokio::test]
async fn a_flipped_bit_in_the_log_of_writes_is_noticed_and_a_copy_kept() {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(folder.path()).await;
    let lease = begin(&store, "s").await;
    for _ in 0..6 {
        append(&store, &lease, 9_000).await.unwrap();
    }
    // As a process that was killed leaves them.
    for file in ["longhaul.db", "longhaul.db-wal"] {
        std::fs::copy(folder.path().join(file), copy.path().join(file)).unwrap();
    }
    store.close().await;
    let wal = copy.path().join("longhaul.db-wal");
    let mut bytes = std::fs::read(&wal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 2;
    std::fs::write(&wal, &bytes).unwrap();
    let store = open(copy.path()).await;
    assert!(last_seq(&store, "s").await < 7);
    let kept = std::fs::read(copy.path().join("longhaul.db-wal.damaged-1")).unwrap();
    assert!(kept == bytes, "the copy is as it was found");
    store.close().await;
}

#[tokio::test]
async fn a_database_that_is_gone_is_not_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path()).await;
    let database = folder.path().join("longhaul.db");
    let whole = std::fs::read(&database).unwrap();
    for (what, damage) in [
        ("is missing", Box::new(|| std::fs::remove_file(&database)) as Box<dyn Fn() -> std::io::Result<()>>),
        ("is empty", Box::new(|| std::fs::write(&database, ""))),
    ] {
        damage().unwrap();
        for refused in [
            SqliteStore::open(folder.path()).await,
            SqliteStore::open_or_read(folder.path()).await,
            SqliteStore::open_to_read(folder.path()).await,
        ] {
            let Err(StoreError::Storage(why)) = refused else { panic!("{refused:?}") };
            assert!(why.contains(what) && why.contains(MARKER), "{why}");
        }
        std::fs::write(&database, &whole).unwrap();
        let store = open(folder.path()).await;
        assert_eq!(last_seq(&store, "s").await, 7, "it is put back");
        store.close().await;
    }
    std::fs::remove_file(&database).unwrap();
    std::fs::remove_file(folder.path().join(MARKER)).unwrap();
    let store = open(folder.path()).await;
    assert_eq!(store.sessions(9).await.unwrap(), [], "begun anew on purpose");
    store.close().await;
    assert!(folder.path().join(MARKER).exists());
}
