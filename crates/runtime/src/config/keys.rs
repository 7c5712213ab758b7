//! Every key of the agent file: kind, default, meaning. The one list behind checks, defaults and reference.

use super::gateway::{GatewayAuth, GatewayCredentials, GatewayDeferTools, GatewayMidstream, GatewayRecall};
use super::model::StrategyKind::{
    self, Adaptive, Importance, MiddleRemoval, ProactiveThreshold, PruningAgent, ReactiveOverflow,
    Summarization, Truncation,
};
use super::model::{ParallelTools, PromptCacheLife, ProviderKind, Recovery};
use super::node::is_spelling_of;
use crate::sandbox::NetworkAccess;

/// One key.
pub(super) struct ConfigKey {
    /// The key's path, for example `run.maxSteps`.
    pub(super) path: &'static str,
    /// The kind of value that the key takes.
    pub(super) kind: ConfigKeyKind,
    /// The key's default as the file would write it; `None` if the key has no default.
    pub(super) default: Option<&'static str>,
    /// The key's meaning.
    pub(super) doc: &'static str,
}

/// The keys of earlier versions, each with its replacement.
const REMOVED: &[(&str, &str)] = &[(
    "retry.attempts",
    "`retry.patience`, the time for which an outage is waited out, and `retry.streamAttempts`",
)];

/// Returns the replacement of a key that an earlier version had.
pub(super) fn replacement(path: &str) -> Option<&'static str> {
    REMOVED.iter().find(|(removed, _)| *removed == path).map(|(_, instead)| *instead)
}

/// A kind of value.
pub(super) enum ConfigKeyKind {
    /// `true` or `false`.
    Flag,
    /// A whole number from `min` to `max`.
    Count { min: u64, max: u64 },
    /// A number above 0 and at most 1.
    Share,
    /// A number, 0 or more.
    Score,
    /// `auto`, or a positive whole number.
    CountOrAuto,
    /// A whole number from `min` to `max`, or `none`.
    CountOrNone { min: u64, max: u64 },
    /// A text that is not empty.
    Name,
    /// An `http://` or `https://` address.
    Url,
    /// A URL, or `none`.
    UrlOrNone,
    /// The name of an environment variable, or `none`.
    EnvName,
    /// A text, or `{ file: PATH }`.
    Prompt,
    /// One of the words in `now`; those in `later` are known and refused.
    Choice { now: &'static [&'static str], later: &'static [&'static str] },
    /// One of the counters, or the path of a `tokenizer.json`.
    Counter,
    /// A duration; `none` where `optional`.
    Time { optional: bool },
    /// A length of time, `none`, or `auto`.
    TimeOrAuto,
    /// A length of time, nought included, or `none`.
    Patience,
    /// A list of texts.
    Names,
    /// A list of built-in tools.
    BuiltinTools,
    /// Texts by name.
    Texts,
    /// Any values by name.
    Json,
    /// `{ type, percentage | triggerTokens }`.
    Trigger,
    /// A list of `{ tool, decision }`.
    Rules,
    /// `{ command, args, env }` or `{ url, headers }` by server name.
    McpServers,
    /// `same`, `extract`, a name, or the keys of `model`.
    SummaryWriter,
    /// A list of `{ name, provider, base_url, api_key_env, headers, cache, timeout, dialects, window, models }`.
    Upstreams,
    /// `{ command | url, timeoutMs }`, or `none`.
    Hook,
    /// `{ window, maxOutput, prices, tools, media, prefill, reasoning_retention }` by model name.
    Models,
    /// An IP address and a port.
    Address,
    /// A path, or `none`.
    PathOrNone,
    /// `COUNT/s`, `COUNT/min`, `COUNT/h`, or `none`.
    RateOrNone,
    /// Host names, with or without a port.
    Hosts,
    /// Origins of web pages.
    Origins,
    /// A path, or the keys of an agent file, by the agent's name.
    Agents,
    /// The kind of database.
    Database,
    /// Known, and nothing but the default is accepted.
    Later,
}

