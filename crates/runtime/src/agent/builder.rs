//! A builder of an agent in a few lines.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longhaul_core::budget::StrategyTrigger;
use longhaul_core::estimate::{CountAccuracy, MessageTokenCounter, TextCounter, TokenizerFamily};
use longhaul_core::plan::{CompactionPolicy, SummaryWriterModel, TokenPrices};
use longhaul_core::run::{ServerCountPolicy, ToolApproval};
use longhaul_core::strategy::{AdaptiveStrategy, CompactionStrategy};
use longhaul_providers::connect::{Kind, connect};
use longhaul_providers::http::Secret;
use longhaul_providers::{
    DeclaredLimits, ModelEndpoint, Provider, ProviderError, SharedProvider, catalog_provider,
};
use longhaul_store::{BlobStore, MemoryStore, SharedStore, StoreError};

use super::sqlite::SqliteFolder;
use super::window::DeclaredWindowProvider;
use super::{Agent, AgentRules, SummaryModel};
use crate::async_strategy::AsyncStrategy;
use crate::calibration::CalibrationStore;
#[cfg(feature = "tokenizers")]
use crate::config::TokenCounter;
use crate::config::{AgentConfig, HooksConfig, ModelConfig};
use crate::config_agent::{self, ConfigFileError, HookSetupError, McpFailurePolicy, McpSetupError};
use crate::hooks::{
    ApprovalHandler, DEADLINE, HookSet, PostToolUseRequest, PreCompactDecision, PreCompactRequest,
    PreToolUseRequest, PromptDecision, ToolCallDecision, UserPromptSubmitRequest,
};
use crate::sandbox::{Sandbox, SandboxError, SandboxPolicy};
use crate::session::Runtime;
use crate::telemetry::Telemetry;
use crate::tools::{DuplicateTool, Tool, ToolSet};
use crate::workspace::{Workspace, WorkspaceError};

/// The maximum size of one stored picture, file or long output, in bytes.
pub(super) const MAX_BLOB_BYTES: u64 = 256 << 20;

/// The default time for which an unreachable model server is asked again.
const PATIENCE: Duration = Duration::from_secs(60);

/// The reason given to the model for a tool call without a possible approval.
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
/// | [`child_environment`](Self::child_environment) | programs that see a usual `PATH` and no other variable |
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
    counter: CounterSource,
    hooks: HookSet,
    store: Option<(SharedStore, BlobStore)>,
    /// The folder to open in place of `store`. At most one of the two is set.
    sqlite: Option<SqliteFolder>,
    workspace: Option<PathBuf>,
    scratch: Option<PathBuf>,
    child_environment: Vec<(OsString, OsString)>,
    patience: Option<Duration>,
    config: Option<Box<AgentConfig>>,
    config_file: Option<PathBuf>,
    /// True if the model is the one of the agent file.
    has_config_model: bool,
}

/// The model of an agent, and the model's server.
enum ModelSource {
    Server { kind: Kind, url: String, name: String },
    Provider(SharedProvider),
}

