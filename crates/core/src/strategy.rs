//! How to compact: one trait, chosen by name in the configuration.

use std::sync::Arc;

use crate::budget::Trigger;
use crate::plan::Scene;

mod middle_removal;
mod reactive_overflow;
mod truncation;

pub use middle_removal::MiddleRemoval;
pub use reactive_overflow::ReactiveOverflow;
pub use truncation::Truncation;

/// A way to compact. It only chooses what goes; the planner checks the floor, keeps the newest typed message,
/// keeps calls with their results (units are whole), and builds the edit.
pub trait Strategy: Send + Sync {
    /// Its name in configuration and events.
    fn name(&self) -> &str;

    /// When it acts, unless the configuration says otherwise.
    fn trigger(&self) -> Trigger;

    /// Chooses what goes, `None` if nothing can. Asked again with tighter protection if the first choice
    /// does not get under the trigger.
    fn choose(&self, scene: &Scene<'_>, protection: Protection) -> Option<Choice>;
}

/// What stays in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// The newest turns.
    Turns,
    /// The newest two steps and the newest typed message: when the turns alone exceed the trigger.
    Steps,
}

/// What goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// For each unit, whether it goes.
    pub gone: Vec<bool>,
    /// If it is to be summarised: the most that the summary may have, in tokens.
    pub summary_tokens: Option<u64>,
}

/// The strategy of that name with its default options.
pub fn by_name(name: &str) -> Option<Arc<dyn Strategy>> {
    match name {
        "reactive-overflow" => Some(Arc::new(ReactiveOverflow::default())),
        "middle-removal" => Some(Arc::new(MiddleRemoval::default())),
        "truncation" => Some(Arc::new(Truncation::default())),
        _ => None,
    }
}
