//! Nodes on a PostgreSQL of their own, each with ways that a test can cut: one to the database, one from the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::api::Api;
use super::model::{Asked, Call, Model, Say};
use super::server::{PATIENCE, Place, Rules, ServerProcess, Shared};
use super::talk::{Talker, brief, busy};
use crate::bench::{is_running, write_closed};
use crate::cluster::Cluster;
use crate::proxy::Proxy;

/// How long a lease lasts: by then a node that has lost the database has stopped everything.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// Longer than a lease and a sweep: by then the sessions of a node that is gone have another one.
pub(crate) const TAKEN_OVER: Duration = Duration::from_secs(13);

/// Notes what is written under an epoch that is not its session's newest.
const WATCH: &str = r#"
CREATE TABLE late (session_no bigint, seq bigint, epoch bigint, newest bigint);
CREATE FUNCTION note_late() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE newest bigint;
BEGIN
    SELECT epoch INTO newest FROM session WHERE no = NEW.session_no;
    IF newest <> NEW.epoch THEN INSERT INTO late VALUES (NEW.session_no, NEW.seq, NEW.epoch, newest); END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER late BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION note_late();
"#;

/// Some nodes and what they share.
pub(crate) struct Fleet {
    pub(crate) cluster: Cluster,
    pub(crate) common: Place,
    pub(crate) places: Vec<Place>,
    /// From each node to the database.
    pub(crate) ways: Vec<Proxy>,
    /// From the other nodes to each node.
    pub(crate) doors: Vec<Proxy>,
    pub(crate) nodes: Vec<ServerProcess>,
}

/// A session in which a tool runs that does not end by itself.
pub(crate) struct Hold {
    pub(crate) talker: Talker,
    argument: String,
}

/// Whose a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) owner: Option<String>,
    pub(crate) epoch: i64,
}

impl Fleet {
    /// So many nodes, started. `None`, and a word about it, where PostgreSQL is not installed.
    pub(crate) async fn start(model_url: &str, count: usize, rules: Rules, more: &str) -> Option<Self> {
        let cluster = Cluster::new().await?;
        let common = Place::new(model_url);
        let folder = common.work().with_file_name("common");
        std::fs::create_dir(&folder).unwrap();
        let token = folder.join("token");
        write_closed(&token, &Uuid::now_v7().simple().to_string());
        let mut fleet = Self {
            cluster,
            common,
            places: Vec::new(),
            ways: Vec::new(),
            doors: Vec::new(),
            nodes: Vec::new(),
        };
        for _ in 0..count {
            let way = Proxy::to(fleet.cluster.port()).await;
            // The port is chosen here because the proxy in front of it, and so the address that the node
            // advertises, must exist before the node starts.
            let port = free_port();
            let door = Proxy::to(port).await;
            let shared = Shared {
                db: fleet.cluster.url_through(way.port()),
                token: token.clone(),
                blobs: folder.join("blobs"),
                work: fleet.common.work(),
                addr: Some(format!("127.0.0.1:{port}")),
                advertise: Some(format!("127.0.0.1:{}", door.port())),
                more: more.to_owned(),
            };
            let place = Place::node(model_url, &Arc::new(shared));
            fleet.nodes.push(place.start(rules).await);
            fleet.places.push(place);
            fleet.ways.push(way);
            fleet.doors.push(door);
        }
        let mut db = fleet.connect().await;
        // The nodes have made the tables on which the trigger stands when they started.
        sqlx::raw_sql(WATCH).execute(&mut db).await.unwrap();
        Some(fleet)
    }

