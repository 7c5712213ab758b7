use std::sync::atomic::{AtomicU64, Ordering};

use longhaul_core::estimate::{CountAccuracy, TextCounter, TokensByScript};
use longhaul_tokenizers::{CachedCounter, ContentKey};

/// Counts bytes, and how often it was asked.
#[derive(Debug, Default)]
struct Asked(AtomicU64);

impl TextCounter for &Asked {
    fn groups(&self, text: &str) -> TokensByScript {
        self.0.fetch_add(1, Ordering::Relaxed);
        TokensByScript::of_kinds([text.len() as u64, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0], 0)
    }

    fn name(&self) -> &'static str {
        "bytes"
    }

    fn kind(&self) -> CountAccuracy {
        CountAccuracy::Estimated
    }
}

impl Asked {
    fn times(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn block(n: usize) -> String {
    format!("{n:>100}")
}

#[test]
fn a_block_is_counted_once() {
    let asked = Asked::default();
    let counter = CachedCounter::new(&asked);
    for _ in 0..3 {
        assert_eq!(
            counter.groups(&block(1)),
            TokensByScript::of_kinds([100, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0], 0),
            "groups are kept apart"
        );
        assert_eq!(counter.tokens(&block(1)), 109);
    }
    assert_eq!((asked.times(), counter.len()), (1, 1));
    assert_eq!((counter.name(), counter.kind()), ("bytes", CountAccuracy::Estimated));
}

#[test]
fn a_known_key_finds_the_same_count() {
    let asked = Asked::default();
    let counter = CachedCounter::new(&asked);
    let text = block(7);
    let groups = counter.groups(&text);
    assert_eq!(counter.groups_for_key(ContentKey::of(&text), ""), groups, "the text is not read again");
    assert_ne!(ContentKey::of(&text), ContentKey::of(&block(8)));
}

#[test]
fn the_memory_is_bounded_and_keeps_what_is_in_use() {
    let asked = Asked::default();
    let counter = CachedCounter::with_entries(&asked, 100);
    for n in 0..1_000 {
        counter.tokens(&block(n));
        counter.tokens(&block(0));
        assert!(counter.len() <= 100, "{}", counter.len());
    }
    assert_eq!(asked.times(), 1_000, "the block in use was never forgotten");
    counter.tokens(&block(1));
    assert_eq!(asked.times(), 1_001, "an old one was");
    counter.clear();
    assert!(counter.is_empty());
}

#[test]
fn threads_share_it() {
    let asked = Asked::default();
    let counter = CachedCounter::new(&asked);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|n| assert_eq!(counter.tokens(&block(n)), 109)));
        }
    });
    assert_eq!(counter.len(), 500);
    assert!((500..=2_000).contains(&asked.times()), "{}", asked.times());
}
