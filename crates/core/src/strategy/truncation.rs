//! `truncation`: the newest messages stay, and all older ones are dropped; no model call.

use super::{CompactionSelection, CompactionStrategy, ProtectionLevel, UnitReplacement};
use crate::budget::StrategyTrigger;
use crate::plan::PlanContext;

/// The strategy that keeps the newest messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruncationStrategy {
    /// The number of newest messages that stay. Steps stay whole, so the number may be larger.
    pub keep_recent: usize,
}

impl Default for TruncationStrategy {
    fn default() -> Self {
        Self { keep_recent: 10 }
    }
}

impl CompactionStrategy for TruncationStrategy {
    fn name(&self) -> &str {
        "truncation"
    }

    fn trigger(&self) -> StrategyTrigger {
        StrategyTrigger::Share(0.85)
    }

    fn choose(&self, context: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection> {
        let cut = match protection {
            ProtectionLevel::Turns => context.units.newest_messages_from(self.keep_recent),
            ProtectionLevel::Steps => context.units.step_start(2),
            // The planner's last resort keeps the newest step and any other messages that fit.
            ProtectionLevel::Step => return None,
        };
        (cut > 0).then(|| CompactionSelection::new(context.units.before_cut(cut), UnitReplacement::Note))
    }
}
