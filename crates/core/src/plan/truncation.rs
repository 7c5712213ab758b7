//! The last resort, which needs no model. These edits are tried in order:
//!
//! 1. the newest typed message and as many of the newest steps as fit;
//! 2. the newest step and other messages that fit;
//! 3. the newest step with its large results cut, and messages that fit beside it;
//! 4. the newest typed message alone, cut if no request holds it.
//!
//! If no edit fits, the plan is an error with the sizes. Pinned facts replace the dropped messages where there
//! is room.

use super::documents::{half_of_room, is_long_message, water_level};
use super::earlier_summary::{EarlierSummary, with_less_earlier};
use super::{ContextOverflow, LONG_MESSAGE, Plan, PlanContext, PlanTrigger, extract, is_clearable, restore};
use crate::estimate::TokensByScript;
use crate::event::{EditKind, EventBody, ViewEdit, ViewOperation};
use crate::history::{ViewItem, ViewItemKind, cut_groups};
use crate::ids::Seq;
use crate::message::Part;
use crate::meter::{self, TokenIncrement};
use crate::retention::user_text;
use crate::strategy::{CompactionSelection, UnitReplacement};
use crate::truncate::{
    MIN_END_CHARS, TextLimit, TruncatedText, TruncationMode, both_ends, grouped, left_out, shortened,
    truncate,
};

/// The least room for pinned facts, in tokens: fewer say nothing.
const MIN_FACTS_TOKENS: u64 = 40;

/// The least excerpt of a cut result, in tokens. A shorter one is little more than its marker, so the answer's reserve
/// makes way for more.
const MIN_EXCERPT_TOKENS: u64 = 72;

/// The most attempts to fit an edit with less room for each excerpt.
const MAX_CUT_ATTEMPTS: u32 = 6;

/// The part of the free room that a cut message leaves for the steps after it: one part in so many.
// Passages that `recall` brings and a few steps fit into it, so that the next edit is not due at once (decision 0046).
const SPARE_SHARE: u64 = 4;

/// The most attempts to fit a cut message. Half of them follow the measured sizes, the others halve the message.
const MAX_MESSAGE_CUTS: u32 = 8;

/// The part of its room that a cut message may miss: one part in so many. Less is not worth another attempt.
const MISSED_SHARE: u64 = 32;

/// The share of the window that stays for the answer where the reserve cannot: one part in so many.
const ANSWER_SHARE: u64 = 20;

/// The part of the results' room that stays for the facts and orders of dropped messages: one part in so many.
const FACTS_SHARE: u64 = 10;

/// The part of the results' room that may stay unused: one part in so many. Less is not worth another attempt.
const UNUSED_SHARE: u64 = 50;

/// The text around an excerpt, beside the placeholder of a cleared result, in tokens.
const EXCERPT_FRAME_TOKENS: u64 = 24;

/// The name of the last resort in events.
const NAME: &str = "truncation";

/// The least that an edit must show of each result that it cuts.
#[derive(Clone, Copy)]
struct ExcerptMinimum {
    /// The tokens of the excerpt. An edit with less room is not made.
    tokens: u64,
    /// The characters of beginning and end together. They are shown whatever the room is.
    chars: u64,
}

impl ExcerptMinimum {
    /// An excerpt that says more than its marker.
    const USEFUL: Self = Self { tokens: MIN_EXCERPT_TOKENS, chars: 2 * MIN_END_CHARS };
    /// A beginning and an end.
    const BOTH_ENDS: Self = Self { tokens: 0, chars: 2 * MIN_END_CHARS };
    /// The marker alone.
    const MARKER: Self = Self { tokens: 0, chars: 0 };

    /// Returns the room that an excerpt takes beside the placeholder, in tokens.
    fn room_tokens(self) -> u64 {
        // Texts have about four characters in a token.
        self.tokens.max(self.chars / 4) + EXCERPT_FRAME_TOKENS
    }
}

/// The planner of the last resort: an edit that no strategy has selected.
pub(super) struct LastResortPlanner<'a> {
    context: &'a PlanContext<'a>,
}

impl<'a> LastResortPlanner<'a> {
    pub(super) fn new(context: &'a PlanContext<'a>) -> Self {
        Self { context }
    }

    /// Returns the plan of the last resort: an edit, the view as it is, or the overflow error.
    ///
    /// A long newest message is cut if the whole message leaves no room for the user's goal and standing orders. `recall`
    /// gives the rest of the message again, while a model does not look for an order that it cannot see.
    pub(super) fn plan(&self) -> Plan {
        let plan = self.plan_with_whole_message();
        match &plan {
            Plan::Edit(edit) if self.crowds_out_orders(edit) => self.cut_typed_message().unwrap_or(plan),
            _ => plan,
        }
    }

