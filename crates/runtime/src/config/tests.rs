use std::time::Duration;

use proptest::prelude::*;

use super::keys::{KEYS, Kind};
use super::*;

/// The file as the specification prints it.
const AS_SPECIFIED: &str = r#"
name: default
systemPrompt: ""
model: { provider: openai-compatible, name: qwen3-30b, base_url: "http://localhost:1234/v1", api_key_env: KEY, context_window: auto, max_output_tokens: auto, headers: {}, body: {} }
run: { maxSteps: 100, timeout: none, parallelTools: auto, recovery: rest, queueLimit: 100 }
context:
  enabled: true
  tokenCounter: auto
  compression: { strategy: reactive-overflow, options: { preserveLastNTurns: 2, pruneProtectTokens: 40000, pruneMinimumTokens: 20000, protectedTools: [] } }
  autoRecall: false
  pruningAgent: __same__
hooks: { preCompact: none, preToolUse: none, postToolUse: none, userPromptSubmit: none }
tools: { maxOutputChars: 120000, bash: { maxOutputChars: 30000, timeoutMs: 120000 }, read: { maxLines: 2000, maxLineLength: 2000 }, grep: { maxMatches: 1000 } }
blobs: { maxBytes: 67108864, sessionQuotaBytes: 2147483648, store: local }
approvals: { rules: [], timeout: 10m }
mcpServers: {}
retry: { attempts: 4, maxDelay: 60s }
models: {}
gateway: { noticesInText: false, recall: off, midstream: exact, auth: open-on-loopback, credentials: own, upstreams: [] }
server: { addr: "127.0.0.1:4400", db: sqlite, tokenFile: none, allowedHosts: [], allowedOrigins: [], maxBodyBytes: 33554432, rateLimit: none }
telemetry: { otlp: none, content: false }
agents: {}
"#;

fn parse(text: &str) -> Config {
    Config::parse(text, "longhaul.yml").unwrap_or_else(|error| panic!("{error}"))
}

fn errors(text: &str) -> String {
    Config::parse(text, "longhaul.yml").expect_err("the file should be refused").to_string()
}

#[test]
fn defaults_are_those_of_the_specification() {
    let config = Config::default();
    assert_eq!(config, parse(AS_SPECIFIED));
    assert_eq!(config, parse(""));
    assert_eq!(config.name, "default");
    assert_eq!(config.system_prompt, SystemPrompt::Text(String::new()));
    assert_eq!(config.model.provider, ProviderKind::OpenaiCompatible);
    assert_eq!(config.model.base_url, "http://localhost:1234/v1");
    assert_eq!(config.model.api_key_env.as_deref(), Some("KEY"));
    assert_eq!((config.model.context_window, config.model.max_output_tokens), (None, None));
    assert_eq!((config.run.max_steps, config.run.timeout, config.run.queue_limit), (100, None, 100));
    assert_eq!(config.run.parallel_tools, ParallelTools::Auto);
    assert_eq!(config.run.recovery, Recovery::Rest);
    let compression = &config.context.compression;
    assert!(config.context.enabled);
    assert_eq!((compression.strategy, compression.trigger), (StrategyKind::ReactiveOverflow, None));
    let options = &compression.options;
    assert_eq!((options.preserve_last_n_turns, options.max_summary_tokens), (2, 2_000));
    assert_eq!((options.prune_protect_tokens, options.prune_minimum_tokens), (40_000, 20_000));
    assert_eq!((options.keep_tokens, options.keep_recent), (None, 10));
    assert_eq!((config.tools.max_output_chars, config.tools.bash_max_output_chars), (120_000, 30_000));
    assert_eq!(config.tools.bash_timeout, Duration::from_secs(120));
    assert_eq!((config.tools.read_max_lines, config.tools.read_max_line_length), (2_000, 2_000));
    assert_eq!(config.tools.grep_max_matches, 1_000);
    assert_eq!((config.blobs.max_bytes, config.blobs.session_quota_bytes), (64 << 20, 2 << 30));
    assert_eq!(config.approvals.timeout, Some(Duration::from_secs(600)));
    assert_eq!((config.retry.attempts, config.retry.max_delay), (4, Duration::from_secs(60)));
}

