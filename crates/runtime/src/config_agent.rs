//! The parts of an agent that an agent file describes.
//!
//! [`AgentBuilder::from_config`](crate::AgentBuilder::from_config) applies the settings of the model, the context, the
//! tools, hooks, MCP servers, the sandbox, approvals and retries. It refuses a file that sets another key, so that no
//! setting is lost in silence. A program that applies every key, as `longhaul` does, takes the parts from the functions
//! here, for example [`agent_rules`], [`hook_set`] and [`add_mcp_servers`].

#[cfg(feature = "tokenizers")]
mod counting;
mod hooks;
#[cfg(not(feature = "mcp"))]
mod no_servers;
#[cfg(feature = "mcp")]
mod servers;
mod summaries;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use globset::Glob;
use longhaul_core::attempt::RetryPolicy;
use longhaul_core::budget::StrategyTrigger;
use longhaul_core::plan::{CompactionPolicy, PruneOptions, TokenPrices};
use longhaul_core::run::{ArgumentRule, ArgumentRules, RunRecovery, ToolApproval};
use longhaul_core::strategy::{
    AdaptiveStrategy, CompactionStrategy, ImportanceStrategy, MiddleRemovalStrategy,
    ProactiveThresholdStrategy, PruningAgentStrategy, ReactiveOverflowStrategy, SummarizationStrategy,
    TruncationStrategy,
};
use longhaul_providers::connect::Kind;
use longhaul_providers::http::{HttpTimeouts, Secret};
use longhaul_providers::{DeclaredLimits, ModelEndpoint, ReasoningScope};
use longhaul_wire::catalog::{self, TokenRates};

use crate::agent::AgentRules;
use crate::config::{
    AgentConfig, ApprovalRule, ConfigError, Decision, FirstByteTimeout, ModelConfig, ModelLimits,
    ParallelTools, PromptCacheLife, ProviderKind, ReasoningRetention, Recovery, StrategyKind, SystemPrompt,
    TriggerConfig,
};
use crate::text_encoding::DecodedText;
use crate::tools::{ToolLimits, ToolSet};

#[cfg(feature = "tokenizers")]
pub use self::counting::{TokenCounterError, server_count_policy, token_counter};
pub(crate) use self::hooks::configured_hooks;
pub use self::hooks::{HookSetupError, hook_set};
#[cfg(not(feature = "mcp"))]
pub use self::no_servers::{McpFailurePolicy, McpSetupError, add_mcp_servers};
#[cfg(feature = "mcp")]
pub use self::servers::{McpFailurePolicy, McpSetupError, add_mcp_servers};
pub use self::summaries::summary_writer;
pub(crate) use self::summaries::summary_writer_key;

const BY_RULE: &str = "a rule of the configuration denies it";

/// The keys that a builder applies, each with all keys below it.
const APPLIED: &[&str] = &[
    "name",
    "systemPrompt",
    "model",
    "models",
    "run",
    "context.enabled",
    "context.compression.strategy",
    "context.compression.trigger",
    "context.compression.options",
    "context.pruningAgent",
    #[cfg(feature = "tokenizers")]
    "context.tokenCounter",
    "context.userTextShare",
    "context.autoRecall",
    "hooks",
    "tools",
    "sandbox",
    "approvals",
    "mcpServers",
    "retry",
    "blobs.sessionQuotaBytes",
];

/// An agent file could not be applied to a builder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFileError {
    /// The agent file, or the file of its system prompt, cannot be read.
    #[error("{} cannot be read: {}", path.display(), crate::io_error::io_error_text(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file has mistakes.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file sets keys that only the program `longhaul` applies.
    #[error("{}: the library does not apply these keys: {}; remove them, or use the builder", file.display(), keys.join(", "))]
    Unapplied {
        /// The file.
        file: PathBuf,
        /// The keys, for example `telemetry`.
        keys: Vec<String>,
    },
}

/// The largest agent file, and the largest file of its prompt, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The longer life of Anthropic's prompt cache.
const LONG_CACHE_LIFE_MS: u64 = 60 * 60_000;

