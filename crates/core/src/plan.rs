//! What to do about a conversation that fills its window: nothing, prune, compact, or say what does not fit.
//!
//! [`plan`] is a function of values: equal inputs give equal plans. It never edits; it answers with the
//! [`ViewEdit`] to commit, or with the summary that is needed first. Every edit it proposes leaves a smaller,
//! valid view under the trigger that fired, keeps the newest typed message verbatim and every call with its
//! result, and names the handle of everything that goes.

use std::cell::RefCell;
use std::sync::Arc;

use crate::budget::{Budget, Trigger};
use crate::estimate::Groups;
use crate::event::{EditKind, EditReason, ViewEdit, ViewOp};
use crate::history::{History, ItemKind, Unit, UnitKind, units};
use crate::ids::{Handle, Seq};
use crate::message::{Message, Part, Role};
use crate::meter::{self, Reading};
use crate::strategy::{Choice, Instead, Line, Outlook, Protection, Strategy};
use share::Share;

mod draft;
mod economics;
mod extract;
mod prune;
mod pruning;
mod refill;
mod share;
mod transcript;
mod truncation;

pub use draft::{MARK, ORDER_START, Rejected, SummaryDraft, SummaryForm, SummaryRequest};
pub use economics::{EditCost, Prices};
pub(crate) use extract::plain_text;

/// What the user chose about context.
#[derive(Clone)]
pub struct Policy {
    /// `false`: count and show only; a full window is then an error.
    pub enabled: bool,
    /// How to compact.
    pub strategy: Arc<dyn Strategy>,
    /// When, if not when the strategy says.
    pub trigger: Option<Trigger>,
    /// What pruning leaves alone.
    pub prune: PruneOptions,
    /// Who writes summaries.
    pub writer: Writer,
    /// What the session's model costs, if that is known.
    pub prices: Option<Prices>,
    /// Whether spans of what went that the newest message speaks of come back at the tail after a compaction.
    pub auto_recall: bool,
    /// How long a summary is waited for, in milliseconds.
    pub summary_timeout_ms: u64,
}

/// How long a summary is waited for unless the policy says otherwise, in milliseconds.
pub const SUMMARY_TIMEOUT_MS: u64 = 300_000;

impl Policy {
    /// That strategy, everything else by default.
    pub fn new(strategy: Arc<dyn Strategy>) -> Self {
        Self {
            enabled: true,
            strategy,
            trigger: None,
            prune: PruneOptions::default(),
            writer: Writer::Session,
            prices: None,
            auto_recall: false,
            summary_timeout_ms: SUMMARY_TIMEOUT_MS,
        }
    }
}

/// Who writes summaries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Writer {
    /// The session's own model.
    #[default]
    Session,
    /// Another.
    Other {
        /// Its context window, in tokens.
        window: u64,
        /// The most it writes, in tokens, if known.
        max_output: Option<u64>,
    },
    /// Nobody: extracts are made without a model.
    Nobody,
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policy")
            .field("enabled", &self.enabled)
            .field("strategy", &self.strategy.name())
            .field("trigger", &self.trigger)
            .field("prune", &self.prune)
            .field("writer", &self.writer)
            .field("prices", &self.prices)
            .field("auto_recall", &self.auto_recall)
            .finish()
    }
}

/// What pruning leaves alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PruneOptions {
    /// The newest tool output that is never cleared, in tokens; at most a quarter of the usable room.
    pub protect_tokens: u64,
    /// The least worth clearing, in tokens net of placeholders; at most a tenth of the usable room.
    pub minimum_tokens: u64,
    /// Tools whose results are never cleared.
    pub protected_tools: Vec<String>,
}

impl Default for PruneOptions {
    fn default() -> Self {
        Self { protect_tokens: 40_000, minimum_tokens: 20_000, protected_tools: Vec::new() }
    }
}

