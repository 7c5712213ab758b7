//! The planner for a conversation that fills the window: do nothing, prune, compact, or report an overflow.
//!
//! [`plan`] is a function of values: equal inputs give equal plans. The planner never edits. It returns the
//! [`ViewEdit`] to commit, or the summary that is needed first. Every edit leaves a smaller, valid view under the
//! trigger that fired. The view keeps the newest typed message verbatim and every call with its result. The edit names
//! the handle of every dropped message.

use std::fmt;
use std::sync::Arc;

use crate::budget::{Budget, StrategyTrigger};
use crate::event::{ViewEdit, ViewOperation};
use crate::history::{History, ViewItemKind};
use crate::ids::{EditId, LogHandle, LogRange};
use crate::message::Role;
use crate::meter;
use crate::strategy::{CompactionStrategy, ThresholdInput, TriggerThreshold};
use crate::truncate::grouped;

mod context;
mod documents;
mod draft;
mod earlier_summary;
mod economics;
mod edit;
mod extract;
mod facts;
mod imported_summary;
mod prune;
mod pruning_agent;
mod restore;
mod transcript;
mod truncation;
mod unconfirmed_rules;
mod unit_tokens;
mod verbatim;
mod view_units;

use truncation::LastResortPlanner;

pub use crate::retention::system_messages::quotes_system_messages;
pub use context::PlanContext;
pub use draft::{
    MARK, ORDER_START, SummaryCheckInput, SummaryDefect, SummaryDraft, SummaryForm, SummaryRejection,
    SummaryRequest, check_summary,
};
pub use economics::{EditCost, TokenPrices};
pub(crate) use extract::plain_text;
pub(crate) use imported_summary::{ImportedSummary, beside_summary, is_imported_summary};
pub use prune::{ResultClearing, clear_results};
pub(crate) use restore::restore_until_budget;
pub(crate) use unit_tokens::least_bound;
pub(crate) use verbatim::shortened;
pub use view_units::ViewUnits;

/// The user's settings for context management.
#[derive(Clone)]
pub struct CompactionPolicy {
    /// `false` only counts and shows tokens; a full window is then an error.
    pub enabled: bool,
    /// The strategy that compacts.
    pub strategy: Arc<dyn CompactionStrategy>,
    /// The trigger that replaces the strategy's own, if set.
    pub trigger: Option<StrategyTrigger>,
    /// The limits of pruning.
    pub prune: PruneOptions,
    /// The model that writes summaries.
    pub writer: SummaryWriterModel,
    /// The prices of the session's model, if known.
    pub prices: Option<TokenPrices>,
    /// `true` puts dropped passages that the newest message mentions back at the tail after a compaction.
    pub auto_recall: bool,
    /// The time that a summary may take, in milliseconds.
    pub summary_timeout_ms: u64,
    /// The share of the free room that quotes of the user may take in a shortened view, 0 to 1. The free room is the
    /// part below the trigger that the rest of that view leaves.
    pub user_text_share: f64,
    /// `true` cuts a newest typed message that no request holds to its beginning and end. `false` makes the plan
    /// report an overflow.
    pub cuts_user_messages: bool,
    /// The most model calls for one compaction, repeated calls not counted; at least 1. Messages older than those
    /// calls can read are left to the pinned facts and to their handles.
    pub max_summary_calls: usize,
}

/// The first words of an edit's reason if the edit cuts the newest typed message to its beginning and its end.
const LONG_MESSAGE: &str = "the newest message does not fit";

/// The first words of such a reason in logs of earlier releases.
const EARLIER_LONG_MESSAGE: &str = "the newest message is longer than the window";

/// Returns whether `why` is the reason of an edit that cuts the newest typed message to its beginning and its end.
#[doc(hidden)]
pub fn is_cut_of_message(why: &str) -> bool {
    why.starts_with(LONG_MESSAGE) || why.starts_with(EARLIER_LONG_MESSAGE)
}

/// The default time that a summary may take, in milliseconds.
// A model on a processor takes minutes for a long text (decision 0035).
pub(crate) const SUMMARY_TIMEOUT_MS: u64 = 300_000;