    /// Past all that can be cut.
    pub(crate) async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.cluster.url()).await.unwrap()
    }

    pub(crate) fn apis(&self) -> Vec<Api> {
        self.nodes.iter().map(|node| node.api.clone()).collect()
    }

    /// Everybody talks to one of the nodes, another one each round.
    pub(crate) fn talk(&self, talkers: &[Talker], round: u64) -> JoinSet<()> {
        let apis = self.apis();
        let all = talkers.iter().enumerate();
        all.map(|(index, talker)| {
            talker.clone().keep_talking(apis[(index + round as usize) % apis.len()].clone())
        })
        .collect()
    }

    /// Begins a session at a node, and waits until its tool runs.
    pub(crate) async fn hold(&self, node: usize, name: &str, seed: u64) -> Hold {
        let talker = Talker::new(&format!("hold-{name}"), seed, self.common.position());
        let hold = Hold { argument: argument(&format!("[hold-{name}.0]"), seed), talker };
        hold.talker.begin(&self.nodes[node].api).await.unwrap();
        until(&format!("{name}: the tool runs"), PATIENCE, async || hold.runs()).await;
        hold
    }

    /// What tools have left in the workspace.
    pub(crate) fn marks(&self) -> String {
        let read = |name| std::fs::read_to_string(self.common.work().join(name)).unwrap_or_default();
        read("begun.log") + &read(super::check::EFFECTS)
    }

    /// Waits until the node says that it takes work.
    pub(crate) async fn until_ready(&self, node: usize) {
        let api = &self.nodes[node].api;
        until(&format!("node {node} is ready again"), PATIENCE, async || api.is_ready().await).await;
    }

    /// Checks that nothing was ever written under an epoch that was over.
    pub(crate) async fn nothing_is_late(&self) {
        let mut db = self.connect().await;
        let late: Vec<(i64, i64, i64, i64)> =
            sqlx::query_as("SELECT * FROM late").fetch_all(&mut db).await.unwrap();
        assert_eq!(late, [], "session, seq, epoch, newest epoch");
    }

    /// The names of the nodes that live, the one that joined first in front.
    pub(crate) async fn boots(&self) -> Vec<String> {
        let mut db = self.connect().await;
        let boots = sqlx::query_scalar(
            "SELECT boot_id FROM node WHERE lease_until > clock_timestamp() ORDER BY since, boot_id",
        );
        boots.fetch_all(&mut db).await.unwrap()
    }

    /// Tells all nodes to end, and waits.
    pub(crate) async fn end(self) {
        for node in self.nodes {
            let ended = node.terminate().await;
            assert!(ended.status.success(), "{}", ended.said);
        }
    }
}

impl Hold {
    /// Whether its tool's process is there.
    pub(crate) fn runs(&self) -> bool {
        is_running(&self.argument)
    }

    pub(crate) fn session(&self) -> &str {
        self.talker.session().unwrap()
    }
}

/// Whose the session is.
pub(crate) async fn owned(db: &mut PgConnection, session: &str) -> Owned {
    let row: (Option<String>, i64) = sqlx::query_as("SELECT owner, epoch FROM session WHERE id = $1")
        .bind(session)
        .fetch_one(db)
        .await
        .unwrap();
    Owned { owner: row.0, epoch: row.1 }
}

/// Waits until it is so.
#[track_caller]
pub(crate) fn until(
    what: &str,
    patience: Duration,
    mut is_so: impl AsyncFnMut() -> bool,
) -> impl Future<Output = Duration> {
    let place = std::panic::Location::caller();
    async move {
        let begun = Instant::now();
        while !is_so().await {
            assert!(begun.elapsed() < patience, "{place}: waited in vain for {patience:?}: {what}");
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        begun.elapsed()
    }
}

/// Checks that watchers have seen nothing they should not have.
#[track_caller]
pub(crate) fn no_complaints(talkers: &[Talker], context: &str) {
    let found = talkers.iter().flat_map(|talker| talker.account().look().complaints.clone());
    assert_eq!(found.collect::<Vec<_>>(), Vec::<String>::new(), "{context}");
}

/// Ends what talks; a panic in it is the test's.
pub(crate) async fn stop(mut tasks: JoinSet<()>, context: &str) {
    tasks.abort_all();
    while let Some(talked) = tasks.join_next().await {
        assert!(!talked.is_err_and(|error| error.is_panic()), "{context}");
    }
}

/// Waits until every session answers through one node.
pub(crate) async fn all_reached(api: &Api, talkers: &[Talker]) {
    for session in talkers.iter().filter_map(Talker::session) {
        until(&format!("{session} has a node"), PATIENCE, async || {
            api.resume(session).await.is_ok_and(|answer| answer.status == 200)
        })
        .await;
    }
}

/// A model whose tools do not end by themselves in sessions that are to hold, and that is busy in others.
pub(crate) fn holding(seed: u64, asked: &Asked) -> Say {
    let first = asked.topic.split(']').next().unwrap_or_default();
    if !first.contains("[hold-") {
        return busy(seed, asked);
    }
    if !first.ends_with(".0") || asked.after_tools || asked.summary {
        return brief(asked);
    }
    let argument = argument(&format!("{first}]"), seed);
    let command = format!("echo @ >> begun.log; sleep {argument}; echo @ >> effects.log");
    Say { text: "It runs. ".to_owned(), calls: vec![Call::Bash(command)], ..Say::default() }
}

/// For how long the tool of a session sleeps, in seconds: a number that no other process has among its arguments.
fn argument(text: &str, seed: u64) -> String {
    let own = super::rng::Rng::of(seed, (text, std::process::id())).below(1_000_000_000);
    format!("600.{own:09}")
}

/// A port of this machine that nobody has.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The same model behind something that may be cut.
pub(crate) async fn behind(model: &Model) -> (Proxy, String) {
    let port = model.url.rsplit_once(':').unwrap().1.trim_end_matches("/v1").parse().unwrap();
    let proxy = Proxy::to(port).await;
    let url = format!("http://127.0.0.1:{}/v1", proxy.port());
    (proxy, url)
}