/// Why a plan is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// Before a step: act only if the trigger is reached.
    Routine,
    /// An answer was stopped before it ran into the end of the window: act if it has too little room to go on.
    Pause,
    /// The provider refused the request for its length.
    Overflow,
    /// Somebody asked for a compaction.
    Requested {
        /// What the summary should mind, in their words.
        instructions: Option<String>,
    },
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Send the view as it is.
    Fits,
    /// Commit this edit, then send.
    Edit(Box<ViewEdit>),
    /// Have a summary written, then finish the draft.
    Summarise(Box<SummaryDraft>),
    /// Nothing that may be left out is left.
    DoesNotFit(Misfit),
}

/// What does not fit, in tokens (bounds: with the expected error).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the request does not fit: system prompt and tools take {fixed_tokens} tokens, with the newest message up to \
     {needed_tokens} are needed, {usable_tokens} are usable of a window of {window_tokens}"
)]
pub struct Misfit {
    /// System prompt and tools.
    pub fixed_tokens: u64,
    /// The least that a request needs.
    pub needed_tokens: u64,
    /// What a request may have.
    pub usable_tokens: u64,
    /// The window.
    pub window_tokens: u64,
}

/// Decides what to do before the next request.
pub fn plan(
    history: &History,
    fixed_tokens: u64,
    budget: &Budget,
    policy: &Policy,
    occasion: &Occasion,
) -> Plan {
    plan_with(history, fixed_tokens, budget, policy, occasion, None)
}

/// [`plan`] with a summary that was written ahead: if it still fits what it was written for, it is what is committed.
pub fn plan_with(
    history: &History,
    fixed_tokens: u64,
    budget: &Budget,
    policy: &Policy,
    occasion: &Occasion,
    candidate: Option<&SummaryDraft>,
) -> Plan {
    let now = meter::read(history, fixed_tokens);
    let bound = now.bound();
    let line = line_at(history, fixed_tokens, budget, policy, bound);
    let acts_at = match occasion {
        Occasion::Routine => line.tokens,
        Occasion::Pause => pause_target(budget),
        Occasion::Overflow | Occasion::Requested { .. } => 0,
    };
    if acts_at > 0 && (!policy.enabled || bound < acts_at) {
        return Plan::Fits;
    }
    let no_progress = *occasion == Occasion::Routine && no_progress(history, budget);
    if no_progress && bound <= budget.usable {
        return Plan::Fits;
    }
    let scene = Scene::new(history, fixed_tokens, *budget, policy, occasion, now, line);
    if no_progress {
        return scene.again();
    }
    let ready = candidate.and_then(|draft| draft.rebased(&scene)).map(|edit| Plan::Edit(Box::new(edit)));
    ready.or_else(|| scene.prune()).or_else(|| scene.compact()).unwrap_or_else(|| scene.last_resort())
}

/// What may be summarised while work goes on, if the view is near the line where the policy acts.
pub fn ahead(
    history: &History,
    fixed_tokens: u64,
    budget: &Budget,
    policy: &Policy,
) -> Option<Box<SummaryDraft>> {
    let now = meter::read(history, fixed_tokens);
    let line = line_at(history, fixed_tokens, budget, policy, now.bound());
    let near = line.tokens.saturating_sub((line.tokens / 16).max(2 * growth(history)));
    if !policy.enabled || policy.writer == Writer::Nobody || now.bound() < near || history.view().is_empty() {
        return None;
    }
    if no_progress(history, budget) {
        return None;
    }
    let scene = Scene::new(history, fixed_tokens, *budget, policy, &Occasion::Routine, now, line);
    let choice = policy.strategy.ahead(&scene)?;
    match scene.accept(choice)? {
        Plan::Summarise(draft) => Some(draft),
        _ => None,
    }
}

/// What remains when no summary can be used: truncation, or the error.
pub(crate) fn without_summary(
    history: &History,
    fixed_tokens: u64,
    budget: &Budget,
    policy: &Policy,
    occasion: &Occasion,
) -> Plan {
    let now = meter::read(history, fixed_tokens);
    let line = line_at(history, fixed_tokens, budget, policy, now.bound());
    Scene::new(history, fixed_tokens, *budget, policy, occasion, now, line).last_resort()
}

