//! Text of any length without writing it anew: slices of one pool of prose, code, paths, digits and scripts.

use std::sync::OnceLock;

use crate::rng::Rng;

const POOL_BYTES: usize = 500_000;

const WORDS: [&str; 24] = [
    "the",
    "window",
    "is",
    "full",
    "of",
    "messages",
    "src/run/tools.rs",
    "fn main() {",
    "}\n",
    "error: 17\n",
    "4711",
    "größer",
    "日本語",
    "🙂",
    "compaction",
    "was",
    "planned",
    "for",
    "later",
    "\n\n",
    "{\"a\": 1}",
    "https://example.org/x",
    "int",
    "returned",
];

/// About `bytes` bytes of text (at most half the pool), from a place that `rng` picks.
pub(crate) fn text(rng: &mut Rng, bytes: usize) -> &'static str {
    static POOL: OnceLock<String> = OnceLock::new();
    let pool = POOL.get_or_init(|| {
        let mut rng = Rng::new(7);
        let mut pool = String::with_capacity(POOL_BYTES + 100);
        while pool.len() < POOL_BYTES {
            pool.push_str(rng.pick::<&str>(&WORDS));
            pool.push(' ');
        }
        pool
    });
    let bytes = bytes.min(POOL_BYTES / 2);
    let start = pool.floor_char_boundary(rng.below((POOL_BYTES - bytes) as u64) as usize);
    &pool[start..pool.floor_char_boundary(start + bytes)]
}
