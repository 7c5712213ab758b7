//! The PostgreSQL store and the store in memory give the same answers, whatever is asked of them: also when the
//! connection dies and answers are lost.

use longhaul_core::event::{Event, EventBody, RunEnd};
use longhaul_core::message::Part;
use longhaul_core::queue::Queued;
use longhaul_store::{
    Append, Chunk, Lease, MemoryStore, NewQueued, NewSession, SessionRecord, Store, StoreError,
};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::note;
use crate::place::Place;
use crate::proxy::Proxy;

const SESSIONS: u8 = 3;

/// Something to do. Small numbers name sessions, leases (in the order they were given), queue entries, steps.
#[derive(Clone, Debug)]
enum Op {
    Create(u8),
    Delete(u8),
    Claim(u8),
    Release(u8),
    Append { lease: u8, events: Vec<u8>, takes: Vec<u8>, settles: Vec<u8> },
    Enqueue { session: u8, id: u8, key: Option<u8>, limit: usize },
    Edit { session: u8, id: u8 },
    Remove { session: u8, id: u8 },
    Clear(u8),
    PutChunk { lease: u8, step: u8, index: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let session = || 0..SESSIONS;
    let lease = || 0..4_u8;
    let entry = || 0..5_u8;
    prop_oneof![
        2 => session().prop_map(Op::Create),
        1 => session().prop_map(Op::Delete),
        3 => session().prop_map(Op::Claim),
        2 => lease().prop_map(Op::Release),
        8 => (lease(), vec(0..5_u8, 0..4), vec(entry(), 0..3), vec(0..3_u8, 0..2))
            .prop_map(|(lease, events, takes, settles)| Op::Append { lease, events, takes, settles }),
        6 => (session(), entry(), proptest::option::of(0..3_u8), 1..4_usize)
            .prop_map(|(session, id, key, limit)| Op::Enqueue { session, id, key, limit }),
        1 => (session(), entry()).prop_map(|(session, id)| Op::Edit { session, id }),
        1 => (session(), entry()).prop_map(|(session, id)| Op::Remove { session, id }),
        1 => session().prop_map(Op::Clear),
        4 => (lease(), 0..3_u8, 0..3_u64).prop_map(|(lease, step, index)| Op::PutChunk { lease, step, index }),
    ]
}

fn session_id(session: u8) -> String {
    format!("session {session}")
}

fn event(kind: u8) -> EventBody {
    match kind {
        0 => EventBody::RunStarted { run_id: "r".into() },
        1 => EventBody::RunFinished { run_id: "r".into(), reason: RunEnd::Stop, error: None },
        2 => EventBody::TitleSet { title: "a title".into() },
        _ => note("text"),
    }
}

/// A store with the leases it has given.
struct Subject<'s> {
    store: &'s dyn Store,
    leases: Vec<Lease>,
}

/// An answer without what may differ: the epochs of leases, the wording of errors.
type Answer = Result<String, std::mem::Discriminant<StoreError>>;

impl Subject<'_> {
    /// The newest leases are the likeliest to be used.
    fn lease(&self, number: u8) -> Option<&Lease> {
        self.leases.iter().rev().nth(number.into())
    }

    async fn act(&mut self, op: &Op, at: u64) -> Answer {
        self.try_act(op, at).await.map_err(|error| std::mem::discriminant(&error))
    }

    async fn try_act(&mut self, op: &Op, at: u64) -> Result<String, StoreError> {
        let store = self.store;
        Ok(match op {
            Op::Create(session) => format!("{:?}", store.create(new_session(*session, at)).await?),
            Op::Delete(session) => format!("{:?}", store.delete(&session_id(*session).into()).await?),
            Op::Claim(session) => {
                self.leases.push(store.claim(&session_id(*session).into(), "model").await?);
                String::new()
            }
            Op::Release(_) | Op::Append { .. } | Op::PutChunk { .. } => self.act_with_lease(op, at).await?,
            Op::Enqueue { session, id, key, limit } => {
                let new = queued(*id, *key, *limit, at);
                format!("{:?}", store.enqueue(&session_id(*session).into(), new).await?)
            }
            Op::Edit { session, id } => {
                let parts = vec![Part::text(format!("edited at {at}"))];
                let entry = entry_id(*id).into();
                format!("{:?}", store.edit_queued(&session_id(*session).into(), &entry, parts).await?)
            }
            Op::Remove { session, id } => {
                let entry = entry_id(*id).into();
                format!("{:?}", store.remove_queued(&session_id(*session).into(), &entry).await?)
            }
            Op::Clear(session) => format!("{:?}", store.clear_queue(&session_id(*session).into()).await?),
        })
    }

    async fn act_with_lease(&self, op: &Op, at: u64) -> Result<String, StoreError> {
        Ok(match op {
            Op::Release(lease) => match self.lease(*lease) {
                Some(lease) => format!("{:?}", self.store.release(lease).await?),
                None => String::new(),
            },
            Op::Append { lease, events, takes, settles } => {
                let Some(lease) = self.lease(*lease) else { return Ok(String::new()) };
                let append = Append {
                    at,
                    events: events.iter().map(|kind| event(*kind)).collect(),
                    takes: takes.iter().map(|id| entry_id(*id).into()).collect(),
                    settles: settles.iter().map(u8::to_string).collect(),
                };
                format!("{:?}", self.store.append(lease, append).await?)
            }
            Op::PutChunk { lease, step, index } => {
                let Some(lease) = self.lease(*lease) else { return Ok(String::new()) };
                let chunk = Chunk { step: step.to_string(), index: *index, body: format!("piece at {at}") };
                format!("{:?}", self.store.put_chunk(lease, chunk).await?)
            }
            _ => String::new(),
        })
    }
}

