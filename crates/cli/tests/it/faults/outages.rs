//! The database under whole nodes: killed, ended, hung; its connections ended again and again; refused for a while.

use std::time::{Duration, Instant};

use longhaul_core::event::{Event, EventBody};

use super::fleet::{Fleet, Hold, LEASE, all_reached, holding, no_complaints, stop, until};
use super::model::Model;
use super::rng::Rng;
use super::server::{PATIENCE, Rules};
use super::talk::{Talker, conclude, rest, talkers};
use super::{number, seed};
use crate::cluster::children;

const NODES: usize = 2;

/// Rules of nodes that go on by themselves.
const CONTINUES: Rules = Rules { continues: true, run_timeout: None };

/// What happens to the database.
#[derive(Clone, Copy, Debug)]
enum Outage {
    /// All its processes are killed.
    Killed,
    /// It ends in order.
    Ended,
    /// It stands still: connections stay, and nothing is answered.
    Hung,
}

impl Outage {
    const ALL: [Self; 3] = [Self::Hung, Self::Killed, Self::Ended];

    fn begin(self, fleet: &mut Fleet) {
        match self {
            Self::Killed => fleet.cluster.kill(),
            Self::Ended => fleet.cluster.end(),
            Self::Hung => fleet.cluster.freeze(),
        }
    }

