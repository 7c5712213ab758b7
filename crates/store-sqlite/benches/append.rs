//! Durable appends beside what the disk itself can do, and reading a long session.
//!
//! Absolute numbers are the machine's; ratios are of one run, whose rounds take turns. What is asked of the store: a lone
//! append costs less than twice a raw `write` + `fdatasync` (p50); 64 producers share their fsyncs and come to 15,000
//! events per second, each acknowledged within 25 ms (p99).
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot set itself up should stop")]
#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group};
use longhaul_core::event::{EventBody, NoteReason};
use longhaul_core::history::History;
use longhaul_core::message::{Message, Part};
use longhaul_store::{Lease, LogAppend, NewSession, SharedStore};
use longhaul_store_sqlite::SqliteStore;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const PRODUCERS: usize = 64;
const EVENT_BYTES: usize = 300;
const SESSION_MESSAGES: usize = 10_000;
const MESSAGE_BYTES: usize = 2000;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1_000);

/// On the disk of the build, not in a memory file system.
fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn note(bytes: usize) -> EventBody {
    let message = Message::user("m", vec![Part::text("x".repeat(bytes))]);
    EventBody::NoteAdded { message, why: NoteReason::Imported }
}

async fn begin(store: &SharedStore, id: String) -> Lease {
    let started =
        EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
    let new = NewSession { id: id.as_str().into(), title: None, at: 1, events: vec![(1, started)] };
    store.create(new).await.unwrap();
    store.claim(&id.into(), "bench").await.unwrap()
}

async fn open(folder: &TempDir) -> SharedStore {
    Arc::new(SqliteStore::open(folder.path()).await.unwrap())
}

fn raw(criterion: &mut Criterion) {
    let folder = folder();
    let mut file = File::create(folder.path().join("raw")).unwrap();
    let mut group = criterion.benchmark_group("durable");
    group.throughput(Throughput::Elements(1));
    group.bench_function("raw 4 KiB write + fdatasync", |bench| {
        bench.iter(|| write(&mut file));
    });
}

/// Like a WAL that is used again, the file does not grow.
fn write(file: &mut File) {
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(&[7; 4096]).unwrap();
    file.sync_data().unwrap();
}

fn appends(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut group = criterion.benchmark_group("durable");
    group.throughput(Throughput::Elements(1));
    // Few long samples: starting 64 producers is no part of what is measured.
    group.sampling_mode(SamplingMode::Flat).sample_size(20);
    for producers in [1, PRODUCERS] {
        let folder = folder();
        let store = runtime.block_on(open(&folder));
        let leases: Vec<Lease> =
            (0..producers).map(|producer| runtime.block_on(begin(&store, format!("s{producer}")))).collect();
        group.bench_function(format!("append, producers: {producers}"), |bench| {
            bench.iter_custom(|count| runtime.block_on(produce(&store, &leases, count)));
        });
        runtime.block_on(store.close());
    }
}

/// Measures the time until `count` appends are acknowledged.
async fn produce(store: &SharedStore, leases: &[Lease], count: u64) -> Duration {
    let each = count.div_ceil(leases.len() as u64);
    let begun = Instant::now();
    let producers: Vec<_> =
        leases.iter().map(|lease| tokio::spawn(append(Arc::clone(store), lease.clone(), each))).collect();
    for producer in producers {
        producer.await.unwrap();
    }
    let appended = each * leases.len() as u64;
    begun.elapsed().mul_f64(count as f64 / appended as f64)
}

async fn append(store: SharedStore, lease: Lease, count: u64) {
    for _ in 0..count {
        let append = LogAppend { at: 2, events: vec![note(EVENT_BYTES)], ..LogAppend::default() };
        store.append(&lease, append).await.unwrap();
    }
}