    /// Returns whether an edit drops the user's goal or standing orders without a quote, beside a long newest message.
    fn crowds_out_orders(&self, edit: &ViewEdit) -> bool {
        // A smaller message is not to blame where orders have no room.
        let free = self.context.budget.usable.saturating_sub(self.context.fixed_tokens);
        let is_long = self.context.units.newest_typed().is_some_and(|unit| {
            let is_last = unit + 1 == self.context.units.len();
            is_last && is_long_message(self.context, unit) && self.context.units[unit].tokens * 5 > free * 3
        });
        if !is_long || edit.ops.iter().any(quotes_user) {
            return false;
        }
        let dropped: Vec<bool> = (0..self.context.units.len()).map(|unit| self.drops(edit, unit)).collect();
        dropped.contains(&true)
            && self.context.history.user_text_of(&self.context.handles(&dropped)).order_tokens() > 0
    }

    /// Returns whether an edit takes a unit out of the view.
    fn drops(&self, edit: &ViewEdit, unit: usize) -> bool {
        let items = &self.context.history.view()[self.context.units[unit].items.clone()];
        items.iter().any(|item| {
            edit.ops.iter().any(|op| {
                let range = op.range();
                !matches!(op, ViewOperation::Placeholder { .. })
                    && range.from <= item.range.from
                    && item.range.to <= range.to
            })
        })
    }

    /// Returns the plan that cuts the newest typed message only if no request holds it.
    fn plan_with_whole_message(&self) -> Plan {
        if self.context.before < self.context.threshold_tokens {
            return Plan::Fits;
        }
        let usable = self.context.budget.usable;
        let fits = self.context.before <= usable && !matches!(self.context.trigger, PlanTrigger::Overflow);
        let whole = self.edit_below(self.context.threshold_tokens, true);
        // Unread results stay as long as the window has room for them, and are cut before they are dropped.
        // The reserve for the answer is no room for the count's margin: requests that fitted by their count alone
        // exceeded the usable room.
        let kept = if self.context.is_unread() {
            whole
                .or_else(|| if fits { Some(Plan::Fits) } else { self.edit_below(usable, true) })
                .or_else(|| self.edit_with_shorter_summary(usable))
                .or_else(|| self.cut_newest_step())
        } else {
            whole
        };
        if let Some(plan) = kept.or_else(|| self.edit_below(self.context.threshold_tokens, false)) {
            return plan;
        }
        if fits {
            return Plan::Fits;
        }
        if let Some(plan) = self.edit_below(usable, false).or_else(|| self.plan_into_reserve()) {
            return plan;
        }
        // Only another call can tell, and the server answers a request that is too long with its own numbers.
        if self.may_be_miscounted() {
            return Plan::Fits;
        }
        self.cut_typed_message().unwrap_or_else(|| Plan::DoesNotFit(self.overflow()))
    }

    /// Returns the edit that keeps the newest step whole by showing less of the earlier summary. The summary keeps a quarter:
    /// what it says stands nowhere else, while `recall` gives a whole result again.
    fn edit_with_shorter_summary(&self, target: u64) -> Option<Plan> {
        let all = vec![true; self.context.units.len()];
        let tokens = EarlierSummary::in_units(self.context, &all).shown_tokens();
        let edit = [2, 4].into_iter().filter(|_| tokens > 0).find_map(|share| {
            self.context.earlier_tokens.set(tokens / share);
            self.edit_below(target, true)
        });
        self.context.earlier_tokens.set(u64::MAX);
        edit
    }

    /// Returns an edit that leaves less than the reserve for the answer, because a short answer is better than none.
    fn plan_into_reserve(&self) -> Option<Plan> {
        let limit = self.limit_into_reserve();
        if !matches!(self.context.trigger, PlanTrigger::Routine | PlanTrigger::Pause)
            || limit <= self.context.budget.usable
        {
            return None;
        }
        if self.context.before < limit { Some(Plan::Fits) } else { self.edit_below(limit, false) }
    }

    /// Returns the most tokens of a request whose answer gets less than the reserve.
    fn limit_into_reserve(&self) -> u64 {
        self.context.budget.window - self.context.budget.window / ANSWER_SHARE
    }

    /// Returns whether the view fits by our own count alone, so that the provider's last count may be wrong.
    fn may_be_miscounted(&self) -> bool {
        let counted = self.context.fixed_tokens.saturating_add(self.context.history.view_tokens());
        *self.context.trigger == PlanTrigger::Routine
            && counted.saturating_add(counted / 10) < self.context.budget.usable
    }

    /// Returns the first edit of the last resort below `target` tokens. With `keeps_newest` the newest step stays
    /// whole.
    fn edit_below(&self, target: u64, keeps_newest: bool) -> Option<Plan> {
        // With the whole step the caller decides how much of the earlier summary may go.
        let edit = if keeps_newest {
            self.first_edit_below(target, keeps_newest)?
        } else {
            with_less_earlier(self.context, || self.first_edit_below(target, keeps_newest))?
        };
        // Above the threshold the window itself was the trigger, and the event says so.
        let trigger_tokens = edit.trigger_tokens.max(target);
        Some(Plan::Edit(Box::new(ViewEdit { trigger_tokens, ..edit })))
    }

