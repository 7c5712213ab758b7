//! The file's sections, read one after another.

use super::AgentConfig;
use super::gateway::{
    GatewayAuth, GatewayConfig, GatewayCredentials, GatewayDeferTools, GatewayMidstream, GatewayRecall,
};
use super::hooks::HooksConfig;
use super::model::{
    ApprovalsConfig, BlobsConfig, CompressionConfig, ContextConfig, ModelConfig, ParallelTools,
    PromptCacheLife, ProviderKind, Recovery, RetryConfig, RunConfig, StrategyKind, StrategyOptions,
    TelemetryConfig, TokenCounter, ToolsConfig,
};
use super::reader::{
    ConfigReader, agents, builtin_tools, check_options, hook, mcp_servers, models, output_limits,
    pruning_agent, summary_writer, trigger, upstreams,
};
use super::sandbox::SandboxConfig;
use super::server::ServerConfig;
use crate::sandbox::{ChildLimits, NetworkAccess};

pub(super) fn config(reader: &mut ConfigReader<'_>) -> AgentConfig {
    let name = reader.text("name");
    AgentConfig {
        agents: agents(reader, "agents", &name),
        name,
        system_prompt: reader.prompt("systemPrompt"),
        model: model(reader),
        run: run(reader),
        context: context(reader),
        hooks: HooksConfig {
            pre_compact: hook(reader, "hooks.preCompact"),
            pre_tool_use: hook(reader, "hooks.preToolUse"),
            post_tool_use: hook(reader, "hooks.postToolUse"),
            user_prompt_submit: hook(reader, "hooks.userPromptSubmit"),
        },
        tools: tools(reader),
        sandbox: sandbox(reader),
        blobs: BlobsConfig {
            max_bytes: reader.count("blobs.maxBytes"),
            session_quota_bytes: reader.count("blobs.sessionQuotaBytes"),
        },
        approvals: ApprovalsConfig {
            rules: reader.rules("approvals.rules"),
            closures: Vec::new(),
            timeout: reader.time("approvals.timeout"),
        },
        mcp_servers: mcp_servers(reader, "mcpServers"),
        retry: RetryConfig {
            patience: reader.patience("retry.patience"),
            max_delay: reader.time("retry.maxDelay").unwrap_or_default(),
            stream_attempts: reader.count("retry.streamAttempts"),
        },
        models: models(reader, "models"),
        gateway: gateway(reader),
        server: server(reader),
        telemetry: TelemetryConfig {
            otlp: reader.optional_url("telemetry.otlp"),
            content: reader.flag("telemetry.content"),
        },
    }
}

fn gateway(reader: &mut ConfigReader<'_>) -> GatewayConfig {
    let (exact, open, own) = (GatewayMidstream::Exact, GatewayAuth::OpenOnLoopback, GatewayCredentials::Own);
    GatewayConfig {
        upstreams: upstreams(reader, "gateway.upstreams"),
        notices_in_text: reader.flag("gateway.noticesInText"),
        recall: reader.choice("gateway.recall", GatewayRecall::from_name, GatewayRecall::Off),
        defer_tools: reader.choice(
            "gateway.deferTools",
            GatewayDeferTools::from_name,
            GatewayDeferTools::Auto,
        ),
        midstream: reader.choice("gateway.midstream", GatewayMidstream::from_name, exact),
        auth: reader.choice("gateway.auth", GatewayAuth::from_name, open),
        credentials: reader.choice("gateway.credentials", GatewayCredentials::from_name, own),
    }
}

fn server(reader: &mut ConfigReader<'_>) -> ServerConfig {
    reader.database("server.db");
    ServerConfig {
        addr: reader.address("server.addr"),
        token_file: reader.optional_path("server.tokenFile"),
        allowed_hosts: reader.hosts("server.allowedHosts"),
        allowed_origins: reader.origins("server.allowedOrigins"),
        max_body_bytes: reader.count("server.maxBodyBytes"),
        rate_limit: reader.optional_rate("server.rateLimit"),
        keep_sessions: reader.time("server.keepSessions"),
    }
}

fn model(reader: &mut ConfigReader<'_>) -> ModelConfig {
    let provider = reader.choice("model.provider", ProviderKind::from_name, ProviderKind::OpenaiCompatible);
    ModelConfig {
        provider,
        name: reader.text("model.name"),
        base_url: reader.url("model.base_url").unwrap_or_else(|| provider.base_url().to_owned()),
        api_key_env: reader.env_name("model.api_key_env"),
        context_window: reader.count_or_auto("model.context_window"),
        max_output_tokens: reader.count_or_auto("model.max_output_tokens"),
        headers: reader.texts("model.headers"),
        body: reader.json("model.body"),
        cache: reader.choice("model.cache", PromptCacheLife::from_name, PromptCacheLife::Auto),
        timeout: reader.first_byte_timeout("model.timeout"),
    }
}

