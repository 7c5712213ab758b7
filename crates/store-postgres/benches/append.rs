//! Fenced appends beside what PostgreSQL and the disk themselves can do, and what other nodes hear of them when.
//!
//! Absolute numbers are the machine's; ratios are of one run, whose rounds take turns. The end of what it prints holds
//! the floors for two cores that server and client share beside what was measured.
//!
//! Needs the server that `LONGHAUL_TEST_POSTGRES` names, or `postgres://postgres@127.0.0.1:5432/test`.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot set itself up should stop")]
#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul_core::event::{EventBody, NoteReason};
use longhaul_core::message::{Message, Part};
use longhaul_store::{ClusterStore, Lease, LogAppend, NewSession, Store};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgConnection, PgPool};
use tokio::task::JoinSet;

const EVENT_BYTES: usize = 300;
const WRITERS: usize = 8;
const BATCH: usize = 20;
const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_millis(1_500);

struct Place {
    server: String,
    schema: String,
}

impl Place {
    async fn new() -> Self {
        let server = std::env::var_os("LONGHAUL_TEST_POSTGRES");
        let server = server
            .map_or("postgres://postgres@127.0.0.1:5432/test".to_owned(), |url| url.into_string().unwrap());
        let place = Self { server, schema: format!("longhaul_bench_{}", std::process::id()) };
        place.execute(&format!("CREATE SCHEMA {}", place.schema)).await;
        place
    }

    fn url(&self) -> String {
        format!("{}?options[search_path]={}", self.server, self.schema)
    }

    async fn execute(&self, sql: &str) {
        let mut db = PgConnection::connect(&self.url()).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut db).await.unwrap();
    }

    async fn open(&self, notify_every: Duration) -> Arc<PostgresStore> {
        let options = PostgresOptions { notify_every, ..PostgresOptions::default() };
        Arc::new(PostgresStore::open(&self.url(), options).await.unwrap())
    }
}

fn note() -> EventBody {
    let message = Message::user("m", vec![Part::text("x".repeat(EVENT_BYTES))]);
    EventBody::NoteAdded { message, why: NoteReason::Imported }
}

async fn begin(store: &PostgresStore, id: &str) -> Lease {
    let started =
        EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
    let new = NewSession { id: id.into(), title: None, at: 1, events: vec![(1, started)] };
    store.create(new).await.unwrap();
    store.claim(&id.into(), "bench").await.unwrap()
}

/// Times in order, and how many events all of them stand for.
struct Measured {
    times: Vec<Duration>,
    events: usize,
    took: Duration,
}

impl Measured {
    fn of(mut times: Vec<Duration>, batch: usize, took: Duration) -> Self {
        times.sort_unstable();
        Self { events: times.len() * batch, times, took }
    }

    fn percentile(&self, percent: usize) -> f64 {
        self.times[(self.times.len() - 1) * percent / 100].as_secs_f64() * 1e3
    }

    fn rate(&self) -> f64 {
        self.events as f64 / self.took.as_secs_f64()
    }

    fn print(&self, what: &str) {
        let (p50, p99) = (self.percentile(50), self.percentile(99));
        println!("{what:<58} {:>9.0} /s   p50 {p50:>7.2} ms   p99 {p99:>7.2} ms", self.rate());
    }
}

fn fdatasync() -> Measured {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut file = File::create(folder.path().join("raw")).unwrap();
    let (begun, mut times) = (Instant::now(), Vec::new());
    while begun.elapsed() < ROUND {
        let one = Instant::now();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&[7; 4096]).unwrap();
        file.sync_data().unwrap();
        times.push(one.elapsed());
    }
    Measured::of(times, 1, begun.elapsed())
}