    /// Returns the first edit in order that stays below `target`. With `keeps_newest` the newest step stays
    /// unchanged.
    fn first_edit_below(&self, target: u64, keeps_newest: bool) -> Option<ViewEdit> {
        let whole = self.newest_steps_beside_facts(target, usize::MAX).or_else(|| {
            self.newest_steps(1, |selection| {
                self.context.removal_by(selection, NAME).compressed_bound < target
            })
        });
        if keeps_newest {
            return self.below(target, self.removal_with_facts(&whole?, target));
        }
        let shortest = whole
            .or_else(|| self.select_fitting_units(target.saturating_sub(self.facts_room_tokens(target))));
        shortest
            .and_then(|selection| self.below(target, self.removal_with_facts(&selection, target)))
            .or_else(|| self.edit_with_cut_results(target, ExcerptMinimum::BOTH_ENDS))
            .or_else(|| self.edit_with_cut_results(target, ExcerptMinimum::MARKER))
            .or_else(|| self.below(target, self.newest_step_alone()?))
            .or_else(|| self.below(target, self.removal_with_facts(&self.typed_alone()?, target)))
    }

    /// Returns an edit if the request after the edit is smaller than before and stays below `target` tokens.
    fn below(&self, target: u64, edit: ViewEdit) -> Option<ViewEdit> {
        (edit.compressed_bound < target.min(self.context.before)).then_some(edit)
    }

    /// Returns the plan that keeps at most `steps` newest steps beside the pinned facts of the dropped messages.
    pub(super) fn plan_beside_facts(&self, steps: usize) -> Option<Plan> {
        let target = self.context.threshold_tokens;
        let selection = self.newest_steps_beside_facts(target, steps)?;
        let edit = self.below(target, self.removal_with_facts(&selection, target))?;
        Some(Plan::Edit(Box::new(edit)))
    }

    /// Returns the most tokens of pinned facts.
    fn max_facts_tokens(&self) -> u64 {
        self.context.budget.pinned_facts_tokens()
    }

    /// Returns the tokens that must be free below `target` for the longest pinned facts, as
    /// [`removal_with_facts`](Self::removal_with_facts) takes them.
    fn facts_room_tokens(&self, target: u64) -> u64 {
        (self.max_facts_tokens() + super::draft::HEADER_TOKENS / 2) * 9 / 8 + target / 32
    }

    /// Returns the edit of a selection, with the user's documents cut and pinned facts below the note if there is room.
    fn removal_with_facts(&self, selection: &CompactionSelection, target: u64) -> ViewEdit {
        self.removal_beside_documents(selection, target)
            .unwrap_or_else(|| self.removal_without_documents(selection, target))
    }

    /// Returns the edit of a selection that cuts documents of the user where the selection drops them. `None` if there are
    /// none, or if they have no room.
    fn removal_beside_documents(&self, selection: &CompactionSelection, target: u64) -> Option<ViewEdit> {
        let mut kept = selection.clone();
        self.context.keep_documents(&mut kept, half_of_room(self.context.fixed_tokens, target));
        if kept.dropped == selection.dropped {
            return None;
        }
        let edit = if kept.dropped.contains(&true) {
            self.removal_without_documents(&kept, target)
        } else {
            ViewEdit { strategy: NAME.to_owned(), ..self.context.clearing(&kept)? }
        };
        self.below(target, self.measured(edit))
    }

    /// Returns the edit of a selection, with pinned facts below the note if there is room.
    fn removal_without_documents(&self, selection: &CompactionSelection, target: u64) -> ViewEdit {
        let bare = self.context.removal_by(selection, NAME);
        let told = self.removal_with_text(selection, self.max_text_tokens());
        if let Some(told) = told.filter(|told| told.compressed_bound < limit_with_facts(target)) {
            return told;
        }
        // New text may have up to an eighth more tokens than its estimate.
        let room = limit_with_facts(target).saturating_sub(bare.compressed_bound) * 8 / 9;
        let told = self.removal_with_text(selection, room.min(self.max_text_tokens()));
        told.filter(|told| told.compressed_bound < target).unwrap_or(bare)
    }

    /// Returns the most tokens of quotes and pinned facts together.
    fn max_text_tokens(&self) -> u64 {
        2 * self.max_facts_tokens()
    }

    /// Returns the edit of a selection with quotes of the user and pinned facts in at most `most` tokens; `None` if
    /// there is nothing to say.
    fn removal_with_text(&self, selection: &CompactionSelection, most: u64) -> Option<ViewEdit> {
        let note = self.note_with_text(&selection.dropped, most)?;
        Some(self.context.removal_with(selection, NAME, note))
    }

