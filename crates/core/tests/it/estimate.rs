use longhaul_core::estimate::text_tokens;
use proptest::prelude::*;

use crate::text::{any_text, long_text};

/// What joining two texts may change: their last and first pieces become one.
const SEAM_TOKENS: u64 = 12;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::cases(2_000)))]

    #[test]
    fn between_nothing_and_bytes(text in any_text()) {
        let tokens = text_tokens(&text);
        prop_assert!(tokens <= text.len() as u64);
        prop_assert_eq!(tokens == 0, text.is_empty());
    }

    #[test]
    fn joining_adds_up(left in any_text(), right in any_text()) {
        let joined = text_tokens(&[left.as_str(), right.as_str()].concat());
        let (left, right) = (text_tokens(&left), text_tokens(&right));
        prop_assert!(joined <= left + right + SEAM_TOKENS, "{left} + {right} became {joined}");
        prop_assert!(joined + SEAM_TOKENS >= left + right, "{left} + {right} became {joined}");
        prop_assert!(joined + SEAM_TOKENS >= left.max(right));
    }

    /// Words that grow too long to be words may cost three times as much.
    #[test]
    fn repeating_is_linear(text in long_text()) {
        let one = text_tokens(&text);
        let four = text_tokens(&text.repeat(4));
        prop_assert!(four <= 3 * 4 * one + 3 * SEAM_TOKENS, "{one} four times became {four}");
        prop_assert!(four + 3 * SEAM_TOKENS >= one);
    }
}

/// One million of the same is far from the usual. Exact counts by `o200k_base`; the estimate may be high, and
/// lies at most a third below.
#[test]
fn long_runs_are_not_underestimated() {
    let cases = [
        ("a", 1 << 20, 131_072),
        ("A", 1 << 20, 131_072),
        (" ", 1 << 20, 8_192),
        ("_", 1 << 20, 16_384),
        ("\n", 1 << 20, 65_536),
        ("\t", 1 << 18, 16_384),
        ("\r\n", 1 << 18, 65_536),
        ("\n ", 1 << 19, 262_145),
        ("9", 1 << 18, 87_382),
        ("😀", 1 << 18, 262_144),
        ("\0", 1 << 16, 32_768),
        ("é", 1 << 16, 65_536),
        ("ж", 1 << 16, 65_536),
        ("的", 1 << 16, 65_536),
        ("/\n", 1 << 16, 65_536),
        ("─", 1 << 16, 4_096),
        ("│   ", 1 << 16, 131_072),
        ("\u{12000}", 1 << 16, 262_144),
        ("\u{e000}", 1 << 16, 131_072),
    ];
    for (unit, times, exact) in cases {
        let tokens = text_tokens(&unit.repeat(times));
        assert!(tokens * 3 >= exact * 2, "{unit:?}: {tokens} for {exact}");
        assert!(tokens <= exact * 3, "{unit:?}: {tokens} for {exact}");
    }
}

/// Letters without words: 544,156 tokens for a million random small ones, 715,910 for a million of base64.
#[test]
fn noise_is_not_underestimated() {
    let noise = |alphabet: &[u8], chars: usize| -> String {
        let mut state = 7_u64;
        let next = move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(alphabet[(state >> 33) as usize % alphabet.len()])
        };
        (0..chars).map(next).collect()
    };
    let small = b"abcdefghijklmnopqrstuvwxyz";
    let base64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let cases = [(noise(small, 1 << 20), 544_156_u64), (noise(base64, 1 << 20), 715_910)];
    for (text, exact) in cases {
        let tokens = text_tokens(&text);
        assert!(tokens * 10 >= exact * 9 && tokens <= exact * 2, "{tokens} for {exact}");
    }
}
