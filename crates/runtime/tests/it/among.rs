//! A runtime among other nodes: when it looks for what they have left.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use longhaul::session::Runtime;
use longhaul::testing::{self, Folder};
use longhaul_core::ids::SessionId;
use longhaul_core::message::Part;
use longhaul_providers::scripted::{Script, Scripted, ScriptedAnswer};
use longhaul_store::{
    Arrivals, Arriving, Blobs, BootId, Lease, MemoryStore, NewQueued, Node, Nodes, Signal, Standing,
    StoreError,
};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Nodes that have left nothing but news.
struct Others {
    standing: watch::Sender<Standing>,
    arriving: Arriving,
    /// When somebody looked for sessions.
    looks: mpsc::UnboundedSender<Instant>,
    /// When the first lease ends, look by look.
    ends: Mutex<VecDeque<Option<Duration>>>,
}

impl Others {
    fn new(looks: mpsc::UnboundedSender<Instant>, ends: impl Into<VecDeque<Option<Duration>>>) -> Arc<Self> {
        Arc::new(Self {
            standing: watch::Sender::new(Standing::Joined(BootId::new("this"))),
            arriving: Arriving::default(),
            looks,
            ends: Mutex::new(ends.into()),
        })
    }
}

#[async_trait]
impl Nodes for Others {
    fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        Ok(Vec::new())
    }

    async fn living_owner(&self, _: &SessionId) -> Result<Option<Node>, StoreError> {
        Ok(None)
    }

    async fn orphans(&self, _: usize, _: bool) -> Result<Vec<SessionId>, StoreError> {
        self.looks.send(Instant::now()).unwrap();
        Ok(Vec::new())
    }

    async fn next_lease_end(&self) -> Result<Option<Duration>, StoreError> {
        let end = self.ends.lock().unwrap().pop_front();
        end.ok_or_else(|| StoreError::Storage("the database is away".to_owned()))
    }

    async fn signal(&self, _: &SessionId, _: String) -> Result<(), StoreError> {
        Err(StoreError::Closed)
    }

    async fn signals(&self, _: &SessionId) -> Result<Vec<Signal>, StoreError> {
        Ok(Vec::new())
    }

    async fn take_signals(&self, _: &Lease) -> Result<Vec<Signal>, StoreError> {
        Ok(Vec::new())
    }

    fn arrivals(&self) -> Arrivals {
        self.arriving.subscribe()
    }
}

#[tokio::test]
async fn what_a_node_leaves_is_looked_for_as_its_lease_ends() {
    let folder = Folder::new().unwrap();
    let model = Arc::new(Scripted::new(Script::turns(Vec::<ScriptedAnswer>::new())));
    let agent = testing::agent(model, &folder).await.unwrap();
    let runtime = Runtime::new(agent, Arc::new(MemoryStore::new()), Blobs::in_memory(1 << 20));
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
        () = runtime.attend_nodes() => panic!("it does not attend"),
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
    let folder = Folder::new().unwrap();
    let slow = ScriptedAnswer::text("slowly").pace(Duration::from_secs(3_600));
    let model = Arc::new(Scripted::new(Script::turns([slow, ScriptedAnswer::text("well")])));
    let agent = testing::agent(model, &folder).await.unwrap();
    let runtime = Runtime::new(agent, Arc::new(MemoryStore::new()), Blobs::in_memory(1 << 20));
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
        let taken = async || session.look(|run| run.history().view().len()).await.unwrap();
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
        let third = NewQueued { id: "third".into(), client_key: None, at: 0, parts, queue_limit: 9 };
        runtime.store().enqueue(session.id(), third).await.unwrap();
        news().await;
        session.settled().await.unwrap();
        assert_eq!((taken().await, session.queue().await.unwrap().len()), (before + 2, 0));
    };
    tokio::select! {
        () = runtime.attend_nodes() => panic!("it does not attend"),
        () = talk => {}
    }
}
