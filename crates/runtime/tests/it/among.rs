//! A runtime among other nodes: when it looks for what they have left.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use longhaul::session::{Runtime, SessionError};
use longhaul::testing::{self, TemporaryFolder};
use longhaul_core::event::EventBody;
use longhaul_core::ids::SessionId;
use longhaul_core::message::Part;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_store::{
    BlobStore, BootId, ClusterNode, ClusterStore, Lease, MemoryStore, NewQueuedMessage, NewSession,
    NodeStatus, SessionChangePublisher, SessionChangeReceiver, SessionSignal, Store, StoreError,
};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::eviction::witness::Witness;

/// Nodes that have left news, and sessions.
struct Others {
    standing: watch::Sender<NodeStatus>,
    arriving: SessionChangePublisher,
    /// When somebody looked for sessions.
    looks: mpsc::UnboundedSender<Instant>,
    /// When the first lease ends, look by look.
    ends: Mutex<VecDeque<Option<Duration>>>,
    orphans: Mutex<Vec<SessionId>>,
}

impl Others {
    fn new(looks: mpsc::UnboundedSender<Instant>, ends: impl Into<VecDeque<Option<Duration>>>) -> Arc<Self> {
        Arc::new(Self {
            standing: watch::Sender::new(NodeStatus::Joined(BootId::new("this"))),
            arriving: SessionChangePublisher::default(),
            looks,
            ends: Mutex::new(ends.into()),
            orphans: Mutex::default(),
        })
    }
}

#[async_trait]
impl ClusterStore for Others {
    fn standing(&self) -> watch::Receiver<NodeStatus> {
        self.standing.subscribe()
    }

    async fn nodes(&self) -> Result<Vec<ClusterNode>, StoreError> {
        Ok(Vec::new())
    }

    async fn living_owner(&self, _: &SessionId) -> Result<Option<ClusterNode>, StoreError> {
        Ok(None)
    }

    async fn orphans(&self, _: usize, _: bool) -> Result<Vec<SessionId>, StoreError> {
        self.looks.send(Instant::now()).unwrap();
        Ok(self.orphans.lock().unwrap().clone())
    }

    async fn next_lease_end(&self) -> Result<Option<Duration>, StoreError> {
        let end = self.ends.lock().unwrap().pop_front();
        end.ok_or_else(|| StoreError::Storage("the database is away".to_owned()))
    }

    async fn signal(&self, _: &SessionId, _: String) -> Result<(), StoreError> {
        Err(StoreError::Closed)
    }

    async fn signals(&self, _: &SessionId) -> Result<Vec<SessionSignal>, StoreError> {
        Ok(Vec::new())
    }

    async fn take_signals(&self, _: &Lease) -> Result<Vec<SessionSignal>, StoreError> {
        Ok(Vec::new())
    }

    fn arrivals(&self) -> SessionChangeReceiver {
        self.arriving.subscribe()
    }
}

