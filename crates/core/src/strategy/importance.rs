//! `importance`: the newest messages stay, and the least important others are dropped first; no model call.

use std::collections::BTreeSet;

use super::{CompactionSelection, CompactionStrategy, ProtectionLevel, UnitReplacement, smallest};
use crate::budget::StrategyTrigger;
use crate::history::{ViewUnit, ViewUnitKind};
use crate::message::{Message, Part};
use crate::plan::PlanContext;

/// The length below which an answer without tool calls counts as an acknowledgement, in characters.
const SHORT_CHARS: usize = 80;

/// The length from which on an answer counts as rich in content, in characters.
const LONG_CHARS: usize = 1_000;

/// The extra score of a message to which newer messages refer.
const REFERENCED: f64 = 0.3;

/// The strategy that scores messages and drops those with the lowest scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImportanceStrategy {
    /// The number of newest messages that stay unchanged. Steps stay whole, so the number may be larger.
    pub keep_recent: usize,
    /// The score of a typed message.
    pub user_message_score: f64,
    /// The score of an answer without tool calls.
    pub assistant_message_score: f64,
    /// The score of a step with tool calls.
    pub tool_use_score: f64,
    /// The score below which messages are dropped first, all of them at once.
    pub min_score_threshold: f64,
}

impl Default for ImportanceStrategy {
    fn default() -> Self {
        Self {
            keep_recent: 10,
            user_message_score: 1.0,
            assistant_message_score: 0.6,
            tool_use_score: 1.0,
            min_score_threshold: 0.3,
        }
    }
}

impl CompactionStrategy for ImportanceStrategy {
    fn name(&self) -> &str {
        "importance"
    }

    fn trigger(&self) -> StrategyTrigger {
        StrategyTrigger::Share(0.85)
    }

    fn choose(&self, context: &PlanContext<'_>, protection: ProtectionLevel) -> Option<CompactionSelection> {
        let kept_from = match protection {
            ProtectionLevel::Turns => context.units.newest_messages_from(self.keep_recent),
            ProtectionLevel::Steps => context.units.step_start(2),
            // The planner's last resort keeps the newest step and any other messages that fit.
            ProtectionLevel::Step => return None,
        };
        let order = self.lowest_first(context, kept_from);
        // All messages below the threshold go in one edit, since every edit voids the provider's cache.
        let at_once = order.iter().take_while(|(score, _)| *score < self.min_score_threshold).count();
        // A fifth of the trigger stays free for growth, so that the next edit is not due at once.
        let target = context.threshold_tokens * 4 / 5;
        let count = smallest(at_once.max(1)..=order.len(), |count| {
            context.without(&selected(&order[..count], context.units.len())) < target
        })?;
        let dropped = selected(&order[..count], context.units.len());
        Some(CompactionSelection::new(dropped, UnitReplacement::Note))
    }
}

/// Returns one flag for each of `units` units: `true` for those in `order`.
fn selected(order: &[(f64, usize)], units: usize) -> Vec<bool> {
    let mut flags = vec![false; units];
    order.iter().for_each(|(_, at)| flags[*at] = true);
    flags
}

impl ImportanceStrategy {
    /// Returns the units before `end` with their scores, the least important first. Of equal units the older is first.
    fn lowest_first(&self, context: &PlanContext<'_>, end: usize) -> Vec<(f64, usize)> {
        let recent = context.units[end..].iter().flat_map(|unit| messages(context, unit));
        let recent: BTreeSet<&str> = recent.flat_map(names).collect();
        let scored = context.units[..end].iter().enumerate().map(|(at, unit)| {
            let is_referenced = messages(context, unit).flat_map(names).any(|name| recent.contains(name));
            let extra = if is_referenced { REFERENCED } else { 0.0 };
            (self.score(unit.kind, messages(context, unit)) + extra, at)
        });
        let mut order: Vec<(f64, usize)> = scored.collect();
        order.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
        order
    }

    fn score<'a>(&self, kind: ViewUnitKind, mut messages: impl Iterator<Item = &'a Message>) -> f64 {
        match kind {
            ViewUnitKind::Typed => self.user_message_score,
            // A summary or note stands for many messages, so it scores like a message that newer ones refer to.
            ViewUnitKind::Compacted => self.user_message_score.max(self.tool_use_score) + REFERENCED,
            ViewUnitKind::Note => self.assistant_message_score / 2.0,
            ViewUnitKind::Step => {
                let Some(answer) = messages.next() else { return 0.0 };
                if answer.tool_calls().next().is_some() {
                    return self.tool_use_score;
                }
                match answer.text().chars().count() {
                    0..SHORT_CHARS => self.assistant_message_score / 3.0,
                    SHORT_CHARS..LONG_CHARS => self.assistant_message_score,
                    _ => self.assistant_message_score * 1.25,
                }
            }
        }
    }
}

fn messages<'s>(
    context: &'s PlanContext<'_>,
    unit: &ViewUnit,
) -> impl Iterator<Item = &'s Message> + use<'s> {
    context.history.view()[unit.items.clone()].iter().map(|item| &*item.message)
}

/// Returns the words of a message that name something: paths and identifiers.
fn names(message: &Message) -> impl Iterator<Item = &str> {
    let texts = message.parts.iter().flat_map(|part| match part {
        Part::Text(text) => vec![text.text.as_str()],
        Part::ToolCall(call) => vec![call.arguments.as_str()],
        Part::ToolResult(result) => result.content.iter().filter_map(Part::as_text).collect(),
        _ => Vec::new(),
    });
    texts.flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || "_-./".contains(c)))).filter(|word| {
        let word = word.trim_matches(['.', '-', '/']);
        // Plain words are in every message. Paths and identifiers show which messages belong together.
        word.len() > 3 && word.chars().any(|c| "_./".contains(c) || c.is_ascii_digit())
    })
}
