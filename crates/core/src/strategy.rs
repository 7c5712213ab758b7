//! How to compact: one trait, chosen by name in the configuration.

use std::sync::Arc;

use crate::budget::StrategyTrigger;
use crate::event::ViewEdit;
use crate::history::History;
use crate::plan::PlanContext;

mod adaptive;
mod importance;
mod middle_removal;
mod proactive_threshold;
mod pruning_agent;
mod reactive_overflow;
mod summarization;
mod truncation;

pub use adaptive::AdaptiveStrategy;
pub use importance::ImportanceStrategy;
pub use middle_removal::MiddleRemovalStrategy;
pub use proactive_threshold::ProactiveThresholdStrategy;
pub use pruning_agent::PruningAgentStrategy;
pub use reactive_overflow::ReactiveOverflowStrategy;
pub use summarization::SummarizationStrategy;
pub use truncation::TruncationStrategy;

/// A way to compact. It only chooses what goes; the planner checks the floor, keeps the newest typed message,
/// keeps calls with their results (units are whole), and builds the edit.
///
/// ```
/// use longhaul_core::budget::StrategyTrigger;
/// use longhaul_core::plan::PlanContext;
/// use longhaul_core::strategy::{CompactionSelection, UnitReplacement, ProtectionLevel, CompactionStrategy};
///
/// /// Keeps the newest turn, whatever it takes.
/// struct NewestTurn;
///
/// impl CompactionStrategy for NewestTurn {
///     fn name(&self) -> &str {
///         "newest-turn"
///     }
///     fn trigger(&self) -> StrategyTrigger {
///         StrategyTrigger::Share(0.7)
///     }
///     fn choose(&self, scene: &PlanContext<'_>, _: ProtectionLevel) -> Option<CompactionSelection> {
///         let cut = scene.turn_start(1);
///         (cut > 0).then(|| CompactionSelection::new(scene.before_cut(cut), UnitReplacement::Note))
///     }
/// }
/// ```
pub trait CompactionStrategy: Send + Sync {
    /// Its name in configuration and events.
    fn name(&self) -> &str;

    /// When it acts, unless the configuration says otherwise.
    fn trigger(&self) -> StrategyTrigger;

    /// Chooses what goes, `None` if nothing can. Asked again with tighter protection if the first choice
    /// does not get under the trigger.
    fn choose(&self, scene: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection>;

    /// Returns whether old tool results are cleared by the planner's own rule before the strategy is asked.
    fn prunes_first(&self) -> bool {
        true
    }

    /// For [`StrategyTrigger::Planner`]: where it acts now, in tokens of the whole request. The planner never lets it
    /// stand beyond the usable room. Asked before every step, so it must not look at the view.
    fn line(&self, outlook: &ThresholdInput<'_>) -> TriggerThreshold {
        TriggerThreshold { tokens: outlook.usable_tokens, why: String::new() }
    }

    /// What a summary may be written of ahead of the trigger, while work goes on.
    fn ahead(&self, _scene: &PlanContext<'_>) -> Option<CompactionSelection> {
        None
    }

    /// Returns whether a step waits for the summary, if it was not written ahead: else the extract takes its place.
    fn waits(&self) -> bool {
        true
    }

    /// A check of its own, besides the planner's. `before.with(EventBody::ViewEdited(..))` is the history after.
    ///
    /// # Errors
    /// Why the edit must not be committed, in words: the planner then goes on without this strategy.
    fn validate(&self, _before: &History, _edit: &ViewEdit) -> Result<(), String> {
        Ok(())
    }
}

/// What stays in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectionLevel {
    /// The newest turns.
    Turns,
    /// The newest two steps and the newest typed message: when the turns alone exceed the trigger.
    Steps,
    /// The newest step and the newest typed message: when two steps do.
    Step,
}

impl ProtectionLevel {
    /// From what is kept gladly to what must be.
    pub(crate) const ALL: [Self; 3] = [Self::Turns, Self::Steps, Self::Step];

    /// How many of the newest steps it keeps at least.
    pub fn steps(self) -> usize {
        if self == Self::Step { 1 } else { 2 }
    }
}

