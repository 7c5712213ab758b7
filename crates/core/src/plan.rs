//! What to do about a conversation that fills its window: nothing, prune, compact, or say what does not fit.
//!
//! [`plan`] is a function of values: equal inputs give equal plans. It never edits; it answers with the
//! [`ViewEdit`] to commit, or with the summary that is needed first. Every edit it proposes leaves a smaller,
//! valid view under the trigger that fired, keeps the newest typed message verbatim and every call with its
//! result, and names the handle of everything that goes.

use std::sync::Arc;

use crate::budget::{Budget, StrategyTrigger};
use crate::event::ViewEdit;
use crate::history::{History, ViewItemKind};
use crate::ids::{EditId, LogHandle};
use crate::message::Role;
use crate::meter;
use crate::strategy::{CompactionStrategy, ThresholdInput, TriggerThreshold};

mod context;
mod draft;
mod earlier_summary;
mod economics;
mod edit;
mod extract;
mod facts;
mod prune;
mod pruning;
mod restore;
mod transcript;
mod truncation;
mod unit_tokens;
mod verbatim;

pub use context::PlanContext;
pub use draft::{
    MARK, ORDER_START, SummaryCheckInput, SummaryDefect, SummaryDraft, SummaryForm, SummaryRejection,
    SummaryRequest, check_summary,
};
pub use economics::{EditCost, TokenPrices};
pub(crate) use extract::plain_text;
pub(crate) use unit_tokens::least_bound;
pub(crate) use verbatim::shortened;

/// What the user chose about context.
#[derive(Clone)]
pub struct CompactionPolicy {
    /// `false`: count and show only; a full window is then an error.
    pub enabled: bool,
    /// How to compact.
    pub strategy: Arc<dyn CompactionStrategy>,
    /// When, if not when the strategy says.
    pub trigger: Option<StrategyTrigger>,
    /// What pruning leaves alone.
    pub prune: PruneOptions,
    /// Who writes summaries.
    pub writer: SummaryWriterModel,
    /// What the session's model costs, if that is known.
    pub prices: Option<TokenPrices>,
    /// Whether spans of what went that the newest message speaks of come back at the tail after a compaction.
    pub auto_recall: bool,
    /// How long a summary is waited for, in milliseconds.
    pub summary_timeout_ms: u64,
    /// The share of the free room that quotes of the user may take in a view that was shortened, 0 to 1. The free room is
    /// what the trigger leaves after everything else in that view.
    pub user_text_share: f64,
    /// Whether a newest typed message that is longer than the window is shown by its beginning and its end. If not, the
    /// plan says that it does not fit.
    pub cuts_user_messages: bool,
}

/// The beginning of an edit's reason where the edit shows the newest typed message by its beginning and its end.
pub const LONG_MESSAGE: &str = "the newest message is longer than the window";

/// How long a summary is waited for unless the policy says otherwise, in milliseconds.
pub const SUMMARY_TIMEOUT_MS: u64 = 300_000;

/// The share of the free room that quotes of the user may take unless the policy says otherwise.
pub const USER_TEXT_SHARE: f64 = 0.5;

impl CompactionPolicy {
    /// That strategy, everything else by default.
    pub fn new(strategy: Arc<dyn CompactionStrategy>) -> Self {
        Self {
            enabled: true,
            strategy,
            trigger: None,
            prune: PruneOptions::default(),
            writer: SummaryWriterModel::Session,
            prices: None,
            auto_recall: false,
            summary_timeout_ms: SUMMARY_TIMEOUT_MS,
            user_text_share: USER_TEXT_SHARE,
            cuts_user_messages: true,
        }
    }
}

/// Who writes summaries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SummaryWriterModel {
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

impl std::fmt::Debug for CompactionPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompactionPolicy")
            .field("enabled", &self.enabled)
            .field("strategy", &self.strategy.name())
            .field("trigger", &self.trigger)
            .field("prune", &self.prune)
            .field("writer", &self.writer)
            .field("prices", &self.prices)
            .field("auto_recall", &self.auto_recall)
            .field("user_text_share", &self.user_text_share)
            .field("cuts_user_messages", &self.cuts_user_messages)
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
pub enum PlanTrigger {
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
    DoesNotFit(ContextOverflow),
}

/// What does not fit, in tokens (bounds: with the expected error).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the request does not fit: system prompt and tools take {fixed_tokens} tokens, with the newest message up to \
     {needed_tokens} are needed, {usable_tokens} are usable of a window of {window_tokens}"
)]
pub struct ContextOverflow {
    /// System prompt and tools.
    pub fixed_tokens: u64,
    /// The least that a request needs.
    pub needed_tokens: u64,
    /// What a request may have.
    pub usable_tokens: u64,
    /// The window.
    pub window_tokens: u64,
}