fn run(reader: &mut ConfigReader<'_>) -> RunConfig {
    RunConfig {
        max_steps: reader.count("run.maxSteps"),
        timeout: reader.time("run.timeout"),
        parallel_tools: reader.choice("run.parallelTools", ParallelTools::from_name, ParallelTools::Auto),
        recovery: reader.choice("run.recovery", Recovery::from_name, Recovery::Rest),
        queue_limit: reader.count("run.queueLimit"),
    }
}

fn context(reader: &mut ConfigReader<'_>) -> ContextConfig {
    let counter = reader.choice("context.tokenCounter", TokenCounter::from_name, TokenCounter::Auto);
    // An unknown strategy has been reported: a report on its options would only repeat the mistake.
    let names_strategy = reader.has("context.compression.strategy");
    let strategy =
        reader.choice("context.compression.strategy", |word| StrategyKind::from_name(word).map(Some), None);
    // A pruning agent without a strategy belongs to the gateway.
    let pruned_by = if names_strategy { strategy } else { Some(StrategyKind::PruningAgent) };
    let pruning_agent_alone = !names_strategy && reader.has("context.pruningAgent");
    ContextConfig {
        enabled: reader.flag("context.enabled"),
        token_counter: counter,
        compression: compression(reader, strategy),
        pruning_agent_alone,
        user_text_share: reader.share("context.userTextShare"),
        auto_recall: reader.flag("context.autoRecall"),
        pruning_agent: pruning_agent(reader, "context.pruningAgent", pruned_by),
    }
}

fn compression(reader: &mut ConfigReader<'_>, named: Option<StrategyKind>) -> CompressionConfig {
    if let Some(strategy) = named {
        check_options(reader, strategy);
    }
    // `adaptive` is the default by measurement (decision 0019).
    let strategy = named.unwrap_or(StrategyKind::Adaptive);
    CompressionConfig {
        strategy,
        trigger: trigger(reader, "context.compression.trigger", named),
        options: options(reader, strategy),
    }
}

fn options(reader: &mut ConfigReader<'_>, strategy: StrategyKind) -> StrategyOptions {
    // The default depends on the strategy, so the list of keys has none.
    let longest_summary = match strategy {
        StrategyKind::Summarization => 500,
        StrategyKind::Adaptive => 1_500,
        _ => 2_000,
    };
    StrategyOptions {
        preserve_last_n_turns: reader.count("context.compression.options.preserveLastNTurns"),
        preserve_ratio: reader.share("context.compression.options.preserveRatio"),
        max_summary_tokens: reader
            .optional_count("context.compression.options.maxSummaryTokens")
            .unwrap_or(longest_summary),
        prune_protect_tokens: reader.count("context.compression.options.pruneProtectTokens"),
        prune_minimum_tokens: reader.count("context.compression.options.pruneMinimumTokens"),
        protected_tools: reader.names("context.compression.options.protectedTools"),
        keep_tokens: reader.optional_count("context.compression.options.keepTokens"),
        keep_recent: reader.optional_count("context.compression.options.keepRecent").unwrap_or(10),
        user_message_score: reader.score("context.compression.options.userMessageScore"),
        assistant_message_score: reader.score("context.compression.options.assistantMessageScore"),
        tool_use_score: reader.score("context.compression.options.toolUseScore"),
        min_score_threshold: reader.score("context.compression.options.minScoreThreshold"),
        summarize_chunk_size: reader.count("context.compression.options.summarizeChunkSize"),
        summarize_with: summary_writer(reader, "context.compression.options.summarizeWith"),
        summary_timeout: reader.time("context.compression.options.summaryTimeout").unwrap_or_default(),
        low_target: reader.share("context.compression.options.lowTarget"),
        tail_tokens: reader.count("context.compression.options.tailTokens"),
        background: reader.flag("context.compression.options.background"),
    }
}

fn tools(reader: &mut ConfigReader<'_>) -> ToolsConfig {
    ToolsConfig {
        enabled: builtin_tools(reader, "tools.enabled"),
        disabled: builtin_tools(reader, "tools.disabled").unwrap_or_default(),
        defer_above: reader.share("tools.deferAbove"),
        max_output_chars: reader.count("tools.maxOutputChars"),
        output_limits: output_limits(reader),
        bash_timeout: std::time::Duration::from_millis(reader.count("tools.bash.timeoutMs")),
        read_max_lines: reader.count("tools.read.maxLines"),
        read_max_line_length: reader.count("tools.read.maxLineLength"),
        grep_max_matches: reader.count("tools.grep.maxMatches"),
    }
}

fn sandbox(reader: &mut ConfigReader<'_>) -> SandboxConfig {
    SandboxConfig {
        network: reader.choice("sandbox.network", NetworkAccess::from_name, NetworkAccess::Open),
        limits: ChildLimits {
            cpu_seconds: reader.count_or_none("sandbox.limits.cpuSeconds"),
            memory_bytes: reader.count_or_none("sandbox.limits.memoryBytes"),
            file_bytes: reader.count_or_none("sandbox.limits.fileBytes"),
            processes: reader.count_or_none("sandbox.limits.processes"),
            open_files: reader.count_or_none("sandbox.limits.openFiles"),
        },
    }
}