fn new_session(session: u8, at: u64) -> NewSession {
    let started = EventBody::SessionStarted { title: None, forked_from: None, imported_from: None };
    NewSession { id: session_id(session).into(), title: None, at, events: vec![(at, started)] }
}

fn queued(id: u8, key: Option<u8>, queue_limit: usize, at: u64) -> NewQueued {
    let parts = vec![Part::text(format!("queued at {at}"))];
    NewQueued { id: entry_id(id).into(), client_key: key.map(|key| key.to_string()), at, parts, queue_limit }
}

fn entry_id(id: u8) -> String {
    format!("entry {id}")
}

/// Everything a store knows.
#[derive(Debug, PartialEq)]
struct Content {
    sessions: Vec<SessionRecord>,
    logs: Vec<Vec<Event>>,
    queues: Vec<Vec<Queued>>,
    chunks: Vec<Vec<Chunk>>,
}

async fn content(store: &dyn Store) -> Content {
    let sessions = store.sessions(usize::MAX).await.unwrap();
    let (mut logs, mut queues, mut chunks) = (Vec::new(), Vec::new(), Vec::new());
    for session in &sessions {
        logs.push(store.read(&session.id, 0, usize::MAX).await.unwrap());
        queues.push(store.queue(&session.id).await.unwrap());
        chunks.push(store.chunks(&session.id).await.unwrap());
    }
    Content { sessions, logs, queues, chunks }
}

/// Does `ops` on both stores. `before` is called before each, with its number.
async fn compare(url: &str, ops: &[Op], mut before: impl FnMut(usize)) {
    let memory = MemoryStore::new();
    let postgres = PostgresStore::open(url, options()).await.unwrap();
    let mut expected = Subject { store: &memory, leases: Vec::new() };
    let mut actual = Subject { store: &postgres, leases: Vec::new() };
    for (number, op) in ops.iter().enumerate() {
        before(number);
        let at = number as u64 + 1;
        assert_eq!(actual.act(op, at).await, expected.act(op, at).await, "{number}: {op:?}");
    }
    before(ops.len());
    let expected = content(&memory).await;
    assert_eq!(content(&postgres).await, expected);
    postgres.close().await;
}

/// Nothing here takes long enough for the lease to matter.
fn options() -> PostgresOptions {
    PostgresOptions { connections: 2, ..PostgresOptions::default() }
}

async fn plain(ops: &[Op]) {
    let Some(place) = Place::new().await else { return };
    compare(&place.url(), ops, |_| {}).await;
}

/// `losses`: before which operations, and how many answers later, one is lost.
async fn losing(ops: &[Op], losses: &[(usize, usize)]) {
    let Some(place) = Place::new().await else { return };
    let Some(port) = place.port() else { return };
    let proxy = Proxy::to(port).await;
    let server = place.server_at(proxy.port());
    compare(&place.url_at(&server), ops, |number| match losses.iter().find(|(at, _)| *at == number) {
        _ if number == ops.len() => proxy.lose_nothing(),
        Some((_, after)) => proxy.lose_answer_after(*after),
        None => {}
    })
    .await;
}

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { cases: count, failure_persistence: None, ..ProptestConfig::default() }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

proptest! {
    #![proptest_config(cases(16))]

    #[test]
    fn both_stores_answer_alike(ops in vec(op(), 1..80)) {
        run(plain(&ops));
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn both_stores_answer_alike_when_answers_are_lost(
        ops in vec(op(), 1..60),
        losses in vec((0..60_usize, 0..8_usize), 1..20),
    ) {
        run(losing(&ops, &losses));
    }
}
