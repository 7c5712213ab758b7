//! `kill -9` at named points: in the middle of a tool, between a blob and its event, in a compaction, in a
//! first start; and at every single write of one whole turn.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;

use super::check::{self, Findings};
use super::model::{Asked, Call, Model, Say};
use super::rng::Rng;
use super::server::{Place, Rules, ServerProcess};
use super::shim::{Moment, kind};
use super::talk::{Talker, conclude};
use super::{rounds, seed};

/// A model that asks for one command with a long output in each turn, and then says something long.
fn steady(asked: &Asked) -> Say {
    if asked.summary {
        return Say { text: format!("Goal: stay whole. {}", "done ".repeat(30)), ..Say::default() };
    }
    let text = "word ".repeat(120);
    let command = format!("echo @ >> {}; seq 1 1500; echo @", check::EFFECTS);
    let calls = if asked.after_tools { Vec::new() } else { vec![Call::Bash(command)] };
    Say { text, calls, ..Say::default() }
}

/// A place whose session compacts in its next turn, with the one who talks to it.
async fn about_to_compact(model: &Model) -> (Place, Talker) {
    let place = Place::new(&model.url);
    let talker = Talker::new("s", 0, place.position());
    let server = place.start(Rules::default()).await;
    talker.finish(&server.api).await;
    server.terminate().await;
    let mut before = place;
    for probe in 0..20 {
        let summaries = model.summaries();
        let after = before.copy();
        let server = after.start(Rules::default()).await;
        talker.successor(&format!("probe{probe}")).finish(&server.api).await;
        server.terminate().await;
        if model.summaries() > summaries {
            return (before, talker);
        }
        before = after;
    }
    panic!("no compaction in twenty turns");
}

