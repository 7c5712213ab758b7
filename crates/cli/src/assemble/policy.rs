//! How the context is kept in bounds, as configured.

use std::sync::Arc;

use longhaul::config::{Config, StrategyKind, TriggerConfig};
use longhaul_core::budget::Trigger;
use longhaul_core::plan::{Policy, PruneOptions};
use longhaul_core::strategy::{MiddleRemoval, ReactiveOverflow, Strategy, Truncation};

pub(super) fn policy(config: &Config) -> Policy {
    let compression = &config.context.compression;
    let options = &compression.options;
    Policy {
        enabled: config.context.enabled,
        trigger: compression.trigger.map(trigger),
        prune: PruneOptions {
            protect_tokens: options.prune_protect_tokens,
            minimum_tokens: options.prune_minimum_tokens,
            protected_tools: options.protected_tools.clone(),
        },
        ..Policy::new(strategy(config))
    }
}

fn strategy(config: &Config) -> Arc<dyn Strategy> {
    let compression = &config.context.compression;
    let options = &compression.options;
    match compression.strategy {
        StrategyKind::ReactiveOverflow => Arc::new(ReactiveOverflow {
            preserve_last_n_turns: options.preserve_last_n_turns as usize,
            max_summary_tokens: options.max_summary_tokens,
        }),
        StrategyKind::MiddleRemoval => Arc::new(MiddleRemoval { keep_tokens: options.keep_tokens }),
        StrategyKind::Truncation => Arc::new(Truncation { keep_recent: options.keep_recent }),
    }
}

/// At true overflow every strategy acts, `manual` included: that is all that `manual` does by itself.
fn trigger(configured: TriggerConfig) -> Trigger {
    match configured {
        TriggerConfig::Overflow | TriggerConfig::Manual => Trigger::Overflow,
        TriggerConfig::Share(share) => Trigger::Share(share),
        TriggerConfig::Tokens(tokens) => Trigger::Tokens(tokens),
    }
}