/// The price of writing to Anthropic's prompt cache for an hour, in prices of writing for five minutes: 2.0 against
/// 1.25 of an input token (Anthropic's page on prompt caching).
const LONG_CACHE_WRITE_FACTOR: f64 = 1.6;

/// The bytes that a tool's own lines may add to a captured output.
const CAPTURE_MARGIN_BYTES: usize = 64 * 1024;

/// An agent file for a builder.
pub(crate) struct ConfigFile {
    pub(crate) config: AgentConfig,
    /// The system prompt.
    pub(crate) system: String,
    /// The token counter, if the file names one.
    #[cfg(feature = "tokenizers")]
    pub(crate) token_counter: Option<crate::config::TokenCounter>,
}

/// Reads an agent file.
pub(crate) fn read_config(path: &Path) -> Result<ConfigFile, ConfigFileError> {
    let text = read_text(path)?;
    let config = AgentConfig::parse(&text, &path.display().to_string())?;
    let written = AgentConfig::written(&text);
    let mut keys = unapplied_keys(&written);
    if config.context.pruning_agent_alone {
        // Without its strategy the key is for the gateway, which a builder does not make.
        keys.push("context.pruningAgent".to_owned());
    }
    if !keys.is_empty() {
        return Err(ConfigFileError::Unapplied { file: path.to_owned(), keys });
    }
    let system = match &config.system_prompt {
        SystemPrompt::Text(text) => text.clone(),
        SystemPrompt::File(file) => read_text(&path.parent().unwrap_or(Path::new("")).join(file))?,
    };
    Ok(ConfigFile {
        #[cfg(feature = "tokenizers")]
        token_counter: written.contains("context.tokenCounter").then(|| config.context.token_counter.clone()),
        config,
        system,
    })
}