/// Where the policy acts now, and why there: the number that displays show, and that [`plan`] compares the meter's
/// bound with.
pub fn line(history: &History, fixed_tokens: u64, budget: &Budget, policy: &Policy) -> Line {
    let bound = meter::read(history, fixed_tokens).bound();
    line_at(history, fixed_tokens, budget, policy, bound)
}

fn line_at(history: &History, fixed_tokens: u64, budget: &Budget, policy: &Policy, bound: u64) -> Line {
    let trigger = policy.trigger.unwrap_or_else(|| policy.strategy.trigger());
    if trigger != Trigger::Planner {
        return Line { tokens: budget.trigger(trigger), why: String::new() };
    }
    let counted = fixed_tokens + history.view_tokens();
    let scale = bound as f64 / counted.max(1) as f64;
    let settled = history.edited_tokens().map(|view| ((fixed_tokens + view) as f64 * scale) as u64);
    let prices = policy.prices.as_ref().filter(|prices| prices.are_known());
    let outlook = Outlook {
        usable_tokens: budget.usable,
        fixed_tokens,
        bound_tokens: bound,
        settled_tokens: settled,
        growth_tokens: (growth(history) as f64 * scale) as u64,
        prices,
        cache_is_cold: prices.is_some_and(|prices| history.is_cold(prices.cache_life_ms)),
    };
    let line = policy.strategy.line(&outlook);
    Line { tokens: line.tokens.min(budget.usable), ..line }
}

/// What the view grows by in a call, in tokens.
fn growth(history: &History) -> u64 {
    let grown = history.view_tokens().saturating_sub(history.edited_tokens().unwrap_or(0));
    grown / u64::from(history.calls_since_edit()).max(1)
}

/// What is left of the window, a quarter at least, is for the rest of the answer.
pub(crate) fn pause_target(budget: &Budget) -> u64 {
    budget.usable.min(budget.window * 3 / 4)
}

/// An edit is worth nothing before the view has grown: this is what stops endless compaction.
fn no_progress(history: &History, budget: &Budget) -> bool {
    let settled = history.settled_tokens();
    settled.is_some_and(|settled| history.view_tokens() < settled + budget.progress())
}

/// `1 message`, `12 messages`.
fn counted(messages: u64) -> String {
    format!("{messages} message{}", if messages == 1 { "" } else { "s" })
}

/// The provider says it is too long although we may count less: aim clearly below either.
fn overflow_target(bound: u64, budget: &Budget) -> u64 {
    budget.usable.min(bound.saturating_sub(bound / 10))
}

/// One pass of planning: the view in units, and what each choice would lead to.
pub struct Scene<'a> {
    /// The session.
    pub history: &'a History,
    /// Its view in units.
    pub units: Vec<Unit>,
    /// The room.
    pub budget: Budget,
    /// What the request must stay below, in tokens.
    pub trigger: u64,
    /// What the request has now (bound), in tokens.
    pub before: u64,
    now: Reading,
    line: Line,
    fixed_tokens: u64,
    policy: &'a Policy,
    occasion: &'a Occasion,
    newest_typed: Option<usize>,
    /// What each unit has: every question of what an edit would leave is a sum of these.
    shares: Vec<Share>,
    /// The view up to this position is in the anchor's count.
    anchored: Seq,
    /// What the strategy's own check said of an edit.
    complaint: RefCell<Option<String>>,
}

impl<'a> Scene<'a> {
    fn new(
        history: &'a History,
        fixed_tokens: u64,
        budget: Budget,
        policy: &'a Policy,
        occasion: &'a Occasion,
        now: Reading,
        line: Line,
    ) -> Self {
        let before = now.bound();
        let trigger = match occasion {
            Occasion::Overflow => overflow_target(before, &budget),
            Occasion::Pause => pause_target(&budget),
            _ => line.tokens,
        };
        let forced = *occasion != Occasion::Routine || before > budget.usable;
        let pinned = if forced { Vec::new() } else { history.pinned() };
        let units = units(history.view(), &pinned);
        let anchored = history.anchor().map_or(0, |anchor| anchor.seq);
        let shares =
            units.iter().map(|unit| Share::of(&history.view()[unit.items.clone()], anchored)).collect();
        let newest_typed = units.iter().rposition(|unit| unit.kind == UnitKind::Typed);
        Self {
            history,
            units,
            shares,
            anchored,
            budget,
            trigger,
            before,
            now,
            line,
            fixed_tokens,
            policy,
            occasion,
            newest_typed,
            complaint: RefCell::default(),
        }
    }

