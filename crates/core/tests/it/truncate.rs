use longhaul_core::estimate::{MessageTokenCounter, text_tokens};
use longhaul_core::ids::{LogHandle, LogRange};
use longhaul_core::message::{BlobRef, OutputTruncation};
use longhaul_core::truncate::{MARKER, TextLimit, TruncatedText, TruncationMode, marker, render, truncate};
use proptest::prelude::*;

use crate::text::{any_text, long_text};

fn keeps() -> impl Strategy<Value = TruncationMode> {
    prop_oneof![Just(TruncationMode::Head), Just(TruncationMode::Tail), Just(TruncationMode::Both)]
}

fn limits() -> impl Strategy<Value = TextLimit> {
    (256..20_000_u64, 64..5_000_u64).prop_map(|(max_chars, max_tokens)| TextLimit { max_chars, max_tokens })
}

fn stored(cut: &TruncatedText, lost_bytes: u64) -> OutputTruncation {
    OutputTruncation {
        head_bytes: cut.head_bytes,
        omitted_chars: cut.omitted_chars,
        total_chars: cut.total_chars,
        blob: BlobRef { hash: "0".repeat(64), bytes: 0 },
        lost_bytes,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::cases(2_000)))]

    #[test]
    fn a_start_and_an_end_stay(text in long_text(), limit in limits(), keep in keeps()) {
        let Some(cut) = truncate(&text, &limit, keep, MessageTokenCounter::structured()) else {
            prop_assert!(text.chars().count() as u64 <= limit.max_chars);
            prop_assert!(text_tokens(&text) <= limit.max_tokens);
            return Ok(());
        };
        prop_assert!(cut.kept.is_char_boundary(cut.head_bytes));
        let (head, tail) = cut.kept.split_at(cut.head_bytes);
        prop_assert!(text.starts_with(head) && text.ends_with(tail));
        prop_assert!(head.len() + tail.len() <= text.len());
        prop_assert!(keep != TruncationMode::Head || tail.is_empty());
        prop_assert!(keep != TruncationMode::Tail || head.is_empty());
        prop_assert_eq!(cut.total_chars, text.chars().count() as u64);
        prop_assert_eq!(cut.omitted_chars + cut.kept.chars().count() as u64, cut.total_chars);
    }

    #[test]
    fn both_limits_hold_with_the_marker(
        text in long_text(),
        limit in limits(),
        keep in keeps(),
        seq in 1..u64::from(u32::MAX),
        lost in prop_oneof![Just(0), 1..u64::from(u32::MAX)],
    ) {
        if let Some(cut) = truncate(&text, &limit, keep, MessageTokenCounter::structured()) {
            let shown = render(&cut.kept, &stored(&cut, lost), seq);
            let (chars, tokens) = (shown.chars().count() as u64, text_tokens(&shown));
            prop_assert!(chars <= limit.max_chars, "{chars} characters of {}", limit.max_chars);
            prop_assert!(tokens <= limit.max_tokens, "{tokens} tokens of {}", limit.max_tokens);
        }
    }

    #[test]
    fn any_limit_is_survived(text in any_text(), chars in 0..300_u64, tokens in 0..80_u64, keep in keeps()) {
        let limit = TextLimit { max_chars: chars, max_tokens: tokens };
        if let Some(cut) = truncate(&text, &limit, keep, MessageTokenCounter::structured()) {
            prop_assert!(cut.omitted_chars > 0);
            prop_assert!(render(&cut.kept, &stored(&cut, 0), 1).contains(MARKER));
        }
    }

    #[test]
    fn rendering_only_inserts(text in long_text(), limit in limits(), keep in keeps(), seq in 1..u64::MAX) {
        if let Some(cut) = truncate(&text, &limit, keep, MessageTokenCounter::structured()) {
            let shown = render(&cut.kept, &stored(&cut, 0), seq);
            let marker = marker(cut.omitted_chars, cut.total_chars, LogHandle(LogRange::one(seq)));
            let (before, after) = shown.split_at(shown.find(&marker).unwrap());
            let (head, tail) = cut.kept.split_at(cut.head_bytes);
            prop_assert_eq!(before.strip_prefix(head).map(str::trim), Some(""));
            prop_assert_eq!(after[marker.len()..].strip_suffix(tail).map(str::trim), Some(""));
        }
    }
}