/// Sends a message and waits for the end of the run, or of the process; whether it was the run's.
async fn turn(server: &ServerProcess, talker: &Talker) -> bool {
    if talker.begin(&server.api).await.is_err() {
        return false;
    }
    let talking = async {
        talker.catch_up().await;
        let completed = talker.account().look().count("run:complete");
        match talker.send(&server.api, &talker.next_text()).await {
            Ok(_) => {
                let account = talker.account();
                account.until("the turn is over", |entries| entries.count("run:complete") > completed).await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = talker.watch(&server.api) => false,
        () = talking => true,
    }
}

/// Starts again after a kill, lets the session go on, and checks everything.
async fn go_on(mut place: Place, talker: &Talker, model: &Model, rules: Rules) {
    place.shim = None;
    let server = place.start(rules).await;
    conclude(&server.api, std::slice::from_ref(talker), &place, model).await;
    assert!(server.terminate().await.status.success());
    let mut findings = Findings::default();
    check::sound(&place.data(), &mut findings).await;
    findings.are_none("after the end");
}

/// With a shim that dispenses with fsyncs: the system does not fall here.
pub(crate) fn shimmed(place: Place) -> Place {
    let place = place.shimmed(false);
    place.shim().be_lazy();
    place
}

/// Every `n` from 1 to `total`, or so many of them.
pub(crate) fn points(total: u64, most: u64, seed: u64) -> Vec<u64> {
    let mut rng = Rng::of(seed, "points");
    let mut all: Vec<u64> = (1..=total).collect();
    while all.len() as u64 > most {
        all.swap_remove(rng.below(all.len() as u64) as usize);
    }
    all
}

/// Does it for each of them, a few at a time: most of the time of a try is spent waiting.
pub(crate) async fn each<F: Future<Output = ()>>(all: impl IntoIterator<Item = u64>, one: impl Fn(u64) -> F) {
    futures_util::stream::iter(all).for_each_concurrent(3, one).await;
}

pub(crate) fn moment(rng: &mut Rng) -> Moment {
    *rng.pick(&[Moment::Before, Moment::Amid, Moment::After])
}

/// Starts and has one turn; says whether it came to its end.
async fn try_turn(place: &Place, talker: &Talker) -> bool {
    match place.try_start(Rules::default()).await {
        Ok(server) => {
            let whole = turn(&server, talker).await;
            server.kill().await;
            whole
        }
        Err(_) => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_write_of_a_turn() {
    let seed = seed("turn");
    let model = Model::start(steady).await;
    let (template, session) = about_to_compact(&model).await;
    let place = shimmed(template.copy());
    // A kill that never comes: the shim only counts the writes of a whole turn.
    place.shim().kill_at(u64::MAX >> 1, Moment::Before, kind::ALL, "data");
    assert!(try_turn(&place, &session.successor("whole")).await);
    let total = place.shim().counted();
    let points = points(total, rounds(), seed);
    eprintln!("turn: killed at {} of {total} writes", points.len());
    each(points, async |n| {
        let mut rng = Rng::of(seed, n);
        let (place, talker) = (shimmed(template.copy()), session.successor(&format!("n{n}")));
        place.shim().kill_at(n, moment(&mut rng), kind::ALL, "data");
        try_turn(&place, &talker).await;
        eprintln!("turn: {n} {}", place.shim().last());
        go_on(place, &talker, &model, Rules { continues: rng.chance(50), ..Rules::default() }).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_write_of_the_first_start() {
    let seed = seed("first start");
    let model = Model::start(steady).await;
    let place = shimmed(Place::new(&model.url));
    // A kill that never comes: the shim only counts the writes of a first start.
    place.shim().kill_at(u64::MAX >> 1, Moment::Before, kind::ALL, "data");
    place.start(Rules::default()).await.kill().await;
    let total = place.shim().counted();
    let points = points(total, rounds(), seed);
    eprintln!("first start: killed at {} of {total} writes", points.len());
    each(points, async |n| {
        let place = shimmed(Place::new(&model.url));
        place.shim().kill_at(n, moment(&mut Rng::of(seed, n)), kind::ALL, "data");
        if let Ok(server) = place.try_start(Rules::default()).await {
            server.kill().await;
        }
        eprintln!("first start: {n} {}", place.shim().last());
        let talker = Talker::new(&format!("f{n}"), 0, place.position());
        go_on(place, &talker, &model, Rules::default()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_a_tool_runs_it_is_not_run_again() {
    // Before its effect, and after it.
    for (command, marks) in [("sleep 2; echo @ >> effects.log", 0), ("echo @ >> effects.log; sleep 3", 1)] {
        for continues in [false, true] {
            let model = Model::start(move |asked| {
                let calls = if asked.number == 0 { vec![Call::Bash(command.to_owned())] } else { Vec::new() };
                Say { text: "Well. ".to_owned(), calls, ..Say::default() }
            })
            .await;
            let place = Place::new(&model.url);
            let talker = Talker::new("s", 0, place.position());
            let server = place.start(Rules::default()).await;
            talker.begin(&server.api).await.unwrap();
            let effects = place.work().join(check::EFFECTS);
            let reached = async {
                let account = talker.account();
                account.until("the tool runs", |entries| entries.count("tool:started") == 1).await;
                while marks == 1 && !effects.exists() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::select! {
                () = talker.watch(&server.api) => panic!("the stream ended"),
                () = reached => {}
            }
            server.kill().await;
            go_on(place, &talker, &model, Rules { continues, ..Rules::default() }).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_a_blob_and_its_event() {
    let model = Model::start(steady).await;
    let points = [
        (1, kind::WRITE, Moment::Amid),
        (1, kind::SYNC, Moment::Before),
        (1, kind::LINK, Moment::Before),
        (1, kind::LINK, Moment::After),
        (2, kind::SYNC, Moment::After),
        (1, kind::UNLINK, Moment::Before),
        (1, kind::UNLINK, Moment::After),
    ];
    for (n, kinds, moment) in points {
        let place = shimmed(Place::new(&model.url));
        let talker = Talker::new(&format!("{kinds}-{moment:?}"), 0, place.position());
        place.shim().kill_at(n, moment, kinds, "data/blobs/");
        assert!(!try_turn(&place, &talker).await, "{n} {kinds} {moment:?} was not reached");
        go_on(place, &talker, &model, Rules::default()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_the_summary_is_written() {
    let stalls = Arc::new(Mutex::new(false));
    let stalling = Arc::clone(&stalls);
    let model = Model::start(move |asked| {
        let stalls = asked.summary && std::mem::take(&mut *stalling.lock().unwrap());
        Say { stalls, ..steady(asked) }
    })
    .await;
    let (template, session) = about_to_compact(&model).await;
    for continues in [false, true] {
        let (place, talker) = (template.copy(), session.successor("one"));
        *stalls.lock().unwrap() = true;
        let server = place.start(Rules::default()).await;
        let stuck = async {
            while *stalls.lock().unwrap() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            talker.account().until("it compacts", |entries| entries.has_passed("context:compacting")).await;
        };
        tokio::select! {
            _ = turn(&server, &talker) => panic!("the summary did not stall"),
            () = stuck => {}
        }
        server.kill().await;
        go_on(place, &talker, &model, Rules { continues, ..Rules::default() }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_a_summary_and_its_place_in_the_log() {
    type Hook = Arc<dyn Fn() + Send + Sync>;
    let hook: Arc<Mutex<Option<Hook>>> = Arc::default();
    let hooked = Arc::clone(&hook);
    let model = Model::start(move |asked| {
        let hook = hooked.lock().unwrap().clone().filter(|_| asked.summary);
        Say { before_end: hook.map(|hook| Box::new(move || hook()) as Box<_>), ..steady(asked) }
    })
    .await;
    let (template, session) = about_to_compact(&model).await;
    let writes = (1..=8).map(|n| (n, kind::WRITE, if n % 2 == 0 { Moment::Amid } else { Moment::Before }));
    let syncs = [(1, kind::SYNC, Moment::Before), (1, kind::SYNC, Moment::After)];
    for (n, kinds, moment) in writes.chain(syncs) {
        let (place, talker) =
            (shimmed(template.copy()), session.successor(&format!("{n}-{kinds}-{moment:?}")));
        let shim = Arc::clone(place.shim());
        *hook.lock().unwrap() =
            Some(Arc::new(move || shim.kill_at(n, moment, kinds, "data/longhaul.db-wal")));
        assert!(!try_turn(&place, &talker).await, "{n} {kinds} {moment:?} was not reached");
        *hook.lock().unwrap() = None;
        go_on(place, &talker, &model, Rules::default()).await;
    }
}
