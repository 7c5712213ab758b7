use std::sync::Arc;
use std::time::{Duration, SystemTime};

use longhaul::session::Runtime;
use longhaul::testing::{self, TemporaryFolder};
use longhaul_core::event::EventBody;
use longhaul_core::message::{MediaPart, Message, Part};
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_store::{BlobStore, MemoryStore, NewQueuedMessage, NewSession, SharedUpkeep, Store, UNTOUCHED};

use super::{MaintenanceConfig, once};
use crate::app::{AppState, HttpServerConfig};
use crate::token::AccessToken;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct World {
    app: AppState,
    store: Arc<MemoryStore>,
    blobs: BlobStore,
    keeping: MaintenanceConfig,
    _folder: TemporaryFolder,
}

impl World {
    async fn new(days: Option<u32>) -> Self {
        let folder = TemporaryFolder::new().unwrap();
        let store = Arc::new(MemoryStore::new());
        let blobs = BlobStore::in_memory(1 << 20);
        let agent = testing::agent(
            Arc::new(ScriptedProvider::new(ModelScript::always(ScriptedAnswer::text("hello")))),
            &folder,
        )
        .await
        .unwrap();
        let runtime = Runtime::new(agent, Arc::clone(&store) as _, blobs.clone());
        let upkeep: SharedUpkeep = Arc::clone(&store) as _;
        let keeping = MaintenanceConfig { upkeep, sessions: days.map(|days| DAY * days) };
        let app =
            AppState::new(runtime, HttpServerConfig::new(AccessToken::new("a token that is long enough")));
        Self { app, store, blobs, keeping, _folder: folder }
    }

    /// A session whose log last grew that many days before [`now`].
    async fn session(&self, id: &str, days: u32, more: Vec<EventBody>) {
        let at = millis(now() - DAY * days);
        let first =
            EventBody::SessionStarted { title: None, forked_from: None, imported_from: None, folder: None };
        let events = std::iter::once(first).chain(more).map(|event| (at, event)).collect();
        self.store.create(NewSession { id: id.into(), title: None, at, events }).await.unwrap();
    }

    async fn ids(&self) -> Vec<String> {
        let records = self.store.sessions(100).await.unwrap();
        let mut ids: Vec<_> = records.into_iter().map(|record| record.id.as_str().to_owned()).collect();
        ids.sort();
        ids
    }
}

/// Late enough for what is stored during the test to be forgotten.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000)
}

fn millis(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64
}

fn note(parts: Vec<Part>) -> EventBody {
    EventBody::message_taken(Message::user("m", parts))
}

#[tokio::test]
async fn sessions_go_when_they_are_older_than_they_are_kept_and_nothing_goes_on_in_them() {
    let world = World::new(Some(90)).await;
    world.session("young", 89, vec![]).await;
    for old in ["gone", "runs", "waits", "open", "parked"] {
        world.session(old, 91, vec![]).await;
    }
    let message = NewQueuedMessage::new("q", 1, vec![Part::text("still waits")], 10);
    world.store.enqueue(&"waits".into(), message).await.unwrap();
    world.session("runs-2", 91, vec![EventBody::RunStarted { run_id: "r".into() }]).await;
    world.store.delete(&"runs".into()).await.unwrap();
    world.store.delete(&"parked".into()).await.unwrap();
    world.session("parked", 91, vec![EventBody::Parked { reason: "r".to_owned() }]).await;
    let lease = world.store.claim(&"open".into(), "somebody").await.unwrap();
    let kept = once(&world.app, &world.keeping, now()).await.unwrap().unwrap();
    assert_eq!(kept.sessions, 1);
    assert_eq!(world.ids().await, ["open", "parked", "runs-2", "waits", "young"]);
    // Nobody has it open any more.
    world.store.release(&lease).await.unwrap();
    assert_eq!(once(&world.app, &world.keeping, now()).await.unwrap().unwrap().sessions, 1);
    assert_eq!(world.ids().await, ["parked", "runs-2", "waits", "young"]);
    let forever = MaintenanceConfig { sessions: None, ..world.keeping.clone() };
    once(&world.app, &forever, now() + DAY * 10_000).await.unwrap();
    assert_eq!(world.ids().await.len(), 4);
}

#[tokio::test]
async fn blobs_go_with_the_last_session_that_names_them() {
    let world = World::new(None).await;
    let image = |blob| {
        let media_type = "image/png".to_owned();
        Part::Image(MediaPart { blob, media_type, name: None, width: None, height: None })
    };
    let (said, waiting) = (world.blobs.put("said").await.unwrap(), world.blobs.put("waiting").await.unwrap());
    world.session("one", 1, vec![note(vec![image(said.clone())])]).await;
    world.session("two", 1, vec![note(vec![image(said.clone())])]).await;
    let parts = vec![image(waiting.clone())];
    let message = NewQueuedMessage::new("q", 1, parts, 10);
    world.store.enqueue(&"one".into(), message).await.unwrap();
    let swept = async |later: Duration| {
        let at = SystemTime::now() + UNTOUCHED + later;
        once(&world.app, &world.keeping, at).await.unwrap().unwrap().blobs
    };
    let minute = Duration::from_secs(60);
    assert_eq!(swept(minute).await.set_aside, 0, "both are named");
    world.store.delete(&"two".into()).await.unwrap();
    assert_eq!(swept(minute).await.set_aside, 0, "the other one names them still");
    world.store.delete(&"one".into()).await.unwrap();
    assert_eq!(swept(minute).await.set_aside, 2);
    assert_eq!(world.blobs.get(&said).await.unwrap(), "said", "not before another day");
    // Reading has brought it back, and so it goes aside once more; what nobody has read is gone.
    let gone = swept(minute).await;
    assert_eq!((gone.set_aside, gone.removed), (1, 2));
    assert_eq!(world.blobs.get(&said).await.unwrap(), "said");
    assert!(world.blobs.get(&waiting).await.is_err());
    let text = world.app.config().counters.text(&std::collections::BTreeMap::new(), 0);
    assert!(!text.contains("longhaul_blobs_removed_total{"), "{text}");
    let figure = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    let counted = ["longhaul_blobs_set_aside_total ", "longhaul_blobs_removed_total "].map(figure);
    assert_eq!(counted, [Some(3_u64), Some(2)], "{text}");
}
