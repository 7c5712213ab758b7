//! `reactive-overflow`: when the room is full, all but the newest turns become a summary.

use super::{CompactionSelection, CompactionStrategy, ProtectionLevel, UnitReplacement};
use crate::budget::StrategyTrigger;
use crate::plan::PlanContext;

/// The strategy that summarises once, when the window is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReactiveOverflowStrategy {
    /// The number of newest turns that stay verbatim.
    pub preserve_last_n_turns: usize,
    /// The most that a summary may have, in tokens.
    pub max_summary_tokens: u64,
}

impl Default for ReactiveOverflowStrategy {
    fn default() -> Self {
        Self { preserve_last_n_turns: 2, max_summary_tokens: 2_000 }
    }
}

impl CompactionStrategy for ReactiveOverflowStrategy {
    fn name(&self) -> &str {
        "reactive-overflow"
    }

    fn trigger(&self) -> StrategyTrigger {
        StrategyTrigger::Overflow
    }

    fn choose(&self, context: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection> {
        let cut = context.units.protected_from(protection, self.preserve_last_n_turns);
        let summary = UnitReplacement::Summary { tokens: self.max_summary_tokens };
        (cut > 0).then(|| {
            let mut selection = CompactionSelection::new(context.units.before_cut(cut), summary);
            if !context.is_requested() {
                let target = context.document_target().saturating_sub(self.max_summary_tokens / 2);
                context.keep_documents(&mut selection, target);
            }
            selection
        })
    }
}
