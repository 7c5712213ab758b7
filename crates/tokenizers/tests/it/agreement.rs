//! Implementations that have nothing in common but the vocabulary give the same counts.

use std::path::Path;

use longhaul_core::estimate::TextCounter;
use longhaul_tokenizers::OpenAiCounter;
use proptest::prelude::*;

use crate::documents::{FIXTURES, documents, fixtures_for};
use crate::families::family;

/// The `tokenizer.json` of an encoding, read by the other half of this crate.
#[test]
fn the_same_encoding_from_a_tokenizer_json() {
    let test = "the_same_encoding_from_a_tokenizer_json";
    if !fixtures_for(test) {
        return;
    }
    for (name, encoding) in [("gpt4o", "o200k_base"), ("gpt35turbo", "cl100k_base")] {
        let Some(file) = family(name, test) else { continue };
        let built_in = OpenAiCounter::named(encoding).unwrap();
        for (kind, texts) in documents(Path::new(FIXTURES)) {
            for text in texts {
                assert_eq!(built_in.tokens(&text), file.tokens(&text), "{encoding}, {kind}: {text:?}");
            }
        }
    }
}

/// Letters, blanks and marks that Unicode has had for ten years: tables of different ages agree on them.
fn any_char() -> impl Strategy<Value = char> {
    prop_oneof![
        6 => proptest::char::range(' ', '~'),
        2 => prop::sample::select(vec!['\n', '\r', '\t', '\u{a0}', '\u{2003}', '\u{200d}', '\u{fe0f}', '\'']),
        2 => proptest::char::range('\u{a1}', '\u{24f}'),
        1 => proptest::char::range('\u{300}', '\u{36f}'),
        1 => proptest::char::range('\u{3b1}', '\u{44f}'),
        1 => proptest::char::range('\u{905}', '\u{939}'),
        1 => proptest::char::range('\u{4e00}', '\u{9fa5}'),
        1 => proptest::char::range('\u{1f300}', '\u{1f64f}'),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn another_implementation_agrees(text in prop::collection::vec(any_char(), 0..60)) {
        let text: String = text.into_iter().collect();
        for name in ["o200k_base", "cl100k_base"] {
            prop_assert_eq!(OpenAiCounter::named(name).unwrap().tokens(&text), other(name).count(text.as_bytes()) as u64);
        }
    }
}

fn other(name: &str) -> &'static toktok::Tokenizer {
    use std::sync::LazyLock;
    static O200K: LazyLock<toktok::Tokenizer> =
        LazyLock::new(|| toktok::Tokenizer::builtin("o200k_base").unwrap());
    static CL100K: LazyLock<toktok::Tokenizer> =
        LazyLock::new(|| toktok::Tokenizer::builtin("cl100k_base").unwrap());
    if name == "o200k_base" { &O200K } else { &CL100K }
}