/// The default number of model calls for one compaction.
// The limit is that of decision 0016.
#[doc(hidden)]
pub const MAX_SUMMARY_CALLS: usize = 32;

/// The default share of the free room that quotes of the user may take.
// With more, the next compaction comes soon (decision 0043).
pub(crate) const USER_TEXT_SHARE: f64 = 0.5;

impl CompactionPolicy {
    /// Creates a policy with a strategy and defaults for everything else.
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
            max_summary_calls: MAX_SUMMARY_CALLS,
        }
    }
}

/// The model that writes summaries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum SummaryWriterModel {
    /// The session's own model.
    #[default]
    Session,
    /// Another model.
    Other {
        /// The other model's context window, in tokens.
        window: u64,
        /// The most that the other model writes, in tokens, if known.
        max_output: Option<u64>,
    },
    /// No model: the planner makes extracts.
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
            .field("summary_timeout_ms", &self.summary_timeout_ms)
            .field("user_text_share", &self.user_text_share)
            .field("cuts_user_messages", &self.cuts_user_messages)
            .finish()
    }
}

/// The limits of pruning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PruneOptions {
    /// The newest tool output that is never pruned, in tokens; at most a quarter of the usable room.
    pub protect_tokens: u64,
    /// The least worth clearing, in tokens net of placeholders; at most a tenth of the usable room.
    pub minimum_tokens: u64,
    /// Tools whose results are never pruned.
    pub protected_tools: Vec<String>,
}

impl Default for PruneOptions {
    fn default() -> Self {
        Self { protect_tokens: 40_000, minimum_tokens: 20_000, protected_tools: Vec::new() }
    }
}

/// The reason why a plan is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanTrigger {
    /// A step is due: the planner acts only if the trigger is reached.
    Routine,
    /// An answer was stopped before it reached the end of the window. The planner acts if the answer has too little
    /// room to continue.
    Pause,
    /// The provider refused the request for its length.
    Overflow,
    /// A user asked for a compaction.
    Requested {
        /// The user's instructions for the summary.
        instructions: Option<String>,
    },
}

/// The planner's decision.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Plan {
    /// Send the view unchanged.
    Fits,
    /// Commit the edit, then send.
    Edit(Box<ViewEdit>),
    /// Have a summary written, then finish the draft.
    Summarise(Box<SummaryDraft>),
    /// The request does not fit, and nothing else may be dropped.
    DoesNotFit(ContextOverflow),
}

/// The sizes of a request that does not fit, in tokens. Bounds include the expected error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextOverflow {
    /// The size of system prompt and tools.
    pub fixed_tokens: u64,
    /// The least that a request needs.
    pub needed_tokens: u64,
    /// The most that a request may have.
    pub usable_tokens: u64,
    /// The window.
    pub window_tokens: u64,
}

impl std::error::Error for ContextOverflow {}

impl fmt::Display for ContextOverflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fixed, needed) = (grouped(self.fixed_tokens), grouped(self.needed_tokens));
        // The message is not to blame where the prompt and the tools alone fill the window.
        let is_fixed_too_long = self.fixed_tokens >= self.usable_tokens;
        if is_fixed_too_long {
            write!(
                f,
                "system prompt and tools take {fixed} tokens, and up to {needed} with the newest message and the \
                 estimate's possible error"
            )?;
        } else {
            write!(
                f,
                "the newest message needs up to {needed} tokens with system prompt and tools ({fixed}) and the \
                 estimate's possible error"
            )?;
        }
        write!(
            f,
            ". {} fit (window {}, {} kept for the answer)",
            grouped(self.usable_tokens),
            grouped(self.window_tokens),
            grouped(self.window_tokens.saturating_sub(self.usable_tokens)),
        )?;
        f.write_str(if is_fixed_too_long {
            "; a larger window, a shorter system prompt or fewer tools make room"
        } else {
            "; a shorter message or a larger window makes room"
        })
    }
}

/// The sizes of system prompt and tools that the planner uses, in estimated tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedPrefixTokens {
    /// The size in the present request.
    pub now: u64,
    /// The size after an edit of the view: the first edit may bring the tool `recall`.
    pub after_edit: u64,
}