    /// Whether tokens cost something, as far as is known.
    pub fn is_priced(&self) -> bool {
        self.policy.prices.as_ref().is_some_and(Prices::are_known)
    }

    /// Whether a person asked for it.
    pub fn is_requested(&self) -> bool {
        matches!(self.occasion, Occasion::Requested { .. })
    }

    /// System prompt and tools, in tokens.
    pub fn fixed_tokens(&self) -> u64 {
        self.fixed_tokens
    }

    /// The unit of the newest message that a person typed: always kept.
    pub fn newest_typed(&self) -> Option<usize> {
        self.newest_typed
    }

    /// The meter as it would read without the `gone` units and with `added` tokens more.
    pub fn after(&self, gone: &[bool], added: Groups) -> Reading {
        self.reading(|unit| !gone[unit], &[], added)
    }

    /// The bound of the request without the `gone` units, with a note in their place.
    pub fn without(&self, gone: &[bool]) -> u64 {
        self.after(gone, Groups::of(draft::HEADER_TOKENS)).bound()
    }

    /// Whether the request without the `gone` units, with `added` tokens more, stays under the trigger.
    pub fn would_fit(&self, gone: &[bool], added: u64) -> bool {
        self.after(gone, Groups::of(added + draft::HEADER_TOKENS)).bound() < self.trigger
    }

    /// The meter as it would read without the `gone` units, with the `cleared` results as placeholders and `added`
    /// tokens more.
    pub fn after_choice(&self, gone: &[bool], cleared: &[usize], added: u64) -> Reading {
        self.cleared(|unit| !gone[unit], cleared, Groups::of(added))
    }

    /// Asks the strategy, first with its own protection, then with the tight one.
    fn compact(&self) -> Option<Plan> {
        Protection::ALL.into_iter().find_map(|protection| {
            let choice = self.policy.strategy.choose(self, protection)?;
            self.accept(choice)
        })
    }

    /// Another edit before the view has grown, because it is full all the same: one that is worth it, so that the next is
    /// not due at once; if there is none, what there is.
    fn again(mut self) -> Plan {
        let line = self.trigger;
        self.trigger = line.min(self.budget.usable - self.budget.progress());
        if let Some(plan) = self.at_once().or_else(|| self.beside_ledger(usize::MAX)) {
            return plan;
        }
        self.trigger = line;
        let most = self.beside_ledger(1).or_else(|| self.at_once());
        most.unwrap_or_else(|| self.last_resort())
    }

    /// What a strategy leaves out at once, without a model: it knows better what to keep than the last resort does.
    fn at_once(&self) -> Option<Plan> {
        Protection::ALL.into_iter().find_map(|protection| {
            let choice = self.policy.strategy.choose(self, protection)?;
            (choice.instead == Instead::Note).then(|| self.accept(choice))?
        })
    }

    /// The floor check: what cannot get under the trigger is not started.
    fn accept(&self, mut choice: Choice) -> Option<Plan> {
        self.protect(&mut choice.gone);
        self.spare_unread(&mut choice);
        if !choice.gone.contains(&true) {
            let edit = self.clearing(&choice)?;
            return self.may_commit(&edit).then(|| Plan::Edit(Box::new(edit)));
        }
        self.settle(&mut choice);
        if choice.instead == Instead::Note {
            let edit = self.removal_by(&choice, self.policy.strategy.name());
            return self.may_commit(&edit).then(|| Plan::Edit(Box::new(edit)));
        }
        let draft = SummaryDraft::new(self, &choice)?;
        if !matches!(choice.instead, Instead::Extract { .. }) {
            return Some(Plan::Summarise(Box::new(draft)));
        }
        let edit = draft.finish_extractive(self.history).ok()?;
        self.may_commit(&edit).then(|| Plan::Edit(Box::new(edit)))
    }

