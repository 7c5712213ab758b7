//! Texts to try things on: all of Unicode, and what agents really read.

use proptest::prelude::*;

/// Any text, and texts made of pieces that meet the rules of a tokenizer.
pub(crate) fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), proptest::collection::vec(piece(), 0..60).prop_map(|pieces| pieces.concat()),]
}

/// A text of many lines.
pub(crate) fn long_text() -> impl Strategy<Value = String> {
    (proptest::collection::vec(piece(), 1..40), 1..60_usize)
        .prop_map(|(pieces, times)| pieces.concat().repeat(times))
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,24}",
        "[A-Z][a-z]{0,9}",
        "[A-Z]{1,12}",
        "[0-9]{1,12}",
        " {1,9}",
        "[\n\r\t ]{1,6}",
        "[!-/:-@\\[-`{-~]{1,8}",
        "'(s|re|T|ll)",
        "[а-яА-Я]{1,9}",
        "[一-龥]{1,6}",
        "[ぁ-ん가-힣]{1,6}",
        "[ا-ي]{1,8}",
        "[é-ÿḀ-ỹ]{1,4}",
        "[─│…—“”]{1,6}",
        "[😀-🙏🏽\u{200d}❤\u{fe0f}]{1,4}",
        "\\PC{1,4}",
    ]
}