#[tokio::test]
async fn what_a_node_leaves_is_looked_for_as_its_lease_ends() {
    let folder = TemporaryFolder::new().unwrap();
    let model = Arc::new(ScriptedProvider::new(ModelScript::turns(Vec::<ScriptedAnswer>::new())));
    let agent = testing::agent(model, &folder).await.unwrap();
    let runtime = Runtime::new(agent, Arc::new(MemoryStore::new()), BlobStore::in_memory(1 << 20));
    let (told, mut looks) = mpsc::unbounded_channel();
    let millis = Duration::from_millis;
    // Nobody else; one that renews; one that does so no more, and is gone; then nobody knows.
    let ends = [None, Some(millis(7_500)), Some(millis(300)), Some(millis(0)), None];
    runtime.join(Others::new(told, ends));
    tokio::time::pause();
    let mut last = Instant::now();
    let looking = async {
        let mut pauses = Vec::new();
        while pauses.len() < 8 {
            let look = looks.recv().await.unwrap();
            pauses.push(look.duration_since(std::mem::replace(&mut last, look)));
        }
        pauses
    };
    let pauses = tokio::select! {
        () = runtime.run_node_duties() => panic!("it does not attend"),
        pauses = looking => pauses,
    };
    let (usual, soon) = (millis(1_000)..=millis(2_000), millis(300)..=millis(510));
    assert!(pauses[1] == pauses[2] && usual.contains(&pauses[1]), "{pauses:?}");
    assert!(soon.contains(&pauses[3]), "{pauses:?}");
    assert!((millis(50)..=millis(210)).contains(&pauses[4]), "{pauses:?}");
    assert!(pauses[5..].iter().all(|pause| *pause == pauses[1]), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn news_of_what_waits_since_a_cancel_wakes_nobody() {
    let folder = TemporaryFolder::new().unwrap();
    let slow = ScriptedAnswer::text("slowly").pace(Duration::from_secs(3_600));
    let model = Arc::new(ScriptedProvider::new(ModelScript::turns([slow, ScriptedAnswer::text("well")])));
    let agent = testing::agent(model, &folder).await.unwrap();
    let runtime = Runtime::new(agent, Arc::new(MemoryStore::new()), BlobStore::in_memory(1 << 20));
    let (told, _looks) = mpsc::unbounded_channel();
    let others = Others::new(told, []);
    runtime.join(others.clone());
    let session = runtime.create(None).await.unwrap();
    let talk = async {
        let say = async |text: &str| session.send(vec![Part::text(text)]).await.unwrap();
        let news = async || {
            others.arriving.publish(session.id());
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let taken = async || session.inspect_run(|run| run.history().view().len()).await.unwrap();
        say("first").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(say("second").await.queued);
        // The news of it is late.
        session.cancel(false).await.unwrap();
        session.settled().await.unwrap();
        let before = taken().await;
        news().await;
        assert_eq!((taken().await, session.queue().await.unwrap().len()), (before, 1));
        // Somebody at another node sends one.
        let parts = vec![Part::text("third")];
        let third = NewQueuedMessage::new("third", 0, parts, 9);
        runtime.store().enqueue(session.id(), third).await.unwrap();
        news().await;
        session.settled().await.unwrap();
        assert_eq!((taken().await, session.queue().await.unwrap().len()), (before + 2, 0));
    };
    tokio::select! {
        () = runtime.run_node_duties() => panic!("it does not attend"),
        () = talk => {}
    }
}

/// A runtime that is given sessions late, and two of them that nobody has.
async fn late() -> (Arc<Runtime>, Arc<Witness>, [SessionId; 2], TemporaryFolder) {
    let folder = TemporaryFolder::new().unwrap();
    let model = Arc::new(ScriptedProvider::new(ModelScript::always(ScriptedAnswer::text("Yes."))));
    let agent = testing::agent(model, &folder).await.unwrap();
    let witness = Arc::new(Witness::new(7));
    let ids = ["late", "other"].map(SessionId::from);
    for id in &ids {
        let begun =
            EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
        let new = NewSession { id: id.clone(), title: None, at: 1, events: vec![(1, begun)] };
        witness.create(new).await.unwrap();
    }
    witness.withhold(&[&ids[0]]);
    let runtime = Runtime::new(agent, witness.clone(), BlobStore::in_memory(1 << 20));
    (Arc::new(runtime), witness, ids, folder)
}

#[tokio::test]
async fn a_node_that_gives_its_sessions_away_keeps_none_that_comes_late() {
    let (runtime, witness, [late, other], _folder) = late().await;
    let opening = tokio::spawn({
        let (runtime, late) = (Arc::clone(&runtime), late.clone());
        async move { runtime.open(&late).await.map(drop) }
    });
    // The opening must have passed the first check before the sessions are given away.
    witness.somebody_waits().await;
    runtime.give_away().await;
    witness.withhold(&[]);
    let elsewhere = |error: &SessionError| matches!(error, SessionError::Store(StoreError::Elsewhere { .. }));
    assert!(opening.await.unwrap().is_err_and(|error| elsewhere(&error)));
    assert!(!witness.is_held(&late) && runtime.opened().is_empty());
    assert!(runtime.open(&other).await.is_err_and(|error| elsewhere(&error)));
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_no_session_that_is_not_given() {
    let (runtime, witness, [late, _], _folder) = late().await;
    let opening = tokio::spawn({
        let runtime = Arc::clone(&runtime);
        async move { runtime.open(&late).await.map(drop) }
    });
    witness.somebody_waits().await;
    timeout(Duration::from_secs(1), runtime.close()).await.unwrap();
    assert!(matches!(opening.await.unwrap(), Err(SessionError::Stopped)));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_cannot_be_had_keeps_nobody_from_taking_others_over() {
    let (runtime, witness, [late, other], _folder) = late().await;
    let (told, _looks) = mpsc::unbounded_channel();
    let others = Others::new(told, []);
    runtime.join(others.clone());
    others.orphans.lock().unwrap().push(late.clone());
    let taken = async {
        witness.somebody_waits().await;
        // Its node dies while the first one is waited for.
        others.orphans.lock().unwrap().push(other.clone());
        while !witness.is_held(&other) {
            sleep(Duration::from_millis(100)).await;
        }
        assert!(!witness.is_held(&late));
        witness.withhold(&[]);
        while !witness.is_held(&late) {
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = runtime.run_node_duties() => panic!("it does not attend"),
        taken = timeout(Duration::from_secs(10), taken) => taken.unwrap(),
    }
    assert_eq!(witness.claims(), 2, "each is taken once");
    assert_eq!(witness.wrongs(), Vec::<String>::new());
}

#[tokio::test]
async fn a_message_that_a_closing_session_has_accepted_is_said_to_be_accepted() {
    let (runtime, witness, [_, other], _folder) = late().await;
    let session = runtime.open(&other).await.unwrap();
    witness.withhold(&[&other]);
    let sending = tokio::spawn(async move { session.send(vec![Part::text("hello")]).await });
    witness.somebody_waits().await;
    runtime.give_away().await;
    witness.withhold(&[]);
    let sent = sending.await.unwrap().unwrap();
    let queue = witness.queue(&other).await.unwrap();
    assert_eq!(queue.iter().map(|message| &message.id).collect::<Vec<_>>(), [&sent.id]);
}
