//! Speed of exact counts, cold and cached, and of a long conversation counted again. `peers` compares with others.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use longhaul_core::estimate::TextCounter;
use longhaul_tokenizers::{CachedCounter, ContentKey, OpenAiCounter};

const PROSE: &str = include_str!("../../../README.md");
const CODE: &str = include_str!("../src/runs.rs");
const CHINESE: &str =
    "上下文窗口快满的时候，旧的工具输出会先被清除；需要时，模型可以把原文一字不差地取回来。";

const BLOCK_BYTES: usize = 4 << 10;

fn count(criterion: &mut Criterion) {
    let texts = [
        ("prose", PROSE.to_owned()),
        ("code", CODE.to_owned()),
        ("chinese", CHINESE.repeat(100)),
        ("a megabyte of one letter", "a".repeat(1 << 20)),
        ("a megabyte of spaces", " ".repeat(1 << 20)),
    ];
    let mut group = criterion.benchmark_group("count");
    for name in ["o200k_base", "cl100k_base"] {
        let Some(counter) = OpenAiCounter::named(name) else { continue };
        for (kind, text) in &texts {
            group.throughput(Throughput::Bytes(text.len() as u64));
            group.bench_function(format!("{name}/{kind}"), |bencher| {
                bencher.iter(|| counter.tokens(black_box(text)));
            });
        }
    }
    group.finish();
}

/// A thousand blocks whose keys are known, and one that is new.
fn recount(criterion: &mut Criterion) {
    let Some(counter) = OpenAiCounter::named("o200k_base").map(CachedCounter::new) else { return };
    let text = CODE.repeat(2);
    let block = |n: usize| {
        let (start, end) = (n % 1_000, n % 1_000 + BLOCK_BYTES);
        format!("{n}: {}", &text[text.floor_char_boundary(start)..text.floor_char_boundary(end)])
    };
    let blocks: Vec<(ContentKey, String)> =
        (0..1_000).map(block).map(|text| (ContentKey::of(&text), text)).collect();
    let total = || blocks.iter().map(|(key, text)| counter.groups_for_key(*key, text).total()).sum::<u64>();
    assert!(total() > 1_000_000);
    let mut new = 1_000;
    criterion.bench_function("a million tokens and one new block", |bencher| {
        bencher.iter(|| {
            new += 1;
            total() + counter.tokens(&block(new))
        });
    });
}

criterion_group!(benches, count, recount);
criterion_main!(benches);
