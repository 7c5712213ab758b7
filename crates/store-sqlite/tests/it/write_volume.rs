//! What is written for an event is a small multiple of it. `just writes` measures whole messages.

use std::path::Path;

use longhaul_core::event::{EventBody, RunEnd};
use longhaul_core::message::Part;
use longhaul_store::{AnswerChunk, LogAppend, NewQueuedMessage, Store};
use tokio::task::JoinSet;

use crate::{begin, note, open};

/// Bytes that are written at most for each byte of an event.
const MAX_RATIO: u64 = 15;

fn wal_bytes(folder: &Path) -> u64 {
    std::fs::metadata(folder.join("longhaul.db-wal")).unwrap().len()
}

fn encoded_bytes(events: &[EventBody]) -> u64 {
    events.iter().map(|event| serde_json::to_string(event).unwrap().len() as u64).sum()
}

#[tokio::test]
async fn a_short_message_writes_a_small_multiple_of_its_events() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let lease = begin(&store, "s").await;
    // What a run appends for "hi": its start with the message, the call, the answer with the end.
    let call = vec![note(&"c".repeat(250))];
    let start = vec![EventBody::RunStarted { run_id: "r1".into() }, note(&"m".repeat(150))];
    let end = EventBody::RunFinished { run_id: "r1".into(), reason: RunEnd::Stop, error: None };
    let answer = vec![note(&"a".repeat(250)), end];
    let event_bytes = [&start, &call, &answer].map(|events| encoded_bytes(events)).iter().sum::<u64>();
    assert!((800..1_200).contains(&event_bytes), "{event_bytes}");

    let before = wal_bytes(folder.path());
    let messages = 50;
    for number in 0..messages {
        let id = format!("0190b2f4-0000-7000-8000-{number:012}");
        let new = NewQueuedMessage::new(id.as_str(), 2, vec![Part::text("hi")], 9);
        store.enqueue(&"s".into(), new).await.unwrap();
        let takes = vec![id.into()];
        store
            .append(&lease, LogAppend { at: 3, events: start.clone(), takes, settles: vec![] })
            .await
            .unwrap();
        store
            .append(&lease, LogAppend { at: 4, events: call.clone(), ..LogAppend::default() })
            .await
            .unwrap();
        let settles = vec![format!("s{number}")];
        store
            .append(&lease, LogAppend { at: 5, events: answer.clone(), takes: vec![], settles })
            .await
            .unwrap();
    }
    let written = (wal_bytes(folder.path()) - before) / messages;
    assert!(written <= MAX_RATIO * event_bytes, "{written} B for {event_bytes} B of events");
    store.close().await;
}

#[tokio::test]
async fn slow_streams_write_a_small_multiple_of_their_text() {
    const STREAMS: usize = 100;
    const PIECES: u64 = 20;
    let piece = "stream ".repeat(5);
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let mut leases = Vec::new();
    for number in 0..STREAMS {
        leases.push(begin(&store, &format!("s{number}")).await);
    }
    let store = std::sync::Arc::new(store);
    let before = wal_bytes(folder.path());
    for index in 0..PIECES {
        let puts: JoinSet<_> = leases
            .iter()
            .map(|lease| {
                let (store, lease, body) = (std::sync::Arc::clone(&store), lease.clone(), piece.clone());
                async move { store.put_chunk(&lease, AnswerChunk { step: "s4".into(), index, body }).await }
            })
            .collect();
        assert!(puts.join_all().await.into_iter().all(|put| put.is_ok()));
    }
    let written = wal_bytes(folder.path()) - before;
    let text = STREAMS as u64 * PIECES * piece.len() as u64;
    assert!(written <= MAX_RATIO * text, "{written} B for {text} B of text");
    store.close().await;
}

/// Pieces of settled steps stay in the table for a while; no reader sees them, and they do not gather.
#[tokio::test]
async fn pieces_of_settled_steps_are_hidden_at_once_and_deleted_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = Vec::new();
    for round in 0..3 {
        let store = open(folder.path()).await;
        if round == 0 {
            begin(&store, "s").await;
        }
        let lease = store.claim(&"s".into(), "test").await.unwrap();
        for answer in 0..20 {
            let step = format!("{round}.{answer}");
            for index in 0..20 {
                let chunk = AnswerChunk { step: step.clone(), index, body: "text".into() };
                store.put_chunk(&lease, chunk).await.unwrap();
            }
            let settles = vec![step];
            let append = LogAppend { at: 3, events: vec![note("done")], takes: vec![], settles };
            store.append(&lease, append).await.unwrap();
            assert_eq!(store.chunks(&"s".into()).await.unwrap(), []);
        }
        store.close().await;
        let mut db = crate::database(folder.path()).await;
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM chunk").fetch_one(&mut db).await.unwrap();
        rows.push(count);
    }
    assert!(rows.iter().all(|count| *count <= 256 + 21), "of 420 rows a round: {rows:?}");
}
