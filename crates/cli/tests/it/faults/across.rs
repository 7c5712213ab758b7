//! What one node has and another one is asked for: uploads, what goes on, and the end of the node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul_core::event::EventBody;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use super::api::Api;
use super::fleet::{Fleet, TAKEN_OVER, owned, until};
use super::model::{Asked, Call, Model, Say};
use super::nodes::common_to_nodes;
use super::server::{PATIENCE, Place, Rules, ServerProcess};
use super::talk::{brief, rest};
use crate::postgres::Schema;

/// Sooner than runs of a node that ends are cancelled.
const SOON: Duration = Duration::from_secs(10);

/// A model that stalls where it is told to, and uses a tool for long.
fn slow(asked: &Asked) -> Say {
    let is_told = |word| asked.topic.contains(word) && !asked.after_tools;
    match (is_told("[stalls]"), is_told("[works]")) {
        (true, _) => Say { stalls: true, ..brief(asked) },
        (_, true) => Say { calls: vec![Call::Bash("sleep 60".to_owned())], ..brief(asked) },
        _ => brief(asked),
    }
}

/// Two nodes on one database, with rules as they usually are.
struct Two {
    schema: Schema,
    _model: Model,
    _places: [Place; 3],
    one: ServerProcess,
    other: ServerProcess,
}

impl Two {
    async fn start(name: &str) -> Option<Self> {
        let schema = Schema::new(name).await?;
        let model = Model::start(slow).await;
        let common = Place::new(&model.url);
        let shared = common_to_nodes(&common, &schema);
        let places =
            [common, Place::node(&model.url, &shared), Place::node(&model.url, &Arc::clone(&shared))];
        let (one, other) = (places[1].start(Rules::default()).await, places[2].start(Rules::default()).await);
        Some(Self { schema, _model: model, _places: places, one, other })
    }

    /// A session of the first node that has come to rest.
    async fn at_rest(&self) -> String {
        let session = begun(&self.one.api, "hello").await;
        rest(&self.one.api, &session).await;
        session
    }

    /// A session of the first node in which something goes on.
    async fn at_work(&self, text: &str, status: &str) -> String {
        let session = begun(&self.one.api, text).await;
        until(status, PATIENCE, async || shown(&self.one.api, &session).await["status"] == status).await;
        session
    }
}

async fn begun(api: &Api, text: &str) -> String {
    let sent = api.send(None, text, &Uuid::now_v7().to_string()).await.unwrap().good();
    sent["sessionId"].as_str().unwrap().to_owned()
}

async fn shown(api: &Api, session: &str) -> Value {
    api.session(session).await.unwrap().good()
}

/// What the list says of a session.
async fn listed(api: &Api, session: &str) -> String {
    let list = api.get("/api/sessions").await.unwrap().good();
    let mut sessions = list["sessions"].as_array().unwrap().iter();
    let found = sessions.find(|found| found["id"] == session).unwrap_or_else(|| panic!("{list}"));
    found["status"].as_str().unwrap().to_owned()
}

