use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::keys::{ConfigKeyKind, KEYS};
use super::*;

/// The file as the specification prints it.
const AS_SPECIFIED: &str = r#"
name: default
systemPrompt: ""
model: { provider: openai-compatible, name: qwen3-30b, base_url: "http://localhost:1234/v1", api_key_env: none, context_window: auto, max_output_tokens: auto, headers: {}, body: {} }
run: { maxSteps: 100, timeout: none, parallelTools: auto, recovery: rest, queueLimit: 100 }
context:
  enabled: true
  tokenCounter: auto
  compression: { strategy: adaptive, options: { preserveLastNTurns: 2, pruneProtectTokens: 40000, pruneMinimumTokens: 20000, protectedTools: [] } }
  userTextShare: 0.5
  autoRecall: false
  pruningAgent: __same__
hooks: { preCompact: none, preToolUse: none, postToolUse: none, userPromptSubmit: none }
tools: { maxOutputChars: 120000, bash: { maxOutputChars: 30000, timeoutMs: 120000 }, read: { maxLines: 2000, maxLineLength: 2000 }, grep: { maxMatches: 1000 }, deferAbove: 0.1 }
blobs: { maxBytes: 67108864, sessionQuotaBytes: 2147483648, store: local }
approvals: { rules: [], timeout: 10m }
mcpServers: {}
retry: { patience: 30m, maxDelay: 60s, streamAttempts: 5 }
models: {}
gateway: { noticesInText: false, recall: off, midstream: exact, auth: open-on-loopback, credentials: own, deferTools: auto, upstreams: [] }
server: { addr: "127.0.0.1:4400", db: sqlite, tokenFile: none, allowedHosts: [], allowedOrigins: [], maxBodyBytes: 33554432, rateLimit: none, keepSessions: none }
telemetry: { otlp: none, content: false }
agents: {}
"#;

fn parse(text: &str) -> AgentConfig {
    AgentConfig::parse(text, "longhaul.yml").unwrap_or_else(|error| panic!("{error}"))
}

fn errors(text: &str) -> String {
    AgentConfig::parse(text, "longhaul.yml").expect_err("the file should be refused").to_string()
}

#[test]
fn defaults_are_those_of_the_specification() {
    let config = AgentConfig::default();
    assert_eq!(config, parse(AS_SPECIFIED));
    assert_eq!(config, parse(""));
    assert_eq!(config.name, "default");
    assert_eq!(config.system_prompt, SystemPrompt::Text(String::new()));
    assert_eq!(config.model.provider, ProviderKind::OpenaiCompatible);
    assert_eq!(config.model.base_url, "http://localhost:1234/v1");
    assert_eq!(config.model.api_key_env, None);
    assert_eq!((config.model.context_window, config.model.max_output_tokens), (None, None));
    assert_eq!((config.run.max_steps, config.run.timeout, config.run.queue_limit), (100, None, 100));
    assert_eq!(config.run.parallel_tools, ParallelTools::Auto);
    assert_eq!(config.run.recovery, Recovery::Rest);
    assert_eq!(config.telemetry, TelemetryConfig { otlp: None, content: false });
    let compression = &config.context.compression;
    assert!(config.context.enabled);
    assert_eq!((compression.strategy, compression.trigger), (StrategyKind::Adaptive, None));
    let options = &compression.options;
    assert_eq!((options.preserve_last_n_turns, options.max_summary_tokens), (2, 1_500));
    assert_eq!((options.prune_protect_tokens, options.prune_minimum_tokens), (40_000, 20_000));
    assert_eq!((options.keep_tokens, options.keep_recent), (None, 10));
    let tools = (&config.tools.enabled, &config.tools.disabled, config.tools.max_output_chars);
    assert_eq!(tools, (&None, &Vec::new(), 120_000));
    assert_eq!(config.tools.output_limits, BTreeMap::from([("bash".to_owned(), 30_000)]));
    assert_eq!(config.tools.bash_timeout, Duration::from_secs(120));
    assert_eq!((config.tools.read_max_lines, config.tools.read_max_line_length), (2_000, 2_000));
    assert_eq!(config.tools.grep_max_matches, 1_000);
    assert_eq!((config.blobs.max_bytes, config.blobs.session_quota_bytes), (64 << 20, 2 << 30));
    assert_eq!(config.approvals.timeout, Some(Duration::from_secs(600)));
    assert_eq!(
        (config.retry.patience, config.retry.max_delay, config.retry.stream_attempts),
        (Some(Duration::from_secs(30 * 60)), Duration::from_secs(60), 5)
    );
    assert_eq!(config.model.timeout, FirstByteTimeout::Auto);
}

#[test]
fn the_reference_names_every_key_and_parses_to_the_default() {
    let reference = AgentConfig::reference();
    assert_eq!(parse(&reference), AgentConfig::default());
    for key in KEYS {
        let name = key.path.rsplit('.').next().unwrap_or_default();
        assert!(reference.contains(&format!("{name}:")), "{} is missing", key.path);
    }
}

/// The file that sets one key to `value`.
fn only(path: &str, value: &str) -> String {
    let depth = path.matches('.').count();
    format!("{}: {value}{}", path.replace('.', ": { "), " }".repeat(depth))
}

fn another_value(key: &keys::ConfigKey) -> String {
    match &key.kind {
        ConfigKeyKind::Flag => (key.default != Some("true")).to_string(),
        ConfigKeyKind::Count { .. } | ConfigKeyKind::CountOrAuto => "77".into(),
        ConfigKeyKind::CountOrNone { .. } => "99999999".into(),
        ConfigKeyKind::Share | ConfigKeyKind::Score => "0.77".into(),
        ConfigKeyKind::Name | ConfigKeyKind::Prompt => "other".into(),
        ConfigKeyKind::Url | ConfigKeyKind::UrlOrNone => "https://example.org/v1".into(),
        ConfigKeyKind::EnvName => "OTHER_KEY".into(),
        ConfigKeyKind::Counter => "./tokenizer.json".into(),
        ConfigKeyKind::Choice { now, .. } => {
            let other = now.iter().rev().find(|name| Some(**name) != key.default);
            other.copied().unwrap_or_default().into()
        }
        ConfigKeyKind::Time { .. } | ConfigKeyKind::TimeOrAuto | ConfigKeyKind::Patience => "90s".into(),
        ConfigKeyKind::Names | ConfigKeyKind::BuiltinTools => "[read]".into(),
        ConfigKeyKind::Texts | ConfigKeyKind::Json => "{ a: b }".into(),
        ConfigKeyKind::Trigger => "{ percentage: 0.5 }".into(),
        ConfigKeyKind::Rules => "[{ tool: bash, decision: deny }]".into(),
        ConfigKeyKind::McpServers => "{ files: { command: mcp-files } }".into(),
        ConfigKeyKind::Hook => "{ command: ./hook }".into(),
        ConfigKeyKind::Models => "{ m: { window: 8192 } }".into(),
        ConfigKeyKind::SummaryWriter => "other".into(),
        ConfigKeyKind::Upstreams => "[{ name: box, base_url: 'http://box:8000/v1' }]".into(),
        ConfigKeyKind::Address => "127.0.0.1:9".into(),
        ConfigKeyKind::PathOrNone => "token.txt".into(),
        ConfigKeyKind::RateOrNone => "5/s".into(),
        ConfigKeyKind::Hosts => "[box.lan]".into(),
        ConfigKeyKind::Origins => "['https://example.org']".into(),
        ConfigKeyKind::Agents => "{ helper: ./helper.yml }".into(),
        ConfigKeyKind::Database => "'postgres://user:secret@host/db'".into(),
        ConfigKeyKind::Later => "{ something: else }".into(),
    }
}

