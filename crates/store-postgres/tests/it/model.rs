//! The PostgreSQL store and the store in memory give the same answers, whatever is asked of them: also when the
//! connection dies and answers are lost.

use longhaul_store::conformance::model::{StoreOperation, StoreUnderTest, content};
use longhaul_store::{MemoryStore, Store};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::place::Place;
use crate::proxy::Proxy;

const SESSIONS: u8 = 3;

fn op() -> impl Strategy<Value = StoreOperation> {
    let session = || 0..SESSIONS;
    let lease = || 0..4_u8;
    let entry = || 0..5_u8;
    prop_oneof![
        2 => session().prop_map(StoreOperation::Create),
        1 => session().prop_map(StoreOperation::Delete),
        3 => session().prop_map(StoreOperation::Claim),
        2 => lease().prop_map(StoreOperation::Release),
        8 => (lease(), vec(0..5_u8, 0..4), vec(entry(), 0..3), vec(0..3_u8, 0..2))
            .prop_map(|(lease, events, takes, settles)| StoreOperation::Append { lease, events, takes, settles }),
        6 => (session(), entry(), proptest::option::of(0..3_u8), 1..4_usize)
            .prop_map(|(session, id, key, limit)| StoreOperation::Enqueue { session, id, key, limit }),
        1 => (session(), entry()).prop_map(|(session, id)| StoreOperation::Edit { session, id }),
        1 => (session(), entry()).prop_map(|(session, id)| StoreOperation::Remove { session, id }),
        1 => session().prop_map(StoreOperation::Clear),
        4 => (lease(), 0..3_u8, 0..3_u64).prop_map(|(lease, step, index)| StoreOperation::PutChunk { lease, step, index }),
    ]
}

/// Does `ops` on both stores. `before` is called before each, with its number.
async fn compare(url: &str, ops: &[StoreOperation], mut before: impl FnMut(usize)) {
    let memory = MemoryStore::new();
    let postgres = PostgresStore::open(url, options()).await.unwrap();
    let mut expected = StoreUnderTest::new(&memory);
    let mut actual = StoreUnderTest::new(&postgres);
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

async fn plain(ops: &[StoreOperation]) {
    let Some(place) = Place::new().await else { return };
    compare(&place.url(), ops, |_| {}).await;
}

/// `losses`: before which operations, and how many answers later, one is lost.
async fn losing(ops: &[StoreOperation], losses: &[(usize, usize)]) {
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