    /// Whether the model has not seen the newest results, and what it is sent is up to us.
    fn is_unread(&self) -> bool {
        *self.occasion == Occasion::Routine && !self.history.is_answered()
    }

    /// What a tool has just said is for the model, not for a strategy that acts while there is room.
    fn spare_unread(&self, choice: &mut Choice) {
        let has_room = self.before <= self.budget.usable;
        let newest = self.steps_newest_first().next().filter(|_| self.is_unread() && has_room);
        if let Some(step) = newest {
            choice.gone[step] = false;
            let items = self.units[step].items.clone();
            choice.cleared.retain(|at| !items.contains(at));
        }
    }

    /// Results that go with their units are not cleared too.
    fn settle(&self, choice: &mut Choice) {
        let goes = |at: &usize| {
            let unit = self.units.partition_point(|unit| unit.items.end <= *at);
            choice.gone.get(unit).copied().unwrap_or(false)
        };
        choice.cleared.retain(|at| !goes(at));
    }

    fn protect(&self, gone: &mut [bool]) {
        for (at, gone) in gone.iter_mut().enumerate() {
            *gone &= !self.stays(at);
        }
    }

    /// Whether no strategy may leave a unit out.
    fn stays(&self, unit: usize) -> bool {
        // What was said of an answer that goes on.
        let is_paused = unit + 1 == self.units.len() && self.history.is_paused();
        self.units[unit].pinned || Some(unit) == self.newest_typed || is_paused
    }

    /// Whether committing `edit` leaves a smaller view under the trigger, and the strategy agrees.
    fn may_commit(&self, edit: &ViewEdit) -> bool {
        if edit.compressed_bound >= self.trigger || edit.compressed_bound >= self.before {
            return false;
        }
        match self.policy.strategy.validate(self.history, edit) {
            Ok(()) => true,
            Err(complaint) => {
                *self.complaint.borrow_mut() = Some(complaint);
                false
            }
        }
    }

    /// An edit that only clears results.
    fn clearing(&self, choice: &Choice) -> Option<ViewEdit> {
        if choice.cleared.is_empty() {
            return None;
        }
        let after = self.after_choice(&choice.gone, &choice.cleared, 0);
        let saved = self.before.saturating_sub(after.bound());
        let ops = self.placeholders(&choice.cleared);
        let what = format!("{} old tool results cleared, about {saved} tokens saved", choice.cleared.len());
        let why = self.reasoned(what, &choice.why, &after, self.first_touched(choice), 0.0);
        let name = self.policy.strategy.name();
        Some(self.view_edit(ops, EditKind::Prune, name, &after, self.messages(), why))
    }

    fn placeholders(&self, cleared: &[usize]) -> Vec<ViewOp> {
        let view = self.history.view();
        cleared.iter().map(|at| ViewOp::clear(view[*at].range.from)).collect()
    }

    /// An edit that removes the `gone` units and leaves a note with their handles.
    fn removal(&self, gone: &[bool], strategy: &str) -> ViewEdit {
        self.removal_by(&Choice::new(gone.to_vec(), Instead::Note), strategy)
    }

    fn removal_by(&self, choice: &Choice, strategy: &str) -> ViewEdit {
        self.removal_with(choice, strategy, self.note(&choice.gone))
    }

    fn removal_with(&self, choice: &Choice, strategy: &str, parts: Vec<Part>) -> ViewEdit {
        let gone = &choice.gone;
        let count = self.messages_in(gone);
        let after = self.cleared(|unit| !gone[unit], &choice.cleared, self.cost(parts.clone()));
        let mut parts = Some(parts);
        let ops = self.runs(gone).into_iter().map(|range| match parts.take() {
            Some(parts) => ViewOp::Replace { range, parts, summary: false },
            None => ViewOp::Drop { range },
        });
        let ops = ops.chain(self.placeholders(&choice.cleared)).collect();
        let what = format!("{} left out, no model call", counted(count));
        let why = self.reasoned(what, &choice.why, &after, self.first_touched(choice), 0.0);
        let kept = self.messages() - count + 1;
        self.view_edit(ops, EditKind::Compaction, strategy, &after, kept, why)
    }

