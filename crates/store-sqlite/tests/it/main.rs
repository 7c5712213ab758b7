//! The SQLite store as its users meet it.
#![allow(clippy::unwrap_used, reason = "these are tests: a failure is their purpose")]

mod damage;
mod durability;
#[cfg(target_os = "linux")]
mod full_disk;
mod memo;
mod model;
mod read_only;
mod refusals;
mod upgrade;
mod upkeep;
mod write_volume;

use std::path::Path;
use std::sync::Arc;

use longhaul_core::event::{EventBody, NoteReason};
use longhaul_core::ids::Seq;
use longhaul_core::message::{Message, Part};
use longhaul_store::{Lease, LogAppend, NewSession, SharedStore, Store, StoreError};
use longhaul_store_sqlite::SqliteStore;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tempfile::TempDir;

async fn store() -> (SharedStore, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    (Arc::new(store), folder)
}

longhaul_store::conformance!(store);

async fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder).await.unwrap()
}

fn note(text: &str) -> EventBody {
    EventBody::NoteAdded { message: Message::user("m", vec![Part::text(text)]), why: NoteReason::Imported }
}

/// A session with one event, claimed.
async fn begin(store: &SqliteStore, id: &str) -> Lease {
    let started =
        EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
    let session = NewSession { id: id.into(), title: None, at: 1, events: vec![(1, started)] };
    store.create(session).await.unwrap();
    store.claim(&id.into(), "test").await.unwrap()
}

/// Appends one note of `bytes` length and gives its position.
async fn append(store: &SqliteStore, lease: &Lease, bytes: usize) -> Result<Seq, StoreError> {
    let append = LogAppend { at: 2, events: vec![note(&"x".repeat(bytes))], ..LogAppend::default() };
    Ok(store.append(lease, append).await?[0].seq)
}

/// The positions of a log, read in full: a gap would be an error.
async fn last_seq(store: &SqliteStore, id: &str) -> Seq {
    let events = store.read(&id.into(), 0, usize::MAX).await.unwrap();
    assert_eq!(store.session(&id.into()).await.unwrap().last_seq, events.len() as Seq);
    events.last().unwrap().seq
}

/// The database behind a closed store, to look at or to damage.
async fn database(folder: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(folder.join("longhaul.db")).connect().await.unwrap()
}

async fn assert_sound(folder: &Path) {
    let mut db = database(folder).await;
    let verdict: String = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut db).await.unwrap();
    assert_eq!(verdict, "ok");
}
