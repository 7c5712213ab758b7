//! What nodes count together, and what is said while sessions are carried away.

use std::process::{Output, Stdio};

use sqlx::{Connection, PgConnection};
use tokio::process::Command;

use super::fleet::{Fleet, until};
use super::model::Model;
use super::nodes::common_to_nodes;
use super::server::{PATIENCE, Place, Rules};
use super::talk::{brief, rest};
use crate::bench::{Bench, write_closed};
use crate::postgres::Schema;
use crate::shared::Node;

/// Requests that a client may make of one node.
const ALLOWED: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_sent_on_counts_where_it_came_in() {
    let model = Model::start(brief).await;
    let more = format!("server: {{ rateLimit: {ALLOWED}/h }}\n");
    let Some(fleet) = Fleet::start(&model.url, 2, Rules::default(), &more).await else { return };
    let (owner, asked) = (&fleet.nodes[0].api, &fleet.nodes[1].api);
    let sent = owner.send(None, "hello", "k").await.unwrap().good();
    let path = format!("/api/sessions/{}/resume", sent["sessionId"].as_str().unwrap());
    let resume = async |api: &super::api::Api| api.post(&path, serde_json::json!({})).await.unwrap().status;
    for number in 0..ALLOWED {
        assert_eq!(resume(asked).await, 200, "{number}: sent on, and counted by the node that was asked");
    }
    assert_eq!(resume(asked).await, 429);
    // The owner has answered all of them, and has counted its own client's only.
    for number in 1..ALLOWED {
        assert_eq!(resume(owner).await, 200, "{number}");
    }
    assert_eq!(resume(owner).await, 429);
    fleet.end().await;
}

#[tokio::test]
async fn a_node_with_another_token_does_not_start_while_others_live() {
    let Some(schema) = Schema::new("tokens").await else { return };
    let bench = Bench::new();
    let token = bench.data().with_file_name("other-token");
    write_closed(&token, "a-token-that-nobody-else-has");
    let (url, token) = (schema.url(), token.to_str().unwrap());
    let other = || {
        let address = ["--provider", "scripted", "serve", "--addr", "127.0.0.1:0"];
        bench.command(address.into_iter().chain(["--db", &url, "--token-file", token]).collect::<Vec<_>>())
    };
    let node = Node::start(&schema, |_| {});
    let mut command = Command::from(other());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let refused = tokio::time::timeout(PATIENCE, command.output()).await.expect("it is not refused").unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("has another token"), "{said}");
    assert!(said.contains("--token-file"), "{said}");
    assert_eq!(node.get("/api/sessions").await.0, 200, "the others go on");
    node.end();
    let (mut started, _address, _said) = crate::serve::start(other());
    crate::serve::end(&mut started);
}

/// Carries the database's sessions into a data folder.
fn migrate(bench: &Bench, schema: &Schema, blobs: &str) -> Command {
    let command = bench.command(["migrate", "--from", &schema.url(), "--blobs", blobs]);
    let mut command = Command::from(command);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// What has been carried by the time is not all there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_while_sessions_are_carried_is_not_left_behind_in_silence() {
    let Some(schema) = Schema::new("went_on").await else { return };
    let model = Model::start(brief).await;
    let common = Place::new(&model.url);
    let shared = common_to_nodes(&common, &schema);
    let blobs = shared.blobs.to_str().unwrap().to_owned();
    let place = Place::node(&model.url, &shared);
    let node = place.start(Rules::default()).await;
    let sent = node.api.send(None, "hello", "k").await.unwrap().good();
    let session = sent["sessionId"].as_str().unwrap();
    rest(&node.api, session).await;
    let into = Bench::new();
    let refused = migrate(&into, &schema, &blobs).output().await.unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("nodes still serve that database"), "{said}");
    assert!(node.terminate().await.status.success());

    let done = carried_while(migrate(&into, &schema, &blobs), &schema, async |_| {
        let node = place.start(Rules::default()).await;
        assert_eq!(node.api.send(Some(session), "one more", "l").await.unwrap().status, 200);
        rest(&node.api, session).await;
        assert!(node.terminate().await.status.success());
    })
    .await;
    let said = String::from_utf8(done.stderr).unwrap();
    let words = ["got new messages during it", "migrate again into an empty folder (--data-dir DIR)"];
    assert!(!done.status.success() && words.iter().all(|words| said.contains(words)), "{said}");

    // Where an older copy of it is, it does not go, and one is told what to do.
    let refused = migrate(&into, &schema, &blobs).output().await.unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    let older = exported(&into, session);
    let header: serde_json::Value = serde_json::from_str(older.lines().next().unwrap()).unwrap();
    let there = format!("already and differs: {} events there, ", header["events"]);
    let words = [
        there.as_str(),
        "it was continued in 127.0.0.1",
        "an empty folder (--data-dir DIR)",
        "sessions delete",
    ];
    assert!(!refused.status.success() && words.iter().all(|words| said.contains(words)), "{there}{said}");
    assert!(!older.contains("one more") && exported(&into, session) == older, "nothing of it was changed");

    // One that was only accepted is in no log, and its node may be dead.
    let fresh = Bench::new();
    let done = carried_while(migrate(&fresh, &schema, &blobs), &schema, async |db| {
        let sql = r#"INSERT INTO inbox (session_no, queue_id, made_by, queued_ms, body)
                     SELECT no, 'last', 'x', 1, '[{"type":"text","text":"the last"}]' FROM session"#;
        sqlx::query(sql).execute(db).await.unwrap();
    })
    .await;
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success() && said.contains("got new messages during it"), "{said}");

    // At rest it goes, whole, where nothing older of it is; or where that was deleted, as one was told.
    into.run(&["sessions", "delete", session, "--yes"]).exits(0);
    for place in [Bench::new(), into] {
        let done = migrate(&place, &schema, &blobs).output().await.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(exported(&place, session).contains("one more"));
    }
}

fn exported(bench: &Bench, session: &str) -> String {
    bench.run(&["sessions", "export", session]).exits(0).out
}

/// Carries while something happens in the database: what comes last waits for it, and all sessions have been carried by
/// then. Nobody but the logs and queues tells of it: no other node is there when the carrier looks for them.
async fn carried_while(
    mut carrier: Command,
    schema: &Schema,
    happens: impl AsyncFnOnce(&mut PgConnection),
) -> Output {
    let mut db = PgConnection::connect(&schema.url()).await.unwrap();
    let mut holding = db.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE memo IN ACCESS EXCLUSIVE MODE").execute(&mut *holding).await.unwrap();
    let carrying = carrier.stderr(Stdio::piped()).spawn().unwrap();
    let carried = tokio::spawn(carrying.wait_with_output());
    until("all sessions are carried", PATIENCE, async || {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_locks WHERE relation = 'memo'::regclass AND NOT granted",
        )
        .fetch_one(&mut *holding)
        .await
        .unwrap();
        waiting > 0
    })
    .await;
    let name: String = sqlx::query_scalar("SELECT boot_id FROM node ORDER BY since DESC LIMIT 1")
        .fetch_one(&mut *holding)
        .await
        .unwrap();
    happens(&mut holding).await;
    sqlx::query("DELETE FROM node WHERE boot_id <> $1").bind(&name).execute(&mut *holding).await.unwrap();
    holding.commit().await.unwrap();
    tokio::time::timeout(PATIENCE, carried).await.unwrap().unwrap().unwrap()
}