/// System prompt and tools as the planner reckons with them, in estimated tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedPrefixTokens {
    /// What the request has as it is.
    pub now: u64,
    /// What it has once the view was edited: the tool `recall` may come with the first edit.
    pub after_edit: u64,
}

impl From<u64> for PlannedPrefixTokens {
    /// Tools that never change.
    fn from(tokens: u64) -> Self {
        Self { now: tokens, after_edit: tokens }
    }
}

/// Decides what to do before the next request.
pub fn plan(
    history: &History,
    fixed_tokens: impl Into<PlannedPrefixTokens>,
    budget: &Budget,
    policy: &CompactionPolicy,
    occasion: &PlanTrigger,
) -> Plan {
    plan_with(history, fixed_tokens, budget, policy, occasion, None)
}

/// [`plan`] with a summary that was written ahead: if it still fits what it was written for, it is what is committed. One that
/// is still on its way has an extract in its place, and [`swap`] puts it there later.
pub fn plan_with(
    history: &History,
    fixed_tokens: impl Into<PlannedPrefixTokens>,
    budget: &Budget,
    policy: &CompactionPolicy,
    occasion: &PlanTrigger,
    candidate: Option<&SummaryDraft>,
) -> Plan {
    let fixed = fixed_tokens.into();
    let now = meter::read(history, fixed.now);
    let bound = now.bound();
    let line = line_at(history, fixed.now, budget, policy, bound);
    let acts_at = match occasion {
        PlanTrigger::Routine => line.tokens,
        PlanTrigger::Pause => pause_target(budget),
        PlanTrigger::Overflow | PlanTrigger::Requested { .. } => 0,
    };
    if acts_at > 0 && (!policy.enabled || bound < acts_at) {
        return Plan::Fits;
    }
    let no_progress = *occasion == PlanTrigger::Routine && no_progress(history, budget);
    if no_progress && bound <= budget.usable {
        return Plan::Fits;
    }
    let scene = PlanContext::new(history, fixed.after_edit, *budget, policy, occasion, now, line);
    if *occasion == PlanTrigger::Overflow {
        return scene.after_refusal();
    }
    let ready = candidate.and_then(|draft| draft.rebased(&scene).or_else(|| scene.extended(draft)));
    let ready = ready.map(|edit| Plan::Edit(Box::new(edit)));
    if no_progress {
        return ready.unwrap_or_else(|| scene.again());
    }
    ready.or_else(|| scene.prune()).or_else(|| scene.compact()).unwrap_or_else(|| scene.last_resort())
}

/// Returns the edit that puts a summary in the place of the extract that `stand_in` has committed for it; `None` if that is
/// not shown any more, or the summary does not fit.
pub fn swap(
    history: &History,
    fixed_tokens: u64,
    budget: &Budget,
    policy: &CompactionPolicy,
    draft: &SummaryDraft,
    stand_in: &EditId,
) -> Option<ViewEdit> {
    let now = meter::read(history, fixed_tokens);
    let line = line_at(history, fixed_tokens, budget, policy, now.bound());
    let occasion = PlanTrigger::Routine;
    draft.swapped(stand_in, &PlanContext::new(history, fixed_tokens, *budget, policy, &occasion, now, line))
}

/// What may be summarised while work goes on, if the view is near the line where the policy acts.
pub fn plan_in_background(
    history: &History,
    fixed_tokens: impl Into<PlannedPrefixTokens>,
    budget: &Budget,
    policy: &CompactionPolicy,
) -> Option<Box<SummaryDraft>> {
    ahead_from(history, fixed_tokens, budget, policy, u64::MAX)
}

/// [`plan_in_background`], and from `from` tokens of the request on even if the line is far.
pub fn ahead_from(
    history: &History,
    fixed_tokens: impl Into<PlannedPrefixTokens>,
    budget: &Budget,
    policy: &CompactionPolicy,
    from: u64,
) -> Option<Box<SummaryDraft>> {
    let fixed = fixed_tokens.into();
    let now = meter::read(history, fixed.now);
    let line = line_at(history, fixed.now, budget, policy, now.bound());
    let near = line.tokens.saturating_sub((line.tokens / 16).max(2 * growth(history))).min(from);
    if !policy.enabled
        || policy.writer == SummaryWriterModel::Nobody
        || now.bound() < near
        || history.view().is_empty()
    {
        return None;
    }
    if no_progress(history, budget) {
        return None;
    }
    let scene =
        PlanContext::new(history, fixed.after_edit, *budget, policy, &PlanTrigger::Routine, now, line);
    let choice = policy.strategy.ahead(&scene)?;
    match scene.accept(choice)? {
        Plan::Summarise(draft) => Some(draft),
        _ => None,
    }
}

