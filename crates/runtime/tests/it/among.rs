//! A runtime among other nodes: when it looks for what they have left.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use longhaul::session::Runtime;
use longhaul::testing::{self, Folder};
use longhaul_core::ids::SessionId;
use longhaul_providers::scripted::{Script, Scripted, ScriptedAnswer};
use longhaul_store::{
    Arrivals, Arriving, Blobs, BootId, Lease, MemoryStore, Node, Nodes, Signal, Standing, StoreError,
};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Nodes that have left nothing.
struct Others {
    standing: watch::Sender<Standing>,
    arriving: Arriving,
    /// When somebody looked for sessions.
    looks: mpsc::UnboundedSender<Instant>,
    /// When the first lease ends, look by look.
    ends: Mutex<VecDeque<Option<Duration>>>,
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
    runtime.join(Arc::new(Others {
        standing: watch::Sender::new(Standing::Joined(BootId::new("this"))),
        arriving: Arriving::default(),
        looks: told,
        // Nobody else; one that renews; one that does so no more, and is gone; then nobody knows.
        ends: Mutex::new([None, Some(millis(7_500)), Some(millis(300)), Some(millis(0)), None].into()),
    }));
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