fn reads(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let folder = folder();
    let store = runtime.block_on(open(&folder));
    let lease = runtime.block_on(begin(&store, "long".into()));
    let events = vec![note(MESSAGE_BYTES); SESSION_MESSAGES];
    runtime.block_on(store.append(&lease, LogAppend { at: 2, events, ..LogAppend::default() })).unwrap();
    let mut group = criterion.benchmark_group("read");
    group.sample_size(20);
    group.bench_function("10,000 messages of 2 kB", |bench| {
        bench.iter(|| {
            let events = runtime.block_on(store.read(&lease.session_id, 0, usize::MAX)).unwrap();
            assert_eq!(events.len(), SESSION_MESSAGES + 1);
        });
    });
    group.bench_function("10,000 messages of 2 kB, folded", |bench| {
        bench.iter(|| {
            let events = runtime.block_on(store.read(&lease.session_id, 0, usize::MAX)).unwrap();
            History::fold(&events).unwrap()
        });
    });
    group.bench_function("tail of 50", |bench| {
        bench.iter(|| assert_eq!(runtime.block_on(store.tail(&lease.session_id, 50)).unwrap().len(), 50));
    });
    group.finish();
    runtime.block_on(store.close());
}

/// The durations of some calls, and of all together.
#[derive(Default)]
struct Measured {
    times: Vec<Duration>,
    took: Duration,
}

impl Measured {
    fn add(&mut self, times: Vec<Duration>, took: Duration) {
        self.times.extend(times);
        self.times.sort_unstable();
        self.took += took;
    }

    fn percentile(&self, percent: usize) -> f64 {
        self.times[(self.times.len() - 1) * percent / 100].as_secs_f64() * 1e3
    }

    fn rate(&self) -> f64 {
        self.times.len() as f64 / self.took.as_secs_f64()
    }

    fn print(&self, what: &str) {
        let (p50, p99) = (self.percentile(50), self.percentile(99));
        println!("{what:<34} {:>9.0} /s   p50 {p50:>7.3} ms   p99 {p99:>7.3} ms", self.rate());
    }
}

/// Writes for one round; how long each time took.
fn writing(file: &mut File) -> Vec<Duration> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while begun.elapsed() < ROUND {
        let one = Instant::now();
        write(file);
        times.push(one.elapsed());
    }
    times
}

/// Appends for one round; how long each time took.
async fn appending(store: SharedStore, lease: Lease) -> Vec<Duration> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while begun.elapsed() < ROUND {
        let one = Instant::now();
        append(Arc::clone(&store), lease.clone(), 1).await;
        times.push(one.elapsed());
    }
    times
}

/// The ratios that are asked for.
async fn beside_the_disk() {
    let folder = folder();
    let store = open(&folder).await;
    let mut leases = Vec::new();
    for producer in 0..PRODUCERS {
        leases.push(begin(&store, format!("s{producer}")).await);
    }
    let mut file = File::create(folder.path().join("raw")).unwrap();
    let (mut disk, mut lone, mut many) = (Measured::default(), Measured::default(), Measured::default());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        disk.add(writing(&mut file), begun.elapsed());
        let begun = Instant::now();
        // Where sessions run: a thread outside the runtime would have to be woken for each answer.
        let appending_alone = tokio::spawn(appending(Arc::clone(&store), leases[0].clone()));
        lone.add(appending_alone.await.unwrap(), begun.elapsed());
        let begun = Instant::now();
        let producing: JoinSet<_> =
            leases.iter().map(|lease| appending(Arc::clone(&store), lease.clone())).collect();
        many.add(producing.join_all().await.concat(), begun.elapsed());
    }
    store.close().await;
    disk.print("raw 4 KiB write + fdatasync");
    lone.print("append, producers: 1");
    many.print(&format!("append, producers: {PRODUCERS}"));
    println!(
        "   lone p50 / fdatasync p50 {:.2} (asked: < 2)   {PRODUCERS} producers / fdatasync {:.2}   {PRODUCERS} \
         producers / lone {:.2}",
        lone.percentile(50) / disk.percentile(50),
        many.rate() / disk.rate(),
        many.rate() / lone.rate()
    );
    println!(
        "   {PRODUCERS} producers: {:.0} events per second (asked: >= 15,000), p99 {:.1} ms (asked: < 25)",
        many.rate(),
        many.percentile(99)
    );
}

criterion_group!(benches, raw, appends, reads);

fn main() {
    // As a test, everything runs once only.
    if std::env::args().any(|argument| argument == "--bench") {
        Runtime::new().unwrap().block_on(beside_the_disk());
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
