//! A builder that makes an agent in a few lines.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longhaul_core::budget::StrategyTrigger;
use longhaul_core::estimate::{CountAccuracy, MessageTokenCounter, TextCounter, TokenizerFamily};
use longhaul_core::plan::{CompactionPolicy, TokenPrices};
use longhaul_core::run::{ServerCountPolicy, ToolApproval};
use longhaul_core::strategy::{AdaptiveStrategy, CompactionStrategy};
use longhaul_providers::connect::{Kind, connect};
use longhaul_providers::http::Secret;
use longhaul_providers::{ModelEndpoint, Provider, ProviderError, SharedProvider, catalogued};
use longhaul_store::{BlobStore, MemoryStore, SharedStore, StoreError};

use super::sqlite::SqliteFolder;
use super::window::DeclaredWindowProvider;
use super::{Agent, AgentRules};
use crate::async_strategy::AsyncStrategy;
use crate::calibration::CalibrationStore;
use crate::config::AgentConfig;
use crate::config_agent::{self, ConfigFileError};
use crate::hooks::{ApprovalHandler, DEADLINE, HookSet, PreCompactDecision, PreCompactRequest};
use crate::sandbox::{Sandbox, SandboxError, SandboxPolicy};
use crate::session::Runtime;
use crate::telemetry::Telemetry;
use crate::tools::{DuplicateTool, Tool, ToolSet};
use crate::workspace::{Workspace, WorkspaceError};

/// The maximum size of one stored picture, file or long output, in bytes.
pub(super) const MAX_BLOB_BYTES: u64 = 256 << 20;

/// The default time for which an unreachable model server is asked again.
const PATIENCE: Duration = Duration::from_secs(60);

/// The reason that the model is given for a tool call that needs approval and cannot get it.
const NOBODY_APPROVES: &str = "this program approves no tool calls; do it without this tool";

/// Builds an agent. Only a model is needed:
///
/// ```no_run
/// use longhaul::prelude::*;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::builder().openai_compatible("http://localhost:1234/v1", "qwen3-8b").build().await?;
/// let session = agent.session().await?;
/// println!("{}", session.turn("Hello!").await?.finish().await?.text);
/// # Ok(()) }
/// ```
///
/// | without | the agent has |
/// |---|---|
/// | [`store`](Self::store), or `sqlite` with the feature of that name | sessions in memory |
/// | [`workspace`](Self::workspace) | no files, commands or built-in tools except its memory (`recall`, `pin`) |
/// | [`on_approval`](Self::on_approval) | tool calls that need approval are denied |
/// | [`strategy`](Self::strategy) | [`AdaptiveStrategy`] |
/// | [`token_counter`](Self::token_counter) | an estimate that the server's reports correct |
/// | [`patience`](Self::patience) | one minute for a server that cannot be reached |
#[must_use = "a builder does nothing until it is built"]
pub struct AgentBuilder {
    model: Option<ModelSource>,
    api_key: Option<Secret>,
    window_tokens: Option<u64>,
    system: String,
    tools: Vec<Arc<dyn Tool>>,
    strategy: Arc<dyn CompactionStrategy>,
    trigger: Option<StrategyTrigger>,
    counter: Option<Arc<dyn TextCounter>>,
    hooks: HookSet,
    store: Option<(SharedStore, BlobStore)>,
    /// The folder to open in place of `store`. At most one of the two is set.
    sqlite: Option<SqliteFolder>,
    workspace: Option<PathBuf>,
    scratch: Option<PathBuf>,
    patience: Option<Duration>,
    config: Option<Box<AgentConfig>>,
    /// True if the model is the one of the agent file.
    has_config_model: bool,
}

/// The model that an agent talks to, and its server.
enum ModelSource {
    Server { kind: Kind, url: String, name: String },
    Provider(SharedProvider),
}

