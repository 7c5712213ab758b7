//! What nodes hear of each other: new events, messages, signals; also when notifications are lost.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::ids::Seq;
use longhaul_core::message::Part;
use longhaul_store::{ClusterStore, Store, StoreError};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use tokio::time::timeout;

use crate::place::Place;
use crate::{PATIENCE, append, append_of, begin, enqueue, note, quick};

/// A node that does not look by itself: what it knows of others it was told.
fn told() -> PostgresOptions {
    PostgresOptions { poll_every: Duration::from_secs(3_600), ..PostgresOptions::default() }
}

/// A node that nobody tells anything, because all who send wait an hour.
fn looking() -> PostgresOptions {
    PostgresOptions { notify_every: Duration::from_secs(3_600), ..quick() }
}

/// Two nodes that know each other only as `options` say.
async fn two(place: &Place, options: PostgresOptions) -> (PostgresStore, PostgresStore) {
    (place.open_with(options.clone()).await, place.open_with(options).await)
}

/// Waits until `there` hears what `here` does, so that a test does not begin before both listen.
async fn listening(here: &PostgresStore, there: &PostgresStore) {
    let lease = begin(here, "listening").await;
    let watch = there.watch(&"listening".into()).await.unwrap();
    crate::until("listening", async || {
        append(here, &lease, "x").await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        watch.has_changed().unwrap()
    })
    .await;
}

