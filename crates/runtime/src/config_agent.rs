//! An agent file, applied to a builder.
//!
//! The library applies the settings of the model, the context, the tools, approvals and retries. A file that sets
//! another key is refused, so that no setting is lost in silence.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use globset::Glob;
use longhaul_core::budget::StrategyTrigger;
use longhaul_core::plan::{CompactionPolicy, PruneOptions};
use longhaul_core::run::{ArgumentRule, ArgumentRules, RunRecovery, ToolApproval};
use longhaul_core::strategy::{
    AdaptiveStrategy, CompactionStrategy, ImportanceStrategy, MiddleRemovalStrategy,
    ProactiveThresholdStrategy, PruningAgentStrategy, ReactiveOverflowStrategy, SummarizationStrategy,
    TruncationStrategy,
};
use longhaul_providers::http::{HttpTimeouts, Secret};
use longhaul_providers::{DeclaredLimits, ModelEndpoint, ReasoningScope};

use crate::agent::AgentRules;
use crate::config::{
    AgentConfig, ApprovalRule, ConfigError, Decision, FirstByteTimeout, ParallelTools, ReasoningRetention,
    Recovery, StrategyKind, SystemPrompt, TriggerConfig,
};
use crate::tools::{ToolLimits, ToolSet};

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
    "context.userTextShare",
    "context.autoRecall",
    "tools",
    "approvals",
    "retry",
    "blobs.sessionQuotaBytes",
];

/// The keys below [`APPLIED`] that a builder does not apply.
const NOT_APPLIED: &[&str] = &["context.compression.options.summarizeWith"];

/// An agent file could not be applied to a builder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFileError {
    /// The agent file, or the file of its system prompt, cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
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
        /// The keys, for example `mcpServers`.
        keys: Vec<String>,
    },
}

/// Reads an agent file. The second value is the system prompt.
pub(crate) fn read_config(path: &Path) -> Result<(AgentConfig, String), ConfigFileError> {
    let text = read_text(path)?;
    let config = AgentConfig::parse(&text, &path.display().to_string())?;
    let written = AgentConfig::written(&text);
    tracing::debug!(file = %path.display(), bytes = text.len(), keys = written.len(), "an agent file was read");
    let keys = unapplied_keys(&written);
    if !keys.is_empty() {
        return Err(ConfigFileError::Unapplied { file: path.to_owned(), keys });
    }
    let system = match &config.system_prompt {
        SystemPrompt::Text(text) => text.clone(),
        SystemPrompt::File(file) => read_text(&path.parent().unwrap_or(Path::new("")).join(file))?,
    };
    Ok((config, system))
}

fn read_text(path: &Path) -> Result<String, ConfigFileError> {
    std::fs::read_to_string(path).map_err(|source| ConfigFileError::Read { path: path.to_owned(), source })
}

/// Returns the written keys that a builder does not apply, without the keys below them.
fn unapplied_keys(written: &BTreeSet<String>) -> Vec<String> {
    let mut unapplied: Vec<String> = Vec::new();
    // A section comes before its keys in the order of the set.
    for key in written.iter().filter(|key| !is_applied(key)) {
        if !unapplied.iter().any(|outer| is_within(key, outer)) {
            unapplied.push(key.clone());
        }
    }
    unapplied
}

/// Returns whether a builder applies a key. A section that holds applied keys is judged by the keys in it.
fn is_applied(key: &str) -> bool {
    let is_part = APPLIED.iter().any(|applied| is_within(key, applied) || is_within(applied, key));
    is_part && !NOT_APPLIED.iter().any(|other| is_within(key, other))
}

