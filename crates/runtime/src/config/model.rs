//! The agent file as values.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use longhaul_providers::anthropic::PromptCacheTtl;
use longhaul_providers::connect::Kind;

/// An enum whose values have names in the file.
macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$item_doc])* $item,)* }

        impl $name {
            /// The names, as in the file.
            pub const NAMES: &'static [&'static str] = &[$($text,)*];

            /// Returns the name, as in the file.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$item => $text,)* }
            }

            /// Returns the value of a name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$item),)* _ => None }
            }
        }
    };
}

pub(super) use choices;

choices!(
    /// The kind of server that serves the model.
    ProviderKind {
        /// OpenAI, over its Responses API.
        Openai = "openai",
        /// A server that speaks Chat Completions.
        OpenaiCompatible = "openai-compatible",
        /// Anthropic, over its Messages API.
        Anthropic = "anthropic",
        /// Google, over its Gemini API.
        Gemini = "gemini",
        /// Ollama, over its own API.
        Ollama = "ollama",
        /// The built-in deterministic model, for demonstrations and tests.
        Scripted = "scripted",
    }
);

impl ProviderKind {
    /// Returns the provider kind; `None` for the built-in one.
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Openai => Some(Kind::OpenAi),
            Self::OpenaiCompatible => Some(Kind::OpenAiCompatible),
            Self::Anthropic => Some(Kind::Anthropic),
            Self::Gemini => Some(Kind::Gemini),
            Self::Ollama => Some(Kind::Ollama),
            Self::Scripted => None,
        }
    }

    /// Returns the server's default address.
    pub fn base_url(self) -> &'static str {
        self.kind().unwrap_or(Kind::OpenAiCompatible).base_url()
    }
}

choices!(
    /// The life of Anthropic's prompt cache.
    PromptCacheLife {
        /// An hour where the pauses between requests make that cheaper, else five minutes.
        Auto = "auto",
        /// Five minutes since the last use.
        FiveMinutes = "5m",
        /// An hour since the last use; writing costs more.
        OneHour = "1h",
    }
);

impl PromptCacheLife {
    /// Returns the life in the form of the providers.
    pub fn ttl(self) -> PromptCacheTtl {
        match self {
            Self::Auto => PromptCacheTtl::Auto,
            Self::FiveMinutes => PromptCacheTtl::FiveMinutes,
            Self::OneHour => PromptCacheTtl::OneHour,
        }
    }
}

choices!(
    /// The tools of one step that run at the same time.
    ParallelTools {
        /// Tools that only read.
        Auto = "auto",
        /// All tools.
        Always = "true",
        /// None.
        Never = "false",
    }
);

choices!(
    /// The fate of queued messages after a crash or a cancel.
    Recovery {
        /// Queued messages wait for the next message or an explicit resume.
        Rest = "rest",
        /// Queued messages are taken at once.
        Continue = "continue",
    }
);

/// The way in which tokens are counted between two answers of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenCounter {
    /// The best counter at hand: the server's where it is near, the model's tokenizer where it is known, the estimate.
    Auto,
    /// The server's own, before every call.
    Server,
    /// One of OpenAI's encodings, by name.
    Encoding(&'static str),
    /// The tokenizer in this file.
    File(PathBuf),
    /// Characters divided by four.
    Chars,
}

impl TokenCounter {
    /// The names, as in the file; beside them any path that ends in `.json`.
    pub const NAMES: &'static [&'static str] =
        &["auto", "server", "o200k_base", "o200k_harmony", "cl100k_base", "chars"];

    /// Returns the value of a word in the file.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "server" => Some(Self::Server),
            "chars" => Some(Self::Chars),
            path if path.ends_with(".json") => Some(Self::File(path.into())),
            encoding => Self::NAMES.iter().find(|name| **name == encoding).map(|name| Self::Encoding(name)),
        }
    }
}

choices!(
    /// The strategy by which old messages make room.
    StrategyKind {
        /// A summary of all but the newest turns, at overflow.
        ReactiveOverflow = "reactive-overflow",
        /// A summary of all but the newest share, at half the window.
        ProactiveThreshold = "proactive-threshold",
        /// The first turn and the newest messages stay; the middle is removed.
        MiddleRemoval = "middle-removal",
        /// The newest messages stay.
        Truncation = "truncation",
        /// The newest messages stay; the least important of the others are removed first.
        Importance = "importance",
        /// The newest messages stay, the others become a summary for every so many.
        Summarization = "summarization",
        /// A model decides which messages stay.
        PruningAgent = "pruning-agent",
        /// Results are cleared and old parts summarised when that pays, ahead of time.
        Adaptive = "adaptive",
    }
);

/// The model that writes summaries.
#[derive(Clone, Debug, PartialEq)]
pub enum SummaryWriter {
    /// The session's own model.
    Same,
    /// Nobody: extracts are made without a model.
    Extract,
    /// The model of another agent by the agent's name, or another model of the same server.
    Model(String),
    /// A model with a provider, a server and a key of its own.
    Own(Box<ModelConfig>),
}