    /// Returns the note on the `dropped` units with quotes of the user and pinned facts in at most `most` tokens; `None` if
    /// there is nothing to say.
    fn note_with_text(&self, dropped: &[bool], most: u64) -> Option<Vec<Part>> {
        if most < MIN_FACTS_TOKENS {
            return None;
        }
        let handles = self.context.handles(dropped);
        let quotes = self.context.history.user_text_of(&handles);
        // Standing orders must not be lost, so they may take more than half.
        let user_text = quotes.fit((most / 2).max(quotes.order_tokens()).min(most));
        let quoted = self.context.history.counter().text(&user_text);
        let ledger =
            extract::ledger(self.context.history, &handles, (most - quoted).min(self.max_facts_tokens()));
        let texts = [user_text.trim_end(), ledger.trim_end()];
        let told = texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
        if told.is_empty() {
            return None;
        }
        let mut note = self.context.note(dropped);
        note.push(Part::text(format!("\n\n{told}")));
        Some(note)
    }

    /// Returns the selection of as many newest steps as fit beside the whole pinned facts, at most `most`.
    fn newest_steps_beside_facts(&self, target: u64, most: usize) -> Option<CompactionSelection> {
        let limit = limit_with_facts(target);
        self.newest_steps(most, |selection| {
            // Pinned facts are costly to read, so a selection that is too long without them is refused first.
            self.context.removal_by(selection, NAME).compressed_bound < limit
                && self
                    .removal_with_text(selection, self.max_text_tokens())
                    .is_none_or(|told| told.compressed_bound < limit)
        })
    }

    /// Returns a selection that keeps the newest step and other units that fit below `target`, newest first.
    fn select_fitting_units(&self, target: u64) -> Option<CompactionSelection> {
        let mut dropped = vec![true; self.context.units.len()];
        self.context.protect(&mut dropped);
        let mut selection = CompactionSelection::new(dropped, UnitReplacement::Note);
        restore::refill_newest(self.context, &mut selection, target);
        let newest = self.context.units.steps_newest_first().next();
        // The newest results come first: no older message may take their room.
        let keeps_newest = newest.is_none_or(|step| {
            !selection.dropped[step]
                && !self.context.units[step].items.clone().any(|at| selection.cleared.contains(&at))
        });
        (keeps_newest && selection.dropped.contains(&true)).then_some(selection)
    }

    /// Returns the selection of the largest number of newest steps, from one to `most`, that fits.
    fn newest_steps(
        &self,
        most: usize,
        fits: impl Fn(&CompactionSelection) -> bool,
    ) -> Option<CompactionSelection> {
        // A binary search, because each test builds a whole edit.
        let mut best = None;
        let mut low = 1;
        let mut high = self.context.units.steps_newest_first().count().min(most);
        while low <= high {
            let middle = low + (high - low) / 2;
            let selection = self
                .drop_before_steps(middle)
                .map(|dropped| CompactionSelection::new(dropped, UnitReplacement::Note));
            match selection.filter(&fits) {
                Some(selection) => {
                    best = Some(selection);
                    low = middle + 1;
                }
                None => high = middle - 1,
            }
        }
        best
    }

    /// Returns a selection that drops all units before the newest `steps` steps, except protected ones.
    fn drop_before_steps(&self, steps: usize) -> Option<Vec<bool>> {
        let mut dropped = self.context.units.before_cut(self.context.units.step_start(steps));
        self.context.protect(&mut dropped);
        dropped.contains(&true).then_some(dropped)
    }

    /// Returns the plan that cuts the results of the newest step to the usable room. If that leaves too little of them,
    /// the reserve of the answer is used too: for the whole results, or else for longer excerpts.
    fn cut_newest_step(&self) -> Option<Plan> {
        let usable = self.context.budget.usable;
        let limit = self.limit_into_reserve().max(usable);
        self.plan_with_cut_results(usable, ExcerptMinimum::USEFUL)
            .or_else(|| self.results_into_reserve())
            .or_else(|| self.plan_with_cut_results(limit, ExcerptMinimum::USEFUL))
            .or_else(|| self.plan_with_cut_results(usable, ExcerptMinimum::BOTH_ENDS))
            .or_else(|| self.plan_with_cut_results(limit, ExcerptMinimum::BOTH_ENDS))
            // A room so small that even the reserve holds no excerpts is no reason to take the reserve.
            .or_else(|| self.plan_with_cut_results(usable, ExcerptMinimum::MARKER))
    }

    /// Returns the plan that cuts the results of the newest step so that the request stays below `target`.
    fn plan_with_cut_results(&self, target: u64, minimum: ExcerptMinimum) -> Option<Plan> {
        let edit = self.edit_with_cut_results(target, minimum)?;
        let trigger_tokens = edit.trigger_tokens.max(target);
        Some(Plan::Edit(Box::new(ViewEdit { trigger_tokens, ..edit })))
    }

    /// Returns the plan that keeps the results of the newest step as they are and takes the room from the answer's reserve.
    /// `None` if the step has no results, or if even the reserve does not hold them.
    fn results_into_reserve(&self) -> Option<Plan> {
        let limit = self.limit_into_reserve();
        let step = self.context.units.steps_newest_first().next()?;
        // Results that are cut already count as well. A request that is made again must not lose them.
        let mut kinds =
            self.context.units[step].items.clone().map(|at| &self.context.history.view()[at].kind);
        let has_results = kinds.any(|kind| matches!(kind, ViewItemKind::Result { .. }));
        if !has_results || limit <= self.context.budget.usable {
            return None;
        }
        self.edit_below(limit, true).or_else(|| (self.context.before < limit).then_some(Plan::Fits))
    }