impl From<u64> for PlannedPrefixTokens {
    /// Creates the sizes of a prefix whose tools never change.
    fn from(tokens: u64) -> Self {
        Self { now: tokens, after_edit: tokens }
    }
}

/// Returns the decision for the next request: send the view, edit the view, write a summary, or report an overflow.
pub fn plan(
    history: &History,
    fixed_tokens: impl Into<PlannedPrefixTokens>,
    budget: &Budget,
    policy: &CompactionPolicy,
    trigger: &PlanTrigger,
) -> Plan {
    plan_with(history, fixed_tokens, budget, policy, trigger, None)
}

/// Plans like [`plan`], with a precomputed summary. A summary that still matches the view is committed. If the
/// summary is not finished yet, an extract takes its place, and [`swap`] replaces the extract later.
#[doc(hidden)]
pub fn plan_with(
    history: &History,
    fixed_tokens: impl Into<PlannedPrefixTokens>,
    budget: &Budget,
    policy: &CompactionPolicy,
    trigger: &PlanTrigger,
    candidate: Option<&SummaryDraft>,
) -> Plan {
    let fixed = fixed_tokens.into();
    let now = meter::read(history, fixed.now);
    let bound = now.bound();
    let threshold = threshold_at(history, fixed.now, budget, policy, bound);
    let acts_at = match trigger {
        PlanTrigger::Routine => threshold.tokens,
        PlanTrigger::Pause => pause_target(budget),
        PlanTrigger::Overflow | PlanTrigger::Requested { .. } => 0,
    };
    // A compaction on request has no threshold, so `enabled: false` does not refuse one.
    if acts_at > 0 && (!policy.enabled || bound < acts_at) {
        return Plan::Fits;
    }
    let no_progress = *trigger == PlanTrigger::Routine && no_progress(history, budget);
    // Another edit of a view that has hardly grown would save little, and would void the provider's prompt cache again.
    if no_progress && bound <= budget.usable {
        return Plan::Fits;
    }
    let context = PlanContext::new(history, fixed.after_edit, *budget, policy, trigger, now, threshold);
    // The server has counted the request, so neither the threshold nor the growth since the last edit matters.
    if *trigger == PlanTrigger::Overflow {
        return context.after_refusal();
    }
    // A ready summary goes before pruning. A pruned result changes the items that the draft covers and voids the draft.
    let ready =
        candidate.and_then(|draft| draft.rebased(&context).or_else(|| draft::extended(&context, draft)));
    let ready = ready.map(|edit| Plan::Edit(Box::new(edit)));
    if no_progress {
        return ready.unwrap_or_else(|| context.plan_repeated_edit());
    }
    ready
        // From the best way to the worst: pruning asks no model, and truncation forgets without a summary.
        .or_else(|| prune::prune(&context))
        .or_else(|| context.compact())
        .unwrap_or_else(|| LastResortPlanner::new(&context).plan())
}

/// Returns whether an edit leaves out a part of the newest message: of the newest typed message, or of tool results
/// that the model has not read yet.
#[doc(hidden)]
pub fn cuts_newest(history: &History, edit: &ViewEdit) -> bool {
    let view = history.view();
    let unread = view.iter().rev().take_while(|item| matches!(item.kind, ViewItemKind::Result { .. }));
    let typed = history.newest_typed().and_then(|at| view.get(at));
    let newest: Vec<LogRange> = unread.chain(typed).map(|item| item.range).collect();
    edit.ops
        .iter()
        .map(ViewOperation::range)
        .any(|op| newest.iter().any(|range| range.from <= op.to && op.from <= range.to))
}

/// Returns the edit that replaces an extract, which `stand_in` has committed, by the finished summary. The result is
/// `None` if the extract is not shown any more, or if the summary does not fit.
#[doc(hidden)]
pub fn swap(
    history: &History,
    fixed_tokens: u64,
    budget: &Budget,
    policy: &CompactionPolicy,
    draft: &SummaryDraft,
    stand_in: &EditId,
) -> Option<ViewEdit> {
    let now = meter::read(history, fixed_tokens);
    let threshold = threshold_at(history, fixed_tokens, budget, policy, now.bound());
    let trigger = PlanTrigger::Routine;
    draft.swapped(
        stand_in,
        &PlanContext::new(history, fixed_tokens, *budget, policy, &trigger, now, threshold),
    )
}

