//! The SQLite store and the store in memory give the same answers, whatever is asked of them.

use longhaul_store::conformance::model::{StoreOperation, StoreUnderTest, content};
use longhaul_store::{MemoryStore, Store};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::open;

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

async fn compare(ops: &[StoreOperation]) {
    let folder = tempfile::tempdir().unwrap();
    let (memory, sqlite) = (MemoryStore::new(), open(folder.path()).await);
    let mut expected = StoreUnderTest::new(&memory);
    let mut actual = StoreUnderTest::new(&sqlite);
    for (at, op) in (1..).zip(ops) {
        assert_eq!(actual.act(op, at).await, expected.act(op, at).await, "{op:?}");
    }
    let expected = content(&memory).await;
    assert_eq!(content(&sqlite).await, expected);
    sqlite.close().await;
    let again = open(folder.path()).await;
    assert_eq!(content(&again).await, expected, "after opening it again");
    again.close().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_stores_answer_alike(ops in vec(op(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(compare(&ops));
    }
}
