//! Pruning by mark: old tool results become placeholders with a handle.

use super::{Plan, Scene, is_clearable};
use crate::event::{EditKind, ViewOp};
use crate::history::{CLEARED, ItemKind};
use crate::strategy::Protection;

/// What a placeholder costs, in estimated tokens (its text and the framing of a message).
pub(super) fn placeholder_tokens() -> u64 {
    crate::estimate::text_tokens(CLEARED) + 24
}

impl Scene<'_> {
    /// Clears old tool results, if that alone gets under the trigger.
    pub(super) fn prune(&self) -> Option<Plan> {
        if self.before < self.trigger {
            return None;
        }
        [Protection::Turns, Protection::Steps]
            .into_iter()
            .find_map(|protection| self.prune_within(protection))
    }

    fn prune_within(&self, protection: Protection) -> Option<Plan> {
        let marked = self.clearable(self.protected_from(protection, 2));
        let usable = self.budget.usable;
        let placeholder = placeholder_tokens();
        let view = self.history.view();
        let saved: u64 = marked.iter().map(|at| view[*at].tokens.saturating_sub(placeholder)).sum();
        if marked.is_empty() || saved <= self.policy.prune.minimum_tokens.min(usable / 10) {
            return None;
        }
        let bound = self.cleared_bound(|_| true, &marked);
        if bound >= self.trigger || bound >= self.before {
            return None;
        }
        let ops = marked.iter().map(|at| ViewOp::Placeholder { seq: view[*at].range.from }).collect();
        let why = format!("{} old tool results cleared, about {saved} tokens saved", marked.len());
        let edit = self.view_edit(ops, EditKind::Prune, "prune", bound, self.messages(), why);
        Some(Plan::Edit(Box::new(edit)))
    }

    /// The results before unit `end` that lie beyond the protected amount of tool output, oldest first.
    fn clearable(&self, end: usize) -> Vec<usize> {
        let protect = self.policy.prune.protect_tokens.min(self.budget.usable / 4);
        let view = self.history.view();
        let mut seen = 0;
        let mut marked = Vec::new();
        for (index, unit) in self.units.iter().enumerate().rev() {
            for at in unit.items.clone().rev() {
                match &view[at].kind {
                    ItemKind::Summary(_) => return reversed(marked),
                    kind if is_clearable(kind, &self.policy.prune.protected_tools) => {
                        seen += view[at].tokens;
                        let worth = view[at].tokens > placeholder_tokens();
                        if seen > protect && index < end && worth && !unit.pinned {
                            marked.push(at);
                        }
                    }
                    _ => {}
                }
            }
        }
        reversed(marked)
    }

    /// The bound of a view in which the `marked` items are placeholders.
    pub(super) fn cleared_bound(&self, shown: impl Fn(usize) -> bool, marked: &[usize]) -> u64 {
        let placeholder = placeholder_tokens();
        let resized = |at: usize| marked.binary_search(&at).is_ok().then_some(placeholder);
        self.reading(shown, resized, 0).bound()
    }
}

fn reversed(mut marked: Vec<usize>) -> Vec<usize> {
    marked.reverse();
    marked
}
