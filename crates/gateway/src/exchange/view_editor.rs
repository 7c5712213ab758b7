//! The edits of a conversation's view: the choice of an edit, its summary or extract, and its commit.

use std::sync::Arc;

use longhaul_core::event::EditKind;
use longhaul_core::history::SummaryWriterRecord;
use longhaul_core::plan::{CompactionPolicy, Plan, PlanTrigger};
use longhaul_core::run::PreCompactOutput;
use longhaul_core::strategy::TruncationStrategy;
use longhaul_store::memo::PrefixCacheKey;
use longhaul_wire::edit::{GatewayError, GatewayErrorKind};

use super::conversation::{ConversationState, chain};
use super::fallback_summary::{FallbackSummary, MissingSummaryCause};
use super::journal::JournalStore;
use super::log::ConversationLog;
use super::memo_lookup::{ConversationMemo, MAX_KEYS};
use super::recall::HiddenSteps;
use super::request_budget::RequestBudget;
use super::summary::{self, PlannedEdit, SummaryFailure, SummaryFailureReason};
use super::targeted_request::TargetedRequest;
use super::usage_totals::UsageTotals;

/// The maximum number of plans for one request. As in a run, another plan follows only if the first one did not help.
const MOST_PLANS: usize = 3;

/// The edit for a request, and the PreCompact hook's answer.
pub(super) struct EditDecision {
    pub(super) made: Option<PlannedEdit>,
    pub(super) hook_answer: Option<PreCompactOutput>,
}

/// An editor of one conversation's view for one request.
#[derive(Clone)]
pub(super) struct ViewEditor {
    pub(super) request: Arc<TargetedRequest>,
    pub(super) budget: RequestBudget,
    pub(super) memo: ConversationMemo,
    /// The usage of all calls for the answer and for summaries.
    pub(super) totals: Arc<UsageTotals>,
}

/// Returns the policy with a strategy without summaries, at the same trigger.
fn without_summaries(policy: CompactionPolicy) -> CompactionPolicy {
    // The other strategy's trigger would let messages be dropped earlier or later than configured.
    let trigger = policy.trigger.unwrap_or_else(|| policy.strategy.trigger());
    CompactionPolicy { strategy: Arc::new(TruncationStrategy::default()), trigger: Some(trigger), ..policy }
}

