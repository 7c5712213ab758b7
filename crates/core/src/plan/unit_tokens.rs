//! Sums of tokens over the view: the request without some units, and with some results as placeholders.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::{PlanContext, draft, facts, is_clearable};
use crate::estimate::TokensByScript;
use crate::history::{History, ResultPlaceholder, ViewItem, ViewItemKind, cleared_groups_beside};
use crate::ids::Seq;
use crate::message::Part;
use crate::meter::{self, MeterReading};

/// The tokens of a part of the view: those in the count of the anchor's call, and later ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnitTokens {
    kept: TokensByScript,
    pub(super) new: TokensByScript,
}

impl UnitTokens {
    /// Creates the sum of some items; `anchored` is the position up to which the anchor has counted.
    pub(super) fn of(items: &[ViewItem], anchored: Seq) -> Self {
        let mut sum = Self::default();
        for item in items {
            *sum.of_age(item, anchored) += item.groups;
        }
        sum
    }

    fn of_age(&mut self, item: &ViewItem, anchored: Seq) -> &mut TokensByScript {
        if item.since <= anchored { &mut self.kept } else { &mut self.new }
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.kept += more.kept;
        self.new += more.new;
    }

    fn without(&self, less: &Self) -> Self {
        Self { kept: self.kept.without(&less.kept), new: self.new.without(&less.new) }
    }

    /// Turns a placeholder of the part back into the result.
    pub(super) fn restore(&mut self, item: &ViewItem, placeholder: &TokensByScript, anchored: Seq) {
        self.new = self.new.without(placeholder);
        *self.of_age(item, anchored) += item.groups;
    }

    /// Turns a result of the part into a placeholder.
    pub(super) fn clear(&mut self, item: &ViewItem, placeholder: &TokensByScript, anchored: Seq) {
        let there = self.of_age(item, anchored);
        *there = there.without(&item.groups);
        // No request has had the placeholder yet, whatever the age of the result.
        self.new += *placeholder;
    }
}

/// The assumed size of a note in place of older messages, in tokens.
const NOTE_TOKENS: u64 = 64;

/// The most that a placeholder with lines of the result has beside the lines and the placeholder without them, in
/// tokens.
const LINES_FRAME_TOKENS: u64 = 100;

/// Returns the bound of the smallest request that a plan can lead to, in tokens. Such a request has system prompt,
/// tools, the newest typed message, the newest step so far, and a note in place of all else.
pub(crate) fn least_bound(history: &History, fixed_tokens: u64) -> u64 {
    let anchored = history.anchor().map_or(0, |anchor| anchor.seq);
    let view = history.view();
    // The step that the model has not answered must stay, whatever else goes.
    let step = view.iter().rposition(|item| item.kind == ViewItemKind::Assistant).unwrap_or(view.len());
    // A message behind the step is in the sum of the step already.
    let typed = history.newest_typed().filter(|at| *at < step);
    let mut least = UnitTokens::of(&view[step..], anchored);
    if let Some(at) = typed {
        least.add(&UnitTokens::of(&view[at..=at], anchored));
    }
    least.new += TokensByScript::of(NOTE_TOKENS);
    meter::of_parts(history, fixed_tokens, &least.kept, &least.new).bound()
}

/// Computes the placeholder of a result, with the lines that stay.
fn cleared_form(history: &History, item: &ViewItem) -> ResultPlaceholder {
    let results = item.message.parts.iter().filter_map(|part| match part {
        Part::ToolResult(result) => Some(result),
        _ => None,
    });
    let texts: Vec<&str> = results.flat_map(|result| &result.content).filter_map(Part::as_text).collect();
    let text = match texts.as_slice() {
        [text] => Cow::Borrowed(*text),
        texts => Cow::Owned(texts.join("\n")),
    };
    let excerpt = facts::outstanding_lines(&text, item.tokens, history.counter().text_counter());
    let groups = if excerpt.is_empty() {
        item.placeholder
    } else {
        cleared_groups_beside(item.range.from, &excerpt, history.counter(), history.has_recall())
    };
    ResultPlaceholder { excerpt, groups }
}

