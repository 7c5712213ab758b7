//! A thousand watchers of one session.

use std::time::{Duration, Instant};

use longhaul_core::ids::SessionId;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::test_server::{Dice, PATIENCE, TOKEN, TestServer};

const WATCHERS: u64 = 1_000;

/// Both ends of every connection are this process's.
fn allow_many_connections() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// An event of the log as a watcher was told of it: position and name.
type Told = (u64, String);

/// What the log says that every watcher must have been told.
async fn expected(world: &TestServer, session: &str) -> Vec<Told> {
    let id = SessionId::from(session);
    let mut replay = world.app.runtime().replay(&id);
    let mut all = Vec::new();
    for event in world.app.runtime().log(&id).await.unwrap() {
        all.extend(replay.take(&event).unwrap().into_iter().map(|it| (event.seq, it.name.to_owned())));
    }
    all
}

/// What a watcher has for certain, and what of the next position.
#[derive(Default)]
struct Seen {
    after: u64,
    told: Vec<Told>,
    open: Vec<Told>,
    visits: usize,
}

impl Seen {
    fn note(&mut self, name: &str, seq: Option<u64>, id: Option<u64>) {
        self.open.extend(seq.map(|seq| (seq, name.to_owned())));
        if let Some(id) = id {
            assert!(id >= self.after, "{id} came after {}", self.after);
            self.after = id;
            self.told.append(&mut self.open);
        }
    }
}

/// A stream of events, read by hand: a thousand must be cheap.
struct Stream {
    lines: BufReader<TcpStream>,
    line: String,
    name: String,
    seq: Option<u64>,
    id: Option<u64>,
}

impl Stream {
    async fn open(world: &TestServer, session: &str, after: u64) -> Self {
        let mut socket = TcpStream::connect(world.address).await.unwrap();
        let request = format!(
            "GET /api/sessions/{session}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nLast-Event-ID: {after}\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let (line, name) = (String::new(), String::new());
        Self { lines: BufReader::new(socket), line, name, seq: None, id: None }
    }

    /// Reads one line; chunk sizes and headers are passed over. Only whole lines are taken, so that giving up
    /// waiting is safe only between two visits.
    async fn next(&mut self, seen: &mut Seen) {
        self.line.clear();
        let read = self.lines.read_line(&mut self.line).await.unwrap();
        assert!(read > 0, "the stream has ended");
        let line = self.line.trim_end();
        if let Some(name) = line.strip_prefix("event: ") {
            name.clone_into(&mut self.name);
        } else if let Some(id) = line.strip_prefix("id: ") {
            self.id = id.parse().ok();
        } else if let Some(data) = line.strip_prefix("data: ") {
            // Before the payload stand name, session and, if it is durable, the position.
            let rest = data.split_once(r#""sessionId":""#).and_then(|(_, rest)| rest.split_once('"'));
            let seq = rest.and_then(|(_, rest)| rest.strip_prefix(r#","seq":"#)).map(|rest| {
                let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
                digits.parse().unwrap()
            });
            self.seq = seq;
        } else if line.is_empty() && !self.name.is_empty() {
            seen.note(&self.name, self.seq.take(), self.id.take());
            self.name.clear();
        }
    }
}

fn eventful() -> ModelScript {
    let slowly = |text: &str| ScriptedAnswer::text(text).pace(Duration::from_millis(80));
    ModelScript::closure(move |request: &longhaul_providers::ModelRequest, _| {
        let last = request.messages.last().unwrap();
        if last.role == longhaul_core::message::Role::Tool {
            slowly("That is what is there, and this is the rest of it.")
        } else if last.text().contains("look") {
            slowly("I look.").call("ls", "{}").call("bash", r#"{"command":"echo one; sleep 0.1; echo two"}"#)
        } else {
            slowly("Fine, then I shall say a little about it.")
        }
    })
}

/// Comes and goes until everything was told.
async fn watch(world: &TestServer, session: &str, seed: u64, mut last: watch::Receiver<u64>) -> Seen {
    let mut dice = Dice(seed);
    let mut seen = Seen::default();
    loop {
        tokio::time::sleep(Duration::from_millis(dice.below(300))).await;
        let newest = *last.borrow_and_update();
        if seen.after >= newest {
            return seen;
        }
        seen.visits += 1;
        // What was cut is told again, because the client goes on behind the last whole position.
        seen.open.clear();
        let mut stream = Stream::open(world, session, seen.after).await;
        let leaves = tokio::time::Instant::now() + Duration::from_millis(100 + dice.below(4_000));
        let stay = async {
            // Who has it all leaves at once.
            while seen.after < *last.borrow() {
                stream.next(&mut seen).await;
            }
        };
        let _ = tokio::time::timeout_at(leaves, stay).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_watchers_that_come_and_go_see_everything_once_and_in_order() {
    allow_many_connections();
    let world = TestServer::new(eventful()).await;
    let session = world.session().await;
    let begun = Instant::now();
    let (done, last) = watch::channel(u64::MAX);
    let drive = async {
        for turn in 0..5 {
            world.say(&session, &format!("turn {turn}: look")).await;
            world.say(&session, "and this").await;
            world.until(&session, "idle").await;
        }
        let all = expected(&world, &session).await;
        done.send_replace(all.last().unwrap().0);
        all
    };
    let crowd = (0..WATCHERS).map(|seed| watch(&world, &session, seed, last.clone()));
    let both = async { tokio::join!(drive, futures_util::future::join_all(crowd)) };
    let (all, crowd) = tokio::time::timeout(PATIENCE * 4, both).await.expect("not all were told in time");
    assert!(all.len() > 100, "{}", all.len());
    for (seed, seen) in crowd.iter().enumerate() {
        for (at, (seen, expected)) in seen.told.iter().zip(&all).enumerate() {
            assert_eq!(seen, expected, "watcher {seed}, event {at}");
        }
        assert_eq!(seen.told.len(), all.len(), "watcher {seed}");
    }
    let visits: usize = crowd.iter().map(|seen| seen.visits).sum();
    assert!(visits > 2 * WATCHERS as usize, "hardly anybody ever left: {visits} visits");
    eprintln!("{WATCHERS} watchers, {visits} visits, {} events, {:?}", all.len(), begun.elapsed());
}

/// All of them were cut off in the middle of a long session, and come back in the same moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_that_come_back_at_once_find_in_memory_what_they_missed() {
    allow_many_connections();
    let world = TestServer::new(ModelScript::always("Yes.")).await;
    let session = world.session().await;
    let opened = world.app.runtime().open(&SessionId::from(session.as_str())).await.unwrap();
    let _somebody = opened.watch();
    for turn in 0..300 {
        opened.ask(&format!("turn {turn}")).await.unwrap();
    }
    let all = expected(&world, &session).await;
    let last = all.last().unwrap().0;
    let missed: Vec<Told> = all.iter().filter(|(seq, _)| *seq > last - 30).cloned().collect();
    assert!(
        opened.missed_events(last - 30, last, 30).is_some(),
        "they would read the log, each from its start"
    );
    let begun = Instant::now();
    let crowd = (0..WATCHERS).map(|_| async {
        let mut seen = Seen { after: last - 30, ..Seen::default() };
        let mut stream = Stream::open(&world, &session, seen.after).await;
        while seen.after < last {
            stream.next(&mut seen).await;
        }
        seen.told
    });
    let crowd = tokio::time::timeout(PATIENCE * 4, futures_util::future::join_all(crowd)).await.unwrap();
    assert!(crowd.iter().all(|told| *told == missed));
    eprintln!("{WATCHERS} came back to a log of {last} events in {:?}", begun.elapsed());
}
