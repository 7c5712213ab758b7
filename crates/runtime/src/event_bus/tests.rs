use super::recent::{MOST, MOST_BYTES};
use super::*;
use longhaul_core::message::Role;

fn passing(text: &str) -> ApiEvent {
    ApiEvent::passing("tool:output", &"s".into(), json!({ "text": text }))
}

/// Returns the announcements of an event: `count` of that position.
fn event(seq: Seq, count: usize) -> Vec<ApiEvent> {
    let one = |at: usize| ApiEvent {
        seq: Some(seq),
        nth: at + 1,
        ends_event: at + 1 == count,
        ..passing(&format!("{seq}.{at}"))
    };
    (0..count).map(one).collect()
}

/// Returns the events after `after` in memory, as text, and the position of the last one.
fn missed(bus: &EventBus, after: Seq, until: Seq, events: usize) -> Option<(String, Seq)> {
    let missed = bus.missed_events(after, until, events)?;
    let texts: Vec<&str> = missed.announcements.iter().map(|one| one.text("text")).collect();
    Some((texts.join(" "), missed.until))
}

#[test]
fn who_comes_late_gets_what_was_said_and_then_the_rest() {
    let bus = EventBus::new("s".into(), 4);
    let step = StepId::from("s5");
    bus.begin(&step, None);
    bus.chunk(&step, ChunkKind::Reasoning, "Hm. ", false);
    bus.chunk(&step, ChunkKind::Text, "Grüße", false);
    let mut late = bus.subscribe(Arc::default());
    bus.chunk(&step, ChunkKind::Text, " an alle", false);
    let snapshot = late.in_flight.take().unwrap();
    assert_eq!(snapshot.payload["parts"][1]["text"], "Grüße");
    assert_eq!(snapshot.payload["offset"], 5);
    let next = late.announcements.try_recv().unwrap();
    assert_eq!((next.text("content"), &next.payload["offset"]), (" an alle", &5.into()));
    assert!(late.announcements.try_recv().is_err(), "nothing comes twice");
    bus.publish_stored(6, Vec::new(), true);
    let later = bus.subscribe(Arc::default());
    assert_eq!((later.told, later.in_flight), (6, None));
}

#[test]
fn an_answer_that_begins_anew_forgets_the_first_try() {
    let bus = EventBus::new("s".into(), 0);
    let step = StepId::from("s1");
    bus.begin(&step, None);
    bus.chunk(&step, ChunkKind::Text, "no", false);
    bus.begin(&step, None);
    assert_eq!(bus.subscribe(Arc::default()).in_flight, None);
}

#[test]
fn an_answer_that_was_paused_goes_on_as_the_message_that_it_was() {
    let bus = EventBus::new("s".into(), 0);
    let parts = vec![Part::text("Once")];
    let paused = Message { id: "m-s1".into(), role: Role::Assistant, parts, origin: None };
    let step = StepId::from("s9");
    bus.begin(&step, Some(&paused));
    bus.chunk(&step, ChunkKind::Text, " upon", false);
    let shown = bus.subscribe(Arc::default()).in_flight.unwrap();
    assert_eq!((shown.text("messageId"), shown.text("stepId")), ("m-s1", "s9"));
    assert_eq!(
        (&shown.payload["parts"][0]["text"], &shown.payload["offset"]),
        (&"Once upon".into(), &9.into())
    );
}

/// Returns the length of an answer that goes on from `attendance`.
fn length(attendance: EventSubscription) -> u64 {
    let EventSubscription { mut announcements, in_flight, .. } = attendance;
    let mut length = in_flight.map_or(0, |shown| shown.payload["offset"].as_u64().unwrap());
    while let Ok(next) = announcements.try_recv() {
        assert_eq!(next.payload["offset"], length, "a piece is missing or comes twice");
        length += next.text("content").len() as u64;
    }
    length
}

#[test]
fn who_comes_during_an_answer_is_shown_what_others_were_shown() {
    let bus = EventBus::new("s".into(), 0);
    let step = StepId::from("s1");
    let _watching = bus.subscribe(Arc::default());
    bus.begin(&step, None);
    let mut shown: Vec<Arc<SharedEvent>> = Vec::new();
    for at in 1..=MOST as u64 {
        bus.chunk(&step, ChunkKind::Text, "x", false);
        let late = bus.subscribe(Arc::default());
        let snapshot = late.in_flight.clone().unwrap();
        if shown.last().is_none_or(|last| !Arc::ptr_eq(last, &snapshot)) {
            shown.push(snapshot);
        }
        assert_eq!(length(late), at);
    }
    assert!(shown.len() < 20, "{} were made for {MOST} who came", shown.len());
    bus.publish_stored(1, event(1, 1), true);
    assert_eq!(bus.subscribe(Arc::default()).in_flight, None);
}

/// They are shown the queue too: what had changed in it does not follow what they are shown.
#[test]
fn who_comes_after_a_change_of_the_queue_does_not_hear_of_it() {
    let bus = EventBus::new("s".into(), 0);
    let step = StepId::from("s1");
    bus.begin(&step, None);
    bus.chunk(&step, ChunkKind::Text, "Once", false);
    let _first = bus.subscribe(Arc::default());
    let queued = ApiEvent::passing("message:queued", &"s".into(), json!({ "id": "q1" }));
    bus.publish_passing(queued);
    let mut second = bus.subscribe(Arc::default());
    assert!(second.announcements.try_recv().is_err(), "it came before");
    bus.chunk(&step, ChunkKind::Text, " upon", false);
    assert_eq!(second.announcements.try_recv().unwrap().text("content"), " upon");
}

