//! A session in a temporary folder, with a scripted model.

use std::sync::Arc;

use longhaul::agent::Agent;
use longhaul::session::{Runtime, Session};
use longhaul::testing::{self, TemporaryFolder};
use longhaul_core::message::Message;
use longhaul_core::run::Run;
use longhaul_providers::ModelRequest;
use longhaul_providers::scripted::{ModelScript, ScriptedProvider};
use longhaul_store::{BlobStore, MemoryStore, SharedStore};

/// The most bytes of blobs that a session of a test may keep.
const BLOB_BYTES: u64 = 64 << 20;

/// A session over a store in memory, whose model keeps its requests.
///
/// All built-in tools are allowed and work in the folder.
pub struct TestSession {
    /// The runtime of the session.
    pub runtime: Runtime,
    /// The session.
    pub session: Session,
    /// The scripted model.
    pub model: Arc<ScriptedProvider>,
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
        Self::over(Arc::new(MemoryStore::new()), model, change).await
    }

    /// Opens a new session over a store.
    ///
    /// # Panics
    /// If the folder cannot be made or the store refuses the session.
    pub async fn over(
        store: SharedStore,
        model: ScriptedProvider,
        change: impl FnOnce(&mut Agent, &TemporaryFolder),
    ) -> Self {
        let folder = TemporaryFolder::new().unwrap();
        let model = Arc::new(model.keep_requests());
        let mut agent = testing::agent(model.clone(), &folder).await.unwrap();
        change(&mut agent, &folder);
        let runtime = Runtime::new(agent, Arc::clone(&store), BlobStore::in_memory(BLOB_BYTES));
        let session = runtime.create(None).await.unwrap();
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

    /// Returns all messages of the session's log, also those that the view leaves out.
    ///
    /// # Panics
    /// If the session has ended.
    pub async fn messages(&self) -> Vec<Message> {
        let all =
            |run: &Run| run.history().entries().iter().map(|entry| Message::clone(&entry.message)).collect();
        self.session.inspect_run(all).await.unwrap()
    }
}
