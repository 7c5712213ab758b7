//! Compaction strategies: one trait, whose implementations are chosen by name in the configuration.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::budget::StrategyTrigger;
use crate::estimate::TokensByScript;
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

/// A compaction strategy, which selects the units to drop.
///
/// The planner does the rest. It checks that the view without the dropped units gets below the trigger, keeps the newest
/// typed message, keeps calls with their results (units are whole), and builds the edit.
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
///     fn choose(&self, context: &PlanContext<'_>, _: ProtectionLevel) -> Option<CompactionSelection> {
///         let cut = context.turn_start(1);
///         (cut > 0).then(|| CompactionSelection::new(context.before_cut(cut), UnitReplacement::Note))
///     }
/// }
/// ```
pub trait CompactionStrategy: Send + Sync {
    /// Returns the strategy's name in configuration and events.
    fn name(&self) -> &str;

    /// Returns the condition under which the strategy acts, unless the configuration sets another one.
    fn trigger(&self) -> StrategyTrigger;

    /// Chooses the units to drop, `None` if there are none. The planner asks again with tighter protection if the first
    /// selection does not get under the trigger.
    fn choose(&self, context: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection>;

    /// Returns whether old tool results are cleared by the planner's own rule before the strategy is asked.
    fn prunes_first(&self) -> bool {
        true
    }

    /// Returns the current threshold for [`StrategyTrigger::Planner`], in tokens of the whole request. The planner caps
    /// the threshold at the usable room. The method runs before every step and must not look at the view.
    fn threshold(&self, input: &ThresholdInput<'_>) -> TriggerThreshold {
        TriggerThreshold { tokens: input.usable_tokens, why: String::new() }
    }

    /// Returns the units that a background summary may cover while work continues.
    fn background_selection(&self, _context: &PlanContext<'_>) -> Option<CompactionSelection> {
        None
    }

    /// Returns whether a step waits for a summary that was not precomputed. If not, an extract replaces the summary.
    fn waits_for_summary(&self) -> bool {
        true
    }

    /// Checks an edit beyond the planner's own checks. `before.with(EventBody::ViewEdited(..))` is the history after.
    ///
    /// # Errors
    /// The reason why the edit must not be committed, in words. The planner then continues without this strategy.
    fn validate(&self, _before: &History, _edit: &ViewEdit) -> Result<(), String> {
        Ok(())
    }
}

/// The part of the view that no selection may drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtectionLevel {
    /// The newest turns.
    Turns,
    /// The newest two steps and the newest typed message, for when the turns alone exceed the trigger.
    Steps,
    /// The newest step and the newest typed message, for when two steps exceed the trigger.
    Step,
}

impl ProtectionLevel {
    /// All levels, from the widest protection to the narrowest.
    pub(crate) const ALL: [Self; 3] = [Self::Turns, Self::Steps, Self::Step];

    /// Returns the least number of newest steps that the level keeps.
    pub fn steps(self) -> usize {
        if self == Self::Step { 1 } else { 2 }
    }
}

/// The units that a strategy drops, and their replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionSelection {
    /// One flag for each unit: `true` if the unit is dropped.
    pub dropped: Vec<bool>,
    /// Tool results that stay as placeholders, as indices into the view, ascending.
    pub cleared: Vec<usize>,
    /// Typed messages that stay, cut to their beginning and end. Their units are not dropped.
    pub shortened: Vec<ShortenedMessage>,
    /// The replacement of the dropped units.
    pub replacement: UnitReplacement,
    /// The reason for the selection at this time, in words, if the effect does not say everything.
    pub why: String,
}

impl CompactionSelection {
    /// Creates a selection that drops the `dropped` units.
    pub fn new(dropped: Vec<bool>, replacement: UnitReplacement) -> Self {
        Self { dropped, cleared: Vec::new(), shortened: Vec::new(), replacement, why: String::new() }
    }
}

/// A typed message that the view shows by its beginning and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShortenedMessage {
    /// The message, as an index into the view.
    pub item: usize,
    /// The beginning and the end, with the marker of the omission between them.
    pub excerpt: String,
    /// The tokens of the shortened message.
    pub tokens: TokensByScript,
}

impl ShortenedMessage {
    /// Creates a shortened message.
    pub(crate) fn new(item: usize, excerpt: String, tokens: TokensByScript) -> Self {
        Self { item, excerpt, tokens }
    }
}

/// The replacement of dropped units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnitReplacement {
    /// A note with the handles; no model call.
    Note,
    /// One summary.
    Summary {
        /// The most that the summary may have, in tokens.
        tokens: u64,
    },
    /// One summary for every `messages` messages.
    Chapters {
        /// The most that each summary may have, in tokens.
        tokens: u64,
        /// The number of messages in each.
        messages: usize,
    },
    /// The pinned facts, with a summary below.
    Ledger {
        /// The most that the pinned facts may have, in tokens.
        ledger_tokens: u64,
        /// The most that the summary may have, in tokens.
        tokens: u64,
    },
    /// The pinned facts, and below the last words of the dropped messages, verbatim; no model call.
    Extract {
        /// The most that the pinned facts may have, in tokens.
        ledger_tokens: u64,
        /// The most that the words may have, in tokens.
        tokens: u64,
    },
    /// The dropped units as a pruning agent rewrites them, and the agent's summary.
    Pruned {
        /// The most that the summary may have, in tokens.
        tokens: u64,
    },
}

impl UnitReplacement {
    /// Returns the closest replacement that needs no model.
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

/// The facts that are known before a step without a look at the view. All sizes are in tokens.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ThresholdInput<'a> {
    /// The most that a request may have.
    pub usable_tokens: u64,
    /// The size of system prompt and tools.
    pub fixed_tokens: u64,
    /// The size of the present request, with the expected error.
    pub bound_tokens: u64,
    /// The size of the request right after the newest edit of the view; `None` if there was no edit.
    pub settled_tokens: Option<u64>,
    /// The growth of the view per call since that edit.
    pub growth_tokens: u64,
    /// The prices of tokens, if known and not zero.
    pub prices: Option<&'a crate::plan::TokenPrices>,
    /// `true` if the provider's cache has surely forgotten the last request.
    pub cache_is_cold: bool,
}

/// The size at which a strategy acts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerThreshold {
    /// The threshold in tokens of the whole request.
    pub tokens: u64,
    /// The reason for this threshold, in words.
    pub why: String,
}

/// Returns the smallest number of a range for which a condition holds that holds for all larger ones.
fn smallest(range: RangeInclusive<usize>, holds: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut low, mut high) = range.into_inner();
    if low > high || !holds(high) {
        return None;
    }
    // A binary search, because each test measures a whole view.
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    Some(low)
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

/// Returns the strategy of a name with default options.
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