#[test]
fn what_was_said_while_nobody_watched_is_shown() {
    let bus = EventBus::new("s".into(), 0);
    let step = StepId::from("s1");
    bus.begin(&step, None);
    bus.chunk(&step, ChunkKind::Text, "one", false);
    assert_eq!(length(bus.subscribe(Arc::default())), 3);
    bus.chunk(&step, ChunkKind::Text, " two", false);
    assert_eq!(length(bus.subscribe(Arc::default())), 7);
}

#[test]
fn what_is_told_is_written_once_for_all() {
    let bus = EventBus::new("s".into(), 0);
    let mut watching: Vec<_> = (0..9).map(|_| bus.subscribe(Arc::default()).announcements).collect();
    bus.publish_passing(passing("hello"));
    let mut writings = 0;
    for one in &mut watching {
        let written = one.try_recv().unwrap().written(|told| {
            writings += 1;
            told.text("text").to_owned().into()
        });
        assert_eq!(written, "hello");
    }
    assert_eq!(writings, 1);
}

#[test]
fn what_is_behind_too_far_is_lost_and_said_so() {
    let bus = EventBus::new("s".into(), 0);
    let mut slow = bus.subscribe(Arc::default()).announcements;
    for at in 0..MOST + 7 {
        bus.publish_passing(passing(&at.to_string()));
    }
    assert_eq!(slow.try_recv().unwrap_err(), TryRecvError::Lagged(7));
    assert_eq!(slow.try_recv().unwrap().text("text"), "7");
}

#[test]
fn large_announcements_are_bounded_in_bytes() {
    let bus = EventBus::new("s".into(), 0);
    let mut slow = bus.subscribe(Arc::default()).announcements;
    let large = "x".repeat(MOST_BYTES / 10);
    for _ in 0..100 {
        bus.publish_passing(passing(&large));
    }
    assert!(bus.lock().recent.bytes() <= MOST_BYTES);
    assert!(matches!(slow.try_recv(), Err(TryRecvError::Lagged(90..))));
    bus.publish_passing(passing(&"x".repeat(3 * MOST_BYTES)));
    assert!(matches!(slow.try_recv(), Err(TryRecvError::Lagged(_))));
    let heard = slow.try_recv().unwrap();
    assert_eq!(heard.text("text").len(), 3 * MOST_BYTES, "one that is larger than all is heard all the same");
}

#[test]
fn recent_events_are_found_in_memory_and_older_ones_are_not() {
    let bus = EventBus::new("s".into(), 4);
    bus.publish_stored(5, event(5, 2), false);
    assert_eq!(missed(&bus, 4, 5, 9), None, "there was no subscriber");
    let _watching = bus.subscribe(Arc::default());
    assert_eq!(missed(&bus, 4, 5, 9), None);
    bus.publish_stored(6, event(6, 2), false);
    bus.publish_passing(passing("in between"));
    bus.publish_stored(7, Vec::new(), false);
    bus.publish_stored(8, event(8, 1), false);
    let found = |after, until, events| missed(&bus, after, until, events);
    assert_eq!(found(5, 8, 9), Some(("6.0 6.1 8.0".to_owned(), 8)));
    assert_eq!(found(5, 7, 9), Some(("6.0 6.1".to_owned(), 7)));
    assert_eq!(found(5, 8, 1), Some(("6.0 6.1".to_owned(), 6)));
    assert_eq!(found(6, 8, 1), Some(("8.0".to_owned(), 8)));
    assert_eq!(found(7, 8, 1), Some(("8.0".to_owned(), 8)));
    for seq in 9..9 + MOST as Seq {
        bus.publish_stored(seq, event(seq, 1), false);
    }
    assert_eq!(found(7, 20, 9), None);
    assert_eq!(found(8, 20, 1), Some(("9.0".to_owned(), 9)));
}

#[test]
fn a_session_at_rest_keeps_nothing_and_its_watchers_hear_what_comes() {
    let bus = EventBus::new("s".into(), 0);
    let mut watching = bus.subscribe(Arc::default()).announcements;
    bus.publish_stored(1, event(1, 1), false);
    bus.rest();
    assert_eq!((missed(&bus, 0, 1, 9), bus.lock().recent.bytes()), (None, 0));
    bus.publish_stored(2, event(2, 1), false);
    assert_eq!(watching.try_recv().unwrap_err(), TryRecvError::Lagged(1));
    assert_eq!(watching.try_recv().unwrap().text("text"), "2.0");
    assert_eq!(missed(&bus, 1, 2, 9), Some(("2.0".to_owned(), 2)));
    drop(watching);
    bus.rest();
    bus.publish_stored(3, event(3, 1), false);
    assert_eq!((missed(&bus, 2, 3, 9), bus.lock().recent.bytes()), (None, 0), "there is no subscriber");
}

#[tokio::test]
async fn who_waits_hears_the_next_and_the_end() {
    let bus = EventBus::new("s".into(), 0);
    let mut waiting = bus.subscribe(Arc::default()).announcements;
    let told = tokio::spawn({
        let bus = Arc::clone(&bus);
        async move {
            bus.publish_passing(passing("hello"));
            bus.end();
        }
    });
    assert_eq!(waiting.recv().await.unwrap().text("text"), "hello");
    assert_eq!(waiting.recv().await.unwrap_err(), RecvError::Closed);
    told.await.unwrap();
}
