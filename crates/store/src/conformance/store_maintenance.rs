//! Checks of maintenance: expired sessions, and blobs named by events.

use std::sync::Arc;

use longhaul_core::event::EventBody;
use longhaul_core::ids::SessionId;
use longhaul_core::message::{BlobRef, MediaPart, Message, Part};

use super::{NOW, append, new_session, note, started};
use crate::{NewQueuedMessage, NewSession, ReferencedBlobs, Store, StoreMaintenance};

fn image(blob: &BlobRef) -> Part {
    let media_type = "image/png".to_owned();
    Part::Image(MediaPart { blob: blob.clone(), media_type, name: None, width: None, height: None })
}

fn blob(text: &str) -> BlobRef {
    BlobRef { hash: blake3::hash(text.as_bytes()).to_hex().to_string(), bytes: 1 }
}

fn queued(id: &str, parts: Vec<Part>) -> NewQueuedMessage {
    NewQueuedMessage::new(id, NOW, parts, 10)
}

/// The named blobs are exactly the blobs named by logs and waiting messages.
pub async fn blobs_are_named_by_logs_and_by_what_waits<S: Store + StoreMaintenance>(store: Arc<S>) {
    let [said, waiting, other] = ["said", "waiting", "other"].map(blob);
    let message = Message::user("m", vec![image(&said)]);
    let taken = EventBody::message_taken(message);
    let events = vec![(NOW, started()), (NOW, taken)];
    store.create(NewSession { id: "s".into(), title: None, at: NOW, events }).await.unwrap();
    // A picture waits with its message, possibly for days, before an event names it.
    store.enqueue(&"s".into(), queued("q", vec![image(&waiting)])).await.unwrap();
    let named = store.named_blobs().await.unwrap();
    assert_eq!(named, ReferencedBlobs::from_iter([&said.hash, &waiting.hash]));
    assert!(named.has(&said.hash) && !named.has(&other.hash));
    store.clear_queue(&"s".into()).await.unwrap();
    assert_eq!(store.named_blobs().await.unwrap(), ReferencedBlobs::from_iter([&said.hash]));
    store.delete(&"s".into()).await.unwrap();
    assert_eq!(store.named_blobs().await.unwrap(), ReferencedBlobs::default());
}

/// Only old sessions at rest may be deleted. A message in between keeps a session.
pub async fn only_old_sessions_at_rest_may_go<S: Store + StoreMaintenance>(store: Arc<S>) {
    for (id, at) in [("b", NOW - 10), ("a", NOW - 20), ("young", NOW)] {
        store.create(new_session(id, at)).await.unwrap();
    }
    let parked = EventBody::Parked { reason: "r".to_owned() };
    for (id, more) in [("runs", EventBody::RunStarted { run_id: "r".into() }), ("parked", parked)] {
        let events = vec![(NOW - 30, started()), (NOW - 30, more)];
        store.create(NewSession { id: id.into(), title: None, at: NOW - 30, events }).await.unwrap();
    }
    for id in ["waits", "open"] {
        store.create(new_session(id, NOW - 30)).await.unwrap();
    }
    store.enqueue(&"waits".into(), queued("q", vec![Part::text("x")])).await.unwrap();
    let lease = store.claim(&"open".into(), "somebody").await.unwrap();
    assert_eq!(resting(&*store, 10).await, ["a", "b"]);
    assert_eq!(resting(&*store, 1).await, ["a"]);
    // The list may be old by the time of the deletion, so the deletion checks again.
    for id in ["young", "runs", "parked", "waits", "open", "unknown"] {
        assert!(!store.delete_at_rest(&id.into(), NOW).await.unwrap(), "{id}");
    }
    // It is old again only after its time.
    let a = SessionId::from("a");
    let claimed = store.claim(&a, "somebody").await.unwrap();
    store.append(&claimed, crate::LogAppend { at: NOW, ..append(vec![note("more")]) }).await.unwrap();
    store.release(&claimed).await.unwrap();
    assert!(!store.delete_at_rest(&a, NOW).await.unwrap());
    assert!(store.delete_at_rest(&a, NOW + 1).await.unwrap());
    assert!(store.session(&a).await.is_err());
    assert!(store.delete_at_rest(&"b".into(), NOW).await.unwrap());
    assert_eq!(resting(&*store, 10).await, Vec::<String>::new());
    store.release(&lease).await.unwrap();
    store.clear_queue(&"waits".into()).await.unwrap();
    assert_eq!(resting(&*store, 10).await, ["waits", "open"], "as old as each other: as they were created");
}

async fn resting(store: &dyn StoreMaintenance, limit: usize) -> Vec<String> {
    let ids = store.at_rest_before(NOW, limit).await.unwrap();
    ids.iter().map(|id| id.as_str().to_owned()).collect()
}
