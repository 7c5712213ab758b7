//! The strategy of `fit`, which keeps as many messages as the window holds.

use crate::budget::StrategyTrigger;
use crate::plan::PlanContext;
use crate::strategy::{
    AdaptiveStrategy, CompactionSelection, CompactionStrategy, ProtectionLevel, ThresholdInput,
    TriggerThreshold, UnitReplacement,
};

/// The maximum share of the usable window for fitted messages. A session goes down to 0.4, because the next
/// edit should be far away. A caller of `fit` has asked for the whole window.
const FILLED_SHARE: f64 = 0.9;

/// The strategy: [`AdaptiveStrategy`] down to [`FILLED_SHARE`], which clears only as many old tool results as needed. A
/// session clears all of them at once, because each edit costs the provider's cache. A list is fitted once.
pub(super) struct WindowFillingStrategy(AdaptiveStrategy);

impl Default for WindowFillingStrategy {
    /// Creates the strategy with room for an extract, which is shorter than a model's summary.
    fn default() -> Self {
        Self(AdaptiveStrategy {
            low_target: FILLED_SHARE,
            ledger_tokens: 1_500,
            max_summary_tokens: 500,
            ..AdaptiveStrategy::default()
        })
    }
}

impl CompactionStrategy for WindowFillingStrategy {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn trigger(&self) -> StrategyTrigger {
        self.0.trigger()
    }

    fn prunes_first(&self) -> bool {
        self.0.prunes_first()
    }

    fn threshold(&self, input: &ThresholdInput<'_>) -> TriggerThreshold {
        self.0.threshold(input)
    }

    fn choose(&self, context: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection> {
        let mut selection = self.0.choose(context, protection)?;
        let target = (context.budget.usable as f64 * FILLED_SHARE) as u64;
        let added = added_tokens(selection.replacement);
        // Each cleared result makes the request smaller, so a binary search finds the smallest number.
        let (mut low, mut high) = (0, selection.cleared.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let bound =
                context.after_dropping(&selection.dropped, &selection.cleared[..middle], added).bound();
            if bound < target { high = middle } else { low = middle + 1 }
        }
        selection.cleared.truncate(low);
        Some(selection)
    }
}

/// Returns the maximum tokens of the text that replaces the dropped messages.
fn added_tokens(replacement: UnitReplacement) -> u64 {
    match replacement {
        UnitReplacement::Ledger { ledger_tokens, tokens }
        | UnitReplacement::Extract { ledger_tokens, tokens } => ledger_tokens + tokens,
        UnitReplacement::Summary { tokens }
        | UnitReplacement::Pruned { tokens }
        | UnitReplacement::Chapters { tokens, .. } => tokens,
        UnitReplacement::Note => 0,
    }
}
