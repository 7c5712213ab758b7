//! The promises of every prefix cache, as tests for any back-end.
//!
//! A back-end writes `longhaul_store::memo_conformance!(make);` in a test module, where
//! `async fn make(limits: MemoLimits) -> (Arc<dyn PrefixCache>, Guard)` gives a new empty memo and whatever must outlive it.
#![expect(clippy::unwrap_used, reason = "these are tests: a failure is their purpose")]

use std::sync::Arc;

use longhaul_core::event::{EditKind, EditReason, ViewEdit};

use super::{PrefixCache, PrefixCacheHit, PrefixCacheKey, PrefixCacheScope, encode_edits};

/// Makes one test of each promise. See [the module](mod@crate::prefix_cache::conformance).
#[macro_export]
macro_rules! memo_conformance {
    ($make:ident) => {
        $crate::memo_conformance! { $make:
            nothing_is_known_at_first: 10 x 1_000_000,
            what_was_put_is_found: 10 x 1_000_000,
            the_first_known_key_wins: 10 x 1_000_000,
            a_later_put_replaces: 10 x 1_000_000,
            the_least_recently_used_gives_way: 3 x 1_000_000,
            bytes_are_bounded_too: 1_000 x 3_000,
            what_is_too_large_changes_nothing: 10 x 3_000,
            thousands_of_keys_are_looked_up: 10 x 1_000_000,
            puts_at_the_same_time_are_all_kept: 100 x 1_000_000,
            texts_are_kept_beside_edits: 3 x 3_000,
        }
    };
    ($make:ident: $($case:ident: $entries:literal x $bytes:literal),+ $(,)?) => {
        mod memo_conformance {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let limits = $crate::prefix_cache::PrefixCacheLimits { entries: $entries, bytes: $bytes };
                    let (memo, _guard) = super::$make(limits).await;
                    $crate::prefix_cache::conformance::$case(memo).await;
                }
            )+
        }
    };
}

/// Returns the key of the prefix with a number.
pub fn key(number: u32) -> PrefixCacheKey {
    let scope = PrefixCacheScope { credential: b"somebody", upstream: "here", policy: "1" };
    PrefixCacheKey::new(&scope, blake3::hash(&number.to_le_bytes()).as_bytes())
}

/// Returns an edit with an explanation in `why`.
pub fn edit(why: &str) -> ViewEdit {
    ViewEdit {
        id: "e".into(),
        base_view_hash: "h".to_owned(),
        ops: Vec::new(),
        kind: EditKind::Compaction,
        strategy: "pruning-agent".to_owned(),
        reason: EditReason::TokenLimit,
        trigger_tokens: 8,
        original_tokens: 9,
        compressed_tokens: 4,
        original_bound: 10,
        compressed_bound: 5,
        original_messages: 7,
        compressed_messages: 2,
        why: why.to_owned(),
        usage: None,
        summary: None,
    }
}

/// Returns a text for an entry of `bytes` bytes.
fn text_of_entry(bytes: usize) -> String {
    let frame = encode_edits(&[edit("")]).unwrap().len();
    "x".repeat(bytes - frame)
}

async fn put(memo: &Arc<dyn PrefixCache>, number: u32, why: &str) {
    memo.put(key(number), &[edit(why)]).await.unwrap();
}

/// Describes the cache's entry for a prefix in words.
async fn known(memo: &Arc<dyn PrefixCache>, number: u32) -> Option<String> {
    let found = memo.find(&[key(number)]).await.unwrap()?;
    assert_eq!(found.index, 0);
    Some(found.edits.into_iter().map(|edit| edit.why).collect())
}

/// An empty cache has no entries, and a query without keys finds nothing.
pub async fn nothing_is_known_at_first(memo: Arc<dyn PrefixCache>) {
    assert_eq!(memo.find(&[key(1), key(2)]).await, Ok(None));
    put(&memo, 1, "one").await;
    assert_eq!(memo.find(&[]).await, Ok(None));
    assert_eq!(memo.find(&[key(2)]).await, Ok(None));
}

/// Edits are returned unchanged and in their order, an empty list too.
pub async fn what_was_put_is_found(memo: Arc<dyn PrefixCache>) {
    let edits = vec![edit("first \u{1f980}\u{0}\"\\"), edit("second")];
    memo.put(key(1), &edits).await.unwrap();
    // An empty list is a decision too: nothing is left out of that prefix.
    memo.put(key(2), &[]).await.unwrap();
    assert_eq!(memo.find(&[key(1)]).await, Ok(Some(PrefixCacheHit { index: 0, edits })));
    assert_eq!(memo.find(&[key(2)]).await, Ok(Some(PrefixCacheHit { index: 0, edits: Vec::new() })));
}

/// The order of the keys decides, not the order of the puts.
pub async fn the_first_known_key_wins(memo: Arc<dyn PrefixCache>) {
    // The gateway asks for the longest prefix first, in whatever order the entries were made.
    for number in [3, 1, 2] {
        put(&memo, number, &number.to_string()).await;
    }
    for (asked, index, why) in
        [([9, 8, 2, 1, 3], 2, "2"), ([9, 3, 2, 1, 3], 1, "3"), ([1, 2, 3, 8, 9], 0, "1")]
    {
        let found = memo.find(&asked.map(key)).await;
        assert_eq!(found, Ok(Some(PrefixCacheHit { index, edits: vec![edit(why)] })));
    }
}

/// The later of two puts under one key is known.
pub async fn a_later_put_replaces(memo: Arc<dyn PrefixCache>) {
    put(&memo, 1, "old").await;
    put(&memo, 1, "new").await;
    assert_eq!(known(&memo, 1).await.as_deref(), Some("new"));
}