impl PlanContext<'_> {
    /// Returns the meter's reading for a view of the `shown` units, in which the `marked` results (ascending) are
    /// placeholders.
    pub(super) fn reading(
        &self,
        shown: impl Fn(usize) -> bool,
        marked: &[usize],
        added: TokensByScript,
    ) -> MeterReading {
        let mut sum = self.sum_of(shown, marked);
        sum.new += added;
        self.meter_of(&sum)
    }

    /// Returns the meter's reading for a view of the `shown` units, in which the `marked` results (ascending) are
    /// placeholders without any line of the result.
    pub(super) fn reading_without_lines(
        &self,
        shown: impl Fn(usize) -> bool,
        marked: &[usize],
        added: TokensByScript,
    ) -> MeterReading {
        let mut sum = self.sum_with(shown, marked, |at| self.history.view()[at].placeholder);
        sum.new += added;
        self.meter_of(&sum)
    }

    /// Returns whether the request without the `dropped` units stays below `limit` tokens by the meter's bound. The
    /// `cleared` results (ascending) are placeholders, and `added` tokens come on top.
    pub(crate) fn stays_below(&self, dropped: &[bool], cleared: &[usize], added: u64, limit: u64) -> bool {
        // The lines that stay of a result take a pass over its text. Without them the request is smaller, so one that
        // is too large even so needs no such pass. In a long log that is true of almost every result.
        let shown = |unit: usize| !dropped[unit];
        let mut least = self.sum_with(shown, cleared, |at| self.history.view()[at].placeholder);
        least.new += TokensByScript::of(added);
        self.meter_of(&least).bound() < limit && self.after_dropping(dropped, cleared, added).bound() < limit
    }

    /// Returns the tokens of the `shown` units, in which the `marked` results (ascending) are placeholders.
    pub(super) fn sum_of(&self, shown: impl Fn(usize) -> bool, marked: &[usize]) -> UnitTokens {
        self.sum_with(shown, marked, |at| self.placeholder_groups(at))
    }

    /// Returns the tokens of the `shown` units. Each of the `marked` results (ascending) has the tokens that
    /// `placeholder` gives for its index in the view.
    fn sum_with(
        &self,
        shown: impl Fn(usize) -> bool,
        marked: &[usize],
        placeholder: impl Fn(usize) -> TokensByScript,
    ) -> UnitTokens {
        let mut sum = UnitTokens::default();
        for (unit, share) in self.unit_tokens.iter().enumerate() {
            if shown(unit) {
                sum.add(share);
            }
        }
        // Results and units ascend, so one walk finds the unit of each result.
        let mut unit = 0;
        for at in marked {
            while self.units[unit].items.end <= *at {
                unit += 1;
            }
            if shown(unit) {
                sum.clear(&self.history.view()[*at], &placeholder(*at), self.anchored);
            }
        }
        sum
    }

    /// Returns the tokens of the placeholder for the result at `at` in the view, with the lines that stay.
    pub(super) fn placeholder_groups(&self, at: usize) -> TokensByScript {
        self.cleared_form(at).groups
    }

    /// Returns the placeholder of the result at `at` in the view, with the lines that stay.
    pub(super) fn cleared_form(&self, at: usize) -> &ResultPlaceholder {
        static NOTHING: LazyLock<ResultPlaceholder> = LazyLock::new(ResultPlaceholder::default);
        let item = &self.history.view()[at];
        match &item.cleared_form {
            // The loop drops a plan that was made under a raised flag, so a wrong size does no harm.
            Some(form) if self.history.stop_flag().is_raised() => form.known().map_or(&NOTHING, |form| form),
            Some(form) => form.get(|| Box::new(cleared_form(self.history, item))),
            // Only tool results have a placeholder.
            None => &NOTHING,
        }
    }

    pub(super) fn meter_of(&self, shown: &UnitTokens) -> MeterReading {
        meter::of_parts(self.history, self.fixed_tokens, &shown.kept, &shown.new)
    }

    /// Returns the smallest run of units from `head` on without which the request, with a note, stays below `target`
    /// tokens. Protected units within the run stay.
    pub fn smallest_gap(&self, head: usize, target: u64) -> Option<Vec<bool>> {
        let may_go: Vec<bool> =
            (0..self.units.len()).map(|at| at >= head && !self.is_protected(at)).collect();
        let mut left = UnitTokens { new: TokensByScript::of(draft::HEADER_TOKENS), ..UnitTokens::default() };
        self.unit_tokens.iter().for_each(|share| left.add(share));
        let lefts = (head..self.units.len()).map(|at| {
            if may_go[at] {
                left = left.without(&self.unit_tokens[at]);
            }
            left
        });
        let lefts: Vec<UnitTokens> = lefts.collect();
        let end = head + 1 + lefts.partition_point(|left| self.meter_of(left).bound() >= target);
        (end <= may_go.len()).then(|| (0..).zip(may_go).map(|(at, may_go)| at < end && may_go).collect())
    }

    /// Returns the results before unit `end` that lie beyond the protected amount of tool output. They are indices into
    /// the view, oldest first.
    pub fn clearable(&self, end: usize) -> Vec<usize> {
        self.clearable_beyond(end, self.policy.prune.protect_tokens)
    }

    /// Returns the results before unit `end` beyond the newest `protect_tokens` of tool output, oldest first. At most a
    /// quarter of the usable room is protected.
    pub fn clearable_beyond(&self, end: usize, protect_tokens: u64) -> Vec<usize> {
        let protect = protect_tokens.min(self.budget.usable / 4);
        let view = self.history.view();
        let mut seen = 0;
        let mut marked = Vec::new();
        for (index, unit) in self.units.iter().enumerate().rev() {
            for at in unit.items.clone().rev() {
                match &view[at].kind {
                    ViewItemKind::Summary(_) => return reversed(marked),
                    kind if is_clearable(kind, &self.policy.prune.protected_tools) => {
                        seen += view[at].tokens;
                        if seen > protect && index < end && !unit.pinned && self.saves_tokens(at) {
                            marked.push(at);
                        }
                    }
                    _ => {}
                }
            }
        }
        reversed(marked)
    }

    /// Returns whether clearing the result at `at` in the view saves tokens.
    pub(super) fn saves_tokens(&self, at: usize) -> bool {
        let item = &self.history.view()[at];
        // The lines that stay of a large result are a small part of it, so their exact size does not matter.
        let most = item.placeholder.total() + facts::MAX_TOKENS + LINES_FRAME_TOKENS;
        item.tokens > most || self.worth_clearing(at) > 0
    }

    /// Returns the estimated tokens that clearing the result at `at` in the view saves, net of the placeholder.
    pub(super) fn worth_clearing(&self, at: usize) -> u64 {
        let item = &self.history.view()[at];
        item.tokens.saturating_sub(self.placeholder_groups(at).total())
    }

    /// Returns whether clearing the `marked` results saves more than the policy's minimum.
    pub(crate) fn is_worth_clearing(&self, marked: &[usize]) -> bool {
        let saved: u64 = marked.iter().map(|at| self.worth_clearing(*at)).sum();
        saved > self.policy.prune.minimum_tokens.min(self.budget.usable / 10)
    }
}

fn reversed(mut marked: Vec<usize>) -> Vec<usize> {
    marked.reverse();
    marked
}
