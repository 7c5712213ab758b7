use super::*;

fn limit(max_chars: u64, max_tokens: u64) -> TextLimit {
    TextLimit { max_chars, max_tokens }
}

fn stored(cut: &TruncatedText, lost_bytes: u64) -> OutputTruncation {
    let blob = crate::message::BlobRef { hash: "0".repeat(64), bytes: 1 };
    let TruncatedText { head_bytes, omitted_chars, total_chars, .. } = *cut;
    OutputTruncation { head_bytes, omitted_chars, total_chars, blob, lost_bytes }
}

#[test]
fn what_fits_is_left_alone() {
    let text = "a line\n".repeat(10);
    assert_eq!(
        truncate(&text, &limit(70, 100), TruncationMode::Both, MessageTokenCounter::structured()),
        None
    );
    assert!(
        truncate(&text, &limit(69, 100), TruncationMode::Both, MessageTokenCounter::structured()).is_some()
    );
    assert!(
        truncate(
            &text,
            &limit(70, crate::estimate::text_tokens(&text) - 1),
            TruncationMode::Both,
            MessageTokenCounter::structured()
        )
        .is_some()
    );
    assert_eq!(truncate("", &limit(0, 0), TruncationMode::Both, MessageTokenCounter::structured()), None);
}

#[test]
fn numbers_are_grouped() {
    let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
    for (number, text) in cases {
        assert_eq!(grouped(number), text);
    }
}

#[test]
fn a_log_keeps_its_end_and_some_of_its_start() {
    let lines: String = (0..1_000).map(|n| format!("line {n}\n")).collect();
    let cut =
        truncate(&lines, &limit(2_000, 100_000), TruncationMode::Both, MessageTokenCounter::structured())
            .unwrap();
    let (head, tail) = cut.kept.split_at(cut.head_bytes);
    assert!(head.starts_with("line 0\n") && head.ends_with('\n'), "{head:?}");
    assert!(tail.starts_with("line ") && tail.ends_with("line 999\n"), "{tail:?}");
    let share = head.len() * 100 / cut.kept.len();
    assert!((17..=23).contains(&share), "head has {share} %");
    assert!(cut.kept.len() > 1_700, "{} of 2000 are used", cut.kept.len());
}

#[test]
fn one_end_only() {
    let text: String = (0..1_000).map(|n| format!("line {n}\n")).collect();
    let head =
        truncate(&text, &limit(1_000, 100_000), TruncationMode::Head, MessageTokenCounter::structured())
            .unwrap();
    assert_eq!(head.head_bytes, head.kept.len());
    let tail =
        truncate(&text, &limit(1_000, 100_000), TruncationMode::Tail, MessageTokenCounter::structured())
            .unwrap();
    assert_eq!(tail.head_bytes, 0);
    assert!(text.ends_with(&tail.kept));
}

#[test]
fn the_marker_stands_on_its_own_line() {
    let text = "x".repeat(10_000);
    let cut =
        truncate(&text, &limit(1_000, 100_000), TruncationMode::Both, MessageTokenCounter::structured())
            .unwrap();
    let shown = render(&cut.kept, &stored(&cut, 0), 42);
    let line = shown.lines().nth(1).unwrap();
    assert!(line.starts_with("[Output truncated - exceeded maximum length] "), "{line}");
    assert!(line.ends_with("of 10,000 characters left out; the whole is lh:42"));
    assert_eq!(shown.lines().count(), 3);
}

#[test]
fn bytes_that_are_gone_are_told() {
    let text = "x".repeat(10_000);
    let cut =
        truncate(&text, &limit(1_000, 100_000), TruncationMode::Head, MessageTokenCounter::structured())
            .unwrap();
    let shown = render(&cut.kept, &stored(&cut, 12_345), 42);
    assert!(shown.ends_with(" Its last 12,345 bytes were too many to keep."), "{shown}");
    assert!(shown.chars().count() <= 1_000);
}

#[test]
fn a_mark_that_lies_inside_a_character_moves_before_it() {
    let wrong = OutputTruncation {
        head_bytes: 1,
        ..stored(
            &truncate(
                &"é".repeat(999),
                &limit(500, 999),
                TruncationMode::Head,
                MessageTokenCounter::structured(),
            )
            .unwrap(),
            0,
        )
    };
    assert!(render("é", &wrong, 7).starts_with(MARKER));
}

#[test]
fn the_longest_marker_fits_the_smallest_limits() {
    let marker = longest_marker(u64::from(u32::MAX));
    assert!(crate::estimate::text_tokens(&marker) <= 64, "{} tokens", crate::estimate::text_tokens(&marker));
    assert!(marker.chars().count() <= 254, "{} characters", marker.chars().count());
}

#[test]
fn both_ends_fill_their_room_and_never_vanish() {
    let counter = MessageTokenCounter::structured();
    let text = format!("BEGIN{} END", " word".repeat(1_000));
    for most in [60, 100, 400, 900] {
        let cut = both_ends(&text, most, 120, counter).unwrap();
        let (head, tail) = cut.kept.split_at(cut.head_bytes);
        let tokens = counter.text(&format!("{head}\n{}\n{tail}", left_out(cut.omitted_chars)));
        assert!(tokens <= most && tokens + most / 32 + 4 >= most, "{tokens} of {most}");
        assert!(head.len() >= 60 && text.starts_with(head), "{most}: {head}");
        assert!(tail.len() >= 60 && text.ends_with(tail), "{most}: {tail}");
        assert_eq!(cut.omitted_chars as usize, text.len() - cut.kept.len());
    }
    let least = both_ends(&text, 0, 120, counter).unwrap();
    assert_eq!((least.head_bytes, least.kept.len()), (60, 120));
    assert_eq!(both_ends(&text, 0, 0, counter).unwrap().kept, "");
    assert_eq!(both_ends("short", 0, 120, counter), None);
}