    /// What stands where the `gone` units were.
    fn note(&self, gone: &[bool]) -> Vec<Part> {
        let count = self.messages_in(gone);
        let handles = named(&self.handles(gone));
        vec![Part::text(format!(
            "[{count} earlier messages were removed here to make room. The tool `recall` with handle {handles} returns them.]",
        ))]
    }

    /// The first item of the view that a choice touches.
    fn first_touched(&self, choice: &Choice) -> usize {
        let unit = choice.gone.iter().position(|gone| *gone).map(|unit| self.units[unit].items.start);
        unit.into_iter().chain(choice.cleared.first().copied()).min().unwrap_or(self.history.view().len())
    }

    /// What was done, why there, and what it costs and saves where prices are known.
    fn reasoned(&self, what: String, why: &str, after: &Reading, first: usize, making: f64) -> String {
        let mut words = what;
        // Who asks for it knows why.
        let line = if self.is_requested() { "" } else { self.line.why.as_str() };
        for more in [line, why] {
            if !more.is_empty() {
                words.push_str(&format!("; {more}"));
            }
        }
        if let Some(prices) = self.policy.prices.as_ref().filter(|prices| prices.are_known()) {
            let untouched: u64 = self.history.view()[..first].iter().map(|item| item.tokens).sum();
            let rewritten = after.total.saturating_sub(self.fixed_tokens + untouched);
            let removed = self.now.total.saturating_sub(after.total);
            let warm = !self.history.is_cold(prices.cache_life_ms);
            let cost = EditCost { rewritten, removed, making };
            words.push_str(&format!("; {}", prices.in_words(&cost, warm)));
        }
        if let Some(complaint) = self.complaint.borrow().as_ref() {
            words.push_str(&format!("; the strategy's own check refused another edit: {complaint}"));
        }
        words
    }

    fn view_edit(
        &self,
        ops: Vec<ViewOp>,
        kind: EditKind,
        strategy: &str,
        after: &Reading,
        compressed_messages: u64,
        why: String,
    ) -> ViewEdit {
        let reason = match self.occasion {
            Occasion::Routine | Occasion::Pause if self.history.is_switched() => EditReason::ModelSwitch,
            Occasion::Routine | Occasion::Pause => EditReason::TokenLimit,
            Occasion::Overflow => EditReason::OverflowError,
            Occasion::Requested { .. } => EditReason::Requested,
        };
        ViewEdit {
            id: format!("e{}", self.history.last_seq() + 1).into(),
            base_view_hash: self.history.view_hash(),
            ops,
            kind,
            strategy: strategy.to_owned(),
            reason,
            trigger_tokens: self.trigger,
            original_tokens: self.now.total,
            compressed_tokens: after.total,
            original_bound: self.before,
            compressed_bound: after.bound(),
            original_messages: self.messages(),
            compressed_messages,
            why,
            usage: None,
        }
    }

    /// What a message with these parts costs.
    fn cost(&self, parts: Vec<Part>) -> Groups {
        self.history.counter().message_groups(&Message::user("", parts))
    }

    /// Maximal runs of `gone` units, as ranges of the log.
    fn runs(&self, gone: &[bool]) -> Vec<crate::ids::LogRange> {
        let mut runs: Vec<crate::ids::LogRange> = Vec::new();
        let mut open = false;
        for (unit, gone) in self.units.iter().zip(gone) {
            match runs.last_mut() {
                Some(run) if *gone && open => run.to = unit.range.to,
                _ if *gone => runs.push(unit.range),
                _ => {}
            }
            open = *gone;
        }
        runs
    }

