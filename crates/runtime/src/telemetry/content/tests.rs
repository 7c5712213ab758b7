use longhaul_core::message::Message;

use super::*;

fn said(text: &str) -> Message {
    Message::user("m", vec![Part::text(text)])
}

#[test]
fn the_newest_messages_stay_and_long_texts_are_clipped() {
    let long: Vec<Message> = (0..20).map(|n| said(&format!("{n} {}", "é".repeat(20 << 10)))).collect();
    let text = messages(long.iter());
    assert!(text.len() < MAX_MESSAGES_BYTES + MAX_TEXT_BYTES, "{}", text.len());
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!((2..20).contains(&all.len()), "{}", all.len());
    let newest = all[all.len() - 1]["parts"][0]["content"].as_str().unwrap();
    assert!(newest.starts_with("19 é") && newest.ends_with("more bytes]"), "{}", &newest[..20]);
}

#[test]
fn one_message_is_always_there() {
    let parts = (0..20).map(|_| Part::text("x".repeat(MAX_TEXT_BYTES))).collect();
    let all: Vec<Value> = serde_json::from_str(&messages([Message::user("m", parts)].iter())).unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(messages([].iter()), "[]");
}
