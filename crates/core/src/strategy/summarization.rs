//! `summarization`: old messages become short summaries, so many messages at a time.

use super::{Choice, Instead, Protection, Strategy};
use crate::budget::Trigger;
use crate::history::UnitKind;
use crate::plan::Scene;

/// Summarises chapter by chapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summarization {
    /// The newest messages that stay as they are; a step is kept whole, so that a few more may.
    pub keep_recent: usize,
    /// Messages in a chapter.
    pub summarize_chunk_size: usize,
    /// The most that each summary may have, in tokens.
    pub max_summary_tokens: u64,
}

impl Default for Summarization {
    fn default() -> Self {
        Self { keep_recent: 10, summarize_chunk_size: 20, max_summary_tokens: 500 }
    }
}

impl Strategy for Summarization {
    fn name(&self) -> &str {
        "summarization"
    }

    fn trigger(&self) -> Trigger {
        Trigger::Share(0.85)
    }

    /// Chapters that were summarised before stay, and with them the beginning of every request; when the summaries
    /// themselves are too much, everything old becomes one.
    fn choose(&self, scene: &Scene<'_>, protection: Protection) -> Option<Choice> {
        let (cut, instead) = match protection {
            Protection::Turns => {
                let tokens = self.max_summary_tokens;
                let chapters = Instead::Chapters { tokens, messages: self.summarize_chunk_size };
                (scene.newest_messages_from(self.keep_recent), chapters)
            }
            Protection::Steps | Protection::Step => {
                let cut = scene.step_start(protection.steps());
                (cut, Instead::Summary { tokens: self.max_summary_tokens.saturating_mul(2) })
            }
        };
        let mut gone = scene.before_cut(cut);
        if protection == Protection::Turns {
            for (gone, unit) in gone.iter_mut().zip(&scene.units) {
                *gone &= unit.kind != UnitKind::Compacted;
            }
        }
        gone.contains(&true).then(|| Choice::new(gone, instead))
    }
}
