//! Counts the bytes that the embedded store writes for the events that it keeps: for short messages, and for many
//! slow streams at a time. `just writes` runs it.
//!
//! Two counters of Linux tell: what the process handed to `write` (`wchar`), and what the system wrote to the disk for
//! it in blocks of 4 KiB (`write_bytes`, 0 in a folder that lives in memory). The first argument is the folder to
//! write in. A checkpoint copies the write-ahead log into the database, so messages are counted by the hundred.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul::core::event::Event;
use longhaul::core::ids::SessionId;
use longhaul::prelude::*;
use longhaul::session::{Runtime, Session};
use longhaul::testing;
use longhaul_providers::SharedProvider;
use longhaul_store::{BlobStore, SharedStore};
use longhaul_store_sqlite::SqliteStore;

/// Short messages that are counted together.
const MESSAGES: usize = 100;
/// Messages of the session that is called long.
const LONG_SESSION: usize = 1_000;
const STREAMS: usize = 200;
/// One word of seven bytes each 20 ms: 350 B/s for each stream, 70 kB/s for all.
const WORD: &str = "stream ";
const WORD_EVERY: Duration = Duration::from_millis(20);
const WORDS: usize = 400;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Bytes that this process has written so far.
#[derive(Clone, Copy)]
struct WriteCounters {
    handed_over_bytes: u64,
    disk_bytes: u64,
}

impl WriteCounters {
    fn now() -> Outcome<Self> {
        let io = std::fs::read_to_string("/proc/self/io")?;
        let count = |name: &str| -> Outcome<u64> {
            let line = io.lines().find_map(|line| line.strip_prefix(name));
            Ok(line.ok_or("the system does not count writes")?.trim().parse()?)
        };
        Ok(Self { handed_over_bytes: count("wchar:")?, disk_bytes: count("write_bytes:")? })
    }

    fn print_since(before: Self, what: &str, count: usize, event_bytes: u64) -> Outcome<()> {
        let now = Self::now()?;
        let (handed_over, disk) =
            (now.handed_over_bytes - before.handed_over_bytes, now.disk_bytes - before.disk_bytes);
        let (count, events) = (count as f64, event_bytes as f64);
        println!(
            "{what:<34} events {:>8.0} B, written {:>8.0} B ({:>5.1}x), disk {:>8.0} B ({:>5.1}x)",
            events / count,
            handed_over as f64 / count,
            handed_over as f64 / events,
            disk as f64 / count,
            disk as f64 / events,
        );
        Ok(())
    }
}

struct World {
    runtime: Runtime,
    store: SharedStore,
    _folder: testing::TemporaryFolder,
}

impl World {
    async fn open(data: &std::path::Path, script: ModelScript) -> Outcome<Self> {
        let folder = testing::TemporaryFolder::new()?;
        let provider: SharedProvider = Arc::new(ScriptedProvider::new(script).window(1_000_000));
        let agent = testing::agent(provider, &folder).await?;
        let store: SharedStore = Arc::new(SqliteStore::open(data).await?);
        let runtime = Runtime::new(agent, Arc::clone(&store), BlobStore::in_memory(1 << 20));
        Ok(Self { runtime, store, _folder: folder })
    }

    /// The bytes of a session's events after `after`, as they are stored.
    async fn event_bytes(&self, id: &SessionId, after: u64) -> Outcome<(u64, u64)> {
        let events = self.store.read(id, after, usize::MAX >> 1).await?;
        let last = events.last().map_or(after, |event| event.seq);
        let bytes = events.iter().map(|event| Event::encode_body(&event.body).map(|text| text.len() as u64));
        Ok((last, bytes.sum::<Result<u64, _>>()?))
    }

    async fn close(self) {
        self.runtime.close().await;
        self.store.close().await;
    }
}

async fn say_hi(world: &World, session: &Session, what: &str) -> Outcome<()> {
    let (seq, _) = world.event_bytes(session.id(), 0).await?;
    let before = WriteCounters::now()?;
    for _ in 0..MESSAGES {
        session.ask("hi").await?;
    }
    let now = world.event_bytes(session.id(), seq).await?;
    WriteCounters::print_since(before, what, MESSAGES, now.1)
}

async fn messages(data: &std::path::Path) -> Outcome<()> {
    let world = World::open(data, ModelScript::always("Hello! What can I do for you?")).await?;
    let session = world.runtime.create(None).await?;
    say_hi(&world, &session, "a message, fresh session").await?;
    for _ in 0..LONG_SESSION {
        session.ask("hi").await?;
    }
    say_hi(&world, &session, "a message, long session").await?;
    world.close().await;
    Ok(())
}

async fn streams(data: &std::path::Path) -> Outcome<()> {
    let script = ModelScript::always(ScriptedAnswer::text(WORD.repeat(WORDS)).pace(WORD_EVERY));
    let world = World::open(data, script).await?;
    let mut sessions = Vec::new();
    for _ in 0..STREAMS {
        sessions.push(world.runtime.create(None).await?);
    }
    let (before, begun) = (WriteCounters::now()?, Instant::now());
    for session in &sessions {
        session.send(vec![Part::text("go on")]).await?;
    }
    for session in &sessions {
        session.settled().await?;
    }
    let took = begun.elapsed();
    let mut bytes = 0;
    for session in &sessions {
        bytes += world.event_bytes(session.id(), 1).await?.1;
    }
    WriteCounters::print_since(before, &format!("{STREAMS} streams, {:.1} s", took.as_secs_f64()), 1, bytes)?;
    world.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let data = parent.join(format!("longhaul-writes-{}", std::process::id()));
    let measured = async {
        messages(&data.join("messages")).await?;
        streams(&data.join("streams")).await
    };
    let outcome = measured.await;
    std::fs::remove_dir_all(&data)?;
    outcome
}
