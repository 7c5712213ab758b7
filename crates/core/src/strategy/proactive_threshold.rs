//! `proactive-threshold`: at half the window everything but the newest part becomes a summary.

use super::{Choice, Instead, Protection, Strategy};
use crate::budget::Trigger;
use crate::plan::Scene;

/// Summarises early and keeps a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProactiveThreshold {
    /// The newest share of the conversation that stays, in tokens, 0 to 1.
    pub preserve_ratio: f64,
    /// The most that a summary may have, in tokens.
    pub max_summary_tokens: u64,
}

impl Default for ProactiveThreshold {
    fn default() -> Self {
        Self { preserve_ratio: 0.3, max_summary_tokens: 2_000 }
    }
}

impl Strategy for ProactiveThreshold {
    fn name(&self) -> &str {
        "proactive-threshold"
    }

    fn trigger(&self) -> Trigger {
        Trigger::Share(0.5)
    }

    fn choose(&self, scene: &Scene<'_>, protection: Protection) -> Option<Choice> {
        let cut = match protection {
            Protection::Turns => {
                scene.newest_tokens_from((scene.history.view_tokens() as f64 * self.preserve_ratio) as u64)
            }
            Protection::Steps | Protection::Step => scene.step_start(protection.steps()),
        };
        let summary = Instead::Summary { tokens: self.max_summary_tokens };
        (cut > 0).then(|| Choice::new(scene.before_cut(cut), summary))
    }
}
