//! Durable appends beside what the disk itself can do, and reading a long session.
//!
//! Absolute numbers are the machine's. What is asked of the store: a lone append costs less than twice a raw
//! `write` + `fdatasync` of the same run, and 64 producers share their fsyncs.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot set itself up should stop")]
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use longhaul_core::event::{EventBody, NoteReason};
use longhaul_core::message::{Message, Part};
use longhaul_store::{Append, Lease, NewSession, SharedStore};
use longhaul_store_sqlite::SqliteStore;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const PRODUCERS: usize = 64;
const EVENT_BYTES: usize = 300;
const SESSION_MESSAGES: usize = 10_000;
const MESSAGE_BYTES: usize = 2000;

/// On the disk of the build, not in a memory file system.
fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn note(bytes: usize) -> EventBody {
    let message = Message::user("m", vec![Part::text("x".repeat(bytes))]);
    EventBody::NoteAdded { message, why: NoteReason::Imported }
}

async fn begin(store: &SharedStore, id: String) -> Lease {
    let started = EventBody::SessionStarted { title: None, forked_from: None, imported_from: None };
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
        bench.iter(|| {
            // Like a WAL that is used again, the file does not grow.
            file.seek(SeekFrom::Start(0)).unwrap();
            file.write_all(&[7; 4096]).unwrap();
            file.sync_data().unwrap();
        });
    });
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

/// How long it takes until `count` appends are acknowledged.
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
        let append = Append { at: 2, events: vec![note(EVENT_BYTES)], ..Append::default() };
        store.append(&lease, append).await.unwrap();
    }
}

fn reads(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let folder = folder();
    let store = runtime.block_on(open(&folder));
    let lease = runtime.block_on(begin(&store, "long".into()));
    let events = vec![note(MESSAGE_BYTES); SESSION_MESSAGES];
    runtime.block_on(store.append(&lease, Append { at: 2, events, ..Append::default() })).unwrap();
    let mut group = criterion.benchmark_group("read");
    group.sample_size(20);
    group.bench_function("10,000 messages of 2 kB", |bench| {
        bench.iter(|| {
            let events = runtime.block_on(store.read(&lease.session_id, 0, usize::MAX)).unwrap();
            assert_eq!(events.len(), SESSION_MESSAGES + 1);
        });
    });
    group.bench_function("tail of 50", |bench| {
        bench.iter(|| assert_eq!(runtime.block_on(store.tail(&lease.session_id, 50)).unwrap().len(), 50));
    });
    group.finish();
    runtime.block_on(store.close());
}

criterion_group!(benches, raw, appends, reads);
criterion_main!(benches);