/// Inserts without owner, epoch or position, from as many connections.
async fn raw(pool: &PgPool, writers: usize, batch: usize) -> Measured {
    let body = serde_json::to_string(&note()).unwrap();
    let begun = Instant::now();
    let mut writing = JoinSet::new();
    for _ in 0..writers {
        let (mut db, bodies) = (pool.acquire().await.unwrap(), vec![body.clone(); batch]);
        writing.spawn(async move {
            let mut times = Vec::new();
            while begun.elapsed() < ROUND {
                let one = Instant::now();
                sqlx::query("INSERT INTO raw (body) SELECT unnest($1::text[])")
                    .bind(&bodies)
                    .execute(&mut *db)
                    .await
                    .unwrap();
                times.push(one.elapsed());
            }
            times
        });
    }
    Measured::of(writing.join_all().await.concat(), batch, begun.elapsed())
}

async fn appends(store: &Arc<PostgresStore>, leases: &[Lease], batch: usize) -> Measured {
    let begun = Instant::now();
    let mut writing = JoinSet::new();
    for lease in leases {
        let (store, lease) = (Arc::clone(store), lease.clone());
        writing.spawn(async move {
            let mut times = Vec::new();
            while begun.elapsed() < ROUND {
                let append = LogAppend { at: 2, events: vec![note(); batch], ..LogAppend::default() };
                let one = Instant::now();
                store.append(&lease, append).await.unwrap();
                times.push(one.elapsed());
            }
            times
        });
    }
    Measured::of(writing.join_all().await.concat(), batch, begun.elapsed())
}

/// The best of several rounds: others use the machine too.
fn best(mut rounds: Vec<Measured>) -> Measured {
    rounds.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    rounds.pop().unwrap()
}

/// A goal and its measured value.
#[derive(Default)]
struct Summary(Vec<String>);

impl Summary {
    /// `measured`, of which at least so much is asked.
    fn at_least(&mut self, what: &str, floor: f64, measured: f64) {
        self.add(what, &format!(">= {floor}"), measured, measured >= floor);
    }

    /// `measured`, of which less than so much is asked.
    fn below(&mut self, what: &str, limit: f64, measured: f64) {
        self.add(what, &format!("< {limit}"), measured, measured < limit);
    }

    /// For which nothing is asked.
    fn note(&mut self, what: &str, measured: f64) {
        self.0.push(format!("{what:<58} {:>9}   {measured:>9.2}", ""));
    }

    fn add(&mut self, what: &str, asked: &str, measured: f64, is_met: bool) {
        let verdict = if is_met { "met" } else { "MISSED" };
        self.0.push(format!("{what:<58} {asked:>9}   {measured:>9.2}   {verdict}"));
    }

    fn print(&self) {
        println!("-- asked for, and measured");
        self.0.iter().for_each(|line| println!("{line}"));
    }
}

async fn throughput(place: &Place, summary: &mut Summary) {
    place.execute("CREATE TABLE raw (no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text)").await;
    let pool = PgPoolOptions::new().max_connections(8).connect(&place.url()).await.unwrap();
    let disk = fdatasync();
    disk.print("raw 4 KiB write + fdatasync");
    // One that tells nobody anything, and one that others listen to.
    let (silent, heard) =
        (place.open(Duration::from_secs(3_600)).await, place.open(Duration::from_millis(10)).await);
    let (mut unheard_leases, mut heard_leases) = (Vec::new(), Vec::new());
    for number in 0..WRITERS {
        unheard_leases.push(begin(&silent, &format!("silent {number}")).await);
        heard_leases.push(begin(&heard, &format!("heard {number}")).await);
    }
    let listener = place.open(Duration::from_millis(10)).await;
    let mut watching = JoinSet::new();
    for lease in &heard_leases {
        let mut watch = listener.watch(&lease.session_id).await.unwrap();
        watching.spawn(async move { while watch.changed().await.is_ok() {} });
    }
    for (writers, batch) in [(1, 1), (WRITERS, 1), (WRITERS, BATCH)] {
        let (mut plain, mut off, mut on) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            plain.push(raw(&pool, writers, batch).await);
            off.push(appends(&silent, &unheard_leases[..writers], batch).await);
            on.push(appends(&heard, &heard_leases[..writers], batch).await);
        }
        let (plain, off, on) = (best(plain), best(off), best(on));
        println!("-- {writers} writers, {batch} events per append");
        plain.print("raw INSERT");
        off.print("fenced append");
        on.print("fenced append, watched on another node");
        println!(
            "   fenced / raw {:.2}   watched / not {:.2}   p50 / fdatasync p50 {:.1}",
            off.rate() / plain.rate(),
            on.rate() / off.rate(),
            off.percentile(50) / disk.percentile(50)
        );
        let case = format!("{writers} x {batch}");
        summary.note(&format!("{case}: fenced append / raw INSERT"), off.rate() / plain.rate());
        if (writers, batch) == (WRITERS, BATCH) {
            summary.at_least(&format!("{case}: fenced events per second"), 30_000.0, off.rate());
            summary.at_least(&format!("{case}: watched / not watched"), 0.7, on.rate() / off.rate());
        }
    }
    for store in [silent, heard, listener] {
        store.close().await;
    }
    pool.close().await;
}

