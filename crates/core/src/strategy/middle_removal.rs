//! `middle-removal`: the first turn and as many of the newest messages as fit stay; no model call.

use super::{Choice, Instead, Protection, Strategy};
use crate::budget::Trigger;
use crate::plan::Scene;

/// Keeps both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MiddleRemoval {
    /// What is kept, in tokens of the whole request; by default the trigger.
    pub keep_tokens: Option<u64>,
}

impl Strategy for MiddleRemoval {
    fn name(&self) -> &str {
        "middle-removal"
    }

    fn trigger(&self) -> Trigger {
        Trigger::Share(0.8)
    }

    /// The kept part ends one growth step below the trigger, so that the next edit is not due at once.
    fn choose(&self, scene: &Scene<'_>, protection: Protection) -> Option<Choice> {
        let head = match protection {
            Protection::Turns => scene.first_turn_end(),
            Protection::Steps => scene.first_typed_end(),
        };
        let target = self.keep_tokens.unwrap_or(scene.trigger).min(scene.trigger);
        let target = target.saturating_sub(scene.budget.progress());
        let gone = scene.smallest_gap(head, target)?;
        Some(Choice::new(gone, Instead::Note))
    }
}