/// The source of the agent's token counts.
enum CounterSource {
    Estimate,
    Counter(Arc<dyn TextCounter>),
    /// The key `context.tokenCounter` of the agent file.
    #[cfg(feature = "tokenizers")]
    Configured(TokenCounter),
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
    /// The model's server cannot be used: the URL is wrong, or TLS cannot be set up.
    #[error("the model's server cannot be used: {0}")]
    Provider(#[from] ProviderError),
    /// Two tools have the same name, or a tool has the name of a built-in tool.
    #[error(transparent)]
    Tool(#[from] DuplicateTool),
    /// The workspace is no folder, or cannot be opened.
    #[error("the workspace cannot be used: {0}")]
    Workspace(#[from] WorkspaceError),
    /// The private folder for temporary files cannot be made.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// A hook of the agent file cannot be used.
    #[error(transparent)]
    Hook(#[from] HookSetupError),
    /// The agent file names another model of the server for summaries, and the agent's model has no known server.
    #[error(
        "`{key}` names the model `{model}`, but the agent's model is a provider of the program's own, whose server is \
         not known: remove the key, or name the model with a method such as `openai_compatible`"
    )]
    SummaryModel {
        /// The key of the agent file.
        key: &'static str,
        /// The model that it names.
        model: String,
    },
    /// The tokenizer of the agent file cannot be used.
    #[cfg(feature = "tokenizers")]
    #[error(transparent)]
    TokenCounter(#[from] config_agent::TokenCounterError),
    /// The vocabulary of the agent file's tokenizer could not be built.
    #[cfg(feature = "tokenizers")]
    #[error("`context.tokenCounter`: building the vocabulary panicked; name another counter")]
    CounterPanicked,
    /// The MCP servers of the agent file cannot be used.
    #[error("`mcpServers`: {0}")]
    McpServers(#[from] McpSetupError),
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
            counter: CounterSource::Estimate,
            hooks: HookSet::new(),
            store: None,
            sqlite: None,
            workspace: None,
            scratch: None,
            child_environment: Vec::new(),
            patience: Some(PATIENCE),
            config: None,
            config_file: None,
            has_config_model: false,
        }
    }

    /// Applies an agent file, `longhaul.yml`: the model and its limits, the system prompt, the hooks, the MCP servers,
    /// the settings of the context, of tools, the sandbox, runs, approvals and retries. A method that is called
    /// afterwards wins. The library reads no environment: the key that `model.api_key_env` names comes from
    /// [`api_key`](Self::api_key), and what programs need comes from [`child_environment`](Self::child_environment). The
    /// file opens no workspace, and a model of the kind `scripted` leaves the builder's model as it is.
    ///
    /// **The file is trusted**, like a file of the user's own: it can start programs (commands of `hooks`, servers of
    /// `mcpServers`), send the conversation to the servers that it names, and allow tools without a question. Nobody is
    /// asked, unlike in the program `longhaul` with a file that it finds in a folder. So name only a file that you would
    /// run as a program. The agent's tools cannot change the file; commands can if it lies in the workspace.
    ///
    /// [`build`](Self::build) starts the MCP servers, all at once. A server that does not start is an error, unless
    /// `optional` is set for it: then it is waited for no longer than its `timeoutMs`, and the log has a warning.
    /// Without a [`workspace`](Self::workspace), programs of hooks and servers run confined in an empty private folder.
    ///
    /// Without the Cargo feature `yaml` the file is JSON, with the same keys.
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
    /// [`ConfigFileError`]: the file cannot be read, has mistakes, or sets keys without an effect in the library.
    pub fn from_config(mut self, path: impl AsRef<Path>) -> Result<Self, ConfigFileError> {
        let file = config_agent::read_config(path.as_ref())?;
        #[cfg(feature = "tokenizers")]
        if let Some(counter) = file.token_counter {
            self.counter = CounterSource::Configured(counter);
        }
        let (config, system) = (file.config, file.system);
        let model = &config.model;
        if let Some(kind) = model.provider.kind() {
            self = self.server(kind, &model.base_url, &model.name);
            // Set after `server`, which clears the mark.
            self.has_config_model = true;
        }
        if !system.trim().is_empty() {
            self.system = system;
        }
        let policy = config_agent::compaction_policy(&config);
        self.strategy = policy.strategy;
        self.trigger = policy.trigger;
        self.patience = config.retry.patience;
        for (event, _) in config_agent::configured_hooks(&config.hooks) {
            self.hooks = self.hooks.without(event);
        }
        self.config = Some(Box::new(config));
        self.config_file = Some(path.as_ref().to_owned());
        Ok(self)
    }

    /// Sets a model behind a Chat Completions server, for example `http://localhost:1234/v1`. LM Studio, llama.cpp,
    /// vLLM and others are recognized by the server's answers. If the server asks for a key, the builder sends
    /// [`api_key`](Self::api_key).
    pub fn openai_compatible(self, url: impl Into<String>, model: impl Into<String>) -> Self {
        self.server(Kind::OpenAiCompatible, url, model)
    }

    /// Sets a model of Anthropic's, over the Messages API, with a key.
    pub fn anthropic(self, key: impl Into<String>, model: impl Into<String>) -> Self {
        self.server(Kind::Anthropic, Kind::Anthropic.base_url(), model).api_key(key)
    }

    /// Sets a model of Google's, over the Gemini API, with a key.
    pub fn gemini(self, key: impl Into<String>, model: impl Into<String>) -> Self {
        self.server(Kind::Gemini, Kind::Gemini.base_url(), model).api_key(key)
    }

    /// Sets a model behind an Ollama server, for example `http://localhost:11434`.
    pub fn ollama(self, url: impl Into<String>, model: impl Into<String>) -> Self {
        self.server(Kind::Ollama, url, model)
    }

    fn server(mut self, kind: Kind, url: impl Into<String>, model: impl Into<String>) -> Self {
        // Headers of the agent file may hold a key, which is for its own server only.
        self.has_config_model = false;
        self.model = Some(ModelSource::Server { kind, url: url.into(), name: model.into() });
        self
    }

    /// Sets a model behind the program's own [`Provider`].
    pub fn provider(self, provider: impl Provider + 'static) -> Self {
        self.shared_provider(Arc::new(provider))
    }

    /// Sets a model behind a [`Provider`] shared with other code.
    pub fn shared_provider(mut self, provider: SharedProvider) -> Self {
        self.has_config_model = false;
        self.model = Some(ModelSource::Provider(provider));
        self
    }

    /// Sets the key for the model's server. The program's own [`provider`](Self::provider) does not get the key.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(Secret::new(key));
        self
    }

    /// Sets the model's context window, in tokens. Without a declared window the server is asked, then the catalogue of
    /// known models.
    pub fn window_tokens(mut self, tokens: u64) -> Self {
        self.window_tokens = Some(tokens);
        self
    }

    /// Sets the system prompt. There is none by default.
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.system = prompt.into();
        self
    }

