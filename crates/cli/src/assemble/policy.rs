//! The configured policy that keeps the context in bounds.

use std::sync::Arc;

use longhaul::config::{AgentConfig, ProviderKind, StrategyKind, TriggerConfig};
use longhaul_core::budget::StrategyTrigger;
use longhaul_core::ids::Millis;
use longhaul_core::plan::{CompactionPolicy, PruneOptions, TokenPrices};
use longhaul_core::strategy::{
    AdaptiveStrategy, CompactionStrategy, ImportanceStrategy, MiddleRemovalStrategy,
    ProactiveThresholdStrategy, PruningAgentStrategy, ReactiveOverflowStrategy, SummarizationStrategy,
    TruncationStrategy,
};
use longhaul_wire::catalog::{self, TokenRates};

/// Returns the configured compaction policy, without the model that writes summaries.
pub(crate) fn policy(config: &AgentConfig) -> CompactionPolicy {
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
        prices: prices(config),
        auto_recall: config.context.auto_recall,
        user_text_share: config.context.user_text_share,
        summary_timeout_ms: u64::try_from(options.summary_timeout.as_millis()).unwrap_or(u64::MAX),
        ..CompactionPolicy::new(strategy(config))
    }
}

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

fn trigger(configured: TriggerConfig) -> StrategyTrigger {
    match configured {
        TriggerConfig::Overflow => StrategyTrigger::Overflow,
        TriggerConfig::Manual => StrategyTrigger::Manual,
        TriggerConfig::Share(share) => StrategyTrigger::Share(share),
        TriggerConfig::Tokens(tokens) => StrategyTrigger::Tokens(tokens),
        TriggerConfig::Planner => StrategyTrigger::Planner,
    }
}

/// Returns the declared prices of a model.
pub(crate) fn rates(config: &AgentConfig, model: &str) -> Option<TokenRates> {
    let prices = config.models.get(model)?.prices?;
    Some(TokenRates {
        input: prices.input,
        cached: prices.cached_input,
        write: prices.cache_write,
        output: prices.output,
    })
}

/// Returns the declared prices of the configured model, else its maker's list prices where they hold.
pub(super) fn prices(config: &AgentConfig) -> Option<TokenPrices> {
    let model = &config.model;
    // Planning is about requests of the usual length.
    let listed = || catalog::prices(&model.name, &model.base_url).map(|prices| prices.at(0));
    let rates = rates(config, &model.name).or_else(listed)?;
    Some(TokenPrices {
        input: rates.input,
        cache_read: rates.cached.unwrap_or(rates.input),
        cache_write: rates.write.unwrap_or(rates.input),
        output: rates.output,
        cache_life_ms: cache_life_ms(model.provider),
    })
}

/// Returns the time that a provider keeps an unused prefix. The figures are from the providers' own pages on
/// prompt caching: Anthropic's default is 5 minutes, OpenAI says 5 to 10, Gemini promises minutes. A server
/// of one's own keeps a prefix as long as it has room: an hour is a guess.
fn cache_life_ms(provider: ProviderKind) -> Millis {
    let minutes = match provider {
        ProviderKind::Anthropic => 5,
        ProviderKind::Openai | ProviderKind::Gemini => 10,
        ProviderKind::OpenaiCompatible | ProviderKind::Ollama | ProviderKind::Scripted => 60,
    };
    minutes * 60_000
}

#[cfg(test)]
mod tests {
    use longhaul_core::budget::Budget;
    use longhaul_core::history::History;
    use longhaul_core::plan::{self, Plan, PlanTrigger};
    use longhaul_core::strategy::NAMES;
    use longhaul_lab::synthetic;

    use super::*;

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
        policy(&AgentConfig::parse(text, "test").unwrap())
    }

    fn with(strategy: &str, option: &str) -> CompactionPolicy {
        configured(&format!(
            "context: {{ compression: {{ strategy: {strategy}, options: {{ {option} }} }} }}"
        ))
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
        let waits = |option| with("adaptive", option).strategy.waits();
        assert_eq!([waits("background: true"), waits("background: false")], [false, true]);
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
        let priced = |provider: &str, name: &str, prices: &str| {
            configured(&format!(
                "model: {{ provider: {provider}, name: {name} }}\nmodels: {{ m: {{ prices: {prices} }} }}"
            ))
            .prices
        };
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
        let life = |provider| priced(provider, "m", all).map(|prices| prices.cache_life_ms / 60_000);
        let lives = ["openai", "gemini", "openai-compatible", "ollama", "scripted"].map(life);
        assert_eq!(lives, [Some(10), Some(10), Some(60), Some(60), Some(60)]);
    }
}