#[test]
fn the_reference_names_every_key_and_parses_to_the_default() {
    let reference = Config::reference();
    assert_eq!(parse(&reference), Config::default());
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

fn another_value(key: &keys::Key) -> String {
    match &key.kind {
        Kind::Flag => "false".into(),
        Kind::Count { .. } | Kind::CountOrAuto => "77".into(),
        Kind::Name | Kind::Prompt => "other".into(),
        Kind::Url => "https://example.org/v1".into(),
        Kind::EnvName => "OTHER_KEY".into(),
        Kind::Choice { now, .. } => now.last().copied().unwrap_or_default().into(),
        Kind::Time { .. } => "90s".into(),
        Kind::Names => "[read]".into(),
        Kind::Texts | Kind::Json => "{ a: b }".into(),
        Kind::Trigger => "{ percentage: 0.5 }".into(),
        Kind::Rules => "[{ tool: bash, decision: deny }]".into(),
        Kind::Models => "{ m: { window: 8192 } }".into(),
        Kind::Later => "{ something: else }".into(),
    }
}

#[test]
fn every_key_is_heard_or_refused_by_name() {
    for key in KEYS {
        let name = key.path.rsplit('.').next().unwrap_or_default();
        let text = match keys::OWN_OPTIONS.iter().find(|(option, _)| *option == name) {
            Some((_, strategy)) => format!(
                "context: {{ compression: {{ strategy: {}, options: {{ {name}: 77 }} }} }}",
                strategy.as_str()
            ),
            None => only(key.path, &another_value(key)),
        };
        if matches!(key.kind, Kind::Later) {
            let error = errors(&text);
            assert!(error.contains(key.path) && error.contains("not available yet"), "{}: {error}", key.path);
        } else {
            assert_ne!(parse(&text), Config::default(), "{} changes nothing", key.path);
        }
    }
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
    assert_eq!(config.models["qwen3-30b"], ModelLimits { window: Some(32_768), max_output: Some(4_096) });
}

#[test]
fn triggers() {
    let trigger = |text: &str| parse(&only("context.compression.trigger", text)).context.compression.trigger;
    assert_eq!(trigger("{ type: overflow }"), Some(TriggerConfig::Overflow));
    assert_eq!(trigger("{ type: manual }"), Some(TriggerConfig::Manual));
    assert_eq!(trigger("{ percentage: 1 }"), Some(TriggerConfig::Share(1.0)));
    assert_eq!(trigger("{ type: threshold, percentage: 0.8 }"), Some(TriggerConfig::Share(0.8)));
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
  max_steps: 5
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
    longhaul.yml:7:3: unknown key `max_steps` in `run`: did you mean `maxSteps`?
    longhaul.yml:8:12: `run.timeout` must be a duration such as 500ms, 60s, 10m or 2h, or none, not 10
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
fn later_capabilities_are_refused_by_name() {
    insta::assert_snapshot!(errors(
        "model: { provider: anthropic }
context:
  autoRecall: true
  tokenCounter: ./tokenizer.json
  compression: { strategy: adaptive, trigger: { type: planner }, options: { lowTarget: 0.4 } }
hooks: { preCompact: { command: ./hook } }
blobs: { store: s3 }
mcpServers: { files: { command: mcp-files } }
models: { m: { window: 1000, prices: { input: 1 } } }
server: { db: postgres }
agents: { helper: ./helper.yml }
"
    ), @r"
    longhaul.yml:1:20: `model.provider: anthropic` is not available yet in this version
    longhaul.yml:3:15: `context.autoRecall` is not available yet in this version
    longhaul.yml:4:17: `context.tokenCounter: ./tokenizer.json` is not available yet in this version
    longhaul.yml:5:28: `context.compression.strategy: adaptive` is not available yet in this version
    longhaul.yml:5:55: `context.compression.trigger: planner` is not available yet in this version
    longhaul.yml:5:77: `context.compression.options.lowTarget` is not available yet in this version
    longhaul.yml:6:22: `hooks.preCompact` is not available yet in this version
    longhaul.yml:7:17: `blobs.store` is not available yet in this version
    longhaul.yml:8:15: `mcpServers.files` is not available yet in this version
    longhaul.yml:9:30: `models.m.prices` is not available yet in this version
    longhaul.yml:10:15: `server.db` is not available yet in this version
    longhaul.yml:11:11: `agents.helper` is not available yet in this version
    ");
}

#[test]
fn values_that_contradict_each_other() {
    insta::assert_snapshot!(errors(
        "context:
  compression:
    strategy: truncation
    trigger: { type: threshold, percentage: 0.5, triggerTokens: 100 }
    options: { preserveLastNTurns: 2, keepTokens: 100 }
"
    ), @r"
    longhaul.yml:4:14: `context.compression.trigger` needs one of percentage and triggerTokens
    longhaul.yml:5:39: `context.compression.options.keepTokens` is an option of middle-removal, not of truncation
    ");
    insta::assert_snapshot!(errors(&only("context.compression.trigger", "{ percentage: 1.5 }")), @"longhaul.yml:1:50: `context.compression.trigger.percentage` must be above 0 and at most 1, not 1.5");
    insta::assert_snapshot!(errors(&only("context.compression.trigger", "{ percentage: 0 }")), @"longhaul.yml:1:50: `context.compression.trigger.percentage` must be above 0 and at most 1, not 0");
    insta::assert_snapshot!(errors(&only("context.compression.trigger", "{ type: overflow, percentage: 0.5 }")), @"longhaul.yml:1:36: `context.compression.trigger` has percentage or triggerTokens only with type threshold");
    insta::assert_snapshot!(errors(&only("context.compression.trigger", "{ type: treshold }")), @"longhaul.yml:1:44: `context.compression.trigger.type` cannot be `treshold`: did you mean `threshold`?");
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
    insta::assert_snapshot!(errors("zzz: 4"), @"longhaul.yml:1:1: unknown key `zzz`: the keys here are name, systemPrompt, model, run, context, hooks, tools, blobs, approvals, mcpServers, retry, models, gateway, server, telemetry, agents");
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
    let current = format!("{:#}\n", Config::json_schema());
    assert!(
        committed == current,
        "run: cargo run -p longhaul --example config-schema > docs/longhaul.schema.json"
    );
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = Config::parse(&text, "f");
    }

    #[test]
    fn a_damaged_reference_is_read_or_refused(at in 0usize..6000, insert in "[-:{}\\[\\]#&*!|>'\"%@`a0 \n]{0,4}", cut in 0usize..40) {
        let mut text: Vec<char> = Config::reference().chars().collect();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        text.splice(at..end, insert.chars());
        let text: String = text.into_iter().collect();
        if let Err(error) = Config::parse(&text, "f") {
            prop_assert!(!error.problems.is_empty());
        }
    }
}
