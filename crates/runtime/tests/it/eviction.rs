//! Sessions that nobody uses are given up and opened again, under any interleaving: nothing that was acknowledged
//! is lost, and no session ever has two drivers.

pub(crate) mod witness;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longhaul::session::{Runtime, Session};
use longhaul::testing::{self, TemporaryFolder};
use longhaul_core::event::EventBody;
use longhaul_core::history::History;
use longhaul_core::ids::SessionId;
use longhaul_core::message::Part;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_store::{BlobStore, SharedStore, Store};
use tokio::task::JoinSet;

use self::witness::{Dice, Witness};

const SESSIONS: u64 = 4;
const PEOPLE: u64 = 12;
const ACTS: u64 = 40;

/// So short that sessions come and go while people are at work.
const IDLE: Duration = Duration::from_millis(3);

struct EvictingRuntime {
    runtime: Arc<Runtime>,
    model: Arc<ScriptedProvider>,
    witness: Arc<Witness>,
    sessions: Vec<SessionId>,
    _folder: TemporaryFolder,
}

impl EvictingRuntime {
    async fn new(seed: u64) -> Self {
        let folder = TemporaryFolder::new().unwrap();
        let answer = ScriptedAnswer::text("Yes, of course.").pace(Duration::from_micros(300));
        let model = Arc::new(ScriptedProvider::new(ModelScript::always(answer)));
        let mut agent = testing::agent(model.clone(), &folder).await.unwrap();
        // The messages of all people may wait in a single session.
        agent.rules.queue_limit = 10_000;
        agent.rules.persist_every = Duration::from_micros(200);
        let witness = Arc::new(Witness::new(seed));
        let store: SharedStore = witness.clone();
        let runtime = Arc::new(Runtime::with_idle(agent, store, BlobStore::in_memory(1 << 20), IDLE));
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            sessions.push(runtime.create(None).await.unwrap().id().clone());
        }
        Self { runtime, model, witness, sessions, _folder: folder }
    }

    /// Everybody at once; what was acknowledged, by session.
    async fn bustle(&self, seed: u64) -> BTreeMap<SessionId, Vec<String>> {
        let mut people = JoinSet::new();
        for person in 0..PEOPLE {
            let (runtime, sessions) = (Arc::clone(&self.runtime), self.sessions.clone());
            people.spawn(
                async move { work(&runtime, &sessions, person, Dice::new(seed ^ (person << 32))).await },
            );
        }
        let mut sent: BTreeMap<SessionId, Vec<String>> = BTreeMap::new();
        while let Some(one) = people.join_next().await {
            for (id, text) in one.unwrap() {
                sent.entry(id).or_default().push(text);
            }
        }
        sent
    }

    async fn check(&self, seed: u64, sent: &BTreeMap<SessionId, Vec<String>>) {
        for id in &self.sessions {
            let session = self.runtime.open(id).await.unwrap();
            // A cancel leaves waiting what waited.
            while !session.queue().await.unwrap().is_empty() {
                session.resume().await.unwrap();
                session.settled().await.unwrap();
            }
            session.settled().await.unwrap();
            let log = self.runtime.log(id).await.unwrap();
            assert!(History::fold(&log).is_ok(), "seed {seed}");
            let said: Vec<&str> = log.iter().filter_map(typed).flatten().collect();
            for text in sent.get(id).into_iter().flatten() {
                let found = said.iter().filter(|said| *said == text).count();
                assert_eq!(found, 1, "seed {seed}: {text} is in the history of {id} {found} times");
            }
            let shown = session.inspect_run(|run| run.history().last_seq()).await.unwrap();
            assert_eq!(shown, log.len() as u64, "seed {seed}");
        }
        assert_eq!(self.witness.wrongs(), Vec::<String>::new(), "seed {seed}");
        assert_eq!(self.model.invalid_requests(), 0, "seed {seed}");
    }
}

fn typed(event: &longhaul_core::event::Event) -> Option<Vec<&str>> {
    match &event.body {
        EventBody::MessagesTaken { message, .. } => {
            Some(message.parts.iter().filter_map(Part::as_text).collect())
        }
        _ => None,
    }
}

/// One person's doings; what was acknowledged.
async fn work(
    runtime: &Runtime,
    sessions: &[SessionId],
    person: u64,
    mut dice: Dice,
) -> Vec<(SessionId, String)> {
    let mut sent = Vec::new();
    for act in 0..ACTS {
        let id = &sessions[dice.below(SESSIONS) as usize];
        let session = runtime.open(id).await.unwrap();
        match dice.below(10) {
            0..5 => {
                let text = format!("message {act} of person {person}");
                session.send(vec![Part::text(&*text)]).await.unwrap();
                sent.push((id.clone(), text));
            }
            5 => drop(session.cancel(false).await.unwrap()),
            6 => drop(session.resume().await.unwrap()),
            7 => listen(&session, &mut dice).await,
            8 => drop(session.context().await.unwrap()),
            _ => drop(session.settled().await.unwrap()),
        }
        let pause = tokio::time::sleep(Duration::from_micros(dice.below(5_000)));
        if dice.below(3) == 0 {
            // Who holds on to a session finds it as it was.
            pause.await;
            session.inspect_run(|_| ()).await.unwrap();
        } else {
            drop(session);
            pause.await;
        }
    }
    sent
}

async fn listen(session: &Session, dice: &mut Dice) {
    let mut watch = session.watch();
    let for_a_while = Duration::from_micros(dice.below(8_000));
    let _ = tokio::time::timeout(for_a_while, async { while watch.recv().await.is_ok() {} }).await;
}

async fn story(seed: u64) -> usize {
    let world = EvictingRuntime::new(seed).await;
    let sent = world.bustle(seed).await;
    world.check(seed, &sent).await;
    let openings = world.witness.claims();
    world.runtime.close().await;
    openings
}

#[test]
fn sessions_come_and_go_and_nothing_is_lost() {
    let mut openings = 0;
    for seed in 0..40 {
        // Time passes when everybody waits: a story takes no longer than its computing.
        let virtual_time =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        openings += virtual_time.block_on(story(seed));
    }
    // Without many openings the stories would test no eviction at all.
    assert!(openings > 40 * SESSIONS as usize * 4, "sessions were hardly ever given up: {openings} openings");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_come_and_go_under_real_threads() {
    // Real threads find interleavings that virtual time does not, but take real time: hence few seeds.
    for seed in 0..6 {
        story(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deleted_session_stays_deleted_whoever_asks_for_it() {
    let world = EvictingRuntime::new(7).await;
    let id = world.sessions[0].clone();
    let mut asking = JoinSet::new();
    for _ in 0..8 {
        let (runtime, id) = (Arc::clone(&world.runtime), id.clone());
        asking.spawn(async move {
            while let Ok(session) = runtime.open(&id).await {
                // It may be deleted under the hand.
                let _ = session.send(vec![Part::text("still there?")]).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(30)).await;
    // Who opens it again in between makes the store refuse.
    while world.runtime.delete(&id).await.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    asking.join_all().await;
    assert!(world.witness.session(&id).await.is_err());
    assert_eq!(world.witness.wrongs(), Vec::<String>::new());
}
