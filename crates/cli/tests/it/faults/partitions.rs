//! Nodes that are cut off: from the database, and from each other.

use std::time::Duration;

use longhaul_core::event::EventBody;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::api::Api;
use super::fleet::{Fleet, Hold, TAKEN_OVER, all_reached, holding, no_complaints, owned, stop, until};
use super::model::{Asked, Model, Say};
use super::rng::Rng;
use super::server::{PATIENCE, Rules};
use super::talk::{Talker, brief, conclude, rest, talkers};
use super::{check, number, seed};

/// Rules of nodes that go on by themselves.
const CONTINUES: Rules = Rules { continues: true, run_timeout: None };

/// How a way is cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// Nothing passes in either direction, and it arrives when the way is mended.
    Held,
    /// Connections end, and new ones are refused.
    Refused,
    /// Nothing passes, and of what was there at that time nothing ever will: whoever stood between has forgotten it.
    Forgotten,
}

impl Cut {
    const ALL: [Self; 3] = [Self::Forgotten, Self::Refused, Self::Held];

    fn begin(self, fleet: &Fleet, node: usize) {
        let way = &fleet.ways[node];
        match self {
            Self::Held | Self::Forgotten => way.cut(true),
            Self::Refused => way.refuse(true),
        }
    }

    fn end(self, fleet: &Fleet, node: usize) {
        let way = &fleet.ways[node];
        match self {
            Self::Held => way.cut(false),
            Self::Refused => way.refuse(false),
            Self::Forgotten => {
                way.forget();
                way.cut(false);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_database_stops_and_others_go_on() {
    let seed = seed("partitions");
    let rounds = number("LONGHAUL_NODE_ROUNDS").unwrap_or(3);
    let sessions = number("LONGHAUL_NODE_SESSIONS").unwrap_or(6) as usize;
    let model = Model::start(move |asked| holding(seed, asked)).await;
    let Some(fleet) = Fleet::start(&model.url, 3, CONTINUES, "").await else { return };
    let talkers = talkers(sessions, seed, &fleet.common);
    let mut rng = Rng::of(seed, "partitions");
    let (mut held, mut slowest) = (Vec::new(), Duration::ZERO);
    for round in 0..rounds {
        let drawn = *rng.pick(&Cut::ALL);
        let cut = Cut::ALL.get(round as usize).copied().unwrap_or(drawn);
        let node = rng.below(fleet.nodes.len() as u64) as usize;
        let context = format!("LONGHAUL_FAULT_SEED={seed}, round {round}, {cut:?}, node {node}");
        let tasks = fleet.talk(&talkers, round);
        let hold = fleet.hold(node, &format!("{round}"), seed).await;
        tokio::time::sleep(Duration::from_millis(500 + rng.below(1_500))).await;
        let before = fleet.boots().await;
        cut.begin(&fleet, node);
        slowest = slowest.max(is_taken_over(&fleet, &hold, &context).await);
        assert!(!fleet.nodes[node].api.is_ready().await, "{context}: it says that it works");
        let other = (node + 1) % fleet.nodes.len();
        rest(&fleet.nodes[other].api, hold.session()).await;
        cut.end(&fleet, node);
        fleet.until_ready(node).await;
        let after = fleet.boots().await;
        let stayed = before.iter().filter(|boot| after.contains(boot)).count();
        assert_eq!(
            (after.len(), stayed),
            (3, 2),
            "{context}: it comes back as another: {before:?}, {after:?}"
        );
        stop(tasks, &context).await;
        held.push(hold.talker);
        no_complaints(&talkers, &context);
        no_complaints(&held, &context);
    }
    let all: Vec<Talker> = talkers.into_iter().chain(held).collect();
    let api = fleet.nodes[0].api.clone();
    all_reached(&api, &all).await;
    let events = conclude(&api, &all, &fleet.common, &model).await;
    fleet.nothing_is_late().await;
    eprintln!(
        "partitions: {rounds} rounds, {} sessions, {} events, slowest takeover {slowest:?}",
        all.len(),
        events.len()
    );
    fleet.end().await;
}

/// Another node takes the session over, and not while its tool still runs. How long that took.
async fn is_taken_over(fleet: &Fleet, hold: &Hold, context: &str) -> Duration {
    let mut db = fleet.connect().await;
    let before = owned(&mut db, hold.session()).await;
    let took = until(&format!("{context}: it is taken over"), TAKEN_OVER, async || {
        // In this order: what has been taken over afterwards may run.
        let runs = hold.runs();
        let now = owned(&mut db, hold.session()).await;
        assert!(!runs || now == before, "{context}: taken over while its tool runs");
        now.epoch > before.epoch && now.owner != before.owner
    })
    .await;
    assert!(!hold.runs(), "{context}");
    took
}

/// How the way from one node to another is cut.
#[derive(Clone, Copy, Debug)]
enum Wall {
    Held,
    Reset,
    Closed,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_do_not_reach_each_other_leave_messages() {
    let seed = seed("walls");
    let model = Model::start(brief).await;
    let Some(fleet) = Fleet::start(&model.url, 2, CONTINUES, "").await else { return };
    let (owner, asked) = (fleet.nodes[0].api.clone(), fleet.nodes[1].api.clone());
    let talker = Talker::new("wall", seed, fleet.common.position());
    let session = talker.begin(&owner).await.unwrap();
    let watching = tokio::spawn({
        let (talker, asked) = (talker.clone(), asked.clone());
        async move {
            loop {
                talker.watch(&asked).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    });
    // Over connections that are open before.
    talker.send(&asked, &talker.next_text()).await.unwrap();
    rest(&asked, &session).await;
    for wall in [Wall::Held, Wall::Reset, Wall::Closed] {
        let context = format!("LONGHAUL_FAULT_SEED={seed}, {wall:?}");
        let door = &fleet.doors[0];
        match wall {
            Wall::Held => door.cut(true),
            Wall::Reset => door.refuse(true),
            Wall::Closed => door.close(),
        }
        let text = talker.next_text();
        let path = format!("/api/sessions/{session}/resume");
        let (left, refused) =
            tokio::join!(asked.send(Some(&session), &text, &text), asked.post(&path, json!({})));
        let (left, refused) = (left.unwrap(), refused.unwrap());
        assert_eq!((left.status, refused.status), (200, 503), "{context}: {left:?} {refused:?}");
        assert!(
            left.body["queued"] == true && refused.retry_after.is_some(),
            "{context}: {left:?} {refused:?}"
        );
        talker.account().sending(&text);
        talker.account().accepted(&text, &left.body, 0);
        // Again, there and at the owner: it is the same message.
        for api in [&asked, &owner] {
            talker.send(api, &text).await.unwrap();
        }
        until(&format!("{context}: it is taken"), PATIENCE, async || {
            let events = owner.log(&session).await.unwrap();
            events.iter().any(|event| check::says(event, &text))
        })
        .await;
        match wall {
            Wall::Held => door.cut(false),
            Wall::Reset => door.refuse(false),
            Wall::Closed => {}
        }
    }
    let last = rest(&owner, &session).await["lastSeq"].as_u64().unwrap();
    // The stream came through the door before it was closed; from here on it comes from the owner.
    watching.abort();
    let watched = tokio::spawn({
        let (talker, owner) = (talker.clone(), owner.clone());
        async move { talker.watch(&owner).await }
    });
    talker.account().until("everything is told", |entries| entries.after >= last).await;
    watched.abort();
    let events = conclude(&owner, std::slice::from_ref(&talker), &fleet.common, &model).await;
    let taken = events.iter().filter(|event| matches!(event.body, EventBody::MessagesTaken { .. })).count();
    eprintln!("walls: {} events, {taken} times messages were taken", events.len());
    let moved = {
        let mut db = fleet.connect().await;
        owned(&mut db, &session).await
    };
    assert_eq!(moved.epoch & 0xFFFF_FFFF, 1, "its node lived: nobody took it over");
    fleet.nothing_is_late().await;
    fleet.end().await;
}

/// What is left for a node that stands still happens in the order in which it was left, and a cancel ends what goes on,
/// not what waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_that_is_left_ends_what_goes_on_and_nothing_else() {
    let model = Model::start(stalls).await;
    let Some(fleet) = Fleet::start(&model.url, 2, Rules::default(), "").await else { return };
    let (owner, asked) = (fleet.nodes[0].api.clone(), fleet.nodes[1].api.clone());
    let cancel = async |session: &str, clear_queue: bool| {
        let path = format!("/api/sessions/{session}/cancel");
        asked.post(&path, json!({ "clearQueue": clear_queue })).await.unwrap().good();
    };
    let leave = async |session: &str, text: &str| {
        let left = asked.send(Some(session), text, &format!("{session} {text}")).await.unwrap().good();
        assert_eq!(left["queued"], true, "{left}");
    };
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let begun = owner.send(None, "hello", &Uuid::now_v7().to_string()).await.unwrap().good();
        let session = begun["sessionId"].as_str().unwrap().to_owned();
        rest(&owner, &session).await;
        sessions.push(session);
    }
    let [before, after, cleared] = &sessions[..] else { unreachable!() };
    fleet.doors[0].close();
    until("it is not reached", PATIENCE, async || {
        asked.resume(before).await.is_ok_and(|answer| answer.status == 503)
    })
    .await;
    // For less than its lease.
    fleet.nodes[0].stop();
    leave(before, "said first").await;
    cancel(before, false).await;
    cancel(after, false).await;
    leave(after, "said last").await;
    leave(cleared, "said first").await;
    cancel(cleared, true).await;
    leave(cleared, "said last").await;
    fleet.nodes[0].go_on();
    for session in [after, cleared] {
        until("what was said after a cancel is answered", PATIENCE, async || {
            taken(&owner, session).await == ["hello", "said last"]
        })
        .await;
        assert_eq!(rest(&owner, session).await["lastFinishReason"], "stop");
        assert_eq!(owner.queue(session).await.len(), 0);
    }
    // Each cancel is heard in its turn: by now this one was.
    assert_eq!(taken(&owner, before).await, ["hello"], "what was said before a cancel waits");
    assert_eq!(owner.queue(before).await.len(), 1);
    // Other news does not wake it.
    cancel(before, false).await;
    until("the cancel is heard", PATIENCE, async || {
        let mut db = fleet.connect().await;
        let left: i64 = sqlx::query_scalar("SELECT count(*) FROM signal WHERE taken_epoch IS NULL")
            .fetch_one(&mut db)
            .await
            .unwrap();
        left == 0
    })
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(taken(&owner, before).await, ["hello"]);
    owner.send(Some(before), "and now", "now").await.unwrap().good();
    until("it is taken", PATIENCE, async || taken(&owner, before).await.len() > 1).await;
    let newest = taken(&owner, before).await.remove(1);
    assert!(newest.contains("said first") && newest.contains("and now"), "{newest}");
    assert_eq!(rest(&owner, before).await["lastFinishReason"], "stop");
    // A cancel that was left is known at the owner by its key, and by what had been said before it.
    let key = Uuid::now_v7().to_string();
    let path = format!("/api/sessions/{after}/cancel");
    let keyed = async |api: &Api| {
        let cancel = api
            .request(Method::POST, &path)
            .header("idempotency-key", &key)
            .json(&json!({ "clearQueue": true }));
        cancel.send().await.unwrap().json::<Value>().await.unwrap()
    };
    let first = keyed(&asked).await;
    let sent = owner.send(Some(after), "[stalls] on", "on").await.unwrap().good();
    assert_eq!(sent["queued"], false, "{sent}");
    until("it works", PATIENCE, async || owner.session(after).await.unwrap().good()["status"] == "streaming")
        .await;
    assert_eq!(keyed(&owner).await, first);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(
        owner.session(after).await.unwrap().good()["status"],
        "streaming",
        "it came after that cancel"
    );
    owner.post(&path, json!({})).await.unwrap().good();
    fleet.nothing_is_late().await;
    fleet.end().await;
}

/// Stalls where it is told to.
fn stalls(asked: &Asked) -> Say {
    Say { stalls: asked.topic.contains("[stalls]"), ..brief(asked) }
}

/// What the messages say that were taken, in order.
async fn taken(api: &Api, session: &str) -> Vec<String> {
    api.log(session).await.unwrap().iter().filter_map(check::said).collect()
}

/// A stream that comes through another node ends when that node is cut off, and the watcher comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_through_a_node_that_is_cut_off_ends() {
    let seed = seed("streams");
    let model = Model::start(brief).await;
    let Some(fleet) = Fleet::start(&model.url, 2, CONTINUES, "").await else { return };
    let (owner, asked) = (fleet.nodes[0].api.clone(), fleet.nodes[1].api.clone());
    let talker = Talker::new("stream", seed, fleet.common.position());
    let session = talker.begin(&owner).await.unwrap();
    rest(&owner, &session).await;
    let watching = tokio::spawn({
        let (talker, asked) = (talker.clone(), asked.clone());
        async move { talker.watch(&asked).await }
    });
    talker.catch_up().await;
    fleet.doors[0].cut(true);
    let ended = tokio::time::timeout(PATIENCE, watching).await;
    assert!(ended.is_ok(), "the stream does not end");
    fleet.doors[0].cut(false);
    conclude(&asked, std::slice::from_ref(&talker), &fleet.common, &model).await;
    fleet.end().await;
}
