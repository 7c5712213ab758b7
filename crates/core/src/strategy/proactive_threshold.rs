//! `proactive-threshold`: at half the window all but the newest part becomes a summary.

use super::{CompactionSelection, CompactionStrategy, ProtectionLevel, UnitReplacement};
use crate::budget::StrategyTrigger;
use crate::plan::PlanContext;

/// The strategy that summarises early and keeps a share of the conversation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProactiveThresholdStrategy {
    /// The newest share of the conversation that stays, 0 to 1 of its tokens.
    pub preserve_ratio: f64,
    /// The most that a summary may have, in tokens.
    pub max_summary_tokens: u64,
}

impl Default for ProactiveThresholdStrategy {
    fn default() -> Self {
        Self { preserve_ratio: 0.3, max_summary_tokens: 2_000 }
    }
}

impl CompactionStrategy for ProactiveThresholdStrategy {
    fn name(&self) -> &str {
        "proactive-threshold"
    }

    fn trigger(&self) -> StrategyTrigger {
        StrategyTrigger::Share(0.5)
    }

    fn choose(&self, context: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection> {
        let cut = match protection {
            ProtectionLevel::Turns => context
                .units
                .newest_tokens_from((context.history.view_tokens() as f64 * self.preserve_ratio) as u64),
            ProtectionLevel::Steps | ProtectionLevel::Step => context.units.step_start(protection.steps()),
        };
        let summary = UnitReplacement::Summary { tokens: self.max_summary_tokens };
        (cut > 0).then(|| CompactionSelection::new(context.units.before_cut(cut), summary))
    }
}
