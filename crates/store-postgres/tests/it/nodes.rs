//! Several nodes on one database: whose a session is, and what becomes of it when its owner does not come back.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul_core::event::{EventBody, RunEnd};
use longhaul_core::ids::SessionId;
use longhaul_store::{AnswerChunk, ClusterStore, Lease, LogAppend, NodeStatus, Store, StoreError};
use longhaul_store_postgres::{PostgresOptions, PostgresStore};
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::cluster::Cluster;
use crate::place::Place;
use crate::proxy::Proxy;
use crate::{
    append, append_of, begin, create, elsewhere, enqueue, fenced, note, notes, quick, run_started, until,
};

/// Long enough to see that something waits.
const SHORT: Duration = Duration::from_millis(300);

/// Shorter than a write waits for a lock.
const AT_ONCE: Duration = Duration::from_secs(3);

/// A node that is fenced long before its lease ends, so that a machine with other things to do shows no other order.
fn long_leased() -> PostgresOptions {
    PostgresOptions { ttl: Duration::from_secs(15), ..quick() }
}

async fn claim(store: &PostgresStore, id: &str) -> Result<Lease, StoreError> {
    store.claim(&id.into(), "test").await
}

#[tokio::test]
async fn a_session_of_another_node_is_not_given() {
    let Some(place) = Place::new().await else { return };
    let here = place.open_with(PostgresOptions { address: Some("10.0.0.7:4096".into()), ..quick() }).await;
    let there = place.open_with(quick()).await;
    let lease = begin(&here, "s").await;
    let refused = claim(&there, "s").await.unwrap_err();
    let address = Some("10.0.0.7:4096".to_owned());
    assert_eq!(refused, StoreError::Elsewhere { session: "s".into(), address });
    assert_eq!(refused.to_string(), "session s is held by another node (10.0.0.7:4096)");
    assert_eq!(there.delete(&"s".into()).await, Err(StoreError::Busy("s".into())));
    append(&here, &lease, "still mine").await.unwrap();
    assert!(fenced(&append(&there, &lease, "not mine").await), "a lease belongs to its node");
    let again = claim(&here, "s").await.unwrap();
    assert_eq!(again.epoch, lease.epoch + 1, "its own session may be claimed again");
    here.release(&again).await.unwrap();
    let taken = claim(&there, "s").await.unwrap();
    assert_eq!(taken.epoch, again.epoch + 1);
    assert!(elsewhere(&claim(&here, "s").await));
    assert!(fenced(&append(&here, &again, "late").await));
    there.close().await;
    here.close().await;
}

