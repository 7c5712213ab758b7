//! The log: order, wholeness, content.

use std::collections::HashSet;
use std::sync::Arc;

use longhaul_core::event::{
    CoalescedMessages, EditKind, EditReason, Event, EventBody, FORMAT, ViewEdit, ViewOperation,
};
use longhaul_core::ids::SessionId;
use longhaul_core::message::{
    BlobRef, MediaPart, Message, ModelOrigin, ModelStopReason, Part, RawJson, ReasoningPart, Role, TextPart,
};

use super::{
    ConformanceSetup, NOW, append, conflict, metadata, metadata_text, new_session, not_found, note, seqs,
    started,
};
use crate::{LogAppend, SharedStore, ViewChangeKind};

/// Appended events get the positions 1, 2, 3 … and are read back there.
pub async fn seq_counts_without_gaps(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    let mut next = 2;
    // Also more events than one row of the SQLite store's reads holds (64).
    for count in [1, 3, 1, 70, 130, 2] {
        let events = (0..count).map(|index| note(&format!("{count}/{index}"))).collect();
        let answer = setup.store.append(&lease, append(events)).await.unwrap();
        assert_eq!(seqs(&answer), (next..next + count).collect::<Vec<_>>());
        // The answer of an append is made without a read. The stored events must be the same.
        assert_eq!(setup.store.read(&setup.id, next - 1, usize::MAX).await.unwrap(), answer);
        next += count;
    }
    let all = setup.store.read(&setup.id, 0, usize::MAX).await.unwrap();
    assert_eq!(seqs(&all), (1..next).collect::<Vec<_>>());
}