/// The file with a strategy and one of its options.
fn with_option(strategy: StrategyKind, option: &str, value: &str) -> String {
    let options = format!("{{ {option}: {value} }}");
    format!("context: {{ compression: {{ strategy: {}, options: {options} }} }}", strategy.as_str())
}

#[test]
fn every_key_is_heard_or_refused_by_name() {
    for key in KEYS {
        let name = key.path.rsplit('.').next().unwrap_or_default();
        if keys::OPTIONS.iter().any(|(option, _)| *option == name) || name == "pruningAgent" {
            continue;
        }
        let text = only(key.path, &another_value(key));
        if matches!(key.kind, ConfigKeyKind::Later | ConfigKeyKind::Database) {
            let error = errors(&text);
            assert!(!error.contains("secret"), "{error}");
            let why = if matches!(key.kind, ConfigKeyKind::Database) {
                "`longhaul serve --db"
            } else {
                "not available yet"
            };
            assert!(error.contains(key.path) && error.contains(why), "{}: {error}", key.path);
        } else {
            assert_ne!(parse(&text), AgentConfig::default(), "{} changes nothing", key.path);
        }
    }
}

fn strategies() -> impl Iterator<Item = StrategyKind> {
    StrategyKind::NAMES.iter().filter_map(|name| StrategyKind::from_name(name))
}

#[test]
fn every_strategy_of_the_core_is_a_choice() {
    assert_eq!(StrategyKind::NAMES, longhaul_core::strategy::NAMES);
    for strategy in strategies() {
        let config = parse(&only("context.compression.strategy", strategy.as_str()));
        assert_eq!(config.context.compression.strategy, strategy);
    }
}

#[test]
fn every_option_is_heard_by_its_strategies_and_refused_with_others() {
    let listed = KEYS.iter().filter(|key| key.path.starts_with("context.compression.options."));
    assert_eq!(listed.clone().count(), keys::OPTIONS.len());
    for key in listed {
        let name = key.path.rsplit('.').next().unwrap_or_default();
        let (_, owners) = keys::OPTIONS.iter().find(|(option, _)| *option == name).unwrap();
        for strategy in strategies() {
            let text = with_option(strategy, name, &another_value(key));
            let plain = parse(&only("context.compression.strategy", strategy.as_str()));
            if owners.contains(&strategy) {
                assert_ne!(parse(&text), plain, "{text} changes nothing");
            } else {
                let error = errors(&text);
                let refused = format!("`{}` is an option of {}", key.path, owners[0].as_str());
                assert!(error.contains(&refused), "{error}");
                assert!(error.ends_with(&format!("not of {}", strategy.as_str())), "{error}");
                let says_so = key.default.map(|default| with_option(strategy, name, default));
                assert!(
                    says_so.is_none_or(|text| parse(&text) == plain),
                    "{name}: what holds anyway may be said"
                );
            }
        }
    }
}

#[test]
fn options_arrive_typed() {
    let options = |text: &str| parse(text).context.compression.options;
    let plain = options("");
    assert_eq!((plain.preserve_ratio, plain.low_target, plain.background), (0.3, 0.4, true));
    assert_eq!(plain.tail_tokens, 6_000);
    assert_eq!((plain.user_message_score, plain.assistant_message_score), (1.0, 0.6));
    assert_eq!((plain.tool_use_score, plain.min_score_threshold), (1.0, 0.3));
    assert_eq!((plain.summarize_chunk_size, &plain.summarize_with), (20, &SummaryWriter::Same));
    assert_eq!(plain.summary_timeout, Duration::from_secs(300));
    for strategy in strategies() {
        let own = options(&only("context.compression.strategy", strategy.as_str()));
        let longest = match strategy {
            StrategyKind::Summarization => 500,
            StrategyKind::Adaptive => 1_500,
            _ => 2_000,
        };
        assert_eq!((own.max_summary_tokens, own.keep_recent), (longest, 10), "{}", strategy.as_str());
    }
    let adaptive = |option: &str, value: &str| options(&with_option(StrategyKind::Adaptive, option, value));
    assert_eq!(adaptive("summarizeWith", "extract").summarize_with, SummaryWriter::Extract);
    assert_eq!(adaptive("summarizeWith", "small").summarize_with, SummaryWriter::Model("small".into()));
    let own = "{ provider: anthropic, name: haiku, api_key_env: KEY_NAME, context_window: 9000, headers: { a: b } }";
    let SummaryWriter::Own(own) = adaptive("summarizeWith", own).summarize_with else { panic!("no model") };
    assert_eq!((own.provider, own.name.as_str()), (ProviderKind::Anthropic, "haiku"));
    assert_eq!(own.base_url, ProviderKind::Anthropic.base_url());
    assert_eq!((own.api_key_env.as_deref(), own.context_window), (Some("KEY_NAME"), Some(9_000)));
    assert_eq!((own.max_output_tokens, own.headers["a"].as_str()), (None, "b"));
    assert_eq!(adaptive("lowTarget", "1").low_target, 1.0);
    assert_eq!(adaptive("tailTokens", "20000").tail_tokens, 20_000);
    assert!(!adaptive("background", "false").background);
    let importance = |value| options(&with_option(StrategyKind::Importance, "toolUseScore", value));
    assert_eq!([importance("0"), importance("2.5")].map(|it| it.tool_use_score), [0.0, 2.5]);
    // One number, however it is written.
    assert_eq!(options("context: { compression: { options: { userMessageScore: 1 } } }"), plain);
}

#[test]
fn an_agent_prunes_only_where_it_is_asked() {
    let agent = |value: &str| {
        parse(&format!("context: {{ compression: {{ strategy: pruning-agent }}, pruningAgent: {value} }}"))
            .context
            .pruning_agent
    };
    assert_eq!((agent("small"), agent("__same__")), (Some("small".to_owned()), None));
    // Alone it is the gateway's: sessions have another strategy.
    for (value, model) in [("__same__", None), ("small", Some("small"))] {
        let context = parse(&format!("context: {{ pruningAgent: {value} }}")).context;
        assert_eq!((context.pruning_agent.as_deref(), context.pruning_agent_alone), (model, true));
        assert_eq!(context.compression.strategy, StrategyKind::Adaptive);
    }
    assert!(!parse("context: { compression: { strategy: pruning-agent } }").context.pruning_agent_alone);
    let other = "context: { compression: { strategy: adaptive }, pruningAgent: small }";
    insta::assert_snapshot!(errors(other), @"longhaul.yml:1:63: `context.pruningAgent` with another strategy than pruning-agent is not available yet in this version");
}

