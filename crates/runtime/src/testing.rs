//! A runtime in a temporary folder with a scripted model, for tests and examples of programs that embed a runtime.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use longhaul_core::estimate::MessageTokenCounter;
use longhaul_core::plan::CompactionPolicy;
use longhaul_core::run::{ServerCountPolicy, ToolApproval};
use longhaul_core::strategy::ReactiveOverflowStrategy;
use longhaul_providers::SharedProvider;
use longhaul_providers::scripted::{ModelScript, ScriptedAnswer, ScriptedProvider};
use longhaul_store::{BlobStore, MemoryStore};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Subscriber};

use crate::agent::{Agent, AgentRules};
use crate::calibration::CalibrationStore;
use crate::hooks::HookSet;
use crate::sandbox::{Sandbox, SandboxError, SandboxPolicy};
use crate::session::Runtime;
use crate::telemetry::Telemetry;
use crate::tools::{ToolLimits, ToolSet};
use crate::workspace::{Workspace, WorkspaceError};

/// A folder that is removed when this value is dropped.
#[derive(Debug)]
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Makes a new folder under the system's temporary folder.
    ///
    /// # Errors
    /// The system's error.
    pub fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("longhaul-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The reason that a test runtime could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestingError {
    /// The folder could not be made.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The workspace could not be opened.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The sandbox could not be made.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// Two dispatchers that hear nothing and live as long as the process, for [`set_thread_subscriber`].
static SILENT_DISPATCHERS: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [NoSubscriber::new(), NoSubscriber::new()].map(Dispatch::new));

/// Sets the subscriber of the current thread's spans and events until the guard is dropped. The subscriber misses
/// nothing, whatever other threads do.
pub fn set_thread_subscriber(subscriber: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    // `tracing` decides at the first visit of a callsite whether anybody listens to it, and remembers the answer for
    // all threads. In a process with a single dispatcher it asks the visiting thread only. If that thread is another
    // test's, no subscriber listens there, and this thread's subscriber would never hear of the callsite. With several
    // dispatchers `tracing` asks all of them, under a lock that a new subscriber takes too.
    LazyLock::force(&SILENT_DISPATCHERS);
    tracing::subscriber::set_default(subscriber)
}

/// Returns the default policy, `reactive-overflow`.
pub fn policy() -> CompactionPolicy {
    CompactionPolicy::new(Arc::new(ReactiveOverflowStrategy::default()))
}

/// Makes an agent with a model and all built-in tools allowed, working in `folder`.
///
/// # Errors
/// [`TestingError`].
pub async fn agent(provider: SharedProvider, folder: &TemporaryFolder) -> Result<Agent, TestingError> {
    let limits = provider.limits().await;
    let mut rules = AgentRules::new(policy());
    rules.default_approval = ToolApproval::Allow;
    Ok(Agent {
        system: "You are a careful assistant.".to_owned(),
        provider,
        limits,
        counter: MessageTokenCounter::default(),
        counting: ServerCountPolicy::Never,
        calibrations: Arc::new(CalibrationStore::in_memory()),
        tools: ToolSet::builtin(),
        workspace: Arc::new(Workspace::new(folder.path(), &[])?),
        sandbox: Arc::new(Sandbox::new(SandboxPolicy::new(folder.path(), std::env::temp_dir()))?),
        tool_limits: ToolLimits::default(),
        rules,
        hooks: HookSet::default(),
        telemetry: Telemetry::default(),
    })
}

/// Makes a runtime in memory whose model always gives the same answer.
///
/// # Errors
/// [`TestingError`].
pub fn runtime_that_says(text: &str) -> Result<(Runtime, TemporaryFolder), TestingError> {
    let folder = TemporaryFolder::new()?;
    let provider: SharedProvider =
        Arc::new(ScriptedProvider::new(ModelScript::always(ScriptedAnswer::text(text))));
    // A scripted model has its limits at hand, so the future is ready at once and needs no executor.
    let agent = futures_util::FutureExt::now_or_never(agent(provider, &folder));
    let agent =
        agent.ok_or_else(|| std::io::Error::other("the scripted model asks nobody for its limits"))??;
    let blobs = BlobStore::in_memory(64 << 20);
    Ok((Runtime::new(agent, Arc::new(MemoryStore::new()), blobs), folder))
}
