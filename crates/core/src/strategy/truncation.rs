//! `truncation`: the newest messages stay, everything older goes; no model call.

use super::{CompactionSelection, CompactionStrategy, ProtectionLevel, UnitReplacement};
use crate::budget::StrategyTrigger;
use crate::plan::PlanContext;

/// Keeps the newest messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruncationStrategy {
    /// How many messages stay; a step is kept whole, so that a few more may.
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

    fn choose(&self, scene: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection> {
        let cut = match protection {
            ProtectionLevel::Turns => scene.newest_messages_from(self.keep_recent),
            ProtectionLevel::Steps => scene.step_start(2),
            // The last resort keeps whatever fits beside it.
            ProtectionLevel::Step => return None,
        };
        (cut > 0).then(|| CompactionSelection::new(scene.before_cut(cut), UnitReplacement::Note))
    }
}
