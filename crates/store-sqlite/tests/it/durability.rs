//! What was acknowledged is still there: after a restart, a crash, a torn file.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use longhaul_core::ids::Seq;
use longhaul_core::message::Part;
use longhaul_store::{AnswerChunk, LogAppend, NewQueuedMessage, Store, StoreError};

use crate::{append, assert_sound, begin, database, last_seq, note, open};

#[tokio::test]
async fn a_store_that_was_only_dropped_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let lease = begin(&store, "s").await;
    append(&store, &lease, 10).await.unwrap();
    drop(store);
    let store = open(folder.path()).await;
    assert_eq!(last_seq(&store, "s").await, 2);
    store.close().await;
}

#[tokio::test]
async fn a_closed_database_is_whole_beside_a_reader_that_is_still_open() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let lease = begin(&store, "s").await;
    let mut reader = database(folder.path()).await;
    let sessions: i64 =
        sqlx::query_scalar("SELECT count(*) FROM session").fetch_one(&mut reader).await.unwrap();
    assert_eq!(sessions, 1);
    append(&store, &lease, 100).await.unwrap();
    store.close().await;
    let file = std::fs::read(folder.path().join("longhaul.db")).unwrap();
    assert!(file.windows(100).any(|window| window == [b'x'; 100]));
}

#[tokio::test]
async fn whoever_closes_a_store_waits_until_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let lease = begin(&store, "s").await;
    append(&store, &lease, 100).await.unwrap();
    let wal = folder.path().join("longhaul.db-wal");
    assert!(wal.exists());
    let close = async || {
        store.close().await;
        assert!(!wal.exists(), "it is not closed yet");
    };
    tokio::join!(close(), close(), close());
}

#[tokio::test]
async fn everything_is_kept_over_a_restart_but_leases() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let lease = begin(&store, "s").await;
    append(&store, &lease, 10).await.unwrap();
    let chunk = AnswerChunk { step: "a".into(), index: 0, body: "partial".into() };
    store.put_chunk(&lease, chunk.clone()).await.unwrap();
    store.enqueue(&"s".into(), queued("q", "k")).await.unwrap();
    let before = (store.session(&"s".into()).await, store.queue(&"s".into()).await);
    let log = store.read(&"s".into(), 0, 10).await.unwrap();
    store.close().await;

    let store = open(folder.path()).await;
    assert_eq!((store.session(&"s".into()).await, store.queue(&"s".into()).await), before);
    assert_eq!(store.read(&"s".into(), 0, 10).await.unwrap(), log);
    assert_eq!(store.chunks(&"s".into()).await.unwrap(), [chunk]);
    assert!(store.enqueue(&"s".into(), queued("other", "k")).await.unwrap().repeated);
    assert_eq!(append(&store, &lease, 1).await, Err(StoreError::Fenced("s".into())));
    let next = store.claim(&"s".into(), "test").await.unwrap();
    assert!(next.epoch > lease.epoch);
    assert_eq!(append(&store, &next, 1).await, Ok(3));
    store.close().await;
}

fn queued(id: &str, key: &str) -> NewQueuedMessage {
    let parts = vec![Part::text("waits")];
    NewQueuedMessage { client_key: Some(key.into()), ..NewQueuedMessage::new(id, 3, parts, 10) }
}