/// The draft of a compaction for which the strategy wants an extract: somebody else may have a summary for it.
pub(crate) fn extract_draft(
    history: &History,
    fixed_tokens: impl Into<PlannedPrefixTokens>,
    budget: &Budget,
    policy: &CompactionPolicy,
    occasion: &PlanTrigger,
) -> Option<SummaryDraft> {
    let fixed = fixed_tokens.into();
    let now = meter::read(history, fixed.now);
    let line = line_at(history, fixed.now, budget, policy, now.bound());
    PlanContext::new(history, fixed.after_edit, *budget, policy, occasion, now, line).extract_draft()
}

/// What remains when no summary can be used: truncation, or the error.
pub(crate) fn without_summary(
    history: &History,
    fixed_tokens: impl Into<PlannedPrefixTokens>,
    budget: &Budget,
    policy: &CompactionPolicy,
    occasion: &PlanTrigger,
) -> Plan {
    let fixed = fixed_tokens.into();
    let now = meter::read(history, fixed.now);
    let line = line_at(history, fixed.now, budget, policy, now.bound());
    PlanContext::new(history, fixed.after_edit, *budget, policy, occasion, now, line).last_resort()
}

/// Where the policy acts now, and why there: the number that displays show, and that [`plan`] compares the meter's
/// bound with.
pub fn line(
    history: &History,
    fixed_tokens: u64,
    budget: &Budget,
    policy: &CompactionPolicy,
) -> TriggerThreshold {
    let bound = meter::read(history, fixed_tokens).bound();
    line_at(history, fixed_tokens, budget, policy, bound)
}

fn line_at(
    history: &History,
    fixed_tokens: u64,
    budget: &Budget,
    policy: &CompactionPolicy,
    bound: u64,
) -> TriggerThreshold {
    let trigger = policy.trigger.unwrap_or_else(|| policy.strategy.trigger());
    if trigger != StrategyTrigger::Planner {
        return TriggerThreshold { tokens: budget.trigger(trigger), why: String::new() };
    }
    let counted = fixed_tokens + history.view_tokens();
    let scale = bound as f64 / counted.max(1) as f64;
    let settled = history.edited_tokens().map(|view| ((fixed_tokens + view) as f64 * scale) as u64);
    let prices = policy.prices.as_ref().filter(|prices| prices.are_known());
    let outlook = ThresholdInput {
        usable_tokens: budget.usable,
        fixed_tokens,
        bound_tokens: bound,
        settled_tokens: settled,
        growth_tokens: (growth(history) as f64 * scale) as u64,
        prices,
        cache_is_cold: prices.is_some_and(|prices| history.is_cold(prices.cache_life_ms)),
    };
    let line = policy.strategy.line(&outlook);
    TriggerThreshold { tokens: line.tokens.min(budget.usable), ..line }
}

/// What the view grows by in a call, in tokens.
fn growth(history: &History) -> u64 {
    let grown = history.view_tokens().saturating_sub(history.edited_tokens().unwrap_or(0));
    grown / u64::from(history.calls_since_edit()).max(1)
}

/// Returns the most tokens that a request may have which goes on with an answer: a quarter of the window at least is
/// left for the rest of the answer.
pub fn pause_target(budget: &Budget) -> u64 {
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

/// Targets for a request that the server refused as too long, in percent of its size by our count. The first one that
/// can be reached is taken: servers count differently, and often do not say how much.
const OVERFLOW_SHARES: [u64; 3] = [70, 90, 100];

/// The targets for a request of `bound` tokens that the server refused as too long, the best first. The last one is
/// anything smaller: whether the window is as small as the refusal said, only another refusal can tell.
fn overflow_targets(bound: u64, budget: &Budget) -> impl Iterator<Item = u64> {
    let usable = budget.usable;
    OVERFLOW_SHARES.into_iter().map(move |share| usable.min(bound * share / 100)).chain([bound])
}

/// Handles as a person or a model reads them: `lh:3-17 or lh:20`.
fn named(handles: &[LogHandle]) -> String {
    handles.iter().map(LogHandle::to_string).collect::<Vec<_>>().join(" or ")
}

/// Returns whether an item is a tool result that still has its content.
fn is_clearable(kind: &ViewItemKind, protected: &[String]) -> bool {
    matches!(kind, ViewItemKind::Result { tool, cleared: None } if !protected.contains(tool))
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
