//! Three nodes on one PostgreSQL, behind nothing: everybody talks to any of them while nodes are killed, stopped
//! without their knowing, and told to end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::Connection;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::api::Api;
use super::fleet::{Fleet, LEASE, TAKEN_OVER, until};
use super::model::{Model, Say};
use super::rng::Rng;
use super::server::{PATIENCE, Place, Rules, ServerProcess, Shared};
use super::talk::{Talker, brief, busy, conclude, talkers};
use super::{number, seed};
use crate::bench::write_closed;
use crate::postgres::Schema;

const NODES: usize = 3;

/// What is done to a node.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    /// It stands still for longer than its lease, and then goes on.
    Stop,
    End,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_die_and_every_session_goes_on_elsewhere() {
    let Some(schema) = Schema::new("nodes").await else { return };
    let seed = seed("nodes");
    let rounds = number("LONGHAUL_NODE_ROUNDS").unwrap_or(3);
    let sessions = number("LONGHAUL_NODE_SESSIONS").unwrap_or(12) as usize;
    let model = Model::start(move |asked| busy(seed, asked)).await;
    let common = Place::new(&model.url);
    let shared = common_to_nodes(&common, &schema);
    let places: Vec<Place> = (0..NODES).map(|_| Place::node(&model.url, &shared)).collect();
    let talkers = talkers(sessions, seed, &common);
    let mut rng = Rng::of(seed, "nodes");
    let (mut struck, mut slowest) = ([0; 3], Duration::ZERO);
    let mut running: Vec<Option<ServerProcess>> = (0..NODES).map(|_| None).collect();
    for round in 0..rounds {
        for (place, node) in places.iter().zip(&mut running) {
            if node.is_none() {
                *node = Some(place.start(Rules { continues: true, ..Rules::default() }).await);
            }
        }
        let apis: Vec<Api> = running.iter().flatten().map(|node| node.api.clone()).collect();
        let mut tasks = talk_to_all(&apis, &talkers, round as usize);
        tokio::time::sleep(Duration::from_millis(1_500 + rng.below(2_000))).await;
        let fault = *rng.pick(&[Fault::Kill, Fault::Stop, Fault::End]);
        let fault = [Fault::Kill, Fault::Stop, Fault::End].get(round as usize).copied().unwrap_or(fault);
        let hit = rng.below(NODES as u64) as usize;
        struck[fault as usize] += 1;
        slowest = slowest.max(strike(&mut running[hit], fault, &schema).await);
        tasks.abort_all();
        while let Some(talked) = tasks.join_next().await {
            assert!(!talked.is_err_and(|error| error.is_panic()), "round {round}, {fault:?} of {hit}");
        }
        let found = talkers.iter().flat_map(|talker| talker.account().look().complaints.clone());
        assert_eq!(found.collect::<Vec<_>>(), Vec::<String>::new(), "round {round}, {fault:?} of {hit}");
    }
    let left = running.iter().flatten().next().unwrap();
    let longest = all_reached(&left.api, &talkers).await;
    let events = conclude(&left.api, &talkers, &common, &model).await;
    let recovered = events
        .iter()
        .filter(|event| matches!(event.body, longhaul_core::event::EventBody::Recovered { .. }))
        .count();
    let accounts = || talkers.iter().map(|talker| talker.account().look());
    let messages: usize =
        accounts().map(|known| known.sent.values().filter(|sent| sent.id.is_some()).count()).sum();
    let told: usize =
        accounts().map(|known| known.told.values().map(|told| told.texts.len()).sum::<usize>()).sum();
    eprintln!(
        "nodes: {rounds} rounds, {sessions} sessions; killed, stopped, ended: {struck:?}; {messages} messages, {} events, \
         {told} announcements heard, {recovered} recoveries; {slowest:?} without a node after the end of a lease at most, reached after {longest:?}",
        events.len()
    );
    for node in running.into_iter().flatten() {
        assert!(node.terminate().await.status.success());
    }
}

pub(crate) fn common_to_nodes(common: &Place, schema: &Schema) -> Arc<Shared> {
    let folder = common.work().with_file_name("common");
    std::fs::create_dir(&folder).unwrap();
    let token = folder.join("token");
    write_closed(&token, &Uuid::now_v7().simple().to_string());
    Arc::new(Shared {
        db: schema.url(),
        token,
        blobs: folder.join("blobs"),
        work: common.work(),
        ..Shared::default()
    })
}

/// Everybody talks to one of the nodes, another one each round.
fn talk_to_all(apis: &[Api], talkers: &[Talker], round: usize) -> JoinSet<()> {
    let all = talkers.iter().enumerate();
    all.map(|(index, talker)| talker.clone().keep_talking(apis[(index + round) % apis.len()].clone()))
        .collect()
}

/// Does that to a node, and waits until the others have its sessions. For how long one of them with work had none after
/// the end of its lease, at most.
async fn strike(node: &mut Option<ServerProcess>, fault: Fault, schema: &Schema) -> Duration {
    let server = node.take().unwrap();
    match fault {
        Fault::Kill => {
            server.kill().await;
            orphaned(schema).await
        }
        Fault::Stop => {
            server.stop();
            let orphaned = orphaned(schema).await;
            server.go_on();
            tokio::time::sleep(Duration::from_secs(2)).await;
            *node = Some(server);
            orphaned
        }
        Fault::End => {
            let ended = server.terminate().await;
            assert!(ended.status.success(), "{}", ended.said);
            Duration::ZERO
        }
    }
}

