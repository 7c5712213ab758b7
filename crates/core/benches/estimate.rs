//! Speed of the estimator, in bytes of text a second, beside a plain count of characters.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use longhaul_core::estimate::{chars_div_4, text_tokens};

const PROSE: &str = "The log is the truth and the view is a projection of it. Messages are never edited or deleted; \
    what the model is shown changes by events, and each of them can be undone. A reader who wants to know why a \
    message is missing finds the edit, the reason and the way back.\n\n";

const CODE: &str = include_str!("../src/estimate/scan.rs");

fn estimate(criterion: &mut Criterion) {
    let texts = [
        ("prose", PROSE.repeat(400)),
        ("code", CODE.repeat(8)),
        ("chinese", "上下文窗口快满的时候，旧的工具输出会先被清除。".repeat(1_500)),
        ("letters", "a".repeat(100_000)),
    ];
    let mut group = criterion.benchmark_group("estimate");
    for (name, text) in &texts {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(*name, |bencher| bencher.iter(|| text_tokens(black_box(text))));
    }
    let (_, prose) = &texts[0];
    group.throughput(Throughput::Bytes(prose.len() as u64));
    group.bench_function("prose/chars_div_4", |bencher| bencher.iter(|| chars_div_4(black_box(prose))));
    group.finish();
}

criterion_group!(benches, estimate);
criterion_main!(benches);