fn is_within(key: &str, outer: &str) -> bool {
    key.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the policy with the settings of the file; strategy, trigger and prices stay.
pub(crate) fn apply_policy(config: &AgentConfig, policy: CompactionPolicy) -> CompactionPolicy {
    let options = &config.context.compression.options;
    CompactionPolicy {
        enabled: config.context.enabled,
        prune: PruneOptions {
            protect_tokens: options.prune_protect_tokens,
            minimum_tokens: options.prune_minimum_tokens,
            protected_tools: options.protected_tools.clone(),
        },
        auto_recall: config.context.auto_recall,
        user_text_share: config.context.user_text_share,
        summary_timeout_ms: millis(options.summary_timeout),
        ..policy
    }
}

/// Sets the rules of runs as the file has them; policy, patience and the default approval stay.
pub(crate) fn apply_rules(config: &AgentConfig, tools: &ToolSet, rules: &mut AgentRules) {
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
    rules.retry.max_delay_ms = millis(config.retry.max_delay);
    rules.retry.stream_attempts = config.retry.stream_attempts;
    rules.queue_limit = config.run.queue_limit;
    rules.approvals = approvals(config, tools, &rules.default_approval);
    rules.approval_timeout = config.approvals.timeout;
    rules.max_output_chars.clone_from(&config.tools.output_limits);
    rules.default_max_output_chars = config.tools.max_output_chars as u64;
    rules.defer_above = config.tools.defer_above;
    rules.session_quota_bytes = config.blobs.session_quota_bytes;
}

/// Returns the limits of single tools.
pub(crate) fn tool_limits(config: &AgentConfig) -> ToolLimits {
    ToolLimits {
        read_max_lines: config.tools.read_max_lines,
        read_max_line_chars: config.tools.read_max_line_length,
        grep_max_matches: config.tools.grep_max_matches,
        bash_timeout: config.tools.bash_timeout,
        ..ToolLimits::default()
    }
}

/// Sets what the file says of the model's server and limits, but not the key.
pub(crate) fn apply_endpoint(config: &AgentConfig, endpoint: &mut ModelEndpoint) {
    let model = &config.model;
    endpoint.headers =
        model.headers.iter().map(|(name, value)| (name.clone(), Secret::new(value.clone()))).collect();
    endpoint.body = model.body.clone();
    let usual = HttpTimeouts::for_server(&model.base_url);
    endpoint.timeouts = match model.timeout {
        FirstByteTimeout::Auto => usual,
        FirstByteTimeout::Unlimited => HttpTimeouts { first_byte: None, ..usual },
        FirstByteTimeout::After(limit) => HttpTimeouts { first_byte: Some(limit), ..usual },
    };
    let listed = config.models.get(&model.name).copied().unwrap_or_default();
    endpoint.declared = DeclaredLimits {
        window: model.context_window.or(listed.window),
        max_output: model.max_output_tokens.or(listed.max_output),
        tools: listed.tools,
        images: listed.images,
        files: listed.files,
        prefill: listed.prefill,
        reasoning: listed.reasoning_retention.map(|kept| match kept {
            ReasoningRetention::Never => ReasoningScope::Never,
            ReasoningRetention::Turn => ReasoningScope::Turn,
            ReasoningRetention::Always => ReasoningScope::Always,
        }),
    };
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the configured strategy.
pub(crate) fn strategy(config: &AgentConfig) -> Arc<dyn CompactionStrategy> {
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
pub(crate) fn trigger(configured: TriggerConfig) -> StrategyTrigger {
    match configured {
        TriggerConfig::Overflow => StrategyTrigger::Overflow,
        TriggerConfig::Manual => StrategyTrigger::Manual,
        TriggerConfig::Share(share) => StrategyTrigger::Share(share),
        TriggerConfig::Tokens(tokens) => StrategyTrigger::Tokens(tokens),
        TriggerConfig::Planner => StrategyTrigger::Planner,
    }
}

/// Returns what holds for each tool that a rule names; the others are left to the default.
pub(crate) fn approvals(
    config: &AgentConfig,
    tools: &ToolSet,
    asked: &ToolApproval,
) -> BTreeMap<String, ToolApproval> {
    let decided = tools.specs().into_iter().filter_map(|spec| {
        let rules = rules_of(&config.approvals.rules, &spec.name, asked);
        // The closures of the person's own file are kept apart: no rule of a found file may override them.
        let closures = rules_of(&config.approvals.closures, &spec.name, asked);
        let approval = match (rules.as_slice(), closures.as_slice()) {
            ([], []) => return None,
            ([always], []) | ([], [always]) if always.patterns.is_empty() => always.approval.clone(),
            _ => ToolApproval::Matching(ArgumentRules { rules, otherwise: None, closures }),
        };
        Some((spec.name.clone(), approval))
    });
    decided.collect()
}

/// Returns the rules whose glob fits the tool, up to the first that is for every call.
fn rules_of(rules: &[ApprovalRule], tool: &str, asked: &ToolApproval) -> Vec<ArgumentRule> {
    let mut fitting = Vec::new();
    for rule in rules {
        if !Glob::new(&rule.tool).is_ok_and(|glob| glob.compile_matcher().is_match(tool)) {
            continue;
        }
        let approval = match rule.decision {
            Decision::Allow => ToolApproval::Allow,
            Decision::Ask => asked.clone(),
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