/// How many messages were taken, each time that some were.
async fn taken(api: &Api, session: &str) -> Vec<usize> {
    let events = api.log(session).await.unwrap();
    let taken = events.iter().filter_map(|event| match &event.body {
        EventBody::MessagesTaken { taken, .. } => Some(taken.len()),
        _ => None,
    });
    taken.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_uploaded_through_another_node_can_be_sent_through_any() {
    let Some(two) = Two::start("uploads").await else { return };
    let session = two.at_rest().await;
    for (number, (up, sends)) in
        [(&two.other, &two.other), (&two.other, &two.one), (&two.one, &two.other)].into_iter().enumerate()
    {
        let words = format!("upload {number}");
        let up = up.api.upload(&session, &words).await.unwrap();
        assert_eq!(up.status, 201, "{up:?}");
        let content = json!([{ "type": "text", "text": "read this" }, up.body["part"]]);
        let message = json!({ "sessionId": session, "content": content });
        let sent = sends.api.post("/api/message", message).await.unwrap();
        assert_eq!(sent.status, 200, "{number}: {sent:?}");
        rest(&sends.api, &session).await;
        let path = format!("/api/sessions/{session}/blobs/{}", up.body["hash"].as_str().unwrap());
        for node in [&two.one, &two.other] {
            assert_eq!(node.api.text(&path).await.unwrap(), words);
        }
    }
    for node in [two.one, two.other] {
        assert!(node.terminate().await.status.success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_lists_what_goes_on_at_others() {
    let Some(two) = Two::start("listed").await else { return };
    let (resting, working) = (two.at_rest().await, two.at_work("[works]", "executing_tools").await);
    for api in [&two.one.api, &two.other.api] {
        assert_eq!(listed(api, &working).await, "executing_tools");
        assert_eq!(listed(api, &resting).await, "idle");
    }
    // One that does not answer has it all the same.
    two.one.stop();
    let status = listed(&two.other.api, &working).await;
    two.one.go_on();
    assert_eq!(status, "streaming");
    assert_eq!(listed(&two.other.api, &working).await, "executing_tools");
    two.other.api.post(&format!("/api/sessions/{working}/cancel"), json!({})).await.unwrap().good();
    for node in [two.one, two.other] {
        assert!(node.terminate().await.status.success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_ends_gives_its_sessions_away_as_they_rest() {
    let Some(two) = Two::start("given").await else { return };
    let (resting, read) = (two.at_rest().await, two.at_rest().await);
    let working = two.at_work("[works]", "executing_tools").await;
    let other = &two.other.api;
    two.one.tell_to_end();
    two.one.until_said("running work may finish").await;
    let begun = Instant::now();
    let sent = other.send(Some(&resting), "more", "more").await.unwrap();
    assert_eq!((sent.status, &sent.body["queued"]), (200, &json!(false)), "{sent:?}");
    rest(other, &resting).await;
    // The node that ends takes no session back, and shows it nevertheless.
    for session in [&resting, &read] {
        assert_eq!(shown(&two.one.api, session).await["status"], "idle");
    }
    let mut db = PgConnection::connect(&two.schema.url()).await.unwrap();
    let heir = owned(&mut db, &resting).await.owner;
    assert_eq!(owned(&mut db, &read).await.owner, heir);
    assert!(owned(&mut db, &working).await.owner.is_some_and(|owner| Some(owner) != heir));
    // What runs goes on there, and who is to wait is told so.
    assert_eq!(shown(other, &working).await["status"], "executing_tools");
    let refused = other.send(Some(&working), "and this", "and this").await.unwrap();
    let words = refused.body["detail"].as_str().unwrap_or_default();
    assert!(
        refused.status == 503 && words.contains("The node that has this session is shutting down"),
        "{refused:?}"
    );
    assert_eq!(refused.retry_after.as_deref(), Some("5"), "{refused:?}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    other.post(&format!("/api/sessions/{working}/cancel"), json!({})).await.unwrap().good();
    let ended = two.one.ended().await;
    assert!(ended.status.success(), "{}", ended.said);
    let sent = other.send(Some(&working), "and this", "and this").await.unwrap();
    assert_eq!(sent.status, 200, "{sent:?}");
    assert!(two.other.terminate().await.status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agents_stream_whose_node_dies_ends_with_an_error() {
    let Some(two) = Two::start("broken").await else { return };
    let said = json!([{ "role": "user", "content": "[stalls]" }]);
    let ends = [
        ("/v1/chat/completions", json!({ "messages": said }), "\"code\":\"unavailable\""),
        ("/v1/messages", json!({ "messages": said, "max_tokens": 100 }), "\"type\":\"api_error\""),
        ("/v1/responses", json!({ "input": "[stalls]" }), "event: response.failed"),
    ];
    let mut streams = Vec::new();
    for (path, mut body, end) in ends {
        body["model"] = "agent/default".into();
        body["stream"] = true.into();
        let session = two.at_rest().await;
        let mut stream = two.other.api.asks_agent(path, &session, &body).await;
        let mut heard = String::new();
        while !heard.contains("Well") {
            let piece = stream.chunk().await.unwrap().unwrap_or_else(|| panic!("{path} ends: {heard}"));
            heard.push_str(std::str::from_utf8(&piece).unwrap());
        }
        assert!(!heard.contains("that has the session broke"), "{heard}");
        streams.push((path, stream, end));
    }
    two.one.kill().await;
    for (path, stream, end) in streams {
        let rest = stream.text().await.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(rest.contains(end) && rest.contains("that has the session broke"), "{path}: {rest}");
    }
    assert!(two.other.terminate().await.status.success());
}

/// As a supervisor starts it: for the lease of the one before, the database names an address where somebody else is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_starts_where_a_node_has_died_is_not_taken_for_it() {
    let model = Model::start(slow).await;
    let Some(mut fleet) = Fleet::start(&model.url, 2, Rules::default(), "").await else { return };
    let asked = fleet.nodes[1].api.clone();
    let session = begun(&fleet.nodes[0].api, "[stalls]").await;
    until("it works", PATIENCE, async || shown(&asked, &session).await["status"] == "streaming").await;
    fleet.nodes.remove(0).kill().await;
    fleet.nodes.insert(0, fleet.places[0].start(Rules::default()).await);
    let left = asked.send(Some(&session), "for whoever comes", "left").await.unwrap();
    assert!(left.status == 200 && left.body["queued"] == true, "{left:?}");
    let refused = asked.resume(&session).await.unwrap();
    assert_eq!((refused.status, refused.retry_after.as_deref()), (503, Some("13")), "{refused:?}");
    until("it has another node", TAKEN_OVER, async || {
        let answer = asked.session(&session).await.unwrap();
        answer.status == 200 && answer.body["status"] == "idle"
    })
    .await;
    assert_eq!(shown(&asked, &session).await["lastFinishReason"], "error");
    assert_eq!(asked.queue(&session).await.len(), 1);
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_takeover_messages_wait_unless_they_were_left_for_it() {
    let Some(two) = Two::start("waits").await else { return };
    let resting = two.at_rest().await;
    let working = two.at_work("[stalls]", "streaming").await;
    let queued = two.one.api.send(Some(&working), "later", "later").await.unwrap().good();
    assert_eq!(queued["queued"], true, "{queued}");
    let mut db = PgConnection::connect(&two.schema.url()).await.unwrap();
    let before = owned(&mut db, &working).await;
    two.one.kill().await;
    let other = &two.other.api;
    // No node has this one either, and nothing was going on in it.
    let left = other.send(Some(&resting), "for whoever comes", "left").await.unwrap().good();
    assert_eq!(left["queued"], true, "{left}");
    until("it is taken over", TAKEN_OVER, async || owned(&mut db, &working).await.epoch > before.epoch).await;
    until("what was left is taken", TAKEN_OVER, async || taken(other, &resting).await == [1, 1]).await;
    assert_eq!(shown(other, &working).await["lastFinishReason"], "error");
    assert_eq!(other.queue(&working).await.len(), 1);
    other.send(Some(&working), "now", "now").await.unwrap().good();
    until("messages are taken", PATIENCE, async || taken(other, &working).await.len() > 1).await;
    assert_eq!(taken(other, &working).await, [1, 2], "it has waited for the next message");
    other.post(&format!("/api/sessions/{working}/cancel"), json!({})).await.unwrap().good();
    assert!(two.other.terminate().await.status.success());
}
