//! Texts that no tokenizer was made for.

use std::time::{Duration, Instant};

use longhaul_core::estimate::TextCounter;
use longhaul_tokenizers::OpenAiCounter;
use proptest::prelude::*;

const MEBIBYTE: usize = 1 << 20;

/// A megabyte or so of one thing. Counts by OpenAI's own tokenizer; for spaces, where that panics, by three others.
#[test]
fn a_megabyte_of_one_thing_is_counted_exactly() {
    let cases = [
        ("a", MEBIBYTE, [131_072, 131_072]),
        (" ", MEBIBYTE, [8_192, 8_192]),
        ("_", MEBIBYTE, [16_384, 16_384]),
        ("😀", MEBIBYTE / 4, [262_144, 524_288]),
    ];
    for (unit, times, expected) in cases {
        let text = unit.repeat(times);
        assert_eq!(both().map(|counter| counter.tokens(&text)), expected, "{unit:?}");
    }
}

fn both() -> [OpenAiCounter; 2] {
    ["o200k_base", "cl100k_base"].map(|name| OpenAiCounter::named(name).unwrap())
}

fn plain(counter: &OpenAiCounter, text: &str) -> u64 {
    tiktoken::get_encoding(counter.name()).unwrap().count(text) as u64
}

/// Letters, marks or blanks at random, equal for equal seeds.
fn noise(alphabet: &str, bytes: usize, seed: u64) -> String {
    let chars: Vec<char> = alphabet.chars().collect();
    let mut state = seed;
    let mut text = String::with_capacity(bytes + 4);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push(chars[(state >> 33) as usize % chars.len()]);
    }
    text
}

const ALPHABETS: [&str; 14] = [
    "abcdefghijklmnopqrstuvwxyz",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "aaaaaaab",
    " ",
    " \t",
    "\n",
    "\r\n",
    "!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~'",
    "-=",
    "😀🎉🔥🚀👍🏽",
    "的一是不了人我在有他这中大来上",
    "あいうえおアイウエオ가나다라마",
    "0123456789a",
    "aAé",
];

/// What stands before and after a run.
const AROUND: [&str; 14] =
    ["", "x", "X", "9", " ", "\n", "'s", "}", "/", "的", "é", " fn main() {\n", "\t", " \n\n x"];

/// The cut count is the plain count, whatever stands around the run.
#[test]
fn long_runs_are_counted_as_if_they_were_not_cut() {
    for (seed, alphabet) in ALPHABETS.iter().enumerate() {
        let run = noise(alphabet, 10_000 + 7 * seed, seed as u64 + 1);
        for (place, before) in AROUND.iter().enumerate() {
            let after = AROUND[(place * 5 + seed) % AROUND.len()];
            let text = format!("{before}{run}{after}");
            for counter in both() {
                let name = counter.name();
                assert_eq!(
                    counter.tokens(&text),
                    plain(&counter, &text),
                    "{name}, {before:?} + 10 kB of {alphabet:?} + {after:?}"
                );
            }
        }
    }
}

/// Marks take the line ends after them along, and then what comes next is cut otherwise.
#[test]
fn line_ends_are_counted_as_if_they_were_not_cut() {
    let after = ["", "x", "/", "/x", " x", " \n", "    \n", "\t\n", " \n\n x"];
    for (lines, before) in (5_000..5_010).flat_map(|lines| ["", "x", "}", ";"].map(|before| (lines, before)))
    {
        for after in after {
            let text = format!("{before}{}{after}", "\n".repeat(lines));
            for counter in both() {
                let tokens = counter.tokens(&text);
                assert_eq!(tokens, plain(&counter, &text), "{before:?} + {lines} line ends + {after:?}");
            }
        }
    }
}

fn run() -> impl Strategy<Value = String> {
    (0..ALPHABETS.len(), 1..14_000_usize, any::<u64>())
        .prop_map(|(alphabet, bytes, seed)| noise(ALPHABETS[alphabet], bytes, seed))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(48)))]

    #[test]
    fn runs_in_a_row_are_counted_as_if_they_were_not_cut(runs in prop::collection::vec(run(), 1..4)) {
        let text = runs.concat();
        for counter in both() {
            prop_assert_eq!(counter.tokens(&text), plain(&counter, &text));
        }
    }
}

/// Cases of a property: `PROPTEST_CASES`, or the usual number.
fn cases(usual: u32) -> u32 {
    std::env::var_os("PROPTEST_CASES").and_then(|text| text.to_str()?.parse().ok()).unwrap_or(usual)
}

/// Sixteen times the text may take up to 128 times as long on a busy machine; quadratic would be 256 times.
#[test]
fn work_grows_with_the_text_and_not_with_its_square() {
    let counter = OpenAiCounter::named("o200k_base").unwrap();
    let more = ["é", "9", "\n ", "/\n", "\u{e000}", "ᾳ", "\r\n\t"];
    for alphabet in ALPHABETS.iter().chain(&more) {
        let long = noise(alphabet, MEBIBYTE, 3);
        let short = &long[..long.floor_char_boundary(MEBIBYTE / 16)];
        let (short, long) = (best_of(5, &counter, short), best_of(2, &counter, &long));
        let ratio = long.as_secs_f64() / short.as_secs_f64();
        println!("{alphabet:40.40?} {long:>10.1?} for 1 MiB, {ratio:5.1} times 64 KiB");
        assert!(ratio < 128.0, "{alphabet:?}: {short:?} became {long:?}");
    }
}

fn best_of(times: u32, counter: &OpenAiCounter, text: &str) -> Duration {
    let time = || {
        let start = Instant::now();
        counter.tokens(text);
        start.elapsed()
    };
    (0..times).map(|_| time()).min().unwrap()
}