/// From the begin of an append until a watcher on another node knows its position.
async fn heard_after(place: &Place, summary: &mut Summary) {
    let every = Duration::from_millis(10);
    let (here, there) = (place.open(every).await, place.open(every).await);
    let lease = begin(&here, "latency").await;
    let mut watch = there.watch(&lease.session_id).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (begun, mut times, mut acknowledged) = (Instant::now(), Vec::new(), Vec::new());
    for pause in (0..200).map(|number| 5 + number * 7 % 23) {
        let one = Instant::now();
        let append = LogAppend { at: 2, events: vec![note()], ..LogAppend::default() };
        let seq = here.append(&lease, append).await.unwrap()[0].seq;
        acknowledged.push(one.elapsed());
        watch.wait_for(|seen| *seen >= seq).await.unwrap();
        times.push(one.elapsed());
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    println!("-- from an append to a watcher on another node");
    Measured::of(acknowledged, 1, begun.elapsed()).print("acknowledged");
    let heard = Measured::of(times, 1, begun.elapsed());
    heard.print("heard on another node");
    summary.below("heard on another node, p50 in ms", 25.0, heard.percentile(50));
    summary.below("heard on another node, p99 in ms", 150.0, heard.percentile(99));
    here.close().await;
    there.close().await;
}

/// Measures the time to find and claim the sessions of a node whose lease has run out.
async fn takeover(place: &Place, summary: &mut Summary) {
    const SESSIONS: usize = 200;
    let every = Duration::from_millis(10);
    let (gone, heir) = (place.open(every).await, place.open(every).await);
    for number in 0..SESSIONS {
        let lease = begin(&gone, &format!("orphan {number}")).await;
        let events = vec![EventBody::RunStarted { run_id: "r".into() }];
        gone.append(&lease, LogAppend { at: 2, events, ..LogAppend::default() }).await.unwrap();
    }
    gone.close().await;
    let (begun, mut times) = (Instant::now(), Vec::new());
    loop {
        let found = heir.orphans(8, true).await.unwrap();
        if found.is_empty() {
            break;
        }
        let mut claiming = JoinSet::new();
        for id in found {
            let heir = Arc::clone(&heir);
            claiming.spawn(async move {
                let one = Instant::now();
                heir.claim(&id, "bench").await.unwrap();
                one.elapsed()
            });
        }
        times.extend(claiming.join_all().await);
    }
    assert_eq!(times.len(), SESSIONS);
    let took = begun.elapsed();
    println!("-- takeover of {SESSIONS} sessions by one node: {:.0} ms in all", took.as_secs_f64() * 1e3);
    Measured::of(times, 1, took).print("claim");
    summary.below(&format!("takeover of {SESSIONS} sessions in ms"), 1_000.0, took.as_secs_f64() * 1e3);
    heir.close().await;
}

#[tokio::main]
async fn main() {
    let place = Place::new().await;
    let mut summary = Summary::default();
    throughput(&place, &mut summary).await;
    heard_after(&place, &mut summary).await;
    takeover(&place, &mut summary).await;
    summary.print();
    place.execute(&format!("SET client_min_messages = warning; DROP SCHEMA {} CASCADE", place.schema)).await;
}
