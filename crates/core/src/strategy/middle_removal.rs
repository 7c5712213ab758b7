//! `middle-removal`: the first turn and as many of the newest messages as fit stay; no model call.

use super::{CompactionSelection, CompactionStrategy, ProtectionLevel, UnitReplacement};
use crate::budget::StrategyTrigger;
use crate::history::ViewItemKind;
use crate::plan::PlanContext;

/// Turns in which nothing is cleared.
const PROTECTED_TURNS: usize = 2;

/// Keeps both ends, and uses nine tenths of the room at least where no single message is larger than a tenth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MiddleRemovalStrategy {
    /// What is kept, in tokens of the whole request; by default the trigger.
    pub keep_tokens: Option<u64>,
}

/// What is kept, in tokens of the whole request.
#[derive(Clone, Copy, Debug)]
struct MiddleRemovalBounds {
    /// Below this.
    most: u64,
    /// Where an edit ends that leaves room for a growth step, so that the next is not due at once.
    roomy: u64,
    /// With less, room is wasted: rather no growth step.
    least: u64,
}

impl CompactionStrategy for MiddleRemovalStrategy {
    fn name(&self) -> &str {
        "middle-removal"
    }

    fn trigger(&self) -> StrategyTrigger {
        StrategyTrigger::Share(0.8)
    }

    /// It clears by itself, and no more than it must.
    fn prunes_first(&self) -> bool {
        false
    }

    fn choose(&self, scene: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection> {
        let most = self.keep_tokens.unwrap_or(scene.trigger).min(scene.trigger);
        let keep = MiddleRemovalBounds {
            most,
            roomy: most.saturating_sub(scene.budget.progress()),
            least: most - most / 10,
        };
        match protection {
            ProtectionLevel::Turns => cleared(scene, keep).or_else(|| {
                let choice = removed(scene, keep, first_turn(scene, keep)?)?;
                let newest = scene.step_start(2);
                (!choice.gone[newest..].contains(&true)).then_some(choice)
            }),
            ProtectionLevel::Steps => removed(scene, keep, scene.first_typed_end()),
            ProtectionLevel::Step => None,
        }
    }
}

/// The end of the first turn, but for what an earlier edit has left of it; `None` if it takes more than half.
fn first_turn(scene: &PlanContext<'_>, keep: MiddleRemovalBounds) -> Option<usize> {
    let view = scene.history.view();
    let (typed, turn) = (scene.first_typed_end(), scene.first_turn_end());
    let is_note = |unit: usize| matches!(view[scene.units[unit].items.start].kind, ViewItemKind::Removed(_));
    let head = (typed..turn).find(|unit| is_note(*unit)).unwrap_or(turn);
    let others: Vec<bool> = (0..scene.units.len()).map(|unit| unit >= head).collect();
    (scene.without(&others) <= keep.most / 2).then_some(head)
}

/// The fewest of the oldest tool results become placeholders, if that is enough.
fn cleared(scene: &PlanContext<'_>, keep: MiddleRemovalBounds) -> Option<CompactionSelection> {
    let marked = scene.clearable(scene.kept_whole_from(ProtectionLevel::Turns, PROTECTED_TURNS));
    if scene.before < scene.trigger || !scene.is_worth_clearing(&marked) {
        return None;
    }
    let nothing = vec![false; scene.units.len()];
    let bound = |count: usize| scene.after_choice(&nothing, &marked[..count], 0).bound();
    let fewest = |target: u64| {
        let counts: Vec<usize> = (1..=marked.len()).collect();
        counts.get(counts.partition_point(|count| bound(*count) >= target)).copied()
    };
    if bound(marked.len()) >= keep.roomy {
        return None;
    }
    let count = fewest(keep.roomy)?;
    let mut choice = CompactionSelection {
        cleared: marked[..count].to_vec(),
        ..CompactionSelection::new(nothing.clone(), UnitReplacement::Note)
    };
    scene.restore_until_budget(&mut choice, keep.least, keep.most);
    Some(choice)
}

/// What lies behind `head` goes, oldest first, until the rest fits.
fn removed(scene: &PlanContext<'_>, keep: MiddleRemovalBounds, head: usize) -> Option<CompactionSelection> {
    let gap = scene.smallest_gap(head, keep.roomy).or_else(|| scene.smallest_gap(head, keep.most))?;
    let mut choice = CompactionSelection::new(gap, UnitReplacement::Note);
    if scene.before >= keep.most {
        scene.restore_until_budget(&mut choice, keep.least, keep.most);
    }
    Some(choice)
}