/// Returns the draft of a background summary, if the view is near the threshold where the policy acts.
#[doc(hidden)]
pub fn plan_in_background(
    history: &History,
    fixed_tokens: impl Into<PlannedPrefixTokens>,
    budget: &Budget,
    policy: &CompactionPolicy,
) -> Option<Box<SummaryDraft>> {
    ahead_from(history, fixed_tokens, budget, policy, u64::MAX)
}

/// The minimum share of the window for an early background summary, in percent.
// The summary is used when the view is full, and must be written by then (decision 0048).
const EARLY_PERCENT: u64 = 65;

/// The minimum share of the threshold, in percent, for an early background summary with little savings.
const URGENT_PERCENT: u64 = 85;

/// The minimum savings of an early background summary, as a fraction of the usable window (one in so many).
const MIN_SAVED_SHARE: u64 = 2;

/// Returns whether a request of `bound` tokens fills the window far enough for an early background summary.
#[doc(hidden)]
pub fn is_near_early_summary(bound: u64, budget: &Budget) -> bool {
    bound >= budget.window / 100 * EARLY_PERCENT
}

/// Returns the draft of an early background summary; `None` if the summary is not worth a call yet.
///
/// A gateway does not know when a client's next request comes, nor how much it adds. So its summaries begin earlier
/// than those of [`plan_in_background`], where they save enough.
#[doc(hidden)]
pub fn plan_early_in_background(
    history: &History,
    fixed_tokens: u64,
    budget: &Budget,
    policy: &CompactionPolicy,
) -> Option<Box<SummaryDraft>> {
    let bound = meter::read(history, fixed_tokens).bound();
    if !is_near_early_summary(bound, budget) {
        return None;
    }
    let draft = ahead_from(history, fixed_tokens, budget, policy, budget.window / 100 * EARLY_PERCENT)?;
    // An early summary saves little, and the view is full again after a few steps.
    let is_urgent = bound >= threshold(history, fixed_tokens, budget, policy).tokens / 100 * URGENT_PERCENT;
    (is_urgent || draft.savings_tokens() >= budget.usable / MIN_SAVED_SHARE).then_some(draft)
}

/// Returns the draft of a background summary, also far from the threshold once the request has `from` tokens.
fn ahead_from(
    history: &History,
    fixed_tokens: impl Into<PlannedPrefixTokens>,
    budget: &Budget,
    policy: &CompactionPolicy,
    from: u64,
) -> Option<Box<SummaryDraft>> {
    let fixed = fixed_tokens.into();
    let now = meter::read(history, fixed.now);
    let threshold = threshold_at(history, fixed.now, budget, policy, now.bound());
    // A view that grows fast gets a start two calls before the threshold, so that the model has time to write.
    let near = threshold.tokens.saturating_sub((threshold.tokens / 16).max(2 * growth(history))).min(from);
    if !policy.enabled
        || policy.writer == SummaryWriterModel::Nobody
        || now.bound() < near
        || history.view().is_empty()
    {
        return None;
    }
    // `plan` commits no edit of a view that has hardly grown and still fits, so the summary would not be used.
    if no_progress(history, budget) {
        return None;
    }
    let context =
        PlanContext::new(history, fixed.after_edit, *budget, policy, &PlanTrigger::Routine, now, threshold);
    let selection = policy.strategy.background_selection(&context)?;
    match context.accept(selection)? {
        // An edit without a model call takes no time, so an early start gains nothing.
        Plan::Summarise(draft) => Some(draft),
        _ => None,
    }
}

/// Returns the draft behind an extract that the strategy wants. A hook may supply a summary for this draft.
pub(crate) fn extract_draft(
    history: &History,
    fixed_tokens: impl Into<PlannedPrefixTokens>,
    budget: &Budget,
    policy: &CompactionPolicy,
    trigger: &PlanTrigger,
) -> Option<SummaryDraft> {
    let fixed = fixed_tokens.into();
    let now = meter::read(history, fixed.now);
    let threshold = threshold_at(history, fixed.now, budget, policy, now.bound());
    PlanContext::new(history, fixed.after_edit, *budget, policy, trigger, now, threshold).extract_draft()
}