const fn key(path: &'static str, kind: ConfigKeyKind, default: &'static str, doc: &'static str) -> ConfigKey {
    ConfigKey { path, kind, default: Some(default), doc }
}

const fn unset(path: &'static str, kind: ConfigKeyKind, doc: &'static str) -> ConfigKey {
    ConfigKey { path, kind, default: None, doc }
}

const fn later(path: &'static str, default: &'static str, doc: &'static str) -> ConfigKey {
    key(path, ConfigKeyKind::Later, default, doc)
}

const fn up_to(max: u64) -> ConfigKeyKind {
    ConfigKeyKind::Count { min: 1, max }
}

const OWN_OUTPUT: &str = "The longest output of this tool, in characters; tools.maxOutputChars if absent.";

/// Counts of things in memory.
const MANY: u64 = 1_000_000;
/// Tokens and characters.
const LENGTH: u64 = 1_000_000_000;
/// Bytes: one TiB.
const BYTES: u64 = 1 << 40;

const WITH_SUMMARIES: &[StrategyKind] = &[ReactiveOverflow, ProactiveThreshold, Summarization, Adaptive];

const WITH_A_MODEL: &[StrategyKind] =
    &[ReactiveOverflow, ProactiveThreshold, Summarization, PruningAgent, Adaptive];

/// Whose old results are cleared by mark before they act.
const PRUNED_FIRST: &[StrategyKind] =
    &[ReactiveOverflow, ProactiveThreshold, MiddleRemoval, Truncation, Importance, Summarization];

const WITH_CLEARING: &[StrategyKind] =
    &[ReactiveOverflow, ProactiveThreshold, MiddleRemoval, Truncation, Importance, Summarization, Adaptive];

/// The session's own model, as `context.pruningAgent` writes it.
pub(super) const SAME_MODEL: &str = "__same__";

/// Each option, and the strategies that have it.
pub(super) const OPTIONS: &[(&str, &[StrategyKind])] = &[
    ("preserveLastNTurns", &[ReactiveOverflow, Adaptive]),
    ("preserveRatio", &[ProactiveThreshold]),
    ("pruneProtectTokens", WITH_CLEARING),
    ("pruneMinimumTokens", PRUNED_FIRST),
    ("protectedTools", WITH_CLEARING),
    ("maxSummaryTokens", WITH_A_MODEL),
    ("keepTokens", &[MiddleRemoval]),
    ("keepRecent", &[Truncation, Importance, Summarization]),
    ("userMessageScore", &[Importance]),
    ("assistantMessageScore", &[Importance]),
    ("toolUseScore", &[Importance]),
    ("minScoreThreshold", &[Importance]),
    ("summarizeChunkSize", &[Summarization]),
    ("summarizeWith", WITH_SUMMARIES),
    ("summaryTimeout", WITH_A_MODEL),
    ("lowTarget", &[Adaptive]),
    ("tailTokens", &[Adaptive]),
    ("background", &[Adaptive]),
];