/// Follows the log of `s` on `there` while `here` appends to it: every position comes once, in order.
async fn follow(here: PostgresStore, there: PostgresStore) {
    const EVENTS: Seq = 600;
    let lease = begin(&here, "s").await;
    let mut watch = there.watch(&"s".into()).await.unwrap();
    let writing = tokio::spawn(async move {
        for round in 0..EVENTS / 3 {
            here.append(&lease, append_of(vec![note("a"), note("b"), note("c")])).await.unwrap();
            if round % 50 == 0 {
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        }
        here
    });
    let mut seen: Vec<Seq> = Vec::new();
    while seen.len() < EVENTS as usize + 1 {
        let last = seen.last().copied().unwrap_or(0);
        let events = there.read(&"s".into(), last, usize::MAX).await.unwrap();
        seen.extend(events.iter().map(|event| event.seq));
        if seen.len() < EVENTS as usize + 1 {
            timeout(PATIENCE, watch.changed()).await.unwrap().unwrap();
            let announced = *watch.borrow_and_update();
            assert!(announced >= last, "{announced} after {last}");
        }
    }
    assert_eq!(seen, (1..=EVENTS + 1).collect::<Vec<_>>());
    let here = writing.await.unwrap();
    crate::until("the last position", async || *watch.borrow_and_update() == EVENTS + 1).await;
    here.close().await;
    there.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_on_another_node_sees_every_event_in_order() {
    let Some(place) = Place::new().await else { return };
    let (here, there) = two(&place, told()).await;
    listening(&here, &there).await;
    follow(here, there).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_sees_every_event_also_when_no_notification_comes() {
    let Some(place) = Place::new().await else { return };
    let (here, there) = two(&place, looking()).await;
    // The first notification is sent at once; it is used up here.
    begin(&here, "other").await;
    enqueue(&here, "other", "m").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    follow(here, there).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_when_the_connection_that_listens_was_ended() {
    let Some(place) = Place::new().await else { return };
    let (here, there) = two(&place, told()).await;
    listening(&here, &there).await;
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE query LIKE 'LISTEN%' AND application_name = 'longhaul' AND datname = current_database()";
    place.execute(sql).await;
    let lease = begin(&here, "s").await;
    let watch = there.watch(&"s".into()).await.unwrap();
    crate::until("hearing again", async || {
        append(&here, &lease, "x").await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        watch.has_changed().unwrap()
    })
    .await;
    here.close().await;
    there.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_on_another_node_ends_with_its_session() {
    let Some(place) = Place::new().await else { return };
    for options in [told(), looking()] {
        let (here, there) = two(&place, options.clone()).await;
        if options == told() {
            listening(&here, &there).await;
        }
        let lease = begin(&here, "s").await;
        here.release(&lease).await.unwrap();
        let mut watch = there.watch(&"s".into()).await.unwrap();
        here.delete(&"s".into()).await.unwrap();
        assert!(timeout(PATIENCE, watch.changed()).await.unwrap().is_err());
        begin(&here, "s").await;
        assert_eq!(*there.watch(&"s".into()).await.unwrap().borrow(), 1);
        here.close().await;
        there.close().await;
        place.execute("DELETE FROM event; DELETE FROM session").await;
    }
}

async fn arrives(arrivals: &mut longhaul_store::SessionChangeReceiver, id: &str) {
    let arriving = async { while arrivals.next().await.unwrap().as_str() != id {} };
    timeout(PATIENCE, arriving).await.unwrap();
}

async fn owner_hears(options: PostgresOptions, listen: bool) {
    let Some(place) = Place::new().await else { return };
    let (owner, other) = two(&place, options).await;
    if listen {
        listening(&other, &owner).await;
    }
    let lease = begin(&owner, "s").await;
    begin(&other, "not of the owner").await;
    let mut arrivals = owner.arrivals();
    // What a node finds when it first looks at a session is no news.
    tokio::time::sleep(Duration::from_millis(if listen { 200 } else { 2_000 })).await;
    while timeout(Duration::from_millis(10), arrivals.next()).await.is_ok() {}
    enqueue(&other, "not of the owner", "m").await.unwrap();
    enqueue(&other, "s", "m").await.unwrap();
    arrives(&mut arrivals, "s").await;
    assert_eq!(owner.queue(&"s".into()).await.unwrap().len(), 1);
    other.edit_queued(&"s".into(), &"m".into(), vec![Part::text("new")], None).await.unwrap();
    arrives(&mut arrivals, "s").await;
    other.remove_queued(&"s".into(), &"m".into()).await.unwrap();
    arrives(&mut arrivals, "s").await;
    other.signal(&"s".into(), "cancel".into()).await.unwrap();
    arrives(&mut arrivals, "s").await;
    let taken = owner.take_signals(&lease).await.unwrap();
    assert_eq!(taken[0].body, "cancel");
    assert!(timeout(Duration::from_millis(500), arrivals.next()).await.is_err(), "nothing is new");
    owner.close().await;
    assert_eq!(arrivals.next().await, None);
    other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_hears_what_others_did() {
    owner_hears(told(), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_sees_what_others_did_also_when_no_notification_comes() {
    owner_hears(looking(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_is_taken_once_by_the_owner() {
    let Some(place) = Place::new().await else { return };
    let (owner, other) = two(&place, quick()).await;
    let lease = begin(&owner, "s").await;
    begin(&other, "t").await;
    for body in ["first", "second \0"] {
        other.signal(&"s".into(), body.into()).await.unwrap();
    }
    other.signal(&"t".into(), "for another".into()).await.unwrap();
    let bodies = |signals: Vec<longhaul_store::SessionSignal>| -> Vec<String> {
        signals.into_iter().map(|signal| signal.body).collect()
    };
    for store in [&owner, &other] {
        assert_eq!(bodies(store.signals(&"s".into()).await.unwrap()), ["first", "second \0"]);
    }
    assert_eq!(bodies(owner.take_signals(&lease).await.unwrap()), ["first", "second \0"]);
    assert_eq!(owner.signals(&"s".into()).await.unwrap(), []);
    assert_eq!(owner.take_signals(&lease).await.unwrap(), []);
    append(&owner, &lease, "goes on").await.unwrap();
    other.signal(&"s".into(), "third".into()).await.unwrap();
    let newer = owner.claim(&"s".into(), "test").await.unwrap();
    assert!(crate::fenced(&owner.take_signals(&lease).await));
    assert_eq!(bodies(owner.take_signals(&newer).await.unwrap()), ["third"]);
    let unknown = other.signal(&"nobody".into(), "x".into()).await;
    assert!(matches!(unknown, Err(StoreError::NotFound(_))));
    assert!(matches!(other.signals(&"nobody".into()).await, Err(StoreError::NotFound(_))));
    other.close().await;
    owner.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_signals_sent_while_they_are_taken_none_is_lost_or_doubled() {
    let Some(place) = Place::new().await else { return };
    let (owner, other) = two(&place, quick()).await;
    let (owner, other) = (Arc::new(owner), Arc::new(other));
    let lease = begin(&owner, "s").await;
    let sending = tokio::spawn(async move {
        for number in 0..100 {
            other.signal(&"s".into(), number.to_string()).await.unwrap();
        }
        other
    });
    let mut taken = Vec::new();
    crate::until("all signals", async || {
        let more = owner.take_signals(&lease).await.unwrap();
        taken.extend(more.into_iter().map(|signal| signal.body));
        taken.len() >= 100
    })
    .await;
    let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(taken, expected);
    sending.await.unwrap().close().await;
    owner.close().await;
}