    /// What leads to everything in the `gone` units, and to what summaries and notes among them lead to.
    fn handles(&self, gone: &[bool]) -> Vec<Handle> {
        let mut ranges = self.runs(gone);
        for (unit, _) in self.units.iter().zip(gone).filter(|(_, gone)| **gone) {
            ranges.extend(self.history.view()[unit.items.clone()].iter().flat_map(|item| &item.covers));
        }
        crate::history::merged(self.history.entries(), ranges).into_iter().map(Handle).collect()
    }

    fn messages(&self) -> u64 {
        self.history.view().len() as u64
    }

    fn messages_in(&self, gone: &[bool]) -> u64 {
        self.units.iter().zip(gone).filter(|(_, gone)| **gone).map(|(unit, _)| unit.items.len() as u64).sum()
    }

    /// Indices of the units that are steps, newest first.
    fn steps_newest_first(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.units.len()).rev().filter(|at| self.units[*at].kind == UnitKind::Step)
    }

    /// The first unit of the newest `count` turns, at least one.
    pub fn turn_start(&self, count: usize) -> usize {
        let newest = self.units.last().map_or(0, |unit| unit.turn);
        let oldest_kept = newest.saturating_sub(count.max(1) - 1);
        self.units.iter().position(|unit| unit.turn >= oldest_kept).unwrap_or(0)
    }

    /// The first unit of the newest `count` steps, with what the first of them answers.
    pub fn step_start(&self, count: usize) -> usize {
        let first = self.steps_newest_first().take(count).last().unwrap_or(self.units.len());
        let is_asked = |unit: &&Unit| matches!(unit.kind, UnitKind::Typed | UnitKind::Note);
        first - self.units[..first].iter().rev().take_while(is_asked).count()
    }

    /// The first unit that a protection keeps.
    pub fn protected_from(&self, protection: Protection, turns: usize) -> usize {
        match protection {
            Protection::Turns => self.turn_start(turns),
            Protection::Steps | Protection::Step => self.step_start(protection.steps()),
        }
    }

    /// The first unit that a protection keeps, if the newest turns leave room enough; else the newest two steps.
    pub fn kept_whole_from(&self, protection: Protection, turns: usize) -> usize {
        let kept = self.protected_from(protection, turns);
        let alone = self.before_cut(kept);
        if protection == Protection::Turns
            && self.after(&alone, Groups::default()).bound() * 3 >= self.trigger * 2
        {
            return self.protected_from(Protection::Steps, turns);
        }
        kept
    }

    /// The unit with which the newest messages of at most `tokens` begin, at least the newest step.
    pub fn newest_tokens_from(&self, tokens: u64) -> usize {
        let mut sum = 0;
        let fits = |unit: &&Unit| {
            sum += unit.tokens;
            sum <= tokens
        };
        let kept = self.units.iter().rev().take_while(fits).count();
        (self.units.len() - kept).min(self.step_start(1))
    }

    /// The unit with which the newest `count` messages begin.
    pub fn newest_messages_from(&self, count: usize) -> usize {
        let first_item = self.history.view().len().saturating_sub(count);
        self.units.iter().position(|unit| unit.items.end > first_item).unwrap_or(self.units.len())
    }

    /// Where the first turn ends.
    pub fn first_turn_end(&self) -> usize {
        self.units.iter().position(|unit| unit.turn > 1).unwrap_or(self.units.len())
    }

    /// Where the first typed message ends, with what precedes it.
    pub fn first_typed_end(&self) -> usize {
        self.units.iter().position(|unit| unit.kind == UnitKind::Typed).map_or(0, |at| at + 1)
    }

    /// Everything before `cut` goes.
    pub fn before_cut(&self, cut: usize) -> Vec<bool> {
        (0..self.units.len()).map(|at| at < cut).collect()
    }
}

/// Handles as a person or a model reads them: `lh:3-17 or lh:20`.
fn named(handles: &[Handle]) -> String {
    handles.iter().map(Handle::to_string).collect::<Vec<_>>().join(" or ")
}

/// Whether an item is a tool result that still has its content.
fn is_clearable(kind: &ItemKind, protected: &[String]) -> bool {
    matches!(kind, ItemKind::Result { tool, cleared: None } if !protected.contains(tool))
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

#[cfg(test)]
mod tests;