impl ViewEditor {
    /// Returns the store of the conversation's journal.
    pub(super) fn journal(&self) -> JournalStore<'_> {
        JournalStore { request: &self.request, memo: &self.memo, budget: &self.budget }
    }

    /// Returns the answer's steps hidden from the client.
    pub(super) fn hidden_steps(&self) -> HiddenSteps<'_> {
        HiddenSteps { request: &self.request, editor: self }
    }

    /// Returns whether the writer of summaries is left alone for now.
    pub(super) fn writer_rests(&self) -> bool {
        self.request.proxied.inner.writers.rests(&self.request.writer())
    }

    /// Updates the record of the writer of summaries.
    pub(super) fn note_writer(&self, change: impl FnOnce(&mut SummaryWriterRecord)) {
        self.request.proxied.inner.writers.note(&self.request.writer(), change);
    }

    /// Adopts the memo's edits if the view gets shorter than with the own edits: those in force for an earlier request,
    /// or a summary written ahead of need. Returns whether edits were adopted.
    pub(super) async fn remember(
        &self,
        state: &mut ConversationState,
        fixed: u64,
    ) -> Result<bool, GatewayError> {
        let chain = self.request.work(|| chain(&self.memo.names(usize::MAX))).await;
        // The longest prefix comes first, because its edits leave out the most.
        let prefixes = || chain.iter().rev().take(MAX_KEYS);
        let keys: Vec<PrefixCacheKey> = prefixes().map(|name| self.memo.memo_key(name)).collect();
        let ahead: Vec<PrefixCacheKey> = prefixes().map(|name| self.memo.ahead_key(name)).collect();
        let takes_in_force = match self.memo.found(&keys, chain.len()).await? {
            Some(found) => self.adopt(state, found, fixed).await,
            None => false,
        };
        // Edits in force come first: a summary written ahead was made on top of them.
        let Some(found) = self.memo.found(&ahead, chain.len()).await? else { return Ok(takes_in_force) };
        // The place of the old edits is read first: their entry in the memo is replaced, too.
        let before = state.log.portable().map(|(_, item)| item);
        let takes_ahead = self.adopt(state, found, fixed).await;
        if takes_ahead {
            // The summary is in force from now on.
            self.memo.keep(&state.log, before).await;
        }
        Ok(takes_in_force || takes_ahead)
    }

    /// Adopts a log with other edits if its view is shorter, or has the summary for which an extract waits. Returns
    /// whether the log was adopted.
    async fn adopt(&self, state: &mut ConversationState, mut found: ConversationLog, fixed: u64) -> bool {
        // Only the bare estimate is comparable: the upstream has counted at most one of the two views.
        let (theirs, ours) = (found.history.view_tokens(), state.log.history.view_tokens());
        let is_less = state.log.history.edits().is_empty() || theirs < ours;
        // Another request has stored the summary for which an extract waits here.
        let is_summary = state.log.is_pending() && !found.is_pending();
        let takes = is_less
            || is_summary
                && self.request.work(|| self.budget.fits(&found.history, fixed, &PlanTrigger::Routine)).await;
        tracing::debug!(
            tokens_stored = theirs,
            tokens_own = ours,
            is_adopted = takes,
            "edits for an earlier request were found"
        );
        if takes {
            state.log = found;
        } else if theirs == ours {
            // Both views hold the same extract, so failed attempts elsewhere also delay the next one here.
            state.log.pending().zip(found.pending()).for_each(|(own, other)| own.merge_state(other));
        }
        takes
    }

    /// Returns whether a request waits for a needed summary. A client's own request for a compaction does.
    pub(super) fn waits_for_summary(&self, occasion: &PlanTrigger) -> bool {
        self.request.proxied.inner.config.waits_for_summaries
            || matches!(occasion, PlanTrigger::Requested { .. })
    }

    /// Returns whether an extract is to be replaced by a summary now.
    pub(super) fn is_due(&self, log: &ConversationLog, occasion: &PlanTrigger) -> bool {
        *occasion == PlanTrigger::Routine && log.is_due((self.request.proxied.inner.parts.now)())
    }

    /// Makes the view fit, and returns the kind and reason of the edit. If a summary is needed, it also covers the
    /// ranges of waiting extracts.
    pub(super) async fn shorten(
        &self,
        state: &mut ConversationState,
        fixed: u64,
        occasion: &PlanTrigger,
    ) -> Result<Option<(EditKind, String)>, GatewayError> {
        let mut failed = None;
        let waits = self.waits_for_summary(occasion);
        if waits && *occasion == PlanTrigger::Routine && state.log.is_pending() {
            let needs_one =
                || matches!(self.budget.plan(&state.log.history, fixed, occasion), Plan::Summarise(_));
            if self.request.work(needs_one).await {
                match self.summarise_again(state, fixed).await {
                    Ok(Some(done)) => return Ok(Some(done)),
                    Ok(None) => {}
                    // A second attempt for the same request would fail as the first did, so the plan below goes
                    // without a summary.
                    Err(why) => failed = Some(why),
                }
            }
        }
        if self.is_cancelled_by_hook(state, fixed, occasion) {
            return Ok(None);
        }
        let failed = failed.or((!waits).then(SummaryFailureReason::not_yet_asked));
        let EditDecision { made, hook_answer } =
            self.choose_edit(&state.log, fixed, occasion, failed).await?;
        self.memo.keep_hook_answer(hook_answer, made.is_some());
        let Some(mut made) = made else { return Ok(None) };
        if !waits && made.missing_summary_cause.is_some() {
            // The extract stays if the writer has failed repeatedly, or if more room will be needed soon.
            let rests = self.writer_rests();
            if rests {
                self.note_writer(SummaryWriterRecord::record_skipped_compaction);
            }
            if rests || !state.pace.is_worth_a_summary(state.log.items) {
                tracing::debug!(
                    rests,
                    items = state.log.items,
                    "the extract stays, and no summary replaces it"
                );
                made.missing_summary_cause = None;
            }
        }
        let done = (made.edit.kind, made.edit.why.clone());
        self.commit(state, made).await;
        Ok(Some(done))
    }

    /// Writes the summary for an extract, including everything newer. `None` if there is nothing to summarise any more.
    ///
    /// # Errors
    /// The reason why there is no summary; the view is unchanged.
    async fn summarise_again(
        &self,
        state: &mut ConversationState,
        fixed: u64,
    ) -> Result<Option<(EditKind, String)>, SummaryFailureReason> {
        // The summary covers the original messages, because an extract holds only a part of them.
        let unedited = self.request.work(|| self.budget.without_stopgaps(&state.log, fixed)).await;
        let Some((mut whole, draft)) = unedited else {
            // The next attempt must wait, or each request would look for something to summarise again.
            self.put_off(state, MissingSummaryCause::Away).await;
            return Ok(None);
        };
        let edit = match summary::write(self, &whole, draft).await {
            Ok(edit) => edit,
            Err(SummaryFailure { why, .. }) => {
                // Put off with a growing pause, so that a writer that fails is not asked by every request.
                self.put_off(state, why.cause).await;
                return Err(why);
            }
        };
        let why = format!("{}; an extract stood in its place until now", edit.why);
        let done = (edit.kind, why);
        let before = state.log.portable().map(|(_, item)| item);
        tracing::info!(after = edit.compressed_tokens, "a summary stands where an extract stood");
        whole.commit(edit, None);
        state.log = whole;
        self.memo.keep(&state.log, before).await;
        Ok(Some(done))
    }

    /// Records another failed attempt at the summary for an extract.
    pub(super) async fn put_off(&self, state: &mut ConversationState, cause: MissingSummaryCause) {
        let now = (self.request.proxied.inner.parts.now)();
        tracing::debug!(?cause, "the summary for an extract is put off");
        state.log.pending().for_each(|stopgap| *stopgap = stopgap.failed(cause, now));
        self.memo.keep(&state.log, None).await;
    }

    /// Commits an edit to the log and to the memo for later requests.
    pub(super) async fn commit(&self, state: &mut ConversationState, made: PlannedEdit) {
        self.decide(&mut state.log, made);
        self.memo.keep(&state.log, None).await;
    }

    /// Commits an edit to a log.
    pub(super) fn decide(&self, log: &mut ConversationLog, made: PlannedEdit) {
        let PlannedEdit { edit, missing_summary_cause: stopgap } = made;
        let now = (self.request.proxied.inner.parts.now)();
        tracing::info!(
            strategy = edit.strategy,
            before = edit.original_tokens,
            after = edit.compressed_tokens,
            why = edit.why,
            "a conversation was shortened"
        );
        log.commit(edit, stopgap.map(|cause| FallbackSummary::new(cause, now)));
    }

    /// Returns the edit for fitting the request; `None` if the request fits already. With `failed`, the reason
    /// against a summary now, no writer is asked.
    ///
    /// # Errors
    /// [`GatewayError`] if no edit makes the request fit.
    pub(super) async fn choose_edit(
        &self,
        log: &ConversationLog,
        fixed: u64,
        occasion: &PlanTrigger,
        failed: Option<SummaryFailureReason>,
    ) -> Result<EditDecision, GatewayError> {
        // A copy, because a failed summary changes the strategy for this request only.
        let mut policy = self.budget.policy.clone();
        let (mut hook_answer, mut is_asked) = (None, false);
        for _ in 0..MOST_PLANS {
            let plan =
                self.request.work(|| self.budget.plan_by(&policy, &log.history, fixed, occasion)).await;
            if !is_asked && !matches!(plan, Plan::Fits | Plan::DoesNotFit(_)) {
                // The hook is asked once for a request, although several plans may follow.
                is_asked = true;
                hook_answer = self.ask_pre_compact(log, &plan, fixed, occasion).await;
                if let Some(answer) = hook_answer.as_ref().filter(|answer| answer.cancel) {
                    if let PlanTrigger::Requested { .. } = occasion {
                        let why = answer.cancellation();
                        return Err(GatewayError::new(GatewayErrorKind::Forbidden, why));
                    }
                    // After a refusal for length the gateway's own count has been proven wrong.
                    if *occasion != PlanTrigger::Overflow && self.budget.fits_the_window(log, fixed) {
                        return Ok(EditDecision { made: None, hook_answer });
                    }
                    // A hook may cancel a compaction, but not keep a request from fitting, so messages are dropped
                    // instead.
                    policy = without_summaries(policy);
                    continue;
                }
            }
            match plan {
                Plan::Fits => return Ok(EditDecision { made: None, hook_answer }),
                Plan::Edit(edit) => {
                    return Ok(EditDecision { made: Some(PlannedEdit::as_wanted(*edit)), hook_answer });
                }
                Plan::DoesNotFit(misfit) => {
                    return Err(GatewayError::new(GatewayErrorKind::DoesNotFit, misfit.to_string()));
                }
                Plan::Summarise(mut draft) => {
                    let budget = self.budget.summary_budget();
                    let is_given = hook_answer
                        .as_ref()
                        .is_some_and(|answer| answer.apply(&mut draft, &log.history, &budget));
                    // A summary that the hook gives needs no writer.
                    let failed = failed.clone().filter(|_| !is_given);
                    let written = match failed {
                        Some(why) => Err(SummaryFailure { why, draft: *draft }),
                        None => summary::write(self, log, *draft).await,
                    };
                    let made = match &written {
                        Ok(edit) => Some(PlannedEdit::as_wanted(edit.clone())),
                        Err(failed) => self.request.work(|| PlannedEdit::extract(log, failed)).await,
                    };
                    if made.is_some() {
                        return Ok(EditDecision { made, hook_answer });
                    }
                    // Neither the summary nor an extract fits.
                    policy = without_summaries(policy);
                }
            }
        }
        Ok(EditDecision { made: None, hook_answer })
    }
}