#[tokio::test]
async fn nodes_are_listed_with_what_they_have() {
    let Some(place) = Place::new().await else { return };
    let here = place.open_with(PostgresOptions { address: Some("here:1".into()), ..quick() }).await;
    let there = place.open_with(quick()).await;
    for id in ["a", "b"] {
        begin(&here, id).await;
    }
    create(&there, "free").await;
    let listed = there.nodes().await.unwrap();
    let shown: Vec<_> = listed.iter().map(|node| (node.address.as_deref(), node.sessions)).collect();
    assert_eq!(shown, [(Some("here:1"), 2), (None, 0)]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    assert!(listed.iter().all(|node| u128::from(node.since).abs_diff(now) < 60_000));
    let owner = there.living_owner(&"a".into()).await.unwrap().unwrap();
    assert_eq!(owner, listed[0]);
    assert_eq!(*here.standing().borrow(), NodeStatus::Joined(owner.boot_id));
    assert_eq!(there.living_owner(&"free".into()).await, Ok(None));
    let unknown = there.living_owner(&"nobody".into()).await;
    assert!(matches!(unknown, Err(StoreError::NotFound(_))));
    here.close().await;
    assert_eq!(*here.standing().borrow(), NodeStatus::Left);
    assert_eq!(there.nodes().await.unwrap().len(), 1);
    assert_eq!(there.living_owner(&"a".into()).await, Ok(None));
    claim(&there, "a").await.unwrap();
    there.close().await;
}

fn with_token(token: &str) -> PostgresOptions {
    PostgresOptions { token_digest: Some(token.to_owned()), address: Some(format!("{token}:1")), ..quick() }
}

#[tokio::test]
async fn a_node_with_another_token_is_not_let_in_while_others_live() {
    let Some(place) = Place::new().await else { return };
    let refused = async |token: &str| PostgresStore::open(&place.url(), with_token(token)).await.unwrap_err();
    let (one, beside) = (place.open_with(with_token("one")).await, place.open_with(with_token("one")).await);
    let silent = place.open_with(quick()).await;
    assert_eq!(refused("two").await, StoreError::OtherToken("one:1".into()));
    assert_eq!(one.nodes().await.unwrap().len(), 3, "who is refused is no node");
    one.close().await;
    assert_eq!(refused("two").await, StoreError::OtherToken("one:1".into()), "one is left");
    beside.close().await;
    let two = place.open_with(with_token("two")).await;
    assert_eq!(refused("one").await, StoreError::OtherToken("two:1".into()));
    // It stands still, and counts until its lease has run out.
    let mut standing = two.standing();
    two.stall(true);
    assert_eq!(refused("one").await, StoreError::OtherToken("two:1".into()));
    until("the end of its lease", async || two.nodes().await.unwrap().len() == 1).await;
    let one = place.open_with(with_token("one")).await;
    two.stall(false);
    let fenced = |now: &NodeStatus| *now == NodeStatus::Fenced;
    timeout(crate::PATIENCE, standing.wait_for(fenced)).await.unwrap().unwrap();
    let joined = |now: &NodeStatus| matches!(now, NodeStatus::Joined(_));
    assert!(timeout(quick().ttl, standing.wait_for(joined)).await.is_err(), "it stays out");
    one.close().await;
    timeout(crate::PATIENCE, standing.wait_for(joined)).await.unwrap().unwrap();
    silent.close().await;
    two.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_start_together_have_one_token() {
    let Some(place) = Place::new().await else { return };
    let mut opening = JoinSet::new();
    for number in 0..9 {
        let (url, token) = (place.url(), ["one", "two", "three"][number % 3]);
        let options = PostgresOptions { connections: 1, ..with_token(token) };
        opening.spawn(async move { (token, PostgresStore::open(&url, options).await) });
    }
    let (mut tokens, mut stores) = (HashSet::new(), Vec::new());
    for (token, opened) in opening.join_all().await {
        match opened {
            Ok(store) => {
                tokens.insert(token);
                stores.push(store);
            }
            Err(refused) => assert!(matches!(refused, StoreError::OtherToken(_)), "{refused}"),
        }
    }
    assert_eq!((tokens.len(), stores.len()), (1, 3));
    for store in stores {
        store.close().await;
    }
}

#[tokio::test]
async fn a_node_knows_when_the_first_lease_of_another_ends() {
    let Some(place) = Place::new().await else { return };
    let options = || PostgresOptions { ttl: Duration::from_secs(20), ..PostgresOptions::default() };
    let here = place.open_with(options()).await;
    let left = async || here.next_lease_end().await.unwrap().map(|left| left.as_secs());
    assert_eq!(left().await, None, "alone, it waits for nobody, itself included");
    let (there, late) = (place.open_with(options()).await, place.open_with(options()).await);
    until("a young database sparing others", async || left().await.is_some()).await;
    let full = 10..=20;
    assert!(left().await.is_some_and(|left| full.contains(&left)), "{:?}", left().await);
    let NodeStatus::Joined(name) = late.standing().borrow().clone() else { panic!("it has joined") };
    let set = |seconds: i64| {
        let until = format!("clock_timestamp() + interval '{seconds} s'");
        format!("UPDATE node SET lease_until = {until} WHERE boot_id = '{name}'")
    };
    late.stall(true);
    place.execute(&set(8)).await;
    assert!(left().await.is_some_and(|left| left < 8), "{:?}", left().await);
    place.execute(&set(-1)).await;
    assert!(left().await.is_some_and(|left| full.contains(&left)), "one is gone, the other lives");
    there.close().await;
    assert_eq!(left().await, None);
    for node in [late, here] {
        node.close().await;
    }
}

/// Which sessions count as orphans, by their names.
async fn orphans(store: &PostgresStore) -> HashSet<String> {
    orphans_with(store, false).await
}

/// The same, and those whose messages wait since a cancel or a crash, if they are asked for.
async fn orphans_with(store: &PostgresStore, waiting: bool) -> HashSet<String> {
    let ids = store.orphans(1_000, waiting).await.unwrap();
    ids.iter().map(|id| id.as_str().to_owned()).collect()
}

#[tokio::test]
async fn orphans_have_work_and_no_living_owner() {
    let Some(place) = Place::new().await else { return };
    let gone = place.open_with(quick()).await;
    let parked = || EventBody::Parked { reason: "again and again".to_owned() };
    let finished = EventBody::RunFinished { run_id: "r".into(), reason: RunEnd::Stop, error: None };
    for (id, events, queued) in [
        ("running", vec![run_started()], false),
        ("waiting", vec![], true),
        ("cancelled", vec![run_started(), finished.clone()], true),
        ("resting", vec![run_started(), finished.clone()], false),
        ("parked", vec![run_started(), finished, parked()], true),
        ("taken", vec![], false),
    ] {
        let lease = begin(&gone, id).await;
        if queued {
            enqueue(&gone, id, "m").await.unwrap();
        }
        gone.append(&lease, append_of(events)).await.unwrap();
        if id == "taken" {
            enqueue(&gone, id, "m").await.unwrap();
            let takes = vec!["m".into()];
            gone.append(&lease, LogAppend { takes, ..append_of(vec![note("x")]) }).await.unwrap();
        }
    }
    let living = place.open_with(quick()).await;
    let kept = begin(&living, "kept").await;
    living.append(&kept, append_of(vec![run_started()])).await.unwrap();
    assert_eq!(orphans(&living).await, HashSet::new(), "their owner lives");
    gone.close().await;
    let expected = HashSet::from(["running".to_owned(), "waiting".to_owned()]);
    until("a young database sparing others", async || !orphans(&living).await.is_empty()).await;
    assert_eq!(orphans(&living).await, expected);
    let waiting = expected.into_iter().chain(["cancelled".to_owned()]).collect();
    assert_eq!(orphans_with(&living, true).await, waiting);
    assert_eq!(living.orphans(1, true).await.unwrap().len(), 1);
    claim(&living, "running").await.unwrap();
    assert_eq!(orphans(&living).await, HashSet::from(["waiting".to_owned()]));
    living.close().await;
}

/// The owner of `s`, `t` and `u` is stopped without knowing it; another node takes them when the lease has run out.
struct Stopped {
    owner: PostgresStore,
    /// What it had: of `s`, and of the others.
    lease: Lease,
    more: [Lease; 2],
    other: PostgresStore,
    /// What the other node has of `s`.
    taken: Lease,
    /// How long the lease of the owner lasted from there on, and after how long `s` was taken.
    left: Duration,
    after: Duration,
}

async fn stopped(place: &Place) -> Stopped {
    let (owner, other) = (place.open_with(quick()).await, place.open_with(quick()).await);
    let lease = begin(&owner, "s").await;
    let more = [begin(&owner, "t").await, begin(&owner, "u").await];
    owner.append(&lease, append_of(vec![run_started(), note("before")])).await.unwrap();
    enqueue(&owner, "s", "q").await.unwrap();
    owner.stall(true);
    let begun = Instant::now();
    let left = other.next_lease_end().await.unwrap().unwrap_or_default();
    assert!(elsewhere(&claim(&other, "s").await));
    let mut taken = None;
    until("the takeover", async || {
        if orphans(&other).await.contains("s") {
            taken = Some(claim(&other, "s").await.unwrap());
        }
        taken.is_some()
    })
    .await;
    let after = begun.elapsed();
    for id in ["t", "u"] {
        claim(&other, id).await.unwrap();
    }
    Stopped { owner, lease, more, other, taken: taken.unwrap(), left, after }
}

#[tokio::test]
async fn a_lease_that_has_run_out_is_not_revived() {
    let Some(place) = Place::new().await else { return };
    let node = place.open_with(quick()).await;
    let lease = begin(&node, "s").await;
    let mut standing = node.standing();
    let first = standing.borrow_and_update().clone();
    // By its own clock the node is in time; the clock of the database decides.
    place.execute("UPDATE node SET lease_until = clock_timestamp() - interval '1 second'").await;
    let again = |now: &NodeStatus| matches!(now, NodeStatus::Joined(_)) && *now != first;
    timeout(crate::PATIENCE, standing.wait_for(again)).await.unwrap().unwrap();
    assert!(fenced(&append(&node, &lease, "late").await));
    assert_eq!(node.nodes().await.unwrap().len(), 1, "its earlier life is over");
    assert!(claim(&node, "s").await.unwrap().epoch > lease.epoch);
    node.close().await;
}

#[tokio::test]
async fn a_session_is_taken_when_its_owners_lease_has_run_out() {
    let Some(place) = Place::new().await else { return };
    let Stopped { owner, lease, other, taken, left, after, .. } = stopped(&place).await;
    assert!(after >= left && after < quick().ttl * 4, "{after:?}, the lease {left:?}");
    assert!(taken.epoch > lease.epoch);
    append(&other, &taken, "after").await.unwrap();
    assert_eq!(notes(&other, "s").await, ["before", "after"]);
    other.close().await;
    owner.close().await;
}

#[tokio::test]
async fn a_stopped_owner_writes_nothing_after_the_takeover() {
    let Some(place) = Place::new().await else { return };
    let Stopped { owner, lease, more, other, taken, .. } = stopped(&place).await;
    owner.signal(&"s".into(), "cancel".into()).await.unwrap();
    let id = SessionId::from("s");
    let before = (other.session(&id).await, other.queue(&id).await, other.chunks(&id).await);
    // It still believes in its leases, so this is what the database itself refuses: the first time, each.
    let takes = vec!["q".into()];
    let late = LogAppend { takes, settles: vec!["step".into()], ..append_of(vec![note("late")]) };
    assert!(fenced(&owner.append(&lease, late).await));
    let [for_chunk, for_signals] = more;
    other.signal(&"u".into(), "cancel".into()).await.unwrap();
    assert!(fenced(&owner.take_signals(&for_signals).await));
    assert_eq!(other.signals(&"u".into()).await.unwrap().len(), 1);
    let chunk = AnswerChunk { step: "step".into(), index: 0, body: "late".into() };
    assert!(fenced(&owner.put_chunk(&for_chunk, chunk).await));
    assert_eq!(other.chunks(&"t".into()).await.unwrap(), []);
    for attempt in 0..3 {
        let takes = vec!["q".into()];
        let late = LogAppend { takes, settles: vec!["step".into()], ..append_of(vec![note("late")]) };
        assert!(fenced(&owner.append(&lease, late).await), "{attempt}");
        assert!(fenced(&owner.take_signals(&lease).await), "{attempt}");
    }
    assert!(matches!(claim(&owner, "s").await, Err(StoreError::Elsewhere { .. })));
    assert_eq!((other.session(&id).await, other.queue(&id).await, other.chunks(&id).await), before);
    assert_eq!(other.take_signals(&taken).await.unwrap().len(), 1);
    // Awake again, it finds that it is late, and comes back under another name.
    let name = owner.standing().borrow().clone();
    owner.stall(false);
    assert!(fenced(&append(&owner, &lease, "late").await));
    let mut standing = owner.standing();
    let back = |now: &NodeStatus| matches!(now, NodeStatus::Joined(_)) && *now != name;
    timeout(crate::PATIENCE, standing.wait_for(back)).await.unwrap().unwrap();
    assert!(fenced(&append(&owner, &lease, "late").await), "old leases stay void");
    assert_eq!(notes(&other, "s").await, ["before"]);
    append(&other, &taken, "mine").await.unwrap();
    other.close().await;
    owner.close().await;
}

#[tokio::test]
async fn a_node_that_cannot_renew_stops_by_itself_and_comes_back_as_another() {
    let Some(place) = Place::new().await else { return };
    let Some(port) = place.port() else { return };
    let proxy = Proxy::to(port).await;
    let url = place.url_at(&place.server_at(proxy.port()));
    let node = PostgresStore::open(&url, long_leased()).await.unwrap();
    let lease = begin(&node, "s").await;
    let mut standing = node.standing();
    let first = standing.borrow_and_update().clone();
    proxy.cut(true);
    let begun = Instant::now();
    // An append that waits for an answer is let go at that moment, and no later.
    let waiting = append(&node, &lease, "unanswered").await;
    let after = begun.elapsed();
    assert!(fenced(&waiting) && *standing.borrow_and_update() == NodeStatus::Fenced, "{waiting:?}");
    assert!(after < long_leased().ttl, "before the lease ends: {after:?}");
    let at_once = Instant::now();
    assert!(fenced(&append(&node, &lease, "late").await));
    assert!(fenced(&claim(&node, "s").await));
    assert!(at_once.elapsed() < long_leased().patience / 2, "it does not ask: {:?}", at_once.elapsed());
    proxy.refuse(true);
    proxy.cut(false);
    proxy.refuse(false);
    let joined = |now: &NodeStatus| matches!(now, NodeStatus::Joined(_));
    let second = timeout(crate::PATIENCE, standing.wait_for(joined)).await.unwrap().unwrap().clone();
    assert_ne!(first, second);
    assert!(fenced(&append(&node, &lease, "late").await));
    assert_eq!(orphans(&node).await, HashSet::new());
    let again = claim(&node, "s").await.unwrap();
    assert!(again.epoch > lease.epoch);
    append(&node, &again, "back").await.unwrap();
    let kept = notes(&node, "s").await;
    assert!(!kept.contains(&"late".to_owned()) && kept.last().unwrap() == "back", "{kept:?}");
    node.close().await;
}

/// Waits until the node has joined under another name than `before`, and claims `s` there.
async fn back(node: &PostgresStore, before: &NodeStatus) -> Lease {
    let mut standing = node.standing();
    let other = |now: &NodeStatus| matches!(now, NodeStatus::Joined(_)) && now != before;
    timeout(crate::PATIENCE, standing.wait_for(other)).await.unwrap().unwrap();
    claim(node, "s").await.unwrap()
}

/// What waits for an answer on a connection that is forgotten.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    /// An append, until the node is fenced.
    Append,
    /// Nothing.
    Nothing,
    /// Something that nobody gives up.
    Read,
}

#[tokio::test]
async fn connections_that_nobody_answers_any_more_do_not_keep_a_node_away() {
    let Some(place) = Place::new().await else { return };
    let Some(port) = place.port() else { return };
    let proxy = Proxy::to(port).await;
    let url = place.url_at(&place.server_at(proxy.port()));
    let options = PostgresOptions { connections: 1, ..quick() };
    let hangs = options.answer_within / 2;
    let node = Arc::new(PostgresStore::open(&url, options).await.unwrap());
    let mut lease = begin(&node, "s").await;
    for waiting in [Waiting::Append, Waiting::Nothing, Waiting::Read] {
        let before = node.standing().borrow().clone();
        // The connection goes back into its pool some time after the last answer, and nobody is told.
        sleep(Duration::from_millis(200)).await;
        proxy.cut(true);
        let node_of_read = Arc::clone(&node);
        let read = match waiting {
            Waiting::Read => Some(tokio::spawn(async move { node_of_read.session(&"s".into()).await })),
            Waiting::Append | Waiting::Nothing => None,
        };
        if let Waiting::Append = waiting {
            let append = append(&node, &lease, "unanswered").await;
            assert!(fenced(&append), "{append:?}");
        }
        let is_fenced = |now: &NodeStatus| *now == NodeStatus::Fenced;
        timeout(crate::PATIENCE, node.standing().wait_for(is_fenced)).await.unwrap().unwrap();
        proxy.forget();
        proxy.cut(false);
        let begun = Instant::now();
        lease = back(&node, &before).await;
        append(&node, &lease, &format!("{waiting:?}")).await.unwrap();
        assert!(begun.elapsed() < hangs, "{waiting:?}: {:?}", begun.elapsed());
        if let Some(read) = read {
            let last_seq = read.await.unwrap().unwrap().last_seq;
            assert!((3..=4).contains(&last_seq), "asked again: {last_seq}");
        }
    }
    assert_eq!(notes(&node, "s").await, ["Append", "Nothing", "Read"]);
    proxy.close();
    assert!(fenced(&append(&node, &lease, "late").await));
}

#[tokio::test]
async fn a_database_that_hangs_or_ends_is_left_in_time() {
    let Some(mut cluster) = Cluster::new().await else { return };
    let place = Place::in_server(cluster.url()).await;
    let node = place.open_with(long_leased()).await;
    let mut lease = begin(&node, "s").await;
    for hangs in [true, false] {
        let before = node.standing().borrow().clone();
        if hangs {
            cluster.freeze()
        } else {
            cluster.end()
        }
        let begun = Instant::now();
        let waiting = append(&node, &lease, "unanswered").await;
        let after = begun.elapsed();
        assert!(fenced(&waiting) && *node.standing().borrow() == NodeStatus::Fenced, "{hangs}: {waiting:?}");
        assert!(after < long_leased().ttl, "{hangs}: before the lease ends: {after:?}");
        if hangs {
            cluster.thaw()
        } else {
            cluster.start().await
        }
        let again = back(&node, &before).await;
        assert!(again.epoch > lease.epoch);
        lease = again;
        append(&node, &lease, "back").await.unwrap();
    }
    // What was under way when it stood still may have been done when it went on, and then before the next claim.
    let kept = notes(&node, "s").await;
    assert_eq!(kept.iter().filter(|text| **text == "back").count(), 2, "{kept:?}");
    assert_eq!(kept.last().unwrap(), "back");
    node.close().await;
}

#[tokio::test]
async fn sessions_are_taken_whatever_else_waits() {
    let Some(place) = Place::new().await else { return };
    let node = place.open_with(PostgresOptions { connections: 1, ..quick() }).await;
    let busy = begin(&node, "busy").await;
    create(&node, "free").await;
    let mut other = PgConnection::connect(&place.url()).await.unwrap();
    let mut blocking = other.begin().await.unwrap();
    sqlx::query("SELECT FROM session WHERE id = 'busy' FOR UPDATE").execute(&mut *blocking).await.unwrap();
    let mut appending = pin!(append(&node, &busy, "at last"));
    assert!(timeout(SHORT, &mut appending).await.is_err(), "it waits");
    assert!(timeout(SHORT, node.queue(&"free".into())).await.is_err(), "the one connection is taken");
    for _ in 0..2 {
        timeout(AT_ONCE, node.orphans(1, true)).await.unwrap().unwrap();
        timeout(AT_ONCE, node.next_lease_end()).await.unwrap().unwrap();
        timeout(AT_ONCE, claim(&node, "free")).await.unwrap().unwrap();
    }
    blocking.rollback().await.unwrap();
    appending.await.unwrap();
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_somebody_locks_keeps_nobody_from_the_others() {
    const LOCKED: usize = 8;
    let Some(place) = Place::new().await else { return };
    let node = Arc::new(place.open_with(quick()).await);
    for locked in 0..LOCKED {
        create(&node, &format!("locked-{locked}")).await;
    }
    create(&node, "free").await;
    let mut other = PgConnection::connect(&place.url()).await.unwrap();
    let mut blocking = other.begin().await.unwrap();
    sqlx::query("SELECT FROM session WHERE id <> 'free' FOR UPDATE").execute(&mut *blocking).await.unwrap();
    let mut waiting = JoinSet::new();
    for locked in 0..LOCKED {
        let node = Arc::clone(&node);
        waiting.spawn(async move { claim(&node, &format!("locked-{locked}")).await });
    }
    assert!(timeout(SHORT, waiting.join_next()).await.is_err(), "they wait");
    for _ in 0..3 {
        timeout(AT_ONCE, node.orphans(9, false)).await.unwrap().unwrap();
        timeout(AT_ONCE, claim(&node, "free")).await.unwrap().unwrap();
    }
    blocking.rollback().await.unwrap();
    while let Some(claimed) = waiting.join_next().await {
        claimed.unwrap().unwrap();
    }
    node.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_sixteen_nodes_that_race_for_orphans_one_gets_each() {
    const NODES: usize = 16;
    const SESSIONS: usize = 200;
    let Some(cluster) = Cluster::new().await else { return };
    let place = Place::in_server(cluster.url()).await;
    let options =
        PostgresOptions { connections: 2, ttl: Duration::from_secs(20), ..PostgresOptions::default() };
    let gone = place.open().await;
    for number in 0..SESSIONS {
        let lease = begin(&gone, &format!("s{number}")).await;
        gone.append(&lease, append_of(vec![run_started()])).await.unwrap();
    }
    gone.close().await;
    place.execute("UPDATE node SET lease_until = clock_timestamp() - interval '1 second'").await;
    let mut opening = JoinSet::new();
    for _ in 0..NODES {
        let (url, options) = (place.url(), options.clone());
        opening.spawn(async move { Arc::new(PostgresStore::open(&url, options).await.unwrap()) });
    }
    let nodes = opening.join_all().await;
    // The server has just started: until now, its nodes may have been late.
    until("orphans", async || !orphans(&nodes[0]).await.is_empty()).await;
    let begun = Instant::now();
    let mut racing = JoinSet::new();
    for node in &nodes {
        let node = Arc::clone(node);
        racing.spawn(async move {
            let mut claimed = Vec::new();
            loop {
                let found = node.orphans(8, true).await.unwrap();
                if found.is_empty() {
                    return claimed;
                }
                for id in found {
                    match node.claim(&id, "race").await {
                        Ok(lease) => claimed.push(lease),
                        Err(error) => assert!(matches!(error, StoreError::Elsewhere { .. }), "{error}"),
                    }
                }
            }
        });
    }
    let claimed: Vec<Lease> = racing.join_all().await.into_iter().flatten().collect();
    let took = begun.elapsed();
    let distinct: HashSet<&SessionId> = claimed.iter().map(|lease| &lease.session_id).collect();
    assert_eq!((claimed.len(), distinct.len()), (SESSIONS, SESSIONS));
    println!("{NODES} nodes took {SESSIONS} orphans in {took:?}");
    for node in nodes {
        node.close().await;
    }
}