/// A full cache with room for three evicts the entry without a put or find for the longest time.
pub async fn the_least_recently_used_gives_way(memo: Arc<dyn PrefixCache>) {
    for number in 1..=3 {
        put(&memo, number, "x").await;
    }
    assert!(known(&memo, 1).await.is_some(), "now the second is the oldest");
    put(&memo, 4, "x").await;
    assert_eq!(known(&memo, 2).await, None);
    put(&memo, 3, "again").await;
    put(&memo, 5, "x").await;
    assert_eq!(
        known(&memo, 1).await,
        None,
        "the third was put again, the fourth later than the first was found"
    );
    assert!(known(&memo, 3).await.is_some() && known(&memo, 4).await.is_some());
    assert!(known(&memo, 5).await.is_some());
    // A look for several counts for the one that was found.
    assert_eq!(memo.find(&[key(9), key(3), key(4)]).await.unwrap().unwrap().index, 1);
    put(&memo, 6, "x").await;
    assert_eq!(known(&memo, 4).await, None);
    assert!(known(&memo, 3).await.is_some());
}

/// A cache with room for 3,000 bytes evicts small entries for large ones.
pub async fn bytes_are_bounded_too(memo: Arc<dyn PrefixCache>) {
    for number in 1..=3 {
        put(&memo, number, &text_of_entry(1_000)).await;
    }
    for number in 1..=3 {
        assert!(known(&memo, number).await.is_some(), "3,000 bytes have room");
    }
    // One byte too many costs two entries, because the sum must be within the limit.
    put(&memo, 4, &text_of_entry(1_001)).await;
    assert_eq!((known(&memo, 1).await, known(&memo, 2).await), (None, None));
    assert!(known(&memo, 3).await.is_some() && known(&memo, 4).await.is_some());
    put(&memo, 4, &text_of_entry(2_000)).await;
    assert!(known(&memo, 3).await.is_some(), "what is replaced counts no more");
    put(&memo, 5, &text_of_entry(3_000)).await;
    assert!(known(&memo, 5).await.is_some());
    assert_eq!((known(&memo, 3).await, known(&memo, 4).await), (None, None));
}

/// An entry larger than the cache evicts nothing, not even the earlier entry under the same key.
pub async fn what_is_too_large_changes_nothing(memo: Arc<dyn PrefixCache>) {
    put(&memo, 1, "small").await;
    put(&memo, 2, "other").await;
    // The old decision still holds for the prefix, and the upstream has cached its bytes.
    put(&memo, 1, &"x".repeat(3_001)).await;
    assert_eq!(known(&memo, 1).await.as_deref(), Some("small"));
    assert_eq!(known(&memo, 2).await.as_deref(), Some("other"));
}

/// A long conversation has thousands of prefixes.
pub async fn thousands_of_keys_are_looked_up(memo: Arc<dyn PrefixCache>) {
    put(&memo, 7, "deep").await;
    // The only known key comes last, so every other one is looked up before it.
    let keys: Vec<PrefixCacheKey> = (7..5_007).rev().map(key).collect();
    assert_eq!(memo.find(&keys).await.unwrap().unwrap().index, 4_999);
}

/// No put of many simultaneous ones is lost, and a common key has the edits of one put.
pub async fn puts_at_the_same_time_are_all_kept(memo: Arc<dyn PrefixCache>) {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 1..=40 {
        let memo = Arc::clone(&memo);
        tasks.spawn(async move {
            put(&memo, number, &number.to_string()).await;
            // All tasks write this key. Whichever is last, the entry must be whole.
            put(&memo, 0, &number.to_string()).await;
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    for number in 1..=40 {
        assert_eq!(known(&memo, number).await, Some(number.to_string()));
    }
    let last: u32 = known(&memo, 0).await.unwrap().parse().unwrap();
    assert!((1..=40).contains(&last));
}

/// Texts are returned unchanged, and share the room with edits. The least recently used entry is evicted.
pub async fn texts_are_kept_beside_edits(memo: Arc<dyn PrefixCache>) {
    assert_eq!(memo.find_text(&key(1)).await, Ok(None));
    for text in ["first", "{\"a\": [1, \"\u{1f980}\"]}\n"] {
        memo.put_text(key(1), text).await.unwrap();
        assert_eq!(memo.find_text(&key(1)).await, Ok(Some(text.to_owned())), "the later one is known");
    }
    // Texts are answers that clients continue by name. They are as large as their conversations.
    memo.put_text(key(1), &"x".repeat(3_001)).await.unwrap();
    assert!(memo.find_text(&key(1)).await.unwrap().is_some(), "what is too large replaces nothing");
    put(&memo, 2, "edits").await;
    memo.put_text(key(3), "").await.unwrap();
    assert_eq!(memo.find_text(&key(3)).await, Ok(Some(String::new())));
    assert!(memo.find_text(&key(1)).await.unwrap().is_some(), "now the edits are the oldest");
    put(&memo, 4, "more").await;
    assert_eq!(known(&memo, 2).await, None);
    assert!(memo.find_text(&key(1)).await.unwrap().is_some() && known(&memo, 4).await.is_some());
    memo.put_text(key(5), &"y".repeat(3_000)).await.unwrap();
    assert!(memo.find_text(&key(5)).await.unwrap().is_some(), "bytes count for both");
    assert_eq!((memo.find_text(&key(1)).await, known(&memo, 4).await), (Ok(None), None));
}
