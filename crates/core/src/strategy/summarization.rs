//! `summarization`: old messages become short summaries, each of a fixed number of messages.

use super::{CompactionSelection, CompactionStrategy, ProtectionLevel, UnitReplacement};
use crate::budget::StrategyTrigger;
use crate::history::ViewUnitKind;
use crate::plan::PlanContext;

/// The strategy that summarises chapter by chapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummarizationStrategy {
    /// The number of newest messages that stay unchanged. Steps stay whole, so the number may be larger.
    pub keep_recent: usize,
    /// The number of messages in a chapter.
    pub summarize_chunk_size: usize,
    /// The most that each summary may have, in tokens.
    pub max_summary_tokens: u64,
}

impl Default for SummarizationStrategy {
    fn default() -> Self {
        Self { keep_recent: 10, summarize_chunk_size: 20, max_summary_tokens: 500 }
    }
}

impl CompactionStrategy for SummarizationStrategy {
    fn name(&self) -> &str {
        "summarization"
    }

    fn trigger(&self) -> StrategyTrigger {
        StrategyTrigger::Share(0.85)
    }

    /// Selects messages outside earlier summaries, so that the beginning of every request stays the same. When the
    /// summaries themselves take too much room, all old messages become one summary.
    fn choose(&self, context: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection> {
        let (cut, replacement) = match protection {
            ProtectionLevel::Turns => {
                let tokens = self.max_summary_tokens;
                let chapters = UnitReplacement::Chapters { tokens, messages: self.summarize_chunk_size };
                (context.units.newest_messages_from(self.keep_recent), chapters)
            }
            ProtectionLevel::Steps | ProtectionLevel::Step => {
                let cut = context.units.step_start(protection.steps());
                (cut, UnitReplacement::Summary { tokens: self.max_summary_tokens.saturating_mul(2) })
            }
        };
        let mut dropped = context.units.before_cut(cut);
        // Summaries of earlier chapters stay, so that the provider's cache holds up to the first new chapter.
        if protection == ProtectionLevel::Turns {
            for (dropped, unit) in dropped.iter_mut().zip(context.units.iter()) {
                *dropped &= unit.kind != ViewUnitKind::Compacted;
            }
        }
        dropped.contains(&true).then(|| CompactionSelection::new(dropped, replacement))
    }
}
