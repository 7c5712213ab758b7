use super::*;

#[test]
fn empty_is_nothing() {
    assert_eq!(text_tokens(""), 0);
}
