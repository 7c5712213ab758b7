//! `middle-removal`: the first turn and as many of the newest messages as fit stay; no model call.

use super::{CompactionSelection, CompactionStrategy, ProtectionLevel, UnitReplacement};
use crate::budget::StrategyTrigger;
use crate::history::ViewItemKind;
use crate::plan::{PlanContext, restore_until_budget};

/// The number of newest turns in which no result is cleared.
const PROTECTED_TURNS: usize = 2;

/// The strategy that keeps both ends of the conversation. At least nine tenths of the room stay in use where no message
/// is larger than a tenth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MiddleRemovalStrategy {
    /// The size of the request after an edit, in tokens; by default the trigger.
    pub keep_tokens: Option<u64>,
}

/// The sizes between which an edit ends, in tokens of the whole request.
#[derive(Clone, Copy, Debug)]
struct MiddleRemovalBounds {
    /// The size that the request stays below.
    most: u64,
    /// The size that leaves room for growth, so that the next edit is not due at once.
    roomy: u64,
    /// The size below which room is wasted. Room for growth counts less than this.
    least: u64,
}

impl CompactionStrategy for MiddleRemovalStrategy {
    fn name(&self) -> &str {
        "middle-removal"
    }

    fn trigger(&self) -> StrategyTrigger {
        StrategyTrigger::Share(0.8)
    }

    /// Returns `false`: the strategy clears results by itself, and no more than necessary.
    fn prunes_first(&self) -> bool {
        false
    }

    fn choose(&self, context: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection> {
        let most = self.keep_tokens.unwrap_or(context.threshold_tokens).min(context.threshold_tokens);
        let keep = MiddleRemovalBounds {
            most,
            roomy: most.saturating_sub(context.budget.progress()),
            least: most - most / 10,
        };
        match protection {
            ProtectionLevel::Turns => cleared(context, keep).or_else(|| {
                let selection = removed(context, keep, first_turn(context, keep)?)?;
                let newest = context.units.step_start(2);
                (!selection.dropped[newest..].contains(&true)).then_some(selection)
            }),
            ProtectionLevel::Steps => removed(context, keep, context.units.first_typed_end()),
            // The planner's last resort keeps the newest step and any other messages that fit.
            ProtectionLevel::Step => None,
        }
    }
}

/// Returns the end of the first turn, or the place of an earlier edit's note in that turn; `None` if this part takes
/// more than half.
fn first_turn(context: &PlanContext<'_>, keep: MiddleRemovalBounds) -> Option<usize> {
    let view = context.history.view();
    let (typed, turn) = (context.units.first_typed_end(), context.units.first_turn_end());
    let mut units = typed..turn;
    let note =
        units.find(|unit| matches!(view[context.units[*unit].items.start].kind, ViewItemKind::Removed(_)));
    let head = note.unwrap_or(turn);
    let others: Vec<bool> = (0..context.units.len()).map(|unit| unit >= head).collect();
    (context.without(&others) <= keep.most / 2).then_some(head)
}

/// Returns a selection that clears the fewest of the oldest tool results, if that is enough.
fn cleared(context: &PlanContext<'_>, keep: MiddleRemovalBounds) -> Option<CompactionSelection> {
    let marked = context.clearable(context.kept_whole_from(ProtectionLevel::Turns, PROTECTED_TURNS));
    // A compaction on request comes below the trigger too. The user gets a removal, which clearing results is not.
    if context.before < context.threshold_tokens || !context.is_worth_clearing(&marked) {
        return None;
    }
    let nothing = vec![false; context.units.len()];
    if context.after_dropping(&nothing, &marked, 0).bound() >= keep.roomy {
        return None;
    }
    let counts: Vec<usize> = (1..=marked.len()).collect();
    let fewest = counts.partition_point(|count| {
        context.after_dropping(&nothing, &marked[..*count], 0).bound() >= keep.roomy
    });
    let count = *counts.get(fewest)?;
    let mut selection = CompactionSelection {
        cleared: marked[..count].to_vec(),
        ..CompactionSelection::new(nothing, UnitReplacement::Note)
    };
    restore_until_budget(context, &mut selection, keep.least, keep.most);
    Some(selection)
}

/// Returns a selection that drops units behind `head`, oldest first, until the rest fits.
fn removed(context: &PlanContext<'_>, keep: MiddleRemovalBounds, head: usize) -> Option<CompactionSelection> {
    // Room for growth is only a wish: a view that just fits is better than no edit.
    let gap = context.smallest_gap(head, keep.roomy).or_else(|| context.smallest_gap(head, keep.most))?;
    let mut selection = CompactionSelection::new(gap, UnitReplacement::Note);
    // Below the limit a user has asked for the compaction. All that was dropped would fit and come back.
    if context.before >= keep.most {
        restore_until_budget(context, &mut selection, keep.least, keep.most);
    }
    Some(selection)
}
