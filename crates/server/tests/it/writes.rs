//! How many bytes go to the disk for what is said. A measurement, run by hand:
//! `cargo test -p longhaul-server --test it -- --ignored --nocapture writes`

use std::path::Path;
use std::time::Duration;

use longhaul_providers::scripted::{ModelScript, ScriptedAnswer};

use crate::test_server::TestServer;

const STREAMS: usize = 50;
const WORDS: usize = 500;

/// What the log of writes has grown by.
#[derive(Debug)]
#[expect(dead_code, reason = "they are printed")]
struct Frames {
    bytes: usize,
    pages: usize,
    commits: usize,
}

/// The frames of the log from byte `from` on.
fn frames(log: &[u8], from: usize) -> Frames {
    // SQLite's format: a header of 32 bytes with the page size at byte 8; then frames, each with a header of 24
    // bytes, whose bytes 4 to 7 are not zero in the last frame of a commit.
    let page = u32::from_be_bytes(log[8..12].try_into().unwrap()) as usize;
    let new = log[from.max(32)..].chunks_exact(page + 24);
    let commits = new.clone().filter(|frame| frame[4..8] != [0; 4]).count();
    Frames { bytes: log.len() - from, pages: new.len(), commits }
}

/// Bytes that this process has sent to disks, as the kernel counts them: in pages of 4 KiB, the database's file among
/// them.
fn written_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap().parse().unwrap()
}

async fn event_bytes(world: &TestServer, session: &str) -> usize {
    let log = world.app.runtime().log(&session.into()).await.unwrap();
    log.iter().map(|event| longhaul_core::event::Event::encode_body(&event.body).unwrap().len()).sum()
}

fn log_of(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("longhaul.db-wal")).unwrap()
}

#[tokio::test]
#[ignore = "a measurement, not a test: it prints figures"]
async fn a_short_message_and_many_streams() {
    let folder = tempfile::tempdir().unwrap();
    let script = ModelScript::always("Hello there.");
    let world = TestServer::over(folder.path(), script, |_| {}).await;
    let session = world.session().await;
    for _ in 0..3 {
        let (events, from, before) =
            (event_bytes(&world, &session).await, log_of(folder.path()).len(), written_bytes());
        world.say(&session, "hi").await;
        world.until(&session, "idle").await;
        let events = event_bytes(&world, &session).await - events;
        let (frames, written) = (frames(&log_of(folder.path()), from), written_bytes() - before);
        println!(
            "hi: {events} B of events; {frames:?}, {:.1} times; the kernel counts {written} B, {:.1} times",
            frames.bytes as f64 / events as f64,
            written as f64 / events as f64
        );
    }
    world.end().await;

    let folder = tempfile::tempdir().unwrap();
    let answer = ScriptedAnswer::text("word ".repeat(WORDS)).pace(Duration::from_millis(20));
    let world = TestServer::over(folder.path(), ModelScript::always(answer), |_| {}).await;
    let mut sessions = Vec::new();
    for _ in 0..STREAMS {
        sessions.push(world.session().await);
    }
    let before = written_bytes();
    for session in &sessions {
        world.say(session, "talk").await;
    }
    for session in &sessions {
        world.until(session, "idle").await;
    }
    let written = written_bytes() - before;
    let mut events = 0;
    for session in &sessions {
        events += event_bytes(&world, session).await;
    }
    println!(
        "{STREAMS} streams: {events} B of events; the kernel counts {written} B, {:.1} times",
        written as f64 / events as f64
    );
    world.end().await;
}
