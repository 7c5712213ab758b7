//! A session in a temporary folder, with a scripted model or one of the test's own.

use std::sync::Arc;
use std::time::Duration;

use longhaul::agent::Agent;
use longhaul::agents::AgentRegistry;
use longhaul::session::{Runtime, Session};
use longhaul::testing::{self, TemporaryFolder};
use longhaul_core::event::{Event, EventBody};
use longhaul_core::message::{Message, ToolResult};
use longhaul_core::run::{Run, RunStatus};
use longhaul_providers::scripted::{ModelScript, ScriptedProvider};
use longhaul_providers::{ModelRequest, Provider, SharedProvider};
use longhaul_store::{BlobStore, MemoryStore, SharedStore};

/// The most bytes of blobs that a session of a test may keep.
const BLOB_BYTES: u64 = 64 << 20;

/// The time after which a status that does not come fails a test.
const STATUS_PATIENCE: Duration = Duration::from_secs(20);

/// The arguments of a `bash` call that runs until [`TestSession::end_waiting_command`].
pub const WAITING_COMMAND: &str = r#"{"command":"until [ -e go ]; do sleep 0.02; done"}"#;

/// A session over a store in memory. A scripted model keeps its requests.
///
/// All built-in tools are allowed and work in the folder.
pub struct TestSession<P = ScriptedProvider> {
    /// The runtime of the session.
    pub runtime: Runtime,
    /// The session.
    pub session: Session,
    /// The model of the usual agent.
    pub model: Arc<P>,
    /// The store of the runtime.
    pub store: SharedStore,
    /// The workspace of the agent, which is removed with this value.
    pub folder: TemporaryFolder,
}

impl TestSession {
    /// Opens a session whose model follows a script.
    pub async fn with_script(script: ModelScript) -> Self {
        Self::with_model(ScriptedProvider::new(script)).await
    }

    /// Opens a session of a model.
    pub async fn with_model(model: ScriptedProvider) -> Self {
        Self::with_agent(model, |_, _| {}).await
    }

    /// Opens a session of a model after `change` has set the agent and filled its folder.
    pub async fn with_agent(
        model: ScriptedProvider,
        change: impl FnOnce(&mut Agent, &TemporaryFolder),
    ) -> Self {
        Self::with_provider(model.keep_requests(), change).await
    }

    /// Opens the session again with another model, as after a restart of the process.
    ///
    /// # Panics
    /// If the store refuses the session.
    pub async fn restart(
        self,
        model: ScriptedProvider,
        change: impl FnOnce(&mut Agent, &TemporaryFolder),
    ) -> Self {
        let Self { runtime, session, model: _, store, folder } = self;
        let id = session.id().clone();
        drop((session, runtime));
        let model = Arc::new(model.keep_requests());
        let agents = |agent, folder: &_| changed(agent, folder, change);
        let runtime = open_runtime(Arc::clone(&store), &model, &folder, agents).await;
        let session = runtime.open(&id).await.unwrap();
        Self { runtime, session, model, store, folder }
    }

    /// Returns all requests that the model has received.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.model.log().into_iter().filter_map(|call| call.request).collect()
    }

    /// Returns the newest request that the model has received.
    ///
    /// # Panics
    /// If there is none.
    pub fn newest_request(&self) -> ModelRequest {
        self.requests().pop().expect("a request")
    }
}

impl<P: Provider + 'static> TestSession<P> {
    /// Opens a session of any model after `change` has set the agent and filled its folder.
    pub async fn with_provider(model: P, change: impl FnOnce(&mut Agent, &TemporaryFolder)) -> Self {
        let agents = |agent, folder: &_| changed(agent, folder, change);
        Self::with_agents(Arc::new(MemoryStore::new()), model, agents).await
    }

    /// Opens a new session of any model over a store, with all agents that `agents` makes of the model's.
    ///
    /// # Panics
    /// If the folder cannot be made or the store refuses the session.
    pub async fn with_agents(
        store: SharedStore,
        model: P,
        agents: impl FnOnce(Agent, &TemporaryFolder) -> AgentRegistry,
    ) -> Self {
        let (folder, model) = (TemporaryFolder::new().unwrap(), Arc::new(model));
        let runtime = open_runtime(Arc::clone(&store), &model, &folder, agents).await;
        let session = runtime.create(None).await.unwrap();
        Self { runtime, session, model, store, folder }
    }

    /// Returns the session's log.
    ///
    /// # Panics
    /// If it cannot be read.
    pub async fn log(&self) -> Vec<Event> {
        self.runtime.log(self.session.id()).await.unwrap()
    }

    /// Returns all messages of the session's log, also those that the view leaves out.
    ///
    /// # Panics
    /// If the session has ended.
    pub async fn messages(&self) -> Vec<Message> {
        let all =
            |run: &Run| run.history().entries().iter().map(|entry| Message::clone(&entry.message)).collect();
        self.session.inspect_run(all).await.unwrap()
    }

    /// Returns the results of all tool calls so far.
    ///
    /// # Panics
    /// If the log cannot be read.
    pub async fn tool_results(&self) -> Vec<ToolResult> {
        let finished = |event: Event| match event.body {
            EventBody::ToolFinished { result } => Some(result),
            _ => None,
        };
        self.log().await.into_iter().filter_map(finished).collect()
    }

    /// Waits until the session has a status.
    ///
    /// # Panics
    /// If it does not have it in time.
    pub async fn wait_for_status(&self, wanted: RunStatus) {
        let mut status = self.session.status();
        let reached = status.wait_for(|status| *status == wanted);
        tokio::time::timeout(STATUS_PATIENCE, reached).await.expect("the status in time").unwrap();
    }

    /// Ends all running [`WAITING_COMMAND`]s.
    ///
    /// # Panics
    /// If the folder cannot be written to.
    pub fn end_waiting_command(&self) {
        std::fs::write(self.folder.path().join("go"), "").unwrap();
    }
}

/// Returns a registry of a single agent after `change` has set it.
fn changed(
    mut agent: Agent,
    folder: &TemporaryFolder,
    change: impl FnOnce(&mut Agent, &TemporaryFolder),
) -> AgentRegistry {
    change(&mut agent, folder);
    AgentRegistry::only(agent)
}

async fn open_runtime<P: Provider + 'static>(
    store: SharedStore,
    model: &Arc<P>,
    folder: &TemporaryFolder,
    agents: impl FnOnce(Agent, &TemporaryFolder) -> AgentRegistry,
) -> Runtime {
    let provider: SharedProvider = model.clone();
    let agent = testing::agent(provider, folder).await.unwrap();
    Runtime::of(agents(agent, folder), store, BlobStore::in_memory(BLOB_BYTES))
}