/// What goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionSelection {
    /// For each unit, whether it goes.
    pub gone: Vec<bool>,
    /// Tool results that stay as placeholders, as indices into the view, ascending.
    pub cleared: Vec<usize>,
    /// What stands where the units were.
    pub instead: UnitReplacement,
    /// Why this and now, in words, if there is more to say than what was done.
    pub why: String,
}

impl CompactionSelection {
    /// The `gone` units go.
    pub fn new(gone: Vec<bool>, instead: UnitReplacement) -> Self {
        Self { gone, cleared: Vec::new(), instead, why: String::new() }
    }
}

/// What stands where units were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitReplacement {
    /// A note with the handles; no model call.
    Note,
    /// One summary.
    Summary {
        /// The most that it may have, in tokens.
        tokens: u64,
    },
    /// A summary for every so many messages.
    Chapters {
        /// The most that each may have, in tokens.
        tokens: u64,
        /// Messages in each.
        messages: usize,
    },
    /// The ledger, and a summary beneath it.
    Ledger {
        /// The most that the ledger may have, in tokens.
        ledger_tokens: u64,
        /// The most that the summary may have, in tokens.
        tokens: u64,
    },
    /// The ledger, and beneath it the last words of what goes, as they were; no model call.
    Extract {
        /// The most that the ledger may have, in tokens.
        ledger_tokens: u64,
        /// The most that the words may have, in tokens.
        tokens: u64,
    },
    /// What a pruning agent makes of it, and its summary.
    Pruned {
        /// The most that the summary may have, in tokens.
        tokens: u64,
    },
}

impl UnitReplacement {
    /// The same for which no model is asked.
    pub(crate) fn without_model(self) -> Self {
        match self {
            Self::Note | Self::Extract { .. } => self,
            Self::Ledger { ledger_tokens, tokens } => Self::Extract { ledger_tokens, tokens },
            Self::Summary { tokens } | Self::Chapters { tokens, .. } | Self::Pruned { tokens } => {
                Self::Extract { ledger_tokens: 0, tokens }
            }
        }
    }
}

/// What is known before a step without a look at the view. Tokens throughout.
#[derive(Clone, Copy, Debug)]
pub struct ThresholdInput<'a> {
    /// What a request may have.
    pub usable_tokens: u64,
    /// System prompt and tools.
    pub fixed_tokens: u64,
    /// The request as it is, with the expected error.
    pub bound_tokens: u64,
    /// What the request had right after the newest edit of the view; `None` if there was none.
    pub settled_tokens: Option<u64>,
    /// What the view has grown by in a call since then.
    pub growth_tokens: u64,
    /// What tokens cost, if that is known and not nothing.
    pub prices: Option<&'a crate::plan::TokenPrices>,
    /// Whether the provider's cache has surely forgotten the last request.
    pub cache_is_cold: bool,
}

/// Where a strategy acts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerThreshold {
    /// In tokens of the whole request.
    pub tokens: u64,
    /// Why there, in words.
    pub why: String,
}

/// The names of all strategies.
pub const NAMES: &[&str] = &[
    "reactive-overflow",
    "proactive-threshold",
    "middle-removal",
    "truncation",
    "importance",
    "summarization",
    "pruning-agent",
    "adaptive",
];

/// The strategy of that name with its default options.
pub fn by_name(name: &str) -> Option<Arc<dyn CompactionStrategy>> {
    Some(match name {
        "reactive-overflow" => Arc::new(ReactiveOverflowStrategy::default()),
        "proactive-threshold" => Arc::new(ProactiveThresholdStrategy::default()),
        "middle-removal" => Arc::new(MiddleRemovalStrategy::default()),
        "truncation" => Arc::new(TruncationStrategy::default()),
        "importance" => Arc::new(ImportanceStrategy::default()),
        "summarization" => Arc::new(SummarizationStrategy::default()),
        "pruning-agent" => Arc::new(PruningAgentStrategy::default()),
        "adaptive" => Arc::new(AdaptiveStrategy::default()),
        _ => return None,
    })
}