impl SummaryWriter {
    /// Returns the value of a word in the file: `same`, `extract`, or a model's name.
    pub fn from_word(word: String) -> Self {
        match word.as_str() {
            "same" => Self::Same,
            "extract" => Self::Extract,
            _ => Self::Model(word),
        }
    }
}

choices!(
    /// The decision of a rule about a tool call.
    Decision {
        /// The call runs.
        Allow = "allow",
        /// A person is asked.
        Ask = "ask",
        /// The call does not run, and the model gets a refusal.
        Deny = "deny",
    }
);

choices!(
    /// The part of its own reasoning that a model is shown again.
    ReasoningRetention {
        /// None.
        Never = "never",
        /// The reasoning of the turn that is still open.
        Turn = "turn",
        /// All of its reasoning.
        Always = "always",
    }
);

/// The source of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemPrompt {
    /// The text itself.
    Text(String),
    /// The content of this file, relative to the agent file.
    File(String),
}

impl SystemPrompt {
    /// Returns the text. `read` is asked for the content of the file, if it is one: this library opens no file by
    /// itself.
    ///
    /// # Errors
    /// Whatever `read` fails with.
    pub fn resolve<E>(&self, read: impl FnOnce(&str) -> Result<String, E>) -> Result<String, E> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            // The caller knows which folder the path is relative to, and whether the file may be read.
            Self::File(path) => read(path),
        }
    }
}

/// The model and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The kind of server that serves the model.
    pub provider: ProviderKind,
    /// The model's name, as the server knows it.
    pub name: String,
    /// The server's address.
    pub base_url: String,
    /// The environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// The declared context window in tokens; `None` asks the server.
    pub context_window: Option<u64>,
    /// The declared longest answer in tokens.
    pub max_output_tokens: Option<u64>,
    /// HTTP headers added to every request.
    pub headers: BTreeMap<String, String>,
    /// Fields added to every request's body, in the order of the file.
    pub body: serde_json::Map<String, serde_json::Value>,
    /// The life of Anthropic's prompt cache.
    pub cache: PromptCacheLife,
    /// The longest silence of the server, before an answer and within it.
    pub timeout: FirstByteTimeout,
}

/// The destination of spans and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// The collector, by OTLP over HTTP, for example `http://localhost:4318`.
    pub otlp: Option<String>,
    /// True if spans hold the words of the conversation.
    pub content: bool,
}

/// Limits of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunConfig {
    /// Model calls at most.
    pub max_steps: u32,
    /// The longest duration of a run.
    pub timeout: Option<Duration>,
    /// The tools of one step that run at the same time.
    pub parallel_tools: ParallelTools,
    /// The fate of queued messages after a crash or a cancel.
    pub recovery: Recovery,
    /// Messages that may wait.
    pub queue_limit: usize,
}

/// The settings that keep the context window from overflowing.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextConfig {
    /// True if anything is pruned or compacted; if not, overflow is an error.
    pub enabled: bool,
    /// The way in which tokens are counted.
    pub token_counter: TokenCounter,
    /// The way in which old messages make room.
    pub compression: CompressionConfig,
    /// True if the file names a pruning agent and no strategy: then the gateway's strategy is `pruning-agent`.
    pub pruning_agent_alone: bool,
    /// The share of the free room that quotes of the user may take in a view that was shortened, above 0 and at most 1.
    pub user_text_share: f64,
    /// True if removed messages return at the tail when the newest message mentions them.
    pub auto_recall: bool,
    /// pruning-agent: the model that prunes; `None` is the session's own.
    pub pruning_agent: Option<String>,
}

/// The strategy and trigger by which old messages make room.
#[derive(Clone, Debug, PartialEq)]
pub struct CompressionConfig {
    /// The strategy.
    pub strategy: StrategyKind,
    /// The trigger; `None` is the strategy's own trigger.
    pub trigger: Option<TriggerConfig>,
    /// The strategy's figures.
    pub options: StrategyOptions,
}

/// The condition under which a strategy acts. At true overflow every strategy acts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TriggerConfig {
    /// The next request would not fit.
    Overflow,
    /// This share of the window is used, 0 < share ≤ 1.
    Share(f64),
    /// This many tokens are used.
    Tokens(u64),
    /// A compaction happens only on request.
    Manual,
    /// adaptive: an edit happens when it pays off.
    Planner,
}

impl TriggerConfig {
    /// The names of their types, as in the file.
    pub const NAMES: &'static [&'static str] = &["overflow", "threshold", "manual", "planner"];

    /// The least number of tokens: below it there is no room for a question.
    pub const LEAST_TOKENS: u64 = 256;
}