    async fn end(self, fleet: &mut Fleet) {
        match self {
            Self::Killed | Self::Ended => fleet.cluster.start().await,
            Self::Hung => fleet.cluster.thaw(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_goes_and_comes_back_under_whole_nodes() {
    let seed = seed("outages");
    let rounds = number("LONGHAUL_NODE_ROUNDS").unwrap_or(3);
    let sessions = number("LONGHAUL_NODE_SESSIONS").unwrap_or(6) as usize;
    let model = Model::start(move |asked| holding(seed, asked)).await;
    let Some(mut fleet) = Fleet::start(&model.url, NODES, CONTINUES, "").await else { return };
    let talkers = talkers(sessions, seed, &fleet.common);
    let mut rng = Rng::of(seed, "outages");
    let mut held = Vec::new();
    let mut joined = Instant::now();
    for round in 0..rounds {
        let drawn = *rng.pick(&Outage::ALL);
        let outage = Outage::ALL.get(round as usize).copied().unwrap_or(drawn);
        let context = format!("LONGHAUL_FAULT_SEED={seed}, round {round}, {outage:?}");
        let tasks = fleet.talk(&talkers, round);
        if let Outage::Hung = outage {
            // Until nodes that have just come look for sessions that nobody has: they may do so when it hangs.
            tokio::time::sleep((LEASE + Duration::from_secs(1)).saturating_sub(joined.elapsed())).await;
        }
        let mut holds = Vec::new();
        for node in 0..NODES {
            holds.push(fleet.hold(node, &format!("{round}-{node}"), seed).await);
        }
        tokio::time::sleep(Duration::from_millis(500 + rng.below(1_500))).await;
        outage.begin(&mut fleet);
        let stopped = everything_stops(&fleet, &holds, &context).await;
        outage.end(&mut fleet).await;
        for node in 0..NODES {
            fleet.until_ready(node).await;
        }
        joined = Instant::now();
        eprintln!("outages: {outage:?}: everything stopped after {stopped:?}");
        for hold in &holds {
            goes_on(&fleet, hold, &context).await;
        }
        stop(tasks, &context).await;
        held.extend(holds.into_iter().map(|hold| hold.talker));
        no_complaints(&talkers, &context);
        no_complaints(&held, &context);
    }
    let all: Vec<Talker> = talkers.into_iter().chain(held).collect();
    let api = fleet.nodes[0].api.clone();
    all_reached(&api, &all).await;
    let events = conclude(&api, &all, &fleet.common, &model).await;
    fleet.nothing_is_late().await;
    eprintln!("outages: {rounds} rounds, {} sessions, {} events", all.len(), events.len());
    fleet.end().await;
}

/// Without the database nodes say that they are not ready, end what runs before others could have it, and start nothing.
/// How long that took.
async fn everything_stops(fleet: &Fleet, holds: &[Hold], context: &str) -> Duration {
    let begun = Instant::now();
    // What a driver waits for must not keep it from ending its tools.
    let asking: Vec<_> = fleet
        .nodes
        .iter()
        .zip(holds)
        .map(|(node, hold)| {
            let (api, session) = (node.api.clone(), hold.session().to_owned());
            tokio::spawn(async move {
                let _ = api.delete(&format!("/api/message/queue?sessionId={session}")).await;
            })
        })
        .collect();
    for (node, hold) in fleet.nodes.iter().zip(holds) {
        let left = LEASE.saturating_sub(begun.elapsed());
        until(&format!("{context}: the tool is ended"), left, async || !hold.runs()).await;
        let left = LEASE.saturating_sub(begun.elapsed());
        until(&format!("{context}: no tool is left"), left, async || children(node.pid()).is_empty()).await;
        let left = LEASE.saturating_sub(begun.elapsed()) + Duration::from_secs(1);
        until(&format!("{context}: it is not ready"), left, async || !node.api.is_ready().await).await;
    }
    let took = begun.elapsed();
    let before = fleet.marks();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(fleet.marks(), before, "{context}: tools were started without the database");
    for asking in asking {
        asking.abort();
    }
    took
}

/// The session whose tool was ended comes to rest, and its tool was not started again.
async fn goes_on(fleet: &Fleet, hold: &Hold, context: &str) {
    let api = &fleet.nodes[0].api;
    all_reached(api, std::slice::from_ref(&hold.talker)).await;
    rest(api, hold.session()).await;
    let events = api.log(hold.session()).await.unwrap();
    let started = count(&events, |body| matches!(body, EventBody::ToolStarted { .. }));
    let finished = count(&events, |body| matches!(body, EventBody::ToolFinished { .. }));
    assert_eq!((started, finished), (1, 1), "{context}: {events:#?}");
    assert!(!hold.runs(), "{context}: the tool was started again");
}

fn count(events: &[Event], wanted: impl Fn(&EventBody) -> bool) -> usize {
    events.iter().filter(|event| wanted(&event.body)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storms_of_connections_lose_nothing_and_move_nothing() {
    let seed = seed("storms");
    let rounds = number("LONGHAUL_NODE_ROUNDS").unwrap_or(1);
    let sessions = number("LONGHAUL_NODE_SESSIONS").unwrap_or(8) as usize;
    let model = Model::start(move |asked| holding(seed, asked)).await;
    let Some(fleet) = Fleet::start(&model.url, NODES, CONTINUES, "").await else { return };
    let talkers = talkers(sessions, seed, &fleet.common);
    let boots = fleet.boots().await;
    let mut rng = Rng::of(seed, "storms");
    let mut ended = 0;
    for round in 0..rounds {
        let context = format!("LONGHAUL_FAULT_SEED={seed}, round {round}");
        let tasks = fleet.talk(&talkers, 0);
        tokio::time::sleep(Duration::from_millis(700)).await;
        ended += storm(&fleet, &mut rng).await;
        // Shorter than it takes until a node gives up.
        for _ in 0..2 {
            fleet.ways.iter().for_each(|way| way.refuse(true));
            tokio::time::sleep(Duration::from_millis(1_500 + rng.below(1_000))).await;
            fleet.ways.iter().for_each(|way| way.refuse(false));
            // Until each has renewed its lease.
            tokio::time::sleep(Duration::from_millis(3_500)).await;
        }
        stop(tasks, &context).await;
        no_complaints(&talkers, &context);
        assert_eq!(fleet.boots().await, boots, "{context}: both nodes have lived all the time");
    }
    let claimed_again: Vec<String> = {
        let mut db = fleet.connect().await;
        let asked = sqlx::query_scalar("SELECT id FROM session WHERE epoch <> (no << 32) + 1");
        asked.fetch_all(&mut db).await.unwrap()
    };
    assert_eq!(claimed_again, Vec::<String>::new(), "their nodes lived: nobody had to claim them again");
    let api = fleet.nodes[0].api.clone();
    let events = conclude(&api, &talkers, &fleet.common, &model).await;
    fleet.nothing_is_late().await;
    let recovered = count(&events, |body| matches!(body, EventBody::Recovered { .. }));
    assert!(recovered == 0 && ended > 50, "{recovered} recoveries, {ended} connections ended");
    eprintln!("storms: {ended} connections ended, {} events of {sessions} sessions", events.len());
    fleet.end().await;
}

/// Ends all connections of the nodes again and again, for four seconds; how many that were.
async fn storm(fleet: &Fleet, rng: &mut Rng) -> i64 {
    let mut db = fleet.connect().await;
    let (begun, mut ended) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(4) {
        tokio::time::sleep(Duration::from_millis(40 + rng.below(160))).await;
        let count: i64 = sqlx::query_scalar(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE application_name = 'longhaul' AND pid <> pg_backend_pid()",
        )
        .fetch_one(&mut db)
        .await
        .unwrap();
        ended += count;
    }
    ended
}

/// One that ends while the database is away ends all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_ends_without_the_database() {
    let seed = seed("ends");
    let model = Model::start(move |asked| holding(seed, asked)).await;
    let Some(mut fleet) = Fleet::start(&model.url, 1, CONTINUES, "").await else { return };
    let hold = fleet.hold(0, "ends", seed).await;
    fleet.cluster.freeze();
    let node = fleet.nodes.pop().unwrap();
    until("the node has stopped", PATIENCE, async || !hold.runs()).await;
    let ended = node.terminate().await;
    assert!(ended.status.success(), "{}", ended.said);
    fleet.cluster.thaw();
}
