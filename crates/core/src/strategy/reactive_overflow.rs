//! `reactive-overflow`: when the room is full, everything but the newest turns becomes a summary.

use super::{Choice, Instead, Protection, Strategy};
use crate::budget::Trigger;
use crate::plan::Scene;

/// The default strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReactiveOverflow {
    /// Turns kept verbatim.
    pub preserve_last_n_turns: usize,
    /// The most that a summary may have, in tokens.
    pub max_summary_tokens: u64,
}

impl Default for ReactiveOverflow {
    fn default() -> Self {
        Self { preserve_last_n_turns: 2, max_summary_tokens: 2_000 }
    }
}

impl Strategy for ReactiveOverflow {
    fn name(&self) -> &str {
        "reactive-overflow"
    }

    fn trigger(&self) -> Trigger {
        Trigger::Overflow
    }

    fn choose(&self, scene: &Scene<'_>, protection: Protection) -> Option<Choice> {
        let cut = scene.protected_from(protection, self.preserve_last_n_turns);
        let summary = Instead::Summary { tokens: self.max_summary_tokens };
        (cut > 0).then(|| Choice::new(scene.before_cut(cut), summary))
    }
}
