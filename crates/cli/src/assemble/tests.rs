//! The parts of an agent, as a file sets them.

use crate::lab::synthetic;
use longhaul::config_agent;
use longhaul_core::budget::{Budget, StrategyTrigger};
use longhaul_core::history::History;
use longhaul_core::plan::{self, CompactionPolicy, Plan, PlanTrigger, TokenPrices};
use longhaul_core::strategy::NAMES;

use super::*;

/// The reason in the denial of a rule.
const BY_RULE: &str = "a rule of the configuration denies it";

/// Each option at a value that is not its default; `background` shows itself elsewhere.
const OPTIONS: &[(&str, &[&str])] = &[
    ("reactive-overflow", &["preserveLastNTurns: 9", "maxSummaryTokens: 300"]),
    ("proactive-threshold", &["preserveRatio: 0.1", "maxSummaryTokens: 300"]),
    ("middle-removal", &["keepTokens: 9000"]),
    ("truncation", &["keepRecent: 5"]),
    (
        "importance",
        &[
            "keepRecent: 5",
            "userMessageScore: 0",
            "assistantMessageScore: 2.5",
            "toolUseScore: 0.1",
            "minScoreThreshold: 3",
        ],
    ),
    ("summarization", &["keepRecent: 5", "summarizeChunkSize: 50", "maxSummaryTokens: 300"]),
    ("pruning-agent", &["maxSummaryTokens: 300"]),
    ("adaptive", &["lowTarget: 0.7", "preserveLastNTurns: 9", "maxSummaryTokens: 300"]),
];

fn configured(text: &str) -> CompactionPolicy {
    config_agent::compaction_policy(&AgentConfig::parse(text, "test").unwrap())
}

fn with(strategy: &str, option: &str) -> CompactionPolicy {
    configured(&format!("context: {{ compression: {{ strategy: {strategy}, options: {{ {option} }} }} }}"))
}

/// A support agent's morning, in a window that it fills.
fn planned(policy: &CompactionPolicy) -> Plan {
    let recording = synthetic::support(1, 60).unwrap();
    let history = History::fold(&recording.events).unwrap();
    let budget = Budget::new(24_000, None);
    plan::plan(&history, recording.fixed_tokens, &budget, policy, &PlanTrigger::Routine)
}

#[test]
fn every_strategy_is_built_with_the_options_of_the_file() {
    assert_eq!(OPTIONS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), NAMES);
    let mut unheard: Vec<&str> = Vec::new();
    for (name, options) in OPTIONS {
        let plain = planned(&with(name, ""));
        let by = match &plain {
            Plan::Edit(edit) => edit.strategy.as_str(),
            Plan::Summarise(draft) => draft.strategy(),
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!((with(name, "").strategy.name(), by), (*name, *name));
        unheard.extend(options.iter().copied().filter(|option| planned(&with(name, option)) == plain));
    }
    assert_eq!(unheard, [""; 0]);
    assert_eq!([waits("background: true"), waits("background: false")], [false, true]);
}

fn waits(option: &str) -> bool {
    with("adaptive", option).strategy.waits_for_summary()
}

#[test]
fn without_options_a_strategy_is_as_the_core_has_it() {
    for name in NAMES {
        let own = CompactionPolicy::new(longhaul_core::strategy::by_name(name).unwrap());
        assert_eq!(planned(&with(name, "")), planned(&own), "{name}");
    }
}

#[test]
fn the_policy_is_as_the_file_says() {
    let plain = configured("{}");
    assert_eq!((plain.auto_recall, plain.summary_timeout_ms, plain.prices), (false, 300_000, None));
    assert!(configured("context: { autoRecall: true }").auto_recall);
    assert_eq!(plain.user_text_share, 0.5);
    assert_eq!(configured("context: { userTextShare: 0.2 }").user_text_share, 0.2);
    assert_eq!(with("adaptive", "summaryTimeout: 90s").summary_timeout_ms, 90_000);
    let prune =
        with("truncation", "pruneProtectTokens: 7, pruneMinimumTokens: 5, protectedTools: [read]").prune;
    assert_eq!((prune.protect_tokens, prune.minimum_tokens), (7, 5));
    assert_eq!(prune.protected_tools, ["read"]);
    let planner = "context: { compression: { strategy: adaptive, trigger: { type: planner } } }";
    assert_eq!(configured(planner).trigger, Some(StrategyTrigger::Planner));
}

#[test]
fn prices_are_those_of_the_configured_model() {
    let all = "{ input: 3, cachedInput: 0.3, cacheWrite: 3.75, output: 15 }";
    let anthropic = TokenPrices {
        input: 3.0,
        cache_read: 0.3,
        cache_write: 3.75,
        output: 15.0,
        cache_life_ms: 5 * 60_000,
    };
    assert_eq!(priced("anthropic", "m", all), Some(anthropic));
    assert_eq!(priced("anthropic", "other", all), None);
    // Of a model that is in the catalogue nothing need be declared, where its list prices hold.
    let listed = priced("anthropic", "claude-sonnet-4-5", all).unwrap();
    assert!(listed.cache_read < listed.input && listed.input < listed.cache_write);
    let at_home = "model: { name: glm-4.6, base_url: \"http://localhost:1234/v1\" }";
    assert_eq!(configured(at_home).prices, None);
    let flat = priced("anthropic", "m", "{ input: 3, output: 15 }");
    assert_eq!(flat, Some(TokenPrices { cache_read: 3.0, cache_write: 3.0, ..anthropic }));
    let lives = ["openai", "gemini", "openai-compatible", "ollama", "scripted"]
        .map(|provider| priced(provider, "m", all).map(|prices| prices.cache_life_ms / 60_000));
    assert_eq!(lives, [Some(10), Some(10), Some(60), Some(60), Some(60)]);
}