/// Returns the plan for a compaction without any summary: truncation, or the overflow error.
pub(crate) fn without_summary(
    history: &History,
    fixed_tokens: impl Into<PlannedPrefixTokens>,
    budget: &Budget,
    policy: &CompactionPolicy,
    trigger: &PlanTrigger,
) -> Plan {
    let fixed = fixed_tokens.into();
    let now = meter::read(history, fixed.now);
    let threshold = threshold_at(history, fixed.now, budget, policy, now.bound());
    let context = PlanContext::new(history, fixed.after_edit, *budget, policy, trigger, now, threshold);
    LastResortPlanner::new(&context).plan()
}

/// Returns the policy's present threshold and the reason. Displays show the threshold, and [`plan`] compares
/// the meter's bound with it.
#[doc(hidden)]
pub fn threshold(
    history: &History,
    fixed_tokens: u64,
    budget: &Budget,
    policy: &CompactionPolicy,
) -> TriggerThreshold {
    let bound = meter::read(history, fixed_tokens).bound();
    threshold_at(history, fixed_tokens, budget, policy, bound)
}

fn threshold_at(
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
    // The strategy compares estimates with the meter's bound, so the estimates are scaled to that bound.
    let counted = fixed_tokens + history.view_tokens();
    // The divisor is not zero even in a session without a message.
    let scale = bound as f64 / counted.max(1) as f64;
    let settled = history.edited_tokens().map(|view| ((fixed_tokens + view) as f64 * scale) as u64);
    let prices = policy.prices.as_ref().filter(|prices| prices.are_known());
    let input = ThresholdInput {
        usable_tokens: budget.usable,
        fixed_tokens,
        bound_tokens: bound,
        settled_tokens: settled,
        growth_tokens: (growth(history) as f64 * scale) as u64,
        prices,
        cache_is_cold: prices.is_some_and(|prices| history.is_cold(prices.cache_life_ms)),
    };
    // Strategies of other programs may return any number.
    let threshold = policy.strategy.threshold(&input);
    TriggerThreshold { tokens: threshold.tokens.min(budget.usable), ..threshold }
}

/// Returns the growth of the view per call, in tokens.
fn growth(history: &History) -> u64 {
    let grown = history.view_tokens().saturating_sub(history.edited_tokens().unwrap_or(0));
    grown / u64::from(history.calls_since_edit()).max(1)
}

/// Returns the most tokens of a request that continues an answer. At least a quarter of the window stays free for the
/// rest of the answer.
#[doc(hidden)]
pub fn pause_target(budget: &Budget) -> u64 {
    // The share is that of decision 0018.
    budget.usable.min(budget.window * 3 / 4)
}

/// Returns whether the view has grown too little since the last edit. This check stops endless compaction.
fn no_progress(history: &History, budget: &Budget) -> bool {
    let settled = history.settled_tokens();
    settled.is_some_and(|settled| history.view_tokens() < settled + budget.progress())
}

/// Returns a number of messages in words: `1 message`, `12 messages`.
fn messages_in_words(messages: u64) -> String {
    format!("{messages} message{}", if messages == 1 { "" } else { "s" })
}

/// The targets for a request that the server refused as too long, in percent of our own count. The planner takes the
/// first target that it can reach. Servers count differently, and often do not name the excess.
const OVERFLOW_SHARES: [u64; 3] = [70, 90, 100];

/// Returns the targets for a request of `bound` tokens that the server refused as too long, the best first. The last
/// target is any smaller request: only another refusal can confirm a window as small as the first refusal implied.
fn overflow_targets(bound: u64, budget: &Budget) -> impl Iterator<Item = u64> {
    let usable = budget.usable;
    OVERFLOW_SHARES.into_iter().map(move |share| usable.min(bound * share / 100)).chain([bound])
}

/// Returns handles in the form that a person or a model reads: `lh:3-17 or lh:20`.
fn named(handles: &[LogHandle]) -> String {
    handles.iter().map(LogHandle::to_string).collect::<Vec<_>>().join(" or ")
}

/// Returns whether an item is an uncleared result of an unprotected tool.
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
