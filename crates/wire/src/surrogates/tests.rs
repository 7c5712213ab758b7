use super::*;

#[test]
fn whole_characters_are_not_copied() {
    assert!(matches!(whole(r#"{"t":"\u00e9 and \\n"}"#), Cow::Borrowed(_)));
}

#[test]
fn pieces_of_one_payload_are_joined() {
    let list = r#"[{"text":"a\ud83d"},{"text":"\ude00b"}]"#;
    assert_eq!(whole(list), r#"[{"text":"a\ud83d\ude00"},{"text":"b"}]"#);
}

#[test]
fn every_one_of_many_halves_is_replaced() {
    let pieces = vec![r#"{"t":"\ud83d"},{"u":"\ude00"}"#; 100_000].join(",");
    assert_eq!(whole(&pieces).matches(REPLACEMENT).count(), 200_000);
}
