//! `pruning-agent`: a model reads the conversation as JSON and decides which messages stay.

use super::{CompactionSelection, CompactionStrategy, ProtectionLevel, UnitReplacement};
use crate::budget::StrategyTrigger;
use crate::plan::PlanContext;

/// The numbers of newest messages that stay unchanged: the first where there is room, the second in any case.
const INTACT: [usize; 2] = [5, 3];

/// The number of newest messages that stay if the agent's answer is unusable.
const KEPT_WITHOUT_AGENT: usize = 5;

/// The strategy that lets a model prune.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruningAgentStrategy {
    /// The most that the agent's summary may have, in tokens.
    pub max_summary_tokens: u64,
}

impl Default for PruningAgentStrategy {
    fn default() -> Self {
        Self { max_summary_tokens: 2_000 }
    }
}

impl CompactionStrategy for PruningAgentStrategy {
    fn name(&self) -> &str {
        "pruning-agent"
    }

    fn trigger(&self) -> StrategyTrigger {
        StrategyTrigger::Share(0.8)
    }

    fn prunes_first(&self) -> bool {
        false
    }

    /// Selects all but the newest five messages if the rest makes enough room, else all but the newest three.
    fn choose(&self, context: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection> {
        let cuts = match protection {
            ProtectionLevel::Turns => INTACT.map(|count| context.units.newest_messages_from(count)),
            ProtectionLevel::Steps => {
                [context.units.newest_messages_from(KEPT_WITHOUT_AGENT), context.units.step_start(1)]
            }
            // The agent needs messages to choose from, and the planner's last resort serves a single step.
            ProtectionLevel::Step => return None,
        };
        // The agent decides how much stays, so only a quarter of the summary's limit must fit beforehand.
        let least = self.max_summary_tokens / 4;
        let cut = cuts
            .into_iter()
            .find(|cut| *cut > 0 && context.would_fit(&context.units.before_cut(*cut), least))?;
        let pruned = UnitReplacement::Pruned { tokens: self.max_summary_tokens };
        Some(CompactionSelection::new(context.units.before_cut(cut), pruned))
    }
}