    /// Returns the edit that cuts the results of the newest step so that the request stays below `target`. All older
    /// messages are dropped first, except those that fit beside results too large for any window. `None` if a cut result
    /// would show less than the minimum.
    fn edit_with_cut_results(&self, target: u64, minimum: ExcerptMinimum) -> Option<ViewEdit> {
        let results = self.cuttable_results(self.context.units.steps_newest_first().next()?);
        let room = self.room_of_results(&results, target, minimum)?;
        // Sums count placeholders with the lines that stay of a cleared result. Excerpts take the place of those lines.
        let limit = target + self.lines_bound(&results);
        let edit = self
            .beside_cleared(&results, limit.saturating_sub(self.bound_of_text(room)))
            .or_else(|| self.beside_cleared(&results, limit))?;
        self.with_longest_excerpts(&edit, &results, room, target, minimum)
    }

    /// Returns whether the newest step fits the usable room, with results cut to nothing if need be.
    pub(super) fn can_keep_step(&self, step: usize) -> bool {
        self.bound_without_results(&self.cuttable_results(step)) < self.context.budget.usable
    }

    /// Returns the results of a step that are longer than their placeholder, as indices into the view. Protected tools
    /// are among them, because their output alone may be too large for any request.
    fn cuttable_results(&self, step: usize) -> Vec<usize> {
        let view = self.context.history.view();
        let items = self.context.units[step].items.clone();
        items.filter(|at| is_clearable(&view[*at].kind, &[]) && self.context.saves_tokens(*at)).collect()
    }

    /// Returns the bound of the smallest request with the newest step, in tokens. Only markers stay of the `results`.
    fn bound_without_results(&self, results: &[usize]) -> u64 {
        let dropped = self.drop_before_steps(1).unwrap_or_else(|| vec![false; self.context.units.len()]);
        let note = self.context.cost(self.context.note(&dropped));
        self.context.reading_without_lines(|unit| !dropped[unit], results, note).bound()
    }

    /// Returns the bound of the lines that stay of `results` when they are cleared, in tokens.
    fn lines_bound(&self, results: &[usize]) -> u64 {
        let nothing = TokensByScript::default();
        let with_lines = self.context.reading(|_| true, results, nothing).bound();
        with_lines.saturating_sub(self.context.reading_without_lines(|_| true, results, nothing).bound())
    }

    /// Returns the room of all results of the newest step where they cannot be shown whole, in tokens.
    ///
    /// The room is nine tenths of the free part beside the smallest request. Results much larger than any window get three
    /// quarters of the free part, or half of it if that exceeds a quarter of all room: an excerpt is not worth all other
    /// messages. Other results are: before one of them is cut, the older messages make room. Room that the older messages
    /// leave goes to the excerpts afterwards (decision 0007).
    fn room_of_results(&self, results: &[usize], target: u64, minimum: ExcerptMinimum) -> Option<u64> {
        let least = self.bound_without_results(results);
        if results.is_empty() || least >= target {
            return None;
        }
        // Close to the target there is no room for facts, and excerpts get half of the little that is left.
        let beside_facts = limit_with_facts(target).saturating_sub(least);
        let free = self.text_within(beside_facts.max((target - least) / 2));
        let most = free - free / 4;
        let usual = most.min((self.context.budget.usable / 4).max(free / 2));
        let mut rooms = [usual, most].into_iter();
        let room = rooms
            .find(|room| self.cuts_only_excerpts(results, free, *room))
            .unwrap_or(free - free / FACTS_SHARE);
        let needed = results.len() as u64 * minimum.room_tokens();
        Some(room.max(needed.min(free)))
    }

    /// Returns whether `room` cuts no other results than those that exceed the `free` part by far, in tokens.
    fn cuts_only_excerpts(&self, results: &[usize], free: u64, room: u64) -> bool {
        let level = self.fair_share(results, room);
        results.iter().all(|at| {
            let size = self.worth_cutting(*at);
            // A result of which a third is missing in any case is an excerpt. Less is an excess to cut.
            size <= level || size > free + free / 2
        })
    }

    /// Returns the tokens of the result at `at` in the view beyond its placeholder without lines.
    fn worth_cutting(&self, at: usize) -> u64 {
        let item = &self.context.history.view()[at];
        item.tokens.saturating_sub(item.placeholder.total())
    }

    /// Returns the most tokens of each result so that all have at most `room` together. Only the largest results are
    /// cut: room that small ones leave goes to them.
    fn fair_share(&self, results: &[usize], room: u64) -> u64 {
        water_level(results.iter().map(|at| self.worth_cutting(*at)).collect(), room)
    }