/// The files as a crash would leave them: copied while the store is open and everything is acknowledged.
fn crash_copy(from: &Path, to: &Path) {
    for file in ["longhaul.db", "longhaul.db-wal"] {
        // Without `-shm`: a restart after a power cut has none, and SQLite makes it again from the WAL.
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

#[tokio::test]
async fn a_copy_taken_without_closing_has_every_acknowledged_event() {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(folder.path()).await;
    let lease = begin(&store, "s").await;
    // Enough to move the WAL into the file more than once.
    for _ in 0..300 {
        append(&store, &lease, 60_000).await.unwrap();
    }
    crash_copy(folder.path(), copy.path());
    let again = open(copy.path()).await;
    assert_eq!(last_seq(&again, "s").await, 301);
    again.close().await;
    assert_sound(copy.path()).await;
    store.close().await;
}

#[tokio::test]
async fn a_torn_wal_loses_only_its_end_and_leaves_no_gap() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let lease = begin(&store, "s").await;
    for _ in 0..20 {
        let three =
            LogAppend { at: 2, events: vec![note("x"), note("y"), note("z")], ..LogAppend::default() };
        store.append(&lease, three).await.unwrap();
    }
    let mut newest = Seq::MAX;
    // Cuts amid a page, at the end of a frame (1,048 bytes), and through several frames.
    for torn_bytes in [0, 1, 24, 1048, 4096, 8216, 30_000] {
        let copy = tempfile::tempdir().unwrap();
        crash_copy(folder.path(), copy.path());
        tear(&copy.path().join("longhaul.db-wal"), torn_bytes);
        let last = continues_without_gap(copy.path()).await;
        assert_eq!((last - 1) % 3, 0, "whole appends only, {torn_bytes} bytes torn");
        assert!(last <= newest && last <= 61);
        newest = last;
    }
    assert!(newest < 61, "the largest tear reached committed events");
    store.close().await;
}

fn tear(wal: &Path, bytes: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(wal).unwrap();
    file.set_len(file.metadata().unwrap().len() - bytes).unwrap();
}

/// The last position found, after one more event was appended behind it.
async fn continues_without_gap(folder: &Path) -> Seq {
    let store = open(folder).await;
    let last = last_seq(&store, "s").await;
    let lease = store.claim(&"s".into(), "test").await.unwrap();
    assert_eq!(append(&store, &lease, 1).await, Ok(last + 1));
    assert_eq!(last_seq(&store, "s").await, last + 1);
    store.close().await;
    assert_sound(folder).await;
    last
}

/// Names the folder in which a copy of this test program writes until it is killed.
const CHILD: &str = "LONGHAUL_TEST_WRITE_UNTIL_KILLED";
const SESSIONS: [&str; 4] = ["a", "b", "c", "d"];

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_kill_9() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return write_until_killed(Path::new(&folder)).await;
    }
    for lines in [1, 40, 300] {
        let folder = tempfile::tempdir().unwrap();
        let acknowledged = kill_after(folder.path(), lines);
        let store = open(folder.path()).await;
        for (id, acknowledged) in SESSIONS.iter().zip(acknowledged) {
            if acknowledged > 0 {
                assert!(last_seq(&store, id).await >= acknowledged, "{id} after {lines} lines");
            }
        }
        store.close().await;
        assert_sound(folder.path()).await;
    }
}

async fn write_until_killed(folder: &Path) {
    let store = Arc::new(open(folder).await);
    let writers = SESSIONS.map(|id| tokio::spawn(write_session(Arc::clone(&store), id)));
    for writer in writers {
        writer.await.unwrap();
    }
}

#[expect(clippy::print_stdout, reason = "the killing process reads it")]
async fn write_session(store: Arc<longhaul_store_sqlite::SqliteStore>, id: &'static str) {
    let lease = begin(&store, id).await;
    loop {
        let seq = append(&store, &lease, 3000).await.unwrap();
        println!("acknowledged {id} {seq}");
    }
}

/// Runs a writing process, kills it after it has acknowledged `lines` events, and says which were.
fn kill_after(folder: &Path, lines: usize) -> [Seq; SESSIONS.len()] {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "durability::what_was_acknowledged_survives_kill_9", "--nocapture"])
        .env(CHILD, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = [0; SESSIONS.len()];
    let mut seen = 0;
    // Killing closes the pipe: what was printed before is still read, to the last line.
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let Some((id, seq)) = parse(&line) else { continue };
        acknowledged[id] = seq;
        seen += 1;
        if seen == lines {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(seen >= lines, "the writing process ended by itself");
    acknowledged
}

/// Which session and position a line acknowledges. The last line may be cut.
fn parse(line: &str) -> Option<(usize, Seq)> {
    let (_, rest) = line.split_once("acknowledged ")?;
    let (id, seq) = rest.split_once(' ')?;
    Some((SESSIONS.iter().position(|session| *session == id)?, seq.parse().ok()?))
}