/// An agent could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No model was named.
    #[error(
        "the agent has no model: call `openai_compatible`, `anthropic`, `gemini`, `ollama` or `provider`"
    )]
    NoModel,
    /// The model's server cannot be used: its URL is wrong, or TLS cannot be set up.
    #[error("the model's server cannot be used: {0}")]
    Provider(#[from] ProviderError),
    /// Two tools have one name, or a tool has the name of a built-in one.
    #[error(transparent)]
    Tool(#[from] DuplicateTool),
    /// The workspace is no folder that can be opened.
    #[error("the workspace cannot be used: {0}")]
    Workspace(#[from] WorkspaceError),
    /// The private folder for temporary files cannot be made.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The folder of the sessions cannot be opened, or another process has it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AgentBuilder {
    pub(super) fn new() -> Self {
        Self {
            model: None,
            api_key: None,
            window_tokens: None,
            system: String::new(),
            tools: Vec::new(),
            strategy: Arc::new(AdaptiveStrategy::default()),
            trigger: None,
            counter: None,
            hooks: HookSet::new(),
            store: None,
            sqlite: None,
            workspace: None,
            scratch: None,
            patience: Some(PATIENCE),
            config: None,
            has_config_model: false,
        }
    }

    /// Applies an agent file, `longhaul.yml`: the model and its limits, the system prompt, the settings of the context,
    /// of tools, runs, approvals and retries. A method that is called afterwards wins. The library reads no environment:
    /// the key that `model.api_key_env` names comes from [`api_key`](Self::api_key). The file opens no workspace, and a
    /// model of the kind `scripted` leaves the builder's model as it is.
    ///
    /// ```no_run
    /// use longhaul::prelude::*;
    ///
    /// # async fn example(key: String) -> Result<(), Box<dyn std::error::Error>> {
    /// let agent = Agent::builder().from_config("longhaul.yml")?.api_key(key).build().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ConfigFileError`]: the file cannot be read, has mistakes, or sets keys that the library does not apply.
    pub fn from_config(mut self, path: impl AsRef<Path>) -> Result<Self, ConfigFileError> {
        let (config, system) = config_agent::read_config(path.as_ref())?;
        let model = &config.model;
        if let Some(kind) = model.provider.kind() {
            self = self.server(kind, &model.base_url, &model.name);
            self.has_config_model = true;
        }
        if !system.trim().is_empty() {
            self.system = system;
        }
        let policy = config_agent::compaction_policy(&config);
        self.strategy = policy.strategy;
        self.trigger = policy.trigger;
        self.patience = config.retry.patience;
        self.config = Some(Box::new(config));
        Ok(self)
    }

    /// Sets the model: one behind a server that speaks Chat Completions, for example `http://localhost:1234/v1`. LM
    /// Studio, llama.cpp, vLLM and others are recognized by what they answer. A server that wants a key gets the one of
    /// [`api_key`](Self::api_key).
    pub fn openai_compatible(self, url: impl Into<String>, model: impl Into<String>) -> Self {
        self.server(Kind::OpenAiCompatible, url, model)
    }

    /// Sets the model: one of Anthropic's, over the Messages API, with that key.
    pub fn anthropic(self, key: impl Into<String>, model: impl Into<String>) -> Self {
        self.server(Kind::Anthropic, Kind::Anthropic.base_url(), model).api_key(key)
    }

    /// Sets the model: one of Google's, over the Gemini API, with that key.
    pub fn gemini(self, key: impl Into<String>, model: impl Into<String>) -> Self {
        self.server(Kind::Gemini, Kind::Gemini.base_url(), model).api_key(key)
    }

    /// Sets the model: one behind an Ollama server, for example `http://localhost:11434`.
    pub fn ollama(self, url: impl Into<String>, model: impl Into<String>) -> Self {
        self.server(Kind::Ollama, url, model)
    }

    fn server(mut self, kind: Kind, url: impl Into<String>, model: impl Into<String>) -> Self {
        // Headers of the agent file may hold a key, which is for its own server only.
        self.has_config_model = false;
        self.model = Some(ModelSource::Server { kind, url: url.into(), name: model.into() });
        self
    }

    /// Sets the model: one behind a [`Provider`] of the program's own.
    pub fn provider(self, provider: impl Provider + 'static) -> Self {
        self.shared_provider(Arc::new(provider))
    }

    /// Sets the model: one behind a [`Provider`] that the program shares with other code.
    pub fn shared_provider(mut self, provider: SharedProvider) -> Self {
        self.model = Some(ModelSource::Provider(provider));
        self
    }

    /// Sets the key that the model's server is sent. A [`provider`](Self::provider) of the program's own is not given
    /// it.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(Secret::new(key));
        self
    }

    /// Sets the model's context window, in tokens. Without it the server is asked, then the catalogue of known models.
    pub fn window_tokens(mut self, tokens: u64) -> Self {
        self.window_tokens = Some(tokens);
        self
    }

    /// Sets the system prompt. There is none by default.
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.system = prompt.into();
        self
    }

    /// Adds a tool: one of [`tool_fn`](crate::tools::tool_fn), or any [`Tool`].
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds tools, in that order.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Sets how old messages make room: one of [`strategy`](longhaul_core::strategy), or the program's own.
    pub fn strategy(mut self, strategy: impl CompactionStrategy + 'static) -> Self {
        self.strategy = Arc::new(strategy);
        self
    }

    /// Sets a strategy that writes the replacement of old messages itself, and may take time for it.
    pub fn async_strategy(mut self, strategy: impl AsyncStrategy + 'static) -> Self {
        let strategy = Arc::new(strategy);
        self.hooks = self.hooks.with_async_strategy(Arc::clone(&strategy) as Arc<dyn AsyncStrategy>);
        self.strategy = strategy;
        self
    }

    /// Sets when the strategy acts. Without it the strategy says when.
    pub fn trigger(mut self, trigger: StrategyTrigger) -> Self {
        self.trigger = Some(trigger);
        self
    }

    /// Sets a closure that decides about each compaction before it begins. It has [`DEADLINE`] to decide; one that
    /// panics or is late is logged and ignored.
    pub fn on_pre_compact<F, A>(mut self, decide: F) -> Self
    where
        F: Fn(PreCompactRequest) -> A + Send + Sync + 'static,
        A: Future<Output = PreCompactDecision> + Send + 'static,
    {
        self.hooks = self.hooks.with_pre_compact(decide, DEADLINE);
        self
    }

    /// Sets who decides about tool calls that need approval: an async closure from
    /// [`ApprovalRequest`](crate::hooks::ApprovalRequest) to [`ApprovalDecision`](crate::hooks::ApprovalDecision), or
    /// any [`ApprovalHandler`]. Built-in tools that change something need approval, and tools that say so.
    pub fn on_approval(mut self, handler: impl ApprovalHandler + 'static) -> Self {
        self.hooks = self.hooks.with_approval_handler(Arc::new(handler));
        self
    }

    /// Sets what counts tokens: a [`counter_fn`](crate::counter::counter_fn), or any [`TextCounter`].
    pub fn token_counter(mut self, counter: impl TextCounter + 'static) -> Self {
        self.counter = Some(Arc::new(counter));
        self
    }

    /// Sets where sessions are kept, and where their pictures, files and long outputs are. Both should outlive the
    /// process, or neither.
    pub fn store(mut self, store: SharedStore, blobs: BlobStore) -> Self {
        (self.store, self.sqlite) = (Some((store, blobs)), None);
        self
    }

    /// Sets the folder of an embedded store in the place of any other store.
    #[cfg(feature = "sqlite")]
    pub(super) fn sqlite_folder(mut self, folder: SqliteFolder) -> Self {
        (self.store, self.sqlite) = (None, Some(folder));
        self
    }

    /// Sets the folder that the agent works in, and gives it the built-in tools: `read`, `bash`, `edit`, `write`,
    /// `grep`, `glob` and `ls`. Commands are confined to the folder as far as the system can do that. Tools that change
    /// something need [`on_approval`](Self::on_approval).
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.workspace = Some(folder.into());
        self
    }

    /// Sets where the private folder for temporary files is made. Without it that is the system's folder for them.
    pub fn scratch(mut self, folder: impl Into<PathBuf>) -> Self {
        self.scratch = Some(folder.into());
        self
    }

    /// Sets how long a model server that cannot be reached is asked again before the turn fails.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Builds the agent and a runtime over its store, in which sessions are made. The model's server is asked for its
    /// window; one that does not answer is no error.
    ///
    /// # Errors
    /// [`BuildError`].
    pub async fn build(mut self) -> Result<Runtime, BuildError> {
        let (store, folder) = (self.store.take(), self.sqlite.take());
        let agent = self.build_agent().await?;
        let (store, blobs): (SharedStore, BlobStore) = match (store, folder) {
            (Some(store), _) => store,
            // The folder is opened last, so that an agent that cannot be built leaves none behind.
            (None, Some(folder)) => folder.open().await?,
            (None, None) => (Arc::new(MemoryStore::new()), BlobStore::in_memory(MAX_BLOB_BYTES)),
        };
        Ok(Runtime::new(agent, store, blobs))
    }

    /// Builds the agent alone, for a [`Runtime`] of several agents ([`AgentRegistry`](crate::agents::AgentRegistry)). A
    /// store that was set is not used.
    ///
    /// # Errors
    /// [`BuildError`].
    pub async fn build_agent(self) -> Result<Agent, BuildError> {
        let tools = self.tool_set()?;
        let rules = self.rules(&tools);
        let (workspace, sandbox) = self.place()?;
        let provider = self.connect()?;
        // Unknown limits are no error: the server may start later, and the driver asks again at the start of each run.
        let limits = provider.limits().await;
        let model = provider.origin().model;
        tracing::info!(
            model,
            window = limits.window,
            source = ?limits.source,
            max_output = limits.max_output,
            "an agent is built"
        );
        let counter = match self.counter.clone() {
            Some(counter) => MessageTokenCounter::new(counter),
            None => MessageTokenCounter::estimated(TokenizerFamily::of(&model)),
        };
        let counter = counter.for_model(&model);
        Ok(Agent {
            system: self.system.clone(),
            provider,
            limits,
            counting: self.counting(&counter),
            counter,
            calibrations: Arc::new(CalibrationStore::in_memory()),
            tools,
            workspace: Arc::new(workspace),
            sandbox: Arc::new(sandbox),
            tool_limits: self.config.as_deref().map(config_agent::tool_limits).unwrap_or_default(),
            rules,
            hooks: self.hooks,
            telemetry: Telemetry::default(),
        })
    }

    fn connect(&self) -> Result<SharedProvider, BuildError> {
        match self.model.as_ref().ok_or(BuildError::NoModel)? {
            ModelSource::Provider(provider) => Ok(match self.window_tokens {
                Some(tokens) => Arc::new(DeclaredWindowProvider { provider: Arc::clone(provider), tokens }),
                None => Arc::clone(provider),
            }),
            ModelSource::Server { kind, url, name } => {
                let mut endpoint = ModelEndpoint::new(kind.as_str(), url, name);
                endpoint.api_key.clone_from(&self.api_key);
                if let Some(config) = self.model_config() {
                    let declared = config_agent::declared_limits(config);
                    config_agent::apply_endpoint(&config.model, declared, &mut endpoint);
                }
                endpoint.declared.window = self.window_tokens.or(endpoint.declared.window);
                Ok(catalogued::with_catalog_limits(connect(*kind, endpoint)?, url))
            }
        }
    }

    /// Returns the agent file if the model is the file's.
    fn model_config(&self) -> Option<&AgentConfig> {
        self.config.as_deref().filter(|_| self.has_config_model)
    }

    fn rules(&self, tools: &ToolSet) -> AgentRules {
        let default_approval = match self.hooks.approval_handler() {
            Some(_) => ToolApproval::Ask,
            // Without a handler a question would wait for its timeout, and nobody could answer.
            None => ToolApproval::Deny(NOBODY_APPROVES.to_owned()),
        };
        let mut rules = match &self.config {
            Some(config) => config_agent::agent_rules(config, tools, default_approval),
            None => AgentRules {
                default_approval,
                ..AgentRules::new(CompactionPolicy::new(Arc::clone(&self.strategy)))
            },
        };
        // A method that was called after `from_config` wins over the file.
        rules.policy.strategy = Arc::clone(&self.strategy);
        rules.policy.trigger = self.trigger;
        rules.policy.prices = self.prices();
        rules.retry.patience_ms =
            self.patience.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        rules
    }

    fn tool_set(&self) -> Result<ToolSet, DuplicateTool> {
        let mut tools = if self.workspace.is_some() { ToolSet::builtin() } else { ToolSet::new() };
        if let Some(config) = &self.config {
            tools = tools.choose_builtin(config.tools.enabled.as_deref(), &config.tools.disabled);
        }
        self.tools.iter().try_for_each(|tool| tools.add(Arc::clone(tool)))?;
        Ok(tools)
    }

    /// Returns the folder and the sandbox that confines commands to it. Without a workspace no tool starts a command,
    /// and the folder is an empty one that is removed with the agent.
    fn place(&self) -> Result<(Workspace, Sandbox), BuildError> {
        let scratch = self.scratch.clone().unwrap_or_else(std::env::temp_dir);
        if let Some(folder) = &self.workspace {
            let workspace = Workspace::new(folder, &[])?;
            let sandbox = Sandbox::new(SandboxPolicy::new(workspace.root(), scratch))?;
            return Ok((workspace, sandbox));
        }
        // No tool starts a command here, so the system is not probed for confinement.
        let policy = SandboxPolicy { confine: false, ..SandboxPolicy::new(&scratch, &scratch) };
        let sandbox = Sandbox::new(policy)?;
        Ok((Workspace::new(sandbox.private_folder(), &[])?, sandbox))
    }

    /// Returns when the server counts. Anthropic and Google count requests free of charge: they are asked if no usage
    /// report is at hand.
    fn counting(&self, counter: &MessageTokenCounter) -> ServerCountPolicy {
        match &self.model {
            Some(ModelSource::Server { kind: Kind::Anthropic | Kind::Gemini, .. })
                if counter.kind() != CountAccuracy::Exact =>
            {
                ServerCountPolicy::Unanchored
            }
            _ => ServerCountPolicy::Never,
        }
    }

    /// Returns the list prices of the model, where they hold: [`AdaptiveStrategy`] acts when an edit pays.
    fn prices(&self) -> Option<TokenPrices> {
        let Some(ModelSource::Server { kind, url, name }) = &self.model else { return None };
        let declared = self.model_config().and_then(|config| config_agent::declared_rates(config, name));
        config_agent::token_prices(declared, Some(*kind), name, url)
    }
}

/// Shows the builder without its key.
impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = match &self.model {
            None => "none".to_owned(),
            Some(ModelSource::Server { kind, name, .. }) => format!("{name} ({})", kind.as_str()),
            Some(ModelSource::Provider(provider)) => provider.origin().model,
        };
        f.debug_struct("AgentBuilder")
            .field("model", &model)
            .field("strategy", &self.strategy.name())
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}