/// All keys, in the order of the reference.
pub(super) const KEYS: &[ConfigKey] = &[
    key("name", ConfigKeyKind::Name, "default", "The agent's name."),
    key("systemPrompt", ConfigKeyKind::Prompt, "\"\"", "The system prompt: a text, or { file: PATH }."),
    key(
        "model.provider",
        ConfigKeyKind::Choice { now: ProviderKind::NAMES, later: &[] },
        "openai-compatible",
        "The model's provider: openai (Responses), openai-compatible (Chat Completions; LM Studio, llama.cpp, vLLM … are recognised by what they answer), anthropic, gemini, ollama, or scripted.",
    ),
    key("model.name", ConfigKeyKind::Name, "qwen3-30b", "The model's name on its server."),
    key(
        "model.base_url",
        ConfigKeyKind::Url,
        "\"http://localhost:1234/v1\"",
        "The base URL of the server, including /v1. The default is the provider's own address.",
    ),
    unset(
        "model.api_key_env",
        ConfigKeyKind::EnvName,
        "The environment variable that holds the key. Without one a key is sent only to the provider's own address, from its usual variable.",
    ),
    key(
        "model.context_window",
        ConfigKeyKind::CountOrAuto,
        "auto",
        "The context window in tokens; auto asks the server.",
    ),
    key("model.max_output_tokens", ConfigKeyKind::CountOrAuto, "auto", "The longest answer in tokens."),
    key("model.headers", ConfigKeyKind::Texts, "{}", "HTTP headers added to every request."),
    key("model.body", ConfigKeyKind::Json, "{}", "Fields added to every request's body."),
    key(
        "model.cache",
        ConfigKeyKind::Choice { now: PromptCacheLife::NAMES, later: &[] },
        "auto",
        "The life of Anthropic's prompt cache: 5m, 1h (a cache write costs 2.0 in place of 1.25 input tokens), or auto: 1h if the pauses between the newest requests make it cheaper, else 5m. Other providers offer no choice.",
    ),
    key(
        "model.timeout",
        ConfigKeyKind::TimeOrAuto,
        "auto",
        "The time limit for the first byte of an answer, or none. auto is none for servers on this machine and in private networks, which may read a long prompt for minutes, and 10m for others. A call that exceeds the limit is not repeated.",
    ),
    key("run.maxSteps", up_to(MANY), "100", "The most model calls in one run."),
    key(
        "run.timeout",
        ConfigKeyKind::Time { optional: true },
        "none",
        "The time limit of a run: 90s, 10m, 2h or none.",
    ),
    key(
        "run.parallelTools",
        ConfigKeyKind::Choice { now: ParallelTools::NAMES, later: &[] },
        "auto",
        "Run the tools of one step in parallel: auto (only tools that just read), true or false.",
    ),
    key(
        "run.recovery",
        ConfigKeyKind::Choice { now: Recovery::NAMES, later: &[] },
        "rest",
        "After a crash or a cancel, queued messages wait (rest) or are processed at once (continue).",
    ),
    key("run.queueLimit", up_to(MANY), "100", "The most messages in the queue of a session."),
    key(
        "context.enabled",
        ConfigKeyKind::Flag,
        "true",
        "Prune and compact. With false, tokens are only counted, and an overflow is an error.",
    ),
    key(
        "context.tokenCounter",
        ConfigKeyKind::Counter,
        "auto",
        "The token counter: auto, server, an encoding of OpenAI's, the path of a tokenizer.json, or chars.",
    ),
    key(
        "context.compression.strategy",
        ConfigKeyKind::Choice { now: StrategyKind::NAMES, later: &[] },
        "adaptive",
        "The strategy that makes room: reactive-overflow, proactive-threshold, middle-removal, truncation, importance, summarization, pruning-agent or adaptive.",
    ),
    unset(
        "context.compression.trigger",
        ConfigKeyKind::Trigger,
        "Overrides the strategy's own: { type: overflow|threshold|manual, percentage: 0.8 | triggerTokens: 50000 (256 or more, and above what system prompt and tools have) }; adaptive also has { type: planner }.",
    ),
    key(
        "context.compression.options.preserveLastNTurns",
        up_to(MANY),
        "2",
        "reactive-overflow, adaptive: the number of newest turns that stay unchanged.",
    ),
    key(
        "context.compression.options.preserveRatio",
        ConfigKeyKind::Share,
        "0.3",
        "proactive-threshold: the share of the tokens of the conversation that stays; the newest messages stay.",
    ),
    key(
        "context.compression.options.pruneProtectTokens",
        ConfigKeyKind::Count { min: 0, max: LENGTH },
        "40000",
        "All but pruning-agent: the newest tool output that is never pruned, in tokens.",
    ),
    key(
        "context.compression.options.pruneMinimumTokens",
        ConfigKeyKind::Count { min: 0, max: LENGTH },
        "20000",
        "All but pruning-agent and adaptive: tool output is pruned only if that saves more tokens than this.",
    ),
    key(
        "context.compression.options.protectedTools",
        ConfigKeyKind::Names,
        "[]",
        "All but pruning-agent: tools whose output is never pruned.",
    ),
    unset(
        "context.compression.options.maxSummaryTokens",
        up_to(LENGTH),
        "Strategies that ask a model: the longest summary, in tokens (2000; adaptive: 1500; summarization: 500); at most a sixth of the usable room.",
    ),
    unset(
        "context.compression.options.keepTokens",
        up_to(LENGTH),
        "middle-removal: the size of the request after an edit, in tokens; by default the trigger.",
    ),
    unset(
        "context.compression.options.keepRecent",
        up_to(MANY),
        "truncation, importance, summarization: newest messages that stay (10).",
    ),
    key(
        "context.compression.options.userMessageScore",
        ConfigKeyKind::Score,
        "1.0",
        "importance: the score of a typed message. Messages with the lowest score are dropped first. A message that newer messages refer to by name gains 0.3.",
    ),
    key(
        "context.compression.options.assistantMessageScore",
        ConfigKeyKind::Score,
        "0.6",
        "importance: the score of an answer without tool calls; a very short one has a third of it, a long one a quarter more.",
    ),
    key(
        "context.compression.options.toolUseScore",
        ConfigKeyKind::Score,
        "1.0",
        "importance: the score of a step with tool calls.",
    ),
    key(
        "context.compression.options.minScoreThreshold",
        ConfigKeyKind::Score,
        "0.3",
        "importance: messages with a lower score are dropped at once, even if the rest would fit.",
    ),
    key(
        "context.compression.options.summarizeChunkSize",
        up_to(MANY),
        "20",
        "summarization: messages in one summary.",
    ),
    key(
        "context.compression.options.summarizeWith",
        ConfigKeyKind::SummaryWriter,
        "same",
        "Strategies with summaries: the writer of summaries. same is the session's model; extract uses no model. Or name another agent (its model with its own provider, server and key, from `agents`), name another model of the same server, or give the keys of `model`: { provider: KIND, name: MODEL, base_url: URL, api_key_env: NAME … }.",
    ),
    key(
        "context.compression.options.summaryTimeout",
        ConfigKeyKind::Time { optional: false },
        "5m",
        "Strategies that ask a model: the time limit for a summary. After it an extract takes the summary's place.",
    ),
    key(
        "context.compression.options.lowTarget",
        ConfigKeyKind::Share,
        "0.4",
        "adaptive: what an edit brings the request down to, as a share of the usable room.",
    ),
    key(
        "context.compression.options.tailTokens",
        up_to(LENGTH),
        "6000",
        "adaptive, where prices are known: about how much of the newest part stays, in tokens; an eighth of the room may stay in any case.",
    ),
    key(
        "context.compression.options.background",
        ConfigKeyKind::Flag,
        "true",
        "adaptive: write the summary ahead, while work goes on.",
    ),
    key(
        "context.userTextShare",
        ConfigKeyKind::Share,
        "0.5",
        "The share of the remaining room that quotes of the user may take after a compaction. They take at most a quarter of the trigger.",
    ),
    key(
        "context.autoRecall",
        ConfigKeyKind::Flag,
        "false",
        "After a compaction, append the passages that the newest message refers to.",
    ),
    key(
        "context.pruningAgent",
        ConfigKeyKind::Name,
        SAME_MODEL,
        "pruning-agent (the gateway's strategy if this is set and no strategy is): the model that prunes: __same__ (the one that is talked to), that of another agent by its name, or another model of the same server by name.",
    ),
    key(
        "hooks.preCompact",
        ConfigKeyKind::Hook,
        "none",
        "Runs before a compaction and may cancel or steer it. Each hook: { command: LINE } (JSON on stdin and stdout) or { url: ADDRESS } (POST), with timeoutMs: 10000; or none.",
    ),
    key(
        "hooks.preToolUse",
        ConfigKeyKind::Hook,
        "none",
        "Runs before a tool call and may deny it or change its arguments.",
    ),
    key(
        "hooks.postToolUse",
        ConfigKeyKind::Hook,
        "none",
        "Runs after a tool call and may add text to the result.",
    ),
    key(
        "hooks.userPromptSubmit",
        ConfigKeyKind::Hook,
        "none",
        "Runs when a message arrives and may refuse it or add text to it.",
    ),
    unset(
        "tools.enabled",
        ConfigKeyKind::BuiltinTools,
        "The built-in tools of the model: any of read, bash, edit, write, grep, glob, ls; all if absent. recall is always there. In windows below 16,000 tokens glob and ls are offered only if this list names them.",
    ),
    key(
        "tools.disabled",
        ConfigKeyKind::BuiltinTools,
        "[]",
        "Built-in tools that the model does not get. Without recall, the model cannot reach content that has left the view.",
    ),
    key(
        "tools.deferAbove",
        ConfigKeyKind::Share,
        "0.1",
        "The share of the window above which MCP tools are deferred. If all tools together take more, the model finds MCP tools with tool_search and calls them with tool_call. Decided once for a session.",
    ),
    key(
        "tools.maxOutputChars",
        up_to(LENGTH),
        "120000",
        "The longest output of any tool, in characters. tools.NAME.maxOutputChars is that of one tool, also of an MCP server's: SERVER__TOOL or mcp__SERVER__TOOL.",
    ),
    key(
        "tools.bash.maxOutputChars",
        up_to(LENGTH),
        "30000",
        "The longest output of a command, in characters.",
    ),
    key("tools.bash.timeoutMs", up_to(86_400_000), "120000", "How long a command may take, in milliseconds."),
    unset("tools.read.maxOutputChars", up_to(LENGTH), OWN_OUTPUT),
    key("tools.read.maxLines", up_to(LENGTH), "2000", "Lines of a file read at once."),
    key("tools.read.maxLineLength", up_to(LENGTH), "2000", "The longest line shown, in characters."),
    unset("tools.grep.maxOutputChars", up_to(LENGTH), OWN_OUTPUT),
    key("tools.grep.maxMatches", up_to(LENGTH), "1000", "Matches shown."),
    unset("tools.edit.maxOutputChars", up_to(LENGTH), OWN_OUTPUT),
    unset("tools.write.maxOutputChars", up_to(LENGTH), OWN_OUTPUT),
    unset("tools.glob.maxOutputChars", up_to(LENGTH), OWN_OUTPUT),
    unset("tools.ls.maxOutputChars", up_to(LENGTH), OWN_OUTPUT),
    unset("tools.recall.maxOutputChars", up_to(LENGTH), OWN_OUTPUT),
    key(
        "sandbox.network",
        ConfigKeyKind::Choice { now: NetworkAccess::NAMES, later: &[] },
        "allow",
        "Network access of the agent's commands, command hooks and MCP programs: allow or deny. With deny they can open no socket, UNIX sockets included. An MCP program may have its own `network`.",
    ),
    key(
        "sandbox.limits.cpuSeconds",
        ConfigKeyKind::CountOrNone { min: 1, max: LENGTH },
        "14400",
        "Processor time that one process of a command may use, in seconds, or none. MCP programs have no such limit. All limits hold on Linux.",
    ),
    key(
        "sandbox.limits.memoryBytes",
        ConfigKeyKind::CountOrNone { min: 64 << 20, max: BYTES },
        "17179869184",
        "Memory that one process may fill, in bytes, or none.",
    ),
    key(
        "sandbox.limits.fileBytes",
        ConfigKeyKind::CountOrNone { min: 1, max: BYTES },
        "17179869184",
        "The largest file that a process may write, in bytes, or none.",
    ),
    key(
        "sandbox.limits.processes",
        ConfigKeyKind::CountOrNone { min: 1, max: LENGTH },
        "4096",
        "Processes and threads that may be added to those of the machine, or none. The kernel does not hold root to it.",
    ),
    key(
        "sandbox.limits.openFiles",
        ConfigKeyKind::CountOrNone { min: 64, max: LENGTH },
        "65536",
        "Files that one process may have open, or none.",
    ),
    key(
        "blobs.maxBytes",
        up_to(BYTES),
        "67108864",
        "The largest output or file that is kept whole, in bytes.",
    ),
    key("blobs.sessionQuotaBytes", up_to(BYTES), "2147483648", "What one session may keep, in bytes."),
    later("blobs.store", "local", "Where outputs and files are kept."),
    key(
        "approvals.rules",
        ConfigKeyKind::Rules,
        "[]",
        "The first matching rule decides: { tool: GLOB, match: { ARGUMENT: PATTERN }, decision: allow|ask|deny }. Without `match` a rule matches every call. In a pattern `*` is any text and `?` one character; the pattern must match the whole argument. A rule that allows does not match an argument with shell characters (; & | < > ` $ ( ) { } \\ or a line break) or `..` in a path that the pattern does not contain: { tool: bash, match: { command: \"git status*\" }, decision: allow }.",
    ),
    key(
        "approvals.timeout",
        ConfigKeyKind::Time { optional: true },
        "10m",
        "The time limit of an approval request. After it the call is denied.",
    ),
    key(
        "mcpServers",
        ConfigKeyKind::McpServers,
        "{}",
        "MCP servers that add tools, by name: { command, args, env, network: allow|deny } or { url, headers }; both take timeoutMs: 120000, optional: false (an optional server is waited for no longer than timeoutMs at the start) and tools: { allow: [], deny: [] } (names as the server writes them, * for any characters; an empty allow is all).",
    ),
    key(
        "retry.patience",
        ConfigKeyKind::Patience,
        "30m",
        "The longest outage of the model's server (no connection, 429, 5xx) that is waited out, or none for no limit. 0s does not wait.",
    ),
    key(
        "retry.maxDelay",
        ConfigKeyKind::Time { optional: false },
        "60s",
        "The longest wait between two attempts, unless the server asks for more. The wait doubles from 1 s.",
    ),
    key(
        "retry.streamAttempts",
        ConfigKeyKind::Count { min: 0, max: 100 },
        "5",
        "The most repetitions of one step after a broken answer.",
    ),
    key(
        "models",
        ConfigKeyKind::Models,
        "{}",
        "Properties of models by name. They take precedence over the server and the catalogue: { window: TOKENS, maxOutput: TOKENS, prices: { input: USD, cachedInput: USD, cacheWrite: USD, output: USD } per million tokens, tools: true, media: [images, files], prefill: false, reasoning_retention: never|turn|always }. With `prefill: true`, an answer that reaches the end of the window is paused, room is made, and the answer continues.",
    ),
    key(
        "gateway.noticesInText",
        ConfigKeyKind::Flag,
        "false",
        "Add notices to the answer's text, as separate paragraphs, when a conversation is shortened or an answer is stopped for it. Stream comments and headers carry the notices in any case. Notices that a client sends back are removed.",
    ),
    key(
        "gateway.recall",
        ConfigKeyKind::Choice { now: GatewayRecall::NAMES, later: &[] },
        "off",
        "Access of the model to content that has left the view. off: none, the model has only the client's tools. inject: the model gets the tool `recall` once something is left out, and the client does not see these calls.",
    ),
    key(
        "gateway.deferTools",
        ConfigKeyKind::Choice { now: GatewayDeferTools::NAMES, later: &[] },
        "auto",
        "Deferral of the client's tools if they take more than a quarter of the window. auto: the model gets as many tools as fit an eighth of the window, finds the others with tool_search (hidden from the client) and calls them with tool_call (which the client sees as a call of its own tool). off: all tools are sent.",
    ),
    key(
        "gateway.midstream",
        ConfigKeyKind::Choice { now: GatewayMidstream::NAMES, later: &[] },
        "exact",
        "Handling of an answer that outgrows the window. exact: the answer is stopped, room is made, and it continues in the same stream, if the server can continue it exactly. best-effort: other models are asked to continue, repeated text is removed, and the answer is labelled approximate. off: the answer ends.",
    ),
    key(
        "gateway.auth",
        ConfigKeyKind::Choice { now: GatewayAuth::NAMES, later: &[] },
        "open-on-loopback",
        "Access to the gateway without the server's token. open-on-loopback: programs on this machine. token: no access.",
    ),
    key(
        "gateway.credentials",
        ConfigKeyKind::Choice { now: GatewayCredentials::NAMES, later: &[] },
        "own",
        "The key that the model's server gets. own: the key of this file. forward: the caller's key.",
    ),
    key(
        "gateway.upstreams",
        ConfigKeyKind::Upstreams,
        "[]",
        "Servers behind the gateway in order of preference, before the server of `model`: { name: NAME, provider: openai-compatible, base_url: URL, api_key_env: NAME, headers: { NAME: TEXT }, cache: auto|5m|1h, timeout: 10m, dialects: [chat, responses, messages], window: TOKENS, models: { NAME: { model: NAME AT THE SERVER, window: TOKENS, maxOutput: TOKENS, tools: true, media: [images, files], prefill: false, reasoning_retention: never|turn|always } } }. Without `models` a server accepts any name. Without `dialects` it gets the wires of its kind. If several servers have a model, the next one is asked when the first cannot be reached, is out of requests (429) or fails (5xx) before its answer begins.",
    ),
    key(
        "server.addr",
        ConfigKeyKind::Address,
        "\"127.0.0.1:4400\"",
        "The address on which the server listens. An address beyond this machine needs tokenFile.",
    ),
    key("server.db", ConfigKeyKind::Database, "sqlite", "The database: sqlite, in the data folder."),
    key(
        "server.tokenFile",
        ConfigKeyKind::PathOrNone,
        "none",
        "The file with the server's token. none: a file in the data folder, created if missing.",
    ),
    key(
        "server.allowedHosts",
        ConfigKeyKind::Hosts,
        "[]",
        "Host names that the server accepts besides those of this machine: [box.lan].",
    ),
    key(
        "server.allowedOrigins",
        ConfigKeyKind::Origins,
        "[]",
        "Origins of web pages that may send requests, besides the server's own: [\"https://example.org\"].",
    ),
    key("server.maxBodyBytes", up_to(BYTES), "33554432", "The largest request, in bytes."),
    key(
        "server.rateLimit",
        ConfigKeyKind::RateOrNone,
        "none",
        "The rate limit of one client: 120/min (s, min or h) allows a burst of 120 and 120 more in each minute. none: no limit.",
    ),
    key(
        "server.keepSessions",
        ConfigKeyKind::Time { optional: true },
        "none",
        "The age at which sessions are deleted for good, measured from their last event: 90d. Sessions that run, wait or are open are never deleted. none: all are kept.",
    ),
    key(
        "telemetry.otlp",
        ConfigKeyKind::UrlOrNone,
        "none",
        "The OpenTelemetry collector for spans and metrics, by OTLP over HTTP: http://localhost:4318.",
    ),
    key(
        "telemetry.content",
        ConfigKeyKind::Flag,
        "false",
        "Include content in spans: prompts, answers, arguments and results of tools.",
    ),
    key(
        "agents",
        ConfigKeyKind::Agents,
        "{}",
        "More agents for sessions of the server, by name: { NAME: PATH }, or the keys of an agent file in place of a path. They inherit nothing from this file.",
    ),
];

/// Returns the key at a path.
pub(super) fn at(path: &str) -> Option<&'static ConfigKey> {
    KEYS.iter().find(|key| key.path == path)
}

/// Returns the one of `names` that `given` spells, in its own or in the other spelling.
pub(super) fn spelled<'n>(given: &str, names: &[&'n str]) -> Option<&'n str> {
    names.iter().find(|name| is_spelling_of(given, name)).copied()
}

/// Returns the names directly inside a section, in order; the top has the empty path.
pub(super) fn children(section: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for key in KEYS {
        let inside = match section {
            "" => Some(key.path),
            _ => key.path.strip_prefix(section).and_then(|rest| rest.strip_prefix('.')),
        };
        let name = inside.and_then(|rest| rest.split('.').next());
        // The order of the reference must stay, and a set would lose it.
        names.extend(name.filter(|name| !names.contains(name)));
    }
    names
}