    /// Returns the bound that `tokens` estimated tokens of new text add to a request.
    fn bound_of_text(&self, tokens: u64) -> u64 {
        TokenIncrement::of(self.context.history).bound(&TokensByScript::of(tokens))
    }

    /// Returns the estimated tokens of new text that add `bound` tokens to a request.
    fn text_within(&self, bound: u64) -> u64 {
        // The ratio of many tokens has no error by rounding.
        const MANY: u64 = 100_000;
        bound.saturating_mul(MANY) / self.bound_of_text(MANY).max(1)
    }

    /// Returns the edit that clears the `cleared` results and keeps all older messages. If these do not fit below `target`,
    /// as many of the newest steps stay as fit beside the whole pinned facts, or else the newest step.
    fn beside_cleared(&self, cleared: &[usize], target: u64) -> Option<ViewEdit> {
        let after = self.context.reading(|_| true, cleared, TokensByScript::default());
        if after.bound() < target {
            let ops = self.context.placeholders(cleared);
            let messages = self.context.messages();
            return Some(self.context.view_edit(ops, EditKind::Prune, NAME, &after, messages, String::new()));
        }
        let limit = limit_with_facts(target);
        let beside_facts = self.newest_steps(usize::MAX, |selection| {
            self.fits_below(selection, cleared, limit)
                && self
                    .removal_with_text(&with_cleared(selection, cleared), self.max_text_tokens())
                    .is_none_or(|told| told.compressed_bound < limit)
        });
        let selection = beside_facts
            .or_else(|| self.newest_steps(1, |selection| self.fits_below(selection, cleared, target)))?;
        Some(self.removal_with_facts(&with_cleared(&selection, cleared), target))
    }

    /// Returns whether the removal by a selection that clears the `cleared` results too leaves fewer than `limit` tokens.
    fn fits_below(&self, selection: &CompactionSelection, cleared: &[usize], limit: u64) -> bool {
        self.context.removal_by(&with_cleared(selection, cleared), NAME).compressed_bound < limit
    }

    /// Returns an edit with the longest excerpts of its cleared `results` with which the request stays below `target`. The
    /// first attempt gives them `room` tokens. `None` if a cut result would show less than the minimum.
    fn with_longest_excerpts(
        &self,
        edit: &ViewEdit,
        results: &[usize],
        room: u64,
        target: u64,
        minimum: ExcerptMinimum,
    ) -> Option<ViewEdit> {
        let limit = target.min(self.context.before);
        let unused = self.bound_of_text(room) / UNUSED_SHARE;
        let all: u64 = results.iter().map(|at| self.worth_cutting(*at)).sum();
        // An attempt with `low` tokens has fitted, and one with `high` tokens has not. The first bounds are no attempts.
        let (mut low, mut high) = (0, all + 1);
        let mut room = room.min(all);
        let mut longest = None;
        for attempt in 1..=MAX_CUT_ATTEMPTS {
            let level = self.fair_share(results, room);
            let (edit, cut_results) = self.with_excerpts(edit, level, minimum);
            let next = if edit.compressed_bound < limit {
                let free = limit - edit.compressed_bound;
                longest = (level >= minimum.tokens || cut_results == 0).then_some(edit);
                if free <= unused || cut_results == 0 {
                    break;
                }
                low = room;
                room + self.text_within(free - unused / 2)
            } else {
                // Less room makes no larger excerpts.
                if room == 0 || level < minimum.tokens {
                    break;
                }
                high = room;
                room.saturating_sub(self.text_within(edit.compressed_bound - limit + unused / 2) + 1)
            };
            // Rounding leaves less than a token of each result.
            if high - low <= results.len() as u64 && longest.is_some() {
                break;
            }
            room = if next > low && next < high { next } else { low + (high - low) / 2 };
            if longest.is_none() && attempt + 1 == MAX_CUT_ATTEMPTS && low == 0 {
                // The last attempt is the smallest edit.
                room = 0;
            }
        }
        longest
    }

    /// Returns the edit with beginning and end of each cleared result in at most `level` tokens beyond the placeholder, and
    /// the number of results that are cut. A result stays whole if it has no more, or if a cut saves nothing.
    fn with_excerpts(&self, edit: &ViewEdit, level: u64, minimum: ExcerptMinimum) -> (ViewEdit, usize) {
        let history = self.context.history;
        let mut edit = edit.clone();
        let mut cut_results = 0;
        edit.ops.retain_mut(|op| {
            // A typed message has its excerpt already.
            let ViewOperation::Placeholder { seq, excerpt, cut: cut @ false } = op else { return true };
            let item = history.view().iter().rev().find(|item| item.range.from == *seq);
            let Some(item) = item else { return true };
            (*excerpt, *cut) = (self.excerpt(item, level, minimum), true);
            let tokens = cut_groups(*seq, excerpt, history.counter(), history.has_recall()).total();
            let is_worth_it =
                item.tokens.saturating_sub(item.placeholder.total()) > level && tokens < item.tokens;
            cut_results += usize::from(is_worth_it);
            is_worth_it
        });
        if cut_results > 0 {
            let why = format!("the newest step alone was too large: {cut_results} of its results cut");
            edit.why = if edit.why.is_empty() { why } else { format!("{why}; {}", edit.why) };
        }
        (self.measured(edit), cut_results)
    }