#[test]
fn the_server_listens_where_it_is_told_and_answers_whom_it_is_told() {
    let server = parse(
        "server: { addr: '[::]:8080', db: sqlite, tokenFile: /etc/longhaul/token, allowedHosts: [box.lan, 'box.lan:4400'], \
         allowedOrigins: ['https://example.org'], maxBodyBytes: 4096, rateLimit: 120/min, keepSessions: 90d }",
    )
    .server;
    assert_eq!(server.addr.to_string(), "[::]:8080");
    assert_eq!(server.token_file.as_deref(), Some("/etc/longhaul/token"));
    assert_eq!(server.allowed_hosts, ["box.lan", "box.lan:4400"]);
    assert_eq!(
        (server.allowed_origins, server.max_body_bytes),
        (vec!["https://example.org".to_owned()], 4_096)
    );
    assert_eq!(server.keep_sessions, Some(Duration::from_secs(90 * 24 * 60 * 60)));
    let rate = |text: &str| parse(&format!("server: {{ rateLimit: {text} }}")).server.rate_limit;
    let of = |requests, seconds| Some(RateLimit { requests, per: Duration::from_secs(seconds) });
    assert_eq!(server.rate_limit, of(120, 60));
    assert_eq!((rate("5 / s"), rate("\"9/h\""), rate("none")), (of(5, 1), of(9, 3_600), None));
    for wrong in ["0/min", "120", "-1/s", "x/s", "5/day", "/s"] {
        assert!(errors(&format!("server: {{ rateLimit: '{wrong}' }}")).contains("120/min"), "{wrong}");
    }
    insta::assert_snapshot!(errors(
        "server:
  addr: localhost
  db: mysql
  tokenFile: []
  allowedHosts: [https://box.lan/]
  allowedOrigins: [https://example.org, '*']
  maxBodyBytes: 0
  rateLimit: 60
",
    ), @"
    longhaul.yml:2:9: `server.addr` must be an IP address and a port such as 127.0.0.1:4400, not `localhost`
    longhaul.yml:3:7: `server.db` must be sqlite, not `mysql`
    longhaul.yml:4:14: `server.tokenFile` must be the path of a file, or none, not a list
    longhaul.yml:5:18: `server.allowedHosts[0]` must be a host name such as box.lan or box.lan:4400, not `https://box.lan/`
    longhaul.yml:6:41: `server.allowedOrigins[1]` must be an origin such as https://example.org, not `*`
    longhaul.yml:7:17: `server.maxBodyBytes` must be a whole number from 1 to 1099511627776, not 0
    longhaul.yml:8:14: `server.rateLimit` must be a rate such as 120/min (s, min or h), or none, not 60
    ");
}

#[test]
fn values_arrive_typed() {
    let config = parse(
        "systemPrompt: { file: prompt.md }
model: { provider: scripted, context_window: 8192, api_key_env: none, headers: { X-Team: a }, body: { top_k: 20, nested: [1, { a: null }] } }
run: { timeout: 2h, parallelTools: true, recovery: continue }
context:
  compression:
    strategy: middle-removal
    trigger: { type: threshold, triggerTokens: 50000 }
    options: { keepTokens: 9000, protectedTools: [recall, read] }
approvals:
  timeout: none
  rules:
    - { tool: bash, decision: allow }
    - { tool: 'mcp_*', decision: deny }
models: { qwen3-30b: { window: 32768, maxOutput: 4096 } }
",
    );
    assert_eq!(config.system_prompt, SystemPrompt::File("prompt.md".into()));
    let resolved = config.system_prompt.resolve(|path| Ok::<_, ()>(format!("content of {path}")));
    assert_eq!(resolved.as_deref(), Ok("content of prompt.md"));
    assert_eq!(config.model.provider, ProviderKind::Scripted);
    assert_eq!((config.model.context_window, config.model.api_key_env), (Some(8192), None));
    assert_eq!(config.model.headers["X-Team"], "a");
    assert_eq!(
        serde_json::Value::Object(config.model.body).to_string(),
        r#"{"top_k":20,"nested":[1,{"a":null}]}"#
    );
    assert_eq!(config.run.timeout, Some(Duration::from_secs(7200)));
    assert_eq!((config.run.parallel_tools, config.run.recovery), (ParallelTools::Always, Recovery::Continue));
    assert_eq!(config.context.compression.trigger, Some(TriggerConfig::Tokens(50_000)));
    assert_eq!(config.context.compression.options.keep_tokens, Some(9_000));
    assert_eq!(config.context.compression.options.protected_tools, ["recall", "read"]);
    assert_eq!(config.approvals.timeout, None);
    let rules: Vec<_> =
        config.approvals.rules.iter().map(|rule| (rule.tool.as_str(), rule.decision)).collect();
    assert_eq!(rules, [("bash", Decision::Allow), ("mcp_*", Decision::Deny)]);
    let expected = ModelLimits { window: Some(32_768), max_output: Some(4_096), ..ModelLimits::default() };
    assert_eq!(config.models["qwen3-30b"], expected);
}

#[test]
fn what_is_declared_of_models_arrives_typed() {
    let config = parse(
        "models:
  qwen3-30b: { window: 32768, tools: true, media: [images], prefill: true, reasoning_retention: turn }
  'gpt-5.4':
    prices: { input: 2.5, cachedInput: 0.25, cacheWrite: 0, output: 15 }
    media: []
  local: { prices: { input: 0, output: 0 } }
",
    );
    let [qwen, gpt, local] = ["qwen3-30b", "gpt-5.4", "local"].map(|name| config.models[name]);
    assert_eq!((qwen.window, qwen.tools, qwen.prefill), (Some(32_768), Some(true), Some(true)));
    assert_eq!((qwen.images, qwen.files), (Some(true), Some(false)), "what is not listed is not taken");
    assert_eq!((qwen.reasoning_retention, qwen.prices), (Some(ReasoningRetention::Turn), None));
    assert_eq!((gpt.images, gpt.files, gpt.window), (Some(false), Some(false), None));
    let prices = ModelPrices { input: 2.5, cached_input: Some(0.25), cache_write: Some(0.0), output: 15.0 };
    assert_eq!(gpt.prices, Some(prices));
    assert_eq!(
        (local.images, local.files, local.prices.map(|prices| prices.output)),
        (None, None, Some(0.0))
    );
}

#[test]
fn mistakes_in_models_are_told_with_their_places() {
    insta::assert_snapshot!(errors(
        "models:
  a: { windw: 8192, maxOutput: 0, tools: 1, prefill: maybe }
  b: { prices: { input: -1, outputs: 3 }, media: [image, video], reasoning_retention: allways }
  c: { prices: 3, media: images, reasoning_retention: [turn] }
  d: 8192
"
    ), @r"
    longhaul.yml:2:8: unknown key `windw` in `models.a`: did you mean `window`?
    longhaul.yml:2:32: `models.a.maxOutput` must be a whole number of tokens above 0, not 0
    longhaul.yml:2:42: `models.a.tools` must be true or false, not 1
    longhaul.yml:2:54: `models.a.prefill` must be true or false, not `maybe`
    longhaul.yml:3:16: `models.b.prices` needs `output`
    longhaul.yml:3:25: `models.b.prices.input` must be US dollars per million tokens, 0 or more, not -1
    longhaul.yml:3:29: unknown key `outputs` in `models.b.prices`: did you mean `output`?
    longhaul.yml:3:51: `models.b.media` cannot be `image`: did you mean `images`?
    longhaul.yml:3:58: `models.b.media` cannot be `video`: the choices are images, files
    longhaul.yml:3:87: `models.b.reasoning_retention` cannot be `allways`: did you mean `always`?
    longhaul.yml:4:16: `models.c.prices` must be { input: USD, cachedInput: USD, cacheWrite: USD, output: USD }, per million tokens, not 3
    longhaul.yml:4:26: `models.c.media` must be a list of images and files; [] for neither, not `images`, which is not a list
    longhaul.yml:4:55: `models.c.reasoning_retention` cannot be `a list`: the choices are never, turn, always
    longhaul.yml:5:6: `models.d` must be { window: TOKENS, maxOutput: TOKENS, prices, tools, media … }, not 8192
    ");
}

#[test]
fn triggers() {
    let trigger = |text: &str| parse(&only("context.compression.trigger", text)).context.compression.trigger;
    assert_eq!(trigger("{ type: overflow }"), Some(TriggerConfig::Overflow));
    assert_eq!(trigger("{ type: manual }"), Some(TriggerConfig::Manual));
    assert_eq!(trigger("{ percentage: 1 }"), Some(TriggerConfig::Share(1.0)));
    assert_eq!(trigger("{ type: threshold, percentage: 0.8 }"), Some(TriggerConfig::Share(0.8)));
    assert_eq!(trigger("{ triggerTokens: 256 }"), Some(TriggerConfig::Tokens(256)));
    let adaptive = parse("context: { compression: { strategy: adaptive, trigger: { type: planner } } }");
    assert_eq!(adaptive.context.compression.trigger, Some(TriggerConfig::Planner));
}

#[test]
fn both_spellings_of_a_key_are_one_key() {
    let usual = "model: { base_url: 'http://box/v1', api_key_env: BOX_KEY }
run: { maxSteps: 7 }
models: { my_model: { maxOutput: 900, reasoning_retention: turn } }
mcpServers: { files: { command: files, env: { baseUrl: a, base_url: b }, timeoutMs: 5 } }
context: { compression: { strategy: truncation, options: { keepRecent: 3 } } }
approvals: { rules: [{ tool: read, decision: allow }] }";
    let other = usual
        .replace("base_url: 'http", "baseUrl: 'http")
        .replace("api_key_env", "apiKeyEnv")
        .replace("maxSteps", "max_steps")
        .replace("maxOutput", "max_output")
        .replace("reasoning_retention", "reasoningRetention")
        .replace("mcpServers", "mcp_servers")
        .replace("timeoutMs", "timeout_ms")
        .replace("keepRecent", "keep_recent");
    assert_eq!(parse(usual), parse(&other));
    // Names that the user gives are not keys: both variables stay.
    assert_eq!(parse(&other).mcp_servers, parse(usual).mcp_servers);
    let (written, other) = (AgentConfig::written(usual), AgentConfig::written(&other));
    let known = |key: &&String| KEYS.iter().any(|known| known.path == **key);
    let known_keys: Vec<_> = written.iter().filter(known).collect();
    assert_eq!(known_keys, other.iter().filter(known).collect::<Vec<_>>());
    assert!(written.contains("run.maxSteps") && other.contains("run.maxSteps"));
    assert_eq!(
        errors("run: { maxSteps: 5, max_steps: 6 }\nmodel: { max_steps: 0 }"),
        "longhaul.yml:1:21: `run` has `maxSteps` and `max_steps`, which are one key\n\
         longhaul.yml:2:10: unknown key `max_steps` in `model`: did you mean `run.maxSteps`?"
    );
    assert!(errors("run: { max_steps: 0 }").contains("`run.maxSteps` must be a whole number"));
}

#[test]
fn all_mistakes_are_told_at_once_with_their_places() {
    insta::assert_snapshot!(errors(
        "nmae: x
model:
  provider: openai-compatibel
  base_url: localhost:1234
  context_window: big
run:
  max_step: 5
  timeout: 10
  queueLimit: 0
  maxDelay: 5s
context:
  enabled: 1
  compression:
    stategy: truncation
    options: { keepRecnt: 4 }
tools: 5
approvals:
  rules:
    - { tool: 'a[', decision: alow }
    - { tool: bash }
"
    ), @r"
    longhaul.yml:1:1: unknown key `nmae`: did you mean `name`?
    longhaul.yml:3:13: `model.provider` cannot be `openai-compatibel`: did you mean `openai-compatible`?
    longhaul.yml:4:13: `model.base_url` must be an address that begins with http:// or https://, not this text
    longhaul.yml:5:19: `model.context_window` must be auto or a whole number of tokens above 0, not `big`
    longhaul.yml:7:3: unknown key `max_step` in `run`: did you mean `maxSteps`?
    longhaul.yml:8:12: `run.timeout` must be a duration such as 500ms, 60s, 10m, 2h or 90d, or none, not 10
    longhaul.yml:9:15: `run.queueLimit` must be a whole number from 1 to 1000000, not 0
    longhaul.yml:10:3: unknown key `maxDelay` in `run`: did you mean `retry.maxDelay`?
    longhaul.yml:12:12: `context.enabled` must be true or false, not 1
    longhaul.yml:14:5: unknown key `stategy` in `context.compression`: did you mean `strategy`?
    longhaul.yml:15:16: unknown key `keepRecnt` in `context.compression.options`: did you mean `keepRecent`?
    longhaul.yml:16:8: `tools` must be a group of keys, not 5
    longhaul.yml:19:15: `approvals.rules[0].tool` must be a tool's name or a glob over names, not `a[`
    longhaul.yml:19:31: `approvals.rules[0].decision` cannot be `alow`: did you mean `allow`?
    longhaul.yml:20:7: `approvals.rules[1]` needs `decision`
    ");
}

#[test]
fn tools_are_chosen_by_name() {
    let config = parse("tools: { enabled: [bash, read], disabled: [bash, recall] }");
    assert_eq!(config.tools.enabled, Some(vec!["bash".to_owned(), "read".to_owned()]));
    assert_eq!(config.tools.disabled, ["bash", "recall"]);
    assert_eq!(parse("tools: { enabled: [] }").tools.enabled, Some(Vec::new()));
    insta::assert_snapshot!(errors(
        r"
tools:
  enabled: [raed, 7, frobnicate]
  disabled: bash
"
    ), @r"
    longhaul.yml:3:13: `tools.enabled[0]` cannot be `raed`: did you mean `read`?
    longhaul.yml:3:19: `tools.enabled[1]` cannot be `7`: the choices are read, bash, edit, write, grep, glob, ls, recall
    longhaul.yml:3:22: `tools.enabled[2]` cannot be `frobnicate`: the choices are read, bash, edit, write, grep, glob, ls, recall
    longhaul.yml:4:13: `tools.disabled` must be a list of built-in tools, not `bash`, which is not a list
    ");
}

#[test]
fn any_tool_may_have_its_own_output_limit() {
    let file = "tools: { read: { maxOutputChars: 500 }, recall: { maxOutputChars: 9 }, mcp__files__read: { maxOutputChars: 70 }, git__log: { maxOutputChars: 200000 } }";
    let limits = parse(file).tools.output_limits;
    let of = |tool: &str| limits.get(tool).copied();
    assert_eq!((of("bash"), of("read"), of("recall"), of("ls")), (Some(30_000), Some(500), Some(9), None));
    assert_eq!((of("files__read"), of("git__log")), (Some(70), Some(200_000)));
    insta::assert_snapshot!(errors(
        r"
tools:
  raed: { maxOutputChars: 500 }
  ls: { maxOutputChars: 0 }
  git__log: { maxOutputChars: many, maxLines: 4 }
  mcp__git__log: 5
  mcp__: { maxOutputChars: 5 }
"
    ), @r"
    longhaul.yml:3:3: unknown key `raed` in `tools`: did you mean `read`?
    longhaul.yml:4:25: `tools.ls.maxOutputChars` must be a whole number from 1 to 1000000000, not 0
    longhaul.yml:5:31: `tools.git__log.maxOutputChars` must be a whole number from 1 to 1000000000, not `many`
    longhaul.yml:5:37: unknown key `maxLines` in `tools.git__log`: did you mean `tools.read.maxLines`?
    longhaul.yml:6:18: `tools.mcp__git__log` must be { maxOutputChars: NUMBER }, not 5
    longhaul.yml:7:3: unknown key `mcp__` in `tools`: the keys here are enabled, disabled, deferAbove, maxOutputChars, bash, read, grep, edit, write, glob, ls, recall
    ");
}

#[test]
fn each_provider_has_its_own_address() {
    for (provider, url) in [
        ("openai", "https://api.openai.com/v1"),
        ("openai-compatible", "http://localhost:1234/v1"),
        ("anthropic", "https://api.anthropic.com/v1"),
        ("gemini", "https://generativelanguage.googleapis.com/v1beta"),
        ("ollama", "http://localhost:11434"),
    ] {
        let config = parse(&format!("model: {{ provider: {provider}, name: m }}"));
        assert_eq!((config.model.provider.as_str(), config.model.base_url.as_str()), (provider, url));
        let kind = config.model.provider.kind().unwrap();
        assert_eq!(kind.as_str(), provider);
        let said = parse(&format!("model: {{ provider: {provider}, base_url: 'http://localhost:9/x' }}"));
        assert_eq!(said.model.base_url, "http://localhost:9/x");
    }
}

#[test]
fn later_capabilities_are_refused_by_name() {
    insta::assert_snapshot!(errors(
        "blobs: { store: s3 }
server: { db: postgres }
"
    ), @r"
    longhaul.yml:1:17: `blobs.store` is not available yet in this version
    longhaul.yml:2:15: `server.db` is sqlite in this file; `longhaul serve --db postgres://…` names another
    ");
}

#[test]
fn agents_are_read_as_the_file_is() {
    let config = parse(
        "run: { maxSteps: 7 }
agents:
  helper: ./helper.yml
  small:
    model: { name: tiny }
    context: { compression: { strategy: truncation } }
",
    );
    assert_eq!(config.agents["helper"], AgentSource::File("./helper.yml".to_owned()));
    let AgentSource::Here(small) = &config.agents["small"] else { panic!() };
    assert_eq!((small.model.name.as_str(), small.run.max_steps), ("tiny", 100), "it inherits nothing");
    assert_eq!(small.context.compression.strategy, StrategyKind::Truncation);
    insta::assert_snapshot!(errors(
        "agents:
  default: ./a.yml
  'two words': ./b.yml
  __same__: ./c.yml
  list: [a]
  empty: ''
  wrong:
    run: { maxSteeps: 3, queueLimit: 0 }
    model: { provider: none }
    zzz: 1
  nested: { agents: { deeper: ./d.yml } }
"
    ), @r"
    longhaul.yml:2:3: `agents.default` has the name of the file's own agent (`name`)
    longhaul.yml:3:3: `agents.two words` is not a name: 1 to 64 letters, digits, `-`, `_` and `.`, and not __same__
    longhaul.yml:4:3: `agents.__same__` is not a name: 1 to 64 letters, digits, `-`, `_` and `.`, and not __same__
    longhaul.yml:5:9: `agents.list` must be the path of an agent file, or the keys of one, not a list
    longhaul.yml:6:10: `agents.empty` must be the path of an agent file, or the keys of one, not ``
    longhaul.yml:8:12: unknown key `maxSteeps` in `agents.wrong.run`: did you mean `maxSteps`?
    longhaul.yml:8:38: `agents.wrong.run.queueLimit` must be a whole number from 1 to 1000000, not 0
    longhaul.yml:9:24: `agents.wrong.model.provider` cannot be `none`: the choices are openai, openai-compatible, anthropic, gemini, ollama, scripted
    longhaul.yml:10:5: unknown key `zzz` in `agents.wrong`: the keys here are name, systemPrompt, model, run, context, hooks, tools, sandbox, blobs, approvals, mcpServers, retry, models, gateway, server, telemetry, agents
    longhaul.yml:11:23: `agents.nested.agents` stands in the main file only: an agent of it has none of its own
    ");
    let nested = AgentConfig::parse_agent("agents: { a: b.yml }", "helper.yml").unwrap_err();
    insta::assert_snapshot!(nested, @"helper.yml:1:11: `agents` stands in the main file only: an agent of it has none of its own");
    assert_eq!(AgentConfig::parse_agent("agents: {}", "helper.yml"), Ok(AgentConfig::default()));
}

#[test]
fn what_is_written_is_known() {
    let written = AgentConfig::written("run: { maxSteps: 100 }\ncontext:\n  autoRecall: false\n");
    let expected = ["context", "context.autoRecall", "run", "run.maxSteps"];
    assert_eq!(written.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    assert!(AgentConfig::written("run: [").is_empty());
}

#[test]
fn mcp_servers_arrive_typed() {
    let config = parse(
        "mcpServers:
  files: { command: npx, args: [-y, '@x/files', .], env: { TOKEN: 's3cret' }, timeoutMs: 5000, optional: true }
  remote: { url: 'https://example.org/mcp', headers: { Authorization: Bearer s3cret } }
",
    );
    let [files, remote] = ["files", "remote"].map(|name| &config.mcp_servers[name]);
    let McpTransport::Command(command) = &files.transport else { panic!("{files:?}") };
    assert_eq!(
        (command.program.as_str(), command.args.len(), command.env["TOKEN"].as_str()),
        ("npx", 3, "s3cret")
    );
    assert_eq!((files.timeout, files.optional), (Duration::from_secs(5), true));
    let McpTransport::Http(address) = &remote.transport else { panic!("{remote:?}") };
    assert_eq!(address.headers["Authorization"], "Bearer s3cret");
    assert_eq!((remote.timeout, remote.optional), (Duration::from_secs(120), false));
    assert!(!format!("{config:?}").contains("s3cret"));
}

#[test]
fn the_tools_of_an_mcp_server_are_chosen() {
    let config = parse(
        "mcpServers:
  a: { command: x, tools: { allow: [read, 'list_*'], deny: [list_all] } }
  b: { url: 'https://x', tools: { allow: [], deny: null } }
  c: { command: x, tools: null }
",
    );
    let [a, b, c] = ["a", "b", "c"].map(|name| &config.mcp_servers[name].tools);
    assert_eq!(
        ["read", "list_some", "list_all", "write"].map(|tool| a.takes(tool)),
        [true, true, false, false]
    );
    assert!(b.takes("anything") && c.takes("anything"));
    let error = errors(
        "mcpServers: { a: { command: x, tools: { alow: [x], deny: x } }, b: { command: x, tools: [x] } }",
    );
    insta::assert_snapshot!(error, @r"
    longhaul.yml:1:41: unknown key `alow` in `mcpServers.a.tools`: did you mean `allow`?
    longhaul.yml:1:58: `mcpServers.a.tools.deny` must be a list of the server's names of tools, not this text
    longhaul.yml:1:89: `mcpServers.b.tools` must be { allow: [NAME], deny: [NAME] }, not this list
    ");
}

#[test]
fn mistakes_in_mcp_servers_are_told_without_their_secrets() {
    let error = errors(
        "mcpServers:
  2fast: { command: x }
  files: { comand: npx, arg: [s3cret] }
  both: { command: x, url: 'https://s3cret' }
  program: { command: x, arsg: [s3cret], headers: { A: s3cret }, args: s3cret, env: [s3cret], timeoutMs: s3cret }
  remote: { url: s3cret, header: { A: s3cret }, headers: { A: 4711 }, optional: s3cret }
  odd: s3cret
",
    );
    assert!(!error.contains("s3cret") && !error.contains("4711"), "{error}");
    insta::assert_snapshot!(error, @r"
    longhaul.yml:2:3: `mcpServers.2fast` is not a name for a server: a letter, then letters, digits, - and single _, at most 32 in all
    longhaul.yml:3:10: `mcpServers.files` needs `command` (a program to start) or `url` (a server that is there)
    longhaul.yml:3:12: unknown key `comand` in `mcpServers.files`: did you mean `command`?
    longhaul.yml:3:25: unknown key `arg` in `mcpServers.files`: did you mean `args`?
    longhaul.yml:4:9: `mcpServers.both` has `command` and `url`, and can only have one of them
    longhaul.yml:5:26: unknown key `arsg` in `mcpServers.program`: did you mean `args`?
    longhaul.yml:5:42: `mcpServers.program.headers` is for a server with `url`, not with `command`
    longhaul.yml:5:72: `mcpServers.program.args` must be a list of texts, not this text
    longhaul.yml:5:85: `mcpServers.program.env` must be texts by name, NAME: TEXT, not this list
    longhaul.yml:5:106: `mcpServers.program.timeoutMs` must be a whole number of milliseconds, not this text
    longhaul.yml:6:18: `mcpServers.remote.url` must be an address that begins with http:// or https://, not this text
    longhaul.yml:6:26: unknown key `header` in `mcpServers.remote`: did you mean `headers`?
    longhaul.yml:6:58: `mcpServers.remote.headers` must be texts by name, NAME: TEXT, not this group of keys
    longhaul.yml:6:81: `mcpServers.remote.optional` must be true or false, not this text
    longhaul.yml:7:8: `mcpServers.odd` must be { command, args, env } or { url, headers }, not this text
    ");
}

#[test]
fn hooks_arrive_typed() {
    let hooks = parse(
        "hooks: { preToolUse: { command: './guard --key s3cret', timeoutMs: 500 }, postToolUse: { url: 'https://me:s3cret@h:8/p?k=s3cret' }, preCompact: none }",
    )
    .hooks;
    let command = HookTarget::Command("./guard --key s3cret".to_owned());
    let timeout = Duration::from_millis(500);
    assert_eq!(hooks.pre_tool_use, Some(HookConfig { target: command, timeout }));
    let url = HookTarget::Url("https://me:s3cret@h:8/p?k=s3cret".to_owned());
    assert_eq!(hooks.post_tool_use, Some(HookConfig { target: url, timeout: Duration::from_secs(10) }));
    assert_eq!((&hooks.pre_compact, &hooks.user_prompt_submit), (&None, &None));
    assert_eq!(hooks.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["preToolUse", "postToolUse"]);
    let shown = format!("{hooks:?}");
    assert!(!shown.contains("s3cret") && shown.contains("https://h:8"), "{shown}");
}

#[test]
fn mistakes_in_hooks_are_told_without_their_secrets() {
    let error = errors(
        "hooks:
  preCompact: s3cret
  preToolUse: { comand: s3cret }
  postToolUse: { command: s3cret, url: 'https://s3cret' }
  userPromptSubmit: { url: s3cret, timeoutMs: s3cret }
  other: none
",
    );
    assert!(!error.contains("s3cret"), "{error}");
    insta::assert_snapshot!(error, @r"
    longhaul.yml:2:15: `hooks.preCompact` must be { command }, { url } or none, not this text
    longhaul.yml:3:15: `hooks.preToolUse` needs `command` (a command to run) or `url` (a server that is there)
    longhaul.yml:3:17: unknown key `comand` in `hooks.preToolUse`: did you mean `command`?
    longhaul.yml:4:16: `hooks.postToolUse` has `command` and `url`, and can only have one of them
    longhaul.yml:5:28: `hooks.userPromptSubmit.url` must be an address that begins with http:// or https://, not this text
    longhaul.yml:5:47: `hooks.userPromptSubmit.timeoutMs` must be a whole number of milliseconds from 1 to 3600000, not this text
    longhaul.yml:6:3: unknown key `other` in `hooks`: the keys here are preCompact, preToolUse, postToolUse, userPromptSubmit
    ");
}

#[test]
fn values_that_contradict_each_other() {
    insta::assert_snapshot!(errors(
        "context:
  compression:
    strategy: truncation
    trigger: { type: threshold, percentage: 0.5, triggerTokens: 1000 }
    options: { preserveLastNTurns: 2, keepTokens: 100 }
"
    ), @r"
    longhaul.yml:4:14: `context.compression.trigger` needs one of percentage and triggerTokens
    longhaul.yml:5:39: `context.compression.options.keepTokens` is an option of middle-removal, not of truncation
    ");
    insta::assert_snapshot!(errors("context: { compression: { strategy: truncation, trigger: { type: planner } } }"), @"longhaul.yml:1:58: `context.compression.trigger` has type planner only with adaptive, not with truncation");
    insta::assert_snapshot!(errors("context: { compression: { strategy: adaptive, trigger: { type: planner, percentage: 0.5 } } }"), @"longhaul.yml:1:56: `context.compression.trigger` has percentage or triggerTokens only with type threshold");
    insta::assert_snapshot!(errors(
        "context:
  compression:
    strategy: importance
    options: { preserveRatio: 0.5, keepRecent: 4, toolUseScore: -1, minScoreThreshold: low, summarizeWith: extract }
"
    ), @r"
    longhaul.yml:4:16: `context.compression.options.preserveRatio` is an option of proactive-threshold, not of importance
    longhaul.yml:4:65: `context.compression.options.toolUseScore` must be a number, 0 or more, not -1
    longhaul.yml:4:88: `context.compression.options.minScoreThreshold` must be a number, 0 or more, not `low`
    longhaul.yml:4:93: `context.compression.options.summarizeWith` is an option of reactive-overflow, proactive-threshold, summarization and adaptive, not of importance
    ");
    insta::assert_snapshot!(errors(
        "context:
  compression:
    strategy: adaptiv
    trigger: { type: planner }
    options: { lowTarget: 0, background: 1, summaryTimeout: none, maxSummaryTokens: 0 }
  pruningAgent: small
"
    ), @r"
    longhaul.yml:3:15: `context.compression.strategy` cannot be `adaptiv`: did you mean `adaptive`?
    longhaul.yml:5:27: `context.compression.options.lowTarget` must be above 0 and at most 1, not 0
    longhaul.yml:5:42: `context.compression.options.background` must be true or false, not 1
    longhaul.yml:5:61: `context.compression.options.summaryTimeout` must be a duration such as 500ms, 60s, 10m, 2h or 90d, not `none`
    longhaul.yml:5:85: `context.compression.options.maxSummaryTokens` must be a whole number from 1 to 1000000000, not 0
    ");
    insta::assert_snapshot!(errors(&only("context.compression.trigger", "{ percentage: 1.5 }")), @"longhaul.yml:1:50: `context.compression.trigger.percentage` must be above 0 and at most 1, not 1.5");
    insta::assert_snapshot!(errors(&only("context.compression.trigger", "{ triggerTokens: 255 }")), @"longhaul.yml:1:53: `context.compression.trigger.triggerTokens` must be a whole number, 256 or more, not 255");
    insta::assert_snapshot!(errors(&only("context.compression.trigger", "{ percentage: 0 }")), @"longhaul.yml:1:50: `context.compression.trigger.percentage` must be above 0 and at most 1, not 0");
    insta::assert_snapshot!(errors(&only("context.compression.trigger", "{ type: overflow, percentage: 0.5 }")), @"longhaul.yml:1:36: `context.compression.trigger` has percentage or triggerTokens only with type threshold");
    insta::assert_snapshot!(errors(&only("context.compression.trigger", "{ type: treshold }")), @"longhaul.yml:1:44: `context.compression.trigger.type` cannot be `treshold`: did you mean `threshold`?");
}

#[test]
fn faults_of_a_summary_model_are_named_with_their_keys() {
    let of = |value: &str| errors(&only("context.compression.options.summarizeWith", value));
    for (value, words) in [
        (
            "{ provider: anthropic }",
            "`context.compression.options.summarizeWith` needs `name`, the model's name",
        ),
        ("{ name: small }", "`context.compression.options.summarizeWith` needs `provider` or `base_url`"),
        ("{}", "`context.compression.options.summarizeWith` needs `name`"),
        (
            "{ provider: anthropic, nam: small, name: small }",
            "unknown key `nam` in `context.compression.options.summarizeWith`: did you mean `name`?",
        ),
        (
            "{ provider: antropic, name: small }",
            "`context.compression.options.summarizeWith.provider` cannot be `antropic`: did you mean `anthropic`?",
        ),
        (
            "{ provider: openai, name: 4 }",
            "`context.compression.options.summarizeWith.name` must be a text that is not empty, not 4",
        ),
        (
            "{ name: small, base_url: box }",
            "`context.compression.options.summarizeWith.base_url` must be an address",
        ),
        (
            "{ provider: openai, name: m, context_window: big }",
            "`context.compression.options.summarizeWith.context_window` must be auto or a whole number of tokens",
        ),
        (
            "[small]",
            "`context.compression.options.summarizeWith` must be same, extract, the name of an agent or model",
        ),
        ("''", "`context.compression.options.summarizeWith` must be same, extract"),
    ] {
        let said = of(value);
        assert!(said.contains(words), "{value}: {said}");
    }
    let secret = of("{ provider: openai, name: m, api_key_env: 'sk-123' }");
    assert!(secret.contains("summarizeWith.api_key_env") && !secret.contains("sk-123"), "{secret}");
}

#[test]
fn what_is_not_a_file_of_keys() {
    insta::assert_snapshot!(errors("a: [1\nb: 2"), @"longhaul.yml:2:2: illegal placement of ':' indicator");
    insta::assert_snapshot!(errors("name: a\nname: b\n"), @"longhaul.yml:2:1: duplicate mapping key: name");
    insta::assert_snapshot!(errors("- just\n- a list\n"), @"longhaul.yml:1:1: `the file` must be a group of keys, not a list");
    insta::assert_snapshot!(errors("model: { name: 4.5, headers: { Authorization: 12 } }"), @r"
    longhaul.yml:1:16: `model.name` must be a text that is not empty, not 4.5 (put it in quotes)
    longhaul.yml:1:30: `model.headers` must be texts by name, NAME: TEXT, not a group with other values
    ");
    insta::assert_snapshot!(errors("maxSteps: 4"), @"longhaul.yml:1:1: unknown key `maxSteps`: did you mean `run.maxSteps`?");
    insta::assert_snapshot!(errors("retry: { attempts: 4 }"), @"longhaul.yml:1:10: `retry.attempts` was removed: set `retry.patience`, the time for which an outage is waited out, and `retry.streamAttempts` instead");
    insta::assert_snapshot!(errors("zzz: 4"), @"longhaul.yml:1:1: unknown key `zzz`: the keys here are name, systemPrompt, model, run, context, hooks, tools, sandbox, blobs, approvals, mcpServers, retry, models, gateway, server, telemetry, agents");
}

#[test]
fn a_key_in_the_file_is_never_quoted_back() {
    let error = errors("model: { api_key_env: sk-proj-very-secret, headers: [Bearer-secret] }");
    assert!(!error.contains("secret"), "{error}");
    assert!(error.contains("api_key_env") && error.contains("model.headers"), "{error}");
}

#[test]
fn the_committed_schema_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/longhaul.schema.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let current = format!("{:#}\n", AgentConfig::json_schema());
    assert!(
        committed == current,
        "run: cargo run -p longhaul --example config-schema > docs/longhaul.schema.json"
    );
}

#[test]
fn the_guide_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/configuration.md");
    let guide = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        guide.contains(&AgentConfig::reference()),
        "run: cargo run -p longhaul --example config-reference > docs/guide/configuration.md"
    );
    for strategy in strategies() {
        let row = format!("| `{}`", strategy.as_str());
        let row = guide.lines().find(|line| line.starts_with(&row)).unwrap_or_default();
        let is_named = |option: &str| row.contains(&format!("`{option}`"));
        for (option, owners) in keys::OPTIONS {
            let everywhere = owners.len() > 5;
            let has = owners.contains(&strategy) && !everywhere;
            assert_eq!(is_named(option), has, "{option} in the row of {}", strategy.as_str());
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = AgentConfig::parse(&text, "f");
    }

    #[test]
    fn a_damaged_reference_is_read_or_refused(at in 0usize..8000, insert in "[-:{}\\[\\]#&*!|>'\"%@`a0 \n]{0,4}", cut in 0usize..40) {
        let mut text: Vec<char> = AgentConfig::reference().chars().collect();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        text.splice(at..end, insert.chars());
        let text: String = text.into_iter().collect();
        if let Err(error) = AgentConfig::parse(&text, "f") {
            prop_assert!(!error.problems.is_empty());
        }
    }
}

#[test]
fn a_collector_is_an_address_or_none() {
    let telemetry = parse("telemetry: { otlp: 'http://localhost:4318', content: true }").telemetry;
    assert_eq!(telemetry, TelemetryConfig { otlp: Some("http://localhost:4318".to_owned()), content: true });
    assert_eq!(parse("telemetry: { otlp: none }").telemetry.otlp, None);
    insta::assert_snapshot!(errors("telemetry: { otlp: 'localhost:4318', content: 1 }"), @r"
    longhaul.yml:1:20: `telemetry.otlp` must be an address that begins with http:// or https://, or none, not `localhost:4318`
    longhaul.yml:1:47: `telemetry.content` must be true or false, not 1
    ");
}

#[test]
fn servers_behind_the_gateway() {
    let config = parse(
        "gateway:
  upstreams:
    - name: box
      base_url: http://box:8000/v1
      api_key_env: BOX_KEY
      headers: { X-Team: s3cret }
      cache: 1h
      dialects: [chat, messages]
      window: 32768
      timeout: 1h
      models:
        coder: { model: Qwen/Qwen3-Coder, window: 131072, media: [images] }
        small:
    - { name: claude, provider: anthropic }
",
    );
    let [first, second] = config.gateway.upstreams.as_slice() else { panic!("{config:?}") };
    assert_eq!((first.name.as_str(), first.base_url.as_str()), ("box", "http://box:8000/v1"));
    assert_eq!((first.api_key_env.as_deref(), first.window), (Some("BOX_KEY"), Some(32_768)));
    assert_eq!(first.headers.0["X-Team"], "s3cret");
    let hour = Duration::from_secs(3_600);
    assert_eq!([first.timeout, second.timeout], [FirstByteTimeout::After(hour), FirstByteTimeout::Auto]);
    assert_eq!([first.cache, second.cache], [PromptCacheLife::OneHour, PromptCacheLife::Auto]);
    assert!(!format!("{first:?}").contains("s3cret"), "what headers say does not show");
    assert_eq!(first.dialects.as_deref(), Some(&[GatewayDialect::Chat, GatewayDialect::Messages][..]));
    let names: Vec<_> =
        first.models.iter().map(|model| (model.name.as_str(), model.model.as_str())).collect();
    assert_eq!(names, [("coder", "Qwen/Qwen3-Coder"), ("small", "small")]);
    let limits = first.models[0].limits;
    assert_eq!((limits.window, limits.images, limits.files), (Some(131_072), Some(true), Some(false)));
    assert_eq!(
        (second.provider, second.base_url.as_str()),
        (ProviderKind::Anthropic, "https://api.anthropic.com/v1")
    );
    assert_eq!((second.dialects.as_ref(), second.models.len()), (None, 0));
}

#[test]
fn the_life_of_the_cache_is_one_of_three() {
    let life = |word: &str| parse(&format!("model: {{ provider: anthropic, cache: {word} }}")).model.cache;
    assert_eq!(parse("{}").model.cache, PromptCacheLife::Auto);
    assert_eq!(life("auto"), PromptCacheLife::Auto);
    assert_eq!(life("5m"), PromptCacheLife::FiveMinutes);
    assert_eq!(life("1h"), PromptCacheLife::OneHour);
    for text in ["model: { cache: forever }", "gateway: { upstreams: [{ name: a, cache: forever }] }"] {
        let error = errors(text);
        assert!(error.contains("cannot be `forever`: the choices are auto, 5m, 1h"), "{error}");
    }
}

#[test]
fn servers_behind_the_gateway_are_checked() {
    let error = errors(
        "gateway:
  upstreams:
    - { base_url: box:8000, provider: scripted }
    - { name: a, api_key_env: sk-very-secret, dialects: [chat, morse], models: { m: { prices: 1 } } }
    - { name: a, url: http://x, headers: { A: [s3cret] } }
",
    );
    assert!(!error.contains("secret") && !error.contains("s3cret"), "{error}");
    insta::assert_snapshot!(error, @r"
    longhaul.yml:3:7: `gateway.upstreams[0]` needs `name`
    longhaul.yml:3:19: `gateway.upstreams[0].base_url` must be an address, http://… or https://…, not this text
    longhaul.yml:3:39: `gateway.upstreams[0].provider` cannot be `scripted`: the choices are openai, openai-compatible, anthropic, gemini, ollama
    longhaul.yml:4:31: `gateway.upstreams[1].api_key_env` must be the name of an environment variable (letters, digits and _), not this value (a key itself never stands in the file)
    longhaul.yml:4:64: `gateway.upstreams[1].dialects` cannot be `morse`: the choices are chat, responses, messages
    longhaul.yml:4:87: unknown key `prices` in `gateway.upstreams[1].models.m`: the keys here are model, window, maxOutput, tools, media, prefill, reasoning_retention
    longhaul.yml:5:7: `gateway.upstreams[2]` has the name of another one, `a`
    longhaul.yml:5:18: unknown key `url` in `gateway.upstreams[2]`: the keys here are name, provider, base_url, api_key_env, headers, cache, timeout, dialects, window, models
    longhaul.yml:5:42: `gateway.upstreams[2].headers` must be texts by name, NAME: TEXT, not this group of keys
    ");
    let spoken = |provider: &str, dialects: &str| {
        let server =
            format!("{{ name: a, base_url: \"http://x\", provider: {provider}, dialects: {dialects} }}");
        format!("gateway: {{ upstreams: [{server}] }}")
    };
    for alone in ["[messages]", "[responses]", "[responses, messages]"] {
        let error = errors(&spoken("openai-compatible", alone));
        assert!(error.contains("`gateway.upstreams[0].dialects` must be a list with chat"), "{error}");
        assert!(error.contains("`provider: anthropic`") && error.contains("`provider: openai`"), "{error}");
    }
    let error = errors("gateway: { upstreams: { a: b } }");
    assert!(error.contains("`gateway.upstreams` must be a list of"), "{error}");
}

#[test]
fn files_that_are_nested_or_repeated_without_end_are_refused() {
    let lists = format!("model: {{ body: {{ a: {}{} }} }}", "[".repeat(10_000), "]".repeat(10_000));
    let maps = format!("model: {{ body: {}1{} }}", "{ a: ".repeat(10_000), " }".repeat(10_000));
    let indented: String = (0..10_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let again = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{again}]\n"));
    }
    for text in [lists, maps, indented, laughs] {
        let begun = std::time::Instant::now();
        assert!(AgentConfig::parse(&text, "longhaul.yml").is_err(), "{text:.40}");
        assert!(AgentConfig::written(&text).is_empty(), "{text:.40}");
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{text:.40}");
    }
}

#[test]
fn approval_rules_may_look_at_arguments() {
    let config =
        parse("approvals: { rules: [{ tool: bash, match: { command: 'git *' }, decision: allow }] }");
    let rule = &config.approvals.rules[0];
    assert_eq!(rule.matching, [("command".to_owned(), "git *".to_owned())].into());
    for wrong in ["match: 'git *'", "match: {}", "match: { command: 7 }", "match: [git]", "match: null"] {
        let file = format!("approvals: {{ rules: [{{ tool: bash, {wrong}, decision: allow }}] }}");
        let error = AgentConfig::parse(&file, "longhaul.yml").unwrap_err().to_string();
        assert!(error.contains("patterns by argument"), "{wrong}: {error}");
    }
}

#[test]
fn approval_rules_name_known_tools_and_arguments() {
    let check = |rules: &str| {
        let file = format!("approvals: {{ rules: [{rules}] }}");
        parse(&file);
        AgentConfig::check_rule_tools(&file, "longhaul.yml").map_err(|error| error.to_string())
    };
    for (rule, expected) in [
        (
            "{ tool: bsh, match: { command: 'echo*' }, decision: deny }",
            "longhaul.yml:1:30: `approvals.rules[0].tool` cannot be `bsh`: did you mean `bash`?",
        ),
        (
            "{ tool: bash, match: { comand: 'echo*' }, decision: deny }",
            "longhaul.yml:1:45: unknown key `comand` in `approvals.rules[0].match`: did you mean `command`?",
        ),
        (
            "{ tool: deploy, decision: deny }",
            "longhaul.yml:1:30: `approvals.rules[0].tool` cannot be `deploy`: the choices are read, bash, edit, write, grep, glob, ls, recall",
        ),
    ] {
        assert_eq!(check(rule), Err(expected.to_owned()));
    }
    for rule in [
        "{ tool: bash, match: { command: 'echo*' }, decision: deny }",
        "{ tool: edit, match: { path: 'docs/*', replaceAll: 'true' }, decision: ask }",
        "{ tool: recall, decision: allow }, { tool: pin, decision: allow }",
        "{ tool: 'b*', match: { comand: 'echo*' }, decision: deny }",
        "{ tool: files__raed, match: { any: '*' }, decision: allow }",
    ] {
        assert_eq!(check(rule), Ok(()), "{rule}");
    }
}

#[test]
fn approval_rules_of_every_agent_in_the_file_are_checked() {
    let rules = |tool: &str| format!("approvals: {{ rules: [{{ tool: {tool}, decision: allow }}] }}");
    let servers = "mcpServers: { files: { command: x } }";
    for known in [
        format!("{servers}\n{}\n", rules("files")),
        format!("agents: {{ helper: {{ {servers}, {} }} }}\n", rules("files")),
        String::new(),
    ] {
        parse(&known);
        assert_eq!(AgentConfig::check_rule_tools(&known, "longhaul.yml"), Ok(()), "{known}");
    }
    let file =
        format!("{}\nagents:\n  helper: {{ {} }}\n  other: other.yml\n", rules("wriet"), rules("files"));
    parse(&file);
    let error = AgentConfig::check_rule_tools(&file, "longhaul.yml").unwrap_err();
    assert_eq!(error.problems.len(), 2, "{error}");
    let paths: Vec<_> = error.problems.iter().map(|problem| (problem.line, problem.path.as_str())).collect();
    assert_eq!(paths, [(1, "approvals.rules[0].tool"), (3, "agents.helper.approvals.rules[0].tool")]);
    assert!(error.to_string().contains("did you mean `write`?"), "{error}");
}

#[test]
fn the_sandbox_is_as_the_file_says() {
    use crate::sandbox::{ChildLimits, NetworkAccess};
    let config = parse("sandbox: { network: deny, limits: { cpuSeconds: none, memoryBytes: 1073741824 } }");
    assert_eq!(config.sandbox.network, NetworkAccess::Denied);
    let limits = ChildLimits { cpu_seconds: None, memory_bytes: Some(1 << 30), ..ChildLimits::default() };
    assert_eq!(config.sandbox.limits, limits);
    assert_eq!(AgentConfig::default().sandbox, super::SandboxConfig::default());
    let error = AgentConfig::parse("sandbox: { limits: { memoryBytes: 5 } }", "longhaul.yml").unwrap_err();
    assert!(error.to_string().contains("or none"), "{error}");
    let servers = parse("mcpServers: { a: { command: x, network: allow }, b: { command: x } }").mcp_servers;
    let network = |name: &str| match &servers[name].transport {
        super::McpTransport::Command(command) => command.network,
        super::McpTransport::Http(_) => unreachable!(),
    };
    assert_eq!((network("a"), network("b")), (Some(NetworkAccess::Open), None));
    assert!(
        AgentConfig::parse("mcpServers: { a: { url: 'http://x', network: allow } }", "longhaul.yml").is_err()
    );
}
