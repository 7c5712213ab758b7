//! `pruning-agent`: a model is given the conversation as JSON and says what stays.

use super::{CompactionSelection, CompactionStrategy, ProtectionLevel, UnitReplacement};
use crate::budget::StrategyTrigger;
use crate::plan::PlanContext;

/// Messages that stay as they are in any case, and where there is room.
const INTACT: [usize; 2] = [5, 3];

/// Messages that stay where the agent's answer is no good.
const KEPT_WITHOUT_AGENT: usize = 5;

/// Has an agent prune.
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

    /// The newest five messages stay intact if the rest could make enough room, else the newest three.
    fn choose(&self, scene: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection> {
        let cuts = match protection {
            ProtectionLevel::Turns => INTACT.map(|count| scene.newest_messages_from(count)),
            ProtectionLevel::Steps => [scene.newest_messages_from(KEPT_WITHOUT_AGENT), scene.step_start(1)],
            ProtectionLevel::Step => return None,
        };
        let fits =
            |cut: &usize| *cut > 0 && scene.would_fit(&scene.before_cut(*cut), self.max_summary_tokens / 4);
        let cut = cuts.into_iter().find(fits)?;
        let pruned = UnitReplacement::Pruned { tokens: self.max_summary_tokens };
        Some(CompactionSelection::new(scene.before_cut(cut), pruned))
    }
}
