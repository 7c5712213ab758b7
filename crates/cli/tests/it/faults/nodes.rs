//! Three nodes on one PostgreSQL, behind nothing: everybody talks to any of them while nodes are killed, stopped
//! without their knowing, and told to end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use uuid::Uuid;

use super::api::Api;
use super::model::Model;
use super::rng::Rng;
use super::server::{Place, Rules, Server, Shared};
use super::talk::{Talker, brief, busy, conclude, talkers};
use super::{number, seed};
use crate::postgres::Schema;

const NODES: usize = 3;

/// Longer than a lease and a sweep: by then the sessions of a node that is gone have another one.
const TAKEN_OVER: Duration = Duration::from_secs(13);

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
    let mut running: Vec<Option<Server>> = (0..NODES).map(|_| None).collect();
    for round in 0..rounds {
        for (place, node) in places.iter().zip(&mut running) {
            if node.is_none() {
                *node = Some(place.start(Rules { continues: true }).await);
            }
        }
        let apis: Vec<Api> = running.iter().flatten().map(|node| node.api.clone()).collect();
        let mut tasks = talk_to_all(&apis, &talkers, round as usize);
        tokio::time::sleep(Duration::from_millis(1_500 + rng.below(2_000))).await;
        let fault = *rng.pick(&[Fault::Kill, Fault::Stop, Fault::End]);
        let fault = [Fault::Kill, Fault::Stop, Fault::End].get(round as usize).copied().unwrap_or(fault);
        let hit = rng.below(NODES as u64) as usize;
        strike(&mut running[hit], fault).await;
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
    eprintln!(
        "nodes: {rounds} rounds, {sessions} sessions, {} events, {recovered} recoveries, reached after {longest:?}",
        events.len()
    );
    for node in running.into_iter().flatten() {
        assert!(node.terminate().await.status.success());
    }
}

fn common_to_nodes(common: &Place, schema: &Schema) -> Arc<Shared> {
    let folder = common.work().with_file_name("common");
    std::fs::create_dir(&folder).unwrap();
    let token = folder.join("token");
    std::fs::write(&token, Uuid::now_v7().simple().to_string()).unwrap();
    Arc::new(Shared { db: schema.url(), token, blobs: folder.join("blobs"), work: common.work() })
}

/// Everybody talks to one of the nodes, another one each round.
fn talk_to_all(apis: &[Api], talkers: &[Talker], round: usize) -> JoinSet<()> {
    let all = talkers.iter().enumerate();
    all.map(|(index, talker)| talker.clone().keep_talking(apis[(index + round) % apis.len()].clone()))
        .collect()
}

/// Does that to a node, and waits until the others have its sessions.
async fn strike(node: &mut Option<Server>, fault: Fault) {
    let server = node.take().unwrap();
    match fault {
        Fault::Kill => {
            server.kill().await;
            tokio::time::sleep(TAKEN_OVER).await;
        }
        Fault::Stop => {
            server.stop();
            tokio::time::sleep(TAKEN_OVER).await;
            server.go_on();
            tokio::time::sleep(Duration::from_secs(2)).await;
            *node = Some(server);
        }
        Fault::End => {
            let ended = server.terminate().await;
            assert!(ended.status.success(), "{}", ended.said);
        }
    }
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