fn priced(provider: &str, name: &str, prices: &str) -> Option<TokenPrices> {
    configured(&format!(
        "model: {{ provider: {provider}, name: {name} }}\nmodels: {{ m: {{ prices: {prices} }} }}"
    ))
    .prices
}

fn approval_of(file: &str, asking: ToolApprovalMode, tool: &str) -> ToolApproval {
    let config = AgentConfig::parse(file, "test").unwrap();
    let rules = asking.agent_rules(&config, &ToolSet::builtin());
    rules.approvals.get(tool).cloned().unwrap_or(rules.default_approval)
}

#[test]
fn the_first_rule_that_fits_decides() {
    let file = "approvals: { rules: [{ tool: bash, decision: deny }, { tool: '*', decision: allow }] }";
    assert_eq!(approval_of(file, ToolApprovalMode::Person, "bash"), ToolApproval::Deny(BY_RULE.to_owned()));
    assert_eq!(approval_of(file, ToolApprovalMode::Person, "edit"), ToolApproval::Allow);
    assert_eq!(approval_of("{}", ToolApprovalMode::Person, "bash"), ToolApproval::Ask);
}

#[test]
fn rules_over_arguments_come_before_the_one_for_all_calls() {
    let file = "approvals: { rules: [{ tool: bash, match: { command: 'git *' }, decision: allow }, { tool: 'b*', match: { command: '*push*' }, decision: deny }, { tool: bash, decision: ask }, { tool: bash, decision: allow }] }";
    let decide = |asking, command: &str| match approval_of(file, asking, "bash") {
        ToolApproval::Matching(matching) => matching.decide(&format!("{{\"command\":\"{command}\"}}")),
        other => other,
    };
    assert_eq!(decide(ToolApprovalMode::Person, "git status"), ToolApproval::Allow);
    assert_eq!(decide(ToolApprovalMode::Person, "hub push"), ToolApproval::Deny(BY_RULE.to_owned()));
    assert_eq!(decide(ToolApprovalMode::Person, "ls"), ToolApproval::Ask);
    assert_eq!(decide(ToolApprovalMode::Nobody, "ls"), ToolApproval::Deny(NO_PERSON.to_owned()));
    assert_eq!(decide(ToolApprovalMode::Nobody, "git status"), ToolApproval::Allow);
    assert_eq!(approval_of(file, ToolApprovalMode::Person, "edit"), ToolApproval::Ask);
}

#[test]
fn what_is_allowed_beforehand_is_never_what_a_rule_denies() {
    let file = "approvals: { rules: [{ tool: bash, decision: deny }, { tool: edit, decision: ask }] }";
    assert_eq!(approval_of(file, ToolApprovalMode::Allowed, "bash"), ToolApproval::Deny(BY_RULE.to_owned()));
    assert_eq!(approval_of(file, ToolApprovalMode::Allowed, "edit"), ToolApproval::Allow);
    assert_eq!(approval_of(file, ToolApprovalMode::Nobody, "edit"), ToolApproval::Deny(NO_PERSON.to_owned()));
}

#[test]
fn a_command_that_a_rule_may_forbid_is_asked_about_only_where_a_person_is() {
    let file = "approvals: { rules: [{ tool: bash, match: { command: 'git push*' }, decision: deny }, { tool: bash, decision: allow }] }";
    let config = AgentConfig::parse(file, "test").unwrap();
    let unclear =
        |asking: ToolApprovalMode| asking.agent_rules(&config, &ToolSet::builtin()).unclear_approval;
    for asking in [ToolApprovalMode::Person, ToolApprovalMode::Allowed] {
        assert_eq!(unclear(asking), ToolApproval::Ask, "{asking:?}");
    }
    for asking in [ToolApprovalMode::Nobody, ToolApprovalMode::AllowedUnattended] {
        assert_eq!(unclear(asking), ToolApproval::Deny(UNCLEAR_COMMAND.to_owned()), "{asking:?}");
    }
}

#[test]
fn an_address_without_its_scheme_is_guessed() {
    assert_eq!(suggested("localhost:1234").as_deref(), Some("http://localhost:1234/v1"));
    assert_eq!(suggested("10.0.0.7:8000/").as_deref(), Some("http://10.0.0.7:8000/v1"));
    assert_eq!(suggested("box/openai/v1/").as_deref(), Some("http://box/openai/v1"));
    assert_eq!(suggest_base_url("localhost:11434", Kind::Ollama).as_deref(), Some("http://localhost:11434"));
    for url in
        ["", "http://localhost:1234", "ftp://localhost", "two words", "me:secret@box:1234", "box?key=secret"]
    {
        assert_eq!(suggested(url), None, "{url}");
    }
}

fn suggested(url: &str) -> Option<String> {
    suggest_base_url(url, Kind::OpenAiCompatible)
}
