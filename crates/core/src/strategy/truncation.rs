//! `truncation`: the newest messages stay, everything older goes; no model call.

use super::{Choice, Instead, Protection, Strategy};
use crate::budget::Trigger;
use crate::plan::Scene;

/// Keeps the newest messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// How many messages stay; a step is kept whole, so that a few more may.
    pub keep_recent: usize,
}

impl Default for Truncation {
    fn default() -> Self {
        Self { keep_recent: 10 }
    }
}

impl Strategy for Truncation {
    fn name(&self) -> &str {
        "truncation"
    }

    fn trigger(&self) -> Trigger {
        Trigger::Share(0.85)
    }

    fn choose(&self, scene: &Scene<'_>, protection: Protection) -> Option<Choice> {
        let cut = match protection {
            Protection::Turns => scene.newest_messages_from(self.keep_recent),
            Protection::Steps => scene.step_start(2),
            // The last resort keeps whatever fits beside it.
            Protection::Step => return None,
        };
        (cut > 0).then(|| Choice::new(scene.before_cut(cut), Instead::Note))
    }
}