/// Looks at sessions with work whose node is gone until the last of them must have another. For how long one of them was
/// found so without a pause, at most: from the end of its node's lease, or from its first work after that.
async fn orphaned(schema: &Schema) -> Duration {
    let mut db = sqlx::PgConnection::connect(&schema.url()).await.unwrap();
    let (begun, mut since, mut longest) = (Instant::now(), HashMap::<String, Instant>::new(), Duration::ZERO);
    let mut counts: Vec<(u128, usize)> = Vec::new();
    while begun.elapsed() < TAKEN_OVER {
        let looked = Instant::now();
        let left: Vec<String> = sqlx::query_scalar(
            "SELECT id FROM session
             WHERE (running OR no IN (SELECT session_no FROM inbox WHERE state = 0) AND NOT parked)
               AND owner IS NOT NULL
               AND NOT EXISTS (SELECT FROM node WHERE boot_id = session.owner AND lease_until > clock_timestamp())",
        )
        .fetch_all(&mut db)
        .await
        .unwrap();
        let found = left.into_iter().map(|id| {
            let at = since.get(&id).copied().unwrap_or(looked);
            (id, at)
        });
        since = found.collect::<HashMap<_, _>>();
        if counts.last().map_or(0, |(_, count)| *count) != since.len() {
            counts.push((begun.elapsed().as_millis(), since.len()));
        }
        longest = since.values().map(|at| at.elapsed()).max().unwrap_or_default().max(longest);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    eprintln!("nodes: sessions without a node, each time so many ms after the fault: {counts:?}");
    assert!(longest < TAKEN_OVER - LEASE, "one had no node for {longest:?}");
    longest
}

/// Waits until every session answers through one node; how long the last one took.
async fn all_reached(api: &Api, talkers: &[Talker]) -> Duration {
    let begun = Instant::now();
    for session in talkers.iter().filter_map(Talker::session) {
        while api.session(session).await.unwrap().status != 200 {
            assert!(begun.elapsed() < TAKEN_OVER, "{session} has no node after {:?}", begun.elapsed());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    begun.elapsed()
}

/// How many sessions a node has that is killed: more than are taken over at a time.
const MANY: usize = 120;

/// As [`TAKEN_OVER`], and somewhat more for a machine that has other things to do.
const ALL_TAKEN_OVER: Duration = Duration::from_secs(16);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_a_node_had_is_taken_over_in_time() {
    let seed = seed("many");
    let model = Model::start(|asked| Say { stalls: true, ..brief(asked) }).await;
    let rules = Rules { continues: true, ..Rules::default() };
    let Some(mut fleet) = Fleet::start(&model.url, NODES, rules, "").await else { return };
    let talkers = talkers(MANY, seed, &fleet.common);
    let dead = fleet.boots().await.remove(0);
    let node = fleet.nodes.remove(0);
    for talker in &talkers {
        talker.begin(&node.api).await.unwrap();
    }
    let mut db = fleet.connect().await;
    let mut left = async |what: &str| -> i64 {
        let asked = format!("SELECT count(*) FROM session WHERE owner = $1 AND {what}");
        sqlx::query_scalar(sqlx::AssertSqlSafe(asked)).bind(&dead).fetch_one(&mut db).await.unwrap()
    };
    until("all of them run", PATIENCE, async || left("running").await == MANY as i64).await;
    node.kill().await;
    // Nobody asks for them.
    let took = until("they have another node", ALL_TAKEN_OVER, async || left("true").await == 0).await;
    eprintln!("many: {MANY} sessions taken over after {took:?}");
    model.hurry();
    let api = fleet.nodes[0].api.clone();
    for talker in &talkers {
        api.post(&format!("/api/sessions/{}/cancel", talker.session().unwrap()), serde_json::json!({}))
            .await
            .unwrap();
    }
    conclude(&api, &talkers, &fleet.common, &model).await;
    fleet.nothing_is_late().await;
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_node_has_another_shows_and_deletes() {
    let Some(schema) = Schema::new("two").await else { return };
    let model = Model::start(brief).await;
    let common = Place::new(&model.url);
    let shared = common_to_nodes(&common, &schema);
    let [one, other] = [Place::node(&model.url, &shared), Place::node(&model.url, &shared)];
    let (one, other) = (one.start(Rules::default()).await, other.start(Rules::default()).await);
    let sent = one.api.send(None, "hello", "k").await.unwrap().good();
    let session = sent["sessionId"].as_str().unwrap();
    super::talk::rest(&other.api, session).await;
    assert_eq!(other.api.log(session).await.unwrap().len(), one.api.log(session).await.unwrap().len());
    // The same key with something else is refused at every node.
    assert_eq!(other.api.send(Some(session), "more", "l").await.unwrap().status, 200);
    assert_eq!(one.api.send(Some(session), "other", "l").await.unwrap().status, 422);
    // Names are short within a session only.
    let decision = serde_json::json!({ "decision": "allow" });
    let short = other.api.post("/api/approvals/a-c-s4-0", decision).await.unwrap();
    assert!(
        short.status == 409 && short.body["detail"].as_str().unwrap().contains("SESSION:NAME"),
        "{short:?}"
    );
    super::talk::rest(&one.api, session).await;
    assert_eq!(other.api.delete(&format!("/api/sessions/{session}")).await.unwrap().status, 200);
    assert_eq!(one.api.session(session).await.unwrap().status, 404);
    for node in [one, other] {
        assert!(node.terminate().await.status.success());
    }
}
