//! What is acknowledged is kept, and nothing is kept twice: whatever happens to the server, the connections and the
//! nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longhaul_core::ids::SessionId;
use longhaul_core::message::Part;
use longhaul_store::{
    ClusterStore, Lease, LogAppend, NewQueuedMessage, NodeStatus, Store, StoreError, StoreMaintenance,
};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use sqlx::Connection;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::cluster::Cluster;
use crate::place::Place;
use crate::proxy::Proxy;
use crate::{append, append_of, begin, create, enqueue, fenced, note, notes, quick, run_started, until};

const WRITERS: usize = 8;

/// One writer of one session, as a runtime would be: it claims anew when it has lost the session, and looks into the log
/// when it does not know what became of an append.
struct Writer {
    store: Arc<PostgresStore>,
    id: String,
    acknowledged: Vec<String>,
    /// How often it had to claim.
    claims: usize,
}

impl Writer {
    async fn claim(&mut self) -> Lease {
        loop {
            match self.store.claim(&self.id.as_str().into(), "writer").await {
                Ok(lease) => {
                    self.claims += 1;
                    return lease;
                }
                Err(StoreError::Fenced(_) | StoreError::Storage(_)) => sleep(Duration::from_millis(50)).await,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Writes `0`, `1`, `2` … until `done`; answers with what it was told is kept, and how often it claimed.
    async fn write(
        mut self,
        done: Arc<AtomicBool>,
        acknowledged: Arc<AtomicUsize>,
    ) -> (String, Vec<String>, usize) {
        let mut lease = self.claim().await;
        let mut number = 0;
        while !done.load(Ordering::Relaxed) {
            let text = number.to_string();
            match append(&self.store, &lease, &text).await {
                Ok(_) => {
                    self.acknowledged.push(text);
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                Err(StoreError::Fenced(_) | StoreError::Storage(_)) => {
                    // The append may have been done although its answer was lost. Only the log tells, and only
                    // after a claim, which keeps a late attempt from being written.
                    lease = self.claim().await;
                    if notes(&self.store, &self.id).await.last() != Some(&text) {
                        continue;
                    }
                }
                Err(error) => panic!("{error}"),
            }
            number += 1;
        }
        (self.id, self.acknowledged, self.claims)
    }
}

/// Writers of sessions of their own.
struct Writers {
    store: Arc<PostgresStore>,
    writing: JoinSet<(String, Vec<String>, usize)>,
    done: Arc<AtomicBool>,
    /// The number of acknowledged events of all writers.
    acknowledged: Arc<AtomicUsize>,
}

impl Writers {
    async fn begin(store: PostgresStore) -> Self {
        let (store, done, mut writing) = (Arc::new(store), Arc::<AtomicBool>::default(), JoinSet::new());
        let acknowledged = Arc::<AtomicUsize>::default();
        for number in 0..WRITERS {
            let id = format!("w{number}");
            create(&store, &id).await;
            let writer = Writer { store: Arc::clone(&store), id, acknowledged: Vec::new(), claims: 0 };
            writing.spawn(writer.write(Arc::clone(&done), Arc::clone(&acknowledged)));
        }
        Self { store, writing, done, acknowledged }
    }

    /// Returns whether so many events were acknowledged that losses would be seen. A slow machine takes longer for that.
    fn have_written(&self) -> bool {
        self.acknowledged.load(Ordering::Relaxed) > 100
    }

    /// Waits until they have written enough.
    async fn until_written(&self) {
        until("enough events", async || self.have_written()).await;
    }

    /// Ends them, and compares what they were told with what is there. Answers with how much that is, and how often
    /// they claimed.
    async fn end(self) -> (usize, usize) {
        self.done.store(true, Ordering::Relaxed);
        let (mut events, mut claims) = (0, 0);
        for (id, acknowledged, claimed) in self.writing.join_all().await {
            let kept = notes(&self.store, &id).await;
            let expected: Vec<String> = (0..kept.len()).map(|number| number.to_string()).collect();
            assert_eq!(kept, expected, "{id}: each once, in order");
            let lost: Vec<_> = acknowledged.iter().filter(|text| !kept.contains(text)).collect();
            assert!(lost.is_empty(), "{id}: {lost:?}");
            events += acknowledged.len();
            claims += claimed;
        }
        self.store.close().await;
        (events, claims)
    }
}

/// A node whose lease outlasts the start of a server, also on a machine that has other things to do: it is lost only by
/// what the node does wrong.
fn steady() -> PostgresOptions {
    let (ttl, fence_after) = (Duration::from_secs(60), Duration::from_secs(50));
    PostgresOptions { ttl, fence_after, patience: fence_after, ..PostgresOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_the_server_is_killed() {
    let Some(mut cluster) = Cluster::new().await else { return };
    let place = Place::in_server(cluster.url()).await;
    let writers = Writers::begin(place.open_with(steady()).await).await;
    for round in 0..4 {
        sleep(Duration::from_millis(250 + 90 * round)).await;
        cluster.kill();
        sleep(Duration::from_millis(100)).await;
        cluster.start().await;
    }
    sleep(Duration::from_millis(500)).await;
    writers.until_written().await;
    let (events, claims) = writers.end().await;
    println!("{events} events acknowledged around 4 kills, {claims} claims");
    assert!(events > 100);
    assert_eq!(claims, WRITERS, "a server that comes back at once interrupts nobody");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_all_connections_are_ended_again_and_again() {
    let Some(cluster) = Cluster::new().await else { return };
    let place = Place::in_server(cluster.url()).await;
    let writers = Writers::begin(place.open_with(steady()).await).await;
    let mut storm = place.connect().await;
    let mut ended = 0;
    for round in 0..1_200 {
        if round >= 40 && writers.have_written() {
            break;
        }
        sleep(Duration::from_millis(50)).await;
        let count: i64 = sqlx::query_scalar(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE application_name = 'longhaul' AND pid <> pg_backend_pid()",
        )
        .fetch_one(&mut storm)
        .await
        .unwrap();
        ended += count;
    }
    storm.close().await.unwrap();
    let (events, claims) = writers.end().await;
    println!("{events} events acknowledged while {ended} connections were ended, {claims} claims");
    assert!(events > 100 && ended > 100);
    assert_eq!(claims, WRITERS, "nobody lost a session");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_outage_is_a_pause() {
    let Some(cluster) = Cluster::new().await else { return };
    let proxy = Proxy::to(cluster.port()).await;
    let place = Place::in_server(cluster.url()).await;
    let url = place.url_at(&cluster.url_through(proxy.port()));
    // The outages are much shorter than the time after which a node is fenced, also on a machine that is slow.
    let (ttl, fence_after) = (Duration::from_secs(20), Duration::from_secs(15));
    let options = PostgresOptions { ttl, fence_after, ..quick() };
    let writers = Writers::begin(PostgresStore::open(&url, options).await.unwrap()).await;
    for _ in 0..2 {
        sleep(Duration::from_millis(900)).await;
        proxy.refuse(true);
        sleep(Duration::from_millis(400)).await;
        proxy.refuse(false);
    }
    sleep(Duration::from_millis(500)).await;
    writers.until_written().await;
    let (events, claims) = writers.end().await;
    assert!(events > 100, "{events}");
    assert_eq!(claims, WRITERS, "nobody lost a session");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_long_outage_owners_come_first() {
    let Some(cluster) = Cluster::new().await else { return };
    let (way, other_way) = (Proxy::to(cluster.port()).await, Proxy::to(cluster.port()).await);
    let place = Place::in_server(cluster.url()).await;
    let open = async |proxy: &Proxy| {
        let url = place.url_at(&cluster.url_through(proxy.port()));
        PostgresStore::open(&url, quick()).await.unwrap()
    };
    let (owner, other) = (open(&way).await, Arc::new(open(&other_way).await));
    let writers = Writers::begin(owner).await;
    for number in 0..WRITERS {
        enqueue(&other, &format!("w{number}"), "work").await.unwrap();
    }
    let taking = tokio::spawn(take_orphans(Arc::clone(&other), Arc::clone(&writers.done)));
    // In a database that has just started, others are spared for so long.
    sleep(quick().ttl + Duration::from_millis(500)).await;
    for proxy in [&way, &other_way] {
        proxy.refuse(true);
    }
    sleep(quick().ttl + Duration::from_millis(1_500)).await;
    until("the fence", async || *writers.store.standing().borrow() == NodeStatus::Fenced).await;
    for proxy in [&way, &other_way] {
        proxy.refuse(false);
    }
    sleep(quick().ttl + Duration::from_millis(1_500)).await;
    writers.until_written().await;
    let (events, claims) = writers.end().await;
    assert!(events > 100, "{events}");
    assert_eq!(claims, 2 * WRITERS, "each came back to its session, once");
    assert_eq!(taking.await.unwrap(), 0, "nobody took what others had");
    other.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_outlasts_an_outage_finds_nobody_gone() {
    let Some(place) = Place::new().await else { return };
    let Some(port) = place.port() else { return };
    let (way, other_way) = (Proxy::to(port).await, Proxy::to(port).await);
    let options = PostgresOptions { patience: Duration::from_secs(30), ..quick() };
    let open = async |proxy: &Proxy| {
        PostgresStore::open(&place.url_at(&place.server_at(proxy.port())), options.clone()).await.unwrap()
    };
    let (owner, other) = (open(&way).await, Arc::new(open(&other_way).await));
    let lease = begin(&owner, "s").await;
    append(&owner, &lease, "work").await.unwrap();
    enqueue(&other, "s", "more work").await.unwrap();
    for proxy in [&way, &other_way] {
        proxy.refuse(true);
    }
    // It is asked while nothing is wrong yet, and answered before the owner can have come back.
    let asking = tokio::spawn({
        let other = Arc::clone(&other);
        async move { other.orphans(1, true).await.unwrap() }
    });
    sleep(quick().ttl + Duration::from_millis(1_500)).await;
    until("the fence", async || *other.standing().borrow() == NodeStatus::Fenced).await;
    other_way.refuse(false);
    assert_eq!(
        asking.await.unwrap(),
        Vec::<SessionId>::new(),
        "an owner that may be late was taken for gone"
    );
    // One that stays away is gone.
    until("the takeover", async || other.orphans(1, true).await.unwrap() == ["s".into()]).await;
    way.refuse(false);
    owner.close().await;
    other.close().await;
}

/// Takes what has no owner, as a node does all the time; answers with how much that was.
async fn take_orphans(store: Arc<PostgresStore>, done: Arc<AtomicBool>) -> usize {
    let mut taken = 0;
    while !done.load(Ordering::Relaxed) {
        for id in store.orphans(8, true).await.unwrap_or_default() {
            taken += usize::from(store.claim(&id, "taker").await.is_ok());
        }
        sleep(Duration::from_millis(20)).await;
    }
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn what_arrives_after_the_takeover_is_not_written() {
    let Some(place) = Place::new().await else { return };
    let Some(port) = place.port() else { return };
    let proxy = Proxy::to(port).await;
    let url = place.url_at(&place.server_at(proxy.port()));
    // One connection, so that the statement is known there and goes out whole.
    let owner = PostgresStore::open(&url, PostgresOptions { connections: 1, ..quick() }).await.unwrap();
    let other = place.open_with(quick()).await;
    let lease = begin(&owner, "s").await;
    owner.append(&lease, append_of(vec![run_started(), note("before")])).await.unwrap();
    enqueue(&other, "s", "q").await.unwrap();
    proxy.cut(true);
    let begun = Instant::now();
    // The statement is on its way, and waits there.
    let takes = vec!["q".into()];
    let late = owner.append(&lease, LogAppend { takes, ..append_of(vec![note("late")]) }).await;
    assert!(fenced(&late), "{late:?}");
    let mut taken = None;
    until("the takeover", async || {
        for id in other.orphans(1, true).await.unwrap() {
            taken = other.claim(&id, "taker").await.ok();
        }
        taken.is_some()
    })
    .await;
    let after = begun.elapsed();
    assert!(after < quick().ttl * 4, "{after:?}");
    proxy.cut(false);
    sleep(Duration::from_millis(300)).await;
    assert_eq!(notes(&other, "s").await, ["before"]);
    let takes = vec!["q".into()];
    other.append(&taken.unwrap(), LogAppend { takes, ..append_of(vec![note("after")]) }).await.unwrap();
    assert_eq!(notes(&other, "s").await, ["before", "after"]);
    owner.close().await;
    other.close().await;
}

#[tokio::test]
async fn an_append_whose_answer_was_lost_is_done_once() {
    let Some(place) = Place::new().await else { return };
    let Some(port) = place.port() else { return };
    let proxy = Proxy::to(port).await;
    let url = place.url_at(&place.server_at(proxy.port()));
    let store = PostgresStore::open(&url, PostgresOptions { connections: 2, ..PostgresOptions::default() });
    let store = store.await.unwrap();
    let lease = begin(&store, "s").await;
    let mut expected = Vec::new();
    for number in 0..60 {
        proxy.lose_answer_after(number % 3);
        let text = number.to_string();
        let seq = append(&store, &lease, &text).await.unwrap();
        assert_eq!(seq, number as u64 + 2);
        expected.push(text);
    }
    proxy.lose_nothing();
    assert!(proxy.lost() >= 20, "{}", proxy.lost());
    assert_eq!(notes(&store, "s").await, expected);
    store.close().await;
}

#[tokio::test]
async fn a_message_whose_acceptance_was_lost_is_accepted_once() {
    let Some(place) = Place::new().await else { return };
    let Some(port) = place.port() else { return };
    let proxy = Proxy::to(port).await;
    let url = place.url_at(&place.server_at(proxy.port()));
    let store = PostgresStore::open(&url, PostgresOptions { connections: 1, ..PostgresOptions::default() });
    let store = store.await.unwrap();
    create(&store, "s").await;
    for number in 0..24 {
        let parts = vec![Part::text("x")];
        let id = format!("q{number}");
        let message = NewQueuedMessage::new(id, 1, parts, 99);
        // A call has several answers: to `BEGIN`, to each statement, to `COMMIT`. Each of them is lost in turn.
        proxy.lose_answer_after(number % 12);
        let accepted = store.enqueue(&"s".into(), message).await.unwrap();
        proxy.lose_nothing();
        assert_eq!((accepted.position, accepted.repeated), (number + 1, false));
    }
    assert_eq!(store.queue(&"s".into()).await.unwrap().len(), 24);
    assert!(proxy.lost() >= 8, "{}", proxy.lost());
    store.close().await;
}

#[tokio::test]
async fn a_deletion_at_rest_whose_answer_was_lost_is_reported() {
    let Some(place) = Place::new().await else { return };
    let Some(port) = place.port() else { return };
    let proxy = Proxy::to(port).await;
    let url = place.url_at(&place.server_at(proxy.port()));
    let store = PostgresStore::open(&url, PostgresOptions { connections: 1, ..PostgresOptions::default() });
    let store = store.await.unwrap();
    for number in 0..32 {
        let id = SessionId::from(format!("s{number}").as_str());
        create(&store, id.as_str()).await;
        // Each answer of the call is lost in turn, that to `COMMIT` included, after which the session is gone.
        proxy.lose_answer_after(number % 16);
        let deleted = store.delete_at_rest(&id, u64::MAX >> 1).await.unwrap();
        proxy.lose_nothing();
        assert!(deleted, "the deletion of {id} was done and must be reported");
        assert!(matches!(store.session(&id).await, Err(StoreError::NotFound(_))));
        assert!(!store.delete_at_rest(&id, u64::MAX >> 1).await.unwrap(), "{id} was deleted before");
    }
    assert!(proxy.lost() >= 8, "{}", proxy.lost());
    store.close().await;
}

#[tokio::test]
async fn signals_whose_answer_was_lost_are_taken_all_the_same() {
    let Some(place) = Place::new().await else { return };
    let Some(port) = place.port() else { return };
    let proxy = Proxy::to(port).await;
    let url = place.url_at(&place.server_at(proxy.port()));
    let store = PostgresStore::open(&url, PostgresOptions { connections: 2, ..PostgresOptions::default() });
    let store = store.await.unwrap();
    let lease = begin(&store, "s").await;
    let mut taken = Vec::new();
    for number in 0..30 {
        store.signal(&"s".into(), number.to_string()).await.unwrap();
        proxy.lose_answer_after(number % 3);
        let signals = store.take_signals(&lease).await.unwrap();
        taken.extend(signals.into_iter().map(|signal| signal.body));
        proxy.lose_nothing();
    }
    assert_eq!(taken, (0..30).map(|number| number.to_string()).collect::<Vec<_>>());
    store.close().await;
}

#[tokio::test]
async fn an_append_that_nobody_waits_for_any_more_leaves_the_session_usable() {
    let Some(place) = Place::new().await else { return };
    let Some(port) = place.port() else { return };
    let proxy = Proxy::to(port).await;
    let url = place.url_at(&place.server_at(proxy.port()));
    let options = PostgresOptions { answer_within: Duration::from_millis(500), ..PostgresOptions::default() };
    let store = PostgresStore::open(&url, options).await.unwrap();
    let lease = begin(&store, "s").await;
    for round in 0..6 {
        // Half of them arrive late, the others are done and only their answer comes late.
        let (cut, hold) = (round % 2 == 0, round % 2 == 1);
        proxy.cut(cut);
        proxy.hold_answers(hold);
        let given_up = format!("given up {round}");
        let waiting =
            tokio::time::timeout(Duration::from_millis(100), append(&store, &lease, &given_up)).await;
        assert!(waiting.is_err());
        proxy.cut(false);
        proxy.hold_answers(false);
        append(&store, &lease, &round.to_string()).await.unwrap();
    }
    let kept = notes(&store, "s").await;
    let waited_for: Vec<_> = kept.iter().filter(|text| !text.starts_with("given up")).collect();
    assert_eq!(waited_for, ["0", "1", "2", "3", "4", "5"]);
    for round in 0..6 {
        let times = kept.iter().filter(|text| **text == format!("given up {round}")).count();
        assert!(times <= 1, "{kept:?}");
    }
    store.close().await;
}

#[tokio::test]
async fn signals_that_were_taken_for_nobody_are_taken_again() {
    let Some(place) = Place::new().await else { return };
    let Some(port) = place.port() else { return };
    let proxy = Proxy::to(port).await;
    let url = place.url_at(&place.server_at(proxy.port()));
    let options = PostgresOptions { answer_within: Duration::from_millis(500), ..PostgresOptions::default() };
    let store = PostgresStore::open(&url, options).await.unwrap();
    let other = place.open_with(quick()).await;
    let lease = begin(&store, "s").await;
    for round in 0..4 {
        other.signal(&"s".into(), round.to_string()).await.unwrap();
        proxy.hold_answers(true);
        let waiting = tokio::time::timeout(Duration::from_millis(150), store.take_signals(&lease)).await;
        assert!(waiting.is_err());
        proxy.hold_answers(false);
        let taken = store.take_signals(&lease).await.unwrap();
        assert_eq!(taken.iter().map(|signal| signal.body.as_str()).collect::<Vec<_>>(), [round.to_string()]);
        assert_eq!(store.take_signals(&lease).await.unwrap(), []);
    }
    other.close().await;
    store.close().await;
}

#[tokio::test]
async fn a_database_that_stays_away_is_said_to_be_away() {
    let Some(mut cluster) = Cluster::new().await else { return };
    let place = Place::in_server(cluster.url()).await;
    // Shorter by far than anything else that could end the wait.
    let options = PostgresOptions {
        patience: Duration::from_millis(500),
        ttl: Duration::from_secs(60),
        fence_after: Duration::from_secs(30),
        ..quick()
    };
    let store = place.open_with(options).await;
    let lease = begin(&store, "s").await;
    cluster.kill();
    let begun = Instant::now();
    let read = store.read(&SessionId::from("s"), 0, 1).await;
    let Err(StoreError::Storage(why)) = read else { panic!("{read:?}") };
    assert!(why.starts_with("the database is away"), "{why}");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(fenced(&append(&store, &lease, "x").await));
    cluster.start().await;
    until("coming back", async || store.claim(&"s".into(), "test").await.is_ok()).await;
    store.close().await;
}