/// Figures of the strategies; each reads its own. Shares are above 0 and at most 1, scores 0 or more.
#[derive(Clone, Debug, PartialEq)]
pub struct StrategyOptions {
    /// reactive-overflow, adaptive: the newest turns that stay as they are.
    pub preserve_last_n_turns: u32,
    /// proactive-threshold: the newest share of the conversation that stays, in tokens.
    pub preserve_ratio: f64,
    /// Strategies with summaries: the longest one, in tokens. The default is the strategy's own.
    pub max_summary_tokens: u64,
    /// The newest tool output that is never pruned, in tokens.
    pub prune_protect_tokens: u64,
    /// Tool output is pruned only if that saves more than this, in tokens.
    pub prune_minimum_tokens: u64,
    /// Tools whose output is never pruned.
    pub protected_tools: Vec<String>,
    /// middle-removal: newest messages that stay, in tokens; `None` is the trigger.
    pub keep_tokens: Option<u64>,
    /// truncation, importance, summarization: newest messages that stay.
    pub keep_recent: usize,
    /// importance: score of a typed message.
    pub user_message_score: f64,
    /// importance: score of an answer without tool calls.
    pub assistant_message_score: f64,
    /// importance: score of a step with tool calls.
    pub tool_use_score: f64,
    /// importance: messages below this score are removed at once.
    pub min_score_threshold: f64,
    /// summarization: messages in one summary.
    pub summarize_chunk_size: usize,
    /// Strategies with summaries: the model that writes them.
    pub summarize_with: SummaryWriter,
    /// Strategies that ask a model: the longest wait for the answer.
    pub summary_timeout: Duration,
    /// adaptive: the size of the request after an edit, as a share of the usable room.
    pub low_target: f64,
    /// adaptive, if prices are known: the approximate size of the newest part that stays, in tokens.
    pub tail_tokens: u64,
    /// adaptive: true if a summary is written ahead, while the run continues.
    pub background: bool,
}

/// The available tools, and the limits of their output.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolsConfig {
    /// The built-in tools that the model has; `None`: all.
    pub enabled: Option<Vec<String>>,
    /// Built-in tools that it does not have.
    pub disabled: Vec<String>,
    /// The share of the window above which the tools of MCP servers are deferred.
    pub defer_above: f64,
    /// The longest output of any tool, in characters.
    pub max_output_chars: usize,
    /// The longest output in characters, by the tool's name, of tools that have a limit of their own.
    pub output_limits: BTreeMap<String, u64>,
    /// The longest duration of a command.
    pub bash_timeout: Duration,
    /// Lines of a file read at once.
    pub read_max_lines: usize,
    /// The longest line shown, in characters.
    pub read_max_line_length: usize,
    /// Matches shown.
    pub grep_max_matches: usize,
}

/// Limits of stored media and whole outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobsConfig {
    /// The largest that is kept whole, in bytes.
    pub max_bytes: u64,
    /// The most that one session may keep, in bytes.
    pub session_quota_bytes: u64,
}

/// The tools that may run without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalsConfig {
    /// The first rule that fits decides.
    pub rules: Vec<ApprovalRule>,
    /// Rules of the user's own file, where this one was found in a folder
    /// ([`AgentConfig::restricted_by`](super::AgentConfig::restricted_by)). Where rules of both files fit a call, the stricter decision
    /// holds.
    pub closures: Vec<ApprovalRule>,
    /// The wait after which a question counts as no; `None` waits for ever.
    pub timeout: Option<Duration>,
}

/// A rule for the tools whose name matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRule {
    /// A glob over the tool's name; checked, it compiles.
    pub tool: String,
    /// A pattern for each argument that is looked at (`*` any text, `?` one character); all must fit. Empty: every
    /// call.
    pub matching: BTreeMap<String, String>,
    /// The decision of the rule.
    pub decision: Decision,
}

/// The limits within which failed model calls are made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryConfig {
    /// The longest outage of the server that is waited out; `None` for no limit.
    pub patience: Option<Duration>,
    /// The longest wait between two attempts.
    pub max_delay: Duration,
    /// The number of times that one step is tried again after its answer broke off.
    pub stream_attempts: u32,
}

/// The longest wait for the first byte of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstByteTimeout {
    /// By the place of the server: without a limit on this machine and in private networks.
    #[default]
    Auto,
    /// The wait has no limit.
    Unlimited,
    /// So long.
    After(Duration),
}

/// The declared limits of a model; each wins over those of the server and the catalogue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelLimits {
    /// The context window in tokens.
    pub window: Option<u64>,
    /// The longest answer in tokens.
    pub max_output: Option<u64>,
    /// The prices of the model's calls.
    pub prices: Option<ModelPrices>,
    /// True if the model takes tools.
    pub tools: Option<bool>,
    /// True if the model takes images.
    pub images: Option<bool>,
    /// True if the model takes documents (PDF).
    pub files: Option<bool>,
    /// True if the model continues an assistant message that ends the request.
    pub prefill: Option<bool>,
    /// The part of its own reasoning that the model is shown again.
    pub reasoning_retention: Option<ReasoningRetention>,
}

/// The prices of a model's calls, in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelPrices {
    /// Input that is read for the first time.
    pub input: f64,
    /// Input that is read from the cache; `None`: as input.
    pub cached_input: Option<f64>,
    /// Input that is written to the cache; `None`: as input.
    pub cache_write: Option<f64>,
    /// The price of the model's output, reasoning included.
    pub output: f64,
}
