//! The PostgreSQL store as its users meet it.
//!
//! Needs a server: the one that `LONGHAUL_TEST_POSTGRES` names, or `postgres://postgres@127.0.0.1:5432/test`. Tests that
//! break things start a server of their own. Where there is none, a test says so and passes, unless
//! `LONGHAUL_REQUIRE_POSTGRES` is set.
#![allow(clippy::unwrap_used, reason = "these are tests: a failure is their purpose")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

mod cancelled;
mod cluster;
mod faults;
mod memo;
mod model;
mod news;
mod nodes;
mod opening;
mod order;
mod place;
mod proxy;
mod transfer;
mod upgrade;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::event::{EventBody, NoteReason};
use longhaul_core::ids::{Seq, SessionId};
use longhaul_core::message::{Message, Part};
use longhaul_store::{
    Lease, LogAppend, MemoryStore, NewQueuedMessage, NewSession, SharedStore, Store, StoreError,
};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};

use place::Place;

/// Longer than anything here takes; so that what does not come fails the test instead of hanging it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store in a schema of its own. Without a server, one in memory: the test has said that it shows nothing.
async fn store() -> (SharedStore, Option<Place>) {
    match Place::new().await {
        Some(place) => (Arc::new(place.open().await), Some(place)),
        None => (Arc::new(MemoryStore::new()), None),
    }
}

longhaul_store::conformance!(store);

/// A node whose lease is short, so that tests need not wait, and so long that a machine with other things to do renews it
/// in time.
fn quick() -> PostgresOptions {
    PostgresOptions {
        connections: 4,
        ttl: Duration::from_millis(3_500),
        renew_every: Duration::from_millis(500),
        fence_after: Duration::from_millis(2_500),
        poll_every: Duration::from_millis(200),
        ..PostgresOptions::default()
    }
}

fn started() -> EventBody {
    EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None }
}

fn note(text: &str) -> EventBody {
    EventBody::NoteAdded { message: Message::user("m", vec![Part::text(text)]), why: NoteReason::Imported }
}

fn run_started() -> EventBody {
    EventBody::RunStarted { run_id: "r".into() }
}

async fn create(store: &PostgresStore, id: &str) {
    let session = NewSession { id: id.into(), title: None, at: 1, events: vec![(1, started())] };
    store.create(session).await.unwrap();
}

/// A session with one event, claimed.
async fn begin(store: &PostgresStore, id: &str) -> Lease {
    create(store, id).await;
    store.claim(&id.into(), "test").await.unwrap()
}

fn append_of(events: Vec<EventBody>) -> LogAppend {
    LogAppend { at: 2, events, ..LogAppend::default() }
}

/// Appends one note and gives its position.
async fn append(store: &PostgresStore, lease: &Lease, text: &str) -> Result<Seq, StoreError> {
    Ok(store.append(lease, append_of(vec![note(text)])).await?[0].seq)
}

async fn enqueue(store: &PostgresStore, session: &str, id: &str) -> Result<(), StoreError> {
    let parts = vec![Part::text(id)];
    let message =
        NewQueuedMessage { client_key: Some(id.into()), ..NewQueuedMessage::new(id, 1, parts, 10_000) };
    store.enqueue(&session.into(), message).await.map(|_| ())
}

/// The texts of the notes in a log, read in full: a gap would be an error.
async fn notes(store: &PostgresStore, id: &str) -> Vec<String> {
    let id = SessionId::from(id);
    let events = store.read(&id, 0, usize::MAX).await.unwrap();
    assert_eq!(store.session(&id).await.unwrap().last_seq, events.len() as Seq);
    assert!((1..).zip(&events).all(|(seq, event)| event.seq == seq));
    let notes = events.into_iter().filter_map(|event| match event.body {
        EventBody::NoteAdded { message, .. } => message.parts.into_iter().next(),
        _ => None,
    });
    notes.filter_map(|part| if let Part::Text(text) = part { Some(text.text) } else { None }).collect()
}

/// Waits until `holds` does.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "{what} did not happen");
}

fn fenced<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Fenced(_)))
}

fn elsewhere<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Elsewhere { .. }))
}