/// Every byte of an event is kept: Unicode, control characters, JSON inside, numbers as written.
pub async fn events_come_back_as_they_went_in(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    let text = "a\0b\u{1e}\u{1f}\u{7f}\\\"'\n\r\t\u{2028}\u{feff}é e\u{301} 🦀👩‍👩‍👧 \u{10ffff} {\"a\":1e400} % ? $1 :x --";
    // Numbers that a parser would round or write otherwise, and keys in an order that a map would lose.
    let native = RawJson(r#"{"b":1.0e3,"a":"\u00e9","a":10000000000000000000000}"#.into());
    let parts = vec![
        Part::text(text),
        Part::Text(TextPart { text: String::new(), native: Some(native.clone()) }),
        Part::Reasoning(ReasoningPart { text: String::new(), native: Some(native) }),
    ];
    let origin = Some(ModelOrigin { provider: "p".into(), api: "a".into(), model: text.into() });
    let message = Message { id: text.into(), role: Role::Assistant, parts, origin };
    let body =
        EventBody::AssistantAdded { step_id: "s".into(), message, finish: ModelStopReason::Stop, cut: None };
    setup.store.append(&lease, append(vec![body.clone()])).await.unwrap();
    let stored = setup.store.read(&setup.id, 1, 1).await.unwrap();
    assert_eq!(stored, [Event { seq: 2, at: NOW, format: FORMAT, body }]);
}

/// A message's metadata is stored with the message, also when several messages become one.
pub async fn metadata_is_stored_with_its_message(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    let message = Message::user("m", vec![Part::text("x")]);
    let coalesced = CoalescedMessages {
        message_count: 2,
        original_messages: vec!["b".into(), "c\0".into()],
        first_queued_at: 1,
        last_queued_at: 2,
        original_metadata: [("c\0".into(), metadata("c"))].into(),
    };
    let alone = EventBody::MessagesTaken {
        message: message.clone(),
        taken: vec!["a".into()],
        coalesced: None,
        metadata: Some(metadata("a")),
    };
    let of_two = EventBody::MessagesTaken {
        message,
        taken: vec!["b".into(), "c\0".into()],
        coalesced: Some(coalesced),
        metadata: None,
    };
    setup.store.append(&lease, append(vec![alone.clone(), of_two.clone()])).await.unwrap();
    let log = setup.log().await;
    assert_eq!(log, [started(), alone, of_two]);
    let EventBody::MessagesTaken { metadata: stored, .. } = &log[1] else { panic!("{:?}", log[1]) };
    assert_eq!(metadata_text(stored.as_ref()), metadata_text(Some(&metadata("a"))));
}

/// A body of megabytes is an ordinary event.
pub async fn large_bodies_are_kept(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    let large = note(&"0123456789 \"é\" ".repeat(300_000));
    let events = vec![note("before"), large.clone(), note("after")];
    setup.store.append(&lease, append(events)).await.unwrap();
    assert_eq!(setup.log().await, [started(), note("before"), large, note("after")]);
}

/// An append with a settled queue entry changes nothing at all.
pub async fn a_refused_append_leaves_nothing(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    setup.enqueue("q", None).await.unwrap();
    let chunk = crate::AnswerChunk { step: "step".into(), index: 0, body: "kept".into() };
    setup.store.put_chunk(&lease, chunk.clone()).await.unwrap();
    let refused = LogAppend {
        at: NOW + 1,
        events: vec![note("a"), note("b")],
        takes: vec!["q".into(), "gone".into()],
        settles: vec!["step".into()],
    };
    let before = setup.store.session(&setup.id).await.unwrap();
    // The second name is not in the queue. By then a careless store has taken the first one.
    assert!(conflict(&setup.store.append(&lease, refused).await));
    assert_eq!(setup.store.session(&setup.id).await.unwrap(), before);
    assert_eq!(setup.log().await, [started()]);
    assert_eq!(setup.waiting().await, ["q".into()]);
    assert_eq!(setup.store.chunks(&setup.id).await.unwrap(), [chunk]);
    let next = setup.store.append(&lease, append(vec![note("c")])).await.unwrap();
    assert_eq!(seqs(&next), [2], "the refused call used up no position");
}

/// An append without events takes and settles, and the log stays unchanged.
pub async fn an_append_without_events_takes_and_settles(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    setup.enqueue("q", None).await.unwrap();
    let before = setup.store.session(&setup.id).await.unwrap();
    let takes = LogAppend { at: NOW + 9, takes: vec!["q".into()], ..LogAppend::default() };
    assert_eq!(setup.store.append(&lease, takes).await.unwrap(), []);
    let after = setup.store.session(&setup.id).await.unwrap();
    // The time of the last change is that of the log, so that lists of sessions do not move.
    assert_eq!((after.last_seq, after.updated_at, after.queued), (1, before.updated_at, 0));
}

/// A read continues behind the one before, never past the limit, and is empty at the end.
pub async fn the_log_is_read_in_pages(store: SharedStore) {
    let setup = filled(store, 9).await;
    for (after, limit, expected) in [
        (0, 3, vec![1, 2, 3]),
        (3, 4, vec![4, 5, 6, 7]),
        (7, 100, vec![8, 9, 10]),
        (9, usize::MAX, vec![10]),
        (10, 5, vec![]),
        // A position beyond every log must not wrap around to its beginning.
        (u64::MAX, 5, vec![]),
        (0, 0, vec![]),
    ] {
        let page = setup.store.read(&setup.id, after, limit).await.unwrap();
        assert_eq!(seqs(&page), expected, "after {after}, limit {limit}");
    }
}

/// View-changing events are found by their kind, after any position, up to the limit. Events of other sessions,
/// and events with only the name of the kind in their text, are left out.
pub async fn changes_of_the_view_are_found(store: SharedStore) {
    let setup = filled(store, 2).await;
    let lease = setup.claim().await;
    let restored = ["a", "c"].map(|id| EventBody::ViewRestored { edit_id: id.into() });
    // A restore is of another kind than an edit, and is found by an index of its own.
    let [restored_a, restored_c] = restored;
    // Back-ends find the kind by the first bytes of a body, and a text may mention any kind.
    let mentioned = note(r#"{"kind":"view-edited"}"#);
    let events = vec![edited("a"), mentioned, restored_a, edited("b"), note("n"), edited("c"), restored_c];
    setup.store.append(&lease, append(events)).await.unwrap();
    // The session behind has the next keys. A range without an upper end would read into it.
    let behind = setup.store.claim(&"behind".into(), "owner").await.unwrap();
    setup.store.append(&behind, append(vec![edited("d")])).await.unwrap();
    for (kind, after, limit, expected) in [
        (ViewChangeKind::Edited, 0, 9, vec![4, 7, 9]),
        (ViewChangeKind::Edited, 4, 1, vec![7]),
        (ViewChangeKind::Edited, 9, 9, vec![]),
        (ViewChangeKind::Edited, 0, 0, vec![]),
        (ViewChangeKind::Restored, 0, usize::MAX, vec![6, 10]),
        (ViewChangeKind::Restored, 6, 9, vec![10]),
        (ViewChangeKind::Restored, u64::MAX, 9, vec![]),
    ] {
        let found = setup.store.view_changes(&setup.id, kind, after, limit).await.unwrap();
        assert_eq!(seqs(&found), expected, "{kind:?} after {after}, limit {limit}");
        assert!(found.iter().all(|event| kind.is_kind_of(&event.body)));
    }
    assert!(not_found(&setup.store.view_changes(&"x".into(), ViewChangeKind::Edited, 0, 9).await));
}

fn edited(id: &str) -> EventBody {
    EventBody::ViewEdited(Box::new(ViewEdit {
        id: id.into(),
        base_view_hash: String::new(),
        ops: vec![ViewOperation::clear(1)],
        kind: EditKind::Prune,
        strategy: "s".into(),
        reason: EditReason::Requested,
        trigger_tokens: 0,
        original_tokens: 0,
        compressed_tokens: 0,
        original_bound: 0,
        compressed_bound: 0,
        original_messages: 0,
        compressed_messages: 0,
        why: String::new(),
        usage: None,
        summary: None,
    }))
}

/// Small events and large ones, in any mixture, come back unchanged for every page size.
pub async fn large_events_are_read_among_small_ones(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    let mut written = setup.store.read(&setup.id, 0, 1).await.unwrap();
    let texts = (0..200).map(|index| match index {
        // Above a mebibyte, and two in a row: the SQLite store reads such events in rows of their own.
        20 | 150 | 151 => "large \u{1e}\n".repeat(150_000),
        70..=100 => "middling ".repeat(4_000),
        _ => format!("small \u{1e}{index}"),
    });
    let events = texts.map(|text| note(&text)).collect();
    written.extend(setup.store.append(&lease, append(events)).await.unwrap());
    // Page sizes around the 64 events of one row in the SQLite store.
    for limit in [1, 63, 64, 65, 200, usize::MAX] {
        let mut read = Vec::new();
        while read.len() < written.len() {
            let page = setup.store.read(&setup.id, read.len() as u64, limit).await.unwrap();
            assert!(!page.is_empty() && page.len() <= limit, "{} of {limit}", page.len());
            read.extend(page);
        }
        assert!(read == written, "pages of {limit}");
    }
    assert!(setup.store.tail(&setup.id, 60).await.unwrap() == written[141..], "the tail");
}

/// The tail is the newest events, oldest first.
pub async fn the_tail_is_the_newest(store: SharedStore) {
    let setup = filled(store, 9).await;
    for (limit, expected) in
        [(0, vec![]), (1, vec![10]), (3, vec![8, 9, 10]), (usize::MAX, (1..11).collect())]
    {
        assert_eq!(seqs(&setup.store.tail(&setup.id, limit).await.unwrap()), expected);
    }
}

/// Makes a session between two others, with a log of `count` events behind the first.
async fn filled(store: SharedStore, count: usize) -> ConformanceSetup {
    // A neighbour on either side shows reads that go past the ends of a log.
    store.create(new_session("before", NOW)).await.unwrap();
    let setup = ConformanceSetup::new(store).await;
    setup.store.create(new_session("behind", NOW)).await.unwrap();
    let lease = setup.claim().await;
    setup.store.append(&lease, append(vec![note("n"); count])).await.unwrap();
    setup
}

const WRITERS: usize = 8;
const APPENDS: usize = 40;

/// Eight writers at once, each on its own session: each log holds the events of one writer, in order.
pub async fn writers_of_different_sessions_do_not_mix(store: SharedStore) {
    let ids: Vec<SessionId> = (0..WRITERS).map(|n| SessionId::from(format!("s{n}"))).collect();
    let writers: Vec<_> =
        ids.iter().map(|id| tokio::spawn(write_own(Arc::clone(&store), id.clone()))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    // One writer serves all sessions and gathers their appends in one transaction.
    for id in &ids {
        let log = store.read(id, 0, usize::MAX).await.unwrap();
        let bodies: Vec<EventBody> = log[1..].iter().map(|event| event.body.clone()).collect();
        assert_eq!(seqs(&log), (1..=2 * APPENDS as u64 + 1).collect::<Vec<_>>());
        assert_eq!(bodies, own_events(id).concat());
    }
}

async fn write_own(store: SharedStore, id: SessionId) {
    store.create(new_session(id.as_str(), NOW)).await.unwrap();
    let lease = store.claim(&id, "owner").await.unwrap();
    for events in own_events(&id) {
        store.append(&lease, append(events)).await.unwrap();
    }
}

fn own_events(id: &SessionId) -> Vec<Vec<EventBody>> {
    (0..APPENDS).map(|n| vec![note(&format!("{id}:{n}:a")), note(&format!("{id}:{n}:b"))]).collect()
}

/// A reader beside a writer sees each event once and in order, by asking for newer events.
pub async fn readers_never_see_a_gap(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let lease = setup.claim().await;
    let writing = Arc::clone(&setup.store);
    let writer = tokio::spawn(async move {
        for n in 0..100 {
            writing.append(&lease, append(vec![note(&n.to_string()); 3])).await.unwrap();
        }
    });
    let mut seen = Vec::new();
    while seen.len() < 301 {
        let after = seen.last().copied().unwrap_or(0);
        seen.extend(seqs(&setup.store.read(&setup.id, after, 50).await.unwrap()));
        // Without this the loop could keep the only thread, and the writer would never go on.
        tokio::task::yield_now().await;
    }
    writer.await.unwrap();
    assert_eq!(seen, (1..=301).collect::<Vec<_>>());
}

/// The blobs named by the log are listed, each once. Blobs of another session are not.
pub async fn blobs_named_by_the_log_are_listed(store: SharedStore) {
    let setup = ConformanceSetup::new(store).await;
    let other = new_session("other", NOW);
    let events = vec![(NOW, started()), (NOW, picture("a")), (NOW, picture("z"))];
    setup.store.create(crate::NewSession { events, ..other }).await.unwrap();
    // Both sessions name the blob "a" below. Rights to read it belong to the session, not to the blob.
    assert_eq!(setup.store.blobs(&setup.id).await.unwrap(), []);
    let lease = setup.claim().await;
    setup.store.append(&lease, append(vec![picture("a"), picture("b")])).await.unwrap();
    setup.store.append(&lease, append(vec![picture("b"), picture("c")])).await.unwrap();
    assert_eq!(listed(&setup, "s").await, HashSet::from([blob("a"), blob("b"), blob("c")]));
    assert_eq!(listed(&setup, "other").await, HashSet::from([blob("a"), blob("z")]));
}

async fn listed(setup: &ConformanceSetup, id: &str) -> HashSet<BlobRef> {
    let blobs = setup.store.blobs(&id.into()).await.unwrap();
    let set: HashSet<BlobRef> = blobs.iter().cloned().collect();
    // A set alone would hide a blob that is listed for each event that names it.
    assert_eq!(set.len(), blobs.len(), "each once");
    set
}

fn blob(name: &str) -> BlobRef {
    BlobRef { hash: blake3::hash(name.as_bytes()).to_hex().to_string(), bytes: 7 }
}

fn picture(name: &str) -> EventBody {
    let media =
        MediaPart { blob: blob(name), media_type: "image/png".into(), name: None, width: None, height: None };
    let message = Message::user("m", vec![Part::Image(media)]);
    EventBody::message_taken(message)
}