    /// Returns the edit with the sizes that the request has after the commit.
    fn measured(&self, mut edit: ViewEdit) -> ViewEdit {
        // Excerpts and markers change the counts in ways that sums do not show, so the edited view is folded.
        let after = self.context.history.with(EventBody::ViewEdited(Box::new(edit.clone())));
        let after = meter::read(&after, self.context.fixed_tokens);
        (edit.compressed_tokens, edit.compressed_bound) = (after.total, after.bound());
        edit
    }

    /// Returns the beginning and the end of a result in at most `most` tokens, or in the minimum of characters.
    fn excerpt(&self, item: &ViewItem, most: u64, minimum: ExcerptMinimum) -> String {
        let results = item.message.parts.iter().filter_map(|part| match part {
            Part::ToolResult(result) => Some(result),
            _ => None,
        });
        let texts: Vec<&str> = results.flat_map(|result| &result.content).filter_map(Part::as_text).collect();
        let text = texts.join("\n");
        let Some(cut) = both_ends(&text, most, minimum.chars, self.context.history.counter()) else {
            return text;
        };
        if cut.kept.is_empty() {
            return String::new();
        }
        let (head, tail) = cut.kept.split_at(cut.head_bytes);
        format!("{head}\n{}\n{tail}", left_out(cut.omitted_chars))
    }

    /// Returns the edit that keeps the newest step without the message that the step answers.
    fn newest_step_alone(&self) -> Option<ViewEdit> {
        let mut dropped = self.context.units.before_cut(self.context.units.steps_newest_first().next()?);
        self.context.protect(&mut dropped);
        dropped.contains(&true).then(|| self.context.removal(&dropped, NAME))
    }

    /// Returns the selection that keeps only protected units, such as the newest typed message.
    fn typed_alone(&self) -> Option<CompactionSelection> {
        let mut dropped = vec![true; self.context.units.len()];
        self.context.protect(&mut dropped);
        let anything = dropped.contains(&true) && self.context.units.newest_typed().is_some();
        anything.then(|| CompactionSelection::new(dropped, UnitReplacement::Note))
    }

    /// Returns the plan that shows the beginning and the end of the newest typed message, and nothing older, because no
    /// request holds the message whole.
    fn cut_typed_message(&self) -> Option<Plan> {
        let unit = self.context.units.newest_typed().filter(|_| self.context.policy.cuts_user_messages)?;
        let item = &self.context.history.view()[self.context.units[unit].items.start];
        let entry = self.context.history.entry(item.range.to)?;
        let text: Vec<&str> = entry.message.parts.iter().filter_map(Part::as_text).collect();
        let text = text.join("\n");
        // A refusal of a request that fits by our count shows that the room is smaller than assumed, but not how small.
        let is_guess = *self.context.trigger == PlanTrigger::Overflow
            && self.context.before <= self.context.budget.usable;
        let target = if is_guess { self.context.threshold_tokens } else { self.context.budget.usable };
        let removal = self.typed_alone().map(|selection| {
            let note = self.note_beside_cut(&selection.dropped, target);
            (selection, note)
        });
        let note = removal.as_ref().map(|(_, note)| self.context.cost(note.clone())).unwrap_or_default();
        let others = self.context.reading(|_| false, &[], note).bound();
        let free = limit_with_facts(target).checked_sub(others)?;
        // Each refusal without figures costs a request, so a guess takes less at once.
        let spare = if is_guess {
            free / 2
        } else {
            (free / SPARE_SHARE).max(self.context.budget.progress()).min(free / 2)
        };
        let edit = self.longest_cut(&text, others, free - spare, |cut| {
            self.edit_with_cut_message(removal.as_ref(), entry.seq, cut)
        })?;
        let trigger_tokens = edit.trigger_tokens.max(target);
        Some(Plan::Edit(Box::new(ViewEdit { trigger_tokens, ..edit })))
    }