/// Reports whether a URL leads to this machine, as the client will read the address, not as it looks:
/// `http://stranger\@localhost` is a stranger's.
pub fn is_this_machine(url: &str) -> bool {
    let url = reqwest::Url::parse(url);
    url.is_ok_and(|url| matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")))
}

fn read_text(path: &Path) -> Result<String, ConfigFileError> {
    read_file_text(path).map_err(|source| ConfigFileError::Read { path: path.to_owned(), source })
}

/// Returns the text of an agent file, or of the file of its prompt: UTF-8 or UTF-16, without a byte order mark.
///
/// # Errors
/// The file cannot be read, is no regular file, is larger than 1 MiB, or has a byte that is no character.
pub fn read_file_text(path: &Path) -> io::Result<String> {
    // Opening a pipe waits for its writer, and a device may never end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    // One byte more than allowed, so that a larger file is noticed.
    fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    // A replaced byte would change a prompt or a key silently, so the person mends the file.
    let text = DecodedText::new(&bytes).strict();
    text.map_err(|damage| io::Error::new(io::ErrorKind::InvalidData, format!("it has {damage}")))
}

/// Returns the written keys that a builder does not apply, without the keys below them.
fn unapplied_keys(written: &BTreeSet<String>) -> Vec<String> {
    let unapplied: Vec<&String> = written.iter().filter(|key| !is_applied(key)).collect();
    let outermost =
        unapplied.iter().filter(|key| !unapplied.iter().any(|outer| outer != *key && is_within(key, outer)));
    outermost.map(|key| (*key).clone()).collect()
}

fn is_applied(key: &str) -> bool {
    // A section that holds applied keys is judged by the keys in it.
    APPLIED.iter().any(|applied| is_within(key, applied) || is_within(applied, key))
}

fn is_within(key: &str, outer: &str) -> bool {
    key.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the configured compaction policy, without the model that writes summaries.
pub fn compaction_policy(config: &AgentConfig) -> CompactionPolicy {
    let compression = &config.context.compression;
    let options = &compression.options;
    CompactionPolicy {
        enabled: config.context.enabled,
        trigger: compression.trigger.map(trigger),
        prune: PruneOptions {
            protect_tokens: options.prune_protect_tokens,
            minimum_tokens: options.prune_minimum_tokens,
            protected_tools: options.protected_tools.clone(),
        },
        prices: model_prices(config),
        auto_recall: config.context.auto_recall,
        user_text_share: config.context.user_text_share,
        summary_timeout_ms: millis(options.summary_timeout),
        ..CompactionPolicy::new(strategy(config))
    }
}

/// Returns the configured rules of runs. `default_approval` applies where the file says `ask` or nothing. If it denies,
/// it also applies to a command whose text does not show whether a rule fits it.
pub fn agent_rules(config: &AgentConfig, tools: &ToolSet, default_approval: ToolApproval) -> AgentRules {
    let mut rules = AgentRules::new(compaction_policy(config));
    rules.max_steps = config.run.max_steps;
    rules.timeout = config.run.timeout;
    rules.parallel_tools = match config.run.parallel_tools {
        ParallelTools::Auto => None,
        ParallelTools::Always => Some(true),
        ParallelTools::Never => Some(false),
    };
    rules.recovery = match config.run.recovery {
        Recovery::Rest => RunRecovery::Rest,
        Recovery::Continue => RunRecovery::Continue,
    };
    rules.retry = RetryPolicy {
        patience_ms: config.retry.patience.map(millis),
        max_delay_ms: millis(config.retry.max_delay),
        stream_attempts: config.retry.stream_attempts,
    };
    rules.queue_limit = config.run.queue_limit;
    rules.approvals = approvals(config, tools, &default_approval);
    if let ToolApproval::Deny(_) = &default_approval {
        // A default that denies says that nobody can be asked.
        rules.unclear_approval = default_approval.clone();
    }
    rules.default_approval = default_approval;
    rules.approval_timeout = config.approvals.timeout;
    rules.max_output_chars.clone_from(&config.tools.output_limits);
    rules.default_max_output_chars = config.tools.max_output_chars as u64;
    rules.defer_above = config.tools.defer_above;
    rules.session_quota_bytes = config.blobs.session_quota_bytes;
    rules
}

/// Returns the configured limits of single tools.
pub fn tool_limits(config: &AgentConfig) -> ToolLimits {
    // A captured output is stored as a blob together with the lines that the tool adds about its end.
    let max_bytes = usize::try_from(config.blobs.max_bytes).unwrap_or(usize::MAX);
    ToolLimits {
        read_max_lines: config.tools.read_max_lines,
        read_max_line_chars: config.tools.read_max_line_length,
        grep_max_matches: config.tools.grep_max_matches,
        bash_timeout: config.tools.bash_timeout,
        capture_bytes: max_bytes.saturating_sub(CAPTURE_MARGIN_BYTES).max(1),
        ..ToolLimits::default()
    }
}

/// Sets what the section `model` says of requests and waits, and the declared limits. The key stays as it is.
pub fn apply_endpoint(model: &ModelConfig, declared: DeclaredLimits, endpoint: &mut ModelEndpoint) {
    endpoint.headers = secret_headers(&model.headers);
    endpoint.body = model.body.clone();
    endpoint.cache = model.cache.ttl();
    endpoint.timeouts = http_timeouts(&model.base_url, model.timeout);
    endpoint.declared = declared;
}

/// Returns the configured headers. Their values may be keys, so no log shows them.
pub fn secret_headers(headers: &BTreeMap<String, String>) -> Vec<(String, Secret)> {
    headers.iter().map(|(name, value)| (name.clone(), Secret::new(value.clone()))).collect()
}

/// Returns the waits of the server at `base_url`.
pub fn http_timeouts(base_url: &str, first_byte: FirstByteTimeout) -> HttpTimeouts {
    let usual = HttpTimeouts::for_server(base_url);
    match first_byte {
        FirstByteTimeout::Auto => usual,
        FirstByteTimeout::Unlimited => HttpTimeouts { first_byte: None, ..usual },
        FirstByteTimeout::After(limit) => HttpTimeouts { first_byte: Some(limit), ..usual },
    }
}

/// Returns the declared limits of the configured model: those beside the model, else those in `models`.
pub fn declared_limits(config: &AgentConfig) -> DeclaredLimits {
    let listed = listed_limits(config, &config.model.name);
    DeclaredLimits {
        window: config.model.context_window.or(listed.window),
        max_output: config.model.max_output_tokens.or(listed.max_output),
        ..listed
    }
}

/// Returns the limits that `models` declares for one model.
pub fn listed_limits(config: &AgentConfig, model: &str) -> DeclaredLimits {
    config.models.get(model).map(limits_from).unwrap_or_default()
}

/// Converts limits of the configuration into the providers' type.
pub fn limits_from(listed: &ModelLimits) -> DeclaredLimits {
    DeclaredLimits {
        window: listed.window,
        max_output: listed.max_output,
        tools: listed.tools,
        images: listed.images,
        files: listed.files,
        prefill: listed.prefill,
        reasoning: listed.reasoning_retention.map(|retention| match retention {
            ReasoningRetention::Never => ReasoningScope::Never,
            ReasoningRetention::Turn => ReasoningScope::Turn,
            ReasoningRetention::Always => ReasoningScope::Always,
        }),
    }
}

/// Returns the prices that `models` declares for one model.
pub fn declared_rates(config: &AgentConfig, model: &str) -> Option<TokenRates> {
    let prices = config.models.get(model)?.prices?;
    Some(TokenRates {
        input: prices.input,
        cached: prices.cached_input,
        write: prices.cache_write,
        output: prices.output,
    })
}

/// Returns the declared prices of the configured model, else its maker's list prices where they hold.
pub fn model_prices(config: &AgentConfig) -> Option<TokenPrices> {
    let model = &config.model;
    let declared = declared_rates(config, &model.name);
    let is_declared = declared.is_some();
    let mut prices = token_prices(declared, model.provider.kind(), &model.name, &model.base_url)?;
    if model.provider == ProviderKind::Anthropic && model.cache == PromptCacheLife::OneHour {
        prices.cache_life_ms = LONG_CACHE_LIFE_MS;
        // The list names the price of writing for five minutes. A declared price is for the configured life.
        if !is_declared {
            prices.cache_write *= LONG_CACHE_WRITE_FACTOR;
        }
    }
    Some(prices)
}

/// Returns the prices that planning uses: the declared ones, else the list prices of the model at that server.
pub(crate) fn token_prices(
    declared: Option<TokenRates>,
    kind: Option<Kind>,
    model: &str,
    base_url: &str,
) -> Option<TokenPrices> {
    // Planning is about requests of the usual length, so the first tier of the list applies.
    let rates = declared.or_else(|| Some(catalog::prices(model, base_url)?.at(0)))?;
    Some(TokenPrices {
        input: rates.input,
        // A provider that lists no price for cached input charges the full one.
        cache_read: rates.cached.unwrap_or(rates.input),
        cache_write: rates.write.unwrap_or(rates.input),
        output: rates.output,
        cache_life_ms: cache_life_ms(kind),
    })
}

/// Returns the time that a provider keeps an unused prefix, in milliseconds. Anthropic states 5 minutes, OpenAI 5 to
/// 10, and Google minutes (their pages on prompt caching). A server of one's own keeps a prefix as long as it has room;
/// an hour is a guess.
fn cache_life_ms(kind: Option<Kind>) -> u64 {
    let minutes = match kind {
        Some(Kind::Anthropic) => 5,
        Some(Kind::OpenAi | Kind::Gemini) => 10,
        Some(Kind::OpenAiCompatible | Kind::Ollama) | None => 60,
    };
    minutes * 60_000
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the configured strategy.
fn strategy(config: &AgentConfig) -> Arc<dyn CompactionStrategy> {
    let compression = &config.context.compression;
    let options = &compression.options;
    let preserve_last_n_turns = options.preserve_last_n_turns as usize;
    let max_summary_tokens = options.max_summary_tokens;
    let keep_recent = options.keep_recent;
    match compression.strategy {
        StrategyKind::ReactiveOverflow => {
            Arc::new(ReactiveOverflowStrategy { preserve_last_n_turns, max_summary_tokens })
        }
        StrategyKind::ProactiveThreshold => Arc::new(ProactiveThresholdStrategy {
            preserve_ratio: options.preserve_ratio,
            max_summary_tokens,
        }),
        StrategyKind::MiddleRemoval => Arc::new(MiddleRemovalStrategy { keep_tokens: options.keep_tokens }),
        StrategyKind::Truncation => Arc::new(TruncationStrategy { keep_recent }),
        StrategyKind::Importance => Arc::new(ImportanceStrategy {
            keep_recent,
            user_message_score: options.user_message_score,
            assistant_message_score: options.assistant_message_score,
            tool_use_score: options.tool_use_score,
            min_score_threshold: options.min_score_threshold,
        }),
        StrategyKind::Summarization => Arc::new(SummarizationStrategy {
            keep_recent,
            summarize_chunk_size: options.summarize_chunk_size,
            max_summary_tokens,
        }),
        StrategyKind::PruningAgent => Arc::new(PruningAgentStrategy { max_summary_tokens }),
        StrategyKind::Adaptive => Arc::new(AdaptiveStrategy {
            low_target: options.low_target,
            tail_tokens: options.tail_tokens,
            preserve_last_n_turns,
            max_summary_tokens,
            background: options.background,
            ..AdaptiveStrategy::default()
        }),
    }
}

/// Returns the configured trigger.
fn trigger(configured: TriggerConfig) -> StrategyTrigger {
    match configured {
        TriggerConfig::Overflow => StrategyTrigger::Overflow,
        TriggerConfig::Manual => StrategyTrigger::Manual,
        TriggerConfig::Share(share) => StrategyTrigger::Share(share),
        TriggerConfig::Tokens(tokens) => StrategyTrigger::Tokens(tokens),
        TriggerConfig::Planner => StrategyTrigger::Planner,
    }
}

/// Returns what holds for each tool that a rule names; the others are left to the default.
fn approvals(
    config: &AgentConfig,
    tools: &ToolSet,
    default_approval: &ToolApproval,
) -> BTreeMap<String, ToolApproval> {
    let decided = tools.specs().into_iter().filter_map(|spec| {
        let rules = rules_of(&config.approvals.rules, &spec.name, default_approval);
        // The closures of the person's own file are kept apart: no rule of a found file may override them.
        let closures = rules_of(&config.approvals.closures, &spec.name, default_approval);
        let approval = match (rules.as_slice(), closures.as_slice()) {
            ([], []) => return None,
            ([always], []) | ([], [always]) if always.patterns.is_empty() => always.approval.clone(),
            _ => ToolApproval::Matching(ArgumentRules { rules, closures, ..ArgumentRules::default() }),
        };
        Some((spec.name.clone(), approval))
    });
    decided.collect()
}

/// Returns the rules whose glob fits the tool, up to the first that is for every call.
fn rules_of(rules: &[ApprovalRule], tool: &str, default_approval: &ToolApproval) -> Vec<ArgumentRule> {
    let mut fitting = Vec::new();
    for rule in rules.iter().filter(|rule| is_tool_matched(&rule.tool, tool)) {
        let approval = match rule.decision {
            Decision::Allow => ToolApproval::Allow,
            Decision::Ask => default_approval.clone(),
            Decision::Deny => ToolApproval::Deny(BY_RULE.to_owned()),
        };
        fitting.push(ArgumentRule { patterns: rule.matching.clone(), approval });
        // A rule without patterns decides every call, so later rules never apply.
        if rule.matching.is_empty() {
            break;
        }
    }
    fitting
}

/// Returns true if the glob of a rule fits the name of a tool. An invalid glob fits none.
fn is_tool_matched(pattern: &str, tool: &str) -> bool {
    Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(tool))
}