    /// Adds a tool, made by [`tool_fn`](crate::tools::tool_fn) or any other [`Tool`].
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds tools, in the given order.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Sets the strategy by which old messages make room: from [`strategy`](longhaul_core::strategy), or the program's
    /// own.
    pub fn strategy(mut self, strategy: impl CompactionStrategy + 'static) -> Self {
        self.strategy = Arc::new(strategy);
        self
    }

    /// Sets a strategy that writes the replacement of old messages itself, asynchronously.
    pub fn async_strategy(mut self, strategy: impl AsyncStrategy + 'static) -> Self {
        let strategy = Arc::new(strategy);
        self.hooks = self.hooks.with_async_strategy(Arc::clone(&strategy) as Arc<dyn AsyncStrategy>);
        self.strategy = strategy;
        self
    }

    /// Sets the trigger of the strategy. By default the strategy has a trigger of its own.
    pub fn trigger(mut self, trigger: StrategyTrigger) -> Self {
        self.trigger = Some(trigger);
        self
    }

    /// Sets a closure that decides about each compaction in advance. The closure has ten seconds to decide; a panic or a
    /// late decision is logged and ignored.
    pub fn on_pre_compact<F, A>(mut self, decide: F) -> Self
    where
        F: Fn(PreCompactRequest) -> A + Send + Sync + 'static,
        A: Future<Output = PreCompactDecision> + Send + 'static,
    {
        self.hooks = self.hooks.with_pre_compact(decide, DEADLINE);
        self
    }

    /// Sets a closure that decides about each tool call before the tool runs, after the approval. The closure has ten
    /// seconds to decide; a panic or a late decision is logged and ignored, and the tool runs. What must never happen
    /// belongs to [`on_approval`](Self::on_approval), which denies where it fails.
    ///
    /// ```
    /// # use longhaul::prelude::*;
    /// let builder = Agent::builder().on_pre_tool_use(|request| async move {
    ///     ToolCallDecision::deny_if(request.args["city"] == "Atlantis", "no such city")
    /// });
    /// ```
    pub fn on_pre_tool_use<F, A>(mut self, decide: F) -> Self
    where
        F: Fn(PreToolUseRequest) -> A + Send + Sync + 'static,
        A: Future<Output = ToolCallDecision> + Send + 'static,
    {
        self.hooks = self.hooks.with_pre_tool_use(decide, DEADLINE);
        self
    }