    /// Returns the edit that shows as much of `text` as about `room` tokens hold, in a request that has `others` tokens
    /// without the text. `None` if no part of the text fits.
    fn longest_cut(
        &self,
        text: &str,
        others: u64,
        room: u64,
        edit_with: impl Fn(&TruncatedText) -> ViewEdit,
    ) -> Option<ViewEdit> {
        let counter = self.context.history.counter();
        let total = text.chars().count() as u64;
        // New text may have up to an eighth more tokens than its estimate.
        let mut chars = total.saturating_mul(room * 8 / 9) / counter.text(text).max(1);
        // `low` characters fit, and `high` characters do not.
        let (mut low, mut high) = (0, total);
        let mut longest = None;
        for attempt in 0..MAX_MESSAGE_CUTS {
            if chars <= low || chars >= high {
                chars = low + (high - low) / 2;
            }
            let limit = TextLimit { max_chars: chars, max_tokens: u64::MAX };
            let cut = truncate(text, &limit, TruncationMode::Both, counter);
            let Some(cut) = cut.filter(|cut| chars > low && !cut.kept.is_empty()) else { break };
            let edit = edit_with(&cut);
            let size = edit.compressed_bound.saturating_sub(others).max(1);
            // Beginning and end may have more tokens a character than the middle, so each size corrects the next.
            let next = chars.saturating_mul(room) / size;
            match self.below(others + room, edit) {
                Some(edit) => {
                    longest = Some(edit);
                    if size >= room - room / MISSED_SHARE {
                        break;
                    }
                    low = chars;
                    chars = next - next / (2 * MISSED_SHARE);
                }
                None => {
                    high = chars;
                    let is_far_off = longest.is_none() && attempt >= MAX_MESSAGE_CUTS / 2;
                    chars = if is_far_off { chars / 2 } else { next - next / MISSED_SHARE };
                }
            }
        }
        longest
    }

    /// Returns the note on everything before a typed message that is cut: with quotes of the user and pinned facts in at
    /// most half of the free room, because the message can be cut further and an order cannot.
    fn note_beside_cut(&self, dropped: &[bool], target: u64) -> Vec<Part> {
        let bare = self.context.note(dropped);
        let others = self.context.reading(|_| false, &[], self.context.cost(bare.clone())).bound();
        let free = limit_with_facts(target).saturating_sub(others);
        // New text may have up to an eighth more tokens than its estimate.
        self.note_with_text(dropped, free / 2 * 8 / 9).unwrap_or(bare)
    }

    /// Returns the edit that replaces the older messages by their note and shows the cut typed message at `seq`.
    fn edit_with_cut_message(
        &self,
        removal: Option<&(CompactionSelection, Vec<Part>)>,
        seq: Seq,
        cut: &TruncatedText,
    ) -> ViewEdit {
        let excerpt = shortened(cut, seq, self.context.history.has_recall());
        let op = ViewOperation::Placeholder { seq, excerpt, cut: true };
        let why = format!(
            "{}; {} of its {} characters are left out",
            self.cut_reason(),
            grouped(cut.omitted_chars),
            grouped(cut.total_chars)
        );
        let mut edit = match removal {
            Some((selection, note)) => self.context.removal_with(selection, NAME, note.clone()),
            None => self.context.view_edit(
                Vec::new(),
                EditKind::Prune,
                NAME,
                &self.context.now,
                self.context.messages(),
                String::new(),
            ),
        };
        edit.why = if edit.why.is_empty() { why } else { format!("{why}; {}", edit.why) };
        edit.ops.push(op);
        self.measured(edit)
    }

    /// Returns the reason for a cut of the newest typed message in words, with the sizes.
    fn cut_reason(&self) -> String {
        let sizes = self.overflow();
        if sizes.needed_tokens <= sizes.usable_tokens && *self.context.trigger != PlanTrigger::Overflow {
            return format!("{LONG_MESSAGE} beside the user's goal and standing orders");
        }
        // By our count it fits, so only the server can know.
        if sizes.needed_tokens <= sizes.usable_tokens {
            return format!("{LONG_MESSAGE}: the model's server refuses it as too long");
        }
        format!(
            "{LONG_MESSAGE} beside system prompt, tools and the room for the answer: it needs up to {} tokens with system \
             prompt and tools ({}) and the estimate's possible error, and {} of the window of {} are usable",
            grouped(sizes.needed_tokens),
            grouped(sizes.fixed_tokens),
            grouped(sizes.usable_tokens),
            grouped(sizes.window_tokens),
        )
    }

    /// Returns the sizes for the overflow error.
    fn overflow(&self) -> ContextOverflow {
        let others: Vec<bool> =
            (0..self.context.units.len()).map(|at| Some(at) != self.context.units.newest_typed()).collect();
        ContextOverflow {
            fixed_tokens: self.context.fixed_tokens,
            needed_tokens: self.context.after(&others, TokensByScript::default()).bound(),
            usable_tokens: self.context.budget.usable,
            window_tokens: self.context.budget.window,
        }
    }
}

/// Returns whether an operation shows quotes of the user.
fn quotes_user(op: &ViewOperation) -> bool {
    let ViewOperation::Replace { parts, .. } = op else { return false };
    parts.iter().filter_map(Part::as_text).any(|text| text.contains(user_text::TITLE))
}

/// Returns a selection that also clears the results at `cleared` in the view.
fn with_cleared(selection: &CompactionSelection, cleared: &[usize]) -> CompactionSelection {
    CompactionSelection { cleared: cleared.to_vec(), ..selection.clone() }
}

/// Returns the most tokens of a request with pinned facts, a little below `target`: a full request
/// has no use for them.
fn limit_with_facts(target: u64) -> u64 {
    target - target / 32
}
