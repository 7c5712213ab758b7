use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::message::ModelOrigin;
use serde_json::{Value, json};

use super::*;
use longhaul_wire::chat::edit::ChatCodec;
use longhaul_wire::edit::WireCodec;

fn request(texts: &[&str], mark: bool) -> Arc<RequestEnvelope> {
    let cache = if mark { json!({ "type": "ephemeral" }) } else { Value::Null };
    let message = |text: &&str| json!({ "role": "user", "content": [{ "type": "text", "text": text, "cache_control": cache }] });
    let messages: Vec<Value> = texts.iter().map(message).collect();
    Arc::new(
        ChatCodec.parse_request(json!({ "model": "m", "messages": messages }).to_string().into()).unwrap(),
    )
}

fn state() -> ConversationState {
    let name = "x".to_owned();
    ConversationState::new(
        MessageTokenCounter::default(),
        ModelOrigin { provider: name.clone(), api: name.clone(), model: name },
        false,
    )
}

fn find(cache: &ConversationCache, scope: u8, envelope: &Arc<RequestEnvelope>) -> Arc<GatewayConversation> {
    let mut names = ItemNames::new(&ChatCodec, envelope);
    cache.recall(&[scope; 32], &mut names);
    cache.find(&[scope; 32], &mut names, state).unwrap()
}

#[test]
fn a_request_that_goes_on_meets_its_conversation() {
    let cache = ConversationCache::new(10, 1 << 20);
    let one = find(&cache, 1, &request(&["a"], false));
    for (texts, mark) in
        [(&["a"][..], false), (&["a", "b"], false), (&["a", "b", "c"], true), (&["a", "b", "c"], false)]
    {
        assert!(Arc::ptr_eq(&one, &find(&cache, 1, &request(texts, mark))), "{texts:?} {mark}");
    }
    assert!(!Arc::ptr_eq(&one, &find(&cache, 2, &request(&["a", "b", "c", "d"], false))), "another caller");
    assert!(!Arc::ptr_eq(&one, &find(&cache, 1, &request(&["a", "x", "c", "d"], false))), "another history");
    assert!(!Arc::ptr_eq(&one, &find(&cache, 1, &request(&["a", "b"], false))), "an earlier state of it");
    assert!(
        Arc::ptr_eq(&one, &find(&cache, 1, &request(&["a", "b", "c", "d"], false))),
        "the longest one goes on"
    );
}

#[test]
fn the_least_recently_used_gives_way() {
    let cache = ConversationCache::new(2, 1 << 20);
    let (a, b) = (request(&["a"], false), request(&["b"], false));
    let one = find(&cache, 1, &a);
    let two = find(&cache, 1, &b);
    assert!(Arc::ptr_eq(&one, &find(&cache, 1, &a)));
    find(&cache, 1, &request(&["c"], false));
    assert!(Arc::ptr_eq(&one, &find(&cache, 1, &a)));
    assert!(!Arc::ptr_eq(&two, &find(&cache, 1, &b)));
    let narrow = ConversationCache::new(10, one.bytes() * 3 / 2);
    let one = find(&narrow, 1, &a);
    find(&narrow, 1, &b);
    assert!(!Arc::ptr_eq(&one, &find(&narrow, 1, &a)), "by bytes too");
    let entries = narrow.entries.lock().unwrap();
    assert_eq!((entries.count, entries.bytes), (1, one.bytes()));
}

#[test]
fn what_was_made_of_it_counts_and_what_is_too_large_is_not_kept() {
    let cache = ConversationCache::new(10, 40_000);
    let texts = |count: usize| vec!["x"; count];
    let feed = |conversation: &Arc<GatewayConversation>, envelope: &Arc<RequestEnvelope>| {
        let items: Vec<&str> = (0..envelope.items.len()).map(|index| envelope.item(index)).collect();
        let pieces = ChatCodec.parse_segments(&items, 0).unwrap();
        let mut state = state();
        state.count(&pieces);
        state.log.feed(pieces).unwrap();
        conversation.weigh(&state);
        cache.update_size(conversation);
    };
    let held = || {
        let entries = cache.entries.lock().unwrap();
        (entries.count, entries.bytes)
    };
    let small = find(&cache, 1, &request(&texts(10), false));
    let unread = small.bytes();
    feed(&small, &request(&texts(10), false));
    assert!(small.bytes() >= unread + 10 * 800, "each message has its price");
    assert_eq!(held(), (1, small.bytes()));
    let many = request(&texts(30), false);
    let large = find(&cache, 2, &many);
    assert_eq!(held().0, 2, "as it was sent there is room");
    feed(&large, &many);
    assert_eq!(held(), (1, large.bytes()), "the other one gives way");
    let parts: Vec<serde_json::Value> = vec![json!({ "type": "text", "text": "x" }); 60];
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": parts }] });
    let parts = Arc::new(ChatCodec.parse_request(body.to_string().into()).unwrap());
    let other = find(&cache, 3, &parts);
    let unread = other.bytes();
    feed(&other, &parts);
    assert!(other.bytes() >= unread + 60 * 100, "and each part");
    let huge = request(&texts(60), false);
    let alone = find(&cache, 4, &huge);
    let before = held();
    feed(&alone, &huge);
    assert_eq!(held().0, before.0 - 1, "it is not kept, and drives nobody out");
    assert!(!Arc::ptr_eq(&alone, &find(&cache, 4, &huge)));
}

#[test]
fn what_is_known_by_its_bytes_is_not_named_again() {
    let cache = ConversationCache::new(10, 1 << 20);
    let unnamed = |scope: u8, envelope: &Arc<RequestEnvelope>| {
        let mut names = ItemNames::new(&ChatCodec, envelope);
        cache.recall(&[scope; 32], &mut names);
        let new: Vec<usize> = (0..names.len()).filter(|at| names.made(*at).is_none()).collect();
        let made: Vec<Option<ItemDigest>> = (0..names.len()).map(|at| names.made(at)).collect();
        let all = ItemNames::new(&ChatCodec, envelope).all().unwrap();
        assert!(made.iter().zip(&all).all(|(made, name)| made.is_none_or(|made| made == *name)));
        let bytes = new.iter().map(|at| envelope.item(*at).len()).sum::<usize>();
        assert_eq!(names.new_bytes(), bytes);
        new
    };
    let old = request(&["a", "b", "c"], false);
    assert_eq!(unnamed(1, &old), [0, 1, 2]);
    find(&cache, 1, &old);
    assert_eq!(unnamed(1, &old), [0; 0]);
    assert_eq!(unnamed(2, &old), [0, 1, 2], "another caller's");
    assert_eq!(unnamed(1, &request(&["a", "b", "c", "d"], false)), [3]);
    assert_eq!(unnamed(1, &request(&["a", "x", "c"], false)), [1], "the same bytes at the same place");
    assert_eq!(unnamed(1, &request(&["x", "b", "c"], false)), [0, 1, 2], "it begins in another way");
    assert_eq!(unnamed(1, &request(&["a", "b", "c"], true)), [0, 1, 2], "it is written in another way");
    let long = |text: &str| "-".repeat(200) + text + &"-".repeat(200);
    let (one, other) = (long("1"), long("2"));
    find(&cache, 1, &request(&[&one], false));
    assert_eq!(unnamed(1, &request(&[&other], false)), [0], "only its edges are the same");
}