    /// Sets a closure that is shown each tool's result and may add a text for the model behind the result. The closure
    /// has ten seconds to answer; a panic or a late answer is logged and ignored.
    ///
    /// ```
    /// # use longhaul::prelude::*;
    /// let builder = Agent::builder().on_post_tool_use(|request| async move {
    ///     (!request.success).then(|| "Read the manual before the next attempt.".to_owned())
    /// });
    /// ```
    pub fn on_post_tool_use<F, A>(mut self, comment: F) -> Self
    where
        F: Fn(PostToolUseRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Option<String>> + Send + 'static,
    {
        self.hooks = self.hooks.with_post_tool_use(comment, DEADLINE);
        self
    }

    /// Sets a closure that decides about each incoming message. A refused message is an error of
    /// [`Session::turn`](crate::Session::turn), [`SessionError::Refused`](crate::SessionError::Refused). The closure has
    /// ten seconds to decide; a panic or a late decision is logged and ignored, and the message is accepted.
    ///
    /// ```
    /// # use longhaul::prelude::*;
    /// let builder = Agent::builder().on_user_prompt_submit(|request| async move {
    ///     PromptDecision::refuse_if(request.prompt.contains("password"), "keep passwords to yourself")
    /// });
    /// ```
    pub fn on_user_prompt_submit<F, A>(mut self, decide: F) -> Self
    where
        F: Fn(UserPromptSubmitRequest) -> A + Send + Sync + 'static,
        A: Future<Output = PromptDecision> + Send + 'static,
    {
        self.hooks = self.hooks.with_user_prompt_submit(decide, DEADLINE);
        self
    }

    /// Sets the handler of tool calls in need of approval: an async closure from
    /// [`ApprovalRequest`](crate::hooks::ApprovalRequest) to [`ApprovalDecision`](crate::hooks::ApprovalDecision), or
    /// any [`ApprovalHandler`]. Built-in tools that change something need approval, and so do tools that ask for
    /// approval.
    pub fn on_approval(mut self, handler: impl ApprovalHandler + 'static) -> Self {
        self.hooks = self.hooks.with_approval_handler(Arc::new(handler));
        self
    }

    /// Sets the token counter: a [`counter_fn`](crate::counter::counter_fn), or any [`TextCounter`].
    pub fn token_counter(mut self, counter: impl TextCounter + 'static) -> Self {
        self.counter = CounterSource::Counter(Arc::new(counter));
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

    /// Sets the agent's folder, and adds the built-in tools: `read`, `bash`, `edit`, `write`, `grep`, `glob` and `ls`.
    /// Commands are confined to the folder as far as the system allows. Tools that change something need
    /// [`on_approval`](Self::on_approval).
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.workspace = Some(folder.into());
        self
    }

    /// Sets the parent of the private folder for temporary files. The default is the system's folder for temporary
    /// files.
    pub fn scratch(mut self, folder: impl Into<PathBuf>) -> Self {
        self.scratch = Some(folder.into());
        self
    }

    /// Hands in an environment for the programs that the agent starts: commands, hooks and MCP servers. They see only
    /// its harmless variables, such as `PATH`, `LANG` and the roots of toolchains, and no keys. The toolchains in the
    /// folder that `HOME` names become readable. Usually this is `std::env::vars_os()`.
    pub fn child_environment(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.child_environment = variables.into_iter().collect();
        self
    }

    /// Sets how long a model server that cannot be reached is asked again before the turn fails.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Builds the agent and a runtime over its store, in which sessions are made. The model's server is asked for its
    /// window; one that does not answer is no error. The MCP servers of an agent file are started. They end with the
    /// agent.
    ///
    /// Keep the runtime as long as its sessions: when it is dropped they stop, and a turn ends with
    /// [`SessionError::Stopped`](crate::SessionError::Stopped).
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

    /// Builds the agent alone, for a [`Runtime`] of several agents. A configured store is not used.
    ///
    /// # Errors
    /// [`BuildError`].
    pub async fn build_agent(self) -> Result<Agent, BuildError> {
        let mut tools = self.tool_set()?;
        let (workspace, sandbox) = self.place()?;
        let provider = self.connect()?;
        // Unknown limits are no error: the server may start later, and the driver asks again at the start of each run.
        let limits = provider.limits().await;
        let model = provider.origin().model;
        let hooks = self.hooks_over(&workspace, &sandbox)?;
        let (counter, counting) = self.counts(&model).await?;
        let (writer, summariser) = self.summary_writer().await?;
        // Servers come last: nothing after their start can fail.
        let workspace = self.add_servers(workspace, &sandbox, &mut tools).await?;
        let mut rules = self.rules(&tools);
        (rules.policy.writer, rules.summariser) = (writer, summariser);
        tracing::info!(
            model,
            window = limits.window,
            source = ?limits.source,
            max_output = limits.max_output,
            "an agent is built"
        );
        Ok(Agent {
            system: self.system.clone(),
            provider,
            limits,
            counting,
            counter,
            // The library writes no file that it was not given, so calibrations live as long as the agent.
            calibrations: Arc::new(CalibrationStore::in_memory()),
            tools,
            workspace: Arc::new(workspace),
            sandbox,
            tool_limits: self.config.as_deref().map(config_agent::tool_limits).unwrap_or_default(),
            rules,
            hooks,
            telemetry: Telemetry::default(),
        })
    }

    /// Returns the builder's hooks, and those of the agent file for the other events.
    fn hooks_over(&self, workspace: &Workspace, sandbox: &Arc<Sandbox>) -> Result<HookSet, BuildError> {
        let hooks = self.hooks.clone();
        let Some(config) = &self.config else { return Ok(hooks) };
        Ok(hooks.or(config_agent::hook_set(&config.hooks, workspace, sandbox)?))
    }

    /// Starts the MCP servers of the agent file and adds their tools. Returns the workspace that is closed to changes of
    /// their programs.
    async fn add_servers(
        &self,
        workspace: Workspace,
        sandbox: &Arc<Sandbox>,
        tools: &mut ToolSet,
    ) -> Result<Workspace, BuildError> {
        let Some(config) = &self.config else { return Ok(workspace) };
        let (servers, on_failure) = (&config.mcp_servers, McpFailurePolicy::Refuse);
        Ok(config_agent::add_mcp_servers(servers, workspace, sandbox, tools, on_failure).await?)
    }

    /// Returns the summary writer of the agent file.
    async fn summary_writer(&self) -> Result<(SummaryWriterModel, Option<SummaryModel>), BuildError> {
        let Some(config) = &self.config else { return Ok((SummaryWriterModel::Session, None)) };
        let connect =
            |model: &ModelConfig, declared| self.connect_summary_model(config, &model.name, declared);
        config_agent::summary_writer(config, connect).await
    }

    fn connect(&self) -> Result<SharedProvider, BuildError> {
        match self.model.as_ref().ok_or(BuildError::NoModel)? {
            ModelSource::Provider(provider) => Ok(match self.window_tokens {
                Some(tokens) => Arc::new(DeclaredWindowProvider { provider: Arc::clone(provider), tokens }),
                None => Arc::clone(provider),
            }),
            ModelSource::Server { kind, url, name } => {
                let mut declared = self.model_config().map(config_agent::declared_limits).unwrap_or_default();
                declared.window = self.window_tokens.or(declared.window);
                self.connect_to(*kind, url, name, declared)
            }
        }
    }

    /// Connects to a model of the builder's server.
    fn connect_to(
        &self,
        kind: Kind,
        url: &str,
        name: &str,
        declared: DeclaredLimits,
    ) -> Result<SharedProvider, BuildError> {
        let mut endpoint = ModelEndpoint::new(kind.as_str(), url, name);
        endpoint.api_key.clone_from(&self.api_key);
        match self.model_config() {
            Some(config) => config_agent::apply_endpoint(&config.model, declared, &mut endpoint),
            None => endpoint.declared = declared,
        }
        Ok(catalog_provider::with_catalog_limits(connect(kind, endpoint)?, url))
    }

    /// Connects to the model that an agent file names for summaries: another model of the builder's server.
    fn connect_summary_model(
        &self,
        config: &AgentConfig,
        name: &str,
        declared: DeclaredLimits,
    ) -> Result<SharedProvider, BuildError> {
        match &self.model {
            Some(ModelSource::Server { kind, url, .. }) => self.connect_to(*kind, url, name, declared),
            Some(ModelSource::Provider(_)) | None => Err(BuildError::SummaryModel {
                key: config_agent::summary_writer_key(config),
                model: name.to_owned(),
            }),
        }
    }

    /// Returns the agent file if the model is the file's.
    fn model_config(&self) -> Option<&AgentConfig> {
        self.config.as_deref().filter(|_| self.has_config_model)
    }

    fn rules(&self, tools: &ToolSet) -> AgentRules {
        let default_approval = match self.hooks.approval_handler() {
            Some(_) => ToolApproval::Ask,
            // Without a handler a question would wait for its timeout without a possible answer.
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
    fn place(&self) -> Result<(Workspace, Arc<Sandbox>), BuildError> {
        let (workspace, sandbox) = match &self.workspace {
            Some(folder) => {
                let workspace = Workspace::new(folder, &[])?;
                let sandbox = Sandbox::new(self.sandbox_policy(workspace.root()))?;
                (workspace, sandbox)
            }
            None => {
                let has_programs = self.config.as_deref().is_some_and(|config| {
                    config.hooks != HooksConfig::default() || !config.mcp_servers.is_empty()
                });
                // Without them nothing starts a program here, so the system is not probed for confinement.
                let policy = SandboxPolicy { confine: has_programs, ..self.sandbox_policy(Path::new("")) };
                let sandbox = Sandbox::without_workspace(policy)?;
                (Workspace::new(sandbox.workspace(), &[])?, sandbox)
            }
        };
        // The file decides what the agent may do, so the agent's tools do not change it.
        Ok((workspace.with_agent_files(self.config_file.as_slice()), Arc::new(sandbox)))
    }

    fn sandbox_policy(&self, workspace: &Path) -> SandboxPolicy {
        let scratch = self.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let mut policy = SandboxPolicy::new(workspace, scratch);
        policy.environment.clone_from(&self.child_environment);
        let home = self.child_environment.iter().find(|(name, _)| name == "HOME");
        policy.home = home.map(|(_, folder)| PathBuf::from(folder)).filter(|folder| folder.is_absolute());
        policy.agent_files = self.config_file.iter().cloned().collect();
        policy.secret = Kind::all_key_variables().map(str::to_owned).collect();
        if let Some(config) = &self.config {
            (policy.network, policy.limits) = (config.sandbox.network, config.sandbox.limits);
            policy.secret.extend(config.model.api_key_env.clone());
        }
        policy
    }

    /// Returns the counter of texts, and when the server counts.
    async fn counts(&self, model: &str) -> Result<(MessageTokenCounter, ServerCountPolicy), BuildError> {
        let counter = match &self.counter {
            CounterSource::Counter(counter) => MessageTokenCounter::new(Arc::clone(counter)),
            CounterSource::Estimate => MessageTokenCounter::estimated(TokenizerFamily::of(model)),
            #[cfg(feature = "tokenizers")]
            CounterSource::Configured(wanted) => return self.configured_counts(wanted, model).await,
        };
        let counter = counter.for_model(model);
        let counting = self.counting(&counter);
        Ok((counter, counting))
    }

    #[cfg(feature = "tokenizers")]
    async fn configured_counts(
        &self,
        wanted: &TokenCounter,
        model: &str,
    ) -> Result<(MessageTokenCounter, ServerCountPolicy), BuildError> {
        let beside_file = || Some(self.config_file.as_deref()?.parent()?.to_owned());
        let root = self.workspace.clone().or_else(beside_file).unwrap_or_default();
        let (kind, model) = (wanted.clone(), model.to_owned());
        // Building a vocabulary takes up to seconds.
        let building = tokio::task::spawn_blocking(move || config_agent::token_counter(&kind, &model, &root));
        let counter = building.await.map_err(|_| BuildError::CounterPanicked)??;
        let counting = match self.model_config() {
            Some(config) => config_agent::server_count_policy(wanted, &config.model, &counter),
            None if *wanted == TokenCounter::Server => ServerCountPolicy::Always,
            None => self.counting(&counter),
        };
        Ok((counter, counting))
    }

    /// Returns the policy for counts by the server. Anthropic and Google count requests free of charge: both are asked
    /// if no usage report is at hand.
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

    /// Returns the list prices of the model, where list prices apply: [`AdaptiveStrategy`] acts when an edit pays.
    fn prices(&self) -> Option<TokenPrices> {
        let Some(ModelSource::Server { kind, url, name }) = &self.model else { return None };
        let declared = self.model_config().and_then(|config| config_agent::declared_rates(config, name));
        config_agent::token_prices(declared, Some(*kind), name, url)
    }
}

/// Shows the builder without the key.
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
